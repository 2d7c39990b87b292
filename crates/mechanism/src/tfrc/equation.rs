//! What TCP would get.
//!
//! Source: RFC 5348, section 3.1. Deviations: none.

/// `b`: packets that an acknowledgment covers (RFC 5348, section 3.1: 1).
const B: f64 = 1.0;

/// The throughput of TCP, bytes per second, with segments of `s` bytes, a round-trip time of `r` seconds and the loss event rate
/// `p`, above 0: `s / (R sqrt(2 b p / 3) + t_RTO 3 sqrt(3 b p / 8) p (1 + 32 p^2))` with `t_RTO = 4 R` (RFC 5348, section 3.1).
pub fn throughput(s: f64, r: f64, p: f64) -> f64 {
    let timeouts = 4.0 * r * 3.0 * libm::sqrt(3.0 * B * p / 8.0) * p * (1.0 + 32.0 * p * p);
    s / (r * libm::sqrt(2.0 * B * p / 3.0) + timeouts)
}

/// The least `p` that occurs: one loss in so many packets says nothing more.
const P_MIN: f64 = 1e-8;

/// The loss event rate at which [`throughput`] is `x` bytes per second, between 1e-8 and 1; 1 where none is that low.
pub fn loss_event_rate(s: f64, r: f64, x: f64) -> f64 {
    let (mut low, mut high) = (libm::log(P_MIN), 0.0);
    // The throughput falls with p: halve the interval of logarithms until both ends are as good as equal.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if throughput(s, r, libm::exp(middle)) > x { low = middle } else { high = middle }
    }
    libm::exp(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn at_small_loss_it_is_the_square_root_law() {
        // s / R sqrt(3 / 2 p): 1000 bytes, 100 ms, one in 10,000.
        let x = throughput(1000.0, 0.1, 1e-4);
        assert!((x / (10_000.0 * libm::sqrt(1.5e4)) - 1.0).abs() < 2e-3, "{x}");
    }

    #[test]
    fn it_is_the_formula_of_the_rfc_by_hand() {
        // p = 0.01, R = 0.1, s = 1000: R sqrt(2p/3) = 0.0081650; 12 R sqrt(3p/8) p (1 + 32 p^2) = 0.00073720.
        let x = throughput(1000.0, 0.1, 0.01);
        assert!((x - 1000.0 / (0.008_164_97 + 0.000_737_20)).abs() < 1.0, "{x}");
    }

    #[test]
    fn a_rate_of_half_a_segment_per_round_trip_is_a_loss_of_a_fifth() {
        // f(p) = s / (R X) = 2: what a receiver assumes that lost the very first packets (section 6.3.1).
        let p = loss_event_rate(1000.0, 0.1, 5000.0);
        assert!((p - 0.2064).abs() < 1e-3, "{p}");
    }

    proptest! {
        #[test]
        fn the_inverse_inverts(s in 40.0f64..9000.0, r in 1e-4f64..2.0, p in 1e-7f64..0.9) {
            let found = loss_event_rate(s, r, throughput(s, r, p));
            prop_assert!((found / p - 1.0).abs() < 1e-6, "{found} for {p}");
        }
    }
}
