//! All of a gateway but clocks, devices and threads.
//!
//! A world hands over what happens ([`Gateway::handle`]), and asks what to send ([`Gateway::poll_output`]) and when to come back
//! ([`Gateway::poll_timeout`]), as it does with a [`tidegate_mechanism::edge::Border`], of which there is one for each other site. Any order
//! of calls is safe. The way of a packet to another site:
//!
//! 1. [`routes`](self): its destination says which site; its class ([`config::ClassConfig`]) which queue and which virtual link. A marker
//!    may drop it or change its codepoint.
//! 2. The border of the site holds it in front of a shaper, whose rate a mechanism finds ([`peer`]).
//! 3. When it may go, the tunnel seals it. What queues drop was not sealed, and leaves no hole in the tunnel's numbers.
//!
//! What comes from another site is opened, and must come from the networks that are behind it. Messages between gateways
//! ([`envelope`]) travel in the tunnel, at their place among the packets.
//!
//! Memory is that of the configuration: [`store`] has buffers that are divided among sites, and what is kept of a site is a function
//! of what it does.

pub mod config;
pub mod envelope;
#[cfg(test)]
mod hostile;
pub mod mtu;
pub mod peer;
mod relay;
mod routes;
pub mod status;
pub mod store;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{PeerId, Transmit, tunnel as ecn};
use tidegate_mechanism::hop::{Action, PortId, Router};
use tidegate_mechanism::mark::{AnyMarker, Conditioned, Marker};
use tidegate_mechanism::random::{KeyedHash, Seed};
use tidegate_packet::{DropReason, Dscp, Ecn, FlowId, Headers, Packet, Protocol, Sink};
use tidegate_units::{BitRate, Span, Time};
use tidegate_wire::Buffer;
use tidegate_wire::icmp::{self, Trouble};
use tidegate_wire::ip::{self, Read};

use self::config::{GatewayConfig, ip_of};
use self::envelope::{ENVELOPE_BYTES, Envelope, HEADER_BYTES, Kind};
use self::peer::Peer;
use self::relay::Head;
use self::routes::Routes;
use self::status::{LinkStatus, SiteStatus};
use self::store::{BUFFER_BYTES, Store, Way};
use crate::tunnel::{Addressed, Opened, PADDING_BYTES, Refusal, Tunnel, Tunnels, sealed_bytes};

/// IPv4 and UDP around a datagram. Both ends count with these, whatever is really around it, so that they agree.
pub const OUTER_HEADER_BYTES: u32 = 28;
/// Answers to strangers that wait to be sent, at most.
const REPLIES_MAX: usize = 64;
/// A gateway that finds nothing to do at a time for which it asked comes back after this at the earliest.
const LEAST_WAIT: Span = Span::from_micros(10);
/// TCP's header, and that of IPv4 and IPv6, which a segment's size leaves out (RFC 6691).
const SEGMENT_HEADERS_V4: u16 = 40;
const SEGMENT_HEADERS_V6: u16 = 60;

/// Bytes outside of a packet of `inner` bytes, as both ends count them.
pub fn outer_bytes(inner: usize) -> u32 {
    sealed_bytes(inner) as u32 + OUTER_HEADER_BYTES
}

/// What happens to a gateway.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A host here sends this packet.
    Lan(&'a [u8]),
    /// A datagram came in.
    Wan {
        /// From where.
        from: SocketAddr,
        /// Its traffic class: codepoint and ECN field.
        traffic_class: u8,
        /// What is in it.
        datagram: &'a [u8],
    },
}

/// What a gateway sends: so many bytes, in the room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A packet for hosts here.
    Lan(usize),
    /// A datagram.
    Wan {
        /// Where to.
        to: SocketAddr,
        /// Its traffic class.
        traffic_class: u8,
        /// How many bytes.
        bytes: usize,
    },
}

/// What came and belongs to no site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stray {
    /// Packets of hosts here that are none, or pretend to be messages of gateways.
    pub bad_packets: u64,
    /// Packets of hosts here for nobody that is known.
    pub unrouted_packets: u64,
    /// Datagrams by why they counted for nothing: see [`Refusal`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Datagrams to be passed on to who is not known, or by who may not.
    pub unrelayed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Gateway<T> {
    config: GatewayConfig,
    tunnels: T,
    peers: Vec<Peer>,
    routes: Routes,
    store: Store,
    /// The codepoints outside, by link; and the link of each class.
    links: Vec<Dscp>,
    link_of_class: Box<[u8; 256]>,
    hash: KeyedHash,
    router: Option<Router>,
    /// When which peer has something to do; may hold stale entries.
    agenda: BinaryHeap<Reverse<(Time, u32)>>,
    to_lan: VecDeque<(Buffer, u32)>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    stray: Stray,
    /// The latest instant that it was told.
    latest: Time,
    is_draining: bool,
    /// Where messages and datagrams are written before they are sealed or wrapped.
    message: Vec<u8>,
    scratch: Vec<u8>,
    /// Where datagrams are opened.
    opening: Vec<u8>,
}

impl<T: Tunnels> Gateway<T> {
    /// A gateway that begins at `now`, with a tunnel in `tunnels` for each site of `config`, in the same order.
    pub fn new(config: GatewayConfig, tunnels: T, now: Time) -> Self {
        let links = config.links();
        let mut link_of_class = Box::new([0; 256]);
        let own = config.classes.iter().filter(|class| class.own_link.is_some());
        for (class, link) in own.zip(1..links.len() as u8) {
            link_of_class[usize::from(class.class)] = link;
        }
        let mut routes = Routes::default();
        let mut peers = Vec::with_capacity(config.sites.len());
        for (number, site) in (0..).zip(&config.sites) {
            for network in &site.networks {
                routes.add(*network, number);
            }
            let seed = Seed::for_component(config.seed, &format!("site.{}", site.name));
            let markers = config.classes.iter().enumerate().map(|(which, class)| {
                class.marker.as_ref().map(|marker| {
                    let seed = Seed::for_component(seed.0, &format!("marker.{which}"));
                    marker
                        .build(&Context { seed, link_rate: site.rate.max, mtu_bytes: config.mtu.into() }, now)
                })
            });
            let markers: Vec<Option<AnyMarker>> = markers.collect();
            peers.push(Peer::new(
                site.clone(),
                number,
                (links.len() as u8, config.mtu),
                markers,
                link_of_class.clone(),
                seed,
                now,
            ));
        }
        let mut store = Store::new(config.buffers, peers.len());
        store.tells = config.relay.is_some();
        let rates = config.sites.iter().map(|site| site.rate.max);
        let mtu_bytes = outer_bytes(usize::from(config.mtu));
        let router = config.relay.as_ref().map(|hop| relay::router(hop, rates, config.seed, mtu_bytes));
        let hash = KeyedHash::new(Seed::for_component(config.seed, "flows"));
        let mut gateway = Self {
            tunnels,
            peers,
            routes,
            store,
            links,
            link_of_class,
            hash,
            router,
            agenda: BinaryHeap::new(),
            to_lan: VecDeque::new(),
            replies: VecDeque::new(),
            stray: Stray::default(),
            latest: now,
            is_draining: false,
            message: Vec::new(),
            scratch: vec![0; BUFFER_BYTES],
            opening: vec![0; BUFFER_BYTES],
            config,
        };
        for number in 0..gateway.peers.len() as u32 {
            // Whoever may have known an earlier life is told that this is another one.
            if gateway.peers[number as usize].endpoint.is_some()
                || gateway.config.sites[number as usize].via.is_some()
            {
                gateway.tunnels.tunnel(number).want(now);
            }
            gateway.plan(number);
        }
        gateway
    }

    /// Something happened. Bad packets and datagrams change nothing but counts.
    pub fn handle(&mut self, input: Input<'_>, now: Time) {
        let now = self.at(now);
        match input {
            Input::Lan(packet) => self.on_lan(packet, now),
            Input::Wan { from, traffic_class, datagram } => {
                self.on_wan(datagram, Some(from), traffic_class, None, now);
            }
        }
        self.follow_router(now);
    }

    /// When to come back for [`Self::poll_output`] if nothing happens. Any other call may change it.
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.to_lan.is_empty() || !self.replies.is_empty() {
            return Some(self.latest);
        }
        let hop = self.router.as_ref().and_then(Router::timer_at);
        let peer = self.agenda.peek().map(|Reverse((at, _))| *at);
        [hop, peer].into_iter().flatten().min()
    }

    /// What to send next, in `room`, which is to have [`BUFFER_BYTES`] bytes; call it until it gives `None`. What was to be done by
    /// `now` is done.
    pub fn poll_output(&mut self, now: Time, room: &mut [u8]) -> Option<Output> {
        let now = self.at(now);
        if let Some(packet) = self.poll_lan() {
            let bytes = packet.len().min(room.len());
            room[..bytes].copy_from_slice(&packet[..bytes]);
            return Some(Output::Lan(bytes));
        }
        if let Some((to, datagram)) = self.replies.pop_front() {
            let bytes = datagram.len().min(room.len());
            room[..bytes].copy_from_slice(&datagram[..bytes]);
            return Some(Output::Wan { to, traffic_class: Dscp::CONTROL.get() << 2, bytes });
        }
        if let Some(router) = &mut self.router {
            router.handle_timeout(now);
            self.follow_router(now);
        }
        while let Some(&Reverse((at, number))) = self.agenda.peek() {
            if at > now {
                return None;
            }
            self.agenda.pop();
            if self.peers[number as usize].planned != at {
                continue; // stale
            }
            self.peers[number as usize].planned = Time::MAX;
            let output = self.serve(number, now, room);
            // What there is to do now is done, or there is an output, after which it is asked again.
            self.plan_from(number, if output.is_some() { now } else { now + LEAST_WAIT });
            if output.is_some() {
                return output;
            }
        }
        None
    }

    /// The next packet for hosts here, for who need not keep it; [`Self::poll_output`] gives the same ones, and a copy.
    pub fn poll_lan(&mut self) -> Option<&[u8]> {
        self.poll_lan_beside().map(|(packet, _)| packet)
    }

    /// The same, and the tunnels beside it.
    pub(crate) fn poll_lan_beside(&mut self) -> Option<(&[u8], &mut T)> {
        let (buffer, peer) = self.to_lan.pop_front()?;
        // Nobody else gets the buffer as long as the packet is looked at.
        self.store.release(buffer, peer, Way::In);
        Some((self.store.bytes(buffer), &mut self.tunnels))
    }

    /// Says goodbye to all sites; what hosts send from now on is dropped. [`Self::is_drained`] says when nothing is left.
    pub fn drain(&mut self, now: Time) {
        let now = self.at(now);
        self.is_draining = true;
        for number in 0..self.peers.len() as u32 {
            self.peers[number as usize].is_leaving = true;
            self.peers[number as usize].say(Kind::Bye, 0, &[]);
            self.plan_from(number, now);
        }
    }

    /// Whether nothing waits any more.
    pub fn is_drained(&self) -> bool {
        self.is_draining && self.store.used() == 0 && self.peers.iter().all(|peer| peer.said.is_empty())
    }

    /// Site `number` is to be found at `endpoint`, as somebody says who knows names; what it is heard from later counts more.
    pub fn find(&mut self, number: u32, endpoint: SocketAddr, now: Time) {
        let now = self.at(now);
        let peer = &mut self.peers[number as usize];
        if peer.site.via.is_none() && peer.state == peer::State::Down {
            peer.endpoint = Some(endpoint);
            self.tunnels.tunnel(number).want(now);
            self.plan(number);
        }
    }

    /// The tunnels, for another gateway with the same sites in the same order; all else ends.
    pub fn into_tunnels(self) -> T {
        self.tunnels
    }

    /// The same, of a gateway that goes on.
    pub const fn tunnels_mut(&mut self) -> &mut T {
        &mut self.tunnels
    }

    /// The same, to be looked at.
    pub const fn tunnels(&self) -> &T {
        &self.tunnels
    }

    /// From now on what becomes of packets is kept, or is not, for [`Self::fates_beside`], which is to be called after each other call then.
    pub(crate) fn keep_fates(&mut self, keeps: bool) {
        self.store.heard = keeps.then(Vec::new);
    }

    /// What became of packets, and the tunnels beside it.
    pub(crate) fn fates_beside(&mut self) -> (&mut Vec<store::Fate>, &mut T) {
        (self.store.heard.get_or_insert_default(), &mut self.tunnels)
    }

    /// What has passed to and from each site.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &peer::Counters> {
        self.peers.iter().map(|peer| &peer.counters)
    }

    /// Of each site, in the order of the configuration.
    pub fn status(&self) -> Vec<SiteStatus> {
        self.peers.iter().map(|peer| self.status_of(peer)).collect()
    }

    fn status_of(&self, peer: &Peer) -> SiteStatus {
        let rate = BitRate::from_bytes_per_second_f64;
        let link = |link: u8| {
            let report = peer.report(link)?;
            let excess = report.accumulation.filter(|_| report.egress_rate > 0.0);
            Some(LinkStatus {
                link,
                rate: peer.border.rate(report.aggregate).unwrap_or(rate(report.ingress_rate)),
                output: rate(report.egress_rate),
                rtt: report.rtt,
                excess: excess.map(|bytes| Span::from_secs_f64(bytes / report.egress_rate)),
                is_pressed: report.in_epoch.unwrap_or(false),
                backlog: peer.border.backlog(report.aggregate),
            })
        };
        SiteStatus {
            name: peer.site.name.clone(),
            state: peer.state,
            endpoint: peer.endpoint,
            mtu: peer.mtu.size(),
            links: (0..self.links.len() as u8).filter_map(link).collect(),
            counters: peer.counters,
            drops: self.store.drops(peer.number),
            marks: self.store.marks(peer.number),
            buffers: self.store.held(peer.number),
        }
    }

    /// What belongs to no site.
    pub const fn stray(&self) -> Stray {
        self.stray
    }

    /// What it was made of.
    pub const fn config(&self) -> &GatewayConfig {
        &self.config
    }

    /// Packets that wait at shapers, and others that have a buffer.
    pub fn held(&self) -> (usize, usize) {
        let shaped = self.peers.iter().map(|peer| peer.border.held_packets()).sum::<usize>();
        let hop = self.router.as_ref().map_or(0, Router::held_packets);
        (shaped + hop, self.store.used() - shaped - hop)
    }

    fn at(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    // From hosts here.

    fn on_lan(&mut self, packet: &[u8], now: Time) {
        let read = ip::read(packet)
            .filter(|read| read.bytes as usize <= packet.len() && packet.len() <= BUFFER_BYTES);
        let Some(read) = read.filter(|read| !envelope::is_message(&read.headers)) else {
            self.stray.bad_packets += 1;
            return;
        };
        let Some(number) = self.routes.peer(ip_of(read.headers.destination)).filter(|_| !self.is_draining)
        else {
            self.stray.unrouted_packets += 1;
            return;
        };
        let bytes = read.bytes as usize;
        let counters = &mut self.peers[number as usize].counters;
        counters.entered_packets += 1;
        counters.entered_bytes += bytes as u64;
        let Some(buffer) = self.store.take(number, Way::Out) else { return };
        self.store.room(buffer)[..bytes].copy_from_slice(&packet[..bytes]);
        self.store.fill(buffer, (number, Way::Out), bytes, &read);
        let mtu = self.peers[number as usize].mtu.size();
        if bytes > usize::from(mtu) {
            self.peers[number as usize].counters.too_large_packets += 1;
            self.answer_too_large(buffer, number, mtu);
            self.store.release(buffer, number, Way::Out);
            return;
        }
        self.clamp_segments(buffer, &read.headers, mtu);
        let (which, class) = self.classify(&read.headers);
        let mut entering = Packet {
            ecn: read.headers.ecn,
            dscp: read.headers.dscp,
            class,
            ttl: read.ttl,
            // Not a port of the router: these are hosts.
            in_port: u16::MAX,
            ..Packet::new(buffer.0, self.flow_of(&read), outer_bytes(bytes))
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
    fn hold(&mut self, packet: Packet, headers: &Headers, number: u32, now: Time) {
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

    /// Flows are told apart by a keyed hash, so that there is no table that could be filled. Fragments have no ports but the first, so
    /// that none counts.
    fn flow_of(&self, read: &Read) -> FlowId {
        let headers = if read.fragment.is_some() {
            Headers { source_port: 0, destination_port: 0, ..read.headers }
        } else {
            read.headers
        };
        FlowId((self.hash.hash_one(headers.flow_key()) % u64::from(self.config.flows.max(1))) as u32)
    }

    /// Hosts send segments no larger than the path takes (RFC 4459, section 3.2).
    fn clamp_segments(&mut self, buffer: Buffer, headers: &Headers, mtu: u16) {
        if headers.protocol != Protocol::TCP {
            return;
        }
        let around = match headers.source {
            tidegate_packet::Address::V4(_) => SEGMENT_HEADERS_V4,
            tidegate_packet::Address::V6(_) => SEGMENT_HEADERS_V6,
        };
        if let Some(mut segment) = self.store.segment_in(buffer) {
            segment.limit_segment_size(mtu - around);
        }
    }

    /// Tells the sender of the packet in `buffer` that it may have no more than `mtu` bytes.
    fn answer_too_large(&mut self, buffer: Buffer, number: u32, mtu: u16) {
        let here4 = self.config.address4.map_or([0; 4], |address| address.octets());
        let here6 = self.config.address6.map_or([0; 16], |address| address.octets());
        let mut answer = [0; 1280];
        let length =
            icmp::answer(self.store.bytes(buffer), Trouble::TooBig(mtu), (here4, here6), &mut answer);
        let Some(length) = length else { return };
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

    // To other sites.

    /// The next that goes to site `number`, in `room`.
    fn serve(&mut self, number: u32, now: Time, room: &mut [u8]) -> Option<Output> {
        loop {
            let is_up = self.tunnels.tunnel(number).is_up(now);
            let peer = &mut self.peers[number as usize];
            peer.on_session(is_up, &mut self.store, now);
            peer.advance(&mut self.store, now);
            let sealed = if let Some(bytes) = self.tunnels.tunnel(number).poll(now, room) {
                Sealed { bytes, class: 0, codepoint: Dscp::CONTROL, ecn: Ecn::NotEct, is_data: false }
            } else if is_up {
                self.seal_next(number, now, room)?
            } else {
                self.peers[number as usize].hush(&mut self.message);
                return None;
            };
            let Peer { counters, site, endpoint, .. } = &mut self.peers[number as usize];
            if !sealed.is_data {
                counters.said_messages += 1;
                counters.said_bytes += sealed.bytes as u64 + u64::from(OUTER_HEADER_BYTES);
            }
            if let Some(via) = site.via {
                self.wrap(number, via, &sealed, now, room);
                continue;
            }
            let Some(to) = *endpoint else { continue };
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
        let headers = tidegate_mechanism::edge::PacketStore::headers(&self.store, &packet);
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
        peer.on_sent(now);
        let codepoint = self.links[usize::from(link)];
        Some(Sealed { bytes, class: packet.class, codepoint, ecn: outer, is_data: true })
    }

    // By way of others.

    /// The datagram for site `number` in `room` is wrapped for the one that passes it on.
    fn wrap(&mut self, number: u32, via: u32, sealed: &Sealed, now: Time, room: &[u8]) {
        let head =
            Head { from: self.config.id, to: self.peers[number as usize].site.id, class: sealed.class };
        self.pass_on(head, &room[..sealed.bytes], number, via, now);
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
            class: head.class,
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
    fn on_relay(&mut self, number: u32, body: &[u8], now: Time) {
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
    fn tell_drops(&mut self, now: Time) {
        let Some(router) = &mut self.router else { return };
        for (peer, packet, headers, why) in self.store.dropped.drain(..) {
            router.handle_drop(&packet, &headers, PortId(peer as u16), why, false, now);
        }
    }

    /// Does what the mechanism between neighbours asks for.
    fn follow_router(&mut self, now: Time) {
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
                    let headers = tidegate_mechanism::edge::PacketStore::headers(&self.store, &packet);
                    self.hold(packet, &headers, u32::from(port.0), now);
                }
            }
        }
        self.message = message;
    }

    // From other sites.

    /// `datagram` came from `from`, or by way of another site from the tunnel of `through`.
    fn on_wan(
        &mut self,
        datagram: &[u8],
        from: Option<SocketAddr>,
        traffic_class: u8,
        through: Option<u32>,
        now: Time,
    ) {
        let nobody = SocketAddr::new(IpAddr::from([0; 4]), 0);
        let addressed = self.tunnels.addressed(datagram, from.unwrap_or(nobody), now, &mut self.scratch);
        let number = match addressed {
            Addressed::Peer(number) => number,
            Addressed::Reply(bytes) => {
                if let Some(from) = from.filter(|_| self.replies.len() < REPLIES_MAX) {
                    self.replies.push_back((from, self.scratch[..bytes].to_vec()));
                }
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
        let mut opening = std::mem::take(&mut self.opening);
        // What came in a message of another site is opened while that is.
        opening.resize(BUFFER_BYTES, 0);
        let opened = self.tunnels.tunnel(number).open(datagram, from.unwrap_or(nobody), now, &mut opening);
        let outer = datagram.len() as u32 + OUTER_HEADER_BYTES;
        match opened {
            Opened::Refused(why) => {
                // Not even the agenda has another entry: what strangers send leaves nothing but a count.
                self.peers[number as usize].counters.refused[why as usize] += 1;
                self.opening = opening;
                return;
            }
            // Whoever said it may be anywhere.
            Opened::Noted => {}
            Opened::Handshake => self.follow(from, number, now),
            Opened::Packet(bytes) => {
                self.follow(from, number, now);
                self.on_opened(&opening[..bytes], number, outer, traffic_class, now);
            }
        }
        self.opening = opening;
        self.plan_from(number, now);
    }

    /// Site `number` spoke from `from`: it is there now.
    fn follow(&mut self, from: Option<SocketAddr>, number: u32, now: Time) {
        if let Some(from) = from {
            self.peers[number as usize].on_moved(from, &mut self.store, now);
        }
    }

    /// `inside` was in a datagram of site `number`, which takes `outer` bytes on the wire.
    fn on_opened(&mut self, inside: &[u8], number: u32, outer: u32, traffic_class: u8, now: Time) {
        if inside.is_empty() {
            return;
        }
        match ip::read(inside).filter(|read| read.bytes as usize <= inside.len()) {
            Some(read) if envelope::is_message(&read.headers) => {
                self.on_message(inside, number, outer, &read, now);
            }
            Some(read) if self.routes.peer(ip_of(read.headers.source)) == Some(number) => {
                let bytes = read.bytes as usize;
                let Some(buffer) = self.store.take(number, Way::In) else { return };
                self.store.room(buffer)[..bytes].copy_from_slice(&inside[..bytes]);
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

    fn on_packet(
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

    // The agenda.

    fn plan(&mut self, number: u32) {
        self.plan_from(number, self.latest);
    }

    /// Site `number` has something to do when it says, and not before `least`.
    fn plan_from(&mut self, number: u32, least: Time) {
        let is_up = self.tunnels.tunnel(number).is_up(self.latest);
        let tunnel = self.tunnels.tunnel(number).timeout().unwrap_or(Time::MAX);
        let peer = &mut self.peers[number as usize];
        let changed = is_up == (peer.state == peer::State::Down);
        let at = if changed { Time::ZERO } else { peer.next_at().min(tunnel) };
        let at = at.max(least);
        if at != peer.planned {
            peer.planned = at;
            if at != Time::MAX {
                self.agenda.push(Reverse((at, number)));
            }
            // Changes leave stale entries behind.
            if self.agenda.len() > 64 + 4 * self.peers.len() {
                let peers = &self.peers;
                self.agenda.retain(|&Reverse((due, other))| peers[other as usize].planned == due);
            }
        }
    }
}

/// A datagram in the room.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    bytes: usize,
    class: u8,
    codepoint: Dscp,
    ecn: Ecn,
    is_data: bool,
}

/// Messages with more would be no packets of the least size that every path takes.
const _: () = assert!(HEADER_BYTES + ENVELOPE_BYTES < mtu::BASE as usize);
