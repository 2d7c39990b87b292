//! The commands that run in hosts, and how they ended.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use super::child::{Child, Seen};
use super::processes::Offspring;

/// A child that runs beside the command.
#[derive(Debug)]
pub struct Beside {
    /// Its name in the scenario, or what the user wrote.
    pub name: String,
    /// What was started.
    pub child: Child,
}

/// Children that are waited for.
#[derive(Debug, Default)]
pub struct Children {
    /// Whose end is that of the emulation.
    pub command: Option<Child>,
    /// It is a shell that somebody uses.
    pub is_shell: bool,
    /// Whether and how the command ended.
    pub status: Seen,
    /// Those beside it.
    pub beside: Vec<Beside>,
    /// Those of them that ended by themselves, and with which code; none: by a signal. Of several with one name, the first that
    /// failed.
    pub ended: BTreeMap<String, Option<i32>>,
}

impl Children {
    /// Takes note of those that ended; whether the command is among them.
    pub fn reap(&mut self) -> bool {
        let ended = &mut self.ended;
        self.beside.retain(|beside| {
            let Seen::Ended(status) = beside.child.look() else { return true };
            let code = status.and_then(|status| status.code());
            let told = ended.entry(beside.name.clone()).or_insert(code);
            if *told == Some(0) {
                *told = code;
            }
            false
        });
        let Some(seen @ Seen::Ended(_)) = self.command.as_ref().map(Child::look) else { return false };
        self.command = None;
        self.status = seen;
        true
    }
}

impl Offspring for Children {
    fn reap(&mut self) {
        Self::reap(self);
    }
    fn has_any(&self) -> bool {
        self.command.is_some() || !self.beside.is_empty()
    }
    fn signal(&self, signal: Signal) {
        // Shells that somebody uses do not listen to being asked, but to being left.
        if let Some(shell) = self.command.as_ref().filter(|_| self.is_shell && signal == Signal::SIGTERM) {
            shell.signal(Signal::SIGHUP);
        }
        let beside = self.beside.iter().map(|beside| &beside.child);
        beside.chain(&self.command).for_each(|child| child.signal(signal));
    }
}
