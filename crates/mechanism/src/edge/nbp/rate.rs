//! The rate control law: what a flow's ingress rate becomes when feedback comes.
//!
//! Source: NBP, Fig. 6 and section II.C.
//! Deviations, as settled in the catalogue (algorithms, section 15):
//! - The outer `else` of the print belongs to `if (p.asynchronous == FALSE)`; printed inside the loop it would undo
//!   itself.
//! - NBP-1: the text lets a congested slow start only enter congestion avoidance; the printed code also cuts the rate in
//!   the same pass. The code is followed.
//! - NBP-2: asynchronous feedback uses the `mrc` of the last normal feedback.
//! - NBP-3: `egress - mrc` is zero for a flow of which nothing left, and `mrc` with it: such a flow would never move
//!   again. It falls to one MSS per base round-trip time at most at once, and no rate falls below `rate_min`.
//! - A flow that sends less than it may is never congested, and its rate doubles for ever (NBP-4). It stops at
//!   `RATE_MAX`, beyond any link, so that rates stay numbers.
//! - An `mrc` kept from feedback before the egress rate fell may exceed it: a cut goes down to half the egress rate at
//!   most.
//!
//! All rates are bytes per second, so that `rate * delay` is in the unit of `MSS` (NBP-6).

/// `f.phase`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// `SLOW_START`: the rate doubles.
    #[default]
    SlowStart,
    /// `CONG_AVOID`: the rate grows by `mrc`.
    CongestionAvoidance,
}

/// The control state of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowRate {
    /// `f.phase`.
    pub phase: Phase,
    /// `f.ingress_rate`, bytes per second.
    pub ingress_rate: f64,
    /// `f.mrc`, the minimum rate change, bytes per second.
    pub mrc: f64,
}

/// What the feedback says of the path to one egress.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathDelay {
    /// `e.currentRTT`, seconds.
    pub current_rtt: f64,
    /// `e.baseRTT`, seconds.
    pub base_rtt: f64,
    /// `e.hopcount`: routers between ingress and egress.
    pub hop_count: f64,
}

/// The constants of the law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// `MSS`, bytes.
    pub mss: f64,
    /// `MF`.
    pub mrc_factor: f64,
    /// No rate falls below this, bytes per second: a flow that never sends has no egress rate to grow from.
    pub rate_min: f64,
}

/// The highest rate, bytes per second.
const RATE_MAX: f64 = 1e15;

/// More than this many times the egress rate is congestion in slow start: the rate doubles at most three times before a
/// change shows in the feedback (section II.C).
const SLOW_START_EXCESS: f64 = 8.0;
/// More than so many `mrc` above the egress rate is congestion in congestion avoidance, by the same reasoning.
const AVOIDANCE_EXCESS_MRCS: f64 = 3.0;

impl FlowRate {
    /// A new flow.
    pub const fn new(ingress_rate: f64) -> Self {
        Self { phase: Phase::SlowStart, ingress_rate, mrc: 0.0 }
    }

    /// Normal feedback (Fig. 6, first branch). `may_increase` is false when other feedback of this flow already speaks
    /// for this round trip (several egress routers): it may only cut then.
    pub fn on_normal(&mut self, egress_rate: f64, path: &PathDelay, limits: &Limits, may_increase: bool) {
        self.mrc = minimum_rate_change(egress_rate, path, limits);
        let congested = is_congested(self.ingress_rate, path, limits);
        if self.phase == Phase::SlowStart {
            if !congested {
                if may_increase {
                    self.ingress_rate = (self.ingress_rate * 2.0).min(RATE_MAX);
                }
                return;
            }
            // No return: the printed code goes on to the next `if` with the new phase (NBP-1).
            self.phase = Phase::CongestionAvoidance;
        }
        if congested {
            let before = self.ingress_rate;
            self.cut(egress_rate, path, limits);
            if !may_increase {
                self.ingress_rate = self.ingress_rate.min(before);
            }
        } else if may_increase {
            self.ingress_rate += self.mrc;
        }
        self.ingress_rate = self.ingress_rate.max(limits.rate_min);
    }

    /// Asynchronous feedback (Fig. 6, second branch), which carries no time stamp.
    pub fn on_asynchronous(&mut self, egress_rate: f64, path: &PathDelay, limits: &Limits) {
        let tolerated = match self.phase {
            Phase::SlowStart => egress_rate * SLOW_START_EXCESS,
            Phase::CongestionAvoidance => egress_rate + AVOIDANCE_EXCESS_MRCS * self.mrc,
        };
        if self.ingress_rate > tolerated {
            self.cut(egress_rate, path, limits);
            self.phase = Phase::CongestionAvoidance;
        }
    }

    /// `f.ingress_rate = f.egress_rate - f.mrc`.
    fn cut(&mut self, egress_rate: f64, path: &PathDelay, limits: &Limits) {
        self.ingress_rate = if egress_rate > 0.0 {
            (egress_rate - self.mrc).max(egress_rate * 0.5)
        } else {
            // NBP-3; never above what it was: feedback of congestion does not raise a rate.
            (limits.mss / path.base_rtt).min(self.ingress_rate)
        }
        .max(limits.rate_min);
    }
}

/// `min(MSS / e.currentRTT, f.egress_rate / MF)`.
fn minimum_rate_change(egress_rate: f64, path: &PathDelay, limits: &Limits) -> f64 {
    (limits.mss / path.current_rtt).min(egress_rate / limits.mrc_factor)
}

/// Whether the network buffers more of the flow than one largest packet per hop: `deltaRTT * ingress_rate >= MSS * hops`.
pub(super) fn is_congested(ingress_rate: f64, path: &PathDelay, limits: &Limits) -> bool {
    let delta_rtt = path.current_rtt - path.base_rtt;
    delta_rtt * ingress_rate >= limits.mss * path.hop_count
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { mss: 1500.0, mrc_factor: 10.0, rate_min: 1500.0 };
    const QUIET: PathDelay = PathDelay { current_rtt: 0.05, base_rtt: 0.05, hop_count: 2.0 };
    const QUEUED: PathDelay = PathDelay { current_rtt: 0.15, base_rtt: 0.05, hop_count: 2.0 };

    #[test]
    fn slow_start_doubles_until_more_than_a_packet_per_hop_is_buffered() {
        let mut flow = FlowRate::new(10_000.0);
        flow.on_normal(10_000.0, &QUIET, &LIMITS, true);
        assert_eq!((flow.ingress_rate, flow.phase), (20_000.0, Phase::SlowStart));
        // 0.1 s of 20,000 B/s is 2000 B, below 2 * 1500 B.
        flow.on_normal(20_000.0, &QUEUED, &LIMITS, true);
        assert_eq!((flow.ingress_rate, flow.phase), (40_000.0, Phase::SlowStart));
    }

    #[test]
    fn an_idle_flow_does_not_double_out_of_the_numbers() {
        let mut flow = FlowRate::new(10_000.0);
        (0..2000).for_each(|_| flow.on_normal(10.0, &QUIET, &LIMITS, true));
        assert_eq!((flow.ingress_rate, flow.phase), (RATE_MAX, Phase::SlowStart));
        flow.on_normal(10.0, &QUEUED, &LIMITS, true);
        assert_eq!((flow.ingress_rate, flow.phase), (LIMITS.rate_min, Phase::CongestionAvoidance));
    }

    #[test]
    fn a_congested_slow_start_changes_phase_and_cuts_in_one_pass() {
        let mut flow = FlowRate::new(40_000.0);
        flow.on_normal(30_000.0, &QUEUED, &LIMITS, true);
        // mrc = min(1500 / 0.15, 3000) = 3000.
        assert_eq!((flow.ingress_rate, flow.phase), (27_000.0, Phase::CongestionAvoidance));
    }

    #[test]
    fn congestion_avoidance_grows_by_one_mss_per_round_trip_at_most_a_tenth() {
        let mut flow = FlowRate { phase: Phase::CongestionAvoidance, ..FlowRate::new(1e6) };
        flow.on_normal(1e6, &QUIET, &LIMITS, true);
        assert_eq!(flow.ingress_rate, 1e6 + 1500.0 / 0.05);
        let mut slow = FlowRate { phase: Phase::CongestionAvoidance, ..FlowRate::new(16_000.0) };
        slow.on_normal(16_000.0, &QUIET, &LIMITS, true);
        assert_eq!(slow.ingress_rate, 17_600.0);
    }

    #[test]
    fn asynchronous_feedback_tolerates_three_round_trips_of_growth() {
        let mut flow = FlowRate::new(80_000.0);
        flow.on_asynchronous(10_000.0, &QUIET, &LIMITS);
        assert_eq!((flow.ingress_rate, flow.phase), (80_000.0, Phase::SlowStart));
        flow.ingress_rate = 80_001.0;
        flow.mrc = 1000.0;
        flow.on_asynchronous(10_000.0, &QUIET, &LIMITS);
        assert_eq!((flow.ingress_rate, flow.phase), (9_000.0, Phase::CongestionAvoidance));
        flow.ingress_rate = 13_000.0;
        flow.on_asynchronous(10_000.0, &QUIET, &LIMITS);
        assert_eq!(flow.ingress_rate, 13_000.0);
        flow.ingress_rate = 13_001.0;
        flow.on_asynchronous(10_000.0, &QUIET, &LIMITS);
        assert_eq!(flow.ingress_rate, 9_000.0);
    }

    #[test]
    fn a_flow_of_which_nothing_left_yet_keeps_moving() {
        let mut flow = FlowRate::new(100_000.0);
        flow.on_normal(0.0, &QUEUED, &LIMITS, true);
        assert_eq!(flow.ingress_rate, 30_000.0);
        for _ in 0..100 {
            flow.on_asynchronous(0.0, &QUEUED, &LIMITS);
            flow.on_normal(0.0, &QUEUED, &LIMITS, true);
        }
        assert!(flow.ingress_rate >= LIMITS.rate_min);
    }
}
