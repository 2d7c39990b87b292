//! A gateway of a site: joins it to other sites over networks that nobody owns, finds the rates that the paths really give, and
//! holds the queues here, where they are managed.
//!
//! [`core`] is all of it but clocks, devices and threads: what happens goes in, what is to be sent comes out. A daemon drives it
//! with real packets, and a simulation with those of a simulated network, so that both run the same code. [`tunnel`] says how
//! packets are wrapped between two gateways.

pub mod core;
#[cfg(all(feature = "daemon", target_os = "linux"))]
pub mod daemon;
pub mod record;
pub mod tunnel;
