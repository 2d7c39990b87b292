//! Which links carried packets in vain: those that were dropped later.
//!
//! A trail remembers, by slot of the arena, which links the packet in that slot has crossed. When the packet is dropped its
//! bytes count as wasted on each of them. Nothing of this happens unless somebody asked for it; then a hop costs one more
//! entry in a list that is as long as the packet's way, and lists are reused.

use tidegate_packet::{FlowId, Packet};
use tidegate_units::Time;

use crate::ids::LinkId;

/// The way of one packet so far. A slot serves many packets: flow and instant of creation tell whose trail this is.
#[derive(Debug)]
struct Trail {
    flow: FlowId,
    created: Time,
    links: Vec<LinkId>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trails {
    by_slot: Vec<Trail>,
    /// By [`LinkId`].
    wasted_bytes: Vec<u64>,
    /// What each carried altogether.
    crossed_bytes: Vec<u64>,
}

impl Trails {
    pub(crate) fn new(directions: usize) -> Self {
        Self { by_slot: Vec::new(), wasted_bytes: vec![0; directions], crossed_bytes: vec![0; directions] }
    }

    /// `packet` has used `link`.
    pub(crate) fn on_crossed(&mut self, packet: &Packet, created: Time, link: LinkId) {
        self.crossed_bytes[link.0 as usize] += u64::from(packet.wire_bytes);
        let slot = packet.slot as usize;
        if slot >= self.by_slot.len() {
            let nobody = || Trail { flow: packet.flow, created: Time::MAX, links: Vec::new() };
            self.by_slot.resize_with(slot + 1, nobody);
        }
        let trail = &mut self.by_slot[slot];
        if trail.flow != packet.flow || trail.created != created {
            trail.flow = packet.flow;
            trail.created = created;
            trail.links.clear();
        }
        trail.links.push(link);
    }

    /// `packet` goes on as several, of which some may arrive: what it crossed so far was not in vain.
    pub(crate) fn forget(&mut self, packet: &Packet) {
        if let Some(trail) = self.by_slot.get_mut(packet.slot as usize) {
            trail.links.clear();
        }
    }

    /// `packet` is lost.
    pub(crate) fn on_dropped(&mut self, packet: &Packet, created: Time) {
        let Some(trail) = self.by_slot.get_mut(packet.slot as usize) else { return };
        if trail.flow == packet.flow && trail.created == created {
            for link in trail.links.drain(..) {
                self.wasted_bytes[link.0 as usize] += u64::from(packet.wire_bytes);
            }
        }
    }

    /// Statistics begin now. What is dropped from now on counts, wherever it was before: as much is on its way at the end.
    pub(crate) fn restart(&mut self) {
        self.wasted_bytes.fill(0);
        self.crossed_bytes.fill(0);
    }

    /// Bytes that `link` carried in vain since.
    pub(crate) fn wasted_bytes(&self, link: LinkId) -> u64 {
        self.wasted_bytes[link.0 as usize]
    }

    /// Bytes that `link` carried since.
    pub(crate) fn crossed_bytes(&self, link: LinkId) -> u64 {
        self.crossed_bytes[link.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: [LinkId; 2] = [LinkId(0), LinkId(1)];

    fn packet(slot: u32, bytes: u32) -> Packet {
        Packet::new(slot, FlowId(0), bytes)
    }

    fn wasted(trails: &Trails) -> [u64; 2] {
        LINKS.map(|link| trails.wasted_bytes(link))
    }

    #[test]
    fn a_dropped_packet_wasted_the_links_that_it_crossed() {
        let mut trails = Trails::new(2);
        trails.on_crossed(&packet(3, 100), Time::ZERO, LINKS[0]);
        trails.on_crossed(&packet(3, 100), Time::ZERO, LINKS[1]);
        trails.on_crossed(&packet(1, 10), Time::ZERO, LINKS[0]);
        trails.on_dropped(&packet(1, 10), Time::ZERO);
        assert_eq!(wasted(&trails), [10, 0]);
        trails.on_dropped(&packet(3, 100), Time::ZERO);
        assert_eq!(wasted(&trails), [110, 100]);
        trails.on_dropped(&packet(7, 100), Time::ZERO);
        assert_eq!(wasted(&trails), [110, 100], "it crossed nothing");
        trails.restart();
        assert_eq!(wasted(&trails), [0, 0]);
        trails.on_crossed(&packet(5, 100), Time::ZERO, LINKS[1]);
        assert_eq!(LINKS.map(|link| trails.crossed_bytes(link)), [0, 100]);
    }

    #[test]
    fn a_slot_that_serves_again_does_not_remember_the_packet_before() {
        let mut trails = Trails::new(2);
        trails.on_crossed(&packet(0, 100), Time::ZERO, LINKS[0]);
        // That packet arrived; the next one in its slot is dropped before it crosses anything, the third after one link.
        let later = Time::from_nanos(5);
        trails.on_dropped(&packet(0, 100), later);
        assert_eq!(wasted(&trails), [0, 0]);
        trails.on_crossed(&packet(0, 100), later, LINKS[1]);
        trails.on_dropped(&packet(0, 100), later);
        assert_eq!(wasted(&trails), [0, 100]);
    }

    #[test]
    fn what_a_packet_crossed_before_it_became_several_is_not_wasted() {
        let mut trails = Trails::new(2);
        trails.on_crossed(&packet(0, 100), Time::ZERO, LINKS[0]);
        trails.forget(&packet(0, 100));
        trails.on_crossed(&packet(0, 100), Time::ZERO, LINKS[1]);
        trails.on_dropped(&packet(0, 100), Time::ZERO);
        assert_eq!(wasted(&trails), [0, 100]);
    }
}
