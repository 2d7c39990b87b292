//! A swarm of cases: runs them until so many gateway-seconds are simulated, says which seeds fail, and reduces those.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use tidegate_gateway_sim::case::Case;
use tidegate_gateway_sim::judge::{arrived_bytes, gateway_seconds, judge, reduce};
use tidegate_gateway_sim::world::{Seen, World};
use tidegate_units::{Span, Time};

/// One case in so many runs twice, and must come to the same.
const AGAIN_EVERY: u64 = 10;
/// After so many cases it is said on standard error how far it has come.
const TOLD_EVERY: u64 = 100;

/// Gateways on simulated networks with faults. A gateway-second is a second of one gateway.
#[derive(Parser, Debug)]
#[command(name = "tidegate-swarm", version)]
struct Options {
    /// Gateway-seconds to simulate.
    #[arg(long, default_value_t = 20_000.0)]
    seconds: f64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// This seed alone, with all that happens in it.
    #[arg(long)]
    only: Option<u64>,
    /// Cases at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How many failures are reduced.
    #[arg(long, default_value_t = 3)]
    keep: usize,
}

/// What came to site `site` in a second, bit/s.
fn goodput_bps(case: &Case, site: usize, seen: &Seen) -> f64 {
    arrived_bytes(case, site, seen) as f64 * 8.0
}

/// Second by second, what site 0 knows of its links.
fn watch(case: &Case) {
    let mut world = World::new(case);
    println!("second  link  state       rate  output  excess   round trip  waiting here  in the line  got");
    for second in 1..=(case.duration.as_secs_f64() as u64) {
        world.run(Time::from_nanos(second * 1_000_000_000));
        let seen = world.take();
        for (number, status) in world.gateways()[0].status().iter().enumerate() {
            let Some(link) = status.links.first() else { continue };
            let millis = |span: Option<Span>| span.map_or(f64::NAN, Span::as_millis_f64);
            println!(
                "{second:6}  {:4}  {:10} {:6.2}  {:6.2}  {:6.1}  {:8.1} ms  {:6} packets  {:7.0} bytes  {:.2} Mbit/s{}",
                number + 1,
                status.state.name(),
                link.rate.as_bps_f64() / 1e6,
                link.output.as_bps_f64() / 1e6,
                millis(link.excess),
                millis(link.rtt),
                link.backlog.packets,
                seen.queue_bytes[number + 1],
                goodput_bps(case, number + 1, &seen) / 1e6,
                if link.is_pressed { ", others" } else { "" },
            );
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.only {
        let case = Case::draw(seed);
        print!("{}", case.describe());
        watch(&case);
        let outcome = judge(&case);
        for what in &outcome.broken {
            println!("broken: {what}");
        }
        return if outcome.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let next = AtomicU64::new(options.first);
    let simulated = Mutex::new((0.0, 0_u64, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    if simulated.lock().expect("nobody panics with it").0 >= options.seconds {
                        return;
                    }
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let case = Case::draw(seed);
                    let mut outcome = judge(&case);
                    if seed.is_multiple_of(AGAIN_EVERY) && judge(&case).print != outcome.print {
                        outcome.broken.push("a second run comes to something else".into());
                    }
                    let mut done = simulated.lock().expect("nobody panics with it");
                    done.0 += gateway_seconds(&case);
                    done.1 += 1;
                    if done.1.is_multiple_of(TOLD_EVERY) {
                        let (seconds, cases, failed) = (done.0, done.1, done.2.len());
                        let part = 100.0 * seconds / options.seconds;
                        eprintln!(
                            "{cases} cases, {seconds:.0} gateway-seconds ({part:.0} %), {failed} failed"
                        );
                    }
                    if !outcome.broken.is_empty() {
                        println!("seed {seed}: {}", outcome.broken.join("; "));
                        println!("  again: cargo run --release -p tidegate-gateway-sim -- --only {seed}");
                        done.2.push(seed);
                    }
                }
            });
        }
    });
    let (seconds, cases, failed) = simulated.into_inner().expect("all are done");
    for seed in failed.iter().take(options.keep) {
        println!("\nseed {seed}, reduced:\n{}", reduce(&Case::draw(*seed)).describe());
    }
    println!("{cases} cases, {seconds:.0} gateway-seconds, {} failed", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
