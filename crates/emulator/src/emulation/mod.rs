//! Real packets through the simulated network, without clock, input or output: the world around it reads and writes packets
//! and says what time it is.
//!
//! Time in the network is virtual. What is due runs with its due instant as `now`, however late; a packet comes in at the
//! instant at which it was read. So a mechanism sees an ideal network, what it does follows from the packets read and their
//! instants alone, and lateness touches only when a packet gets to its host. It is measured there and at every event.

mod connections;
mod counts;
mod port;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Write;

use serde_json::{Value, json};
use tidegate_engine::{NodeId, Observer, Simulation};
use tidegate_lab::{Outcome, Run};
use tidegate_packet::{Arrival, Dscp, Ecn, OutsideTcp};
use tidegate_units::Time;
use tidegate_wire::flows::{Assigned, FlowTable};
use tidegate_wire::icmp::{self, Trouble};
use tidegate_wire::ip::{self, Written};
use tidegate_wire::recording::{Record, Writer};
use tidegate_wire::{Buffer, Pool};

use crate::address;
use crate::lateness::Lateness;
use crate::setup::{Setup, SetupError};

pub(crate) use connections::{Connections, Totals, protocol_name};
pub use counts::Counts;
pub use port::Departure;
use port::{BUFFER_BITS, Expired, Port};

/// Answers to packets that could not go on, under way at once; further such packets have none, as behind a router that is busy.
const ANSWERS_MAX: usize = 1000;
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 1280;

/// See the module.
#[derive(Debug)]
pub struct Emulation<W: Write> {
    setup: Setup,
    run: Run<Port<W>>,
    flows: FlowTable,
    connections: Connections,
    pool: Pool,
    /// By buffer: when its packet came in.
    entered: Box<[Time]>,
    /// Answers that are under way: when they are due, where, and in which buffer.
    answers: BinaryHeap<Reverse<(Time, u64, u32, u32)>>,
    /// By buffer: where the TCP header of its packet begins; zero if it has none.
    segments: Box<[u16]>,
    /// An acknowledgment that goes on without the data that it came with.
    bare: Vec<u8>,
    mtu_bytes: u16,
    /// By node: which real host it is.
    host_of_node: Vec<Option<u32>>,
    /// A buffer to read the next packet into.
    next_buffer: Option<Buffer>,
    serial: u64,
    /// The number of events handled, by lateness.
    pub event_lateness: Lateness,
    /// The number of packets handed over, by lateness.
    pub delivery_lateness: Lateness,
    /// See [`Counts`].
    pub counts: Counts,
}

impl<W: Write> Emulation<W> {
    /// Builds the network of `setup` with `buffers` buffers of `mtu_bytes`, of which it is recorded what happens if
    /// `recording` is given.
    ///
    /// # Errors
    /// As [`Setup::start`].
    pub fn start(
        setup: Setup,
        buffers: u32,
        mtu_bytes: usize,
        recording: Option<W>,
    ) -> Result<Self, SetupError> {
        let flows = setup.flow_table();
        let port = Port {
            to: setup.receivers(),
            departures: VecDeque::with_capacity(buffers as usize),
            freed: Vec::with_capacity(buffers as usize),
            expired: Vec::new(),
            shared: Vec::new(),
            recording: recording.map(|out| Writer::new(out, &setup.configuration)),
        };
        let run = setup.start(port)?;
        let mut host_of_node = vec![None; setup.scenario.nodes.len()];
        for (host, &node) in setup.real.iter().enumerate() {
            host_of_node[node as usize] = Some(host as u32);
        }
        assert!(buffers < 1 << BUFFER_BITS, "a handle names its buffer");
        Ok(Self {
            run,
            flows,
            connections: Connections::new(Time::ZERO + setup.scenario.warmup),
            pool: Pool::new(buffers, mtu_bytes),
            entered: vec![Time::ZERO; buffers as usize].into(),
            answers: BinaryHeap::new(),
            segments: vec![0; buffers as usize].into(),
            bare: Vec::with_capacity(mtu_bytes),
            mtu_bytes: u16::try_from(mtu_bytes).unwrap_or(u16::MAX),
            host_of_node,
            setup,
            next_buffer: None,
            serial: 0,
            event_lateness: Lateness::default(),
            delivery_lateness: Lateness::default(),
            counts: Counts::default(),
        })
    }

    /// Records to `out` what happens, before anything has.
    pub fn record_to(&mut self, out: W) {
        self.run.observer_mut().recording = Some(Writer::new(out, &self.setup.configuration));
    }

    /// What it was built from.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The network, and the connections that have had a flow.
    pub(crate) const fn parts(&mut self) -> (&mut Simulation<impl Observer + use<W>>, &Connections) {
        (self.run.simulation(), &self.connections)
    }

    /// Room for the next packet to be read; `None` while too many packets are in the network.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.next_buffer.is_none() {
            self.next_buffer = self.pool.take();
        }
        self.next_buffer.map(|buffer| self.pool.room(buffer))
    }

    /// The packet of `bytes` bytes in the room came from real host `from` at `at`.
    pub fn arrive(&mut self, from: u32, bytes: usize, at: Time) {
        match self.next_buffer.take() {
            Some(buffer) => self.enter(from, buffer, bytes, at),
            None => self.counts.unbuffered_packets += 1,
        }
    }

    /// The same of `packet`, which stands elsewhere, and is no larger than [`Self::mtu_bytes`].
    pub fn arrive_copied(&mut self, from: u32, packet: &[u8], at: Time) {
        if let Some(room) = self.room() {
            room[..packet.len()].copy_from_slice(packet);
        }
        self.arrive(from, packet.len(), at);
    }

    /// The largest packet.
    pub fn mtu_bytes(&self) -> usize {
        usize::from(self.mtu_bytes)
    }

    /// `count` packets, of which one at least is too large, came together from real host `from` at `at`, and begin as `beginning`
    /// does: none of them enters.
    pub fn arrive_oversized(&mut self, from: u32, beginning: &[u8], count: usize, at: Time) {
        self.counts.oversized_packets += count as u64;
        let Some(buffer) = self.pool.take() else { return };
        let room = self.pool.room(buffer);
        let bytes = beginning.len().min(room.len());
        room[..bytes].copy_from_slice(&beginning[..bytes]);
        self.pool.set_length(buffer, bytes);
        let neighbour = self.setup.neighbours[from as usize];
        self.answer(buffer, Trouble::TooBig(self.mtu_bytes), neighbour, at, at);
        self.pool.release(buffer);
    }

    /// The packet of `bytes` bytes in `buffer` came from real host `from` at `at`.
    fn enter(&mut self, from: u32, buffer: Buffer, bytes: usize, at: Time) {
        self.pool.set_length(buffer, bytes);
        let read = ip::read(self.pool.packet(buffer));
        let to = read.and_then(|read| {
            let node = address::node_of(read.headers.destination)?;
            (*self.host_of_node.get(node as usize)?).filter(|&to| to != from)
        });
        let (Some(read), Some(to)) = (read, to) else {
            self.counts.stray_packets += 1;
            self.pool.release(buffer);
            return;
        };
        if read.bytes as usize > bytes {
            if bytes >= usize::from(self.mtu_bytes) {
                // The host's device was given a larger size, and this is the beginning of a packet.
                self.counts.oversized_packets += 1;
                let neighbour = self.setup.neighbours[from as usize];
                self.answer(buffer, Trouble::TooBig(self.mtu_bytes), neighbour, at, at);
            } else {
                // It is not what its header says.
                self.counts.stray_packets += 1;
            }
            self.pool.release(buffer);
            return;
        }
        self.counts.arrived_packets += 1;
        self.advance(at);
        let assigned = self.flows.assign(from, to, &read.headers, read.fragment, at);
        let flow = assigned.flow();
        if let Assigned::New(_) = assigned {
            self.record(&Record::Headers(flow, read.headers));
            self.run.set_headers(flow, read.headers);
            let counted = Totals::of_flow(self.run.simulation(), flow as usize);
            self.connections.begin(read.headers.flow_key(), flow, at, counted);
        }
        self.entered[buffer.0 as usize] = at;
        let (offset, tcp) = ip::read_tcp(self.pool.packet(buffer), &read).unzip();
        self.segments[buffer.0 as usize] = offset.unwrap_or(0);
        let arrival = Arrival {
            flow,
            handle: self.serial << BUFFER_BITS | u64::from(buffer.0),
            wire_bytes: bytes as u32,
            ecn: read.headers.ecn,
            dscp: read.headers.dscp,
            ttl: read.ttl,
            tcp,
        };
        self.serial += 1;
        self.record(&Record::Arrival(at, arrival));
        self.run.inject(&arrival, at);
        self.collect();
    }

    /// Node `node` answers at `at` to the packet in `buffer`. The answer does not go through the network, of which it is no part:
    /// it takes as long as the packet took, from when it `entered`.
    fn answer(&mut self, buffer: Buffer, trouble: Trouble, node: NodeId, entered: Time, at: Time) {
        let router = (address::ipv4(node.0).octets(), address::ipv6(node.0).octets());
        let mut bytes = [0; ANSWER_BYTES_MAX];
        let packet = self.pool.packet(buffer);
        let host = ip::read(packet).and_then(|read| {
            let sender = address::node_of(read.headers.source)?;
            *self.host_of_node.get(sender as usize)?
        });
        let (Some(length), Some(host)) = (icmp::answer(packet, trouble, router, &mut bytes), host) else {
            return;
        };
        if self.answers.len() >= ANSWERS_MAX {
            return;
        }
        let Some(own) = self.pool.take() else { return };
        let room = self.pool.room(own);
        let length = length.min(room.len());
        room[..length].copy_from_slice(&bytes[..length]);
        self.pool.set_length(own, length);
        self.segments[own.0 as usize] = 0;
        self.counts.answers += 1;
        self.answers.push(Reverse((at + at.since(entered), self.counts.answers, host, own.0)));
    }

    fn record(&mut self, record: &Record) {
        if let Some(recording) = &mut self.run.observer_mut().recording {
            recording.write(record);
        }
    }

    /// It is `now`: runs what is due.
    pub fn advance(&mut self, now: Time) {
        self.catch_up(now, now);
    }

    /// It is `now`: runs what is due at `until` or before, which is late by as much more.
    pub fn catch_up(&mut self, until: Time, now: Time) {
        let mut has_run = false;
        let lateness = &mut self.event_lateness;
        self.run.advance_to(until, |due| {
            has_run = true;
            lateness.record(due, now);
        });
        if has_run {
            self.record(&Record::Ran(until));
        }
        self.collect();
    }

    /// Takes back the buffers of packets that were dropped, after those that have several packets are known.
    fn collect(&mut self) {
        while let Some(expired) = self.run.observer_mut().expired.pop() {
            let Expired { node, at, buffer, ecn, dscp, ttl } = expired;
            // What is told of it is how it got there.
            ip::write(self.pool.packet(buffer), ecn, dscp, ttl);
            self.answer(buffer, Trouble::TimeExceeded, node, self.entered[buffer.0 as usize], at);
        }
        let port = self.run.observer_mut();
        for buffer in port.shared.drain(..) {
            self.pool.share(buffer);
        }
        for buffer in port.freed.drain(..) {
            self.pool.release(buffer);
        }
    }

    /// When something is due next.
    pub fn next_event(&self) -> Option<Time> {
        let answer = self.answers.peek().map(|Reverse((due, ..))| *due);
        self.run.next_event().into_iter().chain(answer).min()
    }

    /// To which instant it can be ended without running more: `now`, unless something that was due before has not run.
    pub fn reached(&mut self, now: Time) -> Time {
        let is_behind = self.run.next_event().is_some_and(|due| due < now);
        if is_behind { self.run.simulation().now().min(now) } else { now }
    }

    /// The next packet for a real host: those that came through the network in the order of their instants, then answers of
    /// routers.
    pub fn next_departure(&mut self) -> Option<Departure> {
        let departure = self.run.observer_mut().departures.pop_front();
        departure.or_else(|| {
            let now = self.run.simulation().now();
            let is_due = |Reverse((due, ..)): &Reverse<(Time, u64, u32, u32)>| *due <= now;
            self.answers.peek().filter(|answer| is_due(answer))?;
            let Reverse((due, _, host, buffer)) = self.answers.pop()?;
            let buffer = Buffer(buffer);
            // As it was written.
            let ttl = ip::read(self.pool.packet(buffer)).map_or(0, |read| read.ttl);
            let (ecn, dscp, tcp) = (Ecn::NotEct, Dscp::BEST_EFFORT, OutsideTcp::default());
            Some(Departure { host, due, buffer, ecn, dscp, ttl, tcp })
        })
    }

    /// The bytes of a departing packet, with what the network changed.
    pub fn packet(&mut self, departure: &Departure) -> &[u8] {
        let packet = self.pool.packet(departure.buffer);
        let offset = self.segments[departure.buffer.0 as usize];
        if offset == 0 {
            ip::write(packet, departure.ecn, departure.dscp, departure.ttl);
            return packet;
        }
        // Its data, which share the buffer, may leave before or after it.
        let packet = match ip::write_tcp(packet, offset, &departure.tcp, &mut self.bare) {
            Written::InPlace => packet,
            Written::Bare => &mut self.bare[..],
        };
        ip::write(packet, departure.ecn, departure.dscp, departure.ttl);
        packet
    }

    /// The bytes of a departing packet are not needed any more.
    pub fn release(&mut self, departure: Departure) {
        self.pool.release(departure.buffer);
    }

    /// A packet due at `due` was handed to its host at `actual`; or the host did not take it.
    pub fn delivered(&mut self, due: Time, actual: Time, is_taken: bool) {
        if is_taken {
            self.counts.delivered_packets += 1;
            self.delivery_lateness.record(due, actual);
        } else {
            self.counts.refused_packets += 1;
        }
    }

    /// Whether what was due ran within a millisecond, 99 times of 100, and every packet that hosts sent had a buffer.
    pub fn has_kept_up(&self) -> bool {
        self.event_lateness.quantile_us(0.99) <= 1e3
            && self.delivery_lateness.quantile_us(0.99) <= 1e3
            && self.counts.unbuffered_packets == 0
            && self.counts.device_dropped_packets == 0
    }

    /// The network, to look at.
    pub const fn run(&mut self) -> &mut Run<impl Observer + use<W>> {
        &mut self.run
    }

    /// Ends it at `now`: the results, and how the recording went.
    pub fn finish(mut self, now: Time) -> (Outcome, Value, Option<std::io::Result<W>>) {
        self.advance(now);
        while let Some(departure) = self.next_departure() {
            self.pool.release(departure.buffer);
        }
        for Reverse((.., buffer)) in self.answers.drain() {
            self.pool.release(Buffer(buffer));
        }
        if let Some(buffer) = self.next_buffer.take() {
            self.pool.release(buffer);
        }
        let end = self.run.simulation().now();
        let kept_up = self.has_kept_up();
        let Self { run, connections, setup, event_lateness, delivery_lateness, counts, .. } = self;
        let (outcome, port) = run.finish();
        let mut results = json!({
            "kept_up": kept_up,
            "lateness": { "events": event_lateness.to_json(), "deliveries": delivery_lateness.to_json() },
        });
        counts.add_to(&mut results);
        results["connections"] = connections.to_json(&setup, &outcome).into();
        results["connections_left_out"] = json!(connections.left_out());
        (outcome, results, port.recording.map(|recording| recording.finish(end)))
    }
}
