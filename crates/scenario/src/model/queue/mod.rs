//! Queues: what waits for a link, what is refused, who goes next.

mod csfq;
mod drop_tail;
mod drr;
mod eec_marker;
mod red;
mod wfq;

pub use csfq::Csfq;
pub use drop_tail::DropTail;
pub use drr::Drr;
pub use eec_marker::EecMarker;
pub use red::{Red, RedFlavor, RedGap, RedMode, RedVictim};
pub use wfq::{Wfq, WfqClock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds;

kinds! {
    /// What waits for a direction of a link, and in which order it goes.
    Queue {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        Csfq(Csfq) = "csfq",
        Drr(Drr) = "drr",
        Wfq(Wfq) = "wfq",
        EecMarker(EecMarker) = "eec-marker",
    }
}

kinds! {
    /// What manages one queue of a scheduler.
    Manager {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        Csfq(Csfq) = "csfq",
        EecMarker(EecMarker) = "eec-marker",
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::Droptail(DropTail::default())
    }
}

impl Default for Manager {
    fn default() -> Self {
        Self::Droptail(DropTail::default())
    }
}

/// What shares one queue of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueClassify {
    /// The packets of one flow.
    Flow,
    /// The packets of all flows with the same `class`.
    Class,
    /// The packets that entered the router by the same port.
    InputPort,
}
