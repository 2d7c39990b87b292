//! What is seen of a sender from outside.
//!
//! Source: none. Deviations: none.

use tidegate_units::{Span, Time};

use super::TcpSender;
use crate::tcp::congestion::{AnyCongestionControl, CongestionControl};
use crate::tcp::connection::SenderCounters;

impl TcpSender {
    /// When everything that the application gave had been acknowledged; `None` while something has not.
    pub fn finished_at(&self) -> Option<Time> {
        if self.finished_at == Time::MAX { None } else { Some(self.finished_at) }
    }
    /// Bytes acknowledged in order.
    pub const fn acked_bytes(&self) -> u64 {
        self.c.una
    }
    /// The congestion window in bytes, without inflation.
    pub fn cwnd_bytes(&self) -> u64 {
        self.c.cc.cwnd_bytes()
    }
    /// The slow start threshold in bytes.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.c.cc.ssthresh_bytes()
    }
    /// The receiver's window in bytes.
    pub const fn receive_window_bytes(&self) -> u64 {
        self.c.rwnd_bytes
    }
    /// The smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        let srtt = self.c.rto.srtt();
        if srtt.is_zero() { None } else { Some(srtt) }
    }
    /// The smoothed deviation of the round-trip time.
    pub const fn rttvar(&self) -> Span {
        self.c.rto.rttvar()
    }
    /// The retransmission time-out now in force.
    pub const fn rto(&self) -> Span {
        self.c.rto.rto()
    }
    /// What happened so far.
    pub const fn counters(&self) -> SenderCounters {
        self.c.counters
    }
    /// The congestion control, for its variables.
    pub const fn congestion_control(&self) -> &AnyCongestionControl {
        &self.c.cc
    }
}
