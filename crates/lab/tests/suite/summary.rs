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

/// What is warned of on a chain of so many routers, and how many packets its flow delivers.
fn chain(routers: usize) -> (Vec<String>, u64) {
    let text = format!(
        r#"
        duration = "2s"
        nodes = {{ hosts = ["A", "B"], routers = ["R{{1..{routers}}}"] }}
        [defaults]
        link = {{ rate = "10Mbit", delay = "0s" }}
        [links.in]
        between = ["A", "R1"]
        [links.out]
        between = ["R{routers}", "B"]
        [links."R{{i}}"]
        repeat = "i = 1..{}"
        between = ["R{{i}}", "R{{i+1}}"]
        [flows.f]
        from = "A"
        to = "B"
        transport = "udp"
        application = {{ kind = "cbr", rate = "100kbit" }}
        "#,
        routers - 1
    );
    let document = tidegate_scenario::Document::from_text("chain", &text).unwrap();
    let scenario = document.scenario().unwrap_or_else(|errors| panic!("{}", errors.render()));
    let warnings = tidegate_lab::warnings(&document, &scenario);
    let summary = tidegate_lab::run(&std::sync::Arc::new(scenario), 1).unwrap().summary.to_json();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let delivered = summary["flows"]["f"]["received_packets"].as_u64().unwrap();
    (warnings.iter().map(ToString::to_string).collect(), delivered)
}

#[test]
fn a_way_that_no_packet_survives_is_warned_of_and_the_longest_that_one_does_is_not() {
    let (warnings, delivered) = chain(254);
    assert!(warnings.is_empty() && delivered > 0, "{warnings:?} {delivered}");
    let (said, arrived) = chain(255);
    assert_eq!(arrived, 0);
    assert!(said[0].contains("255 routers lie on its way, and a packet passes 254 at most"), "{said:?}");
    assert!(said[0].starts_with("chain:") && said[0].contains("flows.f"), "{said:?}");
}

#[test]
fn a_record_that_takes_a_gigabyte_is_warned_of_and_its_run_can_be_interrupted() {
    let text = r#"
        duration = "1000s"
        nodes.hosts = ["A", "B"]
        [links.l]
        between = ["A", "B"]
        rate = "1Mbit"
        delay = "1ms"
        [record]
        every = "10us"
        series = ["links.l.queue_packets"]
        "#;
    let document = tidegate_scenario::Document::from_text("big", text).unwrap();
    let scenario = std::sync::Arc::new(document.scenario().unwrap());
    let warnings = tidegate_lab::warnings(&document, &scenario);
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(
        said[0].contains("1.00e8 values") && said[0].contains("1.6 GB") && said[0].contains("record.every"),
        "{said:?}"
    );
    assert!(said[0].starts_with("big:9"), "{said:?}");
    let mut run = tidegate_lab::Run::start(&scenario, 1, ()).unwrap();
    // No events at all, and still it comes back.
    let tidegate_lab::Progress::Running(part) = run.advance(1000) else { panic!("not there yet") };
    assert!(part > 0.0 && part < 1e-4, "{part}");
}

#[test]
fn an_edge_that_restarts_forgets_and_one_that_trust_made_inner_has_nothing_to_forget() {
    let text = |trusts: &str, event: &str| {
        let text = format!(
            r#"
            duration = "4s"
            nodes = {{ hosts = ["a", "b"], routers = ["I", "M", "E"] }}
            defaults.link = {{ rate = "10Mbit", delay = "5ms" }}
            links.a = {{ between = ["a", "I"], rate = "100Mbit" }}
            links.i = {{ between = ["I", "M"] }}
            links.m = {{ between = ["M", "E"] }}
            links.e = {{ between = ["E", "b"], rate = "2Mbit", queue = {{ kind = "droptail", limit = "1000p" }} }}
            flows.f = {{ from = "a", to = "b", transport = "udp", application = {{ kind = "cbr", rate = "3Mbit" }} }}
            domains.one = {{ edges = ["I", "M"], mechanism = "iec", {trusts} }}
            domains.two = {{ edges = ["M", "E"], mechanism = "iec", trusts = ["one"] }}
            events = [{event}]
            "#
        );
        let document = Document::from_text("test.toml", &text).unwrap();
        run(&Arc::new(document.scenario().unwrap()), 1).unwrap().summary.to_json()
    };
    let restart = |edge: &str, domain: &str| {
        format!("{{ at = \"1s\", edge = \"{edge}\", domain = \"{domain}\", restart = true }}")
    };
    let plain = text("", "");
    // What an ingress has learnt in a second shows in what comes later.
    assert_ne!(text("", &restart("I", "one")), plain);
    assert_ne!(text("", &restart("M", "two")), plain);
    let trusting = text("trusts = [\"two\"]", "");
    assert_eq!(text("trusts = [\"two\"]", &restart("M", "two")), trusting);
    assert_ne!(text("trusts = [\"two\"]", &restart("I", "one")), trusting);
}

/// Or what arrives could not be compared between mechanisms.
#[test]
fn the_rate_of_a_link_is_its_own_whatever_back_pressure_lets_it_send() {
    let text = |mechanism: &str| {
        format!(
            r#"
            duration = "10s"
            warmup = "4s"
            nodes = {{ hosts = ["a", "b"], routers = ["r1", "r2"] }}
            links.a = {{ between = ["a", "r1"], rate = "1Gbit", delay = "1ms" }}
            links.first = {{ between = ["r1", "r2"], rate = "10Mbit", delay = "1ms" }}
            links.second = {{ between = ["r2", "b"], rate = "2Mbit", delay = "1ms" }}
            flows.f = {{ from = "a", to = "b", transport = "udp", application = {{ kind = "cbr", rate = "8Mbit" }} }}
            events = [{{ at = "7s", link = "first", rate = "20Mbit" }}]
            domains.net = {{ edges = ["r1", "r2"], mechanism = "{mechanism}" }}
            "#
        )
    };
    let first = |mechanism: &str| {
        let document = Document::from_text("test.toml", &text(mechanism)).unwrap();
        let outcome = run(&Arc::new(document.scenario().unwrap()), 1).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&outcome.summary.to_json()).unwrap();
        summary["links"]["first"].clone()
    };
    for mechanism in ["none", "backpressure"] {
        let link = first(mechanism);
        assert_eq!((&link["rate_bps"], &link["rate_end_bps"]), (&15_000_000.into(), &20_000_000.into()));
    }
    // It does let it send less.
    assert!(first("backpressure")["throughput_bps"].as_f64().unwrap() < 3e6);
}

/// The statistics begin between two samples.
#[test]
fn rates_of_the_interval_in_which_the_warm_up_ends_are_of_all_of_it() {
    let flows = r#"flows.f = { from = "a", to = "b", transport = "udp", application = { kind = "cbr", rate = "400kbit" } }
        record = { every = "2s", series = ["flows.f.throughput_bps", "links.l.utilization"] }"#;
    for (series, expected) in output(flows).series.iter().zip([400e3, 0.4]) {
        let at_6_s = series.values[2];
        assert!((at_6_s - expected).abs() <= 0.02 * expected, "{}: {at_6_s}", series.name);
    }
}
