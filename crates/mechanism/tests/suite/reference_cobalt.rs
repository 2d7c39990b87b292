//! COBALT against an independent implementation in Python: on random traces, for every packet the same fate at the same instant, and
//! the same count and probability all along.
//!
//! Source: `tests/oracle/python/freeze_cobalt.py`, which states the format; `tests/oracle/verdicts/cobalt.json`, which it made.

use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{Cobalt, CobaltConfig, Fifo, QueueDiscipline as _};
use tidegate_mechanism::random::Seed;
use tidegate_units::{BitRate, Limit, Span};

use frozen_trace::{EARLY, arrivals, frozen, run, whole};

/// Of the parts in which probabilities are counted.
const TWO_32: f64 = 4_294_967_296.0;

fn queue(of: &Value, nanos_per_byte: u64, seed: Seed) -> Fifo<Cobalt> {
    let number = |key: &str| whole(&of[key]);
    let config = CobaltConfig {
        limit: Limit::Packets(number("limit") as u32),
        target: Span::from_nanos(number("target")),
        interval: Span::from_nanos(number("interval")),
        ecn: true,
        increment: number("p_inc") as f64 / TWO_32,
        decrement: number("p_dec") as f64 / TWO_32,
    };
    let link_rate = BitRate::from_bps(8_000_000_000 / nanos_per_byte);
    Fifo::new(config.build(&Context { seed, link_rate, mtu_bytes: number("mtu") as u32 }))
}

fn state(queue: &Fifo<Cobalt>) -> u64 {
    let variable = |name| queue.variable(name).expect("it has a count and a probability");
    (variable("drop_count") as u64) << 32 | (variable("marking_probability") * TWO_32) as u64
}

#[test]
fn cobalt_decides_every_packet_as_the_reference_does() {
    // The seed of the given random numbers.
    let seed = Seed(whole(&frozen("draws.json")["seed"]));
    let frozen = frozen("cobalt.json");
    let traces = frozen["cobalt"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for of in traces {
        let nanos_per_byte = whole(&of["nanos_per_byte"]);
        let arrivals = arrivals(of, whole(&frozen["packets"]));
        let mut queue = queue(&of["config"], nanos_per_byte, seed);
        let (fates, seen) = run(&mut queue, &arrivals, nanos_per_byte, EARLY, 25, state);
        frozen_trace::compare(of, &fates, seen);
    }
}
