//! What a medium does to packets.

use super::Report;
use crate::model::{Loss, Reorder};

/// Entries of a list of lost packets.
const LOSS_LIST_MAX: usize = 1_000_000;

pub(crate) fn loss(loss: &Loss, report: &mut Report<'_>) {
    match loss {
        Loss::Random(config) => report.probability("probability", config.probability),
        Loss::List(config) => {
            if config.packets.first() == Some(&0) || !config.packets.is_sorted_by(|a, b| a < b) {
                report.say(&["packets"], "ordinals count from 1 and ascend", "");
            }
            if config.packets.len() > LOSS_LIST_MAX {
                report.say(&["packets"], format!("more than {LOSS_LIST_MAX} packets"), "");
            }
        }
        Loss::Burst(config) => {
            for (key, value) in [
                ("good_to_bad", config.good_to_bad),
                ("bad_to_good", config.bad_to_good),
                ("loss_good", config.loss_good),
                ("loss_bad", config.loss_bad),
            ] {
                report.probability(key, value);
            }
        }
    }
}

pub(crate) fn reorder(config: &Reorder, report: &mut Report<'_>) {
    report.probability("probability", config.probability);
    report.delay("delay", config.delay);
}
