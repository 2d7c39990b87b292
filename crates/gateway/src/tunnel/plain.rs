//! A tunnel for simulations: sessions, counters, sizes and times as WireGuard has them, and a keyed tag in the place of its
//! cryptography. Packets are scrambled so that none of their bytes is seen outside, and nobody's secret is kept by it.
//!
//! Source: WireGuard (NDSS 2017), sections 5.4 (messages), 5.4.6 (replay), 6 (timers).
//! Deviations:
//! - There is no cookie; who asks too often is refused.
//! - Whoever answers a handshake uses the new session once the other end has, as there; sessions are not renewed after 2^60 packets.

use std::collections::HashMap;
use std::hash::Hasher;
use std::net::SocketAddr;

use siphasher::sip::SipHasher24;
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::{Span, Time};

use super::{Addressed, OVERHEAD_BYTES, Opened, PADDING_BYTES, Refusal, Source, Tunnel, Tunnels};

/// Kinds of datagrams, in the first four bytes, and the bytes of the first two (section 5.4).
const INITIATION: u32 = 1;
const RESPONSE: u32 = 2;
const DATA: u32 = 4;
const INITIATION_BYTES: usize = 148;
const RESPONSE_BYTES: usize = 92;
const HEADER_BYTES: usize = 16;
/// Section 6.1.
const REKEY_AFTER: Span = Span::from_secs(120);
const REJECT_AFTER: Span = Span::from_secs(180);
const REKEY_TIMEOUT: Span = Span::from_secs(5);
const KEEPALIVE_TIMEOUT: Span = Span::from_secs(10);
/// Counters that may be late (as of Linux's `COUNTER_WINDOW_SIZE`).
const WINDOW: u64 = 8192;
/// Initiations of one peer that are heard in a second.
const INITIATIONS_PER_SECOND: u32 = 20;

/// Counters that were seen.
#[derive(Debug, Clone)]
struct Seen {
    bits: Vec<u64>,
    /// One more than the greatest.
    next: u64,
}

impl Seen {
    fn new() -> Self {
        Self { bits: vec![0; (WINDOW / 64) as usize], next: 0 }
    }

    fn is_new(&self, counter: u64) -> bool {
        counter >= self.next
            || (self.next - counter <= WINDOW - 64 && self.bits[Self::at(counter)] >> (counter % 64) & 1 == 0)
    }

    fn add(&mut self, counter: u64) {
        // Words between the old and the new greatest begin anew; all of them if it is far ahead.
        let (from, to) = (self.next.div_ceil(64), counter / 64);
        for word in from..=to.min(from + WINDOW / 64) {
            let at = (word % (WINDOW / 64)) as usize;
            self.bits[at] = 0;
        }
        let at = Self::at(counter);
        self.bits[at] |= 1 << (counter % 64);
        self.next = self.next.max(counter + 1);
    }

    const fn at(counter: u64) -> usize {
        (counter / 64 % (WINDOW / 64)) as usize
    }
}

#[derive(Debug, Clone)]
struct Session {
    /// Our name of it, and the other end's.
    here: u32,
    there: u32,
    key: (u64, u64),
    began: Time,
    /// We asked for it: it is ours to renew.
    is_ours: bool,
    next: u64,
    seen: Seen,
}

impl Session {
    fn tag(&self, counter: u64, packet: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write_u64(counter);
        hasher.write(packet);
        hasher.finish()
    }

    /// The same again takes it away.
    fn scramble(&self, counter: u64, bytes: &mut [u8]) {
        let mut stream = Substream::new(Seed(self.key.0 ^ self.key.1.rotate_left(17) ^ counter));
        for word in bytes.chunks_mut(8) {
            let keys = stream.bits().to_le_bytes();
            for (byte, key) in word.iter_mut().zip(keys) {
                *byte ^= key;
            }
        }
    }

    fn is_alive(&self, now: Time) -> bool {
        now.since(self.began) < REJECT_AFTER
    }
}

/// The tunnel to one other gateway; see the module.
#[derive(Debug)]
pub struct PlainTunnel {
    secret: (u64, u64),
    number: u32,
    random: Substream,
    /// What is used for sending; the one before, for what is late; and one that the other end has not used yet.
    current: Option<Session>,
    previous: Option<Session>,
    next: Option<Session>,
    /// A handshake that is under way: our name of the session, and when it began, and when to ask again.
    asking: Option<(u32, Time)>,
    wants: bool,
    /// To answer with; and the stamp of the newest initiation that was heard.
    response: Option<[u8; RESPONSE_BYTES]>,
    heard_stamp: u64,
    stamp_base: u64,
    budget: (Time, u32),
    /// When something was last sent, and when something came that nothing was sent since.
    sent: Option<Time>,
    unanswered: Option<Time>,
    /// Since when what was sent has no answer.
    silent_since: Option<Time>,
    keepalive: Option<Span>,
    /// A session has just begun: the other end is told by a sign of life.
    greets: bool,
    /// What an end that is not honest makes of what it says; `false`: it does not say it.
    distorts: Option<fn(&mut [u8]) -> bool>,
}

impl PlainTunnel {
    fn name(&mut self) -> u32 {
        // The upper bits name the peer, as a gateway must find it by them.
        self.number << 12 | (self.random.bits() as u32 & 0xfff)
    }

    fn tag(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(bytes);
        hasher.finish()
    }

    fn session(
        &self,
        (here, there): (u32, u32),
        (ours, theirs): (u64, u64),
        is_ours: bool,
        now: Time,
    ) -> Session {
        // Both ends make the same key of both nonces, the asking end's first.
        let (first, second) = if is_ours { (ours, theirs) } else { (theirs, ours) };
        let mut both = [0; 16];
        both[..8].copy_from_slice(&first.to_le_bytes());
        both[8..].copy_from_slice(&second.to_le_bytes());
        let key = (self.tag(&both), self.tag(&[&both[..], b"2"].concat()));
        Session { here, there, key, began: now, is_ours, next: 0, seen: Seen::new() }
    }

    fn promote(&mut self, session: Session) {
        self.previous = self.current.replace(session);
    }

    fn initiation(&mut self, now: Time) -> [u8; INITIATION_BYTES] {
        let here = self.name();
        self.asking = Some((here, now));
        self.wants = false;
        let mut bytes = [0; INITIATION_BYTES];
        bytes[..4].copy_from_slice(&INITIATION.to_le_bytes());
        bytes[4..8].copy_from_slice(&here.to_le_bytes());
        bytes[8..16].copy_from_slice(&nonce(&self.secret, here).to_le_bytes());
        bytes[16..24].copy_from_slice(&(self.stamp_base + now.as_nanos() + 1).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.secret.0.wrapping_mul(3).to_le_bytes());
        let tag = self.tag(&bytes[..INITIATION_BYTES - 8]);
        bytes[INITIATION_BYTES - 8..].copy_from_slice(&tag.to_le_bytes());
        bytes
    }

    fn on_initiation(&mut self, bytes: &[u8], now: Time) -> Opened {
        if self.tag(&bytes[..INITIATION_BYTES - 8]) != u64_at(bytes, INITIATION_BYTES - 8) {
            return Opened::Refused(Refusal::Forged);
        }
        let stamp = u64_at(bytes, 16);
        if stamp <= self.heard_stamp {
            return Opened::Refused(Refusal::Replayed);
        }
        if now.since(self.budget.0) >= Span::from_secs(1) {
            self.budget = (now, INITIATIONS_PER_SECOND);
        }
        if self.budget.1 == 0 {
            return Opened::Refused(Refusal::Busy);
        }
        self.budget.1 -= 1;
        self.heard_stamp = stamp;
        let there = u32_at(bytes, 4);
        let here = self.name();
        let (ours, theirs) = (nonce(&self.secret, here), u64_at(bytes, 8));
        self.next = Some(self.session((here, there), (ours, theirs), false, now));
        let mut response = [0; RESPONSE_BYTES];
        response[..4].copy_from_slice(&RESPONSE.to_le_bytes());
        response[4..8].copy_from_slice(&here.to_le_bytes());
        response[8..12].copy_from_slice(&there.to_le_bytes());
        response[12..20].copy_from_slice(&ours.to_le_bytes());
        let tag = self.tag(&response[..RESPONSE_BYTES - 8]);
        response[RESPONSE_BYTES - 8..].copy_from_slice(&tag.to_le_bytes());
        self.response = Some(response);
        Opened::Asked
    }

    fn on_response(&mut self, bytes: &[u8], now: Time) -> Opened {
        let Some((here, _)) = self.asking.filter(|(here, _)| *here == u32_at(bytes, 8)) else {
            return Opened::Refused(Refusal::Unknown);
        };
        if self.tag(&bytes[..RESPONSE_BYTES - 8]) != u64_at(bytes, RESPONSE_BYTES - 8) {
            return Opened::Refused(Refusal::Forged);
        }
        let (ours, theirs) = (nonce(&self.secret, here), u64_at(bytes, 12));
        let session = self.session((here, u32_at(bytes, 4)), (ours, theirs), true, now);
        self.promote(session);
        self.asking = None;
        self.silent_since = None;
        self.greets = true;
        Opened::Handshake
    }

    fn on_data(&mut self, datagram: &[u8], now: Time, room: &mut [u8]) -> Opened {
        let (here, counter) = (u32_at(datagram, 4), u64_at(datagram, 8));
        let is_it = |session: &&mut Session| session.here == here && session.is_alive(now);
        let sessions = [&mut self.current, &mut self.previous, &mut self.next];
        let Some(session) = sessions.into_iter().flatten().find(is_it) else {
            return Opened::Refused(Refusal::Unknown);
        };
        let (body, tag) = datagram[HEADER_BYTES..].split_at(datagram.len() - OVERHEAD_BYTES);
        let Some(room) = room.get_mut(..body.len()) else { return Opened::Refused(Refusal::Malformed) };
        room.copy_from_slice(body);
        session.scramble(counter, room);
        if u64_at(tag, 0) != session.tag(counter, room) || u64_at(tag, 8) != 0 {
            room.fill(0);
            return Opened::Refused(Refusal::Forged);
        }
        if !session.seen.is_new(counter) {
            room.fill(0);
            return Opened::Refused(Refusal::Replayed);
        }
        session.seen.add(counter);
        if self.next.as_ref().is_some_and(|next| next.here == here) {
            let next = self.next.take();
            self.promote(next.expect("it is there"));
        }
        self.silent_since = None;
        if !body.is_empty() {
            self.unanswered = self.unanswered.or(Some(now));
        }
        Opened::Packet(body.len())
    }

    /// Whether a session is to be asked for.
    fn needs_session(&self, now: Time) -> bool {
        let is_old = |session: &Session| session.is_ours && now.since(session.began) >= REKEY_AFTER;
        let is_deaf = self.silent_since.is_some_and(|at| now.since(at) >= KEEPALIVE_TIMEOUT + REKEY_TIMEOUT);
        let has_one = self.current.as_ref().is_some_and(|session| session.is_alive(now));
        self.current.as_ref().is_some_and(is_old) || is_deaf || (self.wants && !has_one)
    }
}

impl Tunnel for PlainTunnel {
    fn is_up(&mut self, now: Time) -> bool {
        self.current.as_ref().is_some_and(|session| session.is_alive(now))
    }

    fn want(&mut self, now: Time) {
        self.wants = !self.is_up(now);
    }

    fn seal(&mut self, packet: &[u8], now: Time, room: &mut [u8]) -> Option<usize> {
        let session = self.current.as_mut().filter(|session| session.is_alive(now))?;
        let padded = packet.len().next_multiple_of(PADDING_BYTES);
        let room = room.get_mut(..padded + OVERHEAD_BYTES)?;
        let mut distorted;
        let packet = match self.distorts {
            None => packet,
            Some(distort) => {
                distorted = packet.to_vec();
                if !distort(&mut distorted) {
                    return None;
                }
                &distorted
            }
        };
        let counter = session.next;
        session.next += 1;
        room[..4].copy_from_slice(&DATA.to_le_bytes());
        room[4..8].copy_from_slice(&session.there.to_le_bytes());
        room[8..16].copy_from_slice(&counter.to_le_bytes());
        let body = &mut room[HEADER_BYTES..HEADER_BYTES + padded];
        body[..packet.len()].copy_from_slice(packet);
        body[packet.len()..].fill(0);
        let tag = session.tag(counter, body);
        session.scramble(counter, body);
        room[HEADER_BYTES + padded..][..8].copy_from_slice(&tag.to_le_bytes());
        room[HEADER_BYTES + padded + 8..].fill(0);
        self.sent = Some(now);
        self.unanswered = None;
        if !packet.is_empty() {
            self.silent_since = self.silent_since.or(Some(now));
        }
        Some(padded + OVERHEAD_BYTES)
    }

    fn open(&mut self, datagram: &[u8], _from: SocketAddr, now: Time, room: &mut [u8]) -> Opened {
        match (u32_at(datagram, 0), datagram.len()) {
            (INITIATION, INITIATION_BYTES) => self.on_initiation(datagram, now),
            (RESPONSE, RESPONSE_BYTES) => self.on_response(datagram, now),
            (DATA, length) if length >= OVERHEAD_BYTES => self.on_data(datagram, now, room),
            _ => Opened::Refused(Refusal::Malformed),
        }
    }

    fn poll(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        if let Some(response) = self.response.take() {
            room.get_mut(..RESPONSE_BYTES)?.copy_from_slice(&response);
            return Some(RESPONSE_BYTES);
        }
        let may_ask = self.asking.is_none_or(|(_, at)| now.since(at) >= REKEY_TIMEOUT);
        if may_ask && self.needs_session(now) {
            room.get_mut(..INITIATION_BYTES)?.copy_from_slice(&self.initiation(now));
            // Until it is answered it is still wanted.
            self.wants = true;
            return Some(INITIATION_BYTES);
        }
        if may_ask {
            self.asking = None; // a session came another way
        }
        let is_due = self.greets
            || self.unanswered.is_some_and(|at| now.since(at) >= KEEPALIVE_TIMEOUT)
            || self.keepalive.zip(self.sent).is_some_and(|(every, at)| now.since(at) >= every);
        if is_due {
            (self.unanswered, self.greets) = (None, false);
            self.sent = Some(now);
            return self.seal(&[], now, room);
        }
        None
    }

    fn timeout(&mut self) -> Option<Time> {
        if self.response.is_some() || self.greets {
            return Some(Time::ZERO);
        }
        let ask = match (&self.current, self.asking) {
            (_, Some((_, at))) => Some(at + REKEY_TIMEOUT),
            (Some(session), None) if session.is_ours => Some(session.began + REKEY_AFTER),
            (Some(_), None) => None,
            (None, None) => self.wants.then_some(Time::ZERO),
        };
        let deaf = self.silent_since.map(|at| at + KEEPALIVE_TIMEOUT + REKEY_TIMEOUT);
        let deaf = deaf.map(|at| self.asking.map_or(at, |(_, asked)| at.max(asked + REKEY_TIMEOUT)));
        let alive = self.unanswered.map(|at| at + KEEPALIVE_TIMEOUT);
        let kept = self.keepalive.zip(self.sent).map(|(every, at)| at + every);
        [ask, deaf, alive, kept].into_iter().flatten().min()
    }
}

/// A number for the key of session `here` that only who knows the secret can know beforehand.
fn nonce(secret: &(u64, u64), here: u32) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(secret.1, secret.0);
    hasher.write_u32(here);
    hasher.finish()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_le_bytes(four.try_into().expect("there are four")))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |eight| u64::from_le_bytes(eight.try_into().expect("there are eight")))
}

/// The tunnels of one gateway.
#[derive(Debug)]
pub struct PlainTunnels {
    tunnels: Vec<PlainTunnel>,
    by_hint: HashMap<u64, u32>,
}

impl PlainTunnels {
    /// One tunnel for each of `secrets`, which the other ends have as well. `stamp_base` is more than any stamp of an earlier life.
    pub fn new(secrets: &[(u64, u64)], keepalive: Option<Span>, stamp_base: u64, seed: Seed) -> Self {
        let tunnel = |(number, secret): (usize, &(u64, u64))| PlainTunnel {
            secret: *secret,
            number: number as u32,
            random: Substream::new(Seed::for_component(seed.0, &format!("tunnel.{number}"))),
            current: None,
            previous: None,
            next: None,
            asking: None,
            wants: false,
            response: None,
            heard_stamp: 0,
            stamp_base,
            budget: (Time::ZERO, INITIATIONS_PER_SECOND),
            sent: None,
            unanswered: None,
            silent_since: None,
            keepalive,
            greets: false,
            distorts: None,
        };
        let by_hint = secrets.iter().zip(0..).map(|(secret, number)| (secret.0.wrapping_mul(3), number));
        Self { tunnels: secrets.iter().enumerate().map(tunnel).collect(), by_hint: by_hint.collect() }
    }
}

impl PlainTunnels {
    /// Ends that are not honest: `distort` sees each packet before it is sealed, and says whether it is at all.
    pub fn distort(&mut self, distort: fn(&mut [u8]) -> bool) {
        for tunnel in &mut self.tunnels {
            tunnel.distorts = Some(distort);
        }
    }
}

impl Tunnels for PlainTunnels {
    type Tunnel<'a> = &'a mut PlainTunnel;

    fn addressed(&mut self, datagram: &[u8], _from: Source, _now: Time, _room: &mut [u8]) -> Addressed {
        let number = match (u32_at(datagram, 0), datagram.len()) {
            (INITIATION, INITIATION_BYTES) => self.by_hint.get(&u64_at(datagram, 24)).copied(),
            (RESPONSE, RESPONSE_BYTES) => Some(u32_at(datagram, 8) >> 12),
            (DATA, length) if length >= OVERHEAD_BYTES => Some(u32_at(datagram, 4) >> 12),
            _ => return Addressed::Refused(Refusal::Malformed),
        };
        match number.filter(|&number| (number as usize) < self.tunnels.len()) {
            Some(number) => Addressed::Peer(number),
            None => Addressed::Refused(Refusal::Unknown),
        }
    }

    fn tunnel(&mut self, peer: u32) -> &mut PlainTunnel {
        &mut self.tunnels[peer as usize]
    }
}
