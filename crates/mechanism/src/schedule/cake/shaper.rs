//! The clocks of CAKE's shaper: when the next packet may go, by what the packets before it took of the link.
//!
//! Source: Linux, `sch_cake.c` (`cake_advance_shaper`, `cake_calc_overhead`).
//! Deviations:
//! - Times are exact to the nanosecond, rounded down; Linux multiplies by a rate of 34 bits.

use tidegate_units::{BitRate, Span, Time};

use super::config::{CakeConfig, Framing};

/// No tin is slower.
const LEAST_RATE_BPS: u64 = 512;

/// What `bytes` take at `rate`; no time without a shaper.
pub(super) const fn duration(bytes: u64, rate: Option<BitRate>) -> Span {
    let Some(rate) = rate else { return Span::ZERO };
    let bps = if rate.as_bps() > LEAST_RATE_BPS { rate.as_bps() } else { LEAST_RATE_BPS };
    // Whatever a packet takes fits in 64 bits, which one instruction divides; 128 take a function.
    match bytes.checked_mul(8_000_000_000) {
        Some(bits) => Span::from_nanos(bits / bps),
        None => Span::from_nanos((bytes as u128 * 8_000_000_000 / bps as u128) as u64),
    }
}

/// How many bytes of the link a packet takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accounting {
    overhead: i64,
    mpu: i64,
    framing: Framing,
}

impl Accounting {
    pub(super) fn new(config: &CakeConfig) -> Self {
        Self { overhead: config.overhead, mpu: i64::from(config.mpu), framing: config.framing }
    }

    /// A packet of so many bytes (`cake_calc_overhead`).
    #[inline]
    pub(super) fn adjusted(self, wire_bytes: u32) -> u64 {
        let bytes = (i64::from(wire_bytes) + self.overhead).max(self.mpu).max(0) as u64;
        match self.framing {
            Framing::None => bytes,
            Framing::Atm => bytes.div_ceil(48) * 53,
            Framing::Ptm => bytes + bytes.div_ceil(64),
        }
    }
}

/// The clocks of the whole. Those of tins are with them.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    pub(super) rate: Option<BitRate>,
    /// When the next packet may go.
    time_next: Time,
    /// When it may in any case: without what was dropped, at two thirds of the rate.
    failsafe_next: Time,
}

impl Shaper {
    pub(super) const fn new(rate: Option<BitRate>) -> Self {
        Self { rate, time_next: Time::ZERO, failsafe_next: Time::ZERO }
    }

    /// Whether a packet that waits may go.
    #[inline]
    pub(super) fn is_ready(&self, now: Time) -> bool {
        self.rate.is_none() || self.time_next.min(self.failsafe_next) <= now
    }

    /// When a packet that waits may go.
    #[inline]
    pub(super) fn ready_at(&self, now: Time) -> Time {
        if self.rate.is_none() { now } else { now.max(self.time_next.min(self.failsafe_next)) }
    }

    /// The first packet arrives after a pause, of which nothing is made up for.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        if self.time_next < now {
            (self.time_next, self.failsafe_next) = (now, now);
        }
    }

    /// A packet uses `adjusted` bytes of the link; one that was dropped (`is_sent` is false) none of the second clock.
    #[inline]
    pub(super) fn advance(&mut self, adjusted: u64, is_sent: bool) {
        let time = duration(adjusted, self.rate);
        // Drops of a flood that count as sent take the clock centuries ahead.
        self.time_next = self.time_next.saturating_add(time);
        if is_sent {
            let half = Span::from_nanos(time.as_nanos() / 2);
            self.failsafe_next = self.failsafe_next.saturating_add(time).saturating_add(half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjusted(overhead: i64, mpu: u32, framing: Framing, bytes: u32) -> u64 {
        Accounting::new(&CakeConfig { overhead, mpu, framing, ..CakeConfig::default() }).adjusted(bytes)
    }

    /// Cells of 53 bytes carry 48; Ethernet has 38 bytes around a packet, and a least packet of 84 with them.
    #[test]
    fn packets_take_what_the_link_adds() {
        assert_eq!(adjusted(0, 0, Framing::None, 1500), 1500);
        assert_eq!(adjusted(38, 84, Framing::None, 40), 84);
        assert_eq!(adjusted(38, 84, Framing::None, 1500), 1538);
        assert_eq!(adjusted(44, 0, Framing::Atm, 1500), 33 * 53);
        assert_eq!(adjusted(8, 0, Framing::Atm, 40), 53);
        assert_eq!(adjusted(9, 0, Framing::Atm, 40), 2 * 53);
        assert_eq!(adjusted(0, 0, Framing::Ptm, 1500), 1524);
        assert_eq!(adjusted(-64, 0, Framing::None, 40), 0);
    }

    #[test]
    fn times_are_rounded_down_however_many_bytes_there_are() {
        let rate = Some(BitRate::from_bps(3_000_000_000));
        // The last number whose bits, in parts of a nanosecond, fit in 64 bits, and the first of which they do not.
        let fits = u64::MAX / 8_000_000_000;
        for bytes in [0, 1, 1500, fits, fits + 1, 3 * fits] {
            assert_eq!(duration(bytes, rate), Span::from_nanos(bytes * 8 / 3), "{bytes}");
        }
        assert_eq!(duration(1500, None), Span::ZERO);
        assert_eq!(duration(1, Some(BitRate::from_bps(1))), Span::from_nanos(15_625_000), "at 512 b/s");
    }

    #[test]
    fn packets_go_at_the_rate_and_dropped_ones_use_it_too() {
        let at = Time::from_nanos;
        let mut shaper = Shaper::new(Some(BitRate::from_mbps(8)));
        shaper.begin(at(5_000));
        shaper.advance(1000, true);
        assert_eq!(shaper.ready_at(at(5_000)), at(1_005_000));
        shaper.advance(1000, false);
        assert_eq!(shaper.ready_at(at(5_000)), at(1_505_000), "the second clock knows nothing of drops");
        assert_eq!(Shaper::new(None).ready_at(at(7)), at(7));
    }

    #[test]
    fn a_flood_of_drops_takes_the_clock_to_the_end_of_time_and_not_around_it() {
        let mut shaper = Shaper::new(Some(BitRate::from_bps(512)));
        shaper.begin(Time::from_nanos(1));
        (0..3).for_each(|_| shaper.advance(u64::MAX / 2, false));
        assert_eq!(shaper.time_next, Time::MAX);
        assert_eq!(
            shaper.ready_at(Time::from_nanos(1)),
            Time::from_nanos(1),
            "what is sent goes by the second clock"
        );
        (0..3).for_each(|_| shaper.advance(u64::MAX / 2, true));
        assert_eq!(shaper.ready_at(Time::from_nanos(1)), Time::MAX);
    }
}
