//! RACK-TLP: a segment is lost if one that was sent enough later has arrived, and a silent tail is probed before the timer expires.
//! So what is sent again and lost again is found as well, reordering is given time, and the end of a transfer needs no time-out.
//!
//! Source: RFC 8985, sections 5 to 7 (names of variables; its functions are named where they are); RFC 5681, section 4.3, and RFC
//! 8985, section 3.4 (what a lost retransmission asks for); RFC 6675, section 5 (what begins and ends a recovery).
//! Deviations: the receiver here sends no D-SACK, so the window for reordering is not widened by it (`reo_wnd_mult` stays 1), and a
//! probe that was not needed is known by the duplicate acknowledgment that it causes (section 7.4.2, its third case). There are no
//! time stamps: a retransmission counts as acknowledged if the least round trip has passed (section 6.2, step 2, the second of its two
//! tests). The least round trip is the least of 300 to 600 s, as in Linux. A reduction is not taken back. A retransmission that is
//! lost reduces the window once more and begins the recovery anew, once for each round trip; with `reduce_once` it is repaired without,
//! as in Linux.
//! Before recovery, what was reported as held lets as much follow (RFC 3042 without its bound of two segments), as in Linux.
//! The timers share the one of the connection (section 8). Where so many short segments are under way that twice a window of full ones
//! would not hold them, new data waits.

mod segments;
mod smoothing;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use tidegate_packet::{SackBlock, SackBlocks};
use tidegate_units::{Span, Time};

use self::segments::{Segment, Segments};
use self::smoothing::{Reported, Smoothing};
use super::Candidate;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::Signal;
use crate::tcp::connection::{AckEvent, Connection, NO_BURST_LIMIT};
use crate::tcp::ranges::RangeSet;

/// How long a receiver may wait with an acknowledgment (`TLP.max_ack_delay`, section 7.2).
const MAX_ACK_DELAY: Span = Span::from_millis(200);
/// Before there is a round trip (section 7.2).
const FIRST_PTO: Span = Span::from_secs(1);
/// After which the least round trip of before is forgotten.
const MIN_RTT_WINDOW: Span = Span::from_secs(300);

/// What the timer of the connection stands for, where it is not the retransmission time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// Segments may turn out to be lost (section 6.2, step 5).
    Reordering,
    /// The tail is silent (section 7.2).
    Probe,
}

/// The timer of the connection is set for something else than the retransmission time-out.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    purpose: Purpose,
    at: Time,
    /// When the retransmission time-out is.
    rto_at: Time,
}

/// The least round trip of now and of before.
#[derive(Clone, Copy, Debug)]
struct LeastRtt {
    now: Span,
    before: Span,
    since: Time,
}

impl LeastRtt {
    const UNKNOWN: Span = Span::MAX;

    fn on_sample(&mut self, rtt: Span, now: Time) {
        if now.since(self.since) > MIN_RTT_WINDOW {
            *self = Self { now: Self::UNKNOWN, before: self.now, since: now };
        }
        self.now = self.now.min(rtt);
    }

    fn get(&self) -> Span {
        self.now.min(self.before)
    }
}

/// The recent acknowledgment: what the segments that arrived say of time and order.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// `RACK.xmit_ts` and `RACK.end_seq`: of all that arrived the segment that went out last.
    xmit_ts: Time,
    end_seq: u64,
    /// `RACK.rtt`: of the segment that arrived last; zero: none did.
    rtt: Span,
    min_rtt: LeastRtt,
    /// `RACK.fack`: one past the highest byte that arrived.
    fack: u64,
    reordering_seen: bool,
    /// A round trip was measured since the last probe.
    has_sample: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    segments: Segments,
    recent: Recent,
    smoothing: Smoothing,
    in_recovery: bool,
    /// When the window was last reduced.
    reduced_at: Time,
    /// What is out, if a probe is.
    probe: Option<Probe>,
    /// What the connection's demand for a segment stands for is a probe.
    probe_due: bool,
    alarm: Option<Alarm>,
}

/// A probe that is out: `TLP.end_seq` and `TLP.is_retrans`.
#[derive(Clone, Copy, Debug)]
struct Probe {
    end_seq: u64,
    is_retransmission: bool,
}

/// `RACK_sent_after`.
fn sent_after(at: Time, end: u64, other_at: Time, other_end: u64) -> bool {
    (at, end) > (other_at, other_end)
}

impl Recent {
    /// A segment is known to have arrived.
    fn on_arrival(&mut self, segment: &Segment, now: Time) {
        let rtt = now.since(segment.sent_at);
        let end = segment.end();
        // Step 3, `RACK_detect_reordering`.
        if end > self.fack {
            self.fack = end;
        } else if !segment.retransmitted {
            self.reordering_seen = true;
        }
        if segment.retransmitted {
            // The acknowledgment may be that of the first copy (step 2).
            if rtt < self.min_rtt.get() {
                return;
            }
        } else {
            self.min_rtt.on_sample(rtt, now); // Step 1.
            self.has_sample = true;
        }
        // Step 2, `RACK_update`.
        self.rtt = rtt;
        if sent_after(segment.sent_at, end, self.xmit_ts, self.end_seq) {
            self.xmit_ts = segment.sent_at;
            self.end_seq = end;
        }
    }
}

impl Rack {
    pub(super) fn new(config: &TcpConfig) -> Box<Self> {
        let segments_max = 2 * (config.receive_window_bytes / config.segment_bytes) as usize + 2;
        Box::new(Self {
            segments: Segments::new(RangeSet::new(config.ranges_max()), segments_max),
            recent: Recent {
                xmit_ts: Time::ZERO,
                end_seq: 0,
                rtt: Span::ZERO,
                min_rtt: LeastRtt { now: LeastRtt::UNKNOWN, before: LeastRtt::UNKNOWN, since: Time::ZERO },
                fack: 0,
                reordering_seen: false,
                has_sample: false,
            },
            smoothing: Smoothing::default(),
            in_recovery: false,
            reduced_at: Time::ZERO,
            probe: None,
            probe_due: false,
            alarm: None,
        })
    }

    /// The handshake took a round trip: the first that was measured.
    pub(super) fn on_handshake(&mut self, c: &Connection, rtt: Span, now: Time) {
        self.smoothing.on_sample(rtt, c.una, c.max, c.rto.least_added());
        self.recent.min_rtt.on_sample(rtt, now);
        self.recent.has_sample = true;
    }

    #[inline(never)]
    pub(super) fn on_ack(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        c.burst = NO_BURST_LIMIT;
        if ack.number < c.una {
            return;
        }
        let alarm = self.disarm(c);
        let advances = ack.number > c.una;
        let was_repairing = c.is_repairing();
        let arrived_before = c.una + self.segments.held_bytes();
        // Every segment is timed here.
        c.stop_timing();
        self.take_in(c, ack, now);
        if advances {
            // What was demanded and waits for its time may have arrived meanwhile.
            self.probe_due = false;
            c.retransmit_head &= self.segments.has_lost();
        }
        if self.in_recovery {
            if advances {
                // The timer restarts (RFC 6298, 5.3); the window stays.
                c.take_new_ack(ack.number, now);
            }
            if ack.number >= c.recover {
                self.in_recovery = false;
                c.end_spreading();
                c.recovered(now);
            }
        } else if advances {
            c.take_new_ack_and_open(ack, now);
        }
        self.judge_probe(c, ack, advances, now);
        let delivered = (c.una + self.segments.held_bytes()).saturating_sub(arrived_before);
        let waits = self.detect_loss_and_arm(c, was_repairing, now);
        c.spread(delivered, self.segments.under_way_bytes());
        if advances {
            self.arm_probe(c, now);
        } else if !waits && self.alarm.is_none() && !c.is_repairing() {
            // What acknowledges nothing new takes no probe away.
            if let Some(probe) = alarm.filter(|alarm| alarm.purpose == Purpose::Probe) {
                self.arm(c, Purpose::Probe, probe.at.min(c.rtx_at));
            }
        }
    }

    /// Section 6.2, steps 1 to 3, for all that `ack` newly reports, in the order of bytes.
    fn take_in(&mut self, c: &mut Connection, ack: &AckEvent<'_>, now: Time) {
        let mut blocks = [SackBlock::default(); SackBlocks::MAX];
        let blocks = &mut blocks[..ack.sack.as_slice().len()];
        blocks.copy_from_slice(ack.sack.as_slice());
        blocks.sort_unstable_by_key(|block| block.offset);
        let Self { segments, recent, .. } = self;
        let mut reported = Reported::default();
        segments.acknowledge(ack.number, |segment| {
            recent.on_arrival(segment, now);
            reported.acknowledge(segment);
        });
        for block in blocks {
            let start = ack.number.saturating_add(u64::from(block.offset));
            let end = start.saturating_add(u64::from(block.length));
            if start > ack.number && end <= c.max {
                segments.hold(start, end, |segment| {
                    recent.on_arrival(segment, now);
                    reported.hold(segment);
                });
            }
        }
        if let Some(sent_at) = reported.timed() {
            self.smoothing.on_sample(now.since(sent_at), ack.number, c.max, c.rto.least_added());
            let (srtt, added) = self.smoothing.get();
            c.rto.set(srtt, added);
            // A timer that was backed off for a hole waits no longer than one set now.
            c.rtx_at = c.rtx_at.min(now.saturating_add(c.rto.rto()));
        }
    }

    /// Step 4, `RACK_update_reo_wnd`.
    fn reo_wnd(&self, c: &Connection) -> Span {
        if !self.recent.reordering_seen
            && (c.is_repairing() || self.segments.held_count() >= c.dupack_threshold)
        {
            return Span::ZERO;
        }
        (self.recent.min_rtt.get() / 4).min(c.rto.srtt())
    }

    /// Step 5, `RACK_detect_loss_and_arm_timer`, and what a loss that is found asks for. Where a repair ends, what was lost of the data
    /// sent during it, and has not arrived yet, asks for the next. Returns whether something is undecided, be it that the time-out comes first.
    fn detect_loss_and_arm(&mut self, c: &mut Connection, was_repairing: bool, now: Time) -> bool {
        if self.recent.rtt.is_zero() {
            return false;
        }
        let (lost_any, mut lost_again, wait) = self.detect_loss(c, now);
        lost_again &= !c.reduce_once;
        if lost_again {
            c.forget_reduction();
        }
        let is_left = was_repairing && self.segments.has_missing();
        if lost_any && lost_again || (lost_any || is_left) && !c.is_repairing() {
            self.enter(c, now);
            // Of what is left, all may have been sent again.
            c.retransmit_head &= self.segments.has_lost();
        }
        if let Some(wait) = wait {
            self.arm(c, Purpose::Reordering, now.saturating_add(wait));
        }
        wait.is_some()
    }

    /// `RACK_detect_loss`: whether something is lost, whether something that was sent again since the window was last reduced is, and
    /// how long until all that is undecided will be.
    fn detect_loss(&mut self, c: &mut Connection, now: Time) -> (bool, bool, Option<Span>) {
        let Recent { xmit_ts, end_seq, rtt, .. } = self.recent;
        let deadline = rtt + self.reo_wnd(c);
        let (mut lost_any, mut lost_again, mut wait) = (false, false, None);
        let mut next = self.segments.oldest();
        while let Some((number, segment)) = next
            && segment.sent_at <= xmit_ts
        {
            next = self.segments.later_than(number);
            if !sent_after(xmit_ts, end_seq, segment.sent_at, segment.end()) {
                continue;
            }
            let lost_at = segment.sent_at.saturating_add(deadline);
            if lost_at <= now {
                self.segments.lose(number);
                c.lost_bytes += u64::from(segment.payload_bytes);
                lost_any = true;
                lost_again |= segment.retransmitted && segment.sent_at >= self.reduced_at && c.is_repairing();
            } else {
                wait = wait.max(Some(lost_at.since(now)));
            }
        }
        (lost_any, lost_again, wait)
    }

    /// A recovery begins.
    fn enter(&mut self, c: &mut Connection, now: Time) {
        c.enter_sack_recovery(now);
        self.in_recovery = true;
        self.reduced_at = now;
        self.probe = None;
    }

    /// Section 7.4.2, `TLP_process_ack`.
    fn judge_probe(&mut self, c: &mut Connection, ack: &AckEvent<'_>, advances: bool, now: Time) {
        let Some(probe) = self.probe.filter(|probe| ack.number >= probe.end_seq) else { return };
        if !probe.is_retransmission {
            self.probe = None;
        } else if ack.number > probe.end_seq {
            // The probe repaired a loss of which nobody else will tell.
            self.probe = None;
            c.enter_recovery(Signal::Loss, now);
            c.recovered(now);
            c.note_reduction();
            if c.una == c.max {
                c.rtx_at = Time::MAX;
            }
            self.reduced_at = now;
        } else if !advances && ack.is_duplicate && ack.sack.is_empty() {
            // The probe was not needed: both copies arrived.
            self.probe = None;
        }
    }

    /// Section 7.2: when a probe is to go, if one may.
    fn arm_probe(&mut self, c: &mut Connection, now: Time) {
        let may_probe = self.probe.is_none() && !c.is_repairing() && self.segments.held_count() == 0;
        if !may_probe
            || self.alarm.is_some_and(|alarm| alarm.purpose == Purpose::Reordering)
            || c.una == c.max
        {
            return;
        }
        self.disarm(c);
        let srtt = c.rto.srtt();
        let is_one_segment = c.flight_bytes() <= c.segment();
        let pto = if srtt.is_zero() {
            FIRST_PTO
        } else {
            srtt + srtt + if is_one_segment { MAX_ACK_DELAY } else { Span::ZERO }
        };
        // Where the time-out would come first, the probe comes in its place.
        self.arm(c, Purpose::Probe, now.saturating_add(pto).min(c.rtx_at));
    }

    /// Sets the timer of the connection to `at`, unless the retransmission time-out comes before.
    fn arm(&mut self, c: &mut Connection, purpose: Purpose, at: Time) {
        let rto_at = c.rtx_at;
        if at <= rto_at {
            self.alarm = Some(Alarm { purpose, at, rto_at });
            c.rtx_at = at;
        }
    }

    /// The timer of the connection is the retransmission time-out again, when that was. What was armed otherwise since then stays.
    /// Returns what it stood for.
    fn disarm(&mut self, c: &mut Connection) -> Option<Alarm> {
        let alarm = self.alarm.take().filter(|alarm| alarm.at == c.rtx_at)?;
        c.rtx_at = alarm.rto_at;
        Some(alarm)
    }

    /// The timer of the connection has expired.
    #[inline(never)]
    pub(super) fn on_timer(&mut self, c: &mut Connection, now: Time) {
        let alarm = self.alarm.take().filter(|alarm| c.rtx_at == alarm.at);
        match alarm.map(|alarm| alarm.purpose) {
            Some(Purpose::Reordering) => {
                c.burst = NO_BURST_LIMIT;
                c.arm_timer(now);
                self.detect_loss_and_arm(c, false, now);
                c.spread(0, self.segments.under_way_bytes());
            }
            Some(Purpose::Probe) => {
                c.burst = NO_BURST_LIMIT;
                c.arm_timer(now);
                // Section 7.3: not before the path was measured, be it by the handshake, and measured again.
                self.probe_due = c.una < c.max && self.recent.has_sample;
                c.retransmit_head = self.probe_due;
            }
            None => self.on_timeout(c, now),
        }
    }

    /// Section 6.3, `RACK_mark_losses_on_RTO`: not all that is under way is lost because the first is.
    fn on_timeout(&mut self, c: &mut Connection, now: Time) {
        self.in_recovery = false;
        self.probe = None;
        self.probe_due = false;
        c.end_spreading();
        if self.segments.first().is_some_and(|first| first.state == segments::State::Held) {
            // What follows what is acknowledged cannot be there: the receiver has thrown it away.
            self.segments.forget_held();
        }
        c.lost_bytes += self.segments.lose_first().map_or(0, u64::from);
        let overdue = self.recent.rtt + self.reo_wnd(c);
        while let Some((number, segment)) = self.segments.oldest()
            && segment.sent_at.saturating_add(overdue) <= now
        {
            self.segments.lose(number);
            c.lost_bytes += u64::from(segment.payload_bytes);
        }
        c.dupacks = 0;
        c.on_timeout(now);
        // Nothing is gone back to: what is lost is known one by one.
        c.nxt = c.max;
        self.reduced_at = now;
        if c.una < c.max {
            c.retransmit_head = true;
        }
    }

    /// The segment that goes whatever the window says: the first lost one, the probe, or, where nothing is known, the first.
    pub(super) fn demanded(&mut self, c: &Connection) -> (u64, u32) {
        if self.probe_due {
            // `TLP_send_probe`: new data if there is some, otherwise the last segment again.
            if !self.segments.is_full()
                && let Some(new) = c.next_in_order()
            {
                return new;
            }
            if let Some(last) = self.segments.last() {
                return (last.start, last.payload_bytes);
            }
        }
        let first = self.segments.first_lost().copied().or_else(|| self.segments.first().copied());
        match first {
            Some(segment) => (segment.start, segment.payload_bytes),
            None => (c.una, (c.limit - c.una).min(c.segment()) as u32),
        }
    }

    #[inline(never)]
    pub(super) fn candidate(&mut self, c: &mut Connection) -> Option<Candidate> {
        let in_flight_bytes = self.segments.under_way_bytes();
        if let Some(lost) = self.segments.first_lost() {
            let (sequence, payload_bytes) = (lost.start, lost.payload_bytes);
            return Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: true });
        }
        if self.segments.is_full() {
            return None;
        }
        let (sequence, payload_bytes) = c.next_in_order()?;
        Some(Candidate { sequence, payload_bytes, in_flight_bytes, fills_hole: false })
    }

    #[inline(never)]
    pub(super) fn on_sent(&mut self, c: &mut Connection, sent: &Candidate, retransmission: bool, now: Time) {
        self.segments.on_sent(sent.sequence, sent.payload_bytes, now);
        if core::mem::take(&mut self.probe_due) {
            self.probe = Some(Probe { end_seq: c.max, is_retransmission: retransmission });
            self.recent.has_sample = false;
        } else if !retransmission {
            self.arm_probe(c, now);
        }
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.segments.held_bytes()
    }

    pub(super) const fn in_flight_bytes(&self) -> u64 {
        self.segments.under_way_bytes()
    }
}
