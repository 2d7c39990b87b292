//! What summaries and series say, from the text of a scenario.

use std::sync::Arc;

use tidegate_lab::{Outcome, run};
use tidegate_scenario::Document;

fn output(flows: &str) -> Outcome {
    let text = format!(
        r#"
        duration = "20s"
        warmup = "5s"
        nodes = {{ hosts = ["a", "b"], routers = ["r"] }}
        links.l = {{ between = ["a", "r"], rate = "1Mbit", delay = "10ms" }}
        links.r = {{ between = ["r", "b"], rate = "1Gbit", delay = "10ms" }}
        {flows}
        "#
    );
    let document = Document::from_text("test.toml", &text).unwrap();
    run(&Arc::new(document.scenario().unwrap()), 1).unwrap()
}

fn flow(flows: &str) -> serde_json::Value {
    let summary: serde_json::Value = serde_json::from_str(&output(flows).summary.to_json()).unwrap();
    summary["flows"]["f"].clone()
}

#[test]
fn a_transfer_says_how_long_it_took_even_if_that_was_during_the_warm_up() {
    let summary = flow(
        r#"flows.f = { from = "a", to = "b", transport = "tcp", start = "1s", application = { kind = "transfer", size = "100kB" } }"#,
    );
    let seconds = summary["completion_s"].as_f64().unwrap();
    // 100 kB of payload and 40 bytes of headers in 1000 or 1500 at 1 Mb/s, a round trip of 40 ms for the last
    // acknowledgment, and some more while the window opens.
    assert!((0.8 + 0.04..0.8 * 1.06 + 0.5).contains(&seconds), "{seconds} s");
}

#[test]
fn a_transfer_that_is_not_over_has_no_completion_time() {
    for stop in ["", r#", stop = "2s""#] {
        let summary = flow(&format!(
            r#"flows.f = {{ from = "a", to = "b", transport = "tcp"{stop}, application = {{ kind = "transfer", size = "100MB" }} }}"#
        ));
        assert!(summary.as_object().unwrap().contains_key("completion_s"), "{summary}");
        assert!(summary["completion_s"].is_null(), "{summary}");
    }
}

#[test]
fn what_is_no_transfer_has_no_completion_time() {
    for transport in ["\"tcp\"", r#""udp", application = { kind = "cbr", rate = "100kbit" }"#] {
        let summary = flow(&format!(r#"flows.f = {{ from = "a", to = "b", transport = {transport} }}"#));
        assert!(!summary.as_object().unwrap().contains_key("completion_s"), "{summary}");
    }
}

/// So that every variant of an experiment has the same series.
#[test]
fn what_a_queue_a_transport_or_a_domain_lacks_is_recorded_as_nan() {
    let names = [
        "links.l.average_queue_packets",
        "links.l.bin.0.3.p_m",
        "flows.f.cwnd_bytes",
        "domains.d.f.ingress_rate_bps",
        "links.l.queue_packets",
    ];
    let output = output(&format!(
        r#"
        flows.f = {{ from = "a", to = "b", transport = "udp", application = {{ kind = "cbr", rate = "2Mbit" }} }}
        domains.d = {{ edges = ["r"], mechanism = "none" }}
        record = {{ every = "1s", series = {names:?} }}
        "#
    ));
    assert_eq!(output.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), names);
    for series in &output.series {
        let is_known = series.name == "links.l.queue_packets";
        assert_eq!(series.values.len(), 20, "{}", series.name);
        assert!(series.values.iter().all(|value| value.is_nan() != is_known), "{}", series.name);
    }
}

#[test]
fn a_pattern_records_only_what_has_the_quantity_if_something_has() {
    let output = output(
        r#"
        flows.f = { from = "a", to = "b", transport = "tcp" }
        flows.g = { from = "a", to = "b", transport = "udp", application = { kind = "cbr", rate = "100kbit" } }
        record = { every = "1s", series = ["flows.*.cwnd_bytes"] }
        "#,
    );
    assert_eq!(
        output.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(),
        ["flows.f.cwnd_bytes"]
    );
}
