//! Whether the queue that marks is one that marks L4S as it does all others: its delay is longer and varies more than a queue for L4S
//! would let it. A scalable control behind such a queue has to give way as the others do.
//!
//! Source: B. Briscoe & A. S. Ahmed, "TCP Prague fall-back on detection of a classic ECN AQM" (arXiv:1911.00710); the constants and the
//! fallback are those of `tcp_prague.c` (`prague_classic_ecn_detection`, `prague_classic_ecn_fallback`).
//! Deviations: real numbers in place of scaled integers, so that no rest is carried from round to round. What the paper takes off for
//! flows limited by themselves is not there, as in the reference. The least round trip is that of the whole connection (in Linux of the
//! last five minutes).

use tidegate_units::Span;

/// The weight of variation, and of depth, in the score (`V`, `D`).
const WEIGHT: f64 = 0.5;
/// Which deviation of the round trip says nothing, in microseconds (`V0`).
const DEVIATION_US: f64 = 750.0;
/// Which mean queue says nothing, in microseconds (`D0`).
const DEPTH_US: f64 = 2_000.0;
/// Up to here the queue is one for L4S (`L_STICKY`).
const L4S: f64 = 8.0;
/// From here on it is a classic one (`CLASSIC_ECN`).
const CLASSIC: f64 = 9.0;
/// The score goes no further (`C_STICKY`).
const MOST: f64 = CLASSIC + L4S;
/// As which share of marks a mark of a classic queue counts: what leaves beside CUBIC about as much as it has.
const CLASSIC_ALPHA: f64 = 0.625;

/// Samples of the round trip, and what they say of the queue.
#[derive(Clone, Debug)]
pub(super) struct ClassicAqm {
    /// Smoothed over many round trips, in microseconds; zero: no sample.
    srtt_us: f64,
    mdev_us: f64,
    least_us: f64,
    /// From 0 (it is for L4S) to [`MOST`].
    score: f64,
    /// The weight of a sample in `srtt_us`; in `mdev_us` half of it.
    gain: f64,
}

/// `g_srtt` for a threshold of so many segments: a window's sawtooth lasts as many round trips, of as many samples.
fn gain(ssthresh: f64) -> f64 {
    let lg = if ssthresh >= 4096.0 { 12 } else { (ssthresh.max(1.0) as u64).ilog2() };
    let shift = (lg + lg / 2 + 1).min(18);
    1.0 / f64::from(1u32 << shift)
}

/// What one round trip adds to the score.
fn step(mdev_us: f64, depth_us: f64) -> f64 {
    let variation = libm::log2(mdev_us.max(1.0) / DEVIATION_US);
    let depth = if depth_us > DEPTH_US { libm::log2(depth_us / DEPTH_US) } else { 0.0 };
    WEIGHT * (variation + depth)
}

impl ClassicAqm {
    pub(super) fn new() -> Self {
        Self { srtt_us: 0.0, mdev_us: 1.0, least_us: f64::INFINITY, score: 0.0, gain: gain(f64::INFINITY) }
    }

    /// `prague_rtt_estimator`.
    pub(super) fn on_sample(&mut self, rtt: Span) {
        let rtt_us = rtt.as_secs_f64() * 1e6;
        self.least_us = self.least_us.min(rtt_us);
        if self.srtt_us == 0.0 {
            self.srtt_us = rtt_us;
            return;
        }
        let error = rtt_us - self.srtt_us;
        self.srtt_us += self.gain * error;
        self.mdev_us += self.gain / 2.0 * (error.abs() - self.mdev_us);
    }

    /// The window was reduced and slow start ends at `ssthresh` segments: estimates are to cover its sawtooth.
    pub(super) fn on_reduction(&mut self, ssthresh: f64) {
        self.gain = gain(ssthresh);
    }

    /// A round trip is over, on a path where something marks (`prague_classic_ecn_detection`).
    pub(super) fn on_round(&mut self) {
        if self.srtt_us > 0.0 {
            self.score = (self.score + step(self.mdev_us, self.srtt_us - self.least_us)).clamp(0.0, MOST);
        }
    }

    /// The share of marks to answer, where `alpha` was measured (`prague_classic_ecn_fallback`).
    pub(super) fn answered(&self, alpha: f64) -> f64 {
        alpha.max((self.score.min(CLASSIC) - L4S) * CLASSIC_ALPHA)
    }

    pub(super) const fn score(&self) -> f64 {
        self.score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_adds_nothing_and_twice_as_much_a_half() {
        assert_eq!(step(DEVIATION_US, DEPTH_US), 0.0);
        assert_eq!(step(2.0 * DEVIATION_US, DEPTH_US), 0.5);
        assert_eq!(step(DEVIATION_US, 4.0 * DEPTH_US), 1.0);
        assert_eq!(step(DEVIATION_US / 4.0, 100.0), -1.0, "a short queue does not vouch for itself");
    }

    #[test]
    fn estimates_cover_the_sawtooth_of_the_window() {
        // log2 of the window, half as much again, and one.
        assert_eq!((gain(16.0), gain(100.0)), (1.0 / 128.0, 1.0 / 1024.0));
        assert_eq!((gain(0.0), gain(f64::INFINITY)), (0.5, 1.0 / f64::from(1 << 18)));
    }

    #[test]
    fn a_queue_that_swings_by_milliseconds_is_a_classic_one_in_a_few_round_trips_and_one_that_does_not_never_is()
     {
        let of = |swing_us: u64| {
            let mut aqm = ClassicAqm::new();
            aqm.on_reduction(16.0);
            for number in 0..4000u64 {
                aqm.on_sample(Span::from_micros(20_000 + number % 40 * swing_us / 40));
                if number % 40 == 0 {
                    aqm.on_round();
                }
            }
            aqm
        };
        let (short, long) = (of(1_000), of(20_000));
        assert_eq!((short.score(), short.answered(0.1)), (0.0, 0.1));
        assert!(long.score() > CLASSIC, "{long:?}");
        assert_eq!((long.answered(0.1), long.answered(0.9)), (CLASSIC_ALPHA, 0.9));
    }
}
