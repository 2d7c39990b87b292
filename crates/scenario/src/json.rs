//! A scenario as JSON: for reports, drawings and comparisons. Names instead of indices, units in the names of keys.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate_document::json::config;
use tidegate_units::{BitRate, Span, Time};

use crate::model::{
    Application, Clock, Command, DelayOf, Direction, Event, EventChange, Flow, LinkIndex, MarkerPoint,
    NodeIndex, Record, Scenario, Series, Start, Transport, Way,
};

/// Counts up when a key changes its meaning.
const SCHEMA_VERSION: u32 = 1;

impl Scenario {
    /// Everything that a run depends on, as JSON. Equal scenarios give equal JSON, and the other way round.
    pub fn to_json(&self) -> Value {
        let parameters: Map<String, Value> =
            self.parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| {
                let mut each = json!({ "name": node.name, "kind": node.kind });
                // Only where it is so: a run in the simulator does not depend on it.
                if node.is_real {
                    each["real"] = json!(true);
                }
                each
            })
            .collect();
        let links: Vec<Value> = self
            .links
            .iter()
            .map(|link| {
                json!({
                    "name": link.name,
                    "a": self.node_name(link.a),
                    "b": self.node_name(link.b),
                    "cost": link.cost,
                    "duplex": link.duplex,
                    "forward": direction(&link.forward),
                    "reverse": direction(&link.reverse),
                })
            })
            .collect();
        let domains: Vec<Value> = self
            .domains
            .iter()
            .map(|domain| {
                let trusts: Vec<&str> =
                    domain.trusts.iter().map(|other| self.domains[other.index()].name.as_str()).collect();
                json!({
                    "name": domain.name,
                    "edges": self.node_names(&domain.edges),
                    "core": self.node_names(&domain.core),
                    "mechanism": config(&domain.mechanism),
                    "labels": domain.labels.as_ref().map(config),
                    "trusts": trusts,
                    "unpoliced": self.node_names(&domain.unpoliced),
                    "clocks": self.clocks_json(&domain.clocks),
                })
            })
            .collect();
        let (mut transports, mut applications) = (Repeated::default(), Repeated::default());
        let flow = |flow| self.flow(flow, &mut transports, &mut applications);
        let flows: Vec<Value> = self.flows.iter().map(flow).collect();
        let mut all = json!({
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "description": self.description,
            "source": self.source,
            "duration_s": self.duration.as_secs_f64(),
            "warmup_s": self.warmup.as_secs_f64(),
            "seed": self.seed,
            "parameters": parameters,
            "nodes": nodes,
            "links": links,
            "flows": flows,
            "routing": self.routing,
            "domains": domains,
            "markers": self.markers.iter().map(|point| self.marker(point)).collect::<Vec<_>>(),
            "events": self.events.iter().map(|event| self.event(event)).collect::<Vec<_>>(),
            "record": self.record_json(&self.record),
        });
        // Results are the same bytes where it is not there.
        if let Some(ties) = &self.ties {
            all["ties"] = json!({ "seed": ties.seed, "spread_s": ties.spread.as_secs_f64() });
        }
        // Only where there are some: a run in the simulator does not depend on them.
        if !self.commands.is_empty() {
            all["commands"] = self.commands.iter().map(|command| self.command(command)).collect();
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
        &self,
        flow: &'s Flow,
        transports: &mut Repeated<'s, Transport>,
        applications: &mut Repeated<'s, Application>,
    ) -> Value {
        let start = match flow.start {
            Start::At(time) => json!(seconds(time)),
            Start::Uniform(from, to) => json!({ "uniform": [seconds(from), seconds(to)] }),
        };
        json!({
            "name": flow.name,
            "from": self.node_name(flow.from),
            "to": self.node_names(&flow.to),
            "transport": transports.config(&flow.transport),
            "application": applications.config(&flow.application),
            "start_s": start,
            "stop_s": flow.stop.map(seconds),
            "dscp": flow.dscp.get(),
            "weight": flow.weight,
            "class": flow.class,
            "back_of": flow.back_of.map(|forth| self.flows[forth as usize].name.as_str()),
        })
    }

    fn marker(&self, point: &MarkerPoint) -> Value {
        let flows: Vec<&str> =
            point.flows.iter().map(|flow| self.flows[flow.index()].name.as_str()).collect();
        json!({
            "name": point.name,
            "at": point.at.map(|node| self.node_name(node)),
            "flows": flows,
            "mechanism": config(&point.mechanism),
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
        }
    }

    fn record_json(&self, record: &Record) -> Value {
        let delays: Vec<String> = record
            .delays
            .iter()
            .map(|delay| match delay {
                DelayOf::Flow(flow) => format!("flows.{}", self.flows[flow.index()].name),
                DelayOf::Link(link, way) => self.link_path(*link, *way),
            })
            .collect();
        let series: Vec<String> = record.series.iter().map(|series| self.series_name(*series)).collect();
        json!({
            "every_s": record.every.map(Span::as_secs_f64),
            "series": series,
            "delays": delays,
            "waste": record.waste,
            "max_min": record.max_min,
            "state": record.state,
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
struct Repeated<'s, T>(Option<(&'s T, Value)>);

impl<T> Default for Repeated<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'s, T: Serialize + PartialEq> Repeated<'s, T> {
    /// As [`config`].
    fn config(&mut self, each: &'s T) -> Value {
        match &self.0 {
            Some((last, words)) if *last == each => words.clone(),
            _ => {
                let words = config(each);
                self.0 = Some((each, words.clone()));
                words
            }
        }
    }
}

fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

fn direction(direction: &Direction) -> Value {
    json!({
        "rate_bps": direction.rate.as_bps(),
        "trace": direction.trace.as_ref().map(|trace| &trace.file),
        "delay_s": direction.delay.as_secs_f64(),
        "queue": config(&direction.queue),
        "loss": direction.loss.as_ref().map(config),
        "reorder": direction.reorder.as_ref().map(config),
        "duplicate": direction.duplicate,
        "circuit": direction.circuit.as_ref().map(config),
    })
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
