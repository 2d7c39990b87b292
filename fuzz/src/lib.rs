//! What several targets begin with.

pub mod gateway;
