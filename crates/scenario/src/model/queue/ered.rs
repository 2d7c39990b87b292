//! Enhanced RED.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use super::red::early_dropping;
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

early_dropping! {
    /// # Enhanced RED
    ///
    /// One queue for packets with and without a promise: early dropping takes unmarked packets only, a marked (green) one is
    /// lost only where the queue is full.
    ///
    /// Source: thesis of Feng, section 5.2.2.
    Ered {
        limit: Limit::Packets(100), " Source: thesis of Feng, section 5.3.1 (100 KB of 1 KB packets).";
        min: Limit::Packets(20), " Below it no packet is dropped early. Source: thesis of Feng, section 5.3.1 (20 KB).";
        max: Limit::Packets(80), " Of unmarked packets. Source: thesis of Feng, section 5.3.1 (80 KB).";
        max_p: 0.02, " Source: thesis of Feng, section 5.3.1.";
        weight: 0.002, " Source: assumed, the RED paper's.";
        mode: RedMode::Packets, " In bytes an acknowledgment takes the place that it has; with `fair` it is packets. Source: ns; the thesis of Feng has thresholds in KB of 1 KB packets.";
        mean_packet: Bytes::new(1000), " Source: thesis of Feng, section 5.3.1 (1 KB).";
        gap: RedGap::Paper, " Source: thesis of Feng, Fig. 4.7.";
        ecn: false, " Source: thesis of Feng, section 5.2.2 (dropped).";
        /// Which packets the average counts, and with `fair` what a flow has waiting. Source: thesis of Feng, section 5.2.2 ("the
        /// average queue length").
        counted: EredCounted = EredCounted::All,
        /// Whether unmarked packets are also dropped while the present queue is at `max` or above. Source: thesis of Feng,
        /// section 5.2.2 (absolute thresholds; off in its experiments).
        absolute: bool = false,
        /// How much of `limit` unmarked packets may fill; the rest is reserved for marked ones. Default: all. Source: thesis of
        /// Feng, section 5.2.2 (a reserved portion; none in its experiments).
        #[serde(with = "text::optional")]
        #[schemars(with = "Option<Text<Limit>>")]
        unmarked_limit: Option<Limit> = None,
        /// Whether unmarked packets are tested by FRED instead of RED: fair ERED. Source: thesis of Feng, section 6.5.2.
        fair: bool = false,
        /// With `fair`: unmarked packets that each flow may have waiting without being dropped at random. Source: FRED's.
        min_q: u32 = 2,
        /// With `fair`: what happens above `max`. Source: FRED's.
        variant: FredVariant = FredVariant::Basic,
    }
}
