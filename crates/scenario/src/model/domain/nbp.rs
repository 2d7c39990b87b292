//! Network Border Patrol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Span};

use super::{Classify, Shaper};
use crate::text::{self, Text};

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
    /// Codepoints (DSCP) whose packets pass without control, for services that mechanisms of their own police. Default: none;
    /// whatever else packets call themselves, they are best effort. Source: NBP, section IV.7.
    pub exempt: Vec<u8>,
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
            exempt: Vec::new(),
            classify: Classify::Flow,
            prefix: 24,
            feedback_mtu: Bytes::new(1500),
            shaper: Shaper::default(),
            flows_max: 1_000_000,
            unpoliced: Vec::new(),
        }
    }
}
