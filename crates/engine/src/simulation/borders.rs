//! What edge routers do with packets, and the messages between them.

use tidegate_mechanism::edge::{Admission, AggregateId, EdgeHalf, PeerId};
use tidegate_packet::{Address, DropReason, Dscp, Ecn, FlowId, Headers, Packet, Place, Protocol, TcpHeader};

use super::{Carrier, Flow, Simulation};
use crate::arena::Carried;
use crate::border::{EdgePort, ShaperSink};
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::outside::OutsideSegment;
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

impl<O: Observer> Simulation<O> {
    /// `packet` enters a domain; `None` if it waits at a shaper or was dropped.
    pub(super) fn enter(&mut self, passage: u32, packet: &mut Packet, route: u32) -> Option<()> {
        let now = self.world.now;
        let passage = &self.programs.passages[passage as usize];
        let index = passage.border;
        let headers = self.headers_of(packet.flow);
        let border = &mut self.borders[index as usize];
        let Some(control) = &mut border.control else { return Some(()) };
        let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
        let local = border.clock.shows(now);
        let admission = control.ingress.on_packet(packet, &headers, &passage.peers, local, &mut port);
        // Feedback for a first packet goes ahead of it.
        self.after_edge(index);
        match admission {
            Admission::Pass => Some(()),
            Admission::Drop(why) => {
                self.borders[index as usize].drops_by_reason[why.index()] += 1;
                self.world.drop_packet(packet, Place::Edge(index), why);
                None
            }
            Admission::Shape(aggregate) => {
                self.world.arena.get_mut(packet).route = route;
                self.shape(index, aggregate, packet);
                None
            }
        }
    }

    /// `packet` joins the queue of a shaper.
    pub(super) fn shape(&mut self, index: u32, aggregate: AggregateId, packet: &Packet) {
        let now = self.world.now;
        let border = &mut self.borders[index as usize];
        let control = border.control.as_mut().expect("this border shapes");
        let drops_by_reason = &mut border.drops_by_reason;
        let mut sink = ShaperSink { world: &mut self.world, drops_by_reason, border: index };
        control.bank.enqueue(aggregate, *packet, now, &mut sink);
        self.release_shaped(index);
    }

    /// Lets go what the shapers of a border have due, and arms their timer.
    pub(super) fn release_shaped(&mut self, index: u32) {
        let now = self.world.now;
        loop {
            let border = &mut self.borders[index as usize];
            let control = border.control.as_mut().expect("this border shapes");
            let drops_by_reason = &mut border.drops_by_reason;
            let mut sink = ShaperSink { world: &mut self.world, drops_by_reason, border: index };
            let Some((aggregate, mut packet)) = control.bank.release(now, &mut sink) else { break };
            let route = self.on_released(index, aggregate, &mut packet);
            // What the edge has to say goes ahead of the packet.
            self.after_edge(index);
            self.advance(packet, route);
        }
        self.arm_shapers(index);
    }

    /// Arms the timer of a border's shapers: rates may have changed.
    pub(super) fn arm_shapers(&mut self, index: u32) {
        let border = &mut self.borders[index as usize];
        let due = border.control.as_ref().and_then(|control| control.bank.release_at());
        if let Some(due) = due {
            let due = due.max(self.world.now);
            border.shaper_alarm.arm(due, Wake::Shaper.token(index), &mut self.world.events);
        }
    }

    /// Tells the edge of a packet that its shaper lets go; where the packet's way goes on.
    pub(super) fn on_released(&mut self, index: u32, aggregate: AggregateId, packet: &mut Packet) -> u32 {
        let now = self.world.now;
        let (headers, is_outside) = (self.headers_of(packet.flow), self.is_outside(packet.flow));
        let border = &mut self.borders[index as usize];
        let control = border.control.as_mut().expect("this border shapes");
        let carried = self.world.arena.get_mut(packet);
        let is_tcp = headers.protocol == Protocol::TCP;
        let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
        packet.arrived = border.clock.shows(packet.arrived);
        let local = border.clock.shows(now);
        if is_outside {
            let mut segment = OutsideSegment(&mut carried.tcp);
            let segment = is_tcp.then_some(&mut segment);
            control.ingress.on_release(aggregate, packet, &headers, segment, local, &mut port);
        } else {
            let segment = is_tcp.then_some(&mut carried.tcp);
            control.ingress.on_release(aggregate, packet, &headers, segment, local, &mut port);
        }
        carried.route
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
        let (headers, is_outside) = (self.headers_of(packet.flow), self.is_outside(packet.flow));
        let departure = &self.programs.departures[departure as usize];
        let index = departure.border;
        let border = &mut self.borders[index as usize];
        if let Some(control) = &mut border.control {
            let local = border.clock.shows(now);
            let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
            control.egress.on_packet(packet, &headers, &departure.peers, local, &mut port);
            if headers.protocol == Protocol::TCP {
                let tcp = &mut self.world.arena.get_mut(packet).tcp;
                if is_outside {
                    control.ingress.on_reverse(&headers, &mut OutsideSegment(tcp), local);
                } else {
                    control.ingress.on_reverse(&headers, tcp, local);
                }
            }
            self.after_edge(index);
        }
    }

    pub(crate) fn headers_of(&self, flow: FlowId) -> Headers {
        let Some(Flow { headers, .. }) = self.flows.get(flow.0 as usize / 2) else {
            // A message between the borders of an outer domain; their addresses are not the engine's to know.
            return MESSAGE_HEADERS;
        };
        if flow.0.is_multiple_of(2) { *headers } else { headers.reversed() }
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
            let local = border.clock.shows(now);
            let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
            control.ingress.on_message(from, &bytes, packet.ttl, local, &mut port);
            control.egress.on_message(from, &bytes, packet.ttl, local, &mut port);
        }
        self.world.messages.release(message, Some(bytes));
        self.world.retire(packet);
        self.after_edge(index);
        if self.borders[index as usize].control.is_some() {
            // Rates may have changed.
            self.release_shaped(index);
        }
    }

    pub(super) fn on_edge_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let border = &mut self.borders[index as usize];
        if !border.alarm.fires(now) {
            return;
        }
        if let Some(control) = &mut border.control {
            let local = border.clock.shows(now);
            let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
            if control.ingress.timer_at().is_some_and(|at| at <= local) {
                control.ingress.on_timer(local, &mut port);
            }
            if control.egress.timer_at().is_some_and(|at| at <= local) {
                control.egress.on_timer(local, &mut port);
            }
        }
        self.after_edge(index);
        self.arm_shapers(index);
    }

    /// Sends what an edge has to say, and arms its timer.
    pub(super) fn after_edge(&mut self, index: u32) {
        let mut outbox = core::mem::take(&mut self.outbox);
        for (to, message) in outbox.drain(..) {
            self.send_control(index, to, &message);
        }
        self.outbox = outbox;
        let border = &mut self.borders[index as usize];
        if let Some(control) = &border.control {
            let next = [control.ingress.timer_at(), control.egress.timer_at()].into_iter().flatten().min();
            if let Some(at) = next.map(|at| border.clock.when(at)) {
                border.alarm.arm(at.max(self.world.now), Wake::Edge.token(index), &mut self.world.events);
            }
        }
    }

    pub(super) fn send_control(&mut self, from: u32, to: PeerId, message: &[u8]) {
        let route = self.control_route(from, to);
        let (header_bytes, class) = match &self.borders[from as usize].control {
            Some(control) => (control.message_header_bytes, control.message_class),
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
