//! One declaration per parameter: its name, type with unit, default, bounds, meaning and source stand in one place, and
//! everything else follows from it.
//!
//! [`parameters!`] declares a table of parameters, [`words!`] a choice between words, [`family!`] a choice between tables by
//! their `kind`. Each gives a plain Rust type. With the feature `text` it also gives what reads it from a configuration
//! (through serde, so that positions in errors are the reader's), what writes it, and its JSON Schema, of which
//! `tidegate explain` and the tables of the documentation are made. Without the feature nothing of this is compiled.
//!
//! Checks need no text: [`Parameters::check`] tells a [`Report`] of every value out of its bounds, and of what values say
//! together.
//!
//! ```
//! use tidegate_parameters::{bound, parameters, Parameters as _, Report};
//! use tidegate_units::{Limit, Span};
//!
//! parameters! {
//!     /// # A queue that forgets
//!     ///
//!     /// Source: this example.
//!     pub struct Forgetful {
//!         /// How much may wait. Source: assumed.
//!         limit: Limit = Limit::Packets(100) => bound::QUEUE;
//!         /// Probability with which a packet is forgotten. Source: assumed.
//!         p: f64 = 0.01 => bound::PROBABILITY;
//!         /// For how long. Required.
//!         span: Span => bound::DURATION;
//!     }
//! }
//!
//! let config = Forgetful { p: 2.0, ..Forgetful::with(Span::from_secs(1)) };
//! let mut found = Vec::new();
//! config.check(&mut Report::new(&mut |keys, message, help| found.push(format!("{}: {message}; {help}", keys.join(".")))));
//! assert_eq!(found, ["p: 2 is no probability; from 0 to 1"]);
//! ```
#![no_std]

extern crate alloc;

pub mod bound;
mod declare;
pub mod own;
mod report;
#[cfg(feature = "text")]
pub mod text;

pub use bound::{Bound, Check};
#[doc(hidden)]
pub use declare::__key;
pub use own::Own;
pub use report::Report;

/// A table of parameters, or a choice between such tables.
pub trait Parameters {
    /// Tells `report` of every value that is out of its bounds, and of what values say together.
    fn check(&self, report: &mut Report<'_>);
}

impl<T: Parameters> Parameters for alloc::boxed::Box<T> {
    fn check(&self, report: &mut Report<'_>) {
        (**self).check(report);
    }
}

/// What the expansions of the macros name; not for other use.
#[cfg(feature = "text")]
#[doc(hidden)]
pub mod __private {
    extern crate std;
    pub use alloc::borrow::Cow;
    pub use alloc::vec::Vec;
    pub use serde::{de, ser};
    pub use std::sync::OnceLock;
    pub use {schemars, serde, serde_json};
}
