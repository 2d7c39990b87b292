//! What was sent and not settled yet: which packets came, which are lost, how many bytes are under way.
//!
//! Source: the draft, sections 4.1.1, 4.1.2 and 4.2.1.1.

use alloc::boxed::Box;
use alloc::vec;

use tidegate_units::{Span, Time};

use super::report::Report;

/// Packets that may be unsettled at once; further ones wait.
const UNITS_MAX: u64 = 4096;

/// What is known of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Nothing.
    Unknown,
    /// A higher one came before this instant.
    Missing(Time),
    /// It came, or is lost.
    Settled,
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    bytes: u32,
    sent: Time,
    fate: Fate,
}

/// What a report says that is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// Of the highest packet that came, if it is higher than all before: when it was sent and when it came.
    pub newest: Option<(Time, Time)>,
    /// Packets that came, and those of them with marks.
    pub units: u32,
    /// See `units`.
    pub units_marked: u32,
    /// From the highest packet before to the newest, whether they came or not.
    pub acked_bytes: u64,
    /// Bytes of those with marks.
    pub marked_bytes: u64,
    /// Packets that are given up.
    pub lost: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Flight {
    /// By sequence number modulo [`UNITS_MAX`].
    units: Box<[Unit]>,
    /// The lowest that is not settled, the one above the highest that came, the next to be sent.
    first: u64,
    above: u64,
    next: u64,
    bytes: u64,
    reordering: Span,
}

impl Flight {
    /// Packets that others overtook are waited for so long at first.
    pub fn new(reordering: Span) -> Self {
        let none = Unit { bytes: 0, sent: Time::ZERO, fate: Fate::Settled };
        let units = vec![none; UNITS_MAX as usize].into_boxed_slice();
        Self { units, first: 0, above: 0, next: 0, bytes: 0, reordering }
    }

    /// `bytes_in_flight`: of the packets above the highest that came (section 4.1.1).
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets sent so far.
    pub const fn sent_packets(&self) -> u64 {
        self.next
    }

    /// Whether another packet can be kept in mind.
    pub const fn has_room(&self) -> bool {
        self.next - self.first < UNITS_MAX
    }

    fn unit(&mut self, sequence: u64) -> &mut Unit {
        &mut self.units[(sequence % UNITS_MAX) as usize]
    }

    /// A packet leaves: its number. There is room for it.
    pub fn send(&mut self, bytes: u32, now: Time) -> u64 {
        debug_assert!(self.has_room());
        let sequence = self.next;
        *self.unit(sequence) = Unit { bytes, sent: now, fate: Fate::Unknown };
        self.next += 1;
        self.bytes += u64::from(bytes);
        sequence
    }

    /// A report came. The reordering that it shows counts up to `reordering_max`.
    pub fn on_report(&mut self, report: &Report, reordering_max: Span, now: Time) -> Heard {
        let mut heard = Heard::default();
        let mut highest = None;
        for (sequence, metric) in report.packets() {
            if !metric.is_received() || sequence < self.first || sequence >= self.next {
                continue;
            }
            let unit = self.unit(sequence);
            let (was, bytes, sent) = (unit.fate, unit.bytes, unit.sent);
            unit.fate = Fate::Settled;
            match was {
                Fate::Settled => continue,
                Fate::Missing(since) => {
                    self.reordering = self.reordering.max(now.since(since).min(reordering_max));
                }
                Fate::Unknown => {}
            }
            heard.units += 1;
            if metric.is_marked() {
                heard.units_marked += 1;
                heard.marked_bytes += u64::from(bytes);
            }
            if sequence >= self.above {
                highest = Some(sequence);
                heard.newest = Some((sent, report.made.saturating_sub(metric.before())));
            }
        }
        if let Some(highest) = highest {
            for sequence in self.above..=highest {
                heard.acked_bytes += u64::from(self.unit(sequence).bytes);
            }
            self.bytes -= heard.acked_bytes;
            self.above = highest + 1;
        }
        heard.lost = self.settle(now);
        heard
    }

    /// Gives up what was overtaken for longer than the reordering window (section 4.2.1.1): how many.
    fn settle(&mut self, now: Time) -> u32 {
        let (mut lost, reordering) = (0, self.reordering);
        for sequence in self.first..self.above {
            let unit = self.unit(sequence);
            if unit.fate == Fate::Unknown {
                unit.fate = Fate::Missing(now);
            }
            if let Fate::Missing(since) = unit.fate
                && now.since(since) >= reordering
            {
                unit.fate = Fate::Settled;
                lost += 1;
            }
        }
        while self.first < self.above && self.unit(self.first).fate == Fate::Settled {
            self.first += 1;
        }
        lost
    }

    /// Nothing was heard for too long: all of it is lost.
    pub const fn give_up(&mut self) {
        (self.first, self.above, self.bytes) = (self.next, self.next, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scream::report::Metric;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::Ecn;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Of packets from `begin` on: missing, or with this codepoint.
    fn report(begin: u64, packets: &[Option<Ecn>], made: Time) -> Report {
        let mut metrics = [Metric::MISSING; Report::METRICS_MAX];
        for (metric, packet) in metrics.iter_mut().zip(packets) {
            *metric = packet.map_or(Metric::MISSING, |ecn| Metric::new(Span::ZERO, ecn));
        }
        Report { begin, len: packets.len() as u8, made, metrics }
    }

    const CAME: Option<Ecn> = Some(Ecn::Ect1);
    const MARKED: Option<Ecn> = Some(Ecn::Ce);
    const WINDOW: Span = Span::from_millis(30);

    fn sent(count: u64) -> Flight {
        let mut flight = Flight::new(WINDOW);
        for number in 0..count {
            flight.send(1000 + number as u32, ms(number));
        }
        flight
    }

    #[test]
    fn under_way_is_what_is_above_the_highest_that_came_lost_ones_below_or_not() {
        let mut flight = sent(10);
        assert_eq!(flight.bytes(), 10_045);
        let heard = flight.on_report(&report(0, &[CAME, None, CAME, MARKED], ms(40)), WINDOW, ms(50));
        assert_eq!(flight.bytes(), 10_045 - 1000 - 1001 - 1002 - 1003);
        assert_eq!((heard.units, heard.units_marked, heard.marked_bytes), (3, 1, 1003));
        assert_eq!((heard.acked_bytes, heard.lost, heard.newest), (4006, 0, Some((ms(3), ms(40)))));
    }

    #[test]
    fn a_second_report_about_the_same_says_nothing_new() {
        let mut flight = sent(4);
        let same = report(0, &[CAME, CAME, MARKED], ms(40));
        flight.on_report(&same, WINDOW, ms(50));
        assert_eq!(flight.on_report(&same, WINDOW, ms(60)), Heard::default());
    }

    #[test]
    fn a_packet_that_stays_missing_for_the_reordering_window_is_lost_once() {
        let mut flight = sent(20);
        assert_eq!(flight.on_report(&report(0, &[CAME, None, CAME], ms(40)), WINDOW, ms(50)).lost, 0);
        assert_eq!(flight.on_report(&report(0, &[CAME, None, CAME], ms(60)), WINDOW, ms(79)).lost, 0);
        assert_eq!(flight.on_report(&report(0, &[CAME, None, CAME], ms(60)), WINDOW, ms(80)).lost, 1);
        assert_eq!(
            flight.on_report(&report(0, &[CAME, CAME, CAME], ms(60)), WINDOW, ms(90)),
            Heard::default()
        );
    }

    #[test]
    fn a_packet_that_comes_late_widens_the_reordering_window() {
        let mut flight = Flight::new(Span::ZERO);
        flight.reordering = Span::from_millis(10);
        for number in 0..20 {
            flight.send(1000, ms(number));
        }
        flight.on_report(&report(0, &[CAME, None, CAME], ms(40)), WINDOW, ms(50));
        assert_eq!(flight.on_report(&report(0, &[CAME, CAME], ms(50)), WINDOW, ms(59)).units, 1);
        assert_eq!(flight.reordering, Span::from_millis(10), "it was shorter than the window");
        flight.reordering = WINDOW;
        flight.on_report(&report(3, &[None, CAME], ms(60)), Span::from_secs(1), ms(60));
        flight.on_report(&report(5, &[CAME], ms(80)), Span::from_secs(1), ms(80));
        assert_eq!(flight.on_report(&report(3, &[CAME], ms(89)), Span::from_millis(5), ms(89)).lost, 0);
        assert_eq!(flight.reordering, WINDOW, "no more than is allowed");
    }

    #[test]
    fn what_is_given_up_is_no_longer_under_way_and_its_reports_say_nothing() {
        let mut flight = sent(5);
        flight.give_up();
        assert_eq!(flight.bytes(), 0);
        assert_eq!(flight.on_report(&report(0, &[CAME; 5], ms(900)), WINDOW, ms(900)), Heard::default());
        assert_eq!(flight.send(1000, ms(901)), 5);
        assert_eq!(flight.bytes(), 1000);
    }

    #[test]
    fn no_more_packets_are_kept_in_mind_than_there_is_room_for() {
        let mut flight = sent(UNITS_MAX);
        assert!(!flight.has_room());
        flight.on_report(&report(0, &[CAME], ms(5000)), WINDOW, ms(5000));
        assert!(flight.has_room());
    }

    proptest! {
        #[test]
        fn whatever_is_reported_bytes_under_way_are_those_above_the_highest(
            steps in prop::collection::vec(
                (0u64..40, any::<u8>(), prop::option::of(any::<u64>()), prop::collection::vec(any::<u16>(), 64), any::<u8>(), 0u64..100),
                1..60,
            ),
        ) {
            let (mut flight, mut now, mut acked) = (Flight::new(WINDOW), Time::ZERO, 0);
            for (count, near, far, metrics, len, wait) in steps {
                now += Span::from_millis(wait);
                for _ in 0..count {
                    flight.send(1000, now);
                }
                let begin = far.filter(|_| near == 0).unwrap_or_else(|| flight.next.saturating_sub(u64::from(near)));
                let metrics: Vec<Metric> = metrics.into_iter().map(Metric).collect();
                let report = Report { begin, len, made: now, metrics: metrics.try_into().expect("64 of them") };
                let heard = flight.on_report(&report, WINDOW, now);
                acked += heard.acked_bytes;
                prop_assert_eq!(flight.bytes(), 1000 * flight.next - acked);
                prop_assert_eq!(flight.bytes(), 1000 * (flight.next - flight.above));
                prop_assert!(heard.units_marked <= heard.units);
                prop_assert!(flight.first <= flight.above && flight.above <= flight.next);
            }
        }
    }
}
