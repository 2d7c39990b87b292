//! A tin of CAKE: its share of the link, its queues, and in which order they have their turns.
//!
//! Source: Linux, `sch_cake.c` (`cake_config_*`, `cake_set_rate`, `cake_get_flow_quantum`).
//! Deviations:
//! - The quantum of a flow is exact in parts of 65536 of a byte; Linux rounds it with a random number.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::{BitRate, Time};

use super::config::{CakeConfig, CakeTins};
use super::hosts::{Classifier, HostsOf, Keys, Places};
use super::shaper::duration;
use crate::queue::{CobaltState, Delays};
use crate::schedule::RecencyList;
use crate::schedule::store::Chain;

/// The tin of each codepoint, eight codepoints in a row.
type TinOf = [[u8; 8]; 8];

const DIFFSERV3: TinOf = [
    [0, 1, 0, 0, 2, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0],
    [0; 8],
    [0; 8],
    [0; 8],
    [0, 0, 0, 0, 2, 0, 2, 0],
    [2, 0, 0, 0, 0, 0, 0, 0],
    [2, 0, 0, 0, 0, 0, 0, 0],
];
const DIFFSERV4: TinOf = [
    [0, 1, 0, 0, 2, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0],
    [2, 0, 2, 0, 2, 0, 2, 0],
    [2, 0, 2, 0, 2, 0, 2, 0],
    [3, 0, 2, 0, 2, 0, 2, 0],
    [3, 0, 0, 0, 3, 0, 3, 0],
    [3, 0, 0, 0, 0, 0, 0, 0],
    [3, 0, 0, 0, 0, 0, 0, 0],
];
const DIFFSERV8: TinOf = [
    [2, 0, 1, 2, 4, 2, 2, 2],
    [1, 2, 1, 2, 1, 2, 1, 2],
    [5, 2, 4, 2, 4, 2, 4, 2],
    [3, 2, 3, 2, 3, 2, 3, 2],
    [6, 2, 3, 2, 3, 2, 3, 2],
    [6, 2, 2, 2, 6, 2, 6, 2],
    [7, 2, 2, 2, 2, 2, 2, 2],
    [7, 2, 2, 2, 2, 2, 2, 2],
];

/// The tin of codepoint `dscp`.
#[inline]
pub(super) fn tin_of(tins: CakeTins, dscp: u8) -> usize {
    let (row, column) = (usize::from(dscp >> 3 & 7), usize::from(dscp & 7));
    match tins {
        CakeTins::BestEffort => 0,
        CakeTins::Precedence => row,
        CakeTins::Diffserv3 => DIFFSERV3[row][column].into(),
        CakeTins::Diffserv4 => DIFFSERV4[row][column].into(),
        CakeTins::Diffserv8 => DIFFSERV8[row][column].into(),
    }
}

/// The rate of each tin, of `whole`, and its quantum where there is no shaper.
fn shares(tins: CakeTins, whole: u64) -> Vec<(u64, i64)> {
    let shifted = |shifts: &[u32]| shifts.iter().map(|shift| (whole >> shift, 1024 >> shift)).collect();
    match tins {
        CakeTins::BestEffort => vec![(whole, 65_535)],
        CakeTins::Diffserv3 => shifted(&[0, 4, 2]),
        CakeTins::Diffserv4 => shifted(&[0, 4, 1, 2]),
        // Each has seven eighths of the one before.
        CakeTins::Diffserv8 | CakeTins::Precedence => {
            let next = |&(rate, quantum): &(u64, i64)| {
                Some((((u128::from(rate) * 7) >> 3) as u64, (quantum * 7) >> 3))
            };
            core::iter::successors(Some((whole, 256)), next).take(8).collect()
        }
    }
}

/// What a flow is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    /// Nothing, for as long as its COBALT remembers something.
    None,
    /// It has sent less than a quantum since it began.
    Sparse,
    /// It has sent a quantum and nothing waits, but its turn is still to come.
    SparseWait,
    /// It has more than a quantum to send.
    Bulk,
    /// Nothing waits, and its COBALT comes to rest.
    Decaying,
}

/// Where flows wait for their turns.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    New,
    Old,
}

/// In parts of a byte.
pub(super) const PARTS: i64 = 65_536;

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) packets: Chain,
    pub(super) set: Set,
    pub(super) hosts: HostsOf,
    /// What it may still send in its turn, in parts of a byte.
    pub(super) deficit: i64,
    pub(super) cobalt: CobaltState,
}

/// One tin.
#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub(super) rate: Option<BitRate>,
    /// Bytes in its turn among tins, without a shaper.
    pub(super) quantum: i64,
    /// What is left of its turn.
    pub(super) deficit: i64,
    /// Until when it has used its share of the shaper.
    pub(super) time_next: Time,
    flow_quantum: i64,
    pub(super) delays: Delays,
    pub(super) queues: Vec<Queue>,
    /// Bytes that wait in each queue: apart, to be looked through when room must be made.
    pub(super) bytes: Vec<u64>,
    pub(super) places: Places,
    pub(super) new: VecDeque<u32>,
    pub(super) old: VecDeque<u32>,
    pub(super) decaying: RecencyList,
    /// How many flows are sparse, and how many are bulk.
    pub(super) sparse: u32,
    pub(super) bulk: u32,
    pub(super) backlog_bytes: u64,
}

/// The tins of a configuration.
pub(super) fn tins(config: &CakeConfig, mtu_bytes: u32) -> Vec<Tin> {
    let whole = config.bandwidth.map_or(0, BitRate::as_bps);
    let shares = shares(config.diffserv, whole);
    let rate_of = |bps| config.bandwidth.map(|_| BitRate::from_bps(bps));
    shares.into_iter().map(|(bps, quantum)| Tin::new(config, rate_of(bps), quantum, mtu_bytes)).collect()
}

impl Tin {
    fn new(config: &CakeConfig, rate: Option<BitRate>, quantum: i64, mtu_bytes: u32) -> Self {
        let empty = Queue {
            packets: Chain::EMPTY,
            set: Set::None,
            hosts: HostsOf::default(),
            deficit: 0,
            cobalt: CobaltState::default(),
        };
        let queues = config.queues as usize;
        Self {
            rate,
            quantum,
            deficit: 0,
            time_next: Time::ZERO,
            // A 4096th of the bytes of a second.
            flow_quantum: rate.map_or(1514, |rate| (rate.as_bps() >> 15).clamp(300, 1514).cast_signed()),
            delays: Delays::new(config.target(), config.rtt, duration(u64::from(mtu_bytes), rate)),
            queues: vec![empty; queues],
            bytes: vec![0; queues],
            places: Places::new(config),
            new: VecDeque::with_capacity(queues),
            old: VecDeque::with_capacity(queues),
            decaying: RecencyList::for_slots(config.queues),
            sparse: 0,
            bulk: 0,
            backlog_bytes: 0,
        }
    }

    #[inline]
    pub(super) const fn has_flows(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// What flow `index` may send in a turn: a quantum, shared among the bulk flows of its busier host.
    #[inline]
    pub(super) fn quantum_of(&self, index: u32) -> i64 {
        let load = self.places.load(self.queues[index as usize].hosts);
        self.flow_quantum * PARTS / i64::from(load)
    }

    /// Flow `index` has something to send, and is not in a list with others that have.
    #[inline]
    pub(super) fn on_arrival(&mut self, index: u32) {
        match self.queues[index as usize].set {
            Set::None | Set::Decaying => {
                if self.queues[index as usize].set == Set::Decaying {
                    self.decaying.remove(index);
                }
                self.new.push_back(index);
                self.sparse += 1;
                let quantum = self.quantum_of(index);
                let queue = &mut self.queues[index as usize];
                (queue.set, queue.deficit) = (Set::Sparse, quantum);
            }
            Set::SparseWait => self.become_bulk(index),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The flow whose turn it is, and in which list it is the first: new ones, or else old ones.
    #[inline]
    pub(super) fn first_flow(&self) -> Option<(List, u32)> {
        let first = |list, of: &VecDeque<u32>| of.front().map(|&index| (list, index));
        first(List::New, &self.new).or_else(|| first(List::Old, &self.old))
    }

    /// The first of `list` is in none any more.
    #[inline]
    pub(super) fn leave(&mut self, list: List) {
        match list {
            List::New => _ = self.new.pop_front(),
            List::Old => _ = self.old.pop_front(),
        }
    }

    /// The turn of flow `index` is over.
    #[inline]
    pub(super) fn end_turn(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        if queue.set == Set::Sparse {
            if queue.packets.is_empty() {
                queue.set = Set::SparseWait;
            } else {
                self.become_bulk(index);
            }
        }
        self.queues[index as usize].deficit += self.quantum_of(index);
        self.old.push_back(index);
    }

    fn become_bulk(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        queue.set = Set::Bulk;
        self.sparse -= 1;
        self.bulk += 1;
        self.places.add_bulk(queue.hosts);
    }

    /// Of the flows whose COBALT comes to rest the one that was looked at longest ago is looked at. Its turn need
    /// not end first: only a flow that may still send is found empty.
    #[inline]
    pub(super) fn decay(&mut self, decrement: u32, now: Time) {
        let Some(index) = self.decaying.oldest() else { return };
        let queue = &mut self.queues[index as usize];
        queue.cobalt.on_empty(&self.delays, decrement, now);
        if queue.cobalt.is_at_rest(now) {
            queue.set = Set::None;
            self.decaying.remove(index);
        } else {
            self.decaying.touch(index);
        }
    }

    /// Nothing waits of flow `index`, whose turn it is; it is in no list any more. It is kept until its COBALT is at rest.
    pub(super) fn on_empty(&mut self, index: u32, decrement: u32, now: Time) {
        let queue = &mut self.queues[index as usize];
        queue.cobalt.on_empty(&self.delays, decrement, now);
        match queue.set {
            Set::Bulk => {
                self.bulk -= 1;
                self.places.remove_bulk(queue.hosts);
            }
            Set::Sparse | Set::SparseWait => self.sparse -= 1,
            Set::Decaying | Set::None => {}
        }
        if queue.cobalt.is_at_rest(now) {
            queue.set = Set::None;
        } else {
            queue.set = Set::Decaying;
            self.decaying.touch(index);
        }
    }

    /// Which queue `keys` goes to; where a flow takes the queue of another, its hosts are the new one's.
    #[inline]
    pub(super) fn classify(&mut self, classifier: &Classifier, keys: &Keys) -> u32 {
        let queues = &self.queues;
        let found = self.places.find(classifier, keys, |queue| queues[queue].set != Set::None);
        if found.moves {
            let queue = &mut self.queues[found.queue];
            if queue.set == Set::Bulk {
                self.places.remove_bulk(queue.hosts);
            }
            queue.hosts = self.places.take_hosts(classifier, keys);
            if queue.set == Set::Bulk {
                self.places.add_bulk(queue.hosts);
            }
        }
        found.queue as u32
    }
}
