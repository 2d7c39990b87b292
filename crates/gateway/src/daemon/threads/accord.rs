//! All threads change, or none does.
//!
//! Who wants a change lays it before each of them. A thread that has it says so, and goes on as before; when all have it, all begin.
//! Where one cannot be told, or says nothing for too long, it is called off, also for those that hear of it later. Nobody waits on
//! the way of a packet: a thread asks each time around what was decided, as long as something lies before it.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_units::{Span, Time};

use super::super::io::clock;

/// What a thread says of a change: that it has it, and that it has begun.
const SAID_MAX: usize = 2;

/// A change that lies before one thread.
pub struct Proposal<T> {
    change: T,
    begins: Arc<OnceLock<bool>>,
    says: SyncSender<()>,
}

impl<T> fmt::Debug for Proposal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal").field("begins", &self.begins).finish_non_exhaustive()
    }
}

/// What has become of a change; see [`Proposal::decided`].
pub enum Decided<T> {
    /// Nothing yet.
    Open(Proposal<T>),
    /// It begins now; who has begun says so by the other one, to whom nobody may listen any more.
    Begins(T, SyncSender<()>),
    /// It was called off.
    Off,
}

impl<T> Proposal<T> {
    /// The thread has it.
    pub fn accept(&self) {
        // Whoever asked may have gone away: then it is called off.
        let _ = self.says.try_send(());
    }

    /// What has become of it.
    pub fn decided(self) -> Decided<T> {
        match self.begins.get() {
            None => Decided::Open(self),
            Some(true) => Decided::Begins(self.change, self.says),
            Some(false) => Decided::Off,
        }
    }
}

/// Lays `changes` before their threads by `tell`, and calls all of them up by `wake` when it is decided. It returns when it is so
/// everywhere; `patience` is how long threads may take to say that they have it, all together, and that it is so.
///
/// # Errors
/// Why it is so nowhere, for people. Who has it and is slow to begin is no error any more: `late` is told their numbers.
pub fn propose<T>(
    changes: Vec<(u8, T)>,
    patience: Span,
    tell: impl Fn(u8, Proposal<T>) -> Result<(), String>,
    wake: impl FnOnce(),
    late: impl Fn(u8),
) -> Result<(), String> {
    let begins = Arc::new(OnceLock::new());
    let laid = lay(changes, &begins, patience, tell);
    begins.get_or_init(|| laid.is_ok());
    wake();
    let end = clock::now() + patience;
    for (thread, hears) in laid? {
        if hears.recv_timeout(until(end)).is_err() {
            late(thread);
        }
    }
    Ok(())
}

/// Every thread has it: what they will be heard by.
fn lay<T>(
    changes: Vec<(u8, T)>,
    begins: &Arc<OnceLock<bool>>,
    patience: Span,
    tell: impl Fn(u8, Proposal<T>) -> Result<(), String>,
) -> Result<Vec<(u8, Receiver<()>)>, String> {
    let mut laid = Vec::new();
    for (thread, change) in changes {
        let (says, hears) = sync_channel(SAID_MAX);
        tell(thread, Proposal { change, begins: Arc::clone(begins), says })?;
        laid.push((thread, hears));
    }
    let end = clock::now() + patience;
    for (thread, hears) in &laid {
        hears.recv_timeout(until(end)).map_err(|_| format!("packet thread {thread} does not answer"))?;
    }
    Ok(laid)
}

fn until(end: Time) -> Duration {
    Duration::from_nanos(end.since(clock::now()).as_nanos())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::thread;

    use super::*;

    const PATIENCE: Span = Span::from_secs(20);

    /// What threads got, in order.
    type Got = RefCell<Vec<Proposal<u8>>>;

    fn changes(threads: u8) -> Vec<(u8, u8)> {
        (0..threads).map(|thread| (thread, 10 + thread)).collect()
    }

    #[test]
    fn it_begins_when_all_have_it_and_not_before() {
        let (lanes, heard): (Vec<_>, Vec<_>) = (0..3).map(|_| sync_channel::<Proposal<u8>>(1)).unzip();
        let (told, tells) = sync_channel(8);
        let workers: Vec<_> = heard
            .into_iter()
            .map(|orders| {
                let told = told.clone();
                thread::spawn(move || {
                    let mut laid: Proposal<u8> = orders.recv().expect("somebody asks");
                    laid.accept();
                    loop {
                        match laid.decided() {
                            Decided::Open(still) => laid = still,
                            Decided::Begins(change, says) => {
                                told.send(change).expect("it is listened to");
                                return says.try_send(()).is_ok();
                            }
                            Decided::Off => return false,
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let tell = |thread: u8, proposal| {
            lanes[usize::from(thread)].try_send(proposal).map_err(|_| "busy".to_owned())
        };
        propose(changes(3), PATIENCE, tell, || (), |_| panic!("nobody is late")).expect("all have it");
        // It has begun everywhere when it is said that it has.
        let mut begun: Vec<u8> = tells.try_iter().collect();
        begun.sort_unstable();
        assert_eq!(begun, [10, 11, 12]);
        assert!(workers.into_iter().all(|one| one.join().expect("it ends")));
    }

    #[test]
    fn where_one_cannot_be_told_nobody_begins() {
        let got = Got::default();
        let woken = RefCell::new(0);
        let tell = |thread: u8, proposal: Proposal<u8>| {
            if thread == 2 {
                return Err("has too much to do".to_owned());
            }
            proposal.accept();
            got.borrow_mut().push(proposal);
            Ok(())
        };
        let refused = propose(changes(4), PATIENCE, tell, || *woken.borrow_mut() += 1, |_| ());
        assert_eq!(refused, Err("has too much to do".to_owned()));
        assert_eq!((got.borrow().len(), *woken.borrow()), (2, 1));
        assert!(got.into_inner().into_iter().all(|one| matches!(one.decided(), Decided::Off)));
    }

    #[test]
    fn where_one_is_silent_nobody_begins_also_later() {
        let got = Got::default();
        let tell = |thread: u8, proposal: Proposal<u8>| {
            if thread != 1 {
                proposal.accept();
            }
            got.borrow_mut().push(proposal);
            Ok(())
        };
        let refused = propose(changes(3), Span::ZERO, tell, || (), |_| ());
        assert_eq!(refused, Err("packet thread 1 does not answer".to_owned()));
        for one in got.into_inner() {
            one.accept();
            assert!(matches!(one.decided(), Decided::Off));
        }
    }

    #[test]
    fn who_is_slow_to_begin_begins_all_the_same() {
        let got = Got::default();
        let slow = RefCell::new(Vec::new());
        let tell = |_, proposal: Proposal<u8>| {
            assert!(proposal.begins.get().is_none(), "nobody has decided");
            proposal.accept();
            got.borrow_mut().push(proposal);
            Ok(())
        };
        let late = |thread| slow.borrow_mut().push(thread);
        propose(changes(2), Span::from_millis(1), tell, || (), late).expect("all have it");
        assert_eq!(slow.into_inner(), [0, 1]);
        let begun = got.into_inner().into_iter().map(|one| match one.decided() {
            Decided::Begins(change, _) => change,
            _ => 0,
        });
        assert_eq!(begun.collect::<Vec<_>>(), [10, 11]);
    }
}
