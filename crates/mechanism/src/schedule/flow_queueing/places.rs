//! Which queue a flow has: by a hash alone, or by a hash that leaves the choice among the queues of a set, so that flows share a queue
//! only where a whole set is in use.
//!
//! Source: RFC 8290, section 4.1 (a hash with a secret); Linux, `sch_cake.c`, `cake_hash`, and Høiland-Jørgensen, Täht & Morton,
//! "Piece of CAKE" (LANMAN 2018), section III.C, for sets of eight.
//! Deviations:
//! - A queue remembers its flow by number; CAKE by a hash of 32 bits, which two flows may share.

use alloc::vec;
use alloc::vec::Vec;

use crate::random::{KeyedHash, Seed};
use crate::schedule::BinHash;

/// No flow has this number.
const NOBODY: u32 = u32::MAX;

/// Finds the queues of flows.
#[derive(Clone, Debug)]
pub(super) struct Places {
    hash: KeyedHash,
    kind: BinHash,
    queues: u32,
    ways: u32,
    /// Which flow a queue had last; empty where there is no choice.
    owners: Vec<u32>,
}

impl Places {
    pub(super) fn new(kind: BinHash, queues: u32, ways: u32, seed: Seed) -> Self {
        assert!(queues > 0 && ways > 0 && queues.is_multiple_of(ways), "sets are whole");
        let owners = if ways > 1 { vec![NOBODY; queues as usize] } else { Vec::new() };
        Self { hash: KeyedHash::new(seed), kind, queues, ways, owners }
    }

    /// The queue of flow `key`, and whether it was another one's last; `is_used` says of a queue whether something waits there or its
    /// turn is still to end.
    #[inline]
    pub(super) fn find(&mut self, key: u32, is_used: impl Fn(u32) -> bool) -> (u32, bool) {
        let direct = match self.kind {
            // Multiply and shift: the bias is below the number of queues / 2^32.
            BinHash::Keyed => (((self.hash.of(u64::from(key)) >> 32) * u64::from(self.queues)) >> 32) as u32,
            BinHash::Modulo => key % self.queues,
        };
        if self.ways == 1 || self.owners[direct as usize] == key {
            return (direct, false);
        }
        self.find_in_set(key, direct, is_used)
    }

    /// In the set of queue `direct`, and from it on: the queue that the flow had, or one not in use, or else `direct`.
    fn find_in_set(&mut self, key: u32, direct: u32, is_used: impl Fn(u32) -> bool) -> (u32, bool) {
        let inner = direct % self.ways;
        let set = direct - inner;
        let in_order = || (0..self.ways).map(|way| set + (inner + way) % self.ways);
        let own = in_order().find(|&queue| self.owners[queue as usize] == key);
        let found = own.or_else(|| in_order().find(|&queue| !is_used(queue))).unwrap_or(direct);
        self.owners[found as usize] = key;
        (found, own.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: u32 = 1024;

    /// How many of `flows` that are there at once find their queue in use, on average over `trials` secrets; and in how many
    /// trials none does.
    fn collisions(ways: u32, flows: u32, trials: u64) -> (f64, f64) {
        let (mut collided, mut without) = (0u32, 0u32);
        let mut used = vec![0u64; QUEUES as usize];
        for trial in 1..=trials {
            let mut places = Places::new(BinHash::Keyed, QUEUES, ways, Seed(trial));
            let before = collided;
            for flow in 0..flows {
                let (queue, _) = places.find(flow, |of| used[of as usize] == trial);
                collided += u32::from(used[queue as usize] == trial);
                used[queue as usize] = trial;
            }
            without += u32::from(collided == before);
        }
        (f64::from(collided) / trials as f64, f64::from(without) / trials as f64)
    }

    /// Which part of `flows` has a queue for itself, by a hash alone.
    fn alone(flows: u32, trials: u64) -> f64 {
        let alone = (0..trials).map(|trial| {
            let mut places = Places::new(BinHash::Keyed, QUEUES, 1, Seed(trial));
            let mut counts = vec![0u32; QUEUES as usize];
            (0..flows).for_each(|flow| counts[places.find(flow, |_| false).0 as usize] += 1);
            counts.iter().filter(|&&count| count == 1).count() as u64
        });
        alone.sum::<u64>() as f64 / (trials * u64::from(flows)) as f64
    }

    /// `E[(K - ways)+]` flows find a set full, summed over the sets, with K of `flows` in one by the binomial law; a hash alone has
    /// sets of one.
    fn expected(ways: u32, flows: u32) -> f64 {
        let sets = f64::from(QUEUES / ways);
        let mut probability = libm::pow(1.0 - 1.0 / sets, f64::from(flows));
        let mut surplus = 0.0;
        for k in 0..=flows {
            surplus += f64::from(k.saturating_sub(ways)) * probability;
            probability *= f64::from(flows - k) / f64::from(k + 1) / (sets - 1.0);
        }
        surplus * sets
    }

    fn assert_near(found: f64, exact: f64, what: &str) {
        assert!((found / exact - 1.0).abs() < 0.01, "{what}: {found}, not {exact}");
    }

    #[test]
    fn a_hash_alone_lets_flows_collide_as_often_as_in_the_birthday_problem() {
        // 100 flows in 1024 queues: 4.683 find theirs in use.
        let exact = 100.0 - 1024.0 * (1.0 - libm::pow(1023.0 / 1024.0, 100.0));
        assert!((expected(1, 100) - exact).abs() < 1e-9 && (exact - 4.683).abs() < 0.001);
        assert_near(collisions(1, 100, 20_000).0, exact, "100 flows");
        // A flow has its queue for itself with 90.78 %.
        assert!(
            (alone(100, 2_000) - 0.9078).abs() < 0.002
                && (libm::pow(1023.0 / 1024.0, 99.0) - 0.9078).abs() < 1e-4
        );
        let none: f64 = (0..20).map(|i| 1.0 - f64::from(i) / 1024.0).product();
        assert_near(collisions(1, 20, 40_000).1, none, "no collision of 20 flows");
    }

    #[test]
    fn sets_of_eight_keep_apart_as_many_flows_as_the_binomial_law_says() {
        assert!(expected(8, 100) < 3e-5, "100 flows of 1024 queues hardly ever meet");
        assert_eq!(collisions(8, 100, 2_000), (0.0, 1.0));
        for (flows, trials) in [(500, 4_000), (800, 1_000)] {
            assert_near(collisions(8, flows, trials).0, expected(8, flows), "in sets of eight");
        }
        assert_near(collisions(4, 500, 1_000).0, expected(4, 500), "in sets of four");
    }

    #[test]
    fn a_flow_keeps_its_queue_until_another_one_needs_it() {
        let mut places = Places::new(BinHash::Modulo, 8, 4, Seed(0));
        let none = |_| false;
        assert_eq!([places.find(1, none), places.find(9, |of| of == 1)], [(1, true), (2, true)]);
        assert_eq!(places.find(9, none), (2, false), "its own, though the one of its hash is free");
        assert_eq!(places.find(2, |of| of == 2), (3, true), "the next that is free");
        assert_eq!(
            places.find(10, none),
            (2, true),
            "nobody waits there, though it was the queue of another one"
        );
        assert_eq!(places.find(17, |of| of < 4), (1, true), "all are in use: it shares the one of its hash");
        assert_eq!(places.find(2, |of| of < 4), (3, false), "its own");
        assert_eq!(places.find(4, none), (4, true), "another set");
    }
}
