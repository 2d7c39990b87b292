//! The clock of a gateway.

use tidegate_units::{Span, Time};

/// A billion parts.
const WHOLE: i128 = 1_000_000_000;

/// A clock that is ahead by an offset, and fast or slow by a drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    offset_nanos: i128,
    drift_ppb: i128,
}

impl Clock {
    /// One that is ahead by `offset`, and fast by `drift_ppm` parts in a million, below 100,000 either way.
    pub fn new(offset: Span, drift_ppm: f64) -> Self {
        let drift_ppb = (drift_ppm.clamp(-1e5, 1e5) * 1000.0) as i128;
        Self { offset_nanos: offset.as_nanos().into(), drift_ppb }
    }

    /// What it shows at `now`; nothing before zero.
    pub fn shows(self, now: Time) -> Time {
        let nanos = i128::from(now.as_nanos());
        let shown = nanos + nanos * self.drift_ppb / WHOLE + self.offset_nanos;
        Time::from_nanos(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }

    /// An instant at which it shows `local` or more, and not much later than the first.
    pub fn when(self, local: Time) -> Time {
        let since = i128::from(local.as_nanos()) - self.offset_nanos;
        let exact = since * WHOLE / (WHOLE + self.drift_ppb);
        // Both divisions round, by a nanosecond each.
        Time::from_nanos(u64::try_from((exact + 2).max(0)).unwrap_or(u64::MAX))
    }

    /// From now on it shows so many seconds more, or less.
    pub fn step(&mut self, seconds: f64) {
        self.offset_nanos += (seconds * 1e9) as i128;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_is_asked_for_when_it_says() {
        for drift in [-500.0, -0.3, 0.0, 0.3, 500.0] {
            let mut clock = Clock::new(Span::from_secs(3600), drift);
            for step in [0.0, 1.5, -7.25] {
                clock.step(step);
                for nanos in [3_700_000_000_000_u64, 3_700_000_000_001, 9_999_999_999_999] {
                    let local = Time::from_nanos(nanos);
                    let shown = clock.shows(clock.when(local));
                    assert!(
                        shown >= local && shown.since(local) < Span::from_nanos(10),
                        "{drift} {step} {nanos}"
                    );
                }
            }
        }
    }
}
