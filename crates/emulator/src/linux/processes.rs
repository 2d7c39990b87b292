//! The processes in a namespace: found by the namespace itself, so that none is overlooked that a command left behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::namespace::Namespace;

/// So long processes may take to end when they are asked to.
const GRACE: Duration = Duration::from_millis(500);
const GRACE_STEPS: u32 = 25;

/// The processes in `namespace`.
fn inside(namespace: &Namespace) -> Vec<Pid> {
    let Ok(own) = namespace.file().metadata() else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (own.dev(), own.ino()))
        })
        .map(Pid::from_raw)
        .collect()
}

fn signal(namespaces: &[&Namespace], signal: Signal) -> bool {
    let mut any = false;
    for pid in namespaces.iter().flat_map(|namespace| inside(namespace)) {
        any = true;
        // It may have ended meanwhile.
        let _ = kill(pid, signal);
    }
    any
}

/// Ends all processes in `namespaces`: asks them, waits a little, then makes them. `reap` takes note of children that ended.
pub fn end(namespaces: &[&Namespace], mut reap: impl FnMut()) {
    if !signal(namespaces, Signal::SIGTERM) {
        return;
    }
    for _ in 0..GRACE_STEPS {
        reap();
        if namespaces.iter().all(|namespace| inside(namespace).is_empty()) {
            return;
        }
        thread::sleep(GRACE / GRACE_STEPS);
    }
    signal(namespaces, Signal::SIGKILL);
    reap();
}
