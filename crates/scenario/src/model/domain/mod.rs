//! Domains: which routers form a controlled network, and what its edges do.

mod backpressure;
mod iec;
mod nbp;
mod nbq;

pub use backpressure::{
    BackPressure, BackPressureCapacity, BackPressureExcess, BackPressureFeedback, BackPressureLastHop,
};
pub use iec::{Eec, Iec, IecDelays, TcpRate, VirtualLink};
pub use nbp::Nbp;
pub use nbq::{Nbq, NbqDecay, NbqDiscard};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Span};

use crate::model::queue::Queue;
use crate::text::{self, Text};

/// What the edges of a domain do, or all its routers.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind")]
pub enum Mechanism {
    /// Nothing.
    #[default]
    None,
    /// Network Border Patrol.
    Nbp(Box<Nbp>),
    /// Implicit edge control.
    Iec(Box<Iec>),
    /// Explicit edge control.
    Eec(Box<Eec>),
    /// Neighbor-state Based Queuing.
    Nbq(Box<Nbq>),
    /// Rate-based back-pressure.
    #[serde(rename = "backpressure")]
    BackPressure(Box<BackPressure>),
}

impl Mechanism {
    /// What is said of single virtual links.
    pub fn virtual_links(&self) -> &[VirtualLink] {
        match self {
            Self::None | Self::Nbp(_) | Self::Nbq(_) | Self::BackPressure(_) => &[],
            Self::Iec(config) => &config.virtual_links,
            Self::Eec(config) => &config.virtual_links,
        }
    }

    /// It without what it says of single edges.
    pub(crate) fn without_places(&self) -> Self {
        let mut general = self.clone();
        match &mut general {
            Self::None | Self::Nbq(_) | Self::BackPressure(_) => {}
            Self::Nbp(config) => config.unpoliced.clear(),
            Self::Iec(config) => {
                config.unpoliced.clear();
                config.virtual_links.clear();
            }
            Self::Eec(config) => {
                config.unpoliced.clear();
                config.virtual_links.clear();
            }
        }
        general
    }

    /// Edges at which what enters is not shaped.
    pub fn unpoliced(&self) -> &[String] {
        match self {
            Self::None | Self::Nbq(_) | Self::BackPressure(_) => &[],
            Self::Nbp(config) => &config.unpoliced,
            Self::Iec(config) => &config.unpoliced,
            Self::Eec(config) => &config.unpoliced,
        }
    }
}

/// What one shaper at an edge controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Classify {
    /// Each flow by itself.
    Flow,
    /// All flows between the same two addresses.
    AddressPair,
    /// All flows to one destination network of `prefix` bits.
    DestinationNetwork,
}

/// The shaper of a flow at its ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shaper {
    /// How much may leave at once after silence. Default: one packet. Source: assumed, a leaky bucket.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub bucket: Option<Bytes>,
    /// What waits in front of the shaper. Source: assumed, as the router queues of NBP, Table 1 (100 packets).
    pub queue: Queue,
}

/// The clock of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// How far it is ahead at the start.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub offset: Span,
    /// How much faster it goes, parts per million; slower if negative.
    pub drift_ppm: f64,
}

super::kinds! {
    /// What the edges of a domain write on packets.
    Labels {
        Csfq(CsfqLabels) = "csfq",
    }
}

/// # Labels for Core-Stateless Fair Queueing
///
/// The edge where a flow enters measures its rate and writes it on each packet.
///
/// Source: Stoica, Shenker and Zhang 1998, equation 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CsfqLabels {
    /// The time constant K of the average of a flow's rate. Source: the authors' simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub averaging: Span,
    /// The most flows that an edge knows at once. Source: assumed; it bounds the memory.
    pub flows_max: u32,
    /// The edge lies: it writes so many times the rate that it measures. Source: 1 is the truth; thesis of Feng, section
    /// 4.5.5 (a misconfigured or poorly implemented edge).
    pub lie: f64,
    /// The flows of which it lies; patterns with `*` and `?`. Default: all.
    pub liars: Option<Vec<String>>,
}

impl Default for CsfqLabels {
    fn default() -> Self {
        Self { averaging: Span::from_millis(100), flows_max: 4096, lie: 1.0, liars: None }
    }
}
