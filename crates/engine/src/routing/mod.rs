//! Shortest paths.
//!
//! Hosts that hang on a single link do not take part: the distance of their router serves for all of them. Nor are routers searched for
//! that, but for such hosts, hang on a single link, as edges of an access network do: all ways to them are those to their neighbour, and
//! then over that link. So building costs one search per router in between that has destinations behind it, and a walk per flow, however many hosts
//! and edges there are. Where there are very many routers, such a search is made for those alone that many flows go to; for others it is one from
//! both ends ([`pair`]), and nothing is kept of it.

mod pair;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tidegate_mechanism::random::{Seed, Substream};

use crate::ids::{LinkId, NodeId};
use crate::network::{Multipath, Network, NodeKind};
use pair::{Graph, Pair};

/// In a network of so many nodes distances to each destination are known from the first flow on that goes there.
const FEW_NODES: usize = 4096;
/// In larger ones from this flow on: as much work as a search from both ends often is.
const FLOWS_FOR_TABLE: u32 = 8;
/// Distances that are kept at most (half a gigabyte); then searches are from both ends.
const DISTANCES_MAX: usize = 1 << 26;

/// The most paths that a flow spreads its packets over.
pub const PATHS_MAX: usize = 64;

/// A path: the directions of the links that it crosses.
pub type Path = Vec<LinkId>;

#[derive(Clone, Copy, Debug)]
struct Hop {
    link: LinkId,
    /// At its other end.
    node: NodeId,
    cost: u64,
}

impl Network {
    /// The node that sends over `link`.
    pub fn near_end(&self, link: LinkId) -> NodeId {
        self.links[link.index() as usize].ends[usize::from(!link.0.is_multiple_of(2))]
    }

    /// By flow: the directions of links that its packets cross to its receivers, nearest first, one list for each path that
    /// they may take.
    pub fn ways(&self) -> Vec<Vec<Path>> {
        let mut routing = Routing::new(self);
        let mut random = Substream::new(Seed(0));
        let multipath = match self.multipath {
            Multipath::None => Multipath::None,
            Multipath::Flow | Multipath::Packet => Multipath::Packet,
        };
        let mut way = |from, to| routing.paths(from, to, multipath, &mut random);
        self.flows.iter().map(|flow| flow.to.iter().flat_map(|&to| way(flow.from, to)).collect()).collect()
    }
}

/// Routes over the links that are up.
#[derive(Debug)]
pub struct Routing {
    /// By link: its ends and its cost.
    links: Vec<([NodeId; 2], u32)>,
    forwards: Vec<bool>,
    /// By direction of a link.
    up: Vec<bool>,
    /// By node: for a host that hangs on a single link, its neighbour and the way there. A router may have very many of
    /// those, and a search need not look at any.
    stubs: Vec<Option<(NodeId, LinkId)>>,
    /// By node: for what has a single link besides those to stubs, its neighbour and the way there. A path to it is one to that.
    leaves: Vec<Option<(NodeId, LinkId)>>,
    /// By node: the directions that are up out of it, but for those to stubs.
    outward: Vec<Vec<Hop>>,
    /// By node: the directions that are up into it, with where they come from, but for those from stubs.
    inward: Vec<Vec<Hop>>,
    /// By destination: distance from every node.
    distances: HashMap<NodeId, Vec<u64>>,
    /// By destination whose distances are not known: how often a path to it was asked for.
    asked: HashMap<NodeId, u32>,
    /// The search from both ends, if there was one.
    pair: Option<Box<Pair>>,
    /// [`FEW_NODES`], but in tests.
    few_nodes: usize,
}

/// What is known of the ways to one destination.
#[derive(Clone, Copy)]
enum Ways<'a> {
    /// The distance from each node.
    All(&'a [u64]),
    /// Those of one origin.
    Some(&'a Pair),
}

impl Ways<'_> {
    /// Whether a way of cost `total` that goes over `hop` after it has cost `walked` can get there.
    fn leads(self, hop: &Hop, walked: u64, total: u64) -> bool {
        let walked = walked + hop.cost;
        match self {
            Self::All(distances) => walked.saturating_add(distances[hop.node.0 as usize]) == total,
            Self::Some(pair) => pair.leads(hop.node, walked),
        }
    }
}

const UNREACHABLE: u64 = u64::MAX;

impl Routing {
    /// Over all links of `network`.
    pub fn new(network: &Network) -> Self {
        let forwards = network.nodes.iter().map(|node| node.kind == NodeKind::Router).collect();
        Self::over(network.links.iter().map(|link| (link.ends, link.cost)).collect(), forwards)
    }

    /// Over `links`, which have ends and costs, between nodes of which `forwards` tells whether they are routers.
    fn over(links: Vec<([NodeId; 2], u32)>, forwards: Vec<bool>) -> Self {
        let mut attached: Vec<Vec<(NodeId, LinkId)>> = vec![Vec::new(); forwards.len()];
        for (index, &(ends, _)) in links.iter().enumerate() {
            for (reverse, [from, to]) in [(false, ends), (true, [ends[1], ends[0]])] {
                attached[from.0 as usize].push((to, LinkId::of(index as u32, reverse)));
            }
        }
        let stub = |(here, is_router): (&Vec<(NodeId, LinkId)>, &bool)| match here[..] {
            [only] if !is_router => Some(only),
            _ => None,
        };
        let stubs: Vec<Option<(NodeId, LinkId)>> = attached.iter().zip(&forwards).map(stub).collect();
        let leaf = |here: Vec<(NodeId, LinkId)>| {
            let mut others = here.into_iter().filter(|(node, _)| stubs[node.0 as usize].is_none());
            others.next().filter(|_| others.next().is_none())
        };
        let leaves = attached.into_iter().map(leaf).collect();
        let mut routing = Self {
            links,
            forwards,
            up: Vec::new(),
            stubs,
            leaves,
            outward: Vec::new(),
            inward: Vec::new(),
            distances: HashMap::new(),
            asked: HashMap::new(),
            pair: None,
            few_nodes: FEW_NODES,
        };
        routing.update(|_| true, |_| 0);
        routing
    }

    /// From now on only the directions of links for which `is_up` carry packets, and each costs more by `penalty`.
    pub fn update(&mut self, is_up: impl Fn(LinkId) -> bool, penalty: impl Fn(LinkId) -> u32) {
        self.distances.clear();
        self.asked.clear();
        self.up = (0..self.links.len() as u32 * 2).map(|link| is_up(LinkId(link))).collect();
        self.outward = vec![Vec::new(); self.forwards.len()];
        self.inward = vec![Vec::new(); self.forwards.len()];
        for (index, &(ends, cost)) in self.links.iter().enumerate() {
            for reverse in [false, true] {
                let link = LinkId::of(index as u32, reverse);
                let [from, to] = if reverse { [ends[1], ends[0]] } else { ends };
                if !self.up[link.0 as usize] {
                    continue;
                }
                let cost = u64::from(cost) + u64::from(penalty(link));
                if self.stubs[to.0 as usize].is_none() {
                    self.outward[from.0 as usize].push(Hop { link, node: to, cost });
                }
                if self.stubs[from.0 as usize].is_none() {
                    self.inward[to.0 as usize].push(Hop { link, node: from, cost });
                }
            }
        }
    }

    /// The node at the far end of `link`.
    pub fn far_end(&self, link: LinkId) -> NodeId {
        self.links[link.index() as usize].0[usize::from(link.0.is_multiple_of(2))]
    }

    /// Whether a path may take another way than over `link`: it does not lead to a host that hangs on it alone.
    pub fn has_choice(&self, link: LinkId) -> bool {
        self.stubs[self.far_end(link).0 as usize].is_none()
    }

    /// Whether distances from every node to `target` are known, or are found out now.
    fn knows_distances(&mut self, target: NodeId) -> bool {
        if self.distances.contains_key(&target) {
            return true;
        }
        let nodes = self.forwards.len();
        if (self.distances.len() + 1) * nodes > DISTANCES_MAX {
            return false;
        }
        if nodes > self.few_nodes {
            let asked = self.asked.entry(target).or_default();
            *asked += 1;
            if *asked < FLOWS_FOR_TABLE {
                return false;
            }
        }
        let distance = self.distances_to(target);
        self.distances.insert(target, distance);
        true
    }

    /// Distances from every node to `target`, over links in the direction of travel. Hosts do not forward.
    fn distances_to(&self, target: NodeId) -> Vec<u64> {
        let mut distance = vec![UNREACHABLE; self.forwards.len()];
        distance[target.0 as usize] = 0;
        let mut queue = BinaryHeap::from([Reverse((0u64, target))]);
        while let Some(Reverse((so_far, node))) = queue.pop() {
            if so_far > distance[node.0 as usize] {
                continue;
            }
            if node != target && !self.forwards[node.0 as usize] {
                continue;
            }
            for hop in &self.inward[node.0 as usize] {
                let candidate = so_far + hop.cost;
                if candidate < distance[hop.node.0 as usize] {
                    distance[hop.node.0 as usize] = candidate;
                    if self.forwards[hop.node.0 as usize] {
                        queue.push(Reverse((candidate, hop.node)));
                    }
                }
            }
        }
        distance
    }

    /// The paths of equal, least cost from `from` to `to`, in a stable order; empty if there is none. With
    /// [`Multipath::None`] or [`Multipath::Flow`] at most one, the latter chosen by `random` at each branching.
    pub fn paths(
        &mut self,
        from: NodeId,
        to: NodeId,
        multipath: Multipath,
        random: &mut Substream,
    ) -> Vec<Path> {
        if from == to {
            return vec![Vec::new()];
        }
        let is_up = |link: LinkId| self.up[link.0 as usize];
        let (mut target, mut last) = match self.stubs[to.0 as usize] {
            Some((router, link)) => (router, vec![link.reversed()]),
            None => (to, Vec::new()),
        };
        let mut first = Vec::new();
        let mut start = from;
        if let Some((router, link)) = self.stubs[from.0 as usize] {
            if !is_up(link) {
                return Vec::new();
            }
            if router == to {
                return vec![vec![link]];
            }
            first.push(link);
            start = router;
        }
        let reaches = |link: LinkId| is_up(link) && (self.forwards[target.0 as usize] || target == start);
        if last.iter().any(|&link| !reaches(link)) {
            return Vec::new();
        }
        if let Some((neighbour, link)) = self.leaves[target.0 as usize].filter(|_| target != start) {
            let link = link.reversed();
            if !is_up(link) || !(self.forwards[neighbour.0 as usize] || neighbour == start) {
                return Vec::new();
            }
            last.insert(0, link);
            target = neighbour;
        }
        let (total, ways) = if self.knows_distances(target) {
            let distances = &self.distances[&target];
            (distances[start.0 as usize], Ways::All(distances))
        } else if start == target {
            (0, Ways::All(&[]))
        } else {
            let graph = Graph { forwards: &self.forwards, outward: &self.outward, inward: &self.inward };
            let pair = self.pair.get_or_insert_with(|| Box::new(Pair::new(self.forwards.len())));
            (pair.search(graph, start, target), Ways::Some(pair))
        };
        if total == UNREACHABLE {
            return Vec::new();
        }
        let mut done = Vec::new();
        let mut open = vec![(start, 0, first)];
        while let Some((node, walked, path)) = open.pop() {
            if node == target {
                let mut path = path;
                path.extend(&last);
                done.push(path);
                if done.len() == PATHS_MAX {
                    break;
                }
                continue;
            }
            let passes = |hop: &Hop| hop.node == target || self.forwards[hop.node.0 as usize];
            let onward: Vec<Hop> = self.outward[node.0 as usize]
                .iter()
                .copied()
                .filter(|hop| passes(hop) && ways.leads(hop, walked, total))
                .collect();
            let chosen: &[Hop] = match multipath {
                _ if onward.len() <= 1 => &onward,
                Multipath::None => &onward[..1],
                Multipath::Flow => {
                    let pick = random.below(onward.len() as u32) as usize;
                    &onward[pick..=pick]
                }
                Multipath::Packet => &onward,
            };
            // Last in, first out: pushing backwards keeps the order of links.
            for hop in chosen.iter().rev() {
                let mut longer = path.clone();
                longer.push(hop.link);
                open.push((hop.node, walked + hop.cost, longer));
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the network is like, and whichever links are down.
        #[test]
        fn searches_from_both_ends_find_the_paths_that_distances_give(
            forwards in prop::collection::vec(prop::bool::weighted(0.8), 2..14),
            links in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u32..4), 1..40),
            down in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let nodes = forwards.len();
            let end = |index: &prop::sample::Index| NodeId(index.index(nodes) as u32);
            let links: Vec<([NodeId; 2], u32)> =
                links.iter().map(|(from, to, cost)| ([end(from), end(to)], *cost)).filter(|(ends, _)| ends[0] != ends[1]).collect();
            let down: Vec<usize> = down.iter().map(|index| index.index(2 * links.len().max(1))).collect();
            let mut by_distances = Routing::over(links, forwards);
            by_distances.update(|link| !down.contains(&(link.0 as usize)), |link| link.0 % 3);
            let mut by_pairs = Routing::over(by_distances.links.clone(), by_distances.forwards.clone());
            by_pairs.update(|link| !down.contains(&(link.0 as usize)), |link| link.0 % 3);
            by_pairs.few_nodes = 0;
            for multipath in [Multipath::None, Multipath::Flow, Multipath::Packet] {
                let mut randoms = [Substream::new(Seed(7)), Substream::new(Seed(7))];
                for pair in 0..nodes * nodes {
                    let [from, to] = [pair / nodes, pair % nodes].map(|node| NodeId(node as u32));
                    let wanted = by_distances.paths(from, to, multipath, &mut randoms[0]);
                    prop_assert_eq!(by_pairs.paths(from, to, multipath, &mut randoms[1]), wanted, "{:?} to {:?}", from, to);
                    // Or the seven before it have made a table.
                    by_pairs.asked.clear();
                    by_pairs.distances.clear();
                }
            }
        }
    }

    #[test]
    fn in_a_large_network_few_nodes_are_looked_at_and_distances_are_for_what_many_go_to() {
        // A ring of 10,000 routers, and a chord from each to one at random.
        let count = 10_000;
        let mut random = Substream::new(Seed(1));
        let link = |from: u32, to: u32| ([NodeId(from), NodeId(to % count)], 1);
        let links = (0..count).flat_map(|at| [link(at, at + 1), link(at, random.below(count))]).collect();
        let mut routing = Routing::over(links, vec![true; count as usize]);
        let mut seen = 0;
        for flow in 0..100 {
            let found = routing.paths(NodeId(flow), NodeId(flow + 5_000), Multipath::None, &mut random);
            let length = found[0].len();
            assert!((2..30).contains(&length), "{length}");
            let search = routing.pair.as_ref().expect("there was one");
            seen += search.from.seen(search.turn) + search.to.seen(search.turn);
        }
        assert!(seen < 100 * 2_000, "{seen} labels");
        assert!(routing.distances.is_empty());
        (0..20)
            .for_each(|from| drop(routing.paths(NodeId(from), NodeId(9_999), Multipath::None, &mut random)));
        assert!(routing.distances.contains_key(&NodeId(9_999)));
    }
}
