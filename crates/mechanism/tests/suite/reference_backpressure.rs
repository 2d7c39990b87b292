//! Back-pressure against an independent implementation in Python: for the same packets and the same explicit rates a router
//! answers its neighbours the same rates.
//!
//! Source: tests/oracle/python/README.md; tests/oracle/verdicts/backpressure.json, which those scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::hop::backpressure::{BackPressureConfig, Capacity, Excess};
use tidegate_mechanism::hop::wire::{self, Message, Rm};
use tidegate_mechanism::hop::{Circuit, HopControl, HopOut, Neighbor, Port, PortId};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Address, FlowId, Headers, Packet, Protocol};
use tidegate_units::{BitRate, Span, Time};

fn frozen() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/backpressure.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn items(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn rate(bytes_per_second: u64) -> BitRate {
    BitRate::from_bps(bytes_per_second * 8)
}

fn config(of: &Value) -> BackPressureConfig {
    let real = |key: &str| of[key].as_f64().expect("a number");
    let is = |key: &str| of[key].as_bool().expect("a switch");
    BackPressureConfig {
        period: Span::from_nanos(whole(&of["period_ns"])),
        hold: Span::from_nanos(whole(&of["hold_ns"])),
        tolerance: real("tolerance"),
        reserved: real("reserved"),
        rate_min: rate(whole(&of["lowest"])),
        capacity: if is("measured") { Capacity::Measured } else { Capacity::ExplicitRate },
        excess: if is("over_told") { Excess::OverTold } else { Excess::OverNew },
        ..BackPressureConfig::default()
    }
}

/// The ports to routers, as in the reference, and one to all hosts.
fn ports(of: &Value) -> Vec<Port> {
    let port = |each: &Value| Port {
        rate: rate(whole(&each["rate"])),
        neighbor: Neighbor::Router,
        circuit: each["mcr"].as_u64().map(|mcr| Circuit { minimum: rate(mcr) }),
    };
    let host = Port { rate: BitRate::from_mbps(1000), neighbor: Neighbor::Host, circuit: None };
    items(of).iter().map(port).chain([host]).collect()
}

/// The last answer to a question.
#[derive(Default)]
struct World {
    answer: Option<u32>,
}

impl HopOut for World {
    fn send(&mut self, _port: PortId, message: &[u8]) {
        if let Ok(Message::RmBackward(rm)) = wire::decode(message) {
            self.answer = Some(rm.rate);
        }
    }

    fn set_rate(&mut self, _port: PortId, _rate: BitRate) {}

    fn release(&mut self, _port: PortId, _packet: Packet, _sequence: u32) {
        unreachable!("it holds nothing");
    }
}

#[test]
fn a_router_tells_its_neighbours_the_rates_of_the_reference() {
    let headers =
        Headers::best_effort(Protocol::TCP, (Address::V4([10, 0, 0, 1]), 1), (Address::V4([10, 0, 1, 1]), 2));
    let mut compared = 0;
    for router in items(&frozen()["backpressure"]) {
        let ports = ports(&router["ports"]);
        let host = ports.len() as u64 - 1;
        for case in items(&router["cases"]) {
            let what = format!("{} {}", router["router"], case["name"]);
            let context = Context { seed: Seed(1), link_rate: BitRate::MAX, mtu_bytes: 1500 };
            let mut hop = config(&case["config"]).build(&ports, &context);
            let mut world = World::default();
            let mut answers = items(&case["answers"]).iter();
            for event in items(&router["events"]) {
                let now = Time::from_nanos(whole(&event[0]));
                let mut timers_at = Time::ZERO;
                while let Some(at) = hop.timer_at().filter(|&at| at <= now) {
                    timers_at = at.max(timers_at);
                    hop.on_timer(timers_at, &mut world);
                }
                let port = |at: usize| PortId(event[at].as_u64().unwrap_or(host) as u16);
                match event[1].as_str() {
                    Some("packet") => {
                        let mut packet = Packet::new(0, FlowId(0), whole(&event[4]) as u32);
                        packet.in_port = port(2).0;
                        hop.on_arrival(&mut packet, &headers, port(3), now).expect("it drops nothing");
                        hop.on_departure(&packet, &headers, port(3), now);
                    }
                    Some("rm") => {
                        let rm = Rm { stamp: now, rate: whole(&event[3]) as u32 };
                        hop.on_message(port(2), &rm.encode_backward(), now, &mut world);
                    }
                    _ => {
                        let rm = Rm { stamp: now, rate: whole(&event[3]) as u32 };
                        hop.on_message(port(2), &rm.encode_forward(), now, &mut world);
                        let expected = whole(answers.next().expect("each question has an answer"));
                        let found = u64::from(world.answer.take().expect("it answers at once"));
                        // Ours rounds to bits per second at each output and for the sum, and down to bytes.
                        assert!(found.abs_diff(expected) <= 1, "{what} at {now:?}: {found}, not {expected}");
                        compared += 1;
                    }
                }
            }
            assert!(answers.next().is_none(), "{what}");
        }
    }
    assert!(compared > 1000, "{compared}");
}
