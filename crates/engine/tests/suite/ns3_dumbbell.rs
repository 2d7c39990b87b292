//! The dumbbells that ns-3 was run on (tests/oracle/ns3), built of our own parts.

use std::path::Path;

use crate::common::{Net, direction, drop_tail, seconds};
use serde_json::Value;
use tidegate_engine::{ApplicationSpec, DirectionSpec, Simulation, StartSpec, TransportSpec};
use tidegate_mechanism::queue::DeviceConfig;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::congestion::{CongestionControl, CongestionControlConfig};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_units::{Span, Time};

pub const SEGMENT_BYTES: u32 = 1448;
/// IP, TCP, and the point-to-point link.
pub const HEADER_BYTES: u32 = 42;

/// Of one run or, each, the mean of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub throughput_mbps: f64,
    /// With the packet in transmission.
    pub queue_packets: f64,
    pub drops: f64,
    pub marks: f64,
    pub marked_share: f64,
    /// Of the first flow; ours every 10 ms.
    pub alpha: f64,
}

impl Measured {
    pub fn mean(runs: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Self {
            throughput_mbps: mean(|run| run.throughput_mbps),
            queue_packets: mean(|run| run.queue_packets),
            drops: mean(|run| run.drops),
            marks: mean(|run| run.marks),
            marked_share: mean(|run| run.marked_share),
            alpha: mean(|run| run.alpha),
        }
    }

    /// What ns-3 measured, run by run.
    pub fn runs_of_peer(case: &Value) -> Vec<Self> {
        let runs = case["results"].as_array().expect("runs").iter().map(|run| Self {
            throughput_mbps: number(&run["throughput_mbps"]),
            queue_packets: number(&run["queue_packets"]),
            drops: number(&run["drops"]),
            marks: number(&run["marks"]),
            marked_share: number(&run["marked_share"]),
            alpha: run["alpha"]["mean"].as_f64().unwrap_or(0.0),
        });
        runs.collect()
    }

    pub fn of_peer(case: &Value) -> Self {
        Self::mean(&Self::runs_of_peer(case))
    }
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

pub fn is_within(ours: f64, theirs: f64, part: f64) -> bool {
    (ours - theirs).abs() <= part * theirs
}

/// The cases of a frozen file that `wanted` chooses.
pub fn cases(file: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/ns3/frozen").join(file);
    let text = std::fs::read_to_string(path).expect("the frozen outputs of ns-3 are part of the repository");
    let frozen: Value = serde_json::from_str(&text).expect("JSON");
    let chosen = frozen["cases"].as_array().expect("cases").iter().filter(|case| wanted(&case["settings"]));
    chosen.cloned().collect()
}

/// Packets of full segments that the buffer of a case holds.
pub fn packets(settings: &Value) -> u32 {
    (number(&settings["queue"]) / f64::from(SEGMENT_BYTES + HEADER_BYTES)) as u32
}

/// TCP as ns-3's is there.
pub fn tcp(control: CongestionControlConfig) -> TcpConfig {
    TcpConfig {
        segment_bytes: SEGMENT_BYTES,
        header_bytes: HEADER_BYTES,
        receive_window_bytes: 8 << 20,
        control,
        ..TcpConfig::modern(Variant::Sack)
    }
}

/// Runs a case, with flow i starting `shifts[i]` after 100 ms times i, and asks `watch` at each of so many instants per second
/// after the warm-up.
pub fn run(
    case: &Value,
    tcp: &TcpConfig,
    queue: DisciplineConfig,
    shifts: &[Span],
    per_second: u32,
    mut watch: impl FnMut(&mut Simulation),
) -> Measured {
    let set = &case["settings"];
    let flows = set["flows"].as_u64().expect("a number") as usize;
    let half = format!("{}us", number(&set["rtt_ms"]) * 500.0);
    let mut net = Net::default();
    let ring = set["device"].as_u64().unwrap_or(1) as u32;
    let device = DeviceConfig { ring, byte_limits: ring > 1, hold: Span::from_millis(1) };
    let rate = set["rate"].as_str().expect("a rate");
    let core = net.link("A", "B", DirectionSpec { device: Some(device), ..direction(rate, &half, queue) });
    assert_eq!(shifts.len(), flows);
    for (i, &shift) in shifts.iter().enumerate() {
        let (source, sink) = (format!("h{i}"), format!("hd{i}"));
        net.link(&source, "A", direction("1Gbit", "1us", drop_tail(10_000)));
        net.link("B", &sink, direction("1Gbit", "1us", drop_tail(10_000)));
        let flow =
            net.flow(&source, &[&sink], TransportSpec::Tcp(Box::new(tcp.clone())), ApplicationSpec::Bulk);
        net.network.flows[flow].start = StartSpec::At(seconds(0.1 * i as f64) + shift);
    }
    let (warmup, until) = (number(&set["warmup_s"]), number(&set["duration_s"]));
    let mut simulation = net.build(1);
    simulation.run_until(seconds(warmup), u64::MAX);
    simulation.restart_statistics();
    for i in 1..=((until - warmup) * f64::from(per_second)) as u32 {
        let at: Time = seconds(warmup + f64::from(i) / f64::from(per_second));
        simulation.run_until(at, u64::MAX);
        watch(&mut simulation);
    }
    simulation.assert_conservation();
    let statistics = simulation.statistics();
    let link = &statistics.links[core.0 as usize];
    let sinks = (0..flows).flat_map(|flow| simulation.sink_counters(flow));
    let goodput_bytes: u64 = sinks.map(|sink| sink.goodput_bytes).sum();
    let marks = link.marks_by_reason.iter().sum::<u64>() as f64;
    Measured {
        throughput_mbps: goodput_bytes as f64 * 8.0 / (until - warmup) / 1e6,
        queue_packets: link.packet_nanos as f64 / ((until - warmup) * 1e9),
        drops: link.dropped_packets() as f64,
        marks,
        marked_share: marks / link.delivered_packets as f64,
        alpha: 0.0,
    }
}

/// What the control of the first flow says of itself.
pub fn variable(simulation: &Simulation, name: &str) -> Option<f64> {
    simulation.tcp_sender(0).expect("a TCP flow").congestion_control().variable(name)
}

/// The page has these rows: what it says is what the tests find.
pub fn assert_on_page(rows: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ns3.md");
    let page = std::fs::read_to_string(path).expect("docs/ns3.md");
    for row in rows {
        assert!(page.contains(row), "docs/ns3.md lacks this row, as it is now:\n{row}");
    }
}
