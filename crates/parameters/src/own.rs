//! Mechanisms of one's own: parameters of which a family knows nothing but how to make a mechanism of them.
//!
//! A family that takes in [`Own`] has kinds that other crates declare. With the feature `text` a [`Registry`] names them: what
//! is registered is read, checked, described and written like the family's own kinds, positions in errors included.

use alloc::format;
use alloc::sync::Arc;
use core::fmt::{self, Debug};

use crate::{Parameters, Report};

/// What can be written out, where there is text.
#[cfg(feature = "text")]
pub trait Written: erased_serde::Serialize {}
#[cfg(feature = "text")]
impl<T: erased_serde::Serialize + ?Sized> Written for T {}

/// What can be written out: anything, since there is no text.
#[cfg(not(feature = "text"))]
pub trait Written {}
#[cfg(not(feature = "text"))]
impl<T: ?Sized> Written for T {}

/// Parameters of any type.
pub trait Values: Parameters + Written + Debug + Send + Sync + 'static {}
impl<T: Parameters + Written + Debug + Send + Sync + 'static> Values for T {}

/// Parameters of a mechanism that its family does not list. `V` is a trait object that says what is made of them.
pub struct Own<V: ?Sized> {
    kind: &'static str,
    values: Arc<V>,
}

impl<V: ?Sized> Own<V> {
    /// The parameters `values` of the mechanism that configurations call `kind`.
    pub const fn new(kind: &'static str, values: Arc<V>) -> Self {
        Self { kind, values }
    }

    /// Its kind, as configurations name it.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// The parameters.
    pub fn values(&self) -> &V {
        &self.values
    }
}

impl<V: ?Sized> Clone for Own<V> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, values: Arc::clone(&self.values) }
    }
}

impl<V: Values + ?Sized> Debug for Own<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.kind).field(&&*self.values).finish()
    }
}

impl<V: Values + ?Sized> PartialEq for Own<V> {
    /// The same kind, and values that look the same.
    fn eq(&self, other: &Self) -> bool {
        let look = |own: &Self| format!("{:?}", &*own.values);
        self.kind == other.kind && (Arc::ptr_eq(&self.values, &other.values) || look(self) == look(other))
    }
}

impl<V: Values + ?Sized> Parameters for Own<V> {
    fn check(&self, report: &mut Report<'_>) {
        self.values.check(report);
    }
}

#[cfg(feature = "text")]
pub use text::{Declared, Registered, Registry, RegistryError};

#[cfg(feature = "text")]
mod text {
    extern crate std;

    use alloc::borrow::ToOwned as _;
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::fmt;
    use std::sync::{Mutex, OnceLock, PoisonError};

    use schemars::{JsonSchema, Schema, SchemaGenerator};
    use serde::{de, ser};

    use super::{Own, Values};
    use crate::text::{Family, SchemaOf, Table, kind_schema, schema_of, serialize_tagged};

    /// A table that was declared with [`parameters!`](crate::parameters).
    pub trait Declared: Table + JsonSchema + Values {}
    impl<T: Table + JsonSchema + Values> Declared for T {}

    /// What own mechanisms of a family are, and where they are registered.
    pub trait Registered: Values {
        /// What is known of a kind before there are values.
        type About: Copy + Send + Sync + 'static;

        /// Where.
        fn registry() -> &'static Registry<Self>;
    }

    /// A kind that was registered.
    struct Entry<V: Registered + ?Sized> {
        kind: &'static str,
        about: V::About,
        reader: Box<dyn Fn() -> Box<dyn Reading<V>> + Send + Sync>,
        schema: fn(&str, &mut SchemaGenerator) -> Schema,
        document: SchemaOf,
    }

    /// The kinds that a program adds to a family. They are added before anything is read; the first look at them ends that.
    pub struct Registry<V: Registered + ?Sized + 'static> {
        coming: Mutex<Vec<Entry<V>>>,
        sealed: OnceLock<Vec<Entry<V>>>,
        kinds: OnceLock<Vec<&'static str>>,
    }

    /// Why a kind was not registered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RegistryError {
        /// There is a mechanism of this name.
        Taken(String),
        /// A name is of the letters a to z, digits and hyphens, and begins with a letter.
        Name(String),
        /// Configurations were read, or described, already.
        Late(String),
    }

    impl fmt::Display for RegistryError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Taken(kind) => write!(f, "there is a mechanism `{kind}` already; choose another name"),
                Self::Name(kind) => {
                    write!(
                        f,
                        "`{kind}` is no name of a mechanism: a letter, then letters a to z, digits and hyphens"
                    )
                }
                Self::Late(kind) => {
                    write!(
                        f,
                        "`{kind}` comes too late: register before the first scenario is read or described"
                    )
                }
            }
        }
    }

    impl core::error::Error for RegistryError {}

    impl<V: Registered + ?Sized> fmt::Debug for Registry<V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Registry")
        }
    }

    impl<V: Registered + ?Sized> Default for Registry<V> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl<V: Registered + ?Sized> Registry<V> {
        /// Nothing registered.
        pub const fn new() -> Self {
            Self { coming: Mutex::new(Vec::new()), sealed: OnceLock::new(), kinds: OnceLock::new() }
        }

        /// Adds `kind`, whose parameters are a `T`; `wrap` makes the family's values of them. `taken` are names that it must not
        /// have.
        ///
        /// # Errors
        /// The name is not free or no name, or it is too late.
        pub fn add<T: Declared>(
            &self,
            kind: &'static str,
            about: V::About,
            wrap: fn(T) -> Arc<V>,
            taken: &[&str],
        ) -> Result<(), RegistryError> {
            let is_name = kind.starts_with(|c: char| c.is_ascii_lowercase())
                && kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            if !is_name {
                return Err(RegistryError::Name(kind.to_owned()));
            }
            let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
            if self.sealed.get().is_some() {
                return Err(RegistryError::Late(kind.to_owned()));
            }
            if taken.contains(&kind) || coming.iter().any(|entry| entry.kind == kind) {
                return Err(RegistryError::Taken(kind.to_owned()));
            }
            coming.push(Entry {
                kind,
                about,
                reader: Box::new(move || Box::new(Partial { read: T::begin(), wrap })),
                schema: kind_schema::<T>,
                document: schema_of::<T>,
            });
            Ok(())
        }

        /// What is registered, with what is known of it. Nothing can be added after this.
        pub fn abouts(&self) -> impl Iterator<Item = (&'static str, V::About)> {
            self.entries().iter().map(|entry| (entry.kind, entry.about))
        }

        /// What is known of `kind`, if it is registered.
        pub fn about(&self, kind: &str) -> Option<V::About> {
            self.abouts().find(|(known, _)| *known == kind).map(|(_, about)| about)
        }

        /// The kinds so far; more may come.
        pub fn names(&self) -> Vec<&'static str> {
            let name = |entry: &Entry<V>| entry.kind;
            let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
            coming.iter().map(name).chain(self.sealed.get().into_iter().flatten().map(name)).collect()
        }

        fn entries(&self) -> &[Entry<V>] {
            self.sealed.get_or_init(|| {
                core::mem::take(&mut *self.coming.lock().unwrap_or_else(PoisonError::into_inner))
            })
        }
    }

    /// A table that is being read, whatever its type.
    trait Reading<V: ?Sized> {
        fn keys(&self) -> &'static [&'static str];
        fn take(
            &mut self,
            number: usize,
            value: &mut dyn erased_serde::Deserializer<'_>,
        ) -> Result<(), erased_serde::Error>;
        fn end(self: Box<Self>) -> Result<Arc<V>, &'static str>;
    }

    struct Partial<T: Table, V: ?Sized> {
        read: T::Partial,
        wrap: fn(T) -> Arc<V>,
    }

    impl<V: ?Sized, T: Declared> Reading<V> for Partial<T, V> {
        fn keys(&self) -> &'static [&'static str] {
            T::keys()
        }
        fn take(
            &mut self,
            number: usize,
            value: &mut dyn erased_serde::Deserializer<'_>,
        ) -> Result<(), erased_serde::Error> {
            T::take(&mut self.read, number, &mut OneValue(Some(value)))
        }
        fn end(self: Box<Self>) -> Result<Arc<V>, &'static str> {
            T::end(self.read).map(self.wrap)
        }
    }

    /// The value of a key that was read already.
    struct OneValue<D>(Option<D>);

    impl<'de, D: de::Deserializer<'de>> de::MapAccess<'de> for OneValue<D> {
        type Error = D::Error;
        fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, D::Error> {
            Ok(None)
        }
        fn next_value_seed<S: de::DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, D::Error> {
            let value = self.0.take().ok_or_else(|| de::Error::custom("a value is read once"))?;
            seed.deserialize(value)
        }
    }

    /// Reads one value into a table. The reader of the whole sees each key and each value, so its errors know their place.
    struct Into<'t, V: ?Sized> {
        table: &'t mut dyn Reading<V>,
        number: usize,
    }

    impl<'de, V: ?Sized> de::DeserializeSeed<'de> for Into<'_, V> {
        type Value = ();
        fn deserialize<D: de::Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
            let mut value = <dyn erased_serde::Deserializer<'_>>::erase(value);
            self.table.take(self.number, &mut value).map_err(de::Error::custom)
        }
    }

    struct Whole<V: ?Sized>(Box<dyn Reading<V>>);

    impl<'de, V: ?Sized> de::DeserializeSeed<'de> for Whole<V> {
        type Value = Arc<V>;
        fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Arc<V>, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de, V: ?Sized> de::Visitor<'de> for Whole<V> {
        type Value = Arc<V>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_map<A: de::MapAccess<'de>>(mut self, mut map: A) -> Result<Arc<V>, A::Error> {
            while let Some(number) = map.next_key_seed(crate::text::Key(self.0.keys()))? {
                map.next_value_seed(Into { table: &mut *self.0, number })?;
            }
            self.0.end().map_err(de::Error::missing_field)
        }
    }

    impl<V: Registered + ?Sized> Family for Own<V> {
        fn kinds() -> &'static [&'static str] {
            let registry = V::registry();
            registry.kinds.get_or_init(|| registry.entries().iter().map(|entry| entry.kind).collect())
        }

        fn read<'de, A: de::VariantAccess<'de>>(number: usize, table: A) -> Result<Self, A::Error> {
            let entry = &V::registry().entries()[number];
            let values = table.newtype_variant_seed(Whole((entry.reader)()))?;
            Ok(Self::new(entry.kind, values))
        }

        fn choices(generator: &mut SchemaGenerator) -> Vec<Schema> {
            V::registry().entries().iter().map(|entry| (entry.schema)(entry.kind, generator)).collect()
        }

        fn documents() -> Vec<(&'static str, SchemaOf)> {
            V::registry().entries().iter().map(|entry| (entry.kind, entry.document)).collect()
        }
    }

    impl<V: Values + ?Sized> ser::Serialize for Own<V> {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            struct Erased<'v, V: ?Sized>(&'v V);
            impl<V: Values + ?Sized> ser::Serialize for Erased<'_, V> {
                fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    erased_serde::serialize(self.0, serializer)
                }
            }
            serialize_tagged(self.kind(), &Erased(self.values()), serializer)
        }
    }
}
