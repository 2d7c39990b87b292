//! What do my neighbours tell me?
//!
//! A hop mechanism sits in one router, sees every port, and talks to the routers next to it in one wire format
//! ([`wire`]). A world drives it by a [`Router`], which calls [`HopControl::on_arrival`] before the queue of the outgoing port,
//! [`HopControl::on_departure`] when a packet leaves that queue for transmission, and [`HopControl::on_drop`] when the
//! queue drops it. Messages travel over the links between neighbours, ahead of the queues that they are about.

mod any;
pub mod backpressure;
pub mod cell;
pub mod nbq;
mod router;
pub mod switch;
pub mod wire;

pub use any::{AnyHop, HopConfig};
pub use router::{Action, Router};

use tidegate_packet::{DropReason, Headers, Packet};
use tidegate_units::{BitRate, Time};

use crate::Variable;
use crate::edge::SegmentEditor;

/// Bytes of headers around a message between neighbours: IPv4 and ICMP, as for feedback between edges.
pub const MESSAGE_HEADER_BYTES: u32 = 28;

/// A port of a router: both directions of one link. Dense, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u16);

impl PortId {
    /// Position among the ports.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who is behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbor {
    /// A router, whether or not it understands our messages.
    Router,
    /// An end system.
    Host,
}

/// What a mechanism is told of a port when it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The rate at which the router sends there.
    pub rate: BitRate,
    /// Who is there.
    pub neighbor: Neighbor,
    /// The circuit that the link is, if it is one.
    pub circuit: Option<Circuit>,
}

/// What a router knows of a circuit that it sends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Circuit {
    /// The rate that it is promised (`MCR`), cells included.
    pub minimum: BitRate,
}

/// What a mechanism says of a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It goes on.
    On,
    /// It carries no data, and waits: the mechanism wants it by [`HopControl::hold`].
    Hold,
    /// It goes on with this acknowledgment number; its own, in a segment without data, waits: the mechanism wants that by
    /// [`HopControl::hold`].
    Split(u32),
}

/// A mechanism of one router.
pub trait HopControl {
    /// What [`variable`](Self::variable) answers to.
    fn variables() -> &'static [Variable]
    where
        Self: Sized,
    {
        &[]
    }

    /// Messages have no more than `bytes`, without their headers, from now on; where they have entries and one fits. Without it they
    /// are as large as Ethernet's packets are.
    fn limit_messages(&mut self, _bytes: usize) {}

    /// `packet`, whose TCP header is `segment`, is about to go out by port `to`, before
    /// [`on_arrival`](Self::on_arrival); it came in by [`Packet::in_port`].
    fn on_segment<S: SegmentEditor>(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        segment: &mut S,
        to: PortId,
        now: Time,
    ) -> Passage {
        let _ = (packet, headers, segment, to, now);
        Passage::On
    }
    /// The acknowledgment of which [`on_segment`](Self::on_segment) just said that it waits, until it is given back by
    /// [`HopOut::release`].
    fn hold(&mut self, acknowledgment: Packet, to: PortId, now: Time) {
        let _ = (acknowledgment, to, now);
        unreachable!("a mechanism that lets nothing wait");
    }
    /// How many packets wait in it.
    fn held_packets(&self) -> usize {
        0
    }
    /// `packet` is about to join the queue of port `to`; it came in by [`Packet::in_port`].
    ///
    /// # Errors
    /// Why the packet is dropped instead.
    fn on_arrival(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        to: PortId,
        now: Time,
    ) -> Result<(), DropReason>;
    /// `packet` leaves the queue of port `from` for transmission.
    fn on_departure(&mut self, packet: &Packet, headers: &Headers, from: PortId, now: Time);
    /// The queue of port `at` dropped `packet`.
    fn on_drop(&mut self, packet: &Packet, headers: &Headers, at: PortId, why: DropReason, now: Time);
    /// The circuit behind port `at` lost `packet`, which had left the queue. Most mechanisms need not tell it from a drop.
    fn on_loss(&mut self, packet: &Packet, headers: &Headers, at: PortId, why: DropReason, now: Time) {
        self.on_drop(packet, headers, at, why, now);
    }
    /// A message came in from the neighbour behind `port`. Bad messages change nothing.
    fn on_message(&mut self, port: PortId, message: &[u8], now: Time, out: &mut impl HopOut);
    /// Port `port` sends at `rate` from now on.
    fn set_link_rate(&mut self, port: PortId, rate: BitRate, now: Time);
    /// When [`on_timer`](Self::on_timer) wants to run. Any call above may change it.
    fn timer_at(&self) -> Option<Time>;
    /// The timer is due, or overdue.
    fn on_timer(&mut self, now: Time, out: &mut impl HopOut);
    /// When the output of port `port` was last found congested, for routes that go around it. `None` if it never was, or the
    /// mechanism knows of no such thing.
    fn congested_at(&self, port: PortId) -> Option<Time> {
        let _ = port;
        None
    }
    /// An inner variable of a port by name, for `record`. `None` for names it has not.
    fn variable(&self, port: PortId, name: &str) -> Option<f64>;
}

/// The world's side of a hop mechanism.
pub trait HopOut {
    /// Sends `message` to the neighbour behind `port`.
    fn send(&mut self, port: PortId, message: &[u8]);
    /// From now on port `port` sends at most at `rate`, which is not zero; the bytes are those of the wire.
    fn set_rate(&mut self, port: PortId, rate: BitRate);
    /// `packet`, an acknowledgment that the mechanism held, goes on by port `port`. The data that overtook it end at `sequence`: its
    /// host would take an earlier number for an old segment (RFC 9293, section 3.10.7.4).
    fn release(&mut self, port: PortId, packet: Packet, sequence: u32);
}
