//! Peers that are no good ones: whose reports are not true, and one that says what it can.

use tidegate_gateway::core::envelope::{ENVELOPE_BYTES, Envelope, HEADER_BYTES, Kind, LINK_ADDRESS};
use tidegate_gateway::core::store::BUFFER_BYTES;
use tidegate_gateway::tunnel::plain::PlainTunnels;
use tidegate_gateway::tunnel::{Tunnel, Tunnels};
use tidegate_mechanism::edge::path::wire::{Message, REPORT_BYTES, decode};
use tidegate_mechanism::random::Substream;
use tidegate_units::{Span, Time};

use super::World;

/// An exhausting peer says so much per second.
const SHOUTS_PER_SECOND: u64 = 4000;

/// What an exhausting peer writes outside, by which its datagrams are known here.
pub(super) const SHOUTED: u8 = 0x20;

/// A peer that is no gateway, and says what it can.
pub(super) struct Shouter {
    pub site: usize,
    pub tunnels: PlainTunnels,
    pub random: Substream,
    pub next: Time,
}

impl World<'_> {
    /// An exhausting peer says something.
    pub(super) fn shout(&mut self) {
        let Some(mut shouter) = self.shouter.take() else { return };
        shouter.next = self.now + Span::from_nanos(1_000_000_000 / SHOUTS_PER_SECOND);
        let (site, now) = (shouter.site, self.now);
        let mut room = vec![0; BUFFER_BYTES];
        shouter.tunnels.tunnel(0).want(now);
        while let Some(bytes) = shouter.tunnels.tunnel(0).poll(now, &mut room) {
            self.inject((site, 0), SHOUTED, &room[..bytes]);
        }
        let mut inside = vec![0; 200];
        let random = &mut shouter.random;
        let kinds = [
            Kind::Hello,
            Kind::Answer,
            Kind::Control,
            Kind::Bye,
            Kind::Probe,
            Kind::Probed,
            Kind::Hop,
            Kind::Relay,
        ];
        let kind = kinds[random.below(kinds.len() as u32) as usize];
        let envelope = Envelope {
            kind,
            link: random.below(256) as u8,
            incarnation: random.bits(),
            number: random.bits() as u32,
            echo: random.bits(),
        };
        let body: Vec<u8> = (0..random.below(100)).map(|_| random.bits() as u8).collect();
        let length = if random.chance(0.7) {
            envelope.write(&body, &mut inside).unwrap_or(0)
        } else {
            inside.fill_with(|| random.bits() as u8);
            inside[0] = 0x45;
            inside.len()
        };
        if let Some(bytes) = shouter.tunnels.tunnel(0).seal(&inside[..length], now, &mut room) {
            self.inject((site, 0), SHOUTED, &room[..bytes]);
        }
        self.shouter = Some(shouter);
    }
}

/// Where in a packet between gateways a report of path control begins.
pub(super) fn report_in(packet: &[u8]) -> Option<usize> {
    let at = HEADER_BYTES + ENVELOPE_BYTES;
    let is_control =
        packet.get(24..40)? == LINK_ADDRESS && *packet.get(HEADER_BYTES + 1)? == Kind::Control.number();
    let body = packet.get(at..at + REPORT_BYTES)?;
    (is_control && matches!(decode(body), Ok(Message::Report(_)))).then_some(at)
}

/// Reports say that `factor` times as much has arrived.
pub(super) fn lie(packet: &mut [u8], factor: f64) -> bool {
    if let Some(at) = report_in(packet)
        && let Ok(Message::Report(mut report)) = decode(&packet[at..at + REPORT_BYTES])
    {
        report.received_bytes = (report.received_bytes as f64 * factor) as u64;
        report.received_packets = (report.received_packets as f64 * factor) as u64;
        packet[at..at + REPORT_BYTES].copy_from_slice(&report.encode());
    }
    true
}
