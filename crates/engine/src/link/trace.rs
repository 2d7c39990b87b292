//! A link whose rate follows a trace of delivery opportunities, as Mahimahi's link emulator does.
//!
//! A trace lists instants, in whole milliseconds. At each of them the link may carry [`OPPORTUNITY_BYTES`] bytes, of packets
//! that had arrived before; an instant that is listed twice may carry twice as much. What a packet leaves of an opportunity
//! serves the next one in the queue; a packet that does not fit goes on at the next opportunity, and arrives with its last
//! byte. What nobody uses is lost. After the last instant the trace begins again, shifted by that instant.
//!
//! Source: Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, section 3.3; the order of
//! things within an instant is that of `LinkQueue::rationalize` in its source.
//!
//! Deviations: an opportunity is 1500 bytes of IP, where Mahimahi counts 1504 with four bytes of its device's header in each
//! packet. A packet may be larger than an opportunity.

use std::sync::Arc;

use tidegate_units::{Span, Time};

/// Bytes that one opportunity carries.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// A trace: instants in milliseconds, ascending or equal, the last above zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkTrace(Arc<[u64]>);

impl LinkTrace {
    /// A trace of these instants.
    ///
    /// # Panics
    /// If they are none, descend, or last no time.
    pub fn new(stamps_ms: Arc<[u64]>) -> Self {
        assert!(stamps_ms.is_sorted(), "the instants of a trace do not descend");
        assert!(stamps_ms.last().is_some_and(|&last| last > 0), "a trace lasts some time");
        Self(stamps_ms)
    }

    fn length(&self) -> u64 {
        self.0[self.0.len() - 1]
    }
}

/// How far a trace has been used.
#[derive(Clone, Debug)]
pub(super) struct Opportunities {
    trace: LinkTrace,
    /// How often the trace is over.
    round: u64,
    /// The next opportunity in this round.
    next: usize,
    /// Bytes that the present opportunity may still carry, and since when it is there.
    left_bytes: u32,
    at: Time,
    /// Bytes of the packet in transmission that have not been carried.
    remaining_bytes: u32,
    /// The time that a full opportunity of the present instant stands for: since the instant before, in equal parts.
    worth: Span,
    /// Statistics began then; no time before counts.
    since: Time,
}

impl Opportunities {
    pub(super) const fn new(trace: LinkTrace) -> Self {
        Self {
            trace,
            round: 0,
            next: 0,
            left_bytes: 0,
            at: Time::ZERO,
            remaining_bytes: 0,
            worth: Span::ZERO,
            since: Time::ZERO,
        }
    }

    fn instant(&self, round: u64, position: usize) -> Time {
        let ms = round.saturating_mul(self.trace.length()).saturating_add(self.trace.0[position]);
        Time::from_nanos(ms.saturating_mul(1_000_000))
    }

    /// When the next opportunity comes.
    pub(super) fn next_at(&self) -> Time {
        self.instant(self.round, self.next)
    }

    /// The instant of the present opportunity.
    pub(super) const fn at(&self) -> Time {
        self.at
    }

    /// Whether the present opportunity may carry more.
    pub(super) const fn is_open(&self) -> bool {
        self.left_bytes > 0
    }

    /// Takes the next opportunity, if it has come by `now`.
    pub(super) fn open(&mut self, now: Time) -> bool {
        let at = self.next_at();
        if at > now {
            return false;
        }
        if self.next == 0 || self.trace.0[self.next - 1] < self.trace.0[self.next] {
            let stamp = self.trace.0[self.next];
            let alike = self.trace.0[self.next..].partition_point(|&other| other <= stamp) as u64;
            let before = match self.next {
                0 => self.instant(self.round, 0).saturating_sub(Span::from_millis(stamp)),
                next => self.instant(self.round, next - 1),
            };
            self.worth = Span::from_nanos(at.since(before.max(self.since)).as_nanos() / alike);
        }
        self.at = at;
        self.left_bytes = OPPORTUNITY_BYTES;
        self.next += 1;
        if self.next == self.trace.0.len() {
            self.next = 0;
            self.round += 1;
        }
        true
    }

    /// Nobody uses the present opportunity any more.
    pub(super) const fn close(&mut self) {
        self.left_bytes = 0;
    }

    /// Nobody uses those until `now`.
    pub(super) fn skip(&mut self, now: Time) {
        self.left_bytes = 0;
        if self.next_at() > now {
            return;
        }
        let ms = now.as_nanos() / 1_000_000;
        self.round = ms / self.trace.length();
        // All of the rounds before have passed, for the last instant of one is the beginning of the next.
        let into = ms % self.trace.length();
        self.next = self.trace.0.partition_point(|&stamp| stamp <= into);
    }

    /// A packet of `bytes` is in transmission from now on.
    pub(super) const fn begin(&mut self, bytes: u32) {
        self.remaining_bytes = bytes;
    }

    /// Carries what the present opportunity can of the packet in transmission; the time that this took up.
    pub(super) fn carry(&mut self) -> Span {
        let bytes = self.left_bytes.min(self.remaining_bytes);
        self.left_bytes -= bytes;
        self.remaining_bytes -= bytes;
        let took = u128::from(self.worth.as_nanos()) * u128::from(bytes) / u128::from(OPPORTUNITY_BYTES);
        Span::from_nanos(took as u64)
    }

    /// Whether all of the packet has been carried.
    pub(super) const fn is_carried(&self) -> bool {
        self.remaining_bytes == 0
    }

    /// When the last byte of the packet in transmission is carried.
    pub(super) fn ends(&self) -> Time {
        if self.remaining_bytes == 0 {
            return self.at;
        }
        let ahead = self.next + self.remaining_bytes.div_ceil(OPPORTUNITY_BYTES) as usize - 1;
        let count = self.trace.0.len();
        self.instant(self.round + (ahead / count) as u64, ahead % count)
    }

    /// Statistics begin at `now`.
    pub(super) const fn restart(&mut self, now: Time) {
        self.since = now;
    }
}
