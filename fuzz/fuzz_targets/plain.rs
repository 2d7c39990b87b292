//! Datagrams of strangers at the tunnel of simulations, beside a session: none is opened but the one that was sealed, and that once.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::tunnel::plain::PlainTunnels;
use tidegate_gateway::tunnel::{Addressed, Opened, Tunnel, Tunnels};
use tidegate_mechanism::random::Seed;
use tidegate_units::Time;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let (now, from) = (Time::ZERO, SocketAddr::from(([192, 0, 2, 1], 1)));
    let make = |seed| PlainTunnels::new(&[(3, 4)], None, 1, Seed(seed));
    let (mut here, mut there) = (make(1), make(2));
    let (mut room, mut opening) = ([0; 2048], [0; 2048]);
    here.tunnel(0).want(now);
    for _ in 0..2 {
        while let Some(length) = here.tunnel(0).poll(now, &mut room) {
            there.tunnel(0).open(&room[..length], from, now, &mut opening);
        }
        while let Some(length) = there.tunnel(0).poll(now, &mut room) {
            here.tunnel(0).open(&room[..length], from, now, &mut opening);
        }
    }
    let length = here.tunnel(0).seal(&[7; 100], now, &mut room).expect("there is a session");
    let genuine = room[..length].to_vec();
    let mut datagram = if kind % 2 == 0 { bytes.to_vec() } else { genuine.clone() };
    if kind % 2 == 1 {
        for (at, byte) in bytes.iter().enumerate().take(length) {
            datagram[at] ^= byte;
        }
        datagram.truncate(length - usize::from(kind / 2) % (length + 1));
    }
    for _ in 0..2 {
        if let Addressed::Peer(number) = there.addressed(&datagram, from.into(), now, &mut room) {
            let opened = there.tunnel(number).open(&datagram, from, now, &mut opening);
            assert!(matches!(opened, Opened::Refused(_)) || datagram == genuine, "{opened:?}");
        }
    }
    let opened = there.tunnel(0).open(&genuine, from, now, &mut opening);
    assert_eq!(matches!(opened, Opened::Packet(_)), datagram != genuine, "{opened:?}");
});
