//! What PI2 calculates, with one queue or with two ([`DualPi2`](crate::schedule::DualPi2)): the controller of the delay, and what
//! its probability is to either kind of sender.
//!
//! Source: RFC 9332, appendix A: Fig. 2 (constants), Fig. 5 (coupling), Figs. 5 and 8 (controller).
//! Deviations: the probability has a bound of its own, for one queue says no more when L4S packets are all marked.

use tidegate_units::Span;

/// The proportional integral controller of the base probability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Controller {
    /// Integral gain, in 1/s per update and second of delay.
    pub alpha: f64,
    /// Proportional gain, in 1/s.
    pub beta: f64,
    pub target: Span,
    /// What `p'` does not exceed.
    pub p_max: f64,
    /// `p'`.
    pub p: f64,
    /// The delay at the update before.
    pub prevq: Span,
}

impl Controller {
    /// `dualpi2_update`: within 0 and a bound, as the text asks.
    pub(crate) fn update(&mut self, curq: Span) {
        self.p +=
            self.alpha * seconds_beyond(curq, self.target) + self.beta * seconds_beyond(curq, self.prevq);
        self.p = self.p.clamp(0.0, self.p_max);
        self.prevq = curq;
    }

    /// Whether updates change nothing while nothing waits.
    pub(crate) const fn is_at_rest(&self) -> bool {
        self.p == 0.0 && self.prevq.is_zero()
    }
}

/// `a - b` in seconds.
fn seconds_beyond(a: Span, b: Span) -> f64 {
    (a.as_nanos().cast_signed() - b.as_nanos().cast_signed()) as f64 / 1e9
}

/// `p_CL = k p'` (`dualpi2_update`).
pub(crate) fn coupled(k: f64, p: f64) -> f64 {
    k * p
}

/// `p_C = p'^2` (`dualpi2_update`).
pub(crate) fn squared(p: f64) -> f64 {
    p * p
}

/// Where `k p'` is one, or 1.
pub(super) fn base_max(k: f64) -> f64 {
    (1.0 / k).min(1.0)
}
