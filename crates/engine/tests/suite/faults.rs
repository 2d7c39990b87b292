//! What real paths do to what runs over them: travel times that vary, clocks that are stepped, edges that begin anew.

use crate::common::{Net, constant, direction, drop_tail, seconds};
use tidegate_engine::{
    Carried, Change, JitterModel, LinkId, LossModel, Network, Observer, ReorderModel, ScriptedChange,
    Statistics, TransportSpec,
};
use tidegate_packet::Packet;
use tidegate_units::{BitRate, Span, Time};

const MIDDLE: u32 = 1;

/// When packets came over the last link of [`stream`], and when they were made.
#[derive(Default)]
struct Arrivals(Vec<(Time, Time)>);

impl Observer for Arrivals {
    fn on_delivered(&mut self, now: Time, link: LinkId, _: &Packet, carried: &Carried, _: Option<&[u8]>) {
        if link == LinkId::of(MIDDLE, false) {
            self.0.push((now, carried.created));
        }
    }
}

/// A stream of packets from h0 to h1, one of 1000 bytes every 2 ms, whose last link is `change`d.
fn stream(change: impl FnOnce(&mut Network)) -> Network {
    let mut net = Net::default();
    net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(1000)));
    let last = net.link("r0", "h1", direction("10Mbit", "5ms", drop_tail(1000)));
    assert_eq!(last.index(), MIDDLE);
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(4)));
    change(&mut net.network);
    net.network
}

fn arrivals(network: Network) -> (Vec<(Time, Time)>, Statistics) {
    let mut simulation = network.build(1, Arrivals::default()).unwrap();
    simulation.run_until(seconds(4.0), u64::MAX);
    simulation.assert_conservation();
    let statistics = simulation.statistics();
    (simulation.into_observer().0, statistics)
}

fn jitter(model: JitterModel) -> impl FnOnce(&mut Network) {
    move |network| network.links[MIDDLE as usize].forward.jitter = Some(model)
}

const UNIFORM: JitterModel = JitterModel::Uniform { most: Span::from_millis(10) };
const SLOTS: JitterModel = JitterModel::Slots { every: Span::from_millis(5), phase: Span::from_millis(2) };

#[test]
fn jitter_keeps_the_order_and_lets_no_packet_take_longer_than_it_says() {
    let (plain, _) = arrivals(stream(|_| ()));
    let (shifted, statistics) = arrivals(stream(jitter(UNIFORM)));
    assert!(shifted.len() > 1980 && plain.len() - shifted.len() <= 5, "{} of {}", shifted.len(), plain.len());
    assert!(shifted.is_sorted());
    let waits: Vec<f64> = shifted
        .iter()
        .zip(&plain)
        .map(|(&(at, created), &(nominal, same))| {
            assert_eq!(created, same);
            (at - nominal).as_secs_f64() * 1e3
        })
        .collect();
    assert!(waits.iter().all(|wait| (0.0..=10.0).contains(wait)));
    // A packet waits for the last of those sent in the 10 ms before it and itself: no longer than w with the probability that all
    // their own times, of which 0, 2, 4, 6, 8 ms are over, are so short. The mean is the integral of its complement.
    let no_longer = |ms: f64| (0..5).map(|k| ((ms + 2.0 * f64::from(k)) / 10.0).min(1.0)).product::<f64>();
    let expected: f64 = (0..1000).map(|step| (1.0 - no_longer(0.01 * (f64::from(step) + 0.5))) * 0.01).sum();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    // 400 independent values with a standard deviation of 2 ms: four standard errors.
    assert!((mean - expected).abs() < 0.4, "{mean} ms, {expected} ms expected");
    assert_eq!(statistics.totals.dropped, 0);
}

#[test]
fn slots_hold_packets_until_their_ends() {
    let (plain, _) = arrivals(stream(|_| ()));
    let (slotted, _) = arrivals(stream(jitter(SLOTS)));
    assert!(slotted.is_sorted() && slotted.len() > 1980);
    for (&(at, created), &(nominal, same)) in slotted.iter().zip(&plain) {
        assert_eq!(created, same);
        assert_eq!(at.as_nanos() % 5_000_000, 2_000_000);
        assert!(at >= nominal && at - nominal < Span::from_millis(5));
    }
}

#[test]
fn what_is_held_back_on_a_medium_with_jitter_is_overtaken_still() {
    let reorder = Some(ReorderModel { probability: 0.1, delay: Span::from_millis(30) });
    let (both, _) = arrivals(stream(|network| {
        let forward = &mut network.links[MIDDLE as usize].forward;
        (forward.reorder, forward.jitter) = (reorder, Some(SLOTS));
    }));
    // Travel and transmission take 7.6 ms, a slot up to 5 ms.
    let (held, in_order): (Vec<_>, Vec<_>) =
        both.iter().partition(|&&(at, created)| at - created > Span::from_millis(30));
    assert!(in_order.iter().is_sorted_by_key(|&&(_, created)| created));
    assert!((130..270).contains(&held.len()), "{}", held.len());
    assert!(!both.iter().is_sorted_by_key(|&(_, created)| created));
}

#[test]
fn which_packets_are_lost_and_doubled_does_not_depend_on_jitter() {
    let with = |model: Option<JitterModel>| {
        arrivals(stream(|network| {
            let forward = &mut network.links[MIDDLE as usize].forward;
            forward.loss = Some(LossModel::Random { probability: 0.1 });
            (forward.duplicate, forward.jitter) = (0.2, model);
        }))
    };
    let ((without, _), (uniform, statistics), (slotted, _)) =
        (with(None), with(Some(UNIFORM)), with(Some(SLOTS)));
    let made = |log: &[(Time, Time)]| log.iter().map(|&(_, created)| created).collect::<Vec<_>>();
    let (without, uniform, slotted) = (made(&without), made(&uniform), made(&slotted));
    assert!(statistics.totals.duplicated > 300 && statistics.totals.dropped > 150);
    assert!(uniform.len() > 1900 && slotted.len() > 1900);
    // Copies come beside their originals, in order with all others.
    assert_eq!(uniform[..1900], without[..1900]);
    assert_eq!(slotted[..1900], without[..1900]);
}

#[test]
fn a_delay_that_changes_moves_jittered_packets_and_does_not_mix_them() {
    let change = |network: &mut Network| {
        jitter(UNIFORM)(network);
        let link = LinkId::of(MIDDLE, false);
        network.script = [(1.0, 60), (2.0, 1), (3.0, 5)]
            .map(|(at, ms)| ScriptedChange {
                at: seconds(at),
                link,
                change: Change::Delay(Span::from_millis(ms)),
            })
            .to_vec();
    };
    let (shifted, _) = arrivals(stream(change));
    assert!(shifted.is_sorted() && shifted.is_sorted_by_key(|&(_, created)| created));
    let took = |from: f64, to: f64| {
        let sent = shifted.iter().filter(move |(_, created)| (seconds(from)..seconds(to)).contains(created));
        sent.map(|&(at, created)| (at - created).as_secs_f64() * 1e3)
    };
    // 1.8 ms for two transmissions of 0.8 ms each and the first link.
    assert!(took(1.01, 1.9).all(|ms| (62.5..72.7).contains(&ms)));
    assert!(took(2.01, 2.9).all(|ms| (3.5..13.7).contains(&ms)));
    assert_eq!(shifted, arrivals(stream(change)).0);
}
