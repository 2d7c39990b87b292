//! Configurations as JSON for people and programs that know no texts with units.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_units::{BitRate, Limit};

/// A configuration: texts with units become numbers, and their units part of the keys.
pub fn config<T: Serialize>(config: &T) -> Value {
    // Configurations hold nothing that JSON cannot: strings, finite numbers, lists, tables with string keys.
    named_units(serde_json::to_value(config).unwrap_or_default())
}

/// The configuration of `kind`, which becomes its first key.
pub fn tagged(kind: &str, inner: Value) -> Value {
    let mut table = json!({ "kind": kind });
    if let (Some(table), Value::Object(inner)) = (table.as_object_mut(), inner) {
        table.extend(inner);
    }
    table
}

fn named_units(value: Value) -> Value {
    match value {
        Value::Object(table) => Value::Object(
            table
                .into_iter()
                .map(|(key, inner)| match quantity(&inner) {
                    Some((unit, number)) => (format!("{key}_{unit}"), number),
                    None => (key, named_units(inner)),
                })
                .collect(),
        ),
        other => other,
    }
}

/// The unit and number of a text that is a quantity. In configurations only quantities begin with a digit.
fn quantity(value: &Value) -> Option<(&'static str, Value)> {
    let text = value.as_str().filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))?;
    if let Ok(rate) = text.parse::<BitRate>() {
        return Some(("bps", json!(rate.as_bps())));
    }
    match text.parse::<Limit>().ok()? {
        Limit::Packets(packets) => Some(("packets", json!(packets))),
        Limit::Bytes(bytes) => Some(("bytes", json!(bytes.get()))),
        Limit::Time(span) => Some(("s", json!(span.as_secs_f64()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_move_from_the_values_into_the_keys_at_every_depth() {
        let given = json!({ "rate": "2Mbit", "every": { "wait": "10ms", "held": "3p" }, "law": "aimd" });
        let expected =
            json!({ "rate_bps": 2_000_000, "every": { "wait_s": 0.01, "held_packets": 3 }, "law": "aimd" });
        assert_eq!(config(&given), expected);
        assert_eq!(tagged("a", json!({ "b": 1 })), json!({ "kind": "a", "b": 1 }));
    }
}
