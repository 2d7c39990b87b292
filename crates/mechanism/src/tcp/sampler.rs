//! What each acknowledgment says of the path: how much arrived, was lost, was marked, and how fast it came. A control that models
//! the path, or counts marks, needs this from every acknowledgment and in recovery too. Nothing here exists for others.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-00, section 3 (variable names); RFC 9768, section 3.2 (bytes with marks).
//! Deviations: a record belongs to the place of its segment in the sequence space, one for each segment of the receive window;
//! where segments are short, the later of two in one place has the record. What SACK blocks newly report is looked for at both
//! ends of each block: a hole that is filled inside of one gives its record when the cumulative acknowledgment passes. A sample
//! below the least round trip is not thrown away (section 3.3): there is no reneging here to make one.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::{Span, Time};

use super::config::TcpConfig;
use super::congestion::{RateSample, Sample, Sampling};
use super::connection::{AckEvent, Connection};
use super::ranges::{Range, RangeSet};

/// A segment that was sent (section 3.1.2).
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    sequence: u64,
    delivered: u64,
    delivered_time: Time,
    first_sent_time: Time,
    sent_time: Time,
    /// `P.tx_in_flight` of BBR: what was under way when it was sent, itself included.
    in_flight: u64,
    /// `P.lost` of BBR: what had been lost by then.
    lost: u64,
    is_app_limited: bool,
    is_retransmission: bool,
    /// Not yet known to have arrived.
    is_outstanding: bool,
}

/// A segment that goes out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub sequence: u64,
    /// Under way with it.
    pub in_flight_bytes: u64,
    /// Of all that were sent before, as far as is known.
    pub lost_bytes: u64,
    pub is_retransmission: bool,
}

/// The state before an acknowledgment is taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub una: u64,
    pub flight_bytes: u64,
    pub in_flight_bytes: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    /// `C.delivered`.
    delivered: u64,
    /// `C.delivered_time`.
    delivered_time: Time,
    /// `C.first_sent_time`.
    first_sent_time: Time,
    /// `C.app_limited`; zero: not.
    app_limited: u64,
    /// Bytes lost, of which the control knows.
    lost: u64,
    /// The acknowledgment that is being taken in opens the window.
    pub opens_window: bool,
    segment_bytes: u64,
    /// What was reported as held before a time-out forgot it, and since: what of it is sent again has arrived already, and what is not in
    /// it has not. Empty but behind a time-out.
    counted: RangeSet,
    /// How many places for records there may be: one for each segment of the receive window. Zero where no rates are asked for.
    places_max: usize,
    /// The last segment that was sent, as [`number`](Self::number) counts them. None of those before was left out.
    newest: u64,
    /// Grows with what is under way, for windows are far larger than that, and connections may be many: a place is taken again when
    /// what it says is known, so that there are at most twice as many as segments were under way at once. What is found in them is
    /// what all places would have.
    records: Vec<Record>,
}

/// Places to begin with.
const PLACES_MIN: usize = 16;

impl Sampler {
    /// For a control that asks for it.
    pub fn new(sampling: Sampling, tcp: &TcpConfig) -> Option<Box<Self>> {
        // Two more: the window may begin and end within a segment.
        let segments = tcp.receive_window_bytes / tcp.segment_bytes + 2;
        let places_max = if sampling == Sampling::Rates { segments as usize } else { 0 };
        (sampling != Sampling::OpeningAcks).then(|| {
            Box::new(Self {
                delivered: 0,
                delivered_time: Time::ZERO,
                first_sent_time: Time::ZERO,
                app_limited: 0,
                lost: 0,
                opens_window: false,
                segment_bytes: u64::from(tcp.segment_bytes),
                counted: RangeSet::new(tcp.ranges_max()),
                places_max,
                newest: 0,
                records: vec![Record::default(); places_max.min(PLACES_MIN)],
            })
        })
    }

    fn place(&self, sequence: u64) -> usize {
        (self.number(sequence) % self.records.len() as u64) as usize
    }

    /// Which segment of the sequence space begins at `sequence`, or around it.
    const fn number(&self, sequence: u64) -> u64 {
        sequence / self.segment_bytes
    }

    /// The place for the record of what is sent at `sequence`: there is none in it that is still to be looked for.
    fn place_for(&mut self, sequence: u64) -> usize {
        loop {
            let place = self.place(sequence);
            let there = &self.records[place];
            let is_taken = there.is_outstanding
                && self.records.len() < self.places_max
                && self.number(there.sequence) != self.number(sequence)
                && self.is_kept(self.number(there.sequence));
            if !is_taken {
                return place;
            }
            self.grow();
        }
    }

    /// Whether there would be the record of the segment `number` if there were all places: the one so many segments later has
    /// not been sent.
    const fn is_kept(&self, number: u64) -> bool {
        number + self.places_max as u64 > self.newest
    }

    /// Twice as many places, or all.
    #[cold]
    fn grow(&mut self) {
        let places = (2 * self.records.len()).min(self.places_max);
        let before = core::mem::replace(&mut self.records, vec![Record::default(); places]);
        for record in before {
            if record.is_outstanding && self.is_kept(self.number(record.sequence)) {
                let place = self.place(record.sequence);
                self.records[place] = record;
            }
        }
    }

    /// Section 3.2: `SendPacket`.
    pub fn on_send(&mut self, sent: Sent, nothing_outstanding: bool, now: Time) {
        if self.places_max == 0 {
            return;
        }
        if nothing_outstanding {
            self.first_sent_time = now;
            self.delivered_time = now;
        }
        self.newest = self.newest.max(self.number(sent.sequence));
        let place = self.place_for(sent.sequence);
        self.records[place] = Record {
            sequence: sent.sequence,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
            sent_time: now,
            in_flight: sent.in_flight_bytes,
            lost: sent.lost_bytes,
            is_app_limited: self.app_limited != 0,
            is_retransmission: sent.is_retransmission,
            is_outstanding: true,
        };
    }

    /// The application has nothing more to send although the window has room (section 3.4).
    pub fn on_app_limited(&mut self, in_flight_bytes: u64) {
        self.app_limited = (self.delivered + in_flight_bytes).max(1);
    }

    /// The application has given less than the window would take (`C.app_limited`).
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Section 3.3: `GenerateRateSample`. `in_flight_bytes` and `held_bytes`, which the receiver has beyond what it acknowledged,
    /// are those after the acknowledgment.
    pub fn sample(
        &mut self,
        c: &Connection,
        ack: &AckEvent<'_>,
        before: Before,
        (in_flight_bytes, held_bytes, marked_bytes): (u64, u64, u64),
        now: Time,
    ) -> Sample {
        let is_behind_timeout = !self.counted.is_empty();
        let held_bytes = if is_behind_timeout { self.count(c, ack).max(held_bytes) } else { held_bytes };
        // Never less than before: without SACK a time-out forgets what was held.
        let delivered = (c.una + held_bytes).min(c.max).max(self.delivered);
        let delivered_bytes = delivered - self.delivered;
        self.delivered = delivered;
        if delivered_bytes > 0 {
            self.delivered_time = now;
        }
        let newest = if self.places_max == 0 { None } else { self.newest_delivered(c, ack, before.una) };
        // What had arrived before it was sent again says nothing of the path (section 3.3: no `P` is newly delivered).
        let newest = newest.filter(|_| delivered_bytes > 0 || !is_behind_timeout);
        if let Some(newest) = newest {
            self.first_sent_time = newest.sent_time;
        }
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let lost_bytes = c.lost_bytes - self.lost;
        self.lost = c.lost_bytes;
        Sample {
            opens_window: core::mem::take(&mut self.opens_window),
            is_in_recovery: c.is_repairing(),
            delivered_bytes,
            delivered_total_bytes: self.delivered,
            lost_bytes,
            marked_bytes,
            in_flight_before_bytes: before.in_flight_bytes,
            in_flight_bytes,
            sent_until: c.nxt,
            rtt: newest.filter(|newest| !newest.is_retransmission).map(|newest| now.since(newest.sent_time)),
            rate: newest.and_then(|newest| self.rate(&newest, now)),
        }
    }

    /// A time-out forgets that these are held.
    #[cold]
    pub fn keep_count_of(&mut self, held: &[Range]) {
        for range in held {
            self.counted.insert(range.start, range.end);
        }
    }

    /// Behind a time-out: bytes that the receiver holds beyond what it acknowledged.
    #[cold]
    fn count(&mut self, c: &Connection, ack: &AckEvent<'_>) -> u64 {
        for block in ack.sack.as_slice() {
            let start = ack.number + u64::from(block.offset);
            let end = start + u64::from(block.length);
            if end <= c.max {
                self.counted.insert(start, end);
            }
        }
        self.counted.remove_below(c.una);
        self.counted.covered_bytes()
    }

    fn rate(&self, newest: &Record, now: Time) -> Option<RateSample> {
        let send_elapsed = newest.sent_time.since(newest.first_sent_time);
        let ack_elapsed = now.since(newest.delivered_time);
        let interval = send_elapsed.max(ack_elapsed);
        (interval > Span::ZERO).then(|| RateSample {
            delivered_bytes: self.delivered - newest.delivered,
            interval,
            prior_delivered_bytes: newest.delivered,
            sent_at: newest.sent_time,
            sent_in_flight_bytes: newest.in_flight,
            lost_bytes: self.lost.saturating_sub(newest.lost),
            is_app_limited: newest.is_app_limited,
        })
    }

    /// `UpdateRateSample` for all that the acknowledgment newly reports: the record of the segment that was sent last, with the
    /// most delivered before it.
    fn newest_delivered(&mut self, c: &Connection, ack: &AckEvent<'_>, una_before: u64) -> Option<Record> {
        let mut newest = None;
        let segment = self.segment_bytes;
        let mut sequence = una_before;
        while sequence < c.una {
            self.take(sequence, &mut newest);
            sequence += segment;
        }
        for block in ack.sack.as_slice() {
            let start = ack.number + u64::from(block.offset);
            let end = start + u64::from(block.length);
            if end > c.max {
                continue;
            }
            let mut upwards = start;
            while upwards < end && self.take(upwards, &mut newest) {
                upwards += segment;
            }
            let mut downwards = end;
            while downwards > upwards && self.take(downwards - 1, &mut newest) {
                downwards = downwards.saturating_sub(segment);
            }
        }
        newest
    }

    /// Takes the segment around `position`; whether its arrival is news.
    fn take(&mut self, position: u64, newest: &mut Option<Record>) -> bool {
        let segment = self.segment_bytes;
        let place = self.place(position);
        let is_kept = self.is_kept(self.number(position));
        let record = &mut self.records[place];
        let is_news = record.is_outstanding && record.sequence.abs_diff(position) < segment && is_kept;
        if is_news {
            record.is_outstanding = false;
            let key = |of: &Record| (of.delivered, of.sent_time);
            if newest.is_none_or(|newest| key(record) >= key(&newest)) {
                *newest = Some(*record);
            }
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use crate::tcp::congestion::{BbrConfig, CongestionControlConfig};
    use alloc::format;
    use tidegate_packet::{SackBlock, SackBlocks};

    const SEGMENT: u64 = 1000;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A connection that has sent `segments`, one each millisecond from zero on.
    fn with_sent(segments: u64) -> (Connection, Sampler) {
        let tcp = TcpConfig {
            segment_bytes: 1000,
            control: CongestionControlConfig::Bbr(BbrConfig::default()),
            ..TcpConfig::modern(Variant::Sack)
        };
        let mut c = Connection::new(&tcp);
        c.limit = u64::MAX;
        let mut sampler = *Sampler::new(Sampling::Rates, &tcp).expect("asked for");
        for number in 0..segments {
            sampler.on_send(sent(number * SEGMENT, false), number == 0, at(number));
            c.on_output(number * SEGMENT, 1000, 0, at(number));
        }
        (c, sampler)
    }

    fn sent(sequence: u64, is_retransmission: bool) -> Sent {
        Sent { sequence, in_flight_bytes: 0, lost_bytes: 0, is_retransmission }
    }

    fn acked(
        c: &mut Connection,
        sampler: &mut Sampler,
        number: u64,
        blocks: &[(u64, u64)],
        now: Time,
    ) -> Sample {
        let mut sack = SackBlocks::default();
        for (from, to) in blocks {
            let offset = ((from - number) * SEGMENT) as u32;
            sack.push(SackBlock { offset, length: ((to - from) * SEGMENT) as u32 });
        }
        let held = blocks.iter().map(|(from, to)| (to - from) * SEGMENT).sum();
        let before = Before { una: c.una, flight_bytes: c.flight_bytes(), in_flight_bytes: c.flight_bytes() };
        c.advance(number * SEGMENT);
        let ack = AckEvent { number: number * SEGMENT, sack: &sack, is_duplicate: false, ece: false };
        sampler.sample(c, &ack, before, (0, held, 0), now)
    }

    #[test]
    fn the_rate_is_what_arrived_since_the_newest_segment_was_sent_over_the_longer_interval() {
        let (mut c, mut sampler) = with_sent(10);
        // The path carries one segment in two milliseconds; the round trip without a queue is 20 ms.
        let first = acked(&mut c, &mut sampler, 1, &[], at(20));
        assert_eq!((first.delivered_bytes, first.rtt), (1000, Some(Span::from_millis(20))));
        for number in 2..=10 {
            acked(&mut c, &mut sampler, number, &[], at(18 + 2 * number));
        }
        sampler.on_send(sent(10 * SEGMENT, false), false, at(38));
        c.on_output(10 * SEGMENT, 1000, 0, at(38));
        sampler.on_send(sent(11 * SEGMENT, false), false, at(39));
        c.on_output(11 * SEGMENT, 1000, 0, at(39));
        acked(&mut c, &mut sampler, 11, &[], at(58));
        let rate = acked(&mut c, &mut sampler, 12, &[], at(60)).rate.expect("a rate");
        assert_eq!(
            (rate.delivered_bytes, rate.interval),
            (2000, Span::from_millis(30)),
            "sent from 9 to 39 ms"
        );
        assert_eq!(rate.prior_delivered_bytes, 10 * SEGMENT);
    }

    #[test]
    fn what_blocks_report_counts_once_and_the_cumulative_acknowledgment_adds_the_rest() {
        let (mut c, mut sampler) = with_sent(10);
        assert_eq!(acked(&mut c, &mut sampler, 0, &[(1, 2)], at(20)).delivered_bytes, 1000);
        let sample = acked(&mut c, &mut sampler, 0, &[(1, 4)], at(22));
        assert_eq!(
            (sample.delivered_bytes, sample.rtt),
            (2000, Some(Span::from_millis(19))),
            "of the fourth"
        );
        assert_eq!(acked(&mut c, &mut sampler, 0, &[(1, 4)], at(23)).rate, None, "nothing new");
        let last = acked(&mut c, &mut sampler, 5, &[], at(25));
        assert_eq!((last.delivered_bytes, last.delivered_total_bytes), (2000, 5000));
    }

    #[test]
    fn records_grow_with_what_is_under_way_and_say_what_all_of_them_would() {
        let tcp = TcpConfig {
            segment_bytes: 1000,
            receive_window_bytes: 200_000,
            control: CongestionControlConfig::Bbr(BbrConfig::default()),
            ..TcpConfig::modern(Variant::Sack)
        };
        let mut c = Connection::new(&tcp);
        c.limit = u64::MAX;
        let mut grows = *Sampler::new(Sampling::Rates, &tcp).expect("asked for");
        let mut whole = grows.clone();
        whole.records = vec![Record::default(); whole.places_max];
        assert_eq!((grows.records.len(), whole.records.len()), (PLACES_MIN, 202));
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut rates = 0;
        for step in 0..40_000 {
            let now = at(step);
            // What may be under way comes and goes, up to the whole window at last.
            let most = if step < 1000 { 10_000 } else { (step * 5).min(200_000) };
            let length = if draw(3) == 0 { 1 + draw(1000) } else { 1000 };
            if c.nxt + length <= c.una + most {
                let of = sent(c.nxt, false);
                for sampler in [&mut grows, &mut whole] {
                    sampler.on_send(of, c.una == c.max, now);
                }
                c.on_output(of.sequence, length as u32, 0, now);
            }
            if c.max > c.una && draw(8) == 0 {
                let again = sent(c.una + draw(c.max - c.una), true);
                for sampler in [&mut grows, &mut whole] {
                    sampler.on_send(again, false, now);
                }
            }
            if draw(3) == 0 {
                let before =
                    Before { una: c.una, flight_bytes: c.flight_bytes(), in_flight_bytes: c.flight_bytes() };
                let number = c.una + draw(c.max - c.una + 1).min(draw(3000));
                let mut sack = SackBlocks::default();
                if c.max > number + 10 {
                    let offset = draw(c.max - number - 1) as u32;
                    let held = 1 + draw(c.max - number - u64::from(offset)) as u32;
                    sack.push(SackBlock { offset, length: held });
                }
                if number > c.una {
                    c.advance(number);
                }
                let ack = AckEvent { number, sack: &sack, is_duplicate: false, ece: false };
                let [one, other] =
                    [&mut grows, &mut whole].map(|sampler| sampler.sample(&c, &ack, before, (0, 0, 0), now));
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "step {step}");
                rates += u64::from(one.rate.is_some());
            }
            if step == 999 {
                assert!(grows.records.len() <= 32, "{} for 10 under way", grows.records.len());
            }
        }
        assert!(rates > 1000, "{rates}");
        assert_eq!(grows.records.len(), whole.records.len(), "the whole window was under way");
    }

    #[test]
    fn behind_a_time_out_what_had_arrived_counts_once_and_what_had_not_counts() {
        let (mut c, mut sampler) = with_sent(10);
        assert_eq!(acked(&mut c, &mut sampler, 0, &[(2, 5), (7, 9)], at(20)).delivered_bytes, 5000);
        // Time-out: the scoreboard forgets what is held. Everything is sent again, from the first on.
        let held = [(2, 5), (7, 9)].map(|(from, to)| Range { start: from * SEGMENT, end: to * SEGMENT });
        sampler.keep_count_of(&held);
        for number in 0..10 {
            sampler.on_send(sent(number * SEGMENT, true), number == 0, at(300 + number));
        }
        let told = |sample: Sample| (sample.delivered_bytes, sample.rate.is_some());
        let mut news = |number, blocks: &[(u64, u64)]| {
            told(acked(&mut c, &mut sampler, number, blocks, at(320 + number)))
        };
        assert_eq!(news(1, &[]), (1000, true), "a hole is filled, long before as much is held as before");
        assert_eq!(news(5, &[]), (1000, true), "of these four one was missing");
        assert_eq!(news(5, &[(7, 8)]), (0, false), "this had arrived, and says nothing of the path");
        assert_eq!(news(5, &[(7, 10)]), (1000, true), "and of these the last had not");
        assert_eq!(news(6, &[(7, 10)]), (1000, true));
        assert_eq!(news(10, &[]), (1000, true));
        assert!(sampler.counted.is_empty());
        assert_eq!(sampler.delivered, 10 * SEGMENT);
    }

    #[test]
    fn a_segment_sent_twice_gives_no_round_trip() {
        let (mut c, mut sampler) = with_sent(2);
        sampler.on_send(sent(0, true), false, at(30));
        assert_eq!(acked(&mut c, &mut sampler, 1, &[], at(50)).rtt, None);
        assert!(acked(&mut c, &mut sampler, 2, &[], at(51)).rtt.is_some());
    }

    #[test]
    fn what_was_sent_while_the_application_was_silent_is_said_to_be_limited_by_it() {
        let (mut c, mut sampler) = with_sent(2);
        sampler.on_app_limited(2 * SEGMENT);
        sampler.on_send(sent(2 * SEGMENT, false), false, at(5));
        c.on_output(2 * SEGMENT, 1000, 0, at(5));
        let limited = |sample: Sample| sample.rate.map(|rate| rate.is_app_limited);
        assert_eq!(limited(acked(&mut c, &mut sampler, 2, &[], at(20))), Some(false));
        assert_eq!(limited(acked(&mut c, &mut sampler, 3, &[], at(25))), Some(true));
        sampler.on_send(sent(3 * SEGMENT, false), true, at(30));
        c.on_output(3 * SEGMENT, 1000, 0, at(30));
        assert_eq!(
            limited(acked(&mut c, &mut sampler, 4, &[], at(50))),
            Some(false),
            "what it had sent has arrived"
        );
    }
}
