//! What is asked again after a delay was taken for that of the way.
//!
//! Source: silence; ours. A small buffer that others keep full looks like a longer way: its delay does not move, whatever the own
//! rate is, and few of the own packets get lost. When they are gone nothing is known to be shorter, and the queue would stay.
//! So it is emptied now and then, as if it were one. Of a way that is longer this takes a quarter of the rate for four times that excess, in
//! a minute: of 100 ms a part of 0.002.

use tidegate_units::{Span, Time};

/// After so long it is asked first, and next after twice that, and so on, but not less often than this.
const FIRST: Span = Span::from_secs(4);
const MOST: Span = Span::from_secs(64);
/// Where more than this part of it turned out to be a queue, the rest is looked at as soon as at first.
const SHORTER: f64 = 0.1;

/// A delay in excess that is taken for the way's.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// Seconds that were taken for the way's, and those of them that are not known to be a queue's.
    accepted: f64,
    excess: f64,
    /// The least round trip when that was last known, seconds.
    least: f64,
    next: Time,
    wait: Span,
}

impl Proof {
    /// So many seconds of `excess` are the way's from now on, whose least round trip is `least` seconds with it.
    pub fn new(excess: f64, least: f64, now: Time) -> Self {
        Self { accepted: excess, excess, least, next: now + FIRST, wait: FIRST }
    }

    /// Whether some of it is still to be asked for.
    pub fn is_open(&self, least: f64) -> bool {
        self.excess - (self.least - least) > SHORTER * self.accepted
    }

    /// The queue to be emptied now, in seconds, if there is one to be asked for; the least round trip is `least` seconds by now.
    pub fn queue(&mut self, least: f64, now: Time) -> Option<f64> {
        let fell = self.least - least;
        if fell > SHORTER * self.accepted {
            self.excess -= fell;
            self.least = least;
            self.wait = FIRST;
            self.next = self.next.min(now + FIRST);
        }
        if now < self.next {
            return None;
        }
        self.wait = (self.wait * 2).min(MOST);
        self.next = now + self.wait;
        Some(self.excess)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// The seconds at which it asks, where the least round trip is what `least` says.
    fn asked(least: impl Fn(u64) -> f64) -> Vec<u64> {
        let mut proof = Proof::new(0.1, 0.2, at(0));
        (1..200)
            .filter(|second| {
                proof.is_open(least(*second)) && proof.queue(least(*second), at(*second)).is_some()
            })
            .collect()
    }

    #[test]
    fn a_way_that_is_longer_is_asked_less_and_less_often() {
        assert_eq!(asked(|_| 0.2), [4, 12, 28, 60, 124, 188]);
    }

    #[test]
    fn what_is_a_queue_is_asked_for_until_it_is_empty() {
        // Half of it by the first time, which is seen a second later, and the rest by the second.
        assert_eq!(
            asked(|second| if second < 5 {
                0.2
            } else if second < 17 {
                0.15
            } else {
                0.1
            }),
            [4, 9]
        );
    }
}
