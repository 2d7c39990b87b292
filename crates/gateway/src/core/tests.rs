//! Gateways that talk to each other over a wire that only takes time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::PacketBuilder;
use proptest::prelude::*;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::fixed::FixedConfig;
use tidegate_mechanism::edge::path::PathConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::{MarkerConfig, OutOfProfile, ProfileConfig};
use tidegate_packet::{Ecn, Protocol};
use tidegate_units::{Bytes, Limit};
use tidegate_wire::ip;

use super::config::{ClassConfig, RateConfig, SiteConfig};
use super::envelope::Envelope;
use super::peer::{State, Why};
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
                        let Some(to) = self.seen_as.iter().position(|seen| *seen == to) else { continue };
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
                let input = Input::Wan { from: address(0), traffic_class, datagram: &room[..bytes] };
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
fn gateways_greet_and_control_the_link() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_millis(200));
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn an_end_that_does_not_understand_has_a_fixed_rate() {
    // The other one has been told to hold nothing.
    let mut world = World::new(vec![config(0, 2, Some(&path()), None), config(1, 2, None, None)]);
    world.load(0, 1, 5000);
    assert_eq!(world.state(0), State::Fixed(Why::Unanswered));
    let rate = world.delivered.iter().filter(|(at, ..)| *at >= Time::from_nanos(4_000_000_000)).count();
    // 2 Mbit/s of 1068 bytes outside, as 1000 are padded to 1008 and wrapped in 60.
    assert!((225..245).contains(&rate), "{rate}");
}

#[test]
fn mechanisms_that_differ_are_noticed() {
    let iec = EdgeConfig::Iec(Box::default());
    let mut world = World::new(vec![config(0, 2, Some(&path()), None), config(1, 2, Some(&iec), None)]);
    world.run_for(Span::from_secs(1));
    assert_eq!([world.state(0), world.state(1)], [State::Fixed(Why::Differs); 2]);
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
    assert_eq!(answer.headers.source, tidegate_packet::Address::V4([10, 1, 0, 1]));
    assert_eq!(world.delivered[0].2[26..28], 1280_u16.to_be_bytes());
    world.run_for(Span::from_secs(10));
    assert_eq!(world.gateways[0].status()[0].mtu, 1420);
    world.send(0, &large(0x40));
    world.run_for(Span::from_millis(100));
    assert_eq!(world.delivered.last().map(|(_, to, packet)| (*to, packet.len())), Some((1, 1378)));
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

#[test]
fn forged_and_repeated_datagrams_change_nothing() {
    let run = |disturbed: bool| {
        let mut world = World::two(Some(&path()));
        let mut noise = tidegate_mechanism::random::Substream::new(Seed(3));
        for number in 0..400 {
            world.send(0, &udp(0, 1, number, 900, 0));
            world.run_for(Span::from_micros(500));
            if !disturbed {
                continue;
            }
            let before = world.wire.len();
            for _ in 0..20 {
                // Something that was on the wire a while ago, as it was or with bits turned. What is still under way would arrive twice, of which
                // the first counts.
                let old = world.wire[noise.below((before * 9 / 10).max(1) as u32) as usize].clone();
                let (to, _, traffic_class, mut bytes) = old;
                let is_old = !world.under_way.values().any(|(.., other)| *other == bytes);
                if noise.chance(0.5) || !is_old {
                    let at = noise.below(bytes.len() as u32) as usize;
                    bytes[at] ^= 1 << noise.below(8);
                }
                let from = SocketAddr::new(IpAddr::from([203, 0, 113, 5]), 9);
                let now = world.now;
                world.gateways[to].handle(Input::Wan { from, traffic_class, datagram: &bytes }, now);
            }
        }
        world.run_for(Span::from_secs(1));
        world
    };
    let (calm, disturbed) = (run(false), run(true));
    assert!(calm.wire == disturbed.wire, "the same was sent");
    assert!(calm.delivered == disturbed.delivered, "and arrived");
    assert!(calm.delivered.len() > 100);
    let refused = |at: &World| {
        let of = |gateway: &Gateway<_>| {
            gateway.status()[0].counters.refused.iter().sum::<u64>()
                + gateway.stray().refused.iter().sum::<u64>()
        };
        at.gateways.iter().map(of).sum::<u64>()
    };
    assert_eq!(refused(&calm), 0);
    assert_eq!(refused(&disturbed), 400 * 20);
}

#[test]
fn who_moves_is_followed_and_begins_with_half_of_the_rate() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 3000);
    let rate = |of: &World| of.gateways[0].status()[0].links[0].rate.as_bps_f64();
    let before = rate(&world);
    world.seen_as[0] = SocketAddr::new(IpAddr::from([198, 51, 100, 7]), 4000);
    world.load(0, 1, 60);
    assert_eq!(world.gateways[1].status()[0].endpoint, Some(world.seen_as[0]));
    assert!(rate(&world) < 0.8 * before, "{} of {before}", rate(&world));
    world.delivered.clear();
    world.load(0, 1, 3000);
    assert!(world.delivered.len() > 2700, "{}", world.delivered.len());
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn who_moves_and_has_nothing_to_send_is_found_again() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 2000);
    // What is sent to the old address gets lost.
    world.seen_as[1] = SocketAddr::new(IpAddr::from([198, 51, 100, 9]), 4000);
    world.load(0, 1, 2000);
    world.delivered.clear();
    world.load(0, 1, 1000);
    assert!(world.delivered.len() > 800, "{}", world.delivered.len());
}

#[test]
fn who_starts_anew_is_known_again_at_once() {
    for restarted in 0..2 {
        let mut world = World::two(Some(&path()));
        world.load(0, 1, 3000);
        let now = world.now;
        world.gateways[restarted] = start(restarted, 2, config(restarted, 2, Some(&path()), None), now);
        world.load(0, 1, 1000);
        assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2], "{restarted}");
        world.delivered.clear();
        world.load(0, 1, 1000);
        assert!(world.delivered.len() > 900, "{restarted}: {}", world.delivered.len());
    }
}

#[test]
fn an_end_that_falls_silent_gets_the_fallback_after_a_while_and_is_controlled_again_when_it_speaks() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 1000);
    world.is_cut = true;
    world.load(0, 1, 40_000);
    assert!(matches!(world.state(0), State::Fixed(Why::Silent) | State::Down), "{:?}", world.state(0));
    world.is_cut = false;
    world.load(0, 1, 12_000);
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn goodbye_is_said_and_nothing_is_taken_any_more() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 500);
    let now = world.now;
    world.gateways[0].drain(now);
    world.load(0, 1, 300);
    assert!(world.gateways[0].is_drained());
    assert_eq!(world.state(1), State::Fixed(Why::Silent));
    assert_eq!(world.gateways[0].stray().unrouted_packets, 300);
}

#[test]
fn an_idle_pair_of_gateways_does_next_to_nothing() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_secs(60));
    let (polls, sent) = (world.polls, world.wire.len());
    world.run_for(Span::from_secs(60));
    assert!(world.polls - polls < 400, "{} calls in a minute", world.polls - polls);
    assert!(world.wire.len() - sent < 60, "{} datagrams in a minute", world.wire.len() - sent);
}

#[test]
fn sessions_are_renewed_under_load_without_a_loss() {
    let mut world = World::two(None);
    for number in 0..15_000 {
        world.send(0, &udp(0, 1, number, 300, 0));
        world.run_for(Span::from_millis(20));
    }
    world.run_for(Span::from_secs(1));
    assert_eq!(world.delivered.len(), 15_000);
    let initiations = world.wire.iter().filter(|(.., bytes)| bytes[0] == 1).count();
    assert!((3..=6).contains(&initiations), "{initiations}");
}

#[test]
fn classes_have_links_of_their_own_with_codepoints_outside() {
    let voice = ClassConfig {
        name: "voice".into(),
        dscp: tidegate_packet::DscpSet::NONE.with(Dscp::EF),
        ports: Vec::new(),
        class: 3,
        own_link: Some(Dscp::EF),
        marker: None,
    };
    let with = |here| GatewayConfig { classes: vec![voice.clone()], ..config(here, 2, Some(&path()), None) };
    let mut world = World::new(vec![with(0), with(1)]);
    world.run_for(Span::from_millis(300));
    world.wire.clear();
    for number in 0..100 {
        world.send(0, &udp(0, 1, number, 700, 0));
        world.send(0, &udp(0, 1, number, 100, Dscp::EF.get() << 2));
        world.run_for(Span::from_millis(5));
    }
    world.run_for(Span::from_millis(100));
    let status = &world.gateways[0].status()[0];
    assert_eq!(status.links.iter().map(|link| link.link).collect::<Vec<_>>(), [0, 1]);
    let outside = |codepoint: Dscp| {
        world.wire.iter().filter(move |(.., class, _)| class >> 2 == codepoint.get()).count()
    };
    assert!(outside(Dscp::EF) >= 100 && outside(Dscp::BEST_EFFORT) >= 100);
    assert_eq!(world.delivered.len(), 200);
}

#[test]
fn classes_are_marked_and_policed_where_they_enter() {
    let profile = |beyond| {
        MarkerConfig::Profile(ProfileConfig {
            depth: Limit::Bytes(Bytes::new(10_000)),
            beyond,
            ..ProfileConfig::with(BitRate::from_bps(80_000))
        })
    };
    for (beyond, arrive) in [(OutOfProfile::Unmark, 100), (OutOfProfile::Drop, 20)] {
        let bulk = ClassConfig {
            name: "bulk".into(),
            dscp: tidegate_packet::DscpSet::NONE,
            ports: vec![7],
            class: 1,
            own_link: None,
            marker: Some(profile(beyond)),
        };
        let with =
            |here| GatewayConfig { classes: vec![bulk.clone()], ..config(here, 2, Some(&path()), None) };
        let mut world = World::new(vec![with(0), with(1)]);
        world.run_for(Span::from_millis(300));
        // A second of 100 packets of 1000 bytes: ten fit into the bucket, and ten more come in this time.
        for number in 0..100 {
            world.send(0, &udp(0, 1, number, 972, 0));
            world.run_for(Span::from_millis(10));
        }
        world.run_for(Span::from_millis(100));
        let marked = |packet: &[u8]| packet[1] >> 2 == Dscp::AF11.get();
        assert!(world.delivered.len().abs_diff(arrive) <= 2, "{beyond:?}: {}", world.delivered.len());
        let in_profile = world.delivered.iter().filter(|(.., packet)| marked(packet)).count();
        assert!(in_profile.abs_diff(20) <= 2, "{beyond:?}: {in_profile}");
        let header = etherparse::Ipv4Header::from_slice(&world.delivered[0].2).expect("it is one").0;
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
}

#[test]
fn a_third_site_is_reached_through_a_relay_that_sees_nothing_of_it() {
    let nbq = || Some(HopConfig::Nbq(Box::default()));
    for relay in [nbq(), Some(HopConfig::BackPressure(Box::default())), None] {
        let mut configs: Vec<_> = (0..3).map(|here| config(here, 3, Some(&path()), Some(1))).collect();
        for config in &mut configs {
            config.relay = relay.clone().or_else(nbq);
        }
        configs[1].relay.clone_from(&relay);
        let relay = relay.is_some();
        let mut world = World::new(configs);
        world.run_for(Span::from_secs(12));
        for number in 0..500 {
            world.send(0, &udp(0, 2, number, 700, 0));
            world.run_for(Span::from_millis(5));
        }
        world.run_for(Span::from_millis(100));
        let arrived = world.delivered.iter().filter(|(_, to, _)| *to == 2).count();
        assert_eq!(arrived, if relay { 500 } else { 0 });
        assert_eq!(world.delivered.len(), arrived, "the relay delivers nothing to its own hosts");
        if relay {
            assert_eq!(world.delivered[0].2, udp(0, 2, 0, 700, 0));
            let ends = [address(0), address(2)];
            let direct =
                world.wire.iter().any(|(to, from, ..)| ends.contains(&address(*to)) && ends.contains(from));
            assert!(!direct, "all of it goes by the relay");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Whatever comes from anywhere in whatever order, nothing breaks, nothing is lost count of, and it ends.
    #[test]
    fn any_bytes_from_anywhere_break_nothing(
        steps in prop::collection::vec((0u8..6, any::<u16>(), prop::collection::vec(any::<u8>(), 0..80), 0u64..50_000_000), 1..120),
    ) {
        let mut world = World::two(Some(&path()));
        for (kind, number, bytes, wait) in steps {
            let now = world.now;
            let from = address(usize::from(number % 3));
            let traffic_class = number as u8;
            match kind {
                0 => world.send(0, &bytes),
                1 => world.send(usize::from(number % 2), &udp(usize::from(number % 2), usize::from(number / 2 % 2), number, bytes.len() * 12, traffic_class)),
                2 => world.gateways[1].handle(Input::Wan { from, traffic_class, datagram: &bytes }, now),
                3 if !world.wire.is_empty() => {
                    let (to, _, _, mut datagram) = world.wire[usize::from(number) % world.wire.len()].clone();
                    for (at, byte) in bytes.iter().enumerate().take(usize::from(number % 3)) {
                        let place = (at * 37 + usize::from(*byte)) % datagram.len();
                        datagram[place] ^= byte;
                    }
                    world.gateways[to].handle(Input::Wan { from, traffic_class, datagram: &datagram }, now);
                }
                4 => world.is_cut = !world.is_cut,
                _ => {
                    let (here, sites) = (usize::from(number % 2), 2);
                    if number % 16 < 2 {
                        world.gateways[here] = start(here, sites, config(here, 2, Some(&path()), None), now);
                    }
                }
            }
            let polls = world.polls;
            world.run_for(Span::from_nanos(wait));
            prop_assert!(world.polls - polls < 20_000, "it goes on for ever");
            for gateway in &world.gateways {
                let status = &gateway.status()[0];
                let (shaped, other) = gateway.held();
                let counters = &status.counters;
                let gone = counters.sent_packets + status.drops.total() + counters.too_large_packets;
                prop_assert_eq!(counters.entered_packets, gone + (shaped + other) as u64, "{:?}", status);
                prop_assert!(status.buffers.0 <= status.buffers.1);
            }
        }
    }
}
