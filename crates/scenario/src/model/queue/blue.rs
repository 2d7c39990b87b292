//! BLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Limit, Span};

use crate::text::{self, Text};

/// Which changes of the probability a freeze time holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlueTimers {
    /// Any change after any other.
    Shared,
    /// Rises after rises, and falls after falls.
    Separate,
}

/// # BLUE
///
/// Keeps one probability of notification: it rises while packets are lost to overflow, and falls while the link is idle.
///
/// Source: thesis of Feng, section 4.3.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Blue {
    /// How much may wait. Source: thesis of Feng, section 4.3.2 (100 kB of 1 kB packets, the smallest).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// By how much the probability rises when packets are lost. Source: thesis of Feng, section 4.3.2 (`delta`).
    pub delta_up: f64,
    /// By how much it falls while the link is idle. Source: thesis of Feng, section 4.3.2 (`delta`); his code for ns has
    /// a tenth of `delta_up`.
    pub delta_down: f64,
    /// The least time between two changes: long enough for a change to take effect. An idle link changes once in each.
    /// Source: thesis of Feng, section 4.3.2.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub freeze_time: Span,
    /// How much the freeze time varies at random, to both sides, as a part of itself: from 0 to 1. Source: thesis of Feng,
    /// section 4.3.1 (fixed in its experiments; should be random against synchronization).
    pub freeze_spread: f64,
    /// What a freeze time holds back. Source: thesis of Feng, section 4.3.1; his code for ns has separate timers.
    pub timers: BlueTimers,
    /// A queue above this raises the probability as a loss does. Default: none. Source: thesis of Feng, section 4.3.1
    /// (only overflow); the variant is the published BLUE's.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub threshold: Option<Limit>,
    /// Whether packets of transports with ECN are marked instead of dropped. Source: thesis of Feng, section 4.3.2.
    pub ecn: bool,
    /// Whether marked (green) packets are lost only where the queue is full, as with `ered`. Source: thesis of Feng,
    /// section 5.9 (proposed; off in its experiments).
    pub priority: bool,
}

impl Default for Blue {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            delta_up: 0.01,
            delta_down: 0.01,
            freeze_time: Span::from_millis(10),
            freeze_spread: 0.0,
            timers: BlueTimers::Shared,
            threshold: None,
            ecn: true,
            priority: false,
        }
    }
}
