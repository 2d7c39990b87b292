//! What the receiver reports: for each of a run of packets whether it came, when, and with which mark.
//!
//! Source: RFC 8888, section 3.1.

use tidegate_packet::Ecn;
use tidegate_units::{Span, Time};

/// Units of an arrival time in a second.
const TICKS: u64 = 1024;
/// The bit that says that a packet came.
const RECEIVED: u16 = 1 << 15;
const ECN_SHIFT: u32 = 13;
const OFFSET: u16 = (1 << ECN_SHIFT) - 1;
/// The largest offset; later ones count as this.
const OFFSET_MAX: u16 = 0x1ffd;

/// The metric block of one packet: 1 bit whether it came, 2 of ECN, 13 how long before the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metric(pub u16);

impl Metric {
    /// It did not come.
    pub const MISSING: Self = Self(0);

    /// It came so long before the report, with this codepoint.
    pub fn new(before: Span, ecn: Ecn) -> Self {
        let ticks = u128::from(before.as_nanos()) * u128::from(TICKS) / 1_000_000_000;
        let offset = u16::try_from(ticks).unwrap_or(u16::MAX).min(OFFSET_MAX);
        let bits = match ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        Self(RECEIVED | bits << ECN_SHIFT | offset)
    }

    /// Whether it came.
    pub const fn is_received(self) -> bool {
        self.0 & RECEIVED > 0
    }

    /// Whether it came with a mark.
    pub const fn is_marked(self) -> bool {
        self.is_received() && self.0 >> ECN_SHIFT & 3 == 3
    }

    /// How long before the report it came.
    pub fn before(self) -> Span {
        Span::from_nanos(u64::from(self.0 & OFFSET) * 1_000_000_000 / TICKS)
    }
}

/// What one report says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The first packet that it tells of.
    pub begin: u64,
    /// Of how many it tells; no more than [`Report::METRICS_MAX`] count.
    pub len: u8,
    /// When it was made, on the receiver's clock.
    pub made: Time,
    /// One for each packet.
    pub metrics: [Metric; Self::METRICS_MAX],
}

impl Report {
    /// Of no more packets does a report tell.
    pub const METRICS_MAX: usize = 64;

    /// The packets with what it says of them.
    pub fn packets(&self) -> impl Iterator<Item = (u64, Metric)> + '_ {
        let metrics = self.metrics.iter().copied().take(usize::from(self.len));
        metrics.enumerate().map(|(index, metric)| (self.begin.saturating_add(index as u64), metric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_says_when_and_with_which_mark_a_packet_came() {
        let metric = Metric::new(Span::from_millis(500), Ecn::Ce);
        assert_eq!(metric.0, 0b1110_0010_0000_0000);
        assert!(metric.is_marked());
        assert_eq!(metric.before(), Span::from_millis(500));
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            assert!(!Metric::new(Span::ZERO, ecn).is_marked());
        }
        assert!(!Metric::MISSING.is_received());
        assert!(!Metric(0x7fff).is_marked(), "what did not come has no mark");
    }

    #[test]
    fn an_arrival_is_exact_to_a_1024th_of_a_second_and_bounded() {
        let before = Metric::new(Span::from_micros(2_900), Ecn::NotEct).before();
        assert!(before <= Span::from_micros(2_900) && before > Span::from_micros(1_900));
        assert_eq!(Metric::new(Span::MAX, Ecn::NotEct).0, RECEIVED | OFFSET_MAX);
    }
}
