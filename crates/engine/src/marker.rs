//! Where packets get codepoints: a marker at a node, for the packets of some flows that pass there.

use tidegate_mechanism::mark::{AnyMarker, Conditioned, Marker};
use tidegate_packet::{Colour, Packet};
use tidegate_units::Time;

/// What a marker did since the statistics began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkerCounters {
    /// Packets that left it, by colour: green, yellow, red.
    pub packets: [u64; 3],
    /// Their bytes.
    pub bytes: [u64; 3],
    /// Packets that it dropped.
    pub dropped_packets: u64,
}

/// A marker in its place.
#[derive(Debug)]
pub(crate) struct MarkerPoint {
    pub(crate) marker: AnyMarker,
    pub(crate) counters: MarkerCounters,
}

impl MarkerPoint {
    /// `packet` passes.
    #[inline]
    pub(crate) fn pass(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        let said = self.marker.on_packet(packet, now);
        match said {
            Conditioned::Pass => {
                let colour = match packet.dscp.colour() {
                    Colour::Green => 0,
                    Colour::Yellow => 1,
                    Colour::Red => 2,
                };
                self.counters.packets[colour] += 1;
                self.counters.bytes[colour] += u64::from(packet.wire_bytes);
            }
            Conditioned::Drop(_) => self.counters.dropped_packets += 1,
        }
        said
    }
}
