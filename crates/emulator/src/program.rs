//! The command line of `tidegate emulate` and `tidegate replay`: the same in the Python module, in the program
//! `tidegate-emulate`, and in programs that know mechanisms of their own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::replay::{self, ReplayError};
use clap::{Args, Parser, Subcommand};
use serde_json::json;

/// What the exit codes of `tidegate` mean.
const EXIT_DONE: u8 = 0;
const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_INVALID: u8 = 3;
const EXIT_INTERRUPTED: u8 = 130;

#[derive(Parser)]
#[command(
    name = "tidegate",
    version,
    about = "Real hosts on a simulated network, and the proof that it is the same one"
)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// Emulate a scenario in real time: its hosts that are marked `real` are network namespaces.
    Emulate(Box<Emulate>),
    /// Run a recording through the simulator and compare every verdict.
    Replay(Replay),
}

#[derive(Args)]
struct Emulate {
    /// A scenario file (TOML) with `real` hosts.
    #[arg(required_unless_present_any = ["rate", "trace", "clean"])]
    scenario: Option<PathBuf>,
    /// Runs in the first real host, with `TIDEGATE_PEER` as the address of the second; its end ends the emulation.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Instead of a file: two hosts A and B on a link with this rate.
    #[arg(long, value_name = "RATE", conflicts_with = "scenario")]
    rate: Option<String>,
    /// Instead of --rate: a file in Mahimahi's format says when 1500 bytes may leave the link, in either direction.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "rate"])]
    trace: Option<PathBuf>,
    /// Delay of that link.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    delay: String,
    /// Queue of that link: a kind, or a table like '{ kind = "red", min = "5p", max = "15p" }'.
    #[arg(long, value_name = "KIND", default_value = "droptail")]
    queue: String,
    /// Also read includes and traces that lie in this folder; else only those in the scenario's.
    #[arg(long, value_name = "DIR")]
    allow: Vec<PathBuf>,
    /// Override one value, e.g. links.bottleneck.rate=2Mbit.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// End after this time, like 10s.
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Seed of the random numbers.
    #[arg(long)]
    seed: Option<u64>,
    /// Open a shell in this host; its end ends the emulation.
    #[arg(long, value_name = "HOST", conflicts_with = "command")]
    shell: Option<String>,
    /// Run a shell line in a host beside the command, e.g. B='iperf3 -s'. It ends with the emulation.
    #[arg(long = "on", value_name = "HOST=LINE")]
    beside: Vec<String>,
    /// What TCP of the hosts uses unless a program chooses for itself. (Every kernel allows reno.)
    #[arg(long, value_name = "NAME", default_value = "reno", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    congestion_control: String,
    /// Largest packet of the hosts, in bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(1280..=9000))]
    mtu: u16,
    /// Whether hosts use segmentation offload: less work per packet, but packets come in bursts.
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = clap::builder::PossibleValuesParser::new(["on", "off"]))]
    offload: String,
    /// Packets of real hosts that may be in the network at once.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(16..=4_194_304))]
    buffers: u32,
    /// Connections between two hosts that are told apart, in each direction; further ones share.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    flows_per_pair: u32,
    /// Whether to ask the system for real-time priority and locked memory, so that other work does not make it late.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = clap::builder::PossibleValuesParser::new(["on", "off"]))]
    urgency: String,
    /// Show in the terminal what happens: links, queues, flows. What commands print comes at the end.
    #[arg(long, conflicts_with = "shell")]
    live: bool,
    /// Offer counters to Prometheus: <http://ADDRESS/metrics>.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Record what came in and what was decided, for `tidegate replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print JSON with stable keys instead of text; commands write to standard error then.
    #[arg(long)]
    json: bool,
    /// Remove what crashed emulations left: namespaces, devices, processes in them. Running ones stay.
    #[arg(long, conflicts_with_all = ["scenario", "rate", "trace", "command"])]
    clean: bool,
}

#[derive(Args)]
struct Replay {
    /// A file that `tidegate emulate --record` wrote.
    recording: PathBuf,
    /// Print JSON with stable keys instead of text.
    #[arg(long)]
    json: bool,
}

/// A sentence and the exit code.
struct Complaint(u8, String);

/// Runs the command of `arguments`, the first of which is the name of the program; the exit code. What it has to say goes to
/// standard output and standard error. Signals of the process end an emulation as they end other programs: it must be called on
/// a thread beside which no other takes signals.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            // Help that nobody reads is no failure.
            let _ = usage.print();
            return u8::try_from(usage.exit_code()).unwrap_or(EXIT_USAGE);
        }
    };
    let result = match cli.command {
        Sub::Emulate(given) => emulate(*given),
        Sub::Replay(given) => replay(&given),
    };
    match result {
        Ok(code) => code,
        Err(Complaint(code, message)) => {
            say(&format!("tidegate: {message}"));
            code
        }
    }
}

/// Says something beside the results; if nobody reads it, so be it.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes results; a reader that has gone away is no reason to panic.
fn print(text: &str) -> Result<(), Complaint> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|why| Complaint(EXIT_FAILED, why.to_string()))
}

fn replay(arguments: &Replay) -> Result<u8, Complaint> {
    let path = &arguments.recording;
    let file = File::open(path)
        .map_err(|why| Complaint(EXIT_FAILED, format!("{} cannot be read: {why}", path.display())))?;
    match replay::replay(BufReader::new(file)) {
        Ok(replay) if arguments.json => {
            let result = json!({
                "schema_version": 1,
                "identical": true,
                "verdicts": replay.verdicts,
                "arrivals": replay.arrivals,
                "duration_s": replay.duration_s,
            });
            print(&format!("{result}\n"))?;
            Ok(EXIT_DONE)
        }
        Ok(replay) => {
            print(&format!(
                "identical: {} verdicts on {} packets of real hosts and all others, in {:.3} s\n",
                replay.verdicts, replay.arrivals, replay.duration_s
            ))?;
            Ok(EXIT_DONE)
        }
        Err(ReplayError::Differs(difference)) if arguments.json => {
            let tell = |decision: &Option<_>| decision.as_ref().map(ToString::to_string);
            let result = json!({
                "schema_version": 1,
                "identical": false,
                "first_difference": {
                    "verdict": difference.number,
                    "recorded": tell(&difference.recorded),
                    "replayed": tell(&difference.replayed),
                },
            });
            print(&format!("{result}\n"))?;
            Ok(EXIT_FAILED)
        }
        Err(why) => Err(Complaint(EXIT_FAILED, format!("{}: {why}", path.display()))),
    }
}

#[cfg(not(target_os = "linux"))]
fn emulate(_: Emulate) -> Result<u8, Complaint> {
    Err(Complaint(EXIT_FAILED, "emulation needs Linux: hosts are network namespaces there".to_owned()))
}

/// What the system refused, with its exit code.
#[cfg(target_os = "linux")]
fn of_system(failure: crate::linux::Failure) -> Complaint {
    use crate::linux::Kind;

    let code = match failure.kind {
        Kind::System => EXIT_FAILED,
        Kind::Usage => EXIT_USAGE,
        Kind::Scenario => EXIT_INVALID,
    };
    Complaint(code, failure.message)
}

/// Removes what killed emulations left.
#[cfg(target_os = "linux")]
fn clean() -> Result<u8, Complaint> {
    let cleaned = crate::linux::clean().map_err(of_system)?;
    for name in &cleaned.removed {
        say(&format!("removed {name}"));
    }
    for why in &cleaned.refused {
        say(&format!("tidegate: {why}"));
    }
    if !cleaned.refused.is_empty() {
        return Ok(EXIT_FAILED);
    }
    if cleaned.removed.is_empty() {
        say("nothing was left");
    }
    Ok(EXIT_DONE)
}

#[cfg(target_os = "linux")]
fn emulate(arguments: Emulate) -> Result<u8, Complaint> {
    use crate::linux::{self, Options, Seen};
    use crate::one_link::{self, Rate};
    use crate::{Setup, SetupError, report};
    use tidegate_scenario::Document;

    if arguments.clean {
        return clean();
    }
    let invalid = |error: SetupError| Complaint(EXIT_INVALID, error.to_string());
    let one_link =
        |rate| Document::from_text("one link", &one_link::toml(rate, &arguments.delay, &arguments.queue));
    let document = match (&arguments.scenario, &arguments.rate, &arguments.trace) {
        (Some(path), _, _) => Document::open_within(path, &arguments.allow),
        (None, Some(rate), _) => one_link(Rate::Constant(rate)),
        (None, None, Some(path)) => {
            let name = path.display().to_string();
            one_link(Rate::Trace(&name)).and_then(|mut document| {
                document.attach_file(&name, path)?;
                Ok(document)
            })
        }
        (None, None, None) => {
            return Err(Complaint(EXIT_USAGE, "give a scenario, --rate or --trace".to_owned()));
        }
    };
    let document = document.map_err(|errors| Complaint(EXIT_INVALID, errors.render()))?;
    let mut overrides = arguments.overrides;
    overrides.extend(arguments.duration.map(|duration| format!("duration={duration}")));
    let setup =
        Setup::new(document, &overrides, arguments.seed, arguments.flows_per_pair).map_err(invalid)?;
    let beside = arguments.beside.iter().map(|given| match given.split_once('=') {
        Some((host, line)) => Ok((host.to_owned(), line.to_owned())),
        None => Err(Complaint(EXIT_USAGE, format!("--on {given}: expected HOST=LINE"))),
    });
    let is_shell = arguments.shell.is_some();
    let command = match arguments.shell {
        Some(host) => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
            Some((Some(host), vec![shell]))
        }
        None if arguments.command.is_empty() => None,
        None => Some((None, arguments.command)),
    };
    let options = Options {
        mtu: arguments.mtu,
        buffers: arguments.buffers,
        offload: arguments.offload == "on",
        congestion_control: arguments.congestion_control,
        record: arguments.record,
        command,
        is_shell,
        beside: beside.collect::<Result<_, _>>()?,
        live: arguments.live,
        metrics: arguments.metrics,
        keep_stdout: arguments.json,
        is_urgent: arguments.urgency == "on",
    };
    let ended = linux::emulate(setup, &options).map_err(of_system)?;
    let mut summary = serde_json::to_value(&ended.outcome.summary).expect("a summary has a JSON form");
    report::leave_out_unknown(&mut summary, &ended.emulation);
    summary["emulation"] = ended.emulation;
    if arguments.json {
        print(&format!("{summary}\n"))?;
    } else {
        print(&report::text(&summary))?;
    }
    for warning in report::warnings(&summary) {
        say(&format!("tidegate: {warning}"));
    }
    if let Some(why) = ended.broken {
        return Err(Complaint(
            EXIT_FAILED,
            format!("{why}: it ended there, the results are whole until then"),
        ));
    }
    if let Some(why) = ended.unrecorded {
        return Err(Complaint(
            EXIT_FAILED,
            format!("{why}: the recording ends early, the results are whole"),
        ));
    }
    if ended.is_interrupted {
        // Commands may have heard of the signal as well.
        return Ok(EXIT_INTERRUPTED);
    }
    let mut failed = report::failed_commands(&summary["emulation"]);
    failed.extend(match ended.status {
        Seen::Ended(Some(status)) if !status.success() => Some(format!("the command ended with {status}")),
        Seen::Ended(None) => Some("the command ended, and nobody knows how".to_owned()),
        _ => None,
    });
    for what in &failed {
        say(&format!("tidegate: {what}"));
    }
    Ok(if failed.is_empty() { EXIT_DONE } else { EXIT_FAILED })
}
