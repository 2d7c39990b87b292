//! How much may enter here?
//!
//! An edge mechanism has two halves, one where traffic enters a domain and one where it leaves. Both serve many
//! aggregates (flows, or virtual links) and talk to the halves at the other borders through messages in one wire format.

mod any;
pub mod autorate;
mod border;
mod deadlines;
pub mod fixed;
pub mod iec;
pub mod nbp;
pub mod own;
pub mod path;
mod segment;
pub mod tcp_rate;
#[cfg(test)]
mod testing;
pub mod tunnel;

pub use any::{AnyEgress, AnyIngress, EdgeConfig};
pub use border::{Border, Transmit};
pub use segment::{RawSegment, SegmentEditor};

use core::num::NonZeroU32;

use tidegate_packet::{Backlog, DropReason, FlowId, Headers, Packet, Sink};
use tidegate_units::{BitRate, Span, Time};

/// One of the borders of a domain, as the world numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// Where a border is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BorderSite {
    /// Its number.
    pub border: PeerId,
    /// How many domains are around its own: below [`tidegate_packet::InnerEcn::LEVELS`].
    pub level: u8,
}

/// What one shaper at one ingress controls: a flow, or a virtual link. Dense, reused after [`EdgeOut::close`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AggregateId(pub u32);

/// What an edge says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It goes on without delay.
    Pass,
    /// It joins the queue of this aggregate's shaper.
    Shape(AggregateId),
    /// It is dropped.
    Drop(DropReason),
}

/// What an ingress knows of one flow, for records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EdgeReport {
    /// Its aggregate.
    pub aggregate: AggregateId,
    /// The rate that it may enter at, bytes per second.
    pub ingress_rate: f64,
    /// The rate at which it leaves, bytes per second, as last reported.
    pub egress_rate: f64,
    /// The round-trip time between the borders, as last measured.
    pub rtt: Option<Span>,
    /// What a virtual link adds to queues, bytes; for mechanisms that know it.
    pub accumulation: Option<f64>,
    /// Whether a congestion epoch is on; for mechanisms that know epochs.
    pub in_epoch: Option<bool>,
}

/// One half of an edge mechanism.
pub trait EdgeHalf {
    /// `packet` enters (ingress) or leaves (egress) the domain. `peers` are at an ingress the borders by which it leaves:
    /// one for unicast, several for multicast; at an egress the one by which it entered.
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission
    where
        Self: Sized;

    /// An ingress's shaper lets `packet` of `aggregate` go; [`Packet::arrived`] says when it joined, and `store` knows the rest
    /// of it. Messages sent now go ahead of it.
    #[inline]
    fn on_release(
        &mut self,
        aggregate: AggregateId,
        packet: &mut Packet,
        store: &mut impl PacketStore,
        now: Time,
        out: &mut impl EdgeOut,
    ) where
        Self: Sized,
    {
        let _ = (aggregate, packet, store, now, out);
    }

    /// A packet of `flow` leaves the domain at this egress, and the ingress wrote `stamp` on it. [`Self::on_packet`] comes next.
    #[inline]
    fn on_stamp(&mut self, flow: FlowId, headers: &Headers, stamp: NonZeroU32, now: Time)
    where
        Self: Sized,
    {
        let _ = (flow, headers, stamp, now);
    }

    /// A TCP segment leaves the domain where this ingress is: it may acknowledge data that enters here.
    fn on_reverse<S: SegmentEditor>(&mut self, headers: &Headers, segment: &mut S, now: Time)
    where
        Self: Sized,
    {
        let _ = (headers, segment, now);
    }

    /// A message from `from` arrived in a packet that had `ttl` hops left. Bad messages change nothing.
    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut)
    where
        Self: Sized;

    /// When [`on_timer`](Self::on_timer) wants to run.
    fn timer_at(&self) -> Option<Time>;

    /// The timer is due, or overdue.
    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut)
    where
        Self: Sized;
}

/// The world's side of the packets that a border holds: it owns them, and frees those that are dropped.
pub trait PacketStore: Sink {
    /// The headers of `packet`.
    fn headers(&self, packet: &Packet) -> Headers;
    /// Writes `stamp` on `packet`, for the border where it leaves ([`Border::handle_stamp`]). A world that cannot does nothing.
    fn stamp(&mut self, packet: &Packet, stamp: NonZeroU32) {
        let _ = (packet, stamp);
    }
    /// The TCP header of `packet`, if it has one.
    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor>;
}

/// The world's side of one half of an edge: shapers and the way to the other borders.
pub trait EdgeOut {
    /// A new aggregate gets a shaper and an empty queue.
    fn open(&mut self, aggregate: AggregateId, rate: BitRate);
    /// The aggregate's shaper runs at `rate` from now on.
    fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate);
    /// The aggregate is gone. Its queue is empty.
    fn close(&mut self, aggregate: AggregateId);
    /// What waits in the aggregate's queue.
    fn backlog(&self, aggregate: AggregateId) -> Backlog;
    /// Sends `message` to another border, with a full TTL (255).
    fn send(&mut self, to: PeerId, message: &[u8]);
}

impl<E: EdgeOut + ?Sized> EdgeOut for &mut E {
    fn open(&mut self, aggregate: AggregateId, rate: BitRate) {
        (**self).open(aggregate, rate);
    }
    fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate) {
        (**self).set_rate(aggregate, rate);
    }
    fn close(&mut self, aggregate: AggregateId) {
        (**self).close(aggregate);
    }
    fn backlog(&self, aggregate: AggregateId) -> Backlog {
        (**self).backlog(aggregate)
    }
    fn send(&mut self, to: PeerId, message: &[u8]) {
        (**self).send(to, message);
    }
}
