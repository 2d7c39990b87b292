//! Every ratio of a summary is one, and no mean is above its maximum, whatever the network loses, doubles or controls, and whenever
//! statistics begin.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tidegate_scenario::Document;

/// A chain with two senders, whose middle may lose, reorder and double, under some control.
fn text(mechanism: &str, queue: &str, medium: &str, warmup_ms: u64, rate_kbit: u64, ecn: bool) -> String {
    format!(
        r#"
        duration = "4s"
        warmup = "{warmup_ms}ms"
        nodes = {{ hosts = ["A", "B", "C"], routers = ["I", "M", "E"] }}
        [links.in]
        between = ["A", "I"]
        rate = "10Mbit"
        delay = "1ms"
        [links.side]
        between = ["B", "I"]
        rate = "10Mbit"
        delay = "3ms"
        [links.left]
        between = ["I", "M"]
        rate = "2Mbit"
        delay = "5ms"
        queue = "{queue}"
        {medium}
        [links.right]
        between = ["M", "E"]
        rate = "1Mbit"
        delay = "5ms"
        queue = "{queue}"
        {medium}
        [links.out]
        between = ["E", "C"]
        rate = "10Mbit"
        delay = "1ms"
        [flows.tcp]
        from = "A"
        to = "C"
        transport = {{ kind = "tcp", ecn = {ecn} }}
        [flows.udp]
        from = "B"
        to = "C"
        transport = "udp"
        application = {{ kind = "poisson", rate = "{rate_kbit}kbit" }}
        [domains.net]
        edges = ["I", "E"]
        core = ["M"]
        mechanism = "{mechanism}"
        [record]
        waste = true
        "#
    )
}

/// Tells of every number in `value` that is out of the range that its name has in docs/results.md.
fn out_of_range(path: &str, value: &Value, window_s: f64, found: &mut Vec<String>) {
    let Value::Object(table) = value else { return };
    let number = |name: &str| table.get(name).and_then(Value::as_f64);
    for (name, inner) in table {
        let path = format!("{path}.{name}");
        let is_share = name.ends_with("ratio") || name == "utilization" || name == "jain";
        if let (true, Some(share)) = (is_share, inner.as_f64())
            && !(0.0..=1.0 + 1e-9).contains(&share)
        {
            found.push(format!("{path} = {share}"));
        }
        if inner.as_f64().is_some_and(f64::is_sign_negative) {
            found.push(format!("{path} is negative: {inner}"));
        }
        out_of_range(&path, inner, window_s, found);
    }
    // What arrived in the window may have been sent before it: what was under way, and a packet. Copies that the medium makes take no
    // time.
    let copies = if table.contains_key("duplicated_packets") { 2.0 } else { 1.0 };
    if let (Some(rate), Some(throughput)) = (number("rate_bps"), number("throughput_bps"))
        && throughput * window_s > (rate * (window_s + 0.02) + 24_000.0) * copies
    {
        found.push(format!("{path}: {throughput} bit/s over a rate of {rate}"));
    }
    if let (Some(mean), Some(max)) = (number("mean"), number("max"))
        && mean > max * (1.0 + 1e-9)
    {
        found.push(format!("{path}: mean {mean} above max {max}"));
    }
}

/// How many networks: `TIDEGATE_CASES`, or some.
fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|given| given.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn ratios_are_ratios_and_means_lie_below_maxima(
        mechanism in prop::sample::select(vec!["none", "nbp", "iec", "nbq", "backpressure"]),
        queue in prop::sample::select(vec!["droptail", "red", "sfb", "drr", "codel"]),
        loss in prop::sample::select(vec![0.0, 0.02, 0.3]),
        doubled in prop::sample::select(vec![0.0, 0.1, 1.0]),
        reorder in any::<bool>(),
        jitter in prop::sample::select(vec!["", "jitter = { kind = \"uniform\", most = \"9ms\" }\n", "jitter = { kind = \"slots\", every = \"4ms\" }\n"]),
        warmup_ms in prop::sample::select(vec![0, 1, 500, 3_000, 3_990]),
        rate_kbit in prop::sample::select(vec![50, 900, 5_000]),
        ecn in any::<bool>(),
        seed in 0_u64..1000,
    ) {
        // Routers with hop mechanisms have links of their own kind.
        let is_hop = mechanism == "nbq" || mechanism == "backpressure";
        let medium = if is_hop {
            String::new()
        } else {
            let lossy = format!("loss = {{ kind = \"random\", probability = {loss} }}\n");
            let reordering = "reorder = { probability = 0.1, delay = \"8ms\" }\n";
            let (lossy, reordering) = (if loss > 0.0 { &*lossy } else { "" }, if reorder { reordering } else { "" });
            format!("duplicate = {doubled}\n{lossy}{reordering}{jitter}")
        };
        let queue = if is_hop { "droptail" } else { queue };
        let text = text(mechanism, queue, &medium, warmup_ms, rate_kbit, ecn);
        let scenario = Document::from_text("random", &text).unwrap().scenario();
        let scenario = scenario.unwrap_or_else(|errors| panic!("{}", errors.render()));
        let outcome = tidegate_lab::run(&Arc::new(scenario), seed).unwrap();
        let summary: Value = serde_json::from_str(&outcome.summary.to_json()).unwrap();
        let mut found = Vec::new();
        out_of_range("", &summary, 4.0 - warmup_ms as f64 / 1e3, &mut found);
        prop_assert!(found.is_empty(), "{:?}\n{}", found, text);
    }
}
