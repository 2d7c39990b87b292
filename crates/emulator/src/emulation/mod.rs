//! Real packets through the simulated network, without clock, input or output: the world around it reads and writes packets
//! and says what time it is.
//!
//! Time in the network is virtual. What is due runs with its due instant as `now`, however late; a packet comes in at the
//! instant at which it was read. So a mechanism sees an ideal network, what it does follows from the packets read and their
//! instants alone, and lateness touches only when a packet gets to its host. It is measured there and at every event.

mod port;
mod results;

use std::collections::VecDeque;
use std::io::Write;

use serde_json::{Value, json};
use tidegate_engine::Observer;
use tidegate_lab::{Outcome, Run};
use tidegate_packet::{Arrival, FlowKey};
use tidegate_units::Time;
use tidegate_wire::flows::{Assigned, FlowTable};
use tidegate_wire::ip::{self, Written};
use tidegate_wire::recording::{Record, Writer};
use tidegate_wire::{Buffer, Pool};

use crate::address;
use crate::lateness::Lateness;
use crate::setup::{Setup, SetupError};

pub use port::Departure;
use port::{BUFFER_BITS, Port};
pub use results::Counts;
use results::connections;
pub(crate) use results::{Seen, protocol_name};

/// See the module.
#[derive(Debug)]
pub struct Emulation<W: Write> {
    setup: Setup,
    run: Run<Port<W>>,
    flows: FlowTable,
    seen: Vec<Seen>,
    pool: Pool,
    /// By buffer: where the TCP header of its packet begins; zero if it has none.
    segments: Box<[u16]>,
    /// An acknowledgment that goes on without the data that it came with.
    bare: Vec<u8>,
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
            setup,
            run,
            flows,
            seen: Vec::new(),
            pool: Pool::new(buffers, mtu_bytes),
            segments: vec![0; buffers as usize].into(),
            bare: Vec::with_capacity(mtu_bytes),
            host_of_node,
            next_buffer: None,
            serial: 0,
            event_lateness: Lateness::default(),
            delivery_lateness: Lateness::default(),
            counts: Counts::default(),
        })
    }

    /// What it was built from.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The connections that have had a flow.
    pub(crate) fn seen(&self) -> &[Seen] {
        &self.seen
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

    /// `count` packets came from real host `from` at `at`: `fill` writes them into as many rooms, and their lengths. All of
    /// them are lost if there is not room for each.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn arrive_together<E>(
        &mut self,
        from: u32,
        count: usize,
        at: Time,
        fill: impl FnOnce(&mut [&mut [u8]], &mut [usize]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffers: Vec<Buffer> = std::iter::from_fn(|| self.pool.take()).take(count).collect();
        let mut lengths = vec![0; count];
        let filled = if buffers.len() == count {
            fill(&mut self.pool.rooms(&mut buffers), &mut lengths)
        } else {
            self.counts.unbuffered_packets += count as u64;
            lengths.clear();
            Ok(())
        };
        if filled.is_err() || lengths.is_empty() {
            for buffer in buffers {
                self.pool.release(buffer);
            }
            return filled;
        }
        for (buffer, bytes) in buffers.into_iter().zip(lengths) {
            self.enter(from, buffer, bytes, at);
        }
        Ok(())
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
        self.counts.arrived_packets += 1;
        self.advance(at);
        let flow = match self.flows.assign(from, to, &read.headers, at) {
            Assigned::Known(flow) | Assigned::Shared(flow) => flow,
            Assigned::New(flow) => {
                self.record(&Record::Headers(flow, read.headers));
                self.run.set_headers(flow, read.headers);
                self.see(flow, read.headers.flow_key());
                flow
            }
        };
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

    /// The flow serves this connection; of several in turn the last one names it.
    fn see(&mut self, flow: u32, key: FlowKey) {
        match self.seen.iter_mut().find(|seen| seen.flow == flow) {
            Some(seen) => seen.key = key,
            None => self.seen.push(Seen { flow, key }),
        }
    }

    fn record(&mut self, record: &Record) {
        if let Some(recording) = &mut self.run.observer_mut().recording {
            recording.write(record);
        }
    }

    /// It is `now`: runs what is due.
    pub fn advance(&mut self, now: Time) {
        let mut has_run = false;
        let lateness = &mut self.event_lateness;
        self.run.advance_to(now, |due| {
            has_run = true;
            lateness.record(due, now);
        });
        if has_run {
            self.record(&Record::Ran(now));
        }
        self.collect();
    }

    /// Takes back the buffers of packets that were dropped, after those that have several packets are known.
    fn collect(&mut self) {
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
        self.run.next_event()
    }

    /// The next packet for a real host, in the order of their instants.
    pub fn next_departure(&mut self) -> Option<Departure> {
        self.run.observer_mut().departures.pop_front()
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
        if let Some(buffer) = self.next_buffer.take() {
            self.pool.release(buffer);
        }
        let end = self.run.simulation().now();
        let kept_up = self.has_kept_up();
        let Self { run, seen, setup, event_lateness, delivery_lateness, counts, .. } = self;
        let (outcome, port) = run.finish();
        let mut results = json!({
            "kept_up": kept_up,
            "lateness": { "events": event_lateness.to_json(), "deliveries": delivery_lateness.to_json() },
        });
        counts.add_to(&mut results);
        results["connections"] = connections(&seen, &setup, &outcome).into();
        (outcome, results, port.recording.map(|recording| recording.finish(end)))
    }
}
