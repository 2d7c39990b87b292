//! How much marking a bottleneck needs at least: what an optimal packet marking engine would mark.
//!
//! Source: Feng, section 6.4: `r_i + b = R_i`, `sum r_i + n b = B`.
//! Deviations: a connection whose target is below `b` has `r_i = 0`, so the second equation is `sum max(R_i, b) = B`.

use alloc::vec::Vec;

use tidegate_units::BitRate;

/// The answer of [`ideal_marking`], in bit/s.
#[derive(Clone, Debug, PartialEq)]
pub struct IdealMarking {
    /// `b`: what each connection gets of the best-effort bandwidth.
    pub best_effort_bps: f64,
    /// `r_i`: what each connection marks, in the order of the targets.
    pub marked_bps: Vec<f64>,
}

/// The targets exceed the bottleneck together: only marked packets are left, and no rate is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscribed;

/// The least marking rates with which each connection of `targets` (zero: best effort) gets its target over a bottleneck of
/// rate `bottleneck` that all of them share.
///
/// # Errors
/// [`Oversubscribed`] if the targets add up to more than the bottleneck carries.
pub fn ideal_marking(targets: &[BitRate], bottleneck: BitRate) -> Result<IdealMarking, Oversubscribed> {
    let total: u128 = targets.iter().map(|target| u128::from(target.as_bps())).sum();
    if total > u128::from(bottleneck.as_bps()) {
        return Err(Oversubscribed);
    }
    let mut sorted: Vec<f64> = targets.iter().map(|target| target.as_bps() as f64).collect();
    sorted.sort_by(f64::total_cmp);
    // Those with the lowest targets share what the others leave: the first set whose share does not reach the next target.
    let mut left = bottleneck.as_bps() as f64 - sorted.iter().sum::<f64>();
    let mut b = 0.0;
    for (k, target) in sorted.iter().enumerate() {
        left += target;
        b = left / (k + 1) as f64;
        if sorted.get(k + 1).is_none_or(|next| b <= *next) {
            break;
        }
    }
    let marked_bps = targets.iter().map(|target| (target.as_bps() as f64 - b).max(0.0)).collect();
    Ok(IdealMarking { best_effort_bps: b, marked_bps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    /// Targets of 3 and 2 Mbit/s beside `others` best-effort connections on 10 Mbit/s.
    fn of_figure_6_12(others: usize) -> (f64, f64, f64) {
        let mut targets = vec![BitRate::from_mbps(3), BitRate::from_mbps(2)];
        targets.resize(2 + others, BitRate::ZERO);
        let ideal = ideal_marking(&targets, BitRate::from_mbps(10)).expect("5 of 10 Mbit/s are promised");
        (ideal.best_effort_bps / 1e6, ideal.marked_bps[0] / 1e6, ideal.marked_bps[1] / 1e6)
    }

    #[test]
    fn the_numbers_of_figure_6_12_come_out() {
        let near = |(b, first, second): (f64, f64, f64), expected: [f64; 3]| {
            [b, first, second].iter().zip(expected).all(|(got, wanted)| (got - wanted).abs() < 0.005)
        };
        assert!(near(of_figure_6_12(0), [5.0, 0.0, 0.0]));
        assert!(near(of_figure_6_12(2), [2.333, 0.667, 0.0]));
        assert!(near(of_figure_6_12(4), [1.25, 1.75, 0.75]));
        assert!(near(of_figure_6_12(6), [0.833, 2.167, 1.167]));
    }

    #[test]
    fn more_promises_than_bandwidth_have_no_answer() {
        let targets = [BitRate::from_mbps(6), BitRate::from_mbps(5)];
        assert_eq!(ideal_marking(&targets, BitRate::from_mbps(10)), Err(Oversubscribed));
    }

    proptest! {
        #[test]
        fn the_bottleneck_is_full_and_every_target_met(
            targets in prop::collection::vec(0u64..5_000_000, 1..20),
            spare in 0u64..50_000_000,
        ) {
            let bottleneck = targets.iter().sum::<u64>() + spare;
            let rates: Vec<BitRate> = targets.iter().map(|bps| BitRate::from_bps(*bps)).collect();
            let ideal = ideal_marking(&rates, BitRate::from_bps(bottleneck)).expect("spare is not negative");
            let b = ideal.best_effort_bps;
            let used: f64 = ideal.marked_bps.iter().map(|r| r + b).sum();
            prop_assert!((used - bottleneck as f64).abs() < 1.0);
            for (marked, target) in ideal.marked_bps.iter().zip(&targets) {
                prop_assert!(marked + b >= *target as f64 - 1.0);
                prop_assert!(*marked == 0.0 || (marked + b - *target as f64).abs() < 1.0);
            }
        }
    }
}
