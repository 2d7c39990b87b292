//! When transfers come.

use std::sync::Arc;

use tidegate_mechanism::random::Substream;
use tidegate_units::{GapClock, Span, Time};

/// When transfers come.
#[derive(Clone, PartialEq, Debug)]
pub enum ArrivalsSpec {
    /// At random, independent of each other.
    Poisson {
        /// The mean distance.
        mean: Span,
    },
    /// So many at once, at even distances.
    Even {
        /// The distance.
        every: Span,
        /// How many.
        burst: u32,
    },
    /// A list of instants after the start, ascending, and payload bytes.
    List(Arc<[(Span, u64)]>),
}

/// Arrivals as they come.
#[derive(Debug)]
pub(super) struct Arrivals {
    spec: ArrivalsSpec,
    next: Option<Time>,
    /// Spacing of those at random.
    gaps: GapClock,
    /// Of a list: when it began, and how far it is.
    start: Time,
    position: usize,
}

impl Arrivals {
    pub(super) fn new(spec: &ArrivalsSpec, start: Time, random: &mut Substream) -> Self {
        let gaps = GapClock::default();
        let mut arrivals = Self { spec: spec.clone(), next: None, gaps, start, position: 0 };
        arrivals.next = match spec {
            // The first one is as random as the others.
            ArrivalsSpec::Poisson { .. } => arrivals.after(start, random),
            ArrivalsSpec::Even { .. } => Some(start),
            ArrivalsSpec::List(list) => list.first().map(|&(after, _)| start.saturating_add(after)),
        };
        arrivals
    }

    pub(super) const fn next(&self) -> Option<Time> {
        self.next
    }

    /// How many come at `now`, and the size of each where a list says it. To be called until it gives `None`.
    pub(super) fn poll(&mut self, now: Time, random: &mut Substream) -> Option<(u32, Option<u64>)> {
        let at = self.next.filter(|&at| at <= now)?;
        let arrived = match &self.spec {
            ArrivalsSpec::Poisson { .. } => (1, None),
            ArrivalsSpec::Even { burst, .. } => (*burst, None),
            ArrivalsSpec::List(list) => (1, Some(list[self.position].1)),
        };
        self.next = self.after(at, random);
        Some(arrived)
    }

    fn after(&mut self, at: Time, random: &mut Substream) -> Option<Time> {
        Some(match &self.spec {
            ArrivalsSpec::Poisson { mean } => {
                at.saturating_add(self.gaps.gap(random.exponential(mean.as_secs_f64())))
            }
            ArrivalsSpec::Even { every, .. } => at.saturating_add(*every),
            ArrivalsSpec::List(list) => {
                self.position += 1;
                self.start.saturating_add(list.get(self.position)?.0)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_mechanism::random::Seed;

    #[test]
    fn what_comes_every_few_nanoseconds_keeps_its_rate() {
        let spec = ArrivalsSpec::Poisson { mean: Span::from_nanos(3) };
        let mut random = Substream::new(Seed(1));
        let mut arrivals = Arrivals::new(&spec, Time::ZERO, &mut random);
        for _ in 0..100_000 {
            arrivals.poll(Time::MAX, &mut random).unwrap();
        }
        let mean = arrivals.next().unwrap().as_secs_f64() * 1e9 / 1e5;
        assert!((mean - 3.0).abs() < 0.05, "{mean} ns apart");
    }
}
