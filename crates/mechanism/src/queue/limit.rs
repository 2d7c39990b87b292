//! How much may wait.
//!
//! Source: none for packets and bytes. A limit in time is the link's rate times it, as operators state buffers. Deviations: none.

use alloc::format;
use alloc::string::String;

use tidegate_packet::{Backlog, Packet};
use tidegate_units::{BitRate, Bytes, Limit};

/// Sizes that were checked to fit.
pub(crate) fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

/// What is advised where [`never_exceeded`] is said.
pub(super) const BELOW_LIMIT: &str = "below `limit`; else it is drop-tail";

/// That a queue with this limit never holds more than `threshold`.
pub(super) fn never_exceeded(threshold: Limit, limit: Limit) -> String {
    format!("{threshold} is never exceeded: no more than {limit} may wait")
}

/// A threshold in packets, where bytes count as packets of `mean_packet`; none where it is a time.
pub(super) fn in_packets(threshold: Limit, mean_packet: Bytes) -> Option<f64> {
    match threshold {
        Limit::Packets(packets) => Some(f64::from(packets)),
        Limit::Bytes(bytes) => Some(bytes.as_f64() / mean_packet.as_f64()),
        Limit::Time(_) => None,
    }
}

/// A queue's limit, ready for use at its link's rate.
// In this order, so that what every packet asks for comes first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueLimit {
    bytes: u64,
    packets: u32,
    configured: Limit,
}

impl QueueLimit {
    /// The limit `configured` for a link of `rate`. A limit in time becomes the bytes that the link sends in it.
    pub fn new(configured: Limit, rate: BitRate) -> Self {
        let (packets, bytes) = match configured {
            Limit::Packets(packets) => (packets, u64::MAX),
            Limit::Bytes(bytes) => (u32::MAX, bytes.get()),
            Limit::Time(span) => (u32::MAX, rate.bytes_in(span).get()),
        };
        Self { bytes, packets, configured }
    }

    /// Whether `packet` may join behind `queue`. A limit in time below one packet still holds one; one in
    /// bytes holds none, for a buffer has no more bytes than it has.
    #[inline]
    pub fn admits(&self, queue: Backlog, packet: &Packet) -> bool {
        queue.packets < self.packets
            // As many packets as a count of 32 bits has, each of as many bytes, are below 2^64 bytes.
            && (queue.bytes + u64::from(packet.wire_bytes) <= self.bytes
                || (queue.is_empty() && !matches!(self.configured, Limit::Bytes(_))))
    }

    /// Whether `queue` is more than may wait: for a scheduler that makes room after a packet joined.
    #[inline]
    pub fn exceeded_by(&self, queue: Backlog) -> bool {
        queue.packets > self.packets
            || (queue.bytes > self.bytes && (queue.packets > 1 || matches!(self.configured, Limit::Bytes(_))))
    }

    /// The limit at a new link rate.
    pub fn set_link_rate(&mut self, rate: BitRate) {
        *self = Self::new(self.configured, rate);
    }

    /// The most packets that may wait, if that is what the limit counts.
    pub const fn in_packets(&self) -> Option<u32> {
        if let Limit::Packets(packets) = self.configured { Some(packets) } else { None }
    }

    /// The most bytes that may wait; `u64::MAX` for a limit in packets.
    pub const fn in_bytes(&self) -> u64 {
        self.bytes
    }
}

/// A threshold of so many packets of 1000 bytes, for tests whose thresholds are no whole number of packets.
#[cfg(test)]
pub(crate) fn threshold(packets: f64) -> Limit {
    Limit::Bytes(Bytes::new(libm::round(packets * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::FlowId;
    use tidegate_units::{Bytes, Span};

    #[test]
    fn each_kind_of_limit_counts_its_own_unit() {
        let packet = Packet::new(0, FlowId(0), 1000);
        let queue = Backlog { packets: 2, bytes: 2000 };
        let rate = BitRate::from_mbps(8); // one byte per microsecond
        let admits = |limit| QueueLimit::new(limit, rate).admits(queue, &packet);
        assert!(admits(Limit::Packets(3)) && !admits(Limit::Packets(2)));
        assert!(admits(Limit::Bytes(Bytes::new(3000))) && !admits(Limit::Bytes(Bytes::new(2999))));
        assert!(
            admits(Limit::Time(Span::from_micros(3000))) && !admits(Limit::Time(Span::from_micros(2999)))
        );
    }

    #[test]
    fn a_time_shorter_than_one_packet_still_lets_one_wait() {
        let limit = QueueLimit::new(Limit::Time(Span::from_micros(1)), BitRate::from_mbps(8));
        let packet = Packet::new(0, FlowId(0), 1000);
        assert!(limit.admits(Backlog::EMPTY, &packet));
        assert!(!limit.admits(Backlog { packets: 1, bytes: 1000 }, &packet));
    }
}
