//! PIE, the step, PI, PI2, REM, AVQ and CHOKe against independent implementations in Python, each on 240 random traces: the same
//! arrivals and random numbers, and for every packet the same fate at the same instant.
//!
//! Source: `tests/oracle/python/freeze_managers.py`, which states the format, and for PI2 `freeze_pi2.py`;
//! tests/oracle/verdicts/KIND.json, which they made.

#[allow(dead_code, reason = "numbers are compared in another way")]
use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{
    AvqConfig, ChokeConfig, DelayEstimator, Fifo, GapLaw, Pi2Config, PiConfig, PieConfig, QueueDiscipline,
    QueueManager, QueueUnit, RedConfig, RemConfig, Scalable, StepConfig, Unmarkable, Victim,
};
use tidegate_mechanism::random::Seed;
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Bytes, Limit, Span};

use self::frozen_trace::{Letters, arrivals_with, digest, ect0, frozen, mixed, pie_law, run, shorten};

/// A configuration, or the head of a trace.
#[derive(Clone, Copy)]
struct Of<'a>(&'a Value);

impl Of<'_> {
    fn whole(self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_else(|| panic!("{key} is a whole number"))
    }
    fn real(self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_else(|| panic!("{key} is a number"))
    }
    fn yes(self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or_else(|| panic!("{key} is a switch"))
    }
    fn is(self, key: &str, text: &str) -> bool {
        self.0[key].as_str() == Some(text)
    }
    fn span(self, key: &str) -> Span {
        Span::from_nanos(self.whole(key))
    }
    fn bytes(self, key: &str) -> Bytes {
        Bytes::new(self.whole(key))
    }
    fn limit(self, key: &str) -> Limit {
        let most = self.0[key][1].as_u64().expect("a limit is a number");
        match self.0[key][0].as_str() {
            Some("packets") => Limit::Packets(most as u32),
            Some("bytes") => Limit::Bytes(Bytes::new(most)),
            _ => Limit::Time(Span::from_nanos(most)),
        }
    }
}

const LETTERS: Letters = Letters {
    of_drop: |why| match why {
        DropReason::Early | DropReason::Forced => 'd',
        DropReason::FairShare => 'f',
        _ => 'o',
    },
    of_mark: |_| 'm',
};

/// Panics at the first trace that differs from what the reference decides.
fn compare<M: QueueManager>(kind: &str, variable: &str, manager: impl Fn(Of, &Context) -> M) {
    let frozen = frozen(&format!("{kind}.json"));
    let traces = frozen["traces"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for trace in traces {
        let of = Of(trace);
        let what = format!("trace {} of {kind}", trace["seed"]);
        let nanos_per_byte = of.whole("nanos_per_byte");
        let config = Of(&trace["config"]);
        let context = Context {
            // The one whose first numbers the references are given.
            seed: Seed(7),
            link_rate: BitRate::from_bps(8_000_000_000 / nanos_per_byte),
            mtu_bytes: config.0["mtu"].as_u64().map_or(1500, |mtu| mtu as u32),
        };
        let mut fifo = Fifo::new(manager(config, &context));
        let ecn_of = |draw| if trace["mix"].is_null() { ect0(trace, draw) } else { mixed(trace, draw) };
        let flows = frozen["flows"].as_u64();
        let arrivals = arrivals_with(trace, Of(&frozen).whole("packets"), ecn_of, flows);
        let watch = |queue: &Fifo<M>| match variable {
            "waiting" => f64::from(queue.backlog().packets),
            _ => queue.variable(variable).expect("it has the variable"),
        };
        let (fates, watched) = run(&mut fifo, &arrivals, nanos_per_byte, LETTERS, 100, watch);
        assert_eq!(Some(shorten(&fates).as_str()), trace["outcomes"].as_str(), "{what}");
        let instants = digest(fates.iter().map(|fate| fate.1));
        assert_eq!(Some(instants.as_str()), trace["digest"].as_str(), "instants of {what}");
        for (value, found) in trace["watched"].as_array().expect("a list").iter().zip(watched) {
            let reference = value.as_f64().expect("watched values are numbers");
            assert!((reference - found).abs() <= 1e-9 * reference.abs().max(1.0), "{what}: {found}, {value}");
        }
    }
}

#[test]
fn pie_decides_every_packet_as_the_reference_does() {
    compare("pie", "marking_probability", |of, context| {
        let is_by_rate = of.is("estimator", "departure-rate");
        let config = PieConfig {
            law: pie_law(of.0),
            limit: of.limit("limit"),
            estimator: if is_by_rate { DelayEstimator::DepartureRate } else { DelayEstimator::Timestamps },
            dq_threshold: of.bytes("dq_threshold"),
            on_demand: of.yes("on_demand"),
        };
        config.build(context)
    });
}

#[test]
fn the_step_decides_every_packet_as_the_reference_does() {
    compare("step", "waiting", |of, context| {
        let others = if of.is("others", "pass") { Unmarkable::Pass } else { Unmarkable::Drop };
        let (limit, threshold) = (of.limit("limit"), of.limit("threshold"));
        StepConfig { limit, threshold, ecn: of.yes("ecn"), others }.build(context)
    });
}

fn mode(of: Of) -> QueueUnit {
    if of.is("mode", "bytes") { QueueUnit::Bytes } else { QueueUnit::Packets }
}

#[test]
fn pi_decides_every_packet_as_the_reference_does() {
    compare("pi", "marking_probability", |of, context| {
        let config = PiConfig {
            limit: of.limit("limit"),
            q_ref: Limit::Packets(of.whole("q_ref") as u32),
            a: of.real("a"),
            b: of.real("b"),
            period: of.span("period"),
            mode: mode(of),
            mean_packet: of.bytes("mean_packet"),
            ecn: of.yes("ecn"),
        };
        config.build(context)
    });
}

#[test]
fn pi2_decides_every_packet_as_the_reference_does() {
    compare("pi2", "coupled_probability", |of, context| {
        let config = Pi2Config {
            limit: of.limit("limit"),
            target: of.span("target"),
            t_update: of.span("t_update"),
            alpha: of.real("alpha"),
            beta: of.real("beta"),
            k: of.real("k"),
            scalable: match of.0["scalable"].as_str() {
                Some("ect") => Scalable::Ect,
                Some("none") => Scalable::None,
                _ => Scalable::Ect1,
            },
            ecn: of.yes("ecn"),
        };
        config.build(context)
    });
}

#[test]
fn rem_decides_every_packet_as_the_reference_does() {
    compare("rem", "price", |of, context| {
        let config = RemConfig {
            limit: of.limit("limit"),
            b_ref: Limit::Packets(of.whole("b_ref") as u32),
            gamma: of.real("gamma"),
            alpha: of.real("alpha"),
            phi: of.real("phi"),
            period: of.span("period"),
            weight: of.real("w"),
            mode: mode(of),
            mean_packet: of.bytes("mean_packet"),
            ecn: of.yes("ecn"),
        };
        config.build(context)
    });
}

#[test]
fn avq_decides_every_packet_as_the_reference_does() {
    compare("avq", "virtual_capacity_bps", |of, context| {
        let config = AvqConfig {
            limit: of.limit("limit"),
            virtual_limit: Some(Limit::Bytes(of.bytes("virtual_bytes"))),
            gamma: of.real("gamma"),
            alpha: of.real("alpha"),
            start: of.real("start"),
            mean_packet: Bytes::new(1000),
            ecn: of.yes("ecn"),
        };
        config.build(context)
    });
}

/// A threshold that is a whole number of packets.
fn packets(of: Of, key: &str) -> Limit {
    Limit::Packets(of.real(key) as u32)
}

#[test]
fn choke_decides_every_packet_as_the_reference_does() {
    compare("choke", "average_queue_packets", |of, context| {
        let red = RedConfig {
            limit: of.limit("limit"),
            min: packets(of, "min_th"),
            max: packets(of, "max_th"),
            weight: of.real("w"),
            max_p: of.real("max_p"),
            mean_packet: of.bytes("packet_bytes"),
            gap: if of.is("gap_law", "wait") { GapLaw::Wait } else { GapLaw::Paper },
            gentle: of.yes("gentle"),
            victim: if of.is("victim", "random") { Victim::Random } else { Victim::Arriving },
            ecn: of.yes("ecn"),
            mark_forced: of.yes("ecn_when_forced"),
            ..RedConfig::default()
        };
        ChokeConfig { red }.build(context)
    });
}
