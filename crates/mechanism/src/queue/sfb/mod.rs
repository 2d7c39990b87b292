//! Stochastic Fair BLUE: protects flows that respond to congestion from flows that do not, in one FIFO and with memory
//! that does not depend on the number of flows. Each flow is accounted in one bin of each of L levels; a flow that does not
//! respond drives the marking probability of all its bins to 1, while any other has most likely one bin without such a
//! flow. Packets of flows whose bins are all at 1 share a rate limit; the least probability of its bins marks any other.
//!
//! Source: Feng, thesis, sections 4.4 (Fig. 4.14: enqueueing; 4.4.4: moving hash, double buffered) and 4.6 (the limit as
//! a fair share). Per-bin laws: [`law`]; estimates: [`estimate`].
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
pub mod law;

pub use bins::LEVELS_MAX;
pub use hash::SfbHash;
pub use law::{AdaptiveRed, BinLaw};

use tidegate_packet::{Backlog, DropReason, FlowId, MarkReason, Packet};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use self::bins::Bins;
use self::estimate::{Census, fair_limit, flows_filling};
use super::{QueueLimit, QueueManager, Verdict};
use crate::Context;
use crate::random::Substream;
use crate::shape::{Shaper, TokenBucket, TokenBucketConfig};

/// What all flows classified as non-responsive may send together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NonresponsiveLimit {
    /// This rate. Default 0.16 Mb/s (section 4.4.2).
    Rate(BitRate),
    /// As many fair shares as there are non-responsive flows, both estimated (section 4.6).
    FairShare {
        /// Bits of the map in which the flows of a window are counted. Default 4096 (assumed: within 2 % up to 4000 flows).
        map_bits: u32,
        /// The window. Default 1 s (assumed: a flow at its share of 45 Mb/s over 400 sends 14 packets in it).
        window: Span,
    },
}

/// Where bins begin when the hash functions change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BinsBegin {
    /// At nothing (section 4.4.4: "the bins are reset").
    #[default]
    Fresh,
    /// Not below the mean `p_m` of those bins in use until then that are not polluted.
    Mean,
}

impl NonresponsiveLimit {
    /// The fair share with its defaults.
    pub const fn fair_share() -> Self {
        Self::FairShare { map_bits: 4096, window: Span::from_secs(1) }
    }
}

/// Parameters of [`Sfb`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SfbConfig {
    /// How much may wait. Default 200 KB (section 4.4.2).
    pub limit: Limit,
    /// `L`. Default 2 (section 4.4.2). At most [`LEVELS_MAX`].
    pub levels: u32,
    /// `N`, per level. Default 23 (section 4.4.2).
    pub bins: u32,
    /// How flows are spread over the bins. Default by a secret.
    pub hash: SfbHash,
    /// `bin_size`, packets. Default 13 (section 4.4.2: half more than a 23rd of the buffer).
    pub bin_size: u32,
    /// What moves the probability of a bin. Default BLUE (Fig. 4.14).
    pub law: BinLaw,
    /// What non-responsive flows may send. Default 0.16 Mb/s (section 4.4.2).
    pub nonresponsive: NonresponsiveLimit,
    /// Depth of the bucket of that limit; `None` (default) for the largest packet of the link (assumed).
    pub nonresponsive_burst: Option<Bytes>,
    /// How often the hash functions change; `None` (default) for never (section 4.4.4 has 2 s).
    pub rehash: Option<Span>,
    /// Whether the next set of bins is warmed up meanwhile. Default yes (section 4.4.4).
    pub double_buffered: bool,
    /// Where the bins of new hash functions begin. Default at nothing (section 4.4.4).
    pub bins_begin: BinsBegin,
    /// Whether a packet that can carry a mark is marked instead of dropped. Default yes (section 4.4.2).
    pub ecn: bool,
}

impl Default for SfbConfig {
    fn default() -> Self {
        Self {
            limit: Limit::Bytes(Bytes::new(200_000)),
            levels: 2,
            bins: 23,
            hash: SfbHash::Keyed,
            bin_size: 13,
            law: BinLaw::default(),
            nonresponsive: NonresponsiveLimit::Rate(BitRate::from_bps(160_000)),
            nonresponsive_burst: None,
            rehash: None,
            double_buffered: true,
            bins_begin: BinsBegin::Fresh,
            ecn: true,
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
            Bins::new(self.levels, self.bins, self.bin_size, self.law, self.hash, salts)
        };
        let active = set(&mut random);
        let warming = (self.rehash.is_some() && self.double_buffered).then(|| set(&mut random));
        let census = match self.nonresponsive {
            NonresponsiveLimit::Rate(_) => None,
            NonresponsiveLimit::FairShare { map_bits, window } => {
                assert!(map_bits > 0 && !window.is_zero(), "a census has a map and takes a while");
                Some(Census::new(map_bits, window, &mut random))
            }
        };
        let rate = match self.nonresponsive {
            NonresponsiveLimit::Rate(rate) => rate,
            // Nothing is known of the flows yet: as if there were as many as fill the bins of one level.
            NonresponsiveLimit::FairShare { .. } => fair_limit(context.link_rate, 1.0, f64::from(self.bins)),
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
        self.active.find(&self.active.slots(flow)).is_nonresponsive
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
