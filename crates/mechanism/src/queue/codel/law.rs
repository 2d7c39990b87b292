//! The law of `CoDel`, with what it must remember of a queue: for one queue ([`Codel`](super::Codel)), or for many that share the law.

use alloc::format;

use tidegate_packet::{DropReason, MarkReason, Packet};
use tidegate_parameters::{bound, parameters, words};
use tidegate_units::{Span, Time};

use crate::queue::{SharedLaw, Verdict};

words! {
    /// Where the count of drops begins if dropping begins again soon after it ended.
    pub enum Reentry {
        /// At the number of drops of the series before, if it was more than one and ended less than 16 intervals ago (RFC 8289,
        /// section 5.5, and Linux).
        LastDrops = "last-drops",
        /// At two less than where the count ended, if that was above two, less than 8 intervals ago (the authors' code for ns, and
        /// the drafts before the RFC).
        TwoLess = "two-less",
    }
}

words! {
    /// With which arithmetic the law is followed.
    pub enum Variant {
        /// Exactly: nanoseconds, a rounded root, and a head at the very instant at which it may be dropped is (RFC 8289, section 5).
        Rfc = "rfc",
        /// As Linux: units of 1024 ns, the root in 16 bits by one step of Newton's method for each drop, and only a later head may be
        /// dropped (`codel_impl.h`).
        Linux = "linux",
    }
}

parameters! {
    /// # The law of controlled delay
    ///
    /// When packets are dropped or marked at the head.
    ///
    /// Source: RFC 8289.
    #[derive(Copy)]
    pub struct CodelLawConfig {
        /// How long packets may wait in a queue that stays; 5 to 10 % of `interval`. Source: RFC 8289, section 4.4.
        target: Span = Span::from_millis(5) => bound::DURATION;
        /// How long all packets wait longer than that before the first is dropped; about the largest round-trip time of the
        /// flows. Source: RFC 8289, section 4.3.
        interval: Span = Span::from_millis(100) => bound::DURATION;
        /// Whether packets of transports with ECN are marked instead of dropped. On, as with the other queues here, for it
        /// changes nothing for transports without ECN. Source: Linux, where `codel` has it off and `fq_codel` on.
        ecn: bool = true;
        /// Where the count of drops begins if dropping begins again soon after it ended. Source: RFC 8289, section 5.5.
        reentry: Reentry = Reentry::LastDrops;
        /// With which arithmetic: exactly, or as the code of Linux has it. Source: RFC 8289, section 5; Linux.
        variant: Variant = Variant::Rfc;
        /// Above which wait every packet of a transport with ECN is marked that would leave without a mark, whatever `target` and
        /// `ecn` say: a step of delay, for DCTCP. Without it there is none. Source: Linux (`ce_threshold`).
        ce_threshold: Option<Span> = None => bound::DURATION;
    }
    check |config, report| {
        if config.target > config.interval {
            let help = "5 to 10 % of it: RFC 8289, section 4.4";
            report.say("target", format!("{} is longer than the interval", config.target), help);
        }
    };
}

/// The law: what is the same for all queues.
#[derive(Clone, Debug)]
pub struct CodelLaw {
    target: Span,
    interval: Span,
    mtu_bytes: u64,
    ecn: bool,
    reentry: Reentry,
    variant: Variant,
    ce_threshold: Option<Span>,
}

/// What is remembered of one queue.
#[derive(Clone, Debug, Default)]
pub struct CodelState {
    /// From when on a head above the target may be dropped; none while heads are below it.
    pub(super) first_above_time: Option<Time>,
    /// When the next packet is dropped, if heads stay above the target.
    pub(super) drop_next: Time,
    /// How many drops the pause before the next follows from.
    pub(super) count: u32,
    /// What `count` was when this series of drops began, or the last.
    pub(super) lastcount: u32,
    /// `1 / sqrt(count)` in 16 bits behind the point, roughly; with [`Variant::Linux`] alone.
    inverse_root: u16,
    pub(super) dropping: bool,
    /// A packet was just dropped; when the next one is depends on the new head.
    pub(super) is_unscheduled: bool,
    /// A series began with a drop; the next head is sent in any case.
    has_just_begun: bool,
}

impl SharedLaw for CodelLaw {
    type State = CodelState;

    /// The law, and what Linux does to packets that it lets pass (`codel_dequeue`, at its end).
    #[inline]
    fn at_head(&mut self, state: &mut CodelState, packet: &Packet, left_bytes: u64, now: Time) -> Verdict {
        let sojourn = self.sojourn(packet, now);
        let verdict = self.judge(state, packet, sojourn, left_bytes, self.instant(now));
        let is_late = self.ce_threshold.is_some_and(|threshold| sojourn > threshold);
        if verdict == Verdict::Accept && is_late && packet.ecn.is_capable() {
            return Verdict::Mark(MarkReason::Early);
        }
        verdict
    }

    #[inline]
    fn on_empty(&mut self, state: &mut CodelState, is_by_drop: bool) {
        if is_by_drop || self.variant == Variant::Rfc {
            state.first_above_time = None;
        }
        state.leave();
    }

    fn on_overflow(&mut self, state: &mut CodelState, drops: u32) {
        state.count = state.count.saturating_add(drops);
    }
}

impl CodelLawConfig {
    /// The law for a link with packets of up to `mtu_bytes`.
    pub fn build(&self, mtu_bytes: u32) -> CodelLaw {
        assert!(!self.interval.is_zero(), "an interval takes time");
        let whole = |span: Span| if self.variant == Variant::Linux { in_units(span) } else { span };
        CodelLaw {
            target: whole(self.target),
            interval: whole(self.interval),
            mtu_bytes: u64::from(mtu_bytes),
            ecn: self.ecn,
            reentry: self.reentry,
            variant: self.variant,
            ce_threshold: self.ce_threshold.map(whole),
        }
    }
}

impl CodelLaw {
    /// `now`, as the variant sees it.
    #[inline]
    fn instant(&self, now: Time) -> Time {
        match self.variant {
            Variant::Rfc => now,
            Variant::Linux => Time::ZERO + in_units(now - Time::ZERO),
        }
    }

    /// How long `packet` has waited.
    #[inline]
    pub(super) fn sojourn(&self, packet: &Packet, now: Time) -> Span {
        self.instant(now).since(self.instant(packet.arrived))
    }

    /// Section 5.5. Its loop over heads is the caller's, who asks again after each drop, at the same instant.
    #[inline]
    fn judge(&self, state: &mut CodelState, packet: &Packet, sojourn: Span, left: u64, now: Time) -> Verdict {
        if is_below(sojourn, self.target, left, self.mtu_bytes) {
            state.first_above_time = None;
            state.leave();
            return Verdict::Accept;
        }
        if !self.ok_to_drop(state, now) {
            state.leave();
            return Verdict::Accept;
        }
        self.notify(state, packet, now)
    }

    /// Whether heads have been above the target for an interval (section 5.6, `dodequeue`); this one is.
    fn ok_to_drop(&self, state: &mut CodelState, now: Time) -> bool {
        if let Some(from) = state.first_above_time {
            return match self.variant {
                Variant::Rfc => now >= from,
                Variant::Linux => now > from,
            };
        }
        state.first_above_time = Some(now.saturating_add(self.interval));
        false
    }

    /// This head may be dropped or marked: whether it is time for it.
    fn notify(&self, state: &mut CodelState, packet: &Packet, now: Time) -> Verdict {
        if !state.dropping {
            self.enter(state, now);
            let verdict = self.verdict(packet);
            state.has_just_begun = matches!(verdict, Verdict::Drop(_));
            return verdict;
        }
        // Only pauses of Linux, whose root may be zero, let the next one be due at once.
        if core::mem::take(&mut state.has_just_begun) {
            return Verdict::Accept;
        }
        if state.is_unscheduled {
            self.schedule(state, state.drop_next);
        }
        if now < state.drop_next {
            return Verdict::Accept;
        }
        state.count = state.count.saturating_add(1);
        state.inverse_root = newton_step(state.inverse_root, state.count);
        let verdict = self.verdict(packet);
        if let Verdict::Mark(_) = verdict {
            self.schedule(state, state.drop_next);
        } else {
            state.is_unscheduled = true;
        }
        verdict
    }

    /// A series of drops begins (section 5.5).
    fn enter(&self, state: &mut CodelState, now: Time) {
        let since = now.since(state.drop_next);
        let again = match self.reentry {
            Reentry::LastDrops => last_drops(state.count, state.lastcount, since, self.interval),
            Reentry::TwoLess => two_less(state.count, since, self.interval),
        };
        (state.count, state.inverse_root) =
            again.map_or((1, u16::MAX), |count| (count, newton_step(state.inverse_root, count)));
        state.lastcount = state.count;
        state.dropping = true;
        self.schedule(state, now);
    }

    fn schedule(&self, state: &mut CodelState, from: Time) {
        let pause = match self.variant {
            Variant::Rfc => pause(self.interval, state.count),
            Variant::Linux => pause_in_units(self.interval, state.inverse_root),
        };
        state.drop_next = from.saturating_add(pause);
        state.is_unscheduled = false;
    }

    fn verdict(&self, packet: &Packet) -> Verdict {
        if self.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

impl CodelState {
    fn leave(&mut self) {
        self.dropping = false;
        self.is_unscheduled = false;
        self.has_just_begun = false;
    }
}

/// Whether a head is no sign of a queue that stays: it waited less than the target, or no more than one packet of the largest
/// size is behind it, without which the link would idle (sections 4.2 and 5.6).
fn is_below(sojourn: Span, target: Span, left_bytes: u64, mtu_bytes: u64) -> bool {
    sojourn < target || left_bytes <= mtu_bytes
}

/// `INTERVAL / sqrt(count)`, the pause before the next drop (section 5.6, `control_law`).
fn pause(interval: Span, count: u32) -> Span {
    Span::from_nanos(((interval.as_nanos() as f64 / libm::sqrt(f64::from(count))) as u64).max(1))
}

/// `count - lastcount` if the last drop was due less than 16 intervals ago (section 5.5); else the series begins at 1.
pub(super) fn last_drops(count: u32, lastcount: u32, since_drop_next: Span, interval: Span) -> Option<u32> {
    let delta = count.saturating_sub(lastcount);
    (delta > 1 && since_drop_next < interval.saturating_mul(16)).then_some(delta)
}

/// `count - 2` if the last drop was due less than 8 intervals ago (the authors' code for ns); else the series begins at 1.
pub(super) fn two_less(count: u32, since_drop_next: Span, interval: Span) -> Option<u32> {
    (count > 2 && since_drop_next < interval.saturating_mul(8)).then(|| count - 2)
}

/// A step of Newton's method towards `1 / sqrt(count)`: `x / 2 * (3 - count * x^2)`, with 32 bits behind the point, of which 16 are
/// kept (Linux, `codel_Newton_step`). As there it wraps where `count` grew by much at once: what follows is no root.
pub(super) fn newton_step(inverse_root: u16, count: u32) -> u16 {
    let x = u64::from(inverse_root) << 16;
    let square = (x * x) >> 32;
    let three_less = (3u64 << 32).wrapping_sub(u64::from(count) * square);
    ((three_less >> 2).wrapping_mul(x) >> 47) as u16
}

/// `interval / sqrt(count)` in whole units, by the reciprocal of the root (Linux, `codel_control_law`).
fn pause_in_units(interval: Span, inverse_root: u16) -> Span {
    let units = interval.as_nanos() >> UNIT_BITS;
    Span::from_nanos((units.saturating_mul(u64::from(inverse_root)) >> 16) << UNIT_BITS)
}

/// Linux counts time in units of 1024 ns (`CODEL_SHIFT`).
const UNIT_BITS: u32 = 10;

fn in_units(span: Span) -> Span {
    Span::from_nanos(span.as_nanos() >> UNIT_BITS << UNIT_BITS)
}
