//! A source that hears what part of its packets routers discard, and sends at the highest of its rates that gets through.
//!
//! Source: Tamura, Tobe & Tokuda, section 8.1 ("the audio source node can use the most suitable coding scheme").
//! Deviations: the paper does not say when a source raises its rate again: here after a time without advice, by one step; and
//! advice about what was sent before the last change is out of date.

use alloc::vec::Vec;

use tidegate_units::{BitRate, Span, Time};

use super::law::suitable_rate;

/// See the module.
#[derive(Clone, Debug)]
pub struct AdvisedSource {
    /// Its rates, ascending; at least one.
    rates: Vec<BitRate>,
    patience: Span,
    settle: Span,
    /// The one in use.
    rung: usize,
    advised: Time,
    deaf_until: Time,
}

impl AdvisedSource {
    /// A source with these `rates`, ascending, which begins with its best. Without advice for `patience` it takes the next higher
    /// one; after a change it hears nothing for `settle`.
    pub fn new(rates: Vec<BitRate>, patience: Span, settle: Span) -> Self {
        let rung = rates.len().saturating_sub(1);
        Self { rates, patience, settle, rung, advised: Time::ZERO, deaf_until: Time::ZERO }
    }

    /// A router discards the part `ratio` of its packets. The new rate, if that changes it.
    pub fn on_advice(&mut self, ratio: f64, now: Time) -> Option<BitRate> {
        if now < self.deaf_until {
            return None;
        }
        self.advised = now;
        let rung = suitable_rate(&self.rates, self.rung, ratio);
        if rung < self.rung { self.change(rung, now) } else { None }
    }

    /// A packet is sent. The new rate, if there was no advice for long enough to try a higher one.
    pub fn on_send(&mut self, now: Time) -> Option<BitRate> {
        let may_climb = now.since(self.advised) >= self.patience && self.rung + 1 < self.rates.len();
        if may_climb { self.change(self.rung + 1, now) } else { None }
    }

    fn change(&mut self, rung: usize, now: Time) -> Option<BitRate> {
        self.rung = rung;
        self.deaf_until = now.saturating_add(self.settle);
        self.advised = now;
        self.rates.get(rung).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_source_takes_the_highest_rate_that_gets_through_and_climbs_in_silence() {
        let rates = vec![BitRate::from_bps(16), BitRate::from_bps(32), BitRate::from_bps(64)];
        let mut source = AdvisedSource::new(rates, Span::from_secs(10), Span::from_secs(1));
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!(source.on_advice(0.5, at(2)), Some(BitRate::from_bps(32)), "half of 64 gets through");
        assert_eq!(source.on_advice(0.9, at(2)), None, "that was about 64");
        assert_eq!(source.on_advice(0.9, at(4)), Some(BitRate::from_bps(16)), "there is no lower one");
        assert_eq!(source.on_send(at(13)), None);
        assert_eq!(source.on_send(at(14)), Some(BitRate::from_bps(32)));
        assert_eq!(source.on_advice(0.0, at(20)), None, "nothing is discarded");
    }
}
