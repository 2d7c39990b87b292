//! The last hop: how the explicit rate of a circuit reaches TCP senders that only see their local network.
//!
//! Back-pressure ends at the router where traffic enters: its hosts hear nothing of it, double their windows, and overrun its
//! queue. Three answers are known: a queue of many receiver windows, which is a matter of the queue's limit alone; a bucket in
//! which acknowledgments wait until the circuit can take what they let out; and the congestion echo set on acknowledgments
//! that pass while the queue is long.
//!
//! Source: Pazos and Gerla, section 4.4, after Kalyanaraman et al. 1997 (the queue), Narvaez and Siu, GLOBECOM 1997 (the bucket),
//! and Floyd 1994 (ECN).
//!
//! Deviations, all settled here, because the paper names the ideas and Narvaez and Siu's laws are not at hand:
//! - "Translates the ER indications into a sequence of acknowledgments": tokens come at the explicit rate of the circuit, an
//!   acknowledgment takes as many as the data that it newly acknowledges cost there, and two packets' worth may be saved up.
//! - A sender whose window grows answers with more than was acknowledged. So the bucket is also closed while `last_hop_queue`
//!   packets of TCP wait for the circuit. What acknowledges nothing new goes as soon as it is at the front, and costs nothing.
//! - One bucket for each circuit, first in first out: its TCPs share the rate as their acknowledgments come. Beyond
//!   `last_hop_acks_max` acknowledgments pass, and none is ever lost here.
//! - An acknowledgment that rides on data does not hold up the data: the segment goes on with the last number that was let
//!   out, and its own number follows from the bucket in a segment without data ("altering the acknowledgment field").
//! - ECN on returning acknowledgments: each one has the echo while `last_hop_queue` packets wait, if the sender's data are marked
//!   as capable of ECN. A sender heeds one echo in a round trip.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_packet::{Ecn, FlowKey, Headers, Packet, Protocol};
use tidegate_units::{BitRate, Bytes, Time};

use super::{BackPressureConfig, LastHopForm};
use crate::Context;
use crate::edge::SegmentEditor;
use crate::hop::{HopOut, Passage, Port, PortId};
use crate::random::KeyedHash;
use crate::shape::{Shaper, TokenBucket, TokenBucketConfig};

/// A TCP whose data comes from a host here.
#[derive(Clone, Copy, Debug)]
struct Flow {
    key: FlowKey,
    /// Where its data goes out.
    exit: PortId,
    last_data: Time,
    is_ecn_capable: bool,
    /// The largest payload seen, which stands for the segment size, and what such a segment costs on the circuit.
    segment_bytes: u32,
    segment_cost: u32,
    /// The greatest number that came back, and the greatest that was let out.
    came: Option<u32>,
    let_out: Option<u32>,
    /// Where what went back to the host ends, data included.
    sequence: Option<u32>,
}

/// An acknowledgment that waits, or is about to.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    exit: PortId,
    flow: FlowKey,
    number: u32,
    cost: u32,
    /// Where its own segment ends.
    sequence: u32,
}

/// The same with its packet, and the port by which it goes to its host.
#[derive(Clone, Copy, Debug)]
struct Held {
    packet: Packet,
    to: PortId,
    of: Waiting,
}

/// One circuit.
#[derive(Clone, Debug)]
struct Exit {
    /// Packets of TCP in its queue.
    waiting: u32,
    tokens: TokenBucket,
    held: VecDeque<Held>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LastHop {
    config: BackPressureConfig,
    /// Tokens that a bucket holds.
    depth: u32,
    by_key: HashMap<FlowKey, u32, KeyedHash>,
    flows: Vec<Flow>,
    exits: Vec<Exit>,
    /// Those at which an acknowledgment waits, ascending.
    holding: Vec<PortId>,
    /// What [`Passage::Hold`] or [`Passage::Split`] was said of, until it is handed over; its packet is not yet known.
    coming: Option<Waiting>,
}

/// Whether `a` comes after `b` in the sequence space.
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The later of the greatest number so far and `number`.
fn later(so_far: Option<u32>, number: u32) -> Option<u32> {
    so_far.filter(|&known| !is_after(number, known)).or(Some(number))
}

/// What `acknowledged` bytes of payload cost on the circuit, in segments of `segment_bytes` that cost `segment_cost`.
fn cost_of(acknowledged: u32, segment_bytes: u32, segment_cost: u32) -> u32 {
    let exact = u64::from(acknowledged) * u64::from(segment_cost) / u64::from(segment_bytes.max(1));
    u32::try_from(exact).unwrap_or(u32::MAX)
}

impl LastHop {
    pub(super) fn new(config: &BackPressureConfig, ports: &[Port], context: &Context) -> Self {
        let depth = 2 * context.mtu_bytes;
        let bucket = |port: &Port| Exit {
            waiting: 0,
            tokens: TokenBucketConfig::new(port.rate, Bytes::new(u64::from(depth)))
                .build(context, Time::ZERO),
            held: VecDeque::new(),
        };
        Self {
            config: *config,
            depth,
            by_key: HashMap::with_hasher(KeyedHash::new(context.seed)),
            flows: Vec::new(),
            exits: ports.iter().map(bucket).collect(),
            holding: Vec::new(),
            coming: None,
        }
    }

    /// A segment from a host is about to go out by `exit`, where it costs so much.
    pub(super) fn on_data(
        &mut self,
        headers: &Headers,
        segment: &impl SegmentEditor,
        (ecn, cost): (Ecn, u32),
        exit: PortId,
        now: Time,
    ) {
        let payload = segment.payload_bytes();
        if payload == 0 {
            return;
        }
        let key = headers.flow_key();
        let index = match self.by_key.get(&key) {
            Some(&index) => index as usize,
            None if self.flows.len() >= self.config.last_hop_flows_max as usize => return,
            None => {
                self.by_key.insert(key, self.flows.len() as u32);
                self.flows.push(Flow {
                    key,
                    exit,
                    last_data: now,
                    is_ecn_capable: false,
                    segment_bytes: 0,
                    segment_cost: 0,
                    came: None,
                    let_out: None,
                    sequence: None,
                });
                self.flows.len() - 1
            }
        };
        let flow = &mut self.flows[index];
        (flow.exit, flow.last_data) = (exit, now);
        flow.is_ecn_capable = ecn != Ecn::NotEct;
        if payload > flow.segment_bytes {
            (flow.segment_bytes, flow.segment_cost) = (payload, cost);
        }
    }

    /// A segment is about to go to a host; it may acknowledge data that came from there.
    pub(super) fn on_acknowledgment(
        &mut self,
        headers: &Headers,
        segment: &mut impl SegmentEditor,
        now: Time,
    ) -> Passage {
        let key = headers.reversed().flow_key();
        let (Some(&index), Some(number)) = (self.by_key.get(&key), segment.acknowledgment()) else {
            return Passage::On;
        };
        let flow = &mut self.flows[index as usize];
        let sequence = segment.sequence().wrapping_add(segment.payload_bytes());
        flow.sequence = later(flow.sequence, sequence);
        let exit = &mut self.exits[flow.exit.index()];
        if self.config.last_hop == LastHopForm::Ecn {
            if flow.is_ecn_capable && exit.waiting >= self.config.last_hop_queue {
                segment.set_ecn_echo();
            }
            return Passage::On;
        }
        let newly = match flow.came {
            Some(came) if is_after(number, came) => number.wrapping_sub(came),
            Some(_) => 0,
            None => flow.segment_bytes,
        };
        flow.came = later(flow.came, number);
        let cost = cost_of(newly, flow.segment_bytes, flow.segment_cost);
        let front = exit.held.is_empty() && exit.takes(cost, &self.config, self.depth, now);
        let is_full = exit.held.len() >= self.config.last_hop_acks_max as usize;
        let rides = segment.payload_bytes() > 0;
        // With nothing let out yet there is no earlier number that could stand beside data.
        if front || is_full || (rides && flow.let_out.is_none()) {
            exit.tokens.on_departure(cost, now);
            flow.let_out = later(flow.let_out, number);
            return Passage::On;
        }
        let waiting = Waiting { exit: flow.exit, flow: key, number, cost, sequence };
        if let Some(out) = flow.let_out.filter(|_| rides) {
            if newly == 0 {
                // A segment of its own would look like the sign of a loss.
                if is_after(number, out) {
                    segment.set_acknowledgment(out);
                }
                return Passage::On;
            }
            self.coming = Some(waiting);
            return Passage::Split(out);
        }
        self.coming = Some(waiting);
        Passage::Hold
    }

    /// The acknowledgment for the host behind `to` waits from now on.
    pub(super) fn hold(&mut self, packet: Packet, to: PortId, _now: Time) {
        if let Some(of) = self.coming.take() {
            if let Err(at) = self.holding.binary_search(&of.exit) {
                self.holding.insert(at, of.exit);
            }
            self.exits[of.exit.index()].held.push_back(Held { packet, to, of });
        }
    }

    /// How many acknowledgments wait.
    pub(super) fn held_packets(&self) -> usize {
        self.exits.iter().map(|exit| exit.held.len()).sum()
    }

    /// A packet joins the queue of `exit`.
    pub(super) fn on_queued(&mut self, headers: &Headers, exit: PortId) {
        if headers.protocol == Protocol::TCP {
            self.exits[exit.index()].waiting += 1;
        }
    }

    /// A packet left the queue of `exit`, one way or the other.
    pub(super) fn on_gone(&mut self, headers: &Headers, exit: PortId) {
        if headers.protocol == Protocol::TCP {
            let waiting = &mut self.exits[exit.index()].waiting;
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// The circuit behind `exit` takes `rate` from now on.
    pub(super) fn set_rate(&mut self, exit: PortId, rate: BitRate, now: Time) {
        self.exits[exit.index()].tokens.set_rate(rate, now);
    }

    /// When an acknowledgment may go.
    pub(super) fn release_at(&self) -> Option<Time> {
        let holding = self.holding.iter().map(|exit| &self.exits[exit.index()]);
        holding.filter_map(|exit| exit.release_at(&self.config, self.depth)).min()
    }

    /// Lets go what may go by `now`.
    pub(super) fn release(&mut self, now: Time, out: &mut impl HopOut) {
        self.holding.retain(|exit| {
            let exit = &mut self.exits[exit.index()];
            while exit.release_at(&self.config, self.depth).is_some_and(|at| at <= now) {
                let Some(Held { packet, to, of }) = exit.held.pop_front() else { break };
                exit.tokens.on_departure(of.cost, now);
                let mut sequence = of.sequence;
                if let Some(&index) = self.by_key.get(&of.flow) {
                    let flow = &mut self.flows[index as usize];
                    flow.let_out = later(flow.let_out, of.number);
                    sequence = later(flow.sequence, sequence).unwrap_or(sequence);
                }
                out.release(to, packet, sequence);
            }
            !exit.held.is_empty()
        });
    }

    /// Forgets TCPs without data for `idle`. What waits of them goes on as before.
    pub(super) fn forget_idle(&mut self, now: Time) {
        let mut index = 0;
        while index < self.flows.len() {
            if now.since(self.flows[index].last_data) <= self.config.idle {
                index += 1;
                continue;
            }
            let gone = self.flows.swap_remove(index);
            self.by_key.remove(&gone.key);
            if let Some(moved) = self.flows.get(index) {
                self.by_key.insert(moved.key, index as u32);
            }
        }
    }
}

impl Exit {
    /// Whether an acknowledgment of `cost` may go at `now`, were it the first.
    fn takes(&self, cost: u32, config: &BackPressureConfig, depth: u32, now: Time) -> bool {
        let is_open = self.waiting < config.last_hop_queue || cost == 0;
        is_open && self.tokens.release_at(cost.min(depth), now) <= now
    }

    /// When the first acknowledgment may go; none while the queue is too long, or none waits.
    fn release_at(&self, config: &BackPressureConfig, depth: u32) -> Option<Time> {
        let first = self.held.front()?;
        let cost = first.of.cost;
        let is_open = self.waiting < config.last_hop_queue || cost == 0;
        // One that acknowledges more than the bucket holds goes when it is full, and the next ones wait for it.
        is_open.then(|| self.tokens.release_at(cost.min(depth), Time::ZERO))
    }
}

#[cfg(test)]
mod tests;
