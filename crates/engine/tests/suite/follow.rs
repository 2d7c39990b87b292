//! Routes that follow the state of NBQ: around congestion where there is another way, and nowhere else.

use crate::common::{Fate, Net, Recorder, constant, direction, drop_tail, seconds, throughput_bps};
use tidegate_engine::{
    ApplicationSpec, Change, FlowIds, FollowState, LinkId, Multipath, ScriptedChange, Simulation, StartSpec,
    Ties, TransportSpec,
};
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Span};

const UDP: TransportSpec = TransportSpec::Udp { header_bytes: 0 };
/// Links of [`diamond`].
const R0_R1: LinkId = LinkId::of(1, false);
const NARROW: LinkId = LinkId::of(2, false);
const WIDE: LinkId = LinkId::of(3, false);
/// As often as NBQ estimates.
const EVERY: Span = Span::from_millis(100);

/// h0 and h2 behind r0, which goes on to r1; from there to r2 over a link of 1 Mb/s, or by r3 over two of 10 Mb/s. Behind r2 are
/// h1 and h3. All routers have NBQ.
fn diamond(hold: Option<Span>) -> Net {
    let mut net = Net::default();
    let wide = || direction("10Mbit", "1ms", drop_tail(32));
    net.link("h0", "r0", wide());
    assert_eq!(net.link("r0", "r1", wide()), R0_R1);
    assert_eq!(net.link("r1", "r2", direction("1Mbit", "1ms", drop_tail(32))), NARROW);
    assert_eq!(net.link("r1", "r3", wide()), WIDE);
    net.link("r3", "r2", wide());
    net.link("r2", "h1", wide());
    net.link("h2", "r0", wide());
    net.link("r2", "h3", wide());
    net.hops(&["r0", "r1", "r2", "r3"], &HopConfig::Nbq(Box::default()));
    net.network.follows = hold.map(|hold| FollowState { every: EVERY, penalty: 10, hold });
    net
}

fn tcp() -> TransportSpec {
    TransportSpec::Tcp(Box::new(TcpConfig::modern(Variant::Sack)))
}

fn run_until(simulation: &mut Simulation, at: f64) {
    simulation.run_until(seconds(at), u64::MAX);
    simulation.assert_conservation();
}

#[test]
fn what_nbq_discards_on_fixed_routes_arrives_by_the_wide_way_and_tcp_with_it() {
    let run = |hold| {
        let mut net = diamond(hold);
        let udp = net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
        let bulk = net.flow("h2", &["h3"], tcp(), ApplicationSpec::Bulk);
        let statistics = net.run(1, 5.0, 15.0);
        let discarded = statistics.links[R0_R1.0 as usize].drops_by_reason[DropReason::Neighbor.index()];
        (throughput_bps(&statistics, udp), throughput_bps(&statistics, bulk), discarded)
    };
    let (udp, _, discarded) = run(None);
    assert!(udp < 1e6, "the narrow link has 1 Mb/s: {udp}");
    // 625 packets in a second, of which 125 go through.
    assert!(discarded > 4000, "the rest is discarded upstream: {discarded}");
    let (elsewhere, bulk, rest) = run(Some(Span::from_secs(60)));
    // TCP fills what is left of 10 Mb/s, and its losses are also UDP's.
    assert!(elsewhere > 4.8e6, "{elsewhere}");
    assert!(bulk > 3e6, "{bulk}");
    assert!(rest < 100, "{rest}");
}

#[test]
fn a_flow_that_fits_elsewhere_arrives_whole_once_it_goes_there() {
    let mut net = diamond(Some(Span::from_secs(60)));
    let udp = net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
    let statistics = net.run(1, 2.0, 12.0);
    assert_eq!(statistics.flows[FlowIds::data(udp as u32).0 as usize].lost_packets, 0);
    assert!((throughput_bps(&statistics, udp) / 5e6 - 1.0).abs() < 0.001);
}

/// What a link that is left costs: it is tried anew each time that it was quiet for `hold`, and lost on until the routers tell.
#[test]
fn the_longer_it_is_held_the_rarer_it_is_tried() {
    let lost = |hold| {
        let mut net = diamond(Some(hold));
        net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
        let statistics = net.run(1, 5.0, 65.0);
        statistics.flows[0].lost_packets as f64 / statistics.flows[0].sent_packets as f64
    };
    let [short, long] = [1, 10].map(|secs| lost(Span::from_secs(secs)));
    // A turn is `hold` and what it takes to notice: a round or two of NBQ, in which 4 of 5 Mb/s are lost.
    assert!((0.03..0.2).contains(&short), "{short}");
    assert!((0.002..0.02).contains(&long), "{long}");
    assert!(short > 5.0 * long, "{short} and {long}");
}

#[test]
fn a_link_that_tcp_fills_is_not_left_even_if_a_little_udp_loses_there() {
    let mut net = diamond(Some(Span::from_secs(2)));
    net.flow("h0", &["h1"], UDP, constant(BitRate::from_bps(100_000)));
    for _ in 0..3 {
        net.flow("h2", &["h3"], tcp(), ApplicationSpec::Bulk);
    }
    let statistics = net.run(1, 0.0, 30.0);
    assert!(statistics.links[NARROW.0 as usize].drops_by_reason[DropReason::Overflow.index()] > 50);
    assert_eq!(statistics.links[WIDE.0 as usize].arrived_packets, 0);
}

#[test]
fn a_penalty_that_does_not_pay_for_the_detour_changes_nothing() {
    let run = |follows: Option<FollowState>| {
        let mut net = diamond(None);
        net.network.links[WIDE.index() as usize].cost = 10;
        net.network.follows = follows;
        net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
        let statistics = net.run(1, 0.0, 10.0);
        (statistics.flows.clone(), statistics.links[WIDE.0 as usize].arrived_packets)
    };
    let follow = |penalty| Some(FollowState { every: EVERY, penalty, hold: Span::from_secs(2) });
    // The ways cost 1 and 11.
    let fixed = run(None);
    assert_eq!(fixed.1, 0);
    assert_eq!(run(follow(9)), fixed);
    assert!(run(follow(11)).1 > 1000);
}

/// The wide way fails while routes go around the narrow one, and comes back.
#[test]
fn failures_and_congestion_do_not_fight() {
    let mut net = diamond(Some(Span::from_secs(60)));
    net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
    let change = |at, up| ScriptedChange { at: seconds(at), link: WIDE, change: Change::Up(up) };
    net.network.script = vec![change(5.0, false), change(10.0, true)];
    let mut simulation = net.build(1);
    let mut arrived = |at| {
        run_until(&mut simulation, at);
        [NARROW, WIDE].map(|link| simulation.link_counters(link).delivered_packets)
    };
    let first = arrived(5.0);
    assert!(first[1] > 2700, "the wide way at once: {first:?}");
    let down = arrived(10.0);
    assert_eq!(down[1], first[1], "a link that is down carries nothing");
    // 125 packets in a second, for five seconds.
    assert!(
        (600..=660).contains(&(down[0] - first[0])),
        "what is left is used, congested or not: {first:?} {down:?}"
    );
    let back = arrived(15.0);
    // At 625 packets in a second, but for what r0 discards until it has heard nothing for a while.
    assert!(back[1] - down[1] > 2700, "and as soon as it is up again, the wide way: {back:?}");
    // What waited and was on its way.
    assert!(back[0] - down[0] <= 34, "{back:?} {down:?}");
}

/// Two flows that fit no single way leave one together and come back together; each way carries what it can meanwhile.
#[test]
fn flows_that_leave_together_swing_and_lose_no_more_than_without() {
    let run = |hold| {
        let mut net = diamond(hold);
        for (from, to) in [("h0", "h1"), ("h2", "h3")] {
            net.flow(from, &[to], UDP, constant(BitRate::from_mbps(3)));
        }
        for link in [NARROW, WIDE] {
            net.network.links[link.index() as usize].forward.rate = BitRate::from_mbps(4);
        }
        net.network.flows[1].start = StartSpec::At(seconds(0.0005));
        let statistics = net.run(1, 5.0, 45.0);
        let used = [NARROW, WIDE].map(|link| statistics.links[link.0 as usize].delivered_packets);
        (throughput_bps(&statistics, 0) + throughput_bps(&statistics, 1), used)
    };
    let (fixed, fixed_used) = run(None);
    assert_eq!(fixed_used[1], 0);
    let (swinging, used) = run(Some(Span::from_secs(2)));
    assert!(used[0] > 4000 && used[1] > 4000, "both are used in turn: {used:?}");
    assert!(swinging > 0.95 * fixed, "{swinging} against {fixed}");
}

/// Random flows that fit, over random shapes: nobody loses anything, and every packet takes the path that it would take.
#[test]
fn without_congestion_paths_are_never_other_than_the_shortest() {
    for seed in 1..=20 {
        let run = |follows| {
            let mut net = diamond(None);
            net.network.follows = follows;
            net.network.multipath = if seed % 2 == 0 { Multipath::Packet } else { Multipath::Flow };
            // With ties of cost there is something to draw.
            net.network.links[NARROW.index() as usize].cost = 1 + seed as u32 % 3;
            net.network.links[NARROW.index() as usize].forward.rate = BitRate::from_mbps(10);
            for index in 0..4 {
                let (from, to) = [("h0", "h1"), ("h2", "h3")][index % 2];
                let rate = BitRate::from_bps(100_000 * (1 + (seed * 7 + index as u64 * 3) % 20));
                let spec = ApplicationSpec::Poisson { rate, packet_bytes: 500 };
                net.flow(from, &[to], UDP, spec);
            }
            let mut simulation = net.network.build(seed, Recorder::default()).unwrap();
            simulation.run_until(seconds(3.0), u64::MAX);
            simulation.into_observer().log
        };
        let fixed = run(None);
        assert!(
            fixed.iter().all(|entry| matches!(entry.3, Fate::Delivered(_))),
            "seed {seed}: nothing is lost"
        );
        assert!(fixed.len() > 1000);
        assert_eq!(run(Some(FollowState { every: EVERY, penalty: 10, hold: EVERY })), fixed, "seed {seed}");
    }
}

#[test]
fn the_same_seed_follows_the_same_way_however_often_it_is_interrupted() {
    let run = |seed, steps: u32| {
        let mut net = diamond(Some(Span::from_millis(500)));
        net.network.multipath = Multipath::Packet;
        net.network.ties = Some(Ties { seed: 1, spread: Span::from_micros(1) });
        let poisson = ApplicationSpec::Poisson { rate: BitRate::from_mbps(5), packet_bytes: 1000 };
        net.flow("h0", &["h1"], UDP, poisson);
        net.flow("h2", &["h3"], tcp(), ApplicationSpec::Bulk);
        let mut simulation = net.network.build(seed, Recorder::default()).unwrap();
        for step in 1..=steps {
            simulation.run_until(seconds(6.0 * f64::from(step) / f64::from(steps)), u64::MAX);
        }
        simulation.assert_conservation();
        simulation.into_observer().log
    };
    let whole = run(1, 1);
    assert_eq!(whole, run(1, 1));
    assert_eq!(whole, run(1, 37));
    assert_ne!(whole, run(2, 1));
}

/// A router whose neighbours do not speak knows its own outputs, and that is what routes follow.
#[test]
fn one_router_that_speaks_is_enough() {
    let mut net = diamond(Some(Span::from_secs(60)));
    net.network.hops.clear();
    net.hops(&["r1"], &HopConfig::Nbq(Box::default()));
    let udp = net.flow("h0", &["h1"], UDP, constant(BitRate::from_mbps(5)));
    let statistics = net.run(1, 2.0, 7.0);
    assert!((throughput_bps(&statistics, udp) / 5e6 - 1.0).abs() < 0.001);
}
