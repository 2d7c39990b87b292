//! NewReno: recovery lasts until everything outstanding at its start is acknowledged, and each partial acknowledgment
//! retransmits the next hole.
//!
//! Source: RFC 6582, section 3.2; ns-2's `Agent/TCP/Newreno` (tests/oracle/ns2, section 1.5), with its switches as in
//! 1999.
//! Deviations: none known against ns. Where ns differs from the RFC, `ns-1999` follows ns: a partial acknowledgment
//! takes away the whole inflation and not the acknowledged part, restarts the timer every time ("slow but steady") and
//! not only the first time, throws the running round-trip sample away, and at most two segments go out for each
//! acknowledgment in recovery.

use tidegate_units::Time;

use super::reno;
use crate::tcp::connection::{AckEvent, Action, Connection};

/// ns's NewReno sends at most this many segments on one acknowledgment in recovery.
const NS_RECOVERY_BURST: u32 = 2;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewReno {
    /// A partial acknowledgment of this recovery has come.
    had_partial: bool,
    /// Duplicates whose segments partial acknowledgments have covered since.
    covered: u32,
}

impl NewReno {
    /// Bytes that the receiver holds beyond what it acknowledged, a segment for each duplicate.
    pub(super) fn held_bytes(&self, c: &Connection) -> u64 {
        u64::from(c.dupacks.saturating_sub(self.covered)) * c.segment()
    }

    /// What was under way is given up.
    pub(super) fn on_timeout(&mut self, c: &mut Connection) {
        *self = Self::default();
        c.dupacks = 0;
    }

    pub(super) fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        if ack.number > c.una {
            if c.action == Action::FastRecovery && ack.number < c.recover {
                self.on_partial_ack(c, ack.number, now);
            } else {
                *self = Self::default();
                Self::on_full_ack(c, ack, now);
            }
        } else if ack.is_duplicate {
            reno::on_duplicate(c, now);
        }
        reno::release(c, NS_RECOVERY_BURST);
    }

    /// Everything outstanding at the start of recovery is acknowledged, or there was no recovery.
    fn on_full_ack(c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        let in_recovery = c.action == Action::FastRecovery;
        if in_recovery && !c.is_ns() {
            c.take_new_ack(ack.number, now);
            c.recovered(now);
            return;
        }
        // ns notices the end of recovery by an inflation that is left. After a partial acknowledgment without further
        // duplicates there is none, and the action stays what it was: a later acknowledgment is beyond `recover`.
        if in_recovery && c.inflation > 0 {
            c.recovered(now);
        }
        c.inflation = 0;
        c.take_new_ack_and_open(ack, now);
    }

    fn on_partial_ack(&mut self, c: &mut Connection, number: u64, now: Time) {
        if c.is_ns() {
            c.inflation = 0;
            c.arm_timer_for_ack(number, now);
            c.advance(number);
            if c.discard_sample(number) {
                c.rto.reset_backoff();
            }
        } else {
            let acked_bytes = (number - c.una).cast_signed();
            // But the hole, all of it had been received before, and each told of itself (Linux: `tcp_remove_reno_sacks`).
            let held = (number - c.una).div_ceil(c.segment()).saturating_sub(1);
            self.covered = self.covered.saturating_add(held.min(u64::from(u32::MAX)) as u32).min(c.dupacks);
            c.advance(number);
            c.stop_timing();
            // Deflate by what left the network, and let the retransmission's place be taken (step 3, partial).
            c.inflation -= acked_bytes;
            if acked_bytes >= i64::from(c.segment_bytes) {
                c.inflation += i64::from(c.segment_bytes);
            }
            if !self.had_partial {
                c.arm_timer(now);
            }
        }
        self.had_partial = true;
        c.lost_bytes += c.segment();
        c.retransmit_head = true;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::tcp::config::{TcpConfig, Variant};
    use tidegate_packet::SackBlocks;

    const SEGMENT: u64 = 1000;

    #[test]
    fn what_a_partial_acknowledgment_covers_is_not_held_any_more() {
        let tcp = TcpConfig {
            segment_bytes: 1000,
            initial_window_segments: 20,
            ..TcpConfig::modern(Variant::NewReno)
        };
        let mut c = Connection::new(&tcp);
        let mut newreno = NewReno::default();
        c.limit = u64::MAX;
        (0..20).for_each(|number| {
            c.on_output(number * SEGMENT, 1000, 0, Time::ZERO);
        });
        let mut hear = |of: &mut Connection, number: u64, is_duplicate| {
            let sack = SackBlocks::default();
            newreno.on_ack(
                of,
                &AckEvent { number: number * SEGMENT, sack: &sack, is_duplicate, ece: false },
                Time::ZERO,
            );
            of.una + newreno.held_bytes(of)
        };
        // Segments 0 and 10 are lost, so that 18 come.
        let told: Vec<u64> = (0..18).map(|_| hear(&mut c, 0, true)).collect();
        assert_eq!(told, (1..=18).map(|count| count * SEGMENT).collect::<Vec<_>>());
        assert_eq!(hear(&mut c, 10, false), 19 * SEGMENT, "the first hole is filled");
        assert_eq!(hear(&mut c, 20, false), 20 * SEGMENT);
    }
}
