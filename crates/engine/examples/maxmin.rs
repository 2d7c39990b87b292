//! How close NBP with WFQ comes to max-min fairness on 50 random networks: prints a row for each, and fails if fewer than
//! 45 are within 7 % on average over their flows.
//!
//! `cargo run --release -p tidegate-engine --example maxmin [FIRST LAST]`

#[path = "../tests/suite/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::sync::Mutex;

use common::random_network::{Outcome, Topology, nbp};

/// Two cores.
const WORKERS: u64 = 2;
const TOLERANCE: f64 = 0.07;
/// Of the networks.
const SHARE_WITHIN: f64 = 0.9;

fn row(seed: u64, outcome: &Outcome) -> String {
    let deviations = outcome.deviations();
    let worst = (0..deviations.len())
        .max_by(|&a, &b| deviations[a].total_cmp(&deviations[b]))
        .expect("there are flows");
    format!(
        "{seed:4}  {:7}  {:5}  {:8.2} %  {:8.2} %   flow {worst}: {:.2} of {:.2} Mb/s, {} core links, {:.0} ms round trip",
        outcome.topology.routers,
        deviations.len(),
        100.0 * outcome.mean_deviation(),
        100.0 * deviations[worst],
        outcome.measured[worst] / 1e6,
        outcome.ideal[worst] / 1e6,
        outcome.paths[worst].len(),
        1e3 * outcome.core_rtt(worst),
    )
}

fn main() -> ExitCode {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (first, last) = if let [first, last] = arguments[..] { (first, last) } else { (1, 50) };
    let next = Mutex::new(first);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let seed = {
                        let mut next = next.lock().expect("no worker panics while it holds the lock");
                        *next += 1;
                        *next - 1
                    };
                    if seed > last {
                        return;
                    }
                    let outcome = Topology::random(seed).run(seed, nbp());
                    eprintln!("{}", row(seed, &outcome));
                    outcomes.lock().expect("no worker panics while it holds the lock").push((seed, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("the workers are done");
    outcomes.sort_by_key(|(seed, _)| *seed);
    println!("seed  routers  flows  mean dev.  max. dev.   the worst flow");
    for (seed, outcome) in &outcomes {
        println!("{}", row(*seed, outcome));
    }
    let mut means: Vec<f64> = outcomes.iter().map(|(_, outcome)| outcome.mean_deviation()).collect();
    means.sort_by(f64::total_cmp);
    let within = means.iter().filter(|mean| **mean < TOLERANCE).count();
    let percentile = means[(means.len() * 95).div_ceil(100) - 1];
    println!(
        "{within} of {} below {:.0} %; 95th percentile {:.2} %",
        means.len(),
        100.0 * TOLERANCE,
        100.0 * percentile
    );
    if within as f64 >= SHARE_WITHIN * means.len() as f64 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
