//! TCP-friendly rate control: a media stream over UDP that shares a link with TCP as an equal, without TCP's halvings. The
//! receiver measures how often packets are lost, the sender sends what TCP would get at that loss and round-trip time, and
//! feedback once per round trip keeps both informed.
//!
//! Source: RFC 5348. The thesis of Feng asks for such a stream under its packet marking engines (section 5.9; chapter 7, item 3).
//! Deviations:
//! - A segment is a whole packet on the wire, for links and tables count those. The RFC counts payload (section 3.1: `s`), some
//!   percent less.
//! - The application always has something to send, or pauses altogether; with [`TfrcConfig::max_rate`] it is data-limited as long
//!   as the allowed rate is above that (section 8.2.1 has heuristics for applications in general).
//! - `X_recv` over the last round trip is interpolated from two intervals between reports, so that arrivals need no list.
//! - Optional parts are left out: history discounting (section 5.5) and the reduction of oscillations (section 4.5).
//! - What was counted as lost and comes after all stays lost (section 5.1 lets a receiver correct itself).
//! - In a silence of the receiver its timer does not run: the next packet makes up for it ([`TfrcReceiver`]). In a pause of the
//!   medium the sender's runs only until the rate is down at what it may begin with (section 4.4), where it would do nothing more.
//!
//! Checked section by section against implementations that quote the RFC, as its text was not at hand: `GoDCCP` (`ccid3`, sections
//! 4.2 to 4.4), Linux (`net/dccp/ccids/ccid3.c`), VPP (IP-TFS, section 4.3).

mod equation;
mod loss;
mod receiver;
mod sender;

pub use equation::{loss_event_rate, throughput};
pub use loss::LossHistory;
pub use receiver::TfrcReceiver;
pub use sender::TfrcSender;

use tidegate_units::{BitRate, Span, Time};

/// Parameters of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TfrcConfig {
    /// `s`, a packet on the wire, bytes, above zero. Default 1000 (as the documents' TCP).
    pub packet_bytes: u32,
    /// The headers in it. Default 40: IPv4, UDP, RTP (RFC 791, 768, 3550).
    pub header_bytes: u32,
    /// A report of the receiver on the wire. Default 60: headers and what section 3.2.2 lists.
    pub report_bytes: u32,
    /// The most that the medium sends. Default `None`: it takes whatever it gets.
    pub max_rate: Option<BitRate>,
    /// Whether packets say that they may carry congestion marks, which count as losses (section 5.1). Default no.
    pub ecn: bool,
}

impl Default for TfrcConfig {
    fn default() -> Self {
        Self { packet_bytes: 1000, header_bytes: 40, report_bytes: 60, max_rate: None, ecn: false }
    }
}

/// What a packet of data says beside its medium (section 3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Rises by one with each packet.
    pub sequence: u64,
    /// When it was sent, on the sender's clock.
    pub timestamp: Time,
    /// The sender's round-trip time; zero before it knows one.
    pub rtt: Span,
}

/// What the receiver reports (section 3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// `t_recvdata`: the time stamp of the last packet of data that came.
    pub timestamp: Time,
    /// `t_delay`: how long ago that was.
    pub delay: Span,
    /// `X_recv`, bytes per second.
    pub received: u32,
    /// `1 / p`, rounded to packets; [`Report::NO_LOSS`] for a `p` of zero. So it travels in DCCP (RFC 4342, section 8.5).
    pub loss_interval: u32,
}

impl Report {
    /// No loss yet.
    pub const NO_LOSS: u32 = u32::MAX;

    /// `p`.
    pub fn loss_event_rate(&self) -> f64 {
        if self.loss_interval == Self::NO_LOSS { 0.0 } else { 1.0 / f64::from(self.loss_interval.max(1)) }
    }
}
