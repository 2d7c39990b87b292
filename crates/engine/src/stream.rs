//! A media stream with TCP-friendly rate control: what there is of it at both ends.

use tidegate_mechanism::tfrc::{TfrcConfig, TfrcReceiver, TfrcSender};

use crate::world::Alarm;

/// Both ends of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Which flow it is.
    pub(crate) flow: u32,
    pub(crate) sender: TfrcSender,
    pub(crate) receiver: TfrcReceiver,
    pub(crate) header_bytes: u32,
    pub(crate) report_bytes: u32,
    pub(crate) send_alarm: Alarm,
    pub(crate) receive_alarm: Alarm,
}

impl Stream {
    pub(crate) fn new(flow: u32, config: &TfrcConfig) -> Self {
        Self {
            flow,
            sender: TfrcSender::new(config),
            receiver: TfrcReceiver::new(config),
            header_bytes: config.header_bytes(),
            report_bytes: config.report_bytes(),
            send_alarm: Alarm::default(),
            receive_alarm: Alarm::default(),
        }
    }
}
