//! What a configuration says of CAKE.
//!
//! Source: tc-cake(8); Linux, `net/sched/sch_cake.c`. Deviations: those of the module above.

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use crate::schedule::BinHash;
use crate::schedule::flow_queueing::check_sets;

words! {
    /// Between whom queues are fair.
    pub enum CakeFlows {
        /// Nobody: one queue in each tin.
        Flowblind = "flowblind",
        /// Hosts that packets come from.
        SrcHost = "srchost",
        /// Hosts that packets go to.
        DstHost = "dsthost",
        /// Pairs of hosts.
        Hosts = "hosts",
        /// Flows.
        Flows = "flows",
        /// Hosts that packets come from, and flows of each.
        DualSrcHost = "dual-srchost",
        /// Hosts that packets go to, and flows of each.
        DualDstHost = "dual-dsthost",
        /// Flows, of which each has the smaller of the shares that its two hosts leave it.
        TripleIsolate = "triple-isolate",
    }
}

words! {
    /// Which tins there are, and which codepoints are theirs.
    pub enum CakeTins {
        /// One.
        BestEffort = "besteffort",
        /// Bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
        /// Eight, by the differentiated services of the last decades.
        Diffserv8 = "diffserv8",
        /// Eight, by the first three bits (RFC 791).
        Precedence = "precedence",
    }
}

words! {
    /// Which acknowledgments go that a later one of the same queue makes needless.
    pub enum AckFilter {
        /// None.
        No = "no",
        /// Where two are needless, the first.
        Filter = "filter",
        /// Also a single one, if it is directly in front of the later one.
        Aggressive = "aggressive",
    }
}

words! {
    /// What the link in front of the shaper adds to each packet besides `overhead`.
    pub enum Framing {
        /// Nothing.
        None = "none",
        /// It fills cells of 53 bytes with 48 of the packet each (ADSL).
        Atm = "atm",
        /// A byte for 64, or for what is left (VDSL2).
        Ptm = "ptm",
    }
}

const BANDWIDTH: Bound<BitRate> = Bound::between(
    BitRate::from_bps(512),
    BitRate::from_bps(1_000_000_000_000),
)
.saying("", " is no rate that a shaper keeps")
.helping(
    "from 512bit to 1Tbit: at less a packet takes half a minute, at more a small one no whole nanosecond",
);

const OVERHEAD: Bound<i64> = Bound::between(-64, 256)
    .saying("", " bytes are no overhead")
    .helping("from -64 to 256: as tc-cake(8) takes it");

const MPU: Bound<u32> = Bound::between(0, 256)
    .saying("", " bytes are no least packet")
    .helping("from 0 to 256: as tc-cake(8) takes it");

const QUEUES: Bound<u32> = Bound::between(1, 65_536)
    .saying("", " is no number of queues")
    .helping("from 1 to 65536: flows need one; all are there from the start");

const WAYS: Bound<u32> = Bound::between(1, 64)
    .saying("", " is no number of choices")
    .helping("from 1 to 64: all of them may be looked at for a packet");

const MEMORY: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(1 << 31))
    .saying("", " is no memory for packets")
    .helping("from 1B to 2147483.648kB: packets need some; more is no queue of a link");

parameters! {
    /// # CAKE
    ///
    /// A shaper that knows what the link adds to packets, in front of it tins for differentiated services, and in each of them queues
    /// that are fair to hosts and to their flows, under COBALT.
    ///
    /// Source: Linux (`sch_cake`).
    #[derive(Copy)]
    pub struct CakeConfig {
        /// The rate of the shaper. Without it there is none, and tins share the link. Source: tc-cake(8).
        bandwidth: Option<BitRate> = None => BANDWIDTH;
        /// What the link adds to each packet, in bytes, for the shaper. Source: tc-cake(8).
        overhead: i64 = 0 => OVERHEAD;
        /// The least bytes that a packet takes on the link, with what it adds. Source: tc-cake(8).
        mpu: u32 = 0 => MPU;
        /// What the link adds besides. Source: tc-cake(8).
        framing: Framing = Framing::None;
        /// The tins. Source: tc-cake(8).
        diffserv: CakeTins = CakeTins::Diffserv3;
        /// Between whom queues are fair. Source: tc-cake(8).
        isolate: CakeFlows = CakeFlows::TripleIsolate;
        /// Which acknowledgments are left out. Source: tc-cake(8).
        ack_filter: AckFilter = AckFilter::No;
        /// Whether what COBALT drops counts as sent: for a shaper behind the bottleneck. Source: tc-cake(8).
        ingress: bool = false;
        /// Whether packets go on without their codepoint. Source: tc-cake(8).
        wash: bool = false;
        /// The round trips that it is for: the interval of COBALT, whose target is a twentieth. Source: tc-cake(8).
        rtt: Span = Span::from_millis(100) => bound::DURATION;
        /// How many bytes may wait. Default: four times what `bandwidth` carries in `rtt`, at least 4194.304kB; without a shaper
        /// 15503.36kB. Source: Linux (`cake_reconfigure`).
        memory_limit: Option<Bytes> = None => MEMORY;
        /// The queues of each tin. Source: Linux (`CAKE_QUEUES`).
        queues: u32 = 1024 => QUEUES;
        /// How many queues a flow has a choice of. Source: Linux (`CAKE_SET_WAYS`).
        ways: u32 = 8 => WAYS;
        /// How flows and hosts find their places.
        hash: BinHash = BinHash::Keyed;
    }
    check |config, report| {
        check_sets(config.queues, config.ways, report);
        if config.bandwidth.is_none() {
            for (key, is_set) in [
                ("overhead", config.overhead != 0),
                ("mpu", config.mpu != 0),
                ("framing", config.framing != Framing::None),
                ("ingress", config.ingress),
            ] {
                report.idle(key, is_set, "bandwidth");
            }
        }
    };
}

impl CakeConfig {
    /// How long packets may wait in a queue that stays (`q->target`).
    pub(super) fn target(&self) -> Span {
        Span::from_nanos((self.rtt.as_nanos() / 20).max(1))
    }

    /// How many tins it has.
    pub fn tins(&self) -> u64 {
        match self.diffserv {
            CakeTins::BestEffort => 1,
            CakeTins::Diffserv3 => 3,
            CakeTins::Diffserv4 => 4,
            CakeTins::Diffserv8 | CakeTins::Precedence => 8,
        }
    }

    /// How many bytes may wait in all (`cake_reconfigure`).
    pub(super) fn memory_bytes(&self) -> u64 {
        const LEAST: u64 = 4 << 20;
        // `sch->limit` packets of the largest size.
        const MOST: u64 = 10_240 * 1514;
        let of_rate = |rate: BitRate| rate.bytes_in(self.rtt.saturating_mul(4)).get().max(LEAST);
        self.memory_limit.map_or_else(|| self.bandwidth.map_or(MOST, of_rate).min(MOST), Bytes::get)
    }
}
