//! From TOML to a validated [`Scenario`] or an [`Experiment`], with errors that name file, line, column and key.
//!
//! The way of a file: [`Document`] reads it with its includes into a tree whose values know where they were written, and
//! takes overrides (`links.bottleneck.rate=2Mbit`). [`Document::scenario`] lays defaults under links and flows, expands
//! repeats and names in braces, resolves names to indices and checks everything. [`Document::experiment`] adds variants,
//! axes, seeds and figures; each of its [`Point`]s is one scenario. What configures a
//! mechanism is declared beside it, in `tidegate-mechanism`; [`schema()`] and [`explain()`] are made of these declarations.
//!
//! Nothing here runs a scenario.
//!
//! ```
//! let text = r#"
//!     duration = "10s"
//!     nodes = { hosts = ["S", "D"], routers = ["R"] }
//!     [links.access]
//!     between = ["S", "R"]
//!     rate = "10Mbit"
//!     delay = "1ms"
//!     [links.bottleneck]
//!     between = ["R", "D"]
//!     rate = "1.5Mbit"
//!     delay = "10ms"
//!     queue = { kind = "red", min = "5p", max = "15p" }
//!     [flows.tcp]
//!     from = "S"
//!     to = "D"
//!     transport = "tcp"
//! "#;
//! let mut document = tidegate_scenario::Document::from_text("example.toml", text)?;
//! document.set("links.bottleneck.rate=2Mbit")?;
//! let scenario = document.scenario()?;
//! assert_eq!(scenario.links[1].forward.rate.to_string(), "2Mbit");
//! # Ok::<(), tidegate_scenario::ConfigErrors>(())
//! ```

mod document;
mod experiment;
mod explain;
mod json;
mod keys;
mod scenario;
mod schema;
mod tables;
mod trace;

pub mod model;

pub use document::Document;
pub use experiment::{
    Axis, DocumentedParameter, Experiment, Figure, FigureKind, Names, Point, Scale, Variant,
};
pub use explain::{MechanismDoc, ParameterDoc, explain, list_mechanisms};
pub use keys::{KeyDoc, list_keys};
pub use model::Scenario;
pub use schema::schema;
pub use tidegate_document::{ConfigError, ConfigErrors};

// Under the names that they have there, for the whole crate.
pub use tidegate_document::suggest;
use tidegate_document::{error, fault, merge, overrides, reader, template, tree};
