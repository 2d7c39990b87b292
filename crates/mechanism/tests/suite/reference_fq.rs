//! The `fq` scheduler against an independent implementation in Python, from Linux's code with the departures that
//! are by design: on random traces with stamps, for every packet the same fate at the same instant, and as many new
//! and old queues all along.
//!
//! Source: `tests/oracle/python/freeze_fq.py`, which states the format; `tests/oracle/verdicts/fq.json`, which it
//! made.

use std::collections::HashMap;

use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::QueueDiscipline as _;
use tidegate_mechanism::schedule::{Fq, FqConfig};
use tidegate_packet::{DropReason, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use frozen_trace::{flow_arrivals, frozen, splitmix, whole};

/// Queues enough that no two flows of a trace meet: the hash is ours, and the reference has none.
fn fq(of: &Value) -> Fq {
    let number = |key: &str| whole(&of[key]);
    let config = FqConfig {
        limit: Limit::Packets(number("limit") as u32),
        flow_limit: number("flow_limit") as u32,
        quantum: Bytes::new(number("quantum")),
        initial_quantum: Bytes::new(number("initial_quantum")),
        max_rate: of["max_rate"].as_u64().map(|nanos| BitRate::from_bps(8_000_000_000 / nanos)),
        queues: 65_536,
        ..FqConfig::default()
    };
    config.build(&Context::for_tests())
}

/// When the sender of each packet lets it go, as in the script.
fn stamps(of: &Value, arrivals: &[Packet]) -> Vec<Option<Time>> {
    let mut below = splitmix(whole(&of["seed"]) ^ 0xFFFF_FFFF);
    let mut last: HashMap<FlowId, Time> = HashMap::new();
    let stamp = |packet: &Packet| {
        let is_stamped = below(100) < whole(&of["stamped"]);
        let ahead = Span::from_nanos(1 + below(whole(&of["ahead"])));
        let mut at = packet.arrived + ahead;
        if of["rising"] == true {
            at = last.get(&packet.flow).map_or(at, |&before| at.max(before + Span::from_nanos(1)));
        }
        is_stamped.then(|| *last.entry(packet.flow).insert_entry(at).get())
    };
    arrivals.iter().map(stamp).collect()
}

/// One link, the stamps, and what became of each packet, and when.
struct World {
    now: Time,
    busy_until: Option<Time>,
    nanos_per_byte: u64,
    stamps: Vec<Option<Time>>,
    became: Vec<(char, u64)>,
}

impl Sink for World {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        assert_eq!(why, DropReason::Overflow);
        self.became[packet.slot as usize] = ('o', self.now.as_nanos());
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {
        unreachable!("it marks nothing");
    }
    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        self.stamps[packet.slot as usize]
    }
}

impl World {
    /// The next packet begins to be sent, if one may go.
    fn send(&mut self, fq: &mut Fq, now: Time) {
        self.now = now;
        self.busy_until = fq.dequeue(now, self).map(|packet| {
            self.became[packet.slot as usize] = ('s', now.as_nanos());
            now + Span::from_nanos(u64::from(packet.wire_bytes) * self.nanos_per_byte)
        });
    }

    /// The link serves what may go until `end`.
    fn serve(&mut self, fq: &mut Fq, end: Time) {
        while let Some(at) = self.busy_until.or_else(|| fq.ready_at(self.now)).filter(|&at| at <= end) {
            self.send(fq, at);
        }
    }
}

/// The fates, and the lengths of both lists after each 25 arrivals.
fn run(of: &Value, packets: u64) -> (Vec<(char, u64)>, Vec<u64>) {
    let arrivals = flow_arrivals(of, packets);
    let mut fq = fq(&of["config"]);
    let mut world = World {
        now: Time::ZERO,
        busy_until: None,
        nanos_per_byte: whole(&of["nanos_per_byte"]),
        stamps: stamps(of, &arrivals),
        became: vec![(' ', 0); arrivals.len()],
    };
    let mut lists = Vec::new();
    for packet in &arrivals {
        world.serve(&mut fq, packet.arrived);
        world.now = packet.arrived;
        fq.enqueue(*packet, packet.arrived, &mut world);
        if world.busy_until.is_none() {
            world.send(&mut fq, packet.arrived);
        }
        if packet.slot % 25 == 24 {
            lists.push(frozen_trace::lists(&fq));
        }
    }
    world.serve(&mut fq, Time::MAX);
    (world.became, lists)
}

#[test]
fn fq_sends_every_packet_when_the_reference_does() {
    let frozen = frozen("fq.json");
    let traces = frozen["fq"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for of in traces {
        let (fates, lists) = run(of, whole(&frozen["packets"]));
        frozen_trace::compare(of, &fates, lists);
    }
}
