//! The edge of core-stateless fair queueing: measures each flow and writes its rate on its packets, so that the routers of
//! the core can be fair without knowing flows.
//!
//! Source: Stoica, Shenker & Zhang, "Core-stateless fair queueing", SIGCOMM 1998, section 3.1 and Fig. 3 ("edge router").
//! Deviations: the flow table is bounded; the flow seen longest ago is forgotten, and starts anew if it returns. A rate
//! below one byte per second is written as one, because a label of zero says "none". An edge may be told to lie
//! ([`CsfqLabellerConfig::lie`]): Feng, thesis, section 4.5.5, names a misconfigured edge as the weakness of the scheme.

use alloc::vec::Vec;

use tidegate_packet::{FlowId, Packet, RateLabel};
use tidegate_units::Time;

use super::flow_table::FlowTable;
use super::{ExponentialMeter, ExponentialMeterConfig};

/// Parameters of [`CsfqLabeller`].
#[derive(Clone, Debug, PartialEq)]
pub struct CsfqLabellerConfig {
    /// The estimator of each flow. Default K = 100 ms.
    pub meter: ExponentialMeterConfig,
    /// How many flows are known at once. Default 4096.
    pub flows_max: u32,
    /// The label is so many times the measured rate; above zero. Default 1: the truth.
    pub lie: f64,
    /// The flows of which it lies, ascending. Default none given: all.
    pub liars: Option<Vec<FlowId>>,
}

impl Default for CsfqLabellerConfig {
    fn default() -> Self {
        Self { meter: ExponentialMeterConfig::default(), flows_max: 4096, lie: 1.0, liars: None }
    }
}

impl CsfqLabellerConfig {
    /// What the rate of `flow` is multiplied by. Once per flow that becomes known.
    fn factor_of(&self, flow: FlowId) -> f64 {
        let lies = self.liars.as_ref().is_none_or(|liars| liars.binary_search(&flow).is_ok());
        if lies { self.lie } else { 1.0 }
    }

    /// A labeller that knows no flow.
    pub fn build(&self) -> CsfqLabeller {
        assert!(self.lie > 0.0, "a label says something");
        assert!(self.liars.as_ref().is_none_or(|liars| liars.is_sorted()), "searched by halves");
        CsfqLabeller { flows: FlowTable::new(self.flows_max), config: self.clone() }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CsfqLabeller {
    /// Of each flow its meter and what its rate is multiplied by.
    flows: FlowTable<(ExponentialMeter, f64)>,
    config: CsfqLabellerConfig,
}

impl CsfqLabeller {
    /// `packet` enters the domain: its label becomes the rate of its flow.
    #[inline]
    pub fn on_arrival(&mut self, packet: &mut Packet, now: Time) {
        let flow = packet.flow;
        let (meter, factor) =
            self.flows.entry(flow, || (self.config.meter.build(), self.config.factor_of(flow)));
        let rate = meter.add(packet.wire_bytes, now) * *factor;
        packet.label = RateLabel::from_bytes_per_second(rate.max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn an_edge_lies_of_the_flows_that_it_is_told_to_and_of_no_others() {
        let label = |liars: Option<Vec<FlowId>>, flow| {
            let config = CsfqLabellerConfig { lie: 0.25, liars, ..CsfqLabellerConfig::default() };
            let mut labeller = config.build();
            let mut packet = Packet::new(0, FlowId(flow), 1000);
            for ms in 0..2000 {
                labeller.on_arrival(&mut packet, Time::ZERO + Span::from_millis(ms));
            }
            packet.label.bytes_per_second()
        };
        let close = |found: f64, rate: f64| (found - rate).abs() < 10.0;
        assert!(close(label(None, 7), 250e3));
        assert!(close(label(Some(alloc::vec![FlowId(2), FlowId(7)]), 7), 250e3));
        assert!(close(label(Some(alloc::vec![FlowId(2), FlowId(8)]), 7), 1e6));
    }

    #[test]
    fn no_flow_is_labelled_none() {
        let mut labeller = CsfqLabellerConfig::default().build();
        let mut packet = Packet::new(0, FlowId(0), 0);
        labeller.on_arrival(&mut packet, Time::ZERO);
        assert_eq!(packet.label, RateLabel(1));
    }
}
