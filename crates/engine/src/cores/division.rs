//! Who belongs to which part, and what can not be divided.

use std::fmt;

use tidegate_units::Span;

use super::choose::EVENTS_MIN;
use crate::ids::{LinkId, NodeId};
use crate::link::DirectionSpec;
use crate::network::{ApplicationSpec, Change, EventOrder, LinkSpec, Network, TransportSpec};

/// Parts, at most: windows are the shorter the more there are.
pub(super) const PARTS_MAX: usize = 64;
/// Pairs of borders between which messages have a way from the start, at most.
const PAIRS_MAX: usize = 1 << 20;

/// Which part of a network each of its nodes belongs to.
#[derive(Clone, Debug)]
pub struct Division {
    parts: usize,
    of_node: Vec<u8>,
    /// By direction of a link: where it begins, and where it ends.
    of_link: Vec<[u8; 2]>,
    /// By flow: where it is sent, and where it is received.
    of_flow: Vec<[u8; 2]>,
    of_marker: Vec<u8>,
    /// What a packet takes at least from one part to another.
    lookahead: Span,
}

/// Why a simulation runs on one core.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Undivided {
    /// Events of one instant are in the order of scheduling.
    Order,
    /// It has something that knows of all of the network at once, or of both ends of a flow.
    Has(&'static str),
    /// Every link is short, or has what only one core can do to it.
    NoLongLink,
    /// The run is over in less time than dividing it takes.
    Short {
        /// How many events its beginning lets expect.
        events: f64,
    },
    /// So many times as fast it would be, with so many packet-hops in a window.
    DoesNotPay {
        /// Times as fast.
        gain: f64,
        /// Packet-hops of all parts in a window.
        hops: f64,
        /// How long a window is.
        window: Span,
    },
}

impl fmt::Display for Undivided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order => f.write_str(
                "events of one instant are handled in the order in which they were scheduled, which one core alone knows; \
                 `event_order = \"numbered\"` in the scenario allows several",
            ),
            Self::Has(what) => write!(f, "{what} can not be divided among cores yet"),
            Self::NoLongLink => f.write_str(
                "there is no link to cut: one with a delay, without a medium, a change of delay or state, or a mechanism between \
                 neighbours, and not half-duplex",
            ),
            Self::Short { events } => write!(
                f,
                "the run is too short for it: its beginning lets expect {:.1} million events, and it pays from {:.0} million on",
                events / 1e6,
                EVENTS_MIN / 1e6
            ),
            Self::DoesNotPay { gain, hops, window } => write!(
                f,
                "it would be {gain:.2} times as fast: parts would meet every {window}, after {hops:.0} packet-hops"
            ),
        }
    }
}

impl Division {
    /// A division by the part of each node of `network`, as they are numbered from zero.
    ///
    /// # Errors
    /// If the network cannot be divided, or not like this.
    ///
    /// # Panics
    /// If there is not a part for each node.
    pub fn new(network: &Network, of_node: &[u8]) -> Result<Self, Undivided> {
        if let Some(obstacle) = obstacle(network) {
            return Err(obstacle);
        }
        let of = |node: NodeId| of_node[node.0 as usize];
        let mut lookahead = Span::MAX;
        let mut of_link = Vec::with_capacity(2 * network.links.len());
        for (link, delay) in network.links.iter().zip(delays_of_cuts(network)) {
            let [one, other] = link.ends.map(of);
            of_link.extend([[one, other], [other, one]]);
            if one == other {
                continue;
            }
            lookahead = lookahead.min(delay.ok_or(Undivided::NoLongLink)?);
        }
        if together(network).iter().any(|[one, other]| of(*one) != of(*other)) {
            return Err(Undivided::Has("a marker or a multicast flow in several parts"));
        }
        let of_flow = network.flows.iter().map(|flow| [of(flow.from), of(flow.to[0])]).collect();
        let of_marker = network
            .markers
            .iter()
            .map(|marker| {
                let first = marker.flows.first().map(|&flow| network.flows[flow as usize].from);
                marker.at.or(first).map_or(0, of)
            })
            .collect();
        let parts = 1 + of_node.iter().copied().max().map_or(0, usize::from);
        Ok(Self { parts, of_node: of_node.to_vec(), of_link, of_flow, of_marker, lookahead })
    }

    /// How many parts there are.
    pub const fn parts(&self) -> usize {
        self.parts
    }

    /// What a packet takes at least from one part to another; [`Span::MAX`] if none goes.
    pub const fn lookahead(&self) -> Span {
        self.lookahead
    }

    pub(super) fn of_node(&self, node: u32) -> usize {
        usize::from(self.of_node[node as usize])
    }

    pub(super) fn near(&self, link: LinkId) -> usize {
        usize::from(self.of_link[link.0 as usize][0])
    }

    pub(super) fn far(&self, link: LinkId) -> usize {
        usize::from(self.of_link[link.0 as usize][1])
    }

    pub(super) fn source(&self, flow: usize) -> usize {
        usize::from(self.of_flow[flow][0])
    }

    pub(super) fn destination(&self, flow: usize) -> usize {
        usize::from(self.of_flow[flow][1])
    }

    pub(super) fn marker(&self, marker: usize) -> usize {
        usize::from(self.of_marker[marker])
    }
}

/// What keeps `network` whole, wherever it is cut.
pub(super) fn obstacle(network: &Network) -> Option<Undivided> {
    let has_flow = |is: fn(&ApplicationSpec, &TransportSpec) -> bool| {
        network.flows.iter().any(|flow| is(&flow.application, &flow.transport))
    };
    let varies = |way: &DirectionSpec| way.reorder.is_some() || way.jitter.is_some();
    let mut edges =
        network.domains.iter().filter(|domain| domain.mechanism.is_some()).map(|one| one.edges.len());
    let whole = [
        (has_flow(|_, transport| matches!(transport, TransportSpec::External)), "traffic from outside"),
        (!network.crowds.is_empty(), "a crowd (transfers, pages, video)"),
        (!network.fluids.is_empty(), "a fluid"),
        (!network.hops.is_empty(), "a mechanism between neighbours (`router` of a node)"),
        (network.follows.is_some(), "routing that follows congestion"),
        (
            network.links.iter().any(|link| varies(&link.forward) || varies(&link.reverse)),
            "a medium that reorders, or with jitter,",
        ),
        (!network.reservations.is_empty(), "a change of a reservation"),
        (!network.border_changes.is_empty(), "a step of a border's clock, or its restart,"),
        (edges.any(|count| count * count > PAIRS_MAX), "a domain with more than 1,000 edges"),
    ];
    let has = whole.into_iter().find(|(is_there, _)| *is_there).map(|(_, what)| Undivided::Has(what));
    // What a key of the file can change comes last.
    has.or_else(|| (network.event_order != EventOrder::Numbered).then_some(Undivided::Order))
}

/// By link: what a packet takes at least on it, if it can be cut.
pub(super) fn delays_of_cuts(network: &Network) -> Vec<Option<Span>> {
    let mut moves = vec![false; network.links.len()];
    for scripted in &network.script {
        moves[scripted.link.0 as usize / 2] |= !matches!(scripted.change, Change::Rate(_));
    }
    let delay_of = |(link, it_moves): (&LinkSpec, bool)| {
        let delay = link.forward.delay.min(link.reverse.delay);
        let is_plain = [&link.forward, &link.reverse]
            .into_iter()
            .all(|way| way.loss.is_none() && way.duplicate == 0.0 && way.circuit.is_none());
        (is_plain && !it_moves && !link.half_duplex && !delay.is_zero()).then_some(delay)
    };
    network.links.iter().zip(moves).map(delay_of).collect()
}

/// Nodes that belong together for what is at both: receivers of one flow, and hosts with one marker.
pub(super) fn together(network: &Network) -> Vec<[NodeId; 2]> {
    let receivers = network.flows.iter().flat_map(|flow| flow.to.windows(2).map(|two| [two[0], two[1]]));
    let aggregates = network.markers.iter().filter(|marker| marker.at.is_none()).flat_map(|marker| {
        let host = |flow: u32| network.flows[flow as usize].from;
        marker.flows.windows(2).map(move |two| [host(two[0]), host(two[1])])
    });
    receivers.chain(aggregates).collect()
}
