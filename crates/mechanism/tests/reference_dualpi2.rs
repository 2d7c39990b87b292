//! `DualPI2` against an independent implementation in Python that has the loop of the RFC: on random traces, for every packet the
//! same fate at the same instant, and the same base probability to the last bit; where packets are drawn, the same shares.
//!
//! Source: `tests/oracle/python/freeze_dualpi2.py`, which states the format; tests/oracle/verdicts/dualpi2.json, which it made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    AnyDiscipline, DisciplineConfig, DualLaw, DualPi2, DualPi2Config, DualScheduler,
};
use tidegate_packet::{DropReason, Ecn, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{Bytes, Limit, Span, Time};

fn frozen() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/dualpi2.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn span(value: &Value) -> Span {
    Span::from_nanos(whole(value))
}

fn queue(of: &Value, seed: u64) -> DualPi2 {
    let most = whole(&of["limit"][1]);
    let config = DualPi2Config {
        limit: match of["limit"][0].as_str() {
            Some("packets") => Limit::Packets(most as u32),
            _ => Limit::Bytes(Bytes::new(most)),
        },
        target: span(&of["target"]),
        rtt_max: span(&of["rtt_max"]),
        tupdate: of["tupdate"].as_u64().map(Span::from_nanos),
        alpha: None,
        beta: None,
        k: of["k"].as_f64().expect("a number"),
        min_th: span(&of["min_th"]),
        range: span(&of["range"]),
        th_len: whole(&of["th_len"]) as u32,
        law: if of["law"] == "recur" { DualLaw::Recur } else { DualLaw::Random },
        scheduler: if of["scheduler"] == "wrr" {
            DualScheduler::WeightedRoundRobin
        } else {
            DualScheduler::TimeShifted
        },
        classic_share: whole(&of["classic_percent"]) as f64 / 100.0,
        tshift: span(&of["tshift"]),
    };
    let mtu_bytes = whole(&of["mtu"]) as u32;
    let context = Context { mtu_bytes, seed: Seed(seed), ..Context::for_tests() };
    let AnyDiscipline::DualPi2(queue) = DisciplineConfig::DualPi2(config).build(&context) else {
        panic!("another discipline");
    };
    queue
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
            let draw = below(100);
            let ecn = match draw {
                _ if draw < whole(&of["mix"][0]) => Ecn::NotEct,
                _ if draw < whole(&of["mix"][1]) => Ecn::Ect0,
                _ if draw < whole(&of["mix"][2]) => Ecn::Ect1,
                _ => Ecn::Ce,
            };
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
    became: Vec<(char, u64)>,
    marked: Option<char>,
}

impl Fates {
    fn set(&mut self, packet: &Packet, fate: char) {
        self.became[packet.slot as usize] = (fate, self.now.as_nanos());
    }
}

impl Sink for Fates {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        let fate = match why {
            DropReason::Early => 'd',
            DropReason::Forced => 'f',
            _ => 'o',
        };
        self.set(&packet, fate);
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        assert_eq!(packet.ecn, Ecn::Ce);
        self.marked = Some(if why == MarkReason::Step { 'n' } else { 'm' });
    }
}

/// What is due by `now`, each update at its instant.
fn update(queue: &mut DualPi2, now: Time, told: &mut Fates) {
    while let Some(at) = queue.timer_at().filter(|&at| at <= now) {
        queue.on_timer(at, told);
    }
}

/// The next packet begins to be sent; when it is gone.
fn send(queue: &mut DualPi2, now: Time, told: &mut Fates, nanos_per_byte: u64) -> Option<Time> {
    update(queue, now, told);
    (told.now, told.marked) = (now, None);
    let packet = queue.dequeue(now, told)?;
    let fate = told.marked.unwrap_or('s');
    told.set(&packet, fate);
    Some(now + Span::from_nanos(u64::from(packet.wire_bytes) * nanos_per_byte))
}

/// One link that is served before an arrival at the same instant; the fates, and the bits of `p'` after each 25 arrivals.
fn run(of: &Value, packets: u64) -> (Vec<(char, u64)>, Vec<u64>) {
    let (arrivals, nanos_per_byte) = (arrivals(of, packets), whole(&of["nanos_per_byte"]));
    let mut queue = queue(&of["config"], whole(&of["seed"]));
    let mut told = Fates { now: Time::ZERO, became: vec![(' ', 0); arrivals.len()], marked: None };
    let (mut probabilities, mut busy_until) = (Vec::new(), None);
    for packet in &arrivals {
        let now = packet.arrived;
        while let Some(at) = busy_until.filter(|&at| at <= now) {
            busy_until = send(&mut queue, at, &mut told, nanos_per_byte);
        }
        told.now = now;
        update(&mut queue, now, &mut told);
        queue.enqueue(*packet, now, &mut told);
        if busy_until.is_none() {
            busy_until = send(&mut queue, now, &mut told, nanos_per_byte);
        }
        if packet.slot % 25 == 24 {
            probabilities.push(queue.variable("base_probability").expect("it has one").to_bits());
        }
    }
    while let Some(at) = busy_until {
        busy_until = send(&mut queue, at, &mut told, nanos_per_byte);
    }
    (told.became, probabilities)
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
fn dualpi2_decides_every_packet_as_the_reference_does() {
    let frozen = frozen();
    let traces = frozen["dualpi2"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (260, Some(1)));
    for of in traces {
        let (fates, probabilities) = run(of, whole(&frozen["packets"]));
        assert_eq!(Some(shorten(&fates).as_str()), of["outcomes"].as_str(), "trace {}", of["seed"]);
        let found = digest(fates.iter().map(|fate| fate.1).chain(probabilities));
        assert_eq!(
            Some(found.as_str()),
            of["digest"].as_str(),
            "instants and probabilities of trace {}",
            of["seed"]
        );
    }
}

#[test]
fn packets_that_are_drawn_share_the_fates_that_those_of_the_reference_have() {
    let frozen = frozen();
    let traces = frozen["random"].as_array().expect("a list");
    let mut found = BTreeMap::<char, u64>::new();
    for of in traces {
        for (fate, _) in run(of, whole(&frozen["packets"])).0 {
            *found.entry(fate).or_default() += 1;
        }
    }
    for (fate, expected) in frozen["counts"].as_object().expect("a table") {
        let (letter, expected) = (fate.chars().next().expect("a letter"), whole(expected) as f64);
        let found = found.get(&letter).copied().unwrap_or_default() as f64;
        assert!((found / expected - 1.0).abs() < 0.02, "{fate}: {found}, and {expected} in the reference");
    }
}
