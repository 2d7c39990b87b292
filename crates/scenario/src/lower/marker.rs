//! Markers.

use tidegate_mechanism::mark::{
    AccountConfig, ColourActions, MarkerConfig, MarkingEngineConfig, MarkingLaw, OutOfProfile, ProfileConfig,
    ThreeColourConfig, ThroughputMeter, TwoBuckets,
};
use tidegate_mechanism::shape::TokenBucketConfig;
use tidegate_packet::Dscp;
use tidegate_units::{BitRate, Bytes, Limit};

use super::bytes32;
use crate::model::{Beyond, Engine, EngineGoal, EngineLaw, EngineMeter, Marker, Profile};

/// What a marker does.
pub fn marker(marker: &Marker) -> MarkerConfig {
    match marker {
        Marker::Profile(config) => MarkerConfig::Profile(profile(config)),
        Marker::SingleRate(config) => MarkerConfig::ThreeColour(ThreeColourConfig {
            buckets: TwoBuckets::SingleRate {
                committed_rate: config.committed_rate,
                committed_burst: config.committed_burst,
                excess_burst: config.excess_burst,
            },
            aware: config.aware,
            actions: ColourActions { class: config.class, drop_red: config.drop_red },
        }),
        Marker::TwoRates(config) => MarkerConfig::ThreeColour(ThreeColourConfig {
            buckets: TwoBuckets::TwoRates {
                committed_rate: config.committed_rate,
                committed_burst: config.committed_burst,
                peak_rate: config.peak_rate,
                peak_burst: config.peak_burst,
            },
            aware: config.aware,
            actions: ColourActions { class: config.class, drop_red: config.drop_red },
        }),
        Marker::Engine(config) => MarkerConfig::Engine(engine(config)),
        Marker::Account(config) => MarkerConfig::Account(AccountConfig {
            interval: config.interval,
            price: config.price,
            marked_price: config.marked_price,
        }),
    }
}

/// A depth in bytes; in time, what the rate brings in it.
pub(crate) fn depth(depth: Limit, rate: BitRate) -> Bytes {
    match depth {
        Limit::Bytes(bytes) => bytes,
        Limit::Time(span) => rate.bytes_in(span),
        Limit::Packets(_) => unreachable!("checked: a depth is a size or a time"),
    }
}

fn profile(config: &Profile) -> ProfileConfig {
    ProfileConfig {
        bucket: TokenBucketConfig {
            rate: config.rate,
            depth: depth(config.depth, config.rate),
            peak_rate: config.peak,
        },
        within: Dscp::new(config.marked),
        beyond: match config.beyond {
            Beyond::Unmark => OutOfProfile::Mark(Dscp::new(config.unmarked)),
            Beyond::Drop => OutOfProfile::Drop,
        },
        aware: config.aware,
    }
}

/// How an engine measures throughput.
pub(crate) const fn meter(goal: &EngineGoal) -> ThroughputMeter {
    match goal.meter {
        EngineMeter::Weighted => ThroughputMeter::Weighted { weight: goal.weight },
        EngineMeter::Sliding => ThroughputMeter::Sliding { intervals: goal.windows },
    }
}

fn engine(config: &Engine) -> MarkingEngineConfig {
    MarkingEngineConfig {
        target: config.target,
        law: match config.law {
            EngineLaw::TcpFriendly => {
                MarkingLaw::Friendly { rtt: config.rtt, packet_bytes: bytes32(config.packet) }
            }
            EngineLaw::TcpIndependent => MarkingLaw::Independent { step: config.step },
        },
        meter: meter(&config.goal()),
        interval: config.interval,
        marked: Dscp::new(config.marked),
        unmarked: Dscp::new(config.unmarked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_marker_leaves_out_is_as_in_the_mechanism() {
        let of = |text| marker(&serde_json::from_str(text).expect("a marker"));
        assert_eq!(of(r#"{"account": {}}"#), MarkerConfig::Account(AccountConfig::default()));
        let engine = MarkerConfig::Engine(MarkingEngineConfig::new(BitRate::from_mbps(4)));
        assert_eq!(of(r#"{"pme": {"target": "4Mbit"}}"#), engine);
    }
}
