//! Claims about PI2 that need no second implementation.

use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::FlowId;
use tidegate_parameters::{Parameters as _, Report};

use super::*;
use crate::queue::testing::settle;
use crate::queue::{Fifo, QueueDiscipline};
use crate::schedule::testing::{arrivals, drive};

const LONG: Backlog = Backlog { packets: 50, bytes: 50_000 };

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn pi2(config: Pi2Config) -> Pi2 {
    config.build(&Context::for_tests())
}

fn arrive(pi2: &mut Pi2, ecn: Ecn, queue: Backlog) -> Verdict {
    pi2.on_arrival(&mut Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }, queue, Time::ZERO)
}

/// A packet leaves that has waited so long; 49 stay behind.
fn leave(pi2: &mut Pi2, waited: Span, now: Time) {
    let packet = Packet { arrived: now.saturating_sub(waited), ..Packet::new(0, FlowId(0), 1000) };
    pi2.on_departure(&packet, Backlog { packets: 49, bytes: 49_000 }, now);
}

/// How often packets with `ecn` are hit while the base probability is `p`, and whether by drops.
fn hit(p: f64, ecn: Ecn, config: Pi2Config) -> (f64, bool) {
    let mut pi2 = pi2(config);
    pi2.controller.p = p;
    let verdicts: Vec<Verdict> = (0..100_000).map(|_| arrive(&mut pi2, ecn, LONG)).collect();
    let drops = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Drop(DropReason::Early))).count();
    let marks = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Mark(MarkReason::Early))).count();
    assert!(drops == 0 || marks == 0, "one kind of packet has one fate");
    ((drops + marks) as f64 / 100_000.0, drops > 0)
}

#[test]
fn classic_packets_are_hit_with_the_square_and_scalable_ones_k_times_as_often_as_its_root() {
    for k in [1.19, 2.0] {
        let config = Pi2Config { k, ..Pi2Config::default() };
        for p in [0.1, 0.3, 0.5] {
            for (ecn, expected, is_drop) in [
                (Ecn::NotEct, p * p, true),
                (Ecn::Ect0, p * p, false),
                (Ecn::Ect1, k * p, false),
                (Ecn::Ce, k * p, false),
            ] {
                let (share, dropped) = hit(p, ecn, config);
                assert!((share - expected).abs() < 0.005, "{ecn:?} at {p}: {share}, {expected}");
                assert_eq!(dropped, is_drop, "{ecn:?}");
            }
        }
    }
}

#[test]
fn who_is_scalable_is_configured_and_without_ecn_nobody_is() {
    let of = |scalable, ecn| Pi2Config { scalable, ecn, ..Pi2Config::default() };
    for (config, ect0, ect1, drops) in [
        (of(Scalable::Ect1, true), 0.04, 0.4, false),
        (of(Scalable::Ect, true), 0.4, 0.4, false),
        (of(Scalable::None, true), 0.04, 0.04, false),
        (of(Scalable::Ect, false), 0.04, 0.04, true),
    ] {
        for (ecn, expected) in [(Ecn::Ect0, ect0), (Ecn::Ect1, ect1)] {
            let (share, dropped) = hit(0.2, ecn, config);
            assert!((share - expected).abs() < 0.005 && dropped == drops, "{config:?} {ecn:?}: {share}");
        }
        assert!((hit(0.2, Ecn::NotEct, config).0 - 0.04).abs() < 0.005, "it can only be dropped");
    }
}

#[test]
fn the_probability_moves_with_how_far_the_delay_is_from_the_target_and_how_it_changes() {
    let mut pi2 = pi2(Pi2Config::default());
    assert_eq!(pi2.timer_at(), None);
    arrive(&mut pi2, Ecn::NotEct, LONG);
    leave(&mut pi2, Span::from_millis(30), ms(31));
    assert_eq!(pi2.timer_at(), Some(ms(32)), "updates are at multiples of 32 ms");
    pi2.on_timer(ms(32));
    // 30 ms: 5/16 (30 - 20) ms + 50/16 (30 - 0) ms.
    assert!((pi2.controller.p - (0.003_125 + 0.093_75)).abs() < 1e-12);
    leave(&mut pi2, Span::from_millis(25), ms(50));
    pi2.on_timer(ms(64));
    assert!((pi2.controller.p - (0.096_875 + 0.001_562_5 - 0.015_625)).abs() < 1e-12);
}

#[test]
fn a_delay_at_the_target_leaves_the_probability_where_it_is() {
    let mut pi2 = pi2(Pi2Config::default());
    (pi2.controller.p, pi2.controller.prevq) = (0.2, Span::from_millis(20));
    leave(&mut pi2, Span::from_millis(20), ms(31));
    (1..100).for_each(|update| pi2.on_timer(ms(32 * update)));
    assert_eq!(pi2.controller.p, 0.2);
}

#[test]
fn all_scalable_packets_are_marked_before_more_than_a_quarter_of_the_classic_ones_is_dropped() {
    let mut pi2 = pi2(Pi2Config::default());
    leave(&mut pi2, Span::from_secs(1), ms(1000));
    pi2.on_timer(ms(1024));
    let of = |name| pi2.variable(name).expect("it has it");
    assert_eq!(["base_probability", "classic_probability", "coupled_probability"].map(of), [0.5, 0.25, 1.0]);
    assert!((0..1000).all(|_| arrive(&mut pi2, Ecn::Ect1, LONG) == Verdict::Mark(MarkReason::Early)));
}

#[test]
fn a_queue_of_less_than_two_large_packets_is_left_alone() {
    let mut pi2 = pi2(Pi2Config::default());
    pi2.controller.p = 0.5;
    let queue = |bytes| Backlog { packets: 2, bytes };
    assert!((0..1000).all(|_| arrive(&mut pi2, Ecn::Ect1, queue(2999)) == Verdict::Accept));
    assert_eq!(arrive(&mut pi2, Ecn::Ect1, queue(3000)), Verdict::Mark(MarkReason::Early));
}

#[test]
fn updates_end_when_nothing_waits_and_no_probability_is_left() {
    let mut pi2 = pi2(Pi2Config::default());
    pi2.controller.p = 0.13;
    let mut updates = 0;
    while let Some(at) = pi2.timer_at() {
        pi2.on_timer(at);
        updates += 1;
    }
    // Each takes 5/16 of 20 ms.
    assert_eq!((updates, pi2.controller.p), (21, 0.0));
    arrive(&mut pi2, Ecn::NotEct, Backlog::EMPTY);
    assert!(pi2.timer_at().is_some());
}

#[test]
fn sources_that_answer_settle_at_the_target() {
    let config = Pi2Config { alpha: 0.02, beta: 0.2, ..Pi2Config::default() };
    let settled = settle(&mut Fifo::new(pi2(config)), Some("base_probability"), 200, |p| 1.5 - 2.5 * p);
    assert!((settled.signal - 0.2).abs() < 0.01 && (settled.queue - 20.0).abs() < 1.0, "{settled:?}");
    assert!(settled.load > 0.99 && settled.dropped == 0, "{settled:?}");
}

#[test]
fn a_limit_in_time_is_longer_than_the_target() {
    let said = |config: Pi2Config| {
        let mut keys = Vec::new();
        config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
        keys
    };
    let in_time = |limit| Pi2Config { limit: Limit::Time(Span::from_millis(limit)), ..Pi2Config::default() };
    assert!(said(Pi2Config::default()).is_empty() && said(in_time(21)).is_empty());
    assert_eq!(said(in_time(20)), ["limit"]);
}

proptest! {
    #[test]
    fn any_arrivals_keep_the_limit_and_the_probability(
        vector in arrivals(3, 300), limit in 1u32..40, target in 1u64..500, k in 0.5..5.0f64, alpha in 1.0..500.0f64,
    ) {
        let (target, t_update) = (Span::from_micros(target), Span::from_micros(20));
        let config = Pi2Config {
            limit: Limit::Packets(limit), target, t_update, k, alpha, beta: 10.0 * alpha, ..Pi2Config::default()
        };
        let mut fifo = Fifo::new(pi2(config));
        let run = drive(&mut fifo, &vector, 8, |waiting| assert!(waiting.packets <= limit));
        prop_assert!(run.out.marks.is_empty(), "nothing here can carry a mark");
        let p = fifo.variable("coupled_probability").expect("it has one");
        prop_assert!((0.0..=1.0 + 1e-12).contains(&p));
    }
}
