//! When a control that sends at a rate lets the next segment go. A window alone sends as acknowledgments come, in bursts where those
//! do; a rate spreads the segments over the round trip.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, section 4.2.1 (`next_send_time`).
//! Deviations: time that was not used is not made up for: a segment that goes late moves those behind it. Linux makes up for half of
//! it (`tcp_update_skb_after_send`), and so does who asks for that.

use tidegate_units::{Span, Time};

use super::Permission;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// No segment goes before.
    next_at: Time,
    /// By how much the last one went later than it could have, or the first of those that went with it, less what was made up for.
    late: Span,
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

    /// The same; if it goes late, the next may go sooner by as much, but no more than half of what this one takes.
    #[inline]
    pub fn on_send_making_up(&mut self, bytes: u32, bytes_per_second: f64, now: Time) {
        if now >= self.next_at {
            self.late = now.since(self.next_at);
            self.next_at = now;
        }
        let wait = Span::from_secs_f64(f64::from(bytes) / bytes_per_second);
        let made_up = self.late.min(wait / 2);
        self.late = Span::from_nanos(self.late.as_nanos() - made_up.as_nanos());
        self.next_at = self.next_at.saturating_add(Span::from_nanos(wait.as_nanos() - made_up.as_nanos()));
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

    #[test]
    fn what_was_late_is_made_up_for_by_half_of_what_goes_at_once_takes() {
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let mut pacer = Pacer::default();
        let mut goes = |micros| {
            pacer.on_send_making_up(1000, 1e6, at(micros));
            let Permission::At(next) = pacer.or_wait(Permission::Now, Time::ZERO) else { panic!("it waits") };
            next
        };
        assert_eq!(goes(5000), at(5500), "the first could have gone long before");
        assert_eq!(goes(5500), at(6500), "what goes when it may goes as the rate says");
        assert_eq!(goes(6800), at(7500), "0.3 ms late, and 0.7 ms of 1 left to wait");
        assert_eq!(goes(8500), at(9000), "1 ms late, of which half is made up for");
        assert_eq!(goes(8500), at(9500), "one that goes with it makes up for the other half");
        assert_eq!(goes(8500), at(10_500), "and nothing is left for a third");
    }
}
