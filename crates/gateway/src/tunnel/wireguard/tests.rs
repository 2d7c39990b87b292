//! Two gateways over the library, without a network in between.

mod strangers;

use std::net::{Ipv4Addr, SocketAddr};

use etherparse::PacketBuilder;
use proptest::prelude::*;
use tidegate_units::BitRate;

use super::*;
use crate::core::config::{GatewayConfig, RateConfig, SiteConfig};
use crate::core::store::BUFFER_BYTES;
use crate::core::{Gateway, Input, Output};

fn address(site: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, site as u8 + 1], 51820))
}

fn key(site: usize) -> PrivateKey {
    PrivateKey::from([site as u8 + 1; 32])
}

fn config(here: usize) -> GatewayConfig {
    let there = 1 - here;
    let rate = BitRate::from_mbps(10);
    GatewayConfig {
        id: site_id(&key(here).public()),
        address4: Some(Ipv4Addr::new(10, here as u8, 0, 1)),
        address6: None,
        sites: vec![SiteConfig {
            name: "there".to_owned(),
            id: site_id(&key(there).public()),
            endpoint: Some(address(there)),
            networks: vec![format!("10.{there}.0.0/16").parse().unwrap()],
            control: None,
            rate: RateConfig { floor: rate, max: rate, fallback: rate },
            via: None,
        }],
        classes: Vec::new(),
        buffers: 64,
        mtu: 1420,
        flows: 16,
        relay: None,
        seed: here as u64,
    }
}

fn gateway(here: usize, now: Time) -> Gateway<WireguardTunnels> {
    let peers = [PeerKeys { public: key(1 - here).public(), shared: None, keepalive: None }];
    Gateway::new(config(here), WireguardTunnels::new(&key(here), &peers, now).unwrap(), now)
}

/// Who said it, and what.
type Said = (usize, Vec<u8>);

/// Hands over what both say until neither says more: what was on the wire, with who sent it, and what hosts got.
fn settle(gateways: &mut [Gateway<WireguardTunnels>; 2], now: Time) -> (Vec<Said>, Vec<Vec<u8>>) {
    let (mut wire, mut delivered) = (Vec::new(), Vec::new());
    let mut room = vec![0; BUFFER_BYTES];
    loop {
        let before = wire.len() + delivered.len();
        for here in 0..2 {
            while let Some(output) = gateways[here].poll_output(now, &mut room) {
                match output {
                    Output::Lan(bytes) => delivered.push(room[..bytes].to_vec()),
                    Output::Wan { to, bytes, .. } => {
                        assert_eq!(to.far, address(1 - here));
                        wire.push((here, room[..bytes].to_vec()));
                        let input = Input::Wan {
                            from: address(here).into(),
                            traffic_class: 0,
                            datagram: &room[..bytes],
                        };
                        gateways[1 - here].handle(input, now);
                    }
                }
            }
        }
        if wire.len() + delivered.len() == before {
            return (wire, delivered);
        }
    }
}

fn packet(from: u8, to: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([10, from, 0, 9], [10, to, 0, 9], 60).udp(5, 7).write(&mut bytes, payload).unwrap();
    bytes
}

fn pair() -> [Gateway<WireguardTunnels>; 2] {
    let mut gateways = [gateway(0, Time::ZERO), gateway(1, Time::ZERO)];
    settle(&mut gateways, Time::ZERO);
    gateways
}

#[test]
fn packets_reach_the_other_site_both_ways_and_are_not_seen_in_between() {
    let mut gateways = pair();
    let now = Time::ZERO + Span::from_millis(1);
    for (from, to) in [(0, 1), (1, 0)] {
        let payload: Vec<u8> = (0..777).map(|at: u32| (at * 31) as u8).collect();
        let sent = packet(from, to, &payload);
        gateways[usize::from(from)].handle(Input::Lan(&sent), now);
        let (wire, delivered) = settle(&mut gateways, now);
        assert_eq!(delivered, std::slice::from_ref(&sent));
        let data = &wire.iter().find(|(_, bytes)| bytes.len() > 700).unwrap().1;
        assert_eq!(data.len(), super::super::sealed_bytes(sent.len()));
        assert!(!data.windows(8).any(|eight| eight == &payload[100..108]));
    }
}

#[test]
fn what_is_forged_or_comes_again_changes_nothing() {
    let mut gateways = pair();
    let now = Time::ZERO + Span::from_millis(1);
    gateways[0].handle(Input::Lan(&packet(0, 1, &[7; 500])), now);
    let mut room = vec![0; BUFFER_BYTES];
    let Some(Output::Wan { bytes, .. }) = gateways[0].poll_output(now, &mut room) else {
        panic!("it is sent")
    };
    let data = room[..bytes].to_vec();
    let stranger = SocketAddr::from(([203, 0, 113, 9], 1));
    let mut tell = |from: SocketAddr, datagram: &[u8]| {
        gateways[1].handle(Input::Wan { from: from.into(), traffic_class: 3, datagram }, now);
        let mut delivered = 0;
        while let Some(output) = gateways[1].poll_output(now, &mut room) {
            assert!(matches!(output, Output::Lan(_)), "nothing is said to strangers");
            delivered += 1;
        }
        let mut status = gateways[1].status()[0].clone();
        let refused = std::mem::take(&mut status.counters.refused);
        let stray = gateways[1].stray().refused;
        (delivered, status, refused.iter().chain(&stray).sum::<u64>(), refused)
    };
    let (_, before, ..) = tell(stranger, &[]);
    let bits = data.len() * 8;
    for bit in (0..bits).step_by(13) {
        let mut forged = data.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let (forgeries, status, ..) = tell(stranger, &forged);
        assert_eq!((forgeries, &status), (0, &before), "bit {bit}");
    }
    let (delivered, after, refused, _) = tell(address(0), &data);
    assert_eq!((delivered, refused), (1, 1 + bits.div_ceil(13) as u64));
    // The same again, from where it came and from elsewhere.
    for (from, count) in [(address(0), 1), (stranger, 2)] {
        let (again, status, _, by) = tell(from, &data);
        assert_eq!((again, by[Refusal::Replayed as usize]), (0, count));
        assert_eq!(status, after);
    }
    assert_eq!(after.endpoint, Some(address(0)));
}

#[test]
fn whoever_has_another_key_is_not_heard() {
    let mut gateways = pair();
    let now = Time::ZERO + Span::from_millis(1);
    let peers = [PeerKeys { public: key(1).public(), shared: None, keepalive: None }];
    let mut stranger = WireguardTunnels::new(&key(7), &peers, now).unwrap();
    let mut room = vec![0; BUFFER_BYTES];
    stranger.tunnel(0).want(now);
    let length = stranger.tunnel(0).poll(now, &mut room).unwrap();
    let from = SocketAddr::from(([203, 0, 113, 9], 1));
    gateways[1].handle(Input::Wan { from: from.into(), traffic_class: 0, datagram: &room[..length] }, now);
    assert_eq!(gateways[1].stray().refused[Refusal::Unknown as usize], 1);
    assert_eq!(settle(&mut gateways, now).0.len(), 0);
}

#[test]
fn a_shared_secret_that_differs_makes_no_session() {
    let shared = |site: usize, secret: u8| {
        let peers =
            [PeerKeys { public: key(1 - site).public(), shared: Some([secret; 32]), keepalive: None }];
        Gateway::new(config(site), WireguardTunnels::new(&key(site), &peers, Time::ZERO).unwrap(), Time::ZERO)
    };
    let payload = packet(0, 1, &[7; 50]);
    for (other, count) in [(1, 1), (2, 0)] {
        let mut gateways = [shared(0, 1), shared(1, other)];
        settle(&mut gateways, Time::ZERO);
        gateways[0].handle(Input::Lan(&payload), Time::ZERO);
        assert_eq!(settle(&mut gateways, Time::ZERO).1.len(), count);
    }
}

/// An end with a session, and what the other end has sealed for it: `count` datagrams that are numbered from zero.
fn numbered(count: usize) -> (WireguardTunnels, Vec<Vec<u8>>) {
    let make = |site: usize| {
        let peers = [PeerKeys { public: key(1 - site).public(), shared: None, keepalive: None }];
        WireguardTunnels::new(&key(site), &peers, Time::ZERO).unwrap()
    };
    let (mut here, mut there) = (make(0), make(1));
    let (mut room, mut opening) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    here.tunnel(0).want(Time::ZERO);
    for _ in 0..2 {
        while let Some(length) = here.tunnel(0).poll(Time::ZERO, &mut room) {
            there.tunnel(0).open(&room[..length], address(0), Time::ZERO, &mut opening);
        }
        while let Some(length) = there.tunnel(0).poll(Time::ZERO, &mut room) {
            here.tunnel(0).open(&room[..length], address(1), Time::ZERO, &mut opening);
        }
    }
    let seal = |number: usize| {
        let length = there.tunnel(0).seal(&[], Time::ZERO, &mut room).expect("there is a session");
        assert_eq!(room[8..16], (number as u64).to_le_bytes());
        room[..length].to_vec()
    };
    let sealed = (0..count).map(seal).collect();
    (here, sealed)
}

/// How far behind the latest a datagram may be: the library's window of 1024 numbers has the latest itself in it. Linux has 8128.
const WINDOW: usize = 1023;

/// The 34 cases of Linux' `drivers/net/wireguard/selftest/counter.c` (the same as wireguard-go's `replay_test.go`), with this window; and its
/// six rows. Three of them need a sender that has sent 2^64 packets, which no library can be brought to without its keys: for
/// the numbers of those, and for those that are to be refused, a datagram says the number and cannot be genuine.
#[test]
fn what_was_seen_or_is_too_old_is_refused_as_in_linux() {
    const LIMIT: usize = WINDOW + 1;
    let tell = |here: &mut WireguardTunnels, datagram: &[u8]| {
        let mut room = [0; BUFFER_BYTES];
        here.tunnel(0).open(datagram, address(1), Time::ZERO, &mut room)
    };
    let cases: [(usize, bool); 24] = [
        (0, true),
        (1, true),
        (1, false),
        (9, true),
        (8, true),
        (7, true),
        (7, false),
        (LIMIT, true),
        (LIMIT - 1, true),
        (LIMIT - 1, false),
        (LIMIT - 2, true),
        (2, true),
        (2, false),
        (LIMIT + 16, true),
        (3, false),
        (LIMIT + 16, false),
        (LIMIT * 4, true),
        (LIMIT * 4 - (LIMIT - 1), true),
        (10, false),
        (LIMIT * 4 - LIMIT, false),
        (LIMIT * 4 - (LIMIT + 1), false),
        (LIMIT * 4 - (LIMIT - 2), true),
        (LIMIT * 4 + 1 - LIMIT, false),
        (0, false),
    ];
    let (mut here, sealed) = numbered(LIMIT * 4 + 1);
    for (case, (number, is_new)) in (1..).zip(cases) {
        let expected = if is_new { Opened::Packet(0) } else { Opened::Refused(Refusal::Replayed) };
        assert_eq!(tell(&mut here, &sealed[number]), expected, "case {case}: {number}");
    }
    // REJECT_AFTER_MESSAGES, and what is around it: cases 25 to 33.
    let last = u64::MAX - 15;
    for number in [last, last - 1, last, last - 1, last - 2, last + 1, last + 2, last - 2, last - 3] {
        let mut datagram = sealed[0].clone();
        datagram[8..16].copy_from_slice(&number.to_le_bytes());
        assert_eq!(tell(&mut here, &datagram), Opened::Refused(Refusal::Forged), "{number}");
    }
    assert_eq!(tell(&mut here, &sealed[0]), Opened::Refused(Refusal::Replayed), "case 34");

    let rows: [(Vec<usize>, usize, bool); 6] = [
        ((1..=WINDOW).collect(), 0, true),
        ((2..=WINDOW + 1).chain([1]).collect(), 0, false),
        ((1..=WINDOW + 1).rev().collect(), 1, false),
        ((2..=WINDOW + 2).rev().collect(), 0, false),
        ((1..=WINDOW).rev().chain([WINDOW + 1]).collect(), 0, false),
        ((0..=WINDOW).rev().collect(), WINDOW + 1, true),
    ];
    for (row, (numbers, then, is_new)) in (1..).zip(rows) {
        let (mut end, few) = numbered(WINDOW + 3);
        for number in numbers {
            assert_eq!(tell(&mut end, &few[number]), Opened::Packet(0), "row {row}: {number}");
        }
        assert_eq!(tell(&mut end, &few[then]) == Opened::Packet(0), is_new, "row {row}: {then}");
    }
}

#[test]
fn an_end_that_asks_with_an_old_stamp_and_says_nothing_else_is_asked_back_and_not_often() {
    let mut gateways = pair();
    // Another life of site 1 with an earlier stamp looks like its first initiation does now.
    let mut later = [gateway(0, Time::ZERO), gateway(1, Time::ZERO)];
    let (wire, _) = settle(&mut later, Time::ZERO);
    let (_, ask) = wire.into_iter().find(|(from, bytes)| *from == 1 && bytes.len() == 148).expect("it asked");
    let mut now = Time::ZERO;
    // This one is newer than what `pair` has seen, so that the second time it is old.
    gateways[0].handle(Input::Wan { from: address(1).into(), traffic_class: 0, datagram: &ask }, now);
    let mut room = vec![0; BUFFER_BYTES];
    // It is repeated all the time, from elsewhere, and the other end is silent.
    let stranger = SocketAddr::from(([203, 0, 113, 9], 1));
    let mut asked = 0;
    // Fewer than those after which cookies are asked for.
    for _ in 0..60 {
        while let Some(output) = gateways[0].poll_output(now, &mut room) {
            if let Output::Wan { to, bytes, .. } = output {
                assert_eq!(to.far, address(1), "nobody else is asked");
                asked += usize::from(room[0] == 1 && bytes == 148);
            }
        }
        now += Span::from_millis(200);
        gateways[0].handle(Input::Wan { from: stranger.into(), traffic_class: 0, datagram: &ask }, now);
    }
    assert_eq!(asked, 3, "12 s are two times five and some");
    assert_eq!(gateways[0].status()[0].endpoint, Some(address(1)));
    // Where the other end is heard it is not asked.
    gateways = pair();
    for number in 0..60 {
        now += Span::from_millis(200);
        gateways[0].handle(Input::Wan { from: stranger.into(), traffic_class: 0, datagram: &ask }, now);
        gateways[1].handle(Input::Lan(&packet(1, 0, &[number; 50])), now);
        let (said, delivered) = settle(&mut gateways, now);
        assert_eq!(delivered.len(), 1);
        assert!(said.iter().all(|(_, bytes)| bytes.len() != 148), "{number}");
    }
}

#[test]
fn who_has_no_session_stamps_anew_and_who_has_one_goes_on() {
    let mut gateways = pair().map(Gateway::into_tunnels);
    let mut room = vec![0; BUFFER_BYTES];
    gateways[0].restamp();
    let sealed = gateways[0].tunnel(0).seal(&[], Time::ZERO, &mut room).expect("the session is there");
    let opened = gateways[1].tunnel(0).open(&room[..sealed], address(0), Time::ZERO, &mut [0; BUFFER_BYTES]);
    assert_eq!(opened, Opened::Packet(0));
    // One that asks and is not answered asks again, and is heard.
    let peers = [PeerKeys { public: key(0).public(), shared: None, keepalive: None }];
    let mut fresh = WireguardTunnels::new(&key(1), &peers, Time::ZERO).unwrap();
    fresh.tunnel(0).want(Time::ZERO);
    for _ in 0..2 {
        let length = fresh.tunnel(0).poll(Time::ZERO, &mut room).expect("it asks");
        assert_eq!(length, 148);
        let heard =
            gateways[0].tunnel(0).open(&room[..length], address(1), Time::ZERO, &mut [0; BUFFER_BYTES]);
        assert_eq!(heard, Opened::Asked);
        fresh.restamp();
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2100), kind in 0_u8..6) {
        let mut bytes = bytes;
        let mut here = WireguardTunnels::new(
            &key(0), &[PeerKeys { public: key(1).public(), shared: None, keepalive: None }], Time::ZERO,
        ).unwrap();
        if bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
            bytes[5..8].fill(0);
        }
        let mut room = vec![0; BUFFER_BYTES];
        if here.addressed(&bytes, address(1).into(), Time::ZERO, &mut room) == Addressed::Peer(0) {
            let opened = here.tunnel(0).open(&bytes, address(1), Time::ZERO, &mut room);
            prop_assert!(matches!(opened, Opened::Refused(_)), "{opened:?}");
        }
    }
}

/// The handshake between tunnel `own` here and the only one there, whatever each says.
fn shake(here: &mut WireguardTunnels, own: u32, there: &mut WireguardTunnels) {
    let (mut room, mut opening) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    there.tunnel(0).want(Time::ZERO);
    for _ in 0..3 {
        while let Some(length) = there.tunnel(0).poll(Time::ZERO, &mut room) {
            here.tunnel(own).open(&room[..length], address(1), Time::ZERO, &mut opening);
        }
        while let Some(length) = here.tunnel(own).poll(Time::ZERO, &mut room) {
            there.tunnel(0).open(&room[..length], address(0), Time::ZERO, &mut opening);
        }
    }
}

#[test]
fn who_stays_on_a_thread_keeps_session_and_name_and_who_comes_begins() {
    let peer = |site: usize| PeerKeys { public: key(site).public(), shared: None, keepalive: None };
    let now = Time::ZERO;
    // Sites 1, 2, 3 have the numbers 10, 20, 30 in the whole; 1 and 3 are here at first, then 2 and 3.
    let mut here = WireguardTunnels::among((5, vec![10, 30]), &key(0), &[peer(1), peer(3)], now).unwrap();
    let mut there: Vec<WireguardTunnels> =
        (1..4).map(|site| WireguardTunnels::new(&key(site), &[peer(0)], now).unwrap()).collect();
    shake(&mut here, 0, &mut there[0]);
    shake(&mut here, 1, &mut there[2]);
    let mut room = [0; BUFFER_BYTES];
    let mut data = |end: &mut WireguardTunnels| {
        let length = end.tunnel(0).seal(&[], now, &mut room)?;
        Some(room[..length].to_vec())
    };
    let hears = |own_end: &mut WireguardTunnels, datagram: &[u8]| {
        let mut opening = [0; BUFFER_BYTES];
        match own_end.addressed(datagram, address(1).into(), now, &mut opening) {
            Addressed::Peer(own) => {
                let opened = own_end.tunnel(own).open(datagram, address(1), now, &mut opening);
                (!matches!(opened, Opened::Refused(_))).then_some(own)
            }
            _ => None,
        }
    };
    let (left, stays) = (data(&mut there[0]).unwrap(), data(&mut there[2]).unwrap());
    for datagram in [&left, &stays] {
        assert_eq!(datagram[THREAD_AT] & THREAD_MASK, 5);
    }
    assert_eq!((hears(&mut here, &left), hears(&mut here, &stays)), (Some(0), Some(1)));
    let keepalive = Some(Span::from_secs(9));
    here.change(vec![20, 30], &[peer(2), PeerKeys { keepalive, ..peer(3) }], now);
    assert!(!here.tunnel(0).is_up(now) && here.tunnel(1).is_up(now));
    assert_eq!(here.tunnel(1).keepalive, keepalive);
    assert_eq!(
        hears(&mut here, &data(&mut there[2]).unwrap()),
        Some(1),
        "the session goes on under its name"
    );
    assert_eq!(hears(&mut here, &data(&mut there[0]).unwrap()), None, "who has left is not heard");
    shake(&mut here, 0, &mut there[1]);
    assert_eq!(hears(&mut here, &data(&mut there[1]).unwrap()), Some(0));
    // And a name is stamped anew without becoming another one.
    here.restamp();
    assert_eq!(hears(&mut here, &data(&mut there[1]).unwrap()), Some(0));
}

#[test]
fn what_was_judged_elsewhere_is_heard_once_and_the_next_is_judged() {
    let peers = [PeerKeys { public: key(1).public(), shared: None, keepalive: None }];
    let mut here = WireguardTunnels::new(&key(0), &peers, Time::ZERO).unwrap();
    let (mut room, mut scratch) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    let theirs = [PeerKeys { public: key(0).public(), shared: None, keepalive: None }];
    let mut there = WireguardTunnels::new(&key(1), &theirs, Time::ZERO).unwrap();
    there.tunnel(0).want(Time::ZERO);
    let length = there.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
    let mut asked = room[..length].to_vec();
    assert_eq!(
        here.judge(&asked, address(1).into(), Time::ZERO, &mut scratch),
        Judgement::Passed(Handshake::Initiation(key(1).public()))
    );
    // The first code is wrong: nothing is computed, unless somebody else has found it right.
    asked[120] ^= 1;
    let mut heard =
        |end: &mut WireguardTunnels| end.addressed(&asked, address(1).into(), Time::ZERO, &mut scratch);
    assert_eq!(heard(&mut here), Addressed::Refused(Refusal::Forged));
    here.admit(Handshake::Initiation(key(1).public()));
    assert_eq!(heard(&mut here), Addressed::Peer(0));
    assert_eq!(heard(&mut here), Addressed::Refused(Refusal::Forged));
    here.admit(Handshake::Initiation(key(7).public()));
    assert_eq!(heard(&mut here), Addressed::Refused(Refusal::Unknown));
}
