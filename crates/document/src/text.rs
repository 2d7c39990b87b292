//! Quantities as text in configurations: `#[serde(with = "text")]` for any type of the units crate, and what the
//! schema says of them.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserializer, Serializer, de};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

/// Writes a quantity as the text that reads back as the same value.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads a quantity from text.
///
/// # Errors
/// When the text is no such quantity, or there is none.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr + Quantity,
    T::Err: Display,
    D: Deserializer<'de>,
{
    struct Visitor<T>(PhantomData<T>);
    impl<T: FromStr + Quantity> de::Visitor<'_> for Visitor<T>
    where
        T::Err: Display,
    {
        type Value = T;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} as text, like `\"{}\"`", T::WHAT, T::EXAMPLE)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Visitor(PhantomData))
}

/// The same for values that may be absent.
pub mod optional {
    use super::{Deserializer, Display, FromStr, Quantity, Serializer};

    /// Writes the text, or nothing.
    ///
    /// # Errors
    /// Those of the serializer.
    #[allow(clippy::ref_option, reason = "serde passes the field by reference")]
    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a value that is there.
    ///
    /// # Errors
    /// When the text is no such quantity.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr + Quantity,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        super::deserialize(deserializer).map(Some)
    }
}

/// The same for lists.
pub mod list {
    use serde::Deserialize;

    use super::{Deserializer, Display, FromStr, Quantity, Serializer};

    struct One<T>(T);

    impl<'de, T: FromStr + Quantity> Deserialize<'de> for One<T>
    where
        T::Err: Display,
    {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            super::deserialize(deserializer).map(Self)
        }
    }

    /// Writes a list of texts.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Display, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(ToString::to_string))
    }

    /// Reads a list of texts.
    ///
    /// # Errors
    /// When the texts are no such quantities.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr + Quantity,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        let list = Vec::<One<T>>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|one| one.0).collect())
    }
}

/// A type of the units crate as configurations write it.
pub trait Quantity {
    /// "a time", "a rate".
    const WHAT: &'static str;
    /// The name in the schema.
    const NAME: &'static str;
    /// How one looks.
    const EXAMPLE: &'static str;
    /// The regular expression of its text.
    const PATTERN: &'static str;
}

impl Quantity for Span {
    const WHAT: &'static str = "a time";
    const NAME: &'static str = "Time";
    const EXAMPLE: &'static str = "10ms";
    const PATTERN: &'static str = r"^(0|\+?[0-9_]*\.?[0-9_]+ *(ns|us|ms|s|min))$";
}
impl Quantity for Time {
    const WHAT: &'static str = "a time since the start";
    const NAME: &'static str = "Time";
    const EXAMPLE: &'static str = "10s";
    const PATTERN: &'static str = Span::PATTERN;
}
impl Quantity for BitRate {
    const WHAT: &'static str = "a rate";
    const NAME: &'static str = "Rate";
    const EXAMPLE: &'static str = "1.5Mbit";
    const PATTERN: &'static str = r"^(0|\+?[0-9_]*\.?[0-9_]+ *(bit|kbit|Mbit|Gbit|Tbit))$";
}
impl Quantity for Bytes {
    const WHAT: &'static str = "a size";
    const NAME: &'static str = "Size";
    const EXAMPLE: &'static str = "100kB";
    const PATTERN: &'static str = r"^(0|\+?[0-9_]*\.?[0-9_]+ *(B|kB|MB|GB|KiB|MiB|GiB))$";
}
impl Quantity for Limit {
    const WHAT: &'static str = "a limit in packets, bytes or time";
    const NAME: &'static str = "Limit";
    const EXAMPLE: &'static str = "100p";
    const PATTERN: &'static str =
        r"^\+?[0-9_]*\.?[0-9_]+ *(p|packet|packets|B|kB|MB|GB|KiB|MiB|GiB|ns|us|ms|s|min)$";
}

/// Stands in the schema for a quantity written as text.
pub struct Text<T>(PhantomData<T>);

impl<T: Quantity> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": format!("{}, like {}", T::WHAT, T::EXAMPLE),
            "anyOf": [{ "pattern": T::PATTERN }, { "pattern": r"\{" }],
            "examples": [T::EXAMPLE],
        })
    }
}
