//! Links, flows, domains: named tables, possibly repeated, laid over defaults.

use std::cell::RefCell;

use indexmap::IndexMap;
use indexmap::map::Entry as Slot;

use super::misplaced::{self, Thing};
use super::{Site, keys};
use crate::error::Problems;
use crate::fault::shortened;
use crate::overrides::Late;
use crate::suggest;
use crate::template::{Scope, check_name, range_length};
use crate::tree::{Table, Tree, Value};

/// Variables of one repeat.
const VARIABLES_MAX: usize = 4;
/// Bytes of one name.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// The tables of `[defaults]`.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) link: Option<Tree>,
    pub(crate) flow: Option<Tree>,
    pub(crate) tcp: Option<Tree>,
    pub(crate) udp: Option<Tree>,
}

impl Defaults {
    pub(crate) fn read(table: &Table, problems: &mut Problems) -> Self {
        let mut defaults = Self::default();
        let Some(tree) = table.get("defaults") else { return defaults };
        let site = Site { tree, section: "", name: "defaults" };
        let Some(entries) = tree.as_table() else {
            problems.push(site.problem(&[], format!("expected a table, found {}", tree.what()), ""));
            return defaults;
        };
        for (key, entry) in entries.iter() {
            let slot = match &**key {
                "link" => &mut defaults.link,
                "flow" => &mut defaults.flow,
                "tcp" => &mut defaults.tcp,
                "udp" => &mut defaults.udp,
                other => {
                    let known = keys::defaults();
                    problems.push(misplaced::unknown(site, Thing::Defaults, (&[], entries), other, known));
                    continue;
                }
            };
            if entry.tree.as_table().is_none() {
                let message = format!("expected a table, found {}", entry.tree.what());
                problems.push(site.problem(&[key], message, ""));
                continue;
            }
            *slot = Some(entry.tree.clone());
        }
        defaults
    }
}

/// The names of one kind of element.
#[derive(Debug, Default)]
pub(crate) struct Names {
    index: IndexMap<String, ()>,
    /// What was asked for last of what is not there, and the help for it: in a repeat it is asked for again and again.
    missed: RefCell<(String, String)>,
}

impl Names {
    /// The position of a name.
    pub(crate) fn get(&self, name: &str) -> Option<u32> {
        self.index.get_index_of(name).map(|position| position as u32)
    }
    /// Adds a name; `false` if it was there.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        match self.index.entry(name.to_owned()) {
            Slot::Occupied(_) => false,
            Slot::Vacant(slot) => {
                slot.insert(());
                true
            }
        }
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.index.keys().map(String::as_str)
    }
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
    /// Help for a name that is not there.
    pub(crate) fn suggest(&self, name: &str) -> String {
        let mut missed = self.missed.borrow_mut();
        if missed.0 != name || missed.1.is_empty() {
            let help = suggest::nearest(name, self.iter()).map_or_else(
                || suggest::list("known", &self.iter().take(30).collect::<Vec<_>>()),
                |near| format!("did you mean `{near}`?"),
            );
            *missed = (name.to_owned(), help);
        }
        missed.1.clone()
    }
}

/// Whether `name` can be the name of an element; results and patterns use these names between dots.
pub(crate) fn check_element_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes"));
    }
    let bad = |c: char| c.is_control() || c.is_whitespace() || ".*?[]{}\"'`,=\\".contains(c);
    if let Some(c) = name.chars().find(|c| bad(*c)) {
        return Err(format!("a name cannot contain {c:?}"));
    }
    Ok(())
}

/// One section of the file and how its elements are completed.
pub(crate) struct Section<'s> {
    pub(crate) name: &'static str,
    /// Lays an element over its defaults.
    pub(crate) complete: &'s dyn Fn(&Tree, &Scope<'_>) -> Tree,
}

/// Calls `each` with every element of a section, complete and in order, in the scope of its repeat.
pub(crate) fn for_each(
    table: &Table,
    section: &Section<'_>,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
    mut each: impl FnMut(Site<'_>, &Scope<'_>, &mut Problems),
) -> Names {
    let mut names = Names::default();
    if let Some(tree) = table.get(section.name) {
        let site = Site { tree, section: "", name: section.name };
        match tree.as_table() {
            None => {
                let help = tables_wanted(section.name, tree);
                problems.push(site.problem(&[], format!("expected tables, found {}", tree.what()), help));
            }
            Some(elements) => {
                for (key, entry) in elements.iter() {
                    if problems.is_full() {
                        break;
                    }
                    let mut element = entry.tree.clone();
                    // An element is where its name is; its last key may be far below.
                    element.place = entry.key_place;
                    one(section, key, &element, scope, late, problems, &mut names, &mut each);
                }
            }
        }
    }
    for (name, tree) in late.new_elements(section.name, problems) {
        one(section, name, &tree, scope, late, problems, &mut names, &mut each);
    }
    late.report_unused(section.name, |name| names.suggest(name), problems);
    names
}

/// How the tables of `section` are written, where something else, `tree`, stands there.
fn tables_wanted(section: &str, tree: &Tree) -> String {
    let Value::List(list) = &tree.value else { return format!("write [{section}.NAME]") };
    // Those who write lists give names inside.
    let name = list.first().and_then(Tree::as_table).and_then(|table| table.get("name")?.as_text());
    let name = name.filter(|name| check_element_name(name).is_ok()).unwrap_or("NAME");
    format!("each has a name of its own: write [{section}.{name}], not [[{section}]]")
}

/// One element of the file, which a repeat may make many.
#[allow(clippy::too_many_arguments, reason = "the state of one loop")]
fn one(
    section: &Section<'_>,
    key: &str,
    tree: &Tree,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
    names: &mut Names,
    each: &mut impl FnMut(Site<'_>, &Scope<'_>, &mut Problems),
) {
    let site = Site { tree, section: section.name, name: key };
    if tree.as_table().is_none() {
        problems.push(site.problem(&[], format!("expected a table, found {}", tree.what()), ""));
        return;
    }
    let Some((own, variables)) = without_repeat(site, problems) else { return };
    let complete = (section.complete)(&own, scope);
    let mut visit = |inner: &Scope<'_>, found: &mut Problems| -> bool {
        let name = match inner.expand(key) {
            Ok(name) => name,
            Err(why) => {
                found.push(site.problem(&[], why, ""));
                return false;
            }
        };
        if let Err(why) = check_element_name(&name) {
            found.push(site.problem(&[], format!("`{}`: {why}", shortened(&name)), ""));
            return false;
        }
        if !names.insert(&name) {
            let help = if variables.is_empty() || key != name {
                "names are unique after repeats are expanded"
            } else {
                "a repeated element needs its variable in its name, like `core{i}`"
            };
            found.push(site.problem(&[], format!("`{name}` is there twice"), help));
            return false;
        }
        let special =
            late.applied(section.name, &name, &own, found).map(|one| (section.complete)(&one, inner));
        let whole = special.as_ref().unwrap_or(&complete);
        each(Site { tree: whole, section: section.name, name: &name }, inner, found);
        !found.is_full()
    };
    if let Err(why) = repeat(&variables, scope, problems, &mut visit) {
        problems.push(site.problem(&["repeat"], why, ""));
    }
}

/// A table without its `repeat`, and the variables of that; `None` where it is wrong.
pub(crate) fn without_repeat(
    site: Site<'_>,
    problems: &mut Problems,
) -> Option<(Tree, Vec<(String, String)>)> {
    let mut own = site.tree.clone();
    let Some(repeat) = site.tree.as_table().and_then(|table| table.get("repeat")) else {
        return Some((own, Vec::new()));
    };
    let Some(text) = repeat.as_text() else {
        let message = format!("expected text like \"i = 1..3\", found {}", repeat.what());
        problems.push(site.problem(&["repeat"], message, ""));
        return None;
    };
    match parse_repeat(text) {
        Ok(variables) => {
            if let Some(without) = own.as_table_mut() {
                without.remove("repeat");
            }
            Some((own, variables))
        }
        Err(why) => {
            problems.push(site.problem(&["repeat"], why, "write one like `i = 1..3`"));
            None
        }
    }
}

/// The variables of a repeat and their ranges.
pub(crate) fn parse_repeat(text: &str) -> Result<Vec<(String, String)>, String> {
    let variables: Vec<(String, String)> = text
        .split(',')
        .map(|part| match part.split_once('=') {
            Some((name, range)) => {
                check_name(name.trim())?;
                Ok((name.trim().to_owned(), range.trim().to_owned()))
            }
            None => Err(format!("`{}` is no repeat", shortened(part.trim()))),
        })
        .collect::<Result<_, String>>()?;
    if variables.len() > VARIABLES_MAX {
        return Err(format!("more than {VARIABLES_MAX} variables"));
    }
    Ok(variables)
}

/// Calls `visit` for all values of the variables, the last running fastest, until it says stop.
pub(crate) fn repeat(
    variables: &[(String, String)],
    scope: &mut Scope<'_>,
    problems: &mut Problems,
    visit: &mut impl FnMut(&Scope<'_>, &mut Problems) -> bool,
) -> Result<bool, String> {
    let Some(((name, range), inner)) = variables.split_first() else {
        scope.take_elements(1)?;
        return Ok(visit(scope, problems));
    };
    let (first, last) = scope.range(range)?;
    let count = range_length(first, last)?;
    // Also an empty inner range costs time for each outer value.
    scope.take_elements(count)?;
    scope.enter(name, first);
    let mut result = Ok(true);
    for value in first..=last {
        scope.set_last(value);
        result = repeat(inner, scope, problems, visit);
        if result != Ok(true) {
            break;
        }
    }
    scope.leave();
    result
}
