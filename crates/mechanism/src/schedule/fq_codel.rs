//! FQ-CoDel: many queues, each under `CoDel`, served by deficit round robin that lets flows with little to send go first. A flow fills
//! its own queue only, so that its delay is its own; `CoDel` keeps that short; and a call or a lookup beside downloads waits for a
//! packet or two.
//!
//! Source: RFC 8290; Linux (`net/sched/sch_fq_codel.c`) for `memory_limit`, `drop_batch` and `ce_threshold`.
//! Deviations: those of flow queueing (`flow_queueing`) and of [`CodelLaw`], and
//! - `CoDel` does not act while no more than an MTU waits behind a packet in its queue (RFC 8289, section 5.6). Linux counts what
//!   waits in all queues: [`Backlogged::All`].
//! - The hash is of what `classify` says, by default the number of the flow, and has a secret that stays. RFC 8290 hashes addresses,
//!   protocol and ports.

use tidegate_parameters::{bound, parameters, words};

use super::flow_queueing::{FlowQueueing, FlowQueueingConfig, WhenFull};
use crate::Context;
use crate::queue::{CodelLaw, CodelLawConfig};

words! {
    /// What must be more than an MTU for `CoDel` to act.
    pub enum Backlogged {
        /// What waits behind the packet in its queue (RFC 8289, section 5.6).
        Queue = "queue",
        /// What waits behind it in all queues: flows with a packet each are told, too (Linux).
        All = "all",
    }
}

parameters! {
    /// # FQ-CoDel
    ///
    /// A hash puts each flow into one of many queues, each under CoDel. Queues take turns of a quantum of bytes, and those that
    /// were empty go first. When the total overflows, the longest queue loses half of what it has.
    ///
    /// Source: RFC 8290; Linux (`fq_codel`).
    pub struct FqCodelConfig {
        ..codel: CodelLawConfig;
        ..flows: FlowQueueingConfig;
        /// How many packets the longest queue loses at most when room must be made, if they are not half of its bytes before.
        /// Source: Linux (`drop_batch`).
        drop_batch: u32 = 64 => bound::COUNT;
        /// Which backlog must be more than an MTU for CoDel to act. Source: RFC 8289, section 5.6.
        backlog: Backlogged = Backlogged::Queue;
    }
}

/// See the module.
pub type FqCodel = FlowQueueing<CodelLaw>;

impl FqCodelConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> FqCodel {
        let counts_all = self.backlog == Backlogged::All;
        let when_full = WhenFull::Longest(self.drop_batch);
        FlowQueueing::new(self.codel.build(context.mtu_bytes), &self.flows, when_full, counts_all, context)
    }
}

#[cfg(test)]
mod tests;
