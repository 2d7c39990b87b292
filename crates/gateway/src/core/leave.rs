//! From the queue into the tunnel: what goes next to a site, sealed, or wrapped for the one that passes it on.

use tidegate_mechanism::edge::{PacketStore, Transmit};
use tidegate_mechanism::hop::PortId;
use tidegate_packet::{DropReason, Dscp, Ecn, Packet, Sink};
use tidegate_units::Time;
use tidegate_wire::Buffer;

use super::ends::Ends;
use super::envelope::{Envelope, Kind};
use super::peer::{self, Peer};
use super::store::Way;
use super::{Gateway, OUTER_HEADER_BYTES, Output};
use crate::tunnel::{PADDING_BYTES, Tunnel, Tunnels};

/// A datagram in the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub bytes: usize,
    pub class: u8,
    codepoint: Dscp,
    ecn: Ecn,
    is_data: bool,
}

impl<T: Tunnels> Gateway<T> {
    /// The next that goes to site `number`, in `room`.
    pub(super) fn serve(&mut self, number: u32, now: Time, room: &mut [u8]) -> Option<Output> {
        loop {
            let is_up = self.tunnels.tunnel(number).is_up(now);
            let peer = &mut self.peers[number as usize];
            let was = peer.state;
            peer.on_session(is_up, &mut self.store, now);
            // The library has given up, or the session is over for want of traffic. Nobody else may know the way.
            let is_known = peer.endpoint.is_some() || peer.site.via.is_some();
            let is_lost = was != peer::State::Down && peer.state == peer::State::Down;
            peer.advance(&mut self.store, now);
            if is_lost && is_known && !peer.is_leaving {
                self.tunnels.tunnel(number).want(now);
            }
            let sealed = if let Some(bytes) = self.tunnels.tunnel(number).poll(now, room) {
                Sealed { bytes, class: 0, codepoint: Dscp::CONTROL, ecn: Ecn::NotEct, is_data: false }
            } else if is_up {
                self.seal_next(number, now, room)?
            } else {
                self.peers[number as usize].hush(&mut self.message);
                return None;
            };
            let Peer { counters, site, endpoint, home, .. } = &mut self.peers[number as usize];
            if !sealed.is_data {
                counters.said_messages += 1;
                counters.said_bytes += sealed.bytes as u64 + u64::from(OUTER_HEADER_BYTES);
            }
            if let Some(via) = site.via {
                self.wrap(number, via, &sealed, now, room);
                continue;
            }
            let Some(far) = *endpoint else { continue };
            let to = Ends { far, near: home.near() };
            let traffic_class = sealed.codepoint.get() << 2 | sealed.ecn as u8;
            return Some(Output::Wan { to, traffic_class, bytes: sealed.bytes });
        }
    }

    /// Seals the next message or packet for site `number` into `room`.
    fn seal_next(&mut self, number: u32, now: Time, room: &mut [u8]) -> Option<Sealed> {
        loop {
            let peer = &mut self.peers[number as usize];
            if let Some((kind, link, body)) = peer.said.pop_front() {
                let envelope = peer.envelope(kind, link);
                if let Some(sealed) = self.seal_message(number, envelope, &body, now, room) {
                    return Some(sealed);
                }
                continue;
            }
            if let Some(packet) = peer.passing.pop_front() {
                if let Some(sealed) = self.seal_packet(number, packet, now, room) {
                    return Some(sealed);
                }
                continue;
            }
            let mut message = std::mem::take(&mut self.message);
            let next = peer.border.poll_transmit(now, &mut self.store, &mut message);
            let sealed = match next {
                None => {
                    self.message = message;
                    self.tell_drops(now);
                    return None;
                }
                Some(Transmit::Message { to }) if peer.state == peer::State::Controlled => {
                    let envelope = peer.envelope(Kind::Control, to.0 as u8);
                    self.seal_message(number, envelope, &message, now, room)
                }
                Some(Transmit::Message { .. }) => None,
                Some(Transmit::Packet(packet)) => self.seal_packet(number, packet, now, room),
            };
            self.message = message;
            self.tell_drops(now);
            if sealed.is_some() {
                return sealed;
            }
        }
    }

    fn seal_message(
        &mut self,
        number: u32,
        envelope: Envelope,
        body: &[u8],
        now: Time,
        room: &mut [u8],
    ) -> Option<Sealed> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let length = envelope.write(body, &mut scratch);
        let bytes = length.and_then(|length| self.tunnels.tunnel(number).seal(&scratch[..length], now, room));
        self.scratch = scratch;
        let codepoint = self.links[usize::from(envelope.link).min(self.links.len() - 1)];
        Some(Sealed { bytes: bytes?, class: 0, codepoint, ecn: Ecn::NotEct, is_data: false })
    }

    fn seal_packet(&mut self, number: u32, mut packet: Packet, now: Time, room: &mut [u8]) -> Option<Sealed> {
        let buffer = Buffer(packet.slot);
        let headers = PacketStore::headers(&self.store, &packet);
        if let Some(router) = &mut self.router {
            router.handle_departure(&packet, &headers, PortId(number as u16), now);
        }
        // Mechanisms that do not care for the tunnel's own field leave it to us: nothing can be marked then.
        let outer = match packet.inner_ecn.take(0) {
            Some(inner) => {
                let outer = std::mem::replace(&mut packet.ecn, inner);
                if outer == Ecn::Ce { Ecn::Ect0 } else { outer }
            }
            None => Ecn::NotEct,
        };
        self.store.write(buffer, packet.ecn, packet.dscp);
        let inner_bytes = self.store.bytes(buffer).len() as u64;
        let padded = self.store.padded(buffer, PADDING_BYTES);
        let Some(bytes) = self.tunnels.tunnel(number).seal(padded, now, room) else {
            self.store.on_drop(packet, DropReason::LinkDown);
            return None;
        };
        self.store.release(buffer, number, Way::Out);
        let link = self.link_of_class[usize::from(packet.class)];
        let peer = &mut self.peers[number as usize];
        peer.counters.sent_packets += 1;
        peer.counters.sent_bytes += inner_bytes;
        peer.on_sent(inner_bytes, now);
        let codepoint = self.links[usize::from(link)];
        Some(Sealed { bytes, class: packet.class, codepoint, ecn: outer, is_data: true })
    }
}
