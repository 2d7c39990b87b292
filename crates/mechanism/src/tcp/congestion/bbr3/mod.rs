//! BBR, version 3: the model of a path that version 1 has, and bounds from losses beside it. Version 1 takes no notice of losses, so that behind a
//! short queue it leaves others nothing; version 3 looks at how much was under way when more than 2 % of it got lost, stays below that for the next
//! seconds and leaves some room for others. It probes seldom, every two to three seconds or as often as Reno would come back from a loss.
//!
//! Source: draft-ietf-ccwg-bbr-05, section 5; its variable names.
//! Deviations:
//! - Losses are judged by acknowledgments and not for each lost packet (`BBRHandleLostPacket`): what was under way when the newest segment that is
//!   acknowledged was sent, and what was found lost since. So `BBRInflightAtLoss` is not needed. In start-up, six acknowledgments of a round trip
//!   that tell of losses stand for six ranges that were lost.
//! - Segments go one by one, so that the send quantum is one segment, and the offload budget three.
//! - What the draft draws at random follows from the bits of the instant, as in `bbr`.
//! - Nothing is undone when a loss turns out to be none (`BBRHandleSpuriousLossDetection`): recovery does not find out.
//! - Marks mean nothing. The draft asks who sets ECT to take them for congestion (section 3.7) and has no law for it: with `ecn` on, queues that
//!   mark in place of dropping hold nothing of it back.
//! - A probe after one that lost too much goes on beyond the bound as any other; version 06 of the draft ends it there ("precautionary").
//! - How often Reno would probe follows from the window before it was closed, while losses are repaired: without RACK a retransmission that is lost
//!   waits for the timer, and what that leaves of the window would let it probe at once.
//! - Whether the window is what limits is seen when an acknowledgment comes.

mod model;
mod phases;
#[cfg(test)]
mod tests;

use tidegate_packet::Dscp;
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use self::model::{MinRtt, Model};
use super::bbr::Came;
use super::{
    Ack, Congestion, CongestionControl, Pacer, Permission, RateSample, Sample, Sampling, Segment, Signal,
    telling,
};
use crate::Variable;
use crate::tcp::config::{TcpConfig, Variant};

/// A gain of the start.
const GAIN: Bound<f64> = telling(
    Bound::above(1.0).and_at_most(100.0),
    " must be above 1 and at most 100",
    "at 1 it never finds a higher rate",
);

parameters! {
    /// # BBR, version 3
    ///
    /// Sends at the rate at which data arrived lately, keeps about two products of that rate and the least round trip under way, and less than what
    /// lost more than 2 % when it last looked.
    ///
    /// Source: draft-ietf-ccwg-bbr-05.
    #[derive(Copy)]
    pub struct Bbr3Config {
        /// By which the pacing rate is above what arrives in the start, so that it doubles in each round trip. Source: section 2.4 (4 ln 2).
        startup_gain: f64 = 2.77 => GAIN;
        /// How many products of rate and round trip the window holds. Source: section 2.5.
        cwnd_gain: f64 = 2.0 => GAIN;
        /// By which part the rate stays below what the model says. Source: section 2.4 (`PacingMarginPercent`).
        pacing_margin: f64 = 0.01
            => telling(
                Bound::at_least(0.0).and_below(1.0),
                " must be at least 0 and below 1",
                "at 1 nothing is sent",
            );
        /// How long the least round trip is believed. Source: section 2.13 (`MinRTTFilterLen`).
        min_rtt_window: Span = Span::from_secs(10) => bound::DURATION;
        /// How often it is looked for with little under way. Source: section 2.13 (`ProbeRTTInterval`).
        probe_rtt_interval: Span = Span::from_secs(5) => bound::DURATION;
        /// For how long. Source: section 2.13 (`ProbeRTTDuration`).
        probe_rtt: Span = Span::from_millis(200) => bound::DURATION;
    }
}

impl Bbr3Config {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Bbr3 {
        let segment_bytes = u64::from(tcp.segment_bytes);
        let initial_segments = tcp.initial_window_segments.max(tcp.minimum_window_segments);
        let initial_bytes = u64::from(initial_segments) * segment_bytes;
        Bbr3 {
            config: *self,
            state: Bbr3State::Startup,
            model: Model::new(),
            min_rtt: MinRtt::NONE,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            delivered: 0,
            in_flight: 0,
            limited_in_round: None,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            cycle_stamp: Time::ZERO,
            probe_wait: Span::ZERO,
            rounds_since_probe: 0,
            probe_samples: false,
            probe_up_rounds: 0,
            probe_up_acks: 0,
            probe_up_count: u64::MAX,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            limited_until: 0,
            idle_restart: false,
            is_repairing: false,
            pacing_gain: self.startup_gain,
            cwnd_gain: self.cwnd_gain,
            // Section 5.6.2: before the first round trip, as if it were 1 ms.
            pacing_rate: self.startup_gain * initial_bytes as f64 / Span::from_millis(1).as_secs_f64(),
            has_seen_rtt: false,
            cwnd_bytes: initial_bytes,
            prior_cwnd_bytes: 0,
            initial_bytes,
            minimum_bytes: u64::from(tcp.minimum_window_segments) * segment_bytes,
            has_sack: tcp.variant == Variant::Sack,
            segment_bytes,
            pacer: Pacer::default(),
        }
    }
}

/// What BBR is about (section 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bbr3State {
    /// Looks for the rate of the bottleneck.
    Startup,
    /// Empties the queue that this made.
    Drain,
    /// Sends less than arrives, until what is under way leaves room for others.
    Down,
    /// Sends at the rate that arrives.
    Cruise,
    /// The same for a round trip, with the bounds of losses lifted.
    Refill,
    /// Sends more than arrives, until a round trip brings no more or loses too much.
    Up,
    /// Measures the round trip without a queue.
    ProbeRtt,
}

/// What acknowledgments that come now are of (`BBR.ack_phase`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// `BBRProbeRTTCwndGain` (section 5.6.1).
const PROBE_RTT_CWND_GAIN: f64 = 0.5;

/// `BBR.MinPipeCwnd` (section 2.7), and the offload budget, in segments.
const MIN_PIPE_SEGMENTS: u64 = 4;
const OFFLOAD_SEGMENTS: u64 = 3;

/// See the module. Rates are payload bytes per second.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the draft, each independent of the others")]
pub struct Bbr3 {
    config: Bbr3Config,
    state: Bbr3State,
    model: Model,
    min_rtt: MinRtt,
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    /// `C.delivered` and `C.inflight`, of the last acknowledgment.
    delivered: u64,
    in_flight: u64,
    /// The last round trip in which the window was what limits.
    limited_in_round: Option<u64>,
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u64,
    ack_phase: AckPhase,
    cycle_stamp: Time,
    probe_wait: Span,
    rounds_since_probe: u64,
    /// `BBR.bw_probe_samples`.
    probe_samples: bool,
    probe_up_rounds: u32,
    probe_up_acks: u64,
    /// How many bytes acknowledged raise the bound by a segment.
    probe_up_count: u64,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// Rates of what was sent before so much was delivered are limited by this control itself.
    limited_until: u64,
    idle_restart: bool,
    is_repairing: bool,
    pacing_gain: f64,
    cwnd_gain: f64,
    pacing_rate: f64,
    has_seen_rtt: bool,
    cwnd_bytes: u64,
    prior_cwnd_bytes: u64,
    initial_bytes: u64,
    minimum_bytes: u64,
    /// `C.has_selective_acks`.
    has_sack: bool,
    segment_bytes: u64,
    pacer: Pacer,
}

impl Bbr3 {
    /// What it is about.
    pub const fn state(&self) -> Bbr3State {
        self.state
    }

    const fn probes_bw(&self) -> bool {
        matches!(self.state, Bbr3State::Down | Bbr3State::Cruise | Bbr3State::Refill | Bbr3State::Up)
    }

    fn min_pipe_bytes(&self) -> u64 {
        (MIN_PIPE_SEGMENTS * self.segment_bytes).max(self.minimum_bytes)
    }

    /// `BBRBDPMultiple`.
    fn bdp(&self, bw: f64, gain: f64) -> u64 {
        self.min_rtt.rtt.map_or(self.initial_bytes, |rtt| (gain * bw * rtt.as_secs_f64()) as u64)
    }

    /// `BBRQuantizationBudget`.
    fn quantized(&self, inflight: u64) -> u64 {
        let probes = if self.state == Bbr3State::Up { 2 * self.segment_bytes } else { 0 };
        inflight.max(OFFLOAD_SEGMENTS * self.segment_bytes).max(self.min_pipe_bytes()) + probes
    }

    /// `BBRInflight`.
    fn inflight(&self, bw: f64, gain: f64) -> u64 {
        self.quantized(self.bdp(bw, gain))
    }

    /// `BBRProbeRTTCwnd`.
    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.model.bw(), PROBE_RTT_CWND_GAIN).max(self.min_pipe_bytes())
    }

    /// `BBRSetPacingRate` (section 5.6.2).
    fn set_pacing_rate(&mut self, gain: f64, srtt: Span) {
        if !self.has_seen_rtt && !srtt.is_zero() {
            self.has_seen_rtt = true;
            self.pacing_rate = self.config.startup_gain * self.initial_bytes as f64 / srtt.as_secs_f64();
        }
        let rate = gain * self.model.bw() * (1.0 - self.config.pacing_margin);
        if rate > 0.0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd_bytes = if !self.is_repairing && self.state != Bbr3State::ProbeRtt {
            self.cwnd_bytes
        } else {
            self.prior_cwnd_bytes.max(self.cwnd_bytes)
        };
    }

    /// `BBRSetCwnd` (section 5.6.4.6).
    fn set_cwnd(&mut self, sample: &Sample) {
        if self.is_repairing && !sample.is_in_recovery {
            self.is_repairing = false;
            self.cwnd_bytes = self.cwnd_bytes.max(self.prior_cwnd_bytes);
        }
        let most = self.bdp(self.model.bw(), self.cwnd_gain) + self.model.aggregation.extra_bytes();
        let max_inflight = self.quantized(most);
        let grown = self.cwnd_bytes + sample.delivered_bytes;
        if self.full_bw_reached {
            self.cwnd_bytes = grown.min(max_inflight);
        } else if self.cwnd_bytes < max_inflight || self.delivered < self.initial_bytes {
            self.cwnd_bytes = grown;
        }
        self.cwnd_bytes = self.cwnd_bytes.max(self.min_pipe_bytes());
        if self.state == Bbr3State::ProbeRtt {
            self.cwnd_bytes = self.cwnd_bytes.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    /// `BBRBoundCwndForModel` (section 5.6.4.7).
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            Bbr3State::Cruise | Bbr3State::ProbeRtt => {
                self.model.inflight_with_headroom(self.segment_bytes, self.min_pipe_bytes())
            }
            Bbr3State::Down | Bbr3State::Refill | Bbr3State::Up => self.model.inflight_longterm,
            Bbr3State::Startup | Bbr3State::Drain => u64::MAX,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(self.min_pipe_bytes());
        self.cwnd_bytes = self.cwnd_bytes.min(cap);
    }

    /// `BBRUpdateModelAndState`, as far as it needs a rate.
    fn update_model(&mut self, rate: RateSample, sample: &Sample, now: Time) {
        let is_app_limited = rate.is_app_limited || rate.prior_delivered_bytes < self.limited_until;
        let rate = RateSample { is_app_limited, ..rate };
        self.model.update_latest_signals(&rate, self.delivered);
        self.update_round(&rate);
        self.model.update_max_bw(&rate);
        let probes = matches!(self.state, Bbr3State::Startup | Bbr3State::Refill | Bbr3State::Up);
        self.model.update_bounds(probes, self.cwnd_bytes);
        let came = Came {
            delivered_bytes: sample.delivered_bytes,
            bw: self.model.bw(),
            unit_bytes: 1,
            cwnd_bytes: self.cwnd_bytes,
            round: self.round_count,
            is_pipe_full: self.full_bw_reached,
        };
        self.model.aggregation.update(&came, now);
        self.check_full_bw(&rate);
        self.check_startup(&rate);
        self.check_drain(now);
        self.update_cycle_phase(&rate, sample, now);
        self.model.advance_latest_signals(&rate);
    }
}

impl CongestionControl for Bbr3 {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("btlbw_bps", "The largest rate at which data arrived lately."),
                Variable::new("rtprop_s", "The least round trip."),
                Variable::new("pacing_gain", "What the rate is of the largest one."),
                Variable::new("pacing_rate_bps", "The rate at which it may send."),
                Variable::new(
                    "inflight_longterm_segments",
                    "What lost too much at the last probe; none before.",
                ),
                Variable::new(
                    "state",
                    "0 start-up, 1 drain, 2 down, 3 cruise, 4 refill, 5 up, 6 probe the round trip.",
                ),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    /// `BBRUpdateOnACK` (section 5.2.3).
    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        (self.delivered, self.in_flight) = (sample.delivered_total_bytes, sample.in_flight_bytes);
        if sample.in_flight_before_bytes + self.segment_bytes > self.cwnd_bytes {
            self.limited_in_round = Some(self.round_count);
        }
        if sample.lost_bytes > 0 {
            self.model.note_loss(self.delivered);
        }
        self.round_start = false;
        if let Some(rate) = sample.rate {
            self.update_model(rate, sample, now);
        }
        let Bbr3Config { probe_rtt_interval, min_rtt_window, .. } = self.config;
        self.min_rtt.update(sample.rtt, probe_rtt_interval, min_rtt_window, now);
        self.check_probe_rtt(sample, now);
        self.set_pacing_rate(self.pacing_gain, ack.srtt);
        self.set_cwnd(sample);
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        match event.signal {
            Signal::Loss | Signal::LossRestart => {
                self.save_cwnd();
                self.is_repairing = true;
            }
            Signal::Timeout => {
                // Section 5.6.4.4.
                self.save_cwnd();
                self.is_repairing = true;
                self.cwnd_bytes = self.minimum_bytes;
            }
            Signal::Idle | Signal::EcnEcho => {}
        }
    }

    /// Section 5.4.1.
    fn on_resume(&mut self, srtt: Span, now: Time) {
        self.idle_restart = true;
        self.model.aggregation.restart(now);
        if self.probes_bw() {
            self.set_pacing_rate(1.0, srtt);
        } else if self.state == Bbr3State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes {
            self.pacer.or_wait(Permission::Now, now)
        } else {
            Permission::No
        }
    }

    #[inline]
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        self.pacer.on_send(segment.payload_bytes, self.pacing_rate, now);
        Dscp::BEST_EFFORT
    }

    /// An echo means nothing to it, and a loss does.
    fn tells_losses_from_echoes(&self) -> bool {
        true
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    /// It has none.
    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn variable(&self, name: &str) -> Option<f64> {
        let segments = |bytes: u64| bytes as f64 / self.segment_bytes as f64;
        match name {
            "cwnd_segments" => Some(segments(self.cwnd_bytes)),
            "btlbw_bps" => Some(self.model.max_bw() * 8.0),
            "rtprop_s" => self.min_rtt.rtt.map(Span::as_secs_f64),
            "pacing_gain" => Some(self.pacing_gain),
            "pacing_rate_bps" => Some(self.pacing_rate * 8.0),
            "inflight_longterm_segments" => {
                (self.model.inflight_longterm < u64::MAX).then(|| segments(self.model.inflight_longterm))
            }
            "state" => Some(f64::from(self.state as u8)),
            _ => None,
        }
    }
}
