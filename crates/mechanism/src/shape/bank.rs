//! The shapers of one edge: for each aggregate a queue of any discipline behind a leaky bucket. An edge controller sets
//! the rates; the world takes out the packets that are due.
//!
//! Source: NBP, Fig. 4 (per-flow traffic shapers at the output port of an ingress router); IEC, section II.B.
//! Deviations: the packet that goes next has left its queue and waits at the bucket, as in Linux's `tbf`; the queue's
//! limit does not count it. A queue is idle from when the bucket could send another packet like the last one.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet, Sink};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

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

/// So many timers of one queue run at once: of PIE a quarter of an hour's, in a millisecond.
const TIMERS_MAX: u32 = 1 << 16;
/// So many rates wait to be heard by one queue; of more the last ones count as one.
const RATES_MAX: usize = 64;

#[derive(Debug)]
struct Shaped {
    bucket: LeakyBucket,
    queue: AnyDiscipline,
    /// The packet that goes next.
    head: Option<Packet>,
    /// Its entry in the agenda; entries with other times are stale. Without a head: when the queue lets one go that it holds back.
    due: Time,
    /// While nothing waits and the queue does not know yet: how large the last packet was, and when another one like it could go. The
    /// queue is idle from then on.
    rests: Option<(u32, Time)>,
    /// Rates that the queue does not know yet, and since when they hold.
    changed: Vec<(BitRate, Time)>,
}

impl Shaped {
    /// The queue hears of what has happened by `now`, each at its own instant: timers of its laws, the end of the last packet, another
    /// rate. Until a packet comes or goes it need not know.
    #[inline]
    fn settle(&mut self, now: Time, out: &mut impl Sink) {
        if !self.changed.is_empty() {
            self.hear_rates(out);
        }
        self.rest(now, out);
        self.run_timers(now, out);
    }

    #[cold]
    fn hear_rates(&mut self, out: &mut impl Sink) {
        for number in 0..self.changed.len() {
            let (rate, since) = self.changed[number];
            self.rest(since, out);
            self.run_timers(since, out);
            self.queue.set_link_rate(rate, since);
        }
        self.changed.clear();
    }

    #[inline]
    fn rest(&mut self, now: Time, out: &mut impl Sink) {
        if let Some((_, from)) = self.rests
            && from <= now
        {
            self.rests = None;
            self.run_timers(from, out);
            self.queue.on_idle(from);
        }
    }

    /// After a long silence no more than some: a law that has more to make up goes on with the next packet, for packets of others wait.
    #[inline]
    fn run_timers(&mut self, now: Time, out: &mut impl Sink) {
        let mut left = TIMERS_MAX;
        while let Some(at) = self.queue.timer_at().filter(|&at| at <= now && left > 0) {
            self.queue.on_timer(at, out);
            assert!(self.queue.timer_at().is_none_or(|next| next > at), "a timer must move on when it fires");
            left -= 1;
        }
    }

    /// The next packet waits at the bucket, if the queue lets one go.
    #[inline]
    fn take_head(&mut self, now: Time, out: &mut impl Sink) {
        self.head = self.queue.dequeue(now, out);
    }

    /// Whether nothing waits.
    #[inline]
    fn is_empty(&self) -> bool {
        self.head.is_none() && self.queue.backlog().is_empty()
    }
}

/// What leaves a queue as if it were lost, and is not.
struct Taken<'a>(&'a mut VecDeque<Packet>);

impl Sink for Taken<'_> {
    fn on_drop(&mut self, packet: Packet, _why: DropReason) {
        self.0.push_back(packet);
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
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
    /// What waited, while all of it is taken.
    evicted: VecDeque<Packet>,
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
            evicted: VecDeque::new(),
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
        let queue = self.config.queue.build(&context);
        self.aggregates[index] =
            Some(Shaped { bucket, queue, head: None, due: Time::MAX, rests: None, changed: Vec::new() });
    }

    /// From now on the aggregate leaves at `rate`. Unknown aggregates are ignored.
    pub fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate, now: Time) {
        let Some(shaped) = self.aggregates.get_mut(aggregate.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        shaped.bucket.set_rate(rate, now);
        shaped.bucket.set_bucket(depth(self.bucket, rate));
        if shaped.changed.len() == RATES_MAX {
            shaped.changed.pop();
        }
        shaped.changed.push((rate, now));
        if let Some((bytes, from)) = &mut shaped.rests
            && *from > now
        {
            *from = shaped.bucket.release_at(*bytes, now);
        }
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
        shaped.settle(now, out);
        shaped.queue.enqueue(packet, now, out);
        if shaped.head.is_none() {
            shaped.take_head(now, out);
            if !shaped.is_empty() {
                shaped.rests = None;
            }
            self.plan(aggregate, now);
        }
    }

    /// Enters what `aggregate` sends next into the agenda.
    fn plan(&mut self, aggregate: AggregateId, now: Time) {
        let shaped =
            self.aggregates[aggregate.0 as usize].as_mut().expect("only open aggregates are planned");
        let due = if let Some(head) = &shaped.head {
            shaped.bucket.release_at(head.wire_bytes, now)
        } else {
            // It was asked already at this instant.
            let ready_at = shaped.queue.ready_at(now);
            ready_at.map_or(Time::MAX, |at| at.max(now + Span::from_nanos(1)))
        };
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

    /// The next packet that waits, whether it is due or not, and whatever laws of queues think of it: for who takes all of them elsewhere.
    /// Call it until it gives `None`.
    pub fn evict(&mut self, now: Time) -> Option<Packet> {
        if self.evicted.is_empty() {
            let mut taken = core::mem::take(&mut self.evicted);
            self.purge(now, DropReason::LinkDown, &mut Taken(&mut taken));
            self.evicted = taken;
        }
        self.evicted.pop_front()
    }

    /// All that waits is lost.
    pub fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        for shaped in self.aggregates.iter_mut().flatten() {
            shaped.due = Time::MAX;
            if shaped.is_empty() {
                continue;
            }
            shaped.settle(now, out);
            if let Some(head) = shaped.head.take() {
                out.on_drop(head, why);
            }
            shaped.queue.purge(now, why, out);
            shaped.rests = Some((0, now));
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
            shaped.settle(now, out);
            let released = shaped.head.take();
            if let Some(packet) = &released {
                shaped.bucket.on_departure(packet.wire_bytes, now);
            }
            shaped.take_head(now, out);
            if let Some(packet) = &released
                && shaped.is_empty()
            {
                shaped.rests = Some((packet.wire_bytes, shaped.bucket.release_at(packet.wire_bytes, now)));
            }
            self.plan(aggregate, now);
            if let Some(packet) = released {
                return Some((aggregate, packet));
            }
            // What it held back until now waits at the bucket from here on.
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
mod tests;
