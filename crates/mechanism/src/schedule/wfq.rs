//! Weighted fair queueing: packets leave in the order in which an ideal fluid server (generalized processor sharing, GPS),
//! which serves all flows at once in proportion to their weights, would finish them.
//!
//! Source: Demers, Keshav & Shenker, SIGCOMM 1989; Parekh & Gallager, `IEEE/ACM ToN` 1(3), 1993, section III ("PGPS",
//! with its virtual time); Golestani, "A self-clocked fair queueing scheme", INFOCOM 1994.
//! Bounds: with the GPS clock a packet leaves at most `L_max / C` after GPS finishes it (Parekh & Gallager, Theorem 1);
//! self-clocked, the normalized service of two backlogged flows differs by at most `L_i / w_i + L_j / w_j` (Golestani),
//! but a packet may wait for one packet of every other flow.
//! Deviations:
//! - Neither source drops packets that wait. Here a dropped packet gives its service back: those behind it, and those to
//!   come, move forward by `L / w`; else a flow that loses packets would be charged for what it never sent.
//! - Of equal finish tags, the flow with the lowest number goes first.
//! - Virtual time is not reset when the link idles: tags then lie before it and have no effect. Where it becomes large all tags go back
//!   by as much as it does (`VIRTUAL_TIME_MAX`), so that what a packet adds is never lost in it.
//! - Weights may follow the number of active connections ([`WfqConfig::weights`]; Feng, section 5.2.2). What a queue is still owed
//!   at the change, in bytes, it is owed at its new weight.
//!
//! Cost: O(log n) amortised in the flows that wait, for both clocks. A flow enters the fluid server's set with a packet
//! and leaves it once.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::{Report, bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::active_weights::{ActiveWeights, ActiveWeightsConfig};
use super::flow_queues::{Classification, FlowQueues, FlowQueuesConfig, SlotId, answered_by_queues};
use super::indexed_heap::IndexedHeap;
use crate::Context;
use crate::meter::ActiveFlowsConfig;
use crate::queue::{ManagerConfig, QueueDiscipline};

words! {
    /// Which clock stamps the packets of a fair queue.
    pub enum WfqClock {
        /// The virtual time of the fluid system: exact.
        Gps = "gps",
        /// The stamp of the packet in service: cheaper, and independent of the rate of the link.
        SelfClocked = "self-clocked",
    }
}

words! {
    /// Where the weights of a fair queue come from.
    pub enum WfqWeights {
        /// From the flows' `weight`.
        Flows = "flows",
        /// From what is reserved for each queue and from how many connections are active in it.
        Active = "active",
    }
}

parameters! {
    /// What is reserved for a queue of `wfq`.
    #[derive(Copy)]
    pub struct WfqReservation {
        /// The number of the class, input port or codepoint.
        r#match: u32;
        /// The rate that its packets have together before the rest is shared.
        rate: BitRate;
    }
}

parameters! {
    /// # Weighted Fair Queueing
    ///
    /// Sends packets in the order in which a fluid system would finish them, so each flow gets its weight's share of the
    /// link. The weight is the flow's `weight`.
    ///
    /// Source: Demers, Keshav and Shenker 1989; Golestani 1994.
    pub struct WfqConfig {
        /// How much may wait in all queues together; the longest queue makes room. Default: 100p, unless `per_flow_limit` is
        /// given. Source: NBP, Table 1.
        limit: Option<Limit> = None => bound::QUEUE;
        /// How much may wait in each queue, where `queue` is not given. Default: no limit of its own.
        per_flow_limit: Option<Limit> = None => bound::QUEUE;
        /// Which clock stamps the packets. Source: Parekh and Gallager 1993; NBP names only "WFQ".
        clock: WfqClock = WfqClock::Gps;
        /// What shares one queue. Source: NBP, section III.
        classify: Classification = Classification::Flow;
        /// What manages each queue, besides the limits. Default: none.
        queue: Option<ManagerConfig> = None => bound::INSIDE;
        /// Where weights come from. With `active` every active connection gets the same of what is not reserved, in whichever
        /// queue it waits. Source: NBP, section III; for `active` thesis of Feng, section 5.2.2.
        weights: WfqWeights = WfqWeights::Flows;
        /// With `active`: what is reserved for queues. Source: thesis of Feng, section 5.2.2 (the reservations of controlled load).
        reserved: Vec<WfqReservation> = Vec::new();
        /// With `active`: how long a connection counts as active after a packet. Source: assumed, several round-trip times.
        active_window: Span = Span::from_secs(1) => bound::DURATION;
    }
    world {
        /// Weights other than 1, by number of flow, class or port.
        weight_of: Vec<(u32, f64)> = Vec::new();
    }
    check WfqConfig::check_together;
}

/// Queues with a reservation: every packet looks for its own.
const RESERVED_MAX: usize = 256;

impl WfqConfig {
    fn check_together(&self, report: &mut Report<'_>) {
        if self.queue.is_some() && self.per_flow_limit.is_some() {
            report.say("per_flow_limit", "not together with `queue`", "the queue has a limit of its own");
        }
        if self.weights == WfqWeights::Flows {
            if !self.reserved.is_empty() {
                report.say("reserved", "weights of flows know of no reservation", "weights = \"active\"");
            }
            let is_given = self.active_window != Self::default().active_window;
            report.idle("active_window", is_given, "weights = \"active\"");
            return;
        }
        if self.classify == Classification::Flow {
            let help = "\"class\", \"input-port\" or \"dscp\": a queue per flow has one connection";
            report.say("classify", "no queue has more connections than another", help);
        }
        if self.reserved.len() > RESERVED_MAX {
            report.say("reserved", format!("{} reservations", self.reserved.len()), "at most 256");
        }
        for (number, one) in self.reserved.iter().enumerate() {
            if self.reserved[..number].iter().any(|other| other.r#match == one.r#match) {
                report.say("reserved", format!("two reservations for {}", one.r#match), "");
            }
        }
    }

    /// The scheduler.
    pub fn build(&self, context: &Context) -> Wfq {
        let limit = match (self.limit, self.per_flow_limit) {
            (None, None) => Some(Limit::Packets(100)),
            (limit, _) => limit,
        };
        let queues = FlowQueuesConfig::given(
            self.classify,
            self.queue.as_ref(),
            self.per_flow_limit,
            limit,
            &self.weight_of,
        );
        let active = (self.weights == WfqWeights::Active).then(|| ActiveWeightsConfig {
            reserved: self.reserved.iter().map(|one| (one.r#match, one.rate)).collect(),
            count: ActiveFlowsConfig { window: self.active_window, ..ActiveFlowsConfig::default() },
        });
        Wfq::new(self.clock, &queues, active.as_ref(), context)
    }
}

impl Wfq {
    fn new(
        clock: WfqClock,
        queues: &FlowQueuesConfig,
        active: Option<&ActiveWeightsConfig>,
        context: &Context,
    ) -> Self {
        Self {
            queues: FlowQueues::new(queues, context),
            active: active.map(|active| ActiveWeights::new(active, context.link_rate)),
            clock,
            virtual_time: 0.0,
            first: IndexedHeap::default(),
            updated: Time::ZERO,
            bytes_per_second: context.link_rate.as_bytes_per_second_f64(),
            fluid: IndexedHeap::default(),
            fluid_weight: 0.0,
        }
    }
}

/// Virtual time goes no further, in bytes per weight: there the numbers tell 1/256 of a byte apart.
const VIRTUAL_TIME_MAX: f64 = (1_u64 << 44) as f64;

/// A finish tag and the number of its flow.
type Tag = (f64, u32);

/// See the module. Virtual time and tags are in bytes per weight.
#[derive(Debug)]
pub struct Wfq {
    queues: FlowQueues<Share>,
    active: Option<ActiveWeights>,
    clock: WfqClock,
    /// V.
    virtual_time: f64,
    /// Queues with packets, by the finish tag of the packet at the head.
    first: IndexedHeap<Tag>,
    /// When V was last advanced.
    updated: Time,
    /// C.
    bytes_per_second: f64,
    /// Flows that the fluid server still serves, by (at or before) their last finish tag.
    fluid: IndexedHeap<Tag>,
    /// Sum of their weights.
    fluid_weight: f64,
}

/// What the scheduler knows of a flow.
#[derive(Clone, Debug, Default)]
struct Share {
    weight: f64,
    per_weight: f64,
    /// S of the packet at the head.
    start: f64,
    /// F of the last packet: sent, or waiting.
    last_finish: f64,
    /// V at the arrival of those waiting packets that came after the fluid server had finished all before them; with the
    /// time of arrival, by which they are found. Nearly always empty: the fluid server is ahead by less than a packet.
    late_starts: VecDeque<(Time, f64)>,
}

impl QueueDiscipline for Wfq {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        if self.clock == WfqClock::Gps {
            self.advance(now);
        }
        if self.virtual_time > VIRTUAL_TIME_MAX {
            self.go_back();
        }
        let slot = self.slot_of(&packet, now);
        let size = packet.wire_bytes;
        let (before, after) = self.queues.enqueue(slot, packet, now, out);
        if after.packets > before.packets {
            self.on_joined(slot, size, before, now);
        } else {
            // Refused, or another made room. The manager has not told which; bytes say what the fluid server owes.
            self.on_replaced(slot, before, after);
        }
        while let Some(longest) = self.queues.overfull() {
            let dropped = self.queues.drop_head(longest, now, out);
            self.give_back(longest, u64::from(dropped));
            let start = self.queues.state(longest).start;
            self.on_new_head(longest, start);
        }
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.queues.on_transmitted(now);
        while let Some((_, slot)) = self.first.first() {
            let (packet, before, after) = self.queues.dequeue(slot, now, out);
            let sent = packet.map_or(0, |p| u64::from(p.wire_bytes));
            let dropped = before.bytes - after.bytes - sent;
            if dropped > 0 {
                self.give_back(slot, dropped);
            }
            let share = self.queues.state(slot);
            let finish = share.start + sent as f64 * share.per_weight;
            if self.clock == WfqClock::SelfClocked && packet.is_some() {
                self.virtual_time = self.virtual_time.max(finish); // Golestani: the tag in service
            }
            self.on_new_head(slot, finish);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        while let Some((_, slot)) = self.first.first() {
            let dropped = self.queues.purge(slot, now, why, out);
            self.give_back(slot, dropped.bytes);
            let start = self.queues.state(slot).start;
            self.on_new_head(slot, start);
        }
    }

    answered_by_queues!();
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.advance(now);
        self.bytes_per_second = rate.as_bytes_per_second_f64();
        self.queues.set_link_rate(rate, now);
        if let Some(active) = &mut self.active {
            active.set_link_rate(rate);
            self.reweigh();
        }
    }
    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "active_queues" => Some(self.first.len() as f64),
            "virtual_time_bytes" => Some(self.virtual_time),
            _ => None,
        }
    }
}

impl Wfq {
    /// The slot of `packet`'s queue, of the weight that it has from now on.
    #[inline]
    fn slot_of(&mut self, packet: &Packet, now: Time) -> SlotId {
        let Some(active) = &mut self.active else {
            return self.queues.slot_of(packet, Share::restart);
        };
        let key = self.queues.key_of(packet);
        if active.on_arrival(key, packet.flow, now) {
            self.reweigh();
        }
        let weight = self.active.as_ref().map_or(1.0, |weights| weights.weight(key));
        self.queues.slot_of(packet, |_, share| Share::restart(weight, share))
    }

    /// The weights of the classes changed. V does not: what a queue is owed beyond it is owed at another rate from now on.
    fn reweigh(&mut self) {
        let Some(active) = &self.active else { return };
        self.fluid_weight = 0.0;
        for slot in 0..self.queues.slots() as SlotId {
            let key = self.queues.key(slot);
            let size = self.queues.head(slot).map(|head| f64::from(head.wire_bytes));
            let share = self.queues.state_mut(slot);
            share.reweigh(active.weight(key), self.virtual_time);
            if let Some(size) = size {
                self.first.set(slot, (share.start + size * share.per_weight, key));
            }
            if self.fluid.key(slot).is_some() {
                self.fluid_weight += share.weight;
                self.fluid.set(slot, (share.last_finish, key));
            }
        }
    }

    /// V begins at zero again, and every tag is as far from it as before. It takes as long as there are queues, once in ten thousand packets
    /// of the least weight, and in ten thousand million of weight 1.
    #[cold]
    fn go_back(&mut self) {
        let passed = core::mem::take(&mut self.virtual_time);
        for slot in 0..self.queues.slots() as SlotId {
            self.queues.state_mut(slot).go_back(passed);
            for heap in [&mut self.first, &mut self.fluid] {
                if let Some((tag, key)) = heap.key(slot) {
                    heap.set(slot, (tag - passed, key));
                }
            }
        }
    }

    /// A packet of `size` is now the last of `slot`, where `before` waited.
    fn on_joined(&mut self, slot: SlotId, size: u32, before: Backlog, now: Time) {
        let v = self.virtual_time;
        let share = self.queues.state_mut(slot);
        let start = share.last_finish.max(v); // Parekh & Gallager, section III
        let late = v > share.last_finish;
        share.last_finish = start + f64::from(size) * share.per_weight;
        let finish = share.last_finish;
        if before.is_empty() {
            share.start = start;
            self.first.set(slot, (finish, self.queues.key(slot)));
        } else if late {
            // Only managers that evict, over and over, could leave more starts than packets; the oldest are then past.
            if share.late_starts.len() > before.packets as usize {
                share.late_starts.pop_front();
            }
            share.late_starts.push_back((now, v));
        }
        if self.clock == WfqClock::Gps && self.fluid.key(slot).is_none() {
            self.fluid_weight += self.queues.state(slot).weight;
            self.fluid.set(slot, (finish, self.queues.key(slot)));
        }
    }

    /// The queue in `slot` went from `before` to `after` without growing.
    fn on_replaced(&mut self, slot: SlotId, before: Backlog, after: Backlog) {
        if after.is_empty() {
            self.release_if_done(slot);
        } else if after.bytes != before.bytes {
            let share = self.queues.state_mut(slot);
            share.last_finish += (after.bytes as f64 - before.bytes as f64) * share.per_weight;
            self.bring_fluid_forward(slot);
            let start = self.queues.state(slot).start;
            self.on_new_head(slot, start);
        }
    }

    /// Another packet, or none, is at the head of `slot`; the one before finished, virtually, at `finish`.
    fn on_new_head(&mut self, slot: SlotId, finish: f64) {
        let key = self.queues.key(slot);
        if let Some(head) = self.queues.head(slot) {
            let (size, arrived) = (head.wire_bytes, head.arrived);
            let share = self.queues.state_mut(slot);
            share.start = share.start_of_next(finish, arrived);
            let tag = share.start + f64::from(size) * share.per_weight;
            self.first.set(slot, (tag, key));
        } else {
            self.first.remove(slot);
            let share = self.queues.state_mut(slot);
            share.late_starts.clear();
            share.last_finish = finish;
            self.bring_fluid_forward(slot);
            self.release_if_done(slot);
        }
    }

    /// `bytes` of `slot` were dropped: the flow's last packet finishes earlier by their service.
    fn give_back(&mut self, slot: SlotId, bytes: u64) {
        let share = self.queues.state_mut(slot);
        share.last_finish -= bytes as f64 * share.per_weight;
        self.bring_fluid_forward(slot);
    }

    /// The last finish tag of `slot` may have become earlier.
    fn bring_fluid_forward(&mut self, slot: SlotId) {
        let last_finish = self.queues.state(slot).last_finish;
        if self.fluid.key(slot).is_some_and(|(known, _)| last_finish < known) {
            self.fluid.set(slot, (last_finish, self.queues.key(slot)));
        }
    }

    /// Neither clock needs the tags of a flow with nothing waiting and nothing in the fluid server.
    fn release_if_done(&mut self, slot: SlotId) {
        if self.fluid.key(slot).is_none() {
            self.queues.release(slot);
        }
    }

    /// V passes as `dV/dt = C / sum of weights in the fluid server` until `now` (Parekh & Gallager, section III).
    fn advance(&mut self, now: Time) {
        let mut work = now.since(self.updated).as_secs_f64() * self.bytes_per_second;
        self.updated = now;
        loop {
            let queues = &self.queues;
            let tag = |slot| (queues.state(slot).last_finish, queues.key(slot));
            let Some(((finish, _), slot)) = self.fluid.settled_first(tag) else {
                // Sums of real numbers do not come back to zero.
                self.fluid_weight = 0.0;
                return;
            };
            let needed = (finish - self.virtual_time).max(0.0) * self.fluid_weight;
            if needed > work {
                self.virtual_time += work / self.fluid_weight;
                return;
            }
            work -= needed;
            self.virtual_time = self.virtual_time.max(finish);
            self.fluid.remove(slot);
            self.fluid_weight -= queues.state(slot).weight;
            if queues.queue_backlog(slot).is_empty() {
                self.queues.release(slot);
            }
        }
    }
}

impl Share {
    /// A flow of `weight` that has sent nothing; keeps the memory.
    fn restart(weight: f64, share: &mut Self) {
        share.late_starts.clear();
        (share.weight, share.per_weight) = (weight, 1.0 / weight);
        (share.start, share.last_finish) = (0.0, 0.0);
    }

    /// All tags lie `passed` earlier.
    fn go_back(&mut self, passed: f64) {
        self.start -= passed;
        self.last_finish -= passed;
        self.late_starts.iter_mut().for_each(|(_, v)| *v -= passed);
    }

    /// Another weight at virtual time `v`: `S` and `F` keep their distance from it in bytes.
    fn reweigh(&mut self, weight: f64, v: f64) {
        let stretch = self.weight / weight;
        (self.weight, self.per_weight) = (weight, 1.0 / weight);
        self.start = v + (self.start - v) * stretch;
        self.last_finish = v + (self.last_finish - v) * stretch;
    }

    /// `S = max(F of the packet before, V at arrival)` for a packet that `arrived` behind others.
    fn start_of_next(&mut self, finish: f64, arrived: Time) -> f64 {
        let mut start = finish;
        while let Some(&(at, v)) = self.late_starts.front()
            && at <= arrived
        {
            start = start.max(v);
            self.late_starts.pop_front();
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{Arrival, Counted, arrivals, drive};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;
    use tidegate_units::{Bytes, Limit};

    fn wfq(clock: WfqClock, limit: Limit, weights: &[f64]) -> Wfq {
        let mut queues = FlowQueuesConfig::shared(limit);
        queues.weights = (0u32..).zip(weights.iter().copied()).collect();
        // One byte per 8 ns, as in the tests' link.
        let context = Context { link_rate: BitRate::from_mbps(1000), ..Context::for_tests() };
        Wfq::new(clock, &queues, None, &context)
    }

    /// When the fluid server finishes each packet, in nanoseconds: flows hold what remains of their packets, and time goes
    /// from event to event.
    fn fluid_finish(arrivals: &[Arrival], weights: &[f64], bytes_per_nano: f64) -> Vec<f64> {
        let mut finish = vec![f64::NAN; arrivals.len()];
        let mut held: Vec<VecDeque<(usize, f64)>> = vec![VecDeque::new(); weights.len()];
        let mut now = 0.0;
        let mut serve_until = |queues: &mut Vec<VecDeque<(usize, f64)>>, end: f64| {
            while now < end {
                let busy = |flow: &usize| !queues[*flow].is_empty();
                let total: f64 = (0..weights.len()).filter(busy).map(|flow| weights[flow]).sum();
                if total == 0.0 {
                    now = end;
                    return;
                }
                let rate = |flow: usize| bytes_per_nano * weights[flow] / total;
                let done = |flow: usize| (now + queues[flow][0].1 / rate(flow), flow);
                let (at, first) = (0..weights.len())
                    .filter(busy)
                    .map(done)
                    .fold((f64::MAX, 0), |a, b| if b.0 < a.0 { b } else { a });
                let step = at.min(end) - now;
                for flow in (0..weights.len()).filter(busy).collect::<Vec<_>>() {
                    queues[flow][0].1 -= rate(flow) * step;
                }
                now = at.min(end);
                if at <= end {
                    let (packet, _) = queues[first].pop_front().expect("the first to finish");
                    finish[packet] = at;
                }
            }
        };
        let mut arrives = 0.0;
        for (number, &(gap, flow, size)) in arrivals.iter().enumerate() {
            arrives += gap as f64;
            serve_until(&mut held, arrives);
            held[flow as usize].push_back((number, f64::from(size)));
        }
        serve_until(&mut held, f64::MAX);
        finish
    }

    proptest! {
        #[test]
        fn packets_leave_in_the_order_of_the_fluid_server_and_at_most_one_packet_later(
            vector in arrivals(5, 200), weights in prop::collection::vec(prop_oneof![Just(1.0), 0.25..8.0f64], 5)
        ) {
            let mut wfq = wfq(WfqClock::Gps, Limit::Packets(u32::MAX), &weights);
            let run = drive(&mut wfq, &vector, 8, |_| ());
            let finish = fluid_finish(&vector, &weights, 0.125);
            // The reference takes steps in real time; its rounding stays far below a nanosecond.
            let epsilon = 1e-3;
            for (position, (at, packet)) in run.sent.iter().enumerate() {
                let own = finish[packet.slot as usize];
                let left = at.as_nanos() as f64 + f64::from(packet.wire_bytes) * 8.0;
                prop_assert!(left <= own + 1500.0 * 8.0 + epsilon, "{left} more than a packet after {own}");
                for (_, later) in &run.sent[position + 1..] {
                    if later.arrived < *at {
                        let other = finish[later.slot as usize];
                        prop_assert!(own <= other + epsilon, "{own} went before {other}");
                    }
                }
            }
        }

        #[test]
        fn self_clocked_service_of_backlogged_flows_differs_by_at_most_a_packet_each(
            sizes in prop::collection::vec((40u32..=1500, 40u32..=1500), 100), weight in 0.25..8.0f64, gps: bool
        ) {
            let clock = if gps { WfqClock::Gps } else { WfqClock::SelfClocked };
            let mut wfq = wfq(clock, Limit::Packets(u32::MAX), &[1.0, weight]);
            let mut out = Counted::default();
            for &(a, b) in &sizes {
                for (flow, size) in [(0, a), (1, b)] {
                    wfq.enqueue(Packet::new(0, FlowId(flow), size), Time::ZERO, &mut out);
                }
            }
            let (mut left, mut now) = ([sizes.len(); 2], Time::ZERO);
            let (mut difference, mut low, mut high) = (0.0f64, 0.0f64, 0.0f64);
            while left[0] > 0 && left[1] > 0 {
                let packet = wfq.dequeue(now, &mut out).expect("both wait");
                now += tidegate_units::Span::from_nanos(u64::from(packet.wire_bytes) * 8);
                let flow = packet.flow.0 as usize;
                left[flow] -= 1;
                let bytes = f64::from(packet.wire_bytes);
                difference += if flow == 0 { bytes } else { -bytes / weight };
                (low, high) = (low.min(difference), high.max(difference));
            }
            prop_assert!(high - low <= 1500.0 + 1500.0 / weight + 1e-6);
        }

        #[test]
        fn nothing_is_lost_or_reordered_and_the_limit_holds(
            vector in arrivals(6, 300), gps: bool, packets in 1u32..20
        ) {
            let clock = if gps { WfqClock::Gps } else { WfqClock::SelfClocked };
            let run = |limit, bound: &dyn Fn(Backlog) -> bool| {
                drive(&mut wfq(clock, limit, &[1.0, 2.5]), &vector, 8, |b| assert!(bound(b)));
            };
            run(Limit::Packets(packets), &|b| b.packets <= packets);
            run(Limit::Bytes(Bytes::new(u64::from(packets) * 500)), &|b| b.bytes <= u64::from(packets) * 500);
        }

        #[test]
        fn memory_falls_back_when_flows_end(vector in arrivals(200, 400), gps: bool) {
            let clock = if gps { WfqClock::Gps } else { WfqClock::SelfClocked };
            let mut queues = FlowQueuesConfig::shared(Limit::Packets(10));
            queues.remembered = 4;
            let mut wfq = Wfq::new(clock, &queues, None, &Context::for_tests());
            drive(&mut wfq, &vector, 8, |_| ());
            let mut out = Counted::default();
            let later = Time::from_nanos(1 << 50);
            for flow in 1000..1020 {
                wfq.enqueue(Packet::new(0, FlowId(flow), 100), later + tidegate_units::Span::from_millis(u64::from(flow)), &mut out);
                wfq.dequeue(later, &mut out);
            }
            prop_assert!(wfq.first.is_empty() && wfq.fluid.len() <= 1);
        }
    }

    /// Whether the last finish tag of each flow is what its waiting packets add up to from the head on.
    fn tags_add_up(wfq: &Wfq) -> bool {
        (0..wfq.queues.slots() as SlotId).all(|slot| {
            let (share, waiting) = (wfq.queues.state(slot), wfq.queues.queue_backlog(slot));
            let chain = share.start + waiting.bytes as f64 * share.per_weight;
            waiting.is_empty() || !share.late_starts.is_empty() || (share.last_finish - chain).abs() < 1e-6
        })
    }

    #[test]
    fn tags_of_waiting_packets_close_the_gaps_that_dropped_ones_leave() {
        let mut wfq = wfq(WfqClock::Gps, Limit::Packets(10), &[1.0, 2.0, 0.5]);
        let mut out = Counted::default();
        let mut now = Time::ZERO;
        // Departures somewhat faster than the link, so that the fluid server is rarely ahead.
        for k in 0..3000u32 {
            now += tidegate_units::Span::from_nanos(3000);
            wfq.enqueue(Packet::new(k, FlowId(k * k % 7 % 3), 500 + k % 700), now, &mut out);
            assert!(tags_add_up(&wfq), "after arrival {k}");
            if k % 2 == 0 {
                wfq.dequeue(now, &mut out);
                assert!(tags_add_up(&wfq), "after departure {k}");
            }
        }
        assert_eq!(wfq.queues.slots(), 3);
        assert!(out.drops.len() > 1000);
    }

    #[test]
    fn a_flow_that_lost_packets_is_not_charged_for_them() {
        // Flow 0 offers twice the link for a second and loses half; then flow 1 starts. Both get half from then on.
        let mut wfq = wfq(WfqClock::Gps, Limit::Packets(20), &[]);
        let mut vector: Vec<Arrival> = vec![(4000, 0, 1000); 250_000 / 10];
        vector.extend((0..2000).map(|k| (4000, k % 2, 1000)));
        let run = drive(&mut wfq, &vector, 8, |_| ());
        let start = Time::from_nanos(4000 * 25_000);
        let end = Time::from_nanos(4000 * 27_000);
        let late: Vec<_> = run.sent.iter().filter(|(at, _)| *at >= start && *at < end).collect();
        let second = late.iter().filter(|(_, packet)| packet.flow.0 == 1).count();
        assert!(second.abs_diff(late.len() / 2) <= 2, "{second} of {}", late.len());
    }

    #[test]
    fn a_flow_with_weight_four_gets_four_fifths() {
        for clock in [WfqClock::Gps, WfqClock::SelfClocked] {
            let mut wfq = wfq(clock, Limit::Packets(100), &[1.0, 4.0]);
            let vector: Vec<Arrival> = (0..4000).map(|k| (4000, k % 2, 1000)).collect();
            let run = drive(&mut wfq, &vector, 8, |_| ());
            let during: Vec<_> = run.sent.iter().take(1900).collect();
            let heavy = during.iter().filter(|(_, packet)| packet.flow.0 == 1).count();
            // Flow 1 offers as much as the link sends and gets four fifths.
            assert!(heavy.abs_diff(1900 * 4 / 5) <= 10, "{heavy}");
        }
    }

    /// Sends `count` packets of 1000 bytes, while each of `flows` (class, number) keeps its class supplied in turn; the part of
    /// them that was of class 1.
    fn part_of_class_one(wfq: &mut Wfq, flows: &[(u8, u32)], count: u32, now: &mut Time) -> f64 {
        let mut turns = [0usize; 2];
        let mut supply = |scheduler: &mut Wfq, class: u8, at: Time| {
            let own: Vec<u32> = flows.iter().filter(|(of, _)| *of == class).map(|(_, flow)| *flow).collect();
            let turn = &mut turns[usize::from(class)];
            *turn += 1;
            let packet =
                Packet { class, arrived: at, ..Packet::new(0, FlowId(own[*turn % own.len()]), 1000) };
            scheduler.enqueue(packet, at, &mut Counted::default());
        };
        for class in [0, 1].repeat(20) {
            supply(wfq, class, *now);
        }
        let mut of_one = 0;
        for _ in 0..count {
            let packet = wfq.dequeue(*now, &mut Counted::default()).expect("both classes wait");
            *now = Time::from_nanos(now.as_nanos() + 8_000);
            of_one += u32::from(packet.class == 1);
            supply(wfq, packet.class, *now);
        }
        f64::from(of_one) / f64::from(count)
    }

    #[test]
    fn shares_follow_the_number_of_active_connections_in_each_class() {
        for clock in [WfqClock::Gps, WfqClock::SelfClocked] {
            let mut queues = FlowQueuesConfig::shared(Limit::Packets(1000));
            queues.classify = crate::schedule::Classification::Class;
            let active = Some(ActiveWeightsConfig {
                reserved: vec![(1, BitRate::from_mbps(400))],
                count: crate::meter::ActiveFlowsConfig {
                    window: tidegate_units::Span::from_millis(10),
                    flows_max: 100,
                },
            });
            let context = Context { link_rate: BitRate::from_mbps(1000), ..Context::for_tests() };
            let mut wfq = Wfq::new(clock, &queues, active.as_ref(), &context);
            let mut now = Time::ZERO;
            let crowd = [(1, 0), (1, 1), (0, 2), (0, 3), (0, 4), (0, 5)];
            part_of_class_one(&mut wfq, &crowd, 3_000, &mut now);
            // 600 Mb/s among six: class 1 has 400 + 200.
            let with_crowd = part_of_class_one(&mut wfq, &crowd, 20_000, &mut now);
            assert!((with_crowd - 0.6).abs() < 0.005, "{clock:?}: {with_crowd}");
            part_of_class_one(&mut wfq, &crowd[..3], 3_000, &mut now);
            // 600 Mb/s among three: class 1 has 400 + 400.
            let with_few = part_of_class_one(&mut wfq, &crowd[..3], 20_000, &mut now);
            assert!((with_few - 0.8).abs() < 0.005, "{clock:?}: {with_few}");
        }
    }

    /// Two flows of equal weights always have packets of 40 and 1500 bytes waiting, and virtual time has come to `passed`: who goes, of so
    /// many packets.
    fn goes(clock: WfqClock, passed: f64, count: u32) -> Vec<u32> {
        let put = |queue: &mut Wfq, flow: u32, at| {
            let packet = Packet { arrived: at, ..Packet::new(0, FlowId(flow), [40, 1500][flow as usize]) };
            queue.enqueue(packet, at, &mut Counted::default());
        };
        let mut wfq = wfq(clock, Limit::Packets(100), &[1.0, 1.0]);
        wfq.virtual_time = passed;
        let (mut out, mut now) = (Counted::default(), Time::ZERO);
        for flow in [0, 1] {
            for _ in 0..10 {
                put(&mut wfq, flow, now);
            }
        }
        let mut order = Vec::new();
        for _ in 0..count {
            let packet = wfq.dequeue(now, &mut out).expect("both wait");
            now += Span::from_nanos(u64::from(packet.wire_bytes) * 8);
            put(&mut wfq, packet.flow.0, now);
            order.push(packet.flow.0);
        }
        order
    }

    #[test]
    fn what_a_packet_adds_is_not_lost_in_a_large_virtual_time() {
        for clock in [WfqClock::Gps, WfqClock::SelfClocked] {
            let fresh = goes(clock, 0.0, 5000);
            for passed in [3e13, 1e17, 6e17, 9e18] {
                let order = goes(clock, passed, 5000);
                assert_eq!(order, fresh, "{passed}");
            }
            let large = fresh.iter().filter(|flow| **flow == 1).count() as f64 * 1500.0;
            let small = fresh.iter().filter(|flow| **flow == 0).count() as f64 * 40.0;
            assert!((small / large - 1.0).abs() < 0.02, "{small} and {large} bytes");
        }
    }

    #[test]
    fn what_a_link_lost_when_it_went_down_was_not_served() {
        for clock in [WfqClock::Gps, WfqClock::SelfClocked] {
            let config = WfqConfig { clock, limit: Some(Limit::Packets(1000)), ..WfqConfig::default() };
            let mut wfq = config.build(&Context { link_rate: BitRate::from_mbps(8), ..Context::for_tests() });
            let mut out = Counted::default();
            let mut offer = |to: &mut Wfq, flow, packets, at| {
                for _ in 0..packets {
                    to.enqueue(Packet { arrived: at, ..Packet::new(0, FlowId(flow), 1000) }, at, &mut out);
                }
            };
            offer(&mut wfq, 0, 80, Time::ZERO);
            offer(&mut wfq, 1, 20, Time::ZERO);
            wfq.purge(Time::ZERO, DropReason::LinkDown, &mut Counted::default());
            let now = Time::from_nanos(1_000_000);
            offer(&mut wfq, 0, 20, now);
            offer(&mut wfq, 1, 20, now);
            // Both are owed the same: of ten packets each has five.
            let first = core::iter::from_fn(|| wfq.dequeue(now, &mut Counted::default()));
            let of_one = first.take(10).filter(|packet| packet.flow.0 == 0).count();
            assert_eq!(of_one, 5, "{clock:?}");
        }
    }

    #[test]
    fn tags_that_go_back_on_the_way_change_nothing() {
        // By this clock all numbers are whole: sizes, and weights that are powers of two, leave no rest.
        let mut wfqs = [(); 2].map(|()| wfq(WfqClock::SelfClocked, Limit::Packets(100), &[1.0, 2.0, 4.0]));
        let mut out = Counted::default();
        let mut now = Time::ZERO;
        for number in 0..3000_u32 {
            // Now and then the link is idle.
            now += Span::from_nanos(u64::from(number % 17) * 1000);
            let flow = number * 7 % 3;
            let packet =
                Packet { arrived: now, ..Packet::new(number, FlowId(flow), 64 + 8 * (number * 13 % 97)) };
            for wfq in &mut wfqs {
                wfq.enqueue(packet, now, &mut out);
            }
            if number % 5 == 0 {
                wfqs[1].go_back();
            }
            if number % 3 != 0 {
                let [one, other] =
                    wfqs.each_mut().map(|wfq| wfq.dequeue(now, &mut out).map(|sent| sent.slot));
                assert_eq!(one, other, "{number}");
            }
        }
    }
}
