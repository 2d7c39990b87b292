//! NBP with WFQ gives flows their max-min fair rates: three of the fifty random networks. The example `maxmin` runs all.

use crate::common::random_network::{CoreLink, Topology, nbp, nbp_by_data};
use crate::common::{Net, constant, direction, throughput_bps};
use tidegate_engine::TransportSpec;
use tidegate_mechanism::schedule::{DisciplineConfig, WfqConfig};
use tidegate_units::{BitRate, Limit, Span};

/// Small ones among those of the example.
const SEEDS: [u64; 3] = [12, 21, 36];

#[test]
fn rates_under_nbp_with_wfq_are_max_min_fair() {
    for seed in SEEDS {
        let outcome = Topology::random(seed).run(seed, nbp());
        let mean = outcome.mean_deviation();
        assert!(
            mean < 0.07,
            "seed {seed}: {:.2} %\n{:?}\n{:?}",
            100.0 * mean,
            outcome.measured,
            outcome.ideal
        );
    }
}

#[test]
fn by_the_round_trip_of_data_rates_are_as_fair_and_the_core_loses_nothing() {
    for seed in SEEDS {
        let outcome = Topology::random(seed).run_with(seed, nbp_by_data(), Limit::Packets(1000));
        let (lost, mean) = (outcome.core_loss, outcome.mean_deviation());
        assert!(lost < 1e-4 && mean < 0.07, "seed {seed}: lost {lost}, off {mean}");
    }
}

/// R0 - R1 - R2 with 10 and 30 Mb/s.
fn line() -> Topology {
    let link = |ends, mbps| CoreLink { ends, mbps, delay: Span::from_millis(5), cost: 1 };
    Topology {
        routers: 3,
        links: vec![link([0, 1], 10), link([1, 2], 30)],
        flows: vec![[0, 2], [0, 1], [1, 2], [2, 0]],
    }
}

#[test]
fn progressive_filling_gives_what_one_share_leaves_to_the_others() {
    let topology = line();
    let paths = topology.paths();
    assert_eq!(paths[3], [(1, true), (0, true)]);
    assert_eq!(topology.max_min_rates(&paths), [5e6, 5e6, 25e6, 10e6]);
}

/// What the check above could not tell from max-min fairness if there were no need for NBP.
#[test]
fn without_nbp_a_long_flow_wastes_what_it_cannot_deliver() {
    let mut net = Net::default();
    let fair = || DisciplineConfig::Wfq(WfqConfig::default());
    net.link("h0", "r0", direction("100Mbit", "1ms", fair()));
    net.link("h1", "r0", direction("100Mbit", "1ms", fair()));
    net.link("r0", "r1", direction("10Mbit", "5ms", fair()));
    net.link("r1", "h2", direction("100Mbit", "1ms", fair()));
    net.link("r1", "h3", direction("1Mbit", "5ms", fair()));
    net.flow("h0", &["h2"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(12)));
    net.flow("h1", &["h3"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(12)));
    let statistics = net.run(1, 1.0, 5.0);
    // Max-min would be 9 and 1.
    assert!((throughput_bps(&statistics, 0) / 5e6 - 1.0).abs() < 0.01, "{}", throughput_bps(&statistics, 0));
    assert!((throughput_bps(&statistics, 1) / 1e6 - 1.0).abs() < 0.01, "{}", throughput_bps(&statistics, 1));
}
