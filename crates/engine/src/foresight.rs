//! Fetching ahead what the next events touch.
//!
//! A million flows have gigabytes of state, of which each event touches a few lines that no cache has: a link, the program of its packet,
//! what the packet carries, the next link or the connection, its flow. Each is found by the one before, so that an event waits for memory
//! five times. The event queue finds out in passing what some dozens of the next events are; here all of them take these
//! five steps together, so that their waits overlap.

use core::mem::offset_of;

use prefetch_index::prefetch_index;

use crate::event::{Token, UPCOMING_MAX};
use crate::link::Link;
use crate::observer::Observer;
use crate::program::Step;
use crate::simulation::{Connection, Flow, Simulation};
use crate::world::Wake;

/// Fewer links and connections find room in the caches, and it would only cost.
const MANY: usize = 1 << 15;
const LINE_BYTES: usize = 64;
/// What a packet touches of a link.
const LINK_LINES: usize = 4;

/// Fetches so many lines of the item in which `word` stands at offset `at`. (The library takes any index, for fetching is not reading.)
#[expect(clippy::inline_always, reason = "it is one instruction for each line")]
#[inline(always)]
fn fetch(word: &u32, at: usize, lines: usize) {
    for line in 0..lines {
        prefetch_index(core::slice::from_ref(word), (line * LINE_BYTES).wrapping_sub(at) / size_of::<u32>());
    }
}

impl<O: Observer> Simulation<O> {
    /// Whether it is worth it.
    pub(crate) fn is_vast(&self) -> bool {
        self.links.len() + self.connections.len() > MANY
    }

    /// Fetches what the next events touch, as far as they are known.
    #[inline(never)]
    pub(crate) fn foresee(&mut self) {
        let mut upcoming = core::mem::take(self.world.events.upcoming());
        self.fetch(&upcoming);
        upcoming.clear();
        *self.world.events.upcoming() = upcoming;
    }

    /// Fetches what the events of these tokens will touch. Each step reads what the one before has fetched.
    fn fetch(&self, upcoming: &[Token]) {
        let mut links = Few::default();
        for &token in upcoming {
            match Wake::of(token) {
                (Wake::Link, index) => {
                    self.links[index as usize].fetch();
                    links.push(index);
                }
                (Wake::TcpSender | Wake::TcpReceiver, index) => self.connections[index as usize].fetch(),
                _ => {}
            }
        }
        let mut routes = Few::default();
        for &index in links.all() {
            if let Some((route, packet)) = self.links[index as usize].plain_front() {
                self.programs.fetch(route);
                self.world.arena.fetch(packet);
                routes.push(route);
            }
        }
        let mut connections = Few::default();
        for &route in routes.all() {
            match self.programs.step(route) {
                Step::Link(next) => self.links[next.0 as usize].fetch(),
                Step::TcpData(connection) | Step::TcpAck(connection) => {
                    self.connections[connection as usize].fetch();
                    connections.push(connection);
                }
                _ => {}
            }
        }
        let mut flows = Few::default();
        for &connection in connections.all() {
            let flow = self.connections[connection as usize].flow;
            fetch(&self.flows[flow as usize].first_sink, offset_of!(Flow, first_sink), 1);
            // Data of the flow, and its acknowledgments.
            prefetch_index(&self.world.flows, 2 * flow as usize);
            prefetch_index(&self.world.flows, 2 * flow as usize + 1);
            flows.push(flow);
        }
        for &flow in flows.all() {
            prefetch_index(&self.sinks, self.flows[flow as usize].first_sink as usize);
        }
    }
}

/// No more than are told at once.
struct Few<T> {
    places: [T; UPCOMING_MAX],
    count: usize,
}

impl<T: Copy + Default> Default for Few<T> {
    fn default() -> Self {
        Self { places: [T::default(); UPCOMING_MAX], count: 0 }
    }
}

impl<T> Few<T> {
    fn push(&mut self, item: T) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = item;
            self.count += 1;
        }
    }

    fn all(&self) -> &[T] {
        &self.places[..self.count]
    }
}

impl Connection {
    fn fetch(&self) {
        fetch(&self.flow, offset_of!(Self, flow), size_of::<Self>() / LINE_BYTES);
    }
}

impl Link {
    fn fetch(&self) {
        fetch(self.word(), Self::WORD_AT, LINK_LINES);
    }
}
