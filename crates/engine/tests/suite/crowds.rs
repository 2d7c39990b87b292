//! Transfers that come and go.
//!
//! Source: Kleinrock, "Queueing systems", volume 2, 1976, section 4.4: where a server is shared evenly among all present, a job of x
//! seconds takes x / (1 - rho) on average, whatever the distribution of sizes. An ideal fair queue, small round trips and a window that
//! always has something in the queue make a link such a server.

use crate::common::{Net, direction, drop_tail, seconds};
use tidegate_engine::{
    ActivitySpec, ArrivalsSpec, CrowdTally, IdleTimes, LossModel, ReorderModel, SizeClass, SizesSpec,
    Statistics, TransferTally,
};
use tidegate_mechanism::schedule::{DisciplineConfig, DrrConfig};
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, FixedConfig};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_units::{Bytes, Limit, Span};

/// Bytes of payload in a packet of 1000 on the wire.
const PAYLOAD: u32 = 960;

/// A window that always has a packet waiting.
fn hosts() -> TcpConfig {
    let control = CongestionControlConfig::Fixed(FixedConfig { segments: 4 });
    TcpConfig { control, segment_bytes: PAYLOAD, delayed_ack: None, ..TcpConfig::modern(Variant::Sack) }
}

/// What came of the transfers of `flow`.
fn transfers(statistics: &Statistics, flow: usize) -> TransferTally {
    match &statistics.crowds[&(flow as u32)] {
        CrowdTally::Transfers(tally) => (**tally).clone(),
        other => panic!("{other:?}"),
    }
}

/// Transfers of `sizes` at `rho` of a link of 8 Mb/s with a fair queue: what came of about `count` of them.
fn shared(sizes: SizesSpec, rho: f64, count: f64, places: u32) -> TransferTally {
    let mut net = Net::default();
    let limit = Limit::Packets(100_000);
    let fair = DisciplineConfig::Drr(DrrConfig { quantum: Bytes::new(1000), limit, ..DrrConfig::default() });
    net.link("h0", "h1", direction("8Mbit", "0s", fair));
    let alone = sizes.mean() / f64::from(PAYLOAD) * 1e-3;
    let arrivals = ArrivalsSpec::Poisson { mean: Span::from_secs_f64(alone / rho) };
    let flow = net.crowd("h0", "h1", &hosts(), places, ActivitySpec::Transfers { arrivals, sizes });
    let mut simulation = net.build(1);
    let packet = Span::from_millis(1);
    let idle = [1_u64, 100_000].map(|packets| (packets * u64::from(PAYLOAD), packet * packets));
    simulation.set_idle_times(0, IdleTimes::new(idle.to_vec()));
    simulation.run_until(seconds(200.0 * alone), u64::MAX);
    simulation.restart_statistics();
    simulation.run_until(seconds((count + 200.0) * alone / rho), u64::MAX);
    simulation.assert_conservation();
    transfers(&simulation.statistics(), flow)
}

/// The same mean for every distribution: that of processor sharing.
#[test]
fn transfers_in_a_fair_queue_take_as_long_as_processor_sharing_says() {
    let packets = |count: u64| count * u64::from(PAYLOAD);
    let two_kinds = SizesSpec::Table(
        [(packets(10), 0.9), (packets(10) + 1, 0.9), (packets(310), 0.9), (packets(310) + 1, 1.0)].into(),
    );
    for (sizes, rho, count) in [
        (SizesSpec::Fixed(packets(40)), 0.5, 20_000.0),
        (SizesSpec::Exponential { mean: f64::from(PAYLOAD) * 40.0 }, 0.5, 30_000.0),
        (two_kinds, 0.5, 30_000.0),
        (SizesSpec::Fixed(packets(40)), 0.7, 25_000.0),
    ] {
        let tally = shared(sizes.clone(), rho, count, 400);
        assert_eq!(tally.refused, 0);
        let slowdown = tally.times.mean_slowdown().unwrap();
        let expected = 1.0 / (1.0 - rho);
        println!(
            "{sizes:?} at {rho}: {slowdown:.4}, closed form {expected:.4}, {} transfers",
            tally.completed
        );
        assert!((slowdown / expected - 1.0).abs() < 0.03, "{sizes:?} at {rho}: {slowdown} for {expected}");
    }
}

/// A medium that doubles and holds back packets for longer than a connection lasts, and one place that is taken again at once.
#[test]
fn what_is_left_of_a_connection_does_nothing_to_the_next_in_its_place() {
    let sizes = SizesSpec::Exponential { mean: 5_000.0 };
    let arrivals = ArrivalsSpec::Even { every: Span::from_millis(40), burst: 3 };
    let mut net = Net::default();
    let mut spec = direction("20Mbit", "1ms", drop_tail(100));
    spec.reorder = Some(ReorderModel { probability: 0.2, delay: Span::from_millis(700) });
    spec.duplicate = 0.2;
    spec.loss = Some(LossModel::Random { probability: 0.02 });
    net.link("h0", "h1", spec);
    let tcp = TcpConfig { handshake: true, ..TcpConfig::modern(Variant::Sack) };
    let flow = net.crowd("h0", "h1", &tcp, 2, ActivitySpec::Transfers { arrivals, sizes });
    let statistics = net.run(3, 0.0, 300.0);
    let tally = transfers(&statistics, flow);
    // What comes at the very end does not count.
    assert_eq!(tally.arrived, 3 * 7_500);
    assert!(tally.refused > 10_000 && tally.completed > 300, "{} {}", tally.refused, tally.completed);
    assert_eq!(tally.arrived, tally.refused + tally.completed + u64::from(tally.active));
    // Every byte of a transfer is delivered once, and none of another one.
    let delivered = statistics.sinks[flow][0].goodput_bytes;
    let under_way: u64 = delivered - tally.completed_bytes;
    assert!(under_way < 2 * 200_000, "{under_way}");
    let connection = statistics.connections[flow].as_ref().expect("the first place has the counts of all");
    assert!(connection.sender.timeouts > 100 && connection.receiver.duplicate_segments > 100);
}

/// Two bursts over an empty link of a megabyte per second: the last of each is through when the bytes of all are.
#[test]
fn a_burst_takes_the_time_of_its_bytes_and_statistics_begin_anew() {
    let arrivals = ArrivalsSpec::Even { every: Span::from_secs(10), burst: 20 };
    let sizes = SizesSpec::Fixed(10 * u64::from(PAYLOAD));
    let mut net = Net::default();
    net.link("h0", "h1", direction("8Mbit", "0s", drop_tail(1_000)));
    let flow = net.crowd("h0", "h1", &hosts(), 20, ActivitySpec::Transfers { arrivals, sizes });
    let mut simulation = net.build(1);
    simulation.run_until(seconds(5.0), u64::MAX);
    let statistics = simulation.statistics();
    let tally = transfers(&statistics, flow);
    assert_eq!((tally.arrived, tally.completed, tally.refused, tally.active), (20, 20, 0, 0));
    assert_eq!(tally.active_max, 20);
    assert!((tally.times.quantile_s(1.0).unwrap() - 0.2).abs() < 0.001);
    assert_eq!(statistics.sinks[flow][0].goodput_bytes, 200 * u64::from(PAYLOAD));
    assert_eq!(statistics.connections[flow].unwrap().sender.sent_segments, 200);
    assert_eq!(simulation.flow_counters(flow).sent_packets, 200);
    let to_10_kb = SizeClass::ALL.iter().position(|class| class.name() == "to_10kB").unwrap();
    assert_eq!(tally.by_class[to_10_kb].count(), 20);
    simulation.restart_statistics();
    simulation.run_until(seconds(15.0), u64::MAX);
    let after = simulation.statistics();
    assert_eq!(transfers(&after, flow).completed, 20);
    assert_eq!(after.connections[flow].unwrap().sender.sent_segments, 200);
    assert_eq!(after.sinks[flow][0].goodput_bytes, 200 * u64::from(PAYLOAD));
}

#[test]
fn a_list_comes_when_it_says_and_nothing_comes_after_the_flow_stops() {
    let list = [(0.0, 960), (0.5, 1_920), (0.5, 960), (3.0, 960)];
    let list = list.map(|(at, bytes)| (Span::from_secs_f64(at), bytes));
    let mut net = Net::default();
    net.link("h0", "h1", direction("8Mbit", "0s", drop_tail(100)));
    let arrivals = ArrivalsSpec::List(list.into());
    let activity = ActivitySpec::Transfers { arrivals, sizes: SizesSpec::Fixed(1) };
    let flow = net.crowd("h0", "h1", &hosts(), 3, activity);
    net.network.flows[flow].start = tidegate_engine::StartSpec::At(seconds(1.0));
    net.network.flows[flow].stop = Some(seconds(4.0));
    let mut simulation = net.build(1);
    for (until, arrived) in [(0.9, 0), (1.2, 1), (1.6, 3), (9.0, 3)] {
        simulation.run_until(seconds(until), u64::MAX);
        let tally = transfers(&simulation.statistics(), flow);
        assert_eq!((tally.arrived, tally.completed), (arrived, arrived), "until {until}");
    }
    assert_eq!(simulation.sink_counters(flow)[0].goodput_bytes, 3_840);
}
