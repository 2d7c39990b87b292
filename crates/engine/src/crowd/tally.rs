//! What came of transfers.

use tidegate_units::Span;

use crate::counters::{Delays, no_delays};

/// Upper ends of the classes of sizes, in bytes; the last class has none.
const CLASSES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Sizes between two powers of ten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeClass(usize);

impl SizeClass {
    /// All, ascending.
    pub const ALL: [Self; CLASSES.len() + 1] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// The one of `bytes`.
    pub fn of(bytes: u64) -> Self {
        Self(CLASSES.partition_point(|&most| most < bytes))
    }

    /// Its name in summaries: stable.
    pub const fn name(self) -> &'static str {
        ["to_1kB", "to_10kB", "to_100kB", "to_1MB", "to_10MB", "above_10MB"][self.0]
    }
}

/// A distribution of times, with its exact mean.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Delays,
    nanos: u128,
    /// Of a thousandth of how often the time of an idle network.
    slowdowns: Delays,
    slowdown: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { histogram: no_delays(), nanos: 0, slowdowns: no_delays(), slowdown: 0.0 }
    }
}

impl Times {
    pub(super) fn add(&mut self, took: Span, slowdown: Option<f64>) {
        self.nanos += u128::from(took.as_nanos());
        self.histogram.record(took.as_nanos()).expect("a distribution that grows takes any value");
        if let Some(slowdown) = slowdown {
            self.slowdown += slowdown;
            let thousandths = (slowdown * 1e3).round() as u64;
            self.slowdowns.record(thousandths).expect("a distribution that grows takes any value");
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in seconds; `None` of nothing.
    pub fn mean_s(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.nanos as f64 / 1e9 / count as f64)
    }

    /// The time in seconds that this part of them took at most, to three digits; `None` of nothing.
    pub fn quantile_s(&self, part: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(part) as f64 / 1e9)
    }

    /// The mean of how many times longer they took than where nothing else is; `None` where that is not known.
    pub fn mean_slowdown(&self) -> Option<f64> {
        let count = self.slowdowns.len();
        (count > 0).then(|| self.slowdown / count as f64)
    }

    /// The same for a part of them.
    pub fn slowdown_quantile(&self, part: f64) -> Option<f64> {
        (!self.slowdowns.is_empty()).then(|| self.slowdowns.value_at_quantile(part) as f64 / 1e3)
    }
}

/// How long transfers take where nothing else is, by size: points, straight between them.
#[derive(Clone, Default, Debug)]
pub struct IdleTimes(Vec<(u64, Span)>);

impl IdleTimes {
    /// From points in ascending order of sizes.
    pub fn new(points: Vec<(u64, Span)>) -> Self {
        assert!(points.is_sorted_by(|a, b| a.0 < b.0), "sizes ascend");
        Self(points)
    }

    /// That of `bytes`, in seconds; beyond the last point as the last two have it. `None` where nothing is known.
    pub fn of(&self, bytes: u64) -> Option<f64> {
        let points = &self.0;
        let above = points.partition_point(|&(size, _)| size < bytes);
        if above == 0 {
            return points.first().map(|&(_, span)| span.as_secs_f64());
        }
        let high = above.min(points.len() - 1);
        let Some(low) = high.checked_sub(1) else { return points.first().map(|p| p.1.as_secs_f64()) };
        let ((from, short), (to, long)) = (points[low], points[high]);
        let (short, long) = (short.as_secs_f64(), long.as_secs_f64());
        let part = (bytes as f64 - from as f64) / (to - from) as f64;
        Some(short + part * (long - short).max(0.0))
    }
}

/// What came of the transfers of a crowd since the statistics began. Those that began before count in nothing but `active`.
#[derive(Clone, Default, Debug)]
pub struct TransferTally {
    /// Transfers that came.
    pub arrived: u64,
    /// Their payload bytes.
    pub arrived_bytes: u64,
    /// Those of them for which there was no place.
    pub refused: u64,
    /// Those that arrived whole.
    pub completed: u64,
    /// Their payload bytes.
    pub completed_bytes: u64,
    /// Under way now, whenever they began.
    pub active: u32,
    /// The most at once.
    pub active_max: u32,
    /// From coming until the last byte was at the receiver.
    pub times: Times,
    /// The same by size, in the order of [`SizeClass::ALL`].
    pub by_class: [Times; SizeClass::ALL.len()],
    pub(super) idle: IdleTimes,
    /// How often the statistics began: those that began under another count belong to nothing.
    period: u32,
}

impl TransferTally {
    /// A transfer begins: what it is to bring to [`Self::on_completed`].
    pub(super) fn on_begun(&mut self) -> u32 {
        self.active += 1;
        self.active_max = self.active_max.max(self.active);
        self.period
    }

    pub(super) fn on_completed(&mut self, bytes: u64, period: u32, took: Span) {
        self.active -= 1;
        if period != self.period {
            return;
        }
        self.completed += 1;
        self.completed_bytes += bytes;
        // Where an idle network takes no time at all, nothing is so many times longer.
        let idle = self.idle.of(bytes).filter(|&idle| idle > 0.0);
        let slowdown = idle.map(|idle| took.as_secs_f64() / idle);
        self.times.add(took, slowdown);
        self.by_class[SizeClass::of(bytes).0].add(took, slowdown);
    }

    pub(super) fn restart(&mut self) {
        let idle = core::mem::take(&mut self.idle);
        let (period, active) = (self.period.wrapping_add(1), self.active);
        *self = Self { idle, period, active, active_max: active, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_powers_of_ten() {
        for (bytes, name) in [
            (1, "to_1kB"),
            (1_000, "to_1kB"),
            (1_001, "to_10kB"),
            (100_000, "to_100kB"),
            (10_000_000, "to_10MB"),
            (u64::MAX, "above_10MB"),
        ] {
            assert_eq!(SizeClass::of(bytes).name(), name, "{bytes}");
        }
    }

    #[test]
    fn between_two_sizes_and_beyond_the_last_time_goes_straight_on() {
        let times = IdleTimes::new(vec![
            (1_000, Span::from_millis(10)),
            (3_000, Span::from_millis(20)),
            (5_000, Span::from_millis(40)),
        ]);
        for (bytes, expected) in [(1, 0.01), (1_000, 0.01), (2_000, 0.015), (4_000, 0.03), (7_000, 0.06)] {
            let got = times.of(bytes).unwrap();
            assert!((got - expected).abs() < 1e-12, "{bytes}: {got}");
        }
        assert_eq!(IdleTimes::default().of(5), None);
        assert_eq!(IdleTimes::new(vec![(10, Span::from_millis(3))]).of(99), Some(0.003));
    }

    #[test]
    fn what_takes_no_time_in_an_idle_network_has_no_slowdown() {
        let idle = IdleTimes::new(vec![(100, Span::ZERO), (200, Span::from_nanos(2))]);
        let mut tally = TransferTally { idle, ..TransferTally::default() };
        let period = tally.on_begun();
        tally.on_completed(100, period, Span::from_nanos(5));
        assert_eq!((tally.times.mean_slowdown(), tally.times.slowdown_quantile(0.5)), (None, None));
        tally.on_begun();
        tally.on_completed(200, period, Span::from_nanos(5));
        assert_eq!(tally.times.mean_slowdown(), Some(2.5));
        assert_eq!((tally.completed, tally.times.count()), (2, 2));
    }

    #[test]
    fn what_began_before_the_statistics_is_not_counted_and_still_under_way() {
        let mut tally = TransferTally::default();
        let early = tally.on_begun();
        tally.restart();
        assert_eq!((tally.active, tally.active_max), (1, 1));
        let late = tally.on_begun();
        tally.on_completed(500, early, Span::from_secs(9));
        tally.on_completed(5_000, late, Span::from_secs(2));
        assert_eq!((tally.completed, tally.active, tally.active_max), (1, 0, 2));
        assert_eq!(tally.times.mean_s(), Some(2.0));
        assert_eq!(tally.by_class.iter().map(Times::count).collect::<Vec<_>>(), [0, 1, 0, 0, 0, 0]);
    }
}
