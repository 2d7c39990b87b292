//! Single values set from outside the file: `listen.port=4000`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Problem, Problems};
use crate::format::Format;
use crate::merge::kind_table;
use crate::source::Place;
use crate::suggest;
use crate::tree::{KindAlone, Table, Tree, Value, parse_value};

/// Keys in one path.
const PATH_KEYS_MAX: usize = 16;

/// A path and the value that it gets.
#[derive(Clone, Debug)]
pub struct Override {
    /// The keys, outermost first; in common with copies, for an axis may set thousands of paths to each of its values.
    pub path: Arc<[String]>,
    /// What is written there instead.
    pub value: Tree,
    /// Where the path was written.
    pub place: Place,
}

/// Overrides of elements that no key of the file names: they wait for the repeats.
#[derive(Debug)]
pub struct Late<'a> {
    format: Format,
    /// By section and name; whether they were used.
    by_name: HashMap<&'static str, HashMap<&'a str, Waiting<'a>>>,
}

#[derive(Debug, Default)]
struct Waiting<'a> {
    overrides: Vec<&'a Override>,
    used: bool,
}

impl Override {
    /// Reads `PATH=VALUE`, text number `source`.
    ///
    /// # Errors
    /// When there is no path, no `=` or no value.
    pub fn parse(assignment: &str, source: u32, format: &Format) -> Result<Self, Problem> {
        let example = format.override_example;
        let fail = |message: String| Problem {
            place: Place::new(source, 0, assignment.len()),
            path: String::new(),
            message,
            help: format!("write PATH=VALUE, like {example}"),
        };
        let (path, at) = split_path(assignment).map_err(&fail)?;
        if !assignment[at..].starts_with('=') {
            return Err(fail("no `=` after the path".to_owned()));
        }
        let value_at = at + 1;
        let text = &assignment[value_at..];
        if text.trim().is_empty() {
            return Err(fail("no value after the `=`".to_owned()));
        }
        let value = match parse_value(text, source) {
            Some(tree) => tree.shifted(value_at),
            None => Tree::text(text.trim(), Place::new(source, value_at, assignment.len())),
        };
        Ok(Self { path: path.into(), value, place: Place::new(source, 0, at) })
    }

    /// The override of `path`, which stands at `place` of a file, with a value of that file.
    ///
    /// # Errors
    /// When `path` is none.
    pub fn in_file(path: &str, place: Place, value: Tree) -> Result<Self, Problem> {
        match split_path(path) {
            Ok((keys, at)) if at == path.len() => Ok(Self { path: keys.into(), value, place }),
            other => {
                let why = other.err().unwrap_or_else(|| "no `=` here".to_owned());
                let message = format!("`{path}` is no path of a key: {why}");
                Err(Problem { place, path: String::new(), message, help: String::new() })
            }
        }
    }

    fn problem(&self, message: String, help: String) -> Problem {
        Problem { place: self.place, path: self.path.join("."), message, help }
    }
}

/// The keys of a dotted path, and where it ends: at a `=` or with the text. Keys may be in quotes.
fn split_path(text: &str) -> Result<(Vec<String>, usize), String> {
    let mut keys = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let key = if let Some(quote) = quote {
            let close = rest[1..].find(quote).ok_or("a quote without its partner")?;
            at += close + 2;
            &rest[1..=close]
        } else {
            let end = rest.find(['.', '=']).unwrap_or(rest.len());
            at += end;
            rest[..end].trim()
        };
        if key.is_empty() {
            return Err("an empty key in the path".to_owned());
        }
        keys.push(key.to_owned());
        if keys.len() > PATH_KEYS_MAX {
            return Err(format!("more than {PATH_KEYS_MAX} keys in the path"));
        }
        match text[at..].chars().next() {
            Some('.') => at += 1,
            None | Some('=') => return Ok((keys, at)),
            Some(_) => return Err("a key in quotes goes on after its quotes".to_owned()),
        }
    }
}

/// A path as it is written: keys that would be taken apart in quotes.
fn written(path: &[String]) -> String {
    let key = |key: &String| if key.contains(['.', '=', ' ']) { format!("\"{key}\"") } else { key.clone() };
    path.iter().map(key).collect::<Vec<_>>().join(".")
}

/// Applies the overrides to the tree; those of elements that only a repeat makes are returned.
pub fn apply<'a>(
    root: &mut Tree,
    overrides: &[&'a Override],
    format: &Format,
    problems: &mut Problems,
) -> Late<'a> {
    let mut late = Late { format: *format, by_name: HashMap::new() };
    for one in overrides {
        if let [section, name, ..] = &one.path[..]
            && let Some(section) = format.repeated.iter().find(|known| *known == section)
            && !root
                .as_table()
                .and_then(|table| table.get(section)?.as_table())
                .is_some_and(|elements| elements.contains(name))
        {
            late.by_name.entry(section).or_default().entry(name).or_default().overrides.push(one);
            continue;
        }
        let mut path = one.path.to_vec();
        if let [section, name] = &one.path[..]
            && section == "parameters"
        {
            let known = root.as_table().and_then(|table| table.get("parameters")?.as_table());
            match known.and_then(|known| known.get(name)) {
                // A name that no string uses would change nothing, and nobody would notice.
                None => {
                    let names: Vec<&str> = known
                        .map(|known| known.iter().map(|(other, _)| &**other).collect())
                        .unwrap_or_default();
                    let message = format!("there is no parameter `{name}` to set");
                    problems.push(one.problem(message, suggest::help(name, &names)));
                    continue;
                }
                // A parameter that says where its value comes from keeps saying it.
                Some(parameter) if parameter.as_table().is_some() && one.value.as_table().is_none() => {
                    path.push("value".to_owned());
                }
                Some(_) => {}
            }
        }
        if let Err(problem) = set(root, &path, one, format) {
            problems.push(problem);
        }
    }
    late
}

/// Sets the value of `one` at `path` inside `tree`.
fn set(tree: &mut Tree, path: &[String], one: &Override, format: &Format) -> Result<(), Problem> {
    let Some((key, rest)) = path.split_first() else {
        *tree = one.value.clone();
        return Ok(());
    };
    match &mut tree.value {
        Value::Table(table) => {
            if rest.is_empty() {
                let before = table.get("kind").and_then(Tree::as_text).map(Arc::from);
                if key == "kind"
                    && let Some(before) = before
                    && one.value.as_text() != Some(&*before)
                {
                    let table_path = one.path.strip_suffix(&["kind".to_owned()]).unwrap_or(&one.path);
                    table.set_kind_alone(KindAlone { before, table: written(table_path).into() });
                }
                table.insert(Arc::from(key.as_str()), one.place, one.value.clone());
                return Ok(());
            }
            if !table.contains(key) {
                let empty = Tree::table(Table::default(), one.place);
                table.insert(Arc::from(key.as_str()), one.place, empty);
            }
            let Some(next) = table.get_mut(key) else { return Ok(()) };
            if matches!(next.value, Value::Text(_)) && format.kind_keys.contains(&key.as_str()) {
                *next = kind_table(next);
            }
            set(next, rest, one, format)
        }
        Value::List(list) => {
            let count = list.len();
            match key.parse::<usize>().ok().and_then(|position| Arc::make_mut(list).get_mut(position)) {
                Some(item) => set(item, rest, one, format),
                None => Err(one.problem(
                    format!("`{key}` is no element of this list"),
                    format!("it has {count} elements, counted from 0"),
                )),
            }
        }
        _ => {
            let what = tree.what();
            Err(one.problem(format!("`{key}` would be a key inside {what}"), String::new()))
        }
    }
}

impl<'a> Late<'a> {
    /// `tree` with the overrides of this element, if there are any.
    pub fn applied(
        &mut self,
        section: &'static str,
        name: &str,
        tree: &Tree,
        problems: &mut Problems,
    ) -> Option<Tree> {
        let waiting = self.by_name.get_mut(section)?.get_mut(name)?;
        waiting.used = true;
        let mut tree = tree.clone();
        for one in &waiting.overrides {
            if let Err(problem) = set(&mut tree, &one.path[2..], one, &self.format) {
                problems.push(problem);
            }
        }
        Some(tree)
    }

    /// The new elements of a section that overrides make: whole tables under names that nothing else has.
    pub fn new_elements(&mut self, section: &'static str, problems: &mut Problems) -> Vec<(&'a str, Tree)> {
        let Some(elements) = self.by_name.get_mut(section) else { return Vec::new() };
        let mut made = Vec::new();
        for (name, waiting) in elements.iter_mut().filter(|(_, waiting)| !waiting.used) {
            let Some((first, others)) = waiting.overrides.split_first() else { continue };
            if first.path.len() != 2 || first.value.as_table().is_none() {
                continue;
            }
            waiting.used = true;
            let mut tree = first.value.clone();
            for one in others {
                if let Err(problem) = set(&mut tree, &one.path[2..], one, &self.format) {
                    problems.push(problem);
                }
            }
            made.push((*name, tree));
        }
        made.sort_by_key(|(_, tree)| (tree.place.source(), tree.place.start()));
        made
    }

    /// Reports the overrides of elements that do not exist.
    pub fn report_unused(
        &self,
        section: &'static str,
        suggest: impl Fn(&str) -> String,
        problems: &mut Problems,
    ) {
        let Some(elements) = self.by_name.get(section) else { return };
        let mut unused: Vec<&Override> = elements
            .values()
            .filter(|waiting| !waiting.used)
            .flat_map(|waiting| waiting.overrides.iter().copied())
            .collect();
        unused.sort_by_key(|one| (one.place.source(), one.place.start()));
        for one in unused {
            let what = section.trim_end_matches('s');
            let name = &one.path[1];
            problems.push(one.problem(format!("there is no {what} `{name}` to override"), suggest(name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { kind_keys: &[], repeated: &[], override_example: "a.b=1" };

    #[test]
    fn paths_and_values_are_read_as_toml_or_as_text() {
        let parse = |text: &str| Override::parse(text, 0, &FORMAT);
        let one = parse("links.\"core{i}\".rate=2Mbit").unwrap();
        assert_eq!(one.path[..], ["links", "core{i}", "rate"]);
        assert_eq!(one.value.as_text(), Some("2Mbit"));
        assert!(matches!(parse("seed=7").unwrap().value.value, Value::Integer(7)));
        assert!(matches!(parse("a.b={ kind = 'red' }").unwrap().value.value, Value::Table(_)));
        for bad in ["", "=", "a", "a..b=1", "a.=1", "a=", ".a=1", "\"a=1", "\"a\"b=1", "\"\"=1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
