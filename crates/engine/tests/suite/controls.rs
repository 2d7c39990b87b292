//! Congestion controls alone on a link, and beside each other, against what their laws say of it.
//!
//! Source: the documents that the files of the controls name; closed forms.
//! Deviations: none.

use crate::common::{Net, direction, drop_tail, seconds};
use tidegate_engine::{ApplicationSpec, StartSpec, TransportSpec};
use tidegate_mechanism::tcp::congestion::{
    Bbr3Config, BbrConfig, CongestionControl, CongestionControlConfig, CopaConfig, CubicConfig, LedbatConfig,
    RenoConfig, ScalableConfig, VegasConfig, VegasForm, WestwoodConfig,
};
use tidegate_mechanism::tcp::{TcpConfig, Variant};

/// Payload that 20 Mb/s carry, in Mb/s.
const FULL_MBPS: f64 = 20.0 * 1460.0 / 1500.0;

/// Who sends on a link, and from when to when it is measured.
#[derive(Clone, Copy)]
struct Dumbbell {
    rate_mbps: u32,
    rtt_ms: u32,
    queue_packets: u32,
    warmup: f64,
    until: f64,
}

const DUMBBELL: Dumbbell =
    Dumbbell { rate_mbps: 20, rtt_ms: 40, queue_packets: 1000, warmup: 10.0, until: 60.0 };

/// Of a dumbbell, after its warm-up.
#[derive(Debug)]
struct Measured {
    /// Payload, of each flow.
    flows_mbps: Vec<f64>,
    /// With the packet in transmission.
    queue_packets: f64,
    drops: u64,
    timeouts: u64,
    /// What the first flow says of itself, a hundred times.
    said: Vec<f64>,
}

impl Measured {
    fn all_mbps(&self) -> f64 {
        self.flows_mbps.iter().sum()
    }
}

impl Dumbbell {
    fn run(self, flows: &[CongestionControlConfig], variable: &str) -> Measured {
        self.run_tcp(flows, variable, &TcpConfig::modern(Variant::Sack))
    }

    fn run_tcp(self, flows: &[CongestionControlConfig], variable: &str, base: &TcpConfig) -> Measured {
        let mut net = Net::default();
        let (rate, half) = (format!("{}Mbit", self.rate_mbps), format!("{}us", self.rtt_ms * 500));
        let core = net.link("A", "B", direction(&rate, &half, drop_tail(self.queue_packets)));
        for (number, control) in flows.iter().enumerate() {
            let tcp = TcpConfig { control: control.clone(), receive_window_bytes: 16 << 20, ..base.clone() };
            let (source, sink) = (format!("h{number}"), format!("d{number}"));
            net.link(&source, "A", direction("10Gbit", "1us", drop_tail(100_000)));
            net.link("B", &sink, direction("10Gbit", "1us", drop_tail(100_000)));
            let flow = net.flow(&source, &[&sink], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
            net.network.flows[flow].start = StartSpec::At(seconds(0.313 * number as f64));
        }
        let mut simulation = net.build(1);
        simulation.run_until(seconds(self.warmup), u64::MAX);
        simulation.restart_statistics();
        let (time, mut said) = (self.until - self.warmup, Vec::new());
        for part in 1..=100 {
            simulation.run_until(seconds(self.warmup + time * f64::from(part) / 100.0), u64::MAX);
            let sender = simulation.tcp_sender(0).expect("a TCP flow");
            said.extend(sender.congestion_control().variable(variable));
        }
        simulation.assert_conservation();
        let goodput =
            |flow| simulation.sink_counters(flow).iter().map(|sink| sink.goodput_bytes).sum::<u64>();
        let flows_mbps = (0..flows.len()).map(|flow| goodput(flow) as f64 * 8.0 / time / 1e6).collect();
        let timeouts = |flow| simulation.tcp_sender(flow).expect("a TCP flow").counters().timeouts;
        let timeouts = (0..flows.len()).map(timeouts).sum();
        let link = &simulation.statistics().links[core.0 as usize];
        let queue_packets = link.packet_nanos as f64 / (time * 1e9);
        let measured = Measured { flows_mbps, queue_packets, drops: link.dropped_packets(), timeouts, said };
        println!("{measured:?}");
        measured
    }
}

fn copa(competitive: bool) -> CongestionControlConfig {
    CongestionControlConfig::Copa(CopaConfig { competitive, ..CopaConfig::default() })
}

fn reno(hystart: bool) -> CongestionControlConfig {
    CongestionControlConfig::Reno(RenoConfig { hystart, ..RenoConfig::default() })
}

fn cubic(hystart: bool) -> CongestionControlConfig {
    CongestionControlConfig::Cubic(CubicConfig { hystart, ..CubicConfig::default() })
}

fn ledbat() -> CongestionControlConfig {
    CongestionControlConfig::Ledbat(LedbatConfig::default())
}

/// The rate is `1 / (delta d_q)`, so `1 / delta` packets of each flow wait; the queue swings between nothing and 2.5 times that.
#[test]
fn copa_fills_the_link_with_one_over_delta_packets_of_each_flow_in_the_queue() {
    for flows in [1, 2, 4] {
        let ours = DUMBBELL.run(&vec![copa(flows == 1); flows], "wait_s");
        assert!(ours.all_mbps() > 0.98 * FULL_MBPS && ours.drops == 0, "{ours:?}");
        // The packet in transmission waits for nobody.
        let (waiting, law) = (ours.queue_packets - 1.0, flows as f64 / 0.5);
        assert!((law..1.5 * law).contains(&waiting), "{flows} flows: {waiting}, law {law}");
        let share = FULL_MBPS / flows as f64;
        assert!(ours.flows_mbps.iter().all(|mbps| (mbps / share - 1.0).abs() < 0.05), "{ours:?}");
    }
}

#[test]
fn a_smaller_delta_lets_more_of_copas_packets_wait() {
    let of = |delta| {
        let config = CopaConfig { delta, competitive: false, ..CopaConfig::default() };
        DUMBBELL.run(&[CongestionControlConfig::Copa(config)], "wait_s").queue_packets - 1.0
    };
    let (usual, small) = (of(0.5), of(0.1));
    assert!((10.0..15.0).contains(&small) && small > 3.0 * usual, "{usual} {small}");
}

#[test]
fn copa_is_starved_beside_reno_unless_it_competes() {
    let net = Dumbbell { until: 200.0, queue_packets: 67, ..DUMBBELL };
    let competing = net.run(&[copa(true), reno(false)], "delta");
    let quiet = net.run(&[copa(false), reno(false)], "delta");
    assert!(quiet.flows_mbps[0] < 0.1 * FULL_MBPS, "{quiet:?}");
    assert!((0.3..0.7).contains(&(competing.flows_mbps[0] / FULL_MBPS)), "{competing:?}");
    assert!(competing.said.iter().any(|delta| *delta < 0.1), "{competing:?}");
}

#[test]
fn vegas_keeps_alpha_to_beta_packets_in_the_queue() {
    for form in [VegasForm::Paper, VegasForm::Linux] {
        let config = VegasConfig { form, ..VegasConfig::default() };
        let ours = DUMBBELL.run(&[CongestionControlConfig::Vegas(config)], "diff_segments");
        assert!(ours.all_mbps() > 0.99 * FULL_MBPS && ours.drops == 0, "{ours:?}");
        assert!(ours.said.iter().all(|diff| (2.0..=4.0).contains(diff)), "{ours:?}");
        // One is in transmission, and an acknowledgment of two lets two go at once.
        assert!((2.0..=6.0).contains(&ours.queue_packets), "{ours:?}");
    }
}

/// Behind 40 ms of path the law of the change has its rest at `TARGET (1 + GAIN / W)`, a thousandth above the target.
#[test]
fn ledbat_alone_holds_its_target_and_leaves_the_link_for_a_tenth_of_the_time_at_most() {
    let config = LedbatConfig { slowdowns: false, ..LedbatConfig::default() };
    let steady = Dumbbell { warmup: 60.0, until: 120.0, ..DUMBBELL }
        .run(&[CongestionControlConfig::Ledbat(config)], "delay_s");
    let mean = steady.said.iter().sum::<f64>() / steady.said.len() as f64;
    assert!((mean / 0.060 - 1.0).abs() < 0.03, "{mean}");
    // 60 ms at 20 Mb/s are 100 packets.
    assert!((steady.queue_packets / 100.0 - 1.0).abs() < 0.05 && steady.drops == 0, "{steady:?}");
    let ours = Dumbbell { until: 600.0, ..DUMBBELL }.run(&[ledbat()], "phase");
    assert!((0.90..0.99).contains(&(ours.all_mbps() / FULL_MBPS)), "{ours:?}");
    assert!((80.0..100.0).contains(&ours.queue_packets), "{ours:?}");
}

#[test]
fn ledbat_shares_with_another_and_gives_way_to_cubic() {
    let both = Dumbbell { until: 600.0, ..DUMBBELL }.run(&[ledbat(), ledbat()], "phase");
    assert!(both.flows_mbps.iter().all(|mbps| (0.4..0.6).contains(&(mbps / both.all_mbps()))), "{both:?}");
    assert!(both.all_mbps() > 0.9 * FULL_MBPS, "{both:?}");
    let net = Dumbbell { until: 200.0, queue_packets: 200, ..DUMBBELL };
    let beside = net.run(&[ledbat(), cubic(false)], "phase");
    assert!(beside.flows_mbps[0] < 0.03 * FULL_MBPS && beside.all_mbps() > 0.98 * FULL_MBPS, "{beside:?}");
}

/// What a loss leaves is what the path holds, so any queue keeps the link busy; half of it leaves the link idle where the queue is shorter
/// than the path. Of Reno without a queue three quarters remain.
#[test]
fn westwood_fills_a_link_behind_a_short_queue_where_reno_does_not() {
    let net = Dumbbell { queue_packets: 15, ..DUMBBELL };
    let westwood = net.run(&[CongestionControlConfig::Westwood(WestwoodConfig::default())], "rate_bps");
    let reno = net.run(&[reno(false)], "cwnd_segments");
    assert!(westwood.all_mbps() > 0.99 * FULL_MBPS, "{westwood:?}");
    assert!((0.75..0.9).contains(&(reno.all_mbps() / FULL_MBPS)), "{reno:?}");
    let mean = westwood.said.iter().sum::<f64>() / westwood.said.len() as f64;
    assert!((mean / (FULL_MBPS * 1e6) - 1.0).abs() < 0.02, "{mean}");
}

/// Between losses that leave 7/8 of it, a window fills the link whenever the queue holds an eighth of the path.
#[test]
fn scalable_fills_a_long_path_where_reno_takes_minutes_to_come_back() {
    let net = Dumbbell { rate_mbps: 200, rtt_ms: 100, queue_packets: 400, until: 200.0, ..DUMBBELL };
    let scalable = net.run(&[CongestionControlConfig::Scalable(ScalableConfig::default())], "cwnd_segments");
    let reno = net.run(&[reno(false)], "cwnd_segments");
    assert!(scalable.all_mbps() > 9.95 * FULL_MBPS, "{scalable:?}");
    assert!(reno.all_mbps() < 9.2 * FULL_MBPS, "{reno:?}");
    let (most, least) = (
        scalable.said.iter().copied().fold(0.0, f64::max),
        scalable.said.iter().copied().fold(f64::MAX, f64::min),
    );
    assert!(least / most > 0.8, "{least} of {most}: an eighth, and what is lost twice");
}

#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    for (plain, with) in [(reno(false), reno(true)), (cubic(false), cubic(true))] {
        let net = Dumbbell { rtt_ms: 100, queue_packets: 400, warmup: 0.0, until: 8.0, ..DUMBBELL };
        let (plain, with) = (net.run(&[plain], "cwnd_segments"), net.run(&[with], "cwnd_segments"));
        assert!(plain.drops > 300, "{plain:?}");
        assert!(with.drops * 4 < plain.drops && with.all_mbps() > plain.all_mbps(), "{with:?}");
    }
}

#[test]
fn hystart_does_not_end_slow_start_on_a_path_without_a_queue() {
    // In a second slow start does not reach what the path holds.
    let net = Dumbbell { rate_mbps: 1000, rtt_ms: 100, warmup: 0.0, until: 1.0, ..DUMBBELL };
    let plain = net.run(&[reno(false)], "cwnd_segments");
    let with = net.run(&[reno(true)], "cwnd_segments");
    assert_eq!(plain.flows_mbps, with.flows_mbps);
}

#[test]
fn in_proportion_recovery_keeps_the_link_as_busy_and_loses_no_more() {
    let net = Dumbbell { queue_packets: 30, until: 110.0, ..DUMBBELL };
    for control in [reno(false), cubic(false)] {
        let base = TcpConfig::modern(Variant::Sack);
        let plain = net.run_tcp(std::slice::from_ref(&control), "cwnd_segments", &base);
        let with = net.run_tcp(&[control], "cwnd_segments", &TcpConfig { prr: true, ..base });
        assert!(with.all_mbps() >= 0.995 * plain.all_mbps(), "{plain:?} {with:?}");
        assert!(with.drops <= plain.drops && with.timeouts == 0, "{plain:?} {with:?}");
    }
}

fn bbr3() -> CongestionControlConfig {
    CongestionControlConfig::Bbr3(Bbr3Config::default())
}

fn bbr1() -> CongestionControlConfig {
    CongestionControlConfig::Bbr(BbrConfig::default())
}

/// Where the queue holds a quarter of the path or more, and with a fifth of the losses of version 1 where that loses.
#[test]
fn bbr3_fills_the_link_and_loses_little_behind_any_queue() {
    for queue_packets in [15, 33, 1000] {
        let net = Dumbbell { queue_packets, ..DUMBBELL };
        let ours = net.run(&[bbr3()], "state");
        assert!(ours.all_mbps() > 0.94 * FULL_MBPS && ours.queue_packets < 10.0, "{ours:?}");
        // Of some 80,000 packets.
        assert!(ours.drops < 100, "{ours:?}");
        if queue_packets == 15 {
            let first = net.run(&[bbr1()], "state");
            assert!(first.drops > 5 * ours.drops, "{first:?}");
        }
    }
}

#[test]
fn bbr3_leaves_reno_and_cubic_a_part_of_a_link_where_bbr_leaves_them_next_to_nothing() {
    let net = Dumbbell { queue_packets: 33, until: 130.0, ..DUMBBELL };
    for other in [reno(false), cubic(false)] {
        let third = net.run(&[bbr3(), other.clone()], "state");
        let first = net.run(&[bbr1(), other], "state");
        assert!(third.flows_mbps[1] > 3.0 && first.flows_mbps[1] < 1.0, "{third:?} {first:?}");
        assert!(third.drops * 4 < first.drops, "{third:?} {first:?}");
    }
}

/// A probe of BBR overflows the queue, and what is sent again meets it full.
#[test]
fn with_rack_a_retransmission_that_is_lost_again_waits_for_no_timer() {
    let plain = TcpConfig::modern(Variant::Sack);
    let rack = TcpConfig { rack: true, ..plain.clone() };
    for (control, queue_packets) in [(bbr3(), 33), (bbr1(), 15)] {
        let net = Dumbbell { queue_packets, warmup: 0.0, ..DUMBBELL };
        let without = net.run_tcp(std::slice::from_ref(&control), "cwnd_segments", &plain);
        let with = net.run_tcp(&[control], "cwnd_segments", &rack);
        assert!(with.timeouts == 0 && without.timeouts > 0, "{without:?} {with:?}");
        assert!(with.all_mbps() > without.all_mbps(), "{without:?} {with:?}");
    }
}

/// Where nothing is lost twice, what RACK finds lost is what three held segments show.
#[test]
fn with_rack_reno_and_cubic_do_as_without_where_nothing_is_reordered() {
    let plain = TcpConfig::modern(Variant::Sack);
    let rack = TcpConfig { rack: true, ..plain.clone() };
    for control in [reno(false), cubic(false)] {
        let net = Dumbbell { queue_packets: 67, until: 110.0, ..DUMBBELL };
        let without = net.run_tcp(std::slice::from_ref(&control), "cwnd_segments", &plain);
        let with = net.run_tcp(&[control], "cwnd_segments", &rack);
        assert!((with.all_mbps() / without.all_mbps() - 1.0).abs() < 0.005, "{without:?} {with:?}");
        assert!((with.queue_packets / without.queue_packets - 1.0).abs() < 0.02, "{without:?} {with:?}");
    }
}
