//! The event queue: a monotone radix heap, first in first out among equal times.
//!
//! A simulation never schedules into the past, so keys only need ordering relative to the last one taken. Entries sit in
//! 65 buckets by the highest bit in which their time differs from the last time taken; taking the earliest empties the
//! lowest bucket into lower ones. Each entry moves down a few times at most, always in order, so entries of equal time
//! stay in order of scheduling: equal times differ from any earlier time in the same bit and therefore always share a
//! bucket.

use tidegate_units::Time;

/// What to wake. Four bits of kind and 28 bits of index, made by the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    token: Token,
}

/// See the module.
#[derive(Debug)]
pub struct EventQueue {
    /// Time of the last entry taken.
    last: u64,
    /// Bit i - 1 is set if bucket i (from 1) holds anything.
    occupied: u64,
    /// Entries at exactly `last`, taken from `due_next` on.
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
        let differing = entry.time ^ self.last;
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
            self.occupied &= self.occupied - 1;
            // A lone entry needs no sorting out; with few pending events this is the common case.
            if let [only] = self.buckets[bucket][..] {
                self.buckets[bucket].clear();
                self.last = only.time;
                self.len -= 1;
                return Some((Time::from_nanos(only.time), only.token));
            }
            self.spread(bucket);
        }
        let entry = self.due[self.due_next];
        self.due_next += 1;
        self.len -= 1;
        Some((Time::from_nanos(entry.time), entry.token))
    }

    /// When the earliest entry is due. Looks only, so that entries may still be scheduled before it.
    pub fn peek(&self) -> Option<Time> {
        if self.due_next < self.due.len() {
            return Some(Time::from_nanos(self.last));
        }
        let bucket = self.buckets.get(self.occupied.trailing_zeros() as usize)?;
        bucket.iter().map(|entry| Time::from_nanos(entry.time)).min()
    }

    /// Moves the entries of `bucket` to where they belong relative to the earliest of them.
    fn spread(&mut self, bucket: usize) {
        core::mem::swap(&mut self.scratch, &mut self.buckets[bucket]);
        self.last =
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
