//! The event loop.

mod borders;
mod changes;
pub(crate) mod crowds;
pub(crate) mod hops;
mod hosts;
mod streams;
mod way;

use std::collections::{BTreeMap, VecDeque};

use tidegate_mechanism::tcp::{ReceiverCounters, SenderCounters, TcpConfig, TcpReceiver, TcpSender};
use tidegate_packet::{DropReason, Dscp, Headers};
use tidegate_units::{BitRate, Span, Time};

pub(crate) use self::borders::headers_of;
use self::way::Held;
use crate::border::Border;
use crate::cores::{Divided, Part};
use crate::counters::{Delays, FlowCounters, LinkCounters, RateIntegral, SinkCounters, Totals};
use crate::crowd::{Crowd, CrowdTally};
use crate::event::Token;
use crate::fluid::{FluidCounters, FluidLinkCounters, Fluids};
use crate::ids::LinkId;
use crate::link::Link;
use crate::marker::{MarkerCounters, MarkerPoint};
use crate::network::{EventOrder, Network};
use crate::observer::Observer;
use crate::planner::Planner;
use crate::program::{Programs, Routes};
use crate::source::Source;
use crate::stream::Stream;
use crate::ties::TieBreaker;
use crate::world::{Alarm, Wake, World};
use crowds::CrowdPlace;
use hops::{Advised, Hop};

/// A TCP connection.
// In this order, what data and acknowledgments touch shares few cache lines: connections are many, and met in turn.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Connection {
    pub(crate) receiver: TcpReceiver,
    pub(crate) receive_alarm: Alarm,
    /// The connection that carries data the other way, if acknowledgments ride on it.
    pub(crate) partner: Option<u32>,
    /// Which flow it belongs to.
    pub(crate) flow: u32,
    pub(crate) send_alarm: Alarm,
    pub(crate) sender: TcpSender,
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

impl ConnectionCounters {
    /// Counts `other` as well.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.sender.add(&other.sender);
        self.receiver.add(&other.receiver);
    }

    /// What was counted after `earlier`.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            sender: self.sender.since(&earlier.sender),
            receiver: self.receiver.since(&earlier.receiver),
            completion: self.completion,
        }
    }
}

impl Connection {
    /// Another connection begins in its place.
    fn begin(&mut self, config: &TcpConfig) {
        self.sender = TcpSender::new(config);
        self.receiver = TcpReceiver::new(config);
    }

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
    /// The same in a place of a crowd: one connection after another.
    Crowd(u32),
    /// By a stream with rate control, which has an index.
    Stream(u32),
    Datagrams {
        header_bytes: u32,
    },
    External,
}

/// What the engine keeps of a flow.
// In this order, what every packet of a connection touches is one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    /// Programs of data packets; several for packets that choose among paths.
    pub(crate) forward: Routes,
    /// Programs of acknowledgments.
    pub(crate) reverse: Routes,
    /// First of its sinks.
    pub(crate) first_sink: u32,
    pub(crate) sinks: u32,
    pub(crate) dscp: Dscp,
    pub(crate) class: u8,
    pub(crate) carrier: Carrier,
    pub(crate) headers: Headers,
    pub(crate) source_alarm: Alarm,
    pub(crate) source: Source,
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
    pub(crate) sinks: Vec<SinkCounters>,
    /// Distributions of one-way delays by sink; empty if none is wanted.
    pub(crate) sink_delays: Vec<Option<Box<Delays>>>,
    pub(crate) borders: Vec<Border>,
    pub(crate) markers: Vec<MarkerPoint>,
    pub(crate) hops: Vec<Hop>,
    /// By node: which of them is there; empty if there is none.
    pub(crate) speakers: Vec<Option<u32>>,
    pub(crate) advised: BTreeMap<Advised, Vec<u32>>,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) fluids: Option<Box<Fluids>>,
    /// By connection: which place of which crowd it is; empty where there are none.
    pub(crate) places: Vec<CrowdPlace>,
    /// The directions of links that routes go around, ascending.
    pub(crate) congested: Vec<LinkId>,
    pub(crate) programs: Programs,
    pub(crate) script_next: usize,
    pub(crate) reservation_next: usize,
    /// The next change of a border.
    pub(crate) border_change_next: usize,
    /// By link that has held something back: the packets that wait behind it, as a reordering medium or one with jitter wants it.
    pub(crate) held: Vec<VecDeque<Held>>,
    pub(crate) ties: TieBreaker,
    pub(crate) run_seed: u64,
    pub(crate) planner: Planner,
    pub(crate) statistics_since: Time,
    /// For the next message of a border or a router.
    pub(crate) message: Vec<u8>,
    /// Its parts, if several cores simulate: then what happens happens in them, and this is what is known of the whole.
    pub(crate) divided: Option<Box<Divided>>,
    /// What it knows of other parts, if it is one.
    pub(crate) part: Option<Box<Part>>,
    /// Counts of connections when the statistics began; empty while that is the start.
    connections_before: Vec<ConnectionCounters>,
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
    /// By [`LinkId`]: its own rate at the end.
    pub link_rates: Vec<BitRate>,
    /// By [`LinkId`]: its own rate, integrated over that time: bits per second times nanoseconds.
    pub link_rate_nanos: Vec<u128>,
    /// By flow identity.
    pub flows: Vec<FlowCounters>,
    /// By flow, then by receiver.
    pub sinks: Vec<Vec<SinkCounters>>,
    /// By flow; `None` for datagrams, and for all but the first of the places of a crowd, which has the counts of all of them.
    pub connections: Vec<Option<ConnectionCounters>>,
    /// What came of crowds, by the flow that is the first of their places.
    pub crowds: BTreeMap<u32, CrowdTally>,
    /// Drops in front of shapers, by border.
    pub border_drops: Vec<[u64; DropReason::ALL.len()]>,
    /// By marker.
    pub markers: Vec<MarkerCounters>,
    /// By fluid.
    pub fluids: Vec<FluidCounters>,
    /// By direction of a link that fluids cross.
    pub fluid_links: BTreeMap<u32, FluidLinkCounters>,
    /// Of the whole run.
    pub totals: Totals,
}

/// What a simulation is made of, from its builder.
pub(crate) struct Parts {
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) sinks: Vec<SinkCounters>,
    pub(crate) borders: Vec<Border>,
    pub(crate) markers: Vec<MarkerPoint>,
    pub(crate) hops: Vec<Hop>,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) places: Vec<CrowdPlace>,
    pub(crate) programs: Programs,
    pub(crate) planner: Planner,
}

impl<O: Observer> Simulation<O> {
    pub(crate) fn assemble(network: Network, world: World<O>, parts: Parts, run_seed: u64) -> Self {
        let ties = TieBreaker::new(network.ties, network.flows.iter().map(|flow| &*flow.name), run_seed);
        Self {
            advised: hops::advised(&network, &parts.flows),
            speakers: hops::by_node(&network),
            network,
            world,
            links: parts.links,
            flows: parts.flows,
            connections: parts.connections,
            streams: parts.streams,
            sinks: parts.sinks,
            sink_delays: Vec::new(),
            borders: parts.borders,
            markers: parts.markers,
            hops: parts.hops,
            crowds: parts.crowds,
            fluids: None,
            places: parts.places,
            congested: Vec::new(),
            programs: parts.programs,
            script_next: 0,
            reservation_next: 0,
            border_change_next: 0,
            held: Vec::new(),
            ties,
            run_seed,
            planner: parts.planner,
            statistics_since: Time::ZERO,
            message: Vec::new(),
            divided: None,
            part: None,
            connections_before: Vec::new(),
        }
    }

    /// The present instant.
    pub const fn now(&self) -> Time {
        self.world.now
    }

    /// Counts of the whole run so far.
    pub fn totals(&self) -> Totals {
        let Some(parts) = &self.divided else { return self.world.totals };
        // Those of the windows.
        Totals { events: self.world.totals.events, ..parts.totals() }
    }

    /// Runs until `until` (events at that very instant are left for later), or until it has handled `events_max` more
    /// events; whether it got there.
    pub fn run_until(&mut self, until: Time, events_max: u64) -> bool {
        if self.network.event_order == EventOrder::Numbered {
            return self.run_numbered(until, events_max);
        }
        // Counted down, which is one comparison less. (One is handled, whatever the limit.)
        let mut left = events_max.max(1);
        let is_vast = self.is_vast();
        self.world.events.set_foresees(is_vast);
        self.world.events.set_end(until);
        let is_done = loop {
            let Some((time, token)) = self.world.events.pop_due() else { break true };
            if !self.world.events.upcoming().is_empty() {
                self.foresee();
            }
            debug_assert!(time >= self.world.now, "time never goes back");
            self.world.now = time;
            left -= 1;
            if let Some(index) = Wake::link(token) {
                self.on_link(index);
            } else {
                self.handle(token);
            }
            if left == 0 {
                break false;
            }
        };
        self.world.totals.events += events_max.max(1) - left;
        if is_done {
            self.world.now = until;
        }
        is_done
    }

    #[inline(never)]
    pub(crate) fn handle(&mut self, token: Token) {
        let (wake, index) = Wake::of(token);
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
            Wake::Follow => self.on_follow(),
            Wake::Crowd => self.on_crowd_alarm(index),
            Wake::Fluid => self.on_fluid(),
            Wake::Cut => self.on_cut(index),
            Wake::Pause => self.on_pause(index),
        }
    }

    /// Statistics begin now: the warm-up is over.
    pub fn restart_statistics(&mut self) {
        if let Some(parts) = &mut self.divided {
            return parts.restart_statistics();
        }
        let now = self.world.now;
        self.statistics_since = now;
        for link in &mut self.links {
            link.restart_counters(&mut self.world);
        }
        for integral in &mut self.world.rates {
            *integral = RateIntegral::starting(integral.rate(), now);
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
        self.restart_crowds();
        if let Some(fluids) = &mut self.fluids {
            fluids.restart();
        }
    }

    /// What was counted since.
    pub fn statistics(&mut self) -> Statistics {
        if let Some(parts) = &mut self.divided {
            let totals = self.world.totals;
            let counted = parts.statistics();
            return Statistics { totals: Totals { events: totals.events, ..counted.totals }, ..counted };
        }
        let now = self.world.now;
        let mut statistics = Statistics {
            since: self.statistics_since,
            until: now,
            links: self.links.iter_mut().map(|link| link.counters_now(&mut self.world)).collect(),
            link_rates: self.world.rates.iter().map(|integral| integral.rate()).collect(),
            link_rate_nanos: self.world.rates.iter().map(|integral| integral.until(now)).collect(),
            flows: self.world.flows.clone(),
            sinks: self
                .flows
                .iter()
                .map(|flow| self.sinks[flow.first_sink as usize..][..flow.sinks as usize].to_vec())
                .collect(),
            connections: self.connection_counts(),
            crowds: BTreeMap::new(),
            border_drops: self.borders.iter().map(|border| border.drops_by_reason).collect(),
            markers: self.markers.iter().map(|point| point.counters).collect(),
            fluids: self.fluids.iter().flat_map(|fluids| fluids.counters()).collect(),
            fluid_links: self
                .fluids
                .iter()
                .flat_map(|fluids| fluids.link_counters().map(|(link, counters)| (link.0, counters)))
                .collect(),
            totals: self.world.totals,
        };
        self.add_crowds(&mut statistics);
        statistics
    }

    fn connection_counts(&self) -> Vec<Option<ConnectionCounters>> {
        let count = |flow: &Flow, connection: u32| {
            let counted = self.connections[connection as usize].counters();
            let before = self.connections_before.get(connection as usize).copied().unwrap_or_default();
            let completion = self.connections[connection as usize].completion(&flow.source);
            ConnectionCounters { completion, ..counted.since(&before) }
        };
        let counts = |flow: &Flow| match flow.carrier {
            Carrier::Tcp(connection) => Some(count(flow, connection)),
            Carrier::Crowd(_) | Carrier::Stream(_) | Carrier::Datagrams { .. } | Carrier::External => None,
        };
        self.flows.iter().map(counts).collect()
    }

    /// Every packet that was ever made has arrived, was dropped, or is somewhere: panics otherwise, for then the engine
    /// is wrong.
    pub fn assert_conservation(&self) {
        if let Some(parts) = &self.divided {
            return parts.assert_conservation();
        }
        let totals = &self.world.totals;
        let live = self.world.arena.live();
        assert_eq!(
            totals.created,
            totals.delivered + totals.dropped + live as u64,
            "packets are conserved: {totals:?}"
        );
        assert_eq!(live, self.held_packets(), "each live packet is in exactly one place");
    }

    /// Packets on links, in shapers, at routers, and held back.
    pub(crate) fn held_packets(&self) -> usize {
        let on_links: usize = self.links.iter().map(Link::held_packets).sum();
        let in_shapers: usize = self.borders.iter().map(Border::held_packets).sum();
        let in_hops: usize = self.hops.iter().map(|hop| hop.router.held_packets()).sum();
        let held_back = self.held.iter().map(VecDeque::len).sum::<usize>();
        on_links + in_shapers + in_hops + held_back + self.ties.held_packets()
    }
}
