//! Measurements of one direction of a link that somebody asked for: packets of other links pay nothing for them.

use tidegate_packet::Packet;
use tidegate_units::Time;

use crate::counters::Delays;
use crate::ids::LinkId;
use crate::world::World;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The distribution of times in the queue.
    pub(crate) delays: Option<Delays>,
    /// Bytes delivered, by flow identity; empty if not wanted.
    pub(crate) bytes_by_flow: Vec<u64>,
    /// Whether packets that cross it leave a trail in the world.
    pub(crate) leaves_trails: bool,
}

impl Watch {
    /// The last bit of `packet` left `link` at `ends`.
    pub(super) fn on_transmitted<O>(
        &mut self,
        packet: &Packet,
        ends: Time,
        link: LinkId,
        world: &mut World<O>,
    ) {
        if let Some(delays) = &mut self.delays {
            delays
                .record((ends - packet.arrived).as_nanos())
                .expect("a distribution that grows takes any value");
        }
        if let Some(bytes) = self.bytes_by_flow.get_mut(packet.flow.0 as usize) {
            *bytes += u64::from(packet.wire_bytes);
        }
        if self.leaves_trails
            && let Some(trails) = &mut world.trails
        {
            trails.on_crossed(packet, world.arena.get(packet).created, link);
        }
    }
}
