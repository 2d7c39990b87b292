//! Parameters of RED.
//!
//! Source: Floyd & Jacobson 1993, Fig. 2 (names); ns-2 `ns-default.tcl`; W. Feng, thesis, sections 3.5 and 4.3.3.
//! Deviations: in [`super`].

use tidegate_units::{Limit, Span};

use crate::meter::ActiveFlowsConfig;

/// How marks are spread over the packets (catalogue, ambiguity RED-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GapLaw {
    /// `p_b / (1 - count p_b)`.
    #[default]
    Paper,
    /// 0 while `count p_b < 1`, then `p_b / (2 - count p_b)`: ns-2's `wait`.
    Wait,
}

/// Whose details.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flavor {
    /// Of the paper's Fig. 2.
    #[default]
    Floyd1993,
    /// Of ns-2.
    Ns,
}

/// What the queue and the probability are measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueUnit {
    /// Packets; every packet is marked with the same probability.
    #[default]
    Packets,
    /// Bytes, over the typical packet size; a packet is marked with a probability in proportion to its size.
    Bytes,
}

/// Which packet a forced drop takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Victim {
    /// The arriving one (ns-2 since 1 October 1997).
    #[default]
    Arriving,
    /// Any one that waits, or the arriving one, with equal probability (ns-1).
    Random,
}

/// `max_p` from the number of active flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FromFlows {
    /// How flows are counted.
    pub count: ActiveFlowsConfig,
    /// The round-trip time of the flows, queueing included; not zero. No default.
    pub rtt: Span,
}

/// Parameters of [`Red`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average queue below which nothing is marked, packets. Default 5 (section VII; ns-2).
    pub min_th: f64,
    /// Average queue from which everything is marked, packets. Default 15 (ns-2; at least `2 min_th`, section VI).
    pub max_th: f64,
    /// `w_q`, the weight of a sample. Default 0.002 (section VII).
    pub w: f64,
    /// `max_p`, the probability at `max_th`. Default 1/50 (section VII); ns-2 1/10.
    pub max_p: f64,
    /// How much may wait. Default 100 packets; ns-2 50.
    pub limit: Limit,
    /// A typical packet, bytes. Default 1000 (the paper's simulations); ns-2 500.
    pub packet_bytes: u32,
    /// What the queue is measured in. Default packets.
    pub unit: QueueUnit,
    /// Spread of the marks. Default the paper's; ns-2 `wait`.
    pub gap_law: GapLaw,
    /// The small differences. Default the paper's.
    pub flavor: Flavor,
    /// Whether the probability rises from `max_p` to 1 between `max_th` and `2 max_th`. Default no (ns-2 added it on
    /// 11 June 1999).
    pub gentle: bool,
    /// Which packet a forced drop takes. Default the arriving one.
    pub victim: Victim,
    /// Whether a packet that can carry a mark is marked instead of dropped early. Default yes (the paper "marks"); ns-2 no.
    pub ecn: bool,
    /// With `ecn`, whether it is also marked when the average is above `max_th`. Default yes (the paper, Feng); ns-2 no.
    pub ecn_when_forced: bool,
    /// Time constant of a low-pass filter on the marking probability, not zero. Default `None`: no filter.
    pub smoothing: Option<Span>,
    /// Whether `max_p` follows the number of active flows. Default `None`: it is fixed.
    pub active: Option<FromFlows>,
}

impl RedConfig {
    /// The paper's.
    pub const fn floyd_1993() -> Self {
        Self {
            min_th: 5.0,
            max_th: 15.0,
            w: 0.002,
            max_p: 0.02,
            limit: Limit::Packets(100),
            packet_bytes: 1000,
            unit: QueueUnit::Packets,
            gap_law: GapLaw::Paper,
            flavor: Flavor::Floyd1993,
            gentle: false,
            victim: Victim::Arriving,
            ecn: true,
            ecn_when_forced: true,
            smoothing: None,
            active: None,
        }
    }

    /// As in ns-2 of 1998 and 1999.
    pub const fn ns() -> Self {
        Self {
            max_p: 0.1,
            limit: Limit::Packets(50),
            packet_bytes: 500,
            gap_law: GapLaw::Wait,
            flavor: Flavor::Ns,
            ecn: false,
            ecn_when_forced: false,
            ..Self::floyd_1993()
        }
    }
}

impl Default for RedConfig {
    fn default() -> Self {
        Self::floyd_1993()
    }
}
