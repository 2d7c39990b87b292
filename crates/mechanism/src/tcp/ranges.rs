//! A bounded set of byte ranges: what a receiver holds out of order, and what a sender knows of it.
//!
//! Source: the scoreboard of RFC 6675, section 3; the reassembly queue of RFC 9293, section 3.10.7.4.
//! Deviations: none. Ranges are kept sorted, disjoint and merged, so a question costs a binary search. Memory is
//! allocated with the first hole and kept; a connection without loss allocates nothing. A range that would exceed the
//! bound is refused, which is what a receiver with no room does.

use alloc::vec::Vec;

/// The bytes `start..end`; never empty inside a [`RangeSet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Range {
    pub start: u64,
    pub end: u64,
}

impl Range {
    pub const fn len(self) -> u64 {
        self.end - self.start
    }
    pub const fn is_inside(self, other: Self) -> bool {
        other.start <= self.start && self.end <= other.end
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<Range>,
    covered_bytes: u64,
    ranges_max: u32,
}

impl RangeSet {
    /// A set of at most `ranges_max` separate ranges.
    pub const fn new(ranges_max: u32) -> Self {
        Self { ranges: Vec::new(), covered_bytes: 0, ranges_max }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.covered_bytes == 0
    }
    pub const fn covered_bytes(&self) -> u64 {
        self.covered_bytes
    }
    pub fn as_slice(&self) -> &[Range] {
        &self.ranges
    }
    /// One past the highest byte in the set; zero if it is empty.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// The index of the first range that ends after `position`.
    fn first_ending_after(&self, position: u64) -> usize {
        // Arrivals are nearly always at or behind the highest range: look there before searching.
        match self.ranges.last() {
            Some(last) if last.end > position => self.ranges.partition_point(|range| range.end <= position),
            _ => self.ranges.len(),
        }
    }

    /// Adds `start..end` and returns how many of its bytes are new. Zero also if there is no room for another range.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Ranges that touch are merged: the first one ending at `start` or later takes part.
        let first = self.ranges.partition_point(|range| range.end < start);
        let beyond = first + self.ranges[first..].partition_point(|range| range.start <= end);
        if first == beyond {
            if self.ranges.len() >= self.ranges_max as usize {
                return 0;
            }
            self.ranges.insert(first, Range { start, end });
            self.covered_bytes += end - start;
            return end - start;
        }
        let merged =
            Range { start: start.min(self.ranges[first].start), end: end.max(self.ranges[beyond - 1].end) };
        let before: u64 = self.ranges[first..beyond].iter().map(|range| range.len()).sum();
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..beyond);
        self.covered_bytes += merged.len() - before;
        merged.len() - before
    }

    /// Forgets everything below `position`.
    pub fn remove_below(&mut self, position: u64) {
        let keep = self.first_ending_after(position);
        let gone: u64 = self.ranges[..keep].iter().map(|range| range.len()).sum();
        self.ranges.drain(..keep);
        self.covered_bytes -= gone;
        if let Some(first) = self.ranges.first_mut()
            && first.start < position
        {
            self.covered_bytes -= position - first.start;
            first.start = position;
        }
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.covered_bytes = 0;
    }

    /// The range that holds the byte at `position`.
    pub fn containing(&self, position: u64) -> Option<Range> {
        self.ranges.get(self.first_ending_after(position)).copied().filter(|range| range.start <= position)
    }

    /// The first bytes at or above `from` that are not in the set although something above them is.
    pub fn next_hole(&self, from: u64) -> Option<Range> {
        let mut start = from;
        for range in &self.ranges[self.first_ending_after(from)..] {
            if start < range.start {
                return Some(Range { start, end: range.start });
            }
            start = range.end;
        }
        None
    }

    /// How many bytes of the set are below `position`.
    pub fn covered_below(&self, position: u64) -> u64 {
        if position >= self.end() {
            return self.covered_bytes;
        }
        let full = self.first_ending_after(position);
        let whole: u64 = self.ranges[..full].iter().map(|range| range.len()).sum();
        whole + position.saturating_sub(self.ranges[full].start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn touching_ranges_merge_and_holes_are_found() {
        let mut set = RangeSet::new(8);
        assert_eq!(set.insert(10, 20), 10);
        assert_eq!(set.insert(30, 40), 10);
        assert_eq!(set.next_hole(0), Some(Range { start: 0, end: 10 }));
        assert_eq!(set.next_hole(15), Some(Range { start: 20, end: 30 }));
        assert_eq!(set.next_hole(35), None);
        assert_eq!(set.insert(20, 30), 10);
        assert_eq!(set.as_slice(), &[Range { start: 10, end: 40 }]);
        assert_eq!(set.covered_below(25), 15);
        set.remove_below(12);
        assert_eq!(set.covered_bytes(), 28);
        assert_eq!(set.containing(39), Some(Range { start: 12, end: 40 }));
        assert_eq!(set.containing(40), None);
    }

    #[test]
    fn the_bound_refuses_new_ranges_but_not_growth() {
        let mut set = RangeSet::new(2);
        assert_eq!((set.insert(10, 11), set.insert(20, 21), set.insert(30, 31)), (1, 1, 0));
        assert_eq!(set.insert(21, 25), 4);
        assert_eq!(set.insert(5, 40), 35 - 6);
    }

    proptest! {
        #[test]
        fn a_range_set_behaves_like_a_set_of_bytes(
            steps in prop::collection::vec((0u64..100, 0u64..20, any::<bool>()), 0..60)
        ) {
            let mut set = RangeSet::new(1000);
            let mut model = BTreeSet::new();
            for (start, length, cut) in steps {
                if cut && length < 3 {
                    set.remove_below(start);
                    model.retain(|&byte| byte >= start);
                } else {
                    let new = (start..start + length).filter(|&byte| model.insert(byte)).count();
                    prop_assert_eq!(set.insert(start, start + length), new as u64);
                }
                prop_assert_eq!(set.covered_bytes(), model.len() as u64);
                for pair in set.as_slice().windows(2) {
                    prop_assert!(pair[0].end < pair[1].start);
                }
                for position in 0..125 {
                    prop_assert_eq!(set.containing(position).is_some(), model.contains(&position));
                    prop_assert_eq!(set.covered_below(position), model.range(..position).count() as u64);
                    let hole = (position..set.end()).find(|byte| !model.contains(byte));
                    prop_assert_eq!(set.next_hole(position).map(|range| range.start), hole);
                }
            }
        }
    }
}
