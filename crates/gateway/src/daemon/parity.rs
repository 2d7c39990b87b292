//! `tidegatectl record` and `tidegate-gateway replay`: what a daemon decided, and whether that is decided once more.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde_json::{Value, json};
use tidegate_units::{Span, Time};

use super::client::understand;
use super::config;
use super::io::clock;
use super::log::show;
use super::recording::{ReceiveError, receive};
use super::request::Command;
use super::run::new_file;
use crate::record::{Difference, Differs, Outcome, replay as replay_from};

/// The first answer is no longer.
const LINE_BYTES_MAX: usize = 64 << 10;
/// So long the daemon may say nothing once the end was asked for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Differences end with this code, as failures do.
const EXIT_DIFFERS: u8 = 1;

/// Records the thread of `site`, or the only one, into `path`, by the daemon at the other end of `stream`, for so
/// long or until a signal. The file is ours: the daemon only sends what is to be in it.
///
/// # Errors
/// When there is such a file and it is not to be written over, it cannot be written, or the daemon does not record; for people.
pub fn record(
    mut stream: UnixStream,
    path: &Path,
    (site, seconds): (Option<&str>, Option<u32>),
    is_forced: bool,
) -> Result<(), String> {
    let refused = |why: io::Error| format!("{}: {why}", path.display());
    let unheard = |why: io::Error| format!("the daemon does not answer: {why}");
    let is_new = !path.exists();
    let mut file = if is_forced {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(refused)?
    } else {
        new_file(path)?
    };
    // Before anything begins that a signal ends.
    let ending: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let held = ending
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&ending, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC));
    let signals = held.map_err(|why| format!("signals cannot be held: {why}"))?;

    let begun = writeln!(stream, "{}", Command::record_line(site))
        .map_err(unheard)
        .and_then(|()| first_line(&mut stream).map_err(unheard));
    let begun = match begun.and_then(|line| understand(&line)) {
        Ok(begun) => begun,
        Err(why) => {
            if is_new {
                let _ = fs::remove_file(path);
            }
            return Err(why);
        }
    };
    if site.is_some() {
        let names: Vec<&str> =
            begun["sites"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        show(&format!("records {}\n", names.join(", ")))?;
    }
    if file.metadata().is_ok_and(|about| about.is_file()) {
        // Who could read what was there may not read this.
        file.set_permissions(Permissions::from_mode(0o600))
            .and_then(|()| file.set_len(0))
            .map_err(refused)?;
    }
    let mut until =
        Until { end: seconds.map(|seconds| clock::now() + Span::from_secs(seconds.into())), is_over: false };
    let other_end = stream.try_clone().map_err(unheard)?;
    let line =
        receive(&mut stream, &mut file, || until.wait(&other_end, &signals)).map_err(|why| match why {
            ReceiveError::File(why) => format!("{}; the recording is not complete", refused(why)),
            ReceiveError::Daemon(why) => format!("{}: the recording is not complete: {why}", path.display()),
        })?;
    let answer = understand(&line)
        .map_err(|why| format!("{}: the recording is not complete: {why}", path.display()))?;
    show(&format!("{}: {} bytes; `tidegate-gateway replay` compares\n", path.display(), answer["bytes"]))
}

/// What follows belongs to the recording, so that no more is read than the line.
fn first_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX && line.last() != Some(&b'\n') && stream.read(&mut byte)? > 0 {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// When a recording is to end.
struct Until {
    end: Option<Time>,
    is_over: bool,
}

impl Until {
    /// Until the daemon has said something. It is told when it is to end.
    fn wait(&mut self, stream: &UnixStream, signals: &SignalFd) -> io::Result<()> {
        loop {
            let patience = if self.is_over {
                Some(PATIENCE)
            } else {
                self.end.map(|end| {
                    Duration::from_nanos(end.since(clock::now()).as_nanos()) + Duration::from_millis(1)
                })
            };
            let timeout = patience
                .map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
            let mut waits = [
                PollFd::new(stream.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            let count = match poll(&mut waits, timeout) {
                // Somebody stopped this and let it go on.
                Err(Errno::EINTR) => continue,
                polled => polled?,
            };
            let [daemon, signal] = waits.map(|one| one.any().unwrap_or(false));
            if count == 0 && self.is_over {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let is_due = self.end.is_some_and(|end| clock::now() >= end);
            if !self.is_over && (signal || is_due) {
                self.is_over = true;
                // Whoever has ended it already says why.
                let _ = stream.shutdown(Shutdown::Write);
            }
            if daemon {
                return Ok(());
            }
        }
    }
}

/// Replays the recording at `path`: the exit code.
///
/// # Errors
/// When it is none, or was cut off; for people.
pub fn replay(path: &Path, is_json: bool) -> Result<u8, String> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|why| told(&why))?;
    let outcome =
        replay_from(BufReader::with_capacity(1 << 20, file), config::configure).map_err(|why| told(&why))?;
    show(&if is_json { format!("{:#}\n", to_json(&outcome)) } else { to_text(&outcome) })?;
    Ok(if outcome.differing == 0 { 0 } else { EXIT_DIFFERS })
}

fn to_text(outcome: &Outcome) -> String {
    let Outcome { verdicts, to_hosts, datagrams, sealed, drops, marks, steps, .. } = outcome;
    let seconds = outcome.span.as_secs_f64();
    let all = format!(
        "{verdicts} verdicts in {seconds:.3} s ({to_hosts} packets to hosts, {datagrams} datagrams, {sealed} sealed, {drops} dropped, \
         {marks} marked) on {steps} events"
    );
    if outcome.differing == 0 {
        return format!("identical: {all}\n");
    }
    let mut text = format!("{} differ of {all}; the first:\n", outcome.differing);
    for difference in &outcome.first {
        let _ = writeln!(text, "{difference}");
    }
    text
}

fn to_json(outcome: &Outcome) -> Value {
    let one = |difference: &Difference| {
        let (expected, got) = match &difference.differs {
            Differs::Verdict(expected, got) => (expected.as_ref(), got.as_ref()),
            Differs::Asked => (None, None),
        };
        json!({
            "verdict": difference.number,
            "at_s": difference.at.as_secs_f64(),
            "during": difference.during,
            "site": difference.site,
            "expected": expected.map(ToString::to_string),
            "got": got.map(ToString::to_string),
            "tunnels_asked_otherwise": difference.differs == Differs::Asked,
        })
    };
    json!({
        "schema_version": 1,
        "identical": outcome.differing == 0,
        "verdicts": outcome.verdicts,
        "differing": outcome.differing,
        "first_differences": outcome.first.iter().map(one).collect::<Vec<_>>(),
        "to_hosts": outcome.to_hosts,
        "datagrams": outcome.datagrams,
        "sealed": outcome.sealed,
        "dropped": outcome.drops,
        "marked": outcome.marks,
        "events": outcome.steps,
        "cores": outcome.cores,
        "duration_s": outcome.span.as_secs_f64(),
        "version": outcome.version,
    })
}
