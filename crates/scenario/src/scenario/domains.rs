//! Domains: their borders, and that nothing gets past them.

use super::Site;
use super::elements::{Names, Section, for_each};
use super::flows::Flows;
use super::links::Links;
use super::nodes::Nodes;
use super::raw::DomainText;
use super::record::{COMPARISONS_MAX, matching};
use super::values::{self, Report};
use crate::document::first_duplicate;
use crate::error::Problems;
use crate::fault::shortened;
use crate::lower;
use crate::model::{Domain, DomainIndex, FlowIndex, Labels, Link, NodeIndex, NodeKind};
use crate::overrides::Late;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// The domains and their names.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    pub(crate) names: Names,
    pub(crate) list: Vec<Domain>,
}

/// What a node is to the domains seen so far.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    None,
    Edge(u32),
    Core(u32),
}

/// Reads `[domains]`.
pub(crate) fn read(
    table: &Table,
    nodes: &Nodes,
    links: &Links,
    flows: &Flows,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Domains {
    let mut list = Vec::new();
    // What a domain trusts may come after it.
    let mut trusts: Vec<(Vec<String>, Tree)> = Vec::new();
    let mut roles = vec![Role::None; nodes.list.len()];
    let neighbours = neighbours(nodes, links);
    let complete = |tree: &Tree, _: &Scope<'_>| tree.clone();
    let section = Section { name: "domains", complete: &complete };
    let names = for_each(table, &section, scope, late, problems, |site, scope, problems| {
        let Some(text) = site.read::<DomainText>(scope, problems) else { return };
        let index = list.len() as u32;
        let Some(domain) = read_domain(site, &text, nodes, flows, problems) else { return };
        check_roles(site, &domain, index, &list, &mut roles, nodes, problems);
        check_borders(site, &domain, nodes, &neighbours, problems);
        check_rates(site, &domain, links, problems);
        trusts.push((text.trusts, site.tree.clone()));
        list.push(domain);
    });
    if list.len() == names.len() {
        resolve_trusts(&mut list, &trusts, &names, problems);
    }
    Domains { names, list }
}

fn read_domain(
    site: Site<'_>,
    text: &DomainText,
    nodes: &Nodes,
    flows: &Flows,
    problems: &mut Problems,
) -> Option<Domain> {
    let before = problems.len();
    let mut routers = |key: &str, names: &[String]| -> Vec<NodeIndex> {
        if let Some((_, name)) = first_duplicate(names.iter().map(String::as_str)) {
            problems.push(site.problem(&[key], format!("`{}` is there twice", shortened(name)), ""));
        }
        let mut list = Vec::with_capacity(names.len());
        for name in names {
            match nodes.find(name, &site, &[key]) {
                Err(problem) => problems.push(problem),
                Ok(index) if nodes.node(index).kind == NodeKind::Router => list.push(index),
                Ok(_) => {
                    let message = format!("`{name}` is a host, and domains are made of routers");
                    problems.push(site.problem(&[key], message, "list it under `routers`"));
                }
            }
        }
        list
    };
    let edges = routers("edges", &text.edges);
    let core = routers("core", &text.core);
    if text.edges.is_empty() {
        problems.push(site.problem(&["edges"], "a domain needs edges", "the names of its border routers"));
    }
    let mut unpoliced = Vec::new();
    for name in text.mechanism.unpoliced() {
        unpoliced.extend(edge(site, name, &["mechanism", "unpoliced"], &edges, nodes, problems));
    }
    let mut clocks = Vec::new();
    for (name, clock) in &text.clocks {
        let keys = ["clocks", name];
        clocks.extend(edge(site, name, &keys, &edges, nodes, problems).map(|index| (index, *clock)));
        let mut sink = |below: &[&str], message: String, help: &str| {
            let all: Vec<&str> = keys.iter().chain(below).copied().collect();
            problems.push(site.problem(&all, message, help));
        };
        values::clock(clock, &mut Report { sink: &mut sink });
    }
    let liars = match &text.labels {
        Some(Labels::Csfq(labels)) => {
            labels.liars.as_ref().map(|patterns| liars(site, patterns, flows, problems))
        }
        None => None,
    };
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    let mut report = Report { sink: &mut sink };
    report.below("mechanism", |report| values::mechanism(&text.mechanism, report));
    if let Some(labels) = &text.labels {
        report.below("labels", |report| values::labels(labels, report));
    }
    if problems.len() > before {
        return None;
    }
    Some(Domain {
        name: site.name.to_owned(),
        edges,
        core,
        mechanism: text.mechanism.clone(),
        labels: text.labels.clone(),
        liars,
        trusts: Vec::new(),
        unpoliced,
        clocks,
    })
}

/// The flows that patterns name: at least one each.
fn liars(site: Site<'_>, patterns: &[String], flows: &Flows, problems: &mut Problems) -> Vec<FlowIndex> {
    let mut left = COMPARISONS_MAX;
    let mut found = Vec::new();
    for (position, pattern) in patterns.iter().enumerate() {
        match matching(&flows.names, pattern, "flow", &mut left) {
            Ok(indices) => found.extend(indices.into_iter().map(FlowIndex)),
            Err((message, help)) => {
                problems.push(site.problem(&["labels", "liars", &position.to_string()], message, help));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The edge of this domain called `name`.
fn edge(
    site: Site<'_>,
    name: &str,
    keys: &[&str],
    edges: &[NodeIndex],
    nodes: &Nodes,
    problems: &mut Problems,
) -> Option<NodeIndex> {
    match nodes.find(name, &site, keys) {
        Err(problem) => problems.push(problem),
        Ok(index) if edges.contains(&index) => return Some(index),
        Ok(_) => {
            let message = format!("`{}` is no edge of this domain", shortened(name));
            problems.push(site.problem(keys, message, ""));
        }
    }
    None
}

/// Two domains may share an edge, where they are chained; nothing else.
fn check_roles(
    site: Site<'_>,
    domain: &Domain,
    index: u32,
    others: &[Domain],
    roles: &mut [Role],
    nodes: &Nodes,
    problems: &mut Problems,
) {
    let new = domain.edges.iter().map(|node| (*node, Role::Edge(index), "edges"));
    let new = new.chain(domain.core.iter().map(|node| (*node, Role::Core(index), "core")));
    for (node, role, key) in new {
        let name = &nodes.node(node).name;
        let other = match (roles[node.index()], role) {
            (Role::Edge(other) | Role::Core(other), _) if other == index => {
                let message = format!("`{name}` cannot be both edge and core");
                problems.push(site.problem(&[key], message, ""));
                continue;
            }
            (Role::Edge(other), Role::Core(_)) | (Role::Core(other), _) => other,
            _ => {
                roles[node.index()] = role;
                continue;
            }
        };
        let other = others.get(other as usize).map_or("", |there| &there.name);
        let message = format!("`{name}` is already in the domain `{other}`");
        problems.push(site.problem(&[key], message, "two domains may share an edge, nothing else"));
    }
}

/// The neighbours of each router, over all links.
fn neighbours(nodes: &Nodes, links: &Links) -> Vec<Vec<NodeIndex>> {
    let mut neighbours = vec![Vec::new(); nodes.list.len()];
    for link in &links.list {
        neighbours[link.a.index()].push(link.b);
        neighbours[link.b.index()].push(link.a);
    }
    neighbours
}

/// Where the core is known, what enters or leaves passes an edge.
fn check_borders(
    site: Site<'_>,
    domain: &Domain,
    nodes: &Nodes,
    neighbours: &[Vec<NodeIndex>],
    problems: &mut Problems,
) {
    let members: std::collections::HashSet<NodeIndex> =
        domain.edges.iter().chain(&domain.core).copied().collect();
    for core in &domain.core {
        if let Some(outside) = neighbours[core.index()].iter().find(|other| !members.contains(other)) {
            let message = format!(
                "traffic between `{}` and `{}` would pass no edge of the domain",
                nodes.node(*outside).name,
                nodes.node(*core).name,
            );
            problems.push(site.problem(&["core"], message, "make one of them an edge"));
        }
    }
}

/// Routers that work together count on the rates of their links.
fn check_rates(site: Site<'_>, domain: &Domain, links: &Links, problems: &mut Problems) {
    if lower::hop(&domain.mechanism).is_none() {
        return;
    }
    let is_inside = |node: NodeIndex| domain.edges.contains(&node) || domain.core.contains(&node);
    let follows_trace = |link: &&Link| {
        (link.forward.trace.is_some() && is_inside(link.a))
            || (link.reverse.trace.is_some() && is_inside(link.b))
    };
    if let Some(link) = links.list.iter().find(follows_trace) {
        let message = format!("its routers need links of constant rate, and `{}` follows a trace", link.name);
        problems.push(site.problem(&["mechanism"], message, "give the link a constant `rate`"));
    }
}

fn resolve_trusts(
    list: &mut [Domain],
    trusts: &[(Vec<String>, Tree)],
    names: &Names,
    problems: &mut Problems,
) {
    for (position, (wanted, tree)) in trusts.iter().enumerate() {
        let Some(domain) = list.get_mut(position) else { return };
        let name = domain.name.clone();
        let site = Site { tree, section: "domains", name: &name };
        for other in wanted {
            match names.get(other) {
                Some(index) if index as usize != position => domain.trusts.push(DomainIndex(index)),
                Some(_) => {
                    problems.push(site.problem(&["trusts"], "a domain trusts itself anyway", ""));
                }
                None => {
                    let message = format!("there is no domain `{}`", shortened(other));
                    problems.push(site.problem(&["trusts"], message, names.suggest(other)));
                }
            }
        }
    }
}
