//! Prague beside CUBIC where one queue marks both, and where L4S has a queue of its own.
//!
//! Source: RFC 9331, section 4.3; arXiv:1911.00710.
//! Deviations: none.

use crate::common::{Net, direction, drop_tail, seconds};
use tidegate_engine::{ApplicationSpec, StartSpec, TransportSpec};
use tidegate_mechanism::queue::{CodelConfig, ManagerConfig, PieConfig};
use tidegate_mechanism::schedule::{DisciplineConfig, DualPi2Config};
use tidegate_mechanism::tcp::congestion::{
    CongestionControl, CongestionControlConfig, CubicConfig, PragueConfig,
};
use tidegate_mechanism::tcp::{EcnFeedback, TcpConfig, Variant};

/// What Prague has, what CUBIC has beside it in Mb/s, and the score that Prague came to.
fn beside_cubic(classic_fallback: bool, queue: DisciplineConfig, rtt_ms: u32) -> (f64, f64, f64) {
    let base = TcpConfig { ecn: true, delayed_ack: None, ..TcpConfig::modern(Variant::Sack) };
    let prague = TcpConfig {
        l4s: true,
        ecn_retransmissions: true,
        ecn_feedback: EcnFeedback::Accurate,
        control: CongestionControlConfig::Prague(PragueConfig {
            classic_fallback,
            ..PragueConfig::default()
        }),
        ..base.clone()
    };
    let cubic = TcpConfig { control: CongestionControlConfig::Cubic(CubicConfig::default()), ..base };
    let mut net = Net::default();
    net.link("A", "B", direction("40Mbit", &format!("{}us", rtt_ms * 500), queue));
    for (number, tcp) in [prague, cubic].into_iter().enumerate() {
        let (source, sink) = (format!("h{number}"), format!("d{number}"));
        net.link(&source, "A", direction("10Gbit", "1us", drop_tail(10_000)));
        net.link("B", &sink, direction("10Gbit", "1us", drop_tail(10_000)));
        let flow = net.flow(&source, &[&sink], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
        net.network.flows[flow].start = StartSpec::At(seconds(0.313 * number as f64));
    }
    let mut simulation = net.build(1);
    simulation.run_until(seconds(40.0), u64::MAX);
    simulation.restart_statistics();
    simulation.run_until(seconds(120.0), u64::MAX);
    simulation.assert_conservation();
    let goodput =
        |flow| simulation.sink_counters(flow).iter().map(|sink| sink.goodput_bytes).sum::<u64>() as f64;
    let score =
        simulation.tcp_sender(0).and_then(|sender| sender.congestion_control().variable("classic_ecn"));
    (goodput(0) * 8.0 / 80e6, goodput(1) * 8.0 / 80e6, score.expect("Prague has one"))
}

#[test]
fn behind_one_queue_that_marks_both_prague_leaves_cubic_its_share_only_with_the_fallback() {
    let codel = || DisciplineConfig::Fifo(ManagerConfig::Codel(CodelConfig::default()));
    let pie = || DisciplineConfig::Fifo(ManagerConfig::Pie(PieConfig::default()));
    for (queue, rtt_ms) in [(codel as fn() -> DisciplineConfig, 20), (pie, 20), (pie, 40)] {
        let (prague, cubic, score) = beside_cubic(false, queue(), rtt_ms);
        let (with, cubic_with, score_with) = beside_cubic(true, queue(), rtt_ms);
        println!("{prague} {cubic} {score}; {with} {cubic_with} {score_with}");
        assert!(prague > 4.0 * cubic && score == 0.0, "{prague} {cubic}");
        assert!(
            (0.4..2.5).contains(&(with / cubic_with)) && score_with > 9.0,
            "{with} {cubic_with} {score_with}"
        );
    }
}

#[test]
fn behind_a_queue_for_l4s_the_fallback_changes_nothing() {
    let dual = || DisciplineConfig::DualPi2(DualPi2Config::default());
    for rtt_ms in [10, 40] {
        let (plain, with) = (beside_cubic(false, dual(), rtt_ms), beside_cubic(true, dual(), rtt_ms));
        println!("{plain:?} {with:?}");
        assert!(with.2 < 8.0, "{with:?}");
        assert_eq!((plain.0, plain.1), (with.0, with.1));
    }
}
