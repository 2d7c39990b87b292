use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Address, FlowId};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use super::*;
use crate::queue::{DropTailConfig, ManagerConfig};
use crate::schedule::BinHash;
use crate::schedule::DisciplineConfig;

/// Flow `f` goes from host `f / 100` to host `f / 10 % 10`.
#[derive(Default)]
struct World {
    dropped: Vec<DropReason>,
}

impl Sink for World {
    fn on_drop(&mut self, _packet: Packet, why: DropReason) {
        self.dropped.push(why);
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        let host = |number: u32| Address::V4(number.to_be_bytes());
        Some((host(packet.flow.0 / 100), host(packet.flow.0 / 10 % 10)))
    }
}

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn shaped(isolate: CakeFlows) -> CakeConfig {
    CakeConfig { bandwidth: Some(BitRate::from_mbps(8)), isolate, ..CakeConfig::default() }
}

/// All `flows` send as much as the shaper lets through, each, for a second of packets of 1000 bytes; how many of each go.
fn greedy(config: &CakeConfig, flows: &[u32]) -> Vec<usize> {
    let mut cake = config.build(&Context::for_tests());
    let (mut world, mut sent) = (World::default(), vec![0; flows.len()]);
    for step in 0..1_000 {
        let now = micros(step * 1_000);
        for (number, &flow) in flows.iter().enumerate() {
            let packet = Packet::new(number as u32, FlowId(flow), 1000);
            cake.enqueue(Packet { arrived: now, ..packet }, now, &mut world);
        }
        while let Some(packet) = cake.dequeue(now, &mut world) {
            sent[packet.slot as usize] += 1;
        }
    }
    sent
}

#[test]
fn the_shaper_lets_through_what_it_should() {
    for (overhead, framing, takes) in [
        (0, Framing::None, 1000),
        (-20, Framing::None, 980),
        (0, Framing::Atm, 21 * 53),
        (0, Framing::Ptm, 1016),
    ] {
        let sent: usize =
            greedy(&CakeConfig { overhead, framing, ..shaped(CakeFlows::Flows) }, &[1, 2]).iter().sum();
        // 8 Mb/s are a million bytes in a second.
        assert!(sent.abs_diff(1_000_000 / takes) <= 2, "{framing:?} {overhead}: {sent}");
    }
}

#[test]
fn flows_share_and_with_them_hosts_as_it_is_asked() {
    // Two flows to host 1, one to host 2, from three hosts.
    let flows = [110, 211, 320];
    let of = |isolate| greedy(&shaped(isolate), &flows);
    let near = |sent: &[usize], shares: [usize; 3]| {
        assert!(sent.iter().zip(shares).all(|(sent, share)| sent.abs_diff(share) < 30), "{sent:?}");
    };
    near(&of(CakeFlows::Flows), [333, 333, 333]);
    near(&of(CakeFlows::DualSrcHost), [333, 333, 333]);
    near(&of(CakeFlows::DualDstHost), [250, 250, 500]);
    near(&of(CakeFlows::TripleIsolate), [250, 250, 500]);
    near(&of(CakeFlows::DstHost), [250, 250, 500]);
    // The second of the home's hosts has one flow, as each of the first; but all come from one server.
    near(&greedy(&shaped(CakeFlows::TripleIsolate), &[110, 111, 120]), [333, 333, 333]);
}

#[test]
fn pairs_of_hosts_are_apart_by_their_numbers_too() {
    // Three hosts that send to one, with two flows each.
    let config = CakeConfig { hash: BinHash::Modulo, ..shaped(CakeFlows::Hosts) };
    let sent = greedy(&config, &[110, 111, 210, 211, 310, 410]);
    let of_hosts = [sent[0] + sent[1], sent[2] + sent[3], sent[4], sent[5]];
    assert!(of_hosts.iter().all(|of_host| of_host.abs_diff(250) < 30), "{sent:?}");
    // Far more of them than the ways of a set.
    let sources: Vec<u32> = (1..41).map(|source| 100 * source).collect();
    assert!(greedy(&config, &sources).iter().all(|&of_pair| (20..32).contains(&of_pair)));
}

#[test]
fn when_the_link_goes_nothing_is_left_whatever_the_shaper_says() {
    let mut cake = shaped(CakeFlows::TripleIsolate).build(&Context::for_tests());
    let mut world = World::default();
    let packet = |slot| Packet { arrived: micros(1), ..Packet::new(slot, FlowId(slot % 7), 1000) };
    (0..50).for_each(|slot| cake.enqueue(packet(slot), micros(1), &mut world));
    assert!(cake.dequeue(micros(1), &mut world).is_some() && cake.dequeue(micros(1), &mut world).is_none());
    cake.purge(micros(2), DropReason::LinkDown, &mut world);
    assert_eq!((world.dropped.len(), cake.backlog(), cake.ready_at(micros(2))), (49, Backlog::EMPTY, None));
    // It goes on as before.
    cake.enqueue(packet(50), micros(9_000), &mut world);
    assert_eq!(cake.dequeue(micros(9_000), &mut world).map(|sent| sent.slot), Some(50));
    assert_eq!(cake.dequeue(micros(9_000), &mut world), None);
}

#[test]
fn memory_is_for_four_round_trips_unless_it_is_given() {
    let of = |mbps, memory_limit| {
        CakeConfig { bandwidth: Some(BitRate::from_mbps(mbps)), memory_limit, ..CakeConfig::default() }
            .memory_bytes()
    };
    assert_eq!(of(1, None), 4 << 20);
    assert_eq!(of(200, None), 10_000_000);
    assert_eq!(of(10_000, None), 10_240 * 1514);
    assert_eq!(of(200, Some(Bytes::new(7_000))), 7_000);
    assert_eq!(CakeConfig::default().memory_bytes(), 10_240 * 1514);
}

#[test]
fn a_plain_fifo_asks_nobody_and_cake_knows_flows_where_the_world_knows_no_hosts() {
    struct Silent;
    impl Sink for Silent {
        fn on_drop(&mut self, _packet: Packet, _why: DropReason) {}
        fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
    }
    let fifo = ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(5) });
    for config in [DisciplineConfig::Fifo(fifo), DisciplineConfig::Cake(shaped(CakeFlows::TripleIsolate))] {
        let mut discipline = config.build(&Context::for_tests());
        (0..3).for_each(|flow| {
            discipline.enqueue(Packet::new(flow, FlowId(flow), 1000), micros(0), &mut Silent);
        });
        assert_eq!(discipline.dequeue(micros(0), &mut Silent).map(|packet| packet.slot), Some(0));
    }
}

proptest! {
    #[test]
    fn any_arrivals_keep_the_memory_and_lose_no_packet(
        calls in prop::collection::vec((0u32..400, 40u32..1500, 0u64..3_000, 0u8..64), 1..300),
        memory in 1_500u64..20_000, tins in 0usize..5, isolate in 0usize..8, bandwidth in prop::option::of(1u64..50),
        ingress in any::<bool>(), queues in 1u32..4,
    ) {
        let config = CakeConfig {
            bandwidth: bandwidth.map(BitRate::from_mbps),
            memory_limit: Some(Bytes::new(memory)),
            diffserv: CakeTins::ALL[tins],
            isolate: CakeFlows::ALL[isolate],
            ingress,
            queues: queues * 2,
            ways: 2,
            rtt: Span::from_millis(2),
            ..CakeConfig::default()
        };
        let mut cake = config.build(&Context::for_tests());
        let (mut world, mut now, mut sent) = (World::default(), micros(0), 0);
        for (number, &(flow, bytes, gap, dscp)) in (0u32..).zip(&calls) {
            now += Span::from_micros(gap);
            let packet = Packet { arrived: now, dscp: Dscp::new(dscp), ..Packet::new(number, FlowId(flow), bytes) };
            cake.enqueue(packet, now, &mut world);
            prop_assert!(cake.backlog().bytes <= memory);
            sent += usize::from(number % 3 == 0 && cake.dequeue(now, &mut world).is_some());
        }
        while let Some(at) = cake.ready_at(now) {
            prop_assert!(at >= now);
            now = at;
            sent += usize::from(cake.dequeue(now, &mut world).is_some());
        }
        prop_assert!(cake.backlog().is_empty());
        prop_assert_eq!(sent + world.dropped.len(), calls.len());
    }
}
