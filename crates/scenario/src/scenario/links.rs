//! Links: two directions each, what both share laid under what one overrides.

use std::borrow::Cow;

use super::Site;
use super::elements::{Defaults, Names, Section, for_each};
use super::keys;
use super::nodes::Nodes;
use super::raw::{DirectionText, LinkHead};
use super::values::{self, Report};
use crate::error::Problems;
use crate::merge::{merged, merged_tables};
use crate::model::{Direction, Link};
use crate::overrides::Late;
use crate::reader::{read as read_tree, shortened};
use crate::suggest;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// The links and their names.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) names: Names,
    pub(crate) list: Vec<Link>,
}

/// Reads `[links]`.
pub(crate) fn read(
    table: &Table,
    defaults: &Defaults,
    nodes: &Nodes,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Links {
    let mut list = Vec::new();
    let complete = |tree: &Tree, _: &Scope<'_>| match &defaults.link {
        Some(below) => merged(below, tree, "link"),
        None => tree.clone(),
    };
    let section = Section { name: "links", complete: &complete };
    let names = for_each(table, &section, scope, late, problems, |site, scope, problems| {
        list.extend(read_link(site, nodes, scope, problems));
    });
    Links { names, list }
}

fn read_link(site: Site<'_>, nodes: &Nodes, scope: &Scope<'_>, problems: &mut Problems) -> Option<Link> {
    let table = site.tree.as_table()?;
    for (key, entry) in table.iter() {
        if !keys::LINK.contains(&&**key) {
            let help = suggest::help(key, &keys::LINK);
            let mut problem = site.problem(&[key], format!("unknown key `{}`", shortened(key)), help);
            problem.place = entry.key_place;
            problems.push(problem);
            return None;
        }
    }
    let mut head = Table::default();
    let mut shared = Table::default();
    for (key, entry) in table.iter() {
        let part = if keys::LINK_HEAD.contains(&&**key) { &mut head } else { &mut shared };
        part.insert(key.clone(), entry.key_place, entry.tree.clone());
    }
    let forward_over = head.remove("forward").map(|entry| entry.tree);
    let reverse_over = head.remove("reverse").map(|entry| entry.tree);
    let shared = Tree::table(shared, site.tree.place);
    let head = Tree::table(head, site.tree.place);

    let text = Site { tree: &head, ..site }.read::<LinkHead>(scope, problems);
    let forward = read_direction(site, &shared, forward_over.as_ref(), "forward", scope, problems);
    let reverse = match &reverse_over {
        None if forward_over.is_none() => forward.clone(),
        over => read_direction(site, &shared, over.as_ref(), "reverse", scope, problems),
    };
    let text = text?;
    let [first, second] = text.between.as_slice() else {
        let message = format!("a link is between two nodes, not {}", text.between.len());
        problems.push(site.problem(&["between"], message, ""));
        return None;
    };
    let mut find = |name: &str, position: &str| {
        nodes.find(name, &site, &["between", position]).map_err(|problem| problems.push(problem)).ok()
    };
    let (a, b) = (find(first, "0"), find(second, "1"));
    let (a, b) = (a?, b?);
    if a == b {
        problems.push(site.problem(&["between"], format!("a link from `{first}` to itself"), ""));
        return None;
    }
    if text.cost == 0 {
        problems.push(site.problem(&["cost"], "a cost is at least 1", "routing adds up costs"));
    }
    let (forward, reverse) = (forward?, reverse?);
    Some(Link { name: site.name.to_owned(), a, b, forward, reverse, cost: text.cost })
}

/// Reads what is shared by both directions with what this one overrides.
fn read_direction(
    site: Site<'_>,
    shared: &Tree,
    over: Option<&Tree>,
    key: &str,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Direction> {
    let empty = Table::default();
    let over_table = match over.map(|tree| (tree, tree.as_table())) {
        None => &empty,
        Some((_, Some(table))) => table,
        Some((tree, None)) => {
            let message = format!("expected a table, found {}", tree.what());
            problems.push(site.problem(&[key], message, ""));
            return None;
        }
    };
    let whole = match over {
        None => Cow::Borrowed(shared),
        Some(_) => {
            let table = merged_tables(shared.as_table().unwrap_or(&empty), over_table);
            Cow::Owned(Tree::table(table, shared.place))
        }
    };
    let own = Site { tree: &whole, ..site };
    // A key is named where it was written: in the table of this direction, or in the link.
    let name = format!("{}.{key}", site.name);
    let site_of = |first: Option<&str>| match first {
        Some(first) if over_table.contains(first) => Site { name: &name, ..own },
        _ => own,
    };
    let text: DirectionText = match read_tree(&whole, scope) {
        Ok(text) => text,
        Err(fault) => {
            let at = site_of(fault.first_key());
            problems.push(at.fault(fault));
            return None;
        }
    };
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site_of(keys.first().copied()).problem(keys, message, help));
    };
    let mut report = Report { sink: &mut sink };
    if let Some(rate) = text.rate {
        report.rate("rate", rate);
    }
    if let Some(delay) = text.delay {
        report.delay("delay", delay);
    }
    let queue = text.queue.unwrap_or_default();
    report.below("queue", |report| values::queue(&queue, report));
    if let Some(loss) = &text.loss {
        report.below("loss", |report| values::loss(loss, report));
    }
    if let Some(reorder) = &text.reorder {
        report.below("reorder", |report| values::reorder(reorder, report));
    }
    let (Some(rate), Some(delay)) = (text.rate, text.delay) else {
        let (missing, example) = if text.rate.is_none() { ("rate", "10Mbit") } else { ("delay", "10ms") };
        let message = format!("missing key `{missing}`");
        let help = format!("give it here or under [defaults] as link = {{ {missing} = \"{example}\" }}");
        problems.push(own.problem(&[], message, help));
        return None;
    };
    Some(Direction { rate, delay, queue, loss: text.loss, reorder: text.reorder })
}
