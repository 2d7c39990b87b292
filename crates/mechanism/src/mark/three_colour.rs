//! Three colours for assured forwarding: green within the committed rate, yellow within an excess burst (one rate) or a
//! peak rate (two rates), red beyond. So a network can promise something, offer more, and know which is which.
//!
//! Source: RFC 2697 (single rate, srTCM); RFC 2698 (two rates, trTCM); RFC 2597 (drop precedences).
//! Deviations: tokens come continuously instead of one per 1/CIR, as both documents allow.

use tidegate_packet::{Colour, DropReason, Dscp, Packet};
use tidegate_units::{BitRate, Bytes, Time};

use super::{Conditioned, Marker};
use crate::shape::Tokens;

/// The two buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoBuckets {
    /// RFC 2697: what the committed bucket cannot hold goes to the excess bucket.
    SingleRate {
        /// CIR.
        committed_rate: BitRate,
        /// CBS.
        committed_burst: Bytes,
        /// EBS.
        excess_burst: Bytes,
    },
    /// RFC 2698: each bucket has its own rate.
    TwoRates {
        /// CIR.
        committed_rate: BitRate,
        /// CBS.
        committed_burst: Bytes,
        /// PIR, at least the CIR.
        peak_rate: BitRate,
        /// PBS.
        peak_burst: Bytes,
    },
}

/// What becomes of each colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColourActions {
    /// The class of assured forwarding, 1 to 4, whose codepoints are written. Default 1.
    pub class: u8,
    /// Whether red packets are dropped instead of marked. Default no.
    pub drop_red: bool,
}

impl Default for ColourActions {
    fn default() -> Self {
        Self { class: 1, drop_red: false }
    }
}

/// Parameters of [`ThreeColour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreeColourConfig {
    /// The buckets.
    pub buckets: TwoBuckets,
    /// Colour-aware mode: a packet never leaves better than it came. Default yes, as between domains.
    pub aware: bool,
    /// What becomes of each colour.
    pub actions: ColourActions,
}

impl ThreeColourConfig {
    /// Colour-aware, class 1, nothing dropped.
    pub fn new(buckets: TwoBuckets) -> Self {
        Self { buckets, aware: true, actions: ColourActions::default() }
    }

    /// A marker with full buckets.
    pub fn build(&self, now: Time) -> ThreeColour {
        let (committed, other) = match self.buckets {
            TwoBuckets::SingleRate { committed_rate, committed_burst, excess_burst } => (
                Tokens::full(committed_rate, committed_burst.get()),
                Tokens::full(BitRate::ZERO, excess_burst.get()),
            ),
            TwoBuckets::TwoRates { committed_rate, committed_burst, peak_rate, peak_burst } => {
                assert!(peak_rate >= committed_rate, "RFC 2698: the PIR is at least the CIR");
                (
                    Tokens::full(committed_rate, committed_burst.get()),
                    Tokens::full(peak_rate, peak_burst.get()),
                )
            }
        };
        ThreeColour { committed, other, updated: now, config: *self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ThreeColour {
    committed: Tokens,
    /// The excess bucket, or that of the peak rate.
    other: Tokens,
    updated: Time,
    config: ThreeColourConfig,
}

impl Marker for ThreeColour {
    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        self.fill_until(now);
        let arrives = if self.config.aware { packet.dscp.colour() } else { Colour::Green };
        let colour = match self.config.buckets {
            TwoBuckets::SingleRate { .. } => self.single_rate(arrives, packet.wire_bytes),
            TwoBuckets::TwoRates { .. } => self.two_rates(arrives, packet.wire_bytes),
        };
        if colour == Colour::Red && self.config.actions.drop_red {
            return Conditioned::Drop(DropReason::Policed);
        }
        packet.dscp = Dscp::assured(self.config.actions.class, colour);
        Conditioned::Pass
    }
}

impl ThreeColour {
    fn fill_until(&mut self, now: Time) {
        let elapsed = now.since(self.updated);
        self.updated = now;
        let overflow = self.committed.fill(elapsed, 0);
        match self.config.buckets {
            TwoBuckets::SingleRate { .. } => self.other.fill(elapsed, overflow),
            TwoBuckets::TwoRates { .. } => self.other.fill(elapsed, 0),
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
        let buckets = TwoBuckets::SingleRate {
            committed_rate: BitRate::from_mbps(8), // a packet of 1000 bytes per millisecond
            committed_burst: Bytes::new(1000),
            excess_burst: Bytes::new(2000),
        };
        let mut marker = ThreeColourConfig::new(buckets).build(Time::ZERO);
        assert_eq!(colours(&mut marker, &[0, 0, 0, 0]), [Green, Yellow, Yellow, Red]);
        // After 3 ms: one packet's tokens to the committed bucket, the overflow of two to the excess bucket.
        assert_eq!(colours(&mut marker, &[3000; 4]), [Green, Yellow, Yellow, Red]);
    }

    #[test]
    fn two_rates_meter_the_peak_and_the_committed_rate() {
        use Colour::{Green, Red, Yellow};
        let buckets = TwoBuckets::TwoRates {
            committed_rate: BitRate::from_mbps(8),
            committed_burst: Bytes::new(1000),
            peak_rate: BitRate::from_mbps(16),
            peak_burst: Bytes::new(2000),
        };
        let mut marker = ThreeColourConfig::new(buckets).build(Time::ZERO);
        assert_eq!(colours(&mut marker, &[0, 0, 0]), [Green, Yellow, Red]);
        // At the peak rate, every other packet is within the committed rate.
        assert_eq!(colours(&mut marker, &[1000, 1500, 2000, 2500]), [Green, Yellow, Green, Yellow]);
    }

    #[test]
    fn red_may_be_dropped() {
        let buckets = TwoBuckets::SingleRate {
            committed_rate: BitRate::ZERO,
            committed_burst: Bytes::ZERO,
            excess_burst: Bytes::ZERO,
        };
        let actions = ColourActions { drop_red: true, ..ColourActions::default() };
        let mut marker = ThreeColourConfig { actions, ..ThreeColourConfig::new(buckets) }.build(Time::ZERO);
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
            let buckets = if two_rates {
                let (peak_rate, peak_burst) = (BitRate::from_mbps(9), Bytes::new(6000));
                TwoBuckets::TwoRates { committed_rate, committed_burst, peak_rate, peak_burst }
            } else {
                TwoBuckets::SingleRate { committed_rate, committed_burst, excess_burst: Bytes::new(6000) }
            };
            let mut border = ThreeColourConfig::new(buckets).build(Time::ZERO);
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
