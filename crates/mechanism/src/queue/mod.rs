//! Accept, mark or drop?
//!
//! Two traits divide the work. A [`QueueManager`] decides on the packets of *one* FIFO and holds none of them; a
//! [`QueueDiscipline`] holds packets. [`Fifo`] makes a discipline of any manager; a scheduler
//! ([`crate::schedule`]) is a discipline with a manager for each of its queues. So "DRR with RED per flow" is a
//! composition of two files, not a third one.

mod adaptive_red;
mod any;
mod average;
mod avq;
mod blue;
mod choke;
mod cobalt;
mod codel;
mod csfq;
mod device;
mod drop_tail;
mod eec_marker;
mod ered;
mod fifo;
mod fred;
mod limit;
pub mod own;
mod pi;
pub(crate) mod pi2;
mod pie;
mod red;
mod red_penalty_box;
mod rem;
pub mod sfb;
mod step;
mod tcp_friendly;
#[cfg(test)]
mod testing;
mod virtual_queues;

pub use adaptive_red::{AdaptiveRed, AdaptiveRedConfig};
pub use any::{AnyManager, ManagerConfig};
pub use average::{AverageQueue, IdleLaw};
pub use avq::{Avq, AvqConfig};
pub use blue::{Blue, BlueConfig, FreezeTimers};
pub use choke::{Choke, ChokeConfig};
pub use cobalt::{Cobalt, CobaltConfig};
pub(crate) use cobalt::{CobaltState, Delays};
pub use codel::{Codel, CodelConfig, CodelLaw, CodelLawConfig, CodelState, Reentry, Variant};
pub use csfq::{Csfq, CsfqConfig};
pub use device::{Device, DeviceConfig};
pub use drop_tail::{DropTail, DropTailConfig};
pub use eec_marker::{EecMarker, EecMarkerConfig};
pub use ered::{Counted, Ered, EredConfig, admits};
pub use fifo::Fifo;
pub use fred::{Fred, FredConfig, FredVariant};
pub use limit::QueueLimit;
pub(crate) use limit::bytes32;
pub use pi::{Pi, PiConfig};
pub use pi2::{Pi2, Pi2Config, Scalable};
pub use pie::{DelayEstimator, Pie, PieConfig, PieLaw, PieLawConfig, PieState};
pub(crate) use red::marking_probability as fluid_probability;
pub use red::{Flavor, GapLaw, QueueUnit, Red, RedConfig, Victim};
pub use red_penalty_box::{RedPenaltyBox, RedPenaltyBoxConfig};
pub use rem::{Rem, RemConfig};
pub use sfb::{Sfb, SfbConfig};
pub use step::{Step, StepConfig, Unmarkable};
pub use tcp_friendly::{TcpFriendly, TcpFriendlyConfig};
pub use virtual_queues::{VirtualQueues, exceeds_its_part};

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet, Sink};
use tidegate_units::{BitRate, Time};

use crate::Variable;

/// What a manager says of an arriving packet, or of the packet at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It joins (or leaves) untouched.
    Accept,
    /// It joins (or leaves) with a congestion mark. Only for packets whose [`Packet::ecn`] is capable.
    Mark(MarkReason),
    /// It is dropped.
    Drop(DropReason),
    /// It joins, and the waiting packet at `position` (0 is the head) is dropped instead.
    Evict {
        /// Which packet makes room; below the number of waiting packets.
        position: u32,
        /// Why.
        why: DropReason,
    },
    /// It is dropped, and so is the waiting packet at `position`; others wait beside that.
    DropWith {
        /// Which packet goes with it; below the number of waiting packets, which is two at least.
        position: u32,
        /// Why.
        why: DropReason,
    },
}

/// Active management of one FIFO: decides, holds no packets.
///
/// The world calls [`on_arrival`](Self::on_arrival) for each packet, then [`on_departure`](Self::on_departure) for each
/// that leaves for transmission, and [`on_idle`](Self::on_idle) when the link is free and nothing waits. `now` never
/// goes back over all of these.
pub trait QueueManager {
    /// What [`variable`](Self::variable) answers to, as far as it may be recorded.
    fn variables() -> &'static [Variable]
    where
        Self: Sized,
    {
        &[]
    }

    /// `packet` arrives and finds `queue` waiting (itself not counted, nor the packet in transmission). The manager may
    /// change the packet's label.
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict;

    /// Whether [`at_head`](Self::at_head) may say anything but [`Verdict::Accept`]. If not, the instants of departure
    /// follow from the arrivals, and a world may compute them in advance.
    fn decides_at_head(&self) -> bool {
        false
    }

    /// `packet` is next to be sent; `queue` still counts it. Called before [`on_departure`](Self::on_departure), and only
    /// if [`decides_at_head`](Self::decides_at_head). [`Verdict::Evict`] and [`Verdict::DropWith`] are not allowed here.
    fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        let _ = (packet, queue, now);
        Verdict::Accept
    }

    /// `packet` left for transmission, or made room for another, or is dropped with an arrival; `queue` is what still waits.
    fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
        let _ = (packet, queue, now);
    }

    /// A scheduler took a waiting packet out to make room for other queues. [`on_departure`](Self::on_departure) was called
    /// for it.
    fn on_removed(&mut self, now: Time) {
        let _ = now;
    }

    /// The link finished its last packet and nothing waits. Called once, until the next arrival.
    fn on_idle(&mut self, now: Time) {
        let _ = now;
    }

    /// The link has a new rate.
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        let _ = (rate, now);
    }

    /// When [`on_timer`](Self::on_timer) wants to run. A world may run it later, but before any other call with a later
    /// `now`; with its deadline, not with the time of that call.
    fn timer_at(&self) -> Option<Time> {
        None
    }

    /// The timer is due.
    fn on_timer(&mut self, now: Time) {
        let _ = now;
    }

    /// An inner variable by name, for `record`: those of [`variables`](Self::variables), and some for tests. `None` for names it has
    /// not.
    fn variable(&self, name: &str) -> Option<f64> {
        let _ = name;
        None
    }
}

/// Active management of many FIFOs alike, with a small state for each: for a scheduler that has too many queues for a manager
/// each.
pub trait SharedLaw {
    /// What is remembered of one queue; at first its default.
    type State: Clone + core::fmt::Debug + Default;

    /// Whether it may hold a head back: [`leaves_at`](Self::leaves_at) is asked only then.
    const HOLDS: bool = false;

    /// Whether a new queue that was emptied goes behind the old ones even if there are none.
    const ALWAYS_BECOMES_OLD: bool = false;

    /// When the head of a queue may leave that its sender wants not to leave before `wanted`.
    fn leaves_at(&self, state: &Self::State, wanted: Option<Time>) -> Time {
        let _ = (state, wanted);
        Time::ZERO
    }

    /// The head of a queue may not leave before `until`: the queue is held.
    fn on_held(&mut self, state: &mut Self::State, until: Time) {
        let _ = (state, until);
    }

    /// What a queue may send in its first turn, which begins at `now` with `left_bytes` of an earlier one, of a scheduler whose turns
    /// are of `quantum_bytes`.
    fn first_turn_bytes(&self, state: &Self::State, left_bytes: i64, quantum_bytes: u32, now: Time) -> i64 {
        let _ = (state, left_bytes, now);
        i64::from(quantum_bytes)
    }

    /// A queue in which nothing waits has no turn any more, from `now` on.
    fn on_left(&mut self, state: &mut Self::State, now: Time) {
        let _ = (state, now);
    }

    /// `packet` arrives at a queue, which has room for it and in which `queue_bytes` wait. [`Verdict::Evict`] and
    /// [`Verdict::DropWith`] are not allowed here.
    fn on_arrival(
        &mut self,
        state: &mut Self::State,
        packet: &Packet,
        queue_bytes: u64,
        now: Time,
    ) -> Verdict {
        let _ = (state, packet, queue_bytes, now);
        Verdict::Accept
    }

    /// There was no room for a packet that came to this queue.
    fn on_refused(&mut self, state: &mut Self::State, now: Time) {
        let _ = (state, now);
    }

    /// `packet` is next to be sent from a queue; when it is gone, `left_bytes` wait. After a drop the next head is asked about at
    /// the same instant. [`Verdict::Evict`] is not allowed here.
    fn at_head(&mut self, state: &mut Self::State, packet: &Packet, left_bytes: u64, now: Time) -> Verdict;

    /// A queue was asked for its next packet, and nothing waits: from the beginning, or because of drops by the law.
    fn on_empty(&mut self, state: &mut Self::State, is_by_drop: bool) {
        let _ = (state, is_by_drop);
    }

    /// A queue lost so many packets to make room.
    fn on_overflow(&mut self, state: &mut Self::State, drops: u32) {
        let _ = (state, drops);
    }
}

/// What waits for one link and in which order it goes.
pub trait QueueDiscipline {
    /// `packet` joins or is refused; others may be evicted for it. The caller has set [`Packet::arrived`] to `now`.
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink)
    where
        Self: Sized;

    /// The next packet to send. It may drop packets on the way. `None` if nothing waits, or nothing may go yet.
    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet>
    where
        Self: Sized;

    /// When the next packet may go: `now` or later; `None` if nothing waits.
    fn ready_at(&self, now: Time) -> Option<Time> {
        if self.backlog().is_empty() { None } else { Some(now) }
    }

    /// Whether a world may ask for the next packet late, on behalf of the instant at which the link became free: true if
    /// [`dequeue`](Self::dequeue) and [`on_idle`](Self::on_idle) neither drop nor mark, and whatever waits may go at once.
    fn may_choose_late(&self) -> bool {
        false
    }

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// The link finished its last packet and nothing could be dequeued because nothing waits.
    fn on_idle(&mut self, now: Time) {
        let _ = now;
    }

    /// The link has a new rate.
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        let _ = (rate, now);
    }

    /// When [`on_timer`](Self::on_timer) wants to run.
    fn timer_at(&self) -> Option<Time> {
        None
    }

    /// The timer is due.
    fn on_timer(&mut self, now: Time, out: &mut impl Sink)
    where
        Self: Sized,
    {
        let _ = (now, out);
    }

    /// The link is gone: every packet that waits is dropped because of `why`, whether it may go yet or not. No law decides about any, so
    /// none is marked, and none is dropped because of anything else; what was never sent is charged to nobody. Where this is not
    /// given, what [`dequeue`](Self::dequeue) gives is dropped, and what it holds back stays.
    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink)
    where
        Self: Sized,
    {
        while let Some(packet) = self.dequeue(now, out) {
            out.on_drop(packet, why);
        }
    }

    /// Statistics that the discipline itself keeps begin anew.
    fn restart_statistics(&mut self) {}

    /// An inner variable by name, for `record`.
    fn variable(&self, name: &str) -> Option<f64> {
        let _ = name;
        None
    }
}
