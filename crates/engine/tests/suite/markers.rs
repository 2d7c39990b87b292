//! Markers where flows start and where they cross a border.

use crate::common::{Net, constant, direction, drop_tail, seconds, throughput_bps};
use tidegate_engine::{ApplicationSpec, MarkerSpec, TransportSpec};
use tidegate_mechanism::mark::{MarkerConfig, OutOfProfile, ProfileConfig};
use tidegate_units::{BitRate, Bytes, Limit};

const UDP: TransportSpec = TransportSpec::Udp { header_bytes: 28 };

fn profile(mbps: u64) -> ProfileConfig {
    ProfileConfig { depth: Limit::Bytes(Bytes::new(10_000)), ..ProfileConfig::with(BitRate::from_mbps(mbps)) }
}

/// Two flows of 3 Mbit/s each from two hosts through two routers.
fn two_flows() -> Net {
    let mut net = Net::default();
    for (a, b) in [("h1", "r1"), ("h2", "r1"), ("r1", "r2"), ("r2", "h3")] {
        net.link(a, b, direction("100Mbit", "1ms", drop_tail(100)));
    }
    for host in ["h1", "h2"] {
        net.flow(host, &["h3"], UDP, constant(BitRate::from_mbps(3)));
    }
    net
}

#[test]
fn a_marker_at_the_sources_serves_the_aggregate_of_its_flows() {
    let mut net = two_flows();
    let config = MarkerConfig::Profile(profile(2));
    net.network.markers = vec![MarkerSpec { name: "m".into(), at: None, flows: vec![0, 1], config }];
    let statistics = net.run(1, 1.0, 11.0);
    let green = statistics.markers[0].bytes[0] as f64 * 8.0 / 10.0;
    assert!((green - 2e6).abs() < 2e4, "{green}");
    let delivered: u64 = statistics.sinks.iter().map(|sinks| sinks[0].priority_bytes).sum();
    assert!((delivered as f64 * 8.0 / 10.0 - 2e6).abs() < 2e4);
    assert_eq!(statistics.totals.dropped, 0);
}

#[test]
fn a_policer_at_a_border_counts_and_drops_what_exceeds_the_profile() {
    let mut net = two_flows();
    let config = MarkerConfig::Profile(ProfileConfig { beyond: OutOfProfile::Drop, ..profile(2) });
    let at = Some(net.node("r2"));
    net.network.markers = vec![MarkerSpec { name: "m".into(), at, flows: vec![1], config }];
    let statistics = net.run(1, 1.0, 11.0);
    assert!((throughput_bps(&statistics, 0) - 3e6).abs() < 1e4);
    assert!((throughput_bps(&statistics, 1) - 2e6).abs() < 2e4);
    let dropped = statistics.markers[0].dropped_packets as f64 * 8000.0 / 10.0;
    assert!((dropped - 1e6).abs() < 2e4, "{dropped}");
}

#[test]
fn markers_at_one_node_are_passed_in_their_order_and_only_once() {
    let mut net = two_flows();
    let border = Some(net.node("r1"));
    let host = MarkerConfig::Profile(profile(2));
    let aware = MarkerConfig::Profile(ProfileConfig { aware: true, ..profile(1) });
    net.network.markers = vec![
        MarkerSpec { name: "host".into(), at: None, flows: vec![0], config: host },
        MarkerSpec { name: "border".into(), at: border, flows: vec![0], config: aware },
    ];
    let mut simulation = net.build(1);
    simulation.run_until(seconds(10.0), u64::MAX);
    let [first, second] = [0, 1].map(|marker| simulation.marker_counters(marker));
    let sum = |packets: [u64; 3]| packets.iter().sum::<u64>();
    assert!(sum(first.packets) - sum(second.packets) <= 1, "every packet passes both once");
    assert!((first.bytes[0] as f64 * 0.8 - 2e6).abs() < 2e4);
    assert!((second.bytes[0] as f64 * 0.8 - 1e6).abs() < 2e4, "a border only takes marks away");
}

#[test]
fn a_peak_rate_holds_one_packet_of_the_network_however_large_its_packets_are() {
    let mut net = two_flows();
    let rate = BitRate::from_mbps(3);
    net.network.flows[0].application =
        ApplicationSpec::ConstantRate { rate, packet_bytes: 9_000, jitter: 0.0 };
    let config = MarkerConfig::Profile(ProfileConfig {
        depth: Limit::Bytes(Bytes::new(50_000)),
        peak: Some(BitRate::from_mbps(10)),
        ..ProfileConfig::with(BitRate::from_mbps(2))
    });
    net.network.markers = vec![MarkerSpec { name: "m".into(), at: None, flows: vec![0], config }];
    let statistics = net.run(1, 1.0, 11.0);
    let green = statistics.markers[0].bytes[0] as f64 * 8.0 / 10.0;
    assert!((green - 2e6).abs() < 4e4, "{green}");
}
