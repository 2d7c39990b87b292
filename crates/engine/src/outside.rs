//! The TCP header of a packet from outside, where a simulated packet has its own.

use tidegate_mechanism::edge::SegmentEditor;
use tidegate_packet::{OutsideTcp, TcpFlags, TcpHeader};

/// `tcp` as [`Carried`](crate::arena::Carried) keeps it, where the sequence number is the handle: both numbers of the wire in
/// the 64 bits of the acknowledgment, the scale above the window.
pub(crate) fn pack(tcp: OutsideTcp, handle: u64) -> TcpHeader {
    let flags = TcpFlags::NONE
        .with_if(tcp.has_ack, TcpFlags::ACK)
        .with_if(tcp.ecn_echo, TcpFlags::ECE)
        .with_if(tcp.announced_shift.is_some(), TcpFlags::SYN);
    TcpHeader {
        sequence: handle,
        acknowledgment: u64::from(tcp.sequence) << 32 | u64::from(tcp.acknowledgment),
        payload_bytes: u32::from(tcp.payload_bytes),
        window_bytes: u32::from(tcp.announced_shift.unwrap_or(0)) << 16 | u32::from(tcp.window),
        flags,
        ..TcpHeader::default()
    }
}

/// What [`pack`] put there, with what was changed since.
pub(crate) const fn unpack(tcp: &TcpHeader) -> OutsideTcp {
    OutsideTcp {
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

/// The largest window scale that counts (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;

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
