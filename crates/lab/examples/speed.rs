//! How fast a scenario runs: `cargo run --release -p tidegate-lab --example speed -- [--cores N] FILE...` prints a line of JSON each,
//! for `benches/bench.py`, `benches/many.py` and profilers. Times `_s` are the clock's; times `_cpu_s` are those that this thread was
//! on a processor, which others on the machine disturb less, and that of building includes reading the file.

use std::path::Path;
use std::sync::Arc;

use mimalloc::MiMalloc;
use tidegate_lab::{Progress, Run};
use tidegate_scenario::Document;

// As the Python module has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut cores = 1;
    if files.first().is_some_and(|first| first == "--cores") {
        cores = files.get(1).and_then(|number| number.parse().ok()).expect("--cores takes a number");
        files.drain(..2);
    }
    for file in files {
        let started = cpu_s();
        let scenario = match Document::open_within(Path::new(&file), &[".".into()])
            .and_then(|document| document.scenario())
        {
            Ok(scenario) => Arc::new(scenario),
            Err(errors) => {
                eprint!("{}", errors.render());
                std::process::exit(3);
            }
        };
        match Run::start_on(cores, &scenario, scenario.seed, ()) {
            Ok(mut run) => {
                let undivided = run.undivided().map(ToString::to_string);
                let built = cpu_s();
                while run.advance(u64::MAX) != Progress::Done {}
                let ran = cpu_s();
                let timing = run.finish().0.timing;
                println!(
                    "{}",
                    serde_json::json!({
                        "scenario": scenario.title,
                        "cores": timing.cores,
                        "undivided": undivided,
                        "build_s": timing.build.as_secs_f64(),
                        "run_s": timing.run.as_secs_f64(),
                        "build_cpu_s": built - started,
                        "run_cpu_s": ran - built,
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

/// Seconds that this thread has been on a processor; zero where the system does not say.
fn cpu_s() -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    said.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).map_or(0.0, |nanos: f64| nanos / 1e9)
}

/// The most memory that the process has had; zero where the system does not say.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
