//! Streams with TCP-friendly rate control: the throughput of RFC 5348's equation where loss is given, an equal share beside TCP,
//! and conservation.

use crate::common::{Net, direction, drop_tail, seconds, throughput_bps};
use tidegate_engine::{ApplicationSpec, DirectionSpec, LossModel, TransportSpec};
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::queue::{ManagerConfig, RedConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_mechanism::tcp::Variant;
use tidegate_mechanism::tfrc::TfrcConfig;
use tidegate_units::Limit;

const SEGMENT: f64 = 1000.0;

fn stream() -> TransportSpec {
    TransportSpec::Media(Box::new(MediaConfig::Tfrc(TfrcConfig::default())))
}

/// Two routers between hosts, with a round-trip time of 60 ms, transmissions aside.
fn path(rate: &str, queue: DisciplineConfig, loss: Option<LossModel>) -> Net {
    let mut net = Net::default();
    net.link("h1", "r1", direction("100Mbit", "5ms", drop_tail(1000)));
    net.link("r1", "r2", DirectionSpec { loss, ..direction(rate, "20ms", queue) });
    net.link("r2", "h2", direction("100Mbit", "5ms", drop_tail(1000)));
    net
}

/// What section 3.1 gives for packets that are lost independently with the probability `q`: of the losses within a round trip
/// only the first one counts, so that with `n` packets per round trip the loss event rate is `(1 - (1 - q)^n) / n`. Bytes per
/// second. Written apart from the mechanism, and solved by bisection.
fn expected(q: f64, r: f64) -> f64 {
    let tcp = |p: f64| {
        let rto = 4.0 * r;
        SEGMENT
            / (r * (2.0 * p / 3.0).sqrt() + rto * (3.0 * (3.0 * p / 8.0).sqrt()) * p * (1.0 + 32.0 * p * p))
    };
    let (mut low, mut high) = (1e2_f64, 1e9_f64);
    for _ in 0..200 {
        let x = (low * high).sqrt();
        let n = (x * r / SEGMENT).max(1.0);
        if tcp((1.0 - libm::pow(1.0 - q, n)) / n) > x { low = x } else { high = x }
    }
    low
}

#[test]
fn where_packets_are_lost_at_random_the_throughput_is_that_of_the_equation() {
    for q in [0.002, 0.01, 0.05] {
        let loss = Some(LossModel::Random { probability: q });
        let mut net = path("90Mbit", drop_tail(1000), loss);
        net.flow("h1", &["h2"], stream(), ApplicationSpec::Bulk);
        let statistics = net.run(1, 20.0, 620.0);
        // What is sent, for the equation is about the sender; the reverse direction loses reports as well.
        let ratio = throughput_bps(&statistics, 0) / (1.0 - q) / 8.0 / expected(q, 0.0603);
        assert!((0.9..1.1).contains(&ratio), "{ratio} of the equation at a loss of {q}");
    }
}

#[test]
fn beside_tcp_a_stream_gets_an_equal_share_within_a_factor_of_two() {
    let red =
        RedConfig { min: Limit::Packets(10), max: Limit::Packets(50), max_p: 0.1, ..RedConfig::default() };
    for queue in [drop_tail(60), DisciplineConfig::Fifo(ManagerConfig::Red(red))] {
        for pairs in [1, 4] {
            let mut net = path("10Mbit", queue.clone(), None);
            for _ in 0..pairs {
                net.flow("h1", &["h2"], stream(), ApplicationSpec::Bulk);
                let tcp = TcpConfig::ns_1999(Variant::Sack).with_window_packets(1000);
                net.flow("h1", &["h2"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
            }
            let statistics = net.run(1, 30.0, 330.0);
            let sum = |first: usize| -> f64 {
                (0..pairs).map(|pair| throughput_bps(&statistics, 2 * pair + first)).sum()
            };
            let ratio = sum(0) / sum(1);
            assert!((0.5..2.0).contains(&ratio), "{ratio} with {pairs} pairs over {queue:?}");
            assert!(sum(0) + sum(1) > 8e6, "the link is used: {} + {}", sum(0), sum(1));
        }
    }
}

#[test]
fn a_stream_alone_fills_a_link_and_every_packet_is_somewhere() {
    let mut net = path("10Mbit", drop_tail(60), None);
    net.flow("h1", &["h2"], stream(), ApplicationSpec::Bulk);
    let mut simulation = net.build(1);
    simulation.run_until(seconds(60.0), u64::MAX);
    simulation.assert_conservation();
    let received = simulation.sink_counters(0)[0].received_bytes as f64 * 8.0 / 60.0;
    assert!(received > 8e6, "{received}");
    assert!(simulation.media_variable(0, "loss_event_rate").is_some_and(|p| p > 0.0 && p < 0.01));
}
