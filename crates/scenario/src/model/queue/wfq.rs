//! Weighted Fair Queueing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Limit, Span};

use super::{Manager, QueueClassify};
use crate::text::{self, Text};

/// Which clock stamps the packets of a fair queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WfqClock {
    /// The virtual time of the fluid system: exact.
    Gps,
    /// The stamp of the packet in service: cheaper, and independent of the rate of the link.
    SelfClocked,
}

/// Where the weights of a fair queue come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WfqWeights {
    /// From the flows' `weight`.
    Flows,
    /// From what is reserved for each queue and from how many connections are active in it.
    Active,
}

/// What is reserved for a queue of `wfq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WfqReservation {
    /// The number of the class, input port or codepoint.
    #[serde(rename = "match")]
    pub key: u32,
    /// The rate that its packets have together before the rest is shared.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate: BitRate,
}

/// # Weighted Fair Queueing
///
/// Sends packets in the order in which a fluid system would finish them, so each flow gets its weight's share of the
/// link. The weight is the flow's `weight`.
///
/// Source: Demers, Keshav and Shenker 1989; Golestani 1994.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wfq {
    /// How much may wait in all queues together; the longest queue makes room. Default: 100p, unless `per_flow_limit` is
    /// given. Source: NBP, Table 1.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub limit: Option<Limit>,
    /// How much may wait in each queue, where `queue` is not given. Default: no limit of its own.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Limit>>")]
    pub per_flow_limit: Option<Limit>,
    /// Which clock stamps the packets. Source: Parekh and Gallager 1993; NBP names only "WFQ".
    pub clock: WfqClock,
    /// What shares one queue. Source: NBP, section III.
    pub classify: QueueClassify,
    /// What manages each queue, besides the limits. Default: none.
    pub queue: Option<Manager>,
    /// Where weights come from. With `active` every active connection gets the same of what is not reserved, in whichever queue
    /// it waits. Source: NBP, section III; for `active` thesis of Feng, section 5.2.2.
    pub weights: WfqWeights,
    /// With `active`: what is reserved for queues. Source: thesis of Feng, section 5.2.2 (the reservations of controlled load).
    pub reserved: Vec<WfqReservation>,
    /// With `active`: how long a connection counts as active after a packet. Source: assumed, several round-trip times.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub active_window: Span,
}

impl Default for Wfq {
    fn default() -> Self {
        Self {
            limit: None,
            per_flow_limit: None,
            clock: WfqClock::Gps,
            classify: QueueClassify::Flow,
            queue: None,
            weights: WfqWeights::Flows,
            reserved: Vec::new(),
            active_window: Span::from_secs(1),
        }
    }
}
