//! The throughput that a packet marking engine observes, `B_o`.
//!
//! Source: Feng, section 6.3.
//! Deviations: the weight of the average is not printed; the tag of [`ThroughputMeter::Weighted`].

use alloc::collections::VecDeque;

use tidegate_parameters::{Bound, Check as _, Report, bound, words};
use tidegate_units::{Span, Time};

words! {
    /// How a marking engine measures the throughput.
    pub enum EngineMeter {
        /// A weighted average of the throughput of each interval.
        Weighted = "weighted",
        /// The average over a sliding window of `windows` intervals.
        Sliding = "sliding",
    }
}

impl EngineMeter {
    /// It with the `weight` of the newest interval, or so many `windows`, whichever it needs.
    pub(crate) const fn with(self, weight: f64, windows: u32) -> ThroughputMeter {
        match self {
            Self::Weighted => ThroughputMeter::Weighted { weight },
            Self::Sliding => ThroughputMeter::Sliding { intervals: windows },
        }
    }

    /// Tells `report` of the one of the keys `weight` and `windows` that it needs.
    pub(crate) fn check(self, weight: f64, windows: u32, report: &mut Report<'_>) {
        match self {
            Self::Weighted => {
                bound::ABOVE_ZERO.check("weight", &weight, report);
                bound::PROBABILITY.check("weight", &weight, report);
            }
            Self::Sliding => WINDOWS.check("windows", &windows, report),
        }
    }
}

/// Intervals in a sliding window.
const WINDOWS: Bound<u32> = Bound::between(1, 100_000).low("zero leaves nothing", "").high(
    "",
    " intervals are too many",
    "at most 100000",
);

/// How the throughput is measured (section 6.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThroughputMeter {
    /// A weighted average of the throughput of small windows, one per update: the thesis's own.
    Weighted {
        /// The weight of the newest window, above 0 and at most 1.
        weight: f64,
    },
    /// The average over a sliding window of so many update intervals.
    Sliding {
        /// Update intervals in the window, at least 1.
        intervals: u32,
    },
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Throughput {
    /// Bytes per second.
    observed: f64,
    /// Of the current interval.
    bytes: u64,
    /// Of the last intervals, for the sliding window.
    window: VecDeque<u64>,
    window_bytes: u64,
    next_update: Time,
    interval: Span,
    seconds: f64,
    meter: ThroughputMeter,
}

/// So many intervals without a packet are gone through one by one; those beyond in one step, so that a packet behind a long
/// silence costs no more than that.
const INTERVALS_MAX: u64 = 4096;

impl Throughput {
    /// Zero, and an interval begins.
    pub(crate) fn new(meter: ThroughputMeter, interval: Span, now: Time) -> Self {
        assert!(!interval.is_zero(), "updates are apart in time");
        let windows = match meter {
            ThroughputMeter::Weighted { weight } => {
                assert!(weight > 0.0 && weight <= 1.0, "a weight is in ]0, 1]");
                0
            }
            ThroughputMeter::Sliding { intervals } => {
                assert!(intervals > 0, "a window is at least one interval");
                intervals as usize
            }
        };
        Self {
            observed: 0.0,
            bytes: 0,
            window: VecDeque::with_capacity(windows),
            window_bytes: 0,
            next_update: now.saturating_add(interval),
            interval,
            seconds: interval.as_secs_f64(),
            meter,
        }
    }

    /// `wire_bytes` pass, after [`advance`](Self::advance).
    #[inline]
    pub(crate) fn add(&mut self, wire_bytes: u32) {
        self.bytes += u64::from(wire_bytes);
    }

    /// The intervals that ended until `now`; `each` is told what was observed at the end of each, of a long silence at the
    /// end of the first [`INTERVALS_MAX`] intervals.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, mut each: impl FnMut(f64)) {
        for _ in 0..INTERVALS_MAX {
            if self.next_update > now {
                return;
            }
            self.update();
            each(self.observed);
            self.next_update = self.next_update.saturating_add(self.interval);
        }
        if self.next_update <= now {
            let empty = now.since(self.next_update).as_nanos() / self.interval.as_nanos() + 1;
            self.pass_empty(empty);
            self.next_update = self.next_update.saturating_add(self.interval * empty);
        }
    }

    /// So many intervals pass in which nothing came; the one before has been counted.
    fn pass_empty(&mut self, intervals: u64) {
        match self.meter {
            ThroughputMeter::Weighted { weight } => {
                self.observed *= libm::pow(1.0 - weight, intervals as f64);
            }
            ThroughputMeter::Sliding { intervals: width } => {
                // What was observed is zero as soon as the whole window has passed.
                for _ in 0..intervals.min(u64::from(width)) {
                    self.update();
                }
            }
        }
    }

    fn update(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        match self.meter {
            ThroughputMeter::Weighted { weight } => {
                self.observed += weight * (bytes as f64 / self.seconds - self.observed);
            }
            ThroughputMeter::Sliding { intervals } => {
                if self.window.len() == intervals as usize {
                    self.window_bytes -= self.window.pop_front().unwrap_or(0);
                }
                self.window.push_back(bytes);
                self.window_bytes += bytes;
                self.observed = self.window_bytes as f64 / (self.window.len() as f64 * self.seconds);
            }
        }
    }

    /// `B_o`, bytes per second, as of the last interval.
    #[inline]
    pub(crate) const fn bytes_per_second(&self) -> f64 {
        self.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(1);

    fn after(meter: ThroughputMeter, intervals: u64) -> (Throughput, u64) {
        let mut throughput = Throughput::new(meter, INTERVAL, Time::ZERO);
        throughput.add(1000);
        let mut told = 0;
        throughput.advance(Time::ZERO + INTERVAL * intervals, |_| told += 1);
        (throughput, told)
    }

    #[test]
    fn no_interval_is_left_out_or_counted_twice_behind_a_silence_of_any_length() {
        for meter in
            [ThroughputMeter::Weighted { weight: 1e-4 }, ThroughputMeter::Sliding { intervals: 10_000 }]
        {
            for intervals in [1, INTERVALS_MAX - 1, INTERVALS_MAX, INTERVALS_MAX + 1, 9_000, 20_000] {
                let (behind, told) = after(meter, intervals);
                assert_eq!(told, intervals.min(INTERVALS_MAX));
                assert_eq!(
                    behind.next_update,
                    Time::ZERO + INTERVAL * (intervals + 1),
                    "{meter:?} {intervals}"
                );
                let mut stepped = Throughput::new(meter, INTERVAL, Time::ZERO);
                stepped.add(1000);
                (1..=intervals).for_each(|i| stepped.advance(Time::ZERO + INTERVAL * i, |_| ()));
                let (one, other) = (behind.bytes_per_second(), stepped.bytes_per_second());
                assert!((one - other).abs() <= 1e-9 * other, "{meter:?} {intervals}: {one} {other}");
            }
        }
    }

    #[test]
    fn a_silence_of_a_year_costs_no_more_than_the_bound() {
        let year = 365 * 24 * 3_600_000;
        let (throughput, told) = after(ThroughputMeter::Weighted { weight: 0.15 }, year);
        assert_eq!((told, throughput.bytes_per_second()), (INTERVALS_MAX, 0.0));
    }
}
