//! The processes in a namespace: found by the namespace itself, so that none is overlooked that a command left behind.
//!
//! Those that went to a namespace of their own are found only if they are our children.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::namespace::Namespace;

/// So long processes may take to end when they are asked to.
const GRACE: Duration = Duration::from_millis(500);
const GRACE_STEPS: u32 = 25;
/// So often those that are left are made to end, with a millisecond between: some have to be waited for, and one that starts
/// others may be a step ahead.
const KILLS_MAX: u32 = 2000;
const KILL_PAUSE: Duration = Duration::from_millis(1);
/// So often nobody must have been found where others ended while we looked: one of them may have left a child.
const DOUBTS_MAX: u32 = 20;

/// So often the youngest processes alone are looked at, and so many of them: one that starts another and ends is gone before a look at all
/// comes to it, and the other is among those that were started last.
const CHASES: u32 = 30;
const YOUNGEST: u32 = 16;

/// Children, wherever they are.
pub trait Offspring {
    /// Takes note of those that ended.
    fn reap(&mut self);
    /// Whether any has not ended.
    fn has_any(&self) -> bool;
    /// Sends all of them a signal.
    fn signal(&self, signal: Signal);
}

/// Nobody has children.
impl Offspring for () {
    fn reap(&mut self) {}
    fn has_any(&self) -> bool {
        false
    }
    fn signal(&self, _: Signal) {}
}

/// What a look at all processes found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Some,
    None,
    /// None, but some process ended before it was looked at.
    Perhaps,
}

/// Whether `link` leads to the namespace `own`; `None` where it leads nowhere.
fn is_inside(link: &Path, own: &[Metadata]) -> Option<bool> {
    let theirs = fs::metadata(link).ok()?;
    Some(own.iter().any(|own| (theirs.dev(), theirs.ino()) == (own.dev(), own.ino())))
}

/// Whether the process of `folder` is in one of the namespaces; `None` if it has ended.
fn has_inside(folder: &Path, own: &[Metadata]) -> Option<bool> {
    if let Some(is_inside) = is_inside(&folder.join("ns/net"), own) {
        return Some(is_inside);
    }
    // Its first thread may have ended before the others.
    let threads = fs::read_dir(folder.join("task")).ok()?;
    let looks = threads.flatten().map(|thread| is_inside(&thread.path().join("ns/net"), own));
    // One that has ended and is not waited for yet has threads that lead nowhere: it may have left a child.
    looks.max().flatten()
}

/// What tells each of `namespaces` from others.
fn identities(namespaces: &[&Namespace]) -> Vec<Metadata> {
    namespaces.iter().filter_map(|namespace| namespace.file().metadata().ok()).collect()
}

/// Calls `act` with each process in `namespaces`, those with high numbers first, which are young.
fn each_inside(namespaces: &[&Namespace], mut act: impl FnMut(Pid)) -> Found {
    let own = identities(namespaces);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut found = Found::None;
    for number in numbers.into_iter().rev().filter(|&number| number != std::process::id()) {
        match has_inside(&PathBuf::from(format!("/proc/{number}")), &own) {
            Some(true) => {
                act(Pid::from_raw(number.cast_signed()));
                found = Found::Some;
            }
            None if found == Found::None => found = Found::Perhaps,
            Some(false) | None => (),
        }
    }
    found
}

/// The number of the process that was started last.
fn youngest() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next_back()?.parse().ok()
}

/// Kills those in `namespaces` that flee from one process to the next; whether there was one.
fn chase(namespaces: &[&Namespace]) -> bool {
    let own = identities(namespaces);
    let mut has_found = false;
    for _ in 0..CHASES {
        let Some(last) = youngest() else { return false };
        for number in (last.saturating_sub(YOUNGEST)..=last).rev() {
            if number != std::process::id()
                && has_inside(&PathBuf::from(format!("/proc/{number}")), &own) == Some(true)
            {
                // It may have ended meanwhile.
                let _ = kill(Pid::from_raw(number.cast_signed()), Signal::SIGKILL);
                has_found = true;
            }
        }
    }
    has_found
}

fn signal(namespaces: &[&Namespace], children: &impl Offspring, signal: Signal) -> Found {
    children.signal(signal);
    let found = each_inside(namespaces, |pid| {
        // It may have ended meanwhile.
        let _ = kill(pid, signal);
    });
    if children.has_any() { Found::Some } else { found }
}

/// Ends all processes in `namespaces` and all `children`: asks them, waits a little, then makes them. Whether all have ended.
pub fn end(namespaces: &[&Namespace], children: &mut impl Offspring) -> bool {
    children.reap();
    if signal(namespaces, children, Signal::SIGTERM) == Found::Some {
        wait(namespaces, children);
    }
    let mut doubts = 0;
    for _ in 0..KILLS_MAX {
        children.reap();
        match signal(namespaces, children, Signal::SIGKILL) {
            Found::None => return true,
            Found::Perhaps if chase(namespaces) => doubts = 0,
            Found::Perhaps if doubts == DOUBTS_MAX => return true,
            Found::Perhaps => doubts += 1,
            Found::Some => {
                doubts = 0;
                thread::sleep(KILL_PAUSE);
            }
        }
    }
    false
}

/// Waits until none is left, or the grace is over.
fn wait(namespaces: &[&Namespace], children: &mut impl Offspring) {
    for _ in 0..GRACE_STEPS {
        children.reap();
        if !children.has_any() && each_inside(namespaces, |_| ()) != Found::Some {
            return;
        }
        thread::sleep(GRACE / GRACE_STEPS);
    }
}
