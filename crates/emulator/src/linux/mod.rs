//! Linux: namespaces and devices for the hosts, the clock, and the loop between them.

mod carry;
mod child;
mod children;
mod clean;
mod error;
mod host;
mod hosts;
mod namespace;
mod output;
mod pace;
mod processes;
mod run;
mod signals;
mod terminal;
mod urgency;
mod watch;

pub use child::Seen;
pub use clean::{Cleaned, clean};
pub use error::{Failure, Kind};
pub use run::{Ended, Options, emulate};
