//! Sites that are reached through another one.

use super::*;

#[test]
fn a_third_site_is_reached_through_a_relay_that_sees_nothing_of_it() {
    let nbq = || Some(HopConfig::Nbq(Box::default()));
    for relay in [nbq(), Some(HopConfig::BackPressure(Box::default())), None] {
        let mut configs: Vec<_> = (0..3).map(|here| config(here, 3, Some(&path()), Some(1))).collect();
        for config in &mut configs {
            config.relay = relay.clone().or_else(nbq);
        }
        configs[1].relay.clone_from(&relay);
        let relay = relay.is_some();
        let mut world = World::new(configs);
        world.run_for(Span::from_secs(12));
        for number in 0..500 {
            world.send(0, &udp(0, 2, number, 700, 0));
            world.run_for(Span::from_millis(5));
        }
        world.run_for(Span::from_millis(100));
        let arrived = world.delivered.iter().filter(|(_, to, _)| *to == 2).count();
        assert_eq!(arrived, if relay { 500 } else { 0 });
        assert_eq!(world.delivered.len(), arrived, "the relay delivers nothing to its own hosts");
        if relay {
            assert_eq!(world.delivered[0].2, udp(0, 2, 0, 700, 0));
            let ends = [address(0), address(2)];
            let direct =
                world.wire.iter().any(|(to, from, ..)| ends.contains(&address(*to)) && ends.contains(from));
            assert!(!direct, "all of it goes by the relay");
        }
    }
}

#[test]
fn what_a_relays_queues_drop_is_told_and_not_kept() {
    let mut configs: Vec<_> = (0..3).map(|here| config(here, 3, None, Some(1))).collect();
    configs[1].relay = Some(HopConfig::Nbq(Box::default()));
    let mut world = World::new(configs);
    world.run_for(Span::from_secs(1));
    world.is_cut = true;
    world.run_for(Span::from_secs(400));
    assert_eq!(world.state(1), State::Down);
    // Its own hosts go on sending to a site that is down.
    for number in 0..2000 {
        world.send(1, &udp(1, 0, number, 100, 0));
        assert!(world.gateways[1].store.dropped.len() < 10, "{number}");
    }
    let dropped = world.gateways[1].status()[0].drops.total();
    assert!(dropped > 1000, "{dropped}");
}

#[test]
fn a_neighbour_that_asks_for_less_than_is_assured_gets_no_less() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 1000);
    let floor = world.gateways[0].config.sites[0].rate.floor;
    let now = world.now;
    for asked in [BitRate::from_bps(1), BitRate::ZERO, floor] {
        world.gateways[0].peers[0].limit(asked, now);
        let rate = world.gateways[0].status()[0].links[0].rate;
        assert_eq!(rate, floor, "{asked}");
    }
}
