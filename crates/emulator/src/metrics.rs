//! A look at an emulation in the text format that Prometheus reads (`OpenMetrics` 1.0).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_packet::{DropReason, MarkReason};

use crate::look::{LatenessLook, LinkLook, Look};

/// What [`page`] is, for whoever asks.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A look that is to be written.
#[derive(Debug)]
struct Written(Look);

/// One family of metrics: its name without prefix and suffix, what it means, and its unit.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    unit: Option<Unit>,
}

/// Writes the members of `family`, each a value with its labels.
fn write<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<'_>,
    members: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut members = members.into_iter().peekable();
    let Some((_, first)) = members.peek() else { return Ok(()) };
    let name = format!("tidegate_{}", family.name);
    let kind = first.metric_type();
    let mut encoder = encoder.encode_descriptor(&name, family.help, family.unit.as_ref(), kind)?;
    members.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(&labels)?))
}

type Label = (&'static str, String);

impl Written {
    fn labels(&self, link: &LinkLook) -> Vec<Label> {
        let name = self.0.scenario.links[link.link].name.clone();
        let direction = if link.is_reverse { "reverse" } else { "forward" };
        vec![("link", name), ("direction", direction.to_owned())]
    }

    fn links(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut counter = |name, help, unit, value: fn(&LinkLook) -> u64| {
            let members = self.0.links.iter().map(|link| (self.labels(link), ConstCounter::new(value(link))));
            write(encoder, &Family { name, help, unit }, members)
        };
        let packets = || Some(Unit::Other("packets".to_owned()));
        counter("link_arrived", "Packets offered to a link", packets(), |link| {
            link.counters.arrived_packets
        })?;
        counter("link_delivered", "Packets that reached the far end", packets(), |link| {
            link.counters.delivered_packets
        })?;
        counter("link_delivered", "Bytes that reached the far end", Some(Unit::Bytes), |link| {
            link.counters.delivered_bytes
        })?;
        let busy = self
            .0
            .links
            .iter()
            .map(|link| (self.labels(link), ConstCounter::new(link.counters.busy_nanos as f64 / 1e9)));
        let in_transmission =
            Family { name: "link_busy", help: "Time spent in transmission", unit: Some(Unit::Seconds) };
        write(encoder, &in_transmission, busy)?;
        let by_reason = |link: &LinkLook, reason: &str| {
            let mut labels = self.labels(link);
            labels.push(("reason", reason.to_owned()));
            labels
        };
        let drops = self.0.links.iter().flat_map(|link| {
            let of = move |why: &DropReason| link.counters.drops_by_reason[why.index()];
            DropReason::ALL.iter().map(move |why| (by_reason(link, why.name()), ConstCounter::new(of(why))))
        });
        let dropped = Family { name: "link_dropped", help: "Packets dropped at a link", unit: packets() };
        write(encoder, &dropped, drops)?;
        let marks = self.0.links.iter().flat_map(|link| {
            let of = move |why: &MarkReason| link.counters.marks_by_reason[why.index()];
            MarkReason::ALL.iter().map(move |why| (by_reason(link, why.name()), ConstCounter::new(of(why))))
        });
        let marked = Family { name: "link_marked", help: "Packets marked at a link", unit: packets() };
        write(encoder, &marked, marks)?;
        let mut gauge = |name, help, unit, value: fn(&LinkLook) -> u64| {
            let members =
                self.0.links.iter().map(|link| (self.labels(link), ConstGauge::new(value(link) as f64)));
            write(encoder, &Family { name, help, unit }, members)
        };
        let in_packets = "Packets in the queue, the one in transmission included";
        gauge("link_queue", in_packets, packets(), |link| u64::from(link.queue.0))?;
        let in_bytes = "Bytes in the queue, the packet in transmission included";
        gauge("link_queue", in_bytes, Some(Unit::Bytes), |link| link.queue.1)?;
        let unit = Some(Unit::Other("bytes_per_second".to_owned()));
        gauge("link_rate", "The rate of a link", unit, |link| link.rate.as_bps() / 8)
    }

    fn flows(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let packets = || Some(Unit::Other("packets".to_owned()));
        let mut counter = |name, help, unit, value: fn(&crate::look::FlowLook) -> u64| {
            let members = self
                .0
                .flows
                .iter()
                .map(|flow| ([("flow", flow.name.clone())], ConstCounter::new(value(flow))));
            write(encoder, &Family { name, help, unit }, members)
        };
        counter("flow_sent", "Packets sent by a flow", packets(), |flow| flow.sent_packets)?;
        counter("flow_lost", "Packets of a flow that were dropped", packets(), |flow| flow.lost_packets)?;
        counter("flow_marked", "Packets of a flow that were marked", packets(), |flow| flow.marked_packets)?;
        counter("flow_received", "Packets that reached their receiver", packets(), |flow| {
            flow.received_packets
        })?;
        counter("flow_received", "Bytes that reached their receiver", Some(Unit::Bytes), |flow| {
            flow.received_bytes
        })
    }

    fn host(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &self.0.counts;
        let fates = [
            ("arrived", counts.arrived_packets),
            ("delivered", counts.delivered_packets),
            ("stray", counts.stray_packets),
            ("unbuffered", counts.unbuffered_packets),
            ("refused", counts.refused_packets),
            ("device_dropped", counts.device_dropped_packets),
            ("oversized", counts.oversized_packets),
        ];
        let members = fates.map(|(fate, value)| ([("fate", fate)], ConstCounter::new(value)));
        let unit = Some(Unit::Other("packets".to_owned()));
        let help = "Packets of real hosts, by what became of them";
        write(encoder, &Family { name: "emulation", help, unit }, members)?;
        let quantiles = |of: &'static str, lateness: &LatenessLook| {
            [("0.5", lateness.p50_us), ("0.99", lateness.p99_us), ("1", lateness.max_us)]
                .map(|(quantile, us)| ([("of", of), ("quantile", quantile)], ConstGauge::new(us / 1e6)))
        };
        let late = quantiles("events", &self.0.events)
            .into_iter()
            .chain(quantiles("deliveries", &self.0.deliveries));
        let lateness = Family {
            name: "emulation_lateness",
            help: "How late the emulation was, so far",
            unit: Some(Unit::Seconds),
        };
        write(encoder, &lateness, late)?;
        let since = [([] as [(&str, &str); 0], ConstGauge::new(self.0.at.as_secs_f64()))];
        let time = Family {
            name: "emulation_time",
            help: "Time since the emulation began",
            unit: Some(Unit::Seconds),
        };
        write(encoder, &time, since)
    }
}

impl Collector for Written {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.links(&mut encoder)?;
        self.flows(&mut encoder)?;
        self.host(&mut encoder)
    }
}

/// All metrics of `look`.
pub fn page(look: Look) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Written(look)));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}
