//! Earliest departure: a queue for each flow, and no packet leaves before its time. That is what spreads the segments of a paced host
//! evenly although it hands them over in bursts: the sender stamps each with the instant at which it should leave
//! (`Sink::departs_at`), and this keeps to it. A flow may have a greatest rate as well.
//!
//! Source: Linux (`net/sched/sch_fq.c`); A. Saeed et al., "Carousel" (SIGCOMM 2017), and the time stamps of earliest departure that
//! came of it.
//! Deviations: those of flow queueing (`flow_queueing`), but that a new queue that was emptied always goes behind the old ones, and
//! - Flows find their queues by sets of eight (`ways`), where Linux has a queue for each socket; they share one where a set is full.
//! - The greatest rate is configured. Linux takes the socket's, too; here that is what the stamps say.
//! - There is no horizon: hosts here stamp a millisecond ahead. Sockets without a stamp wait for their turn only.
//! - A queue that was held is an old one when its time has come, as in Linux; its credits are what it had.
//! - A flow is new where its queue was another's last. Linux forgets flows that were quiet for 3 s if there are many.
//! - Packets of one flow stay in order, and the first one's stamp counts. Linux sorts them by their stamps.
//! - The greatest rate spaces all packets one by one. Of those without a stamp, Linux lets a turn go at once, and then waits.
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
        /// Bytes in the first turn of a flow that was not there before. One that comes back has what its last turn left, and after
        /// 40 ms a quantum at least. Source: Linux (ten packets: a first window).
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
    /// Since when the flow has no turn (`age`); `None` if it never had one.
    left_at: Option<Time>,
}

/// For how long a flow must have been quiet to begin with a quantum (Linux, `flow_refill_delay`).
const REFILL_DELAY: Span = Span::from_millis(40);

impl SharedLaw for EarliestDeparture {
    type State = Departing;
    const HOLDS: bool = true;
    const ALWAYS_BECOMES_OLD: bool = true;

    fn leaves_at(&self, state: &Departing, wanted: Option<Time>) -> Time {
        wanted.unwrap_or(Time::ZERO).max(state.next_at)
    }

    /// Linux, `fq_flow_set_throttled`.
    fn on_held(&mut self, state: &mut Departing, until: Time) {
        state.next_at = until;
    }

    /// Linux, `fq_classify` and `fq_enqueue`.
    fn first_turn_bytes(&self, state: &Departing, left_bytes: i64, quantum_bytes: u32, now: Time) -> i64 {
        match state.left_at {
            None => i64::from(self.first_turn_bytes),
            Some(at) if now.since(at) > REFILL_DELAY => left_bytes.max(i64::from(quantum_bytes)),
            Some(_) => left_bytes,
        }
    }

    fn on_left(&mut self, state: &mut Departing, now: Time) {
        state.left_at = Some(now);
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
