//! How much is caught up with at once, where the machine is behind: so much that signals are read soon after.

use tidegate_units::{Span, Time};

/// So long one slice may take, roughly.
const LONG: Span = Span::from_millis(5);
const SHORT: Span = Span::from_millis(1);
/// Slices, in the network's time.
const SLICE_MIN: Span = Span::from_micros(1);
const SLICE_MAX: Span = Span::from_millis(1000);

/// See the module.
#[derive(Debug)]
pub struct Pace {
    slice: Span,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slice: Span::from_millis(10) }
    }
}

impl Pace {
    /// Until when to run what is due, when it is `now` and the next event is due at `next`.
    pub fn until(&self, next: Option<Time>, now: Time) -> Time {
        next.map_or(now, |next| next.saturating_add(self.slice).min(now).max(next.min(now)))
    }

    /// What was run took so long.
    pub fn took(&mut self, span: Span) {
        if span > LONG {
            self.slice = (self.slice / 2).max(SLICE_MIN);
        } else if span < SHORT {
            self.slice = (self.slice * 2).min(SLICE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_machine_in_time_runs_all_that_is_due() {
        let pace = Pace::default();
        for next in [None, Some(at(995)), Some(at(1000)), Some(at(2000))] {
            assert_eq!(pace.until(next, at(1000)), at(1000));
        }
    }

    #[test]
    fn a_machine_that_is_behind_runs_so_much_as_takes_some_milliseconds() {
        let mut pace = Pace::default();
        assert_eq!(pace.until(Some(at(100)), at(1000)), at(110));
        pace.took(Span::from_millis(100));
        assert_eq!(pace.until(Some(at(100)), at(1000)), at(105));
        (0..100).for_each(|_| pace.took(Span::from_millis(100)));
        assert_eq!(pace.until(Some(at(100)), at(1000)), at(100) + SLICE_MIN);
        (0..100).for_each(|_| pace.took(Span::ZERO));
        assert_eq!(pace.until(Some(at(100)), at(1000)), at(1000));
    }
}
