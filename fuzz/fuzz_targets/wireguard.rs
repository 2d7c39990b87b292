//! The same at WireGuard: beside a session that is there all the time, no datagram is opened but one that was sealed.
#![no_main]

use std::cell::RefCell;
use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::tunnel::wireguard::{PeerKeys, PrivateKey, WireguardTunnels};
use tidegate_gateway::tunnel::{Addressed, Opened, Tunnel, Tunnels};
use tidegate_units::{Span, Time};

struct Pair {
    here: WireguardTunnels,
    genuine: Vec<Vec<u8>>,
    now: Time,
}

fn pair() -> Pair {
    let from = SocketAddr::from(([192, 0, 2, 1], 1));
    let key = |number: u8| PrivateKey::from([number; 32]);
    let make = |own: u8, other: u8| {
        let peers = [PeerKeys { public: key(other).public(), shared: None, keepalive: None }];
        WireguardTunnels::new(&key(own), &peers, Time::ZERO).expect("there is randomness")
    };
    let (mut here, mut there) = (make(1, 2), make(2, 1));
    let (mut room, mut opening) = ([0; 2048], [0; 2048]);
    let mut genuine = Vec::new();
    there.tunnel(0).want(Time::ZERO);
    for _ in 0..2 {
        while let Some(length) = there.tunnel(0).poll(Time::ZERO, &mut room) {
            // What a handshake is made of, and a first sign of life.
            genuine.push(room[..length].to_vec());
            here.addressed(&room[..length], from.into(), Time::ZERO, &mut opening);
            here.tunnel(0).open(&room[..length], from, Time::ZERO, &mut opening);
        }
        while let Some(length) = here.tunnel(0).poll(Time::ZERO, &mut room) {
            there.tunnel(0).open(&room[..length], from, Time::ZERO, &mut opening);
        }
    }
    for bytes in [0, 100, 1420] {
        let mut packet = vec![0; bytes];
        if bytes > 0 {
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
        }
        let length = there.tunnel(0).seal(&packet, Time::ZERO, &mut room).expect("there is a session");
        assert!(matches!(
            here.tunnel(0).open(&room[..length], from, Time::ZERO, &mut opening),
            Opened::Packet(_)
        ));
        genuine.push(room[..length].to_vec());
    }
    Pair { here, genuine, now: Time::ZERO }
}

thread_local! {
    static PAIR: RefCell<Pair> = RefCell::new(pair());
}

fuzz_target!(|input: (u8, [u8; 4], &[u8])| {
    let (kind, address, bytes) = input;
    PAIR.with_borrow_mut(|Pair { here, genuine, now }| {
        // So that handshakes have a budget again; the session is as old as the machine says.
        *now = *now + Span::from_micros(100);
        let datagram = match kind % 8 {
            0 => bytes.to_vec(),
            which => {
                let mut datagram = genuine[usize::from(which) % genuine.len()].clone();
                let length = datagram.len();
                for (at, byte) in bytes.iter().enumerate().take(length) {
                    datagram[at] ^= byte;
                }
                datagram.truncate(length - usize::from(kind / 8) % (length + 1));
                datagram
            }
        };
        let from = SocketAddr::from((address, 1));
        let (mut room, mut opening) = ([0; 2048], [0; 4200]);
        // All of them were here before.
        match here.addressed(&datagram, from.into(), *now, &mut room) {
            Addressed::Peer(0) => {
                let opened = here.tunnel(0).open(&datagram, from, *now, &mut opening);
                assert!(matches!(opened, Opened::Refused(_)), "{opened:?}");
            }
            Addressed::Peer(other) => panic!("there is no peer {other}"),
            Addressed::Reply(length) => {
                assert!(length < datagram.len(), "an answer is shorter than the question")
            }
            Addressed::Refused(_) => {}
        }
        assert!(here.tunnel(0).poll(*now, &mut room).is_none_or(|length| length <= 148));
    });
});
