//! What counts as one flow.
//!
//! Source: NBP, section II.A and footnote 3 (IPv4 four-tuple, IPv6 flow label) and section IV.1 (coarser classes: the
//! address pair; the destination network).
//! Deviations: the protocol is part of the finest class, for a TCP and a UDP flow may share addresses and ports; an IPv6
//! flow label counts only where no ports can be read, for hosts change it while a connection lasts ([`Headers::flow_key`]).

use alloc::vec::Vec;

use tidegate_packet::{Address, FlowId, FlowKey, Headers};

/// How finely flows are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Granularity {
    /// Addresses, protocol and ports; where no ports can be read, the flow label of IPv6.
    #[default]
    Flow,
    /// Source and destination address.
    AddressPair,
    /// Destination network.
    DestinationNetwork {
        /// Length of the network prefix in bits.
        prefix_bits: u8,
    },
}

/// The class of a packet: what one shaper serves and one meter counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ClassKey {
    /// One flow.
    Flow(FlowKey),
    /// All between two hosts.
    AddressPair {
        /// From.
        source: Address,
        /// To.
        destination: Address,
    },
    /// All to one network.
    DestinationNetwork {
        /// Its address; the bits behind the prefix are zero.
        network: Address,
        /// Length of its prefix.
        prefix_bits: u8,
    },
}

impl Granularity {
    /// The class of packets with these headers.
    pub fn class_of(self, headers: &Headers) -> ClassKey {
        match self {
            Self::Flow => ClassKey::Flow(headers.flow_key()),
            Self::AddressPair => {
                ClassKey::AddressPair { source: headers.source, destination: headers.destination }
            }
            Self::DestinationNetwork { prefix_bits } => ClassKey::DestinationNetwork {
                network: headers.destination.network(prefix_bits),
                prefix_bits,
            },
        }
    }
}

/// Where the state of a class was found last, by the number that the world gave the flow of the packet. Only a hint, to be
/// compared with the key that stands there: to hash a key costs more than all else that a border does with a packet.
#[derive(Debug, Default)]
pub(super) struct Hints(Vec<u32>);

/// Flows whose numbers are equal modulo this share a hint.
const HINTS_MAX: u32 = 1 << 16;

impl Hints {
    #[inline]
    pub(super) fn get(&self, flow: FlowId) -> Option<u32> {
        self.0.get((flow.0 % HINTS_MAX) as usize).copied()
    }

    #[cold]
    pub(super) fn set(&mut self, flow: FlowId, place: u32) {
        let index = (flow.0 % HINTS_MAX) as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, u32::MAX);
        }
        self.0[index] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::Protocol;

    fn headers(last: u8, port: u16) -> Headers {
        Headers::best_effort(
            Protocol::UDP,
            (Address::V4([10, 0, 0, 1]), port),
            (Address::V4([10, 0, 1, last]), 9),
        )
    }

    #[test]
    fn coarser_classes_hold_more() {
        let (a, b, c) = (headers(1, 1), headers(1, 2), headers(2, 1));
        let same = |granularity: Granularity, x: &Headers, y: &Headers| {
            granularity.class_of(x) == granularity.class_of(y)
        };
        assert!(!same(Granularity::Flow, &a, &b));
        assert!(same(Granularity::AddressPair, &a, &b) && !same(Granularity::AddressPair, &a, &c));
        let network = Granularity::DestinationNetwork { prefix_bits: 24 };
        assert!(same(network, &a, &c));
        assert!(!same(Granularity::DestinationNetwork { prefix_bits: 32 }, &a, &c));
    }

    #[test]
    fn an_ipv6_flow_label_stands_for_ports_that_are_out_of_sight() {
        let v6 = |label, port| Headers {
            source: Address::V6([1; 16]),
            destination: Address::V6([2; 16]),
            flow_label: label,
            ..headers(1, port)
        };
        let class = |h: &Headers| Granularity::Flow.class_of(h);
        let without_ports = |label| Headers { source_port: 0, destination_port: 0, ..v6(label, 0) };
        assert_eq!(class(&without_ports(7)), class(&without_ports(7)));
        assert_ne!(class(&without_ports(7)), class(&without_ports(8)));
        // A host that changes it while a connection lasts does not make it another.
        assert_eq!(class(&v6(7, 1)), class(&v6(8, 1)));
        assert_ne!(class(&v6(7, 1)), class(&v6(7, 2)));
    }
}
