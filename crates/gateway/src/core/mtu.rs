//! The largest packet that a path takes, found by trying.
//!
//! Source: RFC 8899 (packetization layer path MTU discovery for datagrams), section 5: base, search, complete, error.
//! Deviations: sizes to try are a short list and not a search; a probe that is lost six times ends it, so that paths that lose one
//! datagram in ten are not taken for smaller. Probes that are lost while nothing at all comes from the other end say nothing of sizes: it is
//! asked by small ones whether it is there, and they are repeated; [`BASE`] is tried where nothing larger arrives, and what does not even take that is told ([`PathMtu::is_too_small`]), for
//! packets are not made smaller; what arrived before is tried again within seconds; what is in use is confirmed more often than what is not, and before
//! larger sizes are tried, for a path that takes less than it did swallows all of that. What routers say of sizes (ICMP) is not
//! listened to: anybody may say it.

use tidegate_units::{Span, Time};

/// What every path takes (RFC 8200, section 5): IPv6 outside is then cut by nobody.
pub const BASE: u16 = 1280;
/// Sizes that are tried besides the largest: all multiples of 16, to which packets are padded. 1408 is what is left of 1492 (PPPoE) and of
/// 1500 over IPv6, 1424 of 1492 and 1440 of 1500 over IPv4.
const SIZES: [u16; 7] = [1312, 1344, 1376, 1392, 1408, 1424, 1440];
/// A probe that is not answered is sent again after this time, so often in all (`MAX_PROBES`: RFC 8899 has 3). Where each way loses one in
/// ten, 19 of 100 are not answered, and 5 of 100,000 times none of six is.
const REPEAT_TIMER: Span = Span::from_millis(500);
const PROBES_MAX: u8 = 6;
/// What every path takes on which there is a session: the answer says that the other end is there.
const LEAST: u16 = (super::envelope::HEADER_BYTES + super::envelope::ENVELOPE_BYTES) as u16;
/// None of them is answered any more this time after the last (`PROBE_TIMER`: RFC 8899 has 15 s, for protocols without an idea of the
/// round trip).
const PROBE_TIMER: Span = Span::from_secs(1);
/// What was found is tried again after this time (`PMTU_RAISE_TIMER`), and confirmed after this (`CONFIRMATION_TIMER`).
const RAISE_TIMER: Span = Span::from_secs(600);
const CONFIRMATION_TIMER: Span = Span::from_secs(15);
/// While packets go that a path of [`BASE`] would not take, it is confirmed after this: 1420 bytes are 4 kbit/s.
const CONFIRMATION_IN_USE: Span = Span::from_secs(3);
/// A size that arrived once and does no more is tried again after this time, then after twice that, and so on up to `RAISE_TIMER`: the
/// path may have been broken for a moment only.
const AGAIN: Span = Span::from_secs(2);

impl Try {
    /// It is sent for the `sent`th time.
    fn new(size: u16, sent: u8, now: Time) -> Self {
        let wait = if sent < PROBES_MAX { REPEAT_TIMER } else { PROBE_TIMER };
        Self { size, sent, next: now + wait, is_heard: false }
    }
}

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
    /// When something was last found out, and when to try again; when a probe last arrived.
    tried: Time,
    next: Time,
    arrived: Time,
    /// Larger sizes are not to be tried before then.
    raise: Time,
    /// How long to wait after the next loss of a size that arrived once.
    again: Span,
    /// Whether [`BASE`] arrives, as far as that was tried.
    takes_base: Option<bool>,
}

/// A size that is being tried.
#[derive(Clone, Copy, Debug)]
struct Try {
    size: u16,
    /// How often it was sent.
    sent: u8,
    /// When it is sent again, or is lost.
    next: Time,
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
            arrived: now,
            raise: now,
            again: AGAIN,
            takes_base: None,
        }
    }

    /// What both ends take, whatever the path does.
    pub fn most(&self) -> u16 {
        self.here.min(self.there)
    }

    /// The largest packet that is known to arrive.
    pub const fn size(&self) -> u16 {
        self.confirmed
    }

    /// Whether not even [`BASE`] arrives, which every path takes that IPv6 may go: what is larger than the path takes is lost.
    pub fn is_too_small(&self) -> bool {
        self.takes_base == Some(false)
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
            if trying.next > now {
                return None;
            }
            let size = trying.size;
            if trying.sent < PROBES_MAX || !trying.is_heard {
                let asks = trying.sent >= PROBES_MAX && (trying.sent - PROBES_MAX).is_multiple_of(2);
                let sent = if trying.sent == u8::MAX { trying.sent - 1 } else { trying.sent + 1 };
                *trying = Try::new(size, sent, now);
                return Some(if asks { LEAST } else { size });
            }
            self.on_lost(size, now);
        }
        if now < self.next {
            return None;
        }
        let larger = SIZES
            .iter()
            .copied()
            .chain([self.most()])
            .filter(|&size| size > self.confirmed && size <= self.most());
        let in_use = (self.confirmed > BASE).then_some(self.confirmed);
        let is_doubtful = now.since(self.arrived) >= CONFIRMATION_IN_USE;
        let larger = if now >= self.raise { larger.min() } else { None };
        (self.tried, self.next) = (now, self.after(now));
        let base = (self.takes_base != Some(true)).then_some(self.confirmed);
        let size = in_use.filter(|_| is_doubtful).or(larger).or(in_use).or(base)?;
        self.trying = Some(Try::new(size, 1, now));
        Some(size)
    }

    fn on_lost(&mut self, size: u16, now: Time) {
        // What is in use has not been confirmed meanwhile.
        (self.trying, self.tried, self.next) = (None, now, now);
        if size > self.known {
            self.raise = now + RAISE_TIMER;
            return;
        }
        if size <= BASE {
            (self.takes_base, self.next) = (Some(false), now + CONFIRMATION_TIMER);
            return;
        }
        if size <= self.confirmed {
            // What arrived before arrives no more: a black hole.
            (self.confirmed, self.takes_base) = (BASE.min(self.most()), None);
        }
        self.raise = now + self.again;
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
            (self.trying, self.tried, self.arrived) = (None, now, now);
            self.takes_base = Some(true);
            self.next = self.after(now);
        }
    }

    /// When there is something to try next: larger sizes as soon as they may be, else what is in use.
    fn after(&self, now: Time) -> Time {
        let confirmation = now + CONFIRMATION_TIMER;
        if self.confirmed < self.most() { self.raise.max(now).min(confirmation) } else { confirmation }
    }

    /// The path is another one.
    pub fn restart(&mut self, now: Time) {
        *self = Self { there: self.there, ..Self::new(self.here, now) };
        self.confirmed = self.confirmed.min(self.most());
    }

    /// When to come back for [`Self::poll`].
    pub fn timeout(&self) -> Time {
        match self.trying {
            Some(trying) => trying.next,
            None => self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For these tenths of seconds, in each of which `passes` says first what else passes; `takes` says of probes whether they
    /// arrive and are answered. How many there were.
    fn drive(
        mtu: &mut PathMtu,
        tenths: std::ops::Range<u64>,
        mut passes: impl FnMut(&mut PathMtu, u64),
        mut takes: impl FnMut(u64, u16) -> bool,
    ) -> u32 {
        let mut probes = 0;
        for tenth in tenths {
            let now = Time::from_nanos(tenth * 100_000_000);
            passes(mtu, tenth);
            while mtu.timeout() <= now
                && let Some(size) = mtu.poll(now)
            {
                probes += 1;
                if takes(tenth, size) {
                    mtu.on_heard();
                    mtu.on_probed(size, now);
                }
            }
        }
        probes
    }

    /// The largest packets go there, and something comes from there.
    fn in_use(mtu: &mut PathMtu, _: u64) {
        mtu.on_sent(u64::from(mtu.size()));
        mtu.on_heard();
    }

    /// What is found on a path that takes `takes`, after `seconds`, and how many probes were sent.
    /// It hears from the other end as long as that takes anything.
    fn found(mtu: &mut PathMtu, takes: impl Fn(u64) -> u16, seconds: std::ops::Range<u64>) -> (u16, u32) {
        let hears = |path: &mut PathMtu, tenth| {
            if takes(tenth / 10) > 0 {
                path.on_heard();
            }
        };
        let arrives = |tenth, size| size <= takes(tenth / 10);
        let probes = drive(mtu, seconds.start * 10..seconds.end * 10, hears, arrives);
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
            assert!(probes <= SIZES.len() as u32 + u32::from(PROBES_MAX), "{probes}");
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
    fn a_path_that_takes_not_even_the_least_is_told_and_when_it_does_that_as_well() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        assert_eq!(found(&mut mtu, |_| 1240, 0..10).0, BASE);
        assert!(mtu.is_too_small());
        let (size, probes) = found(&mut mtu, |_| 1240, 10..100);
        assert!(mtu.is_too_small() && size == BASE);
        assert!(probes <= 6 * 6, "{probes}");
        found(&mut mtu, |_| 1280, 100..120);
        assert!(!mtu.is_too_small());
        // One that takes that and no more is none of these, nor is one of which nothing is heard, or that was never tried.
        for takes in [1280, 1420, 0] {
            let mut other = PathMtu::new(1420, Time::ZERO);
            assert!(!other.is_too_small());
            found(&mut other, |_| takes, 0..100);
            assert!(!other.is_too_small(), "{takes}");
        }
        let mut small = PathMtu::new(BASE, Time::ZERO);
        assert_eq!(found(&mut small, |_| 1500, 0..100), (BASE, 1));
        found(&mut small, |_| 1240, 100..200);
        assert!(!small.is_too_small(), "what arrived once is not tried for ever");
    }

    #[test]
    fn who_says_nothing_but_answers_is_told_from_who_does_not() {
        for (takes, found) in [(1300, BASE), (1240, BASE), (1500, 1420), (0, BASE)] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let (mut small, mut large) = (0, 0);
            let mut answers = |_, size| {
                *if size == LEAST { &mut small } else { &mut large } += 1;
                size <= takes
            };
            // A size takes 4.5 s to be missed, and the least after it as long.
            for tenths in [0..100, 100..600] {
                drive(&mut mtu, tenths, |_, _| {}, &mut answers);
                assert_eq!((mtu.size(), mtu.is_too_small()), (found, takes == 1240), "{takes}");
            }
            // Nobody is there: both go, once in two seconds each.
            assert!(
                takes > 0 || (25..=32).contains(&small) && (25..=36).contains(&large),
                "{small}, {large}"
            );
        }
    }

    #[test]
    fn what_is_in_use_is_missed_within_seconds_and_confirmed_no_more_often_than_it_has_to_be() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
        let probes = drive(&mut mtu, 1000..1500, in_use, |_, _| true);
        assert!(mtu.size() == 1420 && probes <= 50 / 3 + 2, "{probes}");
        let mut missed = None;
        let sees = |path: &mut PathMtu, tenth: u64| {
            in_use(path, tenth);
            missed = missed.or((path.size() == BASE).then_some(tenth - 1500));
        };
        drive(&mut mtu, 1500..2000, sees, |_, size| size <= 1280);
        let missed = missed.expect("a path that takes less is noticed");
        assert!((30..=66).contains(&missed), "after {missed} tenths of a second");
    }

    #[test]
    fn a_path_that_takes_less_a_second_time_is_missed_within_seconds_whatever_else_is_tried() {
        // Larger sizes are tried again 2, 4, 8 and so on seconds after the first time: the second one comes at any moment of that.
        for second_at in 1100..1700_u64 {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
            drive(&mut mtu, 1000..second_at, in_use, |_, size| size <= 1350);
            let mut missed = None;
            let sees = |path: &mut PathMtu, tenth: u64| {
                in_use(path, tenth);
                missed = missed.or((path.size() == BASE).then_some(tenth - second_at));
            };
            drive(&mut mtu, second_at..second_at + 200, sees, |_, size| size <= 1280);
            let missed = missed.expect("a path that takes less is noticed");
            assert!(missed <= 101, "after {missed} tenths of a second, when it was less at {second_at}");
        }
    }

    #[test]
    fn a_path_that_loses_one_in_ten_each_way_is_not_taken_for_smaller() {
        let mut falls = 0;
        for seed in 0..20_u64 {
            // A linear congruential generator (Knuth, MMIX).
            let mut state = seed;
            let arrives = |_, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % 100 >= 19
            };
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let mut before = mtu.size();
            let sees = |path: &mut PathMtu, tenth| {
                in_use(path, tenth);
                falls += u32::from(path.size() < before);
                before = path.size();
            };
            drive(&mut mtu, 0..36_000, sees, arrives);
        }
        // In 20 hours, of 1200 confirmations each, of which 5 in 100,000 fail.
        assert!(falls <= 4, "{falls} times");
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
                    prop_assert!((BASE..=most).contains(&sent) || sent == LEAST);
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
