//! Real packets: headers are read, written back and answered, whatever the bytes are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_packet::{Dscp, Ecn, OutsideTcp};
use tidegate_wire::icmp::{self, Trouble};
use tidegate_wire::ip;

fuzz_target!(|bytes: &[u8]| {
    let Some(about) = ip::read(bytes) else { return };
    let mut out = [0; 1500];
    for trouble in [Trouble::TimeExceeded, Trouble::TooBig(1280)] {
        if let Some(length) = icmp::answer(bytes, trouble, ([10, 0, 0, 1], [0xfd; 16]), &mut out) {
            assert!(ip::read(&out[..length]).is_some(), "an answer is a packet");
            let again = icmp::answer(&out[..length], trouble, ([10, 0, 0, 1], [0xfd; 16]), &mut [0; 1500]);
            assert_eq!(again, None, "an answer has none");
        }
    }
    let mut packet = bytes.to_vec();
    ip::write(&mut packet, Ecn::Ce, Dscp::EF, 1);
    let written = ip::read(&packet).expect("it is still a packet");
    assert_eq!((written.headers.ecn, written.headers.dscp, written.ttl), (Ecn::Ce, Dscp::EF, 1));
    if let Some((offset, tcp)) = ip::read_tcp(&mut packet, &about) {
        let mut bare = Vec::new();
        for payload_bytes in [tcp.payload_bytes, 0] {
            ip::write_tcp(&mut packet, offset, &OutsideTcp { window: 1, payload_bytes, ..tcp }, &mut bare);
        }
        assert_eq!(packet.len(), bytes.len());
    }
});
