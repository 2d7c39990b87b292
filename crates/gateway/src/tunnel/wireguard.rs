//! WireGuard, by a library: any peer that speaks it may be at the other end.
//!
//! There is no cipher and no handshake here. The library has them, with sessions, windows against replays, cookies and timers
//! (boringtun, `noise::Tunn`). What is here finds the peer of a datagram, bounds what strangers cost, pads packets, and keeps the
//! library from queueing packets where nobody sees them.
//!
//! Source: WireGuard (Donenfeld, NDSS 2017), sections 5 and 6, as the library has it.
//! Deviations:
//! - The library reads its own clock, so that times of sessions are the machine's, whatever `now` says; stamps of handshakes are those of
//!   the wall clock. `now` says when to ask the library again.
//! - Packets are padded to 16 bytes beyond the largest packet as well, so that both ends count alike.
//! - Whoever wants a session asks for it for ever, not for 90 s: a gateway has nobody who would ask again.
//! - Whoever asks for a session is answered where that came from, and is followed there when something comes in the session; WireGuard
//!   follows the question (section 6.5), which an end that has started anew cannot tell from a recorded one.
//! - An initiation with an old stamp is refused, as there; but where nothing else comes of the other end after it, we ask for a session. A
//!   machine whose clock was set back would have none before its clock is right again. Who repeats an initiation of an
//!   end that is silent brings us to a handshake every 5 s, with nobody but that end.

mod gate;
mod keys;
mod names;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use boringtun::noise::errors::WireGuardError;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use tidegate_units::{Span, Time};

use self::gate::Gate;
pub use self::gate::{Handshake, Judgement, Known};
pub use self::keys::{PeerKeys, PrivateKey, is_somebodys, site_id};
use self::names::Names;
pub use self::names::{PEERS_MAX, THREAD_AT, THREAD_MASK, THREADS_MAX, thread_of};
use super::{Addressed, OVERHEAD_BYTES, Opened, PADDING_BYTES, Refusal, Source, Tunnel, Tunnels};

/// The library wants to be asked about its timers so often.
const TICK: Span = Span::from_millis(250);
/// Where the other end asks for a session with a stamp that is too old and nothing comes of it for so long after that, it has begun anew with
/// its clock set back. We ask then, as it cannot, and not again within the second time (`REKEY_TIMEOUT`).
const SUSPICION: Span = Span::from_millis(200);
const ASK_BACK_EVERY: Span = Span::from_secs(5);
/// What the library says without having been asked, at most.
const PENDING_MAX: usize = 4;
/// Of a message that the library writes by itself.
const MESSAGE_BYTES: usize = 148;
/// Types of messages (section 5.4).
const INITIATION: u8 = 1;
const DATA: u8 = 4;
/// A padded packet is no longer.
const PACKET_BYTES_MAX: usize = 2048;

/// The tunnel to one other gateway; see the module.
pub struct WireguardTunnel {
    tunn: Tunn,
    /// Whether the library has a session, as far as it said.
    is_up: bool,
    wants: bool,
    /// A session was asked for, and has not come yet.
    asks: bool,
    /// What the library wants to say.
    pending: VecDeque<Vec<u8>>,
    /// When to ask the library about its timers.
    tick_at: Time,
    keepalive: Option<Span>,
    sent: Time,
    /// Since when an old stamp makes us doubt that the other end has the session; and when we asked for one because of that.
    suspected: Option<Time>,
    asked_back: Option<Time>,
    padded: Box<[u8; PACKET_BYTES_MAX]>,
    /// From where it has asked for a session and not proven itself yet.
    asked_from: Option<IpAddr>,
    /// Is told from where the other end has proven itself.
    known: Arc<Known>,
}

impl fmt::Debug for WireguardTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireguardTunnel").field("is_up", &self.is_up).finish_non_exhaustive()
    }
}

impl WireguardTunnel {
    fn look(&mut self) {
        // The library says when its session began if it has one.
        self.is_up = self.tunn.time_since_last_handshake().is_some();
        self.wants &= !self.is_up;
        self.asks &= !self.is_up;
    }

    /// Asks for a session beside the one that is there, if the other end seems to have none.
    fn ask_back(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        self.suspected.filter(|at| now.since(*at) >= SUSPICION)?;
        self.suspected = None;
        if self.asked_back.is_some_and(|at| now.since(at) < ASK_BACK_EVERY) {
            return None;
        }
        self.asked_back = Some(now);
        match self.tunn.format_handshake_initiation(room, true) {
            TunnResult::WriteToNetwork(message) => Some(message.len()),
            _ => None,
        }
    }

    /// How long ago the session began.
    pub fn session_age(&self) -> Option<std::time::Duration> {
        self.tunn.time_since_last_handshake()
    }
}

impl Tunnel for WireguardTunnel {
    fn is_up(&mut self, _now: Time) -> bool {
        self.is_up
    }

    fn want(&mut self, _now: Time) {
        self.wants = !self.is_up;
    }

    fn seal(&mut self, packet: &[u8], now: Time, room: &mut [u8]) -> Option<usize> {
        let padded = packet.len().next_multiple_of(PADDING_BYTES);
        if !self.is_up
            || padded > PACKET_BYTES_MAX
            || room.len() < (padded + OVERHEAD_BYTES).max(MESSAGE_BYTES)
        {
            return None;
        }
        self.sent = now;
        let whole = if padded == packet.len() {
            packet
        } else {
            self.padded[..packet.len()].copy_from_slice(packet);
            self.padded[packet.len()..padded].fill(0);
            &self.padded[..padded]
        };
        match self.tunn.encapsulate(whole, room) {
            TunnResult::WriteToNetwork(datagram) => Some(datagram.len()),
            _ => None,
        }
    }

    fn open(&mut self, datagram: &[u8], from: SocketAddr, now: Time, room: &mut [u8]) -> Opened {
        let needed = datagram.len().saturating_sub(OVERHEAD_BYTES / 2).max(MESSAGE_BYTES);
        // The library takes an empty datagram for a question.
        if datagram.is_empty() || room.len() < needed {
            return Opened::Refused(Refusal::Malformed);
        }
        let is_data = datagram[0] == DATA;
        let opened = match self.tunn.decapsulate(Some(from.ip()), datagram, room) {
            TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                Opened::Packet(packet.len())
            }
            TunnResult::Done if is_data => Opened::Packet(0),
            TunnResult::Done => Opened::Noted,
            TunnResult::WriteToNetwork(answer) => {
                if self.pending.len() < PENDING_MAX {
                    self.pending.push_back(answer.to_vec());
                }
                if datagram[0] == INITIATION { Opened::Asked } else { Opened::Handshake }
            }
            TunnResult::Err(why) => {
                // It has the other end's key: it is old, or the other end's clock was set back.
                if matches!(why, WireGuardError::WrongTai64nTimestamp) {
                    self.suspected = self.suspected.or(Some(now));
                }
                return Opened::Refused(refusal(&why));
            }
        };
        if opened != Opened::Noted {
            self.suspected = None;
        }
        // Where it proves itself: not by a question, which may be somebody's who repeats it, but by what follows from there.
        let is_handshake = match opened {
            Opened::Asked => {
                self.asked_from = Some(from.ip());
                true
            }
            Opened::Handshake => {
                self.known.add(from.ip());
                true
            }
            Opened::Packet(_) if self.asked_from == Some(from.ip()) => {
                self.asked_from = None;
                self.known.add(from.ip());
                false
            }
            _ => false,
        };
        if !self.is_up || is_handshake {
            self.look();
        }
        opened
    }

    fn poll(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        if room.len() < MESSAGE_BYTES {
            return None;
        }
        if let Some(message) = self.pending.pop_front() {
            room.get_mut(..message.len())?.copy_from_slice(&message);
            return Some(message.len());
        }
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            let said = match self.tunn.update_timers(room) {
                TunnResult::WriteToNetwork(message) => Some(message.len()),
                TunnResult::Err(WireGuardError::ConnectionExpired) => {
                    // It has given up; we do not.
                    self.wants |= self.asks;
                    None
                }
                _ => None,
            };
            self.look();
            if said.is_some() {
                self.sent = now;
                return said;
            }
            if let Some(asked) = self.ask_back(now, room) {
                return Some(asked);
            }
        }
        if self.wants {
            // Nothing while one is under way, which the library repeats by itself.
            (self.wants, self.asks) = (false, true);
            if let TunnResult::WriteToNetwork(message) = self.tunn.format_handshake_initiation(room, false) {
                return Some(message.len());
            }
        }
        if self.is_up && self.keepalive.is_some_and(|every| now.since(self.sent) >= every) {
            return self.seal(&[], now, room);
        }
        None
    }

    fn timeout(&mut self) -> Option<Time> {
        if !self.pending.is_empty() || self.wants {
            return Some(Time::ZERO);
        }
        let kept = self.keepalive.filter(|_| self.is_up).map_or(Time::MAX, |every| self.sent + every);
        Some(self.tick_at.min(kept))
    }
}

fn refusal(why: &WireGuardError) -> Refusal {
    match why {
        WireGuardError::InvalidMac | WireGuardError::InvalidAeadTag => Refusal::Forged,
        WireGuardError::DuplicateCounter
        | WireGuardError::InvalidCounter
        | WireGuardError::WrongTai64nTimestamp => Refusal::Replayed,
        WireGuardError::NoCurrentSession
        | WireGuardError::WrongIndex
        | WireGuardError::WrongKey
        | WireGuardError::UnexpectedPacket
        | WireGuardError::ConnectionExpired => Refusal::Unknown,
        WireGuardError::UnderLoad => Refusal::Busy,
        _ => Refusal::Malformed,
    }
}

/// The tunnels of one gateway, or those of one thread of it.
pub struct WireguardTunnels {
    /// Bounds what strangers cost.
    gate: Gate,
    /// Asks nobody: each handshake was counted before it comes to a tunnel.
    each: Arc<RateLimiter>,
    names: Names,
    peers: Vec<PeerKeys>,
    tunnels: Vec<WireguardTunnel>,
    by_key: HashMap<[u8; 32], u32>,
    /// The handshake message that comes next was judged elsewhere.
    admitted: Option<Handshake>,
}

/// The library's part of the tunnel to `peer`, which is called `name`. It stamps handshakes by the wall clock as
/// it is now, and goes on from there.
fn tunn(private: &StaticSecret, peer: &PeerKeys, name: u32, each: &Arc<RateLimiter>) -> Tunn {
    Tunn::new(private.clone(), PublicKey::from(peer.public), peer.shared, None, name, Some(Arc::clone(each)))
}

impl WireguardTunnel {
    fn new(tunn: Tunn, keepalive: Option<Span>, known: &Arc<Known>, now: Time) -> Self {
        Self {
            tunn,
            is_up: false,
            wants: false,
            asks: false,
            pending: VecDeque::new(),
            tick_at: now,
            keepalive,
            sent: now,
            suspected: None,
            asked_back: None,
            padded: Box::new([0; PACKET_BYTES_MAX]),
            asked_from: None,
            known: Arc::clone(known),
        }
    }
}

impl fmt::Debug for WireguardTunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireguardTunnels").field("tunnels", &self.tunnels).finish_non_exhaustive()
    }
}

impl WireguardTunnels {
    /// A tunnel to each of `peers`, of which there are at most [`PEERS_MAX`].
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(private: &PrivateKey, peers: &[PeerKeys], now: Time) -> Result<Self, getrandom::Error> {
        assert!(peers.len() <= PEERS_MAX, "peers are numbered with 24 bits");
        Self::called(Names::Numbers(peers.len()), private, peers, now)
    }

    /// The tunnels of thread `thread`: to `peers`, which have `numbers` in the whole gateway.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn among(
        (thread, numbers): (u8, Vec<u32>),
        private: &PrivateKey,
        peers: &[PeerKeys],
        now: Time,
    ) -> Result<Self, getrandom::Error> {
        Self::called(Names::among(thread, numbers), private, peers, now)
    }

    fn called(
        names: Names,
        private: &PrivateKey,
        peers: &[PeerKeys],
        now: Time,
    ) -> Result<Self, getrandom::Error> {
        let gate = Gate::new(private.0.clone(), now)?;
        let each = Arc::new(RateLimiter::new(&gate.public, u64::MAX));
        let tunnel = |(peer, own): (&PeerKeys, u32)| {
            let tunn = tunn(&private.0, peer, names.of(own), &each);
            WireguardTunnel::new(tunn, peer.keepalive, &gate.known, now)
        };
        Ok(Self {
            tunnels: peers.iter().zip(0..).map(tunnel).collect(),
            gate,
            each,
            names,
            peers: peers.to_vec(),
            by_key: peers.iter().zip(0..).map(|(peer, own)| (peer.public, own)).collect(),
            admitted: None,
        })
    }

    /// The same, of which others on other threads know from where sites have proven themselves, and the other way round.
    #[must_use]
    pub fn knowing(mut self, known: &Arc<Known>) -> Self {
        self.gate.known = Arc::clone(known);
        for tunnel in &mut self.tunnels {
            tunnel.known = Arc::clone(known);
        }
        self
    }

    /// From now on they are those to `peers`. Who was there keeps session and name, and hears from us as often as
    /// this says; others begin. Where all tunnels of the gateway are here, they are the same peers in the same
    /// order, and `numbers` count for nothing.
    pub fn change(&mut self, numbers: Vec<u32>, peers: &[PeerKeys], now: Time) {
        if let Names::Among { thread, .. } = self.names {
            self.names = Names::among(thread, numbers);
        }
        let mut before: Vec<Option<WireguardTunnel>> = self.tunnels.drain(..).map(Some).collect();
        for (peer, own) in peers.iter().zip(0..) {
            let kept = self.by_key.get(&peer.public).and_then(|&was| before[was as usize].take());
            let made = kept.unwrap_or_else(|| {
                let tunn = tunn(&self.gate.private, peer, self.names.of(own), &self.each);
                WireguardTunnel::new(tunn, None, &self.gate.known, now)
            });
            self.tunnels.push(WireguardTunnel { keepalive: peer.keepalive, ..made });
        }
        self.by_key = peers.iter().zip(0..).map(|(peer, own)| (peer.public, own)).collect();
        self.peers = peers.to_vec();
    }

    /// The wall clock was set forward: who has no session stamps handshakes by it from now on. Who has one was heard with earlier stamps.
    pub fn restamp(&mut self) {
        for ((tunnel, peer), own) in self.tunnels.iter_mut().zip(&self.peers).zip(0..) {
            if !tunnel.is_up {
                tunnel.tunn = tunn(&self.gate.private, peer, self.names.of(own), &self.each);
                tunnel.wants |= std::mem::take(&mut tunnel.asks);
                tunnel.suspected = None;
            }
        }
    }

    /// What becomes of the handshake message `datagram`, for whoever then says it to the tunnels that it is for:
    /// see [`Self::admit`].
    pub fn judge(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Judgement {
        self.gate.judge(datagram, from, now, room)
    }

    /// The handshake message that comes next was judged, and is this.
    pub const fn admit(&mut self, handshake: Handshake) {
        self.admitted = Some(handshake);
    }

    /// What the library says of itself, and what stands beside it; for tests that look whether anything has changed. How long a
    /// handshake took is the machine's time, and left out.
    #[cfg(test)]
    pub(crate) fn observed(&self) -> String {
        let one = |tunnel: &WireguardTunnel| {
            let (_, sent, received, loss, rtt) = tunnel.tunn.stats();
            let WireguardTunnel {
                is_up, wants, asks, pending, tick_at, sent: at, suspected, asked_back, ..
            } = tunnel;
            format!(
                "{sent} {received} {loss} {} {is_up} {wants} {asks} {} {tick_at} {at} {suspected:?} {asked_back:?}",
                rtt.is_some(),
                pending.len()
            )
        };
        self.tunnels.iter().map(one).collect()
    }

    /// How long ago the session with `peer` began.
    pub fn session_age(&self, peer: u32) -> Option<std::time::Duration> {
        self.tunnels[peer as usize].session_age()
    }

    /// Whose handshake message `datagram` is.
    fn of_handshake(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Addressed {
        let handshake = match self.admitted.take() {
            Some(handshake) => handshake,
            None => match self.judge(datagram, from, now, room) {
                Judgement::Passed(handshake) => handshake,
                Judgement::Reply(bytes) => return Addressed::Reply(bytes),
                Judgement::Refused(why) => return Addressed::Refused(why),
            },
        };
        let number = match handshake {
            Handshake::Initiation(key) => self.by_key.get(&key).copied(),
            Handshake::Response(session) => self.names.peer(session),
        };
        number.map_or(Addressed::Refused(Refusal::Unknown), Addressed::Peer)
    }
}

impl Tunnels for WireguardTunnels {
    type Tunnel<'a> = &'a mut WireguardTunnel;

    fn addressed(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Addressed {
        let number = match Tunn::parse_incoming_packet(datagram) {
            Ok(Packet::PacketData(data)) => self.names.peer(data.receiver_idx),
            Ok(Packet::PacketCookieReply(reply)) => self.names.peer(reply.receiver_idx),
            Ok(Packet::HandshakeInit(_) | Packet::HandshakeResponse(_)) => {
                return self.of_handshake(datagram, from, now, room);
            }
            Err(_) => return Addressed::Refused(Refusal::Malformed),
        };
        number.map_or(Addressed::Refused(Refusal::Unknown), Addressed::Peer)
    }

    fn tunnel(&mut self, peer: u32) -> &mut WireguardTunnel {
        &mut self.tunnels[peer as usize]
    }
}

#[cfg(test)]
mod tests;
