//! What reports do to the window.

use super::*;
use proptest::prelude::*;

const RTT: Span = Span::from_millis(50);

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Ten packets came, nothing is wrong.
fn calm() -> Feedback {
    Feedback {
        rtt: Some(RTT),
        queue_delay: Some(Span::ZERO),
        units: 10,
        acked_bytes: 10_000,
        in_flight_bytes: 1_000_000,
        ..Feedback::default()
    }
}

fn build(config: &ScreamConfig) -> Control {
    let mut control = Control::new(config);
    for number in 1..=200 {
        control.on_feedback(&calm(), ms(50 * number));
    }
    control
}

#[test]
fn with_a_window_acknowledged_each_round_trip_it_grows_by_a_packet_and_two_percent() {
    let config = ScreamConfig::default();
    let mut control = Control::new(&config);
    let mut expected = 3000.0;
    for number in 1..=60 {
        let window = control.ref_wnd_bytes();
        let feedback = Feedback { acked_bytes: window as u64, ..calm() };
        control.on_feedback(&feedback, ms(50 * number));
        expected += f64::from(feedback.acked_bytes as u32) / window * (1000.0 + 0.02 * window);
        assert!((control.ref_wnd_bytes() - expected).abs() < 1e-6, "round {number}");
        expected = control.ref_wnd_bytes();
    }
    assert!(expected > 100_000.0, "{expected}");
}

#[test]
fn a_loss_leaves_seven_tenths_once_per_virtual_round_trip() {
    let mut control = build(&ScreamConfig::default());
    let window = control.ref_wnd_bytes();
    let loss = Feedback { is_loss: true, acked_bytes: 0, ..calm() };
    control.on_feedback(&loss, ms(10_050));
    assert!((control.ref_wnd_bytes() / window - 0.7).abs() < 1e-12);
    control.on_feedback(&loss, ms(10_060));
    assert!((control.ref_wnd_bytes() / window - 0.7).abs() < 1e-12, "10 ms later");
    control.on_feedback(&Feedback { acked_bytes: 0, ..calm() }, ms(10_080));
    assert!((control.ref_wnd_bytes() / window - 0.49).abs() < 1e-12, "the second loss counts later");
}

#[test]
fn a_classic_mark_leaves_eight_tenths_and_a_loss_with_it_seven() {
    let marked = Feedback { units_marked: 1, acked_bytes: 0, ..calm() };
    for (feedback, part) in [(marked, 0.8), (Feedback { is_loss: true, ..marked }, 0.7)] {
        let mut control = build(&ScreamConfig { ecn: EcnUse::Classic, ..ScreamConfig::default() });
        let window = control.ref_wnd_bytes();
        control.on_feedback(&feedback, ms(10_050));
        assert!((control.ref_wnd_bytes() / window - part).abs() < 1e-12);
    }
}

#[test]
fn marks_of_l4s_close_the_window_by_half_of_alpha_over_the_virtual_round_trips_in_a_real_one() {
    let config = ScreamConfig { ecn: EcnUse::L4s, competing: false, ..ScreamConfig::default() };
    let mut control = build(&config);
    let window = control.ref_wnd_bytes();
    // A queue of 20 ms is no jitter: nothing is scaled down. Alpha becomes an eighth of a half, a round trip is two virtual ones.
    let marked = Feedback {
        units_marked: 5,
        acked_bytes: 0,
        queue_delay: Some(Span::from_millis(20)),
        in_flight_bytes: 1_000_000_000,
        ..calm()
    };
    control.on_feedback(&marked, ms(10_050));
    assert!((control.l4s_alpha() - 1.0 / 16.0).abs() < 1e-12);
    assert!((control.ref_wnd_bytes() / window - (1.0 - 1.0 / 64.0)).abs() < 1e-12);
}

#[test]
fn the_first_mark_in_100_round_trips_leaves_no_more_than_what_was_under_way() {
    let config = ScreamConfig { ecn: EcnUse::L4s, ..ScreamConfig::default() };
    let mut control = build(&config);
    let marked = Feedback { units_marked: 1, acked_bytes: 0, in_flight_bytes: 20_000, ..calm() };
    control.on_feedback(&Feedback { in_flight_bytes: 20_000, ..calm() }, ms(10_050));
    assert!(control.ref_wnd_bytes() > 30_000.0, "{}", control.ref_wnd_bytes());
    control.on_feedback(&marked, ms(10_100));
    assert!(control.ref_wnd_bytes() <= 20_000.0 && control.ref_wnd_bytes() > 19_000.0);
}

#[test]
fn delay_closes_the_window_when_its_mean_exceeds_half_of_the_target() {
    let config = ScreamConfig { competing: false, ..ScreamConfig::default() };
    let mut control = build(&config);
    let short = Span::from_millis(25);
    for number in 0..100 {
        // Round trips of 25 ms, and no acknowledgments: nothing but time passes.
        let feedback = Feedback { rtt: Some(short), acked_bytes: 0, ..calm() };
        control.on_feedback(&feedback, ms(10_050 + 50 * number));
    }
    let window = control.ref_wnd_bytes();
    let full =
        Feedback { rtt: Some(short), queue_delay: Some(Span::from_millis(60)), acked_bytes: 0, ..calm() };
    // The mean rises by quarters of what is missing: 15, 26.25 and 34.6875 ms, the first that is above 30.
    for (number, part) in [1.0, 1.0, 1.0 - 0.15625 / 2.0].into_iter().enumerate() {
        control.on_feedback(&full, ms(20_000 + 50 * number as u64));
        let found = control.ref_wnd_bytes() / window;
        assert!((found - part).abs() < 2e-3, "{number}: {found} for {part}");
    }
}

#[test]
fn a_window_does_not_grow_far_beyond_what_is_under_way_nor_at_the_highest_bitrate() {
    let mut control = build(&ScreamConfig::default());
    let window = control.ref_wnd_bytes();
    for number in 0..4 {
        control.on_feedback(&Feedback { in_flight_bytes: 10_000, ..calm() }, ms(10_050 + 50 * number));
    }
    let after = control.ref_wnd_bytes();
    control.on_feedback(&Feedback { in_flight_bytes: 10_000, ..calm() }, ms(10_300));
    assert_eq!(control.ref_wnd_bytes(), after, "{window} before");

    let max_rate = Some(tidegate_units::BitRate::from_mbps(1));
    let highest = build(&ScreamConfig { max_rate, ..ScreamConfig::default() });
    assert_eq!(highest.bitrate_bps(), 1e6);
    assert!(highest.ref_wnd_bytes() < 10_000.0, "{}", highest.ref_wnd_bytes());
}

#[test]
fn the_bitrate_is_what_the_window_carries_per_round_trip_less_a_sixth() {
    let control = build(&ScreamConfig::default());
    let window = control.ref_wnd_bytes();
    let expected = 8.0 * window / 0.05 * (1000.0 / 1020.0) / 1.2;
    assert!((control.bitrate_bps() / expected - 1.0).abs() < 1e-9);
}

#[test]
fn a_standing_queue_halves_the_bitrate_for_a_while_and_base_delays_are_measured_anew() {
    let config = ScreamConfig { competing: false, ..ScreamConfig::default() };
    let mut control = build(&config);
    let standing = Feedback { queue_delay: Some(Span::from_millis(25)), ..calm() };
    let rounds = (1..400).find(|number| control.on_feedback(&standing, ms(10_000 + 50 * number)));
    let at = rounds.expect("it is noticed");
    let slow = control.bitrate_bps();
    // Five round trips.
    control.on_feedback(&calm(), ms(10_000 + 50 * at + 251));
    let ratio = control.bitrate_bps() / slow;
    assert!((1.9..2.6).contains(&ratio), "{ratio}");
}

fn any_feedback() -> impl Strategy<Value = (Feedback, u64)> {
    let times = (prop::option::of(0u64..10_000_000_000), prop::option::of(any::<u64>()), 0u64..3_000_000_000);
    let counts = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<u64>());
    (times, counts).prop_map(|((rtt, delay, wait), (units, units_marked, acked, marked, is_loss, flight))| {
        let feedback = Feedback {
            rtt: rtt.map(Span::from_nanos),
            queue_delay: delay.map(Span::from_nanos),
            units,
            units_marked,
            acked_bytes: acked,
            marked_bytes: marked,
            is_loss,
            in_flight_bytes: flight,
        };
        (feedback, wait)
    })
}

proptest! {
    #[test]
    fn whatever_is_reported_the_window_is_finite_and_not_below_its_least(
        events in prop::collection::vec(any_feedback(), 1..200), l4s in any::<bool>(),
    ) {
        let ecn = if l4s { EcnUse::L4s } else { EcnUse::Classic };
        let mut control = Control::new(&ScreamConfig { ecn, ..ScreamConfig::default() });
        let mut now = Time::ZERO;
        for (feedback, wait) in events {
            now += Span::from_nanos(wait);
            control.on_feedback(&feedback, now);
            prop_assert!(control.ref_wnd_bytes() >= 3000.0 && control.ref_wnd_bytes().is_finite());
            prop_assert!(control.bitrate_bps() >= 150_000.0 && control.bitrate_bps().is_finite());
            let limit = control.in_flight_limit_bytes() / control.ref_wnd_bytes();
            prop_assert!((1.5 - 1e-9..=3.0 + 1e-9).contains(&limit), "{limit}");
            prop_assert!((0.0..=1.0).contains(&control.l4s_alpha()) || feedback.units_marked > feedback.units);
        }
    }
}
