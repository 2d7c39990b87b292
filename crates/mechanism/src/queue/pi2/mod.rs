//! PI2: holds the delay of a queue at a target by a probability that all senders can share. A classic sender has a window of about
//! one over the root of how often it is told, a scalable one (DCTCP, Prague) of one over it, so one probability for both leaves the
//! first nearly nothing, and a controller of it is too slow or too fast. Here the controller moves what is linear in the load: classic
//! packets are hit with its square, scalable ones in proportion to it.
//!
//! Source: De Schepper, Bondarenko, Tsang & Briscoe, "PI2: A Linearized AQM for both Classic and Scalable TCP", `CoNEXT` 2016, and its
//! code (`sch_pi2.c`, github.com/olgabo/dualpi2), which settles what the paper leaves open; RFC 9332, appendix A, for the controller.
//! Deviations:
//! - `p'` is that of RFC 9332: classic packets have `p'^2`, scalable ones `k p'`. The code keeps `p_s = k p'`, and so its gains are k times
//!   these (10/16 and 100/16 Hz for k = 2).
//! - The delay is how long the last packet that left had waited, and zero where it left nothing behind; the code estimates a rate of
//!   departure, and RFC 9332 looks at the head, for the code's estimate fails where the rate changes.
//! - While nothing waits `p'` falls by `alpha target` each update; the code takes 2 % of it as well.
//! - Updates are at multiples of [`Pi2Config::t_update`] from time zero, and rest while they change nothing.
//! - There is no burst allowance and no scaling by size: the code has the first switched off, and the second off by default.

mod law;
#[cfg(test)]
mod tests;

use tidegate_packet::{Backlog, DropReason, Ecn, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Limit, Span, Time};

use self::law::base_max;
pub(crate) use self::law::{Controller, coupled, squared};
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

words! {
    /// Whose packets are taken to be of scalable senders.
    pub enum Scalable {
        /// ECT(1) and CE (RFC 9331; `ect1_scal`).
        Ect1 = "ect1",
        /// All that can carry a mark, as where no classic sender has ECN (`ecn_scal`).
        Ect = "ect",
        /// Nobody's (`no_scal`).
        None = "none",
    }
}

/// Ratios that make sense of `k`.
pub(crate) const COUPLING: Bound<f64> =
    Bound::above(0.0).and_at_most(100.0).saying("", " is no coupling factor").helping(
        "above 0, at most 100: at 0 no scalable packet is marked; above that hardly a classic one is dropped",
    );
/// Gains of the controller.
pub(crate) const CONTROL_GAIN: Bound<f64> = Bound::above(0.0)
    .and_at_most(1e9)
    .saying("", " is no gain")
    .helping("above 0, at most 1000000000: at 0 it follows no delay; above that a nanosecond makes it 1");
/// What waits is looked at once in each: this bounds the work.
pub(crate) const T_UPDATE_MIN: Span = Span::from_micros(10);
/// Times between two looks.
pub(crate) const T_UPDATE: Bound<Span> = Bound::between(T_UPDATE_MIN, bound::DELAY_MAX)
    .saying("", " is no time between updates")
    .helping("from 10us to 3600s: each update is work");

parameters! {
    /// # PI2
    ///
    /// Moves a base probability with the delay of the queue. Packets of classic senders are dropped or marked with its square, those of
    /// scalable senders are marked in proportion to it, so that both get the same rate from one queue.
    ///
    /// Source: De Schepper, Bondarenko, Tsang and Briscoe 2016; RFC 9332, appendix A.
    #[derive(Copy)]
    pub struct Pi2Config {
        /// How much may wait; a last resort, for the delay is held by the target. Source: `sch_pi2.c`.
        limit: Limit = Limit::Packets(1000) => bound::QUEUE;
        /// The delay that is aimed at. Source: De Schepper et al. 2016, Fig. 6; `sch_pi2.c`.
        target: Span = Span::from_millis(20) => bound::DURATION;
        /// The time between two updates of the probability. Source: De Schepper et al. 2016, Fig. 6; `sch_pi2.c` has 30 ms.
        t_update: Span = Span::from_millis(32) => T_UPDATE;
        /// By how much the base probability moves at an update for each second that the delay is above the target. Source: De Schepper
        /// et al. 2016, Fig. 6 (5/16).
        alpha: f64 = 0.3125 => CONTROL_GAIN;
        /// By how much it moves for each second by which the delay grew since the update before. Source: De Schepper et al. 2016,
        /// Fig. 6 (50/16).
        beta: f64 = 3.125 => CONTROL_GAIN;
        /// By what the base probability is multiplied for scalable senders. Source: De Schepper et al. 2016; `sch_pi2.c`.
        k: f64 = 2.0 => COUPLING;
        /// Whose packets are taken to be of scalable senders. Source: RFC 9331, section 5.1.
        scalable: Scalable = Scalable::Ect1;
        /// Whether packets of transports with ECN are marked instead of dropped. Without it all senders are classic. Source: `sch_pi2.c`.
        ecn: bool = true;
    }
    check |config, report| {
        if let Limit::Time(longest) = config.limit && longest <= config.target {
            let help = "with such a limit PI2 hardly acts; let more wait";
            report.say("limit", alloc::format!("{longest} is not longer than the target"), help);
        }
    };
}

impl Pi2Config {
    /// The manager.
    pub fn build(&self, context: &Context) -> Pi2 {
        assert!(!self.t_update.is_zero(), "time moves on between updates");
        Pi2 {
            controller: Controller {
                alpha: self.alpha,
                beta: self.beta,
                target: self.target,
                p_max: base_max(self.k),
                p: 0.0,
                prevq: Span::ZERO,
            },
            delay: Span::ZERO,
            queue_bytes: 0,
            updated: Time::ZERO,
            mtu_bytes: context.mtu_bytes,
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            config: *self,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pi2 {
    controller: Controller,
    /// How long the last packet that left had waited, or zero if it left nothing behind.
    delay: Span,
    queue_bytes: u64,
    /// When `p'` was last updated: a multiple of the interval.
    updated: Time,
    mtu_bytes: u32,
    limit: QueueLimit,
    random: Substream,
    config: Pi2Config,
}

impl QueueManager for Pi2 {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("base_probability", "p', which follows the delay."),
                Variable::new(
                    "classic_probability",
                    "p' squared: how likely a classic packet is dropped or marked.",
                ),
                Variable::new("coupled_probability", "k p': how likely a scalable packet is marked."),
                Variable::new("queue_delay_ms", "The delay of the queue as it is measured."),
            ]
        }
    }

    /// `pi2_qdisc_enqueue`.
    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if self.is_at_rest() {
            let past = now.as_nanos() % self.config.t_update.as_nanos();
            self.updated = now.saturating_sub(Span::from_nanos(past));
        }
        let verdict = self.judge(packet, queue);
        let joins = !matches!(verdict, Verdict::Drop(_));
        self.queue_bytes = queue.bytes + if joins { u64::from(packet.wire_bytes) } else { 0 };
        verdict
    }

    #[inline]
    fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
        self.queue_bytes = queue.bytes;
        self.delay = if queue.bytes == 0 { Span::ZERO } else { now.since(packet.arrived) };
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
    }

    #[inline]
    fn timer_at(&self) -> Option<Time> {
        if self.is_at_rest() { None } else { Some(self.updated.saturating_add(self.config.t_update)) }
    }

    fn on_timer(&mut self, now: Time) {
        self.updated = now;
        self.controller.update(self.delay);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        let p = self.controller.p;
        match name {
            "base_probability" => Some(p),
            "classic_probability" => Some(squared(p)),
            "coupled_probability" => Some(coupled(self.config.k, p)),
            "queue_delay_ms" => Some(self.delay.as_millis_f64()),
            _ => None,
        }
    }
}

impl Pi2 {
    /// Whether updates change nothing until the next arrival.
    const fn is_at_rest(&self) -> bool {
        self.queue_bytes == 0 && self.delay.is_zero() && self.controller.is_at_rest()
    }

    /// `drop_early`, with the limit before it.
    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog) -> Verdict {
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if queue.bytes < 2 * u64::from(self.mtu_bytes) || !self.is_hit(packet.ecn) {
            return Verdict::Accept;
        }
        if self.config.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    /// Scalable packets are asked once, classic ones twice: both draws must hit.
    #[inline]
    fn is_hit(&mut self, ecn: Ecn) -> bool {
        let p = self.controller.p;
        if self.config.ecn && is_scalable(self.config.scalable, ecn) {
            self.random.chance(coupled(self.config.k, p))
        } else {
            self.random.chance(p) && self.random.chance(p)
        }
    }
}

/// Whether a packet is taken to be of a scalable sender.
const fn is_scalable(scalable: Scalable, ecn: Ecn) -> bool {
    match scalable {
        Scalable::Ect1 => matches!(ecn, Ecn::Ect1 | Ecn::Ce),
        Scalable::Ect => ecn.is_capable(),
        Scalable::None => false,
    }
}
