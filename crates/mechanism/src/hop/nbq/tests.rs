use super::*;
use tidegate_packet::{Address, FlowId};

const HOST_PORT: PortId = PortId(0);
const ROUTER_PORT: PortId = PortId(1);
const OUT_PORT: PortId = PortId(2);
/// Ten packets of 1000 bytes in an interval of 100 ms are 800 kbit/s.
const GAP: Span = Span::from_millis(10);

#[derive(Default)]
struct Sent(Vec<(PortId, Vec<u8>)>);

impl HopOut for Sent {
    fn send(&mut self, port: PortId, message: &[u8]) {
        self.0.push((port, message.to_vec()));
    }

    fn set_rate(&mut self, _port: PortId, _rate: BitRate) {
        panic!("NBQ sets no rates");
    }

    fn release(&mut self, _port: PortId, _packet: Packet, _sequence: u32) {
        unreachable!("it holds nothing");
    }
}

fn router(config: NbqConfig) -> Nbq {
    let port = |neighbor| Port { rate: BitRate::from_bps(800_000), neighbor, circuit: None };
    let ports = [port(Neighbor::Host), port(Neighbor::Router), port(Neighbor::Router)];
    config.build(&ports, &Context::for_tests())
}

fn headers(protocol: Protocol, host: u8) -> Headers {
    Headers::best_effort(protocol, (Address::V4([10, 0, 0, 1]), 1), (Address::V4([10, 0, 1, host]), 2))
}

fn name(host: u8) -> FlowName {
    FlowName { protocol: Protocol::UDP, destination: Address::V4([10, 0, 1, host]) }
}

fn packet(from: PortId) -> Packet {
    Packet { in_port: from.0, ..Packet::new(0, FlowId(0), 1000) }
}

fn report(stamp: u64, entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for &(host, arrival, departure) in entries {
        encoder.push(&Report { flow: name(host), arrival, departure });
    }
    encoder.finish(Time::from_nanos(stamp)).unwrap().to_vec()
}

/// A packet of each of `hosts` every [`GAP`] from `from` until `until`, over [`OUT_PORT`]; every `interval` what
/// `neighbor` says. Packets that passed and that were discarded.
fn drive(
    nbq: &mut Nbq,
    hosts: &[u8],
    from: Time,
    until: Time,
    sent: &mut Sent,
    neighbor: &mut dyn FnMut(&mut Nbq, Time),
) -> (u32, u32) {
    let (mut passed, mut discarded, mut now) = (0, 0, from);
    while now < until {
        while let Some(at) = nbq.timer_at().filter(|&at| at <= now) {
            nbq.on_timer(at, sent);
        }
        neighbor(nbq, now);
        for &host in hosts {
            let headers = headers(Protocol::UDP, host);
            let mut packet = packet(ROUTER_PORT);
            match nbq.on_arrival(&mut packet, &headers, OUT_PORT, now) {
                Ok(()) => {
                    passed += 1;
                    nbq.on_departure(&packet, &headers, OUT_PORT, now);
                }
                Err(why) => {
                    assert_eq!(why, DropReason::Neighbor);
                    discarded += 1;
                }
            }
        }
        now += GAP;
    }
    (passed, discarded)
}

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn ratio(nbq: &Nbq) -> f64 {
    nbq.variable(OUT_PORT, "discard_ratio").unwrap()
}

/// A neighbour that reports a loss of half at each step.
fn half(nbq: &mut Nbq, now: Time) {
    nbq.on_message(
        OUT_PORT,
        &report(now.as_nanos(), &[(1, 100, 50), (2, 100, 50)]),
        now,
        &mut Sent::default(),
    );
}

#[test]
fn without_messages_nothing_is_discarded() {
    let mut nbq = router(NbqConfig::default());
    let counts = drive(&mut nbq, &[1, 2], at(0.0), at(3.0), &mut Sent::default(), &mut |_, _| {});
    assert_eq!(counts, (600, 0));
}

#[test]
fn each_estimate_moves_the_ratio_by_the_published_law() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(0.105), &mut Sent::default(), &mut half);
    // From zero: required 0.5, smoothed 0.1; the first estimate has no arrival rate before it.
    assert!((ratio(&nbq) - 0.1).abs() < 1e-9, "{}", ratio(&nbq));
    drive(&mut nbq, &[1], at(0.11), at(0.205), &mut Sent::default(), &mut half);
    // 0.8 * 0.1 + 0.2 * (1 - 0.5 * 0.9) = 0.19; the second estimate counts 10 packets in 100 ms, the first counted 11.
    let expected = 0.19 * 10.0 / 11.0;
    assert!((ratio(&nbq) - expected).abs() < 1e-9, "{} instead of {expected}", ratio(&nbq));
}

#[test]
fn the_ratio_never_exceeds_its_bound_and_packets_still_pass() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(20.0), &mut Sent::default(), &mut half);
    assert!((ratio(&nbq) - 0.9).abs() < 1e-9);
    let (passed, discarded) = drive(&mut nbq, &[1], at(20.0), at(30.0), &mut Sent::default(), &mut half);
    assert_eq!((passed, discarded), (100, 900));
}

#[test]
fn the_ratio_decays_in_silence_and_holds_while_no_loss_is_reported() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(1.0), &mut Sent::default(), &mut half);
    let before = ratio(&nbq);
    let whole = &mut |router: &mut Nbq, now: Time| {
        router.on_message(OUT_PORT, &report(now.as_nanos(), &[(1, 100, 100)]), now, &mut Sent::default());
    };
    drive(&mut nbq, &[1], at(1.0), at(2.0), &mut Sent::default(), whole);
    assert!((ratio(&nbq) / before - 1.0).abs() < 0.01, "{} after {before}", ratio(&nbq));
    drive(&mut nbq, &[1], at(2.0), at(3.0), &mut Sent::default(), &mut |_, _| {});
    // What was said counts for two intervals; then it falls eight times.
    assert!(ratio(&nbq) < before * 0.028, "{}", ratio(&nbq));
}

#[test]
fn the_literal_rule_decays_at_a_small_loss() {
    let small = &mut |router: &mut Nbq, now: Time| {
        router.on_message(OUT_PORT, &report(now.as_nanos(), &[(1, 100, 91)]), now, &mut Sent::default());
    };
    let mut ratios = [0.0; 2];
    for (after, decay) in ratios.iter_mut().zip([Decay::Silence, Decay::Literal]) {
        let mut nbq = router(NbqConfig { decay, ..NbqConfig::default() });
        drive(&mut nbq, &[1], at(0.0), at(1.0), &mut Sent::default(), &mut half);
        drive(&mut nbq, &[1], at(1.0), at(2.0), &mut Sent::default(), small);
        *after = ratio(&nbq);
    }
    assert!(ratios[0] > 0.5 && ratios[1] < 0.01, "{ratios:?}");
}

#[test]
fn all_flows_to_one_neighbour_get_the_average_ratio() {
    let mut nbq = router(NbqConfig::default());
    let first_only = &mut |router: &mut Nbq, now: Time| {
        router.on_message(OUT_PORT, &report(now.as_nanos(), &[(1, 100, 50)]), now, &mut Sent::default());
    };
    drive(&mut nbq, &[1, 2], at(0.0), at(10.0), &mut Sent::default(), first_only);
    let average = ratio(&nbq);
    let (passed, discarded) = drive(&mut nbq, &[2], at(10.0), at(10.1), &mut Sent::default(), first_only);
    assert!(average > 0.05, "{average}");
    assert!(discarded > 0 && passed > 0, "flow 2 has no report and shares the ratio: {passed}, {discarded}");
}

#[test]
fn tcp_is_neither_measured_nor_discarded() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(5.0), &mut Sent::default(), &mut half);
    assert!(ratio(&nbq) > 0.5);
    for _ in 0..100 {
        let headers = headers(Protocol::TCP, 1);
        assert_eq!(nbq.on_arrival(&mut packet(ROUTER_PORT), &headers, OUT_PORT, at(5.0)), Ok(()));
    }
}

#[test]
fn a_flow_that_was_silent_begins_anew() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(5.0), &mut Sent::default(), &mut half);
    assert_eq!(
        nbq.on_arrival(&mut packet(ROUTER_PORT), &headers(Protocol::UDP, 1), OUT_PORT, at(6.5)).err(),
        None
    );
    assert!(ratio(&nbq) > 0.0, "1.5 s are no silence");
    let _ = nbq.on_arrival(&mut packet(ROUTER_PORT), &headers(Protocol::UDP, 1), OUT_PORT, at(8.6));
    assert_eq!(ratio(&nbq), 0.0);
}

#[test]
fn silent_flows_are_forgotten_and_the_timer_stops() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1, 2], at(0.0), at(1.0), &mut Sent::default(), &mut half);
    let mut now = at(1.0);
    while let Some(at) = nbq.timer_at() {
        now = at;
        nbq.on_timer(at, &mut Sent::default());
    }
    assert!(now < at(3.2), "{now}");
    assert!(nbq.flows.is_empty());
    assert_eq!(ratio(&nbq), 0.0);
}

#[test]
fn a_router_reports_upstream_only_while_its_output_overflows() {
    let mut nbq = router(NbqConfig::default());
    let mut sent = Sent::default();
    drive(&mut nbq, &[1], at(0.0), at(1.0), &mut sent, &mut |_, _| {});
    assert!(sent.0.is_empty(), "the output is busy but drops nothing");
    let mut drop_one = true;
    let overflow = &mut |router: &mut Nbq, now: Time| {
        if core::mem::take(&mut drop_one) {
            let (headers, packet) = (headers(Protocol::UDP, 1), packet(ROUTER_PORT));
            router.on_drop(&packet, &headers, OUT_PORT, DropReason::Overflow, now);
        }
    };
    drive(&mut nbq, &[1], at(1.0), at(1.11), &mut sent, overflow);
    assert_eq!(sent.0.len(), 1);
    let (port, message) = &sent.0[0];
    assert_eq!(*port, ROUTER_PORT);
    let Ok(Message::Reports { entries, .. }) = wire::decode(message) else { panic!("a report was due") };
    let entries: Vec<Report> = entries.collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].flow, name(1));
    assert!(entries[0].arrival.abs_diff(100_000) <= 1);
    // The flow alone keeps the output busy: the neighbour is not told by silence that there is room.
    drive(&mut nbq, &[1], at(1.11), at(2.0), &mut sent, &mut |_, _| {});
    assert!(sent.0.len() >= 9, "{}", sent.0.len());
    let Ok(Message::Reports { entries: mut last, .. }) = wire::decode(&sent.0.last().unwrap().1) else {
        panic!()
    };
    assert!(last.all(|report| report.arrival == report.departure));
}

#[test]
fn a_report_ends_when_the_output_has_room() {
    let mut nbq = router(NbqConfig::default());
    let mut sent = Sent::default();
    drive(&mut nbq, &[1], at(0.0), at(0.15), &mut sent, &mut |_, _| {});
    nbq.on_drop(&packet(ROUTER_PORT), &headers(Protocol::UDP, 1), OUT_PORT, DropReason::Overflow, at(0.15));
    nbq.set_link_rate(OUT_PORT, BitRate::from_bps(1_600_000), at(0.15));
    drive(&mut nbq, &[1], at(0.15), at(2.0), &mut sent, &mut |_, _| {});
    assert_eq!(sent.0.len(), 1);
}

#[test]
fn what_a_router_discards_is_reported_too_while_it_overflows() {
    let mut nbq = router(NbqConfig::default());
    let mut sent = Sent::default();
    let overflow = &mut |router: &mut Nbq, now: Time| {
        half(router, now);
        router.on_drop(&packet(ROUTER_PORT), &headers(Protocol::TCP, 9), OUT_PORT, DropReason::Overflow, now);
    };
    drive(&mut nbq, &[1], at(0.0), at(10.0), &mut sent, overflow);
    let Ok(Message::Reports { mut entries, .. }) = wire::decode(&sent.0.last().unwrap().1) else { panic!() };
    let report = entries.next().unwrap();
    assert!(f64::from(report.departure) / f64::from(report.arrival) < 0.2, "{report:?}");
}

#[test]
fn hosts_hear_nothing_unless_they_are_to_be_advised() {
    for advice in [false, true] {
        let mut nbq = router(NbqConfig { advice, ..NbqConfig::default() });
        let mut sent = Sent::default();
        let mut now = at(0.0);
        while now < at(5.0) {
            while let Some(at) = nbq.timer_at().filter(|&at| at <= now) {
                nbq.on_timer(at, &mut sent);
            }
            half(&mut nbq, now);
            let headers = headers(Protocol::UDP, 1);
            let mut packet = packet(HOST_PORT);
            if nbq.on_arrival(&mut packet, &headers, OUT_PORT, now).is_ok() {
                nbq.on_departure(&packet, &headers, OUT_PORT, now);
            }
            now += GAP;
        }
        assert_eq!(sent.0.is_empty(), !advice);
        if let Some((port, message)) = sent.0.last() {
            assert_eq!(*port, HOST_PORT);
            let Ok(Message::Advice { mut entries, .. }) = wire::decode(message) else {
                panic!("advice was due")
            };
            let ratio = f64::from(entries.next().unwrap().ratio) / 65535.0;
            assert!((ratio - 0.9).abs() < 0.03, "{ratio}");
        }
    }
}

#[test]
fn old_and_repeated_messages_change_nothing() {
    let (mut plain, mut disturbed) = (router(NbqConfig::default()), router(NbqConfig::default()));
    drive(&mut plain, &[1], at(0.0), at(3.0), &mut Sent::default(), &mut half);
    let mut past: Vec<Vec<u8>> = Vec::new();
    let noisy = &mut |router: &mut Nbq, now: Time| {
        half(router, now);
        // Delayed ones say something else; one is said twice.
        half(router, now);
        for message in &past {
            router.on_message(OUT_PORT, message, now, &mut Sent::default());
        }
        past.push(report(now.as_nanos(), &[(1, 100, 0)]));
    };
    drive(&mut disturbed, &[1], at(0.0), at(3.0), &mut Sent::default(), noisy);
    assert_eq!(ratio(&plain), ratio(&disturbed));
}

#[test]
fn a_neighbour_that_restarts_is_believed_again_after_the_idle_time() {
    let mut nbq = router(NbqConfig::default());
    drive(&mut nbq, &[1], at(0.0), at(5.0), &mut Sent::default(), &mut half);
    // It is silent for a while and its clock begins anew.
    drive(&mut nbq, &[1], at(5.0), at(7.5), &mut Sent::default(), &mut |_, _| {});
    assert!(ratio(&nbq) < 1e-3);
    let restarted = &mut |router: &mut Nbq, now: Time| {
        let clock = now.as_nanos() - at(7.5).as_nanos();
        router.on_message(OUT_PORT, &report(clock, &[(1, 100, 50)]), now, &mut Sent::default());
    };
    drive(&mut nbq, &[1], at(7.5), at(8.5), &mut Sent::default(), restarted);
    assert!(ratio(&nbq) > 0.4, "{}", ratio(&nbq));
}

#[test]
fn reports_from_where_a_flow_does_not_go_are_ignored() {
    let mut nbq = router(NbqConfig::default());
    let wrong = &mut |router: &mut Nbq, now: Time| {
        router.on_message(ROUTER_PORT, &report(now.as_nanos(), &[(1, 100, 0)]), now, &mut Sent::default());
        router.on_message(PortId(77), &report(now.as_nanos(), &[(1, 100, 0)]), now, &mut Sent::default());
        router.on_message(OUT_PORT, &[0x11, 1, 2, 3], now, &mut Sent::default());
    };
    let (_, discarded) = drive(&mut nbq, &[1], at(0.0), at(2.0), &mut Sent::default(), wrong);
    assert_eq!(discarded, 0);
}

#[test]
fn flows_beyond_the_bound_pass() {
    let mut nbq = router(NbqConfig { flows_max: 1, ..NbqConfig::default() });
    drive(&mut nbq, &[1, 2], at(0.0), at(5.0), &mut Sent::default(), &mut half);
    let (passed, _) = drive(&mut nbq, &[2], at(5.0), at(6.0), &mut Sent::default(), &mut half);
    assert_eq!(passed, 100);
}

#[test]
fn random_discards_come_at_the_ratio() {
    let mut nbq = router(NbqConfig { discard: Discard::Random, ..NbqConfig::default() });
    drive(&mut nbq, &[1], at(0.0), at(20.0), &mut Sent::default(), &mut half);
    let (passed, _) = drive(&mut nbq, &[1], at(20.0), at(120.0), &mut Sent::default(), &mut half);
    assert!((900..1100).contains(&passed), "{passed} of 10000 at a ratio of 0.9");
}

/// The full load of [`drive`], and a tenth of it.
#[test]
fn an_output_is_congested_for_routes_if_it_overflows_and_flows_that_do_not_adapt_would_fill_it() {
    let run = |rate, overflows, protocol| {
        let mut nbq = router(NbqConfig::default());
        nbq.set_link_rate(OUT_PORT, BitRate::from_bps(rate), at(0.0));
        drive(&mut nbq, &[1], at(0.0), at(1.0), &mut Sent::default(), &mut |router, now| {
            if overflows {
                let why = DropReason::Overflow;
                router.on_drop(&packet(ROUTER_PORT), &headers(protocol, 1), OUT_PORT, why, now);
            }
        });
        nbq.congested_at(OUT_PORT)
    };
    assert_eq!(run(800_000, true, Protocol::UDP), Some(at(0.9)), "in the last round");
    assert_eq!(run(800_000, false, Protocol::UDP), None, "it carries all");
    assert_eq!(run(8_000_000, true, Protocol::UDP), None, "a small flow is not what fills it");
    assert_eq!(run(800_000, true, Protocol::TCP), Some(at(0.9)), "TCP loses what it leaves no room for");
    let mut quiet = router(NbqConfig::default());
    quiet.on_drop(&packet(ROUTER_PORT), &headers(Protocol::TCP, 1), OUT_PORT, DropReason::Overflow, at(0.1));
    assert_eq!(quiet.timer_at(), None);
    assert_eq!(quiet.congested_at(OUT_PORT), None, "TCP alone does as it always does");
    assert_eq!(quiet.congested_at(PortId(9)), None, "no such port");
}
