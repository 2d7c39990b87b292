//! FQ-PIE: flow queueing as FQ-CoDel has it, with PIE in each queue: an arrival is notified with a probability that follows the delay
//! of its own queue.
//!
//! Source: Linux (`net/sched/sch_fq_pie.c`); RFC 8290, section 4, for the queues; RFC 8033 for PIE; Ramakrishnan et al., "FQ-PIE queue
//! discipline in the Linux kernel" (LCN 2019).
//! Deviations: those of flow queueing (`flow_queueing`) and of [`PieLaw`], and
//! - Updates of all queues are at multiples of `t_update`. Linux goes through its queues in batches, from one timer on.
//! - A packet that would exceed `memory_limit` is dropped, as one that would exceed `limit`. Linux counts it only.
//! - What a queue is behind in updates is made up for when something happens to it; the result is the same.

use tidegate_parameters::parameters;

use super::flow_queueing::{FlowQueueing, FlowQueueingConfig, WhenFull};
use crate::Context;
use crate::queue::{PieLaw, PieLawConfig};

parameters! {
    /// # FQ-PIE
    ///
    /// A hash puts each flow into one of many queues, each under PIE. Queues take turns of a quantum of bytes, and those that were
    /// empty go first.
    ///
    /// Source: Linux (`fq_pie`); RFC 8033; RFC 8290.
    #[derive(Copy)]
    pub struct FqPieConfig {
        ..pie: PieLawConfig;
        ..flows: FlowQueueingConfig;
    }
}

/// See the module.
pub type FqPie = FlowQueueing<PieLaw>;

impl FqPieConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> FqPie {
        FlowQueueing::new(self.pie.build(context), &self.flows, WhenFull::Arriving, false, context)
    }
}
