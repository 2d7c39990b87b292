//! What strangers send to a gateway with two threads, at either of them: it is handed over at most once, and once more if it is a handshake; and
//! whatever it is, it is heard, lost, answered or refused.
#![no_main]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::daemon::config::{self, encode_key};
use tidegate_gateway::daemon::order::Shared;
use tidegate_gateway::daemon::threads::beside::{Beside, Wan};
use tidegate_gateway::daemon::threads::groups::Division;
use tidegate_gateway::daemon::threads::owners::Owners;
use tidegate_gateway::tunnel::wireguard::{PeerKeys, PrivateKey, WireguardTunnels};
use tidegate_gateway::tunnel::{Addressed, Tunnel, Tunnels};
use tidegate_units::{Span, Time};

struct World {
    beside: Vec<Beside>,
    tunnels: Vec<WireguardTunnels>,
    /// What the two sites ask the gateway.
    asked: Vec<Vec<u8>>,
    now: Time,
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from([number; 32])
}

fn peer(number: u8) -> PeerKeys {
    PeerKeys { public: key(number).public(), shared: None, keepalive: None }
}

fn world() -> World {
    let text: String = (1..=2)
        .map(|site| format!("[sites.s{site}]\npublic_key = \"{}\"\n", encode_key(&key(site).public())))
        .collect();
    let plan =
        config::read("g", &format!("[gateway]\nprivate_key_file = \"k\"\n{text}")).expect("it is right");
    let division = Division::new(plan.outline(), 2, None);
    let owners = Owners::new(&plan.outline().sites, plan.peers.iter().map(|peer| peer.public), &division);
    let shared: Vec<_> = (0..2).map(|_| Arc::new(Shared::new().expect("there is room"))).collect();
    let tunnels = (0..2).map(|thread| {
        WireguardTunnels::among((thread, vec![thread.into()]), &key(9), &[peer(thread + 1)], Time::ZERO)
            .expect("there is randomness")
    });
    let asked = (1..=2).map(|site| {
        let mut room = [0; 2048];
        let mut there =
            WireguardTunnels::new(&key(site), &[peer(9)], Time::ZERO).expect("there is randomness");
        there.tunnel(0).want(Time::ZERO);
        let length = there.tunnel(0).poll(Time::ZERO, &mut room).expect("it asks");
        room[..length].to_vec()
    });
    World {
        beside: Beside::all(&shared, &Arc::new(owners)),
        tunnels: tunnels.collect(),
        asked: asked.collect(),
        now: Time::ZERO,
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(world());
}

fuzz_target!(|input: (bool, u8, [u8; 4], &[u8])| {
    let (at, kind, address, bytes) = input;
    WORLD.with_borrow_mut(|World { beside, tunnels, asked, now }| {
        *now = *now + Span::from_micros(100);
        let mut datagram = bytes.to_vec();
        if kind % 4 > 0 {
            datagram = asked[usize::from(kind % 2)].clone();
            datagram.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
        }
        let from = SocketAddr::from((address, 1));
        let before: Vec<_> = beside.iter().map(|one| one.counts).collect();
        let (mut heard, mut taken, mut replies) = (0, 0, 0);
        let mut hear = |thread: usize, datagram: &[u8], tunnels: &mut [WireguardTunnels]| {
            heard += 1;
            let mut room = [0; 2048];
            if let Addressed::Peer(other) = tunnels[thread].addressed(datagram, from.into(), *now, &mut room) {
                assert_eq!(other, 0, "there is no other peer");
            }
        };
        let wan = Wan { from: from.into(), traffic_class: 0, came: *now, datagram: &datagram };
        let own = usize::from(at);
        if beside[own].keeps_datagram(&wan, &mut tunnels[own]) {
            hear(own, &datagram, tunnels);
        }
        let mut room = [0; 4096];
        for _ in 0..3 {
            for thread in 0..2 {
                while let Some((head, length)) = beside[thread].take(&mut room) {
                    taken += 1;
                    let wan =
                        Wan { from: head.from, traffic_class: 0, came: head.came, datagram: &room[..length] };
                    if beside[thread].keeps_taken(head.kind, &wan, &mut tunnels[thread]) {
                        hear(thread, &room[..length], tunnels);
                    }
                }
                while let Some((to, reply)) = beside[thread].next_reply() {
                    replies += 1;
                    assert!(
                        to.far == from && reply.len() < datagram.len(),
                        "an answer is shorter than the question"
                    );
                }
            }
        }
        assert!(taken <= 2 && beside.iter().all(Beside::lies_down), "{taken}");
        let grown = |of: fn(&tidegate_gateway::daemon::threads::beside::Counts) -> u64| -> u64 {
            beside.iter().zip(&before).map(|(one, then)| of(&one.counts) - of(then)).sum()
        };
        let refused = grown(|counts| counts.refused.iter().sum());
        assert_eq!(heard + replies + refused + grown(|counts| counts.lost), 1);
        assert_eq!(grown(|counts| counts.handed_over), taken);
    });
});
