use super::law::{last_drops, newton_step, two_less};
use super::*;
use crate::queue::{Fifo, QueueDiscipline};
use crate::schedule::testing::{Counted, arrivals, drive};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{Ecn, FlowId, MarkReason};
use tidegate_parameters::{Parameters as _, Report};
use tidegate_units::Bytes;

const INTERVAL: Span = Span::from_millis(100);
const LONG: Backlog = Backlog { packets: 50, bytes: 50_000 };
const DROP: Verdict = Verdict::Drop(DropReason::Early);
const MARK: Verdict = Verdict::Mark(MarkReason::Early);

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn law(law: CodelLawConfig) -> CodelConfig {
    CodelConfig { law, ..CodelConfig::default() }
}

fn codel(config: CodelConfig) -> Codel {
    config.build(&Context::for_tests())
}

/// What becomes of a head that has waited `waited_ms` by `now`.
fn head(codel: &mut Codel, ecn: Ecn, waited_ms: u64, queue: Backlog, now: Time) -> Verdict {
    let arrived = now.saturating_sub(Span::from_millis(waited_ms));
    codel.at_head(&Packet { ecn, arrived, ..Packet::new(0, FlowId(0), 1000) }, queue, now)
}

fn old(codel: &mut Codel, now: Time) -> Verdict {
    head(codel, Ecn::NotEct, 10, LONG, now)
}

fn fresh(codel: &mut Codel, now: Time) -> Verdict {
    head(codel, Ecn::NotEct, 4, LONG, now)
}

/// `interval / sqrt(n)` in whole numbers.
fn exact_pause(n: u128) -> Span {
    let nanos = u128::from(INTERVAL.as_nanos());
    Span::from_nanos((nanos * nanos / n).isqrt() as u64)
}

/// One that begins to drop at `now`, and has dropped `drops` times when it returns the time of the last.
fn dropped(codel: &mut Codel, drops: u32, now: Time) -> Time {
    assert_eq!(old(codel, now), Verdict::Accept);
    let mut at = now + INTERVAL;
    assert_eq!(old(codel, at), DROP);
    assert_eq!(old(codel, at), Verdict::Accept);
    for _ in 1..drops {
        at = codel.state.drop_next;
        assert_eq!(old(codel, at), DROP);
        assert_eq!(old(codel, at), Verdict::Accept);
    }
    at
}

#[test]
fn drops_follow_interval_over_the_root_of_their_number_to_the_nanosecond() {
    let mut codel = codel(CodelConfig::default());
    assert_eq!(old(&mut codel, ms(1000)), Verdict::Accept);
    let mut due = ms(1100);
    for n in 1..=2000 {
        let before = Time::from_nanos(due.as_nanos() - 1);
        assert_eq!(old(&mut codel, before), Verdict::Accept, "drop {n}");
        assert_eq!(old(&mut codel, due), DROP, "drop {n}");
        assert_eq!(old(&mut codel, due), Verdict::Accept, "one for drop {n}");
        due += exact_pause(n);
    }
}

#[test]
fn the_root_of_linux_is_within_a_third_of_a_percent_after_ten_drops_and_its_first_pauses_are_too_short() {
    let mut inverse_root = u16::MAX;
    for count in 2..=2000u32 {
        inverse_root = newton_step(inverse_root, count);
        let ratio = f64::from(inverse_root) / 65536.0 * libm::sqrt(f64::from(count));
        // One step from 1 gives 0.5 for 1 / sqrt(2).
        assert!(count > 2 || (ratio - 0.5 * core::f64::consts::SQRT_2).abs() < 1e-4, "{ratio}");
        assert!(ratio < 1.0, "{ratio} for {count}");
        assert!(count < 12 || ratio > 0.9967, "{ratio} for {count}");
    }
}

#[test]
fn with_the_arithmetic_of_linux_time_has_a_grain_and_only_a_later_head_is_dropped() {
    let mut codel = codel(law(CodelLawConfig { variant: Variant::Linux, ..CodelLawConfig::default() }));
    let unit = Span::from_nanos(1024);
    // 100 ms are 97656 whole units.
    let (begun, interval) = (Time::ZERO + unit * 1_000_000, unit * 97_656);
    assert_eq!(old(&mut codel, begun), Verdict::Accept);
    let at = begun + interval + unit;
    assert_eq!(old(&mut codel, Time::from_nanos(at.as_nanos() - 1)), Verdict::Accept);
    assert_eq!(old(&mut codel, at), DROP);
    // The reciprocal of the root of 1 is 0xffff / 0x10000: 97654 units and a half.
    assert_eq!(codel.state.drop_next, at + unit * 97_654);
}

#[test]
fn a_link_that_looks_late_drops_all_that_was_due_at_once() {
    let mut codel = codel(CodelConfig::default());
    let begun = dropped(&mut codel, 1, ms(1000));
    let late = begun + exact_pause(1) + exact_pause(2) + exact_pause(3);
    let verdicts: Vec<Verdict> = (0..4).map(|_| old(&mut codel, late)).collect();
    assert_eq!(verdicts, [DROP, DROP, DROP, Verdict::Accept]);
}

#[test]
fn a_burst_that_drains_within_an_interval_loses_nothing() {
    let mut fifo = Fifo::new(codel(CodelConfig::default()));
    // 125 packets of 0.8 ms: the last begins to be sent after 99.2 ms.
    let run = drive(&mut fifo, &[(0, 0, 1000); 125], 800, |_| ());
    assert_eq!(run.sent.len(), 125);
    assert!(run.sent.last().is_some_and(|(at, _)| *at > ms(99)));
}

#[test]
fn a_queue_that_stays_is_brought_to_the_target_whatever_the_rate() {
    for (nanos_per_byte, limit) in [(800, 1000), (80, 10_000)] {
        let config = CodelConfig { limit: Limit::Packets(limit), ..CodelConfig::default() };
        let mut fifo = Fifo::new(codel(config));
        // A burst of 50 ms, and then as much as the link carries for 6 s: without CoDel it would stay.
        let burst = 50_000_000 / (1000 * nanos_per_byte);
        let mut offered: Vec<_> = (0..burst).map(|_| (0, 0, 1000)).collect();
        offered.extend((0..120 * burst).map(|_| (1000 * nanos_per_byte, 0, 1000)));
        let run = drive(&mut fifo, &offered, nanos_per_byte, |_| ());
        let (at, last) = run.sent[run.sent.len() - 10];
        assert!(at - last.arrived < Span::from_millis(5), "at {nanos_per_byte} ns per byte");
        assert!(run.out.drops.iter().all(|(_, why)| *why == DropReason::Early));
    }
}

#[test]
fn a_head_below_the_target_ends_the_series_and_the_next_waits_for_an_interval() {
    let mut codel = codel(CodelConfig::default());
    let last = dropped(&mut codel, 3, ms(1000));
    assert_eq!(codel.variable("is_dropping"), Some(1.0));
    let later = last + Span::from_millis(1);
    assert_eq!(fresh(&mut codel, later), Verdict::Accept);
    assert_eq!(codel.variable("is_dropping"), Some(0.0));
    assert_eq!(codel.variable("sojourn_ms"), Some(4.0));
    let above = later + Span::from_millis(1);
    for millis in 0..100 {
        assert_eq!(old(&mut codel, above + Span::from_millis(millis)), Verdict::Accept);
    }
    assert_eq!(old(&mut codel, above + INTERVAL), DROP);
}

#[test]
fn one_head_below_the_target_in_each_interval_keeps_all_packets() {
    let mut codel = codel(CodelConfig::default());
    for millis in 0..2000 {
        let waited = if millis % 100 == 99 { 4 } else { 80 };
        let verdict = head(&mut codel, Ecn::NotEct, waited, LONG, ms(1000 + millis));
        assert_eq!(verdict, Verdict::Accept, "{millis} ms");
    }
}

#[test]
fn a_head_with_no_more_than_one_largest_packet_behind_it_is_sent_however_long_it_waited() {
    for (left, expected) in [(0, Verdict::Accept), (1500, Verdict::Accept), (1501, DROP)] {
        let mut codel = codel(CodelConfig::default());
        let queue = Backlog { packets: 2, bytes: 1000 + left };
        for millis in 0..100 {
            assert_eq!(head(&mut codel, Ecn::NotEct, 5000, queue, ms(6000 + millis)), Verdict::Accept);
        }
        assert_eq!(head(&mut codel, Ecn::NotEct, 5000, queue, ms(6100)), expected, "{left} bytes behind it");
    }
}

#[test]
fn a_mark_takes_the_place_of_a_drop_where_the_transport_and_the_configuration_allow_it() {
    for (ecn, on, expected) in [(Ecn::Ect0, true, MARK), (Ecn::Ect0, false, DROP), (Ecn::NotEct, true, DROP)]
    {
        let mut codel = codel(law(CodelLawConfig { ecn: on, ..CodelLawConfig::default() }));
        assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1000)), Verdict::Accept);
        assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1100)), expected);
        assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1199)), Verdict::Accept);
        assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1200)), expected);
        assert_eq!(codel.variable("drop_count"), Some(2.0));
    }
}

#[test]
fn above_the_threshold_every_packet_that_may_be_is_marked_and_the_law_goes_on() {
    let config = law(CodelLawConfig {
        ecn: false,
        ce_threshold: Some(Span::from_millis(2)),
        ..CodelLawConfig::default()
    });
    let mut codel = codel(config);
    for (ecn, waited_ms, expected) in [
        (Ecn::Ect0, 2, Verdict::Accept),
        (Ecn::Ect0, 3, MARK),
        (Ecn::Ect1, 3, MARK),
        (Ecn::NotEct, 3, Verdict::Accept),
        (Ecn::Ect0, 10, MARK),
    ] {
        assert_eq!(head(&mut codel, ecn, waited_ms, LONG, ms(1000)), expected, "{ecn:?}, {waited_ms} ms");
    }
    assert_eq!(head(&mut codel, Ecn::Ect0, 10, LONG, ms(1100)), DROP, "`ecn` is off");
    assert_eq!(head(&mut codel, Ecn::Ect0, 10, LONG, ms(1100)), MARK);
    assert_eq!(codel.variable("drop_count"), Some(1.0), "a mark of the threshold is none of the series");
}

#[test]
fn marks_that_are_overdue_go_out_one_with_each_packet() {
    let mut fifo = Fifo::new(codel(CodelConfig::default()));
    let mut out = Counted::default();
    for slot in 0..20 {
        let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(slot, FlowId(0), 1000) };
        fifo.enqueue(packet, ms(0), &mut out);
    }
    let sent: Vec<Ecn> =
        [10, 110, 1110, 1110, 1110].map(|at| fifo.dequeue(ms(at), &mut out).expect("many wait").ecn).to_vec();
    assert_eq!(sent, [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ce]);
    assert!(out.drops.is_empty() && out.marks.len() == 4);
}

#[test]
fn a_new_series_soon_after_the_last_begins_where_its_rate_was_right() {
    let after = |reentry, pause_in_intervals: u64| {
        let mut codel = codel(law(CodelLawConfig { reentry, ..CodelLawConfig::default() }));
        // A series that begins at 1 and ends at 9, then one that follows soon, and ends six later.
        let first_end = dropped(&mut codel, 9, ms(1000));
        fresh(&mut codel, first_end);
        let soon = codel.state.drop_next;
        let second_end = dropped(&mut codel, 7, soon);
        fresh(&mut codel, second_end);
        let (first, due) = (codel.state.lastcount, codel.state.drop_next);
        // The series itself begins an interval after the queue is above.
        dropped(&mut codel, 1, due + INTERVAL * (pause_in_intervals - 1));
        (first, codel.state.count)
    };
    assert_eq!(after(Reentry::LastDrops, 15), (8, 6), "the drops of the series, not its count");
    assert_eq!(after(Reentry::LastDrops, 16), (8, 1));
    assert_eq!(after(Reentry::TwoLess, 7), (7, 11));
    assert_eq!(after(Reentry::TwoLess, 8), (7, 1));
    assert_eq!((last_drops(5, 4, Span::ZERO, INTERVAL), two_less(2, Span::ZERO, INTERVAL)), (None, None));
}

#[test]
fn a_queue_that_a_scheduler_empties_ends_its_series() {
    let mut fifo = Fifo::new(codel(CodelConfig::default()));
    let mut out = Counted::default();
    for slot in 0..8 {
        fifo.enqueue(Packet::new(slot, FlowId(0), 1000), ms(0), &mut out);
    }
    fifo.dequeue(ms(10), &mut out);
    fifo.dequeue(ms(110), &mut out);
    assert_eq!((out.drops.len(), fifo.variable("is_dropping")), (1, Some(1.0)));
    while fifo.drop_head(ms(111)).is_some() {}
    assert_eq!(fifo.variable("is_dropping"), Some(0.0));
}

#[test]
fn a_target_above_the_interval_and_a_limit_below_the_target_are_refused() {
    let said = |config: CodelConfig| {
        let mut keys = Vec::new();
        config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
        keys
    };
    let default = CodelConfig::default();
    assert!(said(default).is_empty());
    assert_eq!(
        said(law(CodelLawConfig { target: Span::from_millis(101), ..CodelLawConfig::default() })),
        ["target"]
    );
    assert_eq!(said(CodelConfig { limit: Limit::Time(Span::from_millis(5)), ..default }), ["limit"]);
    assert!(said(CodelConfig { limit: Limit::Bytes(Bytes::new(1)), ..default }).is_empty());
}

proptest! {
    #[test]
    fn any_arrivals_keep_the_limit_and_the_count(
        arrivals in arrivals(3, 300), limit in 1u32..40, target in 1u64..100, interval in 1u64..1000,
        two_less: bool, linux: bool,
    ) {
        let config = CodelConfig {
            limit: Limit::Packets(limit),
            law: CodelLawConfig {
                target: Span::from_micros(target),
                interval: Span::from_micros(interval),
                ecn: true,
                reentry: if two_less { Reentry::TwoLess } else { Reentry::LastDrops },
                variant: if linux { Variant::Linux } else { Variant::Rfc },
                ce_threshold: None,
            },
        };
        let mut fifo = Fifo::new(codel(config));
        let run = drive(&mut fifo, &arrivals, 8, |waiting| assert!(waiting.packets <= limit));
        let early = run.out.drops.iter().filter(|(_, why)| *why == DropReason::Early).count();
        let count = fifo.manager().state.count as usize;
        prop_assert!(count <= early && (count > 0) == (early > 0));
        prop_assert!(run.out.marks.is_empty(), "nothing here can carry a mark");
        prop_assert_eq!(fifo.variable("is_dropping"), Some(0.0), "the last packet ends any series");
    }

    #[test]
    fn nothing_is_dropped_unless_all_heads_of_an_interval_were_above_the_target(
        heads in prop::collection::vec((0u64..30_000, 0u64..20, 0u64..6000), 1..400), late in 0u64..10,
    ) {
        let mut codel = codel(CodelConfig::default());
        let mut now = ms(1000);
        let mut above_since = None;
        for (gap_us, waited_ms, left) in heads {
            // Heads are above for most of the time, else nothing would happen.
            let waited_ms = if waited_ms == late { 1 } else { waited_ms + 5 };
            now += Span::from_micros(gap_us);
            let queue = Backlog { packets: 4, bytes: 1000 + left };
            let verdict = head(&mut codel, Ecn::NotEct, waited_ms, queue, now);
            let is_above = waited_ms >= 5 && left > 1500;
            above_since = if is_above { above_since.or(Some(now)) } else { None };
            if verdict != Verdict::Accept {
                prop_assert_eq!(verdict, DROP);
                prop_assert!(above_since.is_some_and(|since| now - since >= INTERVAL));
            }
            prop_assert!(!codel.state.dropping || codel.state.is_unscheduled || codel.state.drop_next > now);
        }
    }
}
