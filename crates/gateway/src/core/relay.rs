//! A gateway between two others: what is for a third site passes on, from hop to hop, and neighbours tell each other of what waits.
//!
//! The two ends have a tunnel of their own, so that a relay sees who, how much, and nothing else. Their datagrams travel in
//! messages of the tunnels to and from the relay ([`Kind::Relay`](super::envelope::Kind)), in the queues of these like packets. A mechanism of
//! [`tidegate_mechanism::hop`] stands in each gateway that has part in it, whose ports are its peers.
//!
//! Source: NBQ and rate-based back-pressure between the gateways of an overlay: our reading of both documents, which speak of routers.
//! Deviations: acknowledgments are not held or split, as they cannot be seen.

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::PacketStore;
use tidegate_mechanism::hop::{Action, HopConfig, Neighbor, Port, PortId, Router};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Address, Headers, Packet, Protocol, Sink};
use tidegate_units::{BitRate, Time};
use tidegate_wire::ip;

use super::envelope::{BODY_BYTES_MAX, Kind};
use super::leave::Sealed;
use super::store::Way;
use super::{Gateway, outer_bytes};
use crate::tunnel::Tunnels;

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
    let mut router = Router::new(config, &ports, &Context { seed, link_rate: BitRate::MAX, mtu_bytes });
    router.limit_messages(BODY_BYTES_MAX);
    router
}

impl<T: Tunnels> Gateway<T> {
    /// The datagram for site `number` in `room` is wrapped for the one that passes it on.
    pub(super) fn wrap(&mut self, number: u32, via: u32, sealed: &Sealed, now: Time, room: &[u8]) {
        let head =
            Head { from: self.config.id, to: self.peers[number as usize].site.id, class: sealed.class };
        self.pass_on(head, &room[..sealed.bytes], number, via, now);
    }

    /// The class here of what another site calls `class`: one that there is here, or that of all that fits none.
    pub(super) fn passed_class(&self, class: u8) -> u8 {
        let classes = &self.config.classes;
        let is_known = classes.iter().any(|one| one.class == class);
        if is_known { class } else { classes.last().map_or(0, |other| other.class) }
    }

    /// `datagram`, which came from site or tunnel `from`, goes on through the queue to site `to`.
    fn pass_on(&mut self, head: Head, datagram: &[u8], from: u32, to: u32, now: Time) {
        let Some(buffer) = self.store.take(from, Way::Out) else { return };
        let envelope = self.peers[to as usize].envelope(Kind::Relay, 0);
        self.message.clear();
        self.message.extend_from_slice(&head.encode());
        self.message.extend_from_slice(datagram);
        let length = envelope.write(&self.message, self.store.room(buffer));
        let read = length.and_then(|length| ip::read(&self.store.room(buffer)[..length]));
        let (Some(length), Some(mut read)) = (length, read) else {
            self.store.release(buffer, from, Way::Out);
            return;
        };
        read.headers = head.headers();
        self.store.fill(buffer, (from, Way::Out), length, &read);
        let flow = self.flow_of(&read);
        let mut packet = Packet {
            class: self.passed_class(head.class),
            // Own datagrams are as from hosts.
            in_port: if head.from == self.config.id { u16::MAX } else { from as u16 },
            ..Packet::new(buffer.0, flow, outer_bytes(length))
        };
        if let Some(router) = &mut self.router
            && let Err(why) = router.handle_packet(&mut packet, &read.headers, PortId(to as u16), now)
        {
            self.store.on_drop(packet, why);
            self.tell_drops(now);
            return;
        }
        self.hold(packet, &read.headers, to, now);
        self.tell_drops(now);
    }

    /// `body` came from site `number`, for this gateway or for another one.
    pub(super) fn on_relay(&mut self, number: u32, body: &[u8], now: Time) {
        let Some((head, datagram)) = Head::split(body) else {
            self.stray.unrelayed += 1;
            return;
        };
        if head.to == self.config.id {
            let from =
                self.config.sites.iter().position(|site| site.id == head.from && site.via == Some(number));
            match from {
                Some(from) => self.on_wan(datagram, None, 0, Some(from as u32), now),
                None => self.stray.unrelayed += 1,
            }
            return;
        }
        // What is passed on comes from who it says, and goes to somebody else.
        let is_own = self.config.sites[number as usize].id == head.from;
        let to = self.config.sites.iter().position(|site| site.id == head.to && site.via.is_none());
        match to.filter(|&to| is_own && to as u32 != number && self.config.relay.is_some()) {
            Some(to) => {
                self.peers[number as usize].counters.relayed_packets += 1;
                self.pass_on(head, datagram, number, to as u32, now);
            }
            None => self.stray.unrelayed += 1,
        }
    }

    /// Tells the mechanism between neighbours what queues have dropped.
    pub(super) fn tell_drops(&mut self, now: Time) {
        let Some(router) = &mut self.router else { return };
        for (peer, packet, headers, why) in self.store.dropped.drain(..) {
            router.handle_drop(&packet, &headers, PortId(peer as u16), why, false, now);
        }
    }

    /// Does what the mechanism between neighbours asks for.
    pub(super) fn follow_router(&mut self, now: Time) {
        self.tell_drops(now);
        let mut message = std::mem::take(&mut self.message);
        while let Some(action) = self.router.as_mut().and_then(|router| router.poll_action(&mut message)) {
            match action {
                Action::SetRate { port, rate } => {
                    self.peers[port.index()].limit(rate, now);
                    self.plan(u32::from(port.0));
                }
                Action::Message { port } => {
                    self.peers[port.index()].say(Kind::Hop, 0, &message);
                    self.plan(u32::from(port.0));
                }
                Action::Release { port, packet, .. } => {
                    let headers = PacketStore::headers(&self.store, &packet);
                    self.hold(packet, &headers, u32::from(port.0), now);
                }
            }
        }
        self.message = message;
    }
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
