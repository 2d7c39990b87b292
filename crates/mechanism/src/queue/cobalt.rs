//! COBALT, `CoDel` and BLUE alternate: `CoDel` for flows that answer, simplified to one deadline that also lets its count fall slowly; and
//! beside it BLUE, whose probability rises while the queue overflows and falls when it is empty, for those that do not. Neither alone
//! serves both.
//!
//! Source: Linux, `net/sched/sch_cake.c` (`cobalt_*`); Høiland-Jørgensen, Täht & Morton, "Piece of CAKE" (LANMAN 2018),
//! section III.B; Palmei et al., "Design and evaluation of COBALT queue discipline" (LANMAN 2019).
//! Deviations:
//! - The root begins as that of a count of 0, which is 1, as the comment in the source says. There it begins as 0, so that the
//!   very first series does not wait for an interval.
//! - It manages one queue: `bulk_flows` is 1.
//! - A packet that finds no room is dropped; CAKE drops from the head of its longest queue.
//! - That the queue is empty is seen when the link has nothing to send, once; CAKE sees it in each turn of the queue.
//! - A packet that was marked and then dropped by BLUE is dropped only.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

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
            count: 0,
            inverse_root: ONE,
            drop_next: Time::ZERO,
            dropping: false,
            blue_timer: Time::ZERO,
            p_drop: 0,
            sojourn: Span::ZERO,
            delays: Delays::new(self, context),
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
    /// How many drops the pause before the next follows from; falls again when nothing is dropped.
    count: u32,
    /// `1 / sqrt(count)`, with 32 bits behind the point.
    inverse_root: u32,
    /// When the next packet is dropped, or the count falls.
    drop_next: Time,
    dropping: bool,
    /// When the probability changed last.
    blue_timer: Time,
    /// In parts of 2^32.
    p_drop: u32,
    /// How long the last head has waited.
    sojourn: Span,
    delays: Delays,
    limit: QueueLimit,
    random: Substream,
    context: Context,
    config: CobaltConfig,
}

/// What follows from the rate of the link (`cake_set_rate`).
#[derive(Clone, Copy, Debug)]
struct Delays {
    target: Span,
    interval: Span,
    /// What a packet of the largest size takes.
    mtu: Span,
}

impl Delays {
    fn new(config: &CobaltConfig, context: &Context) -> Self {
        let mtu = context.link_rate.span_of(u64::from(context.mtu_bytes));
        let target = config.target.max(Span::from_nanos(mtu.as_nanos().saturating_mul(3) / 2));
        let interval = (config.interval + target.saturating_sub(config.target)).max(target.saturating_mul(2));
        Self { target, interval, mtu }
    }
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
        self.on_full(now);
        Verdict::Drop(DropReason::Overflow)
    }

    fn decides_at_head(&self) -> bool {
        true
    }

    #[inline]
    fn at_head(&mut self, packet: &Packet, _queue: Backlog, now: Time) -> Verdict {
        self.sojourn = now.since(packet.arrived);
        let (is_told, is_late) = self.tells(now);
        let is_flooded = self.random.chance(f64::from(self.p_drop) / TWO_32);
        let verdict = match (is_told, self.config.ecn && packet.ecn.is_capable(), is_flooded) {
            (true, false, _) => Verdict::Drop(DropReason::Early),
            (_, _, true) => Verdict::Drop(DropReason::Unresponsive),
            (true, true, false) => Verdict::Mark(MarkReason::Early),
            (false, _, false) => Verdict::Accept,
        };
        // The deadline is also a time-out: nothing is owed for the time in which nothing was dropped.
        if self.count == 0 {
            self.drop_next = now.saturating_add(self.delays.interval);
        } else if is_late && !matches!(verdict, Verdict::Drop(_)) {
            self.drop_next = now;
        }
        verdict
    }

    /// `cobalt_queue_full`, for a scheduler that took a packet out.
    fn on_removed(&mut self, now: Time) {
        self.on_full(now);
    }

    /// `cobalt_queue_empty`.
    fn on_idle(&mut self, now: Time) {
        if self.p_drop > 0 && now.since(self.blue_timer) > self.delays.target {
            self.p_drop = self.p_drop.saturating_sub(in_parts(self.config.decrement));
            self.blue_timer = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(self.drop_next);
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.context.link_rate = rate;
        self.limit.set_link_rate(rate);
        self.delays = Delays::new(&self.config, &self.context);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "sojourn_ms" => Some(self.sojourn.as_millis_f64()),
            "drop_count" => Some(f64::from(self.count)),
            "is_dropping" => Some(f64::from(u8::from(self.dropping))),
            "marking_probability" => Some(f64::from(self.p_drop) / TWO_32),
            _ => None,
        }
    }
}

impl Cobalt {
    /// The part of `CoDel`: whether this head is dropped or marked, and whether the deadline had passed (`cobalt_should_drop`).
    fn tells(&mut self, now: Time) -> (bool, bool) {
        let is_over = is_over(self.sojourn, self.delays);
        let is_late = now > self.drop_next;
        let is_due = self.count > 0 && now >= self.drop_next;
        if is_over && !self.dropping {
            self.drop_next = self.after(now);
        }
        self.dropping = is_over;
        if is_over {
            self.count = self.count.max(1);
        }
        if !is_due {
            return (false, is_late);
        }
        if is_over {
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.after(self.drop_next);
        } else {
            self.fall(now);
        }
        (is_over, now > self.drop_next)
    }

    /// The count falls as it rose, one step in each pause; each step is one of the rises before.
    fn fall(&mut self, now: Time) {
        while self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(self.drop_next);
        }
    }

    /// `cobalt_queue_full`.
    fn on_full(&mut self, now: Time) {
        if now.since(self.blue_timer) > self.delays.target {
            self.p_drop = self.p_drop.saturating_add(in_parts(self.config.increment));
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// `cobalt_invsqrt`.
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inverse_root = match ROOTS.get(count as usize) {
            Some(&root) => root,
            None => newton_step(self.inverse_root, count),
        };
    }

    /// `cobalt_control`: `interval / sqrt(count)` later.
    fn after(&self, time: Time) -> Time {
        let product = u128::from(self.delays.interval.as_nanos()) * u128::from(self.inverse_root);
        time.saturating_add(Span::from_nanos((product >> 32) as u64))
    }
}

const TWO_32: f64 = 4_294_967_296.0;

/// As near to 1 as it can be, with 32 bits behind the point.
const ONE: u32 = u32::MAX;

/// A share in parts of 2^32.
fn in_parts(share: f64) -> u32 {
    (share * TWO_32) as u32
}

/// Whether a head shows a queue that stays: it waited longer than the target, and than four packets of the largest size take
/// (`cobalt_should_drop`).
fn is_over(sojourn: Span, delays: Delays) -> bool {
    sojourn > delays.target && sojourn > delays.mtu.saturating_mul(4)
}

/// A step of Newton's method towards `1 / sqrt(count)`, with 32 bits behind the point (`cobalt_newton_step`).
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = (root as u64 * root as u64) >> 32;
    let three_less = (3u64 << 32).wrapping_sub(count as u64 * square);
    ((three_less >> 2).wrapping_mul(root as u64) >> 31) as u32
}

/// `1 / sqrt(count)` of the first counts, where one step would not do: four steps each, from the one before (`cobalt_cache_init`).
const ROOTS: [u32; 16] = {
    let mut roots = [ONE; 16];
    let mut count = 1;
    while count < roots.len() {
        let mut root = roots[count - 1];
        let mut step = 0;
        while step < 4 {
            root = newton_step(root, count as u32);
            step += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
};

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
            let due = cobalt.drop_next;
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
            now = cobalt.drop_next;
            assert_eq!(old(&mut cobalt, now), DROP);
        }
        assert_eq!(cobalt.count, 10);
        // Nine pauses later, of 31.6 to 100 ms, it has fallen by as many.
        let later = now + INTERVAL * 2;
        assert_eq!(head(&mut cobalt, Ecn::NotEct, 1, later), Verdict::Accept);
        assert!(cobalt.count > 4 && cobalt.count < 9, "{}", cobalt.count);
        head(&mut cobalt, Ecn::NotEct, 1, later + INTERVAL * 8);
        assert_eq!(cobalt.count, 0);
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
            assert!(cobalt.p_drop > 0, "after {step}");
            cobalt.on_idle(ms(1700 + 6 * step));
        }
        assert_eq!(cobalt.p_drop, 0);
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
