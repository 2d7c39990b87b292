//! ns's Sack1: selective acknowledgments with a pipe that counts packets by hand.
//!
//! Source: Fall and Floyd 1996; ns-2's `Agent/TCP/Sack1` (tests/oracle/ns2, section 1.6), with the pipe of 1999
//! (`oldCode_`).
//! Deviations: none known against ns. Against RFC 6675, which `modern` follows: the pipe starts at the window less the
//! duplicate threshold and falls by one for each acknowledgment and by two for a partial one, whatever they say; every
//! hole below the highest packet held is lost, so reordering is not forgiven in recovery; a hole is retransmitted once,
//! and only the timer helps if that copy is lost too; there is no rescue retransmission; hole zero is never returned;
//! the recovery ends without opening the window; duplicates are ignored from a time-out to the next acknowledgment of
//! new data.

use tidegate_units::Time;

use super::Candidate;
use crate::tcp::config::Rules;
use crate::tcp::congestion::{CongestionControl, Signal};
use crate::tcp::connection::{AckEvent, Connection, NO_BURST_LIMIT};
use crate::tcp::ranges::RangeSet;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sack1 {
    scoreboard: RangeSet,
    /// First byte not acknowledged when the scoreboard was last brought up to date.
    left: u64,
    /// Nothing below is retransmitted again in this recovery.
    high: u64,
    /// Segments believed to be in the network; may fall below zero.
    pipe: i64,
    in_recovery: bool,
    timed_out: bool,
}

impl Sack1 {
    pub(super) const fn new(scoreboard: RangeSet) -> Self {
        Self { scoreboard, left: 0, high: 0, pipe: 0, in_recovery: false, timed_out: false }
    }

    pub(super) fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        debug_assert!(c.rules == Rules::Ns1999, "the other profile has its own scoreboard");
        if self.in_recovery {
            self.on_ack_in_recovery(c, ack, now);
            c.burst = NO_BURST_LIMIT;
            return;
        }
        if ack.number > c.una {
            c.take_new_ack_and_open(ack, now);
            self.timed_out = false;
            self.clear();
        } else if ack.is_duplicate && !self.timed_out && self.update(c, ack) {
            c.dupacks = c.dupacks.saturating_add(1);
            if c.dupacks == c.dupack_threshold {
                if c.repairs_behind_echo(now) {
                    let flight_segments = (c.max - c.una) / c.segment();
                    self.begin(c, flight_segments);
                } else if c.may_enter_recovery() {
                    let window_segments = c.cc.cwnd_bytes() / c.segment();
                    self.begin(c, window_segments);
                    c.enter_recovery(Signal::Loss, now);
                }
            }
        }
        c.burst = if c.dupacks == 0 { NO_BURST_LIMIT } else { 0 };
    }

    /// The packet that is missing first goes again; of `outstanding_segments` three have left the pipe.
    fn begin(&mut self, c: &mut Connection, outstanding_segments: u64) {
        c.lost_bytes += c.segment();
        self.pipe = outstanding_segments.cast_signed() - i64::from(c.dupack_threshold);
        self.in_recovery = true;
        self.high = self.high.max(c.una + c.segment());
        c.retransmit_head = true;
    }

    fn on_ack_in_recovery(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        self.pipe -= 1;
        if ack.number >= c.recover {
            c.forget_recover();
            self.in_recovery = false;
            c.take_new_ack(ack.number, now);
            self.timed_out = false;
            self.clear();
        } else if ack.number > c.una {
            c.advance(ack.number);
            self.update(c, ack);
            self.pipe -= 1;
            c.arm_timer_for_ack(ack.number, now);
            c.rto.reset_backoff();
        } else if !self.timed_out && self.update(c, ack) && c.dupacks > 0 {
            c.dupacks = c.dupacks.saturating_add(1);
        }
    }

    /// Brings the scoreboard up to date and says whether that changed it.
    fn update(&mut self, c: &Connection, ack: &AckEvent<'_>) -> bool {
        let mut changed = false;
        if self.left < c.una {
            self.left = c.una;
            if !self.scoreboard.is_empty() {
                self.scoreboard.remove_below(c.una);
                changed = true;
            }
        }
        for block in ack.sack.as_slice() {
            let start = ack.number.saturating_add(u64::from(block.offset));
            let end = start.saturating_add(u64::from(block.length));
            if start > c.una && end <= c.max {
                changed |= self.scoreboard.insert(start, end) > 0;
            }
        }
        changed
    }

    fn clear(&mut self) {
        if !self.scoreboard.is_empty() {
            self.scoreboard.clear();
        }
        self.high = 0;
    }

    pub(super) fn on_timeout(&mut self, c: &mut Connection) {
        c.dupacks = 0;
        self.in_recovery = false;
        self.timed_out = true;
        c.keep_count_of(&self.scoreboard);
        self.clear();
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.scoreboard.covered_bytes()
    }

    pub(super) fn candidate(&self, c: &Connection) -> Option<Candidate> {
        if c.una >= c.limit {
            return None;
        }
        let in_flight_bytes = self.in_flight_bytes(c);
        let hole = if self.scoreboard.is_empty() {
            None
        } else {
            // Hole zero is never returned.
            self.scoreboard.next_hole(self.high.max(self.left)).filter(|hole| hole.start > 0)
        };
        let Some(hole) = hole else {
            let (sequence, payload_bytes) = c.next_in_order()?;
            return Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: false });
        };
        let payload_bytes = hole.len().min(c.segment()) as u32;
        let allowed =
            c.has_recover() && hole.start + u64::from(payload_bytes) <= c.una.saturating_add(c.rwnd_bytes);
        allowed.then_some(Candidate {
            sequence: hole.start,
            payload_bytes,
            in_flight_bytes,
            fills_hole: true,
        })
    }

    pub(super) fn on_sent(&mut self, sent: &Candidate) {
        self.pipe += 1;
        if sent.fills_hole {
            self.high = sent.sequence + u64::from(sent.payload_bytes);
        }
    }

    pub(super) fn in_flight_bytes(&self, c: &Connection) -> u64 {
        if self.in_recovery { self.pipe.max(0) as u64 * c.segment() } else { c.flight_bytes() }
    }
}
