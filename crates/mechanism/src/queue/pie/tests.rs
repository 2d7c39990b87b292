use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Ecn, FlowId, MarkReason};
use tidegate_parameters::{Parameters as _, Report};

use super::law::tuned;
use super::*;
use crate::queue::testing::settle;
use crate::queue::{Fifo, QueueDiscipline};
use crate::schedule::testing::{Counted, arrivals, drive};

const LONG: Backlog = Backlog { packets: 50, bytes: 50_000 };

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn pie(config: PieConfig) -> Pie {
    config.build(&Context::for_tests())
}

fn arrive(pie: &mut Pie, ecn: Ecn, queue: Backlog, now: Time) -> Verdict {
    pie.on_arrival(&mut Packet { ecn, arrived: now, ..Packet::new(0, FlowId(0), 1000) }, queue, now)
}

/// A packet leaves that has waited so long; 49 stay behind.
fn leave(pie: &mut Pie, waited_ms: u64, now: Time) {
    let arrived = now.saturating_sub(Span::from_millis(waited_ms));
    let packet = Packet { arrived, ..Packet::new(0, FlowId(0), 1000) };
    pie.on_departure(&packet, Backlog { packets: 49, bytes: 49_000 }, now);
}

/// So many updates, with a packet before each that has waited `waited_ms`; the probability after each.
fn updated(pie: &mut Pie, waited_ms: u64, updates: usize) -> Vec<f64> {
    let mut probabilities = Vec::new();
    for _ in 0..updates {
        let at = pie.timer_at().expect("it is awake");
        leave(pie, waited_ms, at);
        pie.on_timer(at);
        probabilities.push(pie.state.drop_prob);
    }
    probabilities
}

fn under(law: PieLawConfig) -> PieConfig {
    PieConfig { law, ..PieConfig::default() }
}

/// `pie` with this sum of probabilities.
fn summed(accu_prob: f64, pie: Pie) -> Pie {
    Pie { state: PieState { accu_prob, ..pie.state.clone() }, ..pie }
}

/// One with the probability `drop_prob`, after the allowance for bursts and with a delay of 20 ms.
fn with(drop_prob: f64, config: PieConfig) -> Pie {
    let qdelay = Span::from_millis(20);
    Pie {
        state: PieState { drop_prob, current_qdelay: qdelay, qdelay_old: qdelay, ..PieState::default() },
        queue_bytes: 50_000,
        next_update: Some(ms(1005)),
        ..pie(config)
    }
}

#[test]
fn steps_scale_with_the_magnitude_of_the_probability() {
    let step_at = |drop_prob: f64| 1.0 / tuned(1.0, drop_prob);
    assert_eq!([0.0, 9e-7, 1e-6, 9e-6, 1e-5].map(step_at), [2048.0, 2048.0, 512.0, 512.0, 128.0]);
    assert_eq!(
        [1e-4, 1e-3, 0.0099, 0.01, 0.099, 0.1, 1.0].map(step_at),
        [32.0, 8.0, 8.0, 2.0, 2.0, 1.0, 1.0]
    );
}

#[test]
fn a_delay_that_stays_moves_the_probability_by_alpha_for_each_second_above_the_target() {
    // From 0.1 on nothing is scaled: 0.125 for each second, and the delay is 40 ms above.
    let mut pie = with(0.1, PieConfig::default());
    updated(&mut pie, 55, 1);
    let begin = pie.state.drop_prob;
    let probabilities = updated(&mut pie, 55, 20);
    for (number, p) in probabilities.iter().enumerate() {
        assert!((p - begin - 0.125 * 0.04 * (number + 1) as f64).abs() < 1e-12);
    }
}

#[test]
fn a_delay_at_the_target_leaves_the_probability_where_it_is() {
    let mut pie = with(0.2, PieConfig::default());
    updated(&mut pie, 15, 1);
    let begin = pie.state.drop_prob;
    assert!(updated(&mut pie, 15, 50).iter().all(|p| (p - begin).abs() < 1e-15));
}

#[test]
fn a_delay_that_grows_moves_the_probability_by_beta_for_each_second_of_growth() {
    let mut pie = with(0.5, under(PieLawConfig { alpha: 0.0, ..PieLawConfig::default() }));
    let grown = updated(&mut pie, 30, 2);
    assert!((grown[0] - (0.5 + 1.25 * 0.01)).abs() < 1e-12 && grown[1] == grown[0]);
    let shrunk = updated(&mut pie, 10, 1);
    assert!((shrunk[0] - (0.5 - 1.25 * 0.01)).abs() < 1e-12, "as it shrinks it falls");
}

#[test]
fn a_step_is_at_most_two_hundredths_unless_the_delay_is_high() {
    let after = |waited_ms, drop_prob| updated(&mut with(drop_prob, PieConfig::default()), waited_ms, 1)[0];
    assert!((after(240, 0.1) - 0.12).abs() < 1e-12);
    assert!((after(251, 0.1) - 0.14).abs() < 1e-12);
    assert!((after(250, 0.1) - 0.12).abs() < 1e-12, "high is above the bound only");
    assert!(after(240, 0.09) > 0.2, "small probabilities rise as they may");
}

#[test]
fn nothing_is_notified_while_there_is_an_allowance_for_bursts() {
    let mut pie = pie(PieConfig::default());
    assert_eq!(arrive(&mut pie, Ecn::NotEct, LONG, ms(1)), Verdict::Accept);
    assert_eq!(pie.state.burst_allowance, Span::from_millis(150));
    // Whatever the probability is, and although the delay is far above the target.
    let mut now = ms(1);
    for update in 0..10 {
        pie.state.drop_prob = 1.0;
        assert_eq!(arrive(&mut pie, Ecn::NotEct, LONG, now), Verdict::Accept, "update {update}");
        now = pie.timer_at().expect("it is awake");
        leave(&mut pie, 200, now);
        pie.on_timer(now);
    }
    assert_eq!(arrive(&mut pie, Ecn::NotEct, LONG, now), Verdict::Drop(DropReason::Early));
}

#[test]
fn a_short_queue_and_a_short_delay_are_left_alone() {
    let mut pie = with(0.19, under(PieLawConfig { derandomize: false, ..PieLawConfig::default() }));
    let certain =
        |of: &mut Pie, queue| (0..200).any(|_| arrive(of, Ecn::NotEct, queue, ms(1)) != Verdict::Accept);
    assert!(certain(&mut pie, LONG));
    assert!(!certain(&mut pie, Backlog { packets: 3, bytes: 3000 }), "two packets of the MTU");
    assert!(certain(&mut pie, Backlog { packets: 3, bytes: 3001 }));
    pie.state.qdelay_old = Span::from_micros(7499);
    assert!(!certain(&mut pie, LONG), "below half the target");
    pie.state.qdelay_old = Span::from_micros(7500);
    assert!(certain(&mut pie, LONG));
    pie.state.qdelay_old = Span::ZERO;
    pie.state.drop_prob = 0.2;
    assert!(certain(&mut pie, LONG), "but not at such a probability");
}

#[test]
fn marks_take_the_place_of_drops_below_a_tenth() {
    let verdict = |drop_prob, ecn| {
        let mut pie = summed(9.0, with(drop_prob, PieConfig::default()));
        arrive(&mut pie, ecn, LONG, ms(1))
    };
    assert_eq!(verdict(0.099, Ecn::Ect0), Verdict::Mark(MarkReason::Early));
    assert_eq!(verdict(0.1, Ecn::Ect0), Verdict::Drop(DropReason::Early));
    assert_eq!(verdict(0.05, Ecn::NotEct), Verdict::Drop(DropReason::Early));
}

#[test]
fn notifications_are_kept_apart() {
    let gaps = |derandomize| {
        let mut pie = with(0.01, under(PieLawConfig { derandomize, ..PieLawConfig::default() }));
        let notified: Vec<u32> =
            (0..200_000).filter(|_| arrive(&mut pie, Ecn::NotEct, LONG, ms(1)) != Verdict::Accept).collect();
        notified.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let mean = |of: &[u32]| f64::from(of.iter().sum::<u32>()) / of.len() as f64;
    let apart = gaps(true);
    // 85 probabilities of 0.01 sum to 0.85; from there on each arrival has its chance: 84 and 100 on average.
    assert!(*apart.iter().min().expect("some") >= 85 && *apart.iter().max().expect("some") <= 851);
    assert!((mean(&apart) - 184.0).abs() < 10.0, "{}", mean(&apart));
    let random = gaps(false);
    assert!(random.contains(&1) && (mean(&random) - 100.0).abs() < 7.0, "{}", mean(&random));
}

#[test]
fn at_eight_and_a_half_a_notification_is_sure() {
    // With a tiny probability nothing else would notify.
    let by_size = under(PieLawConfig { by_size: true, ..PieLawConfig::default() });
    let mut pie = summed(8.499_895, with(1e-5, by_size));
    let accepted =
        (0..100).take_while(|_| arrive(&mut pie, Ecn::NotEct, LONG, ms(1)) == Verdict::Accept).count();
    assert_eq!(accepted, 15, "1000 of 1500 bytes count 2/3 of 0.00001");
    assert_eq!(pie.state.accu_prob, 0.0);
}

#[test]
fn an_overflow_ends_the_sum_of_probabilities() {
    let small = PieConfig { limit: Limit::Packets(50), ..PieConfig::default() };
    let mut pie = summed(5.0, with(0.05, small));
    assert_eq!(arrive(&mut pie, Ecn::Ect0, LONG, ms(1)), Verdict::Drop(DropReason::Overflow));
    assert_eq!(pie.state.accu_prob, 0.0);
}

#[test]
fn without_traffic_the_probability_decays_and_the_updates_end() {
    let mut pie = with(0.5, PieConfig::default());
    let packet = Packet::new(0, FlowId(0), 1000);
    pie.on_departure(&packet, Backlog::EMPTY, ms(10));
    let mut updates = 0;
    let mut before = pie.state.drop_prob;
    while let Some(at) = pie.timer_at() {
        pie.on_timer(at);
        updates += 1;
        assert!(pie.state.drop_prob < before || before == 0.0);
        before = pie.state.drop_prob;
    }
    assert!((50..500).contains(&updates) && pie.state.drop_prob == 0.0, "{updates}");
    // The next arrival is at 12.34 s: the updates go on at a multiple of 15 ms.
    arrive(&mut pie, Ecn::NotEct, Backlog::EMPTY, ms(12_340));
    assert_eq!(pie.timer_at(), Some(ms(12_345)));
    arrive(&mut pie, Ecn::NotEct, Backlog::EMPTY, ms(12_341));
    assert_eq!(pie.timer_at(), Some(ms(12_345)));
}

#[test]
fn updates_that_are_skipped_would_have_changed_nothing() {
    // The next after a pause of any length, at its very end too.
    assert_eq!(next_of(ms(15), Span::from_millis(15), ms(14)), ms(15));
    assert_eq!(next_of(ms(15), Span::from_millis(15), ms(15)), ms(30));
    assert_eq!(next_of(ms(15), Span::from_millis(15), ms(44)), ms(45));
    let mut pie = pie(PieConfig::default());
    let asleep = pie.clone();
    for _ in 0..5 {
        pie.update();
    }
    assert_eq!(
        (pie.state.drop_prob, pie.state.qdelay_old, pie.state.burst_allowance),
        (0.0, asleep.state.qdelay_old, Span::ZERO)
    );
}

#[test]
fn on_demand_a_third_of_the_limit_turns_it_on_and_quiet_off() {
    let config = PieConfig { on_demand: true, limit: Limit::Packets(90), ..PieConfig::default() };
    let mut pie = pie(config);
    let queue = |packets| Backlog { packets, bytes: 1000 * u64::from(packets) };
    arrive(&mut pie, Ecn::NotEct, queue(28), ms(1000));
    assert!(!pie.active && pie.timer_at().is_none());
    arrive(&mut pie, Ecn::NotEct, queue(29), ms(1002));
    assert!(pie.active, "it is the thirtieth");
    assert_eq!((pie.timer_at(), pie.state.burst_allowance), (Some(ms(1017)), Span::from_millis(150)));
    let p = updated(&mut pie, 40, 20);
    assert!(p[19] > 0.0 && pie.active);
    while pie.timer_at().is_some() {
        updated(&mut pie, 1, 1);
    }
    assert!(!pie.active && pie.state.drop_prob == 0.0);
}

#[test]
fn the_rate_of_departures_gives_the_delay() {
    let config = PieConfig { estimator: DelayEstimator::DepartureRate, ..PieConfig::default() };
    let mut pie = pie(config);
    // One packet of 1000 bytes each millisecond: 17 of them are the first to reach 16384 bytes.
    arrive(&mut pie, Ecn::NotEct, LONG, ms(0));
    for millis in 1..=60 {
        pie.on_departure(&Packet::new(0, FlowId(0), 1000), LONG, ms(millis));
    }
    assert_eq!(pie.rate.average, Span::from_millis(17));
    pie.update();
    assert_eq!(pie.state.current_qdelay.as_nanos(), 50_000 * 17_000_000 / 16_384);
    // At half the rate the average moves by a quarter each time.
    assert_eq!(averaged(Span::from_millis(17), Span::from_millis(34), 16_384), Span::from_micros(21_250));
    assert_eq!(averaged(Span::ZERO, Span::from_millis(34), 16_384), Span::from_millis(34));
}

#[test]
fn sources_that_answer_settle_at_the_target() {
    for estimator in [DelayEstimator::Timestamps, DelayEstimator::DepartureRate] {
        // 1.5 times the link, less 2.5 for the probability: one at 0.2.
        let law = PieLawConfig { mark_ecnth: 1.0, ..PieLawConfig::default() };
        let config = PieConfig { law, estimator, ..PieConfig::default() };
        let mut fifo = Fifo::new(pie(config));
        let settled = settle(&mut fifo, Some("marking_probability"), 60, |p| 1.5 - 2.5 * p);
        assert!((settled.signal - 0.2).abs() < 0.005, "{settled:?}");
        // The head has waited for what is before it: 15 packets of a millisecond each.
        assert!(
            (settled.queue - 15.0).abs() < 1.5 && settled.load > 0.99 && settled.dropped == 0,
            "{settled:?}"
        );
    }
}

#[test]
fn a_limit_below_the_target_is_refused() {
    let said = |config: PieConfig| {
        let mut keys = Vec::new();
        config.check(&mut Report::new(&mut |path, _, _| keys.push(String::from(path[0]))));
        keys
    };
    let default = PieConfig::default();
    assert!(said(default).is_empty());
    assert_eq!(said(PieConfig { limit: Limit::Time(Span::from_millis(15)), ..default }), ["limit"]);
    let rate = PieConfig { estimator: DelayEstimator::DepartureRate, ..default };
    assert_eq!(said(PieConfig { dq_threshold: Bytes::new(65_537), ..rate }), ["dq_threshold"]);
    assert!(said(PieConfig { dq_threshold: Bytes::new(65_536), ..rate }).is_empty());
    assert_eq!(said(PieConfig { dq_threshold: Bytes::new(65_536), ..default }), ["dq_threshold"]);
    let law = PieLawConfig { alpha: -0.1, beta: f64::NAN, ..default.law };
    assert_eq!(said(PieConfig { law, ..default }), ["alpha", "beta"]);
}

proptest! {
    #[test]
    fn any_arrivals_keep_the_limit_and_the_probability(
        vector in arrivals(3, 300), limit in 1u32..40, target in 1u64..100, t_update in 10u64..1000,
        gain in 0.1..1e5f64, burst in 0u64..200, switches: [bool; 5],
    ) {
        let [by_rate, on_demand, derandomize, by_size, ecn] = switches;
        let config = PieConfig {
            law: PieLawConfig {
                target: Span::from_micros(target),
                t_update: Span::from_micros(t_update),
                alpha: gain,
                beta: 10.0 * gain,
                max_burst: Span::from_micros(burst),
                derandomize, by_size, ecn,
                ..PieLawConfig::default()
            },
            limit: Limit::Packets(limit),
            estimator: if by_rate { DelayEstimator::DepartureRate } else { DelayEstimator::Timestamps },
            dq_threshold: Bytes::new(3000),
            on_demand,
        };
        let mut fifo = Fifo::new(pie(config));
        let run = drive(&mut fifo, &vector, 8, |waiting| assert!(waiting.packets <= limit));
        let probability = fifo.variable("marking_probability").expect("it has one");
        prop_assert!((0.0..=1.0).contains(&probability));
        prop_assert!(run.out.marks.is_empty(), "nothing here can carry a mark");
        let mut out = Counted::default();
        while let Some(at) = fifo.timer_at() {
            fifo.on_timer(at, &mut out);
        }
        prop_assert_eq!(fifo.variable("marking_probability"), Some(0.0), "without traffic it ends");
    }
}
