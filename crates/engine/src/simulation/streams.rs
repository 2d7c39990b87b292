//! Media streams: a sender, a receiver, and reports on the way back.

use tidegate_packet::{FlowId, Packet};

use super::{Carrier, Simulation};
use crate::arena::Carried;
use crate::ids::FlowIds;
use crate::observer::Observer;
use crate::source::Act;
use crate::stream::{Departure, Reported};
use crate::world::Wake;

impl<O: Observer> Simulation<O> {
    pub(super) fn act_on_stream(&mut self, index: u32, act: Act) {
        let stream = &mut self.streams[index as usize];
        match act {
            Act::Open(_) => stream.start(self.world.now),
            Act::Pause | Act::Close => stream.pause(),
            Act::Datagram(_) => unreachable!("a stream sends when its rate allows it"),
        }
        self.pump_stream(index);
    }

    /// Sends what the stream may send now, and arms its timer.
    fn pump_stream(&mut self, index: u32) {
        let now = self.world.now;
        let flow = self.streams[index as usize].flow;
        while let Some(departure) = self.streams[index as usize].poll_transmit(now) {
            let route = self.flows[flow as usize].forward.choose();
            self.send_of_stream(FlowIds::data(flow), &departure.into(), route);
        }
        let stream = &mut self.streams[index as usize];
        if let Some(deadline) = stream.send_at() {
            stream.send_alarm.arm(deadline, Wake::StreamSender.token(index), &mut self.world.events);
        }
    }

    fn send_of_stream(&mut self, id: FlowId, reported: &Reported, route: u32) {
        let Departure { wire_bytes, header: tcp } = reported.departure;
        let carried = Carried { created: self.world.now, route: 0, message: Carried::NO_MESSAGE, tcp };
        let mut packet = self.world.create(id, wire_bytes, carried);
        let flow = &self.flows[id.0 as usize / 2];
        packet.dscp = flow.dscp;
        packet.class = flow.class;
        packet.ecn = flow.headers.ecn;
        if let Some(report) = &reported.more {
            self.world.reports.write(&packet, tcp.sequence, report);
        }
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
        let report = stream.on_data(packet, &carried, now);
        self.watch_delay(sink, carried.created);
        self.world.retire(packet);
        self.report_of_stream(index, report);
    }

    /// Sends the report that is due, if one is, and arms the receiver's timer.
    fn report_of_stream(&mut self, index: u32, report: Option<Reported>) {
        let stream = &mut self.streams[index as usize];
        if let Some(deadline) = stream.receive_at() {
            stream.receive_alarm.arm(deadline, Wake::StreamReceiver.token(index), &mut self.world.events);
        }
        if let Some(report) = report {
            let flow = stream.flow;
            let route = self.flows[flow as usize].reverse.choose();
            self.send_of_stream(FlowIds::acknowledgments(flow), &report, route);
        }
    }

    pub(super) fn on_stream_report(&mut self, index: u32, packet: &Packet) {
        let header = self.world.arena.get(packet).tcp;
        self.world.retire(packet);
        let more = self.world.reports.of(packet, header.sequence);
        self.streams[index as usize].on_report(&header, more, self.world.now);
        self.pump_stream(index);
    }

    pub(super) fn on_stream_sender_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let stream = &mut self.streams[index as usize];
        if stream.send_alarm.fires(now) {
            stream.on_send_timer(now);
            self.pump_stream(index);
        }
    }

    pub(super) fn on_stream_receiver_alarm(&mut self, index: u32) {
        let now = self.world.now;
        let stream = &mut self.streams[index as usize];
        if stream.receive_alarm.fires(now) {
            let report = stream.on_receive_timer(now);
            self.report_of_stream(index, report);
        }
    }

    /// An inner variable of the sending end of flow `flow`, if it is a media stream that has one of this name.
    pub fn media_variable(&self, flow: usize, name: &str) -> Option<f64> {
        if let Some(parts) = &self.divided {
            return parts.source(flow).media_variable(flow, name);
        }
        match self.flows[flow].carrier {
            Carrier::Stream(index) => self.streams[index as usize].variable(name, self.world.now),
            _ => None,
        }
    }
}
