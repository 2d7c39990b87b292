//! TCP through one link that loses packets at random, against the square-root law and against the full model with
//! time-outs.
//!
//! Source: Mathis, Semke, Mahdavi & Ott, CCR 1997 (windows of sqrt(3 / 2bp) segments); Padhye, Firoiu, Towsley & Kurose
//! ("PFTK"), SIGCOMM 1998, eq. (28) and (31), the rate of sending, without a limit of the receiver.
//! Here b is the number of segments for which the window grows once: 2 for delayed acknowledgments in `ns-1999`, which
//! counts acknowledgments, and 1 in `modern` with or without them, for it counts bytes (RFC 5681, section 3.1).
//! T0, the first time-out, follows from a constant round trip of one tick: three ticks in `ns-1999` (its deviation never
//! falls below half a tick), four with acknowledgments that are sometimes a tick late; the round trip and
//! the lower bound of 200 ms in `modern`. PFTK takes all packets of a round behind a lost one for lost too; here losses are independent, which is
//! part of its 20 %.

use crate::common::{Net, direction, drop_tail};
use tidegate_engine::{ApplicationSpec, LossModel, TransportSpec};
use tidegate_mechanism::tcp::{TcpConfig, Variant};

const RTT: f64 = 0.1;
const SEEDS: u64 = 3;
const DURATION: f64 = 600.0;
const LOSSES: [f64; 5] = [0.001, 0.003, 0.01, 0.03, 0.05];
const VARIANTS: [Variant; 3] = [Variant::Reno, Variant::NewReno, Variant::Sack];
/// Where at most so many of the losses end in a time-out, the square-root law, which knows none, must hold.
const FEW_TIMEOUTS: f64 = 0.02;

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    segments_per_second: f64,
    timeouts: u64,
    fast_retransmits: u64,
}

/// The mean over seeds of a connection that never stops.
fn run(config: &TcpConfig, loss: f64) -> Sent {
    let mut all = Sent::default();
    for seed in 1..=SEEDS {
        let mut net = Net::default();
        net.link("h0", "h1", direction("1Gbit", "50ms", drop_tail(10_000)));
        net.network.links[0].forward.loss = Some(LossModel::Random { probability: loss });
        net.flow("h0", &["h1"], TransportSpec::Tcp(Box::new(config.clone())), ApplicationSpec::Bulk);
        let sender = net.run(seed, 20.0, 20.0 + DURATION).connections[0].unwrap().sender;
        all.segments_per_second += sender.sent_segments as f64 / DURATION / SEEDS as f64;
        all.timeouts += sender.timeouts;
        all.fast_retransmits += sender.fast_retransmits;
    }
    all
}

/// Segments per second by the square-root law.
fn mathis(p: f64, b: f64) -> f64 {
    (1.5 / (b * p)).sqrt() / RTT
}

/// Segments per second by the full model.
fn pftk(p: f64, b: f64, t0: f64) -> f64 {
    let q = 1.0 - p;
    let k = (2.0 + b) / (3.0 * b);
    let window = k + (8.0 * q / (3.0 * b * p) + k * k).sqrt();
    let q3 = q * q * q;
    // The probability that a loss ends in a time-out.
    let timeout = (1.0 - q3) * (1.0 + q3 * (1.0 - libm::pow(q, window - 3.0))) / (1.0 - libm::pow(q, window));
    let timeout = timeout.min(1.0);
    // 1 + p + 2p^2 + 4p^3 + 8p^4 + 16p^5 + 32p^6: backing off.
    let doubled = (0..6).fold((1.0, p), |(sum, term), _| (sum + term, 2.0 * p * term)).0;
    (q / p + window + timeout / q) / (RTT * (b / 2.0 * window + 1.0) + timeout * doubled * t0 / q)
}

fn check(name: &str, config: impl Fn(Variant) -> TcpConfig, b: f64, t0: f64) {
    for variant in VARIANTS {
        for loss in LOSSES {
            let sent = run(&config(variant).with_window_packets(2000), loss);
            let what = format!("{name} {variant:?} at {loss}: {sent:?}");
            let to_mathis = sent.segments_per_second / mathis(loss, b);
            let to_pftk = sent.segments_per_second / pftk(loss, b, t0);
            println!("{what}: {to_mathis:.3} of Mathis, {to_pftk:.3} of PFTK");
            assert!((to_pftk - 1.0).abs() < 0.2, "{what}: {to_pftk:.3} of PFTK");
            if sent.timeouts as f64 <= FEW_TIMEOUTS * (sent.timeouts + sent.fast_retransmits) as f64 {
                assert!((to_mathis - 1.0).abs() < 0.15, "{what}: {to_mathis:.3} of Mathis");
            } else {
                let repairs = variant != Variant::Reno && loss < 0.01;
                assert!(!repairs, "so few losses are repaired without time-outs: {what}");
            }
        }
    }
}

#[test]
fn the_ns_1999_profile_follows_mathis_and_pftk() {
    check("ns-1999", TcpConfig::ns_1999, 1.0, 0.3);
}

#[test]
fn the_ns_1999_profile_with_delayed_acknowledgments_follows_mathis_and_pftk() {
    check("ns-1999 delayed", |variant| TcpConfig::ns_1999(variant).with_ns_delayed_ack(), 2.0, 0.4);
}

#[test]
fn the_modern_profile_follows_mathis_and_pftk() {
    check("modern", TcpConfig::modern, 1.0, 0.3);
    check(
        "modern undelayed",
        |variant| TcpConfig { delayed_ack: None, ..TcpConfig::modern(variant) },
        1.0,
        0.3,
    );
}
