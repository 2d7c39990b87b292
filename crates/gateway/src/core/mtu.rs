//! The largest packet that a path takes, found by trying.
//!
//! Source: RFC 8899 (packetization layer path MTU discovery for datagrams), section 5: base, search, complete, error.
//! Deviations: sizes to try are a short list and not a search; a probe that is lost three times ends it.

use tidegate_units::{Span, Time};

/// What every path takes (RFC 8200, section 5): IPv6 outside is then cut by nobody.
pub const BASE: u16 = 1280;
/// Sizes that paths have: what is left of 1492 (PPPoE), 1500 and more for WireGuard over IPv6 and IPv4, and steps in between.
const SIZES: [u16; 7] = [1300, 1340, 1380, 1400, 1412, 1420, 1440];
/// A probe is lost after this time (`PROBE_TIMER`; RFC 8899 has 15 s, for protocols without an idea of the round trip), and is
/// repeated so often (`MAX_PROBES`).
const PROBE_TIMER: Span = Span::from_secs(1);
const PROBES_MAX: u8 = 3;
/// What was found is tried again after this time (`PMTU_RAISE_TIMER`), and confirmed after this (`CONFIRMATION_TIMER`).
const RAISE_TIMER: Span = Span::from_secs(600);
const CONFIRMATION_TIMER: Span = Span::from_secs(15);

/// See the module.
#[derive(Clone, Debug)]
pub struct PathMtu {
    /// What arrived.
    confirmed: u16,
    most: u16,
    /// What is being tried, how often it was sent, and when it counts as lost.
    trying: Option<(u16, u8, Option<Time>)>,
    /// When to try again.
    next: Time,
    /// Larger sizes are not to be tried before then.
    raise: Time,
}

impl PathMtu {
    /// A path that may take packets of up to `most` bytes.
    pub fn new(most: u16, now: Time) -> Self {
        Self { confirmed: BASE.min(most), most, trying: None, next: now, raise: now }
    }

    /// The largest packet that is known to arrive.
    pub const fn size(&self) -> u16 {
        self.confirmed
    }

    /// The other end takes no more than `most`.
    pub fn limit(&mut self, most: u16) {
        self.most = self.most.min(most.max(BASE));
        self.confirmed = self.confirmed.min(self.most);
    }

    /// The size of a probe to send now.
    pub fn poll(&mut self, now: Time) -> Option<u16> {
        if let Some((size, sent, lost_at)) = self.trying {
            if lost_at.is_some_and(|at| at > now) {
                return None;
            }
            if sent >= PROBES_MAX {
                self.on_lost(size, now);
                return None;
            }
            self.trying = Some((size, sent + 1, Some(now + PROBE_TIMER)));
            return Some(size);
        }
        if now < self.next {
            return None;
        }
        let larger = SIZES
            .iter()
            .copied()
            .chain([self.most])
            .filter(|&size| size > self.confirmed && size <= self.most);
        let size = if now >= self.raise { larger.min() } else { None };
        let size = size.or((self.confirmed > BASE).then_some(self.confirmed));
        self.next = now + CONFIRMATION_TIMER;
        let size = size?;
        self.trying = Some((size, 1, Some(now + PROBE_TIMER)));
        Some(size)
    }

    fn on_lost(&mut self, size: u16, now: Time) {
        self.trying = None;
        if size <= self.confirmed {
            // What arrived before arrives no more: a black hole.
            self.confirmed = BASE.min(self.most);
            self.next = now + CONFIRMATION_TIMER;
        }
        self.raise = now + RAISE_TIMER;
    }

    /// A probe of `size` arrived.
    pub fn on_probed(&mut self, size: u16, now: Time) {
        if self.trying.is_some_and(|(tried, ..)| tried == size) {
            self.confirmed = self.confirmed.max(size);
            self.trying = None;
            // On to the next size at once.
            self.next = if size < self.most && now >= self.raise { now } else { now + CONFIRMATION_TIMER };
        }
    }

    /// The path is another one.
    pub fn restart(&mut self, now: Time) {
        *self = Self::new(self.most, now);
    }

    /// When to come back for [`Self::poll`].
    pub fn timeout(&self) -> Time {
        match self.trying {
            Some((_, _, at)) => at.unwrap_or(Time::ZERO),
            None => self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is found on a path that takes `takes`, after `seconds`, and how many probes were sent.
    fn found(mtu: &mut PathMtu, takes: impl Fn(u64) -> u16, seconds: std::ops::Range<u64>) -> (u16, u32) {
        let mut probes = 0;
        for tenth in seconds.start * 10..seconds.end * 10 {
            let now = Time::from_nanos(tenth * 100_000_000);
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
        for takes in [1280, 1350, 1412, 1420, 1500] {
            let mut mtu = PathMtu::new(1420, Time::ZERO);
            let (size, probes) = found(&mut mtu, |_| takes, 0..10);
            let largest = SIZES.into_iter().filter(|&one| one <= takes.min(1420)).max().unwrap_or(BASE);
            assert_eq!(size, largest.max(BASE), "{takes}");
            assert!(probes < 12, "{probes}");
        }
    }

    #[test]
    fn a_path_that_takes_less_is_noticed_and_one_that_takes_more_again_as_well() {
        let mut mtu = PathMtu::new(1420, Time::ZERO);
        let takes = |second| if (100..200).contains(&second) { 1300 } else { 1500 };
        assert_eq!(found(&mut mtu, takes, 0..100).0, 1420);
        assert_eq!(found(&mut mtu, takes, 100..120).0, BASE);
        assert_eq!(found(&mut mtu, takes, 120..900).0, 1420);
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
                mtu.on_probed(size, now);
                prop_assert!((BASE..=most).contains(&mtu.size()));
                prop_assert!(mtu.poll(now).is_none() || mtu.timeout() > now || echoes);
            }
        }
    }
}
