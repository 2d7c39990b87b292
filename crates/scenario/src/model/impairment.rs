//! Impairments: what a link does to packets by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// Which packets the medium loses.
    Loss {
        Random(RandomLoss) = "random",
        List(ListLoss) = "list",
        Burst(BurstLoss) = "burst",
    }
}

/// # Random loss
///
/// Each packet is lost with the same probability, independently.
///
/// Source: ns (`ErrorModel`, unit packet).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomLoss {
    /// The probability, 0 to 1.
    pub probability: f64,
}

/// # Loss of named packets
///
/// Loses the packets with these ordinals, counted from 1 in the order in which they cross this direction; what its queue drops does not count.
///
/// Source: ns (`ErrorModel/List`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListLoss {
    /// The ordinals, ascending.
    pub packets: Vec<u64>,
}

/// # Loss in bursts
///
/// Two states, good and bad, between which the medium changes per packet, each with its own probability of loss.
///
/// Source: Gilbert 1960, Elliott 1963.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability per packet that good becomes bad.
    pub good_to_bad: f64,
    /// Probability per packet that bad becomes good; the mean length of a burst is its reciprocal.
    pub bad_to_good: f64,
    /// Probability of loss in the good state. Source: Gilbert 1960.
    #[serde(default)]
    pub loss_good: f64,
    /// Probability of loss in the bad state. Source: the simple Gilbert model.
    #[serde(default = "one")]
    pub loss_bad: f64,
}

fn one() -> f64 {
    1.0
}

/// # Reordering
///
/// Some packets take longer than others and are overtaken.
///
/// Source: netem (`reorder`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// The probability that a packet is held back, 0 to 1.
    pub probability: f64,
    /// How much longer such a packet takes.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub delay: Span,
}
