//! The borders of domains: where an edge mechanism stands, and what it may ask of the simulation.

use std::collections::HashMap;
use std::num::NonZeroU32;

use tidegate_mechanism::edge::{self, PacketStore, PeerId, SegmentEditor};
use tidegate_mechanism::meter::CsfqLabeller;
use tidegate_mechanism::random::Substream;
use tidegate_packet::{Address, DropReason, Headers, MarkReason, Packet, Place, Protocol, Sink, TcpHeader};
use tidegate_units::{Span, Time};

use crate::arena::Carried;
use crate::liar::Liar;
use crate::network::{ClockSpec, ClockStep};
use crate::observer::Observer;
use crate::outside::{AnySegment, OutsideSegment};
use crate::simulation::{Carrier, Flow, headers_of};
use crate::world::{Alarm, World};

/// The clock of a border: ahead by an offset or behind by one, and fast or slow by a drift in parts per billion. It shows nothing
/// before zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    ahead: Span,
    /// Zero if it is ahead.
    behind: Span,
    drift_ppb: i64,
}

/// A billion parts.
const WHOLE: i128 = 1_000_000_000;

impl Clock {
    pub(crate) fn new(spec: ClockSpec) -> Self {
        let drift_ppb = (spec.drift_ppm.clamp(-100_000.0, 100_000.0) * 1000.0) as i64;
        Self { ahead: spec.offset, behind: Span::ZERO, drift_ppb }
    }

    /// What it shows at `now`.
    #[inline]
    pub(crate) fn shows(self, now: Time) -> Time {
        if self.drift_ppb == 0 {
            return now.saturating_add(self.ahead).saturating_sub(self.behind);
        }
        let nanos = i128::from(now.as_nanos());
        let drifted = nanos + nanos * i128::from(self.drift_ppb) / WHOLE;
        Time::from_nanos(u64::try_from(drifted).unwrap_or(u64::MAX))
            .saturating_add(self.ahead)
            .saturating_sub(self.behind)
    }

    /// From now on it shows so much more, or less.
    pub(crate) fn step(&mut self, step: ClockStep) {
        let offset = self.ahead.as_nanos().saturating_add(match step {
            ClockStep::Ahead(span) => span.as_nanos(),
            ClockStep::Back(_) => 0,
        });
        let behind = self.behind.as_nanos().saturating_add(match step {
            ClockStep::Ahead(_) => 0,
            ClockStep::Back(span) => span.as_nanos(),
        });
        self.ahead = Span::from_nanos(offset.saturating_sub(behind));
        self.behind = Span::from_nanos(behind.saturating_sub(offset));
    }

    /// The first instant at which it shows `local` or more.
    #[inline]
    pub(crate) fn when(self, local: Time) -> Time {
        if self.drift_ppb == 0 {
            if local == Time::ZERO {
                return local;
            }
            return (Time::ZERO + local.since(Time::ZERO + self.ahead)).saturating_add(self.behind);
        }
        self.when_drifting(local)
    }

    fn when_drifting(self, local: Time) -> Time {
        if local == Time::ZERO {
            return local;
        }
        let since = local.since(Time::ZERO + self.ahead).as_nanos();
        let nanos = i128::from(since) + i128::from(self.behind.as_nanos());
        let exact = nanos * WHOLE / (WHOLE + i128::from(self.drift_ppb));
        // Both divisions round, by a nanosecond each: the first instant is not before this one, and a few later at most.
        let mut at = Time::from_nanos(u64::try_from((exact - 2).max(0)).unwrap_or(u64::MAX));
        while self.shows(at) < local && at != Time::MAX {
            at = at.saturating_add(Span::from_nanos(1));
        }
        at
    }
}

/// One border router of one domain.
#[derive(Debug)]
pub(crate) struct Border {
    pub(crate) node: u32,
    pub(crate) domain: u32,
    /// How many domains are around its own.
    pub(crate) level: u8,
    /// Whether what enters here is shaped; a border that does not police still meters what leaves.
    pub(crate) polices: bool,
    /// The edge mechanism, by the border's own clock.
    pub(crate) control: Option<edge::Border>,
    pub(crate) clock: Clock,
    /// What changes its messages, if it lies.
    pub(crate) liar: Option<Box<Liar>>,
    pub(crate) labeller: Option<CsfqLabeller>,
    /// Which messages to it get lost, and by what chance.
    pub(crate) control_loss: (f64, Substream),
    /// Programs of the control messages to other borders.
    pub(crate) routes: HashMap<PeerId, u32>,
    pub(crate) alarm: Alarm,
    pub(crate) shaper_alarm: Alarm,
    /// How often its machine was started anew.
    pub(crate) restarts: u32,
    /// Packets dropped in front of shapers.
    pub(crate) drops_by_reason: [u64; DropReason::ALL.len()],
}

impl Border {
    /// Packets waiting at the shapers.
    pub(crate) fn held_packets(&self) -> usize {
        self.control.as_ref().map_or(0, edge::Border::held_packets)
    }
}

/// What a border finds out about the packets that it holds, and what becomes of those that it drops.
pub(crate) struct EdgeStore<'a, O> {
    pub(crate) world: &'a mut World<O>,
    pub(crate) flows: &'a [Flow],
    pub(crate) drops_by_reason: &'a mut [u64; DropReason::ALL.len()],
    pub(crate) border: u32,
    pub(crate) level: u8,
}

impl<O: Observer> Sink for EdgeStore<'_, O> {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.drops_by_reason[why.index()] += 1;
        self.world.drop_packet(&packet, Place::Edge(self.border), why);
    }

    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.world.flows[packet.flow.0 as usize].marked_packets += 1;
        let world = &mut *self.world;
        world.observer.on_mark(world.now, Place::Edge(self.border), packet, world.arena.get(packet), why);
    }

    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        self.world.hosts(packet)
    }

    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        self.world.pure_ack(packet)
    }
}

impl<O: Observer> PacketStore for EdgeStore<'_, O> {
    fn headers(&self, packet: &Packet) -> Headers {
        headers_of(self.flows, packet.flow)
    }

    fn stamp(&mut self, packet: &Packet, stamp: NonZeroU32) {
        let created = self.world.arena.get(packet).created;
        self.world.stamps.write(packet, created, self.level, stamp);
    }

    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor> {
        segment_of(self.flows, &packet, self.world.arena.get_mut(&packet))
    }
}

/// The TCP header that `packet` carries, if it has one.
pub(crate) fn segment_of<'a>(
    flows: &[Flow],
    packet: &Packet,
    carried: &'a mut Carried,
) -> Option<AnySegment<'a>> {
    let flow = flows.get(packet.flow.0 as usize / 2)?;
    if flow.headers.protocol != Protocol::TCP {
        return None;
    }
    Some(match flow.carrier {
        Carrier::External => AnySegment::Outside(OutsideSegment(&mut carried.tcp)),
        _ => AnySegment::Simulated(&mut carried.tcp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_drifts_gains_as_many_microseconds_a_second_as_it_has_parts_per_million() {
        let clock = Clock::new(ClockSpec { offset: Span::from_secs(3), drift_ppm: -200.0 });
        let shown = clock.shows(Time::ZERO + Span::from_secs(10));
        assert_eq!(shown, Time::ZERO + Span::from_millis(12_998));
    }

    proptest! {
        #[test]
        fn an_alarm_by_a_border_s_clock_rings_at_the_first_instant_that_shows_it(
            offset in 0u64..1_000_000_000_000, drift_ppm in -1000.0f64..1000.0, nanos in 0u64..1_000_000_000_000,
        ) {
            let clock = Clock::new(ClockSpec { offset: Span::from_nanos(offset), drift_ppm });
            let local = Time::from_nanos(nanos);
            let at = clock.when(local);
            prop_assert!(clock.shows(at) >= local);
            if at > Time::ZERO {
                prop_assert!(clock.shows(Time::from_nanos(at.as_nanos() - 1)) < local);
            }
        }
    }

    #[test]
    fn a_clock_that_is_stepped_shows_so_much_more_or_less_and_nothing_before_zero() {
        for drift_ppm in [0.0, 200.0, -5000.0] {
            let mut clock = Clock::new(ClockSpec { offset: Span::from_secs(1), drift_ppm });
            let at = |secs| Time::ZERO + Span::from_secs(secs);
            let before = clock.shows(at(10));
            clock.step(ClockStep::Back(Span::from_secs(3)));
            assert_eq!(clock.shows(at(10)) + Span::from_secs(3), before);
            assert_eq!(clock.shows(at(1)), Time::ZERO);
            assert_eq!(clock.when(Time::ZERO), Time::ZERO);
            clock.step(ClockStep::Ahead(Span::from_secs(4)));
            assert_eq!(clock.shows(at(10)), before + Span::from_secs(1));
            clock.step(ClockStep::Back(Span::from_secs(1)));
            assert_eq!(clock, Clock::new(ClockSpec { offset: Span::from_secs(1), drift_ppm }));
        }
    }

    proptest! {
        #[test]
        fn a_stepped_clock_shows_a_time_from_the_instant_on_that_it_gives(
            offset in 0u64..5_000_000_000,
            steps in proptest::collection::vec((any::<bool>(), 0u64..5_000_000_000), 0..4),
            drift_ppm in prop_oneof![Just(0.0), -100_000.0..100_000.0],
            local in 0u64..20_000_000_000,
        ) {
            let mut clock = Clock::new(ClockSpec { offset: Span::from_nanos(offset), drift_ppm });
            for (is_ahead, nanos) in steps {
                let by = Span::from_nanos(nanos);
                clock.step(if is_ahead { ClockStep::Ahead(by) } else { ClockStep::Back(by) });
            }
            let local = Time::from_nanos(local);
            let at = clock.when(local);
            prop_assert!(clock.shows(at) >= local);
            if at > Time::ZERO {
                prop_assert!(clock.shows(Time::from_nanos(at.as_nanos() - 1)) < local);
            }
        }
    }
}
