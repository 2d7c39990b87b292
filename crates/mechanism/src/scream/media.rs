//! The medium: an encoder that makes frames at the rate that it is told, and the queue in which they wait to be sent.
//!
//! Source: the draft, sections 3 and 3.3.

use alloc::boxed::Box;
use alloc::vec;

use tidegate_units::{Span, Time};

use super::config::ScreamConfig;

/// A frame, as far as it is not sent.
#[derive(Clone, Copy, Debug)]
struct Frame {
    made: Time,
    bytes: u64,
}

/// A packet of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// On the wire.
    pub bytes: u32,
    /// When the frame was made.
    pub made: Time,
    /// Whether the frame ends with it.
    pub is_last: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Media {
    /// A ring.
    frames: Box<[Frame]>,
    head: usize,
    len: usize,
    period: Span,
    /// When the next frame is made; `None` while there is nothing to see.
    next_at: Option<Time>,
    /// From one key frame to the next, and how much larger the next frame is by that.
    key_frames: u64,
    key_size: f64,
    number: u64,
    max_wait: Span,
    packet_bytes: u32,
    header_bytes: u32,
    discarded: u64,
}

impl Media {
    /// There is nothing to see before [`Self::start`].
    pub fn new(config: &ScreamConfig) -> Self {
        let period = Span::from_secs_f64(1.0 / config.frame_rate).max(Span::from_nanos(1));
        let waiting = config.max_wait.as_nanos() / period.as_nanos() + 2;
        let none = Frame { made: Time::ZERO, bytes: 0 };
        Self {
            frames: vec![none; waiting as usize].into_boxed_slice(),
            head: 0,
            len: 0,
            period,
            next_at: None,
            key_frames: config.key_interval.map_or(1, |interval| interval.as_nanos() / period.as_nanos()),
            key_size: config.key_size,
            number: 0,
            max_wait: config.max_wait,
            packet_bytes: config.packet_bytes(),
            header_bytes: config.header_bytes(),
            discarded: 0,
        }
    }

    /// From one frame to the next.
    pub const fn period(&self) -> Span {
        self.period
    }

    /// There is something to see: the first frame is made at `now`.
    pub fn start(&mut self, now: Time) {
        self.next_at.get_or_insert(now);
    }

    /// There is nothing to see any more; what waits is still sent.
    pub const fn pause(&mut self) {
        self.next_at = None;
    }

    /// When the next frame is made.
    pub const fn next_frame(&self) -> Option<Time> {
        self.next_at
    }

    /// Makes the frame that is due at `now`, if one is, for a rate of `bps`: how many bytes.
    pub fn make(&mut self, bps: f64, now: Time) -> Option<u64> {
        let due = self.next_at.filter(|&due| due <= now)?;
        // A world that is later than frames may wait has missed them.
        let due = if now.since(due) > self.max_wait { now } else { due };
        self.next_at = Some(due.saturating_add(self.period));
        let bytes = self.on_wire(bps * self.period.as_secs_f64() / 8.0 * self.size());
        self.number += 1;
        if self.len == self.frames.len() {
            self.drop_oldest();
        }
        let place = (self.head + self.len) % self.frames.len();
        self.frames[place] = Frame { made: due, bytes };
        self.len += 1;
        Some(bytes)
    }

    /// How large the next frame is, of the mean.
    fn size(&self) -> f64 {
        let frames = self.key_frames as f64;
        match self.key_frames {
            ..2 => 1.0,
            _ if self.number.is_multiple_of(self.key_frames) => self.key_size,
            _ => ((frames - self.key_size) / (frames - 1.0)).max(0.0),
        }
    }

    /// Whole packets, of which each has room for more than its headers.
    fn on_wire(&self, bytes: f64) -> u64 {
        let (packet, least) = (u64::from(self.packet_bytes), u64::from(self.header_bytes) + 1);
        let bytes = (bytes + 0.5) as u64;
        let rest = bytes % packet;
        if bytes > 0 && rest == 0 { bytes } else { bytes.saturating_add(least.saturating_sub(rest)) }
    }

    /// Discards what waited too long.
    pub fn discard(&mut self, now: Time) {
        while self.waited(now) > self.max_wait {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        self.discarded += 1;
        self.leave();
    }

    const fn leave(&mut self) {
        self.head = (self.head + 1) % self.frames.len();
        self.len -= 1;
    }

    /// How long the oldest packet has waited.
    pub fn waited(&self, now: Time) -> Span {
        if self.len > 0 { now.since(self.frames[self.head].made) } else { Span::ZERO }
    }

    /// Bytes of the next packet, if one waits.
    pub fn next_bytes(&self) -> Option<u32> {
        let frame = &self.frames[self.head];
        (self.len > 0).then(|| frame.bytes.min(u64::from(self.packet_bytes)) as u32)
    }

    /// Takes the next packet.
    pub fn take(&mut self) -> Option<Piece> {
        let bytes = self.next_bytes()?;
        let frame = &mut self.frames[self.head];
        frame.bytes -= u64::from(bytes);
        let piece = Piece { bytes, made: frame.made, is_last: frame.bytes == 0 };
        if piece.is_last {
            self.leave();
        }
        Some(piece)
    }

    /// Frames of which something was discarded.
    pub const fn discarded(&self) -> u64 {
        self.discarded
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

    fn started(config: &ScreamConfig) -> Media {
        let mut media = Media::new(config);
        media.start(Time::ZERO);
        media
    }

    #[test]
    fn frames_have_the_rate_that_the_encoder_is_told_in_whole_packets_and_a_rest() {
        let mut media = started(&ScreamConfig::default());
        // 1 Mb/s over 50 frames: 2500 bytes.
        assert_eq!(media.make(1e6, ms(0)), Some(2500));
        assert_eq!(media.make(1e6, ms(19)), None);
        let pieces: Vec<_> =
            core::iter::from_fn(|| media.take()).map(|piece| (piece.bytes, piece.is_last)).collect();
        assert_eq!(pieces, [(1000, false), (1000, false), (500, true)]);
        // 2010 bytes: the last packet has a header of 40 and a byte; 8 bytes as well.
        assert_eq!(media.make(804_000.0, ms(20)), Some(2041));
        assert_eq!(media.make(3200.0, ms(40)), Some(41));
        assert_eq!(media.make(800_000.0, ms(60)), Some(2000));
    }

    #[test]
    fn key_frames_leave_the_rate_as_it_is() {
        let config = ScreamConfig { key_interval: Some(Span::from_secs(1)), ..ScreamConfig::default() };
        let mut media = started(&config);
        let sizes: Vec<u64> = (0..100).filter_map(|number| media.make(8e6, ms(20 * number))).collect();
        assert_eq!((sizes[0], sizes[50]), (80_000, 80_000), "four times the mean of 20,000");
        let mean = sizes.iter().sum::<u64>() as f64 / 100.0;
        assert!((mean / 20_000.0 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn what_waits_longer_than_anybody_would_look_at_it_is_discarded() {
        let mut media = started(&ScreamConfig::default());
        for number in 0..30 {
            media.make(1e6, ms(20 * number));
            media.discard(ms(20 * number));
        }
        // At 580 ms those of 0, 20, 40 and 60 ms are older than 500 ms.
        assert_eq!(media.discarded(), 4);
        assert_eq!(media.waited(ms(580)), Span::from_millis(500));
        media.discard(ms(5000));
        assert_eq!((media.take(), media.discarded()), (None, 30));
    }

    #[test]
    fn in_a_pause_nothing_is_made_and_what_waits_is_sent() {
        let mut media = started(&ScreamConfig::default());
        media.make(800_000.0, ms(0));
        media.pause();
        assert_eq!((media.make(1e6, ms(100)), media.next_frame()), (None, None));
        assert!(media.take().is_some_and(|piece| piece.bytes == 1000 && !piece.is_last));
        media.start(ms(300));
        assert_eq!(media.next_frame(), Some(ms(300)));
        assert_eq!(media.make(800_000.0, ms(300)), Some(2000));
    }

    #[test]
    fn a_world_that_is_late_by_more_than_frames_may_wait_has_missed_them() {
        let mut media = started(&ScreamConfig::default());
        let mut made = 0;
        while media.make(1e6, ms(100_000)).is_some() {
            made += 1;
        }
        assert_eq!((made, media.next_frame()), (1, Some(ms(100_020))));
    }

    proptest! {
        #[test]
        fn whatever_the_rates_no_more_waits_than_there_is_room_for_and_every_packet_has_a_medium(
            steps in prop::collection::vec((prop::num::f64::ANY, 0u64..3000, 0usize..20), 1..200),
        ) {
            let mut media = started(&ScreamConfig::default());
            let mut now = Time::ZERO;
            for (bps, wait, takes) in steps {
                now += Span::from_millis(wait);
                while media.make(bps, now).is_some() {}
                prop_assert!(media.len <= media.frames.len());
                media.discard(now);
                prop_assert!(media.waited(now) <= Span::from_millis(500));
                for piece in (0..takes).map_while(|_| media.take()) {
                    prop_assert!((41..=1000).contains(&piece.bytes));
                }
            }
        }
    }
}
