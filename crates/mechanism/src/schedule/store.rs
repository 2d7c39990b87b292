//! The packets of many queues in one place: each queue is a chain through it, so that memory is for what waits in all queues
//! together, and not for what may wait in each.
//!
//! Source: none; linked lists. Deviations: none.

use alloc::vec::Vec;

use tidegate_packet::Packet;

const NONE: u32 = u32::MAX;

/// Packets, and which one is behind each.
#[derive(Clone, Debug)]
pub(super) struct Store {
    packets: Vec<Packet>,
    behind: Vec<u32>,
    /// The first place that is free; the next one is behind it.
    free: u32,
}

/// The packets of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.first == NONE
    }
}

impl Store {
    pub(super) const fn new() -> Self {
        Self { packets: Vec::new(), behind: Vec::new(), free: NONE }
    }

    /// `packet` joins `chain` at its end.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, packet: Packet) {
        let place = self.free;
        let place = if place == NONE {
            self.packets.push(packet);
            self.behind.push(NONE);
            self.packets.len() as u32 - 1
        } else {
            self.free = self.behind[place as usize];
            self.packets[place as usize] = packet;
            self.behind[place as usize] = NONE;
            place
        };
        if chain.is_empty() {
            chain.first = place;
        } else {
            self.behind[chain.last as usize] = place;
        }
        chain.last = place;
    }

    /// The first packet of `chain`.
    #[inline]
    pub(super) fn first(&self, chain: Chain) -> Option<&Packet> {
        self.packets.get(chain.first as usize)
    }

    /// The last packet of `chain`.
    pub(super) fn last(&self, chain: Chain) -> Option<&Packet> {
        if chain.is_empty() { None } else { self.packets.get(chain.last as usize) }
    }

    /// Takes the first packet off `chain`.
    #[inline]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        let place = chain.first;
        let packet = *self.packets.get(place as usize)?;
        chain.first = core::mem::replace(&mut self.behind[place as usize], self.free);
        self.free = place;
        Some(packet)
    }

    /// The packets of `chain`, from its first on.
    pub(super) fn iter(&self, chain: Chain) -> impl Iterator<Item = &Packet> {
        let mut place = chain.first;
        core::iter::from_fn(move || {
            let packet = self.packets.get(place as usize)?;
            place = self.behind[place as usize];
            Some(packet)
        })
    }

    /// Takes the packet off `chain` that has `number` in front of it.
    pub(super) fn remove(&mut self, chain: &mut Chain, number: usize) -> Option<Packet> {
        if number == 0 {
            return self.pop(chain);
        }
        let mut before = chain.first;
        for _ in 1..number {
            before = *self.behind.get(before as usize)?;
        }
        let mut rest = Chain { first: *self.behind.get(before as usize)?, last: chain.last };
        let taken = rest.first;
        let packet = self.pop(&mut rest)?;
        self.behind[before as usize] = rest.first;
        if chain.last == taken {
            chain.last = before;
        }
        Some(packet)
    }

    /// Places in memory, used or free.
    #[cfg(test)]
    pub(super) const fn places(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;
    use tidegate_packet::FlowId;

    proptest! {
        #[test]
        fn chains_are_fifos_and_places_are_used_again(calls in prop::collection::vec((0usize..4, 0u8..4, 0usize..4), 1..400)) {
            let mut store = Store::new();
            let mut chains = [Chain::EMPTY; 4];
            let mut model: [VecDeque<u32>; 4] = Default::default();
            let mut most = 0;
            for (number, (queue, call, place)) in (0u32..).zip(calls) {
                if call == 3 {
                    let removed = store.remove(&mut chains[queue], place).map(|packet| packet.slot);
                    prop_assert_eq!(removed, model[queue].remove(place));
                } else if call < 2 {
                    store.push(&mut chains[queue], Packet::new(number, FlowId(0), 100));
                    model[queue].push_back(number);
                } else {
                    let popped = store.pop(&mut chains[queue]).map(|packet| packet.slot);
                    prop_assert_eq!(popped, model[queue].pop_front());
                }
                let listed: Vec<_> = store.iter(chains[queue]).map(|packet| packet.slot).collect();
                prop_assert!(listed.iter().eq(&model[queue]));
                prop_assert_eq!(store.first(chains[queue]).map(|packet| packet.slot), model[queue].front().copied());
                prop_assert_eq!(chains[queue].is_empty(), model[queue].is_empty());
                most = most.max(model.iter().map(VecDeque::len).sum());
                prop_assert_eq!(store.places(), most, "no more places than waited at once");
            }
        }
    }
}
