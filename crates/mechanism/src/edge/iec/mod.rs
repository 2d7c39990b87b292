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

use alloc::string::String;
use alloc::vec::Vec;

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use super::tcp_rate::TcpRateConfig;
use crate::edge::BorderSite;
use crate::shape::ShaperConfig;
use crate::{Context, ROUNDS};

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

words! {
    /// Which delays IEC looks at.
    pub enum IecDelays {
        /// From edge to edge, by both clocks.
        OneWay = "one-way",
        /// There and back, by the clock of the ingress, with twice as many control packets.
        RoundTrip = "round-trip",
    }
}

words! {
    /// What becomes of the ECN field of packets in the tunnel between two edges.
    pub enum TunnelEcn {
        /// The outer field says ECT(0) whatever the inner one says, and what the network marks is thrown away.
        Limited = "limited",
        /// The outer field is a copy of the inner one, and marks of the network reach hosts that know them (RFC 6040).
        Normal = "normal",
    }
}

parameters! {
    /// What holds for some virtual links.
    pub struct VirtualLinkConfig {
        /// For those that begin at this edge. Default: at any.
        from: Option<String> = None;
        /// For those that end at this edge. Default: at any.
        to: Option<String> = None;
        /// Its share beside others: `sigma` times this is the growth of its rate and its part of queues. Source: Harrison and
        /// Kalyanaraman, section VI plans services of this kind; the law is derived in `docs/mechanisms/iec.md`.
        weight: f64 = 1.0 => bound::WEIGHT;
        /// The rate that is assured to it. Default: that of all. Source: Harrison and Kalyanaraman, section VI.
        rate_min: Option<BitRate> = None => bound::RATE;
    }
}

/// A part of something, of which there is some.
const PART: Bound<f64> = Bound::above(0.0).and_at_most(1.0).saying("", " is no part");

parameters! {
    /// What explicit and implicit edge control have in common.
    pub struct OverlayConfig {
        /// The maximum burst, the growth of the rate per round trip, and what each virtual link may have in queues.
        /// Source: Harrison and Kalyanaraman, Fig. 4 (8000 bits).
        sigma: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The backoff: the rate becomes this part of the output rate. Source: Harrison and Kalyanaraman, Fig. 4.
        beta: f64 = 0.98 => PART;
        /// The same after a loss. Source: Harrison and Kalyanaraman, section III.B.
        loss_backoff: f64 = 0.5 => PART;
        /// Weight of a new measurement in the smoothed output rate. Source: assumed; the constant is lost.
        smoothing: f64 = 0.5 => PART;
        /// The least rate of a virtual link: what is assured to it. Source: assumed, one packet per second; else a
        /// virtual link of which nothing gets through would never send again.
        rate_min: BitRate = BitRate::from_bps(8_000) => bound::RATE;
        /// Weights and assured rates of single virtual links; the first that fits holds. Default: all are alike.
        virtual_links: Vec<VirtualLinkConfig> = Vec::new() => bound::INSIDE;
        /// The rate of a new virtual link. Default: `sigma` per `initial_interval`. Source: assumed.
        initial_rate: Option<BitRate> = None => bound::RATE;
        /// The round-trip time until one was measured. Source: assumed.
        initial_interval: Span = Span::from_millis(50) => ROUNDS;
        /// The rate grows only while at least this part of it is used. Source: assumed; the paper's sources always
        /// have something to send.
        use_min: f64 = 0.5 => PART;
        /// A round-trip time is asked for after so long without one. Source: assumed.
        answer_interval: Span = Span::from_secs(1) => ROUNDS;
        /// How long a virtual link may be silent before its state is dropped. Source: assumed.
        idle_timeout: Span = Span::from_secs(10) => bound::DURATION;
        /// How fast the minimum delay rises, parts per million. Drift needs none: round-trip times tell it from queues.
        /// Source: Harrison and Kalyanaraman, section III.B.
        drift_ppm: u32 = 0 => Bound::at_most(100_000).saying("a drift of ", " ppm");
        /// The least window, in round trips: if the delay does not move in it during an epoch, the minimum is stale. Source:
        /// assumed; a drain by 2 % moves it.
        stale_rounds: u32 = 10 => bound::COUNT;
        /// Control only packets of this class; others pass. Default: all.
        class: Option<u8> = None;
        /// TCP rate control at the ingress. Default: none.
        tcp_rate: Option<TcpRateConfig> = None => bound::INSIDE;
        /// The shaper of each virtual link; its bucket is one `sigma` if it does not say.
        shaper: ShaperConfig = ShaperConfig::default() => bound::INSIDE;
        /// Edges at which what enters is not shaped. Default: none.
        unpoliced: Vec<String> = Vec::new();
    }
    world {
        /// How an egress learns of congestion.
        detection: Detection = Detection::OneWay;
        /// What [`virtual_links`](Self::virtual_links) says, with borders in place of names; the first that fits counts.
        terms: Vec<VirtualLinkTerms> = Vec::new();
        /// What becomes of ECN fields.
        ecn: TunnelEcn = TunnelEcn::Limited;
    }
}

parameters! {
    /// # Implicit edge control
    ///
    /// Each pair of edges is a virtual link whose rate follows what leaves it. It learns of congestion from its own part
    /// of the queues and from delays, without a loss and without help from the network.
    ///
    /// Source: Harrison and Kalyanaraman 2000, sections II and III.
    pub struct IecConfig {
        ..overlay: OverlayConfig;
        /// Which delays end an epoch. Source: Harrison and Kalyanaraman, section III.B.
        delays: IecDelays = IecDelays::OneWay;
        /// What becomes of ECN fields in the tunnel. Source: assumed (`limited`); `normal` is that of RFC 6040, section 4.
        ecn: TunnelEcn = TunnelEcn::Limited;
    }
}

parameters! {
    /// # Explicit edge control
    ///
    /// Each pair of edges is a virtual link whose rate follows what leaves it. It learns of congestion from marks, which
    /// the bottleneck's queue `eec-marker` sets.
    ///
    /// Source: Harrison and Kalyanaraman 2000, section II.
    pub struct EecConfig {
        ..overlay: OverlayConfig;
    }
}

impl IecConfig {
    /// One that looks at `delays` and is else as `overlay`.
    pub fn of(overlay: OverlayConfig, delays: IecDelays) -> Self {
        Self { ecn: overlay.ecn, overlay, delays }
    }

    /// What both have in common, with the way in which this one learns of congestion.
    pub fn detecting(&self) -> OverlayConfig {
        let detection = match self.delays {
            IecDelays::OneWay => Detection::OneWay,
            IecDelays::RoundTrip => Detection::RoundTrip,
        };
        OverlayConfig { detection, ecn: self.ecn, ..self.overlay.clone() }
    }
}

impl EecConfig {
    /// What both have in common, with the way in which this one learns of congestion.
    pub fn detecting(&self) -> OverlayConfig {
        OverlayConfig { detection: Detection::Marks, ecn: TunnelEcn::Limited, ..self.overlay.clone() }
    }
}

impl OverlayConfig {
    /// How the minimum delay ages.
    pub(crate) const fn minimum(&self) -> MinimumDelayConfig {
        MinimumDelayConfig { drift_ppm: self.drift_ppm, stale_rounds: self.stale_rounds }
    }

    /// The two halves of the border at `site`.
    pub fn build(&self, site: BorderSite, context: &Context) -> (IecIngress, IecEgress) {
        (IecIngress::new(self.clone(), site, context.seed), IecEgress::new(self.clone(), site))
    }
}

/// Bytes around a control message on the wire: IPv4 (20) and UDP (8) headers (assumed; the paper does not say).
pub const CONTROL_HEADER_BYTES: u32 = 28;
