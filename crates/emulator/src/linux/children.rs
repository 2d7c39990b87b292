//! The commands that run in hosts, and how they ended.

use std::process::ExitStatus;

use nix::sys::signal::Signal;

use super::child::{Child, Seen};
use super::processes::Offspring;

/// A child that runs beside the command; that of a command of the scenario has its name.
#[derive(Debug)]
pub struct Beside {
    /// If it is one of the scenario.
    pub name: Option<String>,
    /// What was started.
    pub child: Child,
}

/// Children that are waited for.
#[derive(Debug, Default)]
pub struct Children {
    /// Whose end is that of the emulation.
    pub command: Option<Child>,
    /// How the command ended, if it did.
    pub status: Option<ExitStatus>,
    /// Those beside it.
    pub beside: Vec<Beside>,
    /// The commands of the scenario that ended, and with which code; none: by a signal.
    pub ended: Vec<(String, Option<i32>)>,
}

impl Children {
    /// Takes note of those that ended; whether the command is among them.
    pub fn reap(&mut self) -> bool {
        let ended = &mut self.ended;
        self.beside.retain_mut(|beside| {
            let Seen::Ended(status) = beside.child.look() else { return true };
            let code = status.and_then(|status| status.code());
            ended.extend(beside.name.take().map(|name| (name, code)));
            false
        });
        let Some(Seen::Ended(status)) = self.command.as_ref().map(Child::look) else { return false };
        self.command = None;
        self.status = status;
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
        let beside = self.beside.iter().map(|beside| &beside.child);
        beside.chain(&self.command).for_each(|child| child.signal(signal));
    }
}
