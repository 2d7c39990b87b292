//! One direction of a link: a queue, a transmitter, and the packets under way.
//!
//! Two kinds of port do the same thing at different cost. Where the queue decides only about arrivals ([`planned`]), the
//! instant at which a packet leaves follows from the instant at which it joined. Where the queue decides at departure
//! ([`scheduled`]), the port keeps the packet in transmission and asks for the next one. Either way one event per packet,
//! its arrival at the far end, is enough, unless somebody must see each departure when it happens; and a link has one
//! pending event, not one per packet.

mod control;
mod crossing;
mod fluid;
mod impairment;
mod planned;
mod ring;
mod scheduled;
mod spec;
mod tally;
mod trace;
mod transits;
mod watch;
mod wire;

pub(crate) use fluid::FluidPort;
pub use impairment::{JitterModel, LossModel, Medium, ReorderModel};
pub use spec::DirectionSpec;
pub use tidegate_mechanism::hop::switch::SwitchConfig as CircuitSpec;
pub use trace::{LinkTrace, OPPORTUNITY_BYTES};

use std::mem::offset_of;

use tidegate_mechanism::Context;
use tidegate_mechanism::hop::switch::Switch;
use tidegate_mechanism::queue::{AnyManager, DropTail, QueueManager, Red, Sfb};
use tidegate_mechanism::schedule::{AnyDiscipline, DisciplineConfig};
use tidegate_packet::{DropReason, Packet, Place, Sink};
use tidegate_units::{Bytes, Limit, Span, Time, TransmissionClock};

use crate::event::Token;
use crate::ids::LinkId;
use crate::observer::Observer;
use crate::shared::Share;
use crate::world::{Alarm, LinkSink, Wake, World};
use planned::Planned;
use ring::Ring;
use scheduled::Scheduled;
pub(crate) use tally::Tally;
use trace::Opportunities;
use transits::{Transit, Transits};
pub(crate) use watch::Watch;
use wire::Wire;

/// Which kind of port a link gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PortChoice {
    /// A planned one where the queue allows it.
    Cheapest,
    /// A scheduled one always.
    Scheduled,
    /// A scheduled one that shares its medium with the other direction.
    Shared(Share),
    /// The same, for a link that leaves a router with a hop mechanism, which is told of each departure when it happens.
    Hop(Option<Share>),
    /// One for packets and a fluid, whose packets are so large.
    Fluid(Bytes),
}

// With a tag of its own: one hidden in a manager would have to be decoded for every packet.
#[derive(Debug)]
#[repr(u8)]
enum Port {
    /// Under drop-tail, as most links are: compiled for it.
    Tail(Planned<DropTail>),
    /// Under the managers that are met most, compiled for them.
    Red(Box<Planned<Red>>),
    Sfb(Box<Planned<Sfb>>),
    /// Under any other manager.
    Planned(Box<Planned<AnyManager>>),
    Scheduled(Box<Scheduled>),
    /// Where a fluid flows, too.
    Fluid(Box<FluidPort>),
}

impl Port {
    /// A planned one under `manager`.
    fn planned(manager: AnyManager) -> Self {
        match manager {
            AnyManager::DropTail(manager) => Self::Tail(Planned::new(manager)),
            AnyManager::Red(manager) => Self::Red(Box::new(Planned::new(*manager))),
            AnyManager::Sfb(manager) => Self::Sfb(Box::new(Planned::new(*manager))),
            manager => Self::Planned(Box::new(Planned::new(manager))),
        }
    }

    const fn scheduled(&self) -> Option<&Scheduled> {
        if let Self::Scheduled(port) = self { Some(port) } else { None }
    }

    const fn scheduled_mut(&mut self) -> Option<&mut Scheduled> {
        if let Self::Scheduled(port) = self { Some(port) } else { None }
    }
}

/// A match on a port where planned ones do the same, whatever their manager.
macro_rules! at_port {
    ($port:expr, { Planned($p:ident) => $planned:expr, Scheduled($s:pat) => $scheduled:expr, Fluid($f:pat) => $fluid:expr $(,)? }) => {
        match $port {
            Port::Tail($p) => $planned,
            Port::Red($p) => $planned,
            Port::Sfb($p) => $planned,
            Port::Planned($p) => $planned,
            Port::Scheduled($s) => $scheduled,
            Port::Fluid($f) => $fluid,
        }
    };
}

use at_port;

/// How packets fare on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    /// They are lost: it is down.
    Down,
    /// They arrive, and nothing else happens to them.
    Plain,
    /// They cross a medium that may lose, reorder, duplicate or delay them, or somebody wants to know of them.
    Watched,
}

/// `packet` with what differs as `amend` says.
#[inline]
fn amended(packet: &Packet, amend: impl Fn(&mut Packet)) -> Packet {
    let mut amended = *packet;
    amend(&mut amended);
    amended
}

/// See the module.
// In this order and from a cache line on, what every packet touches is together: links are many, and visited in turn.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Link {
    pub(crate) tally: Tally,
    wire: Wire,
    alarm: Alarm,
    /// What its event wakes.
    token: Token,
    /// Number of this link among the ports of the node at its far end.
    pub(crate) far_port: u16,
    /// It leads to a router.
    pub(crate) to_router: bool,
    course: Course,
    port: Port,
    pub(crate) to_node: u32,
    medium: Option<Box<Medium>>,
    /// What is measured only where it is wanted.
    watch: Option<Box<Watch>>,
}

// What a packet touches under drop-tail is four lines: of the port all but the limit as it was configured.
const _: () = assert!(offset_of!(Link, port) + size_of::<Port>() - size_of::<Limit>() <= 4 * 64);

/// Where a link leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FarEnd {
    pub(crate) node: u32,
    /// Number of the link among the ports of that node.
    pub(crate) port: u16,
    pub(crate) is_router: bool,
}

/// What [`Link::take_arrived`] hands on to the next node.
#[derive(Clone, Copy)]
pub(crate) enum Arrival {
    /// This packet, to go on at this place of its route.
    Now(Packet, u32),
    /// This packet, after this long: a reordering medium held it back, or one with jitter. After no time at all it comes behind
    /// those that wait until now.
    Later(Packet, u32, Span),
    /// This packet and a copy of it, each after so long; `None`: now.
    Twice(Packet, u32, [Option<Span>; 2]),
    /// Nothing.
    None,
}

impl Link {
    pub(crate) fn new(
        id: LinkId,
        far: FarEnd,
        spec: &DirectionSpec,
        context: &Context,
        medium: Option<Medium>,
        choice: PortChoice,
    ) -> Self {
        let (delay, circuit) = (spec.delay, spec.circuit);
        let wake = if matches!(choice, PortChoice::Hop(_)) { Wake::HopLink } else { Wake::Link };
        let fluid = match (&spec.queue, choice) {
            (DisciplineConfig::Fifo(manager), PortChoice::Fluid(packet)) => {
                FluidPort::new(manager, packet, context)
            }
            _ => None,
        };
        let port = match spec.queue.build(context) {
            _ if let Some(fluid) = fluid => Port::Fluid(Box::new(fluid)),
            AnyDiscipline::Fifo(fifo)
                if choice == PortChoice::Cheapest
                    && circuit.is_none()
                    && spec.trace.is_none()
                    && spec.device.is_none()
                    && !fifo.manager().decides_at_head() =>
            {
                Port::planned(fifo.into_manager())
            }
            discipline => {
                let share = match choice {
                    PortChoice::Shared(share) => Some(share),
                    PortChoice::Hop(share) => share,
                    _ => None,
                };
                // A hop mechanism is told of each departure.
                let watched = matches!(choice, PortChoice::Hop(_));
                let circuit = circuit.map(|circuit| Box::new(Switch::new(circuit, context.link_rate)));
                let opportunities = spec.trace.clone().map(|trace| Box::new(Opportunities::new(trace)));
                let ring = spec.device.map(|device| Box::new(Ring::new(device)));
                let port = Scheduled::new(discipline, ring, share, opportunities, circuit, watched);
                Port::Scheduled(Box::new(port))
            }
        };
        Self {
            wire: Wire {
                clock: TransmissionClock::new(context.link_rate),
                delay,
                busy_until: Time::ZERO,
                transits: Transits::default(),
            },
            port,
            alarm: Alarm::default(),
            token: wake.token(id.0),
            far_port: far.port,
            to_node: far.node,
            to_router: far.is_router,
            course: if medium.is_some() { Course::Watched } else { Course::Plain },
            tally: Tally::default(),
            medium: medium.map(Box::new),
            watch: None,
        }
    }

    #[inline]
    const fn id(&self) -> LinkId {
        LinkId(Wake::index(self.token))
    }

    /// A packet is offered to the link.
    #[inline(never)]
    pub(crate) fn offer<O: Observer>(&mut self, packet: &Packet, route: u32, world: &mut World<O>) {
        self.offer_often(packet, |_| {}, route, world);
    }

    /// The same of a packet that differs from `packet` as `amend` says, compiled into its caller.
    #[expect(
        clippy::inline_always,
        reason = "once per packet and hop; the call cost a tenth of the run time"
    )]
    #[inline(always)]
    pub(crate) fn offer_often<O: Observer>(
        &mut self,
        packet: &Packet,
        amend: impl Fn(&mut Packet),
        route: u32,
        world: &mut World<O>,
    ) {
        if self.is_up() {
            self.offer_up(packet, amend, route, world);
        } else {
            self.refuse(&amended(packet, amend), world, DropReason::LinkDown);
        }
    }

    /// The same of a link that is not down.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    fn offer_up<O: Observer>(
        &mut self,
        packet: &Packet,
        amend: impl Fn(&mut Packet),
        route: u32,
        world: &mut World<O>,
    ) {
        self.tally.on_arrived(packet.wire_bytes);
        let now = world.now;
        let amend = |offered: &mut Packet| {
            amend(offered);
            offered.arrived = now;
        };
        if let Port::Tail(port) = &mut self.port {
            if !port.offer_as_it_is(packet, amend, route, now, &mut self.wire, &mut self.tally) {
                self.overflow(amended(packet, amend), world);
                return;
            }
        } else if self.offer_elsewhere(amended(packet, amend), route, world) {
            return;
        }
        // Only a first packet brings the next arrival forward. (Making room for a packet behind others does not.)
        if self.wire.transits.len() == 1 {
            self.arm(world);
        }
    }

    /// The same at a port that is not under drop-tail; whether the link is armed as it should be.
    #[inline(never)]
    fn offer_elsewhere<O: Observer>(&mut self, packet: Packet, route: u32, world: &mut World<O>) -> bool {
        let id = self.id();
        at_port!(&mut self.port, {
            Planned(port) => port.offer(packet, route, &mut self.wire, world, &mut self.tally, id),
            Scheduled(port) => {
                let mut sink = LinkSink { link: id, world, tally: &mut self.tally };
                let was_armed = port.is_armed(packet.arrived, &self.wire);
                port.offer(packet, route, &mut self.wire, &mut sink);
                if !was_armed {
                    self.arm(world);
                }
                return true;
            },
            Fluid(port) => {
                let mut sink = LinkSink { link: id, world, tally: &mut self.tally };
                port.offer(packet, route, &mut self.wire, &mut sink);
            }
        });
        false
    }

    /// Drop-tail has no room for `packet`.
    #[cold]
    #[inline(never)]
    fn overflow<O: Observer>(&mut self, packet: Packet, world: &mut World<O>) {
        let link = self.id();
        LinkSink { world, tally: &mut self.tally, link }.on_drop(packet, DropReason::Overflow);
    }

    /// A message between neighbours: it goes ahead of the queue, after the packet in transmission.
    pub(crate) fn offer_message<O: Observer>(
        &mut self,
        mut packet: Packet,
        route: u32,
        world: &mut World<O>,
    ) {
        self.tally.on_arrived(packet.wire_bytes);
        if !self.is_up() {
            self.lose(&packet, world, DropReason::LinkDown);
            return;
        }
        packet.arrived = world.now;
        let mut sink = LinkSink { link: self.id(), world, tally: &mut self.tally };
        let port = self.port.scheduled_mut().expect("links of routers with a hop mechanism are scheduled");
        port.offer_message(packet, route, &mut self.wire, &mut sink);
        self.arm(world);
    }

    /// A hop mechanism discards `packet` in front of the queue.
    pub(crate) fn refuse<O: Observer>(&mut self, packet: &Packet, world: &mut World<O>, why: DropReason) {
        self.tally.on_arrived(packet.wire_bytes);
        self.lose(packet, world, why);
    }

    /// The packet in transmission and when it ends, at a scheduled port.
    pub(crate) fn serving(&self) -> Option<(Packet, Time)> {
        self.port.scheduled()?.serving()
    }

    #[cold]
    fn lose<O: Observer>(&mut self, packet: &Packet, world: &mut World<O>, why: DropReason) {
        self.tally.on_drop(why);
        world.drop_packet(packet, Place::Link(self.id()), why);
    }

    #[inline]
    fn arm<O>(&mut self, world: &mut World<O>) {
        self.arm_behind(0, world);
    }

    /// Arms for what comes after the first `gone` packets on the wire.
    #[expect(
        clippy::inline_always,
        reason = "where it is not under drop-tail it runs twice per packet and hop; the call was 5 to 9 % of the run time"
    )]
    #[inline(always)]
    fn arm_behind<O>(&mut self, gone: usize, world: &mut World<O>) {
        let arrival = self.wire.arrival(gone);
        let next = match self.port.scheduled() {
            None => arrival,
            Some(port) => port.next_event(arrival, &self.wire, world),
        };
        // A shortened delay can make an arrival overdue.
        self.alarm.arm_often(next.max(world.now), self.token, &mut world.events);
    }

    /// The link's event fired: whether the packet at the front of the wire has arrived at the far end. It is still there
    /// then, and to be taken at once: by [`Self::forward`] or [`Self::take_arrived`].
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(crate) fn on_wake<O: Observer>(&mut self, world: &mut World<O>) -> bool {
        let now = world.now;
        if !self.alarm.is_due(now) {
            return false;
        }
        let Port::Tail(port) = &mut self.port else { return self.wake_elsewhere(world) };
        port.free_front_tail(now, &self.wire);
        let arrival = self.wire.arrival(0);
        let has_arrived = arrival <= now;
        let next = if has_arrived { self.wire.second_arrival() } else { arrival };
        // A shortened delay can make an arrival overdue.
        self.alarm.rearm(next.max(now), self.token, &mut world.events);
        has_arrived
    }

    /// The same at a port that is not under drop-tail.
    #[inline(never)]
    fn wake_elsewhere<O: Observer>(&mut self, world: &mut World<O>) -> bool {
        let now = world.now;
        self.alarm = Alarm::default();
        let mut sink = LinkSink { link: self.id(), world, tally: &mut self.tally };
        at_port!(&mut self.port, {
            Planned(port) => port.free_front(now, &self.wire),
            Scheduled(port) => port.on_wake(now, &mut self.wire, &mut sink),
            Fluid(_) => {}
        });
        let has_arrived = self.wire.arrival(0) <= now;
        self.arm_behind(usize::from(has_arrived), world);
        has_arrived
    }

    /// Where the packet that has arrived stands in its program, if nothing happens to packets on this link but that they
    /// arrive.
    #[inline]
    pub(crate) fn plain_arrival(&self) -> Option<u32> {
        (self.course == Course::Plain).then(|| self.wire.transits.first().route)
    }

    /// The packet that arrives next, if it is a plain one, and at which place of its route it will be.
    pub(crate) fn plain_front(&self) -> Option<(u32, &Packet)> {
        let front = self.wire.transits.first();
        (self.course == Course::Plain && !self.wire.transits.is_empty())
            .then_some((front.route, &front.packet))
    }

    /// A word of it, and where that is.
    pub(crate) const fn word(&self) -> &u32 {
        &self.token.0
    }
    pub(crate) const WORD_AT: usize = offset_of!(Self, token);

    /// The packet that has arrived, a plain one, goes on over `next`. Not if its TTL or `next` does not allow it, or if it
    /// is a control message: then nothing happens.
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(crate) fn forward<O: Observer>(&mut self, next: &mut Self, world: &mut World<O>) -> bool {
        let &Transit { ref packet, route, ends } = self.wire.transits.first();
        let ttl = packet.ttl - u8::from(self.to_router);
        if ttl == 0 || !next.is_up() || packet.flow.0 >= world.first_control {
            return false;
        }
        self.tally.on_transmitted(ends - packet.arrived);
        self.tally.on_delivered(packet.wire_bytes);
        world.totals.packet_hops += 1;
        let in_port = self.far_port;
        next.offer_up(packet, |next| (next.in_port, next.ttl) = (in_port, ttl), route + 1, world);
        self.wire.transits.drop_first();
        true
    }

    /// Takes the packet at the front, a plain one, for the host that it was for, which does not ask by which port it came.
    #[expect(clippy::inline_always, reason = "once per packet")]
    #[inline(always)]
    pub(crate) fn take_plain<O>(&mut self, world: &mut World<O>) -> Packet {
        let &Transit { packet, ends, .. } = self.wire.transits.first();
        self.tally.on_transmitted(ends - packet.arrived);
        self.tally.on_delivered(packet.wire_bytes);
        world.totals.packet_hops += 1;
        self.wire.transits.drop_first();
        packet
    }

    #[inline]
    fn count_delivered<O>(&mut self, packet: Packet, world: &mut World<O>) -> Packet {
        self.tally.on_delivered(packet.wire_bytes);
        world.totals.packet_hops += 1;
        Packet { in_port: self.far_port, ..packet }
    }
}
