//! Time, rates and sizes: the only place where units convert.
//!
//! Everything is an integer: time in nanoseconds, rates in bits per second, sizes in bytes. Values arrive as text in
//! the units of `tc` (see [`parse`]) and leave as text that reads back as the same value.
#![no_std]

extern crate alloc;

mod parse;
mod serialize;
mod types;

pub use parse::{Limit, UnitError};
pub use serialize::TransmissionClock;
pub use types::{BitRate, Bytes, Span, Time};
