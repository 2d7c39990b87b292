//! A media stream: what there is of it at both ends.
//!
//! What packets say travels where the header of a segment would: a field of its own would cost every packet.

use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::scream::{self, ScreamConfig, ScreamReceiver, ScreamSender};
use tidegate_mechanism::tfrc::{self, TfrcReceiver, TfrcSender};
use tidegate_packet::{Ecn, Packet, TcpHeader};
use tidegate_units::{Span, Time};

use crate::arena::Carried;
use crate::world::Alarm;

/// Both ends of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Which flow it is.
    pub(crate) flow: u32,
    ends: Ends,
    pub(crate) header_bytes: u32,
    pub(crate) send_alarm: Alarm,
    pub(crate) receive_alarm: Alarm,
}

/// By transport.
#[derive(Debug)]
enum Ends {
    Tfrc { sender: Box<TfrcSender>, receiver: Box<TfrcReceiver>, report_bytes: u32 },
    Scream(Box<ScreamEnds>),
}

/// A packet that an end sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) wire_bytes: u32,
    pub(crate) header: TcpHeader,
}

/// A report that an end sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) departure: Departure,
    /// What it says, if that has no room in the header.
    pub(crate) more: Option<scream::Report>,
}

impl From<Departure> for Reported {
    fn from(departure: Departure) -> Self {
        Self { departure, more: None }
    }
}

impl Stream {
    pub(crate) fn new(flow: u32, config: &MediaConfig) -> Self {
        let (ends, header_bytes) = match config {
            MediaConfig::Tfrc(tfrc) => {
                let (sender, receiver) = (TfrcSender::new(tfrc).into(), TfrcReceiver::new(tfrc).into());
                (Ends::Tfrc { sender, receiver, report_bytes: tfrc.report_bytes() }, tfrc.header_bytes())
            }
            MediaConfig::Scream(scream) => {
                (Ends::Scream(Box::new(ScreamEnds::new(scream))), scream.header_bytes())
            }
        };
        Self { flow, ends, header_bytes, send_alarm: Alarm::default(), receive_alarm: Alarm::default() }
    }

    /// The medium begins.
    pub(crate) fn start(&mut self, now: Time) {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.start(),
            Ends::Scream(ends) => ends.sender.start(now),
        }
    }

    /// It pauses.
    pub(crate) const fn pause(&mut self) {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.pause(),
            Ends::Scream(ends) => ends.sender.pause(),
        }
    }

    /// The packet of data that is due, if one is.
    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<Departure> {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.poll_transmit(now).map(|data| Departure {
                wire_bytes: sender.packet_bytes(),
                header: header_of_tfrc_data(&data),
            }),
            Ends::Scream(ends) => ends
                .sender
                .poll_transmit(now)
                .map(|data| Departure { wire_bytes: data.bytes, header: header_of_scream_data(&data) }),
        }
    }

    /// When [`Self::on_send_timer`] wants to be called.
    pub(crate) fn send_at(&self) -> Option<Time> {
        match &self.ends {
            Ends::Tfrc { sender, .. } => sender.timer_at(),
            Ends::Scream(ends) => ends.sender.timer_at(),
        }
    }

    /// Time passed for the sender.
    pub(crate) fn on_send_timer(&mut self, now: Time) {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.on_timer(now),
            // What is due is found when it is asked for.
            Ends::Scream(_) => {}
        }
    }

    /// A packet of data came: the report that is due, if one is.
    pub(crate) fn on_data(&mut self, packet: &Packet, carried: &Carried, now: Time) -> Option<Reported> {
        match &mut self.ends {
            Ends::Tfrc { receiver, report_bytes, .. } => receiver
                .on_data(&tfrc_data_of(carried), packet.ecn, now)
                .map(|report| departure_of(&report, *report_bytes).into()),
            Ends::Scream(ends) => {
                let data = scream_data_of(&carried.tcp, packet.wire_bytes);
                ends.on_data(&data, packet.ecn, now)
            }
        }
    }

    /// When [`Self::on_receive_timer`] wants to be called.
    pub(crate) fn receive_at(&self) -> Option<Time> {
        match &self.ends {
            Ends::Tfrc { receiver, .. } => receiver.timer_at(),
            Ends::Scream(ends) => ends.receiver.timer_at(),
        }
    }

    /// Time passed for the receiver: the report that is due, if one is.
    pub(crate) fn on_receive_timer(&mut self, now: Time) -> Option<Reported> {
        match &mut self.ends {
            Ends::Tfrc { receiver, report_bytes, .. } => {
                let due = receiver.timer_at().is_some_and(|deadline| deadline <= now);
                let report = if due { receiver.on_timer(now) } else { None };
                report.map(|report| departure_of(&report, *report_bytes).into())
            }
            Ends::Scream(ends) => {
                let report = ends.receiver.on_timer(now);
                report.map(|report| ends.reported(report))
            }
        }
    }

    /// A report came, with `more` than its header says, if it has more.
    pub(crate) fn on_report(&mut self, header: &TcpHeader, more: Option<&scream::Report>, now: Time) {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.on_report(&tfrc_report_of(header), now),
            Ends::Scream(ends) => {
                if let Some(report) = more {
                    ends.sender.on_report(report, now);
                }
            }
        }
    }

    /// An inner variable of the sender by name.
    pub(crate) fn variable(&self, name: &str, now: Time) -> Option<f64> {
        match &self.ends {
            Ends::Tfrc { sender, .. } => sender.variable(name),
            Ends::Scream(ends) => ends.sender.variable(name, now),
        }
    }
}

fn header_of_tfrc_data(data: &tfrc::Data) -> TcpHeader {
    TcpHeader { sequence: data.sequence, acknowledgment: data.rtt.as_nanos(), ..TcpHeader::default() }
}

/// The same; the time stamp of data is when it was made.
fn tfrc_data_of(carried: &Carried) -> tfrc::Data {
    tfrc::Data {
        sequence: carried.tcp.sequence,
        timestamp: carried.created,
        rtt: Span::from_nanos(carried.tcp.acknowledgment),
    }
}

fn departure_of(report: &tfrc::Report, wire_bytes: u32) -> Departure {
    Departure { wire_bytes, header: header_of_tfrc_report(report) }
}

fn header_of_tfrc_report(report: &tfrc::Report) -> TcpHeader {
    TcpHeader {
        sequence: report.timestamp.as_nanos(),
        acknowledgment: report.delay.as_nanos(),
        payload_bytes: report.received,
        window_bytes: report.loss_interval,
        ..TcpHeader::default()
    }
}

fn tfrc_report_of(header: &TcpHeader) -> tfrc::Report {
    tfrc::Report {
        timestamp: Time::from_nanos(header.sequence),
        delay: Span::from_nanos(header.acknowledgment),
        received: header.payload_bytes,
        loss_interval: header.window_bytes,
    }
}

fn header_of_scream_data(data: &scream::Data) -> TcpHeader {
    TcpHeader {
        sequence: data.sequence,
        acknowledgment: data.made.as_nanos(),
        payload_bytes: u32::from(data.is_last),
        ..TcpHeader::default()
    }
}

const fn scream_data_of(header: &TcpHeader, wire_bytes: u32) -> scream::Data {
    scream::Data {
        sequence: header.sequence,
        bytes: wire_bytes,
        is_last: header.payload_bytes > 0,
        made: Time::from_nanos(header.acknowledgment),
    }
}

/// Both ends with `SCReAM`. A report is too long for a header, which therefore says its number: what it says travels beside it
/// ([`crate::arena::Reports`]).
#[derive(Debug)]
struct ScreamEnds {
    config: ScreamConfig,
    sender: ScreamSender,
    receiver: ScreamReceiver,
    /// Reports made so far.
    made: u64,
}

impl ScreamEnds {
    fn new(config: &ScreamConfig) -> Self {
        Self {
            config: *config,
            sender: ScreamSender::new(config),
            receiver: ScreamReceiver::new(config),
            made: 0,
        }
    }

    fn on_data(&mut self, data: &scream::Data, ecn: Ecn, now: Time) -> Option<Reported> {
        let report = self.receiver.on_data(data, ecn, now)?;
        Some(self.reported(report))
    }

    /// The packet that stands for `report`.
    fn reported(&mut self, report: scream::Report) -> Reported {
        let number = self.made;
        self.made += 1;
        let departure = Departure {
            wire_bytes: self.config.report_bytes(u32::from(report.len)),
            header: TcpHeader { sequence: number, ..TcpHeader::default() },
        };
        Reported { departure, more: Some(report) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packets_say_arrives_as_it_was_sent() {
        let data = scream::Data { sequence: 7, bytes: 900, is_last: true, made: Time::from_nanos(5) };
        assert_eq!(scream_data_of(&header_of_scream_data(&data), 900), data);
        let report = tfrc::Report {
            timestamp: Time::from_nanos(1),
            delay: Span::from_nanos(2),
            received: 3,
            loss_interval: 4,
        };
        assert_eq!(tfrc_report_of(&header_of_tfrc_report(&report)), report);
    }
}
