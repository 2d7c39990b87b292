//! The event loop, and the way of a packet through it.

use tidegate_mechanism::edge::{Admission, AggregateId, EdgeHalf, PeerId};
use tidegate_mechanism::mark::Conditioned;
use tidegate_mechanism::random::Substream;
use tidegate_mechanism::tcp::{ReceiverCounters, SenderCounters, TcpReceiver, TcpSender, Transmit};
use tidegate_packet::{DropReason, Dscp, Ecn, FlowId, Headers, Packet, Protocol, TcpHeader};
use tidegate_units::{Span, Time};

use crate::arena::Carried;
use crate::border::{Border, EdgePort, ShaperSink};
use crate::build::{Parts, Planner};
use crate::counters::{Delays, FlowCounters, LinkCounters, SinkCounters, Totals};
use crate::hop::Hop;
use crate::ids::{FlowIds, LinkId};
use crate::link::{Arrival, Link};
use crate::marker::{MarkerCounters, MarkerPoint};
use crate::network::{Change, Network, ReservationChange, ScriptedChange};
use crate::observer::Observer;
use crate::program::{Programs, Step};
use crate::source::{Act, Source};
use crate::world::{Alarm, Place, Wake, World};

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: TcpSender,
    pub(crate) receiver: TcpReceiver,
    pub(crate) send_alarm: Alarm,
    pub(crate) receive_alarm: Alarm,
}

/// Counts of the two halves of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionCounters {
    /// The sending half.
    pub sender: SenderCounters,
    /// The receiving half.
    pub receiver: ReceiverCounters,
}

impl Connection {
    fn counters(&self) -> ConnectionCounters {
        ConnectionCounters { sender: self.sender.counters(), receiver: self.receiver.counters() }
    }
}

/// How a flow carries its data: by a connection, which has an index, by datagrams, or outside of the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    Tcp(u32),
    Datagrams { header_bytes: u32 },
    External,
}

/// What the engine keeps of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) headers: Headers,
    pub(crate) dscp: Dscp,
    pub(crate) class: u8,
    pub(crate) carrier: Carrier,
    pub(crate) source: Source,
    pub(crate) source_alarm: Alarm,
    /// Programs of data packets; several for packets that choose among paths.
    pub(crate) forward: Routes,
    /// Programs of acknowledgments.
    pub(crate) reverse: Routes,
    /// First of its sinks.
    pub(crate) first_sink: u32,
    pub(crate) sinks: u32,
}

/// The programs among which a flow's packets choose.
#[derive(Clone, Debug)]
pub(crate) enum Routes {
    One(u32),
    /// Each packet draws one.
    Many(Box<Spread>),
}

/// Several programs, and the flow's own stream to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) programs: Vec<u32>,
    pub(crate) random: Substream,
}

impl Routes {
    #[inline]
    pub(crate) fn choose(&mut self) -> u32 {
        match self {
            Self::One(program) => *program,
            Self::Many(spread) => spread.programs[spread.random.below(spread.programs.len() as u32) as usize],
        }
    }
}

/// A network with its traffic, at some instant.
#[derive(Debug)]
pub struct Simulation<O: Observer = ()> {
    /// As described, but for the links: `links` and the routing have what is needed of them.
    pub(crate) network: Network,
    pub(crate) world: World<O>,
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) connections: Vec<Connection>,
    /// Which flow a connection belongs to.
    pub(crate) connection_flow: Vec<u32>,
    pub(crate) sinks: Vec<SinkCounters>,
    /// Distributions of one-way delays by sink; empty if none is wanted.
    pub(crate) sink_delays: Vec<Option<Box<Delays>>>,
    pub(crate) borders: Vec<Border>,
    pub(crate) markers: Vec<MarkerPoint>,
    pub(crate) hops: Vec<Hop>,
    pub(crate) programs: Programs,
    pub(crate) forwards: Vec<bool>,
    pub(crate) script_next: usize,
    pub(crate) reservation_next: usize,
    /// Packets that a reordering medium holds back.
    pub(crate) held: Vec<Option<(Packet, u32, LinkId)>>,
    pub(crate) held_free: Vec<u32>,
    pub(crate) run_seed: u64,
    pub(crate) planner: Planner,
    pub(crate) statistics_since: Time,
    outbox: Vec<(PeerId, Vec<u8>)>,
    /// Counts of connections when the statistics began; empty while that is the start.
    connections_before: Vec<ConnectionCounters>,
    stopped: bool,
}

/// What was counted between the start of the statistics and `until`.
#[derive(Debug)]
pub struct Statistics {
    /// From when.
    pub since: Time,
    /// Until when.
    pub until: Time,
    /// By [`LinkId`].
    pub links: Vec<LinkCounters>,
    /// By flow identity.
    pub flows: Vec<FlowCounters>,
    /// By flow, then by receiver.
    pub sinks: Vec<Vec<SinkCounters>>,
    /// By flow; `None` for datagrams.
    pub connections: Vec<Option<ConnectionCounters>>,
    /// Drops in front of shapers, by border.
    pub border_drops: Vec<[u64; DropReason::ALL.len()]>,
    /// By marker.
    pub markers: Vec<MarkerCounters>,
    /// Of the whole run.
    pub totals: Totals,
}

impl<O: Observer> Simulation<O> {
    pub(crate) fn assemble(network: Network, world: World<O>, parts: Parts, run_seed: u64) -> Self {
        let Parts {
            links,
            flows,
            connections,
            connection_flow,
            sinks,
            borders,
            markers,
            hops,
            programs,
            planner,
        } = parts;
        let forwards =
            network.nodes.iter().map(|node| node.kind == crate::network::NodeKind::Router).collect();
        Self {
            network,
            world,
            links,
            flows,
            connections,
            connection_flow,
            sinks,
            sink_delays: Vec::new(),
            borders,
            markers,
            hops,
            programs,
            forwards,
            script_next: 0,
            reservation_next: 0,
            held: Vec::new(),
            held_free: Vec::new(),
            run_seed,
            planner,
            statistics_since: Time::ZERO,
            outbox: Vec::new(),
            connections_before: Vec::new(),
            stopped: false,
        }
    }

    /// The present instant.
    pub const fn now(&self) -> Time {
        self.world.now
    }

    /// Counts of the whole run so far.
    pub const fn totals(&self) -> &Totals {
        &self.world.totals
    }

    /// Runs until `until` (events at that very instant are left for later), or until it has handled `events_max` more
    /// events; whether it got there.
    pub fn run_until(&mut self, until: Time, events_max: u64) -> bool {
        self.stopped = false;
        let stop = Wake::Phase.token(0);
        self.world.events.schedule(until, stop);
        let mut events = 0;
        while let Some((time, token)) = self.world.events.pop() {
            debug_assert!(time >= self.world.now, "time never goes back");
            self.world.now = time;
            events += 1;
            let (wake, index) = Wake::of(token);
            // An interrupted run left its own mark behind; only the one for this instant counts.
            if wake == Wake::Phase && time == until {
                self.stopped = true;
                break;
            }
            self.handle(wake, index);
            if events >= events_max {
                break;
            }
        }
        self.world.totals.events += events;
        self.stopped
    }

    #[inline]
    pub(crate) fn handle(&mut self, wake: Wake, index: u32) {
        match wake {
            Wake::Link => self.on_link(index),
            Wake::TcpSender => self.on_sender_alarm(index),
            Wake::TcpReceiver => self.on_receiver_alarm(index),
            Wake::Source => self.on_source_alarm(index),
            Wake::Edge => self.on_edge_alarm(index),
            Wake::Shaper => self.on_shaper_alarm(index),
            Wake::Script => self.on_script(),
            Wake::Held => self.on_held(index),
            Wake::HopLink => self.on_hop_link(index),
            Wake::Hop => self.on_hop_alarm(index),
            Wake::Phase => {}
        }
    }

    /// Statistics begin now: the warm-up is over.
    pub fn restart_statistics(&mut self) {
        let now = self.world.now;
        self.statistics_since = now;
        for link in &mut self.links {
            link.restart_counters(now);
        }
        self.world.flows.fill(FlowCounters::default());
        self.sinks.fill(SinkCounters::default());
        self.sink_delays.iter_mut().flatten().for_each(|delays| delays.reset());
        for border in &mut self.borders {
            border.drops_by_reason.fill(0);
        }
        for point in &mut self.markers {
            point.counters = MarkerCounters::default();
        }
        self.connections_before = self.connections.iter().map(Connection::counters).collect();
    }

    /// What was counted since.
    pub fn statistics(&mut self) -> Statistics {
        let now = self.world.now;
        Statistics {
            since: self.statistics_since,
            until: now,
            links: self.links.iter_mut().map(|link| link.counters_at(now)).collect(),
            flows: self.world.flows.clone(),
            sinks: self
                .flows
                .iter()
                .map(|flow| self.sinks[flow.first_sink as usize..][..flow.sinks as usize].to_vec())
                .collect(),
            connections: self.connection_counts(),
            border_drops: self.borders.iter().map(|border| border.drops_by_reason).collect(),
            markers: self.markers.iter().map(|point| point.counters).collect(),
            totals: self.world.totals,
        }
    }

    fn connection_counts(&self) -> Vec<Option<ConnectionCounters>> {
        let count = |connection: u32| {
            let now = self.connections[connection as usize].counters();
            let before = self.connections_before.get(connection as usize).copied().unwrap_or_default();
            ConnectionCounters {
                sender: now.sender.since(&before.sender),
                receiver: now.receiver.since(&before.receiver),
            }
        };
        let counts = |flow: &Flow| match flow.carrier {
            Carrier::Tcp(connection) => Some(count(connection)),
            Carrier::Datagrams { .. } | Carrier::External => None,
        };
        self.flows.iter().map(counts).collect()
    }

    /// Every packet that was ever made has arrived, was dropped, or is somewhere: panics otherwise, for then the engine
    /// is wrong.
    pub fn assert_conservation(&self) {
        let on_links: usize = self.links.iter().map(Link::held_packets).sum();
        let in_shapers: usize = self.borders.iter().map(Border::held_packets).sum();
        let held = self.held.iter().flatten().count();
        let totals = &self.world.totals;
        let live = self.world.arena.live();
        assert_eq!(
            totals.created,
            totals.delivered + totals.dropped + live as u64,
            "packets are conserved: {totals:?}"
        );
        assert_eq!(live, on_links + in_shapers + held, "each live packet is in exactly one place");
    }

    #[inline]
    fn on_link(&mut self, index: u32) {
        let arrival = self.links[index as usize].on_wake(&mut self.world);
        self.on_arrival(arrival, index);
    }

    #[inline]
    pub(crate) fn on_arrival(&mut self, arrival: Arrival, index: u32) {
        match arrival {
            Arrival::Now(packet, route) => self.arrive(packet, route, LinkId(index)),
            Arrival::Later(packet, route, held) => self.hold(packet, route, held, LinkId(index)),
            Arrival::None => {}
        }
    }

    fn hold(&mut self, packet: Packet, route: u32, held: Span, link: LinkId) {
        let entry = Some((packet, route, link));
        let index = if let Some(index) = self.held_free.pop() {
            self.held[index as usize] = entry;
            index
        } else {
            self.held.push(entry);
            self.held.len() as u32 - 1
        };
        self.world.events.schedule(self.world.now + held, Wake::Held.token(index));
    }

    fn on_held(&mut self, index: u32) {
        if let Some((packet, route, link)) = self.held[index as usize].take() {
            self.held_free.push(index);
            self.arrive(packet, route, link);
        }
    }

    /// `packet` came over `link`.
    #[inline]
    fn arrive(&mut self, mut packet: Packet, route: u32, link: LinkId) {
        if O::WATCHES {
            let carried = self.world.arena.get(&packet);
            let message =
                (carried.message != Carried::NO_MESSAGE).then(|| self.world.messages.bytes(carried.message));
            self.world.observer.on_delivered(self.world.now, link, &packet, carried, message);
        }
        if packet.flow.0 as usize >= 2 * self.flows.len() {
            self.links[link.0 as usize].count_control(&packet);
        }
        let node = self.links[link.0 as usize].to_node;
        if self.forwards[node as usize] && matches!(self.programs.step(route), Step::Link(_) | Step::Hop(_)) {
            packet.ttl -= 1;
            if packet.ttl == 0 {
                self.world.drop_packet(&packet, Place::Node(node), DropReason::TtlExpired);
                return;
            }
        }
        self.advance(packet, route);
    }

    /// `packet` goes on from position `route` of its program.
    #[inline]
    pub(crate) fn advance(&mut self, mut packet: Packet, mut route: u32) {
        loop {
            match self.programs.step(route) {
                Step::Link(link) => {
                    self.links[link.0 as usize].offer(packet, route + 1, &mut self.world);
                    return;
                }
                Step::Hop(link) => return self.offer_hop(link, packet, route + 1),
                Step::TcpData(connection) => return self.on_tcp_data(connection, &packet),
                Step::TcpAck(connection) => return self.on_tcp_ack(connection, &packet),
                Step::Datagram(sink) => return self.on_datagram(sink, &packet),
                Step::External(sink) => return self.on_external(sink, &packet),
                Step::Ingress(passage) => match self.enter(passage, &mut packet, route + 1) {
                    Some(()) => {}
                    None => return,
                },
                Step::Label(border) => self.label(border, &mut packet),
                Step::Mark(marker) => {
                    let said = self.markers[marker as usize].pass(&mut packet, self.world.now);
                    if let Conditioned::Drop(why) = said {
                        self.world.drop_packet(&packet, Place::Marker(marker), why);
                        return;
                    }
                }
                Step::Egress(departure) => self.leave(departure, &mut packet),
                Step::Branch(branch) => return self.branch(branch, packet),
                Step::Control(border) => return self.on_control(border, &packet),
                Step::Neighbor(node) => return self.on_neighbor(node, &packet),
                Step::Nowhere => {
                    self.world.drop_packet(&packet, Place::Node(u32::MAX), DropReason::NoRoute);
                    return;
                }
            }
            route += 1;
        }
    }

    fn branch(&mut self, branch: u32, packet: Packet) {
        let count = self.programs.branches[branch as usize].len();
        for index in 0..count {
            let route = self.programs.branches[branch as usize][index];
            let mut copy = packet;
            if index + 1 < count {
                copy.slot = self.world.arena.insert(*self.world.arena.get(&packet));
                self.world.totals.created += 1;
            }
            self.advance(copy, route);
        }
    }

    // Hosts.

    #[inline]
    pub(crate) fn count_received(sink: &mut SinkCounters, now: Time, packet: &Packet, created: Time) {
        let delay = (now - created).as_nanos();
        sink.received_packets += 1;
        sink.received_bytes += u64::from(packet.wire_bytes);
        sink.delay_nanos += u128::from(delay);
        sink.delay_nanos_min = sink.delay_nanos_min.min(delay);
        sink.delay_nanos_max = sink.delay_nanos_max.max(delay);
        sink.marked_packets += u64::from(packet.ecn == Ecn::Ce);
        if packet.dscp != Dscp::BEST_EFFORT {
            sink.priority_bytes += u64::from(packet.wire_bytes);
        }
    }

    /// Adds a one-way delay to the distribution of `sink`, if that is wanted.
    #[inline]
    pub(crate) fn watch_delay(&mut self, sink: u32, created: Time) {
        if let Some(Some(delays)) = self.sink_delays.get_mut(sink as usize) {
            delays
                .record((self.world.now - created).as_nanos())
                .expect("a distribution that grows takes any value");
        }
    }

    fn on_datagram(&mut self, sink: u32, packet: &Packet) {
        let created = self.world.arena.get(packet).created;
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, self.world.now, packet, created);
        let Carrier::Datagrams { header_bytes } = self.flows[packet.flow.0 as usize / 2].carrier else {
            unreachable!("datagrams belong to flows of datagrams")
        };
        counters.goodput_bytes += u64::from(packet.wire_bytes.saturating_sub(header_bytes));
        self.watch_delay(sink, created);
        self.world.retire(packet);
    }

    #[inline]
    fn on_tcp_data(&mut self, index: u32, packet: &Packet) {
        let now = self.world.now;
        let carried = *self.world.arena.get(packet);
        let flow = &self.flows[self.connection_flow[index as usize] as usize];
        let counters = &mut self.sinks[flow.first_sink as usize];
        Self::count_received(counters, now, packet, carried.created);
        self.world.retire(packet);
        let connection = &mut self.connections[index as usize];
        let received = connection.receiver.on_segment(&carried.tcp, packet.ecn, now);
        counters.goodput_bytes += received.delivered_bytes;
        let sink = flow.first_sink;
        self.watch_delay(sink, carried.created);
        self.acknowledge(index, received.ack);
    }

    /// Sends the acknowledgment that the receiver owes now, if any, and arms its timer.
    #[inline]
    fn acknowledge(&mut self, index: u32, ack: Option<Transmit>) {
        let connection = &mut self.connections[index as usize];
        if let Some(deadline) = connection.receiver.timer_at() {
            connection.receive_alarm.arm(deadline, Wake::TcpReceiver.token(index), &mut self.world.events);
        }
        if let Some(ack) = ack {
            let flow_index = self.connection_flow[index as usize];
            let route = self.flows[flow_index as usize].reverse.choose();
            self.send_segment(FlowIds::acknowledgments(flow_index), &ack, route);
        }
    }

    #[inline]
    fn send_segment(&mut self, flow: FlowId, segment: &Transmit, route: u32) {
        let carried =
            Carried { created: self.world.now, route: 0, message: Carried::NO_MESSAGE, tcp: segment.header };
        let mut packet = self.world.create(flow, segment.wire_bytes, carried);
        packet.ecn = segment.ecn;
        // The transport's own marking (priorities of its congestion control) goes before the flow's.
        let configured = self.flows[flow.0 as usize / 2].dscp;
        packet.dscp = if segment.dscp == Dscp::BEST_EFFORT { configured } else { segment.dscp };
        packet.class = self.flows[flow.0 as usize / 2].class;
        self.advance(packet, route);
    }

    #[inline]
    fn on_tcp_ack(&mut self, index: u32, packet: &Packet) {
        let tcp = self.world.arena.get(packet).tcp;
        self.world.retire(packet);
        self.connections[index as usize].sender.on_ack(&tcp, self.world.now);
        self.pump(index);
    }

    /// Sends all that the TCP sender may send now, and arms its timer.
    #[inline]
    fn pump(&mut self, index: u32) {
        let now = self.world.now;
        let flow_index = self.connection_flow[index as usize];
        while let Some(segment) = self.connections[index as usize].sender.poll_transmit(now) {
            let route = self.flows[flow_index as usize].forward.choose();
            self.send_segment(FlowIds::data(flow_index), &segment, route);
        }
        let connection = &mut self.connections[index as usize];
        if let Some(deadline) = connection.sender.timer_at() {
            connection.send_alarm.arm(deadline, Wake::TcpSender.token(index), &mut self.world.events);
        }
    }

    fn on_sender_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let connection = &mut self.connections[index as usize];
        if connection.send_alarm.fires(now) {
            if connection.sender.timer_at().is_some_and(|deadline| deadline <= now) {
                connection.sender.on_timer(now);
            }
            self.pump(index);
        }
    }

    fn on_receiver_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let connection = &mut self.connections[index as usize];
        if connection.receive_alarm.fires(now) {
            let due = connection.receiver.timer_at().is_some_and(|deadline| deadline <= now);
            let ack = if due { connection.receiver.on_timer(now) } else { None };
            self.acknowledge(index, ack);
        }
    }

    fn on_source_alarm(&mut self, index: u32) {
        let now = self.world.now;
        if !self.flows[index as usize].source_alarm.fires(now) {
            return;
        }
        while let Some(act) = self.flows[index as usize].source.poll(now) {
            self.act(index, act);
        }
        let flow = &mut self.flows[index as usize];
        if let Some(next) = flow.source.next() {
            flow.source_alarm.arm(next, Wake::Source.token(index), &mut self.world.events);
        }
    }

    fn act(&mut self, index: u32, act: Act) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        match (flow.carrier, act) {
            (Carrier::Datagrams { .. }, Act::Datagram(wire_bytes)) => {
                let route = flow.forward.choose();
                let carried = Carried {
                    created: now,
                    route: 0,
                    message: Carried::NO_MESSAGE,
                    tcp: TcpHeader::default(),
                };
                let mut packet = self.world.create(FlowIds::data(index), wire_bytes, carried);
                packet.dscp = flow.dscp;
                packet.ecn = flow.headers.ecn;
                packet.class = flow.class;
                self.advance(packet, route);
            }
            (Carrier::Tcp(connection), act) => {
                let sender = &mut self.connections[connection as usize].sender;
                match act {
                    Act::Open(Some(bytes)) => sender.on_app_data(bytes),
                    Act::Open(None) => sender.set_unlimited(),
                    Act::Pause => sender.pause(now),
                    Act::Close => sender.stop(now),
                    Act::Datagram(_) => unreachable!("a TCP source offers bytes, not datagrams"),
                }
                self.pump(connection);
            }
            (Carrier::Datagrams { .. } | Carrier::External, _) => {}
        }
    }

    // Borders.

    /// `packet` enters a domain; `None` if it waits at a shaper or was dropped.
    fn enter(&mut self, passage: u32, packet: &mut Packet, route: u32) -> Option<()> {
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
    fn shape(&mut self, index: u32, aggregate: AggregateId, packet: &Packet) {
        let now = self.world.now;
        let border = &mut self.borders[index as usize];
        let control = border.control.as_mut().expect("this border shapes");
        let drops_by_reason = &mut border.drops_by_reason;
        let mut sink = ShaperSink { world: &mut self.world, drops_by_reason, border: index };
        control.bank.enqueue(aggregate, *packet, now, &mut sink);
        self.release_shaped(index);
    }

    /// Lets go what the shapers of a border have due, and arms their timer.
    fn release_shaped(&mut self, index: u32) {
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
    fn arm_shapers(&mut self, index: u32) {
        let border = &mut self.borders[index as usize];
        let due = border.control.as_ref().and_then(|control| control.bank.release_at());
        if let Some(due) = due {
            let due = due.max(self.world.now);
            border.shaper_alarm.arm(due, Wake::Shaper.token(index), &mut self.world.events);
        }
    }

    /// Tells the edge of a packet that its shaper lets go; where the packet's way goes on.
    fn on_released(&mut self, index: u32, aggregate: AggregateId, packet: &mut Packet) -> u32 {
        let now = self.world.now;
        let headers = self.headers_of(packet.flow);
        let border = &mut self.borders[index as usize];
        let control = border.control.as_mut().expect("this border shapes");
        let carried = self.world.arena.get_mut(packet);
        let segment = (headers.protocol == Protocol::TCP).then_some(&mut carried.tcp);
        let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
        packet.arrived = border.clock.shows(packet.arrived);
        let local = border.clock.shows(now);
        control.ingress.on_release(aggregate, packet, &headers, segment, local, &mut port);
        carried.route
    }

    fn on_shaper_alarm(&mut self, index: u32) {
        if self.borders[index as usize].shaper_alarm.fires(self.world.now) {
            self.release_shaped(index);
        }
    }

    fn label(&mut self, index: u32, packet: &mut Packet) {
        let now = self.world.now;
        if let Some(labeller) = &mut self.borders[index as usize].labeller {
            labeller.on_arrival(packet, now);
        }
    }

    fn leave(&mut self, departure: u32, packet: &mut Packet) {
        let now = self.world.now;
        let headers = self.headers_of(packet.flow);
        let departure = &self.programs.departures[departure as usize];
        let index = departure.border;
        let border = &mut self.borders[index as usize];
        if let Some(control) = &mut border.control {
            let local = border.clock.shows(now);
            let mut port = EdgePort { bank: &mut control.bank, outbox: &mut self.outbox, now };
            control.egress.on_packet(packet, &headers, &departure.peers, local, &mut port);
            if headers.protocol == Protocol::TCP {
                control.ingress.on_reverse(&headers, &mut self.world.arena.get_mut(packet).tcp, local);
            }
            self.after_edge(index);
        }
    }

    pub(crate) fn headers_of(&self, flow: FlowId) -> Headers {
        let headers = &self.flows[flow.0 as usize / 2].headers;
        if flow.0.is_multiple_of(2) { *headers } else { headers.reversed() }
    }

    fn on_control(&mut self, index: u32, packet: &Packet) {
        let now = self.world.now;
        let from = PeerId(packet.flow.0 - 2 * self.flows.len() as u32);
        let message = self.world.arena.get(packet).message;
        let bytes = self.world.messages.take(message);
        let border = &mut self.borders[index as usize];
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

    fn on_edge_alarm(&mut self, index: u32) {
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
    fn after_edge(&mut self, index: u32) {
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

    fn send_control(&mut self, from: u32, to: PeerId, message: &[u8]) {
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

    // Changes.

    pub(crate) fn arm_script(&mut self) {
        let change = self.network.script.get(self.script_next).map(|change| change.at);
        let reservation = self.network.reservations.get(self.reservation_next).map(|next| next.at);
        if let Some(at) = change.into_iter().chain(reservation).min() {
            self.world.events.schedule(at, Wake::Script.token(0));
        }
    }

    fn on_script(&mut self) {
        let now = self.world.now;
        let mut routes_change = false;
        while let Some(&ScriptedChange { at, link, change }) = self.network.script.get(self.script_next) {
            if at > now {
                break;
            }
            self.script_next += 1;
            let id = link;
            let link = &mut self.links[link.0 as usize];
            match change {
                Change::Rate(rate) => link.set_rate(rate, &mut self.world),
                Change::Delay(delay) => link.set_delay(delay, &mut self.world),
                Change::Up(up) => {
                    routes_change |= link.is_up() != up;
                    link.set_up(up, &mut self.world);
                }
            }
            self.after_hop_change(id);
        }
        if routes_change {
            self.reroute();
        }
        while let Some(&ReservationChange { at, flow, rate }) =
            self.network.reservations.get(self.reservation_next)
        {
            if at > now {
                break;
            }
            self.reservation_next += 1;
            let connection = self.connection_flow.iter().position(|of| *of == flow);
            if let Some(index) = connection {
                self.connections[index].sender.set_reservation(rate, now);
                self.pump(index as u32);
            }
        }
        self.arm_script();
    }
}
