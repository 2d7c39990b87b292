//! Prague: DCTCP for the Internet. It reduces in proportion to marks as DCTCP does, so that two marks in each round trip are enough to hold
//! any window and the queue can be short; but it lives beside flows with other round trips and in networks that drop, so that it grows
//! as if no round trip were short, sends at a pace, and takes a loss for what it is.
//!
//! Source: draft-briscoe-iccrg-prague-congestion-control-04, section 2; RFC 9331, section 4.3 (what such a control must do); for what the
//! draft leaves to it, the reference for Linux (`tcp_prague.c`). The share of marks is DCTCP's (RFC 8257).
//! Deviations:
//! - The fallback where a bottleneck marks ECT(1) as RFC 3168 has it (`classic_aqm`; RFC 9331, section 4.3, asks for one) is an option, as in
//!   Linux: the draft calls its heuristic research. Without it Prague takes more than its share in a FIFO that marks as it would drop.
//! - Windows end at two segments, as in Linux (section 4.3 of RFC 9331 wants smaller ones).
//! - Each segment has its own pace; the reference sends bursts of a quarter of a millisecond. There is no Cubic beside it for long
//!   round trips, and losses are Reno's.
//! - The window grows if at least half of it is used; Linux asks whether it was the limit, which a pace hides.
//! - It has no other control to turn to where marks are not counted accurately; configure `ecn_feedback` otherwise at one's own risk.

use alloc::boxed::Box;

use tidegate_packet::Dscp;
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use super::classic_aqm::ClassicAqm;
use super::dctcp::{alpha_after, kept};
use super::{
    Ack, Congestion, CongestionControl, Pacer, Permission, Sample, Sampling, Segment, Signal, telling,
};
use crate::Variable;
use crate::tcp::config::TcpConfig;

parameters! {
    /// # Prague's window
    ///
    /// Closes in proportion to how much was marked, and opens as if no round trip were shorter than `rtt_virtual`. It turns `ecn` to `l4s`
    /// and `ecn_feedback` to `accurate`.
    ///
    /// Source: draft-briscoe-iccrg-prague-congestion-control-04.
    #[derive(Copy)]
    pub struct PragueConfig {
        /// The weight of the last round trip in `alpha`. Source: the draft, section 2.3.2; RFC 8257.
        g: f64 = 1.0 / 16.0
            => telling(
                Bound::above(0.0).and_at_most(1.0),
                " must be above 0 and at most 1",
                "a weight in an average: at 0 no round trip counts",
            );
        /// `alpha` before the first mark. Source: `tcp_prague.c`.
        initial_alpha: f64 = 1.0 => bound::PROBABILITY;
        /// Flows with shorter round trips get the same rate as one with this. Source: `tcp_prague.c` (`prague_rtt_target`).
        rtt_virtual: Span = Span::from_millis(25) => bound::DURATION;
        /// So many round trips after slow start that begins to hold: short flows are not slowed. Source: `tcp_prague.c`
        /// (`prague_rtt_transition`).
        transition: u32 = 500;
        /// Whether it looks for a queue that marks it as all others, by how long and how varied the delay is, and then gives way as others
        /// do. Source: RFC 9331, section 4.3; `tcp_prague.c` (`prague_ecn_fallback`, off as here).
        classic_fallback: bool = false;
    }
}

impl PragueConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Prague {
        let segment = f64::from(tcp.segment_bytes);
        let initial = f64::from(tcp.initial_window_segments.max(tcp.minimum_window_segments));
        Prague {
            config: *self,
            cwnd: initial,
            ssthresh: tcp.initial_ssthresh_bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / segment),
            alpha: self.initial_alpha,
            has_seen_marks: false,
            bytes_acked: 0,
            bytes_marked: 0,
            window_end: 0,
            alpha_at: Time::ZERO,
            reduced_at: None,
            rounds: 0,
            srtt: Span::ZERO,
            in_flight: 0.0,
            pacer: Pacer::default(),
            classic: self.classic_fallback.then(|| ClassicAqm::new().into()),
            initial,
            least: f64::from(tcp.minimum_window_segments),
            segment,
        }
    }
}

/// What a reduction leaves at least, in segments (`MIN_CWND`).
const MINIMUM: f64 = 2.0;

/// See the module. Windows are in segments, with their fractions.
#[derive(Clone, Debug)]
pub struct Prague {
    config: PragueConfig,
    cwnd: f64,
    ssthresh: f64,
    /// How much was marked, smoothed over round trips.
    alpha: f64,
    /// There is a queue on the path that marks.
    has_seen_marks: bool,
    bytes_acked: u64,
    bytes_marked: u64,
    /// Where the present round trip ends.
    window_end: u64,
    /// When `alpha` was last renewed.
    alpha_at: Time,
    /// When marks last reduced the window.
    reduced_at: Option<Time>,
    /// Round trips since slow start.
    rounds: u32,
    srtt: Span,
    in_flight: f64,
    pacer: Pacer,
    /// What is known of the queue that marks, where it looks for a classic one.
    classic: Option<Box<ClassicAqm>>,
    initial: f64,
    /// What a time-out leaves.
    least: f64,
    segment: f64,
}

/// How many segments one round trip adds: as many that the rate grows as with the virtual round trip (`tcp_prague.c`,
/// `prague_rate_scaled_ai_ack_increase`): `(RTT / RTT_virt)^2`, at most one.
fn increase_of(srtt: Span, rtt_virtual: Span) -> f64 {
    if srtt.is_zero() || srtt >= rtt_virtual {
        return 1.0;
    }
    let ratio = srtt.as_secs_f64() / rtt_virtual.as_secs_f64();
    ratio * ratio
}

/// Segments per second: the window in a round trip, twice that far below the threshold (`prague_update_pacing_rate`).
fn pace(cwnd: f64, ssthresh: f64, in_flight: f64, srtt: Span) -> f64 {
    let gain = if cwnd < ssthresh / 2.0 { 2.0 } else { 1.0 };
    gain * cwnd.max(in_flight) / srtt.as_secs_f64()
}

impl Prague {
    fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    fn is_rtt_independent(&self) -> bool {
        !self.is_in_slow_start() && self.rounds >= self.config.transition
    }

    /// Whether a virtual round trip has passed since, where the own one does not count alone.
    fn has_passed(&self, since: Time, now: Time) -> bool {
        !self.is_rtt_independent() || now.since(since) >= self.config.rtt_virtual
    }

    /// The draft, section 2.3.2: once for each round trip, and virtual round trip.
    fn observe(&mut self, ack: &Ack, sample: &Sample, now: Time) {
        self.bytes_acked += sample.delivered_bytes;
        self.bytes_marked += sample.marked_bytes;
        self.has_seen_marks |= sample.marked_bytes > 0;
        if ack.acknowledgment < self.window_end
            || self.bytes_acked == 0
            || !self.has_passed(self.alpha_at, now)
        {
            return;
        }
        if self.has_seen_marks {
            // More marks than bytes: feedback told of segments that are not acknowledged yet.
            let m = (self.bytes_marked as f64 / self.bytes_acked as f64).min(1.0);
            self.alpha = alpha_after(self.alpha, self.config.g, m);
            self.alpha_at = now;
            if let Some(classic) = &mut self.classic {
                classic.on_round();
            }
        }
        self.window_end = sample.sent_until;
        self.bytes_acked = 0;
        self.bytes_marked = 0;
        if !self.is_in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Each segment that arrived without a mark opens the window, whatever else was marked (section 2.4.3).
    fn open(&mut self, ack: &Ack, sample: &Sample) {
        let acked = sample.delivered_bytes.saturating_sub(sample.marked_bytes) as f64 / self.segment;
        let is_used = 2.0 * ack.flight_bytes as f64 >= self.cwnd * self.segment;
        // Behind a time-out it comes back by slow start, to what was left (`tcp_prague.c`, `prague_update_cwnd`).
        let is_closed = sample.is_in_recovery && !self.is_in_slow_start();
        if acked <= 0.0 || is_closed || !is_used {
            return;
        }
        if self.is_in_slow_start() {
            self.cwnd += acked;
            return;
        }
        let increase =
            if self.is_rtt_independent() { increase_of(ack.srtt, self.config.rtt_virtual) } else { 1.0 };
        self.cwnd += acked * increase / self.cwnd;
    }

    /// Section 2.4.2: in proportion to `alpha`, once for each round trip, and virtual round trip.
    fn reduce_for_marks(&mut self, now: Time) {
        if self.reduced_at.is_some_and(|before| !self.has_passed(before, now)) {
            return;
        }
        self.reduced_at = Some(now);
        let alpha = self.classic.as_ref().map_or(self.alpha, |classic| classic.answered(self.alpha));
        self.cwnd = (self.cwnd * kept(alpha)).max(MINIMUM).max(self.least);
        self.ssthresh = self.cwnd;
        if let Some(classic) = &mut self.classic {
            classic.on_reduction(self.ssthresh);
        }
    }
}

impl CongestionControl for Prague {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("alpha", "How much was marked, smoothed over round trips."),
                Variable::new("rounds", "Round trips since slow start."),
                Variable::new(
                    "classic_ecn",
                    "With `classic_fallback`: how sure it is that the queue marks as it would drop, from 0 to 17; from 8 on it answers.",
                ),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        if self.classic.is_some() { Sampling::Rates } else { Sampling::Acks }
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        self.srtt = ack.srtt;
        self.in_flight = sample.in_flight_bytes as f64 / self.segment;
        if let (Some(classic), Some(rtt)) = (&mut self.classic, sample.rtt) {
            classic.on_sample(rtt);
        }
        self.open(ack, sample);
        self.observe(ack, sample, now);
    }

    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        match event.signal {
            Signal::EcnEcho => self.reduce_for_marks(now),
            Signal::Idle => self.cwnd = self.cwnd.min(self.initial),
            // Section 2.4.1: as any other TCP.
            Signal::Loss | Signal::LossRestart | Signal::Timeout => {
                if !event.repeated {
                    self.ssthresh = (self.cwnd / 2.0).max(MINIMUM).max(self.least);
                }
                self.cwnd = if event.signal == Signal::Loss { self.ssthresh } else { self.least };
            }
        }
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes() {
            self.pacer.or_wait(Permission::Now, now)
        } else {
            Permission::No
        }
    }

    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if !self.srtt.is_zero() {
            let rate = pace(self.cwnd, self.ssthresh, self.in_flight, self.srtt) * self.segment;
            self.pacer.on_send(segment.payload_bytes, rate, now);
        }
        Dscp::BEST_EFFORT
    }

    /// As the reference does: marks are answered in proportion, and a loss by half.
    fn tells_losses_from_echoes(&self) -> bool {
        true
    }

    fn is_paced(&self) -> bool {
        true
    }

    #[inline]
    fn cwnd_bytes(&self) -> u64 {
        (self.cwnd * self.segment) as u64
    }

    fn ssthresh_bytes(&self) -> u64 {
        (self.ssthresh * self.segment) as u64
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.cwnd),
            "alpha" => Some(self.alpha),
            "rounds" => Some(f64::from(self.rounds)),
            "classic_ecn" => Some(self.classic.as_ref().map_or(0.0, |classic| classic.score())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Seed, Substream};
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    fn prague(config: PragueConfig) -> Prague {
        config.build(&TcpConfig::modern(Variant::Sack))
    }

    /// In congestion avoidance at `cwnd`, with round trips of the virtual length only.
    fn at_window(cwnd: f64) -> Prague {
        let mut control = prague(PragueConfig { transition: 0, ..PragueConfig::default() });
        (control.cwnd, control.ssthresh, control.alpha) = (cwnd, cwnd, 0.0);
        control
    }

    /// A path of a constant round trip that marks a share of packets, each by a draw.
    struct Path {
        rtt: Span,
        share: f64,
        draws: Substream,
        sent: u64,
        reduced_at: u64,
        now: Time,
    }

    impl Path {
        fn new(rtt: Span, share: f64) -> Self {
            Self { rtt, share, draws: Substream::new(Seed(7)), sent: 0, reduced_at: 0, now: Time::ZERO }
        }

        /// A round trip in which a window is acknowledged, segment by segment; the echo of a mark comes once for each window.
        fn round(&mut self, control: &mut Prague) {
            let segments = control.cwnd as u64;
            for number in 1..=segments {
                self.now += Span::from_nanos(self.rtt.as_nanos() / segments);
                self.sent += 1;
                let marked = self.draws.chance(self.share);
                if marked && self.sent > self.reduced_at {
                    self.reduced_at = self.sent + segments;
                    let bytes = control.cwnd_bytes();
                    control.on_congestion(&Congestion::for_tests(Signal::EcnEcho, bytes), self.now);
                }
                control.on_ack(&ack(self.sent, number, segments, marked, self.rtt), self.now);
            }
        }

        /// The mean window of so many rounds, after twice as many.
        fn mean(&mut self, control: &mut Prague, rounds: u32) -> f64 {
            (0..2 * rounds).for_each(|_| self.round(control));
            let sum: f64 = (0..rounds)
                .map(|_| {
                    self.round(control);
                    control.cwnd
                })
                .sum();
            sum / f64::from(rounds)
        }
    }

    fn ack(sent: u64, number: u64, segments: u64, marked: bool, srtt: Span) -> Ack {
        let sample = Sample {
            opens_window: !marked,
            is_in_recovery: false,
            delivered_bytes: SEGMENT,
            delivered_total_bytes: sent * SEGMENT,
            lost_bytes: 0,
            marked_bytes: if marked { SEGMENT } else { 0 },
            in_flight_before_bytes: segments * SEGMENT,
            in_flight_bytes: (segments - 1) * SEGMENT,
            sent_until: (sent + segments - number) * SEGMENT,
            rtt: None,
            rate: None,
        };
        Ack {
            acknowledgment: sent * SEGMENT,
            acked_bytes: SEGMENT,
            flight_bytes: segments * SEGMENT,
            srtt,
            sample: Some(sample),
        }
    }

    /// The window in a balance, times the share of marks: two marks in a round trip, if each one had its reduction. A reduction waits for the
    /// first mark after a round trip, `1 / x` round trips on average, in which the window grows too: `x / 2 = (1 - p) (1 + 1 / x)`.
    fn marks_in_a_round_trip(share: f64) -> f64 {
        let growth = 1.0 - share;
        growth + libm::sqrt(growth * growth + 2.0 * growth)
    }

    #[test]
    fn the_window_settles_where_marks_and_growth_balance() {
        for share in [0.01, 0.02, 0.05, 0.1, 0.2] {
            let mut control = Prague { config: PragueConfig::default(), ..at_window(2.0 / share) };
            control.config.transition = u32::MAX;
            control.alpha = share;
            let mean = Path::new(Span::from_millis(25), share).mean(&mut control, 4000);
            let law = marks_in_a_round_trip(share) / share;
            assert!((mean / law - 1.0).abs() < 0.12, "{share}: {mean}, and {law} by the law");
        }
    }

    #[test]
    fn below_the_virtual_round_trip_the_rate_is_that_of_the_virtual_one() {
        // Where each virtual round trip has a mark, its reduction is the same whatever the own one is: two marks in a virtual round trip.
        let rate = |millis| {
            let rtt = Span::from_millis(millis);
            let mut control = Prague { alpha: 0.02, ..at_window(40.0) };
            Path::new(rtt, 0.02).mean(&mut control, 8000) / rtt.as_secs_f64()
        };
        let short = [5, 10].map(rate);
        let law = marks_in_a_round_trip(0.02) / 0.02 / 0.025;
        for found in short {
            assert!((found / law - 1.0).abs() < 0.12, "{short:?}, and {law} by the law");
        }
    }

    #[test]
    fn a_round_trip_adds_the_square_of_its_part_of_the_virtual_one() {
        let ms = Span::from_millis;
        for (millis, segments) in [(5, 0.04), (10, 0.16), (25, 1.0), (100, 1.0)] {
            assert!((increase_of(ms(millis), ms(25)) - segments).abs() < 1e-12, "{millis}");
        }
        let mut control = at_window(100.0);
        Path::new(ms(5), 0.0).round(&mut control);
        assert!((control.cwnd - 100.04).abs() < 1e-4, "{}", control.cwnd);
        // Before the transition it adds a segment.
        let mut early = Prague { config: PragueConfig::default(), ..at_window(100.0) };
        Path::new(ms(5), 0.0).round(&mut early);
        assert!((early.cwnd - 101.0).abs() < 0.01, "{}", early.cwnd);
    }

    #[test]
    fn marks_reduce_by_half_of_alpha_once_for_each_virtual_round_trip_and_a_loss_by_half() {
        let mut control = Prague { alpha: 0.1, ..at_window(100.0) };
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let echo = Congestion::for_tests(Signal::EcnEcho, 100 * SEGMENT);
        control.on_congestion(&echo, at(100));
        assert_eq!(control.cwnd, 95.0);
        control.on_congestion(&echo, at(124));
        assert_eq!(control.cwnd, 95.0, "less than 25 ms after");
        control.on_congestion(&echo, at(125));
        assert_eq!(control.cwnd, 95.0 * 0.95);
        control.cwnd = 100.0;
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 100 * SEGMENT), at(126));
        assert_eq!((control.cwnd, control.ssthresh), (50.0, 50.0));
        control.on_congestion(&Congestion::for_tests(Signal::Timeout, 50 * SEGMENT), at(127));
        assert_eq!((control.cwnd, control.ssthresh), (1.0, 25.0));
    }

    #[test]
    fn behind_a_time_out_slow_start_leads_back_to_what_was_left_while_losses_are_repaired() {
        let mut control = at_window(40.0);
        control.on_congestion(&Congestion::for_tests(Signal::Timeout, 40 * SEGMENT), Time::ZERO);
        let repair = |of: &mut Prague| {
            let mut ack = ack(1, 1, of.cwnd.max(1.0) as u64, false, Span::from_millis(25));
            ack.sample.as_mut().expect("it has one").is_in_recovery = true;
            of.on_ack(&ack, Time::ZERO);
        };
        (0..19).for_each(|_| repair(&mut control));
        assert_eq!((control.cwnd, control.ssthresh), (20.0, 20.0));
        repair(&mut control);
        assert_eq!(control.cwnd, 20.0, "more when all is repaired");
        // A fast recovery begins at the threshold.
        control.on_congestion(&Congestion::for_tests(Signal::Loss, 20 * SEGMENT), Time::ZERO);
        repair(&mut control);
        assert_eq!(control.cwnd, 10.0);
    }

    #[test]
    fn alpha_waits_for_the_first_mark_which_ends_slow_start_with_half_of_the_window() {
        let mut control = prague(PragueConfig::default());
        let mut path = Path::new(Span::from_millis(25), 0.0);
        (0..3).for_each(|_| path.round(&mut control));
        assert_eq!((control.alpha, control.cwnd, control.rounds), (1.0, 80.0, 0));
        control.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 80 * SEGMENT), path.now);
        assert_eq!((control.cwnd, control.ssthresh), (40.0, 40.0));
    }

    #[test]
    fn two_segments_are_left_however_much_is_marked() {
        let mut control = Prague { alpha: 1.0, ..at_window(100.0) };
        for second in 1..40 {
            let now = Time::ZERO + Span::from_secs(second);
            control.on_congestion(&Congestion::for_tests(Signal::EcnEcho, 1 << 30), now);
        }
        assert_eq!(control.cwnd, 2.0);
    }

    #[test]
    fn segments_go_a_window_in_a_round_trip_apart_and_twice_as_fast_in_slow_start() {
        let ms = Span::from_millis;
        assert_eq!(pace(100.0, 100.0, 0.0, ms(50)), 2000.0);
        assert_eq!(pace(100.0, 250.0, 0.0, ms(50)), 4000.0);
        assert_eq!(pace(100.0, 100.0, 120.0, ms(50)), 2400.0);
        let mut control = at_window(100.0);
        control.srtt = ms(50);
        let segment = Segment { payload_bytes: 1460, ..Segment::for_tests(0) };
        control.on_send(&segment, Time::ZERO);
        let next = Time::ZERO + Span::from_micros(500);
        assert_eq!(control.may_send(0, 1460, Time::ZERO), Permission::At(next));
        assert_eq!(control.may_send(0, 1460, next), Permission::Now);
    }
}
