//! Whatever the network: no packet appears or vanishes, time never goes back, counters add up, nothing panics.
//!
//! Random networks of 2 to 8 routers with everything that there is on them: all disciplines, media that lose, reorder, duplicate and jitter,
//! TCP and UDP, multicast, links that change, fail and come back, with Network Border Patrol or without.

use crate::common::{Net, direction, drop_tail};
use proptest::prelude::*;
use tidegate_engine::{
    ApplicationSpec, BuildError, Change, FlowIds, JitterModel, LabelsSpec, LinkId, LossModel, Multipath,
    Network, OnOffDistribution, ReorderModel, ScriptedChange, Simulation, StartSpec, Ties, TransportSpec,
};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::queue::{
    CobaltConfig, CodelConfig, CsfqConfig, DeviceConfig, DropTailConfig, ManagerConfig, PieConfig, RedConfig,
    Victim,
};
use tidegate_mechanism::schedule::{
    AckFilter, CakeConfig, DisciplineConfig, DrrConfig, DualPi2Config, FlowQueueingConfig, FqCodelConfig,
    FqConfig, FqPieConfig, WfqClock, WfqConfig,
};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::Dscp;
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

#[derive(Clone, Debug)]
struct RandomLink {
    rate: BitRate,
    delay: Span,
    queue: DisciplineConfig,
    device: Option<DeviceConfig>,
    loss: Option<LossModel>,
    reorder: Option<ReorderModel>,
    duplicate: f64,
    jitter: Option<JitterModel>,
}

#[derive(Clone, Debug)]
struct RandomFlow {
    ends: (usize, usize),
    further_receivers: Vec<usize>,
    tcp: Option<TcpConfig>,
    application: ApplicationSpec,
    start: Time,
    stop: Option<Time>,
    dscp: Dscp,
}

#[derive(Clone, Debug)]
struct Case {
    routers: usize,
    tree: Vec<usize>,
    further: Vec<(usize, usize)>,
    links: Vec<RandomLink>,
    /// The router of each host.
    hosts: Vec<usize>,
    flows: Vec<RandomFlow>,
    multipath: Multipath,
    nbp: bool,
    labels: bool,
    changes: Vec<(Time, usize, bool, Change)>,
    moments: Vec<Time>,
    restart: Option<Time>,
    seed: u64,
}

/// Until when there is traffic.
const TRAFFIC_MICROS: u64 = 1_500_000;
/// Until when what is left is watched.
const END: Time = Time::from_nanos(6_000_000_000);
const HOSTS: usize = 5;

fn moment() -> impl Strategy<Value = Time> {
    (0..TRAFFIC_MICROS).prop_map(|micros| Time::ZERO + Span::from_micros(micros))
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u32..30).prop_map(Limit::Packets),
        (1_500u64..30_000).prop_map(|bytes| Limit::Bytes(Bytes::new(bytes))),
        (1u64..50).prop_map(|millis| Limit::Time(Span::from_millis(millis))),
    ]
}

fn manager() -> impl Strategy<Value = ManagerConfig> {
    let red = (limit(), any::<[bool; 2]>()).prop_map(|(limit, [random, ns])| {
        let victim = if random { Victim::Random } else { Victim::Arriving };
        let base = if ns { RedConfig::ns() } else { RedConfig::default() };
        ManagerConfig::Red(RedConfig { limit, victim, weight: 0.05, ..base })
    });
    prop_oneof![
        limit().prop_map(|limit| ManagerConfig::DropTail(DropTailConfig { limit })),
        red,
        Just(ManagerConfig::Csfq(CsfqConfig::default())),
        Just(ManagerConfig::Codel(CodelConfig::default())),
        Just(ManagerConfig::Cobalt(CobaltConfig::default())),
        Just(ManagerConfig::Pie(PieConfig::default())),
    ]
}

fn discipline() -> impl Strategy<Value = DisciplineConfig> {
    // Few queues, so that flows meet, and room for few packets.
    let flow_queueing = (1u32..40, 1u32..6, any::<bool>()).prop_map(|(packets, queues, is_pie)| {
        let limit = Limit::Packets(packets);
        let flows = FlowQueueingConfig { limit, queues, ..FlowQueueingConfig::default() };
        if is_pie {
            DisciplineConfig::FqPie(FqPieConfig { flows, ..FqPieConfig::default() })
        } else {
            DisciplineConfig::FqCodel(FqCodelConfig { flows, ..FqCodelConfig::default() })
        }
    });
    // A shaper above and below the rates of links, room for few packets, and queues that flows share.
    let cake =
        (0usize..3, 2_000u64..60_000, any::<[bool; 2]>()).prop_map(|(filter, memory, [ingress, shaped])| {
            let bandwidth = shaped.then_some(BitRate::from_bps(3_000_000));
            let memory_limit = Some(Bytes::new(memory));
            let (ack_filter, base) = (AckFilter::ALL[filter], CakeConfig::default());
            DisciplineConfig::Cake(CakeConfig {
                bandwidth,
                memory_limit,
                ack_filter,
                ingress,
                queues: 8,
                ..base
            })
        });
    let queues = || (manager(), limit(), (0u32..4, 0.5..4.0));
    prop_oneof![
        manager().prop_map(DisciplineConfig::Fifo),
        flow_queueing,
        cake,
        Just(DisciplineConfig::DualPi2(DualPi2Config::default())),
        Just(DisciplineConfig::Fq(FqConfig { limit: Limit::Packets(40), queues: 8, ..FqConfig::default() })),
        (queues(), 300u64..3_000).prop_map(|((manager, limit, heavy), quantum)| DisciplineConfig::Drr(
            DrrConfig {
                quantum: Bytes::new(quantum),
                limit,
                queue: Some(manager),
                weight_of: vec![heavy],
                ..DrrConfig::default()
            }
        )),
        (queues(), any::<bool>()).prop_map(|((manager, limit, heavy), exact)| DisciplineConfig::Wfq(
            WfqConfig {
                clock: if exact { WfqClock::Gps } else { WfqClock::SelfClocked },
                limit: Some(limit),
                queue: Some(manager),
                weight_of: vec![heavy],
                ..WfqConfig::default()
            }
        )),
    ]
}

fn link() -> impl Strategy<Value = RandomLink> {
    let loss = prop_oneof![
        3 => Just(None),
        1 => (0.0..0.3).prop_map(|probability| Some(LossModel::Random { probability })),
        1 => Just(Some(LossModel::Burst { enter: 0.05, leave: 0.3, good: 0.0, bad: 0.7 })),
        1 => Just(Some(LossModel::List(vec![0, 1, 5, 30]))),
    ];
    let reorder = prop_oneof![
        2 => Just(None),
        1 => (0.0..1.0, 0u64..30_000).prop_map(|(probability, micros)| Some(ReorderModel {
            probability,
            delay: Span::from_micros(micros),
        })),
    ];
    let duplicate = prop_oneof![3 => Just(0.0), 1 => 0.0..0.3];
    let jitter = prop_oneof![
        2 => Just(None),
        1 => (0u64..20_000).prop_map(|micros| Some(JitterModel::Uniform { most: Span::from_micros(micros) })),
        1 => (1u64..10_000).prop_map(|micros| Some(JitterModel::Slots {
            every: Span::from_micros(micros),
            phase: Span::from_micros(micros / 3),
        })),
    ];
    let card = (1u32..20, any::<bool>()).prop_map(|(ring, byte_limits)| DeviceConfig {
        ring,
        byte_limits,
        hold: Span::from_millis(10),
    });
    let queue = (discipline(), prop::option::of(card));
    (500_000u64..20_000_000, 0u64..20_000, queue, loss, reorder, (duplicate, jitter)).prop_map(
        |(bps, micros, (queue, device), loss, reorder, (duplicate, jitter))| RandomLink {
            rate: BitRate::from_bps(bps),
            delay: Span::from_micros(micros),
            queue,
            device,
            loss,
            reorder,
            duplicate,
            jitter,
        },
    )
}

fn tcp() -> impl Strategy<Value = (Option<TcpConfig>, ApplicationSpec)> {
    let variant = prop::sample::select(vec![Variant::Tahoe, Variant::Reno, Variant::NewReno, Variant::Sack]);
    let application = prop_oneof![
        Just(ApplicationSpec::Bulk),
        (1u64..100_000).prop_map(|bytes| ApplicationSpec::Transfer { bytes }),
        on_off(0),
    ];
    (variant, any::<[bool; 4]>(), application).prop_map(
        |(variant, [modern, ecn, delayed, handshake], application)| {
            let base = if modern { TcpConfig::modern(variant) } else { TcpConfig::ns_1999(variant) };
            let base = if delayed { base.with_ns_delayed_ack() } else { base };
            (Some(TcpConfig { ecn, handshake, ..base }), application)
        },
    )
}

fn on_off(packet_bytes: u32) -> impl Strategy<Value = ApplicationSpec> {
    let distribution = prop_oneof![
        Just(OnOffDistribution::Constant),
        Just(OnOffDistribution::Exponential),
        Just(OnOffDistribution::Pareto { shape: 1.5 }),
    ];
    (distribution, 1u64..200, 1u64..200).prop_map(move |(distribution, on, off)| ApplicationSpec::OnOff {
        distribution,
        on: Span::from_millis(on),
        off: Span::from_millis(off),
        rate: BitRate::from_mbps(2),
        packet_bytes,
    })
}

fn udp() -> impl Strategy<Value = (Option<TcpConfig>, ApplicationSpec)> {
    let rate = || (50_000u64..8_000_000).prop_map(BitRate::from_bps);
    prop_oneof![
        (rate(), 40u32..1500, 0.0..1.0).prop_map(|(rate, packet_bytes, jitter)| {
            ApplicationSpec::ConstantRate { rate, packet_bytes, jitter }
        }),
        (rate(), 40u32..1500)
            .prop_map(|(rate, packet_bytes)| ApplicationSpec::Poisson { rate, packet_bytes }),
        (rate(), 40u32..500)
            .prop_map(|(rate, mean_packet_bytes)| ApplicationSpec::Markov { rate, mean_packet_bytes }),
        on_off(500),
    ]
    .prop_map(|application| (None, application))
}

fn flow() -> impl Strategy<Value = RandomFlow> {
    let ends = (0..HOSTS, 1..HOSTS).prop_map(|(from, step)| (from, (from + step) % HOSTS));
    let dscp = prop_oneof![4 => Just(Dscp::BEST_EFFORT), 1 => Just(Dscp::EF)];
    let further = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0..HOSTS, 1..3)];
    (ends, prop_oneof![tcp().boxed(), udp().boxed()], further, moment(), prop::option::of(moment()), dscp)
        .prop_map(|(ends, (tcp, application), further_receivers, start, stop, dscp)| {
            // Datagrams stop, so that the end can be watched; connections may go on.
            let stop =
                if tcp.is_some() { stop } else { Some(stop.unwrap_or(Time::ZERO + Span::from_secs(2))) };
            RandomFlow { ends, further_receivers, tcp, application, start, stop, dscp }
        })
}

fn case() -> impl Strategy<Value = Case> {
    (2usize..=8).prop_flat_map(|routers| {
        let further = prop::collection::vec((0..routers, 1..routers), 0..5);
        let change = prop_oneof![
            (500_000u64..20_000_000).prop_map(|bps| Change::Rate(BitRate::from_bps(bps))),
            (0u64..30_000).prop_map(|micros| Change::Delay(Span::from_micros(micros))),
            any::<bool>().prop_map(Change::Up),
        ];
        (
            (prop::collection::vec(0usize..8, 7), further, prop::collection::vec(link(), 24)),
            (prop::collection::vec(0..routers, HOSTS), prop::collection::vec(flow(), 1..8)),
            prop::sample::select(vec![Multipath::None, Multipath::Flow, Multipath::Packet]),
            any::<[bool; 2]>(),
            prop::collection::vec((moment(), 0usize..24, any::<bool>(), change), 0..8),
            prop::collection::vec(moment(), 0..4),
            prop::option::of(moment()),
            1u64..1_000,
        )
            .prop_map(
                move |(
                    (tree, further, links),
                    (hosts, flows),
                    multipath,
                    [nbp, labels],
                    changes,
                    moments,
                    restart,
                    seed,
                )| {
                    let further = further.into_iter().map(|(a, step)| (a, (a + step) % routers)).collect();
                    let mut case = Case {
                        routers,
                        tree,
                        further,
                        links,
                        hosts,
                        flows,
                        multipath,
                        nbp,
                        labels,
                        changes,
                        moments,
                        restart,
                        seed,
                    };
                    case.changes.sort_by_key(|entry| entry.0);
                    case.moments.sort_unstable();
                    case
                },
            )
    })
}

fn network_of(case: &Case) -> Network {
    let mut net = Net::default();
    let router = |index: usize| format!("r{index}");
    let tree = (1..case.routers).zip(&case.tree).map(|(child, parent)| (parent % child, child));
    let pairs: Vec<(usize, usize)> = tree.chain(case.further.iter().copied()).collect();
    for ((a, b), random) in pairs.iter().zip(&case.links) {
        let mut spec = direction("1Mbit", "0s", random.queue.clone());
        (spec.rate, spec.delay, spec.device) = (random.rate, random.delay, random.device);
        (spec.loss, spec.reorder, spec.duplicate) = (random.loss.clone(), random.reorder, random.duplicate);
        spec.jitter = random.jitter;
        net.link(&router(*a), &router(*b), spec);
    }
    for (host, at) in case.hosts.iter().enumerate() {
        net.link(&format!("h{host}"), &router(*at), direction("50Mbit", "100us", drop_tail(1000)));
    }
    for (index, link) in net.network.links.iter_mut().enumerate() {
        link.name = format!("link{index}");
    }
    for flow in &case.flows {
        let mut to = vec![flow.ends.1];
        let transport = if let Some(config) = &flow.tcp {
            TransportSpec::Tcp(Box::new(config.clone()))
        } else {
            to.extend(flow.further_receivers.iter().filter(|&&host| host != flow.ends.0));
            to.sort_unstable();
            to.dedup();
            TransportSpec::Udp { header_bytes: 28 }
        };
        let to: Vec<String> = to.iter().map(|host| format!("h{host}")).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let index = net.flow(&format!("h{}", flow.ends.0), &to, transport, flow.application.clone());
        let spec = &mut net.network.flows[index];
        spec.start = StartSpec::At(flow.start);
        spec.stop = flow.stop;
        (spec.dscp, spec.headers.dscp) = (flow.dscp, flow.dscp);
    }
    if case.nbp || case.labels {
        let (edges, core): (Vec<usize>, Vec<usize>) =
            (0..case.routers).partition(|index| case.hosts.contains(index));
        let names = |routers: Vec<usize>| routers.into_iter().map(router).collect::<Vec<_>>();
        let (edges, core) = (names(edges), names(core));
        let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
        let core: Vec<&str> = core.iter().map(String::as_str).collect();
        let domain = net.domain(&edges, &core);
        domain.mechanism = case.nbp.then(|| EdgeConfig::Nbp(Box::default()));
        domain.labels = case.labels.then(LabelsSpec::default);
    }
    net.network.multipath = case.multipath;
    net.network.ties =
        case.seed.is_multiple_of(2).then_some(Ties { seed: case.seed, spread: Span::from_micros(50) });
    let links = net.network.links.len() as u32;
    net.network.script = case
        .changes
        .iter()
        .map(|&(at, link, reverse, change)| ScriptedChange {
            at,
            link: LinkId::of(link as u32 % links, reverse),
            change,
        })
        .collect();
    net.network
}

/// What must hold at any moment. `whole`: the statistics are of the whole run.
fn check(simulation: &mut Simulation, whole: bool) -> Result<(), TestCaseError> {
    simulation.assert_conservation();
    let statistics = simulation.statistics();
    let elapsed = (statistics.until - statistics.since).as_nanos();
    let mut on_links = 0;
    for (index, link) in statistics.links.iter().enumerate() {
        let what = format!("link {index}: {link:?}");
        let (waiting, bytes) = simulation.queue_length(LinkId(index as u32));
        prop_assert!(link.busy_nanos <= elapsed, "{}", what);
        prop_assert!(
            link.packet_nanos <= u128::from(elapsed) * u128::from(link.queue_packets_max),
            "{}",
            what
        );
        prop_assert!(link.byte_nanos <= u128::from(elapsed) * u128::from(link.queue_bytes_max), "{}", what);
        prop_assert!(waiting <= link.queue_packets_max && bytes <= link.queue_bytes_max, "{}", what);
        prop_assert_eq!(waiting == 0, bytes == 0, "{}", what);
        if whole {
            let gone = link.delivered_packets + link.dropped_packets();
            prop_assert!(gone + u64::from(waiting) <= link.arrived_packets, "{}", what);
            on_links += link.arrived_packets - gone;
        }
    }
    let totals = &statistics.totals;
    let live = totals.created - totals.delivered - totals.dropped;
    prop_assert!(on_links <= live, "{} on links, {} live", on_links, live);
    if whole {
        let sent: u64 = statistics.flows.iter().map(|flow| flow.sent_packets).sum();
        let lost: u64 = statistics.flows.iter().map(|flow| flow.lost_packets).sum();
        prop_assert!(sent <= totals.created && lost == totals.dropped);
        let hops: u64 = statistics.links.iter().map(|link| link.delivered_packets).sum();
        prop_assert_eq!(hops, totals.packet_hops);
        let copies: u64 = statistics.links.iter().map(|link| link.duplicated_packets).sum();
        prop_assert_eq!(copies, totals.duplicated);
        let copied: u64 = statistics.flows.iter().map(|flow| flow.duplicated_packets).sum();
        prop_assert_eq!(copied, totals.duplicated);
        for (index, sinks) in statistics.sinks.iter().enumerate() {
            let data = &statistics.flows[FlowIds::data(index as u32).0 as usize];
            for sink in sinks {
                // TCP delivers once; the receiver of a datagram does not know a copy.
                let is_once = data.duplicated_packets == 0 || statistics.connections[index].is_some();
                prop_assert!(sink.received_packets <= data.sent_packets + data.duplicated_packets);
                let most = if is_once { data.sent_bytes } else { sink.received_bytes };
                prop_assert!(sink.goodput_bytes <= most);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn packets_are_conserved_in_any_network(case in case()) {
        let network = network_of(&case);
        let without_domain = Network { domains: Vec::new(), ..network.clone() };
        let mut simulation = match network.build(case.seed, ()) {
            // All hosts may be at one router.
            Err(BuildError::DomainUncrossed { .. }) => without_domain.build(case.seed, ()).unwrap(),
            built => built.unwrap(),
        };
        let mut instants: Vec<(Time, bool)> = case.moments.iter().map(|&at| (at, false)).collect();
        instants.extend(case.restart.map(|at| (at, true)));
        instants.sort_by_key(|instant| instant.0);
        instants.push((END, false));
        let (mut whole, mut last) = (true, Time::ZERO);
        for (at, restarts) in instants {
            prop_assert!(simulation.run_until(at, u64::MAX));
            prop_assert_eq!(simulation.now(), at);
            prop_assert!(at >= last);
            last = at;
            check(&mut simulation, whole)?;
            if restarts {
                simulation.restart_statistics();
                whole = false;
                check(&mut simulation, whole)?;
            }
        }
    }
}
