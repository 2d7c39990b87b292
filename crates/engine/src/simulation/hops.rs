//! Routers with a hop mechanism: what it is told of packets, and the messages between neighbours.
//!
//! Only the links of such a router know of it: their programs have a step of their own, and their events another kind of
//! wake-up. Elsewhere nothing is asked.

use std::collections::BTreeMap;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::SegmentEditor;
use tidegate_mechanism::hop::{
    Action, Circuit, MESSAGE_HEADER_BYTES, Neighbor, Passage, Port, PortId, Router, wire,
};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Address, Dscp, Packet, Protocol, TcpHeader};
use tidegate_units::Time;

use super::{Flow, Simulation};
use crate::arena::Carried;
use crate::ids::{FlowIds, LinkId, NodeId};
use crate::network::{Change, Network, NodeKind};
use crate::observer::Observer;
use crate::outside::OutsideSegment;
use crate::program::{Programs, Step};
use crate::world::{Alarm, HopDrop, Wake, World};

/// One router with its mechanism.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) router: Router,
    /// By port: the link that leaves there, and the program of messages that come over it.
    ports: Vec<(LinkId, u32)>,
    alarm: Alarm,
}

impl Hop {
    /// The directions of links that were found congested, and when last.
    pub(super) fn congested_at(&self) -> impl Iterator<Item = (LinkId, Time)> {
        let ports = (0..).zip(&self.ports);
        ports.filter_map(|(port, &(link, _))| Some((link, self.router.congested_at(PortId(port))?)))
    }
}

/// By link: whether it leaves a router with a hop mechanism. Empty if there is none at all.
pub(crate) fn links(network: &Network) -> Vec<bool> {
    if network.hops.is_empty() {
        return Vec::new();
    }
    let speakers = by_node(network);
    let leaves = |node: NodeId| speakers[node.0 as usize].is_some();
    network.links.iter().flat_map(|link| link.ends.map(leaves)).collect()
}

/// By node: which of the hop mechanisms is there. Empty if there is none at all.
pub(crate) fn by_node(network: &Network) -> Vec<Option<u32>> {
    if network.hops.is_empty() {
        return Vec::new();
    }
    let mut speakers = vec![None; network.nodes.len()];
    for (index, hop) in (0..).zip(&network.hops) {
        speakers[hop.node.0 as usize].get_or_insert(index);
    }
    speakers
}

/// By hop mechanism: the directions of links that leave there, in the order of the links.
fn directions(network: &Network) -> Vec<Vec<(u32, bool)>> {
    let speakers = by_node(network);
    let mut leaving = vec![Vec::new(); network.hops.len()];
    for (index, link) in (0..).zip(&network.links) {
        for (reverse, near) in [false, true].into_iter().zip(link.ends) {
            if let Some(&Some(hop)) = speakers.get(near.0 as usize) {
                leaving[hop as usize].push((index, reverse));
            }
        }
    }
    leaving
}

/// Whom advice is for: the node of sources, where their packets go, by which protocol.
pub(crate) type Advised = (u32, Address, Protocol);

/// The flows whose sources follow advice, ascending, by whom it is for: routers send an entry per interval for each of their
/// flows, and looking through all flows for each would cost their number squared.
pub(crate) fn advised(network: &Network, flows: &[Flow]) -> BTreeMap<Advised, Vec<u32>> {
    let mut advised = BTreeMap::<Advised, Vec<u32>>::new();
    for ((index, flow), spec) in (0..).zip(flows).zip(&network.flows) {
        if flow.source.is_advised() {
            let whom = (spec.from.0, flow.headers.destination, flow.headers.protocol);
            advised.entry(whom).or_default().push(index);
        }
    }
    advised
}

/// The hop mechanisms of `network`.
pub(crate) fn build<O>(
    network: &Network,
    seed: u64,
    programs: &mut Programs,
    world: &mut World<O>,
) -> Vec<Hop> {
    let mut hops = Vec::with_capacity(network.hops.len());
    if !network.hops.is_empty() {
        world.hop_ports = vec![None; network.links.len() * 2];
    }
    for ((index, spec), leaving) in (0..).zip(&network.hops).zip(directions(network)) {
        let (mut ports, mut known) = (Vec::new(), Vec::new());
        // Ports are numbered in the order of the links, as everywhere.
        for (link, reverse) in leaving {
            let at = &network.links[link as usize];
            let direction = if reverse { &at.reverse } else { &at.forward };
            let far = at.ends[usize::from(!reverse)];
            let neighbor = match network.nodes[far.0 as usize].kind {
                NodeKind::Router => Neighbor::Router,
                NodeKind::Host => Neighbor::Host,
            };
            let port = PortId(u16::try_from(ports.len()).expect("a router has fewer than 2^16 ports"));
            let id = LinkId::of(link, reverse);
            world.hop_ports[id.0 as usize] = Some((index, port));
            ports.push((id, programs.position()));
            programs.push(Step::Neighbor(far.0));
            let circuit = direction.circuit.map(|circuit| Circuit { minimum: circuit.minimum });
            known.push(Port { rate: direction.rate, neighbor, circuit });
        }
        let name = format!("nodes.{}.hop", network.nodes[spec.node.0 as usize].name);
        let context = Context {
            seed: Seed::for_component(seed, &name),
            link_rate: tidegate_units::BitRate::MAX,
            mtu_bytes: network.mtu_bytes(),
        };
        let router = Router::new(&spec.mechanism, &known, &context);
        hops.push(Hop { router, ports, alarm: Alarm::default() });
    }
    hops
}

impl<O: Observer> Simulation<O> {
    pub(crate) const fn is_data(&self, packet: &Packet) -> bool {
        (packet.flow.0 as usize) < 2 * self.flows.len()
    }

    /// `packet` goes on over `link`, which leaves a router with a mechanism.
    pub(crate) fn offer_hop(&mut self, link: LinkId, packet: Packet, route: u32) {
        let (index, port) = self.world.hop_ports[link.0 as usize].expect("a mechanism sees to this link");
        if self.is_data(&packet) {
            let headers = self.headers_of(packet.flow);
            if headers.protocol == Protocol::TCP {
                let now = self.world.now;
                let is_outside = self.is_outside(packet.flow);
                let tcp = &mut self.world.arena.get_mut(&packet).tcp;
                let router = &mut self.hops[index as usize].router;
                let passage = if is_outside {
                    router.handle_segment(&packet, &headers, &mut OutsideSegment(tcp), port, now)
                } else {
                    router.handle_segment(&packet, &headers, tcp, port, now)
                };
                let waits = match passage {
                    Passage::On => None,
                    Passage::Hold => Some(packet),
                    Passage::Split(shown) => {
                        let acknowledgment = self.world.split(&packet);
                        let data = &mut self.world.arena.get_mut(&packet).tcp;
                        if is_outside {
                            OutsideSegment(data).set_acknowledgment(shown);
                        } else {
                            data.set_acknowledgment(shown);
                        }
                        Some(acknowledgment)
                    }
                };
                if let Some(acknowledgment) = waits {
                    self.world.arena.get_mut(&acknowledgment).route = route;
                    self.hops[index as usize].router.hold(acknowledgment, port, now);
                    self.arm_hop(index);
                    if acknowledgment.slot == packet.slot {
                        return;
                    }
                }
            }
        }
        self.offer_admitted(link, packet, route);
    }

    /// The same, after the mechanism has seen its TCP header.
    fn offer_admitted(&mut self, link: LinkId, mut packet: Packet, route: u32) {
        let (index, port) = self.world.hop_ports[link.0 as usize].expect("a mechanism sees to this link");
        if self.is_data(&packet) {
            let headers = self.headers_of(packet.flow);
            let hop = &mut self.hops[index as usize];
            if let Err(why) = hop.router.handle_packet(&mut packet, &headers, port, self.world.now) {
                self.links[link.0 as usize].refuse(&packet, &mut self.world, why);
                self.arm_hop(index);
                return;
            }
        }
        let before = self.links[link.0 as usize].serving();
        self.links[link.0 as usize].offer(&packet, route, &mut self.world);
        self.tell_hop(link, before);
    }

    /// The event of a link that leaves a router with a mechanism.
    pub(crate) fn on_hop_link(&mut self, index: u32) {
        let before = self.links[index as usize].serving();
        let has_arrived = self.links[index as usize].on_wake(&mut self.world);
        self.tell_hop(LinkId(index), before);
        if has_arrived {
            self.on_arrived(index);
        }
    }

    /// Tells the mechanism what `link`, which was transmitting `before`, has sent and dropped since.
    fn tell_hop(&mut self, link: LinkId, before: Option<(Packet, Time)>) {
        let now = self.world.now;
        let (index, port) = self.world.hop_ports[link.0 as usize].expect("a mechanism sees to this link");
        let started = self.links[link.0 as usize].serving().filter(|new| before != Some(*new));
        if let Some((packet, _)) = started.filter(|(packet, _)| self.is_data(packet)) {
            let headers = self.headers_of(packet.flow);
            self.hops[index as usize].router.handle_departure(&packet, &headers, port, now);
        }
        self.tell_drops();
        self.arm_hop(index);
    }

    fn tell_drops(&mut self) {
        let now = self.world.now;
        let mut drops = core::mem::take(&mut self.world.hop_drops);
        for HopDrop { link, packet, why, had_left } in drops.drain(..) {
            if !self.is_data(&packet) {
                continue;
            }
            let (index, port) = self.world.hop_ports[link.0 as usize].expect("a mechanism sees to this link");
            let headers = self.headers_of(packet.flow);
            self.hops[index as usize].router.handle_drop(&packet, &headers, port, why, had_left, now);
        }
        self.world.hop_drops = drops;
    }

    /// A script changed `link`.
    pub(crate) fn after_hop_change(&mut self, link: LinkId, change: Change) {
        let Some(&Some((index, port))) = self.world.hop_ports.get(link.0 as usize) else { return };
        self.tell_drops();
        if let Change::Rate(rate) = change {
            self.hops[index as usize].router.handle_link_rate(port, rate, self.world.now);
        }
        self.arm_hop(index);
    }

    fn arm_hop(&mut self, index: u32) {
        let hop = &mut self.hops[index as usize];
        if let Some(at) = hop.router.timer_at() {
            hop.alarm.arm(at.max(self.world.now), Wake::Hop.token(index), &mut self.world.events);
        }
    }

    pub(crate) fn on_hop_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let hop = &mut self.hops[index as usize];
        if !hop.alarm.fires(now) {
            return;
        }
        hop.router.handle_timeout(now);
        self.carry_out(index);
        self.arm_hop(index);
    }

    /// Does what a router wants done.
    fn carry_out(&mut self, index: u32) {
        let mut message = core::mem::take(&mut self.message);
        while let Some(action) = self.hops[index as usize].router.poll_action(&mut message) {
            let (Action::SetRate { port, .. } | Action::Release { port, .. } | Action::Message { port }) =
                action;
            let (link, route) = self.hops[index as usize].ports[port.index()];
            match action {
                Action::SetRate { rate, .. } => {
                    self.links[link.0 as usize].set_rate(rate, &mut self.world);
                    self.after_medium_change(link);
                }
                Action::Release { packet, sequence, .. } => {
                    let is_outside = self.is_outside(packet.flow);
                    let carried = self.world.arena.get_mut(&packet);
                    if is_outside {
                        OutsideSegment(&mut carried.tcp).set_sequence(sequence);
                    }
                    let onward = carried.route;
                    self.offer_admitted(link, packet, onward);
                }
                Action::Message { .. } => self.send_to_neighbor(index, link, route, &message),
            }
        }
        self.message = message;
    }

    fn send_to_neighbor(&mut self, index: u32, link: LinkId, route: u32, message: &[u8]) {
        let wire_bytes = MESSAGE_HEADER_BYTES + u32::try_from(message.len()).expect("messages are small");
        let message = self.world.messages.insert(message);
        let carried = Carried { created: self.world.now, route, message, tcp: TcpHeader::default() };
        let number = self.borders.len() as u32 + index;
        let flow = FlowIds { flows: self.flows.len() as u32 }.control(number);
        let mut packet = self.world.create(flow, wire_bytes, carried);
        packet.dscp = Dscp::CONTROL;
        self.world.totals.control_packets += 1;
        self.world.totals.control_bytes += u64::from(wire_bytes);
        let before = self.links[link.0 as usize].serving();
        self.links[link.0 as usize].offer_message(packet, route, &mut self.world);
        self.tell_hop(link, before);
    }

    /// A message reached `node`. One without a mechanism does not understand it.
    pub(crate) fn on_neighbor(&mut self, node: u32, packet: &Packet) {
        let now = self.world.now;
        let message = self.world.arena.get(packet).message;
        let bytes = self.world.messages.take(message);
        let speaker = self.speakers.get(node as usize).copied().flatten();
        if let Some(index) = speaker {
            let port = PortId(packet.in_port);
            self.hops[index as usize].router.handle_message(port, &bytes, now);
        } else if let Ok(wire::Message::Advice { entries, .. }) = wire::decode(&bytes) {
            for advice in entries {
                self.advise(node, &advice);
            }
        }
        self.world.messages.release(message, Some(bytes));
        self.world.retire(packet);
        if let Some(index) = speaker {
            self.carry_out(index);
            self.arm_hop(index);
        }
    }

    /// The sources at `node` hear what part of a flow is discarded.
    fn advise(&mut self, node: u32, advice: &wire::Advice) {
        let whom = (node, advice.flow.destination, advice.flow.protocol);
        for &flow in self.advised.get(&whom).into_iter().flatten() {
            self.flows[flow as usize].source.on_advice(advice.discarded(), self.world.now);
        }
    }

    /// An inner variable of the hop mechanism that sees to `link`.
    pub fn hop_variable(&self, link: LinkId, name: &str) -> Option<f64> {
        let (index, port) = (*self.world.hop_ports.get(link.0 as usize)?)?;
        self.hops[index as usize].router.variable(port, name)
    }
}
