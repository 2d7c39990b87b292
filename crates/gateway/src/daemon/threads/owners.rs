//! Whose a packet or a datagram is, among several threads. The table is made once and never changed: each thread
//! gets another one with another core.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::groups::Division;
use crate::core::config::SiteConfig;
use crate::core::routes::Routes;
use crate::tunnel::wireguard::{Handshake, THREAD_AT, THREAD_MASK, thread_of};

/// See the module.
#[derive(Debug)]
pub struct Owners {
    threads: u8,
    /// The thread of each network.
    routes: Routes,
    /// The thread of each key.
    of_key: HashMap<[u8; 32], u8>,
}

/// Whose a datagram is, by what can be read of it without any secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Of a session whose name says this thread.
    Thread(u8),
    /// A handshake message, which is judged before it is anybody's.
    Handshake,
    /// Of a session that no thread has.
    Nobody,
    /// Nothing that is known: whoever has it counts it.
    Garbage,
}

impl Owners {
    /// Of `sites` with `keys`, by `division`.
    pub fn new(sites: &[SiteConfig], keys: impl Iterator<Item = [u8; 32]>, division: &Division) -> Self {
        let mut routes = Routes::default();
        for (number, site) in sites.iter().enumerate() {
            for network in &site.networks {
                routes.add(*network, division.of(number).into());
            }
        }
        let of_key = keys.enumerate().map(|(number, key)| (key, division.of(number))).collect();
        Self { threads: division.threads(), routes, of_key }
    }

    /// The thread of who is behind `destination`.
    pub fn of_destination(&self, destination: IpAddr) -> Option<u8> {
        self.routes.peer(destination).map(|thread| thread as u8)
    }

    /// Whose a datagram is. `io::steer` has the same for the kernel.
    pub fn of_datagram(&self, datagram: &[u8]) -> Whose {
        match (datagram.first(), datagram.get(THREAD_AT)) {
            (Some(1 | 2), _) => Whose::Handshake,
            // Cookies and packets.
            (Some(3 | 4), Some(byte)) => {
                self.checked(byte & THREAD_MASK).map_or(Whose::Nobody, Whose::Thread)
            }
            _ => Whose::Garbage,
        }
    }

    /// The thread that is to hear `handshake`.
    pub fn of_handshake(&self, handshake: &Handshake) -> Option<u8> {
        match handshake {
            Handshake::Initiation(key) => self.of_key.get(key).copied(),
            Handshake::Response(session) => self.checked(thread_of(*session)),
        }
    }

    fn checked(&self, thread: u8) -> Option<u8> {
        Some(thread).filter(|&thread| thread < self.threads)
    }
}

/// Where `packet` is to go, if it says so.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(16..)?.first_chunk::<4>()?)),
        6 => Some(Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::groups::tests::plan;
    use super::*;

    fn owners(threads: u8) -> Owners {
        let nets = |text: &str| vec![text.to_owned()];
        let all = [nets("10.0.0.0/8"), nets("10.2.0.0/16"), nets("fd00::/8")];
        let plan = plan(&[(None, &all[0]), (None, &all[1]), (None, &all[2])], "");
        let core = plan.core(&[9; 32], 0);
        let division = Division::new(&core, threads, None);
        Owners::new(&core.sites, plan.peers.iter().map(|peer| peer.public), &division)
    }

    #[test]
    fn the_longest_prefix_of_all_sites_says_the_thread() {
        let owners = owners(3);
        let of = |address: &str| owners.of_destination(address.parse().unwrap());
        assert_eq!(
            [of("10.1.0.1"), of("10.2.0.1"), of("fd00::1"), of("11.0.0.1")],
            [Some(0), Some(1), Some(2), None]
        );
        let mut v4 = [0; 20];
        v4[0] = 0x45;
        v4[16..].copy_from_slice(&[10, 2, 0, 1]);
        assert_eq!(destination(&v4), Some([10, 2, 0, 1].into()));
        let mut v6 = [0; 40];
        (v6[0], v6[39]) = (0x60, 1);
        assert_eq!(destination(&v6), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(
            [destination(&v4[..19]), destination(&v6[..39]), destination(&[]), destination(&[0; 40])],
            [None; 4]
        );
    }

    #[test]
    fn sessions_say_their_thread_and_handshakes_are_judged_first() {
        let owners = owners(3);
        assert_eq!(owners.of_datagram(&[4, 0, 0, 0, 9, 0xf2, 0, 0]), Whose::Thread(2));
        assert_eq!(owners.of_datagram(&[3, 0, 0, 0, 9, 0x10, 0, 0]), Whose::Thread(0));
        assert_eq!(owners.of_datagram(&[4, 0, 0, 0, 9, 0x13, 0, 0]), Whose::Nobody);
        assert_eq!([1, 2].map(|kind| owners.of_datagram(&[kind, 0])), [Whose::Handshake; 2]);
        assert_eq!(
            [&[][..], &[4, 0, 0, 0, 9], &[0; 9], &[5; 9]].map(|one| owners.of_datagram(one)),
            [Whose::Garbage; 4]
        );
        assert_eq!(owners.of_handshake(&Handshake::Initiation([2; 32])), Some(1));
        assert_eq!(owners.of_handshake(&Handshake::Initiation([77; 32])), None);
        let response = |name: u32| owners.of_handshake(&Handshake::Response(name << 8 | 7));
        assert_eq!([response(0x12), response(0x13)], [Some(2), None]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_somebodys_or_nobodys(
            bytes in prop::collection::vec(any::<u8>(), 0..64), threads in 1u8..=16,
        ) {
            if let Whose::Thread(thread) = owners(threads).of_datagram(&bytes) {
                prop_assert!(thread < threads);
            }
            let _ = destination(&bytes);
        }
    }
}
