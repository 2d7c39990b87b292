//! How much more than the rate explains arrives at once: receivers and links hand on acknowledgments in bursts, and a window without
//! room for them stands still in between.
//!
//! Source: draft-ietf-ccwg-bbr-05, section 5.5.9 (`BBRUpdateACKAggregation`); Linux has it for version 1 (`bbr_update_ack_aggregation`).
//! Deviations: the largest of ten round trips; Linux keeps those of two windows of five.

use tidegate_units::{Span, Time};

use super::filter::MaxOfRounds;

/// An acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp::congestion) struct Came {
    pub delivered_bytes: u64,
    /// The rate of the path, in bytes per second.
    pub bw: f64,
    /// What the rate explains counts in whole ones of these.
    pub unit_bytes: u64,
    pub cwnd_bytes: u64,
    pub round: u64,
    pub is_pipe_full: bool,
}

impl Came {
    fn expected_bytes(&self, interval: Span) -> u64 {
        let bytes = (self.bw * interval.as_secs_f64()) as u64;
        bytes - bytes % self.unit_bytes
    }
}

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
    /// More was delivered. Before the pipe is full only this round trip counts (section 5.5.9).
    pub(in crate::tcp::congestion) fn update(&mut self, came: &Came, now: Time) {
        let mut expected = came.expected_bytes(now.since(self.start));
        if self.delivered_bytes <= expected {
            self.delivered_bytes = 0;
            self.start = now;
            expected = 0;
        }
        self.delivered_bytes += came.delivered_bytes;
        let extra = self.delivered_bytes.saturating_sub(expected).min(came.cwnd_bytes);
        self.largest.update(came.round, extra as f64);
        let counts = if came.is_pipe_full { self.largest.get() } else { self.largest.of_this_round() };
        self.extra_bytes = counts as u64;
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

    /// At 1 MB/s.
    fn came(delivered_bytes: u64, round: u64) -> Came {
        Came { delivered_bytes, bw: 1e6, unit_bytes: 1, cwnd_bytes: 20_000, round, is_pipe_full: true }
    }

    /// Ten segments every ten milliseconds: nine of them, and the part of the tenth that the last interval left, are extra.
    #[test]
    fn what_comes_at_once_is_extra_up_to_a_window_and_is_forgotten_after_ten_rounds() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut aggregation = Aggregation::default();
        for burst in 0..5 {
            for _ in 0..10 {
                aggregation.update(&came(1000, burst), at(10 * burst));
            }
        }
        assert_eq!(aggregation.extra_bytes(), 10_000);
        for millis in 0..100 {
            aggregation.update(&came(1000, 5 + millis / 5), at(60 + millis));
        }
        assert_eq!(aggregation.extra_bytes(), 1000, "one segment each millisecond is what the rate says");
        aggregation.update(&came(50_000, 30), at(200));
        assert_eq!(aggregation.extra_bytes(), 20_000, "no more than a window");
    }

    #[test]
    fn before_the_pipe_is_full_a_round_trip_counts() {
        let mut aggregation = Aggregation::default();
        let starting = |delivered_bytes, round| Came { is_pipe_full: false, ..came(delivered_bytes, round) };
        aggregation.update(&starting(9000, 1), Time::ZERO);
        aggregation.update(&starting(1000, 1), Time::ZERO + Span::from_millis(20));
        assert_eq!(aggregation.extra_bytes(), 9000, "the largest of this one");
        aggregation.update(&starting(1000, 2), Time::ZERO + Span::from_millis(40));
        assert_eq!(aggregation.extra_bytes(), 1000);
        aggregation.update(&came(1000, 3), Time::ZERO + Span::from_millis(60));
        assert_eq!(aggregation.extra_bytes(), 9000, "from then on those of ten");
    }

    #[test]
    fn what_is_expected_may_count_in_whole_segments() {
        let extra = [1, 1000].map(|unit_bytes| {
            let mut aggregation = Aggregation::default();
            for micros in [0, 1900] {
                let came = Came { unit_bytes, ..came(2000, 1) };
                aggregation.update(&came, Time::ZERO + Span::from_micros(micros));
            }
            aggregation.extra_bytes()
        });
        assert_eq!(extra, [2100, 3000]);
    }
}
