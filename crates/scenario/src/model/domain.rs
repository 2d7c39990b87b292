//! Domains: which routers form a controlled network, and what its edges do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Span};

use super::queue::Queue;
use crate::text::{self, Text};

/// What the edges of a domain do, or all its routers.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind")]
pub enum Mechanism {
    /// Nothing.
    #[default]
    None,
    /// Network Border Patrol.
    Nbp(Box<Nbp>),
    /// Implicit edge control.
    Iec(Box<Iec>),
    /// Explicit edge control.
    Eec(Box<Eec>),
    /// Neighbor-state Based Queuing.
    Nbq(Box<Nbq>),
    /// Rate-based back-pressure.
    #[serde(rename = "backpressure")]
    BackPressure(Box<BackPressure>),
}

impl Mechanism {
    /// What is said of single virtual links.
    pub fn virtual_links(&self) -> &[VirtualLink] {
        match self {
            Self::None | Self::Nbp(_) | Self::Nbq(_) | Self::BackPressure(_) => &[],
            Self::Iec(config) => &config.virtual_links,
            Self::Eec(config) => &config.virtual_links,
        }
    }

    /// Edges at which what enters is not shaped.
    pub fn unpoliced(&self) -> &[String] {
        match self {
            Self::None | Self::Nbq(_) | Self::BackPressure(_) => &[],
            Self::Nbp(config) => &config.unpoliced,
            Self::Iec(config) => &config.unpoliced,
            Self::Eec(config) => &config.unpoliced,
        }
    }
}

/// What one shaper at an edge controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Classify {
    /// Each flow by itself.
    Flow,
    /// All flows between the same two addresses.
    AddressPair,
    /// All flows to one destination network of `prefix` bits.
    DestinationNetwork,
}

/// The shaper of a flow at its ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shaper {
    /// How much may leave at once after silence. Default: one packet. Source: assumed, a leaky bucket.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub bucket: Option<Bytes>,
    /// What waits in front of the shaper. Source: assumed, as the router queues of NBP, Table 1 (100 packets).
    pub queue: Queue,
}

/// # Network Border Patrol
///
/// The egress measures each flow's rate and reports it to the ingress, which shapes the flow to what gets through. So a
/// network carries no packet that it would drop later.
///
/// Source: Albuquerque, Vickers and Suda 1999 (UCI TR 99-44), section II.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nbp {
    /// The segment size in the law of the rate. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub mss: Bytes,
    /// MF: the rate changes per round trip by at most this fraction (one over it) of the egress rate. Source: NBP,
    /// Table 1.
    pub mrc_factor: f64,
    /// How long an egress waits for forward feedback before it reports unasked. Source: NBP, Table 1 (`AsynchInterval`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub asynch_interval: Span,
    /// Whether unasked reports repeat at that interval for as long as no forward feedback comes; else one per lapse.
    /// Source: assumed; the document's text and its Fig. 5 can be read both ways.
    pub asynch_repeats: bool,
    /// The window of the time sliding window that measures a flow. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub meter_window: Span,
    /// The interval of forward feedback until the first round trip is known. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub initial_interval: Span,
    /// The least interval of forward feedback, whatever the round-trip time. Source: assumed; it bounds the work.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub interval_min: Span,
    /// The rate of a new flow until feedback speaks. Default: one `mss` per `initial_interval`. Source: assumed; the
    /// document does not say.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub initial_rate: Option<BitRate>,
    /// The least rate of a flow. Source: assumed, one `mss` per second; else a flow of which nothing gets through would
    /// never send again.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate_min: BitRate,
    /// A rate never exceeds so many times the rate at which the flow arrives. Default: no such bound. Source: the document
    /// is silent.
    pub arrival_headroom: Option<f64>,
    /// How long a flow may be silent before its state is dropped. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle_timeout: Span,
    /// What one shaper controls. Source: NBP, section II.A.
    pub classify: Classify,
    /// The bits of a destination network, for that kind of classification. Source: assumed, 24 as most routed networks.
    pub prefix: u8,
    /// The largest feedback packet; longer reports are split. Source: Ethernet.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub feedback_mtu: Bytes,
    /// The shaper of each flow.
    pub shaper: Shaper,
    /// The most flows that an edge keeps; packets of further flows are dropped. Source: assumed; it bounds the memory.
    pub flows_max: u32,
    /// Edges at which what enters is not shaped. Default: none.
    pub unpoliced: Vec<String>,
}

impl Default for Nbp {
    fn default() -> Self {
        Self {
            mss: Bytes::new(1500),
            mrc_factor: 10.0,
            asynch_interval: Span::from_millis(10),
            asynch_repeats: false,
            meter_window: Span::from_millis(10),
            initial_interval: Span::from_millis(50),
            interval_min: Span::from_micros(100),
            initial_rate: None,
            rate_min: BitRate::from_bps(12_000),
            arrival_headroom: None,
            idle_timeout: Span::from_secs(1),
            classify: Classify::Flow,
            prefix: 24,
            feedback_mtu: Bytes::new(1500),
            shaper: Shaper::default(),
            flows_max: 1_000_000,
            unpoliced: Vec::new(),
        }
    }
}

/// Which delays IEC looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IecDelays {
    /// From edge to edge, by both clocks.
    #[default]
    OneWay,
    /// There and back, by the clock of the ingress, with twice as many control packets.
    RoundTrip,
}

/// What holds for some virtual links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VirtualLink {
    /// For those that begin at this edge. Default: at any.
    pub from: Option<String>,
    /// For those that end at this edge. Default: at any.
    pub to: Option<String>,
    /// Its share beside others: `sigma` times this is the growth of its rate and its part of queues. Source: Harrison and
    /// Kalyanaraman, section VI plans services of this kind; the law is derived in `docs/mechanisms/iec.md`.
    pub weight: f64,
    /// The rate that is assured to it. Default: that of all. Source: Harrison and Kalyanaraman, section VI.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub rate_min: Option<BitRate>,
}

impl Default for VirtualLink {
    fn default() -> Self {
        Self { from: None, to: None, weight: 1.0, rate_min: None }
    }
}

/// TCP rate control at the ingress of a virtual link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpRate {
    /// A TCP without data for so long has no share. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle_timeout: Span,
    /// The most TCPs of an edge; further ones are not controlled. Source: assumed; it bounds the memory.
    pub flows_max: u32,
    /// Round each window up to whole segments, though the sum then exceeds what the virtual link takes. Source: assumed, one
    /// reading of the queue at the ingress in Harrison and Kalyanaraman, Fig. 8.
    pub round_up: bool,
}

impl Default for TcpRate {
    fn default() -> Self {
        Self { idle_timeout: Span::from_secs(1), flows_max: 100_000, round_up: false }
    }
}

/// Declares the parameters of EEC or IEC: own ones, and those that both have.
macro_rules! overlay {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* } $($own_field:ident)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($own)*
            /// The maximum burst, the growth of the rate per round trip, and what each virtual link may have in queues.
            /// Source: Harrison and Kalyanaraman, Fig. 4 (8000 bits).
            #[serde(with = "text")]
            #[schemars(with = "Text<Bytes>")]
            pub sigma: Bytes,
            /// The backoff: the rate becomes this part of the output rate. Source: Harrison and Kalyanaraman, Fig. 4.
            pub beta: f64,
            /// The same after a loss. Source: Harrison and Kalyanaraman, section III.B.
            pub loss_backoff: f64,
            /// Weight of a new measurement in the smoothed output rate. Source: assumed; the constant is lost.
            pub smoothing: f64,
            /// The least rate of a virtual link: what is assured to it. Source: assumed, one packet per second; else a
            /// virtual link of which nothing gets through would never send again.
            #[serde(with = "text")]
            #[schemars(with = "Text<BitRate>")]
            pub rate_min: BitRate,
            /// Weights and assured rates of single virtual links; the first that fits holds. Default: all are alike.
            pub virtual_links: Vec<VirtualLink>,
            /// The rate of a new virtual link. Default: `sigma` per `initial_interval`. Source: assumed.
            #[serde(with = "text::optional")]
            #[schemars(with = "Option<Text<BitRate>>")]
            pub initial_rate: Option<BitRate>,
            /// The round-trip time until one was measured. Source: assumed.
            #[serde(with = "text")]
            #[schemars(with = "Text<Span>")]
            pub initial_interval: Span,
            /// The rate grows only while at least this part of it is used. Source: assumed; the paper's sources always
            /// have something to send.
            pub use_min: f64,
            /// A round-trip time is asked for after so long without one. Source: assumed.
            #[serde(with = "text")]
            #[schemars(with = "Text<Span>")]
            pub answer_interval: Span,
            /// How long a virtual link may be silent before its state is dropped. Source: assumed.
            #[serde(with = "text")]
            #[schemars(with = "Text<Span>")]
            pub idle_timeout: Span,
            /// How fast the minimum delay rises, parts per million. Drift needs none: round-trip times tell it from queues.
            /// Source: Harrison and Kalyanaraman, section III.B.
            pub drift_ppm: u32,
            /// The least window, in round trips: if the delay does not move in it during an epoch, the minimum is stale. Source:
            /// assumed; a drain by 2 % moves it.
            pub stale_rounds: u32,
            /// Control only packets of this class; others pass. Default: all.
            pub class: Option<u8>,
            /// TCP rate control at the ingress. Default: none.
            pub tcp_rate: Option<TcpRate>,
            /// The shaper of each virtual link; its bucket is one `sigma` if it does not say.
            pub shaper: Shaper,
            /// Edges at which what enters is not shaped. Default: none.
            pub unpoliced: Vec<String>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($own_field: Default::default(),)?
                    sigma: Bytes::new(1000),
                    beta: 0.98,
                    loss_backoff: 0.5,
                    smoothing: 0.5,
                    rate_min: BitRate::from_bps(8_000),
                    virtual_links: Vec::new(),
                    initial_rate: None,
                    initial_interval: Span::from_millis(50),
                    use_min: 0.5,
                    answer_interval: Span::from_secs(1),
                    idle_timeout: Span::from_secs(10),
                    drift_ppm: 0,
                    stale_rounds: 10,
                    class: None,
                    tcp_rate: None,
                    shaper: Shaper::default(),
                    unpoliced: Vec::new(),
                }
            }
        }
    };
}

overlay! {
    /// # Implicit edge control
    ///
    /// Each pair of edges is a virtual link whose rate follows what leaves it. It learns of congestion from its own part
    /// of the queues and from delays, without a loss and without help from the network.
    ///
    /// Source: Harrison and Kalyanaraman 2000, sections II and III.
    Iec {
        /// Which delays end an epoch. Source: Harrison and Kalyanaraman, section III.B.
        pub delays: IecDelays,
    } delays
}

overlay! {
    /// # Explicit edge control
    ///
    /// Each pair of edges is a virtual link whose rate follows what leaves it. It learns of congestion from marks, which
    /// the bottleneck's queue `eec-marker` sets.
    ///
    /// Source: Harrison and Kalyanaraman 2000, section II.
    Eec {}
}

impl Eec {
    /// The same parameters for IEC.
    pub fn as_iec(&self) -> Iec {
        Iec {
            delays: IecDelays::default(),
            sigma: self.sigma,
            beta: self.beta,
            loss_backoff: self.loss_backoff,
            smoothing: self.smoothing,
            rate_min: self.rate_min,
            virtual_links: self.virtual_links.clone(),
            initial_rate: self.initial_rate,
            initial_interval: self.initial_interval,
            use_min: self.use_min,
            answer_interval: self.answer_interval,
            idle_timeout: self.idle_timeout,
            drift_ppm: self.drift_ppm,
            stale_rounds: self.stale_rounds,
            class: self.class,
            tcp_rate: self.tcp_rate.clone(),
            shaper: self.shaper.clone(),
            unpoliced: self.unpoliced.clone(),
        }
    }
}

/// When a discard ratio decays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NbqDecay {
    /// While the downstream neighbour reports nothing.
    Silence,
    /// While it reports a loss of at most `discard_min`, or nothing.
    Literal,
}

/// Which packets are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NbqDiscard {
    /// Evenly spaced ones.
    Even,
    /// Each with the ratio as its probability.
    Random,
}

/// # Neighbor-state Based Queuing
///
/// A router whose output overflows tells its upstream neighbours the rates of flows that do not adapt, and these discard
/// on arrival what would be dropped later. TCP is never touched. All routers of the domain, edges and core, take part.
///
/// Source: Tamura, Tobe and Tokuda 2000, sections 4 and 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nbq {
    /// The largest discard ratio. Source: NBQ, Fig. 12 (`MAX_DISCARD`).
    pub discard_max: f64,
    /// A loss that counts as none. Source: NBQ, Fig. 12 (`MIN_DISCARD`).
    pub discard_min: f64,
    /// The factor of the ratio per interval while it decays. Source: NBQ, Fig. 12 (`DECR_DISCARD`).
    pub decrease: f64,
    /// The time between two estimates, and between two messages. Source: NBQ, Fig. 12 (`EST_INTERVAL`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub interval: Span,
    /// The weight of the previous ratio. Source: NBQ, Fig. 12 (`WEIGHT`).
    pub weight: f64,
    /// How long a silent flow, or neighbour, is remembered. Source: NBQ, Fig. 12 (`ALLOW_IDLE`).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle: Span,
    /// When the ratio decays. Source: settled; with the literal rule of NBQ, Fig. 13, the rates of its section 6.2 are not
    /// reached.
    pub decay: NbqDecay,
    /// Which packets are discarded. Source: settled; NBQ, Fig. 13 says "with ratio".
    pub discard: NbqDiscard,
    /// Whether the discard ratio is offered to neighbouring hosts, for sources that adapt. Source: NBQ, section 8.1.
    pub advice: bool,
    /// The most flows that a router controls; further ones pass. Source: assumed; it bounds the memory.
    pub flows_max: u32,
}

impl Default for Nbq {
    fn default() -> Self {
        Self {
            discard_max: 0.9,
            discard_min: 0.1,
            decrease: 0.6,
            interval: Span::from_millis(100),
            weight: 0.8,
            idle: Span::from_secs(2),
            decay: NbqDecay::Silence,
            discard: NbqDiscard::Even,
            advice: false,
            flows_max: 65_536,
        }
    }
}

/// What routers tell their neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureFeedback {
    /// What they accept from them.
    #[default]
    Aggregate,
    /// The same, and what each output accepts.
    Selective,
    /// Only what the circuits carry: plain ABR.
    Circuit,
}

/// What an output can send in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureCapacity {
    /// What its explicit rate allows.
    #[default]
    ExplicitRate,
    /// What it sent in the last one.
    Measured,
}

/// What an input has to exceed for twice the excess to be taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureExcess {
    /// The share that its sender was told, or its next one if that is more.
    #[default]
    OverTold,
    /// Its share of the next period.
    OverNew,
}

/// What edges do about TCP senders on the links to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressureLastHop {
    /// Nothing: the queue of the circuit takes what comes.
    #[default]
    None,
    /// Acknowledgments wait until the circuit can take what they let out.
    Bucket,
    /// Acknowledgments carry the congestion echo while the queue of the circuit is long.
    Ecn,
}

/// # Rate-based back-pressure
///
/// Each router tells each neighbour, in answers to its resource management cells, what it accepts from it: its shares of what
/// the outputs may send. Neighbours send no faster, so what cannot be carried waits at the edges. All routers of the domain,
/// edges and core, take part, on circuits and on other links.
///
/// Source: Pazos and Gerla 1999, section 4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackPressure {
    /// The sampling period, after which shares are computed. Source: assumed; the document has none.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub period: Span,
    /// One cell in so many is a resource management cell (`Nrm`); on other links one message per so many times 53 bytes.
    /// Source: ATM Forum, Traffic Management 4.0.
    pub nrm: u32,
    /// After so long without one (`Trm`), the next packet brings one with it. Source: ATM Forum, Traffic Management 4.0.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub rm_gap: Span,
    /// The part of the minimum rate of a circuit that is reserved, in equal parts for its inputs. Source: Pazos and Gerla,
    /// section 5.
    pub reserved: f64,
    /// How far below its fair share an input still counts as constrained by the output. Source: assumed, what RM cells and
    /// a packet in a period of 30 take.
    pub tolerance: f64,
    /// How long after its last packet an input has a share. Source: assumed, a few round trips.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub hold: Span,
    /// After how long without an answer a neighbour is forgotten. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub idle: Span,
    /// The least rate of a link. Source: assumed; below the minimum rates of circuits it has no effect.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate_min: BitRate,
    /// What neighbours are told. Source: Pazos and Gerla, section 4.2; `circuit` is section 5.2, "no back-pressure";
    /// `selective` is ours, for what its section 4.3 leaves open.
    pub feedback: BackPressureFeedback,
    /// Pairs of input and destination that `selective` tells apart at once. Source: assumed; it bounds the memory.
    pub routes_max: u32,
    /// What an output can send in a period (`Tf_out`). Source: settled; what was sent is the demand if nothing waits.
    pub capacity: BackPressureCapacity,
    /// What an input has to exceed for twice the excess to be taken back. Source: Pazos and Gerla, section 4.2, step 1(d), which
    /// does not say which share; settled, since only with `over-told` the oscillation of section 5.1 ends with its cause.
    pub excess: BackPressureExcess,
    /// What edges do about TCP senders on the links to hosts. Source: Pazos and Gerla, section 4.4, after Narvaez and Siu 1997
    /// (`bucket`) and Floyd 1994 (`ecn`).
    pub last_hop: BackPressureLastHop,
    /// At so many packets of TCP in the queue of a circuit its bucket is closed, and echoes are set. Source: assumed, half of the
    /// queue in section 5.
    pub last_hop_queue: u32,
    /// The most acknowledgments that wait for one circuit. Source: assumed; it bounds the memory.
    pub last_hop_acks_max: u32,
    /// The most TCPs that a router knows for this. Source: assumed; it bounds the memory.
    pub last_hop_flows_max: u32,
}

impl Default for BackPressure {
    fn default() -> Self {
        Self {
            period: Span::from_millis(10),
            nrm: 32,
            rm_gap: Span::from_millis(100),
            reserved: 0.7,
            tolerance: 0.1,
            hold: Span::from_millis(100),
            idle: Span::from_secs(1),
            rate_min: BitRate::from_bps(64_000),
            feedback: BackPressureFeedback::default(),
            routes_max: 4096,
            capacity: BackPressureCapacity::default(),
            excess: BackPressureExcess::default(),
            last_hop: BackPressureLastHop::default(),
            last_hop_queue: 50,
            last_hop_acks_max: 4096,
            last_hop_flows_max: 65_536,
        }
    }
}

/// The clock of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// How far it is ahead at the start.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub offset: Span,
    /// How much faster it goes, parts per million; slower if negative.
    pub drift_ppm: f64,
}

super::kinds! {
    /// What the edges of a domain write on packets.
    Labels {
        Csfq(CsfqLabels) = "csfq",
    }
}

/// # Labels for Core-Stateless Fair Queueing
///
/// The edge where a flow enters measures its rate and writes it on each packet.
///
/// Source: Stoica, Shenker and Zhang 1998, equation 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CsfqLabels {
    /// The time constant K of the average of a flow's rate. Source: the authors' simulations.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub averaging: Span,
    /// The most flows that an edge knows at once. Source: assumed; it bounds the memory.
    pub flows_max: u32,
    /// The edge lies: it writes so many times the rate that it measures. Source: 1 is the truth; thesis of Feng, section
    /// 4.5.5 (a misconfigured or poorly implemented edge).
    pub lie: f64,
    /// The flows of which it lies; patterns with `*` and `?`. Default: all.
    pub liars: Option<Vec<String>>,
}

impl Default for CsfqLabels {
    fn default() -> Self {
        Self { averaging: Span::from_millis(100), flows_max: 4096, lie: 1.0, liars: None }
    }
}
