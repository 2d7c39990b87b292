//! The tables of an experiment as they are written.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// A swept value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read key by key; this is for the schema and the list of keys")]
pub(crate) struct AxisText {
    /// The path of the key that it sets, like `parameters.load`. This, `paths` or `include`.
    pub(crate) path: Option<String>,
    /// The paths of several keys that get the same value.
    pub(crate) paths: Option<Vec<String>>,
    /// Files, one for each value, that are laid under this one.
    pub(crate) include: Option<Vec<String>>,
    /// The values, in order: strings, numbers or booleans.
    #[schemars(schema_with = "scalars")]
    pub(crate) values: Vec<serde_json::Value>,
    /// Those of the values that the quick form takes. Default: all.
    #[schemars(default, schema_with = "scalars")]
    pub(crate) quick: Option<Vec<serde_json::Value>>,
    /// How a figure names it. Default: its name.
    pub(crate) label: Option<String>,
    /// The unit in which a figure counts it, like `Mb/s`.
    pub(crate) unit: Option<String>,
}

fn scalars(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": ["string", "number", "boolean"] }, "minItems": 1 })
}

/// Named overrides: one version of the scenario.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read key by key; this is for the schema and the list of keys")]
pub(crate) struct VariantText {
    /// How a figure names it. Default: its name.
    pub(crate) label: Option<String>,
    /// Values by path: `{ "defaults.link.queue" = { kind = "wfq" } }`. A table replaces the whole table at its path.
    pub(crate) set: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What kind of drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A measure over an axis, a line per variant.
    #[default]
    Lines,
    /// Measures side by side, grouped by variant or by the values of an axis.
    Bars,
    /// Recorded time series of one run.
    Series,
    /// The distribution of a measure that gives several values.
    Cdf,
    /// How values spread, over seeds or within a run: quartiles, and values far from them.
    Box,
    /// How values spread, as an outline that is wide where many of them lie.
    Violin,
    /// A measure of transfers over their sizes: `{size}` in it stands for each class of sizes.
    Sizes,
    /// A measure over two axes.
    Heatmap,
    /// Measures as columns of a table, a row for each variant and value of the axes.
    Table,
}

/// Which axes of a figure are logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// None.
    Linear,
    /// The vertical one.
    Log,
    /// The horizontal one.
    LogX,
    /// The vertical one.
    LogY,
    /// Both.
    LogLog,
}

impl Scale {
    /// Whether the horizontal axis is logarithmic, and whether the vertical one is.
    pub const fn logarithmic(self) -> (bool, bool) {
        match self {
            Self::Linear => (false, false),
            Self::Log | Self::LogY => (false, true),
            Self::LogX => (true, false),
            Self::LogLog => (true, true),
        }
    }
}

/// What to draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name, unique in the experiment.
    pub id: String,
    /// Its title. Default: that of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What kind of drawing.
    #[serde(default)]
    pub kind: FigureKind,
    /// The axis along which it is drawn, for lines, heat maps and bars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// What is drawn: measures like `flows.tcp.throughput_bps / 1e6`, or names of time series; one or several.
    pub y: Names,
    /// What the measures are called: as many as there are measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// The label of the horizontal axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_label: Option<String>,
    /// The label of the vertical axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_label: Option<String>,
    /// Which axes are logarithmic. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Both ends of the horizontal axis. Default: what is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<[f64; 2]>")]
    pub x_range: Option<Ends>,
    /// Both ends of the vertical axis. Default: what is drawn, with zero on a linear axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<[f64; 2]>")]
    pub y_range: Option<Ends>,
    /// The only variant that is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The variants that are drawn. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<Vec<String>>,
    /// Values of axes, one or several of each, as they stand there: nothing else is drawn. Default: all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "where")]
    pub only: BTreeMap<String, Cells>,
}

/// Values of an axis, as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Cells(pub Vec<String>);

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cell = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            // As the values of axes are written.
            Value::Number(number) if number.is_f64() => number.as_f64().map(|real| real.to_string()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        let cells = match Value::deserialize(deserializer)? {
            Value::Array(list) => list.iter().map(cell).collect(),
            one => cell(&one).map(|text| vec![text]),
        };
        cells.map(Self).ok_or_else(|| de::Error::custom("expected a value of the axis, or a list of them"))
    }
}

impl JsonSchema for Cells {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cells".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let cell = ["string", "number", "boolean"];
        json_schema!({ "anyOf": [
            { "type": cell },
            { "type": "array", "items": { "type": cell }, "minItems": 1 },
        ]})
    }
}

/// No end of an axis is further from zero: what lies between them has to be a number as well.
const END_MAX: f64 = 1e100;

/// Both ends of an axis, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>")]
pub struct Ends(pub [f64; 2]);

impl TryFrom<Vec<f64>> for Ends {
    type Error = &'static str;
    fn try_from(values: Vec<f64>) -> Result<Self, Self::Error> {
        match values[..] {
            [low, high] if low < high && low.abs().max(high.abs()) > END_MAX => {
                Err("an end of a range is at most 1e100 from zero")
            }
            [low, high] if low < high => Ok(Self([low, high])),
            _ => Err("a range is [LOW, HIGH], the lower end first"),
        }
    }
}

/// One text, or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Names;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or a list of strings")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Names, E> {
                Ok(Names(vec![text.to_owned()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut texts: A) -> Result<Names, A::Error> {
                let mut list = Vec::new();
                while let Some(text) = texts.next_element()? {
                    list.push(text);
                }
                Ok(Names(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Names {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Names".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ]})
    }
}
