//! Random early detection: tells a few flows early, at random, that a queue is building up, instead of all of them at once
//! when it overflows. Short bursts pass, because the decision looks at an average.
//!
//! Source: Floyd & Jacobson, "Random early detection gateways for congestion avoidance", `IEEE/ACM ToN` 1(4), 1993,
//! Fig. 2 and sections VII, VIII; ns-2 `red.cc` up to 2.1b5; Floyd, "Recommendations on using the gentle variant of
//! RED", 2000. Options: W. Feng, thesis, sections 3.2.6, 3.5 and 4.3.3.
//! Deviations (each a field of [`RedConfig`], since results depend on them):
//! - The gap between marks. The paper's law spreads it over `[1, 1/p_b]`, ns-2 ("wait") over `[1/p_b, 2/p_b]`, so that for the
//!   same `max_p` ns-2 marks a third as often. [`GapLaw`].
//! - As printed, the paper counts the first packet after a mark as 1 and the first one above `min_th` as 0; so gaps after
//!   a mark are uniform on `[1, 1/p_b - 1]`. Kept. In byte mode the scaled `p_b` is spread, which favours small packets more than in
//!   proportion as the count grows; the proportion is exact only as ns-2 does it.
//! - [`Flavor::Ns`]: the first packet after the average crosses `min_th` is never marked; no early or forced decision with
//!   fewer than two packets waiting; the idle law of ns-2; an overflow restarts the count; in byte mode the gap is counted
//!   in bytes.
//! - Overflow is not in the paper. It drops, whatever the packet's ECN field, and overrides an early decision (ns-2).
//! - One typical packet size serves for the idle time, for thresholds in byte mode and for scaling the probability
//!   (there the paper has the maximum, ns-2 the mean size).
//! - [`RedConfig::smoothing`] is the low-pass filter of the thesis's section 4.3.3, which gives no rule. Settled: the filter
//!   is exponential in time, its input is the whole calculated probability (0 below `min_th`, 1 where RED forces), and what
//!   comes out alone decides, early, with the gaps of the law; so there are no forced notifications, and marking goes on
//!   for a while below `min_th`, as in BLUE.
//! - [`RedConfig::flows_rtt`] is the count of connections of section 3.5, which gives no rule either. Settled: `max_p` is what
//!   equation 3.2 asks for, so that the average settles halfway between the thresholds; see [`needed_max_p`].
//! - [`RedConfig::slope_rtt`] is section 3.5's other proposal ("infer the number of connections present by the rate at which the
//!   average queue length changes"), with its "RED threshold values" as what adapts; it has no rule. Settled, and ours: see
//!   [`law::flows_from_slope`] and [`law::moved_end`]. The upper threshold moves as the end of the line, with the line of `gentle` behind
//!   it; everything is notified from `max` on as before. (A lower threshold that moves leaves the line too steep for few flows.)
//! - A limit in bytes is never exceeded; ns-2 lets the last packet exceed it.
//! - A random victim makes room only for packets that it surely fits: with a limit in bytes or time, overflow drops the
//!   arriving packet.

mod config;
mod law;

pub use config::{Flavor, GapLaw, QueueUnit, RedConfig, Victim};
pub(crate) use law::marking_probability;
pub(super) use law::{needed_max_p, spread_after_wait, spread_from_one};

use alloc::boxed::Box;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_units::{BitRate, Time};

use super::average::{AverageQueue, IdleLaw};
use super::limit::bytes32;
use super::{QueueLimit, QueueManager, Verdict};
use crate::meter::{ActiveFlows, ActiveFlowsConfig};
use crate::random::Substream;
use crate::{Context, Variable};
use law::{LowPass, Slope, moved_end, window_of_all};

impl RedConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Red {
        let (min_th, max_th) = self.thresholds().expect("checked: thresholds are in packets or bytes");
        assert!(min_th >= 0.0 && min_th < max_th, "0 <= min < max");
        assert!((0.0..=1.0).contains(&self.max_p), "max_p is a probability");
        let packet_bytes = bytes32(self.mean_packet);
        assert!(packet_bytes > 0, "a packet has bytes");
        assert!(self.smoothing.is_none_or(|span| !span.is_zero()), "a filter has a time constant");
        assert!(self.slope_rtt.is_none() || self.max_p > 0.0, "a line that rises has an end");
        for rtt in [self.flows_rtt, self.slope_rtt] {
            assert!(rtt.is_none_or(|rtt| !rtt.is_zero()), "a round trip takes time");
        }
        let count = ActiveFlowsConfig { window: self.flows_window, ..ActiveFlowsConfig::default() };
        let idle_law = if self.flavor == Flavor::Ns { IdleLaw::Ns } else { IdleLaw::Paper };
        Red {
            average: AverageQueue::new(self.weight, idle_law, packet_bytes, context.link_rate),
            count: Count::BELOW,
            between: false,
            p_b: 0.0,
            max_p: self.max_p,
            per_packet_byte: 1.0 / f64::from(packet_bytes),
            options: (self.smoothing.is_some() || self.flows_rtt.is_some() || self.slope_rtt.is_some()).then(
                || {
                    Box::new(Options {
                        low_pass: self.smoothing.map(LowPass::new),
                        active: self.flows_rtt.map(|_| count.build()),
                        slope: self.slope_rtt.map(Slope::new),
                    })
                },
            ),
            link_rate: context.link_rate,
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            min_th,
            max_th,
            line_end: max_th,
            packet_bytes,
            config: *self,
        }
    }
}

const AVERAGE_QUEUE: Variable =
    Variable::new("average_queue_packets", "The average queue of the manager, in packets.");
const MARKING_PROBABILITY: Variable =
    Variable::new("marking_probability", "The probability of the last arrival.");
const MAX_P: Variable = Variable::new("max_p", "The largest early probability; Adaptive RED moves it.");
const ACTIVE_FLOWS: Variable =
    Variable::new("active_flows", "Flows that sent within the window (with `flows_rtt`).");
const ESTIMATED_FLOWS: Variable =
    Variable::new("estimated_flows", "Flows as the slope of the average tells them (with `slope_rtt`).");
const LINE_END: Variable =
    Variable::new("max_packets", "Where the line reaches `max_p`, in packets; `slope_rtt` moves it.");

/// What may be recorded of RED that counts no flows.
pub(super) const WITHOUT_FLOWS: [Variable; 3] = [AVERAGE_QUEUE, MARKING_PROBABILITY, MAX_P];

/// The same of RED that counts them, and of RED that reads the load from the slope.
pub(super) const WITH_FLOWS: [Variable; 4] = [AVERAGE_QUEUE, MARKING_PROBABILITY, MAX_P, ACTIVE_FLOWS];
pub(super) const WITH_SLOPE: [Variable; 5] =
    [AVERAGE_QUEUE, MARKING_PROBABILITY, MAX_P, ESTIMATED_FLOWS, LINE_END];

/// See the module.
#[derive(Clone, Debug)]
pub struct Red {
    average: AverageQueue,
    count: Count,
    /// Whether a packet came between the thresholds since the average was last below them (ns-2 `old`).
    between: bool,
    /// `p_b` at the last arrival.
    p_b: f64,
    max_p: f64,
    per_packet_byte: f64,
    /// Behind one pointer, and off the way of most packets: few REDs have any.
    options: Option<Box<Options>>,
    link_rate: BitRate,
    limit: QueueLimit,
    random: Substream,
    /// `min` and `max`, packets.
    min_th: f64,
    max_th: f64,
    /// Where the line from `min_th` on reaches `max_p`: `max_th`, unless it moved.
    line_end: f64,
    packet_bytes: u32,
    config: RedConfig,
}

/// What the thesis proposes for RED, see the module.
#[derive(Clone, Debug)]
struct Options {
    low_pass: Option<LowPass>,
    active: Option<ActiveFlows>,
    slope: Option<Slope>,
}

/// Since the last mark, while the average is above `min_th`.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// -1 below `min_th`.
    packets: i64,
    bytes: u64,
}

impl Count {
    const BELOW: Self = Self { packets: -1, bytes: 0 };
    const MARKED: Self = Self { packets: 0, bytes: 0 };
}

/// What the average says of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Signal {
    None,
    Early,
    Forced,
}

impl QueueManager for Red {
    fn variables() -> &'static [Variable] {
        const { &[AVERAGE_QUEUE, MARKING_PROBABILITY, MAX_P, ACTIVE_FLOWS, ESTIMATED_FLOWS, LINE_END] }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        self.observe(packet, queue, now);
        self.decide(packet, queue, now)
    }

    fn on_idle(&mut self, now: Time) {
        self.average.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.average.set_link_rate(rate, self.packet_bytes, now);
        self.limit.set_link_rate(rate);
        self.link_rate = rate;
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "average_queue_packets" => Some(self.average.value()),
            "marking_probability" => Some(self.p_b),
            "max_p" => Some(self.max_p),
            "estimated_flows" => Some(self.options.as_ref()?.slope.as_ref()?.flows),
            "max_packets" => Some(self.line_end),
            "active_flows" => Some(f64::from(self.options.as_ref()?.active.as_ref()?.count())),
            _ => None,
        }
    }
}

impl Red {
    /// `packet` arrives and finds `queue`: the new average. [`Self::decide`] comes next.
    #[inline]
    pub(super) fn observe(&mut self, packet: &Packet, queue: Backlog, now: Time) -> f64 {
        let avg = self.average.on_arrival(self.measure(queue), now);
        if self.options.is_some() {
            self.observe_load(packet, avg, now);
        }
        avg
    }

    /// How many flows there are, by their count or by the slope of the average, which is `avg` now; and what follows for the line.
    #[cold]
    fn observe_load(&mut self, packet: &Packet, avg: f64, now: Time) {
        let Some(options) = &mut self.options else { return };
        if let (Some(counter), Some(rtt)) = (&mut options.active, self.config.flows_rtt) {
            let before = counter.count();
            let flows = counter.on_arrival(packet.flow, now);
            if flows != before {
                let window = window_of_all(self.link_rate, rtt, self.packet_bytes);
                self.max_p = needed_max_p(f64::from(flows), window, self.config.gap);
            }
        }
        if let (Some(slope), Some(rtt)) = (&mut options.slope, self.config.slope_rtt)
            && slope.observe(avg, self.link_rate, self.packet_bytes, now)
        {
            let window = window_of_all(self.link_rate, rtt, self.packet_bytes);
            // Without flows there is nothing to settle.
            let needed = needed_max_p(slope.flows.max(1.0), window, self.config.gap);
            self.line_end = moved_end(self.min_th, self.max_th, self.max_p, needed);
        }
    }

    /// What becomes of the packet that was observed.
    #[inline]
    pub(super) fn decide(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        let signal = if self.options.as_ref().is_some_and(|options| options.low_pass.is_some()) {
            self.smoothed_signal(packet.wire_bytes, queue, now)
        } else {
            self.signal(packet.wire_bytes, queue)
        };
        let verdict = if self.limit.admits(queue, packet) {
            self.verdict(signal, packet, queue)
        } else {
            self.overflow(queue)
        };
        if !matches!(verdict, Verdict::Drop(_)) {
            self.average.on_joined();
        }
        if verdict != Verdict::Accept
            && let Some(slope) = self.options.as_mut().and_then(|options| options.slope.as_mut())
        {
            slope.notified += 1;
        }
        verdict
    }

    /// The random numbers, for a law around this one: both take theirs in turn.
    pub(super) const fn random(&mut self) -> &mut Substream {
        &mut self.random
    }

    /// The packet that was observed joins without being tested.
    pub(super) const fn join_untested(&mut self) {
        self.average.on_joined();
    }

    /// `min` and `max` in packets.
    pub(super) const fn thresholds(&self) -> (f64, f64) {
        (self.min_th, self.max_th)
    }

    /// The present `max_p`.
    pub(super) const fn max_p(&self) -> f64 {
        self.max_p
    }

    /// Another `max_p`, at least 0; above 1 marking is non-linear.
    pub(super) const fn set_max_p(&mut self, max_p: f64) {
        self.max_p = max_p;
    }

    /// The queue in packets, or in typical packets' worth of bytes.
    #[inline]
    pub(super) fn measure(&self, queue: Backlog) -> f64 {
        match self.config.mode {
            QueueUnit::Packets => f64::from(queue.packets),
            QueueUnit::Bytes => queue.bytes as f64 * self.per_packet_byte,
        }
    }

    /// Floyd & Jacobson, Fig. 2, from `if min_th <= avg` on.
    #[inline]
    fn signal(&mut self, wire_bytes: u32, queue: Backlog) -> Signal {
        let avg = self.average.value();
        let ns = self.config.flavor == Flavor::Ns;
        if avg < self.min_th || (ns && self.is_short(queue)) {
            self.count = Count::BELOW;
            self.between = false;
            self.p_b = 0.0;
            return Signal::None;
        }
        if avg >= self.forced_from() {
            self.count = Count::MARKED;
            self.p_b = 1.0;
            return Signal::Forced;
        }
        self.p_b = marking_probability(avg, self.min_th, self.line_end, self.max_p);
        if ns && !self.between {
            self.between = true;
            self.count = Count { packets: 1, bytes: u64::from(wire_bytes) };
            return Signal::None;
        }
        self.draw(wire_bytes)
    }

    /// The filtered probability decides, whatever the average is now (thesis, section 4.3.3).
    #[cold]
    fn smoothed_signal(&mut self, wire_bytes: u32, queue: Backlog, now: Time) -> Signal {
        let avg = self.average.value();
        let p_b = if avg < self.min_th || (self.config.flavor == Flavor::Ns && self.is_short(queue)) {
            0.0
        } else if avg >= self.forced_from() {
            1.0
        } else {
            marking_probability(avg, self.min_th, self.line_end, self.max_p)
        };
        let filter = self.options.as_mut().and_then(|options| options.low_pass.as_mut());
        self.p_b = filter.map_or(p_b, |filter| filter.next(p_b, now));
        if self.p_b <= 0.0 {
            self.count = Count::BELOW;
            return Signal::None;
        }
        self.draw(wire_bytes)
    }

    /// One more packet since the last mark: marked with `p_a`.
    #[inline]
    fn draw(&mut self, wire_bytes: u32) -> Signal {
        self.count.packets += 1;
        self.count.bytes += u64::from(wire_bytes);
        let p_a = self.spread_probability(wire_bytes);
        if self.random.chance(p_a) {
            self.count = Count::MARKED;
            return Signal::Early;
        }
        Signal::None
    }

    /// ns-2: at most one packet, or one byte, waits.
    fn is_short(&self, queue: Backlog) -> bool {
        match self.config.mode {
            QueueUnit::Packets => queue.packets <= 1,
            QueueUnit::Bytes => queue.bytes <= 1,
        }
    }

    fn forced_from(&self) -> f64 {
        if self.config.gentle { 2.0 * self.max_th } else { self.max_th }
    }

    /// `p_a`.
    #[inline]
    fn spread_probability(&self, wire_bytes: u32) -> f64 {
        let spread = match self.config.gap {
            GapLaw::Paper => spread_from_one,
            GapLaw::Wait => spread_after_wait,
        };
        let count = self.count.packets as f64;
        let size = f64::from(wire_bytes) * self.per_packet_byte;
        match (self.config.mode, self.config.flavor) {
            (QueueUnit::Packets, _) => spread(self.p_b, count),
            // Section III: p_b <- p_b PacketSize / MaximumPacketSize, before the spread.
            (QueueUnit::Bytes, Flavor::Floyd1993) => spread((self.p_b * size).min(1.0), count),
            // ns-2 counts whole typical packets of bytes between marks, and scales after the spread.
            (QueueUnit::Bytes, Flavor::Ns) => {
                let p = spread(self.p_b, (self.count.bytes / u64::from(self.packet_bytes)) as f64);
                if p < 1.0 { (p * size).min(1.0) } else { 1.0 }
            }
        }
    }

    #[inline]
    fn verdict(&mut self, signal: Signal, packet: &Packet, queue: Backlog) -> Verdict {
        let ecn = self.config.ecn && packet.ecn.is_capable();
        match signal {
            Signal::None => Verdict::Accept,
            Signal::Early if ecn => Verdict::Mark(MarkReason::Early),
            Signal::Early => Verdict::Drop(DropReason::Early),
            Signal::Forced if ecn && self.config.mark_forced => Verdict::Mark(MarkReason::Forced),
            Signal::Forced => self.forced_drop(queue, DropReason::Forced),
        }
    }

    fn overflow(&mut self, queue: Backlog) -> Verdict {
        if self.config.flavor == Flavor::Ns {
            self.count = Count::MARKED;
        }
        if self.limit.in_packets().is_some() {
            self.forced_drop(queue, DropReason::Overflow)
        } else {
            Verdict::Drop(DropReason::Overflow)
        }
    }

    fn forced_drop(&mut self, queue: Backlog, why: DropReason) -> Verdict {
        if self.config.victim == Victim::Random {
            let position = self.random.below(queue.packets + 1);
            if position < queue.packets {
                return Verdict::Evict { position, why };
            }
        }
        Verdict::Drop(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limit::threshold;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::random::Seed;
    use crate::schedule::testing::{arrivals, drive};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_units::{Bytes, Limit, Span};

    const Q: Backlog = Backlog { packets: 10, bytes: 10_000 };

    /// A manager whose average stays where it is put: the weight is tiny.
    fn held_at(avg: f64, config: RedConfig) -> Red {
        let mut red = RedConfig { weight: 1e-300, ..config }.build(&Context::for_tests());
        red.average.force(avg);
        red
    }

    fn packet(ecn: Ecn) -> Packet {
        Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }
    }

    fn ask(red: &mut Red) -> Verdict {
        red.on_arrival(&mut packet(Ecn::NotEct), Q, Time::ZERO)
    }

    /// The lengths of the gaps between marks: 1 means the next packet.
    fn gaps(red: &mut Red, packets: u32) -> Vec<usize> {
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..packets {
            gap += 1;
            if ask(red) != Verdict::Accept {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    /// Whether `gaps` look uniform on `from..=to`: every count within five standard deviations.
    fn assert_uniform(gaps: &[usize], from: usize, to: usize) {
        let mut counts = vec![0u32; to + 1];
        for &gap in gaps {
            assert!((from..=to).contains(&gap), "a gap of {gap} outside of {from}..={to}");
            counts[gap] += 1;
        }
        let p = 1.0 / (to - from + 1) as f64;
        let (mean, deviation) = (gaps.len() as f64 * p, libm::sqrt(gaps.len() as f64 * p * (1.0 - p)));
        for &count in &counts[from..] {
            assert!((f64::from(count) - mean).abs() < 5.0 * deviation, "{count} against {mean}");
        }
    }

    #[test]
    fn probability_rises_linearly_from_min_th_to_max_th_and_gently_to_one() {
        let p = |avg| marking_probability(avg, 5.0, 15.0, 0.02);
        assert_eq!((p(5.0), p(10.0)), (0.0, 0.01));
        assert!((p(14.999_999) - 0.02).abs() < 1e-8 && (p(15.0) - 0.02).abs() < 1e-15);
        assert!((p(22.5) - 0.51).abs() < 1e-12 && p(30.0) == 1.0);
    }

    #[test]
    fn above_one_max_p_bends_the_line_upwards_and_keeps_its_ends() {
        let p = |avg, max_p| marking_probability(avg, 5.0, 15.0, max_p);
        for avg in [5.0, 7.0, 10.0, 14.0] {
            assert!((p(avg, 1.0 + 1e-12) - p(avg, 1.0)).abs() < 1e-11, "continuous at max_p = 1");
        }
        assert!((p(10.0, 2.0) - 0.75).abs() < 1e-15 && (p(10.0, 4.0) - 0.9375).abs() < 1e-15);
        assert_eq!((p(5.0, 8.0), p(15.0, 8.0), p(29.0, 8.0)), (0.0, 1.0, 1.0));
        // max_p is the slope at min_th, as it is below one.
        assert!((p(5.0 + 1e-6, 8.0) / 1e-6 * 10.0 - 8.0).abs() < 1e-4);
    }

    #[test]
    fn a_filtered_probability_follows_as_one_minus_e_to_the_minus_t_over_k() {
        let config =
            RedConfig { smoothing: Some(Span::from_millis(100)), max_p: 0.1, ..RedConfig::default() };
        let mut red = held_at(10.0, config);
        for millis in 1..=400u64 {
            red.on_arrival(&mut packet(Ecn::NotEct), Q, Time::ZERO + Span::from_millis(millis));
            let expected = 0.05 * (1.0 - libm::exp(-(millis as f64) / 100.0));
            assert!((red.variable("marking_probability").unwrap() - expected).abs() < 1e-12);
        }
        // It goes on marking below min_th, and falls as it rose.
        red.average.force(0.0);
        let before = red.p_b;
        red.on_arrival(&mut packet(Ecn::NotEct), Q, Time::ZERO + Span::from_millis(500));
        assert!((red.p_b - before * libm::exp(-1.0)).abs() < 1e-12);
    }

    #[test]
    fn a_filtered_probability_is_never_forced() {
        let config = RedConfig { smoothing: Some(Span::from_millis(10)), ..RedConfig::default() };
        let mut red = held_at(100.0, config);
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let verdicts: Vec<Verdict> =
            (1..2000).map(|k| red.on_arrival(&mut packet(Ecn::NotEct), Q, at(100 * k))).collect();
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Accept | Verdict::Drop(DropReason::Early))));
        // After many time constants everything is dropped.
        assert!(verdicts[1900..].iter().all(|v| *v == Verdict::Drop(DropReason::Early)));
    }

    #[test]
    fn max_p_grows_with_the_square_of_the_number_of_active_flows() {
        let config = RedConfig { flows_rtt: Some(Span::from_millis(100)), ..RedConfig::default() };
        let mut red = config.build(&Context::for_tests());
        assert_eq!(red.variable("max_p"), Some(0.02));
        // 10 Mbit/s for 100 ms are 125 packets of 1000 bytes.
        for flow in 0..50 {
            let mut packet = Packet::new(0, FlowId(flow), 1000);
            red.on_arrival(&mut packet, Q, Time::ZERO);
            let n = f64::from(flow + 1);
            assert_eq!(red.variable("active_flows"), Some(n));
            let expected = 1.5 * (n / 125.0) * (n / 125.0);
            assert!((red.variable("max_p").unwrap() - expected).abs() < 1e-15);
        }
        red.set_link_rate(BitRate::from_mbps(1), Time::ZERO);
        red.on_arrival(&mut Packet::new(0, FlowId(50), 1000), Q, Time::ZERO);
        assert_eq!(red.variable("max_p"), Some(1.0));
    }

    #[test]
    fn halfway_between_the_thresholds_the_needed_max_p_notifies_as_often_as_equation_3_2_asks() {
        for (law, base) in [(GapLaw::Paper, RedConfig::default()), (GapLaw::Wait, RedConfig::ns())] {
            // Windows of 10 packets: p = 0.015.
            let max_p = needed_max_p(10.0, 100.0, law);
            let mut red = held_at(10.0, RedConfig { max_p, ..base });
            let marks = gaps(&mut red, 400_000).len() as f64 / 400_000.0;
            assert!((marks / 0.015 - 1.0).abs() < 0.03, "{marks}");
        }
    }

    #[test]
    fn gaps_of_the_paper_are_uniform_from_one_to_one_less_than_one_over_p_b() {
        // avg 10 between 5 and 15 gives p_b = max_p / 2 = 1/40.
        let config = RedConfig { max_p: 0.05, ..RedConfig::default() };
        assert_uniform(&gaps(&mut held_at(10.0, config), 400_000), 1, 39);
    }

    #[test]
    fn gaps_of_ns_wait_are_uniform_from_one_over_p_b_to_twice_that() {
        let config = RedConfig { max_p: 0.0625, ..RedConfig::ns() };
        let mut red = held_at(10.0, config);
        let gaps = gaps(&mut red, 800_000);
        // The first gap also holds the packet that is never marked after the average crossed min_th.
        assert_uniform(&gaps[1..], 32, 63);
    }

    #[test]
    fn ns_marks_about_a_third_as_often_for_the_same_max_p() {
        let marks = |config| gaps(&mut held_at(10.0, config), 300_000).len() as f64;
        let paper = marks(RedConfig { max_p: 0.05, ..RedConfig::default() });
        let ns = marks(RedConfig { max_p: 0.05, ..RedConfig::ns() });
        // Mean gaps 20 and 59.5.
        assert!((paper / ns - 59.5 / 20.0).abs() < 0.1, "{}", paper / ns);
    }

    #[test]
    fn the_first_packet_above_min_th_may_be_marked_by_the_paper_but_never_by_ns() {
        let first = |config: RedConfig, seed| {
            let context = Context { seed: Seed(seed), ..Context::for_tests() };
            let mut red = RedConfig { max_p: 1.0, weight: 1e-300, ..config }.build(&context);
            red.average.force(14.99);
            ask(&mut red)
        };
        assert!((0..50).any(|seed| first(RedConfig::default(), seed) != Verdict::Accept));
        let no_wait = RedConfig { gap: GapLaw::Paper, ..RedConfig::ns() };
        assert!((0..50).all(|seed| first(no_wait, seed) == Verdict::Accept));
    }

    #[test]
    fn ns_makes_no_early_decision_with_fewer_than_two_packets_waiting() {
        let mut red = held_at(100.0, RedConfig::ns());
        let short = Backlog { packets: 1, bytes: 1000 };
        assert_eq!(red.on_arrival(&mut packet(Ecn::NotEct), short, Time::ZERO), Verdict::Accept);
        assert_eq!(ask(&mut red), Verdict::Drop(DropReason::Forced));
    }

    #[test]
    fn an_overflow_below_min_th_does_not_undo_the_protection_of_the_first_packet() {
        let mut red = held_at(0.0, RedConfig { gap: GapLaw::Paper, max_p: 1.0, ..RedConfig::ns() });
        let full = Backlog { packets: 50, bytes: 50_000 };
        let verdict = red.on_arrival(&mut packet(Ecn::NotEct), full, Time::ZERO);
        assert_eq!(verdict, Verdict::Drop(DropReason::Overflow));
        red.average.force(14.999_999_999);
        assert_eq!(ask(&mut red), Verdict::Accept);
        assert_eq!(ask(&mut red), Verdict::Drop(DropReason::Early));
    }

    #[test]
    fn above_max_th_everything_is_forced_unless_gentle() {
        let mut red = held_at(15.0, RedConfig::default());
        assert!((0..100).all(|_| ask(&mut red) == Verdict::Drop(DropReason::Forced)));
        let gentle = RedConfig { gentle: true, ..RedConfig::default() };
        let mut red_gentle = held_at(15.0, gentle);
        assert!((0..100).any(|_| ask(&mut red_gentle) == Verdict::Accept));
        red_gentle.average.force(30.0);
        assert_eq!(ask(&mut red_gentle), Verdict::Drop(DropReason::Forced));
    }

    #[test]
    fn capable_packets_are_marked_and_overflow_drops_them_all_the_same() {
        let mut red = held_at(15.0, RedConfig::default());
        let mut ask_with = |ecn, queue| red.on_arrival(&mut packet(ecn), queue, Time::ZERO);
        assert_eq!(ask_with(Ecn::Ect0, Q), Verdict::Mark(MarkReason::Forced));
        assert_eq!(ask_with(Ecn::NotEct, Q), Verdict::Drop(DropReason::Forced));
        let full = Backlog { packets: 100, bytes: 100_000 };
        assert_eq!(ask_with(Ecn::Ect0, full), Verdict::Drop(DropReason::Overflow));
        let mut dropping = held_at(15.0, RedConfig { mark_forced: false, ..RedConfig::default() });
        let verdict = dropping.on_arrival(&mut packet(Ecn::Ect0), Q, Time::ZERO);
        assert_eq!(verdict, Verdict::Drop(DropReason::Forced));
    }

    #[test]
    fn a_random_victim_is_any_packet_with_equal_probability() {
        let mut red = held_at(15.0, RedConfig { victim: Victim::Random, ..RedConfig::default() });
        let mut positions = Vec::new();
        for _ in 0..110_000 {
            positions.push(match ask(&mut red) {
                Verdict::Evict { position, why: DropReason::Forced } => position as usize,
                Verdict::Drop(DropReason::Forced) => Q.packets as usize,
                other => panic!("{other:?}"),
            });
        }
        assert_uniform(&positions, 0, 10);
    }

    #[test]
    fn in_byte_mode_a_packet_is_marked_in_proportion_to_its_size() {
        let config = RedConfig { mode: QueueUnit::Bytes, max_p: 0.02, ..RedConfig::default() };
        let ns = RedConfig {
            mode: QueueUnit::Bytes,
            max_p: 0.02,
            mean_packet: Bytes::new(1000),
            ..RedConfig::ns()
        };
        let mut waiting = held_at(10.0, ns);
        let mut sizes = Substream::new(Seed(3));
        let mut marks = [0u32; 2];
        for _ in 0..600_000 {
            let large = sizes.below(2) as usize;
            let mut packet = Packet::new(0, FlowId(0), [250, 1000][large]);
            if waiting.on_arrival(&mut packet, Q, Time::ZERO) != Verdict::Accept {
                marks[large] += 1;
            }
        }
        let ratio = f64::from(marks[1]) / f64::from(marks[0]);
        assert!((3.6..4.4).contains(&ratio), "{ratio}");
        // The paper's law: exactly for the first packet.
        let mut first = held_at(10.0, config);
        first.p_b = 0.01;
        first.count = Count::MARKED;
        assert_eq!((first.spread_probability(250), first.spread_probability(1000)), (0.0025, 0.01));
    }

    #[test]
    fn byte_mode_measures_the_queue_in_typical_packets() {
        let config = RedConfig { mode: QueueUnit::Bytes, weight: 1.0, ..RedConfig::default() };
        let mut red = config.build(&Context::for_tests());
        red.average.force(0.0);
        red.on_arrival(&mut packet(Ecn::NotEct), Backlog { packets: 100, bytes: 4000 }, Time::ZERO);
        assert_eq!(red.variable("average_queue_packets"), Some(4.0));
    }

    fn configs() -> impl Strategy<Value = RedConfig> {
        let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
        let options = (any::<bool>(), any::<bool>());
        (switches, options, 0.0..5.0f64, 0.1..10.0f64, 0.001..1.0f64, 0.0..=1.0f64, 1u32..30).prop_map(
            |((ns, bytes, gentle, random, limit_bytes), (smooth, active), min_th, width, w, max_p, limit)| {
                RedConfig {
                    min: threshold(min_th),
                    max: threshold(min_th + width),
                    weight: w,
                    max_p,
                    limit: if limit_bytes {
                        Limit::Bytes(Bytes::new(u64::from(limit) * 1000))
                    } else {
                        Limit::Packets(limit)
                    },
                    mode: if bytes { QueueUnit::Bytes } else { QueueUnit::Packets },
                    gentle,
                    victim: if random { Victim::Random } else { Victim::Arriving },
                    smoothing: smooth.then_some(Span::from_micros(100)),
                    flows_rtt: active.then_some(Span::from_millis(10)),
                    flows_window: Span::from_micros(50),
                    ..if ns { RedConfig::ns() } else { RedConfig::default() }
                }
            },
        )
    }

    #[test]
    fn a_standing_queue_tells_the_flows_by_its_notifications_and_a_rising_one_by_its_slope() {
        use law::flows_from_slope;
        // Nobody is notified: each flow adds a packet.
        assert_eq!(flows_from_slope(12.0, 0.0, 100.0), 12.0);
        assert_eq!(flows_from_slope(-3.0, 0.0, 100.0), 0.0);
        // It stands: p = 1.5 (N / packets)^2 of the packets are notified (equation 3.2).
        for flows in [2.0f64, 8.0, 32.0] {
            let notified = 1.5 * flows * flows / 125.0;
            assert!((flows_from_slope(0.0, notified, 125.0) - flows).abs() < 1e-9);
            // It rises by as much as fewer are notified.
            let rise = flows / 2.0;
            let fewer = notified / 2.0;
            assert!((flows_from_slope(rise, fewer, 125.0) - flows).abs() < 1e-9);
        }
    }

    #[test]
    fn the_line_ends_farther_off_for_fewer_flows() {
        let end = |needed| moved_end(20.0, 80.0, 0.25, needed);
        assert_eq!([end(0.25), end(0.125), end(0.5)], [80.0, 140.0, 50.0]);
        // Halfway between the thresholds the probability is half of what is needed.
        assert!((marking_probability(50.0, 20.0, end(0.125), 0.25) - 0.0625).abs() < 1e-12);
        let config =
            RedConfig { slope_rtt: Some(Span::from_millis(100)), max_p: 0.25, ..RedConfig::default() };
        let mut red = config.build(&Context::for_tests());
        assert_eq!(red.variable("max_packets"), Some(15.0));
        // 125 packets of 1000 bytes in 100 ms; nothing is notified, and the average stays: as if for one flow.
        for milli in 0..1000u64 {
            red.on_arrival(&mut packet(Ecn::Ect0), Backlog::EMPTY, Time::from_nanos(milli * 1_000_000));
        }
        assert_eq!(red.variable("estimated_flows"), Some(0.0));
        let expected = 5.0 + 10.0 * 0.25 / (1.5 / (125.0 * 125.0));
        assert!((red.variable("max_packets").unwrap() / expected - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_configuration_keeps_the_invariants(config in configs(), vector in arrivals(3, 300)) {
            let mut fifo = Fifo::new(config.build(&Context::for_tests()));
            let limit = QueueLimit::new(config.limit, BitRate::from_mbps(10));
            drive(&mut fifo, &vector, 8, |backlog| assert!(!limit.exceeded_by(backlog)));
            for name in ["marking_probability", "max_p"] {
                let p = fifo.variable(name).expect("RED has it");
                prop_assert!((0.0..=1.0).contains(&p));
            }
            prop_assert!(fifo.variable("average_queue_packets").is_some_and(|avg| avg >= 0.0));
        }

        #[test]
        fn spread_probabilities_are_probabilities(p_b in 0.0..=1.0f64, count in 0.0..1e6f64) {
            for p in [spread_from_one(p_b, count), spread_after_wait(p_b, count)] {
                prop_assert!((0.0..=1.0).contains(&p));
            }
        }
    }
}
