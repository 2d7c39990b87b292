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
use tidegate_parameters::{Check as _, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::throughput::{EngineMeter, Throughput};
use super::{Conditioned, Marker};
use crate::random::Substream;
use crate::{Context, Variable};

words! {
    /// How a marking engine's probability follows the throughput.
    pub enum MarkingLaw {
        /// At most one marked packet more, or less, per round trip.
        Friendly = "tcp-friendly",
        /// In steps of up to `step` at every update.
        Independent = "tcp-independent",
    }
}

parameters! {
    /// # Packet marking engine
    ///
    /// Watches the rate that passes and marks just so many packets that the target is met. It stands outside of the hosts;
    /// for the one inside TCP see the transport's `control`.
    ///
    /// Source: thesis of Feng, section 6.3, Figs 6.2 and 6.6.
    #[derive(Copy)]
    pub struct MarkingEngineConfig {
        /// The rate that its flows shall have together.
        target: BitRate => bound::RATE;
        /// How the marking probability follows. Source: thesis of Feng, Fig. 6.6.
        law: MarkingLaw = MarkingLaw::Friendly;
        /// The largest change of the probability per update, for `tcp-independent`. Source: thesis of Feng, Fig. 6.4 (0.01, 1).
        step: f64 = 0.01;
        /// The round-trip time, for `tcp-friendly`. Source: thesis of Feng, Fig. 6.3 (five links of 10 ms, both ways).
        rtt: Span = Span::from_millis(100);
        /// A typical packet, for `tcp-friendly`. Source: thesis of Feng, section 5.3.1 (1 KB).
        packet: Bytes = Bytes::new(1000);
        /// How the throughput is measured. Source: thesis of Feng, section 6.3.
        meter: EngineMeter = EngineMeter::Weighted;
        /// The weight of the newest interval. Source: assumed; slower ones mark for swings that are over
        /// (`feng/6.12-choices`; chapter 6 runs with 0.5).
        weight: f64 = 0.15;
        /// Intervals in the sliding window. Source: assumed, one second.
        windows: u32 = 10;
        /// How often the throughput is measured. Source: thesis of Feng, section 6.3.1.
        interval: Span = Span::from_millis(100) => bound::DURATION;
        /// Codepoint of marked packets, 0 to 63. Source: RFC 2597 (AF11).
        marked: u8 = Dscp::AF11.get() => bound::CODEPOINT;
        /// Codepoint of the others, 0 to 63. Source: best effort.
        unmarked: u8 = Dscp::BEST_EFFORT.get() => bound::CODEPOINT;
    }
    check |config, report| {
        // What the law and the meter do not need may be anything.
        match config.law {
            MarkingLaw::Friendly => {
                bound::DURATION.check("rtt", &config.rtt, report);
                bound::PACKET.check("packet", &config.packet, report);
            }
            MarkingLaw::Independent => bound::ABOVE_ZERO.check("step", &config.step, report),
        }
        config.meter.check(config.weight, config.windows, report);
    };
}

impl MarkingEngineConfig {
    /// An engine that starts at `now` and marks nothing.
    pub fn build(&self, context: &Context, now: Time) -> MarkingEngine {
        assert!(!self.target.is_zero(), "an engine without a target has nothing to do");
        MarkingEngine {
            observed: Throughput::new(self.meter.with(self.weight, self.windows), self.interval, now),
            p_mark: 0.0,
            random: Substream::new(context.seed),
            marked: Dscp::new(self.marked),
            unmarked: Dscp::new(self.unmarked),
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
    marked: Dscp,
    unmarked: Dscp,
    config: MarkingEngineConfig,
}

impl Marker for MarkingEngine {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("marking_probability", "The probability with which it marks."),
                Variable::new("throughput_bps", "The throughput that it observes."),
            ]
        }
    }

    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        let target = self.config.target.as_bytes_per_second_f64();
        match self.config.law {
            MarkingLaw::Independent => {
                let step = self.config.step;
                let p_mark = &mut self.p_mark;
                self.observed.advance(now, |observed| *p_mark = independent(*p_mark, observed, target, step));
            }
            MarkingLaw::Friendly => {
                self.observed.advance(now, |_| ());
                let observed = self.observed.bytes_per_second();
                let cwnd = observed * self.config.rtt.as_secs_f64() / self.config.packet.as_f64();
                self.p_mark = friendly(self.p_mark, observed < target, cwnd);
            }
        }
        self.observed.add(packet.wire_bytes);
        let mark = self.random.chance(self.p_mark);
        packet.dscp = if mark { self.marked } else { self.unmarked };
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

    fn config() -> MarkingEngineConfig {
        MarkingEngineConfig::with(BitRate::from_mbps(4))
    }

    fn independent_law(step: f64) -> MarkingEngineConfig {
        MarkingEngineConfig { law: MarkingLaw::Independent, step, ..config() }
    }

    fn build(config: MarkingEngineConfig) -> MarkingEngine {
        config.build(&Context::for_tests(), Time::ZERO)
    }

    #[test]
    fn it_marks_nothing_while_the_target_is_met_and_all_when_it_never_is() {
        for law in [independent_law(1.0), independent_law(0.1), config()] {
            let mut engine = build(law);
            pass(&mut engine, 2.0, 0, 60_000);
            assert_eq!(pass(&mut engine, 2.0, 60_000, 70_000), 1.0, "{law:?}");
            pass(&mut engine, 6.0, 70_000, 130_000);
            assert_eq!(pass(&mut engine, 6.0, 130_000, 140_000), 0.0, "{law:?}");
        }
    }

    #[test]
    fn the_friendly_law_marks_at_most_one_packet_more_per_round_trip() {
        let mut engine = build(config());
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
        let mut engine = build(independent_law(0.01));
        pass(&mut engine, 6.0, 0, 10_000);
        pass(&mut engine, 6.0, 1_000_000_000, 1_000_000_002);
        let left = engine.observed.bytes_per_second();
        assert!(left < 1e-3, "{left}");
    }

    #[test]
    fn both_meters_settle_at_the_rate_that_passes() {
        for meter in [EngineMeter::Weighted, EngineMeter::Sliding] {
            let config = MarkingEngineConfig { meter, weight: 0.15, windows: 10, ..config() };
            let mut engine = build(config);
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
            let mut engine = build(if friendly_law { config() } else { independent_law(step) });
            let mut now = 0;
            for (gap, bytes) in arrivals {
                now += gap;
                engine.on_packet(&mut Packet::new(0, FlowId(0), bytes), Time::from_nanos(now));
                prop_assert!((0.0..=1.0).contains(&engine.p_mark));
            }
        }
    }
}
