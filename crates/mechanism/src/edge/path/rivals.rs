//! Who fills the queue: the virtual link itself, a longer way, or somebody else.
//!
//! Source: that a queue which nobody else fills can be emptied: Copa, section 2.2. The signs are ours.
//! Deviations: Nimbus (and so Bundler) finds out by pulses and a Fourier transform whether cross traffic answers, and needs the
//! capacity for it. Here it is seen from what comes of a lower rate, which the law of the delay brings about anyway:
//!
//! - the delay falls: the queue was the own one;
//! - the delay does not move at all, and next to nothing is lost: the way is longer;
//! - the delay stays where it was, though less enters, and enters no faster than it leaves: somebody else fills the queue
//!   ([`Standing`]);
//! - the delay is held, and the path gives less and less for it, second after second: somebody else takes it ([`Share`]). A path
//!   that gives less and then no less still is another path.

use tidegate_units::{Span, Time};

use super::view::Seen;

/// A delay that does not move for so many round trips while the rate falls is that of the way.
const FLAT_ROUNDS: f64 = 3.0;
/// To this part of what entered the rate must have fallen for that.
const FLAT_FALL: f64 = 0.85;
/// A delay that moves by no more than this does not move: seconds, and standard deviations of its jitter.
const FLAT_EXCESS: f64 = 0.001;
const FLAT_JITTERS: f64 = 4.0;
/// A queue that is full loses more than this part, and so many standard deviations of that.
const FLAT_LOSS: f64 = 0.02;
const FLAT_CHANCE: f64 = 2.0;
/// To this part the rate must have fallen for others to be thought of.
const PRESSED: f64 = 0.7;
/// A queue that is above this part of its peak is not draining.
const PEAK: f64 = 0.9;
/// It drains if it was not at its peak for so many round trips.
const PEAK_ROUNDS: f64 = 2.0;
/// It drains if less than this part enters of what leaves.
pub(super) const DRAINING: f64 = 0.85;
/// So many round trips, with their queue, after the rate began to fall it is known what came of it.
const ANSWER_ROUNDS: f64 = 4.0;

/// What a queue that stands says of who fills it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing yet, or that it is the own one.
    Open,
    /// It is no queue: the way is longer.
    Way,
    /// Somebody else fills it.
    Others,
}

/// A delay that does not move.
#[derive(Clone, Copy, Debug)]
pub struct Flat {
    since: Time,
    /// Seconds, and what entered then, bytes per second.
    excess: f64,
    input: f64,
    /// Packets lost since then, and sent.
    lost: u64,
    sent: u64,
}

impl Flat {
    /// As is `seen`, from now on.
    pub const fn new(seen: &Seen, now: Time) -> Self {
        Self { since: now, excess: seen.excess, input: seen.input, lost: 0, sent: 0 }
    }

    /// Whether an excess of so many seconds is the one that stands still, as far as jitter lets it be seen.
    pub fn is_at(&self, excess: f64, seen: &Seen) -> bool {
        (excess - self.excess).abs() <= FLAT_EXCESS + FLAT_JITTERS * seen.jitter
    }

    /// The next delay.
    pub fn on_seen(&mut self, seen: &Seen, now: Time) {
        if !self.is_at(seen.excess, seen) {
            *self = Self::new(seen, now);
        }
        self.lost += seen.lost;
        self.sent += seen.sent;
    }

    /// For how many round trips of `t` seconds it has stood still; not at all if packets get lost, for a queue that is full does not move,
    /// either.
    pub fn rounds(&self, t: f64, now: Time) -> f64 {
        let allowed = FLAT_LOSS * self.sent as f64;
        let is_full = self.lost as f64 > allowed + FLAT_CHANCE * libm::sqrt(allowed);
        if is_full { 0.0 } else { now.since(self.since).as_secs_f64() / t }
    }

    /// What entered when it began to, bytes per second.
    pub const fn input(&self) -> f64 {
        self.input
    }

    /// Whether it is the way's: long enough, while less and less entered.
    pub fn is_the_way(&self, seen: &Seen, t: f64, now: Time) -> bool {
        self.rounds(t, now) >= FLAT_ROUNDS && seen.input < FLAT_FALL * self.input
    }
}

/// The delays since the queue was last seen empty.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    since: Time,
    /// The rate then, bytes per second.
    pub rate: f64,
    /// The greatest delay of late, and when it was last near that.
    peak: f64,
    at_peak: Time,
    flat: Flat,
}

impl Standing {
    /// A queue as is `seen` is first there, at a rate of `rate`.
    pub const fn new(seen: &Seen, rate: f64, now: Time) -> Self {
        Self { since: now, rate, peak: seen.excess, at_peak: now, flat: Flat::new(seen, now) }
    }

    /// It stands still, as is `seen`: `output` leaves, the round trip is `t` seconds, without queues `t_least`. Others are thought of
    /// after `patience` of the latter at the earliest.
    pub fn on_seen(
        &mut self,
        seen: &Seen,
        output: f64,
        t: f64,
        t_least: f64,
        patience: f64,
        now: Time,
    ) -> Verdict {
        let wait = patience * t_least;
        if now.since(self.at_peak).as_secs_f64() >= 2.0 * wait {
            // It drained, and stays all the same: what counts is what it does from now on.
            (self.peak, self.at_peak) = (seen.excess, now);
        }
        self.peak = self.peak.max(seen.excess);
        if seen.excess >= PEAK * self.peak {
            self.at_peak = now;
        }
        self.flat.on_seen(seen, now);
        if self.flat.is_the_way(seen, t, now) {
            return Verdict::Way;
        }
        let may_be_the_way = self.flat.rounds(t, now) >= 1.0;
        let drains =
            seen.input < DRAINING * output || now.since(self.at_peak).as_secs_f64() >= PEAK_ROUNDS * t;
        let lasted = now.since(self.since).as_secs_f64();
        let was_answered = lasted >= wait.max(ANSWER_ROUNDS * (t_least + self.peak));
        // What the fall of the rate did is seen a round trip later, over one.
        let is_pressed = seen.input < PRESSED * self.rate;
        if is_pressed && !drains && was_answered && !may_be_the_way { Verdict::Others } else { Verdict::Open }
    }
}

/// What the path gives is compared with what it gave so long before.
const COMPARED_EVERY: Span = Span::from_secs(1);
/// It is steady if it gives at least this part of that.
const STEADY: f64 = 0.85;
/// What a steady path gives becomes what it usually gives, by this weight if that is more, and by this if less.
const RISING: f64 = 0.3;
const SETTLING: f64 = 0.25;
/// Below this part of the usual, and falling for so many seconds, somebody takes it.
const SQUEEZED: f64 = 0.7;
const FALLS: u32 = 2;
/// How the memory of what the path gives ages while others have a part in it, seconds.
const MEMORY: f64 = 15.0;
/// How the memory of the most that it gave ages while they have none, seconds.
const MOST_MEMORY: f64 = 60.0;
/// Whoever gets this part of the most that the path gave is alone on it.
const ALONE: f64 = 0.95;

/// What the path gives, and gave; bytes per second.
#[derive(Clone, Debug)]
pub struct Share {
    /// What it usually gives.
    pub usual: f64,
    most: f64,
    before: f64,
    compared: Time,
    falls: u32,
}

impl Share {
    /// Nothing is known.
    pub const fn new(now: Time) -> Self {
        Self { usual: 0.0, most: 0.0, before: 0.0, compared: now, falls: 0 }
    }

    /// It gives `output`, after `elapsed` seconds; whether others have a part in it is thought to be known.
    pub fn on_output(&mut self, output: f64, elapsed: f64, are_others: bool) {
        if are_others {
            self.usual += (elapsed / MEMORY).min(1.0) * (output - self.usual);
        } else if !self.is_falling() {
            self.most *= 1.0 - (elapsed / MOST_MEMORY).min(1.0);
        }
        self.most = self.most.max(output);
    }

    /// From now on it is compared with `rate`.
    pub const fn restart(&mut self, rate: f64, now: Time) {
        (self.before, self.compared, self.falls) = (rate, now, 0);
    }

    /// Whether it gives less and less.
    pub const fn is_falling(&self) -> bool {
        self.falls > 0
    }

    /// Whether `output` is all that there is.
    pub fn is_all(&self, output: f64) -> bool {
        output >= ALONE * self.most
    }

    /// Whether somebody takes it: to be asked now and then, with what it gives, and whether there is a queue.
    pub fn is_taken(&mut self, output: f64, is_congested: bool, now: Time) -> bool {
        if now.since(self.compared) < COMPARED_EVERY {
            return false;
        }
        let before = core::mem::replace(&mut self.before, output);
        self.compared = now;
        if output > STEADY * before {
            let weight = if output > self.usual { RISING } else { SETTLING };
            self.usual += weight * (output - self.usual);
            self.falls = 0;
        } else if is_congested && output < SQUEEZED * self.usual {
            self.falls += 1;
        }
        self.falls >= FALLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: f64 = 0.04;
    const PATIENCE: f64 = 6.0;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    fn seen(excess: f64, input: f64, output: f64) -> Seen {
        Seen { output: Some(output), input, excess, jitter: 0.0, rtt: T + excess, lost: 0, sent: 10 }
    }

    /// The verdicts of a second, every 20 ms, of a queue that shows `(excess, input, output)`.
    fn first_verdict(shows: impl Fn(f64) -> (f64, f64, f64)) -> Option<(f64, Verdict)> {
        let mut standing = Standing::new(&seen(shows(0.0).0, 1e6, 1e6), 1e6, at(0.0));
        (1..50).find_map(|step| {
            let seconds = f64::from(step) * 0.02;
            let (excess, input, output) = shows(seconds);
            let sight = seen(excess, input, output);
            let verdict = standing.on_seen(&sight, output, T + excess, T, PATIENCE, at(seconds));
            (verdict != Verdict::Open).then_some((seconds, verdict))
        })
    }

    #[test]
    fn a_queue_that_falls_when_less_enters_is_the_own_one() {
        // 200 ms that drain at half of the rate, once the lower rate has come through.
        let own = |s: f64| if s < 0.25 { (0.2, 1e6, 0.5e6) } else { (0.2 - (s - 0.25) / 2.0, 0.25e6, 0.5e6) };
        assert_eq!(first_verdict(own), None);
    }

    #[test]
    fn a_delay_that_does_not_move_when_less_enters_is_a_longer_way() {
        let way = |s: f64| if s < 0.1 { (0.02, 1e6, 1e6) } else { (0.02, 0.8e6, 0.8e6) };
        let Some((seconds, Verdict::Way)) = first_verdict(way) else { panic!("{:?}", first_verdict(way)) };
        assert!(seconds <= 0.2, "{seconds}");
    }

    #[test]
    fn a_queue_that_stays_though_less_enters_is_others() {
        // They take what is given up, and their queue grows.
        let others = |s: f64| (0.03 + s / 50.0, 1e6 * (0.9 - s).max(0.2), 1e6 * (0.88 - s).max(0.2));
        let Some((seconds, Verdict::Others)) = first_verdict(others) else {
            panic!("{:?}", first_verdict(others))
        };
        assert!((0.24..0.5).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_path_that_gives_less_and_less_is_taken_and_one_that_gives_less_once_is_not() {
        let taken = |gives: &[f64]| {
            let mut share = Share::new(at(0.0));
            gives.iter().enumerate().any(|(second, output)| {
                share.on_output(*output, 1.0, false);
                share.is_taken(*output, true, at(second as f64 + 1.0))
            })
        };
        let steady = [2e6; 10];
        assert!(!taken(&steady));
        assert!(taken(&[&steady[..], &[1.2e6, 0.8e6]].concat()));
        assert!(!taken(&[&steady[..], &[0.4e6; 20]].concat()));
    }
}
