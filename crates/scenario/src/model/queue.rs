//! Queues: what waits for a link, what is refused, who goes next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit, Span};

use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// What waits for a direction of a link, and in which order it goes.
    Queue {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        Csfq(Csfq) = "csfq",
        Drr(Drr) = "drr",
        Wfq(Wfq) = "wfq",
    }
}

kinds! {
    /// What manages one queue of a scheduler.
    Manager {
        Droptail(DropTail) = "droptail",
        Red(Red) = "red",
        Csfq(Csfq) = "csfq",
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

/// # Drop tail
///
/// One first-in-first-out queue. What arrives when it is full is dropped.
///
/// Source: the routers of all five documents unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DropTail {
    /// How much may wait, the packet in transmission not counted. Source: NBP, Table 1 (100 packets).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
}

impl Default for DropTail {
    fn default() -> Self {
        Self { limit: Limit::Packets(100) }
    }
}

/// What RED counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedMode {
    /// The average queue in packets; all packets are equal.
    Packets,
    /// The average queue in bytes; a packet's probability is in proportion to its size.
    Bytes,
}

/// How the gaps between two random notifications are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedGap {
    /// Uniform on 1 to 1/p packets, as the RED paper has it.
    Paper,
    /// Uniform on 1/p to 2/p packets, as ns has it with `wait` set: a third as many notifications.
    Ns,
}

/// Whose small differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedFlavor {
    /// Of Floyd and Jacobson's paper.
    Paper,
    /// Of ns: no notification with fewer than two packets waiting, none for the first packet above `min`.
    Ns,
}

/// Who leaves when the queue overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedVictim {
    /// The arriving packet.
    Tail,
    /// A waiting packet, each with the same probability.
    Random,
}

/// # Random Early Detection
///
/// Keeps an average of the queue and notifies arriving packets at random, the more the higher the average.
///
/// Source: Floyd and Jacobson 1993; ns of 1997 to 1999.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Red {
    /// How much may wait. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Average queue at which random notification begins, in packets or bytes as `mode` says. Source: Floyd and Jacobson
    /// 1993, section VII; ns (`thresh_`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub min: Limit,
    /// Average queue from which on every packet is notified; at least twice `min` is advised. Source: Floyd and Jacobson
    /// 1993, section VI; ns (`maxthresh_`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub max: Limit,
    /// Probability of a notification as the average reaches `max`. Source: Floyd and Jacobson 1993, section VII; ns has
    /// 0.1 (`linterm_`).
    pub max_p: f64,
    /// Weight of the present queue in its average, above 0 and at most 1. Source: Floyd and Jacobson 1993, section VII.
    pub weight: f64,
    /// What the average counts. Source: ns until October 2004.
    pub mode: RedMode,
    /// Size of a typical packet, by which idle time is counted in packets. Source: Floyd and Jacobson 1993; ns has 500B.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub mean_packet: Bytes,
    /// The distribution of the gaps between notifications. Source: Floyd and Jacobson 1993.
    pub gap: RedGap,
    /// Whose small differences: how idle time counts, and what happens as the average crosses `min`. Source: Floyd and
    /// Jacobson 1993, Fig. 2.
    pub flavor: RedFlavor,
    /// Whether the probability rises from `max_p` to one between `max` and twice `max` instead of jumping. Source: ns
    /// before June 1999 (off).
    pub gentle: bool,
    /// Whether packets of transports with ECN are marked instead of dropped. Source: Floyd and Jacobson
    /// 1993; in ns off (`setbit_`).
    pub ecn: bool,
    /// Whether packets with ECN are marked also above `max`. Source: Floyd and Jacobson 1993; thesis of Feng, chapter 3;
    /// in ns off.
    pub mark_forced: bool,
    /// Who leaves when the queue overflows. Source: ns since October 1997.
    pub victim: RedVictim,
}

impl Default for Red {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            min: Limit::Packets(5),
            max: Limit::Packets(15),
            max_p: 0.02,
            weight: 0.002,
            mode: RedMode::Packets,
            mean_packet: Bytes::new(1000),
            gap: RedGap::Paper,
            flavor: RedFlavor::Paper,
            gentle: false,
            ecn: true,
            mark_forced: true,
            victim: RedVictim::Tail,
        }
    }
}

/// # Core-Stateless Fair Queueing
///
/// Drops packets with a probability that follows from the rate that the edge wrote on them and from an estimate of the
/// fair share of the link. It needs edges that label: `labels` in a domain.
///
/// Source: Stoica, Shenker and Zhang 1998.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Csfq {
    /// How much may wait. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Packets waiting below which the link is not restricted. Source: assumed, a quarter of the limit as in the authors'
    /// simulations (16 of 64).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub threshold: Limit,
    /// Time constant of the averages of the arriving and of the accepted rate. Source: the authors' simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub averaging: Span,
    /// How long the link must stay congested, or uncongested, before the fair share follows. Source: the authors'
    /// simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub window: Span,
}

impl Default for Csfq {
    fn default() -> Self {
        Self {
            limit: Limit::Packets(100),
            threshold: Limit::Packets(25),
            averaging: Span::from_millis(100),
            window: Span::from_millis(100),
        }
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

/// # Deficit Round Robin
///
/// The queues take turns; in its turn each may send `quantum` more bytes, times its weight. When the total overflows, the
/// longest queue loses its head.
///
/// Source: Shreedhar and Varghese 1995; ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drr {
    /// Bytes per turn. Source: NBQ, section 2 (1000 bytes).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub quantum: Bytes,
    /// How much may wait in all queues together. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// What shares one queue. Source: NBQ, section 2 (per flow).
    pub classify: QueueClassify,
    /// What manages each queue, besides the limit of all together. Default: none.
    pub queue: Option<Manager>,
}

impl Default for Drr {
    fn default() -> Self {
        Self {
            quantum: Bytes::new(1000),
            limit: Limit::Packets(100),
            classify: QueueClassify::Flow,
            queue: None,
        }
    }
}

/// Which clock stamps the packets of a fair queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WfqClock {
    /// The virtual time of the fluid system: exact.
    Gps,
    /// The stamp of the packet in service: cheaper, and independent of the rate of the link.
    SelfClocked,
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
}

impl Default for Wfq {
    fn default() -> Self {
        Self {
            limit: None,
            per_flow_limit: None,
            clock: WfqClock::Gps,
            classify: QueueClassify::Flow,
            queue: None,
        }
    }
}
