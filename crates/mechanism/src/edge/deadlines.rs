//! Which of the many borders that an edge talks to is next to be looked after? An edge of a large domain talks to
//! thousands, and asks after every message: here that costs the logarithm of how many they are.
//!
//! Source: none; a heap with positions. Deviations: none.

use alloc::vec::Vec;

use tidegate_units::Time;

use super::PeerId;
use crate::schedule::IndexedHeap;

/// Where the deadline of a peer stands. Who has it gives it back with [`Deadlines::close`].
#[derive(Debug)]
pub(super) struct Slot(u32);

/// At most one deadline for each peer.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: IndexedHeap<(Time, PeerId)>,
    /// How many slots there are, and those of nobody.
    slots: u32,
    free: Vec<u32>,
}

impl Deadlines {
    /// A slot for a peer that has no deadline yet.
    pub(super) fn open(&mut self) -> Slot {
        Slot(self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        }))
    }

    /// The peer is no more.
    pub(super) fn close(&mut self, Slot(slot): Slot) {
        self.heap.remove(slot);
        self.free.push(slot);
    }

    /// The deadline of `peer`, which has this slot, is `at` from now on.
    #[inline]
    pub(super) fn set(&mut self, slot: &Slot, peer: PeerId, at: Time) {
        self.heap.set(slot.0, (at, peer));
    }

    /// The earliest; none if nobody has one.
    #[inline]
    pub(super) fn first(&self) -> Option<Time> {
        self.heap.first().map(|((at, _), _)| at)
    }

    /// The same, where a deadline may be later than was said: `true_at` tells.
    pub(super) fn settled_first(&mut self, true_at: impl Fn(PeerId) -> Time) -> Option<Time> {
        loop {
            let ((said, peer), slot) = self.heap.first()?;
            let at = true_at(peer);
            debug_assert!(said <= at, "what was said comes before the true one");
            if said == at {
                return Some(at);
            }
            self.heap.set(slot, (at, peer));
        }
    }

    /// Puts those into `due` whose deadline has come by `now`, ascending: in which order they are served does not depend
    /// on how late each is. They have no deadline until it is set again.
    pub(super) fn take_due(&mut self, now: Time, due: &mut Vec<PeerId>) {
        while let Some(((at, peer), slot)) = self.heap.first()
            && at <= now
        {
            self.heap.remove(slot);
            due.push(peer);
        }
        due.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    proptest! {
        #[test]
        fn agrees_with_a_look_at_all(steps in prop::collection::vec((0u32..12, 0u64..100, 0u8..4), 1..200)) {
            let (mut deadlines, mut slots) = (Deadlines::default(), BTreeMap::new());
            let mut all: BTreeMap<PeerId, Time> = BTreeMap::new();
            for (number, nanos, what) in steps {
                let peer = PeerId(number);
                match what {
                    0 => {
                        if let Some(slot) = slots.remove(&peer) {
                            deadlines.close(slot);
                        }
                        all.remove(&peer);
                    }
                    1 => {
                        let mut due = Vec::new();
                        deadlines.take_due(at(nanos), &mut due);
                        let is_due = |entry: &(&PeerId, &Time)| *entry.1 <= at(nanos);
                        let wanted: Vec<PeerId> = all.iter().filter(is_due).map(|entry| *entry.0).collect();
                        all.retain(|_, when| *when > at(nanos));
                        prop_assert_eq!(due, wanted);
                    }
                    _ => {
                        let slot = slots.entry(peer).or_insert_with(|| deadlines.open());
                        deadlines.set(slot, peer, at(nanos));
                        all.insert(peer, at(nanos));
                    }
                }
                prop_assert_eq!(deadlines.first(), all.values().min().copied());
            }
        }

        #[test]
        fn deadlines_that_are_later_than_was_said_are_found_when_they_are_first(
            growth in prop::collection::vec((0u32..12, 0u64..5), 1..200),
        ) {
            let (mut deadlines, mut truth) = (Deadlines::default(), [0; 12]);
            for number in 0..12 {
                let slot = deadlines.open();
                deadlines.set(&slot, PeerId(number), at(0));
            }
            for (number, more) in growth {
                truth[number as usize] += more;
                let first = deadlines.settled_first(|peer| at(truth[peer.0 as usize]));
                prop_assert_eq!(first, truth.iter().min().map(|&least| at(least)));
            }
        }
    }
}
