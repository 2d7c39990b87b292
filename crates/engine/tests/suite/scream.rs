//! Calls with `SCReAM`: the whole of a link at a short queue, steps of its capacity, a share beside TCP, marks of L4S; and conservation
//! where packets are lost, overtake others and come twice.

use crate::common::{Net, direction, drop_tail, run_in_tenths, seconds, throughput_bps};
use tidegate_engine::{
    ApplicationSpec, Change, DirectionSpec, LinkId, LossModel, ReorderModel, ScriptedChange, Simulation,
    Statistics, TransportSpec,
};
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::queue::{CodelConfig, ManagerConfig};
use tidegate_mechanism::schedule::{DisciplineConfig, DualPi2Config, FqCodelConfig};
use tidegate_mechanism::scream::ScreamConfig;
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, CubicConfig};
use tidegate_mechanism::tcp::{EcnUse, TcpConfig, Variant};
use tidegate_units::Span;

/// One way, without queues and transmissions: a round trip of 50 ms.
const PATH_MS: f64 = 25.0;

fn call(net: &mut Net, config: &ScreamConfig) -> usize {
    let media = MediaConfig::Scream(*config);
    let ecn = media.codepoint();
    let flow = net.flow("h1", &["h2"], TransportSpec::Media(Box::new(media)), ApplicationSpec::Bulk);
    net.network.flows[flow].headers.ecn = ecn;
    flow
}

/// Two routers between hosts; the link between the routers.
fn path(rate: &str, queue: DisciplineConfig) -> (Net, LinkId) {
    let mut net = Net::default();
    net.link("h1", "r1", direction("1Gbit", "5ms", drop_tail(1000)));
    let link = net.link("r1", "r2", direction(rate, "15ms", queue));
    net.link("r2", "h2", direction("1Gbit", "5ms", drop_tail(1000)));
    (net, link)
}

fn cubic(net: &mut Net) -> usize {
    let control = CongestionControlConfig::Cubic(CubicConfig::default());
    let tcp = TcpConfig { control, ..TcpConfig::modern(Variant::Sack) };
    net.flow("h1", &["h2"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk)
}

/// The mean time that packets of `flow` waited, ms, their transmissions with it.
fn waited_ms(statistics: &Statistics, flow: usize) -> f64 {
    let sink = &statistics.sinks[flow][0];
    sink.delay_nanos as f64 / sink.received_packets as f64 / 1e6 - PATH_MS
}

/// Bits per second that the receiver got from here until `until`.
fn rate_until(simulation: &mut Simulation, until: f64) -> f64 {
    let (before, from) = (simulation.sink_counters(0)[0].received_bytes, simulation.now().as_secs_f64());
    simulation.run_until(seconds(until), u64::MAX);
    (simulation.sink_counters(0)[0].received_bytes - before) as f64 * 8.0 / (until - from)
}

#[test]
fn alone_in_front_of_a_deep_buffer_it_fills_the_link_and_not_the_buffer() {
    let (mut net, _) = path("5Mbit", drop_tail(1000));
    call(&mut net, &ScreamConfig::default());
    let statistics = net.run(1, 10.0, 70.0);
    let (rate, waited) = (throughput_bps(&statistics, 0), waited_ms(&statistics, 0));
    assert!(rate >= 0.85 * 5e6, "{rate}");
    assert!(waited <= 60.0, "{waited} ms, above the target");
}

#[test]
fn it_follows_the_capacity_down_and_up() {
    let (mut net, link) = path("5Mbit", drop_tail(1000));
    call(&mut net, &ScreamConfig::default());
    for (at, rate) in [(40.0, "1Mbit"), (80.0, "5Mbit")] {
        net.network.script.push(ScriptedChange {
            at: seconds(at),
            link,
            change: Change::Rate(rate.parse().unwrap()),
        });
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(20.0), u64::MAX);
    let before = rate_until(&mut simulation, 40.0);
    simulation.run_until(seconds(50.0), u64::MAX);
    let target = simulation.media_variable(0, "target_bps");
    let (queue, low) = (simulation.media_variable(0, "queue_delay_ms"), rate_until(&mut simulation, 80.0));
    simulation.run_until(seconds(100.0), u64::MAX);
    let after = rate_until(&mut simulation, 120.0);
    simulation.assert_conservation();
    assert!(before > 0.85 * 5e6 && after > 0.85 * 5e6, "{before}, {after}");
    assert!((0.85e6..=1e6).contains(&low), "{low}");
    assert!(target.is_some_and(|bps| bps < 1.2e6), "ten seconds later: {target:?}");
    assert!(queue.is_some_and(|ms| ms < 120.0), "and the queue is gone: {queue:?}");
}

#[test]
fn beside_cubic_it_keeps_a_share_where_queues_are_managed() {
    let codel = DisciplineConfig::Fifo(ManagerConfig::Codel(CodelConfig::default()));
    let fair = DisciplineConfig::FqCodel(FqCodelConfig::default());
    for (queue, least) in [(codel, 0.2), (fair, 0.4)] {
        let (mut net, _) = path("10Mbit", queue.clone());
        let (call, tcp) = (call(&mut net, &ScreamConfig::default()), cubic(&mut net));
        let statistics = net.run(1, 20.0, 80.0);
        let (media, bulk) = (throughput_bps(&statistics, call), throughput_bps(&statistics, tcp));
        assert!(media >= least * 1e7, "{media} beside {bulk} over {queue:?}");
        assert!(media + bulk > 0.9e7, "{media} and {bulk} over {queue:?}");
    }
}

#[test]
fn over_dualpi2_marks_keep_the_queue_at_milliseconds() {
    let queue = DisciplineConfig::DualPi2(DualPi2Config::default());
    let (mut net, _) = path("10Mbit", queue);
    call(&mut net, &ScreamConfig { ecn: EcnUse::L4s, ..ScreamConfig::default() });
    let statistics = net.run(1, 10.0, 70.0);
    let (rate, waited) = (throughput_bps(&statistics, 0), waited_ms(&statistics, 0));
    let marked = statistics.sinks[0][0].marked_packets;
    assert!(marked > 0);
    assert!(waited < 5.0, "{waited} ms");
    assert!(rate > 0.7e7, "{rate}");
}

#[test]
fn losses_overtaking_and_copies_leave_every_packet_somewhere_and_the_stream_alive() {
    let (mut net, _) = path("5Mbit", drop_tail(40));
    let spec = |loss: f64| DirectionSpec {
        loss: Some(LossModel::Random { probability: loss }),
        reorder: Some(ReorderModel { probability: 0.02, delay: Span::from_millis(10) }),
        duplicate: 0.01,
        jitter: None,
        ..direction("5Mbit", "15ms", drop_tail(40))
    };
    net.network.links[1].forward = spec(0.01);
    net.network.links[1].reverse = spec(0.2);
    call(&mut net, &ScreamConfig::default());
    let mut simulation = net.build(1);
    run_in_tenths(&mut simulation, 600);
    let received = simulation.sink_counters(0)[0].received_bytes as f64 * 8.0 / 60.0;
    assert!(received > 150_000.0, "{received}");
}

#[test]
fn a_link_that_is_down_for_ten_seconds_stops_it_for_no_longer() {
    let (mut net, link) = path("5Mbit", drop_tail(1000));
    call(&mut net, &ScreamConfig::default());
    for (at, up) in [(20.0, false), (30.0, true)] {
        net.network.script.push(ScriptedChange { at: seconds(at), link, change: Change::Up(up) });
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(50.0), u64::MAX);
    let rate = rate_until(&mut simulation, 70.0);
    simulation.assert_conservation();
    assert!(rate > 0.8 * 5e6, "{rate}");
    assert!(simulation.media_variable(0, "discarded_frames").is_some_and(|frames| frames > 300.0));
}

/// Feedback is under way for most of the round trip, or for little of it.
#[test]
fn how_a_round_trip_divides_over_both_ways_is_all_the_same() {
    let rate = |there: &str, back: &str| {
        let (mut net, _) = path("100Mbit", drop_tail(2000));
        net.network.links[1].forward.delay = there.parse().unwrap();
        net.network.links[1].reverse.delay = back.parse().unwrap();
        call(
            &mut net,
            &ScreamConfig {
                report_packets: 1,
                max_rate: Some("100Mbit".parse().unwrap()),
                ..ScreamConfig::default()
            },
        );
        throughput_bps(&net.run(1, 50.0, 70.0), 0)
    };
    let (late_data, late_reports) = (rate("190ms", "10ms"), rate("10ms", "190ms"));
    assert!(late_data > 15e6, "{late_data}");
    assert!((late_reports / late_data - 1.0).abs() < 0.1, "{late_reports} and {late_data}");
}
