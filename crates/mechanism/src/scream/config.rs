//! The parameters of both ends.

use alloc::format;

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Span};

use super::report::Report;
use crate::ROUNDS;
use crate::tcp::EcnUse;

const BETA: Bound<f64> = Bound::above(0.0)
    .and_at_most(1.0)
    .saying("", " is no part of a window that may remain")
    .helping("above 0, at most 1: congestion never opens the window");
const FRAME_RATE: Bound<f64> = Bound::between(1.0, 1000.0)
    .saying("", " is no number of pictures in a second")
    .helping("from 1 to 1000: each picture is an event of its own");
const KEY_SIZE: Bound<f64> = Bound::between(1.0, 100.0)
    .saying("", " is no size of a key frame")
    .helping("from 1 to 100: it is as large as the mean at least, and the others are smaller for it");
const HEADROOM: Bound<f64> = Bound::between(1.0, 100.0)
    .saying("", " leaves no headroom")
    .helping("from 1 to 100: below 1 the window could never be filled");
const UNITS: Bound<u32> = Bound::between(1, Report::METRICS_MAX as u32)
    .saying("no report tells of ", " packets")
    .helping("from 1 to 64: a report has room for 64");
const WAIT: Bound<Span> = Bound::between(Span::from_millis(1), Span::from_secs(10))
    .saying("", " is no time that a picture may wait")
    .helping("from 1ms to 10s: what waits is bounded");

parameters! {
    /// # SCReAM, version 2
    ///
    /// The congestion control of calls: a media encoder follows a window that the delay of the queue, losses and marks move; what
    /// it makes waits at the sender and is discarded when it waited too long. Nothing is sent again.
    ///
    /// Source: draft-johansson-ccwg-rfc8298bis-screamv2-07 (the successor of RFC 8298); RFC 8888.
    #[derive(Copy)]
    pub struct ScreamConfig {
        /// The largest packet on the wire, headers included. Source: the draft, section 4.2.2 (MSS).
        packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The part of each packet that is headers. Source: IPv4, UDP and RTP without options.
        header: Bytes = Bytes::new(40);
        /// A report on the wire, beside two bytes for each packet that it tells of. Source: RFC 8888, section 3.1, over IPv4 and UDP.
        report: Bytes = Bytes::new(48) => bound::PACKET;
        /// The least rate of the encoder, on the wire, and its first. Source: assumed, pictures that can still be looked at.
        min_rate: BitRate = BitRate::from_bps(150_000) => bound::RATE;
        /// The highest rate of the encoder, on the wire. Default: whatever it is allowed. Source: the draft, section 4.4.
        max_rate: Option<BitRate> = None => bound::RATE;
        /// Pictures in a second. Source: the draft, section 4.4 (`frame_period`).
        frame_rate: f64 = 50.0 => FRAME_RATE;
        /// Between key frames, pictures that stand for themselves. Default: none, the picture is renewed bit by bit. Source: the draft,
        /// section 6, recommends that.
        key_interval: Option<Span> = None => bound::DURATION;
        /// How many times as large as the mean a key frame is; the others are smaller for it. Source: assumed.
        key_size: f64 = 4.0 => KEY_SIZE;
        /// A picture that waits longer at the sender is discarded. Source: the draft, section 3.3, leaves it open; half a second is
        /// past any conversation.
        max_wait: Span = Span::from_millis(500) => WAIT;
        /// Whether its packets may carry congestion marks, and which: `classic` takes a mark for `ecn_beta`, `l4s` for `l4s_alpha` / 2.
        /// Source: the draft, section 4.2.2 (IS_L4S: off).
        ecn: EcnUse = EcnUse::None;
        /// The delay of the queue at which delay alone halves the window; it begins to close at half of that. Source: the draft,
        /// section 4.2.2 (QDELAY_TARGET_LO).
        delay_target: Span = Span::from_millis(60) => bound::DURATION;
        /// The most that this target becomes beside flows that fill queues. Source: the draft, section 4.2.2 (QDELAY_TARGET_HI).
        delay_target_max: Span = Span::from_millis(400) => bound::DURATION;
        /// Whether a queue whose delay varies makes steps of the window smaller, down to a tenth, and leaves less under way. Source: the draft,
        /// section 4.2.1.4 (REDUCE_JITTER).
        reduce_jitter: bool = false;
        /// Whether the target rises beside flows that fill queues. Source: the draft, section 4.2.1.4.1.
        competing: bool = true;
        /// What a loss leaves of the window. Source: the draft, section 4.2.2 (BETA_LOSS).
        loss_beta: f64 = 0.7 => BETA;
        /// What a classic mark leaves of the window. Source: the draft, section 4.2.2 (BETA_ECN).
        ecn_beta: f64 = 0.8 => BETA;
        /// The least window. Source: the draft, section 4.2.2 (MIN_REF_WND).
        min_window: Bytes = Bytes::new(3000);
        /// The part of itself by which the window grows in a round trip long after congestion, beside a packet. Source: the draft,
        /// section 4.2.2 (MUL_INCREASE_FACTOR).
        increase: f64 = 0.02 => bound::PROBABILITY;
        /// So many round trips after congestion this part is there in full. Source: the draft, section 4.2.2
        /// (POST_CONGESTION_DELAY_RTT).
        post_congestion: u32 = 100 => bound::COUNT;
        /// Flows with shorter round trips get the same rate as one with this. Source: the draft, section 4.2.2 (VIRTUAL_RTT).
        virtual_rtt: Span = Span::from_millis(25) => bound::DURATION;
        /// How far the window may grow beyond what is under way, as a factor. Source: the draft, section 4.2.2
        /// (BYTES_IN_FLIGHT_HEAD_ROOM).
        headroom: f64 = 1.5 => HEADROOM;
        /// How far what is under way may exceed the window where the queue varies (`reduce_jitter`), as a factor. Source: the draft, section
        /// 4.3.1 (REF_WND_OVERHEAD_MIN).
        overhead_min: f64 = 1.5 => HEADROOM;
        /// The same where it does not, and without `reduce_jitter`. Source: the draft, section 4.3.1 (REF_WND_OVERHEAD_MAX).
        overhead_max: f64 = 3.0 => HEADROOM;
        /// How much faster packets leave than the encoder makes them, as a factor. Source: the draft, section 4.3.2
        /// (PACKET_PACING_HEADROOM).
        pacing_headroom: f64 = 1.5 => HEADROOM;
        /// How long a packet that others overtook is waited for, until more is known. Source: assumed; the draft, section 4.2.1.1,
        /// measures it.
        reordering: Span = Span::from_millis(30) => bound::DELAY;
        /// Packets after which a report is due. Source: the draft, section 5 (N).
        report_packets: u32 = 16 => UNITS;
        /// A report is due when the last one is so long ago and something came. Source: the draft, section 5.
        report_interval: Span = Span::from_millis(40) => ROUNDS;
    }
    check |config, report| {
        if config.header >= config.packet {
            let message =
                format!("a packet of {} has no room for a header of {}", config.packet, config.header);
            report.say("header", message, "");
        }
        if config.max_rate.is_some_and(|most| most < config.min_rate) {
            let message = format!("the highest rate is below the least, {}", config.min_rate);
            report.say("max_rate", message, "at least `min_rate`");
        }
        if config.delay_target_max < config.delay_target {
            // Whoever leaves the largest one as it is has written the other.
            if config.delay_target_max == Self::default().delay_target_max {
                let message = format!("the largest target, {}, is below this one", config.delay_target_max);
                report.say("delay_target", message, "set a larger `delay_target_max`, too");
            } else {
                let message = format!("the largest target is below the target, {}", config.delay_target);
                report.say("delay_target_max", message, "at least `delay_target`");
            }
        }
        let varies = config.overhead_min != Self::default().overhead_min;
        report.idle("overhead_min", varies && !config.reduce_jitter, "reduce_jitter = true");
        if config.overhead_max < config.overhead_min {
            let message = "less may be under way without a queue than with one";
            report.say("overhead_max", message, "at least `overhead_min`");
        }
        if config.min_window < config.packet {
            let message = format!("no packet of {} fits into a window of {}", config.packet, config.min_window);
            let is_usual = config.min_window == Self::default().min_window;
            let (key, help) =
                if is_usual { ("packet", "set a larger `min_window`, too") } else { ("min_window", "at least `packet`") };
            report.say(key, message, help);
        }
        if config.key_interval.is_some_and(|interval| interval.as_secs_f64() * config.frame_rate <= config.key_size) {
            let message = format!("a key frame of {} pictures leaves nothing for the others", config.key_size);
            report.say("key_interval", message, "longer than `key_size` pictures at `frame_rate`");
        }
    };
}

impl ScreamConfig {
    /// Bytes of the largest packet on the wire.
    pub fn packet_bytes(&self) -> u32 {
        bytes32(self.packet)
    }

    /// Bytes of the headers in a packet.
    pub fn header_bytes(&self) -> u32 {
        bytes32(self.header)
    }

    /// Bytes on the wire of a report about `packets`: their metrics fill words of four bytes (RFC 8888, section 3.1).
    pub fn report_bytes(&self, packets: u32) -> u32 {
        bytes32(self.report).saturating_add(2 * packets.next_multiple_of(2))
    }

    /// `TARGET_BITRATE_MAX`, bits per second; infinite where there is none.
    pub(super) fn max_bps(&self) -> f64 {
        self.max_rate.map_or(f64::INFINITY, BitRate::as_bps_f64)
    }
}

/// Sizes that were checked to fit.
fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}
