//! The event queue: a monotone radix heap with digits of six bits, first in first out among equal times.
//!
//! A simulation never schedules into the past, so keys only need ordering relative to the last one taken. An entry sits at
//! the level of the highest digit in which its time differs from the last time taken, in the slot of that digit's value;
//! the first occupied slot of the lowest occupied level holds the earliest entry, often alone. Otherwise the entries of
//! the slot move to lower levels, a few times at most, always in order, so entries of equal time stay in
//! order of scheduling: equal times differ from any earlier time in the same digit and therefore always share a slot.

use tidegate_units::Time;

/// What to wake. Four bits of kind and 28 bits of index, made by the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    token: Token,
    /// The next of its list, or of the free entries.
    next: u32,
}

const NONE: u32 = u32::MAX;

/// Bits of a digit, values of a digit, digits of a time.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// Entries in order, chained through the pool.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    /// Meaningless while the list is empty.
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    #[inline]
    fn push(&mut self, index: u32, pool: &mut [Entry]) {
        pool[index as usize].next = NONE;
        if self.first == NONE {
            self.first = index;
        } else {
            pool[self.last as usize].next = index;
        }
        self.last = index;
    }
}

/// See the module.
#[derive(Debug)]
pub struct EventQueue {
    /// Time of the last entry taken.
    last: u64,
    /// Bit i is set if anything is at level i.
    occupied_levels: u32,
    /// By level, bit i is set if slot i holds anything.
    occupied: [u64; LEVELS],
    slots: [[List; SLOTS]; LEVELS],
    /// Entries at exactly `last`.
    due: List,
    /// All entries; those that are free are chained, so that a fresh one finds its line in the cache.
    pool: Vec<Entry>,
    free: u32,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            last: 0,
            occupied_levels: 0,
            occupied: [0; LEVELS],
            slots: [[List::EMPTY; SLOTS]; LEVELS],
            due: List::EMPTY,
            pool: Vec::new(),
            free: NONE,
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
        let entry = Entry { time, token, next: NONE };
        let index = if self.free == NONE {
            self.pool.push(entry);
            (self.pool.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.pool[index as usize].next;
            self.pool[index as usize] = entry;
            index
        };
        self.place(index, time);
    }

    #[expect(clippy::inline_always, reason = "as `schedule`, whose larger part it is")]
    #[inline(always)]
    fn place(&mut self, index: u32, time: u64) {
        let differing = time ^ self.last;
        let list = if differing == 0 {
            &mut self.due
        } else {
            let level = differing.ilog2() / DIGIT_BITS;
            let slot = (time >> (level * DIGIT_BITS)) as usize % SLOTS;
            self.occupied_levels |= 1 << level;
            self.occupied[level as usize] |= 1 << slot;
            &mut self.slots[level as usize][slot]
        };
        list.push(index, &mut self.pool);
    }

    /// The earliest entry; among equal times the one scheduled first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Token)> {
        while self.due.first == NONE {
            let (level, slot) = self.first_slot()?;
            let list = core::mem::replace(&mut self.slots[level][slot], List::EMPTY);
            self.occupied[level] &= self.occupied[level] - 1;
            if self.occupied[level] == 0 {
                self.occupied_levels &= self.occupied_levels - 1;
            }
            if list.first == list.last {
                let (time, token) = self.take(list.first);
                self.last = time.as_nanos();
                return Some((time, token));
            }
            let second = self.pool[list.first as usize].next;
            if second == list.last {
                return Some(self.part(list));
            }
            self.spread(list, level);
        }
        let index = self.due.first;
        self.due.first = self.pool[index as usize].next;
        Some(self.take(index))
    }

    /// Level and slot of the earliest entry that is not due.
    #[inline]
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.occupied_levels == 0 {
            return None;
        }
        let level = self.occupied_levels.trailing_zeros() as usize;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    /// Frees entry `index`, which is in no list any more.
    #[inline]
    fn take(&mut self, index: u32) -> (Time, Token) {
        let entry = &mut self.pool[index as usize];
        entry.next = core::mem::replace(&mut self.free, index);
        (Time::from_nanos(entry.time), entry.token)
    }

    /// As [`spread`](Self::spread), of the two entries of `list`: most lists that have several have two.
    #[inline(never)]
    fn part(&mut self, list: List) -> (Time, Token) {
        let List { first, last } = list;
        let (time, later) = (self.pool[first as usize].time, self.pool[last as usize].time);
        let is_in_order = time <= later;
        let (earliest, other) = if is_in_order { (first, last) } else { (last, first) };
        self.last = time.min(later);
        self.place(other, time.max(later));
        self.take(earliest)
    }

    /// Moves the entries of `list`, which was a slot of `level`, to where they belong relative to the slot's first instant. None is
    /// earlier than that, so it serves as the last time taken until one of them is.
    #[inline(never)]
    fn spread(&mut self, list: List, level: usize) {
        let mut index = list.first;
        let shift = level as u32 * DIGIT_BITS;
        self.last = self.pool[index as usize].time >> shift << shift;
        while index != NONE {
            let Entry { time, next, .. } = self.pool[index as usize];
            self.place(index, time);
            index = next;
        }
    }

    /// The earliest entry of `list`, which is not empty; the first among equals.
    #[inline]
    fn earliest(&self, list: List) -> u32 {
        let (mut earliest, mut earliest_time) = (list.first, u64::MAX);
        let mut index = list.first;
        while index != NONE {
            let entry = &self.pool[index as usize];
            if entry.time < earliest_time {
                (earliest, earliest_time) = (index, entry.time);
            }
            index = entry.next;
        }
        earliest
    }

    /// When the earliest entry is due. Looks only, so that entries may still be scheduled before it.
    pub fn peek(&self) -> Option<Time> {
        if self.due.first != NONE {
            return Some(Time::from_nanos(self.last));
        }
        let (level, slot) = self.first_slot()?;
        let earliest = self.earliest(self.slots[level][slot]);
        Some(Time::from_nanos(self.pool[earliest as usize].time))
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
            steps in proptest::collection::vec((0u64..1 << 20, 0usize..4), 1..400)
        ) {
            let mut queue = EventQueue::default();
            let mut reference: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (serial, &(ahead, pops)) in steps.iter().enumerate() {
                // Coarse steps make ties frequent.
                let due = now + (ahead >> (ahead % 19));
                queue.schedule(Time::from_nanos(due), Token(serial as u32));
                reference.push((due, serial as u32));
                prop_assert_eq!(
                    queue.peek().map(Time::as_nanos),
                    reference.iter().map(|&(time, _)| time).min()
                );
                for _ in 0..pops {
                    reference.sort_by_key(|&(time, _)| time);
                    let expected = if reference.is_empty() { None } else { Some(reference.remove(0)) };
                    let taken = queue.pop().map(|(time, token)| (time.as_nanos(), token.0));
                    prop_assert_eq!(taken, expected);
                    now = taken.map_or(now, |(time, _)| time);
                }
                prop_assert_eq!(queue.peek().is_none(), reference.is_empty());
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
