//! CAKE against an independent implementation in Python from Linux's code: on random traces, for every packet the same fate at the same
//! instant, and as many sparse and bulk flows all along.
//!
//! Source: `tests/oracle/python/freeze_cake.py`, which states the format; `tests/oracle/verdicts/cake.json`, which it made.

#[allow(dead_code, reason = "a link of its own, which a shaper may hold back")]
use crate::frozen_trace;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{AckFilter, BinHash, Cake, CakeConfig, CakeFlows, CakeTins, Framing};
use tidegate_packet::{
    Address, DropReason, Dscp, FlowId, MarkReason, Packet, SackBlock, SackBlocks, Sink, TcpFlags, TcpHeader,
};
use tidegate_units::{BitRate, Bytes, Span, Time};

use frozen_trace::{ect0, frozen, splitmix, whole};

const CODEPOINTS: [u8; 8] = [0, 0, 8, 46, 34, 56, 10, 26];

fn word<T: Copy>(of: &Value, words: &[&str], all: &[T]) -> T {
    let place = words.iter().position(|word| of.as_str() == Some(word)).expect("a word that is known");
    all[place]
}

fn cake(of: &Value, seed: Seed) -> Cake {
    let number = |key: &str| whole(&of[key]);
    let is = |key: &str| of[key].as_bool().expect("a switch");
    let config = CakeConfig {
        bandwidth: of["bandwidth"].as_u64().map(BitRate::from_bps),
        overhead: of["overhead"].as_i64().expect("a number"),
        mpu: number("mpu") as u32,
        framing: word(&of["framing"], Framing::WORDS, Framing::ALL),
        diffserv: word(&of["diffserv"], CakeTins::WORDS, CakeTins::ALL),
        isolate: word(&of["flow_mode"], CakeFlows::WORDS, CakeFlows::ALL),
        ack_filter: word(&of["ack_filter"], AckFilter::WORDS, AckFilter::ALL),
        ingress: is("ingress"),
        wash: is("wash"),
        rtt: Span::from_nanos(number("interval")),
        memory_limit: Some(Bytes::new(number("memory_limit"))),
        queues: number("queues") as u32,
        ways: number("ways") as u32,
        hash: BinHash::Modulo,
    };
    config.build(&Context { mtu_bytes: number("mtu") as u32, seed, ..Context::for_tests() })
}

/// The arrivals that follow from the seed of a trace, as in the script, with the headers of acknowledgments.
fn arrivals(of: &Value, packets: u64) -> Vec<(Packet, Option<TcpHeader>)> {
    let mut below = splitmix(whole(&of["seed"]));
    let (mut load, mut senders, mut now) = (0, 1, Time::ZERO);
    let mut acked = vec![0u64; whole(&of["flows"]) as usize];
    (0..packets)
        .map(|number| {
            if number % 40 == 0 {
                load = below(5);
                senders = 1 + below(whole(&of["flows"]));
            }
            let flow = if below(2) == 1 { below(senders) } else { 0 };
            let size = [40, 576, 1000, 1500][below(4) as usize];
            let ecn = ect0(of, below(100));
            let unit = size * whole(&of["nanos_per_byte"]);
            now +=
                Span::from_nanos(below([1, unit * 3 / 2, unit * 3 / 2, unit * 2, unit * 4][load as usize]));
            let dscp = Dscp::new(CODEPOINTS[below(8) as usize]);
            let ack = (size == 40).then(|| {
                let acknowledgment = &mut acked[flow as usize];
                *acknowledgment += below(3) * 1000;
                let flags = TcpFlags::ACK.with_if(below(10) == 0, TcpFlags::ECE);
                let mut sack = SackBlocks::default();
                if below(4) == 0 {
                    sack.push(SackBlock { offset: 2000, length: 1000 * (1 + below(3)) as u32 });
                }
                TcpHeader { acknowledgment: *acknowledgment, flags, sack, ..TcpHeader::default() }
            });
            let packet = Packet::new(number as u32, FlowId(flow as u32), size as u32);
            (Packet { ecn, dscp, arrived: now, ..packet }, ack)
        })
        .collect()
}

/// What became of each packet and when, and what is known of it.
struct World {
    now: Time,
    became: Vec<(char, u64)>,
    acks: Vec<Option<TcpHeader>>,
}

impl World {
    fn set(&mut self, packet: &Packet, fate: char) {
        self.became[packet.slot as usize] = (fate, self.now.as_nanos());
    }

    /// The link asks for a packet; when it is to ask again.
    fn look(&mut self, cake: &mut Cake, now: Time, nanos_per_byte: u64, free_at: &mut Time) -> Option<Time> {
        self.now = now;
        let Some(packet) = cake.dequeue(now, self) else { return cake.ready_at(now) };
        let letter = if self.became[packet.slot as usize].0 == 'm' { 'm' } else { 's' };
        self.set(&packet, letter);
        *free_at = now + Span::from_nanos(u64::from(packet.wire_bytes) * nanos_per_byte);
        Some(*free_at)
    }
}

impl Sink for World {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        let letter = match why {
            DropReason::Early => 'd',
            DropReason::Unresponsive => 'b',
            DropReason::Redundant => 'a',
            _ => 'o',
        };
        self.set(&packet, letter);
    }
    fn on_mark(&mut self, packet: &Packet, _: MarkReason) {
        self.set(packet, 'm');
    }
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        let host = |number: u32| Address::V4(number.to_be_bytes());
        Some((host(packet.flow.0 % 3), host(packet.flow.0 / 3 % 4)))
    }
    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        self.acks[packet.slot as usize]
    }
}

#[test]
fn cake_decides_every_packet_as_the_reference_does() {
    // The seed of the given random numbers.
    let seed = Seed(whole(&frozen("draws.json")["seed"]));
    let frozen = frozen("cake.json");
    let traces = frozen["cake"].as_array().expect("a list");
    assert_eq!((traces.len(), frozen["version"].as_u64()), (240, Some(1)));
    for of in traces {
        let nanos_per_byte = whole(&of["nanos_per_byte"]);
        let (packets, acks): (Vec<_>, _) = arrivals(of, whole(&frozen["packets"])).into_iter().unzip();
        let mut cake = cake(&of["config"], seed);
        let mut world = World { now: Time::ZERO, became: vec![(' ', 0); packets.len()], acks };
        let (mut look_at, mut free_at, mut seen) = (None, Time::ZERO, Vec::new());
        for packet in &packets {
            let now = packet.arrived;
            while let Some(at) = look_at.filter(|&at| at <= now) {
                look_at = world.look(&mut cake, at, nanos_per_byte, &mut free_at);
            }
            world.now = now;
            cake.enqueue(*packet, now, &mut world);
            if free_at <= now {
                look_at = world.look(&mut cake, now, nanos_per_byte, &mut free_at);
            }
            if packet.slot % 25 == 24 {
                let flows = |name| cake.variable(name).expect("it counts them") as u64;
                seen.push(flows("sparse_flows") << 32 | flows("bulk_flows"));
            }
        }
        while let Some(at) = look_at {
            look_at = world.look(&mut cake, at, nanos_per_byte, &mut free_at);
        }
        assert!(cake.backlog().is_empty());
        frozen_trace::compare(of, &world.became, seen);
    }
}
