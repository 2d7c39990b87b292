//! How long to wait for an acknowledgment: the smoothed round-trip time and the time-out made of it.
//!
//! Source: `modern`: RFC 6298, sections 2 and 5.5. `ns-1999`: the integer arithmetic in ticks of ns-2's agents
//! (tests/oracle/ns2, section 1.3), with the same rounding.
//! Deviations: `modern` divides integers of nanoseconds, so srtt and rttvar are within 16 ns of the real-valued ones. Its
//! lower bound holds for `4 rttvar` and not for the sum, as in Linux (`tcp_rtt_estimator`): 200 ms in all, where RFC 6298
//! (2.4) asks for 1 s, would expire while a queue that fills in slow start lengthens the round trip. One segment is timed
//! at a time in both profiles (RFC 6298, section 3, asks for no more), which keeps Karn's rule trivial: a retransmission
//! drops the running sample. RACK knows when each segment went, and times all ([`RtoEstimator::set`]).

use tidegate_units::{Span, Time};

use super::config::{RtoConfig, Rules};

/// The highest multiplier of ns's backoff.
const BACKOFF_MAX: u32 = 64;

/// The estimator of one connection.
// In this order: every acknowledgment asks for the first three, samples are seldom.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RtoEstimator {
    /// The time-out as a timer takes it: bounded, backed off.
    rto: Span,
    /// `modern`: srtt in ns. `ns-1999`: 8 srtt in ticks (`t_srtt`). Zero: no sample yet.
    srtt: u64,
    rules: Rules,
    backoff: u32,
    /// `modern`: rttvar in ns. `ns-1999`: 4 rttvar in ticks (`t_rttvar`).
    rttvar: u64,
    /// The time-out before backing off and before its bounds (`t_rtxcur`).
    unbacked: Span,
    config: RtoConfig,
}

impl RtoEstimator {
    pub fn new(config: RtoConfig, rules: Rules) -> Self {
        let mut estimator =
            Self { rto: Span::ZERO, srtt: 0, rttvar: 0, unbacked: config.initial, backoff: 1, rules, config };
        estimator.refresh();
        estimator
    }

    /// The time-out.
    #[inline]
    pub const fn rto(&self) -> Span {
        self.rto
    }

    /// The smoothed round-trip time; zero before the first sample.
    #[inline]
    pub const fn srtt(&self) -> Span {
        match self.rules {
            Rules::Modern => Span::from_nanos(self.srtt),
            Rules::Ns1999 => Span::from_nanos(self.srtt * self.config.granularity.as_nanos() / 8),
        }
    }

    /// The smoothed deviation of the round-trip time.
    pub const fn rttvar(&self) -> Span {
        match self.rules {
            Rules::Modern => Span::from_nanos(self.rttvar),
            Rules::Ns1999 => Span::from_nanos(self.rttvar * self.config.granularity.as_nanos() / 4),
        }
    }

    /// The multiplier now in force.
    pub const fn backoff(&self) -> u32 {
        self.backoff
    }

    /// A segment sent at `sent` for the first and only time was acknowledged. Ends the backoff.
    pub fn on_sample(&mut self, sent: Time, now: Time) {
        self.backoff = 1;
        match self.rules {
            Rules::Modern => self.smooth(now.since(sent).as_nanos()),
            Rules::Ns1999 => self.smooth_ticks(self.ticks_between(sent, now)),
        }
        self.refresh();
    }

    /// RFC 6298, (2.2) and (2.3), with alpha 1/8 and beta 1/4.
    fn smooth(&mut self, r: u64) {
        if self.srtt == 0 {
            self.srtt = r.max(1);
            self.rttvar = r / 2;
        } else {
            self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(r) / 4;
            self.srtt = (self.srtt - self.srtt / 8 + r / 8).max(1);
        }
        let k_rttvar = Span::from_nanos(4 * self.rttvar);
        self.unbacked =
            Span::from_nanos(self.srtt) + k_rttvar.max(self.config.granularity).max(self.config.min);
    }

    /// What the time-out adds to the smoothed round-trip time at least (`modern`).
    pub const fn least_added(&self) -> Span {
        self.config.min
    }

    /// The estimate of one who times every segment (`modern`): the smoothed round-trip time, and what the time-out adds to it. Ends the
    /// backoff.
    pub fn set(&mut self, srtt: Span, added: Span) {
        self.backoff = 1;
        self.srtt = srtt.as_nanos().max(1);
        self.rttvar = added.as_nanos() / 4;
        self.unbacked = srtt + added.max(self.config.granularity).max(self.config.min);
        self.refresh();
    }

    /// How many ticks this host's clock saw pass; at least one.
    fn ticks_between(&self, sent: Time, now: Time) -> u64 {
        let tick = self.config.granularity.as_nanos();
        let phase = self.config.clock_phase.unwrap_or(Span::ZERO).as_nanos();
        ((now.as_nanos() + phase) / tick).saturating_sub((sent.as_nanos() + phase) / tick).max(1)
    }

    /// ns's `rtt_update`: srtt scaled by 8, rttvar by 4, both whole.
    fn smooth_ticks(&mut self, m: u64) {
        if self.srtt == 0 {
            self.srtt = m << 3;
            self.rttvar = m << 1;
        } else {
            let smoothed = self.srtt >> 3;
            let error = m.abs_diff(smoothed);
            self.srtt = (self.srtt + m - smoothed).max(1);
            self.rttvar = (self.rttvar + error - (self.rttvar >> 2)).max(1);
        }
        // srtt + 4 rttvar in ticks, rounded down.
        let ticks = ((self.rttvar << 3) + self.srtt) >> 3;
        self.unbacked = self.config.granularity.saturating_mul(ticks);
    }

    /// The timer expired: the next wait is twice as long.
    pub fn back_off(&mut self) {
        match self.rules {
            // (5.5); the product is bounded long before the multiplier could overflow.
            Rules::Modern => self.backoff = self.backoff.saturating_mul(2),
            Rules::Ns1999 => {
                if self.backoff < BACKOFF_MAX {
                    self.backoff *= 2;
                }
                if self.backoff > 8 {
                    // The estimate is stale: keep it as deviation, and let the next sample start afresh.
                    self.rttvar += self.srtt >> 3;
                    self.srtt = 0;
                }
            }
        }
        self.refresh();
    }

    /// How long an ECN echo at a window of one segment stops the sender: a time-out, doubled `doublings` times, within
    /// the upper bound (catalogue, section 1).
    pub fn ecn_pause(&self, doublings: u32) -> Span {
        self.rto.saturating_mul(1 << doublings.min(BACKOFF_MAX.ilog2())).min(self.config.max)
    }

    /// Goes on with `backoff` although a sample was taken.
    pub fn keep_backoff(&mut self, backoff: u32) {
        self.backoff = backoff;
        self.refresh();
    }

    /// Ends the backoff without a sample: ns's agents do so on partial acknowledgments.
    pub fn reset_backoff(&mut self) {
        self.backoff = 1;
        self.refresh();
    }

    fn refresh(&mut self) {
        let config = &self.config;
        let mut rto = match self.rules {
            // The lower bound holds before backing off (2.4), and before a sample too; the upper one after (5.5).
            Rules::Modern => self.unbacked.max(config.min),
            Rules::Ns1999 => self.unbacked,
        };
        rto = rto.saturating_mul(u64::from(self.backoff)).max(config.min).min(config.max);
        if self.rules == Rules::Ns1999 {
            // A tick may be nearly over when the timer is set.
            rto = rto.max(config.granularity.saturating_mul(2));
        }
        self.rto = rto;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::{TcpConfig, Variant};

    fn ns() -> RtoEstimator {
        RtoEstimator::new(TcpConfig::ns_1999(Variant::Reno).rto, Rules::Ns1999)
    }
    fn modern() -> RtoEstimator {
        RtoEstimator::new(TcpConfig::modern(Variant::Reno).rto, Rules::Modern)
    }
    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn rfc_6298_first_and_second_sample() {
        let mut rto = modern();
        assert_eq!(rto.rto(), Span::from_secs(1));
        rto.on_sample(at(0), at(100));
        assert_eq!((rto.srtt(), rto.rttvar()), (Span::from_millis(100), Span::from_millis(50)));
        assert_eq!(rto.rto(), Span::from_millis(300));
        rto.on_sample(at(0), at(180));
        // rttvar = 3/4 50 + 1/4 80, srtt = 7/8 100 + 1/8 180
        assert_eq!((rto.srtt(), rto.rttvar()), (Span::from_millis(110), Span::from_micros(57_500)));
        assert_eq!(rto.rto(), Span::from_millis(340));
    }

    #[test]
    fn rfc_6298_backoff_doubles_to_its_bound_and_a_sample_ends_it() {
        let mut rto = modern();
        let waits: [u64; 8] = core::array::from_fn(|_| {
            rto.back_off();
            rto.rto().as_nanos() / 1_000_000_000
        });
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        (0..100).for_each(|_| rto.back_off());
        rto.on_sample(at(0), at(100));
        assert_eq!(rto.rto(), Span::from_millis(300));
    }

    #[test]
    fn a_steady_path_keeps_the_lower_bound_above_its_round_trip() {
        for round_trip in [20, 300] {
            let mut rto = modern();
            (0..100).for_each(|_| rto.on_sample(at(0), at(round_trip)));
            assert_eq!(rto.rto(), Span::from_millis(round_trip + 200));
        }
    }

    #[test]
    fn ns_counts_ticks_of_the_hosts_clock() {
        let mut rto = ns();
        assert_eq!(rto.rto(), Span::from_secs(6));
        // 60 ms across the boundary of a tick is one tick; so is 60 ms inside one.
        rto.on_sample(at(80), at(140));
        assert_eq!((rto.srtt, rto.rttvar), (8, 2));
        assert_eq!(rto.rto(), Span::from_millis(300));
        // 250 ms from 80 to 330: three boundaries. d = 3 - 1 = 2: srtt 10; rttvar 2 + (2 - 0) = 4.
        rto.on_sample(at(80), at(330));
        assert_eq!((rto.srtt, rto.rttvar), (10, 4));
        assert_eq!(rto.rto(), Span::from_millis(500));
    }

    #[test]
    fn ns_waits_three_ticks_on_a_short_path_because_a_deviation_of_two_never_decays() {
        let mut rto = ns();
        (0..50).for_each(|_| rto.on_sample(at(10), at(20)));
        assert_eq!((rto.srtt, rto.rttvar), (8, 2));
        assert_eq!(rto.rto(), Span::from_millis(300));
    }

    #[test]
    fn ns_backoff_stops_at_64_and_forgets_a_stale_estimate() {
        let mut rto = ns();
        rto.on_sample(at(80), at(140));
        let factors: [u32; 8] = core::array::from_fn(|_| {
            rto.back_off();
            rto.backoff
        });
        assert_eq!(factors, [2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!((rto.srtt, rto.rttvar), (0, 3));
        assert_eq!(rto.rto(), Span::from_millis(300 * 64), "the time-out itself is not recomputed");
        rto.on_sample(at(80), at(140));
        assert_eq!((rto.srtt, rto.rttvar, rto.backoff), (8, 2, 1));
    }
}
