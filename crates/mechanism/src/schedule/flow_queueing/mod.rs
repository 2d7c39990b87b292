//! Flow queueing: deficit round robin that serves flows with little to send before those that keep a queue, over many small queues
//! that share one law. A queue that was empty is *new*; when it has sent a quantum, or is found empty while others wait, it becomes
//! *old*, and new queues go before old ones. So a flow that is quiet for as long as a round of the others never waits for them.
//!
//! Source: RFC 8290, sections 4.1 and 4.2 (DRR++: `MacGregor` and Shi, ICC 2000); Linux, `sch_fq_codel.c`, for what happens when
//! more waits than may.
//! What a full scheduler loses is the longest queue's, or the packet that comes ([`WhenFull`]; Linux, `sch_fq_pie.c`).
//! Deviations:
//! - A queue whose credits are exactly used up has had its turn (Linux: `deficit <= 0`), which the RFC also means: "it has already
//!   dequeued at least a quantum of bytes"; its text says "a negative number".
//! - A new queue that is found empty goes behind the old ones only if there are any (Linux, `fq_codel_dequeue`); the RFC says
//!   always.
//! - If after a batch of drops still too much waits, another batch follows; Linux leaves it at one. With its defaults one is enough.
//! - Memory counts the bytes of packets on the wire; Linux those of its buffers, somewhat more.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Ecn, Packet, Sink};
use tidegate_parameters::{Bound, Report, bound, parameters};
use tidegate_units::{Bytes, Limit, Time};

use self::places::Places;
use super::store::{Chain, Store};
use super::{BinHash, Classification, IndexedHeap};
use crate::queue::{QueueDiscipline, SharedLaw, Verdict, bytes32};
use crate::{Context, Variable};

mod places;

const NONE: u32 = u32::MAX;

const MEMORY: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(1 << 31))
    .saying("", " is no memory for packets")
    .helping("from 1B to 2147483.648kB: packets need some; more is no queue of a link");

pub(super) const QUANTUM: Bound<Bytes> = Bound::between(Bytes::new(256), Bytes::new(1 << 20))
    .saying("", " is no quantum")
    .helping("from 256B to 1048.576kB: with less a packet takes many turns; with more a flow keeps the link");

pub(super) const QUEUES: Bound<u32> = Bound::between(1, 65_536)
    .saying("", " is no number of queues")
    .helping("from 1 to 65536: flows need one; all are there from the start");

pub(super) const WAYS: Bound<u32> = Bound::between(1, 64)
    .saying("", " is no number of choices")
    .helping("from 1 to 64: all of them may be looked at for a packet");

/// What may be recorded of a scheduler with flow queueing.
pub(super) const VARIABLES: &[Variable] = &[
    Variable::new("active_queues", "Queues with something waiting."),
    Variable::new("new_queues", "Queues that go first."),
    Variable::new("old_queues", "Queues that have sent a quantum, or wait for their turn to end."),
];

parameters! {
    /// # Flow queueing
    ///
    /// Many queues, how flows find theirs, and how much may wait in all.
    ///
    /// Source: RFC 8290; Linux (`fq_codel`, `fq_pie`).
    #[derive(Copy)]
    pub struct FlowQueueingConfig {
        /// How many packets may wait in all queues together. Source: RFC 8290, section 5.2.3; Linux.
        limit: Limit = Limit::Packets(10_240) => bound::in_packets("10240p");
        /// How many bytes may wait in all queues together. Source: Linux (`memory_limit`).
        memory_limit: Bytes = Bytes::new(32 << 20) => MEMORY;
        /// Bytes per turn: a packet of the largest size with its header. Source: RFC 8290, section 5.2.4.
        quantum: Bytes = Bytes::new(1514) => QUANTUM;
        /// The number of queues. Source: RFC 8290, section 5.2.5.
        queues: u32 = 1024 => QUEUES;
        /// How many queues a flow has a choice of: it shares one only if the whole set is in use. 1 is a hash without a choice.
        /// Source: RFC 8290 has none; CAKE has 8.
        ways: u32 = 1 => WAYS;
        /// How a flow finds its queue, or its set.
        hash: BinHash = BinHash::Keyed;
        /// What is hashed.
        classify: Classification = Classification::Flow;
    }
    check |config, report| {
        check_sets(config.queues, config.ways, report);
    };
}

/// How many queues there are where nothing else is written, here and in CAKE.
const USUAL_QUEUES: u32 = 1024;

/// That `queues` are whole sets of `ways`; said at what must have been written.
pub(super) fn check_sets(queues: u32, ways: u32, report: &mut Report<'_>) {
    let ways = ways.max(1);
    if !queues.is_multiple_of(ways) {
        let message = format!("{queues} queues are no whole number of sets of {ways}");
        let key = if queues == USUAL_QUEUES { "ways" } else { "queues" };
        report.say(key, message, &format!("a multiple of {ways}, or `ways` that it is a multiple of"));
    }
}

/// Who loses when more would wait than may.
#[derive(Clone, Copy, Debug)]
pub(super) enum WhenFull {
    /// The longest queue, up to so many packets at once.
    Longest(u32),
    /// The packet that comes.
    Arriving,
}

/// One queue.
#[derive(Clone, Debug)]
struct Queue<S> {
    packets: Chain,
    /// The queue behind it in its list.
    behind: u32,
    /// Whether it is in a list.
    is_listed: bool,
    /// Bytes that it may still send in its turn.
    credits: i64,
    state: S,
}

/// Queues in the order of their turns, linked through [`Queue::behind`].
#[derive(Clone, Debug)]
struct Turns {
    first: u32,
    last: u32,
    len: u32,
}

/// The queues of one port under the law `L`.
#[derive(Debug)]
pub struct FlowQueueing<L: SharedLaw> {
    law: L,
    queues: Vec<Queue<L::State>>,
    /// Bytes that wait in each queue: apart, to be looked through when room must be made.
    bytes: Vec<u64>,
    store: Store,
    new: Turns,
    old: Turns,
    /// Those whose heads may not leave yet, by when they may, and of those at once by when they were held; they are in neither list.
    held: IndexedHeap<(Time, u64)>,
    /// How many were held so far.
    holdings: u64,
    places: Places,
    backlog: Backlog,
    /// Queues with something waiting.
    active: u32,
    classify: Classification,
    quantum_bytes: u32,
    packets_max: u32,
    bytes_max: u64,
    when_full: WhenFull,
    counts_all: bool,
}

impl<L: SharedLaw> FlowQueueing<L> {
    /// `counts_all`: the law is told what waits in all queues, not only in that of the packet.
    pub(super) fn new(
        law: L,
        config: &FlowQueueingConfig,
        when_full: WhenFull,
        counts_all: bool,
        context: &Context,
    ) -> Self {
        let Limit::Packets(packets_max) = config.limit else {
            unreachable!("checked: the limit is in packets")
        };
        let quantum_bytes = bytes32(config.quantum);
        assert!(quantum_bytes > 0, "a queue without a quantum never sends");
        assert!(!matches!(when_full, WhenFull::Longest(0)), "room is made by drops");
        let empty = Queue {
            packets: Chain::EMPTY,
            behind: NONE,
            is_listed: false,
            credits: 0,
            state: L::State::default(),
        };
        Self {
            law,
            queues: vec![empty; config.queues as usize],
            bytes: vec![0; config.queues as usize],
            store: Store::new(),
            new: Turns::NONE,
            old: Turns::NONE,
            held: IndexedHeap::default(),
            holdings: 0,
            places: Places::new(config.hash, config.queues, config.ways, context.seed),
            backlog: Backlog::EMPTY,
            active: 0,
            classify: config.classify,
            quantum_bytes,
            packets_max,
            bytes_max: config.memory_limit.get(),
            when_full,
            counts_all,
        }
    }

    /// Takes the first packet off queue `index`.
    #[inline]
    fn pop(&mut self, index: u32) -> Option<Packet> {
        let queue = &mut self.queues[index as usize];
        let packet = self.store.pop(&mut queue.packets)?;
        self.active -= u32::from(queue.packets.is_empty());
        self.bytes[index as usize] -= u64::from(packet.wire_bytes);
        self.backlog.remove(&packet);
        Some(packet)
    }

    /// The packet that queue `index` sends next, if the law leaves one.
    #[inline]
    fn next_of(&mut self, index: u32, now: Time, out: &mut impl Sink) -> Option<Packet> {
        let mut is_by_drop = false;
        loop {
            let queue = &mut self.queues[index as usize];
            let Some(head) = self.store.first(queue.packets) else {
                self.law.on_empty(&mut queue.state, is_by_drop);
                return None;
            };
            let waiting = if self.counts_all { self.backlog.bytes } else { self.bytes[index as usize] };
            let left_bytes = waiting - u64::from(head.wire_bytes);
            let verdict = self.law.at_head(&mut queue.state, head, left_bytes, now);
            let mut packet = self.pop(index)?;
            match verdict {
                Verdict::Accept => return Some(packet),
                Verdict::Mark(why) => {
                    debug_assert!(packet.ecn.is_capable(), "a law marks only what can carry a mark");
                    packet.ecn = Ecn::Ce;
                    out.on_mark(&packet, why);
                    return Some(packet);
                }
                Verdict::Drop(why) => out.on_drop(packet, why),
                Verdict::Evict { .. } | Verdict::DropWith { .. } => {
                    unreachable!("eviction at the head makes no room for anything")
                }
            }
            is_by_drop = true;
        }
    }

    const fn is_overfull(&self, backlog: Backlog) -> bool {
        backlog.packets > self.packets_max || backlog.bytes > self.bytes_max
    }

    /// Whether the packet that comes has no room, and the longest queue would not make any.
    #[inline]
    fn refuses(&self, packet: &Packet) -> bool {
        let mut after = self.backlog;
        after.add(packet);
        matches!(self.when_full, WhenFull::Arriving) && self.is_overfull(after)
    }

    /// The longest queue gives up half of its bytes, from its head, but no more than a batch of packets (Linux,
    /// `fq_codel_drop`; RFC 8290, section 4.1). The law hears of it, to be stricter with what is left.
    #[cold]
    fn make_room(&mut self, most: u32, out: &mut impl Sink) {
        let fattest = self.fattest();
        let half = self.bytes[fattest as usize] / 2;
        let (mut dropped, mut bytes) = (0, 0);
        while dropped == 0 || (dropped < most && bytes < half) {
            let Some(victim) = self.pop(fattest) else { break };
            dropped += 1;
            bytes += u64::from(victim.wire_bytes);
            out.on_drop(victim, DropReason::Overflow);
        }
        self.law.on_overflow(&mut self.queues[fattest as usize].state, dropped);
    }

    /// The queue with the most bytes; of several the first.
    fn fattest(&self) -> u32 {
        let longest =
            (0..).zip(&self.bytes).max_by_key(|&(index, &bytes)| (bytes, core::cmp::Reverse(index)));
        match longest {
            Some((index, &bytes)) if bytes > 0 => index,
            // Packets without bytes: a queue that has some.
            _ => self.queues.iter().position(|queue| !queue.packets.is_empty()).unwrap_or(0) as u32,
        }
    }
}

impl<L: SharedLaw> QueueDiscipline for FlowQueueing<L> {
    fn enqueue(&mut self, mut packet: Packet, now: Time, out: &mut impl Sink) {
        let key = self.classify.key(&packet);
        let queues = &self.queues;
        let (index, was_another_s) = self.places.find(key, |of| queues[of as usize].is_listed);
        let is_refused = self.refuses(&packet);
        let queue = &mut self.queues[index as usize];
        if L::HOLDS && was_another_s && !queue.is_listed {
            queue.state = L::State::default();
        }
        if is_refused {
            self.law.on_refused(&mut queue.state, now);
            out.on_drop(packet, DropReason::Overflow);
            return;
        }
        match self.law.on_arrival(&mut queue.state, &packet, self.bytes[index as usize], now) {
            Verdict::Accept => {}
            Verdict::Mark(why) => {
                debug_assert!(packet.ecn.is_capable(), "a law marks only what can carry a mark");
                packet.ecn = Ecn::Ce;
                out.on_mark(&packet, why);
            }
            Verdict::Drop(why) => {
                out.on_drop(packet, why);
                return;
            }
            Verdict::Evict { .. } | Verdict::DropWith { .. } => unreachable!("a law looks at one packet"),
        }
        self.active += u32::from(queue.packets.is_empty());
        self.store.push(&mut queue.packets, packet);
        self.bytes[index as usize] += u64::from(packet.wire_bytes);
        self.backlog.add(&packet);
        if !queue.is_listed {
            queue.is_listed = true;
            queue.credits = self.law.first_turn_bytes(&queue.state, queue.credits, self.quantum_bytes, now);
            self.new.push(index, &mut self.queues);
        }
        if let WhenFull::Longest(most) = self.when_full {
            while self.is_overfull(self.backlog) {
                self.make_room(most, out);
            }
        }
    }

    /// RFC 8290, section 4.2.
    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        if L::HOLDS {
            // Nothing changes while nothing waits (Linux, `fq_dequeue`).
            if self.backlog.is_empty() {
                return None;
            }
            self.admit_held(now);
        }
        loop {
            let is_new = self.new.first != NONE;
            let index = if is_new { self.new.first } else { self.old.first };
            if index == NONE {
                return None;
            }
            let queue = &mut self.queues[index as usize];
            if queue.credits <= 0 {
                queue.credits += i64::from(self.quantum_bytes);
                self.leave_first(is_new);
                self.old.push(index, &mut self.queues);
                continue;
            }
            if L::HOLDS && self.holds(index, now, out) {
                self.leave_first(is_new);
                continue;
            }
            if let Some(packet) = self.next_of(index, now, out) {
                self.queues[index as usize].credits -= i64::from(packet.wire_bytes);
                return Some(packet);
            }
            self.leave_first(is_new);
            if is_new && (L::ALWAYS_BECOMES_OLD || self.old.first != NONE) {
                // Else a flow that always comes back as new would starve the old ones.
                self.old.push(index, &mut self.queues);
            } else {
                let left = &mut self.queues[index as usize];
                left.is_listed = false;
                self.law.on_left(&mut left.state, now);
            }
        }
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        if self.backlog.is_empty() {
            return None;
        }
        if !L::HOLDS || self.new.first != NONE || self.old.first != NONE {
            return Some(now);
        }
        self.held.first().map(|((at, _), _)| at.max(now))
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// What is held goes, too, and no queue has a turn any more (Linux, `fq_reset`, `fq_codel_reset`).
    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        for index in 0..self.queues.len() as u32 {
            let had_packets = self.bytes[index as usize] > 0;
            while let Some(packet) = self.pop(index) {
                out.on_drop(packet, why);
            }
            let queue = &mut self.queues[index as usize];
            if L::HOLDS {
                queue.state = L::State::default();
            } else {
                if had_packets {
                    self.law.on_empty(&mut queue.state, false);
                }
                if queue.is_listed {
                    self.law.on_left(&mut queue.state, now);
                }
            }
            (queue.is_listed, queue.credits) = (false, 0);
        }
        (self.new, self.old, self.held) = (Turns::NONE, Turns::NONE, IndexedHeap::default());
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "active_queues" => Some(f64::from(self.active)),
            "new_queues" => Some(f64::from(self.new.len)),
            "old_queues" => Some(f64::from(self.old.len)),
            _ => None,
        }
    }
}

impl<L: SharedLaw> FlowQueueing<L> {
    /// Whether the head of queue `index` may not leave yet. If so, it waits among those that are held.
    fn holds(&mut self, index: u32, now: Time, out: &impl Sink) -> bool {
        let queue = &mut self.queues[index as usize];
        let Some(head) = self.store.first(queue.packets) else { return false };
        let leaves_at = self.law.leaves_at(&queue.state, out.departs_at(head));
        if leaves_at > now {
            self.law.on_held(&mut queue.state, leaves_at);
            self.held.set(index, (leaves_at, self.holdings));
            self.holdings += 1;
        }
        leaves_at > now
    }

    /// Queues whose heads may leave by now have their turn behind all others (Linux, `fq_check_throttled`).
    fn admit_held(&mut self, now: Time) {
        while let Some(((at, _), index)) = self.held.first()
            && at <= now
        {
            self.held.remove(index);
            self.old.push(index, &mut self.queues);
        }
    }

    /// The first of the new queues, or of the old ones, is none of them any more.
    #[inline]
    fn leave_first(&mut self, is_new: bool) {
        let turns = if is_new { &mut self.new } else { &mut self.old };
        turns.first = self.queues[turns.first as usize].behind;
        turns.len -= 1;
    }
}

impl Turns {
    const NONE: Self = Self { first: NONE, last: NONE, len: 0 };

    /// Queue `index` is the last one.
    #[inline]
    fn push<S>(&mut self, index: u32, queues: &mut [Queue<S>]) {
        queues[index as usize].behind = NONE;
        if self.first == NONE {
            self.first = index;
        } else {
            queues[self.last as usize].behind = index;
        }
        self.last = index;
        self.len += 1;
    }
}

#[cfg(test)]
impl<L: SharedLaw> FlowQueueing<L> {
    pub(super) const BYTES_PER_QUEUE: usize = size_of::<Queue<L::State>>();

    /// Places for packets, used or free.
    pub(super) const fn places_in_memory(&self) -> usize {
        self.store.places()
    }
}
