//! A router with a hop mechanism, whole: the mechanism, and what it has to say and asks for.
//!
//! The form is that of [`crate::edge::Border`]: a world hands over what happens (`handle_...`), and asks what to do and when to
//! come back (`poll_...`). What is not asked for waits.
//!
//! Source: as there.
//! Deviations: none.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_packet::{DropReason, Headers, Packet};
use tidegate_units::{BitRate, Time};

use super::{AnyHop, HopConfig, HopControl, HopOut, Passage, Port, PortId};
use crate::Context;
use crate::edge::SegmentEditor;
use crate::outbox::Outbox;

/// See the module.
#[derive(Debug)]
pub struct Router {
    mechanism: AnyHop,
    requests: Requests,
    /// The latest instant that it was told: time never goes back.
    latest: Time,
}

/// What a router wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// From now on `port` sends at most at `rate`, which is not zero; the bytes are those of the wire.
    SetRate {
        /// Which.
        port: PortId,
        /// How fast.
        rate: BitRate,
    },
    /// An acknowledgment that was held goes on. The data that overtook it end at `sequence`: its host would take an earlier number
    /// for an old segment (RFC 9293, section 3.10.7.4).
    Release {
        /// By which port.
        port: PortId,
        /// The acknowledgment.
        packet: Packet,
        /// Its sequence number from now on.
        sequence: u32,
    },
    /// The message in the buffer goes to the neighbour behind `port`, ahead of the queue.
    Message {
        /// By which port.
        port: PortId,
    },
}

#[derive(Debug, Default)]
struct Requests {
    rates: VecDeque<(PortId, BitRate)>,
    released: VecDeque<(PortId, Packet, u32)>,
    messages: Outbox<PortId>,
}

impl HopOut for Requests {
    fn send(&mut self, port: PortId, message: &[u8]) {
        self.messages.push(port, message);
    }
    fn set_rate(&mut self, port: PortId, rate: BitRate) {
        self.rates.push_back((port, rate));
    }
    fn release(&mut self, port: PortId, packet: Packet, sequence: u32) {
        self.released.push_back((port, packet, sequence));
    }
}

impl Router {
    /// The router with these ports.
    pub fn new(config: &HopConfig, ports: &[Port], context: &Context) -> Self {
        Self { mechanism: config.build(ports, context), requests: Requests::default(), latest: Time::ZERO }
    }

    /// `packet`, whose TCP header is `segment`, is about to go out by port `to`, before [`handle_packet`](Self::handle_packet).
    pub fn handle_segment<S: SegmentEditor>(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        segment: &mut S,
        to: PortId,
        now: Time,
    ) -> Passage {
        let now = self.at(now);
        self.mechanism.on_segment(packet, headers, segment, to, now)
    }

    /// The acknowledgment of which [`handle_segment`](Self::handle_segment) just said that it waits.
    ///
    /// # Panics
    /// If the mechanism is one that lets nothing wait.
    pub fn hold(&mut self, acknowledgment: Packet, to: PortId, now: Time) {
        let now = self.at(now);
        self.mechanism.hold(acknowledgment, to, now);
    }

    /// `packet` is about to join the queue of port `to`.
    ///
    /// # Errors
    /// Why it is dropped instead.
    pub fn handle_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        to: PortId,
        now: Time,
    ) -> Result<(), DropReason> {
        let now = self.at(now);
        self.mechanism.on_arrival(packet, headers, to, now)
    }

    /// `packet` leaves the queue of port `from` for transmission.
    pub fn handle_departure(&mut self, packet: &Packet, headers: &Headers, from: PortId, now: Time) {
        let now = self.at(now);
        self.mechanism.on_departure(packet, headers, from, now);
    }

    /// Port `at` dropped `packet`: its queue did, or (`had_left`) the circuit behind it.
    pub fn handle_drop(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        at: PortId,
        why: DropReason,
        had_left: bool,
        now: Time,
    ) {
        let now = self.at(now);
        if had_left {
            self.mechanism.on_loss(packet, headers, at, why, now);
        } else {
            self.mechanism.on_drop(packet, headers, at, why, now);
        }
    }

    /// A message came in from the neighbour behind `port`. Bad messages change nothing.
    pub fn handle_message(&mut self, port: PortId, message: &[u8], now: Time) {
        let now = self.at(now);
        self.mechanism.on_message(port, message, now, &mut self.requests);
    }

    /// Port `port` sends at `rate` from now on.
    pub fn handle_link_rate(&mut self, port: PortId, rate: BitRate, now: Time) {
        let now = self.at(now);
        self.mechanism.set_link_rate(port, rate, now);
    }

    /// It is `now`: what was to be done by then is done. Nothing happens if it is too early.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.at(now);
        if self.mechanism.timer_at().is_some_and(|at| at <= now) {
            self.mechanism.on_timer(now, &mut self.requests);
        }
    }

    /// When to come back with [`handle_timeout`](Self::handle_timeout) and [`poll_action`](Self::poll_action). Any other call may
    /// change it.
    pub fn poll_timeout(&self) -> Option<Time> {
        let Requests { rates, released, messages } = &self.requests;
        if rates.is_empty() && released.is_empty() && messages.is_empty() {
            self.timer_at()
        } else {
            Some(self.latest)
        }
    }

    /// When the mechanism has something to do, whatever is still to be asked for.
    pub fn timer_at(&self) -> Option<Time> {
        self.mechanism.timer_at()
    }

    /// What to do next; call it until it gives `None`. A message is written into `message`, in place of what was there.
    pub fn poll_action(&mut self, message: &mut Vec<u8>) -> Option<Action> {
        if let Some((port, rate)) = self.requests.rates.pop_front() {
            return Some(Action::SetRate { port, rate });
        }
        if let Some((port, packet, sequence)) = self.requests.released.pop_front() {
            return Some(Action::Release { port, packet, sequence });
        }
        self.requests.messages.pop(message).map(|port| Action::Message { port })
    }

    /// Messages have no more than `bytes` from now on, where the mechanism can divide them; see [`HopControl::limit_messages`].
    pub fn limit_messages(&mut self, bytes: usize) {
        self.mechanism.limit_messages(bytes);
    }

    /// How many packets wait in it.
    pub fn held_packets(&self) -> usize {
        self.mechanism.held_packets() + self.requests.released.len()
    }

    /// When the output of `port` was last found congested; `None` if it never was, or the mechanism knows of no such thing.
    pub fn congested_at(&self, port: PortId) -> Option<Time> {
        self.mechanism.congested_at(port)
    }

    /// An inner variable of a port by name, for `record`. `None` for names it has not.
    pub fn variable(&self, port: PortId, name: &str) -> Option<f64> {
        self.mechanism.variable(port, name)
    }

    fn at(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }
}
