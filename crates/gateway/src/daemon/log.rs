//! What there is to say: on standard error, a line each, as journald likes it; and what commands show, on standard output.

use std::fmt::Display;
use std::io::{self, Write as _};

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

/// Says `what`. If nobody can hear it, on a full disk or without journald, packets go on all the same.
pub fn say(level: Level, what: impl Display) {
    let text = if std::env::var_os("JOURNAL_STREAM").is_some() {
        // Each line has its level.
        let begin = format!("<{}>", level as u8);
        format!("{begin}{}\n", what.to_string().trim_end().replace('\n', &format!("\n{begin}")))
    } else {
        format!("tidegate-gateway: {what}\n")
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Shows `text` to whoever gave the command. One who does not read on wants no more of it: that is no failure.
///
/// # Errors
/// When it cannot be written, for people.
pub fn show(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {why}"))
        }
        _ => Ok(()),
    }
}
