//! Shortest paths.
//!
//! Hosts that hang on a single link do not take part: the distance of their router serves for all of them. Nor are routers searched for
//! that, but for such hosts, hang on a single link, as edges of an access network do: all ways to them are those to their neighbour, and
//! then over that link. So building costs one search per router in between that has destinations behind it, and a walk per flow, however many hosts
//! and edges there are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tidegate_mechanism::random::{Seed, Substream};

use crate::ids::{LinkId, NodeId};
use crate::network::{Multipath, Network, NodeKind};

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
}

const UNREACHABLE: u64 = u64::MAX;

impl Routing {
    /// Over all links of `network`.
    pub fn new(network: &Network) -> Self {
        let forwards: Vec<bool> = network.nodes.iter().map(|node| node.kind == NodeKind::Router).collect();
        let mut attached: Vec<Vec<(NodeId, LinkId)>> = vec![Vec::new(); forwards.len()];
        for (index, link) in network.links.iter().enumerate() {
            for (reverse, [from, to]) in [(false, link.ends), (true, [link.ends[1], link.ends[0]])] {
                attached[from.0 as usize].push((to, LinkId::of(index as u32, reverse)));
            }
        }
        let stub = |(links, is_router): (&Vec<(NodeId, LinkId)>, &bool)| match links[..] {
            [only] if !is_router => Some(only),
            _ => None,
        };
        let stubs: Vec<Option<(NodeId, LinkId)>> = attached.iter().zip(&forwards).map(stub).collect();
        let leaf = |links: Vec<(NodeId, LinkId)>| {
            let mut others = links.into_iter().filter(|(node, _)| stubs[node.0 as usize].is_none());
            others.next().filter(|_| others.next().is_none())
        };
        let leaves = attached.into_iter().map(leaf).collect();
        let mut routing = Self {
            links: network.links.iter().map(|link| (link.ends, link.cost)).collect(),
            forwards,
            up: Vec::new(),
            stubs,
            leaves,
            outward: Vec::new(),
            inward: Vec::new(),
            distances: HashMap::new(),
        };
        routing.update(|_| true, |_| 0);
        routing
    }

    /// From now on only the directions of links for which `is_up` carry packets, and each costs more by `penalty`.
    pub fn update(&mut self, is_up: impl Fn(LinkId) -> bool, penalty: impl Fn(LinkId) -> u32) {
        self.distances.clear();
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

    /// Distances from every node to `target`, over links in the direction of travel. Hosts do not forward.
    fn distances_to(&mut self, target: NodeId) -> &[u64] {
        if !self.distances.contains_key(&target) {
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
            self.distances.insert(target, distance);
        }
        &self.distances[&target]
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
        self.distances_to(target);
        let distance = &self.distances[&target];
        let mut done = Vec::new();
        let mut open = vec![(start, first)];
        while let Some((node, path)) = open.pop() {
            if node == target {
                let mut path = path;
                path.extend(&last);
                done.push(path);
                if done.len() == PATHS_MAX {
                    break;
                }
                continue;
            }
            let here = distance[node.0 as usize];
            if here == UNREACHABLE {
                return Vec::new();
            }
            let onward: Vec<Hop> = self.outward[node.0 as usize]
                .iter()
                .copied()
                .filter(|hop| {
                    let there = distance[hop.node.0 as usize];
                    there != UNREACHABLE
                        && there + hop.cost == here
                        && (hop.node == target || self.forwards[hop.node.0 as usize])
                })
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
                open.push((hop.node, longer));
            }
        }
        done
    }
}
