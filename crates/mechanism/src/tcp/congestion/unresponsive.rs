//! A TCP that ignores losses: what a host is that was changed to take more than its share. It opens its window as Reno
//! does and never closes it; what is lost it sends again, so that its data arrives whole. Such senders are why edges, and
//! queues, must not rely on the good will of hosts.
//!
//! Source: Harrison and Kalyanaraman, section IV ("hacked TCP implementations"); they do not say what these do.
//! Deviations: none from that; assumed is the mildest form that never slows down. The window still has the bound of the
//! receiver, recovery still finds out what was lost, and the retransmission timer does not back off.

use tidegate_packet::Dscp;
use tidegate_parameters::parameters;
use tidegate_units::Time;

use super::reno::{Reno, RenoConfig};
use super::{Ack, Congestion, CongestionControl, Permission, Segment};
use crate::tcp::config::TcpConfig;

parameters! {
    /// # A TCP that ignores losses
    ///
    /// Opens its window as Reno does and never closes it, whatever is lost; what was lost it sends again. A host that was changed
    /// to take more than its share.
    ///
    /// Source: Harrison and Kalyanaraman 2000, section IV ("hacked TCP implementations").
    #[derive(Copy)]
    pub struct UnresponsiveConfig {}
}

impl UnresponsiveConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Unresponsive {
        Unresponsive { reno: RenoConfig::default().build(tcp) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Unresponsive {
    reno: Reno,
}

impl CongestionControl for Unresponsive {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, now: Time) {
        self.reno.on_ack(ack, now);
    }

    /// It does not care.
    fn on_congestion(&mut self, _event: &Congestion, _now: Time) {}

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        self.reno.may_send(in_flight_bytes, payload_bytes, now)
    }

    #[inline]
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        self.reno.on_send(segment, now)
    }

    #[inline]
    fn cwnd_bytes(&self) -> u64 {
        self.reno.cwnd_bytes()
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.reno.ssthresh_bytes()
    }

    fn backs_off_timer(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signal;
    use super::*;
    use crate::tcp::Variant;
    use tidegate_units::Span;

    #[test]
    fn no_sign_of_congestion_ever_lowers_the_window() {
        for tcp in [TcpConfig::ns_1999(Variant::Reno), TcpConfig::modern(Variant::Sack)] {
            let mut control = UnresponsiveConfig {}.build(&tcp);
            let all = [Signal::Loss, Signal::LossRestart, Signal::Timeout, Signal::Idle, Signal::EcnEcho];
            let mut before = control.cwnd_bytes();
            for (step, signal) in (0u64..).zip(all.into_iter().cycle().take(50)) {
                let flight_bytes = control.cwnd_bytes();
                let ack = Ack {
                    acknowledgment: step * 1000,
                    acked_bytes: 1000,
                    flight_bytes,
                    srtt: Span::from_millis(40),
                    sample: None,
                };
                control.on_ack(&ack, Time::ZERO);
                let event = Congestion {
                    signal,
                    sequence: 0,
                    echoed: None,
                    window_bytes: flight_bytes,
                    flight_bytes,
                    repeated: false,
                    srtt: Span::from_millis(40),
                    rto: Span::from_millis(200),
                };
                control.on_congestion(&event, Time::ZERO);
                control.on_recovered(flight_bytes / 2, Time::ZERO);
                assert!(control.cwnd_bytes() >= before);
                before = control.cwnd_bytes();
            }
            assert!(before > 10 * u64::from(tcp.segment_bytes), "it grows");
        }
    }
}
