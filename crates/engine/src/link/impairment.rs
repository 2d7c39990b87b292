//! What a medium does to packets: loss, reordering and duplication.

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::Span;

/// Which packets a medium loses. Lost packets have used the link.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet independently.
    Random {
        /// From 0 to 1.
        probability: f64,
    },
    /// Those with these ordinals, counted from 0 over all packets that cross the link; ascending.
    List(Vec<u64>),
    /// Gilbert and Elliott's two states.
    Burst {
        /// Probability per packet to go from good to bad.
        enter: f64,
        /// Probability per packet to go from bad to good.
        leave: f64,
        /// Loss probability in the good state.
        good: f64,
        /// Loss probability in the bad state.
        bad: f64,
    },
}

/// How a medium reorders: some packets take longer and are overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderModel {
    /// Share of packets that are held back, from 0 to 1.
    pub probability: f64,
    /// For how long.
    pub delay: Span,
}

/// The impairments of one direction of a link.
#[derive(Debug)]
pub struct Medium {
    loss: Option<LossModel>,
    reorder: Option<ReorderModel>,
    /// Share of packets that arrive twice, from 0 to 1.
    duplicate: f64,
    random: Substream,
    /// Of duplication alone: which packets are lost or held back does not depend on it.
    duplicates: Substream,
    ordinal: u64,
    next_listed: usize,
    bad: bool,
}

impl Medium {
    /// A medium with these models; `None` if it has none.
    pub fn new(
        loss: Option<LossModel>,
        reorder: Option<ReorderModel>,
        duplicate: f64,
        [seed, duplicate_seed]: [Seed; 2],
    ) -> Option<Self> {
        if loss.is_none() && reorder.is_none() && duplicate <= 0.0 {
            return None;
        }
        Some(Self {
            loss,
            reorder,
            duplicate,
            random: Substream::new(seed),
            duplicates: Substream::new(duplicate_seed),
            ordinal: 0,
            next_listed: 0,
            bad: false,
        })
    }

    /// Whether the next packet is lost.
    pub(crate) fn loses(&mut self) -> bool {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        match &self.loss {
            None => false,
            Some(LossModel::Random { probability }) => self.random.chance(*probability),
            Some(LossModel::List(ordinals)) => {
                let listed = ordinals.get(self.next_listed) == Some(&ordinal);
                self.next_listed += usize::from(listed);
                listed
            }
            Some(LossModel::Burst { enter, leave, good, bad }) => {
                let (enter, leave, good, bad) = (*enter, *leave, *good, *bad);
                let change = self.random.chance(if self.bad { leave } else { enter });
                self.bad ^= change;
                self.random.chance(if self.bad { bad } else { good })
            }
        }
    }

    /// For how long the next packet is held back.
    pub(crate) fn holds_back(&mut self) -> Span {
        match self.reorder {
            Some(ReorderModel { probability, delay }) if self.random.chance(probability) => delay,
            _ => Span::ZERO,
        }
    }

    /// Whether the next packet that arrives does so twice.
    pub(crate) fn duplicates(&mut self) -> bool {
        self.duplicate > 0.0 && self.duplicates.chance(self.duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_model_loses_its_stationary_share() {
        let model = LossModel::Burst { enter: 0.01, leave: 0.1, good: 0.0, bad: 0.5 };
        let mut medium = Medium::new(Some(model), None, 0.0, [Seed(3), Seed(4)]).unwrap();
        let lost = (0..400_000).filter(|_| medium.loses()).count() as f64 / 400_000.0;
        // Bad for enter / (enter + leave) of the time.
        assert!((lost - 0.5 * 0.01 / 0.11).abs() < 0.003, "{lost}");
    }

    #[test]
    fn a_list_names_exactly_its_packets() {
        let mut medium = Medium::new(Some(LossModel::List(vec![0, 3])), None, 0.0, [Seed(0); 2]).unwrap();
        let lost: Vec<bool> = (0..5).map(|_| medium.loses()).collect();
        assert_eq!(lost, [true, false, false, true, false]);
    }

    #[test]
    fn duplication_draws_from_a_stream_of_its_own() {
        let fates = |duplicate| {
            let loss = Some(LossModel::Random { probability: 0.2 });
            let mut medium = Medium::new(loss, None, duplicate, [Seed(1), Seed(2)]).unwrap();
            let mut twice = 0;
            let lost: Vec<bool> = (0..10_000)
                .map(|_| {
                    let lost = medium.loses();
                    twice += u32::from(!lost && medium.duplicates());
                    lost
                })
                .collect();
            (lost, twice)
        };
        let ((without, none), (with, twice)) = (fates(0.0), fates(0.3));
        assert_eq!(without, with);
        assert!(none == 0 && (2300..2500).contains(&twice), "{twice} of about 8000");
    }
}
