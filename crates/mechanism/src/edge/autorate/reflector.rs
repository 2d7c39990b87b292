//! The half where packets leave: answers each ping at once with its clock. It keeps nothing, so that nobody can exhaust it, and what it
//! says to one peer is a function of the ping of that peer.
//!
//! Source: a host that answers ICMP echo and time stamps (RFC 792).
//! Deviations: see [`wire`](super::wire).

use tidegate_packet::{Headers, Packet};
use tidegate_units::Time;

use super::wire::{self, Message, Pong};
use crate::edge::{Admission, EdgeHalf, EdgeOut, PeerId};

/// See the module.
#[derive(Debug)]
pub struct AutorateReflector;

impl EdgeHalf for AutorateReflector {
    fn on_packet(
        &mut self,
        _packet: &mut Packet,
        _headers: &Headers,
        _peers: &[PeerId],
        _now: Time,
        _out: &mut impl EdgeOut,
    ) -> Admission {
        Admission::Pass
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Ping(ping)) = wire::decode(message) else { return };
        out.send(from, &Pong { ping, arrived: now.as_nanos() }.encode());
    }

    fn timer_at(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time, _out: &mut impl EdgeOut) {}
}
