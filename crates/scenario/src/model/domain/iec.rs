//! Overlay edge control: implicit, explicit, and what both have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Span};

use super::Shaper;
use crate::text::{self, Text};

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
