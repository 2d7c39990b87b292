//! Neighbor-state Based Queuing: drop early what a later router would drop.
//!
//! A flow that does not adapt occupies links with packets that a narrower link further on discards. A router whose
//! output overflows tells its upstream neighbours the arrival and departure rates of such flows, and these discard the
//! same share on arrival. Adaptive flows get what is saved, and no flow gets less than before.
//!
//! Source: Tamura, Tobe & Tokuda, "A neighbor-state based congestion control scheme for adaptive bandwidth sharing",
//! sections 4 (equations 1 to 4, Fig. 11), 5 (Figs. 12, 13) and 8.1 (advice to sources).
//!
//! Deviations and settled ambiguities:
//! - **`MAX_DISCARD`** is declared and never used in Fig. 13: here the ratio is clipped to it, as section 5 says.
//! - **`nactive` and `present`** are never incremented: here a flow is active from its first packet until it was silent
//!   for `ALLOW_IDLE`. As each arrival refreshes `idle_time`, only silence resets a flow.
//! - **`++qlen`** counts dropped packets too; the queue's length is not needed, so there is none.
//! - **The ratio is computed in the estimator of arrivals only.** Fig. 13 does it also at departures: then equation 3 is
//!   applied twice per interval, and equation 4 with a change that was already used.
//! - **`Average_out`** averages over the flows that go to the same downstream router, as section 4.1 says; Fig. 13
//!   averages over all. It is the previous ratio of equations 2 and 3, as in Fig. 13.
//! - **Decay** ([`Decay`]). Fig. 13 lowers the ratio whenever the neighbour loses at most `MIN_DISCARD`; with that the
//!   rates of section 6.2 are never reached but passed in a saw-tooth. By default it is lowered when bandwidth becomes
//!   available, as Fig. 12 says of `DECR_DISCARD`: when the neighbour has nothing to report.
//! - **When the manager reports** (section 1: when "the output link is congested and there is a buffer overflow"): once
//!   per interval in which the output dropped a packet, about the flows that lost one here, discarded ones included: so
//!   a loss travels upstream. Once it reported it goes on, without loss, while non-adaptive flows alone keep the output
//!   busy (but for `MIN_DISCARD` of its rate): the link is still congested then, and silence would tell the neighbour that
//!   it is not.
//! - **A flow that lost nothing** in the interval is reported with equal rates: what the queue took in is no loss.
//! - **What a neighbour said** counts until nothing came for two intervals. Messages carry the sender's clock; older ones
//!   than the last are ignored, so delay and duplication do no harm. After `ALLOW_IDLE` of silence any clock is accepted
//!   again: the neighbour may have restarted.
//! - **"Drop with ratio discard"**: evenly spaced by default ([`Discard`]), for random losses would make the arrivals at
//!   the bottleneck bursty and its report noisy. Random is the other reading.
//! - **A flow** is named by protocol and destination (section 4).
//! - **Routes that follow** (section 8.2 names OSPF as future work; the rule is ours). For them an output is congested in a round
//!   in which it reports, if flows that do not adapt bring as much as fills it, but for `discard_min`. A queue that TCP makes
//!   overflow is no reason to go elsewhere, whatever small flow loses a packet there.

mod flow;
mod law;
mod source;

pub use source::AdvisedSource;

use alloc::vec::Vec;

use tidegate_packet::{DropReason, Headers, Packet, Protocol};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Span, Time};

use super::wire::{self, Advice, Encoder, FlowName, Message, Report};
use super::{HopControl, HopOut, Neighbor, Port, PortId};
use crate::random::{KeyedHash, Substream};
use crate::{Context, ROUNDS, Variable};
use flow::{Flow, Table};

/// Largest message on the wire without its headers: with them an Ethernet packet.
const MESSAGE_BYTES_MAX: usize = 1472;

words! {
    /// When a discard ratio decays.
    pub enum Decay {
        /// While the downstream neighbour reports nothing.
        Silence = "silence",
        /// While it reports a loss of at most `discard_min`, or nothing.
        Literal = "literal",
    }
}

words! {
    /// Which packets are discarded.
    pub enum Discard {
        /// Evenly spaced ones.
        Even = "even",
        /// Each with the ratio as its probability.
        Random = "random",
    }
}

/// A ratio, or a weight that may be nothing or all.
const RATIO: Bound<f64> = Bound::between(0.0, 1.0).saying("", " is not between 0 and 1");

parameters! {
    /// # Neighbor-state Based Queuing
    ///
    /// A router whose output overflows tells its upstream neighbours the rates of flows that do not adapt, and these discard
    /// on arrival what would be dropped later. TCP is never touched. All routers of the domain, edges and core, take part.
    /// With `routing.follows` routes go around such outputs; `tidegate explain follows/nbq`.
    ///
    /// Source: Tamura, Tobe and Tokuda 2000, sections 4 and 5.
    #[derive(Copy)]
    pub struct NbqConfig {
        /// The largest discard ratio. Source: NBQ, Fig. 12 (`MAX_DISCARD`).
        discard_max: f64 = 0.9 => RATIO;
        /// A loss that counts as none. Source: NBQ, Fig. 12 (`MIN_DISCARD`).
        discard_min: f64 = 0.1 => RATIO;
        /// The factor of the ratio per interval while it decays. Source: NBQ, Fig. 12 (`DECR_DISCARD`).
        decrease: f64 = 0.6 => RATIO;
        /// The time between two estimates, and between two messages. Source: NBQ, Fig. 12 (`EST_INTERVAL`).
        interval: Span = Span::from_millis(100) => ROUNDS;
        /// The weight of the previous ratio. Source: NBQ, Fig. 12 (`WEIGHT`).
        weight: f64 = 0.8 => RATIO;
        /// How long a silent flow, or neighbour, is remembered. Source: NBQ, Fig. 12 (`ALLOW_IDLE`).
        idle: Span = Span::from_secs(2) => bound::DURATION;
        /// When the ratio decays. Source: settled; with the literal rule of NBQ, Fig. 13, the rates of its section 6.2 are not
        /// reached.
        decay: Decay = Decay::Silence;
        /// Which packets are discarded. Source: settled; NBQ, Fig. 13 says "with ratio".
        discard: Discard = Discard::Even;
        /// Whether the discard ratio is offered to neighbouring hosts, for sources that adapt. Source: NBQ, section 8.1.
        advice: bool = false;
        /// The most flows that a router controls; further ones pass. Source: assumed; it bounds the memory.
        flows_max: u32 = 65_536 => bound::COUNT;
    }
}

impl NbqConfig {
    /// A router with these ports that knows no flow.
    pub fn build(&self, ports: &[Port], context: &Context) -> Nbq {
        Nbq {
            flows: Table::new(self.flows_max, KeyedHash::new(context.seed)),
            ports: ports.iter().map(|&port| Output::new(port)).collect(),
            next_round: None,
            round_before: Time::ZERO,
            random: Substream::new(context.seed),
            message_bytes_max: MESSAGE_BYTES_MAX,
            config: *self,
        }
    }

    /// How long what a neighbour said counts.
    const fn believed(&self) -> Span {
        self.interval.saturating_mul(2)
    }
}

/// One port: as an output with its flows, and the neighbour behind it.
#[derive(Clone, Debug)]
struct Output {
    port: Port,
    /// Sum of the ratios of the active flows that go out here, and their number.
    ratio_sum: f64,
    active: u32,
    /// The queue dropped a packet since the last round of messages.
    overflowed: bool,
    /// Bytes of non-adaptive flows that came since then, discarded ones included.
    arrived_bytes: u64,
    /// Those that left.
    departed_bytes: u64,
    /// The last round told upstream neighbours about flows of this output.
    congested: bool,
    /// The last such round in which what came would have kept the output busy.
    congested_at: Option<Time>,
    /// When the neighbour was last heard, and its clock then.
    heard: Option<(Time, Time)>,
    /// The message to the neighbour that is being written.
    encoder: Encoder,
}

impl Output {
    fn new(port: Port) -> Self {
        Self {
            port,
            ratio_sum: 0.0,
            active: 0,
            overflowed: false,
            arrived_bytes: 0,
            departed_bytes: 0,
            congested: false,
            congested_at: None,
            heard: None,
            encoder: Encoder::default(),
        }
    }

    /// `Average_out`: the ratio that all flows to this neighbour get.
    fn average_ratio(&self) -> f64 {
        if self.active == 0 { 0.0 } else { (self.ratio_sum / f64::from(self.active)).clamp(0.0, 1.0) }
    }

    /// Whether `bytes` keep the output busy for `elapsed`, but for the part `spare`.
    fn is_filled(&self, bytes: u64, elapsed: Span, spare: f64) -> bool {
        let possible = self.port.rate.as_bytes_per_second_f64() * elapsed.as_secs_f64();
        bytes as f64 >= (1.0 - spare) * possible
    }

    /// Whether non-adaptive flows alone did so.
    fn is_busy(&self, elapsed: Span, spare: f64) -> bool {
        self.is_filled(self.departed_bytes, elapsed, spare)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Nbq {
    flows: Table,
    ports: Vec<Output>,
    /// When the manager next looks; none while there are no flows.
    next_round: Option<Time>,
    round_before: Time,
    random: Substream,
    message_bytes_max: usize,
    config: NbqConfig,
}

/// The name of a flow that does not adapt; none for TCP, which NBQ leaves alone.
fn non_adaptive(headers: &Headers) -> Option<FlowName> {
    (headers.protocol != Protocol::TCP)
        .then_some(FlowName { protocol: headers.protocol, destination: headers.destination })
}

impl HopControl for Nbq {
    fn variables() -> &'static [Variable] {
        const {
            &[Variable::new(
                "discard_ratio",
                "The part of non-adaptive flows that is discarded in front of the queue.",
            )]
        }
    }

    /// The enqueuing module of Fig. 13.
    fn limit_messages(&mut self, bytes: usize) {
        self.message_bytes_max = bytes.min(MESSAGE_BYTES_MAX);
    }

    fn on_arrival(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        to: PortId,
        now: Time,
    ) -> Result<(), DropReason> {
        let Some(name) = non_adaptive(headers) else { return Ok(()) };
        let from = PortId(packet.in_port);
        if self.flows.get_mut(name).is_none() && self.flows.insert(Flow::new(name, from, to, now)) {
            self.ports[to.index()].active += 1;
            if self.next_round.is_none() {
                self.next_round = Some(now + self.config.interval);
                self.round_before = now;
            }
        }
        let Some(flow) = self.flows.get_mut(name) else { return Ok(()) };
        let moved = flow.to != to;
        if moved || now.since(flow.seen) >= self.config.idle {
            let before = &mut self.ports[flow.to.index()];
            before.ratio_sum -= flow.ratio;
            before.active -= 1;
            self.ports[to.index()].active += 1;
            *flow = Flow::new(name, from, to, now);
        }
        flow.seen = now;
        flow.from = from;
        let output = &mut self.ports[to.index()];
        output.arrived_bytes += u64::from(packet.wire_bytes);
        if flow.arrivals.add(packet.wire_bytes, self.config.interval, now) {
            let ratio = next_ratio(flow, output.average_ratio(), &self.config, now);
            output.ratio_sum += ratio - flow.ratio;
            flow.ratio = ratio;
            flow.arrival_before = flow.arrivals.rate;
        }
        let ratio = output.average_ratio();
        let discards = match self.config.discard {
            Discard::Random => ratio > 0.0 && self.random.chance(ratio),
            Discard::Even => {
                flow.due += ratio;
                let discards = flow.due >= 1.0;
                flow.due -= if discards { 1.0 } else { 0.0 };
                discards
            }
        };
        flow.has_lost |= discards;
        if discards { Err(DropReason::Neighbor) } else { Ok(()) }
    }

    /// The dequeuing module of Fig. 13.
    fn on_departure(&mut self, packet: &Packet, headers: &Headers, from: PortId, now: Time) {
        let Some(flow) = non_adaptive(headers).and_then(|name| self.flows.get_mut(name)) else { return };
        flow.departures.add(packet.wire_bytes, self.config.interval, now);
        self.ports[from.index()].departed_bytes += u64::from(packet.wire_bytes);
    }

    fn on_drop(&mut self, _packet: &Packet, headers: &Headers, at: PortId, _why: DropReason, _now: Time) {
        self.ports[at.index()].overflowed = true;
        if let Some(flow) = non_adaptive(headers).and_then(|name| self.flows.get_mut(name)) {
            flow.has_lost = true;
        }
    }

    fn on_message(&mut self, port: PortId, message: &[u8], now: Time, _out: &mut impl HopOut) {
        let Ok(Message::Reports { stamp, entries }) = wire::decode(message) else { return };
        let Some(neighbor) = self.ports.get_mut(port.index()) else { return };
        if let Some((at, clock)) = neighbor.heard
            && now.since(at) < self.config.idle
            && stamp < clock
        {
            return;
        }
        neighbor.heard = Some((now, stamp));
        for Report { flow: name, arrival, departure } in entries {
            if let Some(flow) = self.flows.get_mut(name).filter(|flow| flow.to == port) {
                flow.neighbor = Some((f64::from(arrival), f64::from(departure), now));
            }
        }
    }

    fn set_link_rate(&mut self, port: PortId, rate: BitRate, _now: Time) {
        self.ports[port.index()].port.rate = rate;
    }

    fn timer_at(&self) -> Option<Time> {
        self.next_round
    }

    /// A round of the NBQ manager.
    fn on_timer(&mut self, now: Time, out: &mut impl HopOut) {
        if self.next_round.is_none_or(|at| at > now) {
            return;
        }
        let elapsed = now.since(self.round_before);
        for output in &mut self.ports {
            let holds = output.congested && output.is_busy(elapsed, self.config.discard_min);
            output.congested = output.overflowed || holds;
            if output.congested && output.is_filled(output.arrived_bytes, elapsed, self.config.discard_min) {
                output.congested_at = Some(now);
            }
        }
        self.write_messages(now, out);
        self.forget_idle(now);
        for output in &mut self.ports {
            output.overflowed = false;
            output.arrived_bytes = 0;
            output.departed_bytes = 0;
        }
        self.round_before = now;
        self.next_round = (!self.flows.is_empty()).then(|| now + self.config.interval);
    }

    fn congested_at(&self, port: PortId) -> Option<Time> {
        self.ports.get(port.index())?.congested_at
    }

    fn variable(&self, port: PortId, name: &str) -> Option<f64> {
        let output = self.ports.get(port.index())?;
        match name {
            "discard_ratio" => Some(output.average_ratio()),
            _ => None,
        }
    }
}

impl Nbq {
    /// Tells upstream routers of the flows that suffer here, and hosts what part of theirs is lost.
    fn write_messages(&mut self, now: Time, out: &mut impl HopOut) {
        let message_bytes_max = self.message_bytes_max;
        for flow in self.flows.iter_mut() {
            let output = &self.ports[flow.to.index()];
            let lost = core::mem::take(&mut flow.has_lost);
            let tells = output.congested
                && (lost || output.is_busy(now.since(self.round_before), self.config.discard_min));
            let arrival = flow.arrivals.rate;
            let departure = if lost { flow.departures.rate.min(arrival) } else { arrival };
            let Some(upstream) = self.ports.get_mut(flow.from.index()) else { continue };
            match upstream.port.neighbor {
                Neighbor::Router if tells && arrival > 0.0 => {
                    // Rates of a wire are whole bytes per second, and saturate (`as`).
                    let report =
                        Report { flow: flow.name, arrival: arrival as u32, departure: departure as u32 };
                    put(&mut upstream.encoder, &report, flow.from, message_bytes_max, now, out);
                }
                Neighbor::Host if self.config.advice && lost && arrival > 0.0 => {
                    let ratio = (law::loss(arrival, departure) * f64::from(u16::MAX)) as u16;
                    let advice = Advice { flow: flow.name, ratio };
                    put(&mut upstream.encoder, &advice, flow.from, message_bytes_max, now, out);
                }
                _ => {}
            }
        }
        for (port, output) in (0..).zip(&mut self.ports) {
            if let Some(message) = output.encoder.finish(now) {
                out.send(PortId(port), message);
            }
        }
    }

    /// `ALLOW_IDLE`: flows that stopped are forgotten, and the sums made anew so that rounding does not add up.
    fn forget_idle(&mut self, now: Time) {
        let idle = self.config.idle;
        self.flows.retain(|flow| now.since(flow.seen) < idle);
        for output in &mut self.ports {
            (output.ratio_sum, output.active) = (0.0, 0);
        }
        for flow in self.flows.iter_mut() {
            let output = &mut self.ports[flow.to.index()];
            output.ratio_sum += flow.ratio;
            output.active += 1;
        }
    }
}

/// Adds an entry to the message to `port`; a full one is sent first.
fn put<E: wire::Entry>(
    encoder: &mut Encoder,
    entry: &E,
    port: PortId,
    bytes_max: usize,
    now: Time,
    out: &mut impl HopOut,
) {
    if !encoder.has_room::<E>(entry.flow(), bytes_max)
        && let Some(message) = encoder.finish(now)
    {
        out.send(port, message);
    }
    encoder.push(entry);
}

/// The packet discarder module of Fig. 13.
fn next_ratio(flow: &Flow, average: f64, config: &NbqConfig, now: Time) -> f64 {
    let heard = flow.neighbor.filter(|(_, _, at)| now.since(*at) < config.believed());
    let loss = heard.map_or(0.0, |(arrival, departure, _)| law::loss(arrival, departure));
    let decays = match config.decay {
        Decay::Silence => heard.is_none(),
        Decay::Literal => loss <= config.discard_min,
    };
    if decays {
        return flow.ratio * config.decrease;
    }
    let required = law::required_ratio(loss, average);
    let smoothed = law::smoothed_ratio(config.weight, average, required);
    (smoothed * law::arrival_change(flow.arrivals.rate, flow.arrival_before)).clamp(0.0, config.discard_max)
}

#[cfg(test)]
mod tests;
