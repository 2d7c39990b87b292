//! Strict priority.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Limit;

use super::{Manager, QueueClassify};
use crate::text::{self, Text};

/// # Strict priority
///
/// The packets of the class with the lowest number go before all others.
///
/// Source: RFC 2598, section 2.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Priority {
    /// How much may wait in each queue, where `queue` is not given.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Whose number is the priority, the lowest first; `dscp`: the first three bits of the codepoint, the highest first (RFC
    /// 2474, section 4.2.2.2): expedited forwarding, then classes 4 to 1 of assured forwarding, best effort last.
    pub classify: QueueClassify,
    /// What manages each queue. Default: droptail with `limit`.
    pub queue: Option<Manager>,
}

impl Default for Priority {
    fn default() -> Self {
        Self { limit: Limit::Packets(100), classify: QueueClassify::Class, queue: None }
    }
}
