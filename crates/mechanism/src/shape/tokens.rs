//! The bucket beneath token buckets and colour markers: integer tokens, so that a rate is exact over any time.
//!
//! Source: RFC 2697, section 3, in whole numbers. Deviations: in the shapers and markers that use it.

use tidegate_units::{BitRate, Span};

use super::work_of;

/// One bucket, in work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// Below zero after a packet that did not conform was let through.
    pub(crate) level: i64,
    pub(crate) depth: i64,
    pub(crate) rate: BitRate,
}

impl Tokens {
    /// A full bucket of `depth_bytes` that fills at `rate`.
    pub(crate) const fn full(rate: BitRate, depth_bytes: u64) -> Self {
        let depth = work_of(depth_bytes);
        Self { level: depth, depth, rate }
    }

    /// The tokens `elapsed` later.
    #[inline]
    pub(crate) fn after(&self, elapsed: Span) -> i64 {
        let earned = i128::from(self.rate.as_bps()) * i128::from(elapsed.as_nanos());
        let tokens = (i128::from(self.level) + earned).min(i128::from(self.depth));
        i64::try_from(tokens).unwrap_or(self.depth)
    }

    /// How long until the bucket holds `packet`.
    #[inline]
    pub(crate) fn wait_for(&self, packet: i64) -> Span {
        let missing = packet - self.level;
        if packet > self.depth || (missing > 0 && self.rate.is_zero()) {
            Span::MAX
        } else if missing <= 0 {
            Span::ZERO
        } else {
            Span::from_nanos((missing as u64).div_ceil(self.rate.as_bps()))
        }
    }

    /// `elapsed` passes, in which `given` tokens of another bucket's overflow come besides; what overflows here.
    pub(crate) fn fill(&mut self, elapsed: Span, given: i128) -> i128 {
        let earned = i128::from(self.rate.as_bps()) * i128::from(elapsed.as_nanos()) + given;
        let tokens = i128::from(self.level) + earned;
        self.level = i64::try_from(tokens.min(i128::from(self.depth))).unwrap_or(self.depth);
        (tokens - i128::from(self.depth)).max(0)
    }

    /// Takes the tokens of `wire_bytes` if there are enough; whether there were.
    pub(crate) fn take(&mut self, wire_bytes: u32) -> bool {
        let packet = work_of(u64::from(wire_bytes));
        let enough = packet <= self.level;
        if enough {
            self.level -= packet;
        }
        enough
    }
}
