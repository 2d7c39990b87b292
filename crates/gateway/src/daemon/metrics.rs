//! A look at the daemon in the text format that Prometheus reads (`OpenMetrics` 1.0).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_packet::DropReason;
use tidegate_units::Span;

use super::look::Look;
use crate::core::status::{LinkStatus, SiteStatus};
use crate::core::store::Way;
use crate::tunnel::Refusal;

/// What [`page`] is, for whoever asks.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
struct Written(Look);

/// One family of metrics: its name without prefix and suffix, what it means, and its unit.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    unit: Option<Unit>,
}

/// Name, meaning, unit and value of what each link has, and each site.
type OfLink = (&'static str, &'static str, Option<Unit>, fn(&LinkStatus) -> Option<f64>);
type OfSite = (&'static str, &'static str, Option<Unit>, fn(&SiteStatus) -> u64);
type Labels = Vec<(&'static str, String)>;

fn write<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<'_>,
    members: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut members = members.into_iter().peekable();
    let Some((_, first)) = members.peek() else { return Ok(()) };
    let name = format!("tidegate_gateway_{}", family.name);
    let kind = first.metric_type();
    let mut encoder = encoder.encode_descriptor(&name, family.help, family.unit.as_ref(), kind)?;
    members.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(&labels)?))
}

fn of_site(site: &SiteStatus) -> Labels {
    vec![("site", site.name.clone())]
}

fn with(site: &SiteStatus, key: &'static str, value: &str) -> Labels {
    let mut labels = of_site(site);
    labels.push((key, value.to_owned()));
    labels
}

impl Written {
    fn links(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rate = || Some(Unit::Other("bits_per_second".to_owned()));
        let families: [OfLink; 6] = [
            ("rate", "Rate at which packets may leave", rate(), |link| Some(link.rate.as_bps() as f64)),
            ("output", "Rate at which they arrive at the other end", rate(), |link| {
                Some(link.output.as_bps() as f64)
            }),
            ("rtt", "Round trip between the gateways", Some(Unit::Seconds), |link| {
                link.rtt.map(Span::as_secs_f64)
            }),
            (
                "delay_excess",
                "How long the queue of the path is above its least",
                Some(Unit::Seconds),
                |link| link.excess.map(Span::as_secs_f64),
            ),
            ("queue", "Waiting here", Some(Unit::Bytes), |link| Some(link.backlog.bytes as f64)),
            ("pressed", "Whether congestion or competition is seen", None, |link| {
                Some(f64::from(u8::from(link.is_pressed)))
            }),
        ];
        for (name, help, unit, value) in families {
            let members = self.0.sites.iter().flat_map(|site| {
                site.links.iter().filter_map(move |link| {
                    Some((with(site, "link", &link.link.to_string()), ConstGauge::new(value(link)?)))
                })
            });
            write(encoder, &Family { name, help, unit }, members)?;
        }
        Ok(())
    }

    fn sites(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let packets = || Some(Unit::Other("packets".to_owned()));
        let messages = || Some(Unit::Other("messages".to_owned()));
        let bytes = || Some(Unit::Bytes);
        let counters: [OfSite; 12] = [
            ("entered", "Packets of hosts here for the site", packets(), |site| {
                site.counters.entered_packets
            }),
            ("sent", "Packets sent to the site", packets(), |site| site.counters.sent_packets),
            ("sent", "Bytes sent to the site, inside", bytes(), |site| site.counters.sent_bytes),
            ("received", "Packets received from the site", packets(), |site| site.counters.received_packets),
            ("received", "Bytes received from the site, inside", bytes(), |site| {
                site.counters.received_bytes
            }),
            ("relayed", "Packets passed on for the site", packets(), |site| site.counters.relayed_packets),
            ("too_large", "Packets too large for the path", packets(), |site| {
                site.counters.too_large_packets
            }),
            ("strange", "Packets that the site may not send", packets(), |site| {
                site.counters.strange_packets
            }),
            ("marked", "Packets marked by queues here", packets(), |site| site.marks),
            ("control", "Bytes of messages to the other gateway", bytes(), |site| site.counters.said_bytes),
            ("unheard", "Messages of the other gateway that were too many", messages(), |site| {
                site.counters.unheard_messages
            }),
            ("lives", "How often control began", None, |site| site.counters.lives),
        ];
        for (name, help, unit, value) in counters {
            let members = self.0.sites.iter().map(|site| (of_site(site), ConstCounter::new(value(site))));
            write(encoder, &Family { name, help, unit }, members)?;
        }
        let dropped = self.0.sites.iter().flat_map(|site| {
            let by = DropReason::ALL.iter().map(move |why| {
                (with(site, "reason", why.name()), ConstCounter::new(site.drops.by_reason[why.index()]))
            });
            let no_buffer = [("no buffer", Way::Out), ("no buffer, incoming", Way::In)].map(|(why, way)| {
                (with(site, "reason", why), ConstCounter::new(site.drops.no_buffer[way as usize]))
            });
            by.chain(no_buffer)
        });
        write(encoder, &Family { name: "dropped", help: "Packets dropped here", unit: packets() }, dropped)?;
        let refused = self.0.sites.iter().flat_map(|site| {
            Refusal::ALL.iter().map(move |why| {
                (with(site, "reason", why.name()), ConstCounter::new(site.counters.refused[*why as usize]))
            })
        });
        let help = "Datagrams with the name of the site that counted for nothing";
        let datagrams = || Some(Unit::Other("datagrams".to_owned()));
        write(encoder, &Family { name: "refused", help, unit: datagrams() }, refused)?;
        let up =
            self.0.sites.iter().map(|site| (with(site, "state", site.state.name()), ConstGauge::new(1.0)));
        write(encoder, &Family { name: "state", help: "What the site is taken for", unit: None }, up)?;
        let mtu = self.0.sites.iter().map(|site| (of_site(site), ConstGauge::new(f64::from(site.mtu))));
        write(
            encoder,
            &Family { name: "mtu", help: "Largest packet that is sent on the path", unit: bytes() },
            mtu,
        )?;
        let arrives =
            self.0.sites.iter().filter_map(|site| {
                Some((of_site(site), ConstGauge::new(f64::from(u8::from(site.takes_base?)))))
            });
        let least = "Whether packets of 1280 bytes arrive, the least that is sent; none before that is known";
        write(encoder, &Family { name: "mtu_arrives", help: least, unit: None }, arrives)
    }

    fn machine(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stray = Refusal::ALL
            .iter()
            .map(|why| ([("reason", why.name())], ConstCounter::new(self.0.stray.refused[*why as usize])));
        let datagrams = || Some(Unit::Other("datagrams".to_owned()));
        write(encoder, &Family { name: "stray", help: "Datagrams of strangers", unit: datagrams() }, stray)?;
        let none: [(&str, &str); 0] = [];
        let unsent = [(none, ConstCounter::new(self.0.wire.unsent))];
        let left = "Datagrams that the system did not send";
        write(encoder, &Family { name: "unsent", help: left, unit: datagrams() }, unsent)?;
        let unrouted = [(none, ConstCounter::new(self.0.stray.unrouted_packets))];
        let packets = || Some(Unit::Other("packets".to_owned()));
        let nobody = "Packets of hosts here for no site";
        write(encoder, &Family { name: "unrouted", help: nobody, unit: packets() }, unrouted)?;
        for (name, help, count) in [
            (
                "handed_over",
                "Packets and datagrams that one packet thread handed over to another",
                self.0.wire.handed_over,
            ),
            (
                "lost_between",
                "Packets and datagrams that found no room on the way to another packet thread",
                self.0.wire.lost_between,
            ),
        ] {
            write(encoder, &Family { name, help, unit: packets() }, [(none, ConstCounter::new(count))])?;
        }
        let spent = [(none, ConstCounter::new(self.0.wire.spent.as_secs_f64()))];
        let work = "Time that processors spent on packets";
        write(encoder, &Family { name: "packet_thread", help: work, unit: Some(Unit::Seconds) }, spent)?;
        let late = [(none, ConstGauge::new(self.0.wire.late.as_secs_f64()))];
        let help = "How late timers were in the last quarter of a second";
        write(encoder, &Family { name: "late", help, unit: Some(Unit::Seconds) }, late)
    }
}

impl Collector for Written {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.links(&mut encoder)?;
        self.sites(&mut encoder)?;
        self.machine(&mut encoder)
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
