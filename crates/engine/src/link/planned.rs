//! A port whose queue decides only about arrivals.
//!
//! When a packet joins, its transmission is planned: it starts when the one before it ends. The queue of the manager is
//! then a matter of bookkeeping: before the manager is asked anything at `now`, the departures, the idle moment and the
//! timers that have passed by then are told to it in order, each with its own instant. So the manager sees exactly the
//! calls it would see from a port that acts at every departure. Drop-tail, under which most links are, hears of nothing but arrivals, and has
//! a way of its own.

use tidegate_mechanism::queue::{DropTail, QueueManager, Verdict};
use tidegate_packet::{Backlog, DropReason, Ecn, Packet, Sink};
use tidegate_units::{BitRate, Time, TransmissionClock};

use super::tally::Tally;
use super::transits::Transit;
use super::wire::Wire;
use crate::counters::LinkCounters;
use crate::ids::LinkId;
use crate::observer::Observer;
use crate::world::{LinkSink, World};

/// Why a packet must be there.
const WAITS: &str = "the last packets of the wire are those that wait";

// In this order, so that what every packet touches comes first, of a small manager as well.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Planned<M> {
    /// What waits: the last `backlog.packets` of the wire's transits.
    backlog: Backlog,
    /// When the first waiting packet leaves the queue for transmission; meaningless if none waits.
    next_departure: Time,
    /// Bytes of the packet in transmission; meaningless while the link is free.
    serving_bytes: u32,
    /// The manager knows that the link is idle. Means nothing under drop-tail, which is told of nothing.
    idle: bool,
    manager: M,
}

impl<M: QueueManager> Planned<M> {
    pub(super) const fn new(manager: M) -> Self {
        Self { manager, backlog: Backlog::EMPTY, next_departure: Time::ZERO, serving_bytes: 0, idle: false }
    }

    pub(super) fn variable(&self, name: &str) -> Option<f64> {
        self.manager.variable(name)
    }

    /// Tells the manager what has happened by `now`.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(super) fn settle(&mut self, now: Time, wire: &Wire) {
        loop {
            let timer = self.manager.timer_at().unwrap_or(Time::MAX);
            if self.backlog.packets > 0 {
                if self.next_departure <= now && self.next_departure <= timer {
                    self.depart(wire);
                    continue;
                }
            } else if !self.idle && wire.busy_until <= now && wire.busy_until <= timer {
                self.idle = true;
                self.manager.on_idle(wire.busy_until);
                continue;
            }
            if timer > now {
                return;
            }
            self.manager.on_timer(timer);
            assert!(
                self.manager.timer_at().is_none_or(|next| next > timer),
                "a timer must move on when it fires, or the loop would not end"
            );
        }
    }

    /// Makes sure that the packet at the front of the wire, which is about to arrive, does not count as waiting.
    #[inline]
    pub(super) fn free_front(&mut self, now: Time, wire: &Wire) {
        if self.backlog.packets as usize >= wire.transits.len() {
            self.settle_apart(now, wire);
        }
    }

    #[inline(never)]
    fn settle_apart(&mut self, now: Time, wire: &Wire) {
        self.settle(now, wire);
    }

    fn depart(&mut self, wire: &Wire) {
        let first_waiting = wire.transits.len() - self.backlog.packets as usize;
        let leaving = wire.transits.get(first_waiting).expect(WAITS);
        self.serving_bytes = leaving.packet.wire_bytes;
        self.backlog.remove(&leaving.packet);
        self.manager.on_departure(&leaving.packet, self.backlog, self.next_departure);
        self.next_departure = leaving.ends;
    }

    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(super) fn offer<O: Observer>(
        &mut self,
        mut packet: Packet,
        route: u32,
        wire: &mut Wire,
        world: &mut World<O>,
        tally: &mut Tally,
        link: LinkId,
    ) {
        let now = packet.arrived;
        self.settle(now, wire);
        match self.manager.on_arrival(&mut packet, self.backlog, now) {
            Verdict::Accept => {}
            Verdict::Mark(why) => {
                packet.ecn = Ecn::Ce;
                LinkSink { world, tally, link }.on_mark(&packet, why);
            }
            Verdict::Drop(why) => {
                LinkSink { world, tally, link }.on_drop(packet, why);
                return;
            }
            Verdict::Evict { position, why } => {
                let victim = self.evict(position, now, wire, tally);
                LinkSink { world, tally, link }.on_drop(victim, why);
            }
            Verdict::DropWith { position, why } => {
                let victim = self.evict(position, now, wire, tally);
                LinkSink { world, tally, link }.on_drop(victim, why);
                LinkSink { world, tally, link }.on_drop(packet, why);
                return;
            }
        }
        let place = if wire.busy_until <= now {
            self.idle = false;
            self.manager.on_departure(&packet, Backlog::EMPTY, now);
            self.start(&packet, now, wire, tally)
        } else {
            self.wait(&packet, now, wire, tally)
        };
        (place.packet, place.route) = (packet, route);
    }

    /// `packet` was admitted to a link that is free: its place on the wire, with its end, for it and for where it stands.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    fn start<'w>(
        &mut self,
        packet: &Packet,
        now: Time,
        wire: &'w mut Wire,
        tally: &mut Tally,
    ) -> &'w mut Transit {
        if wire.busy_until < now {
            wire.clock.restart();
        }
        self.serving_bytes = packet.wire_bytes;
        let ends = now.saturating_add(wire.clock.transmit(packet.wire_bytes));
        wire.busy_until = ends;
        tally.on_planned(packet.wire_bytes, ends - now, ends - now);
        tally.on_alone(packet.wire_bytes);
        let place = wire.transits.push_place();
        place.ends = ends;
        place
    }

    /// The same of a link that is busy.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    fn wait<'w>(
        &mut self,
        packet: &Packet,
        now: Time,
        wire: &'w mut Wire,
        tally: &mut Tally,
    ) -> &'w mut Transit {
        let starts = wire.busy_until;
        if self.backlog.packets == 0 {
            self.next_departure = starts;
        }
        self.backlog.add(packet);
        // A backlog of centuries ends after every run.
        let ends = starts.saturating_add(wire.clock.transmit(packet.wire_bytes));
        wire.busy_until = ends;
        tally.on_planned(packet.wire_bytes, ends - now, ends - starts);
        tally.on_length(self.backlog.packets + 1, self.backlog.bytes + u64::from(self.serving_bytes));
        let place = wire.transits.push_place();
        place.ends = ends;
        place
    }

    /// Takes the waiting packet at `position` out and moves those behind it forward.
    #[cold]
    fn evict(&mut self, position: u32, now: Time, wire: &mut Wire, tally: &mut Tally) -> Packet {
        debug_assert!(position < self.backlog.packets);
        let first = wire.transits.len() - self.backlog.packets as usize;
        let index = first + position as usize;
        let victim = wire.transits.remove(index).expect(WAITS);
        retract(tally, &victim, now);
        self.backlog.remove(&victim.packet);
        self.manager.on_departure(&victim.packet, self.backlog, now);
        let before = if position == 0 { None } else { wire.transits.get(index - 1) };
        let start = before.map_or(self.next_departure, |transit| transit.ends);
        replan(wire, index, start, tally);
        victim.packet
    }

    pub(super) fn set_rate<O: Observer>(
        &mut self,
        now: Time,
        old: BitRate,
        wire: &mut Wire,
        sink: &mut LinkSink<'_, O>,
    ) {
        self.settle(now, wire);
        self.manager.set_link_rate(wire.clock.rate(), now);
        if wire.busy_until <= now {
            return;
        }
        // The packet in transmission is the one before the first waiting one, if it is still here; with a link delay of
        // zero it always is, for it leaves only when its last bit is sent.
        let first_waiting = wire.transits.len() - self.backlog.packets as usize;
        let serving = wire.transits.get_mut(first_waiting - 1).expect("a busy link serves a packet");
        let before = serving.ends;
        serving.ends = rescale(now, before, old, wire.clock.rate());
        let after = serving.ends;
        shift(sink.tally, &serving.packet, before, after);
        self.next_departure = after;
        replan(wire, first_waiting, after, sink.tally);
    }

    pub(super) fn flush<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        self.settle(now, wire);
        let first_waiting = wire.transits.len() - self.backlog.packets as usize;
        for (index, transit) in wire.transits.drain().enumerate() {
            if transit.ends > now {
                retract(sink.tally, &transit, now);
            }
            if index >= first_waiting {
                self.backlog.remove(&transit.packet);
                self.manager.on_departure(&transit.packet, self.backlog, now);
            }
            sink.on_drop(transit.packet, DropReason::LinkDown);
        }
        sink.tally.take_busy(wire.busy_until.since(now));
        wire.busy_until = wire.busy_until.min(now);
    }

    pub(super) fn length(&self, now: Time, wire: &Wire) -> (u32, u64) {
        if wire.busy_until <= now {
            return (0, 0);
        }
        (self.backlog.packets + 1, self.backlog.bytes + u64::from(self.serving_bytes))
    }

    /// Takes what happens after `now` out of the counters.
    pub(super) fn subtract_future(&mut self, now: Time, wire: &Wire, counters: &mut LinkCounters) {
        let mut future = Tally::default();
        self.add_future(now, wire, &mut future);
        let future = future.report();
        counters.busy_nanos -= future.busy_nanos;
        counters.packet_nanos -= future.packet_nanos;
        counters.byte_nanos -= future.byte_nanos;
    }

    /// Adds what is planned after `now`.
    pub(super) fn add_future(&mut self, now: Time, wire: &Wire, tally: &mut Tally) {
        self.settle(now, wire);
        tally.add_busy(wire.busy_until.since(now));
        // Travelling packets come first and end before `now`; the rest is the queue.
        for transit in wire.transits.iter().rev().take_while(|transit| transit.ends > now) {
            let remaining = u128::from(transit.ends.since(now).as_nanos());
            tally.add_queue(remaining, remaining * u128::from(transit.packet.wire_bytes));
        }
        let (packets, bytes) = self.length(now, wire);
        tally.on_length(packets, bytes);
    }
}

/// Under drop-tail, which looks at sizes, changes nothing and is told of nothing.
impl Planned<DropTail> {
    /// The same as [`Self::offer`]: whether it was admitted. The packet is copied once, to its place on the wire, and what is new of
    /// it (`amend`) is written there.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(super) fn offer_as_it_is(
        &mut self,
        packet: &Packet,
        amend: impl FnOnce(&mut Packet),
        route: u32,
        now: Time,
        wire: &mut Wire,
        tally: &mut Tally,
    ) -> bool {
        let place = if wire.busy_until <= now {
            // All have departed.
            self.backlog = Backlog::EMPTY;
            if !self.manager.admits(Backlog::EMPTY, packet) {
                return false;
            }
            self.start(packet, now, wire, tally)
        } else {
            self.settle_tail(now, wire);
            if !self.manager.admits(self.backlog, packet) {
                return false;
            }
            self.wait(packet, now, wire, tally)
        };
        place.packet = *packet;
        amend(&mut place.packet);
        place.route = route;
        true
    }

    /// The same as [`Self::settle`].
    #[inline]
    fn settle_tail(&mut self, now: Time, wire: &Wire) {
        while self.backlog.packets > 0 && self.next_departure <= now {
            self.depart(wire);
        }
    }

    /// The same as [`Self::free_front`].
    #[inline]
    pub(super) fn free_front_tail(&mut self, now: Time, wire: &Wire) {
        if self.backlog.packets as usize >= wire.transits.len() {
            self.settle_tail_apart(now, wire);
        }
    }

    #[inline(never)]
    fn settle_tail_apart(&mut self, now: Time, wire: &Wire) {
        self.settle_tail(now, wire);
    }
}

/// When a transmission that would have ended at `before` ends, if the rate changes from `old` to `new` at `now`.
pub(super) fn rescale(now: Time, before: Time, old: BitRate, new: BitRate) -> Time {
    let remaining = u128::from(before.since(now).as_nanos()) * u128::from(old.as_bps());
    let nanos = remaining.div_ceil(u128::from(new.as_bps()));
    now.saturating_add(tidegate_units::Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// Plans the transmissions from `index` on anew, beginning at `start`. The busy time follows the end of the last one, so
/// that it also covers what moved `start`.
fn replan(wire: &mut Wire, index: usize, start: Time, tally: &mut Tally) {
    // Remainders of nanoseconds start afresh: this is rare and the error is below a nanosecond each time.
    let mut clock = TransmissionClock::new(wire.clock.rate());
    let mut at = start;
    for position in index..wire.transits.len() {
        let transit = wire.transits.get_mut(position).expect(WAITS);
        let before = transit.ends;
        at = at.saturating_add(clock.transmit(transit.packet.wire_bytes));
        transit.ends = at;
        shift(tally, &transit.packet, before, at);
    }
    tally.add_busy(at.since(wire.busy_until));
    tally.take_busy(wire.busy_until.since(at));
    wire.busy_until = at;
    wire.clock = clock;
}

/// A planned end moved: the integrals follow.
fn shift(tally: &mut Tally, packet: &Packet, before: Time, after: Time) {
    let bytes = u128::from(packet.wire_bytes);
    let (more, less) =
        (u128::from(after.since(before).as_nanos()), u128::from(before.since(after).as_nanos()));
    tally.add_queue(more, more * bytes);
    tally.take_queue(less, less * bytes);
}

/// A planned transmission will not happen; the packet leaves the queue at `now`.
fn retract(tally: &mut Tally, transit: &Transit, now: Time) {
    let remaining = u128::from(transit.ends.since(now).as_nanos());
    tally.take_queue(remaining, remaining * u128::from(transit.packet.wire_bytes));
}
