//! Reno: fast retransmit, then each further duplicate lets a new segment go, until new data is acknowledged.
//!
//! Source: RFC 5681, section 3.2; ns-2's `Agent/TCP/Reno` (tests/oracle/ns2, section 1.5).
//! Deviations: none known against ns, whose quirks are kept in `ns-1999`: duplicates inflate the window even if
//! `recover` forbids the fast retransmit, the first and second duplicate release nothing although the application may
//! have new data, and the acknowledgment that ends recovery opens the window too.

use tidegate_units::Time;

use crate::tcp::congestion::Signal;
use crate::tcp::connection::{AckEvent, Action, Connection, NO_BURST_LIMIT};

pub(super) fn on_ack(c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
    if ack.number > c.una {
        let in_recovery = c.action == Action::FastRecovery;
        c.inflation = 0;
        if in_recovery && !c.is_ns() {
            c.take_new_ack(ack.number, now);
            c.recovered(now);
        } else {
            if in_recovery {
                c.recovered(now);
            }
            c.take_new_ack_and_open(ack, now);
        }
    } else if ack.is_duplicate {
        on_duplicate(c, now);
    }
    release(c, NO_BURST_LIMIT);
}

/// One more duplicate; the same in NewReno.
pub(super) fn on_duplicate(c: &mut Connection, now: Time) {
    let segment = i64::from(c.segment_bytes);
    c.dupacks = c.dupacks.saturating_add(1);
    if c.dupacks < c.dupack_threshold {
        c.limited_transmit();
    } else if c.dupacks == c.dupack_threshold {
        // What limited transmit sent is under way, not part of the window.
        c.inflation = 0;
        if c.repairs_behind_echo(now) {
            c.retransmit_head = true;
        } else if c.may_enter_recovery() {
            c.lost_bytes += c.segment();
            c.enter_recovery(Signal::Loss, now);
            c.retransmit_head = true;
        }
        if c.is_ns() || c.action == Action::FastRecovery {
            c.inflation = i64::from(c.dupack_threshold) * segment;
        }
    } else if c.is_ns() || c.action == Action::FastRecovery {
        c.inflation += segment;
    }
}

/// ns sends nothing on the first duplicates (unless limited transmit is on), and at most `in_recovery` segments after
/// the threshold.
pub(super) fn release(c: &mut Connection, in_recovery: u32) {
    c.burst = if !c.is_ns() || c.dupacks == 0 {
        NO_BURST_LIMIT
    } else if c.dupacks >= c.dupack_threshold {
        in_recovery
    } else if c.limited_transmit {
        NO_BURST_LIMIT
    } else {
        0
    };
}
