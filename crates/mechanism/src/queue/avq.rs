//! AVQ, the adaptive virtual queue: a queue that exists as a number only is filled by the same packets as the real one and emptied
//! somewhat slower; what does not fit into it is notified. Its capacity adapts so that what arrives is a given part of what the
//! link carries. So the link is regulated by the rate of arrivals, and the real queue stays nearly empty.
//!
//! Source: Kunniyur & Srikant, "Analysis and design of an adaptive virtual queue (AVQ) algorithm for active queue management",
//! SIGCOMM 2001, section 2 and the listing there; ns-2.35 `vq.cc`.
//! Deviations:
//! - The virtual queue is in bytes. A limit of it in packets is so many of [`AvqConfig::mean_packet`].
//! - Time begins with the first packet, as in ns-2.
//! - A packet that is dropped because it does not fit into the virtual queue does not adapt the capacity, for what is regulated is the
//!   rate that is let in; the time goes to the next packet (ns-2). One that the real queue has no room for has arrived.
//! - A capacity of zero would empty nothing, and no packet would be let in again to adapt it (ns-2 stays closed for good). While packets
//!   are dropped at zero the virtual queue is emptied with what the capacity has gained since its last adaptation.
//! - The notification is that of the packet that does not fit. ns-2 may mark the head of the real queue in its place.

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::{Context, Variable};

/// How fast the virtual capacity follows.
const ALPHA: Bound<f64> = Bound::above(0.0)
    .and_at_most(1e6)
    .saying("", " is no speed of adaptation")
    .helping("above 0, at most 1000000: at 0 the capacity stays; above that it is gone within a microsecond");

parameters! {
    /// # Adaptive virtual queue
    ///
    /// Notifies what does not fit into a virtual queue, whose capacity adapts so that a given part of the link is used.
    ///
    /// Source: Kunniyur and Srikant 2001; ns (`Queue/Vq`).
    #[derive(Copy)]
    pub struct AvqConfig {
        /// How much may wait. Source: Kunniyur and Srikant 2001, section 4 (100 packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// How much fits into the virtual queue. Default: as much as `limit`. Source: Kunniyur and Srikant 2001, section 2; ns
        /// (`buflim_`).
        virtual_limit: Option<Limit> = None => bound::QUEUE;
        /// The part of the link that should be used. Source: Kunniyur and Srikant 2001, section 4; ns (`gamma_`).
        gamma: f64 = 0.98 => bound::SHARE;
        /// How fast the virtual capacity adapts: by this part of the excess in each second. Source: Kunniyur and Srikant 2001,
        /// section 4; ns (fixed).
        alpha: f64 = 0.15 => ALPHA;
        /// The virtual capacity at the first packet, as a part of the link. Source: ns (`ecnlim_`).
        start: f64 = 0.8 => bound::SHARE;
        /// Size of a typical packet, for limits in packets. Source: ns (`mean_pktsize_`).
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// Whether packets of transports with ECN are marked instead of dropped. Source: Kunniyur and Srikant 2001, section 4; ns
        /// (`markpkts_`, off).
        ecn: bool = true;
    }
}

impl AvqConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Avq {
        let capacity = context.link_rate.as_bytes_per_second_f64();
        Avq {
            virtual_capacity: self.start * capacity,
            virtual_queue: 0.0,
            last_arrival: None,
            last_adaptation: Time::ZERO,
            capacity,
            virtual_bytes: self.virtual_bytes(context.link_rate),
            limit: QueueLimit::new(self.limit, context.link_rate),
            config: *self,
        }
    }

    /// B: what fits into the virtual queue, in bytes.
    fn virtual_bytes(&self, rate: BitRate) -> f64 {
        match self.virtual_limit.unwrap_or(self.limit) {
            Limit::Packets(packets) => f64::from(packets) * self.mean_packet.as_f64(),
            Limit::Bytes(bytes) => bytes.as_f64(),
            Limit::Time(span) => rate.bytes_in(span).as_f64(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Avq {
    /// C~, in bytes a second.
    virtual_capacity: f64,
    /// VQ, in bytes.
    virtual_queue: f64,
    /// None before the first packet.
    last_arrival: Option<Time>,
    last_adaptation: Time,
    /// C, in bytes a second.
    capacity: f64,
    /// B.
    virtual_bytes: f64,
    limit: QueueLimit,
    config: AvqConfig,
}

impl QueueManager for Avq {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("virtual_capacity_bps", "The capacity of the virtual queue."),
                Variable::new("virtual_queue_bytes", "What the virtual queue holds."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let fits = self.join_virtually(packet, now);
        let can_mark = self.config.ecn && packet.ecn.is_capable();
        if !fits && !can_mark {
            return Verdict::Drop(DropReason::Early);
        }
        self.adapt(packet, now);
        if !self.limit.admits(queue, packet) {
            Verdict::Drop(DropReason::Overflow)
        } else if fits {
            Verdict::Accept
        } else {
            Verdict::Mark(MarkReason::Early)
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
        self.virtual_bytes = self.config.virtual_bytes(rate);
        self.capacity = rate.as_bytes_per_second_f64();
        self.virtual_capacity = self.virtual_capacity.min(self.capacity);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "virtual_capacity_bps" => Some(self.virtual_capacity * 8.0),
            "virtual_queue_bytes" => Some(self.virtual_queue),
            _ => None,
        }
    }
}

impl Avq {
    /// Whether the packet fits into the virtual queue, which it then joins.
    #[inline]
    fn join_virtually(&mut self, packet: &Packet, now: Time) -> bool {
        let b = f64::from(packet.wire_bytes);
        let Some(before) = self.last_arrival.replace(now) else {
            self.last_adaptation = now;
            let fits = b <= self.virtual_bytes;
            self.virtual_queue = if fits { b } else { 0.0 };
            return fits;
        };
        let capacity = if self.virtual_capacity <= 0.0 && before > self.last_adaptation {
            adapted(0.0, self.gained(now), 0.0, self.capacity)
        } else {
            self.virtual_capacity
        };
        let left = drained(self.virtual_queue, capacity, now.since(before).as_secs_f64());
        let fits = left + b <= self.virtual_bytes;
        self.virtual_queue = if fits { left + b } else { left };
        fits
    }

    #[inline]
    fn adapt(&mut self, packet: &Packet, now: Time) {
        let (b, capacity, gained) = (f64::from(packet.wire_bytes), self.capacity, self.gained(now));
        self.last_adaptation = now;
        self.virtual_capacity = adapted(self.virtual_capacity, gained, self.config.alpha * b, capacity);
    }

    /// `alpha gamma C (t - s)`: by how much the capacity grows from its last adaptation on.
    #[inline]
    fn gained(&self, now: Time) -> f64 {
        let elapsed = now.since(self.last_adaptation).as_secs_f64();
        self.config.alpha * self.config.gamma * self.capacity * elapsed
    }
}

/// `VQ <- max(VQ - C~ (t - s), 0)` (section 2).
fn drained(virtual_queue: f64, virtual_capacity: f64, elapsed: f64) -> f64 {
    (virtual_queue - virtual_capacity * elapsed).max(0.0)
}

/// `C~ <- max(min(C~ + alpha gamma C (t - s), C) - alpha b, 0)` (section 2).
fn adapted(virtual_capacity: f64, gained: f64, lost: f64, capacity: f64) -> f64 {
    ((virtual_capacity + gained).min(capacity) - lost).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::settle;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{arrivals, drive};
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_units::Span;

    const MARK: Verdict = Verdict::Mark(MarkReason::Early);

    /// On a link that sends a byte each microsecond.
    fn avq(config: AvqConfig) -> Avq {
        config.build(&Context { link_rate: BitRate::from_mbps(8), ..Context::for_tests() })
    }

    fn arrive(avq: &mut Avq, ecn: Ecn, micros: u64) -> Verdict {
        let now = Time::ZERO + Span::from_micros(micros);
        avq.on_arrival(&mut Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }, Backlog::EMPTY, now)
    }

    #[test]
    fn what_does_not_fit_into_the_virtual_queue_is_marked_or_dropped_and_not_put_into_it() {
        let limit = Some(Limit::Packets(3));
        let mut avq = avq(AvqConfig { virtual_limit: limit, alpha: 1e-9, ..AvqConfig::default() });
        assert_eq!(
            [(); 5].map(|()| arrive(&mut avq, Ecn::Ect0, 7)),
            [Verdict::Accept, Verdict::Accept, Verdict::Accept, MARK, MARK,]
        );
        assert_eq!(arrive(&mut avq, Ecn::NotEct, 7), Verdict::Drop(DropReason::Early));
        assert_eq!(avq.virtual_queue, 3000.0);
        // It is emptied at 0.8 bytes a microsecond: 1000 bytes in 1250.
        assert_eq!(arrive(&mut avq, Ecn::Ect0, 7 + 1249), MARK);
        assert_eq!(arrive(&mut avq, Ecn::Ect0, 7 + 1251), Verdict::Accept);
    }

    #[test]
    fn the_virtual_capacity_moves_by_the_excess_of_arrivals_and_not_above_the_links() {
        let mut avq = avq(AvqConfig { start: 0.5, ..AvqConfig::default() });
        arrive(&mut avq, Ecn::Ect0, 0);
        let begin = avq.virtual_capacity;
        assert_eq!(begin, 500_000.0 - 150.0);
        for millis in 1..=100 {
            arrive(&mut avq, Ecn::Ect0, 2000 * millis);
        }
        // For 0.2 s half of the link arrives: 0.15 (0.98 - 0.5) of it in each second.
        let expected = begin + 0.15 * 0.48 * 1e6 * 0.2;
        assert!((avq.virtual_capacity - expected).abs() < 1e-3, "{} {expected}", avq.virtual_capacity);
        arrive(&mut avq, Ecn::Ect0, 100_000_000);
        assert_eq!(avq.virtual_capacity, 1e6 - 150.0);
    }

    #[test]
    fn overload_that_does_not_answer_takes_the_virtual_capacity_to_zero() {
        let mut avq = avq(AvqConfig { alpha: 100.0, ..AvqConfig::default() });
        for number in 0..3000 {
            arrive(&mut avq, Ecn::Ect0, 500 * number);
        }
        assert_eq!(avq.virtual_capacity, 0.0);
        assert_eq!(arrive(&mut avq, Ecn::Ect0, 500 * 3000), MARK, "everything is notified then");
    }

    #[test]
    fn a_flood_without_ecn_that_took_the_virtual_capacity_to_zero_does_not_close_the_link_for_good() {
        // All at once: after 5334 of them the capacity is gone, and after 10000 the virtual queue is full.
        let mut avq = avq(AvqConfig { limit: Limit::Packets(10_000), ..AvqConfig::default() });
        let accepted = (0..12_000).filter(|_| arrive(&mut avq, Ecn::NotEct, 0) == Verdict::Accept).count();
        assert_eq!((accepted, avq.virtual_capacity), (10_000, 0.0));
        // Then a packet comes each 10 ms, a tenth of what the link carries.
        let verdicts = (1..=1000).map(|n| arrive(&mut avq, Ecn::NotEct, 10_000 * n));
        assert_eq!(verdicts.skip(100).filter(|verdict| *verdict != Verdict::Accept).count(), 0);
    }

    #[test]
    fn a_packet_that_is_dropped_virtually_does_not_adapt_and_its_time_goes_to_the_next() {
        let limit = Some(Limit::Bytes(Bytes::new(1500)));
        let mut avq = avq(AvqConfig { virtual_limit: limit, ..AvqConfig::default() });
        arrive(&mut avq, Ecn::NotEct, 0);
        let before = avq.virtual_capacity;
        assert_eq!(arrive(&mut avq, Ecn::NotEct, 100), Verdict::Drop(DropReason::Early));
        assert_eq!(avq.virtual_capacity, before);
        assert_eq!(arrive(&mut avq, Ecn::NotEct, 1000), Verdict::Accept);
        assert!((avq.virtual_capacity - (before + 0.15 * (980.0 - 1000.0))).abs() < 1e-9);
    }

    #[test]
    fn sources_that_answer_settle_at_the_part_of_the_link_that_should_be_used() {
        for gamma in [0.98, 0.8] {
            let config = AvqConfig {
                gamma,
                alpha: 1.0,
                virtual_limit: Some(Limit::Packets(20)),
                ..AvqConfig::default()
            };
            let settled = settle(&mut Fifo::new(avq(config)), None, 200, |marked| 1.5 - 2.5 * marked);
            assert!((settled.load - gamma).abs() < 0.005, "{settled:?}");
            assert!(settled.queue < 5.0 && settled.dropped == 0, "the real queue is short: {settled:?}");
        }
    }

    #[test]
    fn a_slower_link_bounds_the_virtual_capacity() {
        let limit = Limit::Time(Span::from_millis(10));
        let mut avq = avq(AvqConfig { limit, ..AvqConfig::default() });
        assert_eq!((avq.virtual_capacity, avq.virtual_bytes), (800_000.0, 10_000.0));
        avq.set_link_rate(BitRate::from_mbps(4), Time::ZERO);
        assert_eq!((avq.virtual_capacity, avq.virtual_bytes), (500_000.0, 5000.0));
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limits(
            vector in arrivals(3, 300), limit in 1u32..40, virtual_packets in 1u32..40, alpha in 1e-3..1e5f64,
            gamma in 0.1..=1.0f64,
        ) {
            let limit = Limit::Packets(limit);
            let virtual_limit = Some(Limit::Packets(virtual_packets));
            let config = AvqConfig { limit, virtual_limit, gamma, alpha, ..AvqConfig::default() };
            let mut fifo = Fifo::new(avq(config));
            let most = QueueLimit::new(limit, BitRate::from_mbps(8));
            drive(&mut fifo, &vector, 8, |waiting| assert!(!most.exceeded_by(waiting)));
            let holds = fifo.variable("virtual_queue_bytes").expect("it has one");
            prop_assert!((0.0..=1000.0 * f64::from(virtual_packets)).contains(&holds));
            prop_assert!((0.0..=8e6).contains(&fifo.variable("virtual_capacity_bps").expect("it has one")));
        }
    }
}
