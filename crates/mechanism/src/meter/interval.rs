//! Bytes per interval: the plainest meter, exact over intervals that follow each other without a gap. For mechanisms that
//! decide once per period.
//!
//! Source: none; the counter that NBQ, EEC and IEC describe as "the rate measured over the last interval".
//! Deviations: none. Intervals start when the meter is built; an interval that nobody looked at counts like any other.

use tidegate_units::{BitRate, Span, Time};

use super::RateMeter;

/// Parameters of [`IntervalMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalMeterConfig {
    /// Length of an interval, time, not zero. Default 100 ms, about one round trip of a wide-area path.
    pub interval: Span,
}

impl Default for IntervalMeterConfig {
    fn default() -> Self {
        Self { interval: Span::from_millis(100) }
    }
}

impl IntervalMeterConfig {
    /// A meter whose first interval starts `now`.
    pub fn build(&self, now: Time) -> IntervalMeter {
        assert!(!self.interval.is_zero(), "an interval is a length of time");
        IntervalMeter { interval: self.interval, started: now, current: 0, last: 0 }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct IntervalMeter {
    interval: Span,
    /// Start of the current interval, as of the last packet.
    started: Time,
    /// Bytes in the current interval.
    current: u64,
    /// Bytes in the interval before it.
    last: u64,
}

impl RateMeter for IntervalMeter {
    #[inline]
    fn on_arrival(&mut self, wire_bytes: u32, now: Time) {
        let passed = self.intervals_until(now);
        if passed > 0 {
            self.last = if passed == 1 { self.current } else { 0 };
            self.current = 0;
            self.started += self.interval * passed;
        }
        self.current += u64::from(wire_bytes);
    }

    /// The rate over the last complete interval; zero during the first.
    fn rate(&self, now: Time) -> BitRate {
        BitRate::of(self.bytes_in_last_interval(now), self.interval)
    }
}

impl IntervalMeter {
    /// Bytes in the last complete interval before `now`.
    pub fn bytes_in_last_interval(&self, now: Time) -> u64 {
        match self.intervals_until(now) {
            0 => self.last,
            1 => self.current,
            _ => 0,
        }
    }

    /// Intervals that ended between the last packet and `now`.
    fn intervals_until(&self, now: Time) -> u64 {
        now.since(self.started).as_nanos() / self.interval.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rate_is_that_of_the_last_complete_interval() {
        let mut meter = IntervalMeterConfig::default().build(Time::ZERO);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        meter.on_arrival(1000, at(10));
        meter.on_arrival(250, at(99));
        assert!(meter.rate(at(99)).is_zero());
        assert_eq!(meter.rate(at(100)), BitRate::from_bps(100_000));
        meter.on_arrival(500, at(100));
        assert_eq!(meter.rate(at(199)), BitRate::from_bps(100_000));
        assert_eq!(meter.rate(at(250)), BitRate::from_bps(40_000));
        assert!(meter.rate(at(300)).is_zero());
    }

    proptest! {
        #[test]
        fn every_byte_is_in_exactly_one_interval(
            packets in prop::collection::vec((0u64..40_000_000, 1u32..9000), 0..200)
        ) {
            let mut meter = IntervalMeterConfig::default().build(Time::ZERO);
            let (mut now, mut sent, mut counted, mut next_look) = (Time::ZERO, 0u64, 0u64, 100_000_000);
            for (gap, size) in packets {
                now += Span::from_nanos(gap);
                while now.as_nanos() >= next_look {
                    counted += meter.bytes_in_last_interval(Time::from_nanos(next_look));
                    next_look += 100_000_000;
                }
                meter.on_arrival(size, now);
                sent += u64::from(size);
            }
            counted += meter.bytes_in_last_interval(Time::from_nanos(next_look));
            prop_assert_eq!(sent, counted);
        }
    }
}
