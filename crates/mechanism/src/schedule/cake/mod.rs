//! CAKE: what a home or an office needs in front of a slow link, in one. A shaper that counts what the link adds to packets keeps the
//! queue here and not in the modem; tins give codepoints their shares; within each, deficit round robin is fair to hosts first and
//! then to their flows, flows with little to send go first, and COBALT keeps each queue short.
//!
//! Source: Linux, `net/sched/sch_cake.c`; Høiland-Jørgensen, Täht & Morton, "Piece of CAKE: A Comprehensive Queue Management
//! Solution for Home Gateways" (LANMAN 2018).
//! Deviations: those of its parts (`shaper`, `tin`, `hosts`, `acks`, and of COBALT `queue/cobalt/law`), and
//! - Memory counts the bytes of packets on the wire; Linux those of its buffers, somewhat more. There is no limit in packets beside it.
//! - What makes room is the head of the longest queue of all tins; of several, of the first in the first tin.
//! - Flows whose COBALT comes to rest do so when something is sent, not also by a timer when nothing is.
//! - Segments are not split (they come split), addresses are those that the packet has (no NAT), and there are no marks of a
//!   firewall. The rate does not follow what arrives (`autorate-ingress`).
//! - BLUE draws for each packet while its probability is above zero, as until Linux 6.13.

mod acks;
mod config;
mod hosts;
mod shaper;
#[cfg(test)]
mod tests;
mod tin;

use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Dscp, Ecn, MarkReason, Packet, Sink};
use tidegate_units::Time;

use self::acks::Waiting;
pub use self::config::{AckFilter, CakeConfig, CakeFlows, CakeTins, Framing};
use self::hosts::Classifier;
use self::shaper::{Accounting, Shaper, duration};
use self::tin::{PARTS, Tin};
use crate::queue::QueueDiscipline;
use crate::random::Substream;
use crate::schedule::store::Store;
use crate::{Context, Variable};

/// By how much the probability of BLUE rises and falls, in parts of 2^32 (`cake_set_rate`).
const INCREMENT: u32 = 1 << 24;
const DECREMENT: u32 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    /// The tin whose turn it is, without a shaper.
    current: usize,
    classifier: Classifier,
    shared: Shared,
}

/// What all tins share: apart from them, so that who has a tin at hand need not look it up again for each step.
#[derive(Debug)]
struct Shared {
    shaper: Shaper,
    accounting: Accounting,
    store: Store,
    backlog: Backlog,
    memory_bytes: u64,
    random: Substream,
    config: CakeConfig,
}

impl CakeConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Cake {
        assert!(self.queues.is_multiple_of(self.ways), "sets are whole");
        Cake {
            tins: tin::tins(self, context.mtu_bytes),
            current: 0,
            classifier: Classifier::new(self, context.seed),
            shared: Shared {
                shaper: Shaper::new(self.bandwidth),
                accounting: Accounting::new(self),
                store: Store::new(),
                backlog: Backlog::EMPTY,
                memory_bytes: self.memory_bytes(),
                random: Substream::new(context.seed),
                config: *self,
            },
        }
    }
}

impl Shared {
    /// Takes the packet off queue `index` of `tin` that has `number` in front of it.
    #[inline]
    fn take(&mut self, tin: &mut Tin, index: u32, number: usize) -> Option<Packet> {
        let chain = &mut tin.queues[index as usize].packets;
        let packet = if number == 0 { self.store.pop(chain) } else { self.store.remove(chain, number) }?;
        tin.bytes[index as usize] -= u64::from(packet.wire_bytes);
        tin.backlog_bytes -= u64::from(packet.wire_bytes);
        self.backlog.remove(&packet);
        Some(packet)
    }

    /// `packet` uses time of its tin and of the link (`cake_advance_shaper`); how many bytes of it.
    #[inline]
    fn charge(&mut self, tin: &mut Tin, packet: &Packet, is_sent: bool, now: Time) -> u64 {
        let adjusted = self.accounting.adjusted(packet.wire_bytes);
        if self.shaper.rate.is_some() {
            let time = duration(adjusted, tin.rate);
            tin.time_next = if tin.time_next < now {
                tin.time_next.saturating_add(time)
            } else {
                tin.time_next.max(now.saturating_add(time))
            };
            self.shaper.advance(adjusted, is_sent);
        }
        adjusted
    }

    /// The same, and of the turns of its flow and tin.
    #[inline]
    fn charge_flow(&mut self, tin: &mut Tin, index: u32, packet: &Packet, is_sent: bool, now: Time) {
        let adjusted = self.charge(tin, packet, is_sent, now).cast_signed();
        tin.queues[index as usize].deficit -= adjusted * PARTS;
        tin.deficit -= adjusted;
    }

    /// An acknowledgment goes that the one which has just joined queue `index` makes needless.
    #[cold]
    fn filter(&mut self, tin: &mut Tin, index: u32, now: Time, out: &mut impl Sink) {
        let chain = tin.queues[index as usize].packets;
        let seen = |packet: &Packet| Waiting { flow: packet.flow, ack: out.pure_ack(packet) };
        let Some(newest) = self.store.last(chain).map(seen).filter(|newest| newest.ack.is_some()) else {
            return;
        };
        let before = self.store.iter(chain).count() - 1;
        let waiting = self.store.iter(chain).take(before).map(seen);
        let Some(number) = acks::needless(self.config.ack_filter, waiting, newest) else { return };
        if let Some(ack) = self.take(tin, index, number) {
            out.on_drop(ack, DropReason::Redundant);
            if self.config.ingress {
                self.charge(tin, &ack, false, now);
            }
        }
    }

    /// What flow `index` sends, of which something waits and whose turn it is (`cake_dequeue`, from "We have a
    /// queue" on). None: a drop has used what it may send, so that it may be another one's turn.
    #[inline]
    fn next_of(&mut self, tin: &mut Tin, index: u32, now: Time, out: &mut impl Sink) -> Option<Packet> {
        loop {
            let mut packet = self.take(tin, index, 0)?;
            let Tin { queues, delays, bulk, .. } = &mut *tin;
            let queue = &mut queues[index as usize];
            let is_over =
                delays.is_over(now.since(packet.arrived), if self.config.ingress { *bulk } else { 0 });
            let judged =
                queue.cobalt.at_head(is_over, packet.ecn.is_capable(), delays, &mut self.random, now);
            // The last packet of a queue is not dropped.
            let Some(why) = judged.drop.filter(|_| !queue.packets.is_empty()) else {
                if judged.mark {
                    packet.ecn = Ecn::Ce;
                    out.on_mark(&packet, MarkReason::Early);
                }
                self.charge_flow(tin, index, &packet, true, now);
                return Some(packet);
            };
            out.on_drop(packet, why);
            if self.config.ingress {
                self.charge_flow(tin, index, &packet, false, now);
                return None;
            }
        }
    }
}

impl Cake {
    /// What may be recorded of it.
    pub(super) const VARIABLES: &'static [Variable] = &[
        Variable::new(
            "sparse_flows",
            "Flows that go first: they have sent less than a quantum since they began.",
        ),
        Variable::new("bulk_flows", "Flows with more than a quantum to send."),
    ];

    /// The longest queue of all gives up its head (`cake_drop`).
    #[cold]
    fn make_room(&mut self, now: Time, out: &mut impl Sink) {
        let lengths = self.tins.iter().enumerate().flat_map(|(tin, of)| {
            (0u32..).zip(&of.bytes).map(move |(index, &bytes)| (bytes, core::cmp::Reverse((tin, index))))
        });
        let Some((_, core::cmp::Reverse((tin, index)))) = lengths.max() else { return };
        let (tin, shared) = (&mut self.tins[tin], &mut self.shared);
        let Some(victim) = shared.take(tin, index, 0) else { return };
        out.on_drop(victim, DropReason::Overflow);
        tin.queues[index as usize].cobalt.on_full(&tin.delays, INCREMENT, now);
        if shared.config.ingress {
            shared.charge(tin, &victim, false, now);
        }
    }

    /// The tin that goes next. With a shaper the last one whose time has come, or else the one whose time comes first; without one they
    /// have turns. Something waits.
    #[inline]
    fn choose(&mut self, now: Time) -> usize {
        if self.shared.shaper.rate.is_some() {
            let (mut chosen, mut least) = (0, u64::MAX);
            for (number, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
                let wait = tin.time_next.since(now).as_nanos();
                if wait == 0 || wait <= least {
                    (chosen, least) = (number, wait);
                }
            }
            return chosen;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.has_flows() {
                return self.current;
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }
}

impl QueueDiscipline for Cake {
    /// `cake_enqueue`.
    fn enqueue(&mut self, mut packet: Packet, now: Time, out: &mut impl Sink) {
        let Self { tins, classifier, shared, .. } = self;
        let tin = &mut tins[tin::tin_of(shared.config.diffserv, packet.dscp.get())];
        if shared.config.wash {
            packet.dscp = Dscp::BEST_EFFORT;
        }
        let keys = classifier.keys(&packet, out);
        let index = tin.classify(classifier, &keys);
        if tin.backlog_bytes == 0 {
            tin.time_next = tin.time_next.max(now);
            if shared.backlog.is_empty() {
                shared.shaper.begin(now);
            }
        }
        shared.store.push(&mut tin.queues[index as usize].packets, packet);
        tin.bytes[index as usize] += u64::from(packet.wire_bytes);
        tin.backlog_bytes += u64::from(packet.wire_bytes);
        shared.backlog.add(&packet);
        if shared.config.ack_filter != AckFilter::No {
            shared.filter(tin, index, now, out);
        }
        tin.on_arrival(index);
        while self.shared.backlog.bytes > self.shared.memory_bytes {
            self.make_room(now, out);
        }
    }

    /// `cake_dequeue`.
    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        let mut is_first = true;
        loop {
            // Asked again where `ingress` lets what was dropped use the link.
            if self.shared.backlog.is_empty() || !self.shared.shaper.is_ready(now) {
                return None;
            }
            let number = self.choose(now);
            let (tin, shared) = (&mut self.tins[number], &mut self.shared);
            if core::mem::take(&mut is_first) {
                tin.decay(DECREMENT, now);
            }
            let mut has_dropped = false;
            while let Some((list, index)) = tin.first_flow() {
                let queue = &tin.queues[index as usize];
                if queue.deficit <= 0 {
                    tin.leave(list);
                    tin.end_turn(index);
                } else if !queue.packets.is_empty() {
                    if let Some(packet) = shared.next_of(tin, index, now, out) {
                        return Some(packet);
                    }
                    has_dropped = true;
                } else {
                    tin.leave(list);
                    tin.on_empty(index, DECREMENT, now);
                    // As long as it has other flows, and drops have used nothing, it would be chosen again.
                    if has_dropped || !tin.has_flows() {
                        break;
                    }
                }
            }
        }
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        if self.shared.backlog.is_empty() { None } else { Some(self.shared.shaper.ready_at(now)) }
    }

    fn backlog(&self) -> Backlog {
        self.shared.backlog
    }

    /// Whatever the shaper says: flows find their queues empty when it is their turn.
    fn purge(&mut self, _now: Time, why: DropReason, out: &mut impl Sink) {
        for tin in &mut self.tins {
            for index in 0..self.shared.config.queues {
                while let Some(packet) = self.shared.take(tin, index, 0) {
                    out.on_drop(packet, why);
                }
            }
        }
    }

    fn variable(&self, name: &str) -> Option<f64> {
        let sum = |of: fn(&Tin) -> u32| Some(f64::from(self.tins.iter().map(of).sum::<u32>()));
        match name {
            "sparse_flows" => sum(|tin| tin.sparse),
            "bulk_flows" => sum(|tin| tin.bulk),
            _ => None,
        }
    }
}
