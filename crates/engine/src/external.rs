//! Packets from outside: how a world with real hosts drives a simulation.
//!
//! [`Simulation::step`] handles one event that is due, [`Simulation::inject`] brings in a packet, and the observer is told
//! of each that leaves again ([`Observer::on_external`]) or is dropped. Time remains virtual: every event has its due
//! instant as `now`, however late the caller is. So what happens depends on the packets brought in and their instants alone,
//! and not on when the caller looked: the same calls of `inject` give the same run, in real time or later.

use tidegate_packet::{Arrival, Headers};
use tidegate_units::Time;

use crate::arena::Carried;
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::outside;
use crate::simulation::{Carrier, Simulation};

impl<O: Observer> Simulation<O> {
    /// When the next event is due. It may turn out that nothing happens then.
    pub fn next_event(&self) -> Option<Time> {
        self.world.events.peek()
    }

    /// Handles the next event if it is due at `until` or before; when it was due.
    pub fn step(&mut self, until: Time) -> Option<Time> {
        if self.next_event()? > until {
            return None;
        }
        let (due, token) = self.world.events.pop()?;
        self.world.now = due;
        self.world.totals.events += 1;
        self.handle(token);
        Some(due)
    }

    /// Handles every event that is due at `until` or before; then it is `until`, unless it was later already.
    pub fn step_until(&mut self, until: Time) {
        while self.step(until).is_some() {}
        self.world.now = self.world.now.max(until);
    }

    /// `arrival` comes in at `at`, after every event of that instant; at the present instant if that is later.
    ///
    /// # Panics
    /// If the flow is none for packets from outside.
    pub fn inject(&mut self, arrival: &Arrival, at: Time) {
        self.step_until(at);
        let now = self.world.now;
        let flow = &mut self.flows[arrival.flow as usize];
        assert!(
            matches!(flow.carrier, Carrier::External),
            "flow {} takes no packets from outside",
            arrival.flow
        );
        let route = flow.forward.choose();
        let class = flow.class;
        let tcp = outside::pack(arrival.tcp.unwrap_or_default(), arrival.handle);
        let carried = Carried { created: now, route: 0, message: Carried::NO_MESSAGE, tcp };
        let mut packet = self.world.create(FlowIds::data(arrival.flow), arrival.wire_bytes, carried);
        packet.ecn = arrival.ecn;
        packet.dscp = arrival.dscp;
        packet.class = class;
        packet.ttl = arrival.ttl.max(1);
        self.advance(packet, route);
    }

    /// From now on classifiers see `headers` on the packets of flow `flow`.
    ///
    /// # Panics
    /// If the flow is none for packets from outside.
    pub fn set_headers(&mut self, flow: u32, headers: Headers) {
        let ends = &mut self.world.ends[flow as usize];
        (ends.source, ends.destination) = (headers.source, headers.destination);
        let flow = &mut self.flows[flow as usize];
        assert!(matches!(flow.carrier, Carrier::External), "the headers of simulated flows are fixed");
        flow.headers = headers;
    }

    /// The observer, to change.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.world.observer
    }

    pub(crate) fn on_external(&mut self, sink: u32, packet: &tidegate_packet::Packet) {
        let carried = *self.world.arena.get(packet);
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, self.world.now, packet, carried.created);
        self.watch_delay(sink, carried.created);
        self.world.observer.on_external(self.world.now, packet, &carried);
        self.world.retire(packet);
    }
}
