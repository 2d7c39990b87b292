//! The throughput that a packet marking engine observes, `B_o`.
//!
//! Source: Feng, section 6.3.
//! Deviations: the weight of the average is not printed; the tag of [`ThroughputMeter::Weighted`].

use alloc::collections::VecDeque;

use tidegate_units::{Span, Time};

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

/// After so many intervals without a packet, nothing is left of what was observed.
const INTERVALS_MAX: u32 = 4096;

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

    /// The intervals that ended until `now`; `each` is told what was observed at the end of each.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, mut each: impl FnMut(f64)) {
        let mut rounds = 0;
        while self.next_update <= now {
            self.update();
            each(self.observed);
            self.next_update = self.next_update.saturating_add(self.interval);
            rounds += 1;
            if rounds == INTERVALS_MAX {
                let behind = now.since(self.next_update).as_nanos() / self.interval.as_nanos();
                self.next_update = self.next_update.saturating_add(self.interval * (behind + 1));
                self.observed = 0.0;
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
