//! Selective back-pressure: neighbours are told a rate for each output, and which traffic takes it.
//!
//! With a sum alone a neighbour divides evenly what is not even: one output gets too much, another too little (Pazos and
//! Gerla, section 4.3, which leaves it open). Here the sum stands as it is, and with it goes, after every period, what each
//! output accepts, and the destinations behind it. The neighbour then shares each of these parts among its own inputs.
//!
//! Source: none; the problem is Pazos and Gerla's, section 4.3, the answer ours.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_units::{BitRate, Span, Time};

use super::BackPressureConfig;
use super::inputs::{Inputs, Room};
use super::law;
use crate::hop::PortId;
use crate::hop::wire::{FlowName, Outlet};
use crate::random::KeyedHash;

/// Outputs of one neighbour that are told apart. Traffic to further ones counts only in the sum.
const OUTLETS_MAX: usize = 64;

/// Traffic of one input to one destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) name: FlowName,
    /// The number of the input; with the name, the key of the route.
    input: u16,
    /// Where it goes out.
    pub(super) to: PortId,
    pub(super) seen: Time,
    /// The output that it takes at the neighbour: its place among those that are known there.
    outlet: Option<u32>,
}

/// One output of a neighbour.
#[derive(Clone, Debug)]
struct Behind {
    /// As the neighbour numbers it.
    output: u16,
    /// What we may send there.
    rate: BitRate,
    told: Time,
    inputs: Inputs,
}

/// What is known of the outputs of one neighbour.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbor {
    outputs: Vec<Behind>,
    /// When it last said something, and its clock then.
    heard: Option<(Time, Time)>,
}

/// The routes and the neighbours of one router.
#[derive(Clone, Debug)]
pub(super) struct Selective {
    routes: Vec<Route>,
    /// By destination: the inputs from which routes lead there, ascending, and where these stand.
    by_name: HashMap<FlowName, Vec<(u16, u32)>, KeyedHash>,
    routes_max: usize,
    /// By input: where its routes stand, and with which the next message about them begins.
    of_input: Vec<BTreeSet<u32>>,
    begins: Vec<u32>,
    neighbors: Vec<Neighbor>,
    hold: Span,
}

impl Selective {
    pub(super) fn new(config: &BackPressureConfig, ports: usize, inputs: usize, hash: KeyedHash) -> Self {
        Self {
            routes: Vec::new(),
            by_name: HashMap::with_hasher(hash),
            routes_max: config.routes_max as usize,
            of_input: vec![BTreeSet::new(); inputs],
            begins: vec![0; inputs],
            neighbors: vec![Neighbor::default(); ports],
            hold: config.hold,
        }
    }

    /// The routes of `input` and their places, in the order in which the neighbour there is told of them, which depends on
    /// the packets alone.
    pub(super) fn routes_of(&self, input: usize) -> impl Iterator<Item = (u32, &Route)> {
        let (places, begin) = (&self.of_input[input], self.begins[input]);
        let turned = places.range(begin..).chain(places.range(..begin));
        turned.map(|&place| (place, &self.routes[place as usize]))
    }

    /// The next message about the routes of `input` begins with the one at `place`.
    pub(super) fn begin_at(&mut self, input: usize, place: u32) {
        self.begins[input] = place;
    }

    /// Where the route of `input` to `name` stands.
    fn place_of(&self, input: u16, name: FlowName) -> Option<usize> {
        let of = self.by_name.get(&name)?;
        let at = of.binary_search_by_key(&input, |&(from, _)| from).ok()?;
        Some(of[at].1 as usize)
    }

    /// It stands at `place` from now on, or (`None`) nowhere.
    fn set_place(&mut self, (input, name): (u16, FlowName), place: Option<usize>) {
        let of = self.by_name.entry(name).or_default();
        let known = of.binary_search_by_key(&input, |&(from, _)| from);
        let places = &mut self.of_input[usize::from(input)];
        if let Ok(at) = known {
            places.remove(&of[at].1);
        }
        let place = place.map(|place| place as u32);
        places.extend(place);
        match (known, place) {
            (Ok(at), Some(place)) => of[at].1 = place,
            (Err(at), Some(place)) => of.insert(at, (input, place)),
            (Ok(at), None) => drop(of.remove(at)),
            (Err(_), None) => {}
        }
        if of.is_empty() {
            self.by_name.remove(&name);
        }
    }

    /// `bytes` of `input`, for `name`, are about to go out by `to`.
    pub(super) fn on_arrival(&mut self, input: u16, to: PortId, name: FlowName, bytes: u32, now: Time) {
        let fresh = Route { name, input, to, seen: now, outlet: None };
        let Some(place) = self.place_of(input, name) else {
            if self.routes.len() < self.routes_max {
                self.set_place((input, name), Some(self.routes.len()));
                self.routes.push(fresh);
            }
            return;
        };
        let route = &mut self.routes[place];
        route.seen = now;
        if route.to != to {
            *route = fresh;
        }
        if let Some(behind) =
            route.outlet.and_then(|at| self.neighbors[to.index()].outputs.get_mut(at as usize))
        {
            behind.inputs.on_arrival(usize::from(input), bytes, now);
        }
    }

    /// The neighbour behind `port` says, as of `stamp` on its clock, what its outputs accept.
    pub(super) fn on_outlets(
        &mut self,
        port: PortId,
        stamp: Time,
        idle: Span,
        outlets: impl Iterator<Item = Outlet>,
        now: Time,
    ) {
        let (neighbor, inputs) = (&mut self.neighbors[port.index()], self.of_input.len());
        if neighbor.heard.is_some_and(|(at, clock)| now.since(at) < idle && stamp <= clock) {
            return;
        }
        neighbor.heard = Some((now, stamp));
        for outlet in outlets {
            let known = neighbor.outputs.iter().position(|behind| behind.output == outlet.output);
            let at = match known {
                Some(at) => at,
                None if neighbor.outputs.len() < OUTLETS_MAX => {
                    neighbor.outputs.push(Behind {
                        output: outlet.output,
                        rate: BitRate::ZERO,
                        told: now,
                        inputs: Inputs::new(inputs, 1.0, self.hold),
                    });
                    neighbor.outputs.len() - 1
                }
                None => continue,
            };
            neighbor.outputs[at].rate = BitRate::from_bytes_per_second_f64(f64::from(outlet.rate));
            neighbor.outputs[at].told = now;
            for &(_, place) in self.by_name.get(&outlet.flow).into_iter().flatten() {
                let route = &mut self.routes[place as usize];
                if route.to == port {
                    route.outlet = Some(at as u32);
                }
            }
        }
    }

    /// The shares of the inputs in what each output of each neighbour accepts, after a period.
    pub(super) fn share(&mut self, elapsed: Span, config: &BackPressureConfig, room: &mut Room, now: Time) {
        for behind in self.neighbors.iter_mut().flat_map(|neighbor| &mut neighbor.outputs) {
            let tf = behind.rate.as_bytes_per_second_f64() * elapsed.as_secs_f64();
            behind.inputs.divide(now, room, |offered, shares| {
                law::actual_shares(tf, 0.0, config.tolerance, config.excess, offered, shares)
            });
        }
        self.forget(config.idle, now);
    }

    fn forget(&mut self, idle: Span, now: Time) {
        let mut at = 0;
        while at < self.routes.len() {
            if now.since(self.routes[at].seen) < idle {
                at += 1;
                continue;
            }
            let gone = self.routes.swap_remove(at);
            self.set_place((gone.input, gone.name), None);
            if let Some(&Route { input, name, .. }) = self.routes.get(at) {
                self.set_place((input, name), Some(at));
            }
        }
    }

    /// What all outputs of the neighbour behind `port` together accept of `input`, and what they accept of all; none if
    /// it did not say within `hold`.
    pub(super) fn accepted(&self, port: PortId, input: usize, now: Time) -> Option<(f64, f64)> {
        let (mut own, mut all) = (None, 0.0);
        for behind in &self.neighbors[port.index()].outputs {
            if now.since(behind.told) >= self.hold {
                continue;
            }
            let rate = behind.rate.as_bytes_per_second_f64();
            all += rate;
            if behind.inputs.contributes(input, now) {
                own = Some(own.unwrap_or(0.0) + behind.inputs.share(input) * rate);
            }
        }
        own.map(|own| (own, all))
    }
}
