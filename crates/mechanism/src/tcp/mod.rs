//! How does the end host react? TCP senders and receivers as state machines.
//!
//! A connection is one-way: a [`TcpSender`] with as many bytes as the application gives, and a [`TcpReceiver`] that
//! acknowledges them. Both take headers, give headers, and know no packets. Who does what:
//!
//! - `recovery/` decides *what* goes next and when something counts as lost (Tahoe, Reno, NewReno, SACK, ns's Sack1, RACK-TLP),
//! - [`congestion`] decides the *window*, and when a segment may go,
//! - `sampler` measures, for a control that asks, what each acknowledgment says of the path,
//! - `pacing` spreads segments where the host does that and not the control,
//! - `rto` decides how long to wait,
//! - `connection` holds the sequence space and the timer that these act on.
//!
//! Two profiles set every parameter: [`TcpConfig::ns_1999`] behaves packet for packet as ns-2 did when the five
//! documents were written, [`TcpConfig::modern`] follows the RFCs in force. [`TcpKeys`] are what configurations say of a connection;
//! what they leave out comes from one of the two.

mod config;
pub mod congestion;
mod connection;
mod ecn;
mod gradual;
mod keys;
mod pacing;
mod prr;
mod ranges;
mod receiver;
mod recovery;
mod rto;
mod sampler;
mod sender;
mod window;

pub use config::{
    DelayedAck, EcnFeedback, FastRetransmitGuard, RtoConfig, Rules, TcpConfig, Variant,
    initial_window_of_rfc_6928,
};
pub use connection::SenderCounters;
pub use ecn::EcnUse;
pub use keys::{ResolvedTcp, TcpKeys};
pub use pacing::Pacing;
pub use receiver::{Received, ReceiverCounters, TcpReceiver};
pub use sender::{TcpSender, Transmit};
pub use window::Window;
