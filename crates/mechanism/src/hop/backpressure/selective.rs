//! Selective back-pressure: neighbours are told a rate for each output, and which traffic takes it.
//!
//! With a sum alone a neighbour divides evenly what is not even: one output gets too much, another too little (Pazos and
//! Gerla, section 4.3, which leaves it open). Here the sum stands as it is, and with it goes, after every period, what each
//! output accepts, and the destinations behind it. The neighbour then shares each of these parts among its own inputs.
//!
//! Source: none; the problem is Pazos and Gerla's, section 4.3, the answer ours.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_units::{BitRate, Span, Time};

use super::BackPressureConfig;
use super::law::{self, Offered};
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
    /// Where it comes in, and goes out.
    pub(super) from: PortId,
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
    offered: Vec<u64>,
    seen: Vec<Option<Time>>,
    shares: Vec<f64>,
}

/// What is known of the outputs of one neighbour.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbor {
    outputs: Vec<Behind>,
    /// When it last said something, and its clock then.
    heard: Option<(Time, Time)>,
    /// The route that the next message to it begins with.
    begin: usize,
}

/// The routes and the neighbours of one router.
#[derive(Clone, Debug)]
pub(super) struct Selective {
    routes: Vec<Route>,
    by_name: HashMap<(u16, FlowName), u32, KeyedHash>,
    routes_max: usize,
    neighbors: Vec<Neighbor>,
    inputs: usize,
}

impl Selective {
    pub(super) fn new(ports: usize, inputs: usize, routes_max: u32, hash: KeyedHash) -> Self {
        Self {
            routes: Vec::new(),
            by_name: HashMap::with_hasher(hash),
            routes_max: routes_max as usize,
            neighbors: vec![Neighbor::default(); ports],
            inputs,
        }
    }

    /// All routes and their places, in the order in which the neighbour behind `port` is told of them, which depends on the
    /// packets alone.
    pub(super) fn routes_for(&self, port: PortId) -> impl Iterator<Item = (usize, &Route)> {
        let begin = self.neighbors[port.index()].begin.min(self.routes.len());
        let places = (begin..self.routes.len()).chain(0..begin);
        places.map(|place| (place, &self.routes[place]))
    }

    /// The next message to the neighbour behind `port` begins with the route at `place`.
    pub(super) fn begin_at(&mut self, port: PortId, place: usize) {
        self.neighbors[port.index()].begin = place;
    }

    /// `bytes` of `input`, for `name`, are about to go out by `to`.
    pub(super) fn on_arrival(
        &mut self,
        (input, from): (u16, PortId),
        to: PortId,
        name: FlowName,
        bytes: u32,
        now: Time,
    ) {
        let fresh = Route { name, input, from, to, seen: now, outlet: None };
        let route = if let Some(&at) = self.by_name.get(&(input, name)) {
            &mut self.routes[at as usize]
        } else {
            if self.routes.len() >= self.routes_max {
                return;
            }
            self.by_name.insert((input, name), self.routes.len() as u32);
            self.routes.push(fresh);
            return;
        };
        route.seen = now;
        route.from = from;
        if route.to != to {
            *route = fresh;
        }
        if let Some(behind) =
            route.outlet.and_then(|at| self.neighbors[to.index()].outputs.get_mut(at as usize))
        {
            behind.offered[usize::from(input)] += u64::from(bytes);
            behind.seen[usize::from(input)] = Some(now);
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
        let neighbor = &mut self.neighbors[port.index()];
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
                        offered: vec![0; self.inputs],
                        seen: vec![None; self.inputs],
                        shares: vec![1.0; self.inputs],
                    });
                    neighbor.outputs.len() - 1
                }
                None => continue,
            };
            neighbor.outputs[at].rate = BitRate::from_bytes_per_second_f64(f64::from(outlet.rate));
            neighbor.outputs[at].told = now;
            for input in 0..self.inputs as u16 {
                if let Some(&route) = self.by_name.get(&(input, outlet.flow))
                    && self.routes[route as usize].to == port
                {
                    self.routes[route as usize].outlet = Some(at as u32);
                }
            }
        }
    }

    /// The shares of the inputs in what each output of each neighbour accepts, after a period.
    pub(super) fn share(
        &mut self,
        elapsed: Span,
        config: &BackPressureConfig,
        offered: &mut [Offered],
        now: Time,
    ) {
        for behind in self.neighbors.iter_mut().flat_map(|neighbor| &mut neighbor.outputs) {
            for (input, known) in offered.iter_mut().enumerate() {
                let contributes = behind.seen[input].is_some_and(|at| now.since(at) < config.hold);
                *known = Offered { bytes: core::mem::take(&mut behind.offered[input]) as f64, contributes };
            }
            let tf = behind.rate.as_bytes_per_second_f64() * elapsed.as_secs_f64();
            let (tolerance, excess) = (config.tolerance, config.excess);
            law::actual_shares(tf, 0.0, tolerance, excess, offered, &mut behind.shares);
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
            self.by_name.remove(&(gone.input, gone.name));
            if let Some(moved) = self.routes.get(at) {
                self.by_name.insert((moved.input, moved.name), at as u32);
            }
        }
    }

    /// What all outputs of the neighbour behind `port` together accept of `input`, and what they accept of all; none if
    /// it did not say within `hold`.
    pub(super) fn accepted(&self, port: PortId, input: usize, hold: Span, now: Time) -> Option<(f64, f64)> {
        let (mut own, mut all) = (None, 0.0);
        for behind in &self.neighbors[port.index()].outputs {
            if now.since(behind.told) >= hold {
                continue;
            }
            let rate = behind.rate.as_bytes_per_second_f64();
            all += rate;
            if behind.seen[input].is_some_and(|at| now.since(at) < hold) {
                own = Some(own.unwrap_or(0.0) + behind.shares[input] * rate);
            }
        }
        own.map(|own| (own, all))
    }
}
