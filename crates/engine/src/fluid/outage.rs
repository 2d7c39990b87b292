//! What becomes of fluids on a link that goes down.

use super::{Class, FluidLink};

impl FluidLink {
    /// It went down in the last step: what waits, what has joined since and what travels behind it is lost, as packets are.
    pub(super) fn lose_all(&mut self, classes: &mut [Class], step_s: f64) {
        self.push(step_s, 0.0);
        self.joins.fill(0.0);
        let width = self.slots + 1;
        for (slot, &(class, hop)) in self.members.iter().enumerate() {
            let class = &mut classes[class];
            let waited: f64 = self.waiting.iter().skip(slot).step_by(width).sum();
            let lost = waited + class.lose_behind(hop, step_s);
            class.counters.lost_bytes += lost;
            self.counters.lost_bytes += lost;
        }
        self.waiting.clear();
    }
}

impl Class {
    /// What travels from link number `hop` of the way to the next one is gone; how many bytes. Behind the last one nothing travels: it
    /// has arrived.
    fn lose_behind(&mut self, hop: usize, step_s: f64) -> f64 {
        let Some(next) = self.hops.get_mut(hop + 1) else { return 0.0 };
        let lost = next.travelling.iter().sum::<f64>() * step_s;
        next.travelling.iter_mut().for_each(|rate| *rate = 0.0);
        lost
    }
}
