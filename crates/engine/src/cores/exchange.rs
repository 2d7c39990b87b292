//! Packets that leave one part for another.

use std::sync::Arc;

use tidegate_mechanism::scream::Report;
use tidegate_packet::Packet;
use tidegate_units::Time;

use super::{Division, Part};
use crate::arena::{Carried, Stamp};
use crate::event::EventQueue;
use crate::ids::LinkId;
use crate::observer::Observer;
use crate::simulation::Simulation;
use crate::world::{Wake, World};

/// A packet on the way of a link that is cut, with all that is known of it.
#[derive(Debug)]
pub(crate) struct Export {
    link: LinkId,
    packet: Packet,
    carried: Carried,
    /// When its last bit was sent.
    ends: Time,
    /// Where it stands in its program, which is the same in all parts.
    route: u32,
    /// What few packets have.
    rest: Option<Box<Rest>>,
}

// They are copied from core to core: two lines of a cache.
const _: () = assert!(size_of::<Export>() == 128);

/// What a packet has besides, if it has it.
#[derive(Debug)]
struct Rest {
    /// What it says, if it is a control message.
    message: Option<Box<[u8]>>,
    /// What borders wrote on it.
    stamps: Option<Box<[Stamp]>>,
    /// What it says, if it is a report of a media stream that is too long for a header.
    report: Option<Report>,
}

impl<O: Observer> Simulation<O> {
    /// From now on, before anything has happened, this is part `number`: what belongs to others is not woken.
    pub(super) fn become_part(&mut self, number: usize, division: Arc<Division>) {
        let mut events = EventQueue::default();
        while let Some((at, token)) = self.world.events.pop() {
            let (wake, index) = Wake::of(token);
            let of = match wake {
                Wake::Link | Wake::HopLink | Wake::Cut => division.near(LinkId(index)),
                Wake::Source => division.source(index as usize),
                Wake::Edge | Wake::Shaper => division.of_node(self.borders[index as usize].node),
                // What changes the network changes it in every part.
                _ => number,
            };
            if of == number {
                events.schedule(at, token);
            }
        }
        self.world.events = events;
        let mut silent = Vec::new();
        for index in 0..self.links.len() as u32 {
            let (near, far) = (division.near(LinkId(index)), division.far(LinkId(index)));
            if near != far && near == number {
                if self.links[index as usize].keep_the_queue(Wake::Cut.token(index)) {
                    silent.push((index, far as u8));
                }
            } else if near != far && far == number {
                self.links[index as usize].keep_the_way();
            }
        }
        let outbox = (0..division.parts()).map(|_| Vec::new()).collect();
        self.part = Some(Box::new(Part { number, division, silent, outbox }));
        self.plan_messages();
    }

    /// The last bit of a packet left on a link that is cut, and that tells of it by events.
    #[inline(never)]
    pub(crate) fn on_cut(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if !link.on_wake(&mut self.world) {
            return;
        }
        let taken = link.take_off(Time::MAX).expect("a packet has been sent");
        let export = export(LinkId(index), taken, &mut self.world);
        let part = self.part.as_mut().expect("only parts have links that are cut");
        part.outbox[part.division.far(LinkId(index))].push(export);
    }

    /// Writes down what left for part `to` before `end`, at the end of a window; when the first of it did.
    pub(super) fn export_to(&mut self, to: usize, end: Time, letters: &mut Vec<Export>) -> Time {
        let part = self.part.as_mut().expect("only parts have links that are cut");
        letters.append(&mut part.outbox[to]);
        let mut first = letters.first().map_or(Time::MAX, |export| export.ends);
        for &(index, _) in part.silent.iter().filter(|(_, far)| usize::from(*far) == to) {
            let link = &mut self.links[index as usize];
            link.settle_before(end);
            first = first.min(link.next_leaves());
            while let Some(taken) = link.take_off(end) {
                letters.push(export(LinkId(index), taken, &mut self.world));
            }
        }
        first
    }

    /// An instant before which nothing happens here that others have to know of.
    pub(super) fn not_before(&self) -> Time {
        let silent = self.part.iter().flat_map(|part| &part.silent);
        let leaves = silent.map(|&(index, _)| self.links[index as usize].next_leaves());
        leaves.fold(self.world.events.not_before(), Time::min)
    }

    /// A packet of another part is on its way here.
    #[inline]
    pub(super) fn import(&mut self, export: &Export) {
        let world = &mut self.world;
        let packet = Packet { slot: world.arena.insert(export.carried), ..export.packet };
        let rest = export.rest.as_deref();
        if let Some(message) = rest.and_then(|rest| rest.message.as_deref()) {
            world.arena.get_mut(&packet).message = world.messages.insert(message);
        }
        world.stamps.put(&packet, rest.and_then(|rest| rest.stamps.as_deref()));
        if let Some(report) = rest.and_then(|rest| rest.report.as_ref()) {
            world.reports.write(&packet, export.carried.tcp.sequence, report);
        }
        world.departures.forget(&packet);
        self.links[export.link.0 as usize].take_on(packet, export.ends, export.route, world);
    }

    pub(super) fn number(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.number)
    }
}

/// `packet`, whose last bit was sent at `ends`, leaves this part.
#[inline]
fn export<O>(link: LinkId, (packet, ends, route): (Packet, Time, u32), world: &mut World<O>) -> Export {
    let carried = *world.arena.get(&packet);
    let message = carried.is_message().then(|| {
        let bytes = world.messages.bytes(carried.message).into();
        world.messages.release(carried.message, None);
        bytes
    });
    let stamps = world.stamps.copied(&packet);
    let report = world.reports.of(&packet, carried.tcp.sequence).copied();
    world.departures.forget(&packet);
    world.arena.release(&packet);
    let has_more = message.is_some() || stamps.is_some() || report.is_some();
    let rest = has_more.then(|| Box::new(Rest { message, stamps, report }));
    Export { link, packet, carried, ends, route, rest }
}
