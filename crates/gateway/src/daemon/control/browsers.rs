//! The status page, its numbers, and what Prometheus takes, for users of this machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::super::log::{Level, say};
use super::super::look::Look;
use super::super::request::{Page, read_head, write_answer};
use super::super::{metrics, page};
use super::{Desk, PATIENCE, REQUEST_MAX, pause_after, status};

/// Browsers that are answered at once.
const BROWSERS_MAX: usize = 16;
/// The status page is tried again so often where somebody else has its port.
const PAGE_EVERY: Duration = Duration::from_secs(2);

/// Serves the status page at `address` for ever, as soon as nobody else has that: packets do not wait for it.
/// `opened` is what became of it with the rights of the start.
pub fn keep_pages(desk: &Desk, address: SocketAddr, opened: io::Result<TcpListener>) {
    let (mut was_told, mut opened) = (false, Some(opened));
    loop {
        match opened.take().unwrap_or_else(|| TcpListener::bind(address)) {
            Ok(listener) => {
                if was_told {
                    say(Level::Notice, format_args!("status at http://{address}/"));
                }
                return serve_pages(desk, &listener);
            }
            Err(why) if !was_told => {
                let help = if why.kind() == io::ErrorKind::AddrInUse {
                    "; stop what has the port (`ss -ltnp` shows it), or choose another `status.listen`"
                } else {
                    ""
                };
                say(
                    Level::Warning,
                    format_args!(
                        "status at {address}: {why}{help}; there is no status page until it can be had"
                    ),
                );
                was_told = true;
            }
            Err(_) => {}
        }
        thread::sleep(PAGE_EVERY);
    }
}

/// One of those that are answered at once; it counts no more when it is over, however that came.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    /// None, where there are too many.
    fn one_more(count: &'a AtomicUsize) -> Option<Self> {
        let counted = Self(count);
        (count.fetch_add(1, Ordering::AcqRel) < BROWSERS_MAX).then_some(counted)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers browsers and Prometheus at `listener`, for ever: users of the machine, of whom some are slow, or open connections that they
/// do not use. Each has a thread, and where there are too many the next waits for one of them. What they ask for is made for one at a
/// time, for packets need the processors.
fn serve_pages(desk: &Desk, listener: &TcpListener) {
    let (count, makes) = (AtomicUsize::new(0), Mutex::new(()));
    let answer = |stream: TcpStream| {
        let patient =
            stream.set_write_timeout(Some(PATIENCE)).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        // A browser that has gone away is no failure.
        let _ = patient.and_then(|()| answer_browser(stream, desk, &makes));
    };
    thread::scope(|scope| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => match Busy::one_more(&count) {
                    // Where there is no thread for it, it is left, and counts no more.
                    Some(busy) => {
                        let own = move || {
                            let _busy = busy;
                            answer(stream);
                        };
                        let _ = thread::Builder::new().spawn_scoped(scope, own);
                    }
                    None => answer(stream),
                },
                Err(why) => pause_after(&why),
            }
        }
    });
}

/// Answers one, whose page is made while nobody else has what `makes` guards.
fn answer_browser(mut stream: impl Read + Write, desk: &Desk, makes: &Mutex<()>) -> io::Result<()> {
    let head = read_head(&mut stream, b"\r\n\r\n", REQUEST_MAX)?;
    let (status, kind, body) = {
        let _one = makes.lock().unwrap_or_else(PoisonError::into_inner);
        made(Page::decode(&head), desk)
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n{body}"
    );
    write_answer(&mut stream, answer.as_bytes(), REQUEST_MAX)
}

/// The status of the answer, what it is, and what it says.
fn made(asked: Page, desk: &Desk) -> (&'static str, &'static str, String) {
    let look = desk.crew.look();
    match (asked, look) {
        (Page::Foreign, _) => {
            ("403 Forbidden", "text/plain", "ask by the address of this machine\n".to_owned())
        }
        (Page::Unknown, _) => {
            ("404 Not Found", "text/plain", "there are /, /metrics and /status.json\n".to_owned())
        }
        (_, None) => ("503 Service Unavailable", "text/plain", "not yet\n".to_owned()),
        (Page::Status, Some(look)) => {
            // Whoever keeps it does not wait until the page is made.
            let history = desk.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let page = page::page(&look, &history, &desk.name, look.at.since(desk.began));
            ("200 OK", "text/html; charset=utf-8", page)
        }
        (Page::Metrics, Some(look)) => ("200 OK", metrics::CONTENT_TYPE, metrics::page(Look::clone(&look))),
        (Page::Json, Some(_)) => ("200 OK", "application/json", status(desk).unwrap_or_default().to_string()),
    }
}
