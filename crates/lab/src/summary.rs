//! The summary of a run: one JSON object with stable keys and units in their names (`docs/results.md`).
//!
//! It is written straight from the counters when it is asked for: of a large network it is much larger than they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;
use tidegate_engine::{
    ConnectionCounters, CrowdTally, Delays, FlowCounters, FluidCounters, FluidLinkCounters, LinkCounters,
    LinkId, MarkerCounters, SinkCounters, Statistics,
};
use tidegate_packet::{DropReason, MarkReason};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{Application, Queue};
use tidegate_units::{BitRate, Span};

use crate::compare::{Comparison, State, Waste, is_between_routers};
use crate::traffic;

/// Version of the summary's keys; it changes when one changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// What was counted in a run, and how to tell it.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) seed: u64,
    pub(crate) statistics: Arc<Statistics>,
    /// Percentiles of delays by flow, where the scenario asks for them.
    pub(crate) flow_percentiles: BTreeMap<usize, Percentiles>,
    /// The same by direction of a link.
    pub(crate) link_percentiles: BTreeMap<usize, Percentiles>,
    /// What the classes of a direction did, where its scheduler counts that.
    pub(crate) classes: BTreeMap<usize, serde_json::Value>,
    /// What comparisons need, where the scenario asks for it.
    pub(crate) comparison: Comparison,
}

/// What the classes of a queue did since the statistics began, by name, and in each by input port; `read` tells a variable of
/// the scheduler.
pub(crate) fn classes(
    queue: &Queue,
    window: Span,
    mut read: impl FnMut(&str) -> Option<f64>,
) -> Option<serde_json::Value> {
    let Queue::Cbq(config) = queue else { return None };
    let mut counts = |prefix: &str| {
        let mut value = |name: &str| read(&format!("{prefix}.{name}"));
        Some(json!({
            "throughput_bps": per_second(value("sent_bytes")? * 8.0, window),
            "arrived_packets": value("arrived_packets")? as u64,
            "arrived_bytes": value("arrived_bytes")? as u64,
            "sent_packets": value("sent_packets")? as u64,
            "sent_bytes": value("sent_bytes")? as u64,
            "dropped_packets": value("dropped_packets")? as u64,
            "dropped_bytes": value("dropped_bytes")? as u64,
        }))
    };
    let mut all = serde_json::Map::new();
    for (number, class) in config.classes.iter().enumerate().filter(|(_, class)| !config.has_children(class))
    {
        let mut of_class = counts(&format!("classes.{number}"))?;
        let ports: serde_json::Map<_, _> = (0..=u16::MAX)
            .map_while(|port| Some((port.to_string(), counts(&format!("classes.{number}.ports.{port}"))?)))
            .filter(|(_, of_port)| of_port["arrived_packets"] != 0)
            .collect();
        of_class["input_ports"] = ports.into();
        all.insert(class.name.clone(), of_class);
    }
    Some(all.into())
}

/// Percentiles of delays, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentiles {
    p50: u64,
    p95: u64,
    p99: u64,
}

impl Percentiles {
    /// Those of `delays`.
    pub(crate) fn of(delays: &Delays) -> Self {
        let at = |quantile| delays.value_at_quantile(quantile);
        Self { p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }

    /// `delay` with these in it.
    fn add_to(percentiles: Option<&Self>, mut delay: serde_json::Value) -> serde_json::Value {
        if let (Some(object), Some(p)) = (delay.as_object_mut(), percentiles) {
            for (key, nanos) in [("p50", p.p50), ("p95", p.p95), ("p99", p.p99)] {
                object.insert(key.to_owned(), json!(millis(nanos as f64)));
            }
        }
        delay
    }
}

impl Summary {
    /// The summary as JSON text.
    ///
    /// # Panics
    /// Never: it is plain data with strings as keys.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data has a JSON form")
    }

    /// What was counted, also of flows that are not in the scenario.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn window(&self) -> Span {
        self.statistics.until.since(self.statistics.since)
    }

    /// Jain's index, the coefficient of variation, and the distance from max-min fairness if that is asked for.
    fn fairness(&self) -> serde_json::Value {
        let mut value = fairness(&self.scenario, &self.statistics, self.window());
        if self.scenario.record.max_min {
            let sinks = self.statistics.sinks.iter().take(self.scenario.flows.len());
            let rates = sinks.map(|sinks| throughput_bps(sinks, self.window()));
            value["max_min_deviation"] = json!(self.comparison.deviation(rates));
        }
        value
    }

    /// What links between routers carried in vain, together.
    fn waste(&self) -> Option<Waste> {
        let wasted = self.comparison.wasted_bytes.as_ref()?;
        let inner = || (0..wasted.len()).filter(|id| is_between_routers(&self.scenario, id / 2));
        let wasted: u64 = inner().map(|id| wasted[id]).sum();
        let all: u64 = inner().map(|id| self.comparison.crossed_bytes[id]).sum();
        Some(Waste { wasted_bps: per_second(wasted as f64 * 8.0, self.window()), ratio: lost(wasted, all) })
    }
}

/// A JSON object whose entries are made one by one.
struct Entries<I>(I);

impl<K: Serialize, V: Serialize, I: Iterator<Item = (K, V)> + Clone> Serialize for Entries<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (scenario, statistics) = (&*self.scenario, &*self.statistics);
        let window = self.window();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        map.serialize_entry("tidegate_version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("title", &scenario.title)?;
        map.serialize_entry("seed", &self.seed)?;
        map.serialize_entry("duration_s", &statistics.until.as_secs_f64())?;
        map.serialize_entry("warmup_s", &statistics.since.as_secs_f64())?;
        let flows = scenario.flows.iter().enumerate();
        let flow = |index| {
            let percentiles = self.flow_percentiles.get(&index);
            let max_min_bps = self.comparison.max_min_bps.as_ref().map(|rates| rates[index]);
            let crowd = statistics.crowds.get(&(index as u32));
            FlowSummary { scenario, statistics, index, window, percentiles, max_min_bps, crowd }
        };
        map.serialize_entry("flows", &Entries(flows.map(|(index, spec)| (&spec.name, flow(index)))))?;
        let links = scenario.links.iter().enumerate();
        let link = |index: usize, reverse| {
            let id = LinkId::of(index as u32, reverse).0 as usize;
            LinkSummary {
                counters: &statistics.links[id],
                rate: statistics.link_rates[id],
                rate_nanos: statistics.link_rate_nanos[id],
                window,
                percentiles: self.link_percentiles.get(&id),
                classes: self.classes.get(&id),
                fluid: statistics.fluid_links.get(&(id as u32)),
                wasted_bytes: self.comparison.wasted_bytes.as_ref().map(|wasted| wasted[id]),
                reverse: None,
            }
        };
        let both = |index| {
            let reverse = Some(Box::new(link(index, true)));
            LinkSummary { reverse, ..link(index, false) }
        };
        map.serialize_entry("links", &Entries(links.map(|(index, spec)| (&spec.name, both(index)))))?;
        if !scenario.fluids.is_empty() {
            let fluids = scenario.fluids.iter().zip(&statistics.fluids);
            let entries = fluids.map(|(spec, counters)| (&spec.name, fluid(counters)));
            map.serialize_entry("fluids", &Entries(entries))?;
        }
        if !scenario.markers.is_empty() {
            let markers = scenario.markers.iter().zip(&statistics.markers);
            let entries = markers.map(|(point, counters)| (&point.name, marker(counters, window)));
            map.serialize_entry("markers", &Entries(entries))?;
        }
        if let Some(delays) = &self.comparison.delays {
            map.serialize_entry("delay_ms", &Percentiles::add_to(Some(delays), json!({})))?;
        }
        map.serialize_entry("fairness", &self.fairness())?;
        if let Some(waste) = self.waste() {
            map.serialize_entry("waste", &waste)?;
        }
        if let Some(state) = &self.comparison.state {
            map.serialize_entry("state", &State(state))?;
        }
        map.serialize_entry("control", &control(statistics))?;
        let counted = &statistics.totals;
        let mut totals = json!({
            "packet_hops": counted.packet_hops,
            "created_packets": counted.created,
            "delivered_packets": counted.delivered,
            "dropped_packets": counted.dropped,
        });
        if counted.duplicated > 0 {
            totals["duplicated_packets"] = counted.duplicated.into();
        }
        map.serialize_entry("totals", &totals)?;
        map.end()
    }
}

fn per_second(count: f64, window: Span) -> f64 {
    if window.is_zero() { 0.0 } else { count / window.as_secs_f64() }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Which part was lost: of more, if more was lost than came in the same time (what came before it, or went several ways).
fn lost(packets: u64, of: u64) -> f64 {
    ratio(packets, of.max(packets))
}

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

struct FlowSummary<'a> {
    scenario: &'a Scenario,
    statistics: &'a Statistics,
    index: usize,
    window: Span,
    percentiles: Option<&'a Percentiles>,
    max_min_bps: Option<f64>,
    crowd: Option<&'a CrowdTally>,
}

impl FlowSummary<'_> {
    fn sinks(&self) -> &[SinkCounters] {
        &self.statistics.sinks[self.index]
    }

    /// The mean over receivers of a count of bytes, in bits per second.
    fn bits(&self, bytes: impl Fn(&SinkCounters) -> u64) -> f64 {
        let total: u64 = self.sinks().iter().map(bytes).sum();
        per_second(total as f64 * 8.0, self.window) / self.sinks().len() as f64
    }
}

impl Serialize for FlowSummary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counters: &FlowCounters = &self.statistics.flows[2 * self.index];
        let received: u64 = self.sinks().iter().map(|sink| sink.received_packets).sum();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("throughput_bps", &self.bits(|sink| sink.received_bytes))?;
        map.serialize_entry("goodput_bps", &self.bits(|sink| sink.goodput_bytes))?;
        map.serialize_entry("sent_bps", &per_second(counters.sent_bytes as f64 * 8.0, self.window))?;
        map.serialize_entry("marked_bps", &self.bits(|sink| sink.priority_bytes))?;
        if let Some(rate) = self.max_min_bps {
            map.serialize_entry("max_min_bps", &rate)?;
        }
        map.serialize_entry("sent_packets", &counters.sent_packets)?;
        map.serialize_entry("received_packets", &received)?;
        map.serialize_entry("lost_packets", &counters.lost_packets)?;
        map.serialize_entry(
            "loss_ratio",
            &lost(counters.lost_packets, counters.sent_packets + counters.duplicated_packets),
        )?;
        map.serialize_entry("marked_packets", &counters.marked_packets)?;
        map.serialize_entry("delay_ms", &Percentiles::add_to(self.percentiles, flow_delay(self.sinks())))?;
        if let Some(connection) = &self.statistics.connections[self.index] {
            let ConnectionCounters { sender, receiver, completion } = connection;
            let acks = &self.statistics.flows[2 * self.index + 1];
            map.serialize_entry("retransmissions", &sender.retransmissions)?;
            map.serialize_entry("sent_payload_bytes", &sender.sent_bytes)?;
            map.serialize_entry("duplicate_acks", &sender.duplicate_acks)?;
            map.serialize_entry("timeouts", &sender.timeouts)?;
            map.serialize_entry("fast_retransmits", &sender.fast_retransmits)?;
            map.serialize_entry("ecn_reductions", &sender.ecn_reductions)?;
            map.serialize_entry("duplicate_segments", &receiver.duplicate_segments)?;
            map.serialize_entry("acks_sent_packets", &acks.sent_packets)?;
            map.serialize_entry("acks_lost_packets", &acks.lost_packets)?;
            if matches!(self.scenario.flows[self.index].application, Application::Transfer(_)) {
                map.serialize_entry("completion_s", &completion.map(Span::as_secs_f64))?;
            }
        }
        if let Some(tally) = self.crowd {
            map.serialize_entry(traffic::key(tally), &traffic::told(tally))?;
        }
        if self.sinks().len() > 1 {
            let nodes =
                self.scenario.flows[self.index].to.iter().map(|node| &self.scenario.nodes[node.index()].name);
            let rate = |sink: &SinkCounters| per_second(sink.received_bytes as f64 * 8.0, self.window);
            let each =
                nodes.zip(self.sinks()).map(|(name, sink)| (name, json!({ "throughput_bps": rate(sink) })));
            map.serialize_entry("receivers", &Entries(each))?;
        }
        map.end()
    }
}

/// One-way delays; null if nothing arrived.
fn flow_delay(sinks: &[SinkCounters]) -> serde_json::Value {
    let packets: u64 = sinks.iter().map(|sink| sink.received_packets).sum();
    if packets == 0 {
        return serde_json::Value::Null;
    }
    let total: u128 = sinks.iter().map(|sink| sink.delay_nanos).sum();
    let min = sinks.iter().map(|sink| sink.delay_nanos_min).min().unwrap_or(0);
    let max = sinks.iter().map(|sink| sink.delay_nanos_max).max().unwrap_or(0);
    json!({
        "mean": millis(total as f64 / packets as f64),
        "min": millis(min as f64),
        "max": millis(max as f64),
    })
}

struct LinkSummary<'a> {
    counters: &'a LinkCounters,
    rate: BitRate,
    /// Integrated over the window.
    rate_nanos: u128,
    window: Span,
    percentiles: Option<&'a Percentiles>,
    classes: Option<&'a serde_json::Value>,
    fluid: Option<&'a FluidLinkCounters>,
    wasted_bytes: Option<u64>,
    reverse: Option<Box<LinkSummary<'a>>>,
}

impl Serialize for LinkSummary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (counters, window) = (self.counters, self.window);
        let average = |integral: u128| per_second(integral as f64 / 1e9, window);
        let length = |mean: u128, max: u64| json!({ "mean": average(mean), "max": max });
        let drops = counters.drops_by_reason.iter().zip(DropReason::ALL.iter().map(|why| why.name()));
        let marks = counters.marks_by_reason.iter().zip(MarkReason::ALL.iter().map(|why| why.name()));
        let delay = (counters.delayed_packets > 0).then(|| {
            json!({
                "mean": millis(counters.delay_nanos as f64 / counters.delayed_packets as f64),
                "max": millis(counters.delay_nanos_max as f64),
            })
        });
        let mut map = serializer.serialize_map(None)?;
        let nanos = u128::from(window.as_nanos());
        let mean = self.rate_nanos.checked_div(nanos).map_or(self.rate.as_bps(), |mean| mean as u64);
        map.serialize_entry("rate_bps", &mean)?;
        if mean != self.rate.as_bps() {
            map.serialize_entry("rate_end_bps", &self.rate.as_bps())?;
        }
        map.serialize_entry("throughput_bps", &per_second(counters.delivered_bytes as f64 * 8.0, window))?;
        map.serialize_entry("utilization", &average(u128::from(counters.busy_nanos)))?;
        map.serialize_entry("arrived_packets", &counters.arrived_packets)?;
        map.serialize_entry("delivered_packets", &counters.delivered_packets)?;
        map.serialize_entry("dropped_packets", &counters.dropped_packets())?;
        if counters.duplicated_packets > 0 {
            map.serialize_entry("duplicated_packets", &counters.duplicated_packets)?;
        }
        map.serialize_entry("marked_packets", &counters.marked_packets())?;
        map.serialize_entry("loss_ratio", &lost(counters.dropped_packets(), counters.arrived_packets))?;
        let max = u64::from(counters.queue_packets_max);
        map.serialize_entry("queue_packets", &length(counters.packet_nanos, max))?;
        map.serialize_entry("queue_bytes", &length(counters.byte_nanos, counters.queue_bytes_max))?;
        let delay = delay.unwrap_or(serde_json::Value::Null);
        map.serialize_entry("delay_ms", &Percentiles::add_to(self.percentiles, delay))?;
        map.serialize_entry("control_bps", &per_second(counters.control_bytes as f64 * 8.0, window))?;
        if let Some(bytes) = self.wasted_bytes {
            map.serialize_entry("wasted_bps", &per_second(bytes as f64 * 8.0, window))?;
        }
        // Only the reasons that occurred.
        map.serialize_entry(
            "drops_by_reason",
            &Entries(drops.filter(|(count, _)| **count > 0).map(|(n, why)| (why, n))),
        )?;
        map.serialize_entry(
            "marks_by_reason",
            &Entries(marks.filter(|(count, _)| **count > 0).map(|(n, why)| (why, n))),
        )?;
        if let Some(fluid) = self.fluid {
            map.serialize_entry("fluid", &link_fluid(fluid))?;
        }
        if let Some(classes) = self.classes {
            map.serialize_entry("classes", classes)?;
        }
        if let Some(reverse) = &self.reverse {
            map.serialize_entry("reverse", reverse)?;
        }
        map.end()
    }
}

/// What a fluid did.
fn fluid(counters: &FluidCounters) -> serde_json::Value {
    let over = |seconds: f64, integral: f64| if seconds > 0.0 { integral / seconds } else { 0.0 };
    let mean = |integral: f64| over(counters.seconds, integral);
    // Nobody has neither window nor round trip.
    let while_there = |integral: f64| over(counters.present_seconds, integral);
    json!({
        "throughput_bps": mean(counters.delivered_bytes * 8.0),
        "sent_bps": mean(counters.sent_bytes * 8.0),
        "loss_ratio": part(counters.lost_bytes, counters.sent_bytes),
        "marked_ratio": part(counters.marked_bytes, counters.sent_bytes),
        "rtt_ms": while_there(counters.rtt_seconds) * 1e3,
        "cwnd_segments": while_there(counters.window_seconds),
        "timed_out": while_there(counters.timed_out_seconds),
    })
}

/// What a link did with fluids.
fn link_fluid(counters: &FluidLinkCounters) -> serde_json::Value {
    let mean = |bytes: f64| if counters.seconds > 0.0 { bytes * 8.0 / counters.seconds } else { 0.0 };
    json!({
        "throughput_bps": mean(counters.served_bytes),
        "offered_bps": mean(counters.offered_bytes),
        "loss_ratio": part(counters.lost_bytes, counters.offered_bytes),
        "marked_ratio": part(counters.marked_bytes, counters.offered_bytes),
    })
}

fn part(some: f64, all: f64) -> f64 {
    if all > 0.0 { some / all } else { 0.0 }
}

/// What left a marker, by colour.
fn marker(counters: &MarkerCounters, window: Span) -> serde_json::Value {
    let [green, yellow, red] = counters.bytes.map(|bytes| per_second(bytes as f64 * 8.0, window));
    json!({
        "green_bps": green,
        "yellow_bps": yellow,
        "red_bps": red,
        "dropped_packets": counters.dropped_packets,
    })
}

/// What the receivers of a flow got, on average.
fn throughput_bps(sinks: &[SinkCounters], window: Span) -> f64 {
    let bytes: u64 = sinks.iter().map(|sink| sink.received_bytes).sum();
    per_second(bytes as f64 * 8.0, window) / sinks.len() as f64
}

/// Jain's index and the coefficient of variation over the throughputs of all flows.
fn fairness(scenario: &Scenario, statistics: &Statistics, window: Span) -> serde_json::Value {
    let flow_count = scenario.flows.len();
    // Where the scenario has no flows, those from outside count in which there were packets.
    let takes_part = |&(index, _): &(usize, &Vec<SinkCounters>)| {
        index < flow_count || flow_count == 0 && statistics.flows[2 * index].sent_packets > 0
    };
    let rates: Vec<f64> = statistics
        .sinks
        .iter()
        .enumerate()
        .filter(takes_part)
        .map(|(_, sinks)| throughput_bps(sinks, window))
        .collect();
    let n = rates.len() as f64;
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if sum <= 0.0 {
        return json!({ "jain": null, "cov": null });
    }
    let mean = sum / n;
    // Rounding can make the difference of equal sums negative.
    let variance = (squares / n - mean * mean).max(0.0);
    json!({ "jain": sum * sum / (n * squares), "cov": variance.sqrt() / mean })
}

/// What control messages cost: over the whole run, and as a share of all bytes that crossed links since the warm-up.
fn control(statistics: &Statistics) -> serde_json::Value {
    let control: u64 = statistics.links.iter().map(|link| link.control_bytes).sum();
    let all: u64 = statistics.links.iter().map(|link| link.delivered_bytes).sum();
    json!({
        "packets": statistics.totals.control_packets,
        "bytes": statistics.totals.control_bytes,
        "lost_packets": statistics.totals.control_lost_packets,
        "overhead_ratio": ratio(control, all),
        "shaper_dropped_packets": statistics.border_drops.iter().flatten().sum::<u64>(),
    })
}
