//! Scalable TCP: a window that grows and closes by parts of itself. Reno needs as many round trips to come back from a loss as half
//! of its window has segments, hours on a fast and long path; Scalable TCP needs the same number of round trips at any rate.
//!
//! Source: T. Kelly, Scalable TCP: Improving Performance in Highspeed Wide Area Networks, CCR 33(2), 2003.
//! Deviations: the window is a real number and no part of it is rounded. An acknowledgment of n segments counts as n of one
//! segment, for receivers delay acknowledgments. The window grows only while it is used (RFC 7661), and an ECN echo closes it as a
//! loss does; the paper speaks of neither. Fixed parameters stand in for the paper's table of them (section 4.2).

use tidegate_parameters::{Bound, parameters};
use tidegate_units::Time;

use super::real_window::RealWindow;
use super::{Ack, Congestion, CongestionControl, Permission, telling};
use crate::tcp::config::TcpConfig;

parameters! {
    /// # Scalable TCP's window
    ///
    /// Grows by a part of itself in each round trip and loses a part of itself with each loss, so that it comes back from a loss as
    /// quickly at any rate. It is not fair to Reno.
    ///
    /// Source: Kelly 2003.
    #[derive(Copy)]
    pub struct ScalableConfig {
        /// What each segment acknowledged adds to the window, in segments (a). Source: Kelly 2003, section 4.2.
        increase: f64 = 0.01
            => telling(
                Bound::above(0.0).and_at_most(1.0),
                " must be above 0 and at most 1",
                "at 0 the window never grows, at 1 it doubles in a round trip",
            );
        /// The part of the window that a loss takes (b). Source: Kelly 2003, section 4.2.
        decrease: f64 = 0.125
            => telling(
                Bound::above(0.0).and_below(1.0),
                " must be between 0 and 1",
                "a loss takes a part of the window",
            );
        /// Up to this window, in segments, it is Reno's (lwnd). Source: Kelly 2003, section 4.1.
        legacy_segments: u32 = 16
            => telling(
                Bound::at_most(1_000_000),
                " is above 1000000",
                "at most 1000000: up to there it is Reno, and no window is larger",
            );
    }
}

impl ScalableConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Scalable {
        Scalable { config: *self, window: RealWindow::new(tcp) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Scalable {
    config: ScalableConfig,
    window: RealWindow,
}

/// `cwnd + a` for each segment acknowledged; up to `lwnd` Reno's `cwnd + 1 / cwnd` (section 4.1).
fn opened(cwnd: f64, acked: f64, a: f64, lwnd: f64) -> f64 {
    cwnd + acked * if cwnd > lwnd { a } else { 1.0 / cwnd }
}

/// `cwnd - b cwnd`; up to `lwnd` Reno's half (section 4.1).
fn closed(cwnd: f64, b: f64, lwnd: f64) -> f64 {
    cwnd * (1.0 - if cwnd > lwnd { b } else { 0.5 })
}

impl CongestionControl for Scalable {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, _now: Time) {
        let window = &mut self.window;
        let (acked, flight) = (window.segments(ack.acked_bytes), window.segments(ack.flight_bytes));
        if window.is_in_slow_start() {
            window.open_as_reno(acked, flight);
        } else if window.is_used(flight) {
            let lwnd = f64::from(self.config.legacy_segments);
            window.cwnd = opened(window.cwnd, acked, self.config.increase, lwnd);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        let flight = self.window.flight_in_window(event);
        let left = closed(flight, self.config.decrease, f64::from(self.config.legacy_segments));
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
        (name == "cwnd_segments").then_some(self.window.cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use crate::tcp::congestion::Signal;
    use tidegate_units::Span;

    const SEGMENT: u64 = 1460;

    fn at_window(segments: f64) -> Scalable {
        let mut control = ScalableConfig::default().build(&TcpConfig::modern(Variant::Sack));
        (control.window.cwnd, control.window.ssthresh) = (segments, segments);
        control
    }

    fn acked(control: &mut Scalable) {
        let flight_bytes = control.cwnd_bytes();
        let ack =
            Ack { acknowledgment: 0, acked_bytes: SEGMENT, flight_bytes, srtt: Span::ZERO, sample: None };
        control.on_ack(&ack, Time::ZERO);
    }

    fn lose(control: &mut Scalable) {
        let flight_bytes = control.cwnd_bytes();
        control.on_congestion(&Congestion::for_tests(Signal::Loss, flight_bytes), Time::ZERO);
    }

    #[test]
    fn small_windows_are_renos() {
        assert_eq!(opened(10.0, 1.0, 0.01, 16.0), 10.1);
        assert_eq!(closed(10.0, 0.125, 16.0), 5.0);
        assert_eq!(opened(100.0, 2.0, 0.01, 16.0), 100.02);
        assert_eq!(closed(100.0, 0.125, 16.0), 87.5);
    }

    /// `ln(1 / (1 - b)) / ln(1 + a)` is 13.4 round trips, whatever the window.
    #[test]
    fn a_loss_is_made_up_for_after_as_many_round_trips_at_any_rate() {
        for segments in [100.0, 1000.0, 10_000.0] {
            let mut control = at_window(segments);
            lose(&mut control);
            let mut round_trips = 0.0;
            while control.window.cwnd < segments {
                let of_round = control.window.cwnd as u64;
                (0..of_round).for_each(|_| acked(&mut control));
                round_trips += 1.0;
            }
            let expected = libm::log(1.0 / 0.875) / libm::log(1.01);
            assert!((expected..expected + 1.5).contains(&round_trips), "{segments}: {round_trips}");
        }
    }

    /// A cycle between losses that are `1 / p` segments apart gains `a / p` and loses `b W`: so `W = a / (b p)` at its end.
    #[test]
    fn under_periodic_losses_the_window_is_a_over_b_p() {
        for between in [5_000_u32, 20_000] {
            let mut control = at_window(50.0);
            for _ in 0..60 {
                (0..between).for_each(|_| acked(&mut control));
                lose(&mut control);
            }
            (0..between).for_each(|_| acked(&mut control));
            let expected = 0.01 / 0.125 * f64::from(between);
            assert!((control.window.cwnd / expected - 1.0).abs() < 0.01, "{}", control.window.cwnd);
        }
    }
}
