//! Whether a class is above its allotted rate: an average of the time by which it is late or early, packet by packet.
//!
//! Times are whole numbers of 1/1024 ns, so that a class that is held back sends at exactly its rate: nothing accumulates.
//!
//! Source: Floyd & Jacobson 1995, appendix A (`avgidle`, `maxidle`, `undertime`); ns-2 `cbq.cc`. Deviations: in [`super`].

use tidegate_units::{Span, Time};

/// A time, or a length of time, in units of 1/1024 ns.
pub(super) type Ticks = i128;

const TICKS_PER_NANO: Ticks = 1024;
const TICKS_PER_SECOND: Ticks = 1_000_000_000 * TICKS_PER_NANO;

/// The average moves by 1/16 per packet (Floyd's note; ns-2 `POWEROFTWO`).
const EWMA_SHIFT: u32 = 4;

pub(super) fn ticks(time: Time) -> Ticks {
    Ticks::from(time.as_nanos()) * TICKS_PER_NANO
}

pub(super) fn ticks_of(span: Span) -> Ticks {
    Ticks::from(span.as_nanos()) * TICKS_PER_NANO
}

/// The first whole nanosecond that is not before `at`; never beyond [`Time::MAX`].
pub(super) fn time_not_before(at: Ticks) -> Time {
    let nanos = (at + TICKS_PER_NANO - 1).div_euclid(TICKS_PER_NANO);
    Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// How long `bytes` take at `bps`.
pub(super) fn transmission(bytes: u32, bps: u64) -> Ticks {
    Ticks::from(bytes) * 8 * TICKS_PER_SECOND / Ticks::from(bps)
}

/// The estimator of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Estimator {
    /// Time per byte at the allotted rate.
    pub(super) per_byte: f64,
    /// The largest credit (`maxidle`).
    pub(super) max_idle: Ticks,
    /// The largest debt (`minidle`, positive).
    pub(super) min_idle: Ticks,
    /// What a class that is held back waits in addition (`extradelay`).
    pub(super) extra_delay: Ticks,
    /// When its last packet ended.
    last: Ticks,
    /// From when on it is not above its limit.
    undertime: Ticks,
    avgidle: Ticks,
    /// It was held back and has not yet been found under its limit again.
    delayed: bool,
}

impl Estimator {
    /// Time per byte at `share` of `bps`.
    pub(super) fn per_byte(share: f64, bps: f64) -> f64 {
        8.0 * TICKS_PER_SECOND as f64 / (share * bps)
    }

    /// Under its limit, or at it.
    pub(super) const fn is_allowed(&self, now: Ticks) -> bool {
        self.undertime <= now
    }

    /// Under its limit.
    pub(super) const fn is_under(&self, now: Ticks) -> bool {
        self.undertime < now
    }

    pub(super) const fn undertime(&self) -> Ticks {
        self.undertime
    }

    pub(super) const fn found_allowed(&mut self) {
        self.delayed = false;
    }

    /// When a transmission that begins in the nanosecond of `now` begins for the class: worlds count whole nanoseconds, and
    /// a class that waited for its time must not be charged for what is between.
    pub(super) fn start(&self, now: Ticks) -> Ticks {
        if (0..TICKS_PER_NANO).contains(&(now - self.undertime)) { self.undertime } else { now }
    }

    /// A packet of `bytes` goes from `start` on for `duration` (ns-2 `CBQClass::update`).
    pub(super) fn on_sent(&mut self, bytes: u32, start: Ticks, duration: Ticks) {
        let allotted = libm::round(f64::from(bytes) * self.per_byte) as Ticks;
        let finish = start + duration;
        let idle = finish - self.last - allotted;
        let avgidle = self.avgidle + ((idle - self.avgidle) >> EWMA_SHIFT);
        self.avgidle = avgidle.min(self.max_idle).max(-self.min_idle);
        if self.avgidle <= 0 {
            // finish + duration (1/allot - 1), where the whole link sends as fast as it is shared.
            self.undertime = start + allotted - Self::in_steady_state(self.avgidle);
        }
        self.last = finish;
    }

    /// The class has something to send and may not (ns-2 `CBQClass::delayed`): the debt is paid by this waiting, once.
    pub(super) fn on_held_back(&mut self) {
        if !self.delayed {
            self.undertime += self.extra_delay + Self::in_steady_state(self.avgidle);
            self.delayed = true;
        }
    }

    /// By how much a packet must be early or late for the average to return to zero with it.
    const fn in_steady_state(avgidle: Ticks) -> Ticks {
        avgidle * ((1 << EWMA_SHIFT) - 1)
    }

    /// The link changed its pace at `now`: what lies behind and ahead is stretched by `old / new`, so that every byte sent
    /// or owed stays that byte.
    pub(super) fn stretch(&mut self, now: Ticks, old_bps: u64, new_bps: u64) {
        let stretched = |span: Ticks| span * Ticks::from(old_bps) / Ticks::from(new_bps);
        self.last = now + stretched(self.last - now);
        self.undertime = now + stretched(self.undertime - now);
        self.avgidle = stretched(self.avgidle);
    }

    /// Only the packet in transmission ends earlier or later, for the shares are of another rate.
    pub(super) fn stretch_transmission(&mut self, now: Ticks, old_bps: u64, new_bps: u64) {
        if self.last > now {
            self.last = now + (self.last - now) * Ticks::from(old_bps) / Ticks::from(new_bps);
        }
    }
}

/// `maxidle` as ns-2's `automaxidle` sets it (catalogue, section 14): the credit after which a class of `share` may send
/// `8 * priority` packets back to back, and at least one packet's weight in the average.
pub(super) fn automatic_max_idle(share: f64, priority: u8, packet_bytes: u32, bps: u64) -> Ticks {
    let g = 1.0 - 1.0 / f64::from(1 << EWMA_SHIFT);
    let g_n = libm::pow(g, 8.0 * f64::from(priority));
    let burst = (1.0 / share - 1.0) * (1.0 - g_n) / g_n;
    libm::round(transmission(packet_bytes, bps) as f64 * burst.max(1.0 - g)) as Ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class of 30 % of 10 Mbit/s.
    fn class() -> Estimator {
        let per_byte = Estimator::per_byte(0.3, 1e7);
        Estimator { per_byte, max_idle: TICKS_PER_SECOND, min_idle: Ticks::MAX / 32, ..Estimator::default() }
    }

    #[test]
    fn a_class_that_always_has_something_to_send_gets_its_rate_to_the_nanosecond() {
        let mut class = class();
        let duration = transmission(1000, 10_000_000);
        let mut now = Time::ZERO;
        let mut sent = 0u64;
        while now < Time::from_nanos(100_000_000_000) {
            if class.is_allowed(ticks(now)) {
                class.found_allowed();
                let start = class.start(ticks(now));
                class.on_sent(1000, start, duration);
                sent += 1;
            } else {
                class.on_held_back();
                now = time_not_before(class.undertime());
            }
        }
        // 100 s of 3 Mbit/s are 37,500 packets; the first one goes at once.
        assert_eq!(sent, 37_500);
    }

    #[test]
    fn credit_and_debt_are_bounded() {
        let mut class = Estimator { max_idle: 1000, min_idle: 500, ..class() };
        class.on_sent(1000, TICKS_PER_SECOND * 1000, 1);
        assert_eq!(class.avgidle, 1000);
        for _ in 0..100 {
            class.on_sent(1000, TICKS_PER_SECOND * 1000, 1);
        }
        assert_eq!(class.avgidle, -500);
    }

    #[test]
    fn the_automatic_bound_is_that_of_ns_2() {
        // automaxidle of 1000 bytes at 1.5 Mbit/s, share 0.32, priority 1: n = 8, (1/0.32 - 1)(1 - g^8)/g^8 = 1.4360.
        let seconds = |share, priority| {
            automatic_max_idle(share, priority, 1000, 1_500_000) as f64 / TICKS_PER_SECOND as f64
        };
        let g8 = libm::pow(0.9375, 8.0);
        let expected = 8000.0 / 1.5e6 * (1.0 / 0.32 - 1.0) * (1.0 - g8) / g8;
        assert!((seconds(0.32, 1) - expected).abs() < 1e-9);
        // Of priority 0: one packet's weight.
        assert!((seconds(0.32, 0) - 8000.0 / 1.5e6 / 16.0).abs() < 1e-9);
    }
}
