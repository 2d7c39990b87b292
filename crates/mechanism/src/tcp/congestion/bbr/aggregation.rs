//! How much more than the rate explains arrives at once: receivers and links hand on acknowledgments in bursts, and a window without
//! room for them stands still in between.
//!
//! Source: draft-ietf-ccwg-bbr (`BBRUpdateACKAggregation`); Linux has it for version 1 (`bbr_update_ack_aggregation`).
//! Deviations: the largest of ten round trips; Linux keeps those of two windows of five.

use tidegate_units::Time;

use super::filter::MaxOfRounds;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp::congestion) struct Aggregation {
    /// Since when more arrives than is expected.
    start: Time,
    delivered_bytes: u64,
    largest: MaxOfRounds,
    extra_bytes: u64,
}

impl Aggregation {
    /// So many bytes were delivered in round `round` of a path with the rate `bw`, in bytes per second, at a window of `cwnd` bytes. Before
    /// the pipe is full only the last value counts.
    pub(in crate::tcp::congestion) fn update(
        &mut self,
        delivered_bytes: u64,
        bw: f64,
        cwnd: u64,
        round: u64,
        is_pipe_full: bool,
        now: Time,
    ) {
        let interval = now.since(self.start);
        let mut expected = (bw * interval.as_secs_f64()) as u64;
        if self.delivered_bytes <= expected {
            self.delivered_bytes = 0;
            self.start = now;
            expected = 0;
        }
        self.delivered_bytes += delivered_bytes;
        let extra = self.delivered_bytes.saturating_sub(expected).min(cwnd);
        if is_pipe_full {
            self.largest.update(round, extra as f64);
            self.extra_bytes = self.largest.get() as u64;
        } else {
            self.extra_bytes = extra;
        }
    }

    /// After a silence nothing is known of bursts.
    pub(in crate::tcp::congestion) const fn restart(&mut self, now: Time) {
        self.start = now;
        self.delivered_bytes = 0;
    }

    /// `BBR.extra_acked`.
    pub(in crate::tcp::congestion) const fn extra_bytes(&self) -> u64 {
        self.extra_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Span;

    /// Ten segments every ten milliseconds, at 1 MB/s: nine of them, and the part of the tenth that the last interval left, are extra.
    #[test]
    fn what_comes_at_once_is_extra_up_to_a_window_and_is_forgotten_after_ten_rounds() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut aggregation = Aggregation::default();
        for burst in 0..5 {
            for _ in 0..10 {
                aggregation.update(1000, 1e6, 100_000, burst, true, at(10 * burst));
            }
        }
        assert_eq!(aggregation.extra_bytes(), 10_000);
        for millis in 0..100 {
            aggregation.update(1000, 1e6, 100_000, 5 + millis / 5, true, at(60 + millis));
        }
        assert_eq!(aggregation.extra_bytes(), 1000, "one segment each millisecond is what the rate says");
        aggregation.update(50_000, 1e6, 20_000, 30, true, at(200));
        assert_eq!(aggregation.extra_bytes(), 20_000, "no more than a window");
    }
}
