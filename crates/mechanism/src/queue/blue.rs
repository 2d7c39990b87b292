//! BLUE: keeps one marking probability that rises while packets are lost and falls while the link is idle, instead of
//! reading congestion from the length of a queue. So it holds a steady rate of notification with a buffer that is far
//! smaller than what the queues of RED need.
//!
//! Source: Feng, "Improving Internet congestion control and queue management algorithms", 1999, section 4.3.1 and
//! Fig. 4.3.
//! Deviations:
//! - The drawing of Fig. 4.3 is lost; the law is that of the text ("if the queue is continually dropping packets due to
//!   buffer overflow", "if the queue becomes empty or if the link is idle").
//! - `freeze_time` is "the minimum time interval between two successive updates", so an update at its very end counts;
//!   with the strict comparison of the published code a link that is looked at each freeze time would fall at half speed.
//! - Idleness is not only the moment at which the queue becomes empty: `p_m` goes on falling once per freeze time for as
//!   long as nothing is sent. What decides is the link, not the waiting room alone: a packet in transmission is traffic.
//! - At `p_m = 0` an idle link has nothing to update; it does not hold back a rise that comes after it.
//! - A loss at `p_m = 1` is an update, though the value stays: the fall begins a freeze time after the last loss.
//! - A packet that a scheduler takes out of this queue to make room for others is a loss of this queue too.
//! - [`BlueConfig::priority`] is what the thesis's section 5.9 asks for ("BLUE-based mechanisms in place of ERED") without a
//!   rule. Settled: as in ERED, a green packet is not notified; what it loses to a full buffer raises `p_m` as any loss does.
//! - The random freeze time that the text asks for is uniform around its mean ([`BlueConfig::freeze_spread`]), drawn at
//!   each update; off as in the thesis's experiments.

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::ered::is_marked;
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

words! {
    /// Which changes of the probability a freeze time holds back.
    pub enum FreezeTimers {
        /// Any change after any other (the text).
        Shared = "shared",
        /// Rises after rises, and falls after falls (Feng's code for ns, as ported by NITK).
        Separate = "separate",
    }
}

/// An idle link changes once per freeze time: this bounds the work.
const FREEZE_TIME: Bound<Span> = Bound::between(Span::from_micros(1), bound::DELAY_MAX)
    .saying("", " is no freeze time")
    .helping("at least 1us: an idle link changes once in each");

parameters! {
    /// # BLUE
    ///
    /// Keeps one probability of notification: it rises while packets are lost to overflow, and falls while the link is idle.
    ///
    /// Source: thesis of Feng, section 4.3.1.
    #[derive(Copy)]
    pub struct BlueConfig {
        /// How much may wait. Source: thesis of Feng, section 4.3.2 (100 kB of 1 kB packets, the smallest).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// By how much the probability rises when packets are lost. Source: thesis of Feng, section 4.3.2 (`delta`).
        delta_up: f64 = 0.01 => bound::PROBABILITY;
        /// By how much it falls while the link is idle. Source: thesis of Feng, section 4.3.2 (`delta`); his code for ns has
        /// a tenth of `delta_up`.
        delta_down: f64 = 0.01 => bound::PROBABILITY;
        /// The least time between two changes: long enough for a change to take effect. An idle link changes once in each.
        /// Source: thesis of Feng, section 4.3.2.
        freeze_time: Span = Span::from_millis(10) => FREEZE_TIME;
        /// How much the freeze time varies at random, to both sides, as a part of itself: from 0 to 1. Source: thesis of Feng,
        /// section 4.3.1 (fixed in its experiments; should be random against synchronization).
        freeze_spread: f64 = 0.0 => Bound::between(0.0, 1.0).saying("", " is no part of a freeze time");
        /// What a freeze time holds back. Source: thesis of Feng, section 4.3.1; his code for ns has separate timers.
        timers: FreezeTimers = FreezeTimers::Shared;
        /// A queue above this raises the probability as a loss does. Default: none. Source: thesis of Feng, section 4.3.1
        /// (only overflow); the variant is the published BLUE's.
        threshold: Option<Limit> = None => bound::level("a threshold of nothing is exceeded by every packet");
        /// Whether packets of transports with ECN are marked instead of dropped. Source: thesis of Feng, section 4.3.2.
        ecn: bool = true;
        /// Whether marked (green) packets are lost only where the queue is full, as with `ered`. Source: thesis of Feng,
        /// section 5.9 (proposed; off in its experiments).
        priority: bool = false;
    }
}

impl BlueConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Blue {
        for delta in [self.delta_up, self.delta_down] {
            assert!((0.0..=1.0).contains(&delta), "a step of a probability is one");
        }
        assert!((0.0..=1.0).contains(&self.freeze_spread), "a freeze time is not negative");
        assert!(!self.freeze_time.is_zero(), "without a freeze time an idle link never ends falling");
        Blue {
            p_m: 0.0,
            // Nothing was updated yet: the first loss counts.
            rise_from: Time::ZERO,
            fall_from: Time::ZERO,
            idle: true,
            limit: QueueLimit::new(self.limit, context.link_rate),
            threshold: self.threshold.map(|limit| QueueLimit::new(limit, context.link_rate)),
            random: Substream::new(context.seed),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Blue {
    p_m: f64,
    /// From when on `p_m` may rise.
    rise_from: Time,
    /// From when on `p_m` may fall. While the link is idle: when it does.
    fall_from: Time,
    /// Nothing waits and nothing is sent.
    idle: bool,
    limit: QueueLimit,
    threshold: Option<QueueLimit>,
    random: Substream,
    config: BlueConfig,
}

impl QueueManager for Blue {
    fn variables() -> &'static [Variable] {
        const {
            &[Variable::new(
                "marking_probability",
                "The probability with which packets are marked or dropped.",
            )]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if !self.limit.admits(queue, packet) {
            self.on_loss(now);
            return Verdict::Drop(DropReason::Overflow);
        }
        if self.threshold.is_some_and(|threshold| threshold.exceeded_by(queue)) {
            self.on_loss(now);
        }
        if self.config.priority && is_marked(packet) {
            self.idle = false;
            return Verdict::Accept;
        }
        let is_notified = self.random.chance(self.p_m);
        let can_mark = self.config.ecn && packet.ecn.is_capable();
        if is_notified && !can_mark {
            return Verdict::Drop(DropReason::Early);
        }
        self.idle = false;
        if is_notified { Verdict::Mark(MarkReason::Early) } else { Verdict::Accept }
    }

    fn on_removed(&mut self, now: Time) {
        self.on_loss(now);
    }

    fn on_idle(&mut self, now: Time) {
        if self.idle {
            return;
        }
        self.idle = true;
        if now >= self.fall_from {
            self.fall(now);
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
        if let Some(threshold) = &mut self.threshold {
            threshold.set_link_rate(rate);
        }
    }

    #[inline]
    fn timer_at(&self) -> Option<Time> {
        if self.idle && self.p_m > 0.0 && self.config.delta_down > 0.0 { Some(self.fall_from) } else { None }
    }

    fn on_timer(&mut self, now: Time) {
        self.fall(now);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "marking_probability" { Some(self.p_m) } else { None }
    }
}

impl Blue {
    fn on_loss(&mut self, now: Time) {
        if now < self.rise_from {
            return;
        }
        self.p_m = raised(self.p_m, self.config.delta_up);
        self.rise_from = now + self.freeze();
        if self.config.timers == FreezeTimers::Shared {
            self.fall_from = self.rise_from;
        } else if self.idle {
            // What falls while the link is idle does so from now on, and not from when there was nothing to fall.
            self.fall_from = self.fall_from.max(now);
        }
    }

    /// The link is idle, and the freeze time is over.
    fn fall(&mut self, now: Time) {
        if self.p_m <= 0.0 {
            return;
        }
        self.p_m = lowered(self.p_m, self.config.delta_down);
        self.fall_from = now + self.freeze();
        if self.config.timers == FreezeTimers::Shared {
            self.rise_from = self.fall_from;
        }
    }

    /// The freeze time that begins with an update; above zero, so that time moves on.
    fn freeze(&mut self) -> Span {
        let mean = self.config.freeze_time;
        let spread = self.config.freeze_spread;
        if spread == 0.0 {
            return mean;
        }
        let nanos = mean.as_nanos() as f64 * spread_factor(spread, self.random.uniform());
        Span::from_nanos((nanos as u64).max(1))
    }
}

/// `p_m <- min(1, p_m + delta)` (section 4.3.1).
fn raised(p_m: f64, delta: f64) -> f64 {
    (p_m + delta).min(1.0)
}

/// `p_m <- max(0, p_m - delta)` (section 4.3.1).
fn lowered(p_m: f64, delta: f64) -> f64 {
    (p_m - delta).max(0.0)
}

/// Uniform on `[1 - spread, 1 + spread]`, for a uniform `u` on [0, 1).
fn spread_factor(spread: f64, u: f64) -> f64 {
    1.0 - spread + 2.0 * spread * u
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};

    const FULL: Backlog = Backlog { packets: 100, bytes: 100_000 };
    const SHORT: Backlog = Backlog { packets: 10, bytes: 10_000 };

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn blue(config: BlueConfig) -> Blue {
        config.build(&Context::for_tests())
    }

    fn arrive(blue: &mut Blue, ecn: Ecn, queue: Backlog, now: Time) -> Verdict {
        blue.on_arrival(&mut Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }, queue, now)
    }

    /// One at which `p_m` is `percent` hundredths and every update is over at the returned time.
    fn raised_to(percent: u64, config: BlueConfig) -> (Blue, Time) {
        let mut blue = blue(config);
        for step in 0..percent {
            arrive(&mut blue, Ecn::Ect0, FULL, ms(10 * step));
        }
        // A packet that joins makes the link busy, marked or not.
        arrive(&mut blue, Ecn::Ect0, SHORT, ms(10 * percent));
        assert!((blue.p_m - percent as f64 / 100.0).abs() < 1e-12);
        (blue, ms(10 * percent))
    }

    /// What the timers due by `now` do, each at its instant.
    fn settle(blue: &mut Blue, now: Time) -> Vec<(Time, f64)> {
        let mut seen = Vec::new();
        while let Some(at) = blue.timer_at().filter(|&at| at <= now) {
            blue.on_timer(at);
            seen.push((at, blue.p_m));
        }
        seen
    }

    #[test]
    fn marking_probability_rises_while_the_queue_overflows_and_once_per_freeze_time() {
        let mut blue = blue(BlueConfig::default());
        for micros in (0..100_000u64).step_by(500) {
            let now = Time::ZERO + Span::from_micros(micros);
            assert_eq!(arrive(&mut blue, Ecn::Ect0, FULL, now), Verdict::Drop(DropReason::Overflow));
        }
        assert!((blue.p_m - 0.10).abs() < 1e-12, "ten freeze times passed: {}", blue.p_m);
    }

    #[test]
    fn marking_probability_falls_by_one_step_per_freeze_time_while_the_link_is_idle() {
        let (mut blue, now) = raised_to(5, BlueConfig::default());
        blue.on_idle(now);
        assert!((blue.p_m - 0.04).abs() < 1e-12, "the first step is due as the link becomes idle");
        let seen = settle(&mut blue, now + Span::from_millis(100));
        let instants: Vec<Time> = seen.iter().map(|step| step.0).collect();
        assert_eq!(instants[..4], [10, 20, 30, 40].map(|later| now + Span::from_millis(later)));
        assert!(blue.p_m == 0.0 && blue.timer_at().is_none(), "at zero nothing is left to do");
    }

    #[test]
    fn a_fall_waits_until_the_freeze_time_of_the_last_rise_is_over_unless_timers_are_separate() {
        for (timers, falls_at) in [(FreezeTimers::Shared, 30), (FreezeTimers::Separate, 23)] {
            let (mut blue, _) = raised_to(2, BlueConfig { timers, ..BlueConfig::default() });
            arrive(&mut blue, Ecn::Ect0, FULL, ms(20));
            blue.on_idle(ms(23));
            let before = if timers == FreezeTimers::Shared { 0.03 } else { 0.02 };
            assert!((blue.p_m - before).abs() < 1e-12, "{timers:?}");
            settle(&mut blue, ms(30));
            assert!((blue.p_m - 0.02).abs() < 1e-12, "{timers:?} falls at {falls_at} ms");
        }
    }

    #[test]
    fn the_link_stops_falling_when_a_packet_joins_and_not_when_it_is_refused() {
        let sure = BlueConfig { delta_up: 1.0, ..BlueConfig::default() };
        let mut blue = blue(sure);
        arrive(&mut blue, Ecn::Ect0, FULL, ms(0));
        arrive(&mut blue, Ecn::Ect0, SHORT, ms(1));
        blue.on_idle(ms(2));
        assert_eq!(arrive(&mut blue, Ecn::NotEct, Backlog::EMPTY, ms(3)), Verdict::Drop(DropReason::Early));
        assert_eq!(blue.timer_at(), Some(ms(10)));
        assert_eq!(arrive(&mut blue, Ecn::Ect0, Backlog::EMPTY, ms(4)), Verdict::Mark(MarkReason::Early));
        assert_eq!(blue.timer_at(), None);
    }

    #[test]
    fn with_priority_a_marked_packet_is_lost_to_a_full_buffer_only() {
        for priority in [false, true] {
            let (mut blue, now) = raised_to(100, BlueConfig { priority, ..BlueConfig::default() });
            let mut promised =
                Packet { dscp: tidegate_packet::Dscp::AF11, ..Packet::new(0, FlowId(0), 1000) };
            let expected = if priority { Verdict::Accept } else { Verdict::Drop(DropReason::Early) };
            assert_eq!(blue.on_arrival(&mut promised, SHORT, now), expected);
            assert_eq!(blue.on_arrival(&mut promised, FULL, now), Verdict::Drop(DropReason::Overflow));
            assert_eq!(arrive(&mut blue, Ecn::NotEct, SHORT, now), Verdict::Drop(DropReason::Early));
        }
    }

    #[test]
    fn a_queue_above_the_threshold_raises_the_probability_and_is_not_refused() {
        let config =
            BlueConfig { threshold: Some(Limit::Packets(9)), delta_up: 1.0, ..BlueConfig::default() };
        let mut blue = blue(config);
        let below = Backlog { packets: 9, bytes: 9000 };
        assert_eq!(arrive(&mut blue, Ecn::Ect0, below, ms(0)), Verdict::Accept);
        assert_eq!(arrive(&mut blue, Ecn::Ect0, SHORT, ms(0)), Verdict::Mark(MarkReason::Early));
    }

    #[test]
    fn unequal_steps_are_taken_as_they_are() {
        let config = BlueConfig { delta_up: 0.02, delta_down: 0.001, ..BlueConfig::default() };
        let mut blue = blue(config);
        arrive(&mut blue, Ecn::Ect0, FULL, ms(0));
        blue.idle = false;
        blue.on_idle(ms(10));
        assert!((blue.p_m - 0.019).abs() < 1e-12);
    }

    #[test]
    fn a_random_freeze_time_keeps_its_mean_and_its_bounds() {
        let mut blue = blue(BlueConfig { freeze_spread: 0.5, ..BlueConfig::default() });
        let drawn: Vec<f64> = (0..20_000).map(|_| blue.freeze().as_secs_f64() * 1e3).collect();
        assert!(drawn.iter().all(|ms| (5.0..15.0).contains(ms)));
        assert!((drawn.iter().sum::<f64>() / 20_000.0 - 10.0).abs() < 0.1);
    }

    #[test]
    fn notification_is_independent_of_the_queue_and_as_likely_as_said() {
        let (mut blue, now) = raised_to(30, BlueConfig::default());
        let marks = (0..20_000)
            .filter(|n| {
                let queue = Backlog { packets: n % 100, bytes: 1000 * u64::from(n % 100) };
                arrive(&mut blue, Ecn::Ect0, queue, now) == Verdict::Mark(MarkReason::Early)
            })
            .count();
        assert!((marks as f64 / 20_000.0 - 0.30).abs() < 0.016, "five standard deviations: {marks}");
    }

    #[test]
    fn what_a_scheduler_takes_out_counts_as_a_loss() {
        let mut fifo = Fifo::new(blue(BlueConfig::default()));
        let mut out = Counted::default();
        fifo.enqueue(Packet::new(0, FlowId(0), 1000), ms(1), &mut out);
        fifo.drop_head(ms(2));
        assert_eq!(fifo.variable("marking_probability"), Some(0.01));
    }

    #[test]
    fn a_rise_on_an_idle_link_falls_from_then_on() {
        let config = BlueConfig {
            limit: Limit::Bytes(tidegate_units::Bytes::new(1000)),
            delta_up: 0.5,
            delta_down: 0.01,
            timers: FreezeTimers::Separate,
            ..BlueConfig::default()
        };
        let mut blue = blue(config);
        let now = Time::ZERO + Span::from_secs(10);
        let refused = blue.on_arrival(&mut Packet::new(0, FlowId(0), 1500), Backlog::EMPTY, now);
        assert_eq!(refused, Verdict::Drop(DropReason::Overflow));
        assert_eq!((blue.p_m, blue.timer_at()), (0.5, Some(now)));
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limit_and_a_probability(
            arrivals in arrivals(3, 300), limit in 1u32..20, up in 0.0..1.0f64, down in 0.0..1.0f64,
            spread in 0.0..=1.0f64, separate: bool, threshold in prop::option::of(1u32..10),
        ) {
            let config = BlueConfig {
                delta_up: up,
                delta_down: down,
                freeze_spread: spread,
                freeze_time: Span::from_micros(50),
                timers: if separate { FreezeTimers::Separate } else { FreezeTimers::Shared },
                threshold: threshold.map(Limit::Packets),
                limit: Limit::Packets(limit),
                ecn: true,
                priority: false,
            };
            let mut fifo = Fifo::new(blue(config));
            drive(&mut fifo, &arrivals, 8, |waiting| assert!(waiting.packets <= limit));
            let at_end = fifo.variable("marking_probability");
            prop_assert!(at_end.is_some_and(|p_m| (0.0..=1.0).contains(&p_m)));
            if let Some(at) = fifo.timer_at() {
                fifo.on_timer(at, &mut Counted::default());
                let later = fifo.variable("marking_probability");
                prop_assert!(later.is_some_and(|p_m| (0.0..=1.0).contains(&p_m) && Some(p_m) <= at_end));
            }
        }
    }
}
