//! The newtypes. Arithmetic that has a physical meaning is an operator; everything else is a named function.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Nanoseconds in a second.
pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An instant: nanoseconds since the start of the run (simulator) or of the process (real-time worlds). The range is
/// 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Time {
    /// The start.
    pub const ZERO: Self = Self(0);
    /// Later than any event: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// An instant from nanoseconds since the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for reports and real-valued laws.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// The time that has passed since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This instant plus `span`; [`Time::MAX`] where that would overflow.
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This instant minus `span`; the start where that would be before it.
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// A span from microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }
    /// A span from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
    /// A span from whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * NANOS_PER_SECOND)
    }
    /// A span from real-valued seconds, rounded down to nanoseconds; negative and NaN give zero, too large gives
    /// [`Span::MAX`].
    pub fn from_secs_f64(secs: f64) -> Self {
        // `as` saturates and sends NaN to zero.
        Self((secs * NANOS_PER_SECOND as f64) as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Real-valued seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }
    /// Real-valued milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// The multiple, or the longest span.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl BitRate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);
    /// The highest rate.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate from bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }
    /// A rate from megabits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }
    /// A rate from real-valued bits per second, rounded down; negative and NaN give zero.
    pub fn from_bps_f64(bps: f64) -> Self {
        Self(bps as u64)
    }
    /// A rate from real-valued bytes per second, rounded down to whole bits; negative and NaN give zero.
    pub fn from_bytes_per_second_f64(bytes_per_second: f64) -> Self {
        Self((bytes_per_second * 8.0) as u64)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Real-valued bits per second.
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }
    /// Real-valued bytes per second.
    pub fn as_bytes_per_second_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }
    /// Whether nothing moves.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// How long `wire_bytes` take at this rate, rounded up to a nanosecond; [`Span::MAX`] at rate zero.
    pub const fn span_of(self, wire_bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let nanos = (wire_bytes as u128 * 8 * NANOS_PER_SECOND as u128).div_ceil(self.0 as u128);
        if nanos > u64::MAX as u128 { Span::MAX } else { Span(nanos as u64) }
    }
    /// How many whole bytes pass in `span`.
    pub const fn bytes_in(self, span: Span) -> Bytes {
        let bytes = self.0 as u128 * span.0 as u128 / (8 * NANOS_PER_SECOND as u128);
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
    /// The rate that moves `bytes` in `span`; [`BitRate::MAX`] when `span` is zero.
    pub const fn of(bytes: u64, span: Span) -> Self {
        if span.0 == 0 {
            return Self::MAX;
        }
        let bps = bytes as u128 * 8 * NANOS_PER_SECOND as u128 / span.0 as u128;
        Self(if bps > u64::MAX as u128 { u64::MAX } else { bps as u64 })
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// A size from bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Real-valued bytes.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0 + span.0)
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}
impl Sub<Time> for Time {
    type Output = Span;
    /// Panics (in debug builds) when `earlier` is later: use [`Time::since`] where that can happen.
    fn sub(self, earlier: Time) -> Span {
        Span(self.0 - earlier.0)
    }
}

/// Addition, subtraction and scaling of one additive quantity.
macro_rules! quantity {
    ($type:ident) => {
        impl Add for $type {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $type {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl SubAssign for $type {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $type {
            type Output = Self;
            fn mul(self, factor: u64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Div<u64> for $type {
            type Output = Self;
            fn div(self, divisor: u64) -> Self {
                Self(self.0 / divisor)
            }
        }
        impl Sum for $type {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
quantity!(Span);
quantity!(BitRate);
quantity!(Bytes);

/// Writes `value` in the largest unit of `units` (descending) in which it is exact to three decimals, so that the text
/// reads back as the same value.
fn write_exact(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    for &(size, name) in units {
        let milli = size / 1000;
        if value >= size && milli > 0 && value.is_multiple_of(milli) {
            let (whole, thousandths) = (value / size, value % size / milli);
            return match thousandths {
                0 => write!(f, "{whole}{name}"),
                t if t % 100 == 0 => write!(f, "{whole}.{}{name}", t / 100),
                t if t % 10 == 0 => write!(f, "{whole}.{:02}{name}", t / 10),
                t => write!(f, "{whole}.{t:03}{name}"),
            };
        }
    }
    let (_, smallest) = units[units.len() - 1];
    write!(f, "{value}{smallest}")
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        write_exact(f, self.0, &[(NANOS_PER_SECOND, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX { f.write_str("never") } else { fmt::Display::fmt(&Span(self.0), f) }
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "kbit"), (1, "bit")])
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_is_exact_and_short() {
        assert_eq!(Span::from_millis(10).to_string(), "10ms");
        assert_eq!(Span::from_micros(1_500).to_string(), "1.5ms");
        assert_eq!(Span::from_nanos(1_234_567_891).to_string(), "1234567.891us");
        assert_eq!(BitRate::from_bps(1_500_000).to_string(), "1.5Mbit");
        assert_eq!(BitRate::from_bps(1).to_string(), "1bit");
        assert_eq!(Bytes::new(32_000).to_string(), "32kB");
        assert_eq!(Time::MAX.to_string(), "never");
    }

    #[test]
    fn a_rate_times_a_span_is_a_size_without_overflow() {
        let rate = BitRate::from_mbps(400_000);
        assert_eq!(rate.bytes_in(Span::from_secs(100)).get(), 5_000_000_000_000);
        assert_eq!(rate.span_of(1500), Span::from_nanos(30));
        assert_eq!(BitRate::ZERO.span_of(1), Span::MAX);
        assert_eq!(BitRate::of(1000, Span::from_millis(1)), BitRate::from_mbps(8));
    }

    #[test]
    fn real_valued_input_saturates_and_never_panics() {
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(1e30), Span::MAX);
        assert_eq!(BitRate::from_bps_f64(-5.0), BitRate::ZERO);
    }
}
