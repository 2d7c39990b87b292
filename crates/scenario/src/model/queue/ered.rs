//! Enhanced RED.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use super::{FredVariant, RedGap, RedMode};
use crate::text::{self, Text};

/// Which packets the average queue counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EredCounted {
    /// All that wait.
    All,
    /// Those that are not green.
    Unmarked,
}

/// # Enhanced RED
///
/// One queue for packets with and without a promise: early dropping takes unmarked packets only, a marked (green) one is
/// lost only where the queue is full.
///
/// Source: thesis of Feng, section 5.2.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ered {
    /// How much may wait. Source: thesis of Feng, section 5.3.1 (100 KB of 1 KB packets).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Average queue below which nothing is dropped early, in packets or bytes, which count as packets of `mean_packet`.
    /// Source: thesis of Feng, section 5.3.1 (20 KB).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub min: Limit,
    /// Average queue from which every unmarked packet is dropped. Source: thesis of Feng, section 5.3.1 (80 KB).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub max: Limit,
    /// Probability of an early drop as the average reaches `max`. Source: thesis of Feng, section 5.3.1.
    pub max_p: f64,
    /// Weight of the present queue in its average, above 0 and at most 1. Source: assumed, the RED paper's.
    pub weight: f64,
    /// What the queue is measured in. In bytes an acknowledgment takes the place that it has; with `fair` it is packets.
    /// Source: ns; the thesis of Feng has thresholds in KB of 1 KB packets.
    pub mode: RedMode,
    /// Size of a typical packet. Source: thesis of Feng, section 5.3.1 (1 KB).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub mean_packet: Bytes,
    /// Which packets the average counts, and with `fair` what a flow has waiting. Source: thesis of Feng, section 5.2.2 ("the average queue length").
    pub counted: EredCounted,
    /// Whether unmarked packets are also dropped while the present queue is at `max` or above. Source: thesis of Feng,
    /// section 5.2.2 (absolute thresholds; off in its experiments).
    pub absolute: bool,
    /// How much of `limit` unmarked packets may fill; the rest is reserved for marked ones. Default: all. Source: thesis of
    /// Feng, section 5.2.2 (a reserved portion; none in its experiments).
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub unmarked_limit: Option<Limit>,
    /// Whether unmarked packets are tested by FRED instead of RED: fair ERED. Source: thesis of Feng, section 6.5.2.
    pub fair: bool,
    /// With `fair`: unmarked packets that each flow may have waiting without being dropped at random. Source: FRED's.
    pub min_q: u32,
    /// With `fair`: what happens above `max`. Source: FRED's.
    pub variant: FredVariant,
    /// The spread of early drops. Source: thesis of Feng, Fig. 4.7.
    pub gap: RedGap,
    /// Whether packets of transports with ECN are marked as congested instead of dropped early. Source: thesis of Feng,
    /// section 5.2.2 (dropped).
    pub ecn: bool,
}

impl Ered {
    /// `min` and `max` in packets; none where they are given in time.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        let packets = |limit: Limit| match limit {
            Limit::Packets(packets) => Some(f64::from(packets)),
            Limit::Bytes(bytes) => Some(bytes.as_f64() / self.mean_packet.as_f64()),
            Limit::Time(_) => None,
        };
        Some((packets(self.min)?, packets(self.max)?))
    }
}

impl Default for Ered {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            min: Limit::Packets(20),
            max: Limit::Packets(80),
            max_p: 0.02,
            weight: 0.002,
            mode: RedMode::Packets,
            mean_packet: Bytes::new(1000),
            counted: EredCounted::All,
            absolute: false,
            unmarked_limit: None,
            fair: false,
            min_q: 2,
            variant: FredVariant::Basic,
            gap: RedGap::Paper,
            ecn: false,
        }
    }
}
