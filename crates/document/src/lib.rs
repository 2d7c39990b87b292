//! Configuration files whose values know where they were written.
//!
//! The way of a file: [`Document`] reads TOML with its includes into a [`tree`] of values with places in their [`source`]s,
//! [`merge`]d where files lie over one another, and takes [`overrides`] (`listen.port=4000`). [`template`]s put parameters and
//! whole-number [`expression`]s into strings. A [`Site`] is a part that is read as a type through the [`reader`], whose
//! [`fault`]s become [`error`]s that name file, line, column and key, and [`suggest`] what was probably meant. [`schema`] and [`json`] tell others of the same types.
//!
//! Nothing here knows what a configuration is about: that says its [`Format`].
//!
//! ```
//! use tidegate_document::{Document, Format};
//! use tidegate_units::BitRate;
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Uplink {
//!     rate: BitRate,
//! }
//! let format = Format { kind_keys: &[], repeated: &[], override_example: "rate=2Mbit" };
//! let mut document = Document::from_text("uplink.toml", "rate = '1Mbit'", format)?;
//! document.set("rate=2Mbit")?;
//! assert_eq!(document.read::<Uplink>()?.rate, BitRate::from_mbps(2));
//!
//! document.set("rat=3Mbit")?;
//! let errors = document.read::<Uplink>().err().expect("there is no such key");
//! assert_eq!(errors.errors()[0].help, "did you mean `rate`?");
//! # Ok::<(), tidegate_document::ConfigErrors>(())
//! ```

mod document;
mod format;
mod site;

pub mod error;
pub mod expression;
pub mod fault;
pub mod json;
pub mod merge;
pub mod names;
pub mod overrides;
pub mod reader;
pub mod schema;
pub mod source;
pub mod suggest;
pub mod template;
pub mod tree;

pub use document::Document;
pub use error::{ConfigError, ConfigErrors};
pub use format::Format;
pub use site::Site;
pub use template::Parameter;
