//! How fast a scenario runs: `cargo run --release -p tidegate-lab --example speed -- FILE...` prints a line of JSON each,
//! for `benches/bench.py` and for profilers.

use std::path::Path;
use std::sync::Arc;

use tidegate_lab::run;
use tidegate_scenario::Document;

fn main() {
    for file in std::env::args().skip(1) {
        let scenario = match Document::open_within(Path::new(&file), &[".".into()])
            .and_then(|document| document.scenario())
        {
            Ok(scenario) => Arc::new(scenario),
            Err(errors) => {
                eprint!("{}", errors.render());
                std::process::exit(3);
            }
        };
        match run(&scenario, scenario.seed) {
            Ok(outcome) => {
                let timing = &outcome.timing;
                println!(
                    "{}",
                    serde_json::json!({
                        "scenario": scenario.title,
                        "build_s": timing.build.as_secs_f64(),
                        "run_s": timing.run.as_secs_f64(),
                        "events": timing.events,
                        "packet_hops": timing.packet_hops,
                        "packet_hops_per_s": timing.packet_hops as f64 / timing.run.as_secs_f64(),
                        "peak_rss_kb": peak_rss_kb(),
                    })
                );
            }
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(3);
            }
        }
    }
}

/// The most memory that the process has had; zero where the system does not say.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
