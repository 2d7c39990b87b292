//! When a packet thread begins its next round: apart where much goes, so that many packets go with one call, and without having slept
//! where an answer is likely to come at once.
//!
//! A thread that sleeps is woken some tens of microseconds after a packet has come, and a round trip through two gateways has four such
//! wakes. Two of them are of the answer, which comes soon after the question. So a thread that has passed on a packet looks on for a
//! moment for one that goes the other way, in place of sleeping (busy polling), for no more than a share of a processor. Without
//! packets it does nothing, whatever gateways say to each other.

use tidegate_units::{Span, Time};

use crate::core::store::Way;

/// Much is so many outputs in a millisecond: some 100 Mbit/s. Then a round begins no sooner than [`Pace::together`] after the one
/// before, so that there is more in it: at 500 Mbit/s in a millisecond 40 packets, which go with one call. Queues get as much longer.
const MUCH: u32 = 8;
const MILLISECOND: Span = Span::from_millis(1);
/// So long it may look on: hosts and the other site have answered by then, if they are near.
const LOOKS_ON: Span = Span::from_micros(400);
/// What is due so soon is waited for so as well: a timer's wake is as late.
const SOON: Span = Span::from_micros(100);
/// What was not used of the share is not kept beyond this.
const CREDIT_MAX: Span = Span::from_millis(2);

/// What the file says of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// How far apart rounds begin where much goes: so long what is due may wait for more to go with it.
    pub together: Span,
    /// The share of a processor that looking on may take.
    pub busy_poll: f64,
}

/// See the module.
#[derive(Debug)]
pub struct Rounds {
    pace: Pace,
    /// When this millisecond began, and outputs in it and per millisecond before.
    counted: (Time, u32, u32),
    /// Which ways packets have passed in this round.
    passed: [bool; 2],
    /// Which way an answer would go, and until when it is waited for.
    answer: Option<(Way, Time)>,
    /// What is left of its share, and up to when that is reckoned.
    credit: Span,
    reckoned: Time,
}

impl Rounds {
    /// Of a thread that begins.
    pub const fn new(pace: Pace) -> Self {
        Self {
            pace,
            counted: (Time::ZERO, 0, 0),
            passed: [false; 2],
            answer: None,
            credit: Span::ZERO,
            reckoned: Time::ZERO,
        }
    }

    /// What the file says from now on.
    pub const fn change(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// See [`Pace::together`].
    pub const fn together(&self) -> Span {
        self.pace.together
    }

    /// A packet or datagram leaves.
    pub const fn count(&mut self) {
        self.counted.1 += 1;
    }

    /// Whether much goes.
    pub fn has_much(&mut self, now: Time) -> bool {
        let elapsed = now.since(self.counted.0);
        if elapsed >= MILLISECOND {
            // Who asks does so once per round, so that it may be long over: whole milliseconds share what was counted.
            let milliseconds = elapsed.as_nanos() / MILLISECOND.as_nanos();
            let each = u64::from(self.counted.1) / milliseconds;
            let each = u32::try_from(each).unwrap_or(u32::MAX);
            // One round in which nothing came is no end of it: what there was fades by half in each millisecond.
            let faded =
                self.counted.2.checked_shr(u32::try_from(milliseconds).unwrap_or(u32::MAX)).unwrap_or(0);
            self.counted = (now, 0, each.max(faded));
        }
        let (_, count, before) = self.counted;
        count.max(before) >= MUCH
    }

    /// A packet passes `way`.
    pub const fn on_packet(&mut self, way: Way) {
        self.passed[way as usize] = true;
    }

    /// A round ends, and something is due at `due`: for how long it may look on in place of sleeping.
    pub fn looks_on(&mut self, now: Time, due: Time) -> Span {
        for (way, back) in [(Way::In, Way::Out), (Way::Out, Way::In)] {
            if std::mem::take(&mut self.passed[way as usize]) {
                let is_answer = self.answer.is_some_and(|(awaited, until)| awaited == way && now < until);
                self.answer = (!is_answer).then(|| (back, now + LOOKS_ON));
            }
        }
        let earned = now.since(self.reckoned).as_secs_f64() * self.pace.busy_poll;
        self.credit = (self.credit + Span::from_secs_f64(earned)).min(CREDIT_MAX);
        self.reckoned = now;
        let soon = Some(due.since(now)).filter(|&wait| wait <= SOON).unwrap_or(Span::ZERO);
        let left = self.answer.map_or(soon, |(_, until)| until.since(now).max(soon));
        if self.has_much(now) { Span::ZERO } else { left.min(self.credit) }
    }

    /// It has looked on for so long.
    pub fn on_looked(&mut self, span: Span) {
        self.credit = Span::from_nanos(self.credit.as_nanos().saturating_sub(span.as_nanos()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Pace = Pace { together: MILLISECOND, busy_poll: 0.5 };

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn it_looks_on_after_a_question_and_sleeps_without_and_after_the_answer() {
        let mut rounds = Rounds::new(HALF);
        assert_eq!(rounds.looks_on(at(10_000), Time::MAX), Span::ZERO);
        for (question, answer) in [(Way::Out, Way::In), (Way::In, Way::Out)] {
            rounds.on_packet(question);
            assert_eq!(rounds.looks_on(at(10_000), Time::MAX), LOOKS_ON);
            assert_eq!(rounds.looks_on(at(10_300), Time::MAX), Span::from_micros(100));
            assert_eq!(rounds.looks_on(at(10_400), Time::MAX), Span::ZERO);
            // More of the same is another question.
            rounds.on_packet(question);
            assert_eq!(rounds.looks_on(at(10_500), Time::MAX), LOOKS_ON);
            assert_eq!(rounds.looks_on(at(10_600), Time::MAX), Span::from_micros(300));
            rounds.on_packet(answer);
            assert_eq!(rounds.looks_on(at(10_600), Time::MAX), Span::ZERO);
        }
    }

    #[test]
    fn it_does_not_sleep_for_what_is_due_soon() {
        let mut rounds = Rounds::new(HALF);
        assert_eq!(rounds.looks_on(at(10_000), at(10_070)), Span::from_micros(70));
        assert_eq!(rounds.looks_on(at(10_000), at(10_101)), Span::ZERO);
        assert_eq!(rounds.looks_on(at(10_000), at(9_000)), Span::ZERO);
        rounds.on_packet(Way::Out);
        assert_eq!(rounds.looks_on(at(10_000), at(10_070)), LOOKS_ON);
    }

    #[test]
    fn what_comes_too_late_to_be_an_answer_is_a_question() {
        let mut rounds = Rounds::new(HALF);
        rounds.on_packet(Way::Out);
        rounds.looks_on(at(10_000), Time::MAX);
        rounds.on_packet(Way::In);
        rounds.looks_on(at(10_000) + LOOKS_ON, Time::MAX);
        assert_eq!(rounds.looks_on(at(10_500), Time::MAX), Span::from_micros(300));
    }

    #[test]
    fn where_much_goes_it_does_not_look_on() {
        let mut rounds = Rounds::new(HALF);
        rounds.on_packet(Way::Out);
        assert!(!rounds.has_much(at(10_000)));
        (0..MUCH).for_each(|_| rounds.count());
        assert_eq!(rounds.looks_on(at(10_100), Time::MAX), Span::ZERO);
        // In the millisecond after that it counts, then it is forgotten.
        assert!(rounds.has_much(at(11_500)));
        rounds.on_packet(Way::Out);
        assert_eq!(rounds.looks_on(at(12_900), Time::MAX), LOOKS_ON);
    }

    #[test]
    fn rounds_that_are_late_have_as_much() {
        let mut rounds = Rounds::new(HALF);
        (0..10 * MUCH).for_each(|_| rounds.count());
        assert!(rounds.has_much(at(2_500)), "ten times as much in two milliseconds");
        (0..10 * MUCH).for_each(|_| rounds.count());
        assert!(!rounds.has_much(at(22_600)), "a pause is none");
    }

    #[test]
    fn however_often_packets_come_it_takes_no_more_than_its_share() {
        for busy_poll in [0.0, 0.03, 0.5, 1.0] {
            let mut rounds = Rounds::new(Pace { busy_poll, ..HALF });
            let (mut now, mut looked) = (at(1000), Span::ZERO);
            let ends = at(1_001_000);
            while now < ends {
                rounds.on_packet(Way::Out);
                let span = rounds.looks_on(now, Time::MAX);
                rounds.on_looked(span);
                looked += span;
                now = now + span + Span::from_micros(7);
            }
            // What was saved before may be used as well.
            let most = ends.since(at(0)).as_secs_f64() * busy_poll + CREDIT_MAX.as_secs_f64();
            assert!(looked.as_secs_f64() <= most, "{busy_poll}: {looked}");
            assert!(
                busy_poll == 0.0 || looked.as_secs_f64() > 0.9 * busy_poll.min(0.9),
                "{busy_poll}: {looked}"
            );
        }
    }
}
