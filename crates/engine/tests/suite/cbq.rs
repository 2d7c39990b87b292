//! A scheduler that holds packets back, on a link: the port looks again exactly when a packet may go, and only then.

use crate::common::{Fate, Net, Recorder, constant, direction, drop_tail, seconds};
use tidegate_engine::{Change, ScriptedChange, TransportSpec};
use tidegate_mechanism::schedule::{CbqClassConfig, CbqConfig, DisciplineConfig};
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Span, Time};

/// One class of 30 % that may not borrow.
fn held_back(rate: Option<BitRate>) -> DisciplineConfig {
    let root = CbqClassConfig { priority: Some(8), ..CbqClassConfig::with("root".into(), 1.0) };
    let class = CbqClassConfig {
        parent: Some("root".into()),
        priority: Some(1),
        borrow: false,
        ..CbqClassConfig::with("held back".into(), 0.3)
    };
    let classes = vec![root, class];
    let default = Some("held back".into());
    DisciplineConfig::Cbq(CbqConfig { classes, default, rate, ..CbqConfig::default() })
}

/// A source of 8 Mbit/s into a link of 10 Mbit/s under `queue`; instants at which packets of 1000 bytes came out of it, and
/// what else happened, until 4 s.
fn run(queue: DisciplineConfig, script: &[(f64, Change)]) -> (Vec<Time>, Vec<Fate>, u64) {
    let mut net = Net::default();
    net.link("h1", "r1", direction("100Mbit", "1ms", drop_tail(1000)));
    let link = net.link("r1", "h2", direction("10Mbit", "1ms", queue));
    net.flow("h1", &["h2"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(8)));
    let at = |&(at, change): &(f64, Change)| ScriptedChange { at: seconds(at), link, change };
    net.network.script.extend(script.iter().map(at));
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(4.0), u64::MAX);
    simulation.assert_conservation();
    let events = simulation.totals().events;
    let log = simulation.into_observer().log;
    let times = log.iter().filter(|entry| entry.3 == Fate::Delivered(link)).map(|entry| entry.0).collect();
    (times, log.iter().map(|entry| entry.3).collect(), events)
}

/// Nanoseconds between packets, from `begin` to `end` in seconds.
fn gaps(times: &[Time], begin: f64, end: f64) -> Vec<u64> {
    let within: Vec<_> = times.iter().filter(|&&at| at > seconds(begin) && at < seconds(end)).collect();
    assert!(within.len() > 10);
    within.windows(2).map(|pair| pair[1].since(*pair[0]).as_nanos()).collect()
}

#[test]
fn a_class_that_is_held_back_sends_at_exactly_its_rate() {
    let (times, _, events) = run(held_back(None), &[]);
    // 3 Mbit/s: 1000 bytes in 2,666,666 2/3 ns, and the rests add up.
    assert!(gaps(&times, 0.5, 4.0).iter().all(|&gap| gap == 2_666_666 || gap == 2_666_667));
    let of_3_mbps = 375.0;
    let sent = times.iter().filter(|&&at| at > seconds(1.0)).count();
    assert!((sent as f64 / 3.0 - of_3_mbps).abs() < 0.5, "{sent}");
    // 4000 packets arrive, twice over a link; no event is for looking in vain.
    assert!(events < 4000 * 5, "{events}");
}

#[test]
fn it_follows_the_rate_of_the_link_from_the_instant_of_the_change() {
    let double = [(2.0, Change::Rate(BitRate::from_mbps(20)))];
    let (times, ..) = run(held_back(None), &double);
    assert!(gaps(&times, 0.5, 2.0).iter().all(|gap| gap.abs_diff(2_666_666) <= 1));
    assert!(gaps(&times, 2.01, 4.0).iter().all(|gap| gap.abs_diff(1_333_333) <= 1));
    let across = gaps(&times, 1.99, 2.01);
    assert!(across.iter().all(|&gap| (1_333_332..=2_666_667).contains(&gap)), "{across:?}");
}

#[test]
fn a_rate_of_its_own_holds_whatever_the_link_does() {
    let double = [(2.0, Change::Rate(BitRate::from_mbps(20)))];
    let (times, ..) = run(held_back(Some(BitRate::from_mbps(5))), &double);
    // 1.5 Mbit/s.
    for (begin, end) in [(0.5, 1.99), (2.01, 4.0)] {
        assert!(gaps(&times, begin, end).iter().all(|gap| gap.abs_diff(5_333_333) <= 1));
    }
}

#[test]
fn a_link_that_goes_down_loses_also_what_was_held_back_and_comes_up_again() {
    let cut = [(2.0, Change::Up(false)), (2.5, Change::Up(true))];
    let (times, fates, _) = run(held_back(None), &cut);
    let lost = fates.iter().filter(|fate| matches!(fate, Fate::Dropped(_, DropReason::LinkDown))).count();
    // The 100 packets that waited, and half a second of arrivals, as far as routing still sent them there.
    assert!(lost >= 100, "{lost}");
    assert!(!times.iter().any(|&at| at > seconds(2.0) + Span::from_millis(1) && at < seconds(2.5)));
    assert!(gaps(&times, 3.0, 4.0).iter().all(|gap| gap.abs_diff(2_666_666) <= 1));
}
