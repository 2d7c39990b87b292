//! Deficit Round Robin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use super::{Manager, QueueClassify};
use crate::text::{self, Text};

/// # Deficit Round Robin
///
/// The queues take turns; in its turn each may send `quantum` more bytes, times its weight. When the total overflows, the
/// longest queue loses its head.
///
/// Source: Shreedhar and Varghese 1995; ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drr {
    /// Bytes per turn. Source: NBQ, section 2 (1000 bytes).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub quantum: Bytes,
    /// How much may wait in all queues together. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// What shares one queue. Source: NBQ, section 2 (per flow).
    pub classify: QueueClassify,
    /// What manages each queue, besides the limit of all together. Default: none.
    pub queue: Option<Manager>,
}

impl Default for Drr {
    fn default() -> Self {
        Self {
            quantum: Bytes::new(1000),
            limit: Limit::Packets(100),
            classify: QueueClassify::Flow,
            queue: None,
        }
    }
}
