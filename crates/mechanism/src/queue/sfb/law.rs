//! What one bin knows, and how its marking probability follows its occupancy: BLUE's law, or Adaptive RED's.
//!
//! Source: Feng, thesis, Fig. 4.14 (BLUE per bin); section 4.4.1, last paragraph (Adaptive RED's `max_p` per bin) with
//! Fig. 3.6 for its law.
//! Deviations:
//! - The figure adds and subtracts without end, and then compares with 1. Here an account is kept that does not fall below
//!   0, as nothing is marked less than never, and `p_m` is the lesser of it and 1. What it holds above 1 is what it takes
//!   to put a flow on parole. With a `ceiling` of 1 one arrival at an empty bin is enough, and a flow that claims ECN then
//!   gets a bin full of packets through before it is found again: more than ten times its limit (Fig. 4.20).
//! - Adaptive RED: the thesis only says that "a per-bin `max_p` value is kept and updated according to the behavior of
//!   flows which map into the bin". Settled: the bin keeps an average of its own occupancy, sampled at its arrivals;
//!   `max_p` takes the part of `p_m` in finding non-responsive flows; packets are notified with RED's probability for the
//!   bin's average, each for itself (one count of gaps for several bins has no meaning).
//! - A freeze time is BLUE's: "the minimum time interval between two successive updates" (section 4.3.1), so a step at its
//!   very end is made, as in [`super::super::blue`]. The drawing of Fig. 4.3 is lost, the text decides.
//! - Adaptive RED acts when the average crosses a threshold, so a freeze time has no part in it.

use tidegate_units::{Span, Time};

use super::super::red::marking_probability;

/// How a bin's probability follows its occupancy: [`SfbLaw`](super::SfbLaw) with its numbers, which
/// [`SfbConfig`](super::SfbConfig) declares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum BinLaw {
    /// BLUE: up by a step when an arrival finds the bin above its size, down by a step when it finds it empty. A freeze time
    /// holds back a step before its end; the account stays at or below the ceiling.
    Blue { increment: f64, decrement: f64, freeze: Option<Span>, ceiling: Option<f64> },
    /// Adaptive RED.
    AdaptiveRed(AdaptiveRed),
}

/// Adaptive RED in a bin; thresholds in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct AdaptiveRed {
    pub(super) min_th: f64,
    pub(super) max_th: f64,
    pub(super) w: f64,
    pub(super) max_p: f64,
    pub(super) alpha: f64,
    pub(super) beta: f64,
}

/// Where the average of Adaptive RED was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    Below,
    #[default]
    Between,
    Above,
}

/// One accounting bin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bin {
    /// The account of `p_m`; with Adaptive RED `max_p`. From 1 on the bin is polluted.
    pub(super) p: f64,
    /// The average occupancy (Adaptive RED).
    avg: f64,
    /// Before that no step is made (BLUE).
    frozen_until: Time,
    /// Packets that wait and were accounted here.
    pub(super) qlen: u32,
    status: Status,
}

const _: () = assert!(core::mem::size_of::<Bin>() == 32, "what `tidegate design sfb` counts with");

impl BinLaw {
    /// A bin that knows nothing yet.
    pub(super) const fn fresh(&self) -> Bin {
        let p = match self {
            Self::Blue { .. } => 0.0,
            Self::AdaptiveRed(red) => red.max_p,
        };
        Bin { p, avg: 0.0, frozen_until: Time::ZERO, qlen: 0, status: Status::Between }
    }

    /// An arrival finds `qlen` packets in `bin` of `bin_size`.
    #[inline]
    pub(super) fn observe(&self, bin: &mut Bin, qlen: u32, bin_size: u32, now: Time) {
        match *self {
            Self::Blue { increment, decrement, freeze, ceiling } => {
                let step = if qlen > bin_size {
                    increment
                } else if qlen == 0 {
                    -decrement
                } else {
                    return;
                };
                if now >= bin.frozen_until {
                    bin.p = (bin.p + step).clamp(0.0, ceiling.unwrap_or(f64::INFINITY));
                    if let Some(freeze) = freeze {
                        bin.frozen_until = now.saturating_add(freeze);
                    }
                }
            }
            Self::AdaptiveRed(red) => {
                bin.avg += red.w * (f64::from(qlen) - bin.avg);
                red.adapt(bin);
            }
        }
    }

    /// With which probability an arrival is notified, as far as `bin` says.
    #[inline]
    pub(super) fn notification(&self, bin: &Bin) -> f64 {
        match self {
            Self::Blue { .. } => bin.p.min(1.0),
            Self::AdaptiveRed(red) if bin.avg < red.min_th => 0.0,
            Self::AdaptiveRed(red) if bin.avg >= red.max_th => 1.0,
            Self::AdaptiveRed(red) => marking_probability(bin.avg, red.min_th, red.max_th, bin.p),
        }
    }
}

impl AdaptiveRed {
    /// Fig. 3.6: only a crossing changes `max_p`.
    fn adapt(&self, bin: &mut Bin) {
        if bin.avg > self.max_th {
            if bin.status != Status::Above {
                bin.status = Status::Above;
                bin.p = (bin.p * self.beta).min(1.0);
            }
        } else if bin.avg < self.min_th {
            if bin.status != Status::Below {
                bin.status = Status::Below;
                bin.p /= self.alpha;
            }
        } else {
            bin.status = Status::Between;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(law: &BinLaw, qlens: &[(u32, u64)]) -> f64 {
        let mut bin = law.fresh();
        for &(qlen, millis) in qlens {
            law.observe(&mut bin, qlen, 13, Time::ZERO + Span::from_millis(millis));
        }
        bin.p
    }

    #[test]
    fn blue_steps_up_above_the_size_and_down_when_empty_and_nowhere_in_between() {
        let law = BinLaw::Blue { increment: 0.25, decrement: 0.125, freeze: None, ceiling: Some(1.0) };
        assert_eq!(seen(&law, &[(14, 1)]).to_bits(), 0.25f64.to_bits());
        assert_eq!(seen(&law, &[(14, 1), (13, 1), (1, 1)]).to_bits(), 0.25f64.to_bits());
        assert_eq!(seen(&law, &[(14, 1), (0, 1)]).to_bits(), 0.125f64.to_bits());
        assert_eq!(seen(&law, &[(14, 1); 9]).to_bits(), 1f64.to_bits());
        assert_eq!(seen(&law, &[(0, 1); 9]).to_bits(), 0f64.to_bits());
    }

    #[test]
    fn an_account_without_a_ceiling_is_a_reserve_against_parole() {
        let unbounded = BinLaw::Blue { increment: 0.25, decrement: 0.25, freeze: None, ceiling: None };
        let bounded = BinLaw::Blue { increment: 0.25, decrement: 0.25, freeze: None, ceiling: Some(1.0) };
        let mut arrivals = [(0, 1); 12];
        arrivals[..8].fill((14, 1));
        assert_eq!(seen(&unbounded, &arrivals).to_bits(), 1f64.to_bits(), "eight steps up, four down");
        assert_eq!(seen(&bounded, &arrivals).to_bits(), 0f64.to_bits());
    }

    #[test]
    fn a_frozen_bin_steps_again_at_the_end_of_the_freeze_time_and_not_before() {
        let law = BinLaw::Blue {
            increment: 0.25,
            decrement: 0.25,
            freeze: Some(Span::from_millis(10)),
            ceiling: Some(1.0),
        };
        assert_eq!(seen(&law, &[(14, 1), (14, 10)]).to_bits(), 0.25f64.to_bits());
        assert_eq!(seen(&law, &[(14, 1), (14, 10), (14, 11)]).to_bits(), 0.5f64.to_bits());
    }

    fn adaptive_red(max_p: f64) -> BinLaw {
        let law = crate::queue::sfb::SfbLaw::AdaptiveRed;
        crate::queue::SfbConfig { law, weight: 1.0, max_p, ..crate::queue::SfbConfig::default() }.bin_law()
    }

    #[test]
    fn adaptive_red_moves_max_p_at_crossings_only() {
        let law = adaptive_red(0.25);
        assert_eq!(seen(&law, &[(13, 0); 5]).to_bits(), 0.5f64.to_bits());
        assert_eq!(seen(&law, &[(13, 0), (8, 0), (13, 0)]).to_bits(), 1f64.to_bits());
        assert_eq!(seen(&law, &[(13, 0), (8, 0), (13, 0), (8, 0), (13, 0)]).to_bits(), 1f64.to_bits());
        assert!((seen(&law, &[(0, 0); 5]) - 0.25 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn adaptive_red_notifies_along_reds_line() {
        let law = adaptive_red(0.5);
        let mut bin = law.fresh();
        let mut at = |qlen| {
            law.observe(&mut bin, qlen, 13, Time::ZERO);
            law.notification(&bin)
        };
        assert_eq!([at(5), at(3), at(12)].map(|p| (p * 1e6) as u64), [70_512, 0, 1_000_000]);
    }
}
