//! Reno's window: slow start, congestion avoidance, halving. Tahoe, NewReno and SACK differ from Reno in recovery, not
//! here.
//!
//! Source: `modern`: RFC 5681, sections 3.1 and 3.2, with the byte counting of RFC 3465 and the cautious exit from
//! recovery of RFC 6582, section 3.2, step 3 (1). `ns-1999`: `opencwnd` and `slowdown` of ns-2's agents
//! (tests/oracle/ns2, section 1.4; catalogue, section 1).
//! An echo may leave another part than a loss (RFC 8511), and slow start may end earlier (RFC 9406, `hystart`).
//! Deviations: `modern` opens the window only while it is used (RFC 7661 explains why; Linux does the same), and an ECN
//! echo leaves at least two segments, as in Linux, where RFC 3168, section 6.1.2, goes down to one and then asks for
//! timed sends: so it does with [`TcpConfig::ecn_timeout`]. Whether the window is used is asked of each acknowledgment; where the host
//! paces and acknowledgments come in batches, those behind the first find a window that the pacer has not refilled yet, and add nothing.
//! Linux remembers until a window has passed that it was full (`is_cwnd_limited`). `ns-1999` keeps at least the minimum window after a halving, where ns
//! could reach a window of zero from a receive window of one packet.

use alloc::boxed::Box;

use tidegate_parameters::{Bound, parameters};
use tidegate_units::Time;

use super::hystart::{CSS_GROWTH_DIVISOR, HyStart, Pace};
use super::{Ack, Congestion, CongestionControl, Permission, Sampling, Signal, telling};
use crate::tcp::config::{Rules, TcpConfig};

parameters! {
    /// # Reno's window
    ///
    /// Slow start, additive increase, multiplicative decrease; never below `minimum_window`.
    ///
    /// Source: RFC 5681; ns.
    #[derive(Copy)]
    pub struct RenoConfig {
        /// What an ECN echo leaves of the window; without it a half, as a loss. A mark comes from a queue that is still short. Source: RFC
        /// 8511, section 3, recommends 0.8.
        ecn_beta: Option<f64> = None => ECN_BETA;
        /// Whether slow start ends when round trips grow (`HyStart++`). The rules of ns know it not. Source: RFC 9406; off in RFC 5681.
        hystart: bool = false;
    }
}

/// A part that congestion leaves.
pub(super) const ECN_BETA: Bound<f64> = telling(
    Bound::above(0.0).and_below(1.0),
    " must be between 0 and 1",
    "congestion leaves a part of the window",
);

/// L of RFC 3465, section 2.2: slow start opens the window by at most this many segments for each acknowledgment. 1 would be RFC
/// 5681 without delayed acknowledgments, 2 makes up for them. `ns-1999` ignores it.
pub(super) const BYTE_LIMIT_SEGMENTS: u32 = 2;

impl RenoConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Reno {
        let segment = u64::from(tcp.segment_bytes);
        let threshold = match tcp.rules {
            Rules::Ns1999 => u64::from(tcp.receive_window_bytes),
            Rules::Modern => u64::MAX,
        };
        let initial_segments = tcp.initial_window_segments.max(tcp.minimum_window_segments);
        let initial_bytes = u64::from(initial_segments) * segment;
        Reno {
            cwnd_bytes: initial_bytes,
            ssthresh_bytes: tcp.initial_ssthresh_bytes.unwrap_or(threshold),
            bytes_acked: 0,
            cwnd_segments: f64::from(initial_segments),
            initial_bytes,
            minimum_bytes: u64::from(tcp.minimum_window_segments) * segment,
            echo_floor_segments: if tcp.ecn_timeout { 1 } else { 2 },
            segment_bytes: tcp.segment_bytes,
            byte_limit: BYTE_LIMIT_SEGMENTS.saturating_mul(tcp.segment_bytes),
            after_timeout: false,
            rules: tcp.rules,
            ecn_beta: self.ecn_beta,
            hystart: (self.hystart && tcp.rules == Rules::Modern).then(|| Box::new(HyStart::new())),
        }
    }
}

/// See the module.
// In this order, what every acknowledgment touches comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Reno {
    /// `ns-1999`: the whole segments of `cwnd_segments`, in bytes.
    cwnd_bytes: u64,
    ssthresh_bytes: u64,
    /// `modern`: acknowledged bytes not yet turned into window.
    bytes_acked: u64,
    /// `ns-1999`: the window in segments, with its fraction.
    cwnd_segments: f64,
    segment_bytes: u32,
    byte_limit: u32,
    rules: Rules,
    /// `modern`: slow start is that of a time-out.
    after_timeout: bool,
    /// `modern`: what an ECN echo leaves at least.
    echo_floor_segments: u32,
    hystart: Option<Box<HyStart>>,
    initial_bytes: u64,
    minimum_bytes: u64,
    /// What an echo leaves, where that is not what a loss leaves.
    ecn_beta: Option<f64>,
}

impl Reno {
    /// The same, where an ECN echo may leave one segment under any rules.
    pub(super) const fn with_echo_floor_of_one(mut self) -> Self {
        self.echo_floor_segments = 1;
        self
    }

    /// The window in segments, with its fraction.
    pub(super) fn cwnd_segments(&self) -> f64 {
        match self.rules {
            Rules::Ns1999 => self.cwnd_segments,
            Rules::Modern => self.cwnd_bytes as f64 / f64::from(self.segment_bytes),
        }
    }

    /// Sets the window, in segments, for a control that opens it by a law of its own.
    pub(super) fn set_cwnd_segments(&mut self, segments: f64) {
        self.cwnd_segments = segments;
        let segment = f64::from(self.segment_bytes);
        self.cwnd_bytes = match self.rules {
            Rules::Ns1999 => segments as u64 * u64::from(self.segment_bytes),
            Rules::Modern => (segments * segment) as u64,
        };
    }

    /// Sets the window and the threshold of slow start, for a control that closes it by a law of its own.
    pub(super) fn close_to(&mut self, bytes: u64) {
        self.bytes_acked = 0;
        self.cwnd_bytes = bytes.max(self.minimum_bytes);
        self.ssthresh_bytes = self.cwnd_bytes;
        self.cwnd_segments = self.cwnd_bytes as f64 / f64::from(self.segment_bytes);
    }

    /// ns's `opencwnd`: once for each acknowledgment of new data, whatever it covers.
    #[inline]
    fn open_ns(&mut self) {
        // With whole thresholds, cwnd < ssthresh if and only if int(cwnd) < ssthresh.
        if self.cwnd_bytes < self.ssthresh_bytes {
            self.cwnd_segments += 1.0;
            self.cwnd_bytes += u64::from(self.segment_bytes);
        } else {
            self.cwnd_segments += 1.0 / self.cwnd_segments;
            self.cwnd_bytes = self.cwnd_segments as u64 * u64::from(self.segment_bytes);
        }
    }

    /// RFC 5681, section 3.1, counting bytes.
    #[inline]
    fn open_modern(&mut self, ack: &Ack) {
        let segment = u64::from(self.segment_bytes);
        if self.cwnd_bytes < self.ssthresh_bytes {
            let divisor = if self.hystart.is_some() { self.hystart_divisor(ack) } else { 1 };
            // Used: slow start doubles the window, so half of it in flight is enough to ask for more.
            if 2 * ack.flight_bytes >= self.cwnd_bytes {
                // RFC 3465, section 2.3: after a time-out an acknowledgment may cover what other packets delivered.
                let limit = if self.after_timeout { segment } else { u64::from(self.byte_limit) };
                self.cwnd_bytes = self.cwnd_bytes.saturating_add(ack.acked_bytes.min(limit) / divisor);
            }
            return;
        }
        self.after_timeout = false;
        if ack.flight_bytes + segment > self.cwnd_bytes {
            self.bytes_acked += ack.acked_bytes;
            if self.bytes_acked >= self.cwnd_bytes {
                self.bytes_acked -= self.cwnd_bytes;
                self.cwnd_bytes += segment;
            }
            // A huge acknowledgment is worth one segment, not several.
            self.bytes_acked = self.bytes_acked.min(self.cwnd_bytes);
        }
    }

    /// By what slow start divides its growth; where it is over, it adds this last time.
    #[inline(never)]
    fn hystart_divisor(&mut self, ack: &Ack) -> u64 {
        let (Some(hystart), Some(sample)) = (&mut self.hystart, &ack.sample) else { return 1 };
        let pace = hystart.on_ack(ack.acknowledgment, sample);
        if pace == Pace::Over {
            self.ssthresh_bytes = self.cwnd_bytes;
        }
        if pace == Pace::Slow { 1 } else { u64::from(CSS_GROWTH_DIVISOR) }
    }

    /// `cwnd beta_ecn` (RFC 8511, section 3.1), of `bytes` that congestion finds; in slow start half, as ever (section 4).
    fn echo_leaves(&self, bytes: u64) -> u64 {
        let is_avoiding = self.cwnd_bytes >= self.ssthresh_bytes;
        self.ecn_beta.filter(|_| is_avoiding).map_or(bytes / 2, |beta| part_of(bytes, beta))
    }

    fn set_ns(&mut self, segments: u64) {
        let minimum = self.minimum_bytes / u64::from(self.segment_bytes);
        let whole = segments.max(minimum);
        self.cwnd_segments = whole as f64;
        self.cwnd_bytes = whole * u64::from(self.segment_bytes);
    }

    /// ns's `slowdown`.
    fn close_ns(&mut self, event: &Congestion) {
        let segment = u64::from(self.segment_bytes);
        let window_segments = event.window_bytes / segment;
        let half = match event.signal {
            Signal::EcnEcho => self.echo_leaves(window_segments),
            _ => window_segments / 2,
        };
        if event.signal != Signal::Idle {
            self.ssthresh_bytes = half.max(2) * segment;
        }
        match event.signal {
            Signal::Loss | Signal::EcnEcho => self.set_ns(half),
            Signal::LossRestart | Signal::Timeout | Signal::Idle => self.set_ns(1),
        }
    }

    /// RFC 5681, equation (4) and section 3.1; RFC 3168, section 6.1.2.
    fn close_modern(&mut self, event: &Congestion) {
        let segment = u64::from(self.segment_bytes);
        self.bytes_acked = 0;
        if event.signal == Signal::Idle {
            // RFC 5681, section 4.1: the restart window.
            self.cwnd_bytes = self.cwnd_bytes.min(self.initial_bytes);
            self.after_timeout = false;
            return;
        }
        if let Some(hystart) = &mut self.hystart {
            hystart.switch_off();
        }
        // What limited transmit sent is not counted (RFC 5681, section 3.2, step 2): it exceeds the window.
        let flight_size = event.flight_bytes.min(self.cwnd_bytes);
        let left = match event.signal {
            Signal::EcnEcho => self.echo_leaves(flight_size),
            _ => flight_size / 2,
        };
        if !event.repeated {
            self.ssthresh_bytes = left.max(2 * segment);
        }
        self.after_timeout = event.signal == Signal::Timeout;
        let cwnd = match event.signal {
            Signal::EcnEcho if self.echo_floor_segments == 1 => left.max(segment),
            Signal::Loss | Signal::EcnEcho => self.ssthresh_bytes,
            Signal::LossRestart | Signal::Timeout | Signal::Idle => segment,
        };
        self.cwnd_bytes = cwnd.max(self.minimum_bytes);
    }
}

/// A part of so many, in whole ones.
fn part_of(bytes: u64, beta: f64) -> u64 {
    (bytes as f64 * beta) as u64
}

impl CongestionControl for Reno {
    fn sampling(&self) -> Sampling {
        if self.hystart.is_some() { Sampling::Rates } else { Sampling::OpeningAcks }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, _now: Time) {
        // With samples it hears of all of them.
        if ack.sample.is_some_and(|sample| !sample.opens_window) {
            return;
        }
        match self.rules {
            Rules::Ns1999 => self.open_ns(),
            Rules::Modern => self.open_modern(ack),
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        match self.rules {
            Rules::Ns1999 => self.close_ns(event),
            Rules::Modern => self.close_modern(event),
        }
    }

    fn on_recovered(&mut self, flight_bytes: u64, _now: Time) {
        if self.rules == Rules::Modern {
            // RFC 6582, section 3.2, step 3: no burst when little is left in flight.
            let segment = u64::from(self.segment_bytes);
            let cwnd = self.ssthresh_bytes.min(flight_bytes.max(segment) + segment);
            self.cwnd_bytes = cwnd.max(self.minimum_bytes);
        }
    }

    fn hears_sends(&self) -> bool {
        false
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes {
            Permission::Now
        } else {
            Permission::No
        }
    }

    #[inline]
    fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.ssthresh_bytes
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "cwnd_segments").then(|| self.cwnd_segments())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use tidegate_units::Span;

    const NOW: Time = Time::ZERO;

    fn ack(acked_bytes: u64, flight_bytes: u64) -> Ack {
        Ack { acknowledgment: 0, acked_bytes, flight_bytes, srtt: Span::ZERO, sample: None }
    }
    fn ns() -> Reno {
        RenoConfig::default().build(&TcpConfig::ns_1999(Variant::Reno))
    }
    fn modern() -> Reno {
        RenoConfig::default().build(&TcpConfig::modern(Variant::Reno))
    }

    #[test]
    fn ns_opens_by_one_per_ack_below_the_threshold_and_by_its_inverse_above() {
        let mut reno = ns();
        (0..19).for_each(|_| reno.on_ack(&ack(1000, 0), NOW));
        assert_eq!(reno.cwnd_bytes(), 20_000);
        (0..20).for_each(|_| reno.on_ack(&ack(1000, 0), NOW));
        assert_eq!(reno.cwnd_bytes(), 20_000, "20 acks of 1/cwnd make a little less than one");
        reno.on_ack(&ack(1000, 0), NOW);
        assert_eq!(reno.cwnd_bytes(), 21_000);
    }

    #[test]
    fn ns_halves_the_whole_window_with_integer_division() {
        let mut reno = ns();
        reno.on_congestion(&Congestion::for_tests(Signal::Loss, 15_000), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (7_000, 7_000));
        reno.on_congestion(&Congestion::for_tests(Signal::Timeout, 7_000), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (1_000, 3_000));
        reno.on_congestion(&Congestion::for_tests(Signal::Loss, 3_000), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (1_000, 2_000), "ssthresh has a floor of two");
    }

    #[test]
    fn slow_start_counts_bytes_up_to_two_segments() {
        let mut reno = modern();
        let initial = reno.cwnd_bytes();
        reno.on_ack(&ack(2 * 1460, initial), NOW);
        assert_eq!(reno.cwnd_bytes(), initial + 2 * 1460);
        reno.on_ack(&ack(9 * 1460, initial), NOW);
        assert_eq!(reno.cwnd_bytes(), initial + 4 * 1460);
        reno.on_ack(&ack(100, initial), NOW);
        assert_eq!(reno.cwnd_bytes(), initial + 4 * 1460 + 100);
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window() {
        let mut reno = modern();
        reno.on_congestion(&Congestion::for_tests(Signal::Loss, 20 * 1460), NOW);
        let cwnd = reno.cwnd_bytes();
        assert_eq!(cwnd, 5 * 1460, "half of what the window of ten allowed to fly");
        for _ in 0..4 {
            reno.on_ack(&ack(1460, cwnd), NOW);
            assert_eq!(reno.cwnd_bytes(), cwnd);
        }
        reno.on_ack(&ack(1460, cwnd), NOW);
        assert_eq!(reno.cwnd_bytes(), cwnd + 1460);
    }

    #[test]
    fn a_repeated_timeout_leaves_ssthresh_alone() {
        let mut reno = modern();
        reno.on_congestion(&Congestion::for_tests(Signal::Timeout, 10 * 1460), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (1460, 5 * 1460));
        reno.on_congestion(
            &Congestion { repeated: true, ..Congestion::for_tests(Signal::Timeout, 1460) },
            NOW,
        );
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (1460, 5 * 1460));
    }

    #[test]
    fn one_segment_for_each_acknowledgment_lasts_as_long_as_the_slow_start_of_a_timeout() {
        let timed_out = || {
            let mut reno = modern();
            reno.on_congestion(&Congestion::for_tests(Signal::Timeout, 6 * 1460), NOW);
            reno.on_ack(&ack(2 * 1460, 1460), NOW);
            assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (2 * 1460, 3 * 1460));
            reno
        };
        let mut silent = timed_out();
        silent.on_congestion(&Congestion::for_tests(Signal::Idle, 0), NOW);
        silent.on_ack(&ack(2 * 1460, 2 * 1460), NOW);
        assert_eq!(silent.cwnd_bytes(), 4 * 1460, "nothing is under way that others could deliver");
        let mut arrived = timed_out();
        arrived.on_ack(&ack(2 * 1460, 2 * 1460), NOW);
        assert_eq!(arrived.cwnd_bytes(), 3 * 1460);
        arrived.on_ack(&ack(1460, 3 * 1460), NOW);
        // Below its threshold again, without another time-out.
        arrived.on_recovered(0, NOW);
        arrived.on_ack(&ack(2 * 1460, 2 * 1460), NOW);
        assert_eq!(arrived.cwnd_bytes(), 4 * 1460);
    }

    #[test]
    fn an_echo_leaves_beta_and_a_loss_half_under_both_rules() {
        let config = RenoConfig { ecn_beta: Some(0.8), ..RenoConfig::default() };
        let of = |base| TcpConfig { initial_ssthresh_bytes: Some(1), ..base };
        let mut reno = config.build(&of(TcpConfig::modern(Variant::Reno)));
        reno.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 10 * 1460), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (8 * 1460, 8 * 1460));
        reno.on_congestion(&Congestion::for_tests(Signal::Loss, 8 * 1460), NOW);
        assert_eq!(reno.cwnd_bytes(), 4 * 1460);
        let mut old = config.build(&of(TcpConfig::ns_1999(Variant::Reno)));
        old.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 15_000), NOW);
        assert_eq!((old.cwnd_bytes(), old.ssthresh_bytes()), (12_000, 12_000));
        old.on_congestion(&Congestion::for_tests(Signal::Loss, 12_000), NOW);
        assert_eq!(old.cwnd_bytes(), 6_000);
    }

    #[test]
    fn in_slow_start_an_echo_leaves_half_whatever_beta_is() {
        let config = RenoConfig { ecn_beta: Some(0.8), ..RenoConfig::default() };
        let mut reno = config.build(&TcpConfig::modern(Variant::Reno));
        reno.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 10 * 1460), NOW);
        assert_eq!((reno.cwnd_bytes(), reno.ssthresh_bytes()), (5 * 1460, 5 * 1460));
    }

    #[test]
    fn samples_are_asked_for_only_where_slow_start_looks_at_round_trips() {
        let config = RenoConfig { hystart: true, ..RenoConfig::default() };
        assert_eq!(config.build(&TcpConfig::modern(Variant::Reno)).sampling(), Sampling::Rates);
        assert_eq!(modern().sampling(), Sampling::OpeningAcks);
        assert_eq!(config.build(&TcpConfig::ns_1999(Variant::Reno)).sampling(), Sampling::OpeningAcks);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut reno = modern();
        let initial = reno.cwnd_bytes();
        reno.on_ack(&ack(1460, 1460), NOW);
        assert_eq!(reno.cwnd_bytes(), initial);
    }

    #[test]
    fn the_minimum_window_holds_against_every_signal() {
        for base in [TcpConfig::ns_1999(Variant::Reno), TcpConfig::modern(Variant::Reno)] {
            let config = TcpConfig { minimum_window_segments: 2, ..base };
            for signal in [Signal::Loss, Signal::LossRestart, Signal::Timeout, Signal::Idle, Signal::EcnEcho]
            {
                let mut reno = RenoConfig::default().build(&config);
                (0..5).for_each(|_| reno.on_congestion(&Congestion::for_tests(signal, 1000), NOW));
                assert!(reno.cwnd_bytes() >= 2 * u64::from(config.segment_bytes), "{signal:?}");
            }
        }
    }
}
