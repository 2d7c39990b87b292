use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::tcp::config::Variant;

const SEGMENT: u64 = 1000;
const RTT: Span = Span::from_millis(40);

/// A path that holds 50 segments in 40 ms, 1.25 MB/s, and a queue of `queue` behind them: acknowledgments come one by one, as fast as the path goes.
struct Path {
    control: Bbr3,
    now: Time,
    total: u64,
    queue: u64,
    seen: Vec<Bbr3State>,
}

impl Path {
    fn new(queue: u64) -> Self {
        let tcp = TcpConfig { segment_bytes: SEGMENT as u32, ..TcpConfig::modern(Variant::Sack) };
        let control = Bbr3Config::default().build(&tcp);
        Self { control, now: Time::ZERO, total: 0, queue, seen: vec![Bbr3State::Startup] }
    }

    /// One segment arrives, sent a round trip ago with `in_flight` under way.
    fn ack(&mut self, in_flight: u64, lost: u64) {
        let rtt = RTT + Span::from_micros(800) * in_flight.saturating_sub(50);
        // A window of less than the path holds comes slower.
        self.now += Span::from_micros(800 * 50 / in_flight.clamp(1, 50));
        self.total += SEGMENT;
        let rate = RateSample {
            delivered_bytes: in_flight.min(self.total / SEGMENT) * SEGMENT,
            interval: rtt,
            prior_delivered_bytes: self.total.saturating_sub(in_flight * SEGMENT),
            sent_at: Time::ZERO,
            sent_in_flight_bytes: in_flight * SEGMENT,
            lost_bytes: lost * SEGMENT,
            is_app_limited: false,
        };
        let sample = Sample {
            opens_window: true,
            delivered_bytes: SEGMENT,
            delivered_total_bytes: self.total,
            lost_bytes: lost * SEGMENT,
            in_flight_before_bytes: in_flight * SEGMENT,
            in_flight_bytes: (in_flight - 1) * SEGMENT,
            rtt: Some(rtt),
            rate: Some(rate),
            ..Sample::for_tests()
        };
        let ack = Ack {
            acknowledgment: self.total,
            acked_bytes: SEGMENT,
            flight_bytes: in_flight * SEGMENT,
            srtt: rtt,
            sample: Some(sample),
        };
        self.control.on_ack(&ack, self.now);
        if self.seen.last() != Some(&self.control.state()) {
            self.seen.push(self.control.state());
        }
    }

    /// What a sender has under way: the window, or what its rate leaves of it.
    fn in_flight(&self) -> u64 {
        let window = self.control.cwnd_bytes() / SEGMENT;
        let paced = match self.control.state() {
            Bbr3State::Startup | Bbr3State::Up => window,
            Bbr3State::ProbeRtt => window.min(25),
            _ => 50,
        };
        window.min(paced).max(4)
    }

    fn run(&mut self, until: Time) {
        while self.now < until {
            let in_flight = self.in_flight();
            let lost = in_flight.saturating_sub(50 + self.queue);
            self.ack(in_flight.min(50 + self.queue), lost);
        }
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

#[test]
fn the_start_finds_the_rate_and_a_cycle_has_four_phases() {
    use Bbr3State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    let mut path = Path::new(1000);
    path.run(at(4));
    // What the start left is gone when the first cycle begins, so that it need not go down.
    assert_eq!(path.seen[..7], [Startup, Drain, Cruise, Refill, Up, Down, Cruise]);
    assert!((path.control.model.max_bw() / 1.25e6 - 1.0).abs() < 0.03, "{}", path.control.model.max_bw());
    path.run(at(12));
    let probes = path.seen.iter().filter(|state| **state == ProbeRtt).count();
    assert!((1..=2).contains(&probes), "every five seconds: {probes}");
    // With 50 segments on the path Reno comes back in 50 round trips, two seconds, as soon as the wait is over.
    let cycles = path.seen.iter().filter(|state| **state == Up).count();
    assert!((4..=6).contains(&cycles), "{cycles} in 12 s");
}

#[test]
fn who_begins_late_does_not_look_for_the_round_trip_first() {
    let mut path = Path::new(1000);
    path.now = at(60);
    path.run(at(64));
    assert_eq!(path.seen[..3], [Bbr3State::Startup, Bbr3State::Drain, Bbr3State::Cruise]);
}

#[test]
fn a_bound_that_is_too_low_is_raised_twice_as_fast_in_each_round_trip() {
    let mut path = Path::new(1000);
    while path.control.state() != Bbr3State::Refill {
        path.run(path.now + Span::from_millis(1));
    }
    // Of losses that were no congestion.
    path.control.model.inflight_longterm = 20 * SEGMENT;
    path.control.cwnd_bytes = 20 * SEGMENT;
    let mut bounds = Vec::new();
    let mut round = 0;
    while bounds.len() < 5 {
        let window = path.control.cwnd_bytes() / SEGMENT;
        path.ack(window, 0);
        if path.control.state() == Bbr3State::Up && path.control.round_count > round {
            round = path.control.round_count;
            bounds.push(path.control.model.inflight_longterm / SEGMENT);
        }
    }
    let steps: Vec<u64> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // 1, 2, 4 and 8, as far as each round trip's last acknowledgment counts for it or for the next.
    assert!(steps.windows(2).all(|pair| 2 * pair[1] >= 3 * pair[0]), "{bounds:?}");
    assert!(steps[3] >= 6, "{bounds:?}");
}

#[test]
fn without_sack_one_loss_ends_a_probe() {
    for (variant, bounded) in [(Variant::Sack, false), (Variant::NewReno, true)] {
        let mut path = Path::new(1000);
        let tcp = TcpConfig { segment_bytes: SEGMENT as u32, ..TcpConfig::modern(variant) };
        path.control = Bbr3Config::default().build(&tcp);
        while path.control.state() != Bbr3State::Up {
            path.run(path.now + Span::from_millis(1));
        }
        path.ack(100, 1);
        assert_eq!(path.control.model.inflight_longterm < u64::MAX, bounded, "{variant:?}");
    }
}

#[test]
fn a_probe_that_loses_too_much_bounds_what_is_under_way() {
    let mut path = Path::new(20);
    path.run(at(12));
    let bound = path.control.model.inflight_longterm / SEGMENT;
    assert!((66..=76).contains(&bound), "the path and its queue hold 70: {bound}");
    let cruising = path.control.model.inflight_with_headroom(SEGMENT, 4 * SEGMENT) / SEGMENT;
    assert!(cruising <= bound * 85 / 100 + 1, "{cruising} leaves others a part");
}

#[test]
fn losses_while_it_cruises_take_three_tenths_once_in_a_round_trip_until_the_next_probe() {
    let mut path = Path::new(1000);
    while path.control.state() != Bbr3State::Cruise {
        path.run(path.now + Span::from_millis(1));
    }
    let before = path.control.model.max_bw();
    // Less than 2 %, which is no reason to bound anything for long, and next to nothing arrives meanwhile.
    path.control.model.reset_signals();
    path.control.model.note_loss(path.total);
    path.control.model.loss_round_start = true;
    path.control.model.update_bounds(false, path.control.cwnd_bytes());
    assert!((path.control.model.bw() / before - 0.7).abs() < 1e-9);
    path.control.model.note_loss(path.total);
    path.control.model.update_bounds(true, path.control.cwnd_bytes());
    assert!((path.control.model.bw() / before - 0.7).abs() < 1e-9, "not while it probes");
    path.control.start_refill();
    assert_eq!(path.control.model.bw(), before, "a probe begins anew");
}

#[test]
fn a_probe_of_the_round_trip_leaves_half_of_the_product() {
    let mut path = Path::new(1000);
    while path.control.state() != Bbr3State::ProbeRtt {
        path.run(path.now + Span::from_millis(1));
    }
    assert!(path.now > at(5), "{:?}", path.now);
    assert!(path.control.cwnd_bytes() <= 26 * SEGMENT, "{}", path.control.cwnd_bytes());
    let began = path.now;
    while path.control.state() == Bbr3State::ProbeRtt {
        path.run(path.now + Span::from_millis(1));
    }
    let lasted = path.now.since(began);
    assert!(lasted > Span::from_millis(200) && lasted < Span::from_millis(400), "{lasted}");
    assert!(path.control.cwnd_bytes() > 60 * SEGMENT, "the window comes back");
}

#[test]
fn a_time_out_leaves_the_minimum_and_all_comes_back_when_it_is_repaired() {
    let mut path = Path::new(1000);
    path.run(at(3));
    let before = path.control.cwnd_bytes();
    path.control.on_congestion(&Congestion::for_tests(Signal::Timeout, 50 * SEGMENT), path.now);
    assert_eq!(path.control.cwnd_bytes(), SEGMENT);
    path.ack(4, 0);
    assert!(path.control.cwnd_bytes() >= before.min(60 * SEGMENT), "{}", path.control.cwnd_bytes());
}

#[test]
fn what_losses_leave_of_the_rate_bounds_the_window_too() {
    let mut path = Path::new(1000);
    while path.control.state() != Bbr3State::Cruise {
        path.run(path.now + Span::from_millis(1));
    }
    path.run(path.now + Span::from_millis(400));
    path.control.model.bw_shortterm = path.control.model.max_bw() / 4.0;
    path.control.model.inflight_shortterm = u64::MAX;
    let before = path.control.cwnd_bytes();
    path.ack(50, 0);
    // Two products of the rate that is left, and as much as acknowledgments come together.
    let bound = 25 * SEGMENT + path.control.model.aggregation.extra_bytes() + 4 * SEGMENT;
    let window = path.control.cwnd_bytes();
    assert!(window < before && window <= bound, "{window} of {before}, and {bound}");
}

#[test]
fn who_resumes_does_not_look_for_the_round_trip_at_once() {
    for resumes in [false, true] {
        let mut path = Path::new(1000);
        path.run(at(4));
        path.now = at(6);
        if resumes {
            path.control.on_resume(RTT, path.now);
        }
        path.ack(50, 0);
        assert_eq!(path.control.state() != Bbr3State::ProbeRtt, resumes);
    }
}
