//! Core-Stateless Fair Queueing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Limit, Span};

use crate::text::{self, Text};

/// # Core-Stateless Fair Queueing
///
/// Drops packets with a probability that follows from the rate that the edge wrote on them and from an estimate of the
/// fair share of the link. It needs edges that label: `labels` in a domain.
///
/// Source: Stoica, Shenker and Zhang 1998.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Csfq {
    /// How much may wait. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Packets waiting below which the link is not restricted. Source: assumed, a quarter of the limit as in the authors'
    /// simulations (16 of 64).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub threshold: Limit,
    /// Time constant of the averages of the arriving and of the accepted rate. Source: the authors' simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub averaging: Span,
    /// How long the link must stay congested, or uncongested, before the fair share follows. Source: the authors'
    /// simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub window: Span,
}

impl Default for Csfq {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            threshold: Limit::Packets(25),
            averaging: Span::from_millis(100),
            window: Span::from_millis(100),
        }
    }
}
