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
//!   arrival on that made PIE active. They begin with the first arrival, and end while they would change nothing.
//! - With `on_demand` PIE is off again at the first update with no probability and two delays below half the target (section
//!   5.3). The listing of appendix B asks for an empty queue at an arrival, which there is only where the arrival was dropped.
//! - `accu_prob` stays as it is while there is an allowance for bursts (appendix A asks for the allowance first, appendix B
//!   last), and is zero after every notification, also a mark.
//! - The averaged time of [`PieConfig::dq_threshold`] is in whole nanoseconds, rounded down.
//! - [`PieConfig::high`] is no part of RFC 8033, but of RFC 8034 and Linux. There is no scaling of the
//!   probability with the loss of long-lived delay that RFC 8034 has for cable modems.

mod law;
#[cfg(test)]
mod tests;

use alloc::format;

use tidegate_packet::{Backlog, DropReason, Packet};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

pub use self::law::{PieLaw, PieLawConfig, PieState};
use super::limit::bytes32;
use super::{QueueLimit, QueueManager, Verdict};
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

/// Up to 65536 bytes, for the weight of a measurement is its part of them.
const DQ_THRESHOLD: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(1 << 16))
    .saying("", " cannot be measured")
    .helping("from 1B to 65536B: a measurement weighs its part of these");

parameters! {
    /// # PIE
    ///
    /// Notifies arrivals with a probability that moves with the delay of the queue: up while it is above a target or grows, down
    /// while it is below or shrinks.
    ///
    /// Source: RFC 8033.
    #[derive(Copy)]
    pub struct PieConfig {
        ..law: PieLawConfig;
        /// How much may wait; a last resort, for the delay is held by the target. Source: Linux (`sch_pie`).
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
        /// How the delay is known. Source: RFC 8033, appendix A; Linux.
        estimator: DelayEstimator = DelayEstimator::Timestamps;
        /// With `departure-rate`: how much must leave for a measurement, and wait for one to begin. Source: RFC 8033, section 5.2.
        dq_threshold: Bytes = Bytes::new(16_384) => DQ_THRESHOLD;
        /// Whether PIE is off until a third of the limit waits, and again when no delay is left. Source: RFC 8033, section 5.3
        /// (optional); Linux has it always on.
        on_demand: bool = false;
    }
    check |config, report| {
        if let Limit::Time(longest) = config.limit && longest <= config.law.target {
            let help = "with such a limit PIE hardly acts; let more wait";
            report.say("limit", format!("{longest} is not longer than the target"), help);
        }
        if config.estimator == DelayEstimator::Timestamps {
            let is_given = config.dq_threshold != Self::default().dq_threshold;
            report.idle("dq_threshold", is_given, "estimator = \"departure-rate\"");
        }
    };
}

impl PieConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Pie {
        let threshold = self.dq_threshold.get();
        assert!((1..=1 << 16).contains(&threshold), "the weight of a measurement is a part of one");
        Pie {
            active: !self.on_demand,
            state: PieState::default(),
            queue_bytes: 0,
            next_update: None,
            rests_from: Time::ZERO + self.law.t_update,
            rate: DepartureRate::new(bytes32(self.dq_threshold)),
            limit: QueueLimit::new(self.limit, context.link_rate),
            law: self.law.build(context),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pie {
    active: bool,
    state: PieState,
    queue_bytes: u64,
    /// None while it would change nothing.
    next_update: Option<Time>,
    /// While active without a next update: when it would have been.
    rests_from: Time,
    rate: DepartureRate,
    limit: QueueLimit,
    law: PieLaw,
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
                self.state.on_departure(packet, queue.bytes, now);
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
        self.rests_from = now + self.config.law.t_update;
        self.next_update = (self.active && !self.is_at_rest()).then_some(self.rests_from);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "marking_probability" => Some(self.state.drop_prob),
            "queue_delay_ms" => Some(self.state.current_qdelay.as_millis_f64()),
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
            self.next_update = Some(next_of(self.rests_from, self.config.law.t_update, now));
        }
        if !self.config.on_demand {
            self.law.begin_arrival(&mut self.state);
        }
    }

    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog) -> Verdict {
        if !self.limit.admits(queue, packet) {
            self.state.accu_prob = 0.0;
            return Verdict::Drop(DropReason::Overflow);
        }
        if !self.active {
            return Verdict::Accept;
        }
        self.law.judge(&mut self.state, packet, queue.bytes)
    }

    fn update(&mut self) {
        if self.config.estimator == DelayEstimator::DepartureRate {
            self.state.current_qdelay = self.rate.delay_of(self.queue_bytes);
        }
        let was_quiet = self.law.update(&mut self.state);
        if self.config.on_demand && was_quiet {
            self.active = false;
            self.rate.stop();
        }
    }

    /// Whether updates change nothing until the next arrival.
    fn is_at_rest(&self) -> bool {
        self.queue_bytes == 0 && self.state.is_at_rest()
    }

    /// Section 5.3, and `enque` of appendix B.
    #[cold]
    fn activate(&mut self, now: Time) {
        self.active = true;
        self.state = PieState {
            burst_allowance: self.config.law.max_burst,
            current_qdelay: self.state.current_qdelay,
            ..PieState::default()
        };
        self.next_update = Some(now + self.config.law.t_update);
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
