//! A heap of slots whose keys may change: the scheduler's question "which queue is first?" in O(log n).
//!
//! Where a key changes with every packet but is rarely asked for, let it go stale on the safe side (never after the true
//! key) and correct it only when it comes to the top: [`IndexedHeap::settled_first`]. Each correction is paid for by the
//! packet that made the key stale.
//!
//! Source: none; a binary heap with positions. Deviations: none.

use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// A binary min-heap of (key, slot) that knows where each slot is.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    entries: Vec<(K, u32)>,
    /// Position in `entries` by slot.
    position: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), position: Vec::new() }
    }
}

impl<K: Copy + PartialOrd> IndexedHeap<K> {
    /// Whether no slot is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of slots in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The smallest key and its slot.
    #[inline]
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The key of `slot`.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<K> {
        match self.position.get(slot as usize) {
            Some(&at) if at != ABSENT => Some(self.entries[at as usize].0),
            _ => None,
        }
    }

    /// The smallest key and its slot, where the keys in the heap are at or before the true ones, which `true_key` tells.
    pub fn settled_first(&mut self, mut true_key: impl FnMut(u32) -> K) -> Option<(K, u32)> {
        loop {
            let (stale, slot) = self.first()?;
            let key = true_key(slot);
            debug_assert!(stale <= key, "a stale key comes before the true one");
            if stale == key {
                return Some((key, slot));
            }
            self.entries[0].0 = key;
            self.sift_down(0);
        }
    }

    /// Puts `slot` in with `key`, or changes its key.
    #[inline]
    pub fn set(&mut self, slot: u32, key: K) {
        let index = slot as usize;
        if index >= self.position.len() {
            self.position.resize(index + 1, ABSENT);
        }
        let at = self.position[index] as usize;
        if at == ABSENT as usize {
            self.entries.push((key, slot));
            self.sift_up(self.entries.len() - 1);
        } else {
            let earlier = key < self.entries[at].0;
            self.entries[at].0 = key;
            if earlier {
                self.sift_up(at);
            } else {
                self.sift_down(at);
            }
        }
    }

    /// Takes `slot` out, if it is in.
    pub fn remove(&mut self, slot: u32) {
        let Some(&at) = self.position.get(slot as usize) else { return };
        if at == ABSENT {
            return;
        }
        self.position[slot as usize] = ABSENT;
        let last = self.entries.pop().expect("the heap holds the slot");
        let at = at as usize;
        if at < self.entries.len() {
            self.entries[at] = last;
            self.position[last.1 as usize] = at as u32;
            self.sift_up(at);
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if entry.0 >= self.entries[parent].0 {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1].0 < self.entries[child].0 {
                child += 1;
            }
            if self.entries[child].0 >= entry.0 {
                break;
            }
            self.place(at, self.entries[child]);
            at = child;
        }
        self.place(at, entry);
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (K, u32)) {
        self.entries[at] = entry;
        self.position[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use core::cell::Cell;
    use core::cmp::Ordering;
    use proptest::prelude::*;

    /// A key that counts how often any of them is compared.
    #[derive(Clone, Copy)]
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.partial_cmp(other) == Some(Ordering::Equal)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            self.1.set(self.1.get() + 1);
            self.0.partial_cmp(&other.0)
        }
    }

    /// The most comparisons that a change of a key took, with so many slots.
    fn comparisons_max(slots: u32) -> u32 {
        let (count, mut most) = (Cell::new(0), 0);
        let mut heap = IndexedHeap::default();
        for step in 0..20 * slots {
            count.set(0);
            // Any slot, and any key.
            let random = step.wrapping_mul(2_654_435_761);
            heap.set(random % slots, Counted(random >> 16, &count));
            most = most.max(count.get());
        }
        most
    }

    #[test]
    fn a_change_costs_the_logarithm_of_the_slots() {
        // Down a level: which of two is smaller, and whether that is smaller; one more to see whether it goes up.
        for (slots, levels) in [(1, 1), (10, 4), (100, 7), (1000, 10), (10_000, 14)] {
            let most = comparisons_max(slots);
            assert!(most <= 2 * levels + 1, "{slots}: {most}");
        }
        assert!(comparisons_max(10_000) > 10, "it counts");
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..20, prop::option::of(0u32..100)), 1..300)) {
            let mut heap = IndexedHeap::default();
            let mut map = BTreeMap::new();
            for (slot, key) in steps {
                if let Some(key) = key {
                    heap.set(slot, (key, slot));
                    map.insert(slot, key);
                } else {
                    heap.remove(slot);
                    map.remove(&slot);
                }
                let first = map.iter().map(|(&of, &smallest)| (smallest, of)).min();
                prop_assert_eq!(heap.first().map(|entry| entry.0), first);
                prop_assert_eq!(heap.len(), map.len());
                prop_assert_eq!(heap.key(slot), map.get(&slot).map(|&known| (known, slot)));
            }
        }

        #[test]
        fn stale_keys_do_not_change_the_first(
            steps in prop::collection::vec((0u32..20, 0u32..5), 1..300)
        ) {
            // True keys only grow; the heap learns of it when it settles.
            let mut truth = [0u32; 20];
            let mut heap = IndexedHeap::default();
            for slot in 0..20 { heap.set(slot, (0, slot)); }
            for (slot, growth) in steps {
                truth[slot as usize] += growth;
                let first = (0..20u32).map(|s| (truth[s as usize], s)).min();
                prop_assert_eq!(heap.settled_first(|s| (truth[s as usize], s)).map(|entry| entry.0), first);
            }
        }
    }
}
