//! What `DualPI2` calculates: the controller, the coupling, the ramp of L, and which packet a likelihood hits.
//!
//! Source: RFC 9332, appendix A: Fig. 2 (constants), Fig. 3 (`recur`), Fig. 4 (`laqm`), Fig. 5 (coupling), Figs. 5 and 8 (controller).
//! Deviations: what `recur` adds for one packet is at most one; the module above has the others.

use tidegate_units::Span;

use crate::random::{Seed, Substream};

/// `p_Lmax`: above this coupled probability the signal of L is saturated (Fig. 2).
pub(super) const P_L_MAX: f64 = 1.0;

/// The proportional integral controller of the base probability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Controller {
    /// Integral gain, in 1/s per update and second of delay.
    pub alpha: f64,
    /// Proportional gain, in 1/s.
    pub beta: f64,
    pub target: Span,
    /// `p'`.
    pub p: f64,
    /// The delay at the update before.
    pub prevq: Span,
}

impl Controller {
    /// `dualpi2_update`: within 0 and 1, as the text asks.
    pub(super) fn update(&mut self, curq: Span) {
        self.p +=
            self.alpha * seconds_beyond(curq, self.target) + self.beta * seconds_beyond(curq, self.prevq);
        self.p = self.p.clamp(0.0, 1.0);
        self.prevq = curq;
    }

    /// Whether updates change nothing while nothing waits.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.p == 0.0 && self.prevq.is_zero()
    }
}

/// `a - b` in seconds.
fn seconds_beyond(a: Span, b: Span) -> f64 {
    (a.as_nanos().cast_signed() - b.as_nanos().cast_signed()) as f64 / 1e9
}

/// `Tupdate = min(target, RTT_max / 3)` (Fig. 2).
pub(super) fn update_interval(target: Span, rtt_max: Span) -> Span {
    Span::from_nanos(target.as_nanos().min(rtt_max.as_nanos() / 3).max(1))
}

/// `alpha = 0.1 Tupdate / RTT_max^2` (Fig. 2).
pub(super) fn integral_gain(tupdate: Span, rtt_max: Span) -> f64 {
    let rtt_max = rtt_max.as_secs_f64();
    0.1 * tupdate.as_secs_f64() / (rtt_max * rtt_max)
}

/// `beta = 0.3 / RTT_max` (Fig. 2).
pub(super) fn proportional_gain(rtt_max: Span) -> f64 {
    0.3 / rtt_max.as_secs_f64()
}

/// `p_Cmax = min(1 / k^2, 1)`: the square of where L is saturated (Fig. 2).
pub(super) fn classic_max(k: f64) -> f64 {
    (1.0 / (k * k)).min(1.0)
}

/// `p_CL = k p'` (`dualpi2_update`).
pub(super) fn coupled(k: f64, p: f64) -> f64 {
    k * p
}

/// `p_C = p'^2` (`dualpi2_update`).
pub(super) fn squared(p: f64) -> f64 {
    p * p
}

/// `laqm`: 0 up to `min_th`, 1 from the end of `range` on (appendix A.1).
pub(super) fn ramp(wait: Span, min_th: Span, range: Span) -> f64 {
    let above = wait.as_nanos().saturating_sub(min_th.as_nanos());
    if wait < min_th {
        0.0
    } else if above >= range.as_nanos() {
        1.0
    } else {
        above as f64 / range.as_nanos() as f64
    }
}

/// Which packets a likelihood hits.
#[derive(Clone, Debug)]
pub(super) enum Hits {
    /// `recur` (appendix A.1): the likelihoods of L and of C, summed up.
    Recur([f64; 2]),
    /// Each by itself.
    Random(Substream),
}

impl Hits {
    pub(super) const RECUR: Self = Self::Recur([0.0; 2]);

    pub(super) fn random(seed: Seed) -> Self {
        Self::Random(Substream::new(seed))
    }

    /// Whether this packet of queue number `queue` is hit.
    pub(super) fn next(&mut self, queue: usize, likelihood: f64) -> bool {
        let likelihood = likelihood.min(1.0);
        match self {
            Self::Recur(counts) => {
                counts[queue] += likelihood;
                let hit = counts[queue] > 1.0;
                if hit {
                    counts[queue] -= 1.0;
                }
                hit
            }
            Self::Random(stream) => stream.chance(likelihood),
        }
    }
}
