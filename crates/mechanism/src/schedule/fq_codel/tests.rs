use super::*;
use crate::queue::QueueDiscipline;
use crate::schedule::BinHash;
use crate::schedule::testing::{Counted, arrivals, drive};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{DropReason, Ecn, FlowId, Packet};
use tidegate_parameters::{Parameters as _, Report};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

/// Each flow has a queue of its own, and `CoDel` never acts.
fn apart() -> FqCodelConfig {
    FqCodelConfig {
        codel: CodelLawConfig {
            target: Span::from_secs(1000),
            interval: Span::from_secs(1000),
            ..CodelLawConfig::default()
        },
        flows: FlowQueueingConfig { hash: BinHash::Modulo, ..FlowQueueingConfig::default() },
        ..FqCodelConfig::default()
    }
}

/// `apart` with these queues.
fn with(flows: impl Fn(FlowQueueingConfig) -> FlowQueueingConfig) -> FqCodelConfig {
    FqCodelConfig { flows: flows(apart().flows), ..apart() }
}

fn build(config: &FqCodelConfig) -> FqCodel {
    config.build(&Context::for_tests())
}

fn offer(fq: &mut FqCodel, flow: u32, bytes: u32, out: &mut Counted) {
    fq.enqueue(Packet::new(0, FlowId(flow), bytes), Time::ZERO, out);
}

fn next(fq: &mut FqCodel) -> Option<u32> {
    fq.dequeue(Time::ZERO, &mut Counted::default()).map(|packet| packet.flow.0)
}

#[test]
fn a_flow_with_little_to_send_goes_before_those_that_keep_a_queue() {
    let mut fq = build(&apart());
    let mut out = Counted::default();
    for flow in [0, 1, 2].repeat(200) {
        offer(&mut fq, flow, 1000, &mut out);
    }
    // Each sends two packets in its turn, and the first goes on: they are old now.
    for _ in 0..7 {
        next(&mut fq);
    }
    assert_eq!((fq.variable("new_queues"), fq.variable("old_queues")), (Some(0.0), Some(3.0)));
    for _ in 0..20 {
        offer(&mut fq, 9, 200, &mut out);
        assert_eq!(next(&mut fq), Some(9), "it waits for nobody");
        // The others have a turn each, in which it is found empty.
        let others: BTreeSet<_> = (0..8).filter_map(|_| next(&mut fq)).collect();
        assert_eq!(others, BTreeSet::from([0, 1, 2]));
    }
}

#[test]
fn a_flow_that_sends_more_than_a_quantum_at_once_waits_for_the_others_with_the_rest() {
    let mut fq = build(&with(|flows| FlowQueueingConfig { quantum: Bytes::new(1000), ..flows }));
    let mut out = Counted::default();
    for _ in 0..10 {
        offer(&mut fq, 0, 500, &mut out);
    }
    assert_eq!((next(&mut fq), next(&mut fq)), (Some(0), Some(0)));
    for _ in 0..3 {
        offer(&mut fq, 1, 500, &mut out);
    }
    // Flow 1 is new and has its quantum; then they take turns.
    let order: Vec<_> = (0..6).filter_map(|_| next(&mut fq)).collect();
    assert_eq!(order, [1, 1, 0, 0, 1, 0]);
}

#[test]
fn a_flow_that_comes_back_whenever_its_queue_is_empty_does_not_starve_the_others() {
    let mut fq = build(&apart());
    let mut out = Counted::default();
    for _ in 0..300 {
        offer(&mut fq, 0, 1500, &mut out);
    }
    offer(&mut fq, 1, 1500, &mut out);
    let (mut of_old, mut of_new) = (0, 0);
    for _ in 0..400 {
        if next(&mut fq) == Some(0) {
            of_old += 1;
        } else {
            of_new += 1;
            // Its next packet comes as soon as one is gone: it is never seen empty for long.
            offer(&mut fq, 1, 1500, &mut out);
        }
    }
    assert!(of_old >= 198, "{of_old} against {of_new}");
}

#[test]
fn an_overflow_takes_half_of_the_longest_queue_or_a_batch_from_its_head() {
    for (batch, lost) in [(64, 31), (8, 8), (1, 1)] {
        let config = FqCodelConfig {
            drop_batch: batch,
            ..with(|flows| FlowQueueingConfig { limit: Limit::Packets(100), ..flows })
        };
        let mut fq = build(&config);
        let mut out = Counted::default();
        for slot in 0..61 {
            fq.enqueue(Packet::new(slot, FlowId(3), 1000), Time::ZERO, &mut out);
        }
        for slot in 100..140 {
            fq.enqueue(Packet::new(slot, FlowId(4), 1000), Time::ZERO, &mut out);
        }
        assert!(out.drops.iter().all(|(packet, why)| packet.flow.0 == 3 && *why == DropReason::Overflow));
        let slots: Vec<u32> = out.drops.iter().map(|(packet, _)| packet.slot).collect();
        assert_eq!(slots, (0..lost).collect::<Vec<_>>(), "half of 61 kB is reached with 31 packets");
    }
}

#[test]
fn the_memory_limit_counts_bytes_and_the_longest_queue_is_longest_in_bytes() {
    let mut fq = build(&with(|flows| FlowQueueingConfig { memory_limit: Bytes::new(10_000), ..flows }));
    let mut out = Counted::default();
    for _ in 0..20 {
        offer(&mut fq, 0, 100, &mut out);
    }
    for _ in 0..6 {
        offer(&mut fq, 1, 1500, &mut out);
    }
    // 11 kB: flow 1 has 9 of them.
    assert_eq!(out.drops.iter().map(|(packet, _)| packet.flow.0).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_queue_that_lost_packets_to_make_room_is_notified_faster() {
    // 40 drops to make room: a series soon after begins with that count, and a pause shorter by its root.
    let pauses = |limit: u32| {
        let config = FqCodelConfig {
            codel: CodelLawConfig { ecn: false, ..CodelLawConfig::default() },
            ..with(|flows| FlowQueueingConfig { limit: Limit::Packets(limit), ..flows })
        };
        let mut fq = build(&config);
        let mut out = Counted::default();
        for slot in 0..81 {
            fq.enqueue(Packet::new(slot, FlowId(0), 1500), Time::ZERO, &mut out);
        }
        let lost = out.drops.len();
        let mut drops = Vec::new();
        for millis in (10..300).step_by(10) {
            let before = out.drops.len();
            fq.dequeue(Time::ZERO + Span::from_millis(millis), &mut out);
            drops.extend((before..out.drops.len()).map(|_| millis));
        }
        (lost, drops[..2].to_vec())
    };
    assert_eq!(pauses(100), (0, [110, 210].to_vec()));
    assert_eq!(pauses(80), (41, [110, 130].to_vec()), "100 ms / sqrt(41) is 15.6 ms");
}

#[test]
fn flows_in_one_queue_share_its_turn_and_a_choice_of_queues_keeps_them_apart() {
    for (ways, queues, expected) in [(1, 2.0, [0, 1, 8, 1, 0, 8]), (8, 3.0, [0, 8, 1, 0, 8, 1])] {
        let mut fq =
            build(&with(|flows| FlowQueueingConfig { queues: 8, ways, quantum: Bytes::new(1000), ..flows }));
        let mut out = Counted::default();
        for flow in [0, 8, 1].repeat(2) {
            offer(&mut fq, flow, 1000, &mut out);
        }
        assert_eq!(fq.variable("active_queues"), Some(queues));
        let order: Vec<_> = (0..6).filter_map(|_| next(&mut fq)).collect();
        assert_eq!(order, expected, "{ways} ways");
    }
}

#[test]
fn a_million_flows_need_no_more_memory_than_the_queues_and_what_waits() {
    let mut fq = build(&FqCodelConfig {
        flows: FlowQueueingConfig { ways: 8, ..FlowQueueingConfig::default() },
        ..FqCodelConfig::default()
    });
    let mut out = Counted::default();
    for flow in 0..1_000_000 {
        fq.enqueue(Packet::new(flow, FlowId(flow), 1000), Time::ZERO, &mut out);
        fq.dequeue(Time::ZERO, &mut out);
    }
    assert_eq!((fq.places_in_memory(), out.drops.len()), (1, 0));
    const { assert!(FqCodel::BYTES_PER_QUEUE <= 88, "a queue without packets is small") };
}

#[test]
fn sets_that_are_not_whole_are_refused() {
    let said = |config: FqCodelConfig| {
        let mut keys = Vec::new();
        config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
        keys
    };
    assert!(said(FqCodelConfig::default()).is_empty());
    assert_eq!(said(with(|flows| FlowQueueingConfig { ways: 3, ..flows })), ["ways"]);
    assert_eq!(
        said(with(|flows| FlowQueueingConfig { limit: Limit::Bytes(Bytes::new(9)), ..flows })),
        ["limit"]
    );
    assert_eq!(said(with(|flows| FlowQueueingConfig { quantum: Bytes::new(255), ..flows })), ["quantum"]);
}

/// Any configuration, with times short enough for `CoDel` to act in a few packets.
fn any_config() -> impl Strategy<Value = FqCodelConfig> {
    let codel = (1u64..200, 200u64..2000, any::<bool>(), any::<bool>(), any::<bool>());
    let sizes = (1u32..60, 500u64..100_000, 256u64..4000, 1u32..20, 0u32..3, 1u32..70);
    (codel, sizes, any::<bool>()).prop_map(|(codel, sizes, counts_all)| {
        let (target, interval, ecn, is_linux, is_stepped) = codel;
        let (limit, memory, quantum, sets, ways, drop_batch) = sizes;
        FqCodelConfig {
            codel: CodelLawConfig {
                target: Span::from_micros(target),
                interval: Span::from_micros(interval),
                ecn,
                variant: if is_linux { crate::queue::Variant::Linux } else { crate::queue::Variant::Rfc },
                ce_threshold: is_stepped.then_some(Span::from_micros(50)),
                ..CodelLawConfig::default()
            },
            flows: FlowQueueingConfig {
                limit: Limit::Packets(limit),
                memory_limit: Bytes::new(memory),
                quantum: Bytes::new(quantum),
                queues: sets << ways,
                ways: 1 << ways,
                ..FlowQueueingConfig::default()
            },
            drop_batch,
            backlog: if counts_all { Backlogged::All } else { Backlogged::Queue },
        }
    })
}

proptest! {
    #[test]
    fn the_link_never_idles_nothing_is_lost_or_reordered_and_the_limits_hold(
        vector in arrivals(40, 300), config in any_config(),
    ) {
        let config = FqCodelConfig { flows: FlowQueueingConfig { ways: 1, ..config.flows }, ..config };
        let Limit::Packets(limit) = config.flows.limit else { unreachable!() };
        let memory = config.flows.memory_limit.get();
        let holds = |waiting: tidegate_packet::Backlog| waiting.packets <= limit && waiting.bytes <= memory;
        drive(&mut build(&config), &vector, 8, |waiting| assert!(holds(waiting)));
    }

    /// Calls in any order, with sizes of nothing and of much: each packet that came in goes out or is dropped, once.
    #[test]
    fn any_order_of_calls_conserves_packets_and_memory(
        calls in prop::collection::vec((0u8..8, 0u32..50, prop_oneof![0u32..3, 40u32..1500, Just(70_000)], 0u64..300), 1..400),
        config in any_config(),
    ) {
        let mut fq = build(&config);
        let mut out = Counted::default();
        let mut inside = BTreeMap::new();
        let (mut now, mut dropped, mut most) = (Time::ZERO, 0, 0);
        for (number, (call, flow, bytes, micros)) in (0u32..).zip(calls) {
            now += Span::from_micros(micros);
            let sent = match call {
                0..=3 => {
                    let ecn = Ecn::from_bits(flow as u8);
                    let packet = Packet { ecn, arrived: now, ..Packet::new(number, FlowId(flow), bytes) };
                    inside.insert(number, bytes);
                    fq.enqueue(packet, now, &mut out);
                    None
                }
                4 | 5 => fq.dequeue(now, &mut out),
                6 => {
                    fq.set_link_rate(BitRate::from_mbps(u64::from(flow) + 1), now);
                    fq.on_idle(now);
                    prop_assert_eq!(fq.timer_at(), None);
                    None
                }
                _ if flow == 0 => {
                    fq.purge(now, DropReason::LinkDown, &mut out);
                    prop_assert!(fq.backlog().is_empty());
                    None
                }
                _ => None,
            };
            let gone = out.drops[dropped..].iter().map(|(packet, _)| packet.slot).chain(sent.map(|p| p.slot));
            for slot in gone {
                prop_assert!(inside.remove(&slot).is_some(), "a packet goes once");
            }
            dropped = out.drops.len();
            let waiting = tidegate_packet::Backlog {
                packets: inside.len() as u32,
                bytes: inside.values().map(|&size| u64::from(size)).sum(),
            };
            prop_assert_eq!(fq.backlog(), waiting);
            let Limit::Packets(limit) = config.flows.limit else { unreachable!() };
            prop_assert!(waiting.packets <= limit && waiting.bytes <= config.flows.memory_limit.get());
            most = most.max(inside.len() + 1);
            prop_assert!(fq.places_in_memory() <= most);
            let listed = fq.variable("new_queues").unwrap_or(0.0) + fq.variable("old_queues").unwrap_or(0.0);
            prop_assert!(fq.variable("active_queues").is_some_and(|active| active <= listed));
            prop_assert!(listed <= f64::from(config.flows.queues));
        }
    }

    /// As for DRR: each sends a quantum in a round, and at most a packet more, for which it has less in the next.
    #[test]
    fn backlogged_flows_differ_by_at_most_a_quantum_and_two_packets(
        sizes in prop::collection::vec((40u32..=1500, 40u32..=1500, 40u32..=1500), 100), quantum in 256u64..4000,
    ) {
        let mut fq = build(&with(|flows| FlowQueueingConfig { quantum: Bytes::new(quantum), ..flows }));
        let mut left = [100u32; 3];
        for &(a, b, c) in &sizes {
            for (flow, size) in [(0, a), (1, b), (2, c)] {
                offer(&mut fq, flow, size, &mut Counted::default());
            }
        }
        let mut served = Vec::from([[0i64; 3]]);
        while left.iter().all(|&packets| packets > 0) {
            let packet = fq.dequeue(Time::ZERO, &mut Counted::default()).expect("three flows wait");
            let mut sums = served[served.len() - 1];
            sums[packet.flow.0 as usize] += i64::from(packet.wire_bytes);
            left[packet.flow.0 as usize] -= 1;
            served.push(sums);
        }
        let bound = quantum.cast_signed() + 2 * 1499;
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            let differences = served.iter().map(|sums| sums[i] - sums[j]);
            let (low, high) = differences.fold((0, 0), |(l, h), d| (d.min(l), d.max(h)));
            prop_assert!(high - low <= bound, "{} > {bound}", high - low);
        }
    }

    /// However long the queues of the others are: they are old, and a packet of a flow that was away is next.
    #[test]
    fn a_packet_of_a_flow_that_was_away_waits_for_no_queue(
        others in prop::collection::vec((0u32..20, 40u32..1500), 50..300), turns in 0usize..40, bytes in 40u32..1500,
    ) {
        let mut fq = build(&apart());
        for &(flow, size) in &others {
            offer(&mut fq, flow, size, &mut Counted::default());
        }
        while fq.variable("new_queues") != Some(0.0) {
            next(&mut fq);
        }
        for _ in 0..turns.min(fq.backlog().packets as usize) {
            next(&mut fq);
        }
        offer(&mut fq, 21, bytes, &mut Counted::default());
        prop_assert_eq!(next(&mut fq), Some(21));
    }
}
