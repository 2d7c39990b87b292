//! Drop-tail: what does not fit is dropped as it arrives.
//!
//! Source: the queue of every router in the five documents that says "FIFO".
//! Deviations: none. The limit counts what waits; the packet in transmission is not part of the queue, as in ns-2 and
//! Linux.

use tidegate_packet::{Backlog, DropReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::Context;

parameters! {
    /// # Drop tail
    ///
    /// One first-in-first-out queue. What arrives when it is full is dropped.
    ///
    /// Source: the routers of all five documents unless they say otherwise.
    #[derive(Copy)]
    pub struct DropTailConfig {
        /// How much may wait, the packet in transmission not counted. Source: NBP, Table 1 (100 packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
    }
}

impl DropTailConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> DropTail {
        DropTail { limit: QueueLimit::new(self.limit, context.link_rate) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct DropTail {
    limit: QueueLimit,
}

impl DropTail {
    /// Whether `packet` may join behind `queue`: the whole of the law, which looks at nothing but its size.
    #[inline]
    pub fn admits(&self, queue: Backlog, packet: &Packet) -> bool {
        self.limit.admits(queue, packet)
    }
}

// The simulator asks `admits` and tells it of nothing else (`Planned<DropTail>` in the engine): a law that hears of departures, idleness or
// timers would have to be told there.
impl QueueManager for DropTail {
    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if self.admits(queue, packet) { Verdict::Accept } else { Verdict::Drop(DropReason::Overflow) }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }
}
