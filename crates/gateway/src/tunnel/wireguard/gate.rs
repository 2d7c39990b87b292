//! What strangers cost: which handshake messages are computed at all, and whose they are.
//!
//! Each costs some 100 us, so that there are bounds. The first code says that the sender knows our public key, which anybody may who
//! has seen it once. Who shows no more is heard a few times in a second, in all and by address; beyond, it has to show that it is where it
//! says, by a cookie (NDSS 2017, section 5.3), and is heard from a budget of its own: so nobody who writes another's address takes what that one
//! needs. A third budget is for addresses from which a site has proven itself, so that strangers with many addresses do not
//! take what sites need to renew their sessions. What another site passes on has no address that a cookie could be sent to, and a
//! budget by the site that it comes from. Where several threads have tunnels, one of them judges for all what comes from outside, so that
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
use crate::tunnel::{Refusal, Source};

/// Handshakes in a second that are computed of those who show no cookie; and of others, of each budget.
const UNSHOWN_PER_SECOND: u32 = 100;
const COMPUTED_PER_SECOND: u32 = 500;
/// Of each budget, those of one address or site.
const COMPUTED_OF_ONE: u32 = 20;
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

/// Handshakes that may be computed in this second: in all, and by who sends them.
#[derive(Debug)]
pub(super) struct Budget {
    most: u32,
    since: Time,
    left: u32,
    of_one: Box<[(Time, u32)]>,
}

impl Budget {
    pub(super) fn new(most: u32, now: Time) -> Self {
        Self { most, since: now, left: most, of_one: vec![(now, COMPUTED_OF_ONE); ADDRESSES].into() }
    }

    /// One more of `who`, a number of whom it is that it cannot choose.
    fn may(&mut self, who: u64, now: Time) -> bool {
        let second = Span::from_secs(1);
        if now.since(self.since) >= second {
            (self.since, self.left) = (now, self.most);
        }
        let (since, left) = &mut self.of_one[(who % ADDRESSES as u64) as usize];
        if now.since(*since) >= second {
            (*since, *left) = (now, COMPUTED_OF_ONE);
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
    /// Looks at the first code, and asks nobody for a cookie.
    codes: RateLimiter,
    /// Asks everybody.
    pub(super) cookies: RateLimiter,
    key: u64,
    /// For those who show no cookie.
    pub(super) unshown: Budget,
    /// For those who have shown one.
    shown: Budget,
    /// For those of them that are at addresses at which sites were.
    of_known: Budget,
    /// For what comes inside of another site's tunnel: whoever passes it on is no stranger, and cannot be sent a cookie for another.
    of_relays: Budget,
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
            codes: RateLimiter::new(&public, u64::MAX),
            cookies: RateLimiter::new(&public, 0),
            key: u64::from_le_bytes(key),
            unshown: Budget::new(UNSHOWN_PER_SECOND, now),
            shown: Budget::new(COMPUTED_PER_SECOND, now),
            of_known: Budget::new(COMPUTED_PER_SECOND, now),
            of_relays: Budget::new(COMPUTED_PER_SECOND, now),
            known: Arc::new(Known::new()?),
        })
    }

    /// What becomes of the handshake message `datagram`; both kinds cost some, and are counted.
    pub fn judge(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Judgement {
        let packet = match self.codes.verify_packet(None, datagram, room) {
            Ok(packet) => packet,
            Err(why) => return refused(why),
        };
        let may = match from {
            Source::Through(site) => self.of_relays.may(u64::from(site), now),
            Source::At(at) => {
                let who = hash_of(at.ip(), self.key);
                if self.unshown.may(who, now) {
                    true
                } else if let Err(why) = self.cookies.verify_packet(Some(at.ip()), datagram, room) {
                    return refused(why);
                } else {
                    self.shown.may(who, now) || (self.known.has(at.ip()) && self.of_known.may(who, now))
                }
            }
        };
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

/// What becomes of a message that the library does not let pass.
fn refused(why: TunnResult<'_>) -> Judgement {
    match why {
        TunnResult::WriteToNetwork(cookie) => Judgement::Reply(cookie.len()),
        TunnResult::Err(why) => Judgement::Refused(refusal(&why)),
        _ => Judgement::Refused(Refusal::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn one_address_has_no_more_than_its_part_of_the_handshakes() {
        let mut budget = Budget::new(COMPUTED_PER_SECOND, Time::ZERO);
        let who = |address: u32| hash_of(Ipv4Addr::from(address).into(), 5);
        let count = (0..1000).filter(|_| budget.may(who(7), Time::ZERO)).count();
        assert_eq!(count, COMPUTED_OF_ONE as usize);
        let others = (100..10_000).filter(|&number| budget.may(who(number), Time::ZERO)).count();
        assert_eq!(count + others, COMPUTED_PER_SECOND as usize);
        assert!(budget.may(who(7), Time::ZERO + Span::from_secs(1)));
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
