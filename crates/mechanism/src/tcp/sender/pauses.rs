//! Where the application has nothing to send, and where it goes on.
//!
//! Source: RFC 5681, section 4.1; draft-cheng-iccrg-delivery-rate-estimation-00, section 3.4. Deviations: none.

use tidegate_units::Time;

use super::TcpSender;
use crate::tcp::config::Rules;
use crate::tcp::congestion::{CongestionControl, Signal};

impl TcpSender {
    /// Nothing may follow. If that is because the application gave no more, a rate measured now says little of the path.
    #[inline(never)]
    pub(super) fn note_app_limited(&mut self) {
        let in_flight_bytes = self.in_flight_bytes();
        if let Some(sampler) = &mut self.c.sampler
            && self.c.nxt == self.c.limit
            && in_flight_bytes < self.c.cc.cwnd_bytes()
        {
            sampler.on_app_limited(in_flight_bytes);
        }
    }

    /// RFC 5681, section 4.1: after an idle time as long as a time-out, the window is worth no more than the initial
    /// one. Controls that count time are told of any.
    #[inline]
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        if self.c.rules != Rules::Modern || self.c.max == 0 {
            return;
        }
        if now.since(self.c.last_sent) > self.c.rto.rto() {
            self.c.signal(Signal::Idle, now);
            self.c.last_sent = now;
        }
        if self.c.sampler.as_ref().is_none_or(|sampler| sampler.is_app_limited()) {
            self.c.cc.on_resume(self.c.rto.srtt(), now);
        }
    }
}
