//! Impairments: what a link does to packets by itself.

use tidegate_parameters::{Bound, bound, family, parameters};
use tidegate_units::Span;

family! {
    /// Which packets the medium loses.
    pub enum Loss {
        /// Independently of each other.
        Random(RandomLoss) = "random",
        /// Those of a list.
        List(ListLoss) = "list",
        /// In bursts.
        Burst(BurstLoss) = "burst",
    }
}

parameters! {
    /// # Random loss
    ///
    /// Each packet is lost with the same probability, independently.
    ///
    /// Source: ns (`ErrorModel`, unit packet).
    pub struct RandomLoss {
        /// The probability, 0 to 1.
        probability: f64 => bound::PROBABILITY;
    }
}

parameters! {
    /// # Loss of named packets
    ///
    /// Loses the packets with these ordinals, counted from 1 in the order in which they cross this direction; what its queue drops does not count.
    ///
    /// Source: ns (`ErrorModel/List`).
    pub struct ListLoss {
        /// The ordinals, ascending.
        packets: Vec<u64>;
    }
    check |config, report| {
        if config.packets.first() == Some(&0) || !config.packets.is_sorted_by(|a, b| a < b) {
            report.say("packets", "ordinals count from 1 and ascend", "");
        }
        if config.packets.len() > LIST_MAX {
            report.say("packets", format!("more than {LIST_MAX} packets"), "");
        }
    };
}

parameters! {
    /// # Loss in bursts
    ///
    /// Two states, good and bad, between which the medium changes per packet, each with its own probability of loss.
    ///
    /// Source: Gilbert 1960, Elliott 1963.
    pub struct BurstLoss {
        /// Probability per packet that good becomes bad.
        good_to_bad: f64 => bound::PROBABILITY;
        /// Probability per packet that bad becomes good; the mean length of a burst is its reciprocal.
        bad_to_good: f64 => bound::PROBABILITY;
        /// Probability of loss in the good state. Source: Gilbert 1960.
        loss_good: f64 = 0.0 => bound::PROBABILITY;
        /// Probability of loss in the bad state. Source: the simple Gilbert model.
        loss_bad: f64 = 1.0 => bound::PROBABILITY;
    }
}

parameters! {
    /// # Reordering
    ///
    /// Some packets take longer than others and are overtaken.
    ///
    /// Source: netem (`reorder`).
    pub struct Reorder {
        /// The probability that a packet is held back, 0 to 1.
        probability: f64 => bound::PROBABILITY;
        /// How much longer such a packet takes.
        delay: Span => bound::DELAY;
    }
}

family! {
    /// How the time varies that packets travel, without that one overtakes another.
    pub enum Jitter {
        /// By as much as is drawn for each.
        Uniform(UniformJitter) = "uniform",
        /// To when the medium lets packets arrive.
        Slots(SlotJitter) = "slots",
    }
}

parameters! {
    /// # Uniform jitter
    ///
    /// Each packet travels longer by a time of its own, drawn uniformly, but arrives no earlier than the packet before it.
    ///
    /// Source: netem (`delay TIME JITTER` over a queue that keeps the order, `pfifo`).
    pub struct UniformJitter {
        /// How much longer a packet travels at most.
        most: Span => bound::DELAY;
    }
}

parameters! {
    /// # Jitter of time slots
    ///
    /// Packets arrive when a slot of the medium ends, in order, as where a frame or a grant carries them: in LTE, Wi-Fi, DOCSIS.
    ///
    /// Source: our own, after the frames of LTE (1 ms) and the grants of DOCSIS (2 ms), from memory; real ones depend on load too.
    pub struct SlotJitter {
        /// The time between two slots.
        every: Span => SLOT;
        /// When the first one is. Source: assumed.
        phase: Span = Span::ZERO => bound::DELAY;
    }
    check |config, report| {
        if config.phase >= config.every && !config.every.is_zero() {
            report.say("phase", format!("{} is not below the time between two slots, {}", config.phase, config.every), "");
        }
    };
}

/// A time between two slots.
const SLOT: Bound<Span> = Bound::above(Span::ZERO).and_at_most(bound::DELAY_MAX).saying("slots every ", "");

/// Entries of a list of lost packets.
const LIST_MAX: usize = 1_000_000;
