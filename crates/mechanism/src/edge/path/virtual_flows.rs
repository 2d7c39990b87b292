//! The rate of a virtual link that shares a queue with ordinary TCP: what so many flows of CUBIC would have there.
//!
//! Source: one control for several flows: Crowcroft and Oechslin, "Differentiated end-to-end Internet services using a weighted
//! proportional fair sharing TCP" (CCR 1998); at the edge of a site: Bundler, section 5. Each flow is the CUBIC of this project's hosts.
//! Deviations: there are no segments that belong to one of them. Acknowledgments are shared by windows, and each loss of a round
//! trip hits another one, in turns. A window becomes a rate over the round trip as it is.

use alloc::vec::Vec;

use tidegate_units::{Span, Time};

use crate::tcp::congestion::{Ack, Congestion, CongestionControl, Cubic, CubicConfig, Signal};
use crate::tcp::{TcpConfig, Variant};

/// See the module.
#[derive(Clone, Debug)]
pub struct VirtualFlows {
    flows: Vec<Cubic>,
    /// Bytes of a segment.
    segment: u32,
    /// Who is hit next.
    turn: usize,
    /// How many were hit in the round trip that began then.
    hit: usize,
    round_began: Time,
}

/// No window falls below so many segments, as that of a host that has data.
const WINDOW_LEAST: f64 = 2.0;

impl VirtualFlows {
    /// `count` flows that together send `rate` bytes per second at a round trip of `t` seconds, where they last met congestion.
    pub fn new(count: u32, rate: f64, t: f64, segment: u32, now: Time) -> Self {
        let window = rate * t / f64::from(count.max(1));
        let flow = flow_at(window, segment);
        let flows = (0..count.max(1)).map(|_| flow.clone()).collect();
        Self { flows, segment, turn: 0, hit: 0, round_began: now }
    }

    /// Bytes that all of them may have under way.
    fn window(&self) -> f64 {
        self.flows.iter().map(|flow| flow.cwnd_bytes() as f64).sum()
    }

    /// What all of them send at a round trip of `t` seconds, bytes per second.
    pub fn rate(&self, t: f64) -> f64 {
        self.window() / t
    }

    /// From now on there are `count` of them; who comes has the mean window.
    pub fn set_count(&mut self, count: u32) {
        let count = count.max(1) as usize;
        let mean = self.window() / self.flows.len() as f64;
        let segment = self.segment;
        self.flows.resize_with(count, || flow_at(mean, segment));
    }

    /// `seconds` passed in which they sent what they may, at a round trip of `t` seconds: acknowledgments for it came.
    pub fn on_time(&mut self, seconds: f64, t: f64, now: Time) {
        let rounds = (seconds / t).min(1.0);
        let srtt = Span::from_secs_f64(t);
        for flow in &mut self.flows {
            let window = flow.cwnd_bytes();
            let acked_bytes = (window as f64 * rounds) as u64;
            flow.on_ack(
                &Ack { acknowledgment: 0, acked_bytes, flight_bytes: window, srtt, sample: None },
                now,
            );
        }
    }

    /// `lost` packets are known to be lost, at a round trip of `t` seconds. Nobody is hit twice in one.
    pub fn on_losses(&mut self, lost: u64, t: f64, now: Time) {
        if now.since(self.round_began).as_secs_f64() >= t {
            self.round_began = now;
            self.hit = 0;
        }
        let spared = self.flows.len().saturating_sub(self.hit);
        let losses = usize::try_from(lost).unwrap_or(usize::MAX).min(spared);
        self.hit += losses;
        for _ in 0..losses {
            self.turn = (self.turn + 1) % self.flows.len();
            let flow = &mut self.flows[self.turn];
            let bytes = flow.cwnd_bytes();
            let loss = Congestion {
                signal: Signal::Loss,
                sequence: 0,
                echoed: None,
                window_bytes: bytes,
                flight_bytes: bytes,
                repeated: false,
                srtt: Span::from_secs_f64(t),
                rto: Span::ZERO,
            };
            flow.on_congestion(&loss, now);
        }
    }
}

/// A flow in congestion avoidance, with a window of `bytes`.
fn flow_at(bytes: f64, segment: u32) -> Cubic {
    let window = (bytes / f64::from(segment)).max(WINDOW_LEAST);
    let tcp = TcpConfig {
        segment_bytes: segment,
        initial_window_segments: window as u32,
        minimum_window_segments: WINDOW_LEAST as u32,
        initial_ssthresh_bytes: Some(0),
        ..TcpConfig::modern(Variant::Sack)
    };
    CubicConfig::default().build(&tcp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: f64 = 0.05;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    #[test]
    fn they_begin_at_the_rate_that_they_are_given_and_one_loss_hits_one() {
        let mut flows = VirtualFlows::new(4, 2e6, T, 1500, at(0.0));
        // 100 kB in four windows: 16 whole segments each.
        assert_eq!(flows.rate(T), 4.0 * 16.0 * 1500.0 / T);
        flows.on_losses(1, T, at(1.0));
        let after_one = 1.0 - 0.3 / 4.0;
        assert!((flows.rate(T) / (4.0 * 16.0 * 1500.0 / T) - after_one).abs() < 0.01, "{}", flows.rate(T));
        // Ten in the same round trip hit the others once.
        flows.on_losses(10, T, at(1.01));
        assert!((flows.rate(T) / (4.0 * 16.0 * 1500.0 / T) - 0.7).abs() < 0.01, "{}", flows.rate(T));
    }

    #[test]
    fn without_losses_they_grow_as_one_cubic_each() {
        let mut four = VirtualFlows::new(4, 8e5, T, 1500, at(0.0));
        let mut one = VirtualFlows::new(1, 2e5, T, 1500, at(0.0));
        for step in 1..400 {
            let now = at(f64::from(step) * T / 2.0);
            four.on_time(T / 2.0, T, now);
            one.on_time(T / 2.0, T, now);
        }
        assert!((four.rate(T) / one.rate(T) - 4.0).abs() < 1e-9);
        assert!(one.rate(T) > 4e5, "{}", one.rate(T));
    }

    #[test]
    fn who_comes_has_the_mean_window_and_who_goes_takes_his_own() {
        let mut flows = VirtualFlows::new(2, 4e5, T, 1500, at(0.0));
        let before = flows.rate(T);
        flows.set_count(3);
        assert!((flows.rate(T) / before - 1.5).abs() < 0.06);
        flows.set_count(1);
        assert!((flows.rate(T) / before - 0.5).abs() < 0.06);
    }
}
