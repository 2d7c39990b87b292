//! A monotone radix heap with digits of six bits, first in first out among equal times.
//!
//! A simulation never schedules into the past, so keys only need ordering relative to the last one taken. An entry sits at
//! the level of the highest digit in which its time differs from the last time taken, in the slot of that digit's value;
//! the first occupied slot of the lowest occupied level holds the earliest entry, often alone. Otherwise the entries of
//! the slot move to lower levels, a few times at most, always in order, so entries of equal time stay in
//! order of scheduling: equal times differ from any earlier time in the same digit and therefore always share a slot.

use tidegate_units::Time;

use super::Token;

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
pub(super) struct RadixHeap {
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

impl Default for RadixHeap {
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

impl RadixHeap {
    /// Wakes `token` at `time`, which must not be before the last time that was taken, or asked for.
    pub(super) fn schedule(&mut self, time: u64, token: Token) {
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

    #[inline]
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

    /// Takes the earliest entry, among equal times the one scheduled first, if it is due at `until` or before. Otherwise an instant
    /// before which none is: nothing may be scheduled before `until` from then on.
    pub(super) fn pop_until(&mut self, until: u64) -> Result<(u64, Token), u64> {
        while self.due.first == NONE {
            let Some((level, slot)) = self.first_slot() else { return Err(u64::MAX) };
            let list = self.slots[level][slot];
            let from = self.first_instant(list, level);
            if from > until {
                return Err(from);
            }
            self.slots[level][slot] = List::EMPTY;
            self.occupied[level] &= self.occupied[level] - 1;
            if self.occupied[level] == 0 {
                self.occupied_levels &= self.occupied_levels - 1;
            }
            if list.first == list.last {
                self.last = from;
                return Ok(self.take(list.first));
            }
            self.spread(list, level);
        }
        if self.last > until {
            return Err(self.last);
        }
        let index = self.due.first;
        self.due.first = self.pool[index as usize].next;
        Ok(self.take(index))
    }

    /// An instant before which no entry is due.
    pub(super) fn not_before(&self) -> u64 {
        if self.due.first != NONE {
            return self.last;
        }
        self.first_slot().map_or(u64::MAX, |(level, slot)| self.first_instant(self.slots[level][slot], level))
    }

    /// When the one entry of `list` is due, which is a slot of `level`, or from when any of several can be.
    fn first_instant(&self, list: List, level: usize) -> u64 {
        let time = self.pool[list.first as usize].time;
        let shift = level as u32 * DIGIT_BITS;
        if list.first == list.last { time } else { time >> shift << shift }
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
    fn take(&mut self, index: u32) -> (u64, Token) {
        let entry = &mut self.pool[index as usize];
        entry.next = core::mem::replace(&mut self.free, index);
        (entry.time, entry.token)
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
    pub(super) fn peek(&self) -> Option<Time> {
        if self.due.first != NONE {
            return Some(Time::from_nanos(self.last));
        }
        let (level, slot) = self.first_slot()?;
        let earliest = self.earliest(self.slots[level][slot]);
        Some(Time::from_nanos(self.pool[earliest as usize].time))
    }
}
