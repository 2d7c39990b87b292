//! `DualPI2` against an independent implementation in Python that has the loop of the RFC: on random traces, for every packet the
//! same fate at the same instant, and the same base probability to the last bit; where packets are drawn, the same shares.
//!
//! Source: `tests/oracle/python/freeze_dualpi2.py`, which states the format; tests/oracle/verdicts/dualpi2.json, which it made.

use crate::frozen_trace;

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    AnyDiscipline, DisciplineConfig, DualLaw, DualPi2, DualPi2Config, DualScheduler,
};
use tidegate_packet::{DropReason, MarkReason};
use tidegate_units::{Bytes, Limit, Span};

use self::frozen_trace::{Letters, arrivals_with, compare, frozen, mixed, whole};

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

const LETTERS: Letters = Letters {
    of_drop: |why| match why {
        DropReason::Early => 'd',
        DropReason::Forced => 'f',
        _ => 'o',
    },
    of_mark: |why| if why == MarkReason::Step { 'n' } else { 'm' },
};

/// The fates of the packets of a trace, and the bits of `p'` after each 25 arrivals.
fn run(of: &Value, packets: u64) -> (Vec<(char, u64)>, Vec<u64>) {
    let mut dual = queue(&of["config"], whole(&of["seed"]));
    let probability = |queue: &DualPi2| queue.variable("base_probability").expect("it has one").to_bits();
    frozen_trace::run(
        &mut dual,
        &arrivals_with(of, packets, |draw| mixed(of, draw), None),
        whole(&of["nanos_per_byte"]),
        LETTERS,
        25,
        probability,
    )
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
