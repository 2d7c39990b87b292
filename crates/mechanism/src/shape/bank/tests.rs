use super::*;
use crate::queue::{BlueConfig, Fifo, ManagerConfig, PieConfig, RedConfig};
use crate::schedule::CakeConfig;
use tidegate_packet::FlowId;

#[derive(Default)]
struct Drops(Vec<DropReason>);
impl Sink for Drops {
    fn on_drop(&mut self, _packet: Packet, why: DropReason) {
        self.0.push(why);
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
}

fn bank() -> ShaperBank {
    ShaperBank::new(ShaperConfig::default(), Bytes::ZERO, Context::for_tests())
}

#[test]
fn each_aggregate_leaves_at_its_own_rate() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    // One and two bytes per microsecond.
    bank.open(AggregateId(0), BitRate::from_mbps(8), Time::ZERO);
    bank.open(AggregateId(1), BitRate::from_mbps(16), Time::ZERO);
    for slot in 0..6 {
        bank.enqueue(AggregateId(slot % 2), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
    }
    let mut order = Vec::new();
    while let Some(at) = bank.release_at() {
        while let Some((aggregate, _)) = bank.release(at, &mut drops) {
            order.push((at.as_nanos() / 1_000_000, at.as_nanos() / 1000 % 1000, aggregate.0));
        }
    }
    assert_eq!(order, [(0, 0, 0), (0, 0, 1), (0, 500, 1), (1, 0, 0), (1, 0, 1), (2, 0, 0)]);
    assert!(drops.0.is_empty());
}

#[test]
fn a_higher_rate_brings_the_head_forward_and_a_rate_of_zero_stops_it() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    let id = AggregateId(3);
    bank.open(id, BitRate::from_bps(8), Time::ZERO);
    bank.enqueue(id, Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut drops);
    bank.enqueue(id, Packet::new(1, FlowId(0), 1000), Time::ZERO, &mut drops);
    assert!(bank.release(Time::ZERO, &mut drops).is_some());
    bank.set_rate(id, BitRate::from_mbps(8), Time::ZERO);
    let soon = Time::ZERO + Span::from_millis(1);
    assert_eq!(bank.release_at(), Some(soon));
    bank.set_rate(id, BitRate::ZERO, Time::ZERO);
    assert_eq!(bank.release(soon, &mut drops), None);
    assert_eq!(bank.backlog(id).packets, 1);
}

#[test]
fn a_bucket_that_is_a_time_goes_with_the_rate() {
    let config = ShaperConfig { bucket: Some(Limit::Time(Span::from_millis(1))), ..ShaperConfig::default() };
    let mut bank = ShaperBank::new(config, Bytes::ZERO, Context::for_tests());
    let (id, mut drops) = (AggregateId(0), Drops::default());
    bank.open(id, BitRate::from_mbps(40), Time::ZERO);
    let mut now = Time::ZERO;
    // Per millisecond: five packets of 1000 bytes, ten, and less than one, which always passes alone.
    for (mbps, at_once) in [(40, 5), (80, 10), (4, 1)] {
        now += Span::from_secs(1);
        bank.set_rate(id, BitRate::from_mbps(mbps), now);
        for slot in 0..20 {
            bank.enqueue(id, Packet::new(slot, FlowId(0), 1000), now, &mut drops);
        }
        let gone = core::iter::from_fn(|| bank.release(now, &mut drops)).count();
        assert_eq!(gone, at_once, "{mbps} Mbit/s");
        // After that one by one, at the rate.
        let next = bank.release_at().unwrap();
        assert_eq!(next.since(now), Span::from_micros(8000 / mbps), "{mbps} Mbit/s");
        bank.purge(now, DropReason::LinkDown, &mut drops);
    }
}

#[test]
fn the_queue_in_front_of_a_shaper_is_bounded() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    bank.open(AggregateId(0), BitRate::from_bps(1), Time::ZERO);
    for slot in 0..500 {
        bank.enqueue(AggregateId(0), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
    }
    assert_eq!(bank.backlog(AggregateId(0)).packets, 101);
    assert_eq!(drops.0.len(), 399);
}

#[test]
fn what_is_purged_is_dropped_and_the_shapers_go_on_with_what_comes_then() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    for aggregate in 0..2 {
        bank.open(AggregateId(aggregate), BitRate::from_mbps(8), Time::ZERO);
        for slot in 0..3 {
            bank.enqueue(AggregateId(aggregate), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
        }
    }
    bank.purge(Time::ZERO, DropReason::LinkDown, &mut drops);
    assert_eq!(drops.0, [DropReason::LinkDown; 6]);
    assert!(bank.release_at().is_none() && bank.backlog(AggregateId(0)).is_empty());
    bank.enqueue(AggregateId(1), Packet::new(7, FlowId(0), 1000), Time::ZERO, &mut drops);
    assert_eq!(bank.release(Time::ZERO, &mut drops).unwrap().1.slot, 7);
}

#[test]
fn what_is_evicted_comes_out_in_order_before_it_is_due() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    for aggregate in 0..2 {
        bank.open(AggregateId(aggregate), BitRate::from_bps(8), Time::ZERO);
    }
    for slot in 0..6 {
        bank.enqueue(AggregateId(slot % 2), Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
    }
    let evicted: Vec<u32> =
        core::iter::from_fn(|| bank.evict(Time::ZERO)).map(|packet| packet.slot).collect();
    assert_eq!(evicted, [0, 2, 4, 1, 3, 5]);
    assert!(bank.release_at().is_none() && drops.0.is_empty());
}

#[test]
fn ten_thousand_changes_of_rate_leave_a_short_agenda() {
    let (mut bank, mut drops) = (bank(), Drops::default());
    bank.open(AggregateId(0), BitRate::from_bps(1), Time::ZERO);
    bank.enqueue(AggregateId(0), Packet::new(0, FlowId(0), 1000), Time::ZERO, &mut drops);
    bank.release(Time::ZERO, &mut drops);
    bank.enqueue(AggregateId(0), Packet::new(1, FlowId(0), 1000), Time::ZERO, &mut drops);
    for change in 0..10_000 {
        bank.set_rate(AggregateId(0), BitRate::from_bps(1000 + change), Time::ZERO);
    }
    assert!(bank.agenda.len() <= 69);
}

#[test]
fn all_that_waits_is_taken_one_by_one_and_again_later() {
    let (mut bank, now) = (bank(), Time::ZERO);
    let mut drops = Drops::default();
    for round in 0..2 {
        for aggregate in 0..3 {
            if round == 0 {
                bank.open(AggregateId(aggregate), BitRate::from_mbps(1), now);
            }
            for number in 0..aggregate {
                let packet = Packet::new(number, FlowId(aggregate), 1000);
                bank.enqueue(AggregateId(aggregate), packet, now, &mut drops);
            }
        }
        let taken: Vec<u32> = core::iter::from_fn(|| bank.evict(now)).map(|packet| packet.flow.0).collect();
        assert_eq!(taken, [1, 2, 2]);
        assert_eq!(bank.release_at(), None);
    }
    assert_eq!(bank.open_count(), 3);
    bank.close(AggregateId(1));
    bank.close(AggregateId(1));
    assert_eq!(bank.open_count(), 2);
    assert!(drops.0.is_empty());
}

const ONE: AggregateId = AggregateId(0);

fn bank_of(queue: DisciplineConfig) -> ShaperBank {
    ShaperBank::new(ShaperConfig { bucket: None, queue }, Bytes::ZERO, Context::for_tests())
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Everything that is due by `until`; how much that is.
fn release_until(bank: &mut ShaperBank, until: Time, drops: &mut Drops) -> usize {
    let mut released = 0;
    while let Some(at) = bank.release_at().filter(|&at| at <= until) {
        released += core::iter::from_fn(|| bank.release(at, drops)).count();
    }
    released
}

#[test]
fn a_law_with_a_timer_holds_the_queue_in_front_of_a_shaper() {
    // RFC 8033: twice what may leave, for ten seconds; without updates of its probability PIE lets in all that has room.
    let mut bank = bank_of(DisciplineConfig::Fifo(ManagerConfig::Pie(PieConfig::default())));
    let mut drops = Drops::default();
    bank.open(ONE, BitRate::from_mbps(8), Time::ZERO);
    let mut longest = 0;
    for slot in 0..20_000 {
        let now = Time::ZERO + Span::from_micros(500 * u64::from(slot));
        release_until(&mut bank, now, &mut drops);
        bank.enqueue(ONE, Packet::new(slot, FlowId(0), 1000), now, &mut drops);
        if now > millis(5000) {
            longest = longest.max(bank.backlog(ONE).packets);
        }
    }
    // A packet is a millisecond.
    assert!(longest < 100, "{longest}");
    assert!(drops.0.iter().all(|&why| why == DropReason::Early), "{:?}", drops.0.first());
}

#[test]
fn a_queue_is_idle_from_when_the_bucket_could_send_another_packet() {
    let blue =
        BlueConfig { limit: Limit::Packets(1), delta_up: 0.5, delta_down: 0.5, ..BlueConfig::default() };
    let mut bank = bank_of(DisciplineConfig::Fifo(ManagerConfig::Blue(blue)));
    let mut drops = Drops::default();
    bank.open(ONE, BitRate::from_mbps(8), Time::ZERO);
    let mut offer = |to: &mut ShaperBank, now: Time| {
        let before = drops.0.len();
        to.enqueue(ONE, Packet::new(0, FlowId(0), 1000), now, &mut drops);
        drops.0.get(before).copied()
    };
    // One is at the bucket, one waits, and the third is lost: the probability is a half.
    assert_eq!([0, 0, 0].map(|at| offer(&mut bank, millis(at))), [None, None, Some(DropReason::Overflow)]);
    let mut unseen = Drops::default();
    assert_eq!(release_until(&mut bank, millis(1), &mut unseen), 2);
    // It is idle from 2 ms on, and the freeze time over at 10 ms: then nothing is notified any more.
    let late: Vec<_> = (0..50)
        .filter_map(|packet| {
            let now = millis(100 + 10 * packet);
            let dropped = offer(&mut bank, now);
            release_until(&mut bank, now + Span::from_millis(2), &mut unseen);
            dropped
        })
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

/// Five packets of as many flows behind CAKE with a shaper of its own, in front of one of 80 Mbit/s.
fn five_behind_cake(bandwidth: BitRate) -> (ShaperBank, Drops) {
    let cake = CakeConfig { bandwidth: Some(bandwidth), ..CakeConfig::default() };
    let (mut bank, mut drops) = (bank_of(DisciplineConfig::Cake(cake)), Drops::default());
    bank.open(ONE, BitRate::from_mbps(80), Time::ZERO);
    for slot in 0..5 {
        bank.enqueue(ONE, Packet::new(slot, FlowId(slot), 1000), Time::ZERO, &mut drops);
    }
    (bank, drops)
}

#[test]
fn what_a_queue_holds_back_goes_when_the_queue_lets_it_without_another_packet() {
    // A second shaper of a tenth of the rate.
    let (mut bank, mut drops) = five_behind_cake(BitRate::from_mbps(8));
    let sent: Vec<usize> = (0..5).map(|at| release_until(&mut bank, millis(at), &mut drops)).collect();
    assert_eq!(sent.iter().sum::<usize>(), 5, "{sent:?}");
    assert!(sent.iter().all(|&sent| sent == 1), "{sent:?}");
    assert!(bank.release_at().is_none() && bank.backlog(ONE).is_empty() && drops.0.is_empty());
}

#[test]
fn what_is_evicted_is_all_there_is_whatever_a_queue_holds_back() {
    let (mut bank, drops) = five_behind_cake(BitRate::from_bps(800));
    let mut slots: Vec<u32> =
        core::iter::from_fn(|| bank.evict(millis(1))).map(|packet| packet.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3, 4]);
    assert!(bank.backlog(ONE).is_empty() && bank.release_at().is_none() && drops.0.is_empty());
}

#[test]
fn a_queue_hears_of_each_rate_at_its_own_instant() {
    // RED on a link that is idle forgets what could have been sent: a second at 8 Mbit/s and nine at a hundredth of that.
    let red = RedConfig { weight: 0.002, mean_packet: Bytes::new(1000), ..RedConfig::default() };
    let context = Context { link_rate: BitRate::from_mbps(8), ..Context::for_tests() };
    let (slow, mut drops) = (BitRate::from_bps(80_000), Drops::default());
    let mut bank = bank_of(DisciplineConfig::Fifo(ManagerConfig::Red(red)));
    bank.open(ONE, context.link_rate, Time::ZERO);
    let mut alone = Fifo::new(ManagerConfig::Red(red).build(&context));
    let packet = |slot| Packet::new(slot, FlowId(0), 1000);
    // The first one is at the bucket, and what waits behind it is on the average.
    for slot in 0..20 {
        bank.enqueue(ONE, packet(slot), Time::ZERO, &mut drops);
        alone.enqueue(packet(slot), Time::ZERO, &mut drops);
        if slot == 0 {
            alone.dequeue(Time::ZERO, &mut drops);
        }
    }
    release_until(&mut bank, millis(20), &mut drops);
    while alone.dequeue(millis(19), &mut drops).is_some() {}
    alone.on_idle(millis(20));
    for number in 0..90 {
        bank.set_rate(ONE, slow, millis(1020 + 100 * number));
    }
    alone.set_link_rate(slow, millis(1020));
    let now = millis(10_020);
    bank.enqueue(ONE, packet(99), now, &mut drops);
    alone.enqueue(packet(99), now, &mut drops);
    let average = |queue: &dyn Fn(&str) -> Option<f64>| queue("average_queue_packets").expect("it has one");
    let of_bank = average(&|name| bank.aggregates[0].as_ref().and_then(|shaped| shaped.queue.variable(name)));
    let of_alone = average(&|name| alone.variable(name));
    assert!(of_alone > 0.0 && (of_bank - of_alone).abs() < 1e-9 * of_alone, "{of_bank} {of_alone}");
}

#[test]
fn after_a_long_silence_no_packet_waits_for_all_that_a_law_has_to_make_up() {
    // A probability of one that falls by a millionth at each of a million steps in a second.
    let blue = BlueConfig {
        limit: Limit::Packets(1),
        delta_up: 1.0,
        delta_down: 1e-6,
        freeze_time: Span::from_micros(1),
        ..BlueConfig::default()
    };
    let mut bank = bank_of(DisciplineConfig::Fifo(ManagerConfig::Blue(blue)));
    let mut drops = Drops::default();
    bank.open(ONE, BitRate::from_mbps(8), Time::ZERO);
    for slot in 0..3 {
        bank.enqueue(ONE, Packet::new(slot, FlowId(0), 1000), Time::ZERO, &mut drops);
    }
    release_until(&mut bank, millis(10), &mut drops);
    let mut probability = |at| {
        bank.enqueue(ONE, Packet::new(9, FlowId(0), 1000), at, &mut Drops::default());
        let queue = &bank.aggregates[0].as_ref().expect("it is open").queue;
        queue.variable("marking_probability").expect("it has one")
    };
    let first = probability(millis(3_600_000));
    assert!((1.0 - first - 1e-6 * f64::from(TIMERS_MAX)).abs() < 3e-6, "{first}");
    let second = probability(millis(3_600_000));
    assert!(second < first - 0.06, "it goes on");
}
