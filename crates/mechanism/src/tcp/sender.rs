//! The sending half of a connection.
//!
//! Source: RFC 9293, 5681, 6298, 3042, 3168 (`modern`); ns-2's one-way agents (`ns-1999`; tests/oracle/ns2, section 1).
//! Deviations: the application's bytes have no content, so a segment is a header and a length. A handshake, where the
//! configuration asks for one, takes no sequence number, and a lost SYN does not set the first time-out to 3 s (RFC
//! 6298, section 5.7), nor the initial window to one segment when it was lost again (RFC 5681, section 3.1). There is no Nagle delay: what the application gave goes out as the windows allow, the last
//! segment perhaps short; ns's would be padded to a full packet.
//!
//! A world calls one of the `on_` functions, then [`TcpSender::poll_transmit`] until it returns `None`, then re-arms
//! its timer for [`TcpSender::timer_at`].

mod answer;
mod marks;
mod pauses;
mod seen;

use alloc::boxed::Box;

use tidegate_packet::{Dscp, Ecn, TcpFlags, TcpHeader};
use tidegate_units::{BitRate, Time};

use self::answer::Answer;
use super::config::{EcnFeedback, Rules, TcpConfig};
use super::congestion::{Ack, AnyCongestionControl, CongestionControl, Permission, Segment};
use super::connection::{AckEvent, Connection, NO_BURST_LIMIT};
use super::pacing::HostPacing;
use super::receiver::ACE_AT_START;
use super::recovery::{Candidate, Recovery};
use super::sampler::Before;

/// A segment to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its header.
    pub header: TcpHeader,
    /// Its size on the wire, in bytes.
    pub wire_bytes: u32,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: Dscp,
    /// Whether some of its payload was sent before.
    pub retransmission: bool,
}

/// How far the opening has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    /// A SYN is to be sent when there is data.
    SynDue,
    /// A SYN is to be sent, whether there is data or not.
    SynWanted,
    /// A SYN is under way.
    SynSent,
    /// Data may flow.
    Open,
}

/// The sending half; see the module.
// In this order, what every segment touches is together.
#[derive(Debug)]
#[repr(C)]
pub struct TcpSender {
    /// The control wants to be asked again then; [`Time::MAX`]: it waits for an event.
    paced_at: Time,
    finished_at: Time,
    header_bytes: u32,
    window_bytes_max: u32,
    opening: Opening,
    ecn: bool,
    l4s: bool,
    ecn_retransmissions: bool,
    feedback: EcnFeedback,
    /// ACK, and with accurate feedback the counter of marks on what this half receives: none.
    flags: TcpFlags,
    stopped: bool,
    recovery: Recovery,
    c: Connection,
    ack_bytes: u32,
    /// Where the host paces, or the queue behind it.
    pacing: Option<Box<HostPacing>>,
    answer: Answer,
    /// Bytes with marks of which accurate feedback told.
    ce_bytes: u64,
}

impl TcpSender {
    /// A sender with nothing to send.
    ///
    /// # Panics
    /// If `config` lacks a segment size, a window, a duplicate threshold or a granularity.
    pub fn new(config: &TcpConfig) -> Self {
        let c = Connection::new(config);
        Self {
            pacing: HostPacing::new(config.pacing, &c.cc).map(Box::new),
            c,
            paced_at: Time::MAX,
            finished_at: Time::MAX,
            header_bytes: config.header_bytes,
            ack_bytes: config.ack_bytes,
            window_bytes_max: config.receive_window_bytes,
            opening: if config.handshake { Opening::SynDue } else { Opening::Open },
            answer: Answer::None,
            ecn: config.ecn,
            l4s: config.l4s,
            ecn_retransmissions: config.ecn_retransmissions,
            feedback: config.ecn_feedback,
            stopped: false,
            ce_bytes: 0,
            flags: if config.is_accurate() { TcpFlags::ACK.with_ace(ACE_AT_START) } else { TcpFlags::ACK },
            recovery: Recovery::new(config),
        }
    }

    /// The application gives `bytes` more. Ignored after [`stop`](Self::stop).
    pub fn on_app_data(&mut self, bytes: u64) {
        if self.stopped || bytes == 0 {
            return;
        }
        self.c.limit = self.c.limit.saturating_add(bytes);
        self.finished_at = Time::MAX;
        self.c.burst = NO_BURST_LIMIT;
    }

    /// The handshake begins before the application has data.
    pub fn connect(&mut self) {
        if self.opening == Opening::SynDue {
            self.opening = Opening::SynWanted;
        }
    }

    /// The application always has more. Ignored after [`stop`](Self::stop).
    pub fn set_unlimited(&mut self) {
        self.on_app_data(u64::MAX);
    }

    /// The application has no more than what was sent, for now: what it gave and was not sent is taken back.
    pub fn pause(&mut self, now: Time) {
        self.c.limit = self.c.max;
        self.note_progress(now);
    }

    /// The application ends: nothing new is sent, what was sent is delivered.
    pub fn stop(&mut self, now: Time) {
        self.stopped = true;
        self.pause(now);
    }

    /// A segment of the other half arrived. What makes no sense is ignored and counted.
    #[inline]
    pub fn on_ack(&mut self, header: &TcpHeader, now: Time) {
        let number = header.acknowledgment;
        if !header.flags.contains(TcpFlags::ACK) || number > self.c.max {
            self.c.counters.ignored_acks += 1;
            return;
        }
        if self.opening != Opening::Open && !self.on_syn_ack(header, now) {
            return;
        }
        let window_bytes = u64::from(header.window_bytes.min(self.window_bytes_max));
        let same_window = window_bytes == self.c.rwnd_bytes;
        if number >= self.c.una && !same_window {
            self.c.rwnd_bytes = window_bytes;
        }
        let mut accurate_bytes = 0;
        let ece = self.ecn
            && if self.feedback == EcnFeedback::Accurate {
                accurate_bytes = header.ce_bytes_since(self.ce_bytes);
                self.ce_bytes += accurate_bytes;
                accurate_bytes > 0
            } else {
                header.flags.contains(TcpFlags::ECE)
            };
        let begins = ece && !self.c.echoes;
        self.c.echoes = ece;
        if ece {
            self.c.on_ecn_echo(number, begins, now);
        }
        // RFC 5681, section 2, definition of a duplicate; ns, whose acknowledgments never carry data, looks at the number only.
        let is_duplicate = number == self.c.una
            && header.payload_bytes == 0
            && (self.c.rules == Rules::Ns1999
                || (same_window && (self.c.una < self.c.max || self.recovery.hears_idle_duplicates())));
        self.c.counters.duplicate_acks += u64::from(is_duplicate);
        let ack = AckEvent { number, sack: &header.sack, is_duplicate, ece };
        if self.c.sampler.is_some() {
            self.take_with_sample(&ack, accurate_bytes, now);
        } else {
            self.recovery.on_ack(&mut self.c, &ack, now);
        }
        self.note_progress(now);
    }

    /// The same for a control that asks for samples: it hears of every acknowledgment, when recovery has taken it in.
    #[inline(never)]
    fn take_with_sample(&mut self, ack: &AckEvent<'_>, accurate_bytes: u64, now: Time) {
        let before = Before {
            una: self.c.una,
            flight_bytes: self.c.flight_bytes(),
            in_flight_bytes: self.recovery.in_flight_bytes(&self.c),
        };
        self.recovery.on_ack(&mut self.c, ack, now);
        let acked_bytes = self.c.una - before.una;
        let marked_bytes = match self.feedback {
            EcnFeedback::Accurate => accurate_bytes,
            EcnFeedback::Classic | EcnFeedback::Dctcp if ack.ece => acked_bytes,
            EcnFeedback::Classic | EcnFeedback::Dctcp => 0,
        };
        let state = (self.recovery.in_flight_bytes(&self.c), self.recovery.held_bytes(&self.c), marked_bytes);
        // The sampler looks at the connection, of which it is a part.
        let Some(mut sampler) = self.c.sampler.take() else { return };
        let sample = sampler.sample(&self.c, ack, before, state, now);
        self.c.sampler = Some(sampler);
        let ack = Ack {
            acknowledgment: ack.number,
            acked_bytes,
            flight_bytes: before.flight_bytes,
            srtt: self.c.rto.srtt(),
            sample: Some(sample),
        };
        self.c.cc.on_ack(&ack, now);
    }

    /// Whether the handshake is over with `header`.
    fn on_syn_ack(&mut self, header: &TcpHeader, now: Time) -> bool {
        if self.opening != Opening::SynSent || !header.flags.contains(TcpFlags::SYN) {
            self.c.counters.ignored_acks += 1;
            return false;
        }
        self.opening = Opening::Open;
        self.c.rtx_at = Time::MAX;
        // Karn: a SYN sent twice gives no sample. RFC 6298, section 2.1 takes the handshake's otherwise.
        if self.c.rto.backoff() == 1 {
            self.measure_handshake(self.c.last_sent, now);
        } else {
            self.c.rto.reset_backoff();
        }
        self.c.rwnd_bytes = u64::from(header.window_bytes.min(self.window_bytes_max));
        self.c.burst = NO_BURST_LIMIT;
        false
    }

    #[inline]
    fn note_progress(&mut self, now: Time) {
        if self.c.una == self.c.limit && self.finished_at == Time::MAX {
            self.finished_at = now;
        }
    }

    /// The next segment to send now. To be called until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.opening != Opening::Open {
            return self.poll_syn(now);
        }
        if self.c.retransmit_head {
            return self.poll_retransmit(now);
        }
        if self.c.burst == 0 {
            return None;
        }
        if !self.recovery.goes_in_order() {
            return self.poll_selective(now);
        }
        // Such a recovery need not be asked, nor told.
        let candidate = self.take_permitted(Candidate::in_order(&self.c), now)?;
        Some(self.emit(candidate.sequence, candidate.payload_bytes, now))
    }

    /// The same where recovery knows what the receiver holds.
    #[inline(never)]
    fn poll_selective(&mut self, now: Time) -> Option<Transmit> {
        let candidate = self.recovery.candidate(&mut self.c);
        let candidate = self.take_permitted(candidate, now)?;
        let transmit = self.emit(candidate.sequence, candidate.payload_bytes, now);
        let leaves_at = self.leaves_at(now);
        self.recovery.on_sent(&mut self.c, &candidate, transmit.retransmission, leaves_at);
        Some(transmit)
    }

    /// `candidate`, if there is one and it goes now: of what the event may still release, it is one.
    #[expect(clippy::inline_always, reason = "once per segment")]
    #[inline(always)]
    fn take_permitted(&mut self, candidate: Option<Candidate>, now: Time) -> Option<Candidate> {
        let Some(candidate) = candidate else {
            self.c.burst = 0;
            if self.c.sampler.is_some() {
                self.note_app_limited();
            }
            if self.c.rtx_at == Time::MAX && self.c.una < self.c.limit {
                // The receiver's window is shut and nothing is under way: probe when the timer says so.
                self.c.arm_timer(now);
            }
            return None;
        };
        if self.c.una == self.c.max {
            self.restart_after_idle(now);
        }
        if !self.permits(candidate, now) {
            return None;
        }
        if self.c.burst != NO_BURST_LIMIT {
            self.c.burst -= 1;
        }
        Some(candidate)
    }

    /// What the window allows, or in a recovery that sends in proportion the recovery, when the host lets it go.
    #[inline]
    fn window_permits(&mut self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if self.c.is_watched {
            return self.watched_permits(in_flight_bytes, payload_bytes, now);
        }
        self.c.cc.may_send(in_flight_bytes, payload_bytes, now)
    }

    /// The same, where somebody wants to know what goes out.
    #[inline(never)]
    fn watched_permits(&mut self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        let permission = match &self.c.prr {
            Some(prr) if prr.is_active() => {
                if prr.allows(u64::from(payload_bytes)) {
                    self.c.cc.may_send(0, payload_bytes, now)
                } else {
                    Permission::No
                }
            }
            _ => self.c.cc.may_send(in_flight_bytes, payload_bytes, now),
        };
        match permission {
            Permission::No if self.c.reduction_allows(in_flight_bytes, payload_bytes) => {
                self.pace(Permission::Now, now)
            }
            permission => self.pace(permission, now),
        }
    }

    /// Asks the control, and remembers when to ask again.
    #[inline]
    fn permits(&mut self, candidate: Candidate, now: Time) -> bool {
        let permission = match self.window_permits(candidate.in_flight_bytes, candidate.payload_bytes, now) {
            Permission::Now if now < self.c.paused_until => Permission::At(self.c.paused_until),
            permission => permission,
        };
        match permission {
            Permission::Now => {
                self.paced_at = Time::MAX;
                true
            }
            Permission::At(time) => {
                self.paced_at = time.max(self.c.paused_until);
                self.c.hold_back(self.recovery.has_nothing_under_way(&self.c));
                false
            }
            Permission::No => {
                self.paced_at = Time::MAX;
                self.c.burst = 0;
                false
            }
        }
    }

    /// What is permitted, where the host paces.
    fn pace(&mut self, permission: Permission, now: Time) -> Permission {
        match &mut self.pacing {
            Some(pacing) => pacing.permit(permission, now),
            None => permission,
        }
    }

    /// The segment that recovery demands, or a probe: not subject to the window, but to timed sends.
    fn poll_retransmit(&mut self, now: Time) -> Option<Transmit> {
        let left = self.c.limit - self.c.una;
        if left == 0 {
            self.c.retransmit_head = false;
            return self.poll_transmit(now);
        }
        let (sequence, payload_bytes) = self.recovery.demanded(&self.c);
        let demanded = Candidate { sequence, payload_bytes, in_flight_bytes: 0, fills_hole: true };
        let permission = self.c.cc.may_send(0, payload_bytes, now);
        let not_before = match self.pace(permission, now) {
            Permission::At(time) => time.max(self.c.paused_until),
            Permission::Now | Permission::No => self.c.paused_until,
        };
        if now < not_before {
            self.paced_at = not_before;
            self.c.hold_back(self.recovery.has_nothing_under_way(&self.c));
            return None;
        }
        self.paced_at = Time::MAX;
        self.c.retransmit_head = false;
        let transmit = self.emit(sequence, payload_bytes, now);
        let leaves_at = self.leaves_at(now);
        self.recovery.on_demanded_sent(&mut self.c, &demanded, transmit.retransmission, leaves_at);
        Some(transmit)
    }

    /// Sends data, whoever decided it.
    #[inline]
    fn emit(&mut self, sequence: u64, payload_bytes: u32, now: Time) -> Transmit {
        let is_watched = self.c.is_watched;
        let (mut in_flight_bytes, mut now) = (0, now);
        if is_watched {
            in_flight_bytes = self.in_flight_bytes();
            now = self.leaves_at(now);
        }
        let retransmission = self.c.on_output(sequence, payload_bytes, in_flight_bytes, now);
        let wire_bytes = self.header_bytes + payload_bytes;
        let mut dscp = Dscp::BEST_EFFORT;
        if self.c.tells_sends {
            dscp = self.c.cc.on_send(&Segment { sequence, payload_bytes, wire_bytes, retransmission }, now);
        }
        if is_watched && let Some(pacing) = &mut self.pacing {
            pacing.on_send(payload_bytes, self.c.rto.srtt(), &self.c.cc);
        }
        let (flags, ecn) = if self.ecn { self.marks(retransmission) } else { (TcpFlags::ACK, Ecn::NotEct) };
        let header = TcpHeader { sequence, payload_bytes, flags, ..TcpHeader::default() };
        Transmit { header, wire_bytes, ecn, dscp, retransmission }
    }

    fn poll_syn(&mut self, now: Time) -> Option<Transmit> {
        let is_due = match self.opening {
            Opening::SynDue => self.c.limit > 0,
            Opening::SynWanted => true,
            Opening::SynSent | Opening::Open => false,
        };
        if !is_due {
            return None;
        }
        self.opening = Opening::SynSent;
        self.c.last_sent = now;
        self.c.arm_timer(now);
        let header = TcpHeader { flags: TcpFlags::SYN, ..TcpHeader::default() };
        Some(Transmit {
            header,
            wire_bytes: self.ack_bytes,
            ecn: Ecn::NotEct,
            dscp: Dscp::BEST_EFFORT,
            retransmission: false,
        })
    }

    /// When [`on_timer`](Self::on_timer) wants to run.
    #[inline]
    pub fn timer_at(&self) -> Option<Time> {
        let at = self.c.rtx_at.min(self.paced_at);
        if at == Time::MAX { None } else { Some(at) }
    }

    /// The timer is due. Too early a call does nothing; a late one counts from `now`.
    pub fn on_timer(&mut self, now: Time) {
        if self.paced_at <= now {
            self.paced_at = Time::MAX;
            // What was held back may go, even if an event in between released nothing.
            self.c.burst = NO_BURST_LIMIT;
        }
        if self.c.rtx_at > now {
            return;
        }
        if self.opening == Opening::SynSent {
            self.opening = Opening::SynWanted;
            self.c.rtx_at = Time::MAX;
            self.c.rto.back_off();
            self.c.counters.timeouts += 1;
            return;
        }
        self.recovery.on_timer(&mut self.c, now);
    }

    /// When the segment that [`poll_transmit`](Self::poll_transmit) gave last is to leave the host; zero where only its queue decides.
    #[inline]
    pub fn departs_at(&self) -> Time {
        if !self.c.is_watched {
            return Time::ZERO;
        }
        self.pacing.as_ref().map_or(Time::ZERO, |pacing| pacing.departs_at())
    }

    /// When what goes out `now` leaves the host: what waits for its time in the queue counts from then on, as in Linux. For RACK-TLP that is
    /// when it was sent (RFC 8985, section 5.1).
    fn leaves_at(&self, now: Time) -> Time {
        self.departs_at().max(now)
    }

    /// Bytes that recovery believes to be in the network.
    pub fn in_flight_bytes(&self) -> u64 {
        self.recovery.in_flight_bytes(&self.c)
    }
    /// A reservation has a new rate; nothing where the control has none.
    pub fn set_reservation(&mut self, rate: BitRate, now: Time) {
        if let AnyCongestionControl::Reserved(reserved) = &mut self.c.cc {
            reserved.set_rate(rate, now);
        }
    }
}
