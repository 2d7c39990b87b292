//! Recordings of the running daemon: how they begin, and the way of their bytes.
//!
//! The packet thread hands them to a [`Recorder`], which waits for nobody: what its ring does not hold ends the recording. Its thread
//! writes to a file that was opened before the daemon gave its rights away (`run --record`), or to the socket of who asked
//! (`tidegatectl record`), who writes the file with their own rights. No client names a path here.

use std::io::{self, Read as _, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_document::suggest;
use tidegate_units::Span;
use tidegate_wire::recording::recorder::Recorder;

use super::control::{Shares, lock};
use super::io::clock;
use super::log::{Level, say};
use super::threads::crew::Crew;
use super::threads::groups::Division;
use crate::record;

/// A recording that goes to a thread.
pub type Tape = record::Tape<Recorder>;
/// How one ended: its writer has the rest, unless something could not be written.
pub type Ended = io::Result<Recorder>;
/// One that is to begin, and who is told how it ended.
pub type Recording = (Tape, SyncSender<Ended>);
/// The same, and who hears that.
pub type Heard = (Recording, Receiver<Ended>);

/// What may wait to be written: more than a second of 1 Gbit/s.
const MEBIBYTES: usize = 16;
/// At its end it has so long for what is not written yet, as long as that moves.
const PATIENCE: Duration = Duration::from_secs(10);
/// At the end of the daemon clients have so long in all: systemd ends it after 5 s, and others wait for that.
const END_PATIENCE: Span = Span::from_millis(1500);
/// A client that takes nothing for so long is left.
const STALLED: Duration = Duration::from_secs(5);
/// How often it is looked whether a client wants the end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Behind the last part of a recording on the socket.
const NO_MORE: [u8; 4] = [0; 4];
/// No part has more bytes.
const PART_BYTES_MAX: u32 = 1 << 20;

/// A recording to what `open` gives, with who is told how it ended, and who hears that.
///
/// # Errors
/// When `open` fails.
pub fn begin<W: Write>(open: impl FnOnce() -> io::Result<W> + Send + 'static) -> io::Result<Heard> {
    let tape = Tape::new(Recorder::create(open, MEBIBYTES)?);
    let (ended, hears) = sync_channel(1);
    Ok(((tape, ended), hears))
}

/// Waits for the rest of a recording that `ended`: how many bytes there are.
///
/// # Errors
/// Why it is not complete.
pub fn complete(ended: Ended) -> io::Result<u64> {
    ended.and_then(|recorder| recorder.close(PATIENCE))
}

/// Says in the log how a recording ended.
pub fn tell(outcome: &io::Result<u64>) {
    match outcome {
        Ok(bytes) => say(Level::Notice, format_args!("the recording is complete: {bytes} bytes")),
        Err(why) => say(Level::Error, format_args!("the recording is not complete: {why}; all else goes on")),
    }
}

/// The recording that the daemon began with; it may end before the daemon does.
pub struct FromStart(pub Option<Receiver<Ended>>);

impl FromStart {
    /// Whether it has ended is told, once. At the daemon's end it is waited for.
    pub fn look(&mut self, shares: &Shares, is_end: bool) {
        let Some(hears) = &self.0 else { return };
        let ended = match hears.try_recv() {
            Ok(ended) => ended,
            Err(TryRecvError::Empty) if !is_end => return,
            Err(_) => Err(io::Error::other("a packet thread has ended")),
        };
        tell(&complete(ended));
        lock(shares).crew().is_recorded.store(false, Ordering::Release);
        self.0 = None;
    }
}

/// Bytes on their way to a client, in parts that say how long they are.
struct Parts {
    stream: UnixStream,
    /// Held until the client has its first line.
    is_greeted: Arc<Mutex<()>>,
    /// Goes with the writer, which tells that nothing more comes.
    _is_writing: SyncSender<()>,
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.is_greeted.lock().unwrap_or_else(PoisonError::into_inner));
        let part = &bytes[..bytes.len().min(PART_BYTES_MAX as usize)];
        let length = (part.len() as u32).to_le_bytes();
        self.stream.write_all(&length).and_then(|()| self.stream.write_all(part)).map_err(|why| {
            // Behind half of a part nothing could be understood.
            let _ = self.stream.shutdown(Shutdown::Both);
            match why.kind() {
                io::ErrorKind::WouldBlock => {
                    io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing any more")
                }
                io::ErrorKind::BrokenPipe => io::Error::new(why.kind(), "the client has gone away"),
                _ => why,
            }
        })?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The thread that is recorded where `site` is wanted, by a division of the sites `names`: a recording is of one
/// thread.
///
/// # Errors
/// When there is no such site, or none is named and there are several threads with sites.
pub fn thread_of(site: Option<&str>, names: &[String], division: &Division) -> Result<u8, String> {
    if let Some(site) = site {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = names.iter().position(|name| *name == site);
        return found
            .map(|number| division.of(number))
            .ok_or_else(|| format!("there is no site `{site}` ({})", suggest::help(site, &names)));
    }
    let thread = division.of(0);
    if (0..names.len()).all(|number| division.of(number) == thread) {
        return Ok(thread);
    }
    let many = "sites are on several threads, and a recording is of one";
    Err(format!("{many}; say with --site NAME of which, and it has all sites of that thread"))
}

/// Records for who asks by `stream`, until they close their half of it, or go away. It has a thread of its own.
///
/// The answer is a line, which is an error or is not; then parts of the recording, each behind its length, and an empty one;
/// then a line that says how it ended.
pub fn serve(stream: &UnixStream, shares: &Shares, site: Option<&str>) {
    let crew = lock(shares).shared_crew();
    // The daemon does not end before the client has all.
    let _taker = crew.gives();
    let begun = begin_for(stream, shares, site);
    let answer = |value: &Value| {
        let mut client = stream;
        // One that has gone away hears nothing.
        let _ = writeln!(client, "{value}");
    };
    let (hears, writes) = match begun {
        Ok(begun) => begun,
        Err(why) => return answer(&json!({ "error": why })),
    };
    say(Level::Notice, "records what it does");
    let outcome = complete(wait(stream, &hears, shares));
    // Until the thread has left the socket, nobody else writes to it.
    let is_left = writes.recv_timeout(STALLED) == Err(RecvTimeoutError::Disconnected);
    crew.is_recorded.store(false, Ordering::Release);
    tell(&outcome);
    if is_left {
        let mut client = stream;
        let _ = client.write_all(&NO_MORE);
        answer(
            &outcome
                .map_or_else(|why| json!({ "error": why.to_string() }), |bytes| json!({ "bytes": bytes })),
        );
    }
}

type Begun = (Receiver<Ended>, Receiver<()>);

fn begin_for(stream: &UnixStream, shares: &Shares, site: Option<&str>) -> Result<Begun, String> {
    let told = |why: io::Error| why.to_string();
    stream.set_write_timeout(Some(STALLED)).map_err(told)?;
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(told)?;
    let out = stream.try_clone().map_err(told)?;
    let (is_writing, writes) = sync_channel(0);
    let is_greeted = Arc::new(Mutex::new(()));
    let greeting = is_greeted.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = Parts { stream: out, is_greeted: Arc::clone(&is_greeted), _is_writing: is_writing };
    let (hears, sites) = lock(shares).record(site, || begin(|| Ok(parts)))?;
    let mut client = stream;
    // Whoever has gone away meanwhile is found out later.
    let _ = writeln!(client, "{}", json!({ "ok": true, "sites": sites }));
    drop(greeting);
    Ok((hears, writes))
}

/// At the end of the daemon, when packets have ended: waits a moment until clients have what was recorded. One that stands still keeps
/// nobody from the end: whether all have it.
pub fn wait_for_clients(crew: &Crew) -> bool {
    let until = clock::now() + END_PATIENCE;
    while crew.is_giving() {
        if clock::now() >= until {
            say(
                Level::Error,
                "the recording is not complete: its client has not taken all of it, and the daemon ends",
            );
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Until it has ended, by itself or because the client wants that.
fn wait(mut stream: &UnixStream, hears: &Receiver<Ended>, shares: &Shares) -> Ended {
    let mut is_wanted = true;
    loop {
        match hears.try_recv() {
            Ok(ended) => return ended,
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("a packet thread has ended")),
            Err(TryRecvError::Empty) => {}
        }
        if !is_wanted {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        // This waits as long.
        match stream.read(&mut [0; 64]) {
            Ok(1..) => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => {
                is_wanted = lock(shares).end_recording().is_err();
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// Takes a recording from the daemon's end of `stream` into `out`, once the daemon has said that it begins: what it said at the end.
/// `look` is called where nothing may come for long, and ends it by failing.
///
/// # Errors
/// When `out` takes no more, or the daemon has gone away.
pub fn receive(
    stream: &mut impl io::Read,
    out: &mut impl Write,
    mut look: impl FnMut() -> io::Result<()>,
) -> Result<String, ReceiveError> {
    let gone = |why: io::Error| match why.kind() {
        io::ErrorKind::UnexpectedEof => ReceiveError::Daemon(
            "the daemon has ended, or this did not take what it records as fast as that came".to_owned(),
        ),
        _ => ReceiveError::Daemon(why.to_string()),
    };
    let mut part = Vec::new();
    loop {
        look().map_err(gone)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length).map_err(gone)?;
        let length = u32::from_le_bytes(length);
        if length == 0 {
            let mut line = String::new();
            stream.take(u64::from(PART_BYTES_MAX)).read_to_string(&mut line).map_err(gone)?;
            return Ok(line);
        }
        if length > PART_BYTES_MAX {
            return Err(ReceiveError::Daemon("the daemon's answer is broken".to_owned()));
        }
        part.resize(length as usize, 0);
        stream.read_exact(&mut part).map_err(gone)?;
        out.write_all(&part).map_err(ReceiveError::File)?;
    }
}

/// Why a recording did not come.
#[derive(Debug)]
pub enum ReceiveError {
    /// The file takes no more.
    File(io::Error),
    /// The daemon, for people.
    Daemon(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_stands_still_does_not_keep_the_daemon_from_its_end() {
        let crew = Crew::new(Vec::new(), Vec::new(), true);
        assert!(wait_for_clients(&crew), "there is none");
        let (stands_still, began) = (crew.gives(), clock::now());
        assert!(!wait_for_clients(&crew));
        let waited = clock::now().since(began);
        assert!(waited >= END_PATIENCE && waited < Span::from_secs(2), "{waited:?}");
        drop(stands_still);
        let takes = crew.gives();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(LOOK_EVERY);
                drop(takes);
            });
            assert!(wait_for_clients(&crew), "who takes it has all");
        });
    }

    #[test]
    fn parts_come_as_they_were_sent_and_a_file_that_is_full_is_told_from_a_daemon_that_is_gone() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (is_writing, writes) = sync_channel(0);
        let is_greeted = Arc::default();
        let mut parts = Parts { stream: here.try_clone().unwrap(), is_greeted, _is_writing: is_writing };
        let sent: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        let mut received = Vec::new();
        let line = std::thread::scope(|scope| {
            let (here, sent) = (&here, &sent);
            scope.spawn(move || {
                parts.write_all(sent).unwrap();
                drop(parts);
                assert_eq!(writes.recv_timeout(STALLED), Err(RecvTimeoutError::Disconnected));
                let mut stream = here;
                stream.write_all(&NO_MORE).unwrap();
                writeln!(stream, "over").unwrap();
                here.shutdown(std::net::Shutdown::Write).unwrap();
            });
            receive(&mut there, &mut received, || Ok(())).unwrap()
        });
        assert_eq!((line.trim(), received), ("over", sent));
        let part = [&3u32.to_le_bytes()[..], b"abc"].concat();
        let full = receive(&mut &part[..], &mut &mut [0; 2][..], || Ok(()));
        assert!(matches!(full, Err(ReceiveError::File(_))), "{full:?}");
        let gone = receive(&mut &part[..], &mut Vec::new(), || Ok(()));
        assert!(matches!(&gone, Err(ReceiveError::Daemon(why)) if why.contains("has ended")), "{gone:?}");
        let much = receive(&mut &[0xff; 8][..], &mut Vec::new(), || Ok(()));
        assert!(matches!(&much, Err(ReceiveError::Daemon(why)) if why.contains("broken")), "{much:?}");
    }
}
