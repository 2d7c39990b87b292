//! Cells: what a packet costs on an ATM circuit.
//!
//! Source: ITU-T I.363.5 (AAL5) and I.361 (the cell), as in Pazos and Gerla, section 5; ATM Forum, Traffic Management 4.0
//! (RM cells).

use super::MESSAGE_HEADER_BYTES;

/// Bytes of a cell.
pub const CELL_BYTES: u32 = 53;
/// Bytes that a cell carries.
pub const CELL_PAYLOAD_BYTES: u32 = 48;
/// The trailer of AAL5 behind each packet.
pub const AAL5_TRAILER_BYTES: u32 = 8;

/// Bytes of the cells that carry a packet by AAL5.
pub const fn aal5_bytes(packet_bytes: u32) -> u32 {
    packet_bytes.saturating_add(AAL5_TRAILER_BYTES).div_ceil(CELL_PAYLOAD_BYTES).saturating_mul(CELL_BYTES)
}

/// Bytes of the cells that carry a message between neighbours of `wire_bytes` with its headers. One that fits into a cell
/// travels as an RM cell, which needs neither IP nor AAL5.
pub const fn message_bytes(wire_bytes: u32) -> u32 {
    if wire_bytes <= MESSAGE_HEADER_BYTES + CELL_PAYLOAD_BYTES { CELL_BYTES } else { aal5_bytes(wire_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tcp_segment_takes_23_cells() {
        assert_eq!(aal5_bytes(1064), 1219);
        assert_eq!(aal5_bytes(40), 53, "an acknowledgment takes one");
        assert_eq!(aal5_bytes(41), 106);
    }

    #[test]
    fn a_short_message_is_one_cell() {
        assert_eq!(message_bytes(MESSAGE_HEADER_BYTES + 15), 53);
        assert_eq!(message_bytes(MESSAGE_HEADER_BYTES + 49), aal5_bytes(MESSAGE_HEADER_BYTES + 49));
    }
}
