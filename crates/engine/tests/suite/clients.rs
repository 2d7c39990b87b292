//! Clients who ask: pages, requests with answers, films.
//!
//! Source: by hand, over links whose round trips and rates are round numbers.

use crate::common::{Net, direction, drop_tail, seconds};
use tidegate_engine::{
    ActivitySpec, Change, CrowdTally, LinkId, ObjectsSpec, PageTally, PagesSpec, ScriptedChange, Simulation,
    SizesSpec, VideoRule, VideoSpec, VideoTally,
};
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, FixedConfig};
use tidegate_mechanism::tcp::{RtoConfig, TcpConfig, Variant};
use tidegate_units::{BitRate, Span};

/// A window that is never short, and a handshake.
fn hosts() -> TcpConfig {
    let control = CongestionControlConfig::Fixed(FixedConfig { segments: 10_000 });
    // What is late is not lost.
    let rto = RtoConfig { min: Span::from_secs(60), ..TcpConfig::modern(Variant::Sack).rto };
    TcpConfig {
        control,
        rto,
        handshake: true,
        delayed_ack: None,
        receive_window_bytes: 100_000_000,
        ..TcpConfig::modern(Variant::Sack)
    }
}

fn one(bytes: u64) -> ObjectsSpec {
    ObjectsSpec { count: 1, sizes: SizesSpec::Fixed(bytes), after: None, delay: Span::ZERO }
}

fn pages(objects: Vec<ObjectsSpec>) -> PagesSpec {
    PagesSpec {
        objects,
        request: 100,
        work: Span::ZERO,
        react: Span::ZERO,
        early: 1,
        streams: 1,
        setup: Vec::new(),
        think: Span::from_secs(1),
        is_even: true,
        keep: false,
    }
}

/// A client behind a round trip of 100 ms at 800 Mb/s, where sending takes next to no time.
fn load(spec: &PagesSpec, connections: u32, until: f64) -> PageTally {
    let mut net = Net::default();
    net.link("h0", "h1", direction("800Mbit", "50ms", drop_tail(10_000)));
    let flow = net.clients("h0", "h1", &hosts(), connections, ActivitySpec::Pages(spec.clone()));
    let mut simulation = net.build(1);
    simulation.run_until(seconds(until), u64::MAX);
    simulation.assert_conservation();
    tally(&mut simulation, flow)
}

fn tally(simulation: &mut Simulation, flow: usize) -> PageTally {
    match &simulation.statistics().crowds[&(flow as u32)] {
        CrowdTally::Pages(tally) => (**tally).clone(),
        other => panic!("{other:?}"),
    }
}

/// How many round trips each page took, rounded to a fiftieth.
fn round_trips(tally: &PageTally) -> f64 {
    (tally.loads.mean_s().unwrap() / 0.1 * 50.0).round() / 50.0
}

#[test]
fn a_page_takes_the_round_trips_that_its_objects_need() {
    let group = |count, after, delay| ObjectsSpec {
        count,
        sizes: SizesSpec::Fixed(1_000),
        after,
        delay: Span::from_millis(delay),
    };
    let tree = || vec![one(1_000), group(2, Some(0), 0), group(4, Some(1), 30)];
    // A handshake and a request for the first; over connections that are there one more for each level, over new ones two.
    let simple = pages(vec![one(1_000)]);
    assert_eq!(round_trips(&load(&simple, 6, 0.9)), 2.0);
    // One connection: 1 + 1 + 2 + 4 exchanges in turn, and the pause of 30 ms.
    assert_eq!(round_trips(&load(&pages(tree()), 1, 1.9)), 1.0 + 7.0 + 0.3);
    // Six: the second object of the second level needs a new one, of the third level two.
    assert_eq!(round_trips(&load(&pages(tree()), 6, 1.9)), 2.0 + 2.0 + 0.3 + 2.0);
    // The second page finds six places as well: 0.63 s and a second of thought for each.
    let three = load(&pages(tree()), 6, 4.5);
    assert_eq!((three.loaded, round_trips(&three)), (3, 2.0 + 2.0 + 0.3 + 2.0));
    // All over one connection at once: a level is one exchange.
    let many = PagesSpec { streams: 100, ..pages(tree()) };
    assert_eq!(round_trips(&load(&many, 1, 1.9)), 2.0 + 1.0 + 0.3 + 1.0);
    // Two exchanges before the first request.
    let secure = PagesSpec { setup: vec![[300, 3_000], [100, 100]], ..simple };
    let tally = load(&secure, 6, 0.9);
    assert_eq!((round_trips(&tally), tally.connections), (4.0, 1));
    // One waits for its set-up while the first is used again: 2 + 1 for the first, then 1 each over it, as a new one would take 3.
    let waiting = PagesSpec { setup: vec![[300, 3_000]], ..pages(vec![one(1_000), group(2, Some(0), 0)]) };
    assert_eq!(round_trips(&load(&waiting, 6, 0.9)), 3.0 + 2.0);
}

/// A page of a server whose first answer is lost, for the link is down then; without one whose last bytes are late.
#[test]
fn who_answers_has_measured_the_handshake() {
    let config = TcpConfig { rto: TcpConfig::modern(Variant::Sack).rto, ..hosts() };
    let mut net = Net::default();
    let link = net.link("h0", "h1", direction("800Mbit", "50ms", drop_tail(10_000)));
    let flow = net.clients("h0", "h1", &config, 1, ActivitySpec::Pages(pages(vec![one(1_000)])));
    for (at, change) in [(0.14, Change::Up(false)), (0.16, Change::Up(true))] {
        let link = LinkId::of(link.0 / 2, false);
        net.network.script.push(ScriptedChange { at: seconds(at), link, change });
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(0.9), u64::MAX);
    // Sent at 0.15 s, and again after a time-out of 0.1 s and 0.2 s: before the first sample it would be 1 s.
    let load = tally(&mut simulation, flow).loads.mean_s();
    assert!(load.is_some_and(|load| (load - 0.5).abs() < 0.005), "{load:?}");
}

/// The third segment of the handshake goes at once, by itself: who answers measures the round trip, and not how long the client thinks.
#[test]
fn the_handshake_is_over_before_the_client_asks() {
    let config = TcpConfig { rto: TcpConfig::modern(Variant::Sack).rto, ..hosts() };
    let load = |is_lost: bool| {
        let mut net = Net::default();
        let link = net.link("h0", "h1", direction("800Mbit", "50ms", drop_tail(10_000)));
        let spec = PagesSpec { react: Span::from_millis(20), ..pages(vec![one(1_000)]) };
        let flow = net.clients("h0", "h1", &config, 1, ActivitySpec::Pages(spec));
        let changes = [(0.14, Change::Up(false)), (0.40, Change::Up(true))];
        for (at, change) in changes.into_iter().filter(|_| is_lost) {
            let link = LinkId::of(link.0 / 2, false);
            net.network.script.push(ScriptedChange { at: seconds(at), link, change });
        }
        let mut simulation = net.build(1);
        simulation.run_until(seconds(0.95), u64::MAX);
        tally(&mut simulation, flow).loads.mean_s().expect("the page was loaded")
    };
    let clean = load(false);
    assert!(clean > 0.205, "the client needs some milliseconds: {clean}");
    // A time-out of 0.1 s and 0.2 s. With what the client needs in the round trip it would be longer by three times that.
    assert!((load(true) - clean - 0.3).abs() < 0.002, "{}", load(true) - clean);
}

#[test]
fn hosts_need_time_for_requests_and_answers() {
    let spec = |work, react| {
        let few = pages(vec![one(1_000), one(1_000)]);
        PagesSpec { work: Span::from_millis(work), react: Span::from_millis(react), ..few }
    };
    // A handshake and two exchanges, each with a request and an answer. The mean of 70 pages is known to 0.034 s: the standard deviation of
    // two times of 0.2 s is 0.28 s.
    let mean = |work, react| load(&spec(work, react), 1, 120.0).loads.mean_s().unwrap();
    assert!((mean(0, 0) - 0.3).abs() < 0.002);
    assert!((mean(200, 0) - 0.7).abs() < 0.1, "{}", mean(200, 0));
    assert!((mean(0, 200) - 0.7).abs() < 0.1, "{}", mean(0, 200));
    // Answers over one connection keep their order, and none is forgotten.
    let many = PagesSpec { streams: 8, ..spec(20, 20) };
    let objects = ObjectsSpec { count: 30, ..one(1_000) };
    let tally = load(&PagesSpec { objects: vec![one(500), objects], ..many }, 2, 60.0);
    assert!(tally.loaded > 20 && tally.begun - tally.loaded <= 1, "{} of {}", tally.loaded, tally.begun);
}

#[test]
fn a_connection_that_opens_early_saves_a_handshake() {
    let group = |count| ObjectsSpec { count, after: Some(0), ..one(1_000) };
    let spec = |early| PagesSpec { early, ..pages(vec![one(1_000), group(2)]) };
    let (late, early) = (load(&spec(1), 6, 0.9), load(&spec(2), 6, 0.9));
    // The second object of the second level needs a handshake, or has had it beside the first level.
    assert_eq!((round_trips(&late), late.connections), (2.0 + 2.0, 2));
    assert_eq!((round_trips(&early), early.connections), (2.0 + 1.0, 2));
    // One for which there never was a request closes with the others, page after page, also with a set-up.
    let unused = PagesSpec { early: 3, ..pages(vec![one(1_000)]) };
    let tally = load(&unused, 6, 4.5);
    assert_eq!((tally.loaded, tally.connections, round_trips(&tally)), (4, 12, 2.0));
    let secure = PagesSpec { setup: vec![[300, 3_000]], ..spec(2) };
    assert_eq!(round_trips(&load(&secure, 6, 0.9)), 3.0 + 1.0);
}

#[test]
fn what_stays_open_needs_no_handshake_and_what_is_large_needs_its_time() {
    // A page takes 0.2 s and a second of thought: the fourth begins at 3.6 s.
    let tally = load(&pages(vec![one(1_000)]), 2, 4.5);
    assert_eq!((tally.begun, tally.loaded, tally.connections), (4, 4, 4));
    let kept = PagesSpec { keep: true, ..pages(vec![one(1_000)]) };
    let again = load(&kept, 2, 4.5);
    assert_eq!((again.begun, again.loaded, again.connections), (4, 4, 1));
    // 0.2 s once, then 0.1 s.
    assert!((again.loads.mean_s().unwrap() - 0.125).abs() < 0.001, "{:?}", again.loads.mean_s());
    // 10 MB at 800 Mb/s, headers of 40 bytes to 1460.
    let large = load(&pages(vec![one(10_000_000)]), 1, 0.9);
    let expected = 0.2 + 0.1 * 1500.0 / 1460.0;
    assert!((large.loads.mean_s().unwrap() - expected).abs() < 0.001, "{:?}", large.loads.mean_s());
}

/// A film over a link that stops for a while.
fn film(spec: &VideoSpec, changes: &[(f64, u64)], until: f64) -> VideoTally {
    let mut net = Net::default();
    let link = net.link("h0", "h1", direction("2Mbit", "1ms", drop_tail(10_000)));
    let flow = net.clients("h0", "h1", &hosts(), 1, ActivitySpec::Video(spec.clone()));
    for &(at, kbps) in changes {
        let change = Change::Rate(BitRate::from_bps(kbps * 1_000));
        net.network.script.push(ScriptedChange {
            at: seconds(at),
            link: LinkId::of(link.0 / 2, false),
            change,
        });
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(until), u64::MAX);
    simulation.assert_conservation();
    match simulation.statistics().crowds[&(flow as u32)] {
        CrowdTally::Video(tally) => tally,
        ref other => panic!("{other:?}"),
    }
}

/// One rate of 1 Mb/s over 2 Mb/s: a segment of 4 s takes 2.055 s with headers, and 8 ms for the handshake and each request.
#[test]
fn a_film_stands_still_as_long_as_arithmetic_says() {
    let spec = VideoSpec {
        rates: vec![BitRate::from_mbps(1)],
        segment: Span::from_secs(4),
        buffer: Span::from_secs(12),
        start: Span::from_secs(4),
        rule: VideoRule::Rate,
        request: 200,
        segments: Some(10),
    };
    let near = |span: Span, expected: f64| {
        assert!((span.as_secs_f64() - expected).abs() < 0.06, "{span} for {expected} s");
    };
    // Without a stop: it begins with the first segment, plays 40 s, and never stands still.
    let whole = film(&spec, &[], 60.0);
    assert_eq!((whole.segments, whole.stalls, whole.switches), (10, 0, 0));
    near(whole.startup.unwrap(), 2.06);
    near(whole.played, 40.0);
    near(whole.stalled, 0.0);
    // From 2 s after the first segment the link carries a hundredth: by then a second segment is nearly there. It comes at
    // 4.1 s, so the film plays until 2.06 + 8 = 10.06 s. The third was asked for at 4.12 s and had got nothing when the link slowed at
    // 4.2 s, but 0.08 s of its 2.055 s; the link is back at 20.2 s, and it takes 2.055 - 0.08 - 0.16 s more: 22.0 s.
    let stopped = film(&spec, &[(4.2, 20), (20.2, 2_000)], 90.0);
    assert_eq!((stopped.segments, stopped.stalls), (10, 1));
    near(stopped.played, 40.0);
    near(stopped.stalled, 22.02 - 10.06);
}

#[test]
fn rules_take_what_the_link_carries() {
    let rates = [300, 750, 1_200, 1_850, 2_850].map(|kbps| BitRate::from_bps(kbps * 1_000)).to_vec();
    for rule in [VideoRule::Bola, VideoRule::Rate] {
        let spec = VideoSpec {
            rates: rates.clone(),
            segment: Span::from_secs(2),
            buffer: Span::from_secs(30),
            start: Span::from_secs(2),
            rule,
            request: 200,
            segments: None,
        };
        let tally = film(&spec, &[(150.0, 1_000)], 300.0);
        let mean_bps = tally.rate_sum_bps as f64 / tally.segments as f64;
        println!("{rule:?}: {tally:?}, {mean_bps:.0} bit/s");
        // 1.95 Mb/s of payload, then 0.97.
        assert!((0.6e6..1.5e6).contains(&mean_bps), "{rule:?}: {mean_bps}");
        assert!(tally.stalls <= 1, "{rule:?}: {tally:?}");
        // By rate up to what it measures, and down once; by the buffer to and fro, as its paper says of the rule without its cap.
        if rule == VideoRule::Rate {
            assert_eq!((tally.switches, tally.rate_sum_bps % 50_000), (2, 0));
        } else {
            assert!(tally.switches > 10);
        }
    }
}
