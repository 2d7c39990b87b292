//! The JSON Schema of scenarios and experiments, for editors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_document::schema::{AbsentNotNull, allow_short_kinds, allow_templates, join_lines};
use tidegate_units::{Span, Time};

use crate::experiment::Figure;
use crate::experiment::raw::{AxisText, VariantText};
use crate::explain::list_mechanisms;
use crate::model::EventOrder;
use crate::scenario::raw::{
    CommandText, DefaultsText, DomainText, EventText, FlowText, LinkText, MarkerText, NodesText,
    ParameterText, RecordText, RoutingText, TiesText,
};

/// A scenario of Tidegate: a network and its traffic; with variants, axes, seeds or figures an experiment.
///
/// Quantities are strings with units: 1.5Mbit, 10ms, 100kB, 100p. Names in braces stand for parameters.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "Tidegate scenario or experiment")]
#[allow(dead_code, reason = "read key by key; this is for the schema and the list of keys")]
pub(crate) struct FileText {
    /// Files laid under this one, relative to it: one or several. Tables merge, this file wins.
    include: Option<crate::experiment::Names>,
    /// A line that names it.
    title: Option<String>,
    /// What it shows.
    description: Option<String>,
    /// Which document it follows.
    source: Option<String>,
    /// How long the run is. Default: required, here or in an include.
    duration: Option<Span>,
    /// How long before statistics start; shorter than the duration. Default: 0s.
    warmup: Option<Time>,
    /// What random numbers derive from. Default: 1.
    seed: Option<u64>,
    /// Named values for use in braces in any string.
    parameters: Option<BTreeMap<String, ParameterText>>,
    /// The nodes of the network. Default: required, here or in an include.
    nodes: Option<NodesText>,
    /// What links and flows do not say themselves.
    defaults: Option<DefaultsText>,
    /// The links by name.
    links: Option<BTreeMap<String, LinkText>>,
    /// The flows by name.
    flows: Option<BTreeMap<String, FlowText>>,
    /// How packets find their way.
    routing: Option<RoutingText>,
    /// What breaks ties of events that fall into one instant. Default: the order of events does.
    ties: Option<TiesText>,
    /// In which order events of one instant are handled. Default: scheduled.
    event_order: Option<EventOrder>,
    /// The controlled networks by name.
    domains: Option<BTreeMap<String, DomainText>>,
    /// What writes promises on packets, by name.
    markers: Option<BTreeMap<String, MarkerText>>,
    /// What real hosts run in an emulation, by name.
    commands: Option<BTreeMap<String, CommandText>>,
    /// What changes during the run.
    events: Option<Vec<EventText>>,
    /// What is recorded beyond counters.
    record: Option<RecordText>,
    /// Experiment: further figures and tables of its document that it holds, by which it is found too.
    also: Option<Vec<String>>,
    /// Experiment: the seeds are 1 to this. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    seeds: Option<u32>,
    /// Experiment: the seeds of the quick form. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    quick_seeds: Option<u32>,
    /// Experiment: values by path that the quick form sets, like `{ duration = "20s" }`.
    quick_set: Option<serde_json::Map<String, Value>>,
    /// Experiment: the swept values by name, the outermost first.
    axes: Option<BTreeMap<String, AxisText>>,
    /// Experiment: the versions of the scenario by name.
    variants: Option<BTreeMap<String, VariantText>>,
    /// Experiment: what to draw.
    figures: Option<Vec<Figure>>,
}

/// The JSON Schema (draft 2020-12) of scenario and experiment files.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<FileText>();
    schema.insert("$id".to_owned(), json!("https://example.org/tidegate/scenario.schema.json"));
    AbsentNotNull.transform(&mut schema);
    RecursiveTransform(allow_templates).transform(&mut schema);
    RecursiveTransform(join_lines).transform(&mut schema);
    let mechanisms = list_mechanisms();
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        for (name, definition) in definitions {
            let family = match name.as_str() {
                "Discipline" | "Manager" => "queue",
                "CongestionControl" => "control",
                "TransportText" => "transport",
                other => &other.to_lowercase(),
            };
            allow_short_kinds(definition, |kind| {
                let found = mechanisms.iter().find(|doc| doc.family == family && doc.kind == kind)?;
                Some(format!("{}. {} Source: {}.", found.title, found.text, found.source))
            });
        }
    }
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with every schema inside `value`.
    fn walk(value: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
        match value {
            Value::Object(table) => {
                visit(table);
                table.values().for_each(|inner| walk(inner, visit));
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, visit)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_nothing_is_null() {
        let schema = schema();
        walk(&schema, &mut |table| {
            if let Some(Value::String(path)) = table.get("$ref") {
                assert!(schema.pointer(path.trim_start_matches('#')).is_some(), "{path}");
            }
            assert_ne!(table.get("type"), Some(&json!("null")));
            assert!(
                table
                    .get("type")
                    .and_then(Value::as_array)
                    .is_none_or(|types| !types.contains(&json!("null")))
            );
        });
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }

    #[test]
    fn an_axis_needs_only_its_values() {
        assert_eq!(schema()["$defs"]["AxisText"]["required"], json!(["values"]));
    }
}
