//! The law of COBALT, with what it must remember of a queue: for one queue ([`Cobalt`](super::Cobalt)), or for all those of CAKE.
//!
//! Source: Linux, `net/sched/sch_cake.c` (`cobalt_*`). Deviations: those of the module above.

use tidegate_packet::DropReason;
use tidegate_units::{Span, Time};

use crate::random::Substream;

/// What is remembered of one queue.
#[derive(Clone, Debug)]
pub(crate) struct CobaltState {
    /// How many drops the pause before the next follows from; falls again when nothing is dropped.
    pub(super) count: u32,
    /// `1 / sqrt(count)`, with 32 bits behind the point.
    inverse_root: u32,
    /// When the next packet is dropped, or the count falls.
    pub(super) drop_next: Time,
    pub(super) dropping: bool,
    /// When the probability changed last.
    blue_timer: Time,
    /// In parts of 2^32.
    pub(super) p_drop: u32,
}

impl Default for CobaltState {
    fn default() -> Self {
        Self {
            count: 0,
            inverse_root: ONE,
            drop_next: Time::ZERO,
            dropping: false,
            blue_timer: Time::ZERO,
            p_drop: 0,
        }
    }
}

/// What becomes of the head of a queue: dropped for one of two reasons, or marked, or both where it cannot be dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    pub(crate) drop: Option<DropReason>,
    pub(crate) mark: bool,
}

/// What follows from the rate at which queues are emptied (`cake_set_rate`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub(crate) target: Span,
    pub(crate) interval: Span,
    /// What a packet of the largest size takes.
    mtu: Span,
}

impl Delays {
    /// The target is at least the time of one and a half packets, and the interval is as much longer.
    pub(crate) fn new(target: Span, interval: Span, mtu: Span) -> Self {
        let longer = target.max(Span::from_nanos(mtu.as_nanos().saturating_mul(3) / 2));
        let interval = (interval + longer.saturating_sub(target)).max(longer.saturating_mul(2));
        Self { target: longer, interval, mtu }
    }

    /// Whether a head shows a queue that stays: it waited longer than the target, and than four packets of the largest size take, or
    /// two of each of `flows` (`cobalt_should_drop`).
    #[inline]
    pub(crate) fn is_over(&self, sojourn: Span, flows: u32) -> bool {
        let packets = u64::from(flows).saturating_mul(2).max(4);
        sojourn > self.target && sojourn > self.mtu.saturating_mul(packets)
    }
}

impl CobaltState {
    /// The head is next to be sent (`cobalt_should_drop`): `is_over`, it waited too long; `can_mark`, a mark serves as well as a drop.
    #[inline]
    pub(crate) fn at_head(
        &mut self,
        is_over: bool,
        can_mark: bool,
        delays: &Delays,
        random: &mut Substream,
        now: Time,
    ) -> Judgement {
        let (is_told, is_late) = self.tells(is_over, delays, now);
        let is_flooded = random.chance(self.probability());
        let drop = match (is_told && !can_mark, is_flooded) {
            (true, _) => Some(DropReason::Early),
            (false, true) => Some(DropReason::Unresponsive),
            (false, false) => None,
        };
        // The deadline is also a time-out: nothing is owed for the time in which nothing was dropped.
        if self.count == 0 {
            self.drop_next = now.saturating_add(delays.interval);
        } else if is_late && drop.is_none() {
            self.drop_next = now;
        }
        Judgement { drop, mark: is_told && can_mark }
    }

    /// The part of `CoDel`: whether this head is dropped or marked, and whether the deadline had passed.
    fn tells(&mut self, is_over: bool, delays: &Delays, now: Time) -> (bool, bool) {
        let is_late = now > self.drop_next;
        let is_due = self.count > 0 && now >= self.drop_next;
        if is_over && !self.dropping {
            self.drop_next = self.after(now, delays);
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
            self.drop_next = self.after(self.drop_next, delays);
        } else {
            self.fall(delays, now);
        }
        (is_over, now > self.drop_next)
    }

    /// The count falls as it rose, one step in each pause; each step is one of the rises before.
    fn fall(&mut self, delays: &Delays, now: Time) {
        while self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(self.drop_next, delays);
        }
    }

    /// A packet found no room, or another one was taken for it (`cobalt_queue_full`); the probability rises by `increment`, in parts of
    /// 2^32.
    pub(crate) fn on_full(&mut self, delays: &Delays, increment: u32, now: Time) {
        if now.since(self.blue_timer) > delays.target {
            self.p_drop = self.p_drop.saturating_add(increment);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue was found empty (`cobalt_queue_empty`); the probability falls by `decrement`, in parts of 2^32.
    pub(crate) fn on_empty(&mut self, delays: &Delays, decrement: u32, now: Time) {
        if self.p_drop > 0 && now.since(self.blue_timer) > delays.target {
            self.p_drop = self.p_drop.saturating_sub(decrement);
            self.blue_timer = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(self.drop_next, delays);
        }
    }

    /// Nothing is left to decay: it is as good as new.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    /// The probability of its BLUE.
    #[inline]
    pub(crate) fn probability(&self) -> f64 {
        f64::from(self.p_drop) / TWO_32
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
    fn after(&self, time: Time, delays: &Delays) -> Time {
        let product = u128::from(delays.interval.as_nanos()) * u128::from(self.inverse_root);
        time.saturating_add(Span::from_nanos((product >> 32) as u64))
    }
}

const TWO_32: f64 = 4_294_967_296.0;

/// As near to 1 as it can be, with 32 bits behind the point.
const ONE: u32 = u32::MAX;

/// A share in parts of 2^32.
pub(super) fn in_parts(share: f64) -> u32 {
    (share * TWO_32) as u32
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
