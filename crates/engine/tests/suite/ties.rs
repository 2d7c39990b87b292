//! Two sources in lockstep at one full queue: by the order of events one gets every place, with pauses each its half.

use tidegate_engine::{Statistics, Ties, TransportSpec};
use tidegate_units::{BitRate, Span};

use crate::common::{Net, direction, drop_tail};

/// Two flows of 1 Mb/s over a link of 1 Mb/s, all links alike.
fn lockstep(ties: Option<u64>, run_seed: u64) -> Statistics {
    let mut net = Net::default();
    for host in ["h1", "h2"] {
        net.link(host, "a", direction("100Mbit", "1ms", drop_tail(100)));
    }
    net.link("a", "b", direction("1Mbit", "1ms", drop_tail(10)));
    net.link("b", "h3", direction("100Mbit", "1ms", drop_tail(100)));
    for host in ["h1", "h2"] {
        let rate = BitRate::from_mbps(1);
        net.flow(host, &["h3"], TransportSpec::Udp { header_bytes: 28 }, crate::common::constant(rate));
    }
    net.network.ties = ties.map(|seed| Ties { seed, spread: Span::from_micros(1) });
    net.run(run_seed, 1.0, 101.0)
}

fn received(statistics: &Statistics) -> [u64; 2] {
    [0, 1].map(|flow| statistics.sinks[flow][0].received_packets)
}

#[test]
fn the_order_of_events_gives_one_flow_everything() {
    let [first, second] = received(&lockstep(None, 1));
    assert!(first.min(second) < 10 && first + second > 12_400, "{first} and {second}");
}

#[test]
fn pauses_of_hosts_give_each_half() {
    let [first, second] = received(&lockstep(Some(1), 1));
    // 12,500 fair draws: four standard deviations are 224.
    assert!(first.abs_diff(second) < 450, "{first} and {second}");
    assert!(first + second > 12_400, "the link stays full");
}

#[test]
fn a_seed_decides_and_another_decides_otherwise() {
    let one = received(&lockstep(Some(1), 1));
    assert_eq!(one, received(&lockstep(Some(1), 1)));
    assert_ne!(one, received(&lockstep(Some(2), 1)));
    assert_ne!(one, received(&lockstep(Some(1), 2)));
}
