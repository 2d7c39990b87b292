//! Network Border Patrol through the whole engine.

mod common;

use common::{Net, constant, direction, drop_tail, throughput_bps};
use tidegate_engine::{ApplicationSpec, TransportSpec};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_units::BitRate;

/// The network of Fig. 7 with both flows; UDP sends at `load`.
fn figure_7(load: BitRate) -> Net {
    let mut net = Net::default();
    let access = || direction("10Mbit", "100us", drop_tail(100));
    let inner = |rate| direction(rate, "10ms", drop_tail(100));
    net.link("h1", "I1", access());
    net.link("h2", "I2", access());
    net.link("I1", "R1", inner("10Mbit"));
    net.link("I2", "R1", inner("10Mbit"));
    net.link("R1", "R2", inner("1.5Mbit"));
    net.link("R2", "E1", inner("10Mbit"));
    net.link("R2", "E2", inner("128kbit"));
    net.link("E1", "h3", access());
    net.link("E2", "h4", access());
    let mut tcp = TcpConfig::ns_1999(Variant::Reno);
    tcp.receive_window_bytes = 100_000;
    net.flow("h1", &["h3"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
    net.flow("h2", &["h4"], TransportSpec::Udp { header_bytes: 28 }, constant(load));
    net
}

fn with_nbp(mut net: Net) -> Net {
    let unpoliced = vec![net.node("E1"), net.node("E2")];
    let domain = net.domain(&["I1", "I2", "E1", "E2"], &["R1", "R2"]);
    domain.mechanism = Some(EdgeConfig::Nbp(Box::default()));
    domain.unpoliced = unpoliced;
    net
}

#[test]
fn nbp_prevents_the_congestion_collapse_of_figure_8() {
    let mbps = |net: Net| {
        let statistics = net.run(1, 10.0, 60.0);
        [throughput_bps(&statistics, 0) / 1e6, throughput_bps(&statistics, 1) / 1e6]
    };
    for kbps in [500, 1500] {
        let load = BitRate::from_bps(kbps * 1000);
        let [tcp, _] = mbps(figure_7(load));
        assert!(tcp < 1.55 - kbps as f64 / 1000.0, "without NBP, TCP gets what UDP leaves: {tcp}");
        let [tcp, udp] = mbps(with_nbp(figure_7(load)));
        assert!(
            tcp > 1.30 && udp > 0.9 * 0.128,
            "with NBP, UDP takes only what it can deliver: {tcp}, {udp}"
        );
    }
}
