//! A short way to write networks in tests.

#![allow(dead_code, missing_docs, reason = "each test uses its part of it")]

pub mod random_network;

use std::net::Ipv4Addr;

use tidegate_engine::{
    ActivitySpec, ApplicationSpec, Carried, CrowdSpec, DirectionSpec, DomainSpec, FlowSpec, HopSpec, LinkId,
    LinkSpec, Network, NodeId, NodeKind, NodeSpec, Observer, Place, Simulation, StartSpec, Statistics,
    TransportSpec,
};
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_packet::{Address, DropReason, Dscp, FlowId, Headers, MarkReason, Packet, Protocol};
use tidegate_units::{BitRate, Limit, Span, Time};

pub fn seconds(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

pub fn drop_tail(packets: u32) -> DisciplineConfig {
    DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(packets) }))
}

pub fn direction(rate: &str, delay: &str, queue: DisciplineConfig) -> DirectionSpec {
    DirectionSpec {
        rate: rate.parse().unwrap(),
        delay: delay.parse().unwrap(),
        queue,
        loss: None,
        device: None,
        reorder: None,
        duplicate: 0.0,
        jitter: None,
        circuit: None,
        trace: None,
    }
}

pub fn constant(rate: BitRate) -> ApplicationSpec {
    ApplicationSpec::ConstantRate { rate, packet_bytes: 1000, jitter: 0.0 }
}

#[derive(Default)]
pub struct Net {
    pub network: Network,
}

impl Net {
    pub fn node(&mut self, name: &str) -> NodeId {
        if let Some(index) = self.network.nodes.iter().position(|node| node.name == name) {
            return NodeId(index as u32);
        }
        // By convention of the tests: names of hosts begin with h.
        let kind = if name.starts_with('h') { NodeKind::Host } else { NodeKind::Router };
        self.network.nodes.push(NodeSpec { name: name.into(), kind });
        NodeId(self.network.nodes.len() as u32 - 1)
    }

    pub fn link(&mut self, a: &str, b: &str, spec: DirectionSpec) -> LinkId {
        let ends = [self.node(a), self.node(b)];
        let name = format!("{a}-{b}");
        self.network.links.push(LinkSpec {
            name,
            ends,
            forward: spec.clone(),
            reverse: spec,
            cost: 1,
            half_duplex: false,
        });
        LinkId::of(self.network.links.len() as u32 - 1, false)
    }

    pub fn flow(
        &mut self,
        from: &str,
        to: &[&str],
        transport: TransportSpec,
        application: ApplicationSpec,
    ) -> usize {
        let (source, sinks) = (self.node(from), to.iter().map(|name| self.node(name)).collect::<Vec<_>>());
        let address = |node: NodeId| Address::V4(Ipv4Addr::from(0x0a00_0001 + node.0).octets());
        let index = self.network.flows.len();
        let protocol =
            if matches!(transport, TransportSpec::Udp { .. }) { Protocol::UDP } else { Protocol::TCP };
        self.network.flows.push(FlowSpec {
            name: format!("flow{index}"),
            from: source,
            to: sinks.clone(),
            transport,
            application,
            start: StartSpec::At(Time::ZERO),
            stop: None,
            dscp: Dscp::BEST_EFFORT,
            class: 0,
            headers: Headers::best_effort(
                protocol,
                (address(source), 1000 + index as u16),
                (address(sinks[0]), 7),
            ),
        });
        index
    }

    /// The same of clients at `to` who ask: `places` connections with data in both directions.
    pub fn clients(
        &mut self,
        from: &str,
        to: &str,
        tcp: &TcpConfig,
        places: u32,
        activity: ActivitySpec,
    ) -> usize {
        let first = self.crowd(from, to, tcp, places, activity);
        let down: Vec<u32> = self.network.crowds.last().unwrap().places.clone();
        for flow in down {
            let transport = TransportSpec::Tcp(Box::new(tcp.clone()));
            let up = self.flow(to, &[from], transport, ApplicationSpec::Crowd);
            self.network.flows[up].headers = self.network.flows[flow as usize].headers.reversed();
            self.network.crowds.last_mut().unwrap().asking.push(up as u32);
            self.network.pairs.push([flow, up as u32]);
        }
        first
    }

    /// Transfers over TCP with this configuration, at most `places` at once; the first of their flows.
    pub fn crowd(
        &mut self,
        from: &str,
        to: &str,
        tcp: &TcpConfig,
        places: u32,
        activity: ActivitySpec,
    ) -> usize {
        let places: Vec<u32> = (0..places)
            .map(|_| {
                let transport = TransportSpec::Tcp(Box::new(tcp.clone()));
                self.flow(from, &[to], transport, ApplicationSpec::Crowd) as u32
            })
            .collect();
        let first = places[0] as usize;
        self.network.crowds.push(CrowdSpec { places, asking: Vec::new(), activity });
        first
    }

    pub fn domain(&mut self, edges: &[&str], core: &[&str]) -> &mut DomainSpec {
        let edges = edges.iter().map(|name| self.node(name)).collect();
        let core = core.iter().map(|name| self.node(name)).collect();
        let name = format!("domain{}", self.network.domains.len());
        self.network.domains.push(DomainSpec {
            name,
            edges,
            core,
            mechanism: None,
            unpoliced: Vec::new(),
            control_loss: 0.0,
            clocks: Vec::new(),
            lies: Vec::new(),
            labels: None,
        });
        self.network.domains.last_mut().unwrap()
    }

    /// Puts `mechanism` into each of these routers.
    pub fn hops(&mut self, routers: &[&str], mechanism: &HopConfig) {
        for name in routers {
            let node = self.node(name);
            self.network.hops.push(HopSpec { node, mechanism: mechanism.clone() });
        }
    }

    pub fn build(self, seed: u64) -> Simulation {
        self.network.build(seed, ()).unwrap()
    }

    /// Runs to `until`, with statistics from `warmup` on.
    pub fn run(self, seed: u64, warmup: f64, until: f64) -> Statistics {
        let mut simulation = self.build(seed);
        simulation.run_until(seconds(warmup), u64::MAX);
        simulation.restart_statistics();
        simulation.run_until(seconds(until), u64::MAX);
        simulation.assert_conservation();
        simulation.statistics()
    }
}

/// Runs for so many tenths of a second, after each of which nothing may have got lost.
pub fn run_in_tenths(simulation: &mut Simulation, tenths: u32) {
    for tenth in 1..=tenths {
        simulation.run_until(seconds(0.1 * f64::from(tenth)), u64::MAX);
        simulation.assert_conservation();
    }
}

/// Bits per second that the first receiver of `flow` got.
pub fn throughput_bps(statistics: &Statistics, flow: usize) -> f64 {
    let window = (statistics.until - statistics.since).as_secs_f64();
    statistics.sinks[flow][0].received_bytes as f64 * 8.0 / window
}

/// What happened to one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Its last bit came out of this link.
    Delivered(LinkId),
    /// It was dropped.
    Dropped(Place, DropReason),
    /// It was marked.
    Marked(Place, MarkReason),
}

/// When, to which flow identity, how many bytes, what.
pub type Log = Vec<(Time, FlowId, u32, Fate)>;

/// What happened to all packets, in order.
#[derive(Debug, Default)]
pub struct Recorder {
    pub log: Log,
}

impl Observer for Recorder {
    fn on_delivered(&mut self, now: Time, link: LinkId, packet: &Packet, _: &Carried, _: Option<&[u8]>) {
        self.log.push((now, packet.flow, packet.wire_bytes, Fate::Delivered(link)));
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, _: &Carried, why: DropReason) {
        self.log.push((now, packet.flow, packet.wire_bytes, Fate::Dropped(place, why)));
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, _: &Carried, why: MarkReason) {
        self.log.push((now, packet.flow, packet.wire_bytes, Fate::Marked(place, why)));
    }
}
