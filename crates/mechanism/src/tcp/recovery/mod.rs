//! What to send, and when something counts as lost. One file for each recovery; who decides the window is
//! `super::congestion`.

mod newreno;
mod rack;
mod reno;
mod sack;
mod sack1;
mod tahoe;

use alloc::boxed::Box;

use tidegate_units::{Span, Time};

use super::config::{Rules, TcpConfig, Variant};
use super::connection::{AckEvent, Connection};
use super::ranges::RangeSet;

/// What goes next, before the congestion control is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub sequence: u64,
    pub payload_bytes: u32,
    /// Bytes believed to be in the network.
    pub in_flight_bytes: u64,
    /// It comes from a scoreboard, not from the order of the data.
    pub fills_hole: bool,
}

impl Candidate {
    /// The next segment in order, if there is one that the application and the receiver's window allow.
    #[inline]
    pub fn in_order(c: &Connection) -> Option<Self> {
        let (sequence, payload_bytes) = c.next_in_order()?;
        Some(Self { sequence, payload_bytes, in_flight_bytes: c.deflated_flight_bytes(), fills_hole: false })
    }
}

/// The recovery of one sender, with what it must remember beyond the [`Connection`].
// With a tag of its own: one hidden in a variant would have to be decoded twice for every segment.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(super) enum Recovery {
    Tahoe,
    Reno,
    NewReno(newreno::NewReno),
    Sack1(sack1::Sack1),
    Sack(sack::Sack),
    Rack(Box<rack::Rack>),
}

impl Recovery {
    pub fn new(config: &TcpConfig) -> Self {
        match (config.variant, config.rules) {
            (Variant::Tahoe, _) => Self::Tahoe,
            (Variant::Reno, _) => Self::Reno,
            (Variant::NewReno, _) => Self::NewReno(newreno::NewReno::default()),
            (Variant::Sack, Rules::Ns1999) => {
                Self::Sack1(sack1::Sack1::new(RangeSet::new(config.ranges_max())))
            }
            (Variant::Sack, Rules::Modern) if config.rack => Self::Rack(rack::Rack::new(config)),
            (Variant::Sack, Rules::Modern) => Self::Sack(sack::Sack::new(RangeSet::new(config.ranges_max()))),
        }
    }

    /// An acknowledgment that is within what was sent.
    #[inline]
    pub fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        match self {
            Self::Tahoe => tahoe::on_ack(c, ack, now),
            Self::Reno => reno::on_ack(c, ack, now),
            Self::NewReno(newreno) => newreno.on_ack(c, ack, now),
            Self::Sack1(sack1) => sack1.on_ack(c, ack, now),
            Self::Sack(sack) => sack.on_ack(c, ack, now),
            Self::Rack(rack) => rack.on_ack(c, ack, now),
        }
    }

    /// The handshake took a round trip.
    pub fn on_handshake(&mut self, c: &Connection, rtt: Span, now: Time) {
        if let Self::Rack(rack) = self {
            rack.on_handshake(c, rtt, now);
        }
    }

    /// The timer of the connection expired: the retransmission time-out, or what RACK-TLP waits for.
    pub fn on_timer(&mut self, c: &mut Connection, now: Time) {
        if let Self::Rack(rack) = self {
            return rack.on_timer(c, now);
        }
        // What was under way is given up.
        c.lost_bytes += self.in_flight_bytes(c);
        match self {
            // ns's Tahoe alone goes on counting duplicates over a time-out.
            Self::Tahoe if c.is_ns() => {}
            Self::Tahoe | Self::Reno => c.dupacks = 0,
            Self::NewReno(newreno) => newreno.on_timeout(c),
            Self::Sack1(sack1) => sack1.on_timeout(c),
            Self::Sack(sack) => sack.on_timeout(c),
            Self::Rack(_) => {}
        }
        c.on_timeout(now);
    }

    /// Whether what it sends goes in order, and it remembers nothing of that: [`Candidate::in_order`].
    #[inline]
    pub const fn goes_in_order(&self) -> bool {
        matches!(self, Self::Tahoe | Self::Reno | Self::NewReno(_))
    }

    /// The next segment, if there is one that the application and the receiver's window allow.
    #[inline]
    pub fn candidate(&mut self, c: &mut Connection) -> Option<Candidate> {
        match self {
            Self::Tahoe | Self::Reno | Self::NewReno(_) => Candidate::in_order(c),
            Self::Sack1(sack1) => sack1.candidate(c),
            Self::Sack(sack) => sack.candidate(c),
            Self::Rack(rack) => rack.candidate(c),
        }
    }

    /// The segment that goes whatever the window says, where the connection wants one.
    pub fn demanded(&mut self, c: &Connection) -> (u64, u32) {
        match self {
            Self::Rack(rack) => rack.demanded(c),
            _ => (c.una, (c.limit - c.una).min(c.segment()) as u32),
        }
    }

    /// The segment that was demanded went out.
    pub fn on_demanded_sent(
        &mut self,
        c: &mut Connection,
        sent: &Candidate,
        retransmission: bool,
        now: Time,
    ) {
        if let Self::Rack(rack) = self {
            rack.on_sent(c, sent, retransmission, now);
        }
    }

    /// A candidate went out.
    #[inline]
    pub fn on_sent(&mut self, c: &mut Connection, sent: &Candidate, retransmission: bool, now: Time) {
        match self {
            Self::Tahoe | Self::Reno | Self::NewReno(_) => {}
            Self::Sack1(sack1) => sack1.on_sent(sent),
            Self::Sack(sack) => sack.on_sent(sent, retransmission),
            Self::Rack(rack) => rack.on_sent(c, sent, retransmission, now),
        }
    }

    /// Bytes that the receiver is known to hold beyond what it acknowledged; without SACK a duplicate stands for a segment.
    pub fn held_bytes(&self, c: &Connection) -> u64 {
        match self {
            Self::Tahoe | Self::Reno => u64::from(c.dupacks) * c.segment(),
            Self::NewReno(newreno) => newreno.held_bytes(c),
            Self::Sack1(sack1) => sack1.held_bytes(),
            Self::Sack(sack) => sack.held_bytes(),
            Self::Rack(rack) => rack.held_bytes(),
        }
    }

    /// Whether an acknowledgment that repeats the one before counts as a duplicate though nothing is under way: one tells RACK-TLP that a
    /// probe was not needed (RFC 8985, section 7.4.2).
    pub const fn hears_idle_duplicates(&self) -> bool {
        matches!(self, Self::Rack(_))
    }

    /// Whether nothing is under way that could be late.
    pub fn has_nothing_under_way(&self, c: &Connection) -> bool {
        match self {
            Self::Rack(rack) => rack.in_flight_bytes() == 0,
            _ => c.nxt == c.una,
        }
    }

    /// Bytes believed to be in the network.
    pub fn in_flight_bytes(&self, c: &Connection) -> u64 {
        match self {
            Self::Tahoe | Self::Reno | Self::NewReno(_) => c.deflated_flight_bytes(),
            Self::Sack1(sack1) => sack1.in_flight_bytes(c),
            Self::Sack(sack) => sack.in_flight_bytes(c),
            Self::Rack(rack) => rack.in_flight_bytes(),
        }
    }
}
