//! What strangers cost: which handshake messages are computed at all, and whose they are.
//!
//! Each costs some 100 us, so that there are three bounds: the first code, which says that the sender knows our
//! public key; cookies, which say that they are where they say (NDSS 2017, section 5.3); and a budget in all and
//! by address; and a second budget for addresses from which a site has proven itself, so that strangers with many addresses do not
//! take what sites need to renew their sessions. What another site passes on has a budget of its own, and no cookies. Where several threads have tunnels, one of them judges for all what comes from outside, so that
//! bounds are those of the gateway and not of each thread.

use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use siphasher::sip::SipHasher24;
use tidegate_units::{Span, Time};

use super::refusal;
use crate::tunnel::Refusal;

/// Handshakes in a second from which on strangers must show that they are where they say (cookies; section 5.3).
const HANDSHAKES_PER_SECOND: u64 = 100;
/// Handshakes in a second that are computed at all, and of one address.
const COMPUTED_PER_SECOND: u32 = 500;
const COMPUTED_OF_ADDRESS: u32 = 20;
/// Addresses that are told apart at once; others share with them.
const ADDRESSES: usize = 1024;
/// Addresses that are remembered because a site was there; a later one takes the place of one before.
const KNOWN: usize = 4096;

/// A handshake message that may be computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// Who has this key asks for a session. That they have it is not proven yet.
    Initiation([u8; 32]),
    /// An answer to who asked under this name.
    Response(u32),
}

/// What becomes of a handshake message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// It is heard by whose it is.
    Passed(Handshake),
    /// Its sender is to be answered with so many bytes, which stand in the room.
    Reply(usize),
    /// It counts for nothing.
    Refused(Refusal),
}

/// A keyed hash of `from`. Whoever has one address of a network of IPv6 has all of them.
fn hash_of(from: IpAddr, key: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(key, 0);
    match from {
        IpAddr::V4(address) => hasher.write(&address.octets()),
        IpAddr::V6(address) => hasher.write(&address.octets()[..8]),
    }
    hasher.finish()
}

/// Addresses from which sites have proven themselves by a handshake; threads share it.
#[derive(Debug)]
pub struct Known {
    key: u64,
    places: Box<[AtomicU64]>,
}

impl Known {
    /// Nobody is known.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 8];
        getrandom::getrandom(&mut key)?;
        let places = (0..KNOWN).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { key: u64::from_le_bytes(key), places })
    }

    fn place(&self, from: IpAddr) -> (&AtomicU64, u64) {
        let hash = hash_of(from, self.key);
        (&self.places[(hash % KNOWN as u64) as usize], hash)
    }

    /// A site is there.
    pub fn add(&self, from: IpAddr) {
        let (place, hash) = self.place(from);
        place.store(hash, Ordering::Relaxed);
    }

    /// Whether one was.
    pub fn has(&self, from: IpAddr) -> bool {
        let (place, hash) = self.place(from);
        place.load(Ordering::Relaxed) == hash
    }
}

/// Handshakes that may be computed in this second: in all, and by address.
#[derive(Debug)]
struct Budget {
    key: u64,
    since: Time,
    left: u32,
    of_address: Box<[(Time, u32)]>,
}

impl Budget {
    fn new(key: u64, now: Time) -> Self {
        Self {
            key,
            since: now,
            left: COMPUTED_PER_SECOND,
            of_address: vec![(now, COMPUTED_OF_ADDRESS); ADDRESSES].into(),
        }
    }

    fn may(&mut self, from: IpAddr, now: Time) -> bool {
        let second = Span::from_secs(1);
        if now.since(self.since) >= second {
            (self.since, self.left) = (now, COMPUTED_PER_SECOND);
        }
        let place = (hash_of(from, self.key) % ADDRESSES as u64) as usize;
        let (since, left) = &mut self.of_address[place];
        if now.since(*since) >= second {
            (*since, *left) = (now, COMPUTED_OF_ADDRESS);
        }
        let may = *left > 0 && self.left > 0;
        if may {
            *left -= 1;
            self.left -= 1;
        }
        may
    }
}

/// See the module.
pub(super) struct Gate {
    pub(super) private: StaticSecret,
    pub(super) public: PublicKey,
    /// Asks strangers for cookies.
    pub(super) limiter: RateLimiter,
    /// Asks nobody: only the first code is looked at.
    codes: RateLimiter,
    budget: Budget,
    /// For what comes inside of another site's tunnel: whoever passes it on is no stranger, and cannot be sent a cookie for another.
    of_relays: Budget,
    /// For addresses at which sites were.
    of_known: Budget,
    pub(super) known: Arc<Known>,
}

impl Gate {
    /// Of the gateway with this key.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(private: StaticSecret, now: Time) -> Result<Self, getrandom::Error> {
        let public = PublicKey::from(&private);
        let mut key = [0; 8];
        getrandom::getrandom(&mut key)?;
        Ok(Self {
            private,
            public,
            limiter: RateLimiter::new(&public, HANDSHAKES_PER_SECOND),
            codes: RateLimiter::new(&public, u64::MAX),
            budget: Budget::new(u64::from_le_bytes(key), now),
            of_relays: Budget::new(u64::from_le_bytes(key), now),
            of_known: Budget::new(u64::from_le_bytes(key), now),
            known: Arc::new(Known::new()?),
        })
    }

    /// Whether `from` is no address: it came inside of another site's tunnel.
    const fn is_relayed(from: IpAddr) -> bool {
        from.is_unspecified()
    }

    /// What becomes of the handshake message `datagram`; both kinds cost some, and are counted.
    pub fn judge(&mut self, datagram: &[u8], from: IpAddr, now: Time, room: &mut [u8]) -> Judgement {
        self.limiter.reset_count();
        let (limiter, budget) = if Self::is_relayed(from) {
            (&self.codes, &mut self.of_relays)
        } else {
            (&self.limiter, &mut self.budget)
        };
        let packet = match limiter.verify_packet(Some(from), datagram, room) {
            Ok(packet) => packet,
            Err(TunnResult::WriteToNetwork(cookie)) => return Judgement::Reply(cookie.len()),
            Err(TunnResult::Err(why)) => return Judgement::Refused(refusal(&why)),
            Err(_) => return Judgement::Refused(Refusal::Malformed),
        };
        // That they are where they say cookies have shown, where many ask.
        let may = budget.may(from, now) || (self.known.has(from) && self.of_known.may(from, now));
        if !may {
            return Judgement::Refused(Refusal::Busy);
        }
        match packet {
            Packet::HandshakeInit(initiation) => {
                match parse_handshake_anon(&self.private, &self.public, &initiation) {
                    Ok(half) => Judgement::Passed(Handshake::Initiation(half.peer_static_public)),
                    Err(why) => Judgement::Refused(refusal(&why)),
                }
            }
            Packet::HandshakeResponse(response) => {
                Judgement::Passed(Handshake::Response(response.receiver_idx))
            }
            Packet::PacketCookieReply(_) | Packet::PacketData(_) => Judgement::Refused(Refusal::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn one_address_has_no_more_than_its_part_of_the_handshakes() {
        let mut budget = Budget::new(5, Time::ZERO);
        let one = IpAddr::from([192, 0, 2, 1]);
        let count = (0..1000).filter(|_| budget.may(one, Time::ZERO)).count();
        assert_eq!(count, COMPUTED_OF_ADDRESS as usize);
        let others =
            (0..10_000_u32).filter(|&number| budget.may(Ipv4Addr::from(number).into(), Time::ZERO)).count();
        assert_eq!(count + others, COMPUTED_PER_SECOND as usize);
        assert!(budget.may(one, Time::ZERO + Span::from_secs(1)));
    }

    #[test]
    fn who_was_there_is_known_and_its_network_of_ipv6_with_it() {
        let known = Known::new().expect("there is randomness");
        let at = |text: &str| text.parse::<IpAddr>().expect("it is one");
        assert!(!known.has(at("192.0.2.1")) && !known.has(at("2001:db8::1")));
        known.add(at("192.0.2.1"));
        known.add(at("2001:db8::1"));
        assert!(known.has(at("192.0.2.1")) && !known.has(at("192.0.2.2")));
        assert!(known.has(at("2001:db8::ffff:1")) && !known.has(at("2001:db8:0:1::1")));
    }
}
