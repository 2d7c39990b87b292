//! A scenario as JSON: for reports, drawings and comparisons. Names instead of indices, units in the names of keys.

use std::rc::Rc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tidegate_document::json::config;
use tidegate_units::{BitRate, Span, Time};

use crate::model::{
    Application, Clock, ClockStep, Command, DelayOf, Direction, Domain, Event, EventChange, EventOrder, Flow,
    Fluid, Follows, Link, LinkIndex, MarkerPoint, Multipath, Node, NodeIndex, Record, Routing, Scenario,
    Series, Start, Transport, Way,
};

/// Counts up when a key changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// A scenario in words, its keys in the order in which they are written.
#[derive(Serialize)]
struct Words<'s> {
    schema_version: u32,
    title: &'s str,
    description: &'s str,
    source: &'s str,
    duration_s: f64,
    warmup_s: f64,
    seed: u64,
    parameters: Map<String, Value>,
    nodes: Vec<Value>,
    links: Vec<Value>,
    flows: Vec<FlowWords<'s>>,
    /// Only where there are some: results are the same bytes without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fluids: Vec<Value>,
    routing: Value,
    domains: Vec<Value>,
    markers: Vec<Value>,
    events: Vec<Value>,
    record: Value,
    /// Results are the same bytes where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    ties: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_order: Option<EventOrder>,
    /// The tables of traffic by file, each with a digest: another one in a file of the same name is other traffic.
    #[serde(skip_serializing_if = "Map::is_empty")]
    tables: Map<String, Value>,
    /// Only where there are some: a run in the simulator does not depend on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<Value>,
}

/// One flow. There are thousands of them in places, so what they have in common is text already.
#[derive(Serialize)]
struct FlowWords<'s> {
    name: &'s str,
    from: &'s str,
    to: Vec<&'s str>,
    transport: Rc<RawValue>,
    application: Rc<RawValue>,
    start_s: Value,
    stop_s: Option<f64>,
    dscp: u8,
    weight: f64,
    class: u8,
    back_of: Option<&'s str>,
}

impl Scenario {
    /// Everything that a run depends on, as JSON. Equal scenarios give equal JSON, and the other way round: whoever takes
    /// results for those of a scenario compares it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.words()).expect("words have names for keys")
    }

    /// [`Self::to_json`] as text.
    pub fn to_json_text(&self) -> String {
        serde_json::to_string(&self.words()).expect("words have names for keys")
    }

    /// Structures are taken apart whole here; a field that is new has to be placed.
    fn words(&self) -> Words<'_> {
        let Self {
            title,
            description,
            source,
            duration,
            warmup,
            seed,
            parameters,
            nodes,
            links,
            flows,
            fluids,
            routing: Routing { multipath, follows },
            ties,
            event_order,
            domains,
            markers,
            commands,
            events,
            record,
            domain_sites: _,
            fluid_sites: _,
        } = self;
        let parameters: Map<String, Value> =
            parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let (mut transports, mut applications) = (Repeated::default(), Repeated::default());
        let flow = |flow| self.flow(flow, &mut transports, &mut applications);
        Words {
            schema_version: SCHEMA_VERSION,
            title,
            description,
            source,
            duration_s: duration.as_secs_f64(),
            warmup_s: warmup.as_secs_f64(),
            seed: *seed,
            parameters,
            nodes: nodes.iter().map(node).collect(),
            links: links.iter().map(|link| self.link(link)).collect(),
            flows: flows.iter().map(flow).collect(),
            fluids: fluids.iter().map(|fluid| self.fluid(fluid)).collect(),
            routing: routing(*multipath, follows.as_ref()),
            domains: domains.iter().map(|domain| self.domain(domain)).collect(),
            markers: markers.iter().map(|point| self.marker(point)).collect(),
            events: events.iter().map(|event| self.event(event)).collect(),
            record: self.record_json(record),
            ties: ties.map(|ties| json!({ "seed": ties.seed, "spread_s": ties.spread.as_secs_f64() })),
            event_order: Some(*event_order).filter(|order| *order != EventOrder::default()),
            tables: self
                .tables()
                .into_iter()
                .map(|(file, numbers)| {
                    let bits: Vec<u64> = numbers.into_iter().map(f64::to_bits).collect();
                    (file.to_owned(), json!(format!("{:016x}", digest(&bits))))
                })
                .collect(),
            commands: commands.iter().map(|command| self.command(command)).collect(),
        }
    }

    fn link(&self, link: &Link) -> Value {
        let Link { name, a, b, cost, duplex, forward, reverse } = link;
        json!({
            "name": name,
            "a": self.node_name(*a),
            "b": self.node_name(*b),
            "cost": cost,
            "duplex": duplex,
            "forward": direction(forward),
            "reverse": direction(reverse),
        })
    }

    fn domain(&self, domain: &Domain) -> Value {
        // `labels` and `mechanism` say themselves whom they concern.
        let Domain {
            name,
            edges,
            core,
            mechanism,
            labels,
            liars: _,
            trusts,
            unpoliced,
            virtual_links: _,
            control_loss,
            clocks,
            lies,
        } = domain;
        let trusts: Vec<&str> =
            trusts.iter().map(|other| self.domains[other.index()].name.as_str()).collect();
        let mut all = json!({
            "name": name,
            "edges": self.node_names(edges),
            "core": self.node_names(core),
            "mechanism": config(mechanism),
            "labels": labels.as_ref().map(config),
            "trusts": trusts,
            "unpoliced": self.node_names(unpoliced),
            "clocks": self.clocks_json(clocks),
        });
        // Only where there are some: results are the same bytes without them.
        if !lies.is_empty() {
            all["lies"] =
                lies.iter().map(|(node, lie)| (self.node_name(*node).to_owned(), config(lie))).collect();
        }
        if *control_loss > 0.0 {
            all["control_loss"] = json!(control_loss);
        }
        all
    }

    fn command(&self, command: &Command) -> Value {
        json!({
            "name": command.name,
            "host": self.node_name(command.host),
            "run": command.run,
            "needs": command.needs,
        })
    }

    fn node_name(&self, index: NodeIndex) -> &str {
        &self.nodes[index.index()].name
    }

    fn node_names(&self, list: &[NodeIndex]) -> Vec<&str> {
        list.iter().map(|index| self.node_name(*index)).collect()
    }

    fn flow<'s>(
        &'s self,
        flow: &'s Flow,
        transports: &mut Repeated<'s, Transport>,
        applications: &mut Repeated<'s, Application>,
    ) -> FlowWords<'s> {
        let Flow { name, from, to, transport, application, start, stop, dscp, weight, class, back_of } = flow;
        FlowWords {
            name,
            from: self.node_name(*from),
            to: self.node_names(to),
            transport: transports.config(transport),
            application: applications.config(application),
            start_s: start_json(*start),
            stop_s: stop.map(seconds),
            dscp: dscp.get(),
            weight: *weight,
            class: *class,
            back_of: back_of.map(|forth| self.flows[forth as usize].name.as_str()),
        }
    }

    fn fluid(&self, fluid: &Fluid) -> Value {
        let Fluid { name, from, to, config: of_all, start, stop } = fluid;
        json!({
            "name": name,
            "from": self.node_name(*from),
            "to": self.node_name(*to),
            "fluid": config(of_all),
            "start_s": start_json(*start),
            "stop_s": stop.map(seconds),
        })
    }

    fn marker(&self, point: &MarkerPoint) -> Value {
        // Whether a pattern takes every flow matters to real hosts alone, which no result is the same of.
        let MarkerPoint { name, at, flows, has_all: _, mechanism } = point;
        let flows: Vec<&str> = flows.iter().map(|flow| self.flows[flow.index()].name.as_str()).collect();
        json!({
            "name": name,
            "at": at.map(|node| self.node_name(node)),
            "flows": flows,
            "mechanism": config(mechanism),
        })
    }

    fn clocks_json(&self, clocks: &[(NodeIndex, Clock)]) -> Value {
        let each = clocks.iter().map(|(node, clock)| {
            let name = self.nodes[node.index()].name.clone();
            (name, json!({ "offset_s": clock.offset.as_secs_f64(), "drift_ppm": clock.drift_ppm }))
        });
        Value::Object(each.collect())
    }

    fn event(&self, event: &Event) -> Value {
        match event.change {
            EventChange::Link { link, direction, rate, delay, background, state } => json!({
                "at_s": seconds(event.at),
                "link": self.links[link.index()].name,
                "direction": direction,
                "rate_bps": rate.map(BitRate::as_bps),
                "delay_s": delay.map(Span::as_secs_f64),
                "background_bps": background.map(BitRate::as_bps),
                "state": state,
            }),
            EventChange::Reservation { flow, rate } => json!({
                "at_s": seconds(event.at),
                "flow": self.flows[flow.index()].name,
                "reservation_bps": rate.as_bps(),
            }),
            EventChange::Edge { domain, edge, step, restart } => json!({
                "at_s": seconds(event.at),
                "domain": self.domains[domain.index()].name,
                "edge": self.node_name(edge),
                "clock_step_s": step.map(|step| match step {
                    ClockStep::Ahead(span) => span.as_secs_f64(),
                    ClockStep::Back(span) => -span.as_secs_f64(),
                }),
                "restart": restart,
            }),
        }
    }

    fn record_json(&self, record: &Record) -> Value {
        let Record { every, series, delays, waste, max_min, state } = record;
        let delays: Vec<String> = delays
            .iter()
            .map(|delay| match delay {
                DelayOf::Flow(flow) => format!("flows.{}", self.flows[flow.index()].name),
                DelayOf::Link(link, way) => self.link_path(*link, *way),
            })
            .collect();
        let series: Vec<String> = series.iter().map(|series| self.series_name(*series)).collect();
        json!({
            "every_s": every.map(Span::as_secs_f64),
            "series": series,
            "delays": delays,
            "waste": waste,
            "max_min": max_min,
            "state": state,
        })
    }

    fn link_path(&self, link: LinkIndex, way: Way) -> String {
        let name = &self.links[link.index()].name;
        match way {
            Way::Forward => format!("links.{name}"),
            Way::Reverse => format!("links.{name}.reverse"),
        }
    }

    /// The name of a time series in results: `flows.tcp.cwnd_bytes`, `links.core.reverse.queue_packets`.
    pub fn series_name(&self, series: Series) -> String {
        match series {
            Series::Flow(flow, quantity) => {
                format!("flows.{}.{}", self.flows[flow.index()].name, quantity.name())
            }
            Series::Link(link, way, quantity) => {
                format!("{}.{}", self.link_path(link, way), quantity.name())
            }
            Series::Fluid(fluid, quantity) => {
                format!("fluids.{}.{}", self.fluids[fluid.index()].name, quantity.name())
            }
            Series::Marker(marker, quantity) => {
                format!("markers.{}.{}", self.markers[marker.index()].name, quantity.name())
            }
            Series::Bin(link, way, level, bin) => {
                format!("{}.bin.{level}.{bin}.p_m", self.link_path(link, way))
            }
            Series::LinkFlow(link, way, flow) => {
                let flow = &self.flows[flow.index()].name;
                format!("{}.flows.{flow}.throughput_bps", self.link_path(link, way))
            }
            Series::LinkClass(link, way, class) => {
                format!("{}.classes.{class}.throughput_bps", self.link_path(link, way))
            }
            Series::Domain(domain, flow, quantity) => format!(
                "domains.{}.{}.{}",
                self.domains[domain.index()].name,
                self.flows[flow.index()].name,
                quantity.name()
            ),
        }
    }
}

/// What thousands of flows have in common is put into words once.
struct Repeated<'s, T>(Option<(&'s T, Rc<RawValue>)>);

impl<T> Default for Repeated<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'s, T: Serialize + PartialEq> Repeated<'s, T> {
    /// As [`config`].
    fn config(&mut self, each: &'s T) -> Rc<RawValue> {
        match &self.0 {
            Some((last, words)) if *last == each => Rc::clone(words),
            _ => {
                let words = serde_json::value::to_raw_value(&config(each)).expect("a value is words");
                let words: Rc<RawValue> = words.into();
                self.0 = Some((each, Rc::clone(&words)));
                words
            }
        }
    }
}

fn start_json(start: Start) -> Value {
    match start {
        Start::At(time) => json!(seconds(time)),
        Start::Uniform(first, last) => json!({ "uniform": [seconds(first), seconds(last)] }),
    }
}

fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

fn node(node: &Node) -> Value {
    let Node { name, kind, is_real } = node;
    let mut all = json!({ "name": name, "kind": kind });
    // Only where it is so: a run in the simulator does not depend on it.
    if *is_real {
        all["real"] = json!(true);
    }
    all
}

/// What costs follow stands there only where they do: results are the same bytes without it.
fn routing(multipath: Multipath, follows: Option<&Follows>) -> Value {
    let mut routing = json!({ "multipath": multipath });
    if let Some(follows) = follows {
        routing["follows"] = config(follows);
    }
    routing
}

fn direction(direction: &Direction) -> Value {
    let Direction { rate, trace, delay, queue, device, loss, reorder, duplicate, jitter, circuit } =
        direction;
    let mut all = json!({
        "rate_bps": rate.as_bps(),
        "trace": trace.as_ref().map(|trace| &trace.file),
        "delay_s": delay.as_secs_f64(),
        "queue": config(queue),
        "loss": loss.as_ref().map(config),
        "reorder": reorder.as_ref().map(config),
        "duplicate": duplicate,
        "circuit": circuit.as_ref().map(config),
    });
    // Only where there is one: results are the same bytes without it.
    if let Some(device) = device {
        all["device"] = config(device);
    }
    if let Some(jitter) = jitter {
        all["jitter"] = config(jitter);
    }
    if let Some(trace) = trace {
        // Another trace in a file of the same name is another link.
        all["trace_digest"] = json!(format!("{:016x}", digest(&trace.stamps_ms)));
    }
    all
}

/// FNV-1a over the bytes of `numbers`.
fn digest(numbers: &[u64]) -> u64 {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Manager, Queue};
    use tidegate_mechanism::queue::RedConfig;

    #[test]
    fn units_move_from_the_values_into_the_keys() {
        let value = config(&Queue::Fifo(Manager::Red(RedConfig::default())));
        assert_eq!(value["kind"], "red");
        assert_eq!(value["limit_packets"], 100);
        assert_eq!(value["mean_packet_bytes"], 1000);
        assert_eq!(value["gap"], "paper");
        assert!(value.get("limit").is_none());
    }
}
