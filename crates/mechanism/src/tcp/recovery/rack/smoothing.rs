//! The smoothed round trip of a sender that knows when each segment went: one sample from every acknowledgment, not one in each
//! round trip. A window that grows lengthens its own queue; a mean that learns of it once per round trip is behind, and probes and
//! time-outs that are made of it come before the acknowledgments.
//!
//! Source: RFC 6298, section 2 and, on several samples in a round trip, section 3; `tcp_rtt_estimator`, `tcp_clean_rtx_queue` and
//! `tcp_sacktag_one` of Linux (`net/ipv4/tcp_input.c`), whose gains these are: the mean follows each sample by an eighth, the deviation
//! is the largest within a round trip, and falls by a quarter of the difference from one round trip to the next.
//! Deviations: nanoseconds, not microseconds. No sample from time stamps where only retransmissions were acknowledged.

use tidegate_units::{Span, Time};

use super::segments::Segment;

/// What one acknowledgment newly reports, as far as it says how long a round trip is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    /// When the first of the segments that it acknowledges went out (`first_ackt`).
    acknowledged: Option<Time>,
    /// It acknowledges one that was sent twice (`FLAG_RETRANS_DATA_ACKED`).
    has_retransmitted: bool,
    /// When the first of those that it reports as held went out (`first_sackt`).
    held: Option<Time>,
}

impl Reported {
    pub fn acknowledge(&mut self, segment: &Segment) {
        if segment.retransmitted {
            self.has_retransmitted = true;
        } else {
            self.acknowledged = self.acknowledged.or(Some(segment.sent_at));
        }
    }

    pub fn hold(&mut self, segment: &Segment) {
        if !segment.retransmitted {
            self.held = self.held.or(Some(segment.sent_at));
        }
    }

    /// When the segment went out that was there a round trip later; none by Karn's rule.
    pub fn timed(&self) -> Option<Time> {
        self.acknowledged.filter(|_| !self.has_retransmitted).or(self.held)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Smoothing {
    /// Eight times the smoothed round trip, in ns (`srtt_us`); zero: no sample yet.
    eight_srtt: u64,
    /// Four times the mean deviation, in ns (`mdev_us`).
    four_mdev: u64,
    /// The largest of it in this round trip (`mdev_max_us`).
    four_mdev_max: u64,
    /// What the time-out adds to the smoothed round trip (`rttvar_us`).
    four_rttvar: u64,
    /// The round trip is over when this is acknowledged (`rtt_seq`).
    round_end: u64,
}

impl Smoothing {
    /// A round trip took `rtt`; all before `una` is acknowledged, all before `sent_until` was sent. The time-out adds `least` at least.
    pub fn on_sample(&mut self, rtt: Span, una: u64, sent_until: u64, least: Span) {
        let (r, least) = (rtt.as_nanos().max(1), least.as_nanos());
        if self.eight_srtt == 0 {
            self.eight_srtt = 8 * r;
            self.four_mdev = 2 * r;
            self.four_rttvar = self.four_mdev.max(least);
            self.four_mdev_max = self.four_rttvar;
            self.round_end = sent_until;
            return;
        }
        let srtt = self.eight_srtt / 8;
        self.eight_srtt = self.eight_srtt + r - srtt;
        let (error, mdev) = (r.abs_diff(srtt), self.four_mdev / 4);
        // A round trip that becomes shorter is no reason to wait longer.
        let grows_by = error.saturating_sub(mdev) / if r < srtt { 8 } else { 1 };
        self.four_mdev = self.four_mdev + grows_by - mdev.saturating_sub(error);
        if self.four_mdev > self.four_mdev_max {
            self.four_mdev_max = self.four_mdev;
            self.four_rttvar = self.four_rttvar.max(self.four_mdev_max);
        }
        if una > self.round_end {
            self.four_rttvar -= self.four_rttvar.saturating_sub(self.four_mdev_max) / 4;
            self.round_end = sent_until;
            self.four_mdev_max = least;
        }
    }

    /// The smoothed round trip, and what the time-out adds to it.
    pub fn get(&self) -> (Span, Span) {
        (Span::from_nanos(self.eight_srtt / 8), Span::from_nanos(self.four_rttvar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Span = Span::from_millis(200);

    fn of(rtts: impl IntoIterator<Item = u64>) -> (Span, Span) {
        let mut smoothing = Smoothing::default();
        for (number, rtt) in (1..).zip(rtts) {
            smoothing.on_sample(Span::from_millis(rtt), number * 1000, number * 1000 + 10_000, LEAST);
        }
        smoothing.get()
    }

    #[test]
    fn ten_samples_of_one_window_go_three_quarters_of_the_way() {
        // (7/8)^10 = 0.263 of the way from 100 to 40 ms is left.
        let (srtt, added) = of([40].into_iter().chain([100; 10]));
        assert!((srtt.as_secs_f64() - 0.0842).abs() < 0.0001, "{srtt:?}");
        assert!(added >= LEAST && added < Span::from_millis(210), "{added:?}");
    }

    #[test]
    fn a_shorter_round_trip_adds_an_eighth_to_the_deviation_of_what_a_longer_one_does() {
        let steady = [800; 1_000];
        let (_, longer) = of(steady.into_iter().chain([1_700]));
        let (_, shorter) = of(steady.into_iter().chain([1]));
        // A quarter of less than four nanoseconds is none: it comes no nearer to the least.
        let is_least = |added: Span| added.saturating_sub(LEAST) < Span::from_nanos(4) && added >= LEAST;
        assert!(is_least(of(steady).1), "{:?}", of(steady));
        assert!(longer > Span::from_millis(850), "{longer:?}");
        assert!(is_least(shorter), "{shorter:?}");
    }

    #[test]
    fn the_deviation_falls_by_a_quarter_in_a_round_trip_and_not_below_the_least() {
        let mut smoothing = Smoothing::default();
        smoothing.on_sample(Span::from_millis(400), 0, 10_000, LEAST);
        assert_eq!(smoothing.get().1, Span::from_millis(800));
        // Nine within the first round trip, one in each of the next two.
        for (una, sent_until, added) in [(9_000, 19_000, 800), (10_001, 20_000, 800), (20_001, 30_000, 685)] {
            smoothing.on_sample(Span::from_millis(400), una, sent_until, LEAST);
            let (srtt, now_added) = smoothing.get();
            assert_eq!(srtt, Span::from_millis(400));
            let off = now_added.as_nanos().abs_diff(Span::from_millis(added).as_nanos());
            assert!(off < 1_000_000, "{una}: {now_added:?}");
        }
        for round in 3..60 {
            smoothing.on_sample(Span::from_millis(400), round * 10_000 + 1, round * 10_000 + 10_000, LEAST);
        }
        assert!(smoothing.get().1 - LEAST < Span::from_millis(1));
    }

    #[test]
    fn what_was_sent_twice_gives_no_sample_and_what_is_held_behind_it_does() {
        let segment = |sent_ms: u64, retransmitted: bool| {
            let mut segments = super::super::segments::Segments::new(crate::tcp::ranges::RangeSet::new(4), 4);
            segments.on_sent(0, 1000, Time::ZERO + Span::from_millis(sent_ms));
            let mut segment = *segments.first().unwrap();
            segment.retransmitted = retransmitted;
            segment
        };
        let mut reported = Reported::default();
        reported.acknowledge(&segment(3, false));
        reported.acknowledge(&segment(4, false));
        assert_eq!(reported.timed(), Some(Time::ZERO + Span::from_millis(3)));
        reported.acknowledge(&segment(5, true));
        assert_eq!(reported.timed(), None);
        reported.hold(&segment(6, true));
        reported.hold(&segment(7, false));
        assert_eq!(reported.timed(), Some(Time::ZERO + Span::from_millis(7)));
    }
}
