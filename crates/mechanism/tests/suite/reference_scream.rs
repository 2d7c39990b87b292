//! `SCReAM` against an independent implementation in Python: the same reports and frames give the same windows, bitrates, limits, distances
//! between packets, `l4s_alpha` and targets of the delay.
//!
//! Source: tests/oracle/python/README.md; tests/oracle/verdicts/scream.json, which those scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::scream::{Control, Feedback, ScreamConfig};
use tidegate_mechanism::tcp::EcnUse;
use tidegate_units::{BitRate, Span, Time};

/// What is frozen has nine digits, and sums are in another order.
const TOLERANCE: f64 = 1e-7;

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list"))
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn span(value: &Value) -> Option<Span> {
    value.as_u64().map(Span::from_nanos)
}

fn config(case: &Value) -> ScreamConfig {
    let rate = |key: &str| BitRate::from_bps(whole(&case[key]));
    let is_l4s = case["l4s"].as_bool().expect("yes or no");
    ScreamConfig {
        ecn: if is_l4s { EcnUse::L4s } else { EcnUse::Classic },
        competing: case["competing"].as_bool().expect("yes or no"),
        reduce_jitter: case["reduce_jitter"].as_bool().expect("yes or no"),
        min_rate: rate("least"),
        max_rate: Some(rate("most")),
        ..ScreamConfig::default()
    }
}

fn is_near(found: f64, expected: &Value) -> bool {
    let expected = expected.as_f64().expect("a number");
    (found - expected).abs() <= TOLERANCE * expected.abs().max(1e-3)
}

#[test]
fn windows_and_rates_are_those_of_the_reference() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/scream.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    let frozen: Value = serde_json::from_str(&text).expect("the frozen verdicts are JSON");
    let (mut seen, mut all_drifts) = (0, 0);
    for case in items(&frozen, "traces") {
        let mut control = Control::new(&config(case));
        let (mut now, mut drifts, mut rows) = (Time::ZERO, 0, items(case, "rows").iter());
        for (number, (event, window)) in items(case, "events").iter().zip(items(case, "windows")).enumerate()
        {
            let event = event.as_array().expect("a list");
            now += Span::from_nanos(whole(&event[1]));
            if event[0] == "f" {
                control.on_frame(Span::from_nanos(whole(&event[2])), whole(&event[3]), Span::from_millis(20));
            } else {
                let feedback = Feedback {
                    rtt: span(&event[2]),
                    queue_delay: span(&event[3]),
                    units: whole(&event[4]) as u32,
                    units_marked: whole(&event[5]) as u32,
                    acked_bytes: whole(&event[6]),
                    marked_bytes: whole(&event[7]),
                    is_loss: whole(&event[8]) > 0,
                    in_flight_bytes: whole(&event[9]),
                };
                drifts += u64::from(control.on_feedback(&feedback, now));
            }
            let at = format!("event {number} of seed {}", case["seed"]);
            let ref_wnd = control.ref_wnd_bytes();
            assert!(is_near(ref_wnd, window), "{ref_wnd} for a window of {window}, {at}");
            if number % 8 == 7 {
                let found = [
                    control.bitrate_bps(),
                    control.in_flight_limit_bytes(),
                    control.pace(1000).as_nanos() as f64 / 1e3,
                    control.l4s_alpha() * 1e6,
                    control.delay_target_secs() * 1e6,
                ];
                let row = rows.next().and_then(Value::as_array).expect("a row");
                let near = |(value, expected): (&f64, &Value)| {
                    // Distances are whole nanoseconds.
                    is_near(*value, expected) || (value - expected.as_f64().expect("a number")).abs() < 2e-3
                };
                assert!(found.iter().zip(row).all(near), "{found:?} for {row:?}, {at}");
            }
        }
        assert_eq!(drifts, whole(&case["drifts"]), "seed {}", case["seed"]);
        all_drifts += drifts;
        seen += 1;
    }
    assert!(seen >= 50 && all_drifts >= 5, "{seen} traces, {all_drifts} drifts");
}
