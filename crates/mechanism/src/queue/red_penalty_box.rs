//! RED with a penalty box: flows that do not slow down, however often they are notified, are found in the log of RED's
//! notifications and put together under a restricted rate until they back off. Flows that obey share the rest.
//!
//! Source: W. Feng, thesis, section 4.5.1; Floyd & Fall, "Promoting the use of end-to-end congestion control in the
//! Internet", `IEEE/ACM ToN` 7(4), 1999, sections 3 and 4.
//! Deviations:
//! - The thesis names the parts (a finite log of losses, a TCP-friendliness check, class-based queueing, a periodic check
//!   to leave) and no numbers. The restricted class is a token bucket that all flows in the box share, not a queue of CBQ:
//!   what exceeds it is dropped before RED sees it.
//! - A flow enters if it is not TCP-friendly, or if its share is disproportionate and its rate high for the level of
//!   congestion (Floyd & Fall, sections 3.1 and 3.3); in either case only if it has more than an even share of the log, for
//!   the small flows of a short log are known to one or two entries. Their third test, whether a flow responds to more losses, needs
//!   history of each flow and is not made; leaving the box is decided by it in effect.
//! - The log holds notifications (marks as well as drops) that fell on the arriving packet by the average. Overflow hits
//!   bursts more than rate, and a random victim is not known to a manager; both are not logged.
//! - A flow leaves once it was, over a period, friendly at the share of its own packets that was dropped or marked; so
//!   also if it stays below the restricted rate.

use alloc::vec::Vec;
use core::cmp::Reverse;

use tidegate_packet::{Backlog, DropReason, FlowId, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::red::{QueueUnit, WITHOUT_FLOWS};
use super::{QueueManager, Red, RedConfig, Verdict};
use crate::shape::{Shaper, TokenBucket, TokenBucketConfig};
use crate::{Context, Variable};

/// Notifications that a box remembers; each search sorts them.
const LOG: Bound<u32> =
    Bound::between(1, 1_000_000).low("zero leaves nothing", "").high("", " is too much", "at most 1000000");
/// Flows in a box; each packet looks through them.
const FLOWS_MAX: Bound<u32> =
    Bound::between(1, 10_000).low("zero leaves nothing", "").high("", " is too much", "at most 10000");

parameters! {
    /// # RED with a penalty box
    ///
    /// Finds flows that do not slow down in the log of RED's notifications, and puts them together under a restricted rate
    /// until they back off.
    ///
    /// Source: thesis of Feng, section 4.5.1; Floyd and Fall 1999.
    #[derive(Copy)]
    pub struct RedPenaltyBoxConfig {
        ..red: RedConfig;
        /// How many notifications are remembered, and needed for a search. Source: assumed.
        log: u32 = 100 => LOG;
        /// The least time between two searches, and over which a flow in the box is watched. Source: assumed.
        period: Span = Span::from_secs(1) => bound::DURATION;
        /// R of the test for friendliness: no flow has a smaller round-trip time. Source: assumed (Floyd and Fall 1999: at least
        /// twice the propagation delay of the link).
        rtt: Span = Span::from_millis(20) => bound::DURATION;
        /// c of the test for high rates: a flow with a disproportionate share is put into the box above this rate over the root
        /// of the share of packets notified. Source: Floyd and Fall 1999, section 3.3.
        high: BitRate = BitRate::from_bps(96_000);
        /// What all flows in the box get together, as a share of the link. Source: assumed.
        share: f64 = 0.05 => bound::SHARE.saying("", " is no share of a link");
        /// How many flows fit into the box. Source: assumed.
        flows_max: u32 = 64 => FLOWS_MAX;
    }
}

impl RedPenaltyBoxConfig {
    /// The manager, with nobody in the box.
    pub fn build(&self, context: &Context) -> RedPenaltyBox {
        assert!(self.log > 0 && self.flows_max > 0, "the log and the box hold something");
        assert!(!self.period.is_zero() && !self.rtt.is_zero(), "period and rtt are lengths of time");
        assert!(self.share > 0.0 && self.share <= 1.0, "a share of the link is in ]0, 1]");
        let bucket = TokenBucketConfig::new(self.rate(context.link_rate), depth(context));
        RedPenaltyBox {
            red: self.red.build(context),
            log: Vec::with_capacity(self.log as usize),
            oldest: 0,
            sums: Vec::with_capacity(self.log as usize),
            offered: Offered::default(),
            since: Time::ZERO,
            restricted: bucket.build(context, Time::ZERO),
            boxed: Vec::with_capacity(self.flows_max as usize),
            config: *self,
        }
    }

    fn rate(&self, link: BitRate) -> BitRate {
        BitRate::from_bytes_per_second_f64(self.share * link.as_bytes_per_second_f64())
    }
}

/// Two of the largest packets (assumed): flows that share the bucket may come in pairs.
fn depth(context: &Context) -> Bytes {
    Bytes::new(2 * u64::from(context.mtu_bytes))
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RedPenaltyBox {
    red: Red,
    /// The last notifications that fell on flows outside of the box; the one to be overwritten next is at `oldest`.
    log: Vec<Notified>,
    oldest: usize,
    /// Room for the weights of the log by flow.
    sums: Vec<Notified>,
    /// What came since the last search from outside of the box.
    offered: Offered,
    since: Time,
    restricted: TokenBucket,
    boxed: Vec<Boxed>,
    config: RedPenaltyBoxConfig,
}

/// A notification, or all of a flow.
#[derive(Clone, Copy, Debug)]
struct Notified {
    flow: FlowId,
    weight: u64,
}

/// What was offered in a period.
#[derive(Clone, Copy, Debug, Default)]
struct Offered {
    packets: u64,
    bytes: u64,
    notified: u64,
}

impl Offered {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
    }

    /// p: which share of the packets was notified.
    fn p(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.notified as f64 / self.packets as f64 }
    }
}

/// A flow in the box.
#[derive(Clone, Copy, Debug)]
struct Boxed {
    flow: FlowId,
    since: Time,
    offered: Offered,
}

impl QueueManager for RedPenaltyBox {
    fn variables() -> &'static [Variable] {
        const {
            &[
                WITHOUT_FLOWS[0],
                WITHOUT_FLOWS[1],
                WITHOUT_FLOWS[2],
                Variable::new("boxed_flows", "Flows in the penalty box."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        self.release(now);
        match self.boxed.iter().position(|boxed| boxed.flow == packet.flow) {
            Some(place) => self.restrict(place, packet, queue, now),
            None => self.pass(packet, queue, now),
        }
    }

    fn on_idle(&mut self, now: Time) {
        self.red.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.red.set_link_rate(rate, now);
        self.restricted.set_rate(self.config.rate(rate), now);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "boxed_flows" => Some(self.boxed.len() as f64),
            _ => self.red.variable(name),
        }
    }
}

impl RedPenaltyBox {
    /// A packet of a flow in the box: within the restricted rate RED decides.
    fn restrict(&mut self, place: usize, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        let verdict = if self.restricted.consume(packet.wire_bytes, now) {
            self.red.on_arrival(packet, queue, now)
        } else {
            Verdict::Drop(DropReason::Unresponsive)
        };
        let boxed = &mut self.boxed[place];
        boxed.offered.add(packet);
        boxed.offered.notified += u64::from(is_notified(verdict));
        verdict
    }

    /// A packet of any other flow.
    fn pass(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        self.offered.add(packet);
        let verdict = self.red.on_arrival(packet, queue, now);
        if is_logged(verdict) {
            self.offered.notified += 1;
            self.note(packet);
            if self.log.len() == self.config.log as usize && now.since(self.since) >= self.config.period {
                self.search(now);
            }
        }
        verdict
    }

    fn note(&mut self, packet: &Packet) {
        // Notifications in byte mode are in proportion to bytes already; in packet mode a packet stands for its bytes.
        let weight = match self.config.red.mode {
            QueueUnit::Packets => u64::from(packet.wire_bytes),
            QueueUnit::Bytes => 1,
        };
        let entry = Notified { flow: packet.flow, weight };
        if self.log.len() < self.config.log as usize {
            self.log.push(entry);
        } else {
            self.log[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % self.log.len();
        }
    }

    /// Puts flows that are over-represented in the log into the box, the largest first. Once per period at most.
    fn search(&mut self, now: Time) {
        self.log.sort_unstable_by_key(|entry| entry.flow);
        self.sums.clear();
        for &entry in &self.log {
            match self.sums.last_mut() {
                Some(sum) if sum.flow == entry.flow => sum.weight += entry.weight,
                _ => self.sums.push(entry),
            }
        }
        self.sums.sort_unstable_by_key(|sum| (Reverse(sum.weight), sum.flow));
        let total: u64 = self.sums.iter().map(|sum| sum.weight).sum();
        let rate = self.offered.bytes as f64 / now.since(self.since).as_secs_f64();
        let (flows, p) = (self.sums.len() as f64, self.offered.p());
        for sum in &self.sums {
            let share = sum.weight as f64 / total as f64;
            let is_unfriendly = share * rate > 1.45 * self.friendly_rate(1.0, p);
            let is_too_much = share > disproportionate_share(flows)
                && share * rate > self.config.high.as_bytes_per_second_f64() / libm::sqrt(p);
            let has_room = self.boxed.len() < self.config.flows_max as usize;
            if (is_unfriendly || is_too_much) && share > 1.0 / flows && has_room {
                self.boxed.push(Boxed { flow: sum.flow, since: now, offered: Offered::default() });
            }
        }
        self.log.clear();
        self.oldest = 0;
        self.offered = Offered::default();
        self.since = now;
    }

    /// Lets go who was friendly for a period.
    fn release(&mut self, now: Time) {
        let mut place = 0;
        while place < self.boxed.len() {
            let boxed = &self.boxed[place];
            let watched = now.since(boxed.since);
            if watched < self.config.period {
                place += 1;
                continue;
            }
            let rate = boxed.offered.bytes as f64 / watched.as_secs_f64();
            if rate < self.friendly_rate(1.22, boxed.offered.p()) {
                self.boxed.swap_remove(place);
            } else {
                self.boxed[place] = Boxed { since: now, offered: Offered::default(), ..*boxed };
                place += 1;
            }
        }
    }

    /// `factor B / (R sqrt(p))`, bytes per second (Floyd & Fall, section 3.1: 1.22 is what TCP reaches at most, 1.45
    /// allows for a coarse p). Without notifications any rate is friendly.
    fn friendly_rate(&self, factor: f64, p: f64) -> f64 {
        factor * self.config.red.mean_packet.as_f64() / (self.config.rtt.as_secs_f64() * libm::sqrt(p))
    }
}

/// `ln(3n) / n` (Floyd & Fall, section 3.3).
fn disproportionate_share(flows: f64) -> f64 {
    libm::log(3.0 * flows) / flows
}

/// Whether the arriving packet carries news of congestion to its sender.
const fn is_notified(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Mark(_) | Verdict::Drop(_))
}

/// Whether the verdict goes into the log.
const fn is_logged(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Mark(MarkReason::Early | MarkReason::Forced)
            | Verdict::Drop(DropReason::Early | DropReason::Forced)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Fifo, QueueDiscipline, QueueLimit};
    use crate::random::Substream;
    use crate::schedule::testing::{Arrival, arrivals, drive};
    use proptest::prelude::*;
    use tidegate_units::Limit;

    /// Ten thousand bytes per millisecond, packets of 1000.
    const NANOS_PER_BYTE: u64 = 100;

    fn context() -> Context {
        Context { link_rate: BitRate::from_mbps(80), ..Context::for_tests() }
    }

    fn config() -> RedPenaltyBoxConfig {
        let red = RedConfig { max_p: 0.1, ecn: false, ..RedConfig::default() };
        RedPenaltyBoxConfig { red, log: 50, period: Span::from_millis(100), ..RedPenaltyBoxConfig::default() }
    }

    /// `flows` with their shares of 1.5 times the link, each at random, for `packets` packets.
    fn offered(shares: &[f64], packets: usize) -> Vec<Arrival> {
        let mut stream = Substream::new(crate::random::Seed(5));
        let total: f64 = shares.iter().sum();
        (0..packets)
            .map(|_| {
                let mut at = stream.uniform() * total;
                let flow = shares.iter().position(|share| {
                    at -= share;
                    at < 0.0
                });
                (stream.exponential(1e5 / total) as u64, flow.unwrap_or(0) as u32, 1000)
            })
            .collect()
    }

    fn sent_of(flow: u32, run: &crate::schedule::testing::Run) -> usize {
        run.sent.iter().filter(|(_, packet)| packet.flow.0 == flow).count()
    }

    #[test]
    fn a_flow_that_takes_most_and_never_slows_down_is_restricted_and_the_others_are_not() {
        // Flow 0 alone fills the link, nine others want 4 % each. p is about 0.27.
        let mut shares = [0.04; 10];
        shares[0] = 1.0;
        let vector = offered(&shares, 30_000);
        let mut fifo = Fifo::new(config().build(&context()));
        let run = drive(&mut fifo, &vector, NANOS_PER_BYTE, |_| ());
        assert_eq!(fifo.variable("boxed_flows"), Some(1.0));
        let unresponsive = run.out.drops.iter().filter(|(_, why)| *why == DropReason::Unresponsive);
        assert!(unresponsive.clone().all(|(packet, _)| packet.flow.0 == 0));
        let dropped = unresponsive.count();
        let offered_by_it = vector.iter().filter(|arrival| arrival.1 == 0).count();
        assert!(dropped * 10 > offered_by_it * 8, "{dropped} of {offered_by_it}");
        // Once it is in the box, the others lose nothing: together they want 36 %.
        for flow in 1..10 {
            let offered = vector.iter().filter(|arrival| arrival.1 == flow).count();
            assert!(sent_of(flow, &run) * 100 > offered * 93, "{} of {offered}", sent_of(flow, &run));
        }
    }

    #[test]
    fn in_the_box_flows_get_the_restricted_share_together() {
        let mut box_ = config().build(&context());
        for flow in 0..2 {
            let since = Time::ZERO;
            box_.boxed.push(Boxed { flow: FlowId(flow), since, offered: Offered::default() });
        }
        let (mut passed, nanos) = (0u64, 10_000u64);
        for k in 0..100_000u64 {
            let mut packet = Packet::new(0, FlowId((k % 2) as u32), 1000);
            let verdict = box_.on_arrival(&mut packet, Backlog::EMPTY, Time::from_nanos(k * nanos));
            passed += u64::from(verdict == Verdict::Accept);
        }
        assert_eq!(box_.variable("boxed_flows"), Some(2.0));
        // One second at 5 % of 10 MB/s is 500 packets; the bucket held three to begin with.
        assert!((500..=503).contains(&passed), "{passed}");
    }

    #[test]
    fn a_flow_leaves_the_box_once_it_backed_off_and_not_before() {
        let mut box_ = config().build(&context());
        box_.boxed.push(Boxed { flow: FlowId(0), since: Time::ZERO, offered: Offered::default() });
        let mut now = Time::ZERO;
        let mut offer = |queue: &mut RedPenaltyBox, gap: Span, packets: u32| {
            for _ in 0..packets {
                now += gap;
                queue.on_arrival(&mut Packet::new(0, FlowId(0), 1000), Backlog::EMPTY, now);
            }
            queue.variable("boxed_flows")
        };
        // At the rate of the link for half a second it stays; at 400 packets a second, below the restricted 500, it leaves.
        assert_eq!(offer(&mut box_, Span::from_micros(100), 5_000), Some(1.0));
        assert_eq!(offer(&mut box_, Span::from_micros(2_500), 90), Some(0.0));
    }

    #[test]
    fn flows_that_share_evenly_are_never_put_into_the_box() {
        // 1.5 MB/s each at a p of about 1/3: friendly are 5 MB/s with this round-trip time.
        let gentle = RedPenaltyBoxConfig { rtt: Span::from_micros(500), ..config() };
        let mut fifo = Fifo::new(gentle.build(&context()));
        let run = drive(&mut fifo, &offered(&[0.15; 10], 20_000), NANOS_PER_BYTE, |_| ());
        assert_eq!(fifo.variable("boxed_flows"), Some(0.0));
        assert!(run.out.drops.iter().all(|(_, why)| *why != DropReason::Unresponsive));
    }

    #[test]
    fn laws_have_their_published_values() {
        assert!((disproportionate_share(2.0) - 0.896).abs() < 1e-3);
        let box_ = RedPenaltyBoxConfig { rtt: Span::from_millis(100), ..config() }.build(&context());
        assert!((box_.friendly_rate(1.22, 0.01) - 122_000.0).abs() < 1e-6);
        assert_eq!(box_.friendly_rate(1.22, 0.0), f64::INFINITY);
    }

    fn configs() -> impl Strategy<Value = RedPenaltyBoxConfig> {
        (1u32..30, 1u64..1000, 0.001..1.0f64, 1u32..4, 1u32..30, 0.001..1.0f64).prop_map(
            |(log, period_micros, share, flows_max, limit, max_p)| RedPenaltyBoxConfig {
                red: RedConfig {
                    limit: Limit::Packets(limit),
                    max_p,
                    weight: 0.2,
                    min: Limit::Packets(1),
                    ..RedConfig::default()
                },
                log,
                period: Span::from_micros(period_micros),
                share,
                flows_max,
                ..RedPenaltyBoxConfig::default()
            },
        )
    }

    proptest! {
        #[test]
        fn any_configuration_keeps_the_invariants(config in configs(), vector in arrivals(6, 400)) {
            let mut fifo = Fifo::new(config.build(&context()));
            let limit = QueueLimit::new(config.red.limit, BitRate::from_mbps(80));
            drive(&mut fifo, &vector, 8, |backlog| assert!(!limit.exceeded_by(backlog)));
            let held = fifo.manager();
            prop_assert!(held.boxed.len() <= config.flows_max as usize);
            prop_assert!(held.boxed.capacity() <= config.flows_max as usize);
            prop_assert!(held.log.len() <= config.log as usize && held.log.capacity() == config.log as usize);
            prop_assert!(fifo.variable("marking_probability").is_some_and(|p| (0.0..=1.0).contains(&p)));
        }
    }
}
