//! TCP-friendly dropping.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use super::Fred;
use crate::text::{self, Text};

/// # TCP-friendly dropping
///
/// RED says how much is dropped; dropped are flows that have sent `spacing` packets since their last loss, or their start.
/// So no TCP loses from a small window, twice from one window, or what it sends again, as long as there is another.
///
/// Source: Harrison and Kalyanaraman 2000, section I, after Lo Monaco, Feroz and Kalyanaraman 2000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpFriendly {
    /// How much may wait. What overflows is dropped whosever it is. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Average queue at which random drops begin. Default: a quarter of `limit`. Source: assumed, as FRED's.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub min: Option<Limit>,
    /// Average queue from which every packet that is not spared is dropped. Default: twice `min`. Source: assumed, as FRED's.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub max: Option<Limit>,
    /// Probability of a drop as the average reaches `max`. Source: as RED's.
    pub max_p: f64,
    /// Weight of the present queue in its average, above 0 and at most 1. Source: as RED's.
    pub weight: f64,
    /// For so many packets after a loss, and at its start, a flow is spared. Source: derived; between losses a window of W
    /// takes 3/8 W^2 packets, and half of a window of 8 still shows the next loss by three duplicates.
    pub spacing: u32,
    /// Size of a typical packet. Source: as RED's.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub mean_packet: Bytes,
    /// The most flows that are known at once. Source: assumed; it bounds the memory.
    pub flows_max: u32,
    /// Whether packets of transports with ECN are marked instead of dropped early. Source: assumed (off).
    pub ecn: bool,
}

impl TcpFriendly {
    /// `min` and `max` in packets, as FRED's.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        let Self { limit, min, max, mean_packet, .. } = *self;
        Fred { limit, min, max, mean_packet, ..Fred::default() }.thresholds()
    }
}

impl Default for TcpFriendly {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            min: None,
            max: None,
            max_p: 0.02,
            weight: 0.002,
            spacing: 24,
            mean_packet: Bytes::new(1000),
            flows_max: 4096,
            ecn: false,
        }
    }
}
