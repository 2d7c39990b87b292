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

use tidegate_units::Span;

/// `q`, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accumulation {
    /// The running estimate.
    pub q: f64,
}

impl Accumulation {
    /// `sent` bytes entered in `tau` and `received` bytes left in `arrival`: adds `(lambda - nu) tau`.
    pub fn add(&mut self, sent: u64, tau: Span, received: u64, arrival: Span) {
        let nu = received as f64 / arrival.as_secs_f64();
        self.q = (self.q + sent as f64 - nu * tau.as_secs_f64()).max(0.0);
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
        accumulation.add(10_000, Span::from_millis(10), 10_000, Span::from_millis(12));
        assert!((accumulation.q - 10_000.0 / 12.0 * 2.0).abs() < 1e-9);
        // The delay shrinks again.
        accumulation.add(10_000, Span::from_millis(12), 10_000, Span::from_millis(10));
        assert_eq!(accumulation.q, 0.0);
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
                accumulation.add(
                    sent as u64, Span::from_secs_f64(tau), sent as u64, Span::from_secs_f64(arrival),
                );
                // While the queue is busy the output rate is mu and the estimate exact, but for whole bytes and nanoseconds.
                if queue > 0.0 && load > 1.0 {
                    prop_assert!((accumulation.q - before - (sent - mu * tau)).abs() < 5.0 + 1e-3 * queue);
                }
            }
        }
    }
}
