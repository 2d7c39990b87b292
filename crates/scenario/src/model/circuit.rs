//! Virtual circuits.

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::BitRate;

words! {
    /// Which cells the switch of a circuit discards.
    pub enum CellDiscard {
        /// Early Packet Discard: all of a packet whose first cell finds the buffer filled to `threshold`.
        Early = "early",
        /// Those that find the buffer full.
        Tail = "tail",
        /// As `early`, but only of flows that hold more than an equal part of these cells, were the flows served in turn.
        VirtualQueueing = "virtual-queueing",
    }
}

parameters! {
    /// # Virtual circuit
    ///
    /// The link is a circuit through ATM switches. A packet takes whole cells of 53 bytes, which wait in a switch that carries
    /// constant-bit-rate background as well; one that loses a cell is lost. Between routers with `backpressure` the circuit is ABR:
    /// its rate follows what the switch can carry. Elsewhere it is UBR.
    ///
    /// Source: Pazos and Gerla, section 5; Romanow and Floyd 1995 (Early Packet Discard); Siu, Wu and Ren 1997 (Virtual Queueing).
    pub struct Circuit {
        /// What the switch carries besides: less than the rate of the link.
        background: BitRate = BitRate::ZERO;
        /// The rate that is promised to the circuit (MCR). Source: Pazos and Gerla, section 5, 20 and 40 Mbit/s.
        minimum: BitRate = BitRate::ZERO;
        /// How many cells the switch holds. Source: assumed.
        buffer: u32 = 1000 => Bound::between(1, 10_000_000).saying("a buffer of ", " cells");
        /// Which cells it discards. Source: Pazos and Gerla, section 4.
        discard: CellDiscard = CellDiscard::Early;
        /// The part of the buffer above which new packets are discarded early. Source: assumed.
        threshold: f64 = 0.8 => bound::PROBABILITY;
    }
}
