//! The law of PIE, with what it must remember of a queue: for one queue ([`Pie`](super::Pie)), or for many that share the law.

use tidegate_packet::{DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use crate::Context;
use crate::queue::{SharedLaw, Verdict};
use crate::random::Substream;

/// What waits is looked at once in each: this bounds the work.
const T_UPDATE: Bound<Span> = Bound::between(Span::from_micros(10), bound::DELAY_MAX)
    .saying("", " is no time between updates")
    .helping("from 10us to 3600s: each update is work");
/// A gain, in probability for each second of delay.
const GAIN: Bound<f64> = Bound::between(0.0, 1e6)
    .saying("", " is no gain")
    .helping("from 0 to 1000000: below 0 it falls as the delay grows; above that a microsecond makes it 1");

parameters! {
    /// # The law of PIE
    ///
    /// How the probability moves, and which arrivals are notified.
    ///
    /// Source: RFC 8033.
    #[derive(Copy)]
    pub struct PieLawConfig {
        /// The delay that is aimed at (`QDELAY_REF`). Source: RFC 8033, section 4.2.
        target: Span = Span::from_millis(15) => bound::DURATION;
        /// The time between two updates of the probability. Source: RFC 8033, section 4.2.
        t_update: Span = Span::from_millis(15) => T_UPDATE;
        /// By how much the probability moves at an update for each second that the delay is above the target. Source: RFC 8033,
        /// section 4.2.
        alpha: f64 = 0.125 => GAIN;
        /// By how much it moves for each second by which the delay grew since the update before. Source: RFC 8033, section 4.2.
        beta: f64 = 1.25 => GAIN;
        /// How long a queue may be above the target after quiet before anything is notified (`MAX_BURST`). Source: RFC 8033,
        /// section 4.4.
        max_burst: Span = Span::from_millis(150) => bound::DELAY;
        /// Whether packets of transports with ECN are marked instead of dropped, up to `mark_ecnth`. On, as with the other queues
        /// here. Source: RFC 8033, section 5.1; Linux has it off.
        ecn: bool = true;
        /// From which probability on packets are dropped, whatever their transport. Source: RFC 8033, section 5.1.
        mark_ecnth: f64 = 0.1 => bound::PROBABILITY;
        /// Whether notifications are kept apart: none before the probabilities of the arrivals since the last sum to 0.85, one for sure
        /// at 8.5. Source: RFC 8033, section 5.4; Linux.
        derandomize: bool = true;
        /// Whether a small packet is notified less often, in proportion to its part of the MTU. Source: RFC 8033, appendix B; Linux
        /// (`bytemode`, off).
        by_size: bool = false;
        /// Above which delay the probability rises by 0.02 more at each update. Source: RFC 8034; Linux.
        high: Span = Span::from_millis(250) => bound::DURATION;
    }
}

/// The law: what is the same for all queues.
#[derive(Clone, Debug)]
pub struct PieLaw {
    mtu_bytes: u32,
    random: Substream,
    config: PieLawConfig,
}

/// What is remembered of one queue.
#[derive(Clone, Debug, Default)]
pub struct PieState {
    pub(super) drop_prob: f64,
    /// The probabilities of the arrivals since the last notification.
    pub(super) accu_prob: f64,
    pub(super) burst_allowance: Span,
    pub(super) current_qdelay: Span,
    /// What it was at the last update.
    pub(super) qdelay_old: Span,
}

impl PieLawConfig {
    /// The law for a link.
    pub fn build(&self, context: &Context) -> PieLaw {
        assert!(!self.t_update.is_zero(), "time moves on between updates");
        PieLaw { mtu_bytes: context.mtu_bytes, random: Substream::new(context.seed), config: *self }
    }
}

impl PieState {
    /// A packet leaves, behind which `left_bytes` wait (appendix A).
    #[inline]
    pub(super) fn on_departure(&mut self, packet: &Packet, left_bytes: u64, now: Time) {
        self.current_qdelay = if left_bytes == 0 { Span::ZERO } else { now.since(packet.arrived) };
    }

    /// Whether updates change nothing while nothing leaves.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.drop_prob <= 0.0
            && self.burst_allowance.is_zero()
            && self.current_qdelay.is_zero()
            && self.qdelay_old.is_zero()
    }
}

impl PieLaw {
    /// After quiet an allowance for bursts begins (section 4.4).
    #[inline]
    pub(super) fn begin_arrival(&self, state: &mut PieState) {
        if state.drop_prob <= 0.0 && self.is_quiet(state) {
            state.burst_allowance = self.config.max_burst;
        }
    }

    /// What becomes of an arrival that has room, behind `queue_bytes`.
    #[inline]
    pub(super) fn judge(&mut self, state: &mut PieState, packet: &Packet, queue_bytes: u64) -> Verdict {
        if !state.burst_allowance.is_zero() || !self.drop_early(state, packet, queue_bytes) {
            return Verdict::Accept;
        }
        state.accu_prob = 0.0;
        if self.config.ecn && packet.ecn.is_capable() && state.drop_prob < self.config.mark_ecnth {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    /// Sections 4.1 and 5.4.
    #[inline]
    fn drop_early(&mut self, state: &mut PieState, packet: &Packet, queue_bytes: u64) -> bool {
        let is_calm = is_below_half(state.qdelay_old, self.config.target) && state.drop_prob < 0.2;
        if is_calm || queue_bytes <= 2 * u64::from(self.mtu_bytes) {
            return false;
        }
        let mut prob = state.drop_prob;
        if self.config.by_size && packet.wire_bytes <= self.mtu_bytes {
            prob = prob * f64::from(packet.wire_bytes) / f64::from(self.mtu_bytes);
        }
        if !self.config.derandomize {
            return self.random.chance(prob);
        }
        state.accu_prob = if state.drop_prob <= 0.0 { 0.0 } else { state.accu_prob + prob };
        state.accu_prob >= SURE_FROM || (state.accu_prob >= NONE_BELOW && self.random.chance(prob))
    }

    /// `calculate_drop_prob` (appendix B); whether there is neither a probability nor, twice now, a delay.
    pub(super) fn update(&self, state: &mut PieState) -> bool {
        let (current, old, target) = (state.current_qdelay, state.qdelay_old, self.config.target);
        let p = self.config.alpha * difference(current, target) + self.config.beta * difference(current, old);
        let mut p = capped(tuned(p, state.drop_prob), state.drop_prob);
        if current > self.config.high {
            p += STEP_MAX;
        }
        let mut prob = state.drop_prob + p;
        if current.is_zero() && old.is_zero() {
            prob *= KEPT_WHEN_IDLE;
        }
        state.drop_prob = prob.clamp(0.0, 1.0);
        let was_quiet = state.drop_prob <= 0.0 && self.is_quiet(state);
        state.qdelay_old = current;
        state.burst_allowance = state.burst_allowance.saturating_sub(self.config.t_update);
        was_quiet
    }

    /// The last two delays are below half the target.
    fn is_quiet(&self, state: &PieState) -> bool {
        is_below_half(state.current_qdelay, self.config.target)
            && is_below_half(state.qdelay_old, self.config.target)
    }
}

/// A queue among many. Its updates, at multiples of [`PieLawConfig::t_update`], are made up for when something happens to it.
#[derive(Clone, Debug, Default)]
pub struct SharedPieState {
    pie: PieState,
    /// How many updates have been made, or had nothing to change.
    updates: u64,
}

/// So many updates are made up for at most: without traffic none of them lets anything of a probability be left, and without
/// service it is one long before.
const UPDATES_MAX: u64 = 1 << 16;

impl SharedLaw for PieLaw {
    type State = SharedPieState;

    fn on_arrival(
        &mut self,
        state: &mut SharedPieState,
        packet: &Packet,
        queue_bytes: u64,
        now: Time,
    ) -> Verdict {
        self.make_up(state, now);
        self.begin_arrival(&mut state.pie);
        self.judge(&mut state.pie, packet, queue_bytes)
    }

    fn on_refused(&mut self, state: &mut SharedPieState, now: Time) {
        self.make_up(state, now);
        self.begin_arrival(&mut state.pie);
        state.pie.accu_prob = 0.0;
    }

    fn at_head(
        &mut self,
        state: &mut SharedPieState,
        packet: &Packet,
        left_bytes: u64,
        now: Time,
    ) -> Verdict {
        self.make_up(state, now);
        state.pie.on_departure(packet, left_bytes, now);
        Verdict::Accept
    }
}

impl PieLaw {
    /// The updates that were due by `now`.
    #[inline]
    fn make_up(&self, state: &mut SharedPieState, now: Time) {
        let due = now.as_nanos() / self.config.t_update.as_nanos();
        if due > state.updates {
            self.make_up_for(&mut state.pie, due - state.updates);
            state.updates = due;
        }
    }

    fn make_up_for(&self, state: &mut PieState, missed: u64) {
        for _ in 0..missed.min(UPDATES_MAX) {
            if state.is_at_rest() {
                return;
            }
            self.update(state);
        }
    }
}

/// `accu_prob` below which nothing is notified, and from which on for sure (section 5.4).
const NONE_BELOW: f64 = 0.85;
const SURE_FROM: f64 = 8.5;
/// The largest step at a probability of 0.1 or more (section 5.5), and what is added above [`PieLawConfig::high`].
const STEP_MAX: f64 = 0.02;
/// What an update without delay leaves of the probability (section 4.2).
const KEPT_WHEN_IDLE: f64 = 0.98;

/// `a - b` in seconds.
fn difference(a: Span, b: Span) -> f64 {
    (a.saturating_sub(b).as_nanos() as f64 - b.saturating_sub(a).as_nanos() as f64) / 1e9
}

/// Whether a delay is below half the target, in whole nanoseconds.
const fn is_below_half(delay: Span, target: Span) -> bool {
    delay.saturating_mul(2).as_nanos() < target.as_nanos()
}

/// A step of the probability, scaled to its magnitude (section 4.2).
pub(super) fn tuned(p: f64, drop_prob: f64) -> f64 {
    let divisor = match drop_prob {
        ..0.000_001 => 2048.0,
        ..0.000_01 => 512.0,
        ..0.000_1 => 128.0,
        ..0.001 => 32.0,
        ..0.01 => 8.0,
        ..0.1 => 2.0,
        _ => 1.0,
    };
    p / divisor
}

/// Section 5.5.
fn capped(p: f64, drop_prob: f64) -> f64 {
    if drop_prob >= 0.1 { p.min(STEP_MAX) } else { p }
}
