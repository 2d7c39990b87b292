//! When may it go?

mod bank;
mod leaky_bucket;
mod token_bucket;
mod tokens;

pub use bank::{ShaperBank, ShaperConfig};
pub use leaky_bucket::{LeakyBucket, LeakyBucketConfig};
pub use token_bucket::{TokenBucket, TokenBucketConfig};
pub(crate) use tokens::Tokens;

use tidegate_units::{BitRate, Time};

/// Holds traffic to a rate that may change at any time. Holds no packets: the world asks when the packet at the head of
/// its queue may go.
pub trait Shaper {
    /// From `now` on, traffic leaves at `rate`.
    fn set_rate(&mut self, rate: BitRate, now: Time);
    /// When a packet of `wire_bytes` may go if nothing else leaves before: `now` or later; [`Time::MAX`] for never at the
    /// present rate.
    fn release_at(&self, wire_bytes: u32, now: Time) -> Time;
    /// A packet of `wire_bytes` leaves.
    fn on_departure(&mut self, wire_bytes: u32, now: Time);
}

/// Work in bit/s times nanoseconds, so that "rate times time" is an integer: a byte is 8e9 of them, and an `i64` holds
/// 1.15 GB.
const WORK_PER_BYTE: i64 = 8_000_000_000;

/// `wire_bytes` as work; beyond half a gigabyte, that much.
pub(crate) const fn work_of(wire_bytes: u64) -> i64 {
    let most = (i64::MAX / WORK_PER_BYTE / 2).cast_unsigned();
    let counted = if wire_bytes > most { most } else { wire_bytes };
    counted.cast_signed() * WORK_PER_BYTE
}
