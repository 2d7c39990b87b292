//! FQ-PIE: flow queueing as FQ-CoDel has it, with PIE in each queue: an arrival is notified with a probability that follows the delay
//! of its own queue.
//!
//! Source: Linux (`net/sched/sch_fq_pie.c`); RFC 8290, section 4, for the queues; RFC 8033 for PIE; Ramakrishnan et al., "FQ-PIE queue
//! discipline in the Linux kernel" (LCN 2019).
//! Deviations: those of flow queueing (`flow_queueing`) and of [`PieLaw`], and
//! - Updates of all queues are at multiples of `t_update`. Linux goes through its queues in batches, from one timer on.
//! - A packet that would exceed `memory_limit` is dropped, as one that would exceed `limit`. Linux counts it only.
//! - What a queue is behind in updates is made up for when something happens to it; the result is the same.

use alloc::format;

use tidegate_parameters::{bound, parameters};
use tidegate_units::{Bytes, Limit};

use super::flow_queueing::{FlowQueueing, FlowQueueingConfig, MEMORY, QUANTUM, QUEUES, WAYS, WhenFull};
use super::{BinHash, Classification};
use crate::Context;
use crate::queue::{PieLaw, PieLawConfig, bytes32};

parameters! {
    /// # FQ-PIE
    ///
    /// A hash puts each flow into one of many queues, each under PIE. Queues take turns of a quantum of bytes, and those that were
    /// empty go first.
    ///
    /// Source: Linux (`fq_pie`); RFC 8033; RFC 8290.
    pub struct FqPieConfig {
        ..pie: PieLawConfig;
        /// How many packets may wait in all queues together. Source: Linux (`fq_pie`).
        limit: Limit = Limit::Packets(10_240) => bound::in_packets("10240p");
        /// How many bytes may wait in all queues together. Source: Linux (`memory_limit`).
        memory_limit: Bytes = Bytes::new(32 << 20) => MEMORY;
        /// Bytes per turn: a packet of the largest size with its header. Source: Linux (`quantum`).
        quantum: Bytes = Bytes::new(1514) => QUANTUM;
        /// The number of queues. Source: Linux (`flows`).
        queues: u32 = 1024 => QUEUES;
        /// How many queues a flow has a choice of: it shares one only if the whole set is in use. 1 is a hash without a choice.
        /// Source: Linux has none; CAKE has 8.
        ways: u32 = 1 => WAYS;
        /// How a flow finds its queue, or its set.
        hash: BinHash = BinHash::Keyed;
        /// What is hashed.
        classify: Classification = Classification::Flow;
    }
    check |config, report| {
        if !config.queues.is_multiple_of(config.ways.max(1)) {
            report.say("ways", format!("{} queues are no whole number of sets", config.queues), "1, 4 or 8");
        }
    };
}

/// See the module.
pub type FqPie = FlowQueueing<PieLaw>;

impl FqPieConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> FqPie {
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
            when_full: WhenFull::Arriving,
            counts_all: false,
        };
        FlowQueueing::new(self.pie.build(context), config, context)
    }
}
