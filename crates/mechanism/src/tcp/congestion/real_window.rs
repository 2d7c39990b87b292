//! A window in segments, with its fraction, and what many controls do alike with it: slow start, the additive increase, restarts,
//! the end of a recovery. By how much congestion closes it is for the control to say.
//!
//! Source: RFC 5681, section 3.1, with the byte counting of RFC 3465; RFC 6582, section 3.2, step 3; RFC 7661.
//! Deviations: the window grows only while it is used, as in Reno's and CUBIC's files, and with pacing by the host as Reno's file says. The
//! end of a recovery never raises it (RFC 6582 names a window, and Reno's is at the threshold then). The rules of ns know none of the
//! controls that have this window; it is the same under them.

use super::reno::BYTE_LIMIT_SEGMENTS;
use super::{Congestion, Permission, Signal};
use crate::tcp::config::TcpConfig;

/// See the module. All in segments but for the size of one.
#[derive(Clone, Debug)]
pub(super) struct RealWindow {
    pub(super) cwnd: f64,
    pub(super) ssthresh: f64,
    initial: f64,
    minimum: f64,
    segment_bytes: f64,
    /// Slow start is that of a time-out.
    after_timeout: bool,
    /// What an echo leaves at least: one segment where a time-out goes on from there.
    echo_floor: f64,
}

impl RealWindow {
    pub(super) fn new(tcp: &TcpConfig) -> Self {
        let initial = f64::from(tcp.initial_window_segments.max(tcp.minimum_window_segments));
        let segment_bytes = f64::from(tcp.segment_bytes);
        Self {
            cwnd: initial,
            ssthresh: tcp.initial_ssthresh_bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / segment_bytes),
            initial,
            minimum: f64::from(tcp.minimum_window_segments),
            segment_bytes,
            after_timeout: false,
            echo_floor: if tcp.ecn_timeout { 1.0 } else { 2.0 },
        }
    }

    /// So many bytes in segments.
    #[inline]
    pub(super) fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment_bytes
    }

    /// The same of bytes with a fraction.
    pub(super) fn real_segments(&self, bytes: f64) -> f64 {
        bytes / self.segment_bytes
    }

    #[inline]
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether so many segments under way ask for a larger window: half of it in slow start, which doubles it, otherwise all of it.
    #[inline]
    pub(super) fn is_used(&self, flight: f64) -> bool {
        if self.is_in_slow_start() { 2.0 * flight >= self.cwnd } else { flight + 1.0 > self.cwnd }
    }

    /// What slow start adds for `acked` segments: not more than two of them, and one behind a time-out, where an acknowledgment may cover
    /// what others delivered (RFC 3465, section 2.3).
    #[inline]
    pub(super) fn slow_start_share(&self, acked: f64) -> f64 {
        acked.min(if self.after_timeout { 1.0 } else { f64::from(BYTE_LIMIT_SEGMENTS) })
    }

    /// Slow start or the additive increase of Reno.
    pub(super) fn open_as_reno(&mut self, acked: f64, flight: f64) {
        if !self.is_in_slow_start() {
            self.forget_timeout();
        }
        if !self.is_used(flight) {
            return;
        }
        self.cwnd += if self.is_in_slow_start() { self.slow_start_share(acked) } else { acked / self.cwnd };
    }

    /// The slow start behind a time-out is over: the next one has another reason.
    pub(super) const fn forget_timeout(&mut self) {
        self.after_timeout = false;
    }

    /// What the control may have under way of it when it halves: what limited transmit sent exceeds the window and is not counted.
    pub(super) fn flight_in_window(&self, event: &Congestion) -> f64 {
        self.segments(event.flight_bytes).min(self.cwnd)
    }

    /// Congestion leaves `ssthresh`, at least two segments; after a time-out and in Tahoe the window begins anew, behind a silence it is
    /// worth no more than the initial one.
    pub(super) fn close(&mut self, event: &Congestion, ssthresh: f64) {
        if event.signal == Signal::Idle {
            self.cwnd = self.cwnd.min(self.initial);
            self.forget_timeout();
            return;
        }
        if !event.repeated {
            self.ssthresh = ssthresh.max(2.0);
        }
        self.after_timeout = event.signal == Signal::Timeout;
        let cwnd = match event.signal {
            Signal::Loss => self.ssthresh.min(self.cwnd),
            Signal::EcnEcho => ssthresh.max(self.echo_floor).min(self.cwnd),
            Signal::LossRestart | Signal::Timeout | Signal::Idle => 1.0,
        };
        self.cwnd = cwnd.max(self.minimum);
    }

    /// So many segments are left, or the connection's minimum.
    #[inline]
    pub(super) fn keep_at_least(&mut self, segments: f64) {
        self.cwnd = self.cwnd.max(segments).max(self.minimum);
    }

    /// No burst when little is left in flight, nor where the window is below its threshold: what it lacks is slow start's to add.
    pub(super) fn recovered(&mut self, flight_bytes: u64) {
        let cwnd = self.ssthresh.min(self.segments(flight_bytes).max(1.0) + 1.0);
        self.cwnd = cwnd.min(self.cwnd).max(self.minimum);
    }

    #[inline]
    pub(super) fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes() {
            Permission::Now
        } else {
            Permission::No
        }
    }

    #[inline]
    pub(super) fn cwnd_bytes(&self) -> u64 {
        (self.cwnd * self.segment_bytes) as u64
    }

    pub(super) fn ssthresh_bytes(&self) -> u64 {
        (self.ssthresh * self.segment_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    fn window() -> RealWindow {
        RealWindow::new(&TcpConfig::modern(Variant::Sack))
    }

    #[test]
    fn slow_start_counts_at_most_two_segments_and_avoidance_one_for_each_window() {
        let mut window = window();
        window.open_as_reno(9.0, 10.0);
        assert_eq!(window.cwnd, 12.0);
        window.ssthresh = 12.0;
        (0..6).for_each(|_| window.open_as_reno(2.0, 13.0));
        assert!((window.cwnd - 13.0).abs() < 0.05, "{}", window.cwnd);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut window = window();
        window.open_as_reno(2.0, 4.0);
        window.ssthresh = 10.0;
        window.open_as_reno(2.0, 8.0);
        assert_eq!(window.cwnd, 10.0);
    }

    #[test]
    fn a_loss_leaves_the_threshold_a_timeout_one_segment_and_a_silence_the_initial_window() {
        let mut window = window();
        window.cwnd = 40.0;
        window.close(&Congestion::for_tests(Signal::Loss, 40 * SEGMENT), 30.0);
        assert_eq!((window.cwnd, window.ssthresh), (30.0, 30.0));
        window.close(&Congestion::for_tests(Signal::Idle, 0), 1.0);
        assert_eq!((window.cwnd, window.ssthresh), (10.0, 30.0));
        window.close(&Congestion::for_tests(Signal::Timeout, 10 * SEGMENT), 1.0);
        assert_eq!((window.cwnd, window.ssthresh), (1.0, 2.0));
        window.open_as_reno(9.0, 1.0);
        assert_eq!(window.cwnd, 2.0, "one for each acknowledgment behind a time-out");
    }

    #[test]
    fn an_echo_leaves_one_segment_where_a_time_out_goes_on_from_there() {
        for (ecn_timeout, least) in [(false, 2.0), (true, 1.0)] {
            let tcp = TcpConfig { ecn_timeout, ..TcpConfig::modern(Variant::Sack) };
            let mut window = RealWindow::new(&tcp);
            window.close(&Congestion::for_tests(Signal::EcnEcho, 2 * SEGMENT), 0.5);
            assert_eq!((window.cwnd, window.ssthresh), (least, 2.0));
        }
    }

    #[test]
    fn recovery_ends_without_a_burst() {
        let mut window = window();
        window.close(&Congestion::for_tests(Signal::Loss, 10 * SEGMENT), 8.0);
        window.recovered(2 * SEGMENT);
        assert_eq!(window.cwnd, 3.0);
        window.recovered(8 * SEGMENT);
        assert_eq!((window.cwnd, window.ssthresh), (3.0, 8.0), "it is never raised");
    }

    #[test]
    fn one_segment_for_each_acknowledgment_lasts_as_long_as_the_slow_start_of_a_timeout() {
        let timed_out = || {
            let mut window = window();
            window.close(&Congestion::for_tests(Signal::Timeout, 10 * SEGMENT), 3.0);
            window.open_as_reno(2.0, 1.0);
            assert_eq!(window.cwnd, 2.0);
            window
        };
        let mut silent = timed_out();
        silent.close(&Congestion::for_tests(Signal::Idle, 0), 1.0);
        silent.open_as_reno(2.0, 2.0);
        assert_eq!(silent.cwnd, 4.0, "nothing is under way that others could deliver");
        let mut arrived = timed_out();
        arrived.open_as_reno(2.0, 2.0);
        assert_eq!(arrived.slow_start_share(2.0), 1.0);
        arrived.open_as_reno(2.0, 0.0);
        assert_eq!((arrived.cwnd, arrived.slow_start_share(2.0)), (3.0, 2.0), "it is at its threshold");
    }
}
