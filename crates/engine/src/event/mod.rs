//! The event queue: a timing wheel for what is due soon, in front of a radix heap for the rest; first in first out among equal
//! times.
//!
//! Most events are arrivals at the far end of a link, a few milliseconds ahead, and most of the time there is at most one in the
//! time that a slot of the wheel stands for: it then lies in the slot itself, and is scheduled and taken without any list. What
//! is due beyond the wheel, and what shares its slot with more than one other, goes to the [`radix`] heap. The width of a slot
//! follows how dense events are.
//!
//! Ties: whatever of one instant is in the heap was scheduled before whatever of it is in the wheel. For the wheel only comes
//! nearer to an instant while its width stays, and a slot that is given to the heap, as all are before the width changes, is
//! given in order. So the heap goes first, and within a slot the order of scheduling is kept.
//!
//! A simulation on several cores has no order of scheduling that all of them know. There events of one instant are taken by their
//! tokens ([`EventQueue::pop_numbered`]).

mod radix;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_units::Time;

use self::radix::RadixHeap;
pub use self::radix::UPCOMING_MAX;

/// What to wake. Five bits of kind and 27 bits of index, made by the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u32);

/// `token` behind its rank among those of one instant.
const fn ranked(token: Token) -> u64 {
    (token.rank() as u64) << 32 | token.0 as u64
}

/// Slots of the wheel: one bit in each of 64 words, of which a last word tells which are not zero. Its 64 kB cost S3 of the benchmark
/// half a miss per hop in a cache of 512 kB; half as many slots of twice the width save a quarter of that, for 16 instructions.
const SLOTS: usize = 64 * 64;

/// A slot is to be this small a part of the mean time between events, as a power of two: narrow ones are seldom shared, wide ones
/// see farther.
const WIDTH_SHIFT: u32 = 2;

/// Events between two looks at how dense they are.
const LOOK_EVERY: u32 = 4096;

/// By how many powers of two more it may be smaller, and what of the events between two looks decides it.
const NARROWER_MAX: u32 = 2;
const MANY_CROWDED: u32 = LOOK_EVERY / 8;
const FEW_LATE: u32 = LOOK_EVERY / 64;
const MANY_LATE: u32 = LOOK_EVERY / 16;
/// Looks after which what did not pay is tried again: so many at first, and twice as many each time.
const PATIENCE: u32 = 8;
const PATIENCE_MAX: u32 = 4096;

const NONE: u32 = u32::MAX;

/// An event, in its slot or in the chain of those that came to the slot later.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    token: Token,
    /// In a slot, the last that came; in the chain, the one that came before. Of free ones, the next.
    chain: u32,
}

const NOTHING: Entry = Entry { time: u64::MAX, token: Token(0), chain: NONE };

/// See the module.
#[derive(Debug)]
pub struct EventQueue {
    /// Time of the last entry taken.
    last: u64,
    /// No entry of the heap is due before.
    heap_from: u64,
    /// What [`Self::pop_due`] takes is due before.
    end: u64,
    /// The earlier of the two.
    wheel_until: u64,
    /// The logarithm of the width of a slot, in nanoseconds.
    shift: u32,
    /// Entries to take before the next look at the width.
    until_look: u32,
    /// Bit i is set if word i of `occupied` is not zero.
    occupied_words: u64,
    /// Slot i is bit i % 64 of word i / 64.
    occupied: [u64; 64],
    /// The first entry of each slot; means nothing in one that is not occupied.
    slots: Box<[Entry; SLOTS]>,
    /// Entries that share their slot with an earlier one, and free ones.
    chained: Vec<Entry>,
    free: u32,
    heap: RadixHeap,
    /// Time of the last entry that had been taken at the last look.
    looked: u64,
    /// By how many powers of two slots are narrower than the mean time between events asks for.
    narrower: u32,
    /// Looks to wait before they may become narrower again, and after the next time that it did not pay.
    patience: u32,
    patience_next: u32,
    /// Events since the last look that found their slot occupied, and that were beyond the wheel.
    crowded: u32,
    late: u32,
    /// What is due at `last` and was taken out of the rest, where events of one instant are taken by their tokens.
    due: BinaryHeap<Reverse<u64>>,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            last: 0,
            heap_from: u64::MAX,
            end: 0,
            wheel_until: 0,
            shift: 0,
            until_look: LOOK_EVERY,
            occupied_words: 0,
            occupied: [0; 64],
            slots: vec![NOTHING; SLOTS].try_into().expect("as many as there are slots"),
            chained: Vec::new(),
            free: NONE,
            heap: RadixHeap::default(),
            looked: 0,
            narrower: 0,
            patience: 0,
            patience_next: PATIENCE,
            crowded: 0,
            late: 0,
            due: BinaryHeap::new(),
        }
    }
}

impl EventQueue {
    /// Wakes `token` at `time`, which must not be before the last time taken.
    #[expect(clippy::inline_always, reason = "once per packet and hop; the call cost as much as the work")]
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, token: Token) {
        let time = time.as_nanos();
        debug_assert!(time >= self.last, "an event was scheduled {} ns into the past", self.last - time);
        let number = time >> self.shift;
        if number - (self.last >> self.shift) >= SLOTS as u64 {
            return self.schedule_late(time, token);
        }
        let slot = number as usize % SLOTS;
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.occupied[word] & bit != 0 {
            return self.chain(slot, time, token);
        }
        self.occupied[word] |= bit;
        self.occupied_words |= 1 << word;
        self.slots[slot] = Entry { time, token, chain: NONE };
    }

    /// An event beyond the wheel.
    #[inline(never)]
    fn schedule_late(&mut self, time: u64, token: Token) {
        self.late += 1;
        self.give_to_heap(time, token);
    }

    /// An event beyond the wheel, or one of a slot that has too many.
    #[inline]
    fn give_to_heap(&mut self, time: u64, token: Token) {
        self.set_heap_from(self.heap_from.min(time));
        self.heap.schedule(time, token);
    }

    /// An event whose slot is occupied.
    #[inline(never)]
    fn chain(&mut self, slot: usize, time: u64, token: Token) {
        self.crowded += 1;
        let entry = Entry { time, token, chain: self.slots[slot].chain };
        self.slots[slot].chain = if self.free == NONE {
            self.chained.push(entry);
            (self.chained.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.chained[index as usize].chain;
            self.chained[index as usize] = entry;
            index
        };
    }

    /// The earliest entry; among equal times the one scheduled first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Token)> {
        self.pop_until(u64::MAX)
    }

    /// From now on [`Self::pop_due`] takes what is due before `end`.
    pub fn set_end(&mut self, end: Time) {
        self.end = end.as_nanos();
        self.set_heap_from(self.heap_from);
    }

    fn set_heap_from(&mut self, from: u64) {
        self.heap_from = from;
        self.wheel_until = from.min(self.end);
    }

    /// The same as [`Self::pop`], if it is due before the end that was set. If none is, nothing may be scheduled before that end from
    /// then on.
    #[inline]
    pub fn pop_due(&mut self) -> Option<(Time, Token)> {
        if let Some(slot) = self.first_slot() {
            let entry = self.slots[slot];
            if entry.chain == NONE && entry.time < self.wheel_until {
                self.vacate(slot);
                return Some(self.took(entry.time, entry.token));
            }
        }
        self.pop_elsewhere(self.end.checked_sub(1)?)
    }

    /// The same, if it is due by `limit`.
    #[inline]
    fn pop_until(&mut self, limit: u64) -> Option<(Time, Token)> {
        if let Some(slot) = self.first_slot() {
            let entry = self.slots[slot];
            if entry.chain == NONE && entry.time < self.heap_from {
                if entry.time > limit {
                    return None;
                }
                self.vacate(slot);
                return Some(self.took(entry.time, entry.token));
            }
        }
        self.pop_elsewhere(limit)
    }

    /// The earliest entry that is due before `end`; among equal times the one with the least token. Nothing may be scheduled before
    /// `end` by others than those whose entries are taken until there is none. Not to be mixed with [`Self::pop`].
    pub fn pop_numbered(&mut self, end: Time) -> Option<(Time, Token)> {
        if self.due.is_empty() {
            let limit = end.as_nanos().checked_sub(1)?;
            let slot = self.first_slot();
            if let Some(slot) = slot {
                let entry = self.slots[slot];
                // Alone in its slot it is alone at its instant.
                if entry.chain == NONE && entry.time < self.heap_from {
                    if entry.time > limit {
                        return None;
                    }
                    self.vacate(slot);
                    return Some(self.took(entry.time, entry.token));
                }
            }
            let (_, token) = self.pop_elsewhere(limit)?;
            self.due.push(Reverse(ranked(token)));
        }
        // Whatever else is due now, what has been scheduled meanwhile included.
        while let Some((_, token)) = self.pop_elsewhere(self.last) {
            self.due.push(Reverse(ranked(token)));
        }
        let Reverse(ranked) = self.due.pop()?;
        Some((Time::from_nanos(self.last), Token(ranked as u32)))
    }

    /// An instant before which nothing is due, as near as can be told at once.
    pub fn not_before(&self) -> Time {
        if !self.due.is_empty() {
            return Time::from_nanos(self.last);
        }
        let in_wheel = self.first_slot().map_or(u64::MAX, |slot| self.earliest(slot));
        Time::from_nanos(in_wheel.min(self.heap_from))
    }

    /// The occupied slot that is next in time. The wheel has no entries before the last one taken, so the slots before that one's
    /// are those farthest ahead.
    #[inline]
    fn first_slot(&self) -> Option<usize> {
        let slot = (self.last >> self.shift) as usize % SLOTS;
        let word = slot / 64;
        let ahead = self.occupied[word] >> (slot % 64);
        if ahead != 0 {
            return Some(slot + ahead.trailing_zeros() as usize);
        }
        if self.occupied_words == 0 {
            return None;
        }
        // The word itself is the last one that is looked at, for what is behind the slot.
        let rotated = self.occupied_words.rotate_right(word as u32 + 1);
        let word = (word + 1 + rotated.trailing_zeros() as usize) % 64;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        let word = slot / 64;
        self.occupied[word] &= !(1 << (slot % 64));
        if self.occupied[word] == 0 {
            self.occupied_words &= !(1 << word);
        }
    }

    /// The same where the next slot is shared, or the heap may have something before; nothing that is due after `limit`.
    #[inline(never)]
    fn pop_elsewhere(&mut self, limit: u64) -> Option<(Time, Token)> {
        loop {
            let slot = self.first_slot();
            let time = match slot.map(|slot| (slot, self.earliest_of_two(slot))) {
                None => u64::MAX,
                Some((_, Some(time))) => time,
                Some((slot, None)) => {
                    self.spill(slot);
                    continue;
                }
            };
            let until = time.min(limit);
            if self.heap_from <= until {
                match self.heap.pop_until(until) {
                    Ok((due, token)) => {
                        self.set_heap_from(self.heap.not_before());
                        return Some(self.took(due, token));
                    }
                    Err(from) => self.set_heap_from(from),
                }
            }
            if time > limit {
                return None;
            }
            let taken = self.take_from(slot?);
            return Some(self.took(taken.time, taken.token));
        }
    }

    #[inline]
    fn took(&mut self, time: u64, token: Token) -> (Time, Token) {
        self.last = time;
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look();
        }
        (Time::from_nanos(time), token)
    }

    /// When the earliest entry of `slot` is due; `None` if there are more than two.
    fn earliest_of_two(&self, slot: usize) -> Option<u64> {
        let Entry { time, chain, .. } = self.slots[slot];
        let Some(other) = self.chained.get(chain as usize) else { return Some(time) };
        (other.chain == NONE).then(|| time.min(other.time))
    }

    /// Takes the earliest of the entries of `slot`, which are one or two.
    fn take_from(&mut self, slot: usize) -> Entry {
        let entry = self.slots[slot];
        if entry.chain == NONE {
            self.vacate(slot);
            return entry;
        }
        let other = self.chained[entry.chain as usize];
        self.set_free(entry.chain);
        let (earliest, left) = if entry.time <= other.time { (entry, other) } else { (other, entry) };
        self.slots[slot] = Entry { chain: NONE, ..left };
        earliest
    }

    fn set_free(&mut self, index: u32) {
        self.chained[index as usize].chain = self.free;
        self.free = index;
    }

    /// Gives all entries of `slot` to the heap, in the order in which they came.
    fn spill(&mut self, slot: usize) {
        self.vacate(slot);
        let head = self.slots[slot];
        self.give_to_heap(head.time, head.token);
        // Those of the chain came later, the last one first: its links are turned around on the way.
        let (mut first, mut rest) = (NONE, head.chain);
        while rest != NONE {
            let before = core::mem::replace(&mut self.chained[rest as usize].chain, first);
            first = core::mem::replace(&mut rest, before);
        }
        while first != NONE {
            let entry = self.chained[first as usize];
            self.give_to_heap(entry.time, entry.token);
            self.set_free(first);
            first = entry.chain;
        }
    }

    /// Looks how dense events have been, and makes slots as wide as that asks for. Not for a factor of two alone, so that
    /// it seldom changes.
    #[cold]
    fn look(&mut self) {
        let fitted = self.narrower;
        self.fit();
        let between = (self.last - self.looked) / u64::from(LOOK_EVERY);
        let wanted = (between >> (WIDTH_SHIFT + self.narrower)).max(1).ilog2();
        self.until_look = LOOK_EVERY;
        self.looked = self.last;
        if wanted.abs_diff(self.shift) > u32::from(self.narrower == fitted) {
            while let Some(slot) = self.first_slot() {
                self.spill(slot);
            }
            self.shift = wanted;
        }
    }

    /// Where events come in bunches, many of them find their slot occupied, and next to none is far ahead, slots are narrower than their
    /// mean asks for; and wider again where that did not pay.
    fn fit(&mut self) {
        self.patience = self.patience.saturating_sub(1);
        if self.narrower > 0 && self.late > MANY_LATE {
            self.narrower -= 1;
            self.patience = self.patience_next;
            self.patience_next = (2 * self.patience).min(PATIENCE_MAX);
        } else if self.crowded > MANY_CROWDED && self.late < FEW_LATE && self.patience == 0 {
            self.narrower = (self.narrower + 1).min(NARROWER_MAX);
        }
        (self.crowded, self.late) = (0, 0);
    }

    /// From now on it is known what is due next, or is not any more.
    pub const fn set_foresees(&mut self, foresees: bool) {
        self.heap.foresees = foresees;
    }

    /// What is due next, as far as it has come to be known since this was last emptied: in no order, and of what is due so late that it was not
    /// in the wheel. Empty unless that is wanted.
    #[inline]
    pub const fn upcoming(&mut self) -> &mut Vec<Token> {
        &mut self.heap.upcoming
    }

    /// When the earliest entry is due. Looks only, so that entries may still be scheduled before it.
    pub fn peek(&self) -> Option<Time> {
        let in_wheel = self.first_slot().map(|slot| Time::from_nanos(self.earliest(slot)));
        in_wheel.into_iter().chain(self.heap.peek()).min()
    }

    /// When the earliest entry of `slot` is due.
    fn earliest(&self, slot: usize) -> u64 {
        let Entry { mut time, mut chain, .. } = self.slots[slot];
        while let Some(entry) = self.chained.get(chain as usize) {
            (time, chain) = (time.min(entry.time), entry.chain);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the obvious implementation: a stable sort of all that is pending.
        #[test]
        fn takes_the_earliest_and_among_equals_the_first(
            steps in proptest::collection::vec((0u64..1 << 20, 0usize..4), 1..400),
            shift in 0u32..20,
            until_look in 1u32..400,
            (narrower, crowded, late) in (0..=NARROWER_MAX, 0..2 * MANY_CROWDED, 0..2 * MANY_LATE),
            ends in proptest::collection::vec(0u64..1 << 18, 1..20),
        ) {
            let mut queue = EventQueue::default();
            let mut reference: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            // Slots of any width, which changes on the way.
            (queue.shift, queue.until_look) = (shift, until_look);
            (queue.narrower, queue.crowded, queue.late) = (narrower, crowded, late);
            for (serial, &(ahead, pops)) in steps.iter().enumerate() {
                // Coarse steps make ties frequent.
                let due = now + (ahead >> (ahead % 19));
                queue.schedule(Time::from_nanos(due), Token(serial as u32));
                reference.push((due, serial as u32));
                prop_assert_eq!(
                    queue.peek().map(Time::as_nanos),
                    reference.iter().map(|&(time, _)| time).min()
                );
                // At times only what is due before an end, after which nothing is scheduled before that.
                let end = (serial % 3 == 0).then(|| now + ends[serial % ends.len()]);
                if let Some(end) = end {
                    queue.set_end(Time::from_nanos(end));
                }
                for _ in 0..pops {
                    reference.sort_by_key(|&(time, _)| time);
                    let is_due = reference.first().is_some_and(|&(time, _)| end.is_none_or(|end| time < end));
                    let expected = if is_due { Some(reference.remove(0)) } else { None };
                    let popped = if end.is_some() { queue.pop_due() } else { queue.pop() };
                    let taken = popped.map(|(time, token)| (time.as_nanos(), token.0));
                    prop_assert_eq!(taken, expected);
                    now = taken.map_or_else(|| end.filter(|_| !is_due).unwrap_or(now), |(time, _)| time);
                }
                prop_assert_eq!(queue.peek().is_none(), reference.is_empty());
            }
        }
    }

    proptest! {
        /// Against the obvious implementation, with windows as a simulation on several cores has them: what comes from others is due
        /// when a window ends, or later.
        #[test]
        fn takes_the_earliest_and_among_equals_the_least_token(
            windows in proptest::collection::vec(
                (1u64..3000, proptest::collection::vec((0u64..1 << 16, 0u32..6), 0..12)), 1..60),
            ahead in proptest::collection::vec(0u64..1 << 14, 1..50),
            shift in 0u32..16,
            until_look in 1u32..100,
        ) {
            let mut queue = EventQueue::default();
            let mut reference: std::collections::BTreeMap<(u64, u32), u32> = std::collections::BTreeMap::new();
            (queue.shift, queue.until_look) = (shift, until_look);
            let (mut end, mut serial) = (0, 0);
            for (length, from_others) in windows {
                for (later, token) in from_others {
                    let due = end + (later >> (later % 13));
                    queue.schedule(Time::from_nanos(due), Token(token));
                    *reference.entry((due, token)).or_default() += 1;
                }
                end += length;
                loop {
                    let first = reference.first_entry().filter(|first| first.key().0 < end);
                    let earliest = first.as_ref().map_or(u64::MAX, |first| first.key().0);
                    prop_assert!(queue.not_before().as_nanos() <= earliest);
                    let expected = first.map(|mut first| {
                        *first.get_mut() -= 1;
                        if *first.get() == 0 { first.remove_entry().0 } else { *first.key() }
                    });
                    let taken = queue.pop_numbered(Time::from_nanos(end)).map(|(at, token)| (at.as_nanos(), token.0));
                    prop_assert_eq!(taken, expected);
                    let Some((now, token)) = taken else { break };
                    // Some events bring others, also of the same instant.
                    serial += 1;
                    if serial % 3 == 0 {
                        let later = ahead[serial % ahead.len()];
                        let due = now + (later >> (later % 15));
                        let other = (token + 1 + serial as u32) % 7;
                        queue.schedule(Time::from_nanos(due), Token(other));
                        *reference.entry((due, other)).or_default() += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn never_is_a_time_like_any_other() {
        let mut queue = EventQueue::default();
        queue.schedule(Time::MAX, Token(1));
        queue.schedule(Time::ZERO, Token(0));
        assert_eq!(queue.pop(), Some((Time::ZERO, Token(0))));
        assert_eq!(queue.pop(), Some((Time::MAX, Token(1))));
        assert_eq!(queue.pop(), None);
    }
}
