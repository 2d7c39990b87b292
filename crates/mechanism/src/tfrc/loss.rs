//! Which packets are lost, which losses are one event, and how far events are apart.
//!
//! Source: RFC 5348, sections 5.1 to 5.4 and 6.3.1.

use tidegate_units::{Span, Time};

use super::equation::loss_event_rate;

/// A packet is lost when so many with higher numbers have come (section 5.1: NDUPACK).
const NDUPACK: u8 = 3;
/// Intervals that the mean looks at besides the present one (section 5.4: n).
const N: usize = 8;
/// Their weights, the newest first (section 5.4).
const WEIGHTS: [f64; N] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Gaps that may wait at once for [`NDUPACK`] packets: each such packet opens one or splits one.
const GAPS_MAX: usize = 8;

/// Packets that did not come, and what came before and after them.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    last: u64,
    /// `S_before`, `T_before`.
    before: (u64, Time),
    /// `S_after`, `T_after`.
    after: (u64, Time),
    /// How many came that are higher than all of it.
    higher: u8,
}

/// The last loss event.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// Its first packet.
    sequence: u64,
    /// When that would have come.
    at: Time,
}

/// What a receiver knows of losses.
#[derive(Clone, Debug)]
pub struct LossHistory {
    /// The highest packet that came, and when; `None` before the first.
    highest: Option<(u64, Time)>,
    gaps: [Option<Gap>; GAPS_MAX],
    event: Option<Event>,
    /// `I_1`, `I_2`, ...: closed intervals, the newest first.
    intervals: [f64; N],
    closed: usize,
    segment_bytes: f64,
}

impl LossHistory {
    /// Of packets of `segment_bytes`; nothing came yet.
    pub fn new(segment_bytes: u32) -> Self {
        Self {
            highest: None,
            gaps: [None; GAPS_MAX],
            event: None,
            intervals: [0.0; N],
            closed: 0,
            segment_bytes: f64::from(segment_bytes),
        }
    }

    /// Packet `sequence` came, with a congestion mark or without. `rtt` is what the sender said, zero if it knew none;
    /// `received` is the most that came in a second so far, bytes.
    pub fn on_packet(&mut self, sequence: u64, congested: bool, rtt: Span, received: f64, now: Time) {
        self.arrive(sequence, now);
        while let Some(gap) = self.take_lost() {
            self.lose(&gap, rtt, received);
        }
        if congested {
            self.begin_event(sequence, now, rtt, received);
        }
    }

    /// Enters the packet into the gaps.
    fn arrive(&mut self, sequence: u64, now: Time) {
        let Some((highest, came)) = self.highest else {
            self.highest = Some((sequence, now));
            return;
        };
        if sequence > highest {
            self.highest = Some((sequence, now));
            if sequence > highest + 1 {
                self.open_gap(Gap {
                    first: highest + 1,
                    last: sequence - 1,
                    before: (highest, came),
                    after: (sequence, now),
                    higher: 0,
                });
            }
        }
        let mut rest = None;
        for slot in &mut self.gaps {
            let Some(gap) = slot else { continue };
            if gap.last < sequence {
                gap.higher += 1;
            } else if sequence >= gap.first {
                // What is above it waits on its own, what is below it has one higher packet more.
                let above = Gap { first: sequence + 1, before: (sequence, now), ..*gap };
                let below = Gap { last: sequence.wrapping_sub(1), after: (sequence, now), ..*gap };
                rest = (above.first <= above.last).then_some(above);
                *slot = (sequence > gap.first).then_some(Gap { higher: below.higher + 1, ..below });
            }
        }
        if let Some(above) = rest {
            self.open_gap(above);
        }
    }

    fn open_gap(&mut self, gap: Gap) {
        match self.gaps.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(gap),
            // More disorder than is kept apart: the lowest gap counts as lost, and the new one is forgotten.
            None => {
                if let Some(lowest) = self.gaps.iter_mut().flatten().min_by_key(|open| open.first) {
                    lowest.higher = NDUPACK;
                }
            }
        }
    }

    /// The lowest gap that is lost now.
    fn take_lost(&mut self) -> Option<Gap> {
        let lost = |gap: &Gap| gap.higher >= NDUPACK;
        let index = (0..GAPS_MAX)
            .filter(|&index| self.gaps[index].as_ref().is_some_and(lost))
            .min_by_key(|&index| self.gaps[index].map_or(0, |open| open.first))?;
        self.gaps[index].take()
    }

    /// The packets of a gap are lost: each event in it begins more than a round-trip time after the one before (section 5.2).
    fn lose(&mut self, gap: &Gap, rtt: Span, received: f64) {
        let packets = (gap.after.0 - gap.before.0).max(1);
        let span = gap.after.1.since(gap.before.1);
        let at = |sequence: u64| {
            let share =
                u128::from(span.as_nanos()) * u128::from(sequence - gap.before.0) / u128::from(packets);
            gap.before.1 + Span::from_nanos(share as u64)
        };
        // So many packets fill a round-trip time; an outage of any length is at most as many events as are looked at.
        let apart = (u128::from(rtt.as_nanos()) * u128::from(packets))
            .checked_div(u128::from(span.as_nanos()))
            .map_or(u64::MAX, |apart| u64::try_from(apart).unwrap_or(u64::MAX))
            .saturating_add(1);
        let mut sequence = gap.first.max(gap.last.saturating_sub(apart.saturating_mul(N as u64 + 1)));
        while sequence <= gap.last {
            self.begin_event(sequence, at(sequence), rtt, received);
            sequence = match sequence.checked_add(apart) {
                Some(next) => next,
                None => break,
            };
        }
    }

    /// Packet `sequence`, which came or would have come `at` this time, is lost or marked: a new event unless the last one is
    /// no more than a round-trip time ago.
    fn begin_event(&mut self, sequence: u64, at: Time, rtt: Span, received: f64) {
        let closed = match self.event {
            Some(event) if event.at.saturating_add(rtt) >= at || sequence <= event.sequence => return,
            Some(event) => (sequence - event.sequence) as f64,
            None => self.first_interval(rtt, received),
        };
        self.intervals.rotate_right(1);
        self.intervals[0] = closed;
        self.closed = (self.closed + 1).min(N);
        self.event = Some(Event { sequence, at });
    }

    /// How long the first interval would be at the rate that came through: half of what was sent as it was lost (section 6.3.1).
    /// Nothing came through yet: half a segment per round-trip time.
    fn first_interval(&self, rtt: Span, received: f64) -> f64 {
        let s = self.segment_bytes;
        let r = rtt.as_secs_f64();
        if r <= 0.0 {
            return 1.0;
        }
        let target = if received > 0.0 { received } else { s / (2.0 * r) };
        1.0 / loss_event_rate(s, r, target)
    }

    /// `p` (section 5.4); zero before the first loss.
    pub fn loss_event_rate(&self) -> f64 {
        let (Some(event), Some((highest, _))) = (self.event, self.highest) else { return 0.0 };
        let open = highest.saturating_sub(event.sequence) as f64 + 1.0;
        1.0 / mean_interval(open, &self.intervals[..self.closed])
    }
}

/// `I_mean`: the weighted mean of the closed intervals, or with the open one if that makes it longer (section 5.4).
fn mean_interval(open: f64, closed: &[f64]) -> f64 {
    let weights: f64 = WEIGHTS[..closed.len()].iter().sum();
    let weighted = |intervals: &mut dyn Iterator<Item = f64>| -> f64 {
        intervals.zip(WEIGHTS).map(|(interval, weight)| interval * weight).sum()
    };
    let with_open = weighted(&mut core::iter::once(open).chain(closed[..closed.len() - 1].iter().copied()));
    let without = weighted(&mut closed.iter().copied());
    with_open.max(without) / weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT: Span = Span::from_millis(100);

    fn at(sequence: u64) -> Time {
        Time::ZERO + Span::from_millis(10 * sequence)
    }

    /// Packets 0 to `count`, one every 10 ms, without those that `is_lost`.
    fn receive(count: u64, is_lost: impl Fn(u64) -> bool) -> LossHistory {
        let mut history = LossHistory::new(1000);
        for sequence in (0..count).filter(|&sequence| !is_lost(sequence)) {
            history.on_packet(sequence, false, RTT, 100_000.0, at(sequence));
        }
        history
    }

    #[test]
    fn a_loss_is_known_when_three_higher_packets_have_come() {
        assert_eq!(receive(13, |sequence| sequence == 10).loss_event_rate(), 0.0);
        assert!(receive(14, |sequence| sequence == 10).loss_event_rate() > 0.0);
    }

    #[test]
    fn reordering_by_two_is_no_loss() {
        let mut history = LossHistory::new(1000);
        for (position, sequence) in [0, 1, 3, 4, 2, 5, 8, 7, 6, 9, 10, 11, 12].into_iter().enumerate() {
            history.on_packet(sequence, false, RTT, 100_000.0, at(position as u64));
        }
        assert_eq!(history.loss_event_rate(), 0.0);
    }

    #[test]
    fn losses_within_a_round_trip_time_are_one_event() {
        // Packet 110 would have come 100 ms after 100, not more.
        let history = receive(200, |sequence| (100..=110).contains(&sequence));
        assert_eq!(history.closed, 1);
        assert_eq!(receive(200, |sequence| sequence == 100 || sequence == 111).closed, 2);
        assert_eq!(receive(200, |sequence| (100..=111).contains(&sequence)).closed, 2);
    }

    #[test]
    fn regular_losses_give_their_rate() {
        let history = receive(5_000, |sequence| sequence % 50 == 49);
        assert!((history.loss_event_rate() - 0.02).abs() < 1e-12, "{}", history.loss_event_rate());
    }

    #[test]
    fn the_mean_is_that_of_the_rfc() {
        // Sum of weights 6; I_tot1 = 10 (1 + 1 + 1 + 1 + 0.8 + 0.6 + 0.4 + 0.2).
        assert_eq!(mean_interval(1.0, &[10.0; 8]), 10.0);
        // The open one counts when it makes the mean longer: (40 + 10 * 5) / 6.
        assert_eq!(mean_interval(40.0, &[10.0; 8]), 15.0);
        // The newest count in full.
        let mut one_long = [10.0; 8];
        one_long[7] = 40.0;
        assert_eq!(mean_interval(1.0, &one_long), 11.0);
        assert_eq!(mean_interval(5.0, &[30.0]), 30.0);
    }

    #[test]
    fn the_first_interval_follows_from_the_rate_that_came_through() {
        let history = receive(20, |sequence| sequence == 10);
        let p = loss_event_rate(1000.0, 0.1, 100_000.0);
        assert!((history.loss_event_rate() / p - 1.0).abs() < 1e-9);
    }

    #[test]
    fn marks_count_as_losses() {
        let mut history = LossHistory::new(1000);
        for sequence in 0..1000 {
            history.on_packet(sequence, sequence % 100 == 99, RTT, 1e5, at(sequence));
        }
        assert!((history.loss_event_rate() - 0.01).abs() < 1e-12);
    }

    #[test]
    fn an_outage_of_hours_costs_no_more_than_what_is_looked_at() {
        let mut history = receive(100, |sequence| sequence == 50);
        for sequence in 10_000_000..10_000_010 {
            history.on_packet(sequence, false, RTT, 1e5, at(sequence));
        }
        // All intervals are a round-trip time long: 11 packets.
        assert!((history.loss_event_rate() - 1.0 / 11.0).abs() < 0.03, "{}", history.loss_event_rate());
    }

    proptest! {
        #[test]
        fn whatever_comes_in_whatever_order_the_rate_is_a_probability(
            packets in prop::collection::vec((0u64..400, any::<bool>(), 0u64..50), 1..400),
            rtt in 0u64..500,
        ) {
            let mut history = LossHistory::new(1000);
            let mut now = Time::ZERO;
            for (sequence, marked, wait) in packets {
                now += Span::from_millis(wait);
                history.on_packet(sequence, marked && wait == 0, Span::from_millis(rtt), 0.0, now);
                prop_assert!((0.0..=1.0).contains(&history.loss_event_rate()));
            }
        }
    }
}
