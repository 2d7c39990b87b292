//! Back-pressure and circuits in routers of the simulator: where packets wait and are lost on a chain of two circuits.

use crate::common::{Net, constant, direction, drop_tail, run_in_tenths, seconds};
use tidegate_engine::{
    ApplicationSpec, Change, CircuitSpec, DirectionSpec, LinkId, LossModel, ReorderModel, ScriptedChange,
    TransportSpec,
};
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::hop::backpressure::{BackPressureConfig, Feedback, LastHopForm};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Span, Time};

const UDP: TransportSpec = TransportSpec::Udp { header_bytes: 0 };

fn circuit(background: u64) -> DirectionSpec {
    DirectionSpec {
        circuit: Some(CircuitSpec {
            background: BitRate::from_mbps(background),
            minimum: BitRate::from_mbps(20),
            buffer_cells: 1000,
            discard_cells: Some(800),
            is_selective: false,
        }),
        ..direction("150Mbit", "400us", drop_tail(100))
    }
}

/// h1 sends 90 Mbit/s over two circuits, of which the first has 95 Mbit/s for cells and the second 70. Their links.
fn chain(feedback: Option<Feedback>) -> (Net, LinkId, LinkId) {
    let mut net = Net::default();
    net.link("h1", "r1", direction("150Mbit", "10us", drop_tail(100)));
    let first = net.link("r1", "r2", circuit(55));
    let second = net.link("r2", "r3", circuit(80));
    net.link("r3", "h2", direction("150Mbit", "10us", drop_tail(100)));
    net.flow("h1", &["h2"], UDP, constant(BitRate::from_mbps(90)));
    if let Some(feedback) = feedback {
        let config = BackPressureConfig { feedback, ..BackPressureConfig::default() };
        net.hops(&["r1", "r2", "r3"], &HopConfig::BackPressure(Box::new(config)));
    }
    (net, first, second)
}

/// Packets dropped at each of the two links in a second, and the bytes that the second one delivered.
fn drops(net: Net, first: LinkId, second: LinkId, why: DropReason) -> (u64, u64, u64) {
    let mut simulation = net.build(1);
    simulation.run_until(seconds(1.0), u64::MAX);
    simulation.assert_conservation();
    let mut at = |link| simulation.link_counters(link).drops_by_reason[why.index()];
    let (one, two) = (at(first), at(second));
    (one, two, simulation.link_counters(second).delivered_bytes)
}

#[test]
fn what_the_second_circuit_cannot_carry_is_dropped_in_front_of_the_first() {
    let run = |feedback| {
        let (net, first, second) = chain(Some(feedback));
        drops(net, first, second, DropReason::Overflow)
    };
    let (edge, core, delivered) = run(Feedback::Aggregate);
    assert!(edge > 2000 && core < edge / 50, "{edge} {core}");
    let (one, two, plain) = run(Feedback::Circuit);
    assert!(one > 500 && two > 500, "each circuit has its own: {one} {two}");
    assert!(delivered as f64 > 0.97 * plain as f64, "{delivered} of {plain}");
    // 1000 bytes take 21 cells; RM cells of both directions take up to two of 32.
    let most = 70e6 / 8.0 * 1000.0 / f64::from(21 * 53);
    assert!((0.93 * most..most).contains(&(plain as f64)), "{plain} of {most}");
}

#[test]
fn without_a_loop_the_switch_discards() {
    let (net, first, second) = chain(None);
    let (one, two, _) = drops(net, first, second, DropReason::Early);
    assert!(one + two > 1000, "{one} {two}");
}

#[test]
fn the_rate_follows_the_background_within_a_round_trip_and_a_period() {
    let (mut net, first, second) = chain(Some(Feedback::Aggregate));
    let change = Change::Background(BitRate::from_mbps(120));
    net.network.script.push(ScriptedChange { at: seconds(0.5), link: second, change });
    let mut simulation = net.build(1);
    let mut rate = |at: f64, link| {
        simulation.run_until(seconds(at), u64::MAX);
        simulation.hop_variable(link, "explicit_rate_bps").expect("r1 and r2 speak")
    };
    let before = rate(0.499, second);
    assert!((60e6..71e6).contains(&before), "{before}");
    let after = rate(0.502, second);
    assert!((20e6..31e6).contains(&after), "{after}");
    let behind = rate(0.52, first);
    assert!((20e6..31e6).contains(&behind), "{behind}");
}

#[test]
fn with_half_of_all_answers_lost_the_edge_still_obeys() {
    let (mut net, first, second) = chain(Some(Feedback::Aggregate));
    for link in &mut net.network.links[1..3] {
        link.reverse.loss = Some(LossModel::Random { probability: 0.5 });
    }
    let (edge, core, _) = drops(net, first, second, DropReason::Overflow);
    assert!(edge > 2000 && core < edge / 50, "{edge} {core}");
}

#[test]
fn with_a_third_of_all_answers_lost_a_third_doubled_and_a_third_late_the_edge_still_obeys() {
    let (mut net, first, second) = chain(Some(Feedback::Selective));
    for link in &mut net.network.links[1..3] {
        for direction in [&mut link.forward, &mut link.reverse] {
            direction.duplicate = 0.3;
        }
        link.reverse.loss = Some(LossModel::Random { probability: 0.3 });
        link.reverse.reorder = Some(ReorderModel { probability: 0.3, delay: Span::from_millis(20) });
    }
    let (edge, core, _) = drops(net, first, second, DropReason::Overflow);
    // The first circuit's medium makes 1.3 packets of one, behind its own queue.
    assert!(edge > 2000 && core < 3000, "{edge} {core}");
}

/// Ten TCPs with windows of 64 segments through the chain with this last hop: drops at the edge and behind it, and payload in
/// Mbit/s, of two seconds.
fn last_hop(form: LastHopForm) -> (u64, u64, f64) {
    let (mut net, first, second) = chain(None);
    net.network.flows.clear();
    let base = TcpConfig::ns_1999(Variant::Tahoe);
    let tcp = TcpConfig { receive_window_bytes: 64 * 1000, ecn: true, ..base };
    for _ in 0..10 {
        net.flow("h1", &["h2"], TransportSpec::Tcp(Box::new(tcp.clone())), ApplicationSpec::Bulk);
    }
    let config = BackPressureConfig { last_hop: form, ..BackPressureConfig::default() };
    net.hops(&["r1", "r2", "r3"], &HopConfig::BackPressure(Box::new(config)));
    let mut simulation = net.build(1);
    run_in_tenths(&mut simulation, 20);
    let lost = [first, second].map(|link| simulation.link_counters(link).dropped_packets());
    let statistics = simulation.statistics();
    let goodput: u64 = statistics.sinks.iter().flatten().map(|sink| sink.goodput_bytes).sum();
    (lost[0], lost[1], goodput as f64 * 8.0 / 2e6)
}

#[test]
fn the_last_hop_loses_at_the_edge_unless_acknowledgments_wait_or_echo() {
    let (lost, _, throughput) = last_hop(LastHopForm::None);
    assert!(lost > 100 && throughput > 35.0, "{lost} {throughput}");
    for form in [LastHopForm::Bucket, LastHopForm::Ecn] {
        let (edge, behind, held_to) = last_hop(form);
        assert!(edge == 0 && behind < 10, "{form:?}: {edge} {behind}");
        assert!(held_to > 0.95 * throughput, "{form:?}: {held_to} of {throughput}");
    }
}

#[test]
fn a_router_that_goes_silent_is_forgotten_and_obeyed_again_when_it_returns() {
    let (mut net, first, _) = chain(Some(Feedback::Aggregate));
    // No answer of r2 reaches r1 for two seconds: nothing else comes that way.
    let back = LinkId::of(first.0 / 2, true);
    for (at, up) in [(1.0, false), (3.0, true)] {
        net.network.script.push(ScriptedChange { at: seconds(at), link: back, change: Change::Up(up) });
    }
    let mut simulation = net.build(1);
    let mut rate = |at: f64| {
        simulation.run_until(seconds(at), u64::MAX);
        simulation.hop_variable(first, "explicit_rate_bps").expect("r1 speaks")
    };
    assert!(rate(0.9) < 75e6);
    assert!(rate(1.9) < 75e6, "not yet");
    assert!((rate(2.5) - 150e6).abs() < 1.0, "forgotten");
    assert!(rate(3.1) < 75e6, "heard again");
    simulation.run_until(Time::ZERO + tidegate_units::Span::from_secs(4), u64::MAX);
    simulation.assert_conservation();
}
