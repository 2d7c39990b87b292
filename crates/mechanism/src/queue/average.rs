//! The average queue of RED and its descendants (ERED, FRED, Adaptive RED): an exponential average over packets that goes
//! on falling while the link is idle, as if small packets had found an empty queue.
//!
//! Source: Floyd & Jacobson, "Random early detection gateways for congestion avoidance", `IEEE/ACM ToN` 1(4), 1993,
//! section III and Fig. 2; ns-2 `red.cc`, `run_estimator`.
//! Deviations: "idle" means that the link is idle. A packet that finds nothing waiting while another is in transmission
//! counts as an ordinary sample of zero (as in ns-2; the paper's queue may include the packet in transmission).

use tidegate_units::{BitRate, Time};

/// What the first packet after an idle time adds to the average.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleLaw {
    /// `avg (1-w)^m` with a real-valued m (Floyd & Jacobson, Fig. 2).
    #[default]
    Paper,
    /// `avg (1-w)^(m+1) + w q` with m rounded down (ns-2).
    Ns,
}

/// See the module. In packets, or in any other unit that the caller measures its queue in.
#[derive(Clone, Debug)]
pub struct AverageQueue {
    avg: f64,
    w: f64,
    /// Since when nothing was sent, if so.
    idle_since: Option<Time>,
    law: IdleLaw,
    /// `ln(1 - w)`.
    ln_keep: f64,
    /// How many typical packets the link could send in a second.
    packets_per_second: f64,
}

impl AverageQueue {
    /// An average with weight `w`, in ]0, 1], that starts at zero on an idle link of `rate`.
    pub fn new(w: f64, law: IdleLaw, packet_bytes: u32, rate: BitRate) -> Self {
        assert!(w > 0.0 && w <= 1.0, "the weight of a sample is in ]0, 1]");
        let packets_per_second = rate.as_bytes_per_second_f64() / f64::from(packet_bytes.max(1));
        let ln_keep = libm::log1p(-w);
        Self { avg: 0.0, w, idle_since: Some(Time::ZERO), law, ln_keep, packets_per_second }
    }

    /// A packet arrives and finds `q`; the new average.
    #[inline]
    pub fn on_arrival(&mut self, q: f64, now: Time) -> f64 {
        if let Some(since) = self.idle_since {
            // Of nothing nothing is forgotten, whatever the law: links of acknowledgments are idle between any two.
            if self.avg == 0.0 && q == 0.0 {
                self.idle_since = Some(now);
                return 0.0;
            }
            self.after_idle(q, now.since(since).as_secs_f64() * self.packets_per_second);
            // It counts as idle time up to now, and goes on unless the packet joins.
            self.idle_since = Some(now);
        } else {
            self.sample(q);
        }
        self.avg
    }

    /// `q` is one more sample; the new average.
    #[inline]
    pub fn sample(&mut self, q: f64) -> f64 {
        self.avg += self.w * (q - self.avg); // Floyd & Jacobson, Fig. 2
        self.avg
    }

    #[inline(never)]
    fn after_idle(&mut self, q: f64, m: f64) {
        match self.law {
            IdleLaw::Paper => self.avg *= kept_after(m, self.ln_keep),
            IdleLaw::Ns => {
                self.avg *= kept_after(libm::floor(m), self.ln_keep);
                self.sample(q);
            }
        }
    }

    /// The packet that arrived joined: the link is not idle any more.
    #[inline]
    pub const fn on_joined(&mut self) {
        self.idle_since = None;
    }

    /// The link is idle.
    pub const fn on_idle(&mut self, now: Time) {
        if self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }

    /// The link has a new rate. An idle time up to now counts as what could have been sent at the rate of before.
    pub fn set_link_rate(&mut self, rate: BitRate, packet_bytes: u32, now: Time) {
        if let Some(since) = self.idle_since {
            if self.avg > 0.0 {
                let m = now.since(since).as_secs_f64() * self.packets_per_second;
                self.avg *= kept_after(m, self.ln_keep);
            }
            self.idle_since = Some(now);
        }
        self.packets_per_second = rate.as_bytes_per_second_f64() / f64::from(packet_bytes.max(1));
    }

    /// The average.
    #[inline]
    pub const fn value(&self) -> f64 {
        self.avg
    }

    /// For tests: an average of `avg`, on a busy link.
    #[cfg(test)]
    pub(super) const fn force(&mut self, avg: f64) {
        self.avg = avg;
        self.idle_since = None;
    }
}

/// `(1 - w)^m` (Floyd & Jacobson, Fig. 2). Once per idle time, not per packet.
fn kept_after(m: f64, ln_keep: f64) -> f64 {
    // w = 1 keeps nothing, and m = 0 everything: -inf * 0 would be NaN.
    if m > 0.0 { libm::exp(m * ln_keep) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Span;

    fn average(w: f64, law: IdleLaw) -> AverageQueue {
        // A 1000-byte packet takes 1 ms.
        let mut average = AverageQueue::new(w, law, 1000, BitRate::from_mbps(8));
        average.on_joined();
        average
    }

    #[test]
    fn after_n_samples_of_a_constant_the_rest_is_one_minus_w_to_the_n() {
        let mut average = average(0.002, IdleLaw::Paper);
        for n in 1..=2000 {
            average.on_arrival(10.0, Time::ZERO);
            let expected = 10.0 * (1.0 - libm::pow(0.998, f64::from(n)));
            assert!((average.value() - expected).abs() < 1e-10);
        }
    }

    #[test]
    fn an_idle_time_of_m_packets_counts_as_m_empty_samples() {
        for (law, nanos, exponent) in [
            (IdleLaw::Paper, 250_500_000, 250.5),
            (IdleLaw::Ns, 250_500_000, 251.0), // 250 and the arriving packet's own sample of zero
        ] {
            let mut average = average(0.002, law);
            average.force(20.0);
            average.on_idle(Time::ZERO);
            average.on_idle(Time::from_nanos(1_000_000));
            average.on_arrival(0.0, Time::from_nanos(nanos));
            assert!((average.value() - 20.0 * libm::pow(0.998, exponent)).abs() < 1e-10);
        }
    }

    #[test]
    fn a_packet_that_is_refused_does_not_end_the_idle_time() {
        let mut average = average(0.002, IdleLaw::Paper);
        average.force(20.0);
        average.on_idle(Time::ZERO);
        for k in 1..=10 {
            average.on_arrival(0.0, Time::ZERO + Span::from_millis(10 * k));
        }
        assert!((average.value() - 20.0 * libm::pow(0.998, 100.0)).abs() < 1e-10);
    }

    #[test]
    fn an_idle_time_counts_at_the_rate_that_the_link_had_during_it() {
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        for law in [IdleLaw::Paper, IdleLaw::Ns] {
            let mut average = average(0.002, law);
            average.force(20.0);
            average.on_idle(ms(0));
            // 100 packets of 1 ms, and then 10 of 10 ms.
            average.set_link_rate(BitRate::from_bps(800_000), 1000, ms(100));
            average.on_arrival(0.0, ms(200));
            let exponent = if law == IdleLaw::Ns { 111.0 } else { 110.0 };
            assert!((average.value() - 20.0 * libm::pow(0.998, exponent)).abs() < 1e-10);
        }
    }

    #[test]
    fn a_weight_of_one_is_the_queue_itself() {
        let mut average = average(1.0, IdleLaw::Ns);
        assert_eq!(average.on_arrival(7.0, Time::ZERO), 7.0);
        average.on_idle(Time::ZERO);
        assert_eq!(average.on_arrival(0.0, Time::ZERO), 0.0);
    }
}
