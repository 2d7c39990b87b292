//! What do my neighbours tell me?
//!
//! A hop mechanism sits in one router, sees every port, and talks to the routers next to it.

use tidegate_packet::{DropReason, Packet};
use tidegate_units::{BitRate, Time};

use crate::queue::Verdict;

/// A port of a router: one direction of one link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u16);

/// A mechanism of one router.
pub trait HopControl {
    /// `packet` is about to join the queue of port `to`.
    fn on_arrival(&mut self, packet: &Packet, to: PortId, now: Time) -> Verdict;
    /// `packet` leaves port `from` for transmission.
    fn on_departure(&mut self, packet: &Packet, from: PortId, now: Time);
    /// The queue of port `at` dropped `packet`.
    fn on_drop(&mut self, packet: &Packet, at: PortId, why: DropReason, now: Time);
    /// A message came in from the neighbour behind `port`. Bad messages change nothing.
    fn on_message(&mut self, port: PortId, message: &[u8], now: Time, out: &mut impl HopOut);
    /// When [`on_timer`](Self::on_timer) wants to run.
    fn timer_at(&self) -> Option<Time>;
    /// The timer is due.
    fn on_timer(&mut self, now: Time, out: &mut impl HopOut);
}

/// The world's side of a hop mechanism.
pub trait HopOut {
    /// Sends `message` to the neighbour behind `port`.
    fn send(&mut self, port: PortId, message: &[u8]);
    /// Port `port` sends at `rate` from now on: a circuit whose explicit rate changed.
    fn set_rate(&mut self, port: PortId, rate: BitRate);
}
