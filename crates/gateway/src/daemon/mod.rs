//! The daemon: the core with real packets, sockets and clocks, on Linux.
//!
//! ```text
//! main      reads the configuration, makes devices, sockets and routes, gives its rights away, answers signals and systemd
//! packets   the only thread that has the core: device and sockets, what is due, nothing else; or several, each with a
//!           core of its own ([`threads`])
//! control   the socket of `tidegatectl`; the status page, names that are looked up, and what is kept have threads beside it ([`house`])
//! ```
//!
//! A packet thread waits for nobody and takes no lock: it leaves a look at itself where others find it, and takes orders
//! from a queue.

pub mod batch;
mod changes;
pub mod client;
pub mod config;
pub mod control;
pub mod explain;
pub mod homes;
pub mod house;
pub mod io;
pub mod kept;
pub mod log;
pub mod look;
pub mod metrics;
mod notes;
pub mod order;
pub mod packets;
pub mod page;
pub mod parity;
pub mod program;
pub mod recording;
pub mod request;
pub mod rights;
pub mod rounds;
pub mod routes;
pub mod run;
mod socket;
pub mod state;
pub mod threads;

/// Where `tidegatectl` finds the daemon.
pub const DEFAULT_SOCKET: &str = "/run/tidegate/gateway.sock";
