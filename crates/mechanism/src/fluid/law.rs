//! What a queue does to a fluid: which part of what arrives it drops, and which it marks.
//!
//! Source: Misra, Gong & Towsley 2000, section 3 (RED's average as a differential equation); Hollot et al. 2001 (PI, which is a law in
//! even steps already); RFC 8289, section 4 (`CoDel`, whose series of drops becomes a rate).
//! Deviations:
//! - RED's gaps between notifications make its mean probability another than `p_b`: `2 p_b / (1 + p_b)` where they are spread over `1` to
//!   `1/p_b`, `2 p_b / 3` where they are spread over `1/p_b` to `2/p_b`. Notifications fall on connections as if drawn for each packet.
//! - `CoDel` notifies `sqrt(count) / interval` times a second, in place of once after each pause of `interval / sqrt(count)`, and what
//!   arrives rather than what leaves: what it says is heard by up to the wait of a packet earlier or later than it would be.
//! - Lengths are of what waits: of unfinished work less half a packet, which the one in transmission has left on average.

use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use crate::queue::{
    CodelConfig, DropTailConfig, GapLaw, ManagerConfig, PiConfig, QueueUnit, RedConfig, Reentry,
    fluid_probability,
};

/// Which part of what arrives is notified.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Notice {
    /// Dropped, whoever it is.
    pub drop: f64,
    /// Marked with ECN; dropped without.
    pub mark: f64,
}

impl Notice {
    /// What is lost of those that understand marks, or do not.
    pub fn lost(self, ecn: bool) -> f64 {
        if ecn { self.drop } else { (self.drop + self.mark).min(1.0) }
    }

    /// What is marked of them.
    pub fn marked(self, ecn: bool) -> f64 {
        if ecn { self.mark.min(1.0 - self.drop) } else { 0.0 }
    }
}

/// What a queue is under.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Unfinished work, in packets.
    pub packets: f64,
    /// What arrives, in packets per second.
    pub arrivals: f64,
    /// What the link sends, in packets per second.
    pub capacity: f64,
}

impl Load {
    /// What waits: the packet in transmission is not part of it, and half of it is left on average.
    fn waiting(self) -> f64 {
        (self.packets - 0.5).max(0.0)
    }
}

/// The law of one queue, with its state.
#[derive(Clone, Debug)]
pub enum FluidLaw {
    /// Nothing but the limit.
    DropTail,
    /// Random early detection.
    Red(FluidRed),
    /// Proportional integral.
    Pi(FluidPi),
    /// Controlled delay.
    Codel(FluidCodel),
}

impl FluidLaw {
    /// The kinds of queues that have one, for messages.
    pub const KINDS: &str = "droptail, red, pi, codel";

    /// That of a queue, with its limit in bytes at a link of `rate` for packets of `packet`; none where there is none.
    pub fn new(config: &ManagerConfig, rate: BitRate, packet: Bytes) -> Option<(Self, f64)> {
        let (law, limit) = match config {
            ManagerConfig::DropTail(DropTailConfig { limit }) => (Self::DropTail, *limit),
            ManagerConfig::Red(red) => (Self::Red(FluidRed::new(red, packet)?), red.limit),
            ManagerConfig::Pi(pi) => (Self::Pi(FluidPi::new(pi, packet)?), pi.limit),
            ManagerConfig::Codel(codel) => (Self::Codel(FluidCodel::new(codel)?), codel.limit),
            _ => return None,
        };
        // What waits is limited, and the packet in transmission is not part of it.
        let bytes = match limit {
            Limit::Packets(packets) => f64::from(packets) * packet.as_f64(),
            Limit::Bytes(bytes) => bytes.as_f64(),
            Limit::Time(span) => rate.as_bytes_per_second_f64() * span.as_secs_f64(),
        };
        Some((law, bytes + packet.as_f64() / 2.0))
    }

    /// Moves on by `step` to `now`, under `load` as it is then.
    pub fn step(&mut self, load: Load, step: Span, now: Time) -> Notice {
        match self {
            Self::DropTail => Notice::default(),
            Self::Red(red) => red.step(load, step),
            Self::Pi(pi) => pi.step(load, now),
            Self::Codel(codel) => codel.step(load, step, now),
        }
    }

    /// An inner variable, with the name that it has where packets are simulated.
    pub fn variable(&self, name: &str) -> Option<f64> {
        match (self, name) {
            (Self::Red(red), "average_queue_packets") => Some(red.average),
            (Self::Red(red), "marking_probability") => Some(red.p_b),
            (Self::Red(red), "max_p") => Some(red.config.max_p),
            (Self::Pi(pi), "marking_probability") => Some(pi.p),
            (Self::Codel(codel), "sojourn_ms") => Some(codel.sojourn_s * 1e3),
            (Self::Codel(codel), "drop_count") => Some(codel.count),
            (Self::Codel(codel), "is_dropping") => Some(f64::from(u8::from(codel.dropping))),
            _ => None,
        }
    }
}

/// RED.
#[derive(Clone, Debug)]
pub struct FluidRed {
    config: RedConfig,
    /// In packets.
    min_th: f64,
    max_th: f64,
    average: f64,
    p_b: f64,
    /// `ln(1 - w)`.
    ln_keep: f64,
    /// Packets, or typical packets' worth of bytes, for each packet of the fluid.
    per_packet: f64,
}

impl FluidRed {
    fn new(config: &RedConfig, packet: Bytes) -> Option<Self> {
        if config.smoothing.is_some() || config.flows_rtt.is_some() || config.slope_rtt.is_some() {
            return None;
        }
        let (min_th, max_th) = config.thresholds()?;
        let per_packet = match config.mode {
            QueueUnit::Packets => 1.0,
            QueueUnit::Bytes => packet.as_f64() / config.mean_packet.as_f64(),
        };
        let ln_keep = libm::log1p(-config.weight);
        Some(Self { config: *config, min_th, max_th, average: 0.0, p_b: 0.0, ln_keep, per_packet })
    }

    /// `dx/dt = ln(1 - w) / delta (x - q)` with delta between arrivals (Misra et al., equation 3), exact for a constant queue.
    fn step(&mut self, load: Load, step: Span) -> Notice {
        // An idle link counts as one on which small packets find nothing.
        let samples = if load.packets > 0.0 { load.arrivals } else { load.capacity.max(load.arrivals) };
        let q = load.waiting() * self.per_packet;
        self.average = q + (self.average - q) * libm::exp(self.ln_keep * samples * step.as_secs_f64());
        let forced_from = if self.config.gentle { 2.0 * self.max_th } else { self.max_th };
        let notice = |p: f64, marks: bool| {
            if marks { Notice { drop: 0.0, mark: p } } else { Notice { drop: p, mark: 0.0 } }
        };
        if self.average < self.min_th {
            self.p_b = 0.0;
            return Notice::default();
        }
        if self.average >= forced_from {
            self.p_b = 1.0;
            return notice(1.0, self.config.ecn && self.config.mark_forced);
        }
        self.p_b = fluid_probability(self.average, self.min_th, self.max_th, self.config.max_p);
        // A packet of another size than the typical one is notified in proportion.
        let p_b = (self.p_b * self.per_packet).min(1.0);
        let p = match self.config.gap {
            GapLaw::Paper => 2.0 * p_b / (1.0 + p_b),
            GapLaw::Wait => p_b / 1.5,
        };
        notice(p, self.config.ecn)
    }
}

/// PI.
#[derive(Clone, Debug)]
pub struct FluidPi {
    config: PiConfig,
    q_ref: f64,
    q_old: f64,
    p: f64,
    next_sample: Time,
    per_packet: f64,
}

impl FluidPi {
    fn new(config: &PiConfig, packet: Bytes) -> Option<Self> {
        let q_ref = match config.q_ref {
            Limit::Packets(packets) => f64::from(packets),
            Limit::Bytes(bytes) => bytes.as_f64() / config.mean_packet.as_f64(),
            Limit::Time(_) => return None,
        };
        let per_packet = match config.mode {
            QueueUnit::Packets => 1.0,
            QueueUnit::Bytes => packet.as_f64() / config.mean_packet.as_f64(),
        };
        let next_sample = Time::ZERO + config.period;
        Some(Self { config: *config, q_ref, q_old: 0.0, p: 0.0, next_sample, per_packet })
    }

    /// `p(kT) = a dq(kT) - b dq((k-1)T) + p((k-1)T)` (Hollot et al., section IV) at each sample that is due.
    fn step(&mut self, load: Load, now: Time) -> Notice {
        let q = load.waiting() * self.per_packet;
        while self.next_sample <= now {
            let (dq, dq_old) = (q - self.q_ref, self.q_old - self.q_ref);
            self.p = (self.config.a * dq - self.config.b * dq_old + self.p).clamp(0.0, 1.0);
            self.q_old = q;
            self.next_sample += self.config.period;
        }
        let p = (self.p * self.per_packet).min(1.0);
        if self.config.ecn { Notice { drop: 0.0, mark: p } } else { Notice { drop: p, mark: 0.0 } }
    }
}

/// `CoDel`.
#[derive(Clone, Debug)]
pub struct FluidCodel {
    target_s: f64,
    interval_s: f64,
    ecn: bool,
    reentry: Reentry,
    sojourn_s: f64,
    /// Since when the wait has been above the target.
    above_since: Option<Time>,
    dropping: bool,
    count: f64,
    lastcount: f64,
    /// When notifying last ended.
    ended: Time,
}

impl FluidCodel {
    fn new(config: &CodelConfig) -> Option<Self> {
        let law = &config.law;
        if law.ce_threshold.is_some() {
            return None;
        }
        Some(Self {
            target_s: law.target.as_secs_f64(),
            interval_s: law.interval.as_secs_f64(),
            ecn: law.ecn,
            reentry: law.reentry,
            sojourn_s: 0.0,
            above_since: None,
            dropping: false,
            count: 0.0,
            lastcount: 0.0,
            ended: Time::ZERO,
        })
    }

    fn step(&mut self, load: Load, step: Span, now: Time) -> Notice {
        self.sojourn_s = load.packets / load.capacity;
        // Section 4.2: below the target, or with no more than one packet, there is no standing queue.
        if self.sojourn_s < self.target_s || load.packets <= 1.0 {
            self.above_since = None;
            if self.dropping {
                self.dropping = false;
                self.ended = now;
            }
            return Notice::default();
        }
        let since = *self.above_since.get_or_insert(now);
        if !self.dropping && now.since(since).as_secs_f64() < self.interval_s {
            return Notice::default();
        }
        if self.dropping {
            // Pauses of interval / sqrt(count), each of which raises the count by one: d count / dt = sqrt(count) / interval.
            self.count += libm::sqrt(self.count) / self.interval_s * step.as_secs_f64();
        } else {
            self.dropping = true;
            // Section 5.5: soon after the last series, the count goes on from the drops that it had.
            let pause_s = now.since(self.ended).as_secs_f64();
            let (again, least, within) = match self.reentry {
                Reentry::LastDrops => (self.count - self.lastcount, 1.0, 16.0),
                Reentry::TwoLess => (self.count - 2.0, 0.0, 8.0),
            };
            let is_soon = pause_s < within * self.interval_s;
            self.count = if again > least && is_soon { again.max(1.0) } else { 1.0 };
            self.lastcount = self.count;
        }
        // So many a second, of whatever arrives.
        let rate = libm::sqrt(self.count) / self.interval_s;
        let p = if load.arrivals > 0.0 { (rate / load.arrivals).min(1.0) } else { 0.0 };
        if self.ecn { Notice { drop: 0.0, mark: p } } else { Notice { drop: p, mark: 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::CodelLawConfig;

    /// Notifications in `seconds` of a queue that stands above its target, and the count that they have come to.
    fn standing(config: &CodelConfig, arrivals: f64, seconds: f64) -> (f64, f64) {
        let mut codel = FluidCodel::new(config).expect("it has a law");
        let step = Span::from_millis(1);
        let (mut now, mut notified) = (Time::ZERO, 0.0);
        while now.as_secs_f64() < seconds {
            now += step;
            let load = Load { packets: 100.0, arrivals, capacity: 1000.0 };
            notified += codel.step(load, step, now).drop * arrivals * step.as_secs_f64();
        }
        (notified, codel.count)
    }

    #[test]
    fn codel_drops_by_its_law_of_pauses_whatever_arrives() {
        // Drop k comes interval / sqrt(k) after the one before it (RFC 8289, section 4.3). A count of real numbers is ahead of that by
        // some 2 % of 600.
        let config = CodelConfig {
            law: CodelLawConfig { ecn: false, ..CodelLawConfig::default() },
            ..CodelConfig::default()
        };
        for arrivals in [500.0, 1000.0, 4000.0] {
            let (notified, count) = standing(&config, arrivals, 5.0);
            let (mut pauses, mut drops) = (0.1, 0.0);
            while pauses < 5.0 {
                drops += 1.0;
                pauses += 0.1 / libm::sqrt(drops);
            }
            assert!((notified / drops - 1.0).abs() < 0.03, "{arrivals}: {notified} of {drops}");
            assert!((count - 1.0 - notified).abs() < 1.0, "{arrivals}: {count} after {notified}");
        }
    }

    #[test]
    fn codel_begins_again_where_its_reentry_says() {
        let begun = |reentry: Reentry, pause_s: f64| {
            let law = CodelLawConfig { reentry, ..CodelLawConfig::default() };
            let mut codel =
                FluidCodel::new(&CodelConfig { law, ..CodelConfig::default() }).expect("it has a law");
            (codel.count, codel.lastcount) = (30.0, 10.0);
            let now = Time::ZERO + Span::from_secs_f64(pause_s);
            codel.above_since = Some(Time::ZERO);
            codel.step(
                Load { packets: 100.0, arrivals: 1000.0, capacity: 1000.0 },
                Span::from_millis(1),
                now,
            );
            codel.count
        };
        let after = [0.5, 1.0, 2.0]
            .map(|pause_s| [Reentry::LastDrops, Reentry::TwoLess].map(|way| begun(way, pause_s)));
        assert_eq!(after, [[20.0, 28.0], [20.0, 1.0], [1.0, 1.0]]);
    }
}
