//! TCP-friendly dropping: RED says how much is dropped, this says whose. A TCP that loses a packet of a small window, two of
//! one window, or what it sent again, waits for its timer; one that loses a single packet of a larger window halves it and
//! goes on. So each flow is spared for some packets after a loss, and at its start; the next flow that is not spared is
//! dropped from in its place.
//!
//! Source: Harrison & Kalyanaraman, "An Overlay Congestion Control Architecture for the Internet", section I, names it as a
//! technique for the edge, after Lo Monaco, Feroz, Kalyanaraman, "TCP friendly marking for scalable and better best-effort
//! services on the Internet", which protects small windows and packets sent again, and keeps the losses of a flow apart.
//! Deviations:
//! - That document was not at hand. Its marker looks into TCP headers; here packets are counted, which also works where
//!   they are encrypted: what is sent again comes within a window of the loss.
//! - Between two losses a window grows from half to whole, which takes `3/8 W^2` packets. 24 of them mean a window of 8,
//!   whose half, 4, is the least in which three duplicates can show the next loss.
//! - It does not restrain flows that do not slow down, which are spared as others are: FRED or a queue per flow do.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::average::{AverageQueue, IdleLaw};
use super::fred::{NO_THRESHOLDS, quarter_and_half};
use super::limit::bytes32;
use super::red::{marking_probability, spread_from_one};
use super::{QueueLimit, QueueManager, Verdict};
use crate::meter::FlowTable;
use crate::random::Substream;
use crate::{Context, Variable};

/// So many drops are put off at most (assumed): more would be a burst of losses when flows are no longer spared.
const OWED_MAX: u32 = 16;

parameters! {
    /// # TCP-friendly dropping
    ///
    /// RED says how much is dropped; dropped are flows that have sent `spacing` packets since their last loss, or their start.
    /// So no TCP loses from a small window, twice from one window, or what it sends again, as long as there is another.
    ///
    /// Source: Harrison and Kalyanaraman 2000, section I, after Lo Monaco, Feroz and Kalyanaraman 2000.
    #[derive(Copy)]
    pub struct TcpFriendlyConfig {
        /// How much may wait. What overflows is dropped whosever it is. Source: NBP, Table 1.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Average queue at which random drops begin. Default: a quarter of `limit`. Source: assumed, as FRED's.
        min: Option<Limit> = None;
        /// Average queue from which every packet that is not spared is dropped. Default: twice `min`. Source: assumed, as FRED's.
        max: Option<Limit> = None;
        /// Probability of a drop as the average reaches `max`. Source: as RED's.
        max_p: f64 = 0.02 => bound::PROBABILITY;
        /// Weight of the present queue in its average. Source: as RED's.
        weight: f64 = 0.002 => bound::GAIN;
        /// For so many packets after a loss, and at its start, a flow is spared. Source: derived; between losses a window of W
        /// takes 3/8 W^2 packets, and half of a window of 8 still shows the next loss by three duplicates.
        spacing: u32 = 24;
        /// Size of a typical packet: idle time is counted in them. Source: as RED's.
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The most flows that are known at once. Source: assumed; it bounds the memory.
        flows_max: u32 = 4096 => bound::COUNT;
        /// Whether packets of transports with ECN are marked instead of dropped early. Source: assumed (off).
        ecn: bool = false;
    }
    check |config, report| match config.thresholds() {
        Some((min, max)) if min.is_nan() || min >= max => {
            report.say("min", format!("min ({min} packets) is not below max ({max})"), "");
        }
        Some(_) => {}
        None => report.say("min", "min and max are not in packets or bytes", NO_THRESHOLDS),
    };
}

impl TcpFriendlyConfig {
    /// `min` and `max` in packets, as FRED's.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        quarter_and_half(self.limit, self.min, self.max, self.mean_packet)
    }
}

impl TcpFriendlyConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> TcpFriendly {
        let (min_th, max_th) = self.thresholds().expect("checked: thresholds are in packets or bytes");
        assert!(min_th >= 0.0 && min_th < max_th, "0 <= min < max");
        let packet_bytes = bytes32(self.mean_packet);
        assert!((0.0..=1.0).contains(&self.max_p), "max_p is a probability");
        TcpFriendly {
            average: AverageQueue::new(self.weight, IdleLaw::Paper, packet_bytes, context.link_rate),
            count: -1,
            p_b: 0.0,
            owed: 0,
            since_loss: FlowTable::new(self.flows_max),
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            min_th,
            max_th,
            packet_bytes,
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TcpFriendly {
    average: AverageQueue,
    /// Packets since RED last wanted a drop; -1 below `min_th`.
    count: i64,
    /// `p_b` at the last arrival.
    p_b: f64,
    /// Drops that were put off because the flows were spared.
    owed: u32,
    /// Packets of each flow since its last loss.
    since_loss: FlowTable<u32>,
    limit: QueueLimit,
    random: Substream,
    /// `min` and `max`, packets.
    min_th: f64,
    max_th: f64,
    packet_bytes: u32,
    config: TcpFriendlyConfig,
}

impl QueueManager for TcpFriendly {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("average_queue_packets", "The average queue of the manager, in packets."),
                Variable::new("marking_probability", "The probability of the last arrival."),
            ]
        }
    }

    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let avg = self.average.on_arrival(f64::from(queue.packets), now);
        self.owe(avg);
        let since = self.since_loss.entry(packet.flow, || 0);
        *since = since.saturating_add(1);
        if self.owed > 0 && *since > self.config.spacing {
            self.owed -= 1;
            *since = 0;
            if !(self.config.ecn && packet.ecn.is_capable()) {
                return Verdict::Drop(DropReason::Early);
            }
            if self.limit.admits(queue, packet) {
                self.average.on_joined();
                return Verdict::Mark(MarkReason::Early);
            }
        }
        if !self.limit.admits(queue, packet) {
            *since = 0;
            return Verdict::Drop(DropReason::Overflow);
        }
        self.average.on_joined();
        Verdict::Accept
    }

    fn on_idle(&mut self, now: Time) {
        self.average.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.average.set_link_rate(rate, self.packet_bytes, now);
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "average_queue_packets" => Some(self.average.value()),
            "marking_probability" => Some(self.p_b),
            _ => None,
        }
    }
}

impl TcpFriendly {
    /// How many drops are due, by RED (Floyd & Jacobson, Fig. 2).
    fn owe(&mut self, avg: f64) {
        let (min_th, max_th, max_p) = (self.min_th, self.max_th, self.config.max_p);
        if avg < min_th {
            (self.count, self.p_b, self.owed) = (-1, 0.0, 0);
        } else if avg < max_th {
            self.count += 1;
            self.p_b = marking_probability(avg, min_th, max_th, max_p);
            if self.random.chance(spread_from_one(self.p_b, self.count as f64)) {
                self.count = 0;
                self.owed = (self.owed + 1).min(OWED_MAX);
            }
        } else {
            (self.count, self.p_b, self.owed) = (0, 1.0, self.owed.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Fifo;
    use crate::queue::limit::threshold;
    use crate::schedule::testing::{arrivals, drive};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};

    /// A manager whose average stays where it is put.
    fn held_at(avg: f64, config: TcpFriendlyConfig) -> TcpFriendly {
        let mut manager = TcpFriendlyConfig { weight: 1e-300, ..config }.build(&Context::for_tests());
        manager.average.force(avg);
        manager
    }

    fn ask(manager: &mut TcpFriendly, flow: u32, waiting: u32) -> Verdict {
        let queue = Backlog { packets: waiting, bytes: 1000 * u64::from(waiting) };
        manager.on_arrival(&mut Packet::new(0, FlowId(flow), 1000), queue, Time::ZERO)
    }

    const EARLY: Verdict = Verdict::Drop(DropReason::Early);

    #[test]
    fn losses_of_a_flow_are_at_least_the_spacing_apart_even_if_all_is_to_be_dropped() {
        let mut manager = held_at(60.0, TcpFriendlyConfig::default());
        let dropped: Vec<usize> = (0..200).filter(|_| ask(&mut manager, 1, 60) == EARLY).collect();
        assert_eq!(dropped.len(), 8, "one in 25 packets: {dropped:?}");
        for _ in 0..24 {
            assert_eq!(ask(&mut manager, 2, 60), Verdict::Accept, "a new flow is spared");
        }
        assert_eq!(ask(&mut manager, 2, 60), EARLY);
    }

    #[test]
    fn as_much_is_dropped_as_by_red_but_from_flows_that_are_not_spared() {
        let mut manager = held_at(45.0, TcpFriendlyConfig { max_p: 0.01, ..TcpFriendlyConfig::default() });
        // Four flows with long windows and forty that have just begun, in turns.
        let (mut long, mut short) = (0u32, 0u32);
        for round in 0..10_000u32 {
            long += u32::from(ask(&mut manager, round % 4, 45) == EARLY);
            short += u32::from(ask(&mut manager, 1000 + round / 20, 45) == EARLY);
        }
        assert_eq!(short, 0, "no flow of twenty packets loses any");
        // p_b is 0.008: RED's gaps are even over 1 to 125 packets, of which there were 20,000.
        assert!((270..360).contains(&long), "{long}");
    }

    #[test]
    fn what_overflows_is_dropped_from_spared_flows_too() {
        let mut manager = held_at(1.0, TcpFriendlyConfig::default());
        assert_eq!(ask(&mut manager, 1, 100), Verdict::Drop(DropReason::Overflow));
        assert_eq!(ask(&mut manager, 1, 99), Verdict::Accept);
    }

    #[test]
    fn with_ecn_what_can_carry_a_mark_is_marked() {
        let mut manager =
            held_at(60.0, TcpFriendlyConfig { spacing: 0, ecn: true, ..TcpFriendlyConfig::default() });
        let queue = Backlog { packets: 60, bytes: 60_000 };
        let mut capable = Packet { ecn: Ecn::Ect0, ..Packet::new(0, FlowId(1), 1000) };
        assert_eq!(manager.on_arrival(&mut capable, queue, Time::ZERO), Verdict::Mark(MarkReason::Early));
        assert_eq!(ask(&mut manager, 2, 60), EARLY);
    }

    proptest! {
        #[test]
        fn no_more_waits_than_may(
            arrivals in arrivals(12, 300), most in 4u32..40, min_th in 0.0..10.0f64, width in 0.5..10.0f64,
            w in 0.001..0.9f64, max_p in 0.0..=1.0f64, spacing in 0u32..30, flows_max in 1u32..8,
        ) {
            let limit = Limit::Packets(most);
            let max_th = min_th + width;
            let config =
                TcpFriendlyConfig { min: Some(threshold(min_th)), max: Some(threshold(max_th)), weight: w, max_p, spacing, limit, flows_max, ..TcpFriendlyConfig::default() };
            let mut fifo = Fifo::new(config.build(&Context::for_tests()));
            drive(&mut fifo, &arrivals, 8, |waiting| assert!(waiting.packets <= most));
            prop_assert!(fifo.manager().since_loss.len() <= flows_max as usize);
        }
    }
}
