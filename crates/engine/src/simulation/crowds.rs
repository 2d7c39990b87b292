//! The connections of crowds: opened, fed and let go as their applications order.

use tidegate_mechanism::random::Seed;
use tidegate_packet::{Packet, TcpFlags};
use tidegate_units::Span;

use super::{Carrier, ConnectionCounters, Flow, Simulation, Statistics};
use crate::crowd::{self, Crowd, IdleTimes, Order, Way};
use crate::event::EventQueue;
use crate::network::{Network, TransportSpec};
use crate::observer::Observer;
use crate::world::Wake;

/// Which place of which crowd a connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdPlace {
    crowd: u32,
    place: crowd::Place,
    way: Way,
}

/// The crowds of `network` in the run of `seed`, and the place of each of `connections`, if there are crowds.
pub(crate) fn build(
    network: &Network,
    flows: &[Flow],
    connections: usize,
    seed: u64,
    events: &mut EventQueue,
) -> (Vec<Crowd>, Vec<CrowdPlace>) {
    let nowhere = CrowdPlace { crowd: u32::MAX, place: 0, way: Way::Down };
    let mut places = Vec::new();
    let mut crowds = Vec::with_capacity(network.crowds.len());
    for (number, spec) in (0..).zip(&network.crowds) {
        places.resize(connections, nowhere);
        let first = &network.flows[spec.places[0] as usize];
        let TransportSpec::Tcp(config) = &first.transport else { panic!("the places of a crowd are TCP") };
        let connection_of = |flow: u32| match flows[flow as usize].carrier {
            Carrier::Crowd(connection) => connection,
            _ => panic!("a place of a crowd has `ApplicationSpec::Crowd`"),
        };
        let asking = |place: usize| spec.asking.get(place).copied().map(connection_of);
        let taken: Vec<(u32, Option<u32>)> =
            (0..spec.places.len()).map(|place| (connection_of(spec.places[place]), asking(place))).collect();
        for (&(down, up), place) in taken.iter().zip(0..) {
            places[down as usize] = CrowdPlace { crowd: number, place, way: Way::Down };
            if let Some(up) = up {
                places[up as usize] = CrowdPlace { crowd: number, place, way: Way::Up };
            }
        }
        let seed = Seed::for_component(seed, &format!("flows.{}.source", first.name));
        let config = (**config).clone();
        let mut crowd = Crowd::new(spec, &taken, config, first.start, first.stop, seed);
        if let Some(next) = crowd.next() {
            crowd.alarm.arm(next, Wake::Crowd.token(number), events);
        }
        crowds.push(crowd);
    }
    (crowds, places)
}

impl<O: Observer> Simulation<O> {
    pub(super) fn on_crowd_alarm(&mut self, number: u32) {
        let now = self.world.now;
        let crowd = &mut self.crowds[number as usize];
        if !crowd.alarm.fires(now) {
            return;
        }
        crowd.on_alarm(now);
        self.follow_orders(number);
    }

    /// Does what a crowd wants done, and arms its alarm.
    fn follow_orders(&mut self, number: u32) {
        while let Some(order) = self.crowds[number as usize].poll() {
            let crowd = &self.crowds[number as usize];
            match order {
                Order::Open(place) => {
                    let (down, up) = crowd.connections(place);
                    self.connections[down as usize].begin(crowd.down_config());
                    if let Some(up) = up {
                        self.connections[up as usize].begin(&crowd.config);
                    }
                }
                Order::Send(place, way, bytes) => {
                    let (down, up) = crowd.connections(place);
                    let connection = if way == Way::Down { down } else { up.unwrap_or(down) };
                    self.connections[connection as usize].sender.on_app_data(bytes);
                    self.pump(connection);
                }
                Order::Connect(place) => {
                    let (_, up) = crowd.connections(place);
                    if let Some(up) = up {
                        self.connections[up as usize].sender.connect();
                        self.pump(up);
                    }
                }
                // All of it may have been acknowledged long ago.
                Order::Close(place) => {
                    self.release_if_over(number, place);
                }
            }
        }
        let crowd = &mut self.crowds[number as usize];
        if let Some(next) = crowd.next() {
            crowd.alarm.arm(next, Wake::Crowd.token(number), &mut self.world.events);
        }
    }

    /// Whether `packet` is of a connection that was in this place before: its host knows it no longer.
    fn is_stale(&mut self, CrowdPlace { crowd, place, .. }: CrowdPlace, packet: &Packet) -> bool {
        let created = self.world.arena.get(packet).created;
        let is_stale = created < self.crowds[crowd as usize].opened(place);
        if is_stale {
            self.world.retire(packet);
        }
        is_stale
    }

    #[inline(never)]
    pub(super) fn on_crowd_data(&mut self, index: u32, packet: &Packet) {
        let at = self.places[index as usize];
        if self.is_stale(at, packet) {
            return;
        }
        self.on_tcp_data(index, packet);
        let (now, delivered) = (self.world.now, self.connections[index as usize].receiver.delivered_bytes());
        if self.crowds[at.crowd as usize].on_delivered(at.place, at.way, delivered, now) {
            self.follow_orders(at.crowd);
        }
        // An acknowledgment of the other direction may have come with it.
        if self.release_if_over(at.crowd, at.place) {
            self.follow_orders(at.crowd);
        }
    }

    #[inline(never)]
    pub(super) fn on_crowd_ack(&mut self, index: u32, packet: &Packet) {
        let at = self.places[index as usize];
        if self.is_stale(at, packet) {
            return;
        }
        let is_connected = self.world.arena.get(packet).tcp.flags.contains(TcpFlags::SYN);
        self.on_tcp_ack(index, packet);
        if is_connected && at.way == Way::Up {
            self.crowds[at.crowd as usize].on_connected(at.place, self.world.now);
            self.follow_orders(at.crowd);
        }
        if self.release_if_over(at.crowd, at.place) {
            self.follow_orders(at.crowd);
        }
    }

    /// Lets the connection in this place go if all is sent and acknowledged; whether it was.
    fn release_if_over(&mut self, number: u32, place: crowd::Place) -> bool {
        let crowd = &mut self.crowds[number as usize];
        let (down, up) = crowd.connections(place);
        let acknowledged = |connection: u32| self.connections[connection as usize].sender.acked_bytes();
        let is_over = crowd.is_over(place, acknowledged(down), up.map_or(0, acknowledged));
        if is_over {
            let counted = self.connections[down as usize].counters();
            crowd.release(place, &counted, self.world.now);
        }
        is_over
    }

    pub(super) fn restart_crowds(&mut self) {
        for number in 0..self.crowds.len() {
            let counted = self.crowd_counts(number);
            self.crowds[number].restart_statistics(&counted, self.world.now);
        }
    }

    /// What the connections of crowd `number` have counted since the start of the run.
    fn crowd_counts(&self, number: usize) -> ConnectionCounters {
        let crowd = &self.crowds[number];
        let mut counted = crowd.over;
        for place in crowd.live() {
            let (down, _) = crowd.connections(place);
            counted.add(&self.connections[down as usize].counters());
        }
        counted
    }

    /// The places of a crowd count together, at the first of them.
    pub(super) fn add_crowds(&self, statistics: &mut Statistics) {
        for (number, (crowd, spec)) in self.crowds.iter().zip(&self.network.crowds).enumerate() {
            let (first, others) = spec.places.split_first().expect("a crowd has places");
            for &other in others {
                for way in 0..2 {
                    let more = statistics.flows[(2 * other + way) as usize];
                    statistics.flows[(2 * first + way) as usize].add(&more);
                }
            }
            let counted = self.crowd_counts(number).since(&crowd.before);
            statistics.connections[*first as usize] = Some(counted);
            statistics.crowds.insert(*first, crowd.tally(self.world.now));
        }
    }

    /// The flows that count together with `flow`: all places of its crowd if it is the first of them; else itself.
    pub(crate) fn counted_with(&self, flow: usize) -> &[u32] {
        let Carrier::Crowd(connection) = self.flows[flow].carrier else { return &[] };
        match self.places[connection as usize] {
            CrowdPlace { crowd, place: 0, way: Way::Down } => {
                &self.network.crowds[crowd as usize].places[1..]
            }
            CrowdPlace { .. } => &[],
        }
    }

    /// What crowd `number` may compare the times of its transfers with.
    pub fn set_idle_times(&mut self, number: usize, times: IdleTimes) {
        self.crowds[number].set_idle_times(times);
    }

    /// How long each transfer of a probe took ([`crate::ActivitySpec::Probe`]), in its order; nothing for other crowds.
    pub fn probed(&self, number: usize) -> &[(u64, Span)] {
        self.crowds[number].probed()
    }

    /// An inner variable of the crowd of which `flow` is the first place, by name.
    pub fn crowd_variable(&self, flow: usize, name: &str) -> Option<f64> {
        let Carrier::Crowd(connection) = self.flows[flow].carrier else { return None };
        self.crowds[self.places[connection as usize].crowd as usize].variable(name, self.world.now)
    }
}
