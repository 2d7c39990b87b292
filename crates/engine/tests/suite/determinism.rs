//! The same seed gives the same results, whoever looks on and however often; and components draw from streams of their
//! own.

use std::collections::BTreeSet;

use crate::common::{Fate, Log, Net, Recorder, constant, direction, drop_tail, seconds};
use tidegate_engine::{
    ApplicationSpec, EventOrder, FlowIds, LinkCounters, LinkId, LossModel, Multipath, Network, Observer,
    OnOffDistribution, Simulation, StartSpec, Statistics, TransportSpec,
};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::queue::{ManagerConfig, RedConfig};
use tidegate_mechanism::schedule::{DisciplineConfig, DrrConfig, WfqConfig};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::FlowId;
use tidegate_units::{BitRate, Limit, Span, Time};

const END: f64 = 8.0;

/// Something of everything that draws random numbers, under NBP.
fn network() -> Network {
    let mut net = Net::default();
    let red = || {
        DisciplineConfig::Fifo(ManagerConfig::Red(RedConfig { limit: Limit::Packets(40), ..RedConfig::ns() }))
    };
    for index in 0..4 {
        net.link(&format!("h{index}"), "r0", direction("10Mbit", "1ms", drop_tail(100)));
        net.link("r3", &format!("h{}", index + 4), direction("10Mbit", "1ms", drop_tail(100)));
    }
    net.link("r0", "r1", direction("4Mbit", "10ms", red()));
    net.link("r1", "r2", direction("3Mbit", "5ms", DisciplineConfig::Wfq(WfqConfig::default())));
    net.network.links.last_mut().unwrap().forward.loss = Some(LossModel::Random { probability: 0.01 });
    net.link("r2", "r3", direction("3.5Mbit", "5ms", DisciplineConfig::Drr(DrrConfig::default())));
    let modern = TcpConfig { ecn: true, ..TcpConfig::modern(Variant::Sack) };
    net.flow("h0", &["h4"], TransportSpec::Tcp(Box::new(modern)), ApplicationSpec::Bulk);
    net.flow(
        "h1",
        &["h5"],
        TransportSpec::Tcp(Box::new(TcpConfig::ns_1999(Variant::Reno))),
        ApplicationSpec::Bulk,
    );
    let poisson = ApplicationSpec::Poisson { rate: BitRate::from_mbps(1), packet_bytes: 500 };
    net.flow("h2", &["h6"], TransportSpec::Udp { header_bytes: 28 }, poisson);
    let on_off = ApplicationSpec::OnOff {
        distribution: OnOffDistribution::Pareto { shape: 1.5 },
        on: Span::from_millis(100),
        off: Span::from_millis(300),
        rate: BitRate::from_mbps(3),
        packet_bytes: 700,
    };
    net.flow("h3", &["h7"], TransportSpec::Udp { header_bytes: 28 }, on_off);
    for flow in &mut net.network.flows {
        flow.start = StartSpec::Uniform(Time::ZERO, seconds(0.5));
    }
    net.domain(&["r0", "r3"], &["r1", "r2"]).mechanism = Some(EdgeConfig::Nbp(Box::default()));
    net.network
}

fn finish<O: Observer>(mut simulation: Simulation<O>) -> Statistics {
    simulation.run_until(seconds(END), u64::MAX);
    simulation.assert_conservation();
    simulation.statistics()
}

/// All of the results; the number of events is not one, for a pause is an event.
pub fn results(statistics: &Statistics) -> String {
    let Statistics {
        since,
        until,
        links,
        link_rates,
        link_rate_nanos,
        flows,
        sinks,
        connections,
        crowds,
        border_drops,
        markers,
        fluids,
        fluid_links,
        totals,
    } = statistics;
    let mut totals = *totals;
    totals.events = 0;
    format!(
        "{since:?} {until:?} {links:#?} {link_rates:?} {link_rate_nanos:?} {flows:#?} {sinks:#?} {connections:#?} {crowds:?} {border_drops:?} {markers:?} {fluids:?} {fluid_links:?} {totals:?}"
    )
}

fn once(seed: u64) -> Statistics {
    finish(network().build(seed, ()).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_results_and_another_seed_gives_others() {
    let first = once(1);
    assert_eq!(results(&first), results(&once(1)));
    assert_eq!(first.totals.events, once(1).totals.events);
    assert_ne!(results(&first), results(&once(2)));
    assert!(
        first.links.iter().map(LinkCounters::dropped_packets).sum::<u64>() > 10,
        "randomness had its chance"
    );
}

#[test]
fn nobody_who_looks_on_changes_anything() {
    let undisturbed = results(&once(1));
    assert_eq!(
        undisturbed,
        results(&finish(network().build(1, Recorder::default()).unwrap())),
        "an observer"
    );

    // In many steps, looking at everything that there is to look at after each.
    let links = network().links.len() as u32;
    let mut simulation = network().build(1, ()).unwrap();
    for step in 1..=(END * 700.0) as u64 {
        simulation.run_until(Time::ZERO + Span::from_nanos(step * 1_428_571), u64::MAX);
        simulation.statistics();
        for link in 0..links {
            simulation.queue_length(LinkId::of(link, false));
            simulation.queue_variable(LinkId::of(link, false), "average_queue_packets");
            simulation.link_counters(LinkId::of(link, false));
        }
        simulation.border_report(0, 0);
    }
    assert_eq!(undisturbed, results(&finish(simulation)), "pauses");

    // With a limited number of events at a time.
    let mut interrupted = network().build(1, ()).unwrap();
    let mut interruptions = 0;
    while !interrupted.run_until(seconds(END), 1_000) {
        interruptions += 1;
    }
    assert!(interruptions > 20, "{interruptions}");
    assert_eq!(undisturbed, results(&interrupted.statistics()), "interruptions");
}

#[test]
fn statistics_of_two_parts_add_up_to_those_of_the_whole() {
    let whole = once(1);
    let mut simulation = network().build(1, ()).unwrap();
    simulation.run_until(seconds(3.3), u64::MAX);
    let first = simulation.statistics();
    simulation.restart_statistics();
    let second = finish(simulation);
    for (index, link) in whole.links.iter().enumerate() {
        let (first, second) = (&first.links[index], &second.links[index]);
        assert_eq!(first.arrived_packets + second.arrived_packets, link.arrived_packets, "link {index}");
        assert_eq!(first.delivered_bytes + second.delivered_bytes, link.delivered_bytes, "link {index}");
        assert_eq!(first.busy_nanos + second.busy_nanos, link.busy_nanos, "link {index}");
        assert_eq!(first.packet_nanos + second.packet_nanos, link.packet_nanos, "link {index}");
        assert_eq!(first.byte_nanos + second.byte_nanos, link.byte_nanos, "link {index}");
        assert_eq!(first.delay_nanos + second.delay_nanos, link.delay_nanos, "link {index}");
        assert_eq!(
            first.queue_packets_max.max(second.queue_packets_max),
            link.queue_packets_max,
            "link {index}"
        );
        assert_eq!(
            first.dropped_packets() + second.dropped_packets(),
            link.dropped_packets(),
            "link {index}"
        );
    }
    for (index, flow) in whole.flows.iter().enumerate() {
        assert_eq!(first.flows[index].sent_bytes + second.flows[index].sent_bytes, flow.sent_bytes);
    }
    for (index, sinks) in whole.sinks.iter().enumerate() {
        let goodput = |statistics: &Statistics| statistics.sinks[index][0].goodput_bytes;
        assert_eq!(goodput(&first) + goodput(&second), sinks[0].goodput_bytes, "flow {index}");
    }
}

/// When which packets of the first `flows` flows came out of which link, or were dropped.
fn log_of(net: Net, flows: u32) -> Log {
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(END), u64::MAX);
    let mut log = simulation.into_observer().log;
    log.retain(|entry| entry.1.0 < FlowIds::data(flows).0);
    log
}

/// Two flows with randomness in source, queue and medium, on links of their own.
fn pair() -> Net {
    let mut net = Net::default();
    let red = || {
        DisciplineConfig::Fifo(ManagerConfig::Red(RedConfig { limit: Limit::Packets(20), ..RedConfig::ns() }))
    };
    net.link("h0", "r0", direction("1.1Mbit", "1ms", red()));
    net.link("r0", "h1", direction("10Mbit", "1ms", red()));
    net.network.links[1].forward.loss = Some(LossModel::Random { probability: 0.1 });
    let poisson = ApplicationSpec::Poisson { rate: BitRate::from_mbps(1), packet_bytes: 500 };
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, poisson);
    net.flow(
        "h0",
        &["h1"],
        TransportSpec::Tcp(Box::new(TcpConfig::modern(Variant::NewReno))),
        ApplicationSpec::Bulk,
    );
    for flow in &mut net.network.flows {
        flow.start = StartSpec::Uniform(Time::ZERO, seconds(1.0));
    }
    net
}

#[test]
fn another_node_link_or_flow_does_not_shift_the_draws_of_those_that_were_there() {
    let alone = log_of(pair(), 2);
    assert!(alone.len() > 1_000);
    let mut net = pair();
    net.link("h2", "r1", direction("1Mbit", "1ms", drop_tail(10)));
    net.link("r1", "h3", direction("1Mbit", "1ms", drop_tail(10)));
    net.network.links[2].forward.loss = Some(LossModel::Random { probability: 0.5 });
    net.flow(
        "h2",
        &["h3"],
        TransportSpec::Udp { header_bytes: 28 },
        ApplicationSpec::Poisson { rate: BitRate::from_mbps(2), packet_bytes: 90 },
    );
    net.domain(&["r1"], &[]);
    assert!(alone == log_of(net, 2), "the newcomers are elsewhere");
}

#[test]
fn another_flow_does_not_shift_the_choice_of_paths_of_those_that_were_there() {
    for multipath in [Multipath::Packet, Multipath::Flow] {
        let taken = |newcomers: bool| {
            let mut net = Net::default();
            for (from, to) in [("h0", "s"), ("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("t", "h1")] {
                net.link(from, to, direction("100Mbit", "1ms", drop_tail(1000)));
            }
            net.network.multipath = multipath;
            let count = if newcomers { 30 } else { 20 };
            for _ in 0..count {
                net.flow(
                    "h0",
                    &["h1"],
                    TransportSpec::Udp { header_bytes: 28 },
                    constant(BitRate::from_mbps(1)),
                );
            }
            // The newcomers come first.
            net.network.flows.rotate_right(count - 20);
            let mut simulation = net.network.build(1, Recorder::default()).unwrap();
            simulation.run_until(seconds(1.0), u64::MAX);
            let first = FlowIds::data(count as u32 - 20).0;
            let chosen = |entry: &(Time, FlowId, u32, Fate)| match entry.3 {
                Fate::Delivered(link) if (1..=2).contains(&link.index()) && entry.1.0 >= first => {
                    Some((entry.1.0 - first, link))
                }
                _ => None,
            };
            let mut log: Vec<(u32, LinkId)> =
                simulation.into_observer().log.iter().filter_map(chosen).collect();
            // By flow; stable, so that each flow's packets stay in order.
            log.sort_by_key(|entry| entry.0);
            log
        };
        let alone = taken(false);
        let ways: BTreeSet<LinkId> = alone.iter().map(|entry| entry.1).collect();
        assert_eq!(ways.len(), 2, "both ways are used");
        assert!(alone == taken(true), "{multipath:?}");
    }
}

#[test]
fn a_source_sends_the_same_whatever_meets_its_packets() {
    // Common random numbers: variants of an experiment differ in what is varied, not in their traffic.
    let sent = |queue: DisciplineConfig, competitor: bool| {
        let mut net = Net::default();
        net.link("h0", "r0", direction("100Mbit", "1ms", drop_tail(1000)));
        net.link("h1", "r0", direction("100Mbit", "1ms", drop_tail(1000)));
        net.link("r0", "h2", direction("1Mbit", "1ms", queue));
        net.flow(
            "h0",
            &["h2"],
            TransportSpec::Udp { header_bytes: 28 },
            ApplicationSpec::Markov { rate: BitRate::from_mbps(2), mean_packet_bytes: 400 },
        );
        if competitor {
            net.flow("h1", &["h2"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(3)));
        }
        let mut log = log_of(net, 1);
        log.retain(|entry| entry.3 == Fate::Delivered(LinkId::of(0, false)));
        log
    };
    let reference = sent(drop_tail(10), false);
    assert!(reference.len() > 3_000);
    assert!(reference == sent(DisciplineConfig::Wfq(WfqConfig::default()), false), "another queue");
    assert!(reference == sent(drop_tail(10), true), "a competitor");
}

/// What happens at the instant at which a run ends, or its statistics begin, is not in it, however it came there.
#[test]
fn the_instant_at_which_a_run_ends_is_not_part_of_it() {
    for order in [EventOrder::Scheduled, EventOrder::Numbered] {
        for steps in [1, 10, 1000] {
            let mut net = Net::default();
            net.link("h0", "h1", direction("1Mbit", "500ms", drop_tail(10)));
            net.network.event_order = order;
            let udp = TransportSpec::Udp { header_bytes: 28 };
            // One packet in each second.
            let flow = net.flow("h0", &["h1"], udp, constant(BitRate::from_bps(8_000)));
            let mut simulation = net.build(1);
            let run = |of: &mut Simulation, to: f64| {
                let from = of.now().as_secs_f64();
                for step in 1..=steps {
                    of.run_until(seconds(from + (to - from) * f64::from(step) / f64::from(steps)), u64::MAX);
                }
            };
            run(&mut simulation, 3.0);
            simulation.restart_statistics();
            run(&mut simulation, 10.0);
            assert_eq!(simulation.flow_counters(flow).sent_packets, 7, "{order:?}, {steps}");
        }
    }
}
