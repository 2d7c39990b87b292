//! What hosts send, receive and time.

use tidegate_mechanism::tcp::{Received, Transmit};
use tidegate_packet::{Colour, Dscp, Ecn, FlowId, Packet, TcpFlags, TcpHeader};
use tidegate_units::Time;

use super::{Carrier, Flow, Simulation};
use crate::arena::Carried;
use crate::counters::SinkCounters;
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::source::Act;
use crate::world::Wake;

/// What a segment has of its flow.
#[derive(Clone, Copy)]
struct Along {
    flow: FlowId,
    /// Where it begins in the programs of the flow.
    route: u32,
    dscp: Dscp,
    class: u8,
}

impl Along {
    /// A segment with data of the flow with this number.
    #[inline]
    fn data(number: u32, flow: &mut Flow) -> Self {
        Self { flow: FlowIds::data(number), route: flow.forward.choose(), dscp: flow.dscp, class: flow.class }
    }

    /// A bare acknowledgment of it.
    #[inline]
    fn acknowledgment(number: u32, flow: &mut Flow) -> Self {
        Self {
            flow: FlowIds::acknowledgments(number),
            route: flow.reverse.choose(),
            dscp: flow.dscp,
            class: flow.class,
        }
    }
}

impl<O: Observer> Simulation<O> {
    #[inline]
    pub(crate) fn count_received(sink: &mut SinkCounters, now: Time, packet: &Packet, created: Time) {
        let delay = (now - created).as_nanos();
        sink.received_packets += 1;
        sink.received_bytes += u64::from(packet.wire_bytes);
        sink.delay_nanos += u128::from(delay);
        sink.delay_nanos_min = sink.delay_nanos_min.min(delay);
        sink.delay_nanos_max = sink.delay_nanos_max.max(delay);
        sink.marked_packets += u64::from(packet.ecn == Ecn::Ce);
        if packet.dscp != Dscp::BEST_EFFORT && packet.dscp.colour() == Colour::Green {
            sink.priority_bytes += u64::from(packet.wire_bytes);
        }
    }

    /// Adds a one-way delay to the distribution of `sink`, if that is wanted.
    #[inline]
    pub(crate) fn watch_delay(&mut self, sink: u32, created: Time) {
        if let Some(Some(delays)) = self.sink_delays.get_mut(sink as usize) {
            delays
                .record((self.world.now - created).as_nanos())
                .expect("a distribution that grows takes any value");
        }
    }

    #[inline(never)]
    pub(super) fn on_datagram(&mut self, sink: u32, packet: &Packet) {
        let created = self.world.arena.get(packet).created;
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, self.world.now, packet, created);
        let Carrier::Datagrams { header_bytes } = self.flows[packet.flow.0 as usize / 2].carrier else {
            unreachable!("datagrams belong to flows of datagrams")
        };
        counters.goodput_bytes += u64::from(packet.wire_bytes.saturating_sub(header_bytes));
        self.watch_delay(sink, created);
        self.world.retire(packet);
    }

    #[inline(never)]
    pub(super) fn on_tcp_data(&mut self, index: u32, packet: &Packet) {
        if let Some(partner) = self.connections[index as usize].partner {
            self.on_tcp_segment(index, partner, packet);
        } else {
            let received = self.receive(index, packet);
            self.acknowledge(index, received.ack.as_ref());
        }
    }

    /// A segment of a connection with data in both directions: it has data for the receiver of `index`, an acknowledgment for the
    /// sender of `partner`, or both.
    fn on_tcp_segment(&mut self, index: u32, partner: u32, packet: &Packet) {
        let tcp = self.world.arena.get(packet).tcp;
        let is_bare = tcp.payload_bytes == 0 && !tcp.flags.contains(TcpFlags::SYN);
        let owed = if is_bare {
            // A router took it off the data that it rode on.
            self.world.retire(packet);
            None
        } else {
            self.receive_apart(index, packet)
        };
        let (now, is_syn) = (self.world.now, tcp.flags.contains(TcpFlags::SYN));
        let sender = &mut self.connections[partner as usize].sender;
        if !is_syn {
            sender.on_answer_heard(now);
        } else if owed.is_some() {
            sender.on_syn_answered(now);
        }
        if tcp.flags.contains(TcpFlags::ACK) {
            sender.on_ack(&tcp, now);
        }
        // What is owed rides on data if there is some to be sent now; the answer to a SYN goes by itself.
        let rode = self.pump(partner);
        let owed = owed.filter(|ack| !rode || ack.header.flags.contains(TcpFlags::SYN));
        self.acknowledge(index, owed.as_ref());
    }

    #[inline(never)]
    fn receive_apart(&mut self, index: u32, packet: &Packet) -> Option<Transmit> {
        self.receive(index, packet).ack
    }

    /// Data reached the receiver of `index`: what that made of it.
    #[expect(clippy::inline_always, reason = "two callers, of which the first is the way of most data")]
    #[inline(always)]
    fn receive(&mut self, index: u32, packet: &Packet) -> Received {
        let now = self.world.now;
        let &Carried { created, ref tcp, .. } = self.world.arena.get(packet);
        let connection = &mut self.connections[index as usize];
        let sink = self.flows[connection.flow as usize].first_sink;
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, now, packet, created);
        let received = connection.receiver.on_segment(tcp, packet.ecn, now);
        counters.goodput_bytes += received.delivered_bytes;
        self.world.retire(packet);
        self.watch_delay(sink, created);
        received
    }

    /// Sends the acknowledgment that the receiver owes now, if any, and arms its timer.
    #[expect(clippy::inline_always, reason = "once per segment; of its callers one is the way of most data")]
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, index: u32, ack: Option<&Transmit>) {
        let connection = &mut self.connections[index as usize];
        if let Some(deadline) = connection.receiver.timer_at() {
            connection.receive_alarm.arm(deadline, Wake::TcpReceiver.token(index), &mut self.world.events);
        }
        if let Some(ack) = ack {
            let flow = connection.flow;
            let along = Along::acknowledgment(flow, &mut self.flows[flow as usize]);
            self.send_segment(along, ack);
        }
    }

    #[inline(never)]
    fn send_segment(&mut self, along: Along, segment: &Transmit) {
        self.send_segment_here(along, segment);
    }

    /// The same, compiled into its caller.
    #[expect(clippy::inline_always, reason = "once per segment with data")]
    #[inline(always)]
    fn send_segment_here(&mut self, along: Along, segment: &Transmit) {
        let packet = self.make_segment(along, segment);
        self.send_often(&packet, along.route);
    }

    #[expect(clippy::inline_always, reason = "two callers, of which the first is the way of most segments")]
    #[inline(always)]
    fn make_segment(&mut self, along: Along, segment: &Transmit) -> Packet {
        let carried =
            Carried { created: self.world.now, route: 0, message: Carried::NO_MESSAGE, tcp: segment.header };
        let mut packet = self.world.create(along.flow, segment.wire_bytes, carried);
        packet.ecn = segment.ecn;
        // The transport's own marking (priorities of its congestion control) goes before the flow's.
        packet.dscp = if segment.dscp == Dscp::BEST_EFFORT { along.dscp } else { segment.dscp };
        packet.class = along.class;
        packet
    }

    /// The same, of a segment of connection `index` on which an acknowledgment may ride, or which is not to leave the host before
    /// `departs_at`.
    #[inline(never)]
    fn send_special_segment(&mut self, index: u32, mut segment: Transmit, departs_at: Time, along: Along) {
        if let Some(partner) = self.connections[index as usize].partner
            && !segment.header.flags.contains(TcpFlags::SYN)
        {
            self.connections[partner as usize].receiver.ride_on(&mut segment);
        }
        let packet = self.make_segment(along, &segment);
        if departs_at > self.world.now {
            self.world.departures.write(&packet, self.world.now, departs_at);
        }
        self.send(packet, along.route);
    }

    #[inline(never)]
    pub(super) fn on_tcp_ack(&mut self, index: u32, packet: &Packet) {
        if self.world.arena.get(packet).tcp.acknowledgment == 0 {
            self.on_opening_ack(index, packet);
        }
        let tcp = &self.world.arena.get(packet).tcp;
        self.connections[index as usize].sender.on_ack(tcp, self.world.now);
        self.world.retire(packet);
        self.pump(index);
    }

    /// Nothing is acknowledged yet. Where data goes both ways, the answer to a SYN is acknowledged before data goes, and who answered
    /// measures the round trip by that.
    #[cold]
    fn on_opening_ack(&mut self, index: u32, packet: &Packet) {
        let Some(partner) = self.connections[index as usize].partner else { return };
        if self.world.arena.get(packet).tcp.flags.contains(TcpFlags::SYN) {
            let ack = self.connections[partner as usize].receiver.on_answer();
            self.acknowledge(partner, Some(&ack));
        } else {
            self.connections[index as usize].sender.on_answer_heard(self.world.now);
        }
    }

    /// Sends all that the TCP sender may send now, and arms its timer. Whether it sent something.
    #[inline]
    pub(super) fn pump(&mut self, index: u32) -> bool {
        let now = self.world.now;
        let mut has_sent = false;
        loop {
            let connection = &mut self.connections[index as usize];
            let Some(segment) = connection.sender.poll_transmit(now) else {
                if let Some(deadline) = connection.sender.timer_at() {
                    let token = Wake::TcpSender.token(index);
                    connection.send_alarm.arm(deadline, token, &mut self.world.events);
                }
                return has_sent;
            };
            has_sent = true;
            let departs_at = connection.sender.departs_at();
            let is_special = departs_at > now || connection.partner.is_some();
            let flow = connection.flow;
            let along = Along::data(flow, &mut self.flows[flow as usize]);
            if is_special {
                self.send_special_segment(index, segment, departs_at, along);
            } else {
                self.send_segment_here(along, &segment);
            }
        }
    }

    pub(super) fn on_sender_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let connection = &mut self.connections[index as usize];
        if connection.send_alarm.fires(now) {
            if connection.sender.timer_at().is_some_and(|deadline| deadline <= now) {
                connection.sender.on_timer(now);
            }
            self.pump(index);
        }
    }

    pub(super) fn on_receiver_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let connection = &mut self.connections[index as usize];
        if connection.receive_alarm.fires(now) {
            let due = connection.receiver.timer_at().is_some_and(|deadline| deadline <= now);
            let ack = if due { connection.receiver.on_timer(now) } else { None };
            self.acknowledge(index, ack.as_ref());
        }
    }

    pub(super) fn on_source_alarm(&mut self, index: u32) {
        let now = self.world.now;
        if !self.flows[index as usize].source_alarm.fires(now) {
            return;
        }
        while let Some(act) = self.flows[index as usize].source.poll(now) {
            self.act(index, act);
        }
        let flow = &mut self.flows[index as usize];
        if let Some(next) = flow.source.next() {
            flow.source_alarm.arm(next, Wake::Source.token(index), &mut self.world.events);
        }
    }

    pub(super) fn act(&mut self, index: u32, act: Act) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        match (flow.carrier, act) {
            (Carrier::Datagrams { .. }, Act::Datagram(wire_bytes)) => {
                let route = flow.forward.choose();
                let carried = Carried {
                    created: now,
                    route: 0,
                    message: Carried::NO_MESSAGE,
                    tcp: TcpHeader::default(),
                };
                let mut packet = self.world.create(FlowIds::data(index), wire_bytes, carried);
                packet.dscp = flow.dscp;
                packet.ecn = flow.headers.ecn;
                packet.class = flow.class;
                self.send(packet, route);
            }
            (Carrier::Tcp(connection), act) => {
                let sender = &mut self.connections[connection as usize].sender;
                match act {
                    Act::Open(Some(bytes)) => sender.on_app_data(bytes),
                    Act::Open(None) => sender.set_unlimited(),
                    Act::Pause => sender.pause(now),
                    Act::Close => sender.stop(now),
                    Act::Datagram(_) => unreachable!("a TCP source offers bytes, not datagrams"),
                }
                self.pump(connection);
            }
            (Carrier::Stream(stream), act) => self.act_on_stream(stream, act),
            (Carrier::Datagrams { .. } | Carrier::External | Carrier::Crowd(_), _) => {}
        }
    }
}
