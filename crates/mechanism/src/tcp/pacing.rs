//! Pacing by the host: segments spread over the round trip although the control counts a window, and segments handed to the queue of
//! the host with the instant at which they are to leave, for `fq` to hold.
//!
//! Source: Linux (`tcp_update_pacing_rate`, `tcp_pacing_check`, `tcp_update_skb_after_send`).
//! Deviations: what is handed over ahead of its time is what leaves within a millisecond; Linux lets two segments wait where that is more
//! (TCP small queues). Time that was not used is not made up for. The rate is of the window, also where more than that is under way. Controls
//! ask of each acknowledgment whether the window is used, and with a pace it may be the limit though it is not full (reno.rs).

use tidegate_parameters::words;
use tidegate_units::{Span, Time};

use super::congestion::{AnyCongestionControl, CongestionControl, Pacer, Permission};

words! {
    /// Who spreads segments over the round trip.
    pub enum Pacing {
        /// The control, if it has a rate.
        Control = "control",
        /// The host, by its timer, if the control has no rate of its own.
        Timer = "timer",
        /// The queue of the host: segments are stamped with when they are to leave. The scheduler `fq` keeps to that.
        Departure = "departure",
    }
}

/// How far ahead of its time a segment is handed over (Linux, `sk_pacing_shift`).
const AHEAD: Span = Span::from_millis(1);
/// Segments of a connection that nobody paces (Linux, `tcp_update_skb_after_send`).
const FREE_SEGMENTS: u64 = 10;

/// Pacing of one connection.
#[derive(Clone, Debug)]
pub(super) struct HostPacing {
    pacer: Pacer,
    /// The control has a rate of its own.
    by_control: bool,
    stamps: bool,
    /// When the segment that may go now is to leave.
    departs_at: Time,
    /// When the one that went last leaves: the queue keeps their order.
    left_at: Time,
    sent_segments: u64,
}

/// `sk_pacing_rate` over the window per round trip: slow start has to reach twice of it in a round trip.
fn ratio(cwnd_bytes: u64, ssthresh_bytes: u64) -> f64 {
    if cwnd_bytes < ssthresh_bytes / 2 { 2.0 } else { 1.2 }
}

impl HostPacing {
    pub(super) fn new(pacing: Pacing, control: &AnyCongestionControl) -> Option<Self> {
        let by_control = control.is_paced();
        let stamps = pacing == Pacing::Departure;
        let is_needed = stamps || (pacing == Pacing::Timer && !by_control);
        let pacer = Pacer::default();
        is_needed.then_some(Self {
            pacer,
            by_control,
            stamps,
            departs_at: Time::ZERO,
            left_at: Time::ZERO,
            sent_segments: 0,
        })
    }

    /// Whether what the control permits may go now, perhaps to wait for its time in the queue.
    pub(super) fn permit(&mut self, permission: Permission, now: Time) -> Permission {
        self.departs_at = now.max(self.left_at);
        match if self.by_control { permission } else { self.pacer.or_wait(permission, now) } {
            Permission::At(at) if self.stamps && at <= now.saturating_add(AHEAD) => {
                self.departs_at = at.max(self.left_at);
                Permission::Now
            }
            // It is handed over as soon as its time is near.
            Permission::At(at) if self.stamps => Permission::At(Time::ZERO + at.since(Time::ZERO + AHEAD)),
            permission => permission,
        }
    }

    pub(super) const fn departs_at(&self) -> Time {
        self.departs_at
    }

    /// A segment with so many bytes of payload goes out: those count, as in the rate, and headers do not (Linux).
    pub(super) fn on_send(&mut self, payload_bytes: u32, srtt: Span, control: &AnyCongestionControl) {
        self.sent_segments += 1;
        self.left_at = self.departs_at;
        if self.by_control || srtt.is_zero() || self.sent_segments <= FREE_SEGMENTS {
            return;
        }
        let cwnd_bytes = control.cwnd_bytes();
        let per_second = ratio(cwnd_bytes, control.ssthresh_bytes()) * cwnd_bytes as f64 / srtt.as_secs_f64();
        self.pacer.on_send(payload_bytes, per_second, self.departs_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::{TcpConfig, Variant};
    use crate::tcp::congestion::{BbrConfig, CongestionControlConfig};

    #[test]
    fn more_than_a_window_goes_in_a_round_trip_however_small_packets_are() {
        let srtt = Span::from_millis(100);
        for payload_bytes in [10, 60, 1460] {
            let tcp = TcpConfig {
                segment_bytes: payload_bytes,
                initial_window_segments: 50,
                initial_ssthresh_bytes: Some(50 * u64::from(payload_bytes)),
                ..TcpConfig::modern(Variant::Sack)
            };
            let control = tcp.control.build(&tcp);
            let mut pacing = HostPacing::new(Pacing::Timer, &control).expect("Reno has no pace");
            let (mut now, mut sent) = (Time::ZERO, 0);
            while now < Time::ZERO + Span::from_secs(1) {
                if let Permission::At(at) = pacing.permit(Permission::Now, now) {
                    now = at;
                }
                pacing.departs_at = now;
                pacing.on_send(payload_bytes, srtt, &control);
                sent += 1;
            }
            assert!(
                (600..=612).contains(&sent),
                "{payload_bytes}: {sent} in ten round trips of a window of 50"
            );
        }
    }

    /// Of a pair that a control with a rate lets go at once, the second has no time of its own.
    #[test]
    fn who_is_handed_over_behind_another_leaves_no_earlier() {
        let config = TcpConfig {
            control: CongestionControlConfig::Bbr(BbrConfig::default()),
            ..TcpConfig::modern(Variant::Sack)
        };
        let control = config.control.build(&config);
        let mut pacing = HostPacing::new(Pacing::Departure, &control).expect("the queue is told");
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        assert_eq!(pacing.permit(Permission::At(at(700)), at(100)), Permission::Now);
        pacing.on_send(1460, Span::from_millis(10), &control);
        assert_eq!(pacing.permit(Permission::Now, at(100)), Permission::Now);
        assert_eq!(pacing.departs_at(), at(700));
        assert_eq!(pacing.permit(Permission::Now, at(800)), Permission::Now);
        assert_eq!(pacing.departs_at(), at(800));
    }
}
