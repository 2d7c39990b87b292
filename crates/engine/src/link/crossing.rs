//! What becomes of a packet that has arrived, where that is not plain: a medium may lose it, hold it back or double it, and somebody may
//! want to know of it.

use tidegate_packet::{DropReason, Packet};

use super::transits::Transit;
use super::{Arrival, Link};
use crate::observer::Observer;
use crate::world::World;

impl Link {
    /// Takes the packet at the front, which has arrived, whatever happens to it.
    pub(crate) fn take_arrived<O: Observer>(&mut self, world: &mut World<O>) -> Arrival {
        let transit = self.wire.transits.pop_front().expect("a packet has arrived");
        let Transit { packet, route, ends } = transit;
        self.tally.on_transmitted(ends - packet.arrived);
        let id = self.id();
        if let Some(watch) = &mut self.watch {
            watch.on_transmitted(&packet, ends, id, world);
        }
        if self.medium.is_some() {
            return self.pass_medium(packet, route, world);
        }
        Arrival::Now(self.count_any_delivered(packet, world), route)
    }

    /// What becomes of `packet` on a medium that loses, reorders, duplicates or varies the delay.
    fn pass_medium<O: Observer>(&mut self, packet: Packet, route: u32, world: &mut World<O>) -> Arrival {
        let Some(medium) = &mut self.medium else { return Arrival::Now(packet, route) };
        if medium.loses() {
            self.lose(&packet, world, DropReason::Medium);
            return Arrival::None;
        }
        let held = medium.holds_back();
        let is_doubled = medium.duplicates();
        let shifted = medium.shifts(world.now);
        // One that is held back takes so much longer than in order, and those behind it do not wait for it.
        let held = if held.is_zero() { shifted } else { Some(shifted.unwrap_or_default() + held) };
        let packet = self.count_any_delivered(packet, world);
        if is_doubled {
            self.tally.beyond().duplicated_packets += 1;
            return Arrival::Twice(packet, route, [held, shifted]);
        }
        match held {
            None => Arrival::Now(packet, route),
            Some(held) => Arrival::Later(packet, route, held),
        }
    }

    /// Counts a packet that may be a control message: once, whatever the medium makes of it, and at the same instant as all others.
    fn count_any_delivered<O>(&mut self, packet: Packet, world: &mut World<O>) -> Packet {
        if packet.flow.0 >= world.first_control {
            self.tally.beyond().control_bytes += u64::from(packet.wire_bytes);
        }
        self.count_delivered(packet, world)
    }
}
