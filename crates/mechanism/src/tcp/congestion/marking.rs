//! Packet marking engine inside the source: the congestion window is two windows, one of marked and one of best-effort
//! segments, each with its own threshold. So a connection with a target rate competes for best-effort bandwidth like any
//! other, and marks only what is missing; and it notices where marks are not honoured, and stops.
//!
//! Source: Feng, section 6.4, Figs 6.9 (opening) and 6.10 (closing); section 6.5.3 (detection of missing differentiation).
//! Deviations:
//! - With `PSSTHRESH` above zero, a `PWND` of zero would never grow, for slow start adds a part of it. It starts from one
//!   segment, and `PSSTHRESH` starts at zero.
//! - Which segments carry the marks is spread evenly (the sum of `P_mark` over the segments), not drawn at random.
//! - At or above the target, Fig. 6.9 shrinks `PWND` and leaves `BWND`: the whole window shrinks. [`MarkingSurplus`] chooses between
//!   that and replacing marked by best-effort segments (catalogue, F69-1).
//! - A time-out is not in Fig. 6.10: thresholds as for a marked loss, one segment.
//! - An ECN echo counts as the loss of the segment with whose acknowledgment it begins (with delayed acknowledgments of the
//!   last of two); one that goes on from before, as that of a best-effort segment, and says nothing of differentiation.
//! - "Substantially greater" (section 6.5.3) is a factor, [`MarkingSourceConfig::factor`], of the mean numbers of segments between losses;
//!   it is decided whenever three losses of marked segments would be expected without differentiation, and then counted
//!   anew, so that one odd loss decides nothing. A loss is a segment that is sent again, or an echo; what is sent again after a
//!   time-out was perhaps never lost, and of it only the first one counts.

use alloc::format;

use tidegate_packet::Dscp;
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Span, Time};

use super::sent_marks::SentMarks;
use super::{Ack, Congestion, CongestionControl, Permission, Segment, Signal};
use crate::Variable;
use crate::mark::{EngineMeter, Throughput};
use crate::tcp::config::{Rules, TcpConfig};

words! {
    /// What becomes of marked segments that the target does not need any more.
    pub enum MarkingSurplus {
        /// They are given up.
        GivenUp = "given-up",
        /// They become best-effort segments.
        Replaced = "replaced",
    }
}

/// How much larger gaps between losses must be.
const FACTOR: Bound<f64> = Bound::above(0.0).saying("", " is no factor");

parameters! {
    /// # TCP with a packet marking engine
    ///
    /// A window of marked and one of best-effort segments: the connection competes for best effort like any other and marks
    /// only what its target lacks. It stops marking where marks are not honoured.
    ///
    /// Source: thesis of Feng, sections 6.4 and 6.5.3.
    #[derive(Copy)]
    pub struct MarkingSourceConfig {
        /// The rate that it shall have, on the wire.
        target: BitRate => bound::RATE;
        /// How the throughput is measured. Source: thesis of Feng, section 6.3.
        meter: EngineMeter = EngineMeter::Weighted;
        /// The weight of the newest interval. Source: assumed; slower ones mark for swings that are over
        /// (`feng/6.12-choices`; chapter 6 runs with 0.5).
        weight: f64 = 0.15;
        /// Intervals in the sliding window. Source: assumed, one second.
        windows: u32 = 10;
        /// How often the throughput is measured. Source: thesis of Feng, section 6.3.1.
        interval: Span = Span::from_millis(100) => bound::DURATION;
        /// What becomes of marks above the target. Source: thesis of Feng, Fig. 6.9 as printed.
        surplus: MarkingSurplus = MarkingSurplus::GivenUp;
        /// Whether missing differentiation is noticed. Source: thesis of Feng, section 6.5.3.
        detection: bool = true;
        /// So many times more segments must go between two losses of marked segments than between two of others. Source:
        /// assumed ("substantially greater").
        factor: f64 = 2.0 => FACTOR;
        /// How long marking pauses at first where that is not so; then twice as long each time. Source: assumed.
        pause: Span = Span::from_secs(5) => bound::DURATION;
        /// The longest pause. Source: assumed.
        pause_max: Span = Span::from_secs(64);
        /// Codepoint of marked packets, 0 to 63. Source: RFC 2597 (AF11).
        marked: u8 = Dscp::AF11.get() => bound::CODEPOINT;
        /// Codepoint of the others, 0 to 63. Source: best effort.
        unmarked: u8 = Dscp::BEST_EFFORT.get() => bound::CODEPOINT;
    }
    check |config, report| {
        config.meter.check(config.weight, config.windows, report);
        if config.factor == f64::INFINITY {
            report.say("factor", "inf is no factor", "above 0");
        }
        if config.pause_max < config.pause {
            let message = format!("pause_max ({}) is below pause ({})", config.pause_max, config.pause);
            report.say("pause_max", message, "");
        }
    };
}

impl MarkingSourceConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> MarkingSource {
        assert!(!self.target.is_zero(), "an engine without a target has nothing to do");
        let segment = f64::from(tcp.segment_bytes);
        let awnd = f64::from(tcp.receive_window_bytes) / segment;
        MarkingSource {
            pwnd: 0.0,
            bwnd: f64::from(tcp.initial_window_segments.max(tcp.minimum_window_segments)),
            pssthresh: 0.0,
            bssthresh: tcp.initial_ssthresh_bytes.map_or(awnd, |bytes| bytes as f64 / segment),
            awnd,
            minimum: f64::from(tcp.minimum_window_segments),
            segment_bytes: tcp.segment_bytes,
            counts_acks: tcp.rules == Rules::Ns1999,
            observed: Throughput::new(self.meter.with(self.weight, self.windows), self.interval, Time::ZERO),
            credit: 0.0,
            marks: SentMarks::new(tcp),
            losses: [Losses::default(); 2],
            sent_until: 0,
            resent_until: 0,
            off_until: Time::ZERO,
            pause: if self.detection { self.pause } else { Span::ZERO },
            marked_bytes: 0,
            marked: Dscp::new(self.marked),
            unmarked: Dscp::new(self.unmarked),
            config: *self,
        }
    }
}

/// Segments of one kind since the last decision.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    sent: f64,
    lost: u32,
}

/// So many losses of marked segments must be expected before a decision: fewer say little of a ratio.
const LOSSES_EXPECTED: f64 = 3.0;

const MARKED: usize = 0;
const BEST_EFFORT: usize = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct MarkingSource {
    /// Segments; `CWND` is the sum.
    pwnd: f64,
    bwnd: f64,
    pssthresh: f64,
    bssthresh: f64,
    awnd: f64,
    minimum: f64,
    segment_bytes: u32,
    counts_acks: bool,
    /// `B_o`.
    observed: Throughput,
    /// Marks owed.
    credit: f64,
    marks: SentMarks,
    losses: [Losses; 2],
    /// One past the last byte that was sent.
    sent_until: u64,
    /// What is sent again below this byte says nothing of losses: a time-out made it so.
    resent_until: u64,
    /// Marking is off until then.
    off_until: Time,
    pause: Span,
    marked_bytes: u64,
    marked: Dscp,
    unmarked: Dscp,
    config: MarkingSourceConfig,
}

impl MarkingSource {
    fn cwnd(&self) -> f64 {
        self.pwnd + self.bwnd
    }

    /// `P_mark = PWND / CWND`.
    fn p_mark(&self) -> f64 {
        self.pwnd / self.cwnd()
    }

    fn is_off(&self, now: Time) -> bool {
        now < self.off_until
    }

    /// Fig. 6.9, for an acknowledgment worth `acked` segments.
    fn open(&mut self, acked: f64, below_target: bool) {
        let cwnd = self.cwnd();
        let best_effort = acked * step(self.bwnd, self.bssthresh, cwnd);
        if below_target {
            self.pwnd += acked * step(self.pwnd, self.pssthresh, cwnd);
            self.bwnd += best_effort;
        } else if self.pwnd > 0.0 {
            let surplus = best_effort.min(self.pwnd);
            self.pwnd -= surplus;
            if self.config.surplus == MarkingSurplus::Replaced {
                self.bwnd += surplus;
            }
        } else {
            self.bwnd += best_effort;
        }
        self.keep_minimum();
    }

    /// Fig. 6.10.
    fn close(&mut self, marked_loss: bool) {
        if marked_loss {
            self.pwnd /= 2.0;
            self.bwnd = self.halved(self.bwnd);
            self.pssthresh = self.pwnd;
            self.bssthresh = self.bwnd.max(1.0);
        } else {
            self.bwnd = self.halved(self.bwnd);
            self.bssthresh = self.bwnd.max(1.0);
        }
        self.keep_minimum();
    }

    /// Half a best-effort window: ns halves what is in force, which is whole segments, to whole segments. With the fractions
    /// kept, a connection without marks would get a fifth more than plain TCP beside it.
    fn halved(&self, window: f64) -> f64 {
        if self.counts_acks { libm::floor(libm::floor(window) / 2.0) } else { window / 2.0 }
    }

    fn keep_minimum(&mut self) {
        self.pwnd = self.pwnd.clamp(0.0, self.awnd);
        self.bwnd = self.bwnd.min(self.awnd).max(self.minimum - self.pwnd).max(0.0);
    }

    /// Section 6.5.3: the segment at `sequence` was lost. Does the network tell the two kinds apart?
    fn detect(&mut self, sequence: u64, now: Time) {
        let kind = if self.marks.is_marked(sequence) { MARKED } else { BEST_EFFORT };
        self.losses[kind].lost = self.losses[kind].lost.saturating_add(1);
        let MarkingSourceConfig { detection, factor, pause, pause_max, .. } = self.config;
        if !detection {
            return;
        }
        let [marked, best_effort] = self.losses;
        let expected = expected_losses(marked.sent, best_effort);
        if expected < LOSSES_EXPECTED {
            return;
        }
        self.losses = [Losses::default(); 2];
        if f64::from(marked.lost) * factor > expected {
            self.off_until = now.saturating_add(self.pause);
            self.pause = Span::from_nanos(self.pause.as_nanos().saturating_mul(2)).min(pause_max);
            // "Reverting back to normal TCP": one window, unmarked.
            self.bwnd += self.pwnd;
            self.pwnd = 0.0;
        } else {
            self.pause = pause;
        }
    }
}

impl CongestionControl for MarkingSource {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("priority_window_segments", "The window of marked segments."),
                Variable::new("best_effort_window_segments", "The window of the others."),
                Variable::new("marking_probability", "The part of segments that are marked."),
                Variable::new("marking_pause_s", "The next pause of marking."),
            ]
        }
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let acked = ack.acked_bytes as f64 / f64::from(self.segment_bytes);
        let acked = if self.counts_acks { 1.0 } else { acked.min(2.0) };
        self.observed.advance(now, |_| ());
        let below = self.observed.bytes_per_second() < self.config.target.as_bytes_per_second_f64();
        self.open(acked, below && !self.is_off(now));
    }

    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        match event.signal {
            // The segment is counted as it is sent again.
            Signal::Loss => self.close(self.marks.is_marked(event.sequence)),
            Signal::EcnEcho => match event.echoed {
                None => self.close(false),
                Some(sequence) => {
                    self.close(self.marks.is_marked(sequence));
                    self.detect(sequence, now);
                }
            },
            Signal::LossRestart | Signal::Timeout => {
                if !event.repeated {
                    self.close(true);
                }
                self.detect(event.sequence, now);
                self.resent_until = self.sent_until;
                self.pwnd = 0.0;
                self.bwnd = self.minimum;
            }
            Signal::Idle => {
                self.pwnd = 0.0;
                self.bwnd = self.minimum;
            }
        }
    }

    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, _now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes() {
            Permission::Now
        } else {
            Permission::No
        }
    }

    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if segment.retransmission && segment.sequence >= self.resent_until {
            self.detect(segment.sequence, now);
        }
        self.observed.advance(now, |_| ());
        self.observed.add(segment.wire_bytes);
        self.credit += self.p_mark();
        let marked = self.credit >= 1.0;
        if marked {
            self.credit -= 1.0;
            self.marked_bytes += u64::from(segment.wire_bytes);
        }
        self.sent_until = self.sent_until.max(segment.sequence + u64::from(segment.payload_bytes));
        self.marks.set(segment.sequence, marked);
        self.losses[if marked { MARKED } else { BEST_EFFORT }].sent += 1.0;
        if marked { self.marked } else { self.unmarked }
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd() as u64 * u64::from(self.segment_bytes)
    }

    fn ssthresh_bytes(&self) -> u64 {
        (self.bssthresh * f64::from(self.segment_bytes)) as u64
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.cwnd()),
            "priority_window_segments" => Some(self.pwnd),
            "best_effort_window_segments" => Some(self.bwnd),
            "marking_probability" => Some(self.p_mark()),
            "throughput_bps" => Some(self.observed.bytes_per_second() * 8.0),
            "marked_bytes" => Some(self.marked_bytes as f64),
            "marking_pause_s" => Some(self.pause.as_secs_f64()),
            _ => None,
        }
    }
}

/// How many of `marked` segments would be lost if they were lost as often as best-effort ones.
fn expected_losses(marked: f64, best_effort: Losses) -> f64 {
    if best_effort.sent > 0.0 { marked * f64::from(best_effort.lost) / best_effort.sent } else { 0.0 }
}

/// What an acknowledgment adds to one of the windows: its part of the whole in slow start, `1 / CWND` above the threshold
/// (Fig. 6.9).
fn step(window: f64, threshold: f64, cwnd: f64) -> f64 {
    if window < threshold { window.max(1.0) / cwnd } else { 1.0 / cwnd }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use proptest::prelude::*;

    const NOW: Time = Time::ZERO;

    fn build() -> MarkingSource {
        let tcp = TcpConfig::ns_1999(Variant::NewReno).with_window_packets(200);
        MarkingSourceConfig::with(BitRate::from_mbps(4)).build(&tcp)
    }

    fn windows(pwnd: f64, bwnd: f64) -> MarkingSource {
        MarkingSource { pwnd, bwnd, pssthresh: pwnd, bssthresh: bwnd, ..build() }
    }

    fn ack() -> Ack {
        Ack { acknowledgment: 0, acked_bytes: 1000, flight_bytes: 0, srtt: Span::ZERO, sample: None }
    }

    /// Sends until a segment is marked as wished; its number.
    fn send_until(source: &mut MarkingSource, marked: bool) -> u64 {
        let wanted = if marked { Dscp::AF11 } else { Dscp::BEST_EFFORT };
        (0..1000)
            .find(|&number| source.on_send(&Segment::for_tests(number), NOW) == wanted)
            .expect("sooner or later")
    }

    /// Segment `number` is lost, and sent again.
    fn lose(source: &mut MarkingSource, number: u64, now: Time) {
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, number), now);
        source.on_send(&Segment { retransmission: true, ..Segment::for_tests(number) }, now);
    }

    #[test]
    fn under_ns_rules_without_marks_windows_are_halved_as_plain_tcps() {
        let mut source = windows(0.0, 25.9);
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, 0), NOW);
        assert_eq!((source.bwnd, source.bssthresh), (12.0, 12.0));
    }

    #[test]
    fn what_a_time_out_sends_again_counts_as_one_loss() {
        let mut source = windows(0.0, 20.0);
        (0..20).for_each(|number| {
            source.on_send(&Segment::for_tests(number), NOW);
        });
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::Timeout, 5), NOW);
        (5..20).for_each(|number| {
            source.on_send(&Segment { retransmission: true, ..Segment::for_tests(number) }, NOW);
        });
        assert_eq!(source.losses[BEST_EFFORT].lost, 1);
    }

    #[test]
    fn below_the_target_each_window_grows_by_one_segment_per_round_trip() {
        let mut source = windows(10.0, 20.0);
        (0..30).for_each(|_| source.open(1.0, true));
        assert!((source.pwnd - 11.0).abs() < 0.04 && (source.bwnd - 21.0).abs() < 0.04, "{source:?}");
    }

    #[test]
    fn the_loss_of_a_marked_segment_halves_both_windows_and_else_one() {
        let mut source = windows(10.0, 20.0);
        let marked = send_until(&mut source, true);
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, marked), NOW);
        assert_eq!((source.pwnd, source.bwnd, source.pssthresh, source.bssthresh), (5.0, 10.0, 5.0, 10.0));
        let unmarked = send_until(&mut source, false);
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, unmarked), NOW);
        assert_eq!((source.pwnd, source.bwnd, source.pssthresh, source.bssthresh), (5.0, 5.0, 5.0, 5.0));
    }

    #[test]
    fn above_the_target_marks_are_given_up_or_replaced() {
        for (surplus, whole) in [(MarkingSurplus::GivenUp, 29.0), (MarkingSurplus::Replaced, 30.0)] {
            let mut source = windows(10.0, 20.0);
            source.config.surplus = surplus;
            (0..30).for_each(|_| source.open(1.0, false));
            assert!((source.pwnd - 9.0).abs() < 0.04 && (source.cwnd() - whole).abs() < 0.04, "{source:?}");
        }
    }

    #[test]
    fn without_marks_it_is_reno() {
        let mut source = windows(0.0, 20.0);
        source.config.target = BitRate::from_bps(1);
        source.observed.add(1000);
        source.observed.advance(NOW + Span::from_millis(100), |_| ());
        (0..20).for_each(|_| source.on_ack(&ack(), NOW + Span::from_millis(100)));
        assert!(source.pwnd == 0.0 && (source.bwnd - 21.0).abs() < 0.03, "{source:?}");
    }

    #[test]
    fn the_part_of_marked_segments_is_the_marking_probability() {
        let mut source = windows(5.0, 15.0);
        let marked = (0..1000).filter(|&n| source.on_send(&Segment::for_tests(n), NOW) == Dscp::AF11).count();
        assert_eq!(marked, 250);
    }

    #[test]
    fn marking_pauses_where_marks_are_lost_as_often_and_the_pause_doubles() {
        let mut source = windows(50.0, 50.0);
        let mut pauses = alloc::vec::Vec::new();
        let mut now = NOW;
        for number in 0..20_000u64 {
            now += Span::from_millis(2);
            let was_off = source.is_off(now);
            if !was_off && source.pwnd == 0.0 {
                (source.pwnd, source.bwnd) = (50.0, 50.0);
            }
            source.on_send(&Segment::for_tests(number), now);
            // Every fortieth segment is lost, whatever it carries (with what is sent again 41, which is odd: both kinds are hit).
            if number % 40 == 0 {
                lose(&mut source, number, now);
                (source.pwnd, source.bwnd) = if source.is_off(now) { (0.0, 100.0) } else { (50.0, 50.0) };
                if source.is_off(now) && !was_off {
                    pauses.push(source.off_until.since(now).as_secs_f64());
                }
            }
        }
        assert!(pauses.len() >= 2 && pauses[0] == 5.0 && pauses[1] == 10.0, "{pauses:?}");
    }

    #[test]
    fn echoes_tell_differentiation_apart_as_losses_do() {
        for differentiates in [true, false] {
            let mut source = windows(50.0, 50.0);
            let mut pauses = 0;
            for number in 0..5_000u64 {
                let marked = source.on_send(&Segment::for_tests(number), NOW) == Dscp::AF11;
                if number % 41 == 0 && !(marked && differentiates) {
                    source.on_congestion(&Congestion::of_segment_for_tests(Signal::EcnEcho, number), NOW);
                    // What goes on from before tells nothing.
                    let later = Congestion {
                        echoed: None,
                        ..Congestion::of_segment_for_tests(Signal::EcnEcho, number)
                    };
                    source.on_congestion(&later, NOW);
                    pauses += u32::from(source.is_off(NOW));
                    source.off_until = NOW;
                    (source.pwnd, source.bwnd) = (50.0, 50.0);
                }
            }
            assert_eq!(pauses == 0, differentiates, "{pauses}");
        }
    }

    #[test]
    fn the_echo_of_a_marked_segment_halves_both_windows() {
        let mut source = windows(10.0, 20.0);
        let marked = send_until(&mut source, true);
        source.on_congestion(&Congestion::of_segment_for_tests(Signal::EcnEcho, marked), NOW);
        assert_eq!((source.pwnd, source.bwnd), (5.0, 10.0));
    }

    #[test]
    fn marking_goes_on_where_only_best_effort_is_lost() {
        let mut source = windows(50.0, 50.0);
        source.pause = Span::from_secs(40);
        for number in 0..5_000u64 {
            let marked = source.on_send(&Segment::for_tests(number), NOW) == Dscp::AF11;
            if !marked && number % 41 == 0 {
                lose(&mut source, number, NOW);
                (source.pwnd, source.bwnd) = (50.0, 50.0);
            }
        }
        assert!(!source.is_off(NOW));
        assert_eq!(source.pause, Span::from_secs(5), "differentiation was seen");
    }

    proptest! {
        #[test]
        fn the_window_stays_above_one_segment_and_the_probability_between_0_and_1(
            events in prop::collection::vec((0u8..9, 0u64..500), 1..400),
        ) {
            let mut source = build();
            let mut now = NOW;
            for (number, (event, wait)) in (0u64..).zip(events) {
                now += Span::from_millis(wait);
                let marked = source.on_send(&Segment::for_tests(number), now);
                prop_assert!(marked == Dscp::AF11 || marked == Dscp::BEST_EFFORT);
                match event {
                    0 => source.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, number), now),
                    1 => source.on_congestion(&Congestion::of_segment_for_tests(Signal::Timeout, number), now),
                    2 => source.on_congestion(&Congestion::of_segment_for_tests(Signal::EcnEcho, number), now),
                    3 => source.on_congestion(&Congestion::of_segment_for_tests(Signal::Idle, number), now),
                    _ => source.on_ack(&ack(), now),
                }
                prop_assert!(source.cwnd() >= 1.0 && source.cwnd_bytes() >= 1000);
                prop_assert!((0.0..=1.0).contains(&source.p_mark()));
            }
        }
    }
}
