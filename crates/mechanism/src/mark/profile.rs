//! Marks what stays within a token bucket: the traffic specification of a reservation. What exceeds it goes on without the
//! promise, or is dropped where a network polices.
//!
//! Source: Feng, sections 5.1 and 5.3 (Tspec: mean rate, peak rate, maximum burst; a segment is marked if there are tokens
//! at its transmission); RFC 2475, sections 2.3.3.2 and 2.3.3.4 (marker, policer).
//! Deviations: none. At a border between domains ([`ProfileConfig::aware`]) a packet that arrives without a promise takes no
//! tokens and gets none: a colour never improves.

use tidegate_packet::{Colour, DropReason, Dscp, Packet};
use tidegate_parameters::{Check as _, Report, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use super::{Conditioned, Marker};
use crate::shape::{TokenBucket, TokenBucketConfig};
use crate::{Context, Variable};

words! {
    /// What happens to packets beyond a profile.
    pub enum OutOfProfile {
        /// They get the codepoint `unmarked`.
        Unmark = "unmark",
        /// They are dropped: a policer.
        Drop = "drop",
    }
}

parameters! {
    /// # Token-bucket profile
    ///
    /// Marks what stays within a token bucket; what exceeds it goes on unmarked, or is dropped.
    ///
    /// Source: thesis of Feng, section 5.3; RFC 2475, section 2.3.3.
    #[derive(Copy)]
    pub struct ProfileConfig {
        /// How fast tokens come.
        rate: BitRate => bound::RATE;
        /// What the bucket holds, as a size, or as the time in which the rate fills it. Source: thesis of Feng, section 5.3.1.
        depth: Limit = Limit::Time(Span::from_millis(50)) => bound::level("an empty bucket lets nothing pass");
        /// The rate of bursts. Default: no bound but the link's. Source: thesis of Feng, section 5.3 (the speed of the link).
        peak: Option<BitRate> = None => bound::RATE;
        /// What happens to packets for which there are no tokens. Source: thesis of Feng, section 5.3.
        beyond: OutOfProfile = OutOfProfile::Unmark;
        /// Codepoint of packets with tokens, 0 to 63. Source: RFC 2597 (AF11).
        marked: u8 = Dscp::AF11.get() => bound::CODEPOINT;
        /// Codepoint of the others, 0 to 63. Source: best effort.
        unmarked: u8 = Dscp::BEST_EFFORT.get() => bound::CODEPOINT;
        /// Whether a packet must arrive marked to stay so, as at the border between two networks. Source: RFC 2475.
        aware: bool = false;
    }
    check ProfileConfig::check_depth;
}

impl ProfileConfig {
    /// The depth in bytes; in time, what the rate brings in it. None in packets.
    fn depth_bytes(&self) -> Option<Bytes> {
        match self.depth {
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Time(span) => Some(self.rate.bytes_in(span)),
            Limit::Packets(_) => None,
        }
    }

    fn check_depth(&self, report: &mut Report<'_>) {
        match self.depth_bytes() {
            Some(bytes) => bound::BUCKET.check("depth", &bytes, report),
            None => {
                report.say(
                    "depth",
                    "a bucket holds bytes",
                    "a size (`10kB`), or a time (`50ms`) at the rate",
                );
            }
        }
    }

    /// A marker with a full bucket.
    pub fn build(&self, context: &Context, now: Time) -> ProfileMarker {
        let Some(depth) = self.depth_bytes() else { unreachable!("checked: a depth is a size or a time") };
        // Of a slow rate a time may bring less than a packet, and none would ever be within.
        let depth = match self.depth {
            Limit::Time(_) => depth.max(Bytes::new(u64::from(context.mtu_bytes))),
            Limit::Bytes(_) | Limit::Packets(_) => depth,
        };
        let bucket = TokenBucketConfig { peak_rate: self.peak, ..TokenBucketConfig::new(self.rate, depth) };
        ProfileMarker {
            bucket: bucket.build(context, now),
            now,
            within: Dscp::new(self.marked),
            unmarked: Dscp::new(self.unmarked),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ProfileMarker {
    bucket: TokenBucket,
    now: Time,
    /// Codepoint of packets within the profile.
    within: Dscp,
    /// Codepoint of the others.
    unmarked: Dscp,
    config: ProfileConfig,
}

impl Marker for ProfileMarker {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("tokens_bytes", "Tokens in its bucket.")] }
    }

    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        self.now = now;
        let may_be_green = !self.config.aware || packet.dscp.colour() == Colour::Green;
        if may_be_green && self.bucket.consume(packet.wire_bytes, now) {
            packet.dscp = self.within;
            return Conditioned::Pass;
        }
        match self.config.beyond {
            OutOfProfile::Drop => return Conditioned::Drop(DropReason::Policed),
            // What came worse than that stays as it is.
            OutOfProfile::Unmark if !self.config.aware || packet.dscp.colour() <= self.unmarked.colour() => {
                packet.dscp = self.unmarked;
            }
            OutOfProfile::Unmark => {}
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

    fn packet(bytes: u32, dscp: Dscp) -> Packet {
        Packet { dscp, ..Packet::new(0, FlowId(0), bytes) }
    }

    fn config(rate: BitRate, depth: u64) -> ProfileConfig {
        ProfileConfig { depth: Limit::Bytes(Bytes::new(depth)), ..ProfileConfig::with(rate) }
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

    #[test]
    fn a_profile_of_a_slow_rate_holds_a_packet() {
        let slow = config(BitRate::from_bps(100_000), 0);
        let mut marker = ProfileConfig { depth: Limit::Time(Span::from_millis(50)), ..slow }
            .build(&Context::for_tests(), Time::ZERO);
        // 1000 bytes every 80 ms are its rate.
        for number in 0..100 {
            let mut arriving = packet(1000, Dscp::BEST_EFFORT);
            marker.on_packet(&mut arriving, Time::from_nanos(number * 80_000_000));
            assert_eq!(arriving.dscp.colour(), Colour::Green, "{number}");
        }
    }
}
