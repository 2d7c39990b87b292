//! A bounded table of per-flow state: beyond its bound, the flow that was seen longest ago is forgotten.
//!
//! Source: none; the papers keep an entry per flow and do not bound them. Deviations: the bound is ours, so that flows that are
//! made up cannot fill a router.

use alloc::vec::Vec;

use hashbrown::HashTable;
use tidegate_packet::FlowId;

use crate::random::spread;
use crate::schedule::RecencyList;

/// See the module. Every operation is O(1).
#[derive(Clone, Debug)]
pub struct FlowTable<T> {
    entries: Vec<(FlowId, T)>,
    by_flow: HashTable<u32>,
    recent: RecencyList,
    most: usize,
}

impl<T> FlowTable<T> {
    /// An empty table for up to `flows_max` flows, at least one.
    pub fn new(flows_max: u32) -> Self {
        assert!(flows_max > 0, "a table of flows holds one");
        let recent = RecencyList::new();
        Self { entries: Vec::new(), by_flow: HashTable::new(), recent, most: flows_max as usize }
    }

    /// The state of `flow`, which is now the one seen last; from `start` if it has none.
    #[inline]
    pub fn entry(&mut self, flow: FlowId, start: impl FnOnce() -> T) -> &mut T {
        let found = self.by_flow.find(spread(flow.0), |&at| self.entries[at as usize].0 == flow).copied();
        let at = found.unwrap_or_else(|| self.insert(flow, start()));
        self.recent.touch(at);
        &mut self.entries[at as usize].1
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
        let oldest = self.recent.oldest().filter(|_| self.entries.len() >= self.most);
        let at = if let Some(oldest) = oldest {
            let forgotten = spread(self.entries[oldest as usize].0.0);
            if let Ok(entry) = self.by_flow.find_entry(forgotten, |&other| other == oldest) {
                entry.remove();
            }
            self.entries[oldest as usize] = (flow, state);
            oldest
        } else {
            self.entries.push((flow, state));
            (self.entries.len() - 1) as u32
        };
        let entries = &self.entries;
        self.by_flow.insert_unique(spread(flow.0), at, |&other| spread(entries[other as usize].0.0));
        at
    }
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
