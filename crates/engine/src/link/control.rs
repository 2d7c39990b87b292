//! What is done to a link and asked of it between packets: changes of the network, and measurements.

use tidegate_mechanism::Context;
use tidegate_mechanism::hop::switch::Switch;
use tidegate_mechanism::queue::DropTailConfig;
use tidegate_mechanism::random::Seed;
use tidegate_packet::Packet;
use tidegate_units::{BitRate, Span, Time, TransmissionClock};

use super::planned::Planned;
use super::scheduled::Scheduled;
use super::tally::Tally;
use super::transits::Transit;
use super::{Course, FluidPort, Link, Port, Watch, at_port};
use crate::counters::LinkCounters;
use crate::event::Token;
use crate::observer::Observer;
use crate::world::{Alarm, LinkSink, World};

impl Link {
    /// The circuit that the link is, if it is one.
    fn circuit_mut(&mut self) -> Option<&mut Switch> {
        self.port.scheduled_mut()?.circuit_mut()
    }

    /// From now on the circuit's switch carries so much besides.
    pub(crate) fn set_background<O>(&mut self, background: BitRate, world: &World<O>) {
        if let Some(circuit) = self.circuit_mut() {
            circuit.set_background(background, world.now);
        }
    }

    /// From now on the link itself has another rate: that of its port, and of the circuit's switch.
    pub(crate) fn set_capacity<O: Observer>(&mut self, rate: BitRate, world: &mut World<O>) {
        if let Some(circuit) = self.circuit_mut() {
            circuit.set_capacity(rate, world.now);
        }
        world.rates[self.id().0 as usize].change(rate, world.now);
        self.set_rate(rate, world);
    }

    /// From now on the link sends at `rate`; what is in transmission finishes at the new rate.
    pub(crate) fn set_rate<O: Observer>(&mut self, rate: BitRate, world: &mut World<O>) {
        let now = world.now;
        // What was sent until now was sent at the old rate.
        self.settle(world);
        let old = self.wire.clock.rate();
        self.wire.clock = TransmissionClock::new(rate);
        let mut sink = LinkSink { link: self.id(), world, tally: &mut self.tally };
        at_port!(&mut self.port, {
            Planned(port) => port.set_rate(now, old, &mut self.wire, &mut sink),
            Scheduled(port) => port.set_rate(now, old, &mut self.wire, &mut sink),
            Fluid(port) => port.set_rate(now, old, &mut self.wire),
        });
        self.arm(world);
    }

    /// From now on bits travel for `delay`, those that are on the way as well: what has travelled for longer arrives now. So packets do
    /// not overtake each other.
    pub(crate) fn set_delay<O>(&mut self, delay: Span, world: &mut World<O>) {
        self.wire.delay = delay;
        self.arm(world);
    }

    /// Whether the other direction uses the same medium.
    pub(crate) fn shares_its_medium(&self) -> bool {
        self.port.scheduled().is_some_and(Scheduled::shares_its_medium)
    }

    /// The medium that it shares may be free at another instant.
    pub(crate) fn ask_anew<O>(&mut self, world: &mut World<O>) {
        self.arm(world);
    }

    /// Takes the link down (everything on it and in its queue is lost) or up.
    pub(crate) fn set_up<O: Observer>(&mut self, up: bool, world: &mut World<O>) {
        if self.is_up() == up {
            return;
        }
        self.course = if up { self.course_when_up() } else { Course::Down };
        if up {
            return;
        }
        let now = world.now;
        if let Some(circuit) = self.circuit_mut() {
            circuit.clear(now);
        }
        let mut sink = LinkSink { link: self.id(), world, tally: &mut self.tally };
        at_port!(&mut self.port, {
            Planned(port) => port.flush(now, &mut self.wire, &mut sink),
            Scheduled(port) => port.flush(now, &mut self.wire, &mut sink),
            Fluid(port) => port.flush(now, &mut self.wire, &mut sink),
        });
    }

    /// Its port for packets and a fluid, if it has one, with what it counts.
    pub(crate) fn fluid_port(&mut self) -> Option<(&mut FluidPort, &mut Tally)> {
        if let Port::Fluid(port) = &mut self.port { Some((port, &mut self.tally)) } else { None }
    }

    /// What is measured of it, from now on.
    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        if self.is_up() {
            self.course = Course::Watched;
        }
        self.watch.get_or_insert_default()
    }

    /// What is measured of it.
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }

    /// How packets fare on it while it is up.
    pub(super) fn course_when_up(&self) -> Course {
        if self.medium.is_some() || self.watch.is_some() { Course::Watched } else { Course::Plain }
    }

    /// Whether the link carries packets.
    pub(crate) const fn is_up(&self) -> bool {
        !matches!(self.course, Course::Down)
    }

    /// The rate at which it sends.
    pub(crate) const fn rate(&self) -> BitRate {
        self.wire.clock.rate()
    }

    /// Packets and bytes in the queue at `now`, the packet in transmission included.
    pub(crate) fn length<O: Observer>(&mut self, world: &mut World<O>) -> (u32, u64) {
        let now = world.now;
        self.settle(world);
        at_port!(&self.port, {
            Planned(port) => port.length(now, &self.wire),
            Scheduled(port) => port.length(now),
            Fluid(port) => port.length(),
        })
    }

    /// What was due by now at the port happens, if it did not yet.
    fn settle<O: Observer>(&mut self, world: &mut World<O>) {
        let now = world.now;
        let mut sink = LinkSink { link: self.id(), world, tally: &mut self.tally };
        at_port!(&mut self.port, {
            Planned(port) => port.settle(now, &self.wire),
            Scheduled(port) => port.settle(now, &mut self.wire, &mut sink),
            Fluid(port) => port.settle(now, sink.tally),
        });
    }

    /// An inner variable of the queue.
    pub(crate) fn variable<O: Observer>(&mut self, name: &str, world: &mut World<O>) -> Option<f64> {
        self.settle(world);
        at_port!(&self.port, {
            Planned(port) => port.variable(name),
            Scheduled(port) => port.variable(name),
            Fluid(port) => port.variable(name),
        })
    }

    /// The counters as of now, without what planned transmissions will only do later.
    pub(crate) fn counters_now<O: Observer>(&mut self, world: &mut World<O>) -> LinkCounters {
        self.settle(world);
        let now = world.now;
        let mut counters = self.tally.report();
        at_port!(&mut self.port, {
            Planned(port) => port.subtract_future(now, &self.wire, &mut counters),
            Scheduled(_) => counters.busy_nanos -= self.wire.busy_until.since(now).as_nanos(),
            Fluid(_) => {}
        });
        counters
    }

    /// Statistics begin now: what remains counted is what planned transmissions will do later.
    pub(crate) fn restart_counters<O: Observer>(&mut self, world: &mut World<O>) {
        self.settle(world);
        let now = world.now;
        let mut future = Tally::default();
        at_port!(&mut self.port, {
            Planned(port) => port.add_future(now, &self.wire, &mut future),
            Scheduled(port) => port.restart(now, &self.wire, &mut future),
            Fluid(port) => {
                let (packets, bytes) = port.length();
                future.on_length(packets, bytes);
            }
        });
        self.tally = future;
        if let Some(watch) = &mut self.watch {
            if let Some(delays) = &mut watch.delays {
                delays.reset();
            }
            watch.bytes_by_flow.fill(0);
        }
    }

    /// From now on, while it is empty, this is the beginning of a link that is cut: what leaves the queue is at once at the end, to be
    /// taken off. Whether it is known without events what has left ([`Self::settle_before`]); if not, `token` tells of each packet.
    pub(crate) fn keep_the_queue(&mut self, token: Token) -> bool {
        self.token = token;
        self.wire.delay = Span::ZERO;
        let is_planned = !matches!(self.port, Port::Scheduled(_) | Port::Fluid(_));
        if is_planned {
            self.alarm = Alarm::NEVER;
        }
        is_planned
    }

    /// What is due before `end` at a port that plans happens.
    pub(crate) fn settle_before(&mut self, end: Time) {
        let now = end.saturating_sub(Span::from_nanos(1));
        at_port!(&mut self.port, {
            Planned(port) => port.settle(now, &self.wire),
            Scheduled(_) => {},
            Fluid(_) => {}
        });
    }

    /// From now on, while it is empty, this is the end of a link that is cut: packets come by [`Self::take_on`] alone.
    pub(crate) fn keep_the_way(&mut self) {
        let context = Context { seed: Seed(0), link_rate: self.rate(), mtu_bytes: 0 };
        self.port = Port::Tail(Planned::new(DropTailConfig::default().build(&context)));
    }

    /// When the last bit of the next packet is sent, as far as that is planned; [`Time::MAX`] if there is none.
    pub(crate) fn next_leaves(&self) -> Time {
        self.wire.transits.get(0).map_or(Time::MAX, |front| front.ends)
    }

    /// The next packet whose last bit has been sent before `end`, when that was, and where it stands in its program. What came is counted
    /// where the link ends.
    pub(crate) fn take_off(&mut self, end: Time) -> Option<(Packet, Time, u32)> {
        let &Transit { packet, ends, route } = self.wire.transits.get(0).filter(|front| front.ends < end)?;
        self.wire.transits.drop_first();
        Some((packet, ends, route))
    }

    /// A packet whose last bit was sent at `ends`, behind all that are on the way.
    pub(crate) fn take_on<O: Observer>(
        &mut self,
        packet: Packet,
        ends: Time,
        route: u32,
        world: &mut World<O>,
    ) {
        self.wire.transits.push_back(Transit { packet, ends, route });
        if self.wire.transits.len() == 1 {
            self.arm(world);
        }
    }

    /// Packets that the link holds: waiting, in transmission, travelling.
    pub(crate) fn held_packets(&self) -> usize {
        self.port.scheduled().map_or(0, Scheduled::held_packets) + self.wire.transits.len()
    }
}
