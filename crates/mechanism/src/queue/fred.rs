//! Flow random early detection: RED that also counts what each flow has waiting, so that a flow that does not slow down
//! is held to its share. It keeps state only for flows with packets in the queue; each may keep a few packets there
//! whatever the others do.
//!
//! Source: Lin & Morris, "Dynamics of random early detection", SIGCOMM 1997, section 4 (names as there; [A], [B], [C] in
//! the code are the labels that J-Sim's author gives to three places of its pseudo-code) and section 4.5 (parameters).
//! Deviations:
//! - Which of [A], [B], [C] make up the support of many flows is not clear from the copies of the pseudo-code. [A] (each
//!   flow may keep two packets above `max_th`) and [C] (above `max_th` everything is dropped) exclude each other; so
//!   [`FredVariant::Basic`] is [B] and [C], [`FredVariant::ManyFlows`] [A] and [B] ([C] accepts). Catalogue, section 8.
//! - As printed, a packet that finds nothing waiting updates the average twice; here every packet does once when it
//!   arrives (if it is accepted or finds nothing waiting) and once when it leaves.
//! - "Idle" means that the link is idle; see [`super::AverageQueue`]. The queue does not count the packet in transmission.
//! - With no flow waiting the average per flow is the average itself, and never below one packet.
//! - Overflow is not in the pseudo-code. It drops after the decisions above, whatever the packet's ECN field.
//! - The paper only drops. With [`FredConfig::ecn`] the random notification marks what can carry a mark; flows that are
//!   held to their share, and everything above `max_th`, are dropped in any case.

use alloc::format;
use alloc::vec::Vec;

use hashbrown::HashTable;
use tidegate_packet::{Backlog, DropReason, FlowId, MarkReason, Packet};
use tidegate_parameters::{bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::average::{AverageQueue, IdleLaw};
use super::limit::{bytes32, in_packets};
use super::red::{marking_probability, spread_from_one};
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::{Substream, spread};
use crate::{Context, Variable};

words! {
    /// What happens above `max`.
    pub enum FredVariant {
        /// Everything is dropped.
        Basic = "basic",
        /// Two packets are left to each flow.
        ManyFlows = "many-flows",
    }
}

parameters! {
    /// # Flow Random Early Detection
    ///
    /// RED that counts what each flow has waiting: a flow that takes more than its share is held to it, one with little waiting
    /// is not notified at random. It keeps state only for flows with packets in the queue.
    ///
    /// Source: Lin and Morris 1997.
    #[derive(Copy)]
    pub struct FredConfig {
        /// How much may wait. Source: NBP, Table 1.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Average queue at which random notification begins, and the most that one flow may have waiting; in packets or
        /// bytes, which count as packets of `mean_packet`. Default: a quarter of `limit`. Source: Lin and Morris 1997, section
        /// 4.5 (or a round-trip time's worth, if that is less).
        min: Option<Limit> = None;
        /// Average queue above which `variant` says what happens. Default: twice `min`. Source: Lin and Morris 1997, section
        /// 4.5.
        max: Option<Limit> = None;
        /// Probability of a notification as the average reaches `max`. Source: Lin and Morris 1997, section 4.5.
        max_p: f64 = 0.02 => bound::PROBABILITY;
        /// Weight of the present queue in its average. Source: Lin and Morris 1997, section 4.5.
        weight: f64 = 0.002 => bound::GAIN;
        /// Packets that each flow may have waiting without being notified at random. Source: Lin and Morris 1997, section 4.5
        /// (2 for small queues, 4 for large ones).
        min_q: u32 = 2;
        /// What happens above `max`. Source: the reading of the catalogue, section 8; IEC and NBQ have it so.
        variant: FredVariant = FredVariant::Basic;
        /// Size of a typical packet: idle time is counted in them. Source: as RED's.
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// Whether packets of transports with ECN are marked instead of dropped at random. Source: Lin and Morris 1997 (off).
        ecn: bool = false;
    }
    check |config, report| match config.thresholds() {
        Some((min, max)) if min <= 0.0 || min.is_nan() || min >= max => {
            report.say("min", format!("min ({min} packets) is not between 0 and max ({max})"), "");
        }
        Some(_) => {}
        None => report.say("min", "min and max are not in packets or bytes", NO_THRESHOLDS),
    };
}

/// What to do where thresholds do not follow.
pub(super) const NO_THRESHOLDS: &str =
    "in packets, like `25p`, or bytes, like `25kB`; a limit in time needs `min`";

impl FredConfig {
    /// `min` and `max` in packets; none where they follow from a limit in time, or are given in time.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        quarter_and_half(self.limit, self.min, self.max, self.mean_packet)
    }
}

/// Thresholds in packets: `min` or a quarter of the limit, `max` or twice that.
pub(super) fn quarter_and_half(
    limit: Limit,
    min: Option<Limit>,
    max: Option<Limit>,
    mean_packet: Bytes,
) -> Option<(f64, f64)> {
    let min = match min {
        Some(min) => in_packets(min, mean_packet)?,
        None => in_packets(limit, mean_packet)? / 4.0,
    };
    let max = max.map_or(Some(2.0 * min), |max| in_packets(max, mean_packet))?;
    Some((min, max))
}

/// Room for so many flows is there from the start; more grow with what waits.
const FLOWS_AT_ONCE: u32 = 1024;

impl FredConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Fred {
        let (min_th, max_th) = self.thresholds().expect("checked: thresholds are in packets or bytes");
        assert!(min_th > 0.0 && min_th < max_th, "0 < min < max");
        assert!((0.0..=1.0).contains(&self.max_p), "max_p is a probability");
        let packet_bytes = bytes32(self.mean_packet);
        assert!(packet_bytes > 0, "a packet has bytes");
        let limit = QueueLimit::new(self.limit, context.link_rate);
        // Twice, so that a table from which flows come and go tidies up in place.
        let flows = 2 * limit.in_packets().unwrap_or(FLOWS_AT_ONCE).min(FLOWS_AT_ONCE) as usize;
        Fred {
            average: AverageQueue::new(self.weight, IdleLaw::Paper, packet_bytes, context.link_rate),
            avgcq: 1.0,
            count: -1,
            p_b: 0.0,
            flows: WaitingFlows { states: Vec::with_capacity(flows), at: HashTable::with_capacity(flows) },
            limit,
            random: Substream::new(context.seed),
            min_th,
            max_th,
            packet_bytes,
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Fred {
    average: AverageQueue,
    /// The average queue per flow that has packets waiting.
    avgcq: f64,
    /// Packets since the last notification; -1 below `min_th`.
    count: i64,
    /// `p_b` at the last arrival.
    p_b: f64,
    flows: WaitingFlows,
    limit: QueueLimit,
    random: Substream,
    /// `min` and `max`, packets.
    min_th: f64,
    max_th: f64,
    packet_bytes: u32,
    config: FredConfig,
}

/// What FRED knows of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Its packets that wait.
    qlen: u32,
    /// How often it asked for more than its share.
    strike: u32,
}

impl QueueManager for Fred {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("average_queue_packets", "The average queue of the manager, in packets."),
                Variable::new("marking_probability", "The probability of the last arrival."),
                Variable::new("active_flows", "Flows that have something waiting."),
            ]
        }
    }

    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let is_empty = queue.is_empty();
        if is_empty {
            self.average.on_arrival(0.0, now);
            self.average_per_flow();
        }
        let at = self.flows.find(packet.flow);
        let flow = at.map_or(Flow::default(), |at| self.flows.states[at].1);
        let avg = self.average.value();
        self.p_b = self.probability(avg);
        if self.is_beyond_its_share(flow, avg) {
            // A flow with nothing waiting is never beyond its share: there is a state to change.
            if let Some(at) = at {
                self.flows.states[at].1.strike = flow.strike.saturating_add(1);
            }
            return Verdict::Drop(DropReason::FairShare);
        }
        let verdict = self.random_drop_mode(flow, avg, self.config.ecn && packet.ecn.is_capable());
        if matches!(verdict, Verdict::Drop(_)) {
            return verdict;
        }
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        self.flows.join(packet.flow, at);
        if !is_empty {
            self.average.on_arrival(f64::from(queue.packets), now);
        }
        self.average.on_joined();
        self.average_per_flow();
        verdict
    }

    fn on_departure(&mut self, packet: &Packet, queue: Backlog, _now: Time) {
        self.average.sample(f64::from(queue.packets));
        self.average_per_flow();
        self.flows.leave(packet.flow);
    }

    fn on_idle(&mut self, now: Time) {
        self.average.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.average.set_link_rate(rate, self.packet_bytes, now);
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "average_queue_packets" => Some(self.average.value()),
            "marking_probability" => Some(self.p_b),
            "active_flows" => Some(self.flows.states.len() as f64),
            _ => None,
        }
    }
}

impl Fred {
    /// A packet that is not tested joins behind `queue`: it is a sample of the average, and part of what its flow has waiting
    /// if it `counts`.
    pub(super) fn join_untested(&mut self, packet: &Packet, counts: bool, queue: Backlog, now: Time) {
        if counts {
            self.flows.join(packet.flow, self.flows.find(packet.flow));
        }
        self.average.on_arrival(f64::from(queue.packets), now);
        self.average.on_joined();
        self.average_per_flow();
    }

    /// A packet that does not count left; `queue` still waits.
    pub(super) fn leave_uncounted(&mut self, queue: Backlog) {
        self.average.sample(f64::from(queue.packets));
        self.average_per_flow();
    }

    /// "Identify and manage non-adaptive flows."
    fn is_beyond_its_share(&self, flow: Flow, avg: f64) -> bool {
        let is_high = avg >= self.max_th;
        let many_flows = self.config.variant == FredVariant::ManyFlows;
        let maxq = if is_high && many_flows { 2.0 } else { self.min_th }; // [A]
        let qlen = f64::from(flow.qlen);
        qlen >= maxq
            || (is_high && qlen > 2.0 * self.avgcq) // [B]
            || (qlen >= self.avgcq && flow.strike > 1)
    }

    /// "Operate in random drop mode": only flows with more than their share waiting.
    fn random_drop_mode(&mut self, flow: Flow, avg: f64, can_mark: bool) -> Verdict {
        if avg < self.min_th {
            self.count = -1;
        } else if avg < self.max_th {
            self.count += 1;
            let robust = f64::from(flow.qlen) >= f64::from(self.config.min_q).max(self.avgcq);
            if robust && self.random.chance(spread_from_one(self.p_b, self.count as f64)) {
                self.count = 0;
                return if can_mark {
                    Verdict::Mark(MarkReason::Early)
                } else {
                    Verdict::Drop(DropReason::Early)
                };
            }
        } else {
            self.count = 0;
            if self.config.variant == FredVariant::Basic {
                return Verdict::Drop(DropReason::Forced); // [C]
            }
        }
        Verdict::Accept
    }

    fn probability(&self, avg: f64) -> f64 {
        let (min_th, max_th, max_p) = (self.min_th, self.max_th, self.config.max_p);
        if avg < min_th {
            0.0
        } else if avg >= max_th {
            1.0
        } else {
            marking_probability(avg, min_th, max_th, max_p)
        }
    }

    fn average_per_flow(&mut self) {
        self.avgcq = average_per_flow(self.average.value(), self.flows.states.len());
    }
}

/// `avgcq = max(1, avg / Nactive)`.
fn average_per_flow(avg: f64, nactive: usize) -> f64 {
    (avg / nactive.max(1) as f64).max(1.0)
}

/// The flows with packets waiting, at most one per packet; every operation is O(1).
#[derive(Clone, Debug)]
struct WaitingFlows {
    states: Vec<(FlowId, Flow)>,
    at: HashTable<u32>,
}

impl WaitingFlows {
    #[inline]
    fn find(&self, flow: FlowId) -> Option<usize> {
        self.at.find(spread(flow.0), |&at| self.states[at as usize].0 == flow).map(|&at| at as usize)
    }

    /// A packet of `flow`, whose state is `at`, joins.
    fn join(&mut self, flow: FlowId, at: Option<usize>) {
        if let Some(at) = at {
            self.states[at].1.qlen += 1;
            return;
        }
        self.states.push((flow, Flow { qlen: 1, strike: 0 }));
        let states = &self.states;
        let end = (states.len() - 1) as u32;
        self.at.insert_unique(spread(flow.0), end, |&other| spread(states[other as usize].0.0));
    }

    /// A packet of `flow` leaves; with its last one its state goes.
    fn leave(&mut self, flow: FlowId) {
        let Some(at) = self.find(flow) else { return };
        self.states[at].1.qlen -= 1;
        if self.states[at].1.qlen > 0 {
            return;
        }
        if let Ok(entry) = self.at.find_entry(spread(flow.0), |&other| other as usize == at) {
            entry.remove();
        }
        self.states.swap_remove(at);
        // The last state moved to where the gone one was.
        if let Some(&(moved, _)) = self.states.get(at) {
            let from = self.states.len() as u32;
            if let Some(entry) = self.at.find_mut(spread(moved.0), |&other| other == from) {
                *entry = at as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limit::threshold;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;
    use tidegate_packet::Ecn;

    /// A manager whose average stays where it is put.
    fn held_at(avg: f64, config: FredConfig) -> Fred {
        let mut fred = FredConfig { weight: 1e-300, ..config }.build(&Context::for_tests());
        fred.average.force(avg);
        fred
    }

    fn ask(fred: &mut Fred, flow: u32, queue_packets: u32) -> Verdict {
        let queue = Backlog { packets: queue_packets, bytes: 1000 * u64::from(queue_packets) };
        fred.on_arrival(&mut Packet::new(0, FlowId(flow), 1000), queue, Time::ZERO)
    }

    #[test]
    fn no_flow_has_more_than_min_th_waiting() {
        let mut fred = held_at(1.0, FredConfig::default());
        for waiting in 0..25 {
            assert_eq!(ask(&mut fred, 1, 1 + waiting), Verdict::Accept);
        }
        assert_eq!(ask(&mut fred, 1, 26), Verdict::Drop(DropReason::FairShare));
        assert_eq!(ask(&mut fred, 2, 26), Verdict::Accept);
    }

    #[test]
    fn a_flow_that_was_refused_twice_is_held_to_the_average_share() {
        let mut fred = held_at(4.0, FredConfig::default());
        for waiting in 0..25 {
            ask(&mut fred, 1, 1 + waiting);
        }
        ask(&mut fred, 2, 26);
        for _ in 0..2 {
            assert_eq!(ask(&mut fred, 1, 26), Verdict::Drop(DropReason::FairShare));
        }
        for left in (0..20).rev() {
            fred.on_departure(
                &Packet::new(0, FlowId(1), 1000),
                Backlog { packets: left + 6, bytes: 0 },
                Time::ZERO,
            );
        }
        assert_eq!(ask(&mut fred, 1, 6), Verdict::Drop(DropReason::FairShare), "5 waiting, 2 is the share");
        assert_eq!(ask(&mut fred, 2, 6), Verdict::Accept, "1 waiting");
    }

    #[test]
    fn a_flow_with_little_waiting_is_never_notified_at_random() {
        let config = FredConfig { max_p: 1.0, ..FredConfig::default() };
        let mut fred = held_at(49.9, config);
        for flow in 0..30 {
            for _ in 0..2 {
                assert_eq!(ask(&mut fred, flow, 1 + flow), Verdict::Accept);
            }
        }
        assert_eq!(ask(&mut fred, 0, 60), Verdict::Drop(DropReason::Early));
        let mut marking = held_at(49.9, FredConfig { ecn: true, ..config });
        // Thirty other flows make the share small.
        for other in 2..32 {
            ask(&mut marking, other, 1);
        }
        let mut capable = Packet { ecn: Ecn::Ect0, ..Packet::new(0, FlowId(1), 1000) };
        let queue = Backlog { packets: 1, bytes: 1000 };
        let verdicts = [(); 3].map(|()| marking.on_arrival(&mut capable, queue, Time::ZERO));
        assert_eq!(verdicts, [Verdict::Accept, Verdict::Accept, Verdict::Mark(MarkReason::Early)]);
    }

    #[test]
    fn above_max_th_the_basic_variant_drops_all_and_the_other_leaves_two_packets_to_each_flow() {
        let mut basic = held_at(50.0, FredConfig::default());
        assert_eq!(ask(&mut basic, 1, 60), Verdict::Drop(DropReason::Forced));
        let many = FredConfig { variant: FredVariant::ManyFlows, ..FredConfig::default() };
        let mut fred = held_at(50.0, many);
        for flow in 0..40 {
            let verdicts = [(); 3].map(|()| ask(&mut fred, flow, 60));
            let refused = Verdict::Drop(DropReason::FairShare);
            assert_eq!(verdicts, [Verdict::Accept, Verdict::Accept, refused]);
        }
    }

    #[test]
    fn a_million_flows_change_no_memory() {
        let mut fifo = Fifo::new(FredConfig::default().build(&Context::for_tests()));
        let mut out = Counted::default();
        let mut capacity = None;
        for flow in 0..1_000_000u32 {
            fifo.enqueue(
                Packet::new(0, FlowId(flow.wrapping_mul(2_654_435_761)), 1000),
                Time::ZERO,
                &mut out,
            );
            if fifo.backlog().packets > 20 {
                fifo.dequeue(Time::ZERO, &mut out);
            }
            let flows = &fifo.manager().flows;
            let now = (flows.states.capacity(), flows.at.capacity());
            assert_eq!(*capacity.get_or_insert(now), now, "flow {flow}");
        }
        assert_eq!(fifo.manager().flows.states.len(), 20);
    }

    proptest! {
        #[test]
        fn the_table_holds_the_flows_that_wait_and_nothing_else(
            arrivals in arrivals(12, 300), limit in 4u32..40, min_th in 1.0..10.0f64, width in 0.5..10.0f64,
            w in 0.001..0.9f64, max_p in 0.0..=1.0f64, many: bool,
        ) {
            let variant = if many { FredVariant::ManyFlows } else { FredVariant::Basic };
            let limit_packets = Limit::Packets(limit);
            let max_th = min_th + width;
            let config =
                FredConfig { min: Some(threshold(min_th)), max: Some(threshold(max_th)), weight: w, max_p, variant, limit: limit_packets, ..FredConfig::default() };
            let mut fifo = Fifo::new(config.build(&Context::for_tests()));
            drive(&mut fifo, &arrivals, 8, |waiting| assert!(waiting.packets <= limit));
            prop_assert!(fifo.manager().flows.states.is_empty() && fifo.manager().flows.at.is_empty());
            prop_assert!(fifo.variable("average_queue_packets").is_some_and(|avg| avg >= 0.0));
        }

        #[test]
        fn a_flow_is_known_by_exactly_its_packets(steps in prop::collection::vec((any::<bool>(), 0u32..9), 1..400)) {
            let mut flows = FredConfig::default().build(&Context::for_tests()).flows;
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (joins, flow) in steps {
                let at = flows.find(FlowId(flow));
                prop_assert_eq!(at.map(|at| flows.states[at].1.qlen), model.get(&flow).copied());
                if joins {
                    flows.join(FlowId(flow), at);
                    *model.entry(flow).or_default() += 1;
                } else if let Some(left) = model.get_mut(&flow) {
                    flows.leave(FlowId(flow));
                    *left -= 1;
                    model.retain(|_, packets| *packets > 0);
                }
                prop_assert_eq!(flows.states.len(), model.len());
                prop_assert_eq!(flows.at.len(), model.len());
            }
        }
    }
}
