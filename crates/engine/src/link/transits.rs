//! The packets on a wire, first in first out.
//!
//! A ring as of the standard library, but that it is compiled into the event loop as a whole, that a packet can be read
//! where it lies, and that the first packet lies beside the ring, not in it: it is what every event of the link is about, and
//! most links that are not bottlenecks never hold another one.

use tidegate_packet::{FlowId, Packet};
use tidegate_units::Time;

/// A packet that waits, is in transmission, or travels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) packet: Packet,
    /// When its last bit is sent.
    pub(super) ends: Time,
    /// Where it stands in its flow's route.
    pub(super) route: u32,
}

/// What empty places hold.
const NOTHING: Transit = Transit { packet: Packet::new(0, FlowId(0), 0), ends: Time::MAX, route: 0 };

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Transits {
    /// The packet at the front; means nothing if there is none.
    front: Transit,
    /// The place of the second packet.
    second: u32,
    /// All together.
    len: u32,
    /// Places for the others: none, or a power of two of them.
    places: Box<[Transit]>,
}

impl Default for Transits {
    fn default() -> Self {
        Self { front: NOTHING, second: 0, len: 0, places: Box::default() }
    }
}

#[expect(clippy::inline_always, reason = "each runs several times per packet and hop")]
impl Transits {
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of the packet that is `position` behind the second.
    #[inline(always)]
    fn place(&self, position: usize) -> usize {
        (self.second as usize + position) & self.places.len().wrapping_sub(1)
    }

    /// The packet at `position` from the front.
    #[inline(always)]
    pub(super) fn get(&self, position: usize) -> Option<&Transit> {
        if position >= self.len() {
            None
        } else if position == 0 {
            Some(&self.front)
        } else {
            self.places.get(self.place(position - 1))
        }
    }

    /// The same, to change.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Transit> {
        if position >= self.len() {
            None
        } else if position == 0 {
            Some(&mut self.front)
        } else {
            let place = self.place(position - 1);
            self.places.get_mut(place)
        }
    }

    /// The packet at the front; what is there if there is none means nothing.
    #[inline(always)]
    pub(super) const fn first(&self) -> &Transit {
        &self.front
    }

    /// The packet behind that at the front.
    #[inline(always)]
    pub(super) fn second(&self) -> Option<&Transit> {
        if self.len > 1 { Some(&self.places[self.second as usize]) } else { None }
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, transit: Transit) {
        *self.push_place() = transit;
    }

    /// One more is at the end: its place, which is to be filled.
    #[inline(always)]
    pub(super) fn push_place(&mut self) -> &mut Transit {
        let before = self.len();
        self.len += 1;
        if before == 0 {
            return &mut self.front;
        }
        if before > self.places.len() {
            self.grow();
        }
        let place = self.place(before - 1);
        &mut self.places[place]
    }

    /// Takes the packet at the front away, which must be there.
    #[inline(always)]
    pub(super) fn drop_first(&mut self) {
        debug_assert!(self.len > 0, "nothing is on the wire");
        self.len -= 1;
        if self.len > 0 {
            self.front = self.places[self.second as usize];
            self.second = self.place(1) as u32;
        }
    }

    #[inline(always)]
    pub(super) fn pop_front(&mut self) -> Option<Transit> {
        let transit = *self.get(0)?;
        self.drop_first();
        Some(transit)
    }

    #[cold]
    fn grow(&mut self) {
        self.places.rotate_left(self.second as usize);
        self.second = 0;
        let places = (2 * self.places.len()).max(4);
        assert!(u32::try_from(places).is_ok(), "fewer than 2^32 packets are on one wire");
        let mut more = Vec::with_capacity(places);
        more.extend_from_slice(&self.places);
        more.resize(places, NOTHING);
        self.places = more.into_boxed_slice();
    }

    /// Takes out the packet at `position`.
    pub(super) fn remove(&mut self, position: usize) -> Option<Transit> {
        if position == 0 {
            return self.pop_front();
        }
        let removed = *self.get(position)?;
        for behind in position..self.len() - 1 {
            let (to, from) = (self.place(behind - 1), self.place(behind));
            self.places[to] = self.places[from];
        }
        self.len -= 1;
        Some(removed)
    }

    /// All, from the front.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Transit> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Takes out all, from the front.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Transit> {
        core::iter::from_fn(|| self.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn numbered(route: u32) -> Transit {
        Transit { route, ..NOTHING }
    }

    proptest! {
        #[test]
        fn it_behaves_like_the_standard_library_s(steps in prop::collection::vec((0u8..8, 0usize..12), 0..300)) {
            let mut transits = Transits::default();
            let mut reference = VecDeque::new();
            for (serial, (kind, position)) in steps.into_iter().enumerate() {
                match kind {
                    0..=4 => {
                        transits.push_back(numbered(serial as u32));
                        reference.push_back(serial as u32);
                    }
                    5 => prop_assert_eq!(transits.pop_front().map(|t| t.route), reference.pop_front()),
                    6 => {
                        let removed = transits.remove(position).map(|t| t.route);
                        prop_assert_eq!(removed, reference.remove(position));
                    }
                    _ => {
                        if let Some(transit) = transits.get_mut(position) {
                            transit.route += 1000;
                        }
                        if let Some(route) = reference.get_mut(position) {
                            *route += 1000;
                        }
                    }
                }
                prop_assert_eq!(transits.len(), reference.len());
                prop_assert_eq!(transits.second().map(|t| t.route), reference.get(1).copied());
                prop_assert_eq!(transits.is_empty(), reference.is_empty());
                prop_assert!(transits.iter().map(|t| t.route).eq(reference.iter().copied()));
                prop_assert!(transits.iter().rev().map(|t| t.route).eq(reference.iter().rev().copied()));
                prop_assert_eq!(transits.get(position).map(|t| t.route), reference.get(position).copied());
                if let Some(&front) = reference.front() {
                    prop_assert_eq!(transits.first().route, front);
                }
            }
            prop_assert!(transits.drain().map(|t| t.route).eq(reference.drain(..)));
            prop_assert!(transits.is_empty());
        }
    }
}
