//! The minimum delay, against which queueing is told: it follows drifting clocks and longer routes, for an epoch ends only
//! near it.
//!
//! Source: section III.B (the delay relative to the minimum one-way delay seen in the past).
//! Deviations: the paper's minimum never ages, and leaves drift and other routes to its technical report. Ours ages by two
//! rules:
//! - *Drift*: the reference rises by `drift_ppm` from the last time that the minimum was seen. The price: an epoch may end
//!   with that much queue left (200 ppm of the time since the queue was last empty; 40 us after 200 ms).
//! - *Staleness*: during an epoch the rates stand below the output rates, so the queue drains and the delay falls by
//!   `1 - beta` per unit of time. If over a whole window of `stale_rounds` round trips the least delay is not a quarter of
//!   that below the least of the window before, nothing drains: the minimum is stale, and the least of the last window
//!   takes its place. The price: a rate that falls by `beta` per round trip for up to two windows (a third, with the
//!   defaults) after the route became longer; and where a queue stands because others do not back off, it counts as part
//!   of the path until the delay falls again. A lower delay is always believed at once.

use tidegate_units::{Span, Time};

/// How the minimum delay ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumDelayConfig {
    /// The drift between two clocks that must not matter, parts per million; default 200 (two quartz clocks of 100 ppm).
    pub drift_ppm: u32,
    /// Length of a window in round trips; default 10 (assumed: a drain by 2 % shows over the noise of bursts).
    pub stale_rounds: u32,
}

impl Default for MinimumDelayConfig {
    fn default() -> Self {
        Self { drift_ppm: 200, stale_rounds: 10 }
    }
}

impl MinimumDelayConfig {
    /// The same for delays by one clock.
    pub const fn without_drift(self) -> Self {
        Self { drift_ppm: 0, ..self }
    }
}

/// The least delay of one window of an epoch.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Time,
    least: i64,
    /// Of the window before; `None` in the first one.
    before: Option<i64>,
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
        match self.least {
            Some((least, seen)) => {
                let aged = now.since(seen).as_nanos() / 1_000_000 * u64::from(self.config.drift_ppm);
                let above = delay.saturating_sub(least).saturating_sub(aged.cast_signed());
                if above > 0 {
                    return above.unsigned_abs();
                }
            }
            None => {}
        }
        self.least = Some((delay, now));
        0
    }

    /// The queue should be draining by `drain` (a share of time), `delay` is seen, and a round trip takes `t`.
    pub fn watch_drain(&mut self, delay: i64, drain: f64, t: Span, now: Time) {
        let length = t.saturating_mul(u64::from(self.config.stale_rounds));
        let window = self.window.get_or_insert(Window { began: now, least: delay, before: None });
        window.least = window.least.min(delay);
        if now.since(window.began) < length {
            return;
        }
        let least = window.least;
        let fall = (drain * length.as_nanos() as f64 / 4.0) as i64;
        if window.before.is_some_and(|before| least > before.saturating_sub(fall)) {
            self.least = Some((least, now));
            self.window = None;
        } else {
            self.window = Some(Window { began: now, least: delay, before: Some(least) });
        }
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

    fn minimum() -> MinimumDelay {
        MinimumDelay::new(MinimumDelayConfig::default())
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
    fn a_drift_of_200_ppm_either_way_shows_no_queue() {
        for ppm in [-200_i64, -50, 0, 50, 200] {
            let mut minimum = minimum();
            for millis in 0..100_000_u64 {
                let delay = 12_000_000 + millis.cast_signed() * ppm;
                assert_eq!(minimum.excess(delay, at(millis)), 0, "{ppm} ppm after {millis} ms");
            }
        }
    }

    #[test]
    fn a_queue_that_drains_is_never_taken_for_a_longer_route() {
        let mut minimum = minimum();
        minimum.excess(12_000_000, at(0));
        // 40 ms of queue that drain by 2 %, sampled twice per round trip.
        let mut delay = 52_000_000_i64;
        let mut millis = 0;
        while delay > 13_000_000 {
            millis += 12;
            delay -= 240_000;
            minimum.watch_drain(delay, 0.02, T, at(millis));
            assert!(minimum.excess(delay, at(millis)) > 0);
        }
    }

    #[test]
    fn a_longer_route_becomes_the_minimum_within_two_windows_whatever_the_clocks_do() {
        for ppm in [-200_i64, 0, 200] {
            let mut minimum = minimum();
            minimum.excess(12_000_000, at(0));
            let mut until = None;
            for round in 1..100_u64 {
                let millis = round * 12;
                let delay = 22_000_000 + millis.cast_signed() * ppm;
                if minimum.excess(delay, at(millis)) < 100_000 {
                    until = Some(millis);
                    break;
                }
                minimum.watch_drain(delay, 0.02, T, at(millis));
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
