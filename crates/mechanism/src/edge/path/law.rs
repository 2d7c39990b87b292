//! The rate of a virtual link while delays tell of congestion: it follows what leaves, and a pull towards a short queue.
//!
//! Source: the decrease to the output rate is AIMD-ER's (Harrison and Kalyanaraman, section II.B); a delay that is held, and
//! not avoided: Copa (Arun and Balakrishnan, NSDI 2018, section 2).
//! Deviations: the form is ours.
//!
//! With the output rate `nu`, the excess `x` of the delay, its target `d` and the round trip `T`:
//!
//! - above the target `r = nu (1 - g (x - d) / T)`: the queue shrinks by the part `g` of what is too much per round trip, and no
//!   faster than by half of the rate;
//! - below it `r = nu (1 + a (1 - x / d))`, towards the target from below, where `x` and `d` are without what jitter adds to the target;
//! - without a queue, where `nu` is but what was sent, `r` grows by the part `a` per round trip, while it is used;
//!
//! The target grows with jitter, by three of its standard deviations, and is the time of two packets at least.

/// Constants of the law; seconds, bytes per second, parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// `d` without jitter.
    pub target: f64,
    /// `g`.
    pub gain: f64,
    /// `a` at most.
    pub growth: f64,
    /// The most that jitter adds to the target.
    pub jitter_max: f64,
}

/// No decrease is below this part of the output rate.
const DECREASE_MOST: f64 = 0.5;
/// From this part of the target on, jitter apart, there is a queue.
const QUEUE: f64 = 0.25;
/// How many round trips of growth the rate may be ahead of the output rate, which is measured over one, and is one old.
const AHEAD: f64 = 1.5;
/// What jitter adds to the target, in standard deviations.
const JITTERS: f64 = 3.0;
/// On slow paths packets are long: the target is the time of so many (RFC 8289, section 4.3, asks for more than one).
const PACKETS: f64 = 2.0;
const PACKET_BYTES: f64 = 1500.0;
/// That much of the target jitter explains at most of a wait, in targets without it.
const JITTER_LEASTS: f64 = 2.0;
/// The least growth on paths whose round trip is long beside the target.
const GROWTH_LEAST: f64 = 0.02;

impl Law {
    /// `d` with `jitter`, on a path that gives `output`.
    pub fn target(&self, jitter: f64, output: f64) -> f64 {
        self.least(output) + (JITTERS * jitter).min(self.jitter_max)
    }

    /// Below this the queue has been emptied.
    pub fn emptied(&self, jitter: f64, output: f64) -> f64 {
        self.least(output) / 2.0 + (JITTERS * jitter).min(self.jitter_max)
    }

    /// The target without jitter.
    fn least(&self, output: f64) -> f64 {
        self.target.max(PACKETS * PACKET_BYTES / output)
    }

    /// The rate after `rate`, when the part `rounds` of a round trip of `t` seconds has passed.
    pub fn next(&self, rate: f64, output: f64, excess: f64, target: f64, t: f64, rounds: f64) -> f64 {
        if excess > target {
            let part = (self.gain * (excess - target) / t).min(DECREASE_MOST);
            return (output * (1.0 - part)).min(rate);
        }
        let most = (self.gain * target / t).clamp(GROWTH_LEAST.min(self.growth), self.growth);
        // What jitter alone explains is no queue; where it is large, as on cells, most of what seems so is the rate of the path.
        let least = self.least(output);
        let waits = excess - (target - least).min(JITTER_LEASTS * least);
        if waits > QUEUE * least {
            return output * (1.0 + most * (1.0 - waits / least));
        }
        // What leaves now was sent a round trip ago: beyond what has grown since, nothing says that there is more.
        let ahead = output * (1.0 + AHEAD * most);
        (rate * (1.0 + most * rounds)).min(ahead).max(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAW: Law = Law { target: 0.005, gain: 0.5, growth: 0.1, jitter_max: 0.02 };

    #[test]
    fn a_queue_above_the_target_shrinks_by_its_part_per_round_trip() {
        // 25 ms of queue at 40 ms: 20 too many, a quarter of the round trip.
        assert!((LAW.next(2e6, 1e6, 0.025, 0.005, 0.04, 0.5) - 0.75e6).abs() < 1e-6);
        // However long the queue, half of the rate is left.
        assert!((LAW.next(2e6, 1e6, 1.0, 0.005, 0.04, 0.5) - 0.5e6).abs() < 1e-6);
    }

    #[test]
    fn an_empty_queue_lets_the_rate_grow_by_so_much_per_round_trip() {
        // 0.5 * 5 / 40 = 6.25 % per round trip; half of one has passed.
        assert!((LAW.next(1e6, 1e6, 0.0, 0.005, 0.04, 0.5) - 1.031_25e6).abs() < 1e-6);
        // Half of the target: half of that, upon what leaves.
        assert!((LAW.next(9e6, 1e6, 0.0025, 0.005, 0.04, 1.0) - 1.031_25e6).abs() < 1e-6);
    }

    #[test]
    fn a_growth_below_the_usual_least_is_one() {
        let slow = Law { growth: 0.001, ..LAW };
        assert!((slow.next(1e6, 1e6, 0.0, 0.005, 0.04, 1.0) - 1.001e6).abs() < 1e-6);
    }

    proptest! {
        /// A bottleneck of `mu`, a round trip of delay: the queue of the fluid model settles at the target.
        #[test]
        fn the_queue_of_a_fluid_bottleneck_settles_at_the_target(mu in prop_oneof![1e5f64..1e6, 1e6f64..1e8], t in 0.01f64..0.2, start in 0.1f64..3.0) {
            let step = t / 8.0;
            // On a slow path that of packets.
            let target = LAW.target(0.0, mu);
            let (mut rate, mut queue) = (start * mu, 0.0f64);
            let mut sent = alloc::collections::VecDeque::from([rate; 8]);
            for round in 0..4000 {
                let arriving = sent.pop_front().unwrap();
                let output = if queue > 0.0 { mu } else { arriving.min(mu) };
                queue = (queue + (arriving - mu) * step).max(0.0);
                rate = LAW.next(rate, output, queue / mu, target, t, step / t);
                sent.push_back(rate);
                if round > 3900 {
                    let waited = queue / mu;
                    prop_assert!((0.8 * target..1.5 * target).contains(&waited), "{waited}");
                }
            }
        }
    }
}
