//! The frozen outputs of ns-2, for the tests of connections and of the engine.
//!
//! Source: tests/oracle/ns2/README.md, section 4.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::tcp::{FastRetransmitGuard, TcpConfig, Variant};
use tidegate_units::Span;

/// What is in `file`.
pub fn frozen(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/ns2/frozen").join(file);
    let text = std::fs::read_to_string(path).expect("the frozen outputs of ns-2 are part of the repository");
    serde_json::from_str(&text).expect("they are JSON")
}

/// The TCP of `case`, without ECN, whose clock is `phase` seconds late.
pub fn tcp_of(case: &Value, phase: f64) -> TcpConfig {
    let variant = match case["variant"].as_str().unwrap() {
        "tahoe" => Variant::Tahoe,
        "reno" | "reno-nobugfix" => Variant::Reno,
        "newreno" => Variant::NewReno,
        "sack1" => Variant::Sack,
        other => panic!("unknown variant {other}"),
    };
    let window = u32::try_from(case["window"].as_u64().unwrap()).unwrap();
    let mut config = TcpConfig::ns_1999(variant).with_window_packets(window);
    if case["variant"] == "reno-nobugfix" {
        config.fast_retransmit_guard = FastRetransmitGuard::Off;
    }
    config.rto.clock_phase = Some(Span::from_secs_f64(phase));
    if case["sink"] == "delack" { config.with_ns_delayed_ack() } else { config }
}
