//! Two far edges of one border under path control: what one gets is a function of what is for it and of what it says itself, whatever the
//! other one says, and whatever is for that.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::path::{PathConfig, PathDelays};
use tidegate_units::{BitRate, Span};

#[path = "../../crates/mechanism/tests/border_world/mod.rs"]
mod border_world;

use border_world::peers::{Step, seen_of_x};

fuzz_target!(|input: (bool, bool, Option<u8>, bool, Vec<Step>)| {
    let (round_trip, compete, initial_mbps, is_brief, mut steps) = input;
    steps.truncate(200);
    let config = EdgeConfig::Path(Box::new(PathConfig {
        delays: if round_trip { PathDelays::RoundTrip } else { PathDelays::OneWay },
        compete,
        initial_rate: initial_mbps.map(|mbps| BitRate::from_mbps(u64::from(mbps) + 1)),
        idle_timeout: Span::from_millis(if is_brief { 50 } else { 10_000 }),
        ..PathConfig::default()
    }));
    assert_eq!(seen_of_x(&config, &steps, true), seen_of_x(&config, &steps, false));
});
