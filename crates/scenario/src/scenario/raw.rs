//! The tables of a scenario as they are written: what serde reads and the schema describes.
//!
//! A key that a file must have is still optional here where defaults or an include may supply it; the reader says so when
//! it is missing in the end.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use tidegate_mechanism::fluid::FluidConfig;
use tidegate_units::{BitRate, Span, Time};

use crate::model::{
    Application, Circuit, Clock, Device, Duplex, Follows, Jitter, Labels, Lies, LinkState, Loss, Marker,
    Mechanism, Multipath, Queue, Reorder, TcpKeys, TransportText, Udp, Ways,
};

/// The nodes of the network. A range in braces gives several: `R{1..3}` is R1, R2, R3.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodesText {
    /// Nodes that send and receive, and never forward. Default: none.
    pub(crate) hosts: Vec<String>,
    /// Nodes that forward. Default: none.
    pub(crate) routers: Vec<String>,
    /// Those of the hosts that `tidegate emulate` makes real: each is a Linux network namespace whose packets go through the
    /// simulated network. Other commands take no notice. Default: none.
    pub(crate) real: Vec<String>,
}

/// What links and flows do not say themselves.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "read key by key; this is for the schema and the list of keys")]
pub(crate) struct DefaultsText {
    /// For every link.
    pub(crate) link: Option<LinkText>,
    /// For every flow.
    pub(crate) flow: Option<FlowText>,
    /// For the transport of every flow over TCP.
    pub(crate) tcp: Option<TcpKeys>,
    /// For the transport of every flow over UDP.
    pub(crate) udp: Option<Udp>,
}

/// A link between two nodes: two directions that share nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "read key by key; this is for the schema and the list of keys")]
pub(crate) struct LinkText {
    /// Makes one link per value: `i = 1..3`, or several variables, `i = 1..3, j = 1..2`. Both ends are included. The name
    /// of the link needs the variables in braces.
    pub(crate) repeat: Option<String>,
    /// The two nodes. `forward` is from the first to the second. Default: required.
    pub(crate) between: Option<Vec<String>>,
    /// How fast packets leave, in both directions: a rate, or `{ trace = "FILE" }`. Default: required, here or in `defaults.link`.
    pub(crate) rate: Option<RateText>,
    /// How long a bit travels, in both directions. Default: required, here or in `defaults.link`.
    pub(crate) delay: Option<Span>,
    /// What waits for the link, in each direction. Default: droptail with 100p.
    pub(crate) queue: Option<Queue>,
    /// The network card between the queue and the link, in each direction. Default: none, the link takes packets from the queue.
    pub(crate) device: Option<Device>,
    /// Which packets the medium loses. Default: none.
    pub(crate) loss: Option<Loss>,
    /// Which packets the medium delays. Default: none.
    pub(crate) reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, 0 to 1: the copy comes with the packet and takes no time on the link.
    /// Default: 0. Source: netem (`duplicate`), which makes its copy in front of the queue.
    pub(crate) duplicate: Option<f64>,
    /// How the time varies that packets travel, without that one overtakes another. Default: it does not.
    pub(crate) jitter: Option<Jitter>,
    /// The virtual circuit that each direction is. Default: none.
    pub(crate) circuit: Option<Circuit>,
    /// What routing adds up, at least 1. Default: 1.
    pub(crate) cost: Option<u32>,
    /// Whether its directions share nothing, or one medium on which one packet at a time is sent, in turns when both wait.
    /// Default: full. Source: thesis of Feng, Fig. 3.13 and Fig. 4.12, shared Ethernet segments.
    pub(crate) duplex: Option<Duplex>,
    /// What differs from the first node to the second.
    pub(crate) forward: Option<DirectionText>,
    /// What differs from the second node to the first.
    pub(crate) reverse: Option<DirectionText>,
}

/// The ends and the cost of a link.
#[derive(Debug, Deserialize)]
pub(crate) struct LinkHead {
    pub(crate) between: Vec<String>,
    #[serde(default = "one", deserialize_with = "super::within::cost")]
    pub(crate) cost: u32,
    #[serde(default)]
    pub(crate) duplex: Duplex,
}

fn one() -> u32 {
    1
}

/// One direction of a link.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DirectionText {
    /// How fast packets leave: a rate, or `{ trace = "FILE" }`. Default: the link's.
    pub(crate) rate: Option<RateText>,
    /// How long a bit travels. Default: the link's.
    pub(crate) delay: Option<Span>,
    /// What waits for it. Default: the link's.
    pub(crate) queue: Option<Queue>,
    /// The network card between them. Default: the link's.
    pub(crate) device: Option<Device>,
    /// Which packets the medium loses. Default: the link's.
    pub(crate) loss: Option<Loss>,
    /// Which packets the medium delays. Default: the link's.
    pub(crate) reorder: Option<Reorder>,
    /// The probability that a packet arrives twice. Default: the link's.
    #[serde(deserialize_with = "super::within::probability_or_none")]
    pub(crate) duplicate: Option<f64>,
    /// How the time varies that packets travel, in order. Default: the link's.
    pub(crate) jitter: Option<Jitter>,
    /// The virtual circuit that it is. Default: the link's.
    pub(crate) circuit: Option<Circuit>,
}

/// How fast packets leave: at a rate, or when a trace in Mahimahi's format says so.
#[derive(Clone, Debug)]
pub(crate) enum RateText {
    Constant(BitRate),
    Trace(String),
}

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Traced {
            trace: String,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RateText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate as text, like `\"1.5Mbit\"`, or { trace = \"FILE\" }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RateText, E> {
                text.parse().map(RateText::Constant).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RateText, A::Error> {
                let traced = Traced::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RateText::Trace(traced.trace))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for RateText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LinkRate".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rate = generator.subschema_for::<BitRate>();
        json_schema!({ "anyOf": [
            rate,
            {
                "type": "object",
                "properties": { "trace": {
                    "type": "string",
                    "description": "A file in Mahimahi's format, relative to the scenario: one instant in whole milliseconds per line, at which 1500 bytes may leave.",
                } },
                "required": ["trace"],
                "additionalProperties": false,
            },
        ]})
    }
}

/// Traffic from one host to another, or to several.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FlowText {
    /// Makes one flow per value: `i = 1..3`, or several variables, `i = 1..3, j = 1..2`. Both ends are included. The name
    /// of the flow needs the variables in braces.
    pub(crate) repeat: Option<String>,
    /// The sending host. Default: required.
    pub(crate) from: Option<String>,
    /// The receiving host, or a list of hosts: multicast. Default: required.
    pub(crate) to: Option<Receivers>,
    /// How it reacts to congestion. Default: required, but for a `fluid`.
    pub(crate) transport: Option<TransportText>,
    /// When it has something to send. Default: bulk for TCP.
    pub(crate) application: Option<Application>,
    /// When it starts: a time, or a random one, `{ uniform = ["0s", "1s"] }`. Default: 0s.
    pub(crate) start: Option<StartText>,
    /// When it stops. Default: with the run.
    pub(crate) stop: Option<Time>,
    /// The differentiated services codepoint of its packets, 0 to 63. Default: 0.
    #[serde(deserialize_with = "super::within::codepoint")]
    pub(crate) dscp: Option<u8>,
    /// Its weight in schedulers that know weights, from 0.000001 to 1000000. Default: 1.
    #[serde(deserialize_with = "super::within::weight")]
    pub(crate) weight: Option<f64>,
    /// Its class, for schedulers with a queue per class, 0 to 255. Default: 0.
    pub(crate) class: Option<u8>,
    /// The TCP flow of which this one is the other direction: both are one connection, and the acknowledgments of each ride on
    /// data of the other.
    pub(crate) back_of: Option<String>,
    /// Many TCP connections as one fluid, instead of a flow of packets: without `transport` and `application`. The defaults of flows
    /// do not concern it.
    pub(crate) fluid: Option<FluidConfig>,
}

/// One name, or several.
#[derive(Debug)]
pub(crate) struct Receivers(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Receivers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Receivers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a host, or a list of names")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Receivers, E> {
                Ok(Receivers(vec![name.to_owned()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut names: A) -> Result<Receivers, A::Error> {
                let mut list = Vec::new();
                while let Some(name) = names.next_element()? {
                    list.push(name);
                }
                Ok(Receivers(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Receivers {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Receivers".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ]})
    }
}

/// A time, or a random one between two.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartText {
    At(Time),
    Uniform(Time, Time),
}

impl<'de> Deserialize<'de> for StartText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Random {
            uniform: Vec<String>,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = StartText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time like \"1s\", or { uniform = [\"0s\", \"1s\"] }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StartText, E> {
                text.parse().map(StartText::At).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<StartText, A::Error> {
                let random = Random::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let [from, to] = random.uniform.as_slice() else {
                    return Err(de::Error::custom("`uniform` needs two times, the earliest and the latest"));
                };
                let time = |text: &str| text.parse::<Time>().map_err(de::Error::custom);
                Ok(StartText::Uniform(time(from)?, time(to)?))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for StartText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Start".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Time>();
        json_schema!({ "anyOf": [
            time,
            {
                "type": "object",
                "properties": { "uniform": { "type": "array", "items": time, "minItems": 2, "maxItems": 2 } },
                "required": ["uniform"],
                "additionalProperties": false,
            },
        ]})
    }
}

/// How packets find their way.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RoutingText {
    /// What happens where several ways are equally short.
    pub(crate) multipath: Multipath,
    /// Whose state costs of links follow, so that packets go around congestion. Default: nobody's.
    pub(crate) follows: Option<Follows>,
}

/// What breaks the ties of events that fall into one instant: each packet leaves its host a little later than it could.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TiesText {
    /// What the pauses derive from, beside the seed of the run: with another one, ties end otherwise and all else is the same.
    pub(crate) seed: u64,
    /// The longest pause; each is uniform between nothing and this, and packets stay in order. At most 1ms. Default: 1us.
    pub(crate) spread: Option<Span>,
}

/// A controlled network: its border routers and what they do.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DomainText {
    /// Makes one domain per value, as for links. The name of the domain needs the variables in braces.
    pub(crate) repeat: Option<String>,
    /// Its border routers.
    pub(crate) edges: Vec<String>,
    /// Its inner routers. Where they are given, no traffic may go in or out past the edges.
    pub(crate) core: Vec<String>,
    /// What its edges do. Default: none.
    pub(crate) mechanism: Mechanism,
    /// What its edges write on packets. Default: nothing.
    pub(crate) labels: Option<Labels>,
    /// The clocks of edges that are not right, by their names. Default: all are right.
    pub(crate) clocks: BTreeMap<String, Clock>,
    /// What the messages of edges say that is not true, by their names. Default: nothing.
    pub(crate) lies: BTreeMap<String, Lies>,
    /// Domains whose feedback it accepts. Default: none.
    pub(crate) trusts: Vec<String>,
    /// The probability with which each message between its edges gets lost on the way. Default: only queues lose messages.
    #[serde(deserialize_with = "super::within::probability")]
    pub(crate) control_loss: f64,
}

/// A marker: it writes codepoints on the packets of some flows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkerText {
    /// Makes one marker per value, as for links. The name of the marker needs the variables in braces.
    #[serde(default)]
    #[allow(dead_code, reason = "read before")]
    pub(crate) repeat: Option<String>,
    /// The flows whose data it marks, as names or patterns with `*` and `?`. Together they are its aggregate.
    #[serde(default)]
    pub(crate) flows: Vec<String>,
    /// The node that it stands at. Default: the host that each flow starts from.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// What it does.
    pub(crate) mechanism: Marker,
}

/// What a real host runs while the scenario is emulated. The simulator ignores it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandText {
    /// Makes one command per value, as for links. The name of the command needs the variables in braces.
    #[serde(default)]
    #[allow(dead_code, reason = "read before")]
    pub(crate) repeat: Option<String>,
    /// The host that it runs in, one of `nodes.real`. Where a version of the scenario has no such real host it is left out.
    pub(crate) host: String,
    /// A line for the shell. It starts with the emulation and is ended with it.
    pub(crate) run: String,
    /// Programs that it needs. Where one is missing, an experiment is skipped.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
}

/// A change of a link, a flow or an edge during the run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventText {
    /// Makes one event per value, as for links: `i = 1..100` with `at = "{20 * i}s"`.
    #[serde(default)]
    #[allow(dead_code, reason = "read before")]
    pub(crate) repeat: Option<String>,
    /// When.
    pub(crate) at: Time,
    /// Which link.
    #[serde(default)]
    pub(crate) link: Option<String>,
    /// Which of its directions.
    #[serde(default)]
    pub(crate) direction: Ways,
    /// The new rate.
    #[serde(default)]
    pub(crate) rate: Option<BitRate>,
    /// The new delay, also for what is on the way.
    #[serde(default)]
    pub(crate) delay: Option<Span>,
    /// What the switch of the circuit carries besides, from now on.
    #[serde(default)]
    pub(crate) background: Option<BitRate>,
    /// Whether the link works from now on.
    #[serde(default)]
    pub(crate) state: Option<LinkState>,
    /// Which flow, instead of a link: one of TCP with the control `reserved`.
    #[serde(default)]
    pub(crate) flow: Option<String>,
    /// Its new reserved rate.
    #[serde(default)]
    pub(crate) reservation: Option<BitRate>,
    /// Which edge, instead of a link: of a domain whose edges have a mechanism.
    #[serde(default)]
    pub(crate) edge: Option<String>,
    /// Of which domain. Default: the one that has the edge.
    #[serde(default)]
    pub(crate) domain: Option<String>,
    /// How much more its clock shows from now on.
    #[serde(default)]
    pub(crate) clock_ahead: Option<Span>,
    /// How much less its clock shows from now on.
    #[serde(default)]
    pub(crate) clock_back: Option<Span>,
    /// Whether its machine starts anew: what its mechanism knew is gone, and what waited at its shapers is lost.
    #[serde(default)]
    pub(crate) restart: bool,
}

/// What is recorded beyond counters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecordText {
    /// The interval of the time series. Default: 100ms.
    pub(crate) every: Option<Span>,
    /// The time series, as patterns with `*` and `?`: `flows.NAME.QUANTITY`, `links.NAME.QUANTITY`,
    /// `links.NAME.reverse.QUANTITY`, `domains.DOMAIN.FLOW.QUANTITY`, `markers.NAME.QUANTITY`. Default: none.
    pub(crate) series: Vec<String>,
    /// Where the distribution of delays is wanted: `flows.NAME`, `links.NAME`, `links.NAME.reverse`. Default: nowhere.
    pub(crate) delays: Vec<String>,
    /// Whether to count what links carry of packets that are dropped later.
    pub(crate) waste: bool,
    /// Whether to compute the max-min fair rates of all flows.
    pub(crate) max_min: bool,
    /// Whether to tell how much state routers keep.
    pub(crate) state: bool,
}

/// A named value for use in braces: a number, a string, or a table that also says where the value comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by hand; this is for the schema")]
pub(crate) enum ParameterText {
    /// A whole number or a real one.
    Number(f64),
    /// Any text.
    Text(String),
    /// The value with its provenance, for reports.
    Documented(DocumentedParameter),
}

/// A value with its provenance.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by hand; this is for the schema and the list of keys")]
pub(crate) struct DocumentedParameter {
    /// The value: a number or a string.
    #[schemars(extend("type" = ["number", "string"]))]
    pub(crate) value: serde_json::Value,
    /// What it is called in reports.
    pub(crate) label: Option<String>,
    /// Its unit in reports, where the value itself has none.
    pub(crate) unit: Option<String>,
    /// Where it comes from: stated in the document, derived from it, found elsewhere, or assumed.
    pub(crate) provenance: Option<Provenance>,
    /// The reason for the value, or the place that states it.
    pub(crate) why: Option<String>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Stated in the document.
    Text,
    /// Computed from what the document states.
    Derived,
    /// Found elsewhere.
    Literature,
    /// A guess, with its reason.
    Assumed,
}
