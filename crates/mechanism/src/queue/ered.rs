//! Enhanced RED: one FIFO for packets with and without a promise. Early dropping takes unmarked packets only; a marked packet
//! is lost only where the buffer is full. So promises hold without queues of their own and without reordering, as long as
//! the thresholds leave room for the marked packets that may come at once ([`admits`]).
//!
//! Source: Feng, "Improving Internet congestion control and queue management algorithms", 1999, section 5.2.2; fair ERED:
//! section 6.5.2; the other ways that section 5.2.2 names are options.
//! Deviations:
//! - "Marked" is a green codepoint ([`Colour::Green`]): `AFx1`, expedited forwarding, network control. Yellow is not a promise.
//! - "The average queue length" counts all packets (catalogue, section 3); [`Counted::Unmarked`] leaves marked ones out. A
//!   marked packet is a sample of the average too.
//! - Fair ERED is not written out: FRED's tests are applied to unmarked packets (catalogue, section 3). What a flow has
//!   waiting counts as the average does: all its packets, so that a flow gets unmarked packets through only as far as marked
//!   ones leave room below its share; or, with [`Counted::Unmarked`], those without a promise.
//! - "Absolute thresholds" bound the present queue, at `max_th`; early dropping goes on by the average.
//! - A packet of a transport with ECN is dropped, as in the thesis, unless [`EredConfig::ecn`] says otherwise.
//! - The condition is printed with `<` (section 5.2.2) and with `<=` (section 5.3.2); the second is taken: what fits, fits.

use alloc::format;

use tidegate_packet::{Backlog, Colour, DropReason, Packet};
use tidegate_parameters::{Report, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Time};

use super::fred::{Fred, FredConfig, FredVariant};
use super::limit::in_packets;
use super::red::{GapLaw, QueueUnit, Red, RedConfig};
use super::{QueueLimit, QueueManager, Verdict};
use crate::{Context, Variable};

words! {
    /// Which packets the average queue counts, and with FRED's tests what a flow has waiting.
    pub enum Counted {
        /// All that wait.
        All = "all",
        /// Those that are not green.
        Unmarked = "unmarked",
    }
}

parameters! {
    /// # Enhanced RED
    ///
    /// One queue for packets with and without a promise: early dropping takes unmarked packets only, a marked (green) one is
    /// lost only where the queue is full.
    ///
    /// Source: thesis of Feng, section 5.2.2.
    #[derive(Copy)]
    pub struct EredConfig {
        /// How much may wait. Source: thesis of Feng, section 5.3.1 (100 KB of 1 KB packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Average queue at which random notification begins, in packets or bytes. Below it no packet is dropped early. Source:
        /// thesis of Feng, section 5.3.1 (20 KB).
        min: Limit = Limit::Packets(20);
        /// Average queue from which on every unmarked packet is notified. Source: thesis of Feng, section 5.3.1 (80 KB).
        max: Limit = Limit::Packets(80);
        /// Probability of a notification as the average reaches `max`. Source: thesis of Feng, section 5.3.1.
        max_p: f64 = 0.02 => bound::PROBABILITY;
        /// Weight of the present queue in its average. Source: assumed, the RED paper's.
        weight: f64 = 0.002 => bound::GAIN;
        /// What the average counts. In bytes an acknowledgment takes the place that it has; with `fair` it is packets. Source:
        /// ns; the thesis of Feng has thresholds in KB of 1 KB packets.
        mode: QueueUnit = QueueUnit::Packets;
        /// Size of a typical packet. Source: thesis of Feng, section 5.3.1 (1 KB).
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The distribution of the gaps between notifications. Source: thesis of Feng, Fig. 4.7.
        gap: GapLaw = GapLaw::Paper;
        /// Whether packets of transports with ECN are marked as congested instead of dropped. Source: thesis of Feng, section
        /// 5.2.2 (dropped).
        ecn: bool = false;
        /// Which packets the average counts, and with `fair` what a flow has waiting. Source: thesis of Feng, section 5.2.2 ("the
        /// average queue length").
        counted: Counted = Counted::All;
        /// Whether unmarked packets are also dropped while the present queue is at `max` or above. Source: thesis of Feng,
        /// section 5.2.2 (absolute thresholds; off in its experiments).
        absolute: bool = false;
        /// How much of `limit` unmarked packets may fill; the rest is reserved for marked ones. Default: all. Source: thesis of
        /// Feng, section 5.2.2 (a reserved portion; none in its experiments).
        unmarked_limit: Option<Limit> = None => bound::QUEUE;
        /// Whether unmarked packets are tested by FRED instead of RED: fair ERED. Source: thesis of Feng, section 6.5.2.
        fair: bool = false;
        /// With `fair`: unmarked packets that each flow may have waiting without being dropped at random. Source: FRED's.
        min_q: u32 = 2;
        /// With `fair`: what happens above `max`. Source: FRED's.
        variant: FredVariant = FredVariant::Basic;
    }
    check EredConfig::check_together;
}

impl EredConfig {
    fn check_together(&self, report: &mut Report<'_>) {
        match self.thresholds() {
            Some((min, max)) if min < 0.0 || min.is_nan() || min >= max || (self.fair && min <= 0.0) => {
                report.say("min", format!("min ({min} packets) is not between 0 and max ({max})"), "");
            }
            Some(_) => {}
            None => {
                report.say("min", "min and max are not in packets or bytes", "like `20p`, or like `20kB`");
            }
        }
        if self.fair && self.mode == QueueUnit::Bytes {
            report.say("mode", "FRED's tests count packets", "leave out `mode` or `fair`");
        }
        if !self.fair {
            let usual = Self::default();
            report.idle("min_q", self.min_q != usual.min_q, "fair = true");
            report.idle("variant", self.variant != usual.variant, "fair = true");
        }
    }

    /// `min` and `max` in packets; none where they are given in time.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        Some((in_packets(self.min, self.mean_packet)?, in_packets(self.max, self.mean_packet)?))
    }
}

impl EredConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Ered {
        let (_, max_th) = self.thresholds().expect("checked: thresholds are in packets or bytes");
        let tests = if self.fair {
            Tests::Fred(
                FredConfig {
                    limit: self.limit,
                    min: Some(self.min),
                    max: Some(self.max),
                    max_p: self.max_p,
                    weight: self.weight,
                    min_q: self.min_q,
                    variant: self.variant,
                    mean_packet: self.mean_packet,
                    ecn: self.ecn,
                }
                .build(context),
            )
        } else {
            Tests::Red(
                RedConfig {
                    limit: self.limit,
                    min: self.min,
                    max: self.max,
                    max_p: self.max_p,
                    weight: self.weight,
                    mode: self.mode,
                    mean_packet: self.mean_packet,
                    gap: self.gap,
                    ecn: self.ecn,
                    mark_forced: self.ecn,
                    ..RedConfig::default()
                }
                .build(context),
            )
        };
        let link = context.link_rate;
        Ered {
            tests,
            unmarked: Backlog::EMPTY,
            limit: QueueLimit::new(self.limit, link),
            unmarked_limit: self.unmarked_limit.map(|limit| QueueLimit::new(limit, link)),
            max_th,
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Ered {
    tests: Tests,
    /// Unmarked packets that wait.
    unmarked: Backlog,
    limit: QueueLimit,
    unmarked_limit: Option<QueueLimit>,
    /// `max`, packets.
    max_th: f64,
    config: EredConfig,
}

#[derive(Clone, Debug)]
enum Tests {
    Red(Red),
    Fred(Fred),
}

/// Whether a packet carries a promise.
pub(super) const fn is_marked(packet: &Packet) -> bool {
    matches!(packet.dscp.colour(), Colour::Green)
}

impl QueueManager for Ered {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("average_queue_packets", "The average queue of the manager, in packets."),
                Variable::new(
                    "marking_probability",
                    "The probability of the last arrival of an unmarked packet.",
                ),
                Variable::new("unmarked_packets", "Packets that wait without a promise."),
            ]
        }
    }

    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let counted = if self.config.counted == Counted::All { queue } else { self.unmarked };
        if let Tests::Red(red) = &mut self.tests {
            red.observe(packet, counted, now);
        }
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if is_marked(packet) {
            match &mut self.tests {
                Tests::Red(red) => red.join_untested(),
                Tests::Fred(fred) => {
                    fred.join_untested(packet, self.config.counted == Counted::All, counted, now);
                }
            }
            return Verdict::Accept;
        }
        if self.unmarked_limit.is_some_and(|limit| !limit.admits(self.unmarked, packet)) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if self.config.absolute && self.measure(counted) >= self.max_th {
            return Verdict::Drop(DropReason::Forced);
        }
        let verdict = match &mut self.tests {
            Tests::Red(red) => red.decide(packet, queue, now),
            Tests::Fred(fred) => fred.on_arrival(packet, counted, now),
        };
        if !matches!(verdict, Verdict::Drop(_)) {
            self.unmarked.add(packet);
        }
        verdict
    }

    fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
        let marked = is_marked(packet);
        if !marked {
            self.unmarked.remove(packet);
        }
        let counted = if self.config.counted == Counted::All { queue } else { self.unmarked };
        match &mut self.tests {
            Tests::Red(red) => red.on_departure(packet, counted, now),
            Tests::Fred(fred) if marked && self.config.counted == Counted::Unmarked => {
                fred.leave_uncounted(counted);
            }
            Tests::Fred(fred) => fred.on_departure(packet, counted, now),
        }
    }

    fn on_idle(&mut self, now: Time) {
        match &mut self.tests {
            Tests::Red(red) => red.on_idle(now),
            Tests::Fred(fred) => fred.on_idle(now),
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.limit.set_link_rate(rate);
        if let Some(limit) = &mut self.unmarked_limit {
            limit.set_link_rate(rate);
        }
        match &mut self.tests {
            Tests::Red(red) => red.set_link_rate(rate, now),
            Tests::Fred(fred) => fred.set_link_rate(rate, now),
        }
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "unmarked_packets" {
            return Some(f64::from(self.unmarked.packets));
        }
        match &self.tests {
            Tests::Red(red) => red.variable(name),
            Tests::Fred(fred) => fred.variable(name),
        }
    }
}

impl Ered {
    /// What the thresholds are compared with.
    fn measure(&self, queue: Backlog) -> f64 {
        match &self.tests {
            Tests::Red(red) => red.measure(queue),
            Tests::Fred(_) => f64::from(queue.packets),
        }
    }
}

/// Whether marked packets of sources with the peak rates `peak_rates`, all at once, find room beside the unmarked ones:
/// `(sum r_p - L) max_th / L <= B - max_th` (Feng, sections 5.2.2 and 5.3.2), with threshold and buffer in bytes.
pub fn admits(peak_rates: &[BitRate], link: BitRate, max_th_bytes: u64, buffer_bytes: u64) -> bool {
    admission_slack(peak_rates, link, max_th_bytes, buffer_bytes) >= 0
}

/// What [`admits`] compares: `B - max_th` less `(sum r_p - L) max_th / L`, times the link's rate in bit/s so that it is whole.
fn admission_slack(peak_rates: &[BitRate], link: BitRate, max_th_bytes: u64, buffer_bytes: u64) -> i128 {
    let total: i128 = peak_rates.iter().map(|rate| i128::from(rate.as_bps())).sum();
    let link_bps = i128::from(link.as_bps());
    let max_th = i128::from(max_th_bytes);
    (i128::from(buffer_bytes) - max_th).saturating_mul(link_bps) - (total - link_bps).saturating_mul(max_th)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{arrivals, drive};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Dscp, FlowId};
    use tidegate_units::Span;

    const FULL: Backlog = Backlog { packets: 100, bytes: 100_000 };
    const LONG: Backlog = Backlog { packets: 99, bytes: 99_000 };

    fn packet(dscp: Dscp) -> Packet {
        Packet { dscp, ..Packet::new(0, FlowId(0), 1000) }
    }

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// With an average of some 95 packets, by `n` marked arrivals at a queue that long.
    fn loaded(config: EredConfig) -> Ered {
        let mut ered = EredConfig { weight: 0.02, ..config }.build(&Context::for_tests());
        for k in 0..300 {
            assert_eq!(ered.on_arrival(&mut packet(Dscp::AF11), LONG, ms(k)), Verdict::Accept);
        }
        ered
    }

    #[test]
    fn above_the_thresholds_unmarked_packets_are_dropped_and_marked_ones_join() {
        let mut ered = loaded(EredConfig::default());
        for _ in 0..50 {
            let unmarked = ered.on_arrival(&mut packet(Dscp::BEST_EFFORT), LONG, ms(300));
            assert_eq!(unmarked, Verdict::Drop(DropReason::Forced));
            assert_eq!(ered.on_arrival(&mut packet(Dscp::AF11), LONG, ms(300)), Verdict::Accept);
        }
    }

    #[test]
    fn a_marked_packet_is_lost_to_a_full_buffer_only() {
        let mut ered = EredConfig::default().build(&Context::for_tests());
        let full = ered.on_arrival(&mut packet(Dscp::AF11), FULL, ms(0));
        assert_eq!(full, Verdict::Drop(DropReason::Overflow));
        assert_eq!(ered.on_arrival(&mut packet(Dscp::AF11), LONG, ms(0)), Verdict::Accept);
    }

    #[test]
    fn yellow_and_red_promise_nothing() {
        let mut ered = loaded(EredConfig::default());
        let yellow = Dscp::assured(1, Colour::Yellow);
        assert_eq!(ered.on_arrival(&mut packet(yellow), LONG, ms(300)), Verdict::Drop(DropReason::Forced));
    }

    #[test]
    fn an_average_of_unmarked_packets_ignores_a_queue_of_marked_ones() {
        let mut ered = loaded(EredConfig { counted: Counted::Unmarked, ..EredConfig::default() });
        let verdict = ered.on_arrival(&mut packet(Dscp::BEST_EFFORT), LONG, ms(300));
        assert_eq!((verdict, ered.variable("average_queue_packets")), (Verdict::Accept, Some(0.0)));
    }

    #[test]
    fn an_absolute_threshold_acts_before_the_average_does() {
        for (absolute, expected) in [(false, Verdict::Accept), (true, Verdict::Drop(DropReason::Forced))] {
            let config = EredConfig { absolute, ..EredConfig::default() };
            let mut ered = config.build(&Context::for_tests());
            let at = Backlog { packets: 80, bytes: 80_000 };
            assert_eq!(ered.on_arrival(&mut packet(Dscp::BEST_EFFORT), at, ms(0)), expected);
        }
    }

    #[test]
    fn a_reserved_share_of_the_buffer_stays_free_of_unmarked_packets() {
        let config = EredConfig { unmarked_limit: Some(Limit::Packets(10)), ..EredConfig::default() };
        let mut ered = config.build(&Context::for_tests());
        let mut queue = Backlog::EMPTY;
        for n in 0..20u64 {
            let mut one = packet(Dscp::BEST_EFFORT);
            let verdict = ered.on_arrival(&mut one, queue, ms(0));
            let expected = if n < 10 { Verdict::Accept } else { Verdict::Drop(DropReason::Overflow) };
            assert_eq!(verdict, expected, "packet {n}");
            if n < 10 {
                queue.add(&one);
            }
        }
        assert_eq!(ered.on_arrival(&mut packet(Dscp::AF11), queue, ms(0)), Verdict::Accept);
        let gone = packet(Dscp::BEST_EFFORT);
        queue.remove(&gone);
        ered.on_departure(&gone, queue, ms(1));
        assert_eq!(ered.on_arrival(&mut packet(Dscp::BEST_EFFORT), queue, ms(1)), Verdict::Accept);
    }

    #[test]
    fn fair_ered_holds_an_unmarked_flow_to_its_share_and_leaves_marked_ones_alone() {
        let mut ered = EredConfig { fair: true, ..EredConfig::default() }.build(&Context::for_tests());
        let mut queue = Backlog::EMPTY;
        let mut send = |fair: &mut Ered, flow: u32, dscp| {
            let mut one = Packet { dscp, ..Packet::new(0, FlowId(flow), 1000) };
            let verdict = fair.on_arrival(&mut one, queue, ms(0));
            if verdict == Verdict::Accept {
                queue.add(&one);
            }
            verdict
        };
        let accepted = (0..60).filter(|_| send(&mut ered, 7, Dscp::BEST_EFFORT) == Verdict::Accept).count();
        assert!(accepted <= 20, "{accepted}: at most min_th of one flow");
        assert!((0..60).all(|_| send(&mut ered, 8, Dscp::AF11) == Verdict::Accept));
        assert_eq!(send(&mut ered, 9, Dscp::BEST_EFFORT), Verdict::Accept);
    }

    #[test]
    fn the_admission_condition_is_that_of_the_thesis() {
        let mbps = BitRate::from_mbps;
        // (12 - 10) 80 / 10 = 16 <= 20, (12.5 - 10) 80 / 10 = 20 <= 20, (13 - 10) 80 / 10 = 24 > 20.
        assert!(admits(&[mbps(5), mbps(7)], mbps(10), 80_000, 100_000));
        assert!(admits(&[BitRate::from_bps(12_500_000)], mbps(10), 80_000, 100_000));
        assert!(!admits(&[mbps(13)], mbps(10), 80_000, 100_000));
        assert!(admits(&[], mbps(10), 80_000, 100_000));
    }

    proptest! {
        /// The thesis's argument: with the present queue as threshold, marked packets that come no faster than admitted
        /// are never lost, whatever the unmarked ones do.
        #[test]
        fn admitted_marked_packets_are_never_lost_behind_absolute_thresholds(
            burst in 1u32..2000,
            unmarked in prop::collection::vec(0u32..3, 1..400),
        ) {
            // 12 of 10 Mbit/s marked: in 100 ticks of one packet time of the link come 120. The condition leaves 4 packets.
            let config = EredConfig { absolute: true, ..EredConfig::default() };
            let mut ered = config.build(&Context::for_tests());
            let mut waiting: Vec<Packet> = Vec::new();
            let mut queue = Backlog::EMPTY;
            for (tick, extra) in unmarked.iter().enumerate() {
                let at = ms(tick as u64);
                // The peak lasts for as long as unmarked packets take to drain: max_th / L, 80 ticks of each `burst`.
                let bursting = tick as u32 >= burst % 400 && (tick as u32) < burst % 400 + 80;
                let marked = if bursting { 1 + u32::from(tick % 5 == 0) } else { 0 };
                for n in 0..marked + extra {
                    let dscp = if n < marked { Dscp::AF11 } else { Dscp::BEST_EFFORT };
                    let mut one = packet(dscp);
                    let verdict = ered.on_arrival(&mut one, queue, at);
                    prop_assert!(n >= marked || verdict == Verdict::Accept);
                    if verdict == Verdict::Accept {
                        queue.add(&one);
                        waiting.push(one);
                    }
                }
                if !waiting.is_empty() {
                    let gone = waiting.remove(0);
                    queue.remove(&gone);
                    ered.on_departure(&gone, queue, at);
                }
            }
        }

        #[test]
        fn every_packet_leaves_or_is_dropped_and_unmarked_ones_are_counted_right(
            input in arrivals(6, 400), fair: bool, of_all: bool,
        ) {
            let counted = if of_all { Counted::All } else { Counted::Unmarked };
            let config = EredConfig {
                fair, counted, weight: 0.1, min: Limit::Packets(3), max: Limit::Packets(9), limit: Limit::Packets(12), ..EredConfig::default()
            };
            let mut fifo = Fifo::new(Painted(config.build(&Context::for_tests())));
            drive(&mut fifo, &input, 8, |waiting| assert!(waiting.packets <= 12));
            prop_assert_eq!(fifo.variable("unmarked_packets"), Some(0.0));
        }
    }

    /// Marks the packets of odd flows as they come.
    struct Painted(Ered);

    impl QueueManager for Painted {
        fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
            packet.dscp = if packet.flow.0 % 2 == 1 { Dscp::AF11 } else { Dscp::BEST_EFFORT };
            self.0.on_arrival(packet, queue, now)
        }
        fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
            self.0.on_departure(packet, queue, now);
        }
        fn on_idle(&mut self, now: Time) {
            self.0.on_idle(now);
        }
        fn variable(&self, name: &str) -> Option<f64> {
            self.0.variable(name)
        }
    }
}
