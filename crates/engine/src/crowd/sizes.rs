//! How large transfers are.

use std::sync::Arc;

use tidegate_mechanism::random::Substream;

/// A distribution of sizes in bytes of payload.
#[derive(Clone, PartialEq, Debug)]
pub enum SizesSpec {
    /// All the same.
    Fixed(u64),
    /// Exponential with this mean.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Pareto, cut off: what would be larger than `most` is drawn again.
    Pareto {
        /// The mean without the cut.
        mean: f64,
        /// Above one.
        shape: f64,
        /// Nothing is larger.
        most: u64,
    },
    /// Points of the distribution function, both coordinates ascending, the last at 1; straight between them, and the first one
    /// a step of its height.
    Table(Arc<[(u64, f64)]>),
}

impl SizesSpec {
    /// The next size: whole bytes, at least one.
    pub(crate) fn draw(&self, random: &mut Substream) -> u64 {
        let bytes = match self {
            Self::Fixed(bytes) => return *bytes,
            Self::Exponential { mean } => random.exponential(*mean),
            // By the inverse of what is left of the distribution function, so that one number is drawn whatever comes.
            Self::Pareto { mean, shape, most } => {
                let scale = scale_of(*mean, *shape);
                let cut = 1.0 - libm::pow(scale / *most as f64, *shape);
                scale / libm::pow(1.0 - cut * random.uniform(), 1.0 / shape)
            }
            Self::Table(points) => quantile(points, random.uniform()),
        };
        ((bytes + 0.5) as u64).max(1)
    }

    /// The mean in bytes, whole bytes aside.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Exponential { mean } => *mean,
            Self::Pareto { mean, shape, most } => {
                let scale = scale_of(*mean, *shape);
                let cut = scale / *most as f64;
                mean * (1.0 - libm::pow(cut, shape - 1.0)) / (1.0 - libm::pow(cut, *shape))
            }
            Self::Table(points) => {
                let first = points.first().map_or(0.0, |&(bytes, part)| bytes as f64 * part);
                let rest = points
                    .windows(2)
                    .map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 as f64 + pair[1].0 as f64) / 2.0);
                first + rest.sum::<f64>()
            }
        }
    }

    /// What nothing is larger than; of an exponential distribution, what one in a billion is.
    pub fn most(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Exponential { mean } => (mean * libm::log(1e9)) as u64,
            Self::Pareto { most, .. } => *most,
            Self::Table(points) => points.last().map_or(1, |&(bytes, _)| bytes),
        }
    }
}

/// The least value of a Pareto distribution.
fn scale_of(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

/// Where the distribution function of `points` is `part`.
fn quantile(points: &[(u64, f64)], part: f64) -> f64 {
    let above = points.partition_point(|&(_, reached)| reached < part).min(points.len() - 1);
    let (bytes, reached) = points[above];
    let Some(&(below, left)) = above.checked_sub(1).and_then(|index| points.get(index)) else {
        return bytes as f64;
    };
    if reached <= left {
        return bytes as f64;
    }
    below as f64 + (bytes - below) as f64 * ((part - left) / (reached - left)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_mechanism::random::Seed;

    const DRAWS: usize = 200_000;

    fn table() -> SizesSpec {
        SizesSpec::Table([(1_000, 0.2), (3_000, 0.5), (10_000, 0.9), (1_000_000, 1.0)].into())
    }

    fn drawn(sizes: &SizesSpec) -> Vec<u64> {
        let mut random = Substream::new(Seed(7));
        let mut drawn: Vec<u64> = (0..DRAWS).map(|_| sizes.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    /// Kolmogorov and Smirnov: the largest distance, to be below 1.63 over the root of the draws at 1 %.
    fn distance(drawn: &[u64], function: impl Fn(f64) -> f64) -> f64 {
        let count = drawn.len() as f64;
        let at = |(index, &bytes): (usize, &u64)| {
            // Whole bytes: as far as the half around them.
            let (low, high) = (function(bytes as f64 - 0.5), function(bytes as f64 + 0.5));
            (index as f64 / count - high).max(low - (index + 1) as f64 / count)
        };
        drawn.iter().enumerate().map(at).fold(0.0, f64::max)
    }

    #[test]
    fn what_is_drawn_is_what_the_table_says() {
        let function = |bytes: f64| match bytes {
            b if b < 1_000.0 => 0.0,
            b if b < 3_000.0 => 0.2 + 0.3 * (b - 1_000.0) / 2_000.0,
            b if b < 10_000.0 => 0.5 + 0.4 * (b - 3_000.0) / 7_000.0,
            b => (0.9 + 0.1 * (b - 10_000.0) / 990_000.0).min(1.0),
        };
        let far = distance(&drawn(&table()), function);
        assert!(far < 1.63 / (DRAWS as f64).sqrt(), "{far}");
        // A fifth is the first one itself.
        let first = drawn(&table()).iter().filter(|&&bytes| bytes == 1_000).count();
        assert!((first as f64 / DRAWS as f64 - 0.2).abs() < 0.004, "{first}");
    }

    #[test]
    fn closed_forms_are_drawn_as_they_are() {
        let exponential = SizesSpec::Exponential { mean: 20_000.0 };
        let far = distance(&drawn(&exponential), |bytes| 1.0 - libm::exp(-bytes.max(0.0) / 20_000.0));
        assert!(far < 1.63 / (DRAWS as f64).sqrt(), "{far}");
        let pareto = SizesSpec::Pareto { mean: 30_000.0, shape: 1.2, most: 2_000_000 };
        let left = |bytes: f64| libm::pow(5_000.0 / bytes, 1.2);
        let function = |bytes: f64| ((1.0 - left(bytes.max(5_000.0))) / (1.0 - left(2e6))).min(1.0);
        let of_pareto = distance(&drawn(&pareto), function);
        assert!(of_pareto < 1.63 / (DRAWS as f64).sqrt(), "{of_pareto}");
        assert!(*drawn(&pareto).last().unwrap() <= 2_000_000);
    }

    #[test]
    fn means_are_those_of_what_is_drawn() {
        for sizes in [
            SizesSpec::Fixed(4_321),
            SizesSpec::Exponential { mean: 5_000.0 },
            SizesSpec::Pareto { mean: 30_000.0, shape: 1.5, most: 300_000 },
            table(),
        ] {
            let mean = drawn(&sizes).iter().map(|&bytes| bytes as f64).sum::<f64>() / DRAWS as f64;
            assert!((mean / sizes.mean() - 1.0).abs() < 0.015, "{sizes:?}: {mean} for {}", sizes.mean());
        }
    }
}
