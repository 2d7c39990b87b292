//! How fast is this flow?

mod active_flows;
mod csfq_labeller;
mod exponential;
mod flow_table;
mod interval;
mod tsw;

pub use active_flows::{ActiveFlows, ActiveFlowsConfig};
pub use csfq_labeller::{CsfqLabeller, CsfqLabellerConfig, LabelsConfig};
pub(crate) use exponential::sample_weight;
pub use exponential::{ExponentialMeter, ExponentialMeterConfig};
pub use flow_table::FlowTable;
pub use interval::{IntervalMeter, IntervalMeterConfig};
pub use tsw::{SilenceRule, TswConfig, TswMeter};

use tidegate_units::{BitRate, Time};

/// An estimator of the rate of one stream of packets.
pub trait RateMeter {
    /// A packet of `wire_bytes` passes.
    fn on_arrival(&mut self, wire_bytes: u32, now: Time);
    /// The estimate.
    fn rate(&self, now: Time) -> BitRate;
}
