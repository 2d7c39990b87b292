//! Routes against an independent search: shortest paths, all paths of equal cost, multicast trees, changes of links.
//!
//! What the engine did is read off the links that packets came out of.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Fate, Net, Recorder, constant, direction, drop_tail, seconds};
use proptest::prelude::*;
use tidegate_engine::{
    ApplicationSpec, BuildError, Change, FlowIds, LinkId, Multipath, Network, NodeId, NodeKind,
    ScriptedChange, StartSpec, TransportSpec,
};
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Span, Time};

/// A random network: routers, links among them with costs, one host at each, and hosts with a link to two routers.
#[derive(Clone, Debug)]
struct Graph {
    routers: usize,
    links: Vec<(usize, usize, u32)>,
    two_homed: Vec<(usize, usize)>,
}

fn graph() -> impl Strategy<Value = Graph> {
    (3usize..9).prop_flat_map(|routers| {
        let another = move |(a, step): (usize, usize)| (a, (a + step) % routers);
        let pair = move || (0..routers, 1..routers).prop_map(another);
        // Few costs make many paths equal.
        let link = (pair(), 1u32..4).prop_map(|((a, b), cost)| (a, b, cost));
        (prop::collection::vec(link, 2..16), prop::collection::vec(pair(), 0..3))
            .prop_map(move |(links, two_homed)| Graph { routers, links, two_homed })
    })
}

/// The same with a tree, so that every host reaches every other.
fn connected_graph() -> impl Strategy<Value = Graph> {
    (graph(), prop::collection::vec((0usize..9, 1u32..4), 8)).prop_map(|(mut graph, tree)| {
        let parents = tree.into_iter().zip(1..graph.routers);
        graph.links.extend(parents.map(|((parent, cost), child)| (parent % child, child, cost)));
        graph
    })
}

/// Two hosts of `graph` out of two numbers.
fn two_hosts(graph: &Graph, (from, step): (usize, usize)) -> (usize, usize) {
    let from = from % graph.hosts();
    (from, (from + 1 + step % (graph.hosts() - 1)) % graph.hosts())
}

impl Graph {
    fn hosts(&self) -> usize {
        self.routers + self.two_homed.len()
    }

    fn net(&self) -> Net {
        let mut net = Net::default();
        let spec = || direction("100Mbit", "1ms", drop_tail(10_000));
        for &(a, b, cost) in &self.links {
            net.link(&format!("r{a}"), &format!("r{b}"), spec());
            let link = net.network.links.last_mut().unwrap();
            link.cost = cost;
            // Links between the same routers have names of their own.
            link.name = format!("link{}", self.links.len() + net.network.nodes.len());
        }
        for router in 0..self.routers {
            net.link(&format!("h{router}"), &format!("r{router}"), spec());
        }
        // Tempting short cuts: two links of cost 1 each, through a host.
        for (index, &(a, b)) in self.two_homed.iter().enumerate() {
            let host = format!("h{}", self.routers + index);
            net.link(&host, &format!("r{a}"), spec());
            net.link(&host, &format!("r{b}"), spec());
        }
        for (index, link) in net.network.links.iter_mut().enumerate() {
            link.name = format!("link{index}");
        }
        net
    }
}

const FAR: u64 = u64::MAX / 4;

/// Directions of links out of each node, to where, at which cost.
fn hops(network: &Network) -> Vec<(NodeId, NodeId, u64, LinkId)> {
    let links = network.links.iter().zip(0..);
    links
        .flat_map(|(spec, index)| {
            let [a, b] = spec.ends;
            let cost = u64::from(spec.cost);
            [(a, b, cost, LinkId::of(index, false)), (b, a, cost, LinkId::of(index, true))]
        })
        .collect()
}

/// Costs between all pairs of nodes by Floyd and Warshall; only routers are passed through.
fn distances(network: &Network) -> Vec<Vec<u64>> {
    let n = network.nodes.len();
    let mut distance = vec![vec![FAR; n]; n];
    for (node, row) in distance.iter_mut().enumerate() {
        row[node] = 0;
    }
    for (from, to, cost, _) in hops(network) {
        let known = &mut distance[from.0 as usize][to.0 as usize];
        *known = cost.min(*known);
    }
    for via in (0..n).filter(|&node| network.nodes[node].kind == NodeKind::Router) {
        for from in 0..n {
            for to in 0..n {
                let candidate = distance[from][via] + distance[via][to];
                distance[from][to] = candidate.min(distance[from][to]);
            }
        }
    }
    distance
}

/// Every path of least cost.
fn all_shortest(network: &Network, from: NodeId, to: NodeId) -> BTreeSet<Vec<LinkId>> {
    let (distance, hops) = (distances(network), hops(network));
    let left = |node: NodeId| distance[node.0 as usize][to.0 as usize];
    let mut complete = BTreeSet::new();
    let mut open = vec![(from, Vec::new())];
    while let Some((node, path)) = open.pop() {
        if node == to {
            complete.insert(path);
            continue;
        }
        for &(start, next, cost, link) in &hops {
            let passable = next == to || network.nodes[next.0 as usize].kind == NodeKind::Router;
            if start == node && passable && left(next) + cost == left(node) {
                let mut longer = path.clone();
                longer.push(link);
                open.push((next, longer));
            }
        }
    }
    complete
}

/// One packet per `gap`, `packets` of them.
fn train(net: &mut Net, from: usize, to: &[usize], packets: u64) {
    let to: Vec<String> = to.iter().map(|host| format!("h{host}")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let index = net.flow(
        &format!("h{from}"),
        &to,
        TransportSpec::Udp { header_bytes: 28 },
        constant(BitRate::from_mbps(8)),
    );
    let flow = &mut net.network.flows[index];
    // A packet takes a millisecond; no two flows are under way at once.
    let start = Time::ZERO + Span::from_secs(index as u64);
    flow.start = StartSpec::At(start);
    flow.stop = Some(start + Span::from_micros(packets * 1000 - 500));
}

/// The links that each packet of `flow` came out of. Packets of one flow are 1 ms apart and the links equally fast, so
/// that packets are told apart by when they were sent.
fn paths_taken(recorder: &Recorder, flow: usize) -> Vec<Vec<LinkId>> {
    let mut by_packet: BTreeMap<u64, Vec<LinkId>> = BTreeMap::new();
    for (at, of, _, fate) in &recorder.log {
        let Fate::Delivered(link) = fate else { panic!("nothing is lost here: {fate:?}") };
        if *of == FlowIds::data(flow as u32) {
            // Each hop takes 80 us of transmission and 1 ms of travel.
            let phase = at.as_nanos() - flow as u64 * 1_000_000_000;
            let hop = (phase % 1_000_000) / 80_000;
            by_packet.entry(phase - hop * 1_080_000).or_default().push(*link);
        }
    }
    by_packet.into_values().collect()
}

fn watch(network: Network, seed: u64) -> Recorder {
    let end = seconds(network.flows.len() as f64 + 1.0);
    let mut simulation = network.build(seed, Recorder::default()).unwrap();
    simulation.run_until(end, u64::MAX);
    simulation.assert_conservation();
    simulation.into_observer()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_flow_takes_a_path_of_least_cost_that_no_host_forwards(graph in graph()) {
        let mut net = graph.net();
        let distance = distances(&net.network);
        let host: Vec<usize> =
            (0..graph.hosts()).map(|host| net.node(&format!("h{host}")).0 as usize).collect();
        for from in 0..graph.hosts() {
            for to in 0..graph.hosts() {
                if from != to && distance[host[from]][host[to]] < FAR {
                    train(&mut net, from, &[to], 1);
                }
            }
        }
        let network = net.network.clone();
        let hops = hops(&network);
        let recorder = watch(net.network, 1);
        for (index, flow) in network.flows.iter().enumerate() {
            let paths = paths_taken(&recorder, index);
            prop_assert_eq!(paths.len(), 1);
            let (mut at, mut cost) = (flow.from, 0);
            for link in &paths[0] {
                let &(start, next, more, _) = hops.iter().find(|hop| hop.3 == *link).unwrap();
                prop_assert_eq!(start, at);
                prop_assert!(next == flow.to[0] || network.nodes[next.0 as usize].kind == NodeKind::Router);
                (at, cost) = (next, cost + more);
            }
            prop_assert_eq!(at, flow.to[0]);
            prop_assert_eq!(cost, distance[flow.from.0 as usize][at.0 as usize]);
        }
    }

    #[test]
    fn a_network_is_refused_exactly_if_a_flow_has_no_path(graph in graph(), ends in (0usize..9, 0usize..9)) {
        let mut net = graph.net();
        let (from, to) = two_hosts(&graph, ends);
        train(&mut net, from, &[to], 1);
        let flow = &net.network.flows[0];
        let reachable = distances(&net.network)[flow.from.0 as usize][flow.to[0].0 as usize] < FAR;
        let built = net.network.build(1, ());
        prop_assert_eq!(built.is_ok(), reachable);
        if let Err(error) = built {
            let unreachable = matches!(error, BuildError::Unreachable { .. });
            prop_assert!(unreachable, "{}", error);
        }
    }

    #[test]
    fn packets_spread_over_all_paths_of_least_cost(graph in connected_graph(), ends in (0usize..9, 0usize..9)) {
        let mut net = graph.net();
        let (from, to) = two_hosts(&graph, ends);
        net.network.multipath = Multipath::Packet;
        train(&mut net, from, &[to], 400);
        let flow = &net.network.flows[0];
        let expected = all_shortest(&net.network, flow.from, flow.to[0]);
        // Twenty packets per path: a path is missed with probability e^-20.
        prop_assume!(expected.len() <= 20);
        let taken: BTreeSet<Vec<LinkId>> = paths_taken(&watch(net.network, 1), 0).into_iter().collect();
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn a_multicast_packet_crosses_a_link_once_and_reaches_every_receiver_once(
        graph in connected_graph(), ends in (0usize..9, 0usize..9), chosen in any::<u16>()
    ) {
        let mut net = graph.net();
        let (from, to) = two_hosts(&graph, ends);
        let receivers: Vec<usize> =
            (0..graph.hosts()).filter(|&host| host == to || (host != from && chosen & 1 << host != 0)).collect();
        train(&mut net, from, &receivers, 5);
        let hops = hops(&net.network);
        let mut simulation = net.network.build(1, ()).unwrap();
        simulation.run_until(seconds(1.0), u64::MAX);
        simulation.assert_conservation();
        let statistics = simulation.statistics();
        for sink in &statistics.sinks[0] {
            prop_assert_eq!(sink.received_packets, 5);
        }
        for (link, counters) in statistics.links.iter().enumerate() {
            prop_assert!(counters.delivered_packets == 0 || counters.delivered_packets == 5, "link {}", link);
        }
        // A tree has one link for each node but its root.
        let used = || statistics.links.iter().zip(0..).filter(|(counters, _)| counters.delivered_packets > 0);
        let entered: BTreeSet<NodeId> =
            used().map(|(_, link)| hops.iter().find(|hop| hop.3 == LinkId(link)).unwrap().1).collect();
        prop_assert_eq!(entered.len(), used().count());
    }
}

/// `s` - `a`/`b` - `t`, two paths of equal cost between two hosts.
fn diamond() -> Net {
    let mut net = Net::default();
    for (from, to) in [("h0", "s"), ("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("t", "h1")] {
        net.link(from, to, direction("10Mbit", "10ms", drop_tail(100)));
    }
    net
}

const S_A: LinkId = LinkId::of(1, false);
const S_B: LinkId = LinkId::of(2, false);

#[test]
fn flows_spread_over_paths_of_equal_cost_and_each_keeps_its_own() {
    let mut net = diamond();
    net.network.multipath = Multipath::Flow;
    for _ in 0..40 {
        net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_bps(80_000)));
    }
    let recorder = watch(net.network, 1);
    let mut ways = [0; 2];
    for flow in 0..40 {
        let of_flow = recorder.log.iter().filter(|entry| entry.1 == FlowIds::data(flow));
        let links: BTreeSet<LinkId> = of_flow
            .filter_map(|entry| if let Fate::Delivered(link) = entry.3 { Some(link) } else { None })
            .collect();
        assert_eq!(links.len(), 4, "flow {flow} keeps to one path: {links:?}");
        ways[usize::from(links.contains(&S_B))] += 1;
    }
    assert!(ways[0] > 8 && ways[1] > 8, "40 flows use both ways: {ways:?}");
}

#[test]
fn without_multipath_all_take_the_first_path() {
    let mut net = diamond();
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(1)));
    let statistics = net.run(1, 0.0, 1.0);
    assert!(statistics.links[S_A.0 as usize].delivered_packets > 100);
    assert_eq!(statistics.links[S_B.0 as usize].arrived_packets, 0);
}

#[test]
fn a_failed_link_is_avoided_until_it_is_back_and_what_was_on_it_is_lost() {
    let mut net = diamond();
    // A packet each millisecond; the link holds one in transmission and ten on the way.
    let flow =
        net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(8)));
    let change = |at: f64, up: bool| ScriptedChange { at: seconds(at), link: S_A, change: Change::Up(up) };
    net.network.script = vec![change(1.0001, false), change(2.0001, true)];
    let mut simulation = net.build(1);
    let mut run_until = |at: f64| {
        simulation.run_until(seconds(at), u64::MAX);
        simulation.assert_conservation();
        let statistics = simulation.statistics();
        let of = |link: LinkId| statistics.links[link.0 as usize].clone();
        (of(S_A), of(S_B), statistics.sinks[flow][0].received_packets)
    };
    let before = run_until(1.0);
    assert_eq!(before.1.arrived_packets, 0);
    let while_down = run_until(1.9);
    let lost = while_down.0.drops_by_reason[DropReason::LinkDown.index()];
    // Those that were on the way to `s` when the routes changed still go to the failed link: ten on the first link.
    let in_flight = before.0.arrived_packets - before.0.delivered_packets;
    assert!((10..=11).contains(&in_flight), "{in_flight}");
    assert!((in_flight + 10..=in_flight + 12).contains(&lost), "{lost} lost of {in_flight} and those behind");
    assert_eq!(while_down.0.dropped_packets(), lost);
    assert!(while_down.1.delivered_packets > 850, "{:?}", while_down.1);
    let after = run_until(3.0);
    assert!(after.0.delivered_packets - while_down.0.delivered_packets > 900, "the first path serves again");
    assert_eq!(after.0.dropped_packets(), lost);
    let total = run_until(4.0).2;
    assert!(
        (4000 - 41 - lost - 2..=4000 - lost).contains(&total),
        "nothing else is lost: {total} and {lost}"
    );
}

/// Directions of links share nothing: what fails one way still carries the other.
#[test]
fn a_link_that_failed_in_one_direction_still_carries_the_other() {
    let spec = || direction("10Mbit", "1ms", drop_tail(100));
    for (position, fails) in [(0, true), (1, true), (2, true), (0, false), (1, false), (2, false)] {
        let mut net = Net::default();
        net.link("h0", "r0", spec());
        net.link("r0", "r1", spec());
        net.link("r1", "h1", spec());
        let udp =
            net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(1)));
        let link = LinkId::of(position, !fails);
        net.network.script = vec![ScriptedChange { at: seconds(1.0), link, change: Change::Up(false) }];
        let statistics = net.run(1, 1.1, 3.0);
        let received = statistics.sinks[udp][0].received_packets;
        let expected = if fails { 0..=1 } else { 237..=238 };
        assert!(expected.contains(&received), "link {position}, the way of the flow: {fails}: {received}");
    }
}

#[test]
fn data_still_arrives_while_acknowledgments_have_no_way_back() {
    let mut net = Net::default();
    net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(100)));
    let link = net.link("r0", "h1", direction("10Mbit", "1ms", drop_tail(100)));
    let config = tidegate_mechanism::tcp::TcpConfig::modern(tidegate_mechanism::tcp::Variant::Sack);
    net.flow("h0", &["h1"], TransportSpec::Tcp(Box::new(config)), ApplicationSpec::Bulk);
    let link = link.reversed();
    net.network.script = vec![ScriptedChange { at: seconds(1.0), link, change: Change::Up(false) }];
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(5.0), u64::MAX);
    simulation.assert_conservation();
    let log = simulation.into_observer().log;
    let no_route = |flow| {
        log.iter()
            .filter(move |entry| entry.1 == flow && matches!(entry.3, Fate::Dropped(_, DropReason::NoRoute)))
    };
    assert_eq!(no_route(FlowIds::data(0)).count(), 0);
    assert!(
        no_route(FlowIds::acknowledgments(0)).count() > 3,
        "each segment that comes again is acknowledged"
    );
}

#[test]
fn without_any_path_packets_have_no_route_until_the_link_is_back() {
    let mut net = Net::default();
    net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(100)));
    let link = net.link("r0", "h1", direction("10Mbit", "1ms", drop_tail(100)));
    let udp =
        net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(1)));
    let change = |at: f64, up: bool| ScriptedChange { at: seconds(at), link, change: Change::Up(up) };
    net.network.script = vec![change(1.0001, false), change(2.0001, true)];
    let mut simulation = net.network.build(1, Recorder::default()).unwrap();
    simulation.run_until(seconds(3.0), u64::MAX);
    simulation.assert_conservation();
    let received = simulation.sink_counters(udp)[0].received_packets;
    assert!((248..=250).contains(&received), "two seconds of 125 packets: {received}");
    let log = simulation.into_observer().log;
    let no_route =
        log.iter().filter(|entry| matches!(entry.3, Fate::Dropped(_, DropReason::NoRoute))).count();
    assert!((124..=125).contains(&no_route), "one second without a route: {no_route}");
}

#[test]
fn a_packet_crosses_as_many_routers_as_its_ttl_allows() {
    // The TTL at the source is 255; the 255th router finds it used up.
    for (routers, arrives) in [(254, true), (255, false)] {
        let mut net = Net::default();
        net.link("h0", "r0", direction("10Mbit", "100us", drop_tail(100)));
        for router in 1..routers {
            net.link(
                &format!("r{}", router - 1),
                &format!("r{router}"),
                direction("10Mbit", "100us", drop_tail(100)),
            );
        }
        net.link(&format!("r{}", routers - 1), "h1", direction("10Mbit", "100us", drop_tail(100)));
        let flow =
            net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(1)));
        let mut simulation = net.network.build(1, Recorder::default()).unwrap();
        simulation.run_until(seconds(1.0), u64::MAX);
        simulation.assert_conservation();
        assert_eq!(simulation.sink_counters(flow)[0].received_packets > 0, arrives, "{routers} routers");
        let log = simulation.into_observer().log;
        let expired = log.iter().any(|entry| matches!(entry.3, Fate::Dropped(_, DropReason::TtlExpired)));
        assert_eq!(expired, !arrives, "{routers} routers");
    }
}

#[test]
fn tcp_returns_over_its_own_path() {
    // Acknowledgments of a flow over a diamond with per-packet spreading come back by both ways as well.
    let mut net = diamond();
    net.network.multipath = Multipath::Packet;
    let config = tidegate_mechanism::tcp::TcpConfig::modern(tidegate_mechanism::tcp::Variant::Sack);
    let bytes = 1_000_000;
    let flow =
        net.flow("h0", &["h1"], TransportSpec::Tcp(Box::new(config)), ApplicationSpec::Transfer { bytes });
    let statistics = net.run(1, 0.0, 60.0);
    assert_eq!(statistics.sinks[flow][0].goodput_bytes, bytes);
    for link in [S_A, S_B] {
        assert!(statistics.links[link.0 as usize].delivered_packets > 100);
        assert!(statistics.links[link.reversed().0 as usize].delivered_packets > 100);
    }
}
