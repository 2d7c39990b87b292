//! Markers: whose packets they mark, and where.

use tidegate_parameters::bound::INSIDE;
use tidegate_parameters::{Check as _, Report};

use super::Site;
use super::elements::{Names, Section, for_each};
use super::flows::Flows;
use super::misplaced::{self, Thing};
use super::nodes::Nodes;
use super::raw::MarkerText;
use super::record::matching;
use crate::error::Problems;
use crate::model::{FlowIndex, MarkerPoint};
use crate::overrides::Late;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// Names that all patterns may be compared with.
const COMPARISONS_MAX: u64 = 50_000_000;

/// The pattern that takes every flow, also those of real hosts.
const EVERY_FLOW: &str = "*";

/// The markers and their names.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    pub(crate) names: Names,
    pub(crate) list: Vec<MarkerPoint>,
}

/// Reads `[markers]`.
pub(crate) fn read(
    table: &Table,
    nodes: &Nodes,
    flows: &Flows,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Markers {
    let mut list = Vec::new();
    let mut left = COMPARISONS_MAX;
    let complete = |tree: &Tree, _: &Scope<'_>| tree.clone();
    let section = Section { name: "markers", complete: &complete };
    let names = for_each(table, &section, scope, late, problems, |site, scope, problems| {
        list.extend(read_marker(site, nodes, flows, &mut left, scope, problems));
    });
    Markers { names, list }
}

fn read_marker(
    site: Site<'_>,
    nodes: &Nodes,
    flows: &Flows,
    left: &mut u64,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<MarkerPoint> {
    let text: MarkerText = misplaced::read(site, (Thing::Marker, &[]), scope, problems)?;
    let before = problems.len();
    let at = match text.at.as_deref().map(|name| nodes.find(name, &site, &["at"])) {
        None => None,
        Some(Ok(index)) => Some(index),
        Some(Err(problem)) => {
            problems.push(problem);
            None
        }
    };
    if text.flows.is_empty() {
        let help = "a list of names of flows, which may have `*` and `?`";
        problems.push(site.problem(&["flows"], "a marker needs flows", help));
    }
    let mut chosen = Vec::new();
    let has_all = text.flows.iter().any(|pattern| pattern == EVERY_FLOW);
    for (position, pattern) in text.flows.iter().enumerate() {
        if pattern == EVERY_FLOW && flows.names.len() == 0 && nodes.has_real() {
            // All its packets come from real hosts.
            continue;
        }
        match matching(&flows.names, pattern, "flow", left) {
            Ok(found) => chosen.extend(found),
            Err((message, help)) => {
                problems.push(site.problem(&["flows", &position.to_string()], message, help));
            }
        }
    }
    // A flow that two patterns name is marked once.
    chosen.sort_unstable();
    chosen.dedup();
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    INSIDE.check("mechanism", &text.mechanism, &mut Report::new(&mut sink));
    if problems.len() > before {
        return None;
    }
    Some(MarkerPoint {
        name: site.name.to_owned(),
        at,
        flows: chosen.into_iter().map(FlowIndex).collect(),
        has_all,
        mechanism: text.mechanism,
    })
}
