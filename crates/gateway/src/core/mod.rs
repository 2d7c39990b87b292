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

mod arrive;
pub mod config;
pub mod ends;
mod enter;
pub mod envelope;
#[cfg(test)]
mod hostile;
mod leave;
pub mod mtu;
pub mod peer;
mod relay;
mod remembered;
pub(crate) mod routes;
pub mod status;
pub mod store;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use tidegate_mechanism::Context;
use tidegate_mechanism::hop::Router;
use tidegate_mechanism::mark::AnyMarker;
use tidegate_mechanism::random::{KeyedHash, Seed};
use tidegate_packet::{Dscp, FlowId, FlowKey};
use tidegate_units::{BitRate, Span, Time};
use tidegate_wire::Buffer;

use self::config::GatewayConfig;
use self::ends::{Ends, Home, Near};
use self::envelope::{ENVELOPE_BYTES, HEADER_BYTES, Kind};
use self::peer::Peer;
use self::remembered::Remembered;
use self::routes::Routes;
use self::status::{LinkStatus, SiteStatus};
use self::store::{BUFFER_BYTES, Store, Way};
use crate::tunnel::{Refusal, Tunnel, Tunnels, sealed_bytes};

/// IPv4 and UDP around a datagram. Both ends count with these, whatever is really around it, so that they agree.
pub const OUTER_HEADER_BYTES: u32 = 28;
/// So many flows have a shaper of their own, of all sites together, where a mechanism (NBP) shapes flows: each takes about a kilobyte, and is
/// one as soon as a host says a packet.
const FLOWS_MAX: u32 = 1 << 16;
/// A gateway that finds nothing to do at a time for which it asked comes back after this at the earliest.
const LEAST_WAIT: Span = Span::from_micros(10);

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
        /// From where, and to which of our addresses.
        from: Ends,
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
        /// Where to, and from which of our addresses.
        to: Ends,
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

impl Stray {
    /// That of two gateways.
    pub fn and(&self, other: &Self) -> Self {
        let mut all = *self;
        all.bad_packets += other.bad_packets;
        all.unrouted_packets += other.unrouted_packets;
        all.unrelayed += other.unrelayed;
        for (one, count) in all.refused.iter_mut().zip(other.refused) {
            *one += count;
        }
        all
    }
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
    flows: Remembered<FlowKey, FlowId>,
    behind: Remembered<IpAddr, Option<u32>>,
    router: Option<Router>,
    /// When which peer has something to do; may hold stale entries.
    agenda: BinaryHeap<Reverse<(Time, u32)>>,
    to_lan: VecDeque<(Buffer, u32)>,
    replies: VecDeque<(Ends, Vec<u8>)>,
    stray: Stray,
    /// The latest instant that it was told.
    latest: Time,
    is_draining: bool,
    /// Where messages and datagrams are written before they are sealed or wrapped.
    message: Vec<u8>,
    scratch: Vec<u8>,
    /// The message that is heard.
    heard: Vec<u8>,
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
                (links.len() as u8, config.mtu, (FLOWS_MAX / config.sites.len() as u32).max(1)),
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
            flows: Remembered::default(),
            behind: Remembered::default(),
            router,
            agenda: BinaryHeap::new(),
            to_lan: VecDeque::new(),
            replies: VecDeque::new(),
            stray: Stray::default(),
            latest: now,
            is_draining: false,
            message: Vec::new(),
            scratch: vec![0; BUFFER_BYTES],
            heard: Vec::new(),
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
        if peer.site.via.is_none() && (peer.endpoint.is_none() || peer.state == peer::State::Down) {
            peer.endpoint = Some(endpoint);
            peer.home.forget();
            self.tunnels.tunnel(number).want(now);
            self.plan(number);
        }
    }

    /// Site `number` is answered from where a gateway before answered it.
    pub fn settle(&mut self, number: u32, home: Home) {
        self.peers[number as usize].home = home;
    }

    /// See [`Home::on_routes`], of site `number`.
    pub fn on_routes(&mut self, number: u32, near: Near, is_elsewhere: bool) {
        self.peers[number as usize].home.on_routes(near, is_elsewhere);
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
            state: if peer.is_leaving { peer::State::Drained } else { peer.state },
            via: peer.site.via.map(|via| self.config.sites[via as usize].name.clone()),
            endpoint: peer.endpoint,
            home: peer.home,
            mtu: peer.mtu.size(),
            mtu_most: peer.mtu.most(),
            takes_base: peer.mtu.takes_base(),
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

    /// Who is behind `address`.
    fn peer_behind(&mut self, address: IpAddr) -> Option<u32> {
        let at = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        self.behind.get(address, at, || self.routes.peer(address))
    }

    // The agenda.

    fn plan(&mut self, number: u32) {
        // It is served by then in any case, and asked again.
        if self.peers[number as usize].planned > self.latest {
            self.plan_from(number, self.latest);
        }
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

/// Messages with more would be no packets of the least size that every path takes.
const _: () = assert!(HEADER_BYTES + ENVELOPE_BYTES < mtu::BASE as usize);
