//! The way of a packet: from link to link, and from step to step of its program.

use std::collections::VecDeque;

use tidegate_mechanism::mark::Conditioned;
use tidegate_packet::{DropReason, Packet, Place};
use tidegate_units::{Span, Time};

use super::Simulation;
use crate::arena::Carried;
use crate::ids::LinkId;
use crate::link::{Arrival, Link};
use crate::observer::Observer;
use crate::program::{Pause, Step};
use crate::world::{Wake, World};

/// A packet that waits behind a link.
#[derive(Debug)]
pub(crate) struct Held {
    until: Time,
    packet: Packet,
    /// Where it stands in its program.
    route: u32,
}

impl<O: Observer> Simulation<O> {
    /// The event of link `index`. What packets meet mostly is done here, the rest in [`Self::on_arrived`].
    #[expect(clippy::inline_always, reason = "once per packet and hop")]
    #[inline(always)]
    pub(crate) fn on_link(&mut self, index: u32) {
        let links = &mut self.links[..];
        let link = &mut links[index as usize];
        if !link.on_wake(&mut self.world) {
            return;
        }
        let Some(route) = link.plain_arrival().filter(|_| !O::WATCHES) else {
            return self.on_arrived(index);
        };
        match self.programs.link(route) {
            Some(next) => {
                let is_gone = match links.get_disjoint_mut([index as usize, next.0 as usize]) {
                    Ok([from, onto]) => from.forward(onto, &mut self.world),
                    Err(_) => false,
                };
                if !is_gone {
                    self.on_arrived(index);
                }
            }
            None => match self.programs.step(route) {
                Step::TcpData(connection) => {
                    let packet = link.take_plain(&mut self.world);
                    self.on_tcp_data(connection, &packet);
                }
                Step::TcpAck(connection) => {
                    let packet = link.take_plain(&mut self.world);
                    self.on_tcp_ack(connection, &packet);
                }
                Step::Datagram(sink) => {
                    let packet = link.take_plain(&mut self.world);
                    self.on_datagram(sink, &packet);
                }
                _ => self.on_arrived(index),
            },
        }
    }

    /// The packet at the front of link `index` arrived there.
    #[inline(never)]
    pub(crate) fn on_arrived(&mut self, index: u32) {
        match self.links[index as usize].take_arrived(&mut self.world) {
            Arrival::Now(packet, route) => self.arrive(packet, route, LinkId(index)),
            Arrival::Later(packet, route, held) => self.hold(packet, route, held, LinkId(index)),
            Arrival::Twice(packet, route, waits) => self.on_doubled(packet, route, waits, LinkId(index)),
            Arrival::None => {}
        }
    }

    /// A medium made two of `packet`, which may both be held back.
    #[cold]
    fn on_doubled(&mut self, packet: Packet, route: u32, waits: [Option<Span>; 2], link: LinkId) {
        // Made before the packet itself goes on, which may be its end.
        let copy = self.world.duplicate(&packet);
        for (one, held) in [packet, copy].into_iter().zip(waits) {
            match held {
                None => self.arrive(one, route, link),
                Some(held) => self.hold(one, route, held, link),
            }
        }
    }

    /// `packet` stays behind `link` for as long as that.
    fn hold(&mut self, packet: Packet, route: u32, held: Span, link: LinkId) {
        let until = self.world.now + held;
        let place = link.0 as usize;
        if place >= self.held.len() {
            self.held.resize_with(place + 1, VecDeque::new);
        }
        let waiting = &mut self.held[place];
        // Those of one instant stay in order. A medium that lets nothing overtake comes last.
        let behind = waiting.partition_point(|one| one.until <= until);
        waiting.insert(behind, Held { until, packet, route });
        self.world.events.schedule(until, Wake::Held.token(link.0));
    }

    /// The first of those that wait behind link `index` goes on: for each of them there is an event.
    pub(super) fn on_held(&mut self, index: u32) {
        if let Some(held) = self.held[index as usize].pop_front() {
            self.arrive(held.packet, held.route, LinkId(index));
        }
    }

    /// A packet has waited at its host.
    pub(super) fn on_pause(&mut self, way: u32) {
        if let Some((packet, then)) = self.ties.leave(way) {
            self.advance(packet, then);
        }
    }

    /// `packet` came over `link`.
    fn arrive(&mut self, mut packet: Packet, route: u32, link: LinkId) {
        if O::WATCHES {
            let carried = self.world.arena.get(&packet);
            let message =
                (carried.message != Carried::NO_MESSAGE).then(|| self.world.messages.bytes(carried.message));
            self.world.observer.on_delivered(self.world.now, link, &packet, carried, message);
        }
        let Link { to_router, to_node, .. } = self.links[link.0 as usize];
        if to_router && self.programs.step(route).leads_on() {
            packet.ttl -= 1;
            if packet.ttl == 0 {
                self.world.drop_packet(&packet, Place::Node(to_node), DropReason::TtlExpired);
                return;
            }
        }
        self.advance(packet, route);
    }

    /// Tells the observer that a host sends `packet`.
    #[inline]
    pub(crate) fn tell_sent(&mut self, packet: &Packet) {
        if O::WATCHES {
            self.world.observer.on_sent(self.world.now, packet, self.world.arena.get(packet));
        }
    }

    /// A host or a source sends `packet` on its way.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet, route: u32) {
        self.tell_sent(&packet);
        match self.programs.link(route) {
            Some(link) => self.links[link.0 as usize].offer(&packet, route + 1, &mut self.world),
            None => self.advance(packet, route),
        }
    }

    /// The same, compiled into its caller.
    #[expect(clippy::inline_always, reason = "once per segment and acknowledgment")]
    #[inline(always)]
    pub(crate) fn send_often(&mut self, packet: &Packet, route: u32) {
        self.tell_sent(packet);
        match self.programs.link(route) {
            Some(link) => {
                self.links[link.0 as usize].offer_often(packet, |_| {}, route + 1, &mut self.world);
            }
            None => self.advance(*packet, route),
        }
    }

    /// `packet` goes on from position `route` of its program.
    pub(crate) fn advance(&mut self, mut packet: Packet, mut route: u32) {
        loop {
            match self.programs.step(route) {
                Step::Link(link) => {
                    self.links[link.0 as usize].offer(&packet, route + 1, &mut self.world);
                    return;
                }
                Step::Hop(link) => return self.offer_hop(link, packet, route + 1),
                Step::TcpData(connection) => return self.on_tcp_data(connection, &packet),
                Step::TcpAck(connection) => return self.on_tcp_ack(connection, &packet),
                Step::CrowdData(connection) => return self.on_crowd_data(connection, &packet),
                Step::CrowdAck(connection) => return self.on_crowd_ack(connection, &packet),
                Step::StreamData(stream) => return self.on_stream_data(stream, &packet),
                Step::StreamReport(stream) => return self.on_stream_report(stream, &packet),
                Step::Datagram(sink) => return self.on_datagram(sink, &packet),
                Step::External(sink) => return self.on_external(sink, &packet),
                Step::Ingress(passage) => match self.enter(passage, &mut packet, route + 1) {
                    Some(()) => {}
                    None => return,
                },
                Step::Label(border) => self.label(border, &mut packet),
                Step::Mark(marker) => {
                    let said = self.markers[marker as usize].pass(&mut packet, self.world.now);
                    if let Conditioned::Drop(why) = said {
                        self.world.drop_packet(&packet, Place::Marker(marker), why);
                        return;
                    }
                }
                Step::Egress(departure) => self.leave(departure, &mut packet),
                Step::Branch(branch) => return self.branch(branch, packet),
                Step::Pause(pause) => {
                    let Pause { then, way } = self.programs.pauses[pause as usize];
                    let until = self.ties.until(way, self.world.now);
                    self.ties.wait(way, packet, then);
                    self.world.events.schedule(until, Wake::Pause.token(way));
                    return;
                }
                Step::Control(border) => return self.on_control(border, &packet),
                Step::Neighbor(node) => return self.on_neighbor(node, &packet),
                Step::Nowhere => {
                    self.world.drop_packet(&packet, Place::Node(u32::MAX), DropReason::NoRoute);
                    return;
                }
            }
            route += 1;
        }
    }

    fn branch(&mut self, branch: u32, packet: Packet) {
        let count = self.programs.branches[branch as usize].len();
        let forget = |world: &mut World<O>, parted: &Packet| {
            if let Some(trails) = &mut world.trails {
                trails.forget(parted);
            }
        };
        forget(&mut self.world, &packet);
        for index in 0..count {
            let route = self.programs.branches[branch as usize][index];
            let mut copy = packet;
            if index + 1 < count {
                copy.slot = self.world.arena.insert(*self.world.arena.get(&packet));
                self.world.stamps.copy(&packet, &copy);
                self.world.totals.created += 1;
                forget(&mut self.world, &copy);
            }
            self.advance(copy, route);
        }
    }
}
