//! The minimum delay, against which queueing is told: it follows drifting clocks and longer routes, for an epoch ends only
//! near it.
//!
//! Source: section III.B (the delay relative to the minimum one-way delay seen in the past).
//! Deviations: the paper's minimum never ages, and leaves drift and other routes to its technical report. Ours ages by
//! these rules:
//! - *Drift*: a round-trip time is measured by one clock, so that no drift touches it, and what it is above its least bounds
//!   the queueing. Where a one-way delay is further above the minimum than that, the clocks have drifted apart, and the
//!   minimum rises by the difference. The price: a false epoch, of a round trip or two, whenever the drift exceeds epsilon.
//!   The least round-trip time is known within half of epsilon, for the egress answers each delay that is so much less than
//!   any before; so the minimum rises no more than that above the path, however long no queue is empty.
//! - *Staleness*: during an epoch the queue either drains, by `1 - beta` per unit of time, or others fill it; in both cases
//!   the delay moves. If over a window all delays lie within epsilon of each other and yet above the minimum, they are the
//!   path: the least of them becomes the minimum. A window lasts `stale_rounds` round trips, or as long as a drain would take
//!   to move the delay by eight epsilons, but no more than four times `stale_rounds`. (With 100 virtual links of 5 packets per
//!   round trip, windows of 10 and 15 round trips took fluctuations for another path; 20 did not.) The price: a rate that
//!   falls by `beta` per round trip for up to two windows (a third, with the defaults and many packets per round trip) after
//!   the route became longer. Where other traffic moves the delay by more, it lasts until the rate is so low that epsilon
//!   covers that, for epsilon grows as the rate falls; so no epoch is open for ever. A lower delay is always believed at once.
//! - *Ageing*, off by default: the reference rises by `drift_ppm` from the last time that the minimum was seen. It needs no
//!   round-trip times, but where the queue is never empty it rises for ever.

use tidegate_units::{Span, Time};

/// How the minimum delay ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumDelayConfig {
    /// How fast the minimum rises, parts per million.
    pub drift_ppm: u32,
    /// Least length of a window in round trips.
    pub stale_rounds: u32,
}

impl MinimumDelayConfig {
    /// The same for delays by one clock.
    pub const fn without_drift(self) -> Self {
        Self { drift_ppm: 0, ..self }
    }
}

/// By so many epsilons would a drain move the delay in a window.
const WINDOW_EPSILONS: u64 = 8;
/// A window is at most so many times `stale_rounds` long.
const WINDOW_FACTOR_MAX: u64 = 4;

/// How long a window lasts, when a drain takes `1 / drain` of the time in which the delay falls.
fn window_length(epsilon_nanos: u64, drain: f64, t: Span, stale_rounds: u32) -> Span {
    let least = t.saturating_mul(u64::from(stale_rounds));
    let drains = (epsilon_nanos.saturating_mul(WINDOW_EPSILONS) as f64 / drain) as u64;
    Span::from_nanos(drains).clamp(least, least.saturating_mul(WINDOW_FACTOR_MAX))
}

/// The delays of one window of an epoch.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Time,
    least: i64,
    greatest: i64,
}

/// See the module. Delays are nanoseconds between two clocks that do not agree, so they may be negative.
#[derive(Clone, Debug)]
pub struct MinimumDelay {
    config: MinimumDelayConfig,
    /// The least delay, and when it was seen.
    least: Option<(i64, Time)>,
    window: Option<Window>,
}

impl MinimumDelay {
    /// No delay was seen yet.
    pub const fn new(config: MinimumDelayConfig) -> Self {
        Self { config, least: None, window: None }
    }

    /// How far `delay` is above the minimum, in nanoseconds. It becomes the minimum if it is not above.
    pub fn excess(&mut self, delay: i64, now: Time) -> u64 {
        if let Some((least, seen)) = self.least {
            let aged = now.since(seen).as_nanos() / 1_000_000 * u64::from(self.config.drift_ppm);
            let above = delay.saturating_sub(least).saturating_sub(aged.cast_signed());
            if above > 0 {
                return above.unsigned_abs();
            }
        }
        self.least = Some((delay, now));
        0
    }

    /// The packet that saw `delay` met at most `queueing`: what `delay` is above the minimum beyond that is drift.
    pub fn bound(&mut self, delay: i64, queueing: Span) {
        if let Some((least, _)) = &mut self.least {
            *least = delay.saturating_sub_unsigned(queueing.as_nanos()).max(*least);
        }
    }

    /// An epoch is on, `delay` is seen, and a round trip takes `t`: looks for a minimum that is stale. `drain` is `1 - beta`.
    pub fn watch(&mut self, delay: i64, epsilon_nanos: u64, t: Span, drain: f64, now: Time) {
        let length = window_length(epsilon_nanos, drain, t, self.config.stale_rounds);
        let window = self.window.get_or_insert(Window { began: now, least: delay, greatest: delay });
        window.least = window.least.min(delay);
        window.greatest = window.greatest.max(delay);
        if now.since(window.began) < length {
            return;
        }
        // Both the path's own delay and the reference may have drifted.
        let drift = length.as_nanos() / 1_000_000 * u64::from(self.config.drift_ppm) * 2;
        if window.greatest.abs_diff(window.least) <= epsilon_nanos.saturating_add(drift) {
            self.least = Some((window.least, now));
        }
        self.window = None;
    }

    /// No epoch is on.
    pub const fn stop_watching(&mut self) {
        self.window = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Span = Span::from_millis(25);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// `1 - beta`.
    const DRAIN: f64 = 0.02;

    fn minimum() -> MinimumDelay {
        MinimumDelay::new(crate::edge::iec::OverlayConfig::default().minimum())
    }

    fn ageing() -> MinimumDelay {
        MinimumDelay::new(MinimumDelayConfig {
            drift_ppm: 200,
            ..crate::edge::iec::OverlayConfig::default().minimum()
        })
    }

    #[test]
    fn clocks_that_disagree_do_not_matter() {
        for offset in [-5_000_000_000_i64, 0, 7_000_000_000] {
            let mut minimum = minimum();
            assert_eq!(minimum.excess(offset + 12_000_000, at(0)), 0);
            assert_eq!(minimum.excess(offset + 12_500_000, at(0)), 500_000);
            assert_eq!(minimum.excess(offset + 11_000_000, at(1)), 0);
            assert_eq!(minimum.excess(offset + 12_000_000, at(1)), 1_000_000);
        }
    }

    #[test]
    fn with_ageing_a_drift_of_200_ppm_either_way_shows_no_queue() {
        for ppm in [-200_i64, -50, 0, 50, 200] {
            let mut minimum = ageing();
            for millis in 0..100_000_u64 {
                let delay = 12_000_000 + millis.cast_signed() * ppm;
                assert_eq!(minimum.excess(delay, at(millis)), 0, "{ppm} ppm after {millis} ms");
            }
        }
    }

    #[test]
    fn round_trip_times_tell_drift_from_queueing() {
        let mut minimum = minimum();
        minimum.excess(12_000_000, at(0));
        // 3 ms above the minimum, of which at most 1 ms is queueing.
        minimum.bound(15_000_000, Span::from_millis(1));
        assert_eq!(minimum.excess(15_000_000, at(1)), 1_000_000);
        // A bound above what is seen says nothing.
        minimum.bound(15_000_000, Span::from_millis(9));
        assert_eq!(minimum.excess(15_000_000, at(2)), 1_000_000);
    }

    #[test]
    fn a_window_is_long_enough_for_a_drain_to_show() {
        // 250 packets per round trip: epsilon is a five-hundredth of it.
        assert_eq!(window_length(50_000, DRAIN, T, 10), Span::from_millis(250));
        // 6.25 packets per round trip: epsilon is 2 ms, and 16 ms drain in 32 round trips.
        assert_eq!(window_length(2_000_000, DRAIN, T, 10), Span::from_millis(800));
        assert_eq!(window_length(u64::MAX, DRAIN, T, 10), Span::from_millis(1000));
    }

    #[test]
    fn a_queue_that_drains_or_fluctuates_is_never_taken_for_a_longer_route() {
        let mut minimum = minimum();
        minimum.excess(12_000_000, at(0));
        // 40 ms of queue that drain by 2 %, sampled twice per round trip.
        let mut delay = 52_000_000_i64;
        let mut millis = 0;
        while delay > 13_000_000 {
            millis += 12;
            delay -= 240_000;
            minimum.watch(delay, 80_000, T, DRAIN, at(millis));
            assert!(minimum.excess(delay, at(millis)) > 0);
        }
        // A queue that others keep standing, between 8 and 16 ms.
        for round in 0..1000_u64 {
            millis += 12;
            let standing = 20_000_000 + (round % 10).cast_signed() * 800_000;
            minimum.watch(standing, 4_000_000, T, DRAIN, at(millis));
            assert!(minimum.excess(standing, at(millis)) > 4_000_000);
        }
    }

    #[test]
    fn a_longer_route_becomes_the_minimum_within_two_windows_whatever_the_clocks_do() {
        for ppm in [-200_i64, 0, 200] {
            let mut minimum = ageing();
            minimum.excess(12_000_000, at(0));
            let mut until = None;
            for round in 1..100_u64 {
                let millis = round * 12;
                let delay = 22_000_000 + millis.cast_signed() * ppm;
                if minimum.excess(delay, at(millis)) < 100_000 {
                    until = Some(millis);
                    break;
                }
                minimum.watch(delay, 80_000, T, DRAIN, at(millis));
            }
            assert!(until.is_some_and(|millis| millis <= 2 * 250 + 36), "{ppm} ppm: {until:?}");
        }
    }

    #[test]
    fn a_shorter_route_is_believed_at_once() {
        let mut minimum = minimum();
        minimum.excess(22_000_000, at(0));
        assert_eq!(minimum.excess(12_000_000, at(1)), 0);
        assert_eq!(minimum.excess(22_000_000, at(1)), 10_000_000);
    }
}
