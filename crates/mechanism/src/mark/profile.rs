//! Marks what stays within a token bucket: the traffic specification of a reservation. What exceeds it goes on without the
//! promise, or is dropped where a network polices.
//!
//! Source: Feng, sections 5.1 and 5.3 (Tspec: mean rate, peak rate, maximum burst; a segment is marked if there are tokens
//! at its transmission); RFC 2475, sections 2.3.3.2 and 2.3.3.4 (marker, policer).
//! Deviations: none. At a border between domains ([`ProfileConfig::aware`]) a packet that arrives without a promise takes no
//! tokens and gets none: a colour never improves.

use tidegate_packet::{Colour, DropReason, Dscp, Packet};
use tidegate_units::Time;

use super::{Conditioned, Marker};
use crate::Context;
use crate::shape::{TokenBucket, TokenBucketConfig};

/// What happens to packets for which there are no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfProfile {
    /// They get this codepoint.
    Mark(Dscp),
    /// They are dropped: a policer.
    Drop,
}

/// Parameters of [`ProfileMarker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    /// Mean rate, depth and peak rate.
    pub bucket: TokenBucketConfig,
    /// Codepoint of packets within the profile. Default AF11.
    pub within: Dscp,
    /// What happens to the others. Default best effort (Feng, 5.3: "unmarked").
    pub beyond: OutOfProfile,
    /// Whether a packet must arrive green to stay so, as at a border between domains. Default no, as at a host.
    pub aware: bool,
}

impl ProfileConfig {
    /// As at the sources of the thesis.
    pub const fn new(bucket: TokenBucketConfig) -> Self {
        Self { bucket, within: Dscp::AF11, beyond: OutOfProfile::Mark(Dscp::BEST_EFFORT), aware: false }
    }

    /// A marker with a full bucket.
    pub fn build(&self, context: &Context, now: Time) -> ProfileMarker {
        ProfileMarker { bucket: self.bucket.build(context, now), now, config: *self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ProfileMarker {
    bucket: TokenBucket,
    now: Time,
    config: ProfileConfig,
}

impl Marker for ProfileMarker {
    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        self.now = now;
        let may_be_green = !self.config.aware || packet.dscp.colour() == Colour::Green;
        if may_be_green && self.bucket.consume(packet.wire_bytes, now) {
            packet.dscp = self.config.within;
            return Conditioned::Pass;
        }
        match self.config.beyond {
            OutOfProfile::Drop => return Conditioned::Drop(DropReason::Policed),
            // What came worse than that stays as it is.
            OutOfProfile::Mark(dscp) if !self.config.aware || packet.dscp.colour() <= dscp.colour() => {
                packet.dscp = dscp;
            }
            OutOfProfile::Mark(_) => {}
        }
        Conditioned::Pass
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "tokens_bytes").then(|| self.bucket.tokens(self.now).as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;
    use tidegate_units::{BitRate, Bytes};

    fn packet(bytes: u32, dscp: Dscp) -> Packet {
        Packet { dscp, ..Packet::new(0, FlowId(0), bytes) }
    }

    fn config(rate: BitRate, depth: u64) -> ProfileConfig {
        ProfileConfig::new(TokenBucketConfig::new(rate, Bytes::new(depth)))
    }

    #[test]
    fn a_policer_drops_what_its_marker_would_unmark() {
        let marking = config(BitRate::from_mbps(8), 2000);
        let policing = ProfileConfig { beyond: OutOfProfile::Drop, ..marking };
        let mut marker = marking.build(&Context::for_tests(), Time::ZERO);
        let mut policer = policing.build(&Context::for_tests(), Time::ZERO);
        for green in [true, true, false] {
            let mut marked = packet(1000, Dscp::BEST_EFFORT);
            assert_eq!(marker.on_packet(&mut marked, Time::ZERO), Conditioned::Pass);
            assert_eq!(marked.dscp, if green { Dscp::AF11 } else { Dscp::BEST_EFFORT });
            let said = policer.on_packet(&mut packet(1000, Dscp::BEST_EFFORT), Time::ZERO);
            assert_eq!(said == Conditioned::Pass, green);
        }
    }

    #[test]
    fn at_a_border_best_effort_takes_no_tokens() {
        let mut border = ProfileConfig { aware: true, ..config(BitRate::from_mbps(8), 1000) }
            .build(&Context::for_tests(), Time::ZERO);
        let mut red = packet(1000, Dscp::BEST_EFFORT);
        border.on_packet(&mut red, Time::ZERO);
        assert_eq!(red.dscp, Dscp::BEST_EFFORT);
        let mut green = packet(1000, Dscp::EF);
        border.on_packet(&mut green, Time::ZERO);
        assert_eq!(green.dscp.colour(), Colour::Green, "the tokens were still there");
    }

    proptest! {
        #[test]
        fn green_bytes_never_exceed_rate_times_time_plus_depth(
            rate in 8_000u64..100_000_000,
            depth in 1500u64..100_000,
            arrivals in prop::collection::vec((0u64..3_000_000, 40u32..1500, any::<bool>()), 1..300),
        ) {
            let mut marker = config(BitRate::from_bps(rate), depth).build(&Context::for_tests(), Time::ZERO);
            let (mut now, mut green) = (0u64, 0u64);
            for (gap, bytes, promised) in arrivals {
                now += gap;
                let mut arriving = packet(bytes, if promised { Dscp::AF11 } else { Dscp::BEST_EFFORT });
                marker.on_packet(&mut arriving, Time::from_nanos(now));
                if arriving.dscp.colour() == Colour::Green {
                    green += u64::from(bytes);
                }
                let bound = u128::from(rate) * u128::from(now) / 8_000_000_000 + u128::from(depth);
                prop_assert!(u128::from(green) <= bound);
            }
        }
    }
}
