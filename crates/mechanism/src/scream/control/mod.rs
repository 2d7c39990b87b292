//! The window and the bitrate that follows from it: what a report moves.
//!
//! Source: the draft, sections 4.1, 4.2, 4.3.1, 4.4 and 4.5.

use tidegate_units::{Span, Time};

use super::config::ScreamConfig;
use super::delay::{Drift, Target};
use super::laws;
use crate::tcp::EcnUse;

/// The weight of a sample in the smoothed round-trip time (RFC 6298, section 2).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// The weight of a round trip in `loss_event_rate` (`ScreamV2Tx.cpp`).
const LOSS_GAIN: f64 = 0.02;
/// `l4s_alpha` moves at most so often, seconds (section 4.2.1.3).
const ALPHA_INTERVAL: f64 = 0.01;
/// Between looks at competing flows, seconds (`ScreamV2Tx.cpp`).
const TARGET_INTERVAL: f64 = 0.05;
/// `ref_wnd_i` moves at most once in so many round trips (section 4.2.2.1).
const INFLECTION_ROUNDS: f64 = 10.0;
/// After so many round trips without congestion the window is no larger than what was under way (section 4.2.2.1).
const CALM_ROUNDS: f64 = 100.0;
/// What is left of the bitrate, and for how long at least, while base delays are measured anew (section 4.5).
const DRIFT_PART: f64 = 0.5;
const DRIFT_SECS: f64 = 0.2;
const DRIFT_ROUNDS: f64 = 5.0;

/// What one report says, taken together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Feedback {
    /// From sending to hearing of the newest packet that it tells of first; `None` if it tells of none.
    pub rtt: Option<Span>,
    /// `qdelay`: how long that one waited.
    pub queue_delay: Option<Span>,
    /// Packets that it is the first to tell of, and those of them with marks.
    pub units: u32,
    /// See `units`.
    pub units_marked: u32,
    /// `bytes_newly_acked`: up to the highest packet that arrived, with those that did not.
    pub acked_bytes: u64,
    /// `bytes_newly_acked_ce`.
    pub marked_bytes: u64,
    /// Whether packets are lost.
    pub is_loss: bool,
    /// Under way before it.
    pub in_flight_bytes: u64,
}

/// Why the window closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Congestion {
    Loss,
    Mark,
    Delay,
}

/// See the module. Times are in seconds, rates in bits per second.
#[derive(Clone, Debug)]
pub struct Control {
    config: ScreamConfig,
    mss: f64,
    max_bps: f64,
    virtual_rtt: f64,
    /// `s_rtt`; `None` before the first sample.
    rtt: Option<f64>,
    ref_wnd: f64,
    ref_wnd_i: f64,
    alpha: f64,
    units: u32,
    units_marked: u32,
    delay: f64,
    mean_delay: f64,
    /// `qdelay_dev_norm`; zero without `REDUCE_JITTER`.
    deviation: f64,
    target: Target,
    drift: Drift,
    loss_event_rate: f64,
    /// `max_bytes_in_flight`, and that of the round trip before.
    in_flight_max: u64,
    in_flight_max_before: u64,
    /// Since the last reaction.
    loss: bool,
    marked: bool,
    /// In this round trip.
    lost_in_round: bool,
    bitrate: f64,
    rate_adjust: f64,
    frame_deviation: f64,
    /// The bitrate is reduced until then, after a drift.
    slow_until: Time,
    alpha_at: Option<Time>,
    delay_at: Option<Time>,
    target_at: Option<Time>,
    round_at: Option<Time>,
    congested_at: Option<Time>,
    reacted_at: Option<Time>,
    inflected_at: Option<Time>,
}

/// Seconds since then; without end if it never was.
fn elapsed(now: Time, then: Option<Time>) -> f64 {
    then.map_or(f64::INFINITY, |then| now.since(then).as_secs_f64())
}

impl Control {
    /// Nothing was heard yet.
    pub fn new(config: &ScreamConfig) -> Self {
        let mss = f64::from(config.packet_bytes());
        let ref_wnd = config.min_window.as_f64();
        Self {
            config: *config,
            mss,
            max_bps: config.max_bps(),
            virtual_rtt: config.virtual_rtt.as_secs_f64(),
            rtt: None,
            ref_wnd,
            ref_wnd_i: 1.0,
            alpha: 0.0,
            units: 0,
            units_marked: 0,
            delay: 0.0,
            mean_delay: 0.0,
            deviation: 0.0,
            target: Target::new(config.delay_target.as_secs_f64(), config.delay_target_max.as_secs_f64()),
            drift: Drift::new(),
            loss_event_rate: 0.0,
            in_flight_max: 0,
            in_flight_max_before: 0,
            loss: false,
            marked: false,
            lost_in_round: false,
            bitrate: config.min_rate.as_bps_f64(),
            rate_adjust: 0.0,
            frame_deviation: 0.0,
            slow_until: Time::ZERO,
            alpha_at: None,
            delay_at: None,
            target_at: None,
            round_at: None,
            congested_at: None,
            reacted_at: None,
            inflected_at: None,
        }
    }

    /// A report came. Whether base delays are to be measured anew (section 4.5).
    pub fn on_feedback(&mut self, feedback: &Feedback, now: Time) -> bool {
        self.loss |= feedback.is_loss;
        self.lost_in_round |= feedback.is_loss;
        self.marked |= feedback.units_marked > 0;
        self.units = self.units.saturating_add(feedback.units);
        self.units_marked = self.units_marked.saturating_add(feedback.units_marked).min(self.units);
        self.in_flight_max = self.in_flight_max.max(feedback.in_flight_bytes);
        if let Some(sample) = feedback.rtt {
            let sample = sample.max(Span::from_nanos(1)).as_secs_f64();
            self.rtt = Some(self.rtt.map_or(sample, |rtt| (1.0 - RTT_GAIN) * rtt + RTT_GAIN * sample));
        }
        let Some(rtt) = self.rtt else { return false };
        if let Some(delay) = feedback.queue_delay {
            self.delay = delay.as_secs_f64();
            self.drift.on_delay(self.delay);
        }
        self.follow_delay(rtt, now);
        self.follow_marks(rtt, now);
        let is_drift = self.end_round(rtt, now);
        if self.config.competing && elapsed(now, self.target_at) >= TARGET_INTERVAL {
            self.target.adjust(self.delay, self.loss_event_rate);
            self.target_at = Some(now);
        }
        let distance = laws::distance(self.ref_wnd, self.ref_wnd_i);
        self.reduce(distance, rtt, now);
        self.increase(feedback, distance, rtt, now);
        self.bitrate = self.next_bitrate(rtt, now);
        is_drift
    }

    /// `ref_wnd_ratio`.
    fn ratio(&self) -> f64 {
        (self.mss / self.ref_wnd).min(1.0)
    }

    /// Section 4.2.1.4.
    fn follow_delay(&mut self, rtt: f64, now: Time) {
        if elapsed(now, self.delay_at) >= self.virtual_rtt.min(rtt) {
            self.mean_delay = laws::mean_delay(self.mean_delay, self.delay);
            if self.config.reduce_jitter {
                self.deviation = laws::deviation(self.deviation, self.delay);
            }
            self.delay_at = Some(now);
        }
    }

    /// Section 4.2.1.3.
    fn follow_marks(&mut self, rtt: f64, now: Time) {
        if self.units > 0 && elapsed(now, self.alpha_at) >= ALPHA_INTERVAL.min(rtt) {
            self.alpha = laws::alpha(self.alpha, f64::from(self.units_marked) / f64::from(self.units));
            (self.units, self.units_marked) = (0, 0);
            self.alpha_at = Some(now);
        }
    }

    /// What is done once per round trip. Whether base delays are to be measured anew.
    fn end_round(&mut self, rtt: f64, now: Time) -> bool {
        if elapsed(now, self.round_at) < rtt {
            return false;
        }
        self.round_at = Some(now);
        (self.in_flight_max_before, self.in_flight_max) = (self.in_flight_max, 0);
        let lost = if self.lost_in_round { 1.0 } else { 0.0 };
        self.loss_event_rate = (1.0 - LOSS_GAIN) * self.loss_event_rate + LOSS_GAIN * lost;
        self.lost_in_round = false;
        let is_drift = self.drift.end_round(self.target.secs());
        if is_drift {
            self.slow_until = now.saturating_add(Span::from_secs_f64((DRIFT_ROUNDS * rtt).max(DRIFT_SECS)));
        }
        is_drift
    }

    /// Section 4.2.2.1.
    fn reduce(&mut self, distance: f64, rtt: f64, now: Time) {
        if self.loss || self.marked {
            self.congested_at = Some(now);
        }
        if elapsed(now, self.reacted_at) < self.virtual_rtt.min(rtt) {
            return;
        }
        let congestion = if self.loss {
            Congestion::Loss
        } else if self.marked {
            Congestion::Mark
        } else if self.mean_delay > self.target.secs() / 2.0 {
            Congestion::Delay
        } else {
            return;
        };
        if elapsed(now, self.inflected_at) > INFLECTION_ROUNDS * rtt {
            self.inflected_at = Some(now);
            self.ref_wnd_i = self.ref_wnd;
        }
        // Where round trips are long there are several reactions in one.
        let long = (rtt / self.virtual_rtt).max(1.0);
        self.ref_wnd *= match congestion {
            Congestion::Loss => self.config.loss_beta,
            Congestion::Mark if self.config.ecn != EcnUse::L4s => self.config.ecn_beta,
            Congestion::Mark => {
                let mut backoff = self.alpha / 2.0 / long;
                if self.delay < self.target.secs() * 0.25 {
                    backoff *= distance.max(0.25) * laws::damping(self.deviation);
                }
                if elapsed(now, self.reacted_at) > CALM_ROUNDS * self.virtual_rtt.max(rtt) {
                    self.ref_wnd = self.ref_wnd.min(self.in_flight_max_before as f64);
                }
                1.0 - backoff
            }
            Congestion::Delay => 1.0 - laws::virtual_alpha(self.mean_delay, self.target.secs()) / 2.0 / long,
        };
        self.ref_wnd = self.ref_wnd.max(self.config.min_window.as_f64());
        self.reacted_at = Some(now);
        (self.loss, self.marked) = (false, false);
    }

    /// Section 4.2.2.2.
    fn increase(&mut self, feedback: &Feedback, distance: f64, rtt: f64, now: Time) {
        let calm = f64::from(self.config.post_congestion) * self.virtual_rtt.max(rtt);
        let recovered = (elapsed(now, self.congested_at) / calm).clamp(0.0, 1.0);
        let unmarked = feedback.acked_bytes.saturating_sub(feedback.marked_bytes) as f64;
        let additive = unmarked
            * self.ratio()
            * (rtt / self.virtual_rtt).min(1.0)
            * distance.max(0.25)
            * laws::damping(self.deviation);
        let multiplicative = self.config.increase * self.ref_wnd / self.mss * recovered * distance;
        let window = self.ref_wnd + additive * (1.0 + multiplicative);
        let in_flight = self.in_flight_max.max(self.in_flight_max_before) as f64;
        if window <= self.mss + in_flight * self.config.headroom && self.bitrate < self.max_bps {
            self.ref_wnd = window;
        }
    }

    /// `target_bitrate` (section 4.4).
    fn next_bitrate(&self, rtt: f64, now: Time) -> f64 {
        let part = laws::media_part(self.ratio(), self.mss, self.rate_adjust, self.frame_deviation);
        let slow = if now < self.slow_until { DRIFT_PART } else { 1.0 };
        let bitrate = slow * part * 8.0 * self.ref_wnd / rtt;
        bitrate.max(self.config.min_rate.as_bps_f64()).min(self.max_bps)
    }

    /// The encoder made a frame of `bytes` while the oldest packet had waited for `waited` (section 4.4).
    pub fn on_frame(&mut self, waited: Span, bytes: u64, period: Span) {
        let period = period.as_secs_f64();
        self.rate_adjust = laws::rate_adjust(self.rate_adjust, waited.as_secs_f64(), period);
        let nominal = self.bitrate * period / 8.0;
        self.frame_deviation = laws::frame_deviation(self.frame_deviation, bytes as f64, nominal);
    }

    /// `target_bitrate`, bits per second.
    pub const fn bitrate_bps(&self) -> f64 {
        self.bitrate
    }

    /// `ref_wnd`, bytes.
    pub const fn ref_wnd_bytes(&self) -> f64 {
        self.ref_wnd
    }

    /// What may be under way: `ref_wnd * ref_wnd_overhead`, bytes (section 4.3.1).
    pub fn in_flight_limit_bytes(&self) -> f64 {
        let (least, most) = (self.config.overhead_min, self.config.overhead_max);
        self.ref_wnd * laws::overhead(least, most, self.deviation)
    }

    /// `t_pace` after a packet of `bytes` (section 4.3.2).
    pub fn pace(&self, bytes: u32) -> Span {
        let bps = laws::pace_bps(self.bitrate, self.max_bps, self.config.pacing_headroom);
        Span::from_secs_f64(f64::from(bytes) * 8.0 / bps)
    }

    /// `s_rtt`.
    pub fn srtt(&self) -> Option<Span> {
        self.rtt.map(Span::from_secs_f64)
    }

    /// `qdelay`, seconds.
    pub const fn queue_delay_secs(&self) -> f64 {
        self.delay
    }

    /// `qdelay_target`, seconds.
    pub const fn delay_target_secs(&self) -> f64 {
        self.target.secs()
    }

    /// `l4s_alpha`.
    pub const fn l4s_alpha(&self) -> f64 {
        self.alpha
    }
}

#[cfg(test)]
mod tests;
