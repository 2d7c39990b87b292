//! Real packets through the simulated network, without clock, input or output: the world around it reads and writes packets
//! and says what time it is.
//!
//! Time in the network is virtual. What is due runs with its due instant as `now`, however late; a packet comes in at the
//! instant at which it was read. So a mechanism sees an ideal network, what it does follows from the packets read and their
//! instants alone, and lateness touches only when a packet gets to its host. It is measured there and at every event.

use std::collections::VecDeque;
use std::io::Write;

use serde_json::{Value, json};
use tidegate_engine::{Arrival, Carried, LinkId, Observer, Place};
use tidegate_lab::{Outcome, Run};
use tidegate_packet::{DropReason, Dscp, Ecn, FlowKey, MarkReason, Packet};
use tidegate_units::Time;

use crate::flows::{Assigned, FlowTable};
use crate::lateness::Lateness;
use crate::pool::{Buffer, Pool};
use crate::recording::{Decision, Record, Verdict, Writer};
use crate::setup::{Setup, SetupError};
use crate::{address, ip};

/// Bits of a handle that name the buffer; the others count packets.
const BUFFER_BITS: u32 = 24;

/// A packet that leaves the network for its host.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Which of the real hosts.
    pub host: u32,
    /// When its last bit arrived there.
    pub due: Time,
    /// Where its bytes are.
    pub buffer: Buffer,
    ecn: Ecn,
    dscp: Dscp,
    ttl: u8,
    /// Of its TCP header; meaningless if it has none.
    window: u16,
}

/// What the simulation tells: which packets leave, which buffers are free again, and the verdicts if they are recorded.
#[derive(Debug)]
struct Port<W> {
    /// By number of a flow: to which real host; none for simulated flows.
    to: Vec<Option<u32>>,
    departures: VecDeque<Departure>,
    freed: Vec<Buffer>,
    /// Once for each copy that a medium made.
    shared: Vec<Buffer>,
    recording: Option<Writer<W>>,
}

const fn buffer_of(carried: &Carried) -> Buffer {
    Buffer((carried.handle() & ((1 << BUFFER_BITS) - 1)) as u32)
}

impl<W: Write> Port<W> {
    /// The host for which a packet of this flow identity is; none for simulated packets.
    fn host_of(&self, packet: &Packet) -> Option<u32> {
        // Even identities are of data; real acknowledgments are data of flows of their own.
        let flow = packet.flow.0.is_multiple_of(2).then_some(packet.flow.0 / 2)?;
        self.to.get(flow as usize).copied().flatten()
    }

    fn record(&mut self, at: Time, verdict: impl FnOnce() -> Verdict, packet: &Packet, carried: &Carried) {
        if let Some(recording) = &mut self.recording {
            recording.write(&Record::Decision(Decision::new(at, verdict(), packet, carried)));
        }
    }
}

impl<W: Write> Observer for Port<W> {
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        self.record(now, || Verdict::Hop(link, message.unwrap_or_default().to_vec()), packet, carried);
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        self.record(now, || Verdict::Drop(place, why), packet, carried);
        if self.host_of(packet).is_some() {
            self.freed.push(buffer_of(carried));
        }
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        self.record(now, || Verdict::Mark(place, why), packet, carried);
    }
    fn on_duplicate(&mut self, _now: Time, packet: &Packet, carried: &Carried) {
        if self.host_of(packet).is_some() {
            self.shared.push(buffer_of(carried));
        }
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        self.record(now, || Verdict::Out(carried.outside_window()), packet, carried);
        let host = self.host_of(packet).expect("only packets of real flows leave");
        self.departures.push_back(Departure {
            host,
            due: now,
            buffer: buffer_of(carried),
            ecn: packet.ecn,
            dscp: packet.dscp,
            ttl: packet.ttl,
            window: carried.outside_window(),
        });
    }
}

/// Counts of what never entered the network, or left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets that real hosts sent into the network.
    pub arrived_packets: u64,
    /// Packets that the network handed to real hosts.
    pub delivered_packets: u64,
    /// Packets for no real host: multicast, neighbour discovery, strange addresses.
    pub stray_packets: u64,
    /// Packets for which there was no buffer.
    pub unbuffered_packets: u64,
    /// Packets that a host's device did not take.
    pub refused_packets: u64,
}

/// A connection that had a flow, for results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flow: u32,
    pub(crate) key: FlowKey,
}

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
        ip::write(packet, departure.ecn, departure.dscp, departure.ttl);
        let offset = self.segments[departure.buffer.0 as usize];
        if offset > 0 {
            ip::write_window(packet, offset, departure.window);
        }
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

    /// Whether what was due ran within a millisecond, 99 times of 100, and every packet had a buffer.
    pub fn has_kept_up(&self) -> bool {
        self.event_lateness.quantile_us(0.99) <= 1e3
            && self.delivery_lateness.quantile_us(0.99) <= 1e3
            && self.counts.unbuffered_packets == 0
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
        let (outcome, port) = self.run.finish();
        let statistics = outcome.summary.statistics();
        let window = statistics.until.since(statistics.since).as_secs_f64();
        let per_second = |bytes: u64| if window > 0.0 { bytes as f64 * 8.0 / window } else { 0.0 };
        let connections: Vec<Value> = self
            .seen
            .iter()
            .map(|seen| {
                let counters = &statistics.flows[2 * seen.flow as usize];
                let sink = &statistics.sinks[seen.flow as usize][0];
                let delay = (sink.received_packets > 0)
                    .then(|| sink.delay_nanos as f64 / 1e6 / sink.received_packets as f64);
                // Of the scenario, if it is one of those.
                let flow = self.setup.own.iter().find(|own| own.flow == seen.flow);
                let flow = flow.map(|own| &self.setup.scenario.flows[own.flow as usize].name);
                json!({
                    "flow": flow,
                    "protocol": protocol_name(seen.key.protocol.0),
                    "source": address::to_ip(seen.key.source),
                    "source_port": seen.key.source_port,
                    "destination": address::to_ip(seen.key.destination),
                    "destination_port": seen.key.destination_port,
                    "throughput_bps": per_second(sink.received_bytes),
                    "sent_packets": counters.sent_packets,
                    "received_packets": sink.received_packets,
                    "lost_packets": counters.lost_packets,
                    "marked_packets": counters.marked_packets,
                    "delay_ms_mean": delay,
                })
            })
            .collect();
        let counts = self.counts;
        let emulation = json!({
            "kept_up": kept_up,
            "lateness": {
                "events": self.event_lateness.to_json(),
                "deliveries": self.delivery_lateness.to_json(),
            },
            "arrived_packets": counts.arrived_packets,
            "delivered_packets": counts.delivered_packets,
            "stray_packets": counts.stray_packets,
            "unbuffered_packets": counts.unbuffered_packets,
            "refused_packets": counts.refused_packets,
            "connections": connections,
        });
        (outcome, emulation, port.recording.map(|recording| recording.finish(end)))
    }
}

pub(crate) fn protocol_name(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}
