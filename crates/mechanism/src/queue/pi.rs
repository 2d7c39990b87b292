//! PI: a proportional integral controller in place of RED's average. What is notified depends on the integral of how far the
//! queue is from where it should be, so that in equilibrium the queue is there, however many flows there are; RED needs another length
//! of the queue for each probability.
//!
//! Source: Hollot, Misra, Towsley & Gong, "On designing improved controllers for AQM routers supporting TCP flows", INFOCOM
//! 2001, section IV; ns-2.35 `pi.cc`.
//! Deviations:
//! - The queue is sampled at multiples of [`PiConfig::period`] from time zero, and is what waits, without the packet in
//!   transmission. Samples that would change nothing are left out.
//! - The probability stays within 0 and 1, as in ns-2; the paper's linear law has no bounds.
//! - In bytes (`mode`) the queue is counted in mean packets, and a packet is notified in proportion to its size; ns-2 has two
//!   switches for that.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use super::limit::{BELOW_LIMIT, in_packets, never_exceeded};
use super::pie::next_of;
use super::red::QueueUnit;
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

/// There is a sample in each: this bounds the work.
pub(super) const PERIOD: Bound<Span> = Bound::between(Span::from_micros(10), bound::DELAY_MAX)
    .saying("", " is no time between samples")
    .helping("from 10us to 3600s: each sample is work");
/// A gain, in probability for each packet.
const GAIN: Bound<f64> = Bound::between(0.0, 1.0)
    .saying("", " is no gain")
    .helping("from 0 to 1: a packet more in the queue is no more than a probability of 1");

parameters! {
    /// # PI controller
    ///
    /// Notifies arrivals with a probability that moves, at each sample, with how far the queue is from its reference and with how
    /// it changes.
    ///
    /// Source: Hollot, Misra, Towsley and Gong 2001; ns (`Queue/PI`).
    #[derive(Copy)]
    pub struct PiConfig {
        /// How much may wait. Source: Hollot et al. 2001, section V (800 packets).
        limit: Limit = Limit::Packets(800) => bound::QUEUE;
        /// Where the queue should be, in packets or bytes. Source: ns (`qref_`); Hollot et al. 2001, section V, has 200 packets.
        q_ref: Limit = Limit::Packets(50) => bound::level("a queue is never shorter than nothing: the probability would not fall again");
        /// By how much the probability moves for each packet that this sample is above the reference. Source: Hollot et al. 2001,
        /// section IV; ns (`a_`).
        a: f64 = 1.822e-5 => GAIN;
        /// By how much it moves back for each packet that the sample before was above it; below `a`. Source: Hollot et al. 2001,
        /// section IV; ns (`b_`).
        b: f64 = 1.816e-5 => GAIN;
        /// The time between two samples. Source: Hollot et al. 2001, section IV (160 Hz); ns has 170 Hz.
        period: Span = Span::from_micros(6250) => PERIOD;
        /// What the queue counts. Source: ns (`queue_in_bytes_`, off).
        mode: QueueUnit = QueueUnit::Packets;
        /// Size of a typical packet. Source: ns (`mean_pktsize_`).
        mean_packet: Bytes = Bytes::new(500) => bound::PACKET;
        /// Whether packets of transports with ECN are marked instead of dropped. On, as with the other queues here. Source: Hollot et
        /// al. 2001, section V (marks); in ns off (`setbit_`).
        ecn: bool = true;
    }
    check |config, report| {
        if config.a <= config.b {
            let help = "a above b: what a exceeds b by leads the queue to the reference";
            report.say("a", format!("a ({}) is not above b ({})", config.a, config.b), help);
        }
        if in_packets(config.q_ref, config.mean_packet).is_none() {
            report.say("q_ref", format!("{} is a time", config.q_ref), "in packets or bytes, like `50p`");
        } else if config.q_ref.is_at_least(config.limit) {
            report.say("q_ref", never_exceeded(config.q_ref, config.limit), BELOW_LIMIT);
        }
    };
}

impl PiConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Pi {
        assert!(!self.period.is_zero(), "time moves on between samples");
        assert!(self.mean_packet.get() > 0, "a packet has bytes");
        let q_ref = in_packets(self.q_ref, self.mean_packet).expect("checked: in packets or bytes");
        Pi {
            p: 0.0,
            q_old: 0.0,
            queue: Backlog::EMPTY,
            next_sample: Time::ZERO + self.period,
            q_ref,
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pi {
    p: f64,
    /// The sample before, in packets.
    q_old: f64,
    /// What waits.
    queue: Backlog,
    next_sample: Time,
    /// In packets.
    q_ref: f64,
    limit: QueueLimit,
    random: Substream,
    config: PiConfig,
}

impl QueueManager for Pi {
    fn variables() -> &'static [Variable] {
        const {
            &[Variable::new(
                "marking_probability",
                "The probability with which packets are marked or dropped.",
            )]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if self.is_at_rest() {
            self.next_sample = next_of(self.next_sample, self.config.period, now);
        }
        let verdict = self.judge(packet, queue);
        self.queue = queue;
        if !matches!(verdict, Verdict::Drop(_)) {
            self.queue.add(packet);
        }
        verdict
    }

    #[inline]
    fn on_departure(&mut self, _packet: &Packet, queue: Backlog, _now: Time) {
        self.queue = queue;
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    #[inline]
    fn timer_at(&self) -> Option<Time> {
        if self.is_at_rest() { None } else { Some(self.next_sample) }
    }

    fn on_timer(&mut self, now: Time) {
        let q = measure(self.queue, self.config.mode, self.config.mean_packet);
        self.p = moved(self.p, q - self.q_ref, self.q_old - self.q_ref, self.config.a, self.config.b);
        self.q_old = q;
        self.next_sample = now + self.config.period;
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "marking_probability" { Some(self.p) } else { None }
    }
}

impl Pi {
    /// Whether samples change nothing until the next arrival: an empty queue after an empty one takes from a probability that there is
    /// not, for `a` is above `b`.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.p == 0.0 && self.q_old == 0.0 && self.queue.is_empty()
    }

    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog) -> Verdict {
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if !self.random.chance(by_size(self.p, packet, self.config.mode, self.config.mean_packet)) {
            Verdict::Accept
        } else if self.config.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

/// `p(kT) = a dq(kT) - b dq((k-1)T) + p((k-1)T)` (section IV), as a probability.
fn moved(p: f64, dq: f64, dq_old: f64, a: f64, b: f64) -> f64 {
    (a * dq - b * dq_old + p).clamp(0.0, 1.0)
}

/// A queue in packets, or in typical packets' worth of bytes.
pub(super) fn measure(queue: Backlog, mode: QueueUnit, mean_packet: Bytes) -> f64 {
    match mode {
        QueueUnit::Packets => f64::from(queue.packets),
        QueueUnit::Bytes => queue.bytes as f64 / mean_packet.as_f64(),
    }
}

/// The probability of one packet: in bytes in proportion to its size (ns-2).
#[inline]
pub(super) fn by_size(p: f64, packet: &Packet, mode: QueueUnit, mean_packet: Bytes) -> f64 {
    match mode {
        QueueUnit::Packets => p,
        QueueUnit::Bytes => p * f64::from(packet.wire_bytes) / mean_packet.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::settle;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{arrivals, drive};
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_parameters::{Parameters as _, Report};

    fn pi(config: PiConfig) -> Pi {
        config.build(&Context::for_tests())
    }

    /// `p` after samples of so many packets.
    fn sampled(pi: &mut Pi, queues: &[u32]) -> f64 {
        for &packets in queues {
            pi.queue = Backlog { packets, bytes: 1000 * u64::from(packets) };
            pi.on_timer(pi.timer_at().expect("it samples always"));
        }
        pi.p
    }

    #[test]
    fn the_defaults_are_the_papers_controller_sampled_160_times_a_second() {
        // C(s) = K (s/z + 1) / s with K = 9.64e-6 and z = 0.53, by the bilinear transformation.
        let (k, z, fs) = (9.64e-6, 0.53, 1.0 / PiConfig::default().period.as_secs_f64());
        let (a, b) = (k * (1.0 / z + 0.5 / fs), k * (1.0 / z - 0.5 / fs));
        assert_eq!(fs, 160.0);
        assert!(
            (a - PiConfig::default().a).abs() < 2e-8 && (b - PiConfig::default().b).abs() < 2e-8,
            "{a} {b}"
        );
    }

    #[test]
    fn a_queue_at_the_reference_leaves_the_probability_where_it_is() {
        let mut pi = Pi { p: 0.3, q_old: 50.0, ..pi(PiConfig::default()) };
        assert_eq!(sampled(&mut pi, &[50; 100]), 0.3);
    }

    #[test]
    fn a_queue_that_stays_above_it_moves_the_probability_by_a_less_b_each_time() {
        let mut pi = Pi { p: 0.1, q_old: 150.0, ..pi(PiConfig::default()) };
        let p = sampled(&mut pi, &[150; 1000]);
        assert!((p - (0.1 + 1000.0 * 100.0 * (1.822e-5 - 1.816e-5))).abs() < 1e-12, "{p}");
    }

    #[test]
    fn the_probability_is_the_sum_of_what_the_samples_say() {
        let config = PiConfig { a: 2e-3, b: 1e-3, q_ref: Limit::Packets(10), ..PiConfig::default() };
        let queues = [30, 0, 12, 80, 10];
        let mut pi = Pi { p: 0.5, q_old: 20.0, ..pi(config) };
        let p = sampled(&mut pi, &queues);
        let above: f64 = queues.iter().map(|&q| f64::from(q) - 10.0).sum();
        let before: f64 = above + 10.0 - 0.0;
        assert!((p - (0.5 + 2e-3 * above - 1e-3 * before)).abs() < 1e-12);
    }

    #[test]
    fn sources_that_answer_settle_at_the_reference() {
        for (mode, q_ref, mean) in [
            (QueueUnit::Packets, Limit::Packets(30), 500),
            (QueueUnit::Bytes, Limit::Bytes(Bytes::new(30_000)), 1000),
        ] {
            let mean_packet = Bytes::new(mean);
            let config = PiConfig { a: 1.02e-3, b: 1e-3, q_ref, mode, mean_packet, ..PiConfig::default() };
            let settled =
                settle(&mut Fifo::new(pi(config)), Some("marking_probability"), 100, |p| 1.5 - 2.5 * p);
            assert!(
                (settled.signal - 0.2).abs() < 0.002 && (settled.queue - 30.0).abs() < 1.0,
                "{settled:?}"
            );
            assert!(settled.load > 0.99 && settled.dropped == 0, "{settled:?}");
        }
    }

    #[test]
    fn in_bytes_small_packets_are_notified_less_often() {
        let config = PiConfig { mode: QueueUnit::Bytes, ..PiConfig::default() };
        let mut pi = Pi { p: 0.2, ..pi(config) };
        let mut share = |size, ecn| {
            let notified = |_: &u32| {
                let mut packet = Packet { ecn, ..Packet::new(0, FlowId(0), size) };
                pi.on_arrival(&mut packet, Backlog::EMPTY, Time::ZERO) != Verdict::Accept
            };
            (0..50_000).filter(notified).count() as f64 / 50_000.0
        };
        assert!((share(500, Ecn::Ect0) - 0.2).abs() < 0.01 && (share(250, Ecn::NotEct) - 0.1).abs() < 0.01);
    }

    #[test]
    fn gains_that_lead_nowhere_and_a_reference_in_time_are_refused() {
        let said = |config: PiConfig| {
            let mut keys = Vec::new();
            config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
            keys
        };
        let default = PiConfig::default();
        assert!(said(default).is_empty());
        assert_eq!(said(PiConfig { b: 1.822e-5, ..default }), ["a"]);
        assert_eq!(said(PiConfig { q_ref: Limit::Time(Span::from_millis(1)), ..default }), ["q_ref"]);
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limit_and_the_probability(
            vector in arrivals(3, 300), limit in 1u32..40, q_ref in 1u32..40, b in 1e-5..0.5f64, in_bytes: bool,
        ) {
            let mode = if in_bytes { QueueUnit::Bytes } else { QueueUnit::Packets };
            let period = Span::from_micros(20);
            let (limit, q_ref) = (Limit::Packets(limit), Limit::Packets(q_ref));
            let config = PiConfig { limit, q_ref, a: 1.5 * b, b, period, mode, ..PiConfig::default() };
            let mut fifo = Fifo::new(pi(config));
            let most = QueueLimit::new(limit, BitRate::from_mbps(10));
            let run = drive(&mut fifo, &vector, 8, |waiting| assert!(!most.exceeded_by(waiting)));
            prop_assert!(run.out.marks.is_empty(), "nothing here can carry a mark");
            prop_assert!((0.0..=1.0).contains(&fifo.variable("marking_probability").expect("it has one")));
        }
    }
}
