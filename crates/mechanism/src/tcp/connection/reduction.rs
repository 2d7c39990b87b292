//! When the window is reduced: once for each window of data, by duplicates, an ECN echo or a time-out, at once or gradually.
//!
//! Source: RFC 3168, section 6.1.2 (echoes); RFC 6582, section 3.2, and RFC 6675, section 5 (`recover`); RFC 6937 (gradually); W. Feng,
//! thesis, section 4.3.4 (ECN time-outs).
//! Deviations: those that the module above names for ECN; ns has one `recover` for reductions of every kind.

use tidegate_units::Time;

use super::super::config::{FastRetransmitGuard, Rules};
use super::super::congestion::{Congestion, CongestionControl, Signal};
use super::super::gradual::Gradual;
use super::{Action, Connection};

impl Connection {
    /// Whether duplicates may start a fast retransmit.
    pub fn may_enter_recovery(&self) -> bool {
        let beyond_recover = self.una > self.recover || (self.rules == Rules::Modern && self.recover == 0);
        match self.guard {
            FastRetransmitGuard::Off => true,
            FastRetransmitGuard::AfterTimeout => beyond_recover || self.action != Action::Timeout,
            FastRetransmitGuard::PerWindow => beyond_recover,
        }
    }

    /// Tells the control of congestion.
    pub fn signal(&mut self, signal: Signal, now: Time) {
        self.signal_of(signal, None, now);
    }

    /// Whether what a loss left stays, though a time-out follows before all is repaired (Linux: `tcp_enter_loss`).
    fn is_reduced_for_good(&self) -> bool {
        self.reduce_once && self.action == Action::FastRecovery
    }

    fn signal_of(&mut self, signal: Signal, echoed: Option<u64>, now: Time) {
        let cwnd_bytes = self.cc.cwnd_bytes();
        // A control takes the lesser of this and its window.
        let flight_bytes = if self.reduce_window { cwnd_bytes } else { self.flight_bytes() };
        let event = Congestion {
            signal,
            sequence: self.una,
            echoed,
            repeated: signal == Signal::Timeout
                && (self.timed_out_at == self.una || self.is_reduced_for_good()),
            window_bytes: self.window_of(cwnd_bytes),
            flight_bytes,
            srtt: self.rto.srtt(),
            rto: self.rto.rto(),
        };
        self.cc.on_congestion(&event, now);
        if let Some(gradual) = &mut self.gradual {
            // While a time-out is repaired, what is under way is not all that will arrive.
            let repairs_timeout = self.action == Action::Timeout && self.una < self.recover;
            *gradual = match signal {
                Signal::EcnEcho if !repairs_timeout => {
                    Gradual::new(self.nxt - self.una, self.cc.cwnd_bytes())
                }
                _ => Gradual::default(),
            };
        }
        if signal != Signal::Idle {
            self.cwr_due = true;
            self.reduced_at = self.max;
        }
    }

    /// Duplicates show a loss: the window closes by `signal`, the timer starts anew.
    pub fn enter_recovery(&mut self, signal: Signal, now: Time) {
        // RFC 3168, section 6.1.2: one reduction for each window of data. If an echo has already reduced this one, only
        // the retransmission remains to be done. If a loss did, the guard decided that this one counts too.
        let already_reduced = !self.is_ns() && signal == Signal::Loss && self.una < self.echoed_at;
        self.recover = self.max;
        self.action = Action::FastRecovery;
        if already_reduced {
            // What an echo spreads over a round trip ends here: recovery says what may go.
            self.gradual = self.gradual.map(|_| Gradual::default());
        } else {
            self.signal(signal, now);
        }
        self.arm_timer(now);
        self.stop_timing();
        self.counters.fast_retransmits += 1;
    }

    /// A recovery with SACK begins, at once or in proportion, with the segment that it demands.
    pub fn enter_sack_recovery(&mut self, now: Time) {
        let (flight_bytes, window_bytes) = (self.flight_bytes(), self.cc.cwnd_bytes());
        self.enter_recovery(Signal::Loss, now);
        let left_bytes = self.cc.cwnd_bytes();
        if let Some(prr) = self.prr.as_deref_mut().filter(|_| left_bytes < window_bytes) {
            prr.begin(if self.reduce_window { window_bytes } else { flight_bytes }, left_bytes);
        }
        self.retransmit_head = true;
    }

    /// An acknowledgment says that `delivered_bytes` arrived (`DeliveredData` of RFC 6937) and leaves `pipe_bytes` under way.
    pub fn spread(&mut self, delivered_bytes: u64, pipe_bytes: u64) {
        let mss = self.segment();
        if let Some(prr) = self.prr.as_deref_mut().filter(|prr| prr.is_active()) {
            prr.on_ack(delivered_bytes, pipe_bytes, mss);
        }
    }

    /// Recovery sends in proportion no longer.
    pub fn end_spreading(&mut self) {
        if let Some(prr) = &mut self.prr {
            prr.end();
        }
    }

    /// The window was reduced for what is under way: a loss of that reduces nothing more.
    pub fn note_reduction(&mut self) {
        self.echoed_at = self.max;
    }

    /// What is under way may be reduced for once more.
    pub fn forget_reduction(&mut self) {
        self.echoed_at = 0;
    }

    /// Whether ns's last reduction was that of an echo, so that a loss reduces nothing more. A control with windows below one
    /// segment counts every loss.
    pub fn is_behind_ns_echo(&self) -> bool {
        self.is_ns() && self.action == Action::Ecn && self.cc.backs_off_timer()
    }

    /// In ns the third duplicate of a window that an echo has reduced is repaired at once, and reduces nothing more, although
    /// `recover` forbids a fast retransmit. Whether that is so here; the timer starts anew then.
    pub fn repairs_behind_echo(&mut self, now: Time) -> bool {
        let repairs = self.is_behind_ns_echo() && self.una <= self.recover;
        if repairs {
            self.action = Action::FastRecovery;
            self.arm_timer(now);
            self.stop_timing();
            self.counters.fast_retransmits += 1;
        }
        repairs
    }

    /// The control leaves fast recovery.
    pub fn recovered(&mut self, now: Time) {
        self.action = Action::Exited;
        self.inflation = 0;
        if !self.is_ns() {
            // No control lets it go beyond its threshold.
            let flight_bytes = if self.keep_window { self.cc.ssthresh_bytes() } else { self.flight_bytes() };
            self.cc.on_recovered(flight_bytes, now);
        }
    }

    /// An ECN echo reduces the window once for each window of data (RFC 3168, section 6.1.2; catalogue, section 1).
    /// `number` is not taken in yet; whether the echo `begins` with it tells which segment was marked.
    pub fn on_ecn_echo(&mut self, number: u64, begins: bool, now: Time) {
        let new_window = match self.rules {
            Rules::Ns1999 => number > self.recover || self.action == Action::Timeout,
            Rules::Modern => number > self.reduced_at,
        };
        if new_window {
            if self.is_ns() {
                // ns has one `recover` for all reductions, so an echo also forbids a fast retransmit in its window.
                self.recover = self.max;
                self.action = Action::Ecn;
            }
            self.pause_for_echo(now);
            let echoed = if begins { last_covered(self.una, number, self.segment()) } else { None };
            self.signal_of(Signal::EcnEcho, echoed, now);
            if !self.cc.tells_losses_from_echoes() {
                self.echoed_at = self.max;
            }
            self.counters.ecn_reductions += 1;
        }
    }

    /// Where an echo finds a window of one segment, there is nothing left to reduce: the sender waits as if its timer
    /// had expired (thesis of Feng, section 4.3.4; RFC 3168, section 6.1.2).
    fn pause_for_echo(&mut self, now: Time) {
        let Some(pauses) = self.ecn_pauses else { return };
        if !self.cc.backs_off_timer() || self.cc.cwnd_bytes() >= 2 * self.segment() {
            if self.is_ns() {
                self.ecn_pauses = Some(0);
            }
            return;
        }
        if self.is_ns() {
            // Half of one segment is a window of zero: ns sends nothing until its timer expires, which is backed off from the
            // second time on.
            if pauses > 0 {
                self.rto.back_off();
            }
            self.paused_until = Time::MAX;
            // It rests where a segment is held back with nothing under way, and now it alone ends the pause.
            if self.rtx_at == Time::MAX {
                self.arm_timer(now);
            }
        } else {
            self.paused_until = now.saturating_add(self.rto.ecn_pause(pauses));
        }
        self.ecn_pauses = Some(pauses.saturating_add(1));
        self.counters.ecn_timeouts += 1;
    }

    /// An echo has closed the window of an ns sender: nothing is sent until the retransmission timer expires.
    pub fn waits_for_timer(&self) -> bool {
        self.paused_until == Time::MAX
    }

    /// Whether a reduction that is spread over a round trip lets a segment go that the reduced window does not.
    pub fn reduction_allows(&self, in_flight_bytes: u64, payload_bytes: u32) -> bool {
        self.gradual.is_some_and(|gradual| gradual.allows(in_flight_bytes, payload_bytes, self.segment_bytes))
    }
}

/// The start of the last segment that acknowledgment `number` covers, if it covers one new segment or two, as for packets that
/// arrive in order. Duplicates, and what fills a hole, answer another packet.
fn last_covered(una: u64, number: u64, segment: u64) -> Option<u64> {
    (number > una && number <= una + 2 * segment).then(|| number.saturating_sub(segment))
}

#[cfg(test)]
mod tests {
    use super::last_covered;

    #[test]
    fn only_an_acknowledgment_of_one_or_two_new_segments_tells_which_was_marked() {
        assert_eq!(last_covered(5000, 6000, 1000), Some(5000));
        assert_eq!(last_covered(5000, 7000, 1000), Some(6000));
        assert_eq!(last_covered(5000, 5000, 1000), None, "a duplicate");
        assert_eq!(last_covered(5000, 8000, 1000), None, "it fills a hole");
    }
}
