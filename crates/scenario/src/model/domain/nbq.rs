//! Neighbor-state Based Queuing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use crate::text::{self, Text};

/// When a discard ratio decays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NbqDecay {
    /// While the downstream neighbour reports nothing.
    Silence,
    /// While it reports a loss of at most `discard_min`, or nothing.
    Literal,
}

/// Which packets are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NbqDiscard {
    /// Evenly spaced ones.
    Even,
    /// Each with the ratio as its probability.
    Random,
}

/// # Neighbor-state Based Queuing
///
/// A router whose output overflows tells its upstream neighbours the rates of flows that do not adapt, and these discard
/// on arrival what would be dropped later. TCP is never touched. All routers of the domain, edges and core, take part.
///
/// Source: Tamura, Tobe and Tokuda 2000, sections 4 and 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nbq {
    /// The largest discard ratio. Source: NBQ, Fig. 12 (`MAX_DISCARD`).
    pub discard_max: f64,
    /// A loss that counts as none. Source: NBQ, Fig. 12 (`MIN_DISCARD`).
    pub discard_min: f64,
    /// The factor of the ratio per interval while it decays. Source: NBQ, Fig. 12 (`DECR_DISCARD`).
    pub decrease: f64,
    /// The time between two estimates, and between two messages. Source: NBQ, Fig. 12 (`EST_INTERVAL`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub interval: Span,
    /// The weight of the previous ratio. Source: NBQ, Fig. 12 (`WEIGHT`).
    pub weight: f64,
    /// How long a silent flow, or neighbour, is remembered. Source: NBQ, Fig. 12 (`ALLOW_IDLE`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle: Span,
    /// When the ratio decays. Source: settled; with the literal rule of NBQ, Fig. 13, the rates of its section 6.2 are not
    /// reached.
    pub decay: NbqDecay,
    /// Which packets are discarded. Source: settled; NBQ, Fig. 13 says "with ratio".
    pub discard: NbqDiscard,
    /// Whether the discard ratio is offered to neighbouring hosts, for sources that adapt. Source: NBQ, section 8.1.
    pub advice: bool,
    /// The most flows that a router controls; further ones pass. Source: assumed; it bounds the memory.
    pub flows_max: u32,
}

impl Default for Nbq {
    fn default() -> Self {
        Self {
            discard_max: 0.9,
            discard_min: 0.1,
            decrease: 0.6,
            interval: Span::from_millis(100),
            weight: 0.8,
            idle: Span::from_secs(2),
            decay: NbqDecay::Silence,
            discard: NbqDiscard::Even,
            advice: false,
            flows_max: 65_536,
        }
    }
}
