//! Network Border Patrol: compare, at the borders of a network, the rate at which each flow enters with the rate at which
//! it leaves, and let no flow enter faster than it can leave. An unresponsive flow's undeliverable packets then never
//! enter, and congestion collapse from undelivered packets cannot happen.
//!
//! Source: Albuquerque, Vickers, Suda, "Network Border Patrol", UCI ICS TR 99-44, 1999.
//!
//! The parts, in the order in which a flow meets them: [`classify`] (section II.A, IV.1) names its class; [`ingress`]
//! (Fig. 4) sets the rate of its shaper; [`egress`] (Fig. 3) meters what leaves and answers feedback; [`wire`] (Fig. 5)
//! is what the two send each other; [`rate`] (Fig. 6) is the law.
//!
//! Deviations and settled ambiguities are listed in the part that they concern.

mod classify;
mod egress;
mod ingress;
mod rate;
pub mod wire;

pub use classify::{ClassKey, Granularity};
pub use egress::NbpEgress;
pub use ingress::NbpIngress;
pub use rate::{FlowRate, Limits, PathDelay, Phase};

use tidegate_packet::DscpSet;
use tidegate_units::{BitRate, Span};

use crate::Context;
use crate::meter::TswConfig;
use crate::random::KeyedHash;
use crate::shape::ShaperConfig;

/// Parameters of NBP.
#[derive(Clone, Debug, PartialEq)]
pub struct NbpConfig {
    /// `MSS` of the control law, bytes; default 1500 (Table 1).
    pub mss_bytes: u32,
    /// `MF`: the rate grows by at most 1/MF of the egress rate at a time; default 10 (Table 1).
    pub mrc_factor: f64,
    /// `AsynchInterval`: after so long without a forward packet, feedback comes unasked; default 10 ms (Table 1).
    pub asynch_interval: Span,
    /// Whether asynchronous feedback comes again after each further interval. Default no: section II.B lets an egress that
    /// misses a forward packet send "a" backward packet. Repeated, every dip of a 10 ms meter is taken for congestion.
    pub asynch_repeats: bool,
    /// The egress meter; default a time sliding window of 10 ms (Table 1).
    pub meter: TswConfig,
    /// Rate of a new flow until feedback speaks; default (`None`) one MSS per `initial_interval` (assumed).
    pub initial_rate: Option<BitRate>,
    /// The least rate of a flow; default 12 kbit/s, one MSS per second (assumed: below, a flow would freeze).
    pub rate_min: BitRate,
    /// Distance of forward packets until the first answer; default 50 ms (assumed).
    pub initial_interval: Span,
    /// The least distance of forward packets, whatever the round-trip time; default 100 us (assumed: bounds the work).
    pub interval_min: Span,
    /// A flow without packets for so long is forgotten; default 1 s (assumed).
    pub idle_timeout: Span,
    /// Which codepoints pass without control, since mechanisms of their own police them (section IV.7); default none. All else is
    /// best effort, whatever it calls itself.
    pub exempt: DscpSet,
    /// What counts as one flow; default addresses and ports.
    pub granularity: Granularity,
    /// Bytes of the largest feedback packet on the wire; default 1500.
    pub feedback_mtu_bytes: u32,
    /// If set, a rate never exceeds so many times the rate at which the flow's packets arrive; default off, as the paper
    /// is silent (catalogue, NBP-4).
    pub arrival_headroom: Option<f64>,
    /// Every flow's shaper.
    pub shaper: ShaperConfig,
    /// The most flows that an edge keeps; packets of further flows are dropped. Default 1,000,000.
    pub flows_max: u32,
}

impl Default for NbpConfig {
    fn default() -> Self {
        Self {
            mss_bytes: 1500,
            mrc_factor: 10.0,
            asynch_interval: Span::from_millis(10),
            asynch_repeats: false,
            meter: TswConfig::nbp(),
            initial_rate: None,
            rate_min: BitRate::from_bps(12_000),
            initial_interval: Span::from_millis(50),
            interval_min: Span::from_micros(100),
            idle_timeout: Span::from_secs(1),
            exempt: DscpSet::NONE,
            granularity: Granularity::Flow,
            feedback_mtu_bytes: 1500,
            arrival_headroom: None,
            shaper: ShaperConfig::default(),
            flows_max: 1_000_000,
        }
    }
}

impl NbpConfig {
    /// The two halves of one border.
    pub fn build(&self, context: &Context) -> (NbpIngress, NbpEgress) {
        let hash = KeyedHash::new(context.seed);
        (NbpIngress::new(self.clone(), hash), NbpEgress::new(self.clone(), hash))
    }
}

/// Bytes around a feedback message on the wire: IPv4 (20) and ICMP (8) headers, for "feedback packets take the form of
/// ICMP packets" (section II.B).
pub const FEEDBACK_HEADER_BYTES: u32 = 28;
