use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Address, FlowId, TcpFlags, TcpHeader};
use tidegate_units::Span;

use super::*;
use crate::hop::{Circuit, Neighbor};

const OUT: PortId = PortId(0);
const HOST: PortId = PortId(1);
const SEGMENT: u32 = 1000;
/// What a segment costs; at 8 Mbit/s a millisecond.
const COST: u32 = 1000;

#[derive(Default)]
struct World {
    released: Vec<u32>,
    sequences: Vec<u32>,
}

impl HopOut for World {
    fn send(&mut self, _port: PortId, _message: &[u8]) {}
    fn set_rate(&mut self, _port: PortId, _rate: BitRate) {}
    fn release(&mut self, port: PortId, packet: Packet, sequence: u32) {
        assert_eq!(port, HOST);
        self.released.push(packet.slot);
        self.sequences.push(sequence);
    }
}

fn headers(port: u16) -> Headers {
    Headers::best_effort(Protocol::TCP, (Address::V4([10, 0, 0, 1]), port), (Address::V4([10, 0, 1, 1]), 2))
}

const fn at_us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// An edge with a circuit of 8 Mbit/s and one TCP whose data went out at the start; 3000 tokens.
fn edge(config: BackPressureConfig) -> LastHop {
    let port = |neighbor, circuit| Port { rate: BitRate::from_mbps(8), neighbor, circuit };
    let ports =
        [port(Neighbor::Router, Some(Circuit { minimum: BitRate::ZERO })), port(Neighbor::Host, None)];
    let mut edge = LastHop::new(&config, &ports, &Context::for_tests());
    data(&mut edge, 1, Ecn::NotEct, Time::ZERO);
    edge
}

fn bucket() -> LastHop {
    edge(BackPressureConfig {
        idle: Span::from_secs(1),
        last_hop: LastHopForm::Bucket,
        last_hop_queue: 10,
        ..BackPressureConfig::default()
    })
}

fn data(edge: &mut LastHop, port: u16, ecn: Ecn, now: Time) {
    let segment = TcpHeader { payload_bytes: SEGMENT, ..TcpHeader::default() };
    edge.on_data(&headers(port), &segment, (ecn, COST), OUT, now);
}

fn segment(number: u64, payload_bytes: u32) -> TcpHeader {
    TcpHeader { acknowledgment: number, payload_bytes, flags: TcpFlags::ACK, ..TcpHeader::default() }
}

/// An acknowledgment of `number` comes; what is said, and the segment then. One that waits is called by its number.
fn acknowledge(edge: &mut LastHop, number: u64, payload: u32, now: Time) -> (Passage, TcpHeader) {
    let mut segment = segment(number, payload);
    let said = edge.on_acknowledgment(&headers(1).reversed(), &mut segment, now);
    if said != Passage::On {
        edge.hold(Packet::new(number as u32, FlowId(1), 40), HOST, now);
    }
    (said, segment)
}

fn queue(edge: &mut LastHop, packets: u32) {
    for _ in 0..packets {
        edge.on_queued(&headers(1), OUT);
    }
}

/// All that goes until `until`, with the instants in microseconds.
fn run(edge: &mut LastHop, from: Time, until: Time) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    while let Some(at) = edge.release_at().map(|at| at.max(from)).filter(|&at| at <= until) {
        let mut world = World::default();
        edge.release(at, &mut world);
        assert!(!world.released.is_empty(), "what is due goes");
        out.extend(world.released.iter().map(|&slot| (at.as_nanos() / 1000, slot)));
    }
    out
}

#[test]
fn acknowledgments_come_out_as_fast_as_the_circuit_takes_what_they_acknowledge() {
    let mut edge = bucket();
    let said: Vec<Passage> = (1..=10).map(|n| acknowledge(&mut edge, n * 1000, 0, Time::ZERO).0).collect();
    assert_eq!(said[..3], [Passage::On; 3], "two packets of an MTU are saved up");
    assert_eq!(said[3..], [Passage::Hold; 7]);
    let expected: Vec<(u64, u32)> = (4..=10).map(|n| ((n - 3) * 1000, n as u32 * 1000)).collect();
    assert_eq!(run(&mut edge, Time::ZERO, at_us(20_000)), expected);
    assert_eq!(edge.held_packets(), 0);
}

#[test]
fn a_changed_explicit_rate_changes_the_pace() {
    let mut edge = bucket();
    for n in 1..=8 {
        acknowledge(&mut edge, n * 1000, 0, Time::ZERO);
    }
    edge.set_rate(OUT, BitRate::from_mbps(4), Time::ZERO);
    assert_eq!(run(&mut edge, Time::ZERO, at_us(4_000)), [(2000, 4000), (4000, 5000)]);
    edge.set_rate(OUT, BitRate::from_mbps(16), at_us(4_000));
    assert_eq!(run(&mut edge, at_us(4_000), at_us(5_000)), [(4500, 6000), (5000, 7000)]);
}

#[test]
fn the_bucket_is_closed_while_the_queue_is_long() {
    let mut edge = bucket();
    queue(&mut edge, 10);
    assert_eq!(acknowledge(&mut edge, 1000, 0, Time::ZERO).0, Passage::Hold);
    assert_eq!(edge.release_at(), None);
    edge.on_gone(&headers(1), OUT);
    assert_eq!(run(&mut edge, at_us(1), at_us(2)), [(1, 1000)]);
}

#[test]
fn what_acknowledges_nothing_new_waits_only_for_what_came_before() {
    let mut edge = bucket();
    for n in 1..=3 {
        acknowledge(&mut edge, n * 1000, 0, Time::ZERO);
    }
    assert_eq!(acknowledge(&mut edge, 3000, 0, Time::ZERO).0, Passage::On, "nothing came before");
    acknowledge(&mut edge, 4000, 0, Time::ZERO);
    let mut repeated = segment(4000, 0);
    assert_eq!(edge.on_acknowledgment(&headers(1).reversed(), &mut repeated, Time::ZERO), Passage::Hold);
    edge.hold(Packet::new(1, FlowId(1), 40), HOST, Time::ZERO);
    queue(&mut edge, 9);
    assert_eq!(run(&mut edge, Time::ZERO, at_us(1_000)), [(1000, 4000), (1000, 1)]);
}

#[test]
fn what_waited_goes_on_behind_the_data_that_overtook_it() {
    let mut edge = bucket();
    for n in 1..=4 {
        acknowledge(&mut edge, n * 1000, 0, Time::ZERO);
    }
    // The fourth waits. Data of 500 bytes, which begin at 700, go past it.
    let mut overtaking = TcpHeader { sequence: 700, ..segment(4000, 500) };
    assert_eq!(edge.on_acknowledgment(&headers(1).reversed(), &mut overtaking, Time::ZERO), Passage::On);
    assert_eq!(overtaking.acknowledgment, 3000);
    let mut world = World::default();
    edge.release(at_us(1000), &mut world);
    assert_eq!((world.released, world.sequences), (vec![4000], vec![1200]));
}

#[test]
fn data_is_not_held_up_and_shows_the_last_number_that_was_let_out() {
    let mut edge = bucket();
    for n in 1..=3 {
        assert_eq!(acknowledge(&mut edge, n * 1000, 500, Time::ZERO).0, Passage::On);
    }
    assert_eq!(acknowledge(&mut edge, 4000, 500, Time::ZERO).0, Passage::Split(3000));
    // The same number again needs no segment of its own.
    let (said, again) = acknowledge(&mut edge, 4000, 500, at_us(10));
    assert_eq!((said, again.acknowledgment, edge.held_packets()), (Passage::On, 3000, 1));
    assert_eq!(run(&mut edge, at_us(10), at_us(2_000)), [(1000, 4000)]);
    let (now_said, after) = acknowledge(&mut edge, 4000, 500, at_us(1_000));
    assert_eq!((now_said, after.acknowledgment), (Passage::On, 4000));
}

#[test]
fn one_that_acknowledges_much_goes_when_the_bucket_is_full_and_is_paid_for_by_the_next() {
    let mut edge = bucket();
    acknowledge(&mut edge, 1000, 0, Time::ZERO);
    assert_eq!(acknowledge(&mut edge, 21_000, 0, Time::ZERO).0, Passage::Hold);
    acknowledge(&mut edge, 22_000, 0, Time::ZERO);
    // 3000 tokens again after 1 ms; 17,000 owed then, and 1000 more.
    assert_eq!(run(&mut edge, Time::ZERO, at_us(30_000)), [(1000, 21_000), (19_000, 22_000)]);
}

#[test]
fn acknowledgments_of_unknown_tcps_and_beyond_the_bound_pass() {
    let mut edge = edge(BackPressureConfig {
        last_hop: LastHopForm::Bucket,
        last_hop_queue: 1,
        last_hop_acks_max: 2,
        last_hop_flows_max: 1,
        ..BackPressureConfig::default()
    });
    queue(&mut edge, 5);
    data(&mut edge, 7, Ecn::NotEct, Time::ZERO);
    let mut unknown = segment(1000, 0);
    assert_eq!(edge.on_acknowledgment(&headers(7).reversed(), &mut unknown, Time::ZERO), Passage::On);
    let said: Vec<Passage> = (1..=4).map(|n| acknowledge(&mut edge, n * 1000, 0, Time::ZERO).0).collect();
    assert_eq!(said, [Passage::Hold, Passage::Hold, Passage::On, Passage::On]);
}

#[test]
fn a_silent_tcp_is_forgotten_and_what_waits_of_it_still_goes() {
    let mut edge = bucket();
    for n in 1..=4 {
        acknowledge(&mut edge, n * 1000, 0, Time::ZERO);
    }
    edge.forget_idle(at_us(1_000_000));
    assert_eq!(edge.flows.len(), 1, "not yet");
    edge.forget_idle(at_us(1_000_001));
    assert!(edge.flows.is_empty() && edge.by_key.is_empty());
    assert_eq!(run(&mut edge, at_us(1_000_001), at_us(1_000_001)), [(1_000_001, 4000)]);
}

#[test]
fn echoes_are_set_while_the_queue_is_long_for_senders_that_understand_them() {
    let mut edge = edge(BackPressureConfig {
        last_hop: LastHopForm::Ecn,
        last_hop_queue: 3,
        ..BackPressureConfig::default()
    });
    let echo = |at: &mut LastHop| {
        let (said, segment) = acknowledge(at, 1000, 0, Time::ZERO);
        assert_eq!(said, Passage::On, "nothing waits");
        segment.flags.contains(TcpFlags::ECE)
    };
    queue(&mut edge, 3);
    assert!(!echo(&mut edge), "its data are not marked as capable");
    data(&mut edge, 1, Ecn::Ect0, Time::ZERO);
    assert!(echo(&mut edge));
    edge.on_gone(&headers(1), OUT);
    assert!(!echo(&mut edge), "the queue is short");
}

proptest! {
    #[test]
    fn what_waits_goes_in_order_and_not_faster_than_the_circuit(
        steps in prop::collection::vec((0u64..3_000, 0u64..4, 0u32..12), 1..120),
    ) {
        let mut edge = bucket();
        let (mut now, mut number) = (0, 0);
        let (mut went, mut queued) = (vec![], 0);
        for (gap, more, waiting) in steps {
            let before = at_us(now);
            now += gap;
            went.extend(run(&mut edge, before, at_us(now)).iter().map(|&(_, slot)| u64::from(slot)));
            while queued < waiting {
                queue(&mut edge, 1);
                queued += 1;
            }
            while queued > waiting {
                edge.on_gone(&headers(1), OUT);
                queued -= 1;
            }
            data(&mut edge, 1, Ecn::NotEct, at_us(now));
            number += more * 1000;
            let held = edge.held_packets();
            if acknowledge(&mut edge, number, 0, at_us(now)).0 == Passage::On {
                prop_assert_eq!(held, 0, "nothing overtakes");
                went.push(number);
            }
        }
        prop_assert!(went.is_sorted());
        let last = went.last().copied().unwrap_or(0);
        prop_assert!(last <= now + 6_000, "{} acknowledged in {} us", last, now);
        while queued > 0 {
            edge.on_gone(&headers(1), OUT);
            queued -= 1;
        }
        run(&mut edge, at_us(now), at_us(now + 1_000_000));
        prop_assert_eq!(edge.held_packets(), 0, "everything goes in the end");
    }
}
