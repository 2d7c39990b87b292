//! Rate-based back-pressure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Span};

use crate::text::{self, Text};

/// What routers tell their neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureFeedback {
    /// What they accept from them.
    #[default]
    Aggregate,
    /// The same, and what each output accepts.
    Selective,
    /// Only what the circuits carry: plain ABR.
    Circuit,
}

/// What an output can send in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureCapacity {
    /// What its explicit rate allows.
    #[default]
    ExplicitRate,
    /// What it sent in the last one.
    Measured,
}

/// What an input has to exceed for twice the excess to be taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureExcess {
    /// The share that its sender was told, or its next one if that is more.
    #[default]
    OverTold,
    /// Its share of the next period.
    OverNew,
}

/// What edges do about TCP senders on the links to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureLastHop {
    /// Nothing: the queue of the circuit takes what comes.
    #[default]
    None,
    /// Acknowledgments wait until the circuit can take what they let out.
    Bucket,
    /// Acknowledgments carry the congestion echo while the queue of the circuit is long.
    Ecn,
}

/// # Rate-based back-pressure
///
/// Each router tells each neighbour, in answers to its resource management cells, what it accepts from it: its shares of what
/// the outputs may send. Neighbours send no faster, so what cannot be carried waits at the edges. All routers of the domain,
/// edges and core, take part, on circuits and on other links.
///
/// Source: Pazos and Gerla 1999, section 4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackPressure {
    /// The sampling period, after which shares are computed. Source: assumed; the document has none.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub period: Span,
    /// One cell in so many is a resource management cell (`Nrm`); on other links one message per so many times 53 bytes.
    /// Source: ATM Forum, Traffic Management 4.0.
    pub nrm: u32,
    /// After so long without one (`Trm`), the next packet brings one with it. Source: ATM Forum, Traffic Management 4.0.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub rm_gap: Span,
    /// The part of the minimum rate of a circuit that is reserved, in equal parts for its inputs. Source: Pazos and Gerla,
    /// section 5.
    pub reserved: f64,
    /// How far below its fair share an input still counts as constrained by the output. Source: assumed, what RM cells and
    /// a packet in a period of 30 take.
    pub tolerance: f64,
    /// How long after its last packet an input has a share. Source: assumed, a few round trips.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub hold: Span,
    /// After how long without an answer a neighbour is forgotten. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle: Span,
    /// The least rate of a link. Source: assumed; below the minimum rates of circuits it has no effect.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate_min: BitRate,
    /// What neighbours are told. Source: Pazos and Gerla, section 4.2; `circuit` is section 5.2, "no back-pressure";
    /// `selective` is ours, for what its section 4.3 leaves open.
    pub feedback: BackPressureFeedback,
    /// Pairs of input and destination that `selective` tells apart at once. Source: assumed; it bounds the memory.
    pub routes_max: u32,
    /// What an output can send in a period (`Tf_out`). Source: settled; what was sent is the demand if nothing waits.
    pub capacity: BackPressureCapacity,
    /// What an input has to exceed for twice the excess to be taken back. Source: Pazos and Gerla, section 4.2, step 1(d), which
    /// does not say which share; settled, since only with `over-told` the oscillation of section 5.1 ends with its cause.
    pub excess: BackPressureExcess,
    /// What edges do about TCP senders on the links to hosts. Source: Pazos and Gerla, section 4.4, after Narvaez and Siu 1997
    /// (`bucket`) and Floyd 1994 (`ecn`).
    pub last_hop: BackPressureLastHop,
    /// At so many packets of TCP in the queue of a circuit its bucket is closed, and echoes are set. Source: assumed, half of the
    /// queue in section 5.
    pub last_hop_queue: u32,
    /// The most acknowledgments that wait for one circuit. Source: assumed; it bounds the memory.
    pub last_hop_acks_max: u32,
    /// The most TCPs that a router knows for this. Source: assumed; it bounds the memory.
    pub last_hop_flows_max: u32,
}

impl Default for BackPressure {
    fn default() -> Self {
        Self {
            period: Span::from_millis(10),
            nrm: 32,
            rm_gap: Span::from_millis(100),
            reserved: 0.7,
            tolerance: 0.1,
            hold: Span::from_millis(100),
            idle: Span::from_secs(1),
            rate_min: BitRate::from_bps(64_000),
            feedback: BackPressureFeedback::default(),
            routes_max: 4096,
            capacity: BackPressureCapacity::default(),
            excess: BackPressureExcess::default(),
            last_hop: BackPressureLastHop::default(),
            last_hop_queue: 50,
            last_hop_acks_max: 4096,
            last_hop_flows_max: 65_536,
        }
    }
}
