//! An emulation from its start to its results.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::prctl;
use serde_json::{Map, Value, json};
use tidegate_lab::Outcome;
use tidegate_units::Time;
use tidegate_wire::flows::OwnFlow;
use tidegate_wire::recording::recorder::Recorder;

use super::carry::carry;
use super::child::Seen;
use super::clean::Lease;
use super::error::{Failure, Kind};
use super::host::{Host, HostOptions};
use super::hosts::Hosts;
use super::output::Kept;
use super::signals::Signals;
use super::terminal::Terminal;
use super::urgency::Urgency;
use super::watch::Watchers;
use crate::emulation::Emulation;
use crate::setup::Setup;

/// The kernel may wake us this late at most, in nanoseconds; the default of 50 us would be the largest part of the lateness.
const TIMER_SLACK_NANOS: u64 = 1;
/// So long a recording may take to be written after the end; after a signal somebody waits for the prompt.
const RECORDING_PATIENCE: Duration = Duration::from_secs(60);
const RECORDING_PATIENCE_AFTER_SIGNAL: Duration = Duration::from_millis(500);

/// How to emulate.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Debug)]
pub struct Options {
    /// Largest packet of the hosts.
    pub mtu: u16,
    /// Packets in the network at once.
    pub buffers: u32,
    /// Whether hosts hand over many packets of a connection as one, and take many as one.
    pub offload: bool,
    /// What TCP of the hosts uses.
    pub congestion_control: String,
    /// Where to record.
    pub record: Option<PathBuf>,
    /// Run in the first host, or in the one named: when it ends, the emulation does.
    pub command: Option<(Option<String>, Vec<String>)>,
    /// Whether the command is a shell for somebody to use.
    pub is_shell: bool,
    /// Shell lines run beside it, each in the host named.
    pub beside: Vec<(String, String)>,
    /// Show in the terminal what happens.
    pub live: bool,
    /// Where to offer metrics.
    pub metrics: Option<SocketAddr>,
    /// The output of commands goes to standard error, for standard output is the result's.
    pub keep_stdout: bool,
    /// Whether to ask for real-time priority and locked memory.
    pub is_urgent: bool,
}

/// What an emulation left behind.
#[derive(Debug)]
pub struct Ended {
    /// The results, as of a run in the simulator.
    pub outcome: Outcome,
    /// What is only in an emulation.
    pub emulation: Value,
    /// Whether and how the command ended.
    pub status: Seen,
    /// Whether a signal ended the emulation.
    pub is_interrupted: bool,
    /// What broke, if that ended it.
    pub broken: Option<Failure>,
    /// Why not all was recorded that was to be.
    pub unrecorded: Option<Failure>,
}

/// What may wait to be recorded: more than a second of a million packet-hops.
const RECORDING_MEBIBYTES: usize = 64;

fn open_recording(path: &Path) -> Result<Recorder, Failure> {
    let owned = path.to_owned();
    Recorder::create(move || File::create(owned), RECORDING_MEBIBYTES)
        .map_err(|why| Failure::system(format!("{} cannot be written", path.display()), why))
}

/// Emulates the scenario of `setup`.
///
/// # Errors
/// When the system refuses something, or the scenario cannot be built.
pub fn emulate(setup: Setup, options: &Options) -> Result<Ended, Failure> {
    // Before any thread or child. A view that is stopped would leave the terminal as it is.
    let signals = Signals::hold(options.live)?;
    let scenario = std::sync::Arc::clone(&setup.scenario);
    let (real, own) = (setup.real.clone(), setup.own.clone());
    let mut emulation = Emulation::start(setup, options.buffers, usize::from(options.mtu), None)
        .map_err(|why| Failure { kind: Kind::Scenario, message: why.to_string() })?;

    // Restored when all processes have gone.
    let terminal = if options.command.is_some() { Terminal::save() } else { None };
    let run = std::process::id();
    let mut hosts = Hosts::new(Lease::take(run)?);
    for &node in &real {
        let name = &scenario.nodes[node as usize].name;
        let host = HostOptions {
            mtu: options.mtu,
            congestion_control: &options.congestion_control,
            offload: options.offload,
        };
        hosts.list.push(Host::create(run, name, node, &host)?);
    }
    if let Some(path) = &options.record {
        // Not before: a start that is refused leaves an older recording as it is.
        emulation.record_to(open_recording(path)?);
    }
    let mut watchers = Watchers::start(options.live, options.metrics)?;
    // While the view has the terminal, nobody else writes to it.
    let kept = if options.live && io::stderr().is_terminal() { Some(Kept::new()?) } else { None };
    hosts.start_commands(&scenario, &own, options, kept.as_ref(), signals.before())?;
    // Better late by what the kernel likes than not at all. What was started before has what is usual.
    let _ = prctl::set_timerslack(TIMER_SLACK_NANOS);
    let end = Time::ZERO + scenario.duration;
    // After all threads and children: they are served as others are.
    let urgency = if options.is_urgent { Urgency::take() } else { Urgency::normal() };
    let stop = carry(&mut emulation, &mut hosts, &signals, end, options.offload, &mut watchers)?;
    drop(watchers);
    let granted = urgency.to_json();
    drop(urgency);
    emulation.counts.device_dropped_packets = hosts.dropped_packets();
    if !options.offload {
        // With offload a packet of a device may be many.
        emulation.counts.unread_packets = hosts.unread_packets();
    }

    // Commands first: what they still send is no part of the results.
    hosts.children.reap();
    let status = hosts.children.status;
    let codes: Map<String, Value> =
        hosts.children.ended.iter().map(|(name, code)| (name.clone(), json!(code))).collect();
    let namespaces: Vec<String> = hosts.list.iter().map(|host| host.namespace.name().to_owned()).collect();
    drop(hosts);
    drop(terminal);
    if let Some(kept) = kept {
        let printed = if options.keep_stdout { kept.print(io::stderr()) } else { kept.print(io::stdout()) };
        printed.map_err(|why| Failure::system("the output of commands cannot be printed", why))?;
    }
    let (outcome, mut results, recorded) = emulation.finish(stop.at);
    let name = |flow: &OwnFlow| scenario.flows[flow.flow as usize].name.clone();
    results["real_flows"] = own.iter().map(name).collect();
    let patience = if stop.by_signal { RECORDING_PATIENCE_AFTER_SIGNAL } else { RECORDING_PATIENCE };
    let recorded = recorded.map(|recorded| recorded.and_then(|recorder| recorder.close(patience)));
    results["recording"] = json!(recorded.as_ref().map(|recorded| json!({
        "complete": recorded.is_ok(),
        "bytes": recorded.as_ref().ok(),
    })));
    let unrecorded = match (recorded, &options.record) {
        (Some(Err(why)), Some(path)) => {
            Some(Failure::system(format!("{} cannot be written", path.display()), why))
        }
        _ => None,
    };
    results["urgency"] = granted;
    results["offload"] = json!(options.offload);
    results["congestion_control"] = json!(options.congestion_control);
    results["hosts"] = json!(namespaces);
    results["ended_commands"] = Value::Object(codes);
    results["command_exit_code"] = json!(match status {
        Seen::Ended(status) => status.and_then(|status| status.code()),
        Seen::Running => None,
    });
    Ok(Ended {
        outcome,
        emulation: results,
        status,
        is_interrupted: stop.by_signal,
        broken: stop.broken,
        unrecorded,
    })
}
