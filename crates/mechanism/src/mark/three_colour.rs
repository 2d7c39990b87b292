//! Three colours for assured forwarding: green within the committed rate, yellow within an excess burst (one rate) or a
//! peak rate (two rates), red beyond. So a network can promise something, offer more, and know which is which.
//!
//! Source: RFC 2697 (single rate, srTCM); RFC 2698 (two rates, trTCM); RFC 2597 (drop precedences).
//! Deviations: tokens come continuously instead of one per 1/CIR, as both documents allow.

use tidegate_packet::{Colour, DropReason, Dscp, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Time};

use super::{Conditioned, Marker};
use crate::shape::Tokens;

parameters! {
    /// # Single rate three colour marker
    ///
    /// Green within a committed rate and burst, yellow within an excess burst, red beyond.
    ///
    /// Source: RFC 2697; RFC 2597.
    #[derive(Copy)]
    pub struct SingleRateConfig {
        /// The committed rate (CIR).
        committed_rate: BitRate => bound::RATE;
        /// The committed burst (CBS).
        committed_burst: Bytes => bound::BUCKET;
        /// The excess burst (EBS).
        excess_burst: Bytes => bound::BUCKET;
        /// The class of assured forwarding whose codepoints are written, 1 to 4. Source: RFC 2597.
        class: u8 = 1 => bound::ASSURED_CLASS;
        /// Whether a packet never leaves better than it came. Source: RFC 2697, colour-aware mode.
        aware: bool = true;
        /// Whether red packets are dropped. Source: RFC 2697 leaves it open.
        drop_red: bool = false;
    }
    check |config, report| {
        if config.committed_burst.get() == 0 && config.excess_burst.get() == 0 {
            report.say("committed_burst", "neither bucket holds anything", "RFC 2697: at least one of them does");
        }
    };
}

impl SingleRateConfig {
    /// A marker with full buckets.
    pub const fn build(&self, now: Time) -> ThreeColour {
        ThreeColour {
            committed: Tokens::full(self.committed_rate, self.committed_burst.get()),
            other: Tokens::full(BitRate::ZERO, self.excess_burst.get()),
            buckets: TwoBuckets::SingleRate,
            updated: now,
            class: self.class,
            aware: self.aware,
            drop_red: self.drop_red,
        }
    }
}

parameters! {
    /// # Two rate three colour marker
    ///
    /// Green within a committed rate, yellow within a peak rate, red beyond.
    ///
    /// Source: RFC 2698; RFC 2597.
    #[derive(Copy)]
    pub struct TwoRatesConfig {
        /// The committed rate (CIR).
        committed_rate: BitRate => bound::RATE;
        /// The committed burst (CBS).
        committed_burst: Bytes => bound::BUCKET_OF_SOME;
        /// The peak rate (PIR), at least the committed rate.
        peak_rate: BitRate => bound::RATE;
        /// The peak burst (PBS).
        peak_burst: Bytes => bound::BUCKET_OF_SOME;
        /// The class of assured forwarding whose codepoints are written, 1 to 4. Source: RFC 2597.
        class: u8 = 1 => bound::ASSURED_CLASS;
        /// Whether a packet never leaves better than it came. Source: RFC 2698, colour-aware mode.
        aware: bool = true;
        /// Whether red packets are dropped. Source: RFC 2698 leaves it open.
        drop_red: bool = false;
    }
    check |config, report| {
        if config.peak_rate < config.committed_rate {
            report.say("peak_rate", "below `committed_rate`", "RFC 2698: at least the committed rate");
        }
    };
}

impl TwoRatesConfig {
    /// A marker with full buckets.
    pub fn build(&self, now: Time) -> ThreeColour {
        assert!(self.peak_rate >= self.committed_rate, "RFC 2698: the PIR is at least the CIR");
        ThreeColour {
            committed: Tokens::full(self.committed_rate, self.committed_burst.get()),
            other: Tokens::full(self.peak_rate, self.peak_burst.get()),
            buckets: TwoBuckets::TwoRates,
            updated: now,
            class: self.class,
            aware: self.aware,
            drop_red: self.drop_red,
        }
    }
}

/// How the two buckets fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TwoBuckets {
    /// RFC 2697: what the committed bucket cannot hold goes to the excess bucket.
    SingleRate,
    /// RFC 2698: each bucket has its own rate.
    TwoRates,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ThreeColour {
    committed: Tokens,
    /// The excess bucket, or that of the peak rate.
    other: Tokens,
    buckets: TwoBuckets,
    updated: Time,
    class: u8,
    aware: bool,
    drop_red: bool,
}

impl Marker for ThreeColour {
    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        self.fill_until(now);
        let arrives = if self.aware { packet.dscp.colour() } else { Colour::Green };
        let colour = match self.buckets {
            TwoBuckets::SingleRate => self.single_rate(arrives, packet.wire_bytes),
            TwoBuckets::TwoRates => self.two_rates(arrives, packet.wire_bytes),
        };
        if colour == Colour::Red && self.drop_red {
            return Conditioned::Drop(DropReason::Policed);
        }
        packet.dscp = Dscp::assured(self.class, colour);
        Conditioned::Pass
    }
}

impl ThreeColour {
    fn fill_until(&mut self, now: Time) {
        let elapsed = now.since(self.updated);
        self.updated = now;
        let overflow = self.committed.fill(elapsed, 0);
        match self.buckets {
            TwoBuckets::SingleRate => self.other.fill(elapsed, overflow),
            TwoBuckets::TwoRates => self.other.fill(elapsed, 0),
        };
    }

    /// RFC 2697, section 3: green by Tc, else yellow by Te, else red.
    fn single_rate(&mut self, arrives: Colour, wire_bytes: u32) -> Colour {
        if arrives == Colour::Green && self.committed.take(wire_bytes) {
            Colour::Green
        } else if arrives <= Colour::Yellow && self.other.take(wire_bytes) {
            Colour::Yellow
        } else {
            Colour::Red
        }
    }

    /// RFC 2698, section 3: red without Tp; yellow without Tc, of Tp; else green, of both.
    fn two_rates(&mut self, arrives: Colour, wire_bytes: u32) -> Colour {
        if arrives == Colour::Red || !self.other.take(wire_bytes) {
            Colour::Red
        } else if arrives == Colour::Yellow || !self.committed.take(wire_bytes) {
            Colour::Yellow
        } else {
            Colour::Green
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;

    fn packet(bytes: u32, dscp: Dscp) -> Packet {
        Packet { dscp, ..Packet::new(0, FlowId(0), bytes) }
    }

    fn colours(marker: &mut ThreeColour, at_micros: &[u64]) -> Vec<Colour> {
        let send = |&micros: &u64| {
            let mut sent = packet(1000, Dscp::AF11);
            marker.on_packet(&mut sent, Time::from_nanos(micros * 1000));
            sent.dscp.colour()
        };
        at_micros.iter().map(send).collect()
    }

    #[test]
    fn a_single_rate_fills_the_committed_bucket_first() {
        use Colour::{Green, Red, Yellow};
        // A packet of 1000 bytes per millisecond.
        let committed_rate = BitRate::from_mbps(8);
        let mut marker =
            SingleRateConfig::with(committed_rate, Bytes::new(1000), Bytes::new(2000)).build(Time::ZERO);
        assert_eq!(colours(&mut marker, &[0, 0, 0, 0]), [Green, Yellow, Yellow, Red]);
        // After 3 ms: one packet's tokens to the committed bucket, the overflow of two to the excess bucket.
        assert_eq!(colours(&mut marker, &[3000; 4]), [Green, Yellow, Yellow, Red]);
    }

    #[test]
    fn two_rates_meter_the_peak_and_the_committed_rate() {
        use Colour::{Green, Red, Yellow};
        let (committed_rate, peak_rate) = (BitRate::from_mbps(8), BitRate::from_mbps(16));
        let mut marker = TwoRatesConfig::with(committed_rate, Bytes::new(1000), peak_rate, Bytes::new(2000))
            .build(Time::ZERO);
        assert_eq!(colours(&mut marker, &[0, 0, 0]), [Green, Yellow, Red]);
        // At the peak rate, every other packet is within the committed rate.
        assert_eq!(colours(&mut marker, &[1000, 1500, 2000, 2500]), [Green, Yellow, Green, Yellow]);
    }

    #[test]
    fn red_may_be_dropped() {
        let config = SingleRateConfig::with(BitRate::ZERO, Bytes::ZERO, Bytes::ZERO);
        let mut marker = SingleRateConfig { drop_red: true, ..config }.build(Time::ZERO);
        let said = marker.on_packet(&mut packet(1000, Dscp::AF11), Time::ZERO);
        assert_eq!(said, Conditioned::Drop(DropReason::Policed));
    }

    proptest! {
        #[test]
        fn a_colour_never_improves_at_a_border(
            two_rates in any::<bool>(),
            arrivals in prop::collection::vec((0u64..2_000_000, 40u32..1500, 0u8..64), 1..200),
        ) {
            let (committed_rate, committed_burst) = (BitRate::from_mbps(5), Bytes::new(4000));
            let mut border = if two_rates {
                let (peak_rate, peak_burst) = (BitRate::from_mbps(9), Bytes::new(6000));
                TwoRatesConfig::with(committed_rate, committed_burst, peak_rate, peak_burst).build(Time::ZERO)
            } else {
                SingleRateConfig::with(committed_rate, committed_burst, Bytes::new(6000)).build(Time::ZERO)
            };
            let mut now = 0;
            for (gap, bytes, codepoint) in arrivals {
                now += gap;
                let came = Dscp::new(codepoint);
                let mut passing = packet(bytes, came);
                border.on_packet(&mut passing, Time::from_nanos(now));
                prop_assert!(passing.dscp.colour() >= came.colour());
            }
        }
    }
}
