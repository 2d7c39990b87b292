//! Core-stateless fair queueing, the core router: drops each flow down to the fair share of the link with one FIFO and no
//! state per flow, because the edge has written each flow's rate on its packets.
//!
//! Source: Stoica, Shenker & Zhang, "Core-stateless fair queueing", SIGCOMM 1998, section 3 and Fig. 3; the overflow rule
//! and the buffer threshold from section 3.3 and the authors' ns-2 code.
//! Deviations:
//! - alpha = 0 means "no restriction" (the formula would drop everything). So it starts; and so it is again after an
//!   uncongested window that ends with the queue below the threshold (authors' code).
//! - From there, restriction begins when the queue reaches the threshold, with the largest label seen since; with C/2 if
//!   no packet carried one. Until then the link does not count as congested (authors' code).
//! - Arrivals at one instant are one arrival of the sum to the estimators (T = 0 has no formula).
//! - The overflow rule lowers alpha by 1 % per lost packet, not below 75 % of what it was when the window began; that is
//!   28 times (the authors' limit of 29 goes to 74.7 %).
//! - A packet without a label (zero) is never dropped for fairness, and counts in A and F. Where such packets are more than the link
//!   carries, alpha would fall without end, and packets with labels would be shut out for long: the formula sets it to one largest
//!   packet per `averaging` at least.
//! - Labels are whole bytes per second of 32 bits: a flow of more than 34 Gbit/s counts as one of that.
//! - Overflow counts as accepted in F: Fig. 3 estimates before it enqueues.

use alloc::format;

use tidegate_packet::{Backlog, DropReason, Packet, RateLabel};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Limit, Span, Time};

use super::{QueueLimit, QueueManager, Verdict};
use crate::meter::sample_weight;
use crate::random::Substream;
use crate::{Context, Variable};

parameters! {
    /// # Core-Stateless Fair Queueing
    ///
    /// Drops packets with a probability that follows from the rate that the edge wrote on them and from an estimate of the
    /// fair share of the link. It needs edges that label: `labels` in a domain.
    ///
    /// Source: Stoica, Shenker and Zhang 1998.
    #[derive(Copy)]
    pub struct CsfqConfig {
        /// How much may wait. Source: NBP, Table 1.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Packets waiting below which the link is not restricted. Source: assumed, a quarter of the limit as in the authors'
        /// simulations (16 of 64).
        threshold: Limit = Limit::Packets(25) => bound::in_packets("25p");
        /// Time constant `K_alpha` of the averages of the arriving and of the accepted rate. Source: the authors' simulations.
        averaging: Span = Span::from_millis(100) => bound::DURATION;
        /// `K_c`: how long the link must stay congested, or uncongested, before the fair share follows. Source: the authors'
        /// simulations.
        window: Span = Span::from_millis(100) => bound::DURATION;
    }
    check |config, report| {
        if let (Limit::Packets(threshold), Limit::Packets(limit)) = (config.threshold, config.limit)
            && threshold > limit
        {
            let message = format!("the threshold ({}) is above the limit ({})", config.threshold, config.limit);
            report.say("threshold", message, "");
        }
    };
}

impl CsfqConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Csfq {
        let Limit::Packets(threshold_packets) = self.threshold else {
            unreachable!("checked: the threshold is in packets")
        };
        assert!(!self.averaging.is_zero() && !self.window.is_zero(), "the constants are lengths of time");
        Csfq {
            alpha: 0.0,
            capacity: context.link_rate.as_bytes_per_second_f64(),
            alpha_least: f64::from(context.mtu_bytes) / self.averaging.as_secs_f64(),
            rates: Rates::new(self.averaging),
            congested: false,
            window_start: Time::ZERO,
            largest_label: 0.0,
            cut_start: Time::ZERO,
            cut_floor: 0.0,
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            threshold_packets,
            config: *self,
        }
    }
}

/// See the module. Rates are in bytes per second, as labels are.
#[derive(Clone, Debug)]
pub struct Csfq {
    /// The fair share; zero for no restriction.
    alpha: f64,
    /// C.
    capacity: f64,
    /// Alpha is no less while it restricts at all.
    alpha_least: f64,
    rates: Rates,
    congested: bool,
    window_start: Time,
    /// `tmp_alpha`: of this window.
    largest_label: f64,
    /// Where the overflow rule's window began, and how far it may lower alpha.
    cut_start: Time,
    cut_floor: f64,
    limit: QueueLimit,
    random: Substream,
    threshold_packets: u32,
    config: CsfqConfig,
}

/// A and F: exponential averages of the same arrivals, all and accepted, with one weight.
#[derive(Clone, Debug)]
struct Rates {
    arriving: f64,
    accepted: f64,
    pending_arriving: u64,
    pending_accepted: u64,
    last: Option<Time>,
    per_k: f64,
}

impl QueueManager for Csfq {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("fair_share_bps", "The fair share that the manager estimates.")] }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let label = packet.label.bytes_per_second();
        let p = drop_probability(self.alpha, label);
        let dropped = self.random.chance(p);
        self.estimate(packet.wire_bytes, label, dropped, queue, now);
        if dropped {
            return Verdict::Drop(DropReason::FairShare);
        }
        if p > 0.0 && self.alpha > 0.0 {
            packet.label = RateLabel::from_bytes_per_second(self.alpha.max(1.0));
        }
        if self.limit.admits(queue, packet) {
            return Verdict::Accept;
        }
        self.cut(now);
        Verdict::Drop(DropReason::Overflow)
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.capacity = rate.as_bytes_per_second_f64();
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "fair_share_bps" => Some(self.alpha * 8.0),
            "congested" => Some(f64::from(u8::from(self.congested))),
            "arrival_bps" => Some(self.rates.arriving * 8.0),
            "accepted_bps" => Some(self.rates.accepted * 8.0),
            _ => None,
        }
    }
}

impl Csfq {
    /// `estimate_alpha` (Fig. 3).
    fn estimate(&mut self, wire_bytes: u32, label: f64, dropped: bool, queue: Backlog, now: Time) {
        if !self.rates.on_arrival(wire_bytes, !dropped, now) {
            return;
        }
        let long_queue = queue.packets >= self.threshold_packets;
        if self.alpha == 0.0 {
            if !long_queue {
                self.largest_label = self.largest_label.max(label);
                return;
            }
            let alpha = first_fair_share(self.largest_label, self.capacity);
            self.restrict(alpha, now);
            self.largest_label = 0.0;
        }
        let window_over = now.since(self.window_start) >= self.config.window;
        if self.rates.arriving >= self.capacity {
            if !self.congested {
                self.congested = true;
                self.window_start = now;
            } else if window_over {
                let alpha = next_fair_share(self.alpha, self.capacity, self.rates.accepted);
                self.restrict(alpha.max(self.alpha_least.min(self.capacity)), now);
            }
        } else if self.congested {
            self.congested = false;
            self.window_start = now;
            self.largest_label = 0.0;
        } else if !window_over {
            self.largest_label = self.largest_label.max(label);
        } else {
            let alpha = if long_queue { self.largest_label } else { 0.0 };
            self.restrict(alpha, now);
            self.largest_label = 0.0;
        }
    }

    fn restrict(&mut self, alpha: f64, now: Time) {
        self.alpha = alpha;
        self.window_start = now;
        self.start_cuts(now);
    }

    fn start_cuts(&mut self, now: Time) {
        self.cut_start = now;
        self.cut_floor = 0.75 * self.alpha;
    }

    /// A packet found no room: alpha was too high (section 3.3).
    fn cut(&mut self, now: Time) {
        if now.since(self.cut_start) > self.config.window {
            self.start_cuts(now);
        }
        let lower = 0.99 * self.alpha;
        if lower >= self.cut_floor {
            self.alpha = lower;
        }
    }
}

impl Rates {
    fn new(k: Span) -> Self {
        Self {
            arriving: 0.0,
            accepted: 0.0,
            pending_arriving: 0,
            pending_accepted: 0,
            last: None,
            per_k: 1.0 / k.as_secs_f64(),
        }
    }

    /// Whether time has passed and the rates are new.
    #[inline]
    fn on_arrival(&mut self, wire_bytes: u32, accepted: bool, now: Time) -> bool {
        self.pending_arriving += u64::from(wire_bytes);
        self.pending_accepted += if accepted { u64::from(wire_bytes) } else { 0 };
        let gap = match self.last {
            None => 0.0,
            Some(last) => now.since(last).as_secs_f64(),
        };
        self.last = Some(now);
        if gap == 0.0 {
            return false;
        }
        let weight = sample_weight(gap, self.per_k);
        self.arriving += weight * (self.pending_arriving as f64 / gap - self.arriving);
        self.accepted += weight * (self.pending_accepted as f64 / gap - self.accepted);
        (self.pending_arriving, self.pending_accepted) = (0, 0);
        true
    }
}

/// `p = max(0, 1 - alpha / label)` (Stoica et al., Fig. 3); no restriction at alpha 0, none without a label.
fn drop_probability(alpha: f64, label: f64) -> f64 {
    if alpha > 0.0 && label > alpha { 1.0 - alpha / label } else { 0.0 }
}

/// `alpha C / F`, at most C (Stoica et al., Fig. 3).
fn next_fair_share(alpha: f64, capacity: f64, accepted: f64) -> f64 {
    // F = 0 gives infinity, hence C.
    (alpha * capacity / accepted).min(capacity)
}

/// What a link that was not restricted begins with.
fn first_fair_share(largest_label: f64, capacity: f64) -> f64 {
    if largest_label > 0.0 { largest_label } else { capacity / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::CsfqLabellerConfig;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{Counted, arrivals, drive};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;

    fn csfq() -> Csfq {
        authors().build(&Context::for_tests())
    }

    fn labelled(label: f64) -> Packet {
        Packet { label: RateLabel::from_bytes_per_second(label), ..Packet::new(0, FlowId(0), 1000) }
    }

    /// Flows of constant rates (in fair shares of 10 Mbit/s) through labellers and one link; what each got, in shares.
    fn shares(offered: &[f64], seconds: u64) -> Vec<f64> {
        let mut labeller = CsfqLabellerConfig::default().build();
        let mut link = Fifo::new(csfq());
        let mut out = Counted::default();
        let fair = 1.25e6 / offered.len() as f64;
        let gaps: Vec<f64> = offered.iter().map(|share| 1000.0 / (share * fair) * 1e9).collect();
        // Phases that no two flows share.
        let mut due: Vec<f64> =
            gaps.iter().enumerate().map(|(i, gap)| gap * (i as f64 + 0.37) / 11.0).collect();
        let (end, warm) = (seconds * 1_000_000_000, 3_000_000_000);
        let mut got = vec![0u64; offered.len()];
        let mut free_at = 0u64;
        loop {
            let (flow, at) =
                due.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("flows");
            let now = at as u64;
            while free_at <= now && !link.backlog().is_empty() {
                let packet = link.dequeue(Time::from_nanos(free_at), &mut out).expect("it waits");
                free_at += 800_000;
                if free_at > warm {
                    got[packet.flow.0 as usize] += 1;
                }
            }
            if now > end {
                break;
            }
            free_at = free_at.max(now);
            let mut packet = Packet::new(0, FlowId(flow as u32), 1000);
            labeller.on_arrival(&mut packet, Time::from_nanos(now));
            link.enqueue(packet, Time::from_nanos(now), &mut out);
            due[flow] += gaps[flow];
        }
        got.iter().map(|&n| n as f64 * 1000.0 / (fair * (end - warm) as f64 / 1e9)).collect()
    }

    /// As in the authors' simulations: 16 of 64 packets.
    fn authors() -> CsfqConfig {
        CsfqConfig { limit: Limit::Packets(64), threshold: Limit::Packets(16), ..CsfqConfig::default() }
    }

    #[test]
    fn a_flow_that_sends_ten_times_its_share_gets_little_more_than_one() {
        let mut offered = vec![1.2; 9];
        offered.push(10.0);
        let got = shares(&offered, 30);
        assert!(got.iter().all(|share| (0.85..1.15).contains(share)), "{got:?}");
    }

    #[test]
    fn flows_below_the_share_lose_nothing_and_the_others_divide_the_rest() {
        // 5 flows at half a share leave 7.5 shares for 5 flows.
        let offered = [0.5, 0.5, 0.5, 0.5, 0.5, 3.0, 3.0, 3.0, 3.0, 9.0];
        let got = shares(&offered, 30);
        assert!(got[..5].iter().all(|share| (0.45..0.52).contains(share)), "{got:?}");
        assert!(got[5..].iter().all(|share| (1.3..1.7).contains(share)), "{got:?}");
    }

    #[test]
    fn an_uncongested_link_drops_nothing() {
        let got = shares(&[0.3, 0.6, 2.0, 0.7], 20);
        assert!(got.iter().zip([0.3, 0.6, 2.0, 0.7]).all(|(got, offered)| (got - offered).abs() < 0.01));
    }

    #[test]
    fn restriction_begins_only_with_a_long_queue() {
        let mut csfq = csfq();
        let mut ask = |k: u64, packets| {
            let queue = Backlog { packets, bytes: 1000 * u64::from(packets) };
            let verdict = csfq.on_arrival(&mut labelled(5e6), queue, Time::ZERO + Span::from_micros(100 * k));
            (verdict, csfq.alpha, csfq.congested)
        };
        for k in 0..2000 {
            assert_eq!(ask(k, 15), (Verdict::Accept, 0.0, false));
        }
        assert_eq!(ask(2001, 16), (Verdict::Accept, 5e6, true));
        // 10 MB/s arrive at 1.25 MB/s: after a window alpha is at most C, and three of four packets are too many.
        let dropped = (2002..6000).filter(|&k| ask(k, 16).0 != Verdict::Accept).count();
        assert!(dropped > 2000);
        assert!(csfq.alpha <= 1.25e6);
    }

    #[test]
    fn without_labels_restriction_begins_at_half_the_link() {
        let mut csfq = csfq();
        let queue = Backlog { packets: 16, bytes: 16_000 };
        for k in 0..2 {
            csfq.on_arrival(&mut labelled(0.0), queue, Time::ZERO + Span::from_micros(k));
        }
        assert_eq!(csfq.alpha, 0.625e6);
    }

    #[test]
    fn what_is_forwarded_under_restriction_carries_the_fair_share() {
        let mut csfq = csfq();
        csfq.alpha = 100e3;
        let labels: Vec<_> = (0..1000)
            .filter_map(|_| {
                let mut packet = labelled(400e3);
                let verdict = csfq.on_arrival(&mut packet, Backlog::EMPTY, Time::ZERO);
                (verdict == Verdict::Accept).then_some(packet.label)
            })
            .collect();
        assert!(labels.iter().all(|&label| label == RateLabel(100_000)));
        // One in four passes; five standard deviations are 68.
        assert!(labels.len().abs_diff(250) < 68, "{}", labels.len());
        let mut slow = labelled(99e3);
        assert_eq!(csfq.on_arrival(&mut slow, Backlog::EMPTY, Time::ZERO), Verdict::Accept);
        assert_eq!(slow.label, RateLabel(99_000));
    }

    #[test]
    fn overflow_lowers_the_share_by_one_percent_each_but_a_quarter_per_window_at_most() {
        let mut csfq = csfq();
        csfq.restrict(1e6, Time::ZERO);
        let full = Backlog { packets: 64, bytes: 64_000 };
        for _ in 0..100 {
            let verdict = csfq.on_arrival(&mut labelled(1.0), full, Time::ZERO);
            assert_eq!(verdict, Verdict::Drop(DropReason::Overflow));
        }
        assert!((csfq.alpha - 1e6 * libm::pow(0.99, 28.0)).abs() < 1e-6);
    }

    #[test]
    fn the_share_is_scaled_by_capacity_over_accepted_and_never_above_capacity() {
        assert_eq!(next_fair_share(10.0, 100.0, 200.0), 5.0);
        assert_eq!(next_fair_share(60.0, 100.0, 50.0), 100.0);
        assert_eq!(next_fair_share(10.0, 100.0, 0.0), 100.0);
    }

    proptest! {
        /// The excess of a flow over a constant fair rate, over any interval, is at most
        /// `alpha K (1 + ln(R / alpha)) + l_max`, with R its peak rate (Stoica et al., Theorem 1): here for the expected
        /// service of arbitrary arrivals.
        #[test]
        fn excess_service_is_bounded_whatever_the_arrivals(
            packets in prop::collection::vec((40u32..=1500, prop_oneof![4 => Just(0u64), 1 => 0..300_000_000u64]), 1..500),
            alpha in 1e3..1e5f64
        ) {
            let peak = 1e6;
            let (k, l_max) = (0.1, 1500.0);
            let mut labeller = CsfqLabellerConfig::default().build();
            let mut now = Time::ZERO;
            let mut service = 0.0;
            let excess_max = alpha * k * (1.0 + libm::log(peak / alpha)) + l_max;
            for (size, pause) in packets {
                // A packet takes its time at the peak rate, and then the flow may pause.
                now += Span::from_nanos(u64::from(size) * 1000 + pause);
                let mut packet = Packet::new(0, FlowId(0), size);
                labeller.on_arrival(&mut packet, now);
                service += f64::from(size) * (1.0 - drop_probability(alpha, packet.label.bytes_per_second()));
                let excess = service - alpha * now.as_secs_f64();
                prop_assert!(excess <= excess_max * 1.001, "{excess} > {excess_max}");
            }
        }

        #[test]
        fn any_arrivals_keep_the_invariants(vector in arrivals(4, 400), threshold in 0u32..20, packets in 1u32..30) {
            let config = CsfqConfig {
                threshold: Limit::Packets(threshold),
                limit: Limit::Packets(packets),
                averaging: Span::from_micros(100),
                window: Span::from_micros(100),
            };
            let context = Context { link_rate: BitRate::from_mbps(1000), ..Context::for_tests() };
            let mut fifo = Fifo::new(config.build(&context));
            drive(&mut fifo, &vector, 8, |backlog| assert!(backlog.packets <= packets));
            let share = fifo.variable("fair_share_bps").expect("CSFQ has it");
            prop_assert!((0.0..=1e9).contains(&share));
        }

        #[test]
        fn probabilities_are_probabilities(alpha in 0.0..1e12f64, label in 0u32..) {
            prop_assert!((0.0..=1.0).contains(&drop_probability(alpha, f64::from(label))));
        }
    }

    #[test]
    fn packets_without_labels_do_not_shut_out_those_with_labels_for_ever() {
        // 2 MB/s without a label on a link of 1.25 MB/s, and one flow of half of it.
        let mut link = Fifo::new(csfq());
        let mut out = Counted::default();
        let mut got = 0;
        for micros in 0..30_000_000_u64 {
            let now = Time::ZERO + Span::from_micros(micros);
            if micros % 500 == 0 {
                link.enqueue(Packet { arrived: now, ..Packet::new(0, FlowId(1), 1000) }, now, &mut out);
            }
            if micros % 1600 == 7 {
                link.enqueue(Packet { arrived: now, ..labelled(6.25e5) }, now, &mut out);
            }
            if micros % 800 == 0 {
                got += link.dequeue(now, &mut out).map_or(0, |packet| u32::from(packet.flow == FlowId(0)));
            }
            out.drops.clear();
        }
        // One largest packet per 100 ms in the mean, of which a queue that is full takes some.
        assert!((30..600).contains(&got), "{got}");
        assert!(link.manager().alpha >= 0.75 * 15_000.0, "the overflow rule takes a quarter");
    }
}
