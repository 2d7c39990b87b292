//! A step: marks every packet beyond a threshold, of the queue that it finds or of the time that it waited. Senders that give way in
//! proportion to their marks (DCTCP, scalable congestion controls) need no smoothing in the network, and a signal without it is
//! the fastest there is.
//!
//! Source: RFC 8257, section 3.1 (by length, at the arrival); RFC 9332, section 2.5.2 and appendix A (by time, at the departure).
//! Deviations:
//! - The queue of RFC 8257 is what waits, without the packet in transmission and the one that arrives; the threshold itself is
//!   not above it.
//! - RFC 9332 leaves packets unmarked where no more than one is left behind, so that slow links are not idle. Here the time alone decides.
//! - Packets that cannot carry a mark are dropped, or pass ([`StepConfig::others`]).

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::limit::{BELOW_LIMIT, never_exceeded};
use super::{QueueLimit, QueueManager, Verdict};
use crate::{Context, Variable};

words! {
    /// What becomes of a packet beyond the threshold that cannot carry a mark.
    pub enum Unmarkable {
        /// It is dropped, as by other managers with ECN (RFC 3168, section 5).
        Drop = "drop",
        /// It passes; only the limit holds it.
        Pass = "pass",
    }
}

parameters! {
    /// # Step
    ///
    /// Marks every packet that finds more than a threshold, or has waited longer than one.
    ///
    /// Source: RFC 8257, section 3.1; RFC 9332, section 2.5.2.
    #[derive(Copy)]
    pub struct StepConfig {
        /// How much may wait. Source: NBP, Table 1 (100 packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Beyond what packets are marked: packets or bytes that wait as one arrives, or a time that one has waited as it leaves.
        /// Source: Alizadeh et al. 2010, section 3.5 (20 packets at 1 Gbit/s); RFC 9332, appendix A, has 1 ms.
        threshold: Limit = Limit::Packets(20) => bound::level("a threshold of nothing is exceeded by every packet that waits");
        /// Whether packets of transports with ECN are marked instead of dropped. Source: RFC 8257, section 3.1.
        ecn: bool = true;
        /// What becomes of packets that cannot be marked. Source: RFC 3168, section 5.
        others: Unmarkable = Unmarkable::Drop;
    }
    check |config, report| {
        if config.threshold.is_at_least(config.limit) {
            report.say("threshold", never_exceeded(config.threshold, config.limit), BELOW_LIMIT);
        }
    };
}

impl StepConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Step {
        Step { sojourn: Span::ZERO, limit: QueueLimit::new(self.limit, context.link_rate), config: *self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Step {
    /// How long the last packet had waited that left; zero where the length decides.
    sojourn: Span,
    limit: QueueLimit,
    config: StepConfig,
}

impl QueueManager for Step {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("sojourn_ms", "How long the last packet at the head had waited.")] }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if !self.limit.admits(queue, packet) {
            Verdict::Drop(DropReason::Overflow)
        } else if is_longer(queue, self.config.threshold) {
            self.notify(packet)
        } else {
            Verdict::Accept
        }
    }

    #[inline]
    fn decides_at_head(&self) -> bool {
        matches!(self.config.threshold, Limit::Time(_))
    }

    #[inline]
    fn at_head(&mut self, packet: &Packet, _queue: Backlog, now: Time) -> Verdict {
        self.sojourn = now.since(packet.arrived);
        match self.config.threshold {
            Limit::Time(threshold) if self.sojourn > threshold => self.notify(packet),
            _ => Verdict::Accept,
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "sojourn_ms" { Some(self.sojourn.as_millis_f64()) } else { None }
    }
}

impl Step {
    fn notify(&self, packet: &Packet) -> Verdict {
        if self.config.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Step)
        } else if self.config.others == Unmarkable::Drop {
            Verdict::Drop(DropReason::Early)
        } else {
            Verdict::Accept
        }
    }
}

/// Whether the queue that an arrival finds is above a threshold on its length (RFC 8257, section 3.1).
const fn is_longer(queue: Backlog, threshold: Limit) -> bool {
    match threshold {
        Limit::Packets(packets) => queue.packets > packets,
        Limit::Bytes(bytes) => queue.bytes > bytes.get(),
        Limit::Time(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_units::Bytes;

    const MARK: Verdict = Verdict::Mark(MarkReason::Step);
    const DROP: Verdict = Verdict::Drop(DropReason::Early);

    fn step(config: StepConfig) -> Step {
        config.build(&Context::for_tests())
    }

    fn arrive(config: StepConfig, ecn: Ecn, queue: Backlog) -> Verdict {
        step(config).on_arrival(&mut Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }, queue, Time::ZERO)
    }

    fn leave(config: StepConfig, ecn: Ecn, waited: Span) -> Verdict {
        let packet = Packet { ecn, arrived: Time::from_nanos(5), ..Packet::new(0, FlowId(0), 1000) };
        step(config).at_head(&packet, Backlog::EMPTY, packet.arrived + waited)
    }

    #[test]
    fn an_arrival_that_finds_more_than_the_threshold_is_marked() {
        let default = StepConfig::default();
        let queue = |packets, bytes| Backlog { packets, bytes };
        assert_eq!(arrive(default, Ecn::Ect0, queue(20, 90_000)), Verdict::Accept);
        assert_eq!(arrive(default, Ecn::Ect0, queue(21, 1)), MARK);
        let in_bytes = StepConfig { threshold: Limit::Bytes(Bytes::new(5000)), ..default };
        assert_eq!(arrive(in_bytes, Ecn::Ect0, queue(90, 5000)), Verdict::Accept);
        assert_eq!(arrive(in_bytes, Ecn::Ect0, queue(1, 5001)), MARK);
        assert_eq!(arrive(in_bytes, Ecn::Ect0, queue(100, 5001)), Verdict::Drop(DropReason::Overflow));
        assert!(!step(default).decides_at_head(), "its departures follow from its arrivals");
    }

    #[test]
    fn a_departure_that_waited_longer_than_the_threshold_is_marked() {
        let config = StepConfig { threshold: Limit::Time(Span::from_millis(1)), ..StepConfig::default() };
        assert_eq!(leave(config, Ecn::Ect0, Span::from_millis(1)), Verdict::Accept);
        assert_eq!(leave(config, Ecn::Ect0, Span::from_nanos(1_000_001)), MARK);
        assert_eq!(arrive(config, Ecn::Ect0, Backlog { packets: 99, bytes: 1 }), Verdict::Accept);
        assert!(step(config).decides_at_head());
    }

    #[test]
    fn what_cannot_be_marked_is_dropped_or_passes() {
        let long = Backlog { packets: 21, bytes: 21_000 };
        for (ecn, others, of_capable, of_others) in [
            (true, Unmarkable::Drop, MARK, DROP),
            (true, Unmarkable::Pass, MARK, Verdict::Accept),
            (false, Unmarkable::Drop, DROP, DROP),
            (false, Unmarkable::Pass, Verdict::Accept, Verdict::Accept),
        ] {
            let by_length = StepConfig { ecn, others, ..StepConfig::default() };
            assert_eq!(arrive(by_length, Ecn::Ect0, long), of_capable);
            assert_eq!(arrive(by_length, Ecn::NotEct, long), of_others);
            let by_time = StepConfig { threshold: Limit::Time(Span::from_millis(1)), ..by_length };
            assert_eq!(leave(by_time, Ecn::Ect0, Span::from_millis(2)), of_capable);
            assert_eq!(leave(by_time, Ecn::NotEct, Span::from_millis(2)), of_others);
        }
    }

    #[test]
    fn at_a_constant_rate_length_and_time_mark_the_same_packets_of_a_burst() {
        // 40 packets at once, one sent each millisecond: the first at once, so that number n waits n milliseconds.
        let marked = |threshold| {
            let mut fifo = Fifo::new(step(StepConfig { threshold, ..StepConfig::default() }));
            let mut out = Counted::default();
            for slot in 0..40 {
                let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(slot, FlowId(0), 1000) };
                fifo.enqueue(packet, Time::ZERO, &mut out);
                if slot == 0 {
                    fifo.dequeue(Time::ZERO, &mut out);
                }
            }
            for millis in 1..40 {
                fifo.dequeue(Time::ZERO + Span::from_millis(millis), &mut out);
            }
            out.marks.iter().map(|(packet, _)| packet.slot).collect::<alloc::vec::Vec<_>>()
        };
        // Number 22 finds the 21 from number 1 on.
        assert_eq!(marked(Limit::Packets(20)), (22..40).collect::<alloc::vec::Vec<_>>());
        assert_eq!(marked(Limit::Time(Span::from_millis(21))), (22..40).collect::<alloc::vec::Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_step_that_drops_bounds_the_queue_and_one_by_time_the_wait(
            vector in arrivals(3, 300), threshold in 1u32..30, micros in 1u64..200,
        ) {
            let by_length = StepConfig { threshold: Limit::Packets(threshold), ..StepConfig::default() };
            drive(&mut Fifo::new(step(by_length)), &vector, 8, |waiting| assert!(waiting.packets <= threshold + 1));
            let longest = Span::from_micros(micros);
            let by_time = StepConfig { threshold: Limit::Time(longest), ..StepConfig::default() };
            for (at, packet) in drive(&mut Fifo::new(step(by_time)), &vector, 8, |_| {}).sent {
                prop_assert!(at.since(packet.arrived) <= longest);
            }
        }
    }
}
