//! From TOML to a validated [`Scenario`] or an experiment, with errors that name file, line, column and key.
//!
//! Nothing here runs a scenario.

mod document;
mod error;
mod experiment;
mod explain;
mod expression;
mod json;
mod merge;
mod overrides;
mod reader;
mod scenario;
mod schema;
mod source;
mod suggest;
mod template;
mod text;
mod tree;

pub mod lower;
pub mod model;

pub use document::Document;
pub use error::{ConfigError, ConfigErrors};
pub use experiment::{
    Axis, DocumentedParameter, Experiment, Figure, FigureKind, Names, Point, Scale, Variant,
};
pub use explain::{MechanismDoc, ParameterDoc, explain, list_mechanisms};
pub use model::Scenario;
pub use schema::schema;
