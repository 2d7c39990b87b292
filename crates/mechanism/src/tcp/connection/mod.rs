//! What a sender knows of its connection: sequence space, timer (`timing`), window (`reduction`). The recoveries act on it.
//!
//! Source: RFC 9293, section 3.3.1 (SND.UNA and its kin); RFC 6298, section 5 (the timer); ns-2's agents
//! (tests/oracle/ns2, sections 1.2 to 1.4).
//! Deviations: the catalogue's rule doubles the pause of an ECN time-out before its first use; here the first lasts one
//! time-out, as the thesis ("a retransmission timeout") and RFC 3168 have it. Sequence numbers count bytes from zero in 64
//! bits. Where ns counts packets, one packet is `segment_bytes`, and its `highest_ack`, `t_seqno` and `maxseq` are
//! `una / segment - 1`, `nxt / segment` and `max / segment - 1` here. ns keeps re-arming the timer of an idle sender; here
//! it runs once and then rests until the next segment, which changes nothing that can be seen. A fast retransmit restarts
//! the timer (RFC 6675, section 6, allows it; RFC 6298 leaves it open). RFC 3168 lets no acknowledgment with an echo open
//! the window; `modern` lets those that follow a time-out, until new data has carried CWR, as Linux does in its state
//! "Loss": otherwise a flow that lost a window repairs it at one segment per round trip. In `ns-1999` every packet of a
//! connection says that it understands ECN; ns's first one does not.

mod counters;
mod reduction;
mod timing;

pub use counters::SenderCounters;

use alloc::boxed::Box;

use tidegate_packet::SackBlocks;
use tidegate_units::Time;

use super::config::{FastRetransmitGuard, Rules, TcpConfig, Variant};
use super::congestion::{Ack, AnyCongestionControl, CongestionControl, Signal};
use super::gradual::Gradual;
use super::pacing::Pacing;
use super::prr::Prr;
use super::ranges::RangeSet;
use super::rto::RtoEstimator;
use super::sampler::{Sampler, Sent};

/// No segment is being timed.
const NOT_TIMED: u64 = u64::MAX;
/// Nothing limits how many segments one event releases, except the windows.
pub(super) const NO_BURST_LIMIT: u32 = u32::MAX;

/// What last reduced the window (ns's `last_cwnd_action_`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    None,
    /// Fast recovery: it lasts until another action follows.
    FastRecovery,
    Timeout,
    Ecn,
    Exited,
}

/// An acknowledgment as the recoveries see it: checked against what was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckEvent<'a> {
    /// The next byte that the receiver expects; never beyond `max`.
    pub number: u64,
    pub sack: &'a SackBlocks,
    /// It repeats `una`, and counts as a duplicate.
    pub is_duplicate: bool,
    /// It echoes a congestion mark: it opens no window.
    pub ece: bool,
}

/// See the module.
// In this order: what every acknowledgment touches comes first. Connections are many, and met in turn.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Connection {
    /// First byte not acknowledged.
    pub una: u64,
    /// Next byte to send; a time-out moves it back.
    pub nxt: u64,
    /// One past the highest byte ever sent.
    pub max: u64,
    /// One past the last byte that the application gave.
    pub limit: u64,
    /// The receiver's window in bytes from `una`.
    pub rwnd_bytes: u64,
    /// When the retransmission timer expires; [`Time::MAX`]: it rests.
    pub rtx_at: Time,
    /// First byte of the segment being timed.
    timed: u64,
    timed_at: Time,
    /// Window inflation by duplicates, in bytes (ns's `dupwnd`). RFC 6582's deflation can take it below zero.
    pub inflation: i64,
    /// One past the highest byte sent when the window was last reduced.
    pub recover: u64,
    /// `modern`: the same, for reductions of any kind. Until it is passed, an ECN echo is old news.
    reduced_at: u64,
    /// `modern`: the same, for reductions by an ECN echo, or for a loss that a probe repaired.
    echoed_at: u64,
    pub last_sent: Time,
    /// Nothing is sent before: an ECN time-out.
    pub paused_until: Time,
    pub dupacks: u32,
    /// Segments that the present event may still release.
    pub burst: u32,
    pub segment_bytes: u32,
    pub dupack_threshold: u32,
    /// The segment at `una` goes next, whatever the window says.
    pub retransmit_head: bool,
    pub action: Action,
    pub rules: Rules,
    pub limited_transmit: bool,
    guard: FastRetransmitGuard,
    /// The window was reduced: the next new segment says so (RFC 3168, section 6.1.2).
    pub cwr_due: bool,
    /// There is something that wants to know what goes out: one of `gradual` and `prr`, the sampler, or pacing by the host.
    pub is_watched: bool,
    /// The control hears of segments that go out.
    pub tells_sends: bool,
    /// The acknowledgment that is being taken in echoes a mark.
    pub echoes: bool,
    /// For a control that asks for samples.
    pub sampler: Option<Box<Sampler>>,
    /// ECN time-outs since the last acknowledgment without echo; `None`: there are no ECN time-outs.
    ecn_pauses: Option<u32>,
    pub cc: AnyCongestionControl,
    pub rto: RtoEstimator,
    pub counters: SenderCounters,
    /// `una` when the retransmission timer last expired.
    timed_out_at: u64,
    /// Where an echo reduces gradually: how far that has come.
    gradual: Option<Gradual>,
    /// Where recovery from losses sends in proportion: how far that has come.
    pub prr: Option<Box<Prr>>,
    /// A recovery ends with the window that the loss left.
    keep_window: bool,
    /// Congestion leaves a part of the window, not of what is under way.
    reduce_window: bool,
    /// What is lost again while losses are repaired reduces nothing more.
    pub reduce_once: bool,
    /// Bytes that recovery found lost, for samples.
    pub lost_bytes: u64,
}

impl Connection {
    pub fn new(config: &TcpConfig) -> Self {
        config.assert_valid();
        let rto = RtoEstimator::new(config.rto, config.rules);
        let cc = config.control.build(config);
        let sampler = Sampler::new(cc.sampling(), config);
        let has_prr = config.prr && matches!((config.rules, config.variant), (Rules::Modern, Variant::Sack));
        let is_gradual = config.gradual_reduction && matches!(config.rules, Rules::Modern);
        Self {
            una: 0,
            nxt: 0,
            max: 0,
            limit: 0,
            rwnd_bytes: u64::from(config.receive_window_bytes),
            rtx_at: Time::MAX,
            timed: NOT_TIMED,
            timed_at: Time::ZERO,
            inflation: 0,
            recover: Self::nothing_to_recover(config.rules, config.segment_bytes),
            reduced_at: 0,
            echoed_at: 0,
            timed_out_at: u64::MAX,
            dupacks: 0,
            burst: NO_BURST_LIMIT,
            segment_bytes: config.segment_bytes,
            dupack_threshold: config.dupack_threshold,
            retransmit_head: false,
            action: Action::None,
            rules: config.rules,
            limited_transmit: config.limited_transmit,
            guard: config.fast_retransmit_guard,
            cwr_due: false,
            paused_until: Time::ZERO,
            is_watched: is_gradual || has_prr || sampler.is_some() || config.pacing != Pacing::Control,
            gradual: is_gradual.then(Gradual::default),
            prr: has_prr.then(Box::default),
            ecn_pauses: config.ecn_timeout.then_some(0),
            tells_sends: cc.hears_sends(),
            echoes: false,
            keep_window: config.keep_window,
            reduce_window: config.reduce_window,
            reduce_once: config.reduce_once,
            lost_bytes: 0,
            sampler,
            cc,
            rto,
            last_sent: Time::ZERO,
            counters: SenderCounters::default(),
        }
    }

    /// `recover` before any loss. ns starts at packet 0, not at "none", so that a loss of packet 0 or 1 waits for the
    /// timer (tests/oracle/ns2, section 1.7).
    const fn nothing_to_recover(rules: Rules, segment_bytes: u32) -> u64 {
        match rules {
            Rules::Ns1999 => segment_bytes as u64,
            Rules::Modern => 0,
        }
    }

    /// ns's Sack1 forgets `recover` when recovery ends.
    pub fn forget_recover(&mut self) {
        self.recover = Self::nothing_to_recover(self.rules, self.segment_bytes);
    }

    /// Whether anything was noted in `recover`.
    pub fn has_recover(&self) -> bool {
        self.recover > Self::nothing_to_recover(self.rules, self.segment_bytes)
    }

    pub const fn is_ns(&self) -> bool {
        matches!(self.rules, Rules::Ns1999)
    }

    pub const fn segment(&self) -> u64 {
        self.segment_bytes as u64
    }

    /// Bytes sent since the last restart and not acknowledged.
    #[inline]
    pub const fn flight_bytes(&self) -> u64 {
        self.nxt - self.una
    }

    /// Whether losses are being repaired, of a fast retransmit or a time-out.
    pub fn is_repairing(&self) -> bool {
        matches!(self.action, Action::FastRecovery | Action::Timeout) && self.una < self.recover
    }

    /// The window in force where the control has `cwnd_bytes`: inflated, and bounded by the receiver's.
    #[inline]
    pub fn window_of(&self, cwnd_bytes: u64) -> u64 {
        cwnd_bytes.saturating_add_signed(self.inflation).min(self.rwnd_bytes)
    }

    /// Bytes in the network, if each duplicate says that one segment has left it.
    #[inline]
    pub fn deflated_flight_bytes(&self) -> u64 {
        // A negative inflation adds; more inflation than flight means that nothing is left.
        // (Both are windows' worth of bytes, far below 2^63.)
        (self.flight_bytes().cast_signed() - self.inflation).max(0) as u64
    }

    /// The segment at `nxt`, if the application and the receiver allow it.
    #[inline]
    pub fn next_in_order(&self) -> Option<(u64, u32)> {
        let left = self.limit - self.nxt;
        if left == 0 {
            return None;
        }
        let payload_bytes = if left < self.segment() { left as u32 } else { self.segment_bytes };
        if self.nxt - self.una + u64::from(payload_bytes) > self.rwnd_bytes {
            return None;
        }
        Some((self.nxt, payload_bytes))
    }

    /// Notes that the segment goes out, and returns whether it is a retransmission. `in_flight_bytes` are under way before it; they only
    /// matter if the connection is watched.
    #[inline]
    pub fn on_output(&mut self, sequence: u64, payload_bytes: u32, in_flight_bytes: u64, now: Time) -> bool {
        let end = sequence + u64::from(payload_bytes);
        let retransmission = sequence < self.max;
        if retransmission && !self.is_ns() && self.timed >= sequence && self.timed < end {
            // Karn's rule, where one recovery retransmits what another event had sent.
            self.timed = NOT_TIMED;
        }
        let nothing_outstanding = self.una == self.max;
        self.nxt = self.nxt.max(end);
        if end > self.max {
            self.max = end;
            if self.timed == NOT_TIMED && !retransmission {
                self.timed = sequence;
                self.timed_at = now;
            }
        }
        if nothing_outstanding || self.rtx_at == Time::MAX {
            self.arm_timer(now);
        }
        self.last_sent = now;
        if self.is_watched {
            let in_flight_bytes = in_flight_bytes + u64::from(payload_bytes);
            self.watch_output(
                sequence,
                payload_bytes,
                in_flight_bytes,
                retransmission,
                nothing_outstanding,
                now,
            );
        }
        self.counters.sent_segments += 1;
        self.counters.sent_bytes += u64::from(payload_bytes);
        self.counters.retransmissions += u64::from(retransmission);
        retransmission
    }

    /// A time-out forgets what was reported as `held`: who counts what has arrived does not.
    pub fn keep_count_of(&mut self, held: &RangeSet) {
        if let Some(sampler) = &mut self.sampler {
            sampler.keep_count_of(held.as_slice());
        }
    }

    /// What few connections want to know of a segment that goes out.
    #[inline(never)]
    fn watch_output(
        &mut self,
        sequence: u64,
        payload_bytes: u32,
        in_flight_bytes: u64,
        retransmission: bool,
        nothing_outstanding: bool,
        now: Time,
    ) {
        let lost_bytes = self.lost_bytes;
        if let Some(gradual) = &mut self.gradual {
            gradual.on_sent(payload_bytes);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(u64::from(payload_bytes));
        }
        if let Some(sampler) = &mut self.sampler {
            let sent = Sent { sequence, in_flight_bytes, lost_bytes, is_retransmission: retransmission };
            sampler.on_send(sent, nothing_outstanding, now);
        }
    }

    /// Moves `una` forward to `number`, which lies beyond it.
    #[inline]
    pub fn advance(&mut self, number: u64) {
        self.una = number;
        self.nxt = self.nxt.max(number);
    }

    /// An acknowledgment of new data: timer, duplicates, sequence space, sample.
    #[inline]
    pub fn take_new_ack(&mut self, number: u64, now: Time) {
        self.dupacks = 0;
        if self.is_watched
            && let Some(gradual) = &mut self.gradual
        {
            gradual.on_delivered(number - self.una);
            if number >= self.reduced_at {
                *gradual = Gradual::default();
            }
        }
        if self.is_ns() {
            // ns sets the timer first, with the time-out as it was.
            self.arm_timer_for_ack(number, now);
            self.advance(number);
            self.sample(number, now);
        } else {
            self.sample(number, now);
            self.advance(number);
            self.arm_timer_for_ack(number, now);
        }
    }

    /// The same, and the window opens.
    #[inline]
    pub fn take_new_ack_and_open(&mut self, ack: &AckEvent<'_>, now: Time) {
        let acked_bytes = ack.number - self.una;
        let flight_bytes = self.flight_bytes();
        // Behind a time-out the echo cannot stop before new data says that it was heard, and new data waits for the window.
        let repairs_timeout = self.action == Action::Timeout && self.una < self.recover;
        let echo_is_old = !self.is_ns() && repairs_timeout && self.cwr_due;
        self.take_new_ack(ack.number, now);
        if !ack.ece || echo_is_old {
            self.ecn_pauses = self.ecn_pauses.map(|_| 0);
            if let Some(sampler) = &mut self.sampler {
                // The control hears of it when recovery has said what was lost.
                sampler.opens_window = true;
                return;
            }
            let srtt = self.rto.srtt();
            let ack = Ack { acknowledgment: ack.number, acked_bytes, flight_bytes, srtt, sample: None };
            self.cc.on_ack(&ack, now);
        }
    }

    /// One more duplicate before the threshold: it releases new data (RFC 3042).
    pub fn limited_transmit(&mut self) {
        if self.limited_transmit && self.nxt == self.max && self.dupacks <= 2 {
            self.inflation = i64::from(self.dupacks) * i64::from(self.segment_bytes);
        }
    }

    /// The retransmission timer expired. What the recovery keeps is its own to reset.
    pub fn on_timeout(&mut self, now: Time) {
        self.inflation = 0;
        self.burst = NO_BURST_LIMIT;
        if self.waits_for_timer() {
            self.paused_until = Time::ZERO;
        }
        let nothing_outstanding = self.una == self.max;
        if nothing_outstanding {
            self.rtx_at = Time::MAX;
            if self.is_ns() {
                self.recover = self.max;
                self.signal(Signal::Idle, now);
            } else if self.limit > self.max {
                // Data waits and the receiver's window holds it back: probe (RFC 9293, section 3.8.6.1).
                self.rto.back_off();
            }
        } else {
            self.recover = self.max;
            if self.is_behind_ns_echo() {
                // ns begins anew, and leaves the threshold of slow start alone.
                self.signal(Signal::Idle, now);
                self.cwr_due = true;
            } else {
                self.signal(Signal::Timeout, now);
            }
            self.timed_out_at = self.una;
            if self.cc.backs_off_timer() {
                self.rto.back_off();
            }
            self.arm_timer(now);
            self.counters.timeouts += 1;
        }
        // Go back: everything follows again as the window opens.
        self.nxt = self.una;
        self.stop_timing();
        self.action = Action::Timeout;
        if self.next_in_order().is_none() && self.limit > self.una {
            self.retransmit_head = true;
        }
    }
}
