//! The parameters of a TCP connection, and the two profiles that set them all.
//!
//! Source: `ns-1999` follows ns-2 as of 1997 to 1999 (catalogue, algorithms section 1 and experiments section 0);
//! `modern` follows RFC 5681, 6298, 6582, 6675, 3042, 3168 and 6928.
//! Deviations: what ns draws at random when a connection is made, the phase of the host's clock, is left to the world
//! ([`RtoConfig::clock_phase`]). Neither profile opens with a handshake unless [`TcpConfig::handshake`] asks for it, because
//! the documents' simulations had none. The lower bound of the time-out of `modern` is Linux's (200 ms above the smoothed
//! round-trip time), not the 1 s of RFC 6298, section 2.4; set [`RtoConfig::min`] for that.

use tidegate_parameters::words;
use tidegate_units::{Bytes, Span};

use super::congestion::CongestionControlConfig;
use super::ecn::EcnUse;
use super::pacing::Pacing;
use super::window::Window;

words! {
    /// How TCP repairs and reduces.
    pub enum Variant {
        /// Fast retransmit, then slow start.
        Tahoe = "tahoe",
        /// Fast recovery, ended by the first new acknowledgment.
        Reno = "reno",
        /// Fast recovery until all that was outstanding is acknowledged (RFC 6582).
        NewReno = "newreno",
        /// Selective acknowledgments (RFC 2018, RFC 6675).
        Sack = "sack",
    }
}

words! {
    /// Whose TCP: a bundle of defaults.
    pub enum Rules {
        /// As in ns of 1997 to 1999: 0.1 s clock, initial window of one packet, whole packets counted.
        Ns1999 = "ns-1999",
        /// As hosts do it today: RFC 5681, 6298, 6582, 6675, 3042, 3168, 6928.
        Modern = "modern",
    }
}

impl Rules {
    /// The variant of those who do not ask for one.
    pub const fn variant(self) -> Variant {
        match self {
            Self::Ns1999 => Variant::Reno,
            Self::Modern => Variant::Sack,
        }
    }

    /// Delayed acknowledgments where they are on: every second segment (ns's `DelAck` sink; RFC 5681, section 4.2), or 100 ms
    /// (ns), 40 ms (Linux).
    pub const fn delayed_ack(self) -> DelayedAck {
        let millis = match self {
            Self::Ns1999 => 100,
            Self::Modern => 40,
        };
        DelayedAck { segments: 2, timeout: Span::from_millis(millis) }
    }
}

/// Parameters of the retransmission time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// Before the first round-trip sample.
    pub initial: Span,
    /// Lower bound: of the time-out (`ns-1999`), of what it adds to the smoothed round-trip time (`modern`).
    pub min: Span,
    /// Upper bound, after backing off too.
    pub max: Span,
    /// Granularity of the clock: ns's tick, G of RFC 6298. Never zero.
    pub granularity: Span,
    /// How far the host's clock was into a tick at time zero (ns's `boot_time_`); below `granularity`. Only ns's arithmetic
    /// looks at it. `None`: the world draws it, uniformly, as ns does; clocks that all tick together would make flows that
    /// lost packets together wait equally long. A sender that is built with `None` takes zero.
    pub clock_phase: Option<Span>,
}

/// When a receiver may hold an acknowledgment back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck {
    /// The acknowledgment goes with this many segments at the latest; ns's sink always takes two.
    pub segments: u32,
    /// ... or after this time.
    pub timeout: Span,
}

/// Which third duplicates are ignored because they may come from old losses (ns's `bugFix_`; RFC 6582, section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastRetransmitGuard {
    /// None: every third duplicate starts a fast retransmit (`bugFix_ false`).
    Off,
    /// Those for data sent before the last time-out. So Reno may halve several times for one window of data, as in ns
    /// from 1998 to 2003, and a loss of the first or second packet need not wait for the timer.
    AfterTimeout,
    /// Those for data sent before the last reduction of any kind: ns-2.35, and the RFCs. RFC 6675 lets a new recovery
    /// begin as soon as the last one is complete; this is what SACK in `modern` does under every guard.
    PerWindow,
}

words! {
    /// How a receiver tells of marks.
    pub enum EcnFeedback {
        /// Acknowledgments echo a mark until the sender says that it has heard (RFC 3168).
        Classic = "classic",
        /// Each acknowledgment says whether what it acknowledges was marked (RFC 8257).
        Dctcp = "dctcp",
        /// Each acknowledgment counts what was marked (RFC 9768).
        Accurate = "accurate",
    }
}

/// Parameters of a connection: its sender and its receiver.
#[expect(clippy::struct_excessive_bools, reason = "switches of the RFCs, each independent of the others")]
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Whose rules decide where the RFCs and ns differ.
    pub rules: Rules,
    /// Loss recovery. SACK is RFC 6675 in `modern`, ns's Sack1 in `ns-1999`.
    pub variant: Variant,
    /// Who decides the window.
    pub control: CongestionControlConfig,
    /// Payload of a full segment, in bytes: 1000 (`ns-1999`), 1460 (`modern`).
    pub segment_bytes: u32,
    /// What a data segment adds on the wire: 0 (ns counts whole packets), 40.
    pub header_bytes: u32,
    /// An acknowledgment on the wire, without SACK blocks: 40, 40.
    pub ack_bytes: u32,
    /// What the SACK option adds to an acknowledgment besides its blocks of 8 bytes: 0 (ns), 4 (RFC 2018, padded).
    pub sack_option_bytes: u32,
    /// Initial window in segments: 1, [`initial_window_of_rfc_6928`] (10 for segments of up to 1460 bytes).
    pub initial_window_segments: u32,
    /// The window never falls below this many segments: 1, 1. The thesis (section 3.3.1) also studies 2.
    pub minimum_window_segments: u32,
    /// Initial slow start threshold in bytes; `None`: the receive window, as in ns, or no threshold at all in `modern`
    /// ("arbitrarily high": RFC 5681, section 3.1).
    pub initial_ssthresh_bytes: Option<u64>,
    /// Receive window in bytes: 20 packets (ns's `window_`), 4 MiB. Also bounds what a receiver keeps out of order.
    pub receive_window_bytes: u32,
    /// Retransmission time-out.
    pub rto: RtoConfig,
    /// Delayed acknowledgments; `None`: every segment is acknowledged. Off in `ns-1999` (100 ms where a document turns
    /// them on: [`TcpConfig::with_ns_delayed_ack`]), every second segment or 40 ms in `modern` (Linux).
    pub delayed_ack: Option<DelayedAck>,
    /// How much the application writes at once; the segment with its end is acknowledged at once: 0, which is not known, in both. Linux has PSH
    /// there, which its receivers answer since 6.6 (`tcp_measure_rcv_mss`); both ends know it from here. Not in `ns-1999`.
    pub push_bytes: u32,
    /// Whether both ends speak ECN: no, no.
    pub ecn: bool,
    /// Whether data is sent as ECT(1) (RFC 9331, section 4.1): no, no. With `ecn`.
    pub l4s: bool,
    /// Whether what is sent again is ECN-capable as well: yes (ns), no (RFC 3168, section 6.1.5), but yes with `l4s`, for else it would
    /// wait in the other queue (RFC 9331, section 4.1). With `ecn`.
    pub ecn_retransmissions: bool,
    /// How the receiver tells of marks, with `ecn`: [`Classic`](EcnFeedback::Classic) in both profiles. DCTCP wants one of the
    /// others; what its sender would make of a classic echo is that everything was marked. Classic feedback tells one bit for each
    /// round trip (RFC 3168, section 6.1.3), DCTCP's one for each acknowledgment, and what waits is acknowledged at once where
    /// marks begin or end (RFC 8257, section 3.2). Accurate feedback counts packets (ACE) and bytes (ECEB), so that nothing is lost
    /// with an acknowledgment (RFC 9768, sections 3.2.2 and 3.2.3); the option costs 8 bytes on the wire.
    pub ecn_feedback: EcnFeedback,
    /// Whether an ECN echo that finds a window of one segment stops the sender for a time-out, doubled each time until
    /// an acknowledgment without echo (thesis of Feng, section 4.3.4; RFC 3168, section 6.1.2): no, as in Feng's other
    /// experiments; no, as in Linux. A control with windows below one segment does without it.
    pub ecn_timeout: bool,
    /// Whether an ECN echo spreads the reduction over a round trip, in proportion to what arrives (RFC 6937, RFC 9937), so that the
    /// sender does not fall silent until half a window has arrived: no, no. Linux does. `ns-1999` ignores it.
    pub gradual_reduction: bool,
    /// Whether recovery from losses sends in proportion to what arrives (RFC 6937, RFC 9937) and not as the window alone allows: no, no.
    /// Linux does. Only with `sack` in `modern`.
    pub prr: bool,
    /// Whether losses are told by time and a silent tail is probed (RACK-TLP, RFC 8985), and not by what is held behind a hole alone
    /// (RFC 6675): no, no. Linux does. Only with `sack` in `modern`.
    pub rack: bool,
    /// Whether a recovery ends with the window that the loss left and not with what is under way and one segment (RFC 6582,
    /// section 3.2, step 3, the second choice and the first): no, no. Linux does. Not in `ns-1999`.
    pub keep_window: bool,
    /// Whether congestion leaves a part of the window (RFC 9438, section 4.6, allows it), and not of what is under way (RFC 5681, section
    /// 3.1): no, no. Linux does. Not in `ns-1999`, which halves its window.
    pub reduce_window: bool,
    /// Whether what is lost again while losses are repaired, be it a retransmission or all that is under way, reduces nothing more: no, no.
    /// Linux does; RFC 5681, section 4.3, and RFC 8985, section 3.4, ask for a second reduction. Only with `rack`.
    pub reduce_once: bool,
    /// Who spreads segments over the round trip: the control, if it has a rate, in both profiles.
    pub pacing: Pacing,
    /// Duplicates that signal a loss: 3, 3.
    pub dupack_threshold: u32,
    /// Whether the first duplicates release new data (RFC 3042): no, yes. ns's Sack1 never does it.
    pub limited_transmit: bool,
    /// When duplicates may start no fast retransmit: [`PerWindow`](FastRetransmitGuard::PerWindow) in both profiles.
    pub fast_retransmit_guard: FastRetransmitGuard,
    /// Whether the connection opens with SYN and SYN+ACK: no, no.
    pub handshake: bool,
}

/// `min(10 MSS, max(2 MSS, 14600))` bytes (RFC 6928, section 2), in whole segments of `segment_bytes` (MSS, above zero):
/// from 10 down to 2.
pub const fn initial_window_of_rfc_6928(segment_bytes: u32) -> u32 {
    match 14_600 / segment_bytes {
        0..=2 => 2,
        segments @ 3..=9 => segments,
        _ => 10,
    }
}

impl TcpConfig {
    /// ns-2 of 1997 to 1999: one-way TCP that counts packets of 1000 bytes.
    pub const fn ns_1999(variant: Variant) -> Self {
        Self {
            rules: Rules::Ns1999,
            variant,
            control: CongestionControlConfig::RENO,
            segment_bytes: 1000,
            header_bytes: 0,
            ack_bytes: 40,
            sack_option_bytes: 0,
            initial_window_segments: 1,
            minimum_window_segments: 1,
            initial_ssthresh_bytes: None,
            receive_window_bytes: 20_000,
            rto: RtoConfig {
                initial: Span::from_secs(6),
                min: Span::from_millis(200),
                max: Span::from_secs(64),
                granularity: Span::from_millis(100),
                clock_phase: None,
            },
            delayed_ack: None,
            push_bytes: 0,
            ecn: false,
            l4s: false,
            ecn_retransmissions: true,
            ecn_feedback: EcnFeedback::Classic,
            ecn_timeout: false,
            gradual_reduction: false,
            prr: false,
            rack: false,
            keep_window: false,
            reduce_window: false,
            reduce_once: false,
            pacing: Pacing::Control,
            dupack_threshold: 3,
            limited_transmit: false,
            fast_retransmit_guard: FastRetransmitGuard::PerWindow,
            handshake: false,
        }
    }

    /// What the RFCs in force say, with the choices that Linux makes where they leave one.
    pub const fn modern(variant: Variant) -> Self {
        Self {
            rules: Rules::Modern,
            variant,
            control: CongestionControlConfig::RENO,
            segment_bytes: 1460,
            header_bytes: 40,
            ack_bytes: 40,
            sack_option_bytes: 4,
            initial_window_segments: initial_window_of_rfc_6928(1460),
            minimum_window_segments: 1,
            initial_ssthresh_bytes: None,
            receive_window_bytes: 4 << 20,
            rto: RtoConfig {
                initial: Span::from_secs(1),
                min: Span::from_millis(200),
                max: Span::from_secs(60),
                granularity: Span::from_millis(1),
                clock_phase: None,
            },
            delayed_ack: Some(Rules::Modern.delayed_ack()),
            push_bytes: 0,
            ecn: false,
            l4s: false,
            ecn_retransmissions: false,
            ecn_feedback: EcnFeedback::Classic,
            ecn_timeout: false,
            gradual_reduction: false,
            prr: false,
            rack: false,
            keep_window: false,
            reduce_window: false,
            reduce_once: false,
            pacing: Pacing::Control,
            dupack_threshold: 3,
            limited_transmit: true,
            fast_retransmit_guard: FastRetransmitGuard::PerWindow,
            handshake: false,
        }
    }

    /// The same with packets of `packet_bytes` on the wire; the receive window keeps its number of packets, and under the
    /// rules of RFCs the initial window is that for this size.
    pub fn with_packet_bytes(self, packet_bytes: u32) -> Self {
        let packets = self.receive_window_bytes / self.segment_bytes;
        let segment_bytes = packet_bytes - self.header_bytes;
        self.with_segment_bytes(segment_bytes).with_window_packets(packets)
    }

    /// The same with `segment_bytes` of payload in a full packet, and under the rules of RFCs the initial window for this size.
    pub(crate) fn with_segment_bytes(mut self, segment_bytes: u32) -> Self {
        self.segment_bytes = segment_bytes;
        if matches!(self.rules, Rules::Modern) {
            self.initial_window_segments = initial_window_of_rfc_6928(segment_bytes);
        }
        self
    }

    /// The same with a receive window of `packets` full segments (ns's `window_`).
    pub fn with_window_packets(mut self, packets: u32) -> Self {
        self.receive_window_bytes = packets.saturating_mul(self.segment_bytes);
        self
    }

    /// The same with the delayed acknowledgments of ns's `DelAck` sink: every second packet, or 100 ms.
    pub fn with_ns_delayed_ack(mut self) -> Self {
        self.delayed_ack = Some(Rules::Ns1999.delayed_ack());
        self
    }

    /// The profile of `rules`.
    pub const fn of(rules: Rules, variant: Variant) -> Self {
        match rules {
            Rules::Ns1999 => Self::ns_1999(variant),
            Rules::Modern => Self::modern(variant),
        }
    }

    /// Payload of a full packet.
    pub fn segment(&self) -> Bytes {
        Bytes::new(u64::from(self.segment_bytes))
    }

    /// A full data packet on the wire, headers included.
    pub fn packet(&self) -> Bytes {
        Bytes::new(u64::from(self.segment_bytes) + u64::from(self.header_bytes))
    }

    /// The receive window as the rules count it: ns in packets, today's hosts in bytes.
    pub(crate) fn window(&self) -> Window {
        match self.rules {
            Rules::Ns1999 => Window::Packets(self.receive_window_bytes / self.segment_bytes),
            Rules::Modern => Window::Bytes(Bytes::new(u64::from(self.receive_window_bytes))),
        }
    }

    /// Separate ranges that may be out of order at once: every second segment of a receive window, and one.
    pub(crate) const fn ranges_max(&self) -> u32 {
        self.receive_window_bytes / self.segment_bytes / 2 + 1
    }

    /// What its packets say of marks.
    pub const fn ecn_use(&self) -> EcnUse {
        match (self.ecn, self.l4s) {
            (false, _) => EcnUse::None,
            (true, false) => EcnUse::Classic,
            (true, true) => EcnUse::L4s,
        }
    }

    /// Whether marks are counted in every acknowledgment.
    pub(crate) fn is_accurate(&self) -> bool {
        self.ecn && self.ecn_feedback == EcnFeedback::Accurate
    }

    /// Checks what the state machines rely on.
    pub(crate) fn assert_valid(&self) {
        assert!(self.segment_bytes > 0, "a segment carries something");
        assert!(
            self.initial_window_segments > 0 && self.minimum_window_segments > 0,
            "a window lets something go"
        );
        assert!(self.dupack_threshold > 0, "loss needs at least one duplicate");
        assert!(!self.rto.granularity.is_zero(), "the clock ticks");
        assert!(self.rto.min <= self.rto.max, "the bounds of the time-out are in order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_is_ten_segments_or_14600_bytes_and_never_below_two_segments() {
        let segments_of =
            [(1, 10), (536, 10), (1460, 10), (1461, 9), (4_000, 3), (7_300, 2), (8_960, 2), (65_495, 2)];
        for (segment_bytes, segments) in segments_of {
            assert_eq!(initial_window_of_rfc_6928(segment_bytes), segments, "{segment_bytes}");
        }
        let jumbo = TcpConfig::modern(Variant::Sack).with_packet_bytes(9_000);
        assert_eq!((jumbo.segment_bytes, jumbo.initial_window_segments), (8_960, 2));
        assert_eq!(TcpConfig::ns_1999(Variant::Reno).with_packet_bytes(9_000).initial_window_segments, 1);
    }
}
