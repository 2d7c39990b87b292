//! PIE, the proportional integral controller enhanced: holds the delay of a queue near a target by one probability of
//! notification that follows both how far the delay is from it and how it changes. The delay is measured or estimated, packets
//! are notified as they arrive, so nothing is done at the head; small probabilities move in small steps, so that one setting
//! serves few flows and many.
//!
//! Source: RFC 8033, sections 4 and 5, appendices A and B; where it says so, Linux (`net/sched/sch_pie.c` of 2020 and later)
//! and RFC 8034.
//! Deviations:
//! - A packet that leaves nothing behind shows a delay of zero, as in Linux. In appendix A the delay of the last packet stays
//!   while the link is idle, and the probability could rise without any traffic.
//! - `MEAN_PKTSIZE` is the MTU of the link ([`Context::mtu_bytes`]), as in Linux.
//! - Without [`PieConfig::on_demand`] updates are at multiples of [`PieConfig::t_update`] from time zero; with it, from the
//!   arrival on that made PIE active. They end while they would change nothing.
//! - With `on_demand` PIE is off again at the first update with no probability and two delays below half the target (section
//!   5.3). The listing of appendix B asks for an empty queue at an arrival, which there is only where the arrival was dropped.
//! - `accu_prob` stays as it is while there is an allowance for bursts (appendix A asks for the allowance first, appendix B
//!   last), and is zero after every notification, also a mark.
//! - The averaged time of [`PieConfig::dq_threshold`] is in whole nanoseconds, rounded down.
//! - [`PieConfig::high`] is no part of RFC 8033, but of RFC 8034 and Linux. There is no scaling of the
//!   probability with the loss of long-lived delay that RFC 8034 has for cable modems.

#[cfg(test)]
mod tests;

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use super::limit::bytes32;
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

words! {
    /// How the delay of the queue is known.
    pub enum DelayEstimator {
        /// By how long the last packet that left had waited (RFC 8033, section 4.3 and appendix A).
        Timestamps = "timestamps",
        /// By the length of the queue over the rate at which it was served (RFC 8033, section 5.2 and appendix B).
        DepartureRate = "departure-rate",
    }
}

/// What waits is looked at once in each: this bounds the work.
const T_UPDATE: Bound<Span> =
    Bound::between(Span::from_micros(10), bound::DELAY_MAX).saying("", " is no time between updates");
/// A gain, in probability for each second of delay.
const GAIN: Bound<f64> = Bound::between(0.0, 1e6).saying("", " is no gain");
/// Up to 65536 bytes, for the weight of a measurement is its part of them.
const DQ_THRESHOLD: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(1 << 16))
    .saying("", " cannot be measured")
    .helping("from 1B to 65536B");

parameters! {
    /// # PIE
    ///
    /// Notifies arrivals with a probability that moves with the delay of the queue: up while it is above a target or grows, down
    /// while it is below or shrinks.
    ///
    /// Source: RFC 8033.
    #[derive(Copy)]
    pub struct PieConfig {
        /// How much may wait; a last resort, for the delay is held by the target. Source: Linux (`sch_pie`).
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
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
        /// How the delay is known. Source: RFC 8033, appendix A; Linux.
        estimator: DelayEstimator = DelayEstimator::Timestamps;
        /// With `departure-rate`: how much must leave for a measurement, and wait for one to begin. Source: RFC 8033, section 5.2.
        dq_threshold: Bytes = Bytes::new(16_384) => DQ_THRESHOLD;
        /// Whether PIE is off until a third of the limit waits, and again when no delay is left. Source: RFC 8033, section 5.3
        /// (optional); Linux has it always on.
        on_demand: bool = false;
    }
    check |config, report| {
        if let Limit::Time(longest) = config.limit && longest <= config.target {
            let help = "with such a limit PIE hardly acts; let more wait";
            report.say("limit", format!("{longest} is not longer than the target"), help);
        }
    };
}

impl PieConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Pie {
        assert!(!self.t_update.is_zero(), "time moves on between updates");
        let threshold = self.dq_threshold.get();
        assert!((1..=1 << 16).contains(&threshold), "the weight of a measurement is a part of one");
        Pie {
            active: !self.on_demand,
            drop_prob: 0.0,
            accu_prob: 0.0,
            burst_allowance: Span::ZERO,
            current_qdelay: Span::ZERO,
            qdelay_old: Span::ZERO,
            queue_bytes: 0,
            next_update: (!self.on_demand).then_some(Time::ZERO + self.t_update),
            rests_from: Time::ZERO + self.t_update,
            rate: DepartureRate::new(bytes32(self.dq_threshold)),
            mtu_bytes: context.mtu_bytes,
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pie {
    active: bool,
    drop_prob: f64,
    /// The probabilities of the arrivals since the last notification.
    accu_prob: f64,
    burst_allowance: Span,
    current_qdelay: Span,
    /// What it was at the last update.
    qdelay_old: Span,
    queue_bytes: u64,
    /// None while it would change nothing.
    next_update: Option<Time>,
    /// While active without a next update: when it would have been.
    rests_from: Time,
    rate: DepartureRate,
    mtu_bytes: u32,
    limit: QueueLimit,
    random: Substream,
    config: PieConfig,
}

impl QueueManager for Pie {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new(
                    "marking_probability",
                    "The probability with which packets are marked or dropped.",
                ),
                Variable::new("queue_delay_ms", "The delay of the queue as it is measured or estimated."),
                Variable::new("is_active", "1 while it acts on delays, else 0."),
            ]
        }
    }

    /// `enque` (appendix B).
    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if self.active {
            self.begin_arrival(now);
        }
        let verdict = self.judge(packet, queue);
        let mut after = queue;
        if !matches!(verdict, Verdict::Drop(_)) {
            after.add(packet);
        }
        self.queue_bytes = after.bytes;
        if !self.active && is_a_third(after, &self.limit) {
            self.activate(now);
        }
        verdict
    }

    /// `deque` (appendix A, or appendix B).
    #[inline]
    fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
        self.queue_bytes = queue.bytes;
        match self.config.estimator {
            DelayEstimator::Timestamps => {
                self.current_qdelay = if queue.is_empty() { Span::ZERO } else { now.since(packet.arrived) };
            }
            DelayEstimator::DepartureRate => {
                self.rate.on_departure(packet.wire_bytes, queue.bytes, self.active, now);
            }
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    #[inline]
    fn timer_at(&self) -> Option<Time> {
        self.next_update
    }

    fn on_timer(&mut self, now: Time) {
        self.update();
        self.rests_from = now + self.config.t_update;
        self.next_update = (self.active && !self.is_at_rest()).then_some(self.rests_from);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "marking_probability" => Some(self.drop_prob),
            "queue_delay_ms" => Some(self.current_qdelay.as_millis_f64()),
            "is_active" => Some(f64::from(u8::from(self.active))),
            _ => None,
        }
    }
}

impl Pie {
    /// Updates go on, and after quiet an allowance for bursts begins (section 4.4).
    #[inline]
    fn begin_arrival(&mut self, now: Time) {
        if self.next_update.is_none() {
            self.next_update = Some(next_of(self.rests_from, self.config.t_update, now));
        }
        if !self.config.on_demand && self.drop_prob <= 0.0 && self.is_quiet() {
            self.burst_allowance = self.config.max_burst;
        }
    }

    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog) -> Verdict {
        if !self.limit.admits(queue, packet) {
            self.accu_prob = 0.0;
            return Verdict::Drop(DropReason::Overflow);
        }
        if !self.active || !self.burst_allowance.is_zero() || !self.drop_early(packet, queue) {
            return Verdict::Accept;
        }
        self.accu_prob = 0.0;
        if self.config.ecn && packet.ecn.is_capable() && self.drop_prob < self.config.mark_ecnth {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    /// Sections 4.1 and 5.4.
    #[inline]
    fn drop_early(&mut self, packet: &Packet, queue: Backlog) -> bool {
        let is_calm = is_below_half(self.qdelay_old, self.config.target) && self.drop_prob < 0.2;
        if is_calm || queue.bytes <= 2 * u64::from(self.mtu_bytes) {
            return false;
        }
        let mut prob = self.drop_prob;
        if self.config.by_size && packet.wire_bytes <= self.mtu_bytes {
            prob = prob * f64::from(packet.wire_bytes) / f64::from(self.mtu_bytes);
        }
        if !self.config.derandomize {
            return self.random.chance(prob);
        }
        self.accu_prob = if self.drop_prob <= 0.0 { 0.0 } else { self.accu_prob + prob };
        self.accu_prob >= SURE_FROM || (self.accu_prob >= NONE_BELOW && self.random.chance(prob))
    }

    /// `calculate_drop_prob` (appendix B).
    fn update(&mut self) {
        if self.config.estimator == DelayEstimator::DepartureRate {
            self.current_qdelay = self.rate.delay_of(self.queue_bytes);
        }
        let (current, old, target) = (self.current_qdelay, self.qdelay_old, self.config.target);
        let p = self.config.alpha * difference(current, target) + self.config.beta * difference(current, old);
        let mut p = capped(tuned(p, self.drop_prob), self.drop_prob);
        if current > self.config.high {
            p += STEP_MAX;
        }
        let mut prob = self.drop_prob + p;
        if current.is_zero() && old.is_zero() {
            prob *= KEPT_WHEN_IDLE;
        }
        self.drop_prob = prob.clamp(0.0, 1.0);
        let was_quiet = self.drop_prob <= 0.0 && self.is_quiet();
        self.qdelay_old = current;
        self.burst_allowance = self.burst_allowance.saturating_sub(self.config.t_update);
        if self.config.on_demand && was_quiet {
            self.active = false;
            self.rate.stop();
        }
    }

    /// The last two delays are below half the target.
    fn is_quiet(&self) -> bool {
        is_below_half(self.current_qdelay, self.config.target)
            && is_below_half(self.qdelay_old, self.config.target)
    }

    /// Whether updates change nothing until the next arrival.
    fn is_at_rest(&self) -> bool {
        self.queue_bytes == 0
            && self.drop_prob <= 0.0
            && self.burst_allowance.is_zero()
            && self.current_qdelay.is_zero()
            && self.qdelay_old.is_zero()
    }

    /// Section 5.3, and `enque` of appendix B.
    #[cold]
    fn activate(&mut self, now: Time) {
        self.active = true;
        self.qdelay_old = Span::ZERO;
        self.drop_prob = 0.0;
        self.accu_prob = 0.0;
        self.burst_allowance = self.config.max_burst;
        self.next_update = Some(now + self.config.t_update);
        self.rate.restart(now);
    }
}

/// How long `DQ_THRESHOLD` bytes take to leave (section 5.2, and `deque` of appendix B).
#[derive(Clone, Debug)]
struct DepartureRate {
    threshold: u32,
    /// None outside of a measurement.
    started: Option<Time>,
    count_bytes: u64,
    average: Span,
}

impl DepartureRate {
    const fn new(threshold: u32) -> Self {
        Self { threshold, started: None, count_bytes: 0, average: Span::ZERO }
    }

    const fn restart(&mut self, now: Time) {
        *self = Self { threshold: self.threshold, started: Some(now), count_bytes: 0, average: Span::ZERO };
    }

    const fn stop(&mut self) {
        self.started = None;
    }

    fn on_departure(&mut self, wire_bytes: u32, left_bytes: u64, may_start: bool, now: Time) {
        if let Some(started) = self.started {
            self.count_bytes += u64::from(wire_bytes);
            if self.count_bytes >= u64::from(self.threshold) {
                self.average = averaged(self.average, now.since(started), self.threshold);
                self.started = None;
            }
        }
        if may_start && self.started.is_none() && left_bytes >= u64::from(self.threshold) {
            self.started = Some(now);
            self.count_bytes = 0;
        }
    }

    /// `queue_.byte_length() * avg_dq_time_ / DQ_THRESHOLD`.
    fn delay_of(&self, bytes: u64) -> Span {
        let nanos = u128::from(bytes) * u128::from(self.average.as_nanos()) / u128::from(self.threshold);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// `accu_prob` below which nothing is notified, and from which on for sure (section 5.4).
const NONE_BELOW: f64 = 0.85;
const SURE_FROM: f64 = 8.5;
/// The largest step at a probability of 0.1 or more (section 5.5), and what is added above [`PieConfig::high`].
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
fn tuned(p: f64, drop_prob: f64) -> f64 {
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

/// The average with a new measurement, whose weight is `threshold / 2^16` (section 5.2); the first one alone.
fn averaged(average: Span, measured: Span, threshold: u32) -> Span {
    if average.is_zero() {
        return measured;
    }
    let (weight, whole) = (u128::from(threshold), 1u128 << 16);
    let sum = u128::from(measured.as_nanos()) * weight + u128::from(average.as_nanos()) * (whole - weight);
    Span::from_nanos((sum / whole) as u64)
}

/// Whether a third of the limit waits (section 5.3).
fn is_a_third(queue: Backlog, limit: &QueueLimit) -> bool {
    match limit.in_packets() {
        Some(most) => 3 * u64::from(queue.packets) >= u64::from(most),
        None => queue.bytes.saturating_mul(3) >= limit.in_bytes(),
    }
}

/// The first of `from`, `from + period`, ... after `now`.
pub(super) fn next_of(from: Time, period: Span, now: Time) -> Time {
    if from > now {
        return from;
    }
    let missed = now.since(from).as_nanos() / period.as_nanos() + 1;
    from.saturating_add(period.saturating_mul(missed))
}
