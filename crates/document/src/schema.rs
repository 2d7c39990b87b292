//! The JSON Schema of what documents hold: what schemars derives, as TOML and the [`reader`](crate::reader) have it.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The schema of one type, as the root has it.
pub fn schema_of<T: JsonSchema>() -> Value {
    tidied(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>())
}

/// A schema of one type as TOML has it.
pub fn tidied(mut schema: Schema) -> Value {
    AbsentNotNull.transform(&mut schema);
    RecursiveTransform(join_lines).transform(&mut schema);
    schema.to_value()
}

/// TOML has no null: what may be absent is simply not required.
#[derive(Clone, Copy, Debug)]
pub struct AbsentNotNull;

impl Transform for AbsentNotNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(table) = schema.as_object_mut() else { return };
        if table.get("default").is_some_and(Value::is_null) {
            table.remove("default");
        }
        if let Some(Value::Array(types)) = table.get_mut("type") {
            types.retain(|one| one != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                table.insert("type".to_owned(), only);
            }
        }
        let Some(Value::Array(choices)) = table.get_mut("anyOf") else { return };
        choices.retain(|choice| choice.get("type").is_none_or(|of| of != "null"));
        if let [only] = choices.as_slice() {
            let only = only.clone();
            table.remove("anyOf");
            if let Value::Object(only) = only {
                for (key, value) in only {
                    table.entry(key).or_insert(value);
                }
            }
        }
    }
}

/// Comments are wrapped; descriptions are not.
pub fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
        *text = paragraphs.join("\n\n");
    }
}

/// Where a number, a boolean or one of several words stands, a string with braces may stand too.
pub fn allow_templates(schema: &mut Schema) {
    let Some(table) = schema.as_object_mut() else { return };
    let scalar = match table.get("type") {
        Some(Value::String(of)) if ["integer", "number", "boolean"].contains(&of.as_str()) => of.clone(),
        _ => {
            let words = |choices: &Vec<Value>| {
                choices.iter().all(|choice| choice.get("const").is_some_and(Value::is_string))
            };
            if let Some(Value::Array(choices)) = table.get_mut("oneOf")
                && words(choices)
            {
                choices.push(json!({ "type": "string", "pattern": r"\{" }));
            }
            return;
        }
    };
    table.insert("type".to_owned(), json!([scalar, "string"]));
    // A pattern says nothing about numbers.
    table.insert("pattern".to_owned(), json!(r"\{"));
}

/// What a `kind` chooses may be written as the kind alone, or without it where defaults give the rest.
pub fn allow_short_kinds(definition: &mut Value, describe: impl Fn(&str) -> Option<String>) {
    let Some(choices) = definition.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    let kinds: Option<Vec<Value>> =
        choices.iter().map(|choice| choice.pointer("/properties/kind/const").cloned()).collect();
    let Some(kinds) = kinds else { return };
    for (choice, kind) in choices.iter_mut().zip(&kinds) {
        if let (Some(choice), Some(text)) = (choice.as_object_mut(), kind.as_str().and_then(&describe)) {
            choice.insert("description".to_owned(), Value::String(text));
        }
    }
    let choices = choices.clone();
    let Some(table) = definition.as_object_mut() else { return };
    table.remove("oneOf");
    table.insert(
        "anyOf".to_owned(),
        json!([
            { "description": "The kind alone, with its defaults.", "enum": kinds },
            { "description": "A kind from a parameter.", "type": "string", "pattern": r"\{" },
            { "oneOf": choices },
            {
                "description": "Without a kind: laid over the defaults.",
                "type": "object",
                "not": { "required": ["kind"] },
            },
        ]),
    );
}
