//! How packets are wrapped between two gateways, so that nobody on the way can read, change or make them.
//!
//! Source: sizes, sessions and times are those of WireGuard (Donenfeld, "WireGuard: next generation kernel network tunnel", NDSS 2017,
//! sections 5 and 6), whose format the daemon speaks through a library; [`plain`] has the same without its cryptography.
//! Deviations: none.

pub mod plain;
#[cfg(feature = "wireguard")]
pub mod wireguard;

use std::net::SocketAddr;

use tidegate_units::Time;

/// What a datagram has more than the packet in it: type, receiver and counter (16), and the tag (16).
pub const OVERHEAD_BYTES: usize = 32;
/// Packets are padded to a multiple of this.
pub const PADDING_BYTES: usize = 16;

/// Bytes of the datagram for a packet of `inner` bytes.
pub const fn sealed_bytes(inner: usize) -> usize {
    inner.next_multiple_of(PADDING_BYTES) + OVERHEAD_BYTES
}

/// Why a datagram was thrown away. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Refusal {
    /// It is none of ours.
    Malformed,
    /// Nobody here has its session, or its key.
    Unknown,
    /// Its tag is wrong.
    Forged,
    /// It was here before, or is too old to tell.
    Replayed,
    /// Too many ask for sessions.
    Busy,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Malformed, Self::Unknown, Self::Forged, Self::Replayed, Self::Busy];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::Busy => "busy",
        }
    }
}

/// What was in a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// A packet of so many bytes, padding included, which stands in the room; none at all says only that the other end is there.
    Packet(usize),
    /// Something between the tunnels' ends. What is to be said to it, [`Tunnel::poll`] says.
    Handshake,
    /// The other end asks for a session, which [`Tunnel::poll`] answers; now, or when somebody heard it who repeats it: where the other end
    /// is shows what comes in that session.
    Asked,
    /// The same, of which it is not certain that the other end said it: it does not tell where that is.
    Noted,
    /// It counts for nothing.
    Refused(Refusal),
}

/// The tunnel to one other gateway. Questions take it by `&mut` as well, for who listens in counts them.
pub trait Tunnel {
    /// Whether packets can be sealed.
    fn is_up(&mut self, now: Time) -> bool;
    /// Somebody wants to send: a session is to be had.
    fn want(&mut self, now: Time);
    /// Wraps `packet` into `room`: how many bytes; `None` without a session, or room.
    fn seal(&mut self, packet: &[u8], now: Time, room: &mut [u8]) -> Option<usize>;
    /// Unwraps `datagram`, which came from `from`, into `room`.
    fn open(&mut self, datagram: &[u8], from: SocketAddr, now: Time, room: &mut [u8]) -> Opened;
    /// The next datagram that the tunnel itself has to send (handshakes, signs of life), in `room`.
    fn poll(&mut self, now: Time, room: &mut [u8]) -> Option<usize>;
    /// When to come back for [`Self::poll`].
    fn timeout(&mut self) -> Option<Time>;
}

impl<T: Tunnel> Tunnel for &mut T {
    fn is_up(&mut self, now: Time) -> bool {
        T::is_up(self, now)
    }
    fn want(&mut self, now: Time) {
        T::want(self, now);
    }
    fn seal(&mut self, packet: &[u8], now: Time, room: &mut [u8]) -> Option<usize> {
        T::seal(self, packet, now, room)
    }
    fn open(&mut self, datagram: &[u8], from: SocketAddr, now: Time, room: &mut [u8]) -> Opened {
        T::open(self, datagram, from, now, room)
    }
    fn poll(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        T::poll(self, now, room)
    }
    fn timeout(&mut self) -> Option<Time> {
        T::timeout(self)
    }
}

/// Where a datagram came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// From this address, as it says: anybody may write that.
    At(SocketAddr),
    /// From the site with this number, in the tunnel of another one that passes it on.
    Through(u32),
}

impl From<SocketAddr> for Source {
    fn from(at: SocketAddr) -> Self {
        Self::At(at)
    }
}

/// Whose a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressed {
    /// The peer with this number.
    Peer(u32),
    /// Nobody's yet: the sender is to be answered with so many bytes, which stand in the room.
    Reply(usize),
    /// It counts for nothing.
    Refused(Refusal),
}

/// The tunnels of a gateway.
pub trait Tunnels {
    /// One of them, or what stands before it.
    type Tunnel<'a>: Tunnel
    where
        Self: 'a;

    /// Whose `datagram` is, which came from `from`; by what can be read of it without the peer's secrets.
    fn addressed(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Addressed;
    /// The tunnel to the peer with number `peer`.
    fn tunnel(&mut self, peer: u32) -> Self::Tunnel<'_>;
}
