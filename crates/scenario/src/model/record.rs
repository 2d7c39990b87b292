//! What a run records beyond its counters.

use serde::Serialize;
use tidegate_units::Span;

use super::{DomainIndex, FlowIndex, LinkIndex, MarkerIndex};

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
    /// What can be recorded of a flow.
    FlowQuantity {
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
        /// What divides a window of one segment (SUBTCP).
        Scale = "scale",
        /// Bits of green packets that were delivered in the interval, per second.
        Promised = "marked_bps",
        /// What the reserved rate keeps under way (TCP with a reservation).
        ReservedWindow = "reserved_window_segments",
        /// Tokens that found the bucket full, since the start (TCP with a reservation).
        LostTokens = "lost_tokens_bytes",
        /// The window of marked segments (TCP with a marking engine).
        PriorityWindow = "priority_window_segments",
        /// The window of the others (TCP with a marking engine).
        BestEffortWindow = "best_effort_window_segments",
        /// The part of segments that are marked (TCP with a marking engine).
        MarkingProbability = "marking_probability",
        /// The next pause of marking (TCP with a marking engine).
        MarkingPause = "marking_pause_s",
        /// The rate that TCP-friendly rate control allows.
        AllowedRate = "allowed_bps",
        /// The loss event rate that its sender was told.
        LossEventRate = "loss_event_rate",
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
    /// What can be recorded of one direction of a link.
    LinkQuantity {
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
        /// Packets marked in the interval, over those that arrived in it.
        MarkedRatio = "marked_ratio",
        /// The average queue of the manager, in packets (RED, ERED, FRED).
        AverageQueue = "average_queue_packets",
        /// The marking or dropping probability (BLUE), or that of the last arrival (RED, FRED, SFB).
        Probability = "marking_probability",
        /// The largest early probability (RED; Adaptive RED moves it).
        MaxP = "max_p",
        /// Flows that sent within the window (RED with `flows_rtt`), or have something waiting (FRED).
        ActiveFlows = "active_flows",
        /// Packets that wait without a promise (ERED).
        UnmarkedPackets = "unmarked_packets",
        /// Flows in the penalty box (RED with a penalty box).
        BoxedFlows = "boxed_flows",
        /// Queues with something waiting (schedulers).
        ActiveQueues = "active_queues",
        /// The fair share that the manager estimates (CSFQ).
        FairShare = "fair_share_bps",
        /// Bins with a marking probability of 1, over all levels (SFB).
        PollutedBins = "polluted_bins",
        /// The number of non-responsive flows that they tell of (SFB).
        NonresponsiveFlows = "nonresponsive_flows",
        /// What non-responsive flows may send together (SFB).
        NonresponsiveLimit = "nonresponsive_limit_bps",
        /// The part of non-adaptive flows that is discarded in front of the queue (NBQ).
        DiscardRatio = "discard_ratio",
        /// The rate at which the router may send (back-pressure).
        ExplicitRate = "explicit_rate_bps",
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
    /// What can be recorded of a marker.
    MarkerQuantity {
        /// Bits in the interval that left it green, per second.
        Green = "green_bps",
        /// The same in yellow.
        Yellow = "yellow_bps",
        /// The same in red.
        Red = "red_bps",
        /// The marking probability (packet marking engine).
        Probability = "marking_probability",
        /// The throughput that it observes (packet marking engine).
        Throughput = "throughput_bps",
        /// Tokens in its bucket (profile).
        Tokens = "tokens_bytes",
        /// What passed has cost since the start (account).
        Charge = "charge",
        /// What passed in the last interval of the account cost, per second (account).
        ChargeRate = "charge_per_s",
    }
}
