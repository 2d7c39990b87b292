//! BLUE acts while its link is idle: at exact instants, in both kinds of port, and for each queue of a scheduler.

use crate::common::{Fate, Net, Recorder, direction};
use tidegate_engine::{ApplicationSpec, LinkId, Simulation, StartSpec, TransportSpec};
use tidegate_mechanism::queue::{BlueConfig, FreezeTimers, ManagerConfig};
use tidegate_mechanism::schedule::{Classification, DisciplineConfig, DrrConfig, WfqConfig};
use tidegate_packet::{DropReason, FlowId};
use tidegate_units::{BitRate, Limit, Span, Time};

const LINK: LinkId = LinkId::of(0, false);

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

/// `packets` of 1000 bytes from `start` on, one per `gap`.
fn train(net: &mut Net, start: Time, packets: u64, gap: Span) {
    let application =
        ApplicationSpec::ConstantRate { rate: BitRate::of(1000, gap), packet_bytes: 1000, jitter: 0.0 };
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, application);
    let flow = net.network.flows.last_mut().unwrap();
    flow.start = StartSpec::At(start);
    flow.stop = Some(start + gap * (packets - 1) + Span::from_nanos(gap.as_nanos() / 2));
}

fn both_ports(net: impl Fn() -> Net, check: impl Fn(Simulation<Recorder>)) {
    check(net().network.build(1, Recorder::default()).unwrap());
    check(net().network.build_scheduled(1, Recorder::default()).unwrap());
}

/// On a link of one packet per millisecond.
#[test]
fn an_idle_link_lets_the_probability_fall_by_one_step_per_freeze_time_at_the_right_instants() {
    let net = || {
        let blue = BlueConfig { delta_up: 0.03, limit: Limit::Packets(2), ..BlueConfig::default() };
        let mut net = Net::default();
        let queue = DisciplineConfig::Fifo(ManagerConfig::Blue(blue));
        net.link("h0", "h1", direction("8Mbit", "1ms", queue));
        // One is sent, two wait, the one at 3 us is lost: the next update comes 10 ms after that.
        train(&mut net, Time::ZERO, 4, Span::from_micros(1));
        // In transmission from 20 to 21 ms, so that the fall that was due at 20.003 ms waits for its end.
        train(&mut net, micros(20_000), 1, Span::from_micros(1));
        net
    };
    both_ports(net, |mut simulation| {
        let falls = [(3, 0.03), (10_003, 0.02), (21_000, 0.01), (31_000, 0.0)];
        let mut before = 0.0;
        for (at, after) in falls {
            for (when, expected) in [
                (micros(at).saturating_sub(Span::from_nanos(1)), before),
                (micros(at) + Span::from_nanos(1), after),
            ] {
                simulation.run_until(when, u64::MAX);
                let p_m = simulation.queue_variable(LINK, "marking_probability").unwrap();
                assert!((p_m - expected).abs() < 1e-12, "{p_m} instead of {expected} at {when:?}");
            }
            before = after;
        }
        let sent = 3 + 1;
        simulation.run_until(micros(100_000), u64::MAX);
        let received = [0, 1].map(|flow| simulation.sink_counters(flow)[0].received_packets);
        assert_eq!(received.iter().sum::<u64>(), sent);
    });
}

/// One class overflows its queue, so that BLUE refuses all of it until that queue has been idle; another class keeps the
/// link busy meanwhile. Packets of the first class come just before and just after that.
#[test]
fn under_a_scheduler_each_queue_is_idle_for_itself_and_falls_at_the_right_instant() {
    // The first class is served at 0, 2 and 4 ms, the second at 1, 3 and 5 ms. The queue of the first is idle from 5 ms
    // on; with one freeze time for rises and falls it falls 20 ms after the loss, which was at 3 us.
    for (timers, falls_at) in [(FreezeTimers::Separate, 5_000), (FreezeTimers::Shared, 20_003)] {
        let blue = BlueConfig {
            delta_up: 1.0,
            delta_down: 1.0,
            freeze_time: Span::from_millis(20),
            limit: Limit::Packets(2),
            timers,
            ..BlueConfig::default()
        };
        let (classify, own) = (Classification::Class, Some(ManagerConfig::Blue(blue)));
        let drr = DrrConfig { classify, queue: own.clone(), ..DrrConfig::default() };
        let wfq = WfqConfig { classify, queue: own, ..WfqConfig::default() };
        for queue in [DisciplineConfig::Drr(drr), DisciplineConfig::Wfq(wfq)] {
            let mut net = Net::default();
            net.link("h0", "h1", direction("8Mbit", "1ms", queue));
            let nanosecond = Span::from_nanos(1);
            train(&mut net, Time::ZERO, 4, Span::from_micros(1));
            train(&mut net, micros(falls_at).saturating_sub(nanosecond), 1, Span::from_micros(1));
            train(&mut net, micros(falls_at) + nanosecond, 1, Span::from_micros(1));
            train(&mut net, Time::from_nanos(500), 20, Span::from_micros(2_000));
            net.network.flows[3].class = 1;
            let mut simulation = net.network.build(1, Recorder::default()).unwrap();
            simulation.run_until(micros(100_000), u64::MAX);
            let received = [0, 1, 2, 3].map(|flow| simulation.sink_counters(flow)[0].received_packets);
            assert_eq!(received, [3, 0, 1, 20], "{timers:?}");
            let log = simulation.into_observer().log;
            let arrived = |class: u32, before: Time| -> Vec<Time> {
                let of = |flow: FlowId| (flow.0 == 6) == (class == 1);
                let there = log.iter().filter(|(at, flow, _, what)| {
                    *at <= before && of(*flow) && matches!(what, Fate::Delivered(_))
                });
                there.map(|entry| entry.0).collect()
            };
            assert_eq!(arrived(0, micros(6_500)), [2_000, 4_000, 6_000].map(micros));
            assert_eq!(arrived(1, micros(6_500)), [3_000, 5_000].map(micros));
            let refused = log.iter().filter(|entry| matches!(entry.3, Fate::Dropped(_, DropReason::Early)));
            assert_eq!(
                refused.map(|entry| entry.0).collect::<Vec<_>>(),
                [micros(falls_at).saturating_sub(nanosecond)]
            );
        }
    }
}
