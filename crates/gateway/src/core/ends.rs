//! Both ends of a way outside, and from which of our own addresses a site is answered.
//!
//! Who speaks to one of several addresses of this machine expects the answer from there: a translator or firewall before it
//! knows no other. So a site is answered from where it reached us last, as WireGuard of the Linux kernel does it. That ends where
//! packets from that address would leave by another device than the one by which they came, for then the provider there
//! drops them as forged; and where what is sent from there stays without an answer, since the way may be gone. Then the kernel chooses.
//!
//! Nothing else depends on the near end: where a site is, and what is known of the path, is a matter of the far one.

use std::net::{IpAddr, SocketAddr};

use tidegate_units::{Span, Time};

/// So long what is sent may stay without any answer. WireGuard answers what comes within 10 s, and doubts a session after
/// 15 (NDSS 2017, sections 6.1 and 6.5).
const PATIENCE: Span = Span::from_secs(15);

/// An address of this machine, and the device by which what was sent to it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Near {
    /// The address.
    pub address: IpAddr,
    /// The number of the device.
    pub interface: u32,
}

/// Where a datagram comes from and where it came to, or the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The other gateway's.
    pub far: SocketAddr,
    /// Our own; `None` if there is but one, or the kernel is to choose.
    pub near: Option<Near>,
}

impl From<SocketAddr> for Ends {
    fn from(far: SocketAddr) -> Self {
        Self { far, near: None }
    }
}

/// From where a site is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Home {
    heard: Option<Near>,
    /// Packets from there leave by another device.
    is_elsewhere: bool,
    /// Since when nothing was heard of what was sent from there.
    unanswered_since: Option<Time>,
}

impl Home {
    /// Where the site reached us last.
    pub const fn heard(&self) -> Option<Near> {
        self.heard
    }

    /// From where it is answered; `None` where the kernel chooses.
    pub fn near(&self) -> Option<Near> {
        self.heard.filter(|_| !self.is_elsewhere)
    }

    /// The site, which has proved who it is, reached us at `near`.
    pub fn on_heard(&mut self, near: Option<Near>) {
        if self.heard != near {
            *self = Self { heard: near, ..Self::default() };
        }
        self.unanswered_since = None;
    }

    /// Something went to the site that it will answer.
    pub fn on_sent(&mut self, now: Time) {
        if self.heard.is_some() && now.since(*self.unanswered_since.get_or_insert(now)) >= PATIENCE {
            self.forget();
        }
    }

    /// The way may be gone: the kernel chooses until the site is heard again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Packets from `near` would leave by another device than the one by which they came, or do not: as somebody says who knows
    /// the routes.
    pub fn on_routes(&mut self, near: Near, is_elsewhere: bool) {
        if self.heard == Some(near) {
            self.is_elsewhere = is_elsewhere;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(last: u8) -> Near {
        Near { address: IpAddr::from([192, 0, 2, last]), interface: u32::from(last) }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn a_site_is_answered_from_where_it_reached_us_last() {
        let mut home = Home::default();
        assert_eq!(home.near(), None);
        for last in [1, 2, 2, 1] {
            home.on_heard(Some(near(last)));
            assert_eq!((home.near(), home.heard()), (Some(near(last)), Some(near(last))));
        }
        home.on_heard(None);
        assert_eq!(home.near(), None);
    }

    #[test]
    fn not_where_packets_would_leave_by_another_device() {
        let mut home = Home::default();
        home.on_heard(Some(near(1)));
        home.on_routes(near(2), true);
        assert_eq!(home.near(), Some(near(1)), "that was said of another address");
        home.on_routes(near(1), true);
        home.on_heard(Some(near(1)));
        assert_eq!((home.near(), home.heard()), (None, Some(near(1))));
        home.on_heard(Some(near(2)));
        home.on_heard(Some(near(1)));
        assert_eq!(home.near(), Some(near(1)), "of which nothing was said since");
        home.on_routes(near(1), true);
        home.on_routes(near(1), false);
        assert_eq!(home.near(), Some(near(1)));
    }

    #[test]
    fn what_stays_without_an_answer_lets_the_kernel_choose_again() {
        let mut home = Home::default();
        home.on_heard(Some(near(1)));
        home.on_sent(at(100));
        home.on_sent(at(114));
        assert_eq!(home.near(), Some(near(1)));
        home.on_heard(Some(near(1)));
        home.on_sent(at(116));
        home.on_sent(at(130));
        assert_eq!(home.near(), Some(near(1)), "it was heard meanwhile");
        home.on_sent(at(131));
        assert_eq!((home.near(), home.heard()), (None, None));
        home.on_sent(at(200));
        home.on_heard(Some(near(1)));
        home.on_sent(at(201));
        assert_eq!(home.near(), Some(near(1)));
    }
}
