//! From other sites: datagrams are opened, messages heard, and packets go on to hosts here.

use std::net::{IpAddr, SocketAddr};

use tidegate_mechanism::edge::{PeerId, tunnel as ecn};
use tidegate_mechanism::hop::PortId;
use tidegate_packet::{Dscp, Ecn, Packet};
use tidegate_units::Time;
use tidegate_wire::Buffer;
use tidegate_wire::ip::{self, Read};

use super::config::ip_of;
use super::ends::Ends;
use super::envelope::{self, Envelope, Kind};
use super::relay::Head;
use super::store::Way;
use super::{Gateway, OUTER_HEADER_BYTES};
use crate::tunnel::{Addressed, Opened, Refusal, Source, Tunnel, Tunnels};

/// Answers to strangers that wait to be sent, at most.
const REPLIES_MAX: usize = 64;

impl<T: Tunnels> Gateway<T> {
    /// `datagram` came from `from`, or by way of another site from the tunnel of `through`.
    pub(super) fn on_wan(
        &mut self,
        datagram: &[u8],
        from: Option<Ends>,
        traffic_class: u8,
        through: Option<u32>,
        now: Time,
    ) {
        let nobody = SocketAddr::new(IpAddr::from([0; 4]), 0);
        let far = from.map_or(nobody, |from| from.far);
        let source = through.map_or(Source::At(far), Source::Through);
        let addressed = self.tunnels.addressed(datagram, source, now, &mut self.scratch);
        let number = match addressed {
            Addressed::Peer(number) => number,
            Addressed::Reply(bytes) => {
                self.reply(from, bytes);
                return;
            }
            Addressed::Refused(why) => {
                self.stray.refused[why as usize] += 1;
                return;
            }
        };
        // Whoever has a way of their own does not come by way of others, and the other way round.
        let is_relayed = self.config.sites[number as usize].via.is_some();
        if is_relayed != from.is_none() || through.is_some_and(|through| through != number) {
            self.peers[number as usize].counters.refused[Refusal::Unknown as usize] += 1;
            return;
        }
        let opened = self.tunnels.tunnel(number).open(datagram, far, now, self.store.spare());
        let outer = datagram.len() as u32 + OUTER_HEADER_BYTES;
        match opened {
            Opened::Refused(why) => {
                // Not even the agenda has another entry: what strangers send leaves nothing but a count.
                self.peers[number as usize].counters.refused[why as usize] += 1;
                return;
            }
            // Whoever said it may be anywhere.
            Opened::Noted => {}
            Opened::Handshake => self.follow(from, number, now),
            Opened::Asked => {
                self.peers[number as usize].counters.asked += 1;
                self.answer(from, number, now);
            }
            Opened::Packet(bytes) => {
                self.follow(from, number, now);
                self.on_opened(bytes, number, outer, traffic_class, now);
            }
        }
        self.plan_from(number, now);
    }

    /// The scratch buffer has `bytes` bytes for whoever is at `from`.
    fn reply(&mut self, from: Option<Ends>, bytes: usize) {
        if let Some(from) = from.filter(|_| self.replies.len() < REPLIES_MAX) {
            self.replies.push_back((from, self.scratch[..bytes].to_vec()));
        }
    }

    /// Site `number` asks from `from` for a session, and is answered there: it may have moved. Who starts anew knows none of the
    /// questions that were answered before, and whoever recorded one may say it from anywhere: nobody is followed for a question.
    fn answer(&mut self, from: Option<Ends>, number: u32, now: Time) {
        // By way of another site it goes as all else does, and so it does where too many are answered.
        if from.is_none() || self.replies.len() >= REPLIES_MAX {
            return;
        }
        let said = self.tunnels.tunnel(number).poll(now, &mut self.scratch);
        if let Some(bytes) = said {
            self.reply(from, bytes);
        }
    }

    /// Site `number` spoke from `from`: it is there now.
    fn follow(&mut self, from: Option<Ends>, number: u32, now: Time) {
        if let Some(from) = from {
            let peer = &mut self.peers[number as usize];
            peer.home.on_heard(from.near);
            peer.on_moved(from.far, &mut self.store, now);
        }
    }

    /// The spare buffer has `bytes` bytes of a datagram of site `number`, which takes `outer` bytes on the wire.
    fn on_opened(&mut self, bytes: usize, number: u32, outer: u32, traffic_class: u8, now: Time) {
        let inside = &self.store.spare()[..bytes];
        if inside.is_empty() {
            return;
        }
        match ip::read(inside).filter(|read| read.bytes as usize <= inside.len()) {
            Some(read) if envelope::is_message(&read.headers) => {
                // What is in a message of another site is opened while that is heard.
                let mut message = std::mem::take(&mut self.heard);
                message.clear();
                message.extend_from_slice(inside);
                self.on_message(&message, number, outer, &read, now);
                self.heard = message;
            }
            Some(read) if self.peer_behind(ip_of(read.headers.source)) == Some(number) => {
                let Some(buffer) = self.store.keep(number, Way::In) else { return };
                self.on_packet(buffer, number, &read, outer, traffic_class, now);
            }
            _ => self.peers[number as usize].counters.strange_packets += 1,
        }
    }

    fn on_message(&mut self, message: &[u8], number: u32, outer: u32, read: &Read, now: Time) {
        let peer = &mut self.peers[number as usize];
        let envelope = Envelope::read(message, read).filter(|_| envelope::is_proper(&read.headers));
        let Some((envelope, body)) = envelope else {
            peer.counters.strange_packets += 1;
            return;
        };
        match envelope.kind {
            // What others send is traffic, which its own queue holds.
            Kind::Relay => {
                if let Some((head, _)) = Head::split(body) {
                    peer.count_arrival(outer, &head.headers(), now);
                }
                self.on_relay(number, body, now);
            }
            _ if !peer.may_hear(now) => {}
            Kind::Hop => {
                if let Some(router) = &mut self.router {
                    router.handle_message(PortId(number as u16), body, now);
                }
            }
            _ => peer.on_message(&envelope, body, &mut self.store, now),
        }
    }

    pub(super) fn on_packet(
        &mut self,
        buffer: Buffer,
        number: u32,
        read: &Read,
        outer: u32,
        traffic_class: u8,
        now: Time,
    ) {
        self.store.fill(buffer, (number, Way::In), read.bytes as usize, read);
        let codepoint = Dscp::new(traffic_class >> 2);
        let link = self.links.iter().position(|link| *link == codepoint).unwrap_or(0);
        let flow = self.flow_of(read);
        let mut packet = Packet {
            ecn: Ecn::from_bits(traffic_class),
            dscp: read.headers.dscp,
            ttl: read.ttl,
            ..Packet::new(buffer.0, flow, outer)
        };
        packet.inner_ecn.put(0, read.headers.ecn);
        let peer = &mut self.peers[number as usize];
        peer.counters.received_packets += 1;
        peer.on_alive(now);
        peer.counters.received_bytes += u64::from(read.bytes);
        let entry = [PeerId(link as u32)];
        let mut segment = self.store.segment_in(buffer);
        peer.border.handle_leaving(&mut packet, &read.headers, &entry, segment.as_mut(), now);
        ecn::leave(&mut packet, 0);
        self.store.write(buffer, packet.ecn, packet.dscp);
        let mtu = peer.mtu.size();
        self.clamp_segments(buffer, &read.headers, mtu);
        self.to_lan.push_back((buffer, number));
    }
}
