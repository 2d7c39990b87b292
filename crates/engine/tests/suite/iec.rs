//! EEC, IEC and TCP rate control through the whole engine.

use crate::common::{Net, constant, direction, drop_tail, seconds, throughput_bps};
use tidegate_engine::{
    ApplicationSpec, Change, ClockSpec, LinkCounters, LinkId, ScriptedChange, Statistics, TransportSpec,
};
use tidegate_mechanism::edge::iec::{CONTROL_HEADER_BYTES, Detection, OverlayConfig, VirtualLinkTerms, wire};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_mechanism::edge::{EdgeConfig, PeerId};
use tidegate_mechanism::queue::{DropTailConfig, EecMarkerConfig, ManagerConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::Ecn;
use tidegate_units::{BitRate, Bytes, Limit, Span};

/// N virtual links over a bottleneck of 10 Mb/s; link number `2 n` is the bottleneck.
pub(crate) fn overlay(n: usize, config: OverlayConfig, tcps_each: usize) -> (Net, LinkId) {
    let mut net = Net::default();
    let access = || direction("100Mbit", "4ms", drop_tail(500));
    for index in 0..n {
        net.link(&format!("s{index}"), &format!("I{index}"), access());
        net.link(&format!("I{index}"), "A", access());
    }
    let queue = if config.detection == Detection::Marks {
        DisciplineConfig::Fifo(ManagerConfig::EecMarker(EecMarkerConfig {
            threshold: Limit::Bytes(Bytes::new(1000 * n as u64)),
            limit: Limit::Packets(500),
        }))
    } else {
        drop_tail(500)
    };
    net.link("A", "B", direction("10Mbit", "4ms", queue));
    for index in 0..n {
        net.link("B", &format!("E{index}"), access());
        net.link(&format!("E{index}"), &format!("d{index}"), access());
    }
    for index in 0..n {
        let (from, to) = (format!("s{index}"), format!("d{index}"));
        for _ in 0..tcps_each {
            let mut tcp = TcpConfig::ns_1999(Variant::Reno);
            tcp.receive_window_bytes = 200_000;
            net.flow(&from, &[&to], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
        }
        if tcps_each == 0 {
            let load = constant(BitRate::from_bps(15_000_000 / n as u64));
            net.flow(&from, &[&to], TransportSpec::Udp { header_bytes: 28 }, load);
        }
    }
    let edges: Vec<String> = (0..n).map(|i| format!("I{i}")).chain((0..n).map(|i| format!("E{i}"))).collect();
    let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
    net.domain(&edges, &["A", "B"]).mechanism = Some(EdgeConfig::from(config));
    (net, LinkId::of(2 * n as u32, false))
}

pub(crate) fn config(detection: Detection) -> OverlayConfig {
    let queue =
        DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(500) }));
    OverlayConfig {
        detection,
        shaper: ShaperConfig { bucket: Some(Limit::Bytes(Bytes::new(1000))), queue },
        ..OverlayConfig::default()
    }
}

fn bottleneck(statistics: &Statistics, link: LinkId) -> &LinkCounters {
    &statistics.links[link.0 as usize]
}

fn utilization(statistics: &Statistics, link: LinkId) -> f64 {
    let window = (statistics.until - statistics.since).as_nanos();
    bottleneck(statistics, link).busy_nanos as f64 / window as f64
}

/// The bound that docs/mechanisms/iec.md derives, for `sigma` of 1000 bytes at 10 Mb/s and 40 ms: 4 `N sigma` with marks, and
/// with control packets what the queue grows in the half round trip and the gap between two packets of data by which they
/// are later. Besides the packet in service, which does not count, and two control packets of each virtual link.
fn steady_queue_bound(detection: Detection, n: usize) -> f64 {
    let n_sigma = n as f64 * 1000.0;
    let later = if detection == Detection::Marks { 0.0 } else { 0.5 + n_sigma / 50_000.0 };
    let control = 2.0 * n as f64 * (wire::CONTROL_BYTES as f64 + f64::from(CONTROL_HEADER_BYTES));
    (4.0 + 3.0 * later) * n_sigma + 1000.0 + control
}

const ALL: [Detection; 3] = [Detection::OneWay, Detection::RoundTrip, Detection::Marks];

#[test]
fn congestion_moves_to_the_edges_and_the_bottleneck_loses_nothing() {
    for detection in ALL {
        for n in [1, 2, 5, 10] {
            let (net, link) = overlay(n, config(detection), 0);
            let statistics = net.run(1, 15.0, 40.0);
            let counters = bottleneck(&statistics, link);
            let used = utilization(&statistics, link);
            assert_eq!(counters.dropped_packets(), 0, "{detection:?} with {n}");
            assert!(used > 0.97, "{detection:?} with {n}: {used}");
            let (most, bound) = (counters.queue_bytes_max, steady_queue_bound(detection, n));
            assert!(most as f64 <= bound, "{detection:?} with {n}: {most} is above {bound}");
            let dropped: u64 = statistics.border_drops.iter().flatten().sum();
            assert!(dropped > 1000, "the excess is dropped at the edges: {dropped}");
        }
    }
}

#[test]
fn the_marks_of_the_bottleneck_never_reach_the_hosts() {
    let (net, _) = overlay(2, config(Detection::Marks), 0);
    let statistics = net.run(1, 5.0, 10.0);
    let marked: u64 = statistics.flows.iter().map(|flow| flow.marked_packets).sum();
    assert!(marked > 100, "the bottleneck marks");
    let seen: u64 = statistics.sinks.iter().flatten().map(|sink| sink.marked_packets).sum();
    assert_eq!(seen, 0);
    assert!(!Ecn::NotEct.is_capable(), "what the sources sent could not even carry a mark");
}

#[test]
fn clocks_that_disagree_by_seconds_and_drift_by_200_ppm_do_not_matter() {
    for drift_ppm in [-200.0, 200.0] {
        let (mut net, link) = overlay(2, config(Detection::OneWay), 0);
        let egress = net.node("E0");
        let clock = ClockSpec { offset: Span::from_secs(1234), drift_ppm };
        net.network.domains[0].clocks.push((egress, clock));
        let statistics = net.run(1, 10.0, 60.0);
        let used = utilization(&statistics, link);
        assert!(used > 0.96, "{drift_ppm} ppm: {used}");
        let shares = [0, 1].map(|flow| throughput_bps(&statistics, flow) / 1e6);
        assert!(shares.iter().all(|share| (3.5..6.5).contains(share)), "{drift_ppm} ppm: {shares:?}");
    }
}

#[test]
fn a_longer_route_costs_a_moment_only() {
    for detection in ALL {
        let (mut net, link) = overlay(2, config(detection), 0);
        let change = Change::Delay(Span::from_millis(24));
        net.network.script.push(ScriptedChange { at: seconds(10.0), link, change });
        let statistics = net.run(1, 20.0, 40.0);
        let used = utilization(&statistics, link);
        assert!(used > 0.95, "{detection:?}: {used}");
        assert_eq!(bottleneck(&statistics, link).dropped_packets(), 0);
    }
}

#[test]
fn a_link_that_loses_half_its_capacity_is_followed() {
    for detection in ALL {
        let (mut net, link) = overlay(2, config(detection), 0);
        let change = Change::Rate(BitRate::from_mbps(5));
        net.network.script.push(ScriptedChange { at: seconds(10.0), link, change });
        let statistics = net.run(1, 20.0, 40.0);
        let used = utilization(&statistics, link);
        assert!(used > 0.96, "{detection:?}: {used}");
        assert_eq!(bottleneck(&statistics, link).dropped_packets(), 0, "{detection:?}");
    }
}

#[test]
fn tcp_rate_control_gives_a_tcp_without_loss_retransmission_or_time_out() {
    let with = OverlayConfig { tcp_rate: Some(TcpRateConfig::default()), ..config(Detection::OneWay) };
    let (net, link) = overlay(2, with, 5);
    let statistics = net.run(1, 10.0, 30.0);
    let counters = bottleneck(&statistics, link);
    assert_eq!(counters.dropped_packets(), 0);
    assert_eq!(statistics.border_drops.iter().flatten().sum::<u64>(), 0);
    for connection in statistics.connections.iter().flatten() {
        assert_eq!((connection.sender.retransmissions, connection.sender.timeouts), (0, 0));
    }
    let used = utilization(&statistics, link);
    assert!(used > 0.95, "{used}");
    let shares: Vec<f64> = (0..10).map(|flow| throughput_bps(&statistics, flow) / 1e6).collect();
    assert!(shares.iter().all(|share| (0.7..1.3).contains(share)), "{shares:?}");
}

#[test]
fn shares_of_virtual_links_follow_their_weights() {
    let terms = vec![VirtualLinkTerms { from: Some(PeerId(0)), to: None, weight: 2.0, rate_min: None }];
    // With marks, shares of so slow virtual links wander: `iec/weights` has faster ones.
    for detection in [Detection::OneWay, Detection::RoundTrip] {
        let (net, link) = overlay(2, OverlayConfig { terms: terms.clone(), ..config(detection) }, 0);
        let statistics = net.run(1, 60.0, 120.0);
        let shares = [0, 1].map(|flow| throughput_bps(&statistics, flow));
        let ratio = shares[0] / shares[1];
        assert!((1.8..2.2).contains(&ratio), "{detection:?}: {ratio}");
        assert_eq!(bottleneck(&statistics, link).dropped_packets(), 0, "{detection:?}");
    }
}

#[test]
fn an_assured_rate_is_kept_and_the_others_make_room() {
    let assured = VirtualLinkTerms {
        from: Some(PeerId(0)),
        to: Some(PeerId(2)),
        weight: 1.0,
        rate_min: Some(BitRate::from_mbps(7)),
    };
    // The second is about no virtual link that there is.
    let elsewhere = VirtualLinkTerms { from: Some(PeerId(1)), to: Some(PeerId(2)), ..assured };
    // With marks, shares of so slow virtual links wander: `iec/weights` has faster ones.
    for detection in [Detection::OneWay, Detection::RoundTrip] {
        let (net, link) =
            overlay(2, OverlayConfig { terms: vec![elsewhere, assured], ..config(detection) }, 0);
        let statistics = net.run(1, 15.0, 40.0);
        let shares = [0, 1].map(|flow| throughput_bps(&statistics, flow) / 1e6);
        assert!(shares[0] > 6.8 && shares[1] > 2.3, "{detection:?}: {shares:?}");
        assert_eq!(bottleneck(&statistics, link).dropped_packets(), 0, "{detection:?}");
        assert!(utilization(&statistics, link) > 0.95, "{detection:?}");
    }
}

#[test]
fn virtual_links_carry_virtual_links_and_the_outermost_edge_drops() {
    // The inner domain begins behind the outer one, or where that begins, and is named before or after it.
    let inners: [(&[&str], &[&str]); 2] = [(&["P", "Q"], &["A"]), (&["I", "Q"], &["P", "A"])];
    for detection in [Detection::OneWay, Detection::RoundTrip] {
        for (edges, core) in inners {
            for inner_first in [false, true] {
                let mut net = Net::default();
                let access = || direction("100Mbit", "4ms", drop_tail(500));
                for (from, to) in [("h0", "I"), ("I", "P"), ("P", "A")] {
                    net.link(from, to, access());
                }
                let link = net.link("A", "Q", direction("10Mbit", "4ms", drop_tail(500)));
                net.link("Q", "E", access());
                net.link("E", "h1", access());
                let load = constant(BitRate::from_mbps(15));
                net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, load);
                for is_inner in [inner_first, !inner_first] {
                    let (edges, core): (&[&str], &[&str]) =
                        if is_inner { (edges, core) } else { (&["I", "E"], &["P", "A", "Q"]) };
                    let domain = net.domain(edges, core);
                    domain.mechanism = Some(EdgeConfig::from(config(detection)));
                }
                let statistics = net.run(1, 15.0, 40.0);
                let what = format!("{detection:?}, {edges:?}, inner first: {inner_first}");
                let drops: Vec<u64> =
                    statistics.border_drops.iter().map(|drops| drops.iter().sum()).collect();
                let (outer, inner) = if inner_first { (drops[2], drops[0]) } else { (drops[0], drops[2]) };
                assert!(outer > 1000 && inner == 0, "{what}: {drops:?}");
                assert_eq!(bottleneck(&statistics, link).dropped_packets(), 0, "{what}");
                assert!(utilization(&statistics, link) > 0.93, "{what}: {}", utilization(&statistics, link));
            }
        }
    }
}

#[test]
fn with_a_third_of_all_messages_lost_in_both_directions_the_capacity_stays_in_use() {
    for detection in ALL {
        let (mut net, link) = overlay(5, config(detection), 0);
        net.network.domains[0].control_loss = 0.3;
        let mut simulation = net.build(1);
        simulation.run_until(seconds(15.0), u64::MAX);
        simulation.restart_statistics();
        simulation.run_until(seconds(40.0), u64::MAX);
        simulation.assert_conservation();
        let totals = simulation.totals();
        let lost = totals.control_lost_packets as f64 / totals.control_packets as f64;
        assert!((0.27..0.33).contains(&lost), "{detection:?}: {lost}");
        let used = utilization(&simulation.statistics(), link);
        assert!(used > 0.9, "{detection:?}: {used}");
    }
}

/// The cases of `tests/oracle/python/reference_aimd_er.py`: one virtual link alone, of which the script is a model of its own.
#[test]
fn one_virtual_link_agrees_with_an_independent_model() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/verdicts/aimd_er.json");
    let text = std::fs::read_to_string(path).expect("the frozen verdicts are in the repository");
    let frozen: serde_json::Value = serde_json::from_str(&text).expect("the frozen verdicts are JSON");
    let cases = frozen["aimd_er"]["cases"].as_array().expect("there are cases");
    assert_eq!(cases.len(), 18);
    assert_eq!(frozen["aimd_er"]["bound_n_sigma"], 4.0);
    for case in cases {
        let number = |name: &str| case[name].as_f64().expect("it is a number");
        let (mbps, millis) = (number("mbps"), number("one_way_ms"));
        let detection = if case["scheme"] == "eec" { Detection::Marks } else { Detection::OneWay };
        let queue = if detection == Detection::Marks {
            let threshold = Limit::Bytes(Bytes::new(1000));
            let marker = EecMarkerConfig { threshold, limit: Limit::Packets(5000) };
            DisciplineConfig::Fifo(ManagerConfig::EecMarker(marker))
        } else {
            drop_tail(5000)
        };
        let mut net = Net::default();
        net.link("hs", "I", direction("10Gbit", "0s", drop_tail(500)));
        net.link("I", "A", direction("10Gbit", &format!("{}us", millis * 400.0), drop_tail(500)));
        net.link("A", "B", direction(&format!("{mbps}Mbit"), "0s", queue));
        net.link("B", "E", direction("10Gbit", &format!("{}us", millis * 600.0), drop_tail(500)));
        net.link("E", "hd", direction("10Gbit", "0s", drop_tail(500)));
        let load = constant(BitRate::from_bps((mbps * 1.5e6) as u64));
        net.flow("hs", &["hd"], TransportSpec::Udp { header_bytes: 28 }, load);
        net.domain(&["I", "E"], &["A", "B"]).mechanism = Some(EdgeConfig::from(config(detection)));
        let statistics = net.run(1, 10.0, 20.0);
        let counters = bottleneck(&statistics, LinkId::of(2, false));
        let used = utilization(&statistics, LinkId::of(2, false));
        let what = format!("{detection:?}, {mbps} Mb/s, {millis} ms");
        assert!((used - number("utilization")).abs() < 0.005, "{what}: {used}");
        let apart = counters.queue_bytes_max as f64 - number("max_queue_bytes");
        // Packets are whole, and either model has phases of its own: two packets.
        assert!(apart.abs() <= 2000.0, "{what}: the greatest queue is {apart} bytes more");
    }
}
