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
    pub(crate) fn on_data(&mut self, packet: &Packet, carried: &Carried, now: Time) -> Option<Departure> {
        match &mut self.ends {
            Ends::Tfrc { receiver, report_bytes, .. } => {
                receiver.on_data(&tfrc_data_of(carried), packet.ecn, now).map(|report| Departure {
                    wire_bytes: *report_bytes,
                    header: header_of_tfrc_report(&report),
                })
            }
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
    pub(crate) fn on_receive_timer(&mut self, now: Time) -> Option<Departure> {
        match &mut self.ends {
            Ends::Tfrc { receiver, report_bytes, .. } => {
                let due = receiver.timer_at().is_some_and(|deadline| deadline <= now);
                let report = if due { receiver.on_timer(now) } else { None };
                report.map(|report| Departure {
                    wire_bytes: *report_bytes,
                    header: header_of_tfrc_report(&report),
                })
            }
            Ends::Scream(ends) => {
                let report = ends.receiver.on_timer(now);
                report.map(|report| ends.keep(&report))
            }
        }
    }

    /// A report came.
    pub(crate) fn on_report(&mut self, header: &TcpHeader, now: Time) {
        match &mut self.ends {
            Ends::Tfrc { sender, .. } => sender.on_report(&tfrc_report_of(header), now),
            Ends::Scream(ends) => ends.on_report(header, now),
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

/// Reports that may be under way at once; one that so many overtook says nothing that they do not.
const REPORTS_MAX: usize = 256;

/// Both ends with `SCReAM`. A report is too long for a header, which therefore says its number: what it says is kept here.
#[derive(Debug)]
struct ScreamEnds {
    config: ScreamConfig,
    sender: ScreamSender,
    receiver: ScreamReceiver,
    /// By number modulo [`REPORTS_MAX`].
    reports: Box<[Option<scream::Report>]>,
    /// Reports made so far.
    made: u64,
}

impl ScreamEnds {
    fn new(config: &ScreamConfig) -> Self {
        Self {
            config: *config,
            sender: ScreamSender::new(config),
            receiver: ScreamReceiver::new(config),
            reports: vec![None; REPORTS_MAX].into_boxed_slice(),
            made: 0,
        }
    }

    fn on_data(&mut self, data: &scream::Data, ecn: Ecn, now: Time) -> Option<Departure> {
        let report = self.receiver.on_data(data, ecn, now)?;
        Some(self.keep(&report))
    }

    /// The packet that stands for `report`.
    fn keep(&mut self, report: &scream::Report) -> Departure {
        let number = self.made;
        self.made += 1;
        self.reports[number as usize % REPORTS_MAX] = Some(*report);
        Departure {
            wire_bytes: self.config.report_bytes(u32::from(report.len)),
            header: TcpHeader { sequence: number, ..TcpHeader::default() },
        }
    }

    fn on_report(&mut self, header: &TcpHeader, now: Time) {
        if let Some(report) = self.kept(header) {
            self.sender.on_report(&report, now);
        }
    }

    /// What the packet says, unless too many others were made since.
    fn kept(&self, header: &TcpHeader) -> Option<scream::Report> {
        let number = header.sequence;
        let is_kept = number < self.made && self.made - number <= REPORTS_MAX as u64;
        self.reports[number as usize % REPORTS_MAX].filter(|_| is_kept)
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

    #[test]
    fn a_report_that_256_others_overtook_is_lost_and_a_later_one_is_not() {
        let mut ends = ScreamEnds::new(&ScreamConfig::default());
        let mut headers = Vec::new();
        for sequence in 0..300 {
            // One packet and one report a picture.
            let data = scream::Data { sequence, bytes: 500, is_last: true, made: Time::ZERO };
            headers.extend(ends.on_data(&data, Ecn::NotEct, Time::ZERO).map(|departure| departure.header));
        }
        assert_eq!(headers.len(), 300);
        assert_eq!(ends.kept(&headers[43]), None);
        for number in [44, 299] {
            let report = ends.kept(&headers[number]).expect("it is among the last 256");
            assert_eq!(report.packets().last().map(|(sequence, _)| sequence), Some(number as u64));
        }
        assert_eq!(ends.kept(&TcpHeader { sequence: 300, ..TcpHeader::default() }), None, "not made yet");
    }
}
