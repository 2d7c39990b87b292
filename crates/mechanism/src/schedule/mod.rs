//! Who goes next? Schedulers are queue disciplines that own several queues, each under its own manager.

mod active_weights;
mod any;
mod cake;
mod cbq;
mod drr;
mod dualpi2;
mod flow_queueing;
mod flow_queues;
mod fq;
mod fq_codel;
mod fq_pie;
mod indexed_heap;
pub mod own;
mod priority;
mod recency_list;
mod sfq;
mod store;
#[cfg(test)]
pub(crate) mod testing;
mod wfq;

pub use active_weights::ActiveWeightsConfig;
pub use any::{AnyDiscipline, DisciplineConfig};
pub use cake::{AckFilter, Cake, CakeConfig, CakeFlows, CakeTins, Framing};
pub use cbq::{CBQ_PRIORITIES, Cbq, CbqClassConfig, CbqConfig, LinkSharing};
pub use drr::{Drr, DrrConfig};
pub use dualpi2::{DualLaw, DualPi2, DualPi2Config, DualScheduler};
pub use flow_queueing::FlowQueueing;
pub use flow_queueing::FlowQueueingConfig;
pub use flow_queues::{Classification, FlowQueues, FlowQueuesConfig, SlotId};
pub use fq::{Fq, FqConfig};
pub use fq_codel::{Backlogged, FqCodel, FqCodelConfig};
pub use fq_pie::{FqPie, FqPieConfig};
pub use indexed_heap::IndexedHeap;
pub use priority::{Priority, PriorityConfig};
pub(crate) use recency_list::RecencyList;
pub use sfq::{BinHash, Sfq, SfqConfig};
pub use wfq::{Wfq, WfqClock, WfqConfig, WfqReservation, WfqWeights};
