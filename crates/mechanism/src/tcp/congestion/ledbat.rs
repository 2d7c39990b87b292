//! LEDBAT++: a window that gives way to all others. Updates and backups may wait, and whoever else sends should not notice them:
//! the window grows while the queue makes packets wait less than a target and shrinks above it, so that it is gone before others
//! lose anything.
//!
//! Source: draft-irtf-iccrg-ledbat-plus-plus (LEDBAT++), section 4, over RFC 6817, sections 2.4 and 2.5.
//! Deviations: the delay is of the round trip, as in LEDBAT++ (RFC 6817 has that of one way). The base delay is the least of each
//! of the last ten minutes (RFC 6817, `BASE_HISTORY`). The current delay is the least of the last four samples (LEDBAT++, section
//! 4.1). An ECN echo is answered as a loss is: RFC 6817 allows that. What is queued at the receiver's acknowledgments counts as
//! queued. The application's limit (RFC 6817, `ALLOWED_INCREASE`) is the rule of all controls here: a window grows while it is
//! used. A silence leaves at most the initial window of the connection, not the two segments that it begins with. No slowdown begins
//! in slow start or while losses are repaired; it waits for the end of that. A loss or a time-out in a slowdown leaves half of the window
//! before that, and the slowdown is over where the window reaches it.

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use super::real_window::RealWindow;
use super::{Ack, Congestion, CongestionControl, Permission, Sample, Sampling, Signal, telling};
use crate::Variable;
use crate::tcp::config::TcpConfig;

parameters! {
    /// # LEDBAT++'s window
    ///
    /// For what may wait: it fills a link that nobody else wants and gives way to all who want it. The queue makes packets wait for
    /// `target` at most. It leaves the link for moments, to see how long a round trip is without its own queue.
    ///
    /// Source: draft-irtf-iccrg-ledbat-plus-plus; RFC 6817.
    #[derive(Copy)]
    pub struct LedbatConfig {
        /// How long the queue may make packets wait. Source: LEDBAT++, section 4 (RFC 6817 has at most 100 ms).
        target: Span = Span::from_millis(60) => bound::DURATION;
        /// The window grows by at least a segment in so many round trips: the largest divisor of the gain. Source: LEDBAT++, section 4.
        gain_divisor_max: u32 = 16 => bound::COUNT;
        /// How quickly the window shrinks above the target. Source: LEDBAT++, section 4 (`Constant`).
        decrease: f64 = 1.0
            => telling(
                Bound::above(0.0).and_at_most(100.0),
                " must be above 0 and at most 100",
                "at 0 the window never shrinks",
            );
        /// Whether it leaves the link periodically. Source: LEDBAT++, section 4.
        slowdowns: bool = true;
        /// How many times as long as a slowdown the time to the next one is. Source: LEDBAT++, section 4.
        slowdown_interval: u32 = 9 => bound::COUNT;
    }
}

impl LedbatConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Ledbat {
        let mut window = RealWindow::new(tcp);
        window.cwnd = LEAST_SEGMENTS.max(f64::from(tcp.minimum_window_segments));
        Ledbat {
            config: *self,
            least: window.cwnd,
            window,
            base: [None; BASE_HISTORY],
            base_minute: 0,
            recent: [None; CURRENT_FILTER],
            recent_next: 0,
            phase: Phase::First,
            slowdown_at: Time::MAX,
        }
    }
}

/// `INIT_CWND` and `MIN_CWND` (RFC 6817, section 2.5).
const LEAST_SEGMENTS: f64 = 2.0;
/// `BASE_HISTORY`, in minutes.
const BASE_HISTORY: usize = 10;
/// `CURRENT_FILTER`, in samples.
const CURRENT_FILTER: usize = 4;
/// The first slow start ends at this part of the target (section 4).
const EXIT_PART: f64 = 0.75;
/// Round trips from the end of the first slow start to the first slowdown, and with two segments in a slowdown (section 4).
const SLOWDOWN_ROUND_TRIPS: u64 = 2;

/// What it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The first slow start.
    First,
    /// Towards the target.
    Steady,
    /// Two segments are under way until the second instant. Since the first.
    Slowdown(Time, Time),
    /// From there to where it was, by slow start.
    Return(Time),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Ledbat {
    config: LedbatConfig,
    window: RealWindow,
    least: f64,
    /// The least round trip of each of the last minutes, by its number modulo the length.
    base: [Option<Span>; BASE_HISTORY],
    base_minute: u64,
    /// The last samples.
    recent: [Option<Span>; CURRENT_FILTER],
    recent_next: usize,
    phase: Phase,
    slowdown_at: Time,
}

/// `GAIN = 1 / min(16, CEIL(2 TARGET / base))` (section 4).
fn gain_of(target: Span, base: Span, divisor_max: u32) -> f64 {
    let divisor = (2 * target.as_nanos()).div_ceil(base.as_nanos().max(1));
    1.0 / divisor.clamp(1, u64::from(divisor_max)) as f64
}

/// What a round trip adds to a window of `w` segments (section 4): `GAIN` up to the target, and above it
/// `max(GAIN - Constant W (delay / target - 1), -W / 2)`.
fn change(w: f64, gain: f64, constant: f64, delay_over_target: f64) -> f64 {
    if delay_over_target <= 1.0 {
        gain
    } else {
        (gain - constant * w * (delay_over_target - 1.0)).max(-w / 2.0)
    }
}

fn least_of(samples: &[Option<Span>]) -> Option<Span> {
    samples.iter().flatten().copied().min()
}

impl Ledbat {
    /// `update_base_delay` and `update_current_delay` (RFC 6817, section 2.4.2).
    fn take_rtt(&mut self, rtt: Span, now: Time) {
        let minute = now.as_nanos() / Span::from_secs(60).as_nanos();
        let passed = minute.saturating_sub(self.base_minute).min(BASE_HISTORY as u64);
        for back in 0..passed {
            self.base[((minute - back) % BASE_HISTORY as u64) as usize] = None;
        }
        self.base_minute = minute;
        let of_minute = &mut self.base[(minute % BASE_HISTORY as u64) as usize];
        *of_minute = Some(of_minute.map_or(rtt, |least| least.min(rtt)));
        self.recent[self.recent_next] = Some(rtt);
        self.recent_next = (self.recent_next + 1) % CURRENT_FILTER;
    }

    /// How long the queue makes packets wait, and the least round trip.
    fn delay_and_base(&self) -> Option<(Span, Span)> {
        let base = least_of(&self.base)?;
        Some((least_of(&self.recent)?.saturating_sub(base), base))
    }

    /// Whether a slowdown may begin. In slow start the window is below where it was, and would not find back; while losses are repaired
    /// recovery says what goes, and no round trip is that of an empty path.
    fn may_slow_down(&self, is_in_recovery: bool) -> bool {
        self.config.slowdowns && !is_in_recovery && !self.window.is_in_slow_start()
    }

    /// Ends slowdowns and begins them.
    fn follow(&mut self, srtt: Span, is_in_recovery: bool, now: Time) {
        match self.phase {
            Phase::Slowdown(since, until) if now >= until => self.phase = Phase::Return(since),
            Phase::Return(since) if !self.window.is_in_slow_start() => {
                self.phase = Phase::Steady;
                // Section 4.4: nine times as long as it took to be back.
                let interval = now.since(since) * u64::from(self.config.slowdown_interval);
                self.slowdown_at = now.saturating_add(interval);
            }
            Phase::Steady if now >= self.slowdown_at && self.may_slow_down(is_in_recovery) => {
                self.window.forget_timeout();
                self.window.ssthresh = self.window.cwnd;
                self.window.cwnd = self.least;
                self.phase = Phase::Slowdown(now, now.saturating_add(srtt * SLOWDOWN_ROUND_TRIPS));
            }
            _ => {}
        }
    }

    fn leave_first(&mut self, srtt: Span, now: Time) {
        self.phase = Phase::Steady;
        self.slowdown_at = now.saturating_add(srtt * SLOWDOWN_ROUND_TRIPS);
    }

    fn open(&mut self, ack: &Ack, now: Time) {
        let Some((delay, base)) = self.delay_and_base() else { return };
        let gain = gain_of(self.config.target, base, self.config.gain_divisor_max);
        let ratio = delay.as_secs_f64() / self.config.target.as_secs_f64();
        let window = &mut self.window;
        if self.phase == Phase::First && ratio > EXIT_PART {
            window.ssthresh = window.cwnd;
        }
        let (acked, flight) = (window.segments(ack.acked_bytes), window.segments(ack.flight_bytes));
        let is_used = window.is_used(flight);
        if window.is_in_slow_start() {
            if is_used && !matches!(self.phase, Phase::Slowdown(..)) {
                window.cwnd += window.slow_start_share(acked) * gain;
            }
            return;
        }
        if self.phase == Phase::First {
            self.leave_first(ack.srtt, now);
            return;
        }
        let change = change(window.cwnd, gain, self.config.decrease, ratio) * acked / window.cwnd;
        if change < 0.0 || is_used {
            window.cwnd = (window.cwnd + change).max(self.least);
            // Shrinking is no reason to start slowly.
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }

    fn take(&mut self, ack: &Ack, sample: &Sample, now: Time) {
        if let Some(rtt) = sample.rtt {
            self.take_rtt(rtt, now);
        }
        if sample.opens_window {
            self.open(ack, now);
        }
        self.follow(ack.srtt, sample.is_in_recovery, now);
    }

    /// Half of what congestion found: of the window, or in a slowdown of the one before it, which was under way when it began.
    fn half(&self, event: &Congestion) -> f64 {
        if matches!(self.phase, Phase::Slowdown(..)) {
            self.window.ssthresh / 2.0
        } else {
            self.window.flight_in_window(event) / 2.0
        }
    }
}

impl CongestionControl for Ledbat {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("delay_s", "How long the queue makes packets wait."),
                Variable::new("base_delay_s", "The least round trip of the last ten minutes."),
                Variable::new("phase", "0 first slow start, 1 steady, 2 slowdown, 3 return from it."),
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

    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        let half = self.half(event);
        // RFC 6817, section 2.4.2: halved at most once for each round trip, to which the connection sees. Behind a time-out alone it
        // is below the minimum.
        self.window.close(event, half);
        if !matches!(event.signal, Signal::Timeout | Signal::LossRestart) {
            self.window.cwnd = self.window.cwnd.max(self.least);
        }
        if event.signal == Signal::Idle {
            return;
        }
        match self.phase {
            Phase::First => self.leave_first(event.srtt, now),
            Phase::Slowdown(since, _) => self.phase = Phase::Return(since),
            Phase::Steady | Phase::Return(_) => {}
        }
    }

    fn on_recovered(&mut self, flight_bytes: u64, _now: Time) {
        self.window.recovered(flight_bytes);
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _now: Time) -> Permission {
        self.window.may_send(in_flight_bytes, payload_bytes)
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn variable(&self, name: &str) -> Option<f64> {
        let phase = match self.phase {
            Phase::First => 0.0,
            Phase::Steady => 1.0,
            Phase::Slowdown(..) => 2.0,
            Phase::Return(_) => 3.0,
        };
        match name {
            "cwnd_segments" => Some(self.window.cwnd),
            "delay_s" => self.delay_and_base().map(|(delay, _)| delay.as_secs_f64()),
            "base_delay_s" => self.delay_and_base().map(|(_, base)| base.as_secs_f64()),
            "phase" => Some(phase),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    /// A full window in each round trip over a path that holds `pipe` segments in 40 ms, until `until`.
    fn run(
        control: &mut Ledbat,
        pipe: f64,
        now: &mut Time,
        until: Time,
        mut look: impl FnMut(&Ledbat, Span),
    ) {
        while *now < until {
            let window = control.window.cwnd;
            let rtt = Span::from_secs_f64(0.04 * (window / pipe).max(1.0));
            let segments = window as u64;
            for number in 0..segments {
                let sample = Sample { opens_window: true, rtt: Some(rtt), ..Sample::for_tests() };
                let ack = Ack {
                    acknowledgment: 0,
                    acked_bytes: SEGMENT,
                    flight_bytes: control.cwnd_bytes(),
                    srtt: rtt,
                    sample: Some(sample),
                };
                control.on_ack(&ack, *now + rtt * number / segments);
            }
            *now += rtt;
            look(control, rtt);
        }
    }

    fn ledbat(slowdowns: bool) -> Ledbat {
        LedbatConfig { slowdowns, ..LedbatConfig::default() }.build(&TcpConfig::modern(Variant::Sack))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn the_gain_falls_where_round_trips_are_short() {
        let of = |base| gain_of(Span::from_millis(60), Span::from_millis(base), 16);
        assert_eq!(
            (of(200), of(120), of(60), of(40), of(7), of(1)),
            (1.0, 1.0, 0.5, 1.0 / 3.0, 1.0 / 16.0, 1.0 / 16.0)
        );
    }

    #[test]
    fn above_the_target_the_window_shrinks_in_proportion_and_by_half_at_most() {
        assert_eq!(change(100.0, 0.5, 1.0, 0.9), 0.5);
        assert_eq!(change(100.0, 0.5, 1.0, 1.25), -24.5);
        assert_eq!(change(100.0, 0.5, 1.0, 3.0), -50.0);
    }

    /// Where the window neither grows nor shrinks, the queue makes packets wait for `TARGET (1 + GAIN / W)`.
    #[test]
    fn alone_it_comes_to_rest_at_the_target() {
        let (mut control, mut now) = (ledbat(false), Time::ZERO);
        run(&mut control, 100.0, &mut now, at(200), |_, _| {});
        let (delay, _) = control.delay_and_base().expect("measured");
        let law = 0.060 * (1.0 + (1.0 / 3.0) / control.window.cwnd);
        assert!((delay.as_secs_f64() / law - 1.0).abs() < 0.02, "{delay} and {law}");
        // 60 ms of queue on 40 ms of path.
        assert!((control.window.cwnd - 250.0).abs() < 5.0, "{}", control.window.cwnd);
    }

    #[test]
    fn slowdowns_take_a_tenth_of_the_time_and_see_the_path_without_its_queue() {
        let (mut control, mut now) = (ledbat(true), Time::ZERO);
        run(&mut control, 100.0, &mut now, at(20), |_, _| {});
        // The base delay is forgotten; only a slowdown can find it.
        control.base = [None; BASE_HISTORY];
        let (mut steady, mut away, mut number, mut before) = (0.0, 0.0, 0, 1.0);
        run(&mut control, 100.0, &mut now, at(400), |control, rtt| {
            let phase = control.variable("phase").unwrap_or(0.0);
            number += u32::from(phase > 1.0 && before == 1.0);
            before = phase;
            *(if phase > 1.0 { &mut away } else { &mut steady }) += rtt.as_secs_f64();
        });
        assert!(number >= 3, "{number} slowdowns");
        let share = away / (away + steady);
        assert!((0.07..0.13).contains(&share), "{share}");
        let base = control.variable("base_delay_s").expect("measured");
        assert!((base - 0.04).abs() < 1e-6, "{base}");
    }

    #[test]
    fn the_first_slow_start_ends_before_the_target() {
        let (mut control, mut now) = (ledbat(true), Time::ZERO);
        let mut largest: f64 = 0.0;
        run(&mut control, 100.0, &mut now, at(4), |control, _| {
            if control.phase == Phase::First {
                largest = largest.max(control.window.cwnd);
            }
        });
        assert_ne!(control.phase, Phase::First);
        // 45 ms of queue are 112 segments; a round trip more of growth by a third.
        assert!(largest < 212.5 * 4.0 / 3.0 + 1.0, "{largest}");
    }

    #[test]
    fn a_loss_halves_and_leaves_two_segments() {
        let mut control = ledbat(true);
        control.window.cwnd = 40.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 40 * SEGMENT), Time::ZERO);
        assert_eq!(control.window.cwnd, 20.0);
        control.on_congestion(&Congestion::for_tests(Signal::Loss, SEGMENT), Time::ZERO);
        assert_eq!(control.window.cwnd, 2.0);
    }

    /// Steady, with a slowdown due since the start, and the window and its threshold in segments.
    fn due(cwnd: f64, ssthresh: f64) -> Ledbat {
        let mut control = ledbat(true);
        (control.window.cwnd, control.window.ssthresh) = (cwnd, ssthresh);
        (control.phase, control.slowdown_at) = (Phase::Steady, Time::ZERO);
        control
    }

    /// One of nothing new, in a recovery or not.
    fn hear(control: &mut Ledbat, is_in_recovery: bool, now: Time) {
        let rtt = Span::from_millis(40);
        let sample = Sample { is_in_recovery, rtt: Some(rtt), ..Sample::for_tests() };
        let flight_bytes = control.cwnd_bytes();
        let ack = Ack { acknowledgment: 0, acked_bytes: 0, flight_bytes, srtt: rtt, sample: Some(sample) };
        control.on_ack(&ack, now);
    }

    #[test]
    fn no_slowdown_begins_on_the_way_back_from_a_silence_or_a_timeout() {
        let mut silent = due(100.0, 100.0);
        silent.on_congestion(&Congestion::for_tests(Signal::Idle, 0), at(1));
        hear(&mut silent, false, at(1));
        assert_eq!((silent.phase, silent.window.cwnd, silent.window.ssthresh), (Phase::Steady, 10.0, 100.0));
        // Where it is back the slowdown follows.
        silent.window.cwnd = 100.5;
        hear(&mut silent, false, at(2));
        assert_eq!((silent.window.cwnd, silent.window.ssthresh), (2.0, 100.5));
        let mut late = ledbat(true);
        late.window.cwnd = 64.0;
        late.on_congestion(&Congestion::for_tests(Signal::Timeout, 64 * SEGMENT), at(1));
        late.window.cwnd = 1.7;
        hear(&mut late, false, at(3));
        assert_eq!((late.phase, late.window.cwnd, late.window.ssthresh), (Phase::Steady, 1.7, 32.0));
    }

    #[test]
    fn no_slowdown_begins_while_losses_are_repaired() {
        let mut control = due(40.0, 40.0);
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 40 * SEGMENT), at(1));
        hear(&mut control, true, at(1));
        assert_eq!((control.phase, control.window.cwnd), (Phase::Steady, 20.0));
        control.on_recovered(20 * SEGMENT, at(2));
        hear(&mut control, false, at(2));
        assert_eq!((control.window.cwnd, control.window.ssthresh), (2.0, 20.0));
    }

    #[test]
    fn a_loss_in_a_slowdown_halves_the_window_before_it_and_the_end_of_its_repair_raises_nothing() {
        for (signal, left) in [(Signal::Loss, 2.0), (Signal::EcnEcho, 2.0), (Signal::Timeout, 1.0)] {
            let mut control = due(40.0, 40.0);
            hear(&mut control, false, at(1));
            assert!(matches!(control.phase, Phase::Slowdown(..)));
            // What was sent before the slowdown is still under way.
            control.on_congestion(&Congestion::for_tests(signal, 40 * SEGMENT), at(1));
            assert_eq!((control.window.cwnd, control.window.ssthresh), (left, 20.0), "{signal:?}");
            assert_eq!(control.phase, Phase::Return(at(1)));
            control.on_recovered(30 * SEGMENT, at(2));
            assert_eq!(control.window.cwnd, left, "{signal:?}");
        }
    }

    #[test]
    fn the_way_back_from_a_slowdown_is_no_slow_start_of_a_timeout() {
        let mut control = due(10.0, 10.0);
        control.on_congestion(&Congestion::for_tests(Signal::Timeout, 10 * SEGMENT), Time::ZERO);
        assert_eq!(control.window.slow_start_share(2.0), 1.0);
        control.window.cwnd = 5.0;
        hear(&mut control, false, at(1));
        assert!(matches!(control.phase, Phase::Slowdown(..)));
        assert_eq!(control.window.slow_start_share(2.0), 2.0);
    }
}
