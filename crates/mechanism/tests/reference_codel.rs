//! `CoDel` against independent implementations in Python, one with the loop of the RFC and one with the arithmetic of Linux: on
//! random traces, for every packet the same fate at the same instant.
//!
//! Source: `tests/oracle/python/freeze_codel.py`, which states the format; tests/oracle/verdicts/codel.json, which it made.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{
    Codel, CodelConfig, CodelLawConfig, Fifo, QueueDiscipline, Reentry, Variant,
};
use tidegate_packet::{DropReason, Ecn, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{Bytes, Limit, Span, Time};

fn frozen() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/codel.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn queue(of: &Value) -> Fifo<Codel> {
    let most = whole(&of["limit"][1]);
    let config = CodelConfig {
        limit: match of["limit"][0].as_str() {
            Some("packets") => Limit::Packets(most as u32),
            _ => Limit::Bytes(Bytes::new(most)),
        },
        law: CodelLawConfig {
            target: Span::from_nanos(whole(&of["target"])),
            interval: Span::from_nanos(whole(&of["interval"])),
            ecn: of["ecn"].as_bool().expect("a switch"),
            reentry: match of["reentry"].as_str() {
                Some("two-less") => Reentry::TwoLess,
                _ => Reentry::LastDrops,
            },
            variant: match of["variant"].as_str() {
                Some("linux") => Variant::Linux,
                _ => Variant::Rfc,
            },
            ce_threshold: None,
        },
    };
    let mtu_bytes = whole(&of["maxpacket"]) as u32;
    Fifo::new(config.build(&Context { mtu_bytes, ..Context::for_tests() }))
}

/// The arrivals that follow from the seed of a trace, as in the script.
fn arrivals(of: &Value, packets: u64) -> Vec<Packet> {
    let mut state = whole(&of["seed"]);
    // SplitMix64.
    let mut below = |n: u64| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    };
    let (mut load, mut now) = (0, Time::ZERO);
    (0..packets)
        .map(|number| {
            if number % 40 == 0 {
                load = below(5);
            }
            let size = [40, 576, 1000, 1500][below(4) as usize];
            let ecn = if below(100) < whole(&of["ect_percent"]) { Ecn::Ect0 } else { Ecn::NotEct };
            let unit = size * whole(&of["nanos_per_byte"]);
            now +=
                Span::from_nanos(below([1, unit * 3 / 2, unit * 3 / 2, unit * 2, unit * 4][load as usize]));
            Packet { ecn, arrived: now, ..Packet::new(number as u32, FlowId(0), size as u32) }
        })
        .collect()
}

/// What became of each packet, and when.
struct Fates {
    now: Time,
    fates: Vec<(char, u64)>,
}

impl Fates {
    fn set(&mut self, packet: &Packet, fate: char) {
        self.fates[packet.slot as usize] = (fate, self.now.as_nanos());
    }
}

impl Sink for Fates {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.set(&packet, if why == DropReason::Early { 'd' } else { 'o' });
    }
    fn on_mark(&mut self, _packet: &Packet, why: MarkReason) {
        assert_eq!(why, MarkReason::Early);
    }
}

/// The next packet begins to be sent; when it is gone.
fn send(queue: &mut Fifo<Codel>, now: Time, told: &mut Fates, nanos_per_byte: u64) -> Option<Time> {
    told.now = now;
    let packet = queue.dequeue(now, told)?;
    told.set(&packet, if packet.ecn == Ecn::Ce { 'm' } else { 's' });
    Some(now + Span::from_nanos(u64::from(packet.wire_bytes) * nanos_per_byte))
}

/// One link that is served before an arrival at the same instant; the fates, and `count` after each 25 arrivals.
fn run(queue: &mut Fifo<Codel>, arrivals: &[Packet], nanos_per_byte: u64) -> (Vec<(char, u64)>, Vec<u64>) {
    let mut told = Fates { now: Time::ZERO, fates: vec![(' ', 0); arrivals.len()] };
    let (mut counts, mut busy_until) = (Vec::new(), None);
    for packet in arrivals {
        let now = packet.arrived;
        while let Some(at) = busy_until.filter(|&at| at <= now) {
            busy_until = send(queue, at, &mut told, nanos_per_byte);
        }
        told.now = now;
        queue.enqueue(*packet, now, &mut told);
        if busy_until.is_none() {
            busy_until = send(queue, now, &mut told, nanos_per_byte);
        }
        if packet.slot % 25 == 24 {
            counts.push(queue.variable("drop_count").expect("it has a count") as u64);
        }
    }
    while let Some(at) = busy_until {
        busy_until = send(queue, at, &mut told, nanos_per_byte);
    }
    (told.fates, counts)
}

/// `3sd` for three packets sent, and one dropped.
fn shorten(fates: &[(char, u64)]) -> String {
    let mut text = String::new();
    for same in fates.chunk_by(|a, b| a.0 == b.0) {
        if same.len() > 1 {
            write!(text, "{}", same.len()).expect("a string grows");
        }
        text.push(same[0].0);
    }
    text
}

fn digest(values: impl Iterator<Item = u64>) -> String {
    let hash =
        values.fold(0xCBF2_9CE4_8422_2325u64, |hash, value| (hash ^ value).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

#[test]
fn codel_decides_every_packet_as_the_reference_does() {
    compare("codel");
}

#[test]
fn codel_with_the_arithmetic_of_linux_decides_every_packet_as_the_reference_does() {
    compare("linux");
}

fn compare(list: &str) {
    let frozen = frozen();
    let traces = frozen[list].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(2)));
    for of in traces {
        let arrivals = arrivals(of, whole(&frozen["packets"]));
        let (fates, counts) = run(&mut queue(&of["config"]), &arrivals, whole(&of["nanos_per_byte"]));
        assert_eq!(Some(shorten(&fates).as_str()), of["outcomes"].as_str(), "trace {}", of["seed"]);
        let found = digest(fates.iter().map(|fate| fate.1).chain(counts));
        assert_eq!(
            Some(found.as_str()),
            of["digest"].as_str(),
            "instants and counts of trace {}",
            of["seed"]
        );
    }
}
