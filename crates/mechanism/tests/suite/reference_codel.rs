//! `CoDel` against independent implementations in Python, one with the loop of the RFC and one with the arithmetic of Linux: on
//! random traces, for every packet the same fate at the same instant.
//!
//! Source: `tests/oracle/python/freeze_codel.py`, which states the format; tests/oracle/verdicts/codel.json, which it made.

use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{
    Codel, CodelConfig, CodelLawConfig, Fifo, QueueDiscipline as _, Reentry, Variant,
};
use tidegate_units::{Bytes, Limit, Span};

use frozen_trace::{EARLY, arrivals, frozen, run, whole};

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

#[test]
fn codel_decides_every_packet_as_the_reference_does() {
    compare("codel");
}

#[test]
fn codel_with_the_arithmetic_of_linux_decides_every_packet_as_the_reference_does() {
    compare("linux");
}

fn compare(list: &str) {
    let frozen = frozen("codel.json");
    let traces = frozen[list].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(2)));
    for of in traces {
        let arrivals = arrivals(of, whole(&frozen["packets"]));
        let count = |queue: &Fifo<Codel>| queue.variable("drop_count").expect("it has a count") as u64;
        let (fates, counts) =
            run(&mut queue(&of["config"]), &arrivals, whole(&of["nanos_per_byte"]), EARLY, 25, count);
        frozen_trace::compare(of, &fates, counts);
    }
}
