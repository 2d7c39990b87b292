//! The segments of a sender that are not acknowledged yet, each with the instant at which it last went out.
//!
//! Source: RFC 8985, section 5.1 (what is remembered of each segment). Deviations: none. They stand in order of their bytes; those
//! under way are chained in the order in which they last went out, so that whoever asks for the oldest does not search. All that a
//! segment can cost is paid a fixed number of times: when it goes out, arrives, is found lost.

use alloc::collections::VecDeque;

use tidegate_units::Time;

use crate::tcp::ranges::RangeSet;

/// No segment: an end of the chain.
const NONE: u64 = u64::MAX;

/// Where a segment is believed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// In the network.
    UnderWay,
    /// Lost, and not sent again since.
    Lost,
    /// With the receiver (selectively acknowledged).
    Held,
}

/// A segment that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub start: u64,
    pub payload_bytes: u32,
    pub state: State,
    /// It went out more than once.
    pub retransmitted: bool,
    /// It was found lost, and has not arrived since, sent again or not.
    is_missing: bool,
    /// When it last went out.
    pub sent_at: Time,
    /// Its neighbours in the chain; only of what is under way.
    earlier: u64,
    later: u64,
}

impl Segment {
    /// One past its last byte (`Segment.end_seq`).
    pub const fn end(&self) -> u64 {
        self.start + self.payload_bytes as u64
    }
}

/// See the module. A segment keeps its number until it is acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    queue: VecDeque<Segment>,
    /// The number of the first in the queue.
    first: u64,
    /// The ends of the chain.
    oldest: u64,
    newest: u64,
    /// No segment below this number is lost.
    lost_from: u64,
    lost_count: usize,
    missing_count: usize,
    under_way_bytes: u64,
    held_count: u32,
    /// What the receiver holds, so that a block is not walked again.
    held: RangeSet,
    most: usize,
}

impl Segments {
    /// At most `most` of them, above zero; `held` is empty.
    pub fn new(held: RangeSet, most: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            first: 0,
            oldest: NONE,
            newest: NONE,
            lost_from: 0,
            lost_count: 0,
            missing_count: 0,
            under_way_bytes: 0,
            held_count: 0,
            held,
            most,
        }
    }

    pub fn is_full(&self) -> bool {
        self.queue.len() >= self.most
    }
    /// Bytes believed to be in the network.
    pub const fn under_way_bytes(&self) -> u64 {
        self.under_way_bytes
    }
    pub const fn held_bytes(&self) -> u64 {
        self.held.covered_bytes()
    }
    /// `RACK.segs_sacked`.
    pub const fn held_count(&self) -> u32 {
        self.held_count
    }
    pub const fn has_lost(&self) -> bool {
        self.lost_count > 0
    }
    /// Something that was found lost has not arrived yet, sent again or not.
    pub const fn has_missing(&self) -> bool {
        self.missing_count > 0
    }
    pub fn first(&self) -> Option<&Segment> {
        self.queue.front()
    }
    pub fn last(&self) -> Option<&Segment> {
        self.queue.back()
    }

    fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    fn get(&self, number: u64) -> Option<&Segment> {
        self.queue.get(number.checked_sub(self.first)? as usize)
    }

    /// The number of the first segment that ends after `position`.
    fn number_around(&self, position: u64) -> u64 {
        self.first + self.queue.partition_point(|segment| segment.end() <= position) as u64
    }

    /// The bytes from `start` on go out: again, or for the first time if they follow all others. Of what fits neither no note is taken.
    pub fn on_sent(&mut self, start: u64, payload_bytes: u32, now: Time) {
        if self.queue.back().is_none_or(|last| start >= last.end()) {
            if self.is_full() {
                return;
            }
            self.queue.push_back(Segment {
                start,
                payload_bytes,
                state: State::Lost,
                retransmitted: false,
                is_missing: false,
                sent_at: now,
                earlier: NONE,
                later: NONE,
            });
            self.join(self.first + self.queue.len() as u64 - 1);
            return;
        }
        let number = self.number_around(start);
        let place = self.index(number);
        let Some(segment) = self.queue.get_mut(place).filter(|segment| segment.start == start) else {
            return;
        };
        segment.retransmitted = true;
        segment.sent_at = now;
        match segment.state {
            State::Held => return,
            State::UnderWay => self.leave(number),
            State::Lost => self.lost_count -= 1,
        }
        self.join(number);
    }

    /// At the end of the chain: under way from now on.
    fn join(&mut self, number: u64) {
        let place = self.index(number);
        let newest = self.newest;
        let segment = &mut self.queue[place];
        segment.state = State::UnderWay;
        segment.earlier = newest;
        segment.later = NONE;
        self.under_way_bytes += u64::from(segment.payload_bytes);
        if newest == NONE {
            self.oldest = number;
        } else {
            let before = self.index(newest);
            self.queue[before].later = number;
        }
        self.newest = number;
    }

    /// Out of the chain.
    fn leave(&mut self, number: u64) {
        let Segment { earlier, later, payload_bytes, .. } = self.queue[self.index(number)];
        self.under_way_bytes -= u64::from(payload_bytes);
        if earlier == NONE {
            self.oldest = later;
        } else {
            let place = self.index(earlier);
            self.queue[place].later = later;
        }
        if later == NONE {
            self.newest = earlier;
        } else {
            let place = self.index(later);
            self.queue[place].earlier = earlier;
        }
    }

    /// All below `number` is acknowledged: each segment that was not held is handed to `arrived`, in order.
    pub fn acknowledge(&mut self, number: u64, mut arrived: impl FnMut(&Segment)) {
        while let Some(&segment) = self.queue.front() {
            if segment.end() > number {
                break;
            }
            if segment.state == State::Held {
                self.held_count -= 1;
            } else {
                self.settle(self.first, segment, &mut arrived);
            }
            self.queue.pop_front();
            self.first += 1;
        }
        // Part of one: no receiver of ours acknowledges so.
        if let Some(front) = self.queue.front_mut()
            && front.start < number
        {
            let bytes = (number - front.start) as u32;
            front.start = number;
            front.payload_bytes -= bytes;
            if front.state == State::UnderWay {
                self.under_way_bytes -= u64::from(bytes);
            }
        }
        self.held.remove_below(number);
    }

    /// A segment that was not held has arrived.
    fn settle(&mut self, number: u64, segment: Segment, arrived: &mut impl FnMut(&Segment)) {
        if segment.state == State::Lost {
            self.lost_count -= 1;
        } else {
            self.leave(number);
        }
        self.missing_count -= usize::from(segment.is_missing);
        arrived(&segment);
    }

    /// The receiver holds `start..end`: each segment that lies in it as a whole and was not held is handed to `arrived`, in order.
    pub fn hold(&mut self, start: u64, end: u64, mut arrived: impl FnMut(&Segment)) {
        let mut position = start;
        while position < end {
            if let Some(held) = self.held.containing(position) {
                position = held.end;
                continue;
            }
            let gap_end = self.held.next_hole(position).map_or(end, |hole| hole.end.min(end));
            let mut number = self.number_around(position);
            if self.get(number).is_some_and(|segment| segment.start < position) {
                number += 1;
            }
            while let Some(&segment) = self.get(number)
                && segment.end() <= gap_end
            {
                // Nothing where there is no room for another range: then it counts as under way.
                if self.held.insert(segment.start, segment.end()) > 0 {
                    self.settle(number, segment, &mut arrived);
                    let place = self.index(number);
                    self.queue[place].state = State::Held;
                    self.queue[place].is_missing = false;
                    self.held_count += 1;
                }
                number += 1;
            }
            position = gap_end;
        }
    }

    /// The segment under way that last went out the longest ago, with its number.
    pub fn oldest(&self) -> Option<(u64, Segment)> {
        Some((self.oldest, *self.get(self.oldest)?))
    }

    /// The one that went out after the segment of this number, which is under way.
    pub fn later_than(&self, number: u64) -> Option<(u64, Segment)> {
        let later = self.get(number)?.later;
        Some((later, *self.get(later)?))
    }

    /// The segment of this number, which is under way, is lost.
    pub fn lose(&mut self, number: u64) {
        self.leave(number);
        let place = self.index(number);
        let segment = &mut self.queue[place];
        segment.state = State::Lost;
        self.missing_count += usize::from(!segment.is_missing);
        segment.is_missing = true;
        self.lost_count += 1;
        self.lost_from = self.lost_from.min(number);
    }

    /// The first segment in order of bytes is lost, if it is under way. Returns its size.
    pub fn lose_first(&mut self) -> Option<u32> {
        let front = self.queue.front().filter(|front| front.state == State::UnderWay)?;
        let payload_bytes = front.payload_bytes;
        self.lose(self.first);
        Some(payload_bytes)
    }

    /// The first lost segment in order of bytes.
    pub fn first_lost(&mut self) -> Option<&Segment> {
        if self.lost_count == 0 {
            self.lost_from = self.first + self.queue.len() as u64;
            return None;
        }
        self.lost_from = self.lost_from.max(self.first);
        while self.get(self.lost_from)?.state != State::Lost {
            self.lost_from += 1;
        }
        self.get(self.lost_from)
    }

    /// The receiver no longer has what it said that it held (RFC 2018, section 8): it is lost.
    pub fn forget_held(&mut self) {
        for segment in &mut self.queue {
            if segment.state == State::Held {
                segment.state = State::Lost;
                segment.is_missing = true;
                self.lost_count += 1;
                self.missing_count += 1;
            }
        }
        self.lost_from = self.first;
        self.held_count = 0;
        self.held.clear();
    }
}
