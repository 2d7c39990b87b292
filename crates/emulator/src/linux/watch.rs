//! Those who watch an emulation: the view in the terminal, and the address that Prometheus reads.
//!
//! Each has a thread of its own. The loop leaves them a look from time to time, and waits for nobody.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use console::Term;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use tidegate_units::{Span, Time};

use super::error::Failure;
use crate::look::Look;
use crate::{live, metrics};

/// How often there is a look.
const EVERY: Span = Span::from_millis(333);
/// Without a terminal, one look of so many is written.
const LINES_EVERY: u32 = 3;
/// The head of a request is no longer.
const REQUEST_BYTES_MAX: usize = 8192;
/// So long the end waits for the last that is written.
const END_STEPS: u32 = 100;
const END_PAUSE: Duration = Duration::from_millis(5);
/// A client that says nothing for so long is left; so many times it may say something.
const PATIENCE: Duration = Duration::from_millis(500);
const READS_MAX: usize = 16;

/// The latest look, and whether there will be another.
#[derive(Debug, Default)]
struct Latest {
    look: Option<Arc<Look>>,
    number: u64,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Board {
    latest: Mutex<Latest>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a look after number `seen`; `None` when there will be none.
    fn next(&self, seen: u64) -> Option<(u64, Arc<Look>)> {
        let mut latest = self.lock();
        loop {
            if latest.has_ended {
                return None;
            }
            if let Some(look) = latest.look.as_ref().filter(|_| latest.number > seen) {
                return Some((latest.number, Arc::clone(look)));
            }
            latest = self.changed.wait(latest).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// See the module. Dropping it ends the threads that can end, and restores the terminal.
#[derive(Debug)]
pub struct Watchers {
    board: Arc<Board>,
    end: Arc<EventFd>,
    threads: Vec<JoinHandle<()>>,
    next: Time,
}

impl Watchers {
    /// Begins to watch: in the terminal if `is_live`, at an address if one is given.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start(is_live: bool, metrics: Option<SocketAddr>) -> Result<Self, Failure> {
        let board = Arc::new(Board::default());
        let end = EventFd::new().map_err(|why| Failure::system("no watcher can be told to end", why))?;
        let end = Arc::new(end);
        let mut threads = Vec::new();
        if let Some(address) = metrics {
            let refused = |why| Failure::system(format!("metrics cannot be offered at {address}"), why);
            let listener = TcpListener::bind(address).map_err(refused)?;
            let (board, end) = (Arc::clone(&board), Arc::clone(&end));
            threads.push(thread::spawn(move || serve(&listener, &board, &end)));
        }
        if is_live {
            let board = Arc::clone(&board);
            threads.push(thread::spawn(move || show(&board)));
        }
        Ok(Self { board, end, threads, next: Time::ZERO })
    }

    /// When somebody wants a look.
    pub fn wants_at(&self) -> Time {
        if self.threads.is_empty() { Time::MAX } else { self.next }
    }

    /// Leaves a look.
    pub fn leave(&mut self, look: Look) {
        self.next = look.at + EVERY;
        let mut latest = self.board.lock();
        latest.look = Some(Arc::new(look));
        latest.number += 1;
        drop(latest);
        self.board.changed.notify_all();
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.board.lock().has_ended = true;
        self.board.changed.notify_all();
        // Nobody is left to hear of failures.
        let _ = self.end.write(1);
        // Nor does the end wait for somebody who does not read: such a thread goes with the process.
        for _ in 0..END_STEPS {
            if self.threads.iter().all(JoinHandle::is_finished) {
                return;
            }
            thread::sleep(END_PAUSE);
        }
    }
}

/// A page of its own in the terminal, on which long lines end at its edge; and back to what was there.
const TAKE: &str = "\x1b[?1049h\x1b[?7l";
const GIVE_BACK: &str = "\x1b[?7h\x1b[?1049l";

/// The terminal while the view has it; given back when this is dropped, also in a panic.
struct Screen(Term);

impl Screen {
    fn take() -> io::Result<Self> {
        let screen = Self(Term::buffered_stderr());
        screen.0.write_str(TAKE)?;
        screen.0.hide_cursor()?;
        screen.0.flush()?;
        Ok(screen)
    }

    /// Columns and rows.
    fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.0.size();
        (columns, rows)
    }

    fn draw(&self, lines: &[String]) -> io::Result<()> {
        for (row, line) in lines.iter().enumerate() {
            self.0.move_cursor_to(0, row)?;
            self.0.clear_line()?;
            self.0.write_str(line)?;
        }
        self.0.clear_to_end_of_screen()?;
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing.
        let _ = self.0.show_cursor();
        let _ = self.0.write_str(GIVE_BACK);
        let _ = self.0.flush();
    }
}

/// Shows one look after the other on standard error, for standard output is the result's.
fn show(board: &Board) {
    let screen = if io::stderr().is_terminal() { Screen::take().ok() } else { None };
    // Another descriptor: nobody else waits for the lock of the standard one while nobody reads.
    let Ok(lines) = io::stderr().as_fd().try_clone_to_owned() else { return };
    let mut lines = File::from(lines);
    let (mut number, mut shown) = (0, 0);
    let mut before: Option<Arc<Look>> = None;
    while let Some((next, look)) = board.next(number) {
        number = next;
        let written = match (&before, &screen) {
            (None, _) => Ok(()),
            (Some(before), Some(screen)) => screen.draw(&live::page(before, &look, screen.size())),
            (Some(_), None) if number < shown + u64::from(LINES_EVERY) => continue,
            (Some(before), None) => lines.write_all(live::lines(before, &look).as_bytes()),
        };
        if written.is_err() {
            // The terminal has gone away; the emulation goes on.
            return;
        }
        shown = number;
        before = Some(look);
    }
}

/// Answers requests, one at a time.
fn serve(listener: &TcpListener, board: &Board, end: &EventFd) {
    loop {
        let mut waits =
            [PollFd::new(listener.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        let polled = poll(&mut waits, PollTimeout::NONE);
        let is_ready = |wait: &PollFd<'_>| wait.any().unwrap_or(false);
        if is_ready(&waits[1]) || matches!(polled, Err(why) if why != nix::Error::EINTR) {
            return;
        }
        if is_ready(&waits[0])
            && let Ok((stream, _)) = listener.accept()
        {
            // A client that has gone away is no failure.
            let _ = answer(stream, board);
        }
    }
}

/// Reads a request and answers it.
fn answer(mut stream: TcpStream, board: &Board) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    for _ in 0..READS_MAX {
        let bytes = stream.read(&mut part)?;
        head.extend_from_slice(&part[..bytes]);
        if bytes == 0 || head.windows(4).any(|end| end == b"\r\n\r\n") || head.len() > REQUEST_BYTES_MAX {
            break;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, kind, body) = match line {
        b"GET /metrics HTTP/1.1" | b"GET /metrics HTTP/1.0" => match board.lock().look.clone() {
            Some(look) => ("200 OK", metrics::CONTENT_TYPE, metrics::page(Look::clone(&look))),
            None => ("503 Service Unavailable", "text/plain", "not yet\n".to_owned()),
        },
        _ => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}
