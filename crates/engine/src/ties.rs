//! Ties: events of one instant, whose order would decide who gets the last place in a queue, time after time.
//!
//! Where rates and delays are commensurable, packets of several hosts meet in the same nanosecond again and again, and whoever
//! is first by the order of events stays first: phases lock. Real hosts take a moment for each packet, a different one each
//! time, which is what S. Floyd and V. Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways" (1992), section 3,
//! recommend for simulations, and what `overhead_` is in ns-2.

use std::collections::VecDeque;

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_packet::Packet;
use tidegate_units::{Span, Time};

use crate::network::Ties;

/// When the packets of each flow and direction leave their host.
#[derive(Debug)]
pub(crate) struct TieBreaker {
    spread: Span,
    /// By flow and direction; nothing where ties are left to the order of events.
    ways: Vec<Way>,
}

#[derive(Debug)]
struct Way {
    random: Substream,
    /// When the last one leaves.
    last: Time,
    /// Those that have not left yet, and the programs that they go on with.
    waiting: VecDeque<(Packet, u32)>,
}

impl TieBreaker {
    /// For the flows of these names, in the run with `run_seed`. What is drawn for one does not depend on the others.
    pub(crate) fn new<'n>(ties: Option<Ties>, names: impl Iterator<Item = &'n str>, run_seed: u64) -> Self {
        let Some(ties) = ties else { return Self { spread: Span::ZERO, ways: Vec::new() } };
        let way = |name: &str, back: bool| {
            let name = format!("ties.{}.{name}{}", ties.seed, if back { ".back" } else { "" });
            let random = Substream::new(Seed::for_component(run_seed, &name));
            Way { random, last: Time::ZERO, waiting: VecDeque::new() }
        };
        let ways = names.flat_map(|name| [false, true].map(|back| way(name, back))).collect();
        Self { spread: ties.spread, ways }
    }

    /// When a packet leaves that could leave `now`: not before the one in front of it.
    pub(crate) fn until(&mut self, way: u32, now: Time) -> Time {
        let way = &mut self.ways[way as usize];
        let pause = way.random.uniform() * self.spread.as_nanos() as f64;
        way.last = way.last.max(now + Span::from_nanos(pause.round() as u64));
        way.last
    }

    /// `packet` waits until then behind those of its way, and goes on with program `then`.
    pub(crate) fn wait(&mut self, way: u32, packet: Packet, then: u32) {
        self.ways[way as usize].waiting.push_back((packet, then));
    }

    /// The next of the way leaves.
    pub(crate) fn leave(&mut self, way: u32) -> Option<(Packet, u32)> {
        self.ways[way as usize].waiting.pop_front()
    }

    /// How many wait.
    pub(crate) fn held_packets(&self) -> usize {
        self.ways.iter().map(|way| way.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIES: Ties = Ties { seed: 1, spread: Span::from_micros(1) };

    fn times(ties: Ties, names: &[&str], way: u32, run_seed: u64) -> Vec<u64> {
        let mut breaker = TieBreaker::new(Some(ties), names.iter().copied(), run_seed);
        (0..200).map(|step| breaker.until(way, Time::from_nanos(step * 300)).as_nanos()).collect()
    }

    #[test]
    fn packets_leave_in_order_within_the_spread() {
        let left = times(TIES, &["a"], 0, 1);
        assert!(left.is_sorted(), "one waits for the other");
        let pauses: Vec<u64> = left.iter().zip(0..).map(|(at, step)| at - step * 300).collect();
        // Nobody waits for longer than for whoever was slowest.
        assert!(pauses.iter().all(|&pause| pause <= 1000));
        assert!(pauses.iter().any(|&pause| pause > 800) && pauses.iter().any(|&pause| pause < 200));
    }

    #[test]
    fn each_flow_each_direction_and_each_seed_draws_its_own() {
        let all = [
            times(TIES, &["a", "b"], 0, 1),
            times(TIES, &["a", "b"], 1, 1),
            times(TIES, &["a", "b"], 2, 1),
            times(Ties { seed: 2, ..TIES }, &["a", "b"], 0, 1),
            times(TIES, &["a", "b"], 0, 2),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one));
        }
        assert_eq!(all[0], times(TIES, &["a"], 0, 1), "other flows change nothing");
    }
}
