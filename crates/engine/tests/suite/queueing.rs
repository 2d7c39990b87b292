//! The mean queue of M/D/1 and M/M/1 against their closed forms, on both kinds of port.
//!
//! Source: Kleinrock, "Queueing systems", volume 1, 1975, eq. (3.24) and (5.63): with the packet in service, at utilisation
//! rho, the mean is rho / (1 - rho) for exponential service, and rho + rho^2 / (2 (1 - rho)) for constant service.
//! The seeds are fixed, so that a pass stays a pass; the runs are so long that two standard errors of the mean are below
//! the tolerance (for M/M/1 at rho = 0.9 the variance of a mean over n services is about 3.4e4 / n).

use crate::common::{Net, direction, drop_tail};
use tidegate_engine::{ApplicationSpec, LinkCounters, TransportSpec};
use tidegate_mechanism::schedule::{DisciplineConfig, DrrConfig, WfqConfig};
use tidegate_units::{BitRate, Limit};

/// One byte per microsecond.
const RATE: BitRate = BitRate::from_mbps(8);
const BYTES: u32 = 1000;
const TOLERANCE: f64 = 0.02;
/// Never reached here.
const ENDLESS: Limit = Limit::Packets(u32::MAX);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Service {
    Constant,
    Exponential,
}

impl Service {
    fn mean_queue(self, rho: f64) -> f64 {
        match self {
            Self::Constant => rho + rho * rho / (2.0 * (1.0 - rho)),
            Self::Exponential => rho / (1.0 - rho),
        }
    }
}

/// A queue at which work arrives at `rho` times the link's rate, for about so many packets.
fn run(service: Service, rho: f64, queue: DisciplineConfig, packets: f64, seed: u64) -> (LinkCounters, f64) {
    let mut net = Net::default();
    let link = net.link("h0", "h1", direction("8Mbit", "0s", queue));
    let rate = BitRate::from_bps_f64(RATE.as_bps_f64() * rho);
    let application = match service {
        Service::Constant => ApplicationSpec::Poisson { rate, packet_bytes: BYTES },
        Service::Exponential => ApplicationSpec::Markov { rate, mean_packet_bytes: BYTES },
    };
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, application);
    let duration = packets * f64::from(BYTES) / rate.as_bytes_per_second_f64();
    let statistics = net.run(seed, 1.0, 1.0 + duration);
    let window = (statistics.until - statistics.since).as_secs_f64();
    (statistics.links[link.0 as usize].clone(), window)
}

fn check(service: Service, rho: f64, queue: DisciplineConfig, packets: f64) {
    let (counters, window) = run(service, rho, queue, packets, 1);
    let what = format!("{service:?} service at {rho}");
    let mean = counters.packet_nanos as f64 / (window * 1e9);
    let expected = service.mean_queue(rho);
    let deviation = mean / expected - 1.0;
    println!("{what}: mean queue {mean:.4}, closed form {expected:.4} ({:+.2} %)", 100.0 * deviation);
    assert!(deviation.abs() < TOLERANCE, "{what}: {mean} instead of {expected}");
    assert_eq!(counters.dropped_packets(), 0);
    // The link is busy for exactly the bits that it sends, apart from the packets at both ends of the window.
    let nanos_per_byte = 8e9 / RATE.as_bps_f64();
    let busy_bytes = counters.busy_nanos as f64 / nanos_per_byte;
    assert!(
        (busy_bytes - counters.delivered_bytes as f64).abs() < 20.0 * f64::from(BYTES),
        "{what}: {counters:?}"
    );
    // Little: what packets spend in the queue is what the queue holds over time, but for those at both ends.
    let difference = counters.packet_nanos as f64 - counters.delay_nanos as f64;
    assert!(difference.abs() < 1e-3 * counters.packet_nanos as f64, "{what}: {counters:?}");
    let arrived = counters.arrived_packets as f64;
    assert!((arrived - counters.delivered_packets as f64).abs() < 200.0, "{what}: {counters:?}");
}

fn endless_drr() -> DisciplineConfig {
    DisciplineConfig::Drr(DrrConfig { limit: ENDLESS, ..DrrConfig::default() })
}

fn endless_wfq() -> DisciplineConfig {
    DisciplineConfig::Wfq(WfqConfig { limit: Some(ENDLESS), ..WfqConfig::default() })
}

/// Packets for each utilisation.
const RUNS: [(f64, f64); 4] = [(0.3, 5e5), (0.5, 7e5), (0.7, 1.2e6), (0.9, 4e6)];

#[test]
fn constant_service_has_the_mean_queue_of_m_d_1_on_a_planned_port() {
    for (rho, packets) in RUNS {
        check(Service::Constant, rho, drop_tail(u32::MAX), packets);
    }
}

#[test]
fn constant_service_has_the_mean_queue_of_m_d_1_on_a_scheduled_port() {
    for (rho, packets) in RUNS {
        check(Service::Constant, rho, endless_drr(), packets);
    }
}

#[test]
fn exponential_service_has_the_mean_queue_of_m_m_1_on_a_planned_port() {
    for (rho, packets) in RUNS {
        check(Service::Exponential, rho, drop_tail(u32::MAX), packets);
    }
}

#[test]
fn exponential_service_has_the_mean_queue_of_m_m_1_on_a_scheduled_port() {
    for (rho, packets) in RUNS {
        check(Service::Exponential, rho, endless_wfq(), packets);
    }
}
