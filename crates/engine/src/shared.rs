//! A medium that both directions of a link share: one transmission at a time, in turns when both wait (half-duplex
//! Ethernet without its collisions).
//!
//! A direction that may not start says when it will ask again, and its alarm is set to that instant. When a transmission
//! ends and the other direction is about to ask at this very instant, the one that sent last lets it go first.

use tidegate_units::{Span, Time};

/// See the module. Its directions are 0 (forward) and 1 (reverse).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedMedium {
    /// End of the last transmission that began.
    free_at: Time,
    /// Who made it.
    last: usize,
    /// When each direction asks again; [`Time::MAX`]: it has nothing to send.
    asks_at: [Time; 2],
}

impl SharedMedium {
    pub(crate) const fn new() -> Self {
        Self { free_at: Time::ZERO, last: 1, asks_at: [Time::MAX; 2] }
    }

    /// Whether `side`, which has a packet to send, may start at `now`. If not, it is to ask again at [`Self::asks_at`].
    pub(crate) fn may_start(&mut self, side: usize, now: Time) -> bool {
        let is_others_turn = self.last == side && self.asks_at[1 - side] == now;
        if self.free_at <= now && !is_others_turn {
            return true;
        }
        // Who lets the other go first asks again behind this instant: whoever is woken first at it would ask for ever.
        let again = if is_others_turn { now + Span::from_nanos(1) } else { now };
        self.asks_at[side] = self.free_at.max(again);
        false
    }

    /// `side` sends until `ends`.
    pub(crate) fn start(&mut self, side: usize, ends: Time) {
        self.free_at = ends;
        self.last = side;
        self.asks_at[side] = Time::MAX;
    }

    /// `side` has nothing to send.
    pub(crate) fn withdraw(&mut self, side: usize) {
        self.asks_at[side] = Time::MAX;
    }

    /// The transmission of `side` ends at `ends` after all.
    pub(crate) fn move_end(&mut self, side: usize, ends: Time) {
        if self.last == side {
            self.free_at = ends;
            let other = &mut self.asks_at[1 - side];
            if *other < Time::MAX {
                // Who waits for the end does so no longer than it takes.
                *other = ends.min(*other);
            }
        }
    }

    /// When `side` asks again.
    pub(crate) const fn asks_at(&self, side: usize) -> Time {
        self.asks_at[side]
    }
}

/// One direction's part in a shared medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// Which of the world's media.
    pub(crate) medium: u32,
    /// 0 (forward) or 1 (reverse).
    pub(crate) side: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn one_sends_at_a_time_and_the_other_goes_next() {
        let mut medium = SharedMedium::new();
        assert!(medium.may_start(0, at(0)));
        medium.start(0, at(10));
        assert!(!medium.may_start(1, at(5)));
        assert_eq!(medium.asks_at(1), at(10));
        assert!(!medium.may_start(0, at(10)), "the other waits");
        assert_eq!(medium.asks_at(0), at(11), "not at the same instant again");
        assert!(medium.may_start(1, at(10)));
        medium.start(1, at(20));
        assert!(!medium.may_start(0, at(10)));
        assert!(medium.may_start(0, at(20)), "the other has not asked");
    }

    #[test]
    fn who_waits_for_an_end_that_comes_sooner_asks_sooner() {
        let mut medium = SharedMedium::new();
        medium.start(0, at(10));
        medium.move_end(0, at(9));
        assert_eq!(medium.asks_at(1), Time::MAX, "it has nothing to send");
        assert!(!medium.may_start(1, at(5)));
        medium.move_end(1, at(6));
        assert_eq!(medium.asks_at(1), at(9), "it is not the one that sends");
        medium.move_end(0, at(7));
        assert_eq!(medium.asks_at(1), at(7));
        assert!(!medium.may_start(0, at(7)), "the other waits");
        assert!(medium.may_start(1, at(7)));
    }

    #[test]
    fn one_that_withdraws_is_not_waited_for() {
        let mut medium = SharedMedium::new();
        medium.start(0, at(10));
        assert!(!medium.may_start(1, at(5)));
        medium.withdraw(1);
        assert!(medium.may_start(0, at(10)));
    }
}
