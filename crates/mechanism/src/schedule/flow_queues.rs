//! The queues of one port, one per flow (or class, or input port), as every scheduler needs them: classification, a
//! manager for each queue, one shared limit, and the longest queue when room must be made.
//!
//! A queue lives in a slot. Slots of flows with nothing waiting are kept, with the state of their managers, until newer
//! ones need them; so memory is bounded by what waits plus [`FlowQueuesConfig::remembered`].
//!
//! Source: Shreedhar & Varghese, SIGCOMM 1995, section 3, for the packet that makes room (`FreeBuffer`: the head of the longest
//! queue); the rest is ours. Deviations: named by the schedulers that use it.

use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashTable;
use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::words;
use tidegate_units::{BitRate, Limit, Time};

use crate::Context;
use crate::queue::{
    AnyManager, DropTailConfig, Fifo, ManagerConfig, QueueDiscipline, QueueLimit, QueueManager,
};
use crate::random::{Seed, spread};
use crate::schedule::{IndexedHeap, RecencyList};

words! {
    /// What shares one queue of a scheduler.
    pub enum Classification {
        /// The packets of one flow.
        Flow = "flow",
        /// The packets of all flows with the same `class`.
        Class = "class",
        /// The packets that entered the router by the same port.
        InputPort = "input-port",
        /// The packets with the same differentiated services codepoint.
        Dscp = "dscp",
        /// The packets whose codepoints have the same first three bits, the highest as number 0 (class selectors, RFC 2474,
        /// section 4.2.2.2): the network's own control, expedited forwarding, classes 4 to 1 of assured forwarding, best effort.
        Precedence = "precedence",
    }
}

impl Classification {
    /// The number of the queue that `packet` belongs to.
    #[inline]
    pub const fn key(self, packet: &Packet) -> u32 {
        match self {
            Self::Flow => packet.flow.0,
            Self::Class => packet.class as u32,
            Self::InputPort => packet.in_port as u32,
            Self::Dscp => packet.dscp.get() as u32,
            Self::Precedence => 7 - (packet.dscp.get() >> 3) as u32,
        }
    }
}

/// The queues of one port, as a scheduler sets them up.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowQueuesConfig {
    /// What shares a queue.
    pub classify: Classification,
    /// The manager of each queue.
    pub manager: ManagerConfig,
    /// How much may wait in all queues together; beyond, the packet at the head of the longest queue is dropped (longest
    /// in packets for a limit in packets, else in bytes; of several, the one with the lowest number).
    pub limit: Limit,
    /// Weights other than 1, by number of flow, class or port; positive.
    pub weights: Vec<(u32, f64)>,
    /// How many queues with nothing waiting keep the state of their managers.
    pub remembered: u32,
}

impl FlowQueuesConfig {
    /// One limit for all queues, a queue for each flow.
    pub fn shared(limit: Limit) -> Self {
        Self {
            classify: Classification::Flow,
            manager: ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(u32::MAX) }),
            limit,
            weights: Vec::new(),
            remembered: 64,
        }
    }

    /// What the keys of a scheduler say: managers of its own or drop-tail with a limit for each queue, and a limit for all.
    pub(super) fn given(
        classify: Classification,
        own: Option<&ManagerConfig>,
        per_queue: Option<Limit>,
        limit: Option<Limit>,
        weights: &[(u32, f64)],
    ) -> Self {
        let none = Limit::Packets(u32::MAX);
        let manager = match own {
            Some(own) => own.clone(),
            None => ManagerConfig::DropTail(DropTailConfig { limit: per_queue.unwrap_or(none) }),
        };
        Self { classify, manager, weights: weights.to_vec(), ..Self::shared(limit.unwrap_or(none)) }
    }

    /// The weight of queue `key`.
    pub fn weight(&self, key: u32) -> f64 {
        self.weights.iter().find(|(of, _)| *of == key).map_or(1.0, |(_, weight)| *weight)
    }
}

/// A queue of [`FlowQueues`]; dense, reused.
pub type SlotId = u32;

/// No slot.
pub(super) const NONE: SlotId = SlotId::MAX;

/// With no more slots than this, the longest queue is looked for among all of them when room must be made; with more, a heap
/// that every packet keeps up to date is cheaper.
const SLOTS_SEARCHED_MAX: usize = 32;

/// How long a queue is, so that the longest comes first, and of several the one with the lowest number.
type Longest = (Reverse<u64>, u32);

#[derive(Debug)]
struct Slot<S> {
    queue: Fifo<AnyManager>,
    state: S,
    key: u32,
}

/// The queues of one port, each with the scheduler's state `S`.
#[derive(Debug)]
pub struct FlowQueues<S> {
    slots: Vec<Slot<S>>,
    by_key: HashTable<SlotId>,
    /// Lengths at or above the true ones; settled when room must be made. Empty while there are few slots.
    longest: IndexedHeap<Longest>,
    backlog: Backlog,
    limit: QueueLimit,
    /// The slot whose last packet is in transmission.
    emptied: SlotId,
    /// At or before the first timer of a manager.
    timer: Option<Time>,
    /// Slots of queues with nothing waiting.
    idle: RecencyList,
    reclaimed: u64,
    context: Context,
    config: FlowQueuesConfig,
    may_choose_late: bool,
}

impl<S: Default> FlowQueues<S> {
    /// Queues for a port in `context`.
    pub fn new(config: &FlowQueuesConfig, context: &Context) -> Self {
        assert!(config.weights.iter().all(|(_, weight)| *weight > 0.0), "weights are positive");
        Self {
            slots: Vec::new(),
            by_key: HashTable::new(),
            longest: IndexedHeap::default(),
            backlog: Backlog::EMPTY,
            limit: QueueLimit::new(config.limit, context.link_rate),
            emptied: NONE,
            timer: None,
            idle: RecencyList::new(),
            reclaimed: 0,
            context: *context,
            config: config.clone(),
            may_choose_late: !config.manager.build(context).decides_at_head(),
        }
    }

    /// The number of the queue that `packet` belongs to.
    #[inline]
    pub fn key_of(&self, packet: &Packet) -> u32 {
        self.config.classify.key(packet)
    }

    /// The slot of `packet`'s queue. A queue that has none gets one, whose state `start` prepares for its weight: a new
    /// state, or one that another queue left.
    #[inline]
    pub fn slot_of(&mut self, packet: &Packet, start: impl FnOnce(f64, &mut S)) -> SlotId {
        self.slot_of_key(self.key_of(packet), start)
    }

    /// The slot of queue `key`, for a scheduler that numbers its queues itself; as [`slot_of`](Self::slot_of).
    #[inline]
    pub fn slot_of_key(&mut self, key: u32, start: impl FnOnce(f64, &mut S)) -> SlotId {
        if let Some(&slot) = self.by_key.find(spread(key), |&slot| self.slots[slot as usize].key == key) {
            self.idle.remove(slot);
            return slot;
        }
        self.open(key, start)
    }

    fn open(&mut self, key: u32, start: impl FnOnce(f64, &mut S)) -> SlotId {
        let seed = child_seed(self.context.seed, key, self.reclaimed);
        let manager = self.config.manager.build(&Context { seed, ..self.context });
        let slot = match self.idle.oldest() {
            Some(oldest) if self.idle.len() >= self.config.remembered => {
                self.reclaim(oldest);
                let reused = &mut self.slots[oldest as usize];
                reused.queue.restart(manager);
                reused.key = key;
                oldest
            }
            _ => {
                self.slots.push(Slot { queue: Fifo::new(manager), state: S::default(), key });
                if self.slots.len() == SLOTS_SEARCHED_MAX + 1 {
                    self.fill_heap();
                }
                (self.slots.len() - 1) as SlotId
            }
        };
        start(self.config.weight(key), &mut self.slots[slot as usize].state);
        let slots = &self.slots;
        self.by_key.insert_unique(spread(key), slot, |&other| spread(slots[other as usize].key));
        slot
    }

    fn reclaim(&mut self, slot: SlotId) {
        self.idle.remove(slot);
        self.longest.remove(slot);
        let key = self.slots[slot as usize].key;
        if let Ok(entry) = self.by_key.find_entry(spread(key), |&other| other == slot) {
            entry.remove();
        }
        if self.emptied == slot {
            self.emptied = NONE;
        }
        self.reclaimed += 1;
    }

    /// `packet` joins the queue in `slot`, if its manager lets it; the backlog of that queue before and after.
    #[inline]
    pub fn enqueue(
        &mut self,
        slot: SlotId,
        packet: Packet,
        now: Time,
        out: &mut impl Sink,
    ) -> (Backlog, Backlog) {
        let entry = &mut self.slots[slot as usize];
        let before = entry.queue.backlog();
        entry.queue.enqueue(packet, now, out);
        let after = entry.queue.backlog();
        let key = entry.key;
        self.account(before, after);
        if self.slots.len() > SLOTS_SEARCHED_MAX {
            let length = (Reverse(self.length(after)), key);
            if self.longest.key(slot).is_none_or(|known| length < known) {
                self.longest.set(slot, length);
            }
        }
        self.note_timer(slot);
        (before, after)
    }

    /// The queue that must give up a packet, if more waits than may.
    #[inline]
    pub fn overfull(&mut self) -> Option<SlotId> {
        if self.limit.exceeded_by(self.backlog) { self.longest() } else { None }
    }

    fn longest(&mut self) -> Option<SlotId> {
        let (slots, by_packets) = (&self.slots, self.limit.in_packets().is_some());
        let key = |slot: &Slot<S>| (Reverse(length(slot.queue.backlog(), by_packets)), slot.key);
        if slots.len() > SLOTS_SEARCHED_MAX {
            return self.longest.settled_first(|slot| key(&slots[slot as usize])).map(|(_, slot)| slot);
        }
        (0..slots.len() as SlotId).min_by_key(|&slot| key(&slots[slot as usize]))
    }

    /// There are more slots now than are searched: the heap begins with all of them.
    #[cold]
    fn fill_heap(&mut self) {
        for slot in 0..self.slots.len() {
            let entry = &self.slots[slot];
            let length = self.length(entry.queue.backlog());
            self.longest.set(slot as SlotId, (Reverse(length), entry.key));
        }
    }

    /// Drops the packet at the head of the queue in `slot`, which must not be empty; its size.
    pub fn drop_head(&mut self, slot: SlotId, now: Time, out: &mut impl Sink) -> u32 {
        let queue = &mut self.slots[slot as usize].queue;
        let before = queue.backlog();
        let victim = queue.drop_head(now).expect("room is made where something waits");
        let after = queue.backlog();
        if after.is_empty() {
            queue.on_idle(now);
        }
        self.account(before, after);
        self.note_timer(slot);
        out.on_drop(victim, DropReason::Overflow);
        victim.wire_bytes
    }

    /// Drops all that waits in `slot` because of `why`, without asking its manager; what it was.
    pub fn purge(&mut self, slot: SlotId, now: Time, why: DropReason, out: &mut impl Sink) -> Backlog {
        let queue = &mut self.slots[slot as usize].queue;
        let before = queue.backlog();
        if !before.is_empty() {
            queue.purge(now, why, out);
            queue.on_idle(now);
            self.account(before, Backlog::EMPTY);
            self.note_timer(slot);
        }
        before
    }

    /// The next packet of the queue in `slot`, if its manager leaves one; the queue's backlog before and after.
    #[inline]
    pub fn dequeue(
        &mut self,
        slot: SlotId,
        now: Time,
        out: &mut impl Sink,
    ) -> (Option<Packet>, Backlog, Backlog) {
        let queue = &mut self.slots[slot as usize].queue;
        let before = queue.backlog();
        let packet = queue.dequeue(now, out);
        let after = queue.backlog();
        if after.is_empty() {
            if packet.is_some() {
                self.emptied = slot;
            } else {
                queue.on_idle(now);
            }
        }
        self.account(before, after);
        self.note_timer(slot);
        (packet, before, after)
    }

    /// The link finished a packet: the queue that it came from is idle, if nothing waits there. A scheduler calls this
    /// first in `dequeue` and `on_idle`, so that a manager sees the end of its own transmission.
    #[inline]
    pub fn on_transmitted(&mut self, now: Time) {
        if self.emptied != NONE {
            let slot = core::mem::replace(&mut self.emptied, NONE);
            let queue = &mut self.slots[slot as usize].queue;
            if queue.backlog().is_empty() {
                queue.on_idle(now);
                self.note_timer(slot);
            }
        }
    }

    /// The scheduler needs nothing of `slot` any more until its next packet; its queue is empty.
    pub fn release(&mut self, slot: SlotId) {
        debug_assert!(self.queue_backlog(slot).is_empty(), "a slot with packets is in use");
        self.idle.touch(slot);
    }

    /// The scheduler's state of `slot`.
    #[inline]
    pub fn state(&self, slot: SlotId) -> &S {
        &self.slots[slot as usize].state
    }

    /// The scheduler's state of `slot`.
    #[inline]
    pub fn state_mut(&mut self, slot: SlotId) -> &mut S {
        &mut self.slots[slot as usize].state
    }

    /// The number of the flow, class or port whose queue is in `slot`.
    #[inline]
    pub fn key(&self, slot: SlotId) -> u32 {
        self.slots[slot as usize].key
    }

    /// What waits in `slot`.
    #[inline]
    pub fn queue_backlog(&self, slot: SlotId) -> Backlog {
        self.slots[slot as usize].queue.backlog()
    }

    /// The packet at the head of `slot`.
    #[inline]
    pub fn head(&self, slot: SlotId) -> Option<&Packet> {
        self.slots[slot as usize].queue.head()
    }

    /// What waits in all queues.
    #[inline]
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Slots in memory, used or remembered.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The link has a new rate: so have all managers.
    pub fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.context.link_rate = rate;
        self.limit.set_link_rate(rate);
        for slot in &mut self.slots {
            slot.queue.set_link_rate(rate, now);
        }
    }

    /// Whether the managers act on arrivals alone; see [`QueueDiscipline::may_choose_late`].
    pub const fn may_choose_late(&self) -> bool {
        self.may_choose_late
    }

    /// When [`on_timer`](Self::on_timer) wants to run: not after the first timer of a manager.
    pub const fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    /// Runs the managers that are due. Costs a look at every slot, per timer and not per packet.
    pub fn on_timer(&mut self, now: Time, out: &mut impl Sink) {
        for slot in &mut self.slots {
            if slot.queue.timer_at().is_some_and(|at| at <= now) {
                slot.queue.on_timer(now, out);
            }
        }
        self.timer = self.slots.iter().filter_map(|slot| slot.queue.timer_at()).min();
    }

    #[inline]
    fn note_timer(&mut self, slot: SlotId) {
        if let Some(at) = self.slots[slot as usize].queue.timer_at() {
            self.timer = Some(self.timer.map_or(at, |timer| timer.min(at)));
        }
    }

    #[inline]
    fn account(&mut self, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
    }

    #[inline]
    fn length(&self, queue: Backlog) -> u64 {
        length(queue, self.limit.in_packets().is_some())
    }
}

/// What a scheduler that has its packets in `self.queues` answers as these do: part of its `impl QueueDiscipline`.
macro_rules! answered_by_queues {
    () => {
        fn may_choose_late(&self) -> bool {
            self.queues.may_choose_late()
        }
        fn backlog(&self) -> Backlog {
            self.queues.backlog()
        }
        fn on_idle(&mut self, now: Time) {
            self.queues.on_transmitted(now);
        }
        fn timer_at(&self) -> Option<Time> {
            self.queues.timer_at()
        }
        fn on_timer(&mut self, now: Time, out: &mut impl Sink) {
            self.queues.on_timer(now, out);
        }
    };
}
pub(super) use answered_by_queues;

#[inline]
fn length(queue: Backlog, by_packets: bool) -> u64 {
    if by_packets { u64::from(queue.packets) } else { queue.bytes }
}

/// Each queue's manager draws from its own stream, and not twice from the same after its slot was reclaimed.
const fn child_seed(seed: Seed, key: u32, reclaimed: u64) -> Seed {
    Seed(seed.0.wrapping_add(spread(key.wrapping_add(1))) ^ (reclaimed << 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Pi2Config, PiConfig, PieConfig, RemConfig};
    use crate::schedule::testing::Counted;
    use tidegate_packet::FlowId;

    fn pass(queues: &mut FlowQueues<()>, flow: u32, out: &mut Counted) -> SlotId {
        let packet = Packet::new(0, FlowId(flow), 100);
        let slot = queues.slot_of(&packet, |_, ()| ());
        queues.enqueue(slot, packet, Time::ZERO, out);
        queues.dequeue(slot, Time::ZERO, out);
        queues.release(slot);
        slot
    }

    #[test]
    fn memory_is_bounded_by_what_waits_and_what_is_remembered() {
        let config = FlowQueuesConfig { remembered: 3, ..FlowQueuesConfig::shared(Limit::Packets(100)) };
        let mut queues = FlowQueues::new(&config, &Context::for_tests());
        let mut out = Counted::default();
        for flow in 0..1000 {
            pass(&mut queues, flow, &mut out);
        }
        assert_eq!(queues.slots(), 3);
        assert_eq!(queues.by_key.len(), 3);
        assert_eq!(queues.backlog(), Backlog::EMPTY);
    }

    #[test]
    fn managers_of_queues_that_open_late_have_nothing_to_make_up() {
        for manager in [
            ManagerConfig::Rem(RemConfig::default()),
            ManagerConfig::Pi(PiConfig::default()),
            ManagerConfig::Pie(PieConfig::default()),
            ManagerConfig::Pi2(Pi2Config::default()),
        ] {
            let config = FlowQueuesConfig { manager, ..FlowQueuesConfig::shared(Limit::Packets(100)) };
            let mut queues = FlowQueues::<()>::new(&config, &Context::for_tests());
            assert_eq!(queues.timer_at(), None, "nothing has arrived");
            let now = Time::from_nanos(100_000_000_000);
            let packet = Packet { arrived: now, ..Packet::new(0, FlowId(7), 1000) };
            let slot = queues.slot_of(&packet, |_, ()| ());
            queues.enqueue(slot, packet, now, &mut Counted::default());
            let timer = queues.timer_at().expect("its manager looks at what waits");
            assert!(timer > now, "{:?}", config.manager);
        }
    }

    #[test]
    fn a_returning_flow_finds_its_slot_until_newer_ones_needed_it() {
        let config = FlowQueuesConfig { remembered: 2, ..FlowQueuesConfig::shared(Limit::Packets(100)) };
        let mut queues = FlowQueues::new(&config, &Context::for_tests());
        let mut out = Counted::default();
        let first = pass(&mut queues, 7, &mut out);
        pass(&mut queues, 8, &mut out);
        assert_eq!(pass(&mut queues, 7, &mut out), first);
        for flow in 9..11 {
            pass(&mut queues, flow, &mut out);
        }
        assert_eq!(queues.key(first), 10, "the oldest idle slot was reused");
    }

    #[test]
    fn the_longest_queue_is_longest_in_the_unit_of_the_limit() {
        let enqueue = |queues: &mut FlowQueues<()>, flow, bytes| {
            let packet = Packet::new(0, FlowId(flow), bytes);
            let slot = queues.slot_of(&packet, |_, ()| ());
            queues.enqueue(slot, packet, Time::ZERO, &mut Counted::default());
        };
        for (limit, longest) in [(Limit::Packets(2), 1), (Limit::Bytes(tidegate_units::Bytes::new(100)), 2)] {
            let mut queues = FlowQueues::new(&FlowQueuesConfig::shared(limit), &Context::for_tests());
            enqueue(&mut queues, 1, 40);
            enqueue(&mut queues, 1, 40);
            enqueue(&mut queues, 2, 1500);
            let slot = queues.overfull().expect("three packets are too many");
            assert_eq!(queues.key(slot), longest);
        }
    }

    #[test]
    fn the_longest_queue_is_found_among_few_slots_and_among_many() {
        let limit = Limit::Bytes(tidegate_units::Bytes::new(0));
        let config = FlowQueuesConfig { remembered: 8, ..FlowQueuesConfig::shared(limit) };
        let mut queues = FlowQueues::new(&config, &Context::for_tests());
        let mut out = Counted::default();
        let mut random = crate::random::Substream::new(Seed(1));
        // More flows take part as time passes: the answers must not change where the way to find them does.
        for step in 0..4000u32 {
            let flows = 2 + step / 80;
            let packet = Packet::new(0, FlowId(random.below(flows)), 40 + 20 * random.below(8));
            let slot = queues.slot_of(&packet, |_, ()| ());
            queues.enqueue(slot, packet, Time::ZERO, &mut out);
            let waits = |of: &SlotId| !queues.queue_backlog(*of).is_empty();
            let by_length = |of: &SlotId| (Reverse(queues.queue_backlog(*of).bytes), queues.key(*of));
            let longest = (0..queues.slots() as SlotId).filter(waits).min_by_key(by_length);
            assert_eq!(queues.overfull(), longest, "step {step}");
            let chosen = random.below(queues.slots() as u32);
            for served in [longest.unwrap_or(slot), chosen] {
                if random.below(5) < 3 && !queues.queue_backlog(served).is_empty() {
                    queues.dequeue(served, Time::ZERO, &mut out);
                    if queues.queue_backlog(served).is_empty() {
                        queues.release(served);
                    }
                }
            }
        }
        assert!(queues.slots() > SLOTS_SEARCHED_MAX, "the heap was used, too");
    }
}
