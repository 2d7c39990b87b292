//! The laws, one by one, in seconds, bytes and bits per second.
//!
//! Source: the draft, sections 4.2 to 4.4.

/// `L4S_AVG_G_UP` (section 4.2.1.3).
const ALPHA_UP: f64 = 1.0 / 8.0;
/// `L4S_AVG_G_DOWN`.
const ALPHA_DOWN: f64 = 1.0 / 128.0;
/// `QDELAY_AVG_G` (section 4.2.1.4).
const DELAY_GAIN: f64 = 1.0 / 4.0;
/// `QDELAY_DEV_AVG_G`.
const DEVIATION_GAIN: f64 = 1.0 / 64.0;
/// `QDELAY_DEV_NORM`, seconds.
const DEVIATION_NORM: f64 = 0.025;
/// `QDELAY_DEV_NORM_TH`.
const DEVIATION_MANY: f64 = 1.0;
/// `MIN_QUEUE_DELAY_DEV_SCALE` (section 4.2.2).
const DAMPING_MIN: f64 = 0.1;
/// `RATE_PACE_MIN`, bits per second (section 4.3.2).
const PACE_MIN_BPS: f64 = 50_000.0;
/// `MAX_RELAXED_PACING_FACTOR`.
const RELAXED_MAX: f64 = 4.0;
/// `RELAXED_PACING_LIMIT_LOW`.
const RELAXED_FROM: f64 = 0.8;
/// `PACKET_OVERHEAD`, bytes (section 4.4).
const PACKET_OVERHEAD: f64 = 20.0;
/// `RATE_ADJUST_GAIN`.
const ADJUST_GAIN: f64 = 1.0 / 16.0;
/// `FRAME_SIZE_DEV_ALPHA`.
const FRAME_GAIN: f64 = 1.0 / 64.0;

/// `l4s_alpha` after an interval in which the part `marked` of what arrived was marked (section 4.2.1.3).
pub fn alpha(alpha: f64, marked: f64) -> f64 {
    if marked >= alpha { ALPHA_UP * marked + (1.0 - ALPHA_UP) * alpha } else { (1.0 - ALPHA_DOWN) * alpha }
}

/// `qdelay_avg` (section 4.2.1.4): slow to rise, at once down.
pub fn mean_delay(mean: f64, delay: f64) -> f64 {
    if delay < mean { delay } else { DELAY_GAIN * delay + (1.0 - DELAY_GAIN) * mean }
}

/// `qdelay_dev_norm` (section 4.2.1.4).
pub fn deviation(deviation: f64, delay: f64) -> f64 {
    let now = ((delay - DEVIATION_NORM / 4.0) / DEVIATION_NORM).clamp(0.0, 1.5 * DEVIATION_MANY);
    (1.0 - DEVIATION_GAIN) * deviation + DEVIATION_GAIN * now
}

/// What a queue that varies leaves of steps of the window (section 4.2.2).
pub fn damping(deviation: f64) -> f64 {
    ((DEVIATION_MANY - deviation) / DEVIATION_MANY).max(DAMPING_MIN)
}

/// `scl_t`: small where the window is near where congestion was met last (section 4.2.2.1).
pub fn distance(window: f64, inflection: f64) -> f64 {
    let scaled = (window - inflection) / inflection * 8.0;
    (scaled * scaled).clamp(0.1, 1.0)
}

/// `l4s_alpha_v_t`: how much of a mark the delay is (section 4.2.2.1).
pub fn virtual_alpha(mean_delay: f64, target: f64) -> f64 {
    ((mean_delay - target / 2.0) / (target / 2.0)).clamp(0.0, 1.0)
}

/// `ref_wnd_overhead` (section 4.3.1).
pub fn overhead(least: f64, most: f64, deviation: f64) -> f64 {
    least + (most - least) * ((DEVIATION_MANY - deviation) / DEVIATION_MANY).max(0.0)
}

/// `pace_bitrate` (section 4.3.2).
pub fn pace_bps(target_bps: f64, max_bps: f64, headroom: f64) -> f64 {
    let relaxed = ((target_bps / max_bps - RELAXED_FROM) / (1.0 - RELAXED_FROM)).min(1.0);
    target_bps.max(PACE_MIN_BPS) * headroom / (1.0 - relaxed).clamp(1.0 / RELAXED_MAX, 1.0)
}

/// `rate_adjust_factor` after a frame that finds the oldest packet waiting for `waited` (section 4.4).
pub fn rate_adjust(factor: f64, waited: f64, period: f64) -> f64 {
    (factor + (waited - period / 4.0) / period * ADJUST_GAIN).clamp(0.0, 0.5)
}

/// `frame_size_dev` after a frame of `bytes` at a target that asks for `nominal` (section 4.4).
pub fn frame_deviation(deviation: f64, bytes: f64, nominal: f64) -> f64 {
    let over = ((bytes - nominal) / nominal).max(0.0);
    ((1.0 - FRAME_GAIN) * deviation + FRAME_GAIN * over).min(0.2)
}

/// What of `8 ref_wnd / s_rtt` is for the medium (section 4.4).
pub fn media_part(ratio: f64, mss: f64, rate_adjust: f64, frame_deviation: f64) -> f64 {
    let small = 1.0 - (ratio - 0.1).clamp(0.0, 0.2);
    small * (mss / (mss + PACKET_OVERHEAD)) / (1.2 + rate_adjust + frame_deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn alpha_rises_by_an_eighth_of_what_is_missing_and_falls_by_a_128th_of_itself() {
        assert!(is(alpha(0.0, 1.0), 0.125));
        assert!(is(alpha(0.5, 0.9), 0.55));
        assert!(is(alpha(0.128, 0.0), 0.127));
    }

    #[test]
    fn the_mean_delay_rises_by_quarters_and_falls_at_once() {
        assert!(is(mean_delay(0.02, 0.06), 0.03));
        assert!(is(mean_delay(0.06, 0.01), 0.01));
    }

    #[test]
    fn delays_below_a_quarter_of_the_norm_are_no_deviation_and_long_ones_count_one_and_a_half_norms() {
        assert!(is(deviation(0.0, 0.006), 0.0));
        assert!(is(deviation(0.0, 0.025), 0.75 / 64.0));
        assert!(is(deviation(0.0, 1.0), 1.5 / 64.0));
        assert!(is(damping(0.5), 0.5));
        assert!(is(damping(1.5), 0.1));
    }

    #[test]
    fn steps_are_a_tenth_where_congestion_was_and_whole_an_eighth_away() {
        assert!(is(distance(10_000.0, 10_000.0), 0.1));
        assert!(is(distance(11_250.0, 10_000.0), 1.0));
        assert!(is(distance(9_375.0, 10_000.0), 0.25));
        assert!(is(distance(3_000.0, 1.0), 1.0));
    }

    #[test]
    fn delay_marks_nothing_at_half_of_the_target_and_everything_at_the_target() {
        assert!(is(virtual_alpha(0.03, 0.06), 0.0));
        assert!(is(virtual_alpha(0.045, 0.06), 0.5));
        assert!(is(virtual_alpha(0.5, 0.06), 1.0));
    }

    #[test]
    fn pacing_has_half_more_and_four_times_that_at_the_highest_bitrate() {
        assert!(is(pace_bps(1e6, f64::INFINITY, 1.5), 1.5e6));
        assert!(is(pace_bps(1e4, 1e6, 1.5), 75e3));
        assert!(is(pace_bps(0.9e6, 1e6, 1.5), 2.7e6));
        assert!(is(pace_bps(1e6, 1e6, 1.5), 6e6));
    }

    #[test]
    fn a_packet_that_waits_a_quarter_of_a_period_changes_nothing_and_a_longer_one_slows_the_encoder() {
        assert!(is(rate_adjust(0.1, 0.005, 0.02), 0.1));
        assert!(is(rate_adjust(0.1, 0.025, 0.02), 0.1625));
        assert!(is(rate_adjust(0.4, 9.0, 0.02), 0.5));
        assert!(is(frame_deviation(0.0, 3000.0, 1000.0), 2.0 / 64.0));
        assert!(is(frame_deviation(0.2, 9e9, 1000.0), 0.2));
    }

    #[test]
    fn the_medium_has_five_sixths_of_a_large_window() {
        assert!(is(media_part(0.0, 980.0, 0.0, 0.0), 0.98 / 1.2));
        assert!(is(media_part(1.0, 980.0, 0.2, 0.1), 0.8 * 0.98 / 1.5));
    }

    proptest! {
        #[test]
        fn factors_stay_between_their_ends(
            a in 0.0f64..1.0, b in 0.0f64..1.0, window in 1000.0f64..1e9, other in 1.0f64..1e9,
        ) {
            prop_assert!((0.0..=1.0).contains(&alpha(a, b)));
            prop_assert!((0.1..=1.0).contains(&distance(window, other)));
            let varied = deviation(1.5 * a, b);
            prop_assert!((0.0..=1.5).contains(&varied));
            prop_assert!((0.1..=1.0).contains(&damping(varied)));
            prop_assert!((1.5..=3.0).contains(&overhead(1.5, 3.0, varied)));
            prop_assert!(pace_bps(window, other.max(window), 1.5) <= 6.0 * window.max(PACE_MIN_BPS));
        }
    }
}
