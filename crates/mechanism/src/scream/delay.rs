//! How long packets wait in queues: what a one-way delay is above the least one of ten minutes.
//!
//! Source: RFC 6817, section 3.4.2 (base delays); the draft, sections 4.2.1.4.1 (competing flows) and 4.5 (drift).

use tidegate_units::{Span, Time};

/// `BASE_HISTORY`: minutes (RFC 6817, section 3.4.2).
const MINUTES: usize = 10;
const MINUTE: u64 = 60_000_000_000;
/// Normalized delays of which there is a variance, and those of the mean (section 4.2.1.4.1).
const HISTORY: usize = 200;
const RECENT: usize = 50;
/// `QDELAY_MIN_AVG_ALPHA` (section 4.5).
const DRIFT_GAIN: f64 = 1.0 / 256.0;

/// The least one-way delay. Clocks may differ: only differences of delays mean anything.
#[derive(Clone, Debug)]
pub struct BaseDelay {
    /// Nanoseconds, the newest minute first; `None` where nothing came.
    minutes: [Option<i64>; MINUTES],
    /// Which minute the newest is.
    minute: u64,
}

impl BaseDelay {
    /// Nothing came yet.
    pub const fn new() -> Self {
        Self { minutes: [None; MINUTES], minute: 0 }
    }

    /// A packet was under way for `delay` nanoseconds, on two clocks: how much of that it waited.
    pub fn waited(&mut self, delay: i64, now: Time) -> Span {
        let minute = now.as_nanos() / MINUTE;
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64) as usize;
        self.minute = self.minute.max(minute);
        self.minutes.rotate_right(passed % MINUTES);
        self.minutes[..passed].fill(None);
        self.minutes[0] = Some(self.minutes[0].map_or(delay, |least| least.min(delay)));
        let base = self.minutes.iter().flatten().copied().min().unwrap_or(delay);
        Span::from_nanos(base.abs_diff(delay))
    }

    /// Forgets everything (section 4.5).
    pub fn reset(&mut self) {
        self.minutes = [None; MINUTES];
    }
}

/// The target of the delay, which rises beside flows that fill queues (section 4.2.1.4.1).
#[derive(Clone, Debug)]
pub struct Target {
    /// `qdelay_norm_history`, a ring.
    history: [f64; HISTORY],
    len: usize,
    next: usize,
    low: f64,
    high: f64,
    now: f64,
}

impl Target {
    /// Between `low` and `high` seconds.
    pub const fn new(low: f64, high: f64) -> Self {
        Self { history: [0.0; HISTORY], len: 0, next: 0, low, high, now: low }
    }

    /// `qdelay_target`, seconds.
    pub const fn secs(&self) -> f64 {
        self.now
    }

    /// `adjust_qdelay_target`.
    pub fn adjust(&mut self, delay: f64, loss_event_rate: f64) {
        self.history[self.next] = delay / self.low;
        self.next = (self.next + 1) % HISTORY;
        self.len = (self.len + 1).min(HISTORY);
        let (mean, variance) = (self.mean(RECENT), self.variance());
        let limit = (mean + libm::sqrt(variance)) * self.low;
        self.now = if loss_event_rate > 0.002 {
            1.5 * limit
        } else if variance < 0.2 {
            limit
        } else if limit < self.low {
            (self.now * 0.5).max(limit)
        } else {
            self.now * 0.9
        };
        self.now = self.now.min(self.high).max(self.low);
    }

    /// Of the newest `count`, of those that there are.
    fn mean(&self, count: usize) -> f64 {
        let count = count.min(self.len);
        let newest = (1..=count).map(|back| self.history[(self.next + HISTORY - back) % HISTORY]);
        newest.sum::<f64>() / count.max(1) as f64
    }

    fn variance(&self) -> f64 {
        let mean = self.mean(HISTORY);
        let squares = self.history[..self.len].iter().map(|norm| (norm - mean) * (norm - mean));
        squares.sum::<f64>() / self.len.max(1) as f64
    }
}

/// Whether clocks drift apart or a queue stands that never empties (section 4.5).
#[derive(Clone, Debug)]
pub struct Drift {
    /// `qdelay_min` of this round trip, seconds; infinite where nothing came.
    least: f64,
    /// `qdelay_min_avg`.
    mean: f64,
}

impl Drift {
    /// Nothing came yet.
    pub const fn new() -> Self {
        Self { least: f64::INFINITY, mean: 0.0 }
    }

    /// A packet waited for `delay` seconds.
    pub const fn on_delay(&mut self, delay: f64) {
        self.least = self.least.min(delay);
    }

    /// A round trip is over: whether base delays are to be measured anew.
    pub fn end_round(&mut self, target: f64) -> bool {
        if self.least.is_finite() {
            self.mean = (1.0 - DRIFT_GAIN) * self.mean + DRIFT_GAIN * self.least;
        }
        self.least = f64::INFINITY;
        let is_off = self.mean > target / 4.0;
        if is_off {
            self.mean = 0.0;
        }
        is_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn minute(minutes: u64) -> Time {
        Time::from_nanos(minutes * MINUTE)
    }

    #[test]
    fn what_a_packet_waits_is_its_delay_above_the_least_one() {
        let mut base = BaseDelay::new();
        assert_eq!(base.waited(-500, minute(0)), Span::ZERO);
        assert_eq!(base.waited(-200, minute(0)), Span::from_nanos(300));
        assert_eq!(base.waited(-700, minute(1)), Span::ZERO);
        assert_eq!(base.waited(-500, minute(1)), Span::from_nanos(200));
    }

    #[test]
    fn a_least_delay_is_forgotten_after_ten_minutes() {
        let mut base = BaseDelay::new();
        base.waited(100, minute(0));
        assert_eq!(base.waited(900, minute(9)), Span::from_nanos(800));
        assert_eq!(base.waited(900, minute(10)), Span::ZERO);
        base.waited(100, minute(20));
        assert_eq!(base.waited(900, minute(500)), Span::ZERO);
    }

    #[test]
    fn a_steady_queue_becomes_the_target_and_losses_raise_it_by_half() {
        let mut target = Target::new(0.06, 0.4);
        for _ in 0..HISTORY {
            target.adjust(0.12, 0.0);
        }
        assert!((target.secs() - 0.12).abs() < 1e-9, "{}", target.secs());
        target.adjust(0.12, 0.01);
        assert!((target.secs() - 0.18).abs() < 1e-9, "{}", target.secs());
        for _ in 0..HISTORY {
            target.adjust(3.0, 0.01);
        }
        assert_eq!(target.secs(), 0.4, "never above the highest");
    }

    #[test]
    fn a_queue_that_comes_and_goes_lowers_the_target() {
        let mut target = Target::new(0.06, 0.4);
        for _ in 0..HISTORY {
            target.adjust(0.3, 0.0);
        }
        let high = target.secs();
        for number in 0..100 {
            target.adjust(if number % 2 == 0 { 0.0 } else { 0.4 }, 0.0);
        }
        assert!(high > 0.25 && target.secs() < high / 2.0, "{high} to {}", target.secs());
    }

    #[test]
    fn a_queue_that_never_empties_is_noticed_after_some_hundred_round_trips() {
        let mut drift = Drift::new();
        // 1 - (1 - 1/256)^n exceeds a half, 15 of 30 ms, from the 178th on.
        let rounds = (1..1000).find(|_| {
            drift.on_delay(0.05);
            drift.on_delay(0.03);
            drift.end_round(0.06)
        });
        assert_eq!(rounds, Some(178));
        assert!(!drift.end_round(0.06), "it begins anew");
    }

    proptest! {
        #[test]
        fn any_delays_on_any_clocks_give_a_wait_that_is_no_more_than_they_differ(
            delays in prop::collection::vec((any::<i64>(), 0u64..100), 1..100),
        ) {
            let (mut base, mut now) = (BaseDelay::new(), 0);
            for (delay, passed) in &delays {
                now += passed;
                let waited = base.waited(*delay, minute(now)).as_nanos();
                let least = delays.iter().map(|(each, _)| *each).min().expect("one at least");
                prop_assert!(waited <= delay.abs_diff(least));
            }
        }

        #[test]
        fn the_target_stays_between_its_ends(
            delays in prop::collection::vec((0.0f64..1e12, 0.0f64..1.0), 1..600),
        ) {
            let mut target = Target::new(0.06, 0.4);
            for (delay, losses) in delays {
                target.adjust(delay, losses);
                prop_assert!((0.06..=0.4).contains(&target.secs()));
            }
        }
    }
}
