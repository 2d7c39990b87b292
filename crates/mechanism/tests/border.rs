//! A border as a world drives it: the example, and any order of calls with any bytes.

use proptest::prelude::*;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::iec::{Detection, OverlayConfig};
use tidegate_mechanism::edge::nbp::{Classify, NbpConfig, RoundTrip};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_packet::Dscp;
use tidegate_units::{BitRate, Span};

mod border_world;
#[path = "../examples/two_borders.rs"]
mod two_borders;

use border_world::{Call, World, drive};

#[test]
fn two_borders_keep_the_queue_between_them_short_over_a_lossy_channel() {
    for config in [EdgeConfig::Nbp(Box::default()), EdgeConfig::Iec(Box::default())] {
        let outcome = two_borders::run(&config, 30);
        // 3750 packets fit through in that time, and 15,000 want to; of NBP's, feedback takes a part.
        assert!(outcome.delivered > 3_000, "the channel is used: {outcome:?}");
        assert!(outcome.overflows * 50 < outcome.delivered, "and its queue is not full: {outcome:?}");
        assert!(outcome.refused > 10_000, "the rest never enters: {outcome:?}");
    }
}

fn call() -> impl Strategy<Value = Call> {
    let peers = || prop::collection::vec(0u32..3, 0..3);
    let flip = prop::option::weighted(0.3, (0usize..80, 1u8..=255));
    prop_oneof![
        6 => (0u8..6, 0u32..3000, 0u8..64, peers())
            .prop_map(|(flow, wire_bytes, dscp, exits)| Call::Enter { flow, wire_bytes, dscp, exits }),
        4 => (0u8..6, 0u32..3000, peers(), 0u8..4, any::<bool>()).prop_map(
            |(flow, wire_bytes, entry, ecn, is_tunnelled)| Call::Leave { flow, wire_bytes, entry, ecn, is_tunnelled }
        ),
        1 => (0u32..3, prop::collection::vec(any::<u8>(), 0..80), any::<u8>())
            .prop_map(|(from, bytes, ttl)| Call::Bytes { from, bytes, ttl }),
        6 => (0u32..3, 0usize..8, flip, any::<u8>())
            .prop_map(|(from, which, flip, ttl)| Call::Echo { from, which, flip, ttl }),
        3 => Just(Call::Timeout),
        4 => (0u8..5).prop_map(|count| Call::Poll { count }),
        6 => prop_oneof![
            8 => 0i64..20_000_000, 1 => 0i64..20_000_000_000, 1 => -20_000_000i64..0, 1 => any::<i64>().prop_map(|n| n >> 8),
        ].prop_map(|nanos| Call::Clock { nanos }),
    ]
}

fn config() -> impl Strategy<Value = EdgeConfig> {
    let nbp = (0u8..3, 1u32..4, any::<[bool; 2]>(), prop::option::of(1.0f64..4.0)).prop_map(
        |(granularity, flows_max, [asynch_repeats, by_data], arrival_headroom)| {
            let classify = Classify::ALL[usize::from(granularity)];
            let exempt = vec![Dscp::EF.get()];
            let idle_timeout = Span::from_millis(50);
            let base = NbpConfig::default();
            EdgeConfig::Nbp(Box::new(NbpConfig {
                classify,
                flows_max,
                asynch_repeats,
                arrival_headroom,
                exempt,
                idle_timeout,
                round_trip: if by_data { RoundTrip::Data } else { RoundTrip::Feedback },
                ..base
            }))
        },
    );
    let iec = (0u8..3, any::<bool>()).prop_map(|(detection, with_tcp)| {
        let detection = match detection {
            0 => Detection::OneWay,
            1 => Detection::RoundTrip,
            _ => Detection::Marks,
        };
        let tcp_rate = with_tcp.then(TcpRateConfig::default);
        let idle_timeout = Span::from_millis(50);
        EdgeConfig::from(OverlayConfig { detection, tcp_rate, idle_timeout, ..OverlayConfig::default() })
    });
    prop_oneof![nbp, iec]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_order_of_calls_is_safe_and_loses_no_packet(
        config in config(), calls in prop::collection::vec(call(), 0..120), pairs in any::<bool>(),
    ) {
        drive(&config, calls, pairs);
    }
}

#[test]
fn what_is_not_asked_for_is_asked_for_again_at_once() {
    let mut world = World::new(&EdgeConfig::Nbp(Box::new(NbpConfig {
        initial_rate: Some(BitRate::from_mbps(1)),
        ..NbpConfig::default()
    })));
    world.call(Call::Enter { flow: 0, wire_bytes: 1000, dscp: 0, exits: vec![1] });
    assert_eq!(world.border.poll_timeout(), Some(world.now), "a new flow is announced");
    world.border.handle_timeout(world.now);
    assert_eq!(world.border.poll_timeout(), Some(world.now), "there is something to say");
    assert!(world.poll() && world.poll() && !world.poll());
    assert_eq!((world.heard.len(), world.went_on), (1, 1));
    assert!(world.border.poll_timeout().is_some_and(|at| at > world.now));
}
