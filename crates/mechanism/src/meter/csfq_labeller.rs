//! The edge of core-stateless fair queueing: measures each flow and writes its rate on its packets, so that the routers of
//! the core can be fair without knowing flows.
//!
//! Source: Stoica, Shenker & Zhang, "Core-stateless fair queueing", SIGCOMM 1998, section 3.1 and Fig. 3 ("edge router").
//! Deviations: the flow table is bounded; the flow seen longest ago is forgotten, and starts anew if it returns. A rate
//! below one byte per second is written as one, because a label of zero says "none".

use tidegate_packet::{Packet, RateLabel};
use tidegate_units::Time;

use super::flow_table::FlowTable;
use super::{ExponentialMeter, ExponentialMeterConfig};

/// Parameters of [`CsfqLabeller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsfqLabellerConfig {
    /// The estimator of each flow. Default K = 100 ms.
    pub meter: ExponentialMeterConfig,
    /// How many flows are known at once. Default 4096.
    pub flows_max: u32,
}

impl Default for CsfqLabellerConfig {
    fn default() -> Self {
        Self { meter: ExponentialMeterConfig::default(), flows_max: 4096 }
    }
}

impl CsfqLabellerConfig {
    /// A labeller that knows no flow.
    pub fn build(&self) -> CsfqLabeller {
        CsfqLabeller { flows: FlowTable::new(self.flows_max), config: *self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CsfqLabeller {
    flows: FlowTable<ExponentialMeter>,
    config: CsfqLabellerConfig,
}

impl CsfqLabeller {
    /// `packet` enters the domain: its label becomes the rate of its flow.
    #[inline]
    pub fn on_arrival(&mut self, packet: &mut Packet, now: Time) {
        let meter = self.flows.entry(packet.flow, || self.config.meter.build());
        let rate = meter.add(packet.wire_bytes, now);
        packet.label = RateLabel::from_bytes_per_second(rate.max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::FlowId;
    use tidegate_units::Span;

    #[test]
    fn labels_converge_to_the_rate_of_each_flow() {
        let mut labeller = CsfqLabellerConfig::default().build();
        let mut labels = [0.0; 2];
        for ms in 0..2000u64 {
            for flow in 0..2u32 {
                if ms % (u64::from(flow) * 3 + 1) == 0 {
                    let mut packet = Packet::new(0, FlowId(flow), 1000);
                    labeller.on_arrival(&mut packet, Time::ZERO + Span::from_millis(ms));
                    labels[flow as usize] = packet.label.bytes_per_second();
                }
            }
        }
        assert!((labels[0] - 1e6).abs() < 10.0 && (labels[1] - 250e3).abs() < 10.0, "{labels:?}");
    }

    #[test]
    fn no_flow_is_labelled_none() {
        let mut labeller = CsfqLabellerConfig::default().build();
        let mut packet = Packet::new(0, FlowId(0), 0);
        labeller.on_arrival(&mut packet, Time::ZERO);
        assert_eq!(packet.label, RateLabel(1));
    }
}
