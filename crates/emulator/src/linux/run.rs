//! The loop: what is due runs, packets are read and written, and in between the process sleeps until the next of these.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use tidegate_lab::Outcome;
use tidegate_scenario::Scenario;
use tidegate_units::{Span, Time};
use tidegate_wire::flows::OwnFlow;
use tidegate_wire::offload::{self, Inbound};
use tidegate_wire::recording::recorder::Recorder;

use super::clean::Lease;
use super::error::{Failure, Kind};
use super::host::{DEVICE_QUEUE_PACKETS, Host, HostOptions, Written};
use super::namespace::Namespace;
use super::output::Kept;
use super::processes;
use super::urgency::Urgency;
use super::watch::Watchers;
use crate::address;
use crate::emulation::Emulation;
use crate::setup::Setup;

/// Packets read from one host before the others and what is due get their turn: at 1500 bytes and 10 Gbit/s 77 us.
const BATCH_PACKETS: usize = 64;
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
    /// How the command ended, if it did.
    pub status: Option<ExitStatus>,
    /// Whether a signal ended the emulation.
    pub is_interrupted: bool,
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

/// The time since the emulation began. The only clock of this world.
struct Clock {
    start: Time,
}

impl Clock {
    fn start() -> Self {
        Self { start: monotonic() }
    }

    fn now(&self) -> Time {
        Time::ZERO + monotonic().since(self.start)
    }
}

fn monotonic() -> Time {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has a monotonic clock");
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// A child that runs beside the command; that of a command of the scenario has its name.
struct Beside {
    name: Option<String>,
    child: Child,
}

/// Children that are waited for.
#[derive(Default)]
struct Children {
    command: Option<Child>,
    status: Option<ExitStatus>,
    beside: Vec<Beside>,
    /// The commands of the scenario that ended, and with which code; none: by a signal.
    ended: Vec<(String, Option<i32>)>,
}

impl Children {
    /// Takes note of those that ended; whether the command is among them.
    fn reap(&mut self) -> bool {
        let ended = &mut self.ended;
        self.beside.retain_mut(|beside| {
            let Ok(status) = beside.child.try_wait() else { return false };
            let Some(status) = status else { return true };
            ended.extend(beside.name.take().map(|name| (name, status.code())));
            false
        });
        if let Some(Ok(Some(status))) = self.command.as_mut().map(Child::try_wait) {
            self.command = None;
            self.status = Some(status);
            return true;
        }
        false
    }
}

/// All hosts. Their processes end with them.
struct Hosts {
    list: Vec<Host>,
    children: Children,
    // Dropped after the namespaces: as long as one has a name, the run is alive.
    _lease: Lease,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let namespaces: Vec<&Namespace> = self.list.iter().map(|host| &host.namespace).collect();
        let children = &mut self.children;
        processes::end(&namespaces, || {
            children.reap();
        });
        let beside = children.beside.iter_mut().map(|beside| &mut beside.child);
        for child in beside.chain(&mut children.command) {
            let _ = child.wait();
        }
    }
}

impl Hosts {
    /// Packets that devices of hosts have dropped.
    fn dropped_packets(&self) -> u64 {
        self.list.iter().map(Host::dropped_packets).sum()
    }

    /// Takes what devices still hold away; how many packets that is. What hosts send meanwhile may be among them.
    fn unread_packets(&self) -> Result<u64, Failure> {
        let mut nowhere = [0; 1];
        let mut count = 0;
        for host in &self.list {
            for _ in 0..DEVICE_QUEUE_PACKETS {
                if host.read(&mut nowhere)?.is_none() {
                    break;
                }
                count += 1;
            }
        }
        Ok(count)
    }

    fn find(&self, name: &str) -> Result<usize, Failure> {
        self.list.iter().position(|host| host.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.list.iter().map(|host| host.name.as_str()).collect();
            Failure::usage(format!("there is no real host `{name}`; there are: {}", names.join(", ")))
        })
    }

    /// Tells `command` of all hosts and of the flows that they send.
    fn describe(&self, own: &[OwnFlow], scenario: &Scenario, command: &mut Command) {
        let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        for host in &self.list {
            let name = plain(&host.name);
            command.env(format!("TIDEGATE_ADDRESS_{name}"), address::ipv4(host.node).to_string());
            command.env(format!("TIDEGATE_ADDRESS6_{name}"), address::ipv6(host.node).to_string());
        }
        for flow in own {
            let name = plain(&scenario.flows[flow.flow as usize].name);
            command.env(format!("TIDEGATE_PORT_{name}"), flow.source_port.to_string());
        }
    }

    /// Starts `command` in host number `host`.
    fn spawn(&self, host: usize, mut command: Command) -> Result<Child, Failure> {
        let own = &self.list[host];
        // The peer of the first is the second, and of all others the first.
        let peer = &self.list[usize::from(host == 0)];
        command
            .env("TIDEGATE_HOST", &own.name)
            .env("TIDEGATE_NAMESPACE", own.namespace.name())
            .env("TIDEGATE_ADDRESS", address::ipv4(own.node).to_string())
            .env("TIDEGATE_ADDRESS6", address::ipv6(own.node).to_string())
            .env("TIDEGATE_PEER", address::ipv4(peer.node).to_string())
            .env("TIDEGATE_PEER6", address::ipv6(peer.node).to_string());
        let program = command.get_program().to_string_lossy().into_owned();
        let spawned = own.namespace.enter(|| command.spawn()).and_then(|spawned| spawned);
        spawned.map_err(|why| {
            Failure::system(format!("`{program}` cannot be started in host {}", own.name), why)
        })
    }
}

/// Emulates the scenario of `setup`.
///
/// # Errors
/// When the system refuses something, or the scenario cannot be built.
pub fn emulate(setup: Setup, options: &Options) -> Result<Ended, Failure> {
    // Before any thread or child: those that end the emulation arrive as readable bytes only.
    let mut signals = SigSet::empty();
    let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    // A view that is stopped would leave the terminal as it is.
    let stopping = options.live.then_some(Signal::SIGTSTP);
    for signal in ending.into_iter().chain([Signal::SIGCHLD]).chain(stopping) {
        signals.add(signal);
    }
    signals.thread_block().map_err(|why| Failure::system("signals cannot be held", why))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&signals, flags)
        .map_err(|why| Failure::system("signals cannot be read", why))?;

    let recording = options.record.as_deref().map(open_recording);
    let scenario = std::sync::Arc::clone(&setup.scenario);
    let (real, own) = (setup.real.clone(), setup.own.clone());
    let mut emulation =
        Emulation::start(setup, options.buffers, usize::from(options.mtu), recording.transpose()?)
            .map_err(|why| Failure { kind: Kind::Scenario, message: why.to_string() })?;

    let run = std::process::id();
    let mut hosts = Hosts { list: Vec::new(), children: Children::default(), _lease: Lease::take(run)? };
    for &node in &real {
        let name = &scenario.nodes[node as usize].name;
        let host = HostOptions {
            mtu: options.mtu,
            congestion_control: &options.congestion_control,
            offload: options.offload,
        };
        hosts.list.push(Host::create(run, name, node, &host)?);
    }
    let watchers = Watchers::start(options.live, options.metrics)?;
    // While the view has the terminal, nobody else writes to it.
    let kept = if options.live && io::stderr().is_terminal() { Some(Kept::new()?) } else { None };
    // Better late by what the kernel likes than not at all.
    let _ = prctl::set_timerslack(TIMER_SLACK_NANOS);
    start_commands(&mut hosts, &scenario, &own, options, kept.as_ref())?;
    let end = Time::ZERO + scenario.duration;
    // After all threads and children: they are served as others are.
    let urgency = if options.is_urgent { Urgency::take() } else { Urgency::normal() };
    let stop = carry(&mut emulation, &mut hosts, &signals, end, options.offload, watchers)?;
    let granted = urgency.to_json();
    drop(urgency);
    emulation.counts.device_dropped_packets = hosts.dropped_packets();
    if !options.offload {
        // With offload a packet of a device may be many.
        emulation.counts.unread_packets = hosts.unread_packets()?;
    }

    // Commands first: what they still send is no part of the results.
    hosts.children.reap();
    let status = hosts.children.status;
    let codes: Map<String, Value> =
        hosts.children.ended.iter().map(|(name, code)| (name.clone(), json!(code))).collect();
    let namespaces: Vec<String> = hosts.list.iter().map(|host| host.namespace.name().to_owned()).collect();
    drop(hosts);
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
    results["command_exit_code"] = json!(status.map(|status| status.code()));
    Ok(Ended { outcome, emulation: results, status, is_interrupted: stop.by_signal, unrecorded })
}

/// Starts what the user wants to run in the hosts.
fn start_commands(
    hosts: &mut Hosts,
    scenario: &Scenario,
    own: &[OwnFlow],
    options: &Options,
    kept: Option<&Kept>,
) -> Result<(), Failure> {
    let redirect = |command: &mut Command| -> Result<(), Failure> {
        if let Some(kept) = kept {
            command.stdin(Stdio::null()).stdout(kept.share()?).stderr(kept.share()?);
        } else if options.keep_stdout {
            let stderr = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(stderr.map_err(|why| Failure::system("standard error cannot be shared", why))?);
        }
        Ok(())
    };
    let of_scenario = scenario.commands.iter().map(|command| {
        let host = &scenario.nodes[command.host.index()].name;
        (Some(command.name.clone()), host, &command.run)
    });
    let of_user = options.beside.iter().map(|(host, line)| (None, host, line));
    for (name, host, line) in of_scenario.chain(of_user) {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line).stdin(Stdio::null());
        redirect(&mut command)?;
        hosts.describe(own, scenario, &mut command);
        let child = hosts.spawn(hosts.find(host)?, command)?;
        hosts.children.beside.push(Beside { name, child });
    }
    if let Some((host, words)) = &options.command {
        let host = host.as_ref().map_or(Ok(0), |name| hosts.find(name))?;
        let [program, arguments @ ..] = &words[..] else {
            return Err(Failure::usage("the command is empty"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        redirect(&mut command)?;
        hosts.describe(own, scenario, &mut command);
        hosts.children.command = Some(hosts.spawn(host, command)?);
    }
    Ok(())
}

/// How and when it ended.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: Time,
    by_signal: bool,
}

/// Carries packets until `end`, until the command ends or a signal comes.
fn carry<W: Write>(
    emulation: &mut Emulation<W>,
    hosts: &mut Hosts,
    signals: &SignalFd,
    end: Time,
    offload: bool,
    mut watchers: Watchers,
) -> Result<Stop, Failure> {
    let clock = Clock::start();
    let mut room = vec![0; if offload { offload::ROOM_BYTES } else { 0 }];
    loop {
        let now = clock.now().min(end);
        emulation.advance(now);
        hand_over(emulation, &mut hosts.list, &clock);
        if now >= watchers.wants_at() {
            emulation.counts.device_dropped_packets = hosts.dropped_packets();
            watchers.leave(emulation.look(now));
        }
        if now >= end {
            return Ok(Stop { at: end, by_signal: false });
        }
        if !read_all(emulation, hosts, &clock, end, &mut room)? {
            let next = emulation.next_event().unwrap_or(Time::MAX).min(end).min(watchers.wants_at());
            wait(hosts, signals, next.since(clock.now()))?;
        }
        while let Some(signal) =
            signals.read_signal().map_err(|why| Failure::system("signals cannot be read", why))?
        {
            let has_command_ended = hosts.children.reap();
            let is_no_end = [Signal::SIGCHLD as u32, Signal::SIGTSTP as u32];
            if has_command_ended || !is_no_end.contains(&signal.ssi_signo) {
                return Ok(Stop { at: clock.now().min(end), by_signal: !has_command_ended });
            }
        }
    }
}

/// Gives the hosts what has left the network for them.
fn hand_over<W: Write>(emulation: &mut Emulation<W>, hosts: &mut [Host], clock: &Clock) {
    while let Some(departure) = emulation.next_departure() {
        let host = &mut hosts[departure.host as usize];
        let mut written = host.write(emulation.packet(&departure), departure.due);
        if written == Written::Full {
            host.flush(|due, is_taken| emulation.delivered(due, clock.now(), is_taken));
            written = host.write(emulation.packet(&departure), departure.due);
        }
        emulation.release(departure);
        if let Written::Now(is_taken) = written {
            emulation.delivered(departure.due, clock.now(), is_taken);
        }
    }
    for host in hosts {
        host.flush(|due, is_taken| emulation.delivered(due, clock.now(), is_taken));
    }
}

/// Takes what the hosts have sent, some of each; whether there was anything. `room` is for many packets in one, and empty
/// without segmentation offload.
fn read_all<W: Write>(
    emulation: &mut Emulation<W>,
    hosts: &Hosts,
    clock: &Clock,
    end: Time,
    room: &mut [u8],
) -> Result<bool, Failure> {
    let mut any = false;
    for (number, host) in (0..).zip(&hosts.list) {
        let mut count = 0;
        while !room.is_empty() && count < BATCH_PACKETS {
            let Some(bytes) = host.read(room)? else { break };
            any = true;
            count += read_together(emulation, number, &mut room[..bytes], clock.now().min(end));
        }
        for _ in count..if room.is_empty() { BATCH_PACKETS } else { count } {
            // With all buffers in use a packet is read all the same, and lost: the network is full.
            let mut nowhere = [0; 1];
            let read = match emulation.room() {
                Some(free) => host.read(free)?,
                None => host.read(&mut nowhere)?,
            };
            let Some(bytes) = read else { break };
            any = true;
            emulation.arrive(number, bytes, clock.now().min(end));
        }
    }
    Ok(any)
}

/// Takes many packets in one from host `number`; how many they are.
fn read_together<W: Write>(emulation: &mut Emulation<W>, number: u32, read: &mut [u8], now: Time) -> usize {
    let Ok(inbound) = Inbound::new(read) else {
        emulation.counts.stray_packets += 1;
        return 1;
    };
    let count = inbound.count();
    if inbound.is_datagrams() && count > 1 {
        emulation.counts.burst_datagrams += count as u64;
    }
    let entered =
        emulation.arrive_together(number, count, now, |rooms, lengths| inbound.split(rooms, lengths));
    if entered.is_err() {
        emulation.counts.stray_packets += count as u64;
    }
    count
}

/// Sleeps until a host has sent something, a signal has come, or `span` is over.
fn wait(hosts: &Hosts, signals: &SignalFd, span: Span) -> Result<(), Failure> {
    let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
    let mut descriptors: Vec<PollFd<'_>> = hosts
        .list
        .iter()
        .map(|host| readable(host.descriptor()))
        .chain([readable(signals.as_fd())])
        .collect();
    let timeout = TimeSpec::from_duration(std::time::Duration::from_nanos(span.as_nanos()));
    match ppoll(&mut descriptors, Some(timeout), None) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(why) => Err(Failure::system("waiting failed", why)),
    }
}
