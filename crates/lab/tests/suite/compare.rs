//! What comparisons measure, from the text of a scenario to its summary: against closed forms and counts by hand.

use std::sync::Arc;

use serde_json::Value;
use tidegate_lab::run;
use tidegate_scenario::Document;

fn summary(text: &str, set: &[&str]) -> Value {
    let mut document = Document::from_text("test.toml", text).unwrap();
    for assignment in set {
        document.set(assignment).unwrap();
    }
    let scenario = document.scenario().unwrap_or_else(|errors| panic!("{}", errors.render()));
    serde_json::from_str(&run(&Arc::new(scenario), 1).unwrap().summary.to_json()).unwrap()
}

/// The probability that a packet waits at most `t` services in M/D/1 at utilisation `rho`. Source: Erlang; Tijms, *A first
/// course in stochastic models*, 2003, eq. (9.6.21).
#[expect(clippy::disallowed_methods, reason = "a tolerance of 3 % does not see the last bits")]
fn waits_at_most(t: f64, rho: f64) -> f64 {
    let (mut sum, mut factorial) = (0.0, 1.0);
    for k in 0..=t.floor() as i32 {
        factorial *= f64::from(k.max(1));
        let x = rho * (f64::from(k) - t);
        sum += x.powi(k) / factorial * (-x).exp();
    }
    (1.0 - rho) * sum
}

#[test]
fn the_percentiles_of_several_flows_together_are_those_of_m_d_1() {
    let rho = 0.7;
    let measured = summary(
        r#"
        duration = "300s"
        warmup = "1s"
        nodes = { hosts = ["a", "b", "c"], routers = ["r"] }
        defaults.link = { rate = "10Gbit", delay = "0s", queue = { kind = "droptail", limit = "100000p" } }
        links.a = { between = ["a", "r"] }
        links.b = { between = ["b", "r"] }
        links.c = { between = ["r", "c"], rate = "8Mbit" }
        defaults.flow = { to = "c", transport = "udp" }
        flows.a = { from = "a", application = { kind = "poisson", rate = "4Mbit" } }
        flows.b = { from = "b", application = { kind = "poisson", rate = "1.6Mbit" } }
        record.delays = ["flows.*"]
        "#,
        &[],
    );
    for (key, part) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        let waiting =
            (0..200_000).map(|step| f64::from(step) * 1e-4).find(|t| waits_at_most(*t, rho) >= part).unwrap();
        // A service takes a millisecond; the fast links before take less than two microseconds.
        let expected = waiting + 1.0;
        let measured = measured["delay_ms"][key].as_f64().unwrap();
        assert!((measured / expected - 1.0).abs() < 0.03, "{key}: {measured} instead of {expected}");
    }
}

/// Two senders over `i1` and `i2`, a router `r` and an edge `e`, to a receiver each.
fn network(set: &[&str]) -> Value {
    summary(
        r#"
        duration = "20s"
        warmup = "10s"
        nodes = { hosts = ["s1", "s2", "d1", "d2"], routers = ["i1", "i2", "r", "e"] }
        defaults.link = { rate = "10Mbit", delay = "1ms" }
        links.s1 = { between = ["s1", "i1"] }
        links.s2 = { between = ["s2", "i2"] }
        links.i1 = { between = ["i1", "r"] }
        links.i2 = { between = ["i2", "r"] }
        links.shared = { between = ["r", "e"], rate = "3Mbit" }
        links.d1 = { between = ["e", "d1"] }
        links.d2 = { between = ["e", "d2"], rate = "1Mbit" }
        flows.tcp = { from = "s1", to = "d1", transport = "tcp" }
        flows.udp = { from = "s2", to = "d2", transport = "udp", application = { kind = "cbr", rate = "2Mbit" } }
        domains.net = { edges = ["i1", "i2", "e"], core = ["r"] }
        "#,
        set,
    )
}

#[test]
fn waste_is_what_links_between_routers_carry_in_vain() {
    let measured = network(&["record.waste=true"]);
    // UDP leaves with half of its 2 Mb/s. TCP loses a packet now and then, in front of the shared link.
    let wasted = |link: &str| measured["links"][link]["wasted_bps"].as_f64().unwrap() / 1e6;
    assert!((wasted("shared") - 1.0).abs() < 0.02, "{}", wasted("shared"));
    assert!(wasted("i2") >= wasted("shared") && wasted("s2") >= wasted("i2"));
    assert!(wasted("d2").abs() < 1e-9);
    let together = wasted("i1") + wasted("i2") + wasted("shared");
    assert!((measured["waste"]["bps"].as_f64().unwrap() / 1e6 - together).abs() < 1e-6);
    let ratio = measured["waste"]["ratio"].as_f64().unwrap();
    assert!((0.25..0.35).contains(&ratio), "2 of about 7 Mb/s: {ratio}");
    let silent = network(&[]);
    assert!(silent.get("waste").is_none() && silent["links"]["shared"].get("wasted_bps").is_none());
}

#[test]
fn max_min_rates_know_demands_circuits_and_weights() {
    let rates = |set: &[&str]| {
        let measured = network(&[&["record.max_min=true"], set].concat());
        let rate = |flow: &str| measured["flows"][flow]["max_min_bps"].as_f64().unwrap() / 1e6;
        (rate("tcp"), rate("udp"), measured["fairness"]["max_min_deviation"].as_f64().unwrap())
    };
    let near =
        |measured: f64, expected: f64| assert!((measured - expected).abs() < 1e-9, "{measured} {expected}");
    let plain = rates(&[]);
    near(plain.0, 2.0);
    near(plain.1, 1.0);
    // FIFO gives UDP its 1 Mb/s and TCP half of its due.
    assert!((0.15..0.35).contains(&plain.2), "{}", plain.2);
    let weighted = rates(&["flows.tcp.weight=4.0", "links.d2.rate=10Mbit"]);
    near(weighted.0, 2.4);
    near(weighted.1, 0.6);
    // 1500 bytes are 32 cells, 1000 are 21.
    let in_cells = rates(&["links.shared.circuit={ background = \"1Mbit\" }"]);
    near(in_cells.0, 2.0 / (32.0 * 53.0 / 1500.0 + 21.0 * 53.0 / 1000.0));
    near(in_cells.1, in_cells.0);
}

#[test]
fn a_network_that_gives_all_that_is_wanted_is_max_min_fair() {
    let measured = network(&[
        "record.max_min=true",
        "flows.tcp.transport=udp",
        "flows.tcp.application={ kind = \"cbr\", rate = \"1.5Mbit\" }",
        "flows.udp.application.rate=1Mbit",
    ]);
    let deviation = measured["fairness"]["max_min_deviation"].as_f64().unwrap();
    assert!(deviation < 0.002, "{deviation}");
}

#[test]
fn what_routers_keep_is_counted_as_by_hand() {
    // Entries of i1, i2, r and e; the way of TCP has acknowledgments back to s1.
    let cases: [(&str, [u64; 4]); 10] = [
        ("domains.net.mechanism=none", [0, 0, 0, 0]),
        ("defaults.link.queue=red", [0, 0, 0, 0]),
        ("defaults.link.queue=drr", [2, 1, 3, 3]),
        ("defaults.link.queue={ kind = \"wfq\", classify = \"input-port\" }", [2, 1, 3, 3]),
        ("defaults.link.queue={ kind = \"sfb\", levels = 2, bins = 5, rehash = \"5s\" }", [40, 40, 60, 60]),
        ("domains.net.mechanism=\"nbp\"", [2, 1, 0, 3]),
        ("domains.net.mechanism=\"iec\"", [2, 1, 0, 3]),
        ("domains.net.mechanism={ kind = \"iec\", tcp_rate = {} }", [3, 1, 0, 3]),
        // UDP's name at i2, r and e, and the neighbours.
        ("domains.net.mechanism=\"nbq\"", [1, 2, 4, 2]),
        // Ports times inputs; all hosts are one input.
        ("domains.net.mechanism=\"backpressure\"", [4, 4, 12, 6]),
    ];
    for (set, expected) in cases {
        let measured = network(&["record.state=true", set]);
        let entries = ["i1", "i2", "r", "e"]
            .map(|name| measured["state"]["routers"][name]["entries"].as_u64().unwrap());
        assert_eq!(entries, expected, "{set}");
        assert_eq!(measured["state"]["entries_max"].as_u64(), expected.into_iter().max(), "{set}");
        assert_eq!(measured["state"]["core_entries_max"].as_u64(), Some(expected[2]), "{set}");
    }
}

#[test]
fn the_ideal_rate_of_a_media_stream_is_that_of_its_own_links() {
    let text = r#"
        duration = "5s"
        nodes = { hosts = ["a", "b"], routers = ["r"] }
        defaults.link = { delay = "10ms" }
        links.slow = { between = ["a", "r"], rate = "1Mbit" }
        links.fast = { between = ["r", "b"], rate = "1Gbit" }
        flows.f = { from = "a", to = "b", transport = "tfrc" }
        record.max_min = true
        record.state = true
        "#;
    let ideal = &summary(text, &[])["flows"]["f"]["max_min_bps"];
    assert!((ideal.as_f64().unwrap() - 1e6).abs() < 1.0, "{ideal}");
}
