//! Laying one table over another: includes, defaults, overrides of a part.

use std::sync::Arc;

use crate::format::Format;
use crate::tree::{Table, Tree, Value};

/// The section whose keys are names that somebody gave, so that none of them is one of [`Format::kind_keys`].
const NAMED: &str = "parameters";

/// `over` laid over `base`: tables merge, everything else of `over` wins.
///
/// Two tables of different `kind` do not merge: `over` replaces `base`. `key` is the key of both.
pub fn merged(base: &Tree, over: &Tree, key: &str, format: &Format) -> Tree {
    let by_kind = format.kind_keys.contains(&key);
    match (&base.value, &over.value) {
        (Value::Table(base_table), Value::Table(over_table)) => {
            if differ_in_kind(base_table, over_table) {
                return over.clone();
            }
            let inside = if key == NAMED { Format { kind_keys: &[], ..*format } } else { *format };
            Tree::table(merged_tables(base_table, over_table, &inside), over.place)
        }
        (Value::Text(_), Value::Table(over_table)) if by_kind && !over_table.contains("kind") => {
            merged(&kind_table(base), over, key, format)
        }
        (Value::Table(_), Value::Text(_)) if by_kind => merged(base, &kind_table(over), key, format),
        _ => over.clone(),
    }
}

/// The tables merged, the keys of `base` first.
pub fn merged_tables(base: &Table, over: &Table, format: &Format) -> Table {
    let mut result = base.clone();
    for (key, entry) in over.iter() {
        let tree = match base.get(key) {
            Some(below) => merged(below, &entry.tree, key, format),
            None => entry.tree.clone(),
        };
        result.insert(Arc::clone(key), entry.key_place, tree);
    }
    if let Some(alone) = over.kind_alone() {
        result.set_kind_alone(alone.clone());
    }
    result
}

/// `kind = "..."` as a table, for a kind written alone.
pub fn kind_table(text: &Tree) -> Tree {
    let mut table = Table::default();
    table.insert(Arc::from("kind"), text.place, text.clone());
    Tree::table(table, text.place)
}

fn differ_in_kind(base: &Table, over: &Table) -> bool {
    let kind = |table: &Table| table.get("kind").map(|tree| tree.as_text().map(str::to_owned));
    match (kind(base), kind(over)) {
        (Some(base), Some(over)) => base != over,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_document;

    const FORMAT: Format = Format { kind_keys: &["queue"], repeated: &[], override_example: "a=1" };

    fn merge(base: &str, over: &str) -> String {
        let parse = |text| parse_document(text, 0).unwrap();
        let (base, over) = (parse(base), parse(over));
        let table = merged_tables(base.as_table().unwrap(), over.as_table().unwrap(), &FORMAT);
        table.get("queue").map(show).unwrap()
    }

    fn show(tree: &Tree) -> String {
        match &tree.value {
            Value::Table(table) => table
                .iter()
                .fold(String::new(), |text, (key, entry)| text + key + "=" + &show(&entry.tree) + " "),
            _ => tree.scalar_text().unwrap(),
        }
    }

    #[test]
    fn tables_of_one_kind_merge_and_of_another_replace() {
        let base = "queue = { kind = 'red', limit = '50p', min = '5p' }";
        assert_eq!(merge(base, "queue = { limit = '9p' }"), "kind=red limit=9p min=5p ");
        assert_eq!(merge(base, "queue = { kind = 'red', min = '9p' }"), "kind=red limit=50p min=9p ");
        assert_eq!(merge(base, "queue = { kind = 'drr' }"), "kind=drr ");
        assert_eq!(merge(base, "queue = 'red'"), "kind=red limit=50p min=5p ");
        assert_eq!(merge(base, "queue = 'drr'"), "kind=drr ");
        assert_eq!(merge("queue = 'red'", "queue = { limit = '9p' }"), "kind=red limit=9p ");
    }

    #[test]
    fn a_parameter_of_that_name_has_no_kind() {
        let parse = |text| parse_document(text, 0).unwrap();
        let (base, over) = (parse("queue = { value = 'red', why = 'it is' }"), parse("queue = 'drr'"));
        assert_eq!(
            merged(&base, &over, "parameters", &FORMAT)
                .as_table()
                .map(|all| show(all.get("queue").unwrap()))
                .unwrap(),
            "drr"
        );
    }
}
