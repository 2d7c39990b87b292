//! Westwood+: a loss leaves what the path is measured to hold, and not half. Where losses are not from queues, or where a buffer is
//! shorter than the path, half a window empties the link; Westwood+ goes back to the rate at which data arrived, times the shortest
//! round trip.
//!
//! Source: L. Grieco and S. Mascolo, Performance Evaluation and Comparison of Westwood+, New Reno, and Vegas TCP Congestion
//! Control, CCR 34(2), 2004, section 2.
//! Deviations: the filter begins at its first sample, as in Linux, and not at zero. A sample spans at least 50 ms, as in Linux
//! (`least_interval`), for on a short path the count of one round trip is coarse. An ECN echo is answered as a loss is; the paper
//! does not speak of it. The window grows only while it is used (RFC 7661).

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use super::real_window::RealWindow;
use super::{Ack, Congestion, CongestionControl, Permission, Sample, Sampling, telling};
use crate::Variable;
use crate::tcp::config::TcpConfig;

parameters! {
    /// # Westwood+'s window
    ///
    /// Grows as Reno's does. A loss leaves the rate at which data arrived times the shortest round trip, so that losses that are not from
    /// queues cost little.
    ///
    /// Source: Grieco and Mascolo 2004.
    #[derive(Copy)]
    pub struct WestwoodConfig {
        /// The weight of what was known in the estimate of the rate. Source: Grieco and Mascolo 2004, section 2 (7/8).
        memory: f64 = 0.875
            => telling(
                Bound::at_least(0.0).and_below(1.0),
                " must be at least 0 and below 1",
                "at 1 no sample counts",
            );
        /// The shortest time over which the rate is counted. Source: Linux.
        least_interval: Span = Span::from_millis(50) => bound::DURATION;
    }
}

impl WestwoodConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Westwood {
        Westwood {
            config: *self,
            window: RealWindow::new(tcp),
            rate: None,
            least_rtt: None,
            last_rtt: Span::ZERO,
            counted_bytes: 0,
            counted_since: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Westwood {
    config: WestwoodConfig,
    window: RealWindow,
    /// `BWE`, in bytes per second.
    rate: Option<f64>,
    /// `RTTmin`.
    least_rtt: Option<Span>,
    last_rtt: Span,
    /// What arrived in this interval.
    counted_bytes: u64,
    counted_since: Option<Time>,
}

/// `BWE_k = 7/8 BWE_(k-1) + 1/8 b_k` (section 2).
fn filtered(before: Option<f64>, sample: f64, memory: f64) -> f64 {
    before.map_or(sample, |before| memory * before + (1.0 - memory) * sample)
}

/// `BWE RTTmin` (section 2), in bytes: what the path holds without a queue.
fn pipe_bytes(bytes_per_second: f64, least_rtt: Span) -> f64 {
    bytes_per_second * least_rtt.as_secs_f64()
}

impl Westwood {
    /// Counts what arrives, and takes a sample once for each round trip.
    fn measure(&mut self, sample: &Sample, now: Time) {
        if let Some(rtt) = sample.rtt {
            self.last_rtt = rtt;
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let Some(since) = self.counted_since else {
            self.counted_since = Some(now);
            return;
        };
        self.counted_bytes += sample.delivered_bytes;
        let interval = now.since(since);
        if interval >= self.last_rtt.max(self.config.least_interval) {
            let b_k = self.counted_bytes as f64 / interval.as_secs_f64();
            self.rate = Some(filtered(self.rate, b_k, self.config.memory));
            self.counted_bytes = 0;
            self.counted_since = Some(now);
        }
    }
}

impl CongestionControl for Westwood {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("rate_bps", "The rate at which data arrives, smoothed over round trips."),
                Variable::new("least_rtt_s", "The shortest round trip."),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        self.measure(sample, now);
        if sample.opens_window {
            let acked = self.window.segments(ack.acked_bytes);
            self.window.open_as_reno(acked, self.window.segments(ack.flight_bytes));
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        let left = match (self.rate, self.least_rtt) {
            (Some(rate), Some(least_rtt)) => pipe_bytes(rate, least_rtt),
            // Nothing measured yet: as Reno.
            _ => event.flight_bytes as f64 / 2.0,
        };
        let left = self.window.real_segments(left);
        self.window.close(event, left);
    }

    fn on_recovered(&mut self, flight_bytes: u64, _now: Time) {
        self.window.recovered(flight_bytes);
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _now: Time) -> Permission {
        self.window.may_send(in_flight_bytes, payload_bytes)
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.window.cwnd),
            "rate_bps" => self.rate.map(|rate| rate * 8.0),
            "least_rtt_s" => self.least_rtt.map(Span::as_secs_f64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use crate::tcp::congestion::Signal;

    const SEGMENT: u64 = 1460;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// An acknowledgment of one segment in each millisecond, with a round trip of 40 ms, `queued_ms` more.
    fn paced(control: &mut Westwood, from_ms: u64, until_ms: u64, queued_ms: u64) {
        for ms in from_ms..until_ms {
            let sample = Sample {
                opens_window: true,
                delivered_bytes: SEGMENT,
                rtt: Some(Span::from_millis(40 + queued_ms)),
                ..Sample::for_tests()
            };
            let ack = Ack {
                acknowledgment: 0,
                acked_bytes: SEGMENT,
                flight_bytes: control.cwnd_bytes(),
                srtt: Span::ZERO,
                sample: Some(sample),
            };
            control.on_ack(&ack, at(ms));
        }
    }

    fn westwood() -> Westwood {
        let mut control = WestwoodConfig::default().build(&TcpConfig::modern(Variant::Sack));
        control.window.ssthresh = 10.0;
        control
    }

    #[test]
    fn the_filter_forgets_an_eighth() {
        assert_eq!(filtered(None, 800.0, 0.875), 800.0);
        assert_eq!(filtered(Some(800.0), 1600.0, 0.875), 900.0);
        assert_eq!(pipe_bytes(1e6, Span::from_millis(40)), 40_000.0);
    }

    #[test]
    fn a_loss_leaves_what_the_path_holds_without_its_queue() {
        let mut control = westwood();
        paced(&mut control, 0, 500, 0);
        paced(&mut control, 500, 2_000, 20);
        control.window.cwnd = 60.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 60 * SEGMENT), at(2_000));
        // One segment in each of 40 ms.
        assert!((control.window.cwnd - 40.0).abs() < 0.5, "{}", control.window.cwnd);
        assert_eq!(control.window.cwnd, control.window.ssthresh);
    }

    #[test]
    fn a_window_below_what_the_path_holds_is_not_closed_and_a_timeout_remembers_the_path() {
        let mut control = westwood();
        paced(&mut control, 0, 1_000, 0);
        control.window.cwnd = 30.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 30 * SEGMENT), at(1_000));
        assert_eq!(control.window.cwnd, 30.0);
        control.on_congestion(&Congestion::for_tests(Signal::Timeout, 30 * SEGMENT), at(1_001));
        assert_eq!(control.window.cwnd, 1.0);
        assert!((control.window.ssthresh - 40.0).abs() < 0.5, "{}", control.window.ssthresh);
    }

    /// With `keep_window` the connection says that the threshold is under way.
    #[test]
    fn the_end_of_a_recovery_does_not_raise_the_window_to_what_the_path_holds() {
        let mut control = westwood();
        paced(&mut control, 0, 1_000, 0);
        control.window.cwnd = 30.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 30 * SEGMENT), at(1_000));
        assert!((control.window.ssthresh - 40.0).abs() < 0.5, "{}", control.window.ssthresh);
        control.on_recovered(control.ssthresh_bytes(), at(1_100));
        assert_eq!(control.window.cwnd, 30.0);
    }
}
