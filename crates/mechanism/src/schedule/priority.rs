//! Strict priority: the packets of a more urgent class go before all others. The simplest scheduler that differentiates, and
//! the one that can starve: what a class may take must be limited elsewhere.
//!
//! Source: RFC 2598, section 2.2 ("a simple priority queue" for expedited forwarding); Floyd & Jacobson, "Link-sharing and
//! resource management models for packet networks", `IEEE/ACM ToN` 3(4), 1995, section 3 (the general scheduler).
//! Deviations: none. A packet in transmission is not interrupted. By codepoints, [`Classification::Precedence`] is what fits:
//! their numbers as such would put expedited forwarding behind best effort, and one queue for each would reorder a class of
//! assured forwarding (RFC 2597, section 2 forbids it).

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Time};

use super::flow_queues::{Classification, FlowQueues, FlowQueuesConfig, answered_by_queues};
use super::indexed_heap::IndexedHeap;
use crate::Context;
use crate::queue::{ManagerConfig, QueueDiscipline};

parameters! {
    /// # Strict priority
    ///
    /// The packets of the class with the lowest number go before all others.
    ///
    /// Source: RFC 2598, section 2.2.
    pub struct PriorityConfig {
        /// How much may wait in each queue, where `queue` is not given: with one limit for all, a class that is never served
        /// would keep the others out.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Whose number is the priority, the lowest first; `dscp`: the first three bits of the codepoint, the highest first (RFC
        /// 2474, section 4.2.2.2): expedited forwarding, then classes 4 to 1 of assured forwarding, best effort last.
        classify: Classification = Classification::Class;
        /// What manages each queue. Default: droptail with `limit`.
        queue: Option<ManagerConfig> = None => bound::INSIDE;
    }
    check |config, report| {
        if config.classify == Classification::Flow {
            report.say("classify", "flows have no order of urgency", "\"class\", \"input-port\" or \"dscp\"");
        }
    };
}

/// How many queues with nothing waiting keep the state of their managers: one for each class that there can be.
const REMEMBERED: u32 = 256;

impl PriorityConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Priority {
        let classify = match self.classify {
            Classification::Dscp => Classification::Precedence,
            other => other,
        };
        let queues = FlowQueuesConfig {
            remembered: REMEMBERED,
            ..FlowQueuesConfig::given(classify, self.queue.as_ref(), Some(self.limit), None, &[])
        };
        Priority { queues: FlowQueues::new(&queues, context), urgent: IndexedHeap::default() }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Priority {
    queues: FlowQueues<()>,
    /// Queues with packets, by number.
    urgent: IndexedHeap<u32>,
}

impl QueueDiscipline for Priority {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        let slot = self.queues.slot_of(&packet, |_, ()| ());
        let (before, after) = self.queues.enqueue(slot, packet, now, out);
        match (before.is_empty(), after.is_empty()) {
            (true, true) => self.queues.release(slot),
            (true, false) => self.urgent.set(slot, self.queues.key(slot)),
            (false, _) => {}
        }
        while let Some(longest) = self.queues.overfull() {
            self.queues.drop_head(longest, now, out);
            if self.queues.queue_backlog(longest).is_empty() {
                self.urgent.remove(longest);
                self.queues.release(longest);
            }
        }
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.queues.on_transmitted(now);
        while let Some((_, slot)) = self.urgent.first() {
            let (packet, _, after) = self.queues.dequeue(slot, now, out);
            if after.is_empty() {
                self.urgent.remove(slot);
                self.queues.release(slot);
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        while let Some((_, slot)) = self.urgent.first() {
            self.queues.purge(slot, now, why, out);
            self.urgent.remove(slot);
            self.queues.release(slot);
        }
    }

    answered_by_queues!();
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.queues.set_link_rate(rate, now);
    }
    fn variable(&self, name: &str) -> Option<f64> {
        (name == "active_queues").then_some(self.urgent.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{Counted, arrivals, drive};
    use proptest::prelude::*;
    use tidegate_packet::{Dscp, FlowId};

    proptest! {
        #[test]
        fn the_most_urgent_packet_that_waits_goes_first_and_the_link_never_idles(vector in arrivals(6, 300)) {
            let limit = Limit::Packets(7);
            let classify = Classification::Flow;
            let mut priority = PriorityConfig { limit, classify, queue: None }.build(&Context::for_tests());
            let run = drive(&mut priority, &vector, 8, |waiting| assert!(waiting.packets <= 42));
            for (place, (at, packet)) in run.sent.iter().enumerate() {
                let overtaken = run.sent[place + 1..].iter().find(|(_, later)| {
                    later.flow < packet.flow && later.arrived < *at
                });
                prop_assert!(overtaken.is_none(), "{packet:?} before {overtaken:?}");
            }
        }
    }

    #[test]
    fn a_class_of_lower_number_passes_all_others() {
        let mut priority = PriorityConfig::default().build(&Context::for_tests());
        let mut out = Counted::default();
        for (slot, class) in (0..).zip([3, 1, 2, 1, 0]) {
            let packet = Packet { class, ..Packet::new(slot, FlowId(0), 100) };
            priority.enqueue(packet, Time::ZERO, &mut out);
        }
        let order = core::iter::from_fn(|| priority.dequeue(Time::ZERO, &mut out)).map(|p| p.slot);
        assert!(order.eq([4, 1, 3, 2, 0]));
    }

    #[test]
    fn by_codepoints_control_and_expedited_forwarding_go_first_and_assured_classes_stay_in_order() {
        let config = PriorityConfig { classify: Classification::Dscp, ..PriorityConfig::default() };
        let mut priority = config.build(&Context::for_tests());
        let mut out = Counted::default();
        // Best effort, AF12, AF11, AF41, EF, CS6.
        for (slot, dscp) in (0..).zip([0, 12, 10, 34, 46, 48]) {
            let dscp = Dscp::new(dscp);
            priority.enqueue(Packet { dscp, ..Packet::new(slot, FlowId(0), 100) }, Time::ZERO, &mut out);
        }
        let order = core::iter::from_fn(|| priority.dequeue(Time::ZERO, &mut out)).map(|p| p.slot);
        assert!(order.eq([5, 4, 3, 1, 2, 0]));
    }
}
