//! Enumerations that a table chooses from by its `kind`.

/// Declares an enumeration of configurations that a table chooses by its `kind`.
///
/// Reading relies on the deserializer of [`reader`](crate::reader), which takes the variant from `kind`; so the derived code
/// is that of an externally tagged enumeration, and positions in the file are kept. Writing and the schema are those of an
/// internally tagged one. Who calls it depends on `serde` and `schemars`.
///
/// ```
/// #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// pub struct Square {
///     /// How long each side is.
///     side: u32,
/// }
/// tidegate_document::kinds! {
///     /// A shape.
///     Shape { Square(Square) = "square", }
/// }
/// assert_eq!(Shape::KINDS, ["square"]);
/// assert_eq!(Shape::Square(Square { side: 2 }).kind(), "square");
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$outer:meta])* $type:ident { $($variant:ident($inner:ty) = $kind:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        #[schemars(tag = "kind")]
        pub enum $type {
            $(
                #[doc = concat!("`kind = \"", $kind, "\"`")]
                #[serde(rename = $kind)]
                $variant($inner),
            )*
        }

        impl $type {
            /// All kinds.
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// Its kind, as configurations name it.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(tag = "kind")]
                enum Tagged<'a> {
                    $(#[serde(rename = $kind)] $variant(&'a $inner),)*
                }
                match self { $(Self::$variant(inner) => Tagged::$variant(inner).serialize(serializer),)* }
            }
        }
    };
}
