//! How much routers keep: entries of their tables while all flows are active, by what is configured and which way flows
//! take. What is there however many flows there are (counters, averages, one probability) is not counted.
//!
//! | what | an entry is |
//! |---|---|
//! | drop-tail, RED, BLUE and the like | none |
//! | FRED, RED with `flows_rtt` | a flow that crosses the link |
//! | RED with a penalty box | a remembered notification |
//! | SFB | a bin; twice as many where the next hash functions are warmed up |
//! | DRR, WFQ, priority | a queue: a flow (its acknowledgments are another), class, input port or codepoint; SFQ: a bin; CBQ: a class |
//! | labels of CSFQ | a flow that enters there |
//! | NBP | a flow (or what `classify` says) that enters there, and one that leaves there |
//! | IEC, EEC | a virtual link that begins there, and one that ends there; with `tcp_rate` each TCP that enters |
//! | NBQ | a flow by its name (destination and protocol; no TCP), and a neighbouring router |
//! | back-pressure | a pair of input and output; `selective`: also of input and destination |

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::{FlowPath, LinkId};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::Classify;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::hop::backpressure::Feedback;
use tidegate_mechanism::queue::SfbConfig;
use tidegate_mechanism::schedule::Classification as QueueClassify;
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{Flow, Link, Manager, Mechanism, NodeIndex, NodeKind, Queue, Transport, Way};

/// One direction of a flow, with the way it takes.
pub(super) struct Stream<'s> {
    pub(super) flow: &'s Flow,
    /// Whether these are the acknowledgments.
    pub(super) is_back: bool,
    pub(super) path: FlowPath,
}

impl Stream<'_> {
    /// Where it goes.
    fn destination(&self) -> NodeIndex {
        if self.is_back { self.flow.from } else { self.flow.to[0] }
    }

    /// Where it comes from.
    fn source(&self) -> NodeIndex {
        if self.is_back { self.flow.to[0] } else { self.flow.from }
    }

    /// What tells it from other streams, as far as `classify` looks.
    fn key(&self, number: usize, classify: QueueClassify, input: Option<LinkId>) -> u64 {
        match classify {
            QueueClassify::Flow => number as u64,
            QueueClassify::Class => u64::from(self.flow.class),
            QueueClassify::InputPort => input.map_or(u64::MAX, |link| u64::from(link.0)),
            QueueClassify::Dscp => u64::from(self.flow.dscp.get()),
            QueueClassify::Precedence => u64::from(self.flow.dscp.get() >> 3),
        }
    }
}

/// By router: how many entries it keeps.
pub(super) fn entries(scenario: &Scenario, streams: &[Stream<'_>]) -> BTreeMap<NodeIndex, u64> {
    let is_router = |node: NodeIndex| scenario.nodes[node.index()].kind == NodeKind::Router;
    let routers = (0..scenario.nodes.len() as u32).map(NodeIndex).filter(|node| is_router(*node));
    let mut entries: BTreeMap<NodeIndex, u64> = routers.map(|node| (node, 0)).collect();
    for (index, link) in scenario.links.iter().enumerate() {
        for (way, sender) in [(Way::Forward, link.a), (Way::Reverse, link.b)] {
            if let Some(count) = entries.get_mut(&sender) {
                let id = LinkId::of(index as u32, way == Way::Reverse);
                *count += in_queue(&link.direction(way).queue, &crossing(streams, id));
            }
        }
    }
    for domain in &scenario.domains {
        for &node in domain.edges.iter().chain(&domain.core) {
            let kept =
                if domain.edges.contains(&node) { at_edge(&domain.mechanism, node, streams) } else { 0 };
            *entries.entry(node).or_default() += kept + in_router(&domain.mechanism, node, scenario, streams);
        }
    }
    for node in streams.iter().flat_map(|stream| &stream.path.labellers) {
        *entries.entry(NodeIndex(node.0)).or_default() += 1;
    }
    entries
}

/// The streams that cross `link`, with their numbers and the link before it.
fn crossing<'a>(streams: &'a [Stream<'a>], link: LinkId) -> Vec<(usize, &'a Stream<'a>, Option<LinkId>)> {
    let each = streams.iter().enumerate();
    each.filter_map(|(number, stream)| {
        let at = stream.path.links.iter().position(|hop| *hop == link)?;
        Some((number, stream, at.checked_sub(1).map(|before| stream.path.links[before])))
    })
    .collect()
}

fn in_queue(queue: &Queue, crossing: &[(usize, &Stream<'_>, Option<LinkId>)]) -> u64 {
    let flows = crossing.len() as u64;
    let queues = |classify: QueueClassify| {
        let keys = crossing.iter().map(|(number, stream, input)| stream.key(*number, classify, *input));
        keys.collect::<BTreeSet<_>>().len() as u64
    };
    let managed = |manager: Option<&Manager>| 1 + manager.map_or(0, |manager| in_manager(manager, 1));
    match queue {
        Queue::Drr(drr) => queues(drr.classify) * managed(drr.queue.as_ref()),
        Queue::Wfq(wfq) => queues(wfq.classify) * managed(wfq.queue.as_ref()),
        Queue::Priority(priority) => queues(priority.classify) * managed(priority.queue.as_ref()),
        Queue::Sfq(sfq) => u64::from(sfq.buckets) * managed(sfq.queue.as_ref()),
        Queue::FqCodel(fq) => u64::from(fq.flows.queues),
        Queue::FqPie(fq) => u64::from(fq.flows.queues),
        Queue::Fq(fq) => u64::from(fq.queues),
        Queue::Cake(cake) => u64::from(cake.queues) * cake.tins(),
        Queue::Cbq(cbq) => cbq.classes.len() as u64,
        // L and C, however many flows there are.
        Queue::DualPi2(_) => 2,
        Queue::Fifo(manager) => in_manager(manager, flows),
        // Nothing is known of it.
        Queue::Own(_) => 0,
    }
}

/// The same for a manager of a queue that `flows` flows share.
fn in_manager(manager: &Manager, flows: u64) -> u64 {
    match manager {
        Manager::Fred(_) | Manager::TcpFriendly(_) => flows,
        Manager::Red(red) if red.flows_rtt.is_some() => flows,
        Manager::RedPenaltyBox(boxed) => u64::from(boxed.log),
        Manager::Sfb(sfb) => bins(sfb),
        Manager::Ered(ered) if ered.fair => flows,
        // Counters, averages and probabilities, however many flows there are.
        _ => 0,
    }
}

fn bins(sfb: &SfbConfig) -> u64 {
    let sets = if sfb.rehash.is_some() && sfb.double_buffered { 2 } else { 1 };
    u64::from(sfb.levels) * u64::from(sfb.bins) * sets
}

/// What a border keeps.
fn at_edge(mechanism: &Mechanism, node: NodeIndex, streams: &[Stream<'_>]) -> u64 {
    // Streams that enter here (0), and that leave here (1), with the border at the other end.
    let passing = |end: usize| {
        streams.iter().enumerate().flat_map(move |(number, stream)| {
            let here = stream.path.domains.iter().filter(move |ends| ends[end].0 == node.0);
            here.map(move |ends| (number, stream, ends[1 - end]))
        })
    };
    let virtual_links = || {
        let ends = |end| passing(end).map(|(_, _, peer)| peer).collect::<BTreeSet<_>>().len() as u64;
        ends(0) + ends(1)
    };
    let Some(edge) = mechanism.edge() else { return 0 };
    match edge {
        EdgeConfig::Nbp(nbp) => {
            let controlled = |end| {
                let keys = passing(end).map(|(number, stream, _)| match nbp.classify {
                    Classify::Flow => (number as u32, 0),
                    Classify::AddressPair => (stream.source().0, stream.destination().0),
                    Classify::DestinationNetwork => {
                        let host_bits = 32_u32.saturating_sub(u32::from(nbp.prefix));
                        (
                            0x0a00_0001_u32
                                .wrapping_add(stream.destination().0)
                                .checked_shr(host_bits)
                                .unwrap_or(0),
                            0,
                        )
                    }
                });
                keys.collect::<BTreeSet<_>>().len() as u64
            };
            controlled(0) + controlled(1)
        }
        // Nothing is known of it.
        EdgeConfig::Own(_) => 0,
        EdgeConfig::Path(_) | EdgeConfig::Fixed(_) => virtual_links(),
        // A baseline for each pinger, where anything enters.
        EdgeConfig::Autorate(config) => {
            if passing(0).next().is_some() {
                u64::from(config.pingers)
            } else {
                0
            }
        }
        EdgeConfig::Iec(_) | EdgeConfig::Eec(_) => {
            let counts = edge.overlay().is_some_and(|overlay| overlay.tcp_rate.is_some());
            virtual_links() + tcps(counts, passing(0).map(|(_, stream, _)| stream))
        }
    }
}

fn tcps<'a>(counts: bool, streams: impl Iterator<Item = &'a Stream<'a>>) -> u64 {
    let is_data =
        |stream: &&Stream<'_>| matches!(stream.flow.transport, Transport::Tcp(_)) && !stream.is_back;
    if counts { streams.filter(is_data).count() as u64 } else { 0 }
}

/// What any router of a domain keeps, edge or not.
fn in_router(mechanism: &Mechanism, node: NodeIndex, scenario: &Scenario, streams: &[Stream<'_>]) -> u64 {
    let ports: Vec<&Link> = scenario.links.iter().filter(|link| link.a == node || link.b == node).collect();
    let leads_on = |link: &&&Link| {
        let far = if link.a == node { link.b } else { link.a };
        scenario.nodes[far.index()].kind == NodeKind::Router
    };
    let neighbours = ports.iter().filter(leads_on).count() as u64;
    // Pairs of the link by which a stream comes to this router and what it is called there.
    let named = |is_counted: &dyn Fn(&Stream<'_>) -> bool| {
        let mut names = BTreeSet::new();
        for stream in streams.iter().filter(|stream| is_counted(stream)) {
            for pair in stream.path.links.windows(2) {
                let link = &scenario.links[pair[1].index() as usize];
                if [link.a, link.b][usize::from(pair[1].0 % 2 == 1)] == node {
                    names.insert((pair[0], stream.destination()));
                }
            }
        }
        names
    };
    let Some(hop) = mechanism.hop() else { return 0 };
    match hop {
        HopConfig::Nbq(_) => {
            let flows = named(&|stream| matches!(stream.flow.transport, Transport::Udp(_)));
            let names: BTreeSet<NodeIndex> = flows.into_iter().map(|(_, destination)| destination).collect();
            names.len() as u64 + neighbours
        }
        HopConfig::BackPressure(config) => {
            // All hosts are one input.
            let pairs = ports.len() as u64 * (neighbours + 1);
            let routes = match config.feedback {
                Feedback::Selective => named(&|_| true).len() as u64,
                Feedback::Aggregate | Feedback::Circuit => 0,
            };
            pairs + routes.min(u64::from(config.routes_max))
        }
    }
}
