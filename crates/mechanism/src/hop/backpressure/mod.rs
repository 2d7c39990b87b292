//! Rate-based back-pressure: a router takes from each neighbour only what its outputs can carry on.
//!
//! A packet that is dropped deep in a network wasted all links before, and end systems learn of it only a round trip later.
//! Here each router tells each neighbour, again and again, at what rate it accepts traffic, and the neighbour sends no faster.
//! So a queue that cannot be served moves hop by hop to the edge, where its traffic enters.
//!
//! Source: Pazos and Gerla, A rate based back-pressure flow control for the Internet, sections 4.1 to 4.3; ATM Forum, Traffic
//! Management 4.0, for the loop of resource management (RM) cells. Section 4.4, the last hop, is [`last_hop`].
//!
//! Deviations, mostly of what the text leaves open:
//! - The loop runs on any link between routers; where a link is a circuit of cells, bytes are those of cells.
//! - `Tf_out` is what the explicit rate allows in a period, because what was sent is the demand and not the capacity while there
//!   is no backlog ("`Tf_out` reflects the ER indication"). [`Capacity::Measured`] is the literal form.
//! - 1(b): an input within `tolerance` of its fair share counts as constrained. One that is held to its share never offers
//!   more than that, less RM cells and a packet; it would never learn that there is more for it.
//! - 1(c) gives bytes where 1(d), 1(e) and step 2 use a fraction: it is divided by `Tf_out`.
//! - 1(d) applies to constrained inputs only: the others are below their share. A share is not below zero. "`AS_i`" is
//!   there the share that its sender was told: an excess is what was sent "in the previous sampling time" in spite of that. With
//!   the share that 1(c) just assigned, every input whose share falls is punished for having obeyed, and the oscillation of
//!   section 5.1(b) does not end with its cause, as it does in section 5.1(c) ([`Excess`]).
//! - `RESV_i`: the reserved part of the minimum cell rate is divided evenly among the inputs that contribute.
//! - An input contributes for `hold` after its last packet, so that a gap between packets does not count as an end. An
//!   output that nothing arrives for keeps its shares; at the start all inputs have equal ones.
//! - All hosts are one input: they hear no feedback.
//! - Steps 2 and 1 of the virtual destination exchange control messages between the cards of a router; here that is one sum.
//!   An input without traffic is not limited; a new one gets an equal part until the period ends.
//! - An RM cell is sent after every `Nrm` - 1 data cells, and with the first packet after `rm_gap` of silence. Its answer has
//!   the stamp of the question; older answers than the last are ignored, which makes loss, delay and duplication harmless.
//! - Beyond the paper, feedback may be selective ([`Feedback::Selective`]).
//! - A neighbour that answers nothing for `idle` is forgotten: the link has its own rate again.

mod config;
mod inputs;
mod last_hop;
mod law;
mod selective;
mod sums;

use alloc::vec::Vec;

use tidegate_packet::{DropReason, Headers, Packet};
use tidegate_units::{BitRate, Span, Time};

pub use self::config::{BackPressureConfig, Capacity, Excess, Feedback, LastHopForm};
use self::inputs::{Inputs, Room};
use self::last_hop::LastHop;
use self::selective::Selective;
use self::sums::Sums;
use super::cell::{self, CELL_BYTES};
use super::wire::{self, Encoder, FlowName, Message, Outlet, Rm};
use super::{HopControl, HopOut, Neighbor, Passage, Port, PortId};
use crate::edge::SegmentEditor;
use crate::random::KeyedHash;
use crate::{Context, Variable};

/// The largest message without its headers: with them an Ethernet packet.
const MESSAGE_BYTES_MAX: usize = 1472;

impl BackPressureConfig {
    /// A router with these ports that has heard nobody.
    pub fn build(&self, ports: &[Port], context: &Context) -> BackPressure {
        let mut slots = Vec::with_capacity(ports.len());
        let mut routers = 0;
        for port in ports {
            // Slot 0 is that of all hosts.
            routers += u16::from(port.neighbor == Neighbor::Router);
            slots.push(if port.neighbor == Neighbor::Router { routers } else { 0 });
        }
        let inputs = usize::from(routers) + 1;
        BackPressure {
            ports: ports.iter().map(|&port| Output::new(port, inputs, self.hold)).collect(),
            slots,
            sums: Sums::new(inputs),
            room: Room::default(),
            selective: (self.feedback == Feedback::Selective)
                .then(|| Selective::new(self, ports.len(), inputs, KeyedHash::new(context.seed))),
            last_hop: (self.last_hop != LastHopForm::None).then(|| LastHop::new(self, ports, context)),
            encoder: Encoder::default(),
            period_ends: None,
            period_began: Time::ZERO,
            last_packet: Time::ZERO,
            rm_due: Vec::new(),
            message_bytes_max: MESSAGE_BYTES_MAX,
            config: *self,
        }
    }
}

/// What was heard of the way behind a port.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// `ER` that came back.
    rate: BitRate,
    /// The stamp of the question.
    stamp: Time,
    at: Time,
}

/// One port: a virtual source of what it sends, with a share of that for each input.
#[derive(Clone, Debug)]
struct Output {
    port: Port,
    heard: Option<Heard>,
    /// Data bytes sent since the last RM cell, and when that was.
    since_rm: u32,
    rm_sent: Option<Time>,
    rm_due: bool,
    /// Data that left in this period.
    sent: u64,
    inputs: Inputs,
}

impl Output {
    fn new(port: Port, inputs: usize, hold: Span) -> Self {
        Self {
            port,
            heard: None,
            since_rm: 0,
            rm_sent: None,
            rm_due: false,
            sent: 0,
            inputs: Inputs::new(inputs, 1.0 / inputs as f64, hold),
        }
    }

    /// What it may send now.
    fn rate(&self) -> BitRate {
        self.heard.map_or(self.port.rate, |heard| heard.rate.min(self.port.rate))
    }

    /// What a packet costs on its wire.
    const fn cost(&self, wire_bytes: u32) -> u32 {
        if self.port.circuit.is_some() { cell::aal5_bytes(wire_bytes) } else { wire_bytes }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct BackPressure {
    ports: Vec<Output>,
    /// By port: its number as an input.
    slots: Vec<u16>,
    sums: Sums,
    room: Room,
    /// Where feedback is selective.
    selective: Option<Selective>,
    /// Where senders on the links to hosts are held to what goes out.
    last_hop: Option<LastHop>,
    encoder: Encoder,
    /// None while nothing moves.
    period_ends: Option<Time>,
    period_began: Time,
    last_packet: Time,
    /// The ports that have an RM cell to send.
    rm_due: Vec<u16>,
    message_bytes_max: usize,
    config: BackPressureConfig,
}

impl HopControl for BackPressure {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("explicit_rate_bps", "The rate at which the router may send.")] }
    }

    fn limit_messages(&mut self, bytes: usize) {
        self.message_bytes_max = bytes.min(MESSAGE_BYTES_MAX);
    }

    fn on_segment<S: SegmentEditor>(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        segment: &mut S,
        to: PortId,
        now: Time,
    ) -> Passage {
        let Some(last_hop) = &mut self.last_hop else { return Passage::On };
        let output = &self.ports[to.index()];
        if output.port.neighbor == Neighbor::Host {
            return last_hop.on_acknowledgment(headers, segment, now);
        }
        let is_from_host =
            self.ports.get(usize::from(packet.in_port)).is_some_and(|at| at.port.neighbor == Neighbor::Host);
        if is_from_host {
            last_hop.on_data(headers, segment, (packet.ecn, output.cost(packet.wire_bytes)), to, now);
        }
        Passage::On
    }

    fn hold(&mut self, acknowledgment: Packet, to: PortId, now: Time) {
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.hold(acknowledgment, to, now);
        }
    }

    fn held_packets(&self) -> usize {
        self.last_hop.as_ref().map_or(0, LastHop::held_packets)
    }

    /// The input's stamp is [`Packet::in_port`].
    fn on_arrival(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        to: PortId,
        now: Time,
    ) -> Result<(), DropReason> {
        let input = self.slots.get(usize::from(packet.in_port)).map_or(0, |&slot| usize::from(slot));
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.on_queued(headers, to);
        }
        let output = &mut self.ports[to.index()];
        let bytes = output.cost(packet.wire_bytes);
        if let Some(selective) = &mut self.selective {
            let name = FlowName { protocol: headers.protocol, destination: headers.destination };
            selective.on_arrival(input as u16, to, name, bytes, now);
        }
        let is_new = output.inputs.on_arrival(input, bytes, now);
        if is_new {
            // Until the period ends it gets an equal part.
            let equal = 1.0 / output.inputs.count(now) as f64;
            output.inputs.set_share(input, equal);
            self.sums.on_way(input, to.0);
        }
        self.last_packet = now;
        if self.period_ends.is_none() {
            self.period_began = now;
            self.period_ends = Some(now + self.config.period);
        }
        Ok(())
    }

    fn on_departure(&mut self, packet: &Packet, headers: &Headers, from: PortId, now: Time) {
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.on_gone(headers, from);
        }
        let between = self.config.nrm.saturating_sub(1).max(1) * CELL_BYTES;
        let output = &mut self.ports[from.index()];
        let bytes = output.cost(packet.wire_bytes);
        output.sent += u64::from(bytes);
        if output.port.neighbor == Neighbor::Host {
            return;
        }
        output.since_rm += bytes;
        let is_first = output.rm_sent.is_none_or(|at| now.since(at) >= self.config.rm_gap);
        if is_first || output.since_rm >= between {
            output.since_rm = if is_first { 0 } else { (output.since_rm - between).min(between) };
            output.rm_sent = Some(now);
            if !core::mem::replace(&mut output.rm_due, true) {
                self.rm_due.push(from.0);
            }
        }
    }

    fn on_drop(&mut self, _packet: &Packet, headers: &Headers, at: PortId, _why: DropReason, _now: Time) {
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.on_gone(headers, at);
        }
    }

    fn on_loss(&mut self, _packet: &Packet, _headers: &Headers, _at: PortId, _why: DropReason, _now: Time) {}

    fn on_message(&mut self, port: PortId, message: &[u8], now: Time, out: &mut impl HopOut) {
        if port.index() >= self.ports.len() {
            return;
        }
        match wire::decode(message) {
            Ok(Message::RmForward(rm)) => {
                let accepted = match self.config.feedback {
                    Feedback::Aggregate | Feedback::Selective => self.accepted(port, now),
                    Feedback::Circuit => None,
                };
                let rate = accepted.map_or(rm.rate, |accepted| rm.rate.min(wire_rate(accepted)));
                out.send(port, &Rm { rate, ..rm }.encode_backward());
            }
            Ok(Message::RmBackward(rm)) => self.on_answer(port, rm, now, out),
            Ok(Message::Outlets { stamp, entries }) => {
                if let Some(selective) = &mut self.selective {
                    selective.on_outlets(port, stamp, self.config.idle, entries, now);
                }
            }
            _ => {}
        }
    }

    fn set_link_rate(&mut self, port: PortId, rate: BitRate, now: Time) {
        let output = &mut self.ports[port.index()];
        output.port.rate = rate;
        output.heard = None;
        self.sums.on_change();
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.set_rate(port, rate, now);
        }
    }

    fn timer_at(&self) -> Option<Time> {
        // What is due is overdue.
        if !self.rm_due.is_empty() {
            return Some(Time::ZERO);
        }
        let release = self.last_hop.as_ref().and_then(LastHop::release_at);
        release.into_iter().chain(self.period_ends).min()
    }

    fn on_timer(&mut self, now: Time, out: &mut impl HopOut) {
        self.rm_due.sort_unstable();
        for port in self.rm_due.drain(..).map(PortId) {
            let output = &mut self.ports[port.index()];
            output.rm_due = false;
            let rm = Rm { stamp: now, rate: wire_rate(output.port.rate) };
            out.send(port, &rm.encode_forward());
        }
        if self.period_ends.is_some_and(|at| at <= now) {
            self.end_period(now, out);
        }
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.release(now, out);
        }
    }

    fn variable(&self, port: PortId, name: &str) -> Option<f64> {
        let output = self.ports.get(port.index())?;
        match name {
            "explicit_rate_bps" => Some(output.rate().as_bps_f64()),
            _ => None,
        }
    }
}

impl BackPressure {
    /// Steps 1 of the virtual source.
    fn end_period(&mut self, now: Time, out: &mut impl HopOut) {
        let elapsed = now.since(self.period_began);
        for index in 0..self.ports.len() {
            self.forget(PortId(index as u16), now, out);
            self.share(index, elapsed, now);
        }
        self.sums.on_change();
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.forget_idle(now);
        }
        self.tell_outlets(elapsed, now, out);
        let is_quiet = now.since(self.last_packet) >= self.config.idle;
        let all_forgotten = self.ports.iter().all(|output| output.heard.is_none());
        self.period_began = now;
        self.period_ends = (!is_quiet || !all_forgotten).then(|| now + self.config.period);
    }

    /// Tells each neighbour what each output accepts of it.
    fn tell_outlets(&mut self, elapsed: Span, now: Time, out: &mut impl HopOut) {
        let Some(selective) = &mut self.selective else { return };
        let config = &self.config;
        selective.share(elapsed, config, &mut self.room, now);
        for (port, _) in self.ports.iter().enumerate().filter(|(_, at)| at.port.neighbor == Neighbor::Router)
        {
            let (port, input) = (PortId(port as u16), usize::from(self.slots[port]));
            let mut rest = 0;
            for (at, route) in selective.routes_of(input) {
                if now.since(route.seen) >= config.hold {
                    continue;
                }
                let output = &self.ports[route.to.index()];
                let rate = BitRate::from_bytes_per_second_f64(
                    output.inputs.share(input) * output.rate().as_bytes_per_second_f64(),
                );
                let outlet = Outlet { flow: route.name, output: route.to.0, rate: wire_rate(rate) };
                if !self.encoder.has_room::<Outlet>(route.name, self.message_bytes_max) {
                    // One message in a period, so that a younger one is never a part of it: the next begins here.
                    rest = at;
                    break;
                }
                self.encoder.push(&outlet);
            }
            selective.begin_at(input, rest);
            if let Some(message) = self.encoder.finish(now) {
                out.send(port, message);
            }
        }
    }

    fn share(&mut self, index: usize, elapsed: Span, now: Time) {
        let config = &self.config;
        let output = &mut self.ports[index];
        let sent = core::mem::take(&mut output.sent);
        let tf = match config.capacity {
            Capacity::ExplicitRate => bytes_in(output.rate(), elapsed),
            Capacity::Measured => sent as f64,
        };
        let reserved = output.port.circuit.map_or(0.0, |circuit| bytes_in(circuit.minimum, elapsed));
        output.inputs.divide(now, &mut self.room, |offered, shares| {
            let resv = config.reserved * reserved / offered.len().max(1) as f64;
            law::actual_shares(tf, resv, config.tolerance, config.excess, offered, shares)
        });
    }

    fn forget(&mut self, port: PortId, now: Time, out: &mut impl HopOut) {
        let output = &mut self.ports[port.index()];
        if output.heard.is_some_and(|heard| now.since(heard.at) >= self.config.idle) {
            output.heard = None;
            self.allow(port, now, out);
        }
    }

    /// Port `port` may send at another rate than before.
    fn allow(&mut self, port: PortId, now: Time, out: &mut impl HopOut) {
        let rate = self.ports[port.index()].rate();
        self.sums.on_change();
        out.set_rate(port, rate);
        if let Some(last_hop) = &mut self.last_hop {
            last_hop.set_rate(port, rate, now);
        }
    }

    /// What all outputs accept from what comes in by `port` (step 2, and steps 1 and 2 of the virtual destination); none
    /// if there is no traffic to be accepted.
    fn accepted(&mut self, port: PortId, now: Time) -> Option<BitRate> {
        let input = usize::from(self.slots[port.index()]);
        let (ports, selective, config) = (&self.ports, &self.selective, &self.config);
        self.sums.accepted(input, port.0, now, |index| {
            let output = &ports[usize::from(index)];
            if !output.inputs.contributes(input, now) {
                return None;
            }
            let rate = output.rate().as_bytes_per_second_f64();
            let even = output.inputs.share(input) * rate;
            let Some(selective) = selective else {
                return Some((even, output.inputs.contributes_until(input)));
            };
            let accepts = match selective.accepted(PortId(index), input, now) {
                // What the outputs behind it accept together is what comes back as its rate: they decide.
                Some((own, all)) if all <= (1.0 + config.tolerance) * rate => own,
                Some((own, _)) => own.min(even),
                None => even,
            };
            // The next packet or message may change it.
            Some((accepts, now))
        })
    }

    /// The virtual source hears what the way and the next router allow.
    fn on_answer(&mut self, port: PortId, rm: Rm, now: Time, out: &mut impl HopOut) {
        let output = &mut self.ports[port.index()];
        // An answer to a question that was not asked yet is none.
        let is_old = output.heard.is_some_and(|heard| rm.stamp <= heard.stamp);
        if is_old || rm.stamp > now {
            return;
        }
        let before = output.rate();
        let promised = output.port.circuit.map_or(BitRate::ZERO, |circuit| circuit.minimum);
        let rate = BitRate::from_bytes_per_second_f64(f64::from(rm.rate));
        let rate = rate.max(promised).max(self.config.rate_min);
        output.heard = Some(Heard { rate, stamp: rm.stamp, at: now });
        if output.rate() != before {
            self.allow(port, now, out);
        }
    }
}

fn bytes_in(rate: BitRate, span: Span) -> f64 {
    rate.as_bytes_per_second_f64() * span.as_secs_f64()
}

/// Rates of messages are whole bytes per second, and saturate (`as`).
fn wire_rate(rate: BitRate) -> u32 {
    rate.as_bytes_per_second_f64() as u32
}

#[cfg(test)]
mod tests;
