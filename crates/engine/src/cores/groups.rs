//! Nodes that stay together, and how such groups are divided into parts with as much to do as each other.

use std::collections::VecDeque;

use tidegate_units::Span;

use super::choose::{CROSSING_HOPS, Work};
use super::division;
use crate::network::Network;

/// Nodes from which parts are grown, and how often borders between parts are gone through.
const STARTS: usize = 4;
const PASSES: usize = 12;

/// Nodes that stay together, since what is between them is not cut.
pub(super) struct Groups {
    of_node: Vec<usize>,
    work: Vec<f64>,
    /// By group: its neighbours, and what goes between.
    near: Vec<Vec<(usize, f64)>>,
}

impl Groups {
    /// Those in which links of less than `least` are not cut.
    pub(super) fn of(network: &Network, delays: &[Option<Span>], least: Span, work: &Work) -> Self {
        let mut leader: Vec<usize> = (0..network.nodes.len()).collect();
        let is_cut = |index: usize| delays[index].is_some_and(|delay| delay >= least);
        let short =
            (0..network.links.len()).filter(|&index| !is_cut(index)).map(|index| network.links[index].ends);
        for [one, other] in short.chain(division::together(network)) {
            let [one, other] = [one, other].map(|node| find(&mut leader, node.0 as usize));
            leader[one.max(other)] = one.min(other);
        }
        let mut number = vec![usize::MAX; leader.len()];
        let mut groups = 0;
        let mut of_node = Vec::with_capacity(leader.len());
        for node in 0..leader.len() {
            let first = find(&mut leader, node);
            if number[first] == usize::MAX {
                number[first] = groups;
                groups += 1;
            }
            of_node.push(number[first]);
        }
        let mut all = Self { work: vec![0.0; groups], near: vec![Vec::new(); groups], of_node };
        for (node, &group) in all.of_node.iter().enumerate() {
            all.work[group] += work.of_node[node];
        }
        for (index, link) in network.links.iter().enumerate() {
            let [one, other] = link.ends.map(|end| all.of_node[end.0 as usize]);
            if one != other {
                all.near[one].push((other, work.of_link[index]));
                all.near[other].push((one, work.of_link[index]));
            }
        }
        all
    }

    /// The part of each node; `None` if there are not as many groups as parts.
    pub(super) fn divide(&self, parts: usize) -> Option<Vec<u8>> {
        let parts = parts.min(self.work.len());
        if parts < 2 {
            return None;
        }
        let starts = (0..STARTS).map(|which| which * (self.work.len() - 1) / (STARTS - 1).max(1));
        let tried = starts.map(|start| {
            let mut part = self.grow(self.farthest(start), parts);
            let load = self.refine(&mut part, parts);
            (load, part)
        });
        let (_, part) = tried.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(self.of_node.iter().map(|&group| part[group] as u8).collect())
    }

    /// All groups, each beside one before where that is possible, from `start` on.
    fn in_breadth(&self, start: usize) -> Vec<usize> {
        let mut seen = vec![false; self.work.len()];
        let mut order = Vec::with_capacity(self.work.len());
        let mut waiting = VecDeque::new();
        for first in std::iter::once(start).chain(0..self.work.len()) {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            waiting.push_back(first);
            while let Some(group) = waiting.pop_front() {
                order.push(group);
                for &(near, _) in &self.near[group] {
                    if !std::mem::replace(&mut seen[near], true) {
                        waiting.push_back(near);
                    }
                }
            }
        }
        order
    }

    /// One that is far from `start`.
    fn farthest(&self, start: usize) -> usize {
        self.in_breadth(start).last().copied().unwrap_or(start)
    }

    /// Parts of about the same work, one after the other in the order of breadth.
    fn grow(&self, start: usize, parts: usize) -> Vec<usize> {
        let mut left: f64 = self.work.iter().sum();
        let (mut current, mut load) = (0, 0.0);
        let mut part = vec![0; self.work.len()];
        for group in self.in_breadth(start) {
            let share = left / (parts - current) as f64;
            if load > 0.0 && current + 1 < parts && load + self.work[group] / 2.0 > share {
                left -= load;
                (current, load) = (current + 1, 0.0);
            }
            part[group] = current;
            load += self.work[group];
        }
        part
    }

    /// Moves groups between parts as long as that makes less of the greatest load, or of what crosses; the greatest load.
    fn refine(&self, part: &mut [usize], parts: usize) -> f64 {
        let mut loads = vec![0.0; parts];
        for (group, &of) in part.iter().enumerate() {
            loads[of] += self.work[group];
            let crossing =
                self.near[group].iter().filter(|(near, _)| part[*near] != of).map(|(_, packets)| packets);
            loads[of] += CROSSING_HOPS * crossing.sum::<f64>();
        }
        let greatest = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        // Each step has to be worth it, so that there is an end.
        let value = |of: &[f64]| greatest(of) + 1e-3 * of.iter().sum::<f64>();
        for _ in 0..PASSES {
            let mut has_moved = false;
            for group in 0..part.len() {
                let from = part[group];
                let mut links = vec![0.0; parts];
                self.near[group].iter().for_each(|&(near, packets)| links[part[near]] += packets);
                let all: f64 = links.iter().sum();
                let before = value(&loads);
                let moved = |to: usize| {
                    // What goes within a part does not cross; what goes to third ones does, wherever the group is.
                    let mut after = loads.clone();
                    after[from] += CROSSING_HOPS * (2.0 * links[from] - all) - self.work[group];
                    after[to] += CROSSING_HOPS * (all - 2.0 * links[to]) + self.work[group];
                    after
                };
                let best = (0..parts)
                    .filter(|&to| to != from && links[to] > 0.0)
                    .map(|to| (to, moved(to)))
                    .min_by(|one, other| value(&one.1).total_cmp(&value(&other.1)));
                if let Some((to, after)) = best
                    && value(&after) < before * (1.0 - 1e-9)
                {
                    (part[group], loads, has_moved) = (to, after, true);
                }
            }
            if !has_moved {
                break;
            }
        }
        greatest(&loads)
    }
}

/// The first of the nodes that `node` is together with.
fn find(leader: &mut [usize], mut node: usize) -> usize {
    while leader[node] != node {
        leader[node] = leader[leader[node]];
        node = leader[node];
    }
    node
}
