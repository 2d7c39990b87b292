//! What comparisons with other approaches need (Feng, thesis, section 4.5), from the text of a scenario to its results.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_lab::run;
use tidegate_scenario::Document;

/// Megabits per second that each flow received.
fn megabits(text: &str, flows: &[&str]) -> Vec<f64> {
    let document = Document::from_text("test.toml", text).unwrap();
    let scenario = Arc::new(document.scenario().unwrap());
    let summary: serde_json::Value =
        serde_json::from_str(&run(&scenario, 1).unwrap().summary.to_json()).unwrap();
    flows.iter().map(|flow| summary["flows"][flow]["throughput_bps"].as_f64().unwrap() / 1e6).collect()
}

/// Three flows over a link of 3 Mb/s: `u1` and `u2` at 2 Mb/s, and `big` at 6 Mb/s.
fn three_flows(queue: &str, rest: &str) -> String {
    let mut text = format!(
        r#"
        duration = "40s"
        warmup = "10s"
        nodes = {{ hosts = ["s1", "s2", "s3", "d"], routers = ["i", "r", "e"] }}
        defaults.link = {{ rate = "100Mbit", delay = "1ms" }}
        links.core = {{ between = ["i", "r"], rate = "3Mbit", queue = {queue} }}
        links.out = {{ between = ["r", "e"] }}
        links.last = {{ between = ["e", "d"] }}
        {rest}
        "#
    );
    for (source, flow, rate) in [("s1", "u1", 2), ("s2", "u2", 2), ("s3", "big", 6)] {
        writeln!(text, "[links.{source}]\nbetween = [\"{source}\", \"i\"]").unwrap();
        writeln!(text, "[flows.{flow}]\nfrom = \"{source}\"\nto = \"d\"\ntransport = \"udp\"").unwrap();
        writeln!(text, "application = {{ kind = \"cbr\", rate = \"{rate}Mbit\", jitter = 0.5 }}").unwrap();
    }
    text
}

const FLOWS: [&str; 3] = ["u1", "u2", "big"];

/// Section 4.5.3.
#[test]
fn red_per_active_flow_is_drr_over_red_and_shares_evenly_where_red_alone_does_not() {
    let red = r#"{ kind = "red", limit = "30p" }"#;
    let alone = megabits(&three_flows(red, ""), &FLOWS);
    assert!(alone[2] > 1.5, "RED gives in proportion to what is offered: {alone:?}");
    for scheduler in ["drr", "wfq"] {
        let queue = format!(r#"{{ kind = "{scheduler}", queue = {red} }}"#);
        let shares = megabits(&three_flows(&queue, ""), &FLOWS);
        assert!(shares.iter().all(|share| (share - 1.0).abs() < 0.03), "{scheduler}: {shares:?}");
    }
}

#[test]
fn fred_holds_an_unresponsive_flow_closer_to_its_share_than_red() {
    let red =
        megabits(&three_flows(r#"{ kind = "red", limit = "100p", min = "25p", max = "50p" }"#, ""), &FLOWS);
    let fred = megabits(&three_flows(r#"{ kind = "fred", limit = "100p" }"#, ""), &FLOWS);
    assert!(fred[2] < red[2] - 0.3, "FRED {fred:?}, RED {red:?}");
}

/// Section 4.5.5: "a misconfigured or poorly implemented edge device can significantly impact the fairness".
#[test]
fn a_flow_of_which_the_edge_lies_gets_more_than_its_share_under_csfq() {
    let domain = |labels: &str| {
        format!(
            "domains.net = {{ edges = [\"i\", \"e\"], core = [\"r\"], labels = {{ kind = \"csfq\"{labels} }} }}"
        )
    };
    let with = |labels: &str| {
        megabits(
            &three_flows(r#"{ kind = "csfq", limit = "60p", threshold = "5p" }"#, &domain(labels)),
            &FLOWS,
        )
    };
    let honest = with("");
    assert!(honest.iter().all(|share| (share - 1.0).abs() < 0.15), "{honest:?}");
    let lying = with(r#", lie = 0.25, liars = ["big"]"#);
    assert!(lying[2] > 1.5 && lying[0] < 0.8 && lying[1] < 0.8, "{lying:?}");
    // If the edge lies of all alike, nobody gains.
    let all = with(", lie = 0.25");
    assert!(all.iter().all(|share| (share - 1.0).abs() < 0.2), "{all:?}");
}
