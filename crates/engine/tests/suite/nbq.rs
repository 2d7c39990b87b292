//! NBQ in routers of the simulator: the network of Fig. 14 of its document, against the fluid model and the claims.

use crate::common::{Net, constant, direction, drop_tail, seconds};
use tidegate_engine::{ApplicationSpec, LinkId, LossModel, Simulation, StartSpec, TransportSpec};
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::hop::nbq::NbqConfig;
use tidegate_units::{BitRate, Span, Time};

const UDP: TransportSpec = TransportSpec::Udp { header_bytes: 0 };

/// Two sources of 10 Mb/s, L3 of 10 Mb/s from r3 to r4, L4 of `narrow` from r4 to r5. L3 and L4.
fn fig14(narrow: &str, speakers: &[&str]) -> (Net, LinkId, LinkId) {
    let mut net = Net::default();
    let fast = direction("10Mbit", "1ms", drop_tail(32));
    net.link("h1", "r3", fast.clone());
    net.link("h2", "r3", fast.clone());
    let l3 = net.link("r3", "r4", fast);
    let l4 = net.link("r4", "r5", direction(narrow, "1ms", drop_tail(32)));
    net.link("r5", "h6", direction("100Mbit", "100us", drop_tail(32)));
    net.link("r5", "h7", direction("100Mbit", "100us", drop_tail(32)));
    let first = net.flow("h1", &["h6"], UDP, constant(BitRate::from_mbps(10)));
    let second = net.flow("h2", &["h7"], UDP, constant(BitRate::from_mbps(10)));
    net.network.flows[second].start = StartSpec::At(Time::from_nanos(400_000));
    assert_eq!((first, second), (0, 1));
    speak(&mut net, speakers, NbqConfig::default());
    (net, l3, l4)
}

fn speak(net: &mut Net, speakers: &[&str], config: NbqConfig) {
    net.hops(speakers, &HopConfig::Nbq(Box::new(config)));
}

fn ratio(simulation: &Simulation, link: LinkId) -> f64 {
    simulation.hop_variable(link, "discard_ratio").expect("a router with NBQ sends over this link")
}

/// Bits per second over `link` between two instants.
fn rate(simulation: &mut Simulation, link: LinkId, from: f64, until: f64) -> f64 {
    simulation.run_until(seconds(from), u64::MAX);
    let before = simulation.link_counters(link).delivered_bytes;
    simulation.run_until(seconds(until), u64::MAX);
    (simulation.link_counters(link).delivered_bytes - before) as f64 * 8.0 / (until - from)
}

#[test]
fn the_upstream_router_discards_what_the_narrow_link_cannot_carry() {
    let (net, l3, l4) = fig14("4Mbit", &["r3", "r4"]);
    let mut simulation = net.build(1);
    let early = rate(&mut simulation, l3, 0.0, 0.1);
    assert!(early > 9.5e6, "{early}");
    let late = rate(&mut simulation, l3, 5.0, 10.0);
    // A tenth is what section 6.2's figures can tell; reports that are two intervals old take it a little too far.
    assert!((late / 4e6 - 1.0).abs() < 0.1, "L3 carries what L4 can: {late}");
    assert!(simulation.link_counters(l4).busy_nanos as f64 > 0.94 * 10e9, "and L4 is rarely idle");
    simulation.assert_conservation();
}

/// The fluid model of tests/oracle/python/nbq/fluid.py, frozen.
#[test]
fn the_discard_ratio_follows_the_fluid_model() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/oracle/python/nbq/fluid.csv"
    ))
    .expect("the frozen model is there");
    let mut compared = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().expect("numbers")).collect();
        let [narrow_mbps, at, expected] = fields[..] else { panic!("three fields in `{line}`") };
        let (net, l3, _) = fig14(&format!("{narrow_mbps}Mbit"), &["r3", "r4"]);
        let mut simulation = net.build(1);
        // The model does not know where in an interval a measurement falls, nor that the first two tell nothing: it may be
        // one interval behind, and up to three ahead.
        let near = [at - 0.1, at + 0.3].map(|at| {
            simulation.run_until(seconds(at), u64::MAX);
            ratio(&simulation, l3)
        });
        let (low, high) = (near[0].min(near[1]) - 0.02, near[0].max(near[1]) + 0.02);
        assert!((low..high).contains(&expected), "{narrow_mbps} Mb/s at {at} s: {near:?}, model {expected}");
        compared += 1;
    }
    assert!(compared >= 20);
}

#[test]
fn a_router_that_does_not_speak_is_no_harm() {
    let (net, l3, l4) = fig14("4Mbit", &["r4"]);
    let mut simulation = net.build(1);
    let late = rate(&mut simulation, l3, 2.0, 4.0);
    assert!(late > 9.9e6, "nobody listens: {late}");
    assert!(rate(&mut simulation, l4, 4.0, 6.0) > 3.98e6);
    assert!(simulation.totals().control_packets > 10);
    assert_eq!(simulation.totals().control_lost_packets, 0);
}

#[test]
fn messages_do_not_wait_in_the_data_queue() {
    // The way back from r4 to r3 is full of traffic of its own.
    let (mut net, l3, _) = fig14("4Mbit", &["r3", "r4"]);
    net.link("r4", "h8", direction("100Mbit", "1ms", drop_tail(1000)));
    net.flow("h8", &["h1"], TransportSpec::Udp { header_bytes: 0 }, constant(BitRate::from_mbps(20)));
    let mut simulation = net.build(1);
    let late = rate(&mut simulation, l3, 5.0, 10.0);
    assert!((late / 4e6 - 1.0).abs() < 0.1, "{late}");
    assert_eq!(simulation.totals().control_lost_packets, 0, "and are not dropped by it");
    assert!(simulation.link_counters(l3.reversed()).control_bytes > 0, "the link is charged");
}

#[test]
fn lost_messages_slow_it_down_and_nothing_else() {
    for loss in [0.05, 0.2] {
        let (mut net, l3, _) = fig14("1Mbit", &["r3", "r4"]);
        net.network.links[l3.index() as usize].reverse.loss = Some(LossModel::Random { probability: loss });
        let mut simulation = net.build(3);
        let late = rate(&mut simulation, l3, 5.0, 25.0);
        assert!(simulation.totals().control_lost_packets > 0);
        assert!((1.9e6..3.5e6).contains(&late), "with {loss} of the messages lost: {late}");
        simulation.assert_conservation();
    }
}

#[test]
fn a_neighbour_that_falls_silent_is_forgotten() {
    let (mut net, l3, _) = fig14("1Mbit", &["r3", "r4"]);
    net.network.links[l3.index() as usize].reverse.loss = Some(LossModel::Random { probability: 1.0 });
    let mut deaf = net.build(1);
    assert!(rate(&mut deaf, l3, 1.0, 3.0) > 9.9e6, "it never heard anything");
}

#[test]
fn a_neighbour_whose_messages_stop_is_forgotten() {
    let (mut net, l3, _) = fig14("1Mbit", &["r3", "r4"]);
    // The way back slows down to nothing: data goes on, messages do not come.
    net.network.script.push(tidegate_engine::ScriptedChange {
        at: seconds(5.0),
        link: l3.reversed(),
        change: tidegate_engine::Change::Rate(BitRate::from_bps(1)),
    });
    let mut simulation = net.build(1);
    simulation.run_until(seconds(5.0), u64::MAX);
    assert!(ratio(&simulation, l3) > 0.85);
    simulation.run_until(seconds(7.0), u64::MAX);
    assert!(ratio(&simulation, l3) < 0.01, "{}", ratio(&simulation, l3));
    // Messages that wait do not pile up.
    simulation.run_until(seconds(20.0), u64::MAX);
    assert!(simulation.totals().control_lost_packets > 50);
    simulation.assert_conservation();
}

#[test]
fn messages_that_come_out_of_order_weaken_it_and_no_more() {
    let (mut net, l3, _) = fig14("1Mbit", &["r3", "r4"]);
    net.network.links[l3.index() as usize].reverse.reorder =
        Some(tidegate_engine::ReorderModel { probability: 0.3, delay: Span::from_millis(350) });
    let mut simulation = net.build(1);
    // While a message is late its neighbour seems silent.
    let late = rate(&mut simulation, l3, 5.0, 15.0);
    assert!((1.9e6..5e6).contains(&late), "{late}");
    simulation.assert_conservation();
}

#[test]
fn a_source_takes_the_best_rate_that_gets_through() {
    let (mut net, _, l4) = fig14("1Mbit", &[]);
    let rates = [100, 250, 500, 1000, 2000, 5000, 10_000].map(|kbps| BitRate::from_bps(kbps * 1000)).to_vec();
    let application = ApplicationSpec::Adaptive {
        rates,
        packet_bytes: 500,
        patience: Span::from_secs(2),
        settle: Span::from_millis(200),
    };
    for flow in &mut net.network.flows {
        flow.application = application.clone();
    }
    speak(&mut net, &["r3", "r4"], NbqConfig { advice: true, ..NbqConfig::default() });
    let mut simulation = net.build(1);
    simulation.run_until(seconds(5.0), u64::MAX);
    let (before, at) = (simulation.flow_counters(0), simulation.now());
    simulation.run_until(seconds(25.0), u64::MAX);
    let sent = (simulation.flow_counters(0).sent_bytes - before.sent_bytes) as f64 * 8.0;
    let sent = sent / (simulation.now() - at).as_secs_f64();
    assert!((0.1e6..2e6).contains(&sent), "of 10 Mb/s it keeps about what gets through: {sent}");
    assert!(simulation.link_counters(l4).busy_nanos as f64 > 0.6 * 25e9);
}

#[test]
fn results_do_not_depend_on_messages_to_routers_that_ignore_them() {
    // A router with NBQ whose output never overflows changes nothing but the kind of its ports.
    let run = |speakers: &[&str]| {
        let (net, l3, l4) = fig14("20Mbit", speakers);
        let mut simulation = net.build(1);
        simulation.run_until(seconds(2.0), u64::MAX);
        [l3, l4].map(|link| simulation.link_counters(link))
    };
    assert_eq!(run(&[]), run(&["r4", "r5"]));
}

/// Little's law: the queue over time is how long each packet was in it, messages as well.
#[test]
fn messages_that_wait_are_in_the_queue() {
    let (mut net, l3, _) = fig14("4Mbit", &["r3", "r4"]);
    // What the messages of r4 wait behind.
    let random = ApplicationSpec::Poisson { rate: BitRate::from_mbps(3), packet_bytes: 1000 };
    let back = net.flow("h6", &["h1"], UDP, random);
    for flow in 0..=back {
        net.network.flows[flow].stop = Some(seconds(5.0));
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(10.0), u64::MAX);
    let counters = simulation.link_counters(l3.reversed());
    assert!(counters.control_bytes > 0);
    let (in_queue, spent) = (counters.packet_nanos, counters.delay_nanos);
    // A message may be in it at the end.
    assert!(spent.abs_diff(in_queue) < 1_000_000, "{in_queue} and {spent}");
}
