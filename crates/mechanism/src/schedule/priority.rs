//! Strict priority: the packets of a more urgent class go before all others. The simplest scheduler that differentiates, and
//! the one that can starve: what a class may take must be limited elsewhere.
//!
//! Source: RFC 2598, section 2.2 ("a simple priority queue" for expedited forwarding); Floyd & Jacobson, "Link-sharing and
//! resource management models for packet networks", `IEEE/ACM ToN` 3(4), 1995, section 3 (the general scheduler).
//! Deviations: none. A packet in transmission is not interrupted. By codepoints, [`Classification::Precedence`] is what fits:
//! their numbers as such would put expedited forwarding behind best effort, and one queue for each would reorder a class of
//! assured forwarding (RFC 2597, section 2 forbids it).

use tidegate_packet::{Backlog, Packet, Sink};
use tidegate_units::{BitRate, Limit, Time};

use super::flow_queues::{Classification, FlowQueues, FlowQueuesConfig, answered_by_queues};
use super::indexed_heap::IndexedHeap;
use crate::Context;
use crate::queue::QueueDiscipline;

/// Parameters of [`Priority`].
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityConfig {
    /// The queues; the lowest number goes first. Default: one per class, each with a limit of 100 packets, for with one limit
    /// for all a class that is never served would keep the others out.
    pub queues: FlowQueuesConfig,
}

impl Default for PriorityConfig {
    fn default() -> Self {
        let queues = FlowQueuesConfig {
            classify: Classification::Class,
            remembered: 256,
            ..FlowQueuesConfig::per_flow(Limit::Packets(100))
        };
        Self { queues }
    }
}

impl PriorityConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Priority {
        Priority { queues: FlowQueues::new(&self.queues, context), urgent: IndexedHeap::default() }
    }
}

/// See the module.
#[derive(Clone, Debug)]
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
            let queues = FlowQueuesConfig::per_flow(Limit::Packets(7));
            let mut priority = PriorityConfig { queues }.build(&Context::for_tests());
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
        let mut config = PriorityConfig::default();
        config.queues.classify = Classification::Precedence;
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
