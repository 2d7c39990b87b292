//! The receiving end: measures, and reports once per round-trip time, at once when a loss is new.
//!
//! Source: RFC 5348, section 6.

use tidegate_packet::Ecn;
use tidegate_units::{Span, Time};

use super::loss::LossHistory;
use super::{Data, Report, TfrcConfig};

/// See the module.
#[derive(Clone, Debug)]
pub struct TfrcReceiver {
    history: LossHistory,
    /// The newest packet of data: its time stamp, and when it came.
    last: Option<(Time, Time)>,
    /// `R_m`, as the sender says.
    rtt: Span,
    /// Since the last report.
    bytes: u64,
    reported: Time,
    /// Between the last two reports: bytes, and how long that was.
    before: (u64, Span),
    /// The largest `X_recv` so far.
    received_max: f64,
    /// The `p` of the last report.
    p: f64,
    report_at: Option<Time>,
    packet_bytes: u32,
}

impl TfrcReceiver {
    /// Nothing came yet.
    pub fn new(config: &TfrcConfig) -> Self {
        Self {
            history: LossHistory::new(config.packet_bytes()),
            last: None,
            rtt: Span::ZERO,
            bytes: 0,
            reported: Time::ZERO,
            before: (0, Span::ZERO),
            received_max: 0.0,
            p: 0.0,
            report_at: None,
            packet_bytes: config.packet_bytes(),
        }
    }

    /// A packet of data came (section 6.1); a report is due at once if it is the first, or if it shows a loss event.
    pub fn on_data(&mut self, data: &Data, ecn: Ecn, now: Time) -> Option<Report> {
        let is_first = self.last.is_none();
        if self.last.is_none_or(|(timestamp, _)| data.timestamp >= timestamp) {
            self.last = Some((data.timestamp, now));
            self.rtt = data.rtt;
        }
        if self.report_at.is_none() && !is_first {
            self.resume(now);
        }
        self.bytes += u64::from(self.packet_bytes);
        self.received_max = self.received_max.max(self.before_rate());
        self.history.on_packet(data.sequence, ecn == Ecn::Ce, self.rtt, self.received_max, now);
        if is_first {
            self.reported = now;
            self.bytes = 0;
            return self.report(0.0, now);
        }
        if self.history.loss_event_rate() > self.p {
            return self.measure(now);
        }
        None
    }

    /// The first packet after a silence. The timer goes on in silence (section 6.2), which is made up for here: the packet falls
    /// into one of its round-trip times, and what came before that does not count.
    fn resume(&mut self, now: Time) {
        let rtt = self.rtt.as_nanos();
        let silent = now.since(self.reported).as_nanos();
        let whole = silent.checked_div(rtt).map_or(0, |times| times * rtt);
        if whole > 0 {
            self.before = (0, Span::from_nanos(whole));
            self.reported = self.reported.saturating_add(Span::from_nanos(whole));
        }
        // Without a round-trip time every packet is reported (section 6.3).
        self.report_at = Some(self.reported.saturating_add(self.rtt).max(now));
    }

    /// When [`Self::on_timer`] wants to be called.
    pub const fn timer_at(&self) -> Option<Time> {
        self.report_at
    }

    /// The feedback timer expired (section 6.2).
    pub fn on_timer(&mut self, now: Time) -> Option<Report> {
        // Without new data there is no report, and the timer waits for some.
        if self.bytes == 0 {
            self.report_at = None;
            return None;
        }
        self.measure(now)
    }

    fn before_rate(&self) -> f64 {
        let (bytes, span) = self.before;
        if span.is_zero() { 0.0 } else { bytes as f64 / span.as_secs_f64() }
    }

    /// `X_recv` over the last round-trip time, and the report that says so.
    fn measure(&mut self, now: Time) -> Option<Report> {
        let elapsed = now.since(self.reported);
        let received = received_rate(self.bytes, elapsed, self.before_rate(), self.rtt);
        // A report may come any time after another one: what came in an instant is no rate to go on with.
        self.before = if elapsed < self.rtt {
            ((received * self.rtt.as_secs_f64()) as u64, self.rtt)
        } else {
            (self.bytes, elapsed)
        };
        self.bytes = 0;
        self.reported = now;
        self.received_max = self.received_max.max(received);
        self.report(received, now)
    }

    fn report(&mut self, received: f64, now: Time) -> Option<Report> {
        let (timestamp, came) = self.last?;
        self.p = self.history.loss_event_rate();
        self.report_at = None;
        if !self.rtt.is_zero() {
            self.report_at = Some(now.saturating_add(self.rtt));
        }
        let loss_interval = if self.p > 0.0 { libm::round(1.0 / self.p) as u32 } else { Report::NO_LOSS };
        Some(Report {
            timestamp,
            delay: now.since(came),
            received: received.min(f64::from(u32::MAX)) as u32,
            loss_interval,
        })
    }

    /// An inner variable by name.
    pub fn variable(&self, name: &str) -> Option<f64> {
        (name == "loss_event_rate").then(|| self.history.loss_event_rate())
    }
}

/// Bytes per second over the last `rtt`: those of the last `elapsed`, and of the time before as many as `before` says.
fn received_rate(bytes: u64, elapsed: Span, before: f64, rtt: Span) -> f64 {
    let (elapsed, rtt) = (elapsed.as_secs_f64(), rtt.as_secs_f64());
    if elapsed >= rtt {
        return if elapsed > 0.0 { bytes as f64 / elapsed } else { 0.0 };
    }
    (bytes as f64 + before * (rtt - elapsed)) / rtt
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RTT: Span = Span::from_millis(100);

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn data(sequence: u64) -> Data {
        Data { sequence, timestamp: ms(10 * sequence), rtt: RTT }
    }

    #[test]
    fn the_first_packet_is_reported_at_once_and_then_one_report_comes_per_round_trip_time() {
        let mut receiver = TfrcReceiver::new(&TfrcConfig::default());
        let first = receiver.on_data(&data(0), Ecn::NotEct, ms(50)).expect("at once");
        assert_eq!((first.received, first.loss_interval, first.delay), (0, Report::NO_LOSS, Span::ZERO));
        let mut reports = 0;
        for sequence in 1..=100 {
            let now = ms(50 + 10 * sequence);
            if receiver.timer_at().is_some_and(|at| at <= now) {
                let report = receiver.on_timer(now).expect("there was data");
                // 1000 bytes every 10 ms.
                assert!((90_000..=110_000).contains(&report.received), "{report:?}");
                reports += 1;
            }
            assert_eq!(receiver.on_data(&data(sequence), Ecn::NotEct, now), None);
        }
        assert_eq!(reports, 10);
    }

    #[test]
    fn a_new_loss_event_is_reported_at_once() {
        let mut receiver = TfrcReceiver::new(&TfrcConfig::default());
        let came = |sequence: u64| ms(50 + 10 * sequence);
        for sequence in (0..53).filter(|&sequence| sequence != 50) {
            receiver.on_data(&data(sequence), Ecn::NotEct, came(sequence));
            receiver.on_timer(came(sequence));
        }
        let report = receiver.on_data(&data(53), Ecn::NotEct, came(53)).expect("packet 50 is lost");
        assert!(report.loss_event_rate() > 0.0);
    }

    #[test]
    fn without_data_there_is_no_report() {
        let mut receiver = TfrcReceiver::new(&TfrcConfig::default());
        receiver.on_data(&data(0), Ecn::NotEct, ms(0));
        assert_eq!(receiver.on_timer(ms(100)), None);
        assert_eq!(receiver.timer_at(), None);
    }

    #[test]
    fn after_a_silence_what_came_counts_over_a_round_trip_time_and_not_over_the_silence() {
        let mut receiver = TfrcReceiver::new(&TfrcConfig::default());
        receiver.on_data(&data(0), Ecn::NotEct, ms(0));
        assert_eq!(receiver.on_timer(ms(100)), None);
        // Ten seconds later four packets come within a round-trip time.
        for sequence in 1..5 {
            let now = ms(10_030 + 10 * sequence);
            assert_eq!(receiver.on_data(&data(sequence), Ecn::NotEct, now), None);
        }
        assert_eq!(receiver.timer_at(), Some(ms(10_100)));
        let report = receiver.on_timer(ms(10_100)).expect("there was data");
        assert_eq!(report.received, 40_000);
    }

    #[test]
    fn before_a_round_trip_time_is_known_each_packet_is_reported() {
        let mut receiver = TfrcReceiver::new(&TfrcConfig::default());
        for sequence in 0..4 {
            let now = ms(50 + 500 * sequence);
            let data = Data { rtt: Span::ZERO, ..data(sequence) };
            if receiver.on_data(&data, Ecn::NotEct, now).is_none() {
                assert_eq!(receiver.timer_at(), Some(now));
                assert!(receiver.on_timer(now).is_some());
            }
        }
    }

    #[test]
    fn a_report_between_times_covers_a_whole_round_trip_time() {
        // 5 packets in 50 ms, and before that 50 kB/s.
        assert_eq!(received_rate(5000, Span::from_millis(50), 50_000.0, RTT), 75_000.0);
        assert_eq!(received_rate(20_000, Span::from_millis(200), 50_000.0, RTT), 100_000.0);
    }

    #[test]
    fn a_report_right_after_another_one_is_not_taken_for_a_rate() {
        let at = |micros: u64| Time::ZERO + Span::from_micros(micros);
        let mut receiver = TfrcReceiver::new(&TfrcConfig { ecn: true, ..TfrcConfig::default() });
        let mut rates = Vec::new();
        // 1000 bytes every 10 ms, just behind the instants of the timer. One packet is lost, one is marked.
        for sequence in 0..45_u64 {
            let now = at(10_000 * sequence + u64::from(sequence > 0));
            while let Some(due) = receiver.timer_at().filter(|due| *due <= now) {
                let Some(report) = receiver.on_timer(due) else { break };
                rates.push(report.received);
            }
            let ecn = if sequence == 38 { Ecn::Ce } else { Ecn::Ect0 };
            if sequence != 27 {
                let data = Data { sequence, timestamp: now, rtt: RTT };
                rates.extend(receiver.on_data(&data, ecn, now).map(|report| report.received));
            }
        }
        let rates: Vec<f64> = rates.into_iter().map(f64::from).collect();
        assert!(rates.len() > 5, "{rates:?}");
        assert!(rates[2..].iter().all(|rate| (80e3..=110e3).contains(rate)), "{rates:?}");
    }
}
