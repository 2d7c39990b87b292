//! What a packet looks like to a mechanism, and what may happen to it.
//!
//! A mechanism never sees a buffer. It sees [`Packet`], a 32-byte descriptor that the world copies around, and, where
//! its definition needs them, [`Headers`] or a [`TcpHeader`]. What becomes of a packet is told to the world through a
//! [`Sink`].
#![no_std]

mod descriptor;
mod headers;
mod outside;
mod place;
mod reason;
mod tcp;

pub use descriptor::{Backlog, Colour, Dscp, DscpSet, Ecn, FlowId, InnerEcn, Packet, RateLabel};
pub use headers::{Address, FlowKey, Headers, Protocol};
pub use outside::{Arrival, OutsideTcp};
pub use place::{LinkId, Place};
pub use reason::{DropReason, MarkReason};
pub use tcp::{SackBlock, SackBlocks, TcpFlags, TcpHeader};

use tidegate_units::Time;

/// The world's side of a queue: the simulator frees the packet, a gateway recycles its buffer. Both count.
pub trait Sink {
    /// `packet` will never be sent.
    fn on_drop(&mut self, packet: Packet, why: DropReason);
    /// `packet` now carries a congestion mark.
    fn on_mark(&mut self, packet: &Packet, why: MarkReason);
    /// The addresses that `packet` comes from and goes to, for queues that are fair to hosts; `None` where the world does not know.
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        let _ = packet;
        None
    }
    /// The header of `packet` if it is an acknowledgment of TCP and nothing else, for queues that leave out those that a later one
    /// makes needless; `None` also where the world does not know.
    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        let _ = packet;
        None
    }
    /// Before which `packet` is not to leave, as its sender wants it, for queues that keep to that; `None`: at once.
    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        let _ = packet;
        None
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        (**self).on_drop(packet, why);
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        (**self).on_mark(packet, why);
    }
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        (**self).hosts(packet)
    }
    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        (**self).pure_ack(packet)
    }
    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        (**self).departs_at(packet)
    }
}
