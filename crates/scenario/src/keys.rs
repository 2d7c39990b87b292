//! What the keys of a file mean: from the same documentation as the schema.

use serde::Serialize;
use serde_json::{Map, Value};
use tidegate_document::schema::tidied;
use tidegate_parameters::text::schema_of;

use crate::explain::{ParameterDoc, list_mechanisms, parameter};
use crate::schema::FileText;

/// Tables stand no deeper in each other than this.
const DEPTH_MAX: usize = 6;

/// The documentation of one key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyDoc {
    /// Where it stands, like `links.NAME.delay`; `NAME` is for any name.
    pub path: String,
    /// What it is.
    #[serde(flatten)]
    pub about: ParameterDoc,
    /// The words that may be written there, and what each means.
    pub words: Vec<(String, String)>,
    /// The keys of its table, if it is one.
    pub keys: Vec<String>,
    /// The family of what is written there, if that has a `kind`, as [`MechanismDoc`](crate::MechanismDoc) calls it.
    pub family: Option<String>,
}

/// All keys of a scenario or experiment, in the order of the schema. The parameters of mechanisms are not among them:
/// [`explain`](crate::explain()) has these.
pub fn list_keys() -> Vec<KeyDoc> {
    let schema = tidied(schema_of::<FileText>());
    let mut keys = Keys { definitions: table_of(&schema, "$defs"), families: families(), found: Vec::new() };
    keys.add_all(&schema, "", 0);
    keys.found
}

/// Families of what has a `kind`.
fn families() -> Vec<String> {
    list_mechanisms().into_iter().map(|mechanism| mechanism.family).collect()
}

/// The family that the definition `name` of the schema is, or would be.
fn family_of(name: &str) -> String {
    match name {
        "Discipline" | "Manager" => "queue".to_owned(),
        "CongestionControl" => "control".to_owned(),
        "TransportText" => "transport".to_owned(),
        other => other.to_lowercase(),
    }
}

fn table_of<'a>(schema: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key).and_then(Value::as_object)
}

struct Keys<'a> {
    definitions: Option<&'a Map<String, Value>>,
    families: Vec<String>,
    found: Vec<KeyDoc>,
}

impl<'a> Keys<'a> {
    /// What `schema` refers to, and its family if that is one of many mechanisms.
    fn resolve(&self, schema: &'a Value) -> (&'a Value, Option<String>) {
        let path = schema.get("$ref").and_then(Value::as_str);
        let Some(name) = path.and_then(|path| path.rsplit('/').next()) else { return (schema, None) };
        let family = Some(family_of(name)).filter(|family| self.families.contains(family));
        (self.definitions.and_then(|all| all.get(name)).unwrap_or(schema), family)
    }

    /// Adds the keys of `table`, which stands at `path`.
    fn add_all(&mut self, table: &'a Value, path: &str, depth: usize) {
        let Some(properties) = table_of(table, "properties").filter(|_| depth < DEPTH_MAX) else { return };
        let required = table.get("required").and_then(Value::as_array);
        for (name, schema) in properties {
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
            self.add(name, schema, &at, is_required, depth);
        }
    }

    fn add(&mut self, name: &str, schema: &'a Value, path: &str, is_required: bool, depth: usize) {
        let empty = Map::new();
        let mut about = parameter(name, schema, self.definitions.unwrap_or(&empty), is_required);
        // What an element needs, no default has to give.
        if path.starts_with("defaults.") && about.default.starts_with("required") {
            "none".clone_into(&mut about.default);
        }
        let (meant, family) = self.resolve(schema);
        let is_one = family.is_none();
        let choices = meant.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        let text =
            |choice: &Value, key| choice.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let words = choices.filter(|choice| choice.get("const").is_some());
        let words = words.map(|choice| (text(choice, "const"), text(choice, "description"))).collect();
        let within = meant.get("additionalProperties").filter(|of| of.is_object());
        let within = within.or_else(|| meant.get("items").filter(|of| of.get("$ref").is_some()));
        let (table, inside) = match within {
            Some(each) => (self.resolve(each).0, format!("{path}.NAME")),
            None => (meant, path.to_owned()),
        };
        let keys = table_of(table, "properties").filter(|_| is_one).into_iter().flatten();
        let keys = keys.map(|(key, _)| key.clone()).collect();
        self.found.push(KeyDoc { path: path.to_owned(), about, words, keys, family });
        if is_one {
            self.add_all(table, &inside, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::keys::FORMAT;

    #[test]
    fn keys_of_all_depths_are_there_once_with_what_they_mean() {
        let keys = list_keys();
        let at = |path: &str| {
            let mut found = keys.iter().filter(|key| key.path == path);
            let first = found.next().unwrap_or_else(|| panic!("{path}"));
            assert!(found.next().is_none(), "{path} is there twice");
            first
        };
        let order = at("event_order");
        assert_eq!(order.about.default, "scheduled");
        assert_eq!(order.words[1].0, "numbered");
        assert!(order.words[1].1.contains("cores"), "{order:?}");
        assert_eq!(at("ties.spread").about.default, "1us");
        assert!(at("links").keys.contains(&"delay".to_owned()));
        assert_eq!(at("links.NAME.delay").about.kind, "time");
        assert_eq!(at("links.NAME.queue").family.as_deref(), Some("queue"));
        assert_eq!(at("flows.NAME.transport").family.as_deref(), Some("transport"));
        assert_eq!(at("links.NAME.delay").family, None);
        assert_eq!(at("events.NAME.at").about.default, "required");
        let delay = "required, here or in `defaults.link`";
        assert_eq!(at("links.NAME.delay").about.default, delay);
        assert_eq!(at("links.NAME.between").about.default, "required");
        assert_eq!(at("links.NAME.forward.delay").about.default, "the link's");
        assert_eq!(at("defaults.link.delay").about.default, "none");
        assert_eq!(at("duration").about.default, "required, here or in an include");
        // Parameters of queues belong to these.
        assert!(keys.iter().all(|key| !key.path.starts_with("links.NAME.queue.")));
        assert!(keys.iter().all(|key| !key.about.description.is_empty()), "{keys:#?}");
    }

    /// What the schema says of the keys in it and in all definitions.
    fn properties<'a>(schema: &'a Value, found: &mut Vec<(&'a String, &'a Value)>) {
        if let Some(all) = table_of(schema, "properties") {
            found.extend(all);
        }
        match schema {
            Value::Object(parts) => parts.values().for_each(|part| properties(part, found)),
            Value::Array(parts) => parts.iter().for_each(|part| properties(part, found)),
            _ => {}
        }
    }

    /// Otherwise a kind written alone would replace what lies below it, and no override could reach into it.
    #[test]
    fn every_key_that_has_a_kind_is_laid_over_others_by_its_kind() {
        let whole = crate::schema();
        let mut all = Vec::new();
        properties(&whole, &mut all);
        let families = families();
        let named = |schema: &Value| {
            let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?.to_owned();
            Some(family_of(&name)).filter(|family| families.contains(family))
        };
        let mut with_kinds: Vec<&str> = all
            .iter()
            .filter(|(_, schema)| {
                let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
                std::iter::once(*schema).chain(choices).any(|one| named(one).is_some())
            })
            .map(|(key, _)| key.as_str())
            .collect();
        with_kinds.sort_unstable();
        with_kinds.dedup();
        assert!(with_kinds.contains(&"control"), "{with_kinds:?}");
        let missing: Vec<_> = with_kinds.iter().filter(|key| !FORMAT.kind_keys.contains(key)).collect();
        assert!(missing.is_empty(), "{missing:?} of {with_kinds:?}");
    }
}
