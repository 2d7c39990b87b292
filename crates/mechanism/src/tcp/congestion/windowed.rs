//! The least of what was measured lately, with three samples: where a window of time slides over many measurements, the exact one
//! would be as long as they are many.
//!
//! Source: K. Nichols's estimator, as in Linux (`lib/win_minmax.c`).
//! Deviations: instants instead of ticks of a clock.

use tidegate_units::{Span, Time};

/// See the module: the best, and the best since then, twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowedMin {
    samples: Option<[(Time, Span); 3]>,
}

impl WindowedMin {
    pub(super) const fn new() -> Self {
        Self { samples: None }
    }

    /// The least; none before the first measurement.
    pub(super) fn get(&self) -> Option<Span> {
        self.samples.map(|[(_, best), ..]| best)
    }

    /// A measurement, of which those of the last `window` count.
    pub(super) fn update(&mut self, value: Span, window: Span, now: Time) {
        let new = (now, value);
        let Some(s) = &mut self.samples else {
            self.samples = Some([new; 3]);
            return;
        };
        if value <= s[0].1 || now.since(s[2].0) > window {
            *s = [new; 3];
            return;
        }
        if value <= s[1].1 {
            (s[1], s[2]) = (new, new);
        } else if value <= s[2].1 {
            s[2] = new;
        }
        Self::age(s, new, window);
    }

    /// What is too old gives way to the next; where a quarter or a half of the window brought nothing better, the newest stands in.
    fn age(s: &mut [(Time, Span); 3], new: (Time, Span), window: Span) {
        let age = new.0.since(s[0].0);
        if age > window {
            *s = [s[1], s[2], new];
            if new.0.since(s[0].0) > window {
                *s = [s[1], s[2], new];
            }
        } else if s[1].0 == s[0].0 && age > window / 4 {
            (s[1], s[2]) = (new, new);
        } else if s[2].0 == s[1].0 && age > window / 2 {
            s[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_forgotten_when_it_is_older_than_the_window() {
        let mut filter = WindowedMin::new();
        assert_eq!(filter.get(), None);
        let window = Span::from_millis(100);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        filter.update(Span::from_millis(10), window, at(0));
        for ms in 1..=100 {
            filter.update(Span::from_millis(20 + ms % 3), window, at(ms));
            assert_eq!(filter.get(), Some(Span::from_millis(10)), "at {ms}");
        }
        filter.update(Span::from_millis(21), window, at(101));
        assert!(filter.get() >= Some(Span::from_millis(20)));
        filter.update(Span::from_millis(5), window, at(102));
        assert_eq!(filter.get(), Some(Span::from_millis(5)));
        filter.update(Span::from_millis(30), window, at(500));
        assert_eq!(filter.get(), Some(Span::from_millis(30)));
    }
}
