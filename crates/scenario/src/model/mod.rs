//! A scenario, validated: names are indices, texts are quantities, defaults are filled in.

mod application;
mod circuit;
mod clients;
mod domain;
mod impairment;
mod record;
mod routing;
mod transfers;
mod transport;

pub use application::{Adaptive, Application, Bulk, Cbr, OnOff, OnOffDistribution, Poisson, Transfer};
pub use circuit::{CellDiscard, Circuit};
pub use clients::{PageObjects, Pages, Thinking, Video, VideoRule};
pub use domain::{Clock, Lies, Mechanism, Uncontrolled};
pub use impairment::{BurstLoss, Jitter, ListLoss, Loss, RandomLoss, Reorder, SlotJitter, UniformJitter};
pub use record::{
    DelayOf, DomainQuantity, FlowCounter, FlowQuantity, FluidQuantity, LinkCounter, LinkQuantity,
    MarkerCounter, MarkerQuantity, Record, Series, Way,
};
pub use routing::{Follows, FollowsNbq, Multipath, Routing};
pub use tidegate_mechanism::fluid::FluidConfig;
pub use tidegate_mechanism::mark::MarkerConfig as Marker;
pub use tidegate_mechanism::meter::LabelsConfig as Labels;
pub use tidegate_mechanism::queue::{DeviceConfig as Device, ManagerConfig as Manager};
pub use tidegate_mechanism::schedule::DisciplineConfig as Queue;
pub use tidegate_mechanism::tcp::congestion::CongestionControlConfig as Control;
pub use tidegate_mechanism::tcp::{ResolvedTcp, TcpKeys, Variant as TcpVariant, Window};
pub(crate) use transfers::PLACES_MAX;
pub use transfers::{
    ArrivalList, Arrivals, EvenArrivals, ExponentialSizes, FixedSize, Measured, MeasuredSizes, ParetoSizes,
    PoissonArrivals, SizeTable, Sizes, Transfers, UniformSizes,
};
pub use transport::{Transport, TransportText, Udp};

use std::sync::Arc;

use serde::Serialize;
pub use tidegate_document::Parameter;
use tidegate_packet::Dscp;
use tidegate_parameters::words;
use tidegate_units::{BitRate, Span, Time};

use crate::error::ConfigError;

/// Declares an index into one of the lists of a [`Scenario`].
macro_rules! indices {
    ($($(#[$doc:meta])* $type:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
            pub struct $type(pub u32);

            impl $type {
                /// The position in the list.
                pub const fn index(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}
indices! {
    /// A node: a position in [`Scenario::nodes`].
    NodeIndex,
    /// A link: a position in [`Scenario::links`].
    LinkIndex,
    /// A flow: a position in [`Scenario::flows`].
    FlowIndex,
    /// A fluid: a position in [`Scenario::fluids`].
    FluidIndex,
    /// A domain: a position in [`Scenario::domains`].
    DomainIndex,
    /// A marker: a position in [`Scenario::markers`].
    MarkerIndex,
}

/// A network and its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// A line that names it; may be empty.
    pub title: String,
    /// What it shows; may be empty.
    pub description: String,
    /// Which document it follows; may be empty.
    pub source: String,
    /// How long the run is.
    pub duration: Span,
    /// How long before statistics start; less than the duration.
    pub warmup: Span,
    /// What random numbers derive from.
    pub seed: u64,
    /// The named values that the file used.
    pub parameters: Vec<(String, Parameter)>,
    /// Hosts first, then routers, each in the order of the file.
    pub nodes: Vec<Node>,
    /// The links in the order of the file.
    pub links: Vec<Link>,
    /// The flows in the order of the file.
    pub flows: Vec<Flow>,
    /// Many TCP connections as fluids, in the order of the file.
    pub fluids: Vec<Fluid>,
    /// How packets find their way.
    pub routing: Routing,
    /// What breaks ties; `None` leaves them to the order of events.
    pub ties: Option<Ties>,
    /// In which order events of one instant are handled.
    pub event_order: EventOrder,
    /// The controlled networks in the order of the file.
    pub domains: Vec<Domain>,
    /// The markers in the order of the file.
    pub markers: Vec<MarkerPoint>,
    /// What real hosts run, in the order of the file.
    pub commands: Vec<Command>,
    /// What changes during the run, by time, then in the order of the file.
    pub events: Vec<Event>,
    /// What is recorded beyond counters.
    pub record: Record,
    /// By domain: where it is written.
    pub(crate) domain_sites: Vec<ConfigError>,
    /// By fluid: where it, its receiver and its round trip are written.
    pub(crate) fluid_sites: Vec<[ConfigError; 3]>,
}

impl Scenario {
    /// What turns out wrong with the domain `name` when the network is made, where the domain is written. No domain of that
    /// name has no place.
    pub fn at_domain(&self, name: &str, message: String) -> ConfigError {
        let written = self.domains.iter().zip(&self.domain_sites).find(|(domain, _)| domain.name == name);
        match written {
            Some((_, site)) => site.saying(message),
            None => ConfigError::without_place(String::new(), message, String::new()),
        }
    }

    /// The same of the fluid `name` at its `key`.
    pub fn at_fluid(&self, name: &str, key: &str, message: String) -> ConfigError {
        let written = self.fluids.iter().zip(&self.fluid_sites).find(|(fluid, _)| fluid.name == name);
        let place = match key {
            "to" => 1,
            "rtt" => 2,
            _ => 0,
        };
        match written {
            Some((_, sites)) => sites[place].saying(message),
            None => ConfigError::without_place(String::new(), message, String::new()),
        }
    }
}

/// A host or a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Whether an emulation makes a real host of it.
    pub is_real: bool,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Sends and receives; never forwards.
    Host,
    /// Forwards; neither sends nor receives flows.
    Router,
}

words! {
    /// What the directions of a link share.
    pub enum Duplex {
        /// Nothing.
        Full = "full",
        /// The medium: one packet at a time, in turns when both wait.
        Half = "half",
    }
}

#[allow(clippy::derivable_impls, reason = "its declaration has no place for the attribute")]
impl Default for Duplex {
    fn default() -> Self {
        Self::Full
    }
}

/// A link between two nodes: two directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its first node.
    pub a: NodeIndex,
    /// Its second node.
    pub b: NodeIndex,
    /// From `a` to `b`. Most links of a large network are alike: what is the same is there once.
    pub forward: Arc<Direction>,
    /// From `b` to `a`.
    pub reverse: Arc<Direction>,
    /// What routing adds up, at least 1.
    pub cost: u32,
    /// What its directions share.
    pub duplex: Duplex,
}

impl Link {
    /// One of its directions.
    pub fn direction(&self, way: Way) -> &Direction {
        match way {
            Way::Forward => &self.forward,
            Way::Reverse => &self.reverse,
        }
    }
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// How fast packets leave; above zero. With a trace, on average.
    pub rate: BitRate,
    /// When they leave, if a trace says so.
    pub trace: Option<Trace>,
    /// How long a bit travels.
    pub delay: Span,
    /// What waits for it.
    pub queue: Queue,
    /// The network card between them, if there is one.
    pub device: Option<Device>,
    /// Which packets the medium loses.
    pub loss: Option<Loss>,
    /// Which packets the medium delays.
    pub reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, 0 to 1.
    pub duplicate: f64,
    /// How the time varies that packets travel, in order.
    pub jitter: Option<Jitter>,
    /// The virtual circuit that it is, if it is one.
    pub circuit: Option<Circuit>,
}

/// Delivery opportunities of 1500 bytes, in Mahimahi's format.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The file that they are from, as the scenario names it.
    pub file: String,
    /// Their instants in milliseconds: at least one, not descending, the last above zero. After it they begin again.
    pub stamps_ms: Arc<[u64]>,
}

/// Traffic from one host to another, or to several.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The sending host.
    pub from: NodeIndex,
    /// The receiving hosts: one, or several for multicast (only over UDP).
    pub to: Vec<NodeIndex>,
    /// How it reacts to congestion.
    pub transport: Transport,
    /// When it has something to send. Sizes of packets are filled in for UDP.
    pub application: Application,
    /// When it starts.
    pub start: Start,
    /// When it stops; none: with the run.
    pub stop: Option<Time>,
    /// The DSCP of its packets.
    pub dscp: Dscp,
    /// Its weight in schedulers that know weights; above zero.
    pub weight: f64,
    /// Its class, for schedulers with a queue per class.
    pub class: u8,
    /// The flow whose connection it is the other direction of: its position.
    pub back_of: Option<u32>,
}

/// Many TCP connections as one fluid.
#[derive(Clone, Debug, PartialEq)]
pub struct Fluid {
    /// Its name, which no flow has.
    pub name: String,
    /// The sending host.
    pub from: NodeIndex,
    /// The receiving host.
    pub to: NodeIndex,
    /// How many there are, and what they do.
    pub config: FluidConfig,
    /// When they start: all at once, or evenly between the two.
    pub start: Start,
    /// When they stop; none: with the run.
    pub stop: Option<Time>,
}

/// When a flow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this instant.
    At(Time),
    /// At a random instant, uniform between the two.
    Uniform(Time, Time),
}

words! {
    /// In which order events of one instant are handled.
    pub enum EventOrder {
        /// As they were scheduled, which only one core knows.
        Scheduled = "scheduled",
        /// By the numbers of what they wake: links in the order of the file, then ends of flows, then borders. So several cores can simulate.
        Numbered = "numbered",
    }
}

#[allow(clippy::derivable_impls, reason = "its declaration has no place for the attribute")]
impl Default for EventOrder {
    fn default() -> Self {
        Self::Scheduled
    }
}

/// What breaks the ties of events that fall into one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ties {
    /// What the pauses of hosts derive from, beside the seed of the run.
    pub seed: u64,
    /// They are uniform from nothing to this.
    pub spread: Span,
}

/// A controlled network.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its border routers.
    pub edges: Vec<NodeIndex>,
    /// Its inner routers, as far as they were named.
    pub core: Vec<NodeIndex>,
    /// What its edges do.
    pub mechanism: Mechanism,
    /// What its edges write on packets.
    pub labels: Option<Labels>,
    /// The flows of which the labels lie, ascending; none for all.
    pub liars: Option<Vec<FlowIndex>>,
    /// Domains whose feedback it accepts.
    pub trusts: Vec<DomainIndex>,
    /// Edges at which what enters is not shaped: a subset of `edges`.
    pub unpoliced: Vec<NodeIndex>,
    /// Where each entry of the mechanism's `virtual_links` begins and ends; none for anywhere.
    pub virtual_links: Vec<(Option<NodeIndex>, Option<NodeIndex>)>,
    /// The probability with which each message between its edges gets lost.
    pub control_loss: f64,
    /// Clocks of edges that are not right.
    pub clocks: Vec<(NodeIndex, Clock)>,
    /// What edges say that is not true.
    pub lies: Vec<(NodeIndex, Lies)>,
}

/// A marker in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkerPoint {
    /// Its name.
    pub name: String,
    /// Where it stands; none: at the host that each of its flows starts from.
    pub at: Option<NodeIndex>,
    /// Whose data it marks, in ascending order: its aggregate.
    pub flows: Vec<FlowIndex>,
    /// Whether a pattern takes every flow: then the aggregate has also the connections of real hosts that no flow stands for.
    pub has_all: bool,
    /// What it does.
    pub mechanism: Marker,
}

/// What a real host runs in an emulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// The host.
    pub host: NodeIndex,
    /// A line for the shell.
    pub run: String,
    /// Programs that it needs.
    pub needs: Vec<String>,
}

/// A change during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What changes.
    pub change: EventChange,
}

/// What an event changes.
#[derive(Clone, Debug, PartialEq)]
pub enum EventChange {
    /// A link.
    Link {
        /// Which link.
        link: LinkIndex,
        /// Which of its directions.
        direction: Ways,
        /// The new rate; above zero.
        rate: Option<BitRate>,
        /// The new delay.
        delay: Option<Span>,
        /// The new background of the circuit.
        background: Option<BitRate>,
        /// Whether the link works from now on.
        state: Option<LinkState>,
    },
    /// The reserved rate of a flow.
    Reservation {
        /// Which flow; its TCP has the control `reserved`.
        flow: FlowIndex,
        /// The new rate.
        rate: BitRate,
    },
    /// An edge: at least one of the two.
    Edge {
        /// Of which domain.
        domain: DomainIndex,
        /// Which one.
        edge: NodeIndex,
        /// How its clock is stepped.
        step: Option<ClockStep>,
        /// Whether its machine is started anew.
        restart: bool,
    },
}

/// A step of a clock: above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// It shows so much more from now on.
    Ahead(Span),
    /// It shows so much less from now on.
    Back(Span),
}

words! {
    /// Which directions of a link.
    pub enum Ways {
        /// Both.
        Both = "both",
        /// From its first node to its second.
        Forward = "forward",
        /// From its second node to its first.
        Reverse = "reverse",
    }
}

#[allow(clippy::derivable_impls, reason = "its declaration has no place for the attribute")]
impl Default for Ways {
    fn default() -> Self {
        Self::Both
    }
}

words! {
    /// Whether a link works.
    pub enum LinkState {
        /// It carries packets.
        Up = "up",
        /// It carries none; routing goes around it where it can.
        Down = "down",
    }
}
