//! Transports: how a flow reacts to congestion.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_mechanism::tcp::initial_window_of_rfc_6928;
use tidegate_units::{BitRate, Bytes, Limit, Span};

use super::{Control, kinds};
use crate::text::{self, Text};

/// How a flow's packets are paced and repaired.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Transport {
    /// TCP, one state machine at each end.
    Tcp(Tcp),
    /// UDP: what the application gives is sent at once.
    Udp(Udp),
    /// A media stream over UDP with TCP-friendly rate control.
    Tfrc(Tfrc),
}

kinds! {
    /// A transport as configurations write it.
    TransportText {
        Tcp(Box<TcpText>) = "tcp",
        Udp(Udp) = "udp",
        Tfrc(Tfrc) = "tfrc",
    }
}

/// Whose TCP: a bundle of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpProfile {
    /// As in ns of 1997 to 1999: 0.1 s clock, initial window of one packet, whole packets counted.
    #[serde(rename = "ns-1999")]
    Ns1999,
    /// As hosts do it today: RFC 5681, 6298, 6582, 6675, 3042, 3168, 6928.
    Modern,
}

/// How TCP repairs and reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpVariant {
    /// Fast retransmit, then slow start.
    Tahoe,
    /// Fast recovery, ended by the first new acknowledgment.
    Reno,
    /// Fast recovery until all that was outstanding is acknowledged (RFC 6582).
    #[serde(rename = "newreno")]
    NewReno,
    /// Selective acknowledgments (RFC 2018, RFC 6675).
    Sack,
}

/// How a receiver tells of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnFeedback {
    /// Acknowledgments echo a mark until the sender says that it has heard (RFC 3168).
    Classic,
    /// Each acknowledgment says whether what it acknowledges was marked (RFC 8257).
    Dctcp,
    /// Each acknowledgment counts what was marked (RFC 9768).
    Accurate,
}

/// A window of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// In full packets.
    Packets(u32),
    /// In bytes of payload.
    Bytes(Bytes),
}

/// TCP, complete: what [`TcpText`] leaves out comes from its profile.
#[expect(clippy::struct_excessive_bools, reason = "switches of the RFCs, each independent of the others")]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tcp {
    /// Where the defaults came from.
    pub profile: TcpProfile,
    /// How it repairs and reduces.
    pub variant: TcpVariant,
    /// The largest window.
    pub window: Window,
    /// A full data packet on the wire, headers included.
    #[serde(with = "text")]
    pub packet: Bytes,
    /// The part of each packet that is headers.
    #[serde(with = "text")]
    pub header: Bytes,
    /// A pure acknowledgment on the wire.
    #[serde(with = "text")]
    pub ack: Bytes,
    /// How long an acknowledgment may wait for a second packet; none: every packet is acknowledged at once.
    #[serde(with = "text::optional")]
    pub delayed_ack: Option<Span>,
    /// Who decides the window.
    pub control: Control,
    /// Whether marks are understood.
    pub ecn: bool,
    /// How the receiver tells of them.
    pub ecn_feedback: EcnFeedback,
    /// Whether a mark at a window of one segment stops the sender for a time-out.
    pub ecn_timeout: bool,
    /// Whether a mark reduces the window over a round trip.
    pub gradual_reduction: bool,
    /// Whether a connection opens with SYN packets.
    pub handshake: bool,
    /// The first window, in packets.
    pub initial_window: u32,
    /// The window never falls below this, in packets.
    pub minimum_window: u32,
    /// The first slow start threshold; none: the largest window (ns-1999), or no threshold (modern).
    pub initial_ssthresh: Option<Window>,
    /// Duplicate acknowledgments that signal a loss.
    pub dupack_threshold: u32,
    /// Whether the first duplicates release new data (RFC 3042).
    pub limited_transmit: bool,
    /// The retransmission time-out before the first measurement.
    #[serde(with = "text")]
    pub initial_rto: Span,
    /// The least retransmission time-out.
    #[serde(with = "text")]
    pub min_rto: Span,
    /// The largest retransmission time-out.
    #[serde(with = "text")]
    pub max_rto: Span,
    /// The tick in which round-trip times and time-outs are counted.
    #[serde(with = "text")]
    pub timer_granularity: Span,
}

impl Tcp {
    /// The payload of a full packet.
    pub fn segment(&self) -> Bytes {
        Bytes::new(self.packet.get().saturating_sub(self.header.get()))
    }
    /// The largest window in bytes of payload.
    pub fn window_bytes(&self) -> Bytes {
        self.window.bytes(self.segment())
    }
}

impl Window {
    /// The window in bytes, for packets with `segment` bytes of payload.
    pub fn bytes(self, segment: Bytes) -> Bytes {
        match self {
            Self::Packets(packets) => Bytes::new(u64::from(packets).saturating_mul(segment.get())),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// # Transmission Control Protocol
///
/// What is not given comes from the profile.
///
/// Source: ns of 1997 to 1999 (profile ns-1999); RFC 5681, 6298, 6582, 6675, 3042, 6928 (profile modern).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpText {
    /// The bundle of defaults. Default: modern.
    pub profile: Option<TcpProfile>,
    /// How TCP repairs and reduces. Default: reno (ns-1999), sack (modern).
    pub variant: Option<TcpVariant>,
    /// Who decides the window. Default: reno. Source: RFC 5681.
    pub control: Option<Control>,
    /// The largest window, in bytes of payload (`100kB`) or packets (`20p`). Default: 20p (ns-1999), 4MiB (modern).
    /// Source: ns (`window_` 20); Linux.
    pub window: Option<Window>,
    /// A full data packet on the wire, headers included. Default: 1000B (ns-1999), 1500B (modern). Not together with
    /// `segment`. Source: ns (`packetSize_` 1000); Ethernet.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub packet: Option<Bytes>,
    /// The payload of a full packet, when that is what a document gives. Default: `packet` less `header`.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub segment: Option<Bytes>,
    /// The part of each packet that is headers. Default: 0B (ns-1999, which counts whole packets), 40B (modern). Source: ns;
    /// IPv4 and TCP without options.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub header: Option<Bytes>,
    /// A pure acknowledgment on the wire. Default: 40B. Source: ns.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub ack: Option<Bytes>,
    /// Whether the receiver waits for a second packet before it acknowledges. Default: false (ns-1999), true (modern).
    pub delayed_ack: Option<bool>,
    /// How long an acknowledgment waits at most. Default: 100ms (ns-1999), 40ms (modern). Source: ns (`interval_`).
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub delayed_ack_timeout: Option<Span>,
    /// Whether marks are understood. Default: false; true with the control `dctcp`. Source: RFC 3168.
    pub ecn: Option<bool>,
    /// How the receiver tells of marks. Default: classic; dctcp with that control. Source: RFC 3168, RFC 8257, RFC 9768.
    pub ecn_feedback: Option<EcnFeedback>,
    /// Whether a mark echoed at a window of one segment stops the sender for a time-out, doubled each time. Default: false.
    /// Source: thesis of Feng, section 4.3.4 (off in its other experiments); RFC 3168, section 6.1.2; Linux has it not.
    pub ecn_timeout: Option<bool>,
    /// Whether a mark reduces the window over a round trip, in proportion to what arrives, and not at once. Not with ns-1999. Default:
    /// false. Source: RFC 6937, RFC 9937; Linux does it.
    pub gradual_reduction: Option<bool>,
    /// Whether a connection opens with SYN packets. Default: false. Source: the simulations of all five documents.
    pub handshake: Option<bool>,
    /// The first window in packets. Default: 1p (ns-1999); 10p, or as many as 14600 B of payload hold, at least 2p (modern).
    /// Source: ns; RFC 6928.
    pub initial_window: Option<Window>,
    /// The window never falls below this. Default: 1p. Source: RFC 5681; thesis of Feng, section 3.3.1, also studies 2p.
    pub minimum_window: Option<Window>,
    /// The first slow start threshold. Default: the largest window (ns-1999), none (modern). Source: ns; RFC 5681.
    pub initial_ssthresh: Option<Window>,
    /// Duplicate acknowledgments that signal a loss. Default: 3. Source: RFC 5681.
    pub dupack_threshold: Option<u32>,
    /// Whether the first duplicates release new data. Default: false (ns-1999), true (modern). Source: RFC 3042.
    pub limited_transmit: Option<bool>,
    /// The retransmission time-out before the first measurement. Default: 6s (ns-1999), 1s (modern). Source: ns before
    /// 2006; RFC 6298.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub initial_rto: Option<Span>,
    /// The least retransmission time-out (ns-1999), or the least that it adds to the smoothed round-trip time (modern).
    /// Default: 200ms. Source: two ticks of ns; Linux.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub min_rto: Option<Span>,
    /// The largest retransmission time-out. Default: 64s (ns-1999), 60s (modern). Source: ns; RFC 6298.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub max_rto: Option<Span>,
    /// The tick in which round-trip times and time-outs are counted. Default: 100ms (ns-1999), 1ms (modern).
    /// Source: ns before March 2002 (`tcpTick_`); Linux.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub timer_granularity: Option<Span>,
}

impl TcpText {
    /// Complete: what is not given comes from the profile.
    pub fn resolved(&self) -> Tcp {
        let profile = self.profile.unwrap_or(TcpProfile::Modern);
        let old = profile == TcpProfile::Ns1999;
        let is_dctcp = matches!(self.control, Some(Control::Dctcp(_)));
        let header = self.header.unwrap_or(Bytes::new(if old { 0 } else { 40 }));
        let packet = match (self.packet, self.segment) {
            (Some(packet), _) => packet,
            (None, Some(segment)) => Bytes::new(segment.get().saturating_add(header.get())),
            (None, None) => Bytes::new(if old { 1000 } else { 1500 }),
        };
        let segment = Bytes::new(packet.get().saturating_sub(header.get()).max(1));
        let packets = |window: Window| match window {
            Window::Packets(packets) => packets,
            Window::Bytes(bytes) => u32::try_from(bytes.get().div_ceil(segment.get())).unwrap_or(u32::MAX),
        };
        let first_window = || {
            let segment_bytes = u32::try_from(segment.get()).unwrap_or(u32::MAX);
            if old { 1 } else { initial_window_of_rfc_6928(segment_bytes) }
        };
        let millis = |given: Option<Span>, of_old: u64, of_new: u64| {
            given.unwrap_or(Span::from_millis(if old { of_old } else { of_new }))
        };
        Tcp {
            profile,
            variant: self.variant.unwrap_or(if old { TcpVariant::Reno } else { TcpVariant::Sack }),
            window: self.window.unwrap_or(if old {
                Window::Packets(20)
            } else {
                Window::Bytes(Bytes::new(4 << 20))
            }),
            packet,
            header,
            ack: self.ack.unwrap_or(Bytes::new(40)),
            delayed_ack: self.delayed_ack.unwrap_or(!old).then(|| millis(self.delayed_ack_timeout, 100, 40)),
            control: self.control.clone().unwrap_or_default(),
            ecn: self.ecn.unwrap_or(is_dctcp),
            ecn_feedback: self.ecn_feedback.unwrap_or(if is_dctcp {
                EcnFeedback::Dctcp
            } else {
                EcnFeedback::Classic
            }),
            ecn_timeout: self.ecn_timeout.unwrap_or(false),
            gradual_reduction: self.gradual_reduction.unwrap_or(false),
            handshake: self.handshake.unwrap_or(false),
            initial_window: self.initial_window.map_or_else(first_window, packets),
            minimum_window: self.minimum_window.map_or(1, packets),
            initial_ssthresh: self.initial_ssthresh,
            dupack_threshold: self.dupack_threshold.unwrap_or(3),
            limited_transmit: self.limited_transmit.unwrap_or(!old),
            initial_rto: millis(self.initial_rto, 6_000, 1_000),
            min_rto: millis(self.min_rto, 200, 200),
            max_rto: millis(self.max_rto, 64_000, 60_000),
            timer_granularity: millis(self.timer_granularity, 100, 1),
        }
    }
}

/// # User Datagram Protocol
///
/// Sends what the application gives, when it gives it, and never hears of congestion.
///
/// Source: RFC 768.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Udp {
    /// A packet on the wire, headers included, for applications that do not say. Source: NBP, Table 1.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub packet: Bytes,
    /// The part of each packet that is headers. Source: IPv4 and UDP without options.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub header: Bytes,
    /// Whether its packets claim to understand marks (RFC 3168), which it does not heed. Source: RFC 768 (off).
    pub ecn: bool,
}

impl Default for Udp {
    fn default() -> Self {
        Self { packet: Bytes::new(1000), header: Bytes::new(28), ecn: false }
    }
}

/// # TCP-friendly rate control
///
/// A media stream over UDP (RTP) that sends at the rate that TCP would have, without TCP's halvings: the receiver measures how often
/// packets are lost and reports once per round-trip time.
///
/// Source: RFC 5348; asked for by the thesis of Feng, chapter 7.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tfrc {
    /// A packet on the wire, headers included. Source: RFC 5348 counts payload (s); the documents' TCP (1 kB).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub packet: Bytes,
    /// The part of each packet that is headers. Source: IPv4, UDP and RTP without options.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub header: Bytes,
    /// A report of the receiver on the wire. Source: RFC 5348, section 3.2.2, behind headers.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub report: Bytes,
    /// The most that the medium sends, on the wire. Default: whatever it is allowed. Source: RFC 5348, section 8.2.1.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub max_rate: Option<BitRate>,
    /// Whether its packets may carry congestion marks, which count as losses. Source: RFC 5348, section 5.1 (off).
    pub ecn: bool,
}

impl Default for Tfrc {
    fn default() -> Self {
        let bytes = Bytes::new;
        Self { packet: bytes(1000), header: bytes(40), report: bytes(60), max_rate: None, ecn: false }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl std::str::FromStr for Window {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Limit>() {
            Ok(Limit::Packets(packets)) => Ok(Self::Packets(packets)),
            Ok(Limit::Bytes(bytes)) => Ok(Self::Bytes(bytes)),
            _ => Err(format!("`{text}` is no window: write packets (`20p`) or a size (`100kB`)")),
        }
    }
}

impl text::Quantity for Window {
    const WHAT: &'static str = "a window in packets or bytes";
    const NAME: &'static str = "Window";
    const EXAMPLE: &'static str = "20p";
    const PATTERN: &'static str = r"^\+?[0-9_]*\.?[0-9_]+ *(p|packet|packets|B|kB|MB|GB|KiB|MiB|GiB)$";
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        text::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::deserialize(deserializer)
    }
}

impl JsonSchema for Window {
    fn schema_name() -> Cow<'static, str> {
        Text::<Self>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Text::<Self>::json_schema(generator)
    }
}
