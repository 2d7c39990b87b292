//! The network between gateways: a hub in the middle, and for each site a link of its own, which its traffic must pass.

use std::net::Ipv4Addr;

use tidegate_engine::{
    ApplicationSpec, Carried, Change, DirectionSpec, FlowSpec, JitterModel, LinkId, LinkSpec, LossModel,
    Network, NodeId, NodeKind, NodeSpec, Observer, Place, ReorderModel, ScriptedChange, StartSpec,
    TransportSpec,
};
use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, CubicConfig};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::{Address, DropReason, Dscp, Headers, Packet, Protocol};
use tidegate_units::{BitRate, Limit, Span, Time};

use crate::case::{Case, Fault, Line};

/// What came out, and the datagrams that are under way.
#[derive(Debug, Default)]
pub struct Port {
    /// By handle: the bytes, and how many packets of the network carry them.
    under_way: Vec<(Vec<u8>, u32)>,
    free: Vec<u64>,
    /// Flow, handle and traffic class of what has arrived.
    arrived: std::collections::VecDeque<(u32, u64, u8)>,
}

impl Port {
    /// Room for a datagram, and its handle.
    pub fn put(&mut self, datagram: &[u8]) -> u64 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.under_way.push((Vec::new(), 0));
            self.under_way.len() as u64 - 1
        });
        let (bytes, carriers) = &mut self.under_way[handle as usize];
        bytes.clear();
        bytes.extend_from_slice(datagram);
        *carriers = 1;
        handle
    }

    /// The next one that arrived: its flow, its traffic class, and its bytes in `datagram`.
    pub fn take(&mut self, datagram: &mut Vec<u8>) -> Option<(u32, u8)> {
        let (flow, handle, traffic_class) = self.arrived.pop_front()?;
        datagram.clear();
        datagram.extend_from_slice(&self.under_way[handle as usize].0);
        self.forget(handle);
        Some((flow, traffic_class))
    }

    /// How many datagrams are under way.
    pub fn used(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    fn forget(&mut self, handle: u64) {
        let carriers = &mut self.under_way[handle as usize].1;
        *carriers -= 1;
        if *carriers == 0 {
            self.free.push(handle);
        }
    }
}

impl Observer for Port {
    fn on_drop(&mut self, _now: Time, _place: Place, packet: &Packet, carried: &Carried, _why: DropReason) {
        if is_ours(packet, carried) {
            self.forget(carried.tcp.sequence);
        }
    }

    fn on_duplicate(&mut self, _now: Time, packet: &Packet, carried: &Carried) {
        if is_ours(packet, carried) {
            self.under_way[carried.tcp.sequence as usize].1 += 1;
        }
    }

    fn on_external(&mut self, _now: Time, packet: &Packet, carried: &Carried) {
        let traffic_class = packet.dscp.get() << 2 | packet.ecn as u8;
        self.arrived.push_back((packet.flow.0 / 2, carried.tcp.sequence, traffic_class));
    }
}

/// Simulated connections beside carry sequence numbers where datagrams from outside have their handle.
fn is_ours(packet: &Packet, _carried: &Carried) -> bool {
    packet.class == OURS
}

/// The class of datagrams of gateways.
const OURS: u8 = 7;

/// The flow of datagrams from one gateway to another one.
pub fn flow(sites: usize, from: usize, to: usize) -> u32 {
    (from * (sites - 1) + to - usize::from(to > from)) as u32
}

/// Who sends and gets the datagrams of `flow`.
pub fn ends(sites: usize, flow: u32) -> (usize, usize) {
    let (from, other) = (flow as usize / (sites - 1), flow as usize % (sites - 1));
    (from, other + usize::from(other >= from))
}

/// The network of `case`.
pub fn build(case: &Case) -> Network {
    let sites = case.lines.len();
    let mut network = Network::default();
    let mut node = |name: String, kind| {
        network.nodes.push(NodeSpec { name, kind });
        NodeId(network.nodes.len() as u32 - 1)
    };
    let gateways: Vec<NodeId> = (0..sites).map(|site| node(format!("g{site}"), NodeKind::Host)).collect();
    let hub = node("hub".into(), NodeKind::Router);
    let edges: Vec<NodeId> = (0..sites).map(|site| node(format!("line{site}"), NodeKind::Router)).collect();
    let strangers: Vec<NodeId> = (0..sites).map(|site| node(format!("s{site}"), NodeKind::Host)).collect();
    let outside = node("outside".into(), NodeKind::Host);
    for (site, line) in case.lines.iter().enumerate() {
        network.links.push(LinkSpec {
            name: format!("line{site}"),
            ends: [edges[site], hub],
            forward: direction(line),
            reverse: direction(line),
            cost: 1,
            half_duplex: false,
        });
    }
    let mut fast = |name: String, ends| {
        let direction = wire();
        let (forward, reverse) = (direction.clone(), direction);
        network.links.push(LinkSpec { name, ends, forward, reverse, cost: 1, half_duplex: false });
    };
    for site in 0..sites {
        fast(format!("gateway{site}"), [gateways[site], edges[site]]);
        fast(format!("stranger{site}"), [strangers[site], edges[site]]);
    }
    fast("outside".into(), [outside, hub]);
    for number in 0..(sites * (sites - 1)) as u32 {
        let (from, to) = ends(sites, number);
        let (transport, application) = (TransportSpec::External, ApplicationSpec::External);
        network.flows.push(flow_spec(
            format!("{from}-{to}"),
            (gateways[from], gateways[to]),
            OURS,
            transport,
            application,
        ));
    }
    for (number, stranger) in case.strangers.iter().enumerate() {
        let tcp = TcpConfig {
            control: CongestionControlConfig::Cubic(CubicConfig::default()),
            ..TcpConfig::modern(Variant::Sack).with_window_packets(4000)
        };
        let ends = (outside, strangers[stranger.site]);
        let (transport, application) = (TransportSpec::Tcp(Box::new(tcp)), ApplicationSpec::Bulk);
        let mut spec = flow_spec(format!("stranger{number}"), ends, 0, transport, application);
        spec.start = StartSpec::At(stranger.from);
        spec.stop = Some(stranger.to);
        network.flows.push(spec);
    }
    network.script = script(case);
    network
}

fn flow_spec(
    name: String,
    (from, to): (NodeId, NodeId),
    class: u8,
    transport: TransportSpec,
    application: ApplicationSpec,
) -> FlowSpec {
    let address = |node: NodeId| Address::V4(Ipv4Addr::from(0x0a00_0001 + node.0).octets());
    let headers = Headers::best_effort(Protocol::UDP, (address(from), 51820), (address(to), 51820));
    let (start, dscp) = (StartSpec::At(Time::ZERO), Dscp::BEST_EFFORT);
    FlowSpec { name, from, to: vec![to], transport, application, start, stop: None, dscp, class, headers }
}

fn fifo(packets: u32) -> DisciplineConfig {
    DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(packets) }))
}

fn wire() -> DirectionSpec {
    DirectionSpec {
        rate: BitRate::from_mbps(10_000),
        trace: None,
        delay: Span::from_micros(100),
        queue: fifo(100_000),
        device: None,
        loss: None,
        reorder: None,
        duplicate: 0.0,
        jitter: None,
        circuit: None,
    }
}

fn direction(line: &Line) -> DirectionSpec {
    DirectionSpec {
        rate: line.rate,
        trace: line.trace.clone(),
        delay: line.delay,
        queue: fifo(line.buffer),
        loss: (line.loss > 0.0).then_some(LossModel::Random { probability: line.loss }),
        reorder: (line.reorder > 0.0).then_some(ReorderModel { probability: line.reorder, delay: line.late }),
        duplicate: line.duplicate,
        jitter: (line.jitter > Span::ZERO).then_some(JitterModel::Uniform { most: line.jitter }),
        ..wire()
    }
}

/// What faults change of the network itself.
fn script(case: &Case) -> Vec<ScriptedChange> {
    let mut script = Vec::new();
    let mut both = |at: Time, site: usize, change: Change| {
        for reverse in [false, true] {
            script.push(ScriptedChange { at, link: LinkId::of(site as u32, reverse), change });
        }
    };
    for (at, fault) in &case.faults {
        match *fault {
            Fault::Cut { site, lasts } => {
                both(*at, site, Change::Up(false));
                both(*at + lasts, site, Change::Up(true));
            }
            Fault::Rate { site, rate } => both(*at, site, Change::Rate(rate)),
            Fault::Way { site, delay } => both(*at, site, Change::Delay(delay)),
            Fault::Restart { .. } | Fault::Step { .. } | Fault::Move { .. } => {}
        }
    }
    script.sort_by_key(|change| change.at);
    script
}
