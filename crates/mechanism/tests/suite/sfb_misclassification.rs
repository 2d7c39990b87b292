//! Stochastic Fair BLUE against its own analysis: the share of well-behaved flows that are taken for non-responsive, over
//! many secrets of the hash functions, is that of Eq. 4.1; and nobody without the secret does better than at random.
//!
//! Source: Feng, thesis, section 4.4.3, Eq. 4.1: `p = [1 - (1 - 1/N)^M]^L`.
//! Deviations: none. Standard errors are those over secrets; within one secret the fates of flows depend on each other.

use tidegate_mechanism::Context;
use tidegate_mechanism::queue::sfb::Sfb;
use tidegate_mechanism::queue::sfb::estimate::misclassification;
use tidegate_mechanism::queue::{QueueManager, SfbConfig, Verdict};
use tidegate_mechanism::random::Seed;
use tidegate_packet::{Backlog, Ecn, FlowId, Packet};
use tidegate_units::{Limit, Time};

const SALTS: u64 = 400;

/// An SFB with the secret of `seed`, in which `attackers` have sent until their bins are at 1.
fn attacked(levels: u32, bins: u32, attackers: impl Iterator<Item = u32> + Clone, seed: u64) -> Sfb {
    let config = SfbConfig {
        levels,
        bins,
        // Nothing is forgotten between the burst of one attacker and that of the next.
        increment: 0.25,
        decrement: 0.0,
        freeze: None,
        ceiling: Some(1.0),
        limit: Limit::Packets(u32::MAX),
        ..SfbConfig::default()
    };
    let mut sfb = config.build(&Context { seed: Seed(seed), ..Context::for_tests() });
    for attacker in attackers.clone() {
        // Fourteen packets fill a bin, and four more drive it to 1. Then all leave: in a bin that stays full the next
        // attacker would be refused before its other bins fill.
        let mut waiting = Vec::new();
        for _ in 0..18 {
            let mut packet = Packet { ecn: Ecn::Ect0, ..Packet::new(0, FlowId(attacker), 1000) };
            if !matches!(sfb.on_arrival(&mut packet, Backlog::EMPTY, Time::ZERO), Verdict::Drop(_)) {
                waiting.push(packet);
            }
        }
        for packet in waiting {
            sfb.on_departure(&packet, Backlog::EMPTY, Time::ZERO);
        }
    }
    for attacker in attackers {
        assert!(sfb.is_nonresponsive(FlowId(attacker)), "an attacker is found");
    }
    sfb
}

/// Mean over the secrets, and its standard error.
fn over_salts(shares: impl Iterator<Item = f64>) -> (f64, f64) {
    let shares: Vec<f64> = shares.collect();
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let variance = shares.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn share_taken_for_nonresponsive(sfb: &Sfb, flows: impl ExactSizeIterator<Item = u32>) -> f64 {
    let all = flows.len() as f64;
    flows.filter(|&flow| sfb.is_nonresponsive(FlowId(flow))).count() as f64 / all
}

#[test]
fn misclassification_is_that_of_eq_4_1_over_attackers_and_levels() {
    let mut chi_squared = 0.0;
    let mut cells = 0;
    for (levels, bins) in [(1, 46), (2, 23), (3, 15)] {
        for attackers in [1, 2, 4, 8, 16] {
            let shares = (0..SALTS).map(|salt| {
                // Each cell has secrets of its own, so that cells are independent.
                let sfb = attacked(levels, bins, 0..attackers, salt + 1000 * cells);
                share_taken_for_nonresponsive(&sfb, 1_000_000..1_004_000)
            });
            let (mean, error) = over_salts(shares);
            let expected = misclassification(levels, bins, f64::from(attackers));
            let z = (mean - expected) / error;
            println!(
                "L = {levels}, N = {bins}, M = {attackers}: {mean:.5} +- {error:.5}, Eq. 4.1 {expected:.5}, z = {z:.2}"
            );
            chi_squared += z * z;
            cells += 1;
        }
    }
    // The 99 % quantile of chi squared with 15 degrees of freedom.
    assert_eq!(cells, 15);
    assert!(chi_squared < 30.578, "the joint test at the 1 % level: {chi_squared}");
}

/// Flows that share all their bins with flow 0 under the secret of `seed`.
fn colliding_under(seed: u64, count: usize) -> Vec<u32> {
    let sfb = attacked(2, 23, std::iter::once(0), seed);
    (1..).filter(|&flow| sfb.is_nonresponsive(FlowId(flow))).take(count).collect()
}

#[test]
fn flows_that_collide_under_another_secret_do_not_collide_under_ours() {
    let chosen = colliding_under(987_654_321, 1000);
    let shares = (0..SALTS).map(|salt| {
        let sfb = attacked(2, 23, std::iter::once(0), salt);
        share_taken_for_nonresponsive(&sfb, chosen.iter().copied())
    });
    let (mean, error) = over_salts(shares);
    let expected = misclassification(2, 23, 1.0);
    assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error}, at random {expected}");
}

#[test]
fn attackers_with_chosen_numbers_pollute_no_more_than_random_ones() {
    // Sequential, far apart in powers of two, and colliding under another secret: eight of each.
    let colliding = colliding_under(123_456_789, 8);
    let choices: [Vec<u32>; 3] = [(0..8).collect(), (0..8).map(|n| 1 << (4 * n)).collect(), colliding];
    for (number, chosen) in choices.iter().enumerate() {
        let shares = (0..SALTS).map(|salt| {
            let sfb = attacked(2, 23, chosen.iter().copied(), salt + 7000 * number as u64);
            share_taken_for_nonresponsive(&sfb, 1_000_000..1_002_000)
        });
        let (mean, error) = over_salts(shares);
        let expected = misclassification(2, 23, 8.0);
        assert!((mean - expected).abs() < 4.0 * error, "{chosen:?}: {mean} +- {error}, at random {expected}");
    }
}
