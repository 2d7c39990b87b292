//! The laws of NBQ: pure functions of measured rates and ratios.
//!
//! Source: Tamura, Tobe & Tokuda, sections 4 (equations 1 to 4), 5 (Figs. 12, 13) and 8.1; deviations in [`super`].

use tidegate_units::BitRate;

/// A (equation 1): the part of a flow that a router lost, from its arrival and departure rates; never below zero.
pub(super) fn loss(arrival: f64, departure: f64) -> f64 {
    if arrival > 0.0 { (1.0 - departure / arrival).max(0.0) } else { 0.0 }
}

/// B (equation 2): the discard ratio that a router needs if the next one still loses `loss` of what gets through at
/// `ratio`.
pub(super) const fn required_ratio(loss: f64, ratio: f64) -> f64 {
    1.0 - (1.0 - loss) * (1.0 - ratio)
}

/// `B_new` (equation 3): smoothed by beta, the `weight` of the past.
pub(super) const fn smoothed_ratio(weight: f64, ratio: f64, required: f64) -> f64 {
    weight * ratio + (1.0 - weight) * required
}

/// `b_in_new` over `b_in_old` of equation 4; one without a past (Fig. 13).
pub(super) const fn arrival_change(now: f64, before: f64) -> f64 {
    if before > 0.0 { now / before } else { 1.0 }
}

/// Section 8.1: which of `rates`, ascending, suits a source that sends at the one at `current` and of which `ratio` is
/// discarded: the highest that gets through, or the lowest.
pub(super) fn suitable_rate(rates: &[BitRate], current: usize, ratio: f64) -> usize {
    let through = rates.get(current).map_or(0.0, |rate| rate.as_bps_f64()) * (1.0 - ratio);
    rates.iter().rposition(|rate| rate.as_bps_f64() <= through).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_required_ratio_is_the_loss_of_two_routers_in_a_row() {
        assert!((required_ratio(0.5, 0.6) - 0.8).abs() < 1e-12);
        assert_eq!(required_ratio(0.0, 0.6), 0.6);
        assert_eq!(required_ratio(1.0, 0.6), 1.0);
    }

    #[test]
    fn a_router_that_sends_out_its_queue_has_no_loss() {
        assert_eq!(loss(100.0, 120.0), 0.0);
        assert_eq!(loss(0.0, 120.0), 0.0);
        assert!((loss(100.0, 10.0) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn without_loss_downstream_the_ratio_holds() {
        let ratio = 0.8;
        assert!((smoothed_ratio(0.8, ratio, required_ratio(0.0, ratio)) - ratio).abs() < 1e-12);
    }
}
