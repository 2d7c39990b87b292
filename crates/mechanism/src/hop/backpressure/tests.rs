use alloc::vec::Vec;

use tidegate_packet::{Address, FlowId, Protocol};

use super::*;
use crate::hop::Circuit;

const LEFT: PortId = PortId(0);
const RIGHT: PortId = PortId(1);
const OUT: PortId = PortId(2);
const HOST: PortId = PortId(3);
/// A segment takes 23 cells.
const SEGMENT: u32 = 1064;

#[derive(Default)]
struct World {
    sent: Vec<(PortId, Vec<u8>)>,
    rates: Vec<(PortId, BitRate)>,
    released: Vec<(PortId, Packet)>,
}

impl HopOut for World {
    fn send(&mut self, port: PortId, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }

    fn set_rate(&mut self, port: PortId, rate: BitRate) {
        self.rates.push((port, rate));
    }

    fn release(&mut self, port: PortId, packet: Packet, _sequence: u32) {
        self.released.push((port, packet));
    }
}

const fn mbps(rate: u64) -> BitRate {
    BitRate::from_mbps(rate)
}

fn headers() -> Headers {
    Headers::best_effort(Protocol::TCP, (Address::V4([10, 0, 0, 1]), 1), (Address::V4([10, 0, 1, 1]), 2))
}

fn router(config: &BackPressureConfig) -> BackPressure {
    let circuit = Some(Circuit { minimum: mbps(20) });
    let port = |neighbor, with| Port { rate: mbps(150), neighbor, circuit: with };
    let router = Neighbor::Router;
    let ports =
        [port(router, circuit), port(router, circuit), port(router, circuit), port(Neighbor::Host, None)];
    config.build(&ports, &Context::for_tests())
}

/// A packet every so often from each of two inputs, to [`OUT`] and on, until `until`.
fn drive(hop: &mut BackPressure, gaps: [Span; 2], from: Time, until: Time, world: &mut World) {
    let mut next = [from + gaps[0], from + gaps[1]];
    loop {
        let side = usize::from(next[1] < next[0]);
        let now = next[side];
        if now >= until {
            return;
        }
        while let Some(at) = hop.timer_at().filter(|&at| at <= now) {
            hop.on_timer(at.max(from), world);
        }
        let mut packet = Packet::new(0, FlowId(0), SEGMENT);
        packet.in_port = side as u16;
        hop.on_arrival(&mut packet, &headers(), OUT, now).expect("it drops nothing");
        hop.on_departure(&packet, &headers(), OUT, now);
        next[side] = now + gaps[side];
    }
}

fn answers(world: &World) -> Vec<u32> {
    let rate = |message: &Vec<u8>| match wire::decode(message) {
        Ok(Message::RmBackward(rm)) => Some(rm.rate),
        _ => None,
    };
    world.sent.iter().filter_map(|(_, message)| rate(message)).collect()
}

/// What the router answers to a question from `port`.
fn ask(hop: &mut BackPressure, port: PortId, rate: u32, now: Time) -> u32 {
    let mut world = World::default();
    hop.on_message(port, &Rm { stamp: now, rate }.encode_forward(), now, &mut world);
    assert_eq!(world.sent[0].0, port, "an answer goes back where the question came from");
    answers(&world)[0]
}

fn hear(hop: &mut BackPressure, stamp: Time, rate: BitRate, now: Time, world: &mut World) {
    hop.on_message(OUT, &Rm { stamp, rate: wire_rate(rate) }.encode_backward(), now, world);
}

const fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

#[test]
fn one_cell_in_nrm_is_an_rm_cell() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    let gap = Span::from_micros(100);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(100), &mut world);
    let asked = world.sent.iter().filter(|(port, _)| *port == OUT).count();
    // 2000 packets of 23 cells; 31 data cells between two RM cells.
    assert!(asked.abs_diff(2000 * 23 / 31) <= 2, "{asked}");
}

#[test]
fn backlogged_neighbours_are_told_half_of_what_goes_out() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    let gap = Span::from_micros(278); // 35 Mbit/s of cells each
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(50), &mut world);
    hear(&mut hop, at_ms(50), mbps(70), at_ms(50), &mut world);
    drive(&mut hop, [gap, gap], at_ms(50), at_ms(100), &mut world);
    for port in [LEFT, RIGHT] {
        let told = f64::from(ask(&mut hop, port, u32::MAX, at_ms(100))) * 8e-6;
        // What is taken back for a packet too many makes it a little less.
        assert!((30.0..35.1).contains(&told), "{told}");
    }
}

#[test]
fn what_one_neighbour_leaves_is_told_to_the_other() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    hear(&mut hop, at_ms(0), mbps(70), at_ms(0), &mut world);
    let (slow, fast) = (Span::from_micros(975), Span::from_micros(290)); // 10 and 33.6 Mbit/s
    drive(&mut hop, [slow, fast], Time::ZERO, at_ms(100), &mut world);
    let told = |of: &mut BackPressure, port| f64::from(ask(of, port, u32::MAX, at_ms(100))) * 8e-6;
    assert!((told(&mut hop, RIGHT) - 60.0).abs() < 0.5, "{}", told(&mut hop, RIGHT));
    assert!((told(&mut hop, LEFT) - 35.0).abs() < 0.1, "it keeps its fair share");
}

#[test]
fn a_lower_rate_of_the_way_is_left_as_it_is() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    let gap = Span::from_micros(278);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(50), &mut world);
    assert_eq!(ask(&mut hop, LEFT, 1000, at_ms(50)), 1000);
    assert_eq!(ask(&mut hop, HOST, 5_000_000, at_ms(50)), 5_000_000, "no traffic, no limit");
}

#[test]
fn plain_circuits_answer_what_the_switches_said() {
    let mut hop =
        router(&BackPressureConfig { feedback: Feedback::Circuit, ..BackPressureConfig::default() });
    let mut world = World::default();
    let gap = Span::from_micros(100);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(50), &mut world);
    assert_eq!(ask(&mut hop, LEFT, 15_000_000, at_ms(50)), 15_000_000);
}

#[test]
fn late_and_doubled_answers_change_nothing() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    hear(&mut hop, at_ms(10), mbps(50), at_ms(11), &mut world);
    hear(&mut hop, at_ms(9), mbps(90), at_ms(12), &mut world);
    hear(&mut hop, at_ms(10), mbps(90), at_ms(13), &mut world);
    hear(&mut hop, at_ms(99), mbps(90), at_ms(13), &mut world);
    assert_eq!(world.rates, [(OUT, mbps(50))]);
}

#[test]
fn a_circuit_keeps_its_minimum_and_no_link_exceeds_its_own_rate() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    hear(&mut hop, at_ms(1), mbps(1), at_ms(1), &mut world);
    hear(&mut hop, at_ms(2), mbps(900), at_ms(2), &mut world);
    assert_eq!(world.rates, [(OUT, mbps(20)), (OUT, mbps(150))]);
}

#[test]
fn a_silent_neighbour_is_forgotten() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    hear(&mut hop, at_ms(0), mbps(50), at_ms(0), &mut world);
    let gap = Span::from_micros(500);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(990), &mut world);
    assert_eq!(world.rates, [(OUT, mbps(50))], "not yet");
    drive(&mut hop, [gap, gap], at_ms(990), at_ms(1050), &mut world);
    assert_eq!(world.rates, [(OUT, mbps(50)), (OUT, mbps(150))]);
}

#[test]
fn a_neighbour_that_restarts_is_obeyed_at_once_and_its_outlets_after_the_idle_time() {
    let config = BackPressureConfig {
        feedback: Feedback::Selective,
        hold: Span::from_secs(9),
        ..BackPressureConfig::default()
    };
    let mut hop = router(&config);
    let mut world = World::default();
    let send = |at: &mut BackPressure, now| {
        let mut packet = Packet::new(0, FlowId(0), SEGMENT);
        at.on_arrival(&mut packet, &headers(), OUT, now).expect("it drops nothing");
    };
    // What its outlets accept together, in Mbit/s.
    let accepted = |at: &BackPressure, now| {
        let selective = at.selective.as_ref().expect("it is selective");
        selective.accepted(OUT, 1, now).map(|(_, all)| all * 8e-6)
    };
    let near = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 0.01);
    send(&mut hop, at_ms(99));
    outlet(&mut hop, at_ms(5_000), 1, 7, mbps(35), at_ms(100));
    send(&mut hop, at_ms(100));
    assert!(near(accepted(&hop, at_ms(100)), 35.0));
    // It restarts: its clock begins anew. Answers have our own stamps.
    hear(&mut hop, at_ms(200), mbps(50), at_ms(200), &mut world);
    assert_eq!(world.rates, [(OUT, mbps(50))]);
    outlet(&mut hop, at_ms(3), 1, 7, mbps(20), at_ms(1_099));
    assert!(near(accepted(&hop, at_ms(1_099)), 35.0), "an old message looks the same");
    outlet(&mut hop, at_ms(4), 1, 7, mbps(20), at_ms(1_100));
    assert!(near(accepted(&hop, at_ms(1_100)), 20.0), "a second after the last");
}

#[test]
fn a_router_without_traffic_sleeps() {
    let mut hop = router(&BackPressureConfig::default());
    let mut world = World::default();
    let gap = Span::from_micros(500);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(100), &mut world);
    hear(&mut hop, at_ms(100), mbps(50), at_ms(100), &mut world);
    let mut rounds = 0;
    while let Some(at) = hop.timer_at() {
        hop.on_timer(at.max(at_ms(100)), &mut world);
        rounds += 1;
        assert!(rounds < 200, "it goes on for nobody");
    }
    assert_eq!(world.rates.last(), Some(&(OUT, mbps(150))));
}

/// What the neighbour behind [`OUT`] says of one destination.
fn outlet(hop: &mut BackPressure, stamp: Time, host: u8, output: u16, rate: BitRate, now: Time) {
    let flow = FlowName { protocol: Protocol::TCP, destination: Address::V4([10, 0, 1, host]) };
    let mut encoder = Encoder::default();
    encoder.push(&Outlet { flow, output, rate: wire_rate(rate) });
    let message = encoder.finish(stamp).unwrap().to_vec();
    hop.on_message(OUT, &message, now, &mut World::default());
}

/// Both inputs send as much as they may of 75 Mbit/s, the left one to host 1 and the right one to host 2; the neighbour
/// accepts 35 and 40 of these. What each input is told, in Mbit/s.
fn told_of_uneven_parts(feedback: Feedback) -> [f64; 2] {
    let mut hop = router(&BackPressureConfig { feedback, ..BackPressureConfig::default() });
    let mut world = World::default();
    for ms in 0..100 {
        let now = at_ms(ms);
        hear(&mut hop, now, mbps(75), now, &mut world);
        for (side, host) in [(0, 1), (1, 2)] {
            let headers = Headers { destination: Address::V4([10, 0, 1, host]), ..headers() };
            for _ in 0..4 {
                // 4 segments of 23 cells in a millisecond are 39 Mbit/s.
                let mut packet = Packet::new(0, FlowId(0), SEGMENT);
                packet.in_port = side;
                hop.on_arrival(&mut packet, &headers, OUT, now).expect("it drops nothing");
            }
        }
        outlet(&mut hop, Time::from_nanos(2 * u64::from(ms as u32) + 1), 1, 7, mbps(35), now);
        outlet(&mut hop, Time::from_nanos(2 * u64::from(ms as u32) + 2), 2, 9, mbps(40), now);
        while let Some(at) = hop.timer_at().filter(|&at| at <= now) {
            hop.on_timer(at.max(now), &mut world);
        }
    }
    [LEFT, RIGHT].map(|port| f64::from(ask(&mut hop, port, u32::MAX, at_ms(100))) * 8e-6)
}

#[test]
fn a_sum_is_divided_evenly_and_selective_feedback_by_output() {
    let [first, second] = told_of_uneven_parts(Feedback::Aggregate);
    assert!((first - second).abs() < 0.1, "{first} {second}");
    let [left, right] = told_of_uneven_parts(Feedback::Selective);
    assert!(right > left + 4.0 && right <= 40.1, "{left} {right}");
}

#[test]
fn selective_feedback_names_the_output_of_each_destination() {
    let config = BackPressureConfig { feedback: Feedback::Selective, ..BackPressureConfig::default() };
    let mut hop = router(&config);
    let mut world = World::default();
    let gap = Span::from_micros(278);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(50), &mut world);
    let told = world.sent.iter().rev().find_map(|(port, message)| match wire::decode(message) {
        Ok(Message::Outlets { mut entries, .. }) if *port == RIGHT => entries.next(),
        _ => None,
    });
    let told = told.expect("it tells each period");
    assert_eq!((told.flow.destination, told.output), (Address::V4([10, 0, 1, 1]), OUT.0));
    assert!((f64::from(told.rate) * 8e-6 - 75.0).abs() < 8.0, "half of the link: {}", told.rate);
}

/// Packets of [`LEFT`] to each of `hosts`, ten in a millisecond, for as long; what [`LEFT`] is told of.
fn told_of_many(hop: &mut BackPressure, hosts: u16, from: u64, until: u64) -> Vec<Address> {
    let mut world = World::default();
    for ms in from..until {
        let now = at_ms(ms);
        for host in 0..hosts {
            let destination = Address::V4([10, 1, (host >> 8) as u8, host as u8]);
            let mut packet = Packet { in_port: LEFT.0, ..Packet::new(0, FlowId(0), 64) };
            hop.on_arrival(&mut packet, &Headers { destination, ..headers() }, OUT, now)
                .expect("it drops nothing");
        }
        while let Some(at) = hop.timer_at().filter(|&at| at <= now) {
            hop.on_timer(at, &mut world);
        }
    }
    let entries = world.sent.iter().filter_map(|(port, message)| match wire::decode(message) {
        Ok(Message::Outlets { entries, .. }) if *port == LEFT => Some(entries),
        _ => None,
    });
    let mut told: Vec<Address> = entries.flatten().map(|outlet| outlet.flow.destination).collect();
    told.sort_unstable();
    told.dedup();
    told
}

#[test]
fn more_routes_than_a_message_holds_are_told_in_turn() {
    let config = BackPressureConfig { feedback: Feedback::Selective, ..BackPressureConfig::default() };
    let mut hop = router(&config);
    // 121 entries of 12 bytes fit.
    assert_eq!(told_of_many(&mut hop, 300, 0, 11).len(), 121);
    assert_eq!(told_of_many(&mut hop, 300, 11, 41).len(), 300);
    // On a way that takes less there are fewer in each.
    let mut narrow = router(&config);
    narrow.limit_messages(20 + 40 * 12);
    assert_eq!(told_of_many(&mut narrow, 300, 0, 11).len(), 40);
    assert_eq!(told_of_many(&mut narrow, 300, 11, 111).len(), 300);
}

#[test]
fn silent_routes_make_room_for_new_ones_and_others_keep_their_place() {
    let config = BackPressureConfig {
        feedback: Feedback::Selective,
        routes_max: 100,
        ..BackPressureConfig::default()
    };
    let mut hop = router(&config);
    assert_eq!(told_of_many(&mut hop, 100, 0, 50).len(), 100);
    // Every third goes on; the others are silent for the idle time, a second.
    let destination = |host: u16| Address::V4([10, 1, 0, host as u8]);
    let mut world = World::default();
    for ms in 50..1_100 {
        let now = at_ms(ms);
        for host in (0..100).step_by(3) {
            let mut packet = Packet { in_port: LEFT.0, ..Packet::new(0, FlowId(0), 64) };
            let headers = Headers { destination: destination(host), ..headers() };
            hop.on_arrival(&mut packet, &headers, OUT, now).expect("it drops nothing");
        }
        while let Some(at) = hop.timer_at().filter(|&at| at <= now) {
            hop.on_timer(at, &mut world);
        }
    }
    let selective = hop.selective.as_ref().expect("it is selective");
    assert_eq!(selective.routes_of(1).count(), 34);
    // A second of these hundred would not fit beside lost places: each is found again, and none is there twice.
    assert_eq!(told_of_many(&mut hop, 100, 1_100, 1_150).len(), 100);
    assert_eq!(hop.selective.as_ref().map(|of| of.routes_of(1).count()), Some(100));
}

#[test]
fn routes_beyond_the_bound_count_in_the_sum_only() {
    let config =
        BackPressureConfig { feedback: Feedback::Selective, routes_max: 0, ..BackPressureConfig::default() };
    let mut hop = router(&config);
    let mut world = World::default();
    let gap = Span::from_micros(278);
    drive(&mut hop, [gap, gap], Time::ZERO, at_ms(50), &mut world);
    assert!(
        world.sent.iter().all(|(_, message)| !matches!(wire::decode(message), Ok(Message::Outlets { .. })))
    );
    assert!(ask(&mut hop, LEFT, u32::MAX, at_ms(50)) < u32::MAX);
}

/// What all outputs accept of what comes in by `port`, from a look at all of them.
fn accepted_by_all(hop: &BackPressure, port: PortId, now: Time) -> Option<BitRate> {
    let input = usize::from(hop.slots[port.index()]);
    let mut sum = None;
    for (index, output) in hop.ports.iter().enumerate() {
        if index == port.index() || !output.inputs.contributes(input, now) {
            continue;
        }
        let rate = output.rate().as_bytes_per_second_f64();
        let even = output.inputs.share(input) * rate;
        let told = hop.selective.as_ref().and_then(|known| known.accepted(PortId(index as u16), input, now));
        let accepts = match told {
            Some((own, all)) if all <= (1.0 + hop.config.tolerance) * rate => own,
            Some((own, _)) => own.min(even),
            None => even,
        };
        sum = Some(sum.unwrap_or(0.0) + accepts);
    }
    sum.map(BitRate::from_bytes_per_second_f64)
}

proptest::proptest! {
    #[test]
    fn sums_that_are_kept_are_those_of_all_outputs(
        steps in proptest::collection::vec((0u8..8, 0u16..4, 0u16..4, 0u64..20), 1..300),
        is_selective in proptest::bool::ANY,
    ) {
        let feedback = if is_selective { Feedback::Selective } else { Feedback::Aggregate };
        let config = BackPressureConfig {
            feedback,
            hold: Span::from_millis(25),
            idle: Span::from_millis(60),
            ..BackPressureConfig::default()
        };
        let (mut hop, mut world, mut now) = (router(&config), World::default(), at_ms(1));
        for (what, from, to, number) in steps {
            let rate = mbps(25 + 7 * number);
            match what {
                0 => now += Span::from_millis(number),
                1 => hop.set_link_rate(PortId(to), rate, now),
                2 => {
                    let answer = Rm { stamp: now, rate: wire_rate(rate) }.encode_backward();
                    hop.on_message(PortId(to), &answer, now, &mut world);
                }
                3 => outlet(&mut hop, now, number as u8, from, rate, now),
                _ => {
                    let headers = Headers { destination: Address::V4([10, 0, 1, number as u8]), ..headers() };
                    let mut packet = Packet { in_port: from, ..Packet::new(0, FlowId(0), SEGMENT) };
                    hop.on_arrival(&mut packet, &headers, PortId(to), now).expect("it drops nothing");
                    hop.on_departure(&packet, &headers, PortId(to), now);
                }
            }
            while hop.timer_at().is_some_and(|at| at <= now) {
                hop.on_timer(now, &mut world);
            }
            for port in [LEFT, RIGHT, OUT, HOST] {
                let wanted = accepted_by_all(&hop, port, now);
                proptest::prop_assert_eq!(hop.accepted(port, now), wanted);
            }
        }
    }

    #[test]
    fn any_bytes_from_a_neighbour_are_survived(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), port in 0u16..6,
    ) {
        let mut hop = router(&BackPressureConfig::default());
        hop.on_message(PortId(port), &bytes, at_ms(1), &mut World::default());
    }
}
