//! A configuration as a tree of values that know where they were written.

use std::fmt::Write as _;
use std::sync::Arc;

use indexmap::IndexMap;
use toml::de::{DeTable, DeValue};

use crate::error::{ERRORS_MAX, Problem};
use crate::source::Place;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The value.
    pub value: Value,
    /// Where.
    pub place: Place,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(Arc<str>),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Float(f64),
    /// A number that nothing here can hold, as it was written: `nan`, `inf`, a whole one of more than 64 bits. Whoever reads it
    /// refuses it, so that the error can say which key it is and what that may be.
    Beyond(Arc<str>),
    /// True or false.
    Boolean(bool),
    /// Values in a row. Copies of a tree have them in common until one is changed, as they have tables.
    List(Arc<Vec<Tree>>),
    /// Named values.
    Table(Table),
}

/// Named values, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In common with copies until one is changed: a file is copied for each of its points, and a point changes little.
    entries: Arc<IndexMap<Arc<str>, Entry>>,
    /// Where an override set its `kind` alone.
    kind_alone: Option<KindAlone>,
}

/// An override of the `kind` of a table and of nothing else, so that its other keys may be those of another kind.
#[derive(Clone, Debug)]
pub struct KindAlone {
    /// The kind before.
    pub before: Arc<str>,
    /// The path of the table.
    pub table: Arc<str>,
}

/// A value in a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where its key was written.
    pub key_place: Place,
    /// What stands under it.
    pub tree: Tree,
}

/// Tables and lists in one another; enough for every key of the format, and safe for recursion.
const DEPTH_MAX: usize = 40;
/// Values of one file.
const VALUES_MAX: usize = 4_000_000;

impl Table {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entries.get(key).map(|entry| &entry.tree)
    }
    /// The value of `key`, and where the key was written.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }
    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        let position = self.entries.get_index_of(key)?;
        Arc::make_mut(&mut self.entries).get_index_mut(position).map(|(_, entry)| &mut entry.tree)
    }
    /// Whether there is such a key.
    pub fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }
    /// Adds a value; one of the same key is replaced where it stands.
    pub fn insert(&mut self, key: Arc<str>, key_place: Place, tree: Tree) {
        Arc::make_mut(&mut self.entries).insert(key, Entry { key_place, tree });
    }
    /// The override that set its `kind` alone, if one did.
    pub fn kind_alone(&self) -> Option<&KindAlone> {
        self.kind_alone.as_ref()
    }
    /// Says that an override set its `kind` alone.
    pub fn set_kind_alone(&mut self, alone: KindAlone) {
        self.kind_alone = Some(alone);
    }
    /// Removes a key of a small table; the order of the others stays.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        self.entries.get_index_of(key)?;
        Arc::make_mut(&mut self.entries).shift_remove(key)
    }
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Keys and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.entries.iter()
    }
    /// One line of TOML for each key.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, entry) in self.iter() {
            text.push_str(&serde_json::Value::from(&**key).to_string());
            text.push_str(" = ");
            entry.tree.write_toml(&mut text);
            text.push('\n');
        }
        text
    }
    /// The key and value at `position` of the order.
    pub fn at(&self, position: usize) -> Option<(&Arc<str>, &Entry)> {
        self.entries.get_index(position)
    }
}

impl Tree {
    /// A string.
    pub fn text(text: &str, place: Place) -> Self {
        Self { value: Value::Text(text.into()), place }
    }
    /// A table.
    pub fn table(table: Table, place: Place) -> Self {
        Self { value: Value::Table(table), place }
    }
    /// The table that it is, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }
    /// The value as TOML on one line.
    pub fn write_toml(&self, out: &mut String) {
        // A basic string of JSON is one of TOML, but for the escapes of slashes, which serde_json does not write, and DEL.
        let quoted = |text: &str| serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
        match &self.value {
            Value::Text(text) => out.push_str(&quoted(text)),
            Value::Integer(number) => out.push_str(&number.to_string()),
            // `{:?}` always writes a point or an exponent, and the names of what is not finite are the same but for NaN.
            Value::Float(number) if number.is_nan() => out.push_str("nan"),
            Value::Float(number) => write!(out, "{number:?}").expect("a string takes all"),
            Value::Beyond(written) => out.push_str(written),
            Value::Boolean(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::List(list) => {
                out.push('[');
                for (position, tree) in list.iter().enumerate() {
                    out.push_str(if position > 0 { ", " } else { "" });
                    tree.write_toml(out);
                }
                out.push(']');
            }
            Value::Table(table) => {
                out.push('{');
                for (position, (key, entry)) in table.iter().enumerate() {
                    out.push_str(if position > 0 { ", " } else { "" });
                    out.push_str(&quoted(key));
                    out.push_str(" = ");
                    entry.tree.write_toml(out);
                }
                out.push('}');
            }
        }
    }
    /// The same, to be changed.
    pub fn as_table_mut(&mut self) -> Option<&mut Table> {
        if let Value::Table(table) = &mut self.value { Some(table) } else { None }
    }
    /// The string that it is, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// What kind of value it is, for messages.
    pub const fn what(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Beyond(_) => "a number that cannot be held",
            Value::Boolean(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The value at `path` inside this one, or the innermost on the way to it; the key where there is one.
    pub fn place_of(&self, path: &[&str]) -> Place {
        let mut here = self;
        for step in path {
            let next = match &here.value {
                Value::Table(table) => table.get(step),
                Value::List(list) => step.parse::<usize>().ok().and_then(|position| list.get(position)),
                _ => None,
            };
            match next {
                Some(tree) => here = tree,
                None => break,
            }
        }
        here.place
    }

    /// The scalar as a configuration would write it; `None` for lists and tables.
    pub fn scalar_text(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.to_string()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Beyond(written) => Some(written.to_string()),
            Value::Boolean(boolean) => Some(boolean.to_string()),
            Value::List(_) | Value::Table(_) => None,
        }
    }

    /// The value on one line, as TOML would write it inline.
    pub fn inline(&self) -> String {
        match &self.value {
            Value::List(list) => {
                let items: Vec<String> = list.iter().map(Self::inline).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Table(table) => {
                let entries: Vec<String> =
                    table.iter().map(|(key, entry)| format!("{key} = {}", entry.tree.inline())).collect();
                if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
            }
            Value::Text(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Beyond(written) => written.to_string(),
            Value::Boolean(boolean) => boolean.to_string(),
        }
    }

    /// The same with all places `bytes` further on.
    pub fn shifted(mut self, bytes: usize) -> Self {
        self.place = self.place.shifted(bytes);
        self.value = match self.value {
            Value::List(list) => {
                let list = Arc::unwrap_or_clone(list).into_iter().map(|tree| tree.shifted(bytes));
                Value::List(Arc::new(list.collect()))
            }
            Value::Table(table) => Value::Table(Table {
                kind_alone: table.kind_alone,
                entries: Arc::unwrap_or_clone(table.entries)
                    .into_iter()
                    .map(|(key, entry)| {
                        let key_place = entry.key_place.shifted(bytes);
                        (key, Entry { key_place, tree: entry.tree.shifted(bytes) })
                    })
                    .collect::<IndexMap<_, _>>()
                    .into(),
            }),
            scalar => scalar,
        };
        self
    }
}

/// Reads a TOML document, text number `source`.
///
/// # Errors
/// What is no TOML, up to 20 things; or that it is too large or too deep.
pub fn parse_document(text: &str, source: u32) -> Result<Tree, Vec<Problem>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(syntax_problems(text, &errors, source));
    }
    let span = root.span();
    let mut count = 0;
    let table = convert_table(root.into_inner(), source, 0, &mut count).map_err(|problem| vec![problem])?;
    Ok(Tree::table(table, Place::new(source, span.start, span.start)))
}

/// Reads one TOML value; `None` if `text` is none.
pub fn parse_value(text: &str, source: u32) -> Option<Tree> {
    let value = DeValue::parse(text).ok()?;
    let span = value.span();
    let place = Place::new(source, span.start, span.end);
    let mut count = 0;
    let value = convert(value.into_inner(), place, source, 0, &mut count).ok()?;
    Some(Tree { value, place })
}

/// What the parser complains of, at most [`ERRORS_MAX`] things.
fn syntax_problems(text: &str, errors: &[toml::de::Error], source: u32) -> Vec<Problem> {
    let with_help =
        |message, help: &str, place| Problem { help: help.to_owned(), ..syntax_problem(message, place) };
    let mut problems = Vec::new();
    // Where the last table begins that is there twice; it repeats its keys, too, and that is one mistake.
    let mut repeated = None;
    // Those that are left out are bounded too: each looks back over the text.
    for error in errors.iter().take(10 * ERRORS_MAX) {
        let span = error.span().unwrap_or(0..0);
        let before = text.get(..span.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
        let is_in_repeated =
            repeated.and_then(|begin| before.get(begin..)).is_some_and(|between| !between.contains("\n["));
        if error.message() != "duplicate key" {
            problems.push(syntax_problem(error.message(), Place::new(source, span.start, span.end)));
        } else if line.starts_with('[') {
            repeated = Some(line_start);
            let place = Place::new(source, line_start, line_start + line.len());
            // Those are lists in every file.
            let help = match line.trim_matches(['[', ']']).trim() {
                name @ ("figures" | "events") => {
                    format!("write [[{name}]] each time: it is a list of tables")
                }
                _ => {
                    "give one of them another name, or write what belongs together into one table".to_owned()
                }
            };
            problems.push(with_help("this table is there twice", &help, place));
        } else if !is_in_repeated {
            let help = "give one of them another name, or take one away";
            problems.push(with_help("duplicate key", help, Place::new(source, span.start, span.end)));
        }
        if problems.len() == ERRORS_MAX {
            break;
        }
    }
    problems
}

fn syntax_problem(message: &str, place: Place) -> Problem {
    Problem { place, path: String::new(), message: format!("not TOML: {message}"), help: String::new() }
}

fn convert_table(table: DeTable<'_>, source: u32, depth: usize, count: &mut usize) -> Result<Table, Problem> {
    let mut pairs: Vec<_> = table.into_iter().collect();
    // The parser sorts by name; people think in the order in which they wrote.
    pairs.sort_by_key(|(key, _)| key.span().start);
    let mut entries = IndexMap::with_capacity(pairs.len());
    for (key, value) in pairs {
        let key_place = Place::new(source, key.span().start, key.span().end);
        let place = Place::new(source, value.span().start, value.span().end);
        let value = convert(value.into_inner(), place, source, depth + 1, count)?;
        let place = if matches!(value, Value::Table(_)) && place.start() <= key_place.start() {
            key_place
        } else {
            place
        };
        entries.insert(Arc::from(&**key.get_ref()), Entry { key_place, tree: Tree { value, place } });
    }
    Ok(Table { entries: Arc::new(entries), kind_alone: None })
}

fn convert(
    value: DeValue<'_>,
    place: Place,
    source: u32,
    depth: usize,
    count: &mut usize,
) -> Result<Value, Problem> {
    *count += 1;
    if *count > VALUES_MAX {
        return Err(syntax_problem(&format!("more than {VALUES_MAX} values"), place));
    }
    if depth > DEPTH_MAX {
        return Err(syntax_problem(&format!("nested deeper than {DEPTH_MAX} levels"), place));
    }
    Ok(match value {
        DeValue::String(text) => Value::Text(Arc::from(&*text)),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Beyond(Arc::from(&*number.to_string())),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Float(number),
            _ => Value::Beyond(Arc::from(&*number.to_string())),
        },
        DeValue::Boolean(boolean) => Value::Boolean(boolean),
        DeValue::Datetime(_) => {
            return Err(syntax_problem("dates and times of day have no place here", place));
        }
        DeValue::Array(list) => Value::List(
            list.into_iter()
                .map(|item| {
                    let at = Place::new(source, item.span().start, item.span().end);
                    let inner = convert(item.into_inner(), at, source, depth + 1, count)?;
                    Ok(Tree { value: inner, place: at })
                })
                .collect::<Result<Vec<_>, Problem>>()?
                .into(),
        ),
        DeValue::Table(table) => Value::Table(convert_table(table, source, depth, count)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_in_common_what_is_not_changed() {
        let text = "a = { b = [1, 2], c = { d = 1 } }\ne = { f = 1 }\ng = [[1], [2]]";
        let tree = parse_document(text, 0).unwrap();
        let mut copy = tree.clone();
        let table = |of: &Tree, path: &[&str]| {
            let found = path.iter().fold(of, |here, key| here.as_table().unwrap().get(key).unwrap());
            Arc::clone(&found.as_table().unwrap().entries)
        };
        let list = |of: &Tree, key: &str| match &of.as_table().unwrap().get(key).unwrap().value {
            Value::List(list) => Arc::clone(list),
            other => panic!("{other:?} is no list"),
        };
        assert!(Arc::ptr_eq(&table(&tree, &[]), &table(&copy, &[])));
        let changed = copy.as_table_mut().unwrap().get_mut("e").unwrap();
        changed.as_table_mut().unwrap().insert("f".into(), tree.place, Tree::text("2", tree.place));
        assert!(copy.as_table_mut().unwrap().get_mut("h").is_none());
        assert_eq!((tree.inline().contains("f = 1"), copy.inline().contains("f = \"2\"")), (true, true));
        assert!(Arc::ptr_eq(&table(&tree, &["a"]), &table(&copy, &["a"])));
        assert!(Arc::ptr_eq(&table(&tree, &["a", "c"]), &table(&copy, &["a", "c"])));
        assert!(Arc::ptr_eq(&list(&tree, "g"), &list(&copy, "g")));
    }
}
