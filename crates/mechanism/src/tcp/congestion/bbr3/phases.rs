//! Which phase BBR, version 3, is in, and when it goes on to the next one.
//!
//! Source: draft-ietf-ccwg-bbr-05, sections 5.3 and 5.4; `AckPhase::Init` behind a probe is that of version 06 and of Google's Linux.
//! Deviations: those of the module above.

use tidegate_units::{Span, Time};

use super::model::loses_too_much;
use super::{AckPhase, Bbr3, Bbr3State, PROBE_RTT_CWND_GAIN};
use crate::tcp::congestion::bbr::scattered;
use crate::tcp::congestion::{RateSample, Sample};

/// `BBRDrainPacingGain`, and those of the phases (section 5.6.1).
const DRAIN_GAIN: f64 = 0.5;
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const UP_CWND_GAIN: f64 = 2.25;

/// The pipe is full when so many round trips in a row raised the rate by less than a quarter (section 5.3.1.2).
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// `BBRStartupFullLossCnt` (section 5.3.1.3).
const STARTUP_LOSSES: u32 = 6;
/// A drain that takes longer is over in any case (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Where Reno would take longer to come back from a loss, probes do not wait for it (section 5.3.3.5.1).
const RENO_ROUNDS: u64 = 63;
/// `BBR.bw_probe_up_rounds` at most.
const UP_ROUNDS: u32 = 30;

impl Bbr3 {
    /// `IsInflightTooHigh` (section 5.5.10.2): where nothing is said of what arrived, any loss counts.
    fn is_too_high(&self, rate: &RateSample) -> bool {
        loses_too_much(rate) || (rate.lost_bytes > 0 && !self.has_sack)
    }

    /// `BBRTargetInflight`.
    fn target_inflight(&self) -> u64 {
        self.bdp(self.model.bw(), 1.0).min(self.cwnd_bytes)
    }

    /// `C.is_cwnd_limited`: at any point in the last round trip (section 2.1).
    fn is_cwnd_limited(&self) -> bool {
        self.limited_in_round.is_some_and(|round| round + 1 >= self.round_count)
    }

    const fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    /// `BBRUpdateRound`.
    pub(super) fn update_round(&mut self, rate: &RateSample) {
        self.round_start = rate.prior_delivered_bytes >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe += 1;
        }
    }

    const fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// `BBRCheckFullBWReached` (section 5.3.1.2).
    pub(super) fn check_full_bw(&mut self, rate: &RateSample) {
        if self.full_bw_now || !self.round_start || rate.is_app_limited {
            return;
        }
        let bw = rate.bytes_per_second();
        if bw >= self.full_bw * FULL_GROWTH {
            self.reset_full_bw();
            self.full_bw = bw;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// `BBRCheckStartupDone`, with high losses (section 5.3.1.3).
    pub(super) fn check_startup(&mut self, rate: &RateSample) {
        let enough = if self.has_sack { STARTUP_LOSSES } else { 1 };
        let loses = self.model.loss_round_start && self.model.loss_events >= enough;
        if !self.full_bw_reached && self.is_repairing && loses && self.is_too_high(rate) {
            self.full_bw_reached = true;
            self.model.inflight_longterm = self.bdp(self.model.max_bw(), 1.0).max(self.model.inflight_latest);
        }
        if self.state == Bbr3State::Startup && self.full_bw_reached {
            self.state = Bbr3State::Drain;
            self.pacing_gain = DRAIN_GAIN;
            self.cwnd_gain = self.config.cwnd_gain;
            self.drain_start_round = self.round_count;
        }
    }

    /// `BBRCheckDrainDone`.
    pub(super) fn check_drain(&mut self, now: Time) {
        let is_late = self.round_count > self.drain_start_round + DRAIN_ROUNDS;
        if self.state == Bbr3State::Drain
            && (self.in_flight <= self.inflight(self.model.bw(), 1.0) || is_late)
        {
            self.start_down(now);
        }
    }

    /// `BBRStartProbeBW_DOWN`.
    fn start_down(&mut self, now: Time) {
        self.model.reset_signals();
        self.probe_up_count = u64::MAX;
        // `BBRPickProbeWait`.
        self.rounds_since_probe = scattered(now, 2);
        self.probe_wait = Span::from_millis(2000 + scattered(now + Span::from_nanos(1), 1001));
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.set_phase(Bbr3State::Down, DOWN_GAIN, self.config.cwnd_gain);
    }

    /// `BBRStartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.model.reset_short_term();
        self.probe_up_rounds = 0;
        self.probe_up_acks = 0;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.set_phase(Bbr3State::Refill, 1.0, self.config.cwnd_gain);
    }

    /// `BBRStartProbeBW_UP`.
    fn start_up(&mut self, rate: &RateSample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = rate.bytes_per_second();
        self.set_phase(Bbr3State::Up, UP_GAIN, UP_CWND_GAIN);
        self.raise_slope();
    }

    const fn set_phase(&mut self, state: Bbr3State, pacing_gain: f64, cwnd_gain: f64) {
        self.state = state;
        self.pacing_gain = pacing_gain;
        self.cwnd_gain = cwnd_gain;
    }

    /// `BBRRaiseInflightLongtermSlope`: twice as fast in each round trip.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(UP_ROUNDS);
        self.probe_up_count = (self.cwnd_bytes / growth).max(self.segment_bytes);
    }

    /// `BBRProbeInflightLongtermUpward`.
    fn probe_upward(&mut self, sample: &Sample) {
        if !self.is_cwnd_limited() || self.cwnd_bytes < self.model.inflight_longterm {
            return;
        }
        self.probe_up_acks += sample.delivered_bytes;
        if self.probe_up_acks >= self.probe_up_count {
            let segments = self.probe_up_acks / self.probe_up_count;
            self.probe_up_acks -= segments * self.probe_up_count;
            self.model.inflight_longterm += segments * self.segment_bytes;
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    /// `BBRAdaptLongTermModel`, and `BBRHandleInflightTooHigh`.
    fn adapt_long_term(&mut self, rate: &RateSample, sample: &Sample, now: Time) {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.probes_bw() && !rate.is_app_limited {
                self.model.advance_max_bw_filter();
            }
        }
        if self.is_too_high(rate) {
            if self.probe_samples {
                self.probe_samples = false;
                self.model.bound_long_term(rate, self.target_inflight());
                if self.state == Bbr3State::Up {
                    self.start_down(now);
                }
            }
        } else if self.model.inflight_longterm < u64::MAX {
            self.model.inflight_longterm = self.model.inflight_longterm.max(rate.sent_in_flight_bytes);
            if self.state == Bbr3State::Up {
                self.probe_upward(sample);
            }
        }
    }

    /// `BBRIsTimeToProbeBW`. What a time-out leaves of the window says nothing of Reno's.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let cwnd = if self.is_repairing { self.prior_cwnd_bytes } else { self.cwnd_bytes };
        let target = self.bdp(self.model.bw(), 1.0).min(cwnd);
        let reno_rounds = (target / self.segment_bytes).min(RENO_ROUNDS);
        now > self.cycle_stamp.saturating_add(self.probe_wait) || self.rounds_since_probe >= reno_rounds
    }

    /// `BBRIsTimeToCruise`.
    fn is_time_to_cruise(&self) -> bool {
        let free = self.model.inflight_with_headroom(self.segment_bytes, self.min_pipe_bytes());
        // The largest rate, whatever the bounds of losses say (section 5.3.3.6).
        self.in_flight <= free && self.in_flight <= self.inflight(self.model.max_bw(), 1.0)
    }

    /// `BBRIsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, rate: &RateSample) -> bool {
        if self.is_cwnd_limited() && self.cwnd_bytes >= self.model.inflight_longterm {
            // The bound is what holds the rate back.
            self.reset_full_bw();
            self.full_bw = rate.bytes_per_second();
            return false;
        }
        self.full_bw_now
    }

    /// `BBRUpdateProbeBWCyclePhase` (section 5.3.3.6).
    pub(super) fn update_cycle_phase(&mut self, rate: &RateSample, sample: &Sample, now: Time) {
        if !self.full_bw_reached {
            return;
        }
        self.adapt_long_term(rate, sample, now);
        let goes_down = self.state == Bbr3State::Up && self.is_time_to_go_down(rate);
        match self.state {
            Bbr3State::Down | Bbr3State::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            Bbr3State::Down if self.is_time_to_cruise() => {
                self.set_phase(Bbr3State::Cruise, 1.0, self.config.cwnd_gain);
            }
            Bbr3State::Refill if self.round_start => {
                self.probe_samples = true;
                self.start_up(rate);
            }
            Bbr3State::Up if goes_down => self.start_down(now),
            _ => {}
        }
    }

    /// `BBRCheckProbeRTT` (section 5.3.4.3).
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample, now: Time) {
        if self.state != Bbr3State::ProbeRtt && self.min_rtt.is_expired && !self.idle_restart {
            self.save_cwnd();
            self.set_phase(Bbr3State::ProbeRtt, 1.0, PROBE_RTT_CWND_GAIN);
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == Bbr3State::ProbeRtt {
            self.handle_probe_rtt(now);
        }
        self.idle_restart &= sample.delivered_bytes == 0;
    }

    fn handle_probe_rtt(&mut self, now: Time) {
        self.limited_until = self.delivered + self.in_flight;
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(now);
            }
        } else if self.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done = Some(now.saturating_add(self.config.probe_rtt));
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    /// `BBRCheckProbeRTTDone` and `BBRExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.is_fresh(now);
        self.cwnd_bytes = self.cwnd_bytes.max(self.prior_cwnd_bytes);
        self.model.reset_short_term();
        if self.full_bw_reached {
            self.start_down(now);
            self.set_phase(Bbr3State::Cruise, 1.0, self.config.cwnd_gain);
        } else {
            self.set_phase(Bbr3State::Startup, self.config.startup_gain, self.config.cwnd_gain);
        }
    }
}
