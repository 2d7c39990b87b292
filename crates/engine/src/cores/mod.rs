//! One simulation on several cores.
//!
//! The network is cut at links with a long way, and each part runs by itself for as long as a packet takes at least from one part
//! to another: conservative synchronisation in windows, as D. Nicol, "The cost of conservative synchronization in parallel
//! discrete event simulations" (1993), has it. Every part is the whole simulation, built alike, of which only what belongs to it
//! is ever woken: queues of links that leave its nodes, ends of flows at its hosts, borders and markers at its nodes. A link that is
//! cut is in two parts. Where it begins is its queue, and what left it in a window is written down at the end of that ([`exchange`]).
//! Where it ends is its way, which is entered when the window is over, long enough before the packet is at its end.
//!
//! So the parts must agree about nothing but the order of events of one instant. That of scheduling is known to one core only; with
//! [`crate::EventOrder::Numbered`] it is that of the numbers of what is woken, whatever the parts. A part handles its events in the order
//! in which one core would, and results are the same bytes for any number of parts.
//!
//! [`Division`] says who belongs where; [`choose`] and [`groups`] find a good one; [`windows`] runs it; [`whole`] puts together what is counted.

mod choose;
mod division;
mod exchange;
mod groups;
mod whole;
mod windows;

use std::sync::Arc;

use tidegate_mechanism::edge;
use tidegate_units::Time;

pub use self::division::{Division, Undivided};
pub(crate) use self::exchange::Export;
use crate::error::BuildError;
use crate::ids::LinkId;
use crate::network::Network;
use crate::observer::Observer;
use crate::simulation::Simulation;

/// What a simulation that is a part knows of the others.
#[derive(Debug)]
pub(crate) struct Part {
    number: usize,
    division: Arc<Division>,
    /// Links that are cut and begin here, of which no event tells: with where they end.
    silent: Vec<(u32, u8)>,
    /// By part: what left for it in this window on the others.
    outbox: Vec<Vec<Export>>,
}

/// The parts of a simulation.
#[derive(Debug)]
pub(crate) struct Divided {
    division: Arc<Division>,
    list: Vec<Simulation>,
}

impl Divided {
    /// Where the queue of `link` is.
    pub(crate) fn near(&self, link: LinkId) -> &Simulation {
        &self.list[self.division.near(link)]
    }

    /// The same, to change.
    pub(crate) fn near_mut(&mut self, link: LinkId) -> &mut Simulation {
        &mut self.list[self.division.near(link)]
    }

    /// Where `link` ends.
    pub(crate) fn far(&self, link: LinkId) -> &Simulation {
        &self.list[self.division.far(link)]
    }

    /// Where flow `flow` is sent.
    pub(crate) fn source(&self, flow: usize) -> &Simulation {
        &self.list[self.division.source(flow)]
    }

    /// Where flow `flow` is received: all of its receivers are in one part.
    pub(crate) fn destination(&self, flow: usize) -> &Simulation {
        &self.list[self.division.destination(flow)]
    }

    /// The edge mechanism of border `index`.
    pub(crate) fn control(&self, index: u32) -> Option<&edge::Border> {
        let node = self.list[0].borders[index as usize].node;
        self.list[self.division.of_node(node)].borders[index as usize].control.as_ref()
    }

    /// Any part, for what is alike in all of them: programs, and how flows choose them.
    pub(crate) fn any(&self) -> &Simulation {
        &self.list[0]
    }

    /// Where marker `marker` stands.
    pub(crate) fn marker(&self, marker: usize) -> &Simulation {
        &self.list[self.division.marker(marker)]
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Simulation> {
        self.list.iter()
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Simulation> {
        self.list.iter_mut()
    }
}

impl Network {
    /// A simulation of this network in the run with `seed`, on as many cores as `division` has parts.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build_divided<O: Observer>(
        self,
        seed: u64,
        observer: O,
        division: Division,
    ) -> Result<Simulation<O>, BuildError> {
        let division = Arc::new(division);
        let list = std::thread::scope(|scope| {
            let build = |number| {
                let (network, division) = (self.clone(), Arc::clone(&division));
                scope.spawn(move || {
                    let mut part = network.build(seed, ())?;
                    part.become_part(number, division);
                    Ok(part)
                })
            };
            let building: Vec<_> = (0..division.parts()).map(build).collect();
            let built = building.into_iter().map(|one| one.join().expect("building does not panic"));
            built.collect::<Result<Vec<_>, BuildError>>()
        })?;
        let mut whole = self.build(seed, observer)?;
        whole.divided = Some(Box::new(Divided { division, list }));
        Ok(whole)
    }

    /// How to divide the work of the run with `seed`, which ends at `horizon`, among `cores`, by what its beginning does: some hundred
    /// thousand events of it are simulated for this, twice. The same network is always divided alike.
    ///
    /// # Errors
    /// Why it stays whole: see [`Undivided`].
    pub fn divide(&self, seed: u64, horizon: Time, cores: usize) -> Result<Division, Undivided> {
        choose::choose(self, seed, horizon, cores)
    }
}
