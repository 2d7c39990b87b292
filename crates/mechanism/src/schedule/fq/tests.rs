use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{FlowId, MarkReason, Sink};

use super::*;
use crate::queue::QueueDiscipline;
use crate::schedule::testing::{arrivals, drive};

/// Packets are stamped by their slot.
#[derive(Default)]
struct World {
    stamps: BTreeMap<u32, Time>,
    dropped: Vec<DropReason>,
}

impl Sink for World {
    fn on_drop(&mut self, _packet: Packet, why: DropReason) {
        self.dropped.push(why);
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        self.stamps.get(&packet.slot).copied()
    }
}

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn offer(fq: &mut Fq, world: &mut World, slot: u32, flow: u32, now: Time) {
    let packet = Packet { arrived: now, ..Packet::new(slot, FlowId(flow), 1500) };
    fq.enqueue(packet, now, world);
}

/// The slots of all that may go at `now`.
fn leave(fq: &mut Fq, world: &mut World, now: Time) -> Vec<u32> {
    core::iter::from_fn(|| fq.dequeue(now, world)).map(|packet| packet.slot).collect()
}

#[test]
fn a_packet_leaves_at_its_time_and_those_without_a_stamp_at_once() {
    let (mut fq, mut world) = (FqConfig::default().build(&Context::for_tests()), World::default());
    for slot in 0..3 {
        world.stamps.insert(slot, micros(100 * u64::from(slot + 1)));
        offer(&mut fq, &mut world, slot, 0, micros(0));
    }
    offer(&mut fq, &mut world, 9, 1, micros(0));
    assert_eq!(leave(&mut fq, &mut world, micros(0)), [9]);
    assert_eq!(fq.ready_at(micros(1)), Some(micros(100)));
    assert_eq!(leave(&mut fq, &mut world, micros(99)), [0u32; 0]);
    assert_eq!(leave(&mut fq, &mut world, micros(100)), [0]);
    assert_eq!(leave(&mut fq, &mut world, micros(300)), [1, 2]);
    assert_eq!((fq.ready_at(micros(300)), fq.backlog().packets), (None, 0));
}

#[test]
fn what_is_held_keeps_nobody_else_and_several_leave_in_the_order_of_their_times() {
    let (mut fq, mut world) = (FqConfig::default().build(&Context::for_tests()), World::default());
    for (slot, at) in [(0, 300), (1, 100), (2, 200)] {
        world.stamps.insert(slot, micros(at));
        offer(&mut fq, &mut world, slot, slot, micros(0));
    }
    assert_eq!(leave(&mut fq, &mut world, micros(0)), [0u32; 0]);
    assert_eq!(fq.ready_at(micros(0)), Some(micros(100)));
    offer(&mut fq, &mut world, 3, 3, micros(10));
    assert_eq!(fq.ready_at(micros(10)), Some(micros(10)));
    assert_eq!(leave(&mut fq, &mut world, micros(10)), [3]);
    assert_eq!(leave(&mut fq, &mut world, micros(400)), [1, 2, 0]);
}

#[test]
fn the_greatest_rate_spaces_the_packets_of_each_flow() {
    let config = FqConfig { max_rate: Some(BitRate::from_mbps(12)), ..FqConfig::default() };
    let (mut fq, mut world) = (config.build(&Context::for_tests()), World::default());
    for slot in 0..8 {
        offer(&mut fq, &mut world, slot, slot % 2, micros(0));
    }
    // A packet in a millisecond, of each.
    for round in 0..4 {
        assert_eq!(fq.ready_at(micros(1000 * round)), Some(micros(1000 * round)));
        assert_eq!(leave(&mut fq, &mut world, micros(1000 * round)).len(), 2);
    }
}

#[test]
fn a_late_packet_shortens_the_next_wait_to_half_at_most() {
    let config = FqConfig { max_rate: Some(BitRate::from_mbps(12)), ..FqConfig::default() };
    let (mut fq, mut world) = (config.build(&Context::for_tests()), World::default());
    (0..4).for_each(|slot| offer(&mut fq, &mut world, slot, 0, micros(0)));
    assert_eq!(leave(&mut fq, &mut world, micros(0)), [0]);
    assert_eq!(leave(&mut fq, &mut world, micros(1200)), [1]);
    assert_eq!(leave(&mut fq, &mut world, micros(1999)), [0u32; 0]);
    assert_eq!(leave(&mut fq, &mut world, micros(9000)), [2]);
    assert_eq!(fq.ready_at(micros(9001)), Some(micros(9500)));
}

#[test]
fn a_flow_has_no_more_than_its_share_of_places_and_a_dead_link_keeps_nothing() {
    let config = FqConfig { flow_limit: 5, ..FqConfig::default() };
    let (mut fq, mut world) = (config.build(&Context::for_tests()), World::default());
    for slot in 0..8 {
        world.stamps.insert(slot, micros(5000));
        offer(&mut fq, &mut world, slot, 0, micros(0));
    }
    assert_eq!(world.dropped, [DropReason::Overflow; 3]);
    assert_eq!(leave(&mut fq, &mut world, micros(0)), [0u32; 0]);
    fq.purge(micros(1), DropReason::LinkDown, &mut world);
    assert_eq!((world.dropped.len(), fq.backlog().packets), (8, 0));
    (10..15).for_each(|slot| offer(&mut fq, &mut world, slot, 0, micros(2)));
    assert_eq!(leave(&mut fq, &mut world, micros(5000)), [10, 11, 12, 13, 14]);
}

proptest! {
    #[test]
    fn without_stamps_and_rates_it_is_deficit_round_robin(arrivals in arrivals(6, 200)) {
        let mut fq = FqConfig { limit: Limit::Packets(50), ..FqConfig::default() }.build(&Context::for_tests());
        drive(&mut fq, &arrivals, 8, |_| {});
    }

    #[test]
    fn nothing_leaves_before_its_time_and_all_leaves_at_it(
        offers in prop::collection::vec((0u64..300, 0u32..5, 0u64..2000), 1..120),
    ) {
        let (mut fq, mut world) = (FqConfig::default().build(&Context::for_tests()), World::default());
        let (mut now, mut latest, mut sent) = (0, BTreeMap::new(), 0);
        for (slot, &(gap, flow, ahead)) in (0..).zip(&offers) {
            let until = now + gap;
            // All that the link is told of.
            while let Some(at) = fq.ready_at(micros(now)).filter(|&at| at <= micros(until)) {
                now = at.since(Time::ZERO).as_nanos() / 1000;
                for left in leave(&mut fq, &mut world, at) {
                    prop_assert!(world.stamps[&left] <= at);
                    sent += 1;
                }
            }
            now = until;
            // The stamps of a flow do not descend.
            let stamp = (now + ahead).max(latest.get(&flow).copied().unwrap_or(0));
            latest.insert(flow, stamp);
            world.stamps.insert(slot, micros(stamp));
            offer(&mut fq, &mut world, slot, flow, micros(now));
        }
        sent += leave(&mut fq, &mut world, micros(1_000_000)).len();
        prop_assert_eq!(sent, offers.len());
    }
}
