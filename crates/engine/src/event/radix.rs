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
}

const NONE: u32 = u32::MAX;
const NOTHING: Entry = Entry { time: 0, token: Token(0) };

/// Bits of a digit, values of a digit, digits of a time.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Entries that lie together. Where there are millions, each that lies alone is a miss whenever its list is gone through.
const TOGETHER: usize = 15;

/// What is due next is told in lists of so many: what events of one touch is to find room in a cache of half a megabyte.
const UPCOMING_MIN: usize = 4;
pub const UPCOMING_MAX: usize = 256;

/// A part of a list: four cache lines, of which the first has what the only entry of a list needs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    /// The next of its list, or of the free ones.
    next: u32,
    /// Entries in it.
    len: u32,
    entries: [Entry; TOGETHER],
}

const _: () = assert!(size_of::<Chunk>() == 256);

/// Entries in order, in chunks of the pool.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    /// Meaningless while the list is empty.
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

/// All chunks; those that are free are chained, so that a fresh one finds its lines in the cache.
#[derive(Debug)]
struct Pool {
    chunks: Vec<Chunk>,
    free: u32,
}

impl Pool {
    #[inline]
    fn push(&mut self, list: &mut List, entry: Entry) {
        if list.first == NONE {
            list.first = self.begin(entry);
            list.last = list.first;
            return;
        }
        let chunk = &mut self.chunks[list.last as usize];
        match chunk.entries.get_mut(chunk.len as usize) {
            Some(place) => {
                *place = entry;
                chunk.len += 1;
            }
            None => self.extend(list, entry),
        }
    }

    /// A chunk that has this entry only.
    #[inline]
    fn begin(&mut self, entry: Entry) -> u32 {
        let index = self.free;
        let Some(chunk) = self.chunks.get_mut(index as usize) else { return self.add(entry) };
        self.free = chunk.next;
        (chunk.next, chunk.len, chunk.entries[0]) = (NONE, 1, entry);
        index
    }

    #[cold]
    fn add(&mut self, entry: Entry) -> u32 {
        let mut entries = [NOTHING; TOGETHER];
        entries[0] = entry;
        self.chunks.push(Chunk { next: NONE, len: 1, entries });
        (self.chunks.len() - 1) as u32
    }

    #[inline(never)]
    fn extend(&mut self, list: &mut List, entry: Entry) {
        let index = self.begin(entry);
        self.chunks[list.last as usize].next = index;
        list.last = index;
    }

    #[inline]
    fn release(&mut self, index: u32) {
        self.chunks[index as usize].next = core::mem::replace(&mut self.free, index);
    }

    /// The entry of `list` if it has no other.
    #[inline]
    fn only(&self, list: List) -> Option<Entry> {
        let chunk = &self.chunks[list.first as usize];
        (list.first == list.last && chunk.len == 1).then_some(chunk.entries[0])
    }

    fn first(&self, list: List) -> Entry {
        self.chunks[list.first as usize].entries[0]
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
    /// Entries at exactly `last`, and how many of its first chunk have been taken.
    due: List,
    taken: u32,
    pool: Pool,
    /// Whether somebody wants to know what is due next, and what is.
    pub(super) foresees: bool,
    pub(super) upcoming: Vec<Token>,
}

impl Default for RadixHeap {
    fn default() -> Self {
        Self {
            last: 0,
            occupied_levels: 0,
            occupied: [0; LEVELS],
            slots: [[List::EMPTY; SLOTS]; LEVELS],
            due: List::EMPTY,
            taken: 0,
            pool: Pool { chunks: Vec::new(), free: NONE },
            foresees: false,
            upcoming: Vec::new(),
        }
    }
}

impl RadixHeap {
    /// Wakes `token` at `time`, which must not be before the last time that was taken, or asked for.
    pub(super) fn schedule(&mut self, time: u64, token: Token) {
        debug_assert!(time >= self.last, "an event was scheduled {} ns into the past", self.last - time);
        self.place(Entry { time, token });
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        let differing = entry.time ^ self.last;
        let list = if differing == 0 {
            &mut self.due
        } else {
            let level = differing.ilog2() / DIGIT_BITS;
            let slot = (entry.time >> (level * DIGIT_BITS)) as usize % SLOTS;
            self.occupied_levels |= 1 << level;
            self.occupied[level as usize] |= 1 << slot;
            &mut self.slots[level as usize][slot]
        };
        self.pool.push(list, entry);
    }

    /// Takes the earliest entry, among equal times the one scheduled first, if it is due at `until` or before. Otherwise an instant
    /// before which none is: nothing may be scheduled before `until` from then on.
    #[expect(
        clippy::inline_always,
        reason = "it has one caller; whether it is inlined there turned with other crates, one percent of all"
    )]
    #[inline(always)]
    pub(super) fn pop_until(&mut self, until: u64) -> Result<(u64, Token), u64> {
        while self.due.first == NONE {
            let Some((level, slot)) = self.first_slot() else { return Err(u64::MAX) };
            let list = self.slots[level][slot];
            let only = self.pool.only(list);
            let from = only.map_or_else(|| self.first_instant(list, level), |one| one.time);
            if from > until {
                return Err(from);
            }
            self.slots[level][slot] = List::EMPTY;
            self.occupied[level] &= self.occupied[level] - 1;
            if self.occupied[level] == 0 {
                self.occupied_levels &= self.occupied_levels - 1;
            }
            if let Some(Entry { time, token }) = only {
                self.last = time;
                self.pool.release(list.first);
                return Ok((time, token));
            }
            self.spread(list, level);
        }
        if self.last > until {
            return Err(self.last);
        }
        let index = self.due.first;
        let chunk = &self.pool.chunks[index as usize];
        let Entry { time, token } = chunk.entries[self.taken as usize];
        self.taken += 1;
        if self.taken == chunk.len {
            self.taken = 0;
            self.due.first = chunk.next;
            self.pool.release(index);
        }
        Ok((time, token))
    }

    /// An instant before which no entry is due.
    pub(super) fn not_before(&self) -> u64 {
        if self.due.first != NONE {
            return self.last;
        }
        let Some((level, slot)) = self.first_slot() else { return u64::MAX };
        let list = self.slots[level][slot];
        self.pool.only(list).map_or_else(|| self.first_instant(list, level), |one| one.time)
    }

    /// From when on entries of `list`, which is a slot of `level`, can be due.
    #[inline]
    fn first_instant(&self, list: List, level: usize) -> u64 {
        let shift = level as u32 * DIGIT_BITS;
        self.pool.first(list).time >> shift << shift
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

    /// Moves the entries of `list`, which was a slot of `level`, to where they belong relative to the slot's first instant. None is
    /// earlier than that, so it serves as the last time taken until one of them is.
    #[inline(never)]
    fn spread(&mut self, list: List, level: usize) {
        let shift = level as u32 * DIGIT_BITS;
        self.last = self.pool.first(list).time >> shift << shift;
        let mut index = list.first;
        if self.foresees {
            self.foresee(list);
        }
        while index != NONE {
            let Chunk { next, len, .. } = self.pool.chunks[index as usize];
            for at in 0..len as usize {
                self.place(self.pool.chunks[index as usize].entries[at]);
            }
            self.pool.release(index);
            index = next;
        }
    }

    /// Keeps the tokens of `list`, which is due next, if they are neither too few to be worth it nor too many.
    #[inline(never)]
    fn foresee(&mut self, list: List) {
        self.upcoming.clear();
        let mut index = list.first;
        while index != NONE {
            let chunk = &self.pool.chunks[index as usize];
            if self.upcoming.len() + chunk.len as usize > UPCOMING_MAX {
                self.upcoming.clear();
                return;
            }
            self.upcoming.extend(chunk.entries[..chunk.len as usize].iter().map(|entry| entry.token));
            index = chunk.next;
        }
        if self.upcoming.len() < UPCOMING_MIN {
            self.upcoming.clear();
        }
    }

    /// When the earliest entry is due. Looks only, so that entries may still be scheduled before it.
    pub(super) fn peek(&self) -> Option<Time> {
        if self.due.first != NONE {
            return Some(Time::from_nanos(self.last));
        }
        let (level, slot) = self.first_slot()?;
        let (mut index, mut earliest) = (self.slots[level][slot].first, u64::MAX);
        while index != NONE {
            let chunk = &self.pool.chunks[index as usize];
            let times = chunk.entries[..chunk.len as usize].iter().map(|entry| entry.time);
            earliest = times.fold(earliest, u64::min);
            index = chunk.next;
        }
        Some(Time::from_nanos(earliest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Many at few instants, so that lists have several chunks, against the obvious implementation. What is said to be due next is
        /// there, each once, and neither few nor many.
        #[test]
        fn takes_the_earliest_of_many_and_says_what_comes(
            trains in prop::collection::vec((0u64..1 << 13, 1usize..120, 0u64..4, 0usize..150), 1..20),
        ) {
            let mut heap = RadixHeap { foresees: true, ..RadixHeap::default() };
            let mut reference: Vec<(u64, u32)> = Vec::new();
            let (mut now, mut serial) = (0, 0);
            for (later, count, apart, pops) in trains {
                for number in 0..count as u64 {
                    let due = now + later + number % 7 * apart;
                    heap.schedule(due, Token(serial));
                    reference.push((due, serial));
                    serial += 1;
                }
                for _ in 0..pops {
                    reference.sort_by_key(|&(time, _)| time);
                    let expected = if reference.is_empty() { None } else { Some(reference.remove(0)) };
                    let taken = heap.pop_until(u64::MAX).ok().map(|(time, token)| (time, token.0));
                    prop_assert_eq!(taken, expected);
                    now = taken.map_or(now, |(time, _)| time);
                    let mut upcoming: Vec<u32> = heap.upcoming.drain(..).map(|token| token.0).collect();
                    upcoming.sort_unstable();
                    prop_assert!(upcoming.is_sorted_by(|one, next| one < next), "one is said twice");
                    prop_assert!(upcoming.is_empty() || (UPCOMING_MIN..=UPCOMING_MAX).contains(&upcoming.len()));
                    for token in upcoming {
                        let pends = taken.is_some_and(|(_, one)| one == token) || reference.iter().any(|&(_, one)| one == token);
                        prop_assert!(pends, "{} does not pend", token);
                    }
                }
            }
        }
    }
}
