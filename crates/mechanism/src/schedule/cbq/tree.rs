//! The classes of a link with their names resolved, and the scheduler that is built of them.
//!
//! Source: ns-2 `ns-queue.tcl` and `cbq.cc` (names and defaults); Floyd & Jacobson 1995, section 3; deviations in [`super`].

use alloc::vec;
use alloc::vec::Vec;

use tidegate_packet::Backlog;
use tidegate_units::{BitRate, Span};

use super::counters::ClassCounters;
use super::estimator::Estimator;
use super::{CBQ_PRIORITIES, Cbq, Class, LEAF_LEVEL, LinkSharing, NONE};
use crate::Context;
use crate::queue::{Fifo, ManagerConfig};
use crate::random::Seed;
use crate::schedule::Classification;

/// A class of the tree, its names resolved; see [`CbqClassConfig`](super::CbqClassConfig). One without children has a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TreeClass {
    /// The number of its parent in the list, which comes before it; `None` for a root.
    pub(super) parent: Option<usize>,
    pub(super) share: f64,
    pub(super) priority: u8,
    pub(super) borrow: bool,
    pub(super) max_idle: Option<Span>,
    pub(super) min_idle: Option<Span>,
    pub(super) extra_delay: Span,
    pub(super) keys: Vec<u32>,
    pub(super) manager: ManagerConfig,
}

/// The classes of a link, names resolved; see [`CbqConfig`](super::CbqConfig).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) classify: Classification,
    /// Parents first; at least one class.
    pub(super) classes: Vec<TreeClass>,
    /// The number of the class of all packets that no class has a key for; it has a queue.
    pub(super) default: usize,
    pub(super) sharing: LinkSharing,
    pub(super) rate: Option<BitRate>,
    pub(super) max_packet: u32,
}

impl Tree {
    /// The scheduler.
    pub(super) fn build(&self, context: &Context) -> Cbq {
        assert!(!self.classes.is_empty(), "packets need a class");
        let levels = self.levels();
        assert!(levels[self.default] == LEAF_LEVEL, "the default class has a queue");
        let build = |(number, config): (usize, &TreeClass)| {
            assert!(config.share > 0.0 && config.share <= 1.0, "a share is a part of the link");
            assert!(
                levels[number] == LEAF_LEVEL || config.keys.is_empty(),
                "packets wait in classes without children"
            );
            assert!(config.priority < CBQ_PRIORITIES, "priorities are 0 to 9");
            let seed =
                Seed(context.seed.0.wrapping_add((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let parent = config.parent.unwrap_or(NONE);
            Class {
                estimator: Estimator::default(),
                parent,
                level: levels[number],
                borrows: config.borrow && parent != NONE,
                queue: Fifo::new(config.manager.build(&Context { seed, ..*context })),
                allocation: 0,
                quantum: 0,
                counters: ClassCounters::default(),
            }
        };
        let mut classes_of: Vec<(u32, u32)> = (0u32..)
            .zip(&self.classes)
            .flat_map(|(number, class)| class.keys.iter().map(move |&key| (key, number)))
            .collect();
        classes_of.sort_unstable();
        let mut cbq = Cbq {
            classes: self.classes.iter().enumerate().map(build).collect(),
            rings: Vec::new(),
            classes_of,
            backlog: Backlog::EMPTY,
            top_level: u32::MAX,
            emptied: NONE,
            timer: None,
            link_bps: context.link_rate.as_bps().max(1),
            config: self.clone(),
        };
        cbq.build_rings();
        cbq.set_rates();
        cbq
    }

    /// 1 for a class without children, else one more than its highest child.
    fn levels(&self) -> Vec<u32> {
        let mut levels = vec![LEAF_LEVEL; self.classes.len()];
        for (number, class) in self.classes.iter().enumerate().rev() {
            if let Some(parent) = class.parent {
                assert!(parent < number, "parents come first");
                levels[parent] = levels[parent].max(levels[number] + 1);
            }
        }
        levels
    }
}
