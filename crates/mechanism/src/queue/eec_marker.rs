//! The bottleneck of EEC: marks every packet that departs while the queue is longer than one burst for each virtual link,
//! so that all of them learn of a congestion epoch, and of nothing but that. What arrives when the queue is full is dropped.
//!
//! Source: Harrison, Kalyanaraman, "An Overlay Congestion Control Architecture for the Internet", sections II.A, III.A.
//! Deviations: the mark is the ECN field of the outer header of a tunnel between edges, so packets that cannot carry it pass
//! unmarked.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::Context;

parameters! {
    /// # Marking bottleneck of explicit edge control
    ///
    /// A drop-tail queue that marks every packet of a virtual link that departs while more than the threshold waits.
    ///
    /// Source: Harrison and Kalyanaraman 2000, section III.A.
    #[derive(Copy)]
    pub struct EecMarkerConfig {
        /// N sigma: one burst for each virtual link. Source: assumed, for ten virtual links.
        threshold: Limit = Limit::Packets(10) => bound::level("a threshold of nothing is exceeded by every packet");
        /// How much may wait, the packet in transmission not counted. Source: NBP, Table 1 (100 packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
    }
    check |config, report| {
        if matches!(config.threshold, Limit::Time(_)) {
            let help = "in packets or bytes, like `10p`: sigma for each virtual link";
            report.say("threshold", format!("{} is a time", config.threshold), help);
        }
    };
}

impl EecMarkerConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> EecMarker {
        EecMarker {
            limit: QueueLimit::new(self.limit, context.link_rate),
            threshold: QueueLimit::new(self.threshold, context.link_rate),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct EecMarker {
    limit: QueueLimit,
    threshold: QueueLimit,
}

impl QueueManager for EecMarker {
    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if self.limit.admits(queue, packet) { Verdict::Accept } else { Verdict::Drop(DropReason::Overflow) }
    }

    fn decides_at_head(&self) -> bool {
        true
    }

    #[inline]
    fn at_head(&mut self, packet: &Packet, queue: Backlog, _now: Time) -> Verdict {
        if packet.ecn.is_capable() && self.threshold.exceeded_by(queue) {
            Verdict::Mark(MarkReason::Step)
        } else {
            Verdict::Accept
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
        self.threshold.set_link_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    use tidegate_packet::{Ecn, FlowId, Sink};

    use crate::queue::{Fifo, QueueDiscipline};

    struct Drops(u32);
    impl Sink for Drops {
        fn on_drop(&mut self, _packet: Packet, why: DropReason) {
            assert_eq!(why, DropReason::Overflow);
            self.0 += 1;
        }
        fn on_mark(&mut self, _packet: &Packet, why: MarkReason) {
            assert_eq!(why, MarkReason::Step);
        }
    }

    fn marks_of(ecn: Ecn) -> (Vec<bool>, u32) {
        let config = EecMarkerConfig { threshold: Limit::Packets(4), limit: Limit::Packets(8) };
        let mut fifo = Fifo::new(config.build(&Context::for_tests()));
        let mut drops = Drops(0);
        for slot in 0..10 {
            let packet = Packet { ecn, ..Packet::new(slot, FlowId(0), 1000) };
            fifo.enqueue(packet, Time::ZERO, &mut drops);
        }
        let mut marks = Vec::new();
        while let Some(packet) = fifo.dequeue(Time::ZERO, &mut drops) {
            marks.push(packet.ecn == Ecn::Ce);
        }
        (marks, drops.0)
    }

    #[test]
    fn every_packet_that_departs_from_above_the_threshold_is_marked_and_no_other() {
        assert_eq!(marks_of(Ecn::Ect0), ([true, true, true, true, false, false, false, false].to_vec(), 2));
        assert_eq!(marks_of(Ecn::NotEct), ([false; 8].to_vec(), 2));
    }
}
