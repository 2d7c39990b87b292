//! FQ-CoDel and FQ-PIE against independent implementations in Python, from the RFC's text and Linux's code: on random traces, for every
//! packet the same fate at the same instant, and as many new and old queues all along.
//!
//! Source: `tests/oracle/python/freeze_fq_codel.py` and `freeze_fq_pie.py`, which state the format;
//! `tests/oracle/verdicts/fq_codel.json` and `fq_pie.json`, which they made.

use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{CodelLawConfig, Reentry, Variant};
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    Backlogged, BinHash, Classification, FlowQueueingConfig, FqCodel, FqCodelConfig, FqPie, FqPieConfig,
};
use tidegate_units::{Bytes, Limit, Span};

use frozen_trace::{EARLY, flow_arrivals, frozen, lists, pie_law, run, whole};

fn flow_queues(of: &Value) -> FlowQueueingConfig {
    let number = |key: &str| whole(&of[key]);
    FlowQueueingConfig {
        limit: Limit::Packets(number("limit") as u32),
        memory_limit: Bytes::new(number("memory_limit")),
        quantum: Bytes::new(number("quantum")),
        queues: number("queues") as u32,
        ways: of["ways"].as_u64().unwrap_or(1) as u32,
        hash: BinHash::Modulo,
        classify: Classification::Flow,
    }
}

fn fq_codel(of: &Value) -> FqCodel {
    let number = |key: &str| whole(&of[key]);
    let is = |key: &str, word: &str| of[key].as_str().expect("a word") == word;
    let config = FqCodelConfig {
        codel: CodelLawConfig {
            target: Span::from_nanos(number("target")),
            interval: Span::from_nanos(number("interval")),
            ecn: of["ecn"].as_bool().expect("a switch"),
            reentry: if is("reentry", "two-less") { Reentry::TwoLess } else { Reentry::LastDrops },
            variant: if is("variant", "linux") { Variant::Linux } else { Variant::Rfc },
            ce_threshold: of["ce_threshold"].as_u64().map(Span::from_nanos),
        },
        flows: flow_queues(of),
        drop_batch: number("drop_batch") as u32,
        backlog: if is("backlog", "all") { Backlogged::All } else { Backlogged::Queue },
    };
    config.build(&Context { mtu_bytes: number("maxpacket") as u32, ..Context::for_tests() })
}

fn fq_pie(of: &Value, seed: Seed) -> FqPie {
    let number = |key: &str| whole(&of[key]);
    let config = FqPieConfig { pie: pie_law(of), flows: flow_queues(of) };
    config.build(&Context { mtu_bytes: number("mtu") as u32, seed, ..Context::for_tests() })
}

#[test]
fn fq_codel_decides_every_packet_as_the_reference_does() {
    let frozen = frozen("fq_codel.json");
    let traces = frozen["fq_codel"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for of in traces {
        let arrivals = flow_arrivals(of, whole(&frozen["packets"]));
        let (fates, seen) =
            run(&mut fq_codel(&of["config"]), &arrivals, whole(&of["nanos_per_byte"]), EARLY, 25, lists);
        frozen_trace::compare(of, &fates, seen);
    }
}

#[test]
fn fq_pie_decides_every_packet_as_the_reference_does() {
    // The seed of the given random numbers.
    let seed = Seed(whole(&frozen("draws.json")["seed"]));
    let frozen = frozen("fq_pie.json");
    let traces = frozen["fq_pie"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for of in traces {
        let arrivals = flow_arrivals(of, whole(&frozen["packets"]));
        let mut queue = fq_pie(&of["config"], seed);
        let (fates, seen) = run(&mut queue, &arrivals, whole(&of["nanos_per_byte"]), EARLY, 25, lists);
        frozen_trace::compare(of, &fates, seen);
    }
}
