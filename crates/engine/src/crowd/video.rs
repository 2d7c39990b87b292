//! A film that adapts: segments at one of several rates, asked for one by one, into a buffer that plays.
//!
//! Source: Spiteri, Urgaonkar and Sitaraman, "BOLA: Near-Optimal Bitrate Adaptation for Online Videos", INFOCOM 2016, section IV and V.B
//! (the rule by the buffer); Jiang, Sekar and Zhang, "Improving Fairness, Efficiency, and Stability in HTTP-based Adaptive Video
//! Streaming with `FESTIVE`", `CoNEXT` 2012, section 5.3 (the harmonic mean of what the last segments measured).
//! Deviations: segments have the size of their rate exactly; BOLA's parameters follow from the largest buffer, and it neither abandons
//! segments nor caps oscillations (its sections V.C and V.D); the client asks for a segment when the one before is there.

use std::collections::VecDeque;

use tidegate_units::{BitRate, Span, Time};

use super::{Place, Room, Way};

/// How the rate of the next segment is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VideoRule {
    /// By what is in the buffer.
    Bola,
    /// By the throughput of the last segments.
    Rate,
}

/// A client that plays a film.
#[derive(Clone, Debug)]
pub struct VideoSpec {
    /// The rates that there are, ascending.
    pub rates: Vec<BitRate>,
    /// How long a segment plays.
    pub segment: Span,
    /// The buffer holds no more than this.
    pub buffer: Span,
    /// It plays when it holds so much: at first, and after it ran empty.
    pub start: Span,
    /// How rates are chosen.
    pub rule: VideoRule,
    /// Bytes of a request.
    pub request: u64,
    /// How many segments there are; `None`: no end.
    pub segments: Option<u64>,
}

/// What came of a film since the statistics began.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct VideoTally {
    /// Segments that arrived.
    pub segments: u64,
    /// Their rates, summed, in bits per second.
    pub rate_sum_bps: u64,
    /// How often the rate was another one than that of the segment before.
    pub switches: u64,
    /// From the start of the flow until it played; `None` while it did not, and where it did before the statistics began.
    pub startup: Option<Span>,
    /// How often the buffer ran empty, after it had played.
    pub stalls: u64,
    /// How long it stood still then.
    pub stalled: Span,
    /// How long it played.
    pub played: Span,
}

/// Throughputs of the last segments that the rule by rate looks at.
const MEASURED: usize = 5;
/// The part of it that it dares to ask for.
const SAFETY: f64 = 0.85;
/// BOLA's gamma p, the weight of a buffer that does not run empty: the reference player's, whose least buffer is that of the paper.
const GAMMA_P: f64 = 5.0;

/// Whether the film plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Playing {
    /// It waits for the first segments.
    NotYet,
    Plays,
    /// The buffer ran empty.
    Stalled,
    /// All of it was shown.
    Over,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Video {
    spec: VideoSpec,
    start: Time,
    /// Nothing is asked for from then on.
    stop: Time,
    place: Option<Place>,
    /// When the next segment is asked for.
    next: Option<Time>,
    /// The one under way: its rung, since when, and where its answer ends.
    under_way: Option<(usize, Time)>,
    /// Where the request and the answer end.
    ends: [u64; 2],
    rung: usize,
    got: u64,
    /// The last throughputs in bits per second.
    measured: VecDeque<f64>,
    /// What the buffer held at `at`.
    buffered: Span,
    at: Time,
    playing: Playing,
    tally: VideoTally,
}

impl Video {
    pub(super) fn new(spec: &VideoSpec, start: Time, stop: Time) -> Self {
        Self {
            spec: spec.clone(),
            start,
            stop,
            place: None,
            next: Some(start),
            under_way: None,
            ends: [0; 2],
            rung: 0,
            got: 0,
            measured: VecDeque::with_capacity(MEASURED),
            buffered: Span::ZERO,
            at: start,
            playing: Playing::NotYet,
            tally: VideoTally::default(),
        }
    }

    /// When the next segment is asked for, if that is before `stop`.
    pub(super) fn next(&self, stop: Time) -> Option<Time> {
        self.next.filter(|&at| at < stop)
    }

    pub(super) fn on_alarm(&mut self, now: Time, stop: Time, room: &mut Room) {
        if self.next.is_none_or(|at| at > now) || now >= stop {
            return;
        }
        self.next = None;
        self.play(now);
        let Some(rung) = self.choose() else {
            // The buffer is full enough: it is looked at again when a segment less is in it.
            self.next = Some(now.saturating_add(self.wait()));
            return;
        };
        let place = match self.place {
            Some(place) => place,
            None => match room.open(now) {
                Some(place) => *self.place.insert(place),
                None => return,
            },
        };
        self.under_way = Some((rung, now));
        self.ends[0] = room.send(place, Way::Up, self.spec.request);
    }

    pub(super) fn on_delivered(&mut self, place: Place, way: Way, bytes: u64, now: Time, room: &mut Room) {
        let Some((rung, asked)) = self.under_way else { return };
        match way {
            Way::Up if bytes >= self.ends[0] => {
                self.ends[1] = room.send(place, Way::Down, self.segment_bytes(rung));
            }
            Way::Down if bytes >= self.ends[1] => {
                self.under_way = None;
                self.on_segment(rung, asked, now);
                if self.spec.segments.is_some_and(|all| self.got >= all) {
                    room.close(place);
                } else {
                    self.next = Some(now);
                }
            }
            Way::Up | Way::Down => {}
        }
    }

    fn segment_bytes(&self, rung: usize) -> u64 {
        let bytes = self.spec.rates[rung].as_bytes_per_second_f64() * self.spec.segment.as_secs_f64();
        (bytes.round() as u64).max(1)
    }

    /// A segment is there.
    fn on_segment(&mut self, rung: usize, asked: Time, now: Time) {
        self.play(now);
        if self.measured.len() == MEASURED {
            self.measured.pop_front();
        }
        let took = now.since(asked).as_secs_f64().max(1e-9);
        self.measured.push_back(self.segment_bytes(rung) as f64 * 8.0 / took);
        self.tally.switches += u64::from(self.got > 0 && rung != self.rung);
        self.tally.segments += 1;
        self.tally.rate_sum_bps += self.spec.rates[rung].as_bps();
        self.rung = rung;
        self.got += 1;
        self.buffered += self.spec.segment;
        let is_last = self.spec.segments == Some(self.got);
        if matches!(self.playing, Playing::NotYet | Playing::Stalled)
            && (self.buffered >= self.spec.start || is_last)
        {
            if self.playing == Playing::NotYet {
                self.tally.startup = Some(now.since(self.start));
            }
            self.playing = Playing::Plays;
        }
    }

    /// Plays until `now`.
    fn play(&mut self, now: Time) {
        let passed = now.since(self.at);
        self.at = now;
        match self.playing {
            Playing::NotYet | Playing::Over => {}
            Playing::Stalled => self.tally.stalled += passed,
            Playing::Plays if passed < self.buffered => {
                self.tally.played += passed;
                self.buffered -= passed;
            }
            Playing::Plays => {
                self.tally.played += self.buffered;
                let is_dry_late = now >= self.stop.saturating_add(passed - self.buffered);
                if self.spec.segments == Some(self.got) || is_dry_late {
                    self.playing = Playing::Over;
                } else if passed > self.buffered {
                    self.playing = Playing::Stalled;
                    self.tally.stalls += 1;
                    self.tally.stalled += passed - self.buffered;
                }
                self.buffered = Span::ZERO;
            }
        }
    }

    /// The rung of the next segment; `None` while the buffer has no room, or the rule none of them.
    fn choose(&self) -> Option<usize> {
        if self.buffered + self.spec.segment > self.spec.buffer {
            return None;
        }
        match self.spec.rule {
            VideoRule::Bola => self.by_buffer(),
            VideoRule::Rate => Some(self.by_rate()),
        }
    }

    /// BOLA, eq. (8) of its paper: the rung with the most (V (utility + gamma p) - Q) / size, if that is above zero; V such that a full
    /// buffer asks for nothing.
    fn by_buffer(&self) -> Option<usize> {
        let segment = self.spec.segment.as_secs_f64();
        let (held, most) = (self.buffered.as_secs_f64() / segment, self.spec.buffer.as_secs_f64() / segment);
        let rate = |rung: usize| self.spec.rates[rung].as_bps_f64();
        let utility = |rung: usize| libm::log(rate(rung) / rate(0));
        let weight = (most - 1.0) / (utility(self.spec.rates.len() - 1) + GAMMA_P);
        let worth = |rung: usize| (weight * (utility(rung) + GAMMA_P) - held) / rate(rung);
        let best = (0..self.spec.rates.len()).max_by(|&one, &other| worth(one).total_cmp(&worth(other)))?;
        (worth(best) > 0.0).then_some(best)
    }

    /// The highest rung below the harmonic mean of what was measured, less a safety; the lowest before anything was.
    fn by_rate(&self) -> usize {
        if self.measured.is_empty() {
            return 0;
        }
        let mean = self.measured.len() as f64 / self.measured.iter().map(|rate| 1.0 / rate).sum::<f64>();
        self.spec.rates.partition_point(|rate| rate.as_bps_f64() <= SAFETY * mean).saturating_sub(1)
    }

    /// How long until there may be room.
    fn wait(&self) -> Span {
        let over = (self.buffered + self.spec.segment).saturating_sub(self.spec.buffer);
        // A tenth of a segment where the rule wants less in the buffer.
        over.max(Span::from_secs_f64(self.spec.segment.as_secs_f64() / 10.0)).max(Span::from_nanos(1))
    }

    pub(super) fn on_released(&mut self, _now: Time, _room: &mut Room) {
        self.place = None;
    }

    pub(super) fn restart(&mut self, now: Time) {
        if now >= self.at {
            self.play(now);
        }
        self.tally = VideoTally::default();
    }

    /// What came of it until `now`.
    pub(super) fn tally(&self, now: Time) -> VideoTally {
        let mut copy = Self { spec: self.spec.clone(), measured: VecDeque::new(), ..*self };
        if now >= self.at {
            copy.play(now);
        }
        copy.tally
    }

    pub(super) fn variable(&self, name: &str, now: Time) -> Option<f64> {
        let mut copy = Self { spec: self.spec.clone(), measured: VecDeque::new(), ..*self };
        if now >= self.at {
            copy.play(now);
        }
        match name {
            "buffer_s" => Some(copy.buffered.as_secs_f64()),
            "bitrate_bps" if self.got > 0 => Some(self.spec.rates[self.rung].as_bps_f64()),
            "stalled_s" => Some(copy.tally.stalled.as_secs_f64()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::{Line, Order, Seat};

    fn room() -> Room {
        let line = Line { connection: 0, ordered: 0, delivered: 0 };
        let seat = Seat { down: line, up: Some(line), opened: Time::ZERO, is_closed: true, is_free: true };
        Room { seats: vec![seat], has_handshake: true, free: [0].into(), orders: VecDeque::new() }
    }

    fn spec(rule: VideoRule) -> VideoSpec {
        VideoSpec {
            rates: [1_000, 2_000, 4_000].map(|kbps| BitRate::from_bps(kbps * 1_000)).to_vec(),
            segment: Span::from_secs(4),
            buffer: Span::from_secs(20),
            start: Span::from_secs(8),
            rule,
            request: 100,
            segments: Some(5),
        }
    }

    fn at(secs: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(secs)
    }

    /// The segment asked for now arrives at `secs`.
    fn arrives(video: &mut Video, room: &mut Room, secs: f64) {
        let up = room.seats[0].up.unwrap().ordered;
        video.on_delivered(0, Way::Up, up, at(secs - 0.1), room);
        let down = room.seats[0].down.ordered;
        video.on_delivered(0, Way::Down, down, at(secs), room);
        video.on_alarm(at(secs), Time::MAX, room);
    }

    /// Segments of 4 s arrive at 2, 5, 16, 18 and 20 s. With 8 s in the buffer it plays at 5 s, until 13 s; it stands still until 18 s, when
    /// two more are there, and shows the other 12 s until 30 s.
    #[test]
    fn a_film_plays_and_stands_still_when_arithmetic_says() {
        let (mut video, mut room) = (Video::new(&spec(VideoRule::Rate), Time::ZERO, Time::MAX), room());
        video.on_alarm(Time::ZERO, Time::MAX, &mut room);
        for (secs, expected) in [(2.0, 4.0), (5.0, 8.0), (16.0, 4.0), (18.0, 8.0), (20.0, 10.0)] {
            arrives(&mut video, &mut room, secs);
            let held = video.variable("buffer_s", at(secs)).unwrap();
            assert!((held - expected).abs() < 1e-9, "{held} at {secs} s");
        }
        for (secs, played, stalled, stalls) in
            [(20.0, 10.0, 5.0, 1), (29.0, 19.0, 5.0, 1), (30.0, 20.0, 5.0, 1), (99.0, 20.0, 5.0, 1)]
        {
            let tally = video.tally(at(secs));
            assert_eq!(
                (tally.played.as_secs_f64(), tally.stalled.as_secs_f64()),
                (played, stalled),
                "{secs} s"
            );
            assert_eq!((tally.stalls, tally.startup), (stalls, Some(Span::from_secs(5))));
        }
        assert_eq!(room.orders.back(), Some(&Order::Close(0)), "all of it is there");
        assert_eq!(video.next(Time::MAX), None);
    }

    /// Its flow stops at 6 s: what is in the buffer is shown, and that is the end.
    #[test]
    fn a_film_that_is_stopped_ends_and_does_not_stand_still() {
        let stop = at(6.0);
        let (mut video, mut room) = (Video::new(&spec(VideoRule::Rate), Time::ZERO, stop), room());
        video.on_alarm(Time::ZERO, stop, &mut room);
        arrives(&mut video, &mut room, 2.0);
        arrives(&mut video, &mut room, 5.0);
        let tally = video.tally(at(60.0));
        assert_eq!((tally.played.as_secs_f64(), tally.stalls, tally.stalled), (8.0, 0, Span::ZERO));
    }

    #[test]
    fn the_rule_by_rate_takes_most_of_the_harmonic_mean() {
        let mut video = Video::new(&spec(VideoRule::Rate), Time::ZERO, Time::MAX);
        assert_eq!(video.by_rate(), 0, "nothing was measured");
        // Harmonic means 3 and 2.4 Mb/s, of which 0.85 is 2.55 and 2.04; then 2.2 Mb/s.
        video.measured = [3e6].into();
        assert_eq!(video.by_rate(), 1);
        video.measured = [2e6, 3e6].into();
        assert_eq!(video.by_rate(), 1);
        video.measured = [2e6, 3e6, 1.9e6].into();
        assert_eq!(video.by_rate(), 0);
        video.measured = [9e6].into();
        assert_eq!(video.by_rate(), 2);
    }

    /// Five segments of room, so that V = 4 / (ln 4 + 5). Rung m is the best from the rung above on where
    /// (V (u + 5) - Q) / S are equal; between the first and the second at Q = V (5 - ln 2), between the others at V (5 + ln 2 - ln 2).
    #[test]
    fn bola_changes_its_rung_where_two_are_worth_the_same() {
        let mut video = Video::new(&spec(VideoRule::Bola), Time::ZERO, Time::MAX);
        let weight = 4.0 / (libm::log(4.0) + 5.0);
        let first = weight * (5.0 - libm::log(2.0));
        let second = weight * 5.0;
        for (segments, expected) in [
            (0.0, Some(0)),
            (first - 0.01, Some(0)),
            (first + 0.01, Some(1)),
            (second - 0.01, Some(1)),
            (second + 0.01, Some(2)),
            (3.99, Some(2)),
        ] {
            video.buffered = Span::from_secs_f64(segments * 4.0);
            assert_eq!(video.choose(), expected, "{segments} segments");
        }
        video.buffered = Span::from_secs_f64(4.01 * 4.0);
        assert_eq!(video.choose(), None, "the buffer has no room");
    }
}
