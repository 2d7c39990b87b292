//! Which hosts can reach which: along links, through routers only.

use std::collections::HashSet;

use super::nodes::Nodes;
use crate::model::{Link, NodeIndex, NodeKind};

/// The connected parts of the network of routers, and which of them each host touches.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Of each node the parts that it touches, sorted: one for a router, any number for a host.
    parts: Vec<Vec<u32>>,
    /// Hosts that share a link, smaller index first.
    neighbours: HashSet<(NodeIndex, NodeIndex)>,
}

impl Reach {
    /// Linear in nodes and links, but for the inverse Ackermann function.
    pub(crate) fn new(nodes: &Nodes, links: &[Link]) -> Self {
        let is_router = |index: NodeIndex| nodes.node(index).kind == NodeKind::Router;
        let mut union = Union::new(nodes.list.len());
        for link in links {
            if is_router(link.a) && is_router(link.b) {
                union.join(link.a.0, link.b.0);
            }
        }
        let mut parts = vec![Vec::new(); nodes.list.len()];
        let mut neighbours = HashSet::new();
        for link in links {
            match (is_router(link.a), is_router(link.b)) {
                (true, false) => parts[link.b.index()].push(union.root(link.a.0)),
                (false, true) => parts[link.a.index()].push(union.root(link.b.0)),
                (false, false) => {
                    neighbours.insert((link.a.min(link.b), link.a.max(link.b)));
                }
                (true, true) => {}
            }
        }
        for own in &mut parts {
            own.sort_unstable();
            own.dedup();
        }
        Self { parts, neighbours }
    }

    /// Whether packets of host `from` can reach host `to`.
    pub(crate) fn connects(&self, from: NodeIndex, to: NodeIndex) -> bool {
        if self.neighbours.contains(&(from.min(to), from.max(to))) {
            return true;
        }
        let (a, b) = (&self.parts[from.index()], &self.parts[to.index()]);
        let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        few.iter().any(|part| many.binary_search(part).is_ok())
    }
}

/// Disjoint sets with path halving and union by size.
struct Union {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl Union {
    fn new(count: usize) -> Self {
        Self { parent: (0..count as u32).collect(), size: vec![1; count] }
    }

    fn root(&mut self, mut node: u32) -> u32 {
        while self.parent[node as usize] != node {
            self.parent[node as usize] = self.parent[self.parent[node as usize] as usize];
            node = self.parent[node as usize];
        }
        node
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (small, large) = if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.size[large as usize] += self.size[small as usize];
    }
}
