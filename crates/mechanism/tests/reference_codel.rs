//! `CoDel` against independent implementations in Python, one with the loop of the RFC and one with the arithmetic of Linux: on
//! random traces, for every packet the same fate at the same instant.
//!
//! Source: `tests/oracle/python/freeze_codel.py`, which states the format; tests/oracle/verdicts/codel.json, which it made.

mod frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{
    Codel, CodelConfig, CodelLawConfig, Fifo, QueueDiscipline as _, Reentry, Variant,
};
use tidegate_packet::{Ecn, FlowId, Packet};
use tidegate_units::{Bytes, Limit, Span, Time};

use frozen_trace::{frozen, run, splitmix, whole};

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
    let mut below = splitmix(whole(&of["seed"]));
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
        let (fates, counts) = run(&mut queue(&of["config"]), &arrivals, whole(&of["nanos_per_byte"]), count);
        frozen_trace::compare(of, &fates, counts);
    }
}
