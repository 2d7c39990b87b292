//! What the comparisons with frozen traces share: arrivals from a seed, one link, and what became of each packet.
//!
//! Source: `tests/oracle/python/freeze_codel.py`, which states the format.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::queue::{PieLawConfig, QueueDiscipline};
use tidegate_packet::{DropReason, Ecn, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{Span, Time};

/// The file `name` of the frozen verdicts.
pub fn frozen(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/verdicts").join(name);
    let text = std::fs::read_to_string(file).expect("the frozen verdicts are part of the repository");
    serde_json::from_str(&text).expect("the frozen verdicts are JSON")
}

pub fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

/// The law of PIE as a trace has it.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn pie_law(of: &Value) -> PieLawConfig {
    let span = |key: &str| Span::from_nanos(whole(&of[key]));
    let real = |key: &str| of[key].as_f64().expect("a number");
    let is = |key: &str| of[key].as_bool().expect("a switch");
    PieLawConfig {
        target: span("target"),
        t_update: span("t_update"),
        alpha: real("alpha"),
        beta: real("beta"),
        max_burst: span("max_burst"),
        ecn: is("ecn"),
        mark_ecnth: real("mark_ecnth"),
        derandomize: is("derandomize"),
        by_size: is("by_size"),
        high: span("high"),
    }
}

/// `SplitMix64`: the next number modulo n.
pub fn splitmix(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// The arrivals that follow from the seed of a trace, as in `freeze_codel.py`: of one flow, some with ECT(0).
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn arrivals(of: &Value, packets: u64) -> Vec<Packet> {
    arrivals_with(of, packets, |draw| ect0(of, draw), None)
}

/// ECT(0) for as many of a hundred as the trace says.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn ect0(of: &Value, draw: u64) -> Ecn {
    if draw < whole(&of["ect_percent"]) { Ecn::Ect0 } else { Ecn::NotEct }
}

/// One of the four codepoints, of which `mix` says how many of a hundred are at most not-ECT, ECT(0), ECT(1).
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn mixed(of: &Value, draw: u64) -> Ecn {
    let mix = &of["mix"];
    match draw {
        _ if draw < whole(&mix[0]) => Ecn::NotEct,
        _ if draw < whole(&mix[1]) => Ecn::Ect0,
        _ if draw < whole(&mix[2]) => Ecn::Ect1,
        _ => Ecn::Ce,
    }
}

/// The same with what a draw of a hundred says of ECN, and each of one of `flows` where there are some.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn arrivals_with(
    of: &Value,
    packets: u64,
    ecn_of: impl Fn(u64) -> Ecn,
    flows: Option<u64>,
) -> Vec<Packet> {
    let mut below = splitmix(whole(&of["seed"]));
    let (mut load, mut now) = (0, Time::ZERO);
    (0..packets)
        .map(|number| {
            if number % 40 == 0 {
                load = below(5);
            }
            let size = [40, 576, 1000, 1500][below(4) as usize];
            let ecn = ecn_of(below(100));
            let unit = size * whole(&of["nanos_per_byte"]);
            now +=
                Span::from_nanos(below([1, unit * 3 / 2, unit * 3 / 2, unit * 2, unit * 4][load as usize]));
            let flow = FlowId(flows.map_or(0, &mut below) as u32);
            Packet { ecn, arrived: now, ..Packet::new(number as u32, flow, size as u32) }
        })
        .collect()
}

/// The arrivals of many flows that follow from the seed of a trace, as in `freeze_fq_codel.py`.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn flow_arrivals(of: &Value, packets: u64) -> Vec<Packet> {
    let mut below = splitmix(whole(&of["seed"]));
    let (mut load, mut senders, mut now) = (0, 1, Time::ZERO);
    (0..packets)
        .map(|number| {
            if number % 40 == 0 {
                load = below(5);
                senders = 1 + below(whole(&of["flows"]));
            }
            let flow = if below(2) == 1 { below(senders) } else { 0 };
            let size = [40, 576, 1000, 1500][below(4) as usize];
            let ecn = if below(100) < whole(&of["ect_percent"]) { Ecn::Ect0 } else { Ecn::NotEct };
            let unit = size * whole(&of["nanos_per_byte"]);
            now +=
                Span::from_nanos(below([1, unit * 3 / 2, unit * 3 / 2, unit * 2, unit * 4][load as usize]));
            Packet { ecn, arrived: now, ..Packet::new(number as u32, FlowId(flow as u32), size as u32) }
        })
        .collect()
}

/// How many queues are new and how many old, in one number.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub fn lists(fq: &impl QueueDiscipline) -> u64 {
    let length = |name| fq.variable(name).expect("it has two lists") as u64;
    length("new_queues") << 32 | length("old_queues")
}

/// The letters of what may become of a packet; one that is sent as it came has an `s`.
pub struct Letters {
    pub of_drop: fn(DropReason) -> char,
    pub of_mark: fn(MarkReason) -> char,
}

/// Of a law that says early what it says.
#[allow(dead_code, reason = "not all of those who share this have these")]
pub const EARLY: Letters = Letters {
    of_drop: |why| match why {
        DropReason::Early => 'd',
        DropReason::Unresponsive => 'b',
        _ => 'o',
    },
    of_mark: |why| {
        assert_eq!(why, MarkReason::Early);
        'm'
    },
};

/// What became of each packet, and when.
struct Fates {
    now: Time,
    became: Vec<(char, u64)>,
    letters: Letters,
}

impl Fates {
    fn set(&mut self, packet: &Packet, fate: char) {
        self.became[packet.slot as usize] = (fate, self.now.as_nanos());
    }
}

impl Sink for Fates {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.set(&packet, (self.letters.of_drop)(why));
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        assert_eq!(packet.ecn, Ecn::Ce);
        self.set(packet, (self.letters.of_mark)(why));
    }
}

/// What is due by `now`, each at its instant.
fn run_timers(queue: &mut impl QueueDiscipline, now: Time, told: &mut Fates) {
    while let Some(at) = queue.timer_at().filter(|&at| at <= now) {
        queue.on_timer(at, told);
        assert!(queue.timer_at().is_none_or(|next| next > at), "a timer moves on when it fires");
    }
}

/// The link has sent a packet: the next one begins to be sent, or it is idle.
fn go_on(queue: &mut impl QueueDiscipline, at: Time, told: &mut Fates, nanos_per_byte: u64) -> Option<Time> {
    run_timers(queue, at, told);
    let after = send(queue, at, told, nanos_per_byte);
    if after.is_none() {
        queue.on_idle(at);
    }
    after
}

/// The next packet begins to be sent; when it is gone.
fn send(queue: &mut impl QueueDiscipline, now: Time, told: &mut Fates, nanos_per_byte: u64) -> Option<Time> {
    told.now = now;
    let packet = queue.dequeue(now, told)?;
    let letter = match told.became[packet.slot as usize].0 {
        ' ' => 's',
        marked => marked,
    };
    told.set(&packet, letter);
    Some(now + Span::from_nanos(u64::from(packet.wire_bytes) * nanos_per_byte))
}

/// One link that is served before an arrival at the same instant; the fates, and what `watch` says after each `every` arrivals.
pub fn run<D: QueueDiscipline, T>(
    queue: &mut D,
    arrivals: &[Packet],
    nanos_per_byte: u64,
    letters: Letters,
    every: u32,
    watch: impl Fn(&D) -> T,
) -> (Vec<(char, u64)>, Vec<T>) {
    let mut told = Fates { now: Time::ZERO, became: vec![(' ', 0); arrivals.len()], letters };
    let (mut seen, mut busy_until) = (Vec::new(), None);
    for packet in arrivals {
        let now = packet.arrived;
        while let Some(at) = busy_until.filter(|&at| at <= now) {
            busy_until = go_on(queue, at, &mut told, nanos_per_byte);
        }
        run_timers(queue, now, &mut told);
        told.now = now;
        queue.enqueue(*packet, now, &mut told);
        if busy_until.is_none() {
            busy_until = send(queue, now, &mut told, nanos_per_byte);
        }
        if packet.slot % every == every - 1 {
            seen.push(watch(queue));
        }
    }
    while let Some(at) = busy_until {
        busy_until = go_on(queue, at, &mut told, nanos_per_byte);
    }
    (told.became, seen)
}

/// Whether the trace `of` is as frozen.
pub fn compare(of: &Value, fates: &[(char, u64)], seen: Vec<u64>) {
    assert_eq!(Some(shorten(fates).as_str()), of["outcomes"].as_str(), "trace {}", of["seed"]);
    let found = digest(fates.iter().map(|fate| fate.1).chain(seen));
    assert_eq!(Some(found.as_str()), of["digest"].as_str(), "instants and counts of trace {}", of["seed"]);
}

/// `3sd` for three packets sent, and one dropped.
pub fn shorten(fates: &[(char, u64)]) -> String {
    let mut text = String::new();
    for same in fates.chunk_by(|a, b| a.0 == b.0) {
        if same.len() > 1 {
            write!(text, "{}", same.len()).expect("a string grows");
        }
        text.push(same[0].0);
    }
    text
}

/// FNV-1a over numbers.
pub fn digest(values: impl Iterator<Item = u64>) -> String {
    let hash =
        values.fold(0xCBF2_9CE4_8422_2325u64, |hash, value| (hash ^ value).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}
