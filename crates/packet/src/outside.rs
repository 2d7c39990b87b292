//! Packets from outside: what a world with real hosts tells of those that it brings in, and what it is told of their TCP
//! headers when they leave.

use crate::{Dscp, Ecn};

/// A packet that comes from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its flow, by number; one that takes packets from outside.
    pub flow: u32,
    /// What its owner calls it.
    pub handle: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: Dscp,
    /// Hops it may still make; zero counts as one.
    pub ttl: u8,
    /// What edges read of its TCP header, if it has one.
    pub tcp: Option<OutsideTcp>,
}

/// The fields of a real TCP header that edges and routers read. They may lower the window and the acknowledgment, and set the echo;
/// a last hop sends acknowledgments on by themselves, without payload and with a later sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutsideTcp {
    /// First payload byte.
    pub sequence: u32,
    /// The next byte expected.
    pub acknowledgment: u32,
    /// Payload bytes; none left where the packet is the acknowledgment alone.
    pub payload_bytes: u16,
    /// The window as it stands in the header.
    pub window: u16,
    /// Whether `acknowledgment` counts.
    pub has_ack: bool,
    /// The echo of a congestion mark.
    pub ecn_echo: bool,
    /// The window scale that a SYN announces (0 where it announces none); none where this is no SYN.
    pub announced_shift: Option<u8>,
}
