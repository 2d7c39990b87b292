//! How many flows there are, from how many bins they fill; and what would be a fair limit for those that do not respond.
//!
//! Source: Feng, thesis, Eq. 4.1 (M flows leave a bin of N untouched with probability `(1 - 1/N)^M`); section 4.6: the
//! rate limit may be set to the fair share by estimating "both the number of non-responsive flows and the total number of
//! flows", the former from the number of polluted bins. The thesis does neither; this is its proposal carried out. For the
//! total: Whang, Vander-Zanden & Taylor, "A linear-time probabilistic counting algorithm", `ACM TODS` 15(2), 1990, which
//! inverts the same formula for a bit map.
//! Deviations:
//! - When every bin is filled the formula has no inverse: half an empty bin is assumed.
//! - The bins of SFB itself cannot count all flows (400 flows leave none of 23 bins empty), so the flows of a window are
//!   counted in a bit map of their own.

use alloc::boxed::Box;
use alloc::vec;

use tidegate_packet::FlowId;
use tidegate_units::{BitRate, Span, Time};

use crate::random::{KeyedHash, Substream};

/// `p = [1 - (1 - 1/N)^M]^L`: the probability that a well-behaved flow shares all its bins with non-responsive ones
/// (Eq. 4.1).
pub fn misclassification(levels: u32, bins: u32, nonresponsive: f64) -> f64 {
    libm::pow(filled_share(bins, nonresponsive), f64::from(levels))
}

/// The expected share of `bins` that `flows` fill: `1 - (1 - 1/N)^M`.
fn filled_share(bins: u32, flows: f64) -> f64 {
    1.0 - libm::pow(1.0 - 1.0 / f64::from(bins), flows)
}

/// The number of flows that fill `filled` of `bins` on average: `M = ln(1 - k/N) / ln(1 - 1/N)`, the inverse of
/// [`filled_share`]. With one bin, that it is filled says that there is one flow.
pub fn flows_filling(filled: f64, bins: u32) -> f64 {
    let n = f64::from(bins);
    if bins < 2 {
        return filled.clamp(0.0, 1.0);
    }
    let filled = filled.clamp(0.0, n - 0.5);
    libm::log1p(-filled / n) / libm::log1p(-1.0 / n)
}

/// The rate for all non-responsive flows together that gives each the fair share `C / n`: `C M / n`, at least one share,
/// at most the link.
pub fn fair_limit(link: BitRate, nonresponsive: f64, flows: f64) -> BitRate {
    let share = (nonresponsive.max(1.0) / flows.max(1.0)).min(1.0);
    BitRate::from_bps(((link.as_bps() as f64 * share) as u64).max(1))
}

/// Counts the flows of a window in a bit map, and averages the polluted bins over it.
#[derive(Clone, Debug)]
pub(super) struct Census {
    hash: KeyedHash,
    map: Box<[u64]>,
    set_bits: u32,
    window: Span,
    ends: Time,
    polluted_sum: u64,
    arrivals: u64,
    /// The estimate of the last window; zero before.
    pub(super) flows: f64,
}

impl Census {
    pub(super) fn new(bits: u32, window: Span, salts: &mut Substream) -> Self {
        Self {
            hash: KeyedHash::draw(salts),
            map: vec![0; bits.div_ceil(64) as usize].into(),
            set_bits: 0,
            window,
            ends: Time::ZERO + window,
            polluted_sum: 0,
            arrivals: 0,
            flows: 0.0,
        }
    }

    fn bits(&self) -> u32 {
        self.map.len() as u32 * 64
    }

    /// A packet of `flow` arrives and finds `polluted` bins. When a window ended: the mean number of polluted bins in it,
    /// and [`flows`](Self::flows) is new.
    #[inline]
    pub(super) fn on_arrival(&mut self, flow: FlowId, polluted: u32, now: Time) -> Option<f64> {
        let ended = if now >= self.ends { self.close(now) } else { None };
        let bit = ((u128::from(self.hash.of(u64::from(flow.0))) * u128::from(self.bits())) >> 64) as u32;
        let word = &mut self.map[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        self.set_bits += u32::from(*word & mask == 0);
        *word |= mask;
        self.polluted_sum += u64::from(polluted);
        self.arrivals += 1;
        ended
    }

    fn close(&mut self, now: Time) -> Option<f64> {
        let polluted = (self.arrivals > 0).then(|| self.polluted_sum as f64 / self.arrivals as f64);
        if polluted.is_some() {
            self.flows = flows_filling(f64::from(self.set_bits), self.bits());
        }
        self.map.fill(0);
        self.set_bits = 0;
        (self.polluted_sum, self.arrivals) = (0, 0);
        // Windows follow one another; after a pause the next begins with the arrival that ends it.
        let next = self.ends + self.window;
        self.ends = if next > now { next } else { now + self.window };
        polluted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn eq_4_1_gives_the_values_of_section_4_4_3() {
        let percent = |levels, bins, m| misclassification(levels, bins, m) * 100.0;
        for (levels, bins, m, printed) in
            [(2, 23, 4.0, 2.65), (2, 23, 8.0, 8.96), (1, 46, 4.0, 8.42), (1, 46, 8.0, 16.12)]
        {
            assert!((percent(levels, bins, m) - printed).abs() < 0.005, "L = {levels}, M = {m}");
        }
    }

    #[test]
    fn counting_inverts_the_filling() {
        for m in [1.0, 2.0, 7.5, 30.0] {
            assert!((flows_filling(23.0 * filled_share(23, m), 23) - m).abs() < 1e-9);
        }
        assert_eq!(flows_filling(0.0, 23).to_bits(), 0f64.to_bits());
        assert!(flows_filling(23.0, 23).is_finite());
        assert!((flows_filling(1.0, 1) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_census_counts_flows_within_five_percent_and_starts_again() {
        let mut census = Census::new(4096, Span::from_secs(1), &mut Substream::new(Seed(3)));
        for (second, flows) in [(0u64, 400u32), (1, 1500), (2, 20)] {
            for n in 0..flows * 3 {
                let at =
                    Time::ZERO + Span::from_millis(second * 1000 + u64::from(n) * 900 / u64::from(flows * 3));
                census.on_arrival(FlowId(n % flows), 2, at);
            }
            let at = Time::ZERO + Span::from_millis(second * 1000 + 1000);
            assert_eq!(census.on_arrival(FlowId(0), 2, at).map(|mean| mean as u32), Some(2));
            let error = census.flows / f64::from(flows) - 1.0;
            assert!(error.abs() < 0.05, "{} for {flows}", census.flows);
        }
    }

    #[test]
    fn a_fair_limit_is_between_one_share_and_the_link() {
        let link = BitRate::from_mbps(45);
        assert_eq!(fair_limit(link, 8.0, 450.0), BitRate::from_bps(800_000));
        assert_eq!(fair_limit(link, 0.0, 450.0), BitRate::from_bps(100_000));
        assert_eq!(fair_limit(link, 9.0, 3.0), link);
    }
}
