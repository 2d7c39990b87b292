//! The description of a network from which a simulation is built: plain data, validated by its maker.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::MarkerConfig;
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::meter::LabelsConfig;
use tidegate_mechanism::random::Substream;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_packet::{Dscp, FlowId, Headers};
use tidegate_units::{BitRate, Span, Time};

use crate::crowd::CrowdSpec;
use crate::fluid::FluidSpec;
use crate::ids::{LinkId, NodeId};
use crate::liar::LieSpec;
use crate::link::DirectionSpec;

/// What kind of node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Sends and receives; does not forward.
    Host,
    /// Forwards.
    Router,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Unique name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

/// A link.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Unique name.
    pub name: String,
    /// Its ends.
    pub ends: [NodeId; 2],
    /// From the first end to the second.
    pub forward: DirectionSpec,
    /// From the second end to the first.
    pub reverse: DirectionSpec,
    /// Cost for routing, above zero.
    pub cost: u32,
    /// Whether both directions share one medium: one transmission at a time, in turns when both wait.
    pub half_duplex: bool,
}

/// How data is carried.
#[derive(Clone, Debug)]
pub enum TransportSpec {
    /// A TCP connection.
    Tcp(Box<TcpConfig>),
    /// A media stream over UDP that follows the network.
    Media(Box<MediaConfig>),
    /// Datagrams, of which so many bytes on the wire are headers.
    Udp {
        /// Headers of a packet.
        header_bytes: u32,
    },
    /// Packets of whatever kind that come from outside, by [`crate::Simulation::inject`], and go there again.
    External,
}

/// What there is to send.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplicationSpec {
    /// None here: packets come from outside.
    External,
    /// None by itself: the flow is a place of a crowd, which opens connections in it (TCP).
    Crowd,
    /// As much as the transport takes (TCP).
    Bulk,
    /// So many payload bytes (TCP).
    Transfer {
        /// Payload bytes.
        bytes: u64,
    },
    /// Packets at even distances (UDP).
    ConstantRate {
        /// Rate on the wire.
        rate: BitRate,
        /// Bytes on the wire.
        packet_bytes: u32,
        /// Each gap is longer or shorter by up to this part of itself, uniformly; 0 to 1.
        jitter: f64,
    },
    /// Packets at exponentially distributed distances (UDP).
    Poisson {
        /// Mean rate on the wire.
        rate: BitRate,
        /// Bytes on the wire.
        packet_bytes: u32,
    },
    /// Packets of exponentially distributed sizes at exponentially distributed distances (UDP): what closed forms of
    /// queueing theory are about. Sizes are whole bytes, at least one.
    Markov {
        /// Mean rate on the wire.
        rate: BitRate,
        /// Mean bytes on the wire.
        mean_packet_bytes: u32,
    },
    /// Alternates between sending and silence. TCP sends all it may while on; UDP sends at a constant rate.
    OnOff {
        /// How the lengths are distributed.
        distribution: OnOffDistribution,
        /// Mean time on.
        on: Span,
        /// Mean time off.
        off: Span,
        /// Rate while on (UDP).
        rate: BitRate,
        /// Bytes on the wire (UDP).
        packet_bytes: u32,
    },
    /// Packets at even distances, at one of several rates: a lower one if a router advises that part of them is
    /// discarded, a higher one after a time without advice (UDP).
    Adaptive {
        /// The rates on the wire, ascending; it starts with the last one.
        rates: Vec<BitRate>,
        /// Bytes on the wire.
        packet_bytes: u32,
        /// How long without advice before it tries the next higher rate.
        patience: Span,
        /// How long after a change it ignores advice, which is about the rate before.
        settle: Span,
    },
}

/// Distribution of on and off times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnOffDistribution {
    /// Always the mean.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto with this shape, above one.
    Pareto {
        /// The shape parameter.
        shape: f64,
    },
}

/// When a flow starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StartSpec {
    /// At this time.
    At(Time),
    /// Uniformly distributed over this interval.
    Uniform(Time, Time),
}

impl StartSpec {
    /// When that is.
    pub(crate) fn draw(self, random: &mut Substream) -> Time {
        match self {
            Self::At(time) => time,
            Self::Uniform(from, to) => {
                from + Span::from_nanos((random.uniform() * to.since(from).as_nanos() as f64) as u64)
            }
        }
    }
}

/// A flow.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Unique name.
    pub name: String,
    /// The sending host.
    pub from: NodeId,
    /// The receiving hosts: one, or several for multicast (UDP only).
    pub to: Vec<NodeId>,
    /// How.
    pub transport: TransportSpec,
    /// What.
    pub application: ApplicationSpec,
    /// When it starts.
    pub start: StartSpec,
    /// When it stops, if ever.
    pub stop: Option<Time>,
    /// DSCP of its packets.
    pub dscp: Dscp,
    /// Class of its packets, for schedulers with a queue per class.
    pub class: u8,
    /// What classifiers see.
    pub headers: Headers,
}

/// A controlled network. Trust between domains is resolved by the maker: mutually trusting domains are one here.
#[derive(Clone, Debug)]
pub struct DomainSpec {
    /// Unique name.
    pub name: String,
    /// Border routers.
    pub edges: Vec<NodeId>,
    /// Inner routers.
    pub core: Vec<NodeId>,
    /// What the borders do.
    pub mechanism: Option<EdgeConfig>,
    /// Borders that let traffic in unpoliced.
    pub unpoliced: Vec<NodeId>,
    /// The probability with which each message between its borders gets lost on the way.
    pub control_loss: f64,
    /// Clocks of borders that are not right.
    pub clocks: Vec<(NodeId, ClockSpec)>,
    /// What borders say that is not true.
    pub lies: Vec<(NodeId, LieSpec)>,
    /// Borders write labels.
    pub labels: Option<LabelsSpec>,
}

/// A marker, and whose packets it marks where.
#[derive(Clone, Debug)]
pub struct MarkerSpec {
    /// Unique name.
    pub name: String,
    /// Where it stands; `None`: at the host that each of the flows starts from.
    pub at: Option<NodeId>,
    /// The flows whose data it marks, as positions in [`Network::flows`]; together they are its aggregate. A flow that
    /// does not pass `at` is not touched.
    pub flows: Vec<u32>,
    /// What it does.
    pub config: MarkerConfig,
}

/// What the borders of a domain write on packets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LabelsSpec {
    /// How they know what to write.
    pub config: LabelsConfig,
    /// The flows of which they lie, ascending, as names in the configuration are resolved; `None`: all.
    pub liars: Option<Vec<FlowId>>,
}

/// How the clock of a border goes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClockSpec {
    /// How far it is ahead at the start.
    pub offset: Span,
    /// How much faster it goes, parts per million; slower if negative. Between -100,000 and 100,000.
    pub drift_ppm: f64,
}

/// A router that cooperates with its neighbours.
#[derive(Clone, Debug)]
pub struct HopSpec {
    /// The router.
    pub node: NodeId,
    /// How.
    pub mechanism: HopConfig,
}

/// How packets choose among paths of equal cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Multipath {
    /// All take the first one.
    #[default]
    None,
    /// Each flow takes one at random.
    Flow,
    /// Each packet takes one at random.
    Packet,
}

/// Routes that go around congestion, as routers with a hop mechanism know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FollowState {
    /// How often all routers learn what is congested; above zero.
    pub every: Span,
    /// What a direction of a link costs more while it is.
    pub penalty: u32,
    /// For how long it counts as congested after its router last found it so.
    pub hold: Span,
}

/// A change of a link at a given time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScriptedChange {
    /// When.
    pub at: Time,
    /// Which direction.
    pub link: LinkId,
    /// What.
    pub change: Change,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The rate.
    Rate(BitRate),
    /// The delay.
    Delay(Span),
    /// What the switch of the circuit carries besides.
    Background(BitRate),
    /// Up or down. Routes follow.
    Up(bool),
}

/// What happens to a border at a given time: its clock is stepped, its machine is started anew, or both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderChange {
    /// When.
    pub at: Time,
    /// Of which domain: a position in [`Network::domains`].
    pub domain: u32,
    /// Which of its edges; nothing happens if it is none.
    pub edge: NodeId,
    /// How its clock is stepped.
    pub step: Option<ClockStep>,
    /// Whether its mechanism begins anew, after the step: all that it knew is gone, and the packets that waited at its shapers are
    /// lost.
    pub restarts: bool,
}

/// A step of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockStep {
    /// It shows so much more from now on.
    Ahead(Span),
    /// It shows so much less from now on, but nothing before zero. A mechanism that runs on never sees its time go back: for it, time
    /// stands still until the clock shows what it has shown before.
    Back(Span),
}

/// A new reserved rate of a TCP flow with [`tidegate_mechanism::tcp::congestion::Reserved`]; nothing for others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReservationChange {
    /// When.
    pub at: Time,
    /// Which flow: a position in [`Network::flows`].
    pub flow: u32,
    /// The rate.
    pub rate: BitRate,
}

/// A whole network with its traffic.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Nodes; a [`NodeId`] is a position here.
    pub nodes: Vec<NodeSpec>,
    /// Links; a [`LinkId`] is twice a position here, plus one for the reverse direction.
    pub links: Vec<LinkSpec>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// Many TCP connections as fluids.
    pub fluids: Vec<FluidSpec>,
    /// TCP flows that are the two directions of one connection, by their positions in [`Network::flows`]: the acknowledgments
    /// of each ride on data of the other. Their ends and ports are the same, the other way round; a flow is in one pair at most.
    pub pairs: Vec<[u32; 2]>,
    /// What opens connections in the flows with [`ApplicationSpec::Crowd`].
    pub crowds: Vec<CrowdSpec>,
    /// Domains. One may lie in another, with all its nodes; else they share edges at most. Borders are numbered through all
    /// domains, by the order of their edges.
    pub domains: Vec<DomainSpec>,
    /// Markers; those at one node are passed in this order.
    pub markers: Vec<MarkerSpec>,
    /// Routers with a hop mechanism, each once.
    pub hops: Vec<HopSpec>,
    /// How paths are chosen.
    pub multipath: Multipath,
    /// Whether they go around congestion; `None`: costs are those of the links.
    pub follows: Option<FollowState>,
    /// What breaks ties; `None` leaves them to the order of events.
    pub ties: Option<Ties>,
    /// In which order events of one instant are handled.
    pub event_order: EventOrder,
    /// Changes, in order of time.
    pub script: Vec<ScriptedChange>,
    /// Changes of reservations, in order of time.
    pub reservations: Vec<ReservationChange>,
    /// Changes of borders, in order of time.
    pub border_changes: Vec<BorderChange>,
}

/// In which order events of one instant are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EventOrder {
    /// As they were scheduled.
    #[default]
    Scheduled,
    /// By the numbers of what they wake: links in their order, then ends of flows in theirs, then borders. One core need not know for it when
    /// others have scheduled what, so that several can simulate ([`Network::build_divided`]).
    Numbered,
}

/// What breaks the ties of events that fall into one instant: hosts send each packet a little later than they could,
/// as real ones do, in order per flow and direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ties {
    /// What the delays derive from, beside the seed of the run.
    pub seed: u64,
    /// They are uniform from nothing to this.
    pub spread: Span,
}

/// An Ethernet frame's worth of IP, in bytes: what packets from outside have.
const ETHERNET_BYTES: u32 = 1500;

impl Network {
    /// The largest packet that mechanisms are told of, in bytes on the wire: that of its flows, and no less than Ethernet's.
    pub(crate) fn mtu_bytes(&self) -> u32 {
        let largest = |flow: &FlowSpec| match (&flow.transport, &flow.application) {
            (TransportSpec::Tcp(config), _) => config.segment_bytes.saturating_add(config.header_bytes),
            (TransportSpec::Media(config), _) => u32::try_from(config.packet().get()).unwrap_or(u32::MAX),
            (
                _,
                ApplicationSpec::ConstantRate { packet_bytes, .. }
                | ApplicationSpec::Poisson { packet_bytes, .. }
                | ApplicationSpec::OnOff { packet_bytes, .. }
                | ApplicationSpec::Adaptive { packet_bytes, .. },
            ) => *packet_bytes,
            _ => 0,
        };
        self.flows.iter().map(largest).fold(ETHERNET_BYTES, u32::max)
    }
}
