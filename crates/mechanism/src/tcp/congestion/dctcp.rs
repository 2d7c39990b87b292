//! DCTCP: a window that closes in proportion to how much of the data was marked. Where a queue marks everything above a threshold,
//! a halving for one marked packet in a hundred empties the queue and then the link; DCTCP gives way just enough, so that a short
//! queue keeps the link busy.
//!
//! Source: RFC 8257, sections 3.3 (`DCTCP.Alpha`), 3.4 and 3.5; slow start, growth and losses are Reno's.
//! Deviations: a reduction leaves at least two segments, as in Linux (the RFC asks for the floor of RFC 3168, and allows this).
//! An acknowledgment with an echo opens no window (RFC 3168, section 6.1.2). The receiver's half (section 3.2) is
//! [`EcnFeedback::Dctcp`](crate::tcp::EcnFeedback); accurate feedback does as well, and loses no mark with an acknowledgment.
//! Control packets are not ECN-capable (section 3.6 has them so), nor are retransmissions unless `ecn_retransmissions` says so (RFC 3168,
//! section 6.1.5). An echo that ends an observation window reduces by the `alpha` of before it (steps 5 to 8 go first in the RFC): it is
//! heard before what its acknowledgment delivers.

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::Time;

use super::reno::{Reno, RenoConfig};
use super::{Ack, Congestion, CongestionControl, Permission, Sample, Sampling, Signal, telling};
use crate::Variable;
use crate::tcp::config::TcpConfig;

parameters! {
    /// # DCTCP's window
    ///
    /// Closes in proportion to how much of the data was marked: with a queue that marks everything above a threshold it keeps the link
    /// busy with a short queue. It turns `ecn` on, and `ecn_feedback` to `dctcp`.
    ///
    /// Source: RFC 8257.
    #[derive(Copy)]
    pub struct DctcpConfig {
        /// The weight of the last round trip in `alpha`. Source: RFC 8257, section 4.2.
        g: f64 = 1.0 / 16.0
            => telling(
                Bound::above(0.0).and_at_most(1.0),
                " must be above 0 and at most 1",
                "a weight in an average: at 0 no round trip counts",
            );
        /// `alpha` before the first round trip. Source: RFC 8257, section 4.2.
        initial_alpha: f64 = 1.0 => bound::PROBABILITY;
    }
}

impl DctcpConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Dctcp {
        Dctcp {
            reno: RenoConfig::default().build(tcp),
            config: *self,
            alpha: self.initial_alpha,
            bytes_acked: 0,
            bytes_marked: 0,
            window_end: 0,
            least_bytes: 2 * u64::from(tcp.segment_bytes),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    config: DctcpConfig,
    /// `DCTCP.Alpha`: how much was marked, smoothed over round trips.
    alpha: f64,
    /// `DCTCP.BytesAcked` in this observation window.
    bytes_acked: u64,
    /// `DCTCP.BytesMarked`.
    bytes_marked: u64,
    /// `DCTCP.WindowEnd`: where the observation window ends.
    window_end: u64,
    least_bytes: u64,
}

/// `Alpha (1 - g) + g M` (section 3.3, step 7).
pub(super) fn alpha_after(alpha: f64, g: f64, m: f64) -> f64 {
    alpha * (1.0 - g) + g * m
}

/// `1 - Alpha / 2`: what a reduction leaves (section 3.3, step 9).
pub(super) fn kept(alpha: f64) -> f64 {
    1.0 - alpha / 2.0
}

fn reduced(cwnd_bytes: u64, alpha: f64) -> u64 {
    (cwnd_bytes as f64 * kept(alpha)) as u64
}

impl Dctcp {
    /// Section 3.3, steps 1 to 8.
    fn observe(&mut self, ack: &Ack, sample: &Sample) {
        self.bytes_acked += ack.acked_bytes;
        self.bytes_marked += sample.marked_bytes;
        if ack.acknowledgment <= self.window_end || self.bytes_acked == 0 {
            return;
        }
        // More marks than bytes: accurate feedback told of segments that are not acknowledged yet.
        let m = (self.bytes_marked as f64 / self.bytes_acked as f64).min(1.0);
        self.alpha = alpha_after(self.alpha, self.config.g, m);
        self.window_end = sample.sent_until;
        self.bytes_acked = 0;
        self.bytes_marked = 0;
    }
}

impl CongestionControl for Dctcp {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("alpha", "How much was marked, smoothed over round trips.")] }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Acks
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        self.observe(ack, sample);
        if sample.opens_window {
            self.reno.on_ack(ack, now);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        if event.signal == Signal::EcnEcho {
            let window_bytes = event.window_bytes.min(self.reno.cwnd_bytes());
            self.reno.close_to(reduced(window_bytes, self.alpha).max(self.least_bytes));
        } else {
            // Section 3.5: to losses as any other TCP.
            self.reno.on_congestion(event, now);
        }
    }

    fn on_recovered(&mut self, flight_bytes: u64, now: Time) {
        self.reno.on_recovered(flight_bytes, now);
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        self.reno.may_send(in_flight_bytes, payload_bytes, now)
    }

    fn cwnd_bytes(&self) -> u64 {
        self.reno.cwnd_bytes()
    }

    /// To a loss it reacts as any other does (section 3.5), whatever marks have taken; Linux: `dctcp_react_to_loss`.
    fn tells_losses_from_echoes(&self) -> bool {
        true
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.reno.ssthresh_bytes()
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "alpha" { Some(self.alpha) } else { self.reno.variable(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use tidegate_units::Span;

    const SEGMENT: u64 = 1460;

    fn dctcp() -> Dctcp {
        DctcpConfig::default().build(&TcpConfig::modern(Variant::Sack))
    }

    /// The acknowledgment of segment `number`, with ten behind it.
    fn acked(control: &mut Dctcp, number: u64, is_marked: bool) {
        let sample = Sample {
            opens_window: !is_marked,
            is_in_recovery: false,
            delivered_bytes: SEGMENT,
            delivered_total_bytes: number * SEGMENT,
            lost_bytes: 0,
            marked_bytes: if is_marked { SEGMENT } else { 0 },
            in_flight_before_bytes: 10 * SEGMENT,
            in_flight_bytes: 9 * SEGMENT,
            sent_until: (number + 10) * SEGMENT,
            rtt: None,
            rate: None,
        };
        let ack = Ack {
            acknowledgment: number * SEGMENT,
            acked_bytes: SEGMENT,
            flight_bytes: 10 * SEGMENT,
            srtt: Span::from_millis(1),
            sample: Some(sample),
        };
        control.on_ack(&ack, Time::ZERO);
    }

    #[test]
    fn alpha_forgets_a_sixteenth_in_each_round_trip_and_nothing_within_one() {
        let mut control = dctcp();
        acked(&mut control, 1, false);
        assert_eq!(control.variable("alpha"), Some(15.0 / 16.0));
        (2..=11).for_each(|number| acked(&mut control, number, false));
        assert_eq!(control.alpha, 15.0 / 16.0, "until what was under way is acknowledged");
        acked(&mut control, 12, false);
        assert_eq!(control.alpha, 15.0 / 16.0 * 15.0 / 16.0);
    }

    #[test]
    fn alpha_settles_at_the_share_of_bytes_that_is_marked() {
        let mut control = dctcp();
        (1..5000).for_each(|number| acked(&mut control, number, number % 5 == 0));
        assert!((control.alpha - 0.2).abs() < 0.02, "{}", control.alpha);
    }

    #[test]
    fn an_echo_closes_the_window_by_half_of_alpha_and_a_loss_by_half() {
        let mut control = dctcp();
        let full = control.cwnd_bytes();
        control.alpha = 0.1;
        control.on_congestion(&Congestion::for_tests(Signal::EcnEcho, full), Time::ZERO);
        assert_eq!(control.cwnd_bytes(), 13_870, "95 % of ten segments");
        assert_eq!(control.ssthresh_bytes(), 13_870);
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 13_870), Time::ZERO);
        assert_eq!(control.cwnd_bytes(), 13_870 / 2);
    }

    #[test]
    fn two_segments_are_left_however_much_is_marked() {
        let mut control = dctcp();
        (0..20).for_each(|_| {
            control.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 1 << 30), Time::ZERO);
        });
        assert_eq!(control.cwnd_bytes(), 2 * SEGMENT);
    }
}
