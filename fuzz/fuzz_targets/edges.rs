//! What `border` does to borders of other mechanisms: path control and the auto-rate shaper. A target of its own, so that inputs found for
//! those mean what they did.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::autorate::{AutorateConfig, PingDelays};
use tidegate_mechanism::edge::path::{PathConfig, PathDelays};
use tidegate_units::{BitRate, Span};

#[path = "../../crates/mechanism/tests/border_world/mod.rs"]
mod border_world;

use border_world::{Call, drive};

#[derive(Arbitrary, Debug)]
enum Kind {
    Path { round_trip: bool, compete: bool, flows_max: u8, initial_mbps: u8, is_brief: bool },
    Autorate { one_way: bool, enforce_min: bool, pingers: u8, millis: u8, window: u8 },
}

impl Kind {
    fn config(self) -> EdgeConfig {
        match self {
            Self::Path { round_trip, compete, flows_max, initial_mbps, is_brief } => {
                EdgeConfig::Path(Box::new(PathConfig {
                    delays: if round_trip { PathDelays::RoundTrip } else { PathDelays::OneWay },
                    compete,
                    flows_max: u32::from(flows_max % 8) + 1,
                    initial_rate: Some(BitRate::from_mbps(u64::from(initial_mbps) + 1)),
                    idle_timeout: Span::from_millis(if is_brief { 50 } else { 10_000 }),
                    ..PathConfig::default()
                }))
            }
            Self::Autorate { one_way, enforce_min, pingers, millis, window } => {
                EdgeConfig::Autorate(Box::new(AutorateConfig {
                    delays: if one_way { PingDelays::OneWay } else { PingDelays::RoundTrip },
                    enforce_min,
                    pingers: u32::from(pingers % 8) + 1,
                    ping_interval: Span::from_millis(u64::from(millis) + 1),
                    bufferbloat_window: u32::from(window % 8) + 1,
                    bufferbloat_thr: u32::from(window % 8) / 2 + 1,
                    sleep_after: Span::from_millis(100),
                    ..AutorateConfig::default()
                }))
            }
        }
    }
}

fuzz_target!(|input: (Kind, Vec<Call>, bool)| {
    let (kind, mut calls, are_two) = input;
    calls.truncate(200);
    drive(&kind.config(), calls, are_two);
});
