//! How parts run: in windows no longer than a packet takes from one to another, with an exchange after each.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use tidegate_units::{Span, Time};

use super::{Divided, Export};
use crate::observer::Observer;
use crate::simulation::Simulation;
use crate::world::Wake;

/// So often somebody who waits for the others looks before letting another program have the core: some ten microseconds.
const LOOKS: u32 = 2_000;

/// Windows after which the place of a packet that goes to another part is used again: until then what the other read has left its own
/// caches, and is written without asking it. With one or two turns the benchmark S4 took a fifth more time, with 40 the same as with 16.
const TURNS: usize = 16;

/// Where all parts wait for each other.
#[derive(Debug)]
struct Meeting {
    parts: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// One of them will never come.
    is_off: AtomicBool,
}

impl Meeting {
    fn of(parts: usize) -> Self {
        Self {
            parts,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            is_off: AtomicBool::new(false),
        }
    }

    /// Until all have come. What each wrote before, all can read afterwards.
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parts {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.is_off.load(Ordering::Relaxed), "another part of the simulation panicked");
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// Calls the meeting off if its owner panics, for the others would wait for ever.
struct Attendance<'m>(&'m Meeting);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_off.store(true, Ordering::Relaxed);
        }
    }
}

/// What parts tell each other.
#[derive(Debug)]
struct Table {
    meeting: Meeting,
    lookahead: Span,
    /// By turn, sender and receiver.
    mail: Vec<Mutex<Vec<Export>>>,
    /// By whether the window is even or odd, and by part. Nobody is ahead of another by more than a window.
    said: [Vec<Said>; 2],
}

/// What a part says at the end of a window.
#[derive(Debug, Default)]
struct Said {
    /// Nothing is due before, in nanoseconds, neither here nor of what went from here.
    not_before: AtomicU64,
    /// Events handled in this run.
    events: AtomicU64,
}

impl Table {
    /// What left `from` for `to` in window number `window`.
    fn mail(&self, window: usize, from: usize, to: usize) -> MutexGuard<'_, Vec<Export>> {
        let parts = self.meeting.parts;
        let place = (window % TURNS * parts + from) * parts + to;
        self.mail[place].lock().expect("nobody panics with it")
    }
}

impl Divided {
    /// Runs all parts until `until`, or until they have handled `events_max` events or a few more. When they are then, and how many
    /// events they have handled.
    pub(super) fn run(&mut self, from: Time, until: Time, events_max: u64) -> (Time, u64) {
        let parts = self.list.len();
        let table = Table {
            meeting: Meeting::of(parts),
            lookahead: self.division.lookahead(),
            mail: (0..TURNS * parts * parts).map(|_| Mutex::default()).collect(),
            said: [0, 1].map(|_| (0..parts).map(|_| Said::default()).collect()),
        };
        thread::scope(|scope| {
            let (first, others) = self.list.split_first_mut().expect("there are parts");
            for part in others {
                scope.spawn(|| part.run_part(from, until, events_max, &table));
            }
            first.run_part(from, until, events_max, &table)
        })
    }
}

impl<O: Observer> Simulation<O> {
    /// Until when everything has happened, and how many events it were in all parts.
    fn run_part(&mut self, from: Time, until: Time, events_max: u64, table: &Table) -> (Time, u64) {
        let _attendance = Attendance(&table.meeting);
        let own = self.number();
        let others = |of: usize| (0..table.meeting.parts).filter(move |other| *other != of);
        let (mut reached, mut events, mut gone) = (from, 0, Time::MAX);
        for window in 0.. {
            let said = &table.said[window % 2];
            let not_before = self.not_before().min(gone);
            said[own].not_before.store(not_before.as_nanos(), Ordering::Relaxed);
            said[own].events.store(events, Ordering::Relaxed);
            table.meeting.wait();
            if window > 0 {
                for other in others(own) {
                    let mut letters = table.mail(window - 1, other, own);
                    letters.iter().for_each(|export| self.import(export));
                    letters.clear();
                }
            }
            // All read the same, so that all decide alike.
            let earliest = said.iter().map(|said| said.not_before.load(Ordering::Relaxed)).min();
            let start = Time::from_nanos(earliest.unwrap_or(u64::MAX)).max(reached);
            let all_events = said.iter().map(|said| said.events.load(Ordering::Relaxed)).sum();
            if start >= until {
                self.world.now = until;
                return (until, all_events);
            }
            if all_events >= events_max {
                return (reached, all_events);
            }
            reached = start.saturating_add(table.lookahead).min(until);
            events += self.run_window(reached, u64::MAX).1;
            gone = Time::MAX;
            for to in others(own) {
                let left = self.export_to(to, reached, &mut table.mail(window, own, to));
                gone = gone.min(left.saturating_add(table.lookahead));
            }
        }
        unreachable!("windows end where the run does")
    }

    /// Handles what is due before `end`, by the numbers of what it wakes, but no more than `events_max` events; whether all of it is, and
    /// how many it were.
    #[inline(never)]
    fn run_window(&mut self, end: Time, events_max: u64) -> (bool, u64) {
        let mut events = 0;
        while events < events_max {
            let Some((time, token)) = self.world.events.pop_numbered(end) else { return (true, events) };
            debug_assert!(time >= self.world.now, "time never goes back");
            self.world.now = time;
            events += 1;
            if let Some(index) = Wake::link(token) {
                self.on_link(index);
            } else {
                self.handle(token);
            }
        }
        (false, events)
    }

    /// [`Self::run_until`] for events of one instant in the order of their numbers, on as many cores as there are parts.
    #[inline(never)]
    pub(crate) fn run_numbered(&mut self, until: Time, events_max: u64) -> bool {
        if let Some(mut parts) = self.divided.take() {
            let (reached, events) = parts.run(self.world.now, until, events_max);
            self.divided = Some(parts);
            self.world.now = reached;
            self.world.totals.events += events;
            return reached == until;
        }
        let (is_done, events) = self.run_window(until, events_max);
        self.world.totals.events += events;
        if is_done {
            self.world.now = until;
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn all_have_come_before_any_goes_on() {
        let (meeting, entered) = (Meeting::of(3), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..200 {
                        entered.fetch_add(1, Ordering::Relaxed);
                        meeting.wait();
                        assert!(entered.load(Ordering::Relaxed) >= 3 * round);
                        meeting.wait();
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 3 * 199);
    }

    #[test]
    fn who_panics_does_not_leave_the_others_waiting() {
        let meeting = Meeting::of(2);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _attendance = Attendance(&meeting);
                    panic!("something is wrong with this part");
                });
                meeting.wait();
            });
        }));
        assert!(panicked.is_err());
    }
}
