//! Claims about `DualPI2` that need no second implementation.

use super::law::{integral_gain, proportional_gain, update_interval};
use super::*;
use crate::schedule::testing::{Counted, arrivals, drive};
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::FlowId;

fn dualpi2(config: DualPi2Config) -> DualPi2 {
    config.build(&Context::for_tests())
}

fn packet(slot: u32, ecn: Ecn, at: Time) -> Packet {
    Packet { ecn, arrived: at, ..Packet::new(slot, FlowId(u32::from(ecn as u8)), 1000) }
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Both queues with packets, always: what is sent in `packets` transmissions of 0.8 ms, with the base probability held at `p`.
fn sent_at(p: f64, config: DualPi2Config, classic: Ecn, packets: u32) -> (Vec<Packet>, Counted) {
    // Far below its threshold, L has no marks of its own.
    let mut queue = dualpi2(DualPi2Config { min_th: Span::from_secs(100), ..config });
    let (mut out, mut sent) = (Counted::default(), Vec::new());
    let mut now = ms(1);
    for slot in 0..packets {
        for ecn in [Ecn::Ect1, classic] {
            while queue.queues[queue_of(ecn)].len() < 100 {
                queue.enqueue(packet(slot, ecn, now), now, &mut out);
            }
        }
        queue.controller.p = p;
        sent.push(queue.dequeue(now, &mut out).expect("something waits"));
        now += Span::from_micros(800);
    }
    (sent, out)
}

fn of_queue(packets: &[Packet], queue: usize) -> usize {
    packets.iter().filter(|packet| usize::from(packet.flow.0 & 1 == 0) == queue).count()
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[test]
fn constants_are_those_of_the_rfc() {
    let (target, rtt_max) = (Span::from_millis(15), Span::from_millis(100));
    let tupdate = update_interval(target, rtt_max);
    assert_eq!(tupdate, Span::from_millis(15));
    assert_eq!(update_interval(Span::from_millis(50), rtt_max), Span::from_nanos(33_333_333));
    assert!((integral_gain(tupdate, rtt_max) - 0.15).abs() < 1e-12);
    assert!((proportional_gain(rtt_max) - 3.0).abs() < 1e-12);
    assert_eq!(classic_max(2.0), 0.25);
    assert_eq!(classic_max(0.5), 1.0);
}

#[test]
fn the_ramp_is_0_below_its_threshold_and_1_at_its_end_and_a_step_without_range() {
    let us = Span::from_micros;
    let at = |wait| ramp(us(wait), us(800), us(400));
    assert_eq!([at(0), at(800), at(900), at(1000), at(1200), at(5000)], [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]);
    assert_eq!([999, 1000].map(|wait| ramp(us(wait), us(1000), Span::ZERO)), [0.0, 1.0]);
}

#[test]
fn ect1_and_ce_wait_apart_from_ect0_and_not_ect() {
    let mut queue = dualpi2(DualPi2Config::default());
    for (slot, ecn) in (0..).zip([Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce]) {
        queue.enqueue(packet(slot, ecn, ms(0)), ms(0), &mut Counted::default());
    }
    let slots = |waiting: &VecDeque<Packet>| waiting.iter().map(|packet| packet.slot).collect::<Vec<_>>();
    assert_eq!((slots(&queue.queues[L]), slots(&queue.queues[C])), (Vec::from([2, 3]), Vec::from([0, 1])));
}

#[test]
fn both_queues_share_one_limit() {
    let mut queue = dualpi2(DualPi2Config { limit: Limit::Packets(3), ..DualPi2Config::default() });
    let mut out = Counted::default();
    for slot in 0..8 {
        let ecn = if slot % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        queue.enqueue(packet(slot, ecn, ms(0)), ms(0), &mut out);
    }
    assert_eq!((queue.backlog().packets, out.drops.len()), (3, 5));
    assert!(out.drops.iter().all(|(_, why)| *why == DropReason::Overflow));
}

#[test]
fn l_is_marked_with_k_times_the_base_probability_and_c_with_its_square() {
    for law in [DualLaw::Recur, DualLaw::Random] {
        let config = DualPi2Config { law, classic_share: 0.5, ..DualPi2Config::default() };
        for p in [0.05, 0.2, 0.45] {
            for classic in [Ecn::Ect0, Ecn::NotEct] {
                let (sent, out) = sent_at(p, config, classic, 40_000);
                let marked: Vec<Packet> = out.marks.iter().map(|(packet, _)| *packet).collect();
                let low_latency = share(of_queue(&marked, L), of_queue(&sent, L));
                assert!((low_latency / (2.0 * p) - 1.0).abs() < 0.02, "{law:?} {p} {low_latency}");
                let hit = of_queue(&marked, C) + out.drops.len();
                let all = of_queue(&sent, C) + out.drops.len();
                assert!((share(hit, all) / (p * p) - 1.0).abs() < 0.2, "{law:?} {p} {hit} of {all}");
                assert_eq!(out.drops.is_empty(), classic == Ecn::Ect0, "a mark where it is understood");
            }
        }
    }
}

#[test]
fn overload_drops_in_both_queues_with_the_square_and_marks_no_classic_packet() {
    for p in [0.5, 0.7, 0.9] {
        let config = DualPi2Config { classic_share: 0.5, ..DualPi2Config::default() };
        let (sent, out) = sent_at(p, config, Ecn::Ect0, 20_000);
        let dropped: Vec<Packet> = out.drops.iter().map(|(packet, _)| *packet).collect();
        assert!(out.drops.iter().all(|(_, why)| *why == DropReason::Forced));
        for queue in [L, C] {
            let (lost, left) = (of_queue(&dropped, queue), of_queue(&sent, queue));
            assert!((share(lost, lost + left) / (p * p) - 1.0).abs() < 0.02, "{p}: {lost} and {left}");
        }
        assert!(out.marks.iter().all(|(packet, _)| packet.flow.0 & 1 == 1), "ECN of C is off");
        assert!(share(out.marks.len(), of_queue(&sent, L)) > 0.99, "what L keeps is marked");
    }
}

#[test]
fn recur_spreads_marks_evenly() {
    let mut hits = Hits::RECUR;
    let numbers: Vec<usize> = (0..1000).filter(|_| hits.next(L, 0.125)).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] == 8), "{numbers:?}");
}

#[test]
fn weighted_round_robin_leaves_c_its_share_and_no_more() {
    for classic_share in [0.05, 0.1, 0.5, 0.9] {
        let config = DualPi2Config { classic_share, ..DualPi2Config::default() };
        let (sent, _) = sent_at(0.0, config, Ecn::NotEct, 20_000);
        let found = share(of_queue(&sent, C), sent.len());
        assert!((found - classic_share).abs() < 0.001, "{classic_share}: {found}");
    }
}

#[test]
fn with_the_time_shift_a_classic_packet_goes_first_when_it_is_older_by_more() {
    let config = DualPi2Config {
        scheduler: DualScheduler::TimeShifted,
        limit: Limit::Packets(9),
        ..DualPi2Config::default()
    };
    for (behind_ms, first) in [(49, Ecn::Ect1), (50, Ecn::Ect1), (51, Ecn::NotEct)] {
        let mut queue = dualpi2(config);
        let mut out = Counted::default();
        queue.enqueue(packet(0, Ecn::NotEct, ms(0)), ms(0), &mut out);
        queue.enqueue(packet(1, Ecn::Ect1, ms(behind_ms)), ms(behind_ms), &mut out);
        let sent = queue.dequeue(ms(behind_ms + 3), &mut out).expect("two wait");
        assert_eq!(sent.flow.0, u32::from(first as u8), "{behind_ms}");
    }
}

#[test]
fn one_packet_that_is_left_is_not_marked_by_the_ramp() {
    let mut queue = dualpi2(DualPi2Config::default());
    let mut out = Counted::default();
    (0..4).for_each(|slot| queue.enqueue(packet(slot, Ecn::Ect1, ms(0)), ms(0), &mut out));
    let marks: Vec<Ecn> =
        core::iter::from_fn(|| queue.dequeue(ms(5), &mut out)).map(|packet| packet.ecn).collect();
    // The sum of `recur` exceeds one with the second packet; two are left behind it, one behind the third.
    assert_eq!(marks, [Ecn::Ect1, Ecn::Ce, Ecn::Ect1, Ecn::Ect1]);
    assert!(out.marks.iter().all(|(_, why)| *why == MarkReason::Step));
}

#[test]
fn the_probability_rises_with_the_delay_above_target_and_updates_rest_when_all_is_over() {
    let mut queue = dualpi2(DualPi2Config::default());
    let mut out = Counted::default();
    assert_eq!(queue.timer_at(), None);
    queue.enqueue(packet(0, Ecn::NotEct, ms(31)), ms(31), &mut out);
    assert_eq!(queue.timer_at(), Some(ms(45)), "updates are at multiples of 15 ms");
    queue.on_timer(ms(45), &mut out);
    // 14 ms: 0.15 (14 - 15) ms + 3 (14 - 0) ms.
    assert!((queue.controller.p - (-0.000_15 + 0.042)).abs() < 1e-12);
    queue.on_timer(ms(60), &mut out);
    assert!((queue.controller.p - (0.041_85 + 0.15 * 0.014 + 3.0 * 0.015)).abs() < 1e-12);
    assert!(queue.dequeue(ms(61), &mut out).is_some());
    let mut last = ms(60);
    while let Some(at) = queue.timer_at() {
        queue.on_timer(at, &mut out);
        last = at;
    }
    assert!(last < ms(1000) && queue.controller.p == 0.0);
}

#[test]
fn what_is_purged_is_neither_marked_nor_dropped_early() {
    let mut queue = dualpi2(DualPi2Config::default());
    let mut out = Counted::default();
    queue.controller.p = 0.4;
    (0..10).for_each(|slot| queue.enqueue(packet(slot, Ecn::Ect1, ms(0)), ms(0), &mut out));
    queue.purge(ms(1), DropReason::LinkDown, &mut out);
    assert!(out.marks.is_empty() && queue.backlog().is_empty());
    assert_eq!(out.drops.iter().filter(|(_, why)| *why == DropReason::LinkDown).count(), 10);
}

proptest! {
    #[test]
    fn what_comes_in_leaves_or_is_dropped_and_the_link_never_idles(vector in arrivals(6, 300)) {
        let limit = Limit::Packets(20);
        for scheduler in [DualScheduler::WeightedRoundRobin, DualScheduler::TimeShifted] {
            let config = DualPi2Config { limit, scheduler, target: Span::from_micros(50), ..DualPi2Config::default() };
            let mut queue = dualpi2(config);
            drive(&mut queue, &vector, 8, |waiting| assert!(waiting.packets <= 20));
            prop_assert!((0.0..=1.0).contains(&queue.controller.p));
        }
    }
}

#[test]
fn a_target_of_a_nanosecond_does_not_mean_an_update_in_each() {
    let mut dual = DualPi2Config { target: Span::from_nanos(1), ..DualPi2Config::default() }
        .build(&Context::for_tests());
    dual.enqueue(Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut Counted::default());
    assert_eq!(dual.timer_at(), Some(Time::ZERO + Span::from_micros(10)));
}
