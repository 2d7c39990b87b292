//! The accumulation: what one virtual link adds to queues, from what is counted between two control packets at either
//! edge; and the delay below which an epoch is over.
//!
//! Source: section III.A (Fig. 3) and III.B.
//! Deviations:
//! - IEC-1: the estimate never falls below zero (assumed): errors of measurement would otherwise hide a later queue.
//! - IEC-2: the catalogue takes bytes counted at either edge between control packets as equivalent. They are not: a control
//!   packet stands in the same queue as data, so that without loss both counts are equal. What differs is the time in which
//!   they came: `tau` at the ingress, the interval between arrivals at the egress. So `(lambda - nu) tau` is the output
//!   rate times the growth of the delay, which is the virtual link's part of the growth of the queue. The counts are
//!   cumulative, so that a lost control packet only makes an interval longer.

use tidegate_units::{Span, Time};

use super::{MinimumDelay, MinimumDelayConfig};

/// `(lambda - nu) tau` in bytes: `sent` bytes entered in `tau` and `received` bytes left in `arrival`.
pub fn growth(sent: u64, tau: Span, received: u64, arrival: Span) -> f64 {
    let nu = received as f64 / arrival.as_secs_f64();
    sent as f64 - nu * tau.as_secs_f64()
}

/// `q`, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accumulation {
    /// The running estimate.
    pub q: f64,
}

impl Accumulation {
    /// Adds the growth over an interval.
    pub fn add(&mut self, growth: f64) {
        self.q = (self.q + growth).max(0.0);
    }
}

/// What detects the congestion epochs of one virtual link: at the egress by one-way delays, or at the ingress by round-trip
/// times.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// This virtual link's part of the queues.
    pub accumulation: Accumulation,
    /// The delay without queueing.
    pub minimum: MinimumDelay,
    /// Whether an epoch is on.
    pub is_on: bool,
}

impl Epoch {
    /// Nothing was seen yet.
    pub const fn new(config: MinimumDelayConfig) -> Self {
        Self { accumulation: Accumulation { q: 0.0 }, minimum: MinimumDelay::new(config), is_on: false }
    }

    /// Accumulation above `sigma` begins the epoch, a delay within epsilon of the minimum ends it (section III). `nu` is the
    /// output rate, `t` the round-trip time, `drain` is `1 - beta`.
    pub fn detect(&mut self, delay: i64, sigma: f64, nu: f64, t: Span, drain: f64, now: Time) {
        let epsilon = epsilon_nanos(sigma, nu);
        let is_near_minimum = self.minimum.excess(delay, now) <= epsilon;
        if self.is_on {
            if is_near_minimum {
                self.is_on = false;
                // "Reset at the end of each congestion epoch to avoid propagation of measurement errors."
                self.accumulation = Accumulation::default();
                self.minimum.stop_watching();
            } else {
                self.minimum.watch(delay, epsilon, t, drain, now);
            }
        } else if self.accumulation.q > sigma && !is_near_minimum {
            self.is_on = true;
        }
    }
}

/// `epsilon = sigma / (2 nu)` in nanoseconds; endless while nothing leaves.
pub fn epsilon_nanos(sigma: f64, nu: f64) -> u64 {
    (sigma / (2.0 * nu) * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accumulation_is_the_output_rate_times_the_growth_of_the_delay() {
        let mut accumulation = Accumulation::default();
        // 10 kB in 10 ms arrive in 12 ms: 2 ms more delay at 833 kB/s.
        accumulation.add(growth(10_000, Span::from_millis(10), 10_000, Span::from_millis(12)));
        assert!((accumulation.q - 10_000.0 / 12.0 * 2.0).abs() < 1e-9);
        // The delay shrinks again.
        accumulation.add(growth(10_000, Span::from_millis(12), 10_000, Span::from_millis(10)));
        assert_eq!(accumulation.q, 0.0);
    }

    #[test]
    fn accumulation_begins_an_epoch_and_delay_ends_it() {
        let mut epoch = Epoch::new(crate::edge::iec::OverlayConfig::default().minimum());
        let mut see = |millis: i64, grown: f64, is_on: bool, q: f64| {
            epoch.accumulation.add(grown);
            let now = Time::from_nanos(0);
            // Epsilon is 4 ms.
            epoch.detect(millis * 1_000_000, 1000.0, 125_000.0, Span::from_millis(40), 0.02, now);
            assert_eq!((epoch.is_on, epoch.accumulation.q), (is_on, q), "{millis} ms");
        };
        see(20, 0.0, false, 0.0);
        see(24, 1500.0, false, 1500.0); // accumulation alone does not begin it: the delay is within epsilon
        see(25, 0.0, true, 1500.0);
        see(25, -1000.0, true, 500.0); // nor does its fall end it
        see(24, -400.0, false, 0.0);
        see(60, 1000.0, false, 1000.0); // delay alone does not begin it
    }

    #[test]
    fn epsilon_is_the_time_in_which_half_a_burst_leaves() {
        assert_eq!(epsilon_nanos(1000.0, 125_000.0), 4_000_000);
        assert_eq!(epsilon_nanos(1000.0, 0.0), u64::MAX);
    }

    proptest! {
        #[test]
        fn the_estimate_follows_a_fluid_queue(
            steps in prop::collection::vec((1_000u64..2_000_000, 0.9f64..1.3), 1..40),
        ) {
            // One virtual link alone on a bottleneck of 1 MB/s: its accumulation is the whole queue.
            let mu = 1e6;
            let (mut accumulation, mut queue, mut delay) = (Accumulation::default(), 0.0f64, 0.0f64);
            for (micros, load) in steps {
                let tau = micros as f64 * 1e-6;
                let sent = load * mu * tau;
                queue = (queue + sent - mu * tau).max(0.0);
                let arrival = tau + queue / mu - delay;
                delay = queue / mu;
                let before = accumulation.q;
                accumulation.add(growth(
                    sent as u64, Span::from_secs_f64(tau), sent as u64, Span::from_secs_f64(arrival),
                ));
                // While the queue is busy the output rate is mu and the estimate exact, but for whole bytes and nanoseconds.
                if queue > 0.0 && load > 1.0 {
                    prop_assert!((accumulation.q - before - (sent - mu * tau)).abs() < 5.0 + 1e-3 * queue);
                }
            }
        }
    }
}
