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
mod entered;
mod ingress;
mod rate;
pub mod wire;

pub use classify::{ClassKey, Granularity};
pub use egress::NbpEgress;
pub use ingress::NbpIngress;
pub use rate::{FlowRate, Limits, PathDelay, Phase};

use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use tidegate_packet::{Dscp, DscpSet};
use tidegate_parameters::bound::Each;
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span, Time};

use crate::meter::TswConfig;
use crate::random::KeyedHash;
use crate::shape::ShaperConfig;
use crate::{Context, ROUNDS};

words! {
    /// What one shaper at an edge controls.
    pub enum Classify {
        /// Each flow by itself.
        Flow = "flow",
        /// All flows between the same two addresses.
        AddressPair = "address-pair",
        /// All flows to one destination network of `prefix` bits.
        DestinationNetwork = "destination-network",
    }
}

words! {
    /// Whose round trip shows what the network buffers of a flow.
    pub enum RoundTrip {
        /// That of feedback packets, the same for all flows between two edges.
        Feedback = "feedback",
        /// That of each flow's own packets on their way there, and of feedback on its way back.
        Data = "data",
    }
}

/// A report of one flow fits, and so does a feedback packet into the network.
const FEEDBACK_MTU: Bound<Bytes> = Bound::between(Bytes::new(100), Bytes::new(65_535))
    .low("too small for a report of one flow", "at least 100B")
    .high("", " is no size of a packet", "IP counts the bytes of a packet in 16 bits: at most 65535B");

parameters! {
    /// # Network Border Patrol
    ///
    /// The egress measures each flow's rate and reports it to the ingress, which shapes the flow to what gets through. So a
    /// network carries no packet that it would drop later.
    ///
    /// Source: Albuquerque, Vickers and Suda 1999 (UCI TR 99-44), section II.
    pub struct NbpConfig {
        /// The segment size in the law of the rate. Source: NBP, Table 1.
        mss: Bytes = Bytes::new(1500) => bound::PACKET;
        /// MF: the rate changes per round trip by at most this fraction (one over it) of the egress rate. Source: NBP,
        /// Table 1.
        mrc_factor: f64 = 10.0 => Bound::at_least(1.0).saying("", " is below 1").helping("at least 1");
        /// How long an egress waits for forward feedback before it reports unasked. Source: NBP, Table 1 (`AsynchInterval`).
        asynch_interval: Span = Span::from_millis(10) => ROUNDS;
        /// Whether unasked reports repeat at that interval for as long as no forward feedback comes; else one per lapse.
        /// Source: assumed; the document's text and its Fig. 5 can be read both ways.
        asynch_repeats: bool = false;
        /// Whose round trip shows what the network buffers of a flow. In fair queues feedback has a queue of its own, and passes
        /// the data. Source: NBP, section II.C (`feedback`); `data` is ours.
        round_trip: RoundTrip = RoundTrip::Feedback;
        /// The window of the time sliding window that measures a flow. Source: NBP, Table 1.
        meter_window: Span = Span::from_millis(10) => bound::DURATION;
        /// The interval of forward feedback until the first round trip is known. Source: assumed.
        initial_interval: Span = Span::from_millis(50) => ROUNDS;
        /// The least interval of forward feedback, whatever the round-trip time. Source: assumed; it bounds the work.
        interval_min: Span = Span::from_micros(100) => ROUNDS;
        /// The rate of a new flow until feedback speaks. Default: one `mss` per `initial_interval`. Source: assumed; the
        /// document does not say.
        initial_rate: Option<BitRate> = None => bound::RATE;
        /// The least rate of a flow. Source: assumed, one `mss` per second; else a flow of which nothing gets through would
        /// never send again.
        rate_min: BitRate = BitRate::from_bps(12_000);
        /// A rate never exceeds so many times the rate at which the flow arrives. Default: no such bound. Source: the document
        /// is silent.
        arrival_headroom: Option<f64> = None => bound::ABOVE_ZERO;
        /// How long a flow may be silent before its state is dropped. Source: assumed.
        idle_timeout: Span = Span::from_secs(1) => bound::DURATION;
        /// Codepoints (DSCP) whose packets pass without control, for services that mechanisms of their own police. Default: none;
        /// whatever else packets call themselves, they are best effort. Source: NBP, section IV.7.
        exempt: Vec<u8> = Vec::new() => Each(bound::CODEPOINT);
        /// What one shaper controls. Source: NBP, section II.A.
        classify: Classify = Classify::Flow;
        /// The bits of a destination network, for that kind of classification. Source: assumed, 24 as most routed networks.
        prefix: u8 = 24 => Bound::at_most(128).saying("a network of ", " bits").helping("at most 128, for IPv4 32");
        /// The largest feedback packet; longer reports are split. Source: Ethernet.
        feedback_mtu: Bytes = Bytes::new(1500) => FEEDBACK_MTU;
        /// The shaper of each flow.
        shaper: ShaperConfig = ShaperConfig::default() => bound::INSIDE;
        /// The most flows that an edge keeps; packets of further flows are dropped. Source: assumed; it bounds the memory.
        flows_max: u32 = 1_000_000 => bound::COUNT;
        /// Edges at which what enters is not shaped. Default: none.
        unpoliced: Vec<String> = Vec::new();
    }
    world {
        /// How many borders the domain has: an egress keeps for each the same part of `flows_max`.
        borders: u32 = 2;
    }
}

impl NbpConfig {
    /// What counts as one flow.
    pub(super) const fn granularity(&self) -> Granularity {
        match self.classify {
            Classify::Flow => Granularity::Flow,
            Classify::AddressPair => Granularity::AddressPair,
            Classify::DestinationNetwork => Granularity::DestinationNetwork { prefix_bits: self.prefix },
        }
    }

    /// The codepoints that pass without control.
    pub(super) fn exempted(&self) -> DscpSet {
        self.exempt.iter().copied().map(Dscp::new).collect()
    }

    /// The most flows that an egress keeps of one ingress.
    pub(super) fn share_max(&self) -> usize {
        (self.flows_max / self.borders.max(1)).max(1) as usize
    }

    /// What measures a flow.
    pub(super) fn meter(&self) -> TswConfig {
        TswConfig { window: self.meter_window, ..TswConfig::nbp() }
    }

    /// The room for reports in one feedback packet, bytes.
    pub(super) fn feedback_bytes_max(&self) -> usize {
        (self.feedback_mtu.get() - u64::from(FEEDBACK_HEADER_BYTES)) as usize
    }

    /// The two halves of one border.
    pub fn build(&self, context: &Context) -> (NbpIngress, NbpEgress) {
        let hash = KeyedHash::new(context.seed);
        (NbpIngress::new(self.clone(), hash), NbpEgress::new(self.clone(), hash))
    }
}

/// Bytes around a feedback message on the wire: IPv4 (20) and ICMP (8) headers, for "feedback packets take the form of
/// ICMP packets" (section II.B).
pub const FEEDBACK_HEADER_BYTES: u32 = 28;

/// The stamp of a packet that enters at `now`: microseconds of the ingress's clock, modulo 2^32. Zero means none.
const fn stamp_at(now: Time) -> NonZeroU32 {
    match NonZeroU32::new((now.as_nanos() / 1000) as u32) {
        Some(stamp) => stamp,
        None => NonZeroU32::MIN,
    }
}

/// What an egress reports of `stamp` after it has kept it for `age`.
fn aged(stamp: NonZeroU32, age: Span) -> u32 {
    stamp.get().wrapping_add((age.as_nanos() / 1000) as u32).max(1)
}

/// The time since the stamp that `echo` brings back; none if there is none, or if it lies ahead.
fn since_stamp(echo: u32, now: Time) -> Option<Span> {
    let stamp = NonZeroU32::new(echo)?;
    let micros = stamp_at(now).get().wrapping_sub(stamp.get());
    if micros > u32::MAX / 2 { None } else { Some(Span::from_micros(u64::from(micros).max(1))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_tells_the_time_since_the_stamp_less_the_stay_at_the_egress() {
        // Beyond the first turn of the counter, after an hour and twelve minutes.
        for begin in [Time::ZERO + Span::from_millis(7), Time::ZERO + Span::from_secs(4_294)] {
            let stamp = stamp_at(begin);
            for (there, stays, back) in [(10, 0, 5), (700, 300, 12), (1, 1, 1)] {
                let echo = aged(stamp, Span::from_millis(stays));
                let now = begin + Span::from_millis(there + stays + back);
                assert_eq!(since_stamp(echo, now), Some(Span::from_millis(there + back)));
            }
        }
        assert_eq!(since_stamp(0, Time::ZERO + Span::from_secs(1)), None);
        assert_eq!(since_stamp(5_000, Time::ZERO + Span::from_millis(4)), None, "from the future");
    }
}
