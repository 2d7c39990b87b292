//! How late things happened.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tidegate_units::Time;

/// The distribution of (when it happened - when it was due), exact to three digits.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Lateness {
    /// What was due at `due` happened at `actual`.
    pub fn record(&mut self, due: Time, actual: Time) {
        let nanos = actual.as_nanos().saturating_sub(due.as_nanos());
        self.0.record(nanos).expect("a distribution that grows takes any value");
    }

    /// The lateness that this part of all did not exceed, in microseconds; zero if there was nothing.
    pub fn quantile_us(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 / 1e3
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// How many things.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// For results.
    pub fn to_json(&self) -> Value {
        json!({
            "count": self.count(),
            "p50_us": self.quantile_us(0.50),
            "p99_us": self.quantile_us(0.99),
            "max_us": self.max_us(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_early_counts_as_being_on_time() {
        let mut lateness = Lateness::default();
        lateness.record(Time::from_nanos(2_000), Time::from_nanos(1_000));
        lateness.record(Time::from_nanos(2_000), Time::from_nanos(52_000));
        assert_eq!((lateness.quantile_us(0.5), lateness.count()), (0.0, 2));
        assert!((lateness.max_us() - 50.0).abs() < 0.1);
    }
}
