//! Slots in the order in which they were last used, for tables that forget the oldest. Every operation is O(1).
//!
//! Source: none; a doubly linked list. Deviations: none.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// A slot's neighbours; itself as `older` when it is not in the list.
#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

/// A doubly linked list through the slots.
#[derive(Clone, Debug)]
pub(crate) struct RecencyList {
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    len: u32,
}

impl RecencyList {
    pub(crate) const fn new() -> Self {
        Self { links: Vec::new(), oldest: NONE, newest: NONE, len: 0 }
    }

    /// The same with room for slots below `count`.
    pub(crate) fn for_slots(count: u32) -> Self {
        Self {
            links: (0..count).map(|absent| Links { older: absent, newer: absent }).collect(),
            ..Self::new()
        }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The slot that was put in longest ago.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|links| links.older != slot)
    }

    /// Puts `slot` in as the newest, wherever it was.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.newest == slot {
            return;
        }
        self.remove(slot);
        if slot as usize >= self.links.len() {
            self.grow(slot);
        }
        let older = core::mem::replace(&mut self.newest, slot);
        self.links[slot as usize] = Links { older, newer: NONE };
        match older {
            NONE => self.oldest = slot,
            _ => self.links[older as usize].newer = slot,
        }
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self, slot: u32) {
        for absent in self.links.len() as u32..=slot {
            self.links.push(Links { older: absent, newer: absent });
        }
    }

    /// Takes `slot` out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        if !self.contains(slot) {
            return;
        }
        let absent = Links { older: slot, newer: slot };
        let Links { older, newer } = core::mem::replace(&mut self.links[slot as usize], absent);
        match older {
            NONE => self.oldest = newer,
            _ => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.links[newer as usize].older = older,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_list(steps in prop::collection::vec((0u32..10, any::<bool>()), 1..200)) {
            let mut list = RecencyList::new();
            let mut plain: Vec<u32> = Vec::new();
            for (slot, touch) in steps {
                plain.retain(|&other| other != slot);
                if touch {
                    list.touch(slot);
                    plain.push(slot);
                } else {
                    list.remove(slot);
                }
                prop_assert_eq!(list.oldest(), plain.first().copied());
                prop_assert_eq!(list.len() as usize, plain.len());
                prop_assert_eq!(list.contains(slot), touch);
            }
        }
    }
}
