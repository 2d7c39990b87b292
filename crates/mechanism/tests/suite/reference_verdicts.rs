//! RED and what is made of it, BLUE, FRED, SFB, DRR, SFQ, CBQ and CSFQ against independent implementations in Python: the same
//! arrivals and random numbers, and for every packet the same mark, the same fate and the same instant.
//!
//! Source: tests/oracle/python/README.md, which also states the conventions; tests/oracle/verdicts/*.json, which those
//! scripts made.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::meter::CsfqLabellerConfig;
use tidegate_mechanism::queue::sfb::{BinsBegin, SfbHash, SfbLaw};
use tidegate_mechanism::queue::{
    AdaptiveRedConfig, BlueConfig, Counted, CsfqConfig, DropTailConfig, EredConfig, Fifo, Flavor, FredConfig,
    FredVariant, FreezeTimers, GapLaw, ManagerConfig, QueueDiscipline, QueueUnit, RedConfig,
    RedPenaltyBoxConfig, SfbConfig, Victim,
};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::schedule::{
    BinHash, CbqClassConfig, CbqConfig, Classification, DrrConfig, LinkSharing, SfqConfig,
};
use tidegate_packet::{DropReason, Dscp, Ecn, FlowId, MarkReason, Packet, RateLabel, Sink};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

const NANOS_PER_BYTE: u64 = 800;
const WATCHED_EVERY: usize = 25;

fn context() -> Context {
    Context { seed: Seed(7), link_rate: BitRate::from_mbps(10), mtu_bytes: 1500 }
}

fn frozen(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/oracle/verdicts/{name}.json"));
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

fn real(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is a number"))
}

fn whole(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} is a whole number"))
}

fn limit(config: &Value) -> Limit {
    limit_of(&config["limit"])
}

fn limit_of(text: &Value) -> Limit {
    let most = text[1].as_u64().expect("a limit is a number");
    match text[0].as_str() {
        Some("packets") => Limit::Packets(u32::try_from(most).expect("few packets")),
        _ => Limit::Bytes(Bytes::new(most)),
    }
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list"))
}

/// The arrivals of a case: time and packet, its number in `slot`.
fn arrivals(case: &Value, vectors: &Value) -> Vec<(Time, Packet)> {
    let vector = items(&vectors["vectors"], case["vector"].as_str().expect("a vector has a name"));
    let mut now = Time::ZERO;
    let number = |arrival: &Value, at: usize| arrival[at].as_u64().expect("arrivals are whole numbers");
    vector
        .iter()
        .enumerate()
        .map(|(slot, arrival)| {
            now += Span::from_nanos(number(arrival, 0));
            let flow = FlowId(number(arrival, 1) as u32);
            let mut packet = Packet::new(slot as u32, flow, number(arrival, 2) as u32);
            packet.ecn = if number(arrival, 3) == 1 { Ecn::Ect0 } else { Ecn::NotEct };
            packet.arrived = now;
            (now, packet)
        })
        .collect()
}

/// What became of each packet, as the references write it.
struct Outcomes {
    now: Time,
    marks: Vec<Option<MarkReason>>,
    fates: Vec<String>,
    labels: Vec<u32>,
}

impl Sink for Outcomes {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.fates[packet.slot as usize] = format!("d-{} {}", why.name(), self.now.as_nanos());
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.marks[packet.slot as usize] = Some(why);
    }
}

/// One link that is served before an arrival at the same instant; what `variable` was after every 25th arrival.
fn run(
    discipline: &mut impl QueueDiscipline,
    arrivals: &[(Time, Packet)],
    variable: &str,
) -> (Outcomes, Vec<f64>) {
    let packets = arrivals.len();
    let mut out = Outcomes {
        now: Time::ZERO,
        marks: vec![None; packets],
        fates: vec![String::new(); packets],
        labels: vec![0; packets],
    };
    let mut watched = Vec::new();
    let mut busy_until = Time::ZERO;
    // When the link looks again: at the end of a transmission, or when a packet that is held back may go.
    let mut look: Option<Time> = None;
    let start = |port: &mut _, now: Time, told: &mut Outcomes, ends: &mut Time| {
        told.now = now;
        let Some(packet): Option<Packet> = QueueDiscipline::dequeue(port, now, told) else {
            return QueueDiscipline::ready_at(port, now);
        };
        told.fates[packet.slot as usize] = format!("s {}", now.as_nanos());
        told.labels[packet.slot as usize] = packet.label.0;
        *ends = now + Span::from_nanos(u64::from(packet.wire_bytes) * NANOS_PER_BYTE);
        Some(*ends)
    };
    for (number, &(now, packet)) in arrivals.iter().enumerate() {
        while let Some(at) = look.filter(|&at| at <= now) {
            run_timers(discipline, at, &mut out);
            look = start(discipline, at, &mut out, &mut busy_until);
            if look.is_none() {
                discipline.on_idle(at);
            }
        }
        run_timers(discipline, now, &mut out);
        out.now = now;
        discipline.enqueue(packet, now, &mut out);
        if busy_until <= now {
            look = start(discipline, now, &mut out, &mut busy_until);
        }
        if number % WATCHED_EVERY == WATCHED_EVERY - 1 {
            watched.extend(discipline.variable(variable));
        }
    }
    while let Some(at) = look {
        look = start(discipline, at, &mut out, &mut busy_until);
    }
    (out, watched)
}

/// What is due by `now`, each at its instant.
fn run_timers(discipline: &mut impl QueueDiscipline, now: Time, out: &mut Outcomes) {
    while let Some(at) = discipline.timer_at().filter(|&at| at <= now) {
        out.now = at;
        discipline.on_timer(at, out);
    }
}

/// Panics at the first packet whose outcome differs.
fn compare(case: &Value, discipline: &mut impl QueueDiscipline, arrivals: &[(Time, Packet)], variable: &str) {
    let what = format!("{} on {}", case["name"], case["vector"]);
    let (out, watched) = run(discipline, arrivals, variable);
    let expected = items(case, "outcomes");
    assert_eq!(expected.len(), arrivals.len(), "{what}");
    for (number, outcome) in expected.iter().enumerate() {
        let mark = out.marks[number].map(|why| format!("m-{} ", why.name())).unwrap_or_default();
        let found = format!("{mark}{}", out.fates[number]);
        assert_eq!(Some(found.as_str()), outcome.as_str(), "{what}, packet {number}");
    }
    if let Some(values) = case["watched"].as_array() {
        assert_eq!(values.len(), watched.len(), "{what}");
        for (value, found) in values.iter().zip(watched) {
            let reference = value.as_f64().expect("watched values are numbers");
            assert!((reference - found).abs() <= 1e-9 * reference.abs().max(1.0), "{what}: {found}, {value}");
        }
    }
    if let Some(labels) = case["labels_after"].as_array() {
        for (number, label) in labels.iter().enumerate().filter(|(n, _)| out.fates[*n].starts_with('s')) {
            // Both round down; the last bits of the exponential may differ.
            let reference = label.as_u64().expect("labels are whole numbers");
            let found = u64::from(out.labels[number]);
            assert!(reference.abs_diff(found) <= 1, "{what}, label of packet {number}");
        }
    }
}

/// A threshold in packets, also where it is no whole number of them.
fn threshold(config: &Value, key: &str) -> Limit {
    let packets = real(config, key);
    if packets.fract() == 0.0 {
        return Limit::Packets(packets as u32);
    }
    Limit::Bytes(Bytes::new((packets * real(config, "packet_bytes")).round() as u64))
}

fn red_config(config: &Value) -> RedConfig {
    let is = |key: &str, text: &str| config[key].as_str() == Some(text);
    let yes = |key: &str| config[key].as_bool().expect("a switch");
    RedConfig {
        min: threshold(config, "min_th"),
        max: threshold(config, "max_th"),
        weight: real(config, "w"),
        max_p: real(config, "max_p"),
        limit: limit(config),
        mean_packet: Bytes::new(whole(config, "packet_bytes")),
        mode: if is("unit", "bytes") { QueueUnit::Bytes } else { QueueUnit::Packets },
        gap: if is("gap_law", "wait") { GapLaw::Wait } else { GapLaw::Paper },
        flavor: if is("flavor", "ns") { Flavor::Ns } else { Flavor::Floyd1993 },
        gentle: yes("gentle"),
        victim: if is("victim", "random") { Victim::Random } else { Victim::Arriving },
        ecn: yes("ecn"),
        mark_forced: yes("ecn_when_forced"),
        ..RedConfig::default()
    }
}

#[test]
fn the_given_random_numbers_are_the_first_of_the_component_stream() {
    let draws = frozen("draws");
    let mut stream = Substream::new(Seed(whole(&draws, "seed")));
    for word in items(&draws, "bits") {
        let bits = u64::from_str_radix(word.as_str().expect("hexadecimal text"), 16);
        assert_eq!(bits, Ok(stream.bits()));
    }
}

#[test]
fn red_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("red"));
    assert_eq!(items(&cases, "red").len(), 42);
    for case in items(&cases, "red") {
        let mut fifo = Fifo::new(red_config(&case["config"]).build(&context()));
        compare(case, &mut fifo, &arrivals(case, &vectors), "average_queue_packets");
    }
}

fn span(config: &Value, key: &str) -> Span {
    Span::from_nanos((real(config, key) * 1e9).round() as u64)
}

fn adaptive_red_config(config: &Value) -> AdaptiveRedConfig {
    AdaptiveRedConfig {
        red: red_config(config),
        alpha: real(config, "alpha"),
        beta: real(config, "beta"),
        floor: real(config, "floor"),
        ceiling: real(config, "ceiling"),
    }
}

fn penalty_box_config(config: &Value) -> RedPenaltyBoxConfig {
    RedPenaltyBoxConfig {
        red: red_config(config),
        log: whole(config, "log") as u32,
        period: span(config, "period"),
        rtt: span(config, "rtt"),
        high: BitRate::from_bytes_per_second_f64(real(config, "high")),
        share: real(config, "share"),
        flows_max: whole(config, "flows_max") as u32,
    }
}

#[test]
fn what_is_made_of_red_decides_every_packet_as_the_references_do() {
    let (vectors, cases) = (frozen("vectors"), frozen("red_family"));
    assert_eq!(items(&cases, "red_family").len(), 60);
    for case in items(&cases, "red_family") {
        let config = &case["config"];
        let smoothing = config.get("smoothing").map(|_| span(config, "smoothing"));
        let packets = arrivals(case, &vectors);
        if config.get("log").is_some() {
            let fifo = &mut Fifo::new(penalty_box_config(config).build(&context()));
            compare(case, fifo, &packets, "boxed_flows");
        } else if config.get("alpha").is_some() {
            let mut adaptive = adaptive_red_config(config);
            adaptive.red.smoothing = smoothing;
            let variable = if smoothing.is_some() { "marking_probability" } else { "max_p" };
            compare(case, &mut Fifo::new(adaptive.build(&context())), &packets, variable);
        } else {
            let mut red = RedConfig { smoothing, ..red_config(config) };
            if config.get("flows_rtt").is_some() {
                red.flows_rtt = Some(span(config, "flows_rtt"));
                red.flows_window = span(config, "flows_window");
            }
            let variable = if red.flows_rtt.is_some() { "max_p" } else { "marking_probability" };
            compare(case, &mut Fifo::new(red.build(&context())), &packets, variable);
        }
    }
}

#[test]
fn blue_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("blue"));
    assert_eq!(items(&cases, "blue").len(), 33);
    for case in items(&cases, "blue") {
        let config = &case["config"];
        let is_separate = config["timers"].as_str() == Some("separate");
        let blue = BlueConfig {
            delta_up: real(config, "delta_up"),
            delta_down: real(config, "delta_down"),
            freeze_time: Span::from_nanos(whole(config, "freeze_ns")),
            freeze_spread: real(config, "freeze_spread"),
            timers: if is_separate { FreezeTimers::Separate } else { FreezeTimers::Shared },
            threshold: config["threshold"].is_array().then(|| limit_of(&config["threshold"])),
            limit: limit(config),
            ecn: config["ecn"].as_bool().expect("a switch"),
            priority: config["priority"].as_bool().expect("a switch"),
        };
        let mut fifo = Fifo::new(blue.build(&context()));
        compare(case, &mut fifo, &marked(arrivals(case, &vectors)), "marking_probability");
    }
}

/// Packets of odd flows carry a promise.
fn marked(mut arrivals: Vec<(Time, Packet)>) -> Vec<(Time, Packet)> {
    for (_, packet) in arrivals.iter_mut().filter(|(_, packet)| packet.flow.0 % 2 == 1) {
        packet.dscp = Dscp::AF11;
    }
    arrivals
}

#[test]
fn ered_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("ered"));
    assert_eq!(items(&cases, "ered").len(), 27);
    for case in items(&cases, "ered") {
        let config = &case["config"];
        let yes = |key: &str| config[key].as_bool().expect("a switch");
        let of_unmarked = config["counted"].as_str() == Some("unmarked");
        let ered = EredConfig {
            min: threshold(config, "min_th"),
            max: threshold(config, "max_th"),
            weight: real(config, "w"),
            max_p: real(config, "max_p"),
            limit: limit(config),
            unmarked_limit: config["unmarked_limit"].as_u64().map(|most| Limit::Packets(most as u32)),
            mean_packet: Bytes::new(whole(config, "packet_bytes")),
            counted: if of_unmarked { Counted::Unmarked } else { Counted::All },
            absolute: yes("absolute"),
            fair: yes("fair"),
            min_q: whole(config, "min_q") as u32,
            ..EredConfig::default()
        };
        let mut fifo = Fifo::new(ered.build(&context()));
        compare(case, &mut fifo, &marked(arrivals(case, &vectors)), "average_queue_packets");
    }
}

#[test]
fn fred_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("fred"));
    assert_eq!(items(&cases, "fred").len(), 24);
    for case in items(&cases, "fred") {
        let config = &case["config"];
        let is_basic = config["variant"].as_str() == Some("basic");
        let fred = FredConfig {
            min: Some(threshold(config, "min_th")),
            max: Some(threshold(config, "max_th")),
            weight: real(config, "w"),
            max_p: real(config, "max_p"),
            min_q: whole(config, "min_q") as u32,
            variant: if is_basic { FredVariant::Basic } else { FredVariant::ManyFlows },
            limit: limit(config),
            mean_packet: Bytes::new(whole(config, "packet_bytes")),
            ecn: config["ecn"].as_bool().expect("a switch"),
        };
        let mut fifo = Fifo::new(fred.build(&context()));
        compare(case, &mut fifo, &arrivals(case, &vectors), "average_queue_packets");
    }
}

#[test]
fn drr_sends_and_drops_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("drr"));
    assert_eq!(items(&cases, "drr").len(), 12);
    for case in items(&cases, "drr") {
        let config = &case["config"];
        let quantum = Bytes::new(whole(config, "quantum"));
        let mut drr = DrrConfig { quantum, limit: limit(config), ..DrrConfig::default() }.build(&context());
        compare(case, &mut drr, &arrivals(case, &vectors), "");
    }
}

#[test]
fn sfq_sends_and_drops_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("sfq"));
    assert_eq!(items(&cases, "sfq").len(), 15);
    for case in items(&cases, "sfq") {
        let config = &case["config"];
        let own =
            config["bin_limit"].as_u64().map_or(Limit::Packets(u32::MAX), |b| Limit::Bytes(Bytes::new(b)));
        let sfq = SfqConfig {
            buckets: whole(config, "buckets") as u32,
            hash: BinHash::Modulo,
            perturb: config["perturb"].as_u64().map(Span::from_nanos),
            limit: config["limit"].as_u64().map(|limit| Limit::Packets(limit as u32)),
            queue: Some(ManagerConfig::DropTail(DropTailConfig { limit: own })),
            ..SfqConfig::default()
        };
        // The reference knows flows by one number each; data has the first number of a pair.
        let mut data = arrivals(case, &vectors);
        for (_, packet) in &mut data {
            packet.flow = FlowId(2 * packet.flow.0);
        }
        compare(case, &mut sfq.build(&context()), &data, "");
    }
}

/// The class with `number`, which is its name.
fn cbq_class(number: usize, class: &Value, queue_packets: u32) -> CbqClassConfig {
    let span = |key: &str| class[key].as_u64().map(Span::from_nanos);
    let flows = class["flows"].as_array().into_iter().flatten();
    CbqClassConfig {
        name: number.to_string(),
        parent: class["parent"].as_u64().map(|parent| parent.to_string()),
        share: real(class, "share"),
        priority: Some(whole(class, "priority") as u8),
        borrow: class["borrow"].as_bool().expect("a switch"),
        max_idle: span("maxidle_ns"),
        min_idle: span("minidle_ns"),
        extra_delay: span("extradelay_ns").unwrap_or(Span::ZERO),
        r#match: flows.map(|flow| flow.as_u64().expect("flows are numbers") as u32).collect(),
        queue: Some(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(queue_packets) })),
    }
}

#[test]
fn cbq_sends_and_drops_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("cbq"));
    assert_eq!(items(&cases, "cbq").len(), 18);
    for case in items(&cases, "cbq") {
        let config = &case["config"];
        let queue_packets = whole(config, "queue_packets") as u32;
        let classes: Vec<_> = items(config, "classes")
            .iter()
            .enumerate()
            .map(|(n, class)| cbq_class(n, class, queue_packets))
            .collect();
        let cbq = CbqConfig {
            classify: Classification::Flow,
            default: Some((classes.len() - 1).to_string()),
            classes,
            sharing: match config["sharing"].as_str() {
                Some("formal") => LinkSharing::Formal,
                Some("top-level") => LinkSharing::TopLevel,
                _ => LinkSharing::AncestorOnly,
            },
            rate: config["rate_bps"].as_u64().map(BitRate::from_bps),
            max_packet: Bytes::new(whole(config, "maxpkt")),
        };
        compare(case, &mut cbq.build(&context()), &arrivals(case, &vectors), "");
    }
}

#[test]
fn csfq_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("csfq"));
    assert_eq!(items(&cases, "csfq").len(), 9);
    for case in items(&cases, "csfq") {
        let config = &case["config"];
        let span = |key| Span::from_nanos((real(config, key) * 1e9).round() as u64);
        let mut edge = CsfqLabellerConfig { averaging: span("k"), ..CsfqLabellerConfig::default() }.build();
        let mut packets = arrivals(case, &vectors);
        for ((now, packet), label) in packets.iter_mut().zip(items(case, "labels")) {
            edge.on_arrival(packet, *now);
            let reference = label.as_u64().expect("labels are whole numbers") as u32;
            assert!(reference.abs_diff(packet.label.0) <= 1, "{} label {label}", case["name"]);
            packet.label = RateLabel(reference);
        }
        let router = CsfqConfig {
            averaging: span("k_alpha"),
            window: span("k_c"),
            threshold: Limit::Packets(whole(config, "threshold_packets") as u32),
            limit: limit(config),
        };
        compare(case, &mut Fifo::new(router.build(&context())), &packets, "fair_share_bps");
    }
}

fn sfb_config(config: &Value) -> SfbConfig {
    let span = |key: &str| config[key].as_u64().map(Span::from_nanos);
    let small = |key: &str| whole(config, key) as u32;
    let is = |key: &str, word: &str| config[key].as_str() == Some(word);
    // Thresholds are parts of a bin; only Adaptive RED has them.
    let part = |key: &str| config[key].as_f64().unwrap_or_default() / real(config, "bin_size");
    SfbConfig {
        limit: limit(config),
        levels: small("levels"),
        bins: small("bins"),
        hash: if is("hash", "even") { SfbHash::Even } else { SfbHash::Keyed },
        bin_size: Limit::Packets(small("bin_size")),
        law: if is("law", "blue") { SfbLaw::Blue } else { SfbLaw::AdaptiveRed },
        increment: config["increment"].as_f64().unwrap_or_default(),
        decrement: config["decrement"].as_f64().unwrap_or_default(),
        freeze: span("freeze"),
        ceiling: config["ceiling"].as_f64(),
        min: part("min_th"),
        max: part("max_th"),
        weight: config["w"].as_f64().unwrap_or_default(),
        max_p: config["max_p"].as_f64().unwrap_or_default(),
        alpha: config["alpha"].as_f64().unwrap_or(1.0),
        beta: config["beta"].as_f64().unwrap_or(1.0),
        nonresponsive_rate: BitRate::from_bps(whole(config, "nonresponsive_bps")),
        nonresponsive_burst: Some(Bytes::new(whole(config, "burst_bytes"))),
        rehash: span("rehash"),
        double_buffered: config["double_buffered"].as_bool().expect("a switch"),
        bins_begin: if is("bins_begin", "mean") { BinsBegin::Mean } else { BinsBegin::Fresh },
        ecn: true,
        ..SfbConfig::default()
    }
}

#[test]
fn sfb_decides_every_packet_as_the_reference_does() {
    let (vectors, cases) = (frozen("vectors"), frozen("sfb"));
    assert_eq!(items(&cases, "sfb").len(), 45);
    for case in items(&cases, "sfb") {
        let mut fifo = Fifo::new(sfb_config(&case["config"]).build(&context()));
        compare(case, &mut fifo, &arrivals(case, &vectors), "marking_probability");
    }
}
