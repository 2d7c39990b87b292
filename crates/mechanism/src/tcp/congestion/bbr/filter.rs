//! The largest of what was measured in the last ten round trips.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, section 4.1.1.5 (`BBR.BtlBwFilter`).
//! Deviations: exact, by a maximum for each round trip, where Linux keeps three samples.

/// `BBRBtlBwFilterLen`, in round trips.
const ROUNDS: usize = 10;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp::congestion) struct MaxOfRounds {
    /// The largest sample of each round, by its number modulo the length.
    largest: [f64; ROUNDS],
    /// The round of the last sample.
    round: u64,
    /// The largest of all.
    max: f64,
}

impl MaxOfRounds {
    /// A sample of round `round`; rounds never go back.
    pub(in crate::tcp::congestion) fn update(&mut self, round: u64, sample: f64) {
        let passed = (round - self.round).min(ROUNDS as u64);
        for back in 0..passed {
            self.largest[((round - back) % ROUNDS as u64) as usize] = 0.0;
        }
        self.round = round;
        let now = &mut self.largest[(round % ROUNDS as u64) as usize];
        *now = now.max(sample);
        self.max = self.largest.iter().fold(0.0, |max: f64, of_round| max.max(*of_round));
    }

    /// The largest sample of the round of the last one.
    pub(in crate::tcp::congestion) const fn of_this_round(&self) -> f64 {
        self.largest[(self.round % ROUNDS as u64) as usize]
    }

    /// The largest sample; zero before the first one.
    pub(in crate::tcp::congestion) const fn get(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_forgotten_after_ten_rounds() {
        let mut filter = MaxOfRounds::default();
        filter.update(1, 7.0);
        (2..=10).for_each(|round| filter.update(round, 3.0));
        assert_eq!(filter.get(), 7.0);
        filter.update(11, 2.0);
        assert_eq!(filter.get(), 3.0);
        filter.update(500, 1.0);
        assert_eq!(filter.get(), 1.0);
    }
}
