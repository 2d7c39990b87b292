//! What is forged, repeated, or any bytes at all.

use proptest::prelude::*;

use super::*;

#[test]
fn forged_and_repeated_datagrams_change_nothing() {
    let run = |disturbed: bool| {
        let mut world = World::two(Some(&path()));
        let mut noise = tidegate_mechanism::random::Substream::new(Seed(3));
        for number in 0..400 {
            world.send(0, &udp(0, 1, number, 900, 0));
            world.run_for(Span::from_micros(500));
            if !disturbed {
                continue;
            }
            let before = world.wire.len();
            for _ in 0..20 {
                // Something that was on the wire a while ago, as it was or with bits turned. What is still under way would arrive twice, of which
                // the first counts.
                let old = world.wire[noise.below((before * 9 / 10).max(1) as u32) as usize].clone();
                let (to, _, traffic_class, mut bytes) = old;
                let is_old = !world.under_way.values().any(|(.., other)| *other == bytes);
                if noise.chance(0.5) || !is_old {
                    let at = noise.below(bytes.len() as u32) as usize;
                    bytes[at] ^= 1 << noise.below(8);
                }
                let from = SocketAddr::new(IpAddr::from([203, 0, 113, 5]), 9);
                let now = world.now;
                world.gateways[to]
                    .handle(Input::Wan { from: from.into(), traffic_class, datagram: &bytes }, now);
            }
        }
        world.run_for(Span::from_secs(1));
        world
    };
    let (calm, disturbed) = (run(false), run(true));
    assert!(calm.wire == disturbed.wire, "the same was sent");
    assert!(calm.delivered == disturbed.delivered, "and arrived");
    assert!(calm.delivered.len() > 100);
    let refused = |at: &World| {
        let of = |gateway: &Gateway<_>| {
            gateway.status()[0].counters.refused.iter().sum::<u64>()
                + gateway.stray().refused.iter().sum::<u64>()
        };
        at.gateways.iter().map(of).sum::<u64>()
    };
    assert_eq!(refused(&calm), 0);
    assert_eq!(refused(&disturbed), 400 * 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Whatever comes from anywhere in whatever order, nothing breaks, nothing is lost count of, and it ends.
    #[test]
    fn any_bytes_from_anywhere_break_nothing(
        steps in prop::collection::vec((0u8..6, any::<u16>(), prop::collection::vec(any::<u8>(), 0..80), 0u64..50_000_000), 1..120),
    ) {
        let mut world = World::two(Some(&path()));
        for (kind, number, bytes, wait) in steps {
            let now = world.now;
            let from = address(usize::from(number % 3));
            let traffic_class = number as u8;
            match kind {
                0 => world.send(0, &bytes),
                1 => world.send(usize::from(number % 2), &udp(usize::from(number % 2), usize::from(number / 2 % 2), number, bytes.len() * 12, traffic_class)),
                2 => world.gateways[1].handle(Input::Wan { from: from.into(), traffic_class, datagram: &bytes }, now),
                3 if !world.wire.is_empty() => {
                    let (to, _, _, mut datagram) = world.wire[usize::from(number) % world.wire.len()].clone();
                    for (at, byte) in bytes.iter().enumerate().take(usize::from(number % 3)) {
                        let place = (at * 37 + usize::from(*byte)) % datagram.len();
                        datagram[place] ^= byte;
                    }
                    world.gateways[to].handle(Input::Wan { from: from.into(), traffic_class, datagram: &datagram }, now);
                }
                4 => world.is_cut = !world.is_cut,
                _ => {
                    let (here, sites) = (usize::from(number % 2), 2);
                    if number % 16 < 2 {
                        world.gateways[here] = start(here, sites, config(here, 2, Some(&path()), None), now);
                    }
                }
            }
            let polls = world.polls;
            world.run_for(Span::from_nanos(wait));
            prop_assert!(world.polls - polls < 20_000, "it goes on for ever");
            for gateway in &world.gateways {
                let status = &gateway.status()[0];
                let (shaped, other) = gateway.held();
                let counters = &status.counters;
                let gone = counters.sent_packets + status.drops.total() + counters.too_large_packets;
                prop_assert_eq!(counters.entered_packets, gone + (shaped + other) as u64, "{:?}", status);
                prop_assert!(status.buffers.0 <= status.buffers.1);
            }
        }
    }
}
