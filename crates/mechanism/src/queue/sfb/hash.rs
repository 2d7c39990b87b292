//! Which bin a flow has in each level.
//!
//! Source: Feng, thesis, section 4.4.1: "L independent hash functions", of which it says no more.
//! Deviations:
//! - [`SfbHash::Keyed`] keeps its functions secret, so that nobody can send flows into the bins of others. Four hundred flows
//!   then fill the 23 bins of a level unevenly, 10 to 29 each.
//! - [`SfbHash::Even`] is for reproductions only, since whoever numbers the flows can aim at bins. The digits to base N of a
//!   flow's number are the coefficients of a polynomial, and each level takes its value at a point of its own, modulo N.
//!   So each N flows with consecutive numbers fill every bin of every level once; and with N a prime no two of N^L flows
//!   share all L bins, as in the N^L "virtual buckets" of section 4.4.3. It is the code of Reed and Solomon (J. SIAM 8(2), 1960).

use tidegate_packet::FlowId;

use tidegate_parameters::words;

use super::bins::LEVELS_MAX;
use crate::random::{KeyedHash, Substream};

words! {
    /// How flows are spread over the bins of a level.
    pub enum SfbHash {
        /// By a hash with a secret, which depends on the seed.
        Keyed = "keyed",
        /// Evenly, by arithmetic on the flow's number. Whoever numbers the flows can aim at bins: for reproductions only.
        Even = "even",
    }
}

/// The hash functions of all levels, which last until the next are drawn.
#[derive(Clone, Debug)]
pub(super) enum LevelHashes {
    Keyed(KeyedHash),
    /// Where each level evaluates; all different.
    Even([u32; LEVELS_MAX as usize]),
}

impl LevelHashes {
    pub(super) fn draw(kind: SfbHash, levels: u32, per_level: u32, random: &mut Substream) -> Self {
        match kind {
            SfbHash::Keyed => Self::Keyed(KeyedHash::draw(random)),
            SfbHash::Even => {
                let mut points = [0; LEVELS_MAX as usize];
                for level in 0..levels as usize {
                    let mut point = random.below(per_level);
                    while points[..level].contains(&point) {
                        point = (point + 1) % per_level;
                    }
                    points[level] = point;
                }
                Self::Even(points)
            }
        }
    }

    /// `h_0 .. h_{L-1}` of `flow`, each below `per_level`; the first `levels` count.
    #[inline]
    pub(super) fn of(&self, flow: FlowId, levels: u32, per_level: u32) -> [u32; LEVELS_MAX as usize] {
        let mut found = [0; LEVELS_MAX as usize];
        match self {
            // One keyed hash serves two levels, 32 bits each: they are independent, as all bits of `SipHash` are to those
            // who do not have the key.
            Self::Keyed(hash) => {
                let mut bits = 0;
                for level in 0..levels {
                    bits = if level.is_multiple_of(2) {
                        hash.of(u64::from(flow.0) | u64::from(level / 2) << 32)
                    } else {
                        bits >> 32
                    };
                    // Multiply and shift: the bias is below N / 2^32.
                    found[level as usize] = (((bits & 0xffff_ffff) * u64::from(per_level)) >> 32) as u32;
                }
            }
            Self::Even(points) => {
                for (bin, &point) in found.iter_mut().zip(&points[..levels as usize]) {
                    *bin = value_at(point, number(flow), per_level);
                }
            }
        }
        found
    }
}

/// The simulator numbers the two directions of flow n 2n and 2n + 1.
const fn number(flow: FlowId) -> u32 {
    flow.0 / 2
}

/// The polynomial whose coefficients are the digits of `number` to base `n`, at `point`, modulo `n`.
#[inline]
fn value_at(point: u32, number: u32, n: u32) -> u32 {
    if n == 1 {
        return 0;
    }
    let n = u64::from(n);
    let (mut rest, mut power, mut value) = (u64::from(number), 1, 0);
    while rest > 0 {
        value = (value + rest % n * power) % n;
        power = power * u64::from(point) % n;
        rest /= n;
    }
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use alloc::collections::BTreeSet;
    use alloc::vec;

    fn even(levels: u32, bins: u32, seed: u64) -> LevelHashes {
        LevelHashes::draw(SfbHash::Even, levels, bins, &mut Substream::new(Seed(seed)))
    }

    #[test]
    fn even_hashes_fill_every_bin_of_every_level_once_with_as_many_consecutive_flows() {
        for (seed, levels, bins, first) in
            [(1, 2, 23, 0), (2, 2, 23, 7 * 23), (3, 4, 10, 1200), (4, 8, 8, 64)]
        {
            let hashes = even(levels, bins, seed);
            let mut filled = vec![0; (levels * bins) as usize];
            for flow in first..first + bins {
                let at = hashes.of(FlowId(2 * flow), levels, bins);
                (0..levels).for_each(|level| filled[(level * bins + at[level as usize]) as usize] += 1);
            }
            assert!(filled.iter().all(|&flows| flows == 1), "{levels} levels of {bins}");
        }
    }

    #[test]
    fn with_a_prime_number_of_bins_even_hashes_give_each_flow_bins_of_its_own() {
        for (levels, bins) in [(2, 23), (3, 11)] {
            let hashes = even(levels, bins, 5);
            let flows = bins.pow(levels);
            let sets: BTreeSet<_> =
                (0..flows).map(|flow| hashes.of(FlowId(2 * flow), levels, bins)).collect();
            assert_eq!(sets.len() as u32, flows);
        }
    }

    #[test]
    fn even_hashes_that_move_part_flows_that_shared_a_bin() {
        let mut random = Substream::new(Seed(9));
        let parted = (0..40).any(|_| {
            let hashes = LevelHashes::draw(SfbHash::Even, 2, 23, &mut random);
            // Neighbours modulo 23: with a point of 0 they share a bin, with others they do not.
            let bins = |flow: u32| hashes.of(FlowId(2 * flow), 2, 23);
            (0..2).all(|level| bins(5)[level] != bins(28)[level])
        });
        assert!(parted);
    }
}
