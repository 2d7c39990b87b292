use proptest::prelude::*;

use super::super::groups::Division;
use super::super::groups::tests::plan;
use super::*;
use crate::tunnel::wireguard::{Handshake, PeerKeys, PrivateKey};
use crate::tunnel::{Tunnel as _, Tunnels as _};

const THREADS: u8 = 3;

fn key(site: usize) -> PrivateKey {
    PrivateKey::from([site as u8 + 1; 32])
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 51820))
}

/// Three threads with two sites each; site `n` has key `n`, is behind `10.n.0.0/16`, and is on thread `n % 3`.
struct World {
    beside: Vec<Beside>,
    tunnels: Vec<WireguardTunnels>,
    /// What each core was told: of handshakes that they may be heard.
    heard: Vec<Vec<(Kind, Vec<u8>)>>,
}

impl World {
    fn new() -> Self {
        let nets: Vec<Vec<String>> = (0..6).map(|site| vec![format!("10.{site}.0.0/16")]).collect();
        let sites: Vec<(Option<usize>, &[String])> = nets.iter().map(|nets| (None, &nets[..])).collect();
        let core = plan(&sites, "").core(&[9; 32], 0);
        let division = Division::new(&core, THREADS, None);
        let owners = Arc::new(Owners::new(&core.sites, (0..6).map(|site| key(site).public()), &division));
        let shared: Vec<_> = (0..THREADS).map(|_| Arc::new(Shared::new().unwrap())).collect();
        let peer = |site: usize| PeerKeys { public: key(site).public(), shared: None, keepalive: None };
        let tunnels = (0..THREADS).map(|thread| {
            let own = division.sites(thread);
            assert_eq!(own, [usize::from(thread), usize::from(thread) + 3]);
            let numbers = own.iter().map(|&site| site as u32).collect();
            let peers: Vec<PeerKeys> = own.iter().map(|&site| peer(site)).collect();
            WireguardTunnels::among((thread, numbers), &key(9), &peers, Time::ZERO).unwrap()
        });
        Self {
            beside: Beside::all(&shared, &owners),
            tunnels: tunnels.collect(),
            heard: vec![Vec::new(); usize::from(THREADS)],
        }
    }

    fn come(&mut self, thread: usize, datagram: &[u8]) {
        let wan = Wan { from: address(7).into(), traffic_class: 0, came: Time::ZERO, datagram };
        if self.beside[thread].keeps_datagram(&wan, &mut self.tunnels[thread]) {
            self.heard[thread].push((Kind::Session, datagram.to_vec()));
        }
    }

    fn send(&mut self, thread: usize, packet: &[u8]) {
        if self.beside[thread].keeps_packet(packet, Time::ZERO) {
            self.heard[thread].push((Kind::Lan, packet.to_vec()));
        }
    }

    /// Lets all threads take what they were given, until nothing is left: how many times something was taken.
    fn settle(&mut self) -> usize {
        let mut room = vec![0; 1 << 16];
        let mut taken = 0;
        while (0..self.beside.len()).any(|thread| !self.beside[thread].lies_down()) {
            for thread in 0..self.beside.len() {
                while let Some((head, bytes)) = self.beside[thread].take(&mut room) {
                    taken += 1;
                    let (from, came, datagram) = (head.from, head.came, &room[..bytes]);
                    let wan = Wan { from, traffic_class: head.traffic_class, came, datagram };
                    let own = &mut self.tunnels[thread];
                    if self.beside[thread].keeps_taken(head.kind, &wan, own) {
                        self.heard[thread].push((head.kind, datagram.to_vec()));
                    }
                }
            }
        }
        taken
    }

    fn count(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.beside.iter().map(|beside| of(&beside.counts)).sum()
    }
}

/// What the end with key `from` asks the gateway.
fn initiation(from: usize) -> Vec<u8> {
    let peers = [PeerKeys { public: key(9).public(), shared: None, keepalive: None }];
    let mut tunnels = WireguardTunnels::new(&key(from), &peers, Time::ZERO).unwrap();
    let mut room = [0; 2048];
    tunnels.tunnel(0).want(Time::ZERO);
    let bytes = tunnels.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
    room[..bytes].to_vec()
}

fn packet(to: u8) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[16..20].copy_from_slice(&[10, to, 0, 1]);
    packet
}

#[test]
fn packets_of_hosts_come_to_their_thread_wherever_they_are_read() {
    let mut world = World::new();
    for thread in 0..3 {
        for to in 0..6 {
            world.send(thread, &packet(to));
        }
    }
    assert_eq!((world.settle(), world.count(|counts| counts.handed_over)), (12, 12));
    for (thread, heard) in (0..).zip(&world.heard) {
        assert_eq!(heard.len(), 6);
        assert!(heard.iter().all(|(kind, packet)| *kind == Kind::Lan && packet[17] % 3 == thread));
    }
    // Nobody's is counted where it was read.
    world.send(1, &packet(77));
    assert_eq!((world.settle(), world.heard[1].len()), (0, 7));
}

#[test]
fn a_handshake_is_judged_once_and_heard_where_its_site_is() {
    for read_at in 0..3 {
        for site in 0..6 {
            let mut world = World::new();
            let asked = initiation(site);
            world.come(read_at, &asked);
            world.settle();
            let heard: Vec<usize> = world.heard.iter().map(Vec::len).collect();
            let mut expected = [0; 3];
            expected[site % 3] = 1;
            assert_eq!(heard, expected, "read at {read_at}, of {site}");
            // Its tunnels hear it without judging it again, and only it.
            let mut room = [0; 2048];
            let own = &mut world.tunnels[site % 3];
            let addressed = own.addressed(&asked, address(7).into(), Time::ZERO, &mut room);
            assert_eq!(addressed, crate::tunnel::Addressed::Peer((site / 3) as u32));
        }
    }
    let mut world = World::new();
    world.come(2, &initiation(8));
    world.settle();
    assert_eq!(world.count(|counts| counts.refused[Refusal::Unknown as usize]), 1, "a stranger is nobody's");
    assert!(world.heard.iter().all(Vec::is_empty));
}

#[test]
fn a_flood_of_handshakes_has_the_bounds_of_one_gateway_however_it_is_spread() {
    let mut world = World::new();
    let asked = initiation(1);
    for turn in 0..1000 {
        world.come(turn % 3, &asked);
        world.settle();
    }
    // One address has its part of what is computed; the first hundred are not asked for a cookie.
    let heard: usize = world.heard.iter().map(Vec::len).sum();
    assert_eq!(heard, 20);
    let replies = (0..3).map(|thread| {
        std::iter::from_fn(|| world.beside[thread].next_reply())
            .inspect(|(_, reply)| assert_eq!(reply.len(), 64))
            .count()
    });
    assert_eq!(replies.collect::<Vec<_>>(), [REPLIES_MAX, 0, 0], "answers that nobody sends have a bound");
}

#[test]
fn who_sleeps_is_woken_up_once_and_who_is_awake_is_left_alone() {
    let mut world = World::new();
    let is_woken = |of: &World, thread: usize| of.beside[thread].own.bell.wake.read().is_ok();
    assert!(world.beside[1].lies_down() && world.beside[2].lies_down());
    world.send(0, &packet(1));
    assert!(!is_woken(&world, 1), "not before the round is over");
    world.beside[0].wake_others();
    assert_eq!([1, 2].map(|thread| is_woken(&world, thread)), [true, false], "only who got something");
    world.beside[1].gets_up();
    world.send(0, &packet(4));
    world.beside[0].wake_others();
    assert!(!is_woken(&world, 1), "it looks by itself");
    assert!(!world.beside[1].lies_down(), "there is something to take");
    assert_eq!(world.settle(), 2);
    world.beside[0].wake_others();
    assert!(!is_woken(&world, 1), "there is nothing new");
}

#[test]
fn whoever_hands_over_much_keeps_nobody_waiting() {
    let mut world = World::new();
    for _ in 0..100 {
        world.send(0, &packet(2));
    }
    world.send(1, &packet(5));
    let mut room = [0; 2048];
    let taken: Vec<u8> = (0..2)
        .map(|_| {
            world.beside[2].take(&mut room).expect("there is more");
            room[17]
        })
        .collect();
    assert!(taken.contains(&5), "{taken:?}");
}

#[test]
fn what_comes_over_a_lane_is_not_handed_over_again() {
    let mut world = World::new();
    // As if a reload were in between: the session's thread is another one than who takes it thinks.
    let session = [4, 0, 0, 0, 1, 2, 0, 0];
    let wan = Wan { from: address(7).into(), traffic_class: 0, came: Time::ZERO, datagram: &session };
    assert!(world.beside[1].keeps_taken(Kind::Session, &wan, &mut world.tunnels[1]));
    assert_eq!(world.settle(), 0);
    // Who does not judge refuses what nobody has judged.
    let asked = initiation(0);
    let wan = Wan { datagram: &asked, ..wan };
    assert!(!world.beside[1].keeps_taken(Kind::Unjudged, &wan, &mut world.tunnels[1]));
    assert_eq!((world.settle(), world.count(|counts| counts.refused[Refusal::Unknown as usize])), (0, 1));
    // A verdict about another one does not count for it.
    let response = Kind::Judged(Handshake::Response(0));
    assert!(world.beside[1].keeps_taken(response, &wan, &mut world.tunnels[1]));
    assert_eq!(world.settle(), 0);
}

proptest! {
    /// Whatever comes wherever, it is taken twice at most: once where handshakes are judged, and once where it is
    /// heard.
    #[test]
    fn nothing_goes_to_and_fro(
        datagrams in prop::collection::vec(
            (0usize..3, any::<bool>(), 0u8..6, prop::collection::vec(any::<u8>(), 0..160)), 1..40,
        ),
    ) {
        let mut world = World::new();
        for (thread, is_like, kind, mut bytes) in datagrams {
            if is_like && bytes.len() > 4 {
                bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
            }
            world.come(thread, &bytes);
            prop_assert!(world.settle() <= 2);
        }
        prop_assert_eq!(world.count(|counts| counts.lost), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_as_lost_and_handshakes_get_through(
        lengths in prop::collection::vec(0usize..2100, 3000),
    ) {
        let mut world = World::new();
        let sent = lengths.len() as u64;
        for length in lengths {
            let mut datagram = vec![9; length.max(8)];
            datagram[..6].copy_from_slice(&[4, 0, 0, 0, 7, 1]);
            world.come(0, &datagram);
        }
        let (handed_over, lost) = (world.count(|counts| counts.handed_over), world.count(|counts| counts.lost));
        let malformed = world.count(|counts| counts.refused[Refusal::Malformed as usize]);
        prop_assert!(handed_over + lost + malformed == sent);
        prop_assert!(lost > 0 && handed_over > 0 && malformed > 0);
        world.come(0, &initiation(1));
        prop_assert_eq!(world.settle() as u64, handed_over + 1);
        prop_assert!(world.heard[1].iter().any(|(kind, _)| matches!(kind, Kind::Judged(_))));
    }
}
