//! Packet marking engines: the keys that one outside of hosts and one inside TCP have in common, written once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Span};

/// How a marking engine measures the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineMeter {
    /// A weighted average of the throughput of each interval.
    Weighted,
    /// The average over a sliding window of `windows` intervals.
    Sliding,
}

/// What every marking engine is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineGoal {
    /// The rate to reach.
    pub target: BitRate,
    /// How the throughput is measured.
    pub meter: EngineMeter,
    /// The weight of the newest interval.
    pub weight: f64,
    /// Intervals in the sliding window.
    pub windows: u32,
    /// How often the throughput is measured.
    pub interval: Span,
    /// Codepoint of marked packets.
    pub marked: u8,
    /// Codepoint of the others.
    pub unmarked: u8,
}

/// Declares a marking engine with the keys of all and some of its own, which come after `target` or after `interval`.
///
/// A flattened structure would do the same, were it not that serde reads such a table without positions and without the types
/// that braces need.
macro_rules! engine_family {
    (
        $(#[$outer:meta])*
        $type:ident {
            target: $(#[$target:meta])*
            before: { $($(#[$before_meta:meta])* $before:ident: $before_type:ty,)* }
            after: { $($(#[$after_meta:meta])* $after:ident: $after_type:ty,)* }
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $type {
            $(#[$target])*
            #[serde(with = "text")]
            #[schemars(with = "Text<BitRate>")]
            pub target: BitRate,
            $($(#[$before_meta])* pub $before: $before_type,)*
            /// How the throughput is measured. Source: thesis of Feng, section 6.3.
            #[serde(default = "engine::weighted")]
            pub meter: EngineMeter,
            /// The weight of the newest interval, above 0 and at most 1. Source: assumed; slower ones mark for swings that are over
            /// (`feng/6.12-choices`; chapter 6 runs with 0.5).
            #[serde(default = "engine::weight")]
            pub weight: f64,
            /// Intervals in the sliding window. Source: assumed, one second.
            #[serde(default = "engine::ten")]
            pub windows: u32,
            /// How often the throughput is measured. Source: thesis of Feng, section 6.3.1.
            #[serde(with = "text", default = "engine::hundred_millis")]
            #[schemars(with = "Text<Span>")]
            pub interval: Span,
            $($(#[$after_meta])* pub $after: $after_type,)*
            /// Codepoint of marked packets, 0 to 63. Source: RFC 2597 (AF11).
            #[serde(default = "engine::af11")]
            pub marked: u8,
            /// Codepoint of the others, 0 to 63. Source: best effort.
            #[serde(default)]
            pub unmarked: u8,
        }

        impl $type {
            /// What it has in common with every marking engine.
            pub const fn goal(&self) -> engine::EngineGoal {
                engine::EngineGoal {
                    target: self.target,
                    meter: self.meter,
                    weight: self.weight,
                    windows: self.windows,
                    interval: self.interval,
                    marked: self.marked,
                    unmarked: self.unmarked,
                }
            }
        }
    };
}
pub(super) use engine_family;

pub(super) const fn hundred_millis() -> Span {
    Span::from_millis(100)
}

pub(super) const fn weighted() -> EngineMeter {
    EngineMeter::Weighted
}

pub(super) const fn af11() -> u8 {
    tidegate_packet::Dscp::AF11.get()
}

pub(super) const fn ten() -> u32 {
    10
}

pub(super) const fn weight() -> f64 {
    0.15
}
