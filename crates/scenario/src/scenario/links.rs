//! Links: two directions each, what both share laid under what one overrides.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_parameters::bound::{self, INSIDE};
use tidegate_parameters::{Check as _, Parameters, Report};
use tidegate_units::{BitRate, Limit, Span};

use super::Site;
use super::elements::{Defaults, Names, Section, for_each};
use super::keys;
use super::misplaced::{self, Thing};
use super::nodes::Nodes;
use super::raw::{DirectionText, LinkHead, RateText};
use super::values;
use crate::error::Problems;
use crate::merge::{merged, merged_tables};
use crate::model::{Direction, Duplex, Link, Queue, Trace};
use crate::overrides::Late;
use crate::reader::read_without;
use crate::template::Scope;
use crate::trace::Traces;
use crate::tree::{Table, Tree, Value};

/// What is not about the ends of a link.
const NOT_HEAD: [&str; 11] = [
    "rate",
    "delay",
    "queue",
    "device",
    "loss",
    "reorder",
    "duplicate",
    "jitter",
    "circuit",
    "forward",
    "reverse",
];

/// The links and their names.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) names: Names,
    pub(crate) list: Vec<Link>,
}

/// Reads `[links]`.
pub(crate) fn read(
    table: &Table,
    (defaults, nodes): (&Defaults, &Nodes),
    traces: &mut Traces<'_>,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Links {
    let mut list: Vec<Link> = Vec::new();
    let names = visit(table, defaults, scope, late, problems, |site, scope, problems| {
        if let Some(mut link) = read_link(site, nodes, traces, scope, problems) {
            share(&mut link, list.last());
            list.push(link);
        }
    });
    Links { names, list }
}

/// Lets the directions of `link` be those that are there already where they are equal: its own other one, and those of the
/// link `before`, which of a repeat are all alike. A direction is half a kilobyte.
fn share(link: &mut Link, before: Option<&Link>) {
    if link.reverse == link.forward {
        link.reverse = Arc::clone(&link.forward);
    }
    let Some(before) = before else { return };
    for own in [&mut link.forward, &mut link.reverse] {
        if let Some(equal) = [&before.forward, &before.reverse].into_iter().find(|other| *other == own) {
            *own = Arc::clone(equal);
        }
    }
}

/// Calls `each` for every link, repeats expanded and defaults laid below.
pub(super) fn visit(
    table: &Table,
    defaults: &Defaults,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
    each: impl FnMut(Site<'_>, &Scope<'_>, &mut Problems),
) -> Names {
    let complete = |tree: &Tree, _: &Scope<'_>| match &defaults.link {
        Some(below) => merged(below, tree, "link", &keys::FORMAT),
        None => tree.clone(),
    };
    let section = Section { name: "links", complete: &complete };
    for_each(table, &section, scope, late, problems, each)
}

fn read_link(
    site: Site<'_>,
    nodes: &Nodes,
    traces: &mut Traces<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Link> {
    let table = site.tree.as_table()?;
    if let Some((key, _)) = table.iter().find(|(key, _)| !keys::link().contains(&&***key)) {
        problems.push(misplaced::unknown(site, Thing::Link, (&[], table), key, keys::link()));
        return None;
    }
    let text: Option<LinkHead> = match read_without(site.tree, &NOT_HEAD, scope) {
        Ok(text) => Some(text),
        Err(fault) => {
            problems.push(site.fault(fault));
            None
        }
    };
    let (forward_over, reverse_over) = (table.get("forward"), table.get("reverse"));
    let forward = read_direction(site, (forward_over, "forward"), traces, scope, problems);
    let reverse = if forward_over.is_none() && reverse_over.is_none() {
        forward.clone()
    } else {
        read_direction(site, (reverse_over, "reverse"), traces, scope, problems)
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
    if text.duplex == Duplex::Half && (forward.trace.is_some() || reverse.trace.is_some()) {
        let help = "give it a constant `rate`, or duplex = \"full\"";
        problems.push(site.problem(&["duplex"], "no trace says when a shared medium is free", help));
    } else if text.duplex == Duplex::Half && forward.rate != reverse.rate {
        let message = format!("one medium cannot have two rates, {} and {}", forward.rate, reverse.rate);
        problems.push(site.problem(
            &["duplex"],
            message,
            "both directions of a half-duplex link have its rate",
        ));
    }
    let name = site.name.to_owned();
    let (forward, reverse) = (Arc::new(forward), Arc::new(reverse));
    Some(Link { name, a, b, forward, reverse, cost: text.cost, duplex: text.duplex })
}

/// A queue of which something is said, but not its kind, is of the default kind: so `--set links.x.queue.limit=10p` works
/// on a link that says nothing of its queue.
fn with_kind_of_queue(link: Cow<'_, Tree>) -> Cow<'_, Tree> {
    let Some(mut queue) = link.as_table().and_then(|table| table.get("queue")).cloned() else { return link };
    let place = queue.place;
    match queue.as_table_mut() {
        Some(table) if !table.contains("kind") => {
            table.insert(Arc::from("kind"), place, Tree::text(Queue::default().kind(), place));
        }
        _ => return link,
    }
    let mut whole = link.into_owned();
    if let Some(slot) = whole.as_table_mut().and_then(|table| table.get_mut("queue")) {
        *slot = queue;
    }
    Cow::Owned(whole)
}

/// The table that is meant by its most important value alone, where that is no name: `loss = 0.01`.
fn written_out(key: &str, tree: &Tree) -> Option<String> {
    let number = matches!(tree.value, Value::Integer(_) | Value::Float(_));
    let text = tree.as_text().filter(|text| text.len() < 40);
    let value = tree.inline();
    Some(match key {
        "loss" if number => format!("loss = {{ kind = \"random\", probability = {value} }}"),
        "reorder" if number => format!("reorder = {{ probability = {value}, delay = \"10ms\" }}"),
        "jitter" if text?.parse::<Span>().is_ok() => {
            format!("jitter = {{ kind = \"uniform\", most = {value} }}")
        }
        "queue" if text?.parse::<Limit>().is_ok() => {
            format!("queue = {{ kind = \"{}\", limit = {value} }}", Queue::default().kind())
        }
        _ => return None,
    })
}

/// What the direction `key` overrides, if `tree` says that with known keys.
fn overriding<'t>(site: Site<'_>, tree: &'t Tree, key: &str, problems: &mut Problems) -> Option<&'t Table> {
    let Some(table) = tree.as_table() else {
        problems.push(site.problem(&[key], format!("expected a table, found {}", tree.what()), ""));
        return None;
    };
    if let Some((unknown, _)) = table.iter().find(|(known, _)| !keys::direction().contains(&&***known)) {
        problems.push(misplaced::unknown(site, Thing::Link, (&[key], table), unknown, keys::direction()));
        return None;
    }
    Some(table)
}

/// Reads what is shared by both directions with what this one overrides.
fn read_direction(
    site: Site<'_>,
    (over, key): (Option<&Tree>, &str),
    traces: &mut Traces<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Direction> {
    let empty = Table::default();
    let over_table = match over {
        Some(tree) => overriding(site, tree, key, problems)?,
        None => &empty,
    };
    let whole = with_kind_of_queue(if over.is_none() {
        Cow::Borrowed(site.tree)
    } else {
        let table = merged_tables(site.tree.as_table().unwrap_or(&empty), over_table, &keys::FORMAT);
        Cow::Owned(Tree::table(table, site.tree.place))
    });
    let own = Site { tree: &whole, ..site };
    // A key is named where it was written: in the table of this direction, or in the link.
    let name = format!("{}.{key}", site.name);
    let site_of = |first: Option<&str>| match first {
        Some(first) if over_table.contains(first) => Site { name: &name, ..own },
        _ => own,
    };
    let text: DirectionText = match read_without(&whole, keys::link_head(), scope) {
        Ok(text) => text,
        Err(fault) => {
            let first = fault.first_key().unwrap_or_default().to_owned();
            let at = site_of(Some(&first));
            let mut problem = misplaced::explained(at, (Thing::Link, &[]), fault);
            if let Some(meant) = whole.as_table().and_then(|table| written_out(&first, table.get(&first)?)) {
                problem.help = meant;
            }
            problems.push(problem);
            return None;
        }
    };
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site_of(keys.first().copied()).problem(keys, message, help));
    };
    let mut report = Report::new(&mut sink);
    let mut trace = None;
    let rate = match text.rate {
        Some(RateText::Trace(file)) => {
            trace = traces.get(&file).map_err(|why| report.at(&["rate", "trace"], why, "")).ok();
            // One that cannot be read has been reported, and causes no other errors.
            Some(trace.as_ref().map_or(BitRate::from_mbps(1), Trace::mean_rate))
        }
        Some(RateText::Constant(rate)) => Some(rate),
        None => None,
    };
    let queue = text.queue.unwrap_or_default();
    bound::RATE.check("rate", &rate, &mut report);
    bound::DELAY.check("delay", &text.delay, &mut report);
    INSIDE.check("queue", &queue, &mut report);
    INSIDE.check("device", &text.device, &mut report);
    INSIDE.check("loss", &text.loss, &mut report);
    INSIDE.check("reorder", &text.reorder, &mut report);
    let duplicate = text.duplicate.unwrap_or(0.0);
    bound::PROBABILITY.check("duplicate", &duplicate, &mut report);
    INSIDE.check("jitter", &text.jitter, &mut report);
    if let Some(circuit) = &text.circuit {
        report.below("circuit", |report| {
            if let Some(capacity) = rate {
                values::background(circuit, circuit.background, capacity, report);
            }
            Parameters::check(circuit, report);
        });
        if trace.is_some() {
            report.say("circuit", "a circuit has a constant rate, and no trace", "");
        }
    }
    let (Some(rate), Some(delay)) = (rate, text.delay) else {
        let (missing, example) = if rate.is_none() { ("rate", "10Mbit") } else { ("delay", "10ms") };
        let message = format!("missing key `{missing}`");
        let help = format!("give it here or under [defaults] as link = {{ {missing} = \"{example}\" }}");
        problems.push(own.problem(&[], message, help));
        return None;
    };
    let (device, loss, reorder, jitter) = (text.device, text.loss, text.reorder, text.jitter);
    let circuit = text.circuit;
    Some(Direction { rate, trace, delay, queue, device, loss, reorder, duplicate, jitter, circuit })
}
