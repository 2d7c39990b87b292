//! The largest packet that a path takes, found by trying.
//!
//! Source: RFC 8899 (packetization layer path MTU discovery for datagrams), section 5: base, search, complete, error.
//! Deviations: sizes to try are a short list and not a search. A probe that is not answered is sent again together with a small one, which
//! every path takes that takes anything: only where the small one is answered and the other is not, size may be why, and where that is so
//! six times it is. So neither a path that loses one datagram in ten nor one that is cut for a while is taken for smaller. [`BASE`] is
//! tried where nothing larger arrives, and what does not even take that is told ([`PathMtu::takes_base`]), for packets are not made
//! smaller. What arrived before is tried again within seconds; what is in use is confirmed more often than what is not, and before larger
//! sizes are tried, for a path that takes less than it did swallows all of that. What routers say of sizes (ICMP) is not listened to:
//! anybody may say it.

use tidegate_units::{Span, Time};

/// What every path takes (RFC 8200, section 5): IPv6 outside is then cut by nobody.
pub const BASE: u16 = 1280;
/// Sizes that are tried besides the largest: all multiples of 16, to which packets are padded. 1408 is what is left of 1492 (PPPoE) and of
/// 1500 over IPv6, 1424 of 1492 and 1440 of 1500 over IPv4.
const SIZES: [u16; 7] = [1312, 1344, 1376, 1392, 1408, 1424, 1440];
/// The smallest probe: the answer says that the path takes something, and the other end is there. By its size it has one of so many
/// numbers, twice: even ones have the size that is tried beside them.
const LEAST: u16 = (super::envelope::HEADER_BYTES + super::envelope::ENVELOPE_BYTES) as u16;
const NUMBERS: u8 = 64;
const SMALL: std::ops::Range<u16> = LEAST..LEAST + 2 * NUMBERS as u16;
/// A probe that is not answered is sent again after this time (`PROBE_TIMER`: RFC 8899 has 15 s, for protocols without an idea of the round
/// trip). Answers may come later than that.
const REPEAT_TIMER: Span = Span::from_millis(500);
/// So often a small probe is answered and the one beside it is not, before its size is given up (`MAX_PROBES`: RFC 8899 has 3). Where each
/// way loses one in ten, that is so for 2 sizes in 100,000 that the path takes.
const MISSES_MAX: u32 = 6;
/// Where so many are not answered, small or not, it is asked by small ones alone whether somebody is there, once in this time.
const SLOTS_MAX: u8 = 6;
const ASK_TIMER: Span = Span::from_secs(1);
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
    /// What is being tried; the number of the next small probe.
    trying: Option<Try>,
    small: u8,
    /// When something was last found out, and when to try again; when a probe last arrived that was no small one.
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

/// A size that is being tried: slot after slot, until a probe of it is answered or enough are missed.
#[derive(Clone, Copy, Debug)]
struct Try {
    size: u16,
    slots: u8,
    /// When this slot ends.
    next: Time,
    /// The size is still to be sent in this slot, after the small one.
    owes: bool,
    /// A small one was answered in this slot.
    is_there: bool,
    /// The number of the next small one, how many of those before are of this try, and a bit for each that was answered and had the size
    /// beside it.
    number: u8,
    small: u8,
    misses: u64,
}

impl Try {
    /// The first slot has the size alone, for it is answered as a rule.
    const fn new(size: u16, number: u8, now: Time) -> Self {
        let next = now.saturating_add(REPEAT_TIMER);
        Self { size, slots: 1, next, owes: false, is_there: false, number, small: 0, misses: 0 }
    }

    /// What is to be sent, if anything: of a size that is not missed.
    fn poll(&mut self, now: Time) -> Option<u16> {
        if self.owes {
            self.owes = false;
            return Some(self.size);
        }
        if self.next > now {
            return None;
        }
        let is_paired = self.is_there || self.slots < SLOTS_MAX;
        let probe = LEAST + 2 * u16::from(self.number) + u16::from(!is_paired);
        self.misses &= !(1 << self.number);
        self.number = (self.number + 1) % NUMBERS;
        self.next = now + if is_paired { REPEAT_TIMER } else { ASK_TIMER };
        self.slots = self.slots.saturating_add(1);
        self.small = (self.small + 1).min(NUMBERS);
        (self.owes, self.is_there) = (is_paired, false);
        Some(probe)
    }

    /// A small probe of `size` was answered, which may be one of a try before.
    fn on_small(&mut self, size: u16) {
        let (number, is_paired) = ((size - LEAST) / 2, (size - LEAST).is_multiple_of(2));
        let before = (u16::from(self.number + NUMBERS) - 1 - number) % u16::from(NUMBERS);
        if before < u16::from(self.small) {
            self.is_there = true;
            self.misses |= u64::from(is_paired) << number;
        }
    }

    /// Whether the size is why it is not answered. What was sent beside a small one is answered at once after that, so that it is asked
    /// when the slot is over.
    const fn is_missed(&self) -> bool {
        self.misses.count_ones() >= MISSES_MAX
    }

    /// When to come back for [`Self::poll`].
    const fn timeout(&self) -> Time {
        if self.owes { Time::ZERO } else { self.next }
    }
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
            small: 0,
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

    /// Whether [`BASE`] arrives, which every path takes that IPv6 may go; none before that is known. Else what is larger than the path takes
    /// is lost.
    pub const fn takes_base(&self) -> Option<bool> {
        self.takes_base
    }

    /// The other end takes no more than `most`.
    pub fn limit(&mut self, most: u16) {
        self.there = most.max(BASE);
        self.confirmed = self.confirmed.min(self.most());
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
            let Try { size, next, owes, .. } = *trying;
            if owes || next > now || !trying.is_missed() {
                return trying.poll(now);
            }
            self.on_missed(size, now);
        }
        if now < self.next {
            return None;
        }
        let larger = SIZES
            .iter()
            .copied()
            .chain([self.most()])
            .filter(|&size| size > self.confirmed && size <= self.most());
        let larger = if now >= self.raise { larger.min() } else { None };
        let silent = now.since(self.arrived);
        let in_use = (self.confirmed > BASE).then_some(self.confirmed);
        let is_base_due = self.takes_base != Some(true) || silent >= RAISE_TIMER;
        (self.tried, self.next) = (now, self.after(now));
        let size = in_use.filter(|_| silent >= CONFIRMATION_IN_USE).or(larger).or(in_use);
        let size = size.or(is_base_due.then_some(self.confirmed))?;
        self.trying = Some(Try::new(size, self.small, now));
        Some(size)
    }

    fn on_missed(&mut self, size: u16, now: Time) {
        // What is in use has not been confirmed meanwhile.
        self.end_try(now);
        self.next = now;
        if size > self.known {
            self.raise = now + RAISE_TIMER;
        } else if size <= BASE {
            self.takes_base = Some(false);
            self.next = (now + CONFIRMATION_TIMER).min(self.raise.max(now + AGAIN));
        } else {
            if size <= self.confirmed {
                // What arrived before arrives no more: a black hole.
                (self.confirmed, self.takes_base, self.again) = (BASE.min(self.most()), None, AGAIN);
            }
            self.raise = now + self.again;
            self.again = Span::from_nanos(2 * self.again.as_nanos()).min(RAISE_TIMER);
        }
    }

    /// A probe of `size` arrived.
    pub fn on_probed(&mut self, size: u16, now: Time) {
        if size >= BASE {
            if self.takes_base == Some(false) {
                // Whatever was in between is gone: perhaps it takes more as well.
                self.raise = now;
            }
            // Also where the answer is so late that another size is tried by now.
            self.takes_base = Some(true);
        }
        let Some(trying) = &mut self.trying else { return };
        if size == trying.size {
            self.confirmed = self.confirmed.max(size).min(self.most());
            self.known = self.known.max(self.confirmed);
            if self.confirmed >= self.known.min(self.most()) {
                self.again = AGAIN;
            }
            self.end_try(now);
            (self.arrived, self.next) = (now, self.after(now));
        } else if SMALL.contains(&size) {
            trying.on_small(size);
        }
    }

    /// What is being tried is known by now. Its small probes may still be answered, which says nothing of the next try.
    fn end_try(&mut self, now: Time) {
        if let Some(trying) = self.trying.take() {
            self.small = trying.number;
        }
        self.tried = now;
    }

    /// When there is something to try next: larger sizes as soon as they may be, else what is in use.
    fn after(&self, now: Time) -> Time {
        let confirmation = now + CONFIRMATION_TIMER;
        if self.confirmed < self.most() { self.raise.max(now).min(confirmation) } else { confirmation }
    }

    /// The path is another one.
    pub fn restart(&mut self, now: Time) {
        self.end_try(now);
        *self = Self { there: self.there, small: self.small, ..Self::new(self.here, now) };
        self.confirmed = self.confirmed.min(self.most());
    }

    /// When to come back for [`Self::poll`].
    pub fn timeout(&self) -> Time {
        self.trying.map_or(self.next, |trying| trying.timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For these tenths of seconds, in each of which `passes` says first what else passes; `takes` says of probes whether they
    /// arrive and are answered. How many there were that are not small.
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
                probes += u32::from(!SMALL.contains(&size));
                if takes(tenth, size) {
                    mtu.on_probed(size, now);
                }
            }
        }
        probes
    }

    /// The largest packets go there.
    fn in_use(mtu: &mut PathMtu, _: u64) {
        mtu.on_sent(u64::from(mtu.size()));
    }

    /// What is found on a path that takes `takes`, after `seconds`, and how many probes were sent.
    fn found(mtu: &mut PathMtu, takes: impl Fn(u64) -> u16, seconds: std::ops::Range<u64>) -> (u16, u32) {
        let arrives = |tenth, size| size <= takes(tenth / 10);
        let probes = drive(mtu, seconds.start * 10..seconds.end * 10, |_, _| {}, arrives);
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
            assert!(probes <= SIZES.len() as u32 + MISSES_MAX + 2, "{probes}");
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
        assert_eq!((found(&mut mtu, |_| 1240, 0..8).0, mtu.takes_base()), (BASE, Some(false)));
        let (size, probes) = found(&mut mtu, |_| 1240, 8..100);
        assert_eq!((size, mtu.takes_base()), (BASE, Some(false)));
        assert!(probes <= 6 * 7, "{probes}");
        // Somebody has looked at it.
        assert_eq!((found(&mut mtu, |_| 1500, 100..117).0, mtu.takes_base()), (1420, Some(true)));
        // One that takes that and no more is none of these, nor is one of which nothing is heard.
        for (takes, told) in [(1280, Some(true)), (1420, Some(true)), (0, None)] {
            let mut other = PathMtu::new(1420, Time::ZERO);
            assert_eq!(other.takes_base(), None);
            found(&mut other, |_| takes, 0..100);
            assert_eq!(other.takes_base(), told, "{takes}");
        }
    }

    #[test]
    fn a_path_that_took_the_least_and_does_so_no_more_is_told() {
        // By its largest, before, and for whom; what nothing large goes over is looked at every ten minutes.
        for (before, most, seconds) in [(1500, 1420, 20), (1290, 1420, 640), (1500, 1280, 640)] {
            let mut mtu = PathMtu::new(most, Time::ZERO);
            found(&mut mtu, |_| before, 0..100);
            assert_eq!(mtu.takes_base(), Some(true));
            found(&mut mtu, |_| 1240, 100..100 + seconds);
            assert_eq!((mtu.size(), mtu.takes_base()), (BASE, Some(false)), "{before} {most}");
        }
    }

    #[test]
    fn who_is_not_there_is_asked_once_in_a_second() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        let mut small = 0;
        let large = drive(
            &mut mtu,
            0..600,
            |_, _| {},
            |_, size| {
                small += u32::from(SMALL.contains(&size));
                false
            },
        );
        assert_eq!(large, u32::from(SLOTS_MAX));
        assert!((57..=63).contains(&small), "{small}");
        // Who comes back is tried at once.
        assert_eq!(found(&mut mtu, |_| 1500, 60..63).0, 1420);
    }

    #[test]
    fn who_was_not_there_for_long_and_takes_less_then_is_known_within_seconds() {
        for seconds in [5, 60, 70, 130, 500] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
            assert_eq!(found(&mut mtu, |_| 0, 100..120 + seconds).0, 1420);
            assert_eq!(found(&mut mtu, |_| 1300, 120 + seconds..127 + seconds).0, BASE, "{seconds}");
        }
    }

    #[test]
    fn answers_that_come_seconds_later_are_answers() {
        for late in [0, 3, 8, 17, 40] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let mut coming = std::collections::VecDeque::new();
            let mut least = u16::MAX;
            for tenth in 0..6000_u64 {
                let now = Time::from_nanos(tenth * 100_000_000);
                in_use(&mut mtu, tenth);
                while coming.front().is_some_and(|&(at, _)| at <= tenth) {
                    mtu.on_probed(coming.pop_front().map_or(0, |(_, size)| size), now);
                }
                while mtu.timeout() <= now
                    && let Some(size) = mtu.poll(now)
                {
                    coming.push_back((tenth + late, size));
                }
                if tenth > 600 {
                    least = least.min(mtu.size());
                }
            }
            assert_eq!((least, mtu.takes_base()), (1420, Some(true)), "{late}");
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
    fn a_path_that_takes_nothing_for_a_while_is_not_taken_for_smaller() {
        for tenths in (3..300).step_by(7) {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
            let mut least = u16::MAX;
            let sees = |path: &mut PathMtu, tenth: u64| {
                in_use(path, tenth);
                least = least.min(path.size());
            };
            // Also where what comes from there comes: it is no answer to what did not arrive.
            drive(&mut mtu, 1000..2000, sees, |tenth, _| !(1000..1000 + tenths).contains(&tenth));
            assert_eq!((least, mtu.takes_base()), (1420, Some(true)), "{tenths} tenths of a second");
        }
    }

    #[test]
    fn a_cut_in_the_first_search_costs_no_size() {
        for begin in 0..30 {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            // Its largest is 1376 as long as it takes nothing else, and it does that at once afterwards.
            drive(&mut mtu, 0..600, |_, _| {}, |tenth, _| !(begin..begin + 100).contains(&tenth));
            assert_eq!((mtu.size(), mtu.takes_base()), (1420, Some(true)), "{begin}");
        }
    }

    #[test]
    fn who_takes_less_than_before_itself_is_found_again_as_fast() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
        mtu.limit(1400);
        for dip in 0..8 {
            let at = 100 + dip * 600;
            assert_eq!(
                found(&mut mtu, |second| if second < at + 30 { 1280 } else { 1500 }, at..at + 30).0,
                BASE
            );
            assert_eq!(found(&mut mtu, |_| 1500, at + 30..at + 600).0, 1400, "{dip}");
        }
    }

    #[test]
    fn what_a_path_takes_that_takes_less_again_is_found_within_seconds() {
        for later in [100, 400, 1500] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            assert_eq!(found(&mut mtu, |_| 1500, 0..100).0, 1420);
            drive(&mut mtu, 1000..1000 + 10 * later, in_use, |_, size| size <= 1350);
            assert_eq!(mtu.size(), 1344);
            drive(&mut mtu, 1000 + 10 * later..1150 + 10 * later, in_use, |_, size| size <= 1320);
            assert_eq!(mtu.size(), 1312, "{later}");
        }
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
                    prop_assert!((BASE..=most).contains(&sent) || SMALL.contains(&sent));
                    if echoes {
                        mtu.on_probed(sent, now);
                    }
                }
                mtu.on_probed(size, now);
                mtu.on_sent(u64::from(size));
                prop_assert!((BASE..=most).contains(&mtu.size()));
                // It comes to rest: there is something to wait for.
                let rests = (0..20).any(|_| mtu.poll(now).is_none());
                prop_assert!(rests && mtu.timeout() > now);
            }
        }
    }
}
