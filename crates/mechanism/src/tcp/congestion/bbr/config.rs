//! The parameters of BBR, version 1, and how it begins.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, section 4; Linux (`tcp_bbr.c`) where it says so. Deviations: those of the module above.

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

use super::{Aggregation, Bbr, BbrState, Loss, MaxOfRounds, Policer};
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::{Pacer, telling};

/// A gain that makes something grow.
const GAIN: Bound<f64> = telling(
    Bound::above(1.0).and_at_most(100.0),
    " must be above 1 and at most 100",
    "at 1 it never finds a higher rate",
);
/// Segments more than the model asks for.
const MORE_SEGMENTS: Bound<u32> = telling(
    Bound::at_most(1000),
    " is above 1000",
    "at most 1000: room for acknowledgments, no second window",
);

parameters! {
    /// # BBR, version 1
    ///
    /// Sends at the largest rate at which data arrived lately, and keeps about two products of that rate and the least round trip under
    /// way, whatever is lost or marked.
    ///
    /// Source: draft-cardwell-iccrg-bbr-congestion-control-00.
    #[derive(Copy)]
    pub struct BbrConfig {
        /// By which the pacing rate is above what arrives in the start, so that it doubles in each round trip. Default: 2 / ln 2. Source: section
        /// 4.2.1.
        high_gain: f64 = 2.0 / core::f64::consts::LN_2 => GAIN;
        /// How many products of rate and round trip the window holds. Source: section 4.2.3.2.
        cwnd_gain: f64 = 2.0 => GAIN;
        /// How long the least round trip is believed. Source: section 4.1.2.3.
        rtprop_window: Span = Span::from_secs(10) => bound::DURATION;
        /// How long next to nothing is under way to measure it anew. Source: section 4.3.5.
        probe_rtt: Span = Span::from_millis(200) => bound::DURATION;
        /// By which part the rate stays below what the model says. Source: version 1 has none; Linux has 0.01.
        pacing_margin: f64 = 0.0
            => telling(
                Bound::at_least(0.0).and_below(1.0),
                " must be at least 0 and below 1",
                "at 1 nothing is sent",
            );
        /// Segments that the window holds beyond the model. Source: version 1 has none; what Linux adds for acknowledgments of every
        /// second segment is 2.
        extra_segments: u32 = 0 => MORE_SEGMENTS;
        /// Segments more that are to be under way where it probes for more rate. Source: version 1 has none; Linux has 2.
        probe_segments: u32 = 0 => MORE_SEGMENTS;
        /// Whether segments go in aggregates: pairs from 1.2 Mb/s on, a millisecond of them from 24 Mb/s on. Source: section 4.2.2.
        aggregates: bool = false;
        /// Whether the window also holds what arrives at once beyond the rate, at most 100 ms of it. Source: version 1 has none; Linux has it.
        aggregation: bool = false;
        /// Whether the window counts in whole segments, rounded up to an even number of them. Source: version 1 has bytes; Linux has it
        /// (`bbr_quantization_budget`).
        whole_segments: bool = false;
        /// Whether segments after one that went later than the rate allows go sooner, by half of its time at most. Source: version 1 has none;
        /// Linux has it (`tcp_update_skb_after_send`).
        makes_up: bool = false;
        /// Whether the rate of a policer is looked for: one at which a fifth was lost two times in a row. Source: version 1 has none; Linux
        /// has it (`bbr_lt_bw_sampling`).
        policers: bool = false;
    }
}

impl BbrConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Bbr {
        let segment_bytes = u64::from(tcp.segment_bytes);
        let initial_segments = tcp.initial_window_segments.max(tcp.minimum_window_segments);
        let initial_bytes = u64::from(initial_segments) * segment_bytes;
        // Section 4.2.1: before the first round trip, as if it were 1 ms.
        let nominal = initial_bytes as f64 / Span::from_millis(1).as_secs_f64();
        Bbr {
            config: *self,
            state: BbrState::Startup,
            btlbw: MaxOfRounds::default(),
            rtprop: None,
            rtprop_stamp: Time::ZERO,
            round_count: 0,
            next_round_delivered: 0,
            full_bw: 0.0,
            full_bw_count: 0,
            filled_pipe: false,
            pacing_gain: self.high_gain,
            cwnd_gain: self.high_gain,
            cycle_index: 0,
            cycle_stamp: Time::ZERO,
            pacing_rate: self.high_gain * nominal,
            has_seen_rtt: false,
            cwnd_bytes: initial_bytes,
            prior_cwnd_bytes: 0,
            loss: Loss::None,
            conserves_packets: false,
            idle_restart: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            limited_until: 0,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
            timed_out: false,
            burst_left: 0,
            initial_bytes,
            minimum_bytes: u64::from(tcp.minimum_window_segments) * segment_bytes,
            segment_bytes,
            pacer: Pacer::default(),
        }
    }
}
