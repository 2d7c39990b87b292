//! What a link counts for every packet, in one cache line.
//!
//! Links are many and visited in turn, so that each line of one that a packet touches is a miss of the cache. Counts and sums
//! are kept in as few bits as they need for a while. What passes those bits is carried over into [`LinkCounters`] of its own,
//! where seldom counts are as well: most links of a large network never have any.

use tidegate_packet::{DropReason, MarkReason};
use tidegate_units::Span;

use crate::counters::LinkCounters;

/// See the module; what each field counts is said at that of [`LinkCounters`] with its name.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Tally {
    packet_nanos: u64,
    byte_nanos: u64,
    delay_nanos: u64,
    busy_nanos: u32,
    arrived_packets: u32,
    arrived_bytes: u32,
    delivered_packets: u32,
    delivered_bytes: u32,
    queue_packets_max: u32,
    // The next two stay at their largest value once they pass it.
    queue_bytes_max: u32,
    delay_nanos_max: u32,
    beyond: Option<Box<LinkCounters>>,
}

const _: () = assert!(size_of::<Tally>() == 64, "a packet touches one line of it");

/// What one digit more of a small count is worth.
const CARRY: u64 = 1 << u32::BITS;
/// The same of a sum.
const CARRY_OF_SUM: u128 = 1 << u64::BITS;

/// Adds `more`; whether that passed 32 bits.
#[inline]
const fn count(small: &mut u32, more: u32) -> bool {
    let (sum, passes) = small.overflowing_add(more);
    *small = sum;
    passes
}

/// Adds `more`; whether that passed 64 bits.
#[inline]
const fn sum(small: &mut u64, more: u64) -> bool {
    let (sum, passes) = small.overflowing_add(more);
    *small = sum;
    passes
}

#[expect(clippy::inline_always, reason = "each runs once per packet and hop")]
impl Tally {
    /// A packet of so many bytes was offered.
    #[inline(always)]
    pub(super) fn on_arrived(&mut self, wire_bytes: u32) {
        if count(&mut self.arrived_packets, 1) {
            self.beyond().arrived_packets += CARRY;
        }
        if count(&mut self.arrived_bytes, wire_bytes) {
            self.beyond().arrived_bytes += CARRY;
        }
    }

    /// A packet of `wire_bytes` will have been in the queue for `delay`, of which `busy` in transmission.
    #[inline(always)]
    pub(super) fn on_planned(&mut self, wire_bytes: u32, delay: Span, busy: Span) {
        self.add_busy(busy);
        // Little's law: the queue integrated over time is the sum of what each packet spends in it.
        let Some(byte_nanos) = delay.as_nanos().checked_mul(u64::from(wire_bytes)) else {
            let nanos = u128::from(delay.as_nanos());
            return self.add_queue(nanos, nanos * u128::from(wire_bytes));
        };
        if sum(&mut self.packet_nanos, delay.as_nanos()) {
            self.beyond().packet_nanos += CARRY_OF_SUM;
        }
        if sum(&mut self.byte_nanos, byte_nanos) {
            self.beyond().byte_nanos += CARRY_OF_SUM;
        }
    }

    /// So much more time in transmission.
    #[inline(always)]
    pub(super) fn add_busy(&mut self, busy: Span) {
        let busy = busy.as_nanos() + u64::from(self.busy_nanos);
        if busy < CARRY {
            self.busy_nanos = busy as u32;
        } else {
            self.set_busy(busy);
        }
    }

    /// The queue now holds so much, the packet in transmission included.
    #[inline(always)]
    pub(super) fn on_length(&mut self, packets: u32, bytes: u64) {
        self.queue_packets_max = self.queue_packets_max.max(packets);
        if bytes > u64::from(self.queue_bytes_max) {
            self.queue_bytes_max = u32::try_from(bytes).unwrap_or_else(|_| {
                let most = &mut self.beyond().queue_bytes_max;
                *most = bytes.max(*most);
                u32::MAX
            });
        }
    }

    /// The queue, which was empty, now holds a packet of `bytes`, which is in transmission.
    #[inline(always)]
    pub(super) fn on_alone(&mut self, bytes: u32) {
        if bytes > self.queue_bytes_max || self.queue_packets_max == 0 {
            self.queue_bytes_max = bytes.max(self.queue_bytes_max);
            self.queue_packets_max = self.queue_packets_max.max(1);
        }
    }

    /// A packet has spent `delay` in the queue.
    #[inline(always)]
    pub(super) fn on_transmitted(&mut self, delay: Span) {
        let nanos = delay.as_nanos();
        if sum(&mut self.delay_nanos, nanos) {
            self.beyond().delay_nanos += CARRY_OF_SUM;
        }
        if nanos > u64::from(self.delay_nanos_max) {
            self.delay_nanos_max = u32::try_from(nanos).unwrap_or_else(|_| {
                let most = &mut self.beyond().delay_nanos_max;
                *most = nanos.max(*most);
                u32::MAX
            });
        }
    }

    /// A packet of `wire_bytes` reached the next node.
    #[inline(always)]
    pub(super) fn on_delivered(&mut self, wire_bytes: u32) {
        if count(&mut self.delivered_packets, 1) {
            self.beyond().delivered_packets += CARRY;
        }
        if count(&mut self.delivered_bytes, wire_bytes) {
            self.beyond().delivered_bytes += CARRY;
        }
    }

    /// What is beyond the bits here, and what is counted seldom.
    #[cold]
    #[inline(never)]
    pub(super) fn beyond(&mut self) -> &mut LinkCounters {
        self.beyond.get_or_insert_default()
    }

    #[cold]
    #[inline(never)]
    fn set_busy(&mut self, nanos: u64) {
        self.busy_nanos = nanos as u32;
        self.beyond().busy_nanos += nanos - u64::from(nanos as u32);
    }
}

impl Tally {
    /// A packet was dropped.
    pub(crate) fn on_drop(&mut self, why: DropReason) {
        self.beyond().drops_by_reason.count(why.index());
    }

    /// A packet was marked.
    pub(crate) fn on_mark(&mut self, why: MarkReason) {
        self.beyond().marks_by_reason.count(why.index());
    }

    /// Time in transmission that was planned, and is not spent.
    pub(super) fn take_busy(&mut self, busy: Span) {
        if let Some(left) = u64::from(self.busy_nanos).checked_sub(busy.as_nanos()) {
            self.busy_nanos = left as u32;
        } else {
            let beyond = self.beyond.get_or_insert_default();
            beyond.busy_nanos += u64::from(self.busy_nanos);
            beyond.busy_nanos -= busy.as_nanos();
            self.busy_nanos = 0;
        }
    }

    /// Bytes of a fluid reached the next node.
    pub(super) fn on_fluid_delivered(&mut self, bytes: u64) {
        self.beyond().delivered_bytes += bytes;
    }

    /// So much more of the queue, integrated over time.
    pub(super) fn add_queue(&mut self, packet_nanos: u128, byte_nanos: u128) {
        let (packets, bytes) =
            (u128::from(self.packet_nanos) + packet_nanos, u128::from(self.byte_nanos) + byte_nanos);
        (self.packet_nanos, self.byte_nanos) = (packets as u64, bytes as u64);
        if packets >= CARRY_OF_SUM || bytes >= CARRY_OF_SUM {
            let beyond = self.beyond();
            beyond.packet_nanos += packets - u128::from(packets as u64);
            beyond.byte_nanos += bytes - u128::from(bytes as u64);
        }
    }

    /// So much less of it: it was planned, and does not come.
    pub(super) fn take_queue(&mut self, packet_nanos: u128, byte_nanos: u128) {
        let (packets, bytes) = (u128::from(self.packet_nanos), u128::from(self.byte_nanos));
        if packets >= packet_nanos && bytes >= byte_nanos {
            (self.packet_nanos, self.byte_nanos) =
                ((packets - packet_nanos) as u64, (bytes - byte_nanos) as u64);
        } else {
            (self.packet_nanos, self.byte_nanos) = (0, 0);
            let beyond = self.beyond();
            beyond.packet_nanos = beyond.packet_nanos + packets - packet_nanos;
            beyond.byte_nanos = beyond.byte_nanos + bytes - byte_nanos;
        }
    }

    /// Packets offered.
    pub(crate) fn arrived_packets(&self) -> u64 {
        u64::from(self.arrived_packets) + self.beyond.as_ref().map_or(0, |beyond| beyond.arrived_packets)
    }

    /// Packets whose last bit reached the next node.
    pub(crate) fn delivered_packets(&self) -> u64 {
        u64::from(self.delivered_packets) + self.beyond.as_ref().map_or(0, |beyond| beyond.delivered_packets)
    }

    /// All that was counted.
    pub(crate) fn report(&self) -> LinkCounters {
        let mut counters = self.beyond.as_deref().cloned().unwrap_or_default();
        counters.arrived_packets += u64::from(self.arrived_packets);
        counters.arrived_bytes += u64::from(self.arrived_bytes);
        counters.packet_nanos += u128::from(self.packet_nanos);
        counters.byte_nanos += u128::from(self.byte_nanos);
        counters.busy_nanos += u64::from(self.busy_nanos);
        counters.queue_bytes_max = counters.queue_bytes_max.max(self.queue_bytes_max.into());
        counters.queue_packets_max = self.queue_packets_max;
        counters.delay_nanos += u128::from(self.delay_nanos);
        counters.delay_nanos_max = counters.delay_nanos_max.max(self.delay_nanos_max.into());
        counters.delivered_packets += u64::from(self.delivered_packets);
        counters.delivered_bytes += u64::from(self.delivered_bytes);
        // Those that the medium lost were in the queue as well.
        counters.delayed_packets =
            counters.delivered_packets + counters.drops_by_reason[DropReason::Medium.index()];
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One thing that a link counts, of any size.
    #[derive(Clone, Debug)]
    enum Said {
        Arrived(u32),
        Planned(u32, u64, u64),
        Busy(u64),
        Length(u32, u64),
        Alone(u32),
        Crossed(u32, u64),
        LostByMedium(u64),
        Queue(u64, u64),
    }

    fn said() -> impl Strategy<Value = Said> {
        // Sizes and times of packets, and some that pass every small count at once.
        let size = || prop_oneof![40u32..1500, 1u32 << 30..1 << 31];
        let nanos = || prop_oneof![0u64..1 << 31, 1u64 << 31..1 << 34, 1u64 << 61..1 << 62];
        let short = || prop_oneof![0u64..1 << 31, 1u64 << 31..1 << 34];
        prop_oneof![
            size().prop_map(Said::Arrived),
            (size(), nanos(), short()).prop_map(|(bytes, delay, busy)| Said::Planned(bytes, delay, busy)),
            short().prop_map(Said::Busy),
            (0u32..1 << 20, nanos()).prop_map(|(packets, bytes)| Said::Length(packets, bytes)),
            prop_oneof![Just(0), size()].prop_map(Said::Alone),
            (size(), nanos()).prop_map(|(bytes, delay)| Said::Crossed(bytes, delay)),
            nanos().prop_map(Said::LostByMedium),
            (nanos(), nanos()).prop_map(|(packets, bytes)| Said::Queue(packets, bytes)),
        ]
    }

    fn cross(tally: &mut Tally, plain: &mut LinkCounters, delay: u64) {
        tally.on_transmitted(Span::from_nanos(delay));
        plain.delay_nanos += u128::from(delay);
        plain.delay_nanos_max = plain.delay_nanos_max.max(delay);
        plain.delayed_packets += 1;
    }

    fn say(tally: &mut Tally, plain: &mut LinkCounters, said: &Said) {
        let span = Span::from_nanos;
        match *said {
            Said::Arrived(bytes) => {
                tally.on_arrived(bytes);
                plain.arrived_packets += 1;
                plain.arrived_bytes += u64::from(bytes);
            }
            Said::Planned(bytes, delay, busy) => {
                tally.on_planned(bytes, span(delay), span(busy));
                plain.packet_nanos += u128::from(delay);
                plain.byte_nanos += u128::from(delay) * u128::from(bytes);
                plain.busy_nanos += busy;
            }
            Said::Busy(busy) => {
                tally.add_busy(span(busy));
                plain.busy_nanos += busy;
            }
            Said::Length(packets, bytes) => {
                tally.on_length(packets, bytes);
                plain.queue_packets_max = plain.queue_packets_max.max(packets);
                plain.queue_bytes_max = plain.queue_bytes_max.max(bytes);
            }
            Said::Alone(bytes) => {
                tally.on_alone(bytes);
                plain.queue_packets_max = plain.queue_packets_max.max(1);
                plain.queue_bytes_max = plain.queue_bytes_max.max(u64::from(bytes));
            }
            Said::Crossed(bytes, delay) => {
                cross(tally, plain, delay);
                tally.on_delivered(bytes);
                plain.delivered_packets += 1;
                plain.delivered_bytes += u64::from(bytes);
            }
            Said::LostByMedium(delay) => {
                cross(tally, plain, delay);
                tally.on_drop(DropReason::Medium);
                plain.drops_by_reason.count(DropReason::Medium.index());
            }
            Said::Queue(packets, bytes) => {
                tally.add_queue(packets.into(), bytes.into());
                plain.packet_nanos += u128::from(packets);
                plain.byte_nanos += u128::from(bytes);
            }
        }
    }

    /// Takes back what was planned.
    fn take_back(tally: &mut Tally, plain: &mut LinkCounters, said: &Said) {
        if let Said::Planned(bytes, delay, busy) = *said {
            let (delay, byte_nanos) = (u128::from(delay), u128::from(delay) * u128::from(bytes));
            tally.take_queue(delay, byte_nanos);
            tally.take_busy(Span::from_nanos(busy));
            plain.packet_nanos -= delay;
            plain.byte_nanos -= byte_nanos;
            plain.busy_nanos -= busy;
        }
    }

    proptest! {
        #[test]
        fn it_counts_what_wide_counters_count(steps in prop::collection::vec((said(), any::<bool>()), 0..60)) {
            let (mut tally, mut plain) = (Tally::default(), LinkCounters::default());
            for (step, _) in &steps {
                say(&mut tally, &mut plain, step);
                prop_assert_eq!(&tally.report(), &plain);
            }
            for (step, _) in steps.iter().filter(|(_, goes)| *goes) {
                take_back(&mut tally, &mut plain, step);
                prop_assert_eq!(&tally.report(), &plain);
            }
            prop_assert_eq!(tally.arrived_packets(), plain.arrived_packets);
            prop_assert_eq!(tally.delivered_packets(), plain.delivered_packets);
        }
    }

    #[test]
    fn packets_are_counted_beyond_32_bits() {
        let mut tally = Tally { arrived_packets: u32::MAX, delivered_packets: u32::MAX, ..Tally::default() };
        tally.on_arrived(1);
        tally.on_delivered(1);
        assert_eq!(tally.arrived_packets(), CARRY);
        assert_eq!(tally.delivered_packets(), CARRY);
        assert_eq!(tally.report().delayed_packets, CARRY);
    }
}
