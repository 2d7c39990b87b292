//! Copa: a rate that is the inverse of the time for which packets wait. Controls that fill queues make everybody wait, and those
//! that empty them are starved by the others. Copa aims at the rate `1 / (delta d_q)`, which keeps the queue short and is the same
//! for all who see the same queue, and where others fill the queue it does so too.
//!
//! Source: V. Arun and H. Balakrishnan, Copa: Practical Delay-Based Congestion Control for the Internet, NSDI 2018, section 2.
//! Deviations: sliding windows have three samples (`windowed.rs`). The velocity begins at 1 again as soon as the window turns, as
//! in the authors' code and in mvfst, and not at the end of a round trip; a round trip at most doubles the window, as there. The
//! window grows only while half of it is used (the paper's sender always has data). Losses and marks mean nothing but in the
//! competitive mode; a time-out begins anew with slow start, of which the paper does not speak. In the competitive mode `1 / delta`
//! grows by one for each round trip and is halved by a loss or a mark (section 2.2, as NewReno's window). A round trip of the
//! mode's decisions is the smoothed one.

use tidegate_packet::Dscp;
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use super::real_window::RealWindow;
use super::windowed::WindowedMin;
use super::{
    Ack, Congestion, CongestionControl, Pacer, Permission, Sample, Sampling, Segment, Signal, telling,
};
use crate::Variable;
use crate::tcp::config::TcpConfig;

parameters! {
    /// # Copa
    ///
    /// Aims at a rate of one packet for each `delta` times the wait, so that about `1 / delta` packets of each flow wait. Where others
    /// fill the queue it competes with them.
    ///
    /// Source: Arun and Balakrishnan 2018.
    #[derive(Copy)]
    pub struct CopaConfig {
        /// How much a wait counts against the rate: about `1 / delta` packets of the flow wait. Source: section 2.2.
        delta: f64 = 0.5
            => telling(
                Bound::above(0.0).and_at_most(100.0),
                " must be above 0 and at most 100",
                "`1 / delta` packets of a flow wait",
            );
        /// Whether it competes where others fill the queue. Source: section 2.2.
        competitive: bool = true;
        /// How long the least round trip is believed. Source: section 2.1.
        min_rtt_window: Span = Span::from_secs(10) => bound::DURATION;
    }
}

impl CopaConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Copa {
        Copa {
            config: *self,
            window: RealWindow::new(tcp),
            least: LEAST_SEGMENTS.max(f64::from(tcp.minimum_window_segments)),
            delta: self.delta,
            standing: WindowedMin::new(),
            min_rtt: WindowedMin::new(),
            largest: [Span::ZERO; LARGEST_ROUND_TRIPS],
            emptied_at: None,
            round_at: Time::ZERO,
            is_in_slow_start: true,
            velocity: 1.0,
            direction: Direction::Up,
            same_direction: 0,
            round_cwnd: 0.0,
            round_end: 0,
            lost_in_round: false,
            is_competing: false,
            pacer: Pacer::default(),
        }
    }
}

const LEAST_SEGMENTS: f64 = 2.0;
/// Of how many round trips the largest is compared with (section 2.2).
const LARGEST_ROUND_TRIPS: usize = 4;
/// So many round trips without a nearly empty queue say that others fill it (section 2.2).
const ROUND_TRIPS_TO_COMPETE: u64 = 5;
/// The queue is nearly empty below this part of its range (section 2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// The direction must have been the same for so many round trips before the velocity doubles (section 2.1).
const ROUND_TRIPS_TO_DOUBLE: u32 = 3;
/// The rate of sending is so many windows in a standing round trip (section 2.1).
const PACING_GAIN: f64 = 2.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Up,
    Down,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Copa {
    config: CopaConfig,
    window: RealWindow,
    least: f64,
    /// `delta` in force.
    delta: f64,
    /// `RTTstanding`: the least of half a smoothed round trip.
    standing: WindowedMin,
    /// `RTTmin`.
    min_rtt: WindowedMin,
    /// The largest of each of the last round trips, the present one first.
    largest: [Span; LARGEST_ROUND_TRIPS],
    /// When the queue was last nearly empty.
    emptied_at: Option<Time>,
    /// When the present round trip began.
    round_at: Time,
    is_in_slow_start: bool,
    velocity: f64,
    direction: Direction,
    /// Round trips for which the direction has been the same.
    same_direction: u32,
    /// The window when this round trip began.
    round_cwnd: f64,
    /// The round trip ends when this is passed.
    round_end: u64,
    lost_in_round: bool,
    is_competing: bool,
    pacer: Pacer,
}

/// `lambda <= lambda_t` (section 2.1): `cwnd / RTTstanding <= 1 / (delta d_q)`, without the divisions.
fn is_below_target(cwnd: f64, standing: f64, delta: f64, d_q: f64) -> bool {
    cwnd * delta * d_q <= standing
}

/// By how much `acked` segments move the window: `v / (delta cwnd)` each (section 2.1).
fn step(velocity: f64, delta: f64, cwnd: f64, acked: f64) -> f64 {
    velocity * acked / (delta * cwnd)
}

/// `d_q < 0.1 (RTTmax - RTTmin)` (section 2.2); no queue at all is empty too, where round trips have always been the same.
fn is_nearly_empty(d_q: f64, rtt_max: f64, rtt_min: f64) -> bool {
    d_q <= NEARLY_EMPTY * (rtt_max - rtt_min)
}

/// The next `delta` of the competitive mode, whose inverse is increased by one and halved with a loss, down to `most`'s (section 2.2).
fn competing_delta(delta: f64, is_lost: bool, most: f64) -> f64 {
    let inverse = 1.0 / delta;
    (1.0 / if is_lost { inverse / 2.0 } else { inverse + 1.0 }).min(most)
}

impl Copa {
    fn take_rtt(&mut self, rtt: Span, srtt: Span, now: Time) {
        self.min_rtt.update(rtt, self.config.min_rtt_window, now);
        self.standing.update(rtt, srtt / 2, now);
        self.largest[0] = self.largest[0].max(rtt);
    }

    /// The wait, the standing and the least round trip.
    fn delays(&self) -> Option<(Span, Span, Span)> {
        let (standing, least) = (self.standing.get()?, self.min_rtt.get()?);
        Some((standing.saturating_sub(least), standing, least))
    }

    /// Section 2.2: whether others fill the queue, and how hard to compete.
    fn choose_mode(&mut self, d_q: Span, least: Span, srtt: Span, round_ends: bool, now: Time) {
        let rtt_max = self.largest.iter().copied().max().unwrap_or(Span::ZERO);
        let emptied_at = *self.emptied_at.get_or_insert(now);
        if is_nearly_empty(d_q.as_secs_f64(), rtt_max.as_secs_f64(), least.as_secs_f64()) {
            self.emptied_at = Some(now);
            self.is_competing = false;
        } else if now.since(emptied_at) > srtt * ROUND_TRIPS_TO_COMPETE {
            self.is_competing = self.config.competitive;
        }
        if !self.is_competing {
            self.delta = self.config.delta;
        } else if round_ends || self.lost_in_round {
            self.delta = competing_delta(self.delta, self.lost_in_round, self.config.delta);
        }
        self.lost_in_round = false;
    }

    /// Section 2.1, step 4: once for each round trip.
    fn update_velocity(&mut self) {
        let direction = if self.window.cwnd > self.round_cwnd { Direction::Up } else { Direction::Down };
        if direction == self.direction {
            self.same_direction += 1;
            if self.same_direction >= ROUND_TRIPS_TO_DOUBLE {
                self.velocity *= 2.0;
            }
        } else {
            self.turn(direction);
        }
        self.round_cwnd = self.window.cwnd;
    }

    const fn turn(&mut self, direction: Direction) {
        self.direction = direction;
        self.same_direction = 0;
        self.velocity = 1.0;
    }

    /// Section 2.1, steps 2 and 3.
    fn adjust(&mut self, d_q: Span, standing: Span, acked: f64, flight: f64) {
        let (d_q, standing) = (d_q.as_secs_f64(), standing.as_secs_f64());
        let cwnd = self.window.cwnd;
        let is_below = is_below_target(cwnd, standing, self.delta, d_q);
        if self.is_in_slow_start {
            if is_below {
                self.window.cwnd += if 2.0 * flight >= cwnd { acked } else { 0.0 };
                return;
            }
            self.is_in_slow_start = false;
            self.round_cwnd = cwnd;
            self.turn(Direction::Down);
        }
        let direction = if is_below { Direction::Up } else { Direction::Down };
        if direction != self.direction && self.velocity > 1.0 {
            self.turn(direction);
        }
        // At most the window again in a round trip.
        self.velocity = self.velocity.min((self.delta * cwnd).max(1.0));
        let step = step(self.velocity, self.delta, cwnd, acked);
        if !is_below {
            self.window.cwnd = (cwnd - step).max(self.least);
        } else if 2.0 * flight >= cwnd {
            self.window.cwnd = cwnd + step;
        }
    }

    fn take(&mut self, ack: &Ack, sample: &Sample, now: Time) {
        if let Some(rtt) = sample.rtt {
            self.take_rtt(rtt, ack.srtt, now);
        }
        let Some((d_q, standing, least)) = self.delays() else { return };
        let round_ends = ack.acknowledgment > self.round_end;
        if round_ends {
            self.round_end = sample.sent_until;
            if !self.is_in_slow_start {
                self.update_velocity();
            }
        }
        self.choose_mode(d_q, least, ack.srtt, round_ends, now);
        if now.since(self.round_at) >= ack.srtt {
            self.round_at = now;
            self.largest.rotate_right(1);
            self.largest[0] = Span::ZERO;
        }
        let acked = self.window.segments(sample.delivered_bytes);
        self.adjust(d_q, standing, acked, self.window.segments(ack.flight_bytes));
    }

    /// In bytes per second.
    fn pacing_rate(&self) -> Option<f64> {
        let standing = self.standing.get().filter(|standing| !standing.is_zero())?;
        Some(PACING_GAIN * self.window.cwnd_bytes() as f64 / standing.as_secs_f64())
    }
}

impl CongestionControl for Copa {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new(
                    "wait_s",
                    "How long the queue makes packets wait: the standing round trip less the least one.",
                ),
                Variable::new("min_rtt_s", "The least round trip."),
                Variable::new("delta", "How much a wait counts against the rate."),
                Variable::new("velocity", "How many times as fast as at first the window moves."),
                Variable::new("pacing_rate_bps", "The rate at which it may send."),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        if let Some(sample) = &ack.sample {
            self.take(ack, sample, now);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        match event.signal {
            Signal::Loss | Signal::EcnEcho => self.lost_in_round = true,
            Signal::LossRestart | Signal::Timeout => {
                self.lost_in_round = true;
                self.window.cwnd = self.least;
                self.is_in_slow_start = true;
                self.velocity = 1.0;
            }
            // What was measured before a silence is old; the window is worth no more than the first one.
            Signal::Idle => self.window.close(event, 0.0),
        }
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        self.pacer.or_wait(self.window.may_send(in_flight_bytes, payload_bytes), now)
    }

    #[inline]
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if let Some(rate) = self.pacing_rate() {
            self.pacer.on_send(segment.payload_bytes, rate, now);
        }
        Dscp::BEST_EFFORT
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    /// It has none.
    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.window.cwnd),
            "wait_s" => self.delays().map(|(d_q, ..)| d_q.as_secs_f64()),
            "min_rtt_s" => self.min_rtt.get().map(Span::as_secs_f64),
            "delta" => Some(self.delta),
            "velocity" => Some(self.velocity),
            "pacing_rate_bps" => self.pacing_rate().map(|rate| rate * 8.0),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    fn copa() -> Copa {
        CopaConfig::default().build(&TcpConfig::modern(Variant::Sack))
    }

    /// A path that holds `pipe` segments in 40 ms and on which others let `others` segments wait; round trips one after the other.
    struct Path {
        now: Time,
        sent: u64,
    }

    impl Path {
        fn run(
            &mut self,
            control: &mut Copa,
            pipe: f64,
            others: impl Fn(u32) -> f64,
            round_trips: u32,
        ) -> Vec<f64> {
            let mut waits = Vec::new();
            for round_trip in 0..round_trips {
                let window = control.window.cwnd;
                let waiting = (window - pipe).max(0.0) + others(round_trip);
                waits.push(waiting);
                let rtt = Span::from_secs_f64(0.04 * (1.0 + waiting / pipe));
                let segments = window as u64;
                for number in 0..segments {
                    self.sent += SEGMENT;
                    let sample = Sample {
                        delivered_bytes: SEGMENT,
                        sent_until: self.sent + segments * SEGMENT,
                        rtt: Some(rtt),
                        ..Sample::for_tests()
                    };
                    let ack = Ack {
                        acknowledgment: self.sent,
                        acked_bytes: SEGMENT,
                        flight_bytes: control.cwnd_bytes(),
                        srtt: rtt,
                        sample: Some(sample),
                    };
                    control.on_ack(&ack, self.now + rtt * number / segments);
                }
                self.now += rtt;
            }
            waits
        }
    }

    use alloc::vec::Vec;

    #[test]
    fn the_laws_are_those_of_the_paper() {
        // 100 segments in 50 ms, 10 ms of them in the queue: 2000/s against 1 / (0.5 0.01) = 200/s.
        assert!(!is_below_target(100.0, 0.05, 0.5, 0.01));
        assert!(is_below_target(10.0, 0.05, 0.5, 0.01), "equal");
        assert!(is_below_target(1e6, 0.05, 0.5, 0.0), "no wait, no bound");
        assert_eq!(step(4.0, 0.5, 100.0, 2.0), 0.16);
        assert!(is_nearly_empty(0.0009, 0.05, 0.04) && !is_nearly_empty(0.0011, 0.05, 0.04));
        assert_eq!(competing_delta(0.5, false, 0.5), 1.0 / 3.0);
        assert_eq!(competing_delta(0.1, true, 0.5), 0.2);
        assert_eq!(competing_delta(0.4, true, 0.5), 0.5);
    }

    #[test]
    fn where_others_fill_the_queue_it_competes_and_stops_when_they_are_gone() {
        let (mut control, mut path) = (copa(), Path { now: Time::ZERO, sent: 0 });
        path.run(&mut control, 100.0, |_| 0.0, 60);
        // A queue that others fill as Reno does.
        path.run(&mut control, 100.0, |round_trip| 100.0 + f64::from(round_trip % 50), 30);
        assert!(control.is_competing && control.delta < 0.1, "{}", control.delta);
        control.on_congestion(&Congestion::for_tests(Signal::Loss, SEGMENT), path.now);
        let before = control.delta;
        path.run(&mut control, 100.0, |_| 140.0, 1);
        assert!(control.delta > 1.5 * before, "{before} {}", control.delta);
        // They are gone, and what is under way fits the path.
        control.window.cwnd = 50.0;
        path.run(&mut control, 100.0, |_| 0.0, 1);
        assert!(!control.is_competing && control.delta == 0.5);
    }

    #[test]
    fn losses_mean_nothing_by_themselves_and_a_timeout_begins_anew() {
        let mut control = copa();
        control.window.cwnd = 50.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 50 * SEGMENT), Time::ZERO);
        assert_eq!(control.window.cwnd, 50.0);
        control.on_congestion(&Congestion::for_tests(Signal::Timeout, 50 * SEGMENT), Time::ZERO);
        assert_eq!((control.window.cwnd, control.is_in_slow_start), (2.0, true));
    }

    #[test]
    fn it_sends_twice_its_window_in_a_standing_round_trip() {
        let (mut control, mut path) = (copa(), Path { now: Time::ZERO, sent: 0 });
        path.run(&mut control, 100.0, |_| 0.0, 1);
        let expected = 2.0 * control.cwnd_bytes() as f64 / 0.04;
        assert!((control.pacing_rate().expect("measured") / expected - 1.0).abs() < 1e-6);
        let segment = Segment { wire_bytes: 1500, payload_bytes: 1460, ..Segment::for_tests(1) };
        control.on_send(&segment, path.now);
        let next = path.now + Span::from_secs_f64(1460.0 / expected);
        assert_eq!(control.may_send(0, 1460, path.now), Permission::At(next));
    }
}
