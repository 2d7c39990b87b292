//! The congestion control of calls: a window that follows the delay of the queue, losses and congestion marks tells a media encoder
//! which rate it may have. What the encoder makes waits at the sender, not in the network; what waits too long is discarded, for
//! nobody would look at it any more, and nothing is ever sent again.
//!
//! Source: `SCReAM`, version 2, draft-johansson-ccwg-rfc8298bis-screamv2-07 ("the draft"), which replaces RFC 8298. Feedback is that of
//! RFC 8888, the base delay that of RFC 6817. Where the draft leaves a number open, the authors' implementation (`ScreamV2Tx.cpp`)
//! has it, which was looked at for that alone.
//! Deviations:
//! - One stream of media; the draft leaves the order among several open (section 3). `ref_wnd` is a real number.
//! - A data unit is a whole packet on the wire, for links and tables count those; the media fill what headers leave of the rate.
//! - Windows and rates begin at their least; `last_...` times begin long ago, not at zero, so that results do not depend on when a
//!   flow starts.
//! - The order of steps within a report, which the draft leaves open: round trip, delay, `l4s_alpha`, what is done once per round
//!   trip, target of the delay, reduction, increase, bitrate. `scl_t` is of the `ref_wnd_i` before, as the listing has it (its
//!   comment says the opposite), and steps are scaled down where the delay is below a quarter of its target, as the listing has it
//!   (its comment says the opposite, too). An interval in which nothing arrived leaves `l4s_alpha` as it is.
//! - The reordering window begins at [`ScreamConfig::reordering`], for the draft has no first value, grows to what was seen, up to a
//!   round trip, and does not shrink. Losses are noticed when a report comes.
//! - `bytes_in_flight` is restored after half a second in which nothing could be sent: all of it counts as lost (the draft promises
//!   a least rate without feedback in its section on security, the implementation does this).
//! - A report has 64 packets at most and tells of 32 or more, so that a lost report loses nothing (section 6, on feedback). Sequence
//!   numbers do not wrap, and the report's time stamp is exact; arrival times are in 1/1024 s, as in RFC 8888.
//! - Not done: several streams and their priorities, the restriction of `ref_wnd` to a history of bytes in flight at the highest
//!   bitrate (section 4.2.2.2 refers to the implementation), operation without pacing, feedback over QUIC.

mod config;
mod control;
mod delay;
mod flight;
mod laws;
mod media;
mod receiver;
mod report;
mod sender;

pub use config::ScreamConfig;
pub use control::{Control, Feedback};
pub use receiver::ScreamReceiver;
pub use report::{Metric, Report};
pub use sender::ScreamSender;

use tidegate_units::Time;

/// What a packet of media says beside its medium: the header of RTP, as far as congestion control knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Rises by one with each packet.
    pub sequence: u64,
    /// Bytes on the wire.
    pub bytes: u32,
    /// The marker: it is the last packet of its frame.
    pub is_last: bool,
    /// When its frame was made, on the sender's clock.
    pub made: Time,
}
