//! A border as a world drives it: the example, and any order of calls with any bytes.

use proptest::prelude::*;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::autorate::{AutorateConfig, PingDelays};
use tidegate_mechanism::edge::iec::{Detection, OverlayConfig};
use tidegate_mechanism::edge::nbp::{Classify, NbpConfig, RoundTrip};
use tidegate_mechanism::edge::path::{PathConfig, PathDelays};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_packet::Dscp;
use tidegate_units::{BitRate, Span};

use crate::border_world;
use crate::two_borders;

use border_world::peers::{Step, seen_of_x};
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
    prop_oneof![
        6 => (0u8..6, 0u32..3000, 0u8..64, peers())
            .prop_map(|(flow, wire_bytes, dscp, exits)| Call::Enter { flow, wire_bytes, dscp, exits }),
        4 => (0u8..6, 0u32..3000, peers(), 0u8..4, any::<bool>()).prop_map(
            |(flow, wire_bytes, entry, ecn, is_tunnelled)| Call::Leave { flow, wire_bytes, entry, ecn, is_tunnelled }
        ),
        1 => (0u32..3, prop::collection::vec(any::<u8>(), 0..80), any::<u8>())
            .prop_map(|(from, bytes, ttl)| Call::Bytes { from, bytes, ttl }),
        6 => (0u32..3, 0usize..8, damage(0.3), any::<u8>())
            .prop_map(|(from, which, flip, ttl)| Call::Echo { from, which, flip, ttl }),
        3 => Just(Call::Timeout),
        4 => (0u8..5).prop_map(|count| Call::Poll { count }),
        6 => prop_oneof![
            8 => 0i64..20_000_000, 1 => 0i64..20_000_000_000, 1 => -20_000_000i64..0, 1 => any::<i64>().prop_map(|n| n >> 8),
        ].prop_map(|nanos| Call::Clock { nanos }),
    ]
}

fn path() -> impl Strategy<Value = EdgeConfig> {
    (any::<[bool; 4]>(), 1u32..4).prop_map(|([round_trip, compete, is_fast, is_brief], flows_max)| {
        EdgeConfig::Path(Box::new(PathConfig {
            delays: if round_trip { PathDelays::RoundTrip } else { PathDelays::OneWay },
            compete,
            flows_max,
            initial_rate: is_fast.then_some(BitRate::from_mbps(50)),
            idle_timeout: Span::from_millis(if is_brief { 50 } else { 10_000 }),
            ..PathConfig::default()
        }))
    })
}

fn autorate() -> impl Strategy<Value = EdgeConfig> {
    (any::<[bool; 2]>(), 1u32..7, 1u64..200).prop_map(|([one_way, enforce_min], pingers, millis)| {
        EdgeConfig::Autorate(Box::new(AutorateConfig {
            delays: if one_way { PingDelays::OneWay } else { PingDelays::RoundTrip },
            pingers,
            ping_interval: Span::from_millis(millis),
            sleep_after: Span::from_millis(100),
            enforce_min,
            ..AutorateConfig::default()
        }))
    })
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
    prop_oneof![nbp, iec, path(), autorate()]
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

/// Of so many messages a byte is another.
fn damage(part: f64) -> impl Strategy<Value = Option<(usize, u8)>> {
    prop::option::weighted(part, (0usize..80, 1u8..=255))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..6).prop_map(|flow| Step::Enters { flow }),
        4 => (0u8..6, 0u8..4, 1u32..5).prop_map(|(flow, ecn, stamp)| Step::Leaves { flow, ecn, stamp }),
        6 => (0usize..3, any::<bool>(), damage(0.1)).prop_map(|(which, of_x, flip)| Step::Hears { which, of_x, flip }),
        4 => prop_oneof![8 => 0u32..20_000, 1 => 0u32..3_000_000].prop_map(|micros| Step::Waits { micros }),
        3 => (0u8..12).prop_map(|flow| Step::YLeaves { flow }),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| Step::YBytes { bytes }),
        6 => (0usize..8, any::<bool>(), damage(0.3)).prop_map(|(which, of_x, flip)| Step::YEchoes { which, of_x, flip }),
        3 => (0u16..6, 0u16..90, 0u16..9)
            .prop_map(|(first, count, millis)| Step::YAnnounces { first, count, millis }),
    ]
}

/// The same, with packets for Y, with its answers, and with timers that come late.
fn step_with_traffic() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => step(),
        1 => (100_000u32..1_000_000).prop_map(|micros| Step::Waits { micros }),
        3 => (0u8..6).prop_map(|flow| Step::YEnters { flow }),
        3 => (0usize..4, damage(0.3)).prop_map(|(which, flip)| Step::YAnswers { which, flip }),
    ]
}

fn one_of_three() -> impl Strategy<Value = EdgeConfig> {
    config().prop_map(|mut config| {
        if let EdgeConfig::Nbp(nbp) = &mut config {
            // One to three flows of each.
            (nbp.borders, nbp.flows_max) = (3, 3 * nbp.flows_max);
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn what_is_kept_of_a_peer_and_said_to_it_is_a_function_of_what_it_says_itself(
        config in one_of_three(), steps in prop::collection::vec(step(), 0..120),
    ) {
        prop_assert_eq!(seen_of_x(&config, &steps, true), seen_of_x(&config, &steps, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Each far edge of path control has a virtual link of its own, whatever becomes of that of another.
    #[test]
    fn what_a_far_edge_gets_from_path_control_is_a_function_of_what_is_for_it_and_what_it_says(
        config in path(), steps in prop::collection::vec(step_with_traffic(), 0..200),
    ) {
        prop_assert_eq!(seen_of_x(&config, &steps, true), seen_of_x(&config, &steps, false));
    }
}
