//! Virtual links that are not alike: a weight, and a rate that is assured.
//!
//! Source: section VI (planned there: assurance of a minimum bandwidth, purely at the edges); the law is ours.
//! A weight `w` puts `w sigma` for `sigma` wherever the paper means a virtual link's part: in the additive increase, in the
//! accumulation that begins an epoch, and in epsilon. Between two epochs `r_i` grows by `w_i g`, and an epoch takes all to
//! one common part `a < 1` of what they had, as each follows its output rate, which is in proportion to its input rate in a
//! FIFO. So `r_i / w_i` becomes `a r_i / w_i + g`: differences between virtual links shrink by `a` each time, and the shares
//! become those of the weights (over the round-trip times, as without). The burst of the shaper stays one `sigma`.
//! An assured rate is a bound from below: whatever is fed back, the rate does not fall below it. The others make room, for
//! the epoch lasts for as long as the queue does.

use tidegate_units::BitRate;

use super::{OverlayConfig, RateLimits};
use crate::edge::PeerId;

/// What holds for some virtual links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualLinkTerms {
    /// For those that begin at this border; none for any.
    pub from: Option<PeerId>,
    /// For those that end at this border; none for any.
    pub to: Option<PeerId>,
    /// The weight; above zero.
    pub weight: f64,
    /// The rate that is assured; none for that of all.
    pub rate_min: Option<BitRate>,
}

impl OverlayConfig {
    /// `w sigma` in bytes of the virtual link from `from` to `to`.
    pub(super) fn weighted_sigma(&self, from: PeerId, to: PeerId) -> f64 {
        self.terms_of(from, to).map_or(1.0, |terms| terms.weight) * self.sigma.as_f64()
    }

    /// The constants of the law of its rate.
    pub(super) fn limits_of(&self, from: PeerId, to: PeerId) -> RateLimits {
        let rate_min = self.terms_of(from, to).and_then(|terms| terms.rate_min).unwrap_or(self.rate_min);
        RateLimits {
            sigma: self.weighted_sigma(from, to),
            beta: self.beta,
            loss_backoff: self.loss_backoff,
            rate_min: rate_min.as_bytes_per_second_f64(),
        }
    }

    fn terms_of(&self, from: PeerId, to: PeerId) -> Option<&VirtualLinkTerms> {
        let fits = |wanted: Option<PeerId>, is: PeerId| wanted.is_none_or(|wanted| wanted == is);
        self.terms.iter().find(|terms| fits(terms.from, from) && fits(terms.to, to))
    }
}

#[cfg(test)]
mod tests {
    use super::super::VirtualLinkRate;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_first_terms_that_fit_a_virtual_link_hold_for_it() {
        let [a, b, c] = [PeerId(1), PeerId(2), PeerId(3)];
        let rate_min = Some(BitRate::from_mbps(8));
        let config = OverlayConfig {
            terms: vec![
                VirtualLinkTerms { from: Some(a), to: Some(b), weight: 3.0, rate_min: None },
                VirtualLinkTerms { from: Some(a), to: None, weight: 2.0, rate_min },
            ],
            ..OverlayConfig::default()
        };
        let seen = |from, to| {
            let limits = config.limits_of(from, to);
            (limits.sigma, limits.rate_min)
        };
        assert_eq!(seen(a, b), (3000.0, 1000.0));
        assert_eq!(seen(a, c), (2000.0, 1e6));
        assert_eq!(seen(b, a), (1000.0, 1000.0), "virtual links have a direction");
    }

    proptest! {
        /// The fluid model of the head of this file: epochs bring every rate to its part of what a FIFO lets out.
        #[test]
        fn shares_follow_the_weights_from_wherever_they_start(
            links in prop::collection::vec((0.5f64..8.0, 1.0f64..1e7), 2..12), rounds in 2u32..12,
        ) {
            let (mu, t) = (1.25e7, 0.04);
            let config = OverlayConfig::default();
            let limits: Vec<RateLimits> = links.iter().map(|(weight, _)| {
                RateLimits { sigma: weight * 1000.0, ..config.limits_of(PeerId(0), PeerId(1)) }
            }).collect();
            let mut rates: Vec<VirtualLinkRate> = links.iter().map(|(_, r)| VirtualLinkRate::new(*r)).collect();
            let weights: f64 = links.iter().map(|(weight, _)| weight).sum();
            // The decrease takes 2 % of a difference; a burst per round trip adds a few percent of the sum.
            for _ in 0..600 {
                let sum: f64 = rates.iter().map(|rate| rate.r).sum();
                for (rate, own) in rates.iter_mut().zip(&limits) {
                    rate.on_congestion(rate.r * (mu / sum).min(1.0), false, own);
                    for _ in 0..rounds {
                        rate.on_round(t, own);
                    }
                }
            }
            let whole: f64 = rates.iter().map(|rate| rate.r).sum();
            for (rate, (weight, _)) in rates.iter().zip(&links) {
                prop_assert!((rate.r / whole / (weight / weights) - 1.0).abs() < 0.01);
            }
        }

        #[test]
        fn what_is_assured_is_kept_whatever_is_fed_back(nus in prop::collection::vec((0f64..1e9, any::<bool>()), 1..50)) {
            let terms = VirtualLinkTerms {
                from: None, to: None, weight: 1.0, rate_min: Some(BitRate::from_mbps(8)),
            };
            let config = OverlayConfig { terms: vec![terms], ..OverlayConfig::default() };
            let limits = config.limits_of(PeerId(0), PeerId(1));
            let mut rate = VirtualLinkRate::new(1e6);
            for (nu, has_loss) in nus {
                rate.on_congestion(nu, has_loss, &limits);
                prop_assert!(rate.r >= 1e6);
            }
        }
    }
}
