//! What there is and what its parameters mean: from the same documentation as the schema.

use serde::Serialize;
use serde_json::{Map, Value};
use tidegate_document::schema::tidied;
use tidegate_parameters::text::{Family as _, SchemaOf};

use tidegate_mechanism::fluid::FluidConfig;

use crate::model::{
    Application, Control, Device, Follows, Jitter, Labels, Loss, Marker, Mechanism, Queue, Reorder,
    TransportText,
};

/// The documentation of one mechanism.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MechanismDoc {
    /// Its name in `kind`.
    pub kind: String,
    /// Where it stands: `queue`, `transport`, `application`, `loss`, `jitter`, `mechanism`, `labels`, `marker` or `follows`.
    pub family: String,
    /// Its full name.
    pub title: String,
    /// What it does.
    pub text: String,
    /// Who described it.
    pub source: String,
    /// Its parameters, in the order of their importance.
    pub parameters: Vec<ParameterDoc>,
}

/// The documentation of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterDoc {
    /// Its key.
    pub name: String,
    /// What is written there: `time`, `rate`, `size`, `limit`, `number`, `integer`, `boolean`, or the words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its default as text; `required` if there is none.
    pub default: String,
    /// What may be written, in words; empty if the type says it all.
    pub allowed: String,
    /// What it means.
    pub description: String,
    /// Where its default comes from; may be empty.
    pub source: String,
}

/// Everything that has a `kind`, by family.
fn rows() -> Vec<(&'static str, &'static str, SchemaOf)> {
    let of = |family, documents: Vec<(&'static str, SchemaOf)>| {
        documents.into_iter().map(move |(kind, schema)| (family, kind, schema))
    };
    let controlled = Mechanism::documents().into_iter().filter(|(kind, _)| *kind != "none").collect();
    of("queue", Queue::documents())
        .chain(of("mechanism", controlled))
        .chain(of("labels", Labels::documents()))
        .chain(of("marker", Marker::documents()))
        .chain(of("transport", TransportText::documents()))
        .chain(of("control", Control::documents()))
        .chain(of("application", Application::documents()))
        .chain(of("loss", Loss::documents()))
        .chain(of("jitter", Jitter::documents()))
        .chain(of("follows", Follows::documents()))
        .chain(of("flow", vec![("fluid", tidegate_parameters::text::schema_of::<FluidConfig>)]))
        .chain(of(
            "link",
            vec![
                ("reorder", tidegate_parameters::text::schema_of::<Reorder>),
                ("device", tidegate_parameters::text::schema_of::<Device>),
            ],
        ))
        .collect()
}

/// All mechanisms.
pub fn list_mechanisms() -> Vec<MechanismDoc> {
    rows().into_iter().map(document).collect()
}

/// The mechanism called `kind`, like `red`; where two families share a name, `labels/csfq` tells them apart, and the name
/// alone is the first.
pub fn explain(kind: &str) -> Option<MechanismDoc> {
    let (family, name) = match kind.split_once('/') {
        Some((family, name)) => (Some(family), name),
        None => (None, kind),
    };
    rows()
        .into_iter()
        .find(|(of, known, _)| *known == name && family.is_none_or(|family| family == *of))
        .map(document)
}

fn document((family, kind, schema): (&str, &str, SchemaOf)) -> MechanismDoc {
    let schema = tidied(schema());
    let empty = Map::new();
    let description = text_of(&schema, "description");
    let (text, source) = split_source(&description);
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let parameters = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty)
        .iter()
        .map(|(name, schema)| parameter(name, schema, definitions, required.contains(&name.as_str())))
        .collect();
    MechanismDoc {
        kind: kind.to_owned(),
        family: family.to_owned(),
        title: text_of(&schema, "title"),
        text,
        source,
        parameters,
    }
}

pub(crate) fn parameter(
    name: &str,
    schema: &Value,
    definitions: &Map<String, Value>,
    is_required: bool,
) -> ParameterDoc {
    let (description, source) = split_source(&text_of(schema, "description"));
    let (description, said) = split_default(&description);
    let default = match (said, schema.get("default")) {
        (Some(said), _) => said,
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(Value::Object(_))) => "its own defaults".to_owned(),
        (None, Some(value)) => value.to_string(),
        (None, None) if is_required => "required".to_owned(),
        (None, None) => "none".to_owned(),
    };
    ParameterDoc {
        name: name.to_owned(),
        kind: type_of(schema, definitions),
        default,
        allowed: text_of(schema, "$comment"),
        description,
        source,
    }
}

/// What is written: the unit's name, the words that are allowed, or the type.
fn type_of(schema: &Value, definitions: &Map<String, Value>) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        let Some(definition) = definitions.get(name) else { return name.to_lowercase() };
        return match words(definition) {
            Some(words) => words.join(" | "),
            None => match name {
                "Time" | "Rate" | "Size" | "Limit" | "Window" => name.to_lowercase(),
                "Discipline" | "Manager" => "queue".to_owned(),
                _ => "table".to_owned(),
            },
        };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => "list".to_owned(),
        Some("object") => "table".to_owned(),
        Some(other) => other.to_owned(),
        None => "value".to_owned(),
    }
}

/// The words of an enumeration.
fn words(definition: &Value) -> Option<Vec<&str>> {
    if let Some(words) = definition.get("enum").and_then(Value::as_array) {
        return words.iter().map(Value::as_str).collect();
    }
    let choices = definition.get("oneOf")?.as_array()?;
    choices.iter().map(|choice| choice.get("const")?.as_str()).collect()
}

fn text_of(schema: &Value, key: &str) -> String {
    schema.get(key).and_then(Value::as_str).unwrap_or_default().replace('\n', " ").trim().to_owned()
}

/// A description without its last sentences that begin with "Source:", and these.
fn split_source(description: &str) -> (String, String) {
    match description.split_once("Source: ") {
        Some((text, source)) => (text.trim().to_owned(), source.trim().trim_end_matches('.').to_owned()),
        None => (description.to_owned(), String::new()),
    }
}

/// A description without what it says of the default, and that.
fn split_default(description: &str) -> (String, Option<String>) {
    let Some((before, after)) = description.split_once("Default: ") else {
        return (description.to_owned(), None);
    };
    // The default ends with its sentence; a point inside a number or a name is not followed by a space.
    let (default, rest) = after.split_once(". ").unwrap_or((after.trim_end_matches('.'), ""));
    let text = format!("{} {}", before.trim(), rest.trim());
    (text.trim().to_owned(), Some(default.to_owned()))
}
