//! Gateways that talk to each other over a wire that only takes time, and what becomes of packets there.

mod classes;
mod disturbed;
mod limits;
mod peers;
mod relays;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::PacketBuilder;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::fixed::FixedConfig;
use tidegate_mechanism::edge::path::PathConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_packet::{Ecn, Protocol};
use tidegate_wire::ip;

use super::config::{RateConfig, SiteConfig};
use super::envelope::Envelope;
use super::peer::State;
use super::*;
use crate::tunnel::plain::PlainTunnels;

/// What is on its way: to which gateway, from where, its traffic class, and its bytes.
type Datagram = (usize, SocketAddr, u8, Vec<u8>);

/// How long a datagram takes.
const WAY: Span = Span::from_millis(10);

fn address(site: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2, site as u8 + 1]), 51820)
}
fn host(site: usize) -> [u8; 4] {
    [10, site as u8 + 1, 0, 9]
}
fn id(site: usize) -> u64 {
    1000 + site as u64
}
fn secret(one: usize, other: usize) -> (u64, u64) {
    let (low, high) = (one.min(other) as u64, one.max(other) as u64);
    (low * 1000 + high + 77, low * 777 + high + 3)
}

/// Site `here` of `sites`, with `control` towards each other; `via` says who passes on between which two.
fn config(here: usize, sites: usize, control: Option<&EdgeConfig>, via: Option<usize>) -> GatewayConfig {
    let others = (0..sites).filter(|&other| other != here);
    let site = |other: usize| {
        let relayed = via.filter(|&via| via != here && via != other);
        SiteConfig {
            name: format!("site{other}"),
            id: id(other),
            endpoint: relayed.is_none().then(|| address(other)),
            networks: vec![format!("10.{}.0.0/16", other + 1).parse().expect("it is a network")],
            control: control.cloned().filter(|_| relayed.is_none()),
            rate: RateConfig {
                floor: BitRate::from_bps(100_000),
                max: BitRate::from_mbps(100),
                fallback: BitRate::from_mbps(2),
            },
            // Numbers are those without the gateway itself.
            via: relayed.map(|by| (by - usize::from(by > here)) as u32),
        }
    };
    GatewayConfig {
        id: id(here),
        address4: Some(Ipv4Addr::new(10, here as u8 + 1, 0, 1)),
        address6: None,
        sites: others.map(site).collect(),
        classes: Vec::new(),
        buffers: 1024,
        mtu: 1420,
        flows: 1024,
        relay: via.map(|_| HopConfig::Nbq(Box::default())),
        seed: 7 + here as u64,
    }
}

fn path() -> EdgeConfig {
    EdgeConfig::Path(Box::new(PathConfig {
        initial_rate: Some(BitRate::from_mbps(5)),
        ..PathConfig::default()
    }))
}

struct World {
    gateways: Vec<Gateway<PlainTunnels>>,
    now: Time,
    /// By when they arrive, and in which order they were sent.
    under_way: BTreeMap<(Time, u64), Datagram>,
    sent: u64,
    /// What hosts got: when, where, and the packet.
    delivered: Vec<(Time, usize, Vec<u8>)>,
    /// All that was on the wire, with where it went.
    wire: Vec<Datagram>,
    /// From where gateways are seen; and whether what they send gets lost.
    seen_as: Vec<SocketAddr>,
    is_cut: bool,
    /// At which of its addresses each is reached, and from which it has sent last.
    reached_at: Vec<Option<Near>>,
    sent_from: Vec<Option<Near>>,
    /// Calls for output.
    polls: u64,
}

impl World {
    fn new(configs: Vec<GatewayConfig>) -> Self {
        let sites = configs.len();
        let gateways =
            configs.into_iter().enumerate().map(|(here, config)| start(here, sites, config, Time::ZERO));
        Self {
            gateways: gateways.collect(),
            now: Time::ZERO,
            under_way: BTreeMap::new(),
            sent: 0,
            delivered: Vec::new(),
            wire: Vec::new(),
            seen_as: (0..sites).map(address).collect(),
            is_cut: false,
            reached_at: vec![None; sites],
            sent_from: vec![None; sites],
            polls: 0,
        }
    }

    fn two(control: Option<&EdgeConfig>) -> Self {
        Self::new(vec![config(0, 2, control, None), config(1, 2, control, None)])
    }

    /// Everything up to `until`.
    fn run(&mut self, until: Time) {
        loop {
            self.collect();
            let datagram = self.under_way.keys().next().map(|(at, _)| *at);
            let due = self.gateways.iter().filter_map(Gateway::poll_timeout).chain(datagram).min();
            let Some(at) = due.filter(|&at| at <= until) else { break };
            self.now = self.now.max(at);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, from, traffic_class, bytes) = entry.remove();
                let from = Ends { far: from, near: self.reached_at[to] };
                self.gateways[to].handle(Input::Wan { from, traffic_class, datagram: &bytes }, self.now);
            }
        }
        self.now = self.now.max(until);
    }

    fn collect(&mut self) {
        let mut room = [0; BUFFER_BYTES];
        for here in 0..self.gateways.len() {
            loop {
                self.polls += 1;
                match self.gateways[here].poll_output(self.now, &mut room) {
                    None => break,
                    Some(Output::Lan(bytes)) => self.delivered.push((self.now, here, room[..bytes].to_vec())),
                    Some(Output::Wan { to, traffic_class, bytes }) => {
                        self.sent_from[here] = to.near;
                        let Some(to) = self.seen_as.iter().position(|seen| *seen == to.far) else { continue };
                        let datagram = (to, self.seen_as[here], traffic_class, room[..bytes].to_vec());
                        self.wire.push(datagram.clone());
                        if !self.is_cut {
                            self.sent += 1;
                            self.under_way.insert((self.now + WAY, self.sent), datagram);
                        }
                    }
                }
            }
        }
    }

    fn run_for(&mut self, span: Span) {
        self.run(self.now + span);
    }

    fn send(&mut self, from: usize, packet: &[u8]) {
        self.gateways[from].handle(Input::Lan(packet), self.now);
    }

    /// A packet of 1000 bytes every millisecond from one site to another, for `millis`.
    fn load(&mut self, from: usize, to: usize, millis: u64) {
        for number in 0..millis {
            self.send(from, &udp(from, to, number as u16, 972, 0));
            self.run_for(Span::from_millis(1));
        }
    }

    fn state(&self, here: usize) -> State {
        self.gateways[here].status()[0].state
    }
}

fn start(here: usize, sites: usize, mut config: GatewayConfig, now: Time) -> Gateway<PlainTunnels> {
    // Each life draws anew.
    config.seed += now.as_nanos();
    let secrets: Vec<_> =
        (0..sites).filter(|&other| other != here).map(|other| secret(here, other)).collect();
    let tunnels = PlainTunnels::new(&secrets, None, now.as_nanos() * 2, Seed(here as u64 + now.as_nanos()));
    Gateway::new(config, tunnels, now)
}

/// A packet with `payload` bytes behind 28 of headers, between the hosts of two sites.
fn udp(from: usize, to: usize, port: u16, payload: usize, traffic_class: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let data: Vec<u8> = (0..payload).map(|at| (at as u8).wrapping_mul(31) ^ 0xa5).collect();
    PacketBuilder::ipv4(host(from), host(to), 60)
        .udp(port, 7)
        .write(&mut bytes, &data)
        .expect("there is room");
    ip::write(&mut bytes, Ecn::from_bits(traffic_class), Dscp::new(traffic_class >> 2), 60);
    bytes
}

#[test]
fn packets_for_hosts_are_the_same_with_and_without_a_copy() {
    let packets: Vec<Vec<u8>> =
        (0..5).map(|number| udp(0, 1, number, 200 + usize::from(number), 0)).collect();
    let arrived = |copies: bool| {
        let mut world = World::two(None);
        world.run_for(Span::from_secs(1));
        // Handed over to the other end by hand, of which packets for hosts are taken one way or the other.
        let mut room = [0; BUFFER_BYTES];
        let mut came = Vec::new();
        for packet in &packets {
            world.send(0, packet);
            while let Some(output) = world.gateways[0].poll_output(world.now, &mut room) {
                let Output::Wan { traffic_class, bytes, .. } = output else { continue };
                let input = Input::Wan { from: address(0).into(), traffic_class, datagram: &room[..bytes] };
                world.gateways[1].handle(input, world.now);
            }
        }
        if copies {
            while let Some(output) = world.gateways[1].poll_output(world.now, &mut room) {
                let Output::Lan(bytes) = output else { continue };
                came.push(room[..bytes].to_vec());
            }
        } else {
            while let Some(packet) = world.gateways[1].poll_lan() {
                came.push(packet.to_vec());
            }
            assert_eq!(world.gateways[1].held(), (0, 0), "their buffers are free");
        }
        came
    };
    assert_eq!(arrived(true).len(), packets.len());
    assert_eq!(arrived(false), arrived(true));
}

#[test]
fn a_packet_reaches_the_other_site_as_it_was_and_nothing_of_it_is_seen_on_the_way() {
    for control in
        [None, Some(path()), Some(EdgeConfig::Fixed(Box::new(FixedConfig::with(BitRate::from_mbps(5)))))]
    {
        let mut world = World::two(control.as_ref());
        let packet = udp(0, 1, 5000, 1000, 0);
        world.send(0, &packet);
        world.run_for(Span::from_secs(1));
        assert_eq!(world.delivered.len(), 1, "{control:?}");
        assert_eq!((world.delivered[0].1, &world.delivered[0].2), (1, &packet));
        let clear = &packet[100..116];
        assert!(world.wire.iter().all(|(.., bytes)| !bytes.windows(16).any(|window| window == clear)));
    }
}

#[test]
fn what_enters_is_sent_dropped_or_held() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_millis(500));
    for number in 0..3000 {
        world.send(0, &udp(0, 1, number, 900, 0));
        if number % 7 == 0 {
            world.run_for(Span::from_micros(300));
        }
        let status = &world.gateways[0].status()[0];
        let (shaped, other) = world.gateways[0].held();
        let gone = status.counters.sent_packets + status.drops.total() + (shaped + other) as u64;
        assert_eq!(status.counters.entered_packets, gone, "{status:?}");
    }
    world.run_for(Span::from_secs(60));
    assert_eq!(world.gateways[0].held(), (0, 0));
    assert_eq!(world.gateways[1].status()[0].counters.received_packets as usize, world.delivered.len());
}

#[test]
fn hosts_that_pretend_and_sites_that_send_for_others_are_not_heard() {
    let mut world = World::two(None);
    world.run_for(Span::from_millis(100));
    // From a network that is not behind site 0.
    world.send(0, &{
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv4([172, 16, 0, 1], host(1), 60).udp(1, 2);
        builder.write(&mut bytes, &[0; 100]).expect("there is room");
        bytes
    });
    // A message of a gateway from a host.
    let mut room = [0; 200];
    let envelope = Envelope { kind: Kind::Bye, link: 0, incarnation: 1, number: 1, echo: 1 };
    let length = envelope.write(&[], &mut room).expect("there is room");
    world.send(0, &room[..length]);
    world.send(0, &udp(0, 5, 1, 10, 0));
    world.send(0, &[0x45, 0, 0]);
    world.run_for(Span::from_millis(100));
    assert!(world.delivered.is_empty());
    assert_eq!(world.gateways[1].status()[0].counters.strange_packets, 1);
    let stray = world.gateways[0].stray();
    assert_eq!((stray.bad_packets, stray.unrouted_packets), (2, 1));
}

/// A site that is in a network of its own, and a machine that sends by that: what is sealed comes back as if hosts had sent it.
#[test]
fn datagrams_that_come_back_as_packets_are_not_sealed_again() {
    let mut here = config(0, 2, None, None);
    here.sites[0].networks.push("192.0.2.0/24".parse().expect("it is a network"));
    let mut world = World::new(vec![here, config(1, 2, None, None)]);
    world.run_for(Span::from_millis(100));
    let to_site = |port: u16| {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv4(host(0), [192, 0, 2, 2], 60).udp(51_820, port);
        builder.write(&mut bytes, &[0; 100]).expect("there is room");
        bytes
    };
    world.send(0, &to_site(51_820));
    assert_eq!(world.gateways[0].stray().unrouted_packets, 1);
    // What a kernel says on each link is for no site, and is not counted as if hosts had sent it.
    let mut groups = Vec::new();
    let builder = PacketBuilder::ipv6(
        [0xfe; 16],
        "ff02::16".parse::<std::net::Ipv6Addr>().expect("it is one").octets(),
        1,
    );
    builder.udp(1, 2).write(&mut groups, &[0; 20]).expect("there is room");
    world.send(0, &groups);
    assert_eq!(world.gateways[0].stray().unrouted_packets, 1);
    assert_eq!(world.gateways[0].status()[0].counters.entered_packets, 0);
    world.send(0, &to_site(53));
    assert_eq!(world.gateways[0].status()[0].counters.entered_packets, 1, "it is for something else there");
}

#[test]
fn a_packet_that_is_too_large_is_answered_and_the_path_is_tried_for_larger_ones() {
    let mut world = World::two(Some(&path()));
    let large = |flags: u8| {
        let mut packet = udp(0, 1, 1, 1350, 0);
        packet[6] = flags;
        packet[10..12].fill(0);
        let header = etherparse::Ipv4Header::from_slice(&packet).expect("it is one").0;
        packet[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        packet
    };
    world.send(0, &large(0x40));
    world.run_for(Span::from_millis(1));
    let answer = ip::read(&world.delivered[0].2).expect("it is a packet");
    assert_eq!((world.delivered[0].1, answer.headers.protocol), (0, Protocol::ICMP));
    // In the name of the other host: what came from here the kernel would not take.
    assert_eq!(answer.headers.source, tidegate_packet::Address::V4(host(1)));
    assert_eq!(world.delivered[0].2[26..28], 1280_u16.to_be_bytes());
    world.run_for(Span::from_secs(10));
    assert_eq!(world.gateways[0].status()[0].mtu, 1420);
    world.send(0, &large(0x40));
    world.run_for(Span::from_millis(100));
    assert_eq!(world.delivered.last().map(|(_, to, packet)| (*to, packet.len())), Some((1, 1378)));
}

#[test]
fn a_packet_that_is_too_large_and_may_be_cut_arrives_in_pieces() {
    let mut world = World::two(None);
    let mut large = udp(0, 1, 1, 1350, 0);
    large[6] = 0;
    world.send(0, &large);
    world.run_for(Span::from_millis(100));
    let pieces: Vec<(usize, usize)> =
        world.delivered.iter().map(|(_, to, packet)| (*to, packet.len())).collect();
    assert_eq!(pieces, [(1, 1276), (1, 122)], "1358 bytes behind two headers, at a multiple of 8");
    let status = &world.gateways[0].status()[0];
    assert_eq!((status.counters.entered_packets, status.counters.too_large_packets), (1, 0));
}

#[test]
fn connections_are_opened_with_segments_that_fit() {
    let mut world = World::two(None);
    let mut syn = Vec::new();
    let builder = PacketBuilder::ipv4(host(0), host(1), 60).tcp(1000, 80, 1, 65535).syn();
    let options = [etherparse::TcpOptionElement::MaximumSegmentSize(1460)];
    builder.options(&options).expect("they fit").write(&mut syn, &[]).expect("there is room");
    world.send(0, &syn);
    world.run_for(Span::from_millis(100));
    let sliced = etherparse::SlicedPacket::from_ip(&world.delivered[0].2).expect("it is a packet");
    let Some(etherparse::TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("it is TCP") };
    let size = tcp.options_iterator().next().expect("it has one");
    assert_eq!(size, Ok(etherparse::TcpOptionElement::MaximumSegmentSize(1240)));
    let Some(etherparse::NetSlice::Ipv4(ip)) = sliced.net else { panic!("it is IPv4") };
    assert_eq!(
        Ok(tcp.checksum()),
        tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).map_err(|_| ())
    );
}

#[test]
fn marks_of_the_path_reach_hosts_that_know_them() {
    for (inner, capable) in [(0b10, true), (0b01, true), (0b00, false)] {
        let mut world = World::two(Some(&path()));
        world.run_for(Span::from_millis(300));
        world.wire.clear();
        world.send(0, &udp(0, 1, 1, 700, inner));
        world.run_for(Span::from_millis(1));
        // The data packet is the longest; the network marks what can be marked.
        let (key, _) =
            world.under_way.iter().max_by_key(|(_, (.., bytes))| bytes.len()).expect("it is under way");
        let datagram = world.under_way.get_mut(&{ *key }).expect("it is there");
        assert_eq!(datagram.2 & 0b11, inner, "the outer field is the inner one");
        if capable {
            datagram.2 |= 0b11;
        }
        world.run_for(Span::from_millis(50));
        let (.., packet) = world.delivered.last().expect("it arrived");
        assert_eq!(packet[1] & 0b11, if capable { 0b11 } else { 0 });
        let header = etherparse::Ipv4Header::from_slice(packet).expect("it is one").0;
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
}
