//! The largest packet that a path takes, found by trying.
//!
//! Source: RFC 8899 (packetization layer path MTU discovery for datagrams), section 5: base, search, complete, error.
//! Deviations: sizes to try are a short list and not a search; a probe that is lost three times ends it. Probes that are lost while nothing
//! at all comes from the other end say nothing of sizes, and are repeated; what arrived before is tried again within seconds; what is in
//! use is confirmed more often than what is not, for a path that takes less than it did swallows all of that. What routers say of
//! sizes (ICMP) is not listened to: anybody may say it.

use tidegate_units::{Span, Time};

/// What every path takes (RFC 8200, section 5): IPv6 outside is then cut by nobody.
pub const BASE: u16 = 1280;
/// Sizes that are tried besides the largest: all multiples of 16, to which packets are padded. 1408 is what is left of 1492 (PPPoE) and of
/// 1500 over IPv6, 1424 of 1492 and 1440 of 1500 over IPv4.
const SIZES: [u16; 7] = [1312, 1344, 1376, 1392, 1408, 1424, 1440];
/// A probe is lost after this time (`PROBE_TIMER`; RFC 8899 has 15 s, for protocols without an idea of the round trip), and is
/// repeated so often (`MAX_PROBES`).
const PROBE_TIMER: Span = Span::from_secs(1);
const PROBES_MAX: u8 = 3;
/// What was found is tried again after this time (`PMTU_RAISE_TIMER`), and confirmed after this (`CONFIRMATION_TIMER`).
const RAISE_TIMER: Span = Span::from_secs(600);
const CONFIRMATION_TIMER: Span = Span::from_secs(15);
/// While packets go that a path of [`BASE`] would not take, it is confirmed after this: 1420 bytes are 4 kbit/s.
const CONFIRMATION_IN_USE: Span = Span::from_secs(3);
/// A size that arrived once and does no more is tried again after this time, then after twice that, and so on up to `RAISE_TIMER`: the
/// path may have been broken for a moment only.
const AGAIN: Span = Span::from_secs(2);

/// See the module.
#[derive(Clone, Debug)]
pub struct PathMtu {
    /// What arrives, and the largest that ever did.
    confirmed: u16,
    known: u16,
    /// What this end takes, and the other one.
    here: u16,
    there: u16,
    /// What is being tried.
    trying: Option<Try>,
    /// When something was last found out, and when to try again.
    tried: Time,
    next: Time,
    /// Larger sizes are not to be tried before then.
    raise: Time,
    /// How long to wait after the next loss of a size that arrived once.
    again: Span,
}

/// A size that is being tried.
#[derive(Clone, Copy, Debug)]
struct Try {
    size: u16,
    /// How often it was sent.
    sent: u8,
    lost_at: Time,
    /// Whether anything came from the other end since it was last sent.
    is_heard: bool,
}

impl PathMtu {
    /// A path that may take packets of up to `most` bytes.
    pub fn new(most: u16, now: Time) -> Self {
        let confirmed = BASE.min(most);
        Self {
            confirmed,
            known: confirmed,
            here: most,
            there: most,
            trying: None,
            tried: now,
            next: now,
            raise: now,
            again: AGAIN,
        }
    }

    fn most(&self) -> u16 {
        self.here.min(self.there)
    }

    /// The largest packet that is known to arrive.
    pub const fn size(&self) -> u16 {
        self.confirmed
    }

    /// The other end takes no more than `most`.
    pub fn limit(&mut self, most: u16) {
        self.there = most.max(BASE);
        self.confirmed = self.confirmed.min(self.most());
    }

    /// Something came from the other end.
    pub fn on_heard(&mut self) {
        if let Some(trying) = &mut self.trying {
            trying.is_heard = true;
        }
    }

    /// A packet of `bytes` left: see [`CONFIRMATION_IN_USE`].
    pub fn on_sent(&mut self, bytes: u64) {
        if bytes > u64::from(BASE) && self.confirmed > BASE {
            self.next = self.next.min(self.tried + CONFIRMATION_IN_USE);
        }
    }

    /// The size of a probe to send now.
    pub fn poll(&mut self, now: Time) -> Option<u16> {
        if let Some(trying) = &mut self.trying {
            if trying.lost_at > now {
                return None;
            }
            let size = trying.size;
            if trying.sent >= PROBES_MAX && trying.is_heard {
                self.on_lost(size, now);
                return None;
            }
            *trying = Try {
                size,
                sent: trying.sent.saturating_add(1),
                lost_at: now + PROBE_TIMER,
                is_heard: false,
            };
            return Some(size);
        }
        if now < self.next {
            return None;
        }
        let larger = SIZES
            .iter()
            .copied()
            .chain([self.most()])
            .filter(|&size| size > self.confirmed && size <= self.most());
        let size = if now >= self.raise { larger.min() } else { None };
        let size = size.or((self.confirmed > BASE).then_some(self.confirmed));
        (self.tried, self.next) = (now, now + CONFIRMATION_TIMER);
        let size = size?;
        self.trying = Some(Try { size, sent: 1, lost_at: now + PROBE_TIMER, is_heard: false });
        Some(size)
    }

    fn on_lost(&mut self, size: u16, now: Time) {
        (self.trying, self.tried) = (None, now);
        if size > self.known {
            self.raise = now + RAISE_TIMER;
            return;
        }
        if size <= self.confirmed {
            // What arrived before arrives no more: a black hole.
            self.confirmed = BASE.min(self.most());
        }
        self.raise = now + self.again;
        self.next = self.raise.min(now + CONFIRMATION_TIMER);
        self.again = Span::from_nanos(2 * self.again.as_nanos()).min(RAISE_TIMER);
    }

    /// A probe of `size` arrived.
    pub fn on_probed(&mut self, size: u16, now: Time) {
        if self.trying.is_some_and(|trying| trying.size == size) {
            self.confirmed = self.confirmed.max(size).min(self.most());
            self.known = self.known.max(self.confirmed);
            if self.confirmed == self.known {
                self.again = AGAIN;
            }
            (self.trying, self.tried) = (None, now);
            // On to the next size at once.
            let is_next = size < self.most() && now >= self.raise;
            self.next = if is_next { now } else { now + CONFIRMATION_TIMER };
        }
    }

    /// The path is another one.
    pub fn restart(&mut self, now: Time) {
        *self = Self { there: self.there, ..Self::new(self.here, now) };
        self.confirmed = self.confirmed.min(self.most());
    }

    /// When to come back for [`Self::poll`].
    pub fn timeout(&self) -> Time {
        match self.trying {
            Some(trying) => trying.lost_at,
            None => self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is found on a path that takes `takes`, after `seconds`, and how many probes were sent.
    /// It hears from the other end as long as that takes anything.
    fn found(mtu: &mut PathMtu, takes: impl Fn(u64) -> u16, seconds: std::ops::Range<u64>) -> (u16, u32) {
        let mut probes = 0;
        for tenth in seconds.start * 10..seconds.end * 10 {
            let now = Time::from_nanos(tenth * 100_000_000);
            if takes(tenth / 10) > 0 {
                mtu.on_heard();
            }
            while mtu.timeout() <= now
                && let Some(size) = mtu.poll(now)
            {
                probes += 1;
                if size <= takes(tenth / 10) {
                    mtu.on_probed(size, now);
                }
            }
        }
        (mtu.size(), probes)
    }

    #[test]
    fn a_path_is_found_in_seconds_and_watched_afterwards() {
        for takes in [1280, 1350, 1408, 1420, 1500] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let (size, probes) = found(&mut mtu, |_| takes, 0..10);
            let largest =
                SIZES.into_iter().chain([1420]).filter(|&one| one <= takes.min(1420)).max().unwrap_or(BASE);
            assert_eq!(size, largest.max(BASE), "{takes}");
            assert!(probes < 12, "{probes}");
        }
    }

    #[test]
    fn a_path_that_takes_less_is_noticed_and_one_that_takes_more_again_as_well() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        let takes = |second| if (100..200).contains(&second) { 1312 } else { 1500 };
        assert_eq!(found(&mut mtu, takes, 0..100).0, 1420);
        assert_eq!(found(&mut mtu, takes, 100..130).0, 1312);
        // It tries less and less often, and has it within twice the time that it was less.
        assert_eq!(found(&mut mtu, takes, 130..400).0, 1420);
    }

    #[test]
    fn what_is_in_use_is_missed_within_seconds_and_confirmed_no_more_often_than_it_has_to_be() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
        let (mut missed, mut probes) = (None, 0);
        for tenth in 1000..2000_u64 {
            let now = Time::from_nanos(tenth * 100_000_000);
            mtu.on_sent(u64::from(mtu.size()));
            mtu.on_heard();
            if mtu.timeout() <= now
                && let Some(size) = mtu.poll(now)
            {
                probes += 1;
                if size <= if tenth < 1500 { 1500 } else { 1280 } {
                    mtu.on_probed(size, now);
                }
            }
            if tenth < 1500 {
                assert!(mtu.size() == 1420 && probes <= (tenth - 1000) / 30 + 2, "{probes} at {tenth}");
            } else if mtu.size() == BASE {
                missed = missed.or(Some(tenth - 1500));
            }
        }
        let missed = missed.expect("a path that takes less is noticed");
        assert!((30..=61).contains(&missed), "after {missed} tenths of a second");
    }

    #[test]
    fn a_path_that_takes_nothing_for_a_while_takes_afterwards_what_it_took() {
        for seconds in [3, 22, 200] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let takes = |second| if (100..100 + seconds).contains(&second) { 0 } else { 1500 };
            found(&mut mtu, takes, 0..100 + seconds);
            assert_eq!(mtu.size(), 1420, "{seconds} s");
            assert_eq!(found(&mut mtu, takes, 100 + seconds..130 + seconds).0, 1420);
        }
    }

    #[test]
    fn where_only_this_way_is_broken_for_a_while_it_is_found_again_in_seconds() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
        // What comes from there comes; nothing of ours arrives, small or large.
        assert_eq!(found(&mut mtu, |_| 1, 100..122).0, BASE);
        assert_eq!(found(&mut mtu, |_| 1500, 122..140).0, 1420);
    }

    #[test]
    fn who_comes_back_and_takes_more_is_sent_more() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        mtu.limit(1280);
        assert_eq!(found(&mut mtu, |_| 1500, 0..10).0, 1280);
        mtu.limit(1420);
        mtu.restart(Time::from_nanos(10_000_000_000));
        assert_eq!(found(&mut mtu, |_| 1500, 10..20).0, 1420);
    }

    proptest! {
        #[test]
        fn whatever_arrives_the_size_is_between_base_and_most(
            most in 1280u16..1500, steps in prop::collection::vec((0u64..5_000_000_000, any::<u16>(), any::<bool>()), 0..200),
        ) {
            let mut mtu = PathMtu::new(most, Time::ZERO);
            let mut now = Time::ZERO;
            for (wait, size, echoes) in steps {
                now += Span::from_nanos(wait);
                let sent = mtu.poll(now);
                if let Some(sent) = sent {
                    prop_assert!((BASE..=most).contains(&sent));
                    if echoes {
                        mtu.on_probed(sent, now);
                    }
                }
                if echoes {
                    mtu.on_heard();
                }
                mtu.on_probed(size, now);
                mtu.on_sent(u64::from(size));
                prop_assert!((BASE..=most).contains(&mtu.size()));
                prop_assert!(mtu.poll(now).is_none() || mtu.timeout() > now || echoes);
            }
        }
    }
}
