//! What a sender counts.
//!
//! Source: none; what a user of a simulator asks of a sender.

/// Counts of a sender since its start.
// In this order, what every segment touches comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SenderCounters {
    /// Segments sent, retransmissions included.
    pub sent_segments: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Segments of which some was sent before.
    pub retransmissions: u64,
    /// Acknowledgments that repeated the last while data was under way (RFC 5681, section 2).
    pub duplicate_acks: u64,
    /// Expiries of the retransmission timer with data under way.
    pub timeouts: u64,
    /// Recoveries that duplicates or SACK blocks began.
    pub fast_retransmits: u64,
    /// Reductions by an ECN echo.
    pub ecn_reductions: u64,
    /// Pauses because an ECN echo found a window of one segment.
    pub ecn_timeouts: u64,
    /// Segments that made no sense and were ignored.
    pub ignored_acks: u64,
}

impl SenderCounters {
    /// Counts `other` as well.
    pub const fn add(&mut self, other: &Self) {
        self.sent_segments += other.sent_segments;
        self.sent_bytes += other.sent_bytes;
        self.retransmissions += other.retransmissions;
        self.timeouts += other.timeouts;
        self.fast_retransmits += other.fast_retransmits;
        self.duplicate_acks += other.duplicate_acks;
        self.ecn_reductions += other.ecn_reductions;
        self.ecn_timeouts += other.ecn_timeouts;
        self.ignored_acks += other.ignored_acks;
    }

    /// What was counted after `earlier`.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            sent_segments: self.sent_segments - earlier.sent_segments,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts - earlier.timeouts,
            fast_retransmits: self.fast_retransmits - earlier.fast_retransmits,
            duplicate_acks: self.duplicate_acks - earlier.duplicate_acks,
            ecn_reductions: self.ecn_reductions - earlier.ecn_reductions,
            ecn_timeouts: self.ecn_timeouts - earlier.ecn_timeouts,
            ignored_acks: self.ignored_acks - earlier.ignored_acks,
        }
    }
}
