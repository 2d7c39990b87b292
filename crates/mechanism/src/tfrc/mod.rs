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

use alloc::format;

use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Span, Time};

parameters! {
    /// # TCP-friendly rate control
    ///
    /// A media stream over UDP (RTP) that sends at the rate that TCP would have, without TCP's halvings: the receiver measures
    /// how often packets are lost and reports once per round-trip time.
    ///
    /// Source: RFC 5348; asked for by the thesis of Feng, chapter 7.
    #[derive(Copy)]
    pub struct TfrcConfig {
        /// A packet on the wire, headers included. Source: RFC 5348 counts payload (s); the documents' TCP (1 kB).
        packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The part of each packet that is headers. Source: IPv4, UDP and RTP without options.
        header: Bytes = Bytes::new(40);
        /// A report of the receiver on the wire. Source: RFC 5348, section 3.2.2, behind headers.
        report: Bytes = Bytes::new(60) => bound::PACKET;
        /// The most that the medium sends, on the wire. Default: whatever it is allowed. Source: RFC 5348, section 8.2.1.
        max_rate: Option<BitRate> = None => bound::RATE;
        /// Whether its packets may carry congestion marks, which count as losses. Source: RFC 5348, section 5.1 (off).
        ecn: bool = false;
    }
    check |config, report| {
        if config.header >= config.packet {
            let message =
                format!("a packet of {} has no room for a header of {}", config.packet, config.header);
            report.say("header", message, "");
        }
    };
}

impl TfrcConfig {
    /// Bytes of a packet on the wire.
    pub fn packet_bytes(&self) -> u32 {
        bytes32(self.packet)
    }

    /// Bytes of the headers in it.
    pub fn header_bytes(&self) -> u32 {
        bytes32(self.header)
    }

    /// Bytes of a report on the wire.
    pub fn report_bytes(&self) -> u32 {
        bytes32(self.report)
    }
}

/// Sizes that were checked to fit.
fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
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
