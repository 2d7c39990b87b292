//! TCP-friendly rate control.

use tidegate_mechanism::tfrc::TfrcConfig;

use super::bytes32;
use crate::model::Tfrc;

/// The parameters of a stream.
pub fn tfrc(config: &Tfrc) -> TfrcConfig {
    TfrcConfig {
        packet_bytes: bytes32(config.packet),
        header_bytes: bytes32(config.header),
        report_bytes: bytes32(config.report),
        max_rate: config.max_rate,
        ecn: config.ecn,
    }
}
