//! Packets from outside: how a world with real hosts drives a simulation.
//!
//! [`Simulation::step`] handles one event that is due, [`Simulation::inject`] brings in a packet, and the observer is told
//! of each that leaves again ([`Observer::on_external`]) or is dropped. Time remains virtual: every event has its due
//! instant as `now`, however late the caller is. So what happens depends on the packets brought in and their instants alone,
//! and not on when the caller looked: the same calls of `inject` give the same run, in real time or later.

use tidegate_mechanism::edge::SegmentEditor;
use tidegate_packet::{Dscp, Ecn, Headers, TcpFlags, TcpHeader};
use tidegate_units::Time;

use crate::arena::Carried;
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::simulation::{Carrier, Simulation};

/// A packet that comes from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its flow, by number; one with [`crate::TransportSpec::External`].
    pub flow: u32,
    /// What its owner calls it; see [`Carried::handle`].
    pub handle: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: Dscp,
    /// Hops it may still make; zero counts as one.
    pub ttl: u8,
    /// What edges read of its TCP header, if it has one.
    pub tcp: Option<OutsideTcp>,
}

/// The fields of a real TCP header that edges and routers read. They may lower the window and the acknowledgment, and set the echo;
/// a last hop sends acknowledgments on by themselves, without payload and with a later sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutsideTcp {
    /// First payload byte.
    pub sequence: u32,
    /// The next byte expected.
    pub acknowledgment: u32,
    /// Payload bytes; none left where the packet is the acknowledgment alone.
    pub payload_bytes: u16,
    /// The window as it stands in the header.
    pub window: u16,
    /// Whether `acknowledgment` counts.
    pub has_ack: bool,
    /// The echo of a congestion mark.
    pub ecn_echo: bool,
    /// The window scale that a SYN announces (0 where it announces none); none where this is no SYN.
    pub announced_shift: Option<u8>,
}

impl OutsideTcp {
    /// As [`Carried`] keeps it, where the sequence number is the handle: both numbers of the wire in the 64 bits of the
    /// acknowledgment, the scale above the window.
    fn pack(self, handle: u64) -> TcpHeader {
        let flags = TcpFlags::NONE
            .with_if(self.has_ack, TcpFlags::ACK)
            .with_if(self.ecn_echo, TcpFlags::ECE)
            .with_if(self.announced_shift.is_some(), TcpFlags::SYN);
        TcpHeader {
            sequence: handle,
            acknowledgment: u64::from(self.sequence) << 32 | u64::from(self.acknowledgment),
            payload_bytes: u32::from(self.payload_bytes),
            window_bytes: u32::from(self.announced_shift.unwrap_or(0)) << 16 | u32::from(self.window),
            flags,
            ..TcpHeader::default()
        }
    }

    /// What [`pack`](Self::pack) put there, with what was changed since.
    pub(crate) const fn unpack(tcp: &TcpHeader) -> Self {
        Self {
            sequence: (tcp.acknowledgment >> 32) as u32,
            acknowledgment: tcp.acknowledgment as u32,
            payload_bytes: tcp.payload_bytes as u16,
            window: tcp.window_bytes as u16,
            has_ack: tcp.flags.contains(TcpFlags::ACK),
            ecn_echo: tcp.flags.contains(TcpFlags::ECE),
            announced_shift: if tcp.flags.contains(TcpFlags::SYN) {
                Some((tcp.window_bytes >> 16) as u8)
            } else {
                None
            },
        }
    }
}

/// The TCP header of a packet from outside in passing.
pub(crate) struct OutsideSegment<'a>(pub(crate) &'a mut TcpHeader);

impl OutsideSegment<'_> {
    /// Begins at `number` instead.
    pub(crate) fn set_sequence(&mut self, number: u32) {
        self.0.acknowledgment = u64::from(number) << 32 | self.0.acknowledgment & 0xffff_ffff;
    }
}

impl SegmentEditor for OutsideSegment<'_> {
    fn sequence(&self) -> u32 {
        (self.0.acknowledgment >> 32) as u32
    }
    fn payload_bytes(&self) -> u32 {
        self.0.payload_bytes
    }
    fn acknowledgment(&self) -> Option<u32> {
        self.0.flags.contains(TcpFlags::ACK).then_some(self.0.acknowledgment as u32)
    }
    fn is_syn(&self) -> bool {
        self.0.flags.contains(TcpFlags::SYN)
    }
    fn announced_shift(&self) -> Option<u8> {
        self.is_syn().then_some((self.0.window_bytes >> 16) as u8)
    }
    fn window_bytes(&self, shift: u8) -> u32 {
        // The window of a SYN is never scaled (RFC 7323, section 2.2).
        (self.0.window_bytes & 0xffff) << if self.is_syn() { 0 } else { shift.min(SHIFT_MAX) }
    }
    fn set_window_bytes(&mut self, bytes: u32, shift: u8) {
        let shift = if self.is_syn() { 0 } else { shift.min(SHIFT_MAX) };
        let window = bytes.div_ceil(1 << shift).min(0xffff);
        self.0.window_bytes = self.0.window_bytes & !0xffff | window;
    }
    fn set_acknowledgment(&mut self, number: u32) {
        self.0.acknowledgment = self.0.acknowledgment & !0xffff_ffff | u64::from(number);
    }
    fn set_ecn_echo(&mut self) {
        self.0.flags = self.0.flags.union(TcpFlags::ECE);
    }
}

/// The TCP header of any packet in passing.
pub(crate) enum AnySegment<'a> {
    /// Of a simulated connection.
    Simulated(&'a mut TcpHeader),
    /// Of a packet from outside.
    Outside(OutsideSegment<'a>),
}

/// Asks whichever segment it is.
macro_rules! any_segment {
    ($self:ident, $segment:ident => $answer:expr) => {
        match $self {
            Self::Simulated($segment) => $answer,
            Self::Outside($segment) => $answer,
        }
    };
}

impl SegmentEditor for AnySegment<'_> {
    fn sequence(&self) -> u32 {
        any_segment!(self, segment => segment.sequence())
    }
    fn payload_bytes(&self) -> u32 {
        any_segment!(self, segment => segment.payload_bytes())
    }
    fn acknowledgment(&self) -> Option<u32> {
        any_segment!(self, segment => segment.acknowledgment())
    }
    fn is_syn(&self) -> bool {
        any_segment!(self, segment => segment.is_syn())
    }
    fn announced_shift(&self) -> Option<u8> {
        any_segment!(self, segment => segment.announced_shift())
    }
    fn window_bytes(&self, shift: u8) -> u32 {
        any_segment!(self, segment => segment.window_bytes(shift))
    }
    fn set_window_bytes(&mut self, bytes: u32, shift: u8) {
        any_segment!(self, segment => segment.set_window_bytes(bytes, shift));
    }
    fn set_acknowledgment(&mut self, number: u32) {
        any_segment!(self, segment => segment.set_acknowledgment(number));
    }
    fn set_ecn_echo(&mut self) {
        any_segment!(self, segment => segment.set_ecn_echo());
    }
}

/// The largest window scale that counts (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;

impl<O: Observer> Simulation<O> {
    /// When the next event is due. It may turn out that nothing happens then.
    pub fn next_event(&self) -> Option<Time> {
        self.world.events.peek()
    }

    /// Handles the next event if it is due at `until` or before; when it was due.
    pub fn step(&mut self, until: Time) -> Option<Time> {
        if self.next_event()? > until {
            return None;
        }
        let (due, token) = self.world.events.pop()?;
        self.world.now = due;
        self.world.totals.events += 1;
        self.handle(token);
        Some(due)
    }

    /// Handles every event that is due at `until` or before; then it is `until`, unless it was later already.
    pub fn step_until(&mut self, until: Time) {
        while self.step(until).is_some() {}
        self.world.now = self.world.now.max(until);
    }

    /// `arrival` comes in at `at`, after every event of that instant; at the present instant if that is later.
    ///
    /// # Panics
    /// If the flow is none for packets from outside.
    pub fn inject(&mut self, arrival: &Arrival, at: Time) {
        self.step_until(at);
        let now = self.world.now;
        let flow = &mut self.flows[arrival.flow as usize];
        assert!(
            matches!(flow.carrier, Carrier::External),
            "flow {} takes no packets from outside",
            arrival.flow
        );
        let route = flow.forward.choose();
        let class = flow.class;
        let tcp = arrival.tcp.unwrap_or_default().pack(arrival.handle);
        let carried = Carried { created: now, route: 0, message: Carried::NO_MESSAGE, tcp };
        let mut packet = self.world.create(FlowIds::data(arrival.flow), arrival.wire_bytes, carried);
        packet.ecn = arrival.ecn;
        packet.dscp = arrival.dscp;
        packet.class = class;
        packet.ttl = arrival.ttl.max(1);
        self.advance(packet, route);
    }

    /// From now on classifiers see `headers` on the packets of flow `flow`.
    ///
    /// # Panics
    /// If the flow is none for packets from outside.
    pub fn set_headers(&mut self, flow: u32, headers: Headers) {
        let flow = &mut self.flows[flow as usize];
        assert!(matches!(flow.carrier, Carrier::External), "the headers of simulated flows are fixed");
        flow.headers = headers;
    }

    /// The observer, to change.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.world.observer
    }

    pub(crate) fn on_external(&mut self, sink: u32, packet: &tidegate_packet::Packet) {
        let carried = *self.world.arena.get(packet);
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, self.world.now, packet, carried.created);
        self.watch_delay(sink, carried.created);
        self.world.observer.on_external(self.world.now, packet, &carried);
        self.world.retire(packet);
    }
}
