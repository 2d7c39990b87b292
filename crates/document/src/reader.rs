//! Reading typed values from a [`Tree`]: a serde deserializer that expands braces as it goes and whose errors know
//! their place and path.
//!
//! A derived `Deserialize` of an externally tagged enumeration reads a table whose `kind` names the variant, or a string
//! that is the variant with nothing else.

use serde::de::{self, DeserializeSeed, Visitor};
use serde::forward_to_deserialize_any;

use crate::fault::{Fault, shortened};
use crate::source::Place;
use crate::suggest;
use crate::template::Scope;
use crate::tree::{Entry, KindAlone, Table, Tree, Value};

/// Reads one value.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    tree: &'a Tree,
    scope: &'a Scope<'a>,
}

/// Reads a `T` from `tree`.
///
/// # Errors
/// The first thing that is no part of a `T`.
pub fn read<T: de::DeserializeOwned>(tree: &Tree, scope: &Scope<'_>) -> Result<T, Fault> {
    T::deserialize(Reader { tree, scope }).map_err(|fault| fault.at(tree.place))
}

/// Reads a `T` from the entries of a table but those named in `skip`.
///
/// # Errors
/// The first thing that is no part of a `T`.
pub fn read_without<T: de::DeserializeOwned>(
    tree: &Tree,
    skip: &'static [&'static str],
    scope: &Scope<'_>,
) -> Result<T, Fault> {
    let empty = Table::default();
    let entries = Entries::new(tree.as_table().unwrap_or(&empty), scope, skip);
    T::deserialize(de::value::MapAccessDeserializer::new(entries)).map_err(|fault| fault.at(tree.place))
}

impl Reader<'_> {
    fn expanded(&self, text: &str) -> Result<String, Fault> {
        match self.scope.expand(text) {
            Ok(text) => Ok(text.into_owned()),
            Err(why) => Err(Fault::new(why, "").at(self.tree.place)),
        }
    }
}

/// Numbers and booleans: as they are, or from a string with braces.
macro_rules! scalars {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match &self.tree.value {
                Value::Text(text) if self.scope.is_template(text) => {
                    let text = self.expanded(text)?;
                    if let Ok(number) = text.parse::<i64>() {
                        visitor.visit_i64(number)
                    } else if let Some(number) = text.parse::<f64>().ok().filter(|n| n.is_finite()) {
                        visitor.visit_f64(number)
                    } else if let Ok(boolean) = text.parse::<bool>() {
                        visitor.visit_bool(boolean)
                    } else {
                        visitor.visit_str(&text)
                    }
                }
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.tree.value {
            Value::Text(text) if self.scope.is_template(text) => visitor.visit_str(&self.expanded(text)?),
            Value::Text(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Beyond(written) => Err(Fault::beyond(written, &visitor)),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::List(list) => visitor.visit_seq(Items::new(list, self.scope)),
            Value::Table(table) => visitor.visit_map(Entries::new(table, self.scope, &[])),
        }
    }

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.tree.value {
            Value::Text(_) => visitor.visit_enum(Choice { kind: self, table: None }),
            Value::Table(table) => match table.get("kind") {
                Some(kind) => {
                    let kind = Reader { tree: kind, scope: self.scope };
                    visitor.visit_enum(Choice { kind, table: Some(table) })
                }
                None => Err(Fault::new("missing key `kind`", suggest::list("allowed", variants))),
            },
            _ => {
                let help = suggest::list("allowed", variants);
                let message = format!(
                    "expected a name in quotes, or a table with a `kind`, found {}",
                    self.tree.what()
                );
                Err(Fault::new(message, help))
            }
        }
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A list, its ranges expanded.
struct Items<'a> {
    scope: &'a Scope<'a>,
    list: &'a [Tree],
    position: usize,
    /// What the current element expanded to, and how far it has been read.
    texts: std::vec::IntoIter<String>,
}

impl<'a> Items<'a> {
    fn new(list: &'a [Tree], scope: &'a Scope<'a>) -> Self {
        Self { scope, list, position: 0, texts: Vec::new().into_iter() }
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        loop {
            if let Some(text) = self.texts.next() {
                let position = self.position - 1;
                let place = self.list[position].place;
                return seed
                    .deserialize(TextReader { text: &text, place })
                    .map(Some)
                    .map_err(|fault| fault.at(place).inside(&position.to_string()));
            }
            let Some(tree) = self.list.get(self.position) else { return Ok(None) };
            let key = self.position.to_string();
            self.position += 1;
            if let Value::Text(text) = &tree.value
                && self.scope.is_template(text)
                && text.contains("..")
            {
                self.texts = self
                    .scope
                    .expand_all(text)
                    .map_err(|why| Fault::new(why, "").at(tree.place).inside(&key))?
                    .into_iter();
                continue;
            }
            return seed
                .deserialize(Reader { tree, scope: self.scope })
                .map(Some)
                .map_err(|fault| fault.at(tree.place).inside(&key));
        }
    }
}

/// The entries of a table.
struct Entries<'a> {
    table: &'a Table,
    scope: &'a Scope<'a>,
    skip: &'static [&'static str],
    position: usize,
    current: Option<(&'a str, &'a Entry)>,
}

impl<'a> Entries<'a> {
    fn new(table: &'a Table, scope: &'a Scope<'a>, skip: &'static [&'static str]) -> Self {
        Self { table, scope, skip, position: 0, current: None }
    }
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        while let Some((key, entry)) = self.table.at(self.position) {
            self.position += 1;
            if self.skip.contains(&&**key) {
                continue;
            }
            self.current = Some((key, entry));
            let reader = TextReader { text: key, place: entry.key_place };
            return seed.deserialize(reader).map(Some).map_err(|f| f.at(entry.key_place).inside(key));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, entry)) = self.current.take() else {
            return Err(Fault::new("a value without its key", ""));
        };
        let reader = Reader { tree: &entry.tree, scope: self.scope };
        seed.deserialize(reader).map_err(|fault| fault.at(entry.tree.place).inside(key))
    }
}

/// A text that is not in the tree, or a key of it.
struct TextReader<'a> {
    text: &'a str,
    place: Place,
}

impl<'de> de::Deserializer<'de> for TextReader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text).map_err(|fault: Fault| fault.at(self.place))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A variant and what it holds.
struct Choice<'a> {
    kind: Reader<'a>,
    /// The table that `kind` stands in; none where the kind stands alone.
    table: Option<&'a Table>,
}

impl<'de, 'a> de::EnumAccess<'de> for Choice<'a> {
    type Error = Fault;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'a>), Fault> {
        let place = self.kind.tree.place;
        let value = seed.deserialize(self.kind).map_err(|fault| {
            let fault = fault.at(place);
            if self.table.is_some() { fault.inside("kind") } else { fault }
        })?;
        let kind = self.kind.tree.as_text().unwrap_or_default();
        Ok((value, Content { table: self.table, scope: self.kind.scope, kind, place }))
    }
}

/// What a variant holds: the table without its `kind`.
struct Content<'a> {
    table: Option<&'a Table>,
    scope: &'a Scope<'a>,
    kind: &'a str,
    place: Place,
}

impl Content<'_> {
    /// Says of an unknown key to which kind it is unknown, and what to do where only `kind` was overridden.
    fn explain(&self, mut fault: Fault) -> Fault {
        let Some(key) = fault.take_unknown_key() else { return fault };
        let message = format!("unknown key `{}` for kind `{}`", shortened(&key), shortened(self.kind));
        let help = self.table.and_then(Table::kind_alone).map(|KindAlone { before, table }| {
            let (before, kind) = (shortened(before), shortened(self.kind));
            format!(
                "other keys are those of kind `{before}`, and only `kind` was set: set the whole table, \
                 like {table}={kind} or {table}={{ kind = \"{kind}\" }}"
            )
        });
        fault.reworded(message, help)
    }
}

impl<'de> de::VariantAccess<'de> for Content<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        let extra = self.table.and_then(|table| table.iter().find(|(key, _)| &***key != "kind"));
        match extra {
            None => Ok(()),
            Some((key, entry)) => {
                let fault: Fault = de::Error::unknown_field(key, &[]);
                Err(self.explain(fault).at(entry.key_place).inside(key))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let empty = Table::default();
        let table = self.table.unwrap_or(&empty);
        let entries = Entries::new(table, self.scope, &["kind"]);
        seed.deserialize(de::value::MapAccessDeserializer::new(entries))
            .map_err(|fault| self.explain(fault).at(self.place))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(Fault::new("a list is no configuration", "").at(self.place))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let empty = Table::default();
        let table = self.table.unwrap_or(&empty);
        visitor.visit_map(Entries::new(table, self.scope, &["kind"]))
    }
}
