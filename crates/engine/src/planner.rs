//! The way of a packet, planned once: which links it crosses, and which borders it passes on them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use tidegate_mechanism::edge::PeerId;
use tidegate_mechanism::random::Substream;

use crate::border::Border;
use crate::error::BuildError;
use crate::ids::{LinkId, NodeId};
use crate::nesting;
use crate::network::{Multipath, Network};
use crate::program::{Passage, Programs, Routes, Spread, Step};
use crate::routing::{Path, Routing};

/// Builds the programs of flows.
pub(crate) struct Planner {
    pub(crate) routing: Routing,
    /// Whether routes have changed since the start: links may be down, so that a packet for several receivers leaves out those
    /// that cannot be reached, and what was planned is kept.
    pub(crate) changes: bool,
    /// The programs of paths that were planned since: who goes back and forth between them needs no more memory.
    kept: HashMap<Vec<Branchlet>, u32>,
    /// By link: whether a hop mechanism sees to it; empty if there is none.
    hop_links: Vec<bool>,
    /// By domain: the domains around it.
    around: Vec<Vec<u32>>,
    /// By node: the domains that it belongs to, the outer before the inner, with its border there if it is an edge.
    membership: Vec<Vec<(u32, Option<u32>)>>,
    passages: HashMap<(u32, Vec<PeerId>), u32>,
    /// By flow: its markers, and where they stand.
    pub(crate) markers: HashMap<u32, Vec<(NodeId, u32)>>,
    departures: HashMap<(u32, Option<PeerId>), u32>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

/// One receiver of what is being planned: the nodes and links on its path, and what to do at the end. The end tells whose packets
/// these are.
#[derive(PartialEq, Eq, Hash)]
struct Branchlet {
    nodes: Vec<NodeId>,
    links: Path,
    end: Step,
}

/// What is needed to name things in errors, and to know which borders police.
pub(crate) struct Naming<'a> {
    pub(crate) network: &'a Network,
    pub(crate) flow: &'a str,
    pub(crate) borders: &'a [Border],
    /// The markers on the way of these packets, and where.
    pub(crate) markers: &'a [(NodeId, u32)],
    /// For messages between borders of this domain: they are inside of it from the first step, and for domains in it they
    /// are traffic as any other.
    pub(crate) messages_of: Option<u32>,
    /// The way of a flow whose packets pause at their host first.
    pub(crate) pauses: Option<u32>,
}

impl Planner {
    /// For `network` with `borders`; `hop_links` says of each link whether a hop mechanism sees to it, and is empty if there is none.
    pub(crate) fn new(network: &Network, borders: &[Border], hop_links: Vec<bool>) -> Self {
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
            changes: false,
            kept: HashMap::new(),
            around,
            membership,
            passages: HashMap::new(),
            departures: HashMap::new(),
            markers,
            hop_links,
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

    /// The program for `receivers`, one that was planned before if there is one.
    fn program(
        &mut self,
        receivers: Vec<Branchlet>,
        programs: &mut Programs,
        naming: &Naming<'_>,
    ) -> Result<u32, BuildError> {
        if let Some(&start) = self.kept.get(&receivers) {
            return Ok(start);
        }
        let mut start = self.plan(&receivers, programs, naming)?;
        if let Some(way) = naming.pauses {
            start = programs.pause(start, way);
        }
        if self.changes {
            self.kept.insert(receivers, start);
        }
        Ok(start)
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
    pub(crate) fn routes(
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
        for (position, &(target, end)) in to.iter().enumerate() {
            let paths = self.routing.paths(from, target, multipath, random);
            let has_others = !alternatives.is_empty() || position + 1 < to.len();
            if paths.is_empty() && self.changes && has_others {
                continue;
            }
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
            .into_iter()
            .map(|receivers| self.program(receivers, programs, naming))
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
