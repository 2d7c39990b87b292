//! The marking bottleneck of EEC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Limit;

use crate::text::{self, Text};

/// # Marking bottleneck of explicit edge control
///
/// A drop-tail queue that marks every packet of a virtual link that departs while more than the threshold waits.
///
/// Source: Harrison and Kalyanaraman 2000, section III.A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EecMarker {
    /// N sigma: one burst for each virtual link. Source: assumed, for ten virtual links.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub threshold: Limit,
    /// How much may wait, the packet in transmission not counted. Source: NBP, Table 1 (100 packets).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
}

impl Default for EecMarker {
    fn default() -> Self {
        Self { threshold: Limit::Packets(10), limit: Limit::Packets(100) }
    }
}
