//! How close NBP with WFQ comes to max-min fairness on 50 random networks: prints a row for each, and fails if fewer than
//! 45 are within 7 % on average over their flows.
//!
//! `cargo run --release -p tidegate-engine --example maxmin [FIRST LAST [ROOM [data]]]`: networks FIRST to LAST, with ROOM packets in
//! queues (100), and with `data` under NBP that looks at the round trip of data.

#[path = "../tests/suite/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::sync::Mutex;

use common::random_network::{Outcome, Topology, nbp, nbp_by_data};
use tidegate_units::Limit;

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
        "{seed:4}  {:7}  {:5}  {:8.2} %  {:8.2} %  {:9.2} %   flow {worst}: {:.2} of {:.2} Mb/s, {} core links, {:.0} ms round trip",
        outcome.topology.routers,
        deviations.len(),
        100.0 * outcome.mean_deviation(),
        100.0 * deviations[worst],
        100.0 * outcome.core_loss,
        outcome.measured[worst] / 1e6,
        outcome.ideal[worst] / 1e6,
        outcome.paths[worst].len(),
        1e3 * outcome.core_rtt(worst),
    )
}

fn main() -> ExitCode {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (first, last) = if let [first, last, ..] = arguments[..] { (first, last) } else { (1, 50) };
    let room = Limit::Packets(arguments.get(2).map_or(100, |&room| room as u32));
    let by_data = std::env::args().any(|argument| argument == "data");
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
                    let mechanism = if by_data { nbp_by_data() } else { nbp() };
                    let outcome = Topology::random(seed).run_with(seed, mechanism, room);
                    eprintln!("{}", row(seed, &outcome));
                    outcomes.lock().expect("no worker panics while it holds the lock").push((seed, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("the workers are done");
    outcomes.sort_by_key(|(seed, _)| *seed);
    println!("seed  routers  flows  mean dev.  max. dev.  core loss   the worst flow");
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
