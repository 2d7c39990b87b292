//! What real paths do to what runs over them: travel times that vary, clocks that are stepped, edges that begin anew.

use crate::common::{Net, constant, direction, drop_tail, seconds, throughput_bps};
use crate::iec::{config, overlay};
use tidegate_engine::{
    ApplicationSpec, BorderChange, Carried, Change, ClockStep, EventOrder, FlowIds, JitterModel, LieSpec,
    LinkId, LossModel, Network, NodeId, Observer, ReorderModel, ScriptedChange, Simulation, Statistics,
    TransportSpec,
};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::iec::Detection;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::{DropReason, Packet};
use tidegate_units::{BitRate, Span, Time};

const MIDDLE: u32 = 1;

/// When packets came over the last link of [`stream`], and when they were made.
#[derive(Default)]
struct Arrivals(Vec<(Time, Time)>);

impl Observer for Arrivals {
    fn on_delivered(&mut self, now: Time, link: LinkId, _: &Packet, carried: &Carried, _: Option<&[u8]>) {
        if link == LinkId::of(MIDDLE, false) {
            self.0.push((now, carried.created));
        }
    }
}

/// A stream of packets from h0 to h1, one of 1000 bytes every 2 ms, whose last link is `change`d.
fn stream(change: impl FnOnce(&mut Network)) -> Network {
    let mut net = Net::default();
    net.link("h0", "r0", direction("10Mbit", "1ms", drop_tail(1000)));
    let last = net.link("r0", "h1", direction("10Mbit", "5ms", drop_tail(1000)));
    assert_eq!(last.index(), MIDDLE);
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, constant(BitRate::from_mbps(4)));
    change(&mut net.network);
    net.network
}

fn arrivals(network: Network) -> (Vec<(Time, Time)>, Statistics) {
    let mut simulation = network.build(1, Arrivals::default()).unwrap();
    simulation.run_until(seconds(4.0), u64::MAX);
    simulation.assert_conservation();
    let statistics = simulation.statistics();
    (simulation.into_observer().0, statistics)
}

fn jitter(model: JitterModel) -> impl FnOnce(&mut Network) {
    move |network| network.links[MIDDLE as usize].forward.jitter = Some(model)
}

const UNIFORM: JitterModel = JitterModel::Uniform { most: Span::from_millis(10) };
const SLOTS: JitterModel = JitterModel::Slots { every: Span::from_millis(5), phase: Span::from_millis(2) };

#[test]
fn jitter_keeps_the_order_and_lets_no_packet_take_longer_than_it_says() {
    let (plain, _) = arrivals(stream(|_| ()));
    let (shifted, statistics) = arrivals(stream(jitter(UNIFORM)));
    assert!(shifted.len() > 1980 && plain.len() - shifted.len() <= 5, "{} of {}", shifted.len(), plain.len());
    assert!(shifted.is_sorted());
    let waits: Vec<f64> = shifted
        .iter()
        .zip(&plain)
        .map(|(&(at, created), &(nominal, same))| {
            assert_eq!(created, same);
            (at - nominal).as_secs_f64() * 1e3
        })
        .collect();
    assert!(waits.iter().all(|wait| (0.0..=10.0).contains(wait)));
    // A packet waits for the last of those sent in the 10 ms before it and itself: no longer than w with the probability that all
    // their own times, of which 0, 2, 4, 6, 8 ms are over, are so short. The mean is the integral of its complement.
    let no_longer = |ms: f64| (0..5).map(|k| ((ms + 2.0 * f64::from(k)) / 10.0).min(1.0)).product::<f64>();
    let expected: f64 = (0..1000).map(|step| (1.0 - no_longer(0.01 * (f64::from(step) + 0.5))) * 0.01).sum();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    // 400 independent values with a standard deviation of 2 ms: four standard errors.
    assert!((mean - expected).abs() < 0.4, "{mean} ms, {expected} ms expected");
    assert_eq!(statistics.totals.dropped, 0);
}

#[test]
fn slots_hold_packets_until_their_ends() {
    let (plain, _) = arrivals(stream(|_| ()));
    let (slotted, _) = arrivals(stream(jitter(SLOTS)));
    assert!(slotted.is_sorted() && slotted.len() > 1980);
    for (&(at, created), &(nominal, same)) in slotted.iter().zip(&plain) {
        assert_eq!(created, same);
        assert_eq!(at.as_nanos() % 5_000_000, 2_000_000);
        assert!(at >= nominal && at - nominal < Span::from_millis(5));
    }
}

#[test]
fn what_is_held_back_on_a_medium_with_jitter_is_overtaken_still() {
    let reorder = Some(ReorderModel { probability: 0.1, delay: Span::from_millis(30) });
    let (both, _) = arrivals(stream(|network| {
        let forward = &mut network.links[MIDDLE as usize].forward;
        (forward.reorder, forward.jitter) = (reorder, Some(SLOTS));
    }));
    // Travel and transmission take 7.6 ms, a slot up to 5 ms.
    let (held, in_order): (Vec<_>, Vec<_>) =
        both.iter().partition(|&&(at, created)| at - created > Span::from_millis(30));
    assert!(in_order.iter().is_sorted_by_key(|&&(_, created)| created));
    assert!((130..270).contains(&held.len()), "{}", held.len());
    assert!(!both.iter().is_sorted_by_key(|&(_, created)| created));
}

#[test]
fn which_packets_are_lost_and_doubled_does_not_depend_on_jitter() {
    let with = |model: Option<JitterModel>| {
        arrivals(stream(|network| {
            let forward = &mut network.links[MIDDLE as usize].forward;
            forward.loss = Some(LossModel::Random { probability: 0.1 });
            (forward.duplicate, forward.jitter) = (0.2, model);
        }))
    };
    let ((without, _), (uniform, statistics), (slotted, _)) =
        (with(None), with(Some(UNIFORM)), with(Some(SLOTS)));
    let made = |log: &[(Time, Time)]| log.iter().map(|&(_, created)| created).collect::<Vec<_>>();
    let (without, uniform, slotted) = (made(&without), made(&uniform), made(&slotted));
    assert!(statistics.totals.duplicated > 300 && statistics.totals.dropped > 150);
    assert!(uniform.len() > 1900 && slotted.len() > 1900);
    // Copies come beside their originals, in order with all others.
    assert_eq!(uniform[..1900], without[..1900]);
    assert_eq!(slotted[..1900], without[..1900]);
}

#[test]
fn a_delay_that_changes_moves_jittered_packets_and_does_not_mix_them() {
    let change = |network: &mut Network| {
        jitter(UNIFORM)(network);
        let link = LinkId::of(MIDDLE, false);
        network.script = [(1.0, 60), (2.0, 1), (3.0, 5)]
            .map(|(at, ms)| ScriptedChange {
                at: seconds(at),
                link,
                change: Change::Delay(Span::from_millis(ms)),
            })
            .to_vec();
    };
    let (shifted, _) = arrivals(stream(change));
    assert!(shifted.is_sorted() && shifted.is_sorted_by_key(|&(_, created)| created));
    let took = |from: f64, to: f64| {
        let sent = shifted.iter().filter(move |(_, created)| (seconds(from)..seconds(to)).contains(created));
        sent.map(|&(at, created)| (at - created).as_secs_f64() * 1e3)
    };
    // 1.8 ms for two transmissions of 0.8 ms each and the first link.
    assert!(took(1.01, 1.9).all(|ms| (62.5..72.7).contains(&ms)));
    assert!(took(2.01, 2.9).all(|ms| (3.5..13.7).contains(&ms)));
    assert_eq!(shifted, arrivals(stream(change)).0);
}

#[test]
fn a_shorter_delay_counts_for_what_is_on_the_way_as_well() {
    let change = |network: &mut Network| {
        let link = LinkId::of(MIDDLE, false);
        let change = Change::Delay(Span::from_millis(1));
        network.script = vec![ScriptedChange { at: seconds(1.0), link, change }];
    };
    let (all, _) = arrivals(stream(change));
    // A packet each 2 ms: two have travelled for more than 1 ms of the 5 ms, and come at once.
    let at_once = all.iter().filter(|&&(at, _)| at == seconds(1.0)).count();
    assert_eq!(at_once, 2);
    assert!(all.is_sorted() && all.is_sorted_by_key(|&(_, created)| created));
}

/// Two virtual links over a bottleneck of 10 Mb/s under a load of 15, from I0 to E0 and I1 to E1: borders 0 to 3 in the order I0,
/// I1, E0, E1. `changes` happen to borders by name.
fn edges(detection: Option<Detection>, changes: &[(f64, &str, Option<ClockStep>, bool)]) -> Net {
    let (mut net, _) = overlay(2, config(detection.unwrap_or(Detection::OneWay)), 0);
    if detection.is_none() {
        net.network.domains[0].mechanism = Some(EdgeConfig::Nbp(Box::default()));
    }
    for &(at, name, step, restarts) in changes {
        let edge: NodeId = net.node(name);
        net.network.border_changes.push(BorderChange { at: seconds(at), domain: 0, edge, step, restarts });
    }
    net
}

const BACK_200_MS: Option<ClockStep> = Some(ClockStep::Back(Span::from_millis(200)));
const ALL: [Option<Detection>; 4] =
    [Some(Detection::OneWay), Some(Detection::RoundTrip), Some(Detection::Marks), None];

/// Messages that `border` has sent.
fn messages(simulation: &mut Simulation, border: u32) -> u64 {
    let flow = FlowIds { flows: 2 }.control(border);
    simulation.statistics().flows[flow.0 as usize].sent_packets
}

fn run_to(simulation: &mut Simulation, until: f64) {
    simulation.run_until(seconds(until), u64::MAX);
    simulation.assert_conservation();
}

#[test]
fn a_border_that_restarts_loses_what_waited_at_its_shapers() {
    for detection in ALL {
        let mut simulation = edges(detection, &[(20.0, "I0", None, true)]).build(1);
        run_to(&mut simulation, 19.999_999);
        let waits = simulation.border_report(0, 0).unwrap().shaper.packets;
        assert!(waits > 3, "{detection:?}: {waits} wait");
        let down = |of: &mut Simulation| -> Vec<u64> {
            let drops = of.statistics().border_drops;
            drops.iter().map(|drops| drops[DropReason::LinkDown.index()]).collect()
        };
        assert_eq!(down(&mut simulation), [0; 4]);
        run_to(&mut simulation, 20.000_001);
        let lost = down(&mut simulation);
        assert_eq!(lost[1..], [0; 3]);
        assert!(lost[0].abs_diff(u64::from(waits)) <= 1, "{detection:?}: {} of {waits}", lost[0]);
        // It begins anew at once, by what comes.
        let before = messages(&mut simulation, 0) + messages(&mut simulation, 2);
        run_to(&mut simulation, 21.0);
        assert!(messages(&mut simulation, 0) + messages(&mut simulation, 2) > before, "{detection:?}");
        assert!(simulation.border_report(0, 0).is_some(), "{detection:?}");
        assert_eq!(down(&mut simulation)[0], lost[0]);
    }
}

#[test]
fn a_machine_that_starts_anew_goes_by_its_clock_even_if_that_was_ahead_before() {
    let step = Some(ClockStep::Back(Span::from_secs(10)));
    for detection in ALL {
        let mut simulation = edges(detection, &[(20.0, "I0", step, true)]).build(1);
        run_to(&mut simulation, 20.0);
        let mut before = messages(&mut simulation, 0) + messages(&mut simulation, 2);
        // Time that stood still until the clock shows 20 s again would show as a second without messages, or without packets.
        for second in 21..32 {
            simulation.restart_statistics();
            run_to(&mut simulation, f64::from(second));
            let after = messages(&mut simulation, 0) + messages(&mut simulation, 2);
            assert!(after > 0, "{detection:?} at {second} s");
            assert!(throughput_bps(&simulation.statistics(), 0) > 0.0, "{detection:?} at {second} s");
            before += after;
        }
        assert!(before > 100);
    }
}

#[test]
fn edges_that_start_anew_have_their_rates_again_within_five_seconds() {
    let back = Some(ClockStep::Back(Span::from_secs(15)));
    for detection in ALL {
        let rate = |changes: &[_]| {
            let mut simulation = edges(detection, changes).build(1);
            run_to(&mut simulation, 25.0);
            simulation.restart_statistics();
            run_to(&mut simulation, 45.0);
            throughput_bps(&simulation.statistics(), 0)
        };
        let plain = rate(&[]);
        for change in [(20.0, "I0", back, true), (20.0, "E0", None, true), (20.0, "E0", back, true)] {
            let after = rate(&[change]);
            assert!(after >= 0.9 * plain, "{detection:?}, {change:?}: {after} of {plain}");
        }
    }
}

#[test]
fn a_step_loses_no_timer_and_makes_no_haste() {
    let ahead = Some(ClockStep::Ahead(Span::from_secs(1)));
    for detection in ALL {
        let mut undisturbed = edges(detection, &[]).build(1);
        run_to(&mut undisturbed, 40.0);
        let plain = undisturbed.totals().events;
        for (edge, step) in [("I0", BACK_200_MS), ("E0", BACK_200_MS), ("I0", ahead), ("E0", ahead)] {
            let mut simulation = edges(detection, &[(20.0, edge, step, false)]).build(1);
            run_to(&mut simulation, 20.5);
            for second in 21..41 {
                simulation.restart_statistics();
                run_to(&mut simulation, f64::from(second));
                let sent: u64 = (0..4).step_by(2).map(|border| messages(&mut simulation, border)).sum();
                assert!(sent > 0, "{detection:?}, {edge} {step:?}: no message in second {second}");
                let passed = throughput_bps(&simulation.statistics(), 0);
                assert!(passed > 0.0, "{detection:?}, {edge} {step:?}: nothing passed in second {second}");
            }
            let events = simulation.totals().events;
            assert!(
                events < plain * 6 / 5,
                "{detection:?}, {edge} {step:?}: {events} events, {plain} without"
            );
        }
    }
}

#[test]
fn time_stands_still_for_a_border_whose_clock_goes_back_and_then_goes_on() {
    // Shapers hold what they have until the clock shows again what it showed before.
    let mut simulation = edges(Some(Detection::OneWay), &[(20.0, "I0", BACK_200_MS, false)]).build(1);
    run_to(&mut simulation, 20.02);
    simulation.restart_statistics();
    run_to(&mut simulation, 20.19);
    assert_eq!(simulation.statistics().sinks[0][0].received_packets, 0);
    run_to(&mut simulation, 21.0);
    assert!(simulation.statistics().sinks[0][0].received_packets > 10);
}

#[test]
fn faults_at_edges_come_out_the_same_each_time_and_leave_what_was_before_alone() {
    let changes = [
        (1.0, "E1", BACK_200_MS, false),
        (2.0, "I0", Some(ClockStep::Ahead(Span::from_millis(700))), true),
        (2.0, "E0", None, true),
        (3.0, "I0", None, true),
        // Below zero there is no time.
        (3.5, "I1", Some(ClockStep::Back(Span::from_secs(3600))), true),
        (4.0, "I1", Some(ClockStep::Back(Span::from_secs(1))), false),
    ];
    for detection in ALL {
        let run = |happening: &[_], until: f64| {
            let mut simulation = edges(detection, happening).build(3);
            for tenth in 1..=(until * 10.0) as u32 {
                run_to(&mut simulation, f64::from(tenth) * 0.1);
            }
            let statistics = simulation.statistics();
            // But for the number of events: it counts those that are only about what comes later.
            (statistics.flows, statistics.links, statistics.border_drops, statistics.totals.created)
        };
        assert_eq!(format!("{:?}", run(&changes, 8.0)), format!("{:?}", run(&changes, 8.0)));
        assert_eq!(format!("{:?}", run(&changes, 0.9)), format!("{:?}", run(&[], 0.9)));
        assert_ne!(format!("{:?}", run(&changes, 8.0)), format!("{:?}", run(&[], 8.0)));
    }
}

#[test]
fn what_is_no_border_is_left_alone() {
    let mut net = edges(Some(Detection::OneWay), &[(1.0, "A", None, true), (1.5, "s0", BACK_200_MS, true)]);
    net.network.border_changes[1].domain = 7;
    let statistics = net.run(1, 0.0, 3.0);
    assert_eq!(
        statistics.border_drops.iter().map(|drops| drops[DropReason::LinkDown.index()]).sum::<u64>(),
        0
    );
}

/// The same network, where E0 lies; what its statistics are.
fn with_lies(detection: Option<Detection>, lies: LieSpec) -> Statistics {
    let mut net = edges(detection, &[]);
    let liar = net.node("E0");
    net.network.domains[0].lies.push((liar, lies));
    net.run(1, 0.0, 20.0)
}

#[test]
fn a_liar_that_says_the_truth_changes_nothing_and_each_lie_changes_something() {
    let truth = LieSpec::default();
    for detection in ALL {
        let plain = format!("{:?}", edges(detection, &[]).run(1, 0.0, 20.0));
        assert_eq!(format!("{:?}", with_lies(detection, truth)), plain, "{detection:?}");
        let lies = [
            LieSpec { output: 0.3, ..truth },
            LieSpec { hides: true, ..truth },
            LieSpec { forges: true, ..truth },
            LieSpec { replays: 0.3, ..truth },
        ];
        // NBP has no congestion to hide. By round trips the ingress finds it itself: only losses could be hidden, and there are none.
        let can_hide = matches!(detection, Some(Detection::OneWay | Detection::Marks));
        for lie in lies.into_iter().filter(|lie| can_hide || !lie.hides) {
            let told = format!("{:?}", with_lies(detection, lie));
            assert_ne!(told, plain, "{detection:?}, {lie:?}");
            assert_eq!(format!("{:?}", with_lies(detection, lie)), told, "{detection:?}, {lie:?}");
        }
    }
}

#[test]
fn messages_that_are_sent_again_are_as_many_as_said() {
    let sent = |lies| {
        let statistics = with_lies(Some(Detection::OneWay), lies);
        statistics.flows[FlowIds { flows: 2 }.control(2).0 as usize].sent_packets
    };
    // Behind each message but the first goes an old one: 2 n - 1 in all.
    let always = sent(LieSpec { replays: 1.0, ..LieSpec::default() });
    assert!(always > 20 && always % 2 == 1, "{always}");
}

#[test]
fn forged_time_stamps_lift_no_rates_and_hurry_no_messages() {
    for detection in ALL {
        let plain = edges(detection, &[]).run(1, 0.0, 20.0);
        let forged = with_lies(detection, LieSpec { forges: true, ..LieSpec::default() });
        let asked = |statistics: &Statistics| {
            statistics.flows[FlowIds { flows: 2 }.control(0).0 as usize].sent_packets
        };
        assert!(asked(&forged) <= asked(&plain), "{detection:?}: {} of {}", asked(&forged), asked(&plain));
        let (held, free) = (throughput_bps(&forged, 0), throughput_bps(&plain, 0));
        assert!(held < free, "{detection:?}: {held} of {free}");
    }
}

/// A medium with jitter delays packets and lets none overtake another, in whatever order events of one instant are.
#[test]
fn packets_that_jitter_holds_until_one_instant_stay_in_order() {
    let models = [
        JitterModel::Slots { every: Span::from_millis(5), phase: Span::ZERO },
        JitterModel::Uniform { most: Span::from_millis(5) },
    ];
    for model in models {
        for order in [EventOrder::Scheduled, EventOrder::Numbered] {
            let mut net = Net::default();
            net.link("h0", "h1", direction("20Mbit", "10ms", drop_tail(1000)));
            net.network.links[0].forward.jitter = Some(model);
            net.network.event_order = order;
            let tcp = TcpConfig { receive_window_bytes: 60 * 1460, ..TcpConfig::modern(Variant::Sack) };
            net.flow("h0", &["h1"], TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
            let statistics = net.run(1, 0.0, 5.0);
            let sender = statistics.connections[0].expect("it is TCP").sender;
            assert_eq!(sender.duplicate_acks, 0, "{model:?}, {order:?}");
        }
    }
}
