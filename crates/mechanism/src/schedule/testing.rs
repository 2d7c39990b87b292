//! What the tests of schedulers and managers share: a sink that keeps what it is told, and a check of every property
//! that holds for any discipline.
//!
//! Source: none; it serves tests only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Backlog, DropReason, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{Span, Time};

use crate::queue::QueueDiscipline;

/// Keeps what a discipline reports.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) drops: Vec<(Packet, DropReason)>,
    pub(crate) marks: Vec<(Packet, MarkReason)>,
}

impl Sink for Counted {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.drops.push((packet, why));
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.marks.push((*packet, why));
    }
}

/// One arrival: nanoseconds after the one before, flow, size.
pub(crate) type Arrival = (u64, u32, u32);

/// Arrivals of up to `flows` flows, on average somewhat faster than one packet of 1500 bytes per 12 us (1 Gbit/s).
pub(crate) fn arrivals(flows: u32, most: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![Just(0u64), 0..10_000u64, 0..50_000u64, Just(1_000_000u64)];
    let size = prop_oneof![Just(40u32), Just(1500u32), 40..=1500u32];
    prop::collection::vec((gap, 0..flows, size), 1..most)
}

/// What became of the arrivals of [`drive`].
pub(crate) struct Run {
    /// Packets sent, with the start of their transmission, in order. `slot` is the number of the arrival.
    pub(crate) sent: Vec<(Time, Packet)>,
    pub(crate) out: Counted,
}

/// Offers `arrivals` to `discipline` on a link that sends a byte per `nanos_per_byte`, until everything is sent, and
/// checks on the way: no packet lost or doubled, backlog correct, work conservation, order within a flow.
pub(crate) fn drive(
    discipline: &mut impl QueueDiscipline,
    arrivals: &[Arrival],
    nanos_per_byte: u64,
    mut after_each: impl FnMut(Backlog),
) -> Run {
    let mut run = Run { sent: Vec::new(), out: Counted::default() };
    let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
    let mut waiting: BTreeMap<u32, u32> = BTreeMap::new();
    let mut last_of_flow: BTreeMap<u32, u32> = BTreeMap::new();
    let mut idle_told = false;
    let mut reported = 0;
    let mut number = 0u32;
    let mut next = arrivals.iter();
    let mut arrival = next.next();
    loop {
        // The link is served before an arrival at the same instant.
        let arrives = arrival.map(|&(gap, ..)| now + Span::from_nanos(gap));
        let busy = !waiting.is_empty() || !idle_told;
        if busy && arrives.is_none_or(|at| free_at <= at) {
            let at = free_at;
            run_timers(discipline, at, &mut run.out);
            if let Some(packet) = discipline.dequeue(at, &mut run.out) {
                assert!(waiting.remove(&packet.slot).is_some(), "a packet comes out once");
                let last = last_of_flow.insert(packet.flow.0, packet.slot);
                assert!(last.is_none_or(|l| l < packet.slot), "packets of a flow keep their order");
                run.sent.push((at, packet));
                free_at = at + Span::from_nanos(u64::from(packet.wire_bytes) * nanos_per_byte);
            } else {
                for (dropped, _) in &run.out.drops[reported..] {
                    waiting.remove(&dropped.slot);
                }
                reported = run.out.drops.len();
                assert!(waiting.is_empty(), "the link idles while packets wait");
                discipline.on_idle(at);
                idle_told = true;
            }
        } else if let (Some(at), Some(&(_, flow, size))) = (arrives, arrival) {
            now = at;
            let mut packet = Packet::new(number, FlowId(flow), size);
            packet.arrived = now;
            waiting.insert(number, size);
            number += 1;
            run_timers(discipline, now, &mut run.out);
            discipline.enqueue(packet, now, &mut run.out);
            arrival = next.next();
            if idle_told {
                idle_told = false;
                free_at = now;
            }
        } else {
            break;
        }
        for (dropped, _) in &run.out.drops[reported..] {
            assert!(
                waiting.remove(&dropped.slot).is_some(),
                "a packet is dropped once, and only if it waits"
            );
        }
        reported = run.out.drops.len();
        let bytes = waiting.values().map(|&size| u64::from(size)).sum();
        let expected = Backlog { packets: waiting.len() as u32, bytes };
        assert_eq!(discipline.backlog(), expected);
        assert_eq!(discipline.ready_at(now).is_none(), expected.is_empty());
        after_each(expected);
    }
    assert_eq!(run.sent.len() + run.out.drops.len(), arrivals.len());
    run
}

/// What is due by `now`, each at its instant.
fn run_timers(discipline: &mut impl QueueDiscipline, now: Time, out: &mut Counted) {
    while let Some(at) = discipline.timer_at().filter(|&at| at <= now) {
        discipline.on_timer(at, out);
        assert!(discipline.timer_at().is_none_or(|next| next > at), "a timer moves on when it fires");
    }
}
