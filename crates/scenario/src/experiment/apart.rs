//! Runs that are told apart by nothing but their names.

use std::sync::Arc;

use super::{Experiment, shown};
use crate::error::{ConfigError, Problem};
use crate::overrides::Override;

/// What the command line sets wins over variants and axes: where these differ in nothing else, their runs are the same under several
/// names. It may be meant, as where one point alone is looked at.
pub(super) fn warnings(experiment: &Experiment) -> Vec<ConfigError> {
    let own = experiment.document.overrides();
    let wins = |one: &Override| own.iter().copied().find(|winner| one.path.starts_with(&winner.path));
    let mut found = Vec::new();
    for axis in experiment.axes.iter().filter(|axis| axis.files.is_empty()) {
        if let Some(winner) = all_alike(&axis.sets, wins) {
            let name = &axis.name;
            let has_quick = axis.quick.len() < axis.values.len();
            let quick = if has_quick { format!(", with `axes.{name}.quick`") } else { String::new() };
            let message = format!("axis `{name}` varies this, and all its runs are the same");
            let help = format!("`--set axes.{name}.values=[...]` changes what it takes{quick}");
            found.push((winner, message, help));
        }
    }
    let sets: Vec<&Vec<Override>> = experiment.variants.iter().map(|variant| &variant.set).collect();
    if let Some(winner) = all_alike(&sets, wins) {
        let first = &experiment.variants[0].name;
        let message = "variants differ in nothing else, and all their runs are the same".to_owned();
        let help = format!("one of them alone: `tidegate run FILE --variant {first}` with this `--set`");
        found.push((winner, message, help));
    }
    let sources = experiment.document.base.sources();
    let told = found.into_iter().map(|(winner, message, help)| {
        Problem { place: winner.place, path: winner.path.join("."), message, help }.resolve(sources)
    });
    told.collect()
}

/// One that wins over what `sets` set, if all of them would set the same without what is lost.
fn all_alike<'o>(
    sets: &[impl AsRef<[Override]>],
    wins: impl Fn(&Override) -> Option<&'o Override>,
) -> Option<&'o Override> {
    let left = |set: &[Override]| {
        let left = set.iter().filter(|one| wins(one).is_none());
        left.map(|one| (Arc::clone(&one.path), shown(&one.value))).collect::<Vec<_>>()
    };
    let [first, others @ ..] = sets else { return None };
    let all = first.as_ref().iter().chain(others.iter().flat_map(AsRef::as_ref));
    let winner = all.filter(|_| !others.is_empty()).find_map(&wins)?;
    let first = left(first.as_ref());
    others.iter().all(|other| left(other.as_ref()) == first).then_some(winner)
}
