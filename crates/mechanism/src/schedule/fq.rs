//! Earliest departure: a queue for each flow, and no packet leaves before its time. That is what spreads the segments of a paced host
//! evenly although it hands them over in bursts: the sender stamps each with the instant at which it should leave
//! (`Sink::departs_at`), and this keeps to it. A flow may have a greatest rate as well.
//!
//! Source: Linux (`net/sched/sch_fq.c`); A. Saeed et al., "Carousel" (SIGCOMM 2017), and the time stamps of earliest departure that
//! came of it.
//! Deviations: those of flow queueing (`flow_queueing`), and
//! - Flows find their queues by sets of eight (`ways`), where Linux has a queue for each socket; they share one where a set is full.
//! - The greatest rate is configured. Linux takes the socket's, too; here that is what the stamps say.
//! - There is no horizon: hosts here stamp a millisecond ahead. Sockets without a stamp wait for their turn only.
//! - A queue that was held is an old one when its time has come, as in Linux; its credits are what it had. Of queues held
//!   until the same instant, Linux takes first what was held first.
//! - A flow that comes back into the turns has [`FqConfig::initial_quantum`] each time. In Linux only a flow that was not there
//!   before has it; another one has what it had left, or a quantum at least after 40 ms.
//! - Packets of one flow stay in order, and the first one's stamp counts. Linux sorts them by their stamps.
//! - The greatest rate spaces all packets one by one. Of those without a stamp, Linux lets a turn go at once, and then waits.
//! - A packet that was held for its stamp counts as late from the instant on that the greatest rate allowed. Linux counts from
//!   the stamp.
//! - A queue that was emptied leaves the turns as soon as the link looks for a packet. Linux does not look while nothing waits.
//! - There is one band; what is due never passes all queues; no packet is marked for leaving late; a rate may delay by more
//!   than a second.

use tidegate_packet::{DropReason, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use super::flow_queueing::{FlowQueueing, FlowQueueingConfig, QUANTUM, QUEUES, WAYS, WhenFull};
use super::{BinHash, Classification};
use crate::Context;
use crate::queue::{SharedLaw, Verdict, bytes32};

parameters! {
    /// # Earliest departure
    ///
    /// A queue for each flow, in turns. No packet leaves before the instant that its host has stamped on it, nor faster than
    /// the greatest rate of its flow.
    ///
    /// Source: Linux (`fq`).
    #[derive(Copy)]
    pub struct FqConfig {
        /// How many packets may wait in all queues together. Source: Linux.
        limit: Limit = Limit::Packets(10_000) => bound::in_packets("10000p");
        /// How many packets of one flow may wait. Source: Linux.
        flow_limit: u32 = 100 => bound::COUNT;
        /// Bytes per turn. Source: Linux (two packets of the largest size).
        quantum: Bytes = Bytes::new(3028) => QUANTUM;
        /// Bytes in the first turn of a flow that was quiet. Source: Linux (ten packets: a first window).
        initial_quantum: Bytes = Bytes::new(15_140) => QUANTUM;
        /// The greatest rate of each flow. Default: none. Source: Linux (`maxrate`).
        max_rate: Option<BitRate> = None => bound::RATE;
        /// The number of queues. Source: Linux (buckets).
        queues: u32 = 1024 => QUEUES;
        /// How many queues a flow has a choice of.
        ways: u32 = 8 => WAYS;
        /// What is a flow.
        classify: Classification = Classification::Flow;
    }
    check |config, report| {
        config.flows().check(report);
    };
}

/// See the module.
pub type Fq = FlowQueueing<EarliestDeparture>;

impl FqConfig {
    fn flows(&self) -> FlowQueueingConfig {
        FlowQueueingConfig {
            limit: self.limit,
            memory_limit: Bytes::new(1 << 31),
            quantum: self.quantum,
            queues: self.queues,
            ways: self.ways,
            hash: BinHash::Keyed,
            classify: self.classify,
        }
    }

    /// The scheduler.
    pub fn build(&self, context: &Context) -> Fq {
        let law = EarliestDeparture {
            flow_limit: self.flow_limit,
            first_turn_bytes: bytes32(self.initial_quantum),
            max_rate: self.max_rate,
        };
        FlowQueueing::new(law, &self.flows(), WhenFull::Arriving, false, context)
    }
}

/// When the packets of each queue may leave.
#[derive(Clone, Debug)]
pub struct EarliestDeparture {
    flow_limit: u32,
    first_turn_bytes: u32,
    max_rate: Option<BitRate>,
}

/// What is remembered of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departing {
    packets: u32,
    /// The greatest rate lets nothing go before (`time_next_packet`).
    next_at: Time,
}

impl SharedLaw for EarliestDeparture {
    type State = Departing;
    const HOLDS: bool = true;

    fn leaves_at(&self, state: &Departing, wanted: Option<Time>) -> Time {
        wanted.unwrap_or(Time::ZERO).max(state.next_at)
    }

    fn first_turn_bytes(&self, _quantum_bytes: u32) -> u32 {
        self.first_turn_bytes
    }

    fn on_arrival(&mut self, state: &mut Departing, _packet: &Packet, _bytes: u64, _now: Time) -> Verdict {
        if state.packets >= self.flow_limit {
            return Verdict::Drop(DropReason::Overflow);
        }
        state.packets += 1;
        Verdict::Accept
    }

    /// A packet that leaves late shortens the wait of the next one by as much, down to half (Linux, `fq_dequeue`).
    fn at_head(&mut self, state: &mut Departing, packet: &Packet, _left_bytes: u64, now: Time) -> Verdict {
        state.packets -= 1;
        if let Some(rate) = self.max_rate {
            let wait = rate.span_of(u64::from(packet.wire_bytes));
            let late = if state.next_at == Time::ZERO { Span::ZERO } else { now.since(state.next_at) };
            state.next_at = now.saturating_add(wait - late.min(wait / 2));
        }
        Verdict::Accept
    }
}

#[cfg(test)]
mod tests;
