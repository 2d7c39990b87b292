//! What a configuration says of a TCP connection.
//!
//! Source: as [`TcpConfig`], which has every default; the sentences `Default: ...` below are checked against it. Deviations: none.

use alloc::format;

use tidegate_parameters::{Bound, Check as _, Report, bound, parameters};
use tidegate_units::{Bytes, Span};

use super::config::{DelayedAck, EcnFeedback, RtoConfig, Rules, TcpConfig, Variant};
use super::congestion::CongestionControlConfig;
use super::ecn::EcnUse;
use super::pacing::Pacing;
use super::window::Window;
use crate::queue::bytes32;

const PUSH: Bound<Bytes> = Bound::between(Bytes::new(1), bound::BUCKET_BYTES_MAX)
    .saying("no application writes ", " at once")
    .helping("from 1B to 500MB");

parameters! {
    /// # Transmission Control Protocol
    ///
    /// What is not given comes from the profile.
    ///
    /// Source: ns of 1997 to 1999 (profile ns-1999); RFC 5681, 6298, 6582, 6675, 3042, 6928 (profile modern).
    pub struct TcpKeys {
        /// The bundle of defaults. Default: modern.
        profile: Option<Rules> = None;
        /// How TCP repairs and reduces. Default: reno (ns-1999), sack (modern).
        variant: Option<Variant> = None;
        /// Who decides the window. Default: reno. Source: RFC 5681.
        control: Option<CongestionControlConfig> = None => bound::INSIDE;
        /// The largest window, in bytes of payload (`100kB`) or packets (`20p`). Default: 20p (ns-1999), 4MiB (modern).
        /// Source: ns (`window_` 20); Linux.
        window: Option<Window> = None;
        /// A full data packet on the wire, headers included. Default: 1000B (ns-1999), 1500B (modern). Not together with
        /// `segment`. Source: ns (`packetSize_` 1000); Ethernet.
        packet: Option<Bytes> = None => bound::PACKET;
        /// The payload of a full packet, when that is what a document gives. Default: `packet` less `header`.
        segment: Option<Bytes> = None;
        /// The part of each packet that is headers. Default: 0B (ns-1999, which counts whole packets), 40B (modern). Source: ns;
        /// IPv4 and TCP without options.
        header: Option<Bytes> = None;
        /// A pure acknowledgment on the wire. Default: 40B. Source: ns.
        ack: Option<Bytes> = None => bound::PACKET;
        /// Whether the receiver waits for a second packet before it acknowledges. Default: false (ns-1999), true (modern).
        delayed_ack: Option<bool> = None;
        /// How long an acknowledgment waits at most. Default: 100ms (ns-1999), 40ms (modern). Source: ns (`interval_`).
        delayed_ack_timeout: Option<Span> = None;
        /// How much the application writes at once: the segment with the end of that is acknowledged at once, as PSH asks for it. Not with
        /// ns-1999. Default: none. Source: Linux since 6.6 (`tcp_measure_rcv_mss`).
        push: Option<Bytes> = None => PUSH;
        /// Whether marks are understood, and which: `true` is `classic`. Default: false; true with the control `dctcp`, l4s with
        /// `prague`. Source: RFC 3168, RFC 9331.
        ecn: Option<EcnUse> = None;
        /// How the receiver tells of marks. Default: classic; dctcp with that control, accurate with `prague` or `ecn = "l4s"`. Source: RFC
        /// 3168, RFC 8257, RFC 9768.
        ecn_feedback: Option<EcnFeedback> = None;
        /// Whether what is sent again can be marked, too, and is not dropped where a queue drops what it cannot mark. Default: true
        /// (ns-1999), false (modern). It is true with `ecn = "l4s"`. Source: ns; RFC 3168, section 6.1.5; RFC 9331, section 4.1. Linux does it
        /// with DCTCP.
        ecn_retransmissions: Option<bool> = None;
        /// Whether a mark echoed at a window of one segment stops the sender for a time-out, doubled each time. Default: false.
        /// Source: thesis of Feng, section 4.3.4 (off in its other experiments); RFC 3168, section 6.1.2; Linux has it not.
        ecn_timeout: Option<bool> = None;
        /// Whether a mark reduces the window over a round trip, in proportion to what arrives, and not at once. Not with ns-1999. Default:
        /// false. Source: RFC 6937, RFC 9937; Linux does it.
        gradual_reduction: Option<bool> = None;
        /// Whether recovery from losses sends in proportion to what arrives, not as the window alone allows. Only with `sack` in modern.
        /// Default: false. Source: RFC 6937, RFC 9937; Linux does it.
        prr: Option<bool> = None;
        /// Whether losses are told by time, what is sent again and lost again too, and a silent tail is probed (RACK-TLP). Only with `sack`
        /// in modern. Default: false. Source: RFC 8985; Linux does it.
        rack: Option<bool> = None;
        /// Whether a recovery ends with the window that the loss left, not with what is under way and one packet. Not with ns-1999.
        /// Default: false; true with `prr` (RFC 9937, section 6.4). Source: RFC 6582, section 3.2, step 3, its second choice, and Linux; its
        /// first is the other.
        keep_window: Option<bool> = None;
        /// Whether congestion leaves a part of the window, not of what is under way. Not with ns-1999. Default: false. Source:
        /// RFC 9438, section 4.6, allows it; Linux does it.
        reduce_window: Option<bool> = None;
        /// Whether a loss of what was sent again, or a time-out in a recovery, reduces the window no more. Only with `rack`. Default: false.
        /// Source: Linux does it; RFC 5681, section 4.3, and RFC 8985, section 3.4, ask for one more reduction.
        reduce_once: Option<bool> = None;
        /// Who spreads segments over the round trip: the control if it has a rate, the host by its timer at 1.2 windows per round trip (2
        /// below half of the threshold), or the queue of the host (`fq`), to which segments come with the instant at which they are to
        /// leave. Default: control. Source: Linux.
        pacing: Option<Pacing> = None;
        /// Whether a connection opens with SYN packets. Default: false. Source: the simulations of all five documents.
        handshake: Option<bool> = None;
        /// The first window in packets. Default: 1p (ns-1999); 10p, or as many as 14600 B of payload hold, at least 2p (modern).
        /// Source: ns; RFC 6928.
        initial_window: Option<Window> = None;
        /// The window never falls below this. Default: 1p. Source: RFC 5681; thesis of Feng, section 3.3.1, also studies 2p.
        minimum_window: Option<Window> = None;
        /// The first slow start threshold. Default: the largest window (ns-1999), none (modern). Source: ns; RFC 5681.
        initial_ssthresh: Option<Window> = None;
        /// Duplicate acknowledgments that signal a loss. Default: 3. Source: RFC 5681.
        dupack_threshold: Option<u32> = None => bound::COUNT;
        /// Whether the first duplicates release new data. Default: false (ns-1999), true (modern). Source: RFC 3042.
        limited_transmit: Option<bool> = None;
        /// The retransmission time-out before the first measurement. Default: 6s (ns-1999), 1s (modern). Source: ns before
        /// 2006; RFC 6298.
        initial_rto: Option<Span> = None => bound::DURATION;
        /// The least retransmission time-out (ns-1999), or the least that it adds to the smoothed round-trip time (modern).
        /// Default: 200ms. Source: two ticks of ns; Linux.
        min_rto: Option<Span> = None => bound::DURATION;
        /// The largest retransmission time-out. Default: 64s (ns-1999), 60s (modern). Source: ns; RFC 6298.
        max_rto: Option<Span> = None => bound::DURATION;
        /// The tick in which round-trip times and time-outs are counted. Default: 100ms (ns-1999), 1ms (modern).
        /// Source: ns before March 2002 (`tcpTick_`); Linux.
        timer_granularity: Option<Span> = None => bound::DURATION;
    }
    check |keys, report| {
        keys.check_sizes(report);
        keys.check_resolved(report);
    };
}

impl TcpKeys {
    /// The parameters of a connection: what is not given comes from the profile.
    pub fn config(&self) -> TcpConfig {
        self.resolved().config
    }

    /// The same, with the windows as they were written.
    pub fn resolved(&self) -> ResolvedTcp {
        let profile = self.profile();
        let (packet, header) = self.packet_and_header(&profile);
        let segment = payload(packet, header);
        let window = self.window.unwrap_or_else(|| profile.window());
        let base = profile.with_segment_bytes(bytes32(segment));
        let is_dctcp = matches!(self.control, Some(CongestionControlConfig::Dctcp(_)));
        let ecn = self.ecn.unwrap_or(match self.control {
            Some(CongestionControlConfig::Prague(_)) => EcnUse::L4s,
            _ => EcnUse::from(base.ecn || is_dctcp),
        });
        let delayed_ack = || {
            let usual = base.rules.delayed_ack();
            DelayedAck { timeout: self.delayed_ack_timeout.unwrap_or(usual.timeout), ..usual }
        };
        let packets = |given: Option<Window>, usual| given.map_or(usual, |least| least.packets(segment));
        let config = TcpConfig {
            control: self.control.clone().unwrap_or(base.control),
            header_bytes: bytes32(header),
            ack_bytes: self.ack.map_or(base.ack_bytes, bytes32),
            initial_window_segments: packets(self.initial_window, base.initial_window_segments),
            minimum_window_segments: packets(self.minimum_window, base.minimum_window_segments),
            initial_ssthresh_bytes: match self.initial_ssthresh {
                Some(threshold) => Some(threshold.bytes(segment).get()),
                None => base.initial_ssthresh_bytes,
            },
            receive_window_bytes: bytes32(window.bytes(segment)),
            rto: RtoConfig {
                initial: self.initial_rto.unwrap_or(base.rto.initial),
                min: self.min_rto.unwrap_or(base.rto.min),
                max: self.max_rto.unwrap_or(base.rto.max),
                granularity: self.timer_granularity.unwrap_or(base.rto.granularity),
                ..base.rto
            },
            delayed_ack: self.delayed_ack.unwrap_or(base.delayed_ack.is_some()).then(delayed_ack),
            push_bytes: self.push.map_or(base.push_bytes, bytes32),
            ecn: ecn.is_on(),
            l4s: ecn == EcnUse::L4s,
            ecn_feedback: match self.ecn_feedback {
                Some(feedback) => feedback,
                None if ecn == EcnUse::L4s => EcnFeedback::Accurate,
                None if is_dctcp => EcnFeedback::Dctcp,
                None => base.ecn_feedback,
            },
            ecn_retransmissions: self
                .ecn_retransmissions
                .unwrap_or(base.ecn_retransmissions || ecn == EcnUse::L4s),
            ecn_timeout: self.ecn_timeout.unwrap_or(base.ecn_timeout),
            gradual_reduction: self.gradual_reduction.unwrap_or(base.gradual_reduction),
            prr: self.prr.unwrap_or(base.prr),
            rack: self.rack.unwrap_or(base.rack),
            keep_window: self.keep_window.unwrap_or(base.keep_window || self.prr == Some(true)),
            reduce_window: self.reduce_window.unwrap_or(base.reduce_window),
            reduce_once: self.reduce_once.unwrap_or(base.reduce_once),
            pacing: self.pacing.unwrap_or(base.pacing),
            dupack_threshold: self.dupack_threshold.unwrap_or(base.dupack_threshold),
            limited_transmit: self.limited_transmit.unwrap_or(base.limited_transmit),
            handshake: self.handshake.unwrap_or(base.handshake),
            ..base
        };
        ResolvedTcp { config, window, initial_ssthresh: self.initial_ssthresh }
    }

    /// What everything that is not given comes from.
    fn profile(&self) -> TcpConfig {
        let rules = self.profile.unwrap_or(Rules::Modern);
        TcpConfig::of(rules, self.variant.unwrap_or(rules.variant()))
    }

    /// A full packet, and its headers.
    fn packet_and_header(&self, profile: &TcpConfig) -> (Bytes, Bytes) {
        let header = self.header.unwrap_or(Bytes::new(u64::from(profile.header_bytes)));
        let packet = match (self.packet, self.segment) {
            (Some(packet), _) => packet,
            (None, Some(segment)) => Bytes::new(segment.get().saturating_add(header.get())),
            (None, None) => profile.packet(),
        };
        (packet, header)
    }

    /// What sizes say together.
    fn check_sizes(&self, report: &mut Report<'_>) {
        if self.packet.is_some() && self.segment.is_some() {
            let message = "`packet` and `segment` say the same in two ways";
            report.say("segment", message, "give one of them");
        }
        let (packet, header) = self.packet_and_header(&self.profile());
        if self.packet.is_none() {
            bound::PACKET.check("packet", &packet, report);
        }
        if header >= packet {
            let message = format!("a packet of {packet} has no room for a header of {header}");
            report.say("header", message, "");
            return;
        }
        let segment = payload(packet, header);
        let window = self.resolved().window;
        let window_bytes = window.bytes(segment);
        if window_bytes < segment {
            let message = format!("a window of {window} is smaller than a packet's {segment}");
            report.say("window", message, "");
        } else if window_bytes.get() > u64::from(u32::MAX) {
            report.say("window", format!("a window of {window} is above 4GB"), "");
        }
    }

    /// What other keys say together.
    fn check_resolved(&self, report: &mut Report<'_>) {
        let config = self.config();
        for (key, packets) in [
            ("initial_window", config.initial_window_segments),
            ("minimum_window", config.minimum_window_segments),
        ] {
            if packets == 0 {
                report.say(key, "a window of no packet sends nothing", "at least 1p");
            }
        }
        report.idle("push", self.push.is_some() && config.delayed_ack.is_none(), "delayed_ack = true");
        report.idle("ecn_retransmissions", self.ecn_retransmissions.is_some() && !config.ecn, "ecn = true");
        if config.ecn_timeout && !config.ecn {
            report.say("ecn_timeout", "without `ecn` no mark is heard", "set ecn = true");
        }
        if config.ecn_timeout && matches!(config.control, CongestionControlConfig::SubTcp(_)) {
            let help = "its windows below one segment stand in for it";
            report.say("ecn_timeout", "SUBTCP does without ECN time-outs", help);
        }
        if config.ecn_feedback != EcnFeedback::Classic && !config.ecn {
            if self.ecn_feedback.is_some() {
                report.say("ecn_feedback", "without `ecn` there is no feedback on marks", "set ecn = true");
            } else {
                report.say(
                    "ecn",
                    "the control answers marks, and without `ecn` there are none",
                    "leave out `ecn`",
                );
            }
        }
        if (config.rules, config.variant) != (Rules::Modern, Variant::Sack) {
            let help = "use the profile modern with the variant sack, or leave it out";
            if config.prr {
                report.say("prr", "only SACK in the profile modern knows how much arrives", help);
            }
            if config.rack {
                report.say("rack", "only SACK in the profile modern knows which segments arrive", help);
            }
        }
        if config.reduce_once && !config.rack {
            let message = "without `rack` no retransmission is found lost but by a time-out";
            report.say("reduce_once", message, "set rack = true");
        }
        if config.rules == Rules::Ns1999 {
            let help = "use the profile modern, or leave it out";
            if config.push_bytes > 0 {
                report.say("push", "ns knows of no PSH", help);
            }
            if config.keep_window {
                report.say("keep_window", "ns keeps the window that a loss left in any case", help);
            }
            if config.reduce_window {
                report.say("reduce_window", "ns reduces the window in any case", help);
            }
        }
        if self.initial_ssthresh == Some(Window::Packets(0)) {
            report.say(
                "initial_ssthresh",
                "a threshold of no packet",
                "at least 1p: slow start needs a window to end at",
            );
        }
        let RtoConfig { min, max, .. } = config.rto;
        if min > max {
            report.say(
                "min_rto",
                format!("min_rto ({min}) is above max_rto ({max})"),
                "at most `max_rto`: time-outs lie between them",
            );
        }
        if let Some(delayed) = config.delayed_ack {
            bound::DURATION.check("delayed_ack_timeout", &delayed.timeout, report);
        }
    }
}

/// What a packet carries; one byte where that would be nothing, which the checks refuse.
fn payload(packet: Bytes, header: Bytes) -> Bytes {
    Bytes::new(packet.get().saturating_sub(header.get()).max(1))
}

/// TCP, complete, as [`TcpKeys`] make it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedTcp {
    /// The parameters of the connection.
    pub config: TcpConfig,
    /// The largest window, as it was written.
    pub window: Window,
    /// The first slow start threshold, as it was written; none: the largest window (ns-1999), or no threshold (modern).
    pub initial_ssthresh: Option<Window>,
}

/// Under the names of the keys, where there is one.
#[cfg(feature = "text")]
impl tidegate_parameters::text::serde::Serialize for ResolvedTcp {
    fn serialize<S: tidegate_parameters::text::serde::Serializer>(
        &self,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        use tidegate_parameters::text::serde::ser::SerializeStruct as _;
        let config = &self.config;
        let bytes = |bytes: u32| Bytes::new(u64::from(bytes));
        let mut table = serializer.serialize_struct("ResolvedTcp", 30)?;
        table.serialize_field("profile", &config.rules)?;
        table.serialize_field("variant", &config.variant)?;
        table.serialize_field("window", &self.window)?;
        table.serialize_field("packet", &config.packet())?;
        table.serialize_field("header", &bytes(config.header_bytes))?;
        table.serialize_field("ack", &bytes(config.ack_bytes))?;
        table.serialize_field("delayed_ack", &config.delayed_ack.map(|delayed| delayed.timeout))?;
        table.serialize_field("push", &(config.push_bytes > 0).then(|| bytes(config.push_bytes)))?;
        table.serialize_field("control", &config.control)?;
        table.serialize_field("ecn", &config.ecn_use())?;
        table.serialize_field("ecn_feedback", &config.ecn_feedback)?;
        table.serialize_field("ecn_retransmissions", &config.ecn_retransmissions)?;
        table.serialize_field("ecn_timeout", &config.ecn_timeout)?;
        table.serialize_field("gradual_reduction", &config.gradual_reduction)?;
        table.serialize_field("prr", &config.prr)?;
        table.serialize_field("rack", &config.rack)?;
        table.serialize_field("keep_window", &config.keep_window)?;
        table.serialize_field("reduce_window", &config.reduce_window)?;
        table.serialize_field("reduce_once", &config.reduce_once)?;
        table.serialize_field("pacing", &config.pacing)?;
        table.serialize_field("handshake", &config.handshake)?;
        table.serialize_field("initial_window", &config.initial_window_segments)?;
        table.serialize_field("minimum_window", &config.minimum_window_segments)?;
        table.serialize_field("initial_ssthresh", &self.initial_ssthresh)?;
        table.serialize_field("dupack_threshold", &config.dupack_threshold)?;
        table.serialize_field("limited_transmit", &config.limited_transmit)?;
        table.serialize_field("initial_rto", &config.rto.initial)?;
        table.serialize_field("min_rto", &config.rto.min)?;
        table.serialize_field("max_rto", &config.rto.max)?;
        table.serialize_field("timer_granularity", &config.rto.granularity)?;
        table.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::DctcpConfig;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use tidegate_parameters::Parameters;

    fn complaints(keys: &TcpKeys) -> Vec<String> {
        let mut found = Vec::new();
        let mut sink = |path: &[&str], message: String, help: &str| {
            found.push(format!("{}: {message}; {help}", path.join(".")));
        };
        Parameters::check(keys, &mut Report::new(&mut sink));
        found
    }

    #[test]
    fn a_profile_without_keys_is_that_profile() {
        for &rules in Rules::ALL {
            for &variant in Variant::ALL {
                let keys = TcpKeys { profile: Some(rules), variant: Some(variant), ..TcpKeys::default() };
                assert_eq!(keys.config(), TcpConfig::of(rules, variant));
                assert!(complaints(&keys).is_empty());
            }
        }
        assert_eq!(TcpKeys::default().config(), TcpConfig::modern(Variant::Sack));
    }

    #[test]
    fn dctcp_brings_its_feedback_with_it() {
        let control = Some(CongestionControlConfig::Dctcp(DctcpConfig::default()));
        let config = TcpKeys { control: control.clone(), ..TcpKeys::default() }.config();
        assert_eq!((config.ecn, config.ecn_feedback), (true, EcnFeedback::Dctcp));
        let without = TcpKeys { control, ecn: Some(EcnUse::None), ..TcpKeys::default() };
        assert_eq!(
            complaints(&without),
            ["ecn: the control answers marks, and without `ecn` there are none; leave out `ecn`"]
        );
    }

    #[test]
    fn sizes_follow_from_packet_or_segment() {
        let of = |keys: TcpKeys| {
            let config = keys.config();
            let TcpConfig { segment_bytes, receive_window_bytes, initial_window_segments, .. } = config;
            (config.packet().get(), segment_bytes, receive_window_bytes, initial_window_segments)
        };
        let old = TcpKeys { profile: Some(Rules::Ns1999), ..TcpKeys::default() };
        let bytes = |bytes| Some(Bytes::new(bytes));
        assert_eq!(of(TcpKeys { packet: bytes(500), ..old }), (500, 500, 10_000, 1));
        assert_eq!(of(TcpKeys { segment: bytes(4_000), ..TcpKeys::default() }), (4_040, 4_000, 4 << 20, 3));
        assert_eq!(of(TcpKeys { header: bytes(60), ..TcpKeys::default() }), (1_500, 1_440, 4 << 20, 10));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let bytes = |bytes| Some(Bytes::new(bytes));
        let base = TcpKeys::default();
        let cases = [
            (
                TcpKeys { packet: bytes(40), ..base.clone() },
                "header: a packet of 40B has no room for a header of 40B; ",
            ),
            (
                TcpKeys { segment: bytes(70_000), ..base.clone() },
                "packet: 70.04kB is no size of a packet; IP counts the bytes of a packet in 16 bits: at most 65535B",
            ),
            (
                TcpKeys { packet: bytes(500), segment: bytes(460), ..base.clone() },
                "segment: `packet` and `segment` say the same in two ways; give one of them",
            ),
            (
                TcpKeys { window: Some(Window::Bytes(Bytes::new(1_000))), ..base.clone() },
                "window: a window of 1kB is smaller than a packet's 1.46kB; ",
            ),
            (
                TcpKeys { window: Some(Window::Packets(u32::MAX)), ..base.clone() },
                "window: a window of 4294967295p is above 4GB; ",
            ),
            (
                TcpKeys { initial_window: Some(Window::Packets(0)), ..base.clone() },
                "initial_window: a window of no packet sends nothing; at least 1p",
            ),
            (
                TcpKeys { initial_ssthresh: Some(Window::Packets(0)), ..base.clone() },
                "initial_ssthresh: a threshold of no packet; at least 1p: slow start needs a window to end at",
            ),
            (
                TcpKeys { ecn_timeout: Some(true), ..base.clone() },
                "ecn_timeout: without `ecn` no mark is heard; set ecn = true",
            ),
            (
                TcpKeys { prr: Some(true), variant: Some(Variant::NewReno), ..base.clone() },
                concat!(
                    "prr: only SACK in the profile modern knows how much arrives; ",
                    "use the profile modern with the variant sack, or leave it out"
                ),
            ),
            (
                TcpKeys { rack: Some(true), variant: Some(Variant::Reno), ..base.clone() },
                concat!(
                    "rack: only SACK in the profile modern knows which segments arrive; ",
                    "use the profile modern with the variant sack, or leave it out"
                ),
            ),
            (
                TcpKeys { reduce_once: Some(true), ..base.clone() },
                "reduce_once: without `rack` no retransmission is found lost but by a time-out; set rack = true",
            ),
            (
                TcpKeys {
                    profile: Some(Rules::Ns1999),
                    delayed_ack: Some(true),
                    push: bytes(3000),
                    ..base.clone()
                },
                "push: ns knows of no PSH; use the profile modern, or leave it out",
            ),
            (
                TcpKeys { delayed_ack: Some(false), push: bytes(3000), ..base.clone() },
                "push: without `delayed_ack = true` it has no effect; set both, or leave it out",
            ),
            (
                TcpKeys { push: bytes(0), ..base.clone() },
                "push: no application writes 0B at once; from 1B to 500MB",
            ),
            (
                TcpKeys { ecn_retransmissions: Some(true), ..base.clone() },
                "ecn_retransmissions: without `ecn = true` it has no effect; set both, or leave it out",
            ),
            (
                TcpKeys { profile: Some(Rules::Ns1999), keep_window: Some(true), ..base.clone() },
                concat!(
                    "keep_window: ns keeps the window that a loss left in any case; ",
                    "use the profile modern, or leave it out"
                ),
            ),
            (
                TcpKeys { profile: Some(Rules::Ns1999), reduce_window: Some(true), ..base.clone() },
                "reduce_window: ns reduces the window in any case; use the profile modern, or leave it out",
            ),
            (
                TcpKeys { min_rto: Some(Span::from_secs(70)), ..base.clone() },
                "min_rto: min_rto (70s) is above max_rto (60s); at most `max_rto`: time-outs lie between them",
            ),
            (
                TcpKeys { delayed_ack_timeout: Some(Span::ZERO), ..base },
                "delayed_ack_timeout: this time cannot be zero; above 0s: waiting and averaging take time",
            ),
        ];
        for (keys, complaint) in cases {
            assert_eq!(complaints(&keys), [complaint.to_string()]);
        }
        let unheard =
            TcpKeys { delayed_ack: Some(false), delayed_ack_timeout: Some(Span::ZERO), ..TcpKeys::default() };
        assert!(complaints(&unheard).is_empty());
    }
}

/// What the documentation of keys says of their defaults.
#[cfg(all(test, feature = "text"))]
mod documented {
    use super::*;
    use crate::tcp::congestion::CongestionControl as _;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use serde_json::{Map, Value, json};
    use tidegate_parameters::text::schema_of;

    /// The sentence about the default of each key that has one.
    fn sentences() -> Vec<(String, String)> {
        let schema = schema_of::<TcpKeys>().to_value();
        let keys = schema["properties"].as_object().expect("a table has keys");
        let of = |(key, about): (&String, &Value)| {
            let words: Vec<&str> = about["description"].as_str()?.split_whitespace().collect();
            let text = words.join(" ");
            let (_, rest) = text.split_once("Default: ")?;
            let end = rest.find(". ").unwrap_or(rest.trim_end_matches('.').len());
            Some((key.clone(), rest[..end].to_string()))
        };
        keys.iter().filter_map(of).collect()
    }

    /// The default that a sentence names for `rules`: "20p (ns-1999), 4MiB (modern)"; "false; true with ...".
    fn default_in(sentence: &str, rules: Rules) -> &str {
        let part = match sentence.split_once("(ns-1999") {
            None => sentence,
            Some((old, _)) if rules == Rules::Ns1999 => old,
            Some((_, rest)) => {
                let (_, modern) = rest.split_once(')').expect("closed");
                modern.trim_start_matches([',', ';']).trim_end_matches("(modern)")
            }
        };
        part.split([',', ';']).next().unwrap_or(part).trim()
    }

    fn value(key: &str, text: &str) -> Value {
        match text.parse::<Value>() {
            _ if key == "control" => json!({ text: {} }),
            Ok(value) => value,
            Err(_) => text.into(),
        }
    }

    fn read(keys: &Map<String, Value>) -> TcpKeys {
        serde_json::from_value(Value::Object(keys.clone()))
            .unwrap_or_else(|error| panic!("{keys:?}: {error}"))
    }

    #[test]
    fn a_key_that_is_set_to_its_documented_default_changes_nothing() {
        let sentences = sentences();
        assert_eq!(sentences.len(), 32, "every key has a default: {sentences:?}");
        for (key, sentence) in &sentences {
            for &rules in Rules::ALL {
                let text = default_in(sentence, rules);
                let base = TcpConfig::of(rules, rules.variant());
                let mut keys = Map::from_iter([("profile".to_string(), rules.word().into())]);
                let expected = match (key.as_str(), text) {
                    ("profile", text) => {
                        assert_eq!(TcpKeys::default().config().rules.word(), text);
                        continue;
                    }
                    ("segment", "`packet` less `header`") => {
                        keys.insert(key.clone(), json!(base.segment()));
                        assert_eq!(read(&keys).config().packet(), base.packet());
                        continue;
                    }
                    ("initial_ssthresh", "the largest window") => {
                        assert_eq!(base.control.build(&base).ssthresh_bytes(), 20_000);
                        keys.insert(key.clone(), json!(base.window()));
                        let given = read(&keys).config();
                        assert_eq!(given.control.build(&given).ssthresh_bytes(), 20_000);
                        continue;
                    }
                    ("push", "none") => {
                        assert_eq!(base.push_bytes, 0);
                        continue;
                    }
                    ("initial_ssthresh", "none") => {
                        assert_eq!(base.control.build(&base).ssthresh_bytes(), u64::MAX);
                        continue;
                    }
                    ("delayed_ack_timeout", _) => {
                        keys.insert("delayed_ack".to_string(), true.into());
                        TcpConfig { delayed_ack: Some(rules.delayed_ack()), ..base }
                    }
                    _ => base,
                };
                keys.insert(key.clone(), value(key, text));
                assert_eq!(read(&keys).config(), expected, "{key}: {sentence}");
            }
        }
    }

    #[test]
    fn reports_have_all_parameters_under_the_names_of_keys() {
        let keys = json!({ "profile": "ns-1999", "delayed_ack": true, "initial_ssthresh": "5p" });
        let resolved = serde_json::from_value::<TcpKeys>(keys).expect("keys").resolved();
        let written = serde_json::to_string(&resolved).expect("serializable");
        let expected = concat!(
            r#"{"profile":"ns-1999","variant":"reno","window":"20p","packet":"1kB","header":"0B","ack":"40B","#,
            r#""delayed_ack":"100ms","push":null,"control":{"kind":"reno","ecn_beta":null,"hystart":false},"ecn":false,"ecn_feedback":"classic","#,
            r#""ecn_retransmissions":true,"ecn_timeout":false,"gradual_reduction":false,"prr":false,"rack":false,"keep_window":false,"reduce_window":false,"reduce_once":false,"pacing":"control","handshake":false,"initial_window":1,"#,
            r#""minimum_window":1,"initial_ssthresh":"5p","dupack_threshold":3,"limited_transmit":false,"#,
            r#""initial_rto":"6s","min_rto":"200ms","max_rto":"64s","timer_granularity":"100ms"}"#,
        );
        assert_eq!(written, expected);
    }
}
