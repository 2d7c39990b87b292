//! `DualPI2`: two queues for one link, of which the short one is no privilege. Senders that reduce in proportion to marks (L4S: DCTCP,
//! Prague) need no queue, those that halve need one of a round trip; in one queue both would have the delay of the latter. Here they
//! wait apart, and the marks of the first queue follow from the drops of the second, so that flows share the link as if they were in one.
//!
//! Source: RFC 9332, appendix A: `PI2` with overload protection (A.1, A.2); De Schepper et al., "PI2: A Linearized AQM for both
//! Classic and Scalable TCP", `CoNEXT` 2016; for the scheduler, which the RFC leaves open, Linux (`sch_dualpi2`).
//! Deviations:
//! - The limit counts the packet that arrives, and not an MTU.
//! - Updates are 10 us apart at least, for each is work; in Fig. 2 they follow the target however short it is.
//! - What `recur` adds for one packet is at most one; in the listing its sum grows without bound while `k p'` is above one.
//! - `lq.time()` of the packet that leaves is how long it has waited, and `lq.len()` what is left behind it.
//! - [`DualLaw::Random`] draws each packet for itself; `p'^2` is one draw, not the larger of two.
//! - Updates rest while nothing waits and `p'` is zero; that changes nothing, for they come at multiples of the interval.
//! - What Linux adds is not here: nothing dropped below two packets, no step in packets, no drops at arrival, no splitting of segments.
//! - Drops are reported as `early` where the sender knows no marks, and as `forced` where overload takes marks away; marks as `step`
//!   where the own threshold of L says more than the coupled probability.

mod law;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::format;

use tidegate_packet::{Backlog, DropReason, Ecn, MarkReason, Packet, Sink};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use self::law::{Hits, P_L_MAX, classic_max, ramp};
use crate::queue::pi2::{CONTROL_GAIN, COUPLING, Controller, T_UPDATE, coupled, squared};
use crate::queue::{QueueDiscipline, QueueLimit, Verdict};
use crate::{Context, Variable};

words! {
    /// Which packets a probability hits.
    pub enum DualLaw {
        /// Every time that the sum of the probabilities exceeds one: evenly spread (RFC 9332, appendix A.1, `recur`).
        Recur = "recur",
        /// Each by a draw of its own (Linux).
        Random = "random",
    }
}

words! {
    /// Which of the two queues goes next.
    pub enum DualScheduler {
        /// Weighted round robin: L, but C has its share while it waits (RFC 9332, section 4.2.2; Linux).
        WeightedRoundRobin = "wrr",
        /// Whose head has waited longest, with a time shift in favour of L (RFC 9332, section 4.2.2).
        TimeShifted = "time-shifted",
    }
}

/// Neither queue may starve.
const CLASSIC_SHARE: Bound<f64> = Bound::above(0.0)
    .and_below(1.0)
    .saying("", " is no share of two")
    .helping("between 0 and 1: neither queue may starve");

parameters! {
    /// # Dual queue with coupled marking
    ///
    /// A short queue for L4S (ECT(1) and CE) and one for all else, coupled so that flows of both get the same rate: the base probability
    /// of a controller is squared for the one and multiplied for the other.
    ///
    /// Source: RFC 9332, appendix A.
    #[derive(Copy)]
    pub struct DualPi2Config {
        /// How much may wait in both queues together. Source: RFC 9332, Fig. 2.
        limit: Limit = Limit::Time(Span::from_millis(250)) => bound::QUEUE;
        /// The delay of the classic queue. Source: RFC 9332, Fig. 2.
        target: Span = Span::from_millis(15) => bound::DURATION;
        /// The longest round trip for which the controller is stable. Source: RFC 9332, Fig. 2.
        rtt_max: Span = Span::from_millis(100) => bound::DURATION;
        /// How often the probability is updated. Default: `target`, or a third of `rtt_max` if that is less, but at
        /// least 10us. Source: RFC 9332, Fig. 2.
        tupdate: Option<Span> = None => T_UPDATE;
        /// Integral gain, in Hz. Default: 0.1 `tupdate` / `rtt_max` squared. Source: RFC 9332, Fig. 2.
        alpha: Option<f64> = None => CONTROL_GAIN;
        /// Proportional gain, in Hz. Default: 0.3 / `rtt_max`. Source: RFC 9332, Fig. 2.
        beta: Option<f64> = None => CONTROL_GAIN;
        /// By what the base probability is multiplied for L4S. Source: RFC 9332, Fig. 2.
        k: f64 = 2.0 => COUPLING;
        /// From which wait on L4S packets are marked by their own queue. Source: RFC 9332, Fig. 2.
        min_th: Span = Span::from_micros(800) => bound::DELAY;
        /// Over which further wait that probability rises to one; 0s is a step. Source: RFC 9332, Fig. 2.
        range: Span = Span::from_micros(400) => bound::DELAY;
        /// With so many packets left in the L4S queue, or fewer, it marks none of its own. Source: RFC 9332, Fig. 2.
        th_len: u32 = 1;
        /// Which packets a probability hits. Source: RFC 9332, appendix A.1.
        law: DualLaw = DualLaw::Recur;
        /// Which queue goes next. Source: RFC 9332, appendix A.1, leaves it open.
        scheduler: DualScheduler = DualScheduler::WeightedRoundRobin;
        /// With `wrr`: what the classic queue gets at least while it waits, as a share of the link. Source: Linux (`c_protection`).
        classic_share: f64 = 0.1 => CLASSIC_SHARE;
        /// With `time-shifted`: how much longer a classic packet must have waited to go first. Source: assumed, above twice the target
        /// plus the bursts of classic flows.
        tshift: Span = Span::from_millis(50) => bound::DELAY;
    }
    check |config, report| {
        if let Limit::Time(longest) = config.limit && longest <= config.target {
            let help = "with such a limit the controller never acts; let more wait";
            report.say("limit", format!("{longest} is not longer than the target"), help);
        }
        let usual = Self::default();
        match config.scheduler {
            DualScheduler::WeightedRoundRobin => {
                report.idle("tshift", config.tshift != usual.tshift, "scheduler = \"time-shifted\"");
            }
            DualScheduler::TimeShifted => {
                let is_given = (config.classic_share - usual.classic_share).abs() > 0.0;
                report.idle("classic_share", is_given, "scheduler = \"wrr\"");
            }
        }
    };
}

/// Parts of a share in the credit of the scheduler.
const PARTS: i64 = 1_000_000;

impl DualPi2Config {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> DualPi2 {
        let tupdate = self.tupdate.unwrap_or_else(|| law::update_interval(self.target, self.rtt_max));
        assert!(!tupdate.is_zero(), "an interval takes time");
        let classic_parts = libm::round(self.classic_share * PARTS as f64) as i64;
        let first_credit = i64::from(context.mtu_bytes) * (2 * classic_parts - PARTS);
        DualPi2 {
            queues: [const { VecDeque::new() }; 2],
            backlogs: [Backlog::EMPTY; 2],
            waits: [Span::ZERO; 2],
            controller: Controller {
                alpha: self.alpha.unwrap_or_else(|| law::integral_gain(tupdate, self.rtt_max)),
                beta: self.beta.unwrap_or_else(|| law::proportional_gain(self.rtt_max)),
                target: self.target,
                p_max: 1.0,
                p: 0.0,
                prevq: Span::ZERO,
            },
            hits: match self.law {
                DualLaw::Recur => Hits::RECUR,
                DualLaw::Random => Hits::random(context.seed),
            },
            tupdate,
            updated: Time::ZERO,
            p_c_max: classic_max(self.k),
            classic_parts,
            first_credit,
            credit: first_credit,
            limit: QueueLimit::new(self.limit, context.link_rate),
            config: *self,
        }
    }
}

/// The low latency queue.
const L: usize = 0;
/// The classic queue.
const C: usize = 1;

/// See the module.
#[derive(Debug)]
pub struct DualPi2 {
    queues: [VecDeque<Packet>; 2],
    backlogs: [Backlog; 2],
    /// How long the last packet of each waited.
    waits: [Span; 2],
    controller: Controller,
    hits: Hits,
    tupdate: Span,
    /// When `p'` was last updated: a multiple of the interval.
    updated: Time,
    p_c_max: f64,
    /// The weight of C; the rest is that of L.
    classic_parts: i64,
    first_credit: i64,
    /// Above zero it is the turn of C, where both wait (Linux, `c_protection`).
    credit: i64,
    limit: QueueLimit,
    config: DualPi2Config,
}

impl QueueDiscipline for DualPi2 {
    /// `dualpi2_enqueue` (appendix A.1).
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        if self.is_at_rest() {
            let past = now.as_nanos() % self.tupdate.as_nanos();
            self.updated = now.saturating_sub(Span::from_nanos(past));
        }
        if self.limit.admits(self.backlog(), &packet) {
            let queue = queue_of(packet.ecn);
            self.backlogs[queue].add(&packet);
            self.queues[queue].push_back(packet);
        } else {
            out.on_drop(packet, DropReason::Overflow);
        }
    }

    /// `dualpi2_dequeue` (appendix A.2). Each turn takes one packet off, so the loop is bounded by what waits.
    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        while let Some((queue, mut packet)) = self.take(now) {
            self.waits[queue] = now.since(packet.arrived);
            let verdict = if queue == L { self.judge_low_latency() } else { self.judge_classic(packet.ecn) };
            match verdict {
                Verdict::Drop(why) => {
                    out.on_drop(packet, why);
                    continue;
                }
                Verdict::Mark(why) => {
                    packet.ecn = Ecn::Ce;
                    out.on_mark(&packet, why);
                }
                Verdict::Accept | Verdict::Evict { .. } | Verdict::DropWith { .. } => {}
            }
            self.charge(queue, packet.wire_bytes);
            return Some(packet);
        }
        self.credit = self.first_credit;
        None
    }

    fn backlog(&self) -> Backlog {
        let [low, classic] = self.backlogs;
        Backlog { packets: low.packets + classic.packets, bytes: low.bytes + classic.bytes }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    fn timer_at(&self) -> Option<Time> {
        if self.is_at_rest() { None } else { Some(self.updated.saturating_add(self.tupdate)) }
    }

    /// `dualpi2_update`, with the longer one of both delays (appendix A.2).
    fn on_timer(&mut self, now: Time, _out: &mut impl Sink) {
        let due = self.updated.saturating_add(self.tupdate);
        if self.is_at_rest() || now < due {
            return;
        }
        self.updated = due;
        self.controller.update(self.head_wait(L, due).max(self.head_wait(C, due)));
    }

    fn purge(&mut self, _now: Time, why: DropReason, out: &mut impl Sink) {
        for queue in [L, C] {
            while let Some(packet) = self.pop(queue) {
                out.on_drop(packet, why);
            }
        }
    }

    fn variable(&self, name: &str) -> Option<f64> {
        let p = self.controller.p;
        match name {
            "active_queues" => Some(self.queues.iter().filter(|queue| !queue.is_empty()).count() as f64),
            "base_probability" => Some(p),
            "classic_probability" => Some(squared(p)),
            "coupled_probability" => Some(coupled(self.config.k, p).min(P_L_MAX)),
            "low_latency_packets" => Some(f64::from(self.backlogs[L].packets)),
            "low_latency_wait_ms" => Some(self.waits[L].as_millis_f64()),
            "classic_packets" => Some(f64::from(self.backlogs[C].packets)),
            "classic_wait_ms" => Some(self.waits[C].as_millis_f64()),
            _ => None,
        }
    }
}

impl DualPi2 {
    /// What may be recorded.
    pub(super) const VARIABLES: &'static [Variable] = &[
        Variable::new("active_queues", "Queues with something waiting."),
        Variable::new("base_probability", "p', which follows the delay."),
        Variable::new("classic_probability", "p' squared: how likely a classic packet is dropped or marked."),
        Variable::new("coupled_probability", "k p', at most 1: how likely an L4S packet is marked at least."),
        Variable::new("low_latency_packets", "What waits in the L4S queue."),
        Variable::new("low_latency_wait_ms", "How long the last packet from the L4S queue waited."),
        Variable::new("classic_packets", "What waits in the classic queue."),
        Variable::new("classic_wait_ms", "How long the last packet from the classic queue waited."),
    ];

    fn is_at_rest(&self) -> bool {
        self.controller.is_at_rest() && self.queues.iter().all(VecDeque::is_empty)
    }

    /// `time()` of a queue: how long its head has waited.
    fn head_wait(&self, queue: usize, now: Time) -> Span {
        self.queues[queue].front().map_or(Span::ZERO, |head| now.since(head.arrived))
    }

    /// The next packet, and its queue.
    #[inline]
    fn take(&mut self, now: Time) -> Option<(usize, Packet)> {
        let queue = match (self.queues[L].is_empty(), self.queues[C].is_empty()) {
            (_, true) => L,
            (true, false) => C,
            (false, false) => self.choose(now),
        };
        Some((queue, self.pop(queue)?))
    }

    fn pop(&mut self, queue: usize) -> Option<Packet> {
        let packet = self.queues[queue].pop_front()?;
        self.backlogs[queue].remove(&packet);
        Some(packet)
    }

    /// Whose turn it is where both wait.
    fn choose(&self, now: Time) -> usize {
        let low_latency_first = match self.config.scheduler {
            DualScheduler::WeightedRoundRobin => self.credit <= 0,
            DualScheduler::TimeShifted => {
                let shifted = self.head_wait(L, now).as_nanos().saturating_add(self.config.tshift.as_nanos());
                shifted >= self.head_wait(C, now).as_nanos()
            }
        };
        if low_latency_first { L } else { C }
    }

    /// What is sent while the other queue waits moves the credit.
    fn charge(&mut self, queue: usize, wire_bytes: u32) {
        let bytes = i64::from(wire_bytes);
        if queue == L && !self.queues[C].is_empty() {
            self.credit += self.classic_parts * bytes;
        } else if queue == C && !self.queues[L].is_empty() {
            self.credit -= (PARTS - self.classic_parts) * bytes;
        }
    }

    /// What `dualpi2_dequeue` says of a packet of L (appendix A.2).
    fn judge_low_latency(&mut self) -> Verdict {
        let p_cl = coupled(self.config.k, self.controller.p);
        if p_cl >= P_L_MAX {
            // Overload: marks say no more, and those who heed none are held back as in the classic queue.
            return if self.hits.next(L, squared(self.controller.p)) {
                Verdict::Drop(DropReason::Forced)
            } else if self.hits.next(L, p_cl) {
                Verdict::Mark(MarkReason::Early)
            } else {
                Verdict::Accept
            };
        }
        let native = if self.backlogs[L].packets > self.config.th_len {
            ramp(self.waits[L], self.config.min_th, self.config.range)
        } else {
            0.0
        };
        if !self.hits.next(L, native.max(p_cl)) {
            Verdict::Accept
        } else if native > p_cl {
            Verdict::Mark(MarkReason::Step)
        } else {
            Verdict::Mark(MarkReason::Early)
        }
    }

    /// What it says of one of C.
    fn judge_classic(&mut self, ecn: Ecn) -> Verdict {
        let p_c = squared(self.controller.p);
        if !self.hits.next(C, p_c) {
            Verdict::Accept
        } else if !ecn.is_capable() {
            Verdict::Drop(DropReason::Early)
        } else if p_c >= self.p_c_max {
            Verdict::Drop(DropReason::Forced)
        } else {
            Verdict::Mark(MarkReason::Early)
        }
    }
}

/// ECT(1) and CE go to L: `ecn modulo 2 == 1` (`dualpi2_enqueue`).
const fn queue_of(ecn: Ecn) -> usize {
    if ecn as u8 & 1 == 1 { L } else { C }
}
