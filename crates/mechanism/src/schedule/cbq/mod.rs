//! Class-based queueing: agencies, protocols or kinds of traffic share a link in agreed parts. A class that sends more than its
//! part is held back while others need the link, and may borrow from its ancestors in a tree of classes while they do not.
//! Among the classes that may send, priorities decide, and within a priority a weighted round robin.
//!
//! Source: Floyd & Jacobson, "Link-sharing and resource management models for packet networks", `IEEE/ACM ToN` 3(4), 1995,
//! sections 3 (link-sharing guidelines: formal, ancestor-only, top-level) and 4, appendix A (the estimator); ns-2 `cbq.cc`
//! with weighted round robin (`Queue/CBQ/WRR`) and `ns-queue.tcl`; catalogue, section 14.
//! Deviations:
//! - A class may send *at* its `undertime`; ns-2 has it wait until after it, which in continuous time is the same.
//! - A class that is held back is served when its time comes ([`QueueDiscipline::ready_at`]). ns-2 has no such timer: with no
//!   class that may send, it looks again at the next arrival or not at all.
//! - As in ns-2 and not in the paper, a link never idles while a class waits that may borrow: if no class may send, the most
//!   urgent of these does, uncharged.
//! - Round robin goes by the order of the configuration; ns-2 inserts each class behind the first.
//! - `minidle` is from the paper's implementation; ns-2 has none, which is the default.
//! - The link may be shared as if it had another rate than it has ([`CbqConfig::rate`]; Pazos: the minimum cell rate of a
//!   virtual circuit, whose actual rate varies). ns-2 knows one rate.
//! - When the link changes its rate, the estimators' times stretch with it; ns-2's rates do not change.
//! - Credit is bounded for the largest packet of the configuration, as in ns-2.

mod config;
mod counters;
mod estimator;
mod sharing;
mod tree;

pub use config::{CbqClassConfig, CbqConfig, LinkSharing};

use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_units::{BitRate, Time};

use crate::queue::{AnyManager, Fifo, QueueDiscipline};
use counters::{ClassCounters, Counting};
use estimator::{Estimator, Ticks, ticks, ticks_of, time_not_before, transmission};
use tree::Tree;

/// How many priorities there are (ns-2 `MAXPRIO`).
pub const CBQ_PRIORITIES: u8 = 10;

const LEAF_LEVEL: u32 = 1;
const NONE: usize = usize::MAX;

/// See the module.
#[derive(Debug)]
pub struct Cbq {
    classes: Vec<Class>,
    /// The classes with queues of each priority in use, most urgent first.
    rings: Vec<Ring>,
    /// Key and class, by key.
    classes_of: Vec<(u32, u32)>,
    backlog: Backlog,
    /// Top-level link-sharing: up to which level one may borrow.
    top_level: u32,
    /// The class whose last packet is in transmission.
    emptied: usize,
    /// At or before the first timer of a manager.
    timer: Option<Time>,
    /// At least one.
    link_bps: u64,
    config: Tree,
}

#[derive(Debug)]
struct Class {
    estimator: Estimator,
    /// [`NONE`] for a root.
    parent: usize,
    level: u32,
    /// May borrow, and there is someone to borrow from.
    borrows: bool,
    queue: Fifo<AnyManager>,
    /// `bytes_alloc`: what is left of this round.
    allocation: i64,
    /// What a round gives.
    quantum: i64,
    counters: ClassCounters,
}

impl Class {
    fn has_demand(&self) -> bool {
        !self.queue.backlog().is_empty()
    }
}

/// Classes of one priority, in turns.
#[derive(Clone, Debug, Default)]
struct Ring {
    leaves: Vec<usize>,
    /// The place in `leaves` whose turn it is.
    turn: usize,
}

/// A class that is to send.
struct Choice {
    ring: usize,
    place: usize,
    /// Who is charged with lending; `None` if nobody may send and the link would idle.
    lender: Option<usize>,
}

impl QueueDiscipline for Cbq {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        let number = self.class_of(&packet);
        if self.config.sharing == LinkSharing::TopLevel {
            self.on_arrival_at_top_level(number, ticks(now));
        }
        let class = &mut self.classes[number];
        class.counters.on_arrival(&packet);
        let before = class.queue.backlog();
        class.queue.enqueue(packet, now, &mut Counting { counters: &mut class.counters, out });
        let after = class.queue.backlog();
        self.account(number, before, after);
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.on_transmitted(now);
        if self.backlog.is_empty() {
            // A round does not survive the idle link, for a look at classes without demand takes what they had left.
            self.classes.iter_mut().for_each(|class| class.allocation = 0);
        }
        // Each turn but the last takes packets off a queue whose manager drops at the head.
        while !self.backlog.is_empty() {
            let choice = self.choose(ticks(now))?;
            if let Some(packet) = self.send(&choice, now, out) {
                return Some(packet);
            }
        }
        None
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        if self.backlog.is_empty() {
            return None;
        }
        let waiting = || self.classes.iter().filter(|class| class.has_demand());
        if waiting().any(|class| class.borrows) {
            return Some(now);
        }
        let first = waiting().map(|class| class.estimator.undertime()).min()?;
        Some(time_not_before(first).max(now))
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn on_idle(&mut self, now: Time) {
        self.on_transmitted(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        // A link that stands still (a shaper may) is one of a bit per second: debts are kept, and stretch back with it.
        let (old, new, now_ticks) = (self.link_bps, rate.as_bps().max(1), ticks(now));
        self.link_bps = new;
        for class in &mut self.classes {
            match self.config.rate {
                None => class.estimator.stretch(now_ticks, old, new),
                Some(_) => class.estimator.stretch_transmission(now_ticks, old, new),
            }
            class.queue.set_link_rate(rate, now);
        }
        self.set_rates();
    }

    fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, out: &mut impl Sink) {
        for class in &mut self.classes {
            if class.queue.timer_at().is_some_and(|at| at <= now) {
                class.queue.on_timer(now, &mut Counting { counters: &mut class.counters, out });
            }
        }
        self.timer = self.classes.iter().filter_map(|class| class.queue.timer_at()).min();
    }

    /// A class that is held back gives its packets up too.
    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        for class in &mut self.classes {
            let mut out = Counting { counters: &mut class.counters, out };
            let had_demand = !class.queue.backlog().is_empty();
            class.queue.purge(now, why, &mut out);
            if had_demand {
                class.queue.on_idle(now);
            }
        }
        self.backlog = Backlog::EMPTY;
        self.timer = self.classes.iter().filter_map(|class| class.queue.timer_at()).min();
    }

    fn restart_statistics(&mut self) {
        self.classes.iter_mut().for_each(|class| class.counters.restart());
    }

    /// `active_queues`; of the class with number 2 `classes.2.sent_bytes` (or `arrived`, `dropped`; `packets`),
    /// `classes.2.ports.0.sent_bytes`, `classes.2.queue_packets`, `classes.2.queue_bytes` and what its manager knows.
    fn variable(&self, name: &str) -> Option<f64> {
        let Some(rest) = name.strip_prefix("classes.") else {
            let active = || self.classes.iter().filter(|class| class.has_demand()).count();
            return (name == "active_queues").then(|| active() as f64);
        };
        let (number, quantity) = rest.split_once('.')?;
        let class = self.classes.get(number.parse::<usize>().ok()?)?;
        match quantity {
            "queue_packets" => Some(f64::from(class.queue.backlog().packets)),
            "queue_bytes" => Some(class.queue.backlog().bytes as f64),
            _ => class.counters.get(quantity).or_else(|| class.queue.variable(quantity)),
        }
    }
}

impl Cbq {
    fn class_of(&self, packet: &Packet) -> usize {
        let key = self.config.classify.key(packet);
        let found = self.classes_of.binary_search_by_key(&key, |&(known, _)| known);
        found.map_or(self.config.default, |at| self.classes_of[at].1 as usize)
    }

    /// Who goes next (ns-2 `WRR_CBQueue::deque`): the first priority with a class that may send; in it the round begins with
    /// the class whose turn it is. A class whose part of the round is used up goes only if no other may.
    fn choose(&mut self, now: Ticks) -> Option<Choice> {
        let mut fallback = None;
        for ring in 0..self.rings.len() {
            let places = self.rings[ring].leaves.len();
            // Second look: some class may send, and none of these has anything left in this round.
            for is_second_look in [false, true] {
                let mut is_used_up = false;
                for step in 0..places {
                    let place = (self.rings[ring].turn + step) % places;
                    let number = self.rings[ring].leaves[place];
                    let class = &mut self.classes[number];
                    if !is_second_look && class.allocation <= 0 {
                        class.allocation += class.quantum;
                    }
                    if class.has_demand() {
                        if class.borrows && fallback.is_none() {
                            fallback = Some(Choice { ring, place, lender: None });
                        }
                        let lender = self.lender_of(number, now);
                        if lender.is_none() {
                            self.classes[number].estimator.on_held_back();
                        } else if self.classes[number].allocation > 0 || is_second_look {
                            return Some(Choice { ring, place, lender });
                        } else {
                            is_used_up = true;
                        }
                    }
                    self.classes[number].allocation = 0;
                }
                if !is_used_up {
                    break;
                }
            }
        }
        fallback
    }

    fn send(&mut self, choice: &Choice, now: Time, out: &mut impl Sink) -> Option<Packet> {
        let ring = &mut self.rings[choice.ring];
        let number = ring.leaves[choice.place];
        let class = &mut self.classes[number];
        let before = class.queue.backlog();
        let packet = class.queue.dequeue(now, &mut Counting { counters: &mut class.counters, out });
        let after = class.queue.backlog();
        let next = (choice.place + 1) % ring.leaves.len();
        ring.turn = next;
        if let Some(packet) = &packet {
            class.counters.on_sent(packet);
            if choice.lender.is_some() {
                if class.allocation > 0 {
                    class.allocation -= i64::from(packet.wire_bytes);
                }
                if class.allocation > 0 {
                    ring.turn = choice.place;
                }
            }
        }
        if after.is_empty() {
            if packet.is_some() {
                self.emptied = number;
            } else {
                class.queue.on_idle(now);
            }
        }
        self.account(number, before, after);
        if let (Some(packet), Some(lender)) = (&packet, choice.lender) {
            self.charge(number, packet.wire_bytes, ticks(now));
            if self.config.sharing == LinkSharing::TopLevel {
                self.on_departure_at_top_level(lender, after, ticks(now));
            }
        }
        packet
    }

    /// The class and all its ancestors have sent (ns-2 `CBQClass::update`).
    fn charge(&mut self, number: usize, bytes: u32, now: Ticks) {
        let start = self.classes[number].estimator.start(now);
        let duration = transmission(bytes, self.link_bps);
        let mut at = number;
        while at != NONE {
            let class = &mut self.classes[at];
            class.estimator.on_sent(bytes, start, duration);
            at = class.parent;
        }
    }

    /// The link finished a packet: the queue that it came from is idle, if nothing waits there.
    fn on_transmitted(&mut self, now: Time) {
        let emptied = core::mem::replace(&mut self.emptied, NONE);
        if emptied != NONE {
            let queue = &mut self.classes[emptied].queue;
            if queue.backlog().is_empty() {
                queue.on_idle(now);
                self.note_timer(emptied);
            }
        }
    }

    fn account(&mut self, number: usize, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        self.note_timer(number);
    }

    fn note_timer(&mut self, number: usize) {
        if let Some(at) = self.classes[number].queue.timer_at() {
            self.timer = Some(self.timer.map_or(at, |timer| timer.min(at)));
        }
    }

    /// The rings, and what a round gives each class: on average one largest packet (ns-2 `setM`).
    fn build_rings(&mut self) {
        for priority in 0..CBQ_PRIORITIES {
            let is_of = |number: &usize| {
                self.classes[*number].level == LEAF_LEVEL && self.config.classes[*number].priority == priority
            };
            let leaves: Vec<usize> = (0..self.classes.len()).filter(is_of).collect();
            if leaves.is_empty() {
                continue;
            }
            let shares: f64 = leaves.iter().map(|&leaf| self.config.classes[leaf].share).sum();
            let per_share = leaves.len() as f64 * f64::from(self.config.max_packet) / shares;
            for &leaf in &leaves {
                // Whole bytes, in spite of what sums of shares lose; with none (as ns-2 has it) a small share would never have a turn.
                let quantum = (self.config.classes[leaf].share * per_share + 1e-6) as i64;
                self.classes[leaf].quantum = quantum.max(1);
            }
            self.rings.push(Ring { leaves, turn: 0 });
        }
    }

    /// What follows from the rates of the link and of its sharing.
    fn set_rates(&mut self) {
        let bps = self.config.rate.map_or(self.link_bps, BitRate::as_bps);
        for (class, config) in self.classes.iter_mut().zip(&self.config.classes) {
            let automatic =
                || estimator::automatic_max_idle(config.share, config.priority, self.config.max_packet, bps);
            let estimator = &mut class.estimator;
            estimator.per_byte = Estimator::per_byte(config.share, bps as f64);
            estimator.max_idle = config.max_idle.map_or_else(automatic, ticks_of);
            estimator.min_idle = config.min_idle.map_or(NO_BOUND, ticks_of);
            estimator.extra_delay = ticks_of(config.extra_delay);
        }
    }
}

/// Far beyond any time, and far from an overflow.
const NO_BOUND: Ticks = Ticks::MAX >> 16;

#[cfg(test)]
mod tests;
