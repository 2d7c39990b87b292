//! The packets that wait in a gateway: their bytes, and what queues and edges ask about them. Each peer may have its part of the
//! buffers, and no more.

use std::num::NonZeroU32;

use tidegate_mechanism::edge::{PacketStore, RawSegment, SegmentEditor};
use tidegate_packet::{Address, DropReason, Dscp, Ecn, Headers, MarkReason, Packet, Sink};
use tidegate_wire::ip::{self, Read};
use tidegate_wire::{Buffer, Pool};

/// Which way a packet goes. Each has buffers of its own, so that what waits to leave keeps nothing from coming in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To another site.
    Out,
    /// From another site.
    In,
}

/// What is known of the packet in a buffer.
#[derive(Clone, Copy, Debug)]
struct About {
    headers: Headers,
    ttl: u8,
    /// Where its TCP header begins; zero if it has none.
    segment_at: u16,
    /// Whose part it takes, and which one.
    peer: u32,
    way: Way,
}

/// What became of packets of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// In front of the shaper or by a marker, by reason: see [`DropReason`].
    pub by_reason: [u64; DropReason::ALL.len()],
    /// Its part of the buffers was full: of what goes to it, and of what comes from it.
    pub no_buffer: [u64; 2],
}

impl Drops {
    /// All of them that were to leave.
    pub fn total(&self) -> u64 {
        self.by_reason.iter().sum::<u64>() + self.no_buffer[Way::Out as usize]
    }
}

/// What became of one packet here, for who writes it down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was dropped: whose it was, its bytes on the wire, and why.
    Dropped(u32, u32, DropReason),
    /// An own queue marked it: the same.
    Marked(u32, u32, MarkReason),
    /// There was no buffer for it.
    Unheld(u32, Way),
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    pool: Pool,
    /// One more, in which what comes in is opened before it is known what it is.
    spare: Buffer,
    about: Box<[Option<About>]>,
    /// By peer, those of either way.
    held: Box<[[u32; 2]]>,
    drops: Box<[Drops]>,
    /// Marks by own queues, by peer.
    marks: Box<[u64]>,
    each: u32,
    /// Told to routers that ask for it, when the call is over.
    pub(super) dropped: Vec<(u32, Packet, Headers, DropReason)>,
    /// Whether they ask.
    pub(super) tells: bool,
    /// What became of packets in this call, where somebody writes it down.
    pub(super) heard: Option<Vec<Fate>>,
}

/// Of which a buffer is.
pub const BUFFER_BYTES: usize = 2048;

/// About how many bytes `buffers` of them take, of both ways.
pub const fn bytes_of(buffers: u32) -> u64 {
    2 * buffers as u64 * (BUFFER_BYTES + size_of::<Option<About>>()) as u64
}

impl Store {
    /// `buffers` of them either way, for `peers` peers.
    pub fn new(buffers: u32, peers: usize) -> Self {
        let count = 2 * buffers + 1;
        let mut pool = Pool::new(count, BUFFER_BYTES);
        let spare = pool.take().expect("nothing is taken yet");
        Self {
            pool,
            spare,
            about: vec![None; count as usize].into(),
            held: vec![[0; 2]; peers].into(),
            drops: vec![Drops::default(); peers].into(),
            marks: vec![0; peers].into(),
            each: (buffers / (peers as u32).max(1)).max(1),
            dropped: Vec::new(),
            tells: false,
            heard: None,
        }
    }

    /// A buffer of the part of `peer`; if there is none the packet is lost.
    pub fn take(&mut self, peer: u32, way: Way) -> Option<Buffer> {
        let held = &mut self.held[peer as usize][way as usize];
        let buffer = if *held < self.each { self.pool.take() } else { None };
        if buffer.is_some() {
            *held += 1;
        } else {
            self.drops[peer as usize].no_buffer[way as usize] += 1;
            self.hear(|| Fate::Unheld(peer, way));
        }
        buffer
    }

    /// Where something may stand that is no packet yet; [`Self::keep`] makes it one.
    pub fn spare(&mut self) -> &mut [u8] {
        self.pool.room(self.spare)
    }

    /// As [`Self::take`]: a buffer in which stands what stood in [`Self::spare`], which has anything in it from then on.
    pub fn keep(&mut self, peer: u32, way: Way) -> Option<Buffer> {
        let next = self.take(peer, way)?;
        self.pool.set_length(next, 0);
        Some(std::mem::replace(&mut self.spare, next))
    }

    /// Room in it.
    pub fn room(&mut self, buffer: Buffer) -> &mut [u8] {
        self.pool.room(buffer)
    }

    /// `buffer`, taken for `peer`, holds a packet of `bytes` bytes, which was `read`.
    pub fn fill(&mut self, buffer: Buffer, (peer, way): (u32, Way), bytes: usize, read: &Read) {
        self.pool.set_length(buffer, bytes);
        let segment_at = read.tcp_at().unwrap_or(0);
        let about = About { headers: read.headers, ttl: read.ttl, segment_at, peer, way };
        self.about[buffer.0 as usize] = Some(about);
    }

    /// The bytes in `buffer`.
    pub fn bytes(&mut self, buffer: Buffer) -> &mut [u8] {
        self.pool.packet(buffer)
    }

    /// The same, with zeros up to the next multiple of `multiple`, of which the size of a buffer is one.
    pub fn padded(&mut self, buffer: Buffer, multiple: usize) -> &[u8] {
        let bytes = self.pool.packet(buffer).len();
        let whole = bytes.next_multiple_of(multiple).min(BUFFER_BYTES);
        let room = self.pool.room(buffer);
        room[bytes..whole].fill(0);
        &room[..whole]
    }

    /// The TCP segment in `buffer`, from its header on.
    pub fn segment_in(&mut self, buffer: Buffer) -> Option<RawSegment<'_>> {
        let at = self.about[buffer.0 as usize]?.segment_at;
        if at == 0 {
            return None;
        }
        RawSegment::parse(self.pool.packet(buffer).get_mut(usize::from(at)..)?)
    }

    /// What queues and markers made of the packet in `buffer` is written into its header.
    pub fn write(&mut self, buffer: Buffer, ecn: Ecn, dscp: Dscp) {
        let Some(about) = self.about[buffer.0 as usize] else { return };
        if (ecn, dscp) != (about.headers.ecn, about.headers.dscp) {
            ip::write(self.pool.packet(buffer), ecn, dscp, about.ttl);
        }
    }

    /// The bytes in `buffer` are not needed any more. It was taken for `peer` and `way`, which counts where it was not filled.
    pub fn release(&mut self, buffer: Buffer, peer: u32, way: Way) {
        let owner = self.about[buffer.0 as usize].take().map(|about| (about.peer, about.way));
        let (peer, way) = owner.unwrap_or((peer, way));
        self.held[peer as usize][way as usize] -= 1;
        self.pool.release(buffer);
    }

    /// What became of packets of `peer`.
    pub fn drops(&self, peer: u32) -> Drops {
        self.drops[peer as usize]
    }

    /// Packets of `peer` that own queues have marked.
    pub fn marks(&self, peer: u32) -> u64 {
        self.marks[peer as usize]
    }

    /// Buffers that `peer` has, the more of both ways, and those that it may have.
    pub fn held(&self, peer: u32) -> (u32, u32) {
        let [out, come] = self.held[peer as usize];
        (out.max(come), self.each)
    }

    /// Buffers in use.
    pub const fn used(&self) -> usize {
        self.pool.used() - 1
    }

    fn hear(&mut self, fate: impl FnOnce() -> Fate) {
        if let Some(heard) = &mut self.heard {
            heard.push(fate());
        }
    }

    fn peer_of(&self, packet: &Packet) -> u32 {
        self.about[packet.slot as usize].map_or(0, |about| about.peer)
    }
}

impl Sink for Store {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        let peer = self.peer_of(&packet);
        self.drops[peer as usize].by_reason[why.index()] += 1;
        self.hear(|| Fate::Dropped(peer, packet.wire_bytes, why));
        if self.tells {
            self.dropped.push((peer, packet, PacketStore::headers(self, &packet), why));
        }
        self.release(Buffer(packet.slot), peer, Way::Out);
    }

    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        let peer = self.peer_of(packet);
        self.marks[peer as usize] += 1;
        self.hear(|| Fate::Marked(peer, packet.wire_bytes, why));
    }

    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        self.about[packet.slot as usize].map(|about| (about.headers.source, about.headers.destination))
    }
}

impl PacketStore for Store {
    fn headers(&self, packet: &Packet) -> Headers {
        self.about[packet.slot as usize].expect("a packet that waits has headers").headers
    }

    fn stamp(&mut self, _packet: &Packet, _stamp: NonZeroU32) {}

    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor> {
        self.segment_in(Buffer(packet.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_padded_with_zeros_whatever_was_in_its_buffer() {
        let mut store = Store::new(1, 1);
        for bytes in [1, 15, 16, 17, BUFFER_BYTES - 1, BUFFER_BYTES] {
            let buffer = store.take(0, Way::Out).expect("nothing waits");
            store.room(buffer).fill(0xff);
            store.pool.set_length(buffer, bytes);
            let padded = store.padded(buffer, 16);
            assert_eq!(padded.len(), bytes.next_multiple_of(16));
            assert!(padded[..bytes].iter().all(|&byte| byte == 0xff), "{bytes}");
            assert!(padded[bytes..].iter().all(|&byte| byte == 0), "{bytes}");
            store.release(buffer, 0, Way::Out);
        }
    }
    #[test]
    fn what_stands_in_the_spare_buffer_is_kept_until_there_is_none_for_it() {
        let mut store = Store::new(2, 1);
        let mut kept = Vec::new();
        for byte in 0..3 {
            store.spare().fill(byte);
            kept.extend(store.keep(0, Way::In));
        }
        assert_eq!((kept.len(), store.used()), (2, 2));
        assert_eq!(store.drops(0).no_buffer, [0, 1]);
        for (byte, buffer) in (0..).zip(kept) {
            assert!(store.room(buffer).iter().all(|&there| there == byte));
            store.release(buffer, 0, Way::In);
        }
        assert_eq!(store.used(), 0);
        assert!(store.spare().iter().all(|&there| there == 2), "it is still there");
    }
}
