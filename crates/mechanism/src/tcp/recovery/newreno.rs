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
}

impl NewReno {
    pub(super) fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        if ack.number > c.una {
            if c.action == Action::FastRecovery && ack.number < c.recover {
                self.on_partial_ack(c, ack.number, now);
            } else {
                self.had_partial = false;
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
