//! Where a recording goes: to a thread that writes it, behind a ring of bounded length.
//!
//! Whoever hands over never waits for a file or a pipe. What the thread cannot take in time, or cannot write, ends the recording, and
//! nothing else.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// What the thread is handed at once.
const CHUNK_BYTES: usize = 128 << 10;
/// What the thread writes at once; whether it still moves can be told after each.
const PART_BYTES: usize = 16 << 10;
/// So long a file may take to be opened before what is recorded begins all the same: a pipe may have no reader yet.
const OPENING: Duration = Duration::from_secs(1);
/// At the end the thread is left when it has written nothing for so long.
const STALLED_AFTER: Duration = Duration::from_millis(400);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the thread says: that the file is open, and how it ended.
#[derive(Debug)]
enum Said {
    Opened,
    Ended(io::Result<()>),
}

/// Takes what is to be written, and never waits.
#[derive(Debug)]
pub struct Recorder {
    chunk: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    said: Receiver<Said>,
    written_bytes: Arc<AtomicU64>,
    /// How many chunks there are.
    chunks: usize,
}

impl Recorder {
    /// Begins to write to what `open` gives, and waits for that for a moment. `mebibytes` may wait for the thread.
    ///
    /// # Errors
    /// When `open` fails. That it takes long is none.
    pub fn create<W: Write>(
        open: impl FnOnce() -> io::Result<W> + Send + 'static,
        mebibytes: usize,
    ) -> io::Result<Self> {
        let recorder = Self::start(open, (mebibytes << 20) / CHUNK_BYTES);
        match recorder.said.recv_timeout(OPENING) {
            Ok(Said::Ended(Err(why))) => Err(why),
            _ => Ok(recorder),
        }
    }

    /// Begins to write to what `open` gives, with `chunks` chunks.
    fn start<W: Write>(open: impl FnOnce() -> io::Result<W> + Send + 'static, chunks: usize) -> Self {
        let (full, to_write) = sync_channel::<Vec<u8>>(chunks);
        let (give_back, empty) = sync_channel(chunks);
        let (say, said) = sync_channel(2);
        for _ in 1..chunks {
            // The system gives the memory when it is first written to. There is room for all of them.
            let _ = give_back.try_send(Vec::with_capacity(CHUNK_BYTES));
        }
        let written_bytes = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&written_bytes);
        thread::spawn(move || {
            let write = || {
                let mut out = open()?;
                // Whoever does not listen any more needs nothing.
                let _ = say.try_send(Said::Opened);
                while let Ok(mut chunk) = to_write.recv() {
                    for part in chunk.chunks(PART_BYTES) {
                        out.write_all(part)?;
                        count.fetch_add(part.len() as u64, Ordering::Relaxed);
                    }
                    chunk.clear();
                    let _ = give_back.try_send(chunk);
                }
                out.flush()
            };
            let result = write();
            let _ = say.try_send(Said::Ended(result));
            // Only now, so that who finds nobody to take a chunk hears why.
            drop(to_write);
        });
        Self { chunk: Vec::with_capacity(CHUNK_BYTES), full, empty, said, written_bytes, chunks }
    }

    /// Hands the chunk over and takes an empty one.
    fn hand_over(&mut self) -> io::Result<()> {
        let Ok(next) = self.empty.try_recv() else {
            return Err(self.failure().unwrap_or_else(|| {
                let megabytes = (self.chunks * CHUNK_BYTES) >> 20;
                io::Error::other(format!(
                    "it does not take what is recorded as fast as that grows ({megabytes} MiB were waiting)"
                ))
            }));
        };
        let chunk = core::mem::replace(&mut self.chunk, next);
        // There are no more chunks than places.
        self.full
            .try_send(chunk)
            .map_err(|_| self.failure().unwrap_or_else(|| io::Error::other("nobody writes it any more")))
    }

    /// Why the thread has ended, if it has.
    fn failure(&self) -> Option<io::Error> {
        self.said.try_iter().find_map(|said| match said {
            Said::Ended(result) => result.err(),
            Said::Opened => None,
        })
    }

    /// Waits until all has been written, `patience` at most, and less if nothing moves; how many bytes that were.
    ///
    /// # Errors
    /// When not all could be written.
    pub fn close(self, patience: Duration) -> io::Result<u64> {
        let Self { full, said, written_bytes, .. } = self;
        drop(full);
        let mut count = written_bytes.load(Ordering::Relaxed);
        let (mut waited, mut stalled) = (Duration::ZERO, Duration::ZERO);
        loop {
            match said.recv_timeout(LOOK_EVERY) {
                Ok(Said::Ended(result)) => {
                    return result.map(|()| written_bytes.load(Ordering::Relaxed));
                }
                Ok(Said::Opened) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("nobody writes it any more"));
                }
            }
            let before = core::mem::replace(&mut count, written_bytes.load(Ordering::Relaxed));
            stalled = if count > before { Duration::ZERO } else { stalled + LOOK_EVERY };
            waited += LOOK_EVERY;
            if stalled >= STALLED_AFTER || waited >= patience {
                return Err(io::Error::other("it takes nothing any more, and what was recorded is over"));
            }
        }
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.len() == CHUNK_BYTES {
            self.hand_over()?;
        }
        let count = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Hands over what there is; the thread writes it when it can.
    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() { Ok(()) } else { self.hand_over() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;
    use std::sync::{Mutex, mpsc};

    use super::*;

    const PATIENT: Duration = Duration::from_secs(20);

    /// Passes on what is written.
    struct Passes(Sender<Vec<u8>>);

    impl Write for Passes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_owned()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Takes nothing until the mutex is free.
    struct Stalls(Arc<Mutex<()>>);

    impl Write for Stalls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.0.lock());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_is_written_in_order() {
        let (to, from) = mpsc::channel();
        let mut recorder = Recorder::start(move || Ok(Passes(to)), 8);
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 5).map(|number| (number % 251) as u8).collect();
        for part in bytes.chunks(1000) {
            recorder.write_all(part).unwrap();
        }
        recorder.flush().unwrap();
        assert_eq!(recorder.close(PATIENT).unwrap(), bytes.len() as u64);
        assert_eq!(from.iter().flatten().collect::<Vec<u8>>(), bytes);
    }

    #[test]
    fn a_stalled_file_ends_the_recording_and_nobody_waits_for_it() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let behind = Arc::clone(&gate);
        let mut recorder = Recorder::start(move || Ok(Stalls(behind)), 4);
        let chunk = vec![0; CHUNK_BYTES];
        let why = (0..9).find_map(|_| recorder.write_all(&chunk).err()).expect("there are four chunks");
        assert!(why.to_string().contains("as fast as that grows"), "{why}");
        let at_the_end = recorder.close(PATIENT).unwrap_err();
        assert!(at_the_end.to_string().contains("takes nothing any more"), "{at_the_end}");
        drop(closed);
    }

    #[test]
    fn a_refused_file_is_told_and_why() {
        let created = Recorder::create::<io::Sink>(|| Err(io::ErrorKind::NotFound.into()), 1);
        assert_eq!(created.map(drop).map_err(|why| why.kind()), Err(io::ErrorKind::NotFound));
        let mut recorder = Recorder::start::<io::Sink>(|| Err(io::ErrorKind::StorageFull.into()), 2);
        let chunk = vec![0; CHUNK_BYTES];
        // The thread may not have come to it yet.
        let why = std::iter::from_fn(|| Some(recorder.write_all(&chunk).err()))
            .flatten()
            .find(|why| why.kind() == io::ErrorKind::StorageFull);
        assert!(why.is_some());
    }
}
