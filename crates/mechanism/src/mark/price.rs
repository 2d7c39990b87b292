//! What a promise costs the others: the congestion price of marks. A connection that marks takes from the bottleneck what the
//! connections without a promise would have had; charged with that, it asks for a promise only where it is worth so much to it.
//! On a link that is not loaded nothing needs to be marked, and the price is zero.
//!
//! Source: Feng, section 6.4 (its first footnote: "when optimal marking is achieved, accurate congestion-based pricing can be done
//! using the marking rate of a connection") and section 6.1; MacKie-Mason & Varian, "Pricing the Internet", 1995 (a user pays what
//! others lose).
//! Deviations:
//! - The thesis gives no formula. [`displaced`] follows from the equations of section 6.4: by `sum r_i + n b = B`, a rate
//!   `r` that is marked takes `r / n` from each of the `n` connections at the bottleneck. Those with a promise make up for it with
//!   marks of their own, so that the `m` without one pay: they lose `m / (m + 1)` of what was marked.
//! - The cost is counted in bits that others do not get, not in money; what one of them is worth is for who charges.

use alloc::vec::Vec;

use tidegate_units::BitRate;

use super::ideal::{Oversubscribed, ideal_marking};

/// What each connection of `targets` (zero: best effort) costs all others together, in bit/s: what they would get more without
/// its promise (MacKie-Mason & Varian), where all mark as little as they can (Feng, section 6.4).
///
/// # Errors
/// [`Oversubscribed`] if the targets add up to more than the bottleneck carries.
pub fn congestion_costs(targets: &[BitRate], bottleneck: BitRate) -> Result<Vec<f64>, Oversubscribed> {
    let with = ideal_marking(targets, bottleneck)?.best_effort_bps;
    let others_get = |but: usize, b: f64| -> f64 {
        let others = targets.iter().enumerate().filter(|(index, _)| *index != but);
        others.map(|(_, target)| b.max(target.as_bps() as f64)).sum()
    };
    let mut changed = targets.to_vec();
    let mut costs = Vec::with_capacity(targets.len());
    for (index, &target) in targets.iter().enumerate() {
        changed[index] = BitRate::ZERO;
        let without = ideal_marking(&changed, bottleneck)?.best_effort_bps;
        changed[index] = target;
        costs.push(others_get(index, without) - others_get(index, with));
    }
    Ok(costs)
}

/// What others lose by a rate of `marked` bit/s beside `unmarked` connections that mark nothing: `m / (m + 1)` of it. Exact where
/// without these marks the same connections would still need some (from Feng, section 6.4).
pub fn displaced(marked: f64, unmarked: u32) -> f64 {
    marked * f64::from(unmarked) / (f64::from(unmarked) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTTLENECK: BitRate = BitRate::from_mbps(10);

    fn rates(mbps: &[u64]) -> Vec<BitRate> {
        mbps.iter().map(|mbps| BitRate::from_mbps(*mbps)).collect()
    }

    #[test]
    fn a_promise_that_needs_no_marks_costs_nothing() {
        // Fig. 6.12 before 100 s: an even share is more than either wants.
        assert_eq!(congestion_costs(&rates(&[3, 2]), BOTTLENECK), Ok(alloc::vec![0.0, 0.0]));
    }

    #[test]
    fn the_promises_of_figure_6_12_cost_what_is_displaced() {
        // From 200 s: marks of 1.75 and 0.75 Mb/s beside four that mark nothing.
        let costs = congestion_costs(&rates(&[3, 2, 0, 0, 0, 0]), BOTTLENECK).expect("5 of 10 are promised");
        assert!((costs[0] - 1.4e6).abs() < 1.0 && (costs[1] - 0.6e6).abs() < 1.0, "{costs:?}");
        assert!(
            (displaced(1.75e6, 4) - costs[0]).abs() < 1.0 && (displaced(0.75e6, 4) - costs[1]).abs() < 1.0
        );
        assert_eq!(costs[2], 0.0);
    }

    #[test]
    fn who_marks_alone_takes_nothing_from_anybody() {
        assert_eq!(displaced(1e6, 0), 0.0);
    }

    proptest! {
        #[test]
        fn nobody_pays_more_than_it_marks_and_a_larger_promise_costs_more(
            targets in prop::collection::vec(0u64..3_000_000, 1..12),
            spare in 1u64..20_000_000,
            more in 1u64..1_000_000,
        ) {
            let bottleneck = BitRate::from_bps(targets.iter().sum::<u64>() + spare + more);
            let mut rates: Vec<BitRate> = targets.iter().map(|bps| BitRate::from_bps(*bps)).collect();
            let costs = congestion_costs(&rates, bottleneck).expect("spare is not negative");
            let marked = ideal_marking(&rates, bottleneck).expect("as before").marked_bps;
            for (cost, most) in costs.iter().zip(&marked) {
                prop_assert!(*cost > -1.0 && *cost <= most + 1.0, "{cost} for {most}");
            }
            rates[0] = BitRate::from_bps(targets[0] + more);
            let dearer = congestion_costs(&rates, bottleneck).expect("there is room for more")[0];
            prop_assert!(dearer >= costs[0] - 1.0);
        }
    }
}
