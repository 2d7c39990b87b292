//! The status page, its numbers, and what Prometheus takes, for users of this machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_units::{Span, Time};

use super::super::io::clock;
use super::super::log::{Level, say};
use super::super::look::Look;
use super::super::request::{Page, read_head, write_answer};
use super::super::{metrics, page};
use super::{Desk, PATIENCE, REQUEST_MAX, pause_after, status};

/// Browsers that are answered at once.
const BROWSERS_MAX: usize = 16;
/// A page is told to all who ask for so long, and shows nothing that is older.
const KEPT_FOR: Span = Span::from_secs(1);
/// The status of an answer that has what was asked for.
const FOUND: &str = "200 OK";
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
    let (count, pages) = (AtomicUsize::new(0), Mutex::default());
    let answer = |stream: TcpStream| {
        // The body does not wait until the head has arrived.
        let patient = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        // A browser that has gone away is no failure.
        let _ = patient.and_then(|()| answer_browser(stream, desk, &pages));
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

/// What is said to a browser. Whoever asks for the same has the same body, and no copy of it.
#[derive(Clone)]
struct Answer {
    status: &'static str,
    /// What the body is.
    kind: &'static str,
    body: Arc<str>,
}

impl Answer {
    fn new(status: &'static str, kind: &'static str, body: impl Into<Arc<str>>) -> Self {
        Self { status, kind, body: body.into() }
    }
}

/// The pages of the last second, and when what they show was looked at. However often users of the machine ask, each is made once in a
/// second, and packets have the processors.
#[derive(Default)]
struct Pages(Vec<(Page, Time, Answer)>);

impl Pages {
    /// The answer to `asked` at `now`, which `make` makes, unless there is one.
    fn get(&mut self, asked: Page, now: Time, make: impl FnOnce() -> Answer) -> Answer {
        self.0.retain(|(_, at, _)| now.since(*at) < KEPT_FOR);
        if let Some((.., kept)) = self.0.iter().find(|(page, ..)| *page == asked) {
            return kept.clone();
        }
        let answer = make();
        // What is refused costs nothing, and what is not there yet may be there soon.
        if answer.status == FOUND {
            self.0.push((asked, now, answer.clone()));
        }
        answer
    }
}

/// Answers one, whose page is made while nobody else has `pages`.
fn answer_browser(mut stream: impl Read + Write, desk: &Desk, pages: &Mutex<Pages>) -> io::Result<()> {
    let head = read_head(&mut stream, b"\r\n\r\n", REQUEST_MAX)?;
    let asked = Page::decode(&head);
    let answer = {
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.get(asked, clock::now(), || made(asked, desk))
    };
    write_page(&mut stream, &answer)
}

/// Writes head and body, within the time for one answer.
fn write_page(stream: &mut impl Write, Answer { status, kind, body }: &Answer) -> io::Result<()> {
    let until = clock::now() + REQUEST_MAX;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n"
    );
    write_answer(stream, head.as_bytes(), REQUEST_MAX)?;
    write_answer(stream, body.as_bytes(), until.since(clock::now()))
}

/// The answer to `asked`, as all is now.
fn made(asked: Page, desk: &Desk) -> Answer {
    let look = desk.crew.look();
    match (asked, look) {
        (Page::Foreign, _) => {
            Answer::new("403 Forbidden", "text/plain", "ask by the address of this machine\n")
        }
        (Page::Unknown, _) => {
            Answer::new("404 Not Found", "text/plain", "there are /, /metrics and /status.json\n")
        }
        (_, None) => Answer::new("503 Service Unavailable", "text/plain", "not yet\n"),
        (Page::Status, Some(look)) => {
            // Whoever keeps it does not wait until the page is made.
            let moments = |site| desk.history.lock().unwrap_or_else(PoisonError::into_inner).of(site);
            let page = page::page(&look, moments, &desk.name, look.at.since(desk.began));
            Answer::new(FOUND, "text/html; charset=utf-8", page)
        }
        (Page::Metrics, Some(look)) => {
            Answer::new(FOUND, metrics::CONTENT_TYPE, metrics::page(Look::clone(&look)))
        }
        (Page::Json, Some(_)) => {
            Answer::new(FOUND, "application/json", status(desk).unwrap_or_default().to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_made_once_in_a_second_however_often_it_is_asked_for() {
        let mut pages = Pages::default();
        let at = |milliseconds| Time::ZERO + Span::from_millis(milliseconds);
        let mut ask =
            |asked, when, text: &str| pages.get(asked, at(when), || Answer::new(FOUND, "", text)).body;
        let first = ask(Page::Status, 5, "first");
        let same = ask(Page::Status, 1004, "second");
        assert!(Arc::ptr_eq(&first, &same), "it is no copy");
        assert_eq!(&*ask(Page::Json, 1004, "another"), "another");
        assert_eq!(&*ask(Page::Status, 1005, "third"), "third", "no older data is shown");
        assert_eq!(&*ask(Page::Json, 1500, "too early"), "another");
        let mut waits = |status| pages.get(Page::Metrics, at(1500), || Answer::new(status, "", "")).status;
        assert_eq!((waits("503 Service Unavailable"), waits(FOUND)), ("503 Service Unavailable", FOUND));
    }

    /// Where what is written lies, and what it is.
    #[derive(Default)]
    struct Places(Vec<*const u8>, Vec<u8>);

    impl Write for Places {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.as_ptr());
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_body_is_written_from_where_it_is_kept_behind_its_head() {
        let answer = Answer::new(FOUND, "text/plain", "what is told\n");
        let mut written = Places::default();
        write_page(&mut written, &answer).expect("it takes all");
        assert_eq!((written.0.len(), written.0[1]), (2, answer.body.as_ptr()));
        let text = String::from_utf8(written.1).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("there is a head");
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n"),
            "{head}"
        );
        assert_eq!(body, "what is told\n");
    }
}
