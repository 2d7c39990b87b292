//! From hosts here to the queue in front of the shaper: site, class, marker, and what a packet may be.

use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use tidegate_mechanism::edge::PeerId;
use tidegate_mechanism::mark::{Conditioned, Marker};
use tidegate_packet::{Address, DropReason, FlowId, Headers, Packet, Protocol, Sink};
use tidegate_units::Time;
use tidegate_wire::Buffer;
use tidegate_wire::fragment;
use tidegate_wire::icmp::{self, Trouble};
use tidegate_wire::ip::{self, Read};

use super::config::{self, ip_of};
use super::peer::Peer;
use super::store::{BUFFER_BYTES, Way};
use super::{Gateway, envelope, outer_bytes};
use crate::tunnel::{Tunnel, Tunnels};

/// TCP's header, and that of IPv4 and IPv6, which a segment's size leaves out (RFC 6691).
const SEGMENT_HEADERS_V4: u16 = 40;
const SEGMENT_HEADERS_V6: u16 = 60;

/// Whether `destination` is everybody on one link, which nobody forwards: the kernel itself says things there on each device, about groups and
/// routers.
const fn stays_on_link(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] == 0xff02,
    }
}

impl<T: Tunnels> Gateway<T> {
    pub(super) fn on_lan(&mut self, packet: &[u8], now: Time) {
        let read = ip::read(packet)
            .filter(|read| read.bytes as usize <= packet.len() && packet.len() <= BUFFER_BYTES);
        let Some(read) = read.filter(|read| !envelope::is_message(&read.headers)) else {
            self.stray.bad_packets += 1;
            return;
        };
        let destination = ip_of(read.headers.destination);
        let Some(number) = self.peer_behind(destination).filter(|_| !self.is_draining) else {
            self.stray.unrouted_packets += u64::from(!stays_on_link(destination));
            return;
        };
        if self.is_ours(&read.headers, number) {
            self.stray.unrouted_packets += 1;
            return;
        }
        let packet = &packet[..read.bytes as usize];
        let Peer { counters, mtu, .. } = &mut self.peers[number as usize];
        counters.entered_packets += 1;
        counters.entered_bytes += packet.len() as u64;
        let mtu = mtu.size();
        if packet.len() <= usize::from(mtu) {
            self.enter(packet, &read, number, now);
            return;
        }
        let is_cut = fragment::cut(packet, usize::from(mtu), |piece| {
            if let Some(part) = ip::read(piece) {
                self.enter(piece, &part, number, now);
            }
        });
        if !is_cut {
            self.peers[number as usize].counters.too_large_packets += 1;
            self.answer_too_large(packet, &read.headers, number, mtu);
        }
    }

    /// Whether a packet is a datagram of this tunnel to site `number`, which the machine has sent into the tunnel instead of to the site: the
    /// site is in a network of its own now. It would be sealed again and again.
    fn is_ours(&self, headers: &Headers, number: u32) -> bool {
        let to = || SocketAddr::new(ip_of(headers.destination), headers.destination_port);
        headers.protocol == Protocol::UDP && self.peers[number as usize].endpoint == Some(to())
    }

    /// `packet`, which is not too large, is for site `number`.
    fn enter(&mut self, packet: &[u8], read: &Read, number: u32, now: Time) {
        let bytes = packet.len();
        let Some(buffer) = self.store.take(number, Way::Out) else { return };
        self.store.room(buffer)[..bytes].copy_from_slice(packet);
        self.store.fill(buffer, (number, Way::Out), bytes, read);
        let mtu = self.peers[number as usize].mtu.size();
        self.clamp_segments(buffer, &read.headers, mtu);
        let (which, class) = self.classify(&read.headers);
        let flow = self.flow_of(read);
        let mut entering = Packet {
            ecn: read.headers.ecn,
            dscp: read.headers.dscp,
            class,
            ttl: read.ttl,
            // Not a port of the router: these are hosts.
            in_port: u16::MAX,
            ..Packet::new(buffer.0, flow, outer_bytes(bytes))
        };
        if let Some(marker) = which.and_then(|which| self.peers[number as usize].markers[which].as_mut())
            && let Conditioned::Drop(why) = marker.on_packet(&mut entering, now)
        {
            self.store.on_drop(entering, why);
            self.store.dropped.clear();
            return;
        }
        self.hold(entering, &read.headers, number, now);
    }

    /// `packet` joins the queue in front of the shaper to site `number`, or goes at once where nothing is held.
    pub(super) fn hold(&mut self, packet: Packet, headers: &Headers, number: u32, now: Time) {
        let peer = &mut self.peers[number as usize];
        let link = PeerId(u32::from(self.link_of_class[usize::from(packet.class)]));
        if !peer.holds() && peer.passing.len() >= Peer::PASSING_MAX {
            self.store.on_drop(packet, DropReason::Overflow);
        } else if !peer.holds() {
            peer.passing.push_back(packet);
        } else if let Some(passed) = peer.border.handle_packet(packet, headers, &[link], now, &mut self.store)
        {
            // Of a class that its mechanism leaves alone.
            peer.passing.push_back(passed);
        }
        self.tunnels.tunnel(number).want(now);
        self.plan(number);
    }

    fn classify(&self, headers: &Headers) -> (Option<usize>, u8) {
        let fits = |class: &config::ClassConfig| {
            let has_port = class.ports.is_empty()
                || [headers.source_port, headers.destination_port]
                    .iter()
                    .any(|port| class.ports.contains(port));
            has_port && (class.dscp.is_empty() || class.dscp.contains(headers.dscp))
        };
        let which = self.config.classes.iter().position(fits);
        (which, which.map_or(0, |which| self.config.classes[which].class))
    }

    /// Flows are told apart by a keyed hash, so that there is no table that could be filled; the last answers are remembered. Fragments have no ports but the first, so
    /// that none counts.
    pub(super) fn flow_of(&mut self, read: &Read) -> FlowId {
        let headers = if read.fragment.is_some() {
            Headers { source_port: 0, destination_port: 0, ..read.headers }
        } else {
            read.headers
        };
        let (key, flows) = (headers.flow_key(), u64::from(self.config.flows.max(1)));
        let at = (key.source_port ^ key.destination_port) as u8;
        self.flows.get(key, at, || FlowId((self.hash.hash_one(key) % flows) as u32))
    }

    /// Hosts send segments no larger than the path takes (RFC 4459, section 3.2).
    pub(super) fn clamp_segments(&mut self, buffer: Buffer, headers: &Headers, mtu: u16) {
        if headers.protocol != Protocol::TCP {
            return;
        }
        let around = match headers.source {
            Address::V4(_) => SEGMENT_HEADERS_V4,
            Address::V6(_) => SEGMENT_HEADERS_V6,
        };
        if let Some(mut segment) = self.store.segment_in(buffer) {
            segment.limit_segment_size(mtu - around);
        }
    }

    /// Tells the sender of `packet` that it may have no more than `mtu` bytes.
    ///
    /// It is told in the name of the host that the packet is for: what the device gives the kernel in the name of this machine, the kernel
    /// throws away (`martian source`).
    fn answer_too_large(&mut self, packet: &[u8], headers: &Headers, number: u32, mtu: u16) {
        let there = match headers.destination {
            Address::V4(there) => (there, [0; 16]),
            Address::V6(there) => ([0; 4], there),
        };
        let mut answer = [0; 1280];
        let Some(length) = icmp::answer(packet, Trouble::TooBig(mtu), there, &mut answer) else { return };
        let Some(own) = self.store.take(number, Way::In) else { return };
        self.store.room(own)[..length].copy_from_slice(&answer[..length]);
        match ip::read(&answer[..length]) {
            Some(read) => {
                self.store.fill(own, (number, Way::In), length, &read);
                self.to_lan.push_back((own, number));
            }
            None => self.store.release(own, number, Way::In),
        }
    }
}
