//! Every published mechanism, written once: no clock, no input or output, no global state.
//!
//! A mechanism runs unchanged in three worlds (simulator, emulator, gateway) because of five rules:
//!
//! 1. `now` is always passed in, and never goes back between calls.
//! 2. Deadlines are absolute; a world may be late, and a mechanism says what that means.
//! 3. The world owns packets and clocks; a mechanism holds descriptors and says what becomes of them.
//! 4. Memory is allocated when a mechanism is built, or is bounded by its configuration.
//! 5. Randomness belongs to the component: one [`random::Substream`], seeded at build.
//!
//! The folders are the families: [`queue`] (accept, mark or drop?), [`schedule`] (who goes next?), [`meter`] (how fast
//! is this flow?), [`shape`] (when may it go?), [`mark`] (which promise does it carry?), [`edge`] (how much may enter
//! here?), [`hop`] (what do my neighbours tell me?), [`tcp`] (how does the end host react?), [`tfrc`] and [`scream`] (how does a media
//! stream?). [`fluid`] is many connections at once. [`wire`] is what their messages share.
#![no_std]

extern crate alloc;

pub mod edge;
pub mod fluid;
pub mod hop;
pub mod mark;
pub mod media;
pub mod meter;
mod outbox;
pub mod queue;
pub mod random;
pub mod schedule;
pub mod scream;
pub mod shape;
pub mod tcp;
pub mod tfrc;
pub mod wire;

use tidegate_parameters::{Bound, bound};
use tidegate_units::{BitRate, Span};

/// Times between what happens by the clock alone, with traffic or without: each is work, and most are messages.
const ROUNDS: Bound<Span> = Bound::between(Span::from_micros(10), bound::DELAY_MAX)
    .saying("", " is no time between two rounds")
    .helping("from 10us to 3600s: each is work, and may be a message");

/// What a mechanism is told about its surroundings when it is built.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Seed of the component's own random substream; see [`random::Seed::for_component`].
    pub seed: random::Seed,
    /// Rate of the link that the mechanism serves.
    pub link_rate: BitRate,
    /// Largest packet on the wire, in bytes.
    pub mtu_bytes: u32,
}

impl Context {
    /// A context for tests and benches: 10 Mbit/s, 1500 bytes, seed zero.
    pub const fn for_tests() -> Self {
        Self { seed: random::Seed(0), link_rate: BitRate::from_mbps(10), mtu_bytes: 1500 }
    }
}

/// An inner variable of a mechanism that may be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Variable {
    /// Its name in patterns and in results, with its unit; stable.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
}

impl Variable {
    /// The variable `name`, which is what `meaning` says.
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning }
    }
}

/// Those of several lists, each name once.
fn distinct(lists: &[&[Variable]]) -> alloc::vec::Vec<Variable> {
    let mut all = alloc::vec::Vec::<Variable>::new();
    for variable in lists.iter().copied().flatten() {
        if all.iter().all(|known| known.name != variable.name) {
            all.push(*variable);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;
    use tidegate_parameters::{Parameters, Report};

    #[test]
    fn rounds_of_a_nanosecond_are_refused() {
        fn refused(config: &impl Parameters) -> Vec<String> {
            let mut keys = Vec::new();
            config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
            keys
        }
        let short = Span::from_nanos(1);
        assert_eq!(refused(&hop::nbq::NbqConfig { interval: short, ..Default::default() }), ["interval"]);
        assert_eq!(
            refused(&hop::backpressure::BackPressureConfig { period: short, ..Default::default() }),
            ["period"]
        );
        let nbp = edge::nbp::NbpConfig { asynch_interval: short, ..Default::default() };
        assert_eq!(refused(&nbp), ["asynch_interval"]);
    }
}
