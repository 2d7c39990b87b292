//! Programs that are started with the signals that the caller had, although ours are held meanwhile.
//!
//! `std::process::Command` hands on what the thread holds, and a thread that let go of it for a moment could be hit.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const INPUT: RawFd = 0;
const OUTPUT: RawFd = 1;
const ERRORS: RawFd = 2;

/// A program to be started, with the variables of this one.
#[derive(Debug)]
pub struct Program {
    words: Vec<OsString>,
    variables: BTreeMap<OsString, OsString>,
    has_input: bool,
    /// Where both its output and its errors go.
    kept: Option<OwnedFd>,
    is_output_errors: bool,
}

impl Program {
    /// The program that the first of `words` names, found as a shell finds it.
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            variables: std::env::vars_os().collect(),
            has_input: true,
            kept: None,
            is_output_errors: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &OsStr {
        self.words.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Sets a variable.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// It reads nothing.
    pub const fn without_input(&mut self) {
        self.has_input = false;
    }

    /// What it prints goes to `file`.
    pub fn keep(&mut self, file: OwnedFd) {
        self.kept = Some(file);
    }

    /// What it prints goes to standard error.
    pub const fn print_to_errors(&mut self) {
        self.is_output_errors = true;
    }

    /// Starts it; of signals it holds `held`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, held: &SigSet) -> io::Result<Child> {
        let plain = |text: Vec<u8>| CString::new(text).map_err(io::Error::from);
        let words: Vec<CString> =
            self.words.iter().map(|word| plain(word.clone().into_vec())).collect::<Result<_, _>>()?;
        let variables: Vec<CString> = self
            .variables
            .iter()
            .map(|(name, value)| plain([name.clone().into_vec(), value.clone().into_vec()].join(&b'=')))
            .collect::<Result<_, _>>()?;
        let Some(program) = words.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let pid = posix_spawnp(program, &self.streams()?, &attributes(held)?, &words, &variables)?;
        Ok(Child { pid })
    }

    fn streams(&self) -> nix::Result<PosixSpawnFileActions> {
        let mut streams = PosixSpawnFileActions::init()?;
        if !self.has_input {
            streams.add_open(INPUT, "/dev/null", OFlag::O_RDONLY, Mode::empty())?;
        }
        if let Some(kept) = &self.kept {
            streams.add_dup2(kept.as_raw_fd(), OUTPUT)?;
            streams.add_dup2(kept.as_raw_fd(), ERRORS)?;
        } else if self.is_output_errors {
            streams.add_dup2(ERRORS, OUTPUT)?;
        }
        Ok(streams)
    }
}

fn attributes(held: &SigSet) -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
    attributes.set_sigmask(held)?;
    // This program ignores it, others expect it.
    let mut usual = SigSet::empty();
    usual.add(Signal::SIGPIPE);
    attributes.set_sigdefault(&usual)?;
    Ok(attributes)
}

/// A program that was started and has not been seen to end.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
}

/// Whether a child has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seen {
    /// It has not.
    #[default]
    Running,
    /// It has; how, if the system says so.
    Ended(Option<ExitStatus>),
}

impl Child {
    /// Looks whether it has ended. Once it has, the value is of no use any more: another process may get its number.
    pub fn look(&self) -> Seen {
        match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => Seen::Ended(Some(ExitStatus::from_raw((code & 0xff) << 8))),
            Ok(WaitStatus::Signaled(_, signal, has_dumped)) => {
                Seen::Ended(Some(ExitStatus::from_raw(signal as i32 | i32::from(has_dumped) << 7)))
            }
            Ok(_) | Err(nix::Error::EINTR) => Seen::Running,
            // It is no child of ours any more, or ended by a signal without a name.
            Err(_) => Seen::Ended(None),
        }
    }

    /// Sends it a signal; it must not have been seen to end.
    pub fn signal(&self, signal: Signal) {
        // It may have ended meanwhile.
        let _ = kill(self.pid, signal);
    }
}
