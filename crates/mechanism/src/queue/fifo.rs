//! One FIFO under a queue manager: the discipline that most links have.
//!
//! Source: none; it has the packets, the manager inside has the published mechanism. Deviations: none.

use alloc::collections::VecDeque;

use tidegate_packet::{Backlog, DropReason, Ecn, Packet, Sink};
use tidegate_units::{BitRate, Time};

use super::{QueueDiscipline, QueueManager, Verdict};

/// A FIFO whose `manager` decides what joins and what leaves.
#[derive(Clone, Debug)]
pub struct Fifo<M> {
    manager: M,
    waiting: VecDeque<Packet>,
    backlog: Backlog,
}

impl<M: QueueManager> Fifo<M> {
    /// An empty FIFO under `manager`.
    pub const fn new(manager: M) -> Self {
        Self { manager, waiting: VecDeque::new(), backlog: Backlog::EMPTY }
    }

    /// The manager.
    pub const fn manager(&self) -> &M {
        &self.manager
    }

    /// The manager, without its FIFO. What waits is lost.
    pub fn into_manager(self) -> M {
        self.manager
    }

    /// Starts again under another manager, in the memory of before. Nothing may wait.
    pub fn restart(&mut self, manager: M) {
        assert!(self.waiting.is_empty(), "a FIFO starts again when it is empty");
        self.manager = manager;
    }

    fn join(&mut self, packet: Packet) {
        self.backlog.add(&packet);
        self.waiting.push_back(packet);
    }

    fn evict(&mut self, position: u32, now: Time) -> Packet {
        let victim =
            if position == 0 { self.waiting.pop_front() } else { self.waiting.remove(position as usize) };
        let victim = victim.expect("a manager evicts a packet that waits");
        self.backlog.remove(&victim);
        self.manager.on_departure(&victim, self.backlog, now);
        victim
    }

    /// The packet that has waited longest, without asking the manager: for a scheduler that makes room.
    pub fn drop_head(&mut self, now: Time) -> Option<Packet> {
        if self.waiting.is_empty() {
            return None;
        }
        let victim = self.evict(0, now);
        self.manager.on_removed(now);
        Some(victim)
    }

    /// The packet at the head.
    pub fn head(&self) -> Option<&Packet> {
        self.waiting.front()
    }

    /// The size of the packet at the head.
    pub fn head_wire_bytes(&self) -> Option<u32> {
        self.waiting.front().map(|packet| packet.wire_bytes)
    }
}

impl<M: QueueManager> QueueDiscipline for Fifo<M> {
    fn enqueue(&mut self, mut packet: Packet, now: Time, out: &mut impl Sink) {
        match self.manager.on_arrival(&mut packet, self.backlog, now) {
            Verdict::Accept => self.join(packet),
            Verdict::Mark(why) => {
                debug_assert!(packet.ecn.is_capable(), "a manager marks only what can carry a mark");
                packet.ecn = Ecn::Ce;
                out.on_mark(&packet, why);
                self.join(packet);
            }
            Verdict::Drop(why) => out.on_drop(packet, why),
            Verdict::Evict { position, why } => {
                let victim = self.evict(position, now);
                out.on_drop(victim, why);
                self.join(packet);
            }
            Verdict::DropWith { position, why } => {
                let victim = self.evict(position, now);
                out.on_drop(victim, why);
                out.on_drop(packet, why);
            }
        }
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        // Each turn takes one packet off, so the loop is bounded by what waits.
        while let Some(&head) = self.waiting.front() {
            let verdict = if self.manager.decides_at_head() {
                self.manager.at_head(&head, self.backlog, now)
            } else {
                Verdict::Accept
            };
            let mut packet = self.evict(0, now);
            match verdict {
                Verdict::Accept => return Some(packet),
                Verdict::Mark(why) => {
                    packet.ecn = Ecn::Ce;
                    out.on_mark(&packet, why);
                    return Some(packet);
                }
                Verdict::Drop(why) => out.on_drop(packet, why),
                Verdict::Evict { .. } | Verdict::DropWith { .. } => {
                    unreachable!("eviction at the head makes no room for anything")
                }
            }
        }
        None
    }

    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        while !self.waiting.is_empty() {
            let victim = self.evict(0, now);
            out.on_drop(victim, why);
        }
    }

    fn may_choose_late(&self) -> bool {
        !self.manager.decides_at_head()
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn on_idle(&mut self, now: Time) {
        self.manager.on_idle(now);
    }
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.manager.set_link_rate(rate, now);
    }
    fn timer_at(&self) -> Option<Time> {
        self.manager.timer_at()
    }
    fn on_timer(&mut self, now: Time, _out: &mut impl Sink) {
        self.manager.on_timer(now);
    }
    fn variable(&self, name: &str) -> Option<f64> {
        self.manager.variable(name)
    }
}
