//! `HyStart++`: a slow start that ends when round trips grow. Slow start doubles until something is lost, and then as much is lost
//! as the path and its queue hold. Here it goes on more slowly when the shortest round trip of a round is longer than that of the
//! round before, and ends if that lasts.
//!
//! Source: RFC 9406, section 4.2; its names.
//! Deviations: what an acknowledgment adds is bounded as in the control's own slow start, by two segments, where the RFC recommends
//! eight (L): with acknowledgments of every second segment that is the same. It acts in the first slow start only, as the RFC
//! recommends: from the first congestion on it is off.

use tidegate_units::Span;

use super::Sample;

/// `MIN_RTT_THRESH` and `MAX_RTT_THRESH`.
const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
/// `MIN_RTT_DIVISOR`.
const MIN_RTT_DIVISOR: u64 = 8;
/// `N_RTT_SAMPLE`.
const N_RTT_SAMPLE: u32 = 8;
/// `CSS_GROWTH_DIVISOR`.
pub(super) const CSS_GROWTH_DIVISOR: u32 = 4;
/// `CSS_ROUNDS`.
const CSS_ROUNDS: u32 = 5;

/// How slow start goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// As ever.
    Slow,
    /// Conservative slow start: a quarter of that.
    Conservative,
    /// It is over.
    Over,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// `windowEnd`.
    window_end: u64,
    /// `lastRoundMinRTT`; none: infinity.
    last_round_min_rtt: Option<Span>,
    /// `currentRoundMinRTT`.
    current_round_min_rtt: Option<Span>,
    /// `rttSampleCount`.
    rtt_sample_count: u32,
    /// `cssBaselineMinRtt`, in conservative slow start.
    css_baseline_min_rtt: Option<Span>,
    css_rounds: u32,
    /// There was congestion.
    is_off: bool,
}

/// `max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))`.
fn rtt_thresh(last_round_min_rtt: Span) -> Span {
    (last_round_min_rtt / MIN_RTT_DIVISOR).min(MAX_RTT_THRESH).max(MIN_RTT_THRESH)
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self {
            window_end: 0,
            last_round_min_rtt: None,
            current_round_min_rtt: None,
            rtt_sample_count: 0,
            css_baseline_min_rtt: None,
            css_rounds: 0,
            is_off: false,
        }
    }

    /// There is congestion, or slow start is over.
    pub(super) const fn switch_off(&mut self) {
        self.is_off = true;
    }

    /// An acknowledgment up to `number` in slow start.
    pub(super) fn on_ack(&mut self, number: u64, sample: &Sample) -> Pace {
        if self.is_off {
            return Pace::Slow;
        }
        if number >= self.window_end && self.begin_round(sample.sent_until) {
            self.is_off = true;
            return Pace::Over;
        }
        if let Some(rtt) = sample.rtt {
            self.current_round_min_rtt = Some(self.current_round_min_rtt.map_or(rtt, |least| least.min(rtt)));
            self.rtt_sample_count += 1;
        }
        self.judge();
        if self.css_baseline_min_rtt.is_some() { Pace::Conservative } else { Pace::Slow }
    }

    /// Whether the last round of conservative slow start is over.
    fn begin_round(&mut self, sent_until: u64) -> bool {
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = None;
        self.rtt_sample_count = 0;
        self.window_end = sent_until;
        // A part of a round counts.
        self.css_rounds += u32::from(self.css_baseline_min_rtt.is_some());
        self.css_rounds >= CSS_ROUNDS
    }

    fn judge(&mut self) {
        let Some(current) = self.current_round_min_rtt else { return };
        if self.rtt_sample_count < N_RTT_SAMPLE {
            return;
        }
        match (self.css_baseline_min_rtt, self.last_round_min_rtt) {
            // The growth was spurious.
            (Some(baseline), _) if current < baseline => self.css_baseline_min_rtt = None,
            (None, Some(last)) if current >= last + rtt_thresh(last) => {
                self.css_baseline_min_rtt = Some(current);
                self.css_rounds = 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of ten acknowledgments each with round trips of `rtts` milliseconds; the pace at the end of each.
    fn paces(rtts: &[u64]) -> Vec<Pace> {
        let mut hystart = HyStart::new();
        let mut number = 0;
        let mut of = |rtt: u64| {
            let mut pace = Pace::Slow;
            for _ in 0..10 {
                number += 1000;
                let sample = Sample {
                    sent_until: number + 10_000,
                    rtt: Some(Span::from_millis(rtt)),
                    ..Sample::for_tests()
                };
                pace = hystart.on_ack(number, &sample);
                if pace == Pace::Over {
                    break;
                }
            }
            pace
        };
        rtts.iter().map(|rtt| of(*rtt)).collect()
    }

    use Pace::{Conservative, Over, Slow};
    use alloc::vec::Vec;

    #[test]
    fn the_threshold_is_an_eighth_between_four_and_sixteen_milliseconds() {
        let of = |ms| rtt_thresh(Span::from_millis(ms));
        assert_eq!((of(8), of(80), of(800)), (MIN_RTT_THRESH, Span::from_millis(10), MAX_RTT_THRESH));
    }

    #[test]
    fn a_round_trip_that_grows_by_the_threshold_slows_the_start_down_and_five_rounds_end_it() {
        assert_eq!(paces(&[80, 80, 89, 90, 91, 92]), [Slow; 6], "never an eighth of it at once");
        let rtts = [80, 80, 90, 100, 110, 120, 130, 140];
        let expected =
            [Slow, Slow, Conservative, Conservative, Conservative, Conservative, Conservative, Over];
        assert_eq!(paces(&rtts), expected);
    }

    #[test]
    fn a_growth_that_was_spurious_is_taken_back() {
        assert_eq!(paces(&[80, 80, 95, 82, 82]), [Slow, Slow, Conservative, Slow, Slow]);
    }

    #[test]
    fn after_congestion_it_says_nothing() {
        let mut hystart = HyStart::new();
        hystart.switch_off();
        for number in 0..100 {
            let sample = Sample {
                sent_until: number + 10,
                rtt: Some(Span::from_millis(number * 20)),
                ..Sample::for_tests()
            };
            assert_eq!(hystart.on_ack(number, &sample), Slow);
        }
    }
}
