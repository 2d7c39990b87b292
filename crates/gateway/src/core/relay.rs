//! A gateway between two others: what is for a third site passes on, from hop to hop, and neighbours tell each other of what waits.
//!
//! The two ends have a tunnel of their own, so that a relay sees who, how much, and nothing else. Their datagrams travel in
//! messages of the tunnels to and from the relay ([`Kind::Relay`](super::envelope::Kind)), in the queues of these like packets. A mechanism of
//! [`tidegate_mechanism::hop`] stands in each gateway that has part in it, whose ports are its peers.
//!
//! Source: NBQ and rate-based back-pressure between the gateways of an overlay: our reading of both documents, which speak of routers.
//! Deviations: acknowledgments are not held or split, as they cannot be seen.

use tidegate_mechanism::Context;
use tidegate_mechanism::hop::{HopConfig, Neighbor, Port, Router};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Address, Headers, Protocol};
use tidegate_units::BitRate;

/// In front of a datagram: who it is from, whom it is for, and its class.
pub(super) const HEAD_BYTES: usize = 8 + 8 + 1;

/// Whose a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub from: u64,
    pub to: u64,
    pub class: u8,
}

impl Head {
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.from.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.to.to_be_bytes());
        bytes[16] = self.class;
        bytes
    }

    /// What stands in front of `body`, and the datagram.
    pub fn split(body: &[u8]) -> Option<(Self, &[u8])> {
        let (head, datagram) = body.split_first_chunk::<HEAD_BYTES>()?;
        let eight = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("there are eight"));
        Some((Self { from: eight(0), to: eight(8), class: head[16] }, datagram))
    }

    /// What mechanisms see in the place of addresses.
    pub fn headers(self) -> Headers {
        let address = |id: u64| {
            let mut octets = [0; 16];
            octets[0] = 0xfe;
            octets[1] = 0x80;
            octets[8..].copy_from_slice(&id.to_be_bytes());
            Address::V6(octets)
        };
        let (source, destination) = (address(self.from), address(self.to));
        Headers::best_effort(
            Protocol::UDP,
            (source, u16::from(self.class)),
            (destination, super::envelope::PORT),
        )
    }
}

/// The mechanism of this gateway, with `rates` of its ports.
pub(super) fn router(
    config: &HopConfig,
    rates: impl Iterator<Item = BitRate>,
    seed: u64,
    mtu_bytes: u32,
) -> Router {
    let ports: Vec<Port> =
        rates.map(|rate| Port { rate, neighbor: Neighbor::Router, circuit: None }).collect();
    let seed = Seed::for_component(seed, "hop");
    Router::new(config, &ports, &Context { seed, link_rate: BitRate::MAX, mtu_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_stands_in_front_is_read_again(from: u64, to: u64, class: u8, datagram in prop::collection::vec(any::<u8>(), 0..40)) {
            let head = Head { from, to, class };
            let whole = [&head.encode()[..], &datagram].concat();
            prop_assert_eq!(Head::split(&whole), Some((head, &datagram[..])));
            prop_assert_eq!(Head::split(&whole[..HEAD_BYTES - 1]), None);
        }
    }
}
