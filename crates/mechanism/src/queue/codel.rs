//! `CoDel`, controlled delay: a queue that stays is told from a burst that passes by the least time that packets wait, not by
//! how many there are. If every packet of an interval has waited longer than the target, packets are dropped at the head, each
//! time after a shorter pause, until one has waited less. So one setting serves any rate of the link.
//!
//! Source: RFC 8289, sections 4 and 5; where it says so, Linux (`include/net/codel_impl.h` of 2015 and later), and the
//! authors' code for ns.
//! Deviations:
//! - The pseudocode drops only. With [`CodelConfig::ecn`] a mark takes the place of a drop as in Linux: a marked packet leaves
//!   at once, so that no more than one is marked each time, and the next notification is scheduled from the one before,
//!   whether or not the queue is still above the target.
//! - `MAXPACKET` is the MTU of the link ([`Context::mtu_bytes`]), which section 5.3 asks for, and not the 512 bytes of its
//!   listing.
//! - A head at the very instant `first_above_time` may be dropped (section 5.6: `>=`); in Linux only a later one.
//! - `interval / sqrt(count)` is calculated in double precision and rounded down to nanoseconds, with a correctly rounded root,
//!   the same on every platform. Linux holds `1 / sqrt(count)` in 16 bits, makes one step of Newton's method for each drop,
//!   and counts in units of 1024 ns. A pause is one nanosecond at least.
//! - `count` stays at its largest value; in the sources it wraps.
//! - The packet after the first drop of a series is sent in any case, as in the pseudocode; but if it is below the target, the
//!   series ends with it. The pseudocode ends it with the packet after that. No decision depends on it.
//! - A queue that a scheduler empties has ended its series, as one that is found empty (section 5.6).
//! - Drops and marks are reported as `early`, though nothing here is random: there is no other name for a notification that
//!   no full buffer forced.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::{Context, Variable};

words! {
    /// Where the count of drops begins if dropping begins again soon after it ended.
    pub enum Reentry {
        /// At the number of drops of the series before, if it was more than one and ended less than 16 intervals ago (RFC 8289,
        /// section 5.5, and Linux).
        LastDrops = "last-drops",
        /// At two less than where the count ended, if that was above two, less than 8 intervals ago (the authors' code for ns, and
        /// the drafts before the RFC).
        TwoLess = "two-less",
    }
}

parameters! {
    /// # Controlled delay
    ///
    /// Drops (or marks) packets at the head while every packet of an interval has waited longer than a target, ever more
    /// often until one has waited less.
    ///
    /// Source: RFC 8289.
    #[derive(Copy)]
    pub struct CodelConfig {
        /// How much may wait; a last resort, for the delay is held by the target. The 100 packets of other queues would be sent
        /// within the target on links above 240 Mbit/s, where CoDel then could not act. Source: Linux (`sch_codel`).
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
        /// How long packets may wait in a queue that stays; 5 to 10 % of `interval`. Source: RFC 8289, section 4.4.
        target: Span = Span::from_millis(5) => bound::DURATION;
        /// How long all packets wait longer than that before the first is dropped; about the largest round-trip time of the
        /// flows. Source: RFC 8289, section 4.3.
        interval: Span = Span::from_millis(100) => bound::DURATION;
        /// Whether packets of transports with ECN are marked instead of dropped. On, as with the other queues here, for it
        /// changes nothing for transports without ECN. Source: Linux, where `codel` has it off and `fq_codel` on.
        ecn: bool = true;
        /// Where the count of drops begins if dropping begins again soon after it ended. Source: RFC 8289, section 5.5.
        reentry: Reentry = Reentry::LastDrops;
        /// Above which wait every packet of a transport with ECN is marked that would leave without a mark, whatever `target` and
        /// `ecn` say: a step of delay, for DCTCP. Without it there is none. Source: Linux (`ce_threshold`).
        ce_threshold: Option<Span> = None => bound::DURATION;
    }
    check |config, report| {
        if config.target > config.interval {
            let help = "5 to 10 % of it: RFC 8289, section 4.4";
            report.say("target", format!("{} is longer than the interval", config.target), help);
        }
        if let Limit::Time(longest) = config.limit && longest <= config.target {
            let help = "with such a limit CoDel never acts; let more wait";
            report.say("limit", format!("{longest} is not longer than the target"), help);
        }
    };
}

impl CodelConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Codel {
        assert!(!self.interval.is_zero(), "an interval takes time");
        Codel {
            first_above_time: None,
            drop_next: Time::ZERO,
            count: 0,
            lastcount: 0,
            dropping: false,
            is_unscheduled: false,
            sojourn: Span::ZERO,
            mtu_bytes: u64::from(context.mtu_bytes),
            limit: QueueLimit::new(self.limit, context.link_rate),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Codel {
    /// From when on a head above the target may be dropped; none while heads are below it.
    first_above_time: Option<Time>,
    /// When the next packet is dropped, if heads stay above the target.
    drop_next: Time,
    /// How many drops the pause before the next follows from.
    count: u32,
    /// What `count` was when this series of drops began, or the last.
    lastcount: u32,
    dropping: bool,
    /// A packet was just dropped; when the next one is depends on the new head.
    is_unscheduled: bool,
    /// How long the last head has waited.
    sojourn: Span,
    mtu_bytes: u64,
    limit: QueueLimit,
    config: CodelConfig,
}

impl QueueManager for Codel {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("sojourn_ms", "How long the last packet at the head had waited."),
                Variable::new("drop_count", "Notifications since it began to notify."),
                Variable::new("is_dropping", "1 while it notifies, else 0."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if self.limit.admits(queue, packet) { Verdict::Accept } else { Verdict::Drop(DropReason::Overflow) }
    }

    fn decides_at_head(&self) -> bool {
        true
    }

    /// The law, and what Linux does to packets that it lets pass (`codel_dequeue`, at its end).
    #[inline]
    fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        let verdict = self.judge(packet, queue, now);
        let is_late = self.config.ce_threshold.is_some_and(|threshold| self.sojourn > threshold);
        if verdict == Verdict::Accept && is_late && packet.ecn.is_capable() {
            return Verdict::Mark(MarkReason::Early);
        }
        verdict
    }

    #[inline]
    fn on_departure(&mut self, _packet: &Packet, queue: Backlog, _now: Time) {
        if queue.is_empty() {
            self.first_above_time = None;
            self.leave();
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "sojourn_ms" => Some(self.sojourn.as_millis_f64()),
            "drop_count" => Some(f64::from(self.count)),
            "is_dropping" => Some(f64::from(u8::from(self.dropping))),
            _ => None,
        }
    }
}

impl Codel {
    /// Section 5.5. Its loop over heads is the caller's, who asks again after each drop, at the same instant.
    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        self.sojourn = now.since(packet.arrived);
        let ok_to_drop = self.ok_to_drop(queue.bytes.saturating_sub(u64::from(packet.wire_bytes)), now);
        if !ok_to_drop {
            self.leave();
            return Verdict::Accept;
        }
        if !self.dropping {
            self.enter(now);
            return self.notify(packet);
        }
        if self.is_unscheduled {
            self.schedule(self.drop_next);
        }
        if now < self.drop_next {
            return Verdict::Accept;
        }
        self.count = self.count.saturating_add(1);
        let verdict = self.notify(packet);
        if let Verdict::Mark(_) = verdict {
            self.schedule(self.drop_next);
        } else {
            self.is_unscheduled = true;
        }
        verdict
    }

    /// Whether heads have been above the target for an interval (section 5.6, `dodequeue`); `left_bytes` wait behind this one.
    fn ok_to_drop(&mut self, left_bytes: u64, now: Time) -> bool {
        if is_below(self.sojourn, self.config.target, left_bytes, self.mtu_bytes) {
            self.first_above_time = None;
            return false;
        }
        if let Some(from) = self.first_above_time {
            return now >= from;
        }
        self.first_above_time = Some(now.saturating_add(self.config.interval));
        false
    }

    /// A series of drops begins (section 5.5).
    fn enter(&mut self, now: Time) {
        let since = now.since(self.drop_next);
        self.count = match self.config.reentry {
            Reentry::LastDrops => last_drops(self.count, self.lastcount, since, self.config.interval),
            Reentry::TwoLess => two_less(self.count, since, self.config.interval),
        };
        self.lastcount = self.count;
        self.dropping = true;
        self.schedule(now);
    }

    fn leave(&mut self) {
        self.dropping = false;
        self.is_unscheduled = false;
    }

    fn schedule(&mut self, from: Time) {
        self.drop_next = from.saturating_add(pause(self.config.interval, self.count));
        self.is_unscheduled = false;
    }

    fn notify(&self, packet: &Packet) -> Verdict {
        if self.config.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

/// Whether a head is no sign of a queue that stays: it waited less than the target, or no more than one packet of the largest
/// size is behind it, without which the link would idle (sections 4.2 and 5.6).
fn is_below(sojourn: Span, target: Span, left_bytes: u64, mtu_bytes: u64) -> bool {
    sojourn < target || left_bytes <= mtu_bytes
}

/// `INTERVAL / sqrt(count)`, the pause before the next drop (section 5.6, `control_law`).
fn pause(interval: Span, count: u32) -> Span {
    Span::from_nanos(((interval.as_nanos() as f64 / libm::sqrt(f64::from(count))) as u64).max(1))
}

/// `count - lastcount` if the last drop was due less than 16 intervals ago (section 5.5).
fn last_drops(count: u32, lastcount: u32, since_drop_next: Span, interval: Span) -> u32 {
    let delta = count.saturating_sub(lastcount);
    if delta > 1 && since_drop_next < interval.saturating_mul(16) { delta } else { 1 }
}

/// `count - 2` if the last drop was due less than 8 intervals ago (the authors' code for ns).
fn two_less(count: u32, since_drop_next: Span, interval: Span) -> u32 {
    if count > 2 && since_drop_next < interval.saturating_mul(8) { count - 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_parameters::{Parameters as _, Report};
    use tidegate_units::Bytes;

    const INTERVAL: Span = Span::from_millis(100);
    const LONG: Backlog = Backlog { packets: 50, bytes: 50_000 };
    const DROP: Verdict = Verdict::Drop(DropReason::Early);
    const MARK: Verdict = Verdict::Mark(MarkReason::Early);

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
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
            at = codel.drop_next;
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
            assert_eq!(
                head(&mut codel, Ecn::NotEct, 5000, queue, ms(6100)),
                expected,
                "{left} bytes behind it"
            );
        }
    }

    #[test]
    fn a_mark_takes_the_place_of_a_drop_where_the_transport_and_the_configuration_allow_it() {
        for (ecn, on, expected) in
            [(Ecn::Ect0, true, MARK), (Ecn::Ect0, false, DROP), (Ecn::NotEct, true, DROP)]
        {
            let mut codel = codel(CodelConfig { ecn: on, ..CodelConfig::default() });
            assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1000)), Verdict::Accept);
            assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1100)), expected);
            assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1199)), Verdict::Accept);
            assert_eq!(head(&mut codel, ecn, 10, LONG, ms(1200)), expected);
            assert_eq!(codel.variable("drop_count"), Some(2.0));
        }
    }

    #[test]
    fn above_the_threshold_every_packet_that_may_be_is_marked_and_the_law_goes_on() {
        let config =
            CodelConfig { ecn: false, ce_threshold: Some(Span::from_millis(2)), ..CodelConfig::default() };
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
        let sent: Vec<Ecn> = [10, 110, 1110, 1110, 1110]
            .map(|at| fifo.dequeue(ms(at), &mut out).expect("many wait").ecn)
            .to_vec();
        assert_eq!(sent, [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ce]);
        assert!(out.drops.is_empty() && out.marks.len() == 4);
    }

    #[test]
    fn a_new_series_soon_after_the_last_begins_where_its_rate_was_right() {
        let after = |reentry, pause_in_intervals: u64| {
            let mut codel = codel(CodelConfig { reentry, ..CodelConfig::default() });
            // A series that begins at 1 and ends at 9, then one that follows soon, and ends six later.
            let first_end = dropped(&mut codel, 9, ms(1000));
            fresh(&mut codel, first_end);
            let soon = codel.drop_next;
            let second_end = dropped(&mut codel, 7, soon);
            fresh(&mut codel, second_end);
            let (first, due) = (codel.lastcount, codel.drop_next);
            // The series itself begins an interval after the queue is above.
            dropped(&mut codel, 1, due + INTERVAL * (pause_in_intervals - 1));
            (first, codel.count)
        };
        assert_eq!(after(Reentry::LastDrops, 15), (8, 6), "the drops of the series, not its count");
        assert_eq!(after(Reentry::LastDrops, 16), (8, 1));
        assert_eq!(after(Reentry::TwoLess, 7), (7, 11));
        assert_eq!(after(Reentry::TwoLess, 8), (7, 1));
        assert_eq!((last_drops(5, 4, Span::ZERO, INTERVAL), two_less(2, Span::ZERO, INTERVAL)), (1, 1));
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
        assert_eq!(said(CodelConfig { target: Span::from_millis(101), ..default }), ["target"]);
        assert_eq!(said(CodelConfig { limit: Limit::Time(Span::from_millis(5)), ..default }), ["limit"]);
        assert!(said(CodelConfig { limit: Limit::Bytes(Bytes::new(1)), ..default }).is_empty());
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limit_and_the_count(
            arrivals in arrivals(3, 300), limit in 1u32..40, target in 1u64..100, interval in 1u64..1000,
            two_less: bool,
        ) {
            let config = CodelConfig {
                limit: Limit::Packets(limit),
                target: Span::from_micros(target),
                interval: Span::from_micros(interval),
                ecn: true,
                reentry: if two_less { Reentry::TwoLess } else { Reentry::LastDrops },
                ce_threshold: None,
            };
            let mut fifo = Fifo::new(codel(config));
            let run = drive(&mut fifo, &arrivals, 8, |waiting| assert!(waiting.packets <= limit));
            let early = run.out.drops.iter().filter(|(_, why)| *why == DropReason::Early).count();
            let count = fifo.manager().count as usize;
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
                prop_assert!(!codel.dropping || codel.is_unscheduled || codel.drop_next > now);
            }
        }
    }
}
