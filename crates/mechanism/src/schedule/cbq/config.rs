//! The classes of a link, as they are given, and the scheduler that is built of them.
//!
//! Source: ns-2 `ns-queue.tcl` and `cbq.cc` (names and defaults); Floyd & Jacobson 1995, section 3; deviations in [`super`].

use alloc::vec;
use alloc::vec::Vec;

use tidegate_packet::Backlog;
use tidegate_units::{BitRate, Span};

use super::counters::ClassCounters;
use super::estimator::Estimator;
use super::{CBQ_PRIORITIES, Cbq, Class, LEAF_LEVEL, NONE};
use crate::Context;
use crate::queue::{DropTailConfig, Fifo, ManagerConfig};
use crate::random::Seed;
use crate::schedule::Classification;

/// From which ancestors a class may borrow (Floyd & Jacobson 1995, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkSharing {
    /// From any that is not above its own limit.
    #[default]
    AncestorOnly,
    /// From one that is not above its limit, up to a level that follows where classes last had to wait.
    TopLevel,
    /// From one that is not above its limit, if no class below its level is unsatisfied.
    Formal,
}

/// A class of the tree. One without children has a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct CbqClassConfig {
    /// The number of its parent in the list, which comes before it; `None` for a root.
    pub parent: Option<usize>,
    /// `allot`: its part of the link, above 0, at most 1.
    pub share: f64,
    /// Lower goes first, 0 to 9. Counts for classes with a queue; for the others only in the automatic `max_idle`, where
    /// ns-2's scripts have 8. Default 1.
    pub priority: u8,
    /// `okborrow`. Default true.
    pub borrow: bool,
    /// `maxidle`: the credit in time that an idle class keeps. Default: ns-2's automatic one.
    pub max_idle: Option<Span>,
    /// `minidle`: the largest debt in time. Default: no bound (ns-2).
    pub min_idle: Option<Span>,
    /// `extradelay`: what it waits in addition when it is held back, for longer bursts. Default 0 (ns-2).
    pub extra_delay: Span,
    /// The numbers (of flows, classes, ports or codepoints) whose packets are its.
    pub keys: Vec<u32>,
    /// The manager of its queue.
    pub manager: ManagerConfig,
}

impl Default for CbqClassConfig {
    fn default() -> Self {
        Self {
            parent: None,
            share: 1.0,
            priority: 1,
            borrow: true,
            max_idle: None,
            min_idle: None,
            extra_delay: Span::ZERO,
            keys: Vec::new(),
            manager: ManagerConfig::DropTail(DropTailConfig::default()),
        }
    }
}

/// Parameters of [`Cbq`].
#[derive(Clone, Debug, PartialEq)]
pub struct CbqConfig {
    /// What the `keys` of classes are numbers of. Default: classes of the scenario.
    pub classify: Classification,
    /// The tree, parents first; at least one class.
    pub classes: Vec<CbqClassConfig>,
    /// The number of the class of all packets that no class has a key for; it has a queue.
    pub default: usize,
    /// Default ancestor-only (ns-2).
    pub sharing: LinkSharing,
    /// The rate that is shared. Default: the link's.
    pub rate: Option<BitRate>,
    /// `maxpkt`, bytes: unit of the round robin and of the automatic `max_idle`. Default 1024 (ns-2).
    pub max_packet: u32,
}

impl Default for CbqConfig {
    /// One class that has it all.
    fn default() -> Self {
        Self {
            classify: Classification::Class,
            classes: Vec::from([CbqClassConfig::default()]),
            default: 0,
            sharing: LinkSharing::AncestorOnly,
            rate: None,
            max_packet: 1024,
        }
    }
}

impl CbqConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Cbq {
        assert!(!self.classes.is_empty(), "packets need a class");
        let levels = self.levels();
        assert!(levels[self.default] == LEAF_LEVEL, "the default class has a queue");
        let build = |(number, config): (usize, &CbqClassConfig)| {
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
