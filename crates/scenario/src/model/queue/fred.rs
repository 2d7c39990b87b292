//! Flow Random Early Detection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use crate::text::{self, Text};

/// What FRED does when the average queue is above `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FredVariant {
    /// Drops everything.
    Basic,
    /// Leaves two packets to each flow.
    ManyFlows,
}

/// # Flow Random Early Detection
///
/// RED that counts what each flow has waiting: a flow that takes more than its share is held to it, one with little waiting
/// is not notified at random. It keeps state only for flows with packets in the queue.
///
/// Source: Lin and Morris 1997.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fred {
    /// How much may wait. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Average queue at which random notification begins, and the most that one flow may have waiting; in packets or
    /// bytes, which count as packets of `mean_packet`. Default: a quarter of `limit`. Source: Lin and Morris 1997, section
    /// 4.5 (or a round-trip time's worth, if that is less).
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub min: Option<Limit>,
    /// Average queue above which `variant` says what happens. Default: twice `min`. Source: Lin and Morris 1997, section
    /// 4.5.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub max: Option<Limit>,
    /// Probability of a notification as the average reaches `max`. Source: Lin and Morris 1997, section 4.5.
    pub max_p: f64,
    /// Weight of the present queue in its average, above 0 and at most 1. Source: Lin and Morris 1997, section 4.5.
    pub weight: f64,
    /// Packets that each flow may have waiting without being notified at random. Source: Lin and Morris 1997, section 4.5
    /// (2 for small queues, 4 for large ones).
    pub min_q: u32,
    /// What happens above `max`. Source: the reading of the catalogue, section 8; IEC and NBQ have it so.
    pub variant: FredVariant,
    /// Size of a typical packet. Source: as RED's.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub mean_packet: Bytes,
    /// Whether packets of transports with ECN are marked instead of dropped at random. Source: Lin and Morris 1997 (off).
    pub ecn: bool,
}

impl Fred {
    /// `min` and `max` in packets; none where they follow from a limit in time, or are given in time.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        let packets = |limit: Limit| match limit {
            Limit::Packets(packets) => Some(f64::from(packets)),
            Limit::Bytes(bytes) => Some(bytes.as_f64() / self.mean_packet.as_f64()),
            Limit::Time(_) => None,
        };
        let min = match self.min {
            Some(min) => packets(min)?,
            None => packets(self.limit)? / 4.0,
        };
        let max = self.max.map_or(Some(2.0 * min), packets)?;
        Some((min, max))
    }
}

impl Default for Fred {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            min: None,
            max: None,
            max_p: 0.02,
            weight: 0.002,
            min_q: 2,
            variant: FredVariant::Basic,
            mean_packet: Bytes::new(1000),
            ecn: false,
        }
    }
}
