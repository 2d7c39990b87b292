//! The sending end: turns reports into an allowed rate, and the rate into packets at even distances.
//!
//! Source: RFC 5348, section 4.

use tidegate_units::{BitRate, Span, Time};

use super::equation::throughput;
use super::{Data, Report, TfrcConfig};
use crate::Variable;

/// `q`: the weight of the old round-trip time (section 4.3, step 2).
const Q: f64 = 0.9;
/// `t_mbi`, seconds: at least one packet is sent in this time (section 4.3).
const T_MBI: f64 = 64.0;
/// The nofeedback timer before any round-trip time is known (section 4.2).
const FIRST_NOFEEDBACK: Span = Span::from_secs(2);
/// What remains of `X_recv` after losses in a data-limited interval (section 4.3, step 4).
const LIMITED_LOSS: f64 = 0.85;
/// Members of `X_recv_set`: in two round-trip times come at most two reports and two new losses, one more at either end.
const SET_MAX: usize = 8;

/// `X_recv_set`: what receivers reported within two round-trip times, bytes per second.
#[derive(Clone, Copy, Debug)]
struct Received {
    entries: [(f64, Time); SET_MAX],
    len: usize,
}

impl Received {
    /// One entry.
    const fn only(rate: f64, now: Time) -> Self {
        Self { entries: [(rate, now); SET_MAX], len: 1 }
    }

    fn max(&self) -> f64 {
        self.entries[..self.len].iter().fold(0.0, |most, &(rate, _)| most.max(rate))
    }

    /// "Update `X_recv_set`": adds `rate`, forgets what is older than two round-trip times.
    fn update(&mut self, rate: f64, rtt: f64, now: Time) {
        let mut kept = Self { len: 0, ..*self };
        for &(old, at) in &self.entries[..self.len] {
            if now.since(at).as_secs_f64() <= 2.0 * rtt {
                kept.push(old, at);
            }
        }
        kept.push(rate, now);
        *self = kept;
    }

    /// Adds an entry, in place of the oldest if there is no room.
    fn push(&mut self, rate: f64, at: Time) {
        if self.len == SET_MAX {
            self.entries.rotate_left(1);
            self.len -= 1;
        }
        self.entries[self.len] = (rate, at);
        self.len += 1;
    }

    /// "Maximize `X_recv_set`": the largest rate alone, as if it came now. The infinite one of the beginning goes.
    fn maximize(&mut self, rate: f64, now: Time) {
        let finite = self.entries[..self.len].iter().map(|&(old, _)| old).filter(|old| old.is_finite());
        *self = Self::only(finite.fold(rate, f64::max), now);
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TfrcSender {
    /// `X`, bytes per second.
    x: f64,
    /// `X_Bps`, what the equation gave last; infinite before the first loss.
    x_bps: f64,
    /// `R`, seconds; `None` before the first report.
    r: Option<f64>,
    p: f64,
    received: Received,
    /// `tld`: when the rate last doubled.
    tld: Time,
    nofeedback_at: Option<Time>,
    /// Whether nothing was sent since the nofeedback timer was set.
    idle: bool,
    active: bool,
    /// When the last packet went.
    sent: Option<Time>,
    sequence: u64,
    /// Bytes per second.
    max_rate: f64,
    s: f64,
    packet_bytes: u32,
}

impl TfrcSender {
    /// It sends nothing before [`Self::start`].
    pub fn new(config: &TfrcConfig) -> Self {
        let packet_bytes = config.packet_bytes();
        assert!(packet_bytes > 0, "packets have a size");
        let s = f64::from(packet_bytes);
        Self {
            // Section 4.2: one packet per second.
            x: s,
            x_bps: f64::INFINITY,
            r: None,
            p: 0.0,
            received: Received::only(f64::INFINITY, Time::ZERO),
            tld: Time::ZERO,
            nofeedback_at: None,
            idle: true,
            active: false,
            sent: None,
            sequence: 0,
            max_rate: config.max_rate.map_or(f64::INFINITY, BitRate::as_bytes_per_second_f64),
            s,
            packet_bytes,
        }
    }

    /// The application has something to send from now on.
    pub const fn start(&mut self) {
        self.active = true;
    }

    /// It has nothing to send.
    pub const fn pause(&mut self) {
        self.active = false;
    }

    /// The packet that is due now, if one is. To be asked again until there is none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Data> {
        if self.next_send()? > now {
            return None;
        }
        if self.sent.is_none() {
            // Section 4.2: the set has one member, infinity, of the instant at which the sender starts.
            self.received = Received::only(f64::INFINITY, now);
        }
        // Section 4.6: one packet each s / X. A clock that is late loses what it was late by.
        self.sent = Some(now);
        self.idle = false;
        if self.nofeedback_at.is_none() {
            let expires = self.r.map_or(FIRST_NOFEEDBACK, |r| Span::from_secs_f64(self.timeout(r)));
            self.nofeedback_at = Some(now.saturating_add(expires));
        }
        let sequence = self.sequence;
        self.sequence += 1;
        Some(Data { sequence, timestamp: now, rtt: self.r.map_or(Span::ZERO, Span::from_secs_f64) })
    }

    /// When the next packet may go; `None` while there is nothing to send.
    fn next_send(&self) -> Option<Time> {
        if !self.active {
            return None;
        }
        let Some(sent) = self.sent else { return Some(Time::ZERO) };
        // Whatever was reported, time goes on from packet to packet.
        let apart = Span::from_secs_f64(self.s / self.x.min(self.max_rate)).max(Span::from_nanos(1));
        Some(sent.saturating_add(apart))
    }

    /// When [`Self::on_timer`] and [`Self::poll_transmit`] want to be called.
    pub fn timer_at(&self) -> Option<Time> {
        match (self.next_send(), self.nofeedback_at) {
            (Some(next), Some(timer)) => Some(next.min(timer)),
            (next, timer) => next.or(timer),
        }
    }

    /// Time passed: the nofeedback timer may have expired (section 4.4).
    pub fn on_timer(&mut self, now: Time) {
        if self.nofeedback_at.is_none_or(|at| now < at) {
            return;
        }
        let received = self.received.max();
        let mut nothing_to_learn = false;
        match self.r {
            None if !self.idle => self.x = (self.x / 2.0).max(self.least()),
            None => nothing_to_learn = true,
            // It was idle, and its rate is no more than what it may begin with: nothing is learnt from the silence.
            Some(r) if self.idle && self.is_below_recovery(received, r) => nothing_to_learn = true,
            Some(_) if self.p == 0.0 => self.x = (self.x / 2.0).max(self.least()),
            Some(r) => {
                let limit = if self.x_bps > 2.0 * received { received } else { self.x_bps / 2.0 };
                // "Update_Limits".
                self.received = Received::only(limit.max(self.least()) / 2.0, now);
                self.allow(2.0 * self.received.max(), r, now);
            }
        }
        self.set_nofeedback(self.timeout(self.r.unwrap_or(0.0)), now);
        if nothing_to_learn && !self.active {
            // Each further expiry would do nothing again: the next packet sets the timer.
            self.nofeedback_at = None;
        }
    }

    /// How long the nofeedback timer runs at a round-trip time of `r` seconds (section 4.3, step 3).
    fn timeout(&self, r: f64) -> f64 {
        (4.0 * r).max(2.0 * self.s / self.x)
    }

    /// `recover_rate` is the initial rate (section 4.4).
    fn is_below_recovery(&self, received: f64, r: f64) -> bool {
        let recover = initial_window(self.s) / r;
        if self.p > 0.0 { received < recover } else { self.x < 2.0 * recover }
    }

    fn least(&self) -> f64 {
        self.s / T_MBI
    }

    fn set_nofeedback(&mut self, seconds: f64, now: Time) {
        self.nofeedback_at = Some(now.saturating_add(Span::from_secs_f64(seconds)));
        self.idle = true;
    }

    /// A report came (section 4.3).
    pub fn on_report(&mut self, report: &Report, now: Time) {
        let sample =
            now.since(report.timestamp).saturating_sub(report.delay).max(Span::from_nanos(1)).as_secs_f64();
        let is_limited = self.max_rate <= self.x;
        let was = self.p;
        let p = report.loss_event_rate();
        let received = f64::from(report.received);
        let r = match self.r {
            None => {
                // The first report: the initial rate of section 4.2.
                self.x = initial_window(self.s) / sample;
                self.tld = now;
                sample
            }
            Some(r) => Q * r + (1.0 - Q) * sample,
        };
        let is_first = self.r.is_none();
        self.r = Some(r);
        self.p = p;
        let limit = if is_limited && !is_first {
            if p > was {
                for entry in &mut self.received.entries {
                    entry.0 /= 2.0;
                }
                self.received.maximize(LIMITED_LOSS * received, now);
                self.received.max()
            } else {
                self.received.maximize(received, now);
                2.0 * self.received.max()
            }
        } else if is_first {
            // Nothing was measured yet: the infinite entry of the beginning stays.
            f64::INFINITY
        } else {
            self.received.update(received, r, now);
            2.0 * self.received.max()
        };
        // With the first report the rate has just become the initial one: without a loss it may not double yet.
        self.allow(limit, r, now);
        self.set_nofeedback(self.timeout(r), now);
    }

    /// Section 4.3, step 4: the equation once there was a loss, doubling once per round-trip time before, and in no case more
    /// than `limit`.
    fn allow(&mut self, limit: f64, r: f64, now: Time) {
        if self.p > 0.0 {
            self.x_bps = throughput(self.s, r, self.p);
            self.x = self.x_bps.min(limit).max(self.least());
        } else if now.since(self.tld).as_secs_f64() >= r {
            self.x = (2.0 * self.x).min(limit).max(initial_window(self.s) / r);
            self.tld = now;
        }
    }

    /// Bytes of a packet on the wire.
    pub const fn packet_bytes(&self) -> u32 {
        self.packet_bytes
    }

    /// Packets sent so far.
    pub const fn sent_packets(&self) -> u64 {
        self.sequence
    }

    /// What may be recorded of it.
    pub const VARIABLES: &'static [Variable] = &[
        Variable::new("allowed_bps", "the rate that it may have"),
        Variable::new("loss_event_rate", "the loss event rate that it was told"),
    ];

    /// An inner variable by name.
    pub fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "allowed_bps" => Some(self.x * 8.0),
            "loss_event_rate" => Some(self.p),
            _ => None,
        }
    }
}

/// `W_init` (section 4.2).
fn initial_window(s: f64) -> f64 {
    (4.0 * s).min((2.0 * s).max(4380.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn build() -> TfrcSender {
        let mut sender = TfrcSender::new(&TfrcConfig::default());
        sender.start();
        assert_eq!(sender.poll_transmit(Time::ZERO).map(|data| data.sequence), Some(0));
        sender
    }

    /// At `now`, of a packet that was sent 100 ms before.
    fn report(received: u32, loss_interval: u32, now: Time) -> Report {
        let timestamp = Time::ZERO + now.since(ms(100));
        Report { timestamp, delay: Span::ZERO, received, loss_interval }
    }

    fn hear(sender: &mut TfrcSender, received: u32, loss_interval: u32, now: Time) {
        sender.on_report(&report(received, loss_interval, now), now);
    }

    #[test]
    fn before_any_report_it_sends_one_packet_per_second_and_halves_that_after_two() {
        let mut sender = build();
        assert_eq!(sender.poll_transmit(ms(999)), None);
        assert_eq!(sender.timer_at(), Some(ms(1000)));
        assert!(sender.poll_transmit(ms(1000)).is_some());
        sender.on_timer(ms(2000));
        assert_eq!(sender.variable("allowed_bps"), Some(4000.0));
    }

    #[test]
    fn the_first_report_gives_the_initial_window_per_round_trip_time() {
        let mut sender = build();
        hear(&mut sender, 0, Report::NO_LOSS, ms(100));
        // min(4 s, max(2 s, 4380)) = 4000 bytes in 100 ms.
        assert_eq!(sender.variable("allowed_bps"), Some(320_000.0));
    }

    #[test]
    fn without_loss_it_doubles_once_per_round_trip_time_but_not_beyond_twice_what_arrived() {
        let mut sender = build();
        hear(&mut sender, 0, Report::NO_LOSS, ms(100));
        hear(&mut sender, 40_000, Report::NO_LOSS, ms(200));
        assert_eq!(sender.x, 80_000.0);
        hear(&mut sender, 40_000, Report::NO_LOSS, ms(250));
        assert_eq!(sender.x, 80_000.0, "half a round-trip time later");
        hear(&mut sender, 50_000, Report::NO_LOSS, ms(300));
        assert_eq!(sender.x, 100_000.0, "twice what arrived");
    }

    #[test]
    fn after_a_loss_the_equation_rules() {
        let mut sender = build();
        hear(&mut sender, 0, Report::NO_LOSS, ms(100));
        hear(&mut sender, 1_000_000, 100, ms(200));
        let expected = throughput(1000.0, 0.1, 0.01);
        assert!((sender.x / expected - 1.0).abs() < 1e-12, "{} for {expected}", sender.x);
    }

    #[test]
    fn silence_halves_the_rate_down_to_a_packet_in_64_seconds() {
        let mut sender = build();
        hear(&mut sender, 0, Report::NO_LOSS, ms(100));
        hear(&mut sender, 1_000_000, 100, ms(200));
        let mut before = sender.x;
        for _ in 0..40 {
            let at = sender.nofeedback_at.expect("it is set");
            sender.poll_transmit(at);
            sender.on_timer(at);
            assert!(sender.x <= before && sender.x >= 1000.0 / 64.0);
            before = sender.x;
        }
        assert!((before - 1000.0 / 64.0).abs() < 1e-9, "{before}");
    }

    #[test]
    fn a_first_report_that_tells_of_a_loss_obeys_the_equation() {
        let mut sender = build();
        hear(&mut sender, 0, 100, ms(100));
        let expected = throughput(1000.0, 0.1, 0.01);
        assert!((sender.x / expected - 1.0).abs() < 1e-12, "{} for {expected}", sender.x);
    }

    #[test]
    fn a_pause_halves_the_rate_down_to_what_it_may_begin_with_and_no_further() {
        for loss_interval in [Report::NO_LOSS, 10_000] {
            let mut sender = build();
            hear(&mut sender, 0, Report::NO_LOSS, ms(100));
            for round in 2..9 {
                hear(&mut sender, 1_000_000, loss_interval, ms(100 * round));
            }
            let before = sender.x;
            sender.pause();
            while let Some(at) = sender.timer_at() {
                sender.on_timer(at);
            }
            // Initial rate: 40 kB/s; by section 4.4 it stays between that and half above twice that.
            assert!(before > 160_000.0 && sender.x <= 80_000.0 && sender.x >= 40_000.0 / 2.0, "{}", sender.x);
            // The next packet is watched again, by the round-trip time and not by the two seconds of the beginning.
            let now = ms(60_000);
            sender.start();
            assert!(sender.poll_transmit(now).is_some());
            let wait = sender.nofeedback_at.expect("it is set").since(now).as_secs_f64();
            assert!((wait - 0.4).abs() < 1e-6, "{wait} s");
        }
    }

    #[test]
    fn a_medium_with_a_largest_rate_never_sends_more() {
        let max_rate = Some(BitRate::from_bps(160_000));
        let mut sender = TfrcSender::new(&TfrcConfig { max_rate, ..TfrcConfig::default() });
        sender.start();
        sender.poll_transmit(Time::ZERO);
        for round in 1..20 {
            hear(&mut sender, 20_000, Report::NO_LOSS, ms(100 * round));
        }
        let mut sent = 0;
        for millis in 2000..3000 {
            sent += u32::from(sender.poll_transmit(ms(millis)).is_some());
        }
        assert!((19..=21).contains(&sent), "20 kB/s are 20 packets, not {sent}");
    }

    #[test]
    fn the_round_trip_time_leaves_out_what_the_receiver_waited() {
        let mut sender = build();
        let late = Report { delay: Span::from_millis(30), ..report(0, Report::NO_LOSS, ms(130)) };
        sender.on_report(&Report { timestamp: Time::ZERO, ..late }, ms(130));
        assert!((sender.r.expect("it heard") - 0.1).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_rate_stays_above_the_least_and_time_goes_on(
            events in prop::collection::vec((0u64..3000, any::<u32>(), 1u32..100_000, any::<bool>()), 1..200),
        ) {
            let mut sender = build();
            let mut now = ms(100);
            for (wait, received, interval, lost) in events {
                now += Span::from_millis(wait);
                let interval = if lost { interval } else { Report::NO_LOSS };
                hear(&mut sender, received, interval, now);
                sender.on_timer(now);
                while sender.poll_transmit(now).is_some() {}
                prop_assert!(sender.x >= 1000.0 / 64.0 - 1e-9 && sender.x.is_finite());
                prop_assert!(sender.timer_at().is_some_and(|at| at > now));
            }
        }
    }
}
