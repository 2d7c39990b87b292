//! What is always counted. Everything else is measured only where a scenario asks for it.

use core::ops::Index;

use tidegate_packet::{DropReason, MarkReason};
use tidegate_units::{BitRate, Time};

/// A distribution of delays in nanoseconds, exact to three digits.
pub type Delays = hdrhistogram::Histogram<u64>;

/// An empty distribution.
pub(crate) fn no_delays() -> Delays {
    Delays::new(3).expect("three digits are allowed")
}

/// The rate of one direction of a link, integrated over time: its own, not that at which a neighbour lets it send, so that what
/// arrives can be compared with what it could carry. Apart from [`LinkCounters`], which packets touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RateIntegral {
    /// Since the last change.
    rate: BitRate,
    /// Bits per second times nanoseconds, until the last change.
    sum: u128,
    /// When that was.
    since: Time,
}

impl RateIntegral {
    /// Begins at `now`.
    pub(crate) const fn starting(rate: BitRate, now: Time) -> Self {
        Self { rate, sum: 0, since: now }
    }

    /// From `now` on the link has `rate`.
    pub(crate) fn change(&mut self, rate: BitRate, now: Time) {
        *self = Self { rate, sum: self.until(now), since: now };
    }

    /// Its value at `now`.
    pub(crate) fn until(self, now: Time) -> u128 {
        self.sum + u128::from(self.rate.as_bps()) * u128::from(now.since(self.since).as_nanos())
    }

    /// The rate since the last change.
    pub(crate) const fn rate(self) -> BitRate {
        self.rate
    }
}

/// Packets by the reason of what became of them, of which there are `N`. Most links of a large network never drop a packet: room
/// for counts is made when the first is counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ByReason<const N: usize>(Option<Box<[u64; N]>>);

impl<const N: usize> ByReason<N> {
    const NONE: [u64; N] = [0; N];

    /// One more for the reason at `index`.
    pub(crate) fn count(&mut self, index: usize) {
        self.0.get_or_insert_with(|| Box::new(Self::NONE))[index] += 1;
    }

    /// Counts `other` as well.
    pub(crate) fn add(&mut self, other: &Self) {
        let Some(more) = &other.0 else { return };
        let counts = self.0.get_or_insert_with(|| Box::new(Self::NONE));
        counts.iter_mut().zip(more.iter()).for_each(|(count, more)| *count += more);
    }

    /// The counts, in the order of the reasons.
    pub fn iter(&self) -> core::slice::Iter<'_, u64> {
        self.0.as_deref().unwrap_or(const { &Self::NONE }).iter()
    }
}

impl<const N: usize> Index<usize> for ByReason<N> {
    type Output = u64;

    fn index(&self, index: usize) -> &u64 {
        &self.0.as_deref().unwrap_or(const { &Self::NONE })[index]
    }
}

impl<'a, const N: usize> IntoIterator for &'a ByReason<N> {
    type Item = &'a u64;
    type IntoIter = core::slice::Iter<'a, u64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Counts of one direction of a link since the statistics began.
///
/// A packet is in the queue from its arrival until its last bit is sent, so that lengths count the packet in
/// transmission.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Packets offered.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets in the queue, integrated over time: packet nanoseconds.
    pub packet_nanos: u128,
    /// Bytes in the queue, integrated over time: byte nanoseconds.
    pub byte_nanos: u128,
    /// Nanoseconds spent transmitting.
    pub busy_nanos: u64,
    /// The most bytes in the queue at once.
    pub queue_bytes_max: u64,
    /// The most packets in the queue at once.
    pub queue_packets_max: u32,
    /// How many packets [`delay_nanos`](Self::delay_nanos) covers.
    pub delayed_packets: u64,
    /// The sum over packets of the time from arrival to last bit sent, in nanoseconds. A packet counts when it reaches the
    /// far end, or would if the medium did not lose it.
    pub delay_nanos: u128,
    /// The longest such time, in nanoseconds.
    pub delay_nanos_max: u64,
    /// Packets whose last bit reached the next node.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Copies of delivered packets that the medium made; they take no time on the link.
    pub duplicated_packets: u64,
    /// Bytes of control messages among the delivered.
    pub control_bytes: u64,
    /// Packets marked by the queue.
    pub marks_by_reason: ByReason<{ MarkReason::ALL.len() }>,
    /// Packets dropped by the queue, the link or its medium.
    pub drops_by_reason: ByReason<{ DropReason::ALL.len() }>,
}

impl LinkCounters {
    /// All drops together.
    pub fn dropped_packets(&self) -> u64 {
        self.drops_by_reason.iter().sum()
    }

    /// All marks together.
    pub fn marked_packets(&self) -> u64 {
        self.marks_by_reason.iter().sum()
    }

    /// Counts `other` as well, of another part of the same link.
    pub(crate) fn join(&mut self, other: &Self) {
        // With every field, so that a new one is not forgotten.
        let Self {
            arrived_packets,
            arrived_bytes,
            packet_nanos,
            byte_nanos,
            busy_nanos,
            queue_bytes_max,
            queue_packets_max,
            delayed_packets,
            delay_nanos,
            delay_nanos_max,
            delivered_packets,
            delivered_bytes,
            duplicated_packets,
            control_bytes,
            marks_by_reason,
            drops_by_reason,
        } = other;
        self.arrived_packets += arrived_packets;
        self.arrived_bytes += arrived_bytes;
        self.packet_nanos += packet_nanos;
        self.byte_nanos += byte_nanos;
        self.busy_nanos += busy_nanos;
        self.queue_bytes_max = self.queue_bytes_max.max(*queue_bytes_max);
        self.queue_packets_max = self.queue_packets_max.max(*queue_packets_max);
        self.delayed_packets += delayed_packets;
        self.delay_nanos += delay_nanos;
        self.delay_nanos_max = self.delay_nanos_max.max(*delay_nanos_max);
        self.delivered_packets += delivered_packets;
        self.delivered_bytes += delivered_bytes;
        self.duplicated_packets += duplicated_packets;
        self.control_bytes += control_bytes;
        self.marks_by_reason.add(marks_by_reason);
        self.drops_by_reason.add(drops_by_reason);
    }
}

/// Counts of one flow identity (one direction of a transport connection, or an edge's control messages).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounters {
    /// Packets sent by the source; a multicast packet counts once.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped anywhere, copies included.
    pub lost_packets: u64,
    /// Copies of packets that media made anywhere.
    pub duplicated_packets: u64,
    /// Congestion marks set anywhere.
    pub marked_packets: u64,
}

impl FlowCounters {
    /// Counts `other` as well.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.lost_packets += other.lost_packets;
        self.duplicated_packets += other.duplicated_packets;
        self.marked_packets += other.marked_packets;
    }
}

/// What one receiver got of one flow.
// In this order, what every packet touches is one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct SinkCounters {
    /// Sum of one-way delays, in nanoseconds.
    pub delay_nanos: u128,
    /// Shortest one-way delay, in nanoseconds.
    pub delay_nanos_min: u64,
    /// Longest one-way delay, in nanoseconds.
    pub delay_nanos_max: u64,
    /// Packets that arrived.
    pub received_packets: u64,
    /// Their bytes at the network layer.
    pub received_bytes: u64,
    /// Payload bytes delivered in order, once.
    pub goodput_bytes: u64,
    /// Packets that arrived with a congestion mark.
    pub marked_packets: u64,
    /// Packets that arrived green: their bytes.
    pub priority_bytes: u64,
    /// When the first packet arrived.
    pub first: Time,
    /// When the last packet arrived.
    pub last: Time,
}

impl Default for SinkCounters {
    fn default() -> Self {
        Self {
            received_packets: 0,
            received_bytes: 0,
            goodput_bytes: 0,
            priority_bytes: 0,
            marked_packets: 0,
            delay_nanos: 0,
            delay_nanos_min: u64::MAX,
            delay_nanos_max: 0,
            first: Time::MAX,
            last: Time::ZERO,
        }
    }
}

/// Packets made and gone in the whole run: what conservation is checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Packets made: sent by sources, by edges, by branching of multicast trees, by media that duplicate.
    pub created: u64,
    /// Those of them that media made.
    pub duplicated: u64,
    /// Packets that reached their destination.
    pub delivered: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets whose last bit reached a next node.
    pub packet_hops: u64,
    /// Events handled.
    pub events: u64,
    /// Control messages sent by edges and routers.
    pub control_packets: u64,
    /// Their bytes on the wire, counted once at the sender.
    pub control_bytes: u64,
    /// Control messages lost.
    pub control_lost_packets: u64,
}

impl Totals {
    /// Counts `other` as well.
    pub(crate) const fn add(&mut self, other: &Self) {
        // With every field, so that a new one is not forgotten.
        let &Self {
            created,
            duplicated,
            delivered,
            dropped,
            packet_hops,
            events,
            control_packets,
            control_bytes,
            control_lost_packets,
        } = other;
        self.created += created;
        self.duplicated += duplicated;
        self.delivered += delivered;
        self.dropped += dropped;
        self.packet_hops += packet_hops;
        self.events += events;
        self.control_packets += control_packets;
        self.control_bytes += control_bytes;
        self.control_lost_packets += control_lost_packets;
    }
}
