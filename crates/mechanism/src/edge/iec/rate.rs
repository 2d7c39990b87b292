//! AIMD-ER: additive increase; multiplicative decrease of the explicitly fed back output rate, not of the input rate.
//!
//! Source: section II.B and Fig. 2; slow start and the back-off after a loss: sections II.B and III.B.
//! Deviations:
//! - "Backs off by nu/2" is read as `r <- nu/2` (settled in the catalogue).
//! - The slow start doubles the rate in steps of a quarter of a round trip, as acknowledgments make that of TCP nearly
//!   continuous. In one step of two, the rate would be up to twice the capacity when congestion is first seen.
//! - No rate falls below `rate_min`: a virtual link of which nothing left could never measure an output rate again.
//!
//! Rates are bytes per second.

/// How the rate grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// It doubles each round trip, in four equal factors, until the first negative feedback.
    #[default]
    SlowStart,
    /// It grows by `sigma / T` each round trip.
    AimdEr,
}

/// Steps of the slow start in a round trip, and the factor of each: the fourth root of two.
pub const SLOW_START_STEPS: u64 = 4;
const SLOW_START_FACTOR: f64 = 1.189_207_115_002_721;

/// The constants of the law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateLimits {
    /// `sigma`, bytes.
    pub sigma: f64,
    /// `beta`.
    pub beta: f64,
    /// The back-off after a loss.
    pub loss_backoff: f64,
    /// The least rate.
    pub rate_min: f64,
}

/// The rate limit `r` of one virtual link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VirtualLinkRate {
    /// How it grows.
    pub phase: Phase,
    /// `r`, bytes per second.
    pub r: f64,
}

impl VirtualLinkRate {
    /// A new virtual link.
    pub const fn new(r: f64) -> Self {
        Self { phase: Phase::SlowStart, r }
    }

    /// A round trip of `t` seconds begins outside of congestion epochs; in slow start, a quarter of one.
    pub fn on_round(&mut self, t: f64, limits: &RateLimits) {
        self.r = match self.phase {
            Phase::SlowStart => self.r * SLOW_START_FACTOR,
            Phase::AimdEr => self.r + additive_increase(t, limits),
        };
    }

    /// Negative feedback with the output rate `nu`: `r <- beta nu`, after a loss `r <- nu / 2`.
    pub fn on_congestion(&mut self, nu: f64, has_loss: bool, limits: &RateLimits) {
        let backoff = if has_loss { limits.loss_backoff } else { limits.beta };
        self.phase = Phase::AimdEr;
        self.r = (backoff * nu).max(limits.rate_min);
    }
}

/// `sigma / T` (section II.B).
fn additive_increase(t: f64, limits: &RateLimits) -> f64 {
    limits.sigma / t
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: RateLimits = RateLimits { sigma: 1000.0, beta: 0.98, loss_backoff: 0.5, rate_min: 1000.0 };

    #[test]
    fn the_decrease_applies_to_the_output_rate_not_to_the_input_rate() {
        let mut rate = VirtualLinkRate::new(9e9);
        rate.on_congestion(1e6, false, &LIMITS);
        assert_eq!(rate, VirtualLinkRate { phase: Phase::AimdEr, r: 0.98e6 });
        // Repeated feedback with the same output rate holds the rate flat (Fig. 2).
        rate.on_congestion(1e6, false, &LIMITS);
        assert_eq!(rate.r, 0.98e6);
        rate.on_congestion(1e6, true, &LIMITS);
        assert_eq!(rate.r, 0.5e6);
    }

    #[test]
    fn the_rate_doubles_until_the_first_epoch_and_then_grows_by_one_burst_per_round_trip() {
        let mut rate = VirtualLinkRate::new(10_000.0);
        for _ in 0..2 * SLOW_START_STEPS {
            rate.on_round(0.04, &LIMITS);
        }
        assert!((rate.r - 40_000.0).abs() < 1e-9, "{}", rate.r);
        rate.on_congestion(20_000.0, false, &LIMITS);
        rate.on_round(0.04, &LIMITS);
        assert_eq!(rate.r, 19_600.0 + 25_000.0);
    }

    proptest! {
        #[test]
        fn the_rate_stays_finite_and_above_its_least(
            steps in prop::collection::vec((0u8..3, 1e-4f64..1.0, 0.0f64..1e10), 0..200),
        ) {
            let mut rate = VirtualLinkRate::new(20_000.0);
            for (what, t, nu) in steps {
                match what {
                    0 if rate.r < 1e12 => rate.on_round(t, &LIMITS),
                    _ => {
                        rate.on_congestion(nu, what == 2, &LIMITS);
                        prop_assert!(rate.r <= (0.98 * nu).max(LIMITS.rate_min));
                    }
                }
                prop_assert!(rate.r.is_finite() && rate.r >= LIMITS.rate_min);
            }
        }
    }
}
