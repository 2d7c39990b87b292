//! What each input of a router offers an output, and the part of the output that it may use.
//!
//! A router has as many of these entries as pairs of ports, but few inputs send to an output at a time: what is asked
//! after each message or period looks at those alone.
//!
//! Source: Pazos and Gerla, section 4.2; what happens to shares is in [`super`].
//! Deviations: none.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use tidegate_units::{Span, Time};

use super::law::Offered;

/// One input.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// When it last offered something; means nothing before it is known.
    seen: Time,
    /// What it offered in this period.
    offered: u64,
    /// `AS`, as of the division `divided`. In a later one it had no part.
    share: f64,
    divided: u32,
    /// Whether it is among those that contributed when that was last looked at.
    is_known: bool,
}

/// All inputs at one output.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    all: Vec<Input>,
    /// Those that are known, and until when they contribute at least.
    known: BinaryHeap<Reverse<(Time, u16)>>,
    /// Those that offered something in this period.
    offering: Vec<u16>,
    /// How often the output was divided, modulo 2^32.
    divisions: u32,
    /// How long after its last packet an input contributes.
    hold: Span,
}

/// Room for what the law of the shares is told, kept between periods.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    pub(super) offered: Vec<Offered>,
    pub(super) shares: Vec<f64>,
}

impl Inputs {
    /// So many inputs, which begin with the same `share`.
    pub(super) fn new(count: usize, share: f64, hold: Span) -> Self {
        let input = Input { seen: Time::ZERO, offered: 0, share, divided: 0, is_known: false };
        let (known, offering) = (BinaryHeap::new(), Vec::new());
        Self { all: vec![input; count], known, offering, divisions: 0, hold }
    }

    /// `input` offers `bytes`; whether it did not contribute before.
    pub(super) fn on_arrival(&mut self, input: usize, bytes: u32, now: Time) -> bool {
        let is_new = !self.contributes(input, now);
        let at = &mut self.all[input];
        if at.offered == 0 && bytes > 0 {
            self.offering.push(input as u16);
        }
        at.offered += u64::from(bytes);
        at.seen = now;
        if !at.is_known {
            at.is_known = true;
            self.known.push(Reverse((now.saturating_add(self.hold), input as u16)));
        }
        is_new
    }

    /// Whether `input` offered something within `hold`.
    pub(super) fn contributes(&self, input: usize, now: Time) -> bool {
        let at = &self.all[input];
        at.is_known && now.since(at.seen) < self.hold
    }

    /// Until when `input` contributes if nothing more comes of it.
    pub(super) fn contributes_until(&self, input: usize) -> Time {
        self.all[input].seen.saturating_add(self.hold)
    }

    /// How many inputs contribute.
    pub(super) fn count(&mut self, now: Time) -> usize {
        while let Some(&Reverse((said, input))) = self.known.peek()
            && said <= now
        {
            self.known.pop();
            let at = &mut self.all[usize::from(input)];
            let until = at.seen.saturating_add(self.hold);
            at.is_known = until > now;
            if at.is_known {
                self.known.push(Reverse((until, input)));
            }
        }
        self.known.len()
    }

    /// `AS` of `input`.
    pub(super) fn share(&self, input: usize) -> f64 {
        let at = &self.all[input];
        if at.divided == self.divisions { at.share } else { 0.0 }
    }

    /// Gives `input` another share, until the next division.
    pub(super) fn set_share(&mut self, input: usize, share: f64) {
        let at = &mut self.all[input];
        (at.share, at.divided) = (share, self.divisions);
    }

    /// A period is over: `law` divides the output among those that contribute, or says that there is nothing to divide.
    /// They are in no order, which does not matter: their bytes are whole numbers, whose sums are exact.
    pub(super) fn divide(
        &mut self,
        now: Time,
        room: &mut Room,
        law: impl FnOnce(&[Offered], &mut [f64]) -> bool,
    ) {
        self.count(now);
        room.offered.clear();
        room.shares.clear();
        for &Reverse((_, input)) in &self.known {
            let bytes = self.all[usize::from(input)].offered as f64;
            room.offered.push(Offered { bytes, contributes: true });
            room.shares.push(self.share(usize::from(input)));
        }
        for input in self.offering.drain(..) {
            self.all[usize::from(input)].offered = 0;
        }
        if law(&room.offered, &mut room.shares) {
            self.divisions = self.divisions.wrapping_add(1);
            for (&Reverse((_, input)), &share) in self.known.iter().zip(&room.shares) {
                let at = &mut self.all[usize::from(input)];
                (at.share, at.divided) = (share, self.divisions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Excess, law};
    use super::*;
    use proptest::prelude::*;

    const HOLD: Span = Span::from_millis(25);

    /// The same, as it would be with a look at all inputs for each question.
    struct Plain {
        seen: Vec<Option<Time>>,
        offered: Vec<u64>,
        shares: Vec<f64>,
    }

    impl Plain {
        fn contributes(&self, input: usize, now: Time) -> bool {
            self.seen[input].is_some_and(|at| now.since(at) < HOLD)
        }

        fn divide(&mut self, tf: f64, now: Time) {
            let of = |input: usize| Offered {
                bytes: self.offered[input] as f64,
                contributes: self.contributes(input, now),
            };
            let offered: Vec<Offered> = (0..self.seen.len()).map(of).collect();
            law::actual_shares(tf, 10.0, 0.1, Excess::OverTold, &offered, &mut self.shares);
            self.offered.fill(0);
        }
    }

    proptest! {
        #[test]
        fn agrees_to_the_last_bit_with_a_look_at_all(
            steps in prop::collection::vec((0u8..10, 0usize..9, 0u32..3000), 1..300),
            gets_equal_part in any::<bool>(),
        ) {
            let mut inputs = Inputs::new(9, 0.125, HOLD);
            let mut plain = Plain { seen: vec![None; 9], offered: vec![0; 9], shares: vec![0.125; 9] };
            let (mut now, mut room) = (Time::ZERO, Room::default());
            for (what, input, number) in steps {
                match what {
                    // Often short, at times longer than what is held.
                    0 => now += Span::from_millis(u64::from(number) % 40),
                    1 => {
                        let tf = f64::from(number / 100 * 100);
                        inputs.divide(now, &mut room, |offered, shares| {
                            law::actual_shares(tf, 10.0, 0.1, Excess::OverTold, offered, shares)
                        });
                        plain.divide(tf, now);
                    }
                    _ => {
                        let is_new = !plain.contributes(input, now);
                        plain.seen[input] = Some(now);
                        plain.offered[input] += u64::from(number);
                        prop_assert_eq!(inputs.on_arrival(input, number, now), is_new);
                        if is_new && gets_equal_part {
                            let count = (0..9).filter(|&other| plain.contributes(other, now)).count();
                            prop_assert_eq!(inputs.count(now), count);
                            plain.shares[input] = 1.0 / count as f64;
                            inputs.set_share(input, 1.0 / count as f64);
                        }
                    }
                }
                for each in 0..9 {
                    prop_assert_eq!(inputs.contributes(each, now), plain.contributes(each, now));
                    prop_assert_eq!(inputs.share(each).to_bits(), plain.shares[each].to_bits());
                }
            }
        }
    }

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// At how many inputs the law looks after a period.
    fn looked_at(inputs: &mut Inputs, now: Time) -> usize {
        let mut count = 0;
        inputs.divide(now, &mut Room::default(), |offered, _| {
            count = offered.len();
            true
        });
        count
    }

    #[test]
    fn a_period_looks_at_those_that_contribute_alone() {
        let mut inputs = Inputs::new(1000, 0.001, HOLD);
        assert_eq!(looked_at(&mut inputs, at(0)), 0);
        assert!((0..1000).all(|input| inputs.on_arrival(input, 64, at(1))), "all are new");
        assert_eq!(looked_at(&mut inputs, at(10)), 1000);
        assert!((0..3).all(|input| !inputs.on_arrival(input, 64, at(20))), "they are not");
        assert_eq!(looked_at(&mut inputs, at(30)), 3);
        assert_eq!(inputs.share(999).to_bits(), 0.0_f64.to_bits(), "it had no part");
        assert_eq!(looked_at(&mut inputs, at(60)), 0);
    }

    #[test]
    fn an_entry_has_the_size_that_the_laws_of_growth_count() {
        assert_eq!(size_of::<Input>(), 32); // docs/scale_laws.py
    }
}
