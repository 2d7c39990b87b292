//! How many flows are active: those that sent something within a window, so that a queue can know how many it must slow
//! down. Memory is bounded; beyond the bound the count stays at it.
//!
//! Source: W. Feng, thesis, section 3.5 ("the RED queue could actually keep track of the number of active connections").
//! Deviations: the thesis gives no rule for counting. Windows follow each other without overlap; the count is the larger
//! one of the last complete window and of the present one, so that it rises at once and falls within two windows.

use tidegate_packet::FlowId;
use tidegate_units::{Span, Time};

use super::FlowTable;

/// Parameters of [`ActiveFlows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveFlowsConfig {
    /// How long a flow counts after a packet; not zero. Default 1 s (assumed: several round-trip times).
    pub window: Span,
    /// The largest count, and the number of flows remembered; not zero. Default 4096 (assumed).
    pub flows_max: u32,
}

impl Default for ActiveFlowsConfig {
    fn default() -> Self {
        Self { window: Span::from_secs(1), flows_max: 4096 }
    }
}

impl ActiveFlowsConfig {
    /// A counter that has seen nobody.
    pub fn build(&self) -> ActiveFlows {
        assert!(!self.window.is_zero(), "a window is a length of time");
        ActiveFlows {
            last_seen: FlowTable::new(self.flows_max),
            config: *self,
            window: 0,
            present: 0,
            complete: 0,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ActiveFlows {
    /// One more than the number of the window in which a flow was last seen.
    last_seen: FlowTable<u64>,
    config: ActiveFlowsConfig,
    /// The number of the present window.
    window: u64,
    /// Flows seen in it.
    present: u32,
    /// Flows seen in the one before.
    complete: u32,
}

impl ActiveFlows {
    /// A packet of `flow` arrives; the count.
    #[inline]
    pub fn on_arrival(&mut self, flow: FlowId, now: Time) -> u32 {
        let window = now.as_nanos() / self.config.window.as_nanos();
        if window != self.window {
            self.complete = if window == self.window + 1 { self.present } else { 0 };
            self.present = 0;
            self.window = window;
        }
        let last_seen = self.last_seen.entry(flow, || 0);
        if *last_seen != window + 1 {
            *last_seen = window + 1;
            // A flow that the table forgot within the window would count twice: there are too many flows then.
            self.present = (self.present + 1).min(self.config.flows_max);
        }
        self.count()
    }

    /// The count at the last arrival.
    #[inline]
    pub fn count(&self) -> u32 {
        self.present.max(self.complete)
    }

    /// The count at `now`, which may be long after the last arrival.
    pub fn count_at(&self, now: Time) -> u32 {
        match (now.as_nanos() / self.config.window.as_nanos()).saturating_sub(self.window) {
            0 => self.count(),
            1 => self.present,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn counter(flows_max: u32) -> ActiveFlows {
        ActiveFlowsConfig { window: Span::from_millis(100), flows_max }.build()
    }

    fn at_millis(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn the_count_rises_at_once_and_falls_within_two_windows() {
        let mut counter = counter(100);
        for flow in 0..20 {
            assert_eq!(counter.on_arrival(FlowId(flow), at_millis(50)), flow + 1);
        }
        assert_eq!(counter.count_at(at_millis(199)), 20);
        assert_eq!(counter.count_at(at_millis(200)), 0);
        assert_eq!(counter.on_arrival(FlowId(3), at_millis(150)), 20);
        assert_eq!(counter.count_at(at_millis(250)), 1);
        assert_eq!(counter.on_arrival(FlowId(3), at_millis(250)), 1);
    }

    #[test]
    fn silence_of_a_whole_window_forgets_everybody() {
        let mut counter = counter(100);
        for flow in 0..20 {
            counter.on_arrival(FlowId(flow), at_millis(50));
        }
        assert_eq!(counter.on_arrival(FlowId(7), at_millis(250)), 1);
    }

    proptest! {
        #[test]
        fn up_to_the_bound_the_count_is_that_of_the_distinct_flows_and_never_above_it(
            packets in prop::collection::vec((0u64..40, 0u32..30), 1..400), flows_max in 1u32..40
        ) {
            let mut counter = counter(flows_max);
            let (mut millis, mut window) = (0, 0);
            let (mut present, mut complete) = (BTreeSet::new(), BTreeSet::new());
            for (gap, flow) in packets {
                millis += gap;
                while window < millis / 100 {
                    complete = core::mem::take(&mut present);
                    window += 1;
                }
                present.insert(flow);
                let expected = present.len().max(complete.len()).min(flows_max as usize);
                let count = counter.on_arrival(FlowId(flow), at_millis(millis));
                prop_assert!(count <= flows_max);
                if flows_max >= 30 {
                    prop_assert_eq!(count as usize, expected);
                }
            }
        }
    }
}
