//! Random Early Detection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Limit};

use crate::text::{self, Text};

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
