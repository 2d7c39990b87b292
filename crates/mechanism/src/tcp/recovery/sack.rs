//! SACK: the receiver says what it holds; the sender infers what is lost and how much is still in the network.
//!
//! Source: RFC 6675 (`Update`, `IsLost`, `SetPipe`, `NextSeg`, section 5), RFC 2018, section 8 (a time-out forgets what was
//! reported, for the receiver may have reneged).
//! Deviations: segments are not remembered one by one. A hole is lost as a whole: from the top of the scoreboard down, the holes
//! below the place where `DupThresh` ranges, or more than (`DupThresh` - 1) segments of bytes, are held. So `IsLost` is one
//! comparison and `SetPipe` one walk over the ranges, only while there are holes. After a time-out the sender goes back to the
//! first hole and skips what later acknowledgments SACK, as section 5.1 suggests. Recovery begins with any acknowledgment that
//! leaves a lost segment in front, not only with one that SACKs something new: what follows may have nothing new to say. The rescue
//! retransmission goes only for a tail of which nothing was retransmitted; read literally, `NextSeg` (4) may send a second copy of
//! the last hole behind the first. Recovery ends with RFC 6582's caution against a burst (`on_recovered`). What may go meanwhile is
//! what the window allows, or what `prr.rs` does. As in the RFC, a retransmission that is lost again waits for the timer.

use tidegate_units::Time;

use super::Candidate;
use crate::tcp::connection::{AckEvent, Connection, NO_BURST_LIMIT};
use crate::tcp::ranges::{Range, RangeSet};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sack {
    scoreboard: RangeSet,
    /// Holes below are lost (`IsLost`).
    lost_below: u64,
    /// One past the highest byte retransmitted in this recovery (`HighRxt`).
    high_rxt: u64,
    /// No rescue retransmission before the acknowledgments are beyond this (`RescueRxt`); [`u64::MAX`]: there was one.
    rescue_rxt: u64,
    /// Bytes in the network, in recovery.
    pipe_bytes: u64,
    in_recovery: bool,
}

impl Sack {
    pub(super) const fn new(scoreboard: RangeSet) -> Self {
        Self { scoreboard, lost_below: 0, high_rxt: 0, rescue_rxt: 0, pipe_bytes: 0, in_recovery: false }
    }

    pub(super) fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        c.burst = NO_BURST_LIMIT;
        if ack.number < c.una {
            return;
        }
        let advances = ack.number > c.una;
        let arrived_before = c.una + self.scoreboard.covered_bytes();
        if advances && !self.scoreboard.is_empty() {
            self.scoreboard.remove_below(ack.number);
        }
        let newly_sacked = if ack.sack.is_empty() { 0 } else { self.update(c, ack, now) };
        if self.in_recovery {
            if advances {
                // The timer restarts (RFC 6298, 5.3); the window stays.
                c.take_new_ack(ack.number, now);
            }
            if ack.number < c.recover {
                self.set_pipe(c);
                self.spread(c, arrived_before);
                return;
            }
            self.in_recovery = false;
            c.end_spreading();
            c.recovered(now);
        } else if advances {
            c.take_new_ack_and_open(ack, now);
        }
        if newly_sacked > 0 {
            // Section 2: a duplicate is one that SACKs something new, even if it also acknowledges new data.
            c.dupacks = c.dupacks.saturating_add(1);
        }
        if !self.scoreboard.is_empty() && self.shows_new_loss(c) {
            self.enter(c, now);
            self.spread(c, arrived_before);
        }
    }

    /// `DeliveredData` of RFC 6937: what is acknowledged and held beyond what was before.
    fn spread(&self, c: &mut Connection, arrived_before: u64) {
        let delivered = (c.una + self.scoreboard.covered_bytes()).saturating_sub(arrived_before);
        c.spread(delivered, self.pipe_bytes);
    }

    /// Whether loss recovery is to begin: section 5, steps 1 and 2, and section 5.1 after a time-out. Unlike RFC 6582,
    /// no acknowledgment beyond `recover` is needed: what is held above it was sent after it.
    fn shows_new_loss(&self, c: &Connection) -> bool {
        c.una < c.max && c.una >= c.recover && (c.dupacks >= c.dupack_threshold || self.lost_below > c.una)
    }

    fn enter(&mut self, c: &mut Connection, now: Time) {
        c.enter_sack_recovery(now);
        self.in_recovery = true;
        let head = self.scoreboard.next_hole(c.una).map_or(c.segment(), |hole| hole.len().min(c.segment()));
        self.high_rxt = c.una + head;
        // Step (4.3): not before the retransmission has arrived, or the rescue would come while the rest is only on its way.
        self.rescue_rxt = self.high_rxt;
        self.set_pipe(c);
    }

    /// Takes in the blocks that are within what was sent, and returns how many bytes are news.
    fn update(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) -> u64 {
        let mut news = 0;
        for block in ack.sack.as_slice() {
            let start = ack.number.saturating_add(u64::from(block.offset));
            let end = start.saturating_add(u64::from(block.length));
            if start > ack.number && end <= c.max {
                news += self.scoreboard.insert(start, end);
                c.sample_sacked(start, end, now);
            }
        }
        if news > 0 {
            self.find_lost(c);
        }
        news
    }

    /// `IsLost`, for all holes at once.
    fn find_lost(&mut self, c: &mut Connection) {
        let bytes_enough = u64::from(c.dupack_threshold - 1) * c.segment();
        let (mut ranges, mut bytes) = (0, 0);
        for range in self.scoreboard.as_slice().iter().rev() {
            ranges += 1;
            bytes += range.len();
            if ranges >= c.dupack_threshold || bytes > bytes_enough {
                let known = self.lost_below.max(c.una);
                if range.start > known {
                    let held =
                        self.scoreboard.covered_below(range.start) - self.scoreboard.covered_below(known);
                    c.lost_bytes += range.start - known - held;
                    self.lost_below = range.start;
                }
                return;
            }
        }
    }

    /// `SetPipe`: what is neither held nor lost, and what was retransmitted.
    fn set_pipe(&mut self, c: &Connection) {
        let unsacked_in = |from: u64, to: u64| {
            let sacked = self.scoreboard.covered_below(to) - self.scoreboard.covered_below(from);
            (to - from) - sacked
        };
        let lost_below = self.lost_below.clamp(c.una, c.max);
        let high_rxt = self.high_rxt.clamp(c.una, c.max);
        self.pipe_bytes = unsacked_in(lost_below, c.max) + unsacked_in(c.una, high_rxt);
    }

    pub(super) fn on_timeout(&mut self, c: &mut Connection) {
        c.dupacks = 0;
        self.in_recovery = false;
        c.end_spreading();
        c.keep_count_of(&self.scoreboard);
        self.scoreboard.clear();
        self.lost_below = 0;
    }

    pub(super) fn candidate(&self, c: &mut Connection) -> Option<Candidate> {
        if self.in_recovery {
            return self.next_seg(c);
        }
        if self.scoreboard.is_empty() {
            let (sequence, payload_bytes) = c.next_in_order()?;
            let in_flight_bytes = c.flight_bytes();
            return Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: false });
        }
        // Behind a time-out: skip what the receiver holds.
        if let Some(range) = self.scoreboard.containing(c.nxt) {
            c.nxt = range.end;
        }
        let (sequence, mut payload_bytes) = c.next_in_order()?;
        if let Some(hole) = self.scoreboard.next_hole(sequence) {
            payload_bytes = payload_bytes.min(hole.len() as u32);
        }
        Some(Candidate {
            sequence,
            payload_bytes,
            in_flight_bytes: self.in_flight_bytes(c),
            fills_hole: false,
        })
    }

    /// `NextSeg`, rules 1 to 4.
    fn next_seg(&self, c: &Connection) -> Option<Candidate> {
        let in_flight_bytes = self.pipe_bytes;
        let segment = c.segment();
        let retransmission_of = |hole: Range| Candidate {
            sequence: hole.start,
            payload_bytes: hole.len().min(segment) as u32,
            in_flight_bytes,
            fills_hole: true,
        };
        let hole = self.scoreboard.next_hole(self.high_rxt.max(c.una));
        if let Some(hole) = hole
            && hole.start < self.lost_below
        {
            return Some(retransmission_of(hole)); // (1)
        }
        if c.nxt == c.max
            && let Some((sequence, payload_bytes)) = c.next_in_order()
        {
            return Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: false }); // (2)
        }
        if let Some(hole) = hole {
            return Some(retransmission_of(hole)); // (3)
        }
        // (4): one segment at the end of what is outstanding, once, so that a lost tail does not need the timer. All of the
        // tail: it may have been sent in this recovery.
        let tail = self.scoreboard.end().max(self.high_rxt).max(c.una);
        if c.una > self.rescue_rxt && tail < c.max {
            let payload_bytes = (c.max - tail).min(segment) as u32;
            let sequence = c.max - u64::from(payload_bytes);
            return Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: false });
        }
        None
    }

    pub(super) fn on_sent(&mut self, sent: &Candidate, retransmission: bool) {
        if !self.in_recovery {
            return;
        }
        let end = sent.sequence + u64::from(sent.payload_bytes);
        self.pipe_bytes += u64::from(sent.payload_bytes);
        if sent.fills_hole {
            self.high_rxt = end;
        } else if retransmission {
            self.rescue_rxt = u64::MAX;
        }
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.scoreboard.covered_bytes()
    }

    pub(super) fn in_flight_bytes(&self, c: &Connection) -> u64 {
        if self.in_recovery {
            self.pipe_bytes
        } else if self.scoreboard.is_empty() || (!c.limited_transmit && c.nxt == c.max) {
            // Without limited transmit, duplicates before recovery release nothing.
            c.flight_bytes()
        } else {
            c.flight_bytes() - self.scoreboard.covered_below(c.nxt)
        }
    }
}
