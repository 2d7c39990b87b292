//! The course over time of CUBIC's window, of DCTCP's alpha, and of what BBR takes for rate and round trip, beside ns-3's.
//!
//! Source: tests/oracle/ns3/README.md; its frozen outputs, which ns-3 made.
//! Deviations: where a cycle repeats itself, its beginnings are laid upon each other: when slow start ends decides all that follows.

use crate::common::drop_tail;
use crate::ns3_controls::{as_linux, step};
use crate::ns3_dumbbell::{self as dumbbell, Measured, is_within, number, packets, tcp, variable};
use crate::ns3_queues::sharing_tcp;
use serde_json::Value;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, DctcpConfig};
use tidegate_mechanism::tcp::{EcnFeedback, TcpConfig};
use tidegate_units::Span;

fn case_of(control: &str) -> Value {
    let mut cases = dumbbell::cases("series.json", |settings| settings["control"] == control);
    assert_eq!(cases.len(), 1);
    cases.remove(0)
}

/// Values each second, here and there.
fn per_second(case: &Value) -> u32 {
    1000 / case["settings"]["series_ms"].as_u64().expect("a number") as u32
}

fn of_peer(case: &Value, name: &str) -> Vec<f64> {
    case["results"][0]["series"][name].as_array().expect("a series").iter().map(number).collect()
}

/// What ours measures, and the values of its variables at the same instants.
fn of_ours<const N: usize>(
    case: &Value,
    tcp: &TcpConfig,
    queue: DisciplineConfig,
    names: [&str; N],
) -> (Measured, [Vec<f64>; N]) {
    let mut series = [const { Vec::new() }; N];
    let measured = dumbbell::run(case, tcp, queue, &[Span::ZERO], per_second(case), |simulation| {
        for (values, name) in series.iter_mut().zip(names) {
            values.push(variable(simulation, name).expect("a variable of this control"));
        }
    });
    (measured, series)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The root of the mean square of the differences, as a part of the mean of theirs.
fn difference(ours: &[f64], theirs: &[f64]) -> f64 {
    let squares: Vec<_> = ours.iter().zip(theirs).map(|(a, b)| (a - b) * (a - b)).collect();
    mean(&squares).sqrt() / mean(theirs)
}

fn deviation(values: &[f64]) -> f64 {
    difference(values, &vec![mean(values); values.len()]) * mean(values)
}

/// What a sawtooth does: reductions, of which each second one follows a longer stage (fast convergence).
#[derive(Debug)]
struct Sawtooth {
    /// Of two stages, in seconds.
    period: f64,
    peak: f64,
    trough: f64,
    /// The index at which the first long stage of the series begins.
    long_stage: usize,
}

fn sawtooth(window: &[f64], per_second: u32) -> Sawtooth {
    // A reduction is spread over a round trip, of up to two values: what it finds and leaves is the most before and the least behind.
    let falls = |i: usize| window[i] < 0.92 * window[i - 1];
    let starts: Vec<_> = (3..window.len() - 3).filter(|&i| falls(i) && !falls(i - 1)).collect();
    assert!(starts.len() >= 5, "{starts:?}");
    let least = |i: &usize| window[*i..i + 3].iter().copied().fold(f64::INFINITY, f64::min);
    let most = |i: &usize| window[*i - 3..*i].iter().copied().fold(0.0, f64::max);
    let cycles: Vec<_> = starts.windows(3).map(|of| (of[2] - of[0]) as f64 / f64::from(per_second)).collect();
    let stage = |of: &[usize]| of[1] - of[0];
    let is_second = stage(&starts[1..3]) > stage(&starts[..2]);
    Sawtooth {
        period: mean(&cycles),
        peak: mean(&starts.iter().map(most).collect::<Vec<_>>()),
        trough: mean(&starts.iter().map(least).collect::<Vec<_>>()),
        long_stage: starts[usize::from(is_second)],
    }
}

/// A row of the page.
fn row(what: &str, theirs: f64, ours: f64, digits: usize) -> String {
    format!("| {what} | {theirs:.digits$} | {ours:.digits$} | {:.3} |", ours / theirs)
}

#[test]
fn cubics_window_has_the_sawtooth_of_ns3() {
    let case = case_of("cubic");
    let settings = &case["settings"];
    let (measured, [ours]) =
        of_ours(&case, &sharing_tcp(settings), drop_tail(packets(settings)), ["cwnd_segments"]);
    let theirs = of_peer(&case, "window_segments");
    let per_second = per_second(&case);
    let (our_saw, their_saw) = (sawtooth(&ours, per_second), sawtooth(&theirs, per_second));
    // 30 s: two cycles, less what they differ in length.
    let part = |of: &[f64], from: usize| of[from..from + 30 * per_second as usize].to_vec();
    let apart = difference(&part(&ours, our_saw.long_stage), &part(&theirs, their_saw.long_stage));
    let peer = Measured::of_peer(&case);
    let rows = [
        row("CUBIC: throughput, Mb/s", peer.throughput_mbps, measured.throughput_mbps, 2),
        row("CUBIC: mean queue, packets", peer.queue_packets, measured.queue_packets, 1),
        row("CUBIC: period of two stages, s", their_saw.period, our_saw.period, 2),
        row("CUBIC: window before a loss, segments", their_saw.peak, our_saw.peak, 1),
        row("CUBIC: window behind it, segments", their_saw.trough, our_saw.trough, 1),
        format!("| CUBIC: root mean square of the difference over 30 s, part of the mean | | {apart:.3} | |"),
    ];
    println!("{}\n{our_saw:?}\n{their_saw:?}", rows.join("\n"));
    assert!(is_within(measured.throughput_mbps, peer.throughput_mbps, 0.01));
    assert!(is_within(measured.queue_packets, peer.queue_packets, 0.05));
    assert!(is_within(our_saw.period, their_saw.period, 0.05));
    assert!(is_within(our_saw.peak, their_saw.peak, 0.02));
    assert!(is_within(our_saw.trough, their_saw.trough, 0.02));
    assert!(apart < 0.05);
    dumbbell::assert_on_page(&rows);
}

#[test]
fn dctcps_alpha_has_the_mean_and_the_swing_of_ns3() {
    let case = case_of("dctcp");
    let settings = &case["settings"];
    let control = CongestionControlConfig::Dctcp(DctcpConfig::default());
    let tcp =
        TcpConfig { ecn: true, ecn_feedback: EcnFeedback::Dctcp, gradual_reduction: true, ..tcp(control) };
    let queue = step(number(&settings["threshold"]), packets(settings));
    let (_, [alpha]) = of_ours(&case, &tcp, queue, ["alpha"]);
    let their_alpha = of_peer(&case, "alpha");
    let rows = [
        row("DCTCP: mean of alpha", mean(&their_alpha), mean(&alpha), 4),
        row("DCTCP: standard deviation of alpha", deviation(&their_alpha), deviation(&alpha), 4),
    ];
    println!("{}", rows.join("\n"));
    assert!(is_within(mean(&alpha), mean(&their_alpha), 0.05));
    assert!(is_within(deviation(&alpha), deviation(&their_alpha), 0.2));
    dumbbell::assert_on_page(&rows);
}

#[test]
fn bbr_takes_the_same_rate_and_round_trip_for_the_paths_as_ns3() {
    let case = case_of("bbr");
    let queue = drop_tail(packets(&case["settings"]));
    let control = CongestionControlConfig::Bbr(as_linux());
    let (_, [rate, round_trip]) = of_ours(&case, &tcp(control), queue, ["btlbw_bps", "rtprop_s"]);
    let rate: Vec<_> = rate.iter().map(|bps| bps / 1e6).collect();
    let round_trip: Vec<_> = round_trip.iter().map(|seconds| seconds * 1e3).collect();
    let (their_rate, their_round_trip) = (of_peer(&case, "rate_mbps"), of_peer(&case, "min_rtt_ms"));
    // ns-3 takes the round trip of the handshake, whose packets are small, and forgets it after 10 s; the series begins after 1 s.
    let forgotten = 10 * per_second(&case) as usize;
    let [handshake, ours] = [&round_trip[..forgotten * 9 / 10], &round_trip[forgotten..]];
    let [their_handshake, theirs] = [&their_round_trip[..forgotten * 9 / 10], &their_round_trip[forgotten..]];
    let rows = [
        row("BBR: mean rate of the bottleneck, Mb/s", mean(&their_rate), mean(&rate), 3),
        row("BBR: least round trip from 1 to 10 s, ms", mean(their_handshake), mean(handshake), 2),
        row("BBR: least round trip from 11 to 31 s, ms", mean(theirs), mean(ours), 2),
    ];
    println!("{}", rows.join("\n"));
    assert!(difference(&rate, &their_rate) < 0.005);
    assert!(difference(handshake, their_handshake) < 0.035);
    assert!(difference(ours, theirs) < 0.005);
    dumbbell::assert_on_page(&rows);
}
