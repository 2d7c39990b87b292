//! What a run records beyond its counters.

use serde::Serialize;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::MarkerConfig;
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::congestion::CongestionControlConfig;
use tidegate_units::Span;

use super::{DomainIndex, FlowIndex, FluidIndex, LinkIndex, MarkerIndex, clients, transfers};

/// What to record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The interval of the time series; none when there are no series.
    pub every: Option<Span>,
    /// The time series, each once, in the order of the patterns that chose them.
    pub series: Vec<Series>,
    /// Where the distribution of delays is wanted.
    pub delays: Vec<DelayOf>,
    /// Whether to count what links carry of packets that are dropped later.
    pub waste: bool,
    /// Whether to compute what each flow's max-min fair rate is.
    pub max_min: bool,
    /// Whether to tell how much routers keep.
    pub state: bool,
}

/// One time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Series {
    /// A quantity of a flow: `flows.<name>.<quantity>`.
    Flow(FlowIndex, FlowQuantity),
    /// A quantity of one direction of a link: `links.<name>.<quantity>`, `links.<name>.reverse.<quantity>`.
    Link(LinkIndex, Way, LinkQuantity),
    /// The marking probability of one bin of SFB: `links.<name>.bin.<level>.<bin>.p_m`, both from zero.
    Bin(LinkIndex, Way, u32, u32),
    /// The bits per second of a flow on one direction of a link: `links.<name>.flows.<flow>.throughput_bps`,
    /// `links.<name>.reverse.flows.<flow>.throughput_bps`.
    LinkFlow(LinkIndex, Way, FlowIndex),
    /// The same of the flows of a class: `links.<name>.classes.<class>.throughput_bps`.
    LinkClass(LinkIndex, Way, u8),
    /// A quantity of a flow in a domain: `domains.<domain>.<flow>.<quantity>`.
    Domain(DomainIndex, FlowIndex, DomainQuantity),
    /// A quantity of a fluid: `fluids.<name>.<quantity>`.
    Fluid(FluidIndex, FluidQuantity),
    /// A quantity of a marker: `markers.<name>.<quantity>`.
    Marker(MarkerIndex, MarkerQuantity),
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From its first node to its second.
    Forward,
    /// From its second node to its first.
    Reverse,
}

/// Where the distribution of delays is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DelayOf {
    /// From sender to receiver of a flow.
    Flow(FlowIndex),
    /// From arrival at the queue of one direction of a link until the last bit is sent.
    Link(LinkIndex, Way),
}

/// Declares a field-less enumeration of quantities with stable names.
macro_rules! quantities {
    ($(#[$outer:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in patterns and in results: stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

quantities! {
    /// What is known of a flow whatever decides its window.
    FlowCounter {
        /// Network-layer bits delivered to the receiver in the interval, per second.
        Throughput = "throughput_bps",
        /// Payload bits delivered in order once in the interval, per second.
        Goodput = "goodput_bps",
        /// Bits sent in the interval, per second.
        Sent = "sent_bps",
        /// Packets sent since the start.
        SentPackets = "sent_packets",
        /// Packets lost since the start.
        LostPackets = "lost_packets",
        /// Packets lost in the interval, over those that were sent in it.
        LostRatio = "lost_ratio",
        /// Packets marked since the start.
        MarkedPackets = "marked_packets",
        /// Retransmissions since the start.
        Retransmissions = "retransmissions",
        /// Time-outs since the start.
        Timeouts = "timeouts",
        /// The congestion window.
        Cwnd = "cwnd_bytes",
        /// The effective window with its fraction, also below one segment.
        CwndSegments = "cwnd_segments",
        /// Bits of green packets that were delivered in the interval, per second.
        Promised = "marked_bps",
        /// The slow start threshold.
        Ssthresh = "ssthresh_bytes",
        /// Sent and neither acknowledged nor known lost.
        InFlight = "in_flight_bytes",
        /// The smoothed round-trip time.
        SmoothedRtt = "srtt_ms",
        /// The retransmission time-out.
        Rto = "rto_ms",
    }
}

quantities! {
    /// What is counted of one direction of a link.
    LinkCounter {
        /// Packets waiting and in transmission.
        QueuePackets = "queue_packets",
        /// Their bytes.
        QueueBytes = "queue_bytes",
        /// Bits sent in the interval, per second.
        Throughput = "throughput_bps",
        /// The part of the interval in which the link was sending.
        Utilization = "utilization",
        /// Packets that arrived at the queue since the start.
        ArrivedPackets = "arrived_packets",
        /// Packets dropped since the start.
        DroppedPackets = "dropped_packets",
        /// Packets marked since the start.
        MarkedPackets = "marked_packets",
        /// Packets dropped in the interval, over those that arrived in it.
        DroppedRatio = "dropped_ratio",
        /// Packets marked in the interval, over those that arrived in it.
        MarkedRatio = "marked_ratio",
    }
}

/// What can be recorded of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowQuantity {
    /// What is known whatever decides its window.
    Counted(FlowCounter),
    /// What its congestion control, its transport of media or its application has inside, by name.
    Inner(&'static str),
}

impl FlowQuantity {
    /// All that any flow can have.
    pub fn all() -> Vec<Self> {
        let counted = FlowCounter::ALL.iter().copied().map(Self::Counted);
        let mut inner = CongestionControlConfig::all_variables();
        inner.extend(MediaConfig::all_variables());
        let mut all: Vec<Self> = counted.collect();
        let applications =
            transfers::VARIABLES.iter().chain(&clients::PAGE_VARIABLES).chain(&clients::VIDEO_VARIABLES);
        all.extend(applications.copied().map(Self::Inner));
        for variable in inner {
            // Some are counted of TCP under the same name.
            if all.iter().all(|known| known.name() != variable.name) {
                all.push(Self::Inner(variable.name));
            }
        }
        all
    }

    /// The name in patterns and in results: stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counted(counter) => counter.name(),
            Self::Inner(name) => name,
        }
    }
}

/// What can be recorded of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkQuantity {
    /// What every link counts.
    Counted(LinkCounter),
    /// What its queue manager or scheduler has inside, by name.
    Queue(&'static str),
    /// What the mechanism of the router that sends over it has inside, by name.
    Hop(&'static str),
}

impl LinkQuantity {
    /// All that any link can have.
    pub fn all() -> Vec<Self> {
        let counted = LinkCounter::ALL.iter().copied().map(Self::Counted);
        let queue = DisciplineConfig::all_variables().into_iter().map(|known| Self::Queue(known.name));
        let hop = HopConfig::all_variables().into_iter().map(|known| Self::Hop(known.name));
        counted.chain(queue).chain(hop).collect()
    }

    /// The name in patterns and in results: stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counted(counter) => counter.name(),
            Self::Queue(name) | Self::Hop(name) => name,
        }
    }
}

quantities! {
    /// What can be recorded of a flow in a domain.
    DomainQuantity {
        /// The rate that the ingress allows.
        IngressRate = "ingress_rate_bps",
        /// The rate that the egress measures.
        EgressRate = "egress_rate_bps",
        /// The round-trip time between the edges.
        Rtt = "rtt_ms",
        /// What a virtual link adds to the queues, as its egress estimates it (IEC, EEC).
        Accumulation = "accumulation_bytes",
        /// 1 while a congestion epoch is on, else 0 (IEC, EEC).
        Epoch = "epoch",
        /// What waits in front of the shaper, in packets.
        ShaperPackets = "shaper_packets",
        /// What waits in front of the shaper, in bytes.
        ShaperBytes = "shaper_bytes",
    }
}

quantities! {
    /// What can be recorded of a fluid.
    FluidQuantity {
        /// Network-layer bits that left its last link in the interval, per second.
        Throughput = "throughput_bps",
        /// Bits that it sends now, per second.
        Sent = "sent_bps",
        /// Its round trip now.
        Rtt = "rtt_ms",
        /// The mean window of its connections that do not wait for a time-out.
        Window = "cwnd_segments",
        /// The part of them that waits for one.
        TimedOut = "timed_out",
    }
}

quantities! {
    /// What is counted of a marker.
    MarkerCounter {
        /// Bits in the interval that left it green, per second.
        Green = "green_bps",
        /// The same in yellow.
        Yellow = "yellow_bps",
        /// The same in red.
        Red = "red_bps",
    }
}

/// What can be recorded of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MarkerQuantity {
    /// What every marker counts.
    Counted(MarkerCounter),
    /// What it has inside, by name.
    Inner(&'static str),
}

impl MarkerQuantity {
    /// All that any marker can have.
    pub fn all() -> Vec<Self> {
        let counted = MarkerCounter::ALL.iter().copied().map(Self::Counted);
        counted
            .chain(MarkerConfig::all_variables().into_iter().map(|known| Self::Inner(known.name)))
            .collect()
    }

    /// The name in patterns and in results: stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counted(counter) => counter.name(),
            Self::Inner(name) => name,
        }
    }
}
