//! Shortest paths between two nodes, searched from both ends at once.
//!
//! In a network whose distances are short for its size, as the Internet's are, the two searches meet after a look at few of
//! its nodes, where the distances of all nodes from one of them would need all. Searches go on until no path as short can
//! be missing, so that it is known of every node whether it is on one of the shortest.
//!
//! Source: Pohl, "Bi-directional Search", Machine Intelligence 6, 1971; Dijkstra 1959 from each end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Hop, UNREACHABLE};
use crate::ids::NodeId;

/// A graph, as the search sees it.
#[derive(Clone, Copy)]
pub(super) struct Graph<'a> {
    /// By node: whether paths may lead through it, not only begin or end there.
    pub(super) forwards: &'a [bool],
    /// By node: where links lead from it.
    pub(super) outward: &'a [Vec<Hop>],
    /// By node: from where links lead to it.
    pub(super) inward: &'a [Vec<Hop>],
}

/// What is known of a node from one end. It means nothing if it is of another turn.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    turn: u32,
    /// Whether it is on a shortest path, as far as that was looked for.
    is_marked: bool,
    /// The length of a path between it and the end: of the shortest, where that matters.
    distance: u64,
}

/// One of the two searches.
#[derive(Debug)]
pub(super) struct Side {
    labels: Vec<Label>,
    /// What is to be looked at, the nearest first; distances that have become shorter since are still there.
    queue: BinaryHeap<Reverse<(u64, NodeId)>>,
}

/// See the module. It is kept between searches: a new one forgets the labels of the one before by their turn.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) turn: u32,
    pub(super) from: Side,
    pub(super) to: Side,
    met: Met,
}

/// Where the two have met.
#[derive(Debug)]
struct Met {
    /// The length of the shortest path so far.
    length: u64,
    /// Nodes that both sides had seen when a path over them was as short as that.
    at: Vec<NodeId>,
}

impl Side {
    fn new(nodes: usize) -> Self {
        Self { labels: vec![Label::default(); nodes], queue: BinaryHeap::new() }
    }

    fn distance(&self, node: NodeId, turn: u32) -> u64 {
        let label = self.labels[node.0 as usize];
        if label.turn == turn { label.distance } else { UNREACHABLE }
    }

    fn begin(&mut self, node: NodeId, turn: u32) {
        self.queue.clear();
        self.queue.push(Reverse((0, node)));
        self.labels[node.0 as usize] = Label { turn, is_marked: false, distance: 0 };
    }

    /// How many nodes have a label.
    #[cfg(test)]
    pub(super) fn seen(&self, turn: u32) -> usize {
        self.labels.iter().filter(|label| label.turn == turn).count()
    }

    /// How far the nearest node is that was not looked at, if there is one.
    fn nearest(&mut self, turn: u32) -> Option<u64> {
        while let Some(&Reverse((distance, node))) = self.queue.peek() {
            if distance == self.distance(node, turn) {
                return Some(distance);
            }
            self.queue.pop();
        }
        None
    }
}

impl Pair {
    /// For graphs of so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        let met = Met { length: UNREACHABLE, at: Vec::new() };
        Self { turn: 0, from: Side::new(nodes), to: Side::new(nodes), met }
    }

    /// Searches for the shortest paths between two nodes, which are not the same; their length, [`UNREACHABLE`] if there are none.
    pub(super) fn search(&mut self, graph: Graph<'_>, from: NodeId, to: NodeId) -> u64 {
        if self.turn == u32::MAX {
            self.from.labels.fill(Label::default());
            self.to.labels.fill(Label::default());
            self.turn = 0;
        }
        self.turn += 1;
        self.from.begin(from, self.turn);
        self.to.begin(to, self.turn);
        self.met.at.clear();
        self.met.length = UNREACHABLE;
        while let (Some(near), Some(far)) = (self.from.nearest(self.turn), self.to.nearest(self.turn)) {
            // What both have not looked at is on no shorter path; on one as short it is so far from both ends that both have
            // seen it.
            if near + far >= self.met.length {
                break;
            }
            let (turn, met) = (self.turn, &mut self.met);
            if self.from.queue.len() <= self.to.queue.len() {
                look(turn, &mut self.from, &self.to, (graph.outward, graph.forwards), to, met);
            } else {
                look(turn, &mut self.to, &self.from, (graph.inward, graph.forwards), from, met);
            }
        }
        self.mark(graph, from);
        self.met.length
    }

    /// Marks what lies before the meetings on shortest paths. What is behind them has its distance from the end.
    fn mark(&mut self, graph: Graph<'_>, from: NodeId) {
        let (turn, length) = (self.turn, self.met.length);
        let mut open = std::mem::take(&mut self.met.at);
        open.retain(|&node| {
            let whole = self.from.distance(node, turn).saturating_add(self.to.distance(node, turn));
            let is_new = whole == length && !self.from.labels[node.0 as usize].is_marked;
            self.from.labels[node.0 as usize].is_marked |= is_new;
            is_new
        });
        while let Some(node) = open.pop() {
            let distance = self.from.distance(node, turn);
            for hop in &graph.inward[node.0 as usize] {
                let passes = hop.node == from || graph.forwards[hop.node.0 as usize];
                let before = self.from.distance(hop.node, turn);
                let label = &mut self.from.labels[hop.node.0 as usize];
                if passes && before != UNREACHABLE && before + hop.cost == distance && !label.is_marked {
                    label.is_marked = true;
                    open.push(hop.node);
                }
            }
        }
        self.met.at = open;
    }

    /// Whether `node`, which a path of length `walked` from the one end has reached, is on a shortest path that begins so.
    pub(super) fn leads(&self, node: NodeId, walked: u64) -> bool {
        let label = self.from.labels[node.0 as usize];
        let is_marked = label.turn == self.turn && label.is_marked && label.distance == walked;
        is_marked || walked.saturating_add(self.to.distance(node, self.turn)) == self.met.length
    }
}

/// Looks at the nearest node of `side`, from where `hops` lead on and whose search is to find `end`.
fn look(
    turn: u32,
    side: &mut Side,
    other: &Side,
    (hops, forwards): (&[Vec<Hop>], &[bool]),
    end: NodeId,
    met: &mut Met,
) {
    let Some(Reverse((so_far, node))) = side.queue.pop() else { return };
    for hop in &hops[node.0 as usize] {
        let goes_on = forwards[hop.node.0 as usize];
        let distance = so_far + hop.cost;
        if !(goes_on || hop.node == end) || distance >= side.distance(hop.node, turn) {
            continue;
        }
        side.labels[hop.node.0 as usize] = Label { turn, is_marked: false, distance };
        if goes_on {
            side.queue.push(Reverse((distance, hop.node)));
        }
        let whole = distance.saturating_add(other.distance(hop.node, turn));
        if whole < met.length {
            met.at.clear();
            met.length = whole;
        }
        if whole == met.length && whole != UNREACHABLE {
            met.at.push(hop.node);
        }
    }
}
