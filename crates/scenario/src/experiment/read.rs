//! Reading an experiment from its file.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use indexmap::IndexMap;
use tidegate_document::names::first_duplicate;
use tidegate_document::source::Place;

use super::raw::{Ends, Scale};
use super::{Axis, DocumentedParameter, Experiment, Figure, FigureKind, Variant};
use crate::document::Document;
use crate::error::{ConfigErrors, Problem, Problems};
use crate::fault::{shortened, why_beyond};
use crate::model::Parameter;
use crate::overrides::{self, Override};
use crate::scenario::{Site, keys, read_parameters};
use crate::suggest;
use crate::template::Scope;
use crate::tree::{Table, Tree, Value};

/// Runs of one experiment.
const POINTS_MAX: u64 = 1_000_000;
/// Values of one axis, axes, variants, figures.
const LIST_MAX: usize = 1_000;

/// Reads the keys of an experiment. The scenarios are not built.
pub(super) fn read(document: &Document) -> Result<Experiment, ConfigErrors> {
    let mut problems = Problems::default();
    let mut root = document.root.clone();
    let own: Vec<&Override> = document.overrides();
    // What only a repeat makes is left to the scenarios.
    let _ = overrides::apply(&mut root, &own, &keys::FORMAT, &mut problems);
    let empty = Table::default();
    let table = root.as_table().unwrap_or(&empty);
    let mut reader = Reader { table, root: &root, axis_files: &document.axis_files, problems };
    let mut experiment = Experiment {
        title: reader.text("title"),
        description: reader.text("description"),
        source: reader.text("source"),
        also: reader.also(),
        seeds: reader.count("seeds"),
        quick_seeds: reader.count("quick_seeds"),
        quick_set: reader.quick_set(),
        parameters: reader.parameters(),
        axes: reader.axes(),
        variants: reader.variants(),
        figures: reader.figures(),
        document: document.clone(),
    };
    reader.check(&experiment);
    if !reader.problems.is_empty() {
        // No scenario is built that could say it, and what was found may follow from it: axes in `[axis]`.
        let whole = Site { tree: &root, section: "", name: "" };
        report_unknown(whole, table, keys::file(), &mut reader.problems);
    }
    replace_names(&mut experiment, table);
    reader.problems.finish(Some(experiment), document.base.sources())
}

/// Names in braces of what is said of the whole. A parameter that variants or axes change has no value there, but its name. What
/// cannot be replaced is left: its scenarios say what is wrong.
fn replace_names(experiment: &mut Experiment, table: &Table) {
    let mut parameters = read_parameters(table, &mut Problems::default());
    let axes = experiment.axes.iter().flat_map(|axis| axis.sets.iter().flatten());
    for one in axes.chain(experiment.variants.iter().flat_map(|variant| &variant.set)) {
        let [section, name, ..] = &one.path[..] else { continue };
        if let Some(value) = parameters.get_mut(name).filter(|_| section == "parameters") {
            *value = Parameter::Text(name.clone());
        }
    }
    let elements = Cell::new(0);
    let scope = Scope::new(&parameters, &elements);
    for text in [&mut experiment.title, &mut experiment.description, &mut experiment.source] {
        if let Ok(replaced) = scope.expand(text) {
            *text = replaced.into_owned();
        }
    }
}

struct Reader<'t> {
    table: &'t Table,
    root: &'t Tree,
    axis_files: &'t BTreeMap<String, Vec<Tree>>,
    problems: Problems,
}

impl<'t> Reader<'t> {
    fn site(&self, key: &'t str) -> Option<Site<'t>> {
        Some(Site { tree: self.table.get(key)?, section: "", name: key })
    }

    fn text(&self, key: &str) -> String {
        // Whether it is a string is for the scenario to say.
        self.table.get(key).and_then(Tree::as_text).unwrap_or_default().to_owned()
    }

    fn count(&mut self, key: &'static str) -> u32 {
        let Some(site) = self.site(key) else { return 1 };
        if let Value::Integer(number @ 1..=1_000_000) = &site.tree.value {
            return *number as u32;
        }
        let help = "from 1 to 1000000: seeds are 1 to this";
        self.problems.push(site.problem(&[], "this is no number of seeds", help));
        1
    }

    fn also(&mut self) -> Vec<String> {
        let Some(site) = self.site("also") else { return Vec::new() };
        let names: Option<Vec<&str>> = match &site.tree.value {
            Value::List(list) if list.len() <= LIST_MAX => list.iter().map(Tree::as_text).collect(),
            _ => None,
        };
        let Some(names) = names else {
            let help = r#"like ["3.2a", "3.2b"]: what it holds besides what the file is called"#;
            self.problems.push(site.problem(&[], "this is no list of names", help));
            return Vec::new();
        };
        names.into_iter().map(str::to_owned).collect()
    }

    fn quick_set(&mut self) -> Vec<Override> {
        match self.site("quick_set") {
            Some(site) => set(site, site.tree, &[], &mut self.problems),
            None => Vec::new(),
        }
    }

    /// The tables of `key` with their names.
    fn tables(&mut self, key: &'static str) -> Vec<(Site<'t>, &'t Table)> {
        let Some(site) = self.site(key) else { return Vec::new() };
        let Some(entries) = site.tree.as_table() else {
            let message = format!("expected tables, found {}", site.tree.what());
            self.problems.push(site.problem(&[], message, format!("write [{key}.NAME]")));
            return Vec::new();
        };
        if entries.len() > LIST_MAX {
            self.problems.push(site.problem(&[], format!("more than {LIST_MAX}"), ""));
            return Vec::new();
        }
        let mut tables = Vec::new();
        for (name, entry) in entries.iter() {
            let one = Site { tree: &entry.tree, section: key, name };
            if let Some(table) = entry.tree.as_table() {
                tables.push((one, table));
            } else {
                let message = format!("expected a table, found {}", entry.tree.what());
                self.problems.push(one.problem(&[], message, ""));
            }
        }
        tables
    }

    fn parameters(&self) -> Vec<DocumentedParameter> {
        let Some(parameters) = self.table.get("parameters").and_then(Tree::as_table) else {
            return Vec::new();
        };
        parameters
            .iter()
            .map(|(name, entry)| {
                let table = entry.tree.as_table();
                let text = |key: &str| table?.get(key)?.as_text().map(str::to_owned);
                let value = table.and_then(|table| table.get("value")).unwrap_or(&entry.tree);
                DocumentedParameter {
                    name: name.to_string(),
                    value: value.scalar_text().unwrap_or_default(),
                    label: text("label"),
                    unit: text("unit"),
                    provenance: text("provenance"),
                    why: text("why"),
                }
            })
            .collect()
    }

    fn axes(&mut self) -> Vec<Axis> {
        let mut axes = Vec::new();
        for (site, table) in self.tables("axes") {
            axes.extend(read_axis(site, table, self.axis_files, &mut self.problems));
        }
        axes
    }

    fn variants(&mut self) -> Vec<Variant> {
        let mut variants = Vec::new();
        for (site, table) in self.tables("variants") {
            report_unknown(site, table, keys::variant(), &mut self.problems);
            let label = optional_text(site, table, "label", &mut self.problems);
            let set = match table.get("set") {
                Some(tree) => set(site, tree, &["set"], &mut self.problems),
                None => Vec::new(),
            };
            variants.push(Variant { name: site.name.to_owned(), label, set });
        }
        variants
    }

    fn figures(&mut self) -> Vec<Figure> {
        let Some(site) = self.site("figures") else { return Vec::new() };
        let Value::List(list) = &site.tree.value else {
            let message = format!("expected a list of tables, found {}", site.tree.what());
            self.problems.push(site.problem(&[], message, "write [[figures]]"));
            return Vec::new();
        };
        if list.len() > LIST_MAX {
            self.problems.push(site.problem(&[], format!("more than {LIST_MAX}"), ""));
            return Vec::new();
        }
        // Labels may have braces of their own: nothing is expanded here.
        let (parameters, elements) = (IndexMap::new(), Cell::new(0));
        let scope = Scope::literal(&parameters, &elements);
        let mut figures = Vec::new();
        for (position, tree) in list.iter().enumerate() {
            let name = position.to_string();
            let one = Site { tree, section: "figures", name: &name };
            figures.extend(one.read::<Figure>(&scope, &mut self.problems));
        }
        figures
    }

    /// What no part shows alone.
    fn check(&mut self, experiment: &Experiment) {
        let count = |number: usize| number.max(1) as u64;
        let points = experiment
            .axes
            .iter()
            .map(|axis| count(axis.values.len()))
            .chain([count(experiment.variants.len()), u64::from(experiment.seeds)])
            .fold(1, u64::saturating_mul);
        let root = Site { tree: self.root, section: "", name: "" };
        if points > POINTS_MAX {
            let key = if experiment.axes.is_empty() { "seeds" } else { "axes" };
            let message = format!("{points} runs");
            self.problems.push(root.problem(&[key], message, format!("at most {POINTS_MAX}")));
        }
        let axes: Vec<&str> = experiment.axes.iter().map(|axis| axis.name.as_str()).collect();
        let variants: Vec<&str> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
        let mut ids = HashSet::new();
        // Where one could not be read, others do not stand where they are counted.
        let all_read = self.table.get("figures").is_none_or(
            |tree| matches!(&tree.value, Value::List(list) if list.len() == experiment.figures.len()),
        );
        for (position, figure) in experiment.figures.iter().filter(|_| all_read).enumerate() {
            let position = position.to_string();
            let at = |key: &'static str| ["figures", position.as_str(), key].map(str::to_owned);
            let mut say = |key: &'static str, message: String, help: String| {
                let keys = at(key);
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                self.problems.push(root.problem(&keys, message, help));
            };
            if !is_file_name(&figure.id) {
                // It becomes the name of a file.
                let help =
                    "letters, digits, `.`, `-` and `_`, a letter or digit first, at most 100".to_owned();
                say("id", format!("`{}` is no name", shortened(&figure.id)), help);
            } else if !ids.insert(&figure.id) {
                say("id", format!("there is already a figure `{}`", figure.id), String::new());
            }
            let (is_log_x, is_log_y) = figure.scale.map_or((false, false), Scale::logarithmic);
            for (key, range, is_log) in
                [("x_range", figure.x_range, is_log_x), ("y_range", figure.y_range, is_log_y)]
            {
                if let Some(Ends([low, _])) = range.filter(|Ends([low, _])| is_log && *low <= 0.0) {
                    let help = "begin above zero, or draw it `scale = \"linear\"`".to_owned();
                    say(key, format!("a logarithmic axis has no {low}"), help);
                }
            }
            if figure.y.0.is_empty() {
                say("y", "a figure of nothing".to_owned(), String::new());
            }
            if figure.labels.as_ref().is_some_and(|labels| labels.len() != figure.y.0.len()) {
                say("labels", "as many labels as measures in `y`".to_owned(), String::new());
            }
            for variant in figure.variant.iter().chain(figure.variants.iter().flatten()) {
                if !variants.contains(&variant.as_str()) {
                    let key = if figure.variant.is_some() { "variant" } else { "variants" };
                    let message = format!("there is no variant `{}`", shortened(variant));
                    say(key, message, suggest::help(variant, &variants));
                }
            }
            for (name, cells) in &figure.only {
                let Some(axis) = experiment.axes.iter().find(|axis| axis.name == *name) else {
                    let message = format!("there is no axis `{}`", shortened(name));
                    say("where", message, suggest::help(name, &axes));
                    continue;
                };
                let values: Vec<&str> = axis.values.iter().map(String::as_str).collect();
                if let Some(cell) = cells.0.iter().find(|cell| !values.contains(&cell.as_str())) {
                    let message = format!("the axis `{name}` has no value `{}`", shortened(cell));
                    say("where", message, suggest::list("values", &values));
                } else if cells.0.is_empty() {
                    say("where", format!("no value of the axis `{name}`"), String::new());
                }
            }
            let needs_axis = matches!(figure.kind, FigureKind::Lines | FigureKind::Heatmap);
            match &figure.x {
                Some(x) if !axes.contains(&x.as_str()) => {
                    let message = format!("there is no axis `{}`", shortened(x));
                    say("x", message, suggest::help(x, &axes));
                }
                None if needs_axis => {
                    say("x", "missing key `x`".to_owned(), suggest::list("axes", &axes));
                }
                _ => {}
            }
        }
    }
}

fn report_unknown(site: Site<'_>, table: &Table, known: &[&str], problems: &mut Problems) {
    for (key, entry) in table.iter() {
        if !known.contains(&&**key) {
            let message = format!("unknown key `{}`", shortened(key));
            let help = match &**key {
                "title" | "name" if known.contains(&"label") => "did you mean `label`?".to_owned(),
                _ => suggest::help(key, known),
            };
            let mut problem = site.problem(&[key], message, help);
            problem.place = entry.key_place;
            problems.push(problem);
        }
    }
}

fn optional_text(site: Site<'_>, table: &Table, key: &str, problems: &mut Problems) -> String {
    match table.get(key).map(|tree| (tree, tree.as_text())) {
        None => String::new(),
        Some((_, Some(text))) => text.to_owned(),
        Some((tree, None)) => {
            problems.push(site.problem(&[key], format!("expected a string, found {}", tree.what()), ""));
            String::new()
        }
    }
}

/// The overrides of a table of values by path.
///
/// A bare dotted key, `links.x.rate = "1Mbit"`, is a table in a table for TOML. So a section alone never replaces the
/// section: what it holds is set, value by value.
fn set(site: Site<'_>, tree: &Tree, keys: &[&str], problems: &mut Problems) -> Vec<Override> {
    let Some(table) = tree.as_table() else {
        let message = format!("expected a table of values by path, found {}", tree.what());
        problems.push(site.problem(keys, message, "like { \"links.x.rate\" = \"1Mbit\" }"));
        return Vec::new();
    };
    let mut overrides = Vec::new();
    for (key, entry) in table.iter() {
        let depth = match &**key {
            "links" | "flows" | "domains" | "defaults" => 2,
            "parameters" | "nodes" | "routing" | "record" | "ties" => 1,
            _ => 0,
        };
        match own_override(key, entry.key_place, &entry.tree) {
            Ok(one) => flatten(one, depth, &mut overrides),
            Err(problem) => problems.push(Problem { path: site.path(), ..problem }),
        }
    }
    overrides
}

/// The override of one path, which may be any of a run: nothing would come of the others. A run has the seed of its point, files are
/// read before, and the rest says which runs there are.
fn own_override(path: &str, place: Place, tree: &Tree) -> Result<Override, Problem> {
    let found = Override::in_file(path, place, tree.clone())?;
    let first = found.path.first().map(String::as_str).unwrap_or_default();
    let help = match first {
        "seed" => "`seeds` says how many runs with seeds of their own there are",
        "include" => "an axis chooses among files by `include = [...]` in place of `path`",
        other if keys::EXPERIMENT.contains(&other) => {
            "it says which runs there are; what can vary is what a run has"
        }
        _ => return Ok(found),
    };
    let message = format!("`{first}` is no value to vary");
    Err(Problem { place, path: String::new(), message, help: help.to_owned() })
}

/// The override, or those of the values in its table `depth` tables further in.
fn flatten(one: Override, depth: usize, overrides: &mut Vec<Override>) {
    let Some(table) = one.value.as_table().filter(|_| depth > 0) else {
        overrides.push(one);
        return;
    };
    for (key, entry) in table.iter() {
        let path = one.path.iter().cloned().chain([key.to_string()]).collect();
        let inner = Override { path, value: entry.tree.clone(), place: entry.key_place };
        flatten(inner, depth - 1, overrides);
    }
}

fn read_axis(
    site: Site<'_>,
    table: &Table,
    axis_files: &BTreeMap<String, Vec<Tree>>,
    problems: &mut Problems,
) -> Option<Axis> {
    let before = problems.len();
    report_unknown(site, table, keys::axis(), problems);
    let label = optional_text(site, table, "label", problems);
    let unit = optional_text(site, table, "unit", problems);
    let list = |key| table.get(key).map(|tree| &tree.value);
    let paths: Vec<&Tree> = match (table.get("path"), list("paths"), list("include")) {
        (Some(path), None, None) => vec![path],
        (None, Some(Value::List(paths)), None) => paths.iter().collect(),
        (None, None, Some(Value::List(_))) => Vec::new(),
        _ => {
            let help = "the path of a key, like path = \"parameters.load\"; a list, paths = [...]; or a list of files, \
                        one for each value, include = [...]";
            problems.push(site.problem(&[], "an axis needs one of `path`, `paths` and `include`", help));
            return None;
        }
    };
    let files = if table.contains("include") {
        axis_files.get(site.name).cloned().unwrap_or_default()
    } else {
        Vec::new()
    };
    let trees = scalars(site, table, "values", problems);
    let values: Vec<String> = trees.iter().filter_map(Tree::scalar_text).collect();
    if values.is_empty() && problems.len() == before {
        problems.push(site.problem(&["values"], "an axis needs values", ""));
    }
    if let Some((position, value)) = first_duplicate(values.iter().map(String::as_str)) {
        let keys = ["values", &position.to_string()];
        problems.push(site.problem(&keys, format!("`{}` is there twice", shortened(value)), ""));
    }
    if table.contains("include") && files.len() != values.len() {
        let message = format!("{} files for {} values", files.len(), values.len());
        let help =
            "one for each; and the axis stands in the experiment itself, not in a file that an axis chooses";
        problems.push(site.problem(&["include"], message, help));
    }
    let mut quick = Vec::new();
    for (position, tree) in scalars(site, table, "quick", problems).iter().enumerate() {
        if let Some(value) = values.iter().position(|value| Some(value) == tree.scalar_text().as_ref()) {
            quick.push(value);
        } else {
            let message = "this is none of the values";
            problems.push(site.problem(&["quick", &position.to_string()], message, ""));
        }
    }
    if quick.is_empty() {
        quick = (0..values.len()).collect();
    }
    let mut sets = vec![Vec::with_capacity(paths.len()); trees.len()];
    let mut names = Vec::with_capacity(paths.len());
    for path in &paths {
        let Some(text) = path.as_text() else {
            problems.push(site.problem(&["paths"], "a path is a string", ""));
            continue;
        };
        names.push(text.to_owned());
        let Some(first) = trees.first() else { continue };
        match own_override(text, path.place, first) {
            Ok(one) => {
                for (set, tree) in sets.iter_mut().zip(&trees) {
                    set.push(Override { value: tree.clone(), ..one.clone() });
                }
            }
            Err(problem) => problems.push(Problem { path: site.path(), ..problem }),
        }
    }
    if problems.len() > before {
        return None;
    }
    if let Some(Value::List(list)) = list("include") {
        names.extend(list.iter().filter_map(Tree::as_text).map(str::to_owned));
    }
    Some(Axis { name: site.name.to_owned(), paths: names, values, quick, label, unit, sets, files })
}

/// The list of scalars under `key`.
fn scalars(site: Site<'_>, table: &Table, key: &str, problems: &mut Problems) -> Vec<Tree> {
    let Some(tree) = table.get(key) else { return Vec::new() };
    let list = match &tree.value {
        Value::List(list) if list.iter().all(|one| one.scalar_text().is_some()) => {
            for (position, one) in list.iter().enumerate() {
                if let Value::Beyond(written) = &one.value {
                    let keys = [key, &position.to_string()];
                    problems.push(site.problem(
                        &keys,
                        format!("this is {}", one.what()),
                        why_beyond(written),
                    ));
                }
            }
            list
        }
        _ => {
            problems.push(site.problem(&[key], "expected a list of strings, numbers or booleans", ""));
            return Vec::new();
        }
    };
    if list.len() > LIST_MAX {
        problems.push(site.problem(&[key], format!("more than {LIST_MAX} values"), ""));
        return Vec::new();
    }
    list.to_vec()
}
/// Whether a file may be called so, in any folder and on any system.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= 100 && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use super::*;

    #[test]
    fn values_of_an_axis_and_seeds_of_a_point_have_paths_in_common() {
        let text =
            "seeds = 2\n[axes.x]\npaths = ['links.l.rate', 'links.m.rate']\nvalues = ['1Mbit', '2Mbit']\n";
        let experiment = Document::from_text("test.toml", text).unwrap().experiment().unwrap();
        let sets = &experiment.axes[0].sets;
        assert_eq!(sets[1][1].path[..], ["links", "m", "rate"]);
        assert_eq!(sets[1][1].value.as_text(), Some("2Mbit"));
        assert!(Arc::ptr_eq(&sets[0][1].path, &sets[1][1].path));
        let points = experiment.points(false);
        assert_eq!(points[2].overrides[1], ("links.m.rate".to_owned(), "2Mbit".to_owned()));
        assert!(Arc::ptr_eq(&points[2].overrides, &points[3].overrides));
    }

    #[test]
    fn a_figure_is_called_what_a_file_may_be_called_anywhere() {
        for name in ["rate", "6.17b", "a-b_c", "8"] {
            assert!(is_file_name(name), "{name}");
        }
        let long = "x".repeat(101);
        for name in
            ["", ".", "..", "../a", "/etc/passwd", "a/b", "a\\b", ".hidden", "a b", "\u{e4}", "a\0", &long]
        {
            assert!(!is_file_name(name), "{name}");
        }
    }
}
