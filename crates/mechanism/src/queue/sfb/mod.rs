//! Stochastic Fair BLUE: protects flows that respond to congestion from flows that do not, in one FIFO and with memory
//! that does not depend on the number of flows. Each flow is accounted in one bin of each of L levels; a flow that does not
//! respond drives the marking probability of all its bins to 1, while any other has most likely one bin without such a
//! flow. Packets of flows whose bins are all at 1 share a rate limit; the least probability of its bins marks any other.
//!
//! Source: Feng, thesis, sections 4.4 (Fig. 4.14: enqueueing; 4.4.4: moving hash, double buffered) and 4.6 (the limit as
//! a fair share). Per-bin laws: `law`; estimates: [`estimate`].
//! Deviations:
//! - The figure takes the minimum over `B[0]..B[L]` and drops inside of its loop: there are L levels, and a packet is
//!   dropped once, after all its bins were updated.
//! - Limits are compared as printed: a bin takes packets until it holds `bin_size + 1`.
//! - Packets that pass the rate limit are not marked (`ratelimit()` stands in place of marking).
//! - The rate limit is a token bucket as deep as one packet. Table 4.1 shows as much: a bucket that holds no more lets one
//!   packet of 1000 bytes pass per 52 ms of a flow that sends one each 4 ms, 0.154 Mb/s, and 0.159 Mb/s of one that
//!   sends each 0.178 ms, where a deeper one gives 0.160.
//! - Overflow of the whole queue is not in the figure: it drops, and no bin changes for it.
//! - What became of packets in the queue when the bins are reset is not said. A packet leaves the bins in which it was
//!   accounted, if they still count it; the new bins never hear of it.
//! - Double buffered: only flows classified as non-responsive are accounted in the set that is warmed up (section 4.4.4),
//!   and few of their packets wait, so that their occupancy says nothing. So a refused packet counts as a full bin there:
//!   `p_m` rises with what the flow loses, as in BLUE.
//! - So the bins of all others begin at 0 whenever the hash functions change, and each loses packets until its `p_m` is what
//!   they need. [`BinsBegin::Mean`] lets bins begin where those in use are on average, without the polluted ones. It is
//!   not in the thesis, whose Table 4.2 is inexplicable without something like it: TCP loses less than two packets per bin and
//!   change there.
//! - A flow is what the descriptor calls a flow. A gateway that numbers no flows writes a hash of the headers there.

mod bins;
pub mod estimate;
mod hash;
mod law;

pub use bins::LEVELS_MAX;
pub use hash::SfbHash;
use law::{AdaptiveRed, BinLaw};

use alloc::format;

use tidegate_packet::{Backlog, DropReason, FlowId, MarkReason, Packet};
use tidegate_parameters::{Bound, Check as _, Report, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use self::bins::Bins;
use self::estimate::{Census, fair_limit, flows_filling};
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::shape::{Shaper, TokenBucket, TokenBucketConfig};
use crate::{Context, Variable};

words! {
    /// What moves the marking probability of a bin.
    pub enum SfbLaw {
        /// A step up when an arrival finds the bin above its size, a step down when it finds it empty.
        Blue = "blue",
        /// RED on the bin's average occupancy, with a largest probability that moves as Adaptive RED's.
        AdaptiveRed = "adaptive-red",
    }
}

words! {
    /// Where bins begin when the hash functions change.
    pub enum BinsBegin {
        /// At nothing, but for what warmed them up (section 4.4.4: "the bins are reset").
        Fresh = "fresh",
        /// Not below the mean of the bins that were in use until then, without those that have reached 1.
        Mean = "mean",
    }
}

words! {
    /// What limits flows that do not respond.
    pub enum SfbLimiting {
        /// `nonresponsive_rate` for all of them together.
        Fixed = "fixed",
        /// A fair share of the link for each, by estimates of their number and of the number of all flows (section 4.6).
        FairShare = "fair-share",
    }
}

/// No set of bins is larger, and no bit map either.
const BINS: Bound<u32> = {
    assert!((1 << 24) / LEVELS_MAX == 2_097_152, "as the advice says");
    Bound::between(1, (1 << 24) / LEVELS_MAX).low("zero leaves nothing", "").high(
        "",
        " is too many",
        "at most 2097152",
    )
};
/// At least 1.
const ONE_OR_MORE: Bound<f64> =
    Bound::at_least(1.0).and_below(f64::INFINITY).saying("", " is below 1").helping("at least 1");

parameters! {
    /// # Stochastic Fair BLUE
    ///
    /// Accounts each flow in one bin per level, with hash functions that nobody outside knows. A flow that does not respond
    /// drives the marking probability of all its bins to 1 and is then limited in rate; any other is marked with the least
    /// probability of its bins. Memory does not depend on the number of flows.
    ///
    /// Source: thesis of Feng, sections 4.4 and 4.6.
    #[derive(Copy)]
    pub struct SfbConfig {
        /// How much may wait. Source: thesis of Feng, section 4.4.2.
        limit: Limit = Limit::Bytes(Bytes::new(200_000)) => bound::QUEUE;
        /// Levels of bins, 1 to 8. Source: thesis of Feng, section 4.4.2.
        levels: u32 = 2 => Bound::between(1, LEVELS_MAX).saying("", " levels");
        /// Bins per level. `tidegate design sfb` finds levels and bins for a given memory. Source: thesis of Feng, section
        /// 4.4.2.
        bins: u32 = 23 => BINS;
        /// How flows are spread over the bins. Source: assumed; thesis of Feng, section 4.4.1, has "independent hash functions".
        hash: SfbHash = SfbHash::Keyed;
        /// Size of a bin in packets: a bin that holds more refuses and moves its probability up. Source: thesis of Feng,
        /// section 4.4.2 (half more than a bin's part of the buffer).
        bin_size: Limit = Limit::Packets(13) => bound::in_packets("13p");
        /// What moves the probability of a bin. Source: thesis of Feng, Fig. 4.14; section 4.4.1 for `adaptive-red`.
        law: SfbLaw = SfbLaw::Blue;
        /// Step up of a bin's probability (`blue`). Source: thesis of Feng, section 4.3.2; assumed for SFB.
        increment: f64 = 0.01 => bound::PROBABILITY;
        /// Step down of a bin's probability (`blue`). Source: thesis of Feng, section 4.3.2; assumed for SFB.
        decrement: f64 = 0.01 => bound::PROBABILITY;
        /// The least time between two steps of one bin (`blue`). Default: none. Source: thesis of Feng, Fig. 4.14.
        freeze: Option<Span> = None => bound::DELAY;
        /// How far the account of a bin's probability may rise, 1 or more: what is above 1 is a reserve against parole (`blue`).
        /// Default: no bound. Source: thesis of Feng, Fig. 4.14.
        ceiling: Option<f64> = None => ONE_OR_MORE;
        /// Average occupancy of a bin below which nothing is notified, as a part of `bin_size` (`adaptive-red`). Source: thesis
        /// of Feng, section 4.3.2, of the queue; of a bin assumed.
        min: f64 = 0.3;
        /// Average occupancy of a bin from which everything is notified, as a part of `bin_size` (`adaptive-red`). Source:
        /// thesis of Feng, section 4.3.2, of the queue; of a bin assumed.
        max: f64 = 0.9;
        /// Weight of a sample in the average (`adaptive-red`). Source: Floyd and Jacobson 1993, section VII.
        weight: f64 = 0.002 => bound::PROBABILITY;
        /// The largest probability at the start (`adaptive-red`). Source: Floyd and Jacobson 1993, section VII.
        max_p: f64 = 0.02 => bound::PROBABILITY;
        /// Divides the largest probability when the average falls below `min` (`adaptive-red`). Source: thesis of Feng, section
        /// 3.2.3.
        alpha: f64 = 3.0 => ONE_OR_MORE;
        /// Multiplies it when the average rises above `max` (`adaptive-red`). Source: thesis of Feng, section 3.2.3.
        beta: f64 = 2.0 => ONE_OR_MORE;
        /// What limits flows that do not respond. Source: thesis of Feng, section 4.4.2; section 4.6 for `fair-share`.
        limiting: SfbLimiting = SfbLimiting::Fixed;
        /// What they may send together (`fixed`). Source: thesis of Feng, section 4.4.2.
        nonresponsive_rate: BitRate = BitRate::from_bps(160_000);
        /// How much they may save up for a burst. Default: the largest packet of the link. Source: assumed.
        nonresponsive_burst: Option<Bytes> = None => bound::BUCKET_OF_SOME;
        /// Bits of the map in which all flows are counted (`fair-share`). Source: assumed; within 2 % up to 4000 flows.
        census_bits: u32 = 4096 => BINS;
        /// How long flows are counted (`fair-share`). Source: assumed.
        census_window: Span = Span::from_secs(1) => bound::DURATION;
        /// How often the hash functions change. Default: never. Source: thesis of Feng, section 4.4.4 (2 s where they move).
        rehash: Option<Span> = None => bound::DURATION;
        /// Whether the bins of the next hash functions are warmed up meanwhile (with `rehash`). Source: thesis of Feng, section
        /// 4.4.4.
        double_buffered: bool = true;
        /// Where the probabilities of the bins begin when the hash functions change. Source: thesis of Feng, section 4.4.4; `mean`
        /// is assumed, from its Table 4.2.
        bins_begin: BinsBegin = BinsBegin::Fresh;
        /// Whether packets of transports with ECN are marked instead of dropped. Source: thesis of Feng, section 4.4.2.
        ecn: bool = true;
    }
    check SfbConfig::check_together;
}

impl SfbConfig {
    fn check_together(&self, report: &mut Report<'_>) {
        if self.hash == SfbHash::Even && self.levels > self.bins {
            let message = format!("{} levels of {} bins", self.levels, self.bins);
            report.say("levels", message, "with `hash = \"even\"` not more levels than bins");
        }
        if !(self.min >= 0.0 && self.min < self.max && self.max.is_finite()) {
            let message = format!("min ({}) is not below max ({})", self.min, self.max);
            report.say("min", message, "parts of `bin_size`, like 0.3 and 0.9");
        }
        if self.limiting == SfbLimiting::Fixed {
            bound::RATE.check("nonresponsive_rate", &self.nonresponsive_rate, report);
        }
    }

    /// The size of a bin, packets.
    fn bin_packets(&self) -> u32 {
        match self.bin_size {
            Limit::Packets(packets) => packets,
            Limit::Bytes(_) | Limit::Time(_) => unreachable!("checked: a bin counts packets"),
        }
    }

    /// What moves the probability of a bin, with the numbers that it needs.
    pub(crate) fn bin_law(&self) -> BinLaw {
        let bin_packets = f64::from(self.bin_packets());
        match self.law {
            SfbLaw::Blue => BinLaw::Blue {
                increment: self.increment,
                decrement: self.decrement,
                freeze: self.freeze,
                ceiling: self.ceiling,
            },
            SfbLaw::AdaptiveRed => BinLaw::AdaptiveRed(AdaptiveRed {
                min_th: self.min * bin_packets,
                max_th: self.max * bin_packets,
                w: self.weight,
                max_p: self.max_p,
                alpha: self.alpha,
                beta: self.beta,
            }),
        }
    }
}

impl SfbConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Sfb {
        assert!((1..=LEVELS_MAX).contains(&self.levels), "1 to {LEVELS_MAX} levels");
        assert!(self.bins > 0, "a level has bins");
        assert!(
            self.hash == SfbHash::Keyed || self.levels <= self.bins,
            "each level evaluates at a point of its own"
        );
        assert!(self.rehash.is_none_or(|span| !span.is_zero()), "hash functions last for a while");
        let mut random = Substream::new(context.seed);
        let set = |salts: &mut Substream| {
            Bins::new(self.levels, self.bins, self.bin_packets(), self.bin_law(), self.hash, salts)
        };
        let active = set(&mut random);
        let warming = (self.rehash.is_some() && self.double_buffered).then(|| set(&mut random));
        let census = match self.limiting {
            SfbLimiting::Fixed => None,
            SfbLimiting::FairShare => {
                let (map_bits, window) = (self.census_bits, self.census_window);
                assert!(map_bits > 0 && !window.is_zero(), "a census has a map and takes a while");
                Some(Census::new(map_bits, window, &mut random))
            }
        };
        let rate = match self.limiting {
            SfbLimiting::Fixed => self.nonresponsive_rate,
            // Nothing is known of the flows yet: as if there were as many as fill the bins of one level.
            SfbLimiting::FairShare => fair_limit(context.link_rate, 1.0, f64::from(self.bins)),
        };
        let depth = self.nonresponsive_burst.unwrap_or(Bytes::new(u64::from(context.mtu_bytes)));
        Sfb {
            active,
            warming,
            active_since: Time::ZERO,
            warmed_since: Time::ZERO,
            limiter: TokenBucketConfig::new(rate, depth).build(context, Time::ZERO),
            limiter_rate: rate,
            census,
            p_min: 0.0,
            limit: QueueLimit::new(self.limit, context.link_rate),
            link_rate: context.link_rate,
            random,
            config: *self,
        }
    }
}

/// In [`Packet::note`]: the packet is accounted in the set that was being warmed up when it arrived.
const WARMED: u8 = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct Sfb {
    active: Bins,
    warming: Option<Bins>,
    /// Since when the active set is. A packet that arrived earlier was not accounted in it as active, and one that arrived
    /// later was: so a packet's bins are known without storing them.
    active_since: Time,
    /// Since when it was warmed up before; `active_since` if it was not.
    warmed_since: Time,
    limiter: TokenBucket,
    limiter_rate: BitRate,
    census: Option<Census>,
    /// Of the last packet.
    p_min: f64,
    limit: QueueLimit,
    link_rate: BitRate,
    random: Substream,
    config: SfbConfig,
}

impl QueueManager for Sfb {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new(
                    "marking_probability",
                    "The probability of the last arrival: the least of its bins.",
                ),
                Variable::new("polluted_bins", "Bins with a marking probability of 1, over all levels."),
                Variable::new("nonresponsive_flows", "The number of non-responsive flows that they tell of."),
                Variable::new("nonresponsive_limit_bps", "What non-responsive flows may send together."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        self.change_hash(now);
        self.take_census(packet.flow, now);
        let slots = self.active.slots(packet.flow);
        let found = self.active.observe(&slots, now);
        self.p_min = found.p_min;
        let verdict = if found.is_full {
            Verdict::Drop(if found.is_nonresponsive {
                DropReason::Unresponsive
            } else {
                DropReason::FairShare
            })
        } else if !self.limit.admits(queue, packet) {
            Verdict::Drop(DropReason::Overflow)
        } else if found.is_nonresponsive {
            let passes = self.limiter.consume(packet.wire_bytes, now);
            if passes { Verdict::Accept } else { Verdict::Drop(DropReason::Unresponsive) }
        } else if self.random.chance(found.p_min) {
            let marks = self.config.ecn && packet.ecn.is_capable();
            if marks { Verdict::Mark(MarkReason::Early) } else { Verdict::Drop(DropReason::Early) }
        } else {
            Verdict::Accept
        };
        let is_refused = matches!(verdict, Verdict::Drop(_));
        packet.note = 0;
        if !is_refused {
            self.active.add(&slots);
        }
        if let Some(warming) = self.warming.as_mut().filter(|_| found.is_nonresponsive) {
            let next_slots = warming.slots(packet.flow);
            warming.warm(&next_slots, is_refused, now);
            if !is_refused {
                warming.add(&next_slots);
                packet.note = WARMED;
            }
        }
        verdict
    }

    fn on_departure(&mut self, packet: &Packet, _queue: Backlog, now: Time) {
        self.change_hash(now);
        let is_warmed = packet.note & WARMED != 0;
        let is_of_active = packet.arrived >= self.active_since;
        if is_of_active || (is_warmed && packet.arrived >= self.warmed_since) {
            let slots = self.active.slots(packet.flow);
            self.active.remove(&slots);
        }
        if let Some(warming) = self.warming.as_mut().filter(|_| is_of_active && is_warmed) {
            let slots = warming.slots(packet.flow);
            warming.remove(&slots);
        }
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.link_rate = rate;
        self.limit.set_link_rate(rate);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "marking_probability" => Some(self.p_min),
            "polluted_bins" => Some(f64::from(self.active.polluted())),
            "nonresponsive_flows" => Some(self.nonresponsive_flows(f64::from(self.active.polluted()))),
            "nonresponsive_limit_bps" => Some(self.limiter_rate.as_bps() as f64),
            "flows" => self.census.as_ref().map(|census| census.flows),
            _ => {
                let (level, rest) = name.strip_prefix("bin.")?.split_once('.')?;
                let (n, what) = rest.split_once('.')?;
                let bin = self.active.bin(level.parse().ok()?, n.parse().ok()?)?;
                match what {
                    "p_m" => Some(bin.p.min(1.0)),
                    "packets" => Some(f64::from(bin.qlen)),
                    _ => None,
                }
            }
        }
    }
}

impl Sfb {
    /// Whether a packet of `flow` would be limited as non-responsive now.
    pub fn is_nonresponsive(&self, flow: FlowId) -> bool {
        self.active.find(&self.active.hashed(flow)).is_nonresponsive
    }

    /// Moving hash functions (section 4.4.4): when they are due, before anything else happens at that instant.
    #[inline]
    fn change_hash(&mut self, now: Time) {
        let Some(every) = self.config.rehash else { return };
        let elapsed = now.since(self.active_since);
        if elapsed < every {
            return;
        }
        let turns = elapsed.as_nanos() / every.as_nanos();
        let previous = self.active_since;
        self.active_since += every * turns;
        self.warmed_since = self.active_since;
        let least = match self.config.bins_begin {
            BinsBegin::Fresh => None,
            BinsBegin::Mean => self.active.mean_of_unpolluted(),
        };
        let mut is_warm = false;
        if let Some(warming) = &mut self.warming {
            core::mem::swap(&mut self.active, warming);
            warming.reset(&mut self.random);
            // After more turns than one without a packet nothing warmed the set that is due now.
            is_warm = turns == 1;
        }
        if is_warm {
            self.warmed_since = previous;
        } else {
            self.active.reset(&mut self.random);
        }
        if let Some(p) = least {
            self.active.raise_to(p);
        }
    }

    /// Fair share (section 4.6): at the end of each window the limit follows from what was counted in it.
    #[inline]
    fn take_census(&mut self, flow: FlowId, now: Time) {
        let polluted = self.active.polluted();
        let Some(census) = &mut self.census else { return };
        if let Some(mean) = census.on_arrival(flow, polluted, now) {
            let flows = census.flows;
            self.limiter_rate = fair_limit(self.link_rate, self.nonresponsive_flows(mean), flows);
            self.limiter.set_rate(self.limiter_rate, now);
        }
    }

    /// The number of flows that pollute so many bins over all levels.
    fn nonresponsive_flows(&self, polluted: f64) -> f64 {
        flows_filling(polluted / f64::from(self.config.levels), self.config.bins)
    }
}

#[cfg(test)]
mod tests;
