//! Time sliding window: a rate estimate whose memory is a length of time, not a number of packets, so that fast and slow
//! flows are smoothed alike. It needs two numbers per flow and no timer.
//!
//! Source: Clark & Fang, "Explicit allocation of best-effort packet delivery service", `IEEE/ACM ToN` 6(4), 1998,
//! section III.D; NBP, section II.A uses it at the egress with a window of 10 ms.
//! Deviations:
//! - The estimate starts at zero (NBP knows no target rate); Clark & Fang start at the target rate: `initial`.
//! - The first packet counts from the instant the meter was built, where the published code counts from time zero.
//! - The published estimate changes only when a packet comes, so a flow that stops keeps its last rate for ever. With
//!   [`SilenceRule`] (default) it reads zero after a silence. A gap shorter than the window counts as the window: the
//!   packets of a burst have gaps of nearly zero, and ten of those are no silence.

use tidegate_units::{BitRate, Span, Time};

use super::RateMeter;

/// Parameters of [`TswMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TswConfig {
    /// `Win_length`, time: how far the estimate looks back. Default 10 ms (NBP, Table 1).
    pub window: Span,
    /// The estimate before the first packet. Default zero.
    pub initial: BitRate,
    /// After which silence the flow counts as stopped; `None` never. Default [`SilenceRule::default`].
    pub silence: Option<SilenceRule>,
}

/// When a flow has stopped: as soon as one of the two has passed without a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceRule {
    /// So many times the last gap between packets, or the window if that is longer. Default 10.
    pub gaps: u32,
    /// A length of time. Default 1 s.
    pub span: Span,
}

impl Default for SilenceRule {
    fn default() -> Self {
        Self { gaps: 10, span: Span::from_secs(1) }
    }
}

impl TswConfig {
    /// As NBP uses it: 10 ms, reads zero after a silence.
    pub fn nbp() -> Self {
        Self { window: Span::from_millis(10), initial: BitRate::ZERO, silence: Some(SilenceRule::default()) }
    }

    /// As published: 1 s, starts at the target rate, never reads zero again.
    pub const fn clark_fang_1998(target: BitRate) -> Self {
        Self { window: Span::from_secs(1), initial: target, silence: None }
    }

    /// A meter for packets from `now` on.
    pub fn build(&self, now: Time) -> TswMeter {
        TswMeter {
            avg_rate: self.initial.as_bytes_per_second_f64(),
            t_front: now,
            window: self.window.as_secs_f64(),
            silent_after: Span::MAX,
            config: *self,
        }
    }
}

impl Default for TswConfig {
    fn default() -> Self {
        Self::nbp()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TswMeter {
    /// `Avg_rate`, bytes per second.
    avg_rate: f64,
    /// `T_front`: the last packet.
    t_front: Time,
    /// `Win_length`, seconds.
    window: f64,
    /// Silence after which the estimate reads zero.
    silent_after: Span,
    config: TswConfig,
}

impl RateMeter for TswMeter {
    #[inline]
    fn on_arrival(&mut self, wire_bytes: u32, now: Time) {
        let gap = now.since(self.t_front);
        self.avg_rate = window_average(self.avg_rate, wire_bytes, gap.as_secs_f64(), self.window);
        self.t_front = now;
        if let Some(rule) = self.config.silence {
            let seen = gap.max(self.config.window);
            self.silent_after = seen.saturating_mul(u64::from(rule.gaps)).min(rule.span);
        }
    }

    #[inline]
    fn rate(&self, now: Time) -> BitRate {
        BitRate::from_bytes_per_second_f64(self.bytes_per_second(now))
    }
}

impl TswMeter {
    /// Forgets everything: packets count from `now` on.
    pub fn restart(&mut self, now: Time) {
        *self = self.config.build(now);
    }

    /// The estimate in bytes per second, not rounded.
    #[inline]
    pub fn bytes_per_second(&self, now: Time) -> f64 {
        if now.since(self.t_front) > self.silent_after { 0.0 } else { self.avg_rate }
    }
}

/// The rate after a packet that came `gap` seconds after the one before (Clark & Fang, section III.D).
fn window_average(rate: f64, wire_bytes: u32, gap: f64, window: f64) -> f64 {
    (rate * window + f64::from(wire_bytes)) / (gap + window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after_constant_rate(gap: Span, packets: u64) -> (TswMeter, Time) {
        let mut meter = TswConfig::nbp().build(Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..packets {
            now += gap;
            meter.on_arrival(1000, now);
        }
        (meter, now)
    }

    #[test]
    fn a_constant_rate_is_read_without_bias_even_below_one_packet_per_window() {
        // 1000 bytes every 62.5 ms: 128 kbit/s, six windows apart.
        for (gap_us, packets, bps) in [(62_500, 30, 128e3), (80, 3000, 100e6)] {
            let (meter, now) = after_constant_rate(Span::from_micros(gap_us), packets);
            assert!((meter.rate(now).as_bps_f64() - bps).abs() < 1e-5 * bps);
        }
    }

    #[test]
    fn the_error_after_a_step_falls_by_w_over_gap_plus_w_per_packet() {
        let mut meter = TswConfig::clark_fang_1998(BitRate::from_bps(0)).build(Time::ZERO);
        let (gap, truth) = (0.1, 10_000.0);
        let mut expected = 0.0;
        for k in 1..=20u64 {
            meter.on_arrival(1000, Time::ZERO + Span::from_millis(100 * k));
            expected += (truth - expected) * gap / (gap + 1.0);
            assert!((meter.bytes_per_second(Time::ZERO) - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn a_flow_that_stops_reads_zero_after_ten_gaps_or_a_second() {
        for (gap_ms, silent_ms) in [(50, 500), (300, 1000)] {
            let (meter, now) = after_constant_rate(Span::from_millis(gap_ms), 10);
            assert!(!meter.rate(now + Span::from_millis(silent_ms)).is_zero());
            assert!(meter.rate(now + Span::from_millis(silent_ms + 1)).is_zero());
        }
    }

    #[test]
    fn a_pause_between_bursts_shorter_than_ten_windows_is_no_silence() {
        let (meter, now) = after_constant_rate(Span::from_nanos(1), 10);
        assert!(!meter.rate(now + Span::from_millis(100)).is_zero());
    }

    #[test]
    fn without_the_rule_the_last_estimate_stays() {
        let mut meter = TswConfig::clark_fang_1998(BitRate::from_mbps(1)).build(Time::ZERO);
        meter.on_arrival(1000, Time::from_nanos(5));
        assert!(!meter.rate(Time::from_nanos(u64::MAX)).is_zero());
    }

    proptest! {
        #[test]
        fn the_estimate_never_exceeds_the_largest_start_plus_all_bytes_in_a_window(
            packets in prop::collection::vec((0u64..50_000_000, 40u32..9000), 1..200)
        ) {
            let mut meter = TswConfig::nbp().build(Time::ZERO);
            let (mut now, mut bytes) = (Time::ZERO, 0.0);
            for (gap, size) in packets {
                now += Span::from_nanos(gap);
                bytes += f64::from(size);
                meter.on_arrival(size, now);
                let rate = meter.bytes_per_second(now);
                prop_assert!(rate > 0.0 && rate <= bytes / 0.01 * (1.0 + 1e-12));
            }
        }
    }
}
