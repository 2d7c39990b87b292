//! Controls of the present Internet against independent implementations in Python: the same acknowledgments, losses, echoes and silences
//! give the same windows, and recovery in proportion sends as many segments after each acknowledgment.
//!
//! Source: tests/oracle/python/README.md; tests/oracle/verdicts/controls.json, which those scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::tcp::congestion::{
    Ack, AnyCongestionControl, Congestion, CongestionControl, CongestionControlConfig, CopaConfig,
    LedbatConfig, RenoConfig, Sample, ScalableConfig, Signal, VegasConfig, VegasForm, WestwoodConfig,
};
use tidegate_mechanism::tcp::{TcpConfig, TcpSender, Variant};
use tidegate_packet::{SackBlock, SackBlocks, TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

const SEGMENT: u64 = 1000;

fn frozen() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts/controls.json");
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list"))
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn control(name: &str) -> CongestionControlConfig {
    let reno = RenoConfig::default();
    let vegas = |form| CongestionControlConfig::Vegas(VegasConfig { form, ..VegasConfig::default() });
    let copa =
        |competitive| CongestionControlConfig::Copa(CopaConfig { competitive, ..CopaConfig::default() });
    match name {
        "scalable" => CongestionControlConfig::Scalable(ScalableConfig::default()),
        "westwood" => CongestionControlConfig::Westwood(WestwoodConfig::default()),
        "vegas_paper" => vegas(VegasForm::Paper),
        "vegas_linux" => vegas(VegasForm::Linux),
        "ledbat" => CongestionControlConfig::Ledbat(LedbatConfig::default()),
        "copa" => copa(true),
        "copa_quiet" => copa(false),
        "reno_abe" => CongestionControlConfig::Reno(RenoConfig { ecn_beta: Some(0.8), ..reno }),
        "reno_hystart" => CongestionControlConfig::Reno(RenoConfig { hystart: true, ..reno }),
        _ => panic!("{name} is no control"),
    }
}

fn modern() -> TcpConfig {
    TcpConfig { segment_bytes: SEGMENT as u32, ..TcpConfig::modern(Variant::Sack) }
}

/// What follows from the events.
struct World {
    control: AnyCongestionControl,
    now: Time,
    acknowledgment: u64,
    srtt: i64,
}

impl World {
    fn ack(&mut self, event: &[Value]) {
        let (acked, rtt, flight_bytes) = (whole(&event[2]) * SEGMENT, whole(&event[4]), whole(&event[5]));
        let bits = whole(&event[6]);
        if rtt > 0 {
            let rtt = rtt.cast_signed();
            self.srtt = if self.srtt == 0 { rtt } else { self.srtt + (rtt - self.srtt).div_euclid(8) };
        }
        self.acknowledgment += acked;
        let sample = Sample {
            opens_window: bits & 1 > 0,
            is_in_recovery: bits & 2 > 0,
            delivered_bytes: whole(&event[3]) * SEGMENT,
            delivered_total_bytes: 0,
            lost_bytes: 0,
            marked_bytes: 0,
            in_flight_before_bytes: flight_bytes,
            in_flight_bytes: flight_bytes,
            sent_until: self.acknowledgment + flight_bytes,
            rtt: (rtt > 0).then(|| Span::from_nanos(rtt)),
            rate: None,
        };
        if self.control.sampling() == tidegate_mechanism::tcp::congestion::Sampling::OpeningAcks
            && !sample.opens_window
        {
            return;
        }
        let ack = Ack {
            acknowledgment: self.acknowledgment,
            acked_bytes: acked,
            flight_bytes,
            srtt: Span::from_nanos(self.srtt.cast_unsigned()),
            sample: Some(sample),
        };
        self.control.on_ack(&ack, self.now);
    }

    fn congestion(&mut self, signal: Signal, flight_bytes: u64) {
        let event = Congestion {
            signal,
            sequence: self.acknowledgment,
            echoed: None,
            window_bytes: flight_bytes,
            flight_bytes,
            repeated: false,
            srtt: Span::from_nanos(self.srtt.cast_unsigned()),
            rto: Span::from_secs(1),
        };
        self.control.on_congestion(&event, self.now);
    }
}

#[test]
fn windows_are_those_of_the_references() {
    let (frozen, mut seen) = (frozen(), 0);
    for case in items(&frozen, "cases") {
        let name = case["control"].as_str().expect("a name");
        let control = control(name).build(&modern());
        let mut world = World { control, now: Time::ZERO, acknowledgment: 0, srtt: 0 };
        for (event, row) in items(case, "events").iter().zip(items(case, "rows")) {
            let event = event.as_array().expect("a list");
            world.now += Span::from_nanos(whole(&event[1]));
            let flight_bytes = whole(&event[5]);
            match event[0].as_str().expect("a kind") {
                "ack" => world.ack(event),
                "recovered" => world.control.on_recovered(flight_bytes, world.now),
                "loss" => world.congestion(Signal::Loss, flight_bytes),
                "echo" => world.congestion(Signal::EcnEcho, flight_bytes),
                "timeout" => world.congestion(Signal::Timeout, flight_bytes),
                "idle" => world.congestion(Signal::Idle, flight_bytes),
                kind => panic!("{kind}"),
            }
            let ours = world.control.variable("cwnd_segments").expect("a window");
            let theirs = row.as_f64().expect("a number");
            let at = format!("{name}, event {seen} at {:?}: {event:?}", world.now);
            assert!((ours - theirs).abs() <= 1e-7 * theirs, "{at}: {ours}, not {theirs}");
            seen += 1;
        }
    }
    assert!(seen >= 9 * 3 * 1000, "all frozen events were replayed: {seen}");
}

/// A window of segments was sent, some are lost, and each of the others is acknowledged at once.
#[test]
fn recovery_in_proportion_sends_as_many_segments_after_each_acknowledgment_as_the_reference() {
    let (frozen, mut reductions) = (frozen(), 0);
    for case in items(&frozen, "prr") {
        let window = whole(&case["window"]);
        let config = TcpConfig {
            initial_window_segments: window as u32,
            initial_ssthresh_bytes: Some(window * SEGMENT),
            prr: true,
            ..modern()
        };
        let mut sender = TcpSender::new(&config);
        sender.set_unlimited();
        let mut now = Time::ZERO;
        let count = |of: &mut TcpSender, at| std::iter::from_fn(|| of.poll_transmit(at)).count() as u64;
        assert_eq!(count(&mut sender, now), window);
        let lost: Vec<u64> = items(case, "lost").iter().map(whole).collect();
        let arrived: Vec<u64> = (0..window).filter(|number| !lost.contains(number)).collect();
        let mut theirs = items(case, "sent").iter().map(whole);
        now += Span::from_millis(100);
        for (index, number) in arrived.iter().enumerate() {
            now += Span::from_millis(1);
            let next = lost.iter().copied().find(|lost| *lost <= *number).unwrap_or(number + 1);
            // The range around what came, which is all that is news.
            let held = &arrived[..=index];
            let mut start = *number;
            while start > next && held.contains(&(start - 1)) {
                start -= 1;
            }
            let mut sack = SackBlocks::default();
            if *number >= next {
                let offset = ((start - next) * SEGMENT) as u32;
                sack.push(SackBlock { offset, length: ((number + 1 - start) * SEGMENT) as u32 });
            }
            let header = TcpHeader {
                acknowledgment: next * SEGMENT,
                flags: TcpFlags::ACK,
                window_bytes: config.receive_window_bytes,
                sack,
                ..TcpHeader::default()
            };
            sender.on_ack(&header, now);
            let (ours, theirs) = (count(&mut sender, now), theirs.next().expect("a row for each"));
            assert_eq!(ours, theirs, "window {window}, lost {lost:?}: behind {number}");
        }
        reductions += sender.counters().fast_retransmits;
    }
    assert!(reductions > 50, "{reductions} recoveries are many");
}
