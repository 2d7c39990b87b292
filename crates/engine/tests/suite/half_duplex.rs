//! Links whose directions share one medium.

use crate::common::{Fate, Net, Recorder, constant, direction, drop_tail, seconds};
use tidegate_engine::{
    ApplicationSpec, Change, EventOrder, LinkId, LinkSpec, Network, ScriptedChange, StartSpec, Statistics,
    TransportSpec,
};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_units::{BitRate, Time};

/// Two hosts on two routers that share 10 Mbit/s, and datagrams both ways.
fn network(forward_mbps: u64, reverse_mbps: u64) -> Net {
    let mut net = Net::default();
    net.link("r0", "r1", direction("10Mbit", "1ms", drop_tail(20)));
    net.link("ha", "r0", direction("100Mbit", "1ms", drop_tail(100)));
    net.link("hb", "r1", direction("100Mbit", "1ms", drop_tail(100)));
    let udp = || TransportSpec::Udp { header_bytes: 28 };
    net.flow("ha", &["hb"], udp(), constant(BitRate::from_mbps(forward_mbps)));
    net.flow("hb", &["ha"], udp(), constant(BitRate::from_mbps(reverse_mbps)));
    share(&mut net.network);
    net
}

fn share(network: &mut Network) {
    let link: &mut LinkSpec = &mut network.links[0];
    link.half_duplex = true;
}

fn run(net: Net, secs: f64) -> Statistics {
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(secs), u64::MAX);
    simulation.assert_conservation();
    simulation.statistics()
}

fn mbps(statistics: &Statistics, link: usize, secs: f64) -> f64 {
    statistics.links[link].delivered_bytes as f64 * 8e-6 / secs
}

#[test]
fn two_greedy_directions_get_half_of_the_medium_each() {
    let statistics = run(network(9, 8), 10.0);
    let (forward, reverse) = (mbps(&statistics, 0, 10.0), mbps(&statistics, 1, 10.0));
    assert!((forward + reverse - 10.0).abs() < 0.02, "{forward} + {reverse} is the rate of the medium");
    assert!((forward - reverse).abs() < 0.02, "{forward} and {reverse} take turns");
    assert!(statistics.links[0].dropped_packets() > 1000 && statistics.links[1].dropped_packets() > 1000);
}

#[test]
fn what_one_direction_leaves_the_other_takes() {
    let statistics = run(network(2, 12), 10.0);
    let (forward, reverse) = (mbps(&statistics, 0, 10.0), mbps(&statistics, 1, 10.0));
    assert!((forward - 2.0).abs() < 0.02 && (reverse - 8.0).abs() < 0.05, "{forward} and {reverse}");
    assert_eq!(statistics.links[0].dropped_packets(), 0);
}

#[test]
fn one_direction_alone_has_all_of_it() {
    let mut net = Net::default();
    net.link("r0", "r1", direction("10Mbit", "1ms", drop_tail(20)));
    net.link("ha", "r0", direction("100Mbit", "1ms", drop_tail(100)));
    net.link("hb", "r1", direction("100Mbit", "1ms", drop_tail(100)));
    let udp = TransportSpec::Udp { header_bytes: 28 };
    net.flow("ha", &["hb"], udp, constant(BitRate::from_mbps(20)));
    share(&mut net.network);
    assert!((mbps(&run(net, 10.0), 0, 10.0) - 10.0).abs() < 0.02);
}

/// Feng's testbeds: the acknowledgments of a greedy connection share the medium with its data.
#[test]
fn acknowledgments_take_their_part_of_the_medium() {
    let mut net = Net::default();
    net.link("r0", "r1", direction("10Mbit", "1ms", drop_tail(50)));
    net.link("ha", "r0", direction("100Mbit", "1ms", drop_tail(100)));
    net.link("hb", "r1", direction("100Mbit", "1ms", drop_tail(100)));
    let config = TcpConfig::ns_1999(Variant::NewReno).with_window_packets(40);
    net.flow("ha", &["hb"], TransportSpec::Tcp(Box::new(config)), ApplicationSpec::Bulk);
    share(&mut net.network);
    let statistics = run(net, 20.0);
    let (data, acks) = (mbps(&statistics, 0, 20.0), mbps(&statistics, 1, 20.0));
    assert!((data + acks - 10.0).abs() < 0.05, "{data} + {acks}");
    assert!((acks / data - 0.04).abs() < 0.001, "an acknowledgment of 40 bytes for each packet of 1000");
}

/// The direction that sent last is woken first, whichever it is, and lets the other go first.
#[test]
fn turns_are_taken_whatever_the_order_of_one_instant() {
    let mut net = network(9, 8);
    net.network.event_order = EventOrder::Numbered;
    let statistics = run(net, 10.0);
    let (forward, reverse) = (mbps(&statistics, 0, 10.0), mbps(&statistics, 1, 10.0));
    assert!((forward + reverse - 10.0).abs() < 0.02, "{forward} + {reverse} is the rate of the medium");
    assert!((forward - reverse).abs() < 0.02, "{forward} and {reverse} take turns");
}

/// A packet of 0.82 s is under way forth when one comes back; then something `change`s.
fn waits_behind_a_long_one(changes: &[(bool, Change)]) -> Vec<(Time, LinkId)> {
    let mut net = Net::default();
    net.link("ha", "hb", direction("10kbit", "1ms", drop_tail(20)));
    let udp = || TransportSpec::Udp { header_bytes: 28 };
    for (from, to, at) in [("ha", "hb", 0.0), ("hb", "ha", 0.1)] {
        let flow = net.flow(from, &[to], udp(), constant(BitRate::from_mbps(1)));
        net.network.flows[flow].start = StartSpec::At(seconds(at));
        net.network.flows[flow].stop = Some(seconds(at + 0.001));
    }
    let at = seconds(0.2);
    net.network.script = changes
        .iter()
        .map(|&(reverse, change)| ScriptedChange { at, link: LinkId::of(0, reverse), change })
        .collect();
    share(&mut net.network);
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(3.0), u64::MAX);
    simulation.assert_conservation();
    let log = simulation.into_observer().log;
    let delivered = |entry: &(Time, _, _, Fate)| match entry.3 {
        Fate::Delivered(link) => Some((entry.0, link)),
        _ => None,
    };
    log.iter().filter_map(delivered).collect()
}

#[test]
fn a_transmission_that_ends_sooner_lets_the_other_direction_go_sooner() {
    let [forth, back] = [LinkId::of(0, false), LinkId::of(0, true)];
    let plain = waits_behind_a_long_one(&[]);
    assert_eq!(plain.iter().map(|&(_, link)| link).collect::<Vec<_>>(), [forth, back]);
    assert!(plain[1].0 > seconds(1.6), "{plain:?}");

    let rate = Change::Rate(BitRate::from_mbps(1_000));
    let faster = waits_behind_a_long_one(&[(false, rate), (true, rate)]);
    assert_eq!(faster.len(), 2);
    assert!(faster[1].0 < seconds(0.202), "{faster:?}");

    let failed = waits_behind_a_long_one(&[(false, Change::Up(false))]);
    assert_eq!(failed.len(), 1);
    assert!((seconds(1.0)..seconds(1.03)).contains(&failed[0].0), "{failed:?}");
}
