//! What one site, or one host, may cost: rates, memory and work that have bounds whatever is said.

use tidegate_mechanism::edge::iec::{IecConfig, IecDelays, OverlayConfig};

use super::*;
use crate::core::envelope::Hello;
use crate::core::peer::Why;

fn nbp() -> EdgeConfig {
    EdgeConfig::Nbp(Box::default())
}

/// So many flows from 0 to 1, each a packet of 1000 bytes every other millisecond, for so many milliseconds.
fn flows(world: &mut World, count: u16, millis: u64) {
    for ms in 0..millis {
        for flow in (0..count).filter(|flow| u64::from(*flow) % 2 == ms % 2) {
            world.send(0, &udp(0, 1, 1000 + flow, 972, 0));
        }
        world.run_for(Span::from_millis(1));
    }
}

#[test]
fn the_highest_rate_is_that_of_a_site_however_many_flows_have_a_shaper() {
    for control in [nbp(), path()] {
        let mut configs = vec![config(0, 2, Some(&control), None), config(1, 2, Some(&control), None)];
        for config in &mut configs {
            config.sites[0].rate.max = BitRate::from_mbps(5);
        }
        let mut world = World::new(configs);
        world.run_for(Span::from_millis(500));
        // 32 Mbit/s are offered.
        flows(&mut world, 8, 3000);
        let before = world.delivered.len();
        flows(&mut world, 8, 1000);
        let mbps = (world.delivered.len() - before) as f64 * 8000.0 / 1e6;
        assert!((4.0..=5.1).contains(&mbps), "{mbps} Mbit/s of {control:?}");
    }
}

#[test]
fn flows_that_have_a_shaper_are_no_more_than_all_sites_may_have() {
    let control = nbp();
    let mut world = World::new((0..3).map(|here| config(here, 3, Some(&control), None)).collect());
    world.run_for(Span::from_millis(500));
    let share = FLOWS_MAX / 2;
    // A host tries each port of many.
    for number in 0..share + 8000 {
        world.send(0, &udp(0, 1, number as u16, 12, 0));
        if number % 256 == 0 {
            world.run_for(Span::from_millis(2));
        }
    }
    assert_eq!(world.gateways[0].peers[0].border.open_count(), share as usize);
}

#[test]
fn ever_new_lives_of_the_other_end_make_ours_begin_twice_a_second_and_no_more() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_millis(500));
    let before = world.gateways[0].peers[0].counters.lives;
    let body = Hello { version_least: 1, links: 1, mechanism: 4, mtu: 1420 }.encode();
    let mut now = world.now;
    let gateway = &mut world.gateways[0];
    for life in 0..4000 {
        now += Span::from_micros(500);
        let envelope = Envelope { kind: Kind::Hello, link: 0, incarnation: 1 + life, number: 1, echo: 0 };
        let peer = &mut gateway.peers[0];
        assert!(peer.may_hear(now));
        peer.on_message(&envelope, &body, &mut gateway.store, now);
    }
    let lives = gateway.peers[0].counters.lives - before;
    assert!((3..=5).contains(&lives), "{lives} in two seconds");
}

#[test]
fn who_moves_all_the_time_begins_twice_a_second_and_at_last_where_it_is() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 1000);
    let before = world.gateways[1].peers[0].counters.lives;
    for step in 0..100 {
        world.seen_as[0] = SocketAddr::new(IpAddr::from([198, 51, 100, 7]), 4000 + step);
        world.load(0, 1, 10);
    }
    let lives = world.gateways[1].peers[0].counters.lives - before;
    assert!((2..=6).contains(&lives), "{lives} in a second");
    world.load(0, 1, 2000);
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
    assert_eq!(world.gateways[1].peers[0].endpoint, Some(world.seen_as[0]));
}

#[test]
fn iec_that_looks_for_congestion_elsewhere_is_another_mechanism() {
    let iec = |delays| EdgeConfig::Iec(Box::new(IecConfig::of(OverlayConfig::default(), delays)));
    for (here, there) in
        [(IecDelays::OneWay, IecDelays::RoundTrip), (IecDelays::RoundTrip, IecDelays::RoundTrip)]
    {
        let mut world =
            World::new(vec![config(0, 2, Some(&iec(here)), None), config(1, 2, Some(&iec(there)), None)]);
        world.run_for(Span::from_secs(1));
        let expected = if here == there { State::Controlled } else { State::Fixed(Why::Differs) };
        assert_eq!([world.state(0), world.state(1)], [expected; 2], "{here:?}, {there:?}");
    }
}
