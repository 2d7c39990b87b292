//! COBALT, `CoDel` and BLUE alternate: `CoDel` for flows that answer, simplified to one deadline that also lets its count fall slowly; and
//! beside it BLUE, whose probability rises while the queue overflows and falls when it is empty, for those that do not. Neither alone
//! serves both.
//!
//! Source: Linux, `net/sched/sch_cake.c` (`cobalt_*`); Høiland-Jørgensen, Täht & Morton, "Piece of CAKE" (LANMAN 2018),
//! section III.B; Palmei et al., "Design and evaluation of COBALT queue discipline" (LANMAN 2019).
//! Deviations:
//! - The root begins as that of a count of 0, which is 1, as the comment in the source says. There it begins as 0, so that the
//!   very first series does not wait for an interval.
//! - A packet that finds no room is dropped; CAKE drops from the head of its longest queue.
//! - That the queue is empty is seen when the link has nothing to send, once; CAKE sees it in each turn of the queue.
//! - A packet that was marked and then dropped by BLUE is dropped only.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Span, Time};

use self::law::in_parts;
pub(crate) use self::law::{CobaltState, Delays, Judgement};
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

mod law;

parameters! {
    /// # COBALT
    ///
    /// CoDel with one deadline, and BLUE beside it: the first tells flows that answer, the second drops those that do not.
    ///
    /// Source: Linux (`sch_cake`).
    #[derive(Copy)]
    pub struct CobaltConfig {
        /// How much may wait. As with CoDel a last resort, but reaching it is what BLUE learns from. Source: assumed.
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
        /// How long packets may wait in a queue that stays; at least the time of one and a half packets of the largest size.
        /// Source: Linux (`sch_cake`: a twentieth of the round trip).
        target: Span = Span::from_millis(5) => bound::DURATION;
        /// How long they wait longer than that before the first is dropped; as much longer as the target has become, and at least
        /// twice as long as it. Source: Linux (`sch_cake`: the round trip).
        interval: Span = Span::from_millis(100) => bound::DURATION;
        /// Whether CoDel's part marks packets of transports with ECN; BLUE's drops always. Source: Linux (`sch_cake`).
        ecn: bool = true;
        /// By how much the probability of BLUE rises when the queue overflows, at most once in a target. Source: Linux (`p_inc`).
        increment: f64 = 0.003_906_25 => bound::SHARE;
        /// By how much it falls when the queue is found empty, at most once in a target. Source: Linux (`p_dec`).
        decrement: f64 = 0.000_244_140_625 => bound::SHARE;
    }
    check |config, report| {
        if config.target > config.interval {
            report.say("target", format!("{} is longer than the interval", config.target), "5 to 10 % of it");
        }
    };
}

impl CobaltConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Cobalt {
        assert!(!self.interval.is_zero(), "an interval takes time");
        Cobalt {
            state: CobaltState::default(),
            sojourn: Span::ZERO,
            delays: delays(self, context),
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            context: *context,
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Cobalt {
    state: CobaltState,
    /// How long the last head has waited.
    sojourn: Span,
    delays: Delays,
    limit: QueueLimit,
    random: Substream,
    context: Context,
    config: CobaltConfig,
}

/// Those of a link.
fn delays(config: &CobaltConfig, context: &Context) -> Delays {
    Delays::new(config.target, config.interval, context.link_rate.span_of(u64::from(context.mtu_bytes)))
}

impl QueueManager for Cobalt {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("sojourn_ms", "How long the last packet at the head had waited."),
                Variable::new("drop_count", "From which the pause before the next notification follows."),
                Variable::new("is_dropping", "1 while it notifies, else 0."),
                Variable::new("marking_probability", "The probability of its BLUE, which drops."),
            ]
        }
    }

    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if self.limit.admits(queue, packet) {
            return Verdict::Accept;
        }
        self.state.on_full(&self.delays, in_parts(self.config.increment), now);
        Verdict::Drop(DropReason::Overflow)
    }

    fn decides_at_head(&self) -> bool {
        true
    }

    #[inline]
    fn at_head(&mut self, packet: &Packet, _queue: Backlog, now: Time) -> Verdict {
        self.sojourn = now.since(packet.arrived);
        let is_over = self.delays.is_over(self.sojourn, 0);
        let can_mark = self.config.ecn && packet.ecn.is_capable();
        match self.state.at_head(is_over, can_mark, &self.delays, &mut self.random, now) {
            Judgement { drop: Some(why), .. } => Verdict::Drop(why),
            Judgement { mark: true, .. } => Verdict::Mark(MarkReason::Early),
            _ => Verdict::Accept,
        }
    }

    /// `cobalt_queue_full`, for a scheduler that took a packet out.
    fn on_removed(&mut self, now: Time) {
        self.state.on_full(&self.delays, in_parts(self.config.increment), now);
    }

    fn on_idle(&mut self, now: Time) {
        self.state.on_empty(&self.delays, in_parts(self.config.decrement), now);
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.context.link_rate = rate;
        self.limit.set_link_rate(rate);
        self.delays = delays(&self.config, &self.context);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "sojourn_ms" => Some(self.sojourn.as_millis_f64()),
            "drop_count" => Some(f64::from(self.state.count)),
            "is_dropping" => Some(f64::from(u8::from(self.state.dropping))),
            "marking_probability" => Some(self.state.probability()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};

    const INTERVAL: Span = Span::from_millis(100);
    const LONG: Backlog = Backlog { packets: 50, bytes: 50_000 };
    const DROP: Verdict = Verdict::Drop(DropReason::Early);

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn cobalt(config: CobaltConfig) -> Cobalt {
        config.build(&Context::for_tests())
    }

    fn head(cobalt: &mut Cobalt, ecn: Ecn, waited_ms: u64, now: Time) -> Verdict {
        let arrived = now.saturating_sub(Span::from_millis(waited_ms));
        cobalt.at_head(&Packet { ecn, arrived, ..Packet::new(0, FlowId(0), 1000) }, LONG, now)
    }

    fn old(cobalt: &mut Cobalt, now: Time) -> Verdict {
        head(cobalt, Ecn::NotEct, 10, now)
    }

    #[test]
    fn drops_follow_interval_over_the_root_of_their_number_within_two_thousandths() {
        let mut cobalt = cobalt(CobaltConfig::default());
        // Something came not long before, else the deadline has passed already.
        assert_eq!(head(&mut cobalt, Ecn::NotEct, 1, ms(999)), Verdict::Accept);
        let mut last = ms(1000);
        assert_eq!(old(&mut cobalt, last), Verdict::Accept);
        for n in 1..=2000u32 {
            let due = cobalt.state.drop_next;
            let pause = INTERVAL.as_nanos() as f64 / libm::sqrt(f64::from(n));
            let ratio = (due - last).as_nanos() as f64 / pause;
            assert!((ratio - 1.0).abs() < 2e-3, "pause {n} is {ratio} of what it should be");
            assert_eq!(old(&mut cobalt, Time::from_nanos(due.as_nanos() - 1)), Verdict::Accept, "drop {n}");
            assert_eq!(old(&mut cobalt, due), DROP, "drop {n}");
            last = due;
        }
    }

    #[test]
    fn the_count_falls_when_nothing_is_dropped_as_it_rose() {
        let mut cobalt = cobalt(CobaltConfig::default());
        let mut now = ms(1000);
        old(&mut cobalt, now);
        for _ in 0..9 {
            now = cobalt.state.drop_next;
            assert_eq!(old(&mut cobalt, now), DROP);
        }
        assert_eq!(cobalt.state.count, 10);
        // Nine pauses later, of 31.6 to 100 ms, it has fallen by as many.
        let later = now + INTERVAL * 2;
        assert_eq!(head(&mut cobalt, Ecn::NotEct, 1, later), Verdict::Accept);
        assert!(cobalt.state.count > 4 && cobalt.state.count < 9, "{}", cobalt.state.count);
        head(&mut cobalt, Ecn::NotEct, 1, later + INTERVAL * 8);
        assert_eq!(cobalt.state.count, 0);
    }

    #[test]
    fn a_flood_meets_a_probability_that_rises_with_overflows_and_falls_when_nothing_waits() {
        let mut cobalt = cobalt(CobaltConfig { limit: Limit::Packets(50), ..CobaltConfig::default() });
        let mut packet = Packet { ecn: Ecn::Ect0, ..Packet::new(0, FlowId(0), 1000) };
        for millis in 1..=640 {
            let verdict = cobalt.on_arrival(&mut packet, LONG, ms(1000 + millis));
            assert_eq!(verdict, Verdict::Drop(DropReason::Overflow));
        }
        // At most once in 5 ms, and then by 1 / 256: every sixth of the milliseconds.
        assert_eq!(cobalt.variable("marking_probability"), Some(107.0 / 256.0));
        let drops = (0..1000)
            .filter(|_| head(&mut cobalt, Ecn::Ect0, 0, ms(1700)) == Verdict::Drop(DropReason::Unresponsive));
        let dropped = drops.count();
        assert!(dropped.abs_diff(418) < 50, "{dropped} of 1000, though they could be marked");
        for step in 1..=107 * 16 {
            assert!(cobalt.state.p_drop > 0, "after {step}");
            cobalt.on_idle(ms(1700 + 6 * step));
        }
        assert_eq!(cobalt.state.p_drop, 0);
    }

    #[test]
    fn on_a_slow_link_the_target_is_one_and_a_half_packets_and_four_may_wait() {
        let context = Context { link_rate: BitRate::from_bps(1_000_000), ..Context::for_tests() };
        let mut cobalt = CobaltConfig::default().build(&context);
        assert_eq!(cobalt.delays.target, Span::from_millis(18));
        assert_eq!(cobalt.delays.interval, Span::from_millis(113));
        for millis in (1000..2000).step_by(10) {
            assert_eq!(head(&mut cobalt, Ecn::NotEct, 48, ms(millis)), Verdict::Accept);
        }
        cobalt.set_link_rate(BitRate::from_mbps(10), ms(2000));
        assert_eq!(cobalt.delays.target, Span::from_millis(5));
    }

    #[test]
    fn a_flood_is_kept_near_the_rate_of_the_link_by_drops_at_the_head() {
        // Twice the rate of the link, for 20 s: in the end few packets find no room.
        let mut fifo =
            Fifo::new(cobalt(CobaltConfig { limit: Limit::Packets(100), ..CobaltConfig::default() }));
        let offered: Vec<_> = (0..50_000).map(|_| (400_000, 0, 1000)).collect();
        let run = drive(&mut fifo, &offered, 800, |waiting| assert!(waiting.packets <= 100));
        let late = |why: DropReason| {
            run.out.drops.iter().filter(|(packet, of)| *of == why && packet.slot > 40_000).count()
        };
        assert!(late(DropReason::Overflow) < 500, "{} of 10000", late(DropReason::Overflow));
        assert!(late(DropReason::Unresponsive) > 1000, "{}", late(DropReason::Unresponsive));
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limit_and_lose_no_packet(
            arrivals in arrivals(3, 300), limit in 1u32..40, target in 1u64..100, interval in 100u64..1000,
            increment in 0.001f64..1.0,
        ) {
            let config = CobaltConfig {
                limit: Limit::Packets(limit),
                target: Span::from_micros(target),
                interval: Span::from_micros(interval),
                increment,
                ..CobaltConfig::default()
            };
            let context = Context { link_rate: BitRate::from_mbps(1000), ..Context::for_tests() };
            let run = drive(&mut Fifo::new(config.build(&context)), &arrivals, 8, |b| assert!(b.packets <= limit));
            let overflows = run.out.drops.iter().filter(|(_, why)| *why == DropReason::Overflow).count();
            let by_blue = run.out.drops.iter().filter(|(_, why)| *why == DropReason::Unresponsive).count();
            prop_assert!(by_blue == 0 || overflows > 0, "its probability comes from overflows");
        }
    }

    #[test]
    fn the_last_packet_may_be_dropped_and_the_queue_is_empty_then() {
        let mut fifo = Fifo::new(cobalt(CobaltConfig {
            increment: 1.0,
            limit: Limit::Packets(1),
            ..CobaltConfig::default()
        }));
        let mut out = Counted::default();
        for slot in 0..2 {
            fifo.enqueue(Packet::new(slot, FlowId(0), 1000), ms(1000), &mut out);
        }
        assert_eq!(fifo.dequeue(ms(1000), &mut out), None);
        assert_eq!(out.drops.len(), 2);
        assert!(fifo.backlog().is_empty());
    }
}
