//! A dumbbell of TCP flows, to look at the speed of the engine: `cargo run --release --example dumbbell -- FLOWS MBIT SECONDS`.

use std::net::Ipv4Addr;

use tidegate_engine::{
    ApplicationSpec, DirectionSpec, FlowSpec, LinkSpec, Multipath, Network, NodeId, NodeKind, NodeSpec,
    StartSpec, TransportSpec,
};
use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::{DelayedAck, TcpConfig, Variant};
use tidegate_packet::{Address, Dscp, Headers, Protocol};
use tidegate_units::{BitRate, Limit, Span, Time};

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let [flows, mbit, seconds] = arguments[..] else {
        eprintln!("usage: dumbbell FLOWS MBIT SECONDS");
        std::process::exit(2);
    };
    let mut network = Network { multipath: Multipath::None, ..Network::default() };
    let router = |name: &str| NodeSpec { name: name.into(), kind: NodeKind::Router };
    network.nodes.extend([router("A"), router("B")]);
    let direction = |rate: BitRate, delay: Span, packets: u32| DirectionSpec {
        rate,
        delay,
        queue: DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig {
            limit: Limit::Packets(packets),
        })),
        loss: None,
        device: None,
        reorder: None,
        duplicate: 0.0,
        jitter: None,
        circuit: None,
        trace: None,
    };
    let link = |name: String, ends: [NodeId; 2], d: DirectionSpec| LinkSpec {
        name,
        ends,
        forward: d.clone(),
        reverse: d,
        cost: 1,
        half_duplex: false,
    };
    let core = direction(BitRate::from_mbps(mbit), Span::from_millis(8), 100);
    network.links.push(link("core".into(), [NodeId(0), NodeId(1)], core));
    let access = direction(BitRate::from_mbps(100.max(mbit * 10)), Span::from_millis(1), 1000);
    for i in 0..flows {
        let host = |name: String| NodeSpec { name, kind: NodeKind::Host };
        let source = NodeId(network.nodes.len() as u32);
        network.nodes.extend([host(format!("s{i}")), host(format!("d{i}"))]);
        let sink = NodeId(source.0 + 1);
        network.links.push(link(format!("s{i}"), [source, NodeId(0)], access.clone()));
        network.links.push(link(format!("d{i}"), [NodeId(1), sink], access.clone()));
        let address = |n: u32| Address::V4(Ipv4Addr::from(0x0a00_0000 + n).octets());
        let mut tcp = TcpConfig::ns_1999(Variant::NewReno);
        tcp.delayed_ack = Some(DelayedAck { segments: 2, timeout: Span::from_millis(100) });
        tcp.receive_window_bytes = 1000 * 1000;
        network.flows.push(FlowSpec {
            name: format!("f{i}"),
            from: source,
            to: vec![sink],
            transport: TransportSpec::Tcp(Box::new(tcp)),
            application: ApplicationSpec::Bulk,
            start: StartSpec::At(Time::from_nanos(i * 100_000_000 / flows.max(1))),
            stop: None,
            dscp: Dscp::BEST_EFFORT,
            class: 0,
            headers: Headers::best_effort(Protocol::TCP, (address(source.0), 1), (address(sink.0), 2)),
        });
    }
    let mut simulation = match network.build(1, ()) {
        Ok(simulation) => simulation,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3);
        }
    };
    simulation.run_until(Time::from_nanos(seconds * 1_000_000_000), u64::MAX);
    simulation.assert_conservation();
    let statistics = simulation.statistics();
    let delivered = statistics.links[0].delivered_bytes * 8;
    println!(
        "{} packet-hops, {} events, {:.3} Mbit/s through the core, {} drops, queue {:.1} packets mean",
        statistics.totals.packet_hops,
        statistics.totals.events,
        delivered as f64 / seconds as f64 / 1e6,
        statistics.links[0].dropped_packets(),
        statistics.links[0].packet_nanos as f64 / (seconds as f64 * 1e9),
    );
}
