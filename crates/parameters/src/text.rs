//! Reading, writing and describing declared parameters: what the expansions of the macros call.

extern crate std;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{de, ser};
use serde_json::{Map, Value, json};

use crate::Check;

/// What it writes and reads with, for what is written by hand.
pub use serde;

/// What gives the schema of one type by itself.
pub type SchemaOf = fn() -> Schema;

/// A table of declared parameters, as text sees it.
pub trait Table: Sized {
    /// The values that were read so far.
    type Partial;
    /// The name of the type.
    const NAME: &'static str;
    /// Where the type is.
    const MODULE: &'static str;
    /// Its documentation.
    const ABOUT: &'static str;

    /// Its keys, those of tables that it takes in first.
    fn keys() -> &'static [&'static str];
    /// Nothing read yet.
    fn begin() -> Self::Partial;
    /// Reads the value of the key with this number.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn take<'de, A: de::MapAccess<'de>>(
        partial: &mut Self::Partial,
        number: usize,
        map: &mut A,
    ) -> Result<(), A::Error>;
    /// The whole, with defaults for what was not given.
    ///
    /// # Errors
    /// The required key that was not given.
    fn end(partial: Self::Partial) -> Result<Self, &'static str>;
    /// Writes all keys.
    ///
    /// # Errors
    /// Those of the serializer.
    fn write<S: ser::SerializeStruct>(&self, table: &mut S) -> Result<(), S::Error>;
    /// The schema of each key.
    fn describe(generator: &mut SchemaGenerator) -> Vec<KeySchema>;
}

/// A choice between tables by their `kind`.
pub trait Family: Sized {
    /// All kinds.
    fn kinds() -> &'static [&'static str];

    /// Reads the table of the kind with this number in [`kinds`](Self::kinds).
    ///
    /// # Errors
    /// What is wrong with the table.
    fn read<'de, A: de::VariantAccess<'de>>(number: usize, table: A) -> Result<Self, A::Error>;

    /// A schema for each kind.
    fn choices(generator: &mut SchemaGenerator) -> Vec<Schema>;

    /// The kinds, and the schema of the table of each by itself.
    fn documents() -> Vec<(&'static str, SchemaOf)>;
}

/// The schema of a type by itself (JSON Schema, draft 2020-12).
pub fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}

/// What a schema says of one key.
#[derive(Debug)]
pub struct KeySchema {
    /// The key.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// The schema of its type.
    pub schema: Schema,
    /// Whether it has no default.
    pub is_required: bool,
    /// The default, if it has one.
    pub default: Option<Value>,
    /// What its bound says.
    pub bound: Option<Described>,
}

/// What a bound says in a schema.
pub struct Described {
    describe: Box<dyn Fn(&mut Schema)>,
    allowed: Cow<'static, str>,
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)
    }
}

impl Described {
    /// Of the bound of a key of type `T`.
    pub fn new<T>(bound: impl Check<T> + 'static) -> Self {
        let allowed = bound.allowed();
        Self { describe: Box::new(move |schema| bound.describe(schema)), allowed }
    }
}

/// Reads a key or a word: its number in the list.
#[derive(Clone, Copy, Debug)]
pub struct Word(pub &'static [&'static str]);

impl<'de> de::DeserializeSeed<'de> for Word {
    type Value = usize;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de> de::Visitor<'de> for Word {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }
    fn visit_str<E: de::Error>(self, word: &str) -> Result<usize, E> {
        let found = self.0.iter().position(|known| *known == word);
        found.ok_or_else(|| E::unknown_variant(word, self.0))
    }
    fn visit_enum<A: de::EnumAccess<'de>>(self, access: A) -> Result<usize, A::Error> {
        let (number, content) = access.variant_seed(self)?;
        de::VariantAccess::unit_variant(content)?;
        Ok(number)
    }
}

/// Reads a key of a table: its number in the list.
pub(crate) struct Key(pub &'static [&'static str]);

impl<'de> de::DeserializeSeed<'de> for Key {
    type Value = usize;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl de::Visitor<'_> for Key {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: de::Error>(self, key: &str) -> Result<usize, E> {
        let found = self.0.iter().position(|known| *known == key);
        found.ok_or_else(|| E::unknown_field(key, self.0))
    }
}

/// Reads the value of a key. Where that is one number, the error about another says what the key allows, and not what its type
/// holds.
pub struct Within<'b, T> {
    /// What is expected; empty if it is no number.
    number: &'b dyn Fn() -> Cow<'static, str>,
    value: PhantomData<T>,
}

impl<T> fmt::Debug for Within<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Within")
    }
}

impl<'b, T> Within<'b, T> {
    /// The value of a key of which `number` says what is expected.
    pub const fn new(number: &'b dyn Fn() -> Cow<'static, str>) -> Self {
        Self { number, value: PhantomData }
    }
}

impl<'de, T: de::Deserialize<'de>> de::DeserializeSeed<'de> for Within<'_, T> {
    type Value = T;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let expected = (self.number)();
        if expected.is_empty() {
            return T::deserialize(deserializer);
        }
        let expected: &str = &expected;
        let number = deserializer.deserialize_option(AnyNumber(expected))?;
        T::deserialize(number).map_err(|_: de::value::Error| match number {
            Number::Whole(number) => de::Error::invalid_value(de::Unexpected::Signed(number), &expected),
            Number::Large(number) => de::Error::invalid_value(de::Unexpected::Unsigned(number), &expected),
            Number::Real(number) => de::Error::invalid_type(de::Unexpected::Float(number), &expected),
            Number::None => de::Error::invalid_type(de::Unexpected::Unit, &expected),
        })
    }
}

/// A number of any kind, or none, as JSON writes a value that is not given.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    /// Above what an `i64` holds.
    Large(u64),
    Real(f64),
    None,
}

impl<'de> de::Deserializer<'de> for Number {
    type Error = de::value::Error;
    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Self::Whole(number) => visitor.visit_i64(number),
            Self::Large(number) => visitor.visit_u64(number),
            Self::Real(number) => visitor.visit_f64(number),
            Self::None => visitor.visit_unit(),
        }
    }
    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if matches!(self, Self::None) { visitor.visit_none() } else { visitor.visit_some(self) }
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Reads a number of any kind where this is expected.
struct AnyNumber<'e>(&'e str);

impl<'de> de::Visitor<'de> for AnyNumber<'_> {
    type Value = Number;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Whole(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(i64::try_from(number).map_or(Number::Large(number), Number::Whole))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Real(number))
    }
    fn visit_none<E>(self) -> Result<Number, E> {
        Ok(Number::None)
    }
    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Number, D::Error> {
        // As `f64`, since that is how a text with braces becomes a number.
        deserializer.deserialize_f64(self)
    }
}

/// Reads a table.
///
/// # Errors
/// What is wrong with it.
pub fn deserialize_table<'de, T: Table, D: de::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Visitor<T>(PhantomData<T>);
    impl<'de, T: Table> de::Visitor<'de> for Visitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut partial = T::begin();
            while let Some(number) = map.next_key_seed(Key(T::keys()))? {
                T::take(&mut partial, number, &mut map)?;
            }
            T::end(partial).map_err(de::Error::missing_field)
        }
    }
    deserializer.deserialize_struct(T::NAME, T::keys(), Visitor(PhantomData))
}

/// Writes a table.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_table<T: Table, S: ser::Serializer>(table: &T, serializer: S) -> Result<S::Ok, S::Error> {
    use ser::SerializeStruct as _;
    let mut out = serializer.serialize_struct(T::NAME, T::keys().len())?;
    table.write(&mut out)?;
    out.end()
}

/// Reads one of a family.
///
/// # Errors
/// What is wrong with it.
pub fn deserialize_family<'de, F: Family, D: de::Deserializer<'de>>(
    name: &'static str,
    deserializer: D,
) -> Result<F, D::Error> {
    struct Visitor<F>(PhantomData<F>);
    impl<'de, F: Family> de::Visitor<'de> for Visitor<F> {
        type Value = F;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table with a `kind`, or the kind alone")
        }
        fn visit_enum<A: de::EnumAccess<'de>>(self, access: A) -> Result<F, A::Error> {
            let (number, table) = access.variant_seed(Word(F::kinds()))?;
            F::read(number, table)
        }
    }
    deserializer.deserialize_enum(name, F::kinds(), Visitor(PhantomData))
}

/// Writes a table with its kind first.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_tagged<T: ser::Serialize, S: ser::Serializer>(
    kind: &'static str,
    config: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use ser::SerializeMap as _;
    // By way of JSON: serde's own code for this is private to what it derives. Done once per mechanism and scenario.
    let table = serde_json::to_value(config).map_err(ser::Error::custom)?;
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("kind", kind)?;
    if let Value::Object(table) = table {
        for (key, value) in table {
            map.serialize_entry(&key, &value)?;
        }
    }
    map.end()
}

/// What a schema calls a type.
pub fn schema_name(type_name: &'static str) -> &'static str {
    type_name.strip_suffix("Config").filter(|name| !name.is_empty()).unwrap_or(type_name)
}

/// The title of a documentation, and the text below it, both without the blanks around lines.
fn split_title(doc: &str) -> (String, String) {
    let lines: Vec<&str> = doc.lines().map(str::trim).collect();
    let text = lines.join("\n");
    match text.trim().strip_prefix("# ") {
        Some(rest) => {
            let (title, below) = rest.split_once('\n').unwrap_or((rest, ""));
            (title.trim().into(), below.trim().into())
        }
        None => (String::new(), text.trim().into()),
    }
}

/// The schema of a table of parameters.
pub fn table_schema<T: Table>(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in T::describe(generator) {
        let mut schema = key.schema;
        let description = split_title(key.doc).1;
        if !description.is_empty() {
            schema.insert("description".to_string(), description.into());
        }
        if let Some(default) = key.default {
            schema.insert("default".to_string(), default);
        }
        if let Some(bound) = key.bound {
            (bound.describe)(&mut schema);
            if !bound.allowed.is_empty() {
                schema.insert("$comment".to_string(), String::from(bound.allowed).into());
            }
        }
        if key.is_required {
            required.push(Value::from(key.name));
        }
        properties.insert(key.name.to_string(), schema.to_value());
    }
    let (title, description) = split_title(T::ABOUT);
    let mut schema = json_schema!({ "type": "object", "additionalProperties": false });
    for (key, text) in [("title", title), ("description", description)] {
        if !text.is_empty() {
            schema.insert(key.to_string(), text.into());
        }
    }
    schema.insert("properties".to_string(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_string(), required.into());
    }
    schema
}

/// The schema of a choice between words.
pub fn words_schema(about: &str, words: &[(&str, &str)]) -> Schema {
    let choices: Vec<Value> = words
        .iter()
        .map(|(word, doc)| json!({ "description": split_title(doc).1, "type": "string", "const": word }))
        .collect();
    json_schema!({ "description": split_title(about).1, "oneOf": choices })
}

/// The schema of a choice between words, two of which can be written as a boolean.
pub fn switch_schema(about: &str, words: &[(&str, &str)]) -> Schema {
    let mut schema = words_schema(about, words);
    if let Some(Value::Array(choices)) = schema.get_mut("oneOf") {
        choices.push(json!({ "type": "boolean" }));
    }
    schema
}

/// The schema of a table that is chosen by its kind, written out: a `$ref` could not stand beside the kind.
pub fn kind_schema<T: JsonSchema>(kind: &str, generator: &mut SchemaGenerator) -> Schema {
    let mut table = T::json_schema(generator);
    let mut properties = Map::new();
    properties.insert("kind".to_string(), json!({ "type": "string", "const": kind }));
    if let Some(Value::Object(keys)) = table.remove("properties") {
        properties.extend(keys);
    }
    let mut required = Vec::from([Value::from("kind")]);
    if let Some(Value::Array(keys)) = table.remove("required") {
        required.extend(keys);
    }
    table.insert("properties".to_string(), properties.into());
    table.insert("required".to_string(), required.into());
    table
}

/// The schema of a family.
pub fn family_schema<F: Family>(about: &str, generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "description": split_title(about).1, "oneOf": F::choices(generator) })
}
