//! Media streams with TCP-friendly rate control: a sender, a receiver, and reports on the way back.

use tidegate_mechanism::tfrc::{Data, Report, TfrcSender};
use tidegate_packet::{FlowId, Packet, TcpHeader};
use tidegate_units::{Span, Time};

use super::{Carrier, Simulation};
use crate::arena::Carried;
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::source::Act;
use crate::world::Wake;

/// What a packet of data says travels where the header of a segment would: a field of its own would cost every packet.
fn header_of_data(data: &Data) -> TcpHeader {
    TcpHeader { sequence: data.sequence, acknowledgment: data.rtt.as_nanos(), ..TcpHeader::default() }
}

/// The same; the time stamp of data is when it was made.
fn data_of(carried: &Carried) -> Data {
    Data {
        sequence: carried.tcp.sequence,
        timestamp: carried.created,
        rtt: Span::from_nanos(carried.tcp.acknowledgment),
    }
}

fn header_of_report(report: &Report) -> TcpHeader {
    TcpHeader {
        sequence: report.timestamp.as_nanos(),
        acknowledgment: report.delay.as_nanos(),
        payload_bytes: report.received,
        window_bytes: report.loss_interval,
        ..TcpHeader::default()
    }
}

fn report_of(header: &TcpHeader) -> Report {
    Report {
        timestamp: Time::from_nanos(header.sequence),
        delay: Span::from_nanos(header.acknowledgment),
        received: header.payload_bytes,
        loss_interval: header.window_bytes,
    }
}

impl<O: Observer> Simulation<O> {
    pub(super) fn act_on_stream(&mut self, index: u32, act: Act) {
        let sender = &mut self.streams[index as usize].sender;
        match act {
            Act::Open(_) => sender.start(),
            Act::Pause | Act::Close => sender.pause(),
            Act::Datagram(_) => unreachable!("a stream sends when its rate allows it"),
        }
        self.pump_stream(index);
    }

    /// Sends what the stream may send now, and arms its timer.
    fn pump_stream(&mut self, index: u32) {
        let now = self.world.now;
        let flow = self.streams[index as usize].flow;
        while let Some(data) = self.streams[index as usize].sender.poll_transmit(now) {
            let route = self.flows[flow as usize].forward.choose();
            let bytes = self.streams[index as usize].sender.packet_bytes();
            self.send_of_stream(FlowIds::data(flow), bytes, header_of_data(&data), route);
        }
        let stream = &mut self.streams[index as usize];
        if let Some(deadline) = stream.sender.timer_at() {
            stream.send_alarm.arm(deadline, Wake::StreamSender.token(index), &mut self.world.events);
        }
    }

    fn send_of_stream(&mut self, id: FlowId, wire_bytes: u32, header: TcpHeader, route: u32) {
        let carried =
            Carried { created: self.world.now, route: 0, message: Carried::NO_MESSAGE, tcp: header };
        let mut packet = self.world.create(id, wire_bytes, carried);
        let flow = &self.flows[id.0 as usize / 2];
        packet.dscp = flow.dscp;
        packet.class = flow.class;
        packet.ecn = flow.headers.ecn;
        self.tell_sent(&packet);
        // A third caller would end the inlining of `send`.
        self.advance(packet, route);
    }

    pub(super) fn on_stream_data(&mut self, index: u32, packet: &Packet) {
        let now = self.world.now;
        let carried = *self.world.arena.get(packet);
        let stream = &mut self.streams[index as usize];
        let sink = self.flows[stream.flow as usize].first_sink;
        let counters = &mut self.sinks[sink as usize];
        Self::count_received(counters, now, packet, carried.created);
        counters.goodput_bytes += u64::from(packet.wire_bytes.saturating_sub(stream.header_bytes));
        let report = stream.receiver.on_data(&data_of(&carried), packet.ecn, now);
        self.watch_delay(sink, carried.created);
        self.world.retire(packet);
        self.report_of_stream(index, report);
    }

    /// Sends the report that is due, if one is, and arms the receiver's timer.
    fn report_of_stream(&mut self, index: u32, report: Option<Report>) {
        let stream = &mut self.streams[index as usize];
        if let Some(deadline) = stream.receiver.timer_at() {
            stream.receive_alarm.arm(deadline, Wake::StreamReceiver.token(index), &mut self.world.events);
        }
        if let Some(report) = report {
            let (flow, bytes) = (stream.flow, stream.report_bytes);
            let route = self.flows[flow as usize].reverse.choose();
            self.send_of_stream(FlowIds::acknowledgments(flow), bytes, header_of_report(&report), route);
        }
    }

    pub(super) fn on_stream_report(&mut self, index: u32, packet: &Packet) {
        let report = report_of(&self.world.arena.get(packet).tcp);
        self.world.retire(packet);
        self.streams[index as usize].sender.on_report(&report, self.world.now);
        self.pump_stream(index);
    }

    pub(super) fn on_stream_sender_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let stream = &mut self.streams[index as usize];
        if stream.send_alarm.fires(now) {
            stream.sender.on_timer(now);
            self.pump_stream(index);
        }
    }

    pub(super) fn on_stream_receiver_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let stream = &mut self.streams[index as usize];
        if stream.receive_alarm.fires(now) {
            let due = stream.receiver.timer_at().is_some_and(|deadline| deadline <= now);
            let report = if due { stream.receiver.on_timer(now) } else { None };
            self.report_of_stream(index, report);
        }
    }

    /// The sending end of flow `flow`, if it is a stream with rate control.
    pub fn tfrc_sender(&self, flow: usize) -> Option<&TfrcSender> {
        match self.flows[flow].carrier {
            Carrier::Stream(index) => Some(&self.streams[index as usize].sender),
            _ => None,
        }
    }
}
