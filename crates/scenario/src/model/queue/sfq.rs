//! Stochastic Fairness Queueing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Limit, Span};

use super::{Manager, QueueClassify};
use crate::text::{self, Text};

/// How a flow finds its bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SfqHash {
    /// By a hash with a secret, which depends on the seed.
    Keyed,
    /// By its number modulo the number of bins: the first flows have bins of their own.
    Modulo,
}

/// # Stochastic Fairness Queueing
///
/// A hash puts each flow into one of a few bins, and the bins take turns of one packet. With `queue`, each bin is managed by
/// itself (SFQ with RED); else a bin may fill half of what is left of the common `limit`, as in ns.
///
/// Source: `McKenney` 1990; ns; Feng's thesis, section 4.4.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sfq {
    /// The number of bins. Source: ns (16); Feng's thesis has 46.
    pub buckets: u32,
    /// How a flow finds its bin.
    pub hash: SfqHash,
    /// How often the hash changes; packets of a flow may then overtake each other. Default: never. Source: Feng's thesis,
    /// section 4.5.4.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub perturb: Option<Span>,
    /// How many packets may wait in all bins together. Default: 40p, none if `queue` is given. Source: ns.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub limit: Option<Limit>,
    /// What is hashed.
    pub classify: QueueClassify,
    /// What manages each bin. Default: none.
    pub queue: Option<Manager>,
}

impl Default for Sfq {
    fn default() -> Self {
        Self {
            buckets: 16,
            hash: SfqHash::Keyed,
            perturb: None,
            limit: None,
            classify: QueueClassify::Flow,
            queue: None,
        }
    }
}
