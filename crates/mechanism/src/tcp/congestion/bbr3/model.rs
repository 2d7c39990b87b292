//! What BBR, version 3, believes of the path: the largest rate of the last two cycles of probing, what losses of the present cycle leave of
//! it, how much under way was too much at the last probe, and how bursty acknowledgments are.
//!
//! Source: draft-ietf-ccwg-bbr, section 5.5; its variable names. Deviations: those of the module above.

use tidegate_units::{Span, Time};

use crate::tcp::congestion::RateSample;
use crate::tcp::congestion::bbr::Aggregation;

/// `BBR.LossThresh`: from which part of what was under way on losses mean that it was too much.
pub(super) const LOSS_THRESH: f64 = 0.02;
/// `BBR.Beta`: what losses in a round trip leave.
const BETA: f64 = 0.7;
/// `BBR.Headroom`: what of a known bound is left to others.
const HEADROOM: f64 = 0.15;

/// See the module. Rates are payload bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// `BBR.max_bw_filter`: of this cycle and of the one before.
    max_bws: [f64; 2],
    /// `BBR.bw_shortterm`.
    pub(super) bw_shortterm: f64,
    /// `BBR.inflight_shortterm`.
    pub(super) inflight_shortterm: u64,
    /// `BBR.inflight_longterm`.
    pub(super) inflight_longterm: u64,
    bw_latest: f64,
    pub(super) inflight_latest: u64,
    loss_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) loss_in_round: bool,
    /// How many acknowledgments of this round told of losses.
    pub(super) loss_events: u32,
    pub(super) aggregation: Aggregation,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            max_bws: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_events: 0,
            aggregation: Aggregation::default(),
        }
    }

    /// `BBR.max_bw`.
    pub(super) const fn max_bw(&self) -> f64 {
        self.max_bws[0].max(self.max_bws[1])
    }

    /// `BBR.bw` (`BBRBoundBWForModel`).
    pub(super) const fn bw(&self) -> f64 {
        self.max_bw().min(self.bw_shortterm)
    }

    /// `BBRUpdateMaxBw`.
    pub(super) fn update_max_bw(&mut self, rate: &RateSample) {
        let bw = rate.bytes_per_second();
        if bw >= self.max_bw() || !rate.is_app_limited {
            self.max_bws[0] = self.max_bws[0].max(bw);
        }
    }

    /// `BBRAdvanceMaxBwFilter`: a cycle of probing is over. One without a sample keeps what was.
    pub(super) const fn advance_max_bw_filter(&mut self) {
        if self.max_bws[0] > 0.0 {
            self.max_bws = [0.0, self.max_bws[0]];
        }
    }

    /// `BBRNoteLoss`: the acknowledgment tells of losses.
    pub(super) const fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_delivered = delivered;
        }
        self.loss_in_round = true;
        self.loss_events += 1;
    }

    /// `BBRUpdateLatestDeliverySignals`.
    pub(super) fn update_latest_signals(&mut self, rate: &RateSample, delivered: u64) {
        self.loss_round_start = rate.prior_delivered_bytes >= self.loss_round_delivered;
        self.bw_latest = self.bw_latest.max(rate.bytes_per_second());
        self.inflight_latest = self.inflight_latest.max(rate.delivered_bytes);
        if self.loss_round_start {
            self.loss_round_delivered = delivered;
        }
    }

    /// `BBRUpdateCongestionSignals` without the rate: once in a round trip, unless it `probes` for more.
    pub(super) fn update_bounds(&mut self, probes: bool, cwnd: u64) {
        if !self.loss_round_start {
            return;
        }
        if self.loss_in_round && !probes {
            // `BBRInitLowerBounds`, `BBRLossLowerBounds`.
            let bw = if self.bw_shortterm.is_finite() { self.bw_shortterm } else { self.max_bw() };
            let inflight = if self.inflight_shortterm < u64::MAX { self.inflight_shortterm } else { cwnd };
            self.bw_shortterm = self.bw_latest.max(BETA * bw);
            self.inflight_shortterm = self.inflight_latest.max((BETA * inflight as f64) as u64);
        }
        self.loss_in_round = false;
    }

    /// `BBRAdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_signals(&mut self, rate: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = rate.bytes_per_second();
            self.inflight_latest = rate.delivered_bytes;
            self.loss_events = 0;
        }
    }

    /// `BBRResetCongestionSignals`.
    pub(super) const fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.loss_events = 0;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// `BBRResetShortTermModel`.
    pub(super) const fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = u64::MAX;
    }

    /// `BBRInflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self, segment: u64, least: u64) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = segment.max((HEADROOM * self.inflight_longterm as f64) as u64);
        self.inflight_longterm.saturating_sub(headroom).max(least)
    }

    /// `BBRHandleInflightTooHigh`, the bound: what was under way, but not less than losses leave of `target`.
    pub(super) fn bound_long_term(&mut self, rate: &RateSample, target: u64) {
        if !rate.is_app_limited {
            self.inflight_longterm = rate.sent_in_flight_bytes.max((BETA * target as f64) as u64);
        }
    }
}

/// `RS.lost > RS.tx_in_flight * BBR.LossThresh`.
pub(super) fn loses_too_much(rate: &RateSample) -> bool {
    rate.lost_bytes as f64 > rate.sent_in_flight_bytes as f64 * LOSS_THRESH
}

/// The least round trip, over ten seconds for the model, and over five to know when to look again.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    /// `BBR.min_rtt`.
    pub(super) rtt: Option<Span>,
    stamp: Time,
    probe_rtt: Option<Span>,
    probe_stamp: Time,
    /// `BBR.probe_rtt_expired`.
    pub(super) is_expired: bool,
}

impl MinRtt {
    pub(super) const NONE: Self =
        Self { rtt: None, stamp: Time::ZERO, probe_rtt: None, probe_stamp: Time::ZERO, is_expired: false };

    /// `BBRUpdateMinRTT`.
    pub(super) fn update(&mut self, rtt: Option<Span>, interval: Span, window: Span, now: Time) {
        // Before the first one nothing is old, however late the connection began.
        self.is_expired = self.probe_rtt.is_some() && now > self.probe_stamp.saturating_add(interval);
        if let Some(rtt) = rtt
            && (self.is_expired || self.probe_rtt.is_none_or(|least| rtt < least))
        {
            self.probe_rtt = Some(rtt);
            self.probe_stamp = now;
        }
        let is_old = now > self.stamp.saturating_add(window);
        if let Some(probe) = self.probe_rtt
            && (is_old || self.rtt.is_none_or(|least| probe < least))
        {
            self.rtt = Some(probe);
            self.stamp = self.probe_stamp;
        }
    }

    /// It was measured just now.
    pub(super) const fn is_fresh(&mut self, now: Time) {
        self.probe_stamp = now;
    }
}
