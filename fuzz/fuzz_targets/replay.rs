//! A recording whose records are any in any order is replayed or refused. Its scenario is a fixed one: others have their own target.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_emulator::replay::replay;
use tidegate_packet::{Address, Arrival, Dscp, Ecn, Headers, OutsideTcp, Protocol};
use tidegate_units::Time;
use tidegate_wire::recording::{Configuration, Record, Writer};

const SCENARIO: &str = r#"
duration = "2s"
nodes = { hosts = ["A", "B"], routers = ["I", "E"], real = ["A", "B"] }
defaults.link = { rate = "2Mbit", delay = "3ms" }
links.a = { between = ["A", "I"], duplicate = 0.05 }
links.m = { between = ["I", "E"], queue = "red" }
links.b = { between = ["E", "B"] }
domains.net = { edges = ["I", "E"], mechanism = { kind = "nbp" } }
"#;

#[derive(Arbitrary, Debug)]
enum Said {
    Headers(u8, u16),
    Arrival { after_nanos: u32, flow: u8, wire_bytes: u16, bits: u8, ttl: u8, tcp: Option<(u32, u32, u16)> },
    Ran(u32),
}

fuzz_target!(|said: Vec<Said>| {
    let configuration = Configuration {
        name: "f".into(),
        scenario: SCENARIO.into(),
        flows_per_pair: 2,
        ..Configuration::default()
    };
    let mut writer = Writer::new(Vec::new(), &configuration);
    let mut now = Time::ZERO;
    for (serial, said) in (0..).zip(said.into_iter().take(400)) {
        writer.write(&match said {
            Said::Headers(flow, port) => {
                let headers = Headers {
                    source: Address::V4([10, 0, 0, 1]),
                    destination: Address::V4([10, 0, 0, 2]),
                    flow_label: 0,
                    protocol: Protocol::TCP,
                    source_port: port,
                    destination_port: 1,
                    dscp: Dscp::BEST_EFFORT,
                    ecn: Ecn::NotEct,
                };
                Record::Headers(flow.into(), headers)
            }
            Said::Arrival { after_nanos, flow, wire_bytes, bits, ttl, tcp } => {
                now = Time::from_nanos(now.as_nanos() + u64::from(after_nanos >> 4));
                let tcp = tcp.map(|(sequence, acknowledgment, payload_bytes)| OutsideTcp {
                    sequence,
                    acknowledgment,
                    payload_bytes,
                    has_ack: true,
                    ..OutsideTcp::default()
                });
                Record::Arrival(
                    now,
                    Arrival {
                        flow: flow.into(),
                        handle: serial,
                        wire_bytes: wire_bytes.into(),
                        ecn: Ecn::from_bits(bits),
                        dscp: Dscp::new(bits >> 2),
                        ttl,
                        tcp,
                    },
                )
            }
            Said::Ran(after) => {
                now = Time::from_nanos(now.as_nanos() + u64::from(after >> 4));
                Record::Ran(now)
            }
        });
    }
    // No verdict is in it, so that it differs where there is any; it must say so.
    let _ = replay(&writer.finish(now).expect("memory is not full")[..]);
});
