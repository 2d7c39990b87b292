//! `DualPI2` against an independent implementation in Python that has the loop of the RFC: on random traces, for every packet the
//! same fate at the same instant, and the same base probability to the last bit; where packets are drawn, the same shares.
//!
//! Source: `tests/oracle/python/freeze_dualpi2.py`, which states the format; tests/oracle/verdicts/dualpi2.json, which it made.

#[allow(dead_code, reason = "the link is another: it has timers")]
mod frozen_trace;

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    AnyDiscipline, DisciplineConfig, DualLaw, DualPi2, DualPi2Config, DualScheduler,
};
use tidegate_packet::{DropReason, Ecn, MarkReason, Packet, Sink};
use tidegate_units::{Bytes, Limit, Span, Time};

use self::frozen_trace::{arrivals_with, compare, frozen, whole};

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

/// The arrivals of a trace, of which each has one of the four codepoints.
fn arrivals(of: &Value, packets: u64) -> Vec<Packet> {
    let ecn_of = |draw| match draw {
        _ if draw < whole(&of["mix"][0]) => Ecn::NotEct,
        _ if draw < whole(&of["mix"][1]) => Ecn::Ect0,
        _ if draw < whole(&of["mix"][2]) => Ecn::Ect1,
        _ => Ecn::Ce,
    };
    arrivals_with(of, packets, ecn_of, None)
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

#[test]
fn dualpi2_decides_every_packet_as_the_reference_does() {
    let frozen = frozen("dualpi2.json");
    let traces = frozen["dualpi2"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (260, Some(1)));
    for of in traces {
        let (fates, probabilities) = run(of, whole(&frozen["packets"]));
        compare(of, &fates, probabilities);
    }
}

#[test]
fn packets_that_are_drawn_share_the_fates_that_those_of_the_reference_have() {
    let frozen = frozen("dualpi2.json");
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
