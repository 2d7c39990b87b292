//! The receiving half of a connection: puts bytes in order and acknowledges them.
//!
//! Source: RFC 9293, section 3.10.7.4; RFC 5681, section 4.2 (delayed acknowledgments); RFC 2018, section 4 (SACK
//! blocks); RFC 3168, section 6.1.3 (ECN echo), RFC 8257, section 3.2, and RFC 9768, section 3.2 (the other kinds of feedback
//! on marks). `ns-1999`: ns-2's `TCPSink` with its `DelAck` and `Sack1` forms
//! (tests/oracle/ns2, section 1.9).
//! Deviations: the application reads at once, so the window is constant. `ns-1999` delays the acknowledgment of a
//! segment that fills the first of several holes, as ns did; `modern` sends it at once, as RFC 5681 asks. ns's sink
//! keeps whatever comes, this one what lies within the window. There is no D-SACK (RFC 2883).
//! Accurate feedback is configured and not negotiated, and every acknowledgment carries the option, of which RFC 9768 may
//! leave some out; the fields of packets without a mark are constant, with ECT(1) too: a sender has one codepoint and asks for CE only.
//! Where one segment both changes the state of RFC 8257 and needs an acknowledgment at once, one goes for all that came.

use tidegate_packet::{Dscp, Ecn, SackBlock, SackBlocks, TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

use super::config::{EcnFeedback, Rules, TcpConfig, Variant};
use super::ranges::{Range, RangeSet};
use super::sender::Transmit;

/// A SACK block in an acknowledgment, in bytes (RFC 2018, section 3).
const SACK_BLOCK_BYTES: u32 = 8;

/// The option `AccECN1` with its fields EE1B and ECEB (RFC 9768, section 3.2.3).
const ACCECN_OPTION_BYTES: u32 = 8;

/// What ACE counts from (RFC 9768, section 3.2.1).
pub(super) const ACE_AT_START: u8 = 5;

/// What became of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Payload bytes that the application gets now, in order, each once.
    pub delivered_bytes: u64,
    /// Nothing in it was new.
    pub duplicate: bool,
    /// An acknowledgment to send now.
    pub ack: Option<Transmit>,
}

/// Counts of a receiver since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounters {
    /// Segments with payload that arrived.
    pub received_segments: u64,
    /// Segments in which nothing was new.
    pub duplicate_segments: u64,
    /// Segments beyond the window, or for which there was no room.
    pub refused_segments: u64,
    /// Segments that carried a congestion mark.
    pub marked_segments: u64,
    /// Acknowledgments that were due and went, by themselves or on data.
    pub sent_acks: u64,
}

impl ReceiverCounters {
    /// Counts `other` as well.
    pub const fn add(&mut self, other: &Self) {
        self.received_segments += other.received_segments;
        self.duplicate_segments += other.duplicate_segments;
        self.refused_segments += other.refused_segments;
        self.marked_segments += other.marked_segments;
        self.sent_acks += other.sent_acks;
    }

    /// What was counted after `earlier`.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            received_segments: self.received_segments - earlier.received_segments,
            duplicate_segments: self.duplicate_segments - earlier.duplicate_segments,
            refused_segments: self.refused_segments - earlier.refused_segments,
            marked_segments: self.marked_segments - earlier.marked_segments,
            sent_acks: self.sent_acks - earlier.sent_acks,
        }
    }
}

/// The receiving half; see the module.
// In this order, what every segment touches is together, at the end.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct TcpReceiver {
    /// The blocks that the last acknowledgments told of, most recent first.
    history: [Range; SackBlocks::MAX],
    /// Payload bytes that arrived with a mark, for accurate feedback.
    ce_bytes: u64,
    delay_timeout: Span,
    /// What is held beyond `next`.
    held: RangeSet,
    counters: ReceiverCounters,
    /// The next byte expected; all before it went to the application.
    next: u64,
    /// When a delayed acknowledgment goes; [`Time::MAX`]: none waits.
    ack_at: Time,
    delay_segments: u32,
    /// How much is written at once; 0: not known.
    push_bytes: u32,
    /// Segments that wait for their acknowledgment.
    unacknowledged: u32,
    window_bytes: u32,
    ack_bytes: u32,
    sack_option_bytes: u32,
    history_length: u8,
    sack: bool,
    ecn: bool,
    /// The DCTCP.CE of RFC 8257, too.
    ecn_echo: bool,
    /// Of accurate feedback: the segment before was marked.
    was_marked: bool,
    feedback: EcnFeedback,
    rules: Rules,
}

impl TcpReceiver {
    /// A receiver that expects byte zero.
    ///
    /// # Panics
    /// As [`TcpSender::new`](super::TcpSender::new).
    pub fn new(config: &TcpConfig) -> Self {
        config.assert_valid();
        Self {
            next: 0,
            ack_at: Time::MAX,
            delay_timeout: config.delayed_ack.map_or(Span::ZERO, |delayed| delayed.timeout),
            delay_segments: config.delayed_ack.map_or(1, |delayed| delayed.segments),
            push_bytes: config.push_bytes,
            unacknowledged: 0,
            window_bytes: config.receive_window_bytes,
            ack_bytes: config.ack_bytes + if config.is_accurate() { ACCECN_OPTION_BYTES } else { 0 },
            sack_option_bytes: config.sack_option_bytes,
            history_length: 0,
            sack: config.variant == Variant::Sack,
            ecn: config.ecn,
            ecn_echo: false,
            was_marked: false,
            feedback: if config.ecn { config.ecn_feedback } else { EcnFeedback::Classic },
            rules: config.rules,
            ce_bytes: 0,
            counters: ReceiverCounters::default(),
            held: RangeSet::new(config.ranges_max()),
            history: [Range::default(); SackBlocks::MAX],
        }
    }

    /// A segment arrived, with `ecn` in its IP header.
    #[expect(clippy::inline_always, reason = "once per segment, and what it returns is large")]
    #[inline(always)]
    pub fn on_segment(&mut self, header: &TcpHeader, ecn: Ecn, now: Time) -> Received {
        if header.payload_bytes == 0 {
            let mut received = Received { delivered_bytes: 0, duplicate: false, ack: None };
            if header.flags.contains(TcpFlags::SYN) {
                received.ack = Some(self.acknowledge(0));
                if let Some(ack) = &mut received.ack {
                    ack.header.flags = ack.header.flags.union(TcpFlags::SYN);
                }
            }
            return received;
        }
        if self.ecn {
            if self.feedback != EcnFeedback::Classic {
                return self.on_segment_with_feedback(header, ecn, now);
            }
            // The sender's answer to earlier echoes comes first: this very packet may carry a new mark.
            self.ecn_echo &= !header.flags.contains(TcpFlags::CWR);
            self.ecn_echo |= ecn == Ecn::Ce;
        }
        self.take_segment(header, ecn, false, now)
    }

    /// The same where feedback is not classic.
    #[inline(never)]
    fn on_segment_with_feedback(&mut self, header: &TcpHeader, ecn: Ecn, now: Time) -> Received {
        let (earlier, at_once) = self.note_mark(header.payload_bytes, ecn == Ecn::Ce);
        let mut received = self.take_segment(header, ecn, at_once, now);
        if earlier.is_some() {
            if received.ack.is_none() {
                received.ack = earlier;
            } else {
                self.counters.sent_acks -= 1;
            }
        }
        received
    }

    /// Takes in a segment with payload, of whose mark is taken note; its acknowledgment may not wait if it is due `at_once`.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn take_segment(&mut self, header: &TcpHeader, ecn: Ecn, at_once: bool, now: Time) -> Received {
        let mut received = Received { delivered_bytes: 0, duplicate: false, ack: None };
        self.counters.received_segments += 1;
        self.counters.marked_segments += u64::from(ecn == Ecn::Ce);

        let before = self.next;
        let had_holes = !self.held.is_empty();
        let end = header.sequence.saturating_add(u64::from(header.payload_bytes));
        received.duplicate = !self.take_in(header.sequence, end);
        received.delivered_bytes = self.next - before;
        self.counters.duplicate_segments += u64::from(received.duplicate);

        if !at_once && self.may_delay(header.sequence, end, received.delivered_bytes > 0 && !had_holes) {
            self.unacknowledged += 1;
            if self.ack_at == Time::MAX {
                self.ack_at = now.saturating_add(self.delay_timeout);
            }
        } else {
            received.ack = Some(self.acknowledge(end));
        }
        received
    }

    /// Feedback that is not classic, on one segment. Where the state of RFC 8257, Fig. 1, changes, what waited is acknowledged in
    /// the old one; if nothing did, this segment is, in the new one: that acknowledgment, and whether this one is due at once.
    fn note_mark(&mut self, payload_bytes: u32, is_marked: bool) -> (Option<Transmit>, bool) {
        if self.feedback == EcnFeedback::Accurate {
            self.ce_bytes += if is_marked { u64::from(payload_bytes) } else { 0 };
            // Where marks begin the sender hears of it at once (RFC 9768, section 3.2.2.5.1).
            let begins = is_marked && !self.was_marked;
            self.was_marked = is_marked;
            return (None, begins);
        }
        let changes = self.ecn_echo != is_marked;
        let earlier = (changes && self.ack_at != Time::MAX).then(|| self.acknowledge(self.next));
        self.ecn_echo = is_marked;
        (earlier, changes && earlier.is_none())
    }

    /// Takes `start..end` in; whether any of it was new.
    #[inline]
    fn take_in(&mut self, start: u64, end: u64) -> bool {
        if end <= self.next {
            return false;
        }
        if end - self.next > u64::from(self.window_bytes) {
            self.counters.refused_segments += 1;
            return false;
        }
        if start > self.next {
            let held = self.held.containing(start).is_some_and(|range| end <= range.end);
            let stored = !held && self.held.insert(start, end) > 0;
            self.counters.refused_segments += u64::from(!held && !stored);
            return stored;
        }
        self.next = end;
        if !self.held.is_empty() {
            if let Some(range) = self.held.containing(end) {
                self.next = range.end;
            }
            self.held.remove_below(self.next);
        }
        true
    }

    /// Whether the acknowledgment of the segment `start..end` may wait.
    #[inline]
    fn may_delay(&self, start: u64, end: u64, in_order_without_holes: bool) -> bool {
        match self.rules {
            // ns: nothing waits yet, and the segment is the last one in order.
            Rules::Ns1999 => self.delay_segments > 1 && self.ack_at == Time::MAX && end == self.next,
            // RFC 5681, section 4.2.
            Rules::Modern => {
                in_order_without_holes
                    && self.unacknowledged + 1 < self.delay_segments
                    && !(self.push_bytes > 0 && self.has_end_of_write(start, end))
            }
        }
    }

    /// Whether the application wrote the end of a piece into `start..end`: Linux sets PSH there, and its receiver acknowledges a full segment
    /// that has it as soon as it is read (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`).
    #[inline(never)]
    const fn has_end_of_write(&self, start: u64, end: u64) -> bool {
        let piece = self.push_bytes as u64;
        end / piece > start / piece
    }

    /// The acknowledgment of all that came, sent because of the segment that ended at `end`.
    #[inline]
    fn acknowledge(&mut self, end: u64) -> Transmit {
        self.ack_at = Time::MAX;
        self.unacknowledged = 0;
        self.counters.sent_acks += 1;
        let (mut flags, mut ce_bytes) = (TcpFlags::ACK, [0; 3]);
        if self.ecn {
            if self.feedback == EcnFeedback::Accurate {
                (flags, ce_bytes) = self.counted_marks();
            } else {
                flags = flags.with_if(self.ecn_echo, TcpFlags::ECE);
            }
        }
        let mut ack = Transmit {
            header: TcpHeader {
                acknowledgment: self.next,
                window_bytes: self.window_bytes,
                flags,
                ce_bytes,
                ..TcpHeader::default()
            },
            wire_bytes: self.ack_bytes,
            // RFC 3168, section 6.1.4: pure acknowledgments are not ECN-capable.
            ecn: Ecn::NotEct,
            dscp: Dscp::BEST_EFFORT,
            retransmission: false,
        };
        if self.sack {
            if self.held.is_empty() {
                self.history_length = 0;
            } else {
                ack.header.sack = self.sack_blocks(end);
                ack.wire_bytes +=
                    self.sack_option_bytes + SACK_BLOCK_BYTES * ack.header.sack.as_slice().len() as u32;
            }
        }
        ack
    }

    /// The flags with ACE, and ECEB: RFC 9768, sections 3.2.2 and 3.2.3.
    #[inline(never)]
    const fn counted_marks(&self) -> (TcpFlags, [u8; 3]) {
        let ace = ACE_AT_START.wrapping_add(self.counters.marked_segments as u8);
        (TcpFlags::ACK.with_ace(ace), TcpHeader::ce_bytes_of(self.ce_bytes))
    }

    /// The acknowledgment of all that came rides on `segment`, which carries data the other way (RFC 9293, section 3.10.7.4).
    pub fn ride_on(&mut self, segment: &mut Transmit) {
        // One that is owed at once was counted when it fell due.
        let waited = self.unacknowledged > 0;
        let sent = self.counters.sent_acks;
        let ack = self.acknowledge(self.next);
        self.counters.sent_acks = sent + u64::from(waited);
        segment.header.acknowledgment = ack.header.acknowledgment;
        segment.header.window_bytes = ack.header.window_bytes;
        segment.header.sack = ack.header.sack;
        segment.header.flags = segment.header.flags.with_ace(0).union(ack.header.flags);
        segment.header.ce_bytes = ack.header.ce_bytes;
        let option_bytes = if self.feedback == EcnFeedback::Accurate { ACCECN_OPTION_BYTES } else { 0 };
        segment.wire_bytes += ack.wire_bytes - self.ack_bytes + option_bytes;
    }

    /// The block with the segment that ended at `end`, then what was told before, most recent first (RFC 2018, section
    /// 4; ns's sink keeps as many as it sends).
    fn sack_blocks(&mut self, end: u64) -> SackBlocks {
        let first = if end > self.next { self.held.containing(end - 1) } else { None };
        // What is now in order, or part of the first block, leaves the history.
        let in_order_to = self.next;
        let still_news =
            |range: &Range| range.start > in_order_to && !first.is_some_and(|newest| range.is_inside(newest));
        let mut blocks = SackBlocks::default();
        let mut history = [Range::default(); SackBlocks::MAX];
        let mut length = 0;
        let told = self.history.into_iter().take(usize::from(self.history_length));
        for range in first.into_iter().chain(told.filter(still_news)) {
            if length == history.len() {
                break;
            }
            history[length] = range;
            length += 1;
            let offset = range.start - self.next;
            blocks.push(SackBlock { offset: offset as u32, length: range.len() as u32 });
        }
        self.history = history;
        self.history_length = length as u8;
        blocks
    }

    /// When [`on_timer`](Self::on_timer) wants to run.
    #[inline]
    pub fn timer_at(&self) -> Option<Time> {
        if self.ack_at == Time::MAX { None } else { Some(self.ack_at) }
    }

    /// The other host answered the SYN of this one: its answer is acknowledged, by itself, before there is data (RFC 9293, section
    /// 3.10.7.3; data may go with it, but programs hear of the connection first).
    pub fn on_answer(&mut self) -> Transmit {
        self.acknowledge(self.next)
    }

    /// The timer is due: the delayed acknowledgment goes. Too early a call does nothing.
    pub fn on_timer(&mut self, now: Time) -> Option<Transmit> {
        (self.ack_at <= now).then(|| self.acknowledge(self.next))
    }

    /// Bytes that the application got: in order, each once.
    pub const fn delivered_bytes(&self) -> u64 {
        self.next
    }
    /// Bytes held out of order.
    pub const fn held_bytes(&self) -> u64 {
        self.held.covered_bytes()
    }
    /// What happened so far.
    pub const fn counters(&self) -> ReceiverCounters {
        self.counters
    }
}

/// A sender and a receiver fit in a kibibyte: a simulation with 100,000 connections stays below 100 MB.
const _: () = assert!(core::mem::size_of::<TcpReceiver>() + core::mem::size_of::<super::TcpSender>() <= 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_marks_begin_accurate_feedback_does_not_wait() {
        let config =
            TcpConfig { ecn: true, ecn_feedback: EcnFeedback::Accurate, ..TcpConfig::modern(Variant::Sack) };
        let mut receiver = TcpReceiver::new(&config);
        let mut sequence = 0;
        let mut told =
            [Ecn::Ect1, Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect1, Ecn::Ce].into_iter().map(|ecn| {
                let header = TcpHeader { sequence, payload_bytes: 1000, ..TcpHeader::default() };
                sequence += 1000;
                receiver.on_segment(&header, ecn, Time::ZERO).ack.is_some()
            });
        // Every second one otherwise.
        let expected = [false, true, true, false, true, false, true];
        assert!(expected.into_iter().all(|is| told.next() == Some(is)));
    }
}
