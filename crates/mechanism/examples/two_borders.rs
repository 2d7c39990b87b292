//! Two borders of a domain over a channel that loses packets, driven by a clock that is a variable: all that a world must do.
//!
//! `cargo run -p tidegate-mechanism --example two_borders`

use std::collections::VecDeque;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{
    Border, BorderSite, EdgeConfig, PacketStore, PeerId, SegmentEditor, Transmit,
};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_packet::{Address, DropReason, FlowId, Headers, MarkReason, Packet, Protocol, Sink, TcpHeader};
use tidegate_units::{BitRate, Span, Time};

const INGRESS: PeerId = PeerId(0);
const EGRESS: PeerId = PeerId(1);
const PACKET_BYTES: u32 = 1000;
const DELAY: Span = Span::from_millis(10);

/// What the world knows of packets: here all are of one UDP flow, and nothing is freed.
#[derive(Default)]
struct Store {
    dropped: u32,
}

const HEADERS: Headers =
    Headers::best_effort(Protocol::UDP, (Address::V4([10, 0, 0, 1]), 1), (Address::V4([10, 0, 0, 2]), 2));

impl Sink for Store {
    fn on_drop(&mut self, _packet: Packet, _why: DropReason) {
        self.dropped += 1;
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
}

impl PacketStore for Store {
    fn headers(&self, _packet: &Packet) -> Headers {
        HEADERS
    }
    fn segment(&mut self, _packet: Packet) -> Option<impl SegmentEditor> {
        None::<TcpHeader>
    }
}

/// What travels.
enum Load {
    Packet(Packet),
    Message(Vec<u8>),
}

/// A link with a queue, which loses one packet in a hundred.
struct Channel {
    rate: BitRate,
    free_at: Time,
    under_way: VecDeque<(Time, Load)>,
    random: Substream,
    overflows: u32,
}

impl Channel {
    fn new(rate: BitRate, seed: u64) -> Self {
        let random = Substream::new(Seed(seed));
        Self { rate, free_at: Time::ZERO, under_way: VecDeque::new(), random, overflows: 0 }
    }

    fn send(&mut self, load: Load, wire_bytes: u32, now: Time) {
        let waits = self.free_at.since(now);
        if waits > self.rate.span_of(50 * u64::from(PACKET_BYTES)) {
            self.overflows += 1;
            return;
        }
        self.free_at = self.free_at.max(now) + self.rate.span_of(u64::from(wire_bytes));
        if !self.random.chance(0.01) {
            self.under_way.push_back((self.free_at + DELAY, load));
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Packets that came out of the domain.
    pub delivered: u32,
    /// Packets that the queue of the channel dropped.
    pub overflows: u32,
    /// Packets that were dropped where they wanted to enter.
    pub refused: u32,
}

/// Sends 4 Mbit/s for `seconds` into a domain whose channel carries 1 Mbit/s.
pub fn run(config: &EdgeConfig, seconds: u64) -> Outcome {
    let build = |peer| Border::new(config, BorderSite { border: peer, level: 0 }, &Context::for_tests());
    let mut borders = [build(INGRESS), build(EGRESS)];
    let mut channels = [Channel::new(BitRate::from_mbps(1), 1), Channel::new(BitRate::from_mbps(1), 2)];
    let (mut store, mut message) = (Store::default(), Vec::new());
    let gap = BitRate::from_mbps(4).span_of(u64::from(PACKET_BYTES));
    let (mut now, mut next_packet, mut delivered) = (Time::ZERO, Time::ZERO, 0);
    while now < Time::ZERO + Span::from_secs(seconds) {
        // The clock jumps to whatever is next.
        let timeouts = borders.iter().filter_map(Border::poll_timeout);
        let arrivals = channels.iter().filter_map(|channel| channel.under_way.front().map(|(at, _)| *at));
        now = timeouts.chain(arrivals).chain([next_packet]).min().unwrap_or(next_packet).max(now);
        if next_packet <= now {
            next_packet = now + gap;
            let packet = Packet::new(0, FlowId(0), PACKET_BYTES);
            if let Some(packet) = borders[0].handle_packet(packet, &HEADERS, &[EGRESS], now, &mut store) {
                channels[0].send(Load::Packet(packet), packet.wire_bytes, now);
            }
        }
        for (from, to) in [(0, 1), (1, 0)] {
            while channels[from].under_way.front().is_some_and(|(at, _)| *at <= now) {
                match channels[from].under_way.pop_front() {
                    Some((_, Load::Packet(mut packet))) => {
                        let segment = None::<&mut TcpHeader>;
                        borders[to].handle_leaving(&mut packet, &HEADERS, &[INGRESS], segment, now);
                        delivered += 1;
                    }
                    // One router lies between.
                    Some((_, Load::Message(bytes))) => {
                        borders[to].handle_message(PeerId(from as u32), &bytes, 254, now);
                    }
                    None => {}
                }
            }
        }
        for (border, channel) in borders.iter_mut().zip(&mut channels) {
            border.handle_timeout(now);
            while let Some(transmit) = border.poll_transmit(now, &mut store, &mut message) {
                match transmit {
                    Transmit::Packet(packet) => channel.send(Load::Packet(packet), packet.wire_bytes, now),
                    Transmit::Message { .. } => {
                        let wire_bytes = border.message_header_bytes() + message.len() as u32;
                        channel.send(Load::Message(message.clone()), wire_bytes, now);
                    }
                }
            }
        }
    }
    Outcome { delivered, overflows: channels[0].overflows, refused: store.dropped }
}

#[allow(dead_code, reason = "a test has this file as a module")]
fn main() {
    for (name, config) in [("NBP", EdgeConfig::Nbp(Box::default())), ("IEC", EdgeConfig::Iec(Box::default()))]
    {
        println!("{name}: {:?} of 30 s", run(&config, 30));
    }
}
