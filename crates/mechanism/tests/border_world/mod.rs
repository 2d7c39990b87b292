//! A world around a border that knows no rules: any order of calls, any bytes, clocks that go back. For the tests of borders and the
//! fuzz target `border`.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each program takes what it needs of it")]

pub mod peers;

use std::num::NonZeroU32;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{
    Border, BorderSite, EdgeConfig, PacketStore, PeerId, SegmentEditor, Transmit,
};
use tidegate_packet::{
    Address, DropReason, Dscp, Ecn, FlowId, Headers, MarkReason, Packet, Protocol, Sink, TcpFlags, TcpHeader,
};
use tidegate_units::Time;

/// No clock that counts nanoseconds from a start shows more: 146 years.
const CLOCK_MAX: u64 = 1 << 62;

/// One call, by a world that knows no rules.
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
#[derive(Clone, Debug)]
pub enum Call {
    Enter {
        flow: u8,
        wire_bytes: u32,
        dscp: u8,
        exits: Vec<u32>,
    },
    Leave {
        flow: u8,
        wire_bytes: u32,
        entry: Vec<u32>,
        ecn: u8,
        is_tunnelled: bool,
    },
    Bytes {
        from: u32,
        bytes: Vec<u8>,
        ttl: u8,
    },
    /// The message that was heard so many before the last, from the other border or from itself, damaged or not.
    Echo {
        from: u32,
        which: usize,
        flip: Option<(usize, u8)>,
        ttl: u8,
    },
    Timeout,
    Poll {
        count: u8,
    },
    /// Time goes on, or seems to go back.
    Clock {
        nanos: i64,
    },
}

pub fn headers(flow: u8) -> Headers {
    let protocol = if flow.is_multiple_of(2) { Protocol::TCP } else { Protocol::UDP };
    let (source, destination) = (Address::V4([10, 0, 0, flow]), Address::V4([10, 0, flow % 2, 2]));
    Headers::best_effort(protocol, (source, 1), (destination, 2))
}

pub fn segment(flow: u8) -> Option<TcpHeader> {
    let header = TcpHeader { payload_bytes: 1000, flags: TcpFlags::ACK, ..TcpHeader::default() };
    flow.is_multiple_of(2).then_some(header)
}

#[derive(Default)]
pub struct Store {
    pub dropped: u32,
}

impl Sink for Store {
    fn on_drop(&mut self, _packet: Packet, _why: DropReason) {
        self.dropped += 1;
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
}

impl PacketStore for Store {
    fn headers(&self, packet: &Packet) -> Headers {
        headers(packet.flow.0 as u8)
    }
    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor> {
        segment(packet.flow.0 as u8)
    }
}

/// A border, what was said by it, and where its packets are.
pub struct World {
    pub border: Border,
    pub store: Store,
    pub heard: Vec<Vec<u8>>,
    pub now: Time,
    /// The latest that it ever was.
    pub latest: Time,
    pub entered: u32,
    pub went_on: u32,
    message: Vec<u8>,
}

impl World {
    pub fn new(config: &EdgeConfig) -> Self {
        let site = BorderSite { border: PeerId(0), level: 0 };
        let border = Border::new(config, site, &Context::for_tests());
        let (heard, message, now) = (Vec::new(), Vec::new(), Time::from_nanos(1_000_000_000));
        Self { border, store: Store::default(), heard, now, latest: now, entered: 0, went_on: 0, message }
    }

    pub fn poll(&mut self) -> bool {
        match self.border.poll_transmit(self.now, &mut self.store, &mut self.message) {
            None => return false,
            Some(Transmit::Packet(_)) => self.went_on += 1,
            Some(Transmit::Message { .. }) => self.heard.push(self.message.clone()),
        }
        true
    }

    pub fn call(&mut self, call: Call) {
        let now = self.now;
        match call {
            Call::Enter { flow, wire_bytes, dscp, exits } => {
                self.entered += 1;
                let exits: Vec<PeerId> = exits.into_iter().map(PeerId).collect();
                let mut packet = Packet::new(0, FlowId(u32::from(flow)), wire_bytes);
                packet.dscp = Dscp::new(dscp);
                let passed = self.border.handle_packet(packet, &headers(flow), &exits, now, &mut self.store);
                self.went_on += u32::from(passed.is_some());
            }
            Call::Leave { flow, wire_bytes, entry, ecn, is_tunnelled } => {
                let entry: Vec<PeerId> = entry.into_iter().map(PeerId).collect();
                let mut packet = Packet::new(0, FlowId(u32::from(flow)), wire_bytes);
                packet.ecn = Ecn::from_bits(ecn);
                if is_tunnelled {
                    packet.inner_ecn.put(0, Ecn::Ect0);
                }
                let mut segment = segment(flow);
                // Any number will do as a stamp.
                if self.border.stamps()
                    && let Some(stamp) = NonZeroU32::new(wire_bytes.wrapping_mul(0x9e37_79b9))
                {
                    self.border.handle_stamp(packet.flow, &headers(flow), stamp, now);
                }
                self.border.handle_leaving(&mut packet, &headers(flow), &entry, segment.as_mut(), now);
            }
            Call::Bytes { from, bytes, ttl } => self.border.handle_message(PeerId(from), &bytes, ttl, now),
            Call::Echo { from, which, flip, ttl } => {
                let Some(bytes) = self.heard.iter().rev().nth(which) else { return };
                let mut bytes = bytes.clone();
                if let Some((at, mask)) = flip.filter(|(at, _)| *at < bytes.len()) {
                    bytes[at] ^= mask;
                }
                self.border.handle_message(PeerId(from), &bytes, ttl, now);
            }
            Call::Timeout => self.border.handle_timeout(now),
            Call::Poll { count } => {
                for _ in 0..count {
                    self.poll();
                }
            }
            Call::Clock { nanos } => {
                self.now = Time::from_nanos(now.as_nanos().saturating_add_signed(nanos).min(CLOCK_MAX));
                self.latest = self.latest.max(self.now);
            }
        }
    }
}

/// Makes `calls` on a border of `config`, or by turns on two that hear each other.
///
/// # Panics
/// If a packet is lost, if a border has more to say than there is, or asks for an instant that has passed.
pub fn drive(config: &EdgeConfig, calls: impl IntoIterator<Item = Call>, are_two: bool) {
    let mut worlds = vec![World::new(config)];
    if are_two {
        worlds.push(World::new(config));
    }
    let count = worlds.len();
    for (turn, call) in calls.into_iter().enumerate() {
        let (said, hears) = (turn % count, (turn + 1) % count);
        if count > 1
            && let Some(message) = worlds[said].heard.last().cloned()
        {
            worlds[hears].heard.push(message);
        }
        let world = &mut worlds[hears];
        world.call(call);
        let held = world.border.held_packets() as u32;
        assert_eq!(world.entered, world.went_on + world.store.dropped + held);
    }
    for mut world in worlds {
        // A world that comes back is done with this instant at some time.
        world.now = world.latest;
        world.border.handle_timeout(world.now);
        let mut polls = 0;
        while world.poll() {
            polls += 1;
            assert!(polls < 1000, "it says no more than there is to say");
        }
        assert!(world.border.poll_timeout().is_none_or(|at| at > world.latest));
    }
}
