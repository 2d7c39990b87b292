//! From the validated scenario to the engine's description of a network. The configurations of mechanisms are lowered by
//! [`tidegate_scenario::lower`]; here are the parts of the network around them.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use tidegate_engine::{
    ApplicationSpec, BorderChange, Change, CircuitSpec, ClockSpec, ClockStep, DirectionSpec, DomainSpec,
    EventOrder, FlowIds, FlowSpec, FluidSpec, FollowState, HopSpec, JitterModel, LabelsSpec, LieSpec, LinkId,
    LinkSpec, LinkTrace, LossModel, MarkerSpec, Multipath, Network, NodeId, NodeKind, NodeSpec,
    OnOffDistribution, ReorderModel, ReservationChange, ScriptedChange, StartSpec, Ties, TransportSpec,
};
use tidegate_mechanism::edge::iec::VirtualLinkTerms;
use tidegate_mechanism::edge::{EdgeConfig, PeerId};
use tidegate_mechanism::schedule::Classification;
use tidegate_packet::{Address, Ecn, FlowId, Headers, Protocol};
use tidegate_scenario::model::{self, Scenario};
use tidegate_units::Bytes;

use crate::crowds;

/// The network of `scenario`.
pub fn network(scenario: &Scenario) -> Network {
    let weights = weights(scenario);
    let places = crowds::places(scenario);
    let mut network = Network {
        nodes: scenario.nodes.iter().map(node).collect(),
        links: scenario.links.iter().map(|link| link_spec(link, &weights)).collect(),
        flows: scenario.flows.iter().enumerate().map(|(index, flow)| flow_spec(index, flow)).collect(),
        fluids: fluids(scenario),
        crowds: Vec::new(),
        pairs: (0..).zip(&scenario.flows).filter_map(|(back, flow)| Some([flow.back_of?, back])).collect(),
        domains: domains(scenario, &weights),
        markers: scenario.markers.iter().map(|point| marker(point, &places)).collect(),
        hops: hops(scenario),
        multipath: match scenario.routing.multipath {
            model::Multipath::None => Multipath::None,
            model::Multipath::Flow => Multipath::Flow,
            model::Multipath::Packet => Multipath::Packet,
        },
        follows: scenario.routing.follows.as_ref().map(|model::Follows::Nbq(follows)| FollowState {
            every: follows.every,
            penalty: follows.penalty,
            hold: follows.hold,
        }),
        ties: scenario.ties.map(|ties| Ties { seed: ties.seed, spread: ties.spread }),
        event_order: match scenario.event_order {
            model::EventOrder::Scheduled => EventOrder::Scheduled,
            model::EventOrder::Numbered => EventOrder::Numbered,
        },
        script: script(scenario),
        reservations: reservations(scenario),
        border_changes: Vec::new(),
    };
    network.border_changes = border_changes(scenario, &network.domains);
    crowds::add(scenario, &mut network, source_port);
    network
}

fn node(node: &model::Node) -> NodeSpec {
    let kind = match node.kind {
        model::NodeKind::Host => NodeKind::Host,
        model::NodeKind::Router => NodeKind::Router,
    };
    NodeSpec { name: node.name.clone(), kind }
}

pub(crate) const fn node_id(index: model::NodeIndex) -> NodeId {
    NodeId(index.0)
}

/// Weights other than one, for queues per flow and for queues per class.
struct Weights {
    by_flow: Vec<(u32, f64)>,
    by_class: Vec<(u32, f64)>,
}

impl Weights {
    /// Those that a queue looks up.
    fn of(&self, queue: &model::Queue) -> &[(u32, f64)] {
        match queue.weighted() {
            Some(Classification::Flow) => &self.by_flow,
            Some(Classification::Class) => &self.by_class,
            _ => &[],
        }
    }
}

/// The weights of flows by flow identity: a flow's acknowledgments weigh as much as its data. A class weighs as much as its
/// heaviest flow.
fn weights(scenario: &Scenario) -> Weights {
    let mut classes = std::collections::BTreeMap::new();
    for flow in &scenario.flows {
        let weight = classes.entry(u32::from(flow.class)).or_insert(flow.weight);
        *weight = weight.max(flow.weight);
    }
    let by_class = classes.into_iter().filter(|(_, weight)| *weight != 1.0).collect();
    Weights { by_flow: flow_weights(scenario), by_class }
}

fn flow_weights(scenario: &Scenario) -> Vec<(u32, f64)> {
    let each = (0..).zip(scenario.flows.iter().zip(crowds::places(scenario)));
    let weighted = each.filter(|(_, (flow, _))| flow.weight != 1.0);
    let mut weights: Vec<(u32, f64)> = weighted
        .flat_map(|(index, (flow, places))| {
            let both = |place| [FlowIds::data(place).0, FlowIds::acknowledgments(place).0];
            core::iter::once(index).chain(places).flat_map(both).map(|identity| (identity, flow.weight))
        })
        .collect();
    weights.sort_by_key(|&(identity, _)| identity);
    weights
}

fn link_spec(link: &model::Link, weights: &Weights) -> LinkSpec {
    LinkSpec {
        name: link.name.clone(),
        ends: [node_id(link.a), node_id(link.b)],
        forward: direction(&link.forward, weights),
        reverse: direction(&link.reverse, weights),
        cost: link.cost,
        half_duplex: link.duplex == model::Duplex::Half,
    }
}

fn direction(direction: &model::Direction, weights: &Weights) -> DirectionSpec {
    DirectionSpec {
        rate: direction.rate,
        trace: direction.trace.as_ref().map(|trace| LinkTrace::new(Arc::clone(&trace.stamps_ms))),
        delay: direction.delay,
        queue: direction.queue.clone().with_weights(weights.of(&direction.queue)),
        device: direction.device,
        loss: direction.loss.as_ref().map(|loss| match loss {
            model::Loss::Random(random) => LossModel::Random { probability: random.probability },
            // Users count packets from one.
            model::Loss::List(list) => {
                LossModel::List(list.packets.iter().map(|ordinal| ordinal - 1).collect())
            }
            model::Loss::Burst(burst) => LossModel::Burst {
                enter: burst.good_to_bad,
                leave: burst.bad_to_good,
                good: burst.loss_good,
                bad: burst.loss_bad,
            },
        }),
        reorder: direction
            .reorder
            .as_ref()
            .map(|reorder| ReorderModel { probability: reorder.probability, delay: reorder.delay }),
        duplicate: direction.duplicate,
        jitter: direction.jitter.as_ref().map(|jitter| match jitter {
            model::Jitter::Uniform(uniform) => JitterModel::Uniform { most: uniform.most },
            model::Jitter::Slots(slots) => JitterModel::Slots { every: slots.every, phase: slots.phase },
        }),
        circuit: direction.circuit.as_ref().map(circuit),
    }
}

fn circuit(circuit: &model::Circuit) -> CircuitSpec {
    let threshold = (f64::from(circuit.buffer) * circuit.threshold) as u32;
    CircuitSpec {
        background: circuit.background,
        minimum: circuit.minimum,
        buffer_cells: circuit.buffer,
        discard_cells: (circuit.discard != model::CellDiscard::Tail).then_some(threshold),
        is_selective: circuit.discard == model::CellDiscard::VirtualQueueing,
    }
}

/// The source port of flow `index`.
pub const fn source_port(index: usize) -> u16 {
    1024 + (index % 64_000) as u16
}

fn flow_spec(index: usize, flow: &model::Flow) -> FlowSpec {
    let transport = match &flow.transport {
        model::Transport::Tcp(config) => TransportSpec::Tcp(Box::new(config.config.clone())),
        model::Transport::Udp(udp) => TransportSpec::Udp { header_bytes: udp.header.get() as u32 },
        model::Transport::Media(config) => TransportSpec::Media(Box::new(config.clone())),
    };
    let ecn = match &flow.transport {
        model::Transport::Udp(udp) => udp.ecn.codepoint(),
        model::Transport::Media(config) => config.codepoint(),
        model::Transport::Tcp(_) => Ecn::NotEct,
    };
    let protocol = if matches!(transport, TransportSpec::Tcp(_)) { Protocol::TCP } else { Protocol::UDP };
    let (near, far) = (source_port(index), 5001);
    // The other direction of a connection has its ports, the other way round.
    let (source_port, destination_port) =
        flow.back_of.map_or((near, far), |forth| (far, source_port(forth as usize)));
    // A node's address is its number in 10/8, so that traces read well; ports tell the flows of a host apart.
    let address =
        |node: model::NodeIndex| Address::V4(Ipv4Addr::from(0x0a00_0001_u32.wrapping_add(node.0)).octets());
    FlowSpec {
        name: flow.name.clone(),
        from: node_id(flow.from),
        to: flow.to.iter().copied().map(node_id).collect(),
        transport,
        application: application(&flow.application),
        start: start(flow.start),
        stop: flow.stop,
        dscp: flow.dscp,
        class: flow.class,
        headers: Headers {
            source: address(flow.from),
            destination: address(flow.to[0]),
            flow_label: 0,
            protocol,
            source_port,
            destination_port,
            dscp: flow.dscp,
            ecn,
        },
    }
}

fn fluids(scenario: &Scenario) -> Vec<FluidSpec> {
    let fluid = |fluid: &model::Fluid| FluidSpec {
        name: fluid.name.clone(),
        from: node_id(fluid.from),
        to: node_id(fluid.to),
        config: fluid.config,
        start: start(fluid.start),
        stop: fluid.stop,
    };
    scenario.fluids.iter().map(fluid).collect()
}

const fn start(start: model::Start) -> StartSpec {
    match start {
        model::Start::At(time) => StartSpec::At(time),
        model::Start::Uniform(from, to) => StartSpec::Uniform(from, to),
    }
}

fn application(application: &model::Application) -> ApplicationSpec {
    let bytes = |packet: Option<Bytes>| packet.map_or(0, |bytes| bytes.get() as u32);
    match application {
        model::Application::Bulk(_) => ApplicationSpec::Bulk,
        model::Application::Transfers(_) | model::Application::Pages(_) | model::Application::Video(_) => {
            ApplicationSpec::Crowd
        }
        model::Application::Transfer(transfer) => ApplicationSpec::Transfer { bytes: transfer.size.get() },
        model::Application::Cbr(cbr) => ApplicationSpec::ConstantRate {
            rate: cbr.rate,
            packet_bytes: bytes(cbr.packet),
            jitter: cbr.jitter,
        },
        model::Application::Poisson(poisson) => {
            ApplicationSpec::Poisson { rate: poisson.rate, packet_bytes: bytes(poisson.packet) }
        }
        model::Application::Adaptive(adaptive) => ApplicationSpec::Adaptive {
            rates: adaptive.rates.clone(),
            packet_bytes: bytes(adaptive.packet),
            patience: adaptive.patience,
            settle: adaptive.settle,
        },
        model::Application::OnOff(on_off) => ApplicationSpec::OnOff {
            distribution: match on_off.distribution {
                model::OnOffDistribution::Constant => OnOffDistribution::Constant,
                model::OnOffDistribution::Exponential => OnOffDistribution::Exponential,
                model::OnOffDistribution::Pareto => OnOffDistribution::Pareto { shape: on_off.shape },
            },
            on: on_off.on,
            off: on_off.off,
            rate: on_off.rate.unwrap_or_default(),
            packet_bytes: bytes(on_off.packet),
        },
    }
}

/// The routers of domains whose mechanism is one of all routers.
fn hops(scenario: &Scenario) -> Vec<HopSpec> {
    let mut specs: Vec<HopSpec> = Vec::new();
    for domain in &scenario.domains {
        let Some(mechanism) = domain.mechanism.hop() else { continue };
        for node in domain.edges.iter().chain(&domain.core).copied().map(node_id) {
            // Two domains may share an edge.
            if specs.iter().all(|spec| spec.node != node) {
                specs.push(HopSpec { node, mechanism: mechanism.clone() });
            }
        }
    }
    specs
}

/// Domains that trust each other become one: the routers between them are inside, and need not police.
fn domains(scenario: &Scenario, weights: &Weights) -> Vec<DomainSpec> {
    let mut group: Vec<usize> = (0..scenario.domains.len()).collect();
    for (index, domain) in scenario.domains.iter().enumerate() {
        for other in domain.trusts.iter().map(|other| other.index()) {
            // Trust counts when it is mutual.
            if scenario.domains[other].trusts.iter().any(|back| back.index() == index) {
                let (keep, drop) = (group[index].min(group[other]), group[index].max(group[other]));
                group.iter_mut().filter(|g| **g == drop).for_each(|g| *g = keep);
            }
        }
    }
    let mut specs: Vec<DomainSpec> = Vec::new();
    for (first, domain) in scenario.domains.iter().enumerate().filter(|(index, _)| group[*index] == *index) {
        if domain.mechanism.hop().is_some() && domain.labels.is_none() {
            // Its borders do nothing of their own.
            continue;
        }
        let members: Vec<&model::Domain> =
            scenario.domains.iter().enumerate().filter(|(i, _)| group[*i] == first).map(|(_, d)| d).collect();
        let is_shared =
            |node: &model::NodeIndex| members.iter().filter(|d| d.edges.contains(node)).count() > 1;
        let mut edges: Vec<model::NodeIndex> = Vec::new();
        let mut core: Vec<model::NodeIndex> = Vec::new();
        for member in &members {
            for &node in &member.edges {
                let list = if is_shared(&node) { &mut core } else { &mut edges };
                if !list.contains(&node) {
                    list.push(node);
                }
            }
            core.extend(member.core.iter().filter(|node| !is_shared(node)));
        }
        let mut mechanism = domain.mechanism.edge().cloned();
        if let Some(shaper) = mechanism.as_mut().and_then(EdgeConfig::shaper_mut) {
            let queue = &mut shaper.queue;
            *queue = queue.clone().with_weights(weights.of(queue));
        }
        if let Some(overlay) = mechanism.as_mut().and_then(EdgeConfig::overlay_mut) {
            // Borders are numbered through all domains.
            let first_border: usize = specs.iter().map(|spec| spec.edges.len()).sum();
            let border = |node: model::NodeIndex| {
                let position = edges.iter().position(|edge| *edge == node)?;
                Some(PeerId((first_border + position) as u32))
            };
            overlay.terms = members.iter().flat_map(|member| terms(member, &border)).collect();
        }
        if let Some(EdgeConfig::Nbp(nbp)) = &mut mechanism {
            nbp.borders = edges.len() as u32;
        }
        specs.push(DomainSpec {
            name: domain.name.clone(),
            edges: edges.into_iter().map(node_id).collect(),
            core: core.into_iter().map(node_id).collect(),
            mechanism,
            unpoliced: members.iter().flat_map(|d| d.unpoliced.iter().copied().map(node_id)).collect(),
            labels: domain.labels.clone().map(|config| LabelsSpec {
                config,
                liars: domain.liars.as_ref().map(|liars| liars_of(liars, &crowds::places(scenario))),
            }),
            control_loss: domain.control_loss,
            clocks: members.iter().flat_map(|d| d.clocks.iter().map(clock)).collect(),
            lies: members.iter().flat_map(|d| d.lies.iter().map(lie)).collect(),
        });
    }
    specs
}

/// The identities of those that lie, ascending.
fn liars_of(liars: &[model::FlowIndex], places: &[Range<u32>]) -> Vec<FlowId> {
    let mut flows = with_places(liars, places);
    flows.sort_unstable();
    flows.into_iter().map(FlowIds::data).collect()
}

/// What is said of single virtual links. What is about an edge that trust made inner is about none.
fn terms(
    domain: &model::Domain,
    border: &dyn Fn(model::NodeIndex) -> Option<PeerId>,
) -> Vec<VirtualLinkTerms> {
    let links = domain.mechanism.virtual_links().iter().zip(&domain.virtual_links);
    links
        .filter_map(|(link, &(from, to))| {
            let end = |node: Option<model::NodeIndex>| match node {
                Some(node) => border(node).map(Some),
                None => Some(None),
            };
            Some(VirtualLinkTerms {
                from: end(from)?,
                to: end(to)?,
                weight: link.weight,
                rate_min: link.rate_min,
            })
        })
        .collect()
}

fn clock((node, clock): &(model::NodeIndex, model::Clock)) -> (NodeId, ClockSpec) {
    (node_id(*node), ClockSpec { offset: clock.offset, drift_ppm: clock.drift_ppm })
}

fn lie((node, lies): &(model::NodeIndex, model::Lies)) -> (NodeId, LieSpec) {
    let model::Lies { output, hides, forges, replays } = *lies;
    (node_id(*node), LieSpec { output, hides, forges, replays })
}

/// Which of the specs of [`network`] serves domain `index` of the scenario.
pub fn domain_position(scenario: &Scenario, specs: &[DomainSpec], index: usize) -> Option<usize> {
    let edges: Vec<NodeId> = scenario.domains[index].edges.iter().copied().map(node_id).collect();
    // A domain in another one has edges in both; its own is the smaller.
    let has =
        |spec: &DomainSpec| edges.iter().all(|node| spec.edges.contains(node) || spec.core.contains(node));
    let candidates = specs.iter().enumerate().filter(|(_, spec)| has(spec));
    candidates.min_by_key(|(_, spec)| spec.edges.len() + spec.core.len()).map(|(position, _)| position)
}

fn marker(point: &model::MarkerPoint, places: &[Range<u32>]) -> MarkerSpec {
    MarkerSpec {
        name: point.name.clone(),
        at: point.at.map(node_id),
        flows: with_places(&point.flows, places),
        config: point.mechanism.clone(),
    }
}

/// `flows`, each with its other places.
fn with_places(flows: &[model::FlowIndex], places: &[Range<u32>]) -> Vec<u32> {
    flows.iter().flat_map(|flow| core::iter::once(flow.0).chain(places[flow.index()].clone())).collect()
}

fn script(scenario: &Scenario) -> Vec<ScriptedChange> {
    let mut script = Vec::new();
    for event in &scenario.events {
        let model::EventChange::Link { link, direction, rate, delay, background, state } = event.change
        else {
            continue;
        };
        let ways: &[bool] = match direction {
            model::Ways::Both => &[false, true],
            model::Ways::Forward => &[false],
            model::Ways::Reverse => &[true],
        };
        let changes = [
            rate.map(Change::Rate),
            delay.map(Change::Delay),
            background.map(Change::Background),
            state.map(|state| Change::Up(state == model::LinkState::Up)),
        ];
        for &reverse in ways {
            let link = LinkId::of(link.0, reverse);
            script.extend(changes.iter().flatten().map(|&change| ScriptedChange {
                at: event.at,
                link,
                change,
            }));
        }
    }
    script
}

fn reservations(scenario: &Scenario) -> Vec<ReservationChange> {
    let change = |event: &model::Event| match event.change {
        model::EventChange::Reservation { flow, rate } => {
            Some(ReservationChange { at: event.at, flow: flow.0, rate })
        }
        model::EventChange::Link { .. } | model::EventChange::Edge { .. } => None,
    };
    scenario.events.iter().filter_map(change).collect()
}

/// Changes of edges. One that trust made inner is no border, and nothing happens.
fn border_changes(scenario: &Scenario, specs: &[DomainSpec]) -> Vec<BorderChange> {
    let change = |event: &model::Event| {
        let model::EventChange::Edge { domain, edge, step, restart } = event.change else { return None };
        Some(BorderChange {
            at: event.at,
            domain: domain_position(scenario, specs, domain.index())? as u32,
            edge: node_id(edge),
            step: step.map(|step| match step {
                model::ClockStep::Ahead(span) => ClockStep::Ahead(span),
                model::ClockStep::Back(span) => ClockStep::Back(span),
            }),
            restarts: restart,
        })
    };
    scenario.events.iter().filter_map(change).collect()
}
