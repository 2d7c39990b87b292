//! What a network card holds: packets that have left the queue.

use std::collections::VecDeque;

use tidegate_mechanism::queue::{Device, DeviceConfig};
use tidegate_packet::Packet;
use tidegate_units::Time;

/// The packets of a card's ring.
#[derive(Debug)]
pub(super) struct Ring {
    law: Device,
    waiting: VecDeque<(Packet, u32)>,
    bytes: u64,
}

impl Ring {
    pub(super) const fn new(config: DeviceConfig) -> Self {
        Self { law: config.build(), waiting: VecDeque::new(), bytes: 0 }
    }

    pub(super) const fn has_room(&self) -> bool {
        self.law.has_room()
    }

    /// Packets and bytes.
    pub(super) fn length(&self) -> (u32, u64) {
        (self.waiting.len() as u32, self.bytes)
    }

    pub(super) fn push(&mut self, packet: Packet, route: u32) {
        self.law.on_queued(packet.wire_bytes);
        self.bytes += u64::from(packet.wire_bytes);
        self.waiting.push_back((packet, route));
    }

    /// The packet whose transmission starts at `now`.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, u32)> {
        let (packet, route) = self.waiting.pop_front()?;
        self.law.on_completed(packet.wire_bytes, now);
        self.bytes -= u64::from(packet.wire_bytes);
        Some((packet, route))
    }

    /// Takes out everything: the link went down.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Packet, u32)> {
        self.law.clear();
        self.bytes = 0;
        self.waiting.drain(..)
    }
}
