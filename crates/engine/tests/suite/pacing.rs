//! Paced hosts: by their timer, and by the queue behind them.
//!
//! Source: Linux's pacing rate (1.2 windows per round trip); a closed form of the spacing.
//! Deviations: none.

use crate::common::{Net, direction, drop_tail, seconds};
use tidegate_engine::{ApplicationSpec, TransportSpec};
use tidegate_mechanism::schedule::{DisciplineConfig, FqConfig};
use tidegate_mechanism::tcp::congestion::{BbrConfig, CongestionControlConfig, FixedConfig, RenoConfig};
use tidegate_mechanism::tcp::{Pacing, TcpConfig, Variant};

/// What one connection over a host's link of 1 Gb/s and a link of 20 Mb/s and 40 ms did in 20 s after 5 s.
#[derive(Debug)]
struct Seen {
    mbps: f64,
    /// Waiting at the narrow link, with the packet in transmission.
    queue_packets: f64,
    /// The same at the host.
    host_packets: f64,
}

fn run(control: &CongestionControlConfig, pacing: Pacing, host: &DisciplineConfig, queue: u32) -> Seen {
    let tcp = TcpConfig {
        control: control.clone(),
        pacing,
        rack: true,
        prr: true,
        ..TcpConfig::modern(Variant::Sack)
    };
    let mut net = Net::default();
    let card = direction("1Gbit", "1us", host.clone());
    let first = net.link("a", "A", card);
    let core = net.link("A", "B", direction("20Mbit", "20ms", drop_tail(queue)));
    net.link("B", "b", direction("1Gbit", "1us", drop_tail(10_000)));
    net.flow("a", &["b"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
    let mut simulation = net.build(1);
    simulation.run_until(seconds(5.0), u64::MAX);
    simulation.restart_statistics();
    simulation.run_until(seconds(25.0), u64::MAX);
    simulation.assert_conservation();
    let links = &simulation.statistics().links;
    let queue_of = |link: usize| links[link].packet_nanos as f64 / 20e9;
    let goodput = simulation.sink_counters(0).iter().map(|sink| sink.goodput_bytes).sum::<u64>();
    Seen {
        mbps: goodput as f64 * 8.0 / 20e6,
        queue_packets: queue_of(core.0 as usize),
        host_packets: queue_of(first.0 as usize),
    }
}

fn fifo() -> DisciplineConfig {
    drop_tail(10_000)
}

fn fq() -> DisciplineConfig {
    DisciplineConfig::Fq(FqConfig::default())
}

/// A fixed window of a third of the path: each acknowledgment is of two segments, and lets two go.
#[test]
fn segments_of_a_paced_window_never_meet_in_the_queue() {
    let window = CongestionControlConfig::Fixed(FixedConfig { segments: 22 });
    let [pairs, timer, stamped] = [
        run(&window, Pacing::Control, &fifo(), 100),
        run(&window, Pacing::Timer, &fifo(), 100),
        run(&window, Pacing::Departure, &fq(), 100),
    ];
    // What waits and is sent, over the time for which the link is busy.
    let crowd = |seen: &Seen| seen.queue_packets / (seen.mbps * 1500.0 / 1460.0 / 20.0);
    assert!(
        (crowd(&timer) - 1.0).abs() < 0.01 && (crowd(&stamped) - 1.0).abs() < 0.01,
        "{timer:?} {stamped:?}"
    );
    // The second of each pair waits for the first.
    assert!((crowd(&pairs) - 1.5).abs() < 0.02, "{pairs:?}");
}

#[test]
fn the_queue_of_the_host_paces_as_its_timer_does_and_without_it_stamps_are_bursts_of_a_millisecond() {
    // For Reno more than a product, 67 packets: in a shorter queue what is sent again at once, which the timer does not hold back and the
    // stamp does, may find the queue full and be lost again, which reduces once more.
    for (control, queue) in [
        (CongestionControlConfig::Reno(RenoConfig::default()), 100),
        (CongestionControlConfig::Bbr(BbrConfig::default()), 40),
    ] {
        let timer = run(&control, Pacing::Timer, &fifo(), queue);
        let stamped = run(&control, Pacing::Departure, &fq(), queue);
        let ignored = run(&control, Pacing::Departure, &fifo(), queue);
        assert!((stamped.mbps / timer.mbps - 1.0).abs() < 0.005, "{} {}", stamped.mbps, timer.mbps);
        // A packet: the phases of BBR follow from the bits of instants, which are others here.
        let apart = stamped.queue_packets - timer.queue_packets;
        assert!(apart.abs() < 1.0, "{timer:?} {stamped:?}");
        // No more than a millisecond of it waits at the host, and nothing in a queue that does not look at stamps.
        let ahead = timer.mbps * 1e6 / 8.0 / 1460.0 * 1e-3;
        assert!(
            (0.1 * ahead..1.2 * ahead).contains(&stamped.host_packets),
            "{} {ahead}",
            stamped.host_packets
        );
        assert!(ignored.host_packets < 0.05 * ahead, "{} {ahead}", ignored.host_packets);
    }
}
