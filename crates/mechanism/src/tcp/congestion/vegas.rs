//! Vegas: a window that keeps a few packets in the queue. A control that grows until something is lost fills the queue first; Vegas
//! compares the rate that its window would have without a queue with the one that it has, and stops growing when the difference is
//! a few packets.
//!
//! Source: L. Brakmo and L. Peterson, TCP Vegas: End to End Congestion Avoidance on a Global Internet, JSAC 13(8), 1995, sections
//! III.B and III.C; Linux's `tcp_vegas`, for the form `linux`.
//! Deviations: the retransmissions by fine-grained timers (section III.A) are not here, and a loss halves the window, as in Linux;
//! recovery is the connection's. Slow start ends in both forms at the rate that was reached (Linux); the paper does not say with
//! which window. The base round trip is the least of the connection, forgotten after a silence (Linux). An ECN echo halves. Numbers
//! are real, not whole as in Linux.

use tidegate_parameters::{Bound, parameters, words};
use tidegate_units::{Span, Time};

use super::real_window::RealWindow;
use super::{Ack, Congestion, CongestionControl, Permission, Sample, Sampling, Signal, telling};
use crate::Variable;
use crate::tcp::config::TcpConfig;

words! {
    /// Which Vegas.
    pub enum VegasForm {
        /// Counts the packets that wait; slow start doubles in every second round trip.
        Paper = "paper",
        /// Counts what the window is above that of the base round trip, more where the queue is long; slow start doubles in each round
        /// trip.
        Linux = "linux",
    }
}

/// A number of packets in the queue.
const PACKETS: Bound<f64> = telling(
    Bound::above(0.0).and_at_most(1e6),
    " must be above 0 and at most 1000000",
    "so many packets of a flow are to wait: some, and no more than windows have",
);

parameters! {
    /// # Vegas's window
    ///
    /// Keeps from `alpha` to `beta` packets in the queue, and so loses none where the queue has room for them. It gives way to controls
    /// that fill queues.
    ///
    /// Source: Brakmo and Peterson 1995; Linux.
    #[derive(Copy)]
    pub struct VegasConfig {
        /// Which Vegas. Source: Brakmo and Peterson 1995; Linux.
        form: VegasForm = VegasForm::Paper;
        /// With fewer packets in the queue the window grows by one in a round trip. Source: Linux; the paper has 1 and 2.
        alpha: f64 = 2.0 => PACKETS;
        /// With more packets in the queue the window shrinks by one. Source: Linux; the paper has 3 and 4.
        beta: f64 = 4.0 => PACKETS;
        /// With more packets in the queue slow start ends. Source: the paper, section III.C; Linux.
        gamma: f64 = 1.0 => PACKETS;
    }
    check |config, report| {
        if config.alpha > config.beta {
            report.say("alpha", "alpha is above beta", "at most `beta`: the window rests between them");
        }
    };
}

impl VegasConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Vegas {
        Vegas {
            config: *self,
            window: RealWindow::new(tcp),
            base_rtt: None,
            round_rtt: None,
            round_samples: 0,
            round_end: 0,
            diff: 0.0,
            doubles: true,
            was_repairing: false,
        }
    }
}

/// No round leaves a smaller window (Linux).
const LEAST_SEGMENTS: f64 = 2.0;

/// A round with fewer samples may have none but of delayed acknowledgments (Linux).
const SAMPLES_ENOUGH: u32 = 3;

/// See the module.
#[derive(Clone, Debug)]
pub struct Vegas {
    config: VegasConfig,
    window: RealWindow,
    /// `BaseRTT`.
    base_rtt: Option<Span>,
    /// The least round trip of this round.
    round_rtt: Option<Span>,
    round_samples: u32,
    /// The round ends when this is passed.
    round_end: u64,
    /// The packets in the queue at the end of the last round.
    diff: f64,
    /// Whether slow start grows in this round.
    doubles: bool,
    was_repairing: bool,
}

/// `Diff`: expected less actual rate, times `BaseRTT` (section III.B), `W - W BaseRTT / RTT`: the packets in the queue. Linux has
/// `W (RTT - BaseRTT) / BaseRTT`.
fn diff_of(form: VegasForm, cwnd: f64, base_rtt: f64, rtt: f64) -> f64 {
    match form {
        VegasForm::Paper => cwnd * (rtt - base_rtt) / rtt,
        VegasForm::Linux => cwnd * (rtt - base_rtt) / base_rtt,
    }
}

/// By how much the window changes at the end of a round (section III.B).
fn step(diff: f64, alpha: f64, beta: f64) -> f64 {
    if diff > beta {
        -1.0
    } else if diff < alpha {
        1.0
    } else {
        0.0
    }
}

impl Vegas {
    fn take_rtt(&mut self, rtt: Span) {
        let least = |of: Option<Span>| Some(of.map_or(rtt, |of| of.min(rtt)));
        self.base_rtt = least(self.base_rtt);
        self.round_rtt = least(self.round_rtt);
        self.round_samples += 1;
    }

    fn begin_round(&mut self, sent_until: u64) {
        self.round_end = sent_until;
        self.round_rtt = None;
        self.round_samples = 0;
        self.doubles = self.config.form == VegasForm::Linux || !self.doubles;
    }

    fn grow(&mut self, acked: f64, flight: f64) {
        if self.window.is_in_slow_start() && self.doubles {
            self.window.open_as_reno(acked, flight);
        }
    }

    /// Once for each round trip.
    fn adjust(&mut self, acked: f64, flight: f64) {
        let (Some(base), Some(rtt)) = (self.base_rtt, self.round_rtt) else { return };
        if self.round_samples < SAMPLES_ENOUGH {
            self.window.open_as_reno(acked, flight);
            return;
        }
        let (base, rtt) = (base.as_secs_f64(), rtt.as_secs_f64());
        let VegasConfig { form, alpha, beta, gamma } = self.config;
        let window = &mut self.window;
        self.diff = diff_of(form, window.cwnd, base, rtt);
        if window.is_in_slow_start() {
            if self.diff > gamma {
                window.cwnd = window.cwnd.min(window.cwnd * base / rtt + 1.0);
                window.ssthresh = window.cwnd;
            } else {
                self.grow(acked, flight);
            }
        } else {
            let step = step(self.diff, alpha, beta);
            if step < 0.0 || window.is_used(flight) {
                window.cwnd += step;
            }
            if step < 0.0 {
                window.ssthresh = window.ssthresh.min(window.cwnd);
            }
        }
        self.window.keep_at_least(LEAST_SEGMENTS);
    }

    fn take(&mut self, ack: &Ack, sample: &Sample) {
        let (acked, flight) = (self.window.segments(ack.acked_bytes), self.window.segments(ack.flight_bytes));
        if sample.is_in_recovery {
            // Behind a time-out as Reno, until all is repaired (Linux).
            self.was_repairing = true;
            if sample.opens_window {
                self.window.open_as_reno(acked, flight);
            }
            return;
        }
        if self.was_repairing {
            self.was_repairing = false;
            self.begin_round(sample.sent_until);
            return;
        }
        if !sample.opens_window {
            return;
        }
        if ack.acknowledgment > self.round_end {
            self.adjust(acked, flight);
            self.begin_round(sample.sent_until);
        } else {
            self.grow(acked, flight);
        }
    }
}

impl CongestionControl for Vegas {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("base_rtt_s", "The least round trip."),
                Variable::new("diff_segments", "How many segments of the window it takes to wait."),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    fn on_ack(&mut self, ack: &Ack, _now: Time) {
        let Some(sample) = &ack.sample else { return };
        if let Some(rtt) = sample.rtt.filter(|rtt| !rtt.is_zero()) {
            self.take_rtt(rtt);
        }
        self.take(ack, sample);
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        if event.signal == Signal::Idle {
            self.base_rtt = None;
        }
        let half = self.window.flight_in_window(event) / 2.0;
        self.window.close(event, half);
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
        match name {
            "cwnd_segments" => Some(self.window.cwnd),
            "base_rtt_s" => self.base_rtt.map(Span::as_secs_f64),
            "diff_segments" => Some(self.diff),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;

    const SEGMENT: u64 = 1460;

    /// Rounds of a full window over a path that holds `pipe` segments in 100 ms; what is beyond waits.
    fn rounds(control: &mut Vegas, sent: &mut u64, pipe: f64, number: u32) {
        for _ in 0..number {
            let window = control.window.cwnd;
            let rtt = Span::from_secs_f64(0.1 * (window / pipe).max(1.0));
            for _ in 0..window as u64 {
                *sent += SEGMENT;
                let sample = Sample {
                    opens_window: true,
                    sent_until: *sent + window as u64 * SEGMENT,
                    rtt: Some(rtt),
                    ..Sample::for_tests()
                };
                let ack = Ack {
                    acknowledgment: *sent,
                    acked_bytes: SEGMENT,
                    flight_bytes: control.cwnd_bytes(),
                    srtt: rtt,
                    sample: Some(sample),
                };
                control.on_ack(&ack, Time::ZERO);
            }
        }
    }

    fn vegas(form: VegasForm) -> Vegas {
        VegasConfig { form, ..VegasConfig::default() }.build(&TcpConfig::modern(Variant::Sack))
    }

    #[test]
    fn the_difference_counts_the_packets_that_wait() {
        assert!((diff_of(VegasForm::Paper, 53.0, 0.1, 0.106) - 3.0).abs() < 1e-9);
        assert!((diff_of(VegasForm::Linux, 53.0, 0.1, 0.106) - 3.18).abs() < 1e-9);
        assert_eq!((step(1.9, 2.0, 4.0), step(3.0, 2.0, 4.0), step(4.1, 2.0, 4.0)), (1.0, 0.0, -1.0));
    }

    /// From below and from above the window comes to rest where alpha to beta packets wait.
    #[test]
    fn from_both_sides_alpha_to_beta_packets_come_to_wait() {
        for form in [VegasForm::Paper, VegasForm::Linux] {
            for from in [40.0, 70.0] {
                let (mut control, mut sent) = (vegas(form), 0);
                // The base round trip is seen once.
                rounds(&mut control, &mut sent, 50.0, 1);
                (control.window.cwnd, control.window.ssthresh) = (from, from);
                rounds(&mut control, &mut sent, 50.0, 60);
                let queued = control.window.cwnd - 50.0;
                assert!((1.5..=4.5).contains(&queued), "{form:?} from {from}: {queued}");
                assert!((2.0..=4.0).contains(&control.diff), "{form:?} from {from}: {}", control.diff);
            }
        }
    }

    #[test]
    fn slow_start_doubles_in_every_second_round_and_ends_before_the_queue_is_long() {
        let (mut control, mut sent) = (vegas(VegasForm::Paper), 0);
        rounds(&mut control, &mut sent, 1000.0, 4);
        let slow = control.window.cwnd;
        let (mut linux, mut sent_linux) = (vegas(VegasForm::Linux), 0);
        rounds(&mut linux, &mut sent_linux, 1000.0, 4);
        assert!(linux.window.cwnd > 3.0 * slow, "{} and {slow}", linux.window.cwnd);
        rounds(&mut control, &mut sent, 50.0, 8);
        assert!(!control.window.is_in_slow_start() && control.window.cwnd < 60.0, "{}", control.window.cwnd);
    }

    #[test]
    fn after_a_silence_the_base_round_trip_is_measured_anew() {
        let (mut control, mut sent) = (vegas(VegasForm::Paper), 0);
        rounds(&mut control, &mut sent, 50.0, 2);
        assert!(control.base_rtt.is_some());
        control.on_congestion(&Congestion::for_tests(Signal::Idle, 0), Time::ZERO);
        assert_eq!(control.base_rtt, None);
    }
}
