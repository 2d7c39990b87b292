//! Weights of classes that follow how many connections are active in each: a class keeps what is reserved for it, and of the
//! rest of the link it gets as many equal parts as it has active connections. So a connection gets the same of what nobody
//! reserved, in whichever queue it waits. With fixed weights a crowd in one class would starve beside a few in another.
//!
//! Source: Feng, section 5.2.2 (separate queues for controlled load and best effort under weighted fair queueing: "it has to
//! monitor the number of active connections in the controlled-load and best-effort classes and has to adjust the weights
//! dynamically").
//! Deviations:
//! - The thesis says what must come out, an "equal-fair share of excess bandwidth", and no formula; [`weight`] is the one that
//!   gives it while all classes have something waiting.
//! - Which connections are active is told by [`ActiveFlows`]; the thesis leaves it open.
//! - A class without a part, because more is reserved than there is, keeps a thousandth of the link: weights are positive.

use alloc::vec::Vec;

use tidegate_packet::FlowId;
use tidegate_units::{BitRate, Time};

use crate::meter::{ActiveFlows, ActiveFlowsConfig};

/// Classes that are told apart; packets of more share the last.
const CLASSES_MAX: usize = 256;

/// The least part of the link that a class keeps.
const LEAST: f64 = 1e-3;

/// Parameters of weights that follow the active connections.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ActiveWeightsConfig {
    /// What is reserved for classes, by number. Default: nothing.
    pub reserved: Vec<(u32, BitRate)>,
    /// How active connections are counted, in each class. Default 1 s (assumed).
    pub count: ActiveFlowsConfig,
}

#[derive(Clone, Debug)]
struct Class {
    key: u32,
    reserved: f64,
    flows: ActiveFlows,
    /// Connections, as the weight knows them.
    active: u32,
    weight: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ActiveWeights {
    classes: Vec<Class>,
    /// Bits per second.
    link: f64,
    /// The number of the window in which all classes were last looked at.
    window: u64,
    config: ActiveWeightsConfig,
}

impl ActiveWeights {
    pub(super) fn new(config: &ActiveWeightsConfig, link: BitRate) -> Self {
        let mut weights = Self { classes: Vec::new(), link: bits(link), window: 0, config: config.clone() };
        for (key, _) in &config.reserved {
            weights.class_of(*key);
        }
        weights.weigh();
        weights
    }

    /// The position of class `key`, which may be new.
    fn class_of(&mut self, key: u32) -> usize {
        if let Some(index) = self.classes.iter().position(|class| class.key == key) {
            return index;
        }
        if self.classes.len() == CLASSES_MAX {
            return CLASSES_MAX - 1;
        }
        let reserved =
            self.config.reserved.iter().find(|(of, _)| *of == key).map_or(0.0, |(_, rate)| bits(*rate));
        self.classes.push(Class {
            key,
            reserved,
            flows: self.config.count.build(),
            active: 0,
            weight: LEAST,
        });
        self.classes.len() - 1
    }

    /// A packet of `flow` arrives for class `key`; whether weights changed.
    #[inline]
    pub(super) fn on_arrival(&mut self, key: u32, flow: FlowId, now: Time) -> bool {
        let index = self.class_of(key);
        let own = &mut self.classes[index];
        let count = own.flows.on_arrival(flow, now);
        let window = now.as_nanos() / self.config.count.window.as_nanos();
        if count == own.active && window == self.window {
            return false;
        }
        self.window = window;
        let mut is_changed = false;
        for class in &mut self.classes {
            let active = class.flows.count_at(now);
            is_changed |= active != class.active;
            class.active = active;
        }
        if is_changed {
            self.weigh();
        }
        is_changed
    }

    pub(super) fn set_link_rate(&mut self, link: BitRate) {
        self.link = bits(link);
        self.weigh();
    }

    fn weigh(&mut self) {
        let active: u32 = self.classes.iter().map(|class| class.active).sum();
        let reserved: f64 = self.classes.iter().map(|class| class.reserved).sum();
        let excess = (self.link - reserved).max(0.0) / f64::from(active.max(1));
        for class in &mut self.classes {
            class.weight = weight(class.reserved, class.active, excess, self.link);
        }
    }

    /// The weight of class `key`: a part of the link.
    #[inline]
    pub(super) fn weight(&self, key: u32) -> f64 {
        let known = self.classes.iter().find(|class| class.key == key);
        known.or(self.classes.last()).map_or(1.0, |class| class.weight)
    }
}

fn bits(rate: BitRate) -> f64 {
    rate.as_bps() as f64
}

/// `(r + n e) / C`: a class of `active` connections keeps what is `reserved` and gets an equal part `excess` of the rest for each
/// of them (Feng, section 5.2.2).
fn weight(reserved: f64, active: u32, excess: f64, link: f64) -> f64 {
    // A link that stands still is one of a bit per second.
    ((reserved + f64::from(active) * excess) / link.max(1.0)).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const LINK: BitRate = BitRate::from_mbps(10);

    fn build(reserved: &[(u32, u64)]) -> ActiveWeights {
        let reserved = reserved.iter().map(|(key, mbps)| (*key, BitRate::from_mbps(*mbps))).collect();
        ActiveWeights::new(&ActiveWeightsConfig { reserved, ..ActiveWeightsConfig::default() }, LINK)
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn three_reservations_beside_three_others_leave_the_shares_of_figure_5_8() {
        // 7 of 10 Mb/s are reserved, and six share 3: the three get 8.5, the others 1.5.
        let mut weights = build(&[(1, 7)]);
        for flow in 0..6 {
            weights.on_arrival(u32::from(flow < 3), FlowId(flow), at(0));
        }
        assert!((weights.weight(1) - 0.85).abs() < 1e-12 && (weights.weight(0) - 0.15).abs() < 1e-12);
    }

    #[test]
    fn connections_that_fall_silent_stop_counting() {
        let mut weights = build(&[(1, 4)]);
        for flow in 0..4 {
            weights.on_arrival(0, FlowId(flow), at(0));
        }
        weights.on_arrival(1, FlowId(9), at(0));
        assert!((weights.weight(1) - (0.4 + 0.6 / 5.0)).abs() < 1e-12);
        // Two windows later only the connection of class 1 still sends.
        assert!(weights.on_arrival(1, FlowId(9), at(2000)));
        assert!((weights.weight(1) - 1.0).abs() < 1e-12);
        assert_eq!(weights.weight(0), LEAST);
    }

    #[test]
    fn more_reservations_than_link_leave_a_class_its_least_part() {
        let mut weights = build(&[(1, 12)]);
        weights.on_arrival(0, FlowId(0), at(0));
        assert_eq!(weights.weight(0), LEAST);
    }

    proptest! {
        #[test]
        fn every_active_connection_gets_the_same_of_what_nobody_reserved(
            reserved in prop::collection::vec(0u64..4, 2..5),
            arrivals in prop::collection::vec((0u32..5, 0u32..40, 0u64..3000), 1..200),
        ) {
            let numbered: Vec<(u32, u64)> = (0u32..).zip(reserved).collect();
            let mut weights = build(&numbered);
            let mut millis = 0;
            for (key, flow, wait) in arrivals {
                millis += wait;
                weights.on_arrival(key, FlowId(flow), at(millis));
                let excess = |class: &Class| (class.weight * 10e6 - class.reserved) / f64::from(class.active);
                let parts: Vec<f64> = weights.classes.iter().filter(|c| c.active > 0).map(excess).collect();
                prop_assert!(!parts.is_empty());
                if numbered.iter().map(|(_, mbps)| mbps).sum::<u64>() < 10 {
                    prop_assert!(parts.iter().all(|part| (part - parts[0]).abs() < 1.0), "{parts:?}");
                }
                prop_assert!(weights.classes.iter().all(|class| class.weight >= LEAST));
            }
        }
    }

    #[test]
    fn classes_are_bounded() {
        let mut weights = build(&[]);
        for key in 0..1000 {
            weights.on_arrival(key, FlowId(key), at(0));
        }
        assert_eq!(weights.classes.len(), CLASSES_MAX);
        assert_eq!(vec![weights.weight(700)], vec![weights.classes[CLASSES_MAX - 1].weight]);
    }
}
