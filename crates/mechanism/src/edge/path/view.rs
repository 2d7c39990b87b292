//! What a sender can tell of a path from its own probes and the reports on them: how fast its packets leave, how long they
//! wait, how much of that is jitter, and what got lost.
//!
//! Source: delays against their least, as in Harrison and Kalyanaraman, section III.B; the rest is ours.
//! Deviations:
//! - Delays are from one clock to another. Only differences count, and what steps between two samples while the round trip does
//!   not is a clock, not a queue.
//! - The least delay is that of the last one or two windows, for routes change; [`super::control`] empties the queue in each, so that a
//!   window has seen the path.
//! - What waits on the way there is no more than what the round trip is above its least. That is of one clock, so that clocks which
//!   drift apart are no queue.
//! - Jitter is judged by second differences: a queue that grows or falls steadily has none.
//! - A packet counts as lost when two reports in a row miss it: what was merely overtaken by a probe comes before the next one.

use alloc::collections::VecDeque;

use tidegate_units::{Span, Time};

use super::proof::Proof;
use super::wire::Report;

/// Samples kept: some round trips.
const HISTORY: usize = 32;
/// The weight of a new second difference.
const JITTER_WEIGHT: f64 = 1.0 / 16.0;
/// A second difference counts as so many deviations at most: one delay that is far out, as where a clock is set, is no jitter.
const OUTLIER: f64 = 4.0;
/// The mean of `|d0 - 2 d1 + d2|` of independent normal samples is so many of their standard deviations (`sqrt(6 * 2 / pi)`).
const SECOND_DIFFERENCE: f64 = 1.954_41;
/// So many round trips in a row that are far below the least are believed: more than are under way at once.
const SHORT_BELIEVED: u32 = 4;
/// An output rate is measured over so many deviations of jitter at least: its error is then an eighth.
const RATE_JITTERS: f64 = 8.0;
/// Jitter of this part of a round trip halves the weight of a new output rate: one over it.
const OUTPUT_JITTERS: f64 = 16.0;
/// A far edge by whose clock nothing waits, while round trips show a queue of so many targets and this part of packets gets lost, is doubted
/// for so long.
const DOUBTED_TARGETS: f64 = 2.0;
const DOUBTED_LOSS: f64 = 0.005;
const DOUBTED_FOR: Span = Span::from_secs(60);
/// The weight of a packet in that part.
const DOUBTED_WEIGHT: f64 = 1.0 / 400.0;

/// A probe, when it left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// By the sender's clock.
    pub at: Time,
    /// Bytes sent before it.
    pub bytes: u64,
    /// Packets sent before it.
    pub packets: u64,
}

/// A probe and the report on it.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Sent,
    /// By the receiver's clock, ns; by the own one, when the report came, where round trips count.
    arrived: u64,
    /// As far as it is believed.
    received_bytes: u64,
    /// Seconds by two clocks.
    delay: f64,
    rtt: f64,
}

/// A delay, smoothed, and its least, which ages.
#[derive(Clone, Debug)]
struct Level {
    /// Seconds.
    now: Option<f64>,
    /// The least of the present window and of the one before.
    least: [f64; 2],
}

impl Level {
    const UNKNOWN: Self = Self { now: None, least: [f64::INFINITY; 2] };

    fn add(&mut self, delay: f64, weight: f64) {
        let now = self.now.map_or(delay, |now| now + weight * (delay - now));
        self.now = Some(now);
        self.least[0] = self.least[0].min(now);
    }

    const fn age(&mut self) {
        self.least = [f64::INFINITY, self.least[0]];
    }

    /// What is now is the least.
    fn accept(&mut self) {
        self.least = [self.now.unwrap_or(f64::INFINITY), f64::INFINITY];
    }

    fn shift(&mut self, by: f64) {
        for seconds in self.least.iter_mut().chain(&mut self.now) {
            *seconds += by;
        }
    }

    fn base(&self) -> f64 {
        self.least[0].min(self.least[1])
    }

    fn excess(&self) -> f64 {
        self.now.map_or(0.0, |now| now - self.base())
    }
}

/// What a report shows. Seconds and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The output rate over about a round trip; none while there is no interval.
    pub output: Option<f64>,
    /// The input rate over the same probes.
    pub input: f64,
    /// How far the delay is above its least.
    pub excess: f64,
    /// The standard deviation of delays from one probe to the next.
    pub jitter: f64,
    /// The round-trip time of this probe.
    pub rtt: f64,
    /// Packets that are now known to be lost, and those sent since the last report.
    pub lost: u64,
    /// See `lost`.
    pub sent: u64,
}

/// Which delay is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// From edge to edge.
    OneWay,
    /// There and back.
    RoundTrip,
}

/// Whether the least delay ages: it does not while others keep the queue from being empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aging {
    /// Its age counts.
    Now,
    /// Its age is what it was.
    Later,
    /// From now on, as if it had just been seen.
    Anew,
}

/// What speaks against a far edge by whose clock packets do not wait: it may say so while its queue is full.
///
/// Who says that more came than has left does not say the truth. And a path that loses packets has a queue, mostly; if there and back take longer, that is where they wait. Where it is the way back that is
/// full, and losses are chance, this is a mistake, whose price is that the way back counts for a while.
#[derive(Clone, Debug, Default)]
struct Doubt {
    /// The part of packets that got lost while it said so, smoothed.
    loss: f64,
    until: Option<Time>,
}

impl Doubt {
    /// So many of the packets `sent` were `lost`; whether the far edge `is_calm` though round trips show a queue.
    fn on_losses(&mut self, lost: u64, sent: u64, is_calm: bool, now: Time) {
        if self.until.is_some_and(|until| now >= until) {
            *self = Self::default();
        }
        if sent > 0 && is_calm {
            let part = (lost as f64 / sent as f64).min(1.0);
            self.loss += (sent as f64 * DOUBTED_WEIGHT).min(1.0) * (part - self.loss);
        }
        if self.loss > DOUBTED_LOSS {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Time) {
        self.until = Some(now + DOUBTED_FOR);
    }

    const fn is_open(&self) -> bool {
        self.until.is_some()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PathView {
    /// Which delays are looked at, and which were asked for: see [`Doubt`].
    delays: Delays,
    asked: Delays,
    doubt: Doubt,
    /// Half of the time in which a least delay is forgotten.
    window: Span,
    samples: VecDeque<Sample>,
    window_began: Time,
    last_report: Time,
    /// There, and there and back; smoothed as far as they jitter.
    one_way: Level,
    round_trip: Level,
    jitter: f64,
    /// So many round trips in a row were too short to be believed.
    short: u32,
    /// Packets that the last report missed, and those that are known to be lost.
    missing: i64,
    lost: i64,
    /// The first counts of this life of the receiver: packets.
    offset: Option<i64>,
    receiver: u64,
    /// Bytes that were sent and are not yet believed to have arrived, nor to be lost; and those believed, in all.
    under_way: f64,
    believed: u64,
    reported_bytes: u64,
    /// By how much the level may jitter for it to be smoothed no more, seconds.
    tolerance: f64,
    /// The output rate, smoothed by as much as jitter disturbs it.
    output: Option<f64>,
}

impl PathView {
    /// Nothing was seen. Delays are smoothed where they jitter by more than a quarter of `tolerance`.
    pub fn new(delays: Delays, base_window: Span, tolerance: Span, now: Time) -> Self {
        Self {
            delays,
            asked: delays,
            doubt: Doubt::default(),
            window: Span::from_nanos(base_window.as_nanos() / 2),
            samples: VecDeque::with_capacity(HISTORY),
            window_began: now,
            last_report: now,
            one_way: Level::UNKNOWN,
            round_trip: Level::UNKNOWN,
            jitter: 0.0,
            short: 0,
            missing: 0,
            lost: 0,
            offset: None,
            receiver: 0,
            under_way: 0.0,
            believed: 0,
            reported_bytes: 0,
            tolerance: tolerance.as_secs_f64(),
            output: None,
        }
    }

    /// The round-trip time, the least of the last few: a clock that steps spoils one.
    pub fn rtt(&self) -> Option<f64> {
        self.samples.iter().rev().take(4).map(|sample| sample.rtt).reduce(f64::min)
    }

    /// The least round-trip time that is remembered.
    pub fn rtt_least(&self) -> f64 {
        self.round_trip.base()
    }

    /// Everything of the receiver is forgotten: it, or its clock, is another one.
    fn forget(&mut self, now: Time) {
        self.samples.clear();
        self.output = None;
        (self.window_began, self.last_report) = (now, now);
        (self.one_way, self.round_trip) = (Level::UNKNOWN, Level::UNKNOWN);
    }

    /// The path itself takes as long as it seems to now; for all that is known.
    pub fn accept_level(&mut self, now: Time) -> Proof {
        let excess = self.excess();
        self.one_way.accept();
        self.round_trip.accept();
        self.window_began = now;
        Proof::new(excess, self.round_trip.base(), now)
    }

    /// A probe that was `sent` is answered by `report` at `now`.
    /// The least delay is `aging`.
    /// By now `sent_packets` have left.
    pub fn on_report(
        &mut self,
        sent: Sent,
        sent_packets: u64,
        report: &Report,
        aging: Aging,
        now: Time,
    ) -> Seen {
        if self.offset.is_none() || self.receiver != report.receiver {
            self.forget(now);
            self.receiver = report.receiver;
            // What was sent before the receiver began to count is not missing.
            self.offset =
                Some(sent.packets.cast_signed().wrapping_sub(report.received_packets.cast_signed()));
            (self.missing, self.lost) = (0, 0);
            (self.under_way, self.reported_bytes) = (0.0, report.received_bytes);
        }
        let rtt = now.since(sent.at).as_secs_f64().max(1e-9);
        let one_way = report.arrived.wrapping_sub(sent.at.as_nanos()).cast_signed() as f64 * 1e-9;
        let delay = if self.delays == Delays::OneWay { one_way } else { rtt };
        if !self.is_believed(rtt) {
            let (input, jitter) = (0.0, self.jitter);
            return Seen { output: None, input, excess: self.excess(), jitter, rtt, lost: 0, sent: 0 };
        }
        self.recognise_step(delay, rtt);
        self.measure_jitter(delay, &sent);
        let weight = (self.tolerance / (4.0 * self.jitter)).clamp(0.125, 1.0);
        if aging == Aging::Anew {
            self.window_began = now;
        } else if aging == Aging::Later {
            self.window_began += now.since(self.last_report);
        } else if now.since(self.window_began) >= self.window {
            self.one_way.age();
            self.round_trip.age();
            self.window_began = now;
        }
        self.last_report = now;
        self.one_way.add(one_way, weight);
        self.round_trip.add(rtt, weight);
        let sent_before = self.samples.back().map_or(sent, |last| last.sent);
        let lost = self.count_losses(sent.packets, report.received_packets);
        self.believe(&sent_before, &sent, report.received_bytes, lost);
        let arrived = if self.delays == Delays::OneWay { report.arrived } else { now.as_nanos() };
        let sample = Sample { sent, arrived, received_bytes: self.believed, delay, rtt };
        if self.samples.len() == HISTORY {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let (input, measured) = self.rates(&sample);
        if let Some(measured) = measured {
            let trust = rtt / (rtt + OUTPUT_JITTERS * self.jitter);
            self.output = Some(self.output.map_or(measured, |before| before + trust * (measured - before)));
        }
        let packets = sent.packets.saturating_sub(sent_before.packets);
        self.doubt(lost, packets, sent_packets, report.received_packets, now);
        Seen {
            output: measured.and(self.output),
            input,
            excess: self.excess(),
            jitter: self.jitter,
            rtt,
            lost,
            sent: packets,
        }
    }

    /// More than was sent cannot have arrived: what of it is not lost may come a little later than the probe that was behind it.
    fn believe(&mut self, before: &Sent, sent: &Sent, reported: u64, lost: u64) {
        let said = reported.saturating_sub(self.reported_bytes);
        self.reported_bytes = reported;
        let packet = sent.bytes as f64 / sent.packets.max(1) as f64;
        self.under_way += (sent.bytes - before.bytes) as f64;
        let arrived = (said as f64).min(self.under_way.max(0.0));
        self.believed += arrived as u64;
        self.under_way = (self.under_way - arrived - lost as f64 * packet).max(0.0);
    }

    /// Whether the far edge's clock is believed from now on.
    fn doubt(&mut self, lost: u64, packets: u64, sent_packets: u64, received_packets: u64, now: Time) {
        let queue = DOUBTED_TARGETS * self.tolerance;
        let is_calm =
            self.round_trip.excess() > queue && self.one_way.excess() < self.round_trip.excess() / 4.0;
        self.doubt.on_losses(lost, packets, is_calm, now);
        // What has not even left cannot have come.
        if self.missing(sent_packets, received_packets) < 0 {
            self.doubt.begin(now);
        }
        let delays = if self.doubt.is_open() { Delays::RoundTrip } else { self.asked };
        if delays != self.delays {
            self.delays = delays;
            self.samples.clear(); // arrivals are by another clock
        }
    }

    fn excess(&self) -> f64 {
        let most = self.round_trip.excess();
        if self.delays == Delays::OneWay { self.one_way.excess().min(most) } else { most }
    }

    /// Whether a round trip may be as short as this one: far below the least only if several are. While a clock that was set back stands
    /// still, those under way seem to take no time.
    fn is_believed(&mut self, rtt: f64) -> bool {
        let least = self.round_trip.base();
        let is_known = least < f64::INFINITY;
        let is_short = is_known && rtt < least - (RATE_JITTERS * self.jitter).max(self.tolerance);
        self.short = if is_short { self.short + 1 } else { 0 };
        if self.short < SHORT_BELIEVED {
            return self.short == 0;
        }
        // The way is that short: what was smoothed until now was another one, or a queue.
        self.short = 0;
        self.round_trip.now = None;
        true
    }

    /// A delay that steps while the round trip does not: a clock was set. Rates over the step mean nothing, either.
    fn recognise_step(&mut self, delay: f64, rtt: f64) {
        let Some(last) = self.samples.back() else { return };
        let stepped = delay - last.delay;
        let least = (RATE_JITTERS * self.jitter).max(self.tolerance).max(last.rtt / 2.0);
        // The own clock, set ahead, spoils round trips under way first; then the way seems shorter than it ever was, and they do not.
        let is_back = delay < self.one_way.base() - least && rtt > self.round_trip.base() - least / 2.0;
        let is_ahead = stepped > least && rtt - last.rtt < stepped / 2.0;
        if self.delays == Delays::OneWay && (is_ahead || is_back) {
            self.samples.clear();
            self.one_way.shift(stepped);
        }
    }

    /// What of the delay's second difference a queue explains that grows by what is sent and shrinks by what leaves is no jitter.
    fn measure_jitter(&mut self, delay: f64, sent: &Sent) {
        let mut last = self.samples.iter().rev();
        if let (Some(one), Some(other)) = (last.next(), last.next()) {
            let second = delay - 2.0 * one.delay + other.delay;
            let grows = |from: &Sent, to: &Sent| {
                let seconds = to.at.since(from.at).as_secs_f64();
                self.output.map_or(0.0, |output| (to.bytes - from.bytes) as f64 / output - seconds)
            };
            let queue = grows(&one.sent, sent) - grows(&other.sent, &one.sent);
            // Chance explains some of it as well; most of it only a queue does.
            let is_queue = (second - queue).abs() < second.abs() / 2.0;
            let unexplained = if is_queue { second - queue } else { second }.abs() / SECOND_DIFFERENCE;
            let most = OUTLIER * self.jitter.max(self.tolerance);
            self.jitter += JITTER_WEIGHT * (unexplained.min(most) - self.jitter);
        }
    }

    /// Input and output rate over a round trip, or as much longer as jitter asks for.
    fn rates(&self, newest: &Sample) -> (f64, Option<f64>) {
        let over = newest.rtt.max(RATE_JITTERS * self.jitter);
        let is_before = |sample: &&Sample| newest.sent.at.since(sample.sent.at).as_secs_f64() >= over;
        let Some(first) = self.samples.iter().rev().find(is_before).or(self.samples.front()) else {
            return (0.0, None);
        };
        let tau = newest.sent.at.since(first.sent.at).as_secs_f64();
        let arrival = newest.arrived.saturating_sub(first.arrived) as f64 * 1e-9;
        if tau <= 0.0 || arrival <= 0.0 {
            return (0.0, None); // no interval yet: the next probe ends a longer one
        }
        let sent = newest.sent.bytes - first.sent.bytes;
        let received = newest.received_bytes - first.received_bytes;
        (sent as f64 / tau, Some(received as f64 / arrival))
    }

    /// So many of the packets `sent` in this life of the receiver are not `received`.
    fn missing(&self, sent: u64, received: u64) -> i64 {
        let offset = self.offset.unwrap_or_default();
        sent.cast_signed().wrapping_sub(received.cast_signed()).wrapping_sub(offset)
    }

    /// Packets that are known to be lost since the last time.
    fn count_losses(&mut self, sent: u64, received: u64) -> u64 {
        let missing = self.missing(sent, received);
        let known = missing.min(self.missing);
        self.missing = missing;
        // Whoever sends reports may say anything.
        let lost = known.saturating_sub(self.lost).max(0);
        self.lost = self.lost.max(known);
        lost.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RATE: f64 = 1e6;
    const WAY: f64 = 0.02;

    /// A path with a probe every 20 ms behind 20 packets of 1000 bytes.
    struct Path {
        view: PathView,
        number: u64,
        /// The receiver's clock is ahead by this, seconds.
        offset: f64,
        lost: u64,
    }

    impl Path {
        fn new(delays: Delays) -> Self {
            let view = PathView::new(delays, Span::from_secs(20), Span::from_millis(5), Time::ZERO);
            Self { view, number: 0, offset: 3.0, lost: 0 }
        }

        /// The next probe takes `waits` seconds more than the way: when it leaves, and the report on it.
        fn next(&mut self, waits: f64) -> (Time, Report) {
            self.number += 1;
            let at = Time::ZERO + Span::from_millis(20 * self.number + 1000);
            let packets = 20 * self.number;
            let arrived = at.as_secs_f64() + WAY + waits + self.offset;
            let report = Report {
                incarnation: 0,
                sequence: self.number as u32,
                nonce: at.as_nanos(),
                receiver: 1,
                arrived: (arrived * 1e9) as u64,
                received_bytes: 1000 * (packets - self.lost),
                received_packets: packets - self.lost,
            };
            (at, report)
        }

        fn probe(&mut self, waits: f64) -> Seen {
            let (at, report) = self.next(waits);
            let sent = Sent { at, bytes: 1000 * 20 * self.number, packets: 20 * self.number };
            self.view.on_report(
                sent,
                sent.packets + 20,
                &report,
                Aging::Now,
                at + Span::from_secs_f64(2.0 * WAY + waits),
            )
        }
    }

    #[test]
    fn a_steady_path_has_its_rate_no_excess_and_no_jitter() {
        for delays in [Delays::OneWay, Delays::RoundTrip] {
            let mut path = Path::new(delays);
            let seen = (0..50).map(|_| path.probe(0.0)).last().expect("there were some");
            assert!((seen.output.expect("it was measured") / RATE - 1.0).abs() < 1e-6);
            assert!(seen.excess < 1e-6 && seen.jitter < 1e-6 && (seen.rtt - 2.0 * WAY).abs() < 1e-9);
        }
    }

    #[test]
    fn what_waits_is_excess_and_a_queue_that_grows_steadily_is_no_jitter() {
        let mut path = Path::new(Delays::OneWay);
        let waits = |step: i32| f64::from(step) * 0.002;
        let seen: Vec<Seen> = (0..30).map(|step| path.probe(waits(step))).collect();
        let last = seen.last().expect("there were some");
        assert!((last.excess - waits(29)).abs() < 1e-6 && last.jitter < 1e-6, "{last:?}");
        // It leaves 20 packets in 22 ms.
        assert!((last.output.expect("it was measured") / (RATE / 1.1) - 1.0).abs() < 0.01, "{last:?}");
    }

    #[test]
    fn jitter_is_the_deviation_of_independent_delays() {
        let mut path = Path::new(Delays::OneWay);
        let mut random = crate::random::Substream::new(crate::random::Seed(7));
        let seen = (0..4000).map(|_| path.probe(0.01 * random.uniform())).last().expect("there were some");
        // Uniform on 10 ms: 2.9 ms.
        assert!((0.0015..0.0045).contains(&seen.jitter), "{seen:?}");
    }

    #[test]
    fn a_clock_that_is_set_is_no_queue() {
        for step in [-1.0, 1.0] {
            let mut path = Path::new(Delays::OneWay);
            for _ in 0..50 {
                path.probe(0.001);
            }
            path.offset += step;
            for _ in 0..50 {
                let seen = path.probe(0.001);
                assert!(seen.excess < 0.002, "{step}: {seen:?}");
                assert!(
                    seen.output.is_none_or(|output| (output / RATE - 1.0).abs() < 0.01),
                    "{step}: {seen:?}"
                );
            }
        }
    }

    #[test]
    fn the_own_clock_set_ahead_while_a_probe_is_under_way_is_no_queue() {
        let mut path = Path::new(Delays::OneWay);
        for _ in 0..50 {
            path.probe(0.001);
        }
        // The probe under way left by the old clock, and is answered by the new one.
        let (at, report) = path.next(0.001);
        let sent = Sent { at, bytes: 1000 * 20 * path.number, packets: 20 * path.number };
        let answered = at + Span::from_secs_f64(2.0 * WAY + 0.001 + 1.0);
        assert!(path.view.on_report(sent, sent.packets + 20, &report, Aging::Now, answered).excess < 0.002);
        path.offset -= 1.0;
        for _ in 0..50 {
            let seen = path.probe(0.001);
            assert!(seen.excess < 0.002 && seen.jitter < 0.005, "{seen:?}");
        }
        let seen = path.probe(0.031);
        assert!(seen.excess > 0.01, "a queue is seen as before: {seen:?}");
    }

    #[test]
    fn while_the_own_clock_stands_still_round_trips_are_not_believed() {
        for delays in [Delays::OneWay, Delays::RoundTrip] {
            let mut path = Path::new(delays);
            for _ in 0..50 {
                path.probe(0.001);
            }
            let least = path.view.rtt_least();
            for elapsed in [0.02, 0.01, 0.0] {
                let (at, report) = path.next(0.001);
                let sent = Sent { at, bytes: 1000 * 20 * path.number, packets: 20 * path.number };
                let seen = path.view.on_report(
                    sent,
                    sent.packets + 20,
                    &report,
                    Aging::Now,
                    at + Span::from_secs_f64(elapsed),
                );
                assert_eq!(seen.output, None, "{delays:?}");
            }
            assert_eq!(path.view.rtt_least(), least, "{delays:?}");
            assert!(path.probe(0.001).excess < 0.002, "{delays:?}");
        }
    }

    #[test]
    fn a_way_that_became_shorter_is_believed_after_some_round_trips() {
        let mut path = Path::new(Delays::RoundTrip);
        // So much jitter that delays are smoothed.
        for step in 0..400 {
            path.probe(if step % 2 == 0 { 0.4 } else { 0.396 });
        }
        for _ in 1..SHORT_BELIEVED {
            path.probe(0.0);
            assert!(path.view.rtt_least() > 0.3);
        }
        path.probe(0.0);
        assert!((path.view.rtt_least() - 2.0 * WAY).abs() < 1e-6, "{}", path.view.rtt_least());
    }

    #[test]
    fn a_queue_that_swings_with_what_is_sent_is_no_jitter() {
        // Probes every 40 ms; in between 20 packets or 60 of a path that gives a packet per ms, in turns.
        let mut view = PathView::new(Delays::OneWay, Span::from_secs(20), Span::from_millis(5), Time::ZERO);
        let (mut packets, mut queue, mut jitter) = (0_u64, 0.1_f64, 0.0);
        for step in 0..400_u64 {
            let at = Time::ZERO + Span::from_millis(1000 + 40 * step);
            let arrived = at + Span::from_secs_f64(WAY + queue);
            let report = Report {
                incarnation: 0,
                sequence: step as u32,
                nonce: at.as_nanos(),
                receiver: 1,
                arrived: arrived.as_nanos(),
                received_bytes: 1000 * packets,
                received_packets: packets,
            };
            let sent = Sent { at, bytes: 1000 * packets, packets };
            jitter = view
                .on_report(sent, sent.packets + 20, &report, Aging::Now, arrived + Span::from_secs_f64(WAY))
                .jitter;
            let more = if step % 2 == 0 { 20 } else { 60 };
            packets += more;
            queue += more as f64 * 1e-3 - 0.04;
        }
        // Second differences are 40 ms.
        assert!(jitter < 0.004, "{jitter}");
    }

    #[test]
    fn clocks_that_drift_apart_are_no_queue() {
        for ppm in [-1000.0, 1000.0] {
            let mut path = Path::new(Delays::OneWay);
            for _ in 0..5000 {
                path.offset += 0.02 * ppm * 1e-6;
                let seen = path.probe(0.0);
                assert!(seen.excess < 1e-4, "{ppm}: {seen:?}");
            }
        }
    }

    #[test]
    fn a_loss_counts_once_two_reports_miss_it_and_what_was_overtaken_never() {
        let mut path = Path::new(Delays::OneWay);
        for _ in 0..10 {
            path.probe(0.0);
        }
        path.lost = 3; // overtaken by the probe, and there by the next one
        assert_eq!(path.probe(0.0).lost, 0);
        path.lost = 0;
        assert_eq!(path.probe(0.0).lost, 0);
        path.lost = 2;
        assert_eq!([path.probe(0.0).lost, path.probe(0.0).lost, path.probe(0.0).lost], [0, 2, 0]);
    }

    #[test]
    fn more_than_was_sent_is_not_believed() {
        let mut path = Path::new(Delays::OneWay);
        let mut greatest = 0.0_f64;
        for _ in 0..40 {
            path.number += 1;
            let at = Time::ZERO + Span::from_millis(20 * path.number);
            let sent = Sent { at, bytes: 20_000 * path.number, packets: 20 * path.number };
            let report = Report {
                incarnation: 0,
                sequence: 0,
                nonce: 0,
                receiver: 1,
                arrived: at.as_nanos() + 20_000_000,
                received_bytes: 900_000 * path.number,
                received_packets: 20 * path.number,
            };
            let seen =
                path.view.on_report(sent, sent.packets + 20, &report, Aging::Now, at + Span::from_millis(40));
            greatest = greatest.max(seen.output.unwrap_or_default());
        }
        assert!((greatest / RATE - 1.0).abs() < 1e-9, "{greatest}");
    }

    #[test]
    fn what_was_overtaken_is_believed_a_little_later() {
        let mut path = Path::new(Delays::OneWay);
        for _ in 0..20 {
            path.probe(0.0);
        }
        path.lost = 3;
        path.probe(0.0);
        path.lost = 0;
        let seen = (0..20).map(|_| path.probe(0.0)).last().expect("there were some");
        assert!((seen.output.expect("it was measured") / RATE - 1.0).abs() < 1e-6, "{seen:?}");
    }

    /// The far edge says that all take the same time, while round trips grow by 40 ms, and a packet of 20 gets lost.

    #[test]
    fn a_far_edge_that_hides_a_queue_is_doubted_once_packets_get_lost() {
        let mut path = Path::new(Delays::OneWay);
        let mut probe = |waits: f64, lost: u64| {
            let (at, mut report) = {
                path.lost += lost;
                path.next(waits)
            };
            report.arrived = at.as_nanos();
            let sent = Sent { at, bytes: 20_000 * path.number, packets: 20 * path.number };
            path.view.on_report(
                sent,
                sent.packets + 20,
                &report,
                Aging::Now,
                at + Span::from_secs_f64(2.0 * WAY + waits),
            )
        };
        for _ in 0..20 {
            probe(0.0, 0);
        }
        assert!((0..40).all(|_| probe(0.04, 0).excess < 1e-9));
        let last = (0..20).map(|_| probe(0.04, 1)).last().expect("there were some");
        assert!((last.excess - 0.04).abs() < 1e-6, "{last:?}");
    }

    /// It says that packets came that have not left, and that none waits.
    #[test]
    fn a_far_edge_that_says_that_more_came_than_left_is_doubted() {
        let mut path = Path::new(Delays::OneWay);
        let mut excess = 0.0;
        for step in 0..40_u32 {
            let waits = if step < 20 { 0.0 } else { 0.04 };
            let (at, mut report) = path.next(waits);
            report.arrived = at.as_nanos();
            report.received_packets *= 2;
            let sent = Sent { at, bytes: 20_000 * path.number, packets: 20 * path.number };
            let answered = at + Span::from_secs_f64(2.0 * WAY + waits);
            excess = path.view.on_report(sent, sent.packets + 20, &report, Aging::Now, answered).excess;
        }
        assert!((excess - 0.04).abs() < 1e-6, "{excess}");
    }

    /// What reports say of packets that were received, which may be anything: 20 are sent before each, every 20 ms.
    fn reported(counts: &[u64]) -> Vec<u64> {
        let mut view = PathView::new(Delays::OneWay, Span::from_secs(20), Span::from_millis(5), Time::ZERO);
        let mut lost = Vec::new();
        for (number, &received_packets) in (1..).zip(counts) {
            let at = Time::ZERO + Span::from_millis(20 * number + 1000);
            let report = Report {
                incarnation: 0,
                sequence: number as u32,
                nonce: at.as_nanos(),
                receiver: 1,
                arrived: at.as_nanos() + 20_000_000,
                received_bytes: 20_000 * number,
                received_packets,
            };
            let sent = Sent { at, bytes: 20_000 * number, packets: 20 * number };
            let seen =
                view.on_report(sent, sent.packets + 20, &report, Aging::Now, at + Span::from_millis(40));
            lost.push(seen.lost);
        }
        lost
    }

    #[test]
    fn a_forged_count_of_packets_loses_no_more_than_a_number_can_say() {
        assert_eq!(reported(&[20, 39, 59, 78]), [0, 0, 1, 0]);
        let forged = reported(&[20, 39, 59, 80_u64.wrapping_add(1 << 63), 100, 120]);
        assert_eq!(forged[..4], [0, 0, 1, 0], "{forged:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_counts_are_heard(counts in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..8)) {
            reported(&counts);
        }
    }
}
