//! Packet marking engine (PME): gives a connection, or a group of them, a rate without asking the network for one. It
//! watches the rate that passes and marks just so many packets that the target is met, none while it is met anyway. It is
//! transparent: it needs neither the host's help nor the network's consent.
//!
//! Source: Feng, sections 6.3.1 to 6.3.3, Figs 6.2 and 6.6.
//! Deviations:
//! - Fig. 6.6 acts on acknowledgments; an engine outside of the host acts on the packets that pass (as many, where every
//!   packet is acknowledged), for it may not see acknowledgments (section 6.3: "forward and return paths").
//! - The round-trip time of Fig. 6.6 is a parameter for the same reason.
//! - `P_mark` is kept in [0, 1]; both figures leave it open.
//! - The weight of the throughput's average is not printed; [`MarkingEngineConfig::weight`].
//! - An engine acts on packets only: intervals in which none passed are accounted for when the next one does.

use tidegate_packet::{Dscp, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::throughput::{Throughput, ThroughputMeter};
use super::{Conditioned, Marker};
use crate::Context;
use crate::random::Substream;

/// How `P_mark` follows the throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkingLaw {
    /// In steps at every update (Fig. 6.2).
    Independent {
        /// `increment`, the largest step; above 0. The thesis has 0.01 and 1.0 (Fig. 6.4).
        step: f64,
    },
    /// As fast as TCP's window: at most one marked packet more, or less, per round trip (Fig. 6.6).
    Friendly {
        /// The round-trip time.
        rtt: Span,
        /// A typical packet, bytes, in which windows are counted.
        packet_bytes: u32,
    },
}

/// Parameters of [`MarkingEngine`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkingEngineConfig {
    /// `B_t`, above zero.
    pub target: BitRate,
    /// The law. Default Fig. 6.6 at 100 ms and 1000 bytes.
    pub law: MarkingLaw,
    /// The meter of `B_o`. Default weighted, 0.15 (assumed).
    pub meter: ThroughputMeter,
    /// How often `B_o` (and, by Fig. 6.2, `P_mark`) is computed. Default 100 ms (section 6.3.1).
    pub interval: Span,
    /// Codepoint of marked packets. Default AF11.
    pub marked: Dscp,
    /// Codepoint of the others. Default best effort.
    pub unmarked: Dscp,
}

impl MarkingEngineConfig {
    /// As in the thesis, for a target rate.
    pub const fn new(target: BitRate) -> Self {
        Self {
            target,
            law: MarkingLaw::Friendly { rtt: Span::from_millis(100), packet_bytes: 1000 },
            meter: ThroughputMeter::Weighted { weight: 0.15 },
            interval: Span::from_millis(100),
            marked: Dscp::AF11,
            unmarked: Dscp::BEST_EFFORT,
        }
    }

    /// An engine that starts at `now` and marks nothing.
    pub fn build(&self, context: &Context, now: Time) -> MarkingEngine {
        assert!(!self.target.is_zero(), "an engine without a target has nothing to do");
        MarkingEngine {
            observed: Throughput::new(self.meter, self.interval, now),
            p_mark: 0.0,
            random: Substream::new(context.seed),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct MarkingEngine {
    /// `B_o`.
    observed: Throughput,
    p_mark: f64,
    random: Substream,
    config: MarkingEngineConfig,
}

impl Marker for MarkingEngine {
    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        let target = self.config.target.as_bytes_per_second_f64();
        match self.config.law {
            MarkingLaw::Independent { step } => {
                let p_mark = &mut self.p_mark;
                self.observed.advance(now, |observed| *p_mark = independent(*p_mark, observed, target, step));
            }
            MarkingLaw::Friendly { rtt, packet_bytes } => {
                self.observed.advance(now, |_| ());
                let observed = self.observed.bytes_per_second();
                let cwnd = observed * rtt.as_secs_f64() / f64::from(packet_bytes);
                self.p_mark = friendly(self.p_mark, observed < target, cwnd);
            }
        }
        self.observed.add(packet.wire_bytes);
        let mark = self.random.chance(self.p_mark);
        packet.dscp = if mark { self.config.marked } else { self.config.unmarked };
        Conditioned::Pass
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "marking_probability" => Some(self.p_mark),
            "throughput_bps" => Some(self.observed.bytes_per_second() * 8.0),
            _ => None,
        }
    }
}

/// `P_mark +- |1 - B_o / B_t| increment` (Feng, Fig. 6.2).
fn independent(p_mark: f64, observed: f64, target: f64, increment: f64) -> f64 {
    let scale = (1.0 - observed / target).abs();
    let change = if observed < target { scale * increment } else { -scale * increment };
    (p_mark + change).clamp(0.0, 1.0)
}

/// `PWND = P_mark CWND +- 1 / CWND`, `P_mark = PWND / CWND` (Feng, Fig. 6.6), with `CWND = B_o RTT` in packets.
fn friendly(p_mark: f64, below_target: bool, cwnd: f64) -> f64 {
    // Before anything was measured a window is one packet.
    let cwnd = cwnd.max(1.0);
    let change = 1.0 / cwnd;
    let pwnd = p_mark * cwnd + if below_target { change } else { -change };
    (pwnd / cwnd).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;

    /// Passes packets of 1000 bytes at `mbps` until `until_ms`; the part that was marked.
    fn pass(engine: &mut MarkingEngine, mbps: f64, from_ms: u64, until_ms: u64) -> f64 {
        let gap = (8_000_000.0 / mbps) as u64;
        let (mut now, mut marked, mut sent) = (from_ms * 1_000_000, 0, 0);
        while now < until_ms * 1_000_000 {
            let mut packet = Packet::new(0, FlowId(0), 1000);
            engine.on_packet(&mut packet, Time::from_nanos(now));
            marked += i32::from(packet.dscp == Dscp::AF11);
            sent += 1;
            now += gap;
        }
        f64::from(marked) / f64::from(sent)
    }

    fn build(law: MarkingLaw) -> MarkingEngine {
        let config = MarkingEngineConfig { law, ..MarkingEngineConfig::new(BitRate::from_mbps(4)) };
        config.build(&Context::for_tests(), Time::ZERO)
    }

    const FRIENDLY: MarkingLaw = MarkingLaw::Friendly { rtt: Span::from_millis(100), packet_bytes: 1000 };

    #[test]
    fn it_marks_nothing_while_the_target_is_met_and_all_when_it_never_is() {
        for law in [MarkingLaw::Independent { step: 1.0 }, MarkingLaw::Independent { step: 0.1 }, FRIENDLY] {
            let mut engine = build(law);
            pass(&mut engine, 2.0, 0, 60_000);
            assert_eq!(pass(&mut engine, 2.0, 60_000, 70_000), 1.0, "{law:?}");
            pass(&mut engine, 6.0, 70_000, 130_000);
            assert_eq!(pass(&mut engine, 6.0, 130_000, 140_000), 0.0, "{law:?}");
        }
    }

    #[test]
    fn the_friendly_law_marks_at_most_one_packet_more_per_round_trip() {
        let mut engine = build(FRIENDLY);
        pass(&mut engine, 5.0, 0, 10_000);
        pass(&mut engine, 3.0, 10_000, 11_500);
        let (before, window) = (engine.p_mark, engine.observed.bytes_per_second() * 0.1 / 1000.0);
        pass(&mut engine, 3.0, 11_500, 11_600);
        let more = (engine.p_mark - before) * window;
        assert!(more > 0.8 && more <= 1.02, "{more} packets per round trip");
    }

    #[test]
    fn the_step_is_scaled_by_the_distance_to_the_target() {
        assert_eq!(independent(0.5, 3.0, 4.0, 0.1), 0.525);
        assert_eq!(independent(0.5, 5.0, 4.0, 0.1), 0.475);
        assert_eq!(independent(0.999, 0.0, 4.0, 0.1), 1.0);
    }

    #[test]
    fn a_silence_of_hours_costs_a_bounded_number_of_steps_and_leaves_nothing() {
        let mut engine = build(MarkingLaw::Independent { step: 0.01 });
        pass(&mut engine, 6.0, 0, 10_000);
        pass(&mut engine, 6.0, 1_000_000_000, 1_000_000_002);
        let left = engine.observed.bytes_per_second();
        assert!(left < 1e-3, "{left}");
    }

    #[test]
    fn both_meters_settle_at_the_rate_that_passes() {
        for meter in [ThroughputMeter::Weighted { weight: 0.15 }, ThroughputMeter::Sliding { intervals: 10 }]
        {
            let config = MarkingEngineConfig { meter, ..MarkingEngineConfig::new(BitRate::from_mbps(4)) };
            let mut engine = config.build(&Context::for_tests(), Time::ZERO);
            pass(&mut engine, 2.0, 0, 10_000);
            let measured = engine.variable("throughput_bps").expect("it has one") / 1e6;
            assert!((measured - 2.0).abs() < 0.02, "{meter:?}: {measured}");
        }
    }

    proptest! {
        #[test]
        fn the_probability_stays_a_probability(
            friendly_law in any::<bool>(),
            step in 0.001f64..5.0,
            arrivals in prop::collection::vec((0u64..500_000_000, 40u32..65_535), 1..300),
        ) {
            let mut engine = build(if friendly_law { FRIENDLY } else { MarkingLaw::Independent { step } });
            let mut now = 0;
            for (gap, bytes) in arrivals {
                now += gap;
                engine.on_packet(&mut Packet::new(0, FlowId(0), bytes), Time::from_nanos(now));
                prop_assert!((0.0..=1.0).contains(&engine.p_mark));
            }
        }
    }
}
