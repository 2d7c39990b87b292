//! A bounded table of per-flow state: beyond its bound, the flow that was seen longest ago is forgotten.

use alloc::vec::Vec;

use hashbrown::HashTable;
use tidegate_packet::FlowId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Entry<T> {
    state: T,
    flow: FlowId,
    /// Neighbours in the order of last use.
    older: u32,
    newer: u32,
}

/// See the module. Every operation is O(1).
#[derive(Clone, Debug)]
pub struct FlowTable<T> {
    entries: Vec<Entry<T>>,
    by_flow: HashTable<u32>,
    oldest: u32,
    newest: u32,
    most: usize,
}

impl<T> FlowTable<T> {
    /// An empty table for up to `flows_max` flows, at least one.
    pub fn new(flows_max: u32) -> Self {
        assert!(flows_max > 0, "a table of flows holds one");
        Self {
            entries: Vec::new(),
            by_flow: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            most: flows_max as usize,
        }
    }

    /// The state of `flow`, which is now the one seen last; from `start` if it has none.
    #[inline]
    pub fn entry(&mut self, flow: FlowId, start: impl FnOnce() -> T) -> &mut T {
        let found = self.by_flow.find(hash(flow), |&at| self.entries[at as usize].flow == flow).copied();
        let at = match found {
            Some(at) if at == self.newest => at,
            Some(at) => {
                self.unlink(at);
                self.link_newest(at);
                at
            }
            None => self.insert(flow, start()),
        };
        &mut self.entries[at as usize].state
    }

    /// The number of flows in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no flow is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, flow: FlowId, state: T) -> u32 {
        let at = if self.entries.len() < self.most {
            self.entries.push(Entry { state, flow, older: NONE, newer: NONE });
            (self.entries.len() - 1) as u32
        } else {
            let at = self.oldest;
            self.unlink(at);
            let forgotten = hash(self.entries[at as usize].flow);
            if let Ok(entry) = self.by_flow.find_entry(forgotten, |&other| other == at) {
                entry.remove();
            }
            let reused = &mut self.entries[at as usize];
            (reused.state, reused.flow) = (state, flow);
            at
        };
        self.link_newest(at);
        let entries = &self.entries;
        self.by_flow.insert_unique(hash(flow), at, |&other| hash(entries[other as usize].flow));
        at
    }

    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = core::mem::replace(&mut self.newest, at);
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (older, NONE);
        match older {
            NONE => self.oldest = at,
            _ => self.entries[older as usize].newer = at,
        }
    }
}

/// Fibonacci hashing: flow numbers are dense, so one multiplication spreads them.
#[inline]
const fn hash(flow: FlowId) -> u64 {
    (flow.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn forgets_the_flow_seen_longest_ago(uses in prop::collection::vec(0u32..12, 1..300), most in 1u32..10) {
            let mut table = FlowTable::new(most);
            let mut recent: VecDeque<(u32, u32)> = VecDeque::new();
            for flow in uses {
                let known = recent.iter().position(|entry| entry.0 == flow);
                let uses_before = known.and_then(|at| recent.remove(at)).map_or(0, |entry| entry.1);
                recent.push_back((flow, uses_before + 1));
                if recent.len() > most as usize {
                    recent.pop_front();
                }
                let state = table.entry(FlowId(flow), || 0u32);
                prop_assert_eq!(*state, uses_before);
                *state += 1;
                prop_assert_eq!(table.len(), recent.len());
            }
        }
    }
}
