//! Deficit round robin: flows share a link fairly in bytes, whatever their packet sizes, at O(1) work per packet. Each
//! queue may send its quantum per round; what it could not use, because the next packet was larger, it keeps.
//!
//! Source: Shreedhar & Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995, section 3, and ns-2
//! `drr.cc` (drop from the head of the longest queue, section 3's "`FreeBuffer`").
//! Deviations:
//! - The quantum may be below the largest packet (NBQ: 1000 against 1040 bytes); such a packet waits several rounds, and
//!   the work per packet grows by their number.
//! - A queue's weight multiplies its quantum.
//! - Of several longest queues the one with the lowest number gives up a packet; ns-2 takes the first in the round.
//! - A manager that drops at the head may leave a larger packet than the one that the deficit was checked for; it goes,
//!   and the deficit falls below zero, to be made up in later rounds.

use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::flow_queues::{Classification, FlowQueues, FlowQueuesConfig, NONE, SlotId, answered_by_queues};
use crate::Context;
use crate::queue::{ManagerConfig, QueueDiscipline};

parameters! {
    /// # Deficit Round Robin
    ///
    /// The queues take turns; in its turn each may send `quantum` more bytes, times its weight. When the total overflows, the
    /// longest queue loses its head.
    ///
    /// Source: Shreedhar and Varghese 1995; ns.
    pub struct DrrConfig {
        /// Bytes per turn. Source: NBQ, section 2 (1000 bytes); Shreedhar and Varghese 1995, section 3, advise the largest
        /// packet, ns has 250.
        quantum: Bytes = Bytes::new(1000) => QUANTUM;
        /// How much may wait in all queues together. Source: NBP, Table 1.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// What shares one queue. Source: NBQ, section 2 (per flow).
        classify: Classification = Classification::Flow;
        /// What manages each queue, besides the limit of all together. Default: none.
        queue: Option<ManagerConfig> = None => bound::INSIDE;
    }
    world {
        /// Weights other than 1, by number of flow, class or port.
        weight_of: Vec<(u32, f64)> = Vec::new();
    }
}

/// What a turn may be.
const QUANTUM: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(u32::MAX as u64))
    .saying("", " is no quantum")
    .helping("from 1B to 4GB");

impl DrrConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Drr {
        assert!(self.quantum > Bytes::ZERO, "a queue without a quantum never sends");
        let queues = FlowQueuesConfig::given(
            self.classify,
            self.queue.as_ref(),
            None,
            Some(self.limit),
            &self.weight_of,
        );
        Drr {
            queues: FlowQueues::new(&queues, context),
            quantum: self.quantum.as_f64(),
            head: NONE,
            active: 0,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Drr {
    queues: FlowQueues<Turn>,
    /// Of weight 1.
    quantum: f64,
    /// The queue whose turn it is: the head of the ring of queues with packets.
    head: SlotId,
    active: u32,
}

/// What the ring knows of a queue.
#[derive(Clone, Debug, Default)]
struct Turn {
    /// `DC_i`, bytes.
    deficit: i64,
    /// `Q_i`, bytes.
    quantum: i64,
    /// Whether the quantum of this round is in the deficit.
    served: bool,
    before: SlotId,
    after: SlotId,
}

impl QueueDiscipline for Drr {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        let quantum = self.quantum;
        let slot = self.queues.slot_of(&packet, |weight, turn| *turn = Turn::new(quantum * weight));
        let (before, after) = self.queues.enqueue(slot, packet, now, out);
        if before.is_empty() {
            if after.is_empty() {
                self.queues.release(slot);
                return;
            }
            self.join_ring(slot);
        }
        while let Some(longest) = self.queues.overfull() {
            self.queues.drop_head(longest, now, out);
            if self.queues.queue_backlog(longest).is_empty() {
                self.leave_ring(longest);
            }
        }
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.queues.on_transmitted(now);
        while self.head != NONE {
            let slot = self.head;
            let size = i64::from(self.queues.head(slot)?.wire_bytes);
            let turn = self.queues.state_mut(slot);
            if !turn.served {
                turn.served = true;
                turn.deficit += turn.quantum;
            }
            if size > turn.deficit {
                turn.served = false;
                self.head = turn.after;
                continue;
            }
            let (packet, _, after) = self.queues.dequeue(slot, now, out);
            if let Some(sent) = packet {
                self.queues.state_mut(slot).deficit -= i64::from(sent.wire_bytes);
            }
            if after.is_empty() {
                self.leave_ring(slot);
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        while self.head != NONE {
            let slot = self.head;
            self.queues.purge(slot, now, why, out);
            self.leave_ring(slot);
        }
    }

    answered_by_queues!();
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.queues.set_link_rate(rate, now);
    }
    fn variable(&self, name: &str) -> Option<f64> {
        (name == "active_queues").then(|| f64::from(self.active))
    }
}

impl Turn {
    fn new(quantum: f64) -> Self {
        // A tiny weight still makes progress in every round.
        let quantum = (quantum as i64).max(1);
        Self { deficit: 0, quantum, served: false, before: NONE, after: NONE }
    }
}

impl Drr {
    /// To the end of the ring: just before the queue whose turn it is.
    fn join_ring(&mut self, slot: SlotId) {
        let next = if self.head == NONE { slot } else { self.head };
        let last = if self.head == NONE { slot } else { self.queues.state(next).before };
        let turn = self.queues.state_mut(slot);
        (turn.deficit, turn.served, turn.before, turn.after) = (0, false, last, next);
        self.queues.state_mut(last).after = slot;
        self.queues.state_mut(next).before = slot;
        self.head = next;
        self.active += 1;
    }

    fn leave_ring(&mut self, slot: SlotId) {
        let &Turn { before, after, .. } = self.queues.state(slot);
        self.queues.state_mut(before).after = after;
        self.queues.state_mut(after).before = before;
        if self.head == slot {
            self.head = if after == slot { NONE } else { after };
        }
        self.active -= 1;
        self.queues.release(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;

    fn drr(quantum: u64, limit: Limit) -> Drr {
        DrrConfig { quantum: Bytes::new(quantum), limit, ..DrrConfig::default() }.build(&Context::for_tests())
    }

    fn enqueue(drr: &mut Drr, flow: u32, bytes: u32, out: &mut Counted) {
        drr.enqueue(Packet::new(0, FlowId(flow), bytes), Time::ZERO, out);
    }

    fn order(drr: &mut Drr, packets: usize) -> Vec<(u32, u32)> {
        let mut out = Counted::default();
        let mut next = || drr.dequeue(Time::ZERO, &mut out).map(|p| (p.flow.0, p.wire_bytes));
        (0..packets).map_while(|_| next()).collect()
    }

    #[test]
    fn what_a_turn_leaves_over_is_used_in_the_next_round() {
        // The quantum is 500. After 200, the 750 must wait; then 300 + 500 pay for it and for the 20.
        let mut drr = drr(500, Limit::Packets(100));
        let mut out = Counted::default();
        for (flow, bytes) in [(1, 200), (2, 500), (1, 750), (1, 20), (2, 500)] {
            enqueue(&mut drr, flow, bytes, &mut out);
        }
        assert_eq!(order(&mut drr, 9), [(1, 200), (2, 500), (1, 750), (1, 20), (2, 500)]);
    }

    #[test]
    fn a_quantum_below_the_packet_makes_it_wait_for_the_next_round() {
        // NBQ: quantum 1000, packets 1040. 25 rounds give 25,000 bytes: 24 packets.
        let mut drr = drr(1000, Limit::Packets(1000));
        let mut out = Counted::default();
        for _ in 0..60 {
            enqueue(&mut drr, 0, 1040, &mut out);
            enqueue(&mut drr, 1, 1000, &mut out);
        }
        let sent = order(&mut drr, 49);
        assert_eq!(sent.iter().filter(|(flow, _)| *flow == 0).count(), 24);
    }

    #[test]
    fn an_emptied_queue_forgets_its_deficit() {
        let mut drr = drr(1500, Limit::Packets(100));
        let mut out = Counted::default();
        enqueue(&mut drr, 0, 100, &mut out);
        assert_eq!(order(&mut drr, 2).len(), 1);
        // With the 1400 bytes left over, both would go in one turn.
        for _ in 0..2 {
            enqueue(&mut drr, 0, 1450, &mut out);
            enqueue(&mut drr, 1, 1450, &mut out);
        }
        assert_eq!(order(&mut drr, 4).iter().map(|s| s.0).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }

    #[test]
    fn when_all_is_full_the_head_of_the_longest_queue_goes() {
        let mut drr = drr(1500, Limit::Bytes(Bytes::new(3000)));
        let mut out = Counted::default();
        for (flow, bytes) in [(0, 700), (0, 701), (1, 1400), (2, 300)] {
            enqueue(&mut drr, flow, bytes, &mut out);
        }
        assert_eq!(out.drops.iter().map(|(p, _)| p.wire_bytes).collect::<Vec<_>>(), [700]);
    }

    #[test]
    fn a_queue_of_weight_three_sends_three_times_as_much() {
        let config = DrrConfig {
            quantum: Bytes::new(1500),
            limit: Limit::Packets(1000),
            weight_of: [(1, 3.0)].to_vec(),
            ..DrrConfig::default()
        };
        let mut drr = config.build(&Context::for_tests());
        for _ in 0..100 {
            enqueue(&mut drr, 0, 1500, &mut Counted::default());
            enqueue(&mut drr, 1, 1500, &mut Counted::default());
        }
        let sent = order(&mut drr, 100);
        assert_eq!(sent.iter().filter(|(flow, _)| *flow == 1).count(), 75);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_reordered_and_the_limit_holds(
            vector in arrivals(6, 300), quantum in 200u64..2000, packets in 1u32..20
        ) {
            drive(&mut drr(quantum, Limit::Packets(packets)), &vector, 8, |b| assert!(b.packets <= packets));
            let limit = Limit::Bytes(Bytes::new(u64::from(packets) * 500));
            drive(&mut drr(quantum, limit), &vector, 8, |b| assert!(b.bytes <= u64::from(packets) * 500));
        }

        /// Shreedhar & Varghese, section 4: over any interval in which two flows of equal quantum are
        /// backlogged, what they send differs by at most Q + 2 (Max - 1) for Q >= Max; with a smaller quantum by the
        /// same derivation (each flow sends m Q less than Max either way, and rounds differ by one).
        #[test]
        fn backlogged_flows_differ_by_at_most_a_quantum_and_two_packets(
            sizes in prop::collection::vec((40u32..=1500, 40u32..=1500, 40u32..=1500), 100), quantum in 200u64..4000,
        ) {
            let mut drr = drr(quantum, Limit::Packets(u32::MAX));
            let mut out = Counted::default();
            for &(a, b, c) in &sizes {
                for (flow, size) in [(0, a), (1, b), (2, c)] { enqueue(&mut drr, flow, size, &mut out); }
            }
            let mut served = Vec::from([[0i64; 3]]);
            while (0..3).all(|flow| drr.queues_hold(flow)) {
                let mut sums = served[served.len() - 1];
                let packet = drr.dequeue(Time::ZERO, &mut out).expect("three flows wait");
                sums[packet.flow.0 as usize] += i64::from(packet.wire_bytes);
                served.push(sums);
            }
            let bound = quantum.cast_signed() + 2 * 1499;
            // Extremes of the difference over any interval: running maximum minus minimum of the cumulated difference.
            for (i, j) in [(0, 1), (0, 2), (1, 2)] {
                let differences = served.iter().map(|sums| sums[i] - sums[j]);
                let (low, high) = differences.fold((0, 0), |(l, h), d| (d.min(l), d.max(h)));
                prop_assert!(high - low <= bound, "{} > {bound}", high - low);
            }
        }
    }

    impl Drr {
        fn queues_hold(&mut self, flow: u32) -> bool {
            let slot = self.queues.slot_of(&Packet::new(0, FlowId(flow), 0), |_, _| ());
            !self.queues.queue_backlog(slot).is_empty()
        }
    }
}
