//! A pair of gateways with traffic, once left alone and once under attack, at the same instants: all that is to be seen of both worlds
//! must be the same at the end, bit by bit.
//!
//! `TIDEGATE_FORGED` says how many datagrams are forged, and as many are repeated (`make torture`: a million of each).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::Hasher as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::PacketBuilder;
use siphasher::sip::SipHasher24;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::path::PathConfig;
use tidegate_mechanism::random::Substream;

use super::config::{RateConfig, SiteConfig};
use super::peer::State;
use super::*;
use crate::tunnel::plain::PlainTunnels;

const WAY: Span = Span::from_millis(10);
const STEP: Span = Span::from_millis(1);
/// The pair is left to itself before, and after.
const CALM: u32 = 500;
/// In how many steps it is attacked.
const STEPS: u64 = 2000;
/// Genuine datagrams that are kept for repetition.
const KEPT: usize = 512;

fn address(site: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2, site as u8 + 1]), 51820)
}

fn config(here: usize) -> GatewayConfig {
    let there = 1 - here;
    let control = PathConfig { initial_rate: Some(BitRate::from_mbps(5)), ..PathConfig::default() };
    GatewayConfig {
        id: 1000 + here as u64,
        address4: Some(Ipv4Addr::new(10, here as u8, 0, 1)),
        address6: None,
        sites: vec![SiteConfig {
            name: "there".to_owned(),
            id: 1000 + there as u64,
            endpoint: Some(address(there)),
            networks: vec![format!("10.{there}.0.0/16").parse().expect("it is a network")],
            control: Some(EdgeConfig::Path(Box::new(control))),
            rate: RateConfig {
                floor: BitRate::from_mbps(1),
                max: BitRate::from_mbps(100),
                fallback: BitRate::from_mbps(2),
            },
            via: None,
        }],
        classes: Vec::new(),
        buffers: 256,
        mtu: 1420,
        flows: 64,
        relay: None,
        seed: 5 + here as u64,
    }
}

impl<T: Tunnels> Gateway<T> {
    pub(super) fn refused(&self) -> u64 {
        let of_peers = self.peers.iter().flat_map(|peer| &peer.counters.refused);
        of_peers.chain(&self.stray.refused).sum()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

struct Pair<T> {
    gateways: [Gateway<T>; 2],
    now: Time,
    under_way: BTreeMap<(Time, u64), (usize, u8, Vec<u8>)>,
    sent: u64,
    /// When which packet came out where, as one number.
    delivered: SipHasher24,
    count: u64,
    /// What each has been given, to be repeated: the first ones, which are handshakes, and the latest.
    given: [Vec<Vec<u8>>; 2],
}

impl<T: Tunnels> Pair<T> {
    fn new(tunnels: [T; 2]) -> Self {
        let [one, other] = tunnels;
        Self {
            gateways: [Gateway::new(config(0), one, Time::ZERO), Gateway::new(config(1), other, Time::ZERO)],
            now: Time::ZERO,
            under_way: BTreeMap::new(),
            sent: 0,
            delivered: SipHasher24::new(),
            count: 0,
            given: [Vec::new(), Vec::new()],
        }
    }

    fn collect(&mut self) {
        let mut room = [0; BUFFER_BYTES];
        for here in 0..2 {
            while let Some(output) = self.gateways[here].poll_output(self.now, &mut room) {
                match output {
                    Output::Lan(bytes) => {
                        self.count += 1;
                        self.delivered.write_u64(self.now.as_nanos());
                        self.delivered.write_u8(here as u8);
                        self.delivered.write(&room[..bytes]);
                    }
                    Output::Wan { to, traffic_class, bytes } if to.far == address(1 - here) => {
                        self.sent += 1;
                        let datagram = (1 - here, traffic_class, room[..bytes].to_vec());
                        self.under_way.insert((self.now + WAY, self.sent), datagram);
                    }
                    Output::Wan { bytes, .. } => assert_eq!(bytes, 64, "strangers get cookies at most"),
                }
            }
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            self.collect();
            let datagram = self.under_way.keys().next().map(|(at, _)| *at);
            let due = self.gateways.iter().filter_map(Gateway::poll_timeout).chain(datagram).min();
            let Some(at) = due.filter(|&at| at <= until) else { break };
            self.now = self.now.max(at);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, traffic_class, bytes) = entry.remove();
                let from = address(1 - to);
                self.gateways[to]
                    .handle(Input::Wan { from: from.into(), traffic_class, datagram: &bytes }, self.now);
                let given = &mut self.given[to];
                if given.len() < KEPT {
                    given.push(bytes);
                } else {
                    given[16 + self.sent as usize % (KEPT - 16)] = bytes;
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// A millisecond with a large packet one way and a small one the other way.
    fn step(&mut self, number: u32) {
        for (from, bytes) in [(0, 1000), (1, 200)] {
            let mut packet = Vec::new();
            let (source, sink) = ([10, from, 0, 9], [10, 1 - from, 0, 9]);
            PacketBuilder::ipv4(source, sink, 60)
                .udp(number as u16 % 50, 7)
                .write(&mut packet, &vec![number as u8; bytes])
                .expect("there is room");
            self.gateways[usize::from(from)].handle(Input::Lan(&packet), self.now);
        }
        self.run(self.now + STEP);
    }

    /// All that there is of both, but for counts of what was refused and for what is written over before it is read.
    fn state(&mut self, observed: impl Fn(&T) -> String) -> String {
        let mut text = format!("{:?} {} {}", self.now, self.count, self.delivered.finish());
        for gateway in &mut self.gateways {
            for peer in &mut gateway.peers {
                peer.counters.refused = Default::default();
            }
            let mut agenda: Vec<_> = gateway.agenda.iter().collect();
            agenda.sort();
            // Stale entries count for nothing.
            agenda.retain(|Reverse((at, number))| gateway.peers[*number as usize].planned == *at);
            let Gateway { peers, routes, store, links, router, to_lan, replies, is_draining, latest, .. } =
                gateway;
            let _ = write!(
                text,
                "{peers:?} {routes:?} {store:?} {links:?} {router:?} {agenda:?} {to_lan:?} {replies:?} {is_draining} {latest} {}",
                observed(&gateway.tunnels)
            );
        }
        text
    }
}

/// What strangers may make of what they have seen.
struct Attacker {
    random: Substream,
    /// Handshakes of keys that nobody knows, with a first code that is right.
    strangers: Vec<Vec<u8>>,
}

impl Attacker {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.bits() % bound as u64) as usize
    }

    fn address(&mut self, there: usize) -> SocketAddr {
        // Often the other end's own, which can be pretended.
        if self.below(2) == 0 {
            address(there)
        } else {
            SocketAddr::from((Ipv4Addr::from(self.random.bits() as u32), 9))
        }
    }

    /// One of those that were `given`, as it was.
    fn repeated<'a>(&mut self, given: &'a [Vec<u8>]) -> &'a [u8] {
        // A quarter are the first ones, among which are handshakes.
        let bound = if self.below(4) == 0 { 8 } else { given.len() };
        &given[self.below(bound.min(given.len()))]
    }

    fn forged(&mut self, given: &[Vec<u8>]) -> Vec<u8> {
        let mut datagram = self.repeated(given).to_vec();
        let length = datagram.len();
        match self.below(12) {
            0..=2 => {
                let bit = self.below(length * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            3 => datagram.truncate(self.below(length)),
            4 => datagram.extend_from_slice(&self.random.bits().to_le_bytes()),
            // Another session, or another number in it.
            5 => datagram[4..8].copy_from_slice(&(self.random.bits() as u32).to_le_bytes()),
            6 => datagram[4] = datagram[4].wrapping_add(1 + self.below(255) as u8),
            7 => datagram[8..16].copy_from_slice(&self.random.bits().to_le_bytes()),
            8 => {
                let next = u64::from_le_bytes(datagram[8..16].try_into().expect("there are eight"));
                let number = next.wrapping_add(1 + self.random.bits() % 4096);
                datagram[8..16].copy_from_slice(&number.to_le_bytes());
            }
            // A cookie, for the session that is in use.
            9 => {
                datagram.resize(64, 7);
                datagram[..4].copy_from_slice(&[3, 0, 0, 0]);
            }
            10 => {
                datagram = vec![0; self.below(1600)];
                datagram.fill_with(|| self.random.bits() as u8);
                if let Some(head) = datagram.first_chunk_mut::<4>() {
                    *head = [self.random.bits() as u8 % 5, 0, 0, 0];
                }
            }
            _ => {
                if !self.strangers.is_empty() {
                    let which = self.below(self.strangers.len());
                    datagram.clone_from(&self.strangers[which]);
                }
            }
        }
        // What happens to be genuine is no forgery.
        if given.contains(&datagram) { vec![4, 0, 0, 0] } else { datagram }
    }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}

fn leaves_nothing<T: Tunnels>(
    name: &str,
    make: impl Fn() -> [T; 2],
    strangers: Vec<Vec<u8>>,
    observed: impl Fn(&T) -> String + Copy,
) {
    let forged: u64 =
        std::env::var("TIDEGATE_FORGED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut attacker = Attacker { random: Substream::new(Seed(77)), strangers };
    let mut hashes = [0; 2];
    let mut texts = [String::new(), String::new()];
    for is_attacked in [false, true] {
        let mut pair = Pair::new(make());
        (0..CALM).for_each(|number| pair.step(number));
        let (began, mut told, mut answers) = (resident_bytes(), 0, 0);
        for step in 0..STEPS {
            pair.step(CALM + step as u32);
            while is_attacked && told < forged * (step + 1) / STEPS {
                told += 1;
                let here = (told % 2) as usize;
                let before = pair.gateways[here].status();
                let given = std::mem::take(&mut pair.given[here]);
                for datagram in [&attacker.forged(&given)[..], attacker.repeated(&given)] {
                    let input =
                        Input::Wan { from: attacker.address(1 - here).into(), traffic_class: 3, datagram };
                    let gateway = &mut pair.gateways[here];
                    let counted = gateway.refused();
                    let waiting = gateway.replies.len();
                    gateway.handle(input, pair.now);
                    answers += (gateway.replies.len() - waiting) as u64;
                    assert_eq!(
                        gateway.refused() + gateway.replies.len() as u64,
                        counted + waiting as u64 + 1
                    );
                }
                pair.given[here] = given;
                if told % 64 == 0 {
                    pair.collect();
                    // Not even for a moment.
                    let after = pair.gateways[here].status();
                    assert_eq!((before[0].endpoint, before[0].state), (after[0].endpoint, after[0].state));
                }
            }
        }
        let grown = resident_bytes().saturating_sub(began);
        (0..CALM).for_each(|number| pair.step(number));
        texts[usize::from(is_attacked)] = pair.state(observed);
        hashes[usize::from(is_attacked)] = hash(&texts[usize::from(is_attacked)]);
        assert_eq!(pair.gateways[0].status()[0].state, State::Controlled);
        assert!(pair.count > 4000, "packets go on: {}", pair.count);
        if is_attacked {
            assert_eq!(told, forged);
            println!(
                "{name}: {forged} forged and {forged} repeated, {} refused, {answers} answered with a cookie, \
                 {} kB more memory; state {:016x} without, {:016x} with",
                2 * forged - answers,
                grown >> 10,
                hashes[0],
                hashes[1]
            );
            if forged >= 1_000_000 {
                assert!(grown < 8 << 20, "{grown}");
            }
            moves_with_who_is_known(&mut pair, &mut attacker);
        }
    }
    let differs = texts[0].bytes().zip(texts[1].bytes()).position(|(one, other)| one != other).unwrap_or(0);
    let from = differs.saturating_sub(200);
    let near =
        texts.each_ref().map(|text| text.get(from..(differs + 100).min(text.len())).unwrap_or_default());
    assert_eq!(hashes[0], hashes[1], "{near:#?}");
}

/// The place of the other end, and where it is answered from, follow what is genuine and new, and nothing else.
fn moves_with_who_is_known<T: Tunnels>(pair: &mut Pair<T>, attacker: &mut Attacker) {
    let elsewhere = SocketAddr::from(([198, 51, 100, 7], 1));
    let near = |last| Some(Near { address: [192, 0, 2, last].into(), interface: 2 });
    let (_, (_, traffic_class, datagram)) =
        pair.under_way.iter().find(|(_, (to, ..))| *to == 1).expect("something is under way");
    let (traffic_class, datagram) = (*traffic_class, datagram.clone());
    for bit in [0, 33, 70, 130, datagram.len() * 8 - 1] {
        let mut forged = datagram.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let from = Ends { far: elsewhere, near: near(9) };
        pair.gateways[1].handle(Input::Wan { from, traffic_class, datagram: &forged }, pair.now);
        let status = &pair.gateways[1].status()[0];
        assert_eq!((status.endpoint, status.home.heard()), (Some(address(0)), None));
    }
    let genuine = Ends { far: elsewhere, near: near(1) };
    pair.gateways[1].handle(Input::Wan { from: genuine, traffic_class, datagram: &datagram }, pair.now);
    let followed = |of: &Pair<T>| {
        let status = &of.gateways[1].status()[0];
        (status.endpoint, status.home.heard())
    };
    assert_eq!(followed(pair), (Some(elsewhere), near(1)));
    for last in 0..100 {
        let from = Ends { far: attacker.address(0), near: near(last) };
        pair.gateways[1].handle(Input::Wan { from, traffic_class, datagram: &datagram }, pair.now);
        assert_eq!(followed(pair), (Some(elsewhere), near(1)));
    }
}

#[test]
fn forged_and_repeated_datagrams_leave_no_trace_in_a_gateway() {
    let tunnels = |here: u64| PlainTunnels::new(&[(3, 4)], None, 1, Seed(here));
    leaves_nothing("plain", || [tunnels(1), tunnels(2)], Vec::new(), |tunnels| format!("{tunnels:?}"));
}

#[cfg(feature = "wireguard")]
#[test]
fn forged_and_repeated_datagrams_leave_no_trace_with_wireguard() {
    use crate::tunnel::wireguard::{PeerKeys, PrivateKey, WireguardTunnels};

    let key = |number: u8| PrivateKey::from([number; 32]);
    let make = |own: &PrivateKey, other: &PrivateKey| {
        let peers = [PeerKeys { public: other.public(), shared: None, keepalive: None }];
        WireguardTunnels::new(own, &peers, Time::ZERO).expect("there is randomness")
    };
    let stranger = |number: u8| {
        let mut tunnels = make(&key(number), &key(1 + number % 2));
        let mut room = [0; BUFFER_BYTES];
        tunnels.tunnel(0).want(Time::ZERO);
        let length = tunnels.tunnel(0).poll(Time::ZERO, &mut room).expect("it asks");
        room[..length].to_vec()
    };
    leaves_nothing(
        "wireguard",
        || [make(&key(1), &key(2)), make(&key(2), &key(1))],
        (10..40).map(stranger).collect(),
        WireguardTunnels::observed,
    );
}
