//! What the tests of halves have around them: packets of one UDP flow, and a record of what a half says and sets.
//!
//! Source: none; it serves tests only.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use tidegate_packet::{Address, Backlog, DropReason, Headers, MarkReason, Packet, Protocol, Sink, TcpHeader};
use tidegate_units::BitRate;

use super::{AggregateId, EdgeOut, PacketStore, PeerId, SegmentEditor};

/// Those of the one flow.
pub(crate) const HEADERS: Headers =
    Headers::best_effort(Protocol::UDP, (Address::V4([10, 0, 0, 1]), 1), (Address::V4([10, 0, 0, 2]), 2));

/// What a half said, and the rate and the stamp that it set last.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) sent: Vec<Vec<u8>>,
    /// To whom.
    pub(crate) to: Vec<PeerId>,
    pub(crate) rate: Option<BitRate>,
    pub(crate) stamp: Option<NonZeroU32>,
    /// Packets of 1000 bytes that wait to enter, as the half is told.
    pub(crate) waiting: u32,
}

impl EdgeOut for Said {
    fn open(&mut self, _aggregate: AggregateId, rate: BitRate) {
        self.rate = Some(rate);
    }
    fn set_rate(&mut self, _aggregate: AggregateId, rate: BitRate) {
        self.rate = Some(rate);
    }
    fn close(&mut self, _aggregate: AggregateId) {}
    fn backlog(&self, _aggregate: AggregateId) -> Backlog {
        Backlog { packets: self.waiting, bytes: u64::from(self.waiting) * 1000 }
    }
    fn send(&mut self, to: PeerId, message: &[u8]) {
        self.to.push(to);
        self.sent.push(message.to_vec());
    }
}

impl Sink for Said {
    fn on_drop(&mut self, _packet: Packet, _why: DropReason) {}
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
}

impl PacketStore for Said {
    fn headers(&self, _packet: &Packet) -> Headers {
        HEADERS
    }
    fn stamp(&mut self, _packet: &Packet, stamp: NonZeroU32) {
        self.stamp = Some(stamp);
    }
    fn segment(&mut self, _packet: Packet) -> Option<impl SegmentEditor> {
        None::<TcpHeader>
    }
}
