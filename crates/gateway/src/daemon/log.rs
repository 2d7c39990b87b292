//! What there is to say, on standard error: a line each, as journald likes it.

use std::fmt::Display;

/// How important it is (`sd-daemon(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// It does not work.
    Error = 3,
    /// It works, and somebody should look.
    Warning = 4,
    /// Something changed.
    Notice = 5,
    /// For who wants to know.
    Info = 6,
}

/// Says `what`.
pub fn say(level: Level, what: impl Display) {
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        // Each line has its level.
        for line in what.to_string().lines() {
            eprintln!("<{}>{line}", level as u8);
        }
    } else {
        eprintln!("tidegate-gateway: {what}");
    }
}
