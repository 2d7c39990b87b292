//! The borders of domains: an edge mechanism's two halves with the shapers that it controls.

use std::collections::HashMap;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{AggregateId, AnyEgress, AnyIngress, BorderSite, EdgeConfig, EdgeOut, PeerId};
use tidegate_mechanism::meter::CsfqLabeller;
use tidegate_mechanism::random::Substream;
use tidegate_mechanism::shape::ShaperBank;
use tidegate_packet::{Backlog, DropReason, MarkReason, Packet, Place, Sink};
use tidegate_units::{BitRate, Span, Time};

use crate::network::ClockSpec;
use crate::observer::Observer;
use crate::world::{Alarm, World};

/// The clock of a border: ahead by an offset, and fast or slow by a drift in parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    offset: Span,
    drift_ppb: i64,
}

/// A billion parts.
const WHOLE: i128 = 1_000_000_000;

impl Clock {
    pub(crate) fn new(spec: ClockSpec) -> Self {
        let drift_ppb = (spec.drift_ppm.clamp(-100_000.0, 100_000.0) * 1000.0) as i64;
        Self { offset: spec.offset, drift_ppb }
    }

    /// What it shows at `now`.
    pub(crate) fn shows(self, now: Time) -> Time {
        if self.drift_ppb == 0 {
            return now.saturating_add(self.offset);
        }
        let nanos = i128::from(now.as_nanos());
        let drifted = nanos + nanos * i128::from(self.drift_ppb) / WHOLE;
        Time::from_nanos(u64::try_from(drifted).unwrap_or(u64::MAX)).saturating_add(self.offset)
    }

    /// The first instant at which it shows `local` or more.
    pub(crate) fn when(self, local: Time) -> Time {
        let nanos = i128::from(local.since(Time::ZERO + self.offset).as_nanos());
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
    /// Whether what enters here is shaped; a border that does not police still meters what leaves.
    pub(crate) polices: bool,
    pub(crate) control: Option<Control>,
    pub(crate) clock: Clock,
    pub(crate) labeller: Option<CsfqLabeller>,
    /// Which messages to it get lost, and by what chance.
    pub(crate) control_loss: (f64, Substream),
    /// Programs of the control messages to other borders.
    pub(crate) routes: HashMap<PeerId, u32>,
    pub(crate) alarm: Alarm,
    pub(crate) shaper_alarm: Alarm,
    /// Packets dropped in front of shapers.
    pub(crate) drops_by_reason: [u64; DropReason::ALL.len()],
}

impl Border {
    /// Packets waiting at the shapers.
    pub(crate) fn held_packets(&self) -> usize {
        self.control.as_ref().map_or(0, |control| {
            let bank = &control.bank;
            bank.open_aggregates().map(|aggregate| bank.backlog(aggregate).packets as usize).sum()
        })
    }
}

/// An edge mechanism at work.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) ingress: AnyIngress,
    pub(crate) egress: AnyEgress,
    pub(crate) bank: ShaperBank,
    pub(crate) message_header_bytes: u32,
    pub(crate) message_class: u8,
}

impl Control {
    pub(crate) fn new(config: &EdgeConfig, site: BorderSite, context: &Context) -> Self {
        let (ingress, egress) = config.build(site, context);
        let bank = ShaperBank::new(config.shaper().clone(), *context);
        Self {
            ingress,
            egress,
            bank,
            message_header_bytes: config.message_header_bytes(),
            message_class: config.message_class(),
        }
    }
}

/// What an edge asks of the world: shapers are set at once, messages are collected and sent when it is done.
pub(crate) struct EdgePort<'a> {
    pub(crate) bank: &'a mut ShaperBank,
    pub(crate) outbox: &'a mut Vec<(PeerId, Vec<u8>)>,
    pub(crate) now: Time,
}

impl EdgeOut for EdgePort<'_> {
    fn open(&mut self, aggregate: AggregateId, rate: BitRate) {
        self.bank.open(aggregate, rate, self.now);
    }
    fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate) {
        self.bank.set_rate(aggregate, rate, self.now);
    }
    fn close(&mut self, aggregate: AggregateId) {
        self.bank.close(aggregate);
    }
    fn backlog(&self, aggregate: AggregateId) -> Backlog {
        self.bank.backlog(aggregate)
    }
    fn send(&mut self, to: PeerId, message: &[u8]) {
        self.outbox.push((to, message.to_vec()));
    }
}

/// A shaper's queue tells the world.
pub(crate) struct ShaperSink<'a, O> {
    pub(crate) world: &'a mut World<O>,
    pub(crate) drops_by_reason: &'a mut [u64; DropReason::ALL.len()],
    pub(crate) border: u32,
}

impl<O: Observer> Sink for ShaperSink<'_, O> {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        // A full queue in front of a shaper is the edge at work, not congestion of a link.
        let why = if why == DropReason::Overflow { DropReason::Shaper } else { why };
        self.drops_by_reason[why.index()] += 1;
        self.world.drop_packet(&packet, Place::Edge(self.border), why);
    }

    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.world.flows[packet.flow.0 as usize].marked_packets += 1;
        let world = &mut *self.world;
        world.observer.on_mark(world.now, Place::Edge(self.border), packet, world.arena.get(packet), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
