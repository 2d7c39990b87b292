//! A port whose queue decides at departure: schedulers, and managers that act on the head.
//!
//! The end of a transmission, when the queue chooses the next packet, is an event of its own only where somebody sees the
//! choice at once. Elsewhere the choice waits until it matters: before anything is done to the port at `now`, the ends of
//! transmissions that have passed by then are made up for in order, each with its own instant, so that the discipline sees
//! exactly the calls that it would see. The arrival of the packet in transmission at the far end is the next event then.

use std::collections::VecDeque;

use tidegate_mechanism::hop::switch::Switch;
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::schedule::AnyDiscipline;
use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_units::{BitRate, Span, Time};

use super::planned;
use super::ring::Ring;
use super::tally::Tally;
use super::trace::Opportunities;
use super::transits::Transit;
use super::wire::Wire;
use crate::observer::Observer;
use crate::shared::Share;
use crate::world::{LinkSink, World};

/// Messages between neighbours that may wait for one link. Beyond, the oldest goes: it is the most out of date.
const MESSAGES_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Scheduled {
    discipline: AnyDiscipline,
    /// Between the queue and the link, if there is a card. It takes packets when one joins the queue and when a transmission
    /// starts.
    ring: Option<Box<Ring>>,
    /// The end of each transmission is an event.
    prompt: bool,
    /// Messages between neighbours, which go first.
    messages: VecDeque<(Packet, u32)>,
    /// The packet in transmission.
    serving: Option<Transit>,
    /// The discipline knows that the link is idle.
    idle: bool,
    /// Its part in a medium that both directions share.
    share: Option<Share>,
    /// When it may send, if a trace says so.
    opportunities: Option<Box<Opportunities>>,
    /// The circuit that the link is, if it is one.
    circuit: Option<Box<Switch>>,
    /// Until when the integrals of queue length over time are complete.
    integrated_until: Time,
}

impl Scheduled {
    /// `watched`: somebody sees the choices of `discipline` when they are made.
    pub(super) fn new(
        discipline: AnyDiscipline,
        ring: Option<Box<Ring>>,
        share: Option<Share>,
        opportunities: Option<Box<Opportunities>>,
        circuit: Option<Box<Switch>>,
        watched: bool,
    ) -> Self {
        // A circuit decides when its packets arrive.
        let prompt = watched
            || circuit.is_some()
            || share.is_some()
            || opportunities.is_some()
            || !discipline.may_choose_late();
        Self {
            discipline,
            ring,
            prompt,
            messages: VecDeque::new(),
            serving: None,
            idle: false,
            share,
            opportunities,
            circuit,
            integrated_until: Time::ZERO,
        }
    }

    pub(super) fn circuit_mut(&mut self) -> Option<&mut Switch> {
        self.circuit.as_deref_mut()
    }

    /// An inner variable of the queue.
    pub(super) fn variable(&self, name: &str) -> Option<f64> {
        self.discipline.variable(name)
    }

    /// Whether the event that the link waits for stays what it is, whatever joins at `now`.
    #[inline]
    pub(super) fn is_armed(&self, now: Time, wire: &Wire) -> bool {
        if self.prompt {
            self.serving.is_some_and(|transit| transit.ends > now)
        } else {
            self.serving.is_some() || !wire.transits.is_empty()
        }
    }

    /// What waits in the queue and behind it.
    #[inline]
    fn waiting(&self) -> Backlog {
        let mut waiting = self.discipline.backlog();
        if let Some(ring) = &self.ring {
            let (packets, bytes) = ring.length();
            waiting = Backlog { packets: waiting.packets + packets, bytes: waiting.bytes + bytes };
        }
        waiting
    }

    pub(super) const fn shares_its_medium(&self) -> bool {
        self.share.is_some()
    }

    pub(super) fn held_packets(&self) -> usize {
        self.waiting().packets as usize + self.messages.len() + usize::from(self.serving.is_some())
    }

    /// A packet whose last bit is sent at `now` is gone, whether or not the event for it has been handled.
    pub(super) fn length(&self, now: Time) -> (u32, u64) {
        let mut backlog = self.waiting();
        if !self.messages.is_empty() {
            self.messages.iter().for_each(|(message, _)| backlog.add(message));
        }
        match self.serving.filter(|transit| transit.ends > now) {
            Some(transit) => (backlog.packets + 1, backlog.bytes + u64::from(transit.packet.wire_bytes)),
            None => (backlog.packets, backlog.bytes),
        }
    }

    /// When the port next has something to do: `arrival` is that of the first packet that travels, [`Time::MAX`] if none does.
    #[inline]
    pub(super) fn next_event<O>(&self, arrival: Time, wire: &Wire, world: &World<O>) -> Time {
        match (self.serving, self.prompt) {
            (Some(transit), false) if arrival == Time::MAX => transit.ends + wire.delay,
            (_, false) => arrival,
            (Some(transit), true) => arrival.min(transit.ends),
            (None, true) => arrival.min(self.next_attempt(world)),
        }
    }

    /// When a free link next tries to send. If something waits nevertheless, the discipline said when it may go, or the
    /// medium is busy.
    fn next_attempt<O>(&self, world: &World<O>) -> Time {
        let ready = self.ready_at(world.now).unwrap_or(Time::MAX);
        match self.share {
            Some(share) if ready <= world.now => {
                let asks_at = world.media[share.medium as usize].asks_at(usize::from(share.side));
                if asks_at == Time::MAX { ready } else { asks_at }
            }
            _ => match &self.opportunities {
                Some(opportunities) if ready < Time::MAX => opportunities.next_at(),
                _ => ready,
            },
        }
    }

    /// When something that waits may go.
    #[inline]
    fn ready_at(&self, now: Time) -> Option<Time> {
        let is_taken = self.ring.as_ref().is_some_and(|ring| ring.length().0 > 0);
        if self.messages.is_empty() && !is_taken { self.discipline.ready_at(now) } else { Some(now) }
    }

    /// Whether the medium, where both directions share one, lets a transmission start now.
    #[inline]
    fn medium_allows<O>(&self, now: Time, world: &mut World<O>) -> bool {
        let Some(share) = self.share else { return true };
        let (medium, side) = (&mut world.media[share.medium as usize], usize::from(share.side));
        if self.ready_at(now).is_some_and(|at| at <= now) {
            medium.may_start(side, now)
        } else {
            medium.withdraw(side);
            true
        }
    }

    /// Tells the other direction until when this one sends.
    #[inline]
    fn occupy_medium<O>(&self, ends: Time, world: &mut World<O>) {
        if let Some(share) = self.share {
            world.media[share.medium as usize].start(usize::from(share.side), ends);
        }
    }

    pub(super) fn offer<O: Observer>(
        &mut self,
        packet: Packet,
        route: u32,
        wire: &mut Wire,
        sink: &mut LinkSink<'_, O>,
    ) {
        let now = packet.arrived;
        sink.world.arena.get_mut(&packet).route = route;
        self.settle(now, wire, sink);
        self.tell_idle(now, wire);
        self.discipline.enqueue(packet, now, sink);
        if self.serving.is_none() {
            self.start_transmission(now, wire, sink);
        } else {
            self.fill_ring(now, sink);
        }
        let (packets, bytes) = self.length(now);
        sink.tally.on_length(packets, bytes);
    }

    /// `packet` goes ahead of the queue.
    pub(super) fn offer_message<O: Observer>(
        &mut self,
        packet: Packet,
        route: u32,
        wire: &mut Wire,
        sink: &mut LinkSink<'_, O>,
    ) {
        let now = packet.arrived;
        // Until now it did not wait.
        self.bring_up_to(now, sink.tally);
        if self.messages.len() >= MESSAGES_MAX
            && let Some((oldest, _)) = self.messages.pop_front()
        {
            sink.on_drop(oldest, DropReason::Overflow);
        }
        self.messages.push_back((packet, route));
        self.on_wake(now, wire, sink);
        let (packets, bytes) = self.length(now);
        sink.tally.on_length(packets, bytes);
    }

    /// The packet in transmission and when it ends.
    pub(super) fn serving(&self) -> Option<(Packet, Time)> {
        self.serving.map(|transit| (transit.packet, transit.ends))
    }

    pub(super) fn on_wake<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        self.settle(now, wire, sink);
        if self.prompt && self.serving.is_none() {
            self.start_transmission(now, wire, sink);
        }
    }

    /// What was due by `now` happens: timers, and the ends of transmissions, each at its own instant.
    #[inline]
    pub(super) fn settle<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        if self.opportunities.is_some() {
            self.bring_up_to(now, sink.tally);
            // What happens at the same instant comes first: an opportunity serves nothing that arrives with it.
            self.use_opportunities(now, wire, sink);
            self.run_timers(now, sink);
            return;
        }
        while let Some(transit) = self.serving.filter(|transit| transit.ends <= now) {
            let ended = transit.ends;
            self.bring_up_to(ended, sink.tally);
            // A timer of the same instant sees the queue without the packet that leaves it then, as at a planned port.
            self.run_timers(ended.saturating_sub(Span::from_nanos(1)), sink);
            self.serving = None;
            self.travel(transit, wire, sink);
            self.start_transmission(ended, wire, sink);
        }
        self.bring_up_to(now, sink.tally);
        self.run_timers(now, sink);
    }

    #[inline]
    fn run_timers<O: Observer>(&mut self, now: Time, sink: &mut LinkSink<'_, O>) {
        if self.discipline.timer_at().is_some_and(|timer| timer <= now) {
            self.run_due_timers(now, sink);
        }
    }

    #[cold]
    fn run_due_timers<O: Observer>(&mut self, now: Time, sink: &mut LinkSink<'_, O>) {
        while let Some(timer) = self.discipline.timer_at().filter(|&timer| timer <= now) {
            self.discipline.on_timer(timer, sink);
            assert!(
                self.discipline.timer_at().is_none_or(|next| next > timer),
                "a timer must move on when it fires"
            );
        }
    }

    /// The next packet to send.
    fn take_next<O: Observer>(&mut self, now: Time, sink: &mut LinkSink<'_, O>) -> Option<(Packet, u32)> {
        if let Some(message) = self.messages.pop_front() {
            return Some(message);
        }
        if self.ring.is_some() {
            self.fill_ring(now, sink);
            return self.ring.as_mut()?.pop(now);
        }
        let packet = self.discipline.dequeue(now, sink)?;
        Some((packet, sink.world.arena.get(&packet).route))
    }

    /// The card takes what it has room for.
    #[inline]
    fn fill_ring<O: Observer>(&mut self, now: Time, sink: &mut LinkSink<'_, O>) {
        let Some(ring) = &mut self.ring else { return };
        while ring.has_room()
            && let Some(packet) = self.discipline.dequeue(now, sink)
        {
            ring.push(packet, sink.world.arena.get(&packet).route);
        }
    }

    /// Sends what the trace has allowed until `now`.
    fn use_opportunities<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        let Some(mut opportunities) = self.opportunities.take() else { return };
        loop {
            if self.serving.is_none() && self.messages.is_empty() && self.waiting().is_empty() {
                opportunities.skip(now);
                self.tell_idle(now, wire);
                break;
            }
            if !opportunities.is_open() && !opportunities.open(now) {
                break;
            }
            let at = opportunities.at();
            // As with ends of transmissions: a timer that was due before sees what was there then, whoever looks in between.
            self.run_timers(at.saturating_sub(Span::from_nanos(1)), sink);
            let begun = self.serving.take().map(|transit| (transit.packet, transit.route)).or_else(|| {
                let next = self.take_next(at, sink)?;
                opportunities.begin(next.0.wire_bytes);
                Some(next)
            });
            let Some((packet, route)) = begun else {
                // What waits may not go yet.
                opportunities.close();
                continue;
            };
            self.idle = false;
            self.fill_ring(at, sink);
            sink.tally.add_busy(opportunities.carry());
            let transit = Transit { packet, ends: opportunities.ends(), route };
            if opportunities.is_carried() {
                wire.busy_until = at;
                self.travel(transit, wire, sink);
            } else {
                self.serving = Some(transit);
            }
        }
        self.opportunities = Some(opportunities);
    }

    fn start_transmission<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        if self.opportunities.is_some() || !self.medium_allows(now, sink.world) {
            return;
        }
        let Some((packet, route)) = self.take_next(now, sink) else {
            if let Some(share) = self.share {
                sink.world.media[share.medium as usize].withdraw(usize::from(share.side));
            }
            self.tell_idle(now, wire);
            return;
        };
        if wire.busy_until < now {
            wire.clock.restart();
        }
        let bytes = if self.circuit.is_some() {
            Switch::wire_bytes(&packet, sink.world.arena.get(&packet).is_message())
        } else {
            packet.wire_bytes
        };
        let transmission = wire.clock.transmit(bytes);
        wire.busy_until = now + transmission;
        self.occupy_medium(wire.busy_until, sink.world);
        self.idle = false;
        sink.tally.add_busy(transmission);
        self.serving = Some(Transit { packet, ends: wire.busy_until, route });
        self.fill_ring(now, sink);
    }

    fn tell_idle(&mut self, now: Time, wire: &Wire) {
        if !self.idle && self.serving.is_none() && self.waiting().is_empty() {
            self.idle = true;
            self.discipline.on_idle(wire.busy_until.min(now));
        }
    }

    pub(super) fn set_rate<O: Observer>(
        &mut self,
        now: Time,
        old: BitRate,
        wire: &mut Wire,
        sink: &mut LinkSink<'_, O>,
    ) {
        self.discipline.set_link_rate(wire.clock.rate(), now);
        // A trace says itself when packets go.
        if let (Some(transit), None) = (&mut self.serving, &self.opportunities) {
            let before = transit.ends;
            transit.ends = planned::rescale(now, before, old, wire.clock.rate());
            wire.busy_until = transit.ends;
            if let Some(share) = self.share {
                sink.world.media[share.medium as usize].move_end(usize::from(share.side), transit.ends);
            }
            sink.tally.add_busy(transit.ends.since(before));
            sink.tally.take_busy(before.since(transit.ends));
        }
    }

    pub(super) fn flush<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        self.settle(now, wire, sink);
        sink.tally.take_busy(wire.busy_until.since(now));
        for transit in wire.transits.drain().chain(self.serving.take()) {
            sink.on_drop(transit.packet, DropReason::LinkDown);
        }
        if let Some(ring) = &mut self.ring {
            for (packet, _) in ring.drain() {
                sink.on_drop(packet, DropReason::LinkDown);
            }
        }
        self.discipline.purge(now, DropReason::LinkDown, sink);
        for (message, _) in self.messages.drain(..) {
            sink.on_drop(message, DropReason::LinkDown);
        }
        if let Some(opportunities) = &mut self.opportunities {
            opportunities.close();
        }
        wire.busy_until = wire.busy_until.min(now);
        self.tell_idle(now, wire);
        if let Some(share) = self.share {
            let (medium, side) = (&mut sink.world.media[share.medium as usize], usize::from(share.side));
            medium.withdraw(side);
            medium.move_end(side, now);
        }
    }

    /// The last bit of `transit` is sent: it travels, on a circuit if its switch lets it pass.
    fn travel<O: Observer>(&mut self, mut transit: Transit, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        if let Some(circuit) = &mut self.circuit {
            let carried = sink.world.arena.get(&transit.packet);
            let (message, is_message) = (carried.message, carried.is_message());
            let took = wire.clock.rate().span_of(u64::from(Switch::wire_bytes(&transit.packet, is_message)));
            match circuit.pass(&transit.packet, is_message, transit.ends.saturating_sub(took), transit.ends) {
                Ok(out) => transit.ends = out,
                Err(why) => {
                    sink.on_drop(transit.packet, why);
                    if let Some(drop) = sink.world.hop_drops.last_mut() {
                        drop.had_left = true;
                    }
                    return;
                }
            }
            if is_message {
                circuit.stamp(sink.world.messages.bytes_mut(message));
            }
        }
        wire.transits.push_back(transit);
    }

    /// Completes the integrals up to `now`.
    fn bring_up_to(&mut self, now: Time, tally: &mut Tally) {
        let elapsed = u128::from(now.since(self.integrated_until).as_nanos());
        let (packets, bytes) = self.length(self.integrated_until);
        tally.add_queue(elapsed * u128::from(packets), elapsed * u128::from(bytes));
        self.integrated_until = now;
    }

    /// Statistics begin at `now`.
    pub(super) fn restart(&mut self, now: Time, wire: &Wire, future: &mut Tally) {
        self.integrated_until = now;
        self.discipline.restart_statistics();
        if let Some(opportunities) = &mut self.opportunities {
            opportunities.restart(now);
        }
        future.add_busy(wire.busy_until.since(now));
        let (packets, bytes) = self.length(now);
        future.on_length(packets, bytes);
    }
}
