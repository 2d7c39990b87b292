//! How long packets occupy a link and how far apart they are, exactly over any horizon.

use crate::types::NANOS_PER_SECOND;
use crate::{BitRate, Span};

/// Turns packet sizes into serialisation times at one rate and carries the remainder of a nanosecond from packet to
/// packet, so that a busy link moves exactly its rate however long it stays busy.
///
/// The last size is remembered: traffic comes in few sizes, and the division (some 20 cycles) then falls away.
#[derive(Clone, Copy, Debug)]
pub struct TransmissionClock {
    rate: BitRate,
    /// Part of a nanosecond owed by the packets before, in units of 1/rate nanoseconds.
    remainder: u64,
    cached_remainder: u64,
    /// Below four seconds and some; what takes longer is not remembered.
    cached_nanos: u32,
    cached_bytes: u32,
}

impl TransmissionClock {
    /// A clock at `rate`, which must not be zero.
    pub fn new(rate: BitRate) -> Self {
        assert!(!rate.is_zero(), "a link that never moves a bit has no transmission clock");
        Self { rate, remainder: 0, cached_remainder: 0, cached_nanos: 0, cached_bytes: 0 }
    }

    /// The rate.
    pub const fn rate(&self) -> BitRate {
        self.rate
    }

    /// How long the next packet of `wire_bytes` occupies the link.
    #[inline]
    pub fn transmit(&mut self, wire_bytes: u32) -> Span {
        if wire_bytes != self.cached_bytes {
            return self.transmit_anew(wire_bytes);
        }
        let carry = self.owe(self.cached_remainder);
        Span::from_nanos(u64::from(self.cached_nanos) + u64::from(carry))
    }

    /// The same of a size that is not remembered.
    #[inline(never)]
    fn transmit_anew(&mut self, wire_bytes: u32) -> Span {
        // 2^32 bytes * 8e9 would pass 2^64: sizes of packets stay far below 2^31.
        debug_assert!(wire_bytes < 1 << 31);
        let work = u64::from(wire_bytes) * 8 * NANOS_PER_SECOND;
        let (nanos, remainder) = (work / self.rate.as_bps(), work % self.rate.as_bps());
        if let Ok(remembered) = u32::try_from(nanos) {
            (self.cached_bytes, self.cached_nanos, self.cached_remainder) =
                (wire_bytes, remembered, remainder);
        }
        Span::from_nanos(nanos + u64::from(self.owe(remainder)))
    }

    /// So much more of a nanosecond is owed; whether that makes a whole one.
    #[inline]
    const fn owe(&mut self, remainder: u64) -> bool {
        // Both parts are below the rate, so one subtraction restores the invariant.
        self.remainder += remainder;
        let carry = self.remainder >= self.rate.as_bps();
        if carry {
            self.remainder -= self.rate.as_bps();
        }
        carry
    }

    /// Forgets the remainder: the link was idle, and the next packet starts at a whole nanosecond.
    #[inline]
    pub const fn restart(&mut self) {
        self.remainder = 0;
    }
}

/// Turns real-valued distances in time into spans and carries the part of a nanosecond that is left from one to the next, so
/// that events on average come at their rate, also where they are nanoseconds apart or less.
#[derive(Clone, Copy, Debug, Default)]
pub struct GapClock {
    /// Part of a nanosecond that the gaps before left.
    remainder: f64,
}

impl GapClock {
    /// The next gap, of `secs`; negative and NaN give what was left, too large gives [`Span::MAX`].
    #[inline]
    pub fn gap(&mut self, secs: f64) -> Span {
        // `max` turns NaN to zero, and `as` saturates.
        let nanos = (secs * NANOS_PER_SECOND as f64).max(0.0) + self.remainder;
        let whole = nanos as u64;
        self.remainder = (nanos - whole as f64).min(1.0);
        Span::from_nanos(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_below_a_nanosecond_are_not_lost() {
        let mut gaps = GapClock::default();
        let total: u64 = (0..1_000_000).map(|_| gaps.gap(0.3e-9).as_nanos()).sum();
        assert!(total.abs_diff(300_000) <= 1, "{total}");
        assert_eq!(GapClock::default().gap(1.7e-9), Span::from_nanos(1), "the first is rounded down");
    }

    #[test]
    fn gaps_that_are_no_lengths_saturate() {
        let mut gaps = GapClock::default();
        for secs in [f64::NAN, -1.0, f64::NEG_INFINITY, f64::INFINITY, 1e300, f64::NAN, 1e-9] {
            let gap = gaps.gap(secs);
            let nanos = (secs * 1e9).max(0.0) as u64;
            assert!(gap.as_nanos().abs_diff(nanos) <= 1, "{secs} s gave {gap}");
        }
    }

    #[test]
    fn a_busy_link_moves_exactly_its_rate() {
        // 3 bit/s does not divide a nanosecond: naive truncation would drift by a third of a nanosecond per packet.
        let mut clock = TransmissionClock::new(BitRate::from_bps(3_000_000_007));
        let packets = 3_000_000_007u64 / 8 / 1_000;
        let mut total = Span::ZERO;
        for _ in 0..packets {
            total += clock.transmit(1_000);
        }
        let exact = BitRate::from_bps(3_000_000_007).span_of(packets * 1_000);
        assert!(exact.as_nanos() - total.as_nanos() <= 1, "{total} against {exact}");
    }
}
