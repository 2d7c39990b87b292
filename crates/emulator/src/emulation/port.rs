//! What the simulation tells the emulation: which packets leave, which buffers are free again, and the verdicts.

use std::collections::VecDeque;
use std::io::Write;

use tidegate_engine::{Carried, NodeId, Observer};
use tidegate_packet::{DropReason, Dscp, Ecn, LinkId, MarkReason, OutsideTcp, Packet, Place};
use tidegate_units::Time;
use tidegate_wire::Buffer;
use tidegate_wire::recording::{Decision, Record, Verdict, Writer};

/// Bits of a handle that name the buffer; the others count packets.
pub(super) const BUFFER_BITS: u32 = 24;

/// A packet that leaves the network for its host.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Which of the real hosts.
    pub host: u32,
    /// When its last bit arrived there.
    pub due: Time,
    /// Where its bytes are.
    pub buffer: Buffer,
    pub(super) ecn: Ecn,
    pub(super) dscp: Dscp,
    pub(super) ttl: u8,
    /// Its TCP header; meaningless if it has none.
    pub(super) tcp: OutsideTcp,
}

/// A packet that has made all hops that it may: where, when, and how it got there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    pub(super) node: NodeId,
    pub(super) at: Time,
    pub(super) buffer: Buffer,
    pub(super) ecn: Ecn,
    pub(super) dscp: Dscp,
    pub(super) ttl: u8,
}

/// What the simulation tells: which packets leave, which buffers are free again, and the verdicts if they are recorded.
#[derive(Debug)]
pub(super) struct Port<W> {
    /// By number of a flow: to which real host; none for simulated flows.
    pub(super) to: Vec<Option<u32>>,
    pub(super) departures: VecDeque<Departure>,
    pub(super) freed: Vec<Buffer>,
    /// Packets that have made all hops that they may.
    pub(super) expired: Vec<Expired>,
    /// Once for each copy that a medium made, and for each acknowledgment that goes on without its data.
    pub(super) shared: Vec<Buffer>,
    pub(super) recording: Option<Writer<W>>,
}

const fn buffer_of(carried: &Carried) -> Buffer {
    Buffer((carried.handle() & ((1 << BUFFER_BITS) - 1)) as u32)
}

impl<W: Write> Port<W> {
    /// The host for which a packet of this flow identity is; none for simulated packets.
    fn host_of(&self, packet: &Packet) -> Option<u32> {
        // Even identities are of data; real acknowledgments are data of flows of their own.
        let flow = packet.flow.0.is_multiple_of(2).then_some(packet.flow.0 / 2)?;
        self.to.get(flow as usize).copied().flatten()
    }

    fn record(&mut self, at: Time, verdict: impl FnOnce() -> Verdict, packet: &Packet, carried: &Carried) {
        if let Some(recording) = &mut self.recording {
            recording.write(&Record::Decision(Decision::new(at, verdict(), packet, carried.handle())));
        }
    }
}

impl<W: Write> Observer for Port<W> {
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        self.record(now, || Verdict::Hop(link, message.unwrap_or_default().to_vec()), packet, carried);
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        self.record(now, || Verdict::Drop(place, why), packet, carried);
        if self.host_of(packet).is_some() {
            let buffer = buffer_of(carried);
            if let (Place::Node(node), DropReason::TtlExpired) = (place, why) {
                let (ecn, dscp) = (packet.ecn, packet.dscp);
                // A router looks before it counts the hop.
                let ttl = packet.ttl.max(1);
                self.expired.push(Expired { node: NodeId(node), at: now, buffer, ecn, dscp, ttl });
            }
            self.freed.push(buffer);
        }
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        self.record(now, || Verdict::Mark(place, why), packet, carried);
    }
    fn on_duplicate(&mut self, _now: Time, packet: &Packet, carried: &Carried) {
        if self.host_of(packet).is_some() {
            self.shared.push(buffer_of(carried));
        }
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        self.record(now, || Verdict::Out(carried.outside_tcp()), packet, carried);
        let host = self.host_of(packet).expect("only packets of real flows leave");
        self.departures.push_back(Departure {
            host,
            due: now,
            buffer: buffer_of(carried),
            ecn: packet.ecn,
            dscp: packet.dscp,
            ttl: packet.ttl,
            tcp: carried.outside_tcp(),
        });
    }
}
