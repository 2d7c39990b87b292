//! The receiving end: notes what comes, and reports it.
//!
//! Source: the draft, section 5; RFC 8888.

use tidegate_packet::Ecn;
use tidegate_units::{Span, Time};

use super::Data;
use super::config::ScreamConfig;
use super::report::{Metric, Report};

/// A report tells of at least so many packets (the draft, section 6, on feedback that is lost).
const OVERLAP: u64 = 32;
/// What is remembered of packets: no less than a report tells of.
const MEMORY: usize = Report::METRICS_MAX;

/// A packet that came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    sequence: u64,
    at: Time,
    ecn: Ecn,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ScreamReceiver {
    /// By sequence number modulo the length: the newest packets that came.
    arrivals: [Option<Arrival>; MEMORY],
    highest: Option<u64>,
    /// The highest of the last report.
    reported: Option<u64>,
    /// Came since then.
    fresh: u32,
    reported_at: Option<Time>,
    report_at: Option<Time>,
    every: u32,
    interval: Span,
}

impl ScreamReceiver {
    /// Nothing came yet.
    pub const fn new(config: &ScreamConfig) -> Self {
        Self {
            arrivals: [None; MEMORY],
            highest: None,
            reported: None,
            fresh: 0,
            reported_at: None,
            report_at: None,
            every: config.report_packets,
            interval: config.report_interval,
        }
    }

    /// A packet came. A report is due at once if it ends its frame, or if enough came.
    pub fn on_data(&mut self, data: &Data, ecn: Ecn, now: Time) -> Option<Report> {
        let place = &mut self.arrivals[(data.sequence % MEMORY as u64) as usize];
        // A copy says nothing new, and what is older than what is remembered comes too late.
        if place.is_some_and(|known| known.sequence >= data.sequence) {
            return None;
        }
        *place = Some(Arrival { sequence: data.sequence, at: now, ecn });
        self.highest = Some(self.highest.map_or(data.sequence, |highest| highest.max(data.sequence)));
        self.fresh += 1;
        if data.is_last || self.fresh >= self.every {
            return self.report(now);
        }
        let since = self.reported_at.unwrap_or(now);
        self.report_at.get_or_insert(since.saturating_add(self.interval).max(now));
        None
    }

    /// When [`Self::on_timer`] wants to be called.
    pub const fn timer_at(&self) -> Option<Time> {
        self.report_at
    }

    /// The longest time between reports is over.
    pub fn on_timer(&mut self, now: Time) -> Option<Report> {
        if self.report_at.is_some_and(|at| at <= now) { self.report(now) } else { None }
    }

    /// Of what came since the last report, and of [`OVERLAP`] packets at least.
    fn report(&mut self, now: Time) -> Option<Report> {
        let highest = self.highest?;
        let fresh = self.reported.map_or(u64::MAX, |reported| highest.saturating_sub(reported));
        let len = fresh.clamp(OVERLAP, MEMORY as u64).min(highest.saturating_add(1));
        let begin = highest - (len - 1);
        let mut metrics = [Metric::MISSING; Report::METRICS_MAX];
        for (index, metric) in metrics.iter_mut().enumerate().take(len as usize) {
            let sequence = begin + index as u64;
            let arrival = self.arrivals[(sequence % MEMORY as u64) as usize];
            if let Some(arrival) = arrival.filter(|arrival| arrival.sequence == sequence) {
                *metric = Metric::new(now.since(arrival.at), arrival.ecn);
            }
        }
        self.reported = Some(highest);
        self.fresh = 0;
        self.reported_at = Some(now);
        self.report_at = None;
        Some(Report { begin, len: len as u8, made: now, metrics })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn data(sequence: u64, is_last: bool) -> Data {
        Data { sequence, bytes: 1000, is_last, made: Time::ZERO }
    }

    fn build() -> ScreamReceiver {
        ScreamReceiver::new(&ScreamConfig::default())
    }

    #[test]
    fn a_report_is_due_at_the_end_of_a_frame_after_16_packets_and_40_ms_after_the_last_one() {
        let mut receiver = build();
        assert!(receiver.on_data(&data(0, true), Ecn::NotEct, ms(0)).is_some());
        for sequence in 1..16 {
            assert_eq!(receiver.on_data(&data(sequence, false), Ecn::NotEct, ms(sequence)), None);
        }
        assert!(receiver.on_data(&data(16, false), Ecn::NotEct, ms(16)).is_some());
        assert_eq!(receiver.timer_at(), None);
        assert_eq!(receiver.on_data(&data(17, false), Ecn::NotEct, ms(20)), None);
        assert_eq!(receiver.timer_at(), Some(ms(56)));
        assert_eq!(receiver.on_timer(ms(55)), None);
        assert!(receiver.on_timer(ms(56)).is_some());
        // After a silence the packet is reported at once, or as soon as the timer is looked at.
        assert_eq!(receiver.on_data(&data(18, false), Ecn::NotEct, ms(900)), None);
        assert_eq!(receiver.timer_at(), Some(ms(900)));
    }

    #[test]
    fn reports_overlap_and_show_gaps_marks_and_arrivals() {
        let mut receiver = build();
        for sequence in (0..40).filter(|&sequence| sequence != 37) {
            let ecn = if sequence == 38 { Ecn::Ce } else { Ecn::Ect1 };
            receiver.on_data(&data(sequence, sequence % 8 == 6), ecn, ms(10 * sequence));
        }
        let report = receiver.on_data(&data(40, true), Ecn::Ect1, ms(400)).expect("the end of a frame");
        assert_eq!((report.begin, report.len), (9, 32));
        let found: Vec<_> = report.packets().skip(27).collect();
        assert_eq!(found[0], (36, Metric::new(Span::from_millis(40), Ecn::Ect1)));
        assert_eq!(found[1], (37, Metric::MISSING));
        assert_eq!(found[2], (38, Metric::new(Span::from_millis(20), Ecn::Ce)));
        assert_eq!(found[4], (40, Metric::new(Span::ZERO, Ecn::Ect1)));
    }

    #[test]
    fn a_copy_changes_nothing() {
        let mut receiver = build();
        receiver.on_data(&data(0, false), Ecn::Ce, ms(0));
        assert_eq!(receiver.on_data(&data(0, true), Ecn::Ect1, ms(5)), None);
        let report = receiver.on_data(&data(1, true), Ecn::Ect1, ms(10)).expect("the end of a frame");
        assert!(report.metrics[0].is_marked());
        assert!(report.metrics[0].before() > Span::from_millis(8));
    }

    proptest! {
        #[test]
        fn whatever_comes_reports_tell_of_what_came_and_of_no_more_than_they_have_room_for(
            packets in prop::collection::vec((any::<u8>(), prop::option::of(any::<u64>()), any::<bool>(), 0u64..50), 1..300),
        ) {
            let (mut receiver, mut now, mut came) = (build(), Time::ZERO, Vec::new());
            for (near, far, is_last, wait) in packets {
                now += Span::from_millis(wait);
                let sequence = far.filter(|_| near == 0).unwrap_or(u64::from(near));
                came.push(sequence);
                let report = receiver.on_data(&data(sequence, is_last), Ecn::Ect0, now).or_else(|| receiver.on_timer(now));
                let Some(report) = report else { continue };
                prop_assert!((1..=64).contains(&report.len));
                for (told, metric) in report.packets() {
                    prop_assert!(!metric.is_received() || came.contains(&told));
                }
            }
        }
    }
}
