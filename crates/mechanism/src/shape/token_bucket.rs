//! Token bucket: bounds what a flow may send in any time t by `rate * t + depth`, without shaping what stays within. With
//! a peak rate the bursts themselves are bounded too.
//!
//! Source: RFC 2697/2698 and Linux `tc-tbf(8)` (peak rate as a second bucket one packet deep); Feng, section 5.2.1.
//! Deviations: the bound is strict: a packet larger than the depth never conforms, and the shaper says [`Time::MAX`] for
//! it. Release times are rounded up to whole nanoseconds; tokens of the rounding are kept unless the bucket is full.

use tidegate_units::{BitRate, Bytes, Span, Time};

use super::tokens::Tokens;
use super::{Shaper, work_of};
use crate::Context;

/// Parameters of [`TokenBucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucketConfig {
    /// How fast tokens come.
    pub rate: BitRate,
    /// How many bytes of tokens the bucket holds, and holds at the start.
    pub depth: Bytes,
    /// The rate of bursts; `None` (default) for no bound but the link's.
    pub peak_rate: Option<BitRate>,
}

impl TokenBucketConfig {
    /// A bucket without a peak rate.
    pub const fn new(rate: BitRate, depth: Bytes) -> Self {
        Self { rate, depth, peak_rate: None }
    }

    /// A full bucket. The bucket of the peak rate holds one packet of the context's MTU.
    pub fn build(&self, context: &Context, now: Time) -> TokenBucket {
        TokenBucket {
            updated: now,
            sustained: Tokens::full(self.rate, self.depth.get()),
            peak: self.peak_rate.map(|rate| Tokens::full(rate, u64::from(context.mtu_bytes))),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    updated: Time,
    sustained: Tokens,
    peak: Option<Tokens>,
}

impl TokenBucket {
    /// Whether there are tokens for a packet of `wire_bytes`.
    #[inline]
    pub fn conforms(&self, wire_bytes: u32, now: Time) -> bool {
        let elapsed = now.since(self.updated);
        let packet = work_of(u64::from(wire_bytes));
        packet <= self.sustained.after(elapsed) && self.peak.is_none_or(|peak| packet <= peak.after(elapsed))
    }

    /// Takes the tokens of a packet of `wire_bytes` if it conforms; whether it did.
    #[inline]
    pub fn consume(&mut self, wire_bytes: u32, now: Time) -> bool {
        let conforms = self.conforms(wire_bytes, now);
        if conforms {
            self.fill_until(now);
            self.take(wire_bytes);
        }
        conforms
    }

    /// The tokens in the bucket, whole bytes.
    pub fn tokens(&self, now: Time) -> Bytes {
        Bytes::new((self.sustained.after(now.since(self.updated)).max(0) / super::WORK_PER_BYTE) as u64)
    }

    fn fill_until(&mut self, now: Time) {
        let elapsed = now.since(self.updated);
        for bucket in core::iter::once(&mut self.sustained).chain(&mut self.peak) {
            bucket.level = bucket.after(elapsed);
        }
        self.updated = self.updated.max(now);
    }

    fn take(&mut self, wire_bytes: u32) {
        for bucket in core::iter::once(&mut self.sustained).chain(&mut self.peak) {
            bucket.level -= work_of(u64::from(wire_bytes));
        }
    }
}

impl Shaper for TokenBucket {
    /// The sustained rate changes; the peak rate stays.
    fn set_rate(&mut self, rate: BitRate, now: Time) {
        self.fill_until(now);
        self.sustained.rate = rate;
    }

    #[inline]
    fn release_at(&self, wire_bytes: u32, now: Time) -> Time {
        let packet = work_of(u64::from(wire_bytes));
        let wait = self.sustained.wait_for(packet).max(self.peak.map_or(Span::ZERO, |p| p.wait_for(packet)));
        self.updated.saturating_add(wait).max(now)
    }

    /// Tokens go below zero if the packet did not conform; later packets then wait longer.
    #[inline]
    fn on_departure(&mut self, wire_bytes: u32, now: Time) {
        self.fill_until(now);
        self.take(wire_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn bucket(rate: BitRate, depth: u64, peak_rate: Option<BitRate>) -> TokenBucket {
        TokenBucketConfig { rate, depth: Bytes::new(depth), peak_rate }
            .build(&Context::for_tests(), Time::ZERO)
    }

    #[test]
    fn a_full_bucket_lets_its_depth_go_at_once_and_then_the_rate() {
        let mut shaper = bucket(BitRate::from_mbps(8), 3000, None);
        let mut now = Time::ZERO;
        let mut micros = Vec::new();
        for _ in 0..5 {
            now = shaper.release_at(1000, now);
            shaper.on_departure(1000, now);
            micros.push(now.as_nanos() / 1000);
        }
        assert_eq!(micros, [0, 0, 0, 1000, 2000]);
    }

    #[test]
    fn a_peak_rate_spaces_the_burst() {
        let mut shaper = bucket(BitRate::from_mbps(8), 3000, Some(BitRate::from_mbps(80)));
        let mut now = Time::ZERO;
        let mut micros = Vec::new();
        for _ in 0..5 {
            now = shaper.release_at(1500, now);
            shaper.on_departure(1500, now);
            micros.push(now.as_nanos() / 1000);
        }
        assert_eq!(micros, [0, 150, 1500, 3000, 4500]);
    }

    #[test]
    fn a_packet_larger_than_the_bucket_never_conforms() {
        let bucket = bucket(BitRate::from_mbps(8), 1000, None);
        let later = Time::ZERO + Span::from_secs(10);
        assert!(bucket.conforms(1000, later) && !bucket.conforms(1001, later));
        assert_eq!(bucket.release_at(1001, later), Time::MAX);
    }

    #[test]
    fn at_rate_zero_the_bucket_empties_once() {
        let mut bucket = bucket(BitRate::ZERO, 2000, None);
        let later = Time::ZERO + Span::from_secs(10);
        assert!(bucket.consume(1500, Time::ZERO) && !bucket.consume(1500, later));
        assert_eq!(bucket.release_at(1500, later), Time::MAX);
        assert_eq!(bucket.tokens(later), Bytes::new(500));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_times_time_plus_depth_over_any_interval(
            bps in 1u64..2_000_000_000, depth in 1500u64..20_000, peak in prop::option::of(1u64..2_000_000_000),
            policing: bool,
            packets in prop::collection::vec((40u32..=1500, 0u64..3_000_000), 1..60)
        ) {
            let mut bucket = bucket(BitRate::from_bps(bps), depth, peak.map(BitRate::from_bps));
            let mut now = Time::ZERO;
            let mut sent = Vec::new();
            for (size, pause) in packets {
                now += Span::from_nanos(pause);
                if policing {
                    if bucket.consume(size, now) { sent.push((now, u64::from(size))); }
                } else {
                    now = bucket.release_at(size, now);
                    prop_assert!(bucket.conforms(size, now), "released before it conforms");
                    bucket.on_departure(size, now);
                    sent.push((now, u64::from(size)));
                }
            }
            for from in 0..sent.len() {
                let mut work = 0u128;
                for &(t, size) in &sent[from..] {
                    work += u128::from(size) * 8_000_000_000;
                    let span = u128::from(t.since(sent[from].0).as_nanos());
                    prop_assert!(work <= u128::from(bps) * span + u128::from(depth) * 8_000_000_000);
                    if let Some(peak) = peak {
                        prop_assert!(work <= u128::from(peak) * span + 1500 * 8_000_000_000);
                    }
                }
            }
        }
    }
}
