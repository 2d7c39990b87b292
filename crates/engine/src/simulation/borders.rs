//! What edge routers do with packets, and the messages between them.
//!
//! The mechanism is a [`Border`], by its own clock; here is what drives it. It has two alarms,
//! one for its timers and one for its shapers, so that the order of events does not depend on which of them is due first.

use tidegate_mechanism::edge::{Border, BorderSite, PeerId};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Address, DropReason, Dscp, Ecn, FlowId, Headers, Packet, Place, Protocol, TcpHeader};

use super::{Carrier, Flow, Simulation};
use crate::arena::Carried;
use crate::border::{EdgeStore, segment_of};
use crate::build::elements::{border_name, build_control};
use crate::ids::{FlowIds, NodeId};
use crate::observer::Observer;
use crate::world::Wake;

/// What classifiers of an inner domain see of messages of an outer one.
const MESSAGE_HEADERS: Headers = Headers {
    source: Address::V4([0; 4]),
    destination: Address::V4([0; 4]),
    flow_label: 0,
    protocol: Protocol::UDP,
    source_port: 0,
    destination_port: 0,
    dscp: Dscp::CONTROL,
    ecn: Ecn::NotEct,
};

/// What classifiers see of packets of `flow`.
pub(crate) fn headers_of(flows: &[Flow], flow: FlowId) -> Headers {
    let Some(Flow { headers, .. }) = flows.get(flow.0 as usize / 2) else {
        // A message between the borders of an outer domain; their addresses are not the engine's to know.
        return MESSAGE_HEADERS;
    };
    if flow.0.is_multiple_of(2) { *headers } else { headers.reversed() }
}

impl<O: Observer> Simulation<O> {
    /// `packet` enters a domain; `None` if it waits at a shaper or was dropped.
    pub(super) fn enter(&mut self, passage: u32, packet: &mut Packet, route: u32) -> Option<()> {
        let now = self.world.now;
        let is_data = self.is_data(packet);
        let passage = &self.programs.passages[passage as usize];
        let index = passage.border;
        let border = &mut self.borders[index as usize];
        let Some(control) = &mut border.control else { return Some(()) };
        if !is_data && !control.controls_messages() {
            return Some(());
        }
        // Where its way goes on, should it wait.
        self.world.arena.get_mut(packet).route = route;
        let headers = headers_of(&self.flows, packet.flow);
        let local = border.clock.shows(now);
        let (level, drops_by_reason) = (border.level, &mut border.drops_by_reason);
        let (world, flows) = (&mut self.world, &self.flows);
        let mut store = EdgeStore { world, flows, drops_by_reason, border: index, level };
        let passed = control.handle_packet(*packet, &headers, &passage.peers, local, &mut store);
        // Feedback for a first packet goes ahead of it.
        self.after_edge(index);
        if let Some(passed) = passed {
            *packet = passed;
            return Some(());
        }
        self.release_shaped(index);
        None
    }

    /// Lets go what the shapers of a border have due, and arms their timer.
    fn release_shaped(&mut self, index: u32) {
        let now = self.world.now;
        loop {
            let border = &mut self.borders[index as usize];
            let Some(control) = &mut border.control else { return };
            let local = border.clock.shows(now);
            // Its own time is ahead of a clock that was set back.
            if control.release_at().is_none_or(|at| at > local && at > control.latest()) {
                break;
            }
            let (level, drops_by_reason) = (border.level, &mut border.drops_by_reason);
            let (world, flows) = (&mut self.world, &self.flows);
            let mut store = EdgeStore { world, flows, drops_by_reason, border: index, level };
            let Some(packet) = control.poll_packet(local, &mut store) else { break };
            // What the edge has to say goes ahead of the packet.
            self.after_edge(index);
            let route = self.world.arena.get(&packet).route;
            self.advance(packet, route);
        }
        self.arm_shapers(index);
    }

    /// Arms the timer of a border's shapers: rates may have changed.
    fn arm_shapers(&mut self, index: u32) {
        let border = &mut self.borders[index as usize];
        let due = border.control.as_ref().and_then(Border::release_at);
        if let Some(due) = due {
            let due = border.clock.when(due).max(self.world.now);
            border.shaper_alarm.arm(due, Wake::Shaper.token(index), &mut self.world.events);
        }
    }

    pub(super) fn on_shaper_alarm(&mut self, index: u32) {
        if self.borders[index as usize].shaper_alarm.fires(self.world.now) {
            self.release_shaped(index);
        }
    }

    pub(super) fn label(&mut self, index: u32, packet: &mut Packet) {
        let now = self.world.now;
        if let Some(labeller) = &mut self.borders[index as usize].labeller {
            labeller.on_arrival(packet, now);
        }
    }

    pub(super) fn leave(&mut self, departure: u32, packet: &mut Packet) {
        let now = self.world.now;
        let is_data = self.is_data(packet);
        let departure = &self.programs.departures[departure as usize];
        let index = departure.border;
        let border = &mut self.borders[index as usize];
        let Some(control) = &mut border.control else { return };
        if !is_data && !control.controls_messages() {
            return;
        }
        let headers = headers_of(&self.flows, packet.flow);
        let local = border.clock.shows(now);
        if control.stamps() {
            let created = self.world.arena.get(packet).created;
            if let Some(stamp) = self.world.stamps.take(packet, created, border.level) {
                control.handle_stamp(packet.flow, &headers, stamp, local);
            }
        }
        let mut segment = segment_of(&self.flows, packet, self.world.arena.get_mut(packet));
        control.handle_leaving(packet, &headers, &departure.peers, segment.as_mut(), local);
        self.after_edge(index);
    }

    pub(crate) fn headers_of(&self, flow: FlowId) -> Headers {
        headers_of(&self.flows, flow)
    }

    /// Whether packets of `flow` come from outside.
    pub(crate) fn is_outside(&self, flow: FlowId) -> bool {
        self.flows.get(flow.0 as usize / 2).is_some_and(|flow| matches!(flow.carrier, Carrier::External))
    }

    pub(super) fn on_control(&mut self, index: u32, packet: &Packet) {
        let now = self.world.now;
        let from = PeerId(packet.flow.0 - 2 * self.flows.len() as u32);
        let border = &mut self.borders[index as usize];
        let (probability, random) = &mut border.control_loss;
        if *probability > 0.0 && random.chance(*probability) {
            self.world.drop_packet(packet, Place::Edge(index), DropReason::Medium);
            return;
        }
        let message = self.world.arena.get(packet).message;
        let bytes = self.world.messages.take(message);
        if let Some(control) = &mut border.control {
            control.handle_message(from, &bytes, packet.ttl, border.clock.shows(now));
        }
        self.world.messages.release(message, Some(bytes));
        self.world.retire(packet);
        self.after_edge(index);
        // Rates may have changed.
        self.release_shaped(index);
    }

    pub(super) fn on_edge_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let border = &mut self.borders[index as usize];
        if !border.alarm.fires(now) {
            return;
        }
        if let Some(control) = &mut border.control {
            control.handle_timeout(border.clock.shows(now));
        }
        self.after_edge(index);
        self.arm_shapers(index);
    }

    /// A border's clock was stepped, or its mechanism is another one: its alarms are armed for where its deadlines are now. Those
    /// armed for later than needed are moved forward; those armed too early find nothing to do, and are armed again.
    pub(super) fn follow_clock(&mut self, index: u32) {
        self.after_edge(index);
        self.release_shaped(index);
    }

    /// The machine of a border is started anew: what it knew is gone, and what waited at its shapers is lost.
    pub(super) fn restart_border(&mut self, index: u32) {
        let now = self.world.now;
        let border = &mut self.borders[index as usize];
        let Some(control) = &mut border.control else { return };
        let local = border.clock.shows(now);
        let (level, drops_by_reason) = (border.level, &mut border.drops_by_reason);
        let (world, flows) = (&mut self.world, &self.flows);
        let mut store = EdgeStore { world, flows, drops_by_reason, border: index, level };
        control.purge(DropReason::LinkDown, local, &mut store);
        border.restarts += 1;
        let name = border_name(&self.network, border.domain as usize, NodeId(border.node));
        let seed = Seed::for_component(self.run_seed, &format!("{name}.restart{}", border.restarts));
        let domain = &self.network.domains[border.domain as usize];
        let site = BorderSite { border: PeerId(index), level };
        border.control = build_control(domain, site, seed, self.network.mtu_bytes());
    }

    /// Sends what an edge has to say, and arms its timer.
    fn after_edge(&mut self, index: u32) {
        if self.borders[index as usize].control.as_ref().is_some_and(Border::has_to_say) {
            self.send_messages(index);
        }
        let border = &mut self.borders[index as usize];
        if let Some(at) = border.control.as_ref().and_then(Border::timer_at) {
            let at = border.clock.when(at).max(self.world.now);
            border.alarm.arm(at, Wake::Edge.token(index), &mut self.world.events);
        }
    }

    #[inline(never)]
    fn send_messages(&mut self, index: u32) {
        // The way of a message may lead through a border of an inner domain, which has messages of its own.
        let mut message = core::mem::take(&mut self.message);
        while let Some(control) = &mut self.borders[index as usize].control
            && let Some(to) = control.poll_message(&mut message)
        {
            if self.borders[index as usize].liar.is_some() {
                self.send_lies(index, to, &mut message);
            } else {
                self.send_control(index, to, &message);
            }
        }
        self.message = message;
    }

    #[cold]
    fn send_lies(&mut self, from: u32, to: PeerId, message: &mut Vec<u8>) {
        let Some(liar) = &mut self.borders[from as usize].liar else { return };
        let again = liar.tell(to, message);
        self.send_control(from, to, message);
        if let Some((peer, old)) = again {
            self.send_control(from, peer, &old);
        }
    }

    fn send_control(&mut self, from: u32, to: PeerId, message: &[u8]) {
        let route = self.control_route(from, to);
        let (header_bytes, class) = match &self.borders[from as usize].control {
            Some(control) => (control.message_header_bytes(), control.message_class()),
            None => (0, 0),
        };
        let wire_bytes = header_bytes + u32::try_from(message.len()).expect("messages are small");
        let index = self.world.messages.insert(message);
        let carried =
            Carried { created: self.world.now, route: 0, message: index, tcp: TcpHeader::default() };
        let flow = FlowIds { flows: self.flows.len() as u32 }.control(from);
        let mut packet = self.world.create(flow, wire_bytes, carried);
        packet.dscp = Dscp::CONTROL;
        packet.class = class;
        self.world.totals.control_packets += 1;
        self.world.totals.control_bytes += u64::from(wire_bytes);
        self.advance(packet, route);
    }
}
