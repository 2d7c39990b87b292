//! Leaky bucket: packets leave evenly spaced at a rate, whatever bursts they come in. NBP, EEC and IEC hold every flow or
//! virtual link at the ingress to the rate that its feedback allows.
//!
//! Source: Turner, "New directions in communications", IEEE Communications Magazine 24(10), 1986; NBP, section II.A.
//! Deviations:
//! - A packet may always fill the bucket alone: a bucket smaller than the packet counts as one of exactly its size. So
//!   the smallest bucket (zero, the default) spaces each packet by the size of the one before, small ones included.
//! - Times are whole nanoseconds. What leaks between the exact instant and the next whole nanosecond is credited to the
//!   next packet, so that the long-term rate is exact; at most `rate * (t + 1 ns) + bucket` leaves in any time t.
//! - At rate zero nothing leaves, even if the bucket has room.

use tidegate_units::{BitRate, Bytes, Span, Time};

use super::{Shaper, work_of};

/// Parameters of [`LeakyBucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucketConfig {
    /// The rate at the start.
    pub rate: BitRate,
    /// The bucket sigma, bytes: how much may leave at once after a pause. Default zero, which is one packet of any size.
    pub bucket: Bytes,
}

impl LeakyBucketConfig {
    /// A bucket of one packet that leaks at `rate`.
    pub const fn one_packet(rate: BitRate) -> Self {
        Self { rate, bucket: Bytes::ZERO }
    }

    /// An empty bucket: the first packet may leave at once.
    pub const fn build(&self, now: Time) -> LeakyBucket {
        LeakyBucket { level: 0, updated: now, rate: self.rate, bucket: work_of(self.bucket.get()) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LeakyBucket {
    /// What is in the bucket, as work, at `updated`. Below zero by less than one nanosecond's leak: the carried remainder.
    level: i64,
    updated: Time,
    rate: BitRate,
    bucket: i64,
}

impl Shaper for LeakyBucket {
    fn set_rate(&mut self, rate: BitRate, now: Time) {
        self.leak_until(now);
        self.rate = rate;
    }

    #[inline]
    fn release_at(&self, wire_bytes: u32, now: Time) -> Time {
        if self.rate.is_zero() {
            return Time::MAX;
        }
        let room_for_earlier = (self.bucket - work_of(u64::from(wire_bytes))).max(0);
        let excess = self.level - room_for_earlier;
        if excess <= 0 {
            return now;
        }
        let wait = (excess as u64).div_ceil(self.rate.as_bps());
        self.updated.saturating_add(Span::from_nanos(wait)).max(now)
    }

    #[inline]
    fn on_departure(&mut self, wire_bytes: u32, now: Time) {
        self.leak_until(now);
        self.level = self.level.saturating_add(work_of(u64::from(wire_bytes)));
    }
}

impl LeakyBucket {
    /// The present rate.
    pub const fn rate(&self) -> BitRate {
        self.rate
    }

    /// From now on so much may leave at once.
    pub const fn set_bucket(&mut self, bucket: Bytes) {
        self.bucket = work_of(bucket.get());
    }

    fn leak_until(&mut self, now: Time) {
        let leaked = i128::from(self.rate.as_bps()) * i128::from(now.since(self.updated).as_nanos());
        let floor = 1 - i128::from(self.rate.as_bps().max(1));
        let level = (i128::from(self.level) - leaked).max(floor);
        self.level = i64::try_from(level).unwrap_or(i64::MIN / 2);
        self.updated = self.updated.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn bucket(rate: BitRate, sigma: u64) -> LeakyBucket {
        LeakyBucketConfig { rate, bucket: Bytes::new(sigma) }.build(Time::ZERO)
    }

    /// Sends every packet as soon as it may go; the instants.
    fn greedy(shaper: &mut LeakyBucket, sizes: &[u32], start: Time) -> Vec<Time> {
        let mut now = start;
        sizes
            .iter()
            .map(|&size| {
                now = shaper.release_at(size, now);
                shaper.on_departure(size, now);
                now
            })
            .collect()
    }

    #[test]
    fn packets_are_spaced_by_the_size_of_the_one_before() {
        // One byte per microsecond.
        let times = greedy(&mut bucket(BitRate::from_mbps(8), 0), &[1000, 40, 1000, 1000], Time::ZERO);
        assert_eq!(times.iter().map(|t| t.as_nanos() / 1000).collect::<Vec<_>>(), [0, 1000, 1040, 2040]);
    }

    #[test]
    fn a_bucket_of_three_packets_lets_three_go_at_once_after_a_pause() {
        let mut shaper = bucket(BitRate::from_mbps(8), 3000);
        let times = greedy(&mut shaper, &[1000; 5], Time::from_nanos(1_000_000_000));
        let micros: Vec<_> = times.iter().map(|t| t.as_nanos() / 1000 - 1_000_000).collect();
        assert_eq!(micros, [0, 0, 0, 1000, 2000]);
    }

    #[test]
    fn the_rate_is_exact_over_a_million_packets_that_do_not_divide_into_nanoseconds() {
        // 1000 bytes at 3 Mbit/s take 2,666,666.67 ns.
        let mut shaper = bucket(BitRate::from_mbps(3), 0);
        let mut now = Time::ZERO;
        for _ in 0..1_000_001 {
            now = shaper.release_at(1000, now);
            shaper.on_departure(1000, now);
        }
        assert_eq!(now.as_nanos(), (1_000_000u64 * 8_000_000).div_ceil(3));
    }

    #[test]
    fn what_leaked_at_the_old_rate_counts_when_the_rate_changes() {
        let at = |us| Time::ZERO + Span::from_micros(us);
        let mut shaper = bucket(BitRate::from_mbps(8), 0);
        shaper.on_departure(1000, at(0));
        assert_eq!(shaper.release_at(1000, at(0)), at(1000));
        // 600 bytes leaked in 600 us; the other 400 take twice as long at half the rate.
        shaper.set_rate(BitRate::from_mbps(4), at(600));
        assert_eq!(shaper.release_at(1000, at(600)), at(1400));
        shaper.set_rate(BitRate::ZERO, at(1000));
        assert_eq!(shaper.release_at(1000, at(1000)), Time::MAX);
        // 200 bytes are left, and nothing leaked at rate zero.
        shaper.set_rate(BitRate::from_mbps(8), at(5000));
        assert_eq!(shaper.release_at(1000, at(5000)), at(5200));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_times_time_plus_bucket_over_any_interval(
            bps in 1u64..2_000_000_000, sigma in 0u64..20_000,
            packets in prop::collection::vec((40u32..9000, 0u64..3_000_000), 1..60)
        ) {
            let mut shaper = bucket(BitRate::from_bps(bps), sigma);
            let mut now = Time::ZERO;
            let mut sent = Vec::new();
            for (size, pause) in packets {
                now = shaper.release_at(size, now + Span::from_nanos(pause));
                shaper.on_departure(size, now);
                sent.push((now, u64::from(size)));
            }
            let largest = sent.iter().map(|s| s.1).max().unwrap_or(0).max(sigma);
            for from in 0..sent.len() {
                let mut bytes = 0;
                for &(t, size) in &sent[from..] {
                    bytes += size;
                    let allowed = u128::from(bps) * u128::from(t.since(sent[from].0).as_nanos() + 1)
                        + u128::from(largest) * 8_000_000_000;
                    prop_assert!(u128::from(bytes) * 8_000_000_000 <= allowed);
                }
            }
        }

        #[test]
        fn a_backlog_leaves_as_fast_as_the_rate_allows_across_changes_of_rate(
            steps in prop::collection::vec((1u64..1_000_000_000, 1u64..3_000_000), 1..30)
        ) {
            // Departures of a backlog under piecewise constant rates equal those of the integral of the rate.
            let mut shaper = bucket(BitRate::from_bps(steps[0].0), 0);
            let (mut now, mut departed, mut integral) = (Time::ZERO, 0u128, 0u128);
            for (bps, length) in steps {
                let end = now + Span::from_nanos(length);
                shaper.set_rate(BitRate::from_bps(bps), now);
                loop {
                    let at = shaper.release_at(500, now);
                    if at > end { break; }
                    shaper.on_departure(500, at);
                    departed += 1;
                    now = at;
                }
                now = end;
                integral += u128::from(bps) * u128::from(length);
                // The first packet leaves an empty bucket; each later one when 500 bytes more have leaked.
                let due = 1 + integral / (500 * 8_000_000_000);
                prop_assert!(departed == due, "{departed} left, {due} were due");
            }
        }
    }
}
