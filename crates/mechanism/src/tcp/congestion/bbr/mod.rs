//! BBR: a rate and a window from a model of the path. A control that waits for losses fills every queue, and where losses are not
//! from queues it fills no link. BBR measures how fast data arrives at most and how short a round trip is at least, sends at that
//! rate, and keeps about two of their products under way.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 (version 1), section 4; its variable names.
//! Deviations: segments go one by one, so that the send quantum (section 4.2.2) is one segment, unless `aggregates` is on. The phase at
//! which the cycle of gains begins is random in the draft; controls draw nothing here, so it follows from the bits of the instant
//! at which it begins, which differ from flow to flow and are the same in every run. `pacing_margin`, `extra_segments`, `probe_segments`,
//! `aggregation`, `whole_segments`, `makes_up` and `policers` are not of this version but of its successors and of Linux; all are off. Linux looks for a plateau anew after a time-out
//! in the start (`bbr_set_state`); here what was found stays. The window is never
//! below the minimum of the connection, which is what a time-out leaves.

mod aggregation;
mod config;
mod filter;
mod policer;
mod window;

use tidegate_packet::Dscp;
use tidegate_units::{Span, Time};

pub(super) use self::aggregation::{Aggregation, Came};
pub use self::config::BbrConfig;
pub(super) use self::filter::MaxOfRounds;
use self::policer::{Policer, Told, Verdict};
use super::{
    Ack, Congestion, CongestionControl, Pacer, Permission, RateSample, Sample, Sampling, Segment, Signal,
};
use crate::Variable;

/// What BBR is about (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BbrState {
    /// Looks for the rate of the bottleneck.
    Startup,
    /// Empties the queue that this made.
    Drain,
    /// Sends at the rate, a little above and below it in turn.
    ProbeBw,
    /// Measures the round trip without a queue.
    ProbeRtt,
}

/// What is being repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    None,
    /// A fast retransmit has begun with the acknowledgment that comes next.
    Begins,
    /// A fast retransmit or a time-out.
    Repaired,
}

/// The gains of the rate, one for each round trip (section 4.3.4.1).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// The pipe is full when so many round trips in a row raised the rate by less than a quarter (section 4.3.2.2).
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;

/// The rates from which on segments go in pairs, and in aggregates of a millisecond (section 4.2.2): 1.2 and 24 Mb/s, in bytes per second.
const SLOW: f64 = 150_000.0;
const FAST: f64 = 3_000_000.0;

/// See the module. Rates are payload bytes per second.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the draft, each independent of the others")]
pub struct Bbr {
    config: BbrConfig,
    state: BbrState,
    btlbw: MaxOfRounds,
    rtprop: Option<Span>,
    rtprop_stamp: Time,
    round_count: u64,
    next_round_delivered: u64,
    full_bw: f64,
    full_bw_count: u32,
    filled_pipe: bool,
    pacing_gain: f64,
    cwnd_gain: f64,
    cycle_index: usize,
    cycle_stamp: Time,
    pacing_rate: f64,
    has_seen_rtt: bool,
    cwnd_bytes: u64,
    prior_cwnd_bytes: u64,
    loss: Loss,
    /// `BBR.packet_conservation`.
    conserves_packets: bool,
    idle_restart: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// Rates of what was sent before so much was delivered are limited by this control itself (section 4.3.5).
    limited_until: u64,
    aggregation: Aggregation,
    policer: Policer,
    /// A time-out ended a round; the next acknowledgment tells the policer.
    timed_out: bool,
    /// Segments that may go with the one that went last.
    burst_left: u32,
    initial_bytes: u64,
    minimum_bytes: u64,
    segment_bytes: u64,
    pacer: Pacer,
}

impl Bbr {
    /// What it is about.
    pub const fn state(&self) -> BbrState {
        self.state
    }

    /// The rate of the path: the largest of the last round trips, or what a policer lets through (`bbr_bw` of Linux).
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.btlbw.get())
    }

    /// `BBR.send_quantum` in segments (section 4.2.2).
    fn quantum_segments(&self) -> u32 {
        if !self.config.aggregates || self.pacing_rate < SLOW {
            return 1;
        }
        let bytes = if self.pacing_rate < FAST { 0.0 } else { (self.pacing_rate * 1e-3).min(65_536.0) };
        ((bytes / self.segment_bytes as f64) as u32).max(2)
    }

    /// `BBRUpdateBtlBw` with `BBRUpdateRound` (sections 4.1.1.3 and 4.1.1.5): whether a round begins.
    fn update_btlbw(&mut self, rate: Option<&RateSample>, sample: &Sample) -> bool {
        let Some(rate) = rate else { return false };
        let round_start = rate.prior_delivered_bytes >= self.next_round_delivered;
        if round_start {
            self.next_round_delivered = sample.delivered_total_bytes;
            self.round_count += 1;
        }
        let delivery_rate = rate.bytes_per_second();
        if delivery_rate >= self.btlbw.get() || !self.is_app_limited(rate) {
            self.btlbw.update(self.round_count, delivery_rate);
        }
        round_start
    }

    const fn is_app_limited(&self, rate: &RateSample) -> bool {
        rate.is_app_limited || rate.prior_delivered_bytes < self.limited_until
    }

    /// Section 4.3.4.3.
    fn check_cycle_phase(&mut self, sample: &Sample, now: Time) {
        if self.state != BbrState::ProbeBw {
            return;
        }
        let is_full_length = now.since(self.cycle_stamp) > self.rtprop.unwrap_or(Span::ZERO);
        let is_over = if self.pacing_gain > 1.0 {
            let has_probed =
                sample.in_flight_before_bytes >= self.inflight(self.btlbw.get(), self.pacing_gain, 0);
            is_full_length && (sample.lost_bytes > 0 || has_probed)
        } else if self.pacing_gain < 1.0 {
            is_full_length || sample.in_flight_before_bytes <= self.inflight(self.btlbw.get(), 1.0, 0)
        } else {
            is_full_length
        };
        if is_over {
            self.advance_cycle_phase(now);
        }
    }

    fn advance_cycle_phase(&mut self, now: Time) {
        self.cycle_stamp = now;
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.pacing_gain = if self.policer.rate().is_some() { 1.0 } else { CYCLE[self.cycle_index] };
    }

    /// Section 4.3.2.2.
    fn check_full_pipe(&mut self, round_start: bool, rate: Option<&RateSample>) {
        if self.filled_pipe || !round_start || rate.is_none_or(|rate| self.is_app_limited(rate)) {
            return;
        }
        if self.btlbw.get() >= self.full_bw * FULL_GROWTH {
            self.full_bw = self.btlbw.get();
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.filled_pipe = self.full_bw_count >= FULL_ROUNDS;
    }

    /// Section 4.3.3.
    fn check_drain(&mut self, sample: &Sample, now: Time) {
        if self.state == BbrState::Startup && self.filled_pipe {
            self.state = BbrState::Drain;
            self.pacing_gain = 1.0 / self.config.high_gain;
            self.cwnd_gain = self.config.high_gain;
        }
        if self.state == BbrState::Drain && sample.in_flight_bytes <= self.inflight(self.btlbw.get(), 1.0, 0)
        {
            self.enter_probe_bw(now);
        }
    }

    /// Section 4.3.4.3: any phase but the one that drains.
    fn enter_probe_bw(&mut self, now: Time) {
        self.state = BbrState::ProbeBw;
        self.pacing_gain = 1.0;
        self.cwnd_gain = self.config.cwnd_gain;
        self.cycle_index = CYCLE.len() - 1 - scattered(now, CYCLE.len() as u64 - 1) as usize;
        self.advance_cycle_phase(now);
    }

    /// What the losses of an acknowledgment say of a policer.
    fn look_for_policer(&mut self, rate: Option<&RateSample>, round_start: bool, sample: &Sample, now: Time) {
        self.policer.on_lost(sample.lost_bytes);
        let Some(rate) = rate else { return };
        let timed_out = core::mem::take(&mut self.timed_out);
        let told = Told {
            round_start: round_start || timed_out,
            state: self.state,
            is_app_limited: self.is_app_limited(rate),
            has_lost: sample.lost_bytes > 0,
            delivered_total_bytes: sample.delivered_total_bytes,
        };
        if self.policer.update(&told, now) == Verdict::LooksForMore {
            self.enter_probe_bw(now);
        } else if told.state == BbrState::ProbeBw && self.policer.rate().is_some() {
            self.pacing_gain = 1.0;
        }
    }

    /// Section 4.1.2.3: whether the least round trip is too old to be believed.
    fn update_rtprop(&mut self, rtt: Option<Span>, now: Time) -> bool {
        // Before the first one nothing is old, however late the connection began.
        let is_expired =
            self.rtprop.is_some() && now > self.rtprop_stamp.saturating_add(self.config.rtprop_window);
        if let Some(rtt) = rtt
            && (is_expired || self.rtprop.is_none_or(|rtprop| rtt <= rtprop))
        {
            self.rtprop = Some(rtt);
            self.rtprop_stamp = now;
        }
        is_expired
    }

    /// Section 4.3.5.
    fn check_probe_rtt(&mut self, is_expired: bool, round_start: bool, sample: &Sample, now: Time) {
        if self.state != BbrState::ProbeRtt && is_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = BbrState::ProbeRtt;
            self.pacing_gain = 1.0;
            self.cwnd_gain = 1.0;
            self.probe_rtt_done = None;
        }
        if self.state == BbrState::ProbeRtt {
            self.handle_probe_rtt(round_start, sample, now);
        }
        self.idle_restart = false;
    }

    fn handle_probe_rtt(&mut self, round_start: bool, sample: &Sample, now: Time) {
        self.limited_until = sample.delivered_total_bytes + sample.in_flight_bytes;
        let Some(done) = self.probe_rtt_done else {
            if sample.in_flight_bytes <= self.min_pipe_bytes() {
                self.probe_rtt_done = Some(now.saturating_add(self.config.probe_rtt));
                self.probe_rtt_round_done = false;
                self.next_round_delivered = sample.delivered_total_bytes;
            }
            return;
        };
        self.probe_rtt_round_done |= round_start;
        if self.probe_rtt_round_done && now > done {
            self.rtprop_stamp = now;
            self.restore_cwnd();
            if self.filled_pipe {
                self.enter_probe_bw(now);
            } else {
                self.state = BbrState::Startup;
                self.pacing_gain = self.config.high_gain;
                self.cwnd_gain = self.config.high_gain;
            }
        }
    }

    /// Section 4.2.1.
    fn set_pacing_rate(&mut self, gain: f64, srtt: Span) {
        if !self.has_seen_rtt && !srtt.is_zero() {
            self.has_seen_rtt = true;
            self.pacing_rate = self.config.high_gain * self.initial_bytes as f64 / srtt.as_secs_f64();
        }
        let rate = gain * self.bw() * (1.0 - self.config.pacing_margin);
        if rate > 0.0 && (self.filled_pipe || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }
}

impl CongestionControl for Bbr {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("btlbw_bps", "The largest rate at which data arrived lately."),
                Variable::new("rtprop_s", "The least round trip."),
                Variable::new("pacing_gain", "What the rate is of the largest one."),
                Variable::new("pacing_rate_bps", "The rate at which it may send."),
                Variable::new("state", "0 start-up, 1 drain, 2 probe bandwidth, 3 probe the round trip."),
            ]
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    /// `BBRUpdateOnACK` (section 3.5).
    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        let rate = sample.rate.as_ref();
        let round_start = self.update_btlbw(rate, sample);
        if self.config.policers {
            self.look_for_policer(rate, round_start, sample, now);
        }
        if self.config.aggregation && sample.delivered_bytes > 0 {
            let came = Came {
                delivered_bytes: sample.delivered_bytes,
                bw: self.bw(),
                unit_bytes: if self.config.whole_segments { self.segment_bytes } else { 1 },
                cwnd_bytes: self.cwnd_bytes,
                round: self.round_count,
                is_pipe_full: self.filled_pipe,
            };
            self.aggregation.update(&came, now);
        }
        self.check_cycle_phase(sample, now);
        self.check_full_pipe(round_start, rate);
        self.check_drain(sample, now);
        let is_expired = self.update_rtprop(sample.rtt, now);
        self.check_probe_rtt(is_expired, round_start, sample, now);
        self.set_pacing_rate(self.pacing_gain, ack.srtt);
        self.set_cwnd(sample, round_start);
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        match event.signal {
            Signal::Loss | Signal::LossRestart => {
                self.save_cwnd();
                // One recovery after another, without an acknowledgment between them that says so, is one.
                if self.loss == Loss::None {
                    self.loss = Loss::Begins;
                }
            }
            Signal::Timeout => {
                self.save_cwnd();
                self.loss = Loss::Repaired;
                self.conserves_packets = false;
                self.timed_out = true;
                self.cwnd_bytes = self.minimum_bytes;
            }
            // Version 1 knows no marks.
            Signal::Idle | Signal::EcnEcho => {}
        }
    }

    /// Section 4.3.4.4.
    fn on_resume(&mut self, srtt: Span, _now: Time) {
        self.idle_restart = true;
        if self.state == BbrState::ProbeBw {
            self.set_pacing_rate(1.0, srtt);
        }
    }

    #[inline]
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes {
            if self.burst_left > 0 { Permission::Now } else { self.pacer.or_wait(Permission::Now, now) }
        } else {
            Permission::No
        }
    }

    #[inline]
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if self.config.makes_up {
            self.pacer.on_send_making_up(segment.payload_bytes, self.pacing_rate, now);
        } else {
            self.pacer.on_send(segment.payload_bytes, self.pacing_rate, now);
        }
        self.burst_left = match self.burst_left {
            0 => self.quantum_segments() - 1,
            left => left - 1,
        };
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
        match name {
            "cwnd_segments" => Some(self.cwnd_bytes as f64 / self.segment_bytes as f64),
            "btlbw_bps" => Some(self.btlbw.get() * 8.0),
            "rtprop_s" => self.rtprop.map(Span::as_secs_f64),
            "pacing_gain" => Some(self.pacing_gain),
            "pacing_rate_bps" => Some(self.pacing_rate * 8.0),
            "state" => Some(f64::from(self.state as u8)),
            _ => None,
        }
    }
}

/// A number below `bound` that looks random over instants.
pub(super) const fn scattered(now: Time, bound: u64) -> u64 {
    // SplitMix64's finalizer.
    let mut z = now.as_nanos().wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

#[cfg(test)]
mod tests;
