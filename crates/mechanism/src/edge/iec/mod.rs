//! Overlay edge control: loops between the edges of a network move its congestion to the edges, where there is room and
//! state for it. Each pair of edges is a virtual link whose rate follows what leaves it, without a loss. EEC learns of
//! congestion from a mark of the bottleneck; IEC needs nothing from the network.
//!
//! Source: Harrison, Kalyanaraman, "An Overlay Congestion Control Architecture for the Internet", sections II and III.
//!
//! The parts, in the order in which a packet meets them: [`ingress`] classifies by egress, shapes, counts and sends
//! control packets; [`egress`] measures and detects congestion epochs with [`epoch`] (accumulation) and [`minimum`] (delay);
//! [`wire`] is what the two send each other; [`rate`] is AIMD-ER.
//!
//! Deviations and settled ambiguities are listed in the part that they concern. Of the whole:
//! - A virtual link is a pair of edges: all of the controlled class that enters at one and leaves at the other. Multicast
//!   packets pass uncontrolled, for a virtual link is point-to-point.
//! - Weights and assured rates of single virtual links (section VI plans both) are known to both of their edges; see [`terms`].
//! - The paper rests on tunnels (section I). Packets carry their own ECN field inside, as in a tunnel, and EEC's mark is
//!   the ECN field of the outer header; the hosts never see it.

mod egress;
mod epoch;
mod ingress;
mod minimum;
mod rate;
mod terms;
#[cfg(test)]
mod tests;
pub mod wire;

pub use egress::{EpochReport, IecEgress};
pub use epoch::{Accumulation, Epoch, epsilon_nanos};
pub use ingress::IecIngress;
pub use minimum::{MinimumDelay, MinimumDelayConfig};
pub use rate::{Phase, RateLimits, VirtualLinkRate};
pub use terms::VirtualLinkTerms;

use alloc::vec::Vec;

use tidegate_units::{BitRate, Bytes, Span};

use super::tcp_rate::TcpRateConfig;
use crate::Context;
use crate::edge::BorderSite;
use crate::shape::ShaperConfig;

/// How an egress learns of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detection {
    /// IEC with one-way delays: accumulation and delay, by the clocks of both edges.
    #[default]
    OneWay,
    /// IEC with round-trip times: the ingress's clock only, at the cost of an answer to each control packet.
    RoundTrip,
    /// EEC: the bottleneck marks packets.
    Marks,
}

/// Parameters of EEC and IEC.
#[derive(Clone, Debug, PartialEq)]
pub struct IecConfig {
    /// How congestion is detected; default one-way IEC.
    pub detection: Detection,
    /// `sigma`, bytes: the maximum burst, the increase per round trip, and the accumulation that begins an epoch. Default
    /// 1000 (Fig. 4: 8000 bits, one packet). The shaper's bucket should be the same.
    pub sigma: Bytes,
    /// `beta`, the backoff; default 0.98 (Fig. 4).
    pub beta: f64,
    /// What the rate becomes after a loss, as a part of the output rate; default 0.5 (section III.B).
    pub loss_backoff: f64,
    /// Weight of a new measurement in the smoothed output rate; default 0.5 (assumed, the constant is lost: IEC-3).
    pub smoothing: f64,
    /// The least rate, or the rate assured to each virtual link (section VI); default 8 kbit/s, one packet per second
    /// (assumed: below, a virtual link would freeze).
    pub rate_min: BitRate,
    /// Weights and assured rates of some virtual links; the first that fits counts. Default none: all are alike.
    pub terms: Vec<VirtualLinkTerms>,
    /// Rate of a new virtual link; default (`None`) `sigma` per `initial_interval` (assumed).
    pub initial_rate: Option<BitRate>,
    /// The round-trip time until one was measured; default 50 ms (assumed).
    pub initial_interval: Span,
    /// The rate grows only while at least this part of it is used, above zero; default 0.5 (assumed: the paper's sources
    /// are persistent, and the rate of an idle one would grow without bound). It bounds the rate: see [`IecIngress`].
    pub use_min: f64,
    /// An answer to a control packet is asked for after so long without one; default 1 s (assumed). Four times as long
    /// without any, and the rate no longer grows.
    pub answer_interval: Span,
    /// A virtual link without packets for so long is forgotten; default 10 s (assumed).
    pub idle_timeout: Span,
    /// How the minimum delay ages.
    pub minimum: MinimumDelayConfig,
    /// Control only packets of this class, the others pass; default (`None`) all.
    pub class: Option<u8>,
    /// TCP rate control at the ingress; default none.
    pub tcp_rate: Option<TcpRateConfig>,
    /// Every virtual link's shaper.
    pub shaper: ShaperConfig,
}

impl Default for IecConfig {
    fn default() -> Self {
        let sigma = Bytes::new(1000);
        Self {
            detection: Detection::OneWay,
            sigma,
            beta: 0.98,
            loss_backoff: 0.5,
            smoothing: 0.5,
            rate_min: BitRate::from_bps(8_000),
            terms: Vec::new(),
            initial_rate: None,
            initial_interval: Span::from_millis(50),
            use_min: 0.5,
            answer_interval: Span::from_secs(1),
            idle_timeout: Span::from_secs(10),
            minimum: MinimumDelayConfig::default(),
            class: None,
            tcp_rate: None,
            shaper: ShaperConfig { bucket: sigma, ..ShaperConfig::default() },
        }
    }
}

impl IecConfig {
    /// The two halves of the border at `site`.
    pub fn build(&self, site: BorderSite, context: &Context) -> (IecIngress, IecEgress) {
        (IecIngress::new(self.clone(), site, context.seed), IecEgress::new(self.clone(), site))
    }
}

/// Bytes around a control message on the wire: IPv4 (20) and UDP (8) headers (assumed; the paper does not say).
pub const CONTROL_HEADER_BYTES: u32 = 28;
