//! Transfers that come, each over a connection of its own.

use std::collections::VecDeque;

use tidegate_mechanism::random::Substream;
use tidegate_units::{Span, Time};

use super::arrivals::Arrivals;
use super::tally::TransferTally;
use super::{ArrivalsSpec, Place, Room, SizesSpec, Way};

/// Transfers of a probe, one by one.
#[derive(Debug)]
struct Probe {
    sizes: VecDeque<u64>,
    pause: Span,
    next: Option<Time>,
    took: Vec<(u64, Span)>,
}

/// When the next one begins.
#[derive(Debug)]
enum Clock {
    Arrivals(Arrivals),
    Probe(Probe),
}

/// A transfer under way.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    bytes: u64,
    began: Time,
    /// Of the statistics.
    period: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transfers {
    clock: Clock,
    sizes: SizesSpec,
    random: Substream,
    /// By place.
    under_way: Vec<Transfer>,
    pub(super) tally: TransferTally,
}

impl Transfers {
    pub(super) fn new(
        arrivals: &ArrivalsSpec,
        sizes: &SizesSpec,
        start: Time,
        mut random: Substream,
    ) -> Self {
        let clock = Clock::Arrivals(Arrivals::new(arrivals, start, &mut random));
        Self { clock, sizes: sizes.clone(), random, under_way: Vec::new(), tally: TransferTally::default() }
    }

    /// Those of a probe.
    pub(super) fn probing(sizes: &[u64], pause: Span, start: Time, random: Substream) -> Self {
        let probe =
            Probe { sizes: sizes.iter().copied().collect(), pause, next: Some(start), took: Vec::new() };
        Self {
            clock: Clock::Probe(probe),
            sizes: SizesSpec::Fixed(1),
            random,
            under_way: Vec::new(),
            tally: TransferTally::default(),
        }
    }

    /// When the next one comes, if that is before `stop`.
    pub(super) fn next(&self, stop: Time) -> Option<Time> {
        let next = match &self.clock {
            Clock::Arrivals(arrivals) => arrivals.next(),
            Clock::Probe(probe) => probe.next,
        };
        next.filter(|&at| at < stop)
    }

    pub(super) fn on_alarm(&mut self, now: Time, stop: Time, room: &mut Room) {
        if now >= stop {
            return;
        }
        while let Some((count, bytes)) = self.poll(now) {
            for _ in 0..count {
                let bytes = bytes.unwrap_or_else(|| self.sizes.draw(&mut self.random));
                self.begin(bytes, now, room);
            }
        }
    }

    fn poll(&mut self, now: Time) -> Option<(u32, Option<u64>)> {
        match &mut self.clock {
            Clock::Arrivals(arrivals) => arrivals.poll(now, &mut self.random),
            Clock::Probe(probe) => {
                probe.next.take_if(|at| *at <= now)?;
                Some((1, Some(probe.sizes.pop_front()?)))
            }
        }
    }

    fn begin(&mut self, bytes: u64, now: Time, room: &mut Room) {
        self.tally.arrived += 1;
        self.tally.arrived_bytes += bytes;
        let Some(place) = room.open(now) else {
            self.tally.refused += 1;
            return;
        };
        self.under_way.resize(room.seats.len(), Transfer::default());
        self.under_way[place as usize] = Transfer { bytes, began: now, period: self.tally.on_begun() };
        room.send(place, Way::Down, bytes);
        room.close(place);
    }

    /// So many bytes of what was sent in `place` arrived.
    pub(super) fn on_delivered(
        &mut self,
        place: Place,
        _way: Way,
        delivered: u64,
        now: Time,
        _room: &mut Room,
    ) {
        let Transfer { bytes, began, period } = self.under_way[place as usize];
        if delivered < bytes {
            return;
        }
        let took = now.since(began);
        if let Clock::Probe(probe) = &mut self.clock {
            probe.took.push((bytes, took));
        }
        self.tally.on_completed(bytes, period, took);
    }

    /// A connection is over.
    pub(super) fn on_released(&mut self, now: Time, _room: &mut Room) {
        if let Clock::Probe(probe) = &mut self.clock
            && !probe.sizes.is_empty()
        {
            probe.next = Some(now.saturating_add(probe.pause));
        }
    }

    pub(super) fn probed(&self) -> &[(u64, Span)] {
        match &self.clock {
            Clock::Probe(probe) => &probe.took,
            Clock::Arrivals(_) => &[],
        }
    }

    pub(super) fn restart(&mut self, _now: Time) {
        self.tally.restart();
    }

    pub(super) fn variable(&self, name: &str, _now: Time) -> Option<f64> {
        match name {
            "active_transfers" => Some(f64::from(self.tally.active)),
            "completed_transfers" => Some(self.tally.completed as f64),
            _ => None,
        }
    }
}
