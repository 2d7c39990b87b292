//! Those who talk to the daemon: `tidegatectl` over a socket in the file system, browsers and Prometheus over loopback.
//!
//! Commands come one at a time, browsers a few, each bounded in bytes and time.

mod browsers;
mod manager;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use tidegate_units::{Span, Time};

use super::changes::Changes;
use super::io::clock;
use super::log::say;
use super::look::History;
use super::recording;
use super::request::{Command, read_head, write_answer};
use super::threads::crew::Crew;
pub use browsers::keep_pages;
pub use manager::{Manager, Shares, lock, reload};

/// A client that says nothing for so long is left.
const PATIENCE: Duration = Duration::from_millis(500);
/// So long it may take for all that it asks, and as long to hear the answer.
const REQUEST_MAX: Span = Span::from_secs(1);
/// How often the look is kept for the pictures.
const SECOND: Span = Span::from_secs(1);

/// What answers need.
pub struct Desk {
    /// What can be changed.
    pub shares: Shares,
    /// Where looks are.
    pub crew: Arc<Crew>,
    /// The name of the machine.
    pub name: String,
    /// When the daemon began.
    pub began: Time,
    /// What was seen in the last minutes.
    pub history: Mutex<History>,
}

/// Answers `tidegatectl`, and looks at what becomes of sites, for ever.
pub fn serve(desk: &Desk, socket: &UnixListener) {
    let mut changes = Changes::default();
    let mtu = lock(&desk.shares).plan().mtu();
    let mut next = clock::now();
    loop {
        let now = clock::now();
        if now >= next {
            next = now + SECOND;
            if let Some(look) = desk.crew.look() {
                desk.history.lock().unwrap_or_else(PoisonError::into_inner).add(&look);
                changes.tell(&look, mtu, &mut |level, what| say(level, what));
            }
        }
        let wait = next.since(clock::now()).as_nanos() / 1_000_000 + 1;
        let mut waits = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(wait as i32).unwrap_or(PollTimeout::MAX);
        if poll(&mut waits, timeout).is_err() {
            continue;
        }
        // A client that has gone away is no failure.
        match socket.accept() {
            Ok((stream, _)) => {
                let patient = stream
                    .set_nonblocking(false)
                    .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
                    .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
                let _ = patient.and_then(|()| answer_command(stream, desk));
            }
            Err(why) => pause_after(&why),
        }
    }
}

/// Where there is no descriptor left, asking at once would say so again.
fn pause_after(why: &io::Error) {
    if !matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
        thread::sleep(PATIENCE);
    }
}

/// A command is a line; so is the answer: JSON with `error` if it failed.
fn answer_command(mut stream: UnixStream, desk: &Desk) -> io::Result<()> {
    let head = read_head(&mut stream, b"\n", REQUEST_MAX)?;
    let done = |outcome: Result<(), String>| match outcome {
        Ok(()) => json!({ "ok": true }),
        Err(why) => json!({ "error": why }),
    };
    let answer = match Command::decode(&head) {
        Command::Status => status(desk).unwrap_or_else(|| json!({ "error": "not yet" })),
        Command::Reload => done(reload(&desk.shares)),
        Command::Drain => done(lock(&desk.shares).drain(false)),
        Command::Record { site } => {
            let shares = Arc::clone(&desk.shares);
            let serve = move || recording::serve(&stream, &shares, site.as_deref());
            // Where there is no thread for it, the client is left.
            return thread::Builder::new().spawn(serve).map(|_| ());
        }
        Command::Unknown(other) => json!({ "error": format!("there is no command `{other}`") }),
    };
    write_answer(&mut stream, format!("{answer}\n").as_bytes(), REQUEST_MAX)
}

fn status(desk: &Desk) -> Option<Value> {
    let look = desk.crew.look()?;
    Some(look.to_json(&desk.name, look.at.since(desk.began)))
}
