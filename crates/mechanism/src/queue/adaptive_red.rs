//! Adaptive RED: RED that finds its own aggressiveness. How often packets must be marked depends on how many flows there
//! are, so no fixed `max_p` fits; where the average queue leaves the thresholds says in which direction it is wrong.
//!
//! Source: W. Feng, thesis, section 3.2.3 and Fig. 3.6; ns-2.35 `red.cc`, `updateMaxPFeng`; for a `max_p` above one the
//! thesis, section 3.5 and Fig. 3.27.
//! Deviations:
//! - `max_p` is kept within [`AdaptiveRedConfig::floor`] and [`AdaptiveRedConfig::ceiling`]; Fig. 3.6 and ns-2 have no
//!   bounds, and a quiet link would need dozens of crossings to become aggressive again.
//! - The status is "between" at the start, so an average that starts below `min_th` divides `max_p` once at the first
//!   packet (ns-2 does the same).
//! - Fig. 3.27 is lost but for its caption. Settled: for a `max_p` above one, `p_b = 1 - (1 - x)^max_p` with x the place
//!   of the average between the thresholds. It is the straight line for `max_p` = 1, keeps `max_p` as the slope at
//!   `min_th`, stays a probability, and reaches one at `max_th`. See [`super::red`].

use alloc::format;

use tidegate_packet::{Backlog, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Time};

use super::red::WITHOUT_FLOWS;
use super::{QueueManager, Red, RedConfig, Verdict};
use crate::{Context, Variable};

/// Above 1, or `max_p` would not move.
const FACTOR: Bound<f64> = Bound::above(1.0)
    .and_below(f64::INFINITY)
    .saying("", " does not change max_p as it should")
    .helping("above 1");
/// At 1000 everything above `min` is notified.
const CEILING: Bound<f64> = Bound::at_most(1_000.0).saying("", " is no bound");

parameters! {
    /// # Adaptive RED
    ///
    /// RED that finds its own `max_p`: divides it when the average falls below `min`, multiplies it when the average rises
    /// above `max`. The `max_p` given is where it starts.
    ///
    /// Source: thesis of Feng, section 3.2.3 and Fig. 3.6; ns (`feng_adaptive_`).
    #[derive(Copy)]
    pub struct AdaptiveRedConfig {
        ..red: RedConfig;
        /// Divides `max_p` when the average falls below `min`. Source: thesis of Feng, section 3.2.3.
        alpha: f64 = 3.0 => FACTOR;
        /// Multiplies `max_p` when the average rises above `max`. Source: thesis of Feng, section 3.2.3.
        beta: f64 = 2.0 => FACTOR;
        /// The smallest `max_p`. Source: assumed.
        floor: f64 = 0.001 => bound::ABOVE_ZERO;
        /// The largest `max_p`; above 1 the probability is no straight line but `1 - (1 - x)^max_p`. Source: thesis of
        /// Feng, section 3.5; for values above 1 its Fig. 3.27.
        ceiling: f64 = 1.0 => CEILING;
    }
    check |config, report| {
        if config.floor > config.ceiling {
            report.say("floor", format!("floor ({}) is above ceiling ({})", config.floor, config.ceiling), "");
        }
        let help = "leave it out, or use `kind = \"red\"`";
        for (key, is_given) in [("flows_rtt", config.red.flows_rtt), ("slope_rtt", config.red.slope_rtt)] {
            if is_given.is_some() {
                report.say(key, "max_p follows the average here, not the number of flows", help);
            }
        }
    };
}

impl AdaptiveRedConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> AdaptiveRed {
        assert!(self.alpha > 1.0 && self.beta > 1.0, "alpha divides and beta multiplies: both are above 1");
        assert!(self.floor > 0.0 && self.floor <= self.ceiling, "0 < floor <= ceiling");
        let is_plain = self.red.flows_rtt.is_none() && self.red.slope_rtt.is_none();
        assert!(is_plain, "max_p follows the average or the number of flows, not both");
        let mut red = self.red.build(context);
        red.set_max_p(red.max_p().clamp(self.floor, self.ceiling));
        AdaptiveRed { red, status: Status::Between, config: *self }
    }
}

/// Where the average was last; on a threshold it stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Below,
    Between,
    Above,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct AdaptiveRed {
    red: Red,
    status: Status,
    config: AdaptiveRedConfig,
}

impl QueueManager for AdaptiveRed {
    fn variables() -> &'static [Variable] {
        &WITHOUT_FLOWS
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let avg = self.red.observe(packet, queue, now);
        self.steer(avg);
        self.red.decide(packet, queue, now)
    }

    fn on_idle(&mut self, now: Time) {
        self.red.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.red.set_link_rate(rate, now);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        self.red.variable(name)
    }
}

impl AdaptiveRed {
    /// Fig. 3.6: at every update of the average.
    #[inline]
    fn steer(&mut self, avg: f64) {
        let (min_th, max_th) = self.red.thresholds();
        if avg < min_th && self.status != Status::Below {
            self.status = Status::Below;
            self.red.set_max_p((self.red.max_p() / self.config.alpha).max(self.config.floor));
        } else if avg > max_th && self.status != Status::Above {
            self.status = Status::Above;
            self.red.set_max_p((self.red.max_p() * self.config.beta).min(self.config.ceiling));
        } else if min_th < avg && avg < max_th {
            self.status = Status::Between;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limit::threshold;
    use crate::queue::{Fifo, QueueDiscipline, QueueLimit};
    use crate::schedule::testing::{arrivals, drive};
    use proptest::prelude::*;
    use tidegate_units::{BitRate, Limit};

    fn adaptive(config: AdaptiveRedConfig) -> AdaptiveRed {
        config.build(&Context::for_tests())
    }

    /// What `max_p` is after the average was at each of `averages`.
    fn steered(config: AdaptiveRedConfig, averages: &[f64]) -> f64 {
        let mut red = adaptive(config);
        for &avg in averages {
            red.steer(avg);
        }
        red.red.max_p()
    }

    #[test]
    fn max_p_doubles_at_each_crossing_of_max_th_and_falls_to_a_third_at_each_of_min_th() {
        let after = |averages: &[f64]| steered(AdaptiveRedConfig::default(), averages) / 0.02;
        assert_eq!(after(&[10.0, 16.0]), 2.0);
        assert_eq!(after(&[10.0, 16.0, 17.0, 16.0]), 2.0);
        assert_eq!(after(&[10.0, 16.0, 10.0, 16.0]), 4.0);
        assert!((after(&[10.0, 4.0]) - 1.0 / 3.0).abs() < 1e-15);
        assert!((after(&[10.0, 4.0, 16.0]) - 2.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn an_average_on_a_threshold_changes_nothing() {
        assert_eq!(steered(AdaptiveRedConfig::default(), &[10.0, 15.0, 5.0, 10.0]), 0.02);
        // 15 is not "between": coming back from above to it and above again is one crossing.
        assert_eq!(steered(AdaptiveRedConfig::default(), &[16.0, 15.0, 16.0]), 0.04);
    }

    #[test]
    fn a_queue_that_starts_empty_divides_max_p_once() {
        assert!((steered(AdaptiveRedConfig::default(), &[0.0, 0.0, 0.0]) - 0.02 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn max_p_stays_within_its_bounds() {
        let swings: alloc::vec::Vec<f64> = (0..100).flat_map(|_| [10.0, 16.0]).collect();
        assert_eq!(steered(AdaptiveRedConfig::default(), &swings), 1.0);
        assert_eq!(steered(AdaptiveRedConfig { ceiling: 8.0, ..AdaptiveRedConfig::default() }, &swings), 8.0);
        let lulls: alloc::vec::Vec<f64> = (0..100).flat_map(|_| [10.0, 4.0]).collect();
        assert_eq!(steered(AdaptiveRedConfig::default(), &lulls), 0.001);
    }

    fn configs() -> impl Strategy<Value = AdaptiveRedConfig> {
        let core = (0.0..5.0f64, 0.1..10.0f64, 0.001..1.0f64, 0.0..=1.0f64, 1u32..30, any::<[bool; 3]>());
        (core, 1.01..10.0f64, 1.01..10.0f64, 0.0001..0.9f64, 1.0..20.0f64).prop_map(
            |((min_th, width, w, max_p, limit, [ns, gentle, smooth]), alpha, beta, floor, ceiling)| {
                let base = if ns { RedConfig::ns() } else { RedConfig::default() };
                let smoothing = smooth.then_some(tidegate_units::Span::from_micros(100));
                let limit = Limit::Packets(limit);
                let red = RedConfig {
                    min: threshold(min_th),
                    max: threshold(min_th + width),
                    weight: w,
                    max_p,
                    limit,
                    gentle,
                    smoothing,
                    ..base
                };
                AdaptiveRedConfig { red, alpha, beta, floor, ceiling }
            },
        )
    }

    proptest! {
        #[test]
        fn any_configuration_keeps_the_invariants(config in configs(), vector in arrivals(3, 300)) {
            let mut fifo = Fifo::new(adaptive(config));
            let limit = QueueLimit::new(config.red.limit, BitRate::from_mbps(10));
            drive(&mut fifo, &vector, 8, |backlog| assert!(!limit.exceeded_by(backlog)));
            let variable = |name| fifo.variable(name).expect("Adaptive RED has it");
            prop_assert!((0.0..=1.0).contains(&variable("marking_probability")));
            prop_assert!((config.floor..=config.ceiling).contains(&variable("max_p")));
        }
    }
}
