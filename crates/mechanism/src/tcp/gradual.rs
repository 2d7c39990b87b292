//! A reduction that is spread over a round trip: a window that is halved at once lets nothing go until half of it has arrived, and
//! then all of the rest in a burst. Here segments go in proportion to what arrives.
//!
//! Source: RFC 6937, section 3 (RFC 9937 keeps it): proportional rate reduction; in Linux the answer to an ECN echo, too.
//! Deviations: only for echoes; recovery from losses is RFC 6675's. What RFC 6937 does below the target needs no rule here: that is
//! what any window does.

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradual {
    /// `RecoverFS`: what was under way at the echo; zero where no reduction is spread.
    flight_bytes: u32,
    /// `ssthresh`.
    target_bytes: u32,
    /// `prr_delivered`.
    delivered_bytes: u32,
    /// `prr_out`.
    sent_bytes: u32,
}

impl Gradual {
    /// An echo found `flight_bytes` under way, and leaves `target_bytes`.
    pub(super) const fn new(flight_bytes: u64, target_bytes: u64) -> Self {
        Self {
            flight_bytes: flight_bytes as u32,
            target_bytes: target_bytes as u32,
            delivered_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// So many bytes arrived.
    #[inline]
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.delivered_bytes = self.delivered_bytes.saturating_add(bytes as u32);
    }

    /// So many bytes went out.
    #[inline]
    pub(super) const fn on_sent(&mut self, bytes: u32) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// Whether the reduction lets a segment go: `CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out`, rounded up to whole segments.
    pub(super) fn allows(&self, payload_bytes: u32, segment_bytes: u32) -> bool {
        if self.flight_bytes == 0 {
            return false;
        }
        let share = u64::from(self.delivered_bytes) * u64::from(self.target_bytes);
        let segments = share.div_ceil(u64::from(self.flight_bytes) * u64::from(segment_bytes));
        u64::from(self.sent_bytes) + u64::from(payload_bytes) <= segments * u64::from(segment_bytes)
    }
}
