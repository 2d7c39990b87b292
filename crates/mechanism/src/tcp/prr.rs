//! Proportional rate reduction: a recovery that spreads its reduction. Fast recovery by the window alone lets nothing go until half
//! of a window has arrived, and bursts where many segments are found lost at once; here what goes is in proportion to what arrives,
//! and the recovery ends with what the control asked for (`keep_window`, which is on with it unless somebody says otherwise; RFC 9937, section
//! 6.4).
//!
//! Source: RFC 6937, section 3, with its slow start reduction bound (PRR-SSRB); its variable names; RFC 9937, its successor.
//! Deviations: `RecoverFS` is all that was under way, as in RFC 6937; RFC 9937, section 6.1, leaves out what had arrived before the loss was
//! found, so that a recovery begins a little faster. Only for `sack` in `modern`: without SACK what a duplicate delivers is a guess. RFC 9937 asks for acknowledgments
//! that advance and find no new loss before the slow start bound (`SafeACK`); here every acknowledgment has it, as in RFC 6937. The
//! first retransmission goes in any case (RFC 9937), and counts. A window that an echo reduces is spread by `gradual.rs`. BBR,
//! which conserves packets itself, and other controls that answer no loss are not held to it: where the control leaves its window
//! as it was there is no reduction.

/// See the module. All in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// What was under way when recovery began; zero outside of a recovery.
    recover_fs: u64,
    /// The window that is to remain.
    ssthresh: u64,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
    /// What may have gone in all: `prr_out` of the last acknowledgment and its `sndcnt`.
    may_be_out: u64,
    /// What `out` may come to: at the target or below, no more than leads up to it.
    most_out: u64,
}

/// `sndcnt` above the target: `CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out`.
fn proportional(prr_delivered: u64, ssthresh: u64, recover_fs: u64, prr_out: u64) -> u64 {
    let share = u128::from(prr_delivered) * u128::from(ssthresh);
    (share.div_ceil(u128::from(recover_fs.max(1))) as u64).saturating_sub(prr_out)
}

/// `sndcnt` at the target or below: `MIN(ssthresh - pipe, MAX(prr_delivered - prr_out, DeliveredData) + MSS)`.
fn slow_start_bound(room: u64, prr_delivered: u64, prr_out: u64, delivered: u64, mss: u64) -> u64 {
    room.min(prr_delivered.saturating_sub(prr_out).max(delivered) + mss)
}

impl Prr {
    /// A recovery begins with so many bytes under way, and is to leave `ssthresh`.
    pub(super) const fn begin(&mut self, recover_fs: u64, ssthresh: u64) {
        *self = Self { recover_fs, ssthresh, delivered: 0, out: 0, may_be_out: 0, most_out: 0 };
    }

    /// The recovery is over.
    pub(super) const fn end(&mut self) {
        self.recover_fs = 0;
    }

    pub(super) const fn is_active(&self) -> bool {
        self.recover_fs > 0
    }

    /// An acknowledgment says that `delivered` bytes arrived and leaves `pipe` under way.
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, mss: u64) {
        self.delivered += delivered;
        let (sndcnt, most) = if pipe > self.ssthresh {
            (proportional(self.delivered, self.ssthresh, self.recover_fs, self.out), u64::MAX)
        } else {
            let room = self.ssthresh - pipe;
            (slow_start_bound(room, self.delivered, self.out, delivered, mss), self.out + room)
        };
        self.may_be_out = self.out + sndcnt;
        self.most_out = most;
    }

    /// So many bytes went out.
    pub(super) const fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// Whether one more segment of so many bytes may go. `sndcnt` counts bytes and segments are whole: a begun one goes, but none
    /// beyond the target, which need not be whole segments either.
    pub(super) const fn allows(&self, payload_bytes: u64) -> bool {
        self.out < self.may_be_out && self.out.saturating_add(payload_bytes) <= self.most_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn above_the_target_as_large_a_part_goes_as_remains() {
        assert_eq!(proportional(10_000, 70_000, 100_000, 5_000), 2_000);
        assert_eq!(proportional(10_001, 70_000, 100_000, 7_000), 1);
        assert_eq!(proportional(1_000, 70_000, 100_000, 9_000), 0);
    }

    #[test]
    fn a_begun_segment_goes_above_the_target_and_none_goes_beyond_it() {
        let mut prr = Prr::default();
        prr.begin(10 * MSS, 6 * MSS + 500);
        prr.on_ack(MSS, 9 * MSS, MSS);
        assert!(prr.allows(MSS), "650 bytes of a segment");
        prr.on_ack(3 * MSS, 6 * MSS, MSS);
        assert!(!prr.allows(MSS), "500 bytes are left up to the target");
        assert!(prr.allows(500));
    }

    #[test]
    fn below_the_target_it_catches_up_by_one_segment_more_than_arrived() {
        assert_eq!(slow_start_bound(20_000, 5_000, 5_000, 1_000, MSS), 2_000);
        assert_eq!(slow_start_bound(20_000, 9_000, 5_000, 1_000, MSS), 5_000);
        assert_eq!(slow_start_bound(500, 9_000, 5_000, 1_000, MSS), 500);
    }

    /// One loss in 100 segments: of every ten that arrive seven are sent, evenly, and 70 remain.
    #[test]
    fn a_single_loss_is_reduced_evenly_over_the_round_trip() {
        let mut prr = Prr::default();
        prr.begin(100 * MSS, 70 * MSS);
        let (mut pipe, mut sent, mut largest_gap, mut gap) = (100 * MSS, 0, 0, 0);
        for _ in 0..99 {
            pipe -= MSS;
            prr.on_ack(MSS, pipe, MSS);
            gap += 1;
            while prr.allows(MSS) {
                prr.on_sent(MSS);
                (sent, pipe, gap) = (sent + 1, pipe + MSS, 0);
            }
            largest_gap = largest_gap.max(gap);
        }
        assert!((69..=71).contains(&sent) && largest_gap <= 2, "{sent}, {largest_gap}");
        assert!((pipe / MSS).abs_diff(70) <= 1, "{pipe}");
    }

    #[test]
    fn where_most_is_lost_it_grows_back_as_slow_start_does() {
        let mut prr = Prr::default();
        prr.begin(100 * MSS, 70 * MSS);
        // Four arrive; 90 are lost.
        let mut pipe = 6 * MSS;
        for round in 0..4 {
            prr.on_ack(MSS, pipe, MSS);
            let mut of_round = 0;
            while prr.allows(MSS) {
                prr.on_sent(MSS);
                (of_round, pipe) = (of_round + 1, pipe + MSS);
            }
            assert_eq!(of_round, 2, "acknowledgment {round}");
            pipe -= MSS;
        }
    }
}
