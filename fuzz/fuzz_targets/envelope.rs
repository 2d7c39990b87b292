//! What gateways say to each other, as a peer may write it: any bytes are a message or none, and a message is read as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::core::envelope::{
    ENVELOPE_BYTES, Envelope, HEADER_BYTES, Hello, LINK_ADDRESS, PORT, is_message,
};
use tidegate_wire::ip;

fuzz_target!(|input: (bool, &[u8])| {
    let (is_bare, bytes) = input;
    let _ = Hello::decode(bytes);
    let mut packet = bytes.to_vec();
    if is_bare {
        // Headers that are right, so that what is behind them is what varies.
        packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(bytes);
        let udp_bytes = (bytes.len() + 8) as u16;
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
        packet[6..8].copy_from_slice(&[17, 1]);
        packet[8..24].copy_from_slice(&LINK_ADDRESS);
        packet[24..40].copy_from_slice(&LINK_ADDRESS);
        packet[40..42].copy_from_slice(&PORT.to_be_bytes());
        packet[42..44].copy_from_slice(&PORT.to_be_bytes());
        packet[44..46].copy_from_slice(&udp_bytes.to_be_bytes());
    }
    let Some(read) = ip::read(&packet) else { return };
    assert!(!is_bare || is_message(&read.headers));
    let Some((envelope, body)) = Envelope::read(&packet, &read) else { return };
    let mut room = vec![0; HEADER_BYTES + ENVELOPE_BYTES + body.len()];
    let length = envelope.write(body, &mut room).expect("there is room");
    let again = ip::read(&room[..length]).expect("what we write is a packet");
    assert_eq!(Envelope::read(&room[..length], &again), Some((envelope, body)));
});
