//! The rate that a policer lets through: it drops what is above its rate without a queue, so that the largest rate of the last round
//! trips, taken while it had tokens, is too much for it again and again. Where two times in a row much was lost at about the same rate,
//! that rate is believed for a while.
//!
//! Source: Linux, `net/ipv4/tcp_bbr.c` (`bbr_lt_bw_sampling`); draft-cardwell-iccrg-bbr-congestion-control-00 has no such estimate. Flach
//! et al., An Internet-Wide Analysis of Traffic Policing (SIGCOMM 2016).
//! Deviations: times are exact, where Linux counts in milliseconds; what a time-out does counts with the acknowledgment after it.

use tidegate_units::Time;

use super::BbrState;

/// The fewest round trips of an interval (`bbr_lt_intvl_min_rtts`); one of four times as many is too long.
const ROUNDS_MIN: u32 = 4;
/// From which part of what was delivered on losses are those of a policer (`bbr_lt_loss_thresh`).
const LOSS_MIN: f64 = 50.0 / 256.0;
/// Rates are about the same when they differ by so much of the former, or by so many bytes per second (`bbr_lt_bw_ratio`,
/// `bbr_lt_bw_diff`).
const RATIO_MAX: f64 = 1.0 / 8.0;
const DIFFERENCE_MAX: f64 = 500.0;
/// How many round trips the rate is believed (`bbr_lt_bw_max_rtts`).
const BELIEVED_ROUNDS: u32 = 48;

/// What an acknowledgment tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub round_start: bool,
    pub state: BbrState,
    pub is_app_limited: bool,
    /// Something was found to be lost.
    pub has_lost: bool,
    /// Bytes delivered since the start.
    pub delivered_total_bytes: u64,
}

/// What follows for the control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// As before.
    AsBefore,
    /// The rate was believed long enough: look for more again.
    LooksForMore,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Of the last interval, in bytes per second; zero: there was none.
    rate: f64,
    is_believed: bool,
    is_sampling: bool,
    rounds: u32,
    since: Time,
    delivered_before: u64,
    lost_bytes: u64,
}

impl Policer {
    /// The rate to send at, in bytes per second, where there is a policer.
    pub(super) const fn rate(&self) -> Option<f64> {
        if self.is_believed { Some(self.rate) } else { None }
    }

    /// So many bytes were found to be lost, whether the acknowledgment has a rate or not.
    pub(super) const fn on_lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes;
    }

    /// An acknowledgment with a rate.
    pub(super) fn update(&mut self, told: &Told, now: Time) -> Verdict {
        if self.is_believed {
            if told.state == BbrState::ProbeBw && told.round_start {
                self.rounds += 1;
                if self.rounds >= BELIEVED_ROUNDS {
                    *self = Self::default();
                    return Verdict::LooksForMore;
                }
            }
            return Verdict::AsBefore;
        }
        if !self.is_sampling {
            // From the first loss on: before, the policer had tokens.
            if !told.has_lost {
                return Verdict::AsBefore;
            }
            self.begin(told, now);
            self.is_sampling = true;
        }
        if told.is_app_limited {
            *self = Self::default();
            return Verdict::AsBefore;
        }
        self.rounds += u32::from(told.round_start);
        if self.rounds > 4 * ROUNDS_MIN {
            *self = Self::default();
        } else if self.rounds >= ROUNDS_MIN && told.has_lost {
            // It ends with a loss: tokens are used up.
            self.end(told, now);
        }
        Verdict::AsBefore
    }

    fn begin(&mut self, told: &Told, now: Time) {
        self.rounds = 0;
        self.since = now;
        self.delivered_before = told.delivered_total_bytes;
        self.lost_bytes = 0;
    }

    fn end(&mut self, told: &Told, now: Time) {
        let delivered = (told.delivered_total_bytes - self.delivered_before) as f64;
        let took = now.since(self.since).as_secs_f64();
        if took <= 0.0 || delivered <= 0.0 || (self.lost_bytes as f64) < LOSS_MIN * delivered {
            return;
        }
        let rate = delivered / took;
        let difference = (rate - self.rate).abs();
        if self.rate > 0.0 && (difference <= RATIO_MAX * self.rate || difference <= DIFFERENCE_MAX) {
            self.rate = f64::midpoint(rate, self.rate);
            self.is_believed = true;
            self.rounds = 0;
        } else {
            self.rate = rate;
            self.begin(told, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_units::Span;

    use super::*;

    const RATE: f64 = 100_000.0;

    /// A round trip of 10 ms: so many bytes lost, and what the rate gives delivered.
    fn round(policer: &mut Policer, number: u64, lost_bytes: u64, rate: f64) -> Verdict {
        let told = Told {
            round_start: true,
            state: BbrState::ProbeBw,
            is_app_limited: false,
            has_lost: lost_bytes > 0,
            delivered_total_bytes: (number as f64 * rate * 0.01) as u64,
        };
        policer.on_lost(lost_bytes);
        policer.update(&told, Time::ZERO + Span::from_millis(10 * number))
    }

    #[test]
    fn a_rate_at_which_a_fifth_is_lost_twice_is_believed_for_48_round_trips() {
        let mut policer = Policer::default();
        // Two intervals of four round trips, the first from the first loss on.
        for number in 1..=7 {
            round(&mut policer, number, 200, RATE);
            assert_eq!(policer.rate(), None, "{number}");
        }
        round(&mut policer, 8, 200, RATE);
        assert_eq!(policer.rate(), Some(RATE));
        for number in 9..56 {
            assert_eq!(round(&mut policer, number, 0, RATE), Verdict::AsBefore);
        }
        assert_eq!(round(&mut policer, 56, 0, RATE), Verdict::LooksForMore);
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn losses_of_less_than_a_fifth_and_rates_that_change_are_no_policer() {
        let mut policer = Policer::default();
        for number in 1..=100 {
            round(&mut policer, number, 190, RATE);
        }
        assert_eq!(policer.rate(), None);
        let mut faster = Policer::default();
        for number in 1..=9 {
            round(&mut faster, number, 800, RATE * if number > 4 { 1.3 } else { 1.0 });
        }
        assert_eq!(faster.rate(), None, "two intervals, the second much faster");
    }

    #[test]
    fn an_application_without_data_and_an_interval_without_enough_losses_begin_anew() {
        let mut policer = Policer::default();
        for number in 1..=7 {
            round(&mut policer, number, 200, RATE);
        }
        let idle = Told {
            round_start: false,
            state: BbrState::ProbeBw,
            is_app_limited: true,
            has_lost: true,
            delivered_total_bytes: 7000,
        };
        policer.update(&idle, Time::ZERO + Span::from_millis(75));
        for number in 8..=14 {
            round(&mut policer, number, 200, RATE);
        }
        assert_eq!(policer.rate(), None);
        let mut lossless = Policer::default();
        round(&mut lossless, 1, 200, RATE);
        for number in 2..=17 {
            round(&mut lossless, number, 0, RATE);
        }
        assert!(!lossless.is_sampling, "17 round trips are too long");
    }
}
