//! Each rule on a fluid FIFO that shows just what the rule is for. Whole gateways: `gateway-sim` and the experiments `gateway/*`.

use alloc::collections::VecDeque;

use tidegate_units::{Span, Time};

use super::super::PathConfig;
use super::super::view::{Delays, PathView, Sent};
use super::super::wire::Report;
use super::*;

/// The least time between probes, seconds, and bytes of a packet.
const STEP: f64 = 0.01;
const PACKET: f64 = 1000.0;

/// A virtual link over a queue of `mu` bytes per second.
struct Link {
    terms: Terms,
    control: Control,
    view: PathView,
    mu: f64,
    /// One way, seconds, and what the queue holds at most, bytes.
    way: f64,
    buffer: f64,
    /// What others send, bytes per second; or they keep the queue full, and lose nothing.
    others: f64,
    is_full: bool,
    /// The part of the own packets that gets lost besides.
    loss: f64,
    /// The part of the rate that is sent.
    used: f64,
    /// Nothing arrives.
    is_cut: bool,
    queue: f64,
    sent: f64,
    lost: f64,
    steps: u64,
    sequence: u32,
    last_probe: Time,
    last_heard: Time,
    under_way: VecDeque<(Time, Sent, Report)>,
}

impl Link {
    fn new(mu: f64, way: f64, buffer: f64, config: &PathConfig) -> Self {
        let (terms, now) = (config.terms(), at(0.0));
        Self {
            control: Control::new(30_000.0, &terms, now),
            view: PathView::new(Delays::OneWay, config.base_window, config.target, now),
            terms,
            mu,
            way,
            buffer,
            others: 0.0,
            is_full: false,
            loss: 0.0,
            used: 1.0,
            is_cut: false,
            queue: 0.0,
            sent: 0.0,
            lost: 0.0,
            steps: 0,
            sequence: 0,
            last_probe: now,
            last_heard: now,
            under_way: VecDeque::new(),
        }
    }

    /// So many seconds pass; the mean rate over them, as a part of `mu`, and of the queue, seconds.
    fn run(&mut self, seconds: f64) -> (f64, f64) {
        let steps = (seconds / STEP) as u32;
        let (mut rates, mut waits) = (0.0, 0.0);
        for _ in 0..steps {
            self.step();
            rates += self.control.rate() / self.mu;
            waits += self.queue / self.mu;
        }
        (rates / f64::from(steps), waits / f64::from(steps))
    }

    fn step(&mut self) {
        self.steps += 1;
        let now = at(self.steps as f64 * STEP);
        let own = self.used * self.control.rate() * STEP;
        self.sent += own;
        self.lost += own * if self.is_cut { 1.0 } else { self.loss };
        let own = if self.is_cut { 0.0 } else { own };
        let room = self.buffer - self.queue + self.mu * STEP;
        let others = if self.is_full { (room - own).max(0.0) } else { self.others * STEP };
        let overflows = (own + others - room).max(0.0);
        self.lost += overflows * own / (own + others).max(1e-9);
        self.queue = (self.queue + own + others - overflows - self.mu * STEP).max(0.0);
        // As the sender does: a hundredth of the rate.
        let affordable = 130.0 / (0.01 * self.control.rate());
        if now.since(self.last_probe).as_secs_f64() >= affordable {
            self.last_probe = now;
            self.probe(now);
        }
        while self.under_way.front().is_some_and(|(due, ..)| *due <= now) {
            let (_, sent, report) = self.under_way.pop_front().expect("it is there");
            self.last_heard = now;
            let (packets, ages) = (packets(self.sent), self.control.aging());
            let seen = self.view.on_report(sent, packets, &report, ages, now);
            self.control.on_seen(&seen, (self.used > 0.5, 1), &mut self.view, &self.terms, now);
        }
        if now.since(self.last_heard).as_secs_f64() >= 0.5_f64.max(8.0 * affordable) {
            self.last_heard = now;
            self.control.on_silence(&self.terms, now);
        }
    }

    fn probe(&mut self, now: Time) {
        self.sequence += 1;
        if self.is_cut {
            return;
        }
        let sent = Sent { at: now, bytes: self.sent as u64, packets: packets(self.sent) };
        let there = self.way + self.queue / self.mu;
        let received = self.sent - self.lost;
        let report = Report {
            incarnation: 1,
            sequence: self.sequence,
            nonce: now.as_nanos(),
            receiver: 1,
            arrived: (now + Span::from_secs_f64(there)).as_nanos(),
            received_bytes: received as u64,
            received_packets: packets(received),
        };
        self.under_way.push_back((now + Span::from_secs_f64(there + self.way), sent, report));
    }
}

fn packets(bytes: f64) -> u64 {
    (bytes / PACKET) as u64
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(1000.0 + seconds)
}

/// 8 Mb/s and 40 ms, after five seconds alone.
fn link(config: &PathConfig) -> Link {
    let mut link = Link::new(1e6, 0.02, 80_000.0, config);
    link.run(5.0);
    link
}

#[test]
fn alone_it_has_the_path_and_a_short_queue() {
    let (rate, waits) = link(&PathConfig::default()).run(20.0);
    assert!((0.93..1.05).contains(&rate) && waits < 0.01, "{rate} {waits}");
}

#[test]
fn a_way_that_is_a_little_longer_is_found_out_unless_it_never_competes() {
    let after = |compete| {
        let mut link = link(&PathConfig { compete, ..PathConfig::default() });
        // Above the target of 5 ms, and below twice that.
        link.way += 0.007;
        link.run(2.0);
        link.run(2.0).0
    };
    assert!(after(true) > 0.9, "{}", after(true));
    // The least delay ages later than this: until then the rate falls.
    assert!(after(false) < 0.6, "{}", after(false));
}

#[test]
fn a_way_that_is_much_longer_is_found_out_though_a_packet_in_a_hundred_gets_lost() {
    let mut link = link(&PathConfig::default());
    link.loss = 0.01;
    link.run(5.0);
    link.way += 0.05;
    link.run(4.0);
    let (rate, waits) = link.run(3.0);
    assert!(rate > 0.85 && waits < 0.01, "{rate} {waits}");
}

#[test]
fn who_was_kept_at_the_least_rate_begins_anew_when_others_are_gone() {
    let mut link = link(&PathConfig { compete: false, ..PathConfig::default() });
    link.others = 1.2 * link.mu;
    link.run(10.0);
    let (squeezed, _) = link.run(2.0);
    assert!(squeezed < 0.15, "{squeezed}");
    // The queue that they kept full lost a part of the own packets, too.
    link.others = 0.0;
    link.run(8.0);
    let (rate, _) = link.run(2.0);
    assert!(rate > 0.9, "{rate}");
}

#[test]
fn what_an_outage_lost_is_not_what_the_path_loses() {
    let mut link = link(&PathConfig::default());
    link.is_cut = true;
    link.run(5.0);
    link.is_cut = false;
    link.run(5.0);
    let (rate, _) = link.run(3.0);
    assert!(rate > 0.9, "{rate}");
}

#[test]
fn a_small_buffer_that_others_keep_full_is_asked_again_when_it_was_taken_for_a_longer_way() {
    let mut link = link(&PathConfig::default());
    link.buffer = 30_000.0;
    link.is_full = true;
    // It does not move, and loses nothing of ours: so looks a way that is 30 ms longer.
    link.run(20.0);
    link.is_full = false;
    // It is asked at most 64 s later, and once more.
    link.run(70.0);
    let (rate, waits) = link.run(5.0);
    assert!(rate > 0.9 && waits < 0.01, "{rate} {waits}");
}

#[test]
fn a_path_that_loses_more_than_is_tolerated_gets_no_more_and_recovers_when_it_does_not() {
    let mut link = Link::new(1e6, 0.02, 80_000.0, &PathConfig::default());
    link.loss = 0.1;
    link.run(10.0);
    let (lossy, _) = link.run(2.0);
    assert!(lossy < 0.5, "{lossy}");
    link.loss = 0.0;
    link.run(4.0 * LOSS_MEMORY);
    let (rate, _) = link.run(3.0);
    assert!(rate > 0.85, "{rate}");
}

#[test]
fn losses_of_what_hardly_uses_the_rate_say_nothing_of_it() {
    let mut link = Link::new(1e6, 0.02, 80_000.0, &PathConfig::default());
    let before = link.control.rate();
    (link.used, link.loss) = (0.2, 0.1);
    link.run(10.0);
    assert!(link.control.rate() >= before, "{}", link.control.rate());
}

#[test]
fn a_longer_way_below_the_target_of_a_slow_path_is_found_out_after_a_burst_of_others() {
    // 1 Mb/s, where the target is the time of two packets, 24 ms.
    let mut link = Link::new(125_000.0, 0.02, 26_000.0, &PathConfig::default());
    link.run(5.0);
    (link.way, link.others) = (0.035, 2.0 * link.mu);
    link.run(0.3);
    link.others = 0.0;
    link.run(20.0);
    let (rate, _) = link.run(3.0);
    assert!(rate > 0.85, "{rate}");
}
