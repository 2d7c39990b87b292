//! The formulas of RED, as pure functions.
//!
//! Source: Floyd & Jacobson 1993, Fig. 2; ns-2 `red.cc`; W. Feng, thesis, equation 3.2, Fig. 3.27 and section 4.3.3.
//! Deviations: in [`super`].

use tidegate_units::{BitRate, Span, Time};

use super::GapLaw;
use crate::meter::sample_weight;

/// `p_b = max_p (avg - min_th) / (max_th - min_th)` (Floyd & Jacobson, Fig. 2); from `max_th` on the gentle line, which
/// reaches 1 at `2 max_th`. A `max_p` above one, which is Adaptive RED's (thesis, Fig. 3.27): `1 - (1 - x)^max_p`, which has
/// the slope `max_p` at `min_th`, is the straight line for `max_p` = 1 and reaches 1 at `max_th`; as if `max_p` linear REDs
/// could each mark the packet.
pub(crate) fn marking_probability(avg: f64, min_th: f64, max_th: f64, max_p: f64) -> f64 {
    let p_b = if max_p > 1.0 {
        let x = (avg - min_th) / (max_th - min_th);
        1.0 - libm::pow((1.0 - x).clamp(0.0, 1.0), max_p)
    } else if avg < max_th {
        max_p * (avg - min_th) / (max_th - min_th)
    } else {
        max_p + (1.0 - max_p) * (avg - max_th) / max_th
    };
    p_b.clamp(0.0, 1.0)
}

/// The exponential low-pass filter of the marking probability; starts at zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowPass {
    p: f64,
    last: Time,
    /// The reciprocal of the time constant, 1/s.
    per_k: f64,
}

impl LowPass {
    pub(super) fn new(time_constant: Span) -> Self {
        Self { p: 0.0, last: Time::ZERO, per_k: 1.0 / time_constant.as_secs_f64() }
    }

    /// `p + (1 - e^(-T/K)) (p_b - p)`, T since the last packet.
    pub(super) fn next(&mut self, p_b: f64, now: Time) -> f64 {
        self.p += sample_weight(now.since(self.last).as_secs_f64(), self.per_k) * (p_b - self.p);
        self.last = now;
        self.p
    }
}

/// The packets of `packet_bytes` that all flows together have in flight: `L RTT / MSS`.
pub(super) fn window_of_all(link: BitRate, rtt: Span, packet_bytes: u32) -> f64 {
    link.as_bytes_per_second_f64() * rtt.as_secs_f64() / f64::from(packet_bytes)
}

/// The `max_p` with which `flows` that share a window of `packets` settle halfway between the thresholds, at most 1.
///
/// They need to be notified with `p = (N MSS C / (L RTT))^2` (thesis, eq. 3.2), C^2 = 3/2 (Mathis et al., CCR 27(3),
/// 1997). Halfway, `p_b = max_p / 2`, and the mean gap between notifications is `1 / (2 p_b)` packets by the paper's law,
/// `3 / (2 p_b)` by ns-2's.
pub(in crate::queue) fn needed_max_p(flows: f64, packets: f64, gap_law: GapLaw) -> f64 {
    let p = 1.5 * (flows / packets) * (flows / packets);
    match gap_law {
        GapLaw::Paper => p.min(1.0),
        GapLaw::Wait => (3.0 * p).min(1.0),
    }
}

/// How many flows share a window of `packets`, if in a round trip the queue rises by `rise` packets while `notified` of theirs are
/// notified.
///
/// Each flow adds a packet per round trip; one that is notified gives up half of its window at that time, which is 4/3 of the mean
/// one (a sawtooth): `rise = N - notified (2/3) packets / N`. Where the queue stands, this is [`needed_max_p`]'s law.
pub(super) fn flows_from_slope(rise: f64, notified: f64, packets: f64) -> f64 {
    0.5 * (rise + libm::sqrt(rise * rise + 8.0 / 3.0 * notified * packets))
}

/// Where the line from `min_th` on reaches `max_p`, for the average to settle halfway between `min_th` and `max_th` with `needed` for
/// its `max_p`: at `max_th` for `needed = max_p`, farther for less.
pub(super) fn moved_end(min_th: f64, max_th: f64, max_p: f64, needed: f64) -> f64 {
    min_th + (max_th - min_th) * max_p / needed
}

/// The load as the average queue and the notifications tell it, once per round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    rtt: Span,
    /// When this round began, the average then, and what was notified since.
    since: Time,
    average: f64,
    pub(super) notified: u32,
    /// The estimate.
    pub(super) flows: f64,
}

impl Slope {
    /// Of a new round in the estimate. What is notified acts a round trip later, and the average is later still: an estimate that is
    /// not much slower than both takes the notifications of its own mistakes for flows.
    const GAIN: f64 = 1.0 / 32.0;

    pub(super) const fn new(rtt: Span) -> Self {
        Self { rtt, since: Time::ZERO, average: 0.0, notified: 0, flows: 0.0 }
    }

    /// The average is `avg` now: whether a round is over, and with it the estimate is another.
    #[inline]
    pub(super) fn observe(&mut self, avg: f64, link: BitRate, packet_bytes: u32, now: Time) -> bool {
        if now.since(self.since) < self.rtt {
            return false;
        }
        // A round is longer where no packet came at its end.
        let rounds = now.since(self.since).as_secs_f64() / self.rtt.as_secs_f64();
        let (rise, notified) = ((avg - self.average) / rounds, f64::from(self.notified) / rounds);
        let flows = flows_from_slope(rise, notified, window_of_all(link, self.rtt, packet_bytes));
        self.flows += Self::GAIN * (flows - self.flows);
        *self = Self { since: now, average: avg, notified: 0, ..*self };
        true
    }
}

/// `p_a = p_b / (1 - count p_b)` (Floyd & Jacobson, Fig. 2).
pub(in crate::queue) fn spread_from_one(p_b: f64, count: f64) -> f64 {
    let rest = 1.0 - count * p_b;
    if rest <= 0.0 { 1.0 } else { (p_b / rest).min(1.0) }
}

/// ns-2 `modify_p` with `wait`.
pub(in crate::queue) fn spread_after_wait(p_b: f64, count: f64) -> f64 {
    let passed = count * p_b;
    if passed < 1.0 {
        0.0
    } else if passed < 2.0 {
        (p_b / (2.0 - passed)).min(1.0)
    } else {
        1.0
    }
}
