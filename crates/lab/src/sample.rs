//! Time series: what the scenario records, looked at in even steps.
//!
//! A rate stands for the interval that ends at its time; NaN is what did not exist then. Looking changes nothing: the
//! simulation runs up to each instant and on, and its events do not know.

use tidegate_engine::{LinkId, Observer, Simulation};
use tidegate_mechanism::tcp::TcpSender;
use tidegate_mechanism::tcp::congestion::CongestionControl;
use tidegate_record::Series;
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{
    self, DomainQuantity, FlowCounter, FlowQuantity, FluidQuantity, LinkCounter, LinkQuantity, MarkerCounter,
    MarkerQuantity, Way,
};
use tidegate_units::{Span, Time};

/// Samples all series of a scenario.
#[derive(Debug)]
pub(crate) struct Sampler {
    series: Vec<model::Series>,
    out: Vec<Series>,
    /// The value of the counter behind each rate at the last sample.
    before: Vec<f64>,
    /// The same for what a ratio is of.
    before_of: Vec<f64>,
    last: Time,
    /// By domain of the scenario: the domain of the engine.
    domains: Vec<Option<usize>>,
    /// By flow.
    classes: Vec<u8>,
}

impl Sampler {
    pub(crate) fn new(scenario: &Scenario, domains: Vec<Option<usize>>) -> Self {
        let series = scenario.record.series.clone();
        let out = series
            .iter()
            .map(|series| Series { name: name_of(scenario, series), times_s: Vec::new(), values: Vec::new() })
            .collect();
        let before = vec![0.0; series.len()];
        let classes = scenario.flows.iter().map(|flow| flow.class).collect();
        Self { before_of: before.clone(), before, series, out, last: Time::ZERO, domains, classes }
    }

    /// What was sampled so far.
    pub(crate) fn series(&self) -> impl Iterator<Item = &Series> {
        self.out.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Takes a sample of everything.
    pub(crate) fn take<O: Observer>(&mut self, simulation: &mut Simulation<O>) {
        let now = simulation.now();
        let elapsed = now.since(self.last).as_secs_f64();
        for index in 0..self.series.len() {
            let reading = self.read(index, simulation);
            let value = match reading {
                Reading::Value(value) => value,
                Reading::Counter { count, per_unit } => {
                    let before = core::mem::replace(&mut self.before[index], count);
                    if elapsed > 0.0 { (count - before) * per_unit / elapsed } else { f64::NAN }
                }
                Reading::Ratio { count, of } => {
                    let before = core::mem::replace(&mut self.before[index], count);
                    let before_of = core::mem::replace(&mut self.before_of[index], of);
                    if of > before_of { (count - before) / (of - before_of) } else { f64::NAN }
                }
            };
            self.out[index].times_s.push(now.as_secs_f64());
            self.out[index].values.push(value);
        }
        self.last = now;
    }

    /// The statistics begin anew. What was counted since the last sample still belongs to the next one.
    pub(crate) fn restart<O: Observer>(&mut self, simulation: &mut Simulation<O>) {
        let counted = self.counts(simulation);
        simulation.restart_statistics();
        for (index, ((was, was_of), (is, is_of))) in
            counted.into_iter().zip(self.counts(simulation)).enumerate()
        {
            self.before[index] += is - was;
            self.before_of[index] += is_of - was_of;
        }
    }

    /// By series: the counter behind a rate, and that which it is a ratio of.
    fn counts<O: Observer>(&self, simulation: &mut Simulation<O>) -> Vec<(f64, f64)> {
        let count = |index| match self.read(index, simulation) {
            Reading::Value(_) => (0.0, 0.0),
            Reading::Counter { count, .. } => (count, 0.0),
            Reading::Ratio { count, of } => (count, of),
        };
        (0..self.series.len()).map(count).collect()
    }

    pub(crate) fn finish(self) -> Vec<Series> {
        self.out
    }

    fn read<O: Observer>(&self, index: usize, simulation: &mut Simulation<O>) -> Reading {
        match self.series[index] {
            model::Series::Flow(flow, quantity) => read_flow(simulation, flow.index(), quantity),
            model::Series::Link(link, way, quantity) => {
                read_link(simulation, LinkId::of(link.0, way == Way::Reverse), quantity)
            }
            model::Series::Fluid(fluid, quantity) => read_fluid(simulation, fluid.index(), quantity),
            model::Series::Marker(marker, quantity) => read_marker(simulation, marker.index(), quantity),
            model::Series::Bin(link, way, level, bin) => {
                let link = LinkId::of(link.0, way == Way::Reverse);
                let p_m = simulation.queue_variable(link, &format!("bin.{level}.{bin}.p_m"));
                Reading::Value(p_m.unwrap_or(f64::NAN))
            }
            model::Series::LinkFlow(link, way, flow) => {
                let link = LinkId::of(link.0, way == Way::Reverse);
                let count = simulation.link_flow_bytes(link, flow.index()).unwrap_or(0);
                Reading::Counter { count: count as f64, per_unit: 8.0 }
            }
            model::Series::LinkClass(link, way, class) => {
                let link = LinkId::of(link.0, way == Way::Reverse);
                let members = (0..self.classes.len()).filter(|flow| self.classes[*flow] == class);
                let count: u64 = members.filter_map(|flow| simulation.link_flow_bytes(link, flow)).sum();
                Reading::Counter { count: count as f64, per_unit: 8.0 }
            }
            model::Series::Domain(domain, flow, quantity) => {
                let domain = self.domains[domain.index()];
                Reading::Value(
                    domain.map_or(f64::NAN, |d| read_domain(simulation, d, flow.index(), quantity)),
                )
            }
        }
    }
}

/// What an instrument shows.
enum Reading {
    /// A value now.
    Value(f64),
    /// A counter; the series shows how fast it rises.
    Counter { count: f64, per_unit: f64 },
    /// Two counters; the series shows how fast one rises over how fast the other does.
    Ratio { count: f64, of: f64 },
}

fn read_flow<O: Observer>(simulation: &Simulation<O>, flow: usize, quantity: FlowQuantity) -> Reading {
    let sinks = simulation.sink_counters(flow);
    let receivers = sinks.len() as f64;
    // A multicast flow counts as its receivers do on average.
    let bits = |count: u64| Reading::Counter { count: count as f64 / receivers, per_unit: 8.0 };
    let counters = simulation.flow_counters(flow);
    let sender = simulation.tcp_sender(flow);
    let of_sender = |read: &dyn Fn(&TcpSender) -> f64| Reading::Value(sender.map_or(f64::NAN, read));
    let inner = || simulation.crowd_variable(flow, quantity.name());
    if let Some(value) = simulation.media_variable(flow, quantity.name()).or_else(inner) {
        return Reading::Value(value);
    }
    let counter = match quantity {
        FlowQuantity::Inner(name) => return of_sender(&|tcp| control_variable(tcp, name)),
        FlowQuantity::Counted(counter) => counter,
    };
    match counter {
        FlowCounter::Throughput => bits(sinks.iter().map(|sink| sink.received_bytes).sum()),
        FlowCounter::Goodput => bits(sinks.iter().map(|sink| sink.goodput_bytes).sum()),
        FlowCounter::Sent => Reading::Counter { count: counters.sent_bytes as f64, per_unit: 8.0 },
        FlowCounter::SentPackets => Reading::Value(counters.sent_packets as f64),
        FlowCounter::LostPackets => Reading::Value(counters.lost_packets as f64),
        FlowCounter::LostRatio => {
            Reading::Ratio { count: counters.lost_packets as f64, of: counters.sent_packets as f64 }
        }
        FlowCounter::MarkedPackets => Reading::Value(counters.marked_packets as f64),
        FlowCounter::Retransmissions => of_sender(&|tcp| tcp.counters().retransmissions as f64),
        FlowCounter::Timeouts => of_sender(&|tcp| tcp.counters().timeouts as f64),
        FlowCounter::Cwnd => of_sender(&|tcp| tcp.cwnd_bytes() as f64),
        FlowCounter::CwndSegments => of_sender(&|tcp| control_variable(tcp, "cwnd_segments")),
        FlowCounter::Promised => bits(sinks.iter().map(|sink| sink.priority_bytes).sum()),
        FlowCounter::Ssthresh => of_sender(&|tcp| tcp.ssthresh_bytes() as f64),
        FlowCounter::InFlight => of_sender(&|tcp| tcp.in_flight_bytes() as f64),
        FlowCounter::SmoothedRtt => of_sender(&|tcp| tcp.srtt().map_or(f64::NAN, Span::as_millis_f64)),
        FlowCounter::Rto => of_sender(&|tcp| tcp.rto().as_millis_f64()),
    }
}

fn control_variable(tcp: &TcpSender, name: &str) -> f64 {
    tcp.congestion_control().variable(name).unwrap_or(f64::NAN)
}

fn read_link<O: Observer>(simulation: &mut Simulation<O>, link: LinkId, quantity: LinkQuantity) -> Reading {
    let counter = match quantity {
        LinkQuantity::Counted(counter) => counter,
        LinkQuantity::Queue(name) => {
            return Reading::Value(simulation.queue_variable(link, name).unwrap_or(f64::NAN));
        }
        LinkQuantity::Hop(name) => {
            return Reading::Value(simulation.hop_variable(link, name).unwrap_or(f64::NAN));
        }
    };
    let counters = simulation.link_counters(link);
    Reading::Value(match counter {
        LinkCounter::Throughput => {
            return Reading::Counter { count: counters.delivered_bytes as f64, per_unit: 8.0 };
        }
        LinkCounter::Utilization => {
            return Reading::Counter { count: counters.busy_nanos as f64, per_unit: 1e-9 };
        }
        LinkCounter::MarkedRatio => {
            let of = counters.arrived_packets as f64;
            return Reading::Ratio { count: counters.marked_packets() as f64, of };
        }
        LinkCounter::DroppedRatio => {
            let of = counters.arrived_packets as f64;
            return Reading::Ratio { count: counters.dropped_packets() as f64, of };
        }
        LinkCounter::ArrivedPackets => counters.arrived_packets as f64,
        LinkCounter::DroppedPackets => counters.dropped_packets() as f64,
        LinkCounter::MarkedPackets => counters.marked_packets() as f64,
        LinkCounter::QueuePackets => f64::from(simulation.queue_length(link).0),
        LinkCounter::QueueBytes => simulation.queue_length(link).1 as f64,
    })
}

fn read_domain<O: Observer>(
    simulation: &Simulation<O>,
    domain: usize,
    flow: usize,
    quantity: DomainQuantity,
) -> f64 {
    let Some(report) = simulation.border_report(domain, flow) else { return f64::NAN };
    match quantity {
        DomainQuantity::IngressRate => report.edge.ingress_rate * 8.0,
        DomainQuantity::EgressRate => report.edge.egress_rate * 8.0,
        DomainQuantity::Rtt => report.edge.rtt.map_or(f64::NAN, Span::as_millis_f64),
        DomainQuantity::Accumulation => report.epoch.map_or(f64::NAN, |epoch| epoch.accumulation),
        DomainQuantity::Epoch => report.epoch.map_or(f64::NAN, |epoch| f64::from(u8::from(epoch.in_epoch))),
        DomainQuantity::ShaperPackets => f64::from(report.shaper.packets),
        DomainQuantity::ShaperBytes => report.shaper.bytes as f64,
    }
}

fn read_fluid<O: Observer>(simulation: &Simulation<O>, fluid: usize, quantity: FluidQuantity) -> Reading {
    let (Some(state), Some(counters)) = (simulation.fluid_state(fluid), simulation.fluid_counters(fluid))
    else {
        return Reading::Value(f64::NAN);
    };
    Reading::Value(match quantity {
        FluidQuantity::Throughput => {
            return Reading::Counter { count: counters.delivered_bytes, per_unit: 8.0 };
        }
        FluidQuantity::Sent => state.rate_bps,
        FluidQuantity::Rtt => state.rtt_s * 1e3,
        FluidQuantity::Window => state.window_segments,
        FluidQuantity::TimedOut => state.timed_out,
    })
}

fn read_marker<O: Observer>(simulation: &Simulation<O>, marker: usize, quantity: MarkerQuantity) -> Reading {
    let bytes = simulation.marker_counters(marker).bytes;
    let bits = |colour: usize| Reading::Counter { count: bytes[colour] as f64, per_unit: 8.0 };
    match quantity {
        MarkerQuantity::Counted(MarkerCounter::Green) => bits(0),
        MarkerQuantity::Counted(MarkerCounter::Yellow) => bits(1),
        MarkerQuantity::Counted(MarkerCounter::Red) => bits(2),
        MarkerQuantity::Inner(name) => {
            Reading::Value(simulation.marker_variable(marker, name).unwrap_or(f64::NAN))
        }
    }
}

fn name_of(scenario: &Scenario, series: &model::Series) -> String {
    match series {
        model::Series::Flow(flow, quantity) => {
            format!("flows.{}.{}", scenario.flows[flow.index()].name, quantity.name())
        }
        model::Series::Link(link, way, quantity) => {
            let reverse = if *way == Way::Reverse { "reverse." } else { "" };
            format!("links.{}.{reverse}{}", scenario.links[link.index()].name, quantity.name())
        }
        model::Series::Fluid(fluid, quantity) => {
            format!("fluids.{}.{}", scenario.fluids[fluid.index()].name, quantity.name())
        }
        model::Series::Marker(marker, quantity) => {
            format!("markers.{}.{}", scenario.markers[marker.index()].name, quantity.name())
        }
        model::Series::Bin(link, way, level, bin) => {
            let reverse = if *way == Way::Reverse { "reverse." } else { "" };
            format!("links.{}.{reverse}bin.{level}.{bin}.p_m", scenario.links[link.index()].name)
        }
        model::Series::LinkFlow(link, way, flow) => {
            let reverse = if *way == Way::Reverse { "reverse." } else { "" };
            let (link, flow) = (&scenario.links[link.index()].name, &scenario.flows[flow.index()].name);
            format!("links.{link}.{reverse}flows.{flow}.throughput_bps")
        }
        model::Series::LinkClass(link, way, class) => {
            let reverse = if *way == Way::Reverse { "reverse." } else { "" };
            format!("links.{}.{reverse}classes.{class}.throughput_bps", scenario.links[link.index()].name)
        }
        model::Series::Domain(domain, flow, quantity) => format!(
            "domains.{}.{}.{}",
            scenario.domains[domain.index()].name,
            scenario.flows[flow.index()].name,
            quantity.name()
        ),
    }
}
