//! Runs a scenario in the simulator and leaves its results behind.
//!
//! [`Run::start`] turns a validated scenario into a simulation ([`lower`]), [`Run::advance`] moves it on and samples what
//! the scenario records ([`sample`]), [`Run::finish`] gives the summary ([`summary`], [`compare`]) and the time series.
//! Results depend on the scenario and the seed alone.

mod admission;
pub mod agent;
mod compare;
mod crowds;
pub mod lower;
mod plausible;
mod run;
mod sample;
mod suitable;
mod summary;
mod traffic;

pub use admission::warnings;
pub use crowds::flow_count;
pub use run::{Outcome, Progress, Run, Timing, capture, run, trace};
pub use summary::{SCHEMA_VERSION, Summary};
pub use tidegate_engine::{BuildError, Observer, Undivided};
pub use tidegate_record::{Capture, Series};
