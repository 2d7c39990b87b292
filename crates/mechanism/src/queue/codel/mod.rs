//! `CoDel`, controlled delay: a queue that stays is told from a burst that passes by the least time that packets wait, not by
//! how many there are. If every packet of an interval has waited longer than the target, packets are dropped at the head, each
//! time after a shorter pause, until one has waited less. So one setting serves any rate of the link.
//!
//! Source: RFC 8289, sections 4 and 5; where it says so, Linux (`include/net/codel_impl.h` of 2015 and later), and the
//! authors' code for ns.
//! Deviations:
//! - The pseudocode drops only. With [`CodelLawConfig::ecn`] a mark takes the place of a drop as in Linux: a marked packet leaves
//!   at once, so that no more than one is marked each time, and the next notification is scheduled from the one before,
//!   whether or not the queue is still above the target.
//! - `MAXPACKET` is the MTU of the link ([`Context::mtu_bytes`]), which section 5.3 asks for, and not the 512 bytes of its
//!   listing.
//! - A head at the very instant `first_above_time` may be dropped (section 5.6: `>=`); with [`Variant::Linux`] only a later one.
//! - `interval / sqrt(count)` is calculated in double precision and rounded down to nanoseconds, with a correctly rounded root,
//!   the same on every platform; a pause is one nanosecond at least. With [`Variant::Linux`] it is what Linux calculates, bit by
//!   bit; but time does not wrap.
//! - `count` stays at its largest value; in the sources it wraps.
//! - The packet after the first drop of a series is sent in any case, as in the pseudocode; but if it is below the target, the
//!   series ends with it. The pseudocode ends it with the packet after that. No decision depends on it.
//! - A queue that a scheduler empties has ended its series, as one that is found empty (section 5.6).
//! - Drops and marks are reported as `early`, though nothing here is random: there is no other name for a notification that
//!   no full buffer forced.

mod law;

use alloc::format;

use tidegate_packet::{Backlog, DropReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Span, Time};

pub use self::law::{CodelLaw, CodelLawConfig, CodelState, Reentry, Variant};
use super::{QueueLimit, QueueManager, SharedLaw as _, Verdict};
use crate::{Context, Variable};

parameters! {
    /// # Controlled delay
    ///
    /// Drops (or marks) packets at the head while every packet of an interval has waited longer than a target, ever more
    /// often until one has waited less.
    ///
    /// Source: RFC 8289.
    #[derive(Copy)]
    pub struct CodelConfig {
        ..law: CodelLawConfig;
        /// How much may wait; a last resort, for the delay is held by the target. The 100 packets of other queues would be sent
        /// within the target on links above 240 Mbit/s, where CoDel then could not act. Source: Linux (`sch_codel`).
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
    }
    check |config, report| {
        if let Limit::Time(longest) = config.limit && longest <= config.law.target {
            let help = "with such a limit CoDel never acts; let more wait";
            report.say("limit", format!("{longest} is not longer than the target"), help);
        }
    };
}

impl CodelConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Codel {
        Codel {
            law: self.law.build(context.mtu_bytes),
            state: CodelState::default(),
            sojourn: Span::ZERO,
            limit: QueueLimit::new(self.limit, context.link_rate),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Codel {
    law: CodelLaw,
    state: CodelState,
    /// How long the last head has waited.
    sojourn: Span,
    limit: QueueLimit,
}

impl QueueManager for Codel {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("sojourn_ms", "How long the last packet at the head had waited."),
                Variable::new("drop_count", "Notifications since it began to notify."),
                Variable::new("is_dropping", "1 while it notifies, else 0."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if self.limit.admits(queue, packet) { Verdict::Accept } else { Verdict::Drop(DropReason::Overflow) }
    }

    fn decides_at_head(&self) -> bool {
        true
    }

    #[inline]
    fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        self.sojourn = self.law.sojourn(packet, now);
        let left_bytes = queue.bytes.saturating_sub(u64::from(packet.wire_bytes));
        self.law.at_head(&mut self.state, packet, left_bytes, now)
    }

    #[inline]
    fn on_departure(&mut self, _packet: &Packet, queue: Backlog, _now: Time) {
        if queue.is_empty() {
            self.law.on_empty(&mut self.state, true);
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "sojourn_ms" => Some(self.sojourn.as_millis_f64()),
            "drop_count" => Some(f64::from(self.state.count)),
            "is_dropping" => Some(f64::from(u8::from(self.state.dropping))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
