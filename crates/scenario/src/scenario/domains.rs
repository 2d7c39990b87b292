//! Domains: their borders, and that nothing gets past them.

use tidegate_document::names::first_duplicate;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_parameters::bound::{self, INSIDE};
use tidegate_parameters::{Check as _, Parameters, Report};

use super::Site;
use super::elements::{Names, Section, for_each};
use super::flows::Flows;
use super::links::Links;
use super::misplaced::{self, Thing};
use super::nodes::Nodes;
use super::raw::DomainText;
use super::record::{COMPARISONS_MAX, matching};
use crate::error::{Problem, Problems};
use crate::fault::shortened;
use crate::model::{Domain, DomainIndex, FlowIndex, Labels, Link, Mechanism, NodeIndex, NodeKind};
use crate::overrides::Late;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// The domains and their names.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    pub(crate) names: Names,
    pub(crate) list: Vec<Domain>,
    /// By domain: nothing wrong, at its place.
    pub(crate) sites: Vec<Problem>,
}

/// What a node is to one of the domains seen so far.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Edge(u32),
    Core(u32),
}

impl Role {
    const fn domain(self) -> u32 {
        match self {
            Self::Edge(domain) | Self::Core(domain) => domain,
        }
    }
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
    let (mut list, mut sites) = (Vec::new(), Vec::new());
    // What a domain trusts may come after it.
    let mut trusts: Vec<(Vec<String>, Tree)> = Vec::new();
    let mut roles = vec![Vec::new(); nodes.list.len()];
    let neighbours = neighbours(nodes, links);
    let complete = |tree: &Tree, _: &Scope<'_>| tree.clone();
    let section = Section { name: "domains", complete: &complete };
    let names = for_each(table, &section, scope, late, problems, |site, scope, problems| {
        let whole = (Thing::Domain, &[][..]);
        let Some(text) = misplaced::read::<DomainText>(site, whole, scope, problems) else { return };
        let index = list.len() as u32;
        let Some(domain) = read_domain(site, &text, nodes, flows, problems) else { return };
        check_roles(site, &domain, index, &list, &mut roles, nodes, problems);
        check_borders(site, &domain, nodes, &neighbours, problems);
        check_rates(site, &domain, links, problems);
        trusts.push((text.trusts, site.tree.clone()));
        list.push(domain);
        sites.push(site.problem(&[], "", ""));
    });
    if list.len() == names.len() {
        resolve_trusts(&mut list, &trusts, &names, problems);
        check_trusts(&list, &trusts, problems);
    }
    Domains { names, list, sites }
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
    let mut virtual_links = Vec::new();
    for (position, link) in text.mechanism.virtual_links().iter().enumerate() {
        let position = position.to_string();
        let mut end = |name: &Option<String>, key: &str| {
            let keys = ["mechanism", "virtual_links", &position, key];
            name.as_ref().and_then(|name| edge(site, name, &keys, &edges, nodes, problems))
        };
        virtual_links.push((end(&link.from, "from"), end(&link.to, "to")));
    }
    let mut clocks = Vec::new();
    for (name, clock) in &text.clocks {
        let keys = ["clocks", name];
        clocks.extend(edge(site, name, &keys, &edges, nodes, problems).map(|index| (index, *clock)));
        let mut sink = |below: &[&str], message: String, help: &str| {
            let all: Vec<&str> = keys.iter().chain(below).copied().collect();
            problems.push(site.problem(&all, message, help));
        };
        Parameters::check(clock, &mut Report::new(&mut sink));
    }
    let mut lies = Vec::new();
    for (name, lie) in &text.lies {
        let keys = ["lies", name];
        lies.extend(edge(site, name, &keys, &edges, nodes, problems).map(|index| (index, *lie)));
        let mut sink = |below: &[&str], message: String, help: &str| {
            let all: Vec<&str> = keys.iter().chain(below).copied().collect();
            problems.push(site.problem(&all, message, help));
        };
        let mut report = Report::new(&mut sink);
        Parameters::check(lie, &mut report);
        match text.mechanism.edge() {
            None => {
                let help = "give the domain a `mechanism` of its edges";
                report.at(&[], "an edge without mechanism has nothing to say", help);
            }
            Some(EdgeConfig::Nbp(_)) if lie.hides => {
                report.say("hides", "NBP reports rates, and no congestion to hide", "give `output`");
            }
            Some(EdgeConfig::Autorate(_)) if lie.output != 1.0 => {
                report.say("output", "a reflector reports no rates", "give `hides` or `forges`");
            }
            Some(_) => {}
        }
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
    let mut report = Report::new(&mut sink);
    INSIDE.check("mechanism", &text.mechanism, &mut report);
    bound::PROBABILITY.check("control_loss", &text.control_loss, &mut report);
    INSIDE.check("labels", &text.labels, &mut report);
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
        virtual_links,
        control_loss: text.control_loss,
        clocks,
        lies,
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

/// Two domains may share an edge, where they are chained; or one lies whole in the other, where both have virtual links.
fn check_roles(
    site: Site<'_>,
    domain: &Domain,
    index: u32,
    others: &[Domain],
    roles: &mut [Vec<Role>],
    nodes: &Nodes,
    problems: &mut Problems,
) {
    let new = domain.edges.iter().map(|node| (*node, Role::Edge(index), "edges"));
    let new = new.chain(domain.core.iter().map(|node| (*node, Role::Core(index), "core")));
    let nested = check_nesting(site, domain, others, roles, problems);
    for (node, role, key) in new {
        let name = &nodes.node(node).name;
        let held = &mut roles[node.index()];
        if held.iter().any(|other| other.domain() == index) {
            let message = format!("`{name}` cannot be both edge and core");
            problems.push(site.problem(&[key], message, ""));
            continue;
        }
        let conflict = held.iter().find(|other| {
            let chained = matches!((other, role), (Role::Edge(_), Role::Edge(_)));
            !chained && !nested.contains(&other.domain())
        });
        if let Some(other) = conflict {
            let other = others.get(other.domain() as usize).map_or("", |there| &there.name);
            let message = format!("`{name}` is already in the domain `{other}`");
            let help = "two domains may share an edge, or all routers of one may belong to the other";
            problems.push(site.problem(&[key], message, help));
            continue;
        }
        held.push(role);
    }
}

/// The domains that `domain` lies in, or that lie in it.
fn check_nesting(
    site: Site<'_>,
    domain: &Domain,
    others: &[Domain],
    roles: &[Vec<Role>],
    problems: &mut Problems,
) -> Vec<u32> {
    let size = |of: &Domain| of.edges.len() + of.core.len();
    let has_virtual_links = |of: &Domain| match &of.mechanism {
        Mechanism::None(_) => true,
        Mechanism::Edge(config) => config.overlay().is_some(),
        Mechanism::Hop(_) => false,
    };
    let mut common = std::collections::BTreeMap::new();
    for node in domain.edges.iter().chain(&domain.core) {
        for role in &roles[node.index()] {
            *common.entry(role.domain()).or_insert(0) += 1;
        }
    }
    let mut nested = Vec::new();
    for (index, shared) in common {
        let Some(other) = others.get(index as usize) else { continue };
        let is_inside = shared == size(domain).min(size(other)) && size(domain) != size(other);
        // Small domains may consist of what they share with their neighbours in a chain.
        let only_edges = |inner: &Domain, outer: &Domain| {
            inner.core.is_empty() && inner.edges.iter().all(|node| outer.edges.contains(node))
        };
        if !is_inside || only_edges(domain, other) || only_edges(other, domain) {
            continue;
        }
        if !has_virtual_links(domain) || !has_virtual_links(other) {
            let message = format!("it and the domain `{}` lie one in the other", other.name);
            let help = "only domains with virtual links (`iec`, `eec`) can";
            problems.push(site.problem(&["mechanism"], message, help));
        }
        nested.push(index);
    }
    if nested.len() > usize::from(tidegate_packet::InnerEcn::LEVELS - 1) {
        let message = "it lies in, or around, three other domains";
        problems.push(site.problem(&["edges"], message, "two at most"));
    }
    nested
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
    if domain.mechanism.hop().is_none() {
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

/// Domains that trust each other act as one, so what they do must be the same.
fn check_trusts(list: &[Domain], trusts: &[(Vec<String>, Tree)], problems: &mut Problems) {
    for (position, (domain, (_, tree))) in list.iter().zip(trusts).enumerate() {
        let site = Site { tree, section: "domains", name: &domain.name };
        let is_mutual = |other: usize| list[other].trusts.iter().any(|back| back.index() == position);
        let earlier = domain.trusts.iter().map(|other| other.index()).filter(|&other| other < position);
        for other in earlier.filter(|&other| is_mutual(other)).map(|other| &list[other]) {
            let differs = [
                ("mechanism", domain.mechanism.without_places() != other.mechanism.without_places()),
                ("labels", domain.labels != other.labels),
                ("control_loss", domain.control_loss != other.control_loss),
            ];
            for (key, _) in differs.iter().filter(|(_, differs)| *differs) {
                let message = format!(
                    "it is not that of `{}`, and domains that trust each other act as one",
                    other.name
                );
                problems.push(site.problem(
                    &[key],
                    message,
                    "write the same in both, or let one not trust the other",
                ));
            }
        }
    }
}
