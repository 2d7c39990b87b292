//! The event loop, and the way of a packet through it.

mod borders;
mod changes;
mod hosts;
mod streams;

pub(crate) use streams::Stream;

use tidegate_mechanism::edge::PeerId;
use tidegate_mechanism::hop::HopControl;
use tidegate_mechanism::mark::Conditioned;
use tidegate_mechanism::random::Substream;
use tidegate_mechanism::tcp::{ReceiverCounters, SenderCounters, TcpReceiver, TcpSender};
use tidegate_packet::{DropReason, Dscp, Headers, Packet};
use tidegate_units::{Span, Time};

use crate::arena::Carried;
use crate::border::Border;
use crate::build::{Parts, Planner};
use crate::counters::{Delays, FlowCounters, LinkCounters, SinkCounters, Totals};
use crate::hop::Hop;
use crate::ids::LinkId;
use crate::link::{Arrival, Link};
use crate::marker::{MarkerCounters, MarkerPoint};
use crate::network::Network;
use crate::observer::Observer;
use crate::program::{Programs, Step};
use crate::source::Source;
use crate::world::{Alarm, Place, Wake, World};

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: TcpSender,
    pub(crate) receiver: TcpReceiver,
    /// The connection that carries data the other way, if acknowledgments ride on it.
    pub(crate) partner: Option<u32>,
    pub(crate) send_alarm: Alarm,
    pub(crate) receive_alarm: Alarm,
}

/// Counts of the two halves of a connection, and how long its transfer took.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionCounters {
    /// The sending half.
    pub sender: SenderCounters,
    /// The receiving half.
    pub receiver: ReceiverCounters,
    /// From the start of a transfer until all of it had been acknowledged, warm-up or not; `None` while it has not, and where
    /// the application is no transfer.
    pub completion: Option<Span>,
}

impl Connection {
    fn counters(&self) -> ConnectionCounters {
        ConnectionCounters {
            sender: self.sender.counters(),
            receiver: self.receiver.counters(),
            completion: None,
        }
    }

    /// How long `source`, a transfer, took to be acknowledged.
    fn completion(&self, source: &Source) -> Option<Span> {
        let (bytes, started) = source.transfer()?;
        // A flow that is stopped early finishes, too, but not its transfer.
        let is_whole = self.sender.acked_bytes() >= bytes;
        self.sender.finished_at().filter(|_| is_whole).map(|at| at.since(started))
    }
}

/// How a flow carries its data: by a connection, which has an index, by datagrams, or outside of the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    Tcp(u32),
    /// By a stream with rate control, which has an index.
    Stream(u32),
    Datagrams {
        header_bytes: u32,
    },
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
    pub(crate) streams: Vec<Stream>,
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
        let forwards =
            network.nodes.iter().map(|node| node.kind == crate::network::NodeKind::Router).collect();
        Self {
            network,
            world,
            links: parts.links,
            flows: parts.flows,
            connections: parts.connections,
            streams: parts.streams,
            connection_flow: parts.connection_flow,
            sinks: parts.sinks,
            sink_delays: Vec::new(),
            borders: parts.borders,
            markers: parts.markers,
            hops: parts.hops,
            programs: parts.programs,
            forwards,
            script_next: 0,
            reservation_next: 0,
            held: Vec::new(),
            held_free: Vec::new(),
            run_seed,
            planner: parts.planner,
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
            Wake::StreamSender => self.on_stream_sender_alarm(index),
            Wake::StreamReceiver => self.on_stream_receiver_alarm(index),
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
            link.restart_counters(&mut self.world);
        }
        self.world.flows.fill(FlowCounters::default());
        self.sinks.fill(SinkCounters::default());
        self.sink_delays.iter_mut().flatten().for_each(|delays| delays.reset());
        for border in &mut self.borders {
            border.drops_by_reason.fill(0);
        }
        self.world.trails.iter_mut().for_each(|trails| trails.restart());
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
            links: self.links.iter_mut().map(|link| link.counters_now(&mut self.world)).collect(),
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
        let count = |flow: &Flow, connection: u32| {
            let now = self.connections[connection as usize].counters();
            let before = self.connections_before.get(connection as usize).copied().unwrap_or_default();
            ConnectionCounters {
                sender: now.sender.since(&before.sender),
                receiver: now.receiver.since(&before.receiver),
                completion: self.connections[connection as usize].completion(&flow.source),
            }
        };
        let counts = |flow: &Flow| match flow.carrier {
            Carrier::Tcp(connection) => Some(count(flow, connection)),
            Carrier::Stream(_) | Carrier::Datagrams { .. } | Carrier::External => None,
        };
        self.flows.iter().map(counts).collect()
    }

    /// Every packet that was ever made has arrived, was dropped, or is somewhere: panics otherwise, for then the engine
    /// is wrong.
    pub fn assert_conservation(&self) {
        let on_links: usize = self.links.iter().map(Link::held_packets).sum();
        let in_shapers: usize = self.borders.iter().map(Border::held_packets).sum();
        let in_hops: usize = self.hops.iter().map(|hop| hop.mechanism.held_packets()).sum();
        let held = self.held.iter().flatten().count();
        let totals = &self.world.totals;
        let live = self.world.arena.live();
        assert_eq!(
            totals.created,
            totals.delivered + totals.dropped + live as u64,
            "packets are conserved: {totals:?}"
        );
        assert_eq!(live, on_links + in_shapers + in_hops + held, "each live packet is in exactly one place");
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
            Arrival::Twice(packet, route, held) => self.on_doubled(packet, route, held, LinkId(index)),
            Arrival::None => {}
        }
    }

    /// A medium made two of `packet`; one of them may be held back.
    #[cold]
    fn on_doubled(&mut self, packet: Packet, route: u32, held: Span, link: LinkId) {
        // Made before the packet itself goes on, which may be its end.
        let copy = self.world.duplicate(&packet);
        if held.is_zero() {
            self.arrive(packet, route, link);
        } else {
            self.hold(packet, route, held, link);
        }
        self.arrive(copy, route, link);
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
                Step::StreamData(stream) => return self.on_stream_data(stream, &packet),
                Step::StreamReport(stream) => return self.on_stream_report(stream, &packet),
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
        let forget = |world: &mut World<O>, parted: &Packet| {
            if let Some(trails) = &mut world.trails {
                trails.forget(parted);
            }
        };
        forget(&mut self.world, &packet);
        for index in 0..count {
            let route = self.programs.branches[branch as usize][index];
            let mut copy = packet;
            if index + 1 < count {
                copy.slot = self.world.arena.insert(*self.world.arena.get(&packet));
                self.world.totals.created += 1;
                forget(&mut self.world, &copy);
            }
            self.advance(copy, route);
        }
    }
}
