//! A border as a world drives it: the example, and any order of calls with any bytes.

use std::num::NonZeroU32;

use proptest::prelude::*;
use tidegate_mechanism::Context;
use tidegate_mechanism::edge::iec::{Detection, OverlayConfig};
use tidegate_mechanism::edge::nbp::wire::Encoder;
use tidegate_mechanism::edge::nbp::{Classify, Granularity, NbpConfig, RoundTrip};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_mechanism::edge::{Border, BorderSite, EdgeConfig, PeerId, Transmit};
use tidegate_packet::{Dscp, Ecn, FlowId, Packet};
use tidegate_units::{BitRate, Span, Time};

mod border_world;
#[path = "../examples/two_borders.rs"]
mod two_borders;

use border_world::{Call, Store, World, drive, headers, segment};

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

/// One step of a world with a border whose peers are X (1) and Y (2).
#[derive(Clone, Debug)]
enum Step {
    /// A packet of a flow enters for X, or one of another flow comes from X.
    Enters {
        flow: u8,
    },
    Leaves {
        flow: u8,
        ecn: u8,
        stamp: u32,
    },
    /// X answers, or asks: a message that this border, or the border of X, said so many before the last.
    Hears {
        which: usize,
        of_x: bool,
    },
    Waits {
        micros: u32,
    },
    /// From Y: packets of any flows, any bytes, and what anybody has said, damaged or not.
    YLeaves {
        flow: u8,
    },
    YBytes {
        bytes: Vec<u8>,
    },
    YEchoes {
        which: usize,
        of_x: bool,
        flip: Option<(usize, u8)>,
    },
    YAnnounces {
        first: u16,
        count: u16,
        millis: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let flip = prop::option::weighted(0.3, (0usize..80, 1u8..=255));
    prop_oneof![
        4 => (0u8..6).prop_map(|flow| Step::Enters { flow }),
        4 => (0u8..6, 0u8..4, 1u32..5).prop_map(|(flow, ecn, stamp)| Step::Leaves { flow, ecn, stamp }),
        6 => (0usize..3, any::<bool>()).prop_map(|(which, of_x)| Step::Hears { which, of_x }),
        4 => prop_oneof![8 => 0u32..20_000, 1 => 0u32..3_000_000].prop_map(|micros| Step::Waits { micros }),
        3 => (0u8..12).prop_map(|flow| Step::YLeaves { flow }),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| Step::YBytes { bytes }),
        6 => (0usize..8, any::<bool>(), flip).prop_map(|(which, of_x, flip)| Step::YEchoes { which, of_x, flip }),
        3 => (0u16..6, 0u16..90, 0u16..9)
            .prop_map(|(first, count, millis)| Step::YAnnounces { first, count, millis }),
    ]
}

/// A packet of `flow`, which entered by `entry`, leaves the domain through a tunnel.
fn leave(border: &mut Border, flow: u8, entry: u32, (ecn, stamp): (u8, u32), now: Time) {
    let mut packet = Packet::new(0, FlowId(u32::from(flow)), 1000);
    packet.ecn = Ecn::from_bits(ecn);
    packet.inner_ecn.put(0, Ecn::Ect0);
    if let Some(stamp) = NonZeroU32::new(stamp).filter(|_| border.stamps()) {
        border.handle_stamp(packet.flow, &headers(flow), stamp, now);
    }
    border.handle_leaving(&mut packet, &headers(flow), &[PeerId(entry)], segment(flow).as_mut(), now);
}

/// What a border says to X, lets go and knows of X in the course of `steps`.
fn seen_of_x(config: &EdgeConfig, steps: &[Step], with_y: bool) -> Vec<String> {
    const X: PeerId = PeerId(1);
    const Y: PeerId = PeerId(2);
    let build = |border| Border::new(config, BorderSite { border, level: 0 }, &Context::for_tests());
    // That of X is there to say what X would.
    let (mut border, mut at_x) = (build(PeerId(0)), build(X));
    let (mut store, mut message, mut seen) = (Store::default(), Vec::new(), Vec::new());
    let (mut said, mut said_by_x): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let mut now = Time::from_nanos(1_000_000_000);
    for step in steps {
        match step {
            Step::Enters { flow } => {
                for (entered, exit) in [(&mut border, X), (&mut at_x, PeerId(0))] {
                    let packet = Packet::new(0, FlowId(u32::from(*flow)), 1000);
                    entered.handle_packet(packet, &headers(*flow), &[exit], now, &mut store);
                }
            }
            Step::Leaves { flow, ecn, stamp } => {
                leave(&mut border, *flow, 1, (*ecn, *stamp), now);
                leave(&mut at_x, *flow, 0, (*ecn, *stamp), now);
            }
            Step::Hears { which, of_x: true } => {
                let Some(bytes) = said_by_x.iter().rev().nth(*which) else { continue };
                border.handle_message(X, bytes, 250, now);
            }
            Step::Hears { which, of_x: false } => {
                let Some(bytes) = said.iter().rev().nth(*which) else { continue };
                at_x.handle_message(PeerId(0), bytes, 250, now);
            }
            Step::Waits { micros } => {
                now += Span::from_micros(u64::from(*micros));
                border.handle_timeout(now);
                at_x.handle_timeout(now);
            }
            _ if !with_y => (),
            Step::YLeaves { flow } => leave(&mut border, *flow, 2, (3, 9), now),
            Step::YBytes { bytes } => border.handle_message(Y, bytes, 250, now),
            Step::YEchoes { which, of_x, flip } => {
                let of = if *of_x { &said_by_x } else { &said };
                let Some(bytes) = of.iter().rev().nth(*which) else { continue };
                let mut bytes = bytes.clone();
                if let Some((at, mask)) = flip.filter(|(at, _)| *at < bytes.len()) {
                    bytes[at] ^= mask;
                }
                border.handle_message(Y, &bytes, 250, now);
            }
            Step::YAnnounces { first, count, millis } => {
                let mut encoder = Encoder::default();
                encoder.forward(now.saturating_sub(Span::from_millis(u64::from(*millis))));
                for flow in *first..*first + *count {
                    encoder.push(&Granularity::Flow.class_of(&headers(flow as u8)));
                }
                border.handle_message(Y, encoder.finish(), 250, now);
            }
        }
        while let Some(transmit) = border.poll_transmit(now, &mut store, &mut message) {
            match transmit {
                Transmit::Message { to: X } => {
                    seen.push(format!("{now} {message:?}"));
                    said.push(message.clone());
                }
                Transmit::Message { .. } => (),
                Transmit::Packet(packet) => seen.push(format!("{now} {packet:?}")),
            }
        }
        while let Some(transmit) = at_x.poll_transmit(now, &mut store, &mut message) {
            if let Transmit::Message { .. } = transmit {
                said_by_x.push(message.clone());
            }
        }
        if !matches!(
            step,
            Step::YLeaves { .. } | Step::YBytes { .. } | Step::YEchoes { .. } | Step::YAnnounces { .. }
        ) {
            seen.push(format!("{:?}", border.egress().epoch_report(X)));
            seen.extend((0..6).map(|flow| format!("{:?}", border.ingress().report(&headers(flow), Some(X)))));
        }
    }
    seen
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
