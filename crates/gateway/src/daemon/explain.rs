//! What keys of the file mean: from the declarations that read them.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tidegate_document::schema::{schema_of, tidied};
use tidegate_document::suggest;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::MarkerConfig;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_parameters::text::Family as _;

use super::config::{ClassTable, FailTable, GatewayTable, SiteTable, StatusTable};

/// A file to begin with.
pub const EXAMPLE: &str = r#"[gateway]
private_key_file = "/etc/tidegate/key"
address = ["10.9.0.1/24"]
# Where many sites are more than one processor can do: threads = 2

[sites.b]
public_key = "the one that `tidegatectl keygen` shows there"
endpoint = "b.example.net:51820"
networks = ["10.2.0.0/24", "10.9.0.2/32"]
rate = { floor = "2Mbit", max = "100Mbit", fallback = "8Mbit" }
"#;

/// Tables stand no deeper in each other than this.
const DEPTH_MAX: usize = 6;

/// Everything that can be asked for: by the path of its table, and its schema.
fn tables() -> Vec<(String, Value)> {
    let mut all = vec![
        ("gateway".to_owned(), schema_of::<GatewayTable>()),
        ("sites".to_owned(), schema_of::<SiteTable>()),
        ("classes".to_owned(), schema_of::<ClassTable>()),
        ("status".to_owned(), schema_of::<StatusTable>()),
        ("fail".to_owned(), schema_of::<FailTable>()),
    ];
    let families = [
        ("control", EdgeConfig::documents()),
        ("queue", DisciplineConfig::documents()),
        ("relay", HopConfig::documents()),
        ("marker", MarkerConfig::documents()),
    ];
    for (family, kinds) in families {
        all.extend(kinds.into_iter().map(|(kind, schema)| (format!("{family}/{kind}"), tidied(schema()))));
    }
    all
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The table that `schema` is, or that it refers to.
fn table_of<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Map<String, Value>> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        return Some(properties);
    }
    let name = text(schema, "$ref").rsplit('/').next()?;
    root.get("$defs")?.get(name)?.get("properties")?.as_object()
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or_default().trim()
}

fn show(path: &str, schema: &Value, root: &Value) -> String {
    let mut out = format!("{path}\n\n{}\n", text(schema, "description").trim());
    if let Some(default) = schema.get("default").filter(|default| !default.is_object()) {
        let _ = writeln!(out, "\nDefault: {default}");
    }
    if !text(schema, "$comment").is_empty() {
        let _ = writeln!(out, "Allowed: {}", text(schema, "$comment"));
    }
    if let Some(table) = table_of(schema, root) {
        out.push_str("\nKeys:\n");
        let width = table.keys().map(String::len).max().unwrap_or(0);
        for (key, about) in table {
            let _ = writeln!(out, "  {key:width$}  {}", first_sentence(text(about, "description")));
        }
    }
    out
}

/// A key, wherever it stands.
struct Found<'a> {
    path: String,
    schema: &'a Value,
    root: &'a Value,
}

/// All keys below tables whose paths end with `wanted`.
fn below<'a>(all: &'a [(String, Value)], wanted: &str) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for (name, root) in all {
        let named = if is_by_name(name) { format!("{name}.NAME") } else { name.clone() };
        walk(&named, root, root, 0, &mut |path, schema| {
            let rest = path.strip_suffix(wanted);
            if rest.is_some_and(|rest| rest.ends_with('.')) {
                found.push(Found { path: path.to_owned(), schema, root });
            }
        });
    }
    found
}

/// Tells `see` of each key below the table `here`, which stands at `path`.
fn walk<'a>(
    path: &str,
    here: &'a Value,
    root: &'a Value,
    depth: usize,
    see: &mut impl FnMut(&str, &'a Value),
) {
    let Some(table) = table_of(here, root).filter(|_| depth < DEPTH_MAX) else { return };
    for (key, schema) in table {
        let at = format!("{path}.{key}");
        see(&at, schema);
        walk(&at, schema, root, depth + 1, see);
    }
}

/// Whether a table has others by their names.
fn is_by_name(table: &str) -> bool {
    matches!(table, "sites" | "classes")
}

/// What a key means that no table is called after: itself where it stands once, else where it stands.
fn explain_below(key: &str, all: &[(String, Value)]) -> Result<String, String> {
    let found = below(all, key);
    match found.as_slice() {
        [] => {}
        [one] => return Ok(show(&one.path, one.schema, one.root)),
        several => {
            let mut out = format!("`{key}` is a key of several tables; ask for one of them:\n\n");
            let width = several.iter().map(|one| one.path.len()).max().unwrap_or(0);
            for Found { path, schema, .. } in several {
                let _ = writeln!(out, "  {path:width$}  {}", first_sentence(text(schema, "description")));
            }
            return Ok(out);
        }
    }
    let mut names: Vec<String> =
        all.iter().map(|(name, _)| name.rsplit('/').next().unwrap_or(name).to_owned()).collect();
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let help = suggest::list("tables", &tables);
    for (name, root) in all {
        walk(name, root, root, 0, &mut |path, _| names.extend(path.rsplit('.').next().map(str::to_owned)));
    }
    let near = suggest::nearest(key, names.iter().map(String::as_str));
    Err(format!("there is no `{key}` ({})", near.map_or(help, |name| format!("did you mean `{name}`?"))))
}

/// What `key` means, like `sites.rate.floor`, `path.target` or `fq-codel`, or a key alone, like `keepalive`.
///
/// # Errors
/// When there is none, with what is near.
pub fn explain(key: &str) -> Result<String, String> {
    let all = tables();
    let mut parts = key.split('.');
    let first = parts.next().unwrap_or_default();
    let is_it = |name: &str| name == first || name.split_once('/').is_some_and(|(_, kind)| kind == first);
    let Some((name, root)) = all.iter().find(|(name, _)| is_it(name)) else {
        return explain_below(key, &all);
    };
    let is_alone = key == first;
    let (mut path, mut here) =
        (if is_by_name(name) && !is_alone { format!("{name}.NAME") } else { name.clone() }, root);
    for (depth, part) in parts.enumerate() {
        let Some(table) = table_of(here, root) else { return Err(format!("`{path}` has no keys")) };
        match table.get(part) {
            Some(schema) => {
                let _ = write!(path, ".{part}");
                here = schema;
            }
            // The name of a site or a class.
            None if depth == 0 && is_by_name(name) => {}
            None => {
                let names: Vec<&str> = table.keys().map(String::as_str).collect();
                return Err(format!("`{path}` has no key `{part}` ({})", suggest::help(part, &names)));
            }
        }
    }
    Ok(show(&path, here, root))
}

/// What there is to ask for.
pub fn overview() -> String {
    let mut out = format!(
        "A file to begin with:\n\n{EXAMPLE}\nAsk for a table or a key, like `sites.rate.floor` or `path.target`:\n"
    );
    for (name, schema) in tables() {
        let title = text(&schema, "title");
        let _ = writeln!(out, "  {name:24} {title}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_explained_by_what_they_were_declared_with() {
        assert!(explain("sites.rate.floor").unwrap().contains("what is assured"));
        assert!(explain("sites.b.keepalive").unwrap().contains("address translators"));
        assert!(explain("path.target").unwrap().contains("Default: \"5ms\""));
        assert!(explain("fq-codel").unwrap().contains("Keys:"));
        assert!(explain("gateway").unwrap().contains("private_key_file"));
        let threads = explain("gateway.threads").unwrap();
        assert!(threads.contains("Default: 1") && threads.contains("16"), "{threads}");
        assert_eq!(explain("gateway.mtuu").unwrap_err(), "`gateway` has no key `mtuu` (did you mean `mtu`?)");
        assert!(explain("patth").unwrap_err().contains("did you mean `path`?"));
        assert!(overview().contains("control/iec"));
    }

    #[test]
    fn a_key_alone_is_found_wherever_it_stands() {
        let keepalive = explain("keepalive").unwrap();
        assert!(keepalive.starts_with("sites.NAME.keepalive\n"), "{keepalive}");
        assert!(explain("private_key_file").unwrap().starts_with("gateway.private_key_file\n"));
        let rate = explain("rate").unwrap();
        assert!(rate.contains("ask for one of them") && rate.contains("  sites.NAME.rate "), "{rate}");
        // Each of the places that are named can be asked for.
        let places: Vec<&str> =
            rate.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
        assert!(places.len() > 1, "{rate}");
        for place in places {
            assert!(explain(place).unwrap().starts_with(place), "{place}");
        }
        assert_eq!(explain("keepalife").unwrap_err(), "there is no `keepalife` (did you mean `keepalive`?)");
        assert!(explain("zzzzzz").unwrap_err().contains("tables: gateway, sites"));
    }

    #[test]
    fn the_example_is_right_but_for_the_key() {
        let text = EXAMPLE.replace(
            "the one that `tidegatectl keygen` shows there",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        );
        super::super::config::read("example", &text).unwrap();
    }
}
