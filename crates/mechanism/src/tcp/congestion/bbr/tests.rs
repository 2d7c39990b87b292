use super::*;

use crate::tcp::config::{TcpConfig, Variant};

const SEGMENT: u64 = 1460;
/// Ten segments in a round trip of 10 ms.
const RATE: f64 = 1000.0 * SEGMENT as f64;

fn bbr() -> Bbr {
    BbrConfig::default().build(&TcpConfig::modern(Variant::Sack))
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// The acknowledgment of one segment at the start of round `round`, at a delivery rate and with so many segments under way.
fn round(control: &mut Bbr, round: u64, rate: f64, in_flight: u64, change: impl FnOnce(&mut Sample)) {
    let total = round * 10 * SEGMENT;
    let mut sample = Sample {
        opens_window: true,
        is_in_recovery: false,
        delivered_bytes: SEGMENT,
        delivered_total_bytes: total,
        lost_bytes: 0,
        marked_bytes: 0,
        in_flight_before_bytes: (in_flight + 1) * SEGMENT,
        in_flight_bytes: in_flight * SEGMENT,
        sent_until: total + 10 * SEGMENT,
        rtt: Some(Span::from_millis(10)),
        rate: Some(RateSample {
            delivered_bytes: (rate / 100.0) as u64,
            interval: Span::from_millis(10),
            prior_delivered_bytes: total - 10 * SEGMENT,
            sent_at: Time::ZERO,
            sent_in_flight_bytes: (in_flight + 1) * SEGMENT,
            lost_bytes: 0,
            is_app_limited: false,
        }),
    };
    change(&mut sample);
    let ack = Ack {
        acknowledgment: total,
        acked_bytes: SEGMENT,
        flight_bytes: in_flight * SEGMENT,
        srtt: Span::from_millis(10),
        sample: Some(sample),
    };
    control.on_ack(&ack, ms(11 * round));
}

/// In `PROBE_BW`, after some rounds at the rate.
fn probing() -> (Bbr, u64) {
    let mut control = bbr();
    for number in 1..=8 {
        round(&mut control, number, RATE, 10, |_| ());
    }
    assert_eq!(control.state(), BbrState::ProbeBw);
    (control, 9)
}

#[test]
fn who_begins_late_does_not_look_for_the_round_trip_first() {
    let mut control = bbr();
    round(&mut control, 5000, RATE, 10, |_| ());
    assert_eq!(control.state(), BbrState::Startup, "55 s after the world began");
}

#[test]
fn the_start_ends_when_three_rounds_no_longer_raise_the_rate_by_a_quarter() {
    let mut control = bbr();
    for number in 1..=4 {
        round(&mut control, number, RATE * number as f64, 20, |_| ());
        assert_eq!(control.state(), BbrState::Startup);
    }
    for number in 5..=6 {
        round(&mut control, number, RATE * 4.2, 100, |_| ());
        assert_eq!(control.state(), BbrState::Startup);
    }
    round(&mut control, 7, RATE * 4.2, 100, |_| ());
    assert_eq!(control.state(), BbrState::Drain);
    assert!(control.pacing_gain < 0.35, "{}", control.pacing_gain);
    round(&mut control, 8, RATE * 4.2, 45, |_| ());
    assert_eq!(control.state(), BbrState::ProbeBw, "42 segments and three are a full pipe");
}

#[test]
fn a_rate_limited_by_the_application_neither_lowers_the_model_nor_ends_the_start() {
    let mut control = bbr();
    round(&mut control, 1, RATE, 10, |_| ());
    for number in 2..40 {
        round(&mut control, number, RATE / 2.0, 1, |sample| {
            sample.rate.as_mut().expect("a rate").is_app_limited = true;
        });
    }
    assert_eq!((control.state(), control.btlbw.get()), (BbrState::Startup, RATE));
}

#[test]
fn the_gains_go_around_in_eight_round_trips_and_their_mean_is_one() {
    let (mut control, first) = probing();
    let mut gains = [0.0; 16];
    for (number, gain) in (first..).zip(&mut gains) {
        round(&mut control, number, RATE, 16, |_| ());
        *gain = control.pacing_gain;
    }
    assert_eq!(gains[..8], gains[8..]);
    assert_eq!(gains[..8].iter().sum::<f64>(), 8.0);
    let up = gains.iter().position(|gain| *gain == 1.25).expect("it probes");
    assert_eq!(gains[(up + 1) % 8], 0.75);
}

#[test]
fn a_full_pipe_keeps_two_products_and_three_segments_under_way() {
    let (mut control, first) = probing();
    (first..first + 20).for_each(|number| round(&mut control, number, RATE, 20, |_| ()));
    assert_eq!(control.cwnd_bytes(), 23 * SEGMENT);
    assert_eq!(control.variable("btlbw_bps"), Some(RATE * 8.0));
    assert_eq!(control.variable("rtprop_s"), Some(0.01));
}

#[test]
fn after_ten_seconds_four_segments_are_left_for_200_ms_and_then_the_window_is_back() {
    let (mut control, first) = probing();
    let mut number = first;
    while control.state() != BbrState::ProbeRtt {
        round(&mut control, number, RATE, 20, |sample| sample.rtt = Some(Span::from_millis(12)));
        number += 1;
    }
    assert!((917..=920).contains(&number), "10 s of 11 ms: {number}");
    assert_eq!(control.cwnd_bytes(), 4 * SEGMENT);
    let began = number;
    while control.state() == BbrState::ProbeRtt {
        round(&mut control, number, RATE / 3.0, 4, |sample| sample.rtt = Some(Span::from_millis(11)));
        number += 1;
    }
    assert!((18..=21).contains(&(number - began)), "{}", number - began);
    assert_eq!(
        (control.cwnd_bytes(), control.btlbw.get()),
        (24 * SEGMENT, RATE),
        "with the round trip of 12 ms, less"
    );
}

fn congestion(signal: Signal, bytes: u64) -> Congestion {
    Congestion {
        signal,
        sequence: 0,
        echoed: None,
        window_bytes: bytes,
        flight_bytes: bytes,
        repeated: false,
        srtt: Span::from_millis(10),
        rto: Span::from_millis(300),
    }
}

#[test]
fn a_loss_conserves_packets_for_a_round_trip_and_the_window_is_back_with_its_repair() {
    let (mut control, first) = probing();
    (first..first + 20).for_each(|number| round(&mut control, number, RATE, 20, |_| ()));
    let before = control.cwnd_bytes();
    let event = congestion(Signal::Loss, before);
    control.on_congestion(&event, Time::ZERO);
    let next = first + 20;
    let repairing = |sample: &mut Sample| sample.is_in_recovery = true;
    round(&mut control, next, RATE, 15, repairing);
    assert_eq!(control.cwnd_bytes(), 16 * SEGMENT);
    round(&mut control, next + 1, RATE, 15, repairing);
    assert_eq!(control.cwnd_bytes(), 17 * SEGMENT, "it grows again");
    // One that begins where this one ends goes on with it.
    control.on_congestion(&event, Time::ZERO);
    round(&mut control, next + 2, RATE, 15, repairing);
    assert_eq!(control.cwnd_bytes(), 18 * SEGMENT);
    round(&mut control, next + 3, RATE, 15, |_| ());
    assert_eq!(control.cwnd_bytes(), before);
    control.on_congestion(&Congestion { signal: Signal::EcnEcho, ..event }, Time::ZERO);
    assert_eq!(control.cwnd_bytes(), before, "marks mean nothing to it");
    control.on_congestion(&Congestion { signal: Signal::Timeout, ..event }, Time::ZERO);
    assert_eq!(control.cwnd_bytes(), SEGMENT);
}

/// A probe repairs a loss of which only its acknowledgment tells.
#[test]
fn a_recovery_that_ends_with_the_acknowledgment_that_begins_it_leaves_the_window_as_it_was() {
    let (mut control, first) = probing();
    (first..first + 20).for_each(|number| round(&mut control, number, RATE, 20, |_| ()));
    let before = control.cwnd_bytes();
    control.on_congestion(&congestion(Signal::Loss, before), Time::ZERO);
    round(&mut control, first + 20, RATE, 5, |_| ());
    assert_eq!(control.cwnd_bytes(), before);
    // The next one is one of its own.
    control.on_congestion(&congestion(Signal::Loss, before), Time::ZERO);
    round(&mut control, first + 21, RATE, 15, |sample| sample.is_in_recovery = true);
    assert_eq!(control.cwnd_bytes(), 16 * SEGMENT);
}

#[test]
fn behind_a_time_out_four_segments_may_go_whatever_an_acknowledgment_says() {
    let (mut control, number) = probing();
    control.on_congestion(&congestion(Signal::Timeout, 10 * SEGMENT), ms(100));
    assert_eq!(control.cwnd_bytes(), SEGMENT);
    round(&mut control, number, RATE, 0, |sample| {
        // What was sent again had arrived before.
        (sample.is_in_recovery, sample.delivered_bytes, sample.rate) = (true, 0, None);
    });
    assert_eq!(control.cwnd_bytes(), 4 * SEGMENT);
}

#[test]
fn flows_begin_the_cycle_in_every_phase_but_the_one_that_drains() {
    let mut seen = [0; 8];
    for nanos in 0..7000 {
        let mut control = bbr();
        control.enter_probe_bw(Time::from_nanos(nanos));
        seen[control.cycle_index] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, count)| phase == 1 || *count > 850), "{seen:?}");
}

#[test]
fn segments_go_in_pairs_from_1_2_megabits_on_and_in_milliseconds_from_24_on() {
    let config = BbrConfig { aggregates: true, ..BbrConfig::default() };
    let mut bbr = config.build(&TcpConfig::modern(Variant::Sack));
    for (mbps, quantum) in [(1.1, 1), (1.3, 2), (23.0, 2), (100.0, 8), (10_000.0, 44)] {
        bbr.pacing_rate = mbps * 1e6 / 8.0;
        assert_eq!(bbr.quantum_segments(), quantum, "{mbps}");
    }
    // 1.46 ms for each of a pair at 8 Mb/s.
    bbr.pacing_rate = 1e6;
    let pair = |number| Segment { payload_bytes: 1460, ..Segment::for_tests(number) };
    bbr.on_send(&pair(0), Time::ZERO);
    assert_eq!(bbr.may_send(0, 1460, Time::ZERO), Permission::Now);
    bbr.on_send(&pair(1), Time::ZERO);
    assert_eq!(bbr.may_send(0, 1460, Time::ZERO), Permission::At(Time::ZERO + Span::from_micros(2920)));
}

/// The window of Linux: whole segments, and an even number of them.
#[test]
fn a_window_in_whole_segments_is_rounded_up_to_an_even_number() {
    let config = BbrConfig { whole_segments: true, probe_segments: 1, ..BbrConfig::default() };
    let mut bbr = config.build(&TcpConfig::modern(Variant::Sack));
    bbr.rtprop = Some(Span::from_millis(10));
    // Three segments beyond the product, and one where it probes.
    for (segments, window) in [(10.0, 14), (10.2, 14), (11.0, 14), (11.2, 16)] {
        bbr.btlbw = MaxOfRounds::default();
        bbr.btlbw.update(1, segments * 100.0 * SEGMENT as f64);
        assert_eq!(bbr.inflight(bbr.bw(), 1.0, 0), window * SEGMENT, "{segments}");
    }
    let more = bbr.inflight(bbr.bw(), 1.0, 2 * SEGMENT + 10);
    assert_eq!(more, 18 * SEGMENT, "what is more is rounded with the rest: 12, 2 and 3");
    bbr.state = BbrState::ProbeBw;
    assert_eq!(bbr.inflight(bbr.bw(), 1.0, 0), 17 * SEGMENT);
}

/// A third is lost, and 0.9 of the largest rate arrives, in rounds of eleven milliseconds with ten segments each.
#[test]
fn what_a_policer_lets_through_is_the_rate_and_no_gain_looks_for_more() {
    for policers in [false, true] {
        let config = BbrConfig { policers, ..BbrConfig::default() };
        let mut control = config.build(&TcpConfig::modern(Variant::Sack));
        for number in 1..=8 {
            round(&mut control, number, RATE, 10, |_| ());
        }
        let mut gains = [0.0; 30];
        for (number, gain) in (9..).zip(&mut gains) {
            round(&mut control, number, RATE, 10, |sample| sample.lost_bytes = 4 * SEGMENT);
            *gain = control.pacing_gain;
        }
        let believed = gains[10..].iter().all(|gain| *gain == 1.0);
        assert_eq!(believed, policers, "{gains:?}");
        let part = control.bw() / RATE;
        assert!((part - if policers { 10.0 / 11.0 } else { 1.0 }).abs() < 1e-3, "{part}");
        // 48 round trips later it looks for more again.
        for number in 39..79 {
            round(&mut control, number, RATE, 10, |_| ());
        }
        assert_eq!(control.bw(), RATE);
    }
}

/// At 1 MB/s a segment takes 1.46 ms; one that goes 2 ms late lets the next go after half of that.
#[test]
fn one_that_goes_late_lets_the_next_go_sooner() {
    for (makes_up, wait) in [(false, 1460), (true, 730)] {
        let config = BbrConfig { makes_up, ..BbrConfig::default() };
        let mut bbr = config.build(&TcpConfig::modern(Variant::Sack));
        bbr.pacing_rate = 1e6;
        let segment = |number| Segment { payload_bytes: 1460, ..Segment::for_tests(number) };
        bbr.on_send(&segment(0), Time::ZERO);
        let late = Time::ZERO + Span::from_micros(3460);
        bbr.on_send(&segment(1), late);
        assert_eq!(bbr.may_send(0, 1460, late), Permission::At(late + Span::from_micros(wait)), "{makes_up}");
    }
}

#[test]
fn who_resumes_sends_at_the_rate_and_does_not_look_for_the_round_trip_at_once() {
    for resumes in [false, true] {
        let (mut control, number) = probing();
        control.rtprop_stamp = Time::ZERO;
        let now = number + 1000;
        if resumes {
            control.on_resume(Span::from_millis(10), ms(11 * now));
            assert!((control.pacing_rate / RATE - 1.0).abs() < 1e-9, "{}", control.pacing_rate);
        }
        round(&mut control, now, RATE, 10, |sample| sample.rtt = Some(Span::from_millis(11)));
        assert_eq!(control.state() != BbrState::ProbeRtt, resumes);
    }
}
