//! Who goes next? Schedulers are queue disciplines that own several queues, each under its own manager.

mod any;
mod drr;
mod flow_queues;
mod indexed_heap;
mod recency_list;
#[cfg(test)]
pub(crate) mod testing;
mod wfq;

pub use any::{AnyDiscipline, DisciplineConfig};
pub use drr::{Drr, DrrConfig};
pub use flow_queues::{Classification, FlowQueues, FlowQueuesConfig, SlotId};
pub use indexed_heap::IndexedHeap;
pub(crate) use recency_list::RecencyList;
pub use wfq::{Clock, Wfq, WfqConfig};
