//! What classification looks at.

use crate::{Dscp, Ecn};

/// An IP address. IPv4 and IPv6 never compare equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// IPv4.
    V4([u8; 4]),
    /// IPv6.
    V6([u8; 16]),
}

impl Address {
    /// The address with all but its first `prefix_bits` bits cleared: its network.
    pub fn network(self, prefix_bits: u8) -> Self {
        match self {
            Self::V4(octets) => {
                let keep = u32::from(prefix_bits.min(32));
                let mask = u32::MAX.checked_shl(32 - keep).unwrap_or(0);
                Self::V4((u32::from_be_bytes(octets) & mask).to_be_bytes())
            }
            Self::V6(octets) => {
                let keep = u32::from(prefix_bits.min(128));
                let mask = u128::MAX.checked_shl(128 - keep).unwrap_or(0);
                Self::V6((u128::from_be_bytes(octets) & mask).to_be_bytes())
            }
        }
    }
}

/// The transport protocol, by its IP protocol number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP, which carries feedback between edges (NBP, section II.B).
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// `ICMPv6`.
    pub const ICMPV6: Self = Self(58);
}

/// The fields of a packet's IP and transport headers that classifiers use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Headers {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// IPv6 flow label, 20 bits; zero for IPv4 and for unlabelled IPv6.
    pub flow_label: u32,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Source port; zero where the protocol has none.
    pub source_port: u16,
    /// Destination port; zero where the protocol has none.
    pub destination_port: u16,
    /// DSCP when the packet entered.
    pub dscp: Dscp,
    /// ECN when the packet entered.
    pub ecn: Ecn,
}

impl Headers {
    /// Those of a packet of best effort without ECN and without a flow label; `source` and `destination` are an address and a port.
    pub const fn best_effort(
        protocol: Protocol,
        source: (Address, u16),
        destination: (Address, u16),
    ) -> Self {
        Self {
            source: source.0,
            destination: destination.0,
            flow_label: 0,
            protocol,
            source_port: source.1,
            destination_port: destination.1,
            dscp: Dscp::BEST_EFFORT,
            ecn: Ecn::NotEct,
        }
    }

    /// The flow these headers belong to: addresses, protocol and ports. Where no ports can be read, over IPv6 the flow
    /// label stands for them. NBP (section II.A, footnote 3) takes the label for all of IPv6; but hosts change it while
    /// a connection lasts, to get another path (RFC 6438 asks for labels in the choice of paths, and Linux draws a new
    /// one after each time-out), and a flow would be many.
    pub const fn flow_key(&self) -> FlowKey {
        let has_ports = self.source_port != 0 || self.destination_port != 0;
        FlowKey {
            source: self.source,
            destination: self.destination,
            flow_label: if has_ports { 0 } else { self.flow_label },
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
        }
    }

    /// The headers of traffic in the other direction.
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..*self
        }
    }
}

/// What identifies a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// IPv6 flow label; zero where there are ports.
    pub flow_label: u32,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_keeps_its_prefix_only() {
        assert_eq!(Address::V4([10, 1, 2, 3]).network(16), Address::V4([10, 1, 0, 0]));
        assert_eq!(Address::V4([10, 1, 2, 3]).network(0), Address::V4([0; 4]));
        assert_eq!(Address::V4([10, 1, 2, 3]).network(32), Address::V4([10, 1, 2, 3]));
        let mut v6 = [0; 16];
        v6[0] = 0xfd;
        v6[15] = 1;
        let mut net = v6;
        net[15] = 0;
        assert_eq!(Address::V6(v6).network(64), Address::V6(net));
        assert_eq!(Address::V6(v6).network(0), Address::V6([0; 16]));
    }
}
