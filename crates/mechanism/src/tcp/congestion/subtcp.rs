//! SUBTCP: windows below one segment. When many connections share a slow link, one segment per round trip each is
//! already too much; TCP knows nothing smaller but its time-outs, and forgets those at the first success, so that the
//! sum of many connections doubles and halves instead of rising slowly. SUBTCP divides a window of one segment by
//! `scale`: it sends one segment every `scale` round trips, doubles `scale` where TCP would halve its window, and takes
//! it back step by step.
//!
//! Source: thesis of Feng, section 3.3: Fig. 3.17 (halving), Fig. 3.21 (scaled sub-linear increase), Fig. 3.22
//! (bandwidth-based increase); catalogue, section 5.
//! Deviations: Fig. 3.22 prints `e_cwnd * (1 + X) / CWND`, which would shrink any window above one segment; the text
//! (a rate rises by at most X % per round trip) needs 1 + X / CWND (SUB-1). Losses below one segment are seen by the
//! retransmission timer alone, and `scale` stands in for the timer's own back-off (SUB-3); like that in ns, it stops at
//! 64. `counter` runs from the segment that set it and not on a clock that free-runs beside it, so that hosts do not
//! send in step. Damping and evenness are what the thesis's section 3.5 wants and gives no rule for ("change its sending rate
//! more slowly or not at all when nearing the congestion point"; "an advantage to low-bandwidth flows"); the rules, [`damped`] and
//! [`evened`], are ours, and off. The window stays in force besides the counter: one segment is under way at a time. Before the first
//! round-trip sample a loss counts the time-out as the round trip. The timer of an idle sender changes nothing at a
//! window of one. Under the rules of RFCs an ECN echo takes the window down to one segment and not two.

use tidegate_packet::Dscp;
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{Span, Time};

use super::reno::{Reno, RenoConfig};
use super::{Ack, Congestion, CongestionControl, Permission, Segment, Signal, telling};
use crate::Variable;
use crate::tcp::config::TcpConfig;

words! {
    /// How SUBTCP's window grows.
    pub enum SubTcpForm {
        /// Below one segment a success halves `scale`.
        Halving = "halving",
        /// Below one segment a success takes `scale_factor` from `scale`.
        Scaled = "scaled",
        /// The rate rises by at most `increase` of itself per round trip.
        Bandwidth = "bandwidth",
    }
}

/// What a success takes from `scale`, and by which part of itself a rate may rise.
const STEP: Bound<f64> = telling(
    Bound::above(0.0).and_at_most(1e3),
    " must be above 0 and at most 1000",
    "at 0 a success changes nothing",
);

parameters! {
    /// # SUBTCP: windows below one segment
    ///
    /// Sends one segment every `scale` round trips where a window of one segment is too much. Congestion doubles `scale`, a
    /// success takes some of it back; from one segment on it is TCP, but for the form `bandwidth`.
    ///
    /// Source: thesis of Feng, section 3.3.
    #[derive(Copy)]
    pub struct SubTcpConfig {
        /// How the window grows. Source: thesis of Feng, Fig. 3.17, Fig. 3.21, Fig. 3.22.
        form: SubTcpForm = SubTcpForm::Halving;
        /// What a success takes from `scale`, in the form `scaled`. Source: thesis of Feng, section 3.3.2.
        scale_factor: f64 = 0.25 => STEP;
        /// By which part of itself the rate may rise per round trip, in the form `bandwidth` (X). Source: thesis of Feng,
        /// section 3.3.2 (1 %).
        increase: f64 = 0.01 => STEP;
        /// By how much less the rate rises where it nears the one at which congestion came last, in the form `bandwidth`: from 0, as
        /// anywhere, to 0.95, hardly at all. Source: ours, after the thesis of Feng, section 3.5 (0 in its experiments).
        damping: f64 = 0.0
            => telling(
                Bound::between(0.0, 0.95),
                " must be from 0 to 0.95",
                "at 1 the rate would never rise again",
            );
        /// How much small windows are favoured, in the form `bandwidth`: 0, all rates rise by the same part of themselves; 1, all
        /// by the same amount, `increase` segments per round trip. Source: ours, after the thesis of Feng, section 3.5 (0 in its
        /// experiments).
        evenness: f64 = 0.0
            => telling(
                Bound::between(0.0, 1.0),
                " must be from 0 to 1",
                "0 and 1 are the two laws between which it lies",
            );
        /// The tick in which waits between segments are counted. Source: assumed.
        tick: Span = Span::from_millis(10) => bound::DURATION;
        /// The largest `scale`. Source: assumed, ns's largest back-off, which `scale` replaces.
        scale_max: f64 = 64.0
            => telling(
                Bound::between(1.0, 1e6),
                " must be from 1 to 1000000",
                "so many round trips between segments: one at least",
            );
    }
}

impl SubTcpConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> SubTcp {
        let reno = RenoConfig::default().build(tcp).with_echo_floor_of_one();
        SubTcp {
            cwnd: reno.cwnd_segments(),
            reno,
            scale: 1.0,
            send_at: Time::ZERO,
            rtt: Span::ZERO,
            growth: match self.form {
                SubTcpForm::Halving => Growth::Halving,
                SubTcpForm::Scaled => Growth::Scaled { scale_factor: self.scale_factor },
                SubTcpForm::Bandwidth => Growth::Bandwidth { x: self.increase },
            },
            damping: self.damping,
            evenness: self.evenness,
            congested_at: 0.0,
            tick: self.tick,
            scale_max: self.scale_max,
        }
    }
}

/// A form with what it needs.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// Fig. 3.17; from one segment on as TCP.
    Halving,
    /// Fig. 3.21; from one segment on as TCP.
    Scaled { scale_factor: f64 },
    /// Fig. 3.22, or as TCP's where that is less. There is no slow start.
    Bandwidth { x: f64 },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct SubTcp {
    /// The window from one segment on: `normal_tcp_...` of the figures.
    reno: Reno,
    /// `CWND` in segments, with its fraction; [`Growth::Bandwidth`] alone sets it by itself.
    cwnd: f64,
    scale: f64,
    /// When `counter` reaches zero.
    send_at: Time,
    /// The last known round-trip time.
    rtt: Span,
    growth: Growth,
    damping: f64,
    evenness: f64,
    /// The effective window at which congestion came last; zero before.
    congested_at: f64,
    tick: Span,
    scale_max: f64,
}

impl SubTcp {
    /// `CWND == 1` of the figures.
    fn is_one(&self) -> bool {
        self.cwnd <= 1.0
    }

    /// The effective window in segments: `e_cwnd`.
    pub fn effective_segments(&self) -> f64 {
        self.cwnd / self.scale
    }

    fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.reno.set_cwnd_segments(cwnd);
    }

    fn restart_counter(&mut self, now: Time) {
        self.send_at = now.saturating_add(counted(self.scale, self.rtt, self.tick));
    }
}

impl CongestionControl for SubTcp {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("scale", "What divides a window of one segment.")] }
    }

    /// `opencwnd()`.
    fn on_ack(&mut self, ack: &Ack, now: Time) {
        self.rtt = ack.srtt;
        let below_one = self.is_one() && self.scale > 1.0;
        match self.growth {
            Growth::Halving if below_one => self.scale = halved(self.scale),
            Growth::Scaled { scale_factor } if below_one => {
                self.scale = lowered(self.scale, scale_factor);
            }
            Growth::Halving | Growth::Scaled { .. } => {
                self.reno.on_ack(ack, now);
                self.cwnd = self.reno.cwnd_segments();
            }
            Growth::Bandwidth { x } => {
                let x = if self.damping > 0.0 || self.evenness > 0.0 {
                    let wnd = self.effective_segments();
                    x * damped(wnd, self.congested_at, self.damping) * evened(wnd, self.evenness)
                } else {
                    x
                };
                let (cwnd, scale) = split(increased(self.cwnd, self.scale, x));
                self.set(cwnd);
                self.scale = scale.min(self.scale_max);
            }
        }
    }

    /// `closewnd()`.
    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        self.rtt = if event.srtt.is_zero() { event.rto } else { event.srtt };
        if event.signal != Signal::Idle {
            self.congested_at = self.effective_segments();
        }
        if !self.is_one() {
            self.reno.on_congestion(event, now);
            self.cwnd = self.reno.cwnd_segments();
        } else if event.signal != Signal::Idle {
            self.scale = (self.scale * 2.0).min(self.scale_max);
            self.restart_counter(now);
        }
    }

    fn on_recovered(&mut self, flight_bytes: u64, now: Time) {
        if !self.is_one() {
            self.reno.on_recovered(flight_bytes, now);
            self.cwnd = self.reno.cwnd_segments();
        }
    }

    /// `send()`, first half.
    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        match self.reno.may_send(in_flight_bytes, payload_bytes, now) {
            Permission::Now if self.is_one() && now < self.send_at => Permission::At(self.send_at),
            permission => permission,
        }
    }

    /// `send()`, second half.
    #[inline]
    fn on_send(&mut self, _segment: &Segment, now: Time) -> Dscp {
        if self.is_one() {
            self.restart_counter(now);
        }
        Dscp::BEST_EFFORT
    }

    #[inline]
    fn is_paced(&self) -> bool {
        true
    }

    fn cwnd_bytes(&self) -> u64 {
        self.reno.cwnd_bytes()
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.reno.ssthresh_bytes()
    }

    fn backs_off_timer(&self) -> bool {
        false
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.effective_segments()),
            "scale" => Some(self.scale),
            _ => None,
        }
    }
}

/// How long `counter` waits: `int(scale * RTT / timer_interval) + 1` ticks (Fig. 3.17).
fn counted(scale: f64, rtt: Span, tick: Span) -> Span {
    let ticks = (scale * rtt.as_nanos() as f64 / tick.as_nanos() as f64) as u64;
    tick.saturating_mul(ticks.saturating_add(1))
}

/// `scale` after a success (Fig. 3.17).
fn halved(scale: f64) -> f64 {
    (scale / 2.0).max(1.0)
}

/// `scale` after a success (Fig. 3.21).
fn lowered(scale: f64, scale_factor: f64) -> f64 {
    (scale - scale_factor).max(1.0)
}

/// `wnd` after a success (Fig. 3.22 with SUB-1): by X / CWND of the effective window, or by TCP's linear increase.
fn increased(cwnd: f64, scale: f64, x: f64) -> f64 {
    let e_cwnd = cwnd / scale;
    (e_cwnd * (1.0 + x / cwnd)).min(e_cwnd + 1.0 / cwnd)
}

/// What becomes of a rise at the window `wnd`, if congestion came at `at` last: the whole at half of it and at one and a half times it,
/// `1 - damping` at it.
fn damped(wnd: f64, at: f64, damping: f64) -> f64 {
    if at <= 0.0 {
        return 1.0;
    }
    let distance = 2.0 * libm::fabs(1.0 - wnd / at);
    1.0 - damping * (1.0 - distance.min(1.0))
}

/// What becomes of a rise in proportion to the window `wnd`, to favour small ones: `wnd^-evenness`.
fn evened(wnd: f64, evenness: f64) -> f64 {
    libm::pow(wnd, -evenness)
}

/// `CWND` and `scale` of an effective window (Fig. 3.22).
fn split(wnd: f64) -> (f64, f64) {
    if wnd < 1.0 { (1.0, 1.0 / wnd) } else { (wnd, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    fn ack() -> Ack {
        Ack {
            acknowledgment: 0,
            acked_bytes: 1000,
            flight_bytes: 1000,
            srtt: Span::from_millis(105),
            sample: None,
        }
    }
    fn congestion(signal: Signal, segments: u64) -> Congestion {
        let (srtt, rto) = (Span::from_millis(105), Span::from_millis(300));
        Congestion { srtt, rto, ..Congestion::for_tests(signal, segments * 1000) }
    }
    fn control(form: SubTcpForm) -> SubTcp {
        SubTcpConfig { form, ..SubTcpConfig::default() }.build(&TcpConfig::ns_1999(Variant::Reno))
    }
    #[test]
    fn a_success_takes_back_half_a_quarter_or_one_percent() {
        assert_eq!([8.0, 3.0, 1.5].map(halved), [4.0, 1.5, 1.0]);
        assert_eq!([8.0, 1.25, 1.125].map(|scale| lowered(scale, 0.25)), [7.75, 1.0, 1.0]);
        // A quarter of a segment, and 1 % more.
        assert!((increased(1.0, 4.0, 0.01) - 0.2525).abs() < 1e-12);
        // Ten segments: ten acknowledgments of 0.01 each make 1 % of them.
        assert!((increased(10.0, 1.0, 0.01) - 10.01).abs() < 1e-12);
        // Beyond 1/X segments TCP's own increase is the lesser one.
        assert!((increased(200.0, 1.0, 0.01) - 200.005).abs() < 1e-12);
        assert_eq!((split(0.25), split(2.5)), ((1.0, 4.0), (2.5, 1.0)));
    }

    #[test]
    fn the_counter_is_a_whole_number_of_ticks_above_the_scaled_round_trip() {
        let tick = Span::from_millis(10);
        assert_eq!(counted(2.0, Span::from_millis(105), tick), Span::from_millis(220));
        assert_eq!(counted(1.0, Span::from_millis(100), tick), Span::from_millis(110));
        assert_eq!(counted(4.0, Span::ZERO, tick), tick);
    }

    #[test]
    fn congestion_at_one_segment_doubles_scale_whatever_signals_it() {
        for &form in SubTcpForm::ALL {
            for signal in [Signal::Loss, Signal::LossRestart, Signal::Timeout, Signal::EcnEcho] {
                let mut control = control(form);
                control.on_congestion(&congestion(signal, 1), Time::ZERO);
                control.on_congestion(&congestion(signal, 1), Time::ZERO);
                assert_eq!((control.scale, control.cwnd_bytes()), (4.0, 1000), "{form:?} {signal:?}");
                control.on_congestion(&congestion(Signal::Idle, 1), Time::ZERO);
                assert_eq!(control.scale, 4.0, "an idle sender is not congested");
                (0..20).for_each(|_| control.on_congestion(&congestion(signal, 1), Time::ZERO));
                assert_eq!(control.scale, 64.0, "scale has a bound");
            }
        }
    }

    #[test]
    fn a_window_above_one_closes_as_tcps() {
        for &form in SubTcpForm::ALL {
            let mut control = control(form);
            control.set(7.0);
            control.on_congestion(&congestion(Signal::EcnEcho, 7), Time::ZERO);
            assert_eq!((control.scale, control.cwnd_bytes(), control.cwnd), (1.0, 3000, 3.0));
            control.on_congestion(&congestion(Signal::Timeout, 3), Time::ZERO);
            assert_eq!((control.scale, control.cwnd_bytes()), (1.0, 1000));
        }
    }

    #[test]
    fn below_one_segment_sends_are_timed() {
        let mut control = control(SubTcpForm::Halving);
        control.on_congestion(&congestion(Signal::EcnEcho, 1), Time::ZERO);
        let due = Time::ZERO + Span::from_millis(220);
        assert_eq!(control.may_send(0, 1000, Time::ZERO), Permission::At(due));
        assert_eq!(control.may_send(1000, 1000, due), Permission::No, "the window stays in force");
        assert_eq!(control.may_send(0, 1000, due), Permission::Now);
        control.on_send(&Segment::for_tests(0), due);
        assert_eq!(control.may_send(0, 1000, due), Permission::At(due + Span::from_millis(220)));
    }

    #[test]
    fn two_segments_are_not_timed() {
        let mut control = control(SubTcpForm::Halving);
        control.on_ack(&ack(), Time::ZERO);
        assert_eq!(control.cwnd_bytes(), 2000);
        control.on_send(&Segment::for_tests(0), Time::ZERO);
        assert_eq!(control.may_send(1000, 1000, Time::ZERO), Permission::Now);
    }

    #[test]
    fn an_echo_reaches_one_segment_under_the_rules_of_the_rfcs_too() {
        let tcp = TcpConfig { segment_bytes: 1000, ..TcpConfig::modern(Variant::Sack) };
        let mut control = SubTcpConfig::default().build(&tcp);
        for segments in [10, 5, 2, 1] {
            control.on_congestion(&congestion(Signal::EcnEcho, segments), Time::ZERO);
        }
        assert_eq!((control.cwnd_bytes(), control.scale), (1000, 2.0));
    }

    #[test]
    fn a_damped_rate_rises_slowly_where_congestion_came_and_as_ever_far_from_it() {
        let at = |wnd| damped(wnd, 8.0, 0.9);
        assert_eq!([at(1.0), at(4.0), at(12.0), at(20.0)], [1.0; 4]);
        assert!((at(8.0) - 0.1).abs() < 1e-12 && (at(6.0) - 0.55).abs() < 1e-12);
        assert_eq!(damped(8.0, 0.0, 0.9), 1.0, "nothing is known yet");
        let config = SubTcpConfig { form: SubTcpForm::Bandwidth, damping: 0.5, ..SubTcpConfig::default() };
        let mut control = config.build(&TcpConfig::ns_1999(Variant::Reno));
        control.set(8.0);
        control.on_congestion(&congestion(Signal::EcnEcho, 8), Time::ZERO);
        assert_eq!((control.congested_at, control.effective_segments()), (8.0, 4.0));
        control.set(8.0);
        control.on_ack(&ack(), Time::ZERO);
        assert!((control.effective_segments() - 8.005).abs() < 1e-9, "half of one percent of a segment");
    }

    #[test]
    fn with_evenness_small_windows_rise_by_a_larger_part() {
        for (evenness, expected) in [(0.0, 1.0), (0.5, 4.0), (1.0, 16.0)] {
            let config = SubTcpConfig { form: SubTcpForm::Bandwidth, evenness, ..SubTcpConfig::default() };
            let rise = |wnd: f64| {
                let mut control = config.build(&TcpConfig::ns_1999(Variant::Reno));
                let (cwnd, scale) = split(wnd);
                control.set(cwnd);
                control.scale = scale;
                (0..cwnd as u32).for_each(|_| control.on_ack(&ack(), Time::ZERO));
                control.effective_segments() / wnd - 1.0
            };
            assert!((rise(0.25) / rise(4.0) / expected - 1.0).abs() < 0.02, "{evenness}");
        }
    }

    #[test]
    fn the_bandwidth_based_rate_rises_by_x_in_a_round_trip() {
        for (scale, cwnd, acks) in [(8.0, 1.0, 1), (1.0, 1.0, 1), (1.0, 10.0, 10), (1.0, 64.0, 64)] {
            let mut control = control(SubTcpForm::Bandwidth);
            control.set(cwnd);
            control.scale = scale;
            let before = control.effective_segments();
            (0..acks).for_each(|_| control.on_ack(&ack(), Time::ZERO));
            let rise = control.effective_segments() / before - 1.0;
            assert!((rise - 0.01).abs() < 1e-9, "{rise}");
        }
    }
}
