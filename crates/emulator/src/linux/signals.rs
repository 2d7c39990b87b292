//! Signals as something to be read: none interrupts the loop, and those that end the emulation end it in order.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::error::Failure;

/// See the module.
#[derive(Debug)]
pub struct Signals {
    file: SignalFd,
    before: SigSet,
}

/// What a signal means here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A child may have ended.
    Child,
    /// The emulation is to end.
    End,
    /// The terminal asks to stop, and the view that has it does not.
    Stop,
}

impl Signals {
    /// Holds the signals of this thread and of those that it starts from now on; that to stop too, if `with_stop`.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn hold(with_stop: bool) -> Result<Self, Failure> {
        let refused = |why| Failure::system("signals cannot be held", why);
        let mut held = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGCHLD] {
            held.add(signal);
        }
        if with_stop {
            held.add(Signal::SIGTSTP);
        }
        // Whoever started us may have ignored the ends of children, and then nobody would hear of them. The handler never runs.
        let never = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(Signal::SIGCHLD as i32, never)
            .map_err(|why| Failure::system("signals cannot be held", why))?;
        let before = SigSet::thread_get_mask().map_err(refused)?;
        held.thread_block().map_err(refused)?;
        let file = SignalFd::with_flags(&held, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        Ok(Self { file: file.map_err(refused)?, before })
    }

    /// What was held before: what programs are to begin with.
    pub const fn before(&self) -> &SigSet {
        &self.before
    }

    /// The next signal that has come.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self) -> Result<Option<Meaning>, Failure> {
        let read = self.file.read_signal().map_err(|why| Failure::system("signals cannot be read", why))?;
        Ok(read.map(|signal| match signal.ssi_signo {
            number if number == Signal::SIGCHLD as u32 => Meaning::Child,
            number if number == Signal::SIGTSTP as u32 => Meaning::Stop,
            _ => Meaning::End,
        }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
