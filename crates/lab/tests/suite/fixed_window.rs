//! Little's law: a window that never changes, over the round-trip time, is the rate.

use std::sync::Arc;

use tidegate_scenario::Document;

/// The rate of a flow alone, in bits per second, with this window in segments.
fn rate(segments: u32) -> f64 {
    let text = format!(
        r#"
        duration = "30s"
        warmup = "5s"
        nodes.hosts = ["A", "B"]
        [links.only]
        between = ["A", "B"]
        rate = "10Mbit"
        delay = "20ms"
        queue = {{ kind = "droptail", limit = "1000p" }}
        [flows.f]
        from = "A"
        to = "B"
        transport = {{ kind = "tcp", delayed_ack = false, control = {{ kind = "fixed", segments = {segments} }} }}
        "#
    );
    let scenario = Document::from_text("fixed", &text).unwrap().scenario();
    let scenario = Arc::new(scenario.unwrap_or_else(|errors| panic!("{}", errors.render())));
    let summary = tidegate_lab::run(&scenario, 1).unwrap().summary.to_json();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    summary["flows"]["f"]["throughput_bps"].as_f64().unwrap()
}

#[test]
fn the_rate_is_the_window_over_the_round_trip_time_until_the_link_is_full() {
    // 40 ms of distance, 1.2 ms for a segment of 1500 bytes, 32 us for its acknowledgment.
    let round_trip = 0.040 + 1500.0 * 8.0 / 10e6 + 40.0 * 8.0 / 10e6;
    for segments in [1, 2, 5, 20, 34] {
        let expected = f64::from(segments) * 1500.0 * 8.0 / round_trip;
        let found = rate(segments);
        assert!((found / expected - 1.0).abs() < 2e-3, "{segments}: {found}, not {expected}");
    }
    assert!((rate(35) / 10e6 - 1.0).abs() < 2e-3, "35 segments fill the link");
    assert!((rate(300) / 10e6 - 1.0).abs() < 2e-3, "the rest waits in its queue");
}
