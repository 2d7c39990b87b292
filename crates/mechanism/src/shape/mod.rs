//! When may it go?

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
