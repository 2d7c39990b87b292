//! Several cores against one: the same bytes, whatever the parts.
//!
//! Rates, delays and starts are commensurable here, so that events of one instant are frequent.

use crate::common::{Net, constant, direction, drop_tail, seconds};
use crate::determinism::results;
use proptest::prelude::*;
use tidegate_engine::{
    ApplicationSpec, Change, Division, EventOrder, LinkId, LossModel, MarkerSpec, Network, NodeId,
    ReorderModel, ScriptedChange, Simulation, StartSpec, Ties, TransportSpec, Undivided,
};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::mark::{MarkerConfig, SingleRateConfig};
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::queue::{CodelConfig, ManagerConfig, RedConfig, SfbConfig};
use tidegate_mechanism::schedule::{DisciplineConfig, DrrConfig, FqConfig, WfqConfig};
use tidegate_mechanism::scream::ScreamConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_mechanism::tfrc::TfrcConfig;
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

const TRANSPORTS: u8 = 7;
const QUEUES: u8 = 7;

/// A tree of routers with a host at each, some links more, and flows.
#[derive(Clone, Debug)]
struct Case {
    /// By router but the first: the one before that it is linked to, what its link is like.
    routers: Vec<(usize, LinkCase)>,
    more: Vec<([usize; 2], LinkCase)>,
    /// From and to the hosts of which routers, how.
    flows: Vec<([usize; 2], u8, bool)>,
    /// The edges of a domain are the first and the last router.
    mechanism: Option<u8>,
    marked: bool,
    paused: bool,
    /// When the first link changes its rate, and goes down and up again.
    changes: [Option<u64>; 2],
    /// By router with its host.
    parts: Vec<u8>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct LinkCase {
    mbps: u64,
    delay_us: u64,
    queue: u8,
    access_us: u64,
}

fn queue(kind: u8) -> DisciplineConfig {
    let fifo = DisciplineConfig::Fifo;
    match kind {
        0 => drop_tail(20),
        1 => fifo(ManagerConfig::Red(RedConfig { limit: Limit::Packets(30), ..RedConfig::ns() })),
        2 => fifo(ManagerConfig::Codel(CodelConfig::default())),
        3 => fifo(ManagerConfig::Sfb(SfbConfig::default())),
        4 => DisciplineConfig::Drr(DrrConfig::default()),
        // It holds packets back: a link that is cut wakes up for them.
        5 => DisciplineConfig::Fq(FqConfig {
            max_rate: Some(BitRate::from_bps(800_000)),
            flow_limit: 100,
            ..FqConfig::default()
        }),
        _ => DisciplineConfig::Wfq(WfqConfig::default()),
    }
}

impl Case {
    fn network(&self) -> Network {
        let mut net = Net::default();
        let name = |router: usize| format!("r{router}");
        let host = |router: usize| format!("h{router}");
        let spec = |case: &LinkCase| {
            let mut spec = direction("1Mbit", "1ms", queue(case.queue));
            spec.rate = BitRate::from_mbps(case.mbps);
            spec.delay = Span::from_micros(case.delay_us);
            spec
        };
        let first = LinkCase { mbps: 10, delay_us: 1000, queue: 0, access_us: 1000 };
        for (router, (_, case)) in std::iter::once(&(0, first)).chain(&self.routers).enumerate() {
            let mut access = direction("20Mbit", "1ms", drop_tail(50));
            access.delay = Span::from_micros(case.access_us);
            net.link(&host(router), &name(router), access);
        }
        let tree = self.routers.iter().enumerate().map(|(index, (to, case))| ([index + 1, *to], case));
        for (ends, case) in tree.chain(self.more.iter().map(|(ends, case)| (*ends, case))) {
            let [one, other] = ends.map(|router| router % (self.routers.len() + 1));
            if one != other {
                net.link(&name(one), &name(other), spec(case));
            }
        }
        let count = self.routers.len() + 1;
        for &([from, step], kind, late) in &self.flows {
            let [from, to] = [from % count, (from % count + 1 + step % (count - 1)) % count];
            let [from, to] = [host(from), host(to)];
            let udp = TransportSpec::Udp { header_bytes: 28 };
            let tcp = |config: TcpConfig| TransportSpec::Tcp(Box::new(config));
            let modern = TcpConfig { ecn: true, ..TcpConfig::modern(Variant::Sack) };
            let bulk = ApplicationSpec::Bulk;
            let flow = match kind {
                0 => net.flow(&from, &[&to], udp, constant(BitRate::from_mbps(2))),
                1 => {
                    let poisson = ApplicationSpec::Poisson { rate: BitRate::from_mbps(1), packet_bytes: 500 };
                    net.flow(&from, &[&to], udp, poisson)
                }
                2 => net.flow(&from, &[&to], tcp(TcpConfig::ns_1999(Variant::Reno)), bulk),
                3 => net.flow(&from, &[&to], tcp(modern), bulk),
                4 | 5 => {
                    let media = if kind == 4 {
                        MediaConfig::Tfrc(TfrcConfig::default())
                    } else {
                        MediaConfig::Scream(ScreamConfig::default())
                    };
                    net.flow(&from, &[&to], TransportSpec::Media(Box::new(media)), bulk)
                }
                _ => {
                    let there = net.flow(&from, &[&to], tcp(modern.clone()), bulk.clone());
                    let back = net.flow(&to, &[&from], tcp(modern), bulk);
                    net.network.flows[back].headers = net.network.flows[there].headers.reversed();
                    net.network.pairs.push([there as u32, back as u32]);
                    there
                }
            };
            net.network.flows[flow].start = StartSpec::At(seconds(if late { 0.3 } else { 0.0 }));
        }
        if let Some(mechanism) = self.mechanism {
            let edges: Vec<String> = (0..count).map(name).collect();
            let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
            net.domain(&edges, &[]).mechanism = Some(match mechanism {
                0 => EdgeConfig::Nbp(Box::default()),
                1 => EdgeConfig::Iec(Box::default()),
                _ => EdgeConfig::Eec(Box::default()),
            });
        }
        let mut network = net.network;
        if self.marked {
            let flows = (0..network.flows.len() as u32).collect();
            let config = MarkerConfig::SingleRate(SingleRateConfig {
                committed_rate: BitRate::from_mbps(1),
                committed_burst: Bytes::new(10_000),
                excess_burst: Bytes::new(20_000),
                class: 1,
                aware: false,
                drop_red: true,
            });
            network.markers.push(MarkerSpec { name: "m".into(), at: Some(NodeId(1)), flows, config });
        }
        let changed = LinkId::of(count as u32, false);
        let millis = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let [rate, down] = self.changes;
        let rates = rate.map(|at| (millis(at), Change::Rate(BitRate::from_mbps(1))));
        let downs = down
            .into_iter()
            .flat_map(|at| [(millis(at), Change::Up(false)), (millis(at + 200), Change::Up(true))]);
        network.script = rates
            .into_iter()
            .chain(downs)
            .map(|(at, change)| ScriptedChange { at, link: changed, change })
            .collect();
        network.script.sort_by_key(|change| change.at);
        network.ties = self.paused.then_some(Ties { seed: 1, spread: Span::from_micros(5) });
        network.event_order = EventOrder::Numbered;
        network
    }

    /// The part of each node: a host and its router are not apart, nor are ends of links that cannot be cut.
    fn of_node(&self, network: &Network) -> Vec<u8> {
        let count = self.routers.len() + 1;
        let mut part: Vec<u8> = (0..count).map(|router| self.parts[router % self.parts.len()]).collect();
        if self.changes[1].is_some() {
            // The link that goes down is not cut.
            part[1] = part[self.routers[0].0];
        }
        // Numbers without gaps.
        let mut known: Vec<u8> = part.clone();
        known.sort_unstable();
        known.dedup();
        let router_of = |name: &str| name[1..].parse::<usize>().unwrap();
        network
            .nodes
            .iter()
            .map(|node| known.iter().position(|one| *one == part[router_of(&node.name)]).unwrap() as u8)
            .collect()
    }
}

fn link_case() -> impl Strategy<Value = LinkCase> {
    (
        prop::sample::select(vec![1u64, 2, 4, 10]),
        prop::sample::select(vec![500u64, 1000, 2000, 10_000]),
        0..QUEUES,
        prop::sample::select(vec![0u64, 1000]),
    )
        .prop_map(|(mbps, delay_us, queue, access_us)| LinkCase { mbps, delay_us, queue, access_us })
}

fn case() -> impl Strategy<Value = Case> {
    let routers =
        prop::collection::vec((any::<prop::sample::Index>(), link_case()), 2..6).prop_map(|routers| {
            let to = |(index, (chosen, case)): (usize, (prop::sample::Index, LinkCase))| {
                (chosen.index(index + 1), case)
            };
            routers.into_iter().enumerate().map(to).collect::<Vec<_>>()
        });
    (
        routers,
        prop::collection::vec(([0usize..6, 0usize..6], link_case()), 0..3),
        prop::collection::vec(([0usize..6, 0usize..6], 0..TRANSPORTS, any::<bool>()), 1..7),
        prop::option::of(0u8..3),
        [any::<bool>(), any::<bool>()],
        [prop::option::of(100u64..800), prop::option::of(100u64..800)],
        prop::collection::vec(0u8..4, 6),
        0u64..1000,
    )
        .prop_map(|(routers, more, flows, mechanism, [marked, paused], changes, parts, seed)| Case {
            routers,
            more,
            flows,
            mechanism,
            marked,
            paused,
            changes,
            parts,
            seed,
        })
}

/// All that can be looked at.
fn look(simulation: &mut Simulation, network: &Network) -> Vec<String> {
    let mut seen = Vec::new();
    for link in (0..2 * network.links.len() as u32).map(LinkId) {
        let average = simulation.queue_variable(link, "average_queue_packets");
        let length = simulation.queue_length(link);
        let (rate, counters) = (simulation.link_rate(link), simulation.link_counters(link));
        let delays = simulation.link_delays(link).map(|delays| (delays.len(), delays.max()));
        let bytes: Vec<_> =
            (0..network.flows.len()).map(|flow| simulation.link_flow_bytes(link, flow)).collect();
        seen.push(format!("{link:?} {average:?} {length:?} {rate:?} {counters:?} {delays:?} {bytes:?}"));
    }
    for flow in 0..network.flows.len() {
        let sender =
            simulation.tcp_sender(flow).map(|sender| (sender.cwnd_bytes(), sender.srtt(), sender.rto()));
        let sinks = simulation.sink_counters(flow).to_vec();
        let counters = simulation.flow_counters(flow);
        let media = simulation.media_variable(flow, "rate_bps");
        let delays = simulation.flow_delays(flow).map(|delays| (delays.len(), delays.max()));
        let report = simulation.border_report(0, flow);
        seen.push(format!("{flow} {sender:?} {sinks:?} {counters:?} {media:?} {delays:?} {report:?}"));
    }
    for marker in 0..network.markers.len() {
        seen.push(format!("{:?}", simulation.marker_counters(marker)));
    }
    seen
}

/// What is seen of a run on the way and at its end.
fn run(mut simulation: Simulation, network: &Network, events_max: u64) -> Vec<String> {
    let mut seen = Vec::new();
    for flow in 0..network.flows.len() {
        simulation.watch_flow_delays(flow);
    }
    for link in 0..2 * network.links.len() as u32 {
        simulation.watch_link_delays(LinkId(link));
        simulation.watch_link_flows(LinkId(link));
    }
    for tenth in 1..=10 {
        while !simulation.run_until(seconds(0.1 * f64::from(tenth)), events_max) {}
        simulation.assert_conservation();
        seen.extend(look(&mut simulation, network));
        if tenth == 3 {
            simulation.restart_statistics();
        }
    }
    seen.push(results(&simulation.statistics()));
    seen
}

/// How many networks: `TIDEGATE_CASES`, or some.
fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|given| given.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_parts_together_are_the_whole(case in case(), events_max in prop::sample::select(vec![200u64, u64::MAX])) {
        let network = case.network();
        let division = Division::new(&network, &case.of_node(&network)).unwrap();
        let whole = run(network.clone().build(case.seed, ()).unwrap(), &network, u64::MAX);
        let divided = network.clone().build_divided(case.seed, (), division).unwrap();
        for (at, (one, several)) in whole.iter().zip(run(divided, &network, events_max)).enumerate() {
            prop_assert_eq!(one, &several, "look {}", at);
        }
    }
}

/// Two sites, and a path between them.
fn sites() -> Network {
    let mut net = Net::default();
    for site in ["0", "1"] {
        for host in 0..4 {
            net.link(
                &format!("h{site}{host}"),
                &format!("r{site}"),
                direction("10Gbit", "10us", drop_tail(1000)),
            );
        }
    }
    net.link("r0", "r1", direction("1Gbit", "10ms", drop_tail(1000)));
    for host in 0..4 {
        let tcp = TransportSpec::Tcp(Box::new(TcpConfig::modern(Variant::Sack)));
        net.flow(&format!("h0{host}"), &[&format!("h1{host}")], tcp, ApplicationSpec::Bulk);
    }
    net.network.event_order = EventOrder::Numbered;
    net.network
}

#[test]
fn two_sites_are_cut_at_the_path_between_them_whatever_the_seed() {
    for seed in 1..4 {
        let division = sites().divide(seed, seconds(600.0), 2).unwrap();
        assert_eq!((division.parts(), division.lookahead()), (2, Span::from_millis(10)));
    }
}

#[test]
fn what_one_core_has_to_do_is_told_with_its_reason() {
    let why = |change: fn(&mut Network)| {
        let mut network = sites();
        change(&mut network);
        network.divide(1, seconds(600.0), 2).unwrap_err()
    };
    assert_eq!(why(|network| network.event_order = EventOrder::Scheduled), Undivided::Order);
    let jitter = why(|network| {
        network.links[0].forward.reorder =
            Some(ReorderModel { probability: 0.1, delay: Span::from_millis(1) });
    });
    assert_eq!(jitter, Undivided::Has("a medium that reorders, or with jitter,"));
    let lossy = why(|network| {
        for link in &mut network.links {
            link.forward.loss = Some(LossModel::Random { probability: 0.1 });
        }
    });
    assert_eq!(lossy, Undivided::NoLongLink);
    let short = why(|network| {
        for link in &mut network.links {
            (link.forward.delay, link.reverse.delay) = (Span::from_nanos(100), Span::from_nanos(100));
        }
    });
    assert!(matches!(short, Undivided::DoesNotPay { gain, .. } if gain < 1.0), "{short:?}");
    assert!(short.to_string().contains("times as fast"), "{short}");
    let idle = why(|network| network.flows.clear());
    assert!(matches!(idle, Undivided::Short { events } if events < 4e6), "{idle}");
}
