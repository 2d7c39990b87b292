//! The summary of a run: one JSON object with stable keys and units in their names (`docs/results.md`).

use serde_json::{Map, Value, json};
use tidegate_engine::{LinkCounters, LinkId, SinkCounters, Statistics};
use tidegate_packet::{DropReason, MarkReason};
use tidegate_scenario::Scenario;
use tidegate_units::{BitRate, Span};

/// Version of the summary's keys; it changes when one changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// The summary of `statistics`, which were counted in a run with `seed`.
pub(crate) fn summary(scenario: &Scenario, seed: u64, statistics: &Statistics, rates: &[BitRate]) -> Value {
    let window = statistics.until.since(statistics.since);
    let mut flows = Map::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        flows.insert(flow.name.clone(), flow_summary(scenario, index, statistics, window));
    }
    let mut links = Map::new();
    for (index, link) in scenario.links.iter().enumerate() {
        let [forward, reverse] = [false, true].map(|reverse| {
            let id = LinkId::of(index as u32, reverse).0 as usize;
            link_summary(&statistics.links[id], rates[id], window)
        });
        let mut value = forward;
        value.insert("reverse".to_owned(), Value::Object(reverse));
        links.insert(link.name.clone(), Value::Object(value));
    }
    json!({
        "schema_version": SCHEMA_VERSION,
        "tidegate_version": env!("CARGO_PKG_VERSION"),
        "title": scenario.title,
        "seed": seed,
        "duration_s": statistics.until.as_secs_f64(),
        "warmup_s": statistics.since.as_secs_f64(),
        "flows": flows,
        "links": links,
        "fairness": fairness(statistics, window),
        "control": control(statistics),
        "totals": {
            "packet_hops": statistics.totals.packet_hops,
            "created_packets": statistics.totals.created,
            "delivered_packets": statistics.totals.delivered,
            "dropped_packets": statistics.totals.dropped,
        },
    })
}

fn per_second(count: f64, window: Span) -> f64 {
    if window.is_zero() { 0.0 } else { count / window.as_secs_f64() }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

fn flow_summary(scenario: &Scenario, index: usize, statistics: &Statistics, window: Span) -> Value {
    let sinks = &statistics.sinks[index];
    let counters = &statistics.flows[2 * index];
    let receivers = sinks.len() as f64;
    let bits = |bytes: u64| per_second(bytes as f64 * 8.0, window) / receivers;
    let sum = |count: fn(&SinkCounters) -> u64| sinks.iter().map(count).sum::<u64>();
    let mut value = Map::new();
    let mut put = |key: &str, what: Value| value.insert(key.to_owned(), what);
    put("throughput_bps", json!(bits(sum(|sink| sink.received_bytes))));
    put("goodput_bps", json!(bits(sum(|sink| sink.goodput_bytes))));
    put("sent_bps", json!(per_second(counters.sent_bytes as f64 * 8.0, window)));
    put("marked_bps", json!(bits(sum(|sink| sink.priority_bytes))));
    put("sent_packets", json!(counters.sent_packets));
    put("received_packets", json!(sum(|sink| sink.received_packets)));
    put("lost_packets", json!(counters.lost_packets));
    put("loss_ratio", json!(ratio(counters.lost_packets, counters.sent_packets)));
    put("marked_packets", json!(counters.marked_packets));
    put("delay_ms", delay(sinks));
    if let Some(connection) = &statistics.connections[index] {
        let sender = &connection.sender;
        put("retransmissions", json!(sender.retransmissions));
        put("timeouts", json!(sender.timeouts));
        put("fast_retransmits", json!(sender.fast_retransmits));
        put("ecn_reductions", json!(sender.ecn_reductions));
        put("duplicate_segments", json!(connection.receiver.duplicate_segments));
        let acks = &statistics.flows[2 * index + 1];
        put("acks_sent_packets", json!(acks.sent_packets));
        put("acks_lost_packets", json!(acks.lost_packets));
    }
    if sinks.len() > 1 {
        let nodes = scenario.flows[index].to.iter().map(|node| scenario.nodes[node.index()].name.clone());
        let rate = |sink: &SinkCounters| json!(per_second(sink.received_bytes as f64 * 8.0, window));
        let each = nodes.zip(sinks).map(|(name, sink)| (name, json!({ "throughput_bps": rate(sink) })));
        put("receivers", Value::Object(each.collect()));
    }
    Value::Object(value)
}

fn delay(sinks: &[SinkCounters]) -> Value {
    let packets: u64 = sinks.iter().map(|sink| sink.received_packets).sum();
    if packets == 0 {
        return Value::Null;
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

fn link_summary(counters: &LinkCounters, rate: BitRate, window: Span) -> Map<String, Value> {
    let mut value = Map::new();
    let mut put = |key: &str, what: Value| value.insert(key.to_owned(), what);
    let average = |integral: u128| per_second(integral as f64 / 1e9, window);
    put("rate_bps", json!(rate.as_bps()));
    put("throughput_bps", json!(per_second(counters.delivered_bytes as f64 * 8.0, window)));
    put("utilization", json!(per_second(counters.busy_nanos as f64 / 1e9, window)));
    put("arrived_packets", json!(counters.arrived_packets));
    put("delivered_packets", json!(counters.delivered_packets));
    put("dropped_packets", json!(counters.dropped_packets()));
    put("marked_packets", json!(counters.marked_packets()));
    put("loss_ratio", json!(ratio(counters.dropped_packets(), counters.arrived_packets)));
    put(
        "queue_packets",
        json!({ "mean": average(counters.packet_nanos), "max": counters.queue_packets_max }),
    );
    put("queue_bytes", json!({ "mean": average(counters.byte_nanos), "max": counters.queue_bytes_max }));
    let delay = if counters.delayed_packets == 0 {
        Value::Null
    } else {
        json!({
            "mean": millis(counters.delay_nanos as f64 / counters.delayed_packets as f64),
            "max": millis(counters.delay_nanos_max as f64),
        })
    };
    put("delay_ms", delay);
    put("control_bps", json!(per_second(counters.control_bytes as f64 * 8.0, window)));
    put("drops_by_reason", by_reason(&counters.drops_by_reason, |i| DropReason::ALL[i].name()));
    put("marks_by_reason", by_reason(&counters.marks_by_reason, |i| MarkReason::ALL[i].name()));
    value
}

/// The reasons that occurred.
fn by_reason(counts: &[u64], name: impl Fn(usize) -> &'static str) -> Value {
    let occurred = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    Value::Object(occurred.map(|(index, count)| (name(index).to_owned(), json!(count))).collect())
}

/// Jain's index and the coefficient of variation over the throughputs of all flows.
fn fairness(statistics: &Statistics, window: Span) -> Value {
    let rates: Vec<f64> = statistics
        .sinks
        .iter()
        .map(|sinks| {
            let bytes: u64 = sinks.iter().map(|sink| sink.received_bytes).sum();
            per_second(bytes as f64 * 8.0, window) / sinks.len() as f64
        })
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
fn control(statistics: &Statistics) -> Value {
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
