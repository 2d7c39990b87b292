//! From TOML to a validated [`Scenario`] or an experiment, with errors that name file, line, column and key.
//!
//! Nothing here runs a scenario.

mod text;

pub mod model;

pub use model::Scenario;
