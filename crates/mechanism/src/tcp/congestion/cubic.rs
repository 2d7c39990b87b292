//! CUBIC: a window that grows with the time since the last congestion and not with round trips. A window that grows by one
//! segment per round trip needs hours to fill a fast and long path. CUBIC returns quickly to where it last met congestion, stays
//! there for a while, and then looks for more; where Reno would be faster, it is as fast as Reno.
//!
//! Source: RFC 9438, section 4; slow start and restarts as in RFC 5681.
//! Deviations: an acknowledgment of n segments counts as n of one segment (as in Linux), for receivers delay acknowledgments.
//! The window is compared with what may fly, and opened only while it is used (RFC 7661), with pacing by the host as Reno's file says. Slow start ends at `ssthresh` or at a
//! loss: section 4.10 recommends `HyStart++`, which `hystart` turns on (RFC 9406); Linux has its older form. An echo leaves what a loss
//! leaves, or another part (RFC 8511, `ecn_beta`), and two segments at least (section 4.6 has one) unless `ecn_timeout` is on; `alpha_cubic` and fast convergence keep `beta`. A window cut without
//! reason is not restored (section 4.9 allows it). The rules of ns know no CUBIC; it is the same under them.

use alloc::boxed::Box;

use tidegate_parameters::{Bound, parameters};
use tidegate_units::{Span, Time};

use super::hystart::{CSS_GROWTH_DIVISOR, HyStart, Pace};
use super::reno::{BYTE_LIMIT_SEGMENTS, ECN_BETA};
use super::{Ack, Congestion, CongestionControl, Permission, Sampling, Signal, telling};
use crate::tcp::config::TcpConfig;

parameters! {
    /// # CUBIC's window
    ///
    /// Grows with the time since the last congestion: quickly to where that was, slowly there, and on beyond. Where Reno would
    /// be faster it is as fast as Reno. What hosts use by default today.
    ///
    /// Source: RFC 9438.
    #[derive(Copy)]
    pub struct CubicConfig {
        /// How fast the window grows (C), in segments per cubic second. Source: RFC 9438, section 5.1.
        c: f64 = 0.4
            => telling(
                Bound::above(0.0).and_at_most(1e6),
                " must be above 0 and at most 1000000",
                "at 0 the window never grows",
            );
        /// What congestion leaves of the window. Source: RFC 9438, section 4.6.
        beta: f64 = 0.7
            => telling(
                Bound::above(0.0).and_below(1.0),
                " must be between 0 and 1",
                "congestion leaves a part of the window",
            );
        /// Whether a flow that meets congestion earlier than the last time gives way to others. Source: RFC 9438, section 4.7.
        fast_convergence: bool = true;
        /// Whether the window of Reno that is followed on short paths rises by a whole segment per round trip once it is above
        /// the window before the congestion. Linux does not. Source: RFC 9438, section 4.3.
        full_increase: bool = true;
        /// Whether congestion leaves whole segments, rounded down, as in Linux: small windows fall further than to `beta`.
        /// Source: Linux.
        whole_segments: bool = false;
        /// What an ECN echo leaves of the window in congestion avoidance; without it `beta`, as a loss. A mark comes from a queue that is still
        /// short. Source: RFC 8511, where CUBIC was tried with 0.85 (section 3.1 recommends 0.8, for Reno).
        ecn_beta: Option<f64> = None => ECN_BETA;
        /// Whether slow start ends when round trips grow (`HyStart++`). Source: RFC 9406; RFC 9438, section 4.10, recommends it.
        hystart: bool = false;
    }
}

impl CubicConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Cubic {
        let initial = f64::from(tcp.initial_window_segments.max(tcp.minimum_window_segments));
        let segment_bytes = f64::from(tcp.segment_bytes);
        Cubic {
            config: *self,
            cwnd: initial,
            ssthresh: tcp.initial_ssthresh_bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / segment_bytes),
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            initial,
            minimum: f64::from(tcp.minimum_window_segments),
            segment_bytes,
            after_timeout: false,
            echo_floor: if tcp.ecn_timeout { 1.0 } else { 2.0 },
            hystart: self.hystart.then(|| Box::new(HyStart::new())),
        }
    }
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// `t_epoch`.
    start: Time,
    /// K, in seconds.
    k: f64,
    /// `W_est`, in segments.
    w_est: f64,
    /// Up to when `t` has been counted.
    heard: Time,
}

impl Epoch {
    /// The time since it was last counted does not count: the window could not be tried (section 4.2).
    fn skip(&mut self, now: Time) {
        self.start = self.start.saturating_add(now.since(self.heard));
        self.heard = now;
    }
}

/// See the module. Windows are in segments, with their fractions.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: CubicConfig,
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    cwnd_prior: f64,
    /// None until congestion avoidance begins.
    epoch: Option<Epoch>,
    initial: f64,
    minimum: f64,
    segment_bytes: f64,
    after_timeout: bool,
    /// What an echo leaves at least, in segments.
    echo_floor: f64,
    hystart: Option<Box<HyStart>>,
}

/// `W_cubic(t) = C (t - K)^3 + W_max` (equation 1).
fn w_cubic(c: f64, t: f64, k: f64, w_max: f64) -> f64 {
    let after = t - k;
    c * after * after * after + w_max
}

/// `K = cbrt((W_max - cwnd_epoch) / C)` (equation 2): when the window is `W_max` again, in seconds.
fn k_of(c: f64, w_max: f64, cwnd_epoch: f64) -> f64 {
    libm::cbrt((w_max - cwnd_epoch).max(0.0) / c)
}

/// `alpha_cubic = 3 (1 - beta) / (1 + beta)` (section 4.3): the increase with which Reno, reduced to `beta`, has Reno's mean.
fn alpha_of(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}

/// The window at which growth aims, one round trip ahead, within the bounds of section 4.2.
fn target_of(w_cubic_ahead: f64, cwnd: f64) -> f64 {
    w_cubic_ahead.clamp(cwnd, 1.5 * cwnd)
}

impl Cubic {
    fn flight(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment_bytes
    }

    /// Section 4.2: the first stage after a time-out, or without congestion before it, begins at its plateau.
    fn begin_epoch(&mut self, now: Time) -> Epoch {
        if self.after_timeout || self.w_max < self.cwnd {
            self.w_max = self.cwnd;
            self.after_timeout = false;
        }
        Epoch { start: now, k: k_of(self.config.c, self.w_max, self.cwnd), w_est: self.cwnd, heard: now }
    }

    /// Congestion avoidance: sections 4.2 to 4.5.
    fn avoid(&mut self, acked: f64, srtt: Span, now: Time) {
        let CubicConfig { c, beta, full_increase, .. } = self.config;
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now),
        };
        // Equation 4.
        let has_caught_up = full_increase && epoch.w_est >= self.cwnd_prior;
        let alpha = if has_caught_up { 1.0 } else { alpha_of(beta) };
        epoch.w_est += alpha * acked / self.cwnd;
        epoch.heard = now;
        let t = now.since(epoch.start).as_secs_f64();
        if w_cubic(c, t, epoch.k, self.w_max) < epoch.w_est {
            self.cwnd = self.cwnd.max(epoch.w_est);
        } else {
            let ahead = w_cubic(c, t + srtt.as_secs_f64(), epoch.k, self.w_max);
            self.cwnd += (target_of(ahead, self.cwnd) - self.cwnd) / self.cwnd * acked;
        }
        self.epoch = Some(epoch);
    }

    /// By what slow start divides its growth; where it is over, it adds this last time.
    #[inline(never)]
    fn hystart_divisor(&mut self, ack: &Ack) -> f64 {
        let (Some(hystart), Some(sample)) = (&mut self.hystart, &ack.sample) else { return 1.0 };
        let pace = hystart.on_ack(ack.acknowledgment, sample);
        if pace == Pace::Over {
            self.ssthresh = self.cwnd;
        }
        if pace == Pace::Slow { 1.0 } else { f64::from(CSS_GROWTH_DIVISOR) }
    }

    /// Sections 4.6 and 4.7; `left` is what congestion leaves: what the window would be.
    fn reduce(&mut self, flight: f64, left: f64) -> f64 {
        let beta = self.config.beta;
        self.cwnd_prior = self.cwnd;
        self.w_max = if self.config.fast_convergence && self.cwnd < self.w_max {
            self.cwnd * (1.0 + beta) / 2.0
        } else {
            self.cwnd
        };
        // What limited transmit sent exceeds the window and is not counted.
        let ssthresh = if self.config.whole_segments {
            libm::floor(flight.min(libm::floor(self.cwnd)) * left)
        } else {
            flight.min(self.cwnd) * left
        };
        self.ssthresh = ssthresh.max(2.0);
        ssthresh
    }
}

impl CongestionControl for Cubic {
    fn sampling(&self) -> Sampling {
        if self.hystart.is_some() { Sampling::Rates } else { Sampling::OpeningAcks }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, now: Time) {
        // With samples it hears of all of them.
        if ack.sample.is_some_and(|sample| !sample.opens_window) {
            return;
        }
        let (acked, flight) = (self.flight(ack.acked_bytes), self.flight(ack.flight_bytes));
        if self.cwnd < self.ssthresh {
            let divisor = if self.hystart.is_some() { self.hystart_divisor(ack) } else { 1.0 };
            if 2.0 * flight >= self.cwnd {
                let limit = if self.after_timeout { 1 } else { BYTE_LIMIT_SEGMENTS };
                self.cwnd += acked.min(f64::from(limit)) / divisor;
            }
        } else if flight + 1.0 > self.cwnd {
            self.avoid(acked, ack.srtt, now);
        } else if let Some(epoch) = &mut self.epoch {
            epoch.skip(now);
        }
    }

    fn on_resume(&mut self, _srtt: Span, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.skip(now);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        self.epoch = None;
        if event.signal == Signal::Idle {
            self.cwnd = self.cwnd.min(self.initial);
            return;
        }
        if let Some(hystart) = &mut self.hystart {
            hystart.switch_off();
        }
        let mut left_window = self.ssthresh;
        if !event.repeated {
            let CubicConfig { beta, ecn_beta, .. } = self.config;
            // RFC 8511, section 3.1: in congestion avoidance.
            let is_abe = event.signal == Signal::EcnEcho && self.cwnd >= self.ssthresh;
            let left = ecn_beta.filter(|_| is_abe).unwrap_or(beta);
            left_window = self.reduce(self.flight(event.flight_bytes), left);
        }
        self.after_timeout = event.signal == Signal::Timeout;
        let cwnd = match event.signal {
            Signal::Loss => self.ssthresh,
            // Section 4.6: marks reduce it to one segment, from where the time-out goes on, if there is one.
            Signal::EcnEcho => left_window.max(self.echo_floor),
            Signal::LossRestart | Signal::Timeout | Signal::Idle => 1.0,
        };
        self.cwnd = cwnd.max(self.minimum);
    }

    fn on_recovered(&mut self, flight_bytes: u64, _now: Time) {
        // RFC 6582, section 3.2, step 3: no burst when little is left in flight.
        let cwnd = self.ssthresh.min(self.flight(flight_bytes).max(1.0) + 1.0);
        self.cwnd = cwnd.max(self.minimum);
        self.epoch = None;
    }

    fn hears_sends(&self) -> bool {
        false
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes() {
            Permission::Now
        } else {
            Permission::No
        }
    }

    #[inline]
    fn cwnd_bytes(&self) -> u64 {
        (self.cwnd * self.segment_bytes) as u64
    }

    fn ssthresh_bytes(&self) -> u64 {
        (self.ssthresh * self.segment_bytes) as u64
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "cwnd_segments").then_some(self.cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    /// Without fast convergence, in congestion avoidance at `segments`.
    fn at_window(segments: f64) -> Cubic {
        let config = CubicConfig { fast_convergence: false, ..CubicConfig::default() };
        let mut cubic = config.build(&TcpConfig::modern(Variant::Sack));
        (cubic.cwnd, cubic.ssthresh) = (segments, segments);
        cubic
    }

    fn congestion(signal: Signal, segments: f64) -> Congestion {
        let bytes = (segments * SEGMENT as f64) as u64;
        Congestion::for_tests(signal, bytes)
    }

    /// A round trip in which every segment of a full window is acknowledged, evenly; where it ends.
    fn round(cubic: &mut Cubic, rtt: Span, now: Time) -> Time {
        let segments = cubic.cwnd as u64;
        for number in 1..=segments {
            let at = now + Span::from_nanos(rtt.as_nanos() * number / segments);
            let flight_bytes = cubic.cwnd_bytes();
            cubic.on_ack(
                &Ack { acknowledgment: 0, acked_bytes: SEGMENT, flight_bytes, srtt: rtt, sample: None },
                at,
            );
        }
        now + rtt
    }

    #[test]
    fn the_laws_are_those_of_the_rfc() {
        assert!((k_of(0.4, 100.0, 70.0) - 4.217_163).abs() < 1e-6);
        assert!((w_cubic(0.4, 0.0, k_of(0.4, 100.0, 70.0), 100.0) - 70.0).abs() < 1e-9);
        assert!((alpha_of(0.7) - 9.0 / 17.0).abs() < 1e-12);
        assert_eq!((target_of(5.0, 10.0), target_of(12.0, 10.0), target_of(99.0, 10.0)), (10.0, 12.0, 15.0));
    }

    #[test]
    fn after_congestion_the_window_is_back_where_it_was_after_k() {
        let mut cubic = at_window(1000.0);
        cubic.on_congestion(&congestion(Signal::Loss, 1000.0), Time::ZERO);
        assert!((cubic.cwnd - 700.0).abs() < 0.1);
        let (rtt, k) = (Span::from_millis(100), k_of(0.4, 1000.0, 700.0));
        let mut now = Time::ZERO;
        while now.as_secs_f64() < k / 2.0 {
            now = round(&mut cubic, rtt, now);
        }
        // Halfway it lacks an eighth of what it lost.
        assert!((cubic.cwnd - (1000.0 - 300.0 / 8.0)).abs() < 5.0, "{}", cubic.cwnd);
        while now.as_secs_f64() < k {
            now = round(&mut cubic, rtt, now);
        }
        assert!((cubic.cwnd - 1000.0).abs() < 2.0, "{}", cubic.cwnd);
    }

    #[test]
    fn on_a_short_path_it_grows_as_reno_with_its_mean() {
        let mut cubic = at_window(20.0);
        cubic.on_congestion(&congestion(Signal::Loss, 20.0), Time::ZERO);
        let rtt = Span::from_millis(5);
        let mut now = Time::ZERO;
        for _ in 0..10 {
            now = round(&mut cubic, rtt, now);
        }
        // Nine of seventeen of a segment in each round trip, less what the growth within one takes.
        assert!((cubic.cwnd - (14.0 + 10.0 * 9.0 / 17.0)).abs() < 0.5, "{}", cubic.cwnd);
        for _ in 0..20 {
            now = round(&mut cubic, rtt, now);
        }
        // From the old window on, one whole segment.
        let above = cubic.cwnd;
        round(&mut cubic, rtt, now);
        assert!(above > 20.0 && (cubic.cwnd - above - 1.0).abs() < 0.05, "{above} {}", cubic.cwnd);
    }

    /// Without the time in which the application gave little, as though that had not been.
    #[test]
    fn the_time_in_which_the_window_is_not_used_does_not_count() {
        let rtt = Span::from_millis(40);
        let mut cubic = at_window(300.0);
        cubic.on_congestion(&congestion(Signal::Loss, 300.0), Time::ZERO);
        let mut now = round(&mut cubic, rtt, Time::ZERO);
        let mut steady = cubic.clone();
        for _ in 0..700 {
            now += rtt;
            let ack = Ack {
                acknowledgment: 0,
                acked_bytes: SEGMENT,
                flight_bytes: 14 * SEGMENT,
                srtt: rtt,
                sample: None,
            };
            cubic.on_ack(&ack, now);
        }
        // And nothing at all.
        now += Span::from_secs(2);
        cubic.on_resume(rtt, now);
        let mut since = Time::ZERO + rtt;
        for _ in 0..20 {
            now = round(&mut cubic, rtt, now);
            since = round(&mut steady, rtt, since);
        }
        assert!((cubic.cwnd - steady.cwnd).abs() < 0.5, "{} and {}", cubic.cwnd, steady.cwnd);
        assert!(cubic.cwnd < 250.0, "{}", cubic.cwnd);
    }

    #[test]
    fn marks_leave_one_segment_where_a_time_out_goes_on_from_there() {
        for (ecn_timeout, least) in [(false, 2.0), (true, 1.0)] {
            let tcp = TcpConfig { ecn_timeout, ..TcpConfig::modern(Variant::Sack) };
            let mut cubic = CubicConfig::default().build(&tcp);
            for _ in 0..20 {
                let flight = cubic.cwnd;
                cubic.on_congestion(&congestion(Signal::EcnEcho, flight), Time::ZERO);
            }
            assert_eq!((cubic.cwnd, cubic.ssthresh), (least, 2.0));
        }
    }

    #[test]
    fn in_whole_segments_small_windows_fall_further() {
        let mut cubic = at_window(8.5);
        cubic.on_congestion(&congestion(Signal::Loss, 8.5), Time::ZERO);
        assert!((cubic.cwnd - 5.95).abs() < 0.01);
        let mut in_segments = at_window(8.5);
        in_segments.config.whole_segments = true;
        in_segments.on_congestion(&congestion(Signal::Loss, 8.5), Time::ZERO);
        assert_eq!(in_segments.cwnd, 5.0, "of 5.6");
    }

    #[test]
    fn an_echo_may_leave_more_than_a_loss() {
        let mut cubic = at_window(100.0);
        cubic.config.ecn_beta = Some(0.85);
        cubic.on_congestion(&congestion(Signal::EcnEcho, 100.0), Time::ZERO);
        assert!((cubic.cwnd - 85.0).abs() < 0.1, "{}", cubic.cwnd);
        cubic.on_congestion(&congestion(Signal::Loss, cubic.cwnd), Time::ZERO);
        assert!((cubic.cwnd - 59.5).abs() < 0.1, "{}", cubic.cwnd);
        let mut plain = at_window(100.0);
        plain.on_congestion(&congestion(Signal::EcnEcho, 100.0), Time::ZERO);
        assert!((plain.cwnd - 70.0).abs() < 0.1, "{}", plain.cwnd);
        let mut starting = at_window(100.0);
        starting.config.ecn_beta = Some(0.85);
        starting.ssthresh = f64::INFINITY;
        starting.on_congestion(&congestion(Signal::EcnEcho, 100.0), Time::ZERO);
        assert!((starting.cwnd - 70.0).abs() < 0.1, "slow start: {}", starting.cwnd);
    }

    #[test]
    fn a_flow_that_meets_congestion_earlier_gives_way() {
        let mut cubic = CubicConfig::default().build(&TcpConfig::modern(Variant::Sack));
        (cubic.cwnd, cubic.ssthresh) = (100.0, 100.0);
        cubic.on_congestion(&congestion(Signal::Loss, 100.0), Time::ZERO);
        assert_eq!(cubic.w_max, 100.0);
        cubic.on_congestion(&congestion(Signal::Loss, 70.0), Time::ZERO);
        assert!((cubic.w_max - 70.0 * 0.85).abs() < 0.1, "{}", cubic.w_max);
    }

    #[test]
    fn a_timeout_restarts_from_one_segment_and_the_next_stage_from_its_plateau() {
        let mut cubic = at_window(100.0);
        cubic.on_congestion(&congestion(Signal::Timeout, 100.0), Time::ZERO);
        assert_eq!(cubic.cwnd, 1.0);
        assert!((cubic.ssthresh - 70.0).abs() < 0.1);
        let mut now = Time::ZERO;
        while cubic.epoch.is_none() {
            now = round(&mut cubic, Span::from_millis(50), now);
        }
        let (k, w_max) = (cubic.epoch.map(|epoch| epoch.k), cubic.w_max);
        assert_eq!(k, Some(0.0));
        assert!((70.0..73.0).contains(&w_max), "{w_max}");
    }

    /// One loss in `1 / p` segments: the mean window of RFC 9438, section 5.1, belongs to a cycle that ends where it began.
    #[test]
    fn a_cycle_of_the_deterministic_loss_model_has_the_mean_window_of_the_rfc() {
        let rtt = Span::from_millis(100);
        for p in [1e-4, 1e-5, 1e-6] {
            let expected = libm::pow(0.4 * 3.7 / (4.0 * 0.3), 0.25) * libm::pow(0.1 / p, 0.75);
            // The mean of a cycle that ends at K is (3 + beta) / 4 of its end.
            let w_max = expected * 4.0 / 3.7;
            let mut cubic = at_window(w_max);
            cubic.on_congestion(&congestion(Signal::Loss, w_max), Time::ZERO);
            let (mut now, mut sent, mut rounds) = (Time::ZERO, 0.0, 0);
            while sent < 1.0 / p {
                (sent, rounds) = (sent + cubic.cwnd, rounds + 1);
                now = round(&mut cubic, rtt, now);
            }
            let mean = sent / f64::from(rounds);
            assert!((mean / expected - 1.0).abs() < 0.02, "p = {p}: {mean}, expected {expected}");
            assert!((cubic.cwnd / w_max - 1.0).abs() < 0.02, "p = {p}: {} of {w_max}", cubic.cwnd);
        }
    }
}
