//! Random numbers: one substream per component.
//!
//! A substream depends on (seed, run, name of the component) and on nothing else: adding a node does not shift another
//! node's draws, and variants of an experiment see common random numbers.
//!
//! Source: O'Neill, PCG (HMC-CS-2014-0905), as `rand_pcg` has it; Aumasson and Bernstein, `SipHash` (INDOCRYPT 2012), for names
//! and keys. Deviations: `SipHash-1-3` in place of 2-4, as in Rust's own tables.

use core::hash::{BuildHasher, Hasher};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use siphasher::sip::SipHasher13;

/// The seed of one component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the component `name` (for example `links.bottleneck.forward`) in the run with `run_seed`.
    pub fn for_component(run_seed: u64, name: &str) -> Self {
        // SipHash with the run's seed as key: independent of platform and version, and no two names collide in practice.
        let mut hasher = SipHasher13::new_with_keys(run_seed, 0x7469_6465_6761_7465);
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }
}

/// Hashes keys from outside (flows named by headers) with a secret of the component, so that nobody can choose flows that
/// collide. Nothing ever depends on the order of such a table.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHash(u64, u64);

impl KeyedHash {
    /// The hash of the component with `seed`.
    pub fn new(seed: Seed) -> Self {
        Self::draw(&mut Substream::new(seed))
    }

    /// A hash with the next secret of `stream`, for a component that changes it.
    pub fn draw(stream: &mut Substream) -> Self {
        Self(stream.bits(), stream.bits())
    }

    /// The hash of the eight bytes of `key`, least significant first.
    #[inline]
    pub fn of(&self, key: u64) -> u64 {
        self.build_hasher().hash(&key.to_le_bytes())
    }
}

/// Fibonacci hashing, for numbers that the world gives out itself: they are dense, so one multiplication spreads them, and
/// nobody outside chooses them.
#[inline]
pub(crate) const fn spread(number: u32) -> u64 {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// A component's own stream of random numbers (PCG XSL 128/64 MCG).
#[derive(Clone, Debug)]
pub struct Substream(Pcg64Mcg);

impl Substream {
    /// The stream of `seed`.
    pub fn new(seed: Seed) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed.0))
    }

    /// Sixty-four random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform on [0, 1): 53 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        // 2^-53: the spacing of doubles in [0.5, 1).
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with `probability` (never for 0 or less, always for 1 or more). Draws only when it is in between.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.uniform() < probability)
    }

    /// Uniform on 0..`bound`; `bound` must not be zero.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        // Multiply and shift: the bias is below bound / 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// Exponentially distributed with `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - U is in (0, 1]: the logarithm is finite.
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Pareto distributed with `mean` and `shape` above one (catalogue, section 23: scale = mean (a - 1) / a).
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let scale = mean * (shape - 1.0) / shape;
        scale / libm::pow(1.0 - self.uniform(), 1.0 / shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_do_not_share_draws() {
        let a = Seed::for_component(1, "links.a");
        assert_ne!(a, Seed::for_component(1, "links.b"));
        assert_ne!(a, Seed::for_component(2, "links.a"));
        assert_eq!(a, Seed::for_component(1, "links.a"));
    }

    #[test]
    fn distributions_have_their_means() {
        let mut stream = Substream::new(Seed(7));
        let mean = |f: &mut dyn FnMut() -> f64| (0..200_000).map(|_| f()).sum::<f64>() / 200_000.0;
        assert!((mean(&mut || stream.uniform()) - 0.5).abs() < 0.003);
        assert!((mean(&mut || stream.exponential(2.0)) - 2.0).abs() < 0.03);
        // Shape 3 has a finite variance, so that 200,000 draws settle.
        assert!((mean(&mut || stream.pareto(2.0, 3.0)) - 2.0).abs() < 0.05);
        assert!((mean(&mut || f64::from(stream.below(10))) - 4.5).abs() < 0.03);
    }

    #[test]
    fn certain_and_impossible_draw_nothing() {
        let mut stream = Substream::new(Seed(1));
        let mut untouched = stream.clone();
        assert!(stream.chance(1.0) && stream.chance(2.0) && !stream.chance(0.0) && !stream.chance(-1.0));
        assert!(!stream.chance(f64::NAN));
        assert_eq!(stream.bits(), untouched.bits());
    }
}
