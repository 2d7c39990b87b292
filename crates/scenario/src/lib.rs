//! From TOML to a validated [`Scenario`] or an experiment, with errors that name file, line, column and key.
//!
//! Nothing here runs a scenario.

mod document;
mod error;
mod experiment;
mod expression;
mod merge;
mod overrides;
mod reader;
mod scenario;
mod source;
mod suggest;
mod template;
mod text;
mod tree;

pub mod model;

pub use document::Document;
pub use error::{ConfigError, ConfigErrors};
pub use experiment::{
    Axis, DocumentedParameter, Experiment, Figure, FigureKind, Names, Point, Scale, Variant,
};
pub use model::Scenario;
