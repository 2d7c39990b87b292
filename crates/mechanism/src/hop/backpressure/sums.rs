//! What the outputs of a router together accept of each input. Half of all messages ask for it, and seldom has anything
//! changed meanwhile: a sum is kept until something does, and made of the outputs alone to which the input sends, always
//! in their order, so that it is rounded as if it were made of all.
//!
//! Source: Pazos and Gerla, section 4.2 (steps 2 and 1 of the virtual destination). Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::{BitRate, Time};

/// A sum that was made.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Which output was left out.
    without: u16,
    accepted: Option<BitRate>,
    /// It is that until then, unless there are more changes than so many.
    until: Time,
    changes: u64,
}

/// The sums of all inputs.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    made: Vec<Sum>,
    /// By input: the outputs to which it sends, ascending.
    ways: Vec<Vec<u16>>,
    /// How often the rate or the shares of an output changed.
    changes: u64,
}

impl Sums {
    pub(super) fn new(inputs: usize) -> Self {
        let none = Sum { without: 0, accepted: None, until: Time::ZERO, changes: 0 };
        Self { made: vec![none; inputs], ways: vec![Vec::new(); inputs], changes: 0 }
    }

    /// `input` contributes to `output` from now on.
    pub(super) fn on_way(&mut self, input: usize, output: u16) {
        if let Err(at) = self.ways[input].binary_search(&output) {
            self.ways[input].insert(at, output);
        }
        self.made[input].until = Time::ZERO;
    }

    /// An output has another rate, or other shares.
    pub(super) const fn on_change(&mut self) {
        self.changes += 1;
    }

    /// What all outputs but `without` accept of `input`; none if it sends to none of them. `of` says what one accepts, and
    /// until when that is so if nothing changes; none if the input does not contribute there any more.
    pub(super) fn accepted(
        &mut self,
        input: usize,
        without: u16,
        now: Time,
        mut of: impl FnMut(u16) -> Option<(f64, Time)>,
    ) -> Option<BitRate> {
        let sum = &mut self.made[input];
        if sum.without == without && sum.changes == self.changes && now < sum.until {
            return sum.accepted;
        }
        let (mut total, mut until) = (None, Time::MAX);
        self.ways[input].retain(|&output| {
            let Some((accepts, same_until)) = of(output) else { return false };
            if output != without {
                total = Some(total.unwrap_or(0.0) + accepts);
                until = until.min(same_until);
            }
            true
        });
        let accepted = total.map(BitRate::from_bytes_per_second_f64);
        *sum = Sum { without, accepted, until, changes: self.changes };
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn a_sum_looks_at_the_outputs_of_its_input_alone_and_again_only_after_a_change() {
        const PORTS: u16 = 1000;
        // All send to the first output, and the first input to all.
        let mut sums = Sums::new(usize::from(PORTS));
        for port in 0..PORTS {
            sums.on_way(usize::from(port), 0);
            sums.on_way(0, port);
        }
        let looks = Cell::new(0);
        let ask = |of: &mut Sums, input, now| {
            looks.set(0);
            let accepted = of.accepted(input, PORTS, at(now), |_| {
                looks.set(looks.get() + 1);
                Some((100.0, at(50)))
            });
            (looks.get(), accepted.map(BitRate::as_bytes_per_second_f64))
        };
        assert_eq!(ask(&mut sums, 0, 1), (1000, Some(100_000.0)));
        for input in 1..usize::from(PORTS) {
            assert_eq!(ask(&mut sums, input, 1), (1, Some(100.0)));
            assert_eq!(ask(&mut sums, input, 49), (0, Some(100.0)));
        }
        assert_eq!(ask(&mut sums, 0, 49).0, 0);
        assert_eq!(ask(&mut sums, 0, 50).0, 1000, "one might not contribute any more");
        // Hosts are one input with many ports.
        let without_third = sums.accepted(0, 3, at(1), |_| Some((100.0, at(50))));
        assert_eq!(without_third.map(BitRate::as_bytes_per_second_f64), Some(99_900.0));
        sums.on_way(7, 9);
        assert_eq!(ask(&mut sums, 7, 1), (2, Some(200.0)));
        assert_eq!(ask(&mut sums, 8, 1).0, 0, "it is the way of another");
        sums.on_change();
        assert_eq!(ask(&mut sums, 8, 1).0, 1);
    }

    #[test]
    fn outputs_that_an_input_left_are_not_looked_at_again() {
        let mut sums = Sums::new(1);
        (0..10).for_each(|output| sums.on_way(0, output));
        let even = |output: u16| output.is_multiple_of(2).then_some((1.0, at(9)));
        assert_eq!(sums.accepted(0, 4, at(1), even), Some(BitRate::from_bps(32)), "but for its own");
        sums.on_change();
        let mut seen = Vec::new();
        let accepted = sums.accepted(0, 4, at(1), |output| {
            seen.push(output);
            None
        });
        assert_eq!((accepted, seen), (None, vec![0, 2, 4, 6, 8]));
        assert_eq!(sums.accepted(0, 4, at(9), |_| unreachable!("it left all")), None);
    }
}
