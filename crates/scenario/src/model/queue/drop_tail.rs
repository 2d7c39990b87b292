//! Drop tail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Limit;

use crate::text::{self, Text};

/// # Drop tail
///
/// One first-in-first-out queue. What arrives when it is full is dropped.
///
/// Source: the routers of all five documents unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DropTail {
    /// How much may wait, the packet in transmission not counted. Source: NBP, Table 1 (100 packets).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
}

impl Default for DropTail {
    fn default() -> Self {
        Self { limit: Limit::Packets(100) }
    }
}
