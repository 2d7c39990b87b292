//! The declarations: [`parameters!`], [`words!`] and [`family!`].

/// Declares a table of parameters.
///
/// Each key has its documentation (what it means; `Default: ...` where the default is no value; `Source: ...`), its type, its
/// default after `=` (without one the key is required) and its bound after `=>` (a [`Check`](crate::Check)). `..name: Type;` in
/// front of them takes in the keys of another table; `world { name: Type = value; }` behind the structure has fields that
/// no text sets, for what the world adds. What several keys say together is a function after `check`. The first line of the documentation of the whole, `# Title`, is its title.
///
/// Gives the structure with public fields; `Default`, or `with` and the required values; [`Parameters`](crate::Parameters);
/// with the feature `text` also `Serialize`, `Deserialize` and `JsonSchema`.
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),+ $(,)?)])?
        $vis:vis struct $name:ident {
            $(..$flat:ident : $inner:ty;)*
            $(
                $(#[doc = $doc:literal])*
                $key:ident : $type:ty $(= $default:expr)? $(=> $bound:expr)?;
            )*
        }
        $(world { $( $(#[doc = $told_doc:literal])* $told:ident : $told_type:ty = $told_default:expr; )* })?
        $(check $check:expr;)?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq $($(, $derive)+)?)]
        #[allow(clippy::struct_excessive_bools, reason = "switches of a configuration, each independent of the others")]
        $vis struct $name {
            $(
                /// Its keys are keys of this table.
                pub $flat: $inner,
            )*
            $(
                $(#[doc = $doc])*
                $(#[doc = concat!("\nDefault `", stringify!($default), "`.")])?
                pub $key: $type,
            )*
            $($( $(#[doc = $told_doc])* pub $told: $told_type, )*)?
        }

        $crate::__constructor! {
            $name [] [
                $($flat = <$inner as ::core::default::Default>::default();)*
                $($($told = $told_default;)*)?
            ] $($key: $type $(= $default)?;)*
        }

        impl $crate::Parameters for $name {
            #[allow(unused_variables, reason = "a table may have no bounds")]
            fn check(&self, report: &mut $crate::Report<'_>) {
                $($crate::Parameters::check(&self.$flat, report);)*
                $($($crate::Check::check(&$bound, $crate::__key(stringify!($key)), &self.$key, report);)?)*
                $(
                    let together: fn(&Self, &mut $crate::Report<'_>) = $check;
                    together(self, report);
                )?
            }
        }

        $crate::text_only! {
            const _: () = {
                /// The values that were read so far.
                pub struct Partial {
                    $($flat: <$inner as $crate::text::Table>::Partial,)*
                    $($key: ::core::option::Option<$type>,)*
                }

                #[allow(unused_variables, unused_mut, unused_assignments, reason = "a table may have no keys")]
                impl $crate::text::Table for $name {
                    type Partial = Partial;
                    const NAME: &'static str = stringify!($name);
                    const MODULE: &'static str = module_path!();
                    const ABOUT: &'static str = concat!($($about, "\n",)*);

                    fn keys() -> &'static [&'static str] {
                        static KEYS: $crate::__private::OnceLock<$crate::__private::Vec<&'static str>> =
                            $crate::__private::OnceLock::new();
                        KEYS.get_or_init(|| {
                            let mut keys = $crate::__private::Vec::new();
                            $(keys.extend_from_slice(<$inner as $crate::text::Table>::keys());)*
                            $(keys.push($crate::__key(stringify!($key)));)*
                            keys
                        })
                    }

                    fn begin() -> Partial {
                        Partial {
                            $($flat: <$inner as $crate::text::Table>::begin(),)*
                            $($key: None,)*
                        }
                    }

                    fn take<'de, A: $crate::__private::de::MapAccess<'de>>(
                        partial: &mut Partial,
                        number: usize,
                        map: &mut A,
                    ) -> Result<(), A::Error> {
                        let mut next = 0;
                        $(
                            let keys = <$inner as $crate::text::Table>::keys().len();
                            if number < next + keys {
                                return <$inner as $crate::text::Table>::take(&mut partial.$flat, number - next, map);
                            }
                            next += keys;
                        )*
                        $(
                            if number == next {
                                partial.$key = Some($crate::__next!(map, $type $(=> $bound)?)?);
                                return Ok(());
                            }
                            next += 1;
                        )*
                        unreachable!("keys are those of the list")
                    }

                    fn end(partial: Partial) -> Result<Self, &'static str> {
                        Ok($name {
                            $($flat: <$inner as $crate::text::Table>::end(partial.$flat)?,)*
                            $($key: $crate::__given!(partial, $key $(= $default)?),)*
                            $($($told: $told_default,)*)?
                        })
                    }

                    fn write<S: $crate::__private::ser::SerializeStruct>(&self, table: &mut S) -> Result<(), S::Error> {
                        $($crate::text::Table::write(&self.$flat, table)?;)*
                        $(table.serialize_field($crate::__key(stringify!($key)), &self.$key)?;)*
                        Ok(())
                    }

                    fn describe(
                        generator: &mut $crate::__private::schemars::SchemaGenerator,
                    ) -> $crate::__private::Vec<$crate::text::KeySchema> {
                        let mut keys = $crate::__private::Vec::new();
                        $(keys.extend(<$inner as $crate::text::Table>::describe(generator));)*
                        $(
                            keys.push($crate::text::KeySchema {
                                name: $crate::__key(stringify!($key)),
                                doc: concat!($($doc, "\n",)*),
                                schema: generator.subschema_for::<$type>(),
                                is_required: $crate::__required!($($default)?),
                                default: $crate::__default_json!($type $(= $default)?),
                                bound: $crate::__describe!($type $(=> $bound)?),
                            });
                        )*
                        keys
                    }
                }

                impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
                    fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                        $crate::text::deserialize_table(deserializer)
                    }
                }

                impl $crate::__private::serde::Serialize for $name {
                    fn serialize<S: $crate::__private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                        $crate::text::serialize_table(self, serializer)
                    }
                }

                $crate::__json_schema!($name, |generator| $crate::text::table_schema::<$name>(generator));
            };
        }
    };
}

/// Declares a choice between words: an enumeration without data, each of whose variants is written as its word.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name {
            $( $(#[doc = $doc])* $variant, )*
        }

        impl $name {
            /// All words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word of it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        $crate::text_only! {
            impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
                fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let number = deserializer.deserialize_enum(
                        stringify!($name),
                        Self::WORDS,
                        $crate::text::Word(Self::WORDS),
                    )?;
                    Ok(Self::ALL[number])
                }
            }

            impl $crate::__private::serde::Serialize for $name {
                fn serialize<S: $crate::__private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.word())
                }
            }

            $crate::__json_schema!($name, |_| $crate::text::words_schema(concat!($($about, "\n",)*), &[$(($word, concat!($($doc, "\n",)*))),*]));
        }
    };
}

/// Declares a choice between tables of parameters, which a table makes by its `kind`, or a kind alone with its defaults.
///
/// `and { Variant(Type), }` behind it takes in all kinds of other families, before its own.
#[macro_export]
macro_rules! family {
    (
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident($config:ty) = $kind:literal, )*
        }
        $(and {
            $( $(#[doc = $other_doc:literal])* $other:ident($inner:ty), )*
        })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name {
            $( $(#[doc = $doc])* $variant($config), )*
            $($( $(#[doc = $other_doc])* $other($inner), )*)?
        }

        impl $name {
            /// The kinds that are its own.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Its kind, as configurations name it.
            #[allow(clippy::needless_pass_by_value, reason = "an inner family has the same")]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    $($(Self::$other(inner) => inner.kind(),)*)?
                }
            }
        }

        impl $crate::Parameters for $name {
            fn check(&self, report: &mut $crate::Report<'_>) {
                match self {
                    $(Self::$variant(config) => config.check(report),)*
                    $($(Self::$other(inner) => inner.check(report),)*)?
                }
            }
        }

        $crate::text_only! {
            impl $crate::text::Family for $name {
                fn kinds() -> &'static [&'static str] {
                    static KINDS: $crate::__private::OnceLock<$crate::__private::Vec<&'static str>> =
                        $crate::__private::OnceLock::new();
                    KINDS.get_or_init(|| {
                        #[allow(unused_mut, reason = "few families take in another")]
                        let mut kinds = $crate::__private::Vec::new();
                        $($(kinds.extend_from_slice(<$inner as $crate::text::Family>::kinds());)*)?
                        kinds.extend_from_slice(&[$($kind),*]);
                        kinds
                    })
                }

                fn read<'de, A: $crate::__private::de::VariantAccess<'de>>(
                    number: usize,
                    table: A,
                ) -> Result<Self, A::Error> {
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "the last number is not read")]
                    {
                        let mut next = 0;
$($(
                            let kinds = <$inner as $crate::text::Family>::kinds().len();
                            if number < next + kinds {
                                return <$inner as $crate::text::Family>::read(number - next, table).map(Self::$other);
                            }
                            next += kinds;
                        )*)?
                        $(
                            if number == next {
                                return table.newtype_variant().map(Self::$variant);
                            }
                            next += 1;
                        )*
                    }
                    unreachable!("kinds are those of the list")
                }

                fn choices(generator: &mut $crate::__private::schemars::SchemaGenerator) -> $crate::__private::Vec<$crate::__private::schemars::Schema> {
                    #[allow(unused_mut, reason = "few families take in another")]
                    let mut choices = $crate::__private::Vec::new();
                    $($(choices.extend(<$inner as $crate::text::Family>::choices(generator));)*)?
                    $(choices.push($crate::text::kind_schema::<$config>($kind, generator));)*
                    choices
                }

                fn documents() -> $crate::__private::Vec<(&'static str, $crate::text::SchemaOf)> {
                    #[allow(unused_mut, reason = "few families take in another")]
                    let mut all = $crate::__private::Vec::<(&'static str, $crate::text::SchemaOf)>::new();
                    $($(all.extend(<$inner as $crate::text::Family>::documents());)*)?
                    $(all.push(($kind, $crate::text::schema_of::<$config> as $crate::text::SchemaOf));)*
                    all
                }
            }

            impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
                fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::text::deserialize_family(stringify!($name), deserializer)
                }
            }

            impl $crate::__private::serde::Serialize for $name {
                fn serialize<S: $crate::__private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    match self {
                        $(Self::$variant(config) => $crate::text::serialize_tagged($kind, config, serializer),)*
                        $($(Self::$other(inner) => inner.serialize(serializer),)*)?
                    }
                }
            }

            $crate::__json_schema!($name, |generator| $crate::text::family_schema::<Self>(concat!($($about, "\n",)*), generator));
        }
    };
}

/// The schema of a declared type, by its name without `Config`.
#[cfg(feature = "text")]
#[doc(hidden)]
#[macro_export]
macro_rules! __json_schema {
    ($name:ident, |$generator:pat_param| $schema:expr) => {
        impl $crate::__private::schemars::JsonSchema for $name {
            fn schema_name() -> $crate::__private::Cow<'static, str> {
                $crate::text::schema_name(stringify!($name)).into()
            }
            fn schema_id() -> $crate::__private::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }
            fn json_schema(
                $generator: &mut $crate::__private::schemars::SchemaGenerator,
            ) -> $crate::__private::schemars::Schema {
                $schema
            }
        }
    };
}

/// What only text needs.
#[cfg(feature = "text")]
#[doc(hidden)]
#[macro_export]
macro_rules! text_only {
    ($($item:tt)*) => { $($item)* };
}

/// What only text needs: nothing here.
#[cfg(not(feature = "text"))]
#[doc(hidden)]
#[macro_export]
macro_rules! text_only {
    ($($item:tt)*) => {};
}

/// `Default` where every key has a default, else `with` and the required values.
#[doc(hidden)]
#[macro_export]
macro_rules! __constructor {
    ($name:ident [] [$($key:ident = $default:expr;)*]) => {
        #[allow(clippy::derivable_impls, reason = "the defaults are those of the declaration")]
        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
    ($name:ident [$($required:ident: $type:ty;)+] [$($key:ident = $default:expr;)*]) => {
        impl $name {
            /// With these, and the default of everything else.
            pub fn with($($required: $type),+) -> Self {
                Self { $($required,)+ $($key: $default,)* }
            }
        }
    };
    ($name:ident [$($required:tt)*] [$($given:tt)*] $key:ident: $type:ty = $default:expr; $($rest:tt)*) => {
        $crate::__constructor! { $name [$($required)*] [$($given)* $key = $default;] $($rest)* }
    };
    ($name:ident [$($required:tt)*] [$($given:tt)*] $key:ident: $type:ty; $($rest:tt)*) => {
        $crate::__constructor! { $name [$($required)* $key: $type;] [$($given)*] $($rest)* }
    };
}

/// The value of a key. Where its bound speaks of a number, that says in an error what is expected.
#[doc(hidden)]
#[macro_export]
macro_rules! __next {
    ($map:ident, $type:ty) => {
        $map.next_value::<$type>()
    };
    ($map:ident, $type:ty => $bound:expr) => {
        $map.next_value_seed($crate::text::Within::<$type>::new(&|| $crate::Check::<$type>::number(&$bound)))
    };
}

/// A key as it was read, or its default.
#[doc(hidden)]
#[macro_export]
macro_rules! __given {
    ($partial:ident, $key:ident = $default:expr) => {
        match $partial.$key {
            Some(value) => value,
            None => $default,
        }
    };
    ($partial:ident, $key:ident) => {
        $partial.$key.ok_or($crate::__key(stringify!($key)))?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __required {
    () => {
        true
    };
    ($default:expr) => {
        false
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __default_json {
    ($type:ty) => {
        None
    };
    ($type:ty = $default:expr) => {{
        let value: $type = $default;
        $crate::__private::serde_json::to_value(&value).ok()
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __describe {
    ($type:ty) => {
        None
    };
    ($type:ty => $bound:expr) => {
        Some($crate::text::Described::new::<$type>($bound))
    };
}

/// The name of a key: an identifier, without what makes it one where it is a word of Rust.
#[doc(hidden)]
pub const fn __key(identifier: &'static str) -> &'static str {
    match identifier.as_bytes() {
        [b'r', b'#', ..] => identifier.split_at(2).1,
        _ => identifier,
    }
}
