//! What there is and what its parameters mean: from the same documentation as the schema.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::{
    Account, Adaptive, AdaptiveRed, BackPressure, BbrControl, Blue, Bulk, BurstLoss, Cbq, Cbr, Csfq,
    CsfqLabels, CubicControl, DctcpControl, DropTail, Drr, Eec, EecMarker, Engine, Ered, Fred, Iec, ListLoss,
    Marking, Nbp, Nbq, OnOff, Poisson, Priority, Profile, RandomLoss, Red, RedPenaltyBox, RenoControl,
    Reserved, Sfb, Sfq, SingleRate, SubTcp, TcpFriendly, TcpText, Tfrc, Transfer, TwoRates, Udp,
    UnresponsiveControl, Wfq,
};
use crate::schema::schema_of;

/// The documentation of one mechanism.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MechanismDoc {
    /// Its name in `kind`.
    pub kind: String,
    /// Where it stands: `queue`, `transport`, `application`, `loss`, `mechanism`, `labels` or `marker`.
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
    /// What it means.
    pub description: String,
    /// Where its default comes from; may be empty.
    pub source: String,
}

type Row = (&'static str, &'static str, fn() -> Value);

/// Everything that has a `kind`, by family.
const ROWS: &[Row] = &[
    ("queue", "droptail", schema_of::<DropTail>),
    ("queue", "red", schema_of::<Red>),
    ("queue", "adaptive-red", schema_of::<AdaptiveRed>),
    ("queue", "red-penalty-box", schema_of::<RedPenaltyBox>),
    ("queue", "blue", schema_of::<Blue>),
    ("queue", "fred", schema_of::<Fred>),
    ("queue", "ered", schema_of::<Ered>),
    ("queue", "csfq", schema_of::<Csfq>),
    ("queue", "sfb", schema_of::<Sfb>),
    ("queue", "drr", schema_of::<Drr>),
    ("queue", "wfq", schema_of::<Wfq>),
    ("queue", "sfq", schema_of::<Sfq>),
    ("queue", "cbq", schema_of::<Cbq>),
    ("queue", "priority", schema_of::<Priority>),
    ("queue", "eec-marker", schema_of::<EecMarker>),
    ("queue", "tcp-friendly", schema_of::<TcpFriendly>),
    ("mechanism", "nbp", schema_of::<Nbp>),
    ("mechanism", "iec", schema_of::<Iec>),
    ("mechanism", "eec", schema_of::<Eec>),
    ("mechanism", "nbq", schema_of::<Nbq>),
    ("mechanism", "backpressure", schema_of::<BackPressure>),
    ("labels", "csfq", schema_of::<CsfqLabels>),
    ("marker", "profile", schema_of::<Profile>),
    ("marker", "srtcm", schema_of::<SingleRate>),
    ("marker", "trtcm", schema_of::<TwoRates>),
    ("marker", "pme", schema_of::<Engine>),
    ("marker", "account", schema_of::<Account>),
    ("transport", "tcp", schema_of::<TcpText>),
    ("transport", "udp", schema_of::<Udp>),
    ("transport", "tfrc", schema_of::<Tfrc>),
    ("control", "reno", schema_of::<RenoControl>),
    ("control", "cubic", schema_of::<CubicControl>),
    ("control", "dctcp", schema_of::<DctcpControl>),
    ("control", "bbr", schema_of::<BbrControl>),
    ("control", "subtcp", schema_of::<SubTcp>),
    ("control", "reserved", schema_of::<Reserved>),
    ("control", "marking", schema_of::<Marking>),
    ("control", "unresponsive", schema_of::<UnresponsiveControl>),
    ("application", "bulk", schema_of::<Bulk>),
    ("application", "transfer", schema_of::<Transfer>),
    ("application", "cbr", schema_of::<Cbr>),
    ("application", "poisson", schema_of::<Poisson>),
    ("application", "on-off", schema_of::<OnOff>),
    ("application", "adaptive", schema_of::<Adaptive>),
    ("loss", "random", schema_of::<RandomLoss>),
    ("loss", "list", schema_of::<ListLoss>),
    ("loss", "burst", schema_of::<BurstLoss>),
    ("link", "reorder", schema_of::<crate::model::Reorder>),
];

/// All mechanisms.
pub fn list_mechanisms() -> Vec<MechanismDoc> {
    ROWS.iter().map(document).collect()
}

/// The mechanism called `kind`, like `red`; where two families share a name, `labels/csfq` tells them apart, and the name
/// alone is the first.
pub fn explain(kind: &str) -> Option<MechanismDoc> {
    let (family, name) = match kind.split_once('/') {
        Some((family, name)) => (Some(family), name),
        None => (None, kind),
    };
    ROWS.iter()
        .find(|(of, known, _)| *known == name && family.is_none_or(|family| family == *of))
        .map(document)
}

fn document((family, kind, schema): &Row) -> MechanismDoc {
    let schema = schema();
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
        kind: (*kind).to_owned(),
        family: (*family).to_owned(),
        title: text_of(&schema, "title"),
        text,
        source,
        parameters,
    }
}

fn parameter(
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
    ParameterDoc { name: name.to_owned(), kind: type_of(schema, definitions), default, description, source }
}

/// What is written: the unit's name, the words that are allowed, or the type.
fn type_of(schema: &Value, definitions: &Map<String, Value>) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        let Some(definition) = definitions.get(name) else { return name.to_lowercase() };
        return match words(definition) {
            Some(words) => words.join(" | "),
            None => match name {
                "Time" | "Rate" | "Size" | "Limit" | "Window" => name.to_lowercase(),
                "Queue" | "Manager" => "queue".to_owned(),
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
