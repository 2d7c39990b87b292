//! Virtual circuits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::BitRate;

use crate::text::{self, Text};

/// Which cells the switch of a circuit discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellDiscard {
    /// Early Packet Discard: all of a packet whose first cell finds the buffer filled to `threshold`.
    #[default]
    Early,
    /// Those that find the buffer full.
    Tail,
    /// As `early`, but only of flows that hold more than an equal part of these cells, were the flows served in turn.
    VirtualQueueing,
}

/// # Virtual circuit
///
/// The link is a circuit through ATM switches. A packet takes whole cells of 53 bytes, which wait in a switch that carries
/// constant-bit-rate background as well; one that loses a cell is lost. Between routers with `backpressure` the circuit is ABR:
/// its rate follows what the switch can carry. Elsewhere it is UBR.
///
/// Source: Pazos and Gerla, section 5; Romanow and Floyd 1995 (Early Packet Discard); Siu, Wu and Ren 1997 (Virtual Queueing).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Circuit {
    /// What the switch carries besides: less than the rate of the link.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub background: BitRate,
    /// The rate that is promised to the circuit (MCR). Source: Pazos and Gerla, section 5, 20 and 40 Mbit/s.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub minimum: BitRate,
    /// How many cells the switch holds. Source: assumed.
    pub buffer: u32,
    /// Which cells it discards. Source: Pazos and Gerla, section 4.
    pub discard: CellDiscard,
    /// The part of the buffer above which new packets are discarded early. Source: assumed.
    pub threshold: f64,
}

impl Default for Circuit {
    fn default() -> Self {
        Self {
            background: BitRate::ZERO,
            minimum: BitRate::ZERO,
            buffer: 1000,
            discard: CellDiscard::default(),
            threshold: 0.8,
        }
    }
}
