//! When a control that sends at a rate lets the next segment go. A window alone sends as acknowledgments come, in bursts where those
//! do; a rate spreads the segments over the round trip.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, section 4.2.1 (`next_send_time`).
//! Deviations: time that was not used is not made up for: a segment that goes late moves those behind it.

use tidegate_units::{Span, Time};

use super::Permission;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// No segment goes before.
    next_at: Time,
}

impl Pacer {
    /// `permission`, but not before it is time.
    #[inline]
    pub fn or_wait(&self, permission: Permission, now: Time) -> Permission {
        match permission {
            Permission::Now if now < self.next_at => Permission::At(self.next_at),
            permission => permission,
        }
    }

    /// A segment of so many bytes goes out at a rate.
    #[inline]
    pub fn on_send(&mut self, bytes: u32, bytes_per_second: f64, now: Time) {
        let wait = Span::from_secs_f64(f64::from(bytes) / bytes_per_second);
        self.next_at = now.max(self.next_at).saturating_add(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_go_as_far_apart_as_the_rate_says_and_what_was_late_is_not_made_up_for() {
        let mut pacer = Pacer::default();
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        pacer.on_send(1000, 1e6, at(5));
        assert_eq!(pacer.or_wait(Permission::Now, at(5)), Permission::At(at(6)));
        assert_eq!(pacer.or_wait(Permission::No, at(5)), Permission::No, "the window comes first");
        assert_eq!(pacer.or_wait(Permission::Now, at(6)), Permission::Now);
        pacer.on_send(1000, 1e6, at(9));
        assert_eq!(pacer.or_wait(Permission::Now, at(9)), Permission::At(at(10)));
    }
}
