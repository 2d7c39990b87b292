//! Time, rates and sizes: the only place where units convert.
//!
//! Everything is an integer: time in nanoseconds, rates in bits per second, sizes in bytes. Values arrive as text in
//! the units of `tc` (see [`parse`]) and leave as text that reads back as the same value.
#![no_std]

extern crate alloc;

mod parse;
mod serialize;
#[cfg(feature = "text")]
mod text;
mod types;

pub use parse::{Limit, UnitError};
pub use serialize::{GapClock, TransmissionClock};
#[cfg(feature = "text")]
pub use text::Quantity;
pub use types::{BitRate, Bytes, Span, Time};

/// What the expansion of [`quantities!`] names; not for other use.
#[cfg(feature = "text")]
#[doc(hidden)]
pub mod __private {
    pub use crate::text::{QuantityVisitor, schema_of};
    pub use alloc::borrow::Cow;
    pub use {schemars, serde};
}
