//! The planned port against the scheduled one.
//!
//! A FIFO whose manager decides only about arrivals may be served by a port that plans each transmission when its packet
//! joins. It must do exactly what the port does that acts at every departure: the same packets at the same instants, the
//! same drops and marks, the same counters at any time.
//!
//! Instants of changes and of looking lie off the grid on which packets come and go, for what happens to a packet at the
//! very instant at which its link goes down is a matter of the order of events.

use crate::common::{Fate, Log, Net, Recorder, direction};
use proptest::prelude::*;
use tidegate_engine::{
    ApplicationSpec, Change, DirectionSpec, FlowCounters, LinkCounters, LinkId, LossModel, ReorderModel,
    ScriptedChange, Simulation, StartSpec, TransportSpec,
};
use tidegate_mechanism::queue::{
    AvqConfig, BlueConfig, ChokeConfig, CodelConfig, DelayEstimator, DeviceConfig, DropTailConfig, Flavor,
    FredConfig, FredVariant, FreezeTimers, GapLaw, ManagerConfig, PiConfig, PieConfig, PieLawConfig,
    QueueUnit, RedConfig, RemConfig, StepConfig, Unmarkable, Victim,
};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::DropReason;
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

/// A train of packets.
#[derive(Clone, Debug)]
struct Train {
    start: Time,
    packet_bytes: u32,
    packets: u32,
    gap: Span,
}

#[derive(Clone, Debug)]
struct Case {
    rate: BitRate,
    delay: Span,
    queue: ManagerConfig,
    trains: Vec<Train>,
    changes: Vec<(Time, Change)>,
    /// When counters are compared.
    looks: Vec<Time>,
    /// When the statistics begin anew.
    restart: Time,
    loss: f64,
    reorder: f64,
}

/// On this line packets arrive and transmissions end, at rates that divide it.
const GRID: Span = Span::from_nanos(8_000);
/// When all is over.
const HORIZON_MILLIS: u64 = 60;

fn on_grid() -> impl Strategy<Value = Time> {
    (0..HORIZON_MILLIS * 1_000_000 / GRID.as_nanos()).prop_map(|steps| Time::ZERO + GRID * steps)
}

fn off_grid() -> impl Strategy<Value = Time> {
    (on_grid(), 1..GRID.as_nanos()).prop_map(|(time, nanos)| time + Span::from_nanos(nanos))
}

/// Rates at which a byte takes whole nanoseconds, in Mb/s.
fn even_rate() -> BoxedStrategy<BitRate> {
    prop::sample::select(vec![1, 2, 4, 8, 10, 16, 20, 40]).prop_map(BitRate::from_mbps).boxed()
}

/// Rates at which it does not.
fn odd_rate() -> BoxedStrategy<BitRate> {
    (1_000_001u64..40_000_000).prop_map(BitRate::from_bps).boxed()
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u32..12).prop_map(Limit::Packets),
        (40u64..12_000).prop_map(|bytes| Limit::Bytes(Bytes::new(bytes))),
        (10u64..5_000).prop_map(|micros| Limit::Time(Span::from_micros(micros))),
    ]
}

fn drop_tail() -> impl Strategy<Value = ManagerConfig> {
    limit().prop_map(|limit| ManagerConfig::DropTail(DropTailConfig { limit }))
}

/// A typical packet of the trains.
const MEAN_PACKET: Bytes = Bytes::new(600);

/// A threshold that need not be a whole number of packets.
fn threshold(packets: f64) -> Limit {
    Limit::Bytes(Bytes::new((packets * MEAN_PACKET.as_f64()).round() as u64))
}

/// Random early detection that has much to do: a quick average, low thresholds, a small limit.
fn red(victims: &'static [Victim]) -> impl Strategy<Value = ManagerConfig> {
    (limit(), 0.0..4.0, 0.5..6.0, 0.02..1.0, 0.05..1.0, any::<[bool; 4]>(), prop::sample::select(victims))
        .prop_map(|(limit, min_th, between, w, max_p, [ns, bytes, gentle, wait], victim)| {
            ManagerConfig::Red(RedConfig {
                min: threshold(min_th),
                max: threshold(min_th + between),
                weight: w,
                max_p,
                limit,
                mean_packet: MEAN_PACKET,
                mode: if bytes { QueueUnit::Bytes } else { QueueUnit::Packets },
                gap: if wait { GapLaw::Wait } else { GapLaw::Paper },
                flavor: if ns { Flavor::Ns } else { Flavor::Floyd1993 },
                gentle,
                victim,
                ..RedConfig::default()
            })
        })
}

/// BLUE that has much to do: large steps, and freeze times of a few packets.
fn blue() -> impl Strategy<Value = ManagerConfig> {
    (limit(), 0.0..0.5, 0.0..0.5, 20u64..5_000, 0.0..=1.0, any::<bool>(), prop::option::of(limit())).prop_map(
        |(limit, delta_up, delta_down, freeze_micros, freeze_spread, separate, threshold)| {
            ManagerConfig::Blue(BlueConfig {
                delta_up,
                delta_down,
                freeze_time: Span::from_micros(freeze_micros),
                freeze_spread,
                timers: if separate { FreezeTimers::Separate } else { FreezeTimers::Shared },
                threshold,
                limit,
                ecn: true,
                priority: false,
            })
        },
    )
}

fn fred() -> impl Strategy<Value = ManagerConfig> {
    (limit(), 0.5..4.0, 0.5..6.0, 0.02..1.0, 0.05..1.0, 0u32..4, any::<bool>()).prop_map(
        |(limit, min_th, between, w, max_p, min_q, many)| {
            ManagerConfig::Fred(FredConfig {
                min: Some(threshold(min_th)),
                max: Some(threshold(min_th + between)),
                weight: w,
                max_p,
                min_q,
                variant: if many { FredVariant::ManyFlows } else { FredVariant::Basic },
                limit,
                mean_packet: MEAN_PACKET,
                ecn: false,
            })
        },
    )
}

/// Controllers with timers of a few packets and gains that act within a run, and those without timers.
fn controller() -> impl Strategy<Value = ManagerConfig> {
    (limit(), 1u32..8, 20u64..5_000, 1e-3..0.5, 0.5..1.0, any::<[bool; 4]>()).prop_flat_map(
        |(limit, packets, micros, gain, part, [bytes, by_rate, on_demand, pass])| {
            let (aim, period) = (Limit::Packets(packets), Span::from_micros(micros));
            let mode = if bytes { QueueUnit::Bytes } else { QueueUnit::Packets };
            prop::sample::select(vec![
                ManagerConfig::Pie(PieConfig {
                    law: PieLawConfig {
                        target: Span::from_micros(500) * u64::from(packets),
                        t_update: period,
                        alpha: 1e3 * gain,
                        beta: 1e4 * gain,
                        max_burst: period,
                        by_size: bytes,
                        ..PieLawConfig::default()
                    },
                    limit,
                    estimator: if by_rate {
                        DelayEstimator::DepartureRate
                    } else {
                        DelayEstimator::Timestamps
                    },
                    dq_threshold: Bytes::new(2000),
                    on_demand,
                }),
                ManagerConfig::Pi(PiConfig {
                    limit,
                    q_ref: aim,
                    a: gain,
                    b: part * gain,
                    period,
                    mode,
                    ..PiConfig::default()
                }),
                ManagerConfig::Rem(RemConfig {
                    limit,
                    b_ref: aim,
                    gamma: 10.0 * gain,
                    phi: 1.1,
                    period,
                    weight: part,
                    mode,
                    ..RemConfig::default()
                }),
                ManagerConfig::Avq(AvqConfig {
                    limit,
                    virtual_limit: Some(aim),
                    gamma: part,
                    alpha: 1e2 * gain,
                    ..AvqConfig::default()
                }),
                ManagerConfig::Step(StepConfig {
                    limit,
                    threshold: aim,
                    others: if pass { Unmarkable::Pass } else { Unmarkable::Drop },
                    ..StepConfig::default()
                }),
            ])
        },
    )
}

/// RED with the comparison of CHOKe.
fn choke() -> impl Strategy<Value = ManagerConfig> {
    red(&[Victim::Arriving, Victim::Random]).prop_map(|config| match config {
        ManagerConfig::Red(red) => ManagerConfig::Choke(ChokeConfig { red }),
        other => other,
    })
}

fn case(
    rate: BoxedStrategy<BitRate>,
    queue: impl Strategy<Value = ManagerConfig>,
) -> impl Strategy<Value = Case> {
    let train =
        (on_grid(), 40u32..1500, 1u32..12, 0u64..300).prop_map(|(start, packet_bytes, packets, gap)| {
            // Packets of one flow are at least a step apart; those of several come together.
            Train { start, packet_bytes, packets, gap: GRID * (gap + 1) }
        });
    let change = prop_oneof![
        rate.clone().prop_map(Change::Rate),
        (0u64..4_000).prop_map(|micros| Change::Delay(Span::from_micros(micros))),
        any::<bool>().prop_map(Change::Up),
    ];
    let delay = prop_oneof![Just(Span::ZERO), (0u64..4_000).prop_map(Span::from_micros)];
    let impairment = || prop_oneof![Just(0.0), 0.0..0.5];
    (
        (rate, delay, queue),
        prop::collection::vec(train, 1..30),
        prop::collection::vec((off_grid(), change), 0..6),
        prop::collection::vec(off_grid(), 0..8),
        off_grid(),
        impairment(),
        impairment(),
    )
        .prop_map(|((rate, delay, queue), trains, mut changes, mut looks, restart, loss, reorder)| {
            changes.sort_by_key(|(at, _)| *at);
            looks.sort_unstable();
            Case { rate, delay, queue, trains, changes, looks, restart, loss, reorder }
        })
}

/// How long a reordering medium holds a packet: off every grid.
const HELD: Span = Span::from_nanos(1_234_567);

const LINK: LinkId = LinkId::of(0, false);

/// One link, on which all trains enter.
fn network_of(case: &Case) -> Net {
    let mut net = Net::default();
    let mut spec = direction("1Mbit", "0s", DisciplineConfig::Fifo(case.queue.clone()));
    spec.rate = case.rate;
    spec.delay = case.delay;
    spec.loss = Some(LossModel::Random { probability: case.loss });
    spec.reorder = Some(ReorderModel { probability: case.reorder, delay: HELD });
    net.link("h0", "h1", spec);
    for train in &case.trains {
        let rate = BitRate::of(u64::from(train.packet_bytes), train.gap);
        let application =
            ApplicationSpec::ConstantRate { rate, packet_bytes: train.packet_bytes, jitter: 0.0 };
        net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, application);
        let flow = net.network.flows.last_mut().unwrap();
        flow.start = StartSpec::At(train.start);
        // Half a gap after the last packet.
        let half = Span::from_nanos(train.gap.as_nanos() / 2);
        flow.stop = Some(train.start + train.gap * u64::from(train.packets - 1) + half);
    }
    net.network.script =
        case.changes.iter().map(|&(at, change)| ScriptedChange { at, link: LINK, change }).collect();
    net
}

/// All that can be seen of a link at one instant.
#[derive(PartialEq, Debug)]
struct Look {
    length: (u32, u64),
    average: Option<f64>,
    probability: Option<f64>,
    counters: LinkCounters,
}

fn look(simulation: &mut Simulation<Recorder>, link: LinkId) -> Look {
    Look {
        length: simulation.queue_length(link),
        average: simulation.queue_variable(link, "average_queue_packets"),
        probability: simulation.queue_variable(link, "marking_probability"),
        counters: simulation.link_counters(link),
    }
}

#[derive(Debug)]
struct Seen {
    looks: Vec<Look>,
    flows: Vec<FlowCounters>,
    log: Log,
}

fn watch(mut simulation: Simulation<Recorder>, case: &Case) -> Seen {
    let mut looks = Vec::new();
    let mut instants: Vec<(Time, bool)> = case.looks.iter().map(|&at| (at, false)).collect();
    instants.push((case.restart, true));
    instants.sort_by_key(|(at, _)| *at);
    // Long after the last packet: the slowest rate empties the fullest queue in less.
    instants.push((Time::ZERO + Span::from_secs(10), false));
    for (at, restarts) in instants {
        simulation.run_until(at, u64::MAX);
        if restarts {
            simulation.restart_statistics();
        }
        looks.push(look(&mut simulation, LINK));
    }
    simulation.assert_conservation();
    assert_eq!(simulation.queue_length(LINK), (0, 0), "all is over");
    let flows = simulation.statistics().flows;
    let mut log = simulation.into_observer().log;
    // What the queue does and what comes out at the far end have no order at one instant.
    log.sort_by_key(|(at, _, _, fate)| {
        let at_far_end = matches!(fate, Fate::Delivered(_) | Fate::Dropped(_, DropReason::Medium));
        (*at, at_far_end)
    });
    Seen { looks, flows, log }
}

fn same_on_both_ports(case: &Case) -> Result<(), TestCaseError> {
    let planned = watch(network_of(case).network.build(1, Recorder::default()).unwrap(), case);
    let scheduled = watch(network_of(case).network.build_scheduled(1, Recorder::default()).unwrap(), case);
    prop_assert_eq!(planned.log, scheduled.log);
    prop_assert_eq!(planned.looks, scheduled.looks);
    prop_assert_eq!(planned.flows, scheduled.flows);
    Ok(())
}

proptest! {
    #[test]
    fn a_planned_drop_tail_queue_does_what_a_scheduled_one_does(
        case in prop_oneof![case(even_rate(), drop_tail()).boxed(), case(odd_rate(), drop_tail()).boxed()]
    ) {
        same_on_both_ports(&case)?;
    }

    #[test]
    fn a_planned_red_queue_does_what_a_scheduled_one_does(case in case(odd_rate(), red(&[Victim::Arriving]))) {
        same_on_both_ports(&case)?;
    }

    #[test]
    fn a_planned_blue_queue_falls_at_the_instants_of_a_scheduled_one(case in case(odd_rate(), blue())) {
        same_on_both_ports(&case)?;
    }

    #[test]
    fn a_planned_fred_queue_does_what_a_scheduled_one_does(case in case(odd_rate(), fred())) {
        same_on_both_ports(&case)?;
    }

    #[test]
    fn a_planned_queue_with_a_controller_does_what_a_scheduled_one_does(case in case(odd_rate(), controller())) {
        same_on_both_ports(&case)?;
    }

    #[test]
    fn a_planned_queue_that_drops_two_at_once_does_what_a_scheduled_one_does(case in case(even_rate(), choke())) {
        same_on_both_ports(&case)?;
    }

    /// At rates at which a byte takes whole nanoseconds: elsewhere an eviction costs the plan its remainder.
    #[test]
    fn a_planned_queue_that_evicts_does_what_a_scheduled_one_does(case in case(even_rate(), red(&[Victim::Random]))) {
        same_on_both_ports(&case)?;
    }
}

proptest! {
    /// Where the queue has room for all, it does not matter behind which of two doors they wait.
    #[test]
    fn a_card_behind_a_queue_without_end_changes_nothing(
        case in case(odd_rate(), Just(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(100_000) }))),
        ring in 1u32..9,
        byte_limits in any::<bool>(),
    ) {
        let card = DeviceConfig { ring, byte_limits, hold: Span::from_micros(300) };
        let seen_with = |device| {
            let mut net = network_of(&case).network;
            net.links[0].forward.device = device;
            watch(net.build(1, Recorder::default()).unwrap(), &case)
        };
        let (without, with) = (seen_with(None), seen_with(Some(card)));
        prop_assert_eq!(without.log, with.log);
        prop_assert_eq!(without.looks, with.looks);
        prop_assert_eq!(without.flows, with.flows);
    }
}

/// CoDel keeps its target as long as little waits where it cannot see it.
#[test]
fn codel_is_of_no_use_in_front_of_a_deep_ring_and_byte_limits_make_it_so_again() {
    let waits = |device| {
        let mut net = Net::default();
        let codel = DisciplineConfig::Fifo(ManagerConfig::Codel(CodelConfig::default()));
        let core = net.link("h0", "h1", DirectionSpec { device, ..direction("10Mbit", "20ms", codel) });
        let tcp = TcpConfig { receive_window_bytes: 4 << 20, ..TcpConfig::modern(Variant::Sack) };
        net.flow("h0", &["h1"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
        let mut simulation = net.network.build(1, ()).unwrap();
        simulation.run_until(crate::common::seconds(10.0), u64::MAX);
        simulation.restart_statistics();
        simulation.run_until(crate::common::seconds(30.0), u64::MAX);
        simulation.assert_conservation();
        simulation.statistics().links[core.0 as usize].packet_nanos as f64 / 20e9
    };
    let ring = DeviceConfig { byte_limits: false, ..DeviceConfig::default() };
    let (without, deep, limited) = (waits(None), waits(Some(ring)), waits(Some(DeviceConfig::default())));
    println!(
        "packets: {without:.1} without a card, {deep:.1} in a ring of 256, {limited:.1} under byte limits"
    );
    assert!(deep > 5.0 * without && limited < without + 3.0, "{without} {deep} {limited}");
}

/// A loop that marks: what one port does a nanosecond later than the other would soon show everywhere.
#[test]
fn tcp_with_ecn_sees_no_difference_between_the_ports() {
    for (seed, variant) in [(1, Variant::NewReno), (2, Variant::Sack), (3, Variant::Reno)] {
        let network = || {
            let red = RedConfig {
                mark_forced: false,
                limit: Limit::Packets(20),
                weight: 0.02,
                ..RedConfig::default()
            };
            let mut net = Net::default();
            let fifo = DisciplineConfig::Fifo(ManagerConfig::Red(red));
            net.link("r0", "r1", direction("7Mbit", "5ms", fifo));
            for index in 0..6u32 {
                let (source, sink) = (format!("h{index}"), format!("h{index}'"));
                // Delays that no two flows share keep the instants of their packets apart.
                let delay = format!("{}ns", 1_000_003 * (u64::from(index) + 1));
                net.link(&source, "r0", direction("50Mbit", &delay, crate::common::drop_tail(1000)));
                net.link("r1", &sink, direction("50Mbit", &delay, crate::common::drop_tail(1000)));
                let config = TcpConfig { ecn: index % 2 == 0, ..TcpConfig::modern(variant) };
                net.flow(&source, &[&sink], TransportSpec::Tcp(Box::new(config)), ApplicationSpec::Bulk);
            }
            net.network
        };
        let run = |mut simulation: Simulation<Recorder>| {
            simulation.run_until(crate::common::seconds(20.0), u64::MAX);
            simulation.assert_conservation();
            let statistics = simulation.statistics();
            let connections = format!("{:?}", statistics.connections);
            (statistics.links, connections, simulation.into_observer().log)
        };
        let planned = run(network().build(seed, Recorder::default()).unwrap());
        let scheduled = run(network().build_scheduled(seed, Recorder::default()).unwrap());
        assert!(planned.0[0].marked_packets() > 50, "the queue marks: {:?}", planned.0[0]);
        let difference =
            planned.2.iter().zip(&scheduled.2).position(|(planned, scheduled)| planned != scheduled);
        assert_eq!(difference.map(|at| (planned.2[at], scheduled.2[at])), None);
        assert_eq!(planned.0, scheduled.0);
        assert_eq!(planned.1, scheduled.1);
    }
}

/// 50,000 packets of half a million bits on a link of one bit per second: 830 years, more than an instant can say.
#[test]
fn a_backlog_of_centuries_ends_after_every_run() {
    let net = || {
        let mut net = Net::default();
        net.link("h0", "h1", direction("1bit", "1ms", crate::common::drop_tail(1_000_000)));
        let application = ApplicationSpec::ConstantRate {
            rate: BitRate::of(65_000, Span::from_micros(1)),
            packet_bytes: 65_000,
            jitter: 0.0,
        };
        net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, application);
        net.network.flows[0].stop = Some(crate::common::seconds(0.05));
        net.network
    };
    let look = |mut simulation: Simulation<()>| {
        // The first packet has gone after 520,000 s.
        simulation.run_until(crate::common::seconds(600_000.0), u64::MAX);
        simulation.assert_conservation();
        let statistics = simulation.statistics();
        let link = &statistics.links[0];
        (link.busy_nanos, link.packet_nanos, statistics.sinks[0][0].received_packets)
    };
    let planned = look(net().build(1, ()).unwrap());
    assert_eq!(planned, look(net().build_scheduled(1, ()).unwrap()));
    assert_eq!((planned.0, planned.2), (600_000_000_000_000, 1));
}
