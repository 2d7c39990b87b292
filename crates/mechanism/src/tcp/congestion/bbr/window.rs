//! How much may be under way: the model's product, what recovery makes of it, and what comes at once.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, section 4.2.3. Deviations: those of the module above.

use tidegate_units::Span;

use super::{Bbr, BbrState, Loss, Sample};

/// `BBRMinPipeCwnd` (section 4.2.3.3), in segments.
const MIN_PIPE_SEGMENTS: u64 = 4;

/// The quanta of section 4.2.3.2 that the window gets beyond the product.
const QUANTA: u64 = 3;

/// The most that is kept for what arrives at once (Linux, `bbr_extra_acked_max_us`).
const AGGREGATED_MAX: Span = Span::from_millis(100);

impl Bbr {
    pub(super) fn min_pipe_bytes(&self) -> u64 {
        (MIN_PIPE_SEGMENTS * self.segment_bytes).max(self.minimum_bytes)
    }

    /// `BBRInflight(gain)` (section 4.2.3.2), at a rate, with so many bytes more.
    pub(super) fn inflight(&self, bw: f64, gain: f64, more_bytes: u64) -> u64 {
        let Some(rtprop) = self.rtprop else { return self.initial_bytes };
        let bdp = bw * rtprop.as_secs_f64();
        let probes = self.state == BbrState::ProbeBw && self.cycle_index == 0;
        let probe_segments = if probes { u64::from(self.config.probe_segments) } else { 0 };
        let quanta = QUANTA * u64::from(self.quantum_segments());
        if self.config.whole_segments {
            // So that who acknowledges every second segment waits for no last one.
            let model = libm::ceil(gain * bdp / self.segment_bytes as f64) as u64;
            let segments = (model + more_bytes / self.segment_bytes + quanta).next_multiple_of(2);
            return (segments + probe_segments) * self.segment_bytes;
        }
        (gain * bdp) as u64 + more_bytes + (quanta + probe_segments) * self.segment_bytes
    }

    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd_bytes = if self.loss == Loss::None && self.state != BbrState::ProbeRtt {
            self.cwnd_bytes
        } else {
            self.prior_cwnd_bytes.max(self.cwnd_bytes)
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd_bytes = self.cwnd_bytes.max(self.prior_cwnd_bytes);
    }

    /// Section 4.2.3.4: what recovery does to the window.
    fn modulate_for_recovery(&mut self, sample: &Sample, round_start: bool) {
        match self.loss {
            Loss::None => {}
            // One that began with this acknowledgment may be over with it: a probe has repaired all.
            Loss::Begins | Loss::Repaired if !sample.is_in_recovery => {
                self.loss = Loss::None;
                self.conserves_packets = false;
                self.restore_cwnd();
            }
            Loss::Begins => {
                self.loss = Loss::Repaired;
                let conserved = sample.in_flight_bytes + sample.delivered_bytes.max(self.segment_bytes);
                self.cwnd_bytes = conserved.max(self.minimum_bytes);
                self.conserves_packets = true;
                self.next_round_delivered = sample.delivered_total_bytes;
            }
            Loss::Repaired => {
                self.conserves_packets &= !round_start;
                self.cwnd_bytes = self.cwnd_bytes.saturating_sub(sample.lost_bytes).max(self.minimum_bytes);
            }
        }
        if self.conserves_packets {
            self.cwnd_bytes = self.cwnd_bytes.max(sample.in_flight_bytes + sample.delivered_bytes);
        }
    }

    /// `bbr_ack_aggregation_cwnd` of Linux.
    fn aggregated(&self) -> u64 {
        if !self.config.aggregation || !self.filled_pipe {
            return 0;
        }
        self.aggregation.extra_bytes().min((self.bw() * AGGREGATED_MAX.as_secs_f64()) as u64)
    }

    /// Section 4.2.3.6.
    pub(super) fn set_cwnd(&mut self, sample: &Sample, round_start: bool) {
        self.modulate_for_recovery(sample, round_start);
        if !self.conserves_packets && sample.delivered_bytes > 0 {
            let extra_segments = if self.filled_pipe { u64::from(self.config.extra_segments) } else { 0 };
            let more_bytes = extra_segments * self.segment_bytes + self.aggregated();
            let target = self.inflight(self.bw(), self.cwnd_gain, more_bytes);
            let grown = self.cwnd_bytes + sample.delivered_bytes;
            if self.filled_pipe {
                self.cwnd_bytes = grown.min(target);
            } else if self.cwnd_bytes < target || sample.delivered_total_bytes < self.initial_bytes {
                self.cwnd_bytes = grown;
            }
        }
        if !self.conserves_packets {
            self.cwnd_bytes = self.cwnd_bytes.max(self.min_pipe_bytes());
        }
        if self.state == BbrState::ProbeRtt {
            self.cwnd_bytes = self.cwnd_bytes.min(self.min_pipe_bytes());
        }
    }
}
