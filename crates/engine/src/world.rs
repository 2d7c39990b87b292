//! What the parts of a simulation share: the event queue, the packets, the counters, the observer.

use tidegate_mechanism::hop::PortId;
use tidegate_packet::{Address, DropReason, FlowId, MarkReason, Packet, Place, Sink, TcpFlags, TcpHeader};
use tidegate_units::Time;

use crate::arena::{Arena, Carried, Departures, Messages, Reports, Stamps};
use crate::counters::{FlowCounters, RateIntegral, Totals};
use crate::event::{EventQueue, Token};
use crate::ids::LinkId;
use crate::link::Tally;
use crate::observer::Observer;
use crate::shared::SharedMedium;
use crate::waste::Trails;

/// Who is woken by an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Wake {
    /// A link: its next arrival at the far end, or its discipline's next decision. The first kind, so that its tokens are
    /// numbers of links.
    Link,
    /// A TCP sender's timer.
    TcpSender,
    /// A TCP receiver's delayed acknowledgment.
    TcpReceiver,
    /// The timers of the sending end of a stream.
    StreamSender,
    /// The feedback timer of its receiving end.
    StreamReceiver,
    /// A traffic source: start, next packet, change of state, stop.
    Source,
    /// An edge's feedback timers.
    Edge,
    /// An edge's shapers.
    Shaper,
    /// The next scripted change.
    Script,
    /// Behind a link, a packet that a reordering medium holds back, or one with jitter.
    Held,
    /// A link of a router with a hop mechanism; otherwise as [`Wake::Link`].
    HopLink,
    /// The timer of a hop mechanism.
    Hop,
    /// Routers learn what is congested.
    Follow,
    /// A crowd: its next arrival.
    Crowd,
    /// The next step of fluids.
    Fluid,
    /// A link that is cut, where it begins: the next packet whose last bit is sent.
    Cut,
    /// The next packet of a flow and direction that waits at its host.
    Pause,
}

const INDEX_BITS: u32 = 27;

impl Token {
    /// Where what it wakes stands among all that is woken at one instant, where that is by number. A link that is cut is the link that it was.
    pub(crate) const fn rank(self) -> u32 {
        if self.0 >> INDEX_BITS == Wake::Cut as u32 { Wake::index(self) } else { self.0 }
    }
}

impl Wake {
    const ALL: [Self; 17] = [
        Self::Link,
        Self::TcpSender,
        Self::TcpReceiver,
        Self::StreamSender,
        Self::StreamReceiver,
        Self::Source,
        Self::Edge,
        Self::Shaper,
        Self::Script,
        Self::Held,
        Self::HopLink,
        Self::Hop,
        Self::Follow,
        Self::Crowd,
        Self::Fluid,
        Self::Cut,
        Self::Pause,
    ];

    /// The token that wakes number `index` of this kind.
    #[inline]
    pub(crate) const fn token(self, index: u32) -> Token {
        debug_assert!(index < 1 << INDEX_BITS);
        Token((self as u32) << INDEX_BITS | index)
    }

    /// The number of the link that `token` wakes, if it wakes one without a hop mechanism.
    #[inline]
    pub(crate) const fn link(token: Token) -> Option<u32> {
        if token.0 >> INDEX_BITS == Self::Link as u32 { Some(token.0) } else { None }
    }

    /// The number of what `token` wakes.
    #[inline]
    pub(crate) const fn index(token: Token) -> u32 {
        token.0 & ((1 << INDEX_BITS) - 1)
    }

    /// The kind and number of `token`.
    #[inline]
    pub(crate) const fn of(token: Token) -> (Self, u32) {
        (Self::ALL[(token.0 >> INDEX_BITS) as usize], Self::index(token))
    }
}

/// A pending event of one owner, which has at most one that counts. Moving a deadline later costs nothing: the event
/// fires early and the owner arms again. Moving it earlier schedules a second event and makes the first one stale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    armed: Time,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { armed: Time::MAX }
    }
}

impl Alarm {
    /// One that is never armed.
    pub(crate) const NEVER: Self = Self { armed: Time::ZERO };

    /// Makes sure that an event wakes `token` no later than `deadline`. For owners whose alarm mostly pends already, such as
    /// the timers of connections.
    #[inline]
    pub(crate) fn arm(&mut self, deadline: Time, token: Token, events: &mut EventQueue) {
        if deadline < self.armed {
            self.schedule(deadline, token, events);
        }
    }

    /// The same, for owners that mostly have to schedule an event: links.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(crate) fn arm_often(&mut self, deadline: Time, token: Token, events: &mut EventQueue) {
        if deadline < self.armed {
            self.armed = deadline;
            events.schedule(deadline, token);
        }
    }

    /// Its event fires, and it is to be woken at `next`, if that is ever.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(crate) fn rearm(&mut self, next: Time, token: Token, events: &mut EventQueue) {
        self.armed = next;
        if next != Time::MAX {
            events.schedule(next, token);
        }
    }

    #[inline(never)]
    fn schedule(&mut self, deadline: Time, token: Token, events: &mut EventQueue) {
        self.armed = deadline;
        events.schedule(deadline, token);
    }

    /// Whether the event of this owner that fires at `now` is the one that counts.
    #[inline]
    pub(crate) fn is_due(self, now: Time) -> bool {
        self.armed == now
    }

    /// An event of this owner fired at `now`: whether it is the one that counts. It no longer pends then.
    #[inline]
    pub(crate) fn fires(&mut self, now: Time) -> bool {
        let counts = self.armed == now;
        if counts {
            self.armed = Time::MAX;
        }
        counts
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World<O> {
    pub(crate) now: Time,
    pub(crate) events: EventQueue,
    pub(crate) arena: Arena,
    pub(crate) messages: Messages,
    pub(crate) stamps: Stamps,
    /// What reports of media streams say that are too long for a header.
    pub(crate) reports: Reports,
    pub(crate) departures: Departures,
    /// Those of the links whose directions share one.
    pub(crate) media: Vec<SharedMedium>,
    /// By flow identity; see [`crate::ids::FlowIds`].
    pub(crate) flows: Vec<FlowCounters>,
    /// What queues may ask of the flows of the scenario, which have two identities each: the second one is the way back.
    pub(crate) ends: Vec<FlowEnds>,
    /// Identities from this one on are control messages.
    pub(crate) first_control: u32,
    pub(crate) totals: Totals,
    pub(crate) observer: O,
    /// By direction of a link: its rate, integrated.
    pub(crate) rates: Vec<RateIntegral>,
    /// By link: the hop mechanism that sees to it, and which of its ports this is. Empty if there is none at all.
    pub(crate) hop_ports: Vec<Option<(u32, PortId)>>,
    /// What queues of such links dropped since their mechanisms were last told.
    pub(crate) hop_drops: Vec<HopDrop>,
    /// What links carried in vain, if somebody wants to know.
    pub(crate) trails: Option<Box<Trails>>,
}

/// Between whom a flow goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowEnds {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    /// Its packets have headers of TCP as the simulator writes them.
    pub(crate) has_simulated_tcp: bool,
}

/// A packet that a link of a router with a hop mechanism dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopDrop {
    pub(crate) link: LinkId,
    pub(crate) packet: Packet,
    pub(crate) why: DropReason,
    /// Whether it had left the queue: its circuit lost it.
    pub(crate) had_left: bool,
}

impl<O: Observer> World<O> {
    /// Makes a packet of `flow`.
    #[inline]
    pub(crate) fn create(&mut self, flow: FlowId, wire_bytes: u32, carried: Carried) -> Packet {
        let counters = &mut self.flows[flow.0 as usize];
        counters.sent_packets += 1;
        counters.sent_bytes += u64::from(wire_bytes);
        self.totals.created += 1;
        Packet::new(self.arena.insert(carried), flow, wire_bytes)
    }

    /// A copy of `packet`, which a medium made.
    #[cold]
    pub(crate) fn duplicate(&mut self, packet: &Packet) -> Packet {
        let mut carried = *self.arena.get(packet);
        self.observer.on_duplicate(self.now, packet, &carried);
        if carried.message != Carried::NO_MESSAGE {
            carried.message = self.messages.duplicate(carried.message);
        }
        self.flows[packet.flow.0 as usize].duplicated_packets += 1;
        self.totals.created += 1;
        self.totals.duplicated += 1;
        let copy = Packet { slot: self.arena.insert(carried), ..*packet };
        self.stamps.copy(packet, &copy);
        self.reports.copy(packet, &copy, carried.tcp.sequence);
        copy
    }

    /// The acknowledgment that rides on `packet`, in a packet of its own.
    #[cold]
    pub(crate) fn split(&mut self, packet: &Packet) -> Packet {
        let mut carried = *self.arena.get(packet);
        self.observer.on_duplicate(self.now, packet, &carried);
        let wire_bytes = packet.wire_bytes.saturating_sub(carried.tcp.payload_bytes);
        carried.tcp.payload_bytes = 0;
        let echo = carried.tcp.flags.contains(TcpFlags::ECE);
        carried.tcp.flags = TcpFlags::ACK.with_if(echo, TcpFlags::ECE);
        let made = self.create(packet.flow, wire_bytes, carried);
        Packet { slot: made.slot, wire_bytes, ..*packet }
    }

    /// Where `packet` comes from and goes to; nothing for a control message.
    pub(crate) fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        let FlowEnds { source, destination, .. } = *self.ends.get(packet.flow.0 as usize / 2)?;
        Some(if packet.flow.0.is_multiple_of(2) { (source, destination) } else { (destination, source) })
    }

    /// The header of `packet` if it only acknowledges. Packets from outside have theirs in another form, which says too little.
    pub(crate) fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        let is_simulated = self.ends.get(packet.flow.0 as usize / 2)?.has_simulated_tcp;
        let tcp = &self.arena.get(packet).tcp;
        let opens_or_ends = tcp.flags.contains(TcpFlags::SYN) || tcp.flags.contains(TcpFlags::FIN);
        let acknowledges = tcp.flags.contains(TcpFlags::ACK) && tcp.payload_bytes == 0 && !opens_or_ends;
        (is_simulated && acknowledges).then_some(*tcp)
    }

    /// `packet` reached its destination; its slot may be used again.
    #[inline]
    pub(crate) fn retire(&mut self, packet: &Packet) {
        self.totals.delivered += 1;
        self.arena.release(packet);
    }

    /// `packet` is lost at `place`.
    pub(crate) fn drop_packet(&mut self, packet: &Packet, place: Place, why: DropReason) {
        self.observer.on_drop(self.now, place, packet, self.arena.get(packet), why);
        self.totals.dropped += 1;
        if let Some(trails) = &mut self.trails {
            trails.on_dropped(packet, self.arena.get(packet).created);
        }
        self.flows[packet.flow.0 as usize].lost_packets += 1;
        let message = self.arena.get(packet).message;
        if message != Carried::NO_MESSAGE {
            self.messages.release(message, None);
            self.totals.control_lost_packets += 1;
        }
        self.departures.forget(packet);
        self.arena.release(packet);
    }
}

/// A link's queue tells the world.
pub(crate) struct LinkSink<'a, O> {
    pub(crate) world: &'a mut World<O>,
    pub(crate) tally: &'a mut Tally,
    pub(crate) link: LinkId,
}

impl<O: Observer> Sink for LinkSink<'_, O> {
    // Apart: in line, what happens seldom costs each packet that is offered to a link some ten instructions.
    #[inline(never)]
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.tally.on_drop(why);
        if let Some(Some(_)) = self.world.hop_ports.get(self.link.0 as usize) {
            let drop = HopDrop { link: self.link, packet, why, had_left: false };
            self.world.hop_drops.push(drop);
        }
        self.world.drop_packet(&packet, Place::Link(self.link), why);
    }

    #[inline(never)]
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.tally.on_mark(why);
        self.world.flows[packet.flow.0 as usize].marked_packets += 1;
        let world = &mut *self.world;
        world.observer.on_mark(world.now, Place::Link(self.link), packet, world.arena.get(packet), why);
    }

    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        self.world.hosts(packet)
    }

    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        self.world.pure_ack(packet)
    }

    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        self.world.departures.of(packet, self.world.arena.get(packet).created)
    }
}
