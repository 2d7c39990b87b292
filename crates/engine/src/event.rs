//! The event queue: a monotone radix heap, first in first out among equal times.
//!
//! A simulation never schedules into the past, so keys only need ordering relative to the last one taken. Entries sit in
//! 65 buckets by the highest bit in which their time differs from a base, a time that is not after any of them. The
//! earliest is in the lowest bucket. While that holds a few entries it is looked through; when it holds more, the earliest
//! of them becomes the base and the bucket is emptied into lower ones. Entries keep their order when they move, so those of
//! equal time stay in order of scheduling: equal times differ from any base in the same bit and always share a bucket.

use tidegate_units::Time;

/// What to wake. Four bits of kind and 28 bits of index, made by the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    token: Token,
}

/// So many entries are looked through rather than sorted out: beyond, sorting them out is cheaper.
const FEW: usize = 6;

/// See the module.
#[derive(Debug)]
pub struct EventQueue {
    /// Time of the last entry taken.
    last: u64,
    /// What the buckets refer to; at most `last`.
    base: u64,
    /// Bit i - 1 is set if bucket i (from 1) holds anything.
    occupied: u64,
    /// Entries at exactly `base`, taken from `due_next` on.
    due: Vec<Entry>,
    due_next: usize,
    buckets: [Vec<Entry>; 64],
    scratch: Vec<Entry>,
    len: usize,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            last: 0,
            base: 0,
            occupied: 0,
            due: Vec::new(),
            due_next: 0,
            buckets: [const { Vec::new() }; 64],
            scratch: Vec::new(),
            len: 0,
        }
    }
}

impl EventQueue {
    /// Wakes `token` at `time`, which must not be before the last time taken.
    #[inline]
    pub fn schedule(&mut self, time: Time, token: Token) {
        let time = time.as_nanos();
        debug_assert!(time >= self.last, "an event was scheduled {} ns into the past", self.last - time);
        self.len += 1;
        self.place(Entry { time, token });
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        let differing = entry.time ^ self.base;
        if differing == 0 {
            self.due.push(entry);
        } else {
            let bucket = differing.ilog2();
            self.occupied |= 1 << bucket;
            self.buckets[bucket as usize].push(entry);
        }
    }

    /// The earliest entry; among equal times the one scheduled first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Token)> {
        if self.due_next == self.due.len() {
            self.due.clear();
            self.due_next = 0;
            if self.occupied == 0 {
                return None;
            }
            let bucket = self.occupied.trailing_zeros() as usize;
            let entries = &mut self.buckets[bucket];
            if entries.len() <= FEW {
                let entry = take_earliest(entries);
                if entries.is_empty() {
                    self.occupied &= self.occupied - 1;
                }
                self.last = entry.time;
                self.len -= 1;
                return Some((Time::from_nanos(entry.time), entry.token));
            }
            self.occupied &= self.occupied - 1;
            self.spread(bucket);
        }
        let entry = self.due[self.due_next];
        self.due_next += 1;
        self.last = entry.time;
        self.len -= 1;
        Some((Time::from_nanos(entry.time), entry.token))
    }

    /// When the earliest entry is due. Looks only, so that entries may still be scheduled before it.
    pub fn peek(&self) -> Option<Time> {
        if self.due_next < self.due.len() {
            return Some(Time::from_nanos(self.base));
        }
        let bucket = self.buckets.get(self.occupied.trailing_zeros() as usize)?;
        bucket.iter().map(|entry| Time::from_nanos(entry.time)).min()
    }

    /// Moves the entries of `bucket` to where they belong relative to the earliest of them.
    fn spread(&mut self, bucket: usize) {
        core::mem::swap(&mut self.scratch, &mut self.buckets[bucket]);
        self.base =
            self.scratch.iter().map(|entry| entry.time).min().expect("an occupied bucket holds an entry");
        for i in 0..self.scratch.len() {
            let entry = self.scratch[i];
            self.place(entry);
        }
        self.scratch.clear();
        // The bucket keeps its capacity.
        core::mem::swap(&mut self.scratch, &mut self.buckets[bucket]);
    }

    /// How many entries are pending.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Takes the earliest of `entries`, and the first of equals, and keeps the order of the others.
#[inline]
fn take_earliest(entries: &mut Vec<Entry>) -> Entry {
    let mut earliest = 0;
    for (i, entry) in entries.iter().enumerate().skip(1) {
        if entry.time < entries[earliest].time {
            earliest = i;
        }
    }
    entries.remove(earliest)
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
                prop_assert_eq!(queue.len(), reference.len());
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
