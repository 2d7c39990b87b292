//! The terminal as it was: a shell that is made to end leaves it without echo, and to a group that is no more.

use std::io::{self, IsTerminal, Stdin};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// See the module. Dropping it restores the terminal.
#[derive(Debug)]
pub struct Terminal {
    input: Stdin,
    settings: Termios,
    group: Pid,
}

impl Terminal {
    /// What standard input is, if that is a terminal and ours.
    pub fn save() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() {
            return None;
        }
        let settings = tcgetattr(&input).ok()?;
        let group = tcgetpgrp(&input).ok().filter(|group| *group == getpgrp())?;
        Some(Self { input, settings, group })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if tcgetattr(&self.input).is_ok_and(|now| now == self.settings)
            && tcgetpgrp(&self.input) == Ok(self.group)
        {
            return;
        }
        // Whoever is not in front may not change it, and would be stopped by this signal; unless it is held.
        let mut held = SigSet::empty();
        held.add(Signal::SIGTTOU);
        let before = held.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        // A terminal that has gone away needs nothing.
        let _ = tcsetpgrp(&self.input, self.group);
        let _ = tcsetattr(&self.input, SetArg::TCSADRAIN, &self.settings);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}
