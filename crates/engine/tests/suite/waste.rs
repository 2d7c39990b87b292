//! Capacity that carried what was dropped later, against what arithmetic says.

use crate::common::{Net, constant, direction, drop_tail, seconds};
use tidegate_engine::{LinkId, LossModel, Simulation, TransportSpec};
use tidegate_units::BitRate;

const UDP: TransportSpec = TransportSpec::Udp { header_bytes: 28 };
const WINDOW: f64 = 20.0;

/// Megabits per second that each of `links` carried in vain, in a window after a second.
fn wasted(net: Net, links: &[LinkId]) -> Vec<f64> {
    let mut simulation: Simulation = net.build(1);
    assert!(simulation.wasted_bytes(links[0]).is_none(), "nobody asked");
    simulation.watch_waste();
    simulation.run_until(seconds(1.0), u64::MAX);
    simulation.restart_statistics();
    simulation.run_until(seconds(1.0 + WINDOW), u64::MAX);
    simulation.assert_conservation();
    links.iter().map(|link| simulation.wasted_bytes(*link).unwrap() as f64 * 8.0 / WINDOW / 1e6).collect()
}

fn near(measured: &[f64], expected: &[f64]) {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.01;
    assert!(measured.iter().zip(expected).all(is_near), "{measured:?} instead of {expected:?}");
}

#[test]
fn what_a_narrow_link_drops_wasted_all_links_before_it() {
    let mut net = Net::default();
    let first = net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(100)));
    let second = net.link("r0", "r1", direction("4Mbit", "5ms", drop_tail(100)));
    let third = net.link("r1", "h1", direction("1Mbit", "5ms", drop_tail(100)));
    net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(6)));
    // Of 6 Mb/s 2 are dropped at the second link and 3 at the third.
    near(&wasted(net, &[first, second, third, first.reversed()]), &[5.0, 3.0, 0.0, 0.0]);
}

#[test]
fn a_packet_that_the_medium_loses_used_its_link() {
    let mut net = Net::default();
    let first = net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(100)));
    let mut lossy = direction("10Mbit", "1ms", drop_tail(100));
    lossy.loss = Some(LossModel::Random { probability: 1.0 });
    let second = net.link("r0", "h1", lossy);
    net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(2)));
    near(&wasted(net, &[first, second]), &[2.0, 2.0]);
}

#[test]
fn the_shared_part_of_a_tree_is_not_wasted_by_one_branch() {
    let mut net = Net::default();
    let shared = net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(100)));
    let wide = net.link("r0", "h1", direction("10Mbit", "1ms", drop_tail(100)));
    let inner = net.link("r0", "r1", direction("10Mbit", "1ms", drop_tail(100)));
    let narrow = net.link("r1", "h2", direction("1Mbit", "1ms", drop_tail(100)));
    net.flow("h0", &["h1", "h2"], UDP, constant(BitRate::from_mbps(3)));
    near(&wasted(net, &[shared, wide, inner, narrow]), &[0.0, 0.0, 2.0, 0.0]);
}
