//! Fluids in scenarios: against closed forms, beside packets in the same queue, and what is refused where.

use std::sync::Arc;

use serde_json::Value;
use tidegate_lab::{Outcome, Run, run};
use tidegate_scenario::Document;
use tidegate_units::{Span, Time};

const TEXT: &str = r#"
duration = "60s"
warmup = "20s"

[nodes]
hosts = ["S", "D"]
routers = ["A", "B"]

[defaults]
link = { rate = "100Gbit", delay = "10ms", queue = { kind = "droptail", limit = "10000p" } }

[links.core]
between = ["A", "B"]
rate = "100Mbit"
delay = "30ms"
queue = { kind = "pi", limit = "5000p", q_ref = "200p", a = 1e-4, b = 0.98e-4, mean_packet = "1500B" }

[links]
S-A = { between = ["S", "A"] }
B-D = { between = ["B", "D"] }

[flows.many]
from = "S"
to = "D"
fluid = { count = 20, ecn = true, delayed_ack = "0s" }
"#;

fn outcome(set: &[&str], seed: u64) -> Outcome {
    let mut document = Document::from_text("test.toml", TEXT).unwrap();
    for assignment in set {
        document.set(assignment).unwrap_or_else(|errors| panic!("{}", errors.render()));
    }
    let scenario = document.scenario().unwrap_or_else(|errors| panic!("{}", errors.render()));
    run(&Arc::new(scenario), seed).unwrap_or_else(|error| panic!("{error}"))
}

fn summary(set: &[&str]) -> Value {
    serde_json::from_str(&outcome(set, 1).summary.to_json()).unwrap()
}

fn number(summary: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(summary, |value, key| &value[key]);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

const PROBE: &str = r#"flows.probe={ from = "S", to = "D", transport = "udp", application = { kind = "cbr", rate = "200kbit", packet = "250B" } }"#;

#[test]
fn the_fixed_point_is_that_of_the_square_root_law() {
    // PI holds the queue at its reference, so that the round trip and with it the window are known; marks come at random, and then the
    // mean window is 1.3098 / sqrt(p) (Ott, Kemperman & Mathis 1996), less what the round trip of each reduction takes, which is about
    // one in W / 1.5.
    // These gains are low enough for so few connections: ten times as much swings for ever.
    let gains = ["links.core.queue.a=1e-5", "links.core.queue.b=0.99e-5"];
    let summary = summary(&["duration=400s", "warmup=300s", gains[0], gains[1]]);
    let queue = number(&summary, "links.core.queue_packets.mean");
    assert!((queue - 200.0).abs() < 4.0, "{queue}");
    let rtt_s = number(&summary, "fluids.many.rtt_ms") / 1e3;
    assert!((rtt_s - (0.1 + 200.5 * 12e3 / 100e6)).abs() < 0.001, "{rtt_s}");
    let window = 100e6 / 12e3 / 20.0 * rtt_s;
    let p = number(&summary, "links.core.fluid.marked_ratio");
    let law = 1.3098 / p.sqrt();
    assert!((law / window - 1.0).abs() < 0.05, "a window of {window} against {law}");
}

#[test]
fn what_it_costs_does_not_depend_on_how_many_they_are() {
    let events = |count: &str, rate: &str| {
        let set = [format!("flows.many.fluid.count={count}"), format!("links.core.rate={rate}")];
        let rtt = "flows.many.fluid.rtt=110ms".to_owned();
        outcome(&[&set[0], &set[1], &rtt], 1).timing.events
    };
    let few = events("100", "100Mbit");
    assert_eq!(few, events("1000000", "50Gbit"));
    assert!(few > 10_000, "{few}");
}

#[test]
fn packets_wait_in_the_queue_of_the_fluid_and_are_dropped_as_it_is() {
    let summary = summary(&[PROBE, "flows.many.fluid.ecn=false", "links.core.queue.ecn=false"]);
    let work_ms = number(&summary, "links.core.queue_bytes.mean") * 8.0 / 100e6 * 1e3;
    let waited_ms = number(&summary, "links.core.delay_ms.mean");
    // A packet also waits for itself: 250 bytes take 0.02 ms.
    assert!((waited_ms - work_ms - 0.02).abs() < 0.05 * work_ms, "{waited_ms} ms of {work_ms} ms");
    let (packets, fluid) =
        (number(&summary, "flows.probe.loss_ratio"), number(&summary, "links.core.fluid.loss_ratio"));
    let arrived = number(&summary, "links.core.arrived_packets");
    let spread = (fluid * (1.0 - fluid) / arrived).sqrt();
    assert!((packets - fluid).abs() < 4.0 * spread, "{packets} of packets, {fluid} of the fluid");
}

#[test]
fn a_fluid_leaves_what_packets_take() {
    let greedy = r#"flows.flood={ from = "S", to = "D", transport = "udp", application = { kind = "cbr", rate = "40Mbit", packet = "1500B" } }"#;
    let summary = summary(&[greedy]);
    let both = number(&summary, "links.core.throughput_bps");
    assert!((both - 100e6).abs() < 0.2e6, "{both}");
    let flood = number(&summary, "flows.flood.throughput_bps");
    let fluid = number(&summary, "fluids.many.throughput_bps");
    assert!((both - flood - fluid).abs() < 0.2e6, "{both} is not {flood} and {fluid}");
    // UDP without ECN loses what others have marked.
    let marked = number(&summary, "links.core.fluid.marked_ratio");
    assert!((flood - 40e6 * (1.0 - marked)).abs() < 0.3e6, "{flood}, {marked}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = || outcome(&[PROBE], 3).summary.to_json();
    assert_eq!(text(), text());
}

#[test]
fn a_link_that_goes_down_stops_the_fluid_until_it_is_up() {
    let set = r#"events=[{ at = "30s", link = "core", state = "down" }, { at = "40s", link = "core", state = "up" }, { at = "45s", link = "core", rate = "50Mbit" }]"#;
    let summary = summary(&[set, PROBE]);
    let carried = number(&summary, "fluids.many.throughput_bps") * 40.0;
    // 10 s at 100 Mb/s before, at most 5 s after, and 15 s at half of it.
    assert!(carried > 1.4e9 && carried < 2.25e9, "{carried}");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let refused = |set: &[&str], path: &str, part: &str| {
        let mut document = Document::from_text("test.toml", TEXT).unwrap();
        for assignment in set {
            document.set(assignment).unwrap_or_else(|errors| panic!("{}", errors.render()));
        }
        let found = match document.scenario() {
            Err(errors) => errors.errors()[0].clone(),
            Ok(scenario) => {
                let scenario = Arc::new(scenario);
                let Err(error) = run(&scenario, 1) else { panic!("{set:?} runs") };
                let (name, key) = error.fluid().unwrap_or_else(|| panic!("{error}"));
                scenario.at_fluid(name, key, error.to_string())
            }
        };
        assert_eq!(found.path, path, "{}", found.render());
        assert!(found.line > 0, "{}", found.render());
        assert!(found.render().contains(part), "{}", found.render());
    };
    refused(&["flows.many.transport=\"tcp\""], "flows.many.transport", "a fluid has no `transport`");
    refused(&["flows.many.fluid.count=0"], "flows.many.fluid.count", "from 1 to 1000000000");
    refused(&["flows.many.fluid.control=\"vegas\""], "flows.many.fluid.control", "reno, cubic");
    refused(&["flows.many.fluid.rtt=\"1ms\""], "flows.many.fluid.rtt", "shorter than the links of its path");
    let kinds = "allowed: droptail, red, pi, codel";
    refused(&["links.core.queue=\"sfb\""], "flows.many.to", kinds);
    refused(&["links.core.loss={ kind = \"random\", probability = 0.1 }"], "flows.many.to", "no loss");
    refused(&["flows.many.to=[\"D\", \"S\"]"], "flows.many.to", "");
    let short = ["S-A", "core", "B-D"].map(|link| format!("links.{link}.delay=\"50ns\""));
    let short: Vec<&str> = short.iter().map(String::as_str).chain(["links.core.rate=\"100Gbit\""]).collect();
    refused(&short, "flows.many.fluid", "has no 20 steps of 1us");
    let others = r#"flows.others={ from = "S", to = "D", fluid = { count = 20, packet = "300B" } }"#;
    refused(&[others], "flows.others.fluid", "packets of 1.5kB on link `S-A`");
    let near = [
        r#"nodes.hosts=["S", "D", "E"]"#,
        r#"links.near={ between = ["S", "E"], rate = "100Gbit", delay = "10us" }"#,
        r#"flows.others={ from = "S", to = "E", fluid = { count = 20 } }"#,
    ];
    refused(&near, "flows.many.fluid", "more than 65536 steps of");
    refused(&["routing={ multipath = \"flow\" }"], "flows.many.fluid", "one way");
}

#[test]
fn nothing_is_heard_of_before_it_can_have_come_back() {
    let mut document = Document::from_text("test.toml", TEXT).unwrap();
    for assignment in [
        r#"links.core.queue={ kind = "droptail", limit = "20p" }"#,
        "flows.many.fluid.ecn=false",
        "flows.many.fluid.count=400",
    ] {
        document.set(assignment).unwrap();
    }
    let mut run = Run::start(&Arc::new(document.scenario().unwrap()), 1, ()).unwrap();
    // 400 windows that double in a round trip overflow a buffer of 20; the round trip of what was not lost is 100 ms and the queue.
    run.advance_to(Time::ZERO + Span::from_millis(95), |_| ());
    let counters = run.simulation().fluid_counters(0).unwrap();
    assert!(counters.lost_bytes > 0.0, "{counters:?}");
    assert_eq!(run.simulation().fluid_state(0).unwrap().timed_out, 0.0);
    run.advance_to(Time::ZERO + Span::from_millis(250), |_| ());
    assert!(run.simulation().fluid_state(0).unwrap().timed_out > 0.01);
}

#[test]
fn means_are_over_the_time_in_which_somebody_is_there() {
    let whole = summary(&["duration=\"30s\""]);
    let gone = summary(&["flows.many.stop=\"30s\""]);
    for key in ["cwnd_segments", "rtt_ms"] {
        let [expected, measured] = [&whole, &gone].map(|of| number(of, &format!("fluids.many.{key}")));
        assert!((measured / expected - 1.0).abs() < 0.01, "{key}: {measured}, not {expected}");
    }
}

#[test]
fn cubic_takes_as_much_as_reno_on_short_ways_and_more_on_long_and_fast_ones() {
    let shares = |rate: &str, delay: &str| {
        let many = r#"flows.many.fluid={ count = 20, ecn = true, delayed_ack = "0s" }"#;
        let others = r#"flows.others={ from = "S", to = "D", fluid = { count = 20, ecn = true, delayed_ack = "0s", control = "cubic" } }"#;
        let (rate, delay) = (format!("links.core.rate=\"{rate}\""), format!("links.core.delay=\"{delay}\""));
        let queue = r#"links.core.queue={ kind = "pi", limit = "5000p", q_ref = "200p", a = 1e-5, b = 0.98e-5, mean_packet = "1500B" }"#;
        let summary = summary(&[many, others, &rate, &delay, queue, "duration=\"120s\"", "warmup=\"60s\""]);
        number(&summary, "fluids.others.throughput_bps") / number(&summary, "fluids.many.throughput_bps")
    };
    // RFC 9438, section 4.3: where Reno's window is the larger one, CUBIC has the mean of Reno.
    let short = shares("100Mbit", "1ms");
    assert!((0.9..1.15).contains(&short), "{short}");
    let long = shares("1Gbit", "100ms");
    assert!(long > 2.0, "{long}");
}

#[test]
fn a_time_series_of_a_fluid_can_be_recorded() {
    let outcome = outcome(&["record={ every = \"1s\", series = [\"fluids.many.*\"] }"], 1);
    let names: Vec<&str> = outcome.series.iter().map(|series| series.name.as_str()).collect();
    assert!(names.contains(&"fluids.many.rtt_ms"), "{names:?}");
    let rates = outcome.series.iter().find(|series| series.name == "fluids.many.throughput_bps").unwrap();
    let last = rates.values.last().unwrap();
    assert!((last - 100e6).abs() < 2e6, "{last}");
}

/// Packets come in bursts, and a fluid that is next to nothing comes in the last tenth of a second.
#[test]
fn what_packets_see_of_a_queue_does_not_depend_on_the_steps_of_a_fluid() {
    let bursts = r#"flows.probe={ from = "S", to = "D", transport = "udp", application = { kind = "on-off", rate = "1.6Gbit", packet = "1000B", on = "10ms", off = "190ms", distribution = "constant" } }"#;
    let plain = r#"links.core.queue={ kind = "droptail", limit = "10000p" }"#;
    let with = summary(&[bursts, plain, "flows.many.fluid.count=1", "flows.many.start=59.9s"]);
    // 15 Mbit more than the link takes come in 10 ms of 200, and are gone 150 ms later.
    let peak = 15e6 / 8.0;
    for (path, expected) in [
        ("links.core.utilization", 0.8),
        ("links.core.queue_bytes.mean", peak / 2.0 * 0.16 / 0.2),
        ("flows.probe.delay_ms.mean", 50.0 + 75.0),
    ] {
        let measured = number(&with, path);
        assert!((measured / expected - 1.0).abs() < 0.02, "{path}: {measured}, not {expected}");
    }
}

#[test]
fn what_waits_or_travels_where_a_link_goes_down_is_lost() {
    // The second outage is over before the fluid moves on.
    for (from, until) in [("5s", "8s"), ("5s", "5.0000001s")] {
        let events = format!(
            r#"events=[{{ at = "{from}", link = "core", state = "down" }}, {{ at = "{until}", link = "core", state = "up" }}]"#
        );
        let mut document = Document::from_text("test.toml", TEXT).unwrap();
        let queue = r#"links.core.queue={ kind = "droptail", limit = "100000p" }"#;
        for assignment in [&events, queue, "duration=\"40s\"", "warmup=\"0s\"", "flows.many.stop=\"20s\""] {
            document.set(assignment).unwrap();
        }
        let mut run = Run::start(&Arc::new(document.scenario().unwrap()), 1, ()).unwrap();
        run.advance_to(Time::ZERO + Span::from_millis(4_999), |_| ());
        let before = run.simulation().fluid_counters(0).unwrap();
        let under_way = before.sent_bytes - before.delivered_bytes - before.lost_bytes;
        run.advance_to(Time::ZERO + Span::from_millis(5_010), |_| ());
        let lost = run.simulation().fluid_counters(0).unwrap().lost_bytes - before.lost_bytes;
        // Nearly all of it waits or travels there, and a little more comes.
        assert!((0.8..1.4).contains(&(lost / under_way)), "{lost} of {under_way}");
        run.advance_to(Time::ZERO + Span::from_secs(40), |_| ());
        let all = run.simulation().fluid_counters(0).unwrap();
        let gone = all.delivered_bytes + all.lost_bytes;
        assert!((gone / all.sent_bytes - 1.0).abs() < 1e-9, "{gone} of {}", all.sent_bytes);
    }
}
