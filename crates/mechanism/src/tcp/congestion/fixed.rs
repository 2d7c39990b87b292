//! A window that stays what it is, whatever happens: the sender of closed forms, for the rate of a flow alone is its window over
//! the round-trip time.
//!
//! Source: Little's law. Deviations: none; what is lost is sent again by the recovery of the connection.

use tidegate_parameters::{bound, parameters};
use tidegate_units::Time;

use super::{Ack, Congestion, CongestionControl, Permission};
use crate::tcp::TcpConfig;

parameters! {
    /// # Fixed window
    ///
    /// A window that never changes: a flow alone sends its window in each round-trip time.
    ///
    /// Source: none; Little's law
    #[derive(Copy)]
    pub struct FixedConfig {
        /// Segments in flight; the receiver's window bounds them as well. Source: assumed.
        segments: u32 = 10 => bound::COUNT;
    }
}

impl FixedConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Fixed {
        let segment_bytes = u64::from(tcp.segment_bytes);
        let wanted = u64::from(self.segments) * segment_bytes;
        Fixed { window_bytes: wanted.min(u64::from(tcp.receive_window_bytes)), segment_bytes }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Fixed {
    window_bytes: u64,
    segment_bytes: u64,
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Ack, _: Time) {}

    fn on_congestion(&mut self, _: &Congestion, _: Time) {}

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.window_bytes {
            Permission::Now
        } else {
            Permission::No
        }
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "cwnd_segments").then(|| self.window_bytes as f64 / self.segment_bytes as f64)
    }
}
