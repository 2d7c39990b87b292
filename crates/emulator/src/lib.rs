//! The second world: a scenario in real time, with real hosts.
//!
//! [`Setup`] is a scenario some of whose hosts are real. [`Emulation`] carries their packets through the simulated network;
//! it knows neither clock nor device, so tests drive it as they like. On Linux, `linux` gives it both: a network namespace
//! with a TUN device per real host, and one loop that sleeps until the next event or packet. What went in and what was
//! decided can be recorded ([`tidegate_wire::recording`]) and goes through the simulator once more ([`replay`]): every verdict must be the
//! same.

pub mod address;
mod emulation;
mod lateness;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod live;
pub mod look;
pub mod metrics;
pub mod one_link;
pub mod program;
pub mod replay;
pub mod report;
mod setup;
mod watcher;

pub use emulation::{Counts, Departure, Emulation};
pub use lateness::Lateness;
pub use setup::{Setup, SetupError};
