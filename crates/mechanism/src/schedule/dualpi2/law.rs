//! What `DualPI2` calculates beyond [`PI2`](crate::queue::Pi2): constants, the ramp of L, and which packet a likelihood hits.
//!
//! Source: RFC 9332, appendix A: Fig. 2 (constants), Fig. 3 (`recur`), Fig. 4 (`laqm`).
//! Deviations: what `recur` adds for one packet is at most one; the module above has the others.

use tidegate_units::Span;

use crate::queue::pi2::T_UPDATE_MIN;
use crate::random::{Seed, Substream};

/// `p_Lmax`: above this coupled probability the signal of L is saturated (Fig. 2).
pub(super) const P_L_MAX: f64 = 1.0;

/// `Tupdate = min(target, RTT_max / 3)` (Fig. 2), bounded as one that is given ([`T_UPDATE_MIN`]).
pub(super) fn update_interval(target: Span, rtt_max: Span) -> Span {
    Span::from_nanos(target.as_nanos().min(rtt_max.as_nanos() / 3)).max(T_UPDATE_MIN)
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
