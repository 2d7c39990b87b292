//! What a device hands over with segmentation offload is taken apart or refused; what is joined has the length of its parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_units::Time;
use tidegate_wire::offload::{Inbound, Outbox};

fuzz_target!(|input: (Vec<u8>, Vec<Vec<u8>>)| {
    let (mut read, packets) = input;
    if let Ok(inbound) = Inbound::new(&mut read) {
        let (count, largest, mut given) = (inbound.count(), inbound.largest_bytes(), 0);
        let split = inbound.each(|packet| {
            given += 1;
            assert!(packet.len() <= largest);
        });
        assert_eq!(given, if split.is_ok() { count } else { 0 });
    }
    let mut outbox = Outbox::default();
    for packet in packets.iter().filter(|packet| packet.len() < 3000) {
        if !outbox.add(packet, Time::ZERO) {
            let whole = outbox.packet().len();
            assert!(whole <= 65_600, "{whole} bytes");
            outbox.clear();
            assert!(outbox.add(packet, Time::ZERO), "there is nothing before it");
        }
    }
});
