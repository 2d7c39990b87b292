use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::Ecn;

use super::*;
use crate::queue::{Fifo, QueueDiscipline};
use crate::random::Seed;
use crate::schedule::testing::{Arrival, Counted, arrivals, drive};

fn packet(flow: u32, now: Time) -> Packet {
    Packet { ecn: Ecn::Ect0, arrived: now, ..Packet::new(0, FlowId(flow), 1000) }
}

fn context() -> Context {
    Context { mtu_bytes: 1000, ..Context::for_tests() }
}

fn at_millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// An SFB whose bins reach 1 in four steps.
fn quick() -> SfbConfig {
    SfbConfig {
        increment: 0.25,
        decrement: 0.25,
        freeze: None,
        ceiling: Some(1.0),
        limit: Limit::Packets(1000),
        ..SfbConfig::default()
    }
}

/// Offers `count` packets of `flow`; how many joined.
fn offer(fifo: &mut Fifo<Sfb>, flow: u32, count: u32, now: Time) -> u32 {
    let before = fifo.backlog().packets;
    for _ in 0..count {
        fifo.enqueue(packet(flow, now), now, &mut Counted::default());
    }
    fifo.backlog().packets - before
}

fn drain(fifo: &mut Fifo<Sfb>, now: Time) {
    while fifo.dequeue(now, &mut Counted::default()).is_some() {}
}

fn accounted(bins: &Bins) -> u32 {
    bins.all().iter().map(|bin| bin.qlen).sum()
}

#[test]
fn a_bin_takes_one_packet_more_than_its_size_and_then_refuses() {
    let mut fifo = Fifo::new(quick().build(&context()));
    assert_eq!(offer(&mut fifo, 1, 14, Time::ZERO), 14);
    assert!(!fifo.manager().is_nonresponsive(FlowId(1)));
    let mut out = Counted::default();
    for _ in 0..4 {
        fifo.enqueue(packet(1, Time::ZERO), Time::ZERO, &mut out);
    }
    let reasons: alloc::vec::Vec<_> = out.drops.iter().map(|drop| drop.1).collect();
    let fair = DropReason::FairShare;
    assert_eq!(reasons, [fair, fair, fair, DropReason::Unresponsive], "after four steps the flow is known");
    assert!(fifo.manager().is_nonresponsive(FlowId(1)));
    assert_eq!(fifo.variable("polluted_bins").map(|n| n as u32), Some(2));
    assert!((fifo.variable("nonresponsive_flows").expect("SFB has it") - 1.0).abs() < 1e-9);
}

#[test]
fn flows_classified_as_nonresponsive_share_one_rate_limit() {
    // Without steps down nobody comes on parole.
    let mut fifo = Fifo::new(SfbConfig { decrement: 0.0, ..quick() }.build(&context()));
    for flow in [1, 2, 3] {
        offer(&mut fifo, flow, 30, Time::ZERO);
    }
    drain(&mut fifo, Time::ZERO);
    let mut joined = 0;
    for millis in 1..=1000 {
        for flow in [1, 2, 3] {
            joined += offer(&mut fifo, flow, 1, at_millis(millis));
            drain(&mut fifo, at_millis(millis));
        }
    }
    // 0.16 Mb/s are a packet per 50 ms, from the first ms on.
    assert_eq!(joined, 20);
}

#[test]
fn a_flow_with_one_clean_bin_is_not_limited() {
    let mut fifo = Fifo::new(quick().build(&context()));
    offer(&mut fifo, 1, 30, Time::ZERO);
    let sharing = (2..10_000).filter(|&flow| fifo.manager().is_nonresponsive(FlowId(flow))).count();
    // 1/529 of 9998 is 18.9: within five standard deviations.
    assert!((1..=41).contains(&sharing), "{sharing}");
}

#[test]
fn packets_leave_the_bins_they_joined_after_the_hash_functions_changed() {
    for double_buffered in [false, true] {
        let config = SfbConfig { rehash: Some(Span::from_secs(2)), double_buffered, ..quick() };
        let mut fifo = Fifo::new(config.build(&context()));
        offer(&mut fifo, 1, 40, at_millis(1));
        offer(&mut fifo, 1, 40, at_millis(1990));
        let old = fifo.backlog().packets;
        // The change is due at 2 s: before anything else at that instant.
        assert!(offer(&mut fifo, 2, 3, at_millis(2000)) == 3);
        let manager = fifo.manager();
        let warmed = accounted(&manager.active) / 2 - 3;
        assert!(warmed <= u32::from(double_buffered) * 4, "{warmed}");
        for _ in 0..old {
            fifo.dequeue(at_millis(2001), &mut Counted::default());
        }
        assert_eq!(accounted(&fifo.manager().active), 3 * 2);
        drain(&mut fifo, at_millis(2002));
        assert_eq!(accounted(&fifo.manager().active), 0);
    }
}

#[test]
fn a_moving_hash_gives_parole_and_a_double_buffered_one_does_not() {
    for (double_buffered, known) in [(false, false), (true, true)] {
        let config = SfbConfig { rehash: Some(Span::from_secs(2)), double_buffered, ..quick() };
        let mut fifo = Fifo::new(config.build(&context()));
        for millis in 1..1999 {
            offer(&mut fifo, 1, 2, at_millis(millis));
        }
        assert!(fifo.manager().is_nonresponsive(FlowId(1)));
        offer(&mut fifo, 2, 1, at_millis(2000));
        assert_eq!(fifo.manager().is_nonresponsive(FlowId(1)), known);
    }
}

#[test]
fn after_a_pause_of_several_turns_nothing_is_held_against_anybody() {
    let config = SfbConfig { rehash: Some(Span::from_secs(2)), ..quick() };
    let mut fifo = Fifo::new(config.build(&context()));
    for millis in 1..1999 {
        offer(&mut fifo, 1, 2, at_millis(millis));
    }
    drain(&mut fifo, at_millis(1999));
    offer(&mut fifo, 2, 1, at_millis(9000));
    assert!(!fifo.manager().is_nonresponsive(FlowId(1)));
    assert_eq!(accounted(&fifo.manager().active), 2);
    assert_eq!(fifo.manager().active_since, at_millis(8000));
}

#[test]
fn the_fair_share_follows_from_the_polluted_bins() {
    let config = SfbConfig { limiting: SfbLimiting::FairShare, ..quick() };
    let mut fifo = Fifo::new(config.build(&context()));
    // Two flows that never pause, and ninety-eight of one packet in a while, over three windows.
    for millis in 0..3000u64 {
        offer(&mut fifo, 1 + (millis % 2) as u32, 2, at_millis(millis));
        offer(&mut fifo, 3 + (millis % 98) as u32, 1, at_millis(millis));
        if millis % 10 == 9 {
            while fifo.backlog().packets > 40 {
                fifo.dequeue(at_millis(millis), &mut Counted::default());
            }
        }
    }
    let flows = fifo.variable("flows").expect("counted");
    assert!((flows - 100.0).abs() < 5.0, "{flows}");
    let found = fifo.variable("nonresponsive_flows").expect("SFB has it");
    let limit = fifo.variable("nonresponsive_limit_bps").expect("SFB has it");
    assert!(limit >= 0.95 * 10e6 / flows && limit <= 10e6, "{limit} for {found} of {flows}");
}

#[test]
fn a_million_flows_change_no_memory() {
    let config =
        SfbConfig { rehash: Some(Span::from_millis(50)), limiting: SfbLimiting::FairShare, ..quick() };
    let mut sfb = config.build(&context());
    let sizes = |of: &Sfb| (of.active.all().len(), of.warming.as_ref().map(|set| set.all().len()));
    let before = sizes(&sfb);
    for flow in 0..1_000_000 {
        let now = Time::ZERO + Span::from_micros(u64::from(flow));
        let mut packet = packet(flow, now);
        if !matches!(sfb.on_arrival(&mut packet, Backlog::EMPTY, now), Verdict::Drop(_)) {
            sfb.on_departure(&packet, Backlog::EMPTY, now);
        }
    }
    assert_eq!(sizes(&sfb), before);
    assert_eq!(before, (46, Some(46)));
}

/// Configurations with any law in their bins.
fn laws() -> impl Strategy<Value = SfbConfig> {
    let blue = (0.001..1.0f64, 0.001..1.0f64, prop::option::of(1u64..100_000), prop::option::of(1.0..3.0f64))
        .prop_map(|(increment, decrement, freeze, ceiling)| SfbConfig {
            increment,
            decrement,
            freeze: freeze.map(Span::from_nanos),
            ceiling,
            ..SfbConfig::default()
        });
    let red = (0.002..1.0f64, 0.01..1.0f64).prop_map(|(weight, max_p)| SfbConfig {
        law: SfbLaw::AdaptiveRed,
        weight,
        max_p,
        ..SfbConfig::default()
    });
    prop_oneof![blue, red]
}

fn configs() -> impl Strategy<Value = SfbConfig> {
    let rehash = prop::option::of(10u64..1000).prop_map(|micros| micros.map(Span::from_micros));
    let limiting = prop::sample::select(SfbLimiting::ALL);
    let switches = any::<(bool, bool, bool)>();
    (1..=LEVELS_MAX, 1u32..12, 0u32..6, laws(), rehash, switches, 1u32..40, limiting).prop_map(
        |(levels, bins, bin_size, law, rehash, switches, packets, limiting)| SfbConfig {
            limit: Limit::Packets(packets),
            levels,
            bins,
            hash: if switches.1 && levels <= bins { SfbHash::Even } else { SfbHash::Keyed },
            bin_size: Limit::Packets(bin_size),
            limiting,
            nonresponsive_rate: BitRate::from_mbps(20),
            census_bits: 64,
            census_window: Span::from_micros(200),
            rehash,
            double_buffered: switches.0,
            bins_begin: if switches.2 { BinsBegin::Mean } else { BinsBegin::Fresh },
            ..law
        },
    )
}

fn fast_context() -> Context {
    Context { link_rate: BitRate::from_mbps(1000), seed: Seed(5), ..Context::for_tests() }
}

proptest! {
    #[test]
    fn any_arrivals_keep_the_invariants(vector in arrivals(12, 400), config in configs()) {
        let mut fifo = Fifo::new(config.build(&fast_context()));
        let Limit::Packets(most) = config.limit else { unreachable!() };
        drive(&mut fifo, &vector, 8, |backlog| assert!(backlog.packets <= most));
        let sfb = fifo.manager();
        for set in core::iter::once(&sfb.active).chain(&sfb.warming) {
            for bin in set.all() {
                let ceiling = match config.law {
                    SfbLaw::Blue => config.ceiling.unwrap_or(f64::INFINITY),
                    SfbLaw::AdaptiveRed => 1.0,
                };
                prop_assert!((0.0..=ceiling).contains(&bin.p));
                prop_assert!(bin.qlen == 0, "nothing waits, so no bin counts anything");
            }
            prop_assert_eq!(set.all().iter().filter(|bin| bin.p >= 1.0).count() as u32, set.polluted());
        }
        prop_assert!((0.0..=1.0).contains(&sfb.p_min));
    }

    #[test]
    fn each_level_accounts_every_waiting_packet_and_no_bin_exceeds_its_size(vector in arrivals(12, 300), bins in 1u32..9) {
        let config = SfbConfig { bins, bin_size: Limit::Packets(4), levels: 3, ..quick() };
        let mut sfb = config.build(&fast_context());
        let mut waiting = alloc::collections::VecDeque::new();
        let mut now = Time::ZERO;
        for (number, &(gap, flow, _)) in vector.iter().enumerate() {
            now += Span::from_nanos(gap);
            let mut packet = packet(flow, now);
            let queue = Backlog { packets: waiting.len() as u32, bytes: 1000 * waiting.len() as u64 };
            if !matches!(sfb.on_arrival(&mut packet, queue, now), Verdict::Drop(_)) {
                waiting.push_back(packet);
            }
            // Any waiting packet may be taken: from the head, or evicted from within.
            if number % 3 == 2 && !waiting.is_empty() {
                let taken = waiting.remove(number % waiting.len()).expect("within");
                sfb.on_departure(&taken, Backlog::EMPTY, now);
            }
            for level in 0..3 {
                let of_level = (0..bins).map(|n| sfb.active.bin(level, n).expect("there").qlen);
                prop_assert!(of_level.clone().max() <= Some(5));
                prop_assert_eq!(of_level.sum::<u32>() as usize, waiting.len());
            }
        }
    }

    #[test]
    fn the_limit_holds_for_any_arrivals(vector in arrivals(3, 400)) {
        // Bins so small that everybody is limited soon, and stays so: an arrival never finds its bin empty.
        let config = SfbConfig {
            bins: 1,
            bin_size: Limit::Packets(0),
            increment: 1.0, decrement: 0.0, freeze: None, ceiling: Some(1.0),
            nonresponsive_rate: BitRate::from_mbps(80),
            ..quick()
        };
        let mut sfb = config.build(&Context { mtu_bytes: 1500, ..fast_context() });
        let (mut now, mut joined) = (Time::ZERO, 0u64);
        let pollute: [Arrival; 2] = [(0, 0, 1000), (0, 0, 1000)];
        for (number, &(gap, flow, size)) in pollute.iter().chain(&vector).enumerate() {
            now += Span::from_nanos(gap);
            let mut packet = Packet { wire_bytes: size, ..packet(flow, now) };
            let verdict = sfb.on_arrival(&mut packet, Backlog::EMPTY, now);
            if !matches!(verdict, Verdict::Drop(_)) {
                sfb.on_departure(&packet, Backlog::EMPTY, now);
                joined += if number < 2 { 0 } else { u64::from(size) };
            } else if number < 2 {
                prop_assert!(number == 1);
            }
            if number == 0 {
                // It stays in its bins for the next one to be found above the size.
                let slots = sfb.active.slots(FlowId(0));
                sfb.active.add(&slots);
            } else if number == 1 {
                let slots = sfb.active.slots(FlowId(0));
                sfb.active.remove(&slots);
            }
            // 80 Mb/s are a byte per 100 ns.
            prop_assert!(joined <= now.as_nanos() / 100 + 1500, "{joined} by {now}");
        }
    }
}

#[test]
fn bins_that_begin_at_the_mean_begin_where_those_in_use_are_without_the_polluted_ones() {
    // One level of three bins: one polluted, one at a half, one at nothing.
    let config = SfbConfig {
        levels: 1,
        bins: 3,
        hash: SfbHash::Even,
        rehash: Some(Span::from_secs(2)),
        double_buffered: false,
        increment: 0.25,
        decrement: 0.0,
        freeze: None,
        ceiling: None,
        ..quick()
    };
    for (bins_begin, expected) in [(BinsBegin::Mean, 0.25), (BinsBegin::Fresh, 0.0)] {
        let mut fifo = Fifo::new(SfbConfig { bins_begin, ..config }.build(&context()));
        // Flows of the simulator have even numbers: 0, 2 and 4 are in bins of their own.
        offer(&mut fifo, 0, 14 + 8, at_millis(1));
        offer(&mut fifo, 2, 14 + 2, at_millis(1));
        drain(&mut fifo, at_millis(2));
        offer(&mut fifo, 4, 1, at_millis(2000));
        let begin: alloc::vec::Vec<u64> =
            fifo.manager().active.all().iter().map(|bin| bin.p.to_bits()).collect();
        assert_eq!(begin, [f64::to_bits(expected); 3]);
    }
}

#[test]
fn warmed_bins_stay_above_the_mean_at_which_others_begin() {
    let config = SfbConfig { rehash: Some(Span::from_secs(2)), bins_begin: BinsBegin::Mean, ..quick() };
    let mut fifo = Fifo::new(config.build(&context()));
    for millis in 1..1999 {
        offer(&mut fifo, 1, 2, at_millis(millis));
    }
    offer(&mut fifo, 2, 1, at_millis(2000));
    assert!(fifo.manager().is_nonresponsive(FlowId(1)) && !fifo.manager().is_nonresponsive(FlowId(2)));
}

#[test]
fn bins_that_are_remembered_are_those_that_the_hashes_give_also_after_they_moved() {
    let mut sfb = SfbConfig { rehash: Some(Span::from_secs(1)), ..quick() }.build(&context());
    let flows = [0, 3, 4000, (1 << 16) - 1, 1 << 16, u32::MAX].map(FlowId);
    let bins = |slots: super::bins::Slots| slots.each().collect::<Vec<_>>();
    let mut before = Vec::new();
    for seconds in 0..4 {
        sfb.change_hash(at_millis(1000 * seconds));
        let hashed = flows.map(|flow| bins(sfb.active.hashed(flow)));
        for _ in 0..2 {
            assert_eq!(flows.map(|flow| bins(sfb.active.slots(flow))), hashed);
        }
        assert_ne!(hashed.to_vec(), before, "the functions moved");
        before = hashed.to_vec();
    }
}
