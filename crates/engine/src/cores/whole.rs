//! What is counted in parts, put together.

use tidegate_packet::DropReason;

use super::Divided;
use crate::counters::{LinkCounters, Totals};
use crate::ids::LinkId;
use crate::observer::Observer;
use crate::simulation::{ConnectionCounters, Simulation, Statistics};

impl Divided {
    pub(crate) fn restart_statistics(&mut self) {
        self.each_mut().for_each(Simulation::restart_statistics);
    }

    /// The counters of `link` as of now: of its queue, and of what came at its end.
    pub(crate) fn link_counters(&mut self, link: LinkId) -> LinkCounters {
        let mut counters = self.near_mut(link).link_counters(link);
        if self.division.near(link) != self.division.far(link) {
            counters.join(&self.far(link).counters_of_way(link));
        }
        counters
    }

    /// Of the whole run; events are those of all parts.
    pub(crate) fn totals(&self) -> Totals {
        let mut all = Totals::default();
        self.each().for_each(|part| all.add(&part.world.totals));
        all
    }

    /// What was counted since statistics began.
    pub(crate) fn statistics(&mut self) -> Statistics {
        let each: Vec<Statistics> = self.each_mut().map(Simulation::statistics).collect();
        let division = &self.division;
        let mut flows = each[0].flows.clone();
        for other in &each[1..] {
            flows.iter_mut().zip(&other.flows).for_each(|(sum, more)| sum.add(more));
        }
        let links = (0..each[0].links.len()).map(|index| {
            let (near, far) = (division.near(LinkId(index as u32)), division.far(LinkId(index as u32)));
            let mut counters = each[near].links[index].clone();
            if near != far {
                counters.join(&each[far].links[index]);
            }
            counters
        });
        let connections = (0..each[0].connections.len()).map(|flow| {
            let sent = each[division.source(flow)].connections[flow]?;
            let receiver = each[division.destination(flow)].connections[flow]?.receiver;
            Some(ConnectionCounters { receiver, ..sent })
        });
        let sinks = (0..each[0].sinks.len()).map(|flow| each[division.destination(flow)].sinks[flow].clone());
        let mut border_drops = vec![[0; DropReason::ALL.len()]; each[0].border_drops.len()];
        for part in &each {
            for (sums, more) in border_drops.iter_mut().zip(&part.border_drops) {
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        let markers = (0..each[0].markers.len()).map(|index| each[division.marker(index)].markers[index]);
        let (links, connections, sinks, markers) =
            (links.collect(), connections.collect(), sinks.collect(), markers.collect());
        let totals = self.totals();
        let first = each.into_iter().next().expect("there are parts");
        Statistics { links, flows, sinks, connections, border_drops, markers, totals, ..first }
    }

    /// See [`Simulation::assert_conservation`].
    pub(crate) fn assert_conservation(&self) {
        let totals = self.totals();
        let live: usize = self.each().map(|part| part.world.arena.live()).sum();
        assert_eq!(
            totals.created,
            totals.delivered + totals.dropped + live as u64,
            "packets are conserved: {totals:?}"
        );
        let held: usize = self.each().map(Simulation::held_packets).sum();
        assert_eq!(live, held, "each live packet is in exactly one place");
    }
}

impl<O: Observer> Simulation<O> {
    /// What came at the end of a link that is cut.
    fn counters_of_way(&self, link: LinkId) -> LinkCounters {
        self.links[link.0 as usize].tally.report()
    }
}
