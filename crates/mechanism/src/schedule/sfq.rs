//! Stochastic fairness queueing: flows share a link in turns of one packet without state per flow, for a hash puts each into
//! one of a few bins, and the bins take turns. Flows that share a bin share its turn. Where bins are managed (SFQ with RED),
//! each has a part of the buffer for itself.
//!
//! Source: `McKenney`, "Stochastic fairness queueing", INFOCOM 1990; ns-2 `sfq.cc` for the rule of dropping; Feng's thesis,
//! section 4.4.2 (46 bins, each an independent RED of 9 KB), section 4.5.4 (a hash that moves reorders packets).
//! Deviations:
//! - The hash is keyed with a secret of the component; ns-2 adds and shifts addresses, so that flows can be made to collide.
//! - ns-2's rule counts packets, `McKenney` evicts from the longest queue. The rule is here, for the published results are
//!   ns-2's; eviction from the longest is what [`Drr`](super::Drr) does.
//! - When the hash moves, packets that wait stay where they are, as in thesis 4.5.4: later ones may overtake them.
//! - The hash moves with the clock (number of the period), not with the traffic, so that a change elsewhere does not shift
//!   it.

use alloc::collections::VecDeque;
use core::hash::BuildHasher;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::flow_queues::{Classification, FlowQueues, FlowQueuesConfig, SlotId, answered_by_queues};
use crate::Context;
use crate::queue::{ManagerConfig, QueueDiscipline};
use crate::random::{KeyedHash, Seed};

words! {
    /// How a flow finds its bin.
    pub enum BinHash {
        /// By a hash with a secret, which depends on the seed.
        Keyed = "keyed",
        /// By its number modulo the number of bins: the first flows have bins of their own.
        Modulo = "modulo",
    }
}

parameters! {
    /// # Stochastic Fairness Queueing
    ///
    /// A hash puts each flow into one of a few bins, and the bins take turns of one packet. With `queue`, each bin is managed by
    /// itself (SFQ with RED); else a bin may fill half of what is left of the common `limit`, as in ns.
    ///
    /// Source: `McKenney` 1990; ns; Feng's thesis, section 4.4.2.
    pub struct SfqConfig {
        /// The number of bins. Source: ns (16); Feng's thesis has 46.
        buckets: u32 = 16 => BUCKETS;
        /// How a flow finds its bin. With `modulo`, data and acknowledgments of a flow have the same one, as by the sum of addresses
        /// in ns, and as many flows as there are bins are apart.
        hash: BinHash = BinHash::Keyed;
        /// How often the hash changes; packets of a flow may then overtake each other. Default: never. Source: Feng's thesis,
        /// section 4.5.4.
        perturb: Option<Span> = None => bound::DURATION;
        /// How many packets may wait in all bins together. Default: 40p, none if `queue` is given. Source: ns.
        limit: Option<Limit> = None => bound::in_packets("40p");
        /// What is hashed.
        classify: Classification = Classification::Flow;
        /// What manages each bin. Default: none.
        queue: Option<ManagerConfig> = None => bound::INSIDE;
    }
    check |config, report| {
        if config.limit == Some(Limit::Packets(1)) {
            let help = "at least 2p: a bin takes packets below half of what is left";
            report.say("limit", "with a limit of 1p nothing waits, nor passes", help);
        }
    };
}

/// Bins, each a queue.
const BUCKETS: Bound<u32> =
    Bound::between(1, 1_000_000).saying("", " bins hold no flows").helping("from 1 to 1000000");

impl SfqConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Sfq {
        assert!(self.buckets > 0, "packets need a bin");
        assert!(
            self.perturb.is_none_or(|period| !period.is_zero()),
            "a hash that always moves finds nothing"
        );
        let queues = FlowQueuesConfig {
            // Each bin keeps its manager for good.
            remembered: self.buckets,
            ..FlowQueuesConfig::given(Classification::Flow, self.queue.as_ref(), None, None, &[])
        };
        let limit = match (self.limit, &self.queue) {
            (Some(Limit::Packets(packets)), _) => Some(packets),
            (Some(Limit::Bytes(_) | Limit::Time(_)), _) => unreachable!("checked: the limit is in packets"),
            (None, Some(_)) => None,
            (None, None) => Some(40),
        };
        Sfq {
            queues: FlowQueues::new(&queues, context),
            turns: VecDeque::with_capacity(self.buckets as usize),
            hash: KeyedHash::new(context.seed),
            period: 0,
            seed: context.seed,
            limit,
            config: self.clone(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Sfq {
    queues: FlowQueues<()>,
    /// Bins with packets; the first is next.
    turns: VecDeque<SlotId>,
    hash: KeyedHash,
    /// How often the hash has moved.
    period: u64,
    seed: Seed,
    /// Packets in all bins together, shared by ns-2's rule; `None` leaves all to the managers.
    limit: Option<u32>,
    config: SfqConfig,
}

impl QueueDiscipline for Sfq {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        self.move_hash(now);
        let bin = self.bin_of(&packet);
        let slot = self.queues.slot_of_key(bin, |_, ()| ());
        let was_empty = self.queues.queue_backlog(slot).is_empty();
        if self.limit.is_some_and(|limit| self.refuses(slot, limit)) {
            out.on_drop(packet, DropReason::Overflow);
            if was_empty {
                self.queues.release(slot);
            }
            return;
        }
        let (_, after) = self.queues.enqueue(slot, packet, now, out);
        match (was_empty, after.is_empty()) {
            (true, true) => self.queues.release(slot),
            (true, false) => self.turns.push_back(slot),
            (false, _) => {}
        }
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.queues.on_transmitted(now);
        while let Some(slot) = self.turns.pop_front() {
            let (packet, _, after) = self.queues.dequeue(slot, now, out);
            if after.is_empty() {
                self.queues.release(slot);
            } else {
                self.turns.push_back(slot);
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        while let Some(slot) = self.turns.pop_front() {
            self.queues.purge(slot, now, why, out);
            self.queues.release(slot);
        }
    }

    answered_by_queues!();
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.queues.set_link_rate(rate, now);
    }
    fn variable(&self, name: &str) -> Option<f64> {
        (name == "active_queues").then_some(self.turns.len() as f64)
    }
}

impl Sfq {
    fn bin_of(&self, packet: &Packet) -> u32 {
        let key = self.config.classify.key(packet);
        let bins = u64::from(self.config.buckets);
        let bin = match self.config.hash {
            // Multiply and shift: the upper bits of a good hash, without a division.
            BinHash::Keyed => ((u128::from(self.hash.hash_one(key)) * u128::from(bins)) >> 64) as u64,
            BinHash::Modulo => {
                // Numbers of flows are pairs, one for each direction: by themselves, data would leave every second bin empty.
                let number = if self.config.classify == Classification::Flow { key >> 1 } else { key };
                // Flows that met move by different steps, for one more each time that the numbers go round.
                let step = u128::from(u64::from(number) / bins) + 1;
                ((u128::from(number) + u128::from(self.period) * step) % u128::from(bins)) as u64
            }
        };
        bin as u32
    }

    /// Another period has another hash.
    #[inline]
    fn move_hash(&mut self, now: Time) {
        let Some(perturb) = self.config.perturb else { return };
        let period = now.as_nanos() / perturb.as_nanos();
        if period != self.period {
            self.period = period;
            self.hash = KeyedHash::new(Seed(self.seed.0 ^ period.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
    }

    fn refuses(&self, slot: SlotId, limit: u32) -> bool {
        let used = self.queues.queue_backlog(slot).packets;
        is_refused(used, self.queues.backlog().packets, limit, self.config.buckets)
    }
}

/// ns-2 `sfq.cc`, `enque`: a bin takes at most half of what is left, and no more than its fair share when less than a packet
/// per bin is left.
const fn is_refused(used: u32, waiting: u32, limit: u32, buckets: u32) -> bool {
    let left = limit.saturating_sub(waiting);
    used >= left / 2 || (left < buckets && used > limit / buckets) || left == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{QueueUnit, RedConfig};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;
    use tidegate_parameters::{Parameters as _, Report};
    use tidegate_units::Bytes;

    fn sfq(config: &SfqConfig) -> Sfq {
        config.build(&Context::for_tests())
    }

    #[test]
    fn a_limit_that_lets_nothing_pass_is_refused() {
        let refused = |packets| {
            let config = SfqConfig { limit: Some(Limit::Packets(packets)), ..SfqConfig::default() };
            let (mut count, mut out) = (0, Counted::default());
            config.check(&mut Report::new(&mut |_, _, _| count += 1));
            sfq(&config).enqueue(Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut out);
            (count, out.drops.len())
        };
        assert_eq!((refused(1), refused(2)), ((1, 1), (0, 0)), "what is dropped at once is refused before");
    }

    fn offer(sfq: &mut Sfq, flows: impl IntoIterator<Item = u32>, now: Time, out: &mut Counted) {
        for (slot, flow) in (0..).zip(flows) {
            sfq.enqueue(Packet::new(slot, FlowId(flow), 1000), now, out);
        }
    }

    fn order(sfq: &mut Sfq, now: Time) -> Vec<u32> {
        core::iter::from_fn(|| sfq.dequeue(now, &mut Counted::default())).map(|p| p.flow.0).collect()
    }

    proptest! {
        #[test]
        fn the_link_never_idles_nothing_is_lost_and_the_limit_holds(
            vector in arrivals(40, 300), buckets in 1u32..20, limit in 4u32..60
        ) {
            let config = SfqConfig { buckets, limit: Some(Limit::Packets(limit)), ..SfqConfig::default() };
            drive(&mut sfq(&config), &vector, 8, |waiting| assert!(waiting.packets <= limit));
        }

        #[test]
        fn each_bin_under_a_manager_holds_its_own_limit_at_most(vector in arrivals(40, 300)) {
            let queue = ManagerConfig::DropTail(crate::queue::DropTailConfig { limit: Limit::Bytes(Bytes::new(4000)) });
            let config = SfqConfig { buckets: 4, queue: Some(queue), ..SfqConfig::default() };
            drive(&mut sfq(&config), &vector, 8, |waiting| assert!(waiting.bytes <= 16_000));
        }

        #[test]
        fn a_refused_packet_is_refused_by_one_of_the_three_reasons(
            used in 0u32..50, others in 0u32..200, limit in 1u32..100, buckets in 1u32..50
        ) {
            let left = i64::from(limit) - i64::from(used + others);
            let published = i64::from(used) >= left >> 1
                || (left < i64::from(buckets) && used > limit / buckets)
                || left <= 0;
            prop_assert_eq!(is_refused(used, used + others, limit, buckets), published);
        }
    }

    #[test]
    fn bins_take_turns_of_one_packet() {
        let mut sfq = sfq(&SfqConfig { hash: BinHash::Modulo, ..SfqConfig::default() });
        offer(&mut sfq, [2, 2, 2, 4, 4, 6], Time::ZERO, &mut Counted::default());
        assert_eq!(order(&mut sfq, Time::ZERO), [2, 4, 6, 2, 4, 2]);
    }

    #[test]
    fn as_many_flows_as_there_are_bins_have_bins_of_their_own() {
        let sfq = sfq(&SfqConfig { hash: BinHash::Modulo, ..SfqConfig::default() });
        let bin = |number| sfq.bin_of(&Packet::new(0, FlowId(number), 1000));
        let data: Vec<u32> = (0..16).map(|flow| bin(2 * flow)).collect();
        assert_eq!(data, (0..16).collect::<Vec<_>>());
        let acknowledgments: Vec<u32> = (0..16).map(|flow| bin(2 * flow + 1)).collect();
        assert_eq!(acknowledgments, data);
    }

    #[test]
    fn flows_that_met_are_apart_when_the_numbers_have_moved() {
        let config =
            SfqConfig { hash: BinHash::Modulo, perturb: Some(Span::from_secs(1)), ..SfqConfig::default() };
        let mut sfq = sfq(&config);
        let mut together = |second, numbers: [u32; 2]| {
            sfq.move_hash(Time::ZERO + Span::from_secs(second));
            let [one, other] = numbers.map(|number| sfq.bin_of(&Packet::new(0, FlowId(2 * number), 1000)));
            one == other
        };
        assert!(together(0, [1, 17]));
        assert!((1..16).all(|second| !together(second, [1, 17])));
        assert!((0..64).all(|second| !together(second, [1, 2])), "the first ones stay apart");
    }

    #[test]
    fn a_million_flows_need_no_more_memory_than_the_bins() {
        let mut sfq = sfq(&SfqConfig { buckets: 46, ..SfqConfig::default() });
        let mut out = Counted::default();
        for flow in 0..1_000_000 {
            let slot = flow;
            sfq.enqueue(Packet::new(slot, FlowId(flow), 1000), Time::ZERO, &mut out);
            sfq.dequeue(Time::ZERO, &mut out);
        }
        assert!(sfq.queues.slots() <= 46 && out.drops.is_empty());
    }

    #[test]
    fn keyed_bins_are_filled_evenly_and_differ_with_the_seed() {
        let bins = |seed| {
            let sfq = SfqConfig::default().build(&Context { seed: Seed(seed), ..Context::for_tests() });
            let mut counts = vec![0u32; 16];
            let of = |flow| sfq.bin_of(&Packet::new(0, FlowId(flow), 1000));
            (0..16_000).for_each(|flow| counts[of(flow) as usize] += 1);
            assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
            (0..20).map(of).collect::<Vec<_>>()
        };
        assert_ne!(bins(1), bins(2));
    }

    #[test]
    fn a_hash_that_moves_lets_later_packets_of_a_flow_overtake_and_a_fixed_one_does_not() {
        let overtaken = |perturb| {
            let mut sfq = sfq(&SfqConfig { hash: BinHash::Modulo, perturb, ..SfqConfig::default() });
            let mut out = Counted::default();
            for (number, millis) in [0, 0, 0, 0, 12, 12].into_iter().enumerate() {
                let now = Time::ZERO + Span::from_millis(millis);
                sfq.enqueue(Packet::new(number as u32, FlowId(5), 1000), now, &mut out);
            }
            let now = Time::ZERO + Span::from_millis(12);
            let sent: Vec<u32> =
                core::iter::from_fn(|| sfq.dequeue(now, &mut Counted::default())).map(|p| p.slot).collect();
            assert_eq!(sent.len(), 6);
            !sent.is_sorted()
        };
        assert!(overtaken(Some(Span::from_millis(10))));
        assert!(!overtaken(None));
    }

    #[test]
    fn each_bin_has_an_average_of_its_own_under_red() {
        // Feng's thesis, section 4.4.2: one flow overflows its bin, the other bins see nothing of it.
        let red = RedConfig {
            min: Limit::Packets(2),
            max: Limit::Packets(8),
            max_p: 1.0,
            weight: 0.5,
            limit: Limit::Bytes(Bytes::new(9000)),
            mean_packet: Bytes::new(1000),
            mode: QueueUnit::Bytes,
            ..RedConfig::default()
        };
        let queue = Some(ManagerConfig::Red(red));
        let config = SfqConfig { buckets: 46, hash: BinHash::Modulo, queue, ..SfqConfig::default() };
        let mut sfq = sfq(&config);
        let mut out = Counted::default();
        offer(&mut sfq, [0; 200], Time::ZERO, &mut out);
        assert!(out.drops.len() >= 191);
        let before = out.drops.len();
        offer(&mut sfq, (1..46).map(|flow| 2 * flow), Time::ZERO, &mut out);
        assert_eq!(out.drops.len(), before);
    }
}
