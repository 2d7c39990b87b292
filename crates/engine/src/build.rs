//! From the description of a network to a simulation: links, endpoints, borders, and the program of every flow.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{BorderSite, PeerId};
use tidegate_mechanism::meter::CsfqLabellerConfig;
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::tcp::{TcpReceiver, TcpSender};
use tidegate_units::Time;

use crate::border::{Border, Clock, Control};
use crate::counters::{FlowCounters, SinkCounters, Totals};
use crate::hop::{self, Hop};
use crate::ids::{LinkId, NodeId};
use crate::link::{Link, Medium, PortChoice, Share, SharedMedium};
use crate::marker::MarkerPoint;
use crate::nesting;
use crate::network::{DirectionSpec, MarkerSpec, Multipath, Network, TransportSpec};
use crate::observer::Observer;
use crate::program::{Passage, Programs, Step};
use crate::routing::{Path, Routing};
use crate::simulation::{Carrier, Connection, Flow, Routes, Simulation, Spread, Stream};
use crate::source::Source;
use crate::world::{Alarm, Wake, World};

/// Largest packet that mechanisms are told of, in bytes.
pub(crate) const MTU_BYTES: u32 = 1500;

/// Why a network cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// No path leads from a flow's source to a receiver, or back.
    Unreachable {
        /// The flow.
        flow: String,
        /// From this node.
        from: String,
        /// To this node.
        to: String,
    },
    /// A flow crosses the border of a domain at a router that is not one of its edges.
    CrossesAtCore {
        /// The flow.
        flow: String,
        /// The domain.
        domain: String,
        /// The router.
        node: String,
    },
    /// No flow crosses a domain whose edges control what enters.
    DomainUncrossed {
        /// The domain.
        domain: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { flow, from, to } => {
                write!(f, "flow `{flow}`: no path leads from `{from}` to `{to}`; add links, or move an end")
            }
            Self::CrossesAtCore { flow, domain, node } => write!(
                f,
                "flow `{flow}` crosses the border of domain `{domain}` at `{node}`, which is not among its edges; \
                 list `{node}` under `edges`"
            ),
            Self::DomainUncrossed { domain } => write!(
                f,
                "no flow crosses domain `{domain}` from one of its edges to another, so its mechanism would do nothing; \
                 list the routers between the edges under `core`"
            ),
        }
    }
}
impl std::error::Error for BuildError {}

/// Builds the programs of flows.
pub(crate) struct Planner {
    pub(crate) routing: Routing,
    /// By link: whether a hop mechanism sees to it; empty if there is none.
    hop_links: Vec<bool>,
    /// By domain: the domains around it.
    around: Vec<Vec<u32>>,
    /// By node: the domains that it belongs to, the outer before the inner, with its border there if it is an edge.
    membership: Vec<Vec<(u32, Option<u32>)>>,
    passages: HashMap<(u32, Vec<PeerId>), u32>,
    /// By flow: its markers, and where they stand.
    markers: HashMap<u32, Vec<(NodeId, u32)>>,
    departures: HashMap<(u32, Option<PeerId>), u32>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

/// One receiver of what is being planned: the nodes and links on its path, and what to do at the end.
struct Branchlet {
    nodes: Vec<NodeId>,
    links: Path,
    end: Step,
}

/// What is needed to name things in errors, and to know which borders police.
struct Naming<'a> {
    network: &'a Network,
    flow: &'a str,
    borders: &'a [Border],
    /// The markers on the way of these packets, and where.
    markers: &'a [(NodeId, u32)],
    /// For messages between borders of this domain: they are inside of it from the first step, and for domains in it they
    /// are traffic as any other.
    messages_of: Option<u32>,
}

impl Planner {
    fn new(network: &Network, borders: &[Border]) -> Self {
        let mut membership = vec![Vec::new(); network.nodes.len()];
        for (index, border) in borders.iter().enumerate() {
            membership[border.node as usize].push((border.domain, Some(index as u32)));
        }
        for (index, domain) in network.domains.iter().enumerate() {
            for node in &domain.core {
                membership[node.0 as usize].push((index as u32, None));
            }
        }
        let around = nesting::around(network);
        for domains in &mut membership {
            domains.sort_by_key(|(domain, _)| around[*domain as usize].len());
        }
        let mut markers: HashMap<u32, Vec<(NodeId, u32)>> = HashMap::new();
        for (index, marker) in network.markers.iter().enumerate() {
            for &flow in &marker.flows {
                let at = marker.at.unwrap_or(network.flows[flow as usize].from);
                markers.entry(flow).or_default().push((at, index as u32));
            }
        }
        Self {
            routing: Routing::new(network),
            around,
            membership,
            passages: HashMap::new(),
            departures: HashMap::new(),
            markers,
            hop_links: hop::links(network),
        }
    }

    /// The step onto `link`.
    fn step_onto(&self, link: LinkId) -> Step {
        match self.hop_links.get(link.0 as usize) {
            Some(true) => Step::Hop(link),
            _ => Step::Link(link),
        }
    }

    /// Whether `node` is in `domain`.
    fn is_inside(&self, node: NodeId, domain: u32) -> bool {
        self.membership[node.0 as usize].iter().any(|(d, _)| *d == domain)
    }

    /// Whether the path is inside `domain` on the hop after node `at`.
    fn stays(&self, branchlet: &Branchlet, at: usize, domain: u32) -> bool {
        at + 1 < branchlet.nodes.len() && self.is_inside(branchlet.nodes[at + 1], domain)
    }

    fn was_inside(&self, branchlet: &Branchlet, at: usize, domain: u32) -> bool {
        at > 0 && self.is_inside(branchlet.nodes[at - 1], domain)
    }

    /// The border by which the path leaves `domain` after node `at`.
    fn exit_of(
        &self,
        branchlet: &Branchlet,
        mut at: usize,
        domain: u32,
        naming: &Naming<'_>,
    ) -> Result<u32, BuildError> {
        while self.stays(branchlet, at, domain) {
            at += 1;
        }
        self.border_at(branchlet.nodes[at], domain, naming)
    }

    /// The border by which the path entered `domain` before node `at`; none where it began inside.
    fn entry_of(&self, branchlet: &Branchlet, mut at: usize, domain: u32) -> Option<u32> {
        while self.was_inside(branchlet, at, domain) {
            at -= 1;
        }
        let membership = &self.membership[branchlet.nodes[at].0 as usize];
        membership.iter().find(|(d, _)| *d == domain).and_then(|(_, border)| *border)
    }

    fn border_at(&self, node: NodeId, domain: u32, naming: &Naming<'_>) -> Result<u32, BuildError> {
        self.membership[node.0 as usize]
            .iter()
            .find(|(d, _)| *d == domain)
            .and_then(|(_, border)| *border)
            .ok_or_else(|| BuildError::CrossesAtCore {
                flow: naming.flow.to_owned(),
                domain: naming.network.domains[domain as usize].name.clone(),
                node: naming.network.nodes[node.0 as usize].name.clone(),
            })
    }

    /// Writes the program of packets that are at node `at` of all of `receivers`, which share the path so far; where it
    /// starts.
    fn plan(
        &mut self,
        receivers: &[Branchlet],
        programs: &mut Programs,
        naming: &Naming<'_>,
    ) -> Result<u32, BuildError> {
        let all: Vec<usize> = (0..receivers.len()).collect();
        // Where a copy's program starts is known only when it is written; the trunk comes last of its branches.
        self.plan_at(receivers, &all, 0, Stage::Leave, programs, naming)
    }

    fn plan_at(
        &mut self,
        receivers: &[Branchlet],
        group: &[usize],
        at: usize,
        stage: Stage,
        programs: &mut Programs,
        naming: &Naming<'_>,
    ) -> Result<u32, BuildError> {
        let mut steps = Vec::new();
        let (mut at, mut stage) = (at, stage);
        // Straight ahead until the group divides; each turn moves one node on.
        let divided: Option<(Vec<Vec<usize>>, Stage)> = loop {
            let node = receivers[group[0]].nodes[at];
            let domains: Vec<u32> =
                self.membership[node.0 as usize].iter().map(|(domain, _)| *domain).collect();
            // If only some cross a border here, the parts decide it again, each for itself.
            if stage == Stage::Leave {
                let parts =
                    self.cross(receivers, group, at, &domains, stage, &mut steps, programs, naming)?;
                if let Some(parts) = parts {
                    break Some((parts, Stage::Leave));
                }
                stage = Stage::Enter;
                // What goes no further has nothing to promise.
                if group.iter().any(|&receiver| receivers[receiver].links.len() > at) {
                    let here = naming.markers.iter().filter(|(at_node, _)| *at_node == node);
                    steps.extend(here.map(|(_, marker)| Step::Mark(*marker)));
                }
            }
            if stage == Stage::Enter {
                let parts =
                    self.cross(receivers, group, at, &domains, stage, &mut steps, programs, naming)?;
                if let Some(parts) = parts {
                    break Some((parts, Stage::Enter));
                }
            }
            let mut by_link: Vec<(Option<LinkId>, Vec<usize>)> = Vec::new();
            for &receiver in group {
                let next = receivers[receiver].links.get(at).copied();
                match by_link.iter_mut().find(|(link, _)| *link == next) {
                    // Receivers at the same node are separate ends.
                    Some((Some(_), members)) => members.push(receiver),
                    _ => by_link.push((next, vec![receiver])),
                }
            }
            if let [(next, _)] = by_link[..] {
                let Some(link) = next else {
                    steps.push(receivers[group[0]].end);
                    break None;
                };
                steps.push(self.step_onto(link));
                at += 1;
                stage = Stage::Leave;
            } else {
                break Some((by_link.into_iter().map(|(_, members)| members).collect(), Stage::Forward));
            }
        };
        if let Some((parts, resume)) = divided {
            let starts = parts
                .iter()
                .map(|part| self.plan_at(receivers, part, at, resume, programs, naming))
                .collect::<Result<Vec<u32>, BuildError>>()?;
            programs.branches.push(starts);
            steps.push(Step::Branch(programs.branches.len() as u32 - 1));
        }
        let start = programs.position();
        for step in steps {
            programs.push(step);
        }
        Ok(start)
    }

    /// Adds the steps for leaving or entering domains at node `at`. If only part of the group crosses, nothing is added
    /// for that domain and the parts are returned.
    #[allow(clippy::too_many_arguments, reason = "one step of the planning above, apart for length only")]
    fn cross(
        &mut self,
        receivers: &[Branchlet],
        group: &[usize],
        at: usize,
        domains: &[u32],
        stage: Stage,
        steps: &mut Vec<Step>,
        programs: &mut Programs,
        naming: &Naming<'_>,
    ) -> Result<Option<Vec<Vec<usize>>>, BuildError> {
        let steps_before = steps.len();
        let mut order: Vec<u32> = domains.to_vec();
        if stage == Stage::Leave {
            // The inner before the outer.
            order.sort_by_key(|domain| Reverse(self.around[*domain as usize].len()));
        }
        let is_around = |outer: u32, domain: u32| self.around[domain as usize].contains(&outer);
        order.retain(|&domain| naming.messages_of.is_none_or(|outer| is_around(outer, domain)));
        for domain in order {
            let before = self.was_inside(&receivers[group[0]], at, domain);
            if before != (stage == Stage::Leave) {
                continue;
            }
            let crosses = |&receiver: &usize| {
                let stays = self.stays(&receivers[receiver], at, domain);
                if stage == Stage::Leave { !stays } else { stays }
            };
            let (crossing, others): (Vec<usize>, Vec<usize>) = group.iter().copied().partition(crosses);
            if crossing.is_empty() {
                continue;
            }
            if !others.is_empty() {
                steps.truncate(steps_before);
                return Ok(Some(vec![crossing, others]));
            }
            let border = self.border_at(receivers[group[0]].nodes[at], domain, naming)?;
            if stage == Stage::Leave {
                let entry = self.entry_of(&receivers[group[0]], at, domain).map(PeerId);
                let departures = &mut programs.departures;
                let departure = *self.departures.entry((border, entry)).or_insert_with(|| {
                    departures.push(Passage { border, peers: entry.into_iter().collect() });
                    departures.len() as u32 - 1
                });
                steps.push(Step::Egress(departure));
                continue;
            }
            let mut exits = crossing
                .iter()
                .map(|&receiver| self.exit_of(&receivers[receiver], at, domain, naming).map(PeerId))
                .collect::<Result<Vec<_>, _>>()?;
            exits.sort_unstable();
            exits.dedup();
            if naming.borders[border as usize].polices {
                let passages = &mut programs.passages;
                let passage = *self.passages.entry((border, exits)).or_insert_with_key(|(border, exits)| {
                    passages.push(Passage { border: *border, peers: exits.clone() });
                    passages.len() as u32 - 1
                });
                steps.push(Step::Ingress(passage));
            }
            if naming.messages_of.is_none() && naming.borders[border as usize].labeller.is_some() {
                steps.push(Step::Label(border));
            }
        }
        Ok(None)
    }

    /// The programs for packets from `from` to all of `to`.
    fn routes(
        &mut self,
        from: NodeId,
        to: &[(NodeId, Step)],
        multipath: Multipath,
        random: &mut Substream,
        programs: &mut Programs,
        naming: &Naming<'_>,
    ) -> Result<Routes, BuildError> {
        let network = naming.network;
        let multipath = if to.len() > 1 { Multipath::None } else { multipath };
        let mut alternatives: Vec<Vec<Branchlet>> = Vec::new();
        for &(target, end) in to {
            let paths = self.routing.paths(from, target, multipath, random);
            if paths.is_empty() {
                return Err(BuildError::Unreachable {
                    flow: naming.flow.to_owned(),
                    from: network.nodes[from.0 as usize].name.clone(),
                    to: network.nodes[target.0 as usize].name.clone(),
                });
            }
            for (index, links) in paths.into_iter().enumerate() {
                let mut nodes = vec![from];
                nodes.extend(links.iter().map(|&link| self.routing.far_end(link)));
                if alternatives.len() <= index {
                    alternatives.push(Vec::new());
                }
                alternatives[index].push(Branchlet { nodes, links, end });
            }
        }
        let mut starts = alternatives
            .iter()
            .map(|receivers| self.plan(receivers, programs, naming))
            .collect::<Result<Vec<u32>, BuildError>>()?;
        Ok(if starts.len() == 1 {
            Routes::One(starts.remove(0))
        } else {
            // The choice of a path for each packet goes on with the stream that chose the paths of the flow.
            Routes::Many(Box::new(Spread { programs: starts, random: random.clone() }))
        })
    }
}

/// What is decided next at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Leave,
    Enter,
    Forward,
}

impl Network {
    /// A simulation of this network in the run with `seed`, watched by `observer`.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build<O: Observer>(self, seed: u64, observer: O) -> Result<Simulation<O>, BuildError> {
        self.build_with(seed, observer, PortChoice::Cheapest)
    }

    /// The same with a scheduled port on every link, also where a planned one would do: for checking one by the other.
    #[doc(hidden)]
    pub fn build_scheduled<O: Observer>(self, seed: u64, observer: O) -> Result<Simulation<O>, BuildError> {
        self.build_with(seed, observer, PortChoice::Scheduled)
    }

    fn build_with<O: Observer>(
        self,
        seed: u64,
        observer: O,
        ports: PortChoice,
    ) -> Result<Simulation<O>, BuildError> {
        let mut world = World {
            now: Time::ZERO,
            events: crate::event::EventQueue::default(),
            arena: crate::arena::Arena::default(),
            messages: crate::arena::Messages::default(),
            media: self.links.iter().filter(|link| link.half_duplex).map(|_| SharedMedium::new()).collect(),
            flows: Vec::new(),
            totals: Totals::default(),
            observer,
            hop_ports: Vec::new(),
            hop_drops: Vec::new(),
            trails: None,
        };
        let links = build_links(&self, seed, ports);
        let borders = build_borders(&self, seed);
        world.flows = vec![FlowCounters::default(); self.flows.len() * 2 + borders.len() + self.hops.len()];
        let mut planner = Planner::new(&self, &borders);
        let mut programs = Programs::default();
        let (mut flows, mut connections, mut connection_flow) =
            (Vec::with_capacity(self.flows.len()), Vec::new(), Vec::new());
        let (mut sinks, mut streams) = (Vec::new(), Vec::new());
        for (index, spec) in self.flows.iter().enumerate() {
            let first_sink = sinks.len() as u32;
            let carrier = match &spec.transport {
                TransportSpec::Tcp(config) => {
                    connections.push(Connection {
                        sender: TcpSender::new(config),
                        receiver: TcpReceiver::new(config),
                        send_alarm: Alarm::default(),
                        receive_alarm: Alarm::default(),
                    });
                    connection_flow.push(index as u32);
                    Carrier::Tcp(connections.len() as u32 - 1)
                }
                TransportSpec::Tfrc(config) => {
                    streams.push(Stream::new(index as u32, config));
                    Carrier::Stream(streams.len() as u32 - 1)
                }
                TransportSpec::Udp { header_bytes } => Carrier::Datagrams { header_bytes: *header_bytes },
                TransportSpec::External => Carrier::External,
            };
            let (forward, reverse) =
                plan_flow(&self, index, carrier, first_sink, &borders, &mut planner, seed, &mut programs)?;
            let source_seed = Seed::for_component(seed, &format!("flows.{}.source", spec.name));
            let datagrams = matches!(carrier, Carrier::Datagrams { .. });
            let source = Source::new(spec.application.clone(), datagrams, spec.start, spec.stop, source_seed);
            let mut source_alarm = Alarm::default();
            if let Some(start) = source.next() {
                source_alarm.arm(start, Wake::Source.token(index as u32), &mut world.events);
            }
            sinks.resize(sinks.len() + spec.to.len(), SinkCounters::default());
            flows.push(Flow {
                headers: spec.headers,
                dscp: spec.dscp,
                class: spec.class,
                carrier,
                source,
                source_alarm,
                forward,
                reverse,
                first_sink,
                sinks: spec.to.len() as u32,
            });
        }
        for (index, domain) in self.domains.iter().enumerate() {
            let is_entered = |passage: &Passage| borders[passage.border as usize].domain as usize == index;
            if domain.mechanism.is_some()
                && !self.flows.is_empty()
                && domain.unpoliced.len() < domain.edges.len()
                && !programs.passages.iter().any(is_entered)
            {
                return Err(BuildError::DomainUncrossed { domain: domain.name.clone() });
            }
        }
        let markers = build_markers(&self, seed);
        let hops = hop::build(&self, seed, &mut programs, &mut world);
        let parts = Parts {
            links,
            flows,
            connections,
            streams,
            connection_flow,
            sinks,
            borders,
            markers,
            hops,
            programs,
            planner,
        };
        let network = Self { links: Vec::new(), ..self };
        let mut simulation = Simulation::assemble(network, world, parts, seed);
        simulation.arm_script();
        Ok(simulation)
    }
}

/// What the builder hands over.
pub(crate) struct Parts {
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) connection_flow: Vec<u32>,
    pub(crate) sinks: Vec<SinkCounters>,
    pub(crate) borders: Vec<Border>,
    pub(crate) markers: Vec<MarkerPoint>,
    pub(crate) hops: Vec<Hop>,
    pub(crate) programs: Programs,
    pub(crate) planner: Planner,
}

/// The programs of flow `index`, there and back.
#[allow(clippy::too_many_arguments, reason = "the parts of a simulation, before they are one")]
fn plan_flow(
    network: &Network,
    index: usize,
    carrier: Carrier,
    first_sink: u32,
    borders: &[Border],
    planner: &mut Planner,
    run_seed: u64,
    programs: &mut Programs,
) -> Result<(Routes, Routes), BuildError> {
    let spec = &network.flows[index];
    let stream = |way: &str| match network.multipath {
        Multipath::None => Substream::new(Seed(0)),
        _ => Substream::new(Seed::for_component(run_seed, &format!("flows.{}.{way}", spec.name))),
    };
    let markers = planner.markers.get(&(index as u32)).cloned().unwrap_or_default();
    let naming = Naming { network, flow: &spec.name, borders, markers: &markers, messages_of: None };
    // Acknowledgments are not marked.
    let naming_back = Naming { markers: &[], ..naming };
    let ends: Vec<(NodeId, Step)> = match carrier {
        Carrier::Tcp(connection) => vec![(spec.to[0], Step::TcpData(connection))],
        Carrier::Stream(number) => vec![(spec.to[0], Step::StreamData(number))],
        Carrier::External => vec![(spec.to[0], Step::External(first_sink))],
        Carrier::Datagrams { .. } => {
            spec.to.iter().zip(first_sink..).map(|(&node, sink)| (node, Step::Datagram(sink))).collect()
        }
    };
    let forward =
        planner.routes(spec.from, &ends, network.multipath, &mut stream("path"), programs, &naming)?;
    let back = match carrier {
        Carrier::Tcp(connection) => Step::TcpAck(connection),
        Carrier::Stream(number) => Step::StreamReport(number),
        Carrier::Datagrams { .. } | Carrier::External => return Ok((forward, Routes::One(0))),
    };
    let mut random = stream("path_back");
    let reverse = planner.routes(
        spec.to[0],
        &[(spec.from, back)],
        network.multipath,
        &mut random,
        programs,
        &naming_back,
    )?;
    Ok((forward, reverse))
}

fn build_links(network: &Network, seed: u64, choice: PortChoice) -> Vec<Link> {
    let mut ports = vec![0u16; network.nodes.len()];
    let mut links = Vec::with_capacity(network.links.len() * 2);
    let mut media = 0;
    let hop_links = hop::links(network);
    for (index, spec) in network.links.iter().enumerate() {
        let far_ports = spec.ends.map(|end| {
            let port = ports[end.0 as usize];
            ports[end.0 as usize] = port.wrapping_add(1);
            port
        });
        for (reverse, direction) in [(false, &spec.forward), (true, &spec.reverse)] {
            let way = if reverse { "reverse" } else { "forward" };
            let end = usize::from(!reverse);
            let component = format!("links.{}.{way}", spec.name);
            let id = LinkId::of(index as u32, reverse);
            let share = spec.half_duplex.then_some(Share { medium: media, side: u8::from(reverse) });
            let choice = match share {
                _ if hop_links.get(id.0 as usize) == Some(&true) => PortChoice::Hop(share),
                Some(share) => PortChoice::Shared(share),
                None => choice,
            };
            links.push(build_direction(
                id,
                (spec.ends[end].0, far_ports[end]),
                direction,
                Seed::for_component(seed, &component),
                [".medium", ".medium.duplicate"]
                    .map(|part| Seed::for_component(seed, &format!("{component}{part}"))),
                choice,
            ));
        }
        media += u32::from(spec.half_duplex);
    }
    links
}

fn build_direction(
    id: LinkId,
    far: (u32, u16),
    spec: &DirectionSpec,
    queue_seed: Seed,
    medium_seeds: [Seed; 2],
    choice: PortChoice,
) -> Link {
    let context = Context { seed: queue_seed, link_rate: spec.rate, mtu_bytes: MTU_BYTES };
    let medium = Medium::new(spec.loss.clone(), spec.reorder, spec.duplicate, medium_seeds);
    Link::new(id, far, spec, &context, medium, choice)
}

fn build_markers(network: &Network, seed: u64) -> Vec<MarkerPoint> {
    let point = |spec: &MarkerSpec| {
        let context = Context {
            seed: Seed::for_component(seed, &format!("markers.{}", spec.name)),
            link_rate: tidegate_units::BitRate::MAX,
            mtu_bytes: MTU_BYTES,
        };
        MarkerPoint {
            marker: spec.config.build(&context, Time::ZERO),
            counters: crate::marker::MarkerCounters::default(),
        }
    };
    network.markers.iter().map(point).collect()
}

fn build_borders(network: &Network, seed: u64) -> Vec<Border> {
    let mut borders = Vec::new();
    let around = nesting::around(network);
    for (index, domain) in network.domains.iter().enumerate() {
        for &node in &domain.edges {
            let name = format!("domains.{}.{}", domain.name, network.nodes[node.0 as usize].name);
            let context = Context {
                seed: Seed::for_component(seed, &name),
                link_rate: tidegate_units::BitRate::MAX,
                mtu_bytes: MTU_BYTES,
            };
            let site = BorderSite { border: PeerId(borders.len() as u32), level: around[index].len() as u8 };
            let control = domain.mechanism.as_ref().map(|config| Control::new(config, site, &context));
            let losses = Seed::for_component(seed, &format!("{name}.control_loss"));
            let clock = domain.clocks.iter().find(|(edge, _)| *edge == node).map(|(_, spec)| *spec);
            borders.push(Border {
                node: node.0,
                domain: index as u32,
                polices: control.is_some() && !domain.unpoliced.contains(&node),
                control,
                clock: Clock::new(clock.unwrap_or_default()),
                labeller: domain.labels.as_ref().map(CsfqLabellerConfig::build),
                control_loss: (domain.control_loss, Substream::new(losses)),
                routes: HashMap::new(),
                alarm: Alarm::default(),
                shaper_alarm: Alarm::default(),
                drops_by_reason: [0; tidegate_packet::DropReason::ALL.len()],
            });
        }
    }
    borders
}

impl<O: Observer> Simulation<O> {
    /// The program of control messages from border `from` to border `to`.
    pub(crate) fn control_route(&mut self, from: u32, to: PeerId) -> u32 {
        if let Some(&route) = self.borders[from as usize].routes.get(&to) {
            return route;
        }
        let (source, target) = (self.borders[from as usize].node, self.borders[to.0 as usize].node);
        let naming = Naming {
            network: &self.network,
            flow: "control",
            borders: &self.borders,
            markers: &[],
            messages_of: Some(self.borders[from as usize].domain),
        };
        let ends = [(NodeId(target), Step::Control(to.0))];
        let mut random = Substream::new(Seed(0));
        let planned = self.planner.routes(
            NodeId(source),
            &ends,
            Multipath::None,
            &mut random,
            &mut self.programs,
            &naming,
        );
        let route = if let Ok(Routes::One(route)) = planned {
            route
        } else {
            self.programs.push(Step::Nowhere);
            self.programs.position() - 1
        };
        self.borders[from as usize].routes.insert(to, route);
        route
    }

    /// Links went down or up: every flow takes the shortest path that there is now. Packets under way go on as they were.
    pub(crate) fn reroute(&mut self) {
        let links = &self.links;
        self.planner.routing.update(|link| links[link.0 as usize].is_up());
        for border in &mut self.borders {
            border.routes.clear();
        }
        for index in 0..self.flows.len() {
            let (carrier, first_sink) = (self.flows[index].carrier, self.flows[index].first_sink);
            let planned = plan_flow(
                &self.network,
                index,
                carrier,
                first_sink,
                &self.borders,
                &mut self.planner,
                self.run_seed,
                &mut self.programs,
            );
            let (forward, reverse) = planned.unwrap_or_else(|_| {
                let nowhere = Routes::One(self.programs.position());
                self.programs.push(Step::Nowhere);
                (nowhere.clone(), nowhere)
            });
            self.flows[index].forward = forward;
            self.flows[index].reverse = reverse;
        }
    }
}
