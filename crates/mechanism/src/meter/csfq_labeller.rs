//! The edge of core-stateless fair queueing: measures each flow and writes its rate on its packets, so that the routers of
//! the core can be fair without knowing flows.
//!
//! Source: Stoica, Shenker & Zhang, "Core-stateless fair queueing", SIGCOMM 1998, section 3.1 and Fig. 3 ("edge router").
//! Deviations: the flow table is bounded; the flow seen longest ago is forgotten, and starts anew if it returns. A rate
//! below one byte per second is written as one, because a label of zero says "none". An edge may be told to lie
//! ([`CsfqLabellerConfig::lie`]): Feng, thesis, section 4.5.5, names a misconfigured edge as the weakness of the scheme.

use alloc::string::String;
use alloc::vec::Vec;

use tidegate_packet::{FlowId, Packet, RateLabel};
use tidegate_parameters::{bound, family, parameters};
use tidegate_units::{Span, Time};

use super::flow_table::FlowTable;
use super::{ExponentialMeter, ExponentialMeterConfig};

family! {
    /// What the edges of a domain write on packets.
    pub enum LabelsConfig {
        /// The rates of flows, for core-stateless fair queueing.
        Csfq(CsfqLabellerConfig) = "csfq",
    }
}

impl Default for LabelsConfig {
    fn default() -> Self {
        Self::Csfq(CsfqLabellerConfig::default())
    }
}

impl LabelsConfig {
    /// A labeller that knows no flow. The flows of which it lies are `liars`, ascending; all if there are none given.
    pub fn build(&self, liars: Option<Vec<FlowId>>) -> CsfqLabeller {
        match self {
            Self::Csfq(config) => {
                let labeller = config.build();
                match liars {
                    Some(liars) => labeller.lying_of(liars),
                    None => labeller,
                }
            }
        }
    }
}

parameters! {
    /// # Labels for Core-Stateless Fair Queueing
    ///
    /// The edge where a flow enters measures its rate and writes it on each packet.
    ///
    /// Source: Stoica, Shenker and Zhang 1998, equation 3.
    pub struct CsfqLabellerConfig {
        /// The time constant K of the average of a flow's rate. Source: the authors' simulations.
        averaging: Span = Span::from_millis(100) => bound::DURATION;
        /// The most flows that an edge knows at once. Source: assumed; it bounds the memory.
        flows_max: u32 = 4096 => bound::COUNT;
        /// The edge lies: it writes so many times the rate that it measures. Source: 1 is the truth; thesis of Feng, section
        /// 4.5.5 (a misconfigured or poorly implemented edge).
        lie: f64 = 1.0 => bound::ABOVE_ZERO;
        /// The flows of which it lies; patterns with `*` and `?`. Default: all.
        liars: Option<Vec<String>> = None;
    }
    check |config, report| {
        if config.liars.as_ref().is_some_and(Vec::is_empty) {
            report.say("liars", "nobody lies", "leave `lie` out");
        }
    };
}

impl CsfqLabellerConfig {
    /// A labeller that knows no flow. If it lies, then of all: what [`liars`](Self::liars) names is for who knows names
    /// ([`CsfqLabeller::lying_of`]).
    pub fn build(&self) -> CsfqLabeller {
        assert!(self.lie > 0.0, "a label says something");
        CsfqLabeller {
            flows: FlowTable::new(self.flows_max),
            meter: ExponentialMeterConfig { k: self.averaging },
            lie: self.lie,
            liars: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CsfqLabeller {
    /// Of each flow its meter and what its rate is multiplied by.
    flows: FlowTable<(ExponentialMeter, f64)>,
    meter: ExponentialMeterConfig,
    lie: f64,
    /// The flows of which it lies, ascending; none given: all.
    liars: Option<Vec<FlowId>>,
}

impl CsfqLabeller {
    /// It, which lies of no flows but `liars`, ascending.
    #[must_use]
    pub fn lying_of(self, liars: Vec<FlowId>) -> Self {
        assert!(liars.is_sorted(), "searched by halves");
        Self { liars: Some(liars), ..self }
    }

    /// `packet` enters the domain: its label becomes the rate of its flow.
    #[inline]
    pub fn on_arrival(&mut self, packet: &mut Packet, now: Time) {
        let flow = packet.flow;
        let (meter, factor) =
            self.flows.entry(flow, || (self.meter.build(), factor_of(flow, self.lie, self.liars.as_deref())));
        let rate = meter.add(packet.wire_bytes, now) * *factor;
        packet.label = RateLabel::from_bytes_per_second(rate.max(1.0));
    }
}

/// What the rate of `flow` is multiplied by. Once per flow that becomes known.
fn factor_of(flow: FlowId, lie: f64, liars: Option<&[FlowId]>) -> f64 {
    let lies = liars.is_none_or(|liars| liars.binary_search(&flow).is_ok());
    if lies { lie } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let config = CsfqLabellerConfig { lie: 0.25, ..CsfqLabellerConfig::default() };
            let mut labeller = LabelsConfig::Csfq(config).build(liars);
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
