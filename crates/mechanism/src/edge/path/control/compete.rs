//! A part beside others that fill the queue, and the tests of whether they are still there.
//!
//! Source: Bundler, section 5 (a mode of its own while others fill the queue). What its part is: [`super::super::virtual_flows`].
//! Deviations: those of [`super`]. The tests of whether others are gone, and how far apart they are, are ours.

use tidegate_units::{Span, Time};

use super::super::rivals::Flat;
use super::super::view::{PathView, Seen};
use super::super::virtual_flows::VirtualFlows;
use super::{Control, Mode, Step, TEST_MOST};

/// A test takes this part of the rate.
const TEST: f64 = 0.6;
/// After others were found, the first test comes after this part of the time between two: one over it. The next ones take twice as long each.
const FIRST_TEST: u64 = 4;
/// Whether sending more gets more is told from so many times what was had.
const CONCLUSIVE: f64 = 1.15;
/// Where the delay has stood still for so many round trips at its end a deeper one follows, which takes so many.
const STILL_ROUNDS: f64 = 1.5;
const DEEPER_ROUNDS: f64 = 4.5;
/// It has failed if so much of the queue stands when the lower rate is seen.
const TEST_STANDS: f64 = 0.95;
/// A queue of which a report shows no more than this part of what the one before did is about to be empty: delays are smoothed.
const TEST_FALLS: f64 = 0.8;
/// Who gets all of the path for so long is alone on it.
const ALONE_FOR: Span = Span::from_millis(500);
/// The size of a virtual flow's segments, bytes.
const SEGMENT: u32 = 1500;

/// Whether the queue empties at a lower rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// When the lower rate is seen in the queue, and when the queue would be empty without others.
    seen: Time,
    until: Time,
    /// The greatest excess until then, and the last one, seconds; and how it stands still since it began.
    excess: f64,
    last: f64,
    flat: Flat,
    /// The rate was lowered once more: does the delay move at all?
    is_deeper: bool,
}

impl Trial {
    /// It begins `now`, with what is `seen`.
    fn new(seen: &Seen, now: Time) -> Self {
        let answered = now + Span::from_secs_f64(2.0 * seen.rtt);
        Self {
            seen: answered,
            until: answered + alone(seen.excess),
            excess: seen.excess,
            last: seen.excess,
            flat: Flat::new(seen, now),
            is_deeper: false,
        }
    }
}

/// How long a test drains a queue of so many seconds, if nobody else sends.
fn alone(excess: f64) -> Span {
    Span::from_secs_f64((excess / (1.0 - TEST)).min(TEST_MOST))
}

impl Control {
    /// Somebody else fills the queue: from now on as many flows as are busy share it, and begin where they were.
    pub(super) fn compete(&mut self, step: &Step<'_>) {
        let now = step.now;
        self.rate = self.share.usual.max(self.rate);
        self.mode = Mode::Compete(VirtualFlows::new(step.busy, self.rate, step.t, SEGMENT, now));
        // If it was thought only just now that they are gone, that is not asked again soon.
        let test_every = step.terms.test_every;
        let was_wrong = self.left.is_some_and(|left| now.since(left) < test_every);
        self.test_wait = Span::from_nanos(test_every.as_nanos() / if was_wrong { 1 } else { FIRST_TEST });
        self.next_test = now + self.test_wait;
        self.push = Some((step.output, self.share.usual));
        self.least = step.seen.excess;
        self.somebody = now;
        (self.standing, self.still) = (None, None);
    }

    pub(super) fn on_compete(&mut self, mut flows: VirtualFlows, step: &Step<'_>) {
        let Step { seen, output, now, .. } = *step;
        self.least = self.least.min(seen.excess);
        flows.set_count(step.busy);
        if seen.lost > 0 {
            flows.on_losses(seen.lost, seen.rtt, now);
        } else if step.is_used {
            flows.on_time(step.elapsed, seen.rtt, now);
        }
        if !self.share.is_all(output) {
            self.somebody = now;
        } else if now.since(self.somebody) >= ALONE_FOR {
            return self.leave(output, step);
        }
        if let Some((before, usual)) = self.push {
            // Of a path that others share more is had by sending more; of one that has become narrow it is not.
            let others = (usual - before).max(0.0);
            let shared = usual * seen.input / (seen.input + others);
            if shared > CONCLUSIVE * before {
                self.push = None;
                if output < f64::midpoint(before, shared) {
                    self.next_test = now;
                }
            }
        }
        if now < self.next_test {
            self.rate = flows.rate(seen.rtt);
            self.mode = Mode::Compete(flows);
            return;
        }
        self.rate = TEST * output;
        self.mode = Mode::Test(flows, Trial::new(seen, now));
    }

    pub(super) fn on_test(
        &mut self,
        flows: VirtualFlows,
        mut trial: Trial,
        step: &Step<'_>,
        view: &mut PathView,
    ) {
        let Step { seen, t, now, .. } = *step;
        trial.flat.on_seen(seen, now);
        let falls = seen.excess < TEST_FALLS * core::mem::replace(&mut trial.last, seen.excess);
        if now < trial.seen {
            // What was sent before still comes.
            trial.excess = trial.excess.max(seen.excess);
            trial.until = trial.seen + alone(trial.excess);
        }
        // The way is never shorter than it is: a queue that stands still above what was seen is one.
        let is_the_way = trial.flat.is_the_way(seen, t, now) && trial.flat.is_at(self.least, seen);
        if is_the_way {
            self.proof = Some(view.accept_level(now));
        }
        if is_the_way || seen.excess <= step.emptied {
            return self.leave(self.share.usual, step);
        }
        // A queue of others grows when less of the own comes; what does not move at all is looked at for longer, and deeper.
        let moves = trial.flat.rounds(t, now) < STILL_ROUNDS;
        let stands = now >= trial.seen && seen.excess > TEST_STANDS * trial.excess;
        let is_over = now >= trial.until && !falls;
        if (stands && moves) || (is_over && (trial.is_deeper || moves)) {
            self.test_wait = (self.test_wait * 2).min(step.terms.test_every);
            self.next_test = now + self.test_wait;
            self.mode = Mode::Compete(flows);
            return;
        }
        if is_over {
            // It fell, and does so no more: that is a queue of others, or the way.
            self.rate *= TEST;
            trial.is_deeper = true;
            trial.until = now + Span::from_secs_f64(DEEPER_ROUNDS * t);
        }
        self.mode = Mode::Test(flows, trial);
    }
}
