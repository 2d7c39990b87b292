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

use alloc::format;

use tidegate_parameters::{bound, parameters, words};
use tidegate_units::{Bytes, Limit};

use super::flow_queueing::{FlowQueueing, FlowQueueingConfig, MEMORY, QUANTUM, QUEUES, WAYS, WhenFull};
use super::{BinHash, Classification};
use crate::Context;
use crate::queue::{CodelLaw, CodelLawConfig, bytes32};

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
        /// How many packets may wait in all queues together. Source: RFC 8290, section 5.2.3.
        limit: Limit = Limit::Packets(10_240) => bound::in_packets("10240p");
        /// How many bytes may wait in all queues together. Source: Linux (`memory_limit`).
        memory_limit: Bytes = Bytes::new(32 << 20) => MEMORY;
        /// Bytes per turn: a packet of the largest size with its header. Source: RFC 8290, section 5.2.4.
        quantum: Bytes = Bytes::new(1514) => QUANTUM;
        /// The number of queues. Source: RFC 8290, section 5.2.5.
        queues: u32 = 1024 => QUEUES;
        /// How many queues a flow has a choice of: it shares one only if the whole set is in use. 1 is a hash without a choice.
        /// Source: RFC 8290 has none; CAKE has 8.
        ways: u32 = 1 => WAYS;
        /// How a flow finds its queue, or its set.
        hash: BinHash = BinHash::Keyed;
        /// What is hashed.
        classify: Classification = Classification::Flow;
        /// How many packets the longest queue loses at most when room must be made, if they are not half of its bytes before.
        /// Source: Linux (`drop_batch`).
        drop_batch: u32 = 64 => bound::COUNT;
        /// Which backlog must be more than an MTU for CoDel to act. Source: RFC 8289, section 5.6.
        backlog: Backlogged = Backlogged::Queue;
    }
    check |config, report| {
        if !config.queues.is_multiple_of(config.ways.max(1)) {
            report.say("ways", format!("{} queues are no whole number of sets", config.queues), "1, 4 or 8");
        }
    };
}

/// See the module.
pub type FqCodel = FlowQueueing<CodelLaw>;

impl FqCodelConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> FqCodel {
        let Limit::Packets(packets_max) = self.limit else {
            unreachable!("checked: the limit is in packets")
        };
        let config = FlowQueueingConfig {
            queues: self.queues,
            ways: self.ways,
            hash: self.hash,
            classify: self.classify,
            quantum_bytes: bytes32(self.quantum),
            packets_max,
            bytes_max: self.memory_limit.get(),
            when_full: WhenFull::Longest(self.drop_batch),
            counts_all: self.backlog == Backlogged::All,
        };
        FlowQueueing::new(self.codel.build(context.mtu_bytes), config, context)
    }
}

#[cfg(test)]
mod tests;
