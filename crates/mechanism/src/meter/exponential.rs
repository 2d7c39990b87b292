//! Exponential average of a rate whose weight depends on the time between packets, e^(-T/K): the estimate converges to
//! the true rate within a bounded time whatever the packet lengths and gaps. CSFQ labels packets with it.
//!
//! Source: Stoica, Shenker & Zhang, "Core-stateless fair queueing", SIGCOMM 1998, section 3.1.
//! Deviations:
//! - Packets at the same instant (T = 0, where the formula divides by zero) are added to the next one that comes later.
//! - The first packet of a flow has no T; it enters with the limit of the formula for T to 0, which adds l/K. A flow
//!   that starts is thus never read as zero.

use tidegate_units::{BitRate, Span, Time};

use super::RateMeter;

/// Parameters of [`ExponentialMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialMeterConfig {
    /// The averaging constant K, time, not zero. Default 100 ms (the authors' simulations of CSFQ).
    pub k: Span,
}

impl Default for ExponentialMeterConfig {
    fn default() -> Self {
        Self { k: Span::from_millis(100) }
    }
}

impl ExponentialMeterConfig {
    /// A meter that has seen no packet.
    pub fn build(&self) -> ExponentialMeter {
        assert!(!self.k.is_zero(), "the averaging constant is a length of time");
        ExponentialMeter { rate: 0.0, pending_bytes: 0, last: None, per_k: 1.0 / self.k.as_secs_f64() }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ExponentialMeter {
    /// Bytes per second.
    rate: f64,
    /// Bytes that came at `last`, but after its first packet.
    pending_bytes: u64,
    last: Option<Time>,
    /// 1/K in 1/s.
    per_k: f64,
}

impl RateMeter for ExponentialMeter {
    #[inline]
    fn on_arrival(&mut self, wire_bytes: u32, now: Time) {
        self.add(wire_bytes, now);
    }

    /// The estimate at the last packet: it does not decay between packets.
    #[inline]
    fn rate(&self, _now: Time) -> BitRate {
        BitRate::from_bytes_per_second_f64(self.rate)
    }
}

impl ExponentialMeter {
    /// A packet of `wire_bytes` passes (zero bytes: one that counts for nothing but the time); the new estimate in bytes
    /// per second.
    #[inline]
    pub fn add(&mut self, wire_bytes: u32, now: Time) -> f64 {
        match self.last {
            None => {
                self.rate = f64::from(wire_bytes) * self.per_k;
                self.last = Some(now);
            }
            Some(last) if now <= last => self.pending_bytes += u64::from(wire_bytes),
            Some(last) => {
                let bytes = self.pending_bytes + u64::from(wire_bytes);
                self.rate = exponential_average(self.rate, bytes, now.since(last).as_secs_f64(), self.per_k);
                self.pending_bytes = 0;
                self.last = Some(now);
            }
        }
        self.rate
    }

    /// The estimate in bytes per second, not rounded.
    #[inline]
    pub const fn bytes_per_second(&self) -> f64 {
        self.rate
    }

    /// The last packet, if there was one.
    #[inline]
    pub const fn last_arrival(&self) -> Option<Time> {
        self.last
    }
}

/// `(1 - e^(-T/K)) l/T + e^(-T/K) r` (Stoica et al., section 3.1), with T = `gap` > 0 seconds and 1/K = `per_k`.
fn exponential_average(rate: f64, bytes: u64, gap: f64, per_k: f64) -> f64 {
    rate + sample_weight(gap, per_k) * (bytes as f64 / gap - rate)
}

/// `1 - e^(-T/K)`.
#[inline]
pub(crate) fn sample_weight(gap: f64, per_k: f64) -> f64 {
    // expm1 keeps all digits where T is much smaller than K, the common case.
    -libm::expm1(-gap * per_k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meter() -> ExponentialMeter {
        ExponentialMeterConfig::default().build()
    }

    #[test]
    fn a_constant_rate_is_approached_as_one_minus_e_to_the_minus_t_over_k() {
        let mut meter = meter();
        meter.add(0, Time::ZERO);
        for k in 1..=300u64 {
            meter.add(1000, Time::ZERO + Span::from_millis(k));
            let expected = 1e6 * (1.0 - libm::exp(-(k as f64) / 100.0));
            assert!((meter.bytes_per_second() - expected).abs() < 1e-6 * expected);
        }
    }

    #[test]
    fn the_estimate_is_the_same_whether_packets_are_large_or_small() {
        let (mut small, mut large) = (meter(), meter());
        small.add(0, Time::ZERO);
        large.add(0, Time::ZERO);
        for k in 1..=1000u64 {
            small.add(100, Time::ZERO + Span::from_millis(k));
            if k % 10 == 0 {
                large.add(1000, Time::ZERO + Span::from_millis(k));
                assert!((small.bytes_per_second() - large.bytes_per_second()).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn packets_at_one_instant_count_when_time_moves_on() {
        let mut meter = meter();
        meter.add(1000, Time::ZERO);
        let first = meter.bytes_per_second();
        assert_eq!(first, 10_000.0); // l/K
        meter.add(1000, Time::ZERO);
        meter.add(1000, Time::ZERO);
        assert_eq!(meter.bytes_per_second(), first);
        meter.add(1000, Time::from_nanos(100_000_000));
        let e = libm::exp(-1.0);
        assert!((meter.bytes_per_second() - ((1.0 - e) * 3000.0 / 0.1 + e * first)).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn the_estimate_stays_between_the_old_one_and_the_new_sample(
            packets in prop::collection::vec((1u64..1_000_000_000, 1u32..9000), 1..200)
        ) {
            let mut meter = meter();
            let mut now = Time::ZERO;
            meter.add(1000, now);
            for (gap, size) in packets {
                now += Span::from_nanos(gap);
                let (old, sample) = (meter.bytes_per_second(), f64::from(size) / (gap as f64 / 1e9));
                let new = meter.add(size, now);
                let slack = 1e-9 * (old + sample);
                prop_assert!(new >= old.min(sample) - slack && new <= old.max(sample) + slack);
            }
        }
    }
}
