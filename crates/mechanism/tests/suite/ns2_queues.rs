//! DRR, SFQ, CBQ and RED against ns-2.35: for the same arrivals, the same departures and drops in the same order.
//!
//! Source: tests/oracle/ns2/queues.tcl; tests/oracle/ns2/frozen/queues.json, which ns-2 made. RED has no early drops there
//! (they depend on ns-2's random numbers): what is compared is the average, the idle time, forced drops and overflow.

use std::path::Path;

use serde_json::Value;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{DropTailConfig, Fifo, ManagerConfig, QueueDiscipline, RedConfig};
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    BinHash, CbqClassConfig, CbqConfig, Classification, DrrConfig, LinkSharing, SfqConfig,
};
use tidegate_packet::{DropReason, FlowId, MarkReason, Packet, Sink};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

const NANOS_PER_BYTE: u64 = 800;

/// Writes what happens as the frozen file does.
#[derive(Default)]
struct Events(Vec<String>);

impl Sink for Events {
    fn on_drop(&mut self, packet: Packet, _why: DropReason) {
        self.0.push(format!("d{}", packet.slot));
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {
        unreachable!("no packet here can carry a mark");
    }
}

fn start(discipline: &mut impl QueueDiscipline, now: Time, events: &mut Events) -> Option<Time> {
    let packet = discipline.dequeue(now, events)?;
    events.0.push(format!("-{}", packet.slot));
    Some(now + Span::from_nanos(u64::from(packet.wire_bytes) * NANOS_PER_BYTE))
}

fn run(discipline: &mut impl QueueDiscipline, arrivals: &[Value]) -> Vec<String> {
    let mut events = Events::default();
    let mut free_at: Option<Time> = None;
    for (number, arrival) in arrivals.iter().enumerate() {
        let field = |at: usize| arrival[at].as_u64().expect("arrivals are whole numbers");
        let now = Time::from_nanos(field(0));
        while let Some(at) = free_at.filter(|&at| at <= now) {
            free_at = start(discipline, at, &mut events);
            if free_at.is_none() {
                discipline.on_idle(at);
            }
        }
        let mut packet = Packet::new(number as u32, FlowId(field(1) as u32), field(2) as u32);
        packet.arrived = now;
        events.0.push(number.to_string());
        discipline.enqueue(packet, now, &mut events);
        if free_at.is_none() {
            free_at = start(discipline, now, &mut events);
        }
    }
    while let Some(at) = free_at {
        free_at = start(discipline, at, &mut events);
    }
    events.0
}

/// The cases of one kind: how many there are and how many packets, after comparing all events.
fn compare(kind: &str, discipline: impl Fn(&Context) -> Box<dyn Fn(&[Value]) -> Vec<String>>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/ns2/frozen/queues.json");
    let text = std::fs::read_to_string(file).expect("the frozen outputs of ns-2 are part of the repository");
    let frozen: Value = serde_json::from_str(&text).expect("they are JSON");
    let context = Context { seed: Seed(1), link_rate: BitRate::from_mbps(10), mtu_bytes: 1500 };
    let cases = frozen["cases"].as_array().expect("there are cases");
    let mut compared = 0;
    for case in cases.iter().filter(|case| case["name"] == kind) {
        let arrivals = case["arrivals"].as_array().expect("a case has arrivals");
        let expected = case["events"].as_array().expect("a case has events");
        let found = discipline(&context)(arrivals);
        assert_eq!(found.len(), expected.len());
        for (at, (event, ours)) in expected.iter().zip(&found).enumerate() {
            let theirs = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
            assert_eq!(&theirs, ours, "{kind}, seed {}, event {at}: ns-2 left, ours right", case["seed"]);
        }
        compared += 1;
    }
    assert_eq!(compared, 2);
}

fn compare_drr(kind: &str, quantum: u64, limit: u64) {
    compare(kind, |context| {
        let limit = Limit::Bytes(Bytes::new(limit));
        let config = DrrConfig { quantum: Bytes::new(quantum), limit, ..DrrConfig::default() };
        let context = *context;
        Box::new(move |arrivals| run(&mut config.build(&context), arrivals))
    });
}

fn compare_sfq(kind: &str, limit: u32) {
    compare(kind, |context| {
        // Five sources in sixteen bins, none of them together, as in ns-2. Data of a flow has the first number of its pair.
        let config =
            SfqConfig { hash: BinHash::Modulo, limit: Some(Limit::Packets(limit)), ..SfqConfig::default() };
        let context = *context;
        Box::new(move |arrivals| {
            let data: Vec<Value> = arrivals
                .iter()
                .map(|arrival| {
                    let source = arrival[1].as_u64().expect("an arrival has a source");
                    serde_json::json!([arrival[0], 2 * source, arrival[2]])
                })
                .collect();
            run(&mut config.build(&context), &data)
        })
    });
}

/// Two agencies: A has sources 0 and 1, B has 2, 3 and 4.
fn compare_cbq(kind: &str, sharing: LinkSharing, top: f64) {
    compare(kind, |context| {
        let class = |name: &str, parent: Option<&str>, share: f64, priority: u8| CbqClassConfig {
            parent: parent.map(str::to_owned),
            priority: Some(priority),
            ..CbqClassConfig::with(name.to_owned(), share)
        };
        let leaf = |parent: &str, share: f64, priority: u8, source: u32| CbqClassConfig {
            r#match: vec![source],
            queue: Some(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(20) })),
            ..class(&format!("source {source}"), Some(parent), share, priority)
        };
        let classes = vec![
            CbqClassConfig { borrow: false, ..class("top", None, top, 8) },
            class("A", Some("top"), 0.7 * top, 8),
            class("B", Some("top"), 0.3 * top, 8),
            leaf("A", 0.3, 1, 0),
            leaf("A", 0.4, 2, 1),
            leaf("B", 0.1, 1, 2),
            leaf("B", 0.15, 2, 3),
            leaf("B", 0.05, 2, 4),
        ];
        let config = CbqConfig {
            classify: Classification::Flow,
            classes,
            sharing,
            max_packet: Bytes::new(1500),
            ..CbqConfig::default()
        };
        let context = *context;
        Box::new(move |arrivals| run(&mut config.build(&context), arrivals))
    });
}

fn compare_red(kind: &str, w: f64, limit: u32) {
    compare(kind, |context| {
        let config = RedConfig { weight: w, max_p: 1e-12, limit: Limit::Packets(limit), ..RedConfig::ns() };
        let red = Fifo::new(config.build(context));
        Box::new(move |arrivals| run(&mut red.clone(), arrivals))
    });
}

#[test]
fn drr_serves_and_drops_in_the_order_of_ns_2() {
    compare_drr("drr", 1000, 32_000);
}

#[test]
fn drr_with_a_small_quantum_serves_and_drops_in_the_order_of_ns_2() {
    compare_drr("drr_small", 250, 10_000);
}

#[test]
fn sfq_serves_and_drops_in_the_order_of_ns_2() {
    compare_sfq("sfq", 40);
}

#[test]
fn sfq_with_a_limit_below_its_bins_serves_and_drops_in_the_order_of_ns_2() {
    compare_sfq("sfq_tight", 12);
}

#[test]
fn cbq_with_ancestor_only_sharing_serves_and_drops_in_the_order_of_ns_2() {
    compare_cbq("cbq_ancestor", LinkSharing::AncestorOnly, 0.98);
}

#[test]
fn cbq_with_top_level_sharing_serves_and_drops_in_the_order_of_ns_2() {
    compare_cbq("cbq_top", LinkSharing::TopLevel, 0.98);
}

#[test]
fn cbq_with_formal_sharing_serves_and_drops_in_the_order_of_ns_2() {
    compare_cbq("cbq_formal", LinkSharing::Formal, 1.0);
}

#[test]
fn red_forces_drops_for_the_packets_of_ns_2() {
    compare_red("red", 0.02, 40);
}

#[test]
fn red_overflows_for_the_packets_of_ns_2() {
    compare_red("red_overflow", 0.002, 12);
}
