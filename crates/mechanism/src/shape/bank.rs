//! The shapers of one edge: for each aggregate a queue of any discipline behind a leaky bucket. An edge controller sets
//! the rates; the world takes out the packets that are due.
//!
//! Source: NBP, Fig. 4 (per-flow traffic shapers at the output port of an ingress router); IEC, section II.B.
//! Deviations: the packet that goes next has left its queue and waits at the bucket, as in Linux's `tbf`; the queue's
//! limit does not count it.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::{LeakyBucket, LeakyBucketConfig, Shaper};
use crate::Context;
use crate::edge::AggregateId;
use crate::queue::QueueDiscipline;
use crate::schedule::{AnyDiscipline, DisciplineConfig};

parameters! {
    /// The shaper of a flow, or of a virtual link, at its ingress.
    pub struct ShaperConfig {
        /// How much may leave at once after silence, as a size, or as the time in which the rate brings it. Default: one packet.
        /// Source: assumed, a leaky bucket.
        bucket: Option<Limit> = None => bound::BucketOfSome;
        /// What waits in front of the shaper. Source: assumed, as the router queues of NBP, Table 1 (100 packets).
        queue: DisciplineConfig = DisciplineConfig::default() => bound::INSIDE;
    }
}

#[derive(Debug)]
struct Shaped {
    bucket: LeakyBucket,
    queue: AnyDiscipline,
    /// The packet that goes next.
    head: Option<Packet>,
    /// Its entry in the agenda; entries with other times are stale.
    due: Time,
}

/// See the module.
#[derive(Debug)]
pub struct ShaperBank {
    config: ShaperConfig,
    /// The bucket of each; none is one packet.
    bucket: Limit,
    context: Context,
    aggregates: Vec<Option<Shaped>>,
    /// How many of them are open.
    open: usize,
    /// Before this one none has anything left, while all that waits is taken.
    evicted: usize,
    /// When which head is due; may hold stale entries.
    agenda: BinaryHeap<Reverse<(Time, AggregateId)>>,
}

impl ShaperBank {
    /// An empty bank, whose shapers have `bucket` if `config` does not say; zero is one packet.
    pub fn new(config: ShaperConfig, bucket: Bytes, context: Context) -> Self {
        let bucket = config.bucket.unwrap_or(Limit::Bytes(bucket));
        Self {
            config,
            bucket,
            context,
            aggregates: Vec::new(),
            open: 0,
            evicted: 0,
            agenda: BinaryHeap::new(),
        }
    }

    /// A new aggregate, shaped to `rate`.
    pub fn open(&mut self, aggregate: AggregateId, rate: BitRate, now: Time) {
        let index = aggregate.0 as usize;
        if index >= self.aggregates.len() {
            self.aggregates.resize_with(index + 1, || None);
        }
        let bucket = LeakyBucketConfig { rate, bucket: depth(self.bucket, rate) }.build(now);
        let context = Context { link_rate: rate, ..self.context };
        debug_assert!(self.aggregates[index].is_none(), "an aggregate is opened once");
        self.open += 1;
        self.aggregates[index] =
            Some(Shaped { bucket, queue: self.config.queue.build(&context), head: None, due: Time::MAX });
    }

    /// From now on the aggregate leaves at `rate`. Unknown aggregates are ignored.
    pub fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate, now: Time) {
        let Some(shaped) = self.aggregates.get_mut(aggregate.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        shaped.bucket.set_rate(rate, now);
        shaped.bucket.set_bucket(depth(self.bucket, rate));
        shaped.queue.set_link_rate(rate, now);
        self.plan(aggregate, now);
    }

    /// The rate of the aggregate's shaper.
    pub fn rate(&self, aggregate: AggregateId) -> Option<BitRate> {
        self.get(aggregate).map(|shaped| shaped.bucket.rate())
    }

    /// The aggregate is gone; nothing waits for it.
    pub fn close(&mut self, aggregate: AggregateId) {
        debug_assert!(self.backlog(aggregate).is_empty(), "an aggregate is closed when its queue is empty");
        if let Some(place) = self.aggregates.get_mut(aggregate.0 as usize) {
            self.open -= usize::from(place.take().is_some());
        }
    }

    /// What waits for the aggregate, the head included.
    pub fn backlog(&self, aggregate: AggregateId) -> Backlog {
        self.get(aggregate).map_or(Backlog::EMPTY, |shaped| {
            let mut backlog = shaped.queue.backlog();
            if let Some(head) = &shaped.head {
                backlog.add(head);
            }
            backlog
        })
    }

    /// How many aggregates are open.
    pub const fn open_count(&self) -> usize {
        self.open
    }

    /// The aggregates that are open.
    pub fn open_aggregates(&self) -> impl Iterator<Item = AggregateId> + '_ {
        let open = self.aggregates.iter().enumerate().filter(|(_, shaped)| shaped.is_some());
        open.map(|(index, _)| AggregateId(index as u32))
    }

    fn get(&self, aggregate: AggregateId) -> Option<&Shaped> {
        self.aggregates.get(aggregate.0 as usize).and_then(Option::as_ref)
    }

    /// `packet` joins the queue of `aggregate`, which must be open.
    pub fn enqueue(&mut self, aggregate: AggregateId, mut packet: Packet, now: Time, out: &mut impl Sink) {
        let shaped = self.aggregates[aggregate.0 as usize].as_mut().expect("packets join open aggregates");
        packet.arrived = now;
        shaped.queue.enqueue(packet, now, out);
        if shaped.head.is_none() {
            shaped.head = shaped.queue.dequeue(now, out);
            self.plan(aggregate, now);
        }
    }

    /// Enters the head of `aggregate` into the agenda.
    fn plan(&mut self, aggregate: AggregateId, now: Time) {
        let shaped =
            self.aggregates[aggregate.0 as usize].as_mut().expect("only open aggregates are planned");
        let Some(head) = &shaped.head else { return };
        let due = shaped.bucket.release_at(head.wire_bytes, now);
        if due == shaped.due {
            return;
        }
        shaped.due = due;
        if due == Time::MAX {
            return;
        }
        self.agenda.push(Reverse((due, aggregate)));
        // Changes of rate leave stale entries behind; a rebuild costs no more than the changes that made it necessary.
        if self.agenda.len() > 64 + 4 * self.aggregates.len() {
            let fresh = |&Reverse((at, id)): &Reverse<(Time, AggregateId)>| {
                self.aggregates[id.0 as usize].as_ref().is_some_and(|other| other.due == at)
            };
            self.agenda.retain(fresh);
        }
    }

    /// The next packet that waits, whether it is due or not: for who takes all of them elsewhere. Call it until it gives `None`.
    pub fn evict(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        for (index, shaped) in self.aggregates.iter_mut().enumerate().skip(self.evicted) {
            self.evicted = index;
            let Some(shaped) = shaped else { continue };
            shaped.due = Time::MAX;
            if let Some(packet) = shaped.head.take().or_else(|| shaped.queue.dequeue(now, out)) {
                return Some(packet);
            }
        }
        self.evicted = 0;
        self.agenda.clear();
        None
    }

    /// All that waits is lost.
    pub fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        for shaped in self.aggregates.iter_mut().flatten() {
            if let Some(head) = shaped.head.take() {
                out.on_drop(head, why);
            }
            shaped.due = Time::MAX;
            shaped.queue.purge(now, why, out);
        }
        self.agenda.clear();
    }

    /// When [`Self::release`] next has something to give.
    pub fn release_at(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((at, _))| *at)
    }

    /// The next packet that is due by `now`; call it until it gives `None`.
    pub fn release(&mut self, now: Time, out: &mut impl Sink) -> Option<(AggregateId, Packet)> {
        while let Some(&Reverse((at, aggregate))) = self.agenda.peek() {
            if at > now {
                return None;
            }
            self.agenda.pop();
            let Some(shaped) =
                self.aggregates[aggregate.0 as usize].as_mut().filter(|shaped| shaped.due == at)
            else {
                continue; // stale
            };
            shaped.due = Time::MAX;
            let Some(packet) = shaped.head.take() else { continue };
            shaped.bucket.on_departure(packet.wire_bytes, now);
            shaped.head = shaped.queue.dequeue(now, out);
            self.plan(aggregate, now);
            return Some((aggregate, packet));
        }
        None
    }
}

/// What `bucket` holds at `rate`.
fn depth(bucket: Limit, rate: BitRate) -> Bytes {
    match bucket {
        Limit::Bytes(bytes) => bytes,
        Limit::Time(span) => rate.bytes_in(span).min(bound::BUCKET_BYTES_MAX),
        Limit::Packets(_) => unreachable!("checked: a bucket is a size or a time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::{FlowId, MarkReason};
    use tidegate_units::Span;

    #[derive(Default)]
    struct Drops(Vec<DropReason>);
    impl Sink for Drops {
        fn on_drop(&mut self, _packet: Packet, why: DropReason) {
            self.0.push(why);
        }
        fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
    }

    fn bank() -> ShaperBank {
        ShaperBank::new(ShaperConfig::default(), Bytes::ZERO, Context::for_tests())
    }

    #[test]
    fn each_aggregate_leaves_at_its_own_rate() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        // One and two bytes per microsecond.
        bank.open(AggregateId(0), BitRate::from_mbps(8), Time::ZERO);
        bank.open(AggregateId(1), BitRate::from_mbps(16), Time::ZERO);
        for slot in 0..6 {
            bank.enqueue(AggregateId(slot % 2), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
        }
        let mut order = Vec::new();
        while let Some(at) = bank.release_at() {
            while let Some((aggregate, _)) = bank.release(at, &mut drops) {
                order.push((at.as_nanos() / 1_000_000, at.as_nanos() / 1000 % 1000, aggregate.0));
            }
        }
        assert_eq!(order, [(0, 0, 0), (0, 0, 1), (0, 500, 1), (1, 0, 0), (1, 0, 1), (2, 0, 0)]);
        assert!(drops.0.is_empty());
    }

    #[test]
    fn a_higher_rate_brings_the_head_forward_and_a_rate_of_zero_stops_it() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        let id = AggregateId(3);
        bank.open(id, BitRate::from_bps(8), Time::ZERO);
        bank.enqueue(id, Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut drops);
        bank.enqueue(id, Packet::new(1, FlowId(0), 1000), Time::ZERO, &mut drops);
        assert!(bank.release(Time::ZERO, &mut drops).is_some());
        bank.set_rate(id, BitRate::from_mbps(8), Time::ZERO);
        let soon = Time::ZERO + Span::from_millis(1);
        assert_eq!(bank.release_at(), Some(soon));
        bank.set_rate(id, BitRate::ZERO, Time::ZERO);
        assert_eq!(bank.release(soon, &mut drops), None);
        assert_eq!(bank.backlog(id).packets, 1);
    }

    #[test]
    fn a_bucket_that_is_a_time_goes_with_the_rate() {
        let config =
            ShaperConfig { bucket: Some(Limit::Time(Span::from_millis(1))), ..ShaperConfig::default() };
        let mut bank = ShaperBank::new(config, Bytes::ZERO, Context::for_tests());
        let (id, mut drops) = (AggregateId(0), Drops::default());
        bank.open(id, BitRate::from_mbps(40), Time::ZERO);
        let mut now = Time::ZERO;
        // Per millisecond: five packets of 1000 bytes, ten, and less than one, which always passes alone.
        for (mbps, at_once) in [(40, 5), (80, 10), (4, 1)] {
            now += Span::from_secs(1);
            bank.set_rate(id, BitRate::from_mbps(mbps), now);
            for slot in 0..20 {
                bank.enqueue(id, Packet::new(slot, FlowId(0), 1000), now, &mut drops);
            }
            let gone = core::iter::from_fn(|| bank.release(now, &mut drops)).count();
            assert_eq!(gone, at_once, "{mbps} Mbit/s");
            // After that one by one, at the rate.
            let next = bank.release_at().unwrap();
            assert_eq!(next.since(now), Span::from_micros(8000 / mbps), "{mbps} Mbit/s");
            bank.purge(now, DropReason::LinkDown, &mut drops);
        }
    }

    #[test]
    fn the_queue_in_front_of_a_shaper_is_bounded() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        bank.open(AggregateId(0), BitRate::from_bps(1), Time::ZERO);
        for slot in 0..500 {
            bank.enqueue(AggregateId(0), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
        }
        assert_eq!(bank.backlog(AggregateId(0)).packets, 101);
        assert_eq!(drops.0.len(), 399);
    }

    #[test]
    fn what_is_purged_is_dropped_and_the_shapers_go_on_with_what_comes_then() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        for aggregate in 0..2 {
            bank.open(AggregateId(aggregate), BitRate::from_mbps(8), Time::ZERO);
            for slot in 0..3 {
                bank.enqueue(
                    AggregateId(aggregate),
                    Packet::new(slot, FlowId(0), 1000),
                    Time::ZERO,
                    &mut drops,
                );
            }
        }
        bank.purge(Time::ZERO, DropReason::LinkDown, &mut drops);
        assert_eq!(drops.0, [DropReason::LinkDown; 6]);
        assert!(bank.release_at().is_none() && bank.backlog(AggregateId(0)).is_empty());
        bank.enqueue(AggregateId(1), Packet::new(7, FlowId(0), 1000), Time::ZERO, &mut drops);
        assert_eq!(bank.release(Time::ZERO, &mut drops).unwrap().1.slot, 7);
    }

    #[test]
    fn what_is_evicted_comes_out_in_order_before_it_is_due() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        for aggregate in 0..2 {
            bank.open(AggregateId(aggregate), BitRate::from_bps(8), Time::ZERO);
        }
        for slot in 0..6 {
            bank.enqueue(AggregateId(slot % 2), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
        }
        let evicted: Vec<u32> =
            core::iter::from_fn(|| bank.evict(Time::ZERO, &mut drops)).map(|packet| packet.slot).collect();
        assert_eq!(evicted, [0, 2, 4, 1, 3, 5]);
        assert!(bank.release_at().is_none() && drops.0.is_empty());
    }

    #[test]
    fn ten_thousand_changes_of_rate_leave_a_short_agenda() {
        let (mut bank, mut drops) = (bank(), Drops::default());
        bank.open(AggregateId(0), BitRate::from_bps(1), Time::ZERO);
        bank.enqueue(AggregateId(0), Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut drops);
        bank.release(Time::ZERO, &mut drops);
        bank.enqueue(AggregateId(0), Packet::new(1, FlowId(0), 1000), Time::ZERO, &mut drops);
        for change in 0..10_000 {
            bank.set_rate(AggregateId(0), BitRate::from_bps(1000 + change), Time::ZERO);
        }
        assert!(bank.agenda.len() <= 69);
    }

    #[test]
    fn all_that_waits_is_taken_one_by_one_and_again_later() {
        let (mut bank, now) = (bank(), Time::ZERO);
        let mut drops = Drops::default();
        for round in 0..2 {
            for aggregate in 0..3 {
                if round == 0 {
                    bank.open(AggregateId(aggregate), BitRate::from_mbps(1), now);
                }
                for number in 0..aggregate {
                    let packet = Packet::new(number, FlowId(aggregate), 1000);
                    bank.enqueue(AggregateId(aggregate), packet, now, &mut drops);
                }
            }
            let taken: Vec<u32> =
                core::iter::from_fn(|| bank.evict(now, &mut drops)).map(|packet| packet.flow.0).collect();
            assert_eq!(taken, [1, 2, 2]);
            assert_eq!(bank.release_at(), None);
        }
        assert_eq!(bank.open_count(), 3);
        bank.close(AggregateId(1));
        bank.close(AggregateId(1));
        assert_eq!(bank.open_count(), 2);
        assert!(drops.0.is_empty());
    }
}
