//! Virtual Queueing: one FIFO that discards as if each flow had a queue of its own, served in turn.
//!
//! When a buffer that flows share is long, discarding whatever comes next hits flows by the phase of their bursts, and one flow
//! may hold most of the buffer. Virtual Queueing counts for each flow what round-robin service would have left of it, while
//! packets really leave in order of arrival, and discards only packets of flows whose count is above an equal part. So it is
//! fair at the cost of a counter for each flow instead of a queue.
//!
//! Source: Siu, Wu and Ren, Virtual queueing techniques for UBR+ service in ATM, GLOBECOM 1997, and Wu, Siu and Ren, Improved virtual
//! queueing and dynamic EPD techniques for TCP over ATM, ICNP 1997, as Pazos and Gerla, section 4, name them.
//!
//! Deviations: the papers are not at hand; what is settled here follows their abstracts and their common description.
//! - A count grows by what its flow puts into the buffer. What leaves the buffer, of whatever flow, is taken from the counts that
//!   are not zero, in turn and cell by cell: in the limit of small cells, in equal parts.
//! - A packet is discarded as a whole (as Early Packet Discard does) if its first cell finds the buffer above the threshold
//!   and its flow's count above the threshold over the number of flows with a count, itself included. The published
//!   schemes adapt the threshold and guarantee minimum rates; here it is fixed.

use alloc::vec::Vec;

use tidegate_packet::FlowId;

/// The counts of the flows that share one buffer, in any unit. As many flows have a count as have something in the buffer, at most.
#[derive(Clone, Debug)]
pub struct VirtualQueues {
    /// None of them is zero.
    queues: Vec<(FlowId, u128)>,
}

/// Whether a flow holds more than an equal part of `threshold` among `active` flows.
pub const fn exceeds_its_part(own: u128, threshold: u128, active: u32) -> bool {
    own * active as u128 > threshold
}

impl VirtualQueues {
    /// All empty. Memory for `flows` at once is set aside.
    pub fn with_room(flows: usize) -> Self {
        Self { queues: Vec::with_capacity(flows) }
    }

    /// What is counted for `flow`.
    pub fn of(&self, flow: FlowId) -> u128 {
        self.queues.iter().find(|(of, _)| *of == flow).map_or(0, |&(_, count)| count)
    }

    /// Whether a packet of `flow` is to be discarded when the buffer is above `threshold`.
    pub fn discards(&self, flow: FlowId, threshold: u128) -> bool {
        let own = self.of(flow);
        let active = self.queues.len() as u32 + u32::from(own == 0);
        exceeds_its_part(own, threshold, active)
    }

    /// So much of `flow` came into the buffer.
    pub fn join(&mut self, flow: FlowId, amount: u128) {
        if amount == 0 {
            return;
        }
        match self.queues.iter_mut().find(|(of, _)| *of == flow) {
            Some((_, count)) => *count += amount,
            None => self.queues.push((flow, amount)),
        }
    }

    /// So much left the buffer, of whatever flow.
    pub fn serve(&mut self, mut amount: u128) {
        while amount > 0 && !self.queues.is_empty() {
            let active = self.queues.len() as u128;
            let shortest = self.queues.iter().map(|&(_, count)| count).min().unwrap_or(0);
            let part = shortest.min(amount / active);
            // Less than one unit for each: the first ones have their turn.
            let turns = if part == 0 { amount as usize } else { self.queues.len() };
            let each = part.max(1);
            for (_, count) in self.queues.iter_mut().take(turns) {
                *count -= each;
            }
            amount -= each * turns as u128;
            self.queues.retain(|&(_, count)| count > 0);
        }
    }

    /// The buffer is empty.
    pub fn clear(&mut self) {
        self.queues.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: FlowId = FlowId(1);
    const B: FlowId = FlowId(2);
    const C: FlowId = FlowId(3);

    #[test]
    fn service_is_in_turn_whatever_really_left() {
        let mut queues = VirtualQueues::with_room(3);
        queues.join(A, 100);
        queues.join(B, 40);
        queues.join(C, 10);
        queues.serve(30);
        assert_eq!([A, B, C].map(|flow| queues.of(flow)), [90, 30, 0]);
        queues.serve(70);
        assert_eq!([A, B].map(|flow| queues.of(flow)), [50, 0]);
        queues.serve(80);
        assert_eq!(queues.of(A), 0, "there is nothing more to take");
    }

    #[test]
    fn only_who_holds_more_than_an_equal_part_is_discarded() {
        let mut queues = VirtualQueues::with_room(3);
        queues.join(A, 51);
        queues.join(B, 49);
        assert!(queues.discards(A, 100) && !queues.discards(B, 100));
        assert!(!queues.discards(C, 100), "it holds nothing");
    }

    proptest! {
        #[test]
        fn counts_sum_to_the_buffer(steps in prop::collection::vec((0u32..6, 0u128..1000, 0u128..2000), 1..80)) {
            let mut queues = VirtualQueues::with_room(6);
            let mut buffer = 0;
            for (flow, joined, left) in steps {
                queues.join(FlowId(flow), joined);
                queues.serve(left);
                buffer = (buffer + joined).saturating_sub(left);
                let sum: u128 = (0..6).map(|of| queues.of(FlowId(of))).sum();
                prop_assert_eq!(sum, buffer);
                prop_assert!(queues.queues.len() <= 6);
            }
        }
    }
}
