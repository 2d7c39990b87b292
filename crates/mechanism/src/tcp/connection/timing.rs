//! The retransmission timer and the segment that is being timed: one sample per round trip, none of what was sent twice.
//!
//! Source: RFC 6298, sections 3 (Karn's rule) and 5 (the timer); ns-2's agents (tests/oracle/ns2, sections 1.2 to 1.4).
//! Deviations: ns sets the timer by its `newtimer`, which cancels more seldom.

use tidegate_units::Time;

use super::{Connection, NOT_TIMED};

impl Connection {
    #[inline]
    pub fn arm_timer(&mut self, now: Time) {
        self.rtx_at = now.saturating_add(self.rto.rto());
    }

    /// Re-arms the timer for an acknowledgment up to `number`, taken in or about to be.
    #[inline]
    pub fn arm_timer_for_ack(&mut self, number: u64, now: Time) {
        // ns (`newtimer`) cancels only when an acknowledgment covers everything while `nxt` is still behind it, which
        // happens after a time-out. RFC 6298 (5.2) cancels whenever nothing is outstanding.
        let cancel = number >= self.max && (self.nxt < number || !self.is_ns()) && !self.waits_for_timer();
        if cancel {
            self.rtx_at = Time::MAX;
        } else {
            self.arm_timer(now);
        }
    }

    /// Takes the round-trip sample, if `number` covers the timed segment.
    #[inline]
    pub(super) fn sample(&mut self, number: u64, now: Time) {
        // NOT_TIMED is above every acknowledgment.
        if number > self.timed {
            self.timed = NOT_TIMED;
            let backoff = self.rto.backoff();
            self.rto.on_sample(self.timed_at, now);
            if self.echoes && self.is_ns() && self.ecn_pauses.is_some_and(|pauses| pauses > 0) {
                // Marks at a window of one go on, and so does the backing off.
                self.rto.keep_backoff(backoff);
            }
        }
    }

    /// The same, if the timed segment lies in `start..end`, which was selectively acknowledged. What is timed was sent once
    /// only, so the sample is as good (RFC 6298, section 3), and a timer that was backed off for a hole waits no longer
    /// than one set now.
    pub fn sample_sacked(&mut self, start: u64, end: u64, now: Time) {
        if !self.is_ns() && (start..end).contains(&self.timed) {
            self.timed = NOT_TIMED;
            self.rto.on_sample(self.timed_at, now);
            self.rtx_at = self.rtx_at.min(now.saturating_add(self.rto.rto()));
        }
    }

    /// Drops the running sample if `number` covers it, and says whether it did (ns's NewReno).
    pub fn discard_sample(&mut self, number: u64) -> bool {
        let covered = number > self.timed;
        if covered {
            self.timed = NOT_TIMED;
        }
        covered
    }

    /// Drops the running sample: Karn's rule.
    pub fn stop_timing(&mut self) {
        self.timed = NOT_TIMED;
    }

    /// The next segment is held back. If none is under way, no acknowledgment can be late: the timer rests until that
    /// segment goes, or it would take the wait for a loss.
    pub fn hold_back(&mut self, nothing_under_way: bool) {
        if nothing_under_way && !self.waits_for_timer() {
            self.rtx_at = Time::MAX;
        }
    }
}
