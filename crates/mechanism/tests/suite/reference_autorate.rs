//! The auto-rate shaper against an implementation in Python after the shell script: the same measured rates and delays give the same rates of
//! the shaper, baselines, mean excesses, loads, and the same sleep.
//!
//! Source: tests/oracle/python/README.md; tests/oracle/verdicts/autorate.json, which those scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::edge::autorate::{Autorate, AutorateConfig, Load, Pingers, Rule};

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list"))
}

fn whole(value: &Value) -> i64 {
    value.as_i64().expect("a whole number")
}

/// The defaults, with what the case has in place of some.
fn rule(config: &Value) -> Rule {
    let mut rule = AutorateConfig::default().rule();
    let (mut stall_thr, mut pingers) = (5, 6);
    for (key, value) in config.as_object().expect("a table") {
        let number = whole(value);
        match key.as_str() {
            "min_shaper_rate_kbps" => rule.rate_min = number,
            "base_shaper_rate_kbps" => rule.rate_base = number,
            "max_shaper_rate_kbps" => rule.rate_max = number,
            "connection_active_thr_kbps" => rule.connection_active = number,
            "connection_stall_thr_kbps" => rule.connection_stall = number,
            "max_wire_packet_size_bits" => rule.packet_bits = number,
            "no_pingers" => pingers = number,
            "avg_owd_delta_max_adjust_up_thr_us" => rule.max_adjust_up_thr = number,
            "owd_delta_delay_thr_us" => rule.delay_thr = number,
            "avg_owd_delta_max_adjust_down_thr_us" => rule.max_adjust_down_thr = number,
            "enable_sleep_function" => rule.sleeps = number == 1,
            "sustained_idle_sleep_thr_us" => rule.sleep_after = number,
            "min_shaper_rates_enforcement" => rule.enforces_min = number == 1,
            "bufferbloat_detection_window" => rule.window = number as u32,
            "bufferbloat_detection_thr" => rule.late = number,
            "alpha_baseline_increase" => rule.alpha_baseline_increase = number,
            "alpha_baseline_decrease" => rule.alpha_baseline_decrease = number,
            "shaper_rate_min_adjust_up_load_high" => rule.min_adjust_up = number,
            "shaper_rate_max_adjust_up_load_high" => rule.max_adjust_up = number,
            "high_load_thr_percent" => rule.high_load_percent = number,
            "bufferbloat_refractory_period_us" => rule.bufferbloat_refractory = number,
            "decay_refractory_period_us" => rule.decay_refractory = number,
            "global_ping_response_timeout_us" => rule.response_timeout = number,
            "stall_detection_thr" => stall_thr = number,
            "owd" => rule.is_one_way = number == 1,
            other => panic!("{other} is no value of the script"),
        }
    }
    rule.pingers = pingers as usize;
    rule.stall_after = stall_thr * (rule.ping_interval / pingers);
    rule
}

#[test]
fn rates_baselines_and_loads_are_those_of_the_reference() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/autorate.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    let frozen: Value = serde_json::from_str(&text).expect("the frozen verdicts are JSON");
    let (mut seen, mut changes) = (0, 0);
    for case in items(&frozen, "traces") {
        // Only differences of times matter.
        let mut now = 1_000_000_000;
        let mut law = Autorate::new(rule(&case["config"]), now);
        let expected: Vec<i64> = items(case, "rates")
            .iter()
            .flat_map(|run| std::iter::repeat_n(whole(&run[0]), whole(&run[1]) as usize))
            .collect();
        let (mut rows, mut pingers) = (items(case, "rows").iter(), items(case, "pingers").iter());
        changes += items(case, "rates").len() - 1;
        assert_eq!(expected.len(), items(case, "events").len());
        for (number, event) in items(case, "events").iter().enumerate() {
            let at = format!("event {number} of seed {}", case["seed"]);
            now += whole(&event[0]);
            let is_load = event[2].is_null();
            let pinger = if is_load { 0 } else { whole(&event[1]) as usize };
            let told = if is_load {
                law.on_load(whole(&event[1]), now)
            } else {
                law.on_response(pinger, whole(&event[2]), now)
            };
            assert_eq!(law.rate(), expected[number], "{at}");
            if told != Pingers::GoOn {
                let what = if told == Pingers::Stop { "stop" } else { "start" };
                assert_eq!(Some(&serde_json::json!([number, what])), pingers.next(), "{at}");
            }
            if number % 8 == 7 {
                let load = match law.load() {
                    Load::Idle => "idle",
                    Load::Low => "low",
                    Load::High => "high",
                };
                let bloated = i64::from(law.is_bloated());
                let row = serde_json::json!([law.baseline(pinger), law.average_delta(), bloated, load]);
                assert_eq!(Some(&row), rows.next(), "{at}");
            }
            seen += 1;
        }
        assert_eq!((rows.next(), pingers.next()), (None, None));
    }
    assert!(seen >= 40_000 && changes > 3_000, "{seen} events, {changes} changes");
}

#[test]
fn the_defaults_are_those_of_the_script() {
    let rule = AutorateConfig::default().rule();
    let script = [
        (rule.rate_min, 5000),
        (rule.rate_base, 20_000),
        (rule.rate_max, 35_000),
        (rule.packet_bits, 12_000),
        (rule.max_adjust_up_thr, 10_000),
        (rule.delay_thr, 30_000),
        (rule.max_adjust_down_thr, 60_000),
        (rule.baseline_initial, 100_000),
        (rule.alpha_baseline_increase, 1000),
        (rule.alpha_baseline_decrease, 900_000),
        (rule.min_adjust_down, 990),
        (rule.max_adjust_down, 750),
        (rule.min_adjust_up, 1000),
        (rule.max_adjust_up, 1040),
        (rule.adjust_down_load_low, 990),
        (rule.adjust_up_load_low, 1010),
        (rule.high_load_percent, 75),
        (rule.bufferbloat_refractory, 300_000),
        (rule.decay_refractory, 1_000_000),
        (rule.connection_active, 2000),
        (rule.sleep_after, 60_000_000),
        (rule.stall_after, 250_000),
        (rule.connection_stall, 10),
        (rule.response_timeout, 10_000_000),
        (rule.ping_interval, 300_000),
    ];
    for (place, (ours, theirs)) in script.into_iter().enumerate() {
        assert_eq!(ours, theirs, "number {place}");
    }
    assert_eq!((rule.pingers, rule.window, rule.late), (6, 6, 3));
    assert!(rule.sleeps && !rule.enforces_min && !rule.is_one_way);
}
