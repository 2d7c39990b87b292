//! From a tree of values to a [`Scenario`]: defaults merged, repeats expanded, names resolved, everything checked.

mod commands;
mod domains;
mod elements;
mod events;
mod flows;
pub(crate) mod keys;
mod links;
mod markers;
mod misplaced;
mod nodes;
pub(crate) mod raw;
mod reach;
mod record;
mod routing;
mod values;
mod within;

use std::cell::Cell;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
pub(crate) use tidegate_document::Site;
use tidegate_document::source::Sources;
use tidegate_units::Span;

use self::misplaced::Thing;
use crate::error::{ConfigErrors, Problem, Problems};
use crate::fault;
use crate::model::{Parameter, Scenario, Ties};
use crate::overrides::{self, Override};
use crate::suggest;
use crate::tables::Tables;
use crate::template::{ELEMENTS_MAX, Scope, resolve_parameters};
use crate::trace::Traces;
use crate::tree::{Table, Tree, Value};

/// No run is longer.
const DURATION_MAX: Span = Span::from_secs(100 * 365 * 86_400);

/// Builds the scenario of `root` with `overrides`.
pub(crate) fn build(
    root: &Tree,
    overrides: &[&Override],
    sources: &Sources,
) -> Result<Scenario, ConfigErrors> {
    let mut problems = Problems::default();
    let mut root = root.clone();
    let mut late = overrides::apply(&mut root, overrides, &keys::FORMAT, &mut problems);
    let empty = Table::default();
    let table = root.as_table().unwrap_or(&empty);
    report_unknown_keys(&root, table, &mut problems);

    let parameters = read_parameters(table, &mut problems);
    let elements = Cell::new(ELEMENTS_MAX);
    let mut scope = Scope::new(&parameters, &elements);

    let texts = ["title", "description", "source"]
        .map(|key| read_key::<String>(table, key, &scope, &mut problems).unwrap_or_default());
    let [title, description, source] = texts;
    let (duration, warmup) = read_duration(&root, table, &scope, &mut problems);
    let seed = read_key(table, "seed", &scope, &mut problems).unwrap_or(1);

    let before = problems.len();
    let nodes = nodes::read(&root, table, &scope, &mut problems);
    if problems.len() > before {
        // Whatever names a node would be wrong as well.
        return problems.finish(None, sources);
    }
    let defaults = elements::Defaults::read(table, &mut problems);
    let before_links = problems.len();
    let mut traces = Traces::new(sources);
    let links = links::read(table, (&defaults, &nodes), &mut traces, &mut scope, &mut late, &mut problems);
    let reach = (problems.len() == before_links).then(|| reach::Reach::new(&nodes, &links.list));
    let flows = flows::read(
        table,
        &flows::World { defaults: &defaults, nodes: &nodes, reach: reach.as_ref(), duration },
        &mut Tables::new(sources),
        &mut scope,
        &mut late,
        &mut problems,
    );
    let domains = domains::read(table, &nodes, &links, &flows, &mut scope, &mut late, &mut problems);
    let routing = routing::read(table, &domains.list, &scope, &mut problems);
    let markers = markers::read(table, &nodes, &flows, &mut scope, &mut late, &mut problems);
    let commands = commands::read(table, &nodes, &mut scope, &mut late, &mut problems);
    let events = events::read(table, (&nodes, &links, &flows, &domains), duration, &mut scope, &mut problems);
    let known =
        record::Known { links: &links, flows: &flows, domains: &domains, markers: &markers, duration };
    // Patterns would seem to match nothing where what they name was not understood.
    let record = if problems.is_empty() {
        record::read(table, &known, &scope, &mut problems)
    } else {
        crate::model::Record::default()
    };
    let scenario = Scenario {
        title,
        description,
        source,
        duration,
        warmup,
        seed,
        parameters: parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        nodes: nodes.list,
        links: links.list,
        flows: flows.list,
        fluids: flows.fluids,
        routing,
        ties: read_ties(table, &scope, &mut problems),
        event_order: read_key(table, "event_order", &scope, &mut problems).unwrap_or_default(),
        domains: domains.list,
        markers: markers.list,
        commands,
        events,
        record,
        domain_sites: domains.sites.into_iter().map(|site| site.resolve(sources)).collect(),
        fluid_sites: flows
            .fluid_sites
            .into_iter()
            .map(|sites| sites.map(|site| site.resolve(sources)))
            .collect(),
    };
    problems.finish(Some(scenario), sources)
}

/// A problem at the keys `keys` of the element of that section and name, which exists; of a link also at what it takes from
/// the defaults.
pub(crate) fn at(
    root: &Tree,
    overrides: &[&Override],
    (section, name): (&'static str, &str),
    keys: &[&str],
    message: &str,
    help: &str,
) -> Problem {
    let mut ignored = Problems::default();
    let mut root = root.clone();
    let mut late = overrides::apply(&mut root, overrides, &keys::FORMAT, &mut ignored);
    let empty = Table::default();
    let table = root.as_table().unwrap_or(&empty);
    let parameters = read_parameters(table, &mut ignored);
    let elements = Cell::new(ELEMENTS_MAX);
    let mut scope = Scope::new(&parameters, &elements);
    let mut found = None;
    let look = |site: Site<'_>, _: &Scope<'_>, _: &mut Problems| {
        if site.name == name {
            found = Some(site.problem(keys, message, help));
        }
    };
    if section == "links" {
        let defaults = elements::Defaults::read(table, &mut ignored);
        links::visit(table, &defaults, &mut scope, &mut late, &mut ignored, look);
    } else {
        let complete = |tree: &Tree, _: &Scope<'_>| tree.clone();
        let section = elements::Section { name: section, complete: &complete };
        elements::for_each(table, &section, &mut scope, &mut late, &mut ignored, look);
    }
    let whole = table.get(section).filter(|_| name.is_empty()).unwrap_or(&root);
    found.unwrap_or_else(|| Site { tree: whole, section, name }.problem(keys, message, help))
}

fn report_unknown_keys(root: &Tree, table: &Table, problems: &mut Problems) {
    let known = keys::file();
    let site = Site { tree: root, section: "", name: "" };
    for (key, _) in table.iter() {
        if !known.contains(&&**key) {
            problems.push(misplaced::unknown(site, Thing::File, (&[], table), key, known));
        }
    }
}

/// Reads one key of the top level, if it is there.
fn read_key<T: DeserializeOwned>(
    table: &Table,
    key: &str,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<T> {
    let tree = table.get(key)?;
    Site { tree, section: "", name: key }.read(scope, problems)
}

/// `ties`: a host that pauses for longer than a millisecond does more than break them.
fn read_ties(table: &Table, scope: &Scope<'_>, problems: &mut Problems) -> Option<Ties> {
    const SPREAD_MAX: Span = Span::from_millis(1);
    let text: raw::TiesText = read_key(table, "ties", scope, problems)?;
    let spread = text.spread.unwrap_or(Span::from_micros(1));
    if spread.is_zero() || spread > SPREAD_MAX {
        let site = Site { tree: table.get("ties")?, section: "", name: "ties" };
        let message = format!("a pause of {spread} is not between 0s and {SPREAD_MAX}");
        problems.push(site.problem(&["spread"], message, "less than a packet takes, like `1us`"));
        return None;
    }
    Some(Ties { seed: text.seed, spread })
}

/// The parameters, of which none is left with braces unless something is wrong with them.
pub(crate) fn read_parameters(table: &Table, problems: &mut Problems) -> IndexMap<String, Parameter> {
    let mut raw = IndexMap::new();
    let Some(tree) = table.get("parameters") else { return raw };
    let site = Site { tree, section: "", name: "parameters" };
    let Some(parameters) = tree.as_table() else {
        problems.push(site.problem(&[], format!("expected a table, found {}", tree.what()), ""));
        return raw;
    };
    for (name, entry) in parameters.iter() {
        let given = match entry.tree.as_table() {
            Some(documented) => match parameter_value(site, name, documented, problems) {
                Some(inner) => inner,
                None => continue,
            },
            None => &entry.tree,
        };
        let value = match &given.value {
            Value::Integer(number) => Parameter::Integer(*number),
            Value::Float(number) => Parameter::Float(*number),
            Value::Text(text) => Parameter::Text(text.to_string()),
            other => {
                let message = format!("a parameter is a number or a string, and this is {}", given.what());
                let help = if let Value::Beyond(written) = other { fault::why_beyond(written) } else { "" };
                problems.push(site.problem(&[name], message, help));
                continue;
            }
        };
        raw.insert(name.to_string(), value);
    }
    match resolve_parameters(&raw) {
        Ok(resolved) => resolved,
        Err((name, why)) => {
            problems.push(site.problem(&[&name], why, ""));
            raw
        }
    }
}

/// Where the value of a parameter comes from: the document says it, it follows from what it says, others say it, it was inferred from
/// the very numbers that are to come out, or it is assumed.
const PROVENANCES: [&str; 5] = ["text", "derived", "literature", "fitted", "assumed"];

/// The value of a parameter that says where it comes from.
fn parameter_value<'t>(
    site: Site<'_>,
    name: &str,
    table: &'t Table,
    problems: &mut Problems,
) -> Option<&'t Tree> {
    if let Some((key, entry)) = table.iter().find(|(key, _)| !keys::parameter().contains(&&***key)) {
        let message = format!("unknown key `{}`", fault::shortened(key));
        let mut problem = site.problem(&[name, key], message, suggest::help(key, keys::parameter()));
        problem.place = entry.key_place;
        problems.push(problem);
        return None;
    }
    for key in &keys::parameter()[1..] {
        let Some(tree) = table.get(key) else { continue };
        let right = match tree.as_text() {
            Some(text) if *key == "provenance" => PROVENANCES.contains(&text),
            Some(_) => true,
            None => false,
        };
        if !right {
            let help = match *key {
                "provenance" => suggest::list("allowed", &PROVENANCES),
                _ => "a string".to_owned(),
            };
            problems.push(site.problem(&[name, key], format!("this is no {key}"), help));
        }
    }
    let value = table.get("value");
    if value.is_none() {
        problems.push(site.problem(&[name], "missing key `value`", ""));
    }
    value
}

/// `duration` and `warmup`. A duration that is missing or wrong becomes the longest, so that it causes no other errors.
fn read_duration(root: &Tree, table: &Table, scope: &Scope<'_>, problems: &mut Problems) -> (Span, Span) {
    let site = Site { tree: root, section: "", name: "" };
    let span =
        |key: &str, found: &mut Problems| -> Option<Span> { read_key::<Span>(table, key, scope, found) };
    let duration = span("duration", problems);
    let warmup = span("warmup", problems).unwrap_or(Span::ZERO);
    let Some(duration) = duration else {
        if !table.contains("duration") {
            problems.push(site.problem(&[], "missing key `duration`", "how long the run is, like `100s`"));
        }
        return (DURATION_MAX, warmup);
    };
    if duration.is_zero() {
        problems.push(site.problem(&["duration"], "a run of no length shows nothing", ""));
        return (DURATION_MAX, warmup);
    }
    if duration > DURATION_MAX {
        problems.push(site.problem(&["duration"], "longer than a hundred years", ""));
    } else if warmup >= duration {
        let message = format!("the warm-up of {warmup} leaves nothing of the run of {duration}");
        problems.push(site.problem(&["warmup"], message, "it must be shorter than `duration`"));
    }
    (duration, warmup)
}
