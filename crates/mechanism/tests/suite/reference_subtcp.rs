//! SUBTCP and ECN time-outs against an independent implementation in Python: the same acknowledgments, echoes, losses and
//! attempts to send give the same windows, the same scale and the same waits.
//!
//! Source: tests/oracle/python/README.md; tests/oracle/verdicts/subtcp.json, which those scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::tcp::congestion::{
    Ack, Congestion, CongestionControl, CongestionControlConfig, Permission, Segment, Signal, SubTcpConfig,
    SubTcpForm,
};
use tidegate_mechanism::tcp::{TcpConfig, TcpSender, Variant};
use tidegate_packet::{TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

fn frozen() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/subtcp.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list"))
}

fn nanos(value: &Value) -> u64 {
    value.as_u64().expect("times are whole nanoseconds")
}

#[test]
fn windows_scales_and_waits_are_those_of_the_reference() {
    let mut seen = 0;
    for case in items(&frozen(), "subtcp") {
        let (name, parameter) = (&case["name"], case["parameter"].as_f64().unwrap());
        let base = SubTcpConfig::default();
        let config = CongestionControlConfig::SubTcp(match case["form"].as_str().unwrap() {
            "halving" => base,
            "scaled" => SubTcpConfig { form: SubTcpForm::Scaled, scale_factor: parameter, ..base },
            _ => SubTcpConfig { form: SubTcpForm::Bandwidth, increase: parameter, ..base },
        });
        let mut control = config.build(&TcpConfig::ns_1999(Variant::Reno));
        let mut now = Time::ZERO;
        for (event, row) in items(case, "events").iter().zip(items(case, "rows")) {
            now += Span::from_nanos(nanos(&event[0]));
            let rtt = Span::from_nanos(nanos(&event[2]));
            let signal = match event[1].as_str().unwrap() {
                "ack" => None,
                "echo" => Some(Signal::EcnEcho),
                "loss" => Some(Signal::Loss),
                "timeout" => Some(Signal::Timeout),
                _ => {
                    if control.may_send(0, 1000, now) == Permission::Now {
                        let segment = Segment {
                            sequence: 0,
                            payload_bytes: 1000,
                            wire_bytes: 1000,
                            retransmission: false,
                        };
                        control.on_send(&segment, now);
                    }
                    compare(&control, row, now, name);
                    seen += 1;
                    continue;
                }
            };
            let window = control.cwnd_bytes();
            if let Some(signal) = signal {
                let congestion = Congestion {
                    signal,
                    sequence: 0,
                    echoed: None,
                    window_bytes: window,
                    flight_bytes: window,
                    repeated: false,
                    srtt: rtt,
                    rto: Span::from_secs(1),
                };
                control.on_congestion(&congestion, now);
            } else {
                control.on_ack(
                    &Ack {
                        acknowledgment: 0,
                        acked_bytes: 1000,
                        flight_bytes: window,
                        srtt: rtt,
                        sample: None,
                    },
                    now,
                );
            }
            compare(&control, row, now, name);
            seen += 1;
        }
    }
    assert_eq!(seen, 15 * 400, "all frozen events were replayed");
}

fn compare(control: &impl CongestionControl, row: &Value, now: Time, name: &Value) {
    let free_at = match control.may_send(0, 1000, now) {
        Permission::At(at) => at.as_nanos(),
        Permission::Now => 0,
        Permission::No => unreachable!("nothing is under way"),
    };
    assert_eq!(free_at, nanos(&row[0]), "{name} at {now:?}");
    assert_eq!(control.cwnd_bytes() / 1000, nanos(&row[1]), "{name} at {now:?}");
    for (variable, expected) in [("cwnd_segments", &row[2]), ("scale", &row[3])] {
        let (ours, theirs) = (control.variable(variable).unwrap(), expected.as_f64().unwrap());
        assert!((ours - theirs).abs() <= 1e-9 * theirs, "{name} at {now:?}: {variable} {ours}, not {theirs}");
    }
}

/// One segment is under way at a time; its acknowledgment comes a tick later. The sender must neither send during the
/// pause nor take it for a loss.
#[test]
fn ecn_timeouts_last_as_long_as_those_of_the_reference() {
    let rtt = Span::from_millis(100);
    let mut all = 0;
    for case in items(&frozen(), "ecn_timeouts") {
        let base = TcpConfig::ns_1999(Variant::Reno);
        let config = TcpConfig { ecn: true, ecn_timeout: true, ..base }.with_window_packets(1);
        let mut sender = TcpSender::new(&config);
        sender.set_unlimited();
        let mut now = Time::ZERO;
        let mut paused = 0;
        for (echo, pause) in items(case, "echoes").iter().zip(items(case, "pauses")) {
            let sent = sender.poll_transmit(now).expect("the sender may send");
            assert!(sender.poll_transmit(now).is_none(), "one at a time");
            now += rtt;
            let acknowledgment = sent.header.sequence + 1000;
            let echo = echo.as_bool().unwrap();
            let flags = TcpFlags::ACK.with_if(echo, TcpFlags::ECE);
            sender.on_ack(
                &TcpHeader { acknowledgment, flags, window_bytes: 1000, ..TcpHeader::default() },
                now,
            );
            if nanos(pause) > 0 {
                assert!(sender.poll_transmit(now).is_none(), "the sender pauses");
                let due = now + Span::from_nanos(nanos(pause));
                assert_eq!(sender.timer_at(), Some(due));
                sender.on_timer(due);
                now = due;
                paused += 1;
            }
        }
        assert_eq!(sender.counters().timeouts, 0, "a pause is no loss");
        assert_eq!(sender.counters().ecn_timeouts, paused);
        all += paused;
    }
    assert!(all > 60, "{all} pauses are many");
}
