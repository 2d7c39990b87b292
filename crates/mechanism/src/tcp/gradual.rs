//! A reduction that is spread over a round trip: a window that is halved at once lets nothing go until half of it has arrived, and
//! then all of the rest in a burst. Here segments go in proportion to what arrives.
//!
//! Source: RFC 6937, section 3 (RFC 9937 keeps it): proportional rate reduction; in Linux the answer to an ECN echo, too.
//! Deviations: only for echoes; that of recovery from losses is `prr.rs`. What RFC 6937 does below the target needs no rule here: that is
//! what any window does.

/// See the module. All in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradual {
    /// What was under way at the echo; zero where nothing is being reduced.
    recover_fs: u32,
    /// The window that remains.
    ssthresh: u32,
    /// What arrived since.
    prr_delivered: u32,
    /// What was sent since.
    prr_out: u32,
}

impl Gradual {
    /// An echo found so many bytes under way, and leaves a window of `ssthresh`.
    pub(super) const fn new(recover_fs: u64, ssthresh: u64) -> Self {
        Self { recover_fs: recover_fs as u32, ssthresh: ssthresh as u32, prr_delivered: 0, prr_out: 0 }
    }

    /// So many bytes arrived. More than was under way at the echo does not count: it was sent since.
    #[inline]
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.prr_delivered = (u64::from(self.prr_delivered) + bytes).min(u64::from(self.recover_fs)) as u32;
    }

    /// So many bytes went out.
    #[inline]
    pub(super) const fn on_sent(&mut self, bytes: u32) {
        self.prr_out = self.prr_out.saturating_add(bytes);
    }

    /// Whether the reduction lets a segment go while `in_flight_bytes` are under way:
    /// `CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out`, rounded up to whole segments, and never more under way than at the echo.
    pub(super) fn allows(&self, in_flight_bytes: u64, payload_bytes: u32, segment_bytes: u32) -> bool {
        if self.recover_fs == 0 || in_flight_bytes + u64::from(payload_bytes) > u64::from(self.recover_fs) {
            return false;
        }
        let share = u64::from(self.prr_delivered) * u64::from(self.ssthresh);
        let segments = share.div_ceil(u64::from(self.recover_fs) * u64::from(segment_bytes));
        u64::from(self.prr_out) + u64::from(payload_bytes) <= segments * u64::from(segment_bytes)
    }
}
