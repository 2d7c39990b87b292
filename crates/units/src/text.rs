//! Quantities as text: how serde writes and reads them, and what a JSON Schema says of them.

use core::fmt::Display;
use core::marker::PhantomData;
use core::str::FromStr;

use alloc::format;
use alloc::string::String;
use schemars::json_schema;

use crate::{BitRate, Bytes, Limit, Span, Time};

/// A type that configurations write as text. [`quantities!`](crate::quantities) makes serde and schemars know one.
pub trait Quantity: Display + FromStr<Err: Display> {
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

/// Reads a quantity: the visitor behind what [`quantities!`](crate::quantities) declares.
#[derive(Debug)]
pub struct QuantityVisitor<T>(PhantomData<T>);

impl<T> Default for QuantityVisitor<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Quantity> serde::de::Visitor<'_> for QuantityVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} as text, like `\"{}\"`", T::WHAT, T::EXAMPLE)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// What the schema says of a quantity. Braces stand for parameters of a scenario.
pub fn schema_of<T: Quantity>() -> schemars::Schema {
    json_schema!({
        "type": "string",
        "description": describe::<T>(),
        "anyOf": [{ "pattern": T::PATTERN }, { "pattern": r"\{" }],
        "examples": [T::EXAMPLE],
    })
}

fn describe<T: Quantity>() -> String {
    format!("{}, like {}", T::WHAT, T::EXAMPLE)
}

/// Makes serde write and read types as their text, and schemars describe it. Needs [`Quantity`] of each.
#[macro_export]
macro_rules! quantities {
    ($($type:ty)*) => {$(
        impl $crate::__private::serde::Serialize for $type {
            fn serialize<S: $crate::__private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::__private::QuantityVisitor::<Self>::default())
            }
        }

        impl $crate::__private::schemars::JsonSchema for $type {
            fn schema_name() -> $crate::__private::Cow<'static, str> {
                <Self as $crate::Quantity>::NAME.into()
            }
            fn json_schema(_: &mut $crate::__private::schemars::SchemaGenerator) -> $crate::__private::schemars::Schema {
                $crate::__private::schema_of::<Self>()
            }
        }
    )*};
}

quantities! { Span Time BitRate Bytes Limit }
