//! TCP with data in both directions: acknowledgments ride on data, and the last hop of back-pressure takes them off.

use crate::common::{Net, direction, drop_tail, run_in_tenths};
use tidegate_engine::{
    ApplicationSpec, CircuitSpec, DirectionSpec, FlowIds, LinkId, Statistics, TransportSpec,
};
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::hop::backpressure::{BackPressureConfig, LastHopForm};
use tidegate_mechanism::tcp::{RtoConfig, TcpConfig, Variant};
use tidegate_packet::Address;
use tidegate_units::{BitRate, Span};

/// `count` TCPs from `h1` to `h2` and as many back; which of them is the other direction of which, if they are `paired`.
fn flows(net: &mut Net, count: usize, paired: bool, config: &TcpConfig, application: &ApplicationSpec) {
    for _ in 0..count {
        let tcp = || TransportSpec::Tcp(Box::new(config.clone()));
        let there = net.flow("h1", &["h2"], tcp(), application.clone());
        let back = net.flow("h2", &["h1"], tcp(), application.clone());
        if paired {
            net.network.flows[back].headers = net.network.flows[there].headers.reversed();
            net.network.pairs.push([there as u32, back as u32]);
        }
    }
}

/// A megabyte each way over 10 Mbit/s, of `config`.
fn transfers(paired: bool, config: &TcpConfig) -> Statistics {
    let mut net = Net::default();
    net.link("h1", "r1", direction("100Mbit", "1ms", drop_tail(1000)));
    net.link("r1", "r2", direction("10Mbit", "5ms", drop_tail(20)));
    net.link("r2", "h2", direction("100Mbit", "1ms", drop_tail(1000)));
    flows(&mut net, 1, paired, config, &ApplicationSpec::Transfer { bytes: 1_000_000 });
    net.run(1, 0.0, 30.0)
}

#[test]
fn all_data_arrives_in_both_directions_and_acknowledgments_that_may_wait_ride_on_it() {
    for base in [TcpConfig::modern(Variant::Sack), TcpConfig::ns_1999(Variant::Reno).with_ns_delayed_ack()] {
        // Clocks in step: who times out after a loss sends nothing meanwhile on which acknowledgments could ride.
        let rto = RtoConfig { clock_phase: Some(Span::ZERO), ..base.rto };
        let config = TcpConfig { handshake: true, receive_window_bytes: 100_000, rto, ..base };
        let (one, two) = (transfers(false, &config), transfers(true, &config));
        for (sinks, connection) in two.sinks.iter().zip(&two.connections) {
            assert_eq!(sinks[0].goodput_bytes, 1_000_000, "{config:?}");
            assert!(connection.is_some_and(|counts| counts.completion.is_some()));
        }
        let packets = |of: &Statistics| (0..2).map(|at| of.flows[2 * at + 1].sent_packets).sum::<u64>();
        assert!(4 * packets(&two) < 3 * packets(&one), "{} of {}", packets(&two), packets(&one));
    }
}

/// Ten TCPs with data in both directions and windows of 64 segments over two circuits, with this last hop at both ends. Drops at the
/// two edges, payload in Mbit/s in each direction, and how many acknowledgments were taken off the data that they rode on.
fn last_hop(form: LastHopForm) -> (u64, [f64; 2], u64) {
    let circuit = |background| DirectionSpec {
        circuit: Some(CircuitSpec {
            background: BitRate::from_mbps(background),
            minimum: BitRate::from_mbps(20),
            buffer_cells: 1000,
            discard_cells: Some(800),
            is_selective: false,
        }),
        ..direction("150Mbit", "400us", drop_tail(100))
    };
    let mut net = Net::default();
    net.link("h1", "r1", direction("150Mbit", "10us", drop_tail(2000)));
    let first = net.link("r1", "r2", circuit(80));
    let second = net.link("r2", "r3", circuit(80));
    net.link("r3", "h2", direction("150Mbit", "10us", drop_tail(2000)));
    let base = TcpConfig::ns_1999(Variant::Tahoe).with_ns_delayed_ack();
    let tcp = TcpConfig { receive_window_bytes: 64 * 1000, ecn: true, ..base };
    flows(&mut net, 10, true, &tcp, &ApplicationSpec::Bulk);
    let config = BackPressureConfig { last_hop: form, ..BackPressureConfig::default() };
    net.hops(&["r1", "r2", "r3"], &HopConfig::BackPressure(Box::new(config)));
    let mut simulation = net.build(1);
    run_in_tenths(&mut simulation, 20);
    let statistics = simulation.statistics();
    let edges = [first, LinkId::of(second.index(), true)];
    let lost = edges.iter().map(|link| statistics.links[link.0 as usize].dropped_packets()).sum();
    let (mut payload, mut taken_off) = ([0.0; 2], 0);
    for (index, sink) in statistics.sinks.iter().enumerate() {
        payload[index % 2] += sink[0].goodput_bytes as f64 * 8.0 / 2e6;
        let segments = statistics.connections[index].expect("TCP").sender.sent_segments;
        let packets = statistics.flows[FlowIds::data(index as u32).0 as usize].sent_packets;
        taken_off += packets - segments;
    }
    (lost, payload, taken_off)
}

#[test]
fn the_bucket_takes_acknowledgments_off_the_data_that_they_ride_on_and_edges_lose_nothing() {
    let (lost_plain, plain, none) = last_hop(LastHopForm::None);
    assert!(lost_plain > 100 && none == 0, "{lost_plain} {none}");
    let (lost, payload, taken_off) = last_hop(LastHopForm::Bucket);
    assert!(lost == 0 && taken_off > 100, "{lost} {taken_off}");
    assert!(payload.iter().zip(plain).all(|(held, free)| *held > 0.95 * free), "{payload:?} of {plain:?}");
    let (lost_echo, _, untouched) = last_hop(LastHopForm::Ecn);
    assert!(lost_echo == 0 && untouched == 0, "{lost_echo} {untouched}");
}

#[test]
#[should_panic(expected = "the same ends and ports")]
fn a_pair_has_the_same_ports() {
    let mut net = Net::default();
    net.link("h1", "h2", direction("100Mbit", "1ms", drop_tail(100)));
    flows(&mut net, 1, true, &TcpConfig::ns_1999(Variant::Reno), &ApplicationSpec::Bulk);
    net.network.flows[1].headers.destination = Address::V4([1, 2, 3, 4]);
    net.build(1);
}
