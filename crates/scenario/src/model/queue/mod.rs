//! Queues: what waits for a link, what is refused, who goes next.

mod blue;
mod cbq;
mod csfq;
mod drop_tail;
mod drr;
mod eec_marker;
mod ered;
mod fred;
mod priority;
mod red;
mod sfb;
mod sfq;
mod tcp_friendly;
mod wfq;

pub use blue::{Blue, BlueTimers};
pub use cbq::{Cbq, CbqClass, CbqSharing};
pub use csfq::Csfq;
pub use drop_tail::DropTail;
pub use drr::Drr;
pub use eec_marker::EecMarker;
pub use ered::{Ered, EredCounted};
pub use fred::{Fred, FredVariant};
pub use priority::Priority;
pub use red::{AdaptiveRed, Red, RedFlavor, RedGap, RedMode, RedPenaltyBox, RedVictim};
pub use sfb::{Sfb, SfbBinsBegin, SfbHash, SfbLaw, SfbLimiting};
pub use sfq::{Sfq, SfqHash};
pub use tcp_friendly::TcpFriendly;
pub use wfq::{Wfq, WfqClock, WfqReservation, WfqWeights};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds;

kinds! {
    /// What waits for a direction of a link, and in which order it goes.
    Queue {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        AdaptiveRed(AdaptiveRed) = "adaptive-red",
        RedPenaltyBox(RedPenaltyBox) = "red-penalty-box",
        Blue(Blue) = "blue",
        Fred(Fred) = "fred",
        Csfq(Csfq) = "csfq",
        Sfb(Box<Sfb>) = "sfb",
        Drr(Drr) = "drr",
        Wfq(Wfq) = "wfq",
        Sfq(Sfq) = "sfq",
        Cbq(Cbq) = "cbq",
        Priority(Priority) = "priority",
        EecMarker(EecMarker) = "eec-marker",
        Ered(Ered) = "ered",
        TcpFriendly(TcpFriendly) = "tcp-friendly",
    }
}

kinds! {
    /// What manages one queue of a scheduler.
    Manager {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        AdaptiveRed(AdaptiveRed) = "adaptive-red",
        RedPenaltyBox(RedPenaltyBox) = "red-penalty-box",
        Blue(Blue) = "blue",
        Fred(Fred) = "fred",
        Csfq(Csfq) = "csfq",
        Sfb(Box<Sfb>) = "sfb",
        EecMarker(EecMarker) = "eec-marker",
        Ered(Ered) = "ered",
        TcpFriendly(TcpFriendly) = "tcp-friendly",
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
    /// The packets with the same differentiated services codepoint.
    Dscp,
}
