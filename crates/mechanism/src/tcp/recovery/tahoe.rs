//! Tahoe: the third duplicate restarts the connection from one segment, behind what was acknowledged.
//!
//! Source: Jacobson 1988, as RFC 5681 (appendix) remembers it; ns-2's `Agent/TCP` (tests/oracle/ns2, section 1.5).
//! Deviations: none known against ns. `modern` adds limited transmit (RFC 3042) if the configuration says so.

use tidegate_units::Time;

use crate::tcp::congestion::Signal;
use crate::tcp::connection::{AckEvent, Connection, NO_BURST_LIMIT};

pub(super) fn on_ack(c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
    if ack.number > c.una {
        c.inflation = 0;
        c.take_new_ack_and_open(ack, now);
    } else if ack.is_duplicate {
        c.dupacks = c.dupacks.saturating_add(1);
        if c.dupacks < c.dupack_threshold {
            c.limited_transmit();
        } else if c.dupacks == c.dupack_threshold {
            c.inflation = 0;
            if c.repairs_behind_echo(now) {
                c.signal(Signal::Idle, now);
                c.cwr_due = true;
                c.nxt = c.una;
            } else if c.may_enter_recovery() {
                c.lost_bytes += c.segment();
                c.enter_recovery(Signal::LossRestart, now);
                c.nxt = c.una;
            }
        }
    }
    c.burst = NO_BURST_LIMIT;
}
