//! What the rule decides, and what the pinger believes.

use alloc::format;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{FlowId, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::law::{Autorate, Load, Pingers, Rule};
use super::wire::{self, Message, Ping, Pong};
use super::{AutorateConfig, AutoratePinger, AutorateReflector, PingDelays};
use crate::Context;
use crate::edge::testing::{HEADERS, Said};
use crate::edge::{Admission, AggregateId, BorderSite, EdgeHalf, PeerId};

const MS: i64 = 1000;

/// A rule whose baselines are all 20 ms.
fn settled(config: &AutorateConfig) -> (Autorate, i64) {
    let mut law = Autorate::new(config.rule(), 0);
    let now = responses(&mut law, 120, 20 * MS, 0);
    (law, now)
}

/// Responses of all pingers, 50 ms apart, each so late; the instant of the last one.
fn responses(law: &mut Autorate, count: usize, delay: i64, mut now: i64) -> i64 {
    for ping in 0..count {
        now += 50 * MS;
        let _ = law.on_response(ping % 6, delay, now);
    }
    now
}

/// The delay that exceeds the baseline by `delta` once that has followed it.
fn late_by(delta: i64, baseline: i64) -> i64 {
    let delays = baseline..baseline + 2 * delta;
    let exceeds = |delay: &i64| delay - (delay + 999 * baseline) / 1000 == delta;
    delays.into_iter().find(exceeds).expect("the baseline follows slowly")
}

/// Without steps to the base, which would hide others.
fn without_decay() -> AutorateConfig {
    AutorateConfig { decay_refractory: Span::from_secs(3600), ..AutorateConfig::default() }
}

#[test]
fn the_baseline_falls_fast_and_rises_slowly() {
    let mut law = Autorate::new(AutorateConfig::default().rule(), 0);
    let _ = law.on_response(0, 20_000, 50 * MS);
    // 0.9 of 20 ms and 0.1 of 100 ms.
    assert_eq!(law.baseline(0), 28_000);
    let _ = law.on_response(0, 128_000, 100 * MS);
    // A thousandth of the 100 ms that it is too low.
    assert_eq!(law.baseline(0), 28_100);
    assert_eq!(law.baseline(1), 100_000, "each pinger has its own");
}

#[test]
fn three_late_samples_of_six_are_bufferbloat_and_two_are_not() {
    let (mut law, now) = settled(&without_decay());
    let now = responses(&mut law, 2, 100 * MS, now);
    assert!(!law.is_bloated());
    let now = responses(&mut law, 4, 20 * MS, now);
    assert!(!law.is_bloated());
    let now = responses(&mut law, 3, 100 * MS, now);
    assert!(law.is_bloated());
    responses(&mut law, 4, 20 * MS, now);
    assert!(!law.is_bloated(), "those samples have left the window");
}

#[test]
fn a_sample_is_late_beyond_the_threshold_and_the_time_of_a_packet() {
    // At 20 Mbit/s 1500 bytes take 600 us. Of a delta, a thousandth goes into the baseline.
    for (delta, is_late) in [(30_600, false), (30_650, true)] {
        let (mut law, now) = settled(&without_decay());
        responses(&mut law, 3, 20 * MS + delta, now);
        assert_eq!(law.is_bloated(), is_late, "{delta}");
    }
}

#[test]
fn the_rate_falls_by_the_more_the_greater_the_average_delay_is() {
    // A window of one sample, so that the average is the sample; its excess beyond 30.6 ms of what is from there to 60.6 ms.
    let config = AutorateConfig { bufferbloat_window: 1, bufferbloat_thr: 1, ..without_decay() };
    for (delta, part) in [(31_000, 13), (45_600, 500), (60_600, 1000), (500_000, 1000)] {
        let (mut law, now) = settled(&config);
        let baseline = law.baseline(0);
        let delay = late_by(delta, baseline);
        let _ = law.on_response(0, delay, now + 50 * MS);
        assert_eq!(law.average_delta(), delta);
        assert_eq!(law.rate(), 20_000 * (990_000 - part * 240) / 1_000_000, "{delta}");
    }
}

#[test]
fn the_rate_falls_once_in_a_refractory_period() {
    let (mut law, now) = settled(&without_decay());
    let now = responses(&mut law, 3, 1020 * MS, now);
    assert_eq!(law.rate(), 15_000);
    let now = responses(&mut law, 6, 1020 * MS, now);
    assert_eq!(law.rate(), 15_000, "300 ms later is not after 300 ms");
    responses(&mut law, 1, 1020 * MS, now);
    assert_eq!(law.rate(), 11_250);
}

#[test]
fn under_high_load_the_rate_rises_once_for_each_measurement() {
    let (mut law, now) = settled(&without_decay());
    let _ = law.on_load(15_199, now);
    assert_eq!(law.load(), Load::Low, "75 % is not more than 75 %");
    let _ = law.on_load(15_200, now);
    assert_eq!(law.load(), Load::High);
    let now = responses(&mut law, 4, 20 * MS, now);
    assert_eq!(law.rate(), 20_800);
    let _ = law.on_load(20_000, now);
    responses(&mut law, 4, 20 * MS, now);
    assert_eq!(law.rate(), 21_632);
}

#[test]
fn between_the_thresholds_the_rate_rises_by_less() {
    // From 10.6 ms to 30.6 ms; at 20.6 ms by half, and beyond not at all. A window of one sample is its own average.
    let config = AutorateConfig { bufferbloat_window: 1, bufferbloat_thr: 1, ..without_decay() };
    for (delta, rate) in [(10_000, 20_800), (20_600, 20_400), (30_500, 20_004)] {
        let (mut law, now) = settled(&config);
        let _ = law.on_load(20_000, now);
        let baseline = law.baseline(0);
        let delay = late_by(delta, baseline);
        let _ = law.on_response(0, delay, now + 50 * MS);
        assert_eq!((law.average_delta(), law.rate()), (delta, rate));
    }
}

#[test]
fn without_load_the_rate_returns_to_the_base_from_both_sides() {
    let (mut law, mut now) = settled(&AutorateConfig::default());
    for _ in 0..10 {
        let _ = law.on_load(law.rate(), now);
        now = responses(&mut law, 4, 20 * MS, now);
    }
    let raised = law.rate();
    assert!(raised > 29_000, "{raised}");
    let _ = law.on_load(3_000, now);
    now = responses(&mut law, 21, 20 * MS, now);
    assert_eq!(law.rate(), raised * 990 / 1000, "one step in a second");
    now = responses(&mut law, 60 * 20, 20 * MS, now);
    assert_eq!(law.rate(), 20_000);
    now = responses(&mut law, 3, 1020 * MS, now);
    assert_eq!(law.rate(), 15_000);
    now = responses(&mut law, 6, 20 * MS, now);
    responses(&mut law, 60 * 20, 20 * MS, now);
    assert_eq!(law.rate(), 20_000);
}

#[test]
fn pingers_sleep_when_the_connection_is_idle_and_wake_when_it_is_used() {
    let mut law = Autorate::new(AutorateConfig::default().rule(), 0);
    let mut now = 0;
    while law.on_response(0, 20 * MS, now) == Pingers::GoOn {
        now += 50 * MS;
    }
    assert_eq!(now, 60_050 * MS, "more than sixty seconds after the first of them");
    let before = law.rate();
    assert_eq!(law.on_response(0, 1020 * MS, now), Pingers::GoOn);
    assert_eq!(law.rate(), before, "asleep it hears nothing");
    assert_eq!(law.on_load(2_000, now), Pingers::GoOn);
    assert_eq!(law.on_load(2_001, now), Pingers::Start);
}

#[test]
fn a_stall_ends_with_a_response_that_counts_for_nothing_else() {
    let (mut law, now) = settled(&AutorateConfig::default());
    let _ = law.on_load(10, now + 251 * MS);
    let before = format!("{:?}", law.baseline(0));
    let _ = law.on_response(0, MS, now + 260 * MS);
    assert_eq!(format!("{:?}", law.baseline(0)), before);
    let _ = law.on_response(0, MS, now + 270 * MS);
    assert_ne!(format!("{:?}", law.baseline(0)), before);
    // With more load it is none.
    let _ = law.on_load(11, now + 600 * MS);
    let _ = law.on_response(1, MS, now + 610 * MS);
    assert_ne!(format!("{:?}", law.baseline(1)), before);
}

#[test]
fn without_any_response_pingers_start_anew_and_the_rate_is_the_least_if_it_is_to_be() {
    for enforce_min in [false, true] {
        let (mut law, now) = settled(&AutorateConfig { enforce_min, ..AutorateConfig::default() });
        let starts: Vec<i64> =
            (1..=150).filter(|tick| law.on_load(20_000, now + tick * 200 * MS) == Pingers::Start).collect();
        assert_eq!(starts, [50, 100, 150], "every ten seconds");
        assert_eq!(law.rate(), if enforce_min { 5_000 } else { 20_000 });
    }
}

#[test]
fn one_way_delays_of_a_clock_that_was_set_by_an_hour_are_the_new_baseline() {
    let hour = 3_600_000 * MS;
    let (mut law, now) = settled(&AutorateConfig { delays: PingDelays::OneWay, ..without_decay() });
    responses(&mut law, 6, 20 * MS + hour, now);
    assert!(!law.is_bloated());
    assert_eq!(law.baseline(0), 20 * MS + hour);
}

/// A pinger, and what two far edges of it say; a packet of 1000 bytes for each of them in turn every `every` microseconds.
struct World {
    pinger: AutoratePinger,
    far: AutorateReflector,
    edges: u32,
    every: u64,
    /// What a ping takes in microseconds, there and back.
    ways: (u64, u64),
    /// By how much the far clocks are ahead.
    ahead: Span,
    now: u64,
    rate: Option<BitRate>,
    /// Each ping: when, to whom.
    pings: Vec<(u64, PeerId)>,
    under_way: Vec<(u64, PeerId, Vec<u8>)>,
    pongs: Vec<(PeerId, Vec<u8>)>,
}

impl World {
    fn new(config: &AutorateConfig, edges: u32) -> Self {
        let site = BorderSite { border: PeerId(0), level: 0 };
        let (pinger, far) = config.build(site, &Context::for_tests());
        Self {
            pinger,
            far,
            edges,
            every: 1000,
            ways: (10_000, 10_000),
            ahead: Span::ZERO,
            now: 1_000_000,
            rate: None,
            pings: Vec::new(),
            under_way: Vec::new(),
            pongs: Vec::new(),
        }
    }

    fn run(&mut self, micros: u64) {
        for micro in (self.now..self.now + micros).step_by(100) {
            self.now = micro;
            let (at, mut out) = (Time::ZERO + Span::from_micros(micro), Said::default());
            if micro.is_multiple_of(self.every) {
                let edge = PeerId(1 + (micro / self.every % u64::from(self.edges)) as u32);
                let mut packet = Packet::new(0, FlowId(0), 1000);
                let admission = self.pinger.on_packet(&mut packet, &HEADERS, &[edge], at, &mut out);
                assert_eq!(admission, Admission::Shape(AggregateId(0)), "there is one shaper");
                self.pinger.on_release(AggregateId(0), &mut packet, &mut Said::default(), at, &mut out);
            }
            while let Some((_, from, pong)) = self.under_way.pop_if(|(due, ..)| *due <= micro) {
                self.pinger.on_message(from, &pong, 255, at, &mut out);
                self.pongs.push((from, pong));
            }
            if self.pinger.timer_at().is_some_and(|due| due <= at) {
                self.pinger.on_timer(at, &mut out);
            }
            self.rate = out.rate.or(self.rate);
            for (to, ping) in out.to.iter().zip(&out.sent) {
                self.pings.push((micro, *to));
                let (there, back) = self.ways;
                let mut answer = Said::default();
                let arrives = at + Span::from_micros(there) + self.ahead;
                self.far.on_message(PeerId(0), ping, 255, arrives, &mut answer);
                for pong in answer.sent {
                    self.under_way.insert(0, (micro + there + back, *to, pong));
                }
            }
        }
        self.now += 100;
    }
}

#[test]
fn six_pingers_ping_in_turn_however_many_far_edges_there_are() {
    for edges in [1, 2, 3, 9] {
        let mut world = World::new(&AutorateConfig::default(), edges);
        world.run(100_000);
        world.pings.clear();
        world.run(3_000_000);
        assert!((59..=61).contains(&world.pings.len()), "twenty in a second: {}", world.pings.len());
        for pair in world.pings.windows(2) {
            assert_eq!(pair[1].0 - pair[0].0, 50_000);
        }
        // Those to which packets went first, if there are more than pingers.
        let asked = edges.min(6);
        let counts =
            (1..=edges).map(|edge| world.pings.iter().filter(|(_, to)| *to == PeerId(edge)).count() as u32);
        let counts: Vec<u32> = counts.filter(|count| *count > 0).collect();
        assert_eq!(counts.len() as u32, asked);
        assert!(counts.iter().all(|count| count.abs_diff(60 / asked) <= 1), "{counts:?}");
    }
}

#[test]
fn what_leaves_the_shaper_is_what_is_achieved_whatever_its_exit() {
    let mut world = World::new(&AutorateConfig::default(), 3);
    world.run(2_000_000);
    // 1000 bytes in a millisecond.
    let report = world.pinger.report().expect("it has begun");
    assert!((report.egress_rate - 1e6).abs() < 6e3, "{report:?}");
    assert_eq!(report.rtt, Some(Span::from_millis(20)));
}

#[test]
fn the_rate_rises_while_it_is_used_and_falls_when_pings_are_late() {
    let mut world = World::new(&AutorateConfig::default(), 1);
    world.every = 400; // 20 Mbit/s
    world.run(3_000_000);
    let raised = world.rate.expect("it was set");
    assert!(raised > BitRate::from_mbps(25), "{raised}");
    world.ways = (210_000, 10_000);
    world.run(3_000_000);
    assert_eq!(world.rate, Some(BitRate::from_mbps(5)));
}

#[test]
fn congestion_of_the_way_back_counts_for_round_trips_alone_and_clocks_may_differ() {
    for (delays, falls) in [(PingDelays::RoundTrip, true), (PingDelays::OneWay, false)] {
        let mut world = World::new(&AutorateConfig { delays, ..AutorateConfig::default() }, 1);
        world.every = 400;
        world.ahead = Span::from_millis(60);
        world.run(3_000_000);
        assert!(world.rate > Some(BitRate::from_mbps(25)), "{delays:?}: {:?}", world.rate);
        world.ways = (10_000, 210_000);
        world.run(3_000_000);
        let least = world.rate == Some(BitRate::from_mbps(5));
        assert_eq!(least, falls, "{delays:?}: {:?}", world.rate);
    }
}

#[test]
fn pongs_that_are_old_doubled_forged_or_from_another_change_nothing() {
    let mut world = World::new(&AutorateConfig::default(), 2);
    world.run(510_000);
    let old = world.pongs.clone();
    assert!(old.len() > 5);
    // A ping is under way since 10 ms.
    let (_, from, bytes) = world.under_way[0].clone();
    let Ok(Message::Pong(pong)) = wire::decode(&bytes) else { panic!("a pong") };
    let other = PeerId(3 - from.0);
    let forged = [
        (from, Pong { ping: Ping { life: pong.ping.life ^ 1, ..pong.ping }, ..pong }),
        (from, Pong { ping: Ping { sequence: pong.ping.sequence + 1, ..pong.ping }, ..pong }),
        (from, Pong { ping: Ping { sent: pong.ping.sent - 1, ..pong.ping }, ..pong }),
        (other, pong),
    ];
    let before = format!("{:?}", world.pinger);
    let at = Time::ZERO + Span::from_micros(world.now);
    let mut out = Said::default();
    let forged = forged.map(|(sender, lie)| (sender, lie.encode().to_vec()));
    for (sender, lie) in old.into_iter().chain(forged) {
        world.pinger.on_message(sender, &lie, 255, at, &mut out);
        assert_eq!(format!("{:?}", world.pinger), before, "{sender:?} {lie:?}");
    }
    world.pinger.on_message(from, &pong.encode(), 255, at, &mut out);
    let after = format!("{:?}", world.pinger);
    assert_ne!(after, before, "the answer itself counts");
    world.pinger.on_message(from, &pong.encode(), 255, at, &mut out);
    assert_eq!(format!("{:?}", world.pinger), after, "once");
}

#[test]
fn what_is_of_another_class_passes() {
    let config = AutorateConfig { class: Some(2), ..AutorateConfig::default() };
    let mut pinger = config.build(BorderSite { border: PeerId(0), level: 0 }, &Context::for_tests()).0;
    let mut packet = Packet::new(0, FlowId(0), 1000);
    let admission = pinger.on_packet(&mut packet, &HEADERS, &[PeerId(1)], Time::ZERO, &mut Said::default());
    assert_eq!(admission, Admission::Pass);
    assert_eq!(pinger.timer_at(), None, "and gives no occasion to ping");
}

/// What may happen to the rule.
#[derive(Clone, Debug)]
enum Event {
    Load(i64),
    Response(usize, i64),
}

fn event() -> impl Strategy<Value = (Event, i64)> {
    let delays = prop_oneof![4 => 0i64..200_000, 1 => -1_000_000i64..20_000_000, 1 => any::<i64>().prop_map(|n| n >> 10)];
    let loads = prop_oneof![4 => 0i64..100_000, 1 => any::<i64>()];
    let what = prop_oneof![
        1 => loads.prop_map(Event::Load),
        4 => (0usize..6, delays).prop_map(|(pinger, delay)| Event::Response(pinger, delay)),
    ];
    (what, prop_oneof![8 => 0i64..100_000, 1 => 0i64..100_000_000])
}

fn rule() -> impl Strategy<Value = (Rule, [i64; 3])> {
    let rates = (1i64..100_000, 0i64..100_000, 0i64..100_000);
    (rates, any::<[bool; 3]>(), 1u32..8, 0u64..100, 0u64..100).prop_map(
        |(rates, switches, window, up, down)| {
            let (min, base, max) = (rates.0, rates.0 + rates.1, rates.0 + rates.1 + rates.2);
            let rate = |kbps: i64| BitRate::from_bps(kbps as u64 * 1000);
            let config = AutorateConfig {
                rate_min: rate(min),
                rate_base: rate(base),
                rate_max: rate(max),
                delays: if switches[0] { PingDelays::OneWay } else { PingDelays::RoundTrip },
                sleep: switches[1],
                enforce_min: switches[2],
                bufferbloat_window: window,
                bufferbloat_thr: window.div_ceil(2),
                max_adjust_up_thr: Span::from_millis(up),
                max_adjust_down_thr: Span::from_millis(down),
                ..AutorateConfig::default()
            };
            (config.rule(), [min, base, max])
        },
    )
}

proptest! {
    #[test]
    fn whatever_comes_the_rate_stays_between_the_least_and_the_greatest(
        (rule, [min, base, max]) in rule(), events in prop::collection::vec(event(), 0..300),
    ) {
        // What is half of a round trip is never longer than the wait for an answer, nor negative.
        let is_one_way = rule.is_one_way;
        let mut law = Autorate::new(rule, 0);
        prop_assert_eq!(law.rate(), base);
        let mut now = 0;
        for (event, later) in events {
            now += later;
            let _ = match event {
                Event::Load(kbps) => law.on_load(kbps, now),
                Event::Response(pinger, delay) => {
                    let delay = if is_one_way { delay } else { delay.clamp(0, 5_000_000) };
                    law.on_response(pinger, delay, now)
                }
            };
            prop_assert!((min..=max).contains(&law.rate()), "{} of {min}..{max}", law.rate());
        }
    }
}
