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
pub(in crate::queue) fn marking_probability(avg: f64, min_th: f64, max_th: f64, max_p: f64) -> f64 {
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
